"""The judge of kernels: what it rejects, with which reason and line, and what it accepts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import judged_library
import numpy as np
import pytest
from judged_right import RIGHT, text
from judged_tasks import TASKS
from judged_wrong import ROW, WRONG, changed

import cukern as ck
from cukern.cli import main
from cukern.cli.judge import pages
from cukern.device.host import compiler
from cukern.testing.judge import REASONS
from cukern.testing.judging import candidate, process
from cukern.testing.judging.bounds import Bounded
from cukern.testing.judging.candidate import Refused, screen
from cukern.testing.judging.expressions import evaluate
from cukern.testing.judging.task import Signature

SEED = 5
#: What a usual run judges: the others are `thorough`. Texts that are refused as they stand start no process.
QUICK = {("sum/last block", 64), ("matmul/tiles", 64)}
FEW = {
    "no guard",
    "loses a barrier",
    "follows an address",
    "calls its constants",
    "declares a function of the host",
    "never ends",
    "fills a variable",
    "writes nothing",
    "keeps its first results",
    "counts its launches",
    "knows the announced size",
    "no maximum",
    "columns up to sixteen times",
    "a row in a shared array",
    "Python in its launch",
}
TWICE = """// grid: divide_up(n, 64)
// block: 64
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}"""


def twice(**more: Any) -> ck.testing.Task:
    given = {"announced": [{"n": 100}], "values": ["nan"], **more}
    return ck.testing.Task(
        "twice(const float x[n], float y[n], int n)", given.pop("reference", lambda x: 2 * x), **given
    )


def judged(task: str, source: str, **more: Any) -> ck.testing.Report:
    return ck.testing.judge(
        TASKS[task], source, **{"seed": SEED, "memory": 1 << 30, "device": "host", **more}
    )


def judged_by(task: ck.testing.Task, source: str) -> ck.testing.Report:
    return ck.testing.judge(task, source, seed=SEED, device="host")


@pytest.mark.parametrize(
    ("style", "block"),
    [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.thorough) for one in RIGHT],
)
def test_right_candidates_are_accepted(style: str, block: int) -> None:
    report = judged(style.partition("/")[0], text(style, block))
    assert report.ok, str(report)


@pytest.mark.thorough
@pytest.mark.parametrize("name", judged_library.NAMES)
def test_kernels_of_the_library_are_accepted(name: str) -> None:
    task, source = judged_library.candidate(name)
    report = ck.testing.judge(task, source, seed=SEED, device="host")
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if one.reason == "forbidden" or name in FEW else pytest.mark.thorough)
        for name, one in WRONG.items()
    ],
)
def test_wrong_candidates_are_rejected_with_their_reason(name: str) -> None:
    wrong = WRONG[name]
    # Of the seconds that a candidate has a launch may take a part, which one that never ends does take.
    report = judged(wrong.task, wrong.text, timeout=12.0 if wrong.reason == "timeout" else 60.0)
    assert (report.ok, report.reason) == (False, wrong.reason), str(report)
    if wrong.line:
        number = int(report.place.rpartition(":")[2])
        assert wrong.line in wrong.text.split("\n")[number - 1], report.place


def test_there_is_a_candidate_of_every_reason() -> None:
    seen = {wrong.reason for wrong in WRONG.values()}
    # A process that ends is tried below, a GPU needs one; the rest are reports of checked launches like those here.
    assert set(REASONS) - seen == {"crash", "device", "geometry"}


def test_a_process_that_ends_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = process.Process.ask

    def killed(self: Any, header: Any, arrays: Any) -> Any:
        if header["what"] == "plain":
            os.kill(self.process.pid, signal.SIGSEGV)
        return ask(self, header, arrays)

    monkeypatch.setattr(process.Process, "ask", killed)
    report = ck.testing.judge(twice(), TWICE, seed=SEED, device="host")
    assert report.reason == "crash" and "SIGSEGV" in str(report)


#: What a candidate's process tries after it has given up system calls.
ATTEMPTS = """
import ctypes, os, resource, socket, subprocess, sys, threading
from cukern.testing.judging.confined import can_filter, filter_system_calls
sys.exit("none here") if not can_filter() else os.chdir(sys.argv[1])
here = open("here", "w")
sys.exit("none here") if not filter_system_calls() else None
attempts = {
    "write": lambda: open("here", "w"),
    "append": lambda: open("here", "a"),
    "make": lambda: os.open("made", os.O_CREAT),
    "truncate": lambda: os.open("here", os.O_TRUNC),
    "remove": lambda: os.unlink("here"),
    "rename": lambda: os.rename("here", "there"),
    "folder": lambda: os.mkdir("folder"),
    "memory file": lambda: os.memfd_create("a"),
    "socket": socket.socket,
    "fork": os.fork,
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "process": lambda: subprocess.run(["true"]),
    "signal": lambda: os.kill(os.getppid(), 0),
    "limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
}
if os.uname().machine == "x86_64":
    numbers = {"creat": 85, "openat2": 437, "io_uring": 425, "ptrace": 101, "vfork": 58, "execveat": 322, "tkill": 200}
    libc = ctypes.CDLL(None, use_errno=True)
    def call(number):
        if libc.syscall(number, 0, b"made", 0, 0, 0) < 0 and ctypes.get_errno() == 1:
            raise PermissionError
    attempts |= {name: lambda number=number: call(number) for name, number in numbers.items()}
