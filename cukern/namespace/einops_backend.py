"""The backend of einops for cukern's arrays; importing this module registers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from .. import dtypes, namespace
from ..array import Array, creation
from ..array.operators import FUNCTIONS


class CukernBackend(AbstractBackend):
    """The functions that einops calls; einops finds its backends among the subclasses of ``AbstractBackend``."""

    framework_name = "cukern"

    def is_appropriate_type(self, tensor: object) -> bool:
        """Whether einops should use this backend for ``tensor``."""
        return isinstance(tensor, Array)

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Array:
        """A cukern array of a NumPy array."""
        return creation.asarray(x)

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        """A NumPy array of a cukern array."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Array:
        """The integers from ``start`` up to ``stop``."""
        return creation.arange(start, stop)

    def stack_on_zeroth_dimension(self, tensors: Sequence[Array]) -> Array:
        """The arrays along a new first axis."""
        return namespace.stack(tensors)

    def tile(self, x: Array, repeats: tuple[int, ...]) -> Array:
        """``x`` repeated as a whole along each axis; einops only repeats axes of size 1."""
        return namespace.broadcast_to(x, tuple(n * times for n, times in zip(x.shape, repeats, strict=True)))

    def concat(self, tensors: Sequence[Array], axis: int) -> Array:
        """The arrays joined along an axis."""
        return namespace.concat(tensors, axis=axis)

    def add_axis(self, x: Array, new_position: int) -> Array:
        """``x`` with a new axis of size 1."""
        return namespace.expand_dims(x, new_position)

    def is_float_type(self, x: Array) -> bool:
        """Whether ``x`` has a floating dtype."""
        return x.dtype in dtypes.INEXACT

    def einsum(self, pattern: str, *x: Array) -> Array:
        """The sum of products described by ``pattern``."""
        made: Array = FUNCTIONS["einsum"](pattern, *x)
        return made
