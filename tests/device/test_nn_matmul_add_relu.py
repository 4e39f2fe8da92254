"""Matrix product, bias and ReLU in one kernel, against its reference and finite differences."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, doubles, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.matmul_add_relu import HOST_TILE, TILES, Tile, _tile, launch
from cukern.testing import gradcheck

#: One warp a block, so that the host has soon run many of them.
TINY_TILE = Tile(32, 32, 8, 8, 4)


def composed(lhs: ck.Array, rhs: ck.Array, bias: ck.Array) -> ck.Array:
    return ck.relu(lhs @ rhs + bias)


def numpy_reference(*arrays: ck.Array) -> Sized:
    found: Sized = sized(lambda lhs, rhs, bias: np.maximum(lhs @ rhs + bias, 0), *doubles(arrays))
    return found


@pytest.mark.parametrize("strategy", ["save", "recompute"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_equals_the_reference(device: ck.Device, dtype: str, strategy: str) -> None:
    arrays = [random(0, (2, 9, 13), dtype), random(1, (2, 13, 21), dtype), random(2, (21,), dtype)]
    check_equal(lambda *own: nn.matmul_add_relu(*own, strategy=strategy), composed, arrays)


@pytest.mark.parametrize(
    "tile",
    [HOST_TILE, TINY_TILE, *TILES],
    ids=["host", "tiny", *(f"{tile.m}x{tile.n}" for tile in TILES)],
)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (3, 5, 2), (16, 16, 16), (17, 15, 33), (65, 7, 129)],
    ids=lambda s: "x".join(map(str, s)),
)
def test_each_tile_at_its_edges(device: ck.Device, tile: Tile, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    lhs, rhs = random(0, (rows, inner), "float32"), random(1, (inner, columns), "float32")
    bias = random(2, (rows, columns), "float32")
    close(launch(lhs, rhs, bias, (rows, columns), tile), numpy_reference(lhs, rhs, bias))


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5), ()),
        ((3, 4), (4, 5), (3, 1)),
        ((3, 4), (4, 5), (1, 5)),
        ((2, 3, 4), (4, 5), (5,)),
        ((3, 4), (2, 4, 5), (3, 5)),
        ((2, 1, 3, 4), (6, 4, 5), (1, 6, 3, 5)),
        ((3, 4), (4, 5), (2, 3, 5)),
        ((1, 4), (4, 1), (2, 3, 5)),
        ((2, 1, 2, 3, 4), (2, 1, 4, 5), (2, 1, 1, 5)),
    ],
    ids=str,
)
def test_every_operand_broadcasts(device: ck.Device, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [random(i, shape) for i, shape in enumerate(shapes)]
    check_equal(nn.matmul_add_relu, composed, arrays)


@pytest.mark.parametrize("tile", [HOST_TILE, TINY_TILE], ids=["host", "tiny"])
def test_other_layouts(device: ck.Device, tile: Tile) -> None:
    lhs = ck.permute_dims(random(0, (4, 7, 3)), (2, 1, 0))
    rhs = ck.permute_dims(random(1, (20, 4)), (1, 0))
    bias = ck.broadcast_to(random(2, (14, 1))[::-2], (7, 20))
    close(launch(lhs, rhs, bias, (3, 7, 20), tile), numpy_reference(lhs, rhs, bias))


def test_small_outputs_take_small_tiles() -> None:
    gpu: Any = SimpleNamespace(style="simt", properties=SimpleNamespace(multiprocessors=132))
    assert _tile(gpu, ck.float32, 1, 4096, 4096) == _tile(gpu, ck.float32, 32, 512, 512) == TILES[0]
    assert _tile(gpu, ck.float32, 1, 512, 512) == TILES[-1]
    assert _tile(gpu, ck.float64, 1, 4096, 4096) != TILES[0]


def _laid_out(seed: int, shape: tuple[int, int, int], layout: str, dtype: str) -> ck.Array:
    """Random matrices: C order; each transposed; with other elements between; away from 16 bytes' multiples."""
    batch, rows, columns = shape
    if layout == "transposed":
        return ck.permute_dims(random(seed, (batch, columns, rows), dtype), (0, 2, 1))
    if layout == "spaced":
        return random(seed, (batch, 2 * rows, 3 * columns), dtype)[:, ::2, ::-3]
    if layout == "unaligned":
        flat = random(seed, (batch * rows * columns + 1,), dtype)[1:]
        return ck.reshape(flat, shape)
    return random(seed, shape, dtype)


