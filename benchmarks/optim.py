"""A step of AdamW over GPT-2's 148 arrays beside PyTorch's fused one: the host's time, the device's, the results.

Usage: python benchmarks/optim.py [--scale N] [--out FILE]

`--scale` divides the model's width and vocabulary, for a try without a GPU. The device's time is set against that of
a copy which moves as many bytes as the step has to: each array read once, and once written if it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure import Benchmark, Call, torch

import cukern as ck

#: Steps before the results are compared.
STEPS = 3
COLUMNS = [
    *("step", "host", "PyTorch's host", "device", "PyTorch's device"),
    *("a copy", "share of a copy", "difference"),
]


def shapes(scale: int) -> list[tuple[int, ...]]:
    """The parameters of GPT-2 (124 million elements) in the order of its layers."""
    wide = 768 // scale
    found: list[tuple[int, ...]] = [(50257 // scale, wide), (1024 // scale, wide)]
    for _ in range(12):
        found += [(wide,), (wide,), (wide, 3 * wide), (3 * wide,), (wide, wide), (wide,)]
        found += [(wide,), (wide,), (wide, 4 * wide), (4 * wide,), (4 * wide, wide), (wide,)]
    return [*found, (wide,), (wide,)]


@dataclass(frozen=True)
class Case:
    """One step: cukern's, PyTorch's if there is one, the bytes it has to move, the largest difference between them."""

    name: str
    ours: Call
    theirs: Call | None
    moved: int
    error: float


class Sides:
    """The same random parameters and gradients in cukern and in PyTorch."""

    def __init__(self, scale: int, dtype: str = "float32") -> None:
        rng = np.random.default_rng(0)
        self.where = "cuda" if ck.zeros(1).device.kind == "cuda" else "cpu"
        self.ours, self.ours_gradients = [], []
        self.theirs, self.theirs_gradients = [], []
        for shape in shapes(scale):
            start = rng.standard_normal(shape, np.float32)
            gradient = rng.standard_normal(shape, np.float32)
            self.ours.append(ck.asarray(start, dtype=dtype, copy=True))
            self.ours_gradients.append(ck.asarray(gradient, dtype=dtype, copy=True))
            for side, values in ((self.theirs, start), (self.theirs_gradients, gradient)):
                side.append(torch.tensor(values, dtype=getattr(torch, dtype), device=self.where))
        self.size = sum(one.size for one in self.ours)

    def gradients_set(self) -> list[Any]:
        """PyTorch's parameters, with their gradients."""
        for one, gradient in zip(self.theirs, self.theirs_gradients, strict=True):
            one.requires_grad_(True)
            one.grad = gradient.clone()
        return self.theirs

    def error(self, name: str, limit: float = 1e-5) -> float:
        """The largest difference of the parameters.

        Raises:
            AssertionError: it is over the limit, or NaN.
        """
        pairs = zip(self.ours, self.theirs, strict=True)
        apart = [
            np.abs(one.numpy().astype(np.float64) - other.detach().double().cpu().numpy()).max()
            for one, other in pairs
        ]
        error = float(np.max(apart))
        if not error <= limit:
            raise AssertionError(f"{name}: the results differ by {error:.2g}, expected {limit:.2g} at most")
        return error


def _stepped(name: str, sides: Sides, ours: Any, theirs: Any, moved: int) -> Case:
    for _ in range(STEPS):
        ours.step(sides.ours_gradients)
        theirs.step()
    return Case(name, lambda: ours.step(sides.ours_gradients), theirs.step, moved, sides.error(name))


OPTIONS = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}


def adamw(scale: int) -> Case:
    sides = Sides(scale)
    theirs = torch.optim.AdamW(sides.gradients_set(), fused=True, **OPTIONS)
    ours = ck.optim.AdamW(sides.ours, **OPTIONS)
    return _stepped("AdamW, float32", sides, ours, theirs, 28 * sides.size)


def groups(scale: int) -> Case:
    sides = Sides(scale)

    def grouped(parameters: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {"params": [one for one in parameters if one.ndim > 1]},
            {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0},
        ]

    theirs = torch.optim.AdamW(grouped(sides.gradients_set()), fused=True, **OPTIONS)
    ours = ck.optim.AdamW(grouped(sides.ours), **OPTIONS)
    gradients = sides.ours_gradients
    sides.ours_gradients = [one for one in gradients if one.ndim > 1]
    sides.ours_gradients += [one for one in gradients if one.ndim < 2]
    return _stepped("AdamW, float32, a group without decay", sides, ours, theirs, 28 * sides.size)


def sgd(scale: int) -> Case:
    sides = Sides(scale)
    theirs = torch.optim.SGD(sides.gradients_set(), lr=0.01, momentum=0.9, fused=True)
    ours = ck.optim.SGD(sides.ours, lr=0.01, momentum=0.9)
    return _stepped("SGD with momentum, float32", sides, ours, theirs, 20 * sides.size)


def masters(scale: int) -> Case:
    # PyTorch has no such step: it updates float32 parameters, which are cast by another kernel.
    sides, wide = Sides(scale, "bfloat16"), Sides(scale)
    ours = ck.optim.AdamW(sides.ours, **OPTIONS)
    theirs = torch.optim.AdamW(wide.gradients_set(), fused=True, **OPTIONS)
    for one, other in zip(wide.theirs, sides.theirs, strict=True):
        one.data.copy_(other)
    for one, other in zip(wide.theirs, sides.theirs_gradients, strict=True):
        one.grad.copy_(other)
    for _ in range(STEPS):
        ours.step(sides.ours_gradients)
        theirs.step()
    state = ours.state_dict()
    wide.ours = [state[f"{i}.master"] for i in range(len(wide.theirs))]
    name = "AdamW, bfloat16 with float32 masters"
    return Case(name, lambda: ours.step(sides.ours_gradients), None, 30 * sides.size, wide.error(name))


def clip(scale: int) -> Case:
    sides = Sides(scale)
    parameters = sides.gradients_set()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=sides.where == "cuda" or None)
    sides.ours = ck.optim.clip_by_global_norm(sides.ours_gradients, 1.0)[0]
    sides.theirs = [one.grad for one in parameters]
    name = "clip_by_global_norm, float32"
    return Case(
        name,
        lambda: ck.optim.clip_by_global_norm(sides.ours_gradients, 1.0),
        lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=sides.where == "cuda" or None),
        12 * sides.size,
        sides.error(name, 1e-6),
    )


def main() -> None:
    title = f"device times in us, host times in us a step of {len(shapes(1))} arrays"
    bench = Benchmark(__doc__, title, COLUMNS)
    for make in (adamw, groups, sgd, masters, clip):  # one at a time fills a good part of a GPU's memory
        case = make(bench.scale)
        ours, theirs, copied = bench.microseconds(case.ours, case.theirs, bench.copy_of(case.moved))
        assert ours is not None and copied is not None
        hosts = [bench.host_microseconds(side) for side in (case.ours, case.theirs)]
        bench.row(case.name, *hosts, ours, theirs, copied, f"{copied / ours:.2f}", f"{case.error:.1e}")
        del case
    bench.end()


if __name__ == "__main__":
    main()
