"""Fixtures of every tier: the devices that a test runs on."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import comparisons
import pytest
from emptied import emptied

import cukern as ck
from cukern.device.host.checked import mode

#: A plugin of `mutation.py`, which needs the mutants that it is to try.
collect_ignore = ["mutant_tests.py"]

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass
else:
    # Compiling a kernel takes longer than a deadline meant for one call.
    # The device stays the same for every example.
    settings.register_profile(
        "cukern",
        deadline=None,
        max_examples=25,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("cukern")


comparisons.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refused", metavar="FILE", help="write how many wrong results were refused, by family and dtype"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Each test says what its comparisons refused, from whatever process."""
    comparisons.refused.clear()
    try:
        return (yield)
    finally:
        counts = [[*key, count] for key, count in comparisons.refused.items()]
        item.user_properties.append(("refused", counts))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    file = config.getoption("--refused")
    if file is None:
        return
    found: Counter[tuple[str, str, str]] = Counter()
    for report in terminalreporter.getreports("passed"):
        family = Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_").removeprefix("nn_")
        for dtype, what, count in dict(report.user_properties).get("refused", []):
            found[family, dtype, what] += count
    lines = [
        "| family | dtype | " + " | ".join(comparisons.PLANTS) + " |",
        "|---" * (2 + len(comparisons.PLANTS)) + "|",
    ]
    for family, dtype in sorted({key[:2] for key in found}):
        counts = " | ".join(str(found[family, dtype, what]) for what in comparisons.PLANTS)
        lines.append(f"| {family} | {dtype} | {counts} |")
    Path(file).write_text("\n".join(lines) + "\n")


#: Dtypes whose kernels are another's but for the name of a type, and that other.
ALIKE = {
    "float16": "bfloat16",
    "int16": "int8",
    "uint16": "uint8",
    "uint32": "uint64",
    "complex128": "complex64",
}


#: Further ones, whose kernels touch the same elements, and differ in what they make of them.
ALIKE_WHEN_CHECKED = {"float64": "float32", "uint8": "int8", "uint64": "int64", "int32": "int64"}
#: Tests that do the same where all launches are checked: they launch nothing, or in processes of their own, or check
#: what they launch in any case.
SAME_WHEN_CHECKED = [
    *("render", "test_imports.py", "test_packaging.py", "test_signatures.py", "test_whole_programs.py"),
    *("ranks/test_launch.py", "ranks/test_ranks.py", "device/test_judge.py", "device/test_checked.py"),
    *("device/test_checked_clusters.py", "device/test_checked_memory.py", "device/test_checked_public.py"),
]


def _all_checked(config: pytest.Config) -> bool:
    """Whether every launch of the host is checked."""
    return config.getoption("--cukern-checked") or mode.active()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of cases of a test that differ in a dtype alone, those of a dtype like another's are thorough.

    Where all launches are checked, more dtypes are alike, and tests that do the same are thorough, too.
    """
    alike = ALIKE
    if _all_checked(config):
        alike = {**ALIKE, **ALIKE_WHEN_CHECKED}
        same = [Path(__file__).parent / one for one in SAME_WHEN_CHECKED]
        for item in items:
            if any(map(item.path.is_relative_to, same)):
                item.add_marker(pytest.mark.thorough)
    cases: dict[Any, pytest.Item] = {}
    for item in items:
        given = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        for name, value in given.items():
            dtype = (
                value if isinstance(value, str) else getattr(value, "name", getattr(value, "__name__", None))
            )
            if dtype in alike or dtype in alike.values():
                others = tuple((other, repr(one)) for other, one in given.items() if other != name)
                cases[item.path, item.originalname, name, others, dtype] = item
    for (*case, dtype), item in cases.items():
        like = cases.get((*case, alike[dtype])) if dtype in alike else None
        if like is not None and like.get_closest_marker("thorough") is None:
            item.add_marker(pytest.mark.thorough)


def _device_names() -> list[str]:
    """Every kind of device here, or those that CUKERN_TEST_DEVICES names, such as "host,cuda"."""
    wanted = os.environ.get("CUKERN_TEST_DEVICES")
    if wanted:
        return [name.strip() for name in wanted.split(",")]
    return ["host", "cuda"] if any(d.kind == "cuda" for d in ck.devices()) else ["host"]


@pytest.fixture(params=_device_names())
def device(request: pytest.FixtureRequest) -> Iterator[ck.Device]:
    """Each device in turn, the one that new arrays are made on while the test runs.

    Another GPU can be CuPy's current one meanwhile, CUKERN_TEST_CURRENT_GPU: nothing may depend on it.
    """
    with ck.device(request.param) as current:
        other = os.environ.get("CUKERN_TEST_CURRENT_GPU")
        if other is None:
            yield current
            return
        with ck.Device(f"cuda:{other}").activate(), pytest.MonkeyPatch.context() as patch:
            wrap = ck.Array._wrap.__func__

            def checked(cls: Any, data: Any, where: ck.Device, *rest: Any) -> ck.Array:
                assert where.kind == "host" or not data.size or data.data.device_id == where.index
                return wrap(cls, data, where, *rest)

            patch.setattr(ck.Array, "_wrap", classmethod(checked))
            yield current


@pytest.fixture
def empty() -> Iterator[Callable[..., None]]:
    """Called with caches, it empties them, then and when the test has ended."""
    with ExitStack() as stack:
        yield lambda *caches: stack.enter_context(emptied(*caches))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests of what unchecked launches say, where all launches are checked."""
    for mark in item.iter_markers("unchecked_only"):
        (reason,) = mark.args
        if _all_checked(item.config):
            pytest.skip(f"unchecked launches only: {reason}")


@pytest.fixture(autouse=True, scope="session")
def nothing_ahead() -> Iterator[None]:
    """Kernels are compiled when they are launched, so that tests can count and replace what is made.

    Quick builds stay, as making optimised ones is such a job, too: tests/device/test_quick_builds.py compares
    the results of both, and kernels of users' texts are optimised at once.
    """
    with pytest.MonkeyPatch.context() as patch:
        assert ck.Device("host").backend  # imports the module
        patch.setattr(sys.modules["cukern.device.host.backend"], "ahead", lambda job: True)
        yield
