"""A training step of GPT-2 124M kernel by kernel: cukern's step, captured and not, PyTorch's eager and compiled ones.

The steps are those of examples/10_gpt2.py, from the same weights: their times, that until a step's Python returns, and
the GPU's memory that they take. PyTorch's profiler, which sees all kernels of the process, then counts these. Without a
GPU or PyTorch there is nothing to see, and the script ends with a line that says so.

Usage: python benchmarks/gpt2_profile.py [--preset NAME] [--steps N] [--most N] [--modes NAMES] [--out FILE]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

ROOT = Path(__file__).parents[1]
#: Steps that are timed.
TIMED = 20
#: For each kernel, or copy, its number and its microseconds in a step.
Kernels = dict[str, tuple[float, float]]


def example() -> Any:
    """The script that defines the steps."""
    spec = importlib.util.spec_from_file_location("gpt2", ROOT / "examples" / "10_gpt2.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def profiled(step: Callable[[], Any], steps: int) -> Kernels:
    """The kernels of a step."""
    for _ in range(4):  # captured steps are replayed from the third on
        step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name][0] += 1
            kernels[event.name][1] += event.time_range.elapsed_us()
    return {name: (count / steps, time / steps) for name, (count, time) in kernels.items()}


def table(name: str, kernels: Kernels, most: int) -> list[str]:
    """Markdown: the kernels that take longest."""
    rows = sorted(kernels.items(), key=lambda one: -one[1][1])
    total, count = sum(time for _, time in kernels.values()), sum(number for number, _ in kernels.values())
    lines = [
        f"## {name}: {total / 1e3:.2f} ms in {count:.0f} kernels and copies",
        "",
        "| kernel | launches | us | % |",
    ]
    lines.append("| --- | --- | --- | --- |")
    for kernel, (number, time) in rows[:most]:
        short = kernel if len(kernel) <= 100 else f"{kernel[:70]} ... {kernel[-25:]}"
        lines.append(
            f"| `{short.replace('|', '/')}` | {number:.0f} | {time:.0f} | {100 * time / total:.1f} |"
        )
    rest = [one for _, one in rows[most:]]
    lines.append(f"| {len(rest)} others | {sum(n for n, _ in rest):.0f} | {sum(t for _, t in rest):.0f} | |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="124m")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--most", type=int, default=30, help="kernels that have a line each")
    parser.add_argument("--modes", nargs="*", default=["default"], help="of torch.compile")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = ck.zeros(1).device
    if torch is None or device.kind == "host":
        print("no GPU, or no PyTorch, whose profiler sees the kernels")
        return
    made = list(rows(example(), device, options))
    lines = [f"{device.properties.name}, PyTorch {torch.__version__}", ""]
    lines += ["| | ms | of which Python | MiB | losses |", "| --- | --- | --- | --- | --- |"]
    lines += ["| {} | {:.2f} | {:.2f} | {} | {} |".format(name, *found) for name, found, _ in made]
    for name, _, kernels in made:
        lines += ["", *table(name, kernels, options.most)] if kernels else []
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def rows(gpt: Any, device: ck.Device, options: argparse.Namespace) -> Iterator[tuple[str, Any, Kernels]]:
    """For each way to make the step: its name, what the example measures of it, and its kernels."""
    preset = gpt.PRESETS[options.preset]
    model = gpt.GPT(preset).astype(preset.dtype)
    weights = {name: p.numpy().astype(np.float32) for name, p in model.named_parameters()}
    batch = next(gpt.batches(gpt.library_text(2**24), preset))
    memory = gpt.taken_since(device, device.xp.get_default_memory_pool().total_bytes())
    for name, captured in (("cukern, captured", True), ("cukern", False)):
        model.load_state_dict(weights)
        step = gpt.make_step(model, captured)
        found = gpt.measured(name, step, batch, device.synchronize, memory if captured else None, TIMED)
        yield name, found, profiled(lambda step=step: step(*batch), options.steps) if captured else {}  # type: ignore[misc]
    codes = [torch.tensor(one.numpy().astype(np.int64), device="cuda") for one in batch]
    for mode in (None, *options.modes):
        step = None  # what the last one held
        gc.collect()
        torch.cuda.empty_cache()
        name = f"PyTorch, torch.compile, {mode}" if mode else "PyTorch, eager"
        memory = gpt.taken_since(device)
        step = gpt.torch_step(weights, preset, "cuda", mode)
        found = gpt.measured(name, step, codes, torch.cuda.synchronize, memory, TIMED)
        yield name, found, profiled(lambda step=step: step(*codes), options.steps)  # type: ignore[misc]


if __name__ == "__main__":
    main()
