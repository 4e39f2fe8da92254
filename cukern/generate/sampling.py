"""Which token follows: the likeliest, or one drawn from the likeliest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import namespace as ops
from ..array import Array
from ..elementwise.fuse import fuse
from ..random import Generator


class Sampling(NamedTuple):
    """How tokens are drawn from logits.

    Attributes:
        temperature: what logits are divided by; 0 for the likeliest token.
        top_k: how many of the likeliest tokens take part; 0 for all.
        top_p: the fewest of the likeliest tokens take part whose probabilities sum to this, those of ``top_k``
            counted as all; 1 for all.

    Source of ``top_p``: Holtzman and others, "The curious case of neural text degeneration", 2020.

    >>> import cukern as ck
    >>> rng = ck.random.default_rng(0)
    >>> ck.generate.Sampling(temperature=0).draw(ck.asarray([[0.0, 2.0, 1.0]]), rng).tolist()
    [[1]]
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95

    def require(self) -> Sampling:
        """These numbers.

        Raises:
            ValueError: one is out of its range.
        """
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number of at least 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k: expected at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a number above 0 and up to 1, got {self.top_p}")
        return self

    def draw(self, logits: Array, rng: Generator) -> Array:
        """A token for each row of logits (batch, vocabulary): shape (batch, 1), int64.

        The likeliest of logits to which noise of Gumbel's distribution is added is a draw from their softmax.
        """
        if self.temperature == 0:
            return ops.argmax(logits, axis=-1, keepdims=True)
        count = min(self.top_k or logits.shape[-1], logits.shape[-1])
        if count == logits.shape[-1] and self.top_p == 1:
            return ops.argmax(
                _noisy(logits, self.temperature, rng.gumbel(size=logits.shape)), -1, keepdims=True
            )
        values, places = ops.topk(logits, count)
        values = values / self.temperature
        if self.top_p < 1:
            weights = ops.softmax(values, axis=-1)
            values = _kept(values, weights, ops.cumulative_sum(weights, axis=-1), self.top_p)
        chosen = ops.argmax(values + rng.gumbel(size=values.shape), axis=-1, keepdims=True)
        made: Array = ops.take_along_axis(places, chosen, axis=-1)
        return made


@fuse
def _noisy(logits: Any, temperature: float, noise: Any) -> Any:
    return logits / temperature + noise


@fuse
def _kept(values: Any, weights: Any, sums: Any, top_p: float) -> Any:
    # A token takes part if those before it have less than top_p; the first always does.
    return ops.where(sums - weights < top_p, values, -math.inf)
