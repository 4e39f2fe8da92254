"""Batch, group and root-mean-square normalization against NumPy; running statistics; derivatives."""

from __future__ import annotations

import gc
import math
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from nn_support import Sized, check_equal, close, gpu_limits, random, sized, with_gradients

import cukern as ck
from cukern import nn
from cukern.cli.tune import measure
from cukern.device.cuda.architectures import properties
from cukern.kernel import Kernel
from cukern.nn.channel_norm import problem as problems
from cukern.nn.channel_norm import sharing, variants
from cukern.nn.channel_norm.clusters import Clusters, Sizes
from cukern.nn.channel_norm.function import CHANNEL_NORM, GRADIENT
from cukern.nn.channel_norm.problem import Places
from cukern.nn.channel_norm.sharing import Share
from cukern.nn.layer_norm.families import LAYER_NORM
from cukern.testing import gradcheck

X = np.random.default_rng(0).normal(2, 3, size=(3, 4, 2, 2))
WEIGHT, BIAS = np.array([0.5, 2.0, -1.0, 1.0]), np.array([1.0, 0.0, 3.0, -2.0])


def normalized(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    result: np.ndarray = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return result


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (3, 4, 2, 2)], ids=str)
def test_batch_norm(device: ck.Device, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(2, 3, size=shape)
    beside = (-1, *(1,) * (len(shape) - 2))
    axes = (0, *range(2, len(shape)))
    for dtype in ("float32", "float64"):
        layer = nn.BatchNorm(4, dtype=dtype)
        layer.load_state_dict({**layer.state_dict(), "weight": WEIGHT, "bias": BIAS})
        expected = sized(lambda x: normalized(x, axes) * WEIGHT.reshape(beside) + BIAS.reshape(beside), x)
        close(layer(ck.asarray(x, dtype)), expected)
        running = 0.1 * x.mean(axes), 0.9 + 0.1 * x.var(axes, ddof=1)
        close(layer.running_mean, running[0], 8)
        close(layer.running_var, running[1], 8)
        mean, variance = (one.reshape(beside) for one in running)
        scale = WEIGHT.reshape(beside) / np.sqrt(variance + 1e-5)
        expected = sized(lambda x, m, s=scale: (x - m) * s + BIAS.reshape(beside), x, mean)
        close(layer.eval()(ck.asarray(x, dtype)), expected)
        assert layer.num_batches_tracked is not None and layer.num_batches_tracked.item() == 1


def test_channels_last(device: ck.Device) -> None:
    """Results and gradients are those of channels first, also of a view whose channels come last in memory."""
    x, dy = random(0, (3, 4, 2, 5), "float32"), random(1, (3, 4, 2, 5), "float32")
    weight, bias = (ck.asarray(one, "float32") for one in (WEIGHT, BIAS))
    mean, variance = bias, abs(weight)
    for function in (
        lambda x, w, b, axis: nn.batch_norm(x, None, None, w, b, True, channel_axis=axis),
        lambda x, w, b, axis: nn.batch_norm(x, mean, variance, w, b, channel_axis=axis),
        lambda x, w, b, axis: nn.group_norm(x, 2, w, b, channel_axis=axis),
    ):
        last, pull_last = ck.vjp(
            lambda *own, of=function: of(*own, -1), ck.moveaxis(x, 1, -1).copy(), weight, bias
        )
        view = ck.moveaxis(ck.moveaxis(x, 1, -1).copy(), -1, 1)
        first, pull = ck.vjp(lambda *own, of=function: of(*own, 1), view, weight, bias)
        close(ck.moveaxis(last, -1, 1), first.numpy(), 8)
        for one, other in zip(pull_last(ck.moveaxis(dy, 1, -1)), pull(dy), strict=True):
            close(ck.moveaxis(one, -1, 1) if one.ndim == 4 else one, other.numpy(), 32)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.thorough)])
