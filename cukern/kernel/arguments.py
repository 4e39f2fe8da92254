"""The checks of a launch: each argument against its parameter, before anything runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.layout import ALIGNMENT, address
from ..device import Device
from ..device.interface import Table
from ..errors import LaunchError
from ..text.signature import Param, Signature
from .tensor_map import TensorMap
from .texture import Surface, Texture

Converter = Callable[[Any], Any]


def _describe(value: object) -> str:
    if isinstance(value, Array):
        return f"an array of {dtypes.info(value.dtype).name}, shape {value.shape}, on {value.device}"
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        hint = "cukern.struct(name, records.dtype).asarray(records)"
        return f"a numpy.{type(value).__name__} of {value.dtype}; {hint} makes an array of their bytes"
    if isinstance(value, np.ndarray):
        return f"a numpy.ndarray of {value.dtype}; wrap it with cukern.asarray"
    return f"{type(value).__name__} {value!r}"[:120]


def _integer(param: Param, dtype: dtypes.DType, where: str) -> Converter:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)

    def convert(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        if type(value) is not int:
            value = _number(value, where)
            if isinstance(value, float) and not value.is_integer():
                raise LaunchError(f"{where}: expected an integer for {param.type_text}, got {value!r}")
            value = int(value)
        if not low <= value <= high:
            raise LaunchError(f"{where}: {value} is out of range for {param.type_text}, {low} to {high}")
        return int(value)

    return convert


def _number(value: Any, where: str, of_complex: bool = False) -> Any:
    """``value`` as a Python number, complex only if that is asked for; 0-d arrays are numbers too."""
    if isinstance(value, (bool, int, float)) or (of_complex and isinstance(value, complex)):
        return value
    if isinstance(value, (np.generic, np.ndarray, Array)):
        masked = isinstance(value, np.ma.MaskedArray)
        if value.ndim == 0 and value.dtype in dtypes.ALL and not masked:
            # Not ``item``: a launch itself reports its arguments to tapes.
            number = value._number() if isinstance(value, Array) else value.item()
            if not isinstance(number, complex):
                return number if isinstance(number, (bool, int)) else float(number)
            if of_complex:
                return number
    elif hasattr(value, "__index__"):
        return operator.index(value)
    raise LaunchError(f"{where}: expected a number, got {_describe(value)}")


def _scalar(param: Param, where: str) -> Converter:
    dtype = param.dtype
    assert dtype is not None
    kind = dtypes.info(dtype).kind
    if kind in "iu":
        return _integer(param, dtype, where)
    if kind == "b":
        return lambda value: bool(_number(value, where))
    if kind == "c":
        return lambda value: complex(_number(value, where, True))

    def convert(value: Any) -> float:
        if type(value) is float:
            return value
        try:
            return float(_number(value, where))
        except OverflowError:
            raise LaunchError(f"{where}: {value} is out of range for {param.type_text}") from None

    return convert


def _check_array(value: Any, param: Param, device: Device, where: str) -> None:
    if not isinstance(value, Array):
        raise LaunchError(f"{where}: expected an array for {param.type_text}, got {_describe(value)}")
    # A pointer to the kernel's own struct takes an array of bytes.
    wanted = dtypes.uint8 if param.dtype is None else param.dtype
    if value.dtype != wanted:
        raise LaunchError(
            f"{where}: expected dtype {dtypes.info(wanted).name} for {param.type_text}, "
            f"got {_describe(value)}"
        )
    if value.device is not device:
        raise LaunchError(f"{where}: expected an array on {device}, got {_describe(value)}")
    if not param.const and value._storage.constant:
        raise LaunchError(
            f"{where}: {param.type_text} is written, and {_describe(value)} is a constant that others share; "
            "write to a copy"
        )


def _pointer(param: Param, device: Device, where: str) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        _check_array(value, param, device, where)
        data = value._data
        if not data.flags.c_contiguous:
            if not param.const:
                raise LaunchError(
                    f"{where}: {param.type_text} is written and must be contiguous; got strides "
                    f"{value.strides} for shape {value.shape}"
                )
            with device.activate():
                data = device.xp.ascontiguousarray(data)
        if param.alignment > data.itemsize and address(data) % param.alignment:
            raise LaunchError(
                f"{where}: {param.type_text} needs data aligned to {param.alignment} bytes, "
                f"got address {address(data):#x}"
            )
        return data

    return convert


def _table(param: Param, device: Device, where: str) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise LaunchError(
                f"{where}: expected a list of arrays for {param.type_text}, got {_describe(value)}"
            )
        addresses = []
        for i, one in enumerate(value):
            if one is not None:
                _check_array(one, param, device, f"{where}[{i}]")
                if not one._data.flags.c_contiguous:
                    raise LaunchError(
                        f"{where}[{i}]: {param.type_text} takes contiguous arrays; got strides {one.strides} "
                        f"for shape {one.shape}"
                    )
            addresses.append(0 if one is None else address(one._data))
        with device.activate():
            table = device.xp.asarray(np.array(addresses, np.uint64))
        if not device.addressable:
            return table
        known = table.view(Table)
        known.arrays = tuple(None if one is None else one._data for one in value)
        return known

    return convert


def arrays_in(args: Sequence[Any]) -> list[Array]:
    """The arrays among arguments, also in lists."""
    flat = [one for arg in args for one in (arg if isinstance(arg, list) else [arg])]
    return [one for one in flat if isinstance(one, Array)]


def _view(param: Param, device: Device, where: str) -> Converter:
    def convert(value: Any) -> Any:
        _check_array(value, param, device, where)
        if value.ndim != param.ndim:
            raise LaunchError(
                f"{where}: expected {param.ndim} axes for {param.type_text}, got {_describe(value)}"
            )
        data = value._data
        if not param.const and _overlaps_itself(data):
            raise LaunchError(
                f"{where}: {param.type_text} is written, and elements share memory: strides {value.strides}"
            )
        return data

    return convert


def _overlaps_itself(data: Any) -> bool:
    """Whether two elements of an ndarray may share memory."""
    reach = int(data.itemsize)
    for step, size in sorted((abs(s), n) for n, s in zip(data.shape, data.strides, strict=True) if n > 1):
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


def is_tensor_map(param: Param) -> bool:
    """Whether a parameter takes a :class:`cukern.TensorMap`."""
    return param.kind == "struct" and param.type_text.removeprefix("const ") in ("TensorMap", "CUtensorMap")


def _tensor_map(device: Device, where: str) -> Converter:
    def convert(value: Any) -> bytes:
        if not isinstance(value, TensorMap):
            raise LaunchError(f"{where}: expected a cukern.TensorMap, got {_describe(value)}")
        if value.array.device is not device:
            raise LaunchError(
                f"{where}: expected the map of an array on {device}, got {_describe(value.array)}"
            )
        if value.array._storage is not value._storage:
            raise LaunchError(
                f"{where}: the array of this map has other memory by now, as after Module.astype; make a new map"
            )
        return bytes(value)

    return convert


#: The class of the argument for a parameter of each of these types.
_OBJECTS: dict[str, type[Texture | Surface]] = {
    "cudaTextureObject_t": Texture,
    "cudaSurfaceObject_t": Surface,
}


def _object(kind: type[Texture | Surface], device: Device, where: str) -> Converter:
    def convert(value: Any) -> bytes:
        if type(value) is not kind:
            raise LaunchError(f"{where}: expected a cukern.{kind.__name__}, got {_describe(value)}")
        if value.device is not device:
            raise LaunchError(f"{where}: expected one on {device}, got {_describe(value)} on {value.device}")
        return value.handle.to_bytes(8, "little")

    return convert


def _struct(param: Param, where: str) -> Converter:
    def convert(value: Any) -> bytes:
        if isinstance(value, np.void) and value.dtype.names:
            return value.tobytes()
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise LaunchError(
                f"{where}: expected bytes or a NumPy structured scalar for the struct {param.type_text}, got "
                f"{_describe(value)}"
            )
        return bytes(value)

    return convert


def converters(signature: Signature, device: Device) -> list[Converter]:
    """For each parameter, the function that checks an argument and converts it to a launch value."""
    result: list[Converter] = []
    for param in signature.params:
        where = f"{signature.name}: argument {param.name}"
        if param.kind == "scalar":
            result.append(_scalar(param, where))
        elif param.kind == "pointer":
            result.append(_pointer(param, device, where))
        elif param.kind == "view":
            result.append(_view(param, device, where))
        elif param.kind == "table":
            result.append(_table(param, device, where))
        elif is_tensor_map(param):
            result.append(_tensor_map(device, where))
        elif param.kind == "struct" and param.cxx in _OBJECTS:
            result.append(_object(_OBJECTS[param.cxx], device, where))
        else:
            result.append(_struct(param, where))
    return result


def plain(signature: Signature, args: Sequence[Any], values: Sequence[Any]) -> bool:
    """Whether arguments of this form can be launched by addresses and numbers, without conversion."""
    for param, arg, value in zip(signature.params, args, values, strict=True):
        if param.kind not in ("pointer", "scalar") or (
            param.kind == "scalar"
            and param.dtype is not None
            and (dtypes.info(param.dtype).extension or param.dtype in dtypes.COMPLEX)
        ):
            return False
        if isinstance(arg, Array):
            layout = arg._planned()
            if value is not arg._data or param.alignment > (ALIGNMENT if layout.aligned else arg.itemsize):
                return False
    return True


def _overlapping(signature: Signature, i: int, j: int) -> LaunchError:
    params = signature.params
    return LaunchError(
        f"{signature.name}: argument {params[i].name} is written, and its memory overlaps that "
        f"of argument {params[j].name}"
    )


def check_overlap(
    signature: Signature, args: Sequence[Any], values: Sequence[Any], written: Sequence[int], device: Device
) -> None:
    """Refuse a launch whose written arrays share memory with another argument, be it behind a tensor map.

    Raises:
        LaunchError: naming both arguments.
    """
    arrays = {
        i: values[i]
        for i, param in enumerate(signature.params)
        if param.kind in ("pointer", "view") and values[i] is not None
    }
    maps = {i: arg for i, arg in enumerate(args) if isinstance(arg, TensorMap)}
    arrays |= {i: map_.array._data for i, map_ in maps.items()}
    several = [(i, data) for i, data in arrays.items()]
    several += [
        (i, one._data) for i, arg in enumerate(args) if isinstance(arg, list) for one in arrays_in([arg])
    ]
    changed = {*written, *(i for i, map_ in maps.items() if map_.writes)}
    for i, data in several:
        for j, other in several if i in changed else ():
            if i != j and device.xp.may_share_memory(data, other):
                raise _overlapping(signature, i, j)
