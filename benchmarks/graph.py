"""A graph network beside PyTorch: rows gathered along edges and summed by their ends, forward and backward.

Usage: python benchmarks/graph.py [--scale N] [--only WORD] [--quick] [--out FILE]

200,000 nodes with 64 features in float32 and 2,000,000 random edges. The parts alone, with what they must move at
least; then a step of three layers, `tanh(sum of the neighbours @ w)`, with the gradients of the features and of the
weights, eager and captured. PyTorch sums by atomics, eager and, unless `--quick` is given, compiled; the sums of this
library have the same bits in every run. Values are compared with a sparse product on the host in float64. `--scale`
divides the sizes, for a try without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Benchmark, difference, torch
from scipy import sparse

import cukern as ck

NODES, EDGES, FEATURES, LAYERS = 200_000, 2_000_000, 64, 3
#: Calls after which it is known whether indices are in order.
WARM = 30
#: How far results may lie apart, as a share of the largest number.
LIMIT = 1e-4
COLUMNS = ["part", "own", "GB/s", "captured", "PyTorch", "compiled", "error"]


class Graph:
    """The edges of a random graph, and numbers for its nodes."""

    def __init__(self, scale: int, rising: bool = False) -> None:
        rng = np.random.default_rng(0)
        self.nodes, edges = NODES // scale, EDGES // scale
        self.sources, self.targets = rng.integers(0, self.nodes, (2, edges))
        if rising:
            self.targets = np.sort(self.targets)
        self.x = rng.standard_normal((self.nodes, FEATURES), np.float32)
        scale_of = 1 / np.sqrt(FEATURES * edges / self.nodes)
        self.weights = [
            rng.standard_normal((FEATURES, FEATURES), np.float32) * np.float32(scale_of)
            for _ in range(LAYERS)
        ]

    @property
    def adjacency(self) -> Any:
        """The number of edges to each node from each."""
        ones = np.ones(self.sources.size)
        return sparse.csr_array((ones, (self.targets, self.sources)), (self.nodes, self.nodes))

    def gradients(self) -> tuple[Any, list[Any]]:
        """The gradient of the features and of the weights of the sum of squares of the last layer's results."""
        a = self.adjacency
        inputs, made = [], self.x.astype(np.float64)
        for w in self.weights:
            inputs.append(a @ made)
            made = np.tanh(inputs[-1] @ w)
        g, found = 2 * made, []
        for w, own in zip(reversed(self.weights), reversed(inputs), strict=True):
            g = g * (1 - np.tanh(own @ w) ** 2)
            found.append(own.T @ g)
            g = a.T @ (g @ w.T)
        return g, found[::-1]


def own_step(graph: Graph) -> tuple[Callable[..., Any], list[Any]]:
    """This library's step, and its arguments."""
    sources, targets = ck.asarray(graph.sources), ck.asarray(graph.targets)
    given = [ck.asarray(one) for one in (graph.x, *graph.weights)]

    def step(x: Any, *weights: Any) -> Any:
        with ck.Tape() as tape:
            tape.watch(x, *weights)
            made = x
            for w in weights:
                made = ck.tanh(ck.segment_sum(made[sources], targets, graph.nodes) @ w)
            loss = ck.sum(made * made)
        return tape.gradient(loss, [x, *weights])

    return step, given


def peer_step(graph: Graph, device: Any) -> tuple[Callable[..., Any], list[Any]]:
    """PyTorch's step, and its arguments."""
    sources, targets = (torch.from_numpy(one).to(device) for one in (graph.sources, graph.targets))
    given = [torch.from_numpy(one).to(device).requires_grad_() for one in (graph.x, *graph.weights)]

    def step(x: Any, *weights: Any) -> Any:
        made = x
        for w in weights:
            summed = torch.zeros_like(made).index_add_(0, targets, made[sources])
            made = torch.tanh(summed @ w)
        return (made * made).sum()

    return step, given


def parts(bench: Benchmark, graph: Graph) -> None:
    """The gather and the sum alone."""
    sources, targets, x = (ck.asarray(one) for one in (graph.sources, graph.targets, graph.x))
    rows = x[sources]
    there = None
    if torch is not None:
        device = "cuda" if bench.device.kind == "cuda" else "cpu"
        there = [torch.from_numpy(one).to(device) for one in (graph.sources, graph.targets, graph.x)]
    once = graph.x.nbytes + graph.sources.nbytes
    each = graph.sources.size * FEATURES * 4
    a = graph.adjacency
    exact = {"sum": a @ graph.x.astype(np.float64), "gather": graph.x[graph.sources].astype(np.float64)}
    calls: dict[str, tuple[Any, Any]] = {
        "gather": (lambda: x[sources], there and (lambda: there[2][there[0]])),
        "sum": (
            lambda: ck.segment_sum(rows, targets, graph.nodes),
            there and (lambda: torch.zeros_like(there[2]).index_add_(0, there[1], there[2][there[0]])),
        ),
    }
    for name in bench.chosen(list(calls)):
        own, other = calls[name]
        for _ in range(WARM):
            own()
        error = difference(name, own(), ck.asarray(exact[name]), LIMIT, relative=True)
        took, other_took = bench.microseconds(own, other or None)
        title = name if name == "gather" else f"{name} (PyTorch's with the gather)"
        bench.row(title, took, (once + each) / (took or 1) / 1e3, None, other_took, None, f"{error:.1e}")


def whole(bench: Benchmark, graph: Graph, title: str) -> None:
    """The step."""
    step, given = own_step(graph)
    captured = ck.capture(step)
    exact_x, exact_weights = graph.gradients()
    errors = []
    for call in (step, captured, captured, captured):
        for found, exact in zip(call(*given), (exact_x, *exact_weights), strict=True):
            errors.append(difference(title, found, ck.asarray(exact), LIMIT, relative=True))
    sides: list[Any] = [lambda: step(*given), lambda: captured(*given), None, None]
    if torch is not None:
        forward, own = peer_step(graph, "cuda" if bench.device.kind == "cuda" else "cpu")
        sides[2] = lambda: torch.autograd.grad(forward(*own), own)
        if not bench.quick and bench.device.kind == "cuda":
            compiled = torch.compile(forward)
            sides[3] = lambda: torch.autograd.grad(compiled(*own), own)
            sides[3]()
    eager, replayed, peer, made = bench.microseconds(*sides)
    # Each layer gathers and sums forward and backward: rows of all edges are written and read twice.
    moved = LAYERS * (4 * graph.sources.size * FEATURES * 4 + 4 * graph.sources.nbytes)
    bench.row(title, eager, moved / (eager or 1) / 1e3, replayed, peer, made, f"{max(errors):.1e}")


def main() -> None:
    bench = Benchmark(__doc__, "float32, times on the device in us", COLUMNS)
    parts(bench, Graph(bench.scale))
    for title, rising in (("step", False), ("step, ends in order", True)):
        if bench.chosen([title]):
            whole(bench, Graph(bench.scale, rising), title)
    bench.end("GB/s: the rows of all edges, read and written, and the indices, over the time.")


if __name__ == "__main__":
    main()
