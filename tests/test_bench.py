"""The measurement: every case can be prepared, and a wrong result is seen."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import cukern as ck
from cukern.bench import run as bench_run
from cukern.bench.case import Case
from cukern.bench.cases import CASES
from cukern.bench.libraries import TRACKED
from cukern.cli import main


@pytest.fixture(scope="module")
def bench() -> bench_run.Bench:
    return bench_run.Bench(ck.Device("host"))


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """What the scripts of `benchmarks/` share, without PyTorch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    path = Path(__file__).parents[1] / "benchmarks" / "measure.py"
    spec = importlib.util.spec_from_file_location("measure", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with ck.device("host"):
        yield module


def test_a_script_writes_its_table(
    measure: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table.md"
    bench = measure.Benchmark(__doc__, "times", ["case", "own", "other"], ["--scale", "4", "--out", str(out)])
    calls: list[int] = []
    own, other, copied = bench.microseconds(
        [lambda: calls.append(0), lambda: calls.append(1)], None, bench.copy_of(64)
    )
    assert own > 0 and other is None and copied > 0 and calls.count(0) == calls.count(1)
    assert bench.scale == 4 and bench.host_microseconds(None) is None and bench.host_microseconds(list) > 0
    bench.row("one", 1.25, None)
    with pytest.raises(ValueError, match="expected 3 cells, got 2"):
        bench.row("one", 1.25)
    bench.end("after")
    table = "| case | own | other |\n| --- | --- | --- |\n| one | 1.2 |  |\n\nafter\n"
    assert out.read_text().endswith(f", times\n\n{table}") and capsys.readouterr().out == out.read_text()


def test_a_script_sees_a_wrong_result(measure: ModuleType) -> None:
    exact = ck.asarray([0.0, -4.0])
    assert measure.difference("case", ck.asarray([1.0, -4.0]), exact, 0.25, relative=True) == 0.25
    with pytest.raises(AssertionError, match=r"case: the results differ by 1, expected 0\.5 at most"):
        measure.difference("case", ck.asarray([1.0, -4.0]), exact, 0.5)
    with pytest.raises(AssertionError, match="differ by nan"):
        measure.difference("case", ck.asarray([float("nan"), -4.0]), exact, 1.0)


def test_saves_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command sets it for its process, which all later tests would share: their kernels would be optimised at once.
    monkeypatch.setenv("CUKERN_QUICK_BUILDS", "1")
    assert main(["bench", "--device", "host", "--families", "broadcast", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [one["name"] for one in found["results"]] == ["add a row", "add a column"]
    for one in found["results"]:
        assert one["measured"].keys() == {"cukern", "numpy"} and min(one["measured"].values()) > 0
        assert one["error"] < 1e-6
    assert "add a row" in (tmp_path / "bench.md").read_text()
    assert "wrong or failed: none" in capsys.readouterr().out
    assert os.environ["CUKERN_QUICK_BUILDS"] == "0"


def test_refuses_an_unknown_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--device", "host", "--families", "broadcast", "speed"]) == 2
    assert "got speed" in capsys.readouterr().err


def test_sees_a_wrong_result(bench: bench_run.Bench) -> None:
    wrong = Case("f", "wrong", "x:n", "np.multiply(x, 1.001)", "2 * x", "n=1000", numpy="x * 1.0")
    assert not bench.measure(wrong, "float32").right
    broken = Case("f", "broken", "x:n", "np.no_such_function(x)", "x", "n=10")
    with pytest.raises(AttributeError):
        bench.measure(broken, "float32")


def test_compares_with_what_another_library_does(
    bench: bench_run.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = iter([[4.0, 3.0], [1.0], [4.0, 3.0]])
    monkeypatch.setattr(bench_run, "median_seconds", lambda clock, sides: next(taken))
    case = Case("f", "c", "x:n", "np.copy(x)", "2 * x", "n=1000", bare="np.sin(x)")
    found = bench.measure(case, "float32")
    assert (found.share, found.rate, found.unit, found.against) == (0.25, 2e-6, "GB/s", "np.sin(x)")
    found = bench.measure(replace(case, bare="", flops="8 * 10**12"), "float32")
    assert (found.share, found.rate, found.unit, found.against) == (2 / bench.copy, 2.0, "TFLOP/s", "")


def test_calls_are_compared_with_an_addition(bench: bench_run.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_run, "host_seconds", lambda synchronize, calls: [3e-4, 1e-6][: len(calls)])
    cases = {case.name: case for case in CASES if case.family == "call"}
    assert cases["gelu"].goal == cases["gelu, recorded"].goal == cases["gelu, backward"].goal
    for name, multiple in (("gelu", 300.0), ("gelu, recorded", 3.0), ("gelu, backward", 3.0)):
        found = bench.measure(cases[name], "float32")
        assert (found.unit, found.rate, found.share) == (
            "adds",
            pytest.approx(multiple),
            pytest.approx(1 / multiple),
        )
        assert found.goal is None and found.against == "ck.add of small arrays"


def test_the_derivative_of_calls_is_that_of_each(bench: bench_run.Bench) -> None:
    case = next(case for case in CASES if case.name == "a user's Function, backward")
    data = {one.name: bench.random(one, k) for k, one in enumerate(case.arguments("host"))}
    found = bench._prepare(bench.libraries[0], case.run, case, "float32", data)()
    cotangent = bench._cotangent((64,))
    assert len(found) == TRACKED
    for one in found:
        assert np.allclose(one.numpy(), 2 * data["x"] * cotangent, rtol=1e-6)


_OTHERS = [case for case in CASES if "float32" not in case.dtypes.split() and case.kind == "device"]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.name} {case.dtypes}", marks=pytest.mark.thorough if i % 4 else ())
        for i, case in enumerate(_OTHERS)
    ],
)
def test_cases_of_dtypes_that_the_host_does_not_measure(bench: bench_run.Bench, case: Case) -> None:
    data = {one.name: bench.random(one, k) for k, one in enumerate(case.arguments("host"))}
    ours = bench.libraries[0]
    made, exact = (bench._prepare(ours, case.run, case, dtype, data)() for dtype in ("float32", "float64"))
    for one, right in zip(*([x] if isinstance(x, ck.Array) else x for x in (made, exact)), strict=True):
        one, right = one.astype("float64").numpy(), right.astype("float64").numpy()
        assert one.shape == right.shape
        assert np.linalg.norm(one - right) < 1e-5 * np.linalg.norm(right)


def test_sizes_and_traffic_follow_from_the_line() -> None:
    case = Case("f", "c", "x:v,m i:n<v mask:n?", "x", "x + i + 2 * mask * n / v", "n=4 m=2 v=8 | n=2 m=2 v=4")
    x, i, mask = case.arguments("cuda")
    assert (x.shape, i.shape, i.below, mask.logical) == ((8, 2), (4,), 8, True)
    assert case.nbytes("cuda", "bfloat16") == 8 * 2 * 2 + 4 * 8 + 2 * 4 * 4 / 8
    assert case.arguments("host")[0].shape == (4, 2)


def test_every_line_can_be_read() -> None:
    lines = [(case.family, case.name, dtype) for case in CASES for dtype in case.dtypes.split()]
    assert len(set(lines)) == len(lines)
    for case in CASES:
        for device in ("cuda", "host"):
            assert case.arguments(device)
            assert case.kind != "device" or case.operations(device) or case.nbytes(device, "float32") > 0
