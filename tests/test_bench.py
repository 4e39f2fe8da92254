"""The measurement: every case can be prepared, and a wrong result is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cukern as ck
from cukern.bench import run as bench_run
from cukern.bench.case import Case
from cukern.bench.cases import CASES
from cukern.cli import main


@pytest.fixture(scope="module")
def bench() -> bench_run.Bench:
    return bench_run.Bench(ck.Device("host"))


def test_saves_what_it_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--device", "host", "--families", "broadcast", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [one["name"] for one in found["results"]] == ["add a row", "add a column"]
    for one in found["results"]:
        assert one["measured"].keys() == {"cukern", "numpy"} and min(one["measured"].values()) > 0
        assert one["error"] < 1e-6
    assert "add a row" in (tmp_path / "bench.md").read_text()
    assert "wrong or failed: none" in capsys.readouterr().out


def test_refuses_an_unknown_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--device", "host", "--families", "broadcast", "speed"]) == 2
    assert "got speed" in capsys.readouterr().err


def test_sees_a_wrong_result(bench: bench_run.Bench) -> None:
    wrong = Case("f", "wrong", "x:n", "np.multiply(x, 1.001)", "2 * x", "n=1000", numpy="x * 1.0")
    assert not bench.measure(wrong, "float32").right
    broken = Case("f", "broken", "x:n", "np.no_such_function(x)", "x", "n=10")
    with pytest.raises(AttributeError):
        bench.measure(broken, "float32")


def test_sizes_and_traffic_follow_from_the_line() -> None:
    case = Case("f", "c", "x:v,m i:n<v mask:n?", "x", "x + i + 2 * mask * n / v", "n=4 m=2 v=8 | n=2 m=2 v=4")
    x, i, mask = case.arguments("cuda")
    assert (x.shape, i.shape, i.below, mask.logical) == ((8, 2), (4,), 8, True)
    assert case.nbytes("cuda", "bfloat16") == 8 * 2 * 2 + 4 * 8 + 2 * 4 * 4 / 8
    assert case.arguments("host")[0].shape == (4, 2)


def test_every_line_can_be_read() -> None:
    assert len({(case.family, case.name) for case in CASES}) == len(CASES)
    for case in CASES:
        for device in ("cuda", "host"):
            assert case.arguments(device)
            assert case.kind != "device" or case.operations(device) or case.nbytes(device, "float32") > 0
