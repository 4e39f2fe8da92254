"""Products of ndarrays, by the library of their device: cuBLAS as it is, or NumPy's and CuPy's ``matmul``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..device import Device, cublas
from .launch import Strides, broadcast_shapes, collapse, contiguous_steps, raw

#: The sizes that the libraries take: C's int.
_LIMIT = 2**31 - 1


def multiply(device: Device, a: Any, b: Any, out: Any = None) -> Any:
    """``a @ b`` for ndarrays of one dtype on ``device``, which is the current one.

    Args:
        a: shape (..., m, k).
        b: shape (..., k, n).
        out: an ndarray (..., m, n) in C order to write to, of float32 where it is not of their dtype;
            none of its sizes exceeds what C's int holds.

    Returns:
        The product, of shape (..., m, n).
    """
    xp = device.xp
    if device.kind == "host":
        with np.errstate(all="ignore"):
            return xp.matmul(a, b, out=out)
    if a.dtype not in dtypes.FLOATS:
        return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)
    return in_pieces(xp, a, b, _LIMIT) if out is None else _blas(xp, a, b, out)


def in_pieces(xp: Any, a: Any, b: Any, limit: int) -> Any:
    """The product of two ndarrays in as many products as it takes for no size, and no batch, to exceed ``limit``."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]) if a.ndim > 2 or b.ndim > 2 else ()
    if max(m, k, n, math.prod(batch)) <= limit:
        return np.matmul(a, b) if xp is np else _blas(xp, a, b, xp.empty((*batch, m, n), a.dtype))
    if k > limit:
        half = k // 2
        return in_pieces(xp, a[..., :half], b[..., :half, :], limit) + in_pieces(
            xp, a[..., half:], b[..., half:, :], limit
        )
    # Places are counted from the last axis, as batches broadcast.
    at = (
        -2
        if m > limit
        else -1
        if n > limit
        else max(range(len(batch)), key=batch.__getitem__) - len(batch) - 2
    )
    size = (*batch, m, n)[at]
    parts = []
    for start, end in ((0, size // 2), (size // 2, size)):
        left = a if at == -1 else _cut(a, at, start, end)
        right = b if at == -2 else _cut(b, at, start, end)
        parts.append(raw(in_pieces(xp, left, right, limit)))
    return xp.concatenate(parts, axis=at).view(a.dtype)


def _cut(data: Any, axis: int, start: int, end: int) -> Any:
    """Part of an axis, counted from the last; all of one that broadcasts."""
    if -axis > data.ndim or data.shape[axis] == 1:
        return data
    return data[(..., slice(start, end)) + (slice(None),) * (-axis - 1)]


def _blas(xp: Any, a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` in ``out`` by cuBLAS: one call where the batches are steps of one length, else several."""
    if not out.size:
        return out
    if not a.shape[-1]:
        raw(out)[...] = 0
        return out
    left, right, made = cublas.readable(xp, a), cublas.readable(xp, b), out
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        left, made = a.reshape(-1, a.shape[-1]), out.reshape(-1, out.shape[-1])
    if made.ndim == 2:
        cublas.product(xp, left, right, made)
        return out
    batch = made.shape[:-2]
    steps = [
        _batch_steps(left, len(batch)),
        _batch_steps(right, len(batch)),
        contiguous_steps(made.shape)[:-2],
    ]
    axes = collapse(batch, steps)
    count = axes.shape[-1] if axes.shape else 1
    inner = [one[-1] if one else 0 for one in axes.steps]
    for place in np.ndindex(axes.shape[:-1]):
        offsets = [sum(i * step for i, step in zip(place, one, strict=False)) for one in axes.steps]
        cublas.product(xp, left, right, made, count, inner, offsets)
    return out


def _batch_steps(data: Any, axes: int) -> Strides:
    """The steps in elements from matrix to matrix along each of the batch axes that it broadcasts to."""
    sizes, strides = data.shape[:-2], data.strides[:-2]
    own = [0 if n == 1 else stride // data.itemsize for n, stride in zip(sizes, strides, strict=True)]
    return (0,) * (axes - len(own)) + tuple(own)
