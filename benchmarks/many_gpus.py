"""Training and sums over several GPUs of one machine: cukern's beside PyTorch's, by the same NCCL.

    python -m cukern launch -n N benchmarks/many_gpus.py steps collectives ddp --folder FOLDER

``steps``: the captured step of examples/10_gpt2.py by each GPU alone, and by all through ``DataParallel`` with the
state whole, divided (ZeRO 1), and the blocks divided too (ZeRO 3): time, memory, losses. ``ddp``: PyTorch's step alone
and through DistributedDataParallel, from the same weights and batches; its losses are compared with those that
``steps`` left in the folder. ``collectives``: ``all_reduce`` of 1 MiB to 1 GiB beside torch.distributed's, by turns in
one process, called and in graphs, results checked. A time is that of the slowest rank; of GPUs alone, of the fastest.

Without a GPU, ``--preset tiny --scale 64`` tries all but PyTorch's on the host.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gpt2_profile import example

import cukern as ck
from cukern import distributed
from cukern.bench.timing import _CYCLES_A_SECOND, _SPIN
from cukern.distributed import nccl

#: Timed blocks of steps; the steps are not waited for one by one.
BLOCKS, STEPS = 4, 10
MIB = tuple(4**k for k in range(6))
#: All_reduces in a graph, and in a timed stretch of at least so many bytes.
IN_GRAPH, CALLS, STRETCH = 10, 50, 8 << 30
BASE = 1 << 18


class Table:
    """Lines that rank 0 prints and appends to a file as they come."""

    def __init__(self, path: Path, title: str, columns: Sequence[str]) -> None:
        self._path = path
        self.lines(f"## {title}", "", f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|")

    def lines(self, *lines: str) -> None:
        if distributed.rank() == 0:
            with self._path.open("a") as file:
                print(*lines, sep="\n", file=file)
            print(*lines, sep="\n", flush=True)

    def row(self, *cells: object) -> None:
        self.lines(f"| {' | '.join(f'{one:.2f}' if isinstance(one, float) else str(one) for one in cells)} |")


def over_ranks(value: float, op: str) -> float:
    found: float = distributed.all_reduce(ck.asarray(value, dtype="float64"), op).item()
    return found


# ----- steps -----


def optimizer(model: Any, gpt: Any, preset: Any) -> Any:
    """That of the example."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    options = {"betas": (0.9, 0.95), "weight_decay": 0.1, "masters": True}
    return ck.optim.AdamW(groups, lr=gpt.learning_rate(preset), **options)


def parallel_step(
    model: Any, gpt: Any, preset: Any, shard: Any, captured: bool = True, **more: Any
) -> Callable[..., Any]:
    training = distributed.DataParallel(optimizer(model, gpt, preset), shard=shard, model=model, **more)

    def step(codes: Any, following: Any) -> Any:
        with ck.Tape(recompute=True) as tape:
            loss = model.loss(codes, following)
        gradients, _ = training.clip(training.gradient(tape, loss), 1.0)
        training.step(gradients)
        return loss

    return ck.capture(step) if captured else step


