"""A training step of GPT-2 124M: time, memory and kernels of cukern's, PyTorch's eager and its compiled ones.

The steps are those of examples/10_gpt2.py, from the same weights. Each is measured in a process of its own: its time,
that until its Python returns, the GPU's memory that it takes, and the losses; PyTorch's profiler, which sees all the
kernels of a process, then counts these. ``--masters no`` keeps all weights in bfloat16, on both sides. A row that takes
longer than ``--seconds``, compiling included, is left out. Without a GPU or PyTorch there is nothing to see, and the
script ends with a line that says so.

Usage: python benchmarks/gpt2_profile.py [--masters no] [--rows NAMES] [--seconds N] [--most N] [--out FILE]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cukern as ck

ROOT = Path(__file__).parents[1]
#: For each kernel, or copy, its number and its microseconds in a step.
Kernels = dict[str, tuple[float, float]]


class Row(NamedTuple):
    """One way to make the step: its row's title, the options of the example's functions, and environment variables."""

    title: str
    ours: bool
    options: dict[str, Any]
    variables: dict[str, str] = {}  # noqa: RUF012


ROWS = {
    "captured": Row("cukern, captured", True, {"captured": True}),
    "kept": Row("cukern, captured, nothing computed again", True, {"captured": True, "recompute": False}),
    "called": Row("cukern, not captured", True, {"captured": False, "recompute": False}),
    "called-again": Row("cukern, not captured, `recompute=True`", True, {"captured": False}),
    "eager": Row("PyTorch, eager", False, {}),
    "default": Row("PyTorch, `torch.compile`", False, {"compiled": "default"}),
    "reduce-overhead": Row("PyTorch, reduce-overhead", False, {"compiled": "reduce-overhead"}),
    "max-autotune": Row("PyTorch, max-autotune", False, {"compiled": "max-autotune"}),
    "max-autotune-cublas": Row(  # does not try hundreds of Triton's products
        "PyTorch, max-autotune, products by cuBLAS",
        False,
        {"compiled": "max-autotune"},
        {"TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS": "ATEN"},
    ),
}

#: Kinds of kernels, and what their names have: the first that a name has counts.
FAMILIES = {
    "attention, backward": r"attention_backward|bprop|compute_dot_do_o|convert_dq|flash_bwd",
    "attention, forward": r"attention|sdpa|fprop|flash_fwd",
    "layer norms": r"layer_?norm|gammabeta",
    "cross-entropy": r"cross_entropy|softmax|nll_loss",
    "optimizer and clipping": r"^adam|adamw|multi_tensor|^squares|^_?scale|lpnorm",
    "products": r"nvjet|gemm|cutlass|splitk|^added_|^linear_bfloat16_\d+x|triton_tem|triton_mm|_mm_",
    "gelu and its derivative": r"gelu|^linear_",
    "sums, of biases' gradients too": r"^sum|reduce_kernel|triton_red|triton_per",
    "copies, fills and the rest": r"",
}


def example() -> Any:
    """The script that defines the steps."""
    spec = importlib.util.spec_from_file_location("gpt2", ROOT / "examples" / "10_gpt2.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ----- one row, in a process of its own -----


@contextmanager
def watched(taken: Callable[[], int]) -> Iterator[list[int]]:
    """The most memory that is taken while the with-block runs, looked at each millisecond."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(1e-3):
            most[0] = max(most[0], taken())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def profiled(step: Callable[[], Any], steps: int) -> Kernels:
    """The kernels of a step."""
    import torch

    step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in found.events():
        # Ranges that PyTorch names are on the GPU's track too, and have the time of the kernels in them.
        named = getattr(event, "is_user_annotation", False) or event.name.startswith("Optimizer.")
        if event.device_type == torch.autograd.DeviceType.CUDA and not named:
            kernels[event.name][0] += 1
            kernels[event.name][1] += event.time_range.elapsed_us()
    return {name: (count / steps, time / steps) for name, (count, time) in kernels.items()}


def measured(row: Row, preset: Any, gpt: Any, options: argparse.Namespace) -> dict[str, Any]:
    """What is told of a row."""
    device = ck.zeros(1).device
    model = gpt.GPT(preset).astype(preset.dtype)
    batch: Any = next(gpt.batches(gpt.library_text(2**24), preset))
    synchronize, release = device.synchronize, device.xp.get_default_memory_pool().free_all_blocks
    given = {**row.options, "masters": options.masters == "yes"}
    if row.ours:
        taken = gpt.taken_since(device, device.xp.get_default_memory_pool().total_bytes())
        step = gpt.make_step(model, **given)
    else:
        import torch

        weights = {name: p.numpy().astype(np.float32) for name, p in model.named_parameters()}
        batch = [torch.tensor(one.numpy().astype(np.int64), device="cuda") for one in batch]
        del model
        gc.collect()
        release()
        synchronize, release = torch.cuda.synchronize, torch.cuda.empty_cache
        taken = gpt.taken_since(device)
        step = gpt.torch_step(weights, preset, "cuda", **given)
    start = time.perf_counter()
    with watched(taken) as most:
        losses = [float(step(*batch)) for _ in range(3)]
    first = time.perf_counter() - start
    release()  # what compiling and the first steps took
    times, python, memory, _ = gpt.measured(row.title, step, batch, synchronize, taken, options.timed)
    most[0] = max(most[0], taken())
    return {
        "allocated": None if row.ours else torch.cuda.max_memory_allocated() // 2**20,
        "ms": times,
        "python": python,
        "mib": int(memory),
        "most": most[0] // 2**20,
        "losses": losses,
        "first": first,
        "kernels": profiled(lambda: step(*batch), options.steps),
    }


