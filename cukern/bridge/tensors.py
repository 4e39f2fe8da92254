"""Tensors of PyTorch as arrays of the same memory, and arrays as tensors; PyTorch's devices and streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..device import HERE, Device
from . import memory
from .operation import library


@cache
def library_of_torch() -> Any:
    """PyTorch.

    Raises:
        ImportError: it is not installed.
    """
    return library("torch", "to_torch")


@cache
def types() -> dict[Any, Any]:
    """PyTorch's dtype of each dtype."""
    torch = library_of_torch()

    found = {row.dtype: getattr(torch, row.name, None) for row in dtypes.TABLE}
    return {dtype: theirs for dtype, theirs in found.items() if theirs is not None}


@cache
def own_dtypes() -> dict[Any, Any]:
    """The dtype of each of PyTorch's that has one."""
    return {theirs: ours for ours, theirs in types().items()}


@cache
def host() -> Device:
    """The device of tensors on a CPU."""
    return Device("host")


def device_of(where: Any) -> Device:
    """The device of a tensor's.

    Raises:
        ValueError: it is neither a CPU nor a GPU of NVIDIA.
    """
    if where.type == "cpu":
        return host()
    if where.type == "cuda":
        return _gpu(where.index or 0)
    raise ValueError(f"device: expected tensors on cpu or cuda, got one on {where}")


def on_stream(where: Any) -> AbstractContextManager[object]:
    """A with-block in which launches are on PyTorch's current stream of a device.

    Raises:
        RuntimeError: a CUDA graph is being recorded there, which would replay with memory that is given back by then.
    """
    if where.type != "cuda":
        return HERE
    torch = library_of_torch()
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("an operator of cukern cannot be a part of a CUDA graph of PyTorch")
    return memory.on_stream(_gpu(where.index), _current_stream()(where.index))


@cache
def _current_stream() -> Callable[[int], int]:
    """The address of PyTorch's current stream on a GPU, as what its compiler generates asks for it."""
    torch = library_of_torch()
    quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda index: torch.cuda.current_stream(index).cuda_stream)


@cache
def _gpu(index: int) -> Device:
    return Device(f"cuda:{index}")


def array_of(tensor: Any, where: Any) -> Array:
    """The array that shares the memory of a tensor, which is on the device ``where``.

    Raises:
        KeyError: its dtype has no counterpart.
    """
    dtype = own_dtypes()[tensor.dtype]
    if where.type == "cpu":
        if dtype == dtypes.bfloat16:
            return Array._wrap(tensor.detach().view(_bits()).numpy().view(dtype), host())
        return Array._wrap(tensor.numpy(force=True), host())
    strides = None
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
        strides = [step * dtype.itemsize for step in tensor.stride()]
    return memory.lent(_gpu(where.index), tensor.data_ptr(), tuple(tensor.shape), dtype, strides, tensor)


@cache
def _bits() -> Any:
    torch = library_of_torch()

    return torch.int16


def tensor_of(array: Array) -> Any:
    """The tensor that shares the memory of a new array in C order."""
    torch = library_of_torch()

    data = array._data
    half = data.dtype == dtypes.bfloat16
    if half:
        data = data.view("i2")  # neither NumPy nor CuPy hands it on
    if array.device.addressable:
        made = torch.from_numpy(data)
    else:
        made = torch.utils.dlpack.from_dlpack(data.__dlpack__(stream=-1))
    return made.view(torch.bfloat16) if half else made