LAYOUTS = ["plain", "transposed", "spaced", "unaligned"]


@pytest.mark.parametrize("rhs_layout", LAYOUTS)
@pytest.mark.parametrize("lhs_layout", LAYOUTS)
def test_each_way_into_shared_memory(device: ck.Device, lhs_layout: str, rhs_layout: str) -> None:
    """Several k-blocks of which one is short, and tiles that the matrices do not fill."""
    lhs = _laid_out(0, (2, 36, 44), lhs_layout, "float32")
    rhs = _laid_out(1, (2, 44, 68), rhs_layout, "float32")
    bias = random(2, (36, 1), "float32")
    close(launch(lhs, rhs, bias, (2, 36, 68), TINY_TILE), numpy_reference(lhs, rhs, bias))


@pytest.mark.parametrize("layout", ["plain", "transposed", "unaligned"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("tile", TILES[-2:], ids=lambda tile: f"{tile.m}x{tile.n}")
def test_staged_dtypes(device: ck.Device, tile: Tile, dtype: str, layout: str) -> None:
    lhs, rhs = _laid_out(0, (1, 68, 72), layout, dtype), _laid_out(1, (1, 72, 100), layout, dtype)
    bias = _laid_out(2, (1, 68, 100), layout, dtype)
    close(launch(lhs, rhs, bias, (1, 68, 100), tile), numpy_reference(lhs, rhs, bias))


def test_the_largest_tile_over_many_slabs(device: ck.Device) -> None:
    """Bands of row tiles of which the last is lower, and batches of them."""
    tile = TILES[0]._replace(band=2)
    lhs, rhs = random(0, (2, 300, 40), "float32"), random(1, (40, 260), "float32")
    bias = random(2, (260,), "float32")
    close(launch(lhs, rhs, bias, (2, 300, 260), tile), numpy_reference(lhs, rhs, bias))


def test_sums_of_the_tiles_are_equal(device: ck.Device) -> None:
    """Each adds the products in the order of the inner axis, the short k-block first."""
    lhs, rhs = random(0, (40, 96), "float32"), random(1, (96, 40), "float32")
    bias = random(2, (40,), "float32")
    first, *others = (launch(lhs, rhs, bias, (40, 40), tile).numpy() for tile in (TINY_TILE, *TILES))
    for other in others:
        assert np.array_equal(first, other)


def test_gradients_of_views_from_a_broadcast_cotangent(device: ck.Device) -> None:
    arrays = [random(0, (6, 8))[::2, ::-2], ck.permute_dims(random(1, (5, 4)), (1, 0)), random(2, (5,))]
    cotangents = [ck.broadcast_to(ck.asarray(np.float64(0.3)), (3, 5))]
    check_equal(nn.matmul_add_relu, composed, arrays, cotangents=cotangents)


def test_empty_axes(device: ck.Device) -> None:
    bias = ck.asarray([1.0, -1.0])
    assert nn.matmul_add_relu(ck.zeros((3, 0)), ck.zeros((0, 2)), bias).tolist() == [[1.0, 0.0]] * 3
    for shape in ((0, 4), (0, 3, 4), (2, 0, 4)):
        lhs, rhs = ck.zeros(shape), ck.ones((4, 2))
        with ck.Tape() as tape:
            tape.watch(lhs, rhs, bias)
            y = ck.sum(nn.matmul_add_relu(lhs, rhs, bias))
        dlhs, drhs, dbias = tape.gradient(y, (lhs, rhs, bias))
        assert dlhs.shape == shape
        assert not drhs.numpy().any()
        assert not dbias.numpy().any()


def test_nan_passes_and_infinity_is_kept(device: ck.Device) -> None:
    lhs = ck.asarray([[1.0], [float("nan")], [float("inf")], [float("-inf")]])
    y = nn.matmul_add_relu(lhs, ck.ones((1, 1)), ck.zeros(1)).numpy()[:, 0]
    assert y[0] == 1.0
    assert np.isnan(y[1])
    assert y[2] == np.inf
    assert y[3] == 0.0


def test_dtypes_promote(device: ck.Device) -> None:
    y = nn.matmul_add_relu(random(0, (2, 3), "float32"), random(1, (3, 2), "float64"), ck.zeros(2, "float16"))
    assert y.dtype == ck.float64


@pytest.mark.parametrize("strategy", ["save", "recompute"])
def test_derivatives_to_second_order(device: ck.Device, strategy: str) -> None:
    arrays = (random(0, (2, 3, 4)), random(1, (4, 5)), random(2, (5,)))
    assert gradcheck(lambda *own: nn.matmul_add_relu(*own, strategy=strategy), arrays, order=2)


def test_gradients_of_one_argument_alone(device: ck.Device) -> None:
    arrays = [random(0, (2, 3, 4)), random(1, (4, 5)), random(2, (5,))]
    for i in range(3):

        def chosen(one: ck.Array, i: int = i) -> list[ck.Array]:
            return [one if i == j else own for j, own in enumerate(arrays)]

        check_equal(
            lambda one, chosen=chosen: nn.matmul_add_relu(*chosen(one)),
            lambda one, chosen=chosen: composed(*chosen(one)),
            [arrays[i]],
        )


def test_64_bit_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("cukern.nn.matmul_add_relu"), "index_type", lambda *sizes: "long long")
    arrays = [random(0, (2, 3, 4)), random(1, (4, 5)), random(2, (5,))]
    check_equal(nn.matmul_add_relu, composed, arrays)


def test_recompute_does_not_keep_the_output(device: ck.Device) -> None:
    lhs, rhs, bias = random(0, (3, 4)), random(1, (4, 5)), random(2, (5,))
    kept = {}
    for strategy in ("save", "recompute"):
        with ck.Tape() as tape:
            tape.watch(lhs)
            y = nn.matmul_add_relu(lhs, rhs, bias, strategy=strategy)
        kept[strategy] = any(
            one is not None and one.shape == y.shape for _, _, _, saved, *_ in tape._records for one in saved
        )
    assert kept == {"save": True, "recompute": False}


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    lhs, rhs, bias = ck.zeros((2, 3)), ck.zeros((3, 4)), ck.zeros(4)
    with pytest.raises(ValueError, match="rhs: expected 3 rows"):
        nn.matmul_add_relu(lhs, ck.zeros((2, 4)), bias)
    with pytest.raises(ValueError, match="lhs: expected at least 2 axes"):
        nn.matmul_add_relu(ck.zeros(3), rhs, bias)
    with pytest.raises(ValueError, match=r"do not broadcast: lhs \(2, 3\), rhs \(3, 4\), bias \(5,\)"):
        nn.matmul_add_relu(lhs, rhs, ck.zeros(5))
    with pytest.raises(ValueError, match="strategy: expected 'save' or 'recompute', got 'forget'"):
        nn.matmul_add_relu(lhs, rhs, bias, strategy="forget")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bias: expected a floating dtype, got int64"):
        nn.matmul_add_relu(lhs, rhs, ck.asarray([1, 2, 3, 4]))
    with pytest.raises(TypeError, match="rhs: expected an array, .* got dict"):
        nn.matmul_add_relu(lhs, {}, bias)  # type: ignore[arg-type]
