"""Work on one core of the host beside JAX and NumPy: models' parts, jitted programs, functions, calls on few elements.

Usage: python benchmarks/host.py [--core N] [--only WORD] [--quick] [--out FILE]

JAX compiles each of its functions whole (`jax.jit`) for the same core; without JAX those rows have no peer's time. All
results are compared with the peer's. Calls take turns, and the time of each is the median of rounds: of this process's
own time, that of all its threads, as other programs may have the core between. `--quick` leaves out the first call of a
kernel from an empty cache, which is a process of its own, by the clock.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

_PARSER = ArgumentParser(add_help=False)
_PARSER.add_argument("--core", type=int, default=0)
_OPTIONS, _REST = _PARSER.parse_known_args()
# Before NumPy and JAX are loaded, which count the cores that they may use.
os.sched_setaffinity(0, {_OPTIONS.core})
os.environ.update(
    CUKERN_NUM_THREADS="1",
    CUKERN_DEVICE="host",
    CUKERN_QUICK_BUILDS="0",
    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false",
    JAX_PLATFORMS="cpu",
)

import numpy as np  # noqa: E402
from jit import CASES, Numbers  # noqa: E402
from measure import Benchmark  # noqa: E402

import cukern as ck  # noqa: E402
from cukern import nn  # noqa: E402

try:
    import jax
    from jax import lax
    from jax import numpy as jnp
except ImportError:
    jax = None  # type: ignore[assignment]

Call = Callable[[], Any]
#: Seconds of a round of calls, and the rounds.
ROUND, ROUNDS = 1e-2, 25
#: The largest relative distance from the peer's result, in the norm of all elements.
LIMIT = 1e-4
#: What divides the sizes of programs that are measured on a GPU.
SCALE = 8


class Case(NamedTuple):
    """Calls that do the same: their name, the most that the ratio of times should be, cukern's and its peer's."""

    name: str
    goal: float
    own: Call
    peer: Call | None

    def __str__(self) -> str:
        return self.name


def _beside_jax(
    name: str, goal: float, own: Callable[..., Any], peer: Callable[..., Any], *arrays: Any
) -> Case:
    mine = ck.tree.map(ck.asarray, arrays)
    if jax is None:
        return Case(name, goal, lambda: own(*mine), None)
    compiled, theirs = jax.jit(peer), jax.tree.map(jnp.asarray, arrays)
    return Case(name, goal, lambda: own(*mine), lambda: jax.block_until_ready(compiled(*theirs)))


def _backward(function: Callable[..., Any], gradient: Any, mean: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of the mean square of a function's result, by all arguments."""

    def both(*arrays: Any) -> Any:
        return gradient(lambda *given: mean(function(*given) ** 2), tuple(range(len(arrays))))(*arrays)

    return both


def _conv(x: Any, weight: Any, stride: int = 1, own: bool = False) -> Any:
    if own:
        return nn.conv2d(x, weight, stride=stride, padding=1)
    return lax.conv_general_dilated(x, weight, (stride, stride), ((1, 1), (1, 1)))


def _own_conv(x: Any, weight: Any, stride: int = 1) -> Any:
    return _conv(x, weight, stride, own=True)


