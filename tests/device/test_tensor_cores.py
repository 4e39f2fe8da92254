"""Products on tensor cores that end with an elementwise expression, on both devices, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from nn_support import close, sized
from product_support import make_plan

import cukern as ck
from cukern import dtypes, nn
from cukern.array.layout import fresh_layout
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import Program, program
from cukern.launch.family import STAND_IN
from cukern.linear.aligned import Aligned
from cukern.linear.families import PRODUCT
from cukern.linear.library import Library
from cukern.linear.problem import Product
from cukern.linear.tma import Tma
from cukern.linear.variants import OneLaunch, TensorCores
from cukern.testing import assert_close

TILES = [TensorCores(*one) for one in TensorCores.tiles]
SMALL, LARGE, GROUPED = TILES[-1], TILES[2], TILES[1]


def bias_and_relu(dtype: dtypes.DType) -> Program:
    product, bias = Expr(input_node(0, dtypes.float32)), Expr(input_node(1, dtype))
    made = ck.relu(ck.add(product, bias)).astype(dtype)
    return program("product", (made.node,), (dtypes.float32, dtype))


def check(a: ck.Array, b: ck.Array, bias: ck.Array, tile: OneLaunch) -> None:
    """The product against NumPy's; the kernel must take the layouts."""
    plan = make_plan(bias_and_relu(a.dtype), a._planned(), b._planned(), [bias._planned()], tile)
    assert plan is not None
    made = plan(a, b, bias)
    left, right, added = (x.numpy().astype(float) for x in (a, b, bias))
    exact = np.maximum(left @ right + added, 0)
    assert made.shape == exact.shape
    # Sums in float32, rounded once to the dtype.
    unit = float(ck.finfo(a.dtype).eps)
    size = np.abs(left) @ np.abs(right) + np.abs(added)
    assert_close(made, exact, rtol=unit, atol=1e-6 * size)


def random(device: ck.Device, dtype: str, *shape: int, swapped: bool = False) -> ck.Array:
    rng = np.random.default_rng(sum(shape))
    if swapped:
        shape = (*shape[:-2], shape[-1], shape[-2])
    x = ck.asarray(rng.standard_normal(shape).astype(dtypes.as_dtype(dtype)), device=device)
    return ck.swapaxes(x, -1, -2) if swapped else x


def needs(device: ck.Device, tile: TensorCores) -> None:
    if tile.grouped and device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")


#: Every layout in float16; bfloat16 in one, and in the rest it is thorough.
_LAYOUTS = [
    pytest.param(
        *swapped, dtype, marks=() if dtype == "float16" or swapped == (False, True) else pytest.mark.thorough
    )
    for swapped in ((False, False), (False, True), (True, False), (True, True))
    for dtype in ("float16", "bfloat16")
]


@pytest.mark.parametrize(("a_swapped", "b_swapped", "dtype"), _LAYOUTS)
@pytest.mark.parametrize("tile", [SMALL, GROUPED], ids=["mma", "wgmma"])
def test_layouts_of_the_factors(
    device: ck.Device, dtype: str, a_swapped: bool, b_swapped: bool, tile: TensorCores
) -> None:
    needs(device, tile)
    a = random(device, dtype, 152, 328, swapped=a_swapped)
    b = random(device, dtype, 328, 80, swapped=b_swapped)
    check(a, b, random(device, dtype, 80), tile)


