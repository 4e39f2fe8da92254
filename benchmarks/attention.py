"""Attention without the matrix of scores, forward and backward, beside the composed form and PyTorch's.

Usage: python benchmarks/attention.py [--scale N] [--only WORD] [--out FILE]

Random bfloat16 data. Each forward is compared with the composed form in float32, on the first of the batch and of the
heads, and without masks and functions of the score on the last ones. PyTorch's is its fused attention, by each
backend that runs: cuDNN's and FlashAttention-2. With a mask or a function of the score, the same attention without it
is measured by turns with it, and the last two columns have its time over theirs, forward and backward. Of one query,
the bytes that it moves a second are compared with a copy's. `--scale` divides lengths, for a try without a GPU.
Without PyTorch its columns are empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark, Call, difference, torch

import cukern as ck
from cukern import nn


def document(length: int, device: ck.Device) -> ck.Array:
    """The number of each position's document, of which there are eight of equal length."""
    return ck.arange(length, dtype="int32", device=device) // (length // 8)


def documents(length: int, device: ck.Device) -> ck.Array:
    """Whether two positions are of one document."""
    of = document(length, device)
    return of[:, None] == of


#: Masks of a batch's lengths, by name.
MASKS: dict[str, Callable[[int, ck.Device], ck.Array]] = {
    "8 documents": documents,
    "8 documents, for each head": lambda n, device: ck.broadcast_to(documents(n, device), (16, n, n)).copy(),
    "True everywhere": lambda n, device: ck.ones((n, n), "bool", device=device),
    "True at random, for half": lambda n, device: (
        ck.random.default_rng(1, device=device).random((n, n)) < 0.5
    ),
    "the first quarter of the keys": lambda n, device: ck.arange(n, device=device) < n // 4,
}


def slopes(heads: int, device: ck.Device) -> ck.Array:
    """Those of attention with linear biases, of heads of which there are 16."""
    return 2 ** (-(ck.arange(heads, dtype="float32", device=device) + 1) / 2).reshape(heads, 1, 1)


def relative(length: int, heads: int, device: ck.Device) -> ck.Array:
    """A number for each head and each distance of two positions."""
    rng = ck.random.default_rng(2, device=device)
    return rng.normal(size=(32, 2 * length - 1), dtype="float32")[:heads].copy()


def buckets(length: int, heads: int, device: ck.Device) -> dict[str, Any]:
    """Those of T5: a number for each head and each bucket of distances, whose widths grow from 16 on."""

    def score(s: Any, b: Any, h: Any, i: Any, j: Any, t: Any) -> Any:
        far = ck.minimum(16 + (ck.log(ck.maximum(i - j, 1) / 16) * 7.694).astype("int32"), 31)
        return s + t[h, ck.where(i - j < 16, ck.maximum(i - j, 0), far)]

    table = ck.random.default_rng(5, device=device).normal(size=(32, 32), dtype="float32")
    return {"score": score, "tables": [table[:heads].copy()]}


#: Options that change a score, of a length and a number of heads, by name.
SCORES: dict[str, Callable[[int, int, ck.Device], dict[str, Any]]] = {
    "s / 2 + 1": lambda n, heads, device: {"score": lambda s, b, h, i, j: s / 2 + 1},
    "s + slope[h] * (j - i)": lambda n, heads, device: {
        "score": lambda s, b, h, i, j, slope: s + slope * (j - i),
        "arrays": [slopes(heads, device)],
    },
    "s - 0.1 * abs(i - j)": lambda n, heads, device: {"score": lambda s, b, h, i, j: s - 0.1 * abs(i - j)},
    "30 * tanh(s / 30)": lambda n, heads, device: {"score": lambda s, b, h, i, j: 30 * ck.tanh(s / 30)},
    "s + table[h, j - i + n - 1]": lambda n, heads, device: {
        "score": lambda s, b, h, i, j, table: s + table[h, j - i + (n - 1)],
        "tables": [relative(n, heads, device)],
    },
    "T5's buckets of distances": buckets,
    "-inf where of[i] != of[j]": lambda n, heads, device: {
        "score": lambda s, b, h, i, j, of: ck.where(of[i] == of[j], s, -np.inf),
        "tables": [document(n, device)],
    },
    "s + bias[i, j]": lambda n, heads, device: {
        "bias": ck.random.default_rng(3, device=device)
        .normal(size=(n, n), dtype="float32")
        .astype("bfloat16")
    },
}


