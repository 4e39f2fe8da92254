"""Arrays of two devices in one call: fetched or refused, never read where they are not; a second host plays the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_namespace import CASES, drawn, mapped

import cukern as ck
from cukern.device import backend

HOST = ck.Device("host")
#: What gives each result the device of its own argument.
SEPARATE = {"broadcast_arrays", "meshgrid"}


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[ck.Device]:
    """Another device, whose memory kernels of the first could read."""
    monkeypatch.setattr(type(backend("host")), "count", lambda self: 2)
    yield ck.Device("host:1")
    ck.Device._instances.pop(("host", 1))


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[ck.Device]:
    """The devices that arrays are fetched from."""
    found: list[ck.Device] = []
    to_device = ck.Array.to_device

    def noted(x: ck.Array, device: Any, /, **options: Any) -> ck.Array:
        if x.device is not ck.Device(device):
            found.append(x.device)
        return to_device(x, device, **options)

    monkeypatch.setattr(ck.Array, "to_device", noted)
    return found


def _arrays(tree: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    mapped(tree, found.append)
    return found


SEVERAL = [
    case
    for case in CASES
    if case.takes(ck.float64) and case.name not in SEPARATE and len(_arrays(drawn(case, ck.float64))) > 1
]


def test_every_function_of_several_arrays(second: ck.Device, fetched: list[ck.Device]) -> None:
    kept, refused = set(), set()
    for case in SEVERAL:
        arguments = drawn(case, ck.float64)
        for k in range(len(_arrays(arguments))):
            places = iter(range(100))

            def put(one: np.ndarray, k: int = k, places: Iterator[int] = places) -> ck.Array:
                return ck.asarray(one, device=second if next(places) == k else HOST, copy=True)

            given = mapped(arguments, put)
            fetched.clear()
            try:
                case.function()(*given, **case.options)
            except (ck.DeviceError, ValueError) as error:
                if "device" not in str(error):
                    raise
                refused.add(case.name)
            else:
                assert fetched, (case.id, k)
                kept.add(case.name)
    assert {"where", "matmul", "concat", "correlate", "convolve", "searchsorted"} <= refused
    assert "take" in kept


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: ck.nn.layer_norm(x, 3, y),
        lambda x, y: ck.nn.matmul_add_relu(x, x, y),
        lambda x, y: ck.nn.linear(x, x, y),
        lambda x, y: ck.fuse(lambda p, q: p + q)(x, y),
    ],
    ids=["layer_norm", "matmul_add_relu", "linear", "fuse"],
)
def test_fused_functions_refuse(call: Callable[[ck.Array, ck.Array], Any], second: ck.Device) -> None:
    with pytest.raises((ck.DeviceError, ValueError), match=r"on one device|move one of them"):
        call(ck.ones((3, 3)), ck.ones(3, device=second))


def test_numbers_and_numpys_arrays_go_where_the_arrays_are(second: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0], dtype="float64", device=second)
    fused = ck.fuse(lambda p, q: p + q)
    assert fused(x, np.ones(2)).device is second
    assert ck.lexsort((x, np.array([1.0, 0.0]))).device is second
    assert ck.grad(lambda a, b: ck.sum(a * b))(2.0, x).device is second
    assert ck.vjp(lambda a, b: ck.sum(a * b), 2.0, x)[0].device is second
    assert ck.jacobian(lambda a, b: a * b)(2.0, x).device is second
    places = ck.asarray([1, 0], device=second)
    assert ck.grad(lambda a, at: ck.sum(ck.ones(2)[at] * a))(2.0, places).item() == 2


def test_a_module_that_moves_takes_its_optimizer_along(second: ck.Device) -> None:
    layer, stays = (ck.nn.Linear(3, 2, rng=0, device=HOST) for _ in range(2))
    optimizers = [ck.optim.Adam(one) for one in (layer, stays)]
    for turn in range(3):
        for one, optimizer in zip((layer, stays), optimizers, strict=True):
            if turn == 1:
                layer.to_device(second)
            x = ck.ones((4, 3), device=next(iter(one.parameters())).device)
            with ck.Tape() as tape:
                loss = ck.sum(one(x) ** 2)
            optimizer.step(tape.gradient(loss, one))
    for one, other in zip(layer.parameters(), stays.parameters(), strict=True):
        assert one.device is second and other.device is HOST
        assert np.array_equal(one.numpy(), other.numpy())
    with pytest.raises(ValueError, match="gradients: that of 'weight' is on host, its parameter on"):
        optimizers[0].step([ck.ones_like(one) for one in stays.parameters()])
    assert optimizers[0].steps == 3