@pytest.mark.parametrize("sizes", [(1, 8, 1), (1, 200, 8), (70, 40, 73), (200, 136, 9)], ids=str)
def test_sizes_that_no_tile_divides(device: ck.Device, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    b = random(device, "bfloat16", k, n, swapped=True)
    check(random(device, "bfloat16", m, k), b, random(device, "bfloat16", n), SMALL)


@pytest.mark.parametrize("tile", [LARGE, TILES[0]], ids=["mma", "wgmma"])
def test_the_largest_tile(device: ck.Device, tile: TensorCores) -> None:
    needs(device, tile)
    a, b = random(device, "float16", 260, 200), random(device, "float16", 200, 264)
    check(a, b, random(device, "float16", 264), tile)


def test_batches_and_operands_that_broadcast(device: ck.Device) -> None:
    a, b = random(device, "bfloat16", 2, 3, 40, 16), random(device, "bfloat16", 2, 3, 16, 24)
    for bias in ((24,), (40, 1), (), (2, 3, 40, 24)):
        check(a, b, random(device, "bfloat16", *bias), SMALL)
    check(a, random(device, "bfloat16", 16, 24), random(device, "bfloat16", 24), SMALL)
    check(random(device, "bfloat16", 40, 16), b, random(device, "bfloat16", 40, 24), SMALL)


def test_layouts_that_the_kernel_cannot_take(device: ck.Device) -> None:
    relu = bias_and_relu(dtypes.bfloat16)

    def plan(a: ck.Array, b: ck.Array) -> object:
        one = random(device, "bfloat16", 1)
        return make_plan(relu, a._planned(), b._planned(), [one._planned()], SMALL)

    a, b = random(device, "bfloat16", 16, 24), random(device, "bfloat16", 24, 32)
    assert plan(a, b) is not None
    assert plan(random(device, "bfloat16", 16, 23), random(device, "bfloat16", 23, 32)) is None
    assert plan(a[::-1], b) is None
    assert plan(random(device, "bfloat16", 16, 48)[:, ::2], b) is None
    assert plan(a[:0], b) is None
    assert plan(a[:, :0], b[:0]) is None
    assert (
        plan(random(device, "bfloat16", 2, 3, 16, 24)[:, :2], random(device, "bfloat16", 2, 2, 24, 32))
        is None
    )
    if device.kind == "cuda":
        assert plan(random(device, "bfloat16", 16, 25)[:, 1:], b) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x: x(40, 37), lambda x: x(37, 24)),
        (lambda x: x(37, 41).mT, lambda x: x(37, 25)),
        (lambda x: x(2, 40, 74)[:, :, 1:38], lambda x: x(2, 25, 37).mT),
    ],
    ids=["rows", "transposed", "views"],
)
def test_factors_whose_rows_begin_anywhere(
    device: ck.Device, left: Callable[..., ck.Array], right: Callable[..., ck.Array]
) -> None:
    """They are copied to rows that begin at multiples of 16 bytes, in their order."""
    a, b = (one(partial(random, device, "bfloat16")) for one in (left, right))
    with ck.kernels_only(), PRODUCT.only("aligned copies", "tensor cores") as used:
        made = a @ b
    assert [one.name for one in used] == ["aligned copies", "tensor cores"]
    close(made, sized(np.matmul, a, b))
    if b.ndim == 2:  # a bias is added by another kernel
        weight, bias = b.mT, random(device, "bfloat16", b.shape[-1])
        with ck.kernels_only(), PRODUCT.only("aligned copies", "tensor cores"):
            close(nn.linear(a, weight, bias), sized(lambda a, w, c: a @ w.T + c, a, weight, bias))


def test_gradients_of_factors_whose_rows_begin_anywhere(device: ck.Device) -> None:
    a, b = random(device, "bfloat16", 40, 37), random(device, "bfloat16", 37, 25)
    g = random(device, "bfloat16", 40, 25)
    with PRODUCT.only("aligned copies", "tensor cores"):
        for _ in range(2):  # and again, by what is known
            with ck.Tape() as tape:
                tape.watch(a, b)
                y = a @ b
            of_a, of_b = tape.gradient(y, [a, b], g)
    close(of_a, sized(lambda g, b: g @ b.T, g, b))
    close(of_b, sized(lambda a, g: a.T @ g, a, g))


def test_libraries_are_left_where_they_are_slow() -> None:
    """At sizes of a vocabulary that is no multiple of 8, by the cost models of an H200."""
    host = ck.Device("host")
    form = partial(fresh_layout, host, ck.bfloat16)
    tokens, weight, classes = form((8192, 768)), form((50257, 768)), form((8192, 50257))
    for problem, best in (
        (Product(tokens, weight, transposed=True), "tma"),
        (Product(classes, weight), "aligned copies"),
    ):
        costs = {
            kind.name: min(one.cost(problem, STAND_IN) for one in kind.configs(problem, STAND_IN))
            for kind in (Library, Tma, Aligned)
            if not kind.fits(problem, STAND_IN)
        }
        assert min(costs, key=costs.__getitem__) == best, costs


def test_costs_of_copies() -> None:
    """Also where a library alone multiplies them; a GPU without tensor maps takes longer."""
    form = partial(fresh_layout, ck.Device("host"), ck.bfloat16)
    batches = Product(form((2, 3, 40, 37)), form((3, 37, 25)))
    assert Aligned.of_copies(batches).gemm is None and Aligned().cost(batches, STAND_IN) > 0
    problem, before = (
        Product(form((8192, 50257)), form((50257, 768))),
        STAND_IN._replace(compute_capability=(8, 0)),
    )
    assert Aligned().cost(problem, before) > Aligned().cost(problem, STAND_IN)
