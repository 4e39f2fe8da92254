"""Programs written as NumPy, by operations one after another, by `ck.jit`, `torch.compile` and `jax.jit`.

Usage: python benchmarks/jit.py [--scale N] [--only WORD] [--out FILE]

Random data; every side's results are compared with those of cukern's operations one by one. Times are those of the
device, by turns; "limit" is the time of a copy that reads and writes as many bytes as the program's arguments and
results have. `--scale` divides sizes, for a try without a GPU.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
from measure import Benchmark, torch

import cukern as ck

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = jnp = None


class Numbers:
    """What the libraries name differently.

    Args:
        xp: the library.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def erf(self, x: Any) -> Any:
        """The error function."""
        return jax.scipy.special.erf(x) if self.xp is jnp else self.xp.erf(x)

    def std(self, x: Any) -> Any:
        """The standard deviation of rows, as a column."""
        if self.xp is torch:
            return x.std(1, correction=0, keepdim=True)
        return self.xp.std(x, axis=1, keepdims=True)

    def mean(self, x: Any) -> Any:
        """The mean of rows, as a column."""
        return x.mean(1, keepdim=True) if self.xp is torch else x.mean(axis=1, keepdims=True)

    def put(self, x: Any, key: Any, value: Any) -> Any:
        """A copy of an array with other values at a key."""
        if self.xp is jnp:
            return x.at[key].set(value)
        new = x.clone() if self.xp is torch else x.copy()
        new[key] = value
        return new

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        """An array shifted cyclically."""
        return self.xp.roll(x, shift, axis)


INNER = (slice(1, -1), slice(1, -1))


def heat(of: Numbers, u: Any) -> Any:
    """Ten explicit steps of the heat equation, with fixed values at the border."""
    for _ in range(10):
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u = of.put(u, INNER, u[INNER] + 0.1 * (around - 4 * u[INNER]))
    return u


def sobel(of: Numbers, x: Any) -> Any:
    """The size of an image's gradient."""
    across = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
    down = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
    return of.xp.sqrt(across * across + down * down)


def black_scholes(of: Numbers, s: Any, k: Any, t: Any) -> Any:
    """The prices of call and put options."""
    xp, r, v = of.xp, 0.02, 0.3
    root = v * xp.sqrt(t)
    d1 = (xp.log(s / k) + (r + v * v / 2) * t) / root
    d2 = d1 - root
    n1, n2 = (0.5 * (1 + of.erf(d * 0.7071067811865476)) for d in (d1, d2))
    left = k * xp.exp(-r * t)
    call = s * n1 - left * n2
    return call, call - s + left


def mandelbrot(of: Numbers, x: Any, y: Any) -> Any:
    """Twenty steps of z*z + c from z = 0, in real and imaginary parts, and how many stay small."""
    xp = of.xp
    a, b, count = x * 0, y * 0, x * 0
    for _ in range(20):
        inside = a * a + b * b < 4
        a, b = xp.where(inside, a * a - b * b + x, a), xp.where(inside, 2 * a * b + y, b)
        count = count + xp.where(inside, 1.0, 0.0)
    return count


def standardised(of: Numbers, x: Any) -> Any:
    """Rows with mean 0 and variance 1."""
    return (x - of.mean(x)) / of.std(x)


def moving_average(of: Numbers, x: Any) -> Any:
    """The mean of eight neighbours along rows."""
    return sum((x[:, i : x.shape[1] - 7 + i] for i in range(1, 8)), x[:, : x.shape[1] - 7]) / 8


def kmeans(of: Numbers, x: Any, c: Any) -> Any:
    """The squared distances to the nearest centres."""
    d = (x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)[None]
    return d.min(1).values if of.xp is torch else d.min(axis=1)


def wave(of: Numbers, u: Any, v: Any) -> Any:
    """A step of the wave equation with cyclic borders."""
    around = of.roll(u, 1, 0) + of.roll(u, -1, 0) + of.roll(u, 1, 1) + of.roll(u, -1, 1) - 4 * u
    return 2 * u - v + 0.25 * around


def correlation(of: Numbers, x: Any, y: Any) -> Any:
    """The correlation of each pair of rows."""
    a, b = x - of.mean(x), y - of.mean(y)
    return (a * b).sum(1) / of.xp.sqrt((a * a).sum(1) * (b * b).sum(1))


#: The nine velocities of a lattice in two dimensions, and their weights at rest.
VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
AT_REST = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)


