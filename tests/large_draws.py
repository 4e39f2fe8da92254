"""Cases of more than 2**31 elements: random numbers, polynomials, assignment, and functions of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from large_inputs import Case, Inputs, ends, host, tail, written

import cukern as ck


def draws(a: Inputs) -> dict[str, Case]:
    """Random numbers: the mean of so many."""
    means: dict[str, tuple[float, tuple[float, ...]]] = {
        "exponential": (1.0, ()), "gumbel": (0.5772, ()), "laplace": (0.0, ()), "logistic": (0.0, ()),
        "lognormal": (np.exp(0.5), ()), "rayleigh": ((np.pi / 2) ** 0.5, ()), "standard_normal": (0.0, ()),
        "random": (0.5, ()), "pareto": (0.25, (5.0,)), "power": (0.75, (3.0,)), "weibull": (1.0, (1.0,)),
        "triangular": (2.0, (1.0, 2.0, 3.0)), "poisson": (4.0, (4.0,)), "gamma": (2.0, (2.0,)),
        "geometric": (4.0, (0.25,)), "bernoulli": (0.25, (0.25,)),
    }  # fmt: skip

    def mean(name: str, parameters: tuple[float, ...]) -> Any:
        made = getattr(ck.random.default_rng(3), name)(*parameters, size=a.n)
        return host(ck.mean(made, dtype="float32"))

    made = {
        f"random.{name}": Case(lambda name=name, given=given: mean(name, given), value, 0.01)
        for name, (value, given) in means.items()
    }
    generator = ck.random.default_rng(3)
    made["random.integers"] = Case(
        lambda: host(ck.mean(generator.integers(0, 9, a.n, dtype="int8"), dtype="float32")), 4, 0.01
    )
    made["random.permutation"] = Case(lambda: host(ck.sum(generator.permutation(a.n))), a.n * (a.n - 1) // 2)
    made["random.bits"] = Case(lambda: host(ck.mean(generator.bits(a.n), dtype="float32")) / 2**32, 0.5, 0.01)
    return made


def refused(x: ck.Array) -> float:
    """Whether a transform along several axes refuses one that 32 bits do not count, by its own error."""
    try:
        ck.fft.fftn(x.astype("complex64"))
    except ValueError as error:
        return float("elements along each of several axes" in str(error))
    return 0.0


def newest(a: Inputs) -> dict[str, Case]:
    """Functions of bits, polynomials by ascending coefficients, assignment and one's own kernels."""
    x, r, n, flags, places = a.marks, a.numbers, a.n, a.flags, a.places
    side = 1 << n.bit_length() // 2
    polynomial, line = ck.polynomial.polynomial, ck.asarray([1.0, 2.0], r.dtype)

    def assigned(y: ck.Array) -> None:
        y[flags] = 1

    def exchanged(y: ck.Array) -> None:
        y[n - 2 :] = y[:2]

    return {
        "fftn of many elements": Case(
            lambda: (
                host(
                    ck.fft.fftn(flags[: n // side * side].reshape((side, -1)).astype("complex64"))[0, 0]
                ).real
            ),
            lambda: host(ck.count_nonzero(flags[: n // side * side])),
            1e-3,
        ),
        "fftn of a long axis": Case(lambda: refused(flags[: n - n % 2][None]), float(n > 2**31)),
        "bitwise_count": ends(ck.bitwise_count, x),
        "frexp": ends(lambda y: ck.frexp(y)[1], r),
        "ldexp": ends(lambda y: ck.ldexp(y, 1), r),
        "require": Case(
            lambda: host(tail(ck.require(x[:, None].T, requirements="C").reshape(-1), 2)), [7, -5]
        ),
        "fuse": ends(ck.fuse(lambda y: y * 2 + 1), r),
        "polynomial.polyval": ends(lambda y: polynomial.polyval(y, line), r, tolerance=0.02),
        "polynomial.polyvander": Case(
            lambda: host(tail(polynomial.polyvander(r, 1), 1))[0], lambda: [1.0, float(host(r[n - 1]))], 0.01
        ),
        "assignment by a mask": Case(lambda: written(a, assigned), [3, 1, 1, 1, -5]),
        "assignment to a slice": Case(lambda: written(a, exchanged), [3, 0, 9, 3, 0]),
        "a mask": Case(lambda: host(x[flags]), [0, 9, 7]),
        "a gather": Case(lambda: host(x[places]), [3, 9, 7, -5]),
        "at[].add": Case(lambda: host(ck.take(x.at[places].add(1), places)), [4, 10, 8, -4]),
        "at[].set": Case(lambda: host(ck.take(x.at[n - 2 :].set(1), places)), [3, 9, 1, 1]),
        "add.accumulate": Case(lambda: host(tail(ck.add.accumulate(x), 2)), [19, 14]),
        "add.reduceat": Case(lambda: host(ck.add.reduceat(x, ck.asarray([0, n // 2, n - 1]))), [3, 16, -5]),
        "maximum.reduce": Case(lambda: host(ck.maximum.reduce(x)), 9),
        "where of numbers": Case(lambda: host(tail(ck.where(flags, 1, x), 3)), [0, 1, -5]),
        "a step of strides": Case(
            lambda: host(tail(x[1 - n % 2 :: 2].copy(), 2)), lambda: host(x[n - 3 :: 2])
        ),
        "x.mT of a matrix": Case(
            lambda: host(tail((x.reshape((a.rows, a.columns)).mT + 0).reshape(-1), 1)), [-5]
        ),
    }