def test_gradients_of_long_channels(device: ck.Device, dtype: str) -> None:
    """Against compositions in float64, with parameters of another dtype; the same in every run."""
    x, dy = random(0, (5, 6, 700), dtype), random(1, (5, 6, 700), dtype)
    weight, bias = random(2, (6,), "float32"), random(3, (6,), "float32")

    def batch(x: Any, w: Any, b: Any) -> Any:
        return nn.batch_norm(x, None, None, w, b, True)

    def group(x: Any, w: Any, b: Any) -> Any:
        return nn.group_norm(x, 3, w, b)

    def composed(x: Any, w: Any, b: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        x = x.reshape(shape)
        apart = x - ck.mean(x, axis=axes, keepdims=True)
        y = apart / ck.sqrt(ck.mean(apart * apart, axis=axes, keepdims=True) + 1e-5)
        return y.reshape(5, 6, 700) * w[:, None] + b[:, None]

    for function, shape, axes in ((batch, (5, 6, 700), (0, 2)), (group, (5, 3, 2, 700), (2, 3))):
        y, pull = ck.vjp(function, x, weight, bias)
        assert y.dtype == ck.float32
        found = (y, *pull(dy.astype("float32")))
        exact = with_gradients(lambda *own, s=shape, a=axes: composed(*own, s, a), 3)
        for one, want, of in zip(found, sized(exact, x, weight, bias, dy), (y, x, weight, bias), strict=True):
            assert one.dtype == of.dtype
            close(one, want)
        again = (y, *pull(dy.astype("float32")))
        assert all(one.tolist() == other.tolist() for one, other in zip(found, again, strict=True))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.thorough)])
