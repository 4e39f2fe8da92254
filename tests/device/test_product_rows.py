"""Products whose rows a reduction makes numbers of in the same launch, on both devices, against NumPy in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_tensor_cores import GROUPED, SMALL, TILES, needs

import cukern as ck
from cukern import dtypes
from cukern.elementwise.graph import input_node
from cukern.elementwise.program import program
from cukern.launch.family import STAND_IN, Used
from cukern.launch.variant import Variant
from cukern.linear.families import PRODUCT
from cukern.linear.few_rows import FewRows
from cukern.linear.library import Library
from cukern.linear.problem import Product, Rows
from cukern.linear.tma import Tma
from cukern.linear.variants import Simt, TensorCores
from cukern.reduction import rows
from cukern.testing import assert_close, gradcheck

#: Where rows are reduced: on CUDA cores, by mma and by wgmma, with tiles of so many columns.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "simt": ("simt", {}),
    "mma": ("tensor cores", dataclasses.asdict(SMALL)),
    "wide mma": ("tensor cores", dataclasses.asdict(TILES[3])),
    "wgmma": ("tensor cores", dataclasses.asdict(GROUPED)),
}


def random(dtype: str, *shape: int) -> ck.Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return ck.asarray(rng.standard_normal(shape)).astype(dtype)


@pytest.fixture
def ran(device: ck.Device) -> Iterator[Used]:
    """The launches on CUDA cores that make products and reduce their rows: all that they take they get."""
    with PRODUCT.only("simt", "library") as used:
        yield used


def reduced(used: Used) -> list[str]:
    """The launches that reduce rows: the reduction, and whether the product is saved."""
    pairs = zip(used, used.problems, strict=True)
    return [
        f"{problem.rows.reduction.name}{' saving' if problem.saves else ''}"
        for config, problem in pairs
        if problem.rows is not None and not isinstance(config, Library)
    ]


def ended(name: str, **options: Any) -> Callable[..., ck.Array]:
    """The reduction of an expression of a product, of numbers of about 1."""
    reduce = getattr(ck, name)
    return ck.fuse(lambda x, w, b: reduce(ck.sin(x @ w * 0.25) + b, axis=-1, **options))


def check(name: str, x: ck.Array, w: ck.Array, b: ck.Array, **options: Any) -> None:
    """Against NumPy's reduction, as far as roundings to the dtype of the result and of a sum's terms may be away."""
    made = ended(name, **options)(x, w, b)
    left, right, added = (one.numpy().astype(float) for one in (x, w, b))
    values = np.sin(left @ right * 0.25) + added
    of_numpy = getattr(np, name, lambda x, axis: np.log(np.exp(x).sum(axis)))
    exact = of_numpy(values, axis=-1, **options)
    assert made.shape == exact.shape
    if made.dtype not in dtypes.FLOATS:
        np.testing.assert_array_equal(made.numpy(), exact)
        return
    unit = float(ck.finfo(made.dtype).eps)
    size = np.abs(values).sum(-1, keepdims=options.get("keepdims", False))
    sums = 1e-14 if made.dtype == ck.float64 else 2e-6
    assert_close(made, exact, rtol=unit, atol=sums * size)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "logsumexp"])
def test_reductions(device: ck.Device, name: str, form: str) -> None:
    """Warps share rows, blocks end beyond the last one, and columns do not fill the tile."""
    variant, fields = FORMS[form]
    if fields:
        needs(device, TensorCores(**fields))
    dtype = "float16" if fields else "float64"
    with PRODUCT.only(variant, **fields) as used:
        check(name, random(dtype, 200, 40), random(dtype, 40, 56), random(dtype, 56))
    assert reduced(used) == [name]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 17, 33), (70, 5, 200), (257, 64, 256)], ids=str)
def test_sizes_and_dtypes_without_tensor_cores(ran: Used, dtype: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    check("sum", random(dtype, m, k), random(dtype, k, n), random(dtype, n), keepdims=True)
    assert len(reduced(ran)) == 1


@pytest.mark.parametrize("sizes", [(1, 8, 1), (70, 200, 9), (130, 16, 64)], ids=str)
def test_sizes_that_no_tile_divides(device: ck.Device, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    with PRODUCT.only("tensor cores", **dataclasses.asdict(SMALL)) as used:
        check("mean", random("bfloat16", m, k), random("bfloat16", n, k).T, random("bfloat16", m, 1))
    assert reduced(used) == ["mean"]


def test_batches_views_and_numbers(ran: Used) -> None:
    x, w = random("float32", 2, 3, 9, 16), random("float32", 2, 3, 16, 24)
    for b in (random("float32", 24), random("float32", 9, 1), random("float32", 2, 3, 9, 1)):
        check("max", x, w, b)
    check("sum", x, w[0, 0], random("float32", 24))
    check("sum", x[0, 0], w, random("float32", 24))
    check("sum", x[0, 0, ::-2, ::-1], random("float32", 50, 32).T[::2, 1::3], random("float32", 34)[::-2])
    assert len(reduced(ran)) == 6
    check("sum", x, w, random("float32", 3, 1, 24))  # no single step leads through the batch
    assert len(reduced(ran)) == 6
    scaled = ck.fuse(lambda x, w, k: ck.sum(x @ w * k, axis=-1))
    wide = (x[0, 0].numpy().astype(float), w[0, 0].numpy().astype(float))
    np.testing.assert_allclose(scaled(x[0, 0], w[0, 0], 0.5).numpy(), (wide[0] @ wide[1] * 0.5).sum(-1), 1e-5)
    assert "Row::push" in scaled.source(x[0, 0], w[0, 0], 0.5)


def test_a_result_of_another_dtype_and_values_that_are_rounded(ran: Used) -> None:
    x, w = random("float16", 9, 8), random("float16", 8, 16)
    product = x.numpy().astype(float) @ w.numpy().astype(float)
    made = ck.fuse(lambda x, w: ck.sum(x @ w, axis=-1, dtype="float32"))(x, w)
    assert made.dtype == ck.float32
    np.testing.assert_allclose(made.numpy(), product.sum(-1), rtol=1e-5, atol=1e-5)
    made = ck.fuse(lambda x, w: ck.sum(x @ w > 0, axis=-1))(x, w)
    assert made.tolist() == (product > 0).sum(-1).tolist()
    made = ck.fuse(
        lambda x, w: ck.max((x @ w).astype("float32").astype("float16").astype("float32"), axis=-1)
    )(x, w)
    assert len(reduced(ran)) == 3
    np.testing.assert_array_equal(made.numpy(), made.numpy().astype(np.float16))


def test_what_stays_two_launches(ran: Used, launches: list[str]) -> None:
    """Rows that fit no tile, other axes, a reduction with a parameter, and a product that others read."""
    x, w = random("float32", 5, 8), random("float32", 8, 300)
    exact = x.numpy().astype(float) @ w.numpy().astype(float)
    np.testing.assert_allclose(ck.fuse(lambda x, w: ck.sum(x @ w, -1))(x, w).numpy(), exact.sum(-1), 1e-4)
    x, w = random("float32", 5, 8), random("float32", 8, 20)
    launches.clear()
    for function in (
        lambda x, w: ck.sum(x @ w, 0),
        lambda x, w: ck.sum(x @ w),
        lambda x, w: ck.var(x @ w, -1),
        lambda x, w: (ck.sum(x @ w, -1), ck.exp(x @ w)),
    ):
        ck.fuse(function)(x, w)
    assert reduced(ran) == []
    assert launches == ["sum", "sum", "var", "lambda", "sum"]


def test_no_elements(ran: Used) -> None:
    total = ck.fuse(lambda x, w: ck.sum(x @ w + 1, axis=-1))
    assert total(ck.zeros((3, 0)), ck.zeros((0, 2))).tolist() == [2.0] * 3
    assert total(ck.zeros((3, 2)), ck.zeros((2, 0))).tolist() == [0.0] * 3
    assert total(ck.zeros((0, 2)), ck.zeros((2, 3))).shape == (0,)
    with pytest.raises(ValueError, match="max: no value to reduce"):
        ck.fuse(lambda x, w: ck.max(x @ w, axis=-1))(ck.zeros((3, 2)), ck.zeros((2, 0)))
    assert reduced(ran) == []


def test_one_launch_with_a_tape_and_without(ran: Used, launches: list[str]) -> None:
    """The launch saves the product, which the derivative reads; a maximum's compares the values themselves."""
    arrays = [random("float64", *shape) for shape in ((5, 8), (8, 20), (20,))]
    launches.clear()
    alone = ended("sum")(*arrays)
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = ended("sum")(*arrays)
    assert reduced(ran) == ["sum", "sum saving"]
    assert launches == []
    assert y.tolist() == alone.tolist()
    tape.gradient(y, arrays)
    assert launches == ["lambda_vjp", "sum"]
    launches.clear()
    with ck.Tape() as tape:
        tape.watch(*arrays)
        ended("max")(*arrays)
        assert launches == ["lambda", "max"]
        ended("argmax")(*arrays)
    assert launches == ["lambda", "max"]  # it has no derivative


