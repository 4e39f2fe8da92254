"""Checked launches, and kernels compiled for them."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ....errors import DeviceError, LaunchError
from ....text.signature import Unit
from ...interface import CompilerFailure, Table
from .. import asynchrony, settings
from ..compiler import build_checked, build_runtime
from ..elf import symbols
from ..packing import GRID, Kernel, Packing, load, variable_addresses
from ..python import python_api, reraise
from ..translate import needs_fibers
from . import fills, mode, proof, unset
from .report import TIMEOUT, RawReport, Reader
from .source import depends_on_order, is_blind, runs_in_fibers, source, takes_active_mask
from .tracing import SHARED, Region

_INTERRUPTED, _FLOATS = 2, 1 << 16
#: Functions that print, or write surfaces or by tensor maps to memory that is not restored after a launch.
_SEEN = re.compile(r"printf|surf\w+write|(add|store)_tile")
#: In how many launches of a kernel its unset arrays are filled by several values, each of which is a run.
_TRIALS = 3
#: Nanoseconds that every launch may take, while :func:`time_limit` says so.
_asked: int | None = None


#: Held from a launch until its reports are read. A signal's handler may take it again, and is then refused.
_one_launch = threading.RLock()


def _forked() -> None:
    global _one_launch
    _one_launch = threading.RLock()


os.register_at_fork(after_in_child=_forked)


class _Options(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint) for name in ("in_fibers", "runs", "strict", "asynchrony", "blind")),
        ("seed", ctypes.c_ulonglong),
        ("unset", ctypes.c_void_p),
        ("unset_count", ctypes.c_uint),
        ("lasting_count", ctypes.c_uint),
        ("lasting", ctypes.c_void_p),
        ("itemsizes", ctypes.c_void_p),
        ("sampled", ctypes.c_ulonglong),
        ("entries", ctypes.c_void_p),
        ("entry_count", ctypes.c_ulonglong),
    )


class _Entry(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_ulonglong) for name in ("low", "bytes", "pointer")),
        *((name, ctypes.c_uint) for name in ("itemsize", "written")),
    )


class _Lasting(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_ulonglong), ("bytes", ctypes.c_ulonglong))


def _lasting(library: bytes) -> list[tuple[int, int, str]]:
    """The variables of a 64-bit ELF library that a kernel may write, ``__device__`` ones: places, bytes and names."""
    variables = [
        (value, length, _plain(name))
        for name, kind, section, value, length in symbols(library)
        if kind == 1 and length and section.startswith((b".data", b".bss")) and b"cukern" not in name
    ]
    return sorted(variables)


def _size_code(array: np.ndarray[Any, Any]) -> int:
    """The bytes of an element; with `are_floats` of checked/memory.h for single and double precision."""
    return array.itemsize | (array.dtype.char in "fd") * _FLOATS


def _plain(symbol: bytes) -> str:
    """The name of a variable, of its symbol in C++."""
    text, at, name = symbol.decode(), 2, symbol.decode()
    while text.startswith("_Z") and (match := re.compile(r"\D*(\d+)").match(text, at)):
        at = match.end() + int(match[1])
        name = text[match.end() : at]
    return name


@cache
def _library() -> tuple[ctypes.CDLL, Path]:
    """The runtime of checked launches, compiled on first use on this machine and started once per process."""
    path = build_runtime(checked=True)
    library = load(path)
    library.cukern_check.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Options))
    library.cukern_register.argtypes = (
        *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int),
        ctypes.c_uint * 3,
    )
    library.cukern_register.restype = ctypes.c_void_p
    library.cukern_reports.restype = ctypes.POINTER(RawReport)
    library.cukern_last_error.restype = ctypes.c_char_p
    library.cukern_shared_name.restype = ctypes.c_char_p
    library.cukern_shared_size.restype = ctypes.c_ulonglong
    library.cukern_written_place.restype = library.cukern_repeated.restype = ctypes.c_ulonglong
    library.cukern_set_limit.argtypes = (ctypes.c_ulonglong,)
    library.cukern_raised.argtypes = (ctypes.c_void_p,)
    if library.cukern_start(ctypes.byref(python_api())):
        raise DeviceError("checked launches need more address space than this process may have (ulimit -v)")
    return library, path


def _start(array: np.ndarray[Any, Any]) -> int:
    """At how many bytes of its memory an array starts, where on a GPU that memory would be aligned."""
    memory: Any = array
    while isinstance(getattr(memory, "base", None), np.ndarray):
        memory = memory.base
    low = byte_bounds(array)[0]
    # Memory between red zones is bytes, and aligned where its array is.
    return int(low % 64 if memory.dtype == np.uint8 else low - byte_bounds(memory)[0])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop each checked launch that takes longer, while the with-block runs."""
    global _asked
    before, _asked = _asked, int(seconds * 1e9)
    try:
        yield
    finally:
        _asked = before


