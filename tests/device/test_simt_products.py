"""Products on CUDA cores that end with an elementwise expression, on both devices, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nn_support import close, sized

import cukern as ck
from cukern.launch.family import Used
from cukern.linear.families import PRODUCT
from cukern.linear.library import Library
from cukern.linear.variants import Simt
from cukern.testing import gradcheck

FLOATS = ["float16", "bfloat16", "float32", "float64"]


@ck.fuse
def ended(x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
    return ck.relu(x @ w + b)


@ck.fuse
def smooth(x: ck.Array, w: ck.Array, b: ck.Array, scale: float) -> ck.Array:
    return ck.tanh(x @ w * scale) * b


def random(dtype: str, *shape: int) -> ck.Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return ck.asarray(rng.standard_normal(shape)).astype(dtype)


@pytest.fixture
def used(device: ck.Device) -> Iterator[Used]:
    """The launches; all that the kernel takes it gets."""
    with PRODUCT.only("simt", "library") as found:
        yield found


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_sums_of_signed_integers_wrap_around(used: Used, dtype: str) -> None:
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    x, w = (rng.integers(limits.min, limits.max, shape, dtype) for shape in ((3, 70), (70, 5)))
    right = np.maximum(x @ w, 1)
    assert right.max() > 1
    made = ck.fuse(lambda x, w: ck.maximum(x @ w, 1))(ck.asarray(x), ck.asarray(w))
    np.testing.assert_array_equal(made.numpy(), right)


def check(*arrays: ck.Array) -> None:
    close(ended(*arrays), sized(lambda x, w, b: np.maximum(x @ w + b, 0), *arrays))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 17, 33), (70, 5, 200), (257, 64, 128)], ids=str)
def test_sizes_and_dtypes(used: Used, dtype: str, sizes: tuple[int, int, int]) -> None:
    """Tiles of 32 columns and of 64, full and not; one k-block of the depth, and several."""
    m, k, n = sizes
    check(random(dtype, m, k), random(dtype, k, n), random(dtype, n))
    assert used == [Simt(32 if n <= 32 else 64, 8 if dtype == "float64" else 16)]


@pytest.mark.parametrize("tile_n", [32, 64, 128, 256])
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_tiles(device: ck.Device, dtype: str, tile_n: int) -> None:
    with PRODUCT.only("simt", tile_n=tile_n) as used:
        check(random(dtype, 130, 37), random(dtype, 37, 264), random(dtype, 130, 1))
    assert [one.tile_n for one in used] == [tile_n]


def test_batches_and_operands_that_broadcast(used: Used) -> None:
    x, w = random("float32", 2, 3, 9, 16), random("float32", 2, 3, 16, 24)
    operands = [random("float32", *shape) for shape in ((24,), (9, 1), (), (2, 3, 9, 24), (2, 3, 9, 1))]
    for b in operands:
        check(x, w, b)
    check(x, w[0, 0], operands[0])
    check(x[0, 0], w, operands[3])
    check(ck.broadcast_to(x[:1, :1], x.shape), w, operands[0])
    assert len(used) == 8 and all(isinstance(one, Simt) for one in used)
    check(x, w, random("float32", 3, 1, 24))  # no single step leads through the batch
    assert any(isinstance(one, Library) for one in used[8:])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_strided_factors_and_operands(used: Used, dtype: str) -> None:
    """Backwards, with gaps, transposed, of one address; rows that begin anywhere."""
    rows = random(dtype, 50, 67)
    lefts = [rows[::-2, 1:34], rows[:40, ::-2][:, :33], random(dtype, 33, 40).T]
    lefts += [ck.broadcast_to(random(dtype, 33), (40, 33)), ck.broadcast_to(random(dtype, 40, 1), (40, 33))]
    rights = [random(dtype, 33, 50)[:, ::-2], random(dtype, 100, 67).T[::2, 1::4][:33]]
    for x in lefts:
        for w in rights:
            check(x, w, random(dtype, 2 * w.shape[1])[::-2])
    check(lefts[2], rights[0], random(dtype, 25, 40).T)
    assert len(used) == 11 and all(isinstance(one, Simt) for one in used)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_product_is_saved_for_a_derivative(used: Used, launches: list[str], dtype: str) -> None:
    arrays = [random(dtype, *shape) for shape in ((2, 35, 20), (20, 70), (35, 1))]
    alone = smooth(*arrays, 0.25)
    launches.clear()
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = smooth(*arrays, 0.25)
    assert launches == []
    assert y.tolist() == alone.tolist()
    assert [(type(one), problem.saves) for one, problem in zip(used, used.problems, strict=True)] == [
        (Simt, False),
        (Simt, True),
    ]
    g = random(dtype, *y.shape)
    found = tape.gradient(y, arrays, g)

    def exact(x: np.ndarray, w: np.ndarray, b: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        made = np.tanh(x @ w * 0.25)
        down = 0.25 * g * b * (1 - made * made)
        left = (np.swapaxes(x, -1, -2) @ down).sum(0)
        return down @ w.T, left, (g * made).sum((0, -1))[:, None]

    for one, want in zip(found, sized(exact, *arrays, g), strict=True):
        close(one, want, 2 if dtype in ("float16", "bfloat16") else None)


def test_derivatives_to_second_order(used: Used) -> None:
    x, w, b = (random("float64", *shape) for shape in ((2, 3, 4), (4, 5), (5,)))
    assert gradcheck(lambda x, w, b: smooth(x, w, b, 0.5), [x, w, b], order=2)
    assert any(isinstance(one, Simt) for one in used)
