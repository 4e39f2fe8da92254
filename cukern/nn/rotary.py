"""Rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray
from ..array.layout import Layout, fresh_layout, is_aligned
from ..autodiff import tape
from ..device.interface import Prepared
from ..elementwise.operands import require_array
from ..function import Function
from ..kernel import Kernel
from ..kernel.plan import new, on, operands
from ..kernel.sizes import ACCESS, divide_up, index_type
from ..kernel.strides import broadcast_shapes
from ..pytree import declare_leaf
from .fused import common_dtype, is_int, require_broadcast, require_shape

_BLOCK = 256
_KERNEL = Kernel("nn/rotary.cu", block=_BLOCK)
#: Rows for which a thread computes an angle once.
_TURN = 8


class _Rows(NamedTuple):
    """Rows of ``x`` as (outer, places, inner), where only the place says which angles a row has."""

    outer: int
    places: int
    inner: int


@declare_leaf
class _Options(NamedTuple):
    """What a launch needs to know besides its arrays."""

    rows: _Rows
    size: int
    interleaved: bool
    base: float
    inverse: bool = False


def _rows(shape: Sequence[int], shape_: Sequence[int]) -> _Rows | None:
    """How angles of shape ``shape_`` lie along rows of ``shape``; None where a broadcast repeats them otherwise."""
    shape_ = (1,) * (len(shape) - len(shape_)) + tuple(shape_)
    first = next((i for i, n in enumerate(shape_) if n != 1), len(shape_))
    last = len(shape_) - next((i for i, n in enumerate(reversed(shape_)) if n != 1), 0)
    if first == len(shape_):
        return _Rows(math.prod(shape), 1, 1)
    if tuple(shape_[first:last]) != tuple(shape[first:last]):
        return None
    return _Rows(math.prod(shape[:first]), math.prod(shape_), math.prod(shape[last:]))


@lru_cache(maxsize=4096)
def _prepared(own: Layout, aligned: bool, kind: str, place: str, options: _Options) -> Prepared:
    """The launch for arrays of a layout, which takes them, the result, and the tables or the first position."""
    rows, features, half = options.rows, own.shape[-1], options.size // 2
    width = math.gcd(ACCESS // own.dtype.itemsize, half, features - 2 * half) if aligned else 1
    turn = min(_TURN, rows.outer * rows.inner)
    bound = _KERNEL.bind(
        own.device,
        elem=own.dtype,
        index=index_type(own.size),
        kind=kind,
        place=place,
        width=width,
        turn=turn,
        count=half,
        features=features,
        interleaved=options.interleaved,
        inverse=options.inverse,
        slope=-math.log2(options.base) / half,
    )
    slots = half // width + divide_up(features - 2 * half, 2 * width)
    threads = slots * rows.places * divide_up(rows.outer * rows.inner, turn)
    return bound.function.prepare((divide_up(threads, _BLOCK), 1, 1), (_BLOCK, 1, 1), 0, tuple(rows))


def _launch(x: Array, options: _Options, first: float, tables: Sequence[Array]) -> Array:
    x = x.contiguous()
    own = x._layout or x._planned()
    kind = ("first", "positions", "tables")[len(tables)]
    place = dtypes.info(tables[0].dtype).cxx if kind == "positions" else ""
    with on(x.device):
        (y,) = new((fresh_layout(x.device, own.dtype, own.shape),))
        if own.size:
            run = _prepared(own, is_aligned(x), kind, place, options)
            run(*operands(x.device, (x, y, *tables)), *(() if tables else (first,)))
    return y


class _Rotary(Function):
    """Linear in ``x``; its transpose turns back. Without tables ``first`` is the first position."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, options: _Options, first: float, *tables: Array) -> Array:
        ctx.save_for_backward(*tables)
        ctx.options, ctx.first = options, first
        return _launch(x, options, first, tables)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        back = ctx.options._replace(inverse=not ctx.options.inverse)
        tables = ctx.saved_arrays
        return _Rotary.apply(dy, back, ctx.first, *tables), None, None, *(None for _ in tables)


