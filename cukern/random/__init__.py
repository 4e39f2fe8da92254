"""Random numbers, with the same bits on every device.

The functions draw from a stream of the current device, which :func:`seed` restarts; the methods of a generator of
:func:`default_rng` draw from a stream of its own.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..device import Device, current
from ..namespace.hints import MODULES, missing
from .generator import Generator as Generator
from .generator import default_rng as default_rng
from .generator import key_of
from .legacy import RandomState as RandomState

F = TypeVar("F", bound=Callable[..., Any])

_shared_seed: tuple[int, int] | None = None
_shared: dict[Device, RandomState] = {}
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
    key = key_of(seed, "seed")
    with _sharing:
        _shared_seed = key
        _shared.clear()


def _generator(device: Device | None = None) -> RandomState:
    """The generator of this module's functions on a device, by default the current one."""
    device = device or current()
    known = _shared.get(device)
    if known is not None:
        return known
    with _sharing:
        if _shared_seed is None:
            seed()
        assert _shared_seed is not None
        if device not in _shared:
            _shared[device] = RandomState.from_key(_shared_seed, device)
        return _shared[device]


def _of_shared(method: F) -> F:
    """A generator's method as a function that draws from the current device's shared generator."""

    @functools.wraps(method)
    def function(*args: Any, **options: Any) -> Any:
        return method(_generator(), *args, **options)

    parameters = list(inspect.signature(method).parameters.values())[1:]
    vars(function)["__signature__"] = inspect.signature(method).replace(parameters=parameters)
    return function  # type: ignore[return-value]


bernoulli = _of_shared(RandomState.bernoulli)
beta = _of_shared(RandomState.beta)
binomial = _of_shared(RandomState.binomial)
bits = _of_shared(RandomState.bits)
bytes = _of_shared(RandomState.bytes)
chisquare = _of_shared(RandomState.chisquare)
choice = _of_shared(RandomState.choice)
dirichlet = _of_shared(RandomState.dirichlet)
exponential = _of_shared(RandomState.exponential)
f = _of_shared(RandomState.f)
gamma = _of_shared(RandomState.gamma)
geometric = _of_shared(RandomState.geometric)
get_state = _of_shared(RandomState.get_state)
gumbel = _of_shared(RandomState.gumbel)
hypergeometric = _of_shared(RandomState.hypergeometric)
integers = _of_shared(RandomState.integers)
laplace = _of_shared(RandomState.laplace)
logistic = _of_shared(RandomState.logistic)
lognormal = _of_shared(RandomState.lognormal)
logseries = _of_shared(RandomState.logseries)
multinomial = _of_shared(RandomState.multinomial)
multivariate_normal = _of_shared(RandomState.multivariate_normal)
negative_binomial = _of_shared(RandomState.negative_binomial)
noncentral_chisquare = _of_shared(RandomState.noncentral_chisquare)
noncentral_f = _of_shared(RandomState.noncentral_f)
normal = _of_shared(RandomState.normal)
pareto = _of_shared(RandomState.pareto)
permutation = _of_shared(RandomState.permutation)
poisson = _of_shared(RandomState.poisson)
power = _of_shared(RandomState.power)
rand = _of_shared(RandomState.rand)
randint = _of_shared(RandomState.randint)
randn = _of_shared(RandomState.randn)
random = _of_shared(RandomState.random)
random_integers = _of_shared(RandomState.random_integers)
random_sample = _of_shared(RandomState.random_sample)
rayleigh = _of_shared(RandomState.rayleigh)
set_state = _of_shared(RandomState.set_state)
shuffle = _of_shared(RandomState.shuffle)
standard_cauchy = _of_shared(RandomState.standard_cauchy)
standard_exponential = _of_shared(RandomState.standard_exponential)
standard_gamma = _of_shared(RandomState.standard_gamma)
standard_normal = _of_shared(RandomState.standard_normal)
standard_t = _of_shared(RandomState.standard_t)
triangular = _of_shared(RandomState.triangular)
uniform = _of_shared(RandomState.uniform)
vonmises = _of_shared(RandomState.vonmises)
wald = _of_shared(RandomState.wald)
weibull = _of_shared(RandomState.weibull)
zipf = _of_shared(RandomState.zipf)
ranf = sample = random_sample

__all__ = (
    "Generator RandomState bernoulli beta binomial bits bytes chisquare choice default_rng dirichlet "
    "exponential f gamma geometric get_state gumbel hypergeometric integers laplace logistic lognormal "
    "logseries multinomial multivariate_normal negative_binomial noncentral_chisquare noncentral_f normal "
    "pareto permutation poisson power rand randint randn random random_integers random_sample ranf "
    "rayleigh sample seed set_state shuffle standard_cauchy standard_exponential standard_gamma "
    "standard_normal standard_t triangular uniform vonmises wald weibull zipf "
).split()

__getattr__, __dir__ = missing(__name__, __all__, MODULES["random"])
