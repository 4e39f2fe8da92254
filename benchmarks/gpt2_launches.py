"""One training step of GPT-2 (124M parameters): its launches and its time, beside PyTorch's from the same weights.

The model is that of examples/07_gpt.py, in bfloat16 throughout, 8 x 1024 tokens by default, without dropout; the
optimizer AdamW with a group that does not decay, and gradients clipped. Losses are compared in the same run.

Usage: python benchmarks/gpt2_launches.py [--steps N] [--batch N] [--dtype NAME] [--tiny] [--out FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cukern as ck

ROOT = Path(__file__).parents[1]
LR = 3e-4
#: How far losses of few steps may be from PyTorch's, relatively: both round every result.
TOLERANCE = {"bfloat16": 1e-2, "float32": 1e-4}


class Sizes(NamedTuple):
    """What a model and its batch are made of."""

    vocabulary: int = 50304
    length: int = 1024
    features: int = 768
    heads: int = 12
    layers: int = 12
    batch: int = 8


TINY = Sizes(64, 16, 32, 2, 2, 2)


def example() -> Any:
    """The script that defines the model."""
    spec = importlib.util.spec_from_file_location("gpt", ROOT / "examples" / "07_gpt.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def torch_gpt(state: dict[str, Any], codes: Any, heads: int) -> Any:
    """The logits of the example's model in PyTorch's functions, of its parameters by their names."""
    import torch

    f = torch.nn.functional

    def linear(x: Any, name: str) -> Any:
        return f.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        return f.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    x = f.embedding(codes, state["tokens.weight"]) + state["positions.weight"][: codes.shape[1]]
    layers = sum(name.endswith("attention_norm.weight") for name in state)
    for at in (f"blocks.{i}." for i in range(layers)):
        weight, bias = (state[f"{at}attention.in_proj_{kind}"] for kind in ("weight", "bias"))
        projected = f.linear(norm(x, f"{at}attention_norm"), weight, bias).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in projected)
        found = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(found, f"{at}attention.out_proj")
        hidden = f.gelu(linear(norm(x, f"{at}network_norm"), f"{at}network.layers.0"), approximate="tanh")
        x = x + linear(hidden, f"{at}network.layers.2")
    return f.linear(norm(x, "norm"), state["tokens.weight"])


# ----- what is counted -----

#: CUDA's numbers of kinds of nodes.
_KINDS = {0: "kernels", 1: "copies", 2: "fills"}


class _Counted:
    """A compiled kernel whose launches are counted."""

    def __init__(self, function: Any, counts: Counter[str]) -> None:
        self._function, self._counts = function, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def _count(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self._counts["kernels"] += 1
            return call(*args, **options)

        return counted

    def __call__(self, *args: Any) -> Any:
        return self._count(self._function)(*args)

    def prepare(self, *args: Any, **options: Any) -> Any:
        return self._count(self._function.prepare(*args, **options))


@contextmanager
def counting(device: ck.Device) -> Iterator[Counter[str]]:
    """The launches of cukern's kernels and of matrix products, of kernels that are compiled within."""
    counts: Counter[str] = Counter()
    if device.kind == "host":
        owner, name = np, "matmul"
    else:
        owner, name = importlib.import_module("cukern.device.cuda.cublas"), "_ready"
    backend: Any = type(device.backend)
    compile, product = backend.compile, getattr(owner, name)

    def compiled(*args: Any) -> _Counted:
        return _Counted(compile(*args), counts)

    def multiplied(*args: Any, **options: Any) -> Any:
        counts["products"] += 1
        return product(*args, **options)

    backend.compile = compiled
    setattr(owner, name, multiplied)
    try:
        yield counts
    finally:
        backend.compile = compile
        setattr(owner, name, product)


def recorded(stream: int) -> Counter[str]:
    """What a stream has recorded so far for a graph, by its kind, the kernels of libraries included."""
    driver = ctypes.CDLL("libcuda.so.1")
    status, graph = ctypes.c_int(), ctypes.c_void_p()
    failed = driver.cuStreamGetCaptureInfo_v2(
        ctypes.c_void_p(stream), ctypes.byref(status), None, ctypes.byref(graph), None, None
    )
    counts: Counter[str] = Counter()
    if failed or status.value != 1:
        return counts
    amount = ctypes.c_size_t()
    driver.cuGraphGetNodes(graph, None, ctypes.byref(amount))
    nodes = (ctypes.c_void_p * amount.value)()
    driver.cuGraphGetNodes(graph, nodes, ctypes.byref(amount))
    for node in nodes:
        kind = ctypes.c_int()
        driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        counts[_KINDS.get(kind.value, "others")] += 1
    return counts


def timed(step: Callable[[], Any], synchronize: Callable[[], Any], steps: int) -> float:
    """The median milliseconds of a step, waited for."""
    times = []
    for _ in range(steps):
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


# ----- the two sides -----


