"""Functions that NumPy serves on the host from a number of elements on: the same results, errors and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.kernel import by_numpy
from cukern.kernel.by_numpy import MANY

N = MANY + 7
_RNG = np.random.default_rng(5)
X = _RNG.standard_normal(N).astype(np.float32)
Y = _RNG.standard_normal(N).astype(np.float32)
M = _RNG.standard_normal((130, 140)).astype(np.float32)
Z = (X + 1e-9j).astype(np.complex64)
INTEGERS = _RNG.integers(-(2**31), 2**31, N).astype(np.int32)
INTEGERS[:4] = -(2**31), 2**31 - 1, 5, -1
DIVISORS = INTEGERS[::-1] // 3 | 1
FLAGS = X > 0.2
WITH_NAN = np.where(np.tile(X, 5) < 0.1, np.float32(np.nan), np.tile(X, 5))
ROWS = np.asarray([3, -1, 0, 3])

#: Calls of the module ``xp``, on arrays that ``a`` converts: the same text for both libraries.
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda xp, a: xp.nonzero(a(FLAGS)),
    lambda xp, a: xp.nonzero(a(M) * (a(M) > 1)),
    lambda xp, a: xp.flatnonzero(a(M)[::2] > 0),
    lambda xp, a: xp.argwhere(a(M) > 0),
    lambda xp, a: xp.take(a(M), a(ROWS), 1),
    lambda xp, a: xp.take(a(M).T, a(ROWS)),
    lambda xp, a: xp.concat([a(M), a(M[:2])]),
    lambda xp, a: xp.concat([a(M), a(X)], None),
    lambda xp, a: xp.stack([a(M), a(M)], 1),
    lambda xp, a: xp.stack([a(M), a(M).astype("int64")], -1),
    lambda xp, a: xp.append(a(M), a(M), 0),
    lambda xp, a: xp.repeat(a(M), np.int64(2)),
    lambda xp, a: xp.diag(a(X[:200]), -2),
    lambda xp, a: xp.eye(130, 140, 3),
    lambda xp, a: xp.eye(130, k=-2),
    lambda xp, a: xp.eye(130, k=131),
    lambda xp, a: xp.linalg.matrix_rank(a(M)),
    lambda xp, a: xp.roll(a(M), 5),
    lambda xp, a: xp.roll(a(M), -5, 1),
    lambda xp, a: xp.diff(a(M), 2, 0),
    lambda xp, a: xp.diff(a(FLAGS)),
    lambda xp, a: xp.diff(a(X)),
    lambda xp, a: xp.ediff1d(a(M)),
    lambda xp, a: xp.array_equal(a(X), a(X)),
    lambda xp, a: xp.array_equiv(a(M), a(M + 1)),
    lambda xp, a: xp.copy(a(M).T),
    lambda xp, a: xp.trace(a(M), 3),
    lambda xp, a: xp.linalg.trace(a(M), offset=-3),
    lambda xp, a: xp.vdot(a(M), a(M)),
    lambda xp, a: xp.dot(a(X), a(Y)),
    lambda xp, a: xp.inner(a(X)[::2], a(Y)[::2]),
    lambda xp, a: xp.matvec(a(M), a(M[0])),
    lambda xp, a: xp.vecmat(a(M[:, 0]), a(M)),
    lambda xp, a: xp.linalg.norm(a(M)),
    lambda xp, a: xp.linalg.norm(a(X), keepdims=True),
    lambda xp, a: xp.argmax(a(M), axis=1),
    lambda xp, a: xp.all(a(FLAGS)),
    lambda xp, a: xp.all(a(np.tile(FLAGS, 5)), keepdims=True),
    lambda xp, a: xp.max(a(np.tile(M, 600)), axis=1, keepdims=True),
    lambda xp, a: xp.argmin(a(np.tile(M, 600)), axis=1, keepdims=True),
    lambda xp, a: a(M)[a(ROWS)],
    lambda xp, a: xp.nanargmax(a(WITH_NAN)),
    lambda xp, a: xp.nanargmin(a(WITH_NAN)),
    lambda xp, a: xp.nanargmin(a(np.tile(X, 5))),
    lambda xp, a: xp.kron(a(M), a(M[:2, :3])),
    lambda xp, a: xp.kron(a(X), a(M[:2, :3])),
    lambda xp, a: xp.polyval(a(Y[:4]), a(M).T),
    lambda xp, a: xp.polyval(a(Y[:0]), a(X)),
    lambda xp, a: xp.unique(a(WITH_NAN)),
    lambda xp, a: xp.unique(a(np.tile(X, 5)), return_counts=True),
    lambda xp, a: xp.unique(a(WITH_NAN), return_counts=True, equal_nan=False),
    lambda xp, a: xp.unique(a(FLAGS), return_counts=True),
    lambda xp, a: xp.count_nonzero(a(FLAGS), keepdims=True),
    lambda xp, a: xp.count_nonzero(a(FLAGS)),
    lambda xp, a: xp.linalg.solve(a(M[:4, :4]), a(M[0, :4])),
    lambda xp, a: a(INTEGERS)[::-1] // -7,
    lambda xp, a: a(INTEGERS) // a(DIVISORS),
    lambda xp, a: a(INTEGERS) % a(DIVISORS),
    lambda xp, a: a(INTEGERS.astype("int8") | 1) // -3,
    lambda xp, a: a(INTEGERS.astype("uint32")) // 3,
    lambda xp, a: a(INTEGERS.astype("uint32")) % a(DIVISORS.astype("uint32")),
    lambda xp, a: xp.conj(a(Z)[::-1]),
    lambda xp, a: xp.abs(a(Z)),
    lambda xp, a: xp.frexp(a(M).T),
]


def _written(xp: Any, a: Any, write: Callable[[Any], Any]) -> Any:
    x = xp.array(a(M))
    write(x)
    return x


def _set(x: Any, key: Any, value: Any) -> None:
    x[key] = value


#: Calls of what NumPy computes that is not among those above.
MORE: list[Callable[[Any, Any], Any]] = [
    lambda xp, a: xp.sort(a(INTEGERS)),
    lambda xp, a: xp.partition(a(np.tile(X, 5)), 7)[7],
    lambda xp, a: a(np.tile(X, 5))[xp.argpartition(a(np.tile(X, 5)), 7)[7]],
    lambda xp, a: xp.median(a(X)),
    lambda xp, a: xp.isin(a(INTEGERS), a(INTEGERS[:9])),
    lambda xp, a: xp.packbits(a(FLAGS)),
    lambda xp, a: xp.unpackbits(a(INTEGERS.astype("uint8"))),
    lambda xp, a: xp.asarray([a(X), a(Y)]),
    lambda xp, a: [
        getattr(xp, name)(a(np.tile(M, 6)), axis=1) for name in ("max", "min", "argmax", "argmin")
    ],
    lambda xp, a: xp.reshape(a(M).T, (-1,)),
    lambda xp, a: xp.any(a(np.tile(FLAGS & False, 5))),
    lambda xp, a: xp.nanmax(a(WITH_NAN)),
    lambda xp, a: xp.nanmin(a(WITH_NAN)),
    lambda xp, a: a(INTEGERS[:16390].reshape(10, -1)) @ a(INTEGERS[:16390].reshape(-1, 10)),
    lambda xp, a: _written(xp, a, lambda x: xp.put(x, ROWS, 2.0)),
    lambda xp, a: _written(xp, a, lambda x: xp.fill_diagonal(x, 3)),
    lambda xp, a: _written(xp, a, lambda x: xp.put_along_axis(x, a(np.arange(140)[None] % 130), 4.0, 0)),
    lambda xp, a: _written(xp, a, lambda x: xp.copyto(x, a(M + 1))),
    lambda xp, a: _written(xp, a, lambda x: _set(x, 3, 2.5)),
    lambda xp, a: _written(xp, a, lambda x: _set(x, a(ROWS), 2.5)),
    lambda xp, a: _written(xp, a, lambda x: _set(x, (a(ROWS),), 2.5)),
    lambda xp, a: _written(xp, a, lambda x: _set(x, a(M > 0), 2.5)),
    lambda xp, a: [a(M)[a(M > 0)], a(M)[a(ROWS)], xp.bincount(a(abs(ROWS)))],
    lambda xp, a: _written(xp, a, lambda x: _set(x, slice(3, 5), a(M[:2]))),
    lambda xp, a: xp.take_along_axis(a(M[:4]), a(ROWS)[:, None], 1),
    lambda xp, a: xp.concat([a(M), a(M[:2]).astype("float64")]),
]


def _same(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            _same(one, other)
        return
    got = mine.numpy() if isinstance(mine, ck.Array) else np.asarray(mine)
    wanted = np.asarray(theirs)
    assert got.shape == wanted.shape
    assert got.dtype.kind == wanted.dtype.kind
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("call", CALLS + MORE, ids=range(len(CALLS + MORE)))
def test_large_arrays(call: Callable[[Any, Any], Any]) -> None:
    _same(call(ck, ck.asarray), call(np, lambda x: x))


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30, 3e38])
def test_norm_out_of_range(value: float) -> None:
    """Of the squares, or of the dtype."""
    with np.errstate(over="ignore"):
        wanted = np.float32(np.float64(np.float32(value)) * N**0.5)
    np.testing.assert_allclose(ck.linalg.norm(ck.full(N, value, ck.float32)).item(), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint32"])
def test_quotients_by_nothing_and_at_the_ends(dtype: str) -> None:
    limits = np.iinfo(dtype)
    ends = np.asarray(
        [limits.min, limits.min + 1, -1 if limits.min else 1, 0, 1, 2, limits.max - 1, limits.max], dtype
    )
    x, y = np.repeat(ends, 8), np.tile(ends, 8)
    with np.errstate(all="ignore"):
        wanted = x // y, x % y
    for got, want in zip(
        (ck.asarray(x) // ck.asarray(y), ck.asarray(x) % ck.asarray(y)), wanted, strict=True
    ):
        np.testing.assert_array_equal(got.numpy(), want)


def test_writes() -> None:
    x, y = ck.array(M), M.copy()
    ck.put(x, ck.asarray(ROWS), 2.0)
    np.put(y, ROWS, 2.0)
    ck.fill_diagonal(x, 3)
    np.fill_diagonal(y, 3)
    rows = np.arange(140)[None] % 130
    ck.put_along_axis(x, ck.asarray(rows), 4.0, 0)
    np.put_along_axis(y, rows, 4.0, 0)
    np.testing.assert_array_equal(x.numpy(), y)
    other = ck.zeros_like(x)
    ck.copyto(other, x)
    np.testing.assert_array_equal(other.numpy(), y)
    ck.copyto(x[:, 1:], x[:, :-1])
    y[:, 1:] = y[:, :-1].copy()
    np.testing.assert_array_equal(x.numpy(), y)


@pytest.mark.parametrize("wrap", [False, True])
def test_tall_diagonal(wrap: bool) -> None:
    x, y = ck.zeros((200, 90)), np.zeros((200, 90), np.float32)
    ck.fill_diagonal(x, 2, wrap)
    np.fill_diagonal(y, 2, wrap)
    np.testing.assert_array_equal(x.numpy(), y)


@pytest.fixture
def checks_places() -> None:
    if not ck.zeros(1).device.addressable:
        pytest.skip("places are clipped on a GPU")


@pytest.mark.usefixtures("checks_places")
def test_errors_are_cukerns_own() -> None:
    x = ck.asarray(X)
    with pytest.raises(IndexError, match=f"take: index {N} is out of bounds for an axis of size {N}"):
        ck.take(x, ck.asarray([0, N]))
    with pytest.raises(IndexError, match=f"put: index {N} is out of bounds for an axis of size {N}"):
        ck.put(x, ck.asarray([0, N]), 1.0)
    np.testing.assert_array_equal(x.numpy(), X)
    with pytest.raises(ValueError, match="concat: shapes"):
        ck.concat([ck.asarray(M), ck.asarray(M[:, 1:])])
    with pytest.raises(ValueError, match="stack: expected one shape"):
        ck.stack([ck.asarray(M), ck.asarray(M[:, 1:])])
    with pytest.raises(ValueError, match="concat: shapes"):
        ck.vstack([ck.asarray(M), ck.asarray(M[:, 1:])])
    with pytest.raises(ValueError, match=r"reshape: an array of shape \(.*\) has no shape \(-2,\)"):
        ck.reshape(x, (-2,))
    with pytest.raises(ValueError, match="do not fit"):
        ck.matvec(ck.asarray(M), x)


@pytest.mark.usefixtures("checks_places")
def test_index_out_of_range() -> None:
    with pytest.raises(IndexError, match="index 130 is out of bounds for an axis of size 130"):
        ck.asarray(M)[ck.asarray([0, 130])]


def test_numpy_is_quiet_in_a_call_alone() -> None:
    with np.errstate(all="raise"):
        big = ck.full(N, 1e30, ck.float32)
        assert np.isinf(ck.dot(big, big).item()) and np.isnan(ck.max(ck.full(N, np.nan, ck.float32)).item())
        assert np.isinf(ck.trace(ck.full((200, 200), 1e38, ck.float32)).item())
        assert np.isneginf(by_numpy.quiet().run(by_numpy.quiet().run, np.log, 0.0))
        with pytest.raises(FloatingPointError):
            np.log(0.0)


def test_only_nan() -> None:
    with pytest.raises(ValueError, match="NaN"):
        ck.nanargmax(ck.full(5 * N, np.nan, ck.float32))


def test_gradients_pass() -> None:
    x = ck.asarray(X)
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.take(x, ck.asarray([1, 1])).sum() + ck.dot(x, x) + ck.roll(x, 1)[0] + ck.diff(x)[0]
    wanted = 2 * X
    wanted[[0, 1, -1]] += [-1, 3, 1]
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), wanted, rtol=1e-6)


def test_writes_to_tracked_arrays_are_refused() -> None:
    x = ck.asarray(M)
    with ck.Tape() as tape:
        tape.watch(x)
        for write in (
            lambda: ck.put(x, ck.asarray([1]), 1.0),
            lambda: ck.fill_diagonal(x, 1.0),
            lambda: ck.copyto(x, ck.asarray(M)),
        ):
            with pytest.raises(ck.GradientError):
                write()


def test_one_element_is_an_array_of_its_own() -> None:
    x = ck.arange(N, dtype="float32")
    for made in (ck.take(x, 3), x[ck.asarray(3)], x[:9][ck.asarray(3)]):
        made[...] = 5
        assert (made + 1).item() == 6
    assert x[3].item() == 3


def test_axes_out_of_range() -> None:
    x = ck.asarray(X)
    for call in (lambda: ck.compress(ck.ones(3, dtype=bool), x, axis=5), lambda: ck.roll(x, 1, axis=2)):
        with pytest.raises(IndexError, match="axis . is out of bounds for an array with 1 axes"):
            call()


@pytest.mark.usefixtures("checks_places")
def test_reads_of_unset_memory_are_reported() -> None:
    with ck.testing.checked(collect=True) as reports:
        ck.copy(ck.empty(N)) + 1
    assert reports


def _reasons(call: Callable[..., Any], *args: Any) -> dict[str, str]:
    """Why NumPy did not compute each function that it was asked for, or ""."""
    with ck.device("host"):
        found = ck.explain(call, *args).problems
    return {of.name: problem[1] for of, problem in found if isinstance(of, by_numpy.ByNumPy)}


@pytest.mark.unchecked_only("in checked ones it computes nothing")
def test_each_variant_is_used_and_none_beside_kernels_only() -> None:
    used, left = set(), set()
    ck.floor_divide.quick.clear()  # a kernel that has run serves the same layouts again
    for call in CALLS + MORE:
        used |= {name for name, why in _reasons(call, ck, ck.asarray).items() if not why}
        with ck.kernels_only():
            reasons = _reasons(call, ck, ck.asarray)
        assert "" not in reasons.values()
        left |= {name for name, why in reasons.items() if why == "kernels only"}
    assert used == set(by_numpy.VARIANTS)
    assert len(left) > 30


@pytest.mark.unchecked_only("in checked ones it computes nothing")
def test_explanations_name_what_computes() -> None:
    with ck.device("host"):
        x, several = ck.asarray(X), ck.asarray(np.tile(X, 5))
    assert _reasons(ck.sort, several) == {"sort": ""}
    zeros = _reasons(ck.sort, ck.asarray([0.0, -0.0], device="host"))
    assert zeros == {"sort": "the order of zeros of two signs shows"}
    assert _reasons(lambda: ck.sort(several, descending=True))["sort"].startswith(
        "floats in descending order"
    )
    assert _reasons(ck.concat, [x, x]) == {"copy to a part": ""}
    assert _reasons(ck.concat, [x, x.astype("float64")])["copy to a part"] == ""
    assert _reasons(ck.searchsorted, several, x) == {}
    assert _reasons(ck.roll, x[:9], 2)["roll"] == f"fewer than {MANY} elements"
    assert _reasons(ck.roll, x.astype("bfloat16"), 2)["roll"] == "NumPy has no bfloat16"
    assert _reasons(ck.array_equal, x, x.astype("float64"))["array_equal"] == "of several dtypes"
    with ck.kernels_only():
        assert _reasons(ck.concat, [x, x]) == {"copy to a part": "kernels only"}
    with ck.Tape() as tape:
        tape.watch(x)
        assert _reasons(ck.roll, x, 2)["roll"] == "a tape records it"
    with ck.device("host"):
        text = str(ck.explain(ck.take, x, [N - 1])), str(ck.explain(ck.searchsorted, several, x))
    assert text[0].splitlines() == [
        f"1 x take: float32 ({N},), int64 (1,)", "> NumPy    fewer passes over arrays in caches", "  kernels"
    ]  # fmt: skip
    assert "kernels of one form each" in text[1]


def test_what_numpy_refuses_kernels_explain() -> None:
    with ck.device("host"):
        x = ck.asarray(X)

    def call() -> None:
        with pytest.raises(IndexError, match=f"take: index {N} is out of bounds"):
            ck.take(x, [N])

    reasons = _reasons(call)
    assert reasons["take"].startswith("refused: ") or reasons["take"] == "kernels only"
