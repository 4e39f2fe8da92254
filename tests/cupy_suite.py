"""Run CuPy's own tests against cukern: the name ``cupy`` stands for cukern while they run.

    python tests/cupy_suite.py CHECKOUT [ROOM_OR_FILE ...] [-n WORKERS] [-k EXPRESSION] [--every-dtype] [--json OUT]

CHECKOUT is a checkout of CuPy's repository; its ``tests/cupy_tests`` and ``cupy/testing`` are read, nothing of its
package is built or imported. Without rooms (``indexing_tests``) or files (``indexing_tests/test_insert.py``) all tests
that apply are run. Printed are the counts of each file and the reasons of failures.

What differs from a run with CuPy:

- The default floating dtype is float64, as NumPy's.
- Where NumPy's result has another floating precision than cukern's by the rules of :func:`cukern.result_type`, values
  are compared in the coarser of the two; such tests are counted apart, as "by rule".
- No comparison of floats asks for more digits than their dtype has.
- An array of cukern does not keep the one that it views: ``x.base`` is looked up among the living arrays.
- The words of errors are not compared, only their classes.
- Fortran order, memory and streams of CUDA, texts of kernels, strings and records are left out. A test that only asks
  for those is not counted.
- Loops over dtypes take :data:`_DTYPES` alone, unless ``--every-dtype``: each dtype is a kernel to compile.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cupy_stand_in import Finder, LeftOut, Loop, Plans, add_random, base_of, left_out, namespace

_CHECKOUT = os.environ.get("CUPY_SUITE_CHECKOUT", "")
#: The dtypes of a run without ``--every-dtype``.
_DTYPES = tuple(np.dtype(code).type for code in "?bilBefdFD")
_COMBINATIONS = 6
_SECONDS = 120
#: Files and tests about what cukern leaves out, as regular expressions of their node ids.
_LEFT_OUT = {
    "kernels, fusion and compilation": r"fusion_tests|core_tests/test_(raw|carray|userkernel|include|mdspan|function|"
    r"elementwise|reduction|cub_reduction|internal|syncdetect|multithreading|gufuncs)\.py",
    "memory, streams and devices of CUDA": r"cuda_tests|test_cublas|fft_tests/test_(cache|callback)|misc_tests/test_"
    r"(byte_bounds|memory_ranges|who)|core_tests/test_(dlpack|ndarray_(owndata|get|cuda_array_interface))\.py",
    "strings and records": r"test_structured|io_tests/test_(formatting|base_n|text)|test_ndarray_byteswap",
    "CuPy's package and its tests' tools": r"testing_tests|test_typing|test_init\.py|bit_generator|install_tests|"
    r"test_array_function",
    "records, objects and byte orders": r"ObjectComparison|DTypeUnchecked|structured|[Ss]ubclass|byteswap|big_endian|"
    r"test_save_pickle",
    "CuPy's own protocols and attributes": r"cupy_like|CuPyGetNDArray|CuPyLike|TestCudaArrayInterface|CudaInterface|"
    r"32bit_boundary|TestUfunc::test_types|TestInterval",
    "what CuPy refuses and cukern takes": r"TestR_::test_r_[34567]$|test_numpy_ndarray_rejected|test_delete_array_like|"
    r"raises_with_numpy_input|test_(partition|sort)_non_contiguous|test_lexsort_three_or_more_dim|"
    r"test_(callable|mixed)_funclist|test_vectorize_(const_non_toplevel|lambda_xfail)|"
    r"test_tuple_pattern_match_type_error|test_relu_type_error|test_histogramdd_disallow_arraylike",
    "arguments that NumPy writes to": r"test_(percentile|quantile)_overwrite",
    "arrays too large for the host": r"int32_overflow|test_fft_allocate|TestHugeArrays",
}


def _install(checkout: Path) -> None:
    import cukern

    cukern.zeros(1)  # cukern finds the device now, while the name still means CuPy
    cupy = namespace()
    sys.modules["cupy"] = cupy
    sys.meta_path.append(Finder())  # type: ignore[arg-type]
    for name in ("cuda", "_core", "_util", "fft", "lib"):
        setattr(cupy, name, importlib.import_module(f"cupy.{name}"))
    sys.modules["cupy.fft.config"] = cupy.fft.__dict__["config"] = Plans("cupy.fft.config")
    util: Any = cupy._util
    util.PerformanceWarning = type("PerformanceWarning", (UserWarning,), {})
    internal = types.ModuleType("cupy._core.internal")
    internal.__dict__.update(prod=math.prod, prod_sequence=math.prod)
    sys.modules["cupy._core.internal"] = internal
    cupy._core.internal = internal  # type: ignore[attr-defined]
    runtime = importlib.import_module("cupy.cuda.runtime")
    for name in ("runtimeGetVersion", "driverGetVersion", "getDeviceCount"):
        setattr(runtime, name, lambda: 1)
    cupy.cuda.runtime = runtime  # type: ignore[attr-defined]
    for name in ("get_default_memory_pool", "get_default_pinned_memory_pool"):
        setattr(cupy, name, lambda: left_out("memory of CUDA"))
    add_random(cupy.random)
    sys.modules["cupy.exceptions"] = cupy.exceptions = np.exceptions  # type: ignore[attr-defined]
    array: Any = cukern.Array
    array.get = array.numpy
    array.base = property(base_of)
    array.data = property(lambda x: types.SimpleNamespace(ptr=np.asarray(x).ctypes.data))
    array._index_32_bits = property(lambda x: left_out("CuPy's own attributes"))
    location = checkout / "cupy" / "testing"
    spec = importlib.util.spec_from_file_location(
        "cupy.testing", location / "__init__.py", submodule_search_locations=[str(location)]
    )
    assert spec is not None and spec.loader is not None
    testing = importlib.util.module_from_spec(spec)
    sys.modules["cupy.testing"] = cupy.testing = testing  # type: ignore[attr-defined]
    spec.loader.exec_module(testing)
    _mend(testing)
    pytest.raises = _without_words(pytest.raises)


class _Result(np.ndarray):
    """A result of cukern as an array of NumPy with CuPy's ``get``."""

    def get(self) -> np.ndarray[Any, Any]:
        return np.asarray(self)