def test_groups_that_registers_hold(device: ck.Device, dtype: str) -> None:
    """The kernel of rows, as on a GPU: packs within a channel and across channels."""
    for sizes in ((8, 8), (7, 8)):
        x, weight, bias = random(0, (2, 6, *sizes), dtype) + 3, random(1, (6,), dtype), random(2, (6,), dtype)

        def group(*own: ck.Array) -> ck.Array:
            return nn.group_norm(own[0], 3, *own[1:])

        def composed(x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
            groups = x.reshape(2, 3, -1)
            apart = groups - ck.mean(groups, axis=2, keepdims=True)
            y = apart / ck.sqrt(ck.mean(apart * apart, axis=2, keepdims=True) + 1e-5)
            return y.reshape(x.shape) * w[:, None, None] + b[:, None, None]

        limits = gpu_limits(device)
        with LAYER_NORM.only("registers", limits=limits) as used, CHANNEL_NORM.only("rows"):
            check_equal(group, composed, [x, weight, bias])
            assert group(x, weight, bias).tolist() == ck.vjp(group, x, weight, bias)[0].tolist()
        assert [problem.groups for problem in used.problems] == [3]


def exact_norms(x: ck.Array, dy: ck.Array, axis: int, groups: int = 4) -> list[Sized]:
    """The same of float64, by one thread a channel."""
    found: list[Sized] = sized(lambda *own: found_of_norms(*map(ck.asarray, own), axis, groups), x, dy)
    return found


def found_of_norms(x: ck.Array, dy: ck.Array, axis: int, groups: int = 4) -> list[ck.Array]:
    """Running statistics, and results and gradients of batch and group norm."""
    channels = x.shape[axis]
    weight, bias = random(2, (channels,), "float32"), random(3, (channels,), "float32")
    running = ck.zeros(channels), ck.ones(channels)
    made = list(running)
    for function in (
        lambda *own: nn.batch_norm(own[0], *running, *own[1:], True, channel_axis=axis),
        lambda *own: nn.group_norm(own[0], groups, *own[1:], channel_axis=axis),
    ):
        y, pull = ck.vjp(function, x, weight, bias)
        made += [y, *pull(dy)]
    return made


@contextmanager
def only(name: str, **fields: Any) -> Iterator[None]:
    """Results and gradients by one variant with these constants, which batch norm and group norm both use."""
    with CHANNEL_NORM.only(name, **fields) as forward, GRADIENT.only(name, **fields) as backward:
        yield
    assert len(forward) == len(backward) == 2
    for used in (*forward, *backward):
        assert {key: getattr(used, key) for key in fields} == fields


@pytest.mark.parametrize(
    "last", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["first", "last"]
)
def test_blocks_of_many_threads(device: ck.Device, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, parts and packs as on a GPU, with threads beyond the last channel, give what one thread gives."""
    shape, axis = ((3, 9, 40, 24), -1) if last else ((3, 24, 9, 40), 1)
    x, dy = random(0, shape, "float32") + 3, random(1, shape, "float32")
    wanted = exact_norms(x, dy, axis)
    share = Share(32, 4 if last else 1, 8 if last else 4, 2, last)
    monkeypatch.setattr(sharing, "_HOST_PART", 1000)
    with only("separate launches", sums=share, results=share, joining=4 if last else 64, joined=2):
        made = found_of_norms(x, dy, axis)
    for one, other in zip(made, wanted, strict=True):
        close(one, other)


@pytest.mark.parametrize(
    "last", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["last", "first"]
)
@pytest.mark.parametrize("cluster", [2, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
def test_clusters_that_have_whole_channels(device: ck.Device, last: bool, cluster: int, kept: bool) -> None:
    """Statistics and results in one launch, with threads beyond the last channel, are those of one launch each."""
    shape, axis = ((2, 9, 15, 24), -1) if last else ((2, 24, 19, 28), 1)
    x, dy = random(0, shape, "float32") + 1000, random(1, shape, "float32")
    wanted = exact_norms(x, dy, axis, 6)
    # Packs of a thread, of the longest sequence, that of the batch.
    packs = (17, 9)[cluster - 1] if last else (3, 2)[cluster - 1]
    share = Share(64 if last else 96, 4 if last else 1, 4, 2, last)
    fields = {"cluster": cluster, "wide": False, "kept": 0, "turns": 1, "asked": 0}
    if kept:
        fields |= {"kept": packs, "turns": 2, "asked": packs // 2}
    with only("clusters", share=share, **fields):
        made = found_of_norms(x, dy, axis, 6)
    for one, other in zip(made, wanted, strict=True):
        close(one, other)


def test_evaluation_casts_no_statistics(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in their own dtype, by the one kernel."""
    own = [random(i, (4,), "bfloat16") for i in range(4)]
    x, made = random(4, (2, 4, 3), "bfloat16"), []
    wanted = nn.batch_norm(x, own[0], abs(own[1]), *own[2:])
    monkeypatch.setattr(problems.ops, "astype", lambda *args, **options: made.append(args))
    assert nn.batch_norm(x, own[0], abs(own[1]), *own[2:]).tolist() == wanted.tolist()
    assert not made


@pytest.mark.parametrize(
    ("dtype", "turns"), [("float32", 2), pytest.param("bfloat16", 1, marks=pytest.mark.thorough)]
)
def test_grids_that_keep_rows(device: ck.Device, dtype: str, turns: int) -> None:
    """Blocks that join their sums through global memory give what one launch each gives, and the same every time."""
    x, dy = (
        random(0, (2, 9, 15, 32), dtype) + (3 if dtype == "bfloat16" else 1000),
        random(1, (2, 9, 15, 32), "float32"),
    )
    wanted = exact_norms(x, dy, -1, 8)

    fields = {"cluster": 3, "turns": turns, "wide": True, "kept": 6, "asked": 3 if turns > 1 else 0}
    with only("clusters", share=Share(64, 4, 4, 2, True), **fields):
        made = found_of_norms(x, dy, -1, 8)
        again = found_of_norms(x, dy, -1, 8)
    for one, other in zip(made, wanted, strict=True):
        close(one, other)
    assert all(one.tolist() == other.tolist() for one, other in zip(made, again, strict=True))


@pytest.mark.parametrize(
    ("shape", "item", "bytes_read", "acc", "expected"),
    [
        ((100352, 64), 2, 2, 4, (132, 1, True)),
        ((100352, 64), 4, 8, 4, (132, 2, True)),
        ((50176, 512), 2, 4, 4, (66, 4, True)),
        ((12544, 1024), 2, 2, 4, (8, 1, True)),
        ((200704, 256), 4, 4, 4, (132, 8, True)),
        ((200704, 256), 2, 2, 4, None),
        ((1568, 512), 2, 2, 4, None),
        ((100352, 60), 4, 4, 4, None),
        ((228000, 64), 2, 2, 4, (132, 1, True)),
        ((228000, 64), 2, 2, 8, None),
    ],
    ids=str,
)
def test_blocks_keep_rows_that_fit_in_shared_memory(
    shape: tuple[int, int], item: int, bytes_read: int, acc: int, expected: Any
) -> None:
    """Blocks that share channels, units, and whether through global memory, on a GPU of 132 multiprocessors."""
    limits = properties("sm_90")
    places = Places(1, *shape, 1, 1)
    form = Clusters.kept_rows(places, limits, Sizes(item, bytes_read, acc))
    if form is not None:
        # For each warp and the block two, and what is made of them.
        sums = (2 * form.share.block // 32 + 10) * form.here * acc
        assert form.memory(bytes_read) + sums < limits.max_shared_memory_per_block
        assert form.kept * form.share.step * form.cluster >= shape[0]
        assert form.turns * (limits.multiprocessors // form.cluster) * form.here >= shape[1]
        assert bool(form.asked) is (form.turns > 1)
    assert (form and (form.cluster, form.turns, form.wide)) == expected


def test_a_long_channel_has_no_more_parts_than_a_grid() -> None:
    """Of one channel each block would have a few packs."""
    limits = properties("sm_90")
    places, share = Places(1, 2**18, 1, 2**10, 1), Share(128, 1, 4, 4, False, 8)
    cut = sharing.cut(places, share, limits, variants._APPLYING[False], share.unroll)
    assert 50_000 < cut.parts <= limits.max_grid[1]


@pytest.mark.parametrize(
    ("batch", "channels", "inner", "bytes_read", "expected"),
    [
        (64, 256, 3136, 4, (8, 256, 25, 2)),
        (64, 256, 3136, 8, (8, 256, 25, 2)),
        (32, 64, 3136, 4, (2, 512, 25, 1)),
        (32, 64, 3136, 8, None),
        (64, 1024, 196, 4, (1, 256, 13, 2)),
        (64, 512, 784, 8, (2, 256, 25, 8)),
        (128, 64, 12544, 4, None),
        (4, 8, 100, 4, None),
    ],
    ids=str,
)
def test_clusters_keep_what_fits_in_shared_memory(
    batch: int, channels: int, inner: int, bytes_read: int, expected: Any
) -> None:
    """Blocks of a cluster, threads, packs of a thread and units: float32 on a GPU of 132 multiprocessors."""
    limits = properties("sm_90")
    places = Places(1, batch, channels, inner, 1)
    form = Clusters.kept_channels(places, limits, Sizes(4, bytes_read, 4))
    if form is not None:
        assert form.memory(bytes_read) * form.share.resident < limits.max_shared_memory_per_block
        assert form.kept * form.share.step * form.cluster >= batch * inner
    assert (form and (form.cluster, form.share.block, form.kept, form.turns)) == expected


def test_sums_of_a_group_fit_beside_what_is_kept() -> None:
    """28 channels of 288 elements of 16 bytes leave 3 KiB for 18 numbers each."""
    places, limits = Places(64, 1, 252, 288, 28), properties("sm_90")
    form = Clusters(Share(128, 1, 2, 4, False, 4), 1, 28).keeping(places)
    assert limits.max_shared_memory_per_block - form.memory(16) == 3 << 10
    fitting = form.fitting(limits, Sizes(8, 16, 4))
    assert fitting is not None and fitting.share.resident == 1
    assert form.fitting(limits, Sizes(8, 16, 8)) is None


def test_gradients_of_parameters_of_two_dtypes(device: ck.Device) -> None:
    """Each is rounded to the dtype of its own parameter alone: this sum is beyond what float16 has."""
    x, weight, bias = random(0, (1000, 2), "float16"), ck.ones(2, "float16"), ck.zeros(2, "float32")
    _, pull = ck.vjp(lambda *own: nn.batch_norm(x, None, None, *own, True), weight, bias)
    dweight, dbias = pull(ck.full((1000, 2), 100.0, dtype="float32"))
    assert dweight.dtype == ck.float16 and dbias.tolist() == [1e5, 1e5]


def test_gradients_of_one_parameter(device: ck.Device) -> None:
    """Of several instances; in checked launches they show that nothing of the other's is read."""
    x, one, dy = random(0, (3, 4, 5), "float32"), random(1, (4,), "float32"), random(2, (3, 4, 5), "float32")
    _, both = ck.vjp(lambda weight, bias: nn.group_norm(x, 2, weight, bias), one, one)
    for given, expected in zip(((one, None), (None, one)), both(dy), strict=True):
        _, pull = ck.vjp(
            lambda own, given=given: nn.group_norm(x, 2, *(None if part is None else own for part in given)),
            one,
        )
        close(pull(dy)[0], expected.numpy(), 4)


def test_running_statistics(device: ck.Device) -> None:
    """Under a tape too, without a gradient; None is the mean of all batches; they are saved, and not trained."""
    layer = nn.BatchNorm(4, momentum=None, dtype="float64")
    assert len(layer.parameters()) == 2 and len(layer.state_dict()) == 5
    batches = [X, X + 2, X * 3]
    for batch in batches:
        with ck.Tape() as tape:
            loss = (layer(ck.asarray(batch)) ** 2).sum()
        assert tape.gradient(loss, layer.weight).shape == (4,)
    close(layer.running_mean, np.mean([b.mean((0, 2, 3)) for b in batches], 0), 8)
    assert layer.num_batches_tracked is not None and layer.num_batches_tracked.item() == 3
    plain = nn.BatchNorm(4, affine=False, track_running_stats=False, dtype="float64")
    assert not plain.state_dict()
    close(plain.eval()(ck.asarray(X)), sized(lambda x: normalized(x, (0, 2, 3)), X))


def test_rules_that_calls_share_hold_no_running_statistics(device: ck.Device) -> None:
    x, moments = ck.asarray(np.arange(12.0).reshape(3, 4)), [ck.zeros(4, "float64"), ck.ones(4, "float64")]
    held = [weakref.ref(one) for one in moments]
    with ck.Tape() as tape:
        tape.watch(x)
        for _ in range(2):
            ck.nn.batch_norm(x, *moments, training=True)
    first, second = (operation for operation, *_ in tape._records)
    assert first is second
    del tape, moments
    gc.collect()
    assert [one() for one in held] == [None, None]


def test_running_statistics_of_two_dtypes(device: ck.Device) -> None:
    mean, variance = ck.zeros(4, "float64"), ck.ones(4, "float32")
    nn.batch_norm(ck.asarray(X), mean, variance, training=True)
    close(mean, 0.1 * X.mean((0, 2, 3)), 8)
    close(variance, 0.9 + 0.1 * X.var((0, 2, 3), ddof=1), 8)


def test_running_statistics_that_a_tape_tracks(device: ck.Device) -> None:
    """They move, and as what they were before makes no difference to the result, their gradients are zeros."""
    own = ck.zeros(4, "float64"), ck.ones(4, "float64"), ck.asarray(0.1, dtype="float64")

    def of_all(x: ck.Array, mean: ck.Array, variance: ck.Array, momentum: ck.Array) -> ck.Array:
        return (nn.batch_norm(x, mean, variance, training=True, momentum=momentum) ** 3).sum()

    found = ck.grad(of_all, argnums=(0, 1, 2, 3))(ck.asarray(X), *own)
    assert abs(found[0]).max() > 0 and not any(one.any() for one in found[1:])
    close(own[0], 0.1 * X.mean((0, 2, 3)), 8)
    close(own[1], 0.9 + 0.1 * X.var((0, 2, 3), ddof=1), 8)


def test_running_statistics_of_a_captured_step(device: ck.Device) -> None:
    layer, again = (nn.BatchNorm(4, momentum=None, dtype="float64") for _ in range(2))
    captured = ck.capture(lambda x: layer(x))
    for i in range(4):
        x = ck.asarray(X + i)
        assert captured(x).tolist() == again(x).tolist()
    for one, other in zip(layer.state_dict().values(), again.state_dict().values(), strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2, 2)], ids=str)
def test_group_norm(device: ck.Device, shape: tuple[int, ...]) -> None:
    x = X if len(shape) == 4 else X[..., 0, 0].copy()
    beside = (-1, *(1,) * (len(shape) - 2))
    for dtype in ("float32", "float64"):
        layer = nn.GroupNorm(2, 4, dtype=dtype)
        layer.load_state_dict({"weight": WEIGHT, "bias": BIAS})

        def exact(x: np.ndarray) -> np.ndarray:
            parts = normalized(x.reshape(3, 2, -1), (2,)).reshape(shape)
            return parts * WEIGHT.reshape(beside) + BIAS.reshape(beside)

        close(layer(ck.asarray(x, dtype)), sized(exact, x))
    assert nn.group_norm(ck.zeros((0, 4)), 2).shape == (0, 4)


def test_rms_norm(device: ck.Device) -> None:
    def expected(x: Any, axes: tuple[int, ...], eps: float) -> np.ndarray:
        result: np.ndarray = x / np.sqrt((x**2).mean(axes, keepdims=True) + eps)
        return result

    for dtype in ("float32", "float64"):
        layer = nn.RMSNorm((2, 2), dtype=dtype)
        layer.load_state_dict({"weight": WEIGHT.reshape(2, 2)})
        eps = float(np.finfo(dtype).eps)
        close(layer(ck.asarray(X, dtype)), expected(X, (2, 3), eps) * WEIGHT.reshape(2, 2), 16)
    x = random(0, (2, 300), "bfloat16")
    made = nn.rms_norm(x, 300, eps=1e-3)
    assert made.dtype == ck.bfloat16
    close(made, expected(x.numpy().astype(np.float64), (1,), 1e-3), 1)
    assert nn.rms_norm(ck.zeros((0, 4)), 4).shape == (0, 4)


def test_derivatives(device: ck.Device) -> None:
    x, weight, bias = ck.asarray(X[..., 0]), ck.asarray(WEIGHT), ck.asarray(BIAS)
    assert gradcheck(
        lambda *own: nn.batch_norm(own[0], None, None, *own[1:], True), [x, weight, bias], order=2
    )
    mean, variance = ck.asarray(BIAS), ck.asarray(WEIGHT**2)
    assert gradcheck(lambda x, w, b: nn.batch_norm(x, mean, variance, w, b), [x, weight, bias])
    assert gradcheck(lambda x, w, b: nn.group_norm(x, 2, w, b), [x, weight, bias])
    assert gradcheck(lambda x, w: nn.rms_norm(x, (4, 2), w), [x, ck.asarray(X[0, ..., 0])], order=2)


@pytest.mark.thorough
def test_derivatives_to_second_order(device: ck.Device) -> None:
    x, weight, bias = ck.asarray(X[..., 0]), ck.asarray(WEIGHT), ck.asarray(BIAS)
    mean, variance = ck.asarray(BIAS), ck.asarray(WEIGHT**2)
    assert gradcheck(lambda x, w, b: nn.batch_norm(x, mean, variance, w, b), [x, weight, bias], order=2)
    assert gradcheck(lambda x, w, b: nn.group_norm(x, 2, w, b), [x, weight, bias], order=2)


def test_a_large_mean(device: ck.Device) -> None:
    """It is taken off before anything is squared."""
    x = random(0, (64, 2), "float32") + 1e4
    close(nn.batch_norm(x, training=True), sized(lambda x: normalized(x, (0,)), x), 2)


def beside_the_deviation(found: Sized) -> Sized:
    """The mean is rounded beside the deviation, which is 1 in what is made; most elements are much smaller here."""
    return Sized(found.exact, np.maximum(found.size, 1))


def test_a_first_element_far_from_the_others(device: ck.Device) -> None:
    x = random(0, (16, 2, 300), "float32")
    x[0, :, 0] = 1e4
    close(nn.batch_norm(x, training=True), beside_the_deviation(sized(lambda x: normalized(x, (0, 2)), x)))


@pytest.mark.parametrize("wide", [True, False], ids=["grid", "cluster"])
def test_blocks_whose_first_elements_are_far_from_the_others(device: ck.Device, wide: bool) -> None:
    """Their sums are about the mean of one thread's elements, which is near enough; a large mean is taken off."""
    x = random(0, (900, 16), "float32")
    x[0] = 1e4
    x[450, 8:] = -1e4
    x[1:, :4] += 1e4
    wanted = beside_the_deviation(sized(lambda x: normalized(x, (0,)), x))
    share = Share(32, 4, 4, 2, True)
    with CHANNEL_NORM.only("clusters", share=share, cluster=2, kept=57, wide=wide) as used:
        close(nn.batch_norm(x, training=True, channel_axis=-1), wanted)
    assert used


def test_calls_of_known_forms_look_nothing_up(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is bound again, and the statistics of each call move, not those of the first."""
    x, weight, bias = ck.asarray(X, "float32"), ck.asarray(WEIGHT, "float32"), ck.asarray(BIAS, "float32")

    def calls() -> list[ck.Array]:
        running = ck.zeros(4, "float32"), ck.ones(4, "float32")
        made = [*running]
        for function in (
            lambda *own: nn.batch_norm(own[0], *running, *own[1:], True),
            lambda *own: nn.batch_norm(own[0], bias, weight * weight, *own[1:]),
            lambda *own: nn.group_norm(own[0], 2, *own[1:]),
        ):
            y, pull = ck.vjp(function, x, weight, bias)
            made += [y, *pull(x)]
        return made

    first = calls()
    monkeypatch.setattr(Kernel, "bind", None)
    for one, other in zip(calls(), first, strict=True):
        assert one.tolist() == other.tolist()


def test_arrays_of_the_same_form_that_begin_elsewhere(device: ck.Device) -> None:
    """Their elements are not taken in packs, whether other arrays of the layout came before or not."""
    whole, weight, bias = random(0, (385,), "float32"), ck.asarray(WEIGHT[:2]), ck.asarray(BIAS[:2])
    aligned, view = whole[:384].copy().reshape(3, 2, 64), whole[1:].reshape(3, 2, 64)
    for x in (aligned, view, aligned):
        for mean, variance, training in ((None, None, True), (bias, abs(weight), False)):
            found = nn.batch_norm(x, mean, variance, training=training)
            again = nn.batch_norm(x.copy() + 0, mean, variance, training=training)
            close(found, Sized(again.numpy(), np.maximum(np.abs(again.numpy()), 1)), 4)


def test_running_statistics_that_are_views(device: ck.Device) -> None:
    """They move if only they are written, and not if they have memory of another array."""
    both = ck.asarray(np.stack([BIAS, WEIGHT], 1))
    mean, variance = (ck.asarray(one) for one in (BIAS, WEIGHT))
    nn.batch_norm(ck.asarray(X), both[:, 0], both[:, 1], training=True)
    nn.batch_norm(ck.asarray(X), mean, variance, training=True)
    assert both.tolist() == ck.stack([mean, variance], axis=1).tolist()
    several = ck.asarray(np.tile(BIAS, 2))
    for given in ((mean, mean), (several[:4], several[2:6]), (several[4:], several[3:7])):
        with pytest.raises(ck.LaunchError, match="running_mean, running_var: expected memory that no other"):
            nn.batch_norm(ck.asarray(X), *given, training=True)


@pytest.mark.parametrize("family", [CHANNEL_NORM, GRADIENT], ids=lambda one: one.name)
def test_variants_are_what_the_reference_says(device: ck.Device, family: Any) -> None:
    """Of every variant that fits, as `python -m cukern tune` compares them."""
    entries, refused = measure(family, device, 6, 1, 3, 60)
    assert refused == []
    assert {one.features["constant"] for one in entries} == {False, True}


def test_statistics_of_rows_are_those_of_channels(device: ck.Device) -> None:
    """A gradient that reads them does not know which variant left them."""
    x = random(0, (2, 6, 8, 8), "float32") + 3
    problem = problems.ChannelNorm(x._planned(), None, None, 1, 3, x.dtype, tracked=True)
    found = []
    with LAYER_NORM.only("registers", limits=gpu_limits(device)):
        for name in ("rows", "separate launches", "clusters"):
            with CHANNEL_NORM.only(name):
                found.append(CHANNEL_NORM(problem)(x, None, None, None, None, None, 1e-5, 0.0)[1].numpy())
    _, wanted = CHANNEL_NORM.reference(problem)(x, None, None, None, None, None, 1e-5, 0.0)
    for mean, rest, rstd in (one.T for one in found):
        np.testing.assert_allclose(mean + rest, wanted.numpy()[:, 0], rtol=1e-6)
        np.testing.assert_allclose(rstd, wanted.numpy()[:, 2], rtol=1e-5)


def test_no_examples(device: ck.Device) -> None:
    """Gradients of the parameters are zeros."""
    x, weight, bias = ck.zeros((0, 4, 2)), ck.ones(4), ck.zeros(4)
    for function in (
        lambda x, w, b: nn.batch_norm(x, bias, weight, w, b),
        lambda x, w, b: nn.group_norm(x, 2, w, b),
    ):
        with ck.Tape() as tape:
            tape.watch(x, weight, bias)
            y = function(x, weight, bias)
        dx, *others = tape.gradient(y, [x, weight, bias])
        assert y.shape == dx.shape == x.shape
        assert [one.tolist() for one in others] == [[0] * 4] * 2


def test_momentum_is_a_number(device: ck.Device) -> None:
    x: Any = ck.ones((2, 4))
    for call in (
        lambda: nn.batch_norm(x, x[0], x[1], training=True, momentum=None),  # type: ignore[arg-type]
        lambda: nn.BatchNorm(4, momentum="0.1"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="momentum: expected a number, got"):
            call()


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((1, 4))
    for call, message in (
        (lambda: nn.batch_norm(x, training=True), "expected two numbers a channel or more in training"),
        (lambda: nn.batch_norm(x), "expected both where training is false"),
        (lambda: nn.batch_norm(x, running_mean=x[0]), "expected both or neither"),
        (lambda: nn.batch_norm(x[0], training=True), "batch_norm: x: expected shape (N, C, ...), got (4,)"),
        (lambda: nn.batch_norm(x, weight=x[0, :3], training=True), "weight: expected shape (4,)"),
        (
            lambda: nn.group_norm(x, 2, channel_axis=0),
            "channel_axis: expected an axis of shape (1, 4) but the",
        ),
        (lambda: nn.group_norm(x, 3), "groups: expected a divisor of the 4 channels, got 3"),
        (lambda: nn.GroupNorm(3, 4), "groups: expected a divisor of the 4 channels, got 3"),
        (lambda: nn.rms_norm(x, 3), "rms_norm: x: expected trailing axes of sizes (3,)"),
        (lambda: nn.rms_norm(x, 4, eps=-1.0), "rms_norm: eps: expected a number of at least 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("groups", "shape"), [(None, (3, 4, 5, 6)), (2, (2, 6, 8, 8)), (6, (3, 6, 7, 5)), (2, (2, 32, 40, 40))]
)
def test_a_mean_far_above_the_deviation(
    device: ck.Device, groups: int | None, shape: tuple[int, ...], last: bool
) -> None:
    """It is no rounded number: of 1000 a half unit in the last place is 3e-5 deviations."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape).astype(np.float32) + np.float32(1000)
    c = rng.normal(size=shape).astype(np.float32)
    x, given = (ck.asarray(np.moveaxis(one, 1, -1) if last else one) for one in (a, c))
    if last:  # in memory channels are last
        x, given = (ck.moveaxis(one.contiguous(), -1, 1) for one in (x, given))
    weight, bias = (ck.asarray(rng.normal(size=shape[1]).astype(np.float32)) for _ in range(2))

    def made(x: ck.Array, weight: ck.Array, bias: ck.Array) -> ck.Array:
        if groups is None:
            return nn.batch_norm(x, weight=weight, bias=bias, training=True)
        return nn.group_norm(x, groups, weight, bias)

    with ck.Tape() as tape:
        tape.watch(x, weight, bias)
        y = made(x, weight, bias)
        total = ck.sum(y * given)
    found = tape.gradient(total, (x, weight, bias))
    wide, above = a.astype(np.float64), c.astype(np.float64)
    beside = (slice(None), None, None)
    w, b = (one.numpy().astype(np.float64)[beside] for one in (weight, bias))
    cut = shape if groups is None else (shape[0], groups, shape[1] // groups, *shape[2:])
    axes = (0, 2, 3) if groups is None else (2, 3, 4)
    apart = wide.reshape(cut) - wide.reshape(cut).mean(axes, keepdims=True)
    rstd = 1 / np.sqrt((apart**2).mean(axes, keepdims=True) + 1e-5)
    n, g = apart * rstd, (above * w).reshape(cut)
    dx = rstd * (g - g.mean(axes, keepdims=True) - n * (g * n).mean(axes, keepdims=True))
    n = n.reshape(shape)
    np.testing.assert_allclose(y.numpy(), n * w + b, atol=4e-6)
    np.testing.assert_allclose(found[0].numpy(), dx.reshape(shape), atol=6e-6)
    scale = math.sqrt(wide.size / shape[1])
    np.testing.assert_allclose(found[1].numpy(), (above * n).sum((0, 2, 3)), atol=2e-6 * scale)
    np.testing.assert_allclose(found[2].numpy(), above.sum((0, 2, 3)), atol=2e-6 * scale)
