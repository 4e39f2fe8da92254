"""Training steps of whole programs that nothing here was tuned for, beside PyTorch's eager, compiled and recorded ones.

Usage: python benchmarks/models.py [--scale N] [--only WORD] [--quick] [--profile N] [--out FILE]

The programs are those of the folder `programs`, each written once for either library. The sides begin with the same
weights and see the same numbers, with AdamW; their first losses are compared. A program's side in JAX takes part if JAX
is installed. The time is the host's between two points at which the device has nothing to do, divided by the
steps between them: the median of rounds in which the sides take turns. The memory is what a side takes of the GPU until
its fifth step, weights and libraries included. A side that fails is a row that says why.
`--scale` divides sizes, for a try without a GPU; `--quick` leaves out what PyTorch compiles; `--profile` shows the
N kernels that take longest, as PyTorch's profiler sees them, of the captured step and of the fastest of the others.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from gpt2_profile import profiled
from measure import FIRST, Benchmark, graphed, milliseconds, torch
from programs import PROGRAMS, Program
from programs.libraries import OURS, peer

import cukern as ck

OPTIONS: dict[str, Any] = {"lr": 1e-4, "weight_decay": 0.01}
#: Axes of a batch of images.
IMAGES = 4
#: Steps that are profiled, and characters of a kernel's name that are shown.
PROFILED, NAME = 3, 100
Step = Callable[[], Any]


def own_step(model: Any, given: list[Any], decorate: Callable[[Step], Step]) -> Step:
    """This library's step."""
    if not hasattr(model, "loss"):
        return decorate(lambda: model.advance(*given))
    optimizer = ck.optim.AdamW(model, masters=False, **OPTIONS)

    def step() -> Any:
        with ck.Tape() as tape:
            loss = model.loss(*given)
        optimizer.step(tape.gradient(loss, model))
        if hasattr(model, "finish"):
            model.finish()
        return loss

    return decorate(step)


def torch_step(model: Any, given: list[Any], compiled: bool) -> Step:
    """PyTorch's step."""
    called = model.loss if hasattr(model, "loss") else model.advance
    called = torch.compile(called) if compiled else called
    if not hasattr(model, "loss"):
        return lambda: called(*given)
    on_gpu = torch.cuda.is_available()
    optimizer = torch.optim.AdamW(model.parameters(), fused=on_gpu or None, capturable=on_gpu, **OPTIONS)

    def step() -> Any:
        optimizer.zero_grad()
        loss = called(*given)
        loss.backward()
        optimizer.step()
        if hasattr(model, "finish"):
            with torch.no_grad():
                model.finish()
        return loss.detach()

    return step


def sides(program: Program, scale: int, quick: bool) -> dict[str, Callable[[], Step]]:
    """What makes the steps of a program that are measured."""
    ck.set_default_dtype(program.dtype)
    given = program.inputs(np.random.default_rng(1), scale)
    floating = [np.issubdtype(one.dtype, np.floating) for one in given]
    first = program.build(OURS, scale)
    state = {key: one.numpy() for key, one in first.state_dict().items()}

    def ours(decorate: Callable[[Step], Step]) -> Step:
        inputs = [
            ck.asarray(one, dtype=program.dtype if casts else None)
            for one, casts in zip(given, floating, strict=True)
        ]
        model = program.build(OURS, scale)
        model.load_state_dict(state)
        return own_step(model, inputs, decorate)

    def theirs(compiled: bool, last: bool = False) -> Step:
        torch.backends.cudnn.allow_tf32 = False  # float32 is float32 on all sides
        target, dtype = "cuda" if torch.cuda.is_available() else "cpu", getattr(torch, program.dtype)
        model = program.build(peer(), scale)
        wide = {
            key: one.astype(np.float32) if one.dtype == ck.bfloat16 else one for key, one in state.items()
        }
        model.load_state_dict({key: torch.tensor(one) for key, one in wide.items()})
        inputs = [
            torch.tensor(one).to(target, dtype if casts else None)
            for one, casts in zip(given, floating, strict=True)
        ]
        model = model.to(target, dtype)
        if last:
            model = model.to(memory_format=torch.channels_last)
            inputs = [
                one.to(memory_format=torch.channels_last) if one.ndim == IMAGES else one for one in inputs
            ]
        return torch_step(model, inputs, compiled)

    def in_jax() -> Step:
        inputs = [one.astype(program.dtype) if i else one for one, i in zip(given, floating, strict=True)]
        assert program.jax is not None
        return program.jax(state, inputs, scale)

    made: dict[str, Callable[[], Step]] = {
        "cukern, eager": lambda: ours(lambda step: step),
        "cukern, captured": lambda: ours(ck.capture),
        "cukern, ck.jit": lambda: ours(ck.jit),
    }
    if torch is not None:
        made["PyTorch, eager"] = lambda: theirs(False)
        if torch.cuda.is_available():
            made["PyTorch, eager, as a CUDA graph"] = lambda: graphed(theirs(False))
        if torch.cuda.is_available() and not quick:
            made["PyTorch, compiled"] = lambda: theirs(True)
            made["PyTorch, compiled, as a CUDA graph"] = lambda: graphed(theirs(True))
            if any(one.ndim == IMAGES for one in given):
                for compiled, words in ((False, ""), (True, ", compiled")):
                    made[f"PyTorch{words}, channels last, as a CUDA graph"] = partial(
                        lambda compiled: graphed(theirs(compiled, last=True)), compiled
                    )
    if program.jax is not None and find_spec("jax") is not None:
        made["JAX, jit"] = in_jax
    return made


