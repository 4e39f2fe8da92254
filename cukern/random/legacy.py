"""The interface of ``numpy.random.RandomState``, by the streams of a generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array.array import Array
from ..device import Device, current
from ..errors import require_int
from .distributions import Size
from .generator import Generator, key_of


class RandomState(Generator):
    """A generator that also has the older methods of :class:`numpy.random.RandomState`; the numbers are not NumPy's.

    Args:
        seed: as in :func:`default_rng`.
        device: where results are; the current device when None.

    Raises:
        TypeError: ``seed`` is not an integer or a sequence of these.
        ValueError: ``seed`` is negative.

    >>> state = RandomState(3)
    >>> state.randn(2, 3).shape, state.randint(10, size=4).shape
    ((2, 3), (4,))
    """

    def __init__(
        self,
        seed: int | Sequence[int] | np.random.SeedSequence | None = None,
        device: Device | str | None = None,
    ) -> None:
        super().__init__(key_of(seed, "RandomState"), current() if device is None else Device(device))

    @classmethod
    def from_key(cls, key: tuple[int, int], device: Device) -> RandomState:
        """The stream of a key."""
        result = cls(0, device)
        result._key = key
        return result

    def seed(self, seed: int | Sequence[int] | np.random.SeedSequence | None = None) -> None:
        """Start again from a seed, as in the constructor."""
        self._key, self._counter, self._children = key_of(seed, "seed"), 0, 0

    def get_state(self) -> dict[str, Any]:
        """The position in the stream; see :attr:`Generator.state`."""
        return self.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a position in the stream."""
        self.state = state

    def rand(self, *size: int, dtype: Any = None) -> Array:
        """Uniform in [0, 1); ``size`` is given as separate arguments."""
        return self.random(size, dtype)

    def randn(self, *size: int, dtype: Any = None) -> Array:
        """Normal with mean 0 and standard deviation 1; ``size`` is given as separate arguments."""
        return self.standard_normal(size, dtype)

    def random_sample(self, size: Size = None, dtype: Any = None) -> Array:
        """Uniform in [0, 1), as :meth:`random`."""
        return self.random(size, dtype)

    def randint(self, low: Any, high: Any = None, size: Size = None, dtype: Any = None) -> Array:
        """:meth:`integers` from ``low`` up to but not including ``high``; bounds are rounded towards 0."""
        first, end = (int(one) if isinstance(one, (float, np.floating)) else one for one in (low, high))
        return self.integers(first, end, size, dtype)

    def random_integers(self, low: Any, high: Any = None, size: Size = None) -> Array:
        """:meth:`integers` from ``low`` to ``high``, which is included; from 1 to ``low`` without ``high``."""
        first, last = (1, low) if high is None else (low, high)
        return self.integers(first, last, size, endpoint=True)

    def tomaxint(self, size: Size = None) -> Array:
        """Uniform integers from 0 to 2**63 - 1."""
        return self.integers(0, 2**63, size)

    def bytes(self, length: int) -> bytes:
        """Random bytes, as a Python object; waits for the device."""
        count = require_int("bytes: length", length, 0)
        return self.bits(-(-count // 4), dtypes.uint32).numpy().tobytes()[:count]