class Case(NamedTuple):
    """Attention of one length of queries and keys, or of one query, whose keys' heads are shared.

    With ``mask`` or ``score`` it has one of those above.
    """

    batch: int
    heads: int
    length: int
    features: int
    causal: bool = True
    queries: int = 0
    key_heads: int = 0
    mask: str = ""
    score: str = ""

    def scaled(self, scale: int) -> Case:
        """The same of shorter sequences."""
        return self._replace(length=max(64, self.length // scale))

    def __str__(self) -> str:
        shape = f"{self.batch} x {self.heads} x {self.length} x {self.features}"
        if self.queries:
            return f"{self.queries} query, {self.key_heads} heads of keys, {shape}"
        more = f", mask: {self.mask}" if self.mask else f", `{self.score}`" if self.score else ""
        return f"{shape}{', causal' if self.causal else ''}{more}"

    @property
    def operations(self) -> float:
        """Of the forward's two products, without those of scores that no mask leaves."""
        products = 4 * self.batch * self.heads * self.length * (self.queries or self.length) * self.features
        left = 1 / 8 if "documents" in self.mask else 1 / 4 if "quarter" in self.mask else 1
        return products * left / (2 if self.causal else 1)

    def options(self, heads: int, device: ck.Device) -> dict[str, Any]:
        """Those of a call of so many heads besides ``causal``."""
        if self.mask:
            mask = MASKS[self.mask](self.length, device)
            return {"mask": mask if mask.ndim < 3 else mask[:heads]}
        return SCORES[self.score](self.length, heads, device) if self.score else {}


CASES = [
    Case(4, 16, 4096, 128, causal=False),
    Case(4, 16, 4096, 128),
    Case(8, 12, 1024, 64),
    Case(1, 16, 16384, 128),
    Case(4, 32, 4096, 64),
    Case(8, 32, 16384, 128, causal=False, queries=1, key_heads=8),
    Case(1, 32, 16384, 128, causal=False, queries=1, key_heads=32),
]
CASES += [Case(4, 16, 4096, 128, causal=False, mask=one) for one in MASKS]
CASES += [Case(4, 32, 4096, 64, causal=False, mask="8 documents")]
CASES += [Case(4, 16, 4096, 128, mask="8 documents")]
CASES += [Case(4, 16, 4096, 128, score=one) for one in SCORES]
CASES += [Case(4, 32, 4096, 64, score=one) for one in SCORES]
BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION")


def operands(case: Case, device: ck.Device) -> list[ck.Array]:
    """Queries, keys, values, and the cotangent of the result."""
    rng = ck.random.default_rng(0, device=device)
    keys = (case.batch, case.key_heads or case.heads, case.length, case.features)
    queries = (case.batch, case.heads, case.queries or case.length, case.features)
    return [
        rng.normal(size=shape, dtype="float32").astype("bfloat16") for shape in (queries, keys, keys, queries)
    ]


def gradients(function: Callable[..., ck.Array], arrays: list[ck.Array]) -> Call:
    """The backward of ``function``, again and again."""
    *primals, given = arrays
    with ck.Tape(persistent=True) as tape:
        tape.watch(*primals)
        result = function(*primals)
    return lambda: tape.gradient(result, primals, given)


def peer(backend: str, case: Case, arrays: list[ck.Array], mask: Any) -> list[Call | None]:
    """PyTorch's forward and backward by one backend; None for what it does not run."""
    if torch is None or case.score or (case.mask and case.causal):
        return [None, None]
    chosen = getattr(torch.nn.attention.SDPBackend, backend)
    q, k, v, given = (torch.from_dlpack(one).requires_grad_() for one in arrays)
    if mask is not None:
        whole = (*mask.shape[:-2], case.length, case.length)
        mask = torch.from_dlpack(mask if mask.shape == whole else ck.broadcast_to(mask, whole).copy())

    def forward() -> Any:
        with torch.nn.attention.sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, mask, is_causal=case.causal, enable_gqa=case.key_heads not in (0, case.heads)
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which say why a backend does not run
        try:
            result = forward()
        except RuntimeError:
            return [None, None]

    def alone() -> Any:
        with torch.no_grad():
            return forward()

    return [alone, lambda: torch.autograd.grad(result, (q, k, v), given.detach(), retain_graph=True)]


def composition(case: Case, arrays: list[ck.Array]) -> list[Call | None]:
    """The forward and backward of products and softmax, if its scores fit in memory."""
    if case.score or case.mask or case.queries or case.batch * case.heads * case.length**2 > 2**31:
        return [None, None]
    # Without a mask of floats, half types are left to the kernels of nn.attention.
    side = case.length if case.causal else 1
    added = ck.where(ck.tril(ck.ones((side, side), "bool", device=arrays[0].device)), 0.0, -np.inf)
    added = added.astype("bfloat16")

    def composed(q: ck.Array, k: ck.Array, v: ck.Array) -> ck.Array:
        return nn.scaled_dot_product_attention(q, k, v, added)

    return [lambda: composed(*arrays[:3]), gradients(composed, arrays)]


def measure(case: Case, bench: Benchmark) -> None:
    """Add a line to the table."""
    arrays = operands(case, bench.device)
    options = case.options(case.heads, bench.device)

    def own(q: ck.Array, k: ck.Array, v: ck.Array, **options: Any) -> ck.Array:
        made: ck.Array = nn.attention(q, k, v, causal=case.causal, **options)
        return made

    made, error = own(*arrays[:3], **options), 0.0
    for end in (slice(1),) if options else (slice(1), slice(-1, None)):  # options are those of the first head
        wide = (one[end, end, :].astype("float32") for one in arrays[:3])
        exact = own(*wide, **case.options(1, bench.device))
        error = max(error, difference(str(case), made[end, end], exact, limit=2e-2))
    calls: list[Call | None] = []
    for given in (options, {}) if options else (options,):
        call = partial(own, **given)
        calls += [partial(call, *arrays[:3]), None if case.queries else gradients(call, arrays)]
    calls += [] if options else [None, None]
    calls += composition(case, arrays)
    for backend in BACKENDS:
        forward, backward = peer(backend, case, arrays, options.get("mask"))
        calls += [forward, None if case.queries else backward]
    times = bench.microseconds(*calls)
    assert times[0] is not None
    rate = f"{1e-6 * case.operations / times[0]:.0f} TFLOP/s"
    if case.queries:
        moved = arrays[1].nbytes + arrays[2].nbytes
        (copy,) = bench.microseconds(bench.copy_of(moved))
        assert copy is not None
        rate = f"{1e-3 * moved / times[0]:.0f} GB/s, {copy / times[0]:.2f} of a copy's"
    shares = [f"{a / b:.2f}" if a and b else None for a, b in zip(times[2:4], times[:2], strict=True)]
    bench.row(case, *times[:2], *times[4:], rate, f"{error:.1e}", *shares)


def main() -> None:
    names = ["nn.attention", "composed", "PyTorch, cuDNN", "PyTorch, FlashAttention-2"]
    columns = [column for name in names for column in (name, "backward")]
    columns = [
        "batch x heads x length x features",
        *columns,
        "forward",
        "error",
        "without, over with",
        "backward",
    ]
    bench = Benchmark(__doc__, "bfloat16, device times in us", columns)
    for case in bench.chosen(CASES):
        measure(case.scaled(bench.scale), bench)
    bench.end()


if __name__ == "__main__":
    main()