def _converted(ours: Any, theirs: Any, *options: Any) -> tuple[Any, Any]:
    """Our result and NumPy's as arrays of NumPy of one dtype, if only the floating precision differs."""
    import cukern

    Loop.compared += 1
    if isinstance(ours, cukern.Array) and isinstance(theirs, (np.ndarray, np.generic)):
        got = ours.numpy()
        if got.dtype != theirs.dtype and got.dtype.kind == np.asarray(theirs).dtype.kind in "fc":
            Loop.by_rule += 1
            coarse = np.dtype(got.dtype if got.itemsize < theirs.itemsize else theirs.dtype)
            rounding = {2: 2e-3, 4: 2e-6, 8: 2e-6}[coarse.itemsize]
            with np.errstate(all="ignore"):
                got = got.astype(coarse)
                expected = np.asarray(theirs).astype(coarse)
                np.testing.assert_allclose(got, expected, rtol=rounding * 10, atol=rounding)
            got = theirs = expected
        return got.view(_Result), theirs
    if hasattr(cukern, "poly1d") and isinstance(ours, cukern.poly1d) and isinstance(theirs, np.poly1d):
        assert ours.variable == theirs.variable
        return _converted(ours.coeffs, theirs.coeffs)
    if np.isscalar(ours) and np.isscalar(theirs):
        return np.array(ours).view(_Result), np.array(theirs)
    raise AssertionError(f"types of results differ: cupy: {type(ours)}, numpy: {type(theirs)}")


