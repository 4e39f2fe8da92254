"""The families of pooling over planes, and of its gradients."""

from __future__ import annotations

from ...array import Array
from ...array.layout import address
from ...kernel.sizes import ACCESS
from ...launch.family import Family
from . import reference, samples
from .geometry import Windows
from .problem import Pooling, channels_last, lies_channels_last
from .variants import ChannelsLast, ChannelsLastGradient, Portable, PortableGradient, Tiles, TilesGradient

POOLING: Family[Pooling] = Family(
    "pooling", Tiles, Portable, ChannelsLast, reference=reference.pooling, samples=samples.forward
)
GRADIENT: Family[Pooling] = Family(
    "gradient of pooling",
    TilesGradient,
    PortableGradient,
    ChannelsLastGradient,
    reference=reference.gradient,
    samples=samples.gradients,
)


def _aligned(*arrays: Array) -> bool:
    return not any(address(one._data) % ACCESS for one in arrays)


def pool(x: Array, windows: Windows, maximum: bool, keep: bool = False) -> tuple[Array, Array | None]:
    """The pooled ``x``; with ``keep`` also the index of each window's largest element."""
    last = lies_channels_last(x)
    x = channels_last(x) if last else x.contiguous()
    made = POOLING(Pooling(x.device, x.dtype, x.shape, last, windows, maximum, keep, _aligned(x)))(x)
    return (made[0], made[1]) if keep else (made, None)


def gradient(dy: Array, shape: tuple[int, ...], windows: Windows, winners: Array | None = None) -> Array:
    """The gradient of x, of max pooling if ``winners`` are given, else of average pooling."""
    last, maximum = lies_channels_last(dy if winners is None else winners), winners is not None
    given = [dy] if winners is None else [dy, winners]
    arrays = [channels_last(one) if last else one.contiguous() for one in given]
    problem = Pooling(
        dy.device, dy.dtype, shape, last, windows, maximum, False, _aligned(*arrays), gradient=True
    )
    made: Array = GRADIENT(problem)(*arrays)
    return made
