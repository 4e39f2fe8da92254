"""Attention without the matrix of scores, forward and backward, beside the composed form and PyTorch's.

Usage: python benchmarks/attention.py [--scale N] [--out FILE]

Random bfloat16 data. Each forward is compared with the composed form in float32, on the first of the batch and of the
heads. PyTorch's is its fused attention, by each backend that runs: cuDNN's and FlashAttention-2. `--scale` divides
lengths, for a try without a GPU. Without PyTorch its columns are empty.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cukern as ck
from cukern import nn
from cukern.bench.timing import DeviceClock, HostClock, median_seconds

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


class Case(NamedTuple):
    """Attention of one length of queries and keys, or of one query, whose keys' heads are shared."""

    batch: int
    heads: int
    length: int
    features: int
    causal: bool = True
    queries: int = 0
    key_heads: int = 0

    def scaled(self, scale: int) -> Case:
        """The same of shorter sequences."""
        return self._replace(length=max(64, self.length // scale))

    def __str__(self) -> str:
        shape = f"{self.batch} x {self.heads} x {self.length} x {self.features}"
        if self.queries:
            return f"{self.queries} query, {self.key_heads} heads of keys, {shape}"
        return f"{shape}{', causal' if self.causal else ''}"

    @property
    def operations(self) -> float:
        """Of the forward's two products, those of both triangles if not causal."""
        products = 4 * self.batch * self.heads * self.length * (self.queries or self.length) * self.features
        return products / 2 if self.causal else products


CASES = [
    Case(4, 16, 4096, 128, causal=False),
    Case(4, 16, 4096, 128),
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


def gradients(function: Callable[..., ck.Array], arrays: list[ck.Array]) -> Callable[[], Any]:
    """The backward of ``function``, again and again."""
    *primals, given = arrays
    with ck.Tape(persistent=True) as tape:
        tape.watch(*primals)
        result = function(*primals)
    return lambda: tape.gradient(result, primals, given)


def peer(backend: str, case: Case, arrays: list[ck.Array]) -> list[Callable[[], Any] | None]:
    """PyTorch's forward and backward by one backend; None for what it does not run."""
    if torch is None:
        return [None, None]
    chosen = getattr(torch.nn.attention.SDPBackend, backend)
    q, k, v, given = (torch.from_dlpack(one).requires_grad_() for one in arrays)

    def forward() -> Any:
        with torch.nn.attention.sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=case.causal, enable_gqa=case.key_heads not in (0, case.heads)
            )

    try:
        result = forward()
    except RuntimeError:
        return [None, None]

    def alone() -> Any:
        with torch.no_grad():
            return forward()

    return [alone, lambda: torch.autograd.grad(result, (q, k, v), given.detach(), retain_graph=True)]


def check(case: Case, arrays: list[ck.Array]) -> float:
    """The largest difference to the composed form in float32, for one head.

    Raises:
        AssertionError: it exceeds the rounding of bfloat16.
    """
    q, k, v = (one[:1, :1, :].astype("float32") for one in arrays[:3])
    exact = nn.scaled_dot_product_attention(q, k, v, is_causal=case.causal)
    made = nn.attention(*arrays[:3], causal=case.causal)[:1, :1]
    error = float(ck.max(ck.abs(made.astype("float32") - exact)))
    assert error < 2e-2, f"{case}: differs by {error:.2g}"
    return error


def measured(case: Case, device: ck.Device, clock: Any) -> str:
    """A line of the table, with times in microseconds."""
    arrays = operands(case, device)
    error = check(case, arrays)

    def own(q: ck.Array, k: ck.Array, v: ck.Array) -> ck.Array:
        return nn.attention(q, k, v, causal=case.causal)

    def composed(q: ck.Array, k: ck.Array, v: ck.Array) -> ck.Array:
        return nn.scaled_dot_product_attention(q, k, v, is_causal=case.causal)

    calls: list[Callable[[], Any] | None] = [lambda: own(*arrays[:3])]
    calls += [None] if case.queries else [gradients(own, arrays)]
    small = case.batch * case.heads * case.length**2 <= 2**31 and not case.queries
    calls += [lambda: composed(*arrays[:3]), gradients(composed, arrays)] if small else [None, None]
    for backend in BACKENDS:
        forward, backward = peer(backend, case, arrays)
        calls += [forward, None if case.queries else backward]
    taken = [call for call in calls if call is not None]
    seconds = iter(median_seconds(clock, [[call] for call in taken]))
    times = [None if call is None else next(seconds) for call in calls]
    columns = ["" if one is None else f"{1e6 * one:.1f}" for one in times]
    assert times[0] is not None
    rate = f"{1e-12 * case.operations / times[0]:.0f} TFLOP/s"
    if case.queries:
        rate = f"{1e-9 * (arrays[1].nbytes + arrays[2].nbytes) / times[0]:.0f} GB/s"
    return f"| {case} | {' | '.join(columns)} | {rate} | {error:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = ck.zeros(1).device
    clock: Any = DeviceClock(device) if device.kind == "cuda" else HostClock()
    names = ["nn.attention", "composed", "PyTorch, cuDNN", "PyTorch, FlashAttention-2"]
    head = " | ".join(f"{name} | backward" for name in names)
    lines = [
        f"{device.properties.name}, bfloat16, device times in us",
        "",
        f"| batch x heads x length x features | {head} | forward | error |",
        "| --- " * 11 + "|",
    ]
    print(*lines, sep="\n")
    for case in CASES:
        lines.append(measured(case.scaled(arguments.scale), device, clock))
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