def _mend(testing: Any) -> None:
    """Exchange what in CuPy's helpers needs CuPy's arrays, and thin the loops."""
    loops = sys.modules["cupy.testing._loops"]
    names = dict(vars(loops))
    loops._convert_output_to_ndarray = _converted  # type: ignore[attr-defined]
    call, wraps_partial = names["_call_func_cupy"], names["_wraps_partial"]

    arrays: Any = sys.modules["cupy.testing._array"]
    allclose = arrays.assert_allclose

    def assert_allclose(ours: Any, theirs: Any, rtol: float = 1e-7, *options: Any, **more: Any) -> None:
        """CuPy's comparison, but not finer than the precision of the dtype."""
        kind = np.asarray(theirs).dtype
        allclose(
            ours, theirs, max(rtol, float(np.finfo(kind).eps) if kind.kind in "fc" else 0), *options, **more
        )

    arrays.assert_allclose = assert_allclose

    def called(*args: Any) -> Any:
        result, error = call(*args)
        if isinstance(error, LeftOut):
            raise error
        Loop.compared += error is not None
        return result, error

    loops._call_func_cupy = called  # type: ignore[attr-defined]

    def thin(dtypes: Sequence[Any]) -> list[Any]:
        kept = [d for d in dtypes if np.dtype(d).type in _DTYPES]
        return list(dtypes) if os.environ.get("CUPY_SUITE_EVERY_DTYPE") or not kept else kept

    def for_dtypes(dtypes: Sequence[Any], name: str = "dtype") -> Any:
        return names["for_dtypes"](thin(dtypes), name)

    def for_dtypes_combination(types: Any, names: Sequence[str] = ("dtype",), full: Any = None) -> Any:
        kinds, n = thin(types), len(names)
        if n == 1:
            return for_dtypes(kinds, names[0])
        size = len(kinds)
        every = [[kinds[(i * 7**j + j * (i // size + 1)) % size] for j in range(n)] for i in range(2 * size)]
        step = 1 if os.environ.get("CUPY_SUITE_EVERY_DTYPE") else max(1, len(every) // _COMBINATIONS)

        def decorator(test: Any) -> Any:
            @wraps_partial(test, *names)
            def looped(*args: Any, **options: Any) -> None:
                for one in every[::step]:
                    with contextlib.suppress(pytest.skip.Exception):
                        test(*args, **{**options, **dict(zip(names, one, strict=True))})

            return looped

        return decorator

    def for_orders(orders: Sequence[Any], name: str = "order") -> Any:
        return names["for_orders"]([o for o in orders if o not in ("F", "f")] or ["C"], name)

    for function in (for_dtypes, for_orders, for_dtypes_combination):
        setattr(loops, function.__name__, function)
        setattr(testing, function.__name__, function)


# ----- pytest's plugin -----


def _why_left_out(node: str) -> str | None:
    return next((why for why, pattern in _LEFT_OUT.items() if re.search(pattern, node)), None)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if _why_left_out(collection_path.as_posix()) else None


def _without_words(raises: Any) -> Any:
    """``pytest.raises`` without ``match``, whose words are CuPy's."""
    return lambda *args, **options: raises(*args, **{k: v for k, v in options.items() if k != "match"})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    def late(*args: object) -> None:
        raise TimeoutError(f"the test took over {_SECONDS} s")

    Loop.restart()
    if why := _why_left_out(item.nodeid):
        pytest.skip(f"left out: {why}")
    signal.signal(signal.SIGALRM, late)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        item.user_properties.append(("by_rule", Loop.by_rule))
    if Loop.left_out and not Loop.compared:
        pytest.skip("left out: every round of the test")


def _reason(report: Any) -> str:
    """The last error in a report, without what varies between tests."""
    text = str(report.longrepr)
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", text)
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ").removeprefix("cupy_stand_in.LeftOut: ")
    lines = [line for line in crash.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Warning|Interrupt)\b", line)]
    if "Only numpy raises" in crash:
        return "no error, where NumPy has " + (errors[-1] if errors else "")[:120]
    if "different dtypes" in crash:
        return "dtype: " + " ".join(lines[-2:])
    return (errors[-1] if errors else lines[0] if lines else "")[:160]


def _keep(row: dict[str, Any]) -> None:
    """Append a test to the file of results; workers of pytest-xdist leave that to the process that started them."""
    out = os.environ.get("CUPY_SUITE_JSON")
    if out and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(out, "a") as file:
            print(json.dumps(row), file=file)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    if report.when == "teardown":
        return
    outcome = report.outcome
    expected = hasattr(report, "wasxfail")
    reason = "" if outcome == "passed" else _reason(report)
    if outcome == "passed" and dict(report.user_properties).get("by_rule"):
        outcome = "by rule"
    if outcome == "skipped" and not expected and re.match("left out|. GPUs required", reason):
        outcome = "left out"
    _keep({"test": report.nodeid, "outcome": outcome, "reason": reason})


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _keep({"test": report.nodeid, "outcome": "failed", "reason": "not collected: " + _reason(report)})


def pytest_configure(config: Any) -> None:
    for marker in ("slow", "multi_gpu(gpu_num)", "thread_unsafe(reason)"):
        config.addinivalue_line("markers", marker)


# ----- the program -----


def _print(reports: list[dict[str, Any]]) -> None:
    kinds = ("passed", "by rule", "failed", "skipped", "left out")
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for one in reports:
        file = one["test"].split("::")[0].removeprefix("cupy_tests/")
        for key in (file, file.split("/")[0] + "/ (room)", "all"):
            counts[key][one["outcome"]] += 1
    print(f"{'':54}" + "".join(f"{kind:>9}" for kind in kinds) + "  passing of those that apply")
    for file, count in sorted(counts.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        good, bad = count["passed"] + count["by rule"], count["failed"]
        print(
            f"{file:54}"
            + "".join(f"{count[kind]:9}" for kind in kinds)
            + f"  {good / max(1, good + bad):.1%}"
        )
    for outcome in ("failed", "skipped", "left out"):
        reasons = collections.Counter(one["reason"] for one in reports if one["outcome"] == outcome)
        print(f"\n{outcome}, by reason:")
        for reason, count in reasons.most_common(60):
            print(f"{count:6}  {reason[:150]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", default=["."])
    parser.add_argument("-n", default="0")
    parser.add_argument("-k", default="")
    parser.add_argument("--every-dtype", action="store_true")
    parser.add_argument("--json", type=Path, help="where to keep each test's outcome and reason")
    parser.add_argument("--pytest", default="", help="further options of pytest, in one argument")
    args = parser.parse_args()
    tests = args.checkout.resolve() / "tests"
    with tempfile.TemporaryDirectory() as folder:
        out = args.json.resolve() if args.json else Path(folder) / "reports.json"
        out.unlink(missing_ok=True)
        ini = Path(folder) / "pytest.ini"
        ini.write_text("[pytest]\nfilterwarnings = ignore\nxfail_strict = false\n")
        env = {
            **os.environ,
            "CUKERN_DEVICE": "host",
            "CUPY_TEST_GPU_LIMIT": "1",
            "CUPY_SUITE_CHECKOUT": str(args.checkout.resolve()),
            "CUPY_SUITE_JSON": str(out),
            "CUPY_SUITE_EVERY_DTYPE": "1" if args.every_dtype else "",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).resolve().parent), str(tests), os.environ.get("PYTHONPATH", "")]
            ),
        }
        quiet = "-q --no-header --tb=short --show-capture=no -r N --continue-on-collection-errors"
        options = [*quiet.split(), *"-p no:cacheprovider -p no:pytest_cukern -p cupy_suite".split()]
        options += ["-c", str(ini), "--rootdir", str(tests), *args.pytest.split()]
        options += ["-n", args.n] if args.n != "0" else ["-p", "no:xdist"]
        options += ["-k", args.k] if args.k else []
        files = [str(tests / "cupy_tests" / name) for name in args.files]
        shown = None if args.pytest else subprocess.DEVNULL
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files], env=env, cwd=tests, check=False, stdout=shown
        )
        reports = [json.loads(line) for line in out.read_text().splitlines()]
        out.write_text(json.dumps(reports))
        _print(reports)


if __name__ == "__main__":
    main()
elif _CHECKOUT:
    _install(Path(_CHECKOUT))
