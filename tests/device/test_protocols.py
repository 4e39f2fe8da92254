"""NumPy's ufuncs and functions on cukern's arrays stay in cukern; what it has not is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.array import operators
from cukern.elementwise.row import Row
from cukern.testing import assert_close, gradcheck

A = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4))
#: The ufuncs that are rows of the table, by the names that cukern and NumPy share.
UFUNCS = [
    name
    for name in ck.__all__
    if isinstance(getattr(np, name, None), np.ufunc) and isinstance(getattr(ck, name), Row)
]


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs(device: ck.Device, name: str) -> None:
    ufunc: np.ufunc = getattr(np, name)
    row: Row = getattr(ck, name)
    whole = "f" not in row.types
    values = [
        (A * 10).astype(np.int64) if whole else A + i + row.domain[0] * (row.domain[0] > 0)
        for i in range(ufunc.nin)
    ]
    got = ufunc(*map(ck.asarray, values))
    assert type(got) is ck.Array and got.device is device
    want = ufunc(*values)
    # Of results that are 0 but for rounding; spacing's are as small, and exact.
    assert_close(got, want, rtol=1e-12, atol=0 if name == "spacing" else 1e-12)


def test_there_are_many_ufuncs() -> None:
    assert len(UFUNCS) > 60


#: What is called, on an array ``x`` of cukern's or of NumPy's.
CALLS: dict[str, Callable[[Any], Any]] = {
    "operator with an array": lambda x: np.ones((3, 4)) + x,
    "operator with a scalar": lambda x: np.float64(2) * x,
    "comparison": lambda x: np.float64(0.5) < x,
    "broadcast": lambda x: np.add(x, np.arange(4.0)),
    "dtype": lambda x: np.add(x, 1, dtype=np.float32),
    "reduce": lambda x: np.add.reduce(x),
    "reduce an axis": lambda x: np.multiply.reduce(x, axis=1, keepdims=True),
    "reduce maximum": lambda x: np.maximum.reduce(x, axis=None),
    "accumulate": lambda x: np.add.accumulate(x, axis=1),
    "outer": lambda x: np.multiply.outer(x, np.arange(2.0)),
    "sum": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum by place": lambda x: np.sum(x, 0),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "mean": lambda x: np.mean(x, 0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack([x, x]),
    "reshape": lambda x: np.reshape(x, (4, 3)),
    "transpose": np.transpose,
    "where": lambda x: np.where(x > 0.5, x, 0),
    "clip": lambda x: np.clip(x, 0.2, 0.5),
    "clip by name": lambda x: np.clip(x, a_min=0.2, a_max=None),
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "sort": lambda x: np.sort(x, axis=0),
    "argsort": lambda x: np.argsort(x, kind="stable"),
    "argmax": lambda x: np.argmax(x, axis=1),
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "einsum": lambda x: np.einsum("ij,ij->i", x, x),
    "dot": lambda x: np.dot(x, np.ones(4)),
    "tensordot": lambda x: np.tensordot(x, x, axes=((0, 1), (0, 1))),
    "linalg": lambda x: np.linalg.inv(x @ x.T + np.eye(3)),
    "linalg.norm": lambda x: np.linalg.norm(x, axis=1),
    "fft": np.fft.fftshift,
    "roll": lambda x: np.roll(x, 1, axis=0),
    "pad": lambda x: np.pad(x, 1, mode="edge"),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
    "squeeze": lambda x: np.squeeze(x[:, :1]),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "split": lambda x: np.split(x, 2, axis=1),
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, 3.0),
    "isclose": lambda x: np.isclose(x, 0.5, atol=0.1),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1]),
    "unique": lambda x: np.unique(np.round(x * 3)),
    "nonzero": lambda x: np.nonzero(x > 0.5),
    "diff": lambda x: np.diff(x, axis=1),
    "interp": lambda x: (
        np.interp(x, np.linspace(0, 1, 3), np.asarray([0.0, 2.0, 1.0]))
        if isinstance(x, np.ndarray)
        else np.interp(x, ck.asarray(np.linspace(0, 1, 3)), ck.asarray(np.asarray([0.0, 2.0, 1.0])))
    ),
    "trace": np.trace,
    "outer product": lambda x: np.outer(x[0], x[1]),
    "convolve": lambda x: np.convolve(x[0], x[1]),
    "round": lambda x: np.round(x, 1),
    "nan_to_num": np.nan_to_num,
    "logaddexp": lambda x: np.logaddexp(x, 0.5),
}


def leaves(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in leaves(one)] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functions(device: ck.Device, call: Callable[[Any], Any]) -> None:
    for got, want in zip(leaves(call(ck.asarray(A))), leaves(call(A)), strict=True):
        assert type(got) is ck.Array and got.device is device
        assert_close(got, want, rtol=1e-6, dtype=want.dtype)


def test_python_results(device: ck.Device) -> None:
    x = ck.asarray(A)
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2 and np.size(x) == 12
    assert np.allclose(x, x) is True and np.array_equal(x, x + 1) is False


def test_out(device: ck.Device) -> None:
    x, out = ck.asarray(A), ck.zeros((3, 4), "float64")
    assert np.exp(x, out=out) is out
    assert_close(out, np.exp(A))
    assert np.sum(x, axis=0, out=out[0]).shape == (4,)
    assert_close(out[0], A.sum(0))
    with pytest.raises(
        ValueError, match=r"out: a result of shape \(3, 4\) does not fit an array of shape \(4,\)"
    ):
        np.exp(x, out=ck.zeros(4, "float64"))
    with pytest.raises(TypeError, match="float64 cannot be written to int32"):
        np.exp(x, out=ck.zeros((3, 4), "int32"))
    theirs = np.zeros((3, 4))
    assert np.exp(x, out=theirs) is theirs
    assert_close(theirs, np.exp(A))
    with pytest.raises(TypeError, match="out: expected an array, got list"):
        np.sum(x, axis=0, out=[0.0])


def test_derivatives_go_through(device: ck.Device) -> None:
    assert gradcheck(lambda x: np.sum(np.exp(x) * np.sin(x), axis=0), [ck.asarray(A)], order=2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: np.common_type(x), "numpy.common_type on a cukern array: cukern has no such function"),
        (lambda x: np.sqrt(x, signature="d->d"), "the option signature is not supported"),
        (lambda x: np.copy(x, order="F"), "order='F' is not supported"),
        (lambda x: np.busday_count(x, x), "busday_count"),
    ],
)
def test_what_cukern_has_not_is_refused(device: ck.Device, call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call(ck.asarray(A))


def test_methods_are_the_functions_of_their_names() -> None:
    for name in ("sum", "argsort", "cumsum", "reshape", "astype"):
        if hasattr(ck.Array, name):
            assert name in operators.FUNCTIONS


def test_products_with_numpys_arrays(device: ck.Device) -> None:
    x = ck.asarray(A)
    for got, want in ((x @ A.T, A @ A.T), (A.T @ x, A.T @ A), (np.matmul(A.T, x), A.T @ A)):
        assert type(got) is ck.Array and got.device is device
        assert_close(got, want, dtype=want.dtype)


def test_divmod(device: ck.Device) -> None:
    for got, want in (
        (divmod(ck.asarray(A), 2.0), divmod(A, 2.0)),
        (divmod(7.0, ck.asarray(A)), divmod(7.0, A)),
    ):
        for one, other in zip(got, want, strict=True):
            assert_close(one, other)


class Labelled(np.lib.mixins.NDArrayOperatorsMixin):
    """An array with a label, as xarray's and astropy's are: NumPy's functions of it keep that."""

    def __init__(self, values: Any, label: str) -> None:
        self.values, self.label = values, label

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [one.values if isinstance(one, Labelled) else one for one in inputs]
        return Labelled(getattr(ufunc, method)(*plain, **options), self.label)


def test_an_operand_that_answers_numpys_functions_keeps_what_it_adds(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0, 3.0])
    for values in (np.asarray([2.0, 0.5, 3.0], np.float32), ck.asarray([2.0, 0.5, 3.0])):
        other = Labelled(values, "metre")
        plain = np.asarray([2.0, 0.5, 3.0])
        for made, want in (
            (x * other, x.numpy() * plain),
            (other * x, x.numpy() * plain),
            (x - other, x.numpy() - plain),
            (x < other, x.numpy() < plain),
            (x == other, x.numpy() == plain),
        ):
            assert isinstance(made, Labelled) and made.label == "metre"
            np.testing.assert_array_equal(np.asarray(made.values), want)
        gradient = ck.grad(lambda x, other=other: (x * other).values.sum())(x)
        assert gradient.tolist() == [2.0, 0.5, 3.0]
