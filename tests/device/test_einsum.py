"""einsum: NumPy's values for drawn subscripts, the order of several operands, derivatives and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern.testing import assert_close, gradcheck

LABELS = "abcd"


@st.composite
def sums(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts, and shapes that fit them: sizes of 1 broadcast, labels may be repeated."""
    sizes = {label: draw(st.integers(0, 3), label=label) for label in LABELS}
    terms = draw(st.lists(st.text(LABELS, max_size=3), min_size=1, max_size=4))
    shapes = []
    for term in terms:
        narrow = set(draw(st.lists(st.sampled_from(LABELS), max_size=1)))
        shapes.append(tuple(1 if label in narrow else sizes[label] for label in term))
    used = sorted(set("".join(terms)))
    output = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    explicit = draw(st.booleans())
    return ",".join(terms) + ("->" + "".join(output) if explicit else ""), shapes


def values(shapes: list[tuple[int, ...]], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape) for shape in shapes]


@given(sums())
def test_is_numpys(drawn: tuple[str, list[tuple[int, ...]]]) -> None:
    subscripts, shapes = drawn
    operands = values(shapes)
    got = ck.einsum(subscripts, *map(ck.asarray, operands))
    want = np.einsum(subscripts, *operands)
    assert got.shape == want.shape
    assert_close(got, want)


@given(sums(), st.sampled_from([True, False, "greedy", "optimal"]))
def test_order_of_operands_does_not_matter(drawn: tuple[str, list[tuple[int, ...]]], optimize: Any) -> None:
    subscripts, shapes = drawn
    operands = list(map(ck.asarray, values(shapes)))
    assert_close(ck.einsum(subscripts, *operands, optimize=optimize), ck.einsum(subscripts, *operands))


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("i...->...", [(3, 2, 4)]),
        ("...,...", [(2, 3), (3,)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...i,...i", [(2, 3), (1, 3)]),
        ("i...j,j->i...", [(2, 3, 4, 5), (5,)]),
        ("...", [()]),
        (",", [(), ()]),
        (" ij , jk -> ik ", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ],
)
def test_ellipses_and_spelling(device: ck.Device, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    operands = values(shapes)
    got = ck.einsum(subscripts, *map(ck.asarray, operands))
    want = np.einsum(subscripts, *operands)
    assert got.shape == want.shape
    assert_close(got, want)


def test_a_given_order(device: ck.Device) -> None:
    operands = values([(2, 3), (3, 4), (4, 5)])
    path, _ = np.einsum_path("ij,jk,kl->il", *operands)
    got = ck.einsum("ij,jk,kl->il", *map(ck.asarray, operands), optimize=path)
    assert_close(got, operands[0] @ operands[1] @ operands[2])


def test_lists_of_labels(device: ck.Device) -> None:
    a, b = values([(2, 3, 4), (4, 5)])
    got = ck.einsum(ck.asarray(a), [..., 0, 1], ck.asarray(b), [1, 2], [..., 2, 0])
    assert_close(got, np.einsum("...ij,jk->...ki", a, b))


def test_operands_have_a_common_dtype_first(device: ck.Device) -> None:
    narrow = ck.asarray([100], dtype="int8")
    made = ck.einsum("i,i,i->i", narrow, narrow, ck.asarray([1.0], dtype="float64"), optimize=False)
    assert made.dtype == ck.float64
    assert made.tolist() == [10000.0]
    assert ck.einsum("i,i->", narrow, ck.asarray([1], dtype="int16")).dtype == ck.int16


def test_a_given_dtype(device: ck.Device) -> None:
    narrow = ck.asarray([100, 100], dtype="int8")
    made = ck.einsum("i,i->", narrow, narrow, dtype="int32")
    assert made.dtype == ck.int32 and made.item() == 20000
    assert ck.einsum("i->", ck.asarray([1.5]), dtype="int32", casting="unsafe").tolist() == 1
    with pytest.raises(TypeError, match="cannot cast float64 to float32, casting='safe'"):
        ck.einsum("i->", ck.ones(2, "float64"), dtype="float32")
    square = np.arange(4.0).reshape(2, 2)
    for subscripts in ("ij->ji", "ii->i", "...j"):  # views keep their dtype
        made = ck.einsum(subscripts, ck.asarray(square), dtype="int32")
        wanted = np.einsum(subscripts, square, dtype="int32")
        assert made.dtype == wanted.dtype and made.tolist() == wanted.tolist()


def test_a_limit_of_intermediates(device: ck.Device) -> None:
    arrays = [np.arange(n, dtype=np.float64) for n in (2, 3, 4)]
    for limit in (0, 6):
        made = ck.einsum("a,b,c->abc", *map(ck.asarray, arrays), optimize=("greedy", limit))
        np.testing.assert_array_equal(made.numpy(), np.einsum("a,b,c->abc", *arrays))


def test_an_operand_itself_is_a_view(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    made = ck.einsum("ij->ij", x)
    assert made is not x and ck.shares_memory(made, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_sums_are_of_float32(device: ck.Device, dtype: str) -> None:
    x = ck.full((2, 4096), 0.5, dtype=dtype)
    assert ck.einsum("bi,bi->b", x, x).tolist() == [1024.0, 1024.0]
    assert ck.einsum("bi->b", x).tolist() == [2048.0, 2048.0]


def test_diagonals_and_transposes_are_views(device: ck.Device) -> None:
    x = ck.zeros((3, 3))
    ck.einsum("ii->i", x)[...] = 1
    assert x.tolist() == np.eye(3).tolist()
    ck.einsum("ij->ji", x)[0, 2] = 5
    assert x[2, 0].item() == 5


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,ik->k", [(1, 3), (3, 2), (4, 2)]),
        ("bij,bjk,b->ik", [(2, 3, 4), (2, 4, 2), (2,)]),
        ("iij,jk->ik", [(3, 3, 2), (2, 4)]),
        ("bi,bi->b", [(3, 4), (3, 4)]),
        ("i,i,i->i", [(3,), (1,), (3,)]),
        ("ii", [(3, 3)]),
    ],
)
def test_gradients(device: ck.Device, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    operands = list(map(ck.asarray, values(shapes)))
    assert gradcheck(lambda *arrays: ck.einsum(subscripts, *arrays), operands, order=2)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(2, 3), (4, 5)]),
        ("ij", [(2,)]),
        ("ij,jk", [(2, 3)]),
        ("ii", [(2, 3)]),
        ("ij->ik", [(2, 3)]),
        ("ij->ii", [(2, 3)]),
        ("i.j", [(2, 3)]),
        ("ij->i->j", [(2, 3)]),
    ],
)
def test_refusals(device: ck.Device, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="einsum: "):
        ck.einsum(subscripts, *(ck.zeros(shape) for shape in shapes))
    with pytest.raises(ValueError, match="."):
        np.einsum(subscripts, *(np.zeros(shape) for shape in shapes))


def test_refuses_what_is_no_array(device: ck.Device) -> None:
    with pytest.raises(TypeError, match=r"einsum: operands\[2\]: expected an array, a number .* got str"):
        ck.einsum("i,->i", ck.ones(2), "3.0")
    with pytest.raises(ValueError, match="expected at least one array"):
        ck.einsum("i")
