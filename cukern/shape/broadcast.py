"""Fast broadcast views for derivatives, and copies with repeated elements."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array
from ..array.batched import Batched
from ..array.deferred import traced_threads
from ..array.layout import Layout, layout
from ..autodiff import tape
from ..elementwise import constants
from ..elementwise.constants import Shared
from ..elementwise.operands import view
from ..kernel.by_numpy import LARGE, by_numpy
from ..kernel.plan import raw
from .views import broadcast_to, expand_dims, reshape


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """:func:`broadcast_to`, faster if no tape records it; returns ``x`` if it has ``shape`` already."""
    if x.shape == shape:
        return x
    if type(x) is Batched or tape.recording((x,)):
        return broadcast_to(x, shape)
    if type(x._storage) is Shared:
        return constants.repeated(x, shape)
    own = x._layout or x._planned()
    if traced_threads or (own.on_host and not own.contiguous):
        return broadcast_to(x, shape)
    wanted = _repeated(own, shape)
    if not own.on_host:
        return x._seen(wanted)
    # What NumPy's broadcast_to returns, at a tenth of its time.
    data: Any = np.ndarray(shape, own.dtype, x._data, 0, wanted.strides)
    data.flags.writeable = False
    result = view(x, data)
    result._layout, result._operand = wanted, id(data)
    return result


@lru_cache(maxsize=8192)
def _repeated(own: Layout, shape: tuple[int, ...]) -> Layout:
    steps = [0 if n == 1 else stride for n, stride in zip(own.shape, own.strides, strict=True)]
    strides = (0,) * (len(shape) - len(steps)) + tuple(steps)
    return layout(own.device, own.dtype, shape, strides, own.aligned)


@by_numpy("repeat")
def _with_repeats(data: Any, times: int, axis: int) -> Any:
    return np.repeat(raw(data), times, axis).view(data.dtype)


def with_repeats(x: Array, times: int, axis: int) -> Array:
    """A copy of ``x`` in which each element along an axis is there ``times`` times."""
    few = x.device.addressable and x.size * times < LARGE and not tape.recording((x,))
    if few and (made := _with_repeats(x.device, x._data, times, axis)) is not None:
        return made
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    spread = broadcast_to(expand_dims(x, axis + 1), (*before, x.shape[axis], times, *after))
    return reshape(spread, (*before, x.shape[axis] * times, *after), copy=True)