def timed(step: Callable[[], Any], synchronize: Callable[[], None], scale: int = 1) -> float:
    """The median milliseconds of a step of this rank."""
    found, count = [], max(1, STEPS // scale)
    for _ in range(max(1, BLOCKS // scale)):
        synchronize()
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(count):
            step()
        synchronize()
        found.append(1e3 * (time.perf_counter() - start) / count)
    return statistics.median(found)


def returned(call: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    """The median microseconds until a call returns."""
    found = []
    for _ in range(50):
        synchronize()
        start = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - start))
    return statistics.median(found)


def steps(options: argparse.Namespace, gpt: Any, preset: Any) -> None:
    device = ck.zeros(1).device
    on_gpu = device.kind == "cuda"
    world = distributed.world()
    batches = gpt.batches(gpt.library_text(2**24), preset)
    batch = [next(batches) for _ in range(world.rank + 1)][-1]
    over_ranks(0.0, "sum")  # NCCL has its memory
    model = gpt.GPT(preset).astype(preset.dtype)
    table = Table(
        options.folder / "table.md",
        f"Steps of GPT-2, {options.preset}, on {world.size} x {device.properties.name}",
        ["", "ms", "of ideal", "MiB", "first steps, s", "losses, mean over ranks"],
    )
    rows: dict[str, dict[str, Any]] = {
        "each GPU alone": {},
        "plain": {"shard": 0},
        "ZeRO 1": {"shard": 1},
        "ZeRO 3": {"shard": 3},
        "plain, buckets of 25 MiB": {"shard": 0, "bucket_bytes": 25 << 20},
        "plain, buckets of 64 MiB": {"shard": 0, "bucket_bytes": 64 << 20},
        "plain, buckets of 1 GiB": {"shard": 0, "bucket_bytes": 1 << 30},
        "ZeRO 1, buckets of 25 MiB": {"shard": 1, "bucket_bytes": 25 << 20},
        "ZeRO 1, buckets of 1 GiB": {"shard": 1, "bucket_bytes": 1 << 30},
        "plain, not captured": {"shard": 0, "captured": False},
    }
    found: dict[str, Any] = {}
    for name, how in rows.items():
        if options.only and name not in ("each GPU alone", "plain", *options.only.split(";")):
            continue
        device.backend.free_unused()
        taken = gpt.taken_since(device) if on_gpu else int
        own = copy.deepcopy(model)  # ZeRO divides it
        start = time.perf_counter()
        step: Any = parallel_step(own, gpt, preset, **how) if how else gpt.make_step(own)
        losses = [over_ranks(float(step(*batch)), "mean") for _ in range(3)]
        begun = time.perf_counter() - start
        ms = timed(lambda step=step: step(*batch), device.synchronize, options.scale)
        if name == "each GPU alone":
            slowest = over_ranks(ms, "max")
        ms = over_ranks(ms, "min" if name == "each GPU alone" else "max")
        memory = over_ranks(taken() / 2**20, "max")
        found[name] = {"ms": ms, "mib": memory, "losses": losses}
        ideal = found["each GPU alone"]["ms"] / ms
        shown = ", ".join(f"{one:.5f}" for one in losses)
        table.row(name, ms, ideal, f"{memory:.0f}", f"{begun:.0f}", shown)
        del step, own
        gc.collect()
    table.lines("", f"The slowest GPU alone: {slowest:.2f} ms.", "")
    if world.rank == 0:
        (options.folder / "steps.json").write_text(json.dumps(found))
    plain = np.asarray(found["plain"]["losses"])
    for name in found:
        if name in ("plain", "each GPU alone"):
            continue
        apart = float(np.abs(np.asarray(found[name]["losses"]) - plain).max())
        table.lines("", f"Losses of {name} and plain: {apart:.1e} apart.")
        assert apart < 2e-2, (name, apart)
    table.lines("")


# ----- PyTorch's steps -----


def ddp(options: argparse.Namespace, gpt: Any, preset: Any) -> None:
    import torch

    world, device = distributed.world(), ck.zeros(1).device
    started(torch, options.folder)
    where = torch.device("cuda", device.index)
    batches = gpt.batches(gpt.library_text(2**24), preset)
    batch = [next(batches) for _ in range(world.rank + 1)][-1]
    codes = [torch.tensor(one.numpy().astype(np.int64), device=where) for one in batch]
    weights = {
        name: p.numpy().astype(np.float32)
        for name, p in gpt.GPT(preset).astype(preset.dtype).named_parameters()
    }
    path = options.folder / "steps.json"
    ours = json.loads(path.read_text())["plain"]["losses"] if path.exists() else None
    table = Table(
        options.folder / "table.md",
        f"PyTorch {torch.__version__}, eager, on {world.size} x {device.properties.name}",
        ["", "ms", "of ideal", "MiB of its arrays", "losses, mean over ranks"],
    )
    for masters, title in ((True, "float32 weights, autocast"), (False, "bfloat16 weights")):
        alone = 0.0
        for parallel in (False, True):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            step = torch_step(torch, gpt, preset, weights, where, masters, parallel)
            losses = [over_ranks(float(step(*codes)), "mean") for _ in range(3)]
            ms = timed(lambda step=step: step(*codes), torch.cuda.synchronize)
            ms = over_ranks(ms, "max" if parallel else "min")
            alone = ms if not parallel else alone
            name = f"{title}, {'DistributedDataParallel' if parallel else 'each GPU alone'}"
            memory = torch.cuda.max_memory_allocated() / 2**20
            table.row(name, ms, alone / ms, f"{memory:.0f}", ", ".join(f"{one:.5f}" for one in losses))
            if parallel and masters and ours:
                apart = float(np.abs(np.asarray(losses) - np.asarray(ours)).max())
                table.lines("", f"Losses of cukern's plain step: {apart:.1e} apart.", "")
                assert apart < 5e-2, apart
            del step
            gc.collect()
    torch.distributed.destroy_process_group()


def torch_step(
    torch: Any, gpt: Any, preset: Any, weights: Any, where: Any, masters: bool, parallel: bool
) -> Callable[..., Any]:
    """The step of the example, with its loss in a module, which DistributedDataParallel asks for."""
    kind = torch.float32 if masters else torch.bfloat16

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            made = {
                n.replace(".", "_"): torch.tensor(v, device=where, dtype=kind) for n, v in weights.items()
            }
            self.kept = torch.nn.ParameterDict(made)

        def forward(self, codes: Any, following: Any) -> Any:
            state = {name: self.kept[name.replace(".", "_")] for name in weights}
            with torch.autocast("cuda", torch.bfloat16, enabled=masters):
                return gpt.torch_loss(state, codes, following, preset.heads)

    net = Net()
    parameters = list(net.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
    schedule, done = gpt.learning_rate(preset), iter(range(10**9))
    called = (
        torch.nn.parallel.DistributedDataParallel(net, device_ids=[where.index], gradient_as_bucket_view=True)
        if parallel
        else net
    )

    def step(codes: Any, following: Any) -> Any:
        adam.zero_grad(set_to_none=True)
        loss = called(codes, following)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        rate = schedule(next(done))
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        return loss.detach()

    return step


def started(torch: Any, folder: Path) -> None:
    """Let torch.distributed know the ranks; they meet by a file, whose name they agree on."""
    world, device = distributed.world(), ck.zeros(1).device
    torch.cuda.set_device(device.index)
    path = folder / f"store-{over_ranks(time.time_ns() % 10**15, 'max'):.0f}"
    torch.distributed.init_process_group(
        "nccl",
        init_method=f"file://{path.absolute()}",
        rank=world.rank,
        world_size=world.size,
        device_id=torch.device("cuda", device.index),
    )


# ----- collectives -----


class Clock:
    """Microseconds of a call: of many after one that lets the ranks begin together, by events, or on the host."""

    def __init__(self, device: Any) -> None:
        self._device, self._cuda = device, getattr(device.xp, "cuda", None)

    def __call__(self, call: Callable[[], Any], calls: int, each: int) -> float:
        self._device.synchronize()
        start = time.perf_counter()
        call()
        ahead = time.perf_counter() - start
        distributed.barrier()
        if self._device.kind == "host":
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return 1e6 * (time.perf_counter() - start) / (calls * each)
        before, after = self._cuda.Event(), self._cuda.Event()
        _SPIN(int(_CYCLES_A_SECOND * min(1.5 * ahead * calls + 1e-3, 0.05)), grid=1)
        call()
        before.record()
        for _ in range(calls):
            call()
        after.record()
        after.synchronize()
        return 1e3 * float(self._cuda.get_elapsed_time(before, after)) / (calls * each)


def collectives(options: argparse.Namespace) -> None:
    world, device = distributed.world(), ck.zeros(1).device
    torch: Any = None
    table = Table(
        options.folder / "table.md",
        f"all_reduce over {world.size} x {device.properties.name}, us",
        ["", "called", "PyTorch's", "in a graph", "PyTorch's", "GB/s on the bus", "PyTorch's"],
    )
    if device.kind == "cuda" and not options.no_torch:
        import torch

        started(torch, options.folder)
    for dtype in ("float32", "bfloat16"):
        for mib in options.mib if options.scale == 1 else MIB[::3]:
            table.row(*all_reduces(mib, dtype, torch, options.scale))
            gc.collect()  # NCCL's communicators end after the graphs that use them
            device.backend.free_unused()
    x = ck.zeros(BASE)
    calls: list[Any] = [lambda: distributed.all_reduce(x, out=x)]
    if torch is not None:
        t = torch.from_dlpack(x)
        calls.append(lambda: torch.distributed.all_reduce(t))
    shown = " and ".join(f"{returned(call, device.synchronize):.0f}" for call in calls)
    table.lines("", f"A call of {x.nbytes >> 20} MiB returns after {shown} us on rank 0, cukern's first.", "")
    if torch is not None:
        table.lines(f"NCCL: {nccl.library().get_version()}, PyTorch's {torch.cuda.nccl.version()}.", "")
        torch.distributed.destroy_process_group()


def all_reduces(mib: int, dtype: str, torch: Any, scale: int) -> list[object]:
    """A row of the table."""
    world, device = distributed.world(), ck.zeros(1).device
    itemsize, clock = np.dtype(ck.dtypes.as_dtype(dtype)).itemsize, Clock(device)
    size = max(BASE, (mib << 20) // itemsize // scale)
    nbytes = size * itemsize
    sides = called_and_graphs(size, dtype, torch, world)
    calls = max(5, min(CALLS, STRETCH // nbytes))
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(3):
        for side, (reset, call, each) in zip(times, sides, strict=True):
            reset()
            side.append(clock(call, -(-calls // each), each))
    us = [over_ranks(statistics.median(side), "max") for side in times]
    us = us if torch else [us[0], math.nan, us[1], math.nan]
    bus = [2 * (world.size - 1) / world.size * nbytes / min(us[k], us[k + 2]) / 1e3 for k in (0, 1)]
    return [f"{dtype}, {nbytes / 2**20:g} MiB", *us, *bus]


def called_and_graphs(size: int, dtype: str, torch: Any, world: Any) -> list[tuple[Any, Any, int]]:
    """For our call, PyTorch's, and a graph of several of each: what sets its input, the call, and the sums in it."""
    bases = [
        ck.asarray(np.random.default_rng(k).standard_normal(BASE), dtype=dtype) for k in range(world.size)
    ]
    x = ck.tile(bases[world.rank], size // BASE)
    y = ck.copy(x)
    total = sum(one.astype("float64") for one in bases)
    largest = float(ck.max(ck.abs(total)))

    def check(made: Any) -> None:
        apart = float(ck.max(ck.abs(made.reshape(-1, BASE).astype("float32") - total.astype("float32"))))
        limit = largest * world.size * (2**-8 if dtype == "bfloat16" else 2**-23)
        assert apart <= limit, (size, dtype, apart, limit)

    def again() -> None:
        y[...] = x

    def several() -> None:
        for _ in range(IN_GRAPH):
            distributed.all_reduce(y, out=y)

    check(distributed.all_reduce(x))
    once = ck.capture(lambda: distributed.all_reduce(y, out=y)[:BASE])
    for _ in range(3):
        again()
        check(once())
    check(y)
    graph = ck.capture(several)
    for _ in range(3):
        graph()
    sides: list[tuple[Any, Any, int]] = [(again, lambda: distributed.all_reduce(y, out=y), 1)]
    if torch is None:
        return [*sides, (again, graph, IN_GRAPH)]
    t = torch.from_dlpack(x).clone()
    reset = lambda: t.copy_(torch.from_dlpack(x))  # noqa: E731
    torch.distributed.all_reduce(t)
    check(ck.from_dlpack(t))
    theirs = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.distributed.all_reduce(t)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(theirs, capture_error_mode="relaxed"):
        for _ in range(IN_GRAPH):
            torch.distributed.all_reduce(t)
    reset()
    return [
        *sides,
        (reset, lambda: torch.distributed.all_reduce(t), 1),
        (again, graph, IN_GRAPH),
        (reset, theirs.replay, IN_GRAPH),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=["steps", "collectives", "ddp"])
    parser.add_argument("--folder", type=Path, required=True, help="for the tables and the losses")
    parser.add_argument("--preset", default="124m")
    parser.add_argument("--scale", type=int, default=1, help="divides sizes, for a try without a GPU")
    parser.add_argument(
        "--only", default="", help="names of the steps to measure beside the first two, joined by semicolons"
    )
    parser.add_argument("--mib", type=int, nargs="+", default=MIB, help="sizes of what is reduced")
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    distributed.init(timeout=120)
    gpt = example()
    preset = gpt.PRESETS[options.preset]
    for part in options.parts:
        if part == "collectives":
            collectives(options)
        else:
            {"steps": steps, "ddp": ddp}[part](options, gpt, preset)


if __name__ == "__main__":
    main()
