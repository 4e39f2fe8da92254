"""Errors in ulps, mutants of kernels, and launches on arrays larger than memory."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.testing import check_large, mutants, ulps
from cukern.testing.mutations import mutations
from cukern.testing.ulps import distance


def test_ulps_count_units_of_the_exact_value() -> None:
    exact = np.array([1.0, 1.0 - 2**-25, 2.0**-149, 0.0, np.inf, np.nan, 4e38, 1.0, np.nan])
    got = np.array([1 + 2**-23, 1, 2.0**-148, 2.0**-149, np.inf, np.nan, np.inf, np.nan, 1.0], "float32")
    np.testing.assert_array_equal(distance(got, exact), [1, 0.5, 1, 1, 0, 0, 0, np.inf, np.inf])
    assert distance(np.zeros(1, "float32"), np.array([1e-39]), subnormals=False) == [0]


def test_ulps_name_the_worst_element(device: ck.Device) -> None:
    def rough(x: ck.Array) -> dict[str, ck.Array]:
        return {"twice": 2 * x, "third": (x / 3 * (1 + 2.0**-20 * (x > 2))).astype(x.dtype)}

    x = ck.asarray([1.0, 2.0, 3.0], dtype="float32")

    def exact(x: np.ndarray) -> dict[str, np.ndarray]:
        return {"twice": 2 * x, "third": x / 3}

    table = ulps(rough, [x], reference=exact)
    assert [(row.output, row.worst) for row in table[:1]] == [("output['twice']", 0)]
    assert (table[1].index, table[1].at, table.worst) == ((2,), (3.0,), 8.0)
    assert "output['third']" in str(table) and str(table).splitlines()[2].split()[1:4] == [
        "float32",
        "3",
        "8",
    ]
    assert ulps(ck.exp, [ck.asarray([0.5, 1.5], dtype="float16")]).worst <= 0.5
    assert ulps(ck.exp, [ck.zeros((0, 2))])[0].index is None


def test_ulps_refuse_what_has_no_wider_type() -> None:
    with pytest.raises(TypeError, match=r"args\[0\]: ulps has no wider type than float64: give reference="):
        ulps(ck.exp, [ck.zeros(2, dtype="float64")])
    with pytest.raises(TypeError, match="there is no floating array"):
        ulps(ck.negative, [ck.asarray([1])])
    with pytest.raises(ValueError, match=r"its shape is \(2,\), and \(1,\) of what it is compared with"):
        ulps(ck.exp, [ck.zeros(2, dtype="float32")], reference=lambda x: np.exp(x[:1]))


SUMS = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    __shared__ << acc >> part[2][32];
    const int t = threadIdx.x, i = blockIdx.x * << block >> + t;
    part[0][t] = i < n ? cast< << acc >> >(x[i]) : << acc >>(0);
<% if wait %>
    __syncthreads();
<% endif %>
    if (t >= 1) return;
    for (int k = 0; k < << block >>; k += 1) part[1][0] += fmax(part[0][k], -part[0][k]);
    atomicAdd(y, part[1][0] * 0.5f);
}"""


def test_kinds_of_mutation() -> None:
    found = mutations(SUMS)
    kinds = {one.what for one in found}
    wanted = [
        "`<` is `<=`",
        "`+` is `-`",
        "`__syncthreads` is left out",
        "the guard is dropped",
        "`fmax` is `fmin`",
    ]
    wanted += [
        "`threadIdx.x` is `threadIdx.y`",
        "the atomic is plain",
        "`+=` is `=`",
        "`0` is `1`",
        "`-` is left out",
    ]
    wanted += ["the index is larger by one", "indices are swapped", "the stride is larger by one"]
    wanted += ["the choices are swapped", "the statement is left out", "`0.5f` is `1.5f`"]
    assert set(wanted) <= kinds, set(wanted) - kinds
    by_kind = {one.what: one.diff(SUMS).split("\n")[2] for one in found if one.line == 5}
    assert by_kind["the choices are swapped"] == (
        "+     part[0][t] = i < n ? << acc >>(0) : cast< << acc >> >(x[i]);"
    )
    assert by_kind["indices are swapped"].startswith("+     part[t][0] = i < n")
    for one in found:
        assert one.apply(SUMS) != SUMS


PLACES = """
extern "C" __global__ void << name >>(float* y, int row, int columns, int column) {
    y[row * columns + column] = 1;
    y[2 * columns + column] = 2;
    y[row * columns + (column - 1)] = 3;
    if constexpr (<< block >> > 1) y[row] = 4;
    if (row) y[column] = 5;
}"""


def test_terms_that_are_swapped_and_conditions_that_stay() -> None:
    """Of an index, two names; what the compiler decides leaves no guard to drop."""
    found = mutations(PLACES)
    swapped = [one.diff(PLACES).split("\n")[2] for one in found if one.what == "index terms are swapped"]
    assert swapped == ["+     y[column * columns + row] = 1;"]
    assert [one.line for one in found if one.what == "the guard is dropped"] == [7]


