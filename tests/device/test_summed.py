"""Derivatives whose kernel also sums the cotangents of rows: a GPU's kernel, run on the host too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emptied import elementwise_plans
from nn_support import close as compare
from nn_support import sized

import cukern as ck
from cukern.elementwise import geometry, summed
from cukern.elementwise import plan as launch
from cukern.linear.families import PRODUCT
from cukern.linear.variants import TensorCores
from cukern.testing import assert_close, gradcheck


@pytest.fixture
def made(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]
) -> list[launch.Plan | None]:
    """The launches that were chosen, None where there was no such one; the host chooses as a GPU does."""
    chosen: list[launch.Plan | None] = []

    def make_plan(*args: Any) -> launch.Plan | None:
        chosen.append(choose(*args))
        return chosen[-1]

    choose = summed.make_plan
    monkeypatch.setattr(summed, "make_plan", make_plan)
    empty(summed._plans, *elementwise_plans())
    monkeypatch.setattr(geometry, "_FEWEST_SUMMED", 0)
    monkeypatch.setattr(launch, "_style", lambda device: "simt")
    return chosen


def random(dtype: str, *shape: int) -> ck.Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return ck.asarray(rng.standard_normal(shape)).astype(dtype)


def gradients(
    f: Callable[..., ck.Array], arrays: list[ck.Array], g: ck.Array | None = None
) -> list[ck.Array]:
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = f(*arrays)
    found: list[ck.Array] = tape.gradient(y, arrays, random(str(y.dtype), *y.shape) if g is None else g)
    return found


def close(
    f: Callable[..., ck.Array], arrays: list[ck.Array], found: list[ck.Array], g: ck.Array | None = None
) -> None:
    """Whether gradients are those in float64, which the host computes by another kernel for sums."""
    if g is None:
        g = random(str(arrays[0].dtype), *f(*arrays).shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summed, "evaluate", lambda *args: None)
        wanted = sized(
            lambda *own: gradients(f, list(map(ck.asarray, own[:-1])), ck.asarray(own[-1])), *arrays, g
        )
    for one, right, array in zip(found, wanted, arrays, strict=True):
        assert (one.shape, one.dtype) == (array.shape, array.dtype)
        # Derivatives that are summed were rounded, in a half type after the cotangents they are made of.
        compare(one, right, 2 if one.itemsize == 2 else None)


ADDED = ck.fuse(lambda x, b: ck.gelu(x + b))
SCALED = ck.fuse(lambda x, s, b: ck.tanh(x * s) + ck.exp(b))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((dtype, (300, 256)) for dtype in ("float16", "bfloat16", "float32", "float64")),
        ("bfloat16", (2, 512)),
        ("float32", (2, 3, 9, 1000)),
        ("bfloat16", (70, 2112)),
    ],
    ids=str,
)
def test_values(made: list[launch.Plan | None], dtype: str, shape: tuple[int, ...]) -> None:
    arrays = [random(dtype, *shape), random(dtype, shape[-1])]
    found = gradients(ADDED, arrays)
    (plan,) = made
    assert plan is not None
    # One block leaves the sums themselves.
    assert len(plan.layouts) == 2 and (plan.layouts[1].shape == (shape[-1],)) == (shape == (2, 512))
    close(ADDED, arrays, found)


def test_few_elements_are_summed_apart(
    made: list[launch.Plan | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geometry, "_FEWEST_SUMMED", 40 * 512)
    for rows in (39, 40):
        arrays = [random("float32", rows, 512), random("float32", 512)]
        close(ADDED, arrays, gradients(ADDED, arrays))
    assert [one is not None for one in made] == [False, True]


@pytest.mark.parametrize(("block", "blocks"), [(64, 1), (64, 4096), (512, 7)])
def test_every_share_of_the_rows(
    made: list[launch.Plan | None], monkeypatch: pytest.MonkeyPatch, block: int, blocks: int
) -> None:
    shape = geometry.SUM_SHAPE._replace(block=block, blocks=blocks, rounds=1)
    monkeypatch.setattr(geometry, "SUM_SHAPE", shape)
    arrays = [random("float32", 203, 640), random("float32", 640)]
    found = gradients(ADDED, arrays)
    assert made != [None]
    close(ADDED, arrays, found)


def test_sums_of_what_is_not_stored(made: list[launch.Plan | None]) -> None:
    """Of three cotangents the kernel stores one, and sums two."""
    arrays = [random("bfloat16", 200, 512), random("bfloat16", 1, 512), random("bfloat16", 512)]
    found = gradients(SCALED, arrays)
    (plan,) = made
    assert plan is not None
    assert [len(one.shape) for one in plan.layouts] == [2, 3, 2]
    close(SCALED, arrays, found)
    # Only where all are asked for.
    with ck.Tape(persistent=True) as tape:
        tape.watch(*arrays)
        y = SCALED(*arrays)
    g = random("bfloat16", *y.shape)
    for k in range(3):
        assert tape.gradient(y, arrays[k], g).numpy().tobytes() or k
    assert made == [plan]


@pytest.mark.parametrize(
    ("name", "takes", "make"),
    [
        ("rows of a view", True, lambda g: g(80, 600)[::2, 8:520]),
        ("ones", True, lambda g: ck.broadcast_to(g(), (40, 512))),
        ("one row", True, lambda g: ck.broadcast_to(g(512), (40, 512))),
        ("a transpose", False, lambda g: g(512, 40).T),
        ("odd rows", False, lambda g: g(40, 601)[:, :512]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_layouts_of_cotangents(
    made: list[launch.Plan | None], name: str, takes: bool, make: Callable[[Any], ck.Array]
) -> None:
    arrays, g = [random("float32", 40, 512), random("float32", 512)], make(lambda *n: random("float32", *n))
    found = gradients(ADDED, arrays, g)
    assert [one is not None for one in made] == [takes]
    close(ADDED, arrays, found, g)


@pytest.mark.parametrize("shape", [(40, 513), (40, 96), (1, 512), (0, 512), (512,), (40, 1)], ids=str)
def test_what_one_launch_cannot_take(made: list[launch.Plan | None], shape: tuple[int, ...]) -> None:
    arrays = [random("float32", *shape), random("float32", shape[-1])]
    found = gradients(ADDED, arrays)
    assert not any(made)
    if 0 in shape:
        assert found[1].tolist() == [0] * shape[-1]
    else:
        close(ADDED, arrays, found)


GATED = ck.fuse(lambda x, gate: ck.tanh(x) * gate)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((dtype, (70, 64)) for dtype in ("float16", "bfloat16", "float32", "float64")),
        ("float32", (3, 41, 40)),  # lanes without a column
        ("bfloat16", (33, 256)),  # a warp each
        ("bfloat16", (500, 8)),  # a thread each
    ],
    ids=str,
)
@pytest.mark.parametrize("f", [ck.multiply, GATED], ids=["multiply", "fused"])
def test_sums_along_rows(
    made: list[launch.Plan | None], dtype: str, shape: tuple[int, ...], f: Callable[..., ck.Array]
) -> None:
    arrays = [random(dtype, *shape), random(dtype, *shape[:-1], 1)]
    found = gradients(f, arrays)
    (plan,) = made
    assert plan is not None
    assert [one.shape for one in plan.layouts] == [shape, (*shape[:-1], 1)]
    close(f, arrays, found)


@pytest.mark.parametrize(
    ("shape", "gate"), [((40, 512), (40, 1)), ((40, 30), (40, 1)), ((1, 64), (1, 1)), ((6, 7, 64), (7, 1))]
)
def test_rows_that_are_summed_apart(
    made: list[launch.Plan | None], shape: tuple[int, ...], gate: tuple[int, ...]
) -> None:
    """Longer than a warp's, of odd length, one alone, and gates that more than the rows share."""
    arrays = [random("float32", *shape), random("float32", *gate)]
    found = gradients(GATED, arrays)
    assert not any(made)
    close(GATED, arrays, found)


