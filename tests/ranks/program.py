"""Run by every rank of a test: each check compares with NumPy what all ranks should get. Arguments: a folder."""

from __future__ import annotations

import glob
import os
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cukern as ck
from cukern import distributed as cd

WORLD = cd.init(timeout=60)
RANK, SIZE = WORLD.rank, WORLD.size
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def given(rank: int, dtype: Any = "float64", shape: tuple[int, ...] = (SIZE * 2, 3)) -> npt.NDArray[Any]:
    """The array of a rank: small whole numbers, which every dtype sums exactly."""
    numbers = np.random.default_rng(rank).integers(0, 4, shape)
    return numbers.astype(ck.dtypes.as_dtype(dtype))


def raises(kind: type[Exception], *words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert all(word in str(caught.value) for word in words), (words, str(caught.value))


def check_every_dtype() -> None:
    for dtype in ck.dtypes.ALL:
        own, parts = ck.asarray(given(RANK, dtype)), [given(k, dtype) for k in range(SIZE)]
        together = np.concatenate(parts)
        np.testing.assert_array_equal(np.asarray(cd.all_gather(own)), together)
        np.testing.assert_array_equal(np.asarray(cd.broadcast(own, SIZE - 1)), parts[-1])
        blocks = np.concatenate([part.reshape(SIZE, 2, 3)[RANK] for part in parts])
        np.testing.assert_array_equal(np.asarray(cd.all_to_all(own)), blocks)
        if dtype == np.bool_:
            raises(TypeError, "bool", call=lambda own=own: cd.all_reduce(own))
            continue
        total = sum(part.astype("complex" if dtype.kind == "c" else "float64") for part in parts).astype(
            dtype
        )
        found = cd.all_reduce(own)
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found), total)
        np.testing.assert_array_equal(np.asarray(cd.reduce_scatter(own)), total.reshape(SIZE, 2, 3)[RANK])


def check_reductions() -> None:
    own, parts = ck.asarray(given(RANK)), np.stack([given(k) for k in range(SIZE)])
    for op in ("prod", "max", "min", "mean"):
        np.testing.assert_allclose(np.asarray(cd.all_reduce(own, op)), getattr(parts, op)(axis=0), rtol=1e-15)
    raises(ValueError, "op", "median", call=lambda: cd.all_reduce(own, "median"))
    raises(TypeError, "complex64 has no max", call=lambda: cd.all_reduce(own.astype("complex64"), "max"))


def check_out() -> None:
    """What a sum is written to: the same array, another, one of another dtype or order."""
    expected = sum(given(k) for k in range(SIZE))
    x = ck.asarray(given(RANK))
    for out in (
        ck.zeros_like(x),
        ck.zeros(x.shape, dtype="complex128"),
        ck.zeros(x.shape[::-1], dtype=x.dtype).T,
    ):
        assert cd.all_reduce(x, out=out) is out
        np.testing.assert_array_equal(np.asarray(out), expected)
    np.testing.assert_array_equal(np.asarray(cd.all_reduce(x, "mean", out=x[:])), expected / SIZE)
    np.testing.assert_array_equal(np.asarray(x), expected / SIZE)
    raises(ValueError, "shape", call=lambda: cd.all_reduce(x, out=x[0]))
    with ck.Tape() as tape:
        tape.watch(x)
        raises(ck.GradientError, "tracks", call=lambda: cd.all_reduce(x, out=x))


def check_layouts() -> None:
    """Views with any strides, arrays without elements, and arrays without axes."""
    base = ck.asarray(given(RANK, shape=(6, 2 * SIZE)))
    parts = [given(k, shape=(6, 2 * SIZE)) for k in range(SIZE)]
    np.testing.assert_array_equal(np.asarray(cd.all_reduce(base.T[::-1])), sum(parts).T[::-1])
    np.testing.assert_array_equal(
        np.asarray(cd.all_gather(base[1::2], axis=1)), np.concatenate([p[1::2] for p in parts], axis=1)
    )
    half = np.split(sum(parts), SIZE, axis=1)[RANK]
    np.testing.assert_array_equal(np.asarray(cd.reduce_scatter(base, axis=-1)), half)
    spread = cd.all_reduce(ck.broadcast_to(ck.asarray(float(RANK)), (3, 2)))
    np.testing.assert_array_equal(np.asarray(spread), np.full((3, 2), sum(range(SIZE))))
    assert cd.all_reduce(ck.asarray(2.0)).item() == 2.0 * SIZE
    assert cd.all_gather(ck.zeros((0, 3))).shape == (0, 3)
    assert cd.all_to_all(ck.zeros((0, 3))).shape == (0, 3)
    assert cd.reduce_scatter(ck.zeros((0, 3))).shape == (0, 3)
    assert cd.reduce_scatter(ck.zeros((2 * SIZE, 0))).shape == (2, 0)


