"""The families of products with quantised weights: of calls, and of a decoder's step."""

from __future__ import annotations

from ..launch.family import Family
from . import samples
from .problem import Quantised
from .rows import FewRows, Serial, SettledRows
from .variants import Dense, DequantisedTiles, Warpgroups

#: Takes the activations, the blocks, and a bias if there is one.
QUANTISED: Family[Quantised] = Family(
    "quantised product",
    Serial,
    FewRows,
    Warpgroups,
    DequantisedTiles,
    Dense,
    reference=samples.product,
    samples=samples.products,
)
#: Takes the blocks, activations, numbers, factors, what is added, the weights of a norm and what is added to squares.
SETTLED: Family[Quantised] = Family(
    "quantised product of a step", SettledRows, reference=samples.settled, samples=samples.steps
)
