"""Batch and group norm whose kernels apply an activation: values, derivatives, and what is no part of them."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, gpu_limits, random, sized

import cukern as ck
from cukern import nn
from cukern.launch.variant import Run
from cukern.nn import fused
from cukern.nn.channel_norm.function import CHANNEL_NORM, GRADIENT
from cukern.nn.channel_norm.sharing import Share
from cukern.nn.layer_norm.families import LAYER_NORM
from cukern.testing import gradcheck


def gate(y: Any) -> Any:
    """An activation of a user's own, which is not 0 at 0."""
    return y * ck.sigmoid(1.7 * y) - 0.3


ERF = np.vectorize(math.erf, otypes="d")
#: Of float64 NumPy arrays.
NUMPY: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    ck.silu: lambda z: z / (1 + np.exp(-z)),
    ck.gelu: lambda z: z * (1 + ERF(z / math.sqrt(2))) / 2,
    ck.relu: lambda z: np.maximum(z, 0),
    gate: lambda z: z / (1 + np.exp(-1.7 * z)) - 0.3,
}
ORDERS = pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
MEAN, VARIANCE = np.array([0.5, -1, 0, 2, 1, -0.5]), np.array([1.0, 0.5, 2, 4, 1, 3])
#: The functions: of x, weight, bias, the axis of channels and the activation.
GROUP, BATCH, CONSTANT = "groups of channels", "statistics of the batch", "statistics that are given"
KINDS = pytest.mark.parametrize("kind", [GROUP, BATCH, CONSTANT])