@pytest.mark.parametrize("name", ["sum", "mean", "max", "logsumexp"])
def test_derivatives_to_second_order(ran: Used, name: str) -> None:
    x, w, b = (random("float64", *shape) for shape in ((2, 3, 4), (4, 5), (5,)))
    assert gradcheck(ended(name), [x, w, b], order=2)
    assert any("saving" in one for one in reduced(ran)) == (name != "max")


def test_rows_have_to_fit_a_tile() -> None:
    """Of tensor cores that of the widest tile; the host's library multiplies."""
    sums = Rows(rows.sum.row, False, dtypes.bfloat16)

    def why(variant: type[Variant[Product]], n: int) -> str:
        layouts = [ck.zeros(shape, "bfloat16", "host")._planned() for shape in ((8, 64), (64, n))]
        made = program("made", (input_node(0, dtypes.bfloat16),), (dtypes.bfloat16,))
        return variant.fits(Product(*layouts, (), made, sums), STAND_IN)

    assert why(TensorCores, 256) == why(Simt, 256) == ""
    assert why(TensorCores, 264) == "no tile has whole rows"
    assert why(Simt, 264) == "for rows of at most 256 columns"
    assert why(Tma, 64) == "rows are reduced"
    assert why(FewRows, 64) == "for one result, whose rows are not reduced"
