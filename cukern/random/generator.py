"""Random numbers, with the same bits on every device: streams of :mod:`.philox`."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from .. import dtypes, namespace
from ..array.array import Array
from ..array.batched import in_progress, left
from ..array.creation import asarray
from ..array.layout import fresh_layout, shape_of
from ..device import Device, capture_hooks, current
from ..elementwise.operands import normalize_axis
from ..errors import require_int
from ..index.sort import sorted_rows
from ..kernel import Kernel
from ..kernel.plan import compiled, launch, new, on, threads
from ..kernel.sizes import divide_up
from .distributions import on_host
from .philox import WORD, draw, numbers, philox
from .transformed import Location, Transformed

Size = SupportsIndex | Sequence[SupportsIndex] | None
Number = Array | float

_TIES = Kernel("random/ties.cu", block=256)
#: Elements per thread, on the host and on a GPU.
_PIECES = {"serial": 1 << 16, "simt": 16}
_ARRAYS = (Array, np.ndarray, list, tuple)


class Generator(Transformed):
    """A stream of random numbers, from :func:`default_rng`.

    Every method takes ``size``, the shape of the result, and ``dtype``, and draws on the generator's
    device. Drawn numbers are constants to a tape; ``low``, ``high``, ``loc`` and ``scale`` may be
    arrays, and the result is differentiable with respect to them.

    Attributes:
        device: where the results are.
    """

    def __init__(self, key: tuple[int, int], device: Device) -> None:
        self.device = device
        self._key = key
        self._counter = 0
        self._children = 0

    def __repr__(self) -> str:
        return (
            f"Generator(Philox4x32-10, key={self._key}, counter={self._counter}, device={str(self.device)!r})"
        )

    @property
    def state(self) -> dict[str, Any]:
        """The position in the stream, as a dict of integers; assign a saved state to continue from there.

        >>> rng = default_rng(7)
        >>> state = rng.state
        >>> first = rng.random(3).tolist()
        >>> rng.state = state
        >>> rng.random(3).tolist() == first
        True
        """
        return {
            "bit_generator": "Philox4x32-10",
            "key": list(self._key),
            "counter": self._counter,
            "children": self._children,
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        whole = isinstance(state, Mapping) and {"key", "counter", "children"} <= state.keys()
        if not whole or state.get("bit_generator") != "Philox4x32-10":
            raise ValueError(f"state: expected the state of a Philox4x32-10 generator, got {state!r:.200}")
        first, second = map(operator.index, state["key"])
        if not (0 <= first <= WORD and 0 <= second <= WORD):
            raise ValueError(f"state: key: expected two words of 32 bits, got {state['key']!r}")
        counter, children = operator.index(state["counter"]), operator.index(state["children"])
        if not (0 <= counter < 2**63 and 0 <= children < 2**63):
            raise ValueError(
                f"state: counter, children: expected 0 to 2**63 - 1, got {counter} and {children}"
            )
        self._key, self._counter, self._children = (first, second), counter, children

    def split(self, n: int = 2) -> list[Generator]:
        """Make ``n`` generators of independent streams; this generator's own stream does not advance.

        Philox computes the key of each from this generator's key and the child's number.

        >>> a, b = default_rng(0).split()
        >>> a.random(2).tolist() == b.random(2).tolist()
        False
        """
        result = []
        for _ in range(require_int("split: n", n, 0)):
            low, high = self._children & WORD, self._children >> 32
            self._children += 1
            # Draws use counters whose third word is 0, so children's keys never repeat drawn bits.
            k0, k1, _, _ = philox((low, high, 1, 0), self._key)
            result.append(Generator((k0, k1), self.device))
        return result

    spawn = split

    def _draw(
        self, kind: str, size: Size, dtype: dtypes.DType, *extra: float, located: Location = ()
    ) -> Array:
        shape = () if size is None else shape_of(size)  # type: ignore[arg-type]
        if calls := in_progress():
            with left():
                made = self._draw(
                    kind, (*[one.size for one in calls], *shape), dtype, *extra, located=located
                )
            for level in calls:
                made = level.batched(made)
            return made
        with on(self.device):
            (result,) = new((fresh_layout(self.device, dtype, shape),))
        if n := math.prod(shape):
            groups = -(-n // numbers(dtype, kind))
            offset = capture_hooks.numbers(dtypes.uint64, partial(self._advance, groups))
            (counter,) = self._advance(groups) if offset is None else (offset._data,)
            draw(self.device, kind, dtype, result, groups, counter, (*self._key, *extra), located)
        return result

    def _advance(self, groups: int) -> tuple[int]:
        """Return the counter and advance it by ``groups`` groups of four words."""
        capture_hooks.drawn(self)
        counter = self._counter
        self._counter += groups
        return (counter,)

    def _claim(self, words: int) -> tuple[Array | None, int]:
        """Advance over random words that a kernel draws itself; return the memory of their counter, and the counter.

        Only a captured step, whose counter differs between replays, has one in memory.
        """
        advance = partial(self._advance, -(-words // 4))
        offset = capture_hooks.numbers(dtypes.uint64, advance)
        return offset, 0 if offset is not None else advance()[0]

    def bits(self, size: Size = None, dtype: Any = "uint32") -> Array:
        """Draw random words: every bit is 0 or 1 with equal probability.

        Args:
            size: the shape.
            dtype: uint32 or uint64.
        """
        wanted = dtypes.as_dtype(dtype)
        if wanted not in (dtypes.uint32, dtypes.uint64):
            raise TypeError(f"bits: dtype: expected uint32 or uint64, got {wanted}")
        return self._draw("bits", size, wanted)

    def bernoulli(self, p: Number = 0.5, size: Size = None) -> Array:
        """Bools that are True with probability ``p``."""
        p = self._parameter(p, "bernoulli: p", 0.0, 1.0)
        dtype = p.dtype if isinstance(p, Array) and p.dtype == dtypes.float64 else dtypes.float32
        return namespace.less(self._floats("uniform", size, dtype, p), p)

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = None, endpoint: bool = False
    ) -> Array:
        """Uniform integers from ``low`` up to but not including ``high``.

        Each takes a random word of 32 bits where the range has at most 2**32 integers, else of 64 bits.

        Args:
            low: the smallest integer; if ``high`` is None, this is ``high``, and ``low`` is 0. An array or a list gives
                each element its own range, of fewer than 2**53 integers; on a GPU empty ones are not refused then.
            high: the end of the range.
            size: the shape; by default the broadcast shape of the bounds.
            dtype: an integer dtype; int64 when None.
            endpoint: whether ``high`` is included.

        Raises:
            TypeError: a bound is not an integer.
            ValueError: the range is empty, or exceeds that of the dtype.

        >>> default_rng(0).integers(3, size=100).max().item()
        2
        """
        wanted = dtypes.default_int if dtype is None else dtypes.as_dtype(dtype)
        if dtypes.info(wanted).kind not in "iu":
            raise TypeError(f"integers: dtype: expected an integer dtype, got {wanted}")
        first, end = (0, low) if high is None else (low, high)
        if isinstance(first, _ARRAYS) or isinstance(end, _ARRAYS):
            return self._within(first, end, size, wanted, bool(endpoint))
        try:
            first, end = operator.index(first), operator.index(end) + bool(endpoint)
        except TypeError:
            raise TypeError(f"integers: low, high: expected integers, got {low!r} and {high!r}") from None
        limits = np.iinfo(wanted)
        if not limits.min <= first < end <= limits.max + 1:
            raise ValueError(f"integers: expected low < high within {wanted}, got {first} and {end}")
        # The kernel gets a range of all words as 0, and then accepts each.
        kind, words = ("short integers", 2**32) if end - first <= 2**32 else ("integers", 2**64)
        signed = (first + 2**63) % 2**64 - 2**63
        return self._draw(kind, size, wanted, (end - first) % words, signed)

    def _within(self, first: Any, end: Any, size: Size, wanted: dtypes.DType, endpoint: bool) -> Array:
        """Uniform integers of a range for each element."""
        first, end = (asarray(one, dtypes.int64, self.device) for one in (first, end))
        known = [on_host(one, np.int64) for one in (first, end)]
        if all(one is not None for one in known) and np.any(
            (np.greater if endpoint else np.greater_equal)(*known)
        ):
            raise ValueError(f"integers: expected low < high, got {first} and {end}")
        share = self._floats("uniform", size, dtypes.float64, first, end)
        result: Array = _scaled(share, first, end + endpoint)
        return result.astype(wanted)

    def permutation(self, x: Array | int, axis: int = 0) -> Array:
        """The slices of ``x`` along an axis in random order, or the integers below ``x`` in random order."""
        x = _parts(x, self.device)
        if not isinstance(x, Array):
            return self._order(x)
        axis = normalize_axis(axis, x.ndim, "permutation")
        return namespace.take(x, self._order(x.shape[axis]), axis=axis)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put the slices of ``x`` along an axis into random order, in place.

        Raises:
            GradientError: a tape tracks ``x``; use :meth:`permutation`.
        """
        if not isinstance(x, Array):
            raise TypeError(f"shuffle: x: expected a cukern.Array, got {type(x).__name__}")
        x[...] = self.permutation(x, axis)

    def _order(self, n: int) -> Array:
        words = self.bits(n)
        offset, counter = self._claim(4 * n)
        return random_order(words, counter if offset is None else offset._data, self._key)

    def choice(
        self, a: Array | int, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0
    ) -> Array:
        """Draw slices of ``a`` along an axis, or integers below ``a``, at random.

        Args:
            a: an array, or the number of integers to choose from.
            size: the shape of the draws.
            replace: whether a slice may be drawn again.
            p: the probability of each slice, which sum to 1; equal when None. Without replacement
                the slices are drawn one after another, by Gumbel keys (Vieira, "Gumbel-max trick and weighted
                reservoir sampling", 2014).
            axis: the axis of ``a``.

        Raises:
            ValueError: there are too few slices to choose from, or ``p`` is not a distribution.
        """
        a = _parts(a, self.device)
        axis = normalize_axis(axis, a.ndim, "choice") if isinstance(a, Array) else 0
        n = a.shape[axis] if isinstance(a, Array) else a
        shape = () if size is None else shape_of(size)  # type: ignore[arg-type]
        count = math.prod(shape)
        if count and (n <= 0 or (not replace and count > n)):
            raise ValueError(
                f"choice: cannot draw {count} of {max(n, 0)}{'' if replace else ' without replacement'}"
            )
        if p is not None:
            indices = self._weighted(_distribution(p, n, self.device), count, replace)
        elif replace:
            indices = self.integers(0, max(n, 1), count)
        elif n < max(_MANY, 64 * count):
            indices = self._order(n)[:count]
        else:
            indices = self._few(n, count)
        indices = namespace.reshape(indices, shape)
        return namespace.take(a, indices, axis=axis) if isinstance(a, Array) else indices

    def _few(self, n: int, count: int) -> Array:
        """The first ``count`` distinct ones of more draws from ``n`` integers, at least 64 times as many.

        The draws have fewer than ``count`` distinct ones with a probability below 2**-250.
        """
        drawn = self.integers(0, n, 2 * count + 64)
        order = namespace.argsort(drawn, stable=True)
        along = namespace.take(drawn, order)
        again = namespace.diff(along, prepend=along[:1] - 1) == 0
        first = namespace.sort(namespace.where(again, drawn.size, order))[:count]
        return namespace.take(drawn, first)

    def _weighted(self, p: Array, count: int, replace: bool) -> Array:
        if replace:
            total = namespace.cumulative_sum(p)
            drawn = self.random(count, "float64") * total[-1]
            indices = namespace.searchsorted(total, drawn, side="right")
            return namespace.minimum(indices, p.shape[0] - 1)
        if count > int(namespace.sum(p > 0).item()):
            raise ValueError("choice: p: fewer slices of positive probability than draws")
        keys = namespace.log(p) + self.gumbel(size=p.shape, dtype="float64")
        return namespace.argsort(keys, descending=True)[:count]