SQUARES = """
extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}"""


def test_survivors_are_shown_and_the_kernel_is_left_as_it_was() -> None:
    kernel = ck.Kernel(SQUARES, name="squares", block=32)

    def check() -> bool:
        x, y = ck.asarray([2.0, 2.0]), ck.empty(2)
        kernel(x, y, 2)
        return bool((y == x * x).all())

    text = kernel.source(ck.zeros(1), ck.zeros(1), 1)
    known = ["3: `blockIdx.x` is `blockIdx.y`"]
    with ck.device("host"):  # elsewhere empty arrays may hold the results of the launch before
        result = mutants(kernel, check, equivalent=known, limit=3, seed=2)
    assert len(result.noticed) + len(result.survivors) + len(result.equivalent) + len(result.invalid) == 3
    assert result.noticed and result.survivors and 0 < result.score < 1
    assert [one.what for one in result.equivalent] == ["`blockIdx.x` is `blockIdx.y`"]
    (one,) = result.survivors
    assert one.diff(SQUARES) in str(result) and f"noticed ({result.score:.0%})" in str(result)
    assert kernel.source(ck.zeros(1), ck.zeros(1), 1) == text and check()


FILE = """
#define HD __host__ __device__
HD float squared(float v) { return v * v; }
HD float cubed(float v) { return v * v * v; }
__global__ void cubes(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cubed(x[i]);
}
template <typename T> __global__ void squares(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = squared(x[i]);
}
int main() {
    float* x;
    for (int i = 0; i < 10; i++) squares<<<1 + i / 2, 32>>>(x, x + i, i * 2 - 1);
    return 0;
}
"""
CONDITIONAL = """
__device__ float unused(float v) { return v - 1 + 2 - 3 + 4; }
extern "C" __global__ void << name >>(const float* x, float* y, int n) {
<% if doubled %>
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
<% else %>
    if (n - threadIdx.x > 0) y[threadIdx.x] = 3 * x[threadIdx.x + 1 - 1];
<% endif %>
}"""


def test_mutants_are_of_the_kernel_that_runs_and_of_what_it_calls() -> None:
    several = ck.Kernel(FILE, plain=True, block=32)["squares<float>"]
    one = ck.Kernel(CONDITIONAL, name="conditional", block=32, doubled=True)
    allowed = ("return v * v;", "int i = blockIdx", "= squared("), ("2 * x[",)
    for kernel, texts in zip((several, one), allowed, strict=True):

        def check(kernel: ck.Kernel = kernel) -> bool:
            x, y = ck.asarray([3.0, -2.0]), ck.empty(2)
            kernel(x, y, 2, grid=1)
            return bool((y == (x * x if kernel is several else 2 * x)).all())

        with ck.device("host"):
            result = mutants(kernel, check, limit=5)
        tried = [*result.noticed, *result.survivors, *result.invalid]
        lines = [result.source.split("\n")[mutation.line - 1] for mutation in tried]
        assert len(lines) == 5 and all(any(text in line for text in texts) for line in lines), lines


def test_mutants_of_what_cannot_be_judged() -> None:
    kernel = ck.Kernel(SQUARES, name="squares", block=32)
    with pytest.raises(TypeError, match=r"kernel: expected a cukern.Kernel, got str"):
        mutants(SQUARES, lambda: True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="check: it does not launch the kernel squares"):
        mutants(kernel, lambda: True)
    with pytest.raises(ValueError, match="check: it fails with the kernel as it is"):
        mutants(kernel, lambda: False)


def test_indices_beyond_memory() -> None:
    text = """
extern "C" __global__ void << name >>(const signed char* x, << elem >>* y, << index >> n) {
    << index >> i = blockIdx.x;
    i = i * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i];
}"""
    n = 3 * 2**30
    kernel = ck.Kernel(text, name="widened")
    assert check_large(kernel, [(n,), (n,), n]) == []
    with pytest.raises(ck.KernelFault, match="overflow") as caught:
        check_large(kernel, [(n,), (n,), 2**31 - 1], index="int")
    assert any(one.place == "<widened>:4" for one in caught.value.reports)
    with pytest.raises(ck.KernelFault, match="out of bounds: .* reads element"):
        check_large(kernel, [(n - 5,), (n,), n])
    with pytest.raises(ck.LaunchError, match="widened: expected 3 arguments"):
        check_large(kernel, [(n,), (n,)])
    with pytest.raises(ck.LaunchError, match=r"argument n: expected long long, got the shape \(3,\)"):
        check_large(kernel, [(n,), (n,), (3,)])
    with pytest.raises(ValueError, match="blocks: expected at least 1, got 0"):
        check_large(kernel, [], blocks=0)