def lattice(of: Numbers, f: Any) -> Any:
    """A lattice-Boltzmann step, D2Q9 with one relaxation time: collisions, then the populations move on."""
    rho = f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8]
    u = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho
    v = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho
    rest = 1 - 1.5 * (u * u + v * v)
    moved = []
    for i, ((a, b), weight) in enumerate(zip(VELOCITIES, AT_REST, strict=True)):
        along = 3 * (a * u + b * v)
        new = f[i] + 0.6 * (weight * rho * (rest + along + 0.5 * along * along) - f[i])
        moved.append(of.roll(of.roll(new, a, 1), b, 0))
    return of.xp.stack(moved)


def bootstrap(of: Numbers, x: Any, index: Any) -> Any:
    """The means of samples that were drawn again, and their standard error."""
    sample = x[index]
    mean = of.mean(sample)
    return mean, of.xp.sqrt(of.mean((sample - mean) ** 2) / sample.shape[1])


def forms(of: Numbers, a: Any, x: Any, y: Any) -> Any:
    """Bilinear forms of many small matrices, squashed."""
    return of.xp.tanh(of.xp.einsum("bi,bi->b", x, of.xp.einsum("bij,bj->bi", a, y)))


@dataclass
class Case:
    """A program and its arguments.

    Attributes:
        make: the arguments as NumPy arrays, of sizes divided by a number.
    """

    program: Callable[..., Any]
    make: Callable[[np.random.Generator, int], list[Any]]

    def __str__(self) -> str:
        return self.program.__name__


