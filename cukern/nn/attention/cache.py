"""The keys and values of earlier positions, which generation attends to."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...array import Array
from ...array.creation import zeros
from ...device import Device
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from ..fused import require_beside, require_shape, require_sizes

_APPEND = Kernel("nn/attention/append.cu", name="attention_append", block=256)


class KeyValueCache:
    """Keys and values of the positions so far, in arrays with room for ``capacity`` positions.

    A step computes keys and values of its new positions only, appends them, and attends to ``keys`` and ``values``
    with ``key_lengths=cache.lengths``, as :class:`MultiHeadAttention` does with ``cache=``. The lengths are on the
    device, so that each replay of a step that :func:`cukern.capture` recorded appends behind the one before it.

    Prompts of unequal lengths may be appended together, padded at their ends: then set ``cache.lengths[...]`` to their
    lengths. What follows is written over the padding.

    Attributes:
        keys: shape (batch, heads, capacity, features).
        values: shape (batch, heads, capacity, value features).
        lengths: shape (batch,), int32: how many positions of each batch are present.

    Args:
        batch: the number of sequences.
        heads: the number of heads of keys.
        capacity: the most positions of a sequence.
        features: elements of a key of a head.
        value_features: elements of a value of a head; ``features`` when None.
        dtype: that of keys and values; the default floating dtype when None.
        device: where they are; the current one when None.

    Raises:
        TypeError: a size is not an int, or ``dtype`` is not floating.

    >>> import cukern as ck
    >>> cache = ck.nn.KeyValueCache(batch=1, heads=2, capacity=8, features=4)
    >>> for step in range(3):
    ...     q = k = v = ck.ones((1, 2, 1, 4)) * step
    ...     cache.append(k, v)
    ...     y = ck.nn.attention(q, cache.keys, cache.values, key_lengths=cache.lengths)
    >>> cache.lengths.tolist()
    [3]
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        capacity: int,
        features: int,
        value_features: int | None = None,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        value_features = features if value_features is None else value_features
        sizes = {"batch": batch, "heads": heads, "capacity": capacity, "features": features}
        require_sizes("KeyValueCache", **sizes, value_features=value_features)
        made = dtypes.as_dtype(float if dtype is None else dtype)
        if dtypes.info(made).kind != "f":
            raise TypeError(f"KeyValueCache: dtype: expected a floating dtype, got {made}")
        self.keys = zeros((batch, heads, capacity, features), made, device)
        self.values = zeros((batch, heads, capacity, value_features), made, device)
        self.lengths = zeros((batch,), dtypes.int32, device)

    @property
    def capacity(self) -> int:
        """The most positions of a sequence."""
        return self.keys.shape[2]

    def append(self, k: Array, v: Array) -> None:
        """Write keys and values behind those that are present, and count them. They get no gradient.

        Args:
            k: shape (batch, heads, L, features), in the cache's dtype.
            v: shape (batch, heads, L, value features), likewise.

        Raises:
            TypeError: an argument is not an array of the cache's dtype.
            ValueError: a shape or device is not the cache's; or there is no room, which is checked only on the host:
                on a GPU what is beyond the capacity is left out.
        """
        batch, heads, capacity, _ = self.keys.shape
        length: Any = k.shape[2] if isinstance(k, Array) and k.ndim == 4 else "L"
        for name, one, own in (("k", k, self.keys), ("v", v, self.values)):
            if not isinstance(one, Array) or one.dtype != own.dtype:
                got = one.dtype if isinstance(one, Array) else type(one).__name__
                raise TypeError(f"KeyValueCache.append: {name}: expected an array of {own.dtype}, got {got}")
            require_shape("KeyValueCache.append", name, one, batch, heads, length, own.shape[3])
            require_beside("KeyValueCache.append", name, one, own, "the cache")
        if not k.size + v.size:
            return
        if self.keys.device.addressable and (self.lengths.numpy() + length > capacity).any():
            raise ValueError(
                f"KeyValueCache.append: expected room for {length} positions, but the capacity is {capacity}, and "
                f"{self.lengths.tolist()} are taken"
            )
        grid = divide_up(k.size + v.size, 256)
        _APPEND(k, v, self.lengths, self.keys, self.values, grid=grid)
        self.lengths += length

    def reset(self) -> None:
        """Forget all positions."""
        self.lengths[...] = 0

    def __repr__(self) -> str:
        batch, heads, capacity, features = self.keys.shape
        return (
            f"KeyValueCache(batch={batch}, heads={heads}, capacity={capacity}, features={features}, "
            f"value_features={self.values.shape[3]}, dtype={self.keys.dtype}, device={self.keys.device})"
        )
