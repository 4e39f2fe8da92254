"""The families of batch and group norm, and of their gradients."""

from __future__ import annotations

from ...launch.family import Family
from . import reference
from .clusters import Clusters, ClustersGradient
from .problem import ChannelNorm
from .variants import GradientSeparate, Rows, Separate

CHANNEL_NORM: Family[ChannelNorm] = Family(
    "channel norm",
    Separate,
    Clusters,
    Rows,
    reference=reference.normalization,
    samples=reference.samples(of_gradient=False),
)
GRADIENT: Family[ChannelNorm] = Family(
    "gradient of channel norm",
    GradientSeparate,
    ClustersGradient,
    reference=reference.gradient,
    samples=reference.samples(of_gradient=True),
)