def normal(*shape: int) -> Callable[[np.random.Generator, int], list[Any]]:
    """One array of normal numbers."""
    return lambda rng, n: [rng.standard_normal([max(16, s // n) for s in shape], np.float32)]


def positive(count: int, size: int) -> Callable[[np.random.Generator, int], list[Any]]:
    """Several vectors of numbers between 0.5 and 1.5."""
    return lambda rng, n: [rng.random(size // n, np.float32) + np.float32(0.5) for _ in range(count)]


def several(*each: Callable[..., list[Any]]) -> Callable[[np.random.Generator, int], list[Any]]:
    """The arguments of several functions."""
    return lambda rng, n: [x for one in each for x in one(rng, n)]


def populations(*shape: int) -> Callable[[np.random.Generator, int], list[Any]]:
    """Populations of a lattice near rest."""
    rest = np.array(AT_REST, np.float32)[:, None, None]
    return lambda rng, n: [rest * (1 + 0.1 * rng.random([9, *(s // n for s in shape)], np.float32))]


def draws(size: int, count: int) -> Callable[[np.random.Generator, int], list[Any]]:
    """A vector, and as many samples of its positions, drawn with repetition."""
    return lambda rng, n: [
        rng.standard_normal(size // n, np.float32),
        rng.integers(0, size // n, (count // n, size // n), np.int32),
    ]


def matrices(count: int, size: int) -> Callable[[np.random.Generator, int], list[Any]]:
    """Matrices, and two vectors for each."""
    return lambda rng, n: [
        rng.standard_normal([count // n, *shape], np.float32) for shape in ((size, size), (size,), (size,))
    ]


CASES = [
    Case(heat, normal(8192, 8192)),
    Case(sobel, normal(8192, 8192)),
    Case(black_scholes, positive(3, 1 << 24)),
    Case(mandelbrot, several(normal(2048, 2048), normal(2048, 2048))),
    Case(standardised, normal(4096, 4096)),
    Case(moving_average, normal(8192, 8192)),
    Case(kmeans, several(normal(1 << 20, 16), lambda rng, n: [rng.standard_normal((64, 16), np.float32)])),
    Case(wave, several(normal(8192, 8192), normal(8192, 8192))),
    Case(correlation, several(normal(8192, 4096), normal(8192, 4096))),
    Case(lattice, populations(4096, 4096)),
    Case(bootstrap, draws(1 << 14, 1 << 13)),
    Case(forms, matrices(1 << 16, 64)),
]


#: A table of its own, and its sizes: features, hidden features, outputs.
PER_EXAMPLE = (
    "64 gradients, one for each example, beside one of all: us on the host's clock, with the end of the call"
)
SIZES = (64, 128, 10), (784, 256, 10), (256, 512, 10)


def loss(xp: Any, weights: Any, x: Any, y: Any) -> Any:
    """The summed squared error of an MLP of three layers."""
    a, b, c, d, e, f = weights
    error = xp.tanh(xp.tanh(x @ a + b) @ c + d) @ e + f - y
    return (error * error).sum()


def leaves(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def difference(own: Any, other: Any) -> float:
    """The largest difference of results, in parts of the largest value."""
    worst = 0.0
    for a, b in zip(leaves(own), leaves(other), strict=True):
        x, y = (
            np.asarray(v.cpu() if torch is not None and isinstance(v, torch.Tensor) else v) for v in (a, b)
        )
        assert x.shape == y.shape, (x.shape, y.shape)
        worst = max(worst, float(np.abs(x.astype(np.float64) - y).max() / np.abs(y).max()))
    return worst


def main() -> None:
    """Measure the cases."""
    heads = [
        "program",
        "operations",
        "`ck.jit`",
        "kernels",
        "`torch.compile`",
        "`jax.jit`",
        "limit",
        "difference",
    ]
    bench = Benchmark(__doc__, "device times in us; JAX's on the host's clock", heads)
    for case in bench.chosen(CASES):
        bench.row(case, *measured(bench, case))
    each = bench.chosen([PER_EXAMPLE])
    bench.end(*each, *[line for _ in each for line in per_example(bench)])


def measured(bench: Benchmark, case: Case) -> list[Any]:
    """The cells of a case."""
    arguments = case.make(np.random.default_rng(0), bench.scale)
    xs = [ck.asarray(x) for x in arguments]
    own, program = Numbers(ck), case.program
    jitted = ck.jit(lambda *a: program(own, *a))
    desired = tuple(x.numpy() for x in leaves(program(own, *xs)))
    for _ in range(3):
        made = jitted(*xs)
    worst = difference(tuple(x.numpy() for x in leaves(made)), desired)
    sides: list[Any] = [lambda: program(own, *xs), lambda: jitted(*xs), None]
    if torch is not None and xs[0].device.kind == "cuda":
        torch._dynamo.reset()
        ts, others = [torch.from_dlpack(x) for x in xs], Numbers(torch)
        compiled = torch.compile(lambda *a: program(others, *a))
        worst = max(worst, difference(compiled(*ts), desired))
        sides[2] = lambda: compiled(*ts)
    in_jax = None
    if jax is not None:
        js, of_jax = [jnp.asarray(x) for x in arguments], Numbers(jnp)
        traced = jax.jit(lambda *a: program(of_jax, *a))
        worst = max(worst, difference(traced(*js), desired))
        in_jax = 1e6 * seconds(lambda: jax.block_until_ready(traced(*js)))
    sides.append(bench.copy_of(sum(x.nbytes for x in (*xs, *desired))))
    times = bench.microseconds(*sides)
    return [*times[:2], len(jitted.launches(*xs)), times[2], in_jax, times[3], f"{worst:.1e}"]


def per_example(bench: Benchmark) -> list[str]:
    """The lines of a table: the gradient of an MLP's loss over 64 examples, and one gradient for each of them."""
    rng, count = np.random.default_rng(0), 64
    lines = [
        "",
        "| features, hidden, outputs | `ck.jit`, one | 64 | `ck.capture`, one | 64 | `jax.jit`, one | 64 |",
    ]
    lines.append("| --- " * 7 + "|")
    for features, hidden, outputs in SIZES:
        shapes = (features, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, outputs), (outputs,)
        weights = [0.1 * rng.standard_normal(one, np.float32) for one in shapes]
        x, y = (rng.standard_normal((count, one), np.float32) for one in (features, outputs))
        cells = [f"{features}, {hidden}, {outputs}"]
        sides: list[tuple[Any, Any, Any, Any, Any]] = [
            (ck, ck.asarray, ck.grad, ck.vmap, decorate) for decorate in (ck.jit, ck.capture)
        ]
        if jax is not None:
            sides.append((jnp, jnp.asarray, jax.grad, jax.vmap, jax.jit))
        desired = None
        for xp, array, grad, vmap, decorate in sides:
            one = grad(partial(loss, xp))
            args = tuple(map(array, weights)), array(x), array(y)
            both = [decorate(one), decorate(vmap(one, in_axes=(None, 0, 0)))]
            for _ in range(3):
                whole, each = (np.asarray(call(*args)[0]) for call in both)
            desired = whole if desired is None else desired
            for made in (whole, each.sum(axis=0)):
                assert np.abs(made - desired).max() <= 1e-2 * np.abs(desired).max()
            for call in both:

                def ended(call: Any = call, args: Any = args, own: bool = xp is ck) -> None:
                    made = call(*args)
                    bench.device.synchronize() if own else jax.block_until_ready(made)

                cells.append(f"{1e6 * seconds(ended):.0f}")
        lines.append(f"| {' | '.join(cells + [''] * (7 - len(cells)))} |")
    return lines


def seconds(call: Callable[[], Any]) -> float:
    """The median time of a call on the host's clock."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