def _angles(positions: Array, size: int, base: float) -> tuple[Array, Array]:
    """Cosines and sines of the angles at these positions as a composition, for derivatives by the positions."""
    powers = base ** (-2 / size * np.arange(size // 2))
    angles = ops.expand_dims(positions, axis=-1) * asarray(
        powers.astype(positions.dtype), device=positions.device
    )
    return ops.cos(angles), ops.sin(angles)


def rotary_reference(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Pairs of ``x`` rotated by these cosines and sines as a composition: for derivatives, and tests."""
    half = cos.shape[-1]
    if interleaved:
        pairs = ops.reshape(x[..., : 2 * half], (*x.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = x[..., :half], x[..., half : 2 * half]
    rotated = [a * cos - b * sin, a * sin + b * cos]
    result = ops.stack(rotated, axis=-1) if interleaved else ops.concat(rotated, axis=-1)
    result = ops.reshape(result, (*x.shape[:-1], 2 * half))
    return ops.astype(ops.concat([result, x[..., 2 * half :]], axis=-1), x.dtype)


def _require_tables(name: str, x: Array, cos: Array | None, sin: Array | None, size: int) -> list[Array]:
    """Cosines and sines in the dtype in which ``x`` is computed."""
    tables = []
    for argument, one in (("cos", cos), ("sin", sin)):
        if one is None:
            raise ValueError(f"{name}: cos, sin: expected both or neither")
        one = require_array(one, name, argument, x)
        common_dtype(name, {"x": x, argument: one})
        if one.ndim < 1 or one.shape[-1] != size // 2:
            raise ValueError(
                f"{name}: {argument}: expected {size // 2} numbers along the last axis, got {one.shape}"
            )
        tables.append(ops.astype(one, dtypes.info(x.dtype).acc, copy=False))
    return tables


def rotary_embedding(
    x: Array,
    positions: Array | float = 0,
    *,
    cos: Array | None = None,
    sin: Array | None = None,
    interleaved: bool = False,
    base: float = 10000.0,
    size: int | None = None,
) -> Array:
    """Turn pairs of features by angles that grow with the position: the product of two rows depends on their distance.

    Pair i of the row at position p becomes ``(a * cos - b * sin, a * sin + b * cos)`` for the angle
    ``p * base ** (-2 * i / size)``, which is computed in double precision. Forward and gradient are a launch each.

    Args:
        x: queries or keys, shape (..., length, features), a floating dtype.
        positions: the position of each row, numbers of a shape that broadcasts to ``x.shape[:-1]``: (length,), or
            (batch, 1, length) for x of shape (batch, heads, length, features), or (length, 1) for (batch, length,
            heads, features). A Python number is the position of the first along the last axis but one of ``x``; the
            others follow by 1.
        cos, sin: the cosines and sines instead of positions, shapes that broadcast to (*x.shape[:-1], size / 2).
        interleaved: whether a pair is two neighbours, ``x[..., 2 * i]`` and ``x[..., 2 * i + 1]`` (GPT-J), rather than
            ``x[..., i]`` and ``x[..., size / 2 + i]`` (GPT-NeoX, Llama).
        base: the base of the angles.
        size: the number of features that are rotated, the first ones; all when None.

    Returns:
        The shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or ``positions`` holds no real numbers.
        ValueError: ``size`` is odd or too large, ``base`` is not positive and finite, or shapes do not fit.

    Source: Su and others, "RoFormer: enhanced transformer with rotary position embedding", 2021.

    >>> import cukern as ck
    >>> x = ck.asarray([[1.0, 0.0], [1.0, 0.0]])
    >>> [[round(v, 3) for v in row] for row in ck.nn.rotary_embedding(x).tolist()]
    [[1.0, 0.0], [0.54, 0.841]]
    """
    name = "rotary_embedding"
    x = require_array(x, name)
    common_dtype(name, {"x": x})
    require_shape(name, "x", x, ..., "length", "features")
    size = x.shape[-1] if size is None else size
    if not is_int(size) or size % 2 or not 0 < size <= x.shape[-1]:
        raise ValueError(f"{name}: size: expected an even number up to {x.shape[-1]}, got {size!r}")
    if not isinstance(base, (float, Real)) or not 0 < base < math.inf:
        raise ValueError(f"{name}: base: expected a positive, finite number, got {base!r}")
    shape, tables, first = x.shape[:-1], [], 0.0
    given: tuple[int, ...] = (x.shape[-2],)
    if cos is not None or sin is not None:
        tables = _require_tables(name, x, cos, sin, size)
        for argument, one in zip(("cos", "sin"), tables, strict=True):
            require_broadcast(name, argument, one, (*shape, size // 2))
        if tape.recording(tables):
            return rotary_reference(x, tables[0], tables[1], bool(interleaved))
        given = broadcast_shapes(name, [one.shape[:-1] for one in tables])
    elif isinstance(positions, (int, float, Real)) and not isinstance(positions, bool):
        first = float(positions)
    else:
        places = require_array(positions, name, "positions", x)
        if dtypes.info(places.dtype).kind not in "iuf":
            raise TypeError(f"{name}: positions: expected real numbers, got {places.dtype}")
        require_broadcast(name, "positions", places, shape, "the rows' ")
        if tape.recording([places]):
            return rotary_reference(x, *_angles(places, size, float(base)), bool(interleaved))
        tables, given = [places], places.shape
    rows = _rows(shape, given)
    if rows is None:
        rows, given = _Rows(1, math.prod(shape), 1), shape
    ends = ((), (), (size // 2,))[len(tables)]
    tables = [ops.broadcast_to(one, (*given, *ends)).contiguous() for one in tables]
    options = _Options(rows, int(size), bool(interleaved), float(base))
    return _Rotary.apply(x, options, first, *tables)
