"""Derivatives beside gradients: products with Jacobians and Hessians, results of any size, arguments by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck


def f64(value: Any) -> ck.Array:
    return ck.asarray(np.asarray(value, dtype="float64"))


X = np.array([0.5, -1.0, 2.0])


def cubes(x: ck.Array) -> ck.Array:
    return (x**3).sum() * x.sum()


def hessian_of_cubes(x: np.ndarray) -> np.ndarray:
    return np.diag(6 * x) * x.sum() + 3 * x[:, None] ** 2 + 3 * x[None, :] ** 2


# ---- results


def test_results_of_one_element_and_constants(device: ck.Device) -> None:
    x = f64([1.0, 2.0])
    for shape in ((1,), (1, 1)):
        value, gradient = ck.value_and_grad(lambda x, shape=shape: (x * x).sum().reshape(shape))(x)
        assert value.shape == shape
        assert_close(gradient, [2.0, 4.0])
    for constant in (1.0, 3, True, np.float32(2), np.bool_(True), ck.asarray(1.0), ck.asarray(3), x[0] > 0):
        value, gradient = ck.value_and_grad(lambda p, constant=constant: constant)({"x": x})
        assert value is constant
        assert_close(gradient["x"], [0.0, 0.0])
    gradient, aux = ck.grad(lambda x: (0.0, "aux"), has_aux=True)(x)
    assert_close(gradient, [0.0, 0.0])
    assert aux == "aux"


def test_elementwise_grad(device: ck.Device) -> None:
    x = f64([[1.0, 2.0], [3.0, 4.0]])
    assert_close(ck.elementwise_grad(lambda x: x**3)(x), 3 * x.numpy() ** 2)
    dx, dk = ck.elementwise_grad(lambda x, k: k * x, ("x", "k"))(x, k=f64(2.0))
    assert_close(dx, np.full((2, 2), 2.0))
    assert_close(dk, 10.0)
    assert_close(ck.elementwise_grad(lambda x: x > 1)(x), np.zeros((2, 2)))
    with pytest.raises(TypeError, match="elementwise_grad: the function must return an array, returned list"):
        ck.elementwise_grad(lambda x: [x])(x)


# ---- arguments


def test_arguments_by_name(device: ck.Device) -> None:
    def f(x: Any, w: Any, *, b: Any = 0.0) -> Any:
        return (x * w * w + b * b).sum()

    x, w, b = f64([1.0, 2.0]), f64(3.0), f64([4.0, 5.0])
    for call in (lambda g: g(x, w, b=b), lambda g: g(x, w=w, b=b), lambda g: g(b=b, w=w, x=x)):
        assert_close(call(ck.grad(f, "w")), 18.0)
        dw, db = call(ck.grad(f, ("w", "b")))
        assert_close(dw, 18.0)
        assert_close(db, [8.0, 10.0])
        assert_close(call(ck.grad(ck.grad(f, "w"), "w")), 6.0)
        assert_close(call(ck.jacobian(f, "x")), [9.0, 9.0])
    assert_close(ck.grad(f, ("x", 1))(x, w)[1], 18.0)
    for names, message in (
        ("y", r"argnums: no parameter 'y' among \(x, w, b\)"),
        ("b", "argnums: the argument 'b' was not passed"),
        (2, "argnums: no argument 2 among 2 positional arguments"),
    ):
        with pytest.raises(ValueError, match=message):
            ck.grad(f, names)(x, w)
    with pytest.raises(ValueError, match=r"argnums: no parameter 'xs' among \(xs\)"):
        ck.grad(lambda *xs: xs[0].sum(), "xs")(x)
    with pytest.raises(TypeError, match="w: only floating dtypes have gradients, got int64"):
        ck.grad(f, "w")(x, w=ck.asarray(1))


# ---- products


def test_jvp_is_the_jacobian_times_the_tangent(device: ck.Device) -> None:
    def f(p: Any, y: Any) -> Any:
        return {"a": ck.sin(p["x"]) * y, "b": (p["x"].sum() * y, ck.ones(2, dtype="float64"))}

    p, y = {"x": f64(X)}, f64(3.0)
    value, tangent = ck.jvp(f, (p, y), ({"x": f64([1.0, 0.0, 2.0])}, 10.0))
    assert_close(value["a"], 3 * np.sin(X))
    assert_close(tangent["a"], 3 * np.cos(X) * [1.0, 0.0, 2.0] + 10 * np.sin(X))
    assert_close(tangent["b"][0], 3 * 3.0 + X.sum() * 10)
    assert_close(tangent["b"][1], [0.0, 0.0])
    directions = [f64([1.0, 2.0, 3.0])]
    assert gradcheck(lambda x: ck.jvp(cubes, [x], directions)[1], [f64(X)], order=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_tangents_have_the_dtypes_of_the_primals(device: ck.Device, dtype: str) -> None:
    x = ck.asarray(X, dtype=dtype)
    for given in (ck.asarray([1, 0, 2]), f64([1.0, 0.0, 2.0]), ck.asarray([1.0, 0.0, 2.0], dtype="float32")):
        for derivative, want in (
            (ck.jvp(lambda x: x * x, [x], [given])[1], 2 * X),
            (ck.hvp(lambda x: (x * x * x).sum(), [x], [given])[1][0], 6 * X),
        ):
            assert derivative.dtype == dtype
            assert_close(derivative, want * [1.0, 0.0, 2.0], dtype=dtype)


def test_jvp_of_a_module_and_of_order_three(device: ck.Device) -> None:
    model = ck.nn.Linear(3, 2)
    x = ck.ones((1, 3))
    _, tangent = ck.jvp(lambda m: m(x), [model], [ck.tree.map(lambda leaf: leaf * 0 + 1, model)])
    assert_close(tangent, np.full((1, 2), 4.0))

    def along(f: Any) -> Any:
        return lambda x: ck.jvp(f, [x], [f64(1.0)])[1]

    assert_close(along(along(along(lambda x: x**4)))(f64(2.0)), 48.0)


def test_what_jvp_refuses() -> None:
    x = f64(X)
    with pytest.raises(ValueError, match=r"jvp: tangents\[0\]: expected shape \(3,\) on "):
        ck.jvp(cubes, [x], [x[:2]])
    with pytest.raises(
        ValueError, match=r"jvp: tangents: expected tuple of \[0\], got tuple of \[0\], \[1\]"
    ):
        ck.jvp(cubes, [x], [x, x])
    with pytest.raises(ValueError, match=r"jvp: tangents\[0\]\['x'\]: expected a leaf \(Array\), got list"):
        ck.jvp(lambda p: p["x"], [{"x": x}], [{"x": [1.0, 2.0, 3.0]}])
    with pytest.raises(TypeError, match=r"jvp: result\[1\]: only floating dtypes have gradients, got int64"):
        ck.jvp(lambda x: (x, ck.asarray([1])), [x], [x])


def test_products_with_the_hessian(device: ck.Device) -> None:
    v = np.array([1.0, 2.0, 3.0])
    want = hessian_of_cubes(X) @ v
    value, (product,) = ck.hvp(cubes, [f64(X)], [f64(v)])
    assert_close(value, (X**3).sum() * X.sum())
    assert_close(product, want)
    assert_close(ck.hessian_vector_product(cubes)(f64(X), f64(v)), want)
    by_name = ck.hessian_vector_product(lambda k, x: k * cubes(x), "x")
    assert_close(by_name(f64(2.0), f64(X), f64(v)), 2 * want)
    both = ck.hessian_vector_product(lambda x, k: k * cubes(x), (0, 1))(f64(X), f64(1.0), (f64(v), f64(0.0)))
    assert_close(both[0], want)
    assert_close(both[1], (3 * X**2 * X.sum() + (X**3).sum()) @ v)
    assert gradcheck(lambda x: ck.hvp(cubes, [x], [f64(v)])[1][0], [f64(X)], order=2)


def test_hessians(device: ck.Device) -> None:
    assert_close(ck.hessian(cubes)(f64(X)), hessian_of_cubes(X))
    made = ck.hessian(lambda a, b: {"p": (a * a * b).sum(), "q": a.sum() * b}, ("a", "b"))(f64(X), f64(3.0))
    (aa, ab), (ba, bb) = made["p"]
    assert_close(aa, 6 * np.eye(3))
    assert_close(ab, 2 * X)
    assert_close(ba, 2 * X)
    assert_close(bb, 0.0)
    assert_close(made["q"][0][1], np.ones(3))
    assert ck.hessian(lambda x: x * x)(f64(X)).shape == (3, 3, 3)


def test_jacobian_of_several_results(device: ck.Device) -> None:
    made = ck.jacobian(lambda x, k: (x * k, {"s": (x * x).sum()}), (0, 1))(f64(X), f64(2.0))
    assert_close(made[0][0], 2 * np.eye(3))
    assert_close(made[0][1], X)
    assert_close(made[1]["s"][0], 2 * X)
    assert_close(made[1]["s"][1], 0.0)
    with pytest.raises(TypeError, match=r"jacobian: result\[1\]: expected an array, got float"):
        ck.jacobian(lambda x: (x, 1.0))(f64(X))
