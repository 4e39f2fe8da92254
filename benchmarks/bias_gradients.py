"""Derivatives of an activation of rows and a bias: one kernel that also sums the bias's gradient, beside the two apart.

Usage: python benchmarks/bias_gradients.py [--scale N] [--only WORD] [--out FILE]

The kernels between a linear layer's activation and its products in the backward pass: what the products read is
written, and its columns are summed. The bytes are those of two matrices that are read and one that is written. Random
data, in other memory each time, so that it is not in a cache; results are compared with those of float64. `--scale`
divides the rows, for a try without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import Benchmark, Call, difference

import cukern as ck
from cukern.autodiff.cotangents import conform
from cukern.elementwise import summed

CASES = [
    ("relu", "bfloat16", 8192, 3072),
    ("relu", "bfloat16", 8192, 768),
    ("gelu", "bfloat16", 8192, 3072),
    ("gelu", "bfloat16", 8192, 768),
    ("gelu_tanh", "bfloat16", 8192, 3072),
    ("gelu_tanh", "bfloat16", 8192, 768),
    ("gelu_tanh", "float32", 8192, 3072),
    ("gelu_tanh", "bfloat16", 1024, 3072),
    ("gelu_tanh", "bfloat16", 128, 768),
    ("gelu_tanh", "bfloat16", 32768, 4096),
]
#: Bytes that no cache of a GPU holds.
_CACHES = 2**29


def pulls(
    act: Callable[[ck.Array], ck.Array], rows: int, columns: int, dtype: str, seed: int
) -> tuple[Call, list[ck.Array]]:
    """The derivative of ``act(x + b)`` as the tape calls it, and the arrays that it is of."""
    random = ck.random.default_rng(seed)
    x, g = (random.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    b = random.standard_normal(columns).astype(dtype)
    with ck.Tape() as tape:
        tape.watch(x, b)
        _fused(act)(x, b)
    ((operation, _, _, saved, versions),) = tape._records

    def pull() -> tuple[ck.Array, ck.Array]:
        dx, db = operation.pull((g,), saved, versions, (True, True))
        assert dx is not None
        return dx, conform(db, operation.input_forms[1], "bias", 1)

    return pull, [x, b, g]


_made: dict[Any, Any] = {}


def _fused(act: Callable[[ck.Array], ck.Array]) -> Any:
    """``act(x + b)`` as one kernel."""
    return _made.setdefault(act, ck.fuse(lambda x, b: act(x + b)))


def separately(pull: Call) -> Call:
    """A call of ``pull`` in which sums are kernels of their own."""

    def call() -> Any:
        together = summed.evaluate
        summed.evaluate = lambda *args: None  # type: ignore[assignment]
        try:
            return pull()
        finally:
            summed.evaluate = together

    return call


def check(name: str, act: Any, made: Any, arrays: list[ck.Array]) -> float:
    """The largest difference of both gradients to those in float64, relative to the largest magnitude."""
    x, b, g = (one.astype("float64") for one in arrays)
    with ck.Tape() as tape:
        tape.watch(x)
        y = act(x + b)
    exact = tape.gradient(y, x, g)
    limit = 16 * float(ck.finfo(made[0].dtype).eps)
    return max(
        difference(name, made[0], exact, limit, relative=True),
        difference(name, made[1], ck.sum(exact, axis=0), limit, relative=True),
    )


def main() -> None:
    columns = ["activation, sizes", "apart", "one kernel", "of a copy's rate, apart", "one kernel", "error"]
    bench = Benchmark(__doc__, "derivatives of act(x + b), device times in us", columns)
    for name, dtype, rows, width in bench.chosen(CASES):
        rows, act = max(2, rows // bench.scale), getattr(ck, name)
        size = 3 * rows * width * ck.zeros(1, dtype).itemsize
        sets = max(1, min(64, _CACHES // size))
        calls, arrays = zip(*(pulls(act, rows, width, dtype, seed) for seed in range(sets)), strict=True)
        apart = [separately(call) for call in calls]
        title = f"{name}, {dtype} {rows} x {width}"
        error = max(check(title, act, call(), arrays[0]) for call in (calls[0], apart[0]))
        two, one, copy = bench.microseconds(apart, calls, bench.copy_of(size))
        assert one and two and copy
        bench.row(title, two, one, f"{copy / two:.2f}", f"{copy / one:.2f}", f"{error:.1e}")
        del calls, apart, arrays
    bench.end()


if __name__ == "__main__":
    main()
