"""Sorting: a stable merge sort along any axis, of values, of places, or of both."""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any, Literal, NamedTuple

from .. import dtypes, tape
from ..array import Array
from ..device import Device
from ..device.base import CompiledFunction
from ..kernel import Kernel
from .axes import normalize_axis, public, require_array
from .elementwise import astype
from .index import take_along_axis
from .launch import allocate, on
from .manipulate import moveaxis, reshape

__all__ = ["argsort", "lexsort", "sort", "topk"]

_KERNEL = Kernel("sort.cu", block=256)
_LIMIT_32 = 2**30


class Shape(NamedTuple):
    """How a launch deals out rows.

    Attributes:
        block: threads of a block.
        lanes: threads that sort a tile together: 1, or the block.
        items: elements of a tile that a thread sorts.
        tiles_piece: tiles of a group of ``lanes`` threads.
        piece: elements that a thread merges.
    """

    block: int
    lanes: int
    items: int
    tiles_piece: int
    piece: int

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.lanes * self.items


def shape_for(kind: str, n: int) -> Shape:
    """The launch shape for rows of ``n`` elements on a kind of device."""
    if kind == "host":
        return Shape(1, 1, 16, 1024, 16384)
    if n <= 32:
        return Shape(256, 1, 32, 1, 8)
    block = min(256, max(32, 1 << (-(-n // 8) - 1).bit_length()))
    return Shape(block, block, 8, 1, 8)


@cache
def _bound(
    device: Device, dtype: dtypes.DType, index: str, shape: Shape, stage: str, indexed: bool, descending: bool
) -> CompiledFunction:
    info = dtypes.info(dtype)
    what = ("argsort" if indexed else "sort") + ("_descending" if descending else "")
    return _KERNEL.bind(
        device,
        name=f"{what}_{stage}_{info.name}_{shape.block}",
        elem=dtype,
        index=index,
        block=shape.block,
        lanes=shape.lanes,
        items=shape.items,
        tile=shape.tile,
        stage=stage,
        indexed=indexed,
        descending=descending,
        floating=info.kind == "f",
    ).function


def sorted_rows(
    x: Array, indexed: bool, descending: bool, shape: Shape | None = None
) -> tuple[Array, Array | None]:
    """The sorted rows of ``x`` (..., n), in C order, and the places that their elements come from, in int64."""
    x = x.contiguous()
    n, device = x.shape[-1], x.device
    rows = math.prod(x.shape[:-1])
    shape = shape or shape_for(device.kind, n)
    wide = max(n + 2 * max(shape.tile, shape.piece), 2 * shape.tile) > _LIMIT_32
    index, place = ("long long", dtypes.int64) if wide else ("int", dtypes.int32)
    keys = [allocate(device, x.shape, x.dtype)]
    places = [allocate(device, x.shape, place)] if indexed else []
    if x.size:
        with on(device):
            function = _bound(device, x.dtype, index, shape, "tile", indexed, descending)
            tiles = -(-n // shape.tile)
            groups = -(-rows * tiles // shape.tiles_piece)
            grid = -(-groups * shape.lanes // shape.block)
            function(
                (grid, 1, 1),
                (shape.block, 1, 1),
                0,
                (x._data, *keys, *places, rows, n, tiles, shape.tiles_piece),
            )
            _merge(
                keys,
                places,
                rows,
                n,
                shape,
                _bound(device, x.dtype, index, shape, "merge", indexed, descending)
                if n > shape.tile
                else None,
            )
    made = Array._wrap(keys[0], device)
    return made, astype(Array._wrap(places[0], device), dtypes.int64, copy=False) if indexed else None


def _merge(
    keys: list[Any], places: list[Any], rows: int, n: int, shape: Shape, function: CompiledFunction | None
) -> None:
    """Merge sorted tiles, back and forth between two buffers; the first of each holds the result."""
    if function is None:
        return
    keys.append(keys[0].copy())
    places += [one.copy() for one in places]
    pieces = -(-n // shape.piece)
    grid = (-(-rows * pieces // shape.block), 1, 1)
    run = shape.tile
    while run < n:
        arrays = (keys[0], *places[:1], keys[1], *places[1:])
        function(grid, (shape.block, 1, 1), 0, (*arrays, rows, n, pieces, shape.piece, run))
        keys.reverse()
        places.reverse()
        run *= 2


def _along(x: Array, axis: int | None, name: str) -> tuple[Array, int]:
    """``x`` and the axis to sort along, counted from 0; without an axis, ``x`` flattened."""
    require_array(x, name)
    if axis is None:
        return reshape(x, (-1,)), 0
    if not x.ndim and axis in (0, -1):
        return reshape(x, (1,)), 0
    return x, normalize_axis(axis, x.ndim, name)


@public
def argsort(
    x: Array,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool | None = True,
    kind: Any = None,
) -> Array:
    """The places along an axis that put ``x`` in order; equal elements keep their order.

    NaN counts as larger than any number.

    Args:
        x: any array.
        axis: the axis; None sorts the flattened array.
        descending: whether the largest comes first.
        stable: the sort is stable, whatever this says.
        kind: NumPy's name of an algorithm, of no effect.

    Returns:
        int64, of the shape of ``x``.

    Raises:
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> ck.argsort(ck.asarray([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    shape = x.shape if isinstance(x, Array) and not x.ndim else None
    x, place = _along(x, axis, "argsort")
    with tape.stop_recording():
        _, found = sorted_rows(moveaxis(x, place, -1), True, bool(descending))
        assert found is not None
        made = moveaxis(found, -1, place)
    return made if shape is None or axis is None else reshape(made, shape)


@public
def sort(
    x: Array,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool | None = True,
    kind: Any = None,
) -> Array:
    """``x`` in order along an axis. Arguments and order as :func:`argsort`; differentiable.

    >>> import cukern as ck
    >>> ck.sort(ck.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    shape = x.shape if isinstance(x, Array) and not x.ndim else None
    x, place = _along(x, axis, "sort")
    if tape.recording((x,)):
        made = take_along_axis(x, argsort(x, axis=place, descending=descending), axis=place)
    else:
        made = moveaxis(sorted_rows(moveaxis(x, place, -1), False, bool(descending))[0], -1, place)
    return made if shape is None or axis is None else reshape(made, shape)


@public
def topk(
    x: Array, k: int, /, *, axis: int = -1, mode: Literal["largest", "smallest"] = "largest"
) -> tuple[Array, Array]:
    """The ``k`` largest or smallest elements along an axis, in order, and their places.

    Args:
        x: any array.
        k: how many, at most the size of the axis.
        axis: the axis.
        mode: ``"largest"`` or ``"smallest"``.

    Returns:
        The values, and their places in int64; of equal elements the first come first. The values are
        differentiable.

    Raises:
        AxisError: there is no such axis.
        ValueError: there are fewer than ``k`` elements, or no such mode.
    """
    x, place = require_array(x, "topk"), normalize_axis(axis, x.ndim, "topk")
    if mode not in ("largest", "smallest"):
        raise ValueError(f"topk: mode: expected 'largest' or 'smallest', got {mode!r}")
    count = operator.index(k)
    if not 0 <= count <= x.shape[place]:
        raise ValueError(f"topk: k: expected 0 to {x.shape[place]}, the size of axis {place}, got {k}")
    order = argsort(x, axis=place, descending=mode == "largest")
    first = order[(slice(None),) * place + (slice(count),)]
    return take_along_axis(x, first, axis=place), first


@public
def lexsort(keys: Any, /, *, axis: int = -1) -> Array:
    """The places that sort by several keys, the last the first to look at, as ``numpy.lexsort``.

    Args:
        keys: arrays of one shape, or an array whose first axis numbers the keys.
        axis: the axis to sort along.

    Raises:
        ValueError: there is no key, or the shapes differ.
    """
    columns = list(keys)
    if not columns:
        raise ValueError("lexsort: keys: expected at least one")
    if any(key.shape != columns[0].shape for key in columns):
        raise ValueError(f"lexsort: keys: expected one shape, got {[key.shape for key in columns]}")
    order = argsort(columns[0], axis=axis)
    for key in columns[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis=axis), axis=axis), axis=axis)
    return order