class Ours:
    """cukern's step."""

    def __init__(self, sizes: Sizes, dtype: str) -> None:
        script = example()
        self.model = script.GPT(
            sizes.vocabulary, sizes.length, sizes.features, sizes.heads, sizes.layers, dropout=0.0
        ).astype(dtype)
        self.weights = {name: p.numpy().astype(np.float32) for name, p in self.model.named_parameters()}
        matrices = [p for p in self.model.parameters() if p.ndim >= 2]
        vectors = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        # PyTorch's side keeps no masters either.
        optimizer = ck.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), weight_decay=0.1, masters=False)
        self.eager = script.make_step(self.model, optimizer).__wrapped__
        self.captured = ck.capture(self._step)
        self.nodes: Counter[str] = Counter()

    def _step(self, codes: ck.Array, following: ck.Array) -> ck.Array:
        loss = self.eager(codes, following)
        if codes.device.kind != "host":
            self.nodes += recorded(codes.device.xp.cuda.get_current_stream().ptr)
        return loss


class Theirs:
    """PyTorch's step, from the same weights."""

    def __init__(self, ours: Ours, sizes: Sizes, dtype: str, where: str) -> None:
        import torch

        self.torch, self.heads = torch, sizes.heads
        kind = getattr(torch, dtype)
        self.state = {
            name: torch.tensor(value, device=where).to(kind).requires_grad_()
            for name, value in ours.weights.items()
        }
        groups = [
            {"params": [p for p in self.state.values() if p.ndim >= 2], "weight_decay": 0.1},
            {"params": [p for p in self.state.values() if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), fused=where == "cuda")

    def __call__(self, codes: Any, following: Any) -> Any:
        torch = self.torch
        logits = torch_gpt(self.state, codes, self.heads)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.state.values()), 1.0)
        self.optimizer.step()
        return loss.detach()

    def launches(self, step: Callable[[], Any]) -> Counter[str]:
        """What runs on the GPU in a step."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            step()
            self.torch.cuda.synchronize()
        counts: Counter[str] = Counter()
        for event in profile.events():
            if event.device_type == self.torch.autograd.DeviceType.CUDA:
                name = event.name.lower()
                kind = "copies" if "memcpy" in name else "fills" if "memset" in name else "kernels"
                counts[kind] += 1
        return counts


def _row(name: str, counts: dict[str, int], milliseconds: float | None) -> str:
    cells = [
        str(counts[kind]) if kind in counts else "" for kind in ("products", "kernels", "copies", "fills")
    ]
    shown = "" if milliseconds is None else f"{milliseconds:.2f}"
    return f"| {name} | {' | '.join(cells)} | {shown} |"


def measured(sizes: Sizes, dtype: str, steps: int, device: ck.Device) -> list[str]:
    """The lines of the table, and that of the losses.

    Raises:
        AssertionError: the losses are not PyTorch's.
    """
    on_gpu = device.kind != "host"
    rng = np.random.default_rng(0)
    codes = rng.integers(0, sizes.vocabulary, (sizes.batch, sizes.length + 1)).astype(np.int32)
    x, y = ck.asarray(codes[:, :-1], device=device), ck.asarray(codes[:, 1:], device=device)
    rows = []
    with counting(device) as counts:
        ours = Ours(sizes, dtype)
        losses = [ours.eager(x, y).item()]
        counts.clear()
        losses.append(ours.eager(x, y).item())
        once = dict(counts)
    milliseconds = timed(lambda: ours.eager(x, y), device.synchronize, steps)
    rows.append(_row("cukern, what it launches", once, milliseconds))
    if on_gpu:
        ours.captured(x, y)
        ours.captured(x, y)
        milliseconds = timed(lambda: ours.captured(x, y), device.synchronize, steps)
        rows.append(_row("cukern, captured: the graph's nodes", ours.nodes, milliseconds))
    try:
        import torch
    except ImportError:
        return [*rows, "", "PyTorch is not installed: nothing to compare with."]
    where = "cuda" if on_gpu and torch.cuda.is_available() else "cpu"
    theirs = Theirs(ours, sizes, dtype, where)
    a, b = (torch.tensor(codes[:, k : k + sizes.length].astype(np.int64), device=where) for k in (0, 1))
    expected = [theirs(a, b).item() for _ in range(2)]
    apart = max(abs(one - other) / other for one, other in zip(losses, expected, strict=True))
    assert apart < TOLERANCE[dtype], (losses, expected)
    synchronize = torch.cuda.synchronize if where == "cuda" else lambda: None
    milliseconds = timed(lambda: theirs(a, b), synchronize, steps)
    found = theirs.launches(lambda: theirs(a, b)) if where == "cuda" else {}
    rows.append(_row(f"PyTorch {torch.__version__}, eager", found, milliseconds))
    return [*rows, "", f"Losses of two steps: {losses}, PyTorch's {expected}: {apart:.1e} apart."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed")
    parser.add_argument("--batch", type=int, help="examples of a step")
    parser.add_argument("--dtype", choices=sorted(TOLERANCE), default="bfloat16")
    parser.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    parser.add_argument("--out", type=Path, help="a file for the table")
    options = parser.parse_args()
    sizes = TINY if options.tiny else Sizes()
    if options.batch:
        sizes = sizes._replace(batch=options.batch)
    device = ck.zeros(()).device
    rows = measured(sizes, options.dtype, options.steps, device)
    shape = (
        f"{sizes.layers} layers of {sizes.features}, {sizes.batch} x {sizes.length} tokens, {options.dtype}"
    )
    lines = [
        f"A training step of GPT-2, {shape}, on {device.properties.name}.",
        "",
        "| | products | kernels | copies | fills | ms |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