def build(unit: Unit, counts: bool = False) -> tuple[Path, str]:
    """The library of a kernel for checked launches, from the cache or compiled, and the compiler's warnings.

    Args:
        unit: the kernel.
        counts: whether it counts its floating-point operations.

    Raises:
        CompilerFailure: the compiler refuses the text.
        DeviceError: there is no compiler.
    """
    try:
        text = source(unit, counts=counts)
        return build_checked(text, _library()[1], unit.trusted, takes_active_mask(unit))
    except CompilerFailure:
        if unit.trusted or counts:
            raise
        return build_checked(source(unit, arrays=False), _library()[1])  # of arrays that cannot be filled


def need_not_watch(known: proof.Proof, packing: Packing, packed: bytes) -> bool:
    """Whether a launch is known to be right as it is, and has nothing to show.

    Args:
        known: what is known of the kernel.
        packing: the layout of its arguments.
        packed: the result of :meth:`Packing.pack`.
    """
    chosen = mode.current()
    if chosen.tracer is not None or chosen.sampled or chosen.writers is not None or _asked is not None:
        return False
    header = struct.unpack_from(f"={GRID}", packed)
    return known.holds(header, packing.numbers(packed), packing.arrays(packed))


class _Build:
    """A library of a kernel for checked launches, loaded and known to the runtime."""

    def __init__(self, unit: Unit, path: Path, packing: Packing | None = None, flushes: bool = False) -> None:
        self.library = load(path)
        kernel = Kernel.in_dll(self.library, "cukern_kernel")
        #: The address and the bytes of each variable.
        self.addresses = variable_addresses(self.library, unit)
        self.packing = packing or Packing(unit, kernel)
        self.handle = _library()[0].cukern_register(
            *(ctypes.addressof(kernel), self.packing.nbytes, self.packing.table, flushes),
            (ctypes.c_uint * 3)(*unit.host_cluster),
        )
        own = _lasting(path.read_bytes())
        #: The names of variables that are not shared, as the runtime numbers them.
        self.variables = [name for _, _, name in own]
        self._lasting = (_Lasting * max(1, len(own)))(*(_Lasting(at, size) for at, size, _ in own))
        self._lasting_count = len(own)

    def check(self, packed: bytes, options: _Options) -> int:
        """Launch; return the runtime's status."""
        options.lasting, options.lasting_count = ctypes.addressof(self._lasting), self._lasting_count
        return int(_library()[0].cukern_check(self.handle, packed, ctypes.byref(options)))


class _Saved(NamedTuple):
    """What a launch may change: arrays with their values, and the values of variables by their names."""

    arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
    variables: dict[str, bytes]

    @classmethod
    def of(cls, arrays: list[np.ndarray[Any, Any]], addresses: dict[str, tuple[int, int]]) -> _Saved:
        return cls([(array, array.copy()) for array in arrays], fills.copy_of(addresses))

    def restore(self, addresses: dict[str, tuple[int, int]]) -> None:
        """Give the arrays, and the variables at these addresses, their values back."""
        for array, values in self.arrays:
            array[...] = values
        fills.put(self.variables, addresses)


class _Trial(NamedTuple):
    """What a launch did with other values in unset arrays, and what its arrays and variables were before it.

    Attributes:
        outcomes: with NaN in the first, with large values, and with zeros where those have made NaN.
    """

    outcomes: dict[fills.Value, tuple[object, ...] | None]
    before: _Saved


