"""Reports of all checks of one function: what passes, what fails and where, and what is said not to be checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cukern as ck
from cukern.cli import main

#: A file as users have it: kernels of float beside functions of the host.
PROGRAM = """
#include <cstdio>
__global__ void square(const float* x, float* y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) y[i] = 0.1f * x[i] * x[i];
}
__global__ void square_backward(const float* x, const float* g, float* dx, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = 0.2f * g[i] * x[i];
}
int main() { printf("left out"); }
"""
KERNELS = ck.Kernel(PROGRAM, plain=True, block=32)


class Square(ck.Function):
    """A function of kernels of float."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = ck.empty_like(x)
        KERNELS["square"](x, y, *x.shape)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    @ck.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_arrays
        dx = ck.empty_like(x)
        KERNELS["square_backward"](x, g, dx, x.size)
        return dx


class Halved(Square):
    """The same with a wrong derivative."""

    @staticmethod
    @ck.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_arrays
        dx = ck.empty_like(x)
        KERNELS["square_backward"](x, g, dx, x.size)
        return 0.5 * dx


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    """Launches are checked there, whatever is the default."""
    with ck.device("host"):
        yield


def argument() -> Any:
    return ck.random.default_rng(0).normal(size=(3, 7), dtype="float32")


def forward_alone() -> None:
    x = argument()
    ck.testing.assert_close(Square.apply(x), 0.1 * x * x)


def lines(report: ck.testing.Report) -> dict[str, ck.testing.Line]:
    return {line.what: line for line in report.lines}


def test_each_line_says_what_was_checked_and_what_was_not() -> None:
    found = lines(ck.testing.prove(Square, [argument()], tests=forward_alone, versions=3, sizes=[33]))
    passed = {"accesses", "first derivative", "dtypes", "layouts", "special values", "sizes", "ulps"}
    if any(one.kind == "cuda" for one in ck.devices()):
        passed.add("GPU")
    assert {what for what, line in found.items() if line.result == "passed"} == {
        *passed,
        "tests of kernel['square']",
    }
    assert "once_differentiable" in found["second derivative"].left_out
    assert "refused: as given, float16" in found["dtypes"].left_out
    assert "2 right" in found["sizes"].found
    # The index of the forward is an `int`, which 2^31 elements are too many for; the tests launch no backward.
    assert (found["large arrays"].reason, found["large arrays"].result) == ("large", "failed")
    assert (
        "square: overflow" in found["large arrays"].found
        and "square_backward" not in found["large arrays"].found
    )
    assert found["tests of kernel['square_backward']"].result == "failed"
    assert all(line.how for line in found.values())


def test_a_wrong_derivative_is_named() -> None:
    report = ck.testing.prove(Halved, [argument()], sizes=[], dtypes=[])
    line = lines(report)["first derivative"]
    assert not report.ok and (line.result, line.reason) == ("failed", "gradient")
    assert "numeric" in line.found


def test_a_function_without_a_derivative() -> None:
    def shifted(x: Any) -> Any:
        y = ck.empty_like(x)
        reads_beyond(x, y, x.size)
        return y

    reads_beyond = ck.Kernel(
        """extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i == 31 ? n : i];
}""",
        name="reads_beyond",
        block=32,
    )
    found = lines(ck.testing.prove(shifted, [ck.ones(5)], order=0, sizes=[32]))
    assert found["first derivative"].left_out == "the function has none"
    assert (found["accesses"].reason, found["sizes"].reason) == ("fault", "sizes")
    assert found["accesses"].place.endswith(":3"), found["accesses"].place
    assert found["layouts"].result == "passed"


def test_command_proves_a_function_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "doubled.py").write_text(
        "import cukern as ck\n"
        "twice = ck.Kernel('''\n"
        'extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, long long n) {\n'
        "    const long long i = blockIdx.x * (long long)<< block >> + threadIdx.x;\n"
        "    if (i < n) y[i] = 2 * x[i];\n"
        "}''', name='proved_twice', block=32)\n"
        "def doubled(x):\n"
        "    y = ck.empty_like(x)\n"
        "    twice(x, y, x.size)\n"
        "    return y\n"
        "def test_doubled():\n"
        "    x = ck.arange(70).astype('float32')\n"
        "    ck.testing.assert_close(doubled(x), 2 * x)\n"
        "arguments = {'doubled': [ck.linspace(-1, 1, 5)]}\n"
    )
    where = f"{tmp_path / 'doubled.py'}::doubled"
    out = tmp_path / "page.html"
    assert main(["prove", where, "--order", "0", "--dtypes", "--versions", "4", "--out", str(out)]) == 0
    assert "doubled, proved: passed" in capsys.readouterr().out
    report = json.loads((tmp_path / "page.json").read_text())
    assert (
        report["ok"]
        and {line["what"]: line["result"] for line in report["lines"]}["tests of proved_twice"] == "passed"
    )
    assert "tests of proved_twice" in out.read_text()
    assert main(["prove", f"{tmp_path / 'doubled.py'}::tripled"]) == 2
    assert main(["prove", where, "--args", "1 +"]) == 2


def test_arguments_without_floats_are_refused() -> None:
    with pytest.raises(TypeError, match="args: there is no floating array"):
        ck.testing.prove(Square, [ck.arange(3)])
    with pytest.raises(TypeError, match="function: expected a function or a ck.Function, got int"):
        ck.testing.prove(3, [ck.ones(3)])


# ---- what prove uses, of kernels of one file


def test_ulps_of_kernels_of_float() -> None:
    table = ck.testing.ulps(Square.apply, [argument()])
    assert 0 < table.worst < 3


def test_constants_of_float_are_the_same_in_dual_numbers() -> None:
    result = ck.testing.kernelcheck(Square.apply, [argument()], order=1, dtypes=[], sizes=[])
    assert not [one for one in result.notes if "dual" in one]


def test_comparing_what_nothing_wrote_is_a_fault_of_checked_launches() -> None:
    nothing = ck.Kernel('extern "C" __global__ void f(float* y) { }', plain=True, block=4)
    with ck.testing.checked(collect=True) as reports:
        y = ck.empty(4)
        nothing(y)
        assert not reports
        ck.testing.assert_close(y, y)
    assert "4 of 4 elements of an array of ck.empty were never written" in reports[0].message


def test_a_program_of_several_kernels_has_no_wrong_versions_of_its_own() -> None:
    with pytest.raises(
        ValueError, match=r"does not launch the kernel kernel; give one of its kernels, as kernel\[...\]"
    ):
        ck.testing.mutants(KERNELS, forward_alone)
