"""Fill memory with a number, and copy it: in C order, or to a part of another array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Batched
from ..array.layout import Layout, fresh_layout, layout
from ..array.operators import FUNCTIONS
from ..device import Device
from ..device.interface import Prepared
from ..dtypes import DType
from ..elementwise.graph import cast, input_node, scalar_node
from ..elementwise.plan import make_plan, run_into
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel.by_numpy import LARGE, by_numpy
from ..kernel.plan import allocate, on, threads
from ..kernel.sizes import divide_up
from .known_views import relaid

_COPIES = Kernel("shape/copies.cu", block=256)
#: The most arrays per launch: their addresses and sizes are kernel parameters, which have 4096 bytes.
_TOGETHER = 64
#: Bytes that a block copies.
_PIECE = 16384
#: The most blocks per array.
_BLOCKS = 1024


@cache
def copying(bits: DType) -> Program:
    """The program that copies elements of this dtype, as which those of others are to be seen."""
    return program("copy", (input_node(0, bits),), (bits,))


@cache
def _cast(source: DType, target: DType) -> Program:
    return program("astype", (cast(input_node(0, source), target),), (source,))


@cache
def _fill(bits: DType) -> Program:
    return program("fill", (scalar_node(0, bits),), (), (bits,))


_WRITE = by_numpy("copy to a part")(operator.setitem)


def in_order(device: Device, data: Any) -> Any:
    """A copy of an ndarray in C order.

    Elements are copied as integers: converting a half type to float32 and back would lose the payload of NaN.
    """
    result = allocate(device, data.shape, data.dtype)
    if data.size < LARGE and _WRITE(device, result, ..., data):
        return result
    bits = dtypes.info(data.dtype).bits
    run_into(copying(bits), device, (data.view(bits),), (), (result.view(bits),))
    return result


@lru_cache(maxsize=8192)
def permuted(own: Layout, order: tuple[int, ...]) -> Layout:
    """The layout of an array with its axes in another order."""
    shape, strides = (tuple([sizes[axis] for axis in order]) for sizes in (own.shape, own.strides))
    return layout(own.device, own.dtype, shape, strides, own.aligned)


@lru_cache(maxsize=8192)
def _copied_to(own: Layout, order: tuple[int, ...] | None) -> tuple[Layout, Prepared | None]:
    """The layout of a copy in C order with its axes in another order, and the launch that makes it."""
    moved = own if order is None else permuted(own, order)
    fresh = fresh_layout(own.device, own.dtype, moved.shape)
    return fresh, copier(moved, fresh)


def reshaped(x: Array, sizes: tuple[int, ...]) -> Array:
    """A copy of ``x`` in C order and another shape; tapes do not record it, but those around a call for a batch."""
    if type(x) is Batched:
        return x._level.batched(x._level.run(_copied, x._value, (x._level.size, *sizes)))
    own = x._layout or x._planned()
    if own.on_host:
        return Array._wrap(in_order(x.device, x._data).reshape(sizes), x.device)
    with on(x.device):
        result = Array._made(fresh_layout(x.device, own.dtype, sizes))
        _, run = _copied_to(own, None)
        if run is not None:
            run(x._operand, result._operand)
    return result


def _copied(x: Array, sizes: tuple[int, ...]) -> Array:
    return FUNCTIONS["reshape"](x, sizes, copy=True)


def contiguous(x: Array, order: tuple[int, ...] | None = None) -> Array:
    """A copy of ``x`` in C order, with its axes in another ``order`` if one is given; tapes do not record it."""
    if type(x) is Batched:
        moved = x if order is None else FUNCTIONS["permute_dims"](x, order)
        return reshaped(moved, moved.shape)
    own = x._layout or x._planned()
    if own.on_host and own.size < LARGE:
        data = x._data if order is None else x._data.transpose(order)
        result = allocate(x.device, data.shape, data.dtype)
        if _WRITE(x.device, result, ..., data):
            return Array._wrap(result, x.device)
    with on(x.device):
        fresh, run = _copied_to(own, order)
        result = Array._made(fresh)
        if run is not None:
            source = (
                x if order is None or not own.on_host else Array._wrap(x._data.transpose(order), x.device)
            )
            source._planned()
            run(source._operand, result._operand)
    return result


def laid_out(x: Array, order: tuple[int, ...]) -> Array:
    """A copy of ``x`` with its axes in memory in ``order``, the innermost last; tapes do not record it."""
    wanted = fresh_layout(x.device, x.dtype, x.shape, order)
    return relaid(contiguous(x, order), wanted, [order.index(axis) for axis in range(x.ndim)])


def write(device: Device, target: Any, source: Any) -> None:
    """Copy the ndarray ``source``, cast, to ``target``, a part of another array that has its shape."""
    if source.dtype != target.dtype:
        run_into(_cast(source.dtype, target.dtype), device, (source,), (), (target,))
    elif source.size >= LARGE or not _WRITE(device, target, ..., source):
        bits = dtypes.info(source.dtype).bits
        run_into(copying(bits), device, (source.view(bits),), (), (target.view(bits),))


def copier(source: Layout, target: Layout) -> Prepared | None:
    """The launch that copies an array, cast, to a part of another one that has its shape; None without elements."""
    if source.dtype == target.dtype:
        bits = dtypes.info(source.dtype).bits
        source, target = (
            layout(one.device, bits, one.shape, one.strides, one.aligned) for one in (source, target)
        )
        used = copying(bits)
    else:
        used = _cast(source.dtype, target.dtype)
    return make_plan(used, source.device, [source], [target]).launch


def filled(device: Device, shape: tuple[int, ...], value: Any, dtype: DType) -> Any:
    """A new ndarray filled with ``value``, cast as by ``numpy.full``."""
    bits, result = dtypes.info(dtype).bits, allocate(device, shape, dtype)
    with np.errstate(over="ignore"):
        number = np.full((), value, dtype).view(bits).item()
    run_into(_fill(bits), device, (), (number,), (result.view(bits),))
    return result


FUNCTIONS.update(contiguous_copy=contiguous, filled=filled)


class Copies:
    """Copies between fixed arrays and others of the same layouts, in one launch.

    Args:
        device: the device of the arrays.
        kept: the fixed arrays, in C order.
        into: whether to copy to ``kept`` or from it.
    """

    def __init__(self, device: Device, kept: Sequence[Array], into: bool) -> None:
        self._kept = list(kept)
        sizes = [one._planned().nbytes for one in kept]
        block = threads(device, 256)
        self._launches = []
        for start in range(0, len(kept), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            count, most = len(sizes[part]), max(sizes[part])
            name = f"copies_{'into' if into else 'of'}_{count}"
            bound = _COPIES.bind(device, count=count, into=into, block=block, name=name)
            blocks = 1 if block == 1 else min(_BLOCKS, max(1, divide_up(most, _PIECE)))
            launch = bound.function.prepare((blocks, count, 1), (block, 1, 1), 0, ())
            self._launches.append((launch, part, [one._operand for one in kept[part]] + sizes[part]))

    def __call__(self, given: Sequence[Array]) -> None:
        """Copy from or to ``given``; the current device must be that of the arrays."""
        for launch, part, fixed in self._launches:
            launch(*[one._operand for one in given[part]], *fixed)
