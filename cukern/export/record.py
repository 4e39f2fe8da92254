"""Launches of a function, recorded on a GPU that is not here, as programs.

The function runs with examples, and where it launches users' kernels alone, again with arrays of other sizes, from
which the formulas of its numbers are found. What it computes is compared with what its program computes from other
values.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..array import Array, creation
from ..device.interface import CompilerFailure, Prepared
from ..device.recording import Recording
from ..device.recording.gpu import RecordedGpu
from ..device.recording.library import Memory, address
from ..errors import CukernError
from ..kernel.arguments import is_tensor_map
from ..text import Dim3
from ..text.signature import Unit
from . import formulas
from .program import Buffer, Launch, Number, Place, Program, Words

#: Bytes of a constant that an exported folder may have.
_LARGEST_CONSTANT = 1 << 16


class Failure(CukernError):
    """What a function computes cannot be written as launches of kernels."""


class _Launched(NamedTuple):
    function: Any
    unit: Unit
    grid: Dim3
    block: Dim3
    shared: int
    values: tuple[Any, ...]
    content: tuple[bytes, ...]


class _Known:
    """All memory of the GPU that is not here, which stays, so that addresses are not used again."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.sizes: dict[int, int] = {}
        self.kept: list[Any] = []
        self.cleared: set[int] = set()

    def add(self, data: Any, nbytes: int) -> Any:
        at = address(data)
        if at not in self.sizes:
            bisect.insort(self.starts, at)
        self.sizes[at] = max(1, nbytes)
        self.kept.append(data)
        return data

    def place(self, at: int) -> tuple[int, int]:
        """The start of the memory that has an address, and its offset there.

        Raises:
            Failure: it is none of the GPU's.
        """
        i = bisect.bisect_right(self.starts, at) - 1
        if i < 0 or at >= self.starts[i] + self.sizes[self.starts[i]]:
            raise Failure("a kernel is given memory that was made in another way than by cukern's functions")
        return self.starts[i], at - self.starts[i]


class _Memory(Memory):
    """Memory that notes that it is set to zeros."""

    known: _Known | None = None

    def memset_async(self, value: int, nbytes: int) -> None:
        super().memset_async(value, nbytes)
        if self.known is not None and not value:
            self.known.cleared.add(self.ptr)


