"""GPT-2 written plainly and run by `ck.jit`, beside the step of examples/10_gpt2.py: by turns, and the first calls.

Usage: python benchmarks/gpt2_plain.py [--preset 124m] [--cores LIST] [--out FILE]

The plain model calls layers one after another, without `fuse` and without what the example computes together: a
product's bias, activation and sum, and the last product with its loss. Both steps begin with the same weights and see
the same tokens. First calls are those of processes of their own, on the processors of `--cores` alone, as `0,1`: with
empty caches, and with what that process kept on the disk; seconds from the call of the step to its loss, the device
having been started before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpt2_profile import example
from measure import FIRST, milliseconds

import cukern as ck
from cukern import nn

gpt = example()
#: How much the losses of both may differ, of themselves: the plain one is rounded to bfloat16.
APART = 2**-7


class Plain(gpt.GPT):  # type: ignore[misc, name-defined]
    """The example's model, its layers one after another."""

    def loss(self, codes: ck.Array, following: ck.Array) -> ck.Array:
        """The mean cross-entropy of the next tokens."""
        x = self.tokens(codes) + self.positions.weight[: codes.shape[1]]
        for block in self.blocks:
            x = x + attended(block.attention, block.attention_norm(x))
            wide = block.widen
            y = ck.gelu_tanh(nn.linear(block.network_norm(x), wide.weight, wide.bias))
            x = x + block.out(y)
        logits = nn.linear(self.norm(x), self.tokens.weight)
        return nn.cross_entropy(ck.reshape(logits, (-1, logits.shape[-1])), ck.reshape(following, -1))


def attended(layer: Any, x: ck.Array) -> ck.Array:
    """What attention adds to the stream."""
    apart = ck.reshape(layer.project(x), (*x.shape[:2], 3, layer.heads, -1))
    q, k, v = (ck.swapaxes(apart[:, :, i], 1, 2) for i in range(3))
    y = nn.attention(q, k, v, causal=True)
    return layer.out(ck.reshape(ck.swapaxes(y, 1, 2), x.shape))


def made(kind: type[Any], preset: Any, plain: bool) -> Callable[[], Any]:
    """A step on one batch."""
    model = kind(preset).astype(preset.dtype)
    batch = next(gpt.batches(gpt.library_text(2**22), preset))
    step = gpt.make_step(model, captured=not plain, recompute=not plain)
    step = ck.jit(step) if plain else step
    return lambda: step(*batch)


def first(preset: Any) -> dict[str, float]:
    """The seconds of this process's first and second call, and the first loss."""
    step = made(Plain, preset, plain=True)
    device = ck.zeros(1).device
    if device.kind == "cuda":  # what any process that uses cuBLAS pays
        one = device.xp.ones((8, 8), np.float32)
        device.xp.matmul(one, one)
    device.synchronize()
    times = [time.perf_counter()]
    losses = []
    for _ in range(2):
        losses.append(float(step()))
        times.append(time.perf_counter())
    return {"first": times[1] - times[0], "second": times[2] - times[1], "loss": losses[0]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", choices=gpt.PRESETS, default="124m")
    parser.add_argument("--cores", default="0,1", help="processors of the first calls")
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    preset = gpt.PRESETS[options.preset]
    if options.first:
        os.sched_setaffinity(0, [int(one) for one in options.cores.split(",")])
        print(json.dumps(first(preset)))
        return
    lines: list[str] = []

    def add(*added: str) -> None:
        lines.extend(added)
        print(*added, sep="\n", flush=True)

    steps, losses = {}, {}
    for name, kind, plain in (("examples/10_gpt2.py", gpt.GPT, False), ("plain, `ck.jit`", Plain, True)):
        steps[name] = made(kind, preset, plain)
        losses[name] = [float(steps[name]()) for _ in range(FIRST)]
    (example_losses, plain_losses), device = losses.values(), ck.zeros(1).device
    np.testing.assert_allclose(plain_losses, example_losses, rtol=APART)
    times = milliseconds(list(steps.values()), device.synchronize)
    add(
        f"{device.properties.name}, GPT-2 {options.preset}",
        "",
        "| step | ms | first losses |",
        "| --- " * 3 + "|",
    )
    for name, taken in zip(steps, times, strict=True):
        add(f"| {name} | {taken:.2f} | {' '.join(f'{one:.4f}' for one in losses[name])} |")
    add("", f"| `ck.jit`, processors {options.cores} | first call, s | second | loss |", "| --- " * 4 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("empty caches", "cached"):
            command = [
                sys.executable,
                __file__,
                "--first",
                "--preset",
                options.preset,
                "--cores",
                options.cores,
            ]
            # CuPy's cache and NVRTC's, too.
            caches = {
                "CUKERN_CACHE_DIR": folder,
                "CUPY_CACHE_DIR": f"{folder}/cupy",
                "CUDA_CACHE_DISABLE": "1",
            }
            done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            found = json.loads(done.stdout)
            add(f"| {name} | {found['first']:.2f} | {found['second']:.2f} | {found['loss']:.4f} |")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
