"""``__constant__`` and ``__device__`` variables: one value a device for all kernels of a text, each compiled by itself.

Each compiled kernel has a copy of its own. Before a launch it gets the newest values, and what it may have written is
newest afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..device import Device, current
from ..device.interface import CompiledFunction
from ..errors import LaunchError

if TYPE_CHECKING:
    from ..text.variables import Variable


class _Latest(NamedTuple):
    """The newest value of a variable on a device: bytes that were set, or the kernel that has it; and its number."""

    source: bytes | CompiledFunction
    version: int


@dataclass
class State:
    """The variables of one text, on all devices.

    Attributes:
        latest: the newest values of those that were set or may have been written, by device and name.
        held: the number of the value that a kernel's copy has, by the kernel and the name.
        functions: the compiled kernels that have variables.
    """

    latest: dict[tuple[Device, str], _Latest] = field(default_factory=dict)
    held: dict[tuple[int, str], int] = field(default_factory=dict)
    functions: list[tuple[Device, CompiledFunction]] = field(default_factory=list)

    def compiled(self, device: Device, function: CompiledFunction) -> None:
        """Note a kernel that has variables."""
        self.functions.append((device, function))

    def before(self, device: Device, function: CompiledFunction, kernel: str) -> None:
        """Copy the newest values to a kernel that is about to be launched.

        Raises:
            LaunchError: a value has another size than the variable.
        """
        for name, (_, nbytes) in function.variables.items():
            newest = self.latest.get((device, name))
            if newest is None or self.held.get((id(function), name)) == newest.version:
                continue
            if isinstance(newest.source, bytes):
                if len(newest.source) != nbytes:
                    raise LaunchError(
                        f"{kernel}: globals[{name!r}] was set to {len(newest.source)} bytes; the variable has {nbytes}"
                    )
                function.write_variable(name, newest.source)
            elif newest.source is not function:
                function.write_variable(name, newest.source.read_variable(name))
            self.held[id(function), name] = newest.version

    def after(self, device: Device, function: CompiledFunction) -> None:
        """Note that a kernel was launched, which may have written all that is not constant."""
        for name, (variable, _) in function.variables.items():
            if not variable.constant:
                newest = self.latest.get((device, name))
                version = 1 if newest is None else newest.version + 1
                self.latest[device, name] = _Latest(function, version)
                self.held[id(function), name] = version

    def set(self, device: Device, name: str, value: bytes) -> None:
        newest = self.latest.get((device, name))
        self.latest[device, name] = _Latest(value, 1 if newest is None else newest.version + 1)

    def get(self, device: Device, name: str) -> bytes | None:
        """The newest value; None where no kernel that has the variable was compiled."""
        newest = self.latest.get((device, name))
        if newest is not None:
            return newest.source if isinstance(newest.source, bytes) else newest.source.read_variable(name)
        for where, function in self.functions:
            if where == device and name in function.variables:
                return function.read_variable(name)
        return None


class Globals(Mapping[str, Any]):
    """The ``__constant__`` and ``__device__`` variables of a kernel's text on the current device, by their names.

    Reading gives a new ``numpy.ndarray``; assigning sets the variable for all kernels of the text, from the next launch
    on. A number fills an array. A struct is an array of its bytes, and takes ``bytes`` or a NumPy structured array.

    >>> import cukern as ck
    >>> kernel = ck.Kernel('''
    ... __constant__ float scale[2];
    ... __device__ int calls;
    ... __global__ void apply(float* x) { x[threadIdx.x] *= scale[threadIdx.x]; if (threadIdx.x == 0) ++calls; }
    ... ''', block=2, plain=True)
    >>> kernel.globals["scale"] = [2, 3]
    >>> x = ck.ones(2)
    >>> kernel(x)
    >>> kernel(x)
    >>> x.tolist(), int(kernel.globals["calls"])
    ([4.0, 9.0], 2)
    """

    def __init__(self, state: State, declared: tuple[Variable, ...], compile: Callable[[], object]) -> None:
        self._state = state
        self._declared = {one.name: one for one in declared}
        self._compile = compile

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def __repr__(self) -> str:
        return f"Globals({', '.join(self._declared) or 'none'})"

    def _variable(self, name: str) -> Variable:
        if name not in self._declared:
            raise KeyError(
                f"{name!r} is none of the variables of this text: {', '.join(self._declared) or 'it has none'}"
            )
        return self._declared[name]

    def __getitem__(self, name: str) -> Any:
        """The value, as a new array.

        Raises:
            KeyError: the text has no such variable.
            TemplateError: no kernel that uses it was compiled, and this one cannot be: choose it by its name.
        """
        variable = self._variable(name)
        value = self._state.get(current(), name)
        if value is None:
            self._compile()
            value = self._state.get(current(), name)
        if value is None:
            raise LookupError(
                f'{name}: this kernel does not use it; choose one that does, as in kernel["name"].globals'
            )
        dtype = np.dtype(np.uint8) if variable.dtype is None else np.dtype(variable.dtype)
        flat = np.frombuffer(value, dtype).copy()
        return flat if variable.dtype is None or variable.shape is None else flat.reshape(variable.shape)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set the value.

        Raises:
            KeyError: the text has no such variable.
            TypeError: the value's dtype cannot be cast to the variable's.
            ValueError: its shape does not fit.
        """
        variable = self._variable(name)
        self._state.set(current(), name, _bytes(variable, value))


def _bytes(variable: Variable, value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    given = value.numpy() if isinstance(value, Array) else np.asarray(value)
    if given.dtype.names or variable.dtype is None:
        if not given.dtype.names and given.dtype != np.uint8:
            raise TypeError(
                f"{variable.name}: expected bytes or a NumPy structured array for the struct {variable.type_text}, got "
                f"dtype {given.dtype}"
            )
        return given.tobytes()
    dtype = np.dtype(variable.dtype)
    number = isinstance(value, (bool, int, float, complex))
    if (
        not number
        and not np.can_cast(given.dtype, dtype, "same_kind")
        and given.dtype.kind + dtype.kind != "iu"
    ):
        raise TypeError(
            f"{variable.name}: expected what {dtypes.info(variable.dtype).name} can hold, got dtype {given.dtype}"
        )
    if dtype.kind in "iu" and given.size:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for one in (given.min(), given.max()):
            if not low <= one <= high or one != int(one):
                raise ValueError(
                    f"{variable.name}: expected an integer in the range of {variable.type_text}, got {one}"
                )
    cast = given.astype(dtype)
    if variable.shape is not None:
        if cast.ndim and cast.shape != variable.shape:
            raise ValueError(f"{variable.name}: expected shape {variable.shape}, got {cast.shape}")
        cast = np.broadcast_to(cast, variable.shape)
    return cast.tobytes()
