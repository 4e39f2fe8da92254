"""``kernelcheck``: mistakes planted in derivatives are found, and right functions pass."""

from __future__ import annotations

import numpy as np
import pytest
from wrong_backwards import FAMILIES, Family

import cukern as ck
from cukern.testing import KernelcheckError, duals, kernelcheck

#: What runs by default, with the sizes and types that it needs.
QUICK = {
    ("swish", "third block"): ([67], []),
    ("differences, float32 alone", ""): ([33], []),
    ("differences, float32 alone", "strides ignored"): ([33], []),
}


@pytest.fixture(autouse=True)
def on_the_host() -> object:
    with ck.device("host"):
        yield


def planted(quick: bool) -> list[object]:
    cases = [(family, mistake) for family in FAMILIES for mistake in ("", *family.mistakes)]
    chosen = [case for case in cases if not quick or (case[0].name, case[1]) in QUICK]
    return [pytest.param(*case, id=f"{case[0].name}: {case[1] or 'right'}") for case in chosen]


def outcome(family: Family, mistake: str, **options: object) -> KernelcheckError | None:
    try:
        kernelcheck(family.make(mistake), family.args(), order=1, **options)
    except KernelcheckError as error:
        return error
    return None


@pytest.mark.parametrize(("family", "mistake"), planted(True))
def test_a_mistake_is_found_where_it_shows(family: Family, mistake: str) -> None:
    sizes, types = QUICK[family.name, mistake]
    found = outcome(family, mistake, sizes=sizes, dtypes=types)
    assert (found is not None) == bool(mistake), found
    if mistake == "third block":
        assert "size 2 is 67" in str(found) and "args[0], element (" in str(found)
        assert "written by dx of <swish_backward" in str(found)


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "mistake"), planted(False))
def test_each_mistake_is_found_and_nothing_else(family: Family, mistake: str) -> None:
    found = outcome(family, mistake)
    assert (found is not None) == bool(mistake), found


def test_dual_numbers_move_along_a_direction() -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = pow(x[i], << elem >>(3)) + 2 * tanh(x[i]) / fmax(x[i], 0.5f) - (x[i] > 1 ? exp(x[i]) : 1);
}"""
    kernel = ck.Kernel(text, name="several")

    def several(x: ck.Array) -> ck.Array:
        y = ck.empty_like(x)
        kernel(x, y, x.size)
        return 2 * y

    x = np.array([0.25, 0.75, 2.0])
    (values,), (slopes,) = duals.derivative(
        several, [ck.asarray(x, dtype="float32")], [np.array([1.0, 2.0, -1.0])]
    )
    larger = np.maximum(x, 0.5)
    slope = (
        3 * x**2 + 2 / np.cosh(x) ** 2 / larger - 2 * np.tanh(x) / larger**2 * (x > 0.5) - np.exp(x) * (x > 1)
    )
    want = x**3 + 2 * np.tanh(x) / larger - np.where(x > 1, np.exp(x), 1)
    np.testing.assert_allclose(values, 2 * want, rtol=1e-14)
    np.testing.assert_allclose(slopes, 2 * slope * [1, 2, -1], rtol=1e-13)


def test_arguments_that_are_none() -> None:
    with pytest.raises(TypeError, match="args: there is no floating array"):
        kernelcheck(ck.negative, [ck.asarray([1, 2])])
    with pytest.raises(ValueError, match="order: expected at least 1, got 0"):
        kernelcheck(ck.negative, [ck.asarray([1.0])], order=0)
    with pytest.raises(TypeError, match="dtypes: expected floating types, got int32"):
        kernelcheck(ck.negative, [ck.asarray([1.0])], dtypes=["int32"], sizes=[])
    with pytest.raises(ZeroDivisionError):
        kernelcheck(lambda x: x / (1 // 0), [ck.asarray([1.0])])