def check_gradients() -> None:
    """Against finite differences of the sum of all ranks' losses, along one direction."""

    def loss(x: Any) -> Any:
        y = cd.all_reduce(x * x) * cd.all_gather(x, axis=1)[:, RANK * 2 : RANK * 2 + 2]
        z = cd.reduce_scatter(y * y, "mean")
        w = cd.all_to_all(x * x) * cd.broadcast(x, 1)
        return ck.sum(z * z) + ck.sum(w * y)

    values = np.random.default_rng(RANK).normal(size=(2 * SIZE, 2))
    way = np.random.default_rng(100 + RANK).normal(size=values.shape)
    x = ck.asarray(values)
    slope = cd.all_reduce(ck.sum(ck.grad(loss)(x) * ck.asarray(way))).item()
    step = 1e-5
    ends = [cd.all_reduce(loss(ck.asarray(values + sign * step * way))).item() for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-7)


def check_send_and_receive() -> None:
    """Ranks 0 and 1; the gradient goes back the way that the array came."""
    raises(ValueError, "this one", call=lambda: cd.send(ck.zeros(3), RANK))
    if RANK > 1:
        return
    x = ck.asarray(given(0)[::2] + 1.0)
    with ck.Tape() as tape:
        tape.watch(x)
        loss = cd.send(x * x, 1) if RANK == 0 else ck.sum(cd.recv(x, 0) * 3.0)
    found = tape.gradient(loss, x)
    if RANK == 0:
        np.testing.assert_array_equal(np.asarray(found), 6.0 * np.asarray(x))