class _Function:
    """A kernel that notes its launches."""

    def __init__(self, function: Any, unit: Unit, gpu: ExportGpu) -> None:
        self._function, self._unit, self._gpu = function, unit, gpu
        self.attributes, self.variables = function.attributes, function.variables
        self.read_variable, self.write_variable = function.read_variable, function.write_variable
        self._kinds = [one.kind for one in unit.signature.params]

    def __call__(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        given = [address(one) if isinstance(one, np.ndarray) else one for one in values]
        self._note(grid, block, shared, given)
        self._function(grid, block, shared, values)

    def prepare(
        self, grid: Dim3, block: Dim3, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Prepared:
        """See :class:`..device.interface.CompiledFunction`."""
        run = self._function.prepare(grid, block, shared, tail, structs)

        def launch(*values: Any) -> None:
            self._note(grid, block, shared, [*values, *tail])
            run(*values)

        return launch

    def _note(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        launches, known = self._gpu.launches, self._gpu.known
        if launches is None:
            return
        given, before = [], []
        for one, value in zip(self._unit.signature.params, values, strict=True):
            content = b""
            if one.kind == "pointer" and value:
                start, _ = known.place(value)
                if known.sizes[start] <= _LARGEST_CONSTANT:
                    content = ctypes.string_at(start, known.sizes[start])
            elif one.kind not in ("pointer", "scalar", "struct") or is_tensor_map(one):
                raise Failure(
                    f"{self._unit.signature.name}: parameter {one.name}, {one.type_text}: what is exported takes "
                    "pointers, numbers and structs"
                )
            given.append(bytes(value) if one.kind == "struct" else value)
            before.append(content)
        launches.append(
            _Launched(self._function, self._unit, grid, block, shared, tuple(given), tuple(before))
        )


class ExportGpu(RecordedGpu):
    """A GPU that is not here, whose memory is known, and whose launches are noted while ``launches`` is a list."""

    def __init__(self, limits: Any) -> None:
        super().__init__(limits, Recording(), _refused)
        self.known = _Known()
        self.launches: list[_Launched] | None = None

    def compile(self, index: int, unit: Unit) -> Any:
        return _Function(super().compile(index, unit), unit, self)

    def allocator(self, shape: tuple[int, ...], dtype: Any, nbytes: int) -> Callable[[], Any]:
        """See :class:`..device.interface.Backend`."""
        make = super().allocator(shape, dtype, nbytes)

        def made() -> Any:
            memory = make().view(_Memory)
            memory.known = self.known
            return self.known.add(memory, nbytes)

        return made

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See :class:`..device.interface.Backend`."""
        data = super().zeros(shape, dtype)
        self.known.cleared.add(address(data))
        return self.known.add(data, data.nbytes)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See :class:`..device.interface.Backend`."""
        data = super().zeros(shape, dtype)
        return self.known.add(data, data.nbytes)

    def upload(self, data: Any) -> Any:
        """See :class:`..device.interface.Backend`."""
        made = super().upload(data)
        return self.known.add(made, made.nbytes)


def _refused(unit: Unit) -> object:
    raise CompilerFailure(
        f"{unit.signature.name} does not compile for the host, where its launches are recorded"
    )


@dataclass
class _Trace:
    """One run: sizes, arguments, results and launches."""

    sizes: dict[str, int]
    arguments: list[Array]
    results: list[Array]
    launches: list[_Launched]
    #: The memory that was there before, and what was set to zeros since.
    before: frozenset[int]
    cleared: frozenset[int]


#: Computes results from arguments.
Compute = Callable[[list[Array]], list[Array]]


def recorded(
    gpu: ExportGpu,
    compute: Compute,
    names: Sequence[str],
    examples: Sequence[Array],
    others: Sequence[Sequence[Array]],
) -> Program:
    """The launches of ``compute`` as a program.

    Args:
        gpu: where it runs.
        compute: takes arrays like ``examples``.
        names: of the arguments.
        examples: arguments.
        others: makes arguments of other sizes, which are tried where all kernels are the user's own.

    Raises:
        Failure: something else than kernels computes.
    """
    names_of = sizes_of(examples, names)
    first = _traced(gpu, compute, examples, names_of)
    if not first.launches:
        raise Failure("nothing is launched")
    traces = [first]
    if not any(one.unit.trusted for one in first.launches):
        try:
            traces += [_traced(gpu, compute, one, names_of) for one in others]
        except Exception:  # it takes no other sizes
            traces = [first]
    program = _program(gpu.known, traces, names, names_of) if len(traces) > 1 else None
    result = program or _program(gpu.known, [first], names, names_of)
    assert result is not None
    result.general = program is not None
    _verify(result, gpu, compute, first)
    return result


def sizes_of(examples: Sequence[Array], names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """A name for each distinct size of axes, but 1, and the first argument and axis that have it."""
    found: dict[int, tuple[str, tuple[int, int]]] = {}
    for i, array in enumerate(examples):
        for axis, size in enumerate(array.shape):
            if size > 1:
                found.setdefault(size, (f"{names[i]}_{axis}", (i, axis)))
    return dict(found.values())


def _traced(
    gpu: ExportGpu, compute: Compute, given: Sequence[Array], sizes: dict[str, tuple[int, int]]
) -> _Trace:
    arguments = [one.contiguous() for one in given]
    before, cleared = frozenset(gpu.known.starts), frozenset(gpu.known.cleared)
    launches: list[_Launched] = []
    gpu.launches = launches
    try:
        results = compute(arguments)
    finally:
        gpu.launches = None
    now = {name: arguments[i].shape[axis] for name, (i, axis) in sizes.items()}
    return _Trace(now, arguments, results, launches, before, frozenset(gpu.known.cleared - cleared))


def _program(
    known: _Known, traces: Sequence[_Trace], names: Sequence[str], sizes: dict[str, tuple[int, int]]
) -> Program | None:
    """What the traces have in common; None if they differ in more than numbers that follow from sizes."""
    texts = [[one.unit.text for one in trace.launches] for trace in traces]
    if any(one != texts[0] for one in texts):
        return None
    trials = [trace.sizes for trace in traces]
    blocks = sorted({n for one in traces[0].launches for n in (*one.block, int(np.prod(one.block)))})

    def formula(values: Sequence[int]) -> formulas.Formula:
        made = formulas.found([int(one) for one in values], trials, blocks)
        if made is None:
            raise _Unknown
        return made

    try:
        shapes = [[tuple(one.shape) for one in (*trace.arguments, *trace.results)] for trace in traces]
        buffers = []
        firsts = [*traces[0].arguments, *traces[0].results]
        for i, array in enumerate(firsts):
            if len({len(one[i]) for one in shapes}) > 1:
                return None
            shape = tuple(formula([one[i][axis] for one in shapes]) for axis in range(array.ndim))
            name = names[i] if i < len(names) else f"result{i - len(names)}"
            cleared = i >= len(names) and address(array._data) in traces[0].cleared
            buffers.append(Buffer(name, shape, array.dtype, cleared))
        starts = [
            {address(one._data): i for i, one in enumerate((*trace.arguments, *trace.results))}
            for trace in traces
        ]
        if any(len(one) < len(firsts) for one in starts):
            raise Failure("a result is an argument, or two are one array")
        launches = []
        for k, one in enumerate(traces[0].launches):
            same = [trace.launches[k] for trace in traces]
            if any(other.block != one.block for other in same):
                return None
            args: list[Any] = []
            for i, param in enumerate(one.unit.signature.params):
                values, contents = [other.values[i] for other in same], [other.content[i] for other in same]
                args.append(_argument(known, traces, starts, buffers, formula, param, values, contents))
            grid = tuple(formula([other.grid[axis] for other in same]) for axis in range(3))
            shared = formula([other.shared for other in same])
            launches.append(Launch(one.unit, grid, one.block, shared, tuple(args), one.function))
    except _Unknown:
        return None
    return Program(buffers, len(traces[0].arguments), len(traces[0].results), launches, sizes)


class _Unknown(Exception):
    """A number follows from sizes by no known formula."""


def _argument(
    known: _Known,
    traces: Sequence[_Trace],
    starts: Sequence[dict[int, int]],
    buffers: list[Buffer],
    formula: Callable[[Sequence[int]], formulas.Formula],
    param: Any,
    values: Sequence[Any],
    contents: Sequence[bytes],
) -> Place | Words | Number | None:
    if param.kind == "struct":
        padded = [one + bytes(-len(one) % 4) for one in values]
        words = [np.frombuffer(one, "i4") for one in padded]
        return Words(tuple(formula([int(one[i]) for one in words]) for i in range(len(words[0]))))
    if param.kind == "scalar":
        if param.dtype.kind in "iu":
            return Number(param.dtype, formula(values))
        if len({repr(one) for one in values}) > 1:
            raise _Unknown
        return Number(param.dtype, values[0])
    if not any(values):
        return None
    places = [known.place(value) for value in values]
    offset = formula([one for _, one in places])
    first = starts[0].get(places[0][0])
    if first is None:
        start = places[0][0]
        nbytes = formula([known.sizes[one] for one, _ in places])
        cleared = start in traces[0].cleared
        old = start in traces[0].before
        read = (param.const or old) and not cleared
        if read and not contents[0]:
            raise Failure(
                f"a kernel reads {known.sizes[start]} bytes that no kernel has written: NumPy's functions or a "
                "library's compute them, or they are a constant of more than 64 KiB"
            )
        if read and len(set(contents)) > 1:  # a constant that depends on sizes
            raise _Unknown
        first = len(buffers)
        buffers.append(Buffer("", (nbytes,), np.dtype("u1"), cleared, contents[0] if read else b""))
        for one, (begin, _) in zip(starts, places, strict=True):
            one[begin] = first
    elif any(one.get(begin) != first for one, (begin, _) in zip(starts, places, strict=True)):
        raise _Unknown
    return Place(first, offset)


def _verify(program: Program, gpu: ExportGpu, compute: Compute, trace: _Trace) -> None:
    """Compare what a program computes from other values with what the function does.

    Raises:
        Failure: they differ.
    """
    rng = np.random.default_rng(11)
    given = [varied(rng, one) for one in trace.arguments]
    expected = [one.numpy() for one in compute(given)]
    got = program.run([one.numpy() for one in given], trace.sizes)
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            raise Failure(
                f"result {i} does not come from launches of kernels alone: NumPy or a library of the GPU computes a "
                "part of it, or it is a constant that depends on the values of arguments"
            )


def varied(rng: np.random.Generator, array: Array, shape: tuple[int, ...] | None = None) -> Array:
    """Other values, of another shape if given: floats near 1, integers and bools those of the array."""
    shape = array.shape if shape is None else shape
    if array.dtype.kind in "iub":
        values = rng.choice(array.numpy().reshape(-1), shape)
    else:
        values = (rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)).astype(array.dtype)
    return creation.asarray(values.astype(array.dtype), device=array.device)
