"""Other libraries on our arrays: PyTorch, SciPy's optimizers, scikit-learn, and NumPy's arrays written to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck


def rosenbrock(x: Any) -> Any:
    return ck.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def residuals(x: Any) -> Any:
    return ck.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def test_minimizers_of_scipy_take_values_and_gradients(device: ck.Device) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    for method in ("BFGS", "L-BFGS-B", "CG", "SLSQP", "TNC"):
        found = optimize.minimize(
            ck.value_and_grad(rosenbrock), np.asarray([1.3, 0.7, 0.8]), jac=True, method=method
        )
        assert isinstance(found.x, np.ndarray), method
        np.testing.assert_allclose(found.x, 1, rtol=1e-3, err_msg=method)
    found = optimize.minimize(rosenbrock, ck.asarray([1.3, 0.7], dtype=ck.float64), jac=ck.grad(rosenbrock))
    np.testing.assert_allclose(found.x, 1, rtol=1e-4)


def test_solvers_of_scipy_take_values_and_jacobians(device: ck.Device) -> None:
    optimize = pytest.importorskip("scipy.optimize")

    f, jacobian = residuals, ck.jacobian(residuals)
    for method in ("trf", "lm", "dogbox"):
        for jac in (jacobian, "2-point"):
            np.testing.assert_allclose(
                optimize.least_squares(f, [2.0, 2.0], jac, method=method).x, 1, rtol=1e-6
            )
    for method in ("hybr", "lm"):
        np.testing.assert_allclose(optimize.root(f, [2.0, 2.0], jac=jacobian, method=method).x, 1, rtol=1e-6)


def test_numpys_atleast_converts_what_no_tape_tracks(device: ck.Device) -> None:
    x = ck.asarray(2.0)
    for function, shape in ((np.atleast_1d, (1,)), (np.atleast_2d, (1, 1)), (np.atleast_3d, (1, 1, 1))):
        made = function(x)
        assert isinstance(made, np.ndarray) and made.shape == shape
        assert ck.grad(lambda x, f=function: (f(x) ** 2).sum())(x).item() == 4.0


def test_bfloat16_of_torch_by_dlpack(device: ck.Device) -> None:
    torch = pytest.importorskip("torch")
    if device.kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    where = "cuda" if device.kind == "cuda" else "cpu"
    x = ck.asarray([[1.5, 2.5, 0.0], [3.0, -4.0, 1.0]], dtype="bfloat16")
    theirs = torch.from_dlpack(x)
    assert theirs.dtype == torch.bfloat16 and theirs.tolist() == x.tolist()
    theirs[0, 0] = 7.0
    assert x[0, 0].item() == 7.0
    assert torch.from_dlpack(x.T).tolist() == x.T.tolist()
    assert torch.from_dlpack(ck.zeros((0, 3), dtype="bfloat16")).shape == (0, 3)
    if device.kind == "host":  # the capsule of the first version of the protocol
        assert torch.utils.dlpack.from_dlpack(x.__dlpack__()).tolist() == x.tolist()
    for source in (
        torch.arange(6, dtype=torch.bfloat16, device=where).reshape(2, 3).T,
        torch.tensor(2.5, dtype=torch.bfloat16, device=where),
        torch.zeros((0, 3), dtype=torch.bfloat16, device=where),
    ):
        ours = ck.from_dlpack(source)
        assert ours.dtype == ck.bfloat16 and ours.device.kind == device.kind
        assert ours.tolist() == source.tolist() and ours.shape == tuple(source.shape)
    back = ck.from_dlpack(theirs)
    back[0, 1] = 9.0
    assert theirs[0, 1] == 9.0
    assert ck.asarray(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1.0, 1.0]
    same = ck.from_dlpack(x)
    assert same.dtype == ck.bfloat16 and ck.shares_memory(same, x)
    with pytest.raises(BufferError, match="expected a DLPack capsule"):
        ck.from_dlpack(_NoCapsule())


class _NoCapsule:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        return object()


def test_arithmetic_beside_tensors(device: ck.Device) -> None:
    torch = pytest.importorskip("torch")
    x, t = ck.asarray([1.0, 2.0]), torch.tensor([3.0, 5.0])
    for made, want in (
        (x + t, [4, 7]),
        (t + x, [4, 7]),
        (t - x, [2, 3]),
        (x * t, [3, 10]),
        (t / x, [3, 2.5]),
    ):
        assert isinstance(made, ck.Array) and made.device == device and made.tolist() == want
    assert ck.dot(x, t).item() == 13.0
    assert (x + t.to(torch.bfloat16)).tolist() == [4.0, 7.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        x + t.requires_grad_()


def test_numpys_arrays_are_written_in_place(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    a = held = np.ones((3, 2))
    a += x
    assert a is held and a.tolist() == [[2.0, 3.0]] * 3
    np.multiply(x, 2, out=a[0])
    assert a[0].tolist() == [2.0, 4.0]
    np.sum(x, out=(total := np.zeros(())))
    assert total == 3.0
    whole = np.ones(2, "i4")
    with pytest.raises(TypeError, match="numpy.add: out: a result of .* cannot be written to int32"):
        whole += x
    with pytest.raises(ValueError, match=r"numpy.add: out: expected shape \(2, 2\), got \(2,\)"):
        a[0] += ck.ones((2, 2))


def test_estimators_of_scikit_learn_take_our_arrays(device: ck.Device) -> None:
    pytest.importorskip("sklearn")
    if device.kind != "host":
        pytest.skip("scikit-learn computes on the host")
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import Lasso, LogisticRegression
    from sklearn.mixture import GaussianMixture
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    a = np.abs(rng.normal(size=(40, 3)))
    classes = (a[:, 0] > 0.7).astype("i8")
    for dtype in ("f4", "f8"):
        for estimator, target in (
            (KMeans(2, n_init=1, random_state=0), classes),
            (PCA(2), classes),
            (RandomForestClassifier(3, random_state=0), classes),
            (LogisticRegression(), classes),
            (Lasso(0.01), a[:, 0].astype(dtype)),
            (GaussianMixture(2, random_state=0), classes),
            (StandardScaler(), classes),
        ):
            apply = "transform" if hasattr(estimator, "transform") else "predict"
            values = a.astype(dtype)
            want = getattr(estimator.fit(values, target), apply)(values)
            ours = ck.asarray(values)
            got = getattr(estimator.fit(ours, ck.asarray(target)), apply)(ours)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=type(estimator).__name__)
            np.testing.assert_array_equal(ours.numpy(), values)
