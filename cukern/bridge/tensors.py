"""Tensors of PyTorch as arrays of the same memory, and arrays as tensors; PyTorch's devices and streams."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array, Storage
from ..array.array import lenders
from ..array.layout import ALIGNMENT, Layout, fresh_layout
from ..cache import Cache
from ..device import Device
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
def device_of(where: Any) -> Device:
    """The device of a tensor's.

    Raises:
        ValueError: it is neither a CPU nor a GPU of NVIDIA.
    """
    if where.type == "cpu":
        return Device("host")
    if where.type == "cuda":
        return Device(f"cuda:{where.index or 0}")
    raise ValueError(f"device: expected tensors on cpu or cuda, got one on {where}")


@cache
def _streams() -> tuple[Callable[[], bool], Callable[[int], int]]:
    """Whether PyTorch's current stream is recorded, and its address on a GPU, as its compiler's code asks for it."""
    torch = library_of_torch()
    quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    address = quick or (lambda index: torch.cuda.current_stream(index).cuda_stream)
    capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)
    return capturing, address


@cache
def caller(where: Any) -> Callable[..., Any]:
    """A function that calls another one with arguments, for launches on PyTorch's device ``where``.

    On a GPU these are on PyTorch's current stream, and new arrays are in its memory.

    Raises:
        RuntimeError: a CUDA graph is being recorded there, which would replay with memory that is given back by then.
    """
    device = device_of(where)
    index, which = device.index, device.which
    if which is None:
        return lambda function, *args: function(*args)
    capturing, current = _streams()
    stream, lend = device.xp.cuda.get_current_stream, _lender(where, device, current)

    def call(function: Callable[..., Any], *args: Any) -> Any:
        if capturing():
            raise RuntimeError("an operator of cukern cannot be a part of a CUDA graph of PyTorch")
        thread = get_ident()
        before = lenders.get(thread)
        lenders[thread] = lend
        try:
            if which() == index and stream(index).ptr == current(index):
                return function(*args)
            with memory.on_stream(device, current(index)):
                return function(*args)
        finally:
            if before is None:
                del lenders[thread]
            else:
                lenders[thread] = before

    return call


def _lender(where: Any, device: Device, current: Callable[[int], int]) -> Callable[[Layout], Array | None]:
    """What makes arrays in PyTorch's memory; not beside its current stream, for which that memory is."""
    torch, stream, index = library_of_torch(), device.xp.cuda.get_current_stream, device.index
    known: Cache[Layout, Any] = Cache()
    empty_like, whole = torch.empty_like, memory.whole

    def like(layout: Layout) -> Any:
        dtype = types().get(layout.dtype)
        if layout.device is not device or not layout.contiguous or dtype is None:
            return None
        made = torch.empty((), dtype=dtype, device=where).expand(layout.shape)
        return known.keep(layout, made) if empty_like(made).is_contiguous() else None

    def lend(layout: Layout) -> Array | None:
        of = known.get(layout)
        if of is None:
            of = like(layout)
        if of is None or stream(index).ptr != current(index):
            return None
        tensor = empty_like(of)
        return whole(layout, tensor.data_ptr(), tensor, Storage())

    return lend


#: By dtype, shape and device of tensors.
_layouts: Cache[tuple[Any, ...], Layout] = Cache(65536)


def layout_of(tensor: Any, where: Device) -> Layout:
    """The layout of an array in C order with the dtype and shape of a tensor.

    Raises:
        KeyError: its dtype has no counterpart.
    """
    form = tensor.dtype, tensor.shape, where
    known = _layouts.get(form)
    if known is None:
        layout = fresh_layout(where, own_dtypes()[tensor.dtype], tuple(tensor.shape))
        known = _layouts.keep(form, layout)
    return known


def array_of(tensor: Any, where: Device) -> Array:
    """The array that shares the memory of a tensor, which is on the device ``where``.

    Raises:
        KeyError: its dtype has no counterpart.
    """
    layout = _layouts.get((tensor.dtype, tensor.shape, where)) or layout_of(tensor, where)
    if where.addressable:
        data = _ndarray_of(tensor, layout)
        if tensor.is_contiguous():
            return memory.ordered(layout, data, None, id(data), Storage())
        return Array._wrap(data, where)
    address, strides = tensor.data_ptr(), None
    if not tensor.is_contiguous():  # the dispatcher has resolved conjugates and negatives
        strides = [step * layout.dtype.itemsize for step in tensor.stride()]
    elif not address % ALIGNMENT:
        return memory.whole(layout, address, tensor, memory.Shared())
    return memory.lent(layout, address, strides, tensor)


def _ndarray_of(tensor: Any, layout: Layout) -> Any:
    """The ndarray of a tensor on the host."""
    if layout.dtype is dtypes.bfloat16:  # which NumPy does not take
        return tensor.detach().view(library_of_torch().int16).numpy().view(layout.dtype)
    return tensor.numpy(force=True)


def operand_of(tensor: Any, where: Device) -> Any:
    """What a launch takes for a tensor on a GPU, and the ndarray of which it takes the id on the host.

    None if the elements are not in C order, or begin at a GPU's address that is none of an aligned layout.
    """
    if not tensor.is_contiguous():
        return None
    if where.addressable:
        return _ndarray_of(tensor, layout_of(tensor, where))
    address = tensor.data_ptr()
    return None if address % ALIGNMENT else address


def tensor_of(array: Array) -> Any:
    """The tensor that shares the memory of a new array in C order."""
    if type(array) is memory.Lent and not array._storage.shared:  # it was made in PyTorch's memory
        array._storage.shared = True
        return memory.owner(array)
    torch = library_of_torch()
    data = array._data
    half = data.dtype.kind == "V"  # bfloat16
    if half:
        data = data.view("i2")  # neither NumPy nor CuPy hands it on
    if array.device.addressable:
        made = torch.from_numpy(data)
    else:
        made = torch.utils.dlpack.from_dlpack(data.__dlpack__(stream=-1))
    return made.view(torch.bfloat16) if half else made