def test_sums_along_rows_of_a_view(made: list[launch.Plan | None]) -> None:
    arrays = [random("float32", 40, 64), random("float32", 40, 1)]
    g = random("float32", 80, 128)[::2, 32:96]
    found = gradients(GATED, arrays, g)
    assert all(made)
    close(GATED, arrays, found, g)


@pytest.mark.parametrize("activation", [ck.relu, ck.gelu_tanh])
def test_products(
    made: list[launch.Plan | None],
    launches: list[str],
    monkeypatch: pytest.MonkeyPatch,
    activation: Callable[[ck.Array], ck.Array],
) -> None:
    """The cotangent of a product's result, which two products read, and the sum of its rows."""
    arrays = [random("bfloat16", 90, 16), random("bfloat16", 256, 16), random("bfloat16", 256)]

    def layer(x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
        return ck.nn.linear(x, w, b, activation=activation)

    launches.clear()
    dx, dw, db = gradients(layer, arrays)
    assert (launches.count("linear_vjp"), launches.count("sum")) == (1, 1)  # and the library's products
    assert [one is not None for one in made] == [True]
    monkeypatch.setattr(summed, "evaluate", lambda *args: None)
    others = gradients(layer, arrays)
    assert [one.numpy().tobytes() for one in (dx, dw)] == [one.numpy().tobytes() for one in others[:2]]
    want = others[2].numpy().astype(float)
    np.testing.assert_allclose(db.numpy().astype(float), want, rtol=0.02, atol=0.02 * abs(want).max())


def test_products_on_tensor_cores(made: list[launch.Plan | None]) -> None:
    tile = TensorCores(*TensorCores.tiles[-1])
    f = ck.fuse(lambda x, w, b, k: ck.relu(x @ w * k + b))
    x, w, b = (random("bfloat16", *shape) for shape in ((40, 16), (16, 256), (256,)))
    g = random("bfloat16", 40, 256)
    with PRODUCT.only("tensor cores", "library", **dataclasses.asdict(tile)) as used:
        with ck.Tape() as tape:
            tape.watch(x, w, b)
            y = f(x, w, b, 0.5)
        assert used == [tile]
        dx, dw, db = tape.gradient(y, (x, w, b), g)
    assert [one is not None for one in made] == [True]
    down = np.where(y.numpy().astype(float) > 0, g.numpy().astype(float), 0)
    left, right = (one.numpy().astype(float) for one in (x, w))
    for one, want in ((dx, 0.5 * down @ right.T), (dw, 0.5 * left.T @ down), (db, down.sum(0))):
        np.testing.assert_allclose(one.numpy().astype(float), want, rtol=0.02, atol=0.02 * abs(want).max())


def test_numbers(made: list[launch.Plan | None]) -> None:
    f = ck.fuse(lambda x, b, k: ck.tanh(x + b) * k)
    arrays = [random("float32", 60, 512), random("float32", 512)]
    g = random("float32", 60, 512)
    one, two = (gradients(lambda x, b, k=k: f(x, b, k), arrays, g) for k in (0.5, 2.0))
    assert len(made) == 1
    assert made[0] is not None
    for half, twice in zip(one, two, strict=True):
        assert_close(twice, 4 * half.numpy())


def test_higher_orders(made: list[launch.Plan | None]) -> None:
    """The derivatives of a derivative are those of the kernels apart."""
    arrays = [random("float64", 3, 64), random("float64", 64)]
    assert gradcheck(ADDED, arrays, order=2)
    assert any(made)

    def squares(x: ck.Array, b: ck.Array) -> ck.Array:
        first = ck.grad(lambda x, b: ck.sum(ADDED(x, b)), argnums=(0, 1))(x, b)
        return ck.sum(first[0] ** 2) + ck.sum(first[1] ** 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summed, "evaluate", lambda *args: None)
        exact = ck.grad(squares, argnums=(0, 1))(*arrays)
    for one, other in zip(ck.grad(squares, argnums=(0, 1))(*arrays), exact, strict=True):
        assert_close(one, other.numpy())
