"""Sampling of the next token: temperature, top-k and top-p; or the likeliest (greedy)."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

from .. import namespace as ops
from ..array import Array
from ..nn import sample_tokens
from ..nn.fused import is_int
from ..random import Generator


class Sampling(NamedTuple):
    """How tokens are drawn from logits.

    Attributes:
        temperature: what logits are divided by; 0 for the likeliest token.
        top_k: how many of the likeliest tokens take part; 0 for all.
        top_p: the fewest of the likeliest tokens take part whose probabilities sum to this, those of ``top_k``
            counted as all; 1 for all.

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
            TypeError: ``temperature`` or ``top_p`` is not a real number.
            ValueError: one is out of its range, or ``top_k`` is not an int.
        """
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name}: expected a number, got {value!r}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number of at least 0, got {self.temperature}")
        if not is_int(self.top_k) or self.top_k < 0:
            raise ValueError(f"top_k: expected an int of at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a number above 0 and up to 1, got {self.top_p}")
        return self

    def draw(self, logits: Array, rng: Generator) -> Array:
        """A token for each row of logits (batch, vocabulary): shape (batch, 1), int64; see :func:`sample_tokens`."""
        top_p = None if self.top_p == 1 else self.top_p
        tokens = sample_tokens(logits, self.temperature, top_k=self.top_k or None, top_p=top_p, rng=rng)
        return ops.expand_dims(tokens, axis=-1)
