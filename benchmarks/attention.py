"""Attention without the matrix of scores, forward and backward, beside the composed form and PyTorch's.

Usage: python benchmarks/attention.py [--scale N] [--out FILE]

Random bfloat16 data. Each forward is compared with the composed form in float32, on the first of the batch and of the
heads. PyTorch's is its fused attention, by each backend that runs: cuDNN's and FlashAttention-2. `--scale` divides
lengths, for a try without a GPU. Without PyTorch its columns are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark, Call, difference, torch

import cukern as ck
from cukern import nn


class Case(NamedTuple):
    """Attention of one length of queries and keys, or of one query, whose keys' heads are shared.

    With ``documents`` a mask lets positions attend to those of their own among so many of equal length.
    """

    batch: int
    heads: int
    length: int
    features: int
    causal: bool = True
    queries: int = 0
    key_heads: int = 0
    documents: int = 0

    def scaled(self, scale: int) -> Case:
        """The same of shorter sequences."""
        return self._replace(length=max(64, self.length // scale))

    def __str__(self) -> str:
        shape = f"{self.batch} x {self.heads} x {self.length} x {self.features}"
        if self.queries:
            return f"{self.queries} query, {self.key_heads} heads of keys, {shape}"
        if self.documents:
            return f"{shape}, mask of {self.documents} documents"
        return f"{shape}{', causal' if self.causal else ''}"

    @property
    def operations(self) -> float:
        """Of the forward's two products, those of both triangles if not causal."""
        products = 4 * self.batch * self.heads * self.length * (self.queries or self.length) * self.features
        return products / (2 if self.causal else self.documents or 1)

    def mask(self, device: ck.Device) -> ck.Array | None:
        """Which position attends to which; None if the options say it."""
        if not self.documents:
            return None
        of = ck.arange(self.length, device=device) // (self.length // self.documents)
        return of[:, None] == of


CASES = [
    Case(4, 16, 4096, 128, causal=False),
    Case(4, 16, 4096, 128),
    Case(4, 16, 4096, 128, causal=False, documents=8),
    Case(8, 12, 1024, 64),
    Case(1, 16, 16384, 128),
    Case(4, 32, 4096, 64),
    Case(8, 32, 16384, 128, causal=False, queries=1, key_heads=8),
    Case(1, 32, 16384, 128, causal=False, queries=1, key_heads=32),
]
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


def peer(backend: str, case: Case, arrays: list[ck.Array]) -> list[Call | None]:
    """PyTorch's forward and backward by one backend; None for what it does not run."""
    if torch is None:
        return [None, None]
    chosen = getattr(torch.nn.attention.SDPBackend, backend)
    q, k, v, given = (torch.from_dlpack(one).requires_grad_() for one in arrays)
    mask = case.mask(arrays[0].device)
    mask = None if mask is None else torch.from_dlpack(mask)

    def forward() -> Any:
        with torch.nn.attention.sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, mask, is_causal=case.causal, enable_gqa=case.key_heads not in (0, case.heads)
            )

    try:
        result = forward()
    except RuntimeError:
        return [None, None]

    def alone() -> Any:
        with torch.no_grad():
            return forward()

    return [alone, lambda: torch.autograd.grad(result, (q, k, v), given.detach(), retain_graph=True)]


def measure(case: Case, bench: Benchmark) -> None:
    """Add a line to the table."""
    arrays = operands(case, bench.device)
    mask = case.mask(bench.device)

    def own(q: ck.Array, k: ck.Array, v: ck.Array) -> ck.Array:
        made: ck.Array = nn.attention(q, k, v, causal=case.causal, mask=mask)
        return made

    # Without a mask of floats, half types are left to the kernels of nn.attention.
    small = case.batch * case.heads * case.length**2 <= 2**31 and not case.queries
    side = case.length if case.causal and small else 1
    allowed = ck.tril(ck.ones((side, side), "bool", device=arrays[0].device)) if mask is None else mask
    added = ck.where(allowed, 0.0, -np.inf).astype("bfloat16")

    def composed(q: ck.Array, k: ck.Array, v: ck.Array) -> ck.Array:
        return nn.scaled_dot_product_attention(q, k, v, added)

    wide = (one[:1, :1, :].astype("float32") for one in arrays[:3])
    exact = nn.scaled_dot_product_attention(*wide, mask, is_causal=case.causal)
    error = difference(str(case), own(*arrays[:3])[:1, :1], exact, limit=2e-2)
    calls: list[Call | None] = [lambda: own(*arrays[:3]), None if case.queries else gradients(own, arrays)]
    calls += [lambda: composed(*arrays[:3]), gradients(composed, arrays)] if small else [None, None]
    for backend in BACKENDS:
        forward, backward = peer(backend, case, arrays)
        calls += [forward, None if case.queries else backward]
    times = bench.microseconds(*calls)
    assert times[0] is not None
    rate = f"{1e-6 * case.operations / times[0]:.0f} TFLOP/s"
    if case.queries:
        rate = f"{1e-3 * (arrays[1].nbytes + arrays[2].nbytes) / times[0]:.0f} GB/s"
    bench.row(case, *times, rate, f"{error:.1e}")


def main() -> None:
    names = ["nn.attention", "composed", "PyTorch, cuDNN", "PyTorch, FlashAttention-2"]
    columns = [column for name in names for column in (name, "backward")]
    columns = ["batch x heads x length x features", *columns, "forward", "error"]
    bench = Benchmark(__doc__, "bfloat16, device times in us", columns)
    for case in CASES:
        measure(case.scaled(bench.scale), bench)
    bench.end()


if __name__ == "__main__":
    main()