def _effects(
    reports: int, state: list[np.ndarray[Any, Any]], addresses: dict[str, tuple[int, int]]
) -> tuple[object, ...]:
    """The effects of a launch; the last is whether something is NaN."""
    return reports, fills.bits(state), fills.copy_of(addresses), fills.has_nan(state)


class CheckedFunction:
    """A kernel of which every access can be watched.

    Args:
        unit: the kernel.
        counts: whether it counts its floating-point operations, if the compiler takes a text that does.

    Raises:
        CompilerFailure: the compiler refuses the text.
        DeviceError: there is no compiler.
    """

    def __init__(self, unit: Unit, counts: bool = False) -> None:
        self._runtime, _ = _library()
        try:
            path, said = build(unit, counts)
        except CompilerFailure:
            if not counts:
                raise
            counts, (path, said) = False, build(unit)
        self._counts = counts
        self._build = _Build(unit, path, flushes="printf" in unit.calls)
        self.addresses, self._packing = self._build.addresses, self._build.packing
        self._reader = Reader(unit, path, said, self._build.variables)
        self._unit = unit
        self._ordered = not depends_on_order(unit)
        self._fibers = runs_in_fibers(unit)
        self._blind = is_blind(unit) * (1 if needs_fibers(unit) else 2)
        #: In how many launches the values of unset arrays are tried.
        self._trials = _TRIALS if self._repeatable() else 0

    def launch(self, packed: bytes) -> None:
        """Launch; ``packed`` is the result of :meth:`Packing.pack`.

        Raises:
            KernelFault: there are findings.
        """
        chosen = mode.current()
        when, seed = asynchrony.chosen()
        arrays = self._packing.arrays(packed)
        empties = unset.among(arrays, self._packing.stored(packed))
        structs = (unset.Unset * max(1, len(empties)))(*(empty.struct() for _, empty in empties))
        sizes = (0 if array is None else _size_code(array) for array in arrays)
        itemsizes = (ctypes.c_uint * max(1, len(arrays)))(*sizes)
        entries = self._entries(arrays)
        options = _Options(
            in_fibers=self._fibers,
            runs=1 if self._ordered else max(1, chosen.seeds),
            strict=chosen.strict,
            seed=seed,
            asynchrony=when,
            blind=self._blind,
            unset=ctypes.addressof(structs),
            unset_count=len(empties),
            itemsizes=ctypes.addressof(itemsizes),
            sampled=chosen.sampled,
            entries=ctypes.addressof(entries),
            entry_count=len(self._reader.entries),
        )
        # The library's own kernels run to their end.
        usual = 0 if self._unit.trusted else settings.time_limit()
        limit = usual if _asked is None else _asked
        self._reader.seconds = limit / 1e9
        with _one_launch:
            self._runtime.cukern_set_limit(limit)
            try:
                self._run(packed, options, arrays, empties)
            finally:
                self._reader.entries = []  # which others may want to be freed

    def _run(
        self,
        packed: bytes,
        options: _Options,
        arrays: list[np.ndarray[Any, Any] | None],
        empties: list[tuple[int, unset.Empty]],
    ) -> None:
        header = struct.unpack_from(f"={GRID}", packed)
        state = self._written(arrays, empties)
        harmless = self._harmless(packed, options, state)
        trial = self._trial(packed, options, state)
        tracer = mode.current().tracer
        if tracer is not None and not tracer.takes(self._unit.signature.name, header[:3], header[3:6]):
            tracer = None
        recorded = tracer.start(self._runtime) if tracer else None
        try:
            status = self._build.check(packed, options)
        finally:
            if recorded is not None:
                recorded.stop(self._runtime)
        if status == _INTERRUPTED:
            reraise(self._runtime)
        if status:
            raise LaunchError(f"{self._unit.signature.name}: {self._runtime.cukern_last_error().decode()}")
        raw, every = self._reports()
        sizes = self._shared_name, self._shared_size
        self._reader.repeated = self._runtime.cukern_repeated(0), self._runtime.cukern_repeated(1)
        reports = self._reader.read(raw, header, arrays, *sizes, harmless)
        for number, empty in empties:
            param = self._packing.params[number]
            if not param.const or param.kind == "struct":
                place = self._reader.line(self._runtime.cukern_written_place(number))
                unset.launched(empty, self._unit.signature.name, place)
        self._note_writers(arrays)
        if tracer is not None and recorded is not None:
            region = partial(self._region, arrays)
            tracer.took(self._unit, header, recorded, self._counts, self._reader.lines, region)
        if trial is not None:
            outcome = _effects(every, state, self.addresses)
            named = self._unset_arrays(packed, options, state, trial, outcome)
            reports += (self._reader.unset_array(*one) for one in named)
        # What was not written follows from what the error says.
        if reports and mode.current().reports is None:
            for _, empty in empties:
                empty.seen = True
        mode.tell(reports)

    def _note_writers(self, arrays: list[np.ndarray[Any, Any] | None]) -> None:
        """Note which lines have written the arrays of the launch that has just ended, if anybody asks."""
        if (writers := mode.current().writers) is None:
            return
        for number, (array, param) in enumerate(zip(arrays, self._packing.params, strict=False)):
            if array is not None and array.size and not param.const:
                line = self._reader.line(self._runtime.cukern_written_place(number))
                if line and not line.startswith("prelude/"):
                    writers[array.ctypes.data] = line

    @cached_property
    def _filled(self) -> tuple[_Build, frozenset[str]] | None:
        """The kernel with variables filled that may be unset, and these; None if it cannot be run more than once."""
        if not (unsure := self._reader.unsure):
            return None
        names = frozenset(name for name, _ in fills.declarations(self._unit.text.encode(), unsure))
        if not names or not self._repeatable():
            return None
        try:
            path, said = build_checked(source(self._unit, names), _library()[1], self._unit.trusted)
        except CompilerFailure:  # of a type that takes no such value
            return None
        names -= fills.unsure(said)  # others of the same name, such as arrays
        return _Build(self._unit, path, self._packing), names

    def _repeatable(self) -> bool:
        """Whether nobody sees how often the kernel runs, and all that it may write is known."""
        seen = any(map(_SEEN.fullmatch, self._unit.calls))
        return not (seen or self._reader.allocates) and all(p.kind != "table" for p in self._packing.params)

    def _written(
        self, arrays: list[np.ndarray[Any, Any] | None], empties: list[tuple[int, unset.Empty]]
    ) -> list[np.ndarray[Any, Any]]:
        """The memory that a launch may change."""
        written = [
            array
            for array, param in zip(arrays, self._packing.params, strict=False)
            if array is not None and not param.const
        ]
        return [*written, *(empty.elements for _, empty in empties)]

    def _outcome(
        self, build: _Build, packed: bytes, options: _Options, state: list[np.ndarray[Any, Any]]
    ) -> tuple[object, ...] | None:
        """What one more launch does, after which all is as before; None if it does not end."""
        before = _Saved.of(state, self.addresses)
        fills.put(before.variables, build.addresses)
        status = build.check(packed, options)
        raw, every = self._reports()
        outcome = _effects(every, state, build.addresses)
        before.restore(build.addresses)
        if status == _INTERRUPTED:
            reraise(self._runtime)
        return None if status or any(one.kind == TIMEOUT for one in raw) else outcome

    def _reports(self) -> tuple[list[RawReport], int]:
        """What the runtime has kept of the launch that has just ended, and how many findings there were."""
        count, every = ctypes.c_uint(), ctypes.c_uint()
        raw = self._runtime.cukern_reports(ctypes.byref(count), ctypes.byref(every))
        return raw[: count.value], every.value

    def _harmless(
        self, packed: bytes, options: _Options, state: list[np.ndarray[Any, Any]]
    ) -> frozenset[str]:
        """The variables that may be unset and whose value makes no difference to this launch."""
        if options.sampled or self._filled is None:  # the arrays of sampled launches are too large to copy
            return frozenset()
        build, names = self._filled
        byte = ctypes.c_ubyte.in_dll(build.library, "cukern_fill")
        first = None
        for byte.value in fills.BYTES:
            outcome = self._outcome(build, packed, options, state)
            if outcome is None or outcome != (first := first or outcome):
                return frozenset()
        return names

    def _trial(self, packed: bytes, options: _Options, state: list[np.ndarray[Any, Any]]) -> _Trial | None:
        """What one more launch does with other values in all unset arrays; None if the kernel has none."""
        if options.sampled or not self._trials or self._unit.trusted:
            return None
        if not (self._fillable and self._repeatable()):
            return None
        values = list(fills.Value)[self._trials < _TRIALS :]  # NaN in the first launch
        self._trials -= 1
        outcomes = {}
        for value in values:
            with self._filling(fills.ALL_ARRAYS, value):
                outcome = outcomes[value] = self._outcome(self._build, packed, options, state)
            if value == fills.Value.LARGE and not (outcome and outcome[-1]):
                break
        return _Trial(outcomes, _Saved.of(state, self.addresses))

    @cached_property
    def _fillable(self) -> list[tuple[str, str]]:
        """The names and places of arrays that are filled, if the library says how."""
        declared = [one[:2] for one in fills.arrays(self._unit.text.encode())]
        try:
            self._other, self._value = (
                ctypes.c_uint.in_dll(self._build.library, name) for name in ("cukern_other", "cukern_value")
            )
        except ValueError:
            return []
        return declared

    def _unset_arrays(
        self,
        packed: bytes,
        options: _Options,
        state: list[np.ndarray[Any, Any]],
        trial: _Trial,
        outcome: tuple[object, ...],
    ) -> list[tuple[str, str]]:
        """The names and places of arrays whose unset elements make a difference to the launch that has just ended."""
        kinds = [value for value, other in trial.outcomes.items() if other != outcome]
        if not kinds:
            return []
        after = _Saved.of(state, self.addresses)
        trial.before.restore(self.addresses)
        named = []
        try:
            # Else the difference is by a clock, or by the order of threads.
            if self._outcome(self._build, packed, options, state) == outcome:
                for number, one in enumerate(self._fillable, 1):
                    with self._filling(number, kinds[0]):
                        if self._outcome(self._build, packed, options, state) != outcome:
                            named.append(one)
        finally:  # also where a signal ends a launch
            after.restore(self.addresses)
        return named

    @contextmanager
    def _filling(self, which: int, value: fills.Value) -> Iterator[None]:
        """A with-block in which launches fill an array by its number, or all, with another value."""
        self._other.value, self._value.value = which, value
        try:
            yield
        finally:
            self._other.value = 0

    def _region(self, arrays: list[np.ndarray[Any, Any] | None], region: int) -> Region:
        """An argument or a variable."""
        if region >= SHARED:
            name = self._shared_name(region - SHARED) or "dynamic shared memory"
            return Region(name, 0, self._shared_size(region - SHARED))
        if region < 0:
            return Region(self._reader.variable(region), 0, 0)
        array = arrays[region]
        size = 0 if array is None else array.nbytes
        return Region(self._packing.params[region].name, 0 if array is None else _start(array), size)

    def _entries(self, arrays: list[np.ndarray[Any, Any] | None]) -> ctypes.Array[_Entry]:
        """The arrays behind tables of pointers, which the reader gets to know by the same numbers."""
        names: list[tuple[str, np.ndarray[Any, Any]]] = []
        rows = []
        for param, table in zip(self._packing.params, arrays, strict=False):
            if not isinstance(table, Table):
                continue
            for i, one in enumerate(table.arrays):
                if one is not None and one.size:
                    at, slot = one.ctypes.data, table.ctypes.data + 8 * i
                    rows.append(_Entry(at, one.nbytes, slot, _size_code(one), not param.const))
                    names.append((f"{param.name}[{i}]", one))
        self._reader.entries = names
        return (_Entry * max(1, len(rows)))(*rows)

    def _shared_name(self, number: int) -> str:
        return (self._runtime.cukern_shared_name(number) or b"").decode()

    def _shared_size(self, number: int) -> int:
        return int(self._runtime.cukern_shared_size(number))