# ----- all rows -----


def run(name: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """A row's process: what it tells, or None if it takes too long or fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "row.json"
        command = [sys.executable, __file__, "--row", name, "--out", str(out), "--preset", options.preset]
        command += [f"--{word}={getattr(options, word)}" for word in ("masters", "steps", "timed")]
        try:
            done = subprocess.run(
                command, timeout=options.seconds, env={**os.environ, **ROWS[name].variables}
            )
        except subprocess.TimeoutExpired:
            print(f"{name}: not done in {options.seconds} s", flush=True)
            return None
        return json.loads(out.read_text()) if done.returncode == 0 else None


def family(kernel: str) -> str:
    return next(name for name, words in FAMILIES.items() if re.search(words, kernel.lower()))


def families(found: dict[str, Any]) -> list[str]:
    """Markdown: the milliseconds of each kind of kernels, a column a row."""
    lines = ["| kernels | " + " | ".join(found) + " |", "| --- " * (len(found) + 1) + "|"]
    for name in (*FAMILIES, "all"):
        cells = []
        for row in found.values():
            own = [time for kernel, (_, time) in row["kernels"].items() if name in (family(kernel), "all")]
            cells.append(f"{sum(own) / 1e3:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


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
    for kernel, (number, us) in rows[:most]:
        short = kernel if len(kernel) <= 100 else f"{kernel[:70]} ... {kernel[-25:]}"
        lines.append(f"| `{short.replace('|', '/')}` | {number:.0f} | {us:.0f} | {100 * us / total:.1f} |")
    rest = [one for _, one in rows[most:]]
    lines.append(f"| {len(rest)} others | {sum(n for n, _ in rest):.0f} | {sum(t for _, t in rest):.0f} | |")
    return [*lines, ""]


def tables(found: dict[str, Any], most: int) -> list[str]:
    """All tables: of the steps, of kinds of kernels, and the kernels of those that the best of each side runs."""
    lines = [
        "| | ms | of which Python | its kernels | MiB | at most | PyTorch's arrays | first steps, s | losses |"
    ]
    lines.append("| --- " * 9 + "|")
    for title, row in found.items():
        kernels = sum(time for _, time in row["kernels"].values()) / 1e3
        losses = ", ".join(f"{loss:.5f}" for loss in row["losses"])
        lines.append(
            f"| {title} | {row['ms']:.2f} | {row['python']:.2f} | {kernels:.2f} | {row['mib']} | {row['most']} "
            f"| {row.get('allocated') or ''} | {row['first']:.0f} | {losses} |"
        )
    lines += ["", *families(found), ""]
    eager = ROWS["eager"].title
    compiled = [title for title in found if title.startswith("PyTorch") and title != eager]
    shown = [ROWS["captured"].title, eager, *sorted(compiled, key=lambda title: found[title]["ms"])[:1]]
    for title in shown:
        lines += table(title, found[title]["kernels"], most) if title in found else []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="124m")
    parser.add_argument("--masters", choices=["yes", "no"], default="yes", help="float32 copies of weights")
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--steps", type=int, default=5, help="steps whose kernels are counted")
    parser.add_argument("--timed", type=int, default=20, help="steps that are timed")
    parser.add_argument("--seconds", type=int, default=220, help="for each row")
    parser.add_argument("--most", type=int, default=30, help="kernels that have a line each")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--out", type=Path, help="a file for the tables; their numbers go beside it, as .json"
    )
    options = parser.parse_args()
    device = ck.zeros(1).device
    if importlib.util.find_spec("torch") is None or device.kind == "host":
        print("no GPU, or no PyTorch, whose profiler sees the kernels")
        return
    if options.row:
        gpt = example()
        told = measured(ROWS[options.row], gpt.PRESETS[options.preset], gpt, options)
        options.out.write_text(json.dumps(told))
        return
    found: dict[str, Any] = {}
    for name in options.rows:
        if (row := run(name, options)) is not None:
            found[ROWS[name].title] = row
        if options.out:
            options.out.with_suffix(".json").write_text(json.dumps(found))
    text = "\n".join(
        [f"{device.properties.name}, {time.strftime('%Y-%m-%d')}", "", *tables(found, options.most)]
    )
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