def free_bytes(device: ck.Device) -> int:
    """The bytes of the GPU's memory that nobody has taken."""
    return int(device.xp.cuda.runtime.memGetInfo()[0])


def most_free_bytes(device: ck.Device) -> int | None:
    """The same once the libraries have given back what they keep; None on the host."""
    if device.kind != "cuda":
        return None
    gc.collect()
    device.xp.get_default_memory_pool().free_all_blocks()
    if torch is not None:
        torch.cuda.empty_cache()
    return free_bytes(device)


def measured(bench: Benchmark, program: Program) -> None:
    """Add a program's rows."""
    steps: dict[str, Step] = {}
    losses: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    memory: dict[str, int | None] = {}
    for side, make in sides(program, bench.scale, bench.quick).items():
        free = most_free_bytes(bench.device)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                step = make()
                losses[side] = [float(step()) for _ in range(FIRST)]
            steps[side] = step
        except Exception as error:  # whatever another library raises is that side's row
            bench.row(program, side, None, None, None, f"{type(error).__name__}: {first_line(error)}")
            continue
        seconds[side] = time.perf_counter() - start
        memory[side] = None if free is None else (free - free_bytes(bench.device)) >> 20
        for one in {first_line(one.message) for one in said if "cukern" in side}:
            bench.row(program, side, None, None, None, f"warns: {one}")
    waits = [bench.device.synchronize, *(one.wait for one in steps.values() if hasattr(one, "wait"))]

    def synchronize() -> None:
        for wait in waits:
            wait()

    times = milliseconds(list(steps.values()), synchronize)
    wanted = next(iter(losses.values()), [np.nan])[0]
    for side, taken in zip(steps, times, strict=True):
        found = losses[side]
        apart = abs(found[0] - wanted) / abs(wanted)
        shown = " ".join(f"{one:.4g}" for one in found)
        if not apart <= program.apart:
            shown += f" (the first differs by {apart:.2g} of it, expected {program.apart:.2g} at most)"
        bench.row(program, side, taken, memory[side], seconds[side], shown)
    if bench.number["profile"] and torch is not None and torch.cuda.is_available():
        others = {side: taken for side, taken in zip(steps, times, strict=True) if "cukern" not in side}
        for side in ("cukern, captured", *sorted(others, key=others.__getitem__)[:1]):
            if side in steps:
                show_kernels(bench, program, side, steps[side])


def show_kernels(bench: Benchmark, program: Program, side: str, step: Step) -> None:
    """Add rows of the kernels that take longest in a step, and one of their sum."""
    kernels = profiled(step, PROFILED)
    count, total = (sum(one[i] for one in kernels.values()) for i in range(2))
    bench.row(program, f"{side}: {count:g} kernels", f"{total / 1e3:.3f}", None, None, "")
    for name, (times, taken) in sorted(kernels.items(), key=lambda one: -one[1][1])[
        : bench.number["profile"]
    ]:
        bench.row("", f"{times:g} x", f"{taken / 1e3:.3f}", None, None, f"`{name[:NAME]}`")


def first_line(error: Any) -> str:
    """The beginning of a message."""
    return (str(error).splitlines() or [""])[0][:120]


def main() -> None:
    bench = Benchmark(
        __doc__,
        "steps of whole programs",
        ["program", "step", "ms", "MiB", "s until step 5", "first losses"],
        numbers={"profile": "kernels that are shown of a step"},
    )
    for program in bench.chosen(PROGRAMS):
        measured(bench, program)
    bench.end()


if __name__ == "__main__":
    main()
