"""Kernels of a jitted function that a user replaces by texts of their own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cukern as ck


def made(*shape: int) -> ck.Array:
    return ck.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8)


def more(x: Any) -> Any:
    return ck.exp(x) + 1


def own(text: str, statement: str, count: int) -> str:
    """A program with a kernel of the same parameters, whose first thread does something for each element."""
    (head,) = re.findall(r"__global__[^(]*(?:\([\d, ]+\)[^(]*)?(\([^{;]*\))", re.sub(r"#line .*", "", text))
    structs = re.findall(r"^struct Layout .*$", text, re.MULTILINE)
    body = f"for (int i = 0; i < {count}; ++i) {statement}"
    first = "if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)"
    return "\n".join([*structs, f"__global__ void mine{head} {{ {first} {body} }}"])


def test_a_kernel_is_replaced_for_one_form(device: ck.Device) -> None:
    f = ck.jit(more)
    x, longer, turned = made(3, 5), made(4, 5), made(5, 3)
    f.replace("exp_add", own(f.launches(x)[0].text(), "y0[i] = 3 * x0[i];", 15), x)
    for _ in range(4):
        assert f(x + 1).tolist() == (3 * (x + 1)).tolist()
        for other in (longer, turned):  # of one the very same kernel
            np.testing.assert_allclose(f(other).numpy(), more(other).numpy(), rtol=1e-6)
    assert "exp_add (replaced by mine)" in f.explain(x) and "replaced" not in f.explain(longer)
    assert "mine(" in f.source(x) and "mine(" not in f.source(longer)
    f.replace(0, f.source(x).replace("3 * x0[i]", "4 * x0[i]"), x)  # the text that replaces, changed
    assert f(x).tolist() == (4 * x).tolist()
    f.replace(0, None, x)
    np.testing.assert_allclose(f(x).numpy(), more(x).numpy(), rtol=1e-6)


def test_kernels_of_all_kinds_are_replaced(device: ck.Device) -> None:
    def layers(x: Any, w: Any) -> Any:
        y = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
        z = ck.concat([x * 2, x], axis=0)
        return ck.tanh(y @ w + 1), ck.exp(x).sum(axis=1), z

    x, w = made(20, 40), made(40, 30) / 100
    f, wanted = ck.jit(layers), layers(x, w)
    kernels = f.launches(x, w)
    replaced = 0
    for i, one in enumerate(kernels):
        if one.plan is not None and one.plan.ready is not None and getattr(one.plan, "final", None) is None:
            f.replace(i, one.text().replace("__global__", "/* mine */ __global__"), x, w)
            replaced += 1
    assert replaced >= 3 and f.source(x, w).count("/* mine */") >= 3
    for _ in range(4):
        for found, value in zip(f(x, w), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=2e-5, atol=1e-6)
    assert f.explain(x, w).count("(replaced by ") == replaced


def test_one_of_several_launches_of_a_kernel(device: ck.Device) -> None:
    """Launches of one text differ in their numbers: one is replaced, and none by a name that several have."""

    def twice(x: Any, y: Any) -> Any:
        return x * 2, y * 3

    f, x, y = ck.jit(twice), made(6), made(9)
    numbers = [i for i, one in enumerate(f.launches(x, y)) if one.name == "multiply"]
    assert len(numbers) == 2
    with pytest.raises(
        ValueError, match="'multiply' is the name of several, give the number of one of 0 mul"
    ):
        f.replace("multiply", "", x, y)
    f.replace(1, own(f.launches(x, y)[1].text(), "y0[i] = 7;", 9), x, y)
    for _ in range(3):
        first, second = f(x, y)
        assert first.tolist() == (x * 2).tolist() and second.tolist() == [7.0] * 9


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    def rows(x: Any) -> Any:
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True), x @ x.T

    f, x = ck.jit(rows), made(20, 40)
    kernels = f.launches(x)
    number = next(i for i, one in enumerate(kernels) if one.name == "subtract_divide")
    text = kernels[number].text()
    for wrong in (
        "__global__ void mine(const float* x, float* y) {}",
        text.replace("const float* x0,", "const float* x0, const double* more,"),
        text.replace("struct Layout {", "struct Layout { int more;"),
    ):
        assert wrong != text
        with pytest.raises(
            ck.LaunchError, match=r"replacement of subtract_divide: .* parameters of rows_subtract"
        ):
            f.replace(number, wrong, x)
    with pytest.raises(ck.CompileError, match="replacement of subtract_divide"):
        f.replace(number, text.replace("blockIdx.x", "blockIdx.q", 1), x)
    with pytest.raises(ValueError, match="kernel: expected the number or the name of one of .*, got 'other'"):
        f.replace("other", text, x)
    product = next(i for i, one in enumerate(kernels) if one.plan is None)
    with pytest.raises(
        ValueError, match=f"kernel: expected what is launched as one kernel; {product} is not"
    ):
        f.replace(product, text, x)
    np.testing.assert_allclose(f(x)[0].numpy(), rows(x)[0].numpy(), rtol=2e-5, atol=1e-6)


def test_a_call_that_launches_something_else_says_so(device: ck.Device) -> None:
    steps = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    functions = [ck.exp, ck.exp, ck.sin]

    @ck.jit
    def f(x: Any) -> Any:  # its numbers differ, so that each call runs it
        return functions[0](x) + next(steps)

    x = made(4)
    f.replace(0, own(f.launches(x)[0].text(), "y0[i] = s0;", 4), x)
    assert f(x).tolist() == [3.0] * 4
    functions.reverse()
    with pytest.warns(UserWarning, match="f no longer launches what mine was given for: replace anew"):
        np.testing.assert_allclose(f(x).numpy(), np.sin(x.numpy()) + 4, rtol=1e-5)


def test_derivatives_are_those_of_the_operations(device: ck.Device) -> None:
    f, x = ck.jit(lambda x: ck.sin(x) * 2), made(5)
    f.replace(0, own(f.launches(x)[0].text(), "y0[i] = 3 * x0[i];", 5), x)
    with ck.Tape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.tolist() == (3 * x).tolist()
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * np.cos(x.numpy()), rtol=1e-5)


def test_a_replacement_is_watched() -> None:
    f, x = ck.jit(more), ck.asarray([1.0, 2.0, 3.0], device="host")
    text = f.launches(x)[0].text()
    f.replace(0, text.replace("y0[j]", "y0[j + 1]"), x)
    line = next(i for i, one in enumerate(text.split("\n"), 1) if "y0[j]" in one)
    for _ in range(3):
        with ck.testing.checked(collect=True) as reports:
            f(x)
        assert {one.kind for one in reports} == {"out of bounds"}
        assert re.fullmatch(rf"<replacement of exp_add.*>:{line}", reports[0].place)