#: From so many integers on, a few are drawn without a permutation of all, which would take their memory.
_MANY = 1 << 24


def random_order(words: Array, counter: Any, key: Sequence[int]) -> Array:
    """A random permutation of the integers below n, int64: they are sorted by random ``words``, (n,).

    Runs of equal words are then shuffled.

    Args:
        words: uint32.
        counter: the counter of the stream that orders those of equal ``words``, or an ndarray that holds it.
        key: the stream's key.
    """
    device, n = words.device, words.size
    keys, indices = sorted_rows(words, True, False)
    if n > 1:
        block = threads(device, 256)
        piece = _PIECES[device.style]
        form = {"name": f"random_ties_{block}", "block": block, "live": not isinstance(counter, int)}
        values = (keys._data, indices._data, n, piece, counter, *key)
        launch(device, compiled(_TIES, device, **form), divide_up(n, block * piece), block, values)
    return indices


def _parts(x: Any, device: Device) -> Array | int:
    """The argument of a permutation or choice: a number of integers, or an array on ``device``."""
    if isinstance(x, (Array, list, tuple, np.ndarray)):
        return x if isinstance(x, Array) else asarray(x, device=device)
    return operator.index(x)


@namespace.fuse
def _scaled(share: Any, first: Any, end: Any) -> Any:
    return first + namespace.floor(share * (end - first).astype("float64")).astype("int64")