def norm(kind: str, x: ck.Array, weight: Any, bias: Any, last: bool, activation: Any) -> ck.Array:
    """The function in question, of groups of two channels."""
    axis = -1 if last else 1
    if kind == GROUP:
        return nn.group_norm(x, x.shape[axis] // 2, weight, bias, channel_axis=axis, activation=activation)
    moments = (None, None) if kind == BATCH else (ck.asarray(MEAN, x.dtype), ck.asarray(VARIANCE, x.dtype))
    return nn.batch_norm(x, *moments, weight, bias, kind == BATCH, channel_axis=axis, activation=activation)


def composed(kind: str, x: Any, weight: Any, bias: Any, last: bool, activation: Any, lib: Any = ck) -> Any:
    """The same by single operations of NumPy or of this library."""
    channels = x.shape[-1] if last else x.shape[1]
    beside = (-1,) if last else (-1, *(1,) * (x.ndim - 2))
    if kind == CONSTANT:
        mean, variance = (lib.asarray(one, dtype=x.dtype).reshape(beside) for one in (MEAN, VARIANCE))
        y = (x - mean) / lib.sqrt(variance + 1e-5)
    else:
        cut, at = x.shape, x.ndim - 1 if last else 1
        if kind == GROUP:
            cut = (*x.shape[:at], channels // 2, 2, *x.shape[at + 1 :])
        axes = tuple(i for i in range(len(cut)) if i != at and (kind == BATCH or i))
        apart = x.reshape(cut)
        apart = apart - lib.mean(apart, axis=axes, keepdims=True)
        y = (apart / lib.sqrt(lib.mean(apart**2, axis=axes, keepdims=True) + 1e-5)).reshape(x.shape)
    y = y if weight is None else y * weight.reshape(beside)
    return activation(y if bias is None else y + bias.reshape(beside))


def given(last: bool, dtype: str = "float64", spread: tuple[int, ...] = (5, 4)) -> list[ck.Array]:
    """Arrays x, weight and bias of six channels."""
    shape = (3, *spread, 6) if last else (3, 6, *spread)
    return [random(0, shape, dtype) + 1, random(1, (6,), dtype), random(2, (6,), dtype)]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@ORDERS
@KINDS
def test_values(device: ck.Device, dtype: str, last: bool, kind: str) -> None:
    """Against NumPy, with weight and bias and without."""
    arrays = given(last, dtype)
    for activation in NUMPY if dtype == "float32" else (ck.silu,):
        for of in ((0, 1, 2), (0, 1), (0, 2), (0,)):

            def exact(*own: np.ndarray, of: Any = of, activation: Any = activation) -> Any:
                parts: list[Any] = [own[of.index(i)] if i in of else None for i in range(3)]
                return composed(kind, *parts, last, NUMPY[activation], np)

            parts: list[Any] = [arrays[i] if i in of else None for i in range(3)]
            made = norm(kind, *parts, last, activation)
            assert made.dtype == arrays[0].dtype and made.shape == arrays[0].shape
            close(made, sized(exact, *(arrays[i] for i in of)))


@contextlib.contextmanager
def only(variant: str, last: bool, device: ck.Device) -> Iterator[None]:
    """Results by one variant, and gradients by it or, of rows, by any."""
    if variant == "rows":
        limits = gpu_limits(device)
        with LAYER_NORM.only("registers", limits=limits) as used, CHANNEL_NORM.only("rows"):
            yield
        assert used
        return
    fields: dict[str, Any] = {}
    if variant != "separate launches":
        share = Share(64, 1, 2 if last else 4, 2, last)
        fields = {"share": share, "cluster": 2, "wide": False, "kept": 0, "turns": 1, "asked": 0}
        if variant == "kept":
            fields |= {"kept": 3 if last else 2, "turns": 2, "asked": 1}
        if variant == "grid":
            fields |= {"cluster": 3, "wide": True, "kept": 1, "turns": 3}
        variant = "clusters"
    with CHANNEL_NORM.only(variant, **fields) as forward, GRADIENT.only(variant, **fields) as backward:
        yield
    for config in (*forward, *backward):
        assert {key: getattr(config, key) for key in fields} == fields
    assert forward and backward


#: Variants, of what, and whether the channels are last.
_VARIANTS = [
    *itertools.product(["separate launches"], [GROUP, BATCH, CONSTANT], [False, True]),
    *itertools.product(["clusters", "kept"], [GROUP, BATCH], [False, True]),
    *itertools.product(["grid"], [GROUP, BATCH], [True]),
    ("rows", GROUP, False),
]


@pytest.mark.parametrize(
    ("activation", "variant", "kind", "last"),
    [  # one activation in all, and one that is not 0 at 0 in one kernel of each variant
        pytest.param(
            one,
            *case,
            marks=()
            if one is ck.silu or (one is gate and case[1:] == (GROUP, case[0] == "grid"))
            else pytest.mark.thorough,
        )
        for one in NUMPY
        for case in _VARIANTS
    ],
)
def test_variants(device: ck.Device, activation: Any, variant: str, kind: str, last: bool) -> None:
    """Results and gradients by each variant that has them, in packs, are those of compositions in float64."""
    arrays = given(last, "float32", (8, 8))
    with only(variant, last, device):
        check_equal(
            lambda *own: norm(kind, *own, last, activation),
            lambda *own: composed(kind, *own, last, activation),
            arrays,
        )


@ORDERS
@KINDS
def test_gradients_of_each_argument_alone(device: ck.Device, last: bool, kind: str) -> None:
    """Those that are not asked for, and parameters that there are not, change no other one."""
    x, weight, bias = given(last)
    dy = random(3, x.shape)
    whole = ck.vjp(lambda *own: norm(kind, *own, last, gate), x, weight, bias)[1](dy)
    for i, expected in enumerate(whole):

        def of_one(own: ck.Array, i: int = i) -> ck.Array:
            parts = [own if k == i else one for k, one in enumerate((x, weight, bias))]
            return norm(kind, *parts, last, gate)

        close(ck.vjp(of_one, (x, weight, bias)[i])[1](dy)[0], expected.numpy(), 64)
    for of in ((0, 1), (0, 2), (0,)):

        def some(*own: Any, of: Any = of) -> list[Any]:
            return [own[of.index(i)] if i in of else None for i in range(3)]

        check_equal(
            lambda *own: norm(kind, *some(*own), last, gate),
            lambda *own: composed(kind, *some(*own), last, gate),
            [(x, weight, bias)[i] for i in of],
        )


@pytest.mark.parametrize(
    ("activation", "kind"),
    [
        pytest.param(one, kind, marks=() if one is ck.silu or kind == GROUP else pytest.mark.thorough)
        for one in NUMPY
        for kind in (GROUP, BATCH, CONSTANT)
    ],
)
def test_derivatives(device: ck.Device, activation: Any, kind: str) -> None:
    """By finite differences."""
    last = activation in (ck.relu, ck.silu)
    arrays = given(last, spread=(2,))
    assert gradcheck(lambda *own: norm(kind, *own, last, activation), arrays, order=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@ORDERS
def test_parameters_of_another_dtype(device: ck.Device, dtype: str, last: bool) -> None:
    """Also of two: kernels read both in one."""
    x, weight, bias = given(last, dtype)
    for other in ([weight.astype("float32"), bias.astype("float32")], [weight.astype("float32"), bias]):
        for kind in (GROUP, BATCH):
            check_equal(
                lambda *own, of=kind: norm(of, *own, last, ck.silu),
                lambda *own, of=kind: composed(of, *own, last, ck.silu),
                [x, *other],
            )


def test_no_launch_is_added(device: ck.Device, launches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the norm's own kernels, nor of others; and a tape keeps what it keeps without the activation."""
    call = Run.__call__

    def counted(run: Run, values: Any) -> None:
        launches.append("of a family")
        call(run, values)

    monkeypatch.setattr(Run, "__call__", counted)
    kept: list[int] = []
    record = fused.record_fused
    monkeypatch.setattr(
        fused, "record_fused", lambda *own, **more: (kept.append(len(own[3])), record(*own, **more))
    )
    arrays = given(False)
    for kind in (GROUP, BATCH, CONSTANT):
        counts = []
        for activation in (None, ck.silu):
            launches.clear()
            _, pull = ck.vjp(lambda *own, k=kind, a=activation: norm(k, *own, False, a), *arrays)
            pull(arrays[0])
            counts.append(list(launches))
        assert counts[0] == counts[1] and "of a family" in counts[0]
    assert kept == [1] * 6


def test_what_is_not_elementwise_is_called_with_the_result(device: ck.Device) -> None:
    x, weight, bias = given(False)
    scale = random(4, (4,))
    for activation in (
        lambda y: y - ck.max(y),
        lambda y: y * scale,
        lambda y: ck.softmax(y, axis=1),
        lambda y: y.astype("float32"),
        lambda y: y if float(y[0, 0, 0, 0]) > 1e9 else -y,
        lambda y: ck.reshape(y, (-1,)),
        lambda y: ck.floor(y),
        nn.Dropout(0.0),
    ):
        for kind in (GROUP, BATCH, CONSTANT):
            made = norm(kind, x, weight, bias, False, activation)
            wanted = activation(norm(kind, x, weight, bias, False, None))
            assert made.dtype == wanted.dtype and made.tolist() == wanted.tolist()
    with ck.Tape() as tape:
        tape.watch(x)
        y = norm(GROUP, x, weight, bias, False, lambda y: y * ck.stop_gradient(y))
    with ck.Tape() as other:
        other.watch(x)
        z = norm(GROUP, x, weight, bias, False, None)
        z = z * ck.stop_gradient(z)
    # An element is a difference of terms as large as the largest.
    wanted = other.gradient(z, x).numpy()
    close(tape.gradient(y, x), Sized(wanted, np.max(np.abs(wanted))), 8)


def test_an_activation_knows_the_shape(device: ck.Device) -> None:
    x, weight, bias = given(False)
    made = norm(GROUP, x, weight, bias, False, lambda y: y / (y.shape[1] + y.ndim))
    close(made, norm(GROUP, x, weight, bias, False, None).numpy() / 10)


def test_no_examples(device: ck.Device) -> None:
    """The result is empty, and gradients of the parameters are zeros."""
    _, weight, bias = given(False)
    for kind in (GROUP, CONSTANT):
        for activation in (ck.silu, lambda y: y.astype("float32")):
            with ck.Tape() as tape:
                tape.watch(weight, bias)
                y = norm(kind, ck.zeros((0, 6, 2), "float64"), weight, bias, False, activation)
            assert y.shape == (0, 6, 2)
            assert [one.tolist() for one in tape.gradient(y, [weight, bias])] == [[0] * 6] * 2


def test_modules(device: ck.Device) -> None:
    x = given(False, "float32")[0]
    group, plain = nn.GroupNorm(3, 6, activation=ck.silu), nn.GroupNorm(3, 6)
    close(group(x), NUMPY[ck.silu](plain(x).numpy().astype("float64")), 64)
    layer, plain_layer = nn.BatchNorm(6, activation=nn.ReLU()), nn.BatchNorm(6)
    for _ in range(2):
        close(layer(x), np.maximum(plain_layer(x).numpy(), 0), 4)
        assert layer.running_mean is not None and plain_layer.running_mean is not None
        assert layer.running_mean.tolist() == plain_layer.running_mean.tolist()
    close(layer.eval()(x), np.maximum(plain_layer.eval()(x).numpy(), 0), 4)
    assert set(layer.state_dict()) == set(plain_layer.state_dict())


def test_running_statistics_that_a_tape_tracks(device: ck.Device) -> None:
    """Constants have derivatives too."""
    x, weight, bias = given(False, spread=(2,))
    mean, variance = ck.asarray(MEAN), ck.asarray(VARIANCE)
    assert gradcheck(
        lambda *own: nn.batch_norm(own[0], *own[1:], activation=ck.silu), [x, mean, variance, weight, bias]
    )


def test_refused(device: ck.Device) -> None:
    x: Any = ck.zeros((2, 6))
    wrong: Any = "silu"
    for call in (
        lambda: nn.group_norm(x, 2, activation=wrong),
        lambda: nn.batch_norm(x, training=True, activation=wrong),
        lambda: nn.GroupNorm(2, 6, activation=wrong),
        lambda: nn.BatchNorm(6, activation=wrong),
    ):
        with pytest.raises(
            TypeError, match="activation: expected an elementwise function such as cukern.relu"
        ):
            call()