def _attention(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(q @ k.mT * q.shape[-1] ** -0.5, axis=-1)
    return weights @ v


def _lstm_cell(lib: Any, sigmoid: Any, fused: Any) -> Callable[..., Any]:
    @fused
    def gates(i: Any, f: Any, g: Any, o: Any, c: Any) -> Any:
        return sigmoid(o) * lib.tanh(sigmoid(f) * c + sigmoid(i) * lib.tanh(g))

    def cell(x: Any, h: Any, c: Any, weight: Any, bias: Any) -> Any:
        return gates(*lib.split(lib.concat([x, h], axis=1) @ weight + bias, 4, axis=1), c)

    return cell


def _group_norm(x: Any, weight: Any, bias: Any) -> Any:
    """By groups of 8 channels, channels first."""
    batch, channels = x.shape[:2]
    groups = x.reshape(batch, channels // 8, -1)
    mean, variance = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    y = ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return y * weight[:, None, None] + bias[:, None, None]


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias


def _rms_norm(x: Any, weight: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def _unet(x: Any, noise: Any, weights: Any, own: bool) -> Any:
    """The loss of a UNet of two levels."""
    conv: Any = _own_conv if own else _conv
    lib: Any = ck if own else jnp

    def block(x: Any, weight: Any, scale: Any, bias: Any) -> Any:
        if own:
            groups = x.shape[1] // 8
            return conv(nn.group_norm(x, groups, scale, bias, activation=nn.silu), weight)
        return conv(jax.nn.silu(_group_norm(x, scale, bias)), weight)

    start, first, down, low, middle, up, end = weights
    x = conv(x, start)
    kept = x = x + block(x, *first)
    x = conv(x, down, 2)
    x = x + block(x, *low)
    x = x + block(x, *middle)
    x = nn.interpolate(x, scale_factor=2) if own else x.repeat(2, axis=2).repeat(2, axis=3)
    x = block(lib.concat([x, kept], axis=1), *up)
    return lib.mean((conv(x, end) - noise) ** 2)


def _unet_weights(normal: Callable[..., Any], width: int) -> Any:
    def block(inputs: int, outputs: int) -> Any:
        scale = np.ones(inputs, np.float32), np.zeros(inputs, np.float32)
        return (0.05 * normal(outputs, inputs, 3, 3), *scale)

    conv = 0.05 * normal(width, 3, 3, 3)
    wide = 2 * width
    down, end = 0.05 * normal(wide, width, 3, 3), 0.05 * normal(3, width, 3, 3)
    blocks = block(width, width), block(wide, wide), block(wide, wide), block(wide + width, width)
    return [conv, blocks[0], down, *blocks[1:], end]


def models(rng: np.random.Generator) -> Iterator[Case]:
    """Parts of models, beside JAX."""

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    grads: Any = (ck.grad, ck.mean), (jax and jax.grad, jax and jnp.mean)

    def pair(name: str, own: Any, peer: Any, *arrays: Any) -> Iterator[Case]:
        yield _beside_jax(name, 2, own, peer, *arrays)
        both = (_backward(one, *grad) for one, grad in zip((own, peer), grads, strict=True))
        yield _beside_jax(f"{name}, forward and backward", 2, *both, *arrays)

    yield from pair(
        "convolution 8x16x32x32 to 32", _own_conv, _conv, normal(8, 16, 32, 32), 0.1 * normal(32, 16, 3, 3)
    )
    yield from pair("attention 2x4x128x32", nn.attention, _attention, *(normal(2, 4, 128, 32) for _ in "qkv"))
    batch, inputs, state = 32, 64, 128
    cell = (
        normal(batch, inputs),
        normal(batch, state),
        normal(batch, state),
        0.1 * normal(inputs + state, 4 * state),
        normal(4 * state),
    )
    cells = _lstm_cell(ck, ck.sigmoid, ck.fuse), jax and _lstm_cell(jnp, jax.nn.sigmoid, lambda one: one)
    yield from pair("LSTM step 32x64 to 128", *cells, *cell)
    width = 16
    arrays = normal(4, 3, 32, 32), normal(4, 3, 32, 32), _unet_weights(normal, width)
    yield _beside_jax(
        "UNet 4x3x32x32, width 16, forward and backward",
        2,
        ck.value_and_grad(lambda x, noise, weights: _unet(x, noise, weights, True), 2),
        jax and jax.value_and_grad(lambda x, noise, weights: _unet(x, noise, weights, False), 2),
        *arrays,
    )


def programs(rng: np.random.Generator) -> Iterator[Case]:
    """Programs written as NumPy, jitted, with arguments of about a million elements."""
    for case in CASES:
        own, peer = (xp and partial(case.program, Numbers(xp)) for xp in (ck, jax and jnp))
        yield _beside_jax(f"`ck.jit` of {case}", 1, ck.jit(own), peer, *case.make(rng, SCALE))


def short_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Programs on a million numbers in rows of a few, jitted, beside JAX."""

    def written(xp: Any) -> dict[str, Callable[..., Any]]:
        return {
            "sum of squares": lambda x, y, w: (x * x).sum(1),
            "largest": lambda x, y, w: x.max(1),
            "argmax": lambda x, y, w: x.argmax(1),
            "var": lambda x, y, w: x.var(1),
            "x - y, a number a row": lambda x, y, w: x - y,
            "exp(x - y)": lambda x, y, w: xp.exp(x - y),
            "x * w, a number a column": lambda x, y, w: x * w,
            "differences": lambda x, y, w: x[:, 1:] - x[:, :-1],
        }

    for length in (2, 3, 4, 8, 10, 16, 24, 32):
        x = rng.standard_normal((2**20 // length, length), np.float32)
        for name, own in written(ck).items():
            peer = jax and written(jnp)[name]
            yield _beside_jax(
                f"rows of {length}: {name}", 1, ck.jit(own), peer, x, x[:, :1].copy(), x[0].copy()
            )


def functions(rng: np.random.Generator) -> Iterator[Case]:
    """Elementwise functions, softmax and norms, beside JAX."""
    x = rng.standard_normal(2**18, np.float32)
    found = jax and {
        "exp": jnp.exp,
        "tanh": jnp.tanh,
        "silu": jax.nn.silu,
        "gelu_tanh": jax.nn.gelu,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "sqrt": jnp.sqrt,
        "log": jnp.log,
        "sin": jnp.sin,
        "sigmoid": jax.nn.sigmoid,
        "relu": jax.nn.relu,
    }
    for name in ("gelu_tanh", "gelu", "exp", "tanh", "silu", "sigmoid", "relu", "sin", "sqrt", "log"):
        given = abs(x) + np.float32(0.1) if name in ("sqrt", "log") else x
        own = getattr(nn, name, None) or getattr(ck, name)
        yield _beside_jax(f"{name} of 2^18", 1.2, own, found and found[name], given)
    rows = x.reshape(512, 512)
    weight, bias = (rng.standard_normal(512, np.float32) for _ in range(2))
    yield _beside_jax("softmax 512x512", 1.2, nn.softmax, jax and jax.nn.softmax, rows)
    yield _beside_jax(
        "layer_norm 512x512",
        1.2,
        lambda x, w, b: nn.layer_norm(x, 512, w, b),
        _layer_norm,
        rows,
        weight,
        bias,
    )
    yield _beside_jax(
        "rms_norm 512x512", 1.2, lambda x, w: nn.rms_norm(x, 512, w, 1e-5), _rms_norm, rows, weight
    )
    images = x.reshape(8, 32, 32, 32)
    both = weight[:32], bias[:32]
    for name in ("", "silu", "gelu", "gelu_tanh"):
        activation = getattr(nn, name) if name else None
        yield _beside_jax(
            f"group_norm 8x32x32x32, {name}" if name else "group_norm 8x32x32x32",
            1.2,
            lambda x, w, b, a=activation: nn.group_norm(x, 4, w, b, activation=a),
            lambda x, w, b, n=name: found[n](_group_norm(x, w, b)) if n else _group_norm(x, w, b),
            images,
            *both,
        )


def calls(rng: np.random.Generator) -> Iterator[Case]:
    """Calls on few elements, beside NumPy."""
    n = 1000
    values = {
        "x": rng.standard_normal(n, np.float32),
        "y": rng.standard_normal(n, np.float32),
        "m": rng.standard_normal((30, 40), np.float32),
        "i": rng.integers(0, n, 50),
        "few": rng.integers(0, 20, n),
        "mask": rng.standard_normal(n) > 0,
        "grid": np.sort(rng.standard_normal(100, np.float32)),
        "table": rng.standard_normal(100, np.float32),
    }
    texts = (
        "x[3]",
        "x[2:500]",
        "x[i]",
        "x[mask]",
        "m.T",
        "set(x, 3, 0)",
        "set(x, i, 0)",
        "set(x, mask, 0)",
        "xp.bincount(few)",
        "xp.concat([x, y])",
        "xp.stack([x, y])",
        "xp.sort(x)",
        "xp.argsort(x)",
        "xp.unique(few)",
        "xp.interp(x, grid, table)",
        "xp.searchsorted(grid, x)",
        "xp.cumsum(x)",
        "xp.linspace(0, 1, 100)",
        "xp.arange(100)",
        "xp.zeros(100)",
        "xp.where(mask, x, y)",
        "xp.median(x)",
        "xp.percentile(x, 30)",
        "xp.histogram(x, 10)",
        "x + y",
        "xp.sum(x)",
        "xp.max(x)",
        "xp.argmax(x)",
        "m @ m.T",
        "float(x[3])",
        "xp.asarray([1.0, 2.0, 3.0])",
    )

    def put(x: Any, at: Any, value: Any) -> Any:
        x[at] = value
        return x

    for text in texts:
        sides = []
        for xp, convert in ((ck, lambda one: ck.asarray(one.copy())), (np, np.copy)):
            scope = {"xp": xp, "set": put, **{name: convert(one) for name, one in values.items()}}
            sides.append(eval(f"lambda: {text}", scope))
        yield Case(text.replace("xp.", ""), 5, *sides)


def launches() -> list[tuple[str, float, Call]]:
    """Launches of a user's own kernel: name, the most microseconds, the call."""
    twice = ck.Kernel(_TEXT, block=128)
    x, y = ck.ones(100), ck.zeros(100)
    return [("an own kernel on 100 elements", 10.0, lambda: twice(x, y, 100, grid=1))]


_TEXT = """
extern "C" __global__ void twice(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}"""
_FIRST = f"""
import time
start = time.perf_counter()
import cukern as ck
x = ck.ones(100); y = ck.zeros(100)
ck.Kernel({_TEXT!r}, block=128)(x, y, 100, grid=1)
assert y.tolist() == [2.0] * 100
print(time.perf_counter() - start)
"""


def first_call() -> float:
    """Seconds of a process with an empty cache from the import to the end of its first own kernel."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CUKERN_CACHE_DIR": folder}
        environment.pop("CUKERN_QUICK_BUILDS")
        done = subprocess.run(
            [sys.executable, "-c", _FIRST], env=environment, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def microseconds(sides: Sequence[Call]) -> list[float]:
    """The median microseconds of a call of each side, by turns."""

    def taken(call: Call, count: int) -> float:
        start = time.process_time_ns()
        for _ in range(count):
            call()
        return 1e-9 * (time.process_time_ns() - start) / count

    counts = [max(1, int(ROUND / min(taken(call, 1) for _ in range(5)))) for call in sides]
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for one, call, count in zip(times, sides, counts, strict=True):
            one.append(1e6 * taken(call, count))
    return [statistics.median(one) for one in times]


def distance(name: str, mine: Any, peers: Any) -> float:
    """The largest relative distance of the arrays of two results.

    Raises:
        AssertionError: it is over the limit.
    """
    worst = 0.0
    leaves = ck.tree.leaves(mine), (jax.tree.leaves(peers) if jax else list(np.atleast_1d(peers)))
    if isinstance(peers, (np.ndarray, np.generic, float)):
        leaves = [mine], [peers]
    for own, peer in zip(*leaves, strict=True):
        a, b = np.asarray(own, np.float64), np.asarray(peer, np.float64)
        assert a.shape == b.shape, f"{name}: shapes {a.shape} and {b.shape}"
        worst = max(worst, float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30)))
    assert worst <= LIMIT, f"{name}: the results differ by {worst:.2g}, expected {LIMIT:.2g} at most"
    return worst


def main() -> None:
    """Measure, print and keep the table."""
    peers = f"NumPy {np.__version__}" + (f", JAX {jax.__version__}" if jax else "")
    columns = ["call", "cukern", "peer", "ratio", "goal", "apart"]
    bench = Benchmark(__doc__, f"one core, {peers}: microseconds of a call", columns, _REST)
    rng = np.random.default_rng(5)
    over = []
    with np.errstate(all="ignore"):
        for section in (models, programs, short_rows, functions, calls):
            for case in bench.chosen(list(section(rng))):
                if case.peer is None:
                    bench.row(case, *microseconds([case.own]), None, None, case.goal, None)
                    continue
                apart = distance(str(case), case.own(), case.peer())
                own, peer = microseconds([case.own, case.peer])
                if own > case.goal * peer:
                    over.append(str(case))
                bench.row(case, f"{own:.2f}", f"{peer:.2f}", f"{own / peer:.2f}", case.goal, f"{apart:.0e}")
    for name, goal, call in bench.chosen(launches()):
        bench.row(name, *microseconds([call]), None, None, f"{goal:g} us", None)
    if not bench.quick:
        seconds = statistics.median(first_call() for _ in range(3))
        bench.row("first own kernel, empty cache", f"{1e6 * seconds:.0f}", None, None, "3 s", None)
    bench.end(f"Over their goal: {', '.join(over) or 'none'}.")


if __name__ == "__main__":
    main()
