"""A step of AdamW over GPT-2's 148 arrays beside PyTorch's fused one: the host's time, the device's, the results.

Usage: python benchmarks/optim.py [--scale N] [--out FILE]

`--scale` divides the model's width and vocabulary, for a try without a GPU. The device's time is set against that of
a copy which moves as many bytes as the step has to: each array read once, and once written if it changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck
from cukern.bench.timing import DeviceClock, HostClock, median_seconds

Call = Callable[[], Any]
#: Steps before the results are compared, and calls whose host time is measured.
STEPS, CALLS = 3, 50


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
        import torch

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

    def error(self) -> float:
        """The largest difference of the parameters."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return max(
            float(np.abs(one.numpy().astype(np.float64) - other.detach().double().cpu().numpy()).max())
            for one, other in pairs
        )


def _stepped(name: str, sides: Sides, ours: Any, theirs: Any, moved: int, limit: float) -> Case:
    for _ in range(STEPS):
        ours.step(sides.ours_gradients)
        theirs.step()
    error = sides.error()
    if not error <= limit:
        raise AssertionError(f"{name}: the results differ by {error:.2g}, expected {limit:.2g} at most")
    return Case(name, lambda: ours.step(sides.ours_gradients), theirs.step, moved, error)


def cases(scale: int) -> list[Callable[[], Case]]:
    """What makes each case; one at a time, as each fills a good part of a GPU's memory."""
    import torch

    options = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}

    def adamw() -> Case:
        sides = Sides(scale)
        theirs = torch.optim.AdamW(sides.gradients_set(), fused=True, **options)
        ours = ck.optim.AdamW(sides.ours, **options)
        return _stepped("AdamW, float32", sides, ours, theirs, 28 * sides.size, 1e-5)

    def groups() -> Case:
        sides = Sides(scale)

        def grouped(parameters: Sequence[Any]) -> list[dict[str, Any]]:
            return [
                {"params": [one for one in parameters if one.ndim > 1]},
                {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0},
            ]

        theirs = torch.optim.AdamW(grouped(sides.gradients_set()), fused=True, **options)
        ours = ck.optim.AdamW(grouped(sides.ours), **options)
        gradients = sides.ours_gradients
        sides.ours_gradients = [one for one in gradients if one.ndim > 1]
        sides.ours_gradients += [one for one in gradients if one.ndim < 2]
        return _stepped("AdamW, float32, a group without decay", sides, ours, theirs, 28 * sides.size, 1e-5)

    def sgd() -> Case:
        sides = Sides(scale)
        theirs = torch.optim.SGD(sides.gradients_set(), lr=0.01, momentum=0.9, fused=True)
        ours = ck.optim.SGD(sides.ours, lr=0.01, momentum=0.9)
        return _stepped("SGD with momentum, float32", sides, ours, theirs, 20 * sides.size, 1e-5)

    def masters() -> Case:
        # PyTorch has no such step: it updates float32 parameters, which are cast by another kernel.
        sides, wide = Sides(scale, "bfloat16"), Sides(scale)
        ours = ck.optim.AdamW(sides.ours, **options)
        theirs = torch.optim.AdamW(wide.gradients_set(), fused=True, **options)
        for one, other in zip(wide.theirs, sides.theirs, strict=True):
            one.data.copy_(other)
        for one, other in zip(wide.theirs, sides.theirs_gradients, strict=True):
            one.grad.copy_(other)
        for _ in range(STEPS):
            ours.step(sides.ours_gradients)
            theirs.step()
        state = ours.state_dict()
        wide.ours = [state[f"{i}.master"] for i in range(len(wide.theirs))]
        if not (error := wide.error()) <= 1e-5:
            raise AssertionError(f"masters: the results differ by {error:.2g}")
        name = "AdamW, bfloat16 with float32 masters"
        return Case(name, lambda: ours.step(sides.ours_gradients), None, 30 * sides.size, error)

    def clip() -> Case:
        sides = Sides(scale)
        parameters = sides.gradients_set()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=sides.where == "cuda" or None)
        sides.ours = ck.optim.clip_by_global_norm(sides.ours_gradients, 1.0)[0]
        sides.theirs = [one.grad for one in parameters]
        if not (error := sides.error()) <= 1e-6:
            raise AssertionError(f"clip_by_global_norm: the results differ by {error:.2g}")
        return Case(
            "clip_by_global_norm, float32",
            lambda: ck.optim.clip_by_global_norm(sides.ours_gradients, 1.0),
            lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=sides.where == "cuda" or None),
            12 * sides.size,
            error,
        )

    return [adamw, groups, sgd, masters, clip]


def host_microseconds(call: Call, synchronize: Call) -> float:
    """The median time in which a call returns, the device having nothing else to do."""
    times = []
    for _ in range(CALLS):
        synchronize()
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def copy_of(moved: int) -> Call:
    """A copy that reads half as many bytes and writes as many."""
    import torch

    where = "cuda" if ck.zeros(1).device.kind == "cuda" else "cpu"
    source = torch.zeros(moved // 8, dtype=torch.float32, device=where)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = ck.zeros(1).device
    clock: Any = DeviceClock(device) if device.kind == "cuda" else HostClock()
    lines = [
        f"{len(shapes(1))} arrays on {device.properties.name}, device times in us, host times in us a step",
        "",
        "| step | host | PyTorch's host | device | PyTorch's device | a copy | share of a copy | difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for make in cases(arguments.scale):
        case = make()
        sides = [case.ours, copy_of(case.moved), *([case.theirs] if case.theirs else [])]
        ours, copied, *theirs = (1e6 * s for s in median_seconds(clock, [[side] for side in sides]))
        hosts = [host_microseconds(side, device.synchronize) for side in (case.ours, case.theirs) if side]
        other = [f"{hosts[1]:.0f}", f"{theirs[0]:.0f}"] if theirs else ["", ""]
        lines.append(
            f"| {case.name} | {hosts[0]:.0f} | {other[0]} | {ours:.0f} | {other[1]} | {copied:.0f} | "
            f"{copied / ours:.2f} | {case.error:.1e} |"
        )
        print(lines[-1], flush=True)
        del case, sides
    text = "\n".join(lines) + "\n"
    print("\n" + text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