for name, attempt in attempts.items():
    try:
        attempt()
    except (PermissionError, ValueError):  # the latter of Python, for a limit
        continue
    print("not refused:", name)
thread = threading.Thread(target=lambda: print(open(os.devnull).read() + "read"))
thread.start(), thread.join()
"""


def test_a_candidates_process_gives_up_system_calls(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    if "none here" in done.stderr:
        pytest.skip("this system has no filter of system calls")
    assert (done.stdout, done.returncode) == ("read\n", 0), done.stdout + done.stderr


def test_candidates_are_judged_side_by_side() -> None:
    texts = [TWICE, TWICE.replace("2 *", "3 *"), TWICE.replace("if (i < n) ", "")]
    with ThreadPoolExecutor(3) as pool:
        reports = pool.map(lambda one: ck.testing.judge(twice(), one, seed=SEED, device="host"), texts)
    assert [one.reason for one in reports] == ["", "wrong", "bounds"]


def test_scalars_of_a_list_are_hidden_but_for_the_first() -> None:
    task = ck.testing.Task(
        "twice(const float x[n], float y[n], int n, float a)",
        lambda x, a: a * x,
        [{"n": 100}],
        hidden=[{"n": 9}, {"n": 10}],
        scalars={"a": [2.0, 3.0]},
        values=[],
    )
    known = TWICE.replace("int n)", "int n, float a)")
    reports = [judged_by(task, one) for one in (known, known.replace("2 *", "a *"))]
    assert [one.reason for one in reports] == ["shape", ""]


def test_large_arrays_are_launched_too() -> None:
    late = TWICE.replace("i < n", "i < n && blockIdx.x < 1000")
    assert judged_by(twice(), late).reason == "unwritten"


@pytest.mark.parametrize("role", ["", "inout "])
def test_a_wrong_result_by_a_pointer_has_a_line(role: str) -> None:
    rows = """// grid: rows
