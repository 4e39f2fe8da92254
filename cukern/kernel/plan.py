"""The base class of plans, launches prepared once per layouts of arrays and replayed, and their caches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.deferred import trace, traced_threads
from ..array.layout import Layout
from ..cache import Cache
from ..device import HERE, Device, capture_hooks
from ..device.interface import CompiledFunction, Prepared
from ..dtypes import DType
from ..errors import DeviceError, LaunchError
from ..text import Dim3

if TYPE_CHECKING:
    from .bound import BoundKernel
    from .kernel import Kernel

_kept: dict[str, Cache[Any, Any]] = {}


def kept(family: str) -> Cache[Any, Any]:
    """The plans of a family that its callers keep by keys of their own; in the with-block of ``Family.only`` others."""
    return _kept.setdefault(family, Cache())


def on(device: Device) -> AbstractContextManager[object]:
    """A with-block in which ``device`` is the current one; free if it is already."""
    if device.which is None or device.index == device.which():
        return HERE
    return device.activate()


def allocate(device: Device, shape: tuple[int, ...], dtype: DType) -> Any:
    """An uninitialized ndarray of ``device`` in C order."""
    with on(device):
        return device.backend.empty(shape, dtype)


def zeros(device: Device, shape: tuple[int, ...], dtype: DType) -> Any:
    """An ndarray of ``device`` in C order, with all bytes 0."""
    if device.addressable:
        return device.backend.zeros(shape, dtype)
    result = allocate(device, shape, dtype)
    with device.activate():
        raw(result)[...] = 0
    return result


def zeroed(layout: Layout) -> Array:
    """A new array of a dense layout, with all bytes 0, on the current device."""
    result = Array._made(layout)
    if layout.on_host:
        result._data.fill(0)
    else:
        result._memory.memset_async(0, layout.nbytes)
    return result


def raw(data: Any) -> Any:
    """The same memory in a dtype that every array library can copy: bfloat16 as uint16."""
    row = dtypes.info(data.dtype)
    return data.view(row.bits) if row.extension else data


def apart(device: Device, data: Any, written: Any) -> Any:
    """An ndarray that is read; a copy if it may share memory with ``written``, an ndarray that is written meanwhile."""
    if data is not written and not device.xp.may_share_memory(data, written):
        return data
    with on(device):
        return data.copy()


_prepared: Cache[Any, Prepared] = Cache()


def serial(device: Device) -> bool:
    """Whether each thread has a block of its own and loops over many elements, as on the host."""
    return device.style == "serial"


def threads(device: Device, most: int) -> int:
    """Threads of a block: 1 on the host, else ``most``."""
    return 1 if serial(device) else most


def shares(device: Device, count: int, piece: int, most: int = 256) -> tuple[int, int, int]:
    """Threads of a block, elements of a thread, and blocks, for ``count`` elements.

    Args:
        piece: elements of a thread on the host; elsewhere it has one.
        most: threads of a block elsewhere.
    """
    block, own = (1, piece) if serial(device) else (most, 1)
    return block, own, -(-count // (block * own))


@cache
def compiled(kernel: Kernel, device: Device, **variables: Any) -> CompiledFunction:
    """A kernel that is bound to a device and to template variables, once."""
    return kernel.bind(device, **variables).function


def launch(
    device: Device,
    function: CompiledFunction,
    grid: int | Dim3,
    block: int,
    values: Sequence[Any],
    shared: int = 0,
) -> None:
    """Launch a kernel whose argument values change from call to call: prepared once for a grid, then replayed.

    Args:
        device: where the kernel and the arrays are.
        function: the compiled kernel.
        grid: blocks along x, or along each axis.
        block: threads per block.
        values: arrays or ndarrays, None for a null pointer, and numbers that their parameters hold.
        shared: bytes of dynamic shared memory per block.
    """
    key = (function, grid, block, shared)
    run = _prepared.get(key)
    if run is None:
        blocks = (grid, 1, 1) if isinstance(grid, int) else grid
        run = _prepared.keep(key, function.prepare(blocks, (block, 1, 1), shared, ()))
    operand, ndarray = device.backend.operand, device.xp.ndarray
    operands: list[Any] = []
    for one in values:
        if type(one) is int or type(one) is float:
            operands.append(one)
        elif isinstance(one, Array):
            if one._layout is None:
                one._planned()
            operands.append(one._operand)
        elif one is None or isinstance(one, ndarray):
            operands.append(operand(one))
        elif isinstance(one, np.generic):  # taken for the address of an array, it would lead anywhere
            raise TypeError(f"a launch takes arrays and Python's numbers, got {type(one).__name__} {one!r}")
        else:
            operands.append(one)
    if device.which is None or device.index == device.which():
        run(*operands)
        return
    with device.activate():
        run(*operands)


def one_device(name: str, arrays: Sequence[Array]) -> Device:
    """The device of all the arrays.

    Raises:
        DeviceError: they are on different devices.
    """
    device = arrays[0].device
    for array in arrays:
        if array.device is not device:
            raise DeviceError(f"{name}: expected arrays on one device, got {device} and {array.device}")
    return device


class BoundLaunch(NamedTuple):
    """A launch of a kernel, of which the leading arguments are still to be given.

    Attributes:
        bound: the kernel.
        grid: blocks along x, y and z.
        block: threads of a block, along x.
        tail: the last arguments, see :class:`..device.interface.CompiledFunction`.
        shared: bytes of dynamic shared memory per block.
        structs: the bytes of each struct among the leading arguments.
    """

    bound: BoundKernel
    grid: Dim3
    block: int
    tail: tuple[Any, ...] = ()
    shared: int = 0
    structs: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """That of the kernel."""
        return self.bound.rendered.text

    @property
    def form(self) -> tuple[Any, ...]:
        """What is equal for launches of one text that do the same with the same leading arguments."""
        return (self.text, *self[1:])

    def prepare(self) -> Prepared:
        """The launch, as a function of the leading arguments."""
        return self.bound.function.prepare(
            self.grid, (self.block, 1, 1), self.shared, self.tail, self.structs
        )

    def by(self, text: str, name: str) -> BoundLaunch:
        """The same launch of a kernel with another text and the same parameters.

        Args:
            text: CUDA C++: the text of this kernel, changed, or a program of its own.
            name: by which messages call the text.

        Raises:
            LaunchError: its kernel takes other parameters.
            TemplateError, CompileError: as :meth:`.Kernel.bind`.
        """
        from ..text import render, signature
        from ..text.line_directives import directive
        from .bound import BoundKernel
        from .kernel import Kernel

        device = self.bound.device
        has_prelude = text.split("\n")[1:2] == self.text.split("\n")[1:2]
        with on(device):
            if has_prelude:  # messages are to name the user's lines
                own = re.sub(r"(?m)^#line .*$", "", text)
                label = render.add_source(own, name)
                rendered = render.Rendered(directive(label, 2) + own, label, {})
                bound = BoundKernel(rendered, device, (self.block, 1, 1))
            else:
                bound = Kernel(text, self.block, name, plain=True).bind(device)
        wanted, given = (signature.passed(one.rendered.text) for one in (self.bound, bound))
        if wanted != given:
            raise LaunchError(
                f"{name}: expected a kernel with the parameters of {self.bound.signature.name}, "
                f"({', '.join(wanted)}), got ({', '.join(given)})"
            )
        return self._replace(bound=bound)


class Plan:
    """A launch for arrays of given layouts.

    It is chosen, compiled and checked once; a call allocates the results and replays the launch.

    Attributes:
        device: the device on which it runs.
        which: returns the index of the current GPU; None on the host.
        layouts: the layouts of the results.
        launch: the prepared kernel, which takes the operands of the arrays and of the results; None if there is
            nothing to do.
        ready: what that was prepared of, where it is known.
    """

    __slots__ = ("device", "launch", "layouts", "ready", "which")
    ready: BoundLaunch | None

    def __init__(self, device: Device, layouts: Sequence[Layout], launch: Prepared | None = None) -> None:
        self.device, self.layouts, self.launch = device, tuple(layouts), launch
        self.which: Callable[[], int] | None = device.which
        self.ready = None

    def prepared(self, ready: BoundLaunch) -> Self:
        """The plan, with this launch from now on."""
        self.ready, self.launch = ready, ready.prepare()
        return self

    def by(self, ready: BoundLaunch) -> Self:
        """A plan that does the same by another launch."""
        with on(self.device):
            return copy(self).prepared(ready)

    @property
    def source(self) -> str:
        """The text of the kernel, where it is known; "" where there is nothing to do."""
        return "" if self.ready is None else self.ready.text

    @property
    def copies(self) -> bool:
        """Whether it copies an array that it is given, of which it then reads more than the address."""
        return False

    def __call__(self, *arrays: Array) -> Array:
        """Launch and return the single result, a new array."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self(*arrays)
        result = Array._made(self.layouts[0])
        if self.launch is not None:
            values = []
            for one in arrays:
                values.append(one._operand)
            self.launch(*values, result._operand)
        return result

    def results(self, arrays: Sequence[Array | None], *numbers: Any) -> list[Array]:
        """Launch and return all results, new arrays; None stands for a null pointer, numbers follow the results."""
        with on(self.device):
            result = new(self.layouts)
            assert self.launch is not None
            self.launch(*operands(self.device, (*arrays, *result)), *numbers)
        return result


def made(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """The new arrays that a function makes, which no tape records; a trace repeats the call, by that name."""
    if traced_threads and (active := trace()) is not None:
        return active.call(function, args, {}, name=name)
    return function(*args)


def new(layouts: Sequence[Layout]) -> list[Array]:
    """New, uninitialized arrays, on the current device."""
    result = []  # a loop, because a comprehension is a function call before Python 3.12
    for layout in layouts:
        result.append(Array._made(layout))
    if capture_hooks.new_empty is not None:
        for one in result:
            capture_hooks.new_empty(one)
    return result


def operands(device: Device, arrays: Sequence[Array | None]) -> list[Any]:
    """The operands of a prepared launch for arrays, and for None, a null pointer."""
    found: list[Any] = []
    for one in arrays:
        if one is None:
            found.append(device.backend.operand(None))
        else:
            if one._layout is None:
                one._planned()
            found.append(one._operand)
    return found