def _distribution(p: Any, n: int, device: Device) -> Array:
    """Probabilities in float64.

    Raises:
        ValueError: they are not ``n`` non-negative numbers that sum to 1.
    """
    result = asarray(p, device=device).astype("float64")
    if result.shape != (n,):
        raise ValueError(f"choice: p: expected shape ({n},), got {result.shape}")
    total = float(result.sum()._number())
    if not bool(namespace.all(result >= 0)) or abs(total - 1) > 1e-6:
        raise ValueError(f"choice: p: expected probabilities that sum to 1, got a sum of {total}")
    return result


def default_rng(
    seed: int | Sequence[int] | np.random.SeedSequence | Generator | None = None,
    device: Device | str | None = None,
) -> Generator:
    """Make a generator of random numbers.

    Args:
        seed: a non-negative integer or several, from which :class:`numpy.random.SeedSequence` makes the key;
            fresh entropy of the system when None. A Generator is returned unchanged.
        device: where to make arrays; the current device when None.

    Raises:
        TypeError: ``seed`` is none of these.
        ValueError: ``seed`` is negative.

    >>> rng = default_rng(0)
    >>> rng.random((2, 3)).shape
    (2, 3)
    >>> default_rng(1).bits(2).tolist() == default_rng(1).bits(2).tolist()
    True
    """
    if isinstance(seed, Generator):
        return seed
    return Generator(key_of(seed, "default_rng"), current() if device is None else Device(device))


def key_of(seed: Any, name: str) -> tuple[int, int]:
    """The key of a stream, of a seed as in :func:`default_rng`."""
    try:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: seed: expected an int of at least 0 or several, got {seed!r}") from None
    first, second = map(int, sequence.generate_state(2))
    return first, second
