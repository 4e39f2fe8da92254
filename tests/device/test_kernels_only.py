"""Kernels only: templates compute what NumPy, a BLAS or cuBLAS computes otherwise, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import test_by_numpy

import cukern as ck
from cukern.device.kernels_only import active
from cukern.kernel import by_numpy
from cukern.linear import blas, lapack, library

DTYPES = [one.name for one in ck.dtypes.ALL]
_RNG = np.random.default_rng(3)
#: Functions of NumPy that compute nothing, or that no kernel replaces.
_ALLOWED = {"broadcast_to", "may_share_memory", "svd", "solve"}


class Watched(np.ndarray):
    """The memory of an array, with which NumPy must not compute."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        raise AssertionError(f"NumPy's {ufunc.__name__} computes")

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        assert function.__name__ in _ALLOWED, f"NumPy's {function.__name__} computes"
        return super().__array_function__(function, types, given, options)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        assert not any(isinstance(one, (np.ndarray, list)) for one in parts), "NumPy gathers"
        return super().__getitem__(key)


def _refuse(name: str) -> Callable[..., Any]:
    def refused(self: Watched, *given: Any, **options: Any) -> Any:
        raise AssertionError(f"NumPy's {name} computes")

    return refused


for _name in (
    "all any argmax argmin argpartition argsort choose clip compress copy cumsum dot max mean min nonzero partition "
    "prod put repeat round searchsorted sort sum take trace"
).split():
    setattr(Watched, _name, _refuse(_name))


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels only; what asks NumPy for a function or a product fails."""

    def refuse(*given: Any) -> Any:
        raise AssertionError("NumPy computes")

    assert "quiet" in vars(lapack)  # which keeps it when the other is replaced
    with ck.kernels_only(), monkeypatch.context() as patch:
        patch.setattr(by_numpy, "quiet", refuse)
        patch.setattr(blas, "_by_numpy", refuse)
        yield


@pytest.mark.parametrize("call", test_by_numpy.CALLS, ids=range(len(test_by_numpy.CALLS)))
def test_what_numpy_serves(alone: None, call: Callable[[Any, Any], Any]) -> None:
    def watched(x: Any) -> ck.Array:
        if x is test_by_numpy.ROWS:  # indices, which NumPy checks
            return ck.asarray(x, device="host")
        return ck.Array._wrap(np.array(x).view(Watched), ck.Device("host"))

    with np.errstate(all="ignore"):
        wanted = call(np, lambda x: x)
    with ck.device("host"):
        test_by_numpy._same(call(ck, watched), wanted)


@pytest.mark.unchecked_only("in checked ones it computes nothing")
def test_the_watch_sees_numpy() -> None:
    """The test above fails without the mode."""
    x = ck.Array._wrap(np.ones(8 * by_numpy.MANY, np.float32).view(Watched), ck.Device("host"))
    calls: list[Callable[[], Any]] = [lambda: ck.roll(x, 1), lambda: ck.dot(x, x), lambda: ck.sort(x)]
    for call in calls:
        with pytest.raises(AssertionError, match="computes"):
            call()


def test_writes(device: ck.Device, alone: None) -> None:
    test_by_numpy.test_writes()
    x, y = np.arange(60, dtype=np.float32).reshape(6, 10), np.arange(10, dtype=np.float32)
    mine = ck.asarray(x.copy())
    for key, value in (
        (0, 5.0), ((slice(None), 3), -1.0), (slice(1, 5, 2), y), ((slice(2, 4),), y[None]), ([5, 0], 7.0),
        ((slice(None), [1, 2]), x[:, 4:6].copy()), (x > 40, 0.0), ((slice(3, 3),), 2.0),
    ):  # fmt: skip
        x[key] = value
        own: Any = ck.asarray(value) if isinstance(value, np.ndarray) else value
        mine[ck.asarray(key) if isinstance(key, np.ndarray) else key] = own
        np.testing.assert_array_equal(mine.numpy(), x)
    mine[1:], x[1:] = mine[:-1], x[:-1].copy()
    np.testing.assert_array_equal(mine.numpy(), x)
    np.testing.assert_array_equal(mine.T.copy().numpy(), x.T)


def _drawn(dtype: str, *shape: int) -> ck.Array:
    values: Any = _RNG.standard_normal(shape) * 4
    if dtype.startswith("complex"):
        values = values + 1j * _RNG.standard_normal(shape)
    return ck.asarray(values).astype(dtype)


def _check(made: ck.Array, a: ck.Array, b: ck.Array) -> None:
    """A product beside NumPy's, of floats within the roundings of its terms."""
    left, right = a.numpy(), b.numpy()
    if made.dtype in ck.dtypes.INEXACT:
        wide: Any = "complex128" if made.dtype in ck.dtypes.COMPLEX else "float64"
        left, right = left.astype(wide), right.astype(wide)
    wanted, got = np.matmul(left, right), made.numpy()
    assert got.shape == wanted.shape
    if made.dtype not in ck.dtypes.INEXACT:
        np.testing.assert_array_equal(got, wanted)
    else:
        rounding = 4 * float(ck.finfo(made.dtype).eps)
        assert (np.abs(got - wanted) <= rounding * np.matmul(np.abs(left), np.abs(right))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(device: ck.Device, alone: None, dtype: str) -> None:
    """Of one tile and of several, transposed factors, vectors, and no elements."""
    for a, b in (
        (_drawn(dtype, 3, 5), _drawn(dtype, 5, 7)),
        (_drawn(dtype, 2, 70, 33), _drawn(dtype, 33, 130)),
        (_drawn(dtype, 33, 70).T, _drawn(dtype, 130, 33).T),
        (_drawn(dtype, 40), _drawn(dtype, 40)),
        (_drawn(dtype, 4, 0), _drawn(dtype, 0, 3)),
        (_drawn(dtype, 0, 4), _drawn(dtype, 4, 3)),
    ):
        made = a @ b
        assert made.dtype == a.dtype and made.device is device
        _check(made, a, b)


def test_batches_of_several_strides(device: ck.Device, alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which no single launch takes, alone and with an expression, and of more matrices than blocks along y."""
    monkeypatch.setattr(library, "MOST_MATRICES", 4)
    a, b, c = _drawn("float64", 2, 1, 5, 6), _drawn("float64", 1, 3, 6, 7), _drawn("float64", 7)
    assert "> in steps" in str(ck.explain(ck.matmul, a, b))
    _check(a @ b, a, b)
    ended = ck.fuse(lambda x, y, z: ck.relu(x @ y + z))
    wanted = np.maximum(np.matmul(a.numpy(), b.numpy()) + c.numpy(), 0)
    np.testing.assert_allclose(ended(a, b, c).numpy(), wanted, 1e-13, 1e-12)
    ck.testing.gradcheck(lambda x, y: ck.sum((x @ y) ** 2), (a, b))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_that_are_not_rounded(device: ck.Device, alone: None, dtype: str) -> None:
    """And those that are added to others."""
    a, b = _drawn(dtype, 6, 9), _drawn(dtype, 9, 4)
    out = ck.ones((6, 4))
    made = blas.sums(a, b)
    blas.Product(*(one._planned() for one in (a, b, out)), add=True)(a, b, out)
    for one, other in ((made, 0), (out, 1)):
        assert one.dtype == ck.float32
        wanted = a.numpy().astype("float64") @ b.numpy().astype("float64") + other
        np.testing.assert_allclose(one.numpy(), wanted, 1e-4, 1e-4)


def test_rows_wider_than_a_tile(device: ck.Device, alone: None) -> None:
    x, w = _drawn("float64", 5, 8), _drawn("float64", 8, 300)
    longest = ck.fuse(lambda x, w: ck.max(ck.tanh(x @ w), -1))
    np.testing.assert_allclose(longest(x, w).numpy(), np.tanh(x.numpy() @ w.numpy()).max(-1), 1e-13)


def _cross_entropy() -> ck.Array:
    rng = np.random.default_rng(1)
    x, w = (ck.asarray(rng.standard_normal(shape), "float32") for shape in ((6, 8), (11, 8)))
    with ck.Tape() as tape:
        tape.watch(x, w)
        loss = ck.nn.linear_cross_entropy(x, w, ck.asarray(np.arange(6)))
    made: ck.Array = ck.concat([ck.ravel(one) for one in (loss, *tape.gradient(loss, [x, w]))])
    return made


def _pointwise() -> ck.Array:
    rng = np.random.default_rng(2)
    x, w = (ck.asarray(rng.standard_normal(shape), "float32") for shape in ((2, 3, 5, 5), (4, 3, 1, 1)))
    with ck.Tape() as tape:
        tape.watch(x, w)
        y = ck.sum(ck.nn.conv2d(x, w) ** 2)
    made: ck.Array = ck.concat([ck.ravel(one) for one in (y, *tape.gradient(y, [x, w]))])
    return made


def _lltm(dtype: str) -> ck.Array:
    rng = np.random.default_rng(4)
    shapes = ((3, 2, 5), (12, 9), (12,), (2, 4), (2, 4))
    x, w, b, h, c = (ck.asarray(rng.standard_normal(shape) / 2).astype(dtype) for shape in shapes)
    with ck.Tape() as tape:
        tape.watch(x, w)
        outputs, _, cell = ck.nn.lltm(x, w, b, h, c)
        y = ck.sum(outputs) + ck.sum(cell)
    made: ck.Array = ck.concat([ck.ravel(one) for one in (outputs, *tape.gradient(y, [x, w]))])
    return made


@pytest.mark.parametrize(
    "compute",
    [_cross_entropy, _pointwise, lambda: _lltm("float32"), lambda: _lltm("float16")],
    ids=["cross-entropy", "pointwise", "lltm", "lltm of halves"],
)
def test_layers_that_multiply(
    device: ck.Device, compute: Callable[[], ck.Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = compute()
    with ck.kernels_only():
        for name in ("_by_numpy", "_blas", "_call", "_by_pointers"):
            monkeypatch.setattr(blas, name, _refuse(name))
        monkeypatch.setattr(blas.HostPlan, "__call__", _refuse("a product"))
        monkeypatch.setattr(blas.LibraryPlan, "__call__", _refuse("a product"))
        made = compute()
    tolerance = 2e-3 if wanted.dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(
        made.astype("float32").numpy(), wanted.astype("float32").numpy(), tolerance, tolerance
    )


@pytest.mark.unchecked_only("the library is left out of checked ones")
def test_plans_of_both_kinds_are_kept_apart(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ck.ones((9, 8)), ck.ones((8, 9))
    many = ck.asarray(np.arange(2**17) % 50)
    kinds = []
    for own in (False, True, False, True):
        if own:
            with ck.kernels_only():
                kinds.append(str(ck.explain(ck.matmul, a, b)).split("\n> ")[1].split()[0])
                assert (a @ b)[0, 0].item() == 8 and ck.max(many).item() == 49
        else:
            kinds.append(str(ck.explain(ck.matmul, a, b)).split("\n> ")[1].split()[0])
            assert (a @ b)[0, 0].item() == 8 and ck.max(many).item() == 49
    assert [one == "library" for one in kinds] == [True, False, True, False]


def test_explanations_say_why(device: ck.Device) -> None:
    with ck.kernels_only():
        found = str(ck.explain(ck.matmul, ck.ones((3, 4)), ck.ones((4, 5))))
    assert any(line.split() == ["library", "kernels", "only"] for line in found.splitlines())


def test_one_thread_at_a_time() -> None:
    found = []
    with ck.kernels_only():
        thread = threading.Thread(target=lambda: found.append(active()))
        thread.start()
        thread.join()
        with ck.kernels_only():
            pass
        found.append(active())
    with pytest.raises(KeyError), ck.kernels_only():
        raise KeyError
    before = active()
    with ck.testing.checked():
        found.append(active())
    assert found == [before, True, True] and active() == before


def test_the_variable_of_the_environment() -> None:
    program = "import cukern as ck; print(ck.explain(ck.matmul, ck.ones((2, 2)), ck.ones((2, 2))))"
    environment = {**os.environ, "CUKERN_KERNELS_ONLY": "1", "CUKERN_DEVICE": "host"}
    made = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "> panels" in made.stdout and "kernels only" in made.stdout
