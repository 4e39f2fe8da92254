"""Random numbers, with the same bits on every device: streams of :mod:`.ops.philox`."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from . import dtypes, namespace
from .array.array import Array, shape_of
from .array.creation import asarray
from .device import Device, capture_hooks, current
from .elementwise.operands import normalize_axis
from .kernel.plan import allocate
from .namespace.hints import MODULES, missing
from .ops.distributions import Distributions
from .ops.philox import WORD, draw, numbers, philox

__all__ = (
    "Generator bernoulli beta binomial bits choice default_rng exponential gamma gumbel integers "
    "multinomial multivariate_normal normal permutation poisson random seed shuffle "
    "standard_exponential standard_normal standard_t uniform"
).split()

Size = SupportsIndex | Sequence[SupportsIndex] | None
Number = Array | float
F = TypeVar("F", bound=Callable[..., Any])


class Generator(Distributions):
    """A stream of random numbers; made by :func:`default_rng`.

    Every method takes ``size``, the shape of the result, and ``dtype``, and draws on the generator's
    device. Drawn numbers are constants to a tape; ``low``, ``high``, ``loc`` and ``scale`` may be
    arrays, and the result is differentiable with respect to them.

    Attributes:
        device: where arrays are made.
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
        if state.get("bit_generator") != "Philox4x32-10":
            raise ValueError(f"state: expected the state of a Philox4x32-10 generator, got {state!r}")
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
        if operator.index(n) < 0:
            raise ValueError(f"split: n: expected at least 0, got {n}")
        made = []
        for _ in range(n):
            low, high = self._children & WORD, self._children >> 32
            self._children += 1
            # Draws use counters whose third word is 0, so children's keys never repeat drawn bits.
            k0, k1, _, _ = philox((low, high, 1, 0), self._key)
            made.append(Generator((k0, k1), self.device))
        return made

    spawn = split

    def _draw(self, kind: str, size: Size, dtype: dtypes.DType, *extra: int) -> Array:
        shape = () if size is None else shape_of(size)  # type: ignore[arg-type]
        made = allocate(self.device, shape, dtype)
        if n := math.prod(shape):
            groups = -(-n // numbers(dtype, kind))
            place = capture_hooks.numbers(dtypes.uint64, partial(self._advance, groups))
            (counter,) = self._advance(groups) if place is None else (place._data,)
            draw(self.device, kind, dtype, made, groups, counter, (*self._key, *extra))
        return Array._wrap(made, self.device)

    def _advance(self, groups: int) -> tuple[int]:
        """Return the counter and advance it by ``groups`` groups of four words."""
        capture_hooks.drawn(self)
        counter = self._counter
        self._counter += groups
        return (counter,)

    def _claim(self, words: int) -> tuple[Array | None, int]:
        """Advance over random words that a kernel draws itself, from the counter that is returned.

        In a captured step it differs between replays, and is in the memory that is returned.
        """
        advance = partial(self._advance, -(-words // 4))
        place = capture_hooks.numbers(dtypes.uint64, advance)
        return place, 0 if place is not None else advance()[0]

    def _floats(self, kind: str, size: Size, dtype: Any, *parameters: Number | complex) -> Array:
        """Draw numbers of a floating kind; without ``size``, in the shape that the parameters broadcast to.

        Raises:
            ValueError: the parameters do not broadcast to ``size``.
        """
        wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        row = dtypes.info(wanted)
        if row.kind != "f" and not (row.kind == "c" and kind == "normal"):
            raise TypeError(f"{kind}: dtype: expected a floating dtype, got {wanted}")
        shapes = [p.shape for p in parameters if isinstance(p, Array)]
        sizes = np.broadcast_shapes(*shapes) if size is None else shape_of(size)  # type: ignore[arg-type]
        if shapes and np.broadcast_shapes(sizes, *shapes) != sizes:
            raise ValueError(f"{kind}: parameters of shapes {shapes} do not broadcast to size {sizes}")
        if row.kind != "c":
            return self._draw(kind, sizes, wanted)
        parts = self._draw(kind, (*sizes, 2), row.real) * math.sqrt(0.5)
        return Array._wrap(parts._data.view(wanted).reshape(sizes), self.device)

    def _known(self, parameter: Any) -> Any:
        """A parameter as a Python number or a cukern array."""
        if isinstance(parameter, (Array, int, float, complex)):
            return parameter
        return asarray(parameter, device=self.device)

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

    def random(self, size: Size = None, dtype: Any = None) -> Array:
        """Uniform in [0, 1), in steps of 2**-24 (float32), 2**-53 (float64), 2**-11 (float16) or 2**-8 (bfloat16)."""
        return self._floats("uniform", size, dtype)

    def uniform(self, low: Number = 0.0, high: Number = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Uniform in [low, high); rounding may give ``high``."""
        low, high = self._known(low), self._known(high)
        return _moved(self._floats("uniform", size, dtype, low, high), low, high - low)

    def standard_normal(self, size: Size = None, dtype: Any = None) -> Array:
        """Normal with mean 0 and standard deviation 1, by the Box-Muller transform.

        Of a complex dtype both parts are normal, with a variance of 0.5 each.
        """
        return self._floats("normal", size, dtype)

    def normal(
        self, loc: Number | complex = 0.0, scale: Number = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        loc, scale = self._known(loc), self._known(scale)
        return _moved(self._floats("normal", size, dtype, loc, scale), loc, _positive("normal", scale))

    def standard_exponential(self, size: Size = None, dtype: Any = None) -> Array:
        """Exponential with mean 1."""
        return self._floats("exponential", size, dtype)

    def exponential(self, scale: Number = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Exponential with mean ``scale``."""
        scale = self._known(scale)
        return _moved(self._floats("exponential", size, dtype, scale), 0.0, _positive("exponential", scale))

    def gumbel(self, loc: Number = 0.0, scale: Number = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Gumbel, the distribution of extreme values: ``loc - scale * log(-log(u))`` for uniform ``u``."""
        loc, scale = self._known(loc), self._known(scale)
        return _moved(self._floats("gumbel", size, dtype, loc, scale), loc, _positive("gumbel", scale))

    def bernoulli(self, p: Number = 0.5, size: Size = None) -> Array:
        """Bools that are True with probability ``p``."""
        p = self._known(p)
        if not isinstance(p, Array) and not 0 <= p <= 1:
            raise ValueError(f"bernoulli: p: expected a probability, got {p!r}")
        dtype = p.dtype if isinstance(p, Array) and p.dtype == dtypes.float64 else dtypes.float32
        return namespace.less(self._floats("uniform", size, dtype, p), p)

    def integers(
        self, low: int, high: int | None = None, size: Size = None, dtype: Any = None, endpoint: bool = False
    ) -> Array:
        """Uniform integers from ``low`` up to but not including ``high``.

        Args:
            low: the smallest integer; if ``high`` is None, this is ``high``, and ``low`` is 0.
            high: the end of the range.
            size: the shape.
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
        try:
            first, end = operator.index(first), operator.index(end) + bool(endpoint)
        except TypeError:
            raise TypeError(f"integers: low, high: expected integers, got {low!r} and {high!r}") from None
        limits = np.iinfo(wanted)
        if not limits.min <= first < end <= limits.max + 1:
            raise ValueError(f"integers: expected low < high within {wanted}, got {first} and {end}")
        # The kernel gets a range of 2**64 as 0, and then accepts every word.
        unsigned = (end - first) % 2**64
        signed = (first + 2**63) % 2**64 - 2**63
        return self._draw("integers", size, wanted, unsigned, signed)

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
        # Random keys of 64 bits are almost never equal; the stable sort orders equal ones as drawn.
        return namespace.argsort(self.bits(n, "uint64"))

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
            places = self._weighted(_distribution(p, n, self.device), count, replace)
        elif replace:
            places = self.integers(0, max(n, 1), count)
        else:
            places = self._order(n)[:count]
        places = namespace.reshape(places, shape)
        return namespace.take(a, places, axis=axis) if isinstance(a, Array) else places

    def _weighted(self, p: Array, count: int, replace: bool) -> Array:
        if replace:
            total = namespace.cumulative_sum(p)
            drawn = self.random(count, "float64") * total[-1]
            found = namespace.searchsorted(total, drawn, side="right")
            return namespace.minimum(found, p.shape[0] - 1)
        if count > int(namespace.sum(p > 0).item()):
            raise ValueError("choice: p: fewer slices of positive probability than draws")
        keys = namespace.log(p) + self.gumbel(size=p.shape, dtype="float64")
        return namespace.argsort(keys, descending=True)[:count]


def _parts(x: Any, device: Device) -> Array | int:
    """The argument of a permutation or choice: a number of integers, or an array on ``device``."""
    if isinstance(x, (Array, list, tuple, np.ndarray)):
        return x if isinstance(x, Array) else asarray(x, device=device)
    return operator.index(x)


def _positive(name: str, scale: Number) -> Number:
    if not isinstance(scale, Array) and not scale >= 0:
        raise ValueError(f"{name}: scale: expected at least 0, got {scale!r}")
    return scale


def _moved(drawn: Array, loc: Number | complex, scale: Number) -> Array:
    """``loc + scale * drawn`` in the dtype of ``drawn``."""
    if not isinstance(loc, Array) and not isinstance(scale, Array) and loc == 0 and scale == 1:
        return drawn
    made: Array = _affine(drawn, loc, scale)
    return made


@namespace.fuse
def _affine(drawn: Any, loc: Any, scale: Any) -> Any:
    return (loc + scale * drawn).astype(drawn.dtype)


def _distribution(p: Any, n: int, device: Device) -> Array:
    """Probabilities in float64.

    Raises:
        ValueError: they are not ``n`` non-negative numbers that sum to 1.
    """
    made = asarray(p, device=device).astype("float64")
    if made.shape != (n,):
        raise ValueError(f"choice: p: expected shape ({n},), got {made.shape}")
    total = float(made.sum()._number())
    if not bool(namespace.all(made >= 0)) or abs(total - 1) > 1e-6:
        raise ValueError(f"choice: p: expected probabilities that sum to 1, got a sum of {total}")
    return made


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
    try:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"default_rng: seed: expected an int of at least 0 or several, got {seed!r}"
        ) from None
    first, second = map(int, sequence.generate_state(2))
    return Generator((first, second), current() if device is None else Device(device))


_shared_seed: tuple[int, int] | None = None
_shared: dict[Device, Generator] = {}
_sharing = threading.RLock()


def seed(seed: int | Sequence[int] | np.random.SeedSequence | None = None) -> None:
    """Restart the streams of this module's functions, one for each device, all with the same bits.

    Args:
        seed: as in :func:`default_rng`; fresh entropy of the system when None.

    >>> seed(3)
    >>> first = normal(size=2).tolist()
    >>> seed(3)
    >>> normal(size=2).tolist() == first
    True
    """
    global _shared_seed
    key = default_rng(seed, "host")._key
    with _sharing:
        _shared_seed = key
        _shared.clear()


def _generator() -> Generator:
    """The generator of this module's functions on the current device."""
    device = current()
    with _sharing:
        if _shared_seed is None:
            seed()
        assert _shared_seed is not None
        return _shared.setdefault(device, Generator(_shared_seed, device))


def _of_shared(method: F) -> F:
    """A generator's method as a function that draws from the current device's shared generator."""

    @functools.wraps(method)
    def function(*args: Any, **options: Any) -> Any:
        return method(_generator(), *args, **options)

    parameters = list(inspect.signature(method).parameters.values())[1:]
    vars(function)["__signature__"] = inspect.signature(method).replace(parameters=parameters)
    return function  # type: ignore[return-value]


bernoulli = _of_shared(Generator.bernoulli)
beta = _of_shared(Generator.beta)
binomial = _of_shared(Generator.binomial)
bits = _of_shared(Generator.bits)
choice = _of_shared(Generator.choice)
exponential = _of_shared(Generator.exponential)
gamma = _of_shared(Generator.gamma)
gumbel = _of_shared(Generator.gumbel)
integers = _of_shared(Generator.integers)
multinomial = _of_shared(Generator.multinomial)
multivariate_normal = _of_shared(Generator.multivariate_normal)
normal = _of_shared(Generator.normal)
permutation = _of_shared(Generator.permutation)
poisson = _of_shared(Generator.poisson)
random = _of_shared(Generator.random)
shuffle = _of_shared(Generator.shuffle)
standard_exponential = _of_shared(Generator.standard_exponential)
standard_normal = _of_shared(Generator.standard_normal)
standard_t = _of_shared(Generator.standard_t)
uniform = _of_shared(Generator.uniform)


__getattr__, __dir__ = missing(__name__, __all__, MODULES["random"])