// block: 64
__global__ void twice(const float* x, float* y, int rows, int columns) {
    const float* from = x + (size_t)blockIdx.x * columns;
    float* to = y + (size_t)blockIdx.x * columns;
    for (int c = threadIdx.x; c < columns; c += 64) {
        to[c] = 3 * from[c];
    }
}"""
    task = ck.testing.Task(
        f"twice(const float x[rows][columns], {role}float y[rows][columns], int rows, int columns)",
        (lambda x, y: 2 * x + 0 * y) if role else lambda x: 2 * x,
        [{"rows": 3, "columns": 100}],
        values=[],
    )
    report = judged_by(task, rows)
    assert (report.reason, report.place) == ("wrong", "candidate.cu:7"), report


def test_scratch_need_not_be_written() -> None:
    task = replace(TASKS["sum"], values=[])
    assert judged_by(task, text("sum/two launches", 64).replace("parts[8]", "parts[64]")).ok


def test_long_sizes_keep_to_a_stated_maximum() -> None:
    task = replace(TASKS["row_sums"], valid=lambda sizes: sizes["columns"] <= 1000, values=[], large=[])
    row = changed(ROW, ("float v = 0", "float row[1000], v = 0"), ("v += x[", "v += row[c] = x["))
    assert judged_by(task, row).ok
    assert judged_by(task, row.replace("row[1000]", "row[999]")).reason == "bounds"


@pytest.mark.parametrize(
    ("given", "longest"),
    [
        ({}, 16 * 100 + 1),
        ({"valid": lambda sizes: sizes["n"] <= 100}, 0),
        ({"valid": lambda sizes: sizes["n"] % 4 == 0}, 1600),
        ({"largest": 50}, 800),
        ({"hidden": [{"n": 7}]}, 0),
    ],
)
def test_long_sizes(given: dict[str, Any], longest: int) -> None:
    for seed in range(3):
        sizes = [case.sizes["n"] for case in twice(**given).cases(seed) if case.what == "long sizes"]
        assert bool(sizes) == bool(longest) and all(longest <= n < 1800 for n in sizes)
        assert bool(given) or all(n % 2 for n in sizes)


def test_a_verdict_repeats_by_its_seed() -> None:
    first = ck.testing.judge(twice(), TWICE, device="host")
    again = ck.testing.judge(twice(), TWICE, seed=first.facts["seed"], device="host")
    assert first.ok and [one.found for one in first.lines] == [one.found for one in again.lines]


def test_both_devices_of_a_half_type_and_a_reference_of_cukern() -> None:
    task = ck.testing.Task(
        "act(const T x[n], T y[n], int n)", ck.tanh, [{"n": 200}], dtypes=["bfloat16"], library="cukern"
    )
    source = TWICE.replace("twice(const float* x, float* y", "act(const T* x, T* y").replace(
        "2 * x[i]", "T(tanhf(float(x[i])))"
    )
    source = source.replace("__global__", "#include <cuda_bf16.h>\ntemplate <typename T> __global__")
    assert ck.testing.judge(task, source, seed=SEED, device="host").ok
    wrong = source.replace("tanhf(", "0.9f * tanhf(")
    assert ck.testing.judge(task, wrong, seed=SEED, device="host").reason in ("wrong", "precision")


def test_documentation_has_every_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pages" / "judge.md").read_text()
    for code, meaning in REASONS.items():
        assert f"| `{code}` | {meaning} |" in page
    right = len(RIGHT) + len(judged_library.NAMES)
    told = f"{len(WRONG)} candidates that cheat or are wrong, and {right} right ones"
    assert told in " ".join(page.split())


def test_a_gpu_is_judged_and_timed(device: ck.Device) -> None:
    if device.kind != "cuda":
        pytest.skip("needs a GPU")
    pytest.importorskip("cupy")
    task = twice(library="cukern")
    report = ck.testing.judge(task, TWICE, seed=SEED, device=device)
    assert report.ok and "times as fast" in report.lines[-1].found, str(report)
    lazy = TWICE.replace("__global__", "__device__ int runs[128];\n__global__", 1)
    lazy = lazy.replace(
        "if (i < n)", "if (i < n && (n != 100 || ++runs[i] < 13))"
    )  # when only timed launches are left
    assert ck.testing.judge(task, lazy, seed=SEED, device="host").ok
    report = ck.testing.judge(task, lazy, seed=SEED, device=device)
    assert report.reason == "device", str(report)


def test_command_writes_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "task.py").write_text(
        "import cukern as ck\n"
        'task = ck.testing.Task("twice(const float x[n], float y[n], int n)", lambda x: 2 * x, [{"n": 9}], values=[])\n'
    )
    (tmp_path / "good.cu").write_text(TWICE)
    (tmp_path / "bad.cu").write_text(TWICE.replace("if (i < n) ", ""))
    files = [str(tmp_path / name) for name in ("task.py", "good.cu", "bad.cu")]
    assert main(["judge", *files, "--out", str(tmp_path / "out"), "--seed", "3", "--device", "host"]) == 1
    assert "1 of 2 rejected" in capsys.readouterr().out
    verdict = json.loads((tmp_path / "out" / "bad.json").read_text())
    assert (verdict["ok"], verdict["reason"], verdict["place"]) == (False, "bounds", "bad.cu:5")
    assert json.loads((tmp_path / "out" / "good.json").read_text())["ok"]
    page = (tmp_path / "out" / "bad.html").read_text()
    assert "bad.cu:5" in page and "<script" not in page
    assert main(["judge", str(tmp_path / "good.cu"), str(tmp_path / "good.cu")]) == 2


@pytest.mark.thorough
def test_compilers_that_guard_stacks_and_buffers_by_default(tmp_path: Path) -> None:
    command = compiler.compiler().command[0]
    (tmp_path / "c++").write_text(
        f'#!/bin/sh\nexec {command} -fstack-protector-all -O2 -D_FORTIFY_SOURCE=2 "$@"\n'
    )
    (tmp_path / "c++").chmod(0o755)
    (tmp_path / "task.py").write_text(
        "import cukern as ck\n"
        'task = ck.testing.Task("twice(const float x[n], float y[n], int n)", lambda x: 2 * x, [{"n": 9}], values=[])\n'
    )
    (tmp_path / "good.cu").write_text(TWICE)
    call = [
        sys.executable,
        "-m",
        "cukern",
        "judge",
        *(str(tmp_path / name) for name in ("task.py", "good.cu")),
    ]
    env = {**os.environ, "CXX": str(tmp_path / "c++")}
    done = subprocess.run([*call, "--device", "host"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_candidates_of_one_name_have_pages_of_their_own() -> None:
    assert pages([Path("a/k.cu"), Path("c.cu"), Path("b/k.cu")]) == ["k-1.html", "c.html", "k-3.html"]


def test_a_page_shows_texts_and_runs_none() -> None:
    report = ck.testing.Report(
        "t", [ck.testing.Line("a", "b", "failed", "<script>x</script>", reason="wrong")]
    )
    assert "&lt;script&gt;" in report.page() and "<script>" not in report.page()


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os')",
        "n.real",
        "n[0]",
        "[n for n in n]",
        "2 ** 70",
        "'a' * n",
        "lambda: n",
        "min(*n)",
        "9 << 70",
        "m",
        "1 / 0",
        "(" * 150,
        "True",
        "print(n, n)",
    ],
)
def test_expressions_have_sizes_alone(source: str) -> None:
    with pytest.raises(ValueError, match="."):
        evaluate(source, {"n": 10})


def test_expressions_divide_as_cxx_does() -> None:
    assert [
        evaluate(one, {"n": 7})
        for one in ("-n / 2", "n // 2", "-n % 4", "divide_up(n, 2)", "n if n > 7 else min(n, 3)")
    ] == [-3, 3, -3, 4, 3]


@pytest.mark.parametrize(
    "source",
    [
        "/* b *\\\n/ asm",
        "%:define x",
        "??=define x",
        'R"x(asm)x"',
        "é",
        "x *\\\n/ asm",
        "a\\ \nb",
        "// \r asm",
        "// \u2028",
        "// \u202e",
    ],
)
def test_texts_that_hide_words_are_refused(source: str) -> None:
    with pytest.raises(Refused):
        screen(source)


@pytest.mark.parametrize("piece", ["/*", '"\\"', "'\\'", 'extern "C" __global__ ', "#define ", "a "])
def test_texts_are_read_in_little_time(piece: str) -> None:
    """One that makes the judge itself slow would hold up all others."""
    begin = time.monotonic()
    line = piece * (1900 // len(piece))
    with contextlib.suppress(Refused):
        screen("\n".join([line] * ((1 << 18) // (len(line) + 1))))
    assert time.monotonic() - begin < 10


def test_words_in_comments_and_strings_are_none() -> None:
    screen("__global__ void f(int* read) { int thread = threadIdx.x, open = 1; read[thread] = open; }")
    screen(
        "#ifndef M_PI\n#define M_PI 3.14\n#endif\n#if __cplusplus >= 201703L\n#endif\n// é\r\n#define A \\\r\n 1"
    )
    screen('// asm, system and printf\n/* getenv */ __global__ void f() { const char* s = "fopen"; }')


def test_signatures() -> None:
    found = Signature.parsed(
        "f(const T x[rows][2 * n + 1], inout int y[n], T z[max(rows, n)], int n, float eps)"
    )
    assert [one.role for one in found.parameters] == ["in", "inout", "out", "scalar", "scalar"]
    assert found.dims == ["rows", "n"] and found.parameters[0].sized({"rows": 3, "n": 4}) == (3, 9)
    assert Signature.parsed("f(const uint8_t x[n], unsigned y[n], int n)").text("") == (
        "const unsigned char* x, unsigned int* y, int n"
    )
    assert candidate.parts("// scratch: unsigned done[1] = 0")[0].scratch[0].cxx == "unsigned int"
    for wrong in ("f", "f(const T n)", "f(T* x)", "f(Pair x[n])"):
        with pytest.raises(ValueError, match="signature"):
            Signature.parsed(wrong)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"announced": []}, "announced"),
        ({"announced": [{"m": 1}]}, "announced"),
        ({"values": ["odd"]}, "values"),
        ({"library": "torch"}, "library"),
    ],
)
def test_tasks_say_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        twice(**given)


def missing(x: Any) -> Any:
    return {"y": x}["x"]


def test_a_reference_that_fails_is_the_tasks_error() -> None:
    with pytest.raises(
        ValueError, match=re.escape("reference fails for announced sizes (n=100, float32): KeyError")
    ):
        ck.testing.judge(twice(reference=missing), TWICE, seed=SEED, device="host")


# ---- bounds


def narrow(formula: Any, *args: Any) -> tuple[Any, Any]:
    """The errors of a formula in float32 by NumPy, and their bounds."""
    arrays = [np.asarray(one, np.float32) for one in args]
    want = formula(*(Bounded.exact(one, np.dtype(np.float32)) for one in arrays))
    with np.errstate(all="ignore"):
        return np.abs(formula(*arrays).astype(np.float64) - want.value), want.error


def normalised(x: Any) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + np.float32(1e-5))


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: np.exp(x - np.max(x, axis=1, keepdims=True)) / np.sum(np.exp(x), axis=1, keepdims=True),
        lambda x: np.cumsum(x, axis=1) * 3,
        lambda x: x @ np.transpose(x),
        lambda x: 1 - np.tanh(x) ** 2,
        lambda x: np.std(x, axis=0) - np.var(x, axis=0),
        lambda x: np.sort(np.where(x > 0, x, 0.1 * x), axis=1)[:, ::-1].reshape(-1),
        lambda x: np.concatenate([x, np.log1p(np.abs(x))]).sum(axis=0),
        normalised,
    ],
    ids=["softmax", "scan", "product", "tanh", "deviation", "sorted", "joined", "normalised"],
)
def test_errors_are_within_their_bounds(formula: Any) -> None:
    x = np.random.default_rng(3).normal(size=(20, 50)) * 3
    error, bound = narrow(formula, x)
    assert (error <= bound).all()
    assert np.median(bound[bound > 0]) < 1e4 * np.median(error[error > 0]), "a bound that refuses nothing"


def test_bounds_widen_where_digits_cancel() -> None:
    x = np.array([1.0, 1000.0])
    bound = (Bounded.exact(x, np.dtype(np.float32)) + 1.0 - x).error
    assert bound[1] > 100 * bound[0]
    large = Bounded.exact(np.array([1e30, 1.0]), np.dtype(np.float32))
    assert np.isinf((large * large).error).tolist() == [True, False]


def test_bounds_say_which_function_they_lack() -> None:
    with pytest.raises(TypeError, match=r"bounds do not know numpy.convolve: give Task\(bound="):
        np.convolve(Bounded.exact(np.ones(3), np.dtype(np.float32)), np.ones(2))