def check_groups() -> None:
    half = cd.new_group(range(RANK // 2 * 2, RANK // 2 * 2 + 2))
    assert (half.size, half.rank, half.ranks[half.rank]) == (2, RANK % 2, RANK)
    expected = sum(given(k) for k in half.ranks)
    np.testing.assert_array_equal(np.asarray(cd.all_reduce(ck.asarray(given(RANK)), group=half)), expected)
    raises(ValueError, "which is not in", call=lambda: cd.new_group([(RANK + 1) % SIZE]))
    raises(ValueError, "different numbers below", call=lambda: cd.new_group([0, SIZE]))


def check_disagreement() -> None:
    """Every rank gets an error that names the call, the ranks and the arrays; then all go on."""
    shape = (2, 3) if RANK == 1 else (2, 2)
    words = (f"rank {RANK}: all_reduce", "do not agree", "(2, 2)", "rank 1: all_reduce", "float32 (2, 3)")
    raises(ck.DistributedError, *words, call=lambda: cd.all_reduce(ck.zeros(shape)))
    dtype = "int32" if RANK == 0 else "float32"
    raises(ck.DistributedError, "int32 (2,)", call=lambda: cd.all_gather(ck.zeros(2, dtype=dtype)))
    call = cd.barrier if RANK == 0 else lambda: cd.all_gather(ck.zeros(2))
    raises(ck.DistributedError, "barrier", "all_gather", call=call)


def check_late() -> None:
    """A rank that does not come: the others say which, and it gets the error when it comes."""
    group = cd.new_group(range(SIZE), timeout=0.3)
    cd.barrier()
    if RANK == 1:
        time.sleep(0.8)
    words = ("barrier", "not there within 0.3 s", "rank 1")
    raises(ck.DistributedError, *words, call=lambda: cd.barrier(group))
    cd.barrier()


def check_nothing_listens() -> None:
    cd.barrier()
    own = {os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.exists(path)}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            listens = fields[3] == "0A" and f"socket:[{fields[9]}]" in own
            # NCCL's ranks of one machine find each other there.
            assert not listens or (fields[1].startswith("0100007F:") and ck.zeros(1).device.kind == "cuda"), (
                line
            )


def check_sampler_and_seed() -> None:
    sampler = cd.Sampler(21, batch=2 * SIZE, seed=1)
    batches = []
    for batch in sampler:
        batches.append(batch)
        if len(batches) == 1:
            state = sampler.state
    taken = np.asarray(cd.all_gather(ck.asarray(np.concatenate(batches))))
    assert len(set(taken.tolist())) == len(taken) == 21 // (2 * SIZE) * 2 * SIZE
    again = cd.Sampler(21, batch=2 * SIZE, seed=1)
    again.state = state
    np.testing.assert_array_equal(np.concatenate(list(again)), np.concatenate(batches[1:]))
    cd.seed(5)
    drawn = cd.all_gather(ck.random.random(4)).tolist()
    assert len(set(drawn)) == 4 * SIZE


class Net(ck.nn.Module):
    """Two layers, one of which may be divided over the ranks."""

    def __init__(self, divide: bool, width: int = 7) -> None:
        first = ck.nn.Linear(5, width, rng=0)
        self.blocks = [cd.shard_module(first) if divide else first]
        self.second = ck.nn.Linear(width, 3, rng=1)

    @property
    def first(self) -> Any:
        return self.blocks[0]

    def forward(self, x: Any) -> Any:
        return self.second(ck.tanh(self.first(x)))


BATCH = np.random.default_rng(0).normal(size=(8 * SIZE, 5)).astype("float32")


def losses(net: Any, training: Any, steps: int) -> list[float]:
    """Train on this rank's part of the batch; the mean loss of each step."""
    group, made = training.group, []
    own = ck.asarray(BATCH.reshape(group.size, -1, 5)[group.rank])
    for _ in range(steps):
        with ck.Tape() as tape:
            loss = ck.mean(net(own) ** 2)
        gradients = training.gradient(tape, loss)
        made.append(cd.all_reduce(loss, "mean", group=group).item())
        scale = 1.0 / max(1.0, training.norm(gradients).item())
        training.step([one * scale for one in gradients])
    return made


def optimizer(net: Any) -> Any:
    groups = [{"params": net.first}, {"params": net.second, "weight_decay": 0.0}]
    return ck.optim.AdamW(groups, lr=0.05)


def by_kind(net: Any) -> Any:
    """Groups that each have a part of every layer."""
    layers = (net.first, net.second)
    groups = [
        {"params": [one.bias for one in layers], "weight_decay": 0.0},
        {"params": [one.weight for one in layers]},
    ]
    return ck.optim.AdamW(groups, lr=0.05, weight_decay=0.1)


def alone(steps: int, make: Callable[[Any], Any] = optimizer, width: int = 7) -> list[float]:
    """What one process gets that has the whole batch."""
    net, made = Net(False, width), []
    step = make(net)
    for _ in range(steps):
        with ck.Tape() as tape:
            loss = ck.mean(net(ck.asarray(BATCH)) ** 2)
        found = tape.gradient(loss, step.parameters)
        made.append(loss.item())
        norm = np.sqrt(sum(float(ck.sum(one * one).item()) for one in found))
        step.step([one * (1.0 / max(1.0, norm)) for one in found])
    return made


def check_training() -> None:
    """Every way to divide the work gives the losses of one process; the ranks' parameters stay equal, bit by bit."""
    expected = alone(3)
    seen: dict[tuple[int, bool], bytes] = {}
    ways = ((0, False, 64), (1, False, 64), (0, True, 1 << 20), (0, False, 64), (1, True, 1 << 20))
    for shard, divide, most in ways:
        net = Net(divide)
        training = cd.DataParallel(optimizer(net), shard=shard, bucket_bytes=most)
        np.testing.assert_allclose(losses(net, training, 3), expected, rtol=2e-5)
        weight = np.asarray(net.second.weight)
        assert seen.setdefault((shard, divide), weight.tobytes()) == weight.tobytes(), "runs differ"
        ranks = np.asarray(cd.all_gather(ck.asarray(weight[None])))
        assert all(one.tobytes() == weight.tobytes() for one in ranks), "ranks differ"
    # Of each layer's 64 elements in flat memory a rank has an equal part, and two numbers of state for each.
    state = training.optimizer._state
    assert sum(one.size for slots in state for one in slots.values()) == 2 * 2 * 64 // SIZE


def check_orders_in_memory() -> None:
    """A weight whose channels lie innermost is trained as one in C order, and keeps its order."""
    own = ck.asarray(np.random.default_rng(1).normal(size=(SIZE, 2, 8, 5)).astype("float32")[RANK])
    found = []
    for shard, plain in ((0, True), (0, False), (1, False)):
        layer = ck.nn.Conv1d(8, 4, 3, rng=0)
        if plain:
            layer.weight = ck.nn.Parameter(layer.weight.contiguous())
        training = cd.DataParallel(ck.optim.Adam(layer, lr=0.1), shard=shard)
        for _ in range(2):
            with ck.Tape() as tape:
                loss = ck.mean(layer(own) ** 2)
            training.step(training.gradient(tape, loss))
        assert layer.weight.is_contiguous is plain
        found.append(layer.weight.numpy())
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=2e-5, atol=1e-6)


def check_captured_steps() -> None:
    """A step with its collectives in a graph, for every way to divide the state; a clipped gradient is of norm 1."""
    expected = alone(4)
    own = ck.asarray(BATCH.reshape(SIZE, -1, 5)[RANK])
    for shard in (0, 1, 3):
        net = Net(False)
        training = cd.DataParallel(optimizer(net), shard=shard, model=net, bucket_bytes=64)

        def step(x: Any, net: Any = net, training: Any = training) -> Any:
            with ck.Tape() as tape:
                loss = ck.mean(net(x) ** 2)
            gradients, norm = training.clip(training.gradient(tape, loss), 1.0)
            training.step(gradients)
            return loss, norm, training.norm(gradients)

        captured = ck.capture(step)
        found = [captured(own) for _ in range(4)]
        means = [cd.all_reduce(loss, "mean").item() for loss, _, _ in found]
        np.testing.assert_allclose(means, expected, rtol=2e-5)
        for _, norm, clipped in found:
            np.testing.assert_allclose(clipped.item(), min(norm.item(), 1.0), rtol=1e-6)
        assert captured.graphs == (own.device.kind == "cuda")
        raises(ValueError, "max_norm", call=lambda training=training: training.clip([], 0.0))
        STEPS.append(captured)


def check_clipping() -> None:
    """The norm is that of the gradients that are given, changed or not, also where it is known before they are."""
    own = ck.asarray(BATCH.reshape(SIZE, -1, 5)[RANK])
    for shard in (0, 1):
        net = Net(False)
        training = cd.DataParallel(optimizer(net), shard=shard, bucket_bytes=64)
        for change in (False, False, True):
            with ck.Tape() as tape:
                loss = ck.mean(net(own) ** 2)
            found = training.gradient(tape, loss)
            if change:
                found[0][...] = 2.0
            expected = training.norm(found).item()
            clipped, norm = training.clip(found, 0.5 * expected)
            np.testing.assert_allclose(norm.item(), expected, rtol=1e-6)
            scaled = [np.asarray(one) * 0.5 for one in found]
            for one, wanted in zip(clipped, scaled, strict=True):
                np.testing.assert_allclose(np.asarray(one), wanted, rtol=1e-5)


#: Captured steps that live until the program ends, when the ranks give back what carries their arrays.
STEPS: list[Any] = []


def check_zero_stages() -> None:
    """Stages 0, 1 and 3 give equal losses, on two ranks and on four; each leaves less on a rank than the one before."""
    expected = alone(3, by_kind, 64)
    pair = cd.new_group(range(RANK // 2 * 2, RANK // 2 * 2 + 2))
    for group in (pair, WORLD):
        kept = {}
        for stage in (0, 1, 3):
            net = Net(False, 64)
            training = cd.DataParallel(by_kind(net), group, shard=stage, model=net)
            np.testing.assert_allclose(losses(net, training, 3), expected, rtol=2e-5)
            state = sum(one.size for slots in training.optimizer._state for one in slots.values())
            kept[stage] = (sum(one.size for one in net.parameters()), state)
        if RANK == 0:
            print(f"{group.size} ranks, elements of parameters and of state on each, by stage: {kept}")

        def share(*sizes: int, ranks: int = group.size) -> int:
            """Of arrays that begin at multiples of 16 elements and are divided together."""
            return -(-sum(-(-size // 16) * 16 for size in sizes) // (16 * ranks)) * 16

        first, second = (5 * 64, 64), (64 * 3, 3)
        whole = sum(first + second)
        assert kept[0] == (whole, 2 * whole)
        assert kept[1] == (whole, 2 * (share(first[0], second[0]) + share(first[1], second[1])))
        blocks = share(first[0]) + share(first[1])
        assert kept[3] == (blocks + sum(second), 2 * (blocks + share(second[0]) + share(second[1])))
    net = Net(False)
    with pytest.raises(TypeError, match="model: shard=3 expects a Module, got NoneType"):
        cd.DataParallel(by_kind(net), shard=3)
    with pytest.raises(ValueError, match="model: it lacks the optimizer's parameter '0'"):
        cd.DataParallel(by_kind(net), shard=3, model=Net(False))
    with pytest.raises(ValueError, match="expected modules in lists"):
        cd.DataParallel(ck.optim.SGD(net.second, lr=0.1), shard=3, model=net.second)
    assert type(net.first) is ck.nn.Linear and net.first.weight.size == 35  # nothing was divided
    net.again = net.first
    cd.DataParallel(by_kind(net), shard=3, model=net)
    assert net.again is net.first and type(net.first) is cd.ShardedModule
    tied = Net(False)
    tied.second.weight = tied.first.weight
    raises(ValueError, "lists", call=lambda: cd.DataParallel(ck.optim.SGD(tied, lr=0.1), shard=3, model=tied))
    stepped = ck.optim.SGD(net.second, lr=0.1)
    stepped.step([one * 0.0 for one in net.second.parameters()])
    raises(ck.DistributedError, "one of 1", call=lambda: cd.DataParallel(stepped, shard=1))


class Words(ck.nn.Module):
    """A small language model, whole or divided over a group; ``sequence``: with a part of the positions a rank."""

    def __init__(self, group: Any = None, sequence: bool = False) -> None:
        parts = [
            ck.nn.Embedding(8, 8, rng=0),
            ck.nn.MultiHeadAttention(8, 4, rng=1),
            ck.nn.Linear(8, 16, rng=2, activation=ck.nn.relu),
            ck.nn.Linear(16, 8, rng=3),
            ck.nn.Linear(8, 8, rng=4),
        ]
        norm: Any = ck.nn.LayerNorm(8)
        if group is not None:
            kinds = [
                cd.ParallelEmbedding,
                cd.ParallelAttention,
                cd.ColumnLinear,
                cd.RowLinear,
                cd.ColumnLinear,
            ]
            last: list[dict[str, bool]] = [{}, {}, {}, {}, {"join": True}]
            parts = [
                kind(part, group, sequence=sequence, **more)
                for kind, part, more in zip(kinds, parts, last, strict=True)
            ]
            norm = cd.SequenceParallel(norm, group) if sequence else norm
        self.words, self.attention, self.wide, self.narrow, self.logits = parts
        self.norm = norm

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        x = x + self.attention(self.norm(x), is_causal=True)
        return self.logits(x + self.narrow(self.wide(x)))


def check_tensor_parallel() -> None:
    """Over (data, tensor) = (2, 2) or (1, 2): the losses of one process, and its gradients of what is not divided."""
    mesh = cd.Mesh(data=SIZE // 2, tensor=2)
    assert mesh.coordinates == {"data": RANK // 2, "tensor": RANK % 2}
    raises(ValueError, "product", call=lambda: cd.Mesh(data=SIZE + 1))
    raises(ValueError, "one of 'data', 'tensor'", call=lambda: mesh.group("model"))
    for sequence in (False, True):
        tensor_parallel(mesh, sequence)


def tensor_parallel(mesh: Any, sequence: bool) -> None:
    tokens = np.random.default_rng(1).integers(0, 8, (4, 7))
    own = ck.asarray(tokens.reshape(SIZE // 2, -1, 7)[mesh.coordinates["data"]])
    whole, divided = Words(), Words(mesh.group("tensor"), sequence)
    alone = ck.optim.SGD(whole, lr=0.5)
    training = cd.DataParallel(ck.optim.SGD(divided, lr=0.5), mesh.group("data"))
    for step in range(2):
        with ck.Tape() as tape:
            expected = ck.nn.cross_entropy(whole(ck.asarray(tokens[:, :-1])), ck.asarray(tokens[:, 1:]))
        alone.step(tape.gradient(expected, whole))
        with ck.Tape() as tape:
            loss = ck.nn.cross_entropy(divided(own[:, :-1]), own[:, 1:])
        training.step(training.gradient(tape, loss))
        mean = cd.all_reduce(loss, "mean", group=mesh.group("data")).item()
        np.testing.assert_allclose(mean, expected.item(), rtol=1e-5 * 4**step)
    norm = divided.norm.module if sequence else divided.norm
    joined = cd.all_gather(divided.words.weight, group=mesh.group("tensor"))
    for found, one in (
        (divided.narrow.bias, whole.narrow.bias),
        (norm.weight, whole.norm.weight),
        (joined, whole.words.weight),
    ):
        np.testing.assert_allclose(np.asarray(found), np.asarray(one), rtol=1e-3, atol=1e-6)
    if sequence:
        wrong_positions(divided, mesh.group("tensor"))


def wrong_positions(model: Any, group: Any) -> None:
    """Every rank gets an error that names the layer and the shape, and goes on."""
    raises(ValueError, "positions", "(1, 3, 8)", call=lambda: model.norm.part(ck.ones((1, 3, 8))))
    words = ("RowLinear", "(1, 3, 8)", "not divisible by the 2 ranks")
    raises(ValueError, *words, call=lambda: model.narrow(ck.ones((1, 3, 8))))
    raises(ValueError, "ParallelEmbedding", call=lambda: model.words(ck.zeros((2, 3), dtype="int32")))
    raises(ValueError, "ColumnLinear", "got shape (8,)", call=lambda: model.wide(ck.ones(8)))
    raises(ValueError, "ParallelEmbedding", "(8,)", call=lambda: model.words(ck.asarray(1)))
    layer = ck.nn.Linear(4, 4, rng=0)
    raises(TypeError, "expected a Group, got Mesh", call=lambda: cd.RowLinear(layer, cd.Mesh(data=SIZE)))
    raises(TypeError, "expected a Linear", call=lambda: cd.ColumnLinear(ck.nn.LayerNorm(4), group))
    raises(TypeError, "module: expected a Module", call=lambda: cd.SequenceParallel(ck.tanh, group))
    raises(
        IndexError,
        "axis",
        call=lambda: cd.SequenceParallel(ck.nn.RMSNorm(4), group).part(ck.zeros((4, 4)), 2),
    )
    divided = cd.shard_module(ck.nn.Linear(3, 2, rng=0))
    raises(
        AttributeError,
        "weight: the parameters of this Linear are divided over ranks",
        call=lambda: divided.weight,
    )
    raises(AttributeError, "wight", call=lambda: divided.wight)
    dropped = cd.SequenceParallel(ck.nn.Dropout(0.5, rng=RANK), group)(ck.ones((64, 1)))
    drawn = np.asarray(cd.all_gather(dropped, axis=1, group=group))
    assert (drawn[:, 0] != drawn[:, 1]).any()
    frozen = cd.RowLinear(layer.freeze(), group)
    assert not frozen.weight.trainable and not frozen.bias.trainable


def check_shard_module() -> None:
    """Modes and frozen parameters of a divided module are those of the module; buffers are refused."""
    block = ck.nn.Sequential(ck.nn.Linear(4, 4, rng=0), ck.nn.Dropout(0.5, rng=0))
    weight, bias = (one.numpy() for one in block.layers[0].parameters())
    block.layers[0].bias.trainable = False
    divided = cd.shard_module(block)
    assert [one.trainable for one in divided.shards] == [True, False]
    x = ck.ones((8, 4))
    assert (np.asarray(divided(x)) == 0.0).any()
    np.testing.assert_allclose(np.asarray(divided.eval()(x)), np.ones((8, 4)) @ weight.T + bias, rtol=1e-6)
    assert (np.asarray(divided.train()(x)) == 0.0).any()
    raises(ValueError, "buffer", call=lambda: cd.shard_module(ck.nn.BatchNorm(3)))


def check_gradients_of_divided_modules() -> None:
    """Of any order, of a module that is called twice, checkpointed or not; the parameters are not kept for them."""
    x = ck.asarray(given(RANK, "float64", (4, 3)) * 0.1)

    def slopes(blocks: Any, shards: Any) -> Any:
        with ck.Tape() as outer:
            outer.watch(x)
            with ck.Tape(persistent=True) as inner:
                inner.watch(x)
                y = ck.tanh(blocks[1](ck.tanh(blocks[0](blocks[0](x)))))
                loss = cd.all_reduce(ck.sum(y * y))
            first = inner.gradient(loss, [x, *shards])
            again = inner.gradient(loss, [x, *shards])
            slope = ck.sum(first[0] ** 2)
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        return first, outer.gradient(slope, x)

    whole = [ck.nn.Linear(3, 3, rng=k).astype("float64") for k in (0, 1)]
    blocks = [cd.shard_module(ck.nn.Linear(3, 3, rng=k).astype("float64")) for k in (0, 1)]
    expected, second = slopes(whole, [one.weight for one in whole])
    weight = np.asarray(cd.all_reduce(expected[1])).reshape(-1)
    for called in (blocks, [ck.checkpoint(one) for one in blocks]):
        found, slope = slopes(called, [one.shards[0] for one in blocks])
        np.testing.assert_allclose(np.asarray(found[0]), np.asarray(expected[0]), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(slope), np.asarray(second), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(cd.all_gather(found[1]))[:9], weight, rtol=1e-11)
    kept: list[weakref.ref[Any]] = []
    gather = cd.ShardedModule._whole

    def noted(self: Any) -> Any:
        values = gather(self)
        kept.extend(
            weakref.ref(one._data.base if one._data.base is not None else one._data) for one in values
        )
        return values

    with pytest.MonkeyPatch.context() as patch, ck.Tape() as tape:
        patch.setattr(cd.ShardedModule, "_whole", noted)
        loss = ck.sum(blocks[1](blocks[0](x)) ** 2)
    assert len(kept) == 4 and all(one() is None for one in kept)
    blocks[1].shards[0][...] = 0.0  # of which the gradient of what comes before is computed
    raises(ck.GradientError, "was written by", call=lambda: tape.gradient(loss, blocks[0].shards))


def check_sums_in_bfloat16() -> None:
    net = Net(False)
    training = cd.DataParallel(ck.optim.SGD(net, lr=0.1), sums="bfloat16")
    with ck.Tape() as tape:
        loss = ck.mean(net(ck.asarray(BATCH.reshape(SIZE, 8, 5)[RANK])) ** 2)
    found = training.gradient(tape, loss)
    assert {one.dtype for one in found} == {ck.dtypes.bfloat16}
    training.step(found)
    raises(ValueError, "shard", call=lambda: cd.DataParallel(ck.optim.SGD(net, lr=0.1), shard=2))


def check_different_models() -> None:
    net = ck.nn.Linear(3, 2 + (RANK == 0), rng=0)
    raises(ck.DistributedError, "do not agree", call=lambda: cd.DataParallel(ck.optim.SGD(net, lr=0.1)))


def check_checkpoint() -> None:
    """A saved run goes on as it would have; what is loaded may be divided otherwise than what was saved."""
    for shard, later, divide in ((1, 3, False), (0, 1, True), (3, 0, False)):
        where = FOLDER / f"saved-{shard}"
        net = Net(divide)
        training = cd.DataParallel(optimizer(net), shard=shard, model=net)
        losses(net, training, 2)
        state = {f"model.{name}": one for name, one in cd.model_state(net).items()}
        state |= {f"optimizer.{name}": one for name, one in training.state_dict().items()}
        cd.save_checkpoint(where, 2, state, texts={"seen": 16}, keep=1)
        expected = losses(net, training, 2)
        saved = cd.load_checkpoint(where)
        assert (saved.step, saved.texts) == (2, {"seen": 16})
        other = Net(divide)
        again = cd.DataParallel(optimizer(other), shard=later, model=other)
        cd.load_model_state(other, saved.under("model"))
        again.load_state_dict(saved.under("optimizer"))
        np.testing.assert_allclose(losses(other, again, 2), expected, rtol=2e-6)
        raises(FileExistsError, "is there already", call=lambda: cd.save_checkpoint(where, 2, state))  # noqa: B023
    cd.save_checkpoint(where, 3, state, keep=1)
    assert cd.last_checkpoint(where) == where / "step-000000003"
    assert len(list(where.iterdir())) == 1
    cd.barrier()  # all have looked
    cd.save_checkpoint(where, 1, state, keep=1)  # a run that went back to an earlier step
    assert (where / "step-000000001").exists()
    small = {"only on the first": ck.ones(1)} if RANK == 0 else {}
    small["next"] = ck.ones(1)
    pair = cd.new_group(np.arange(SIZE)[RANK // 2 * 2 : RANK // 2 * 2 + 2])
    if RANK < 2:
        raises(ValueError, "'next': no rank", call=lambda: cd.save_checkpoint(where, 4, small, group=pair))


if __name__ == "__main__":
    for name, check in [item for item in globals().items() if item[0].startswith("check_")]:
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            begin = time.perf_counter()
            check()
            print(f"passed {name} {time.perf_counter() - begin:.2f}")
