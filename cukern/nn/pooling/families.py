"""The families of pooling over planes, and of its gradients."""

from __future__ import annotations

from functools import lru_cache

from ...array import Array
from ...array.layout import is_aligned
from ...launch.family import Family
from ..fused import lies_channels_last
from . import reference
from .problem import Pooling, Windows, channels_last
from .variants import ChannelsLast, ChannelsLastGradient, Portable, PortableGradient, Tiles, TilesGradient

POOLING: Family[Pooling] = Family(
    "pooling", Tiles, Portable, ChannelsLast, reference=reference.pooling, samples=reference.samples
)
GRADIENT: Family[Pooling] = Family(
    "gradient of pooling",
    TilesGradient,
    PortableGradient,
    ChannelsLastGradient,
    reference=reference.gradient,
    samples=reference.samples_of_gradients,
)


_pooling = lru_cache(maxsize=4096)(Pooling)


def pool(x: Array, windows: Windows, maximum: bool, keep: bool = False) -> tuple[Array, Array | None]:
    """The pooled ``x``; with ``keep`` also the index of each window's largest element."""
    last = lies_channels_last(x)
    x = channels_last(x) if last else x.contiguous()
    own = x._layout or x._planned()
    problem = _pooling(own.device, own.dtype, own.shape, last, windows, maximum, keep, is_aligned(x))
    result = POOLING(problem)(x)
    return (result[0], result[1]) if keep else (result, None)


def gradient(dy: Array, shape: tuple[int, ...], windows: Windows, winners: Array | None = None) -> Array:
    """The gradient of x, of max pooling if ``winners`` are given, else of average pooling."""
    last, maximum = lies_channels_last(dy if winners is None else winners), winners is not None
    arguments = [dy] if winners is None else [dy, winners]
    arrays = [channels_last(one) if last else one.contiguous() for one in arguments]
    aligned = is_aligned(arrays[0]) and is_aligned(arrays[-1])
    problem = _pooling(dy.device, dy.dtype, shape, last, windows, maximum, False, aligned, True)
    return GRADIENT(problem)(*arrays)
