"""Launches in which the host watches each access: planted mistakes are named, and right kernels pass."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest
from idioms import IDIOMS, Idiom
from planted import PAIRS, Pair
from planted_memory import MEMORY
from planted_more import MORE

import cukern as ck
from cukern.device.host import compiler as host_compiler
from cukern.device.host.checked import function
from cukern.testing import checked

#: The first of each class, and those that were missed once, run by default, the others when asked for.
FIRST = {pair.kinds: pair.name for pair in reversed(PAIRS)}


@pytest.fixture(autouse=True)
def on_the_host() -> Iterator[None]:
    with ck.device("host"):
        yield


def planted(wrong: bool) -> list[object]:
    def marks(pair: Pair) -> list[pytest.MarkDecorator]:
        usual = pair in MORE or pair in MEMORY or FIRST[pair.kinds] == pair.name
        # Of the right kernels, which differ in little, the first of each list.
        alone = any(pair is some[0] for some in (PAIRS, MORE, MEMORY))
        return [] if (usual if wrong else alone) else [pytest.mark.thorough]

    return [
        pytest.param(pair, id=f"{pair.kinds}: {pair.name}", marks=marks(pair))
        for pair in (*PAIRS, *MORE, *MEMORY)
    ]


@pytest.mark.parametrize("pair", planted(True))
def test_a_planted_mistake_is_named(pair: Pair) -> None:
    with checked(collect=True) as reports:
        kept = pair.run(wrong=True)
    del kept
    found = [one for one in reports if one.kind in pair.expected.split(",")]
    assert found, [str(one) for one in reports]
    for one in found:
        assert one.place.startswith("<planted"), one
        assert f">{int(one.place.rpartition(':')[2]):5d} | " in one.message or one.kind == "unwritten", one
    named = [one for one in found if one.kind not in ("unwritten", "geometry", "divergence", "lane")]
    if pair.array and named:
        assert any(one.array == pair.array and one.element is not None for one in named), named
        assert all(one.block is not None and one.thread is not None for one in named)


@pytest.mark.parametrize("pair", planted(False))
def test_the_right_kernel_beside_it_passes(pair: Pair) -> None:
    with checked(collect=True) as reports:
        kept = pair.run(wrong=False)
    del kept
    assert not reports, str(reports[0])


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_an_idiom_that_is_right_passes(idiom: Idiom) -> None:
    with checked():
        made = idiom.run()
    np.testing.assert_allclose(made, idiom.wanted(), rtol=1e-5)


OVER = ck.Kernel(
    """
extern "C" __global__ void << name >>(const float* x, float* y) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    y[i] = 2 * x[i];
}""",
    name="over",
    block=4,
)


def test_a_report_says_all_of_both_sides() -> None:
    text = """
extern "C" __global__ void << name >>(float* y) {
    __shared__ int s[8][2];
    if (threadIdx.x == 5)
        s[1][1] = 3;
    if (threadIdx.x == 40)
        y[0] = s[1][1];
}"""
    with checked(collect=True) as reports:
        ck.Kernel(text, name="sides", block=(16, 4))(ck.zeros(1), grid=(1, 1))
    assert not [one for one in reports if one.kind == "race"]  # no thread has x = 40
    with pytest.raises(ck.KernelFault) as caught, checked():
        ck.Kernel(text, name="sides", block=64)(ck.zeros(1), grid=1)
    (one,) = (one for one in caught.value.reports if one.kind == "race")
    assert (one.kernel, one.array, one.element) == ("sides_float32_64", "s", 3)
    assert (one.block, one.thread, one.other_block, one.other_thread) == (
        (0, 0, 0),
        (40, 0, 0),
        (0, 0, 0),
        (5, 0, 0),
    )
    assert (one.place[-2:], one.other_place[-2:]) == (":7", ":5")
    assert str(one) in str(caught.value) and ">    7 |         y[0] = s[1][1];" in str(one)
    assert ">    5 |         s[1][1] = 3;" in str(one)


MAYBE_UNSET = """
__device__ int launches;
__global__ void scaled_most(const float* x, float* y, int* count, int n, int mode) {
    float scale, most;
    switch (mode) { case 0: scale = 1; break; case 1: scale = 2; break; }
    int at = -1;
    for (int j = 0; j < n; ++j)
        if (at < 0 || x[j] > most) { most = x[j]; at = j; }
    if (at >= 0) y[threadIdx.x] += scale * most;
    atomicAdd(count, 1);
    if (threadIdx.x == 0) ++launches;
}
"""


def test_a_read_is_known_beside_what_an_earlier_launch_left_of_atomic_operations() -> None:
    text = """extern "C" __global__ void << name >>(float* y, float* z, int adds) {
        if (adds) {
            y[threadIdx.x] = 1;
            atomicAdd(&y[threadIdx.x], 1);
        } else if (threadIdx.x == 0)
            z[blockIdx.x] = y[0];
        __syncthreads();
        if (!adds && blockIdx.x && threadIdx.x) y[0] = 3;
    }"""
    kernel = ck.Kernel(text, name="beside", block=2)
    y, z = ck.zeros(2), ck.zeros(2)
    with checked(collect=True, seeds=1) as reports:
        kernel(y, z, 1, grid=1)
        assert not reports
        kernel(y, z, 0, grid=2)
    assert [(one.place, one.other_place) for one in reports] == [("<beside>:8", "<beside>:6")]


#: Accesses of threads one after another, then one more: it meets a write, of this block, of the last; a read; none.
STRAY = {
    "int j = 40; if (i == 41) x[j] = 0": ("thread (41, 0, 0) writes element 40", "thread (40, 0, 0)"),
    "int j = 40; if (i == 41) z += x[j]": ("thread (41, 0, 0) reads element 40", "thread (40, 0, 0)"),
    "int j = 3; if (i == 77) z += x[j]": (
        "block (1, 0, 0), thread (13, 0, 0) reads element 3",
        "block (0, 0, 0)",
    ),
    "int j = 130; if (i == 77) x[j] = 0": (
        "block (2, 0, 0), thread (2, 0, 0) reads element 130",
        "thread (13, 0, 0)",
    ),
    "int j = i; x[j] = x[j] * x[j]": None,
}


@pytest.mark.parametrize("stray", STRAY)
def test_accesses_one_after_another_are_known_to_others(stray: str) -> None:
    text = f"""extern "C" __global__ void << name >>(float* x, float* y) {{
        const int i = blockIdx.x * << block >> + threadIdx.x;
        float z = 1;
        x[i] = 2 * x[i] + x[i];
        {stray};
        y[i] = z;
    }}"""
    with checked(collect=True) as reports:
        ck.Kernel(text, name="walk", block=64)(x := ck.ones(192), ck.empty(192), grid=3)
    if wanted := STRAY[stray]:
        assert all(said in str(reports[0]) for said in wanted), reports[0]
    else:
        assert not reports and x.numpy().tolist() == [9] * 192


def test_a_thread_that_comes_back_to_its_row_is_known_to_others() -> None:
    text = """extern "C" __global__ void << name >>(float* x, int stray) {
        float* const row = x + 32 * threadIdx.x;
        float sum = 0;
        for (int k = 0; k < 32; ++k) row[k] = k;
        for (int k = 0; k < 32; ++k) sum += row[k];
        for (int k = 0; k < 32; ++k) row[k] /= sum;
        if (threadIdx.x == 3 && stray) row[0] = x[5];
    }"""
    kernel = ck.Kernel(text, name="rows", block=4)
    with checked(collect=True) as reports:
        kernel(ck.ones(128), 0, grid=1)
        assert not reports
        kernel(ck.ones(128), 1, grid=1)
    assert [(one.place, one.other_place, one.element) for one in reports] == [("<rows>:7", "<rows>:6", 5)]


def test_what_may_be_unset_is_reported_where_it_is() -> None:
    if not host_compiler.compiler().is_gcc:
        pytest.skip("other compilers do not follow a switch")
    kernel = ck.Kernel(MAYBE_UNSET, block=32, plain=True, checked=True)
    x, y, count = ck.asarray([-3.0, -2.0, -5.0]), ck.ones(32), ck.zeros(1, "int32")
    kernel(x, y, count, 3, 1, grid=1)
    assert (y.tolist(), count.tolist(), int(kernel.globals["launches"])) == ([-3] * 32, [32], 1)
    with pytest.raises(
        ck.KernelFault, match="unset register: .scale. may be used uninitialized.*:9\n"
    ) as raised:
        kernel(x, y, count, 3, 2, grid=1)
    assert len(raised.value.reports) == 1
    assert (count.tolist(), int(kernel.globals["launches"])) == ([64], 2)


@pytest.mark.parametrize(("count", "named"), [(3, ["sums"]), (4, [])])
def test_an_element_of_a_local_array_that_nothing_sets(count: int, named: list[str]) -> None:
    """Compilers warn of none. What is set in part may be, where no result depends on the rest."""
    text = """extern "C" __global__ void << name >>(const float* x, float* y) {
        float sums[4], spare[9];
        for (int k = 0; k < << count >>; ++k) sums[k] = 0;
        for (int k = 0; k < 4; ++k) sums[k] += x[k];
        for (int k = 0; k < 4; ++k) spare[k] = sums[k];
        y[threadIdx.x] = spare[threadIdx.x];
    }"""
    y = ck.zeros(4, device="host")
    with checked(collect=True) as reports:
        ck.Kernel(text, name="sums", block=4, count=count)(ck.ones(4, device="host"), y, grid=1)
    assert [(one.kind, one.array) for one in reports] == [("unset", name) for name in named]
    assert all(one.place == "<sums>:2" and "float sums[4]" in one.message for one in reports)
    assert y.tolist()[:3] == [1, 1, 1] and (y[3].item() == 1) == (not named)


def test_an_unset_array_of_which_any_large_value_makes_nan() -> None:
    text = """extern "C" __global__ void << name >>(const float* x, float* y) {
        float sums[2];
        for (int k = 0; k < 9; ++k) { sums[0] += x[k]; sums[1] += x[k] * x[k]; }
        y[0] = rsqrtf(sums[1] / 9 - sums[0] / 9 * (sums[0] / 9));
    }"""
    with checked(collect=True) as reports:
        ck.Kernel(text, name="moments", block=1)(ck.arange(9, dtype="float32"), ck.zeros(1), grid=1)
    assert [(one.kind, one.array, one.place) for one in reports] == [("unset", "sums", "<moments>:2")]


def test_what_lies_beyond_an_array_stays_and_the_process_goes_on() -> None:
    both = ck.zeros(12)
    with checked(collect=True) as reports:
        OVER(ck.ones(8), both[:6])
    assert [(one.kind, one.array, one.element) for one in reports] == [("out of bounds", "y", 6)]
    assert both.tolist() == [2] * 6 + [0] * 6
    OVER(ck.ones(12), both)
    assert both.tolist() == [2] * 12


@pytest.mark.parametrize("far", [-(1 << 18), -1, 1 << 26])
def test_a_read_far_out_of_bounds_names_the_array_that_is_read(far: int) -> None:
    """The index is without a sign, so that a negative one is beyond all arrays."""
    text = """
extern "C" __global__ void << name >>(float* before, const float* x, float* y, int far) {
    before[threadIdx.x] = 1;
    y[threadIdx.x] = x[threadIdx.x + far];
}"""
    with checked(collect=True) as reports:
        ck.Kernel(text, name="far_off", block=2)(ck.zeros(2), ck.ones(2), ck.zeros(2), far, grid=1)
    assert {(one.kind, one.array) for one in reports} == {("out of bounds", "x")}


def test_what_a_read_out_of_bounds_meets_elsewhere_is_no_finding() -> None:
    """It sweeps over all the memory of checked launches, so over the other array, too."""
    text = """
extern "C" __global__ void << name >>(float* x, float* other, float* y, int steps) {
    for (int i = threadIdx.x; i < 64; i += 2) other[i] = 1;
    float sum = 0;
    for (int k = 0; k < steps; ++k) sum += x[(k % 2 ? k : -k) / 2 * 64];
    y[threadIdx.x] = sum;
}"""
    with checked(collect=True) as reports:
        sweep = ck.Kernel(text, name="sweep", block=2)
        sweep(ck.ones(64), ck.zeros(64), ck.zeros(2), 1 << 15, grid=1)
    assert [(one.kind, one.array) for one in reports] == [("out of bounds", "x")]


def test_an_error_ends_the_with_block_and_the_mode() -> None:
    with (
        pytest.raises(ck.KernelFault, match="element 6 of argument x, which has 6 elements, <over>:4"),
        checked(),
    ):
        OVER(ck.ones(6), ck.zeros(8))
    OVER(ck.ones(8), ck.zeros(8))
    assert ck.empty(3).shape == (3,)


def test_a_kernel_of_which_every_launch_is_checked() -> None:
    kernel = ck.Kernel(ck.text.render.source_of("<over>"), name="over", block=4, checked=True)
    for one in (kernel, pickle.loads(pickle.dumps(kernel))):
        with pytest.raises(ck.KernelFault, match="out of bounds"):
            one(ck.ones(6), ck.zeros(8))
        y = ck.zeros(8)
        one(ck.ones(8), y)
        assert y.tolist() == [2] * 8


def test_views_tell_the_index() -> None:
    text = """
extern "C" __global__ void << name >>(View<const float, 2> x, float* y) {
    y[threadIdx.x] = x(threadIdx.x % 3, 1) + const_cast<float&>(x(2, 1));
    if (threadIdx.x == 0) const_cast<float&>(x(2, 1)) = 7;
}"""
    x = ck.zeros((6, 5))
    with checked(collect=True) as reports:
        ck.Kernel(text, name="viewed", block=32)(x[::2, 1::2], ck.zeros(32), grid=1)
    assert [(one.kind, one.array, one.element) for one in reports] == [("const", "x", (2, 1))]
    assert not x.any()


def test_an_array_that_is_written_in_part_may_be_read_there() -> None:
    """As the result of a compaction: only the rest is unset."""
    text = """
extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    for (int i = 0, k = 0; i < n; ++i) if (x[i] > 2) y[k++] = x[i];
}"""
    compact = ck.Kernel(text, name="compact", block=1)
    with checked():
        y = ck.empty(6)
        compact(ck.arange(6, dtype="float32"), y, 6, grid=1)
        assert y[:3].tolist() == [3, 4, 5]
        assert (y[:3] * 2).tolist() == [6, 8, 10]
        with pytest.raises(ck.KernelFault, match=r"unwritten: 3 of 6 elements .* element 3; .* wrote .*:3"):
            y.numpy()
        y[3:] = 0
        assert y.tolist() == [3, 4, 5, 0, 0, 0]
    with checked(collect=True) as reports:
        z = ck.empty(6)
        compact(ck.arange(6, dtype="float32"), z, 6, grid=1)
    assert [one.kind for one in reports] == ["unwritten"]


def test_what_is_not_watched_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """By launches of which it is known that checks would find nothing, and only by those."""

    def watched(self: function.CheckedFunction, packed: bytes) -> None:
        raise AssertionError

    monkeypatch.setattr(function.CheckedFunction, "launch", watched)
    text = """extern "C" __global__ void << name >>(const float* x, float* y, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2 * x[i] + 1;
    }"""
    kernel = ck.Kernel(text, name="known", block=4)
    with checked(collect=True) as reports:
        half = ck.empty(12)
        kernel(ck.ones(12), half, 5, grid=3)
        assert half[:5].numpy().tolist() == [3] * 5 and not reports
        kernel(half[:5], ck.zeros(12), 5, grid=3)
        with pytest.raises(AssertionError):
            kernel(half, ck.zeros(12), 6, grid=3)
        with pytest.raises(AssertionError):
            kernel(ck.ones(12), ck.zeros(12), 13, grid=4)
        half.numpy()
    assert [(one.kind, one.element, one.place.rpartition(":")[2]) for one in reports] == [
        ("unwritten", 5, "3")
    ]


def test_arrays_that_were_made_before() -> None:
    text = """
extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x];
}"""
    copy = ck.Kernel(text, name="copy", block=64)
    unset, part, written, rest = (ck.empty(50) for _ in range(4))
    with checked(seeds=1):  # one that is over leaves no trace
        ck.zeros(3).numpy()
    copy(ck.ones(50), written, 50)
    with checked(collect=True) as reports:
        copy(written, ck.empty(50), 50)
        assert not reports
        copy(unset, ck.zeros(50), 50)
        copy(written, part[:20], 20)  # may be filled after the block
    assert [(one.kind, one.array) for one in reports] == [("unset", "x")]
    with checked(collect=True) as reports:
        copy(written, rest[:20], 20)
        rest.numpy()
    assert [one.kind for one in reports] == ["unwritten"]


def test_an_interrupted_launch_with_other_values_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
extern "C" __global__ void << name >>(float* y) {
    float held[2];
    held[0] = 1;
    y[0] = held[0];
}"""
    kernel = ck.Kernel(text, name="held", block=1)
    outcome, tried = function.CheckedFunction._outcome, []

    def interrupted(self: Any, *args: Any) -> Any:
        if not tried and hasattr(self, "_other") and self._other.value:
            tried.append(self)
            raise KeyboardInterrupt
        return outcome(self, *args)

    monkeypatch.setattr(function.CheckedFunction, "_outcome", interrupted)
    with checked():
        y = ck.zeros(1)
        with pytest.raises(KeyboardInterrupt):
            kernel(y, grid=1)
        assert tried[0]._other.value == 0
        kernel(y, grid=1)
        assert y.tolist() == [1.0]


def test_results_are_those_of_other_launches() -> None:
    rng = np.random.default_rng(0)
    x = ck.asarray(rng.standard_normal((70, 33)), dtype="float32")

    def work() -> list[np.ndarray]:
        y = ck.nn.softmax(x) @ x.T
        return [y.numpy(), ck.cumulative_sum(y, axis=0).numpy(), ck.sort(x, axis=0).numpy()]

    plain = work()
    with checked():
        watched = work()
    for a, b in zip(plain, watched, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_strict_mode_reports_what_kernels_do_knowingly() -> None:
    text = 'extern "C" __global__ void << name >>(int* y) { y[threadIdx.x / 2] = 1; }'
    kernel = ck.Kernel(text, name="same", block=32)
    with checked():
        kernel(ck.zeros(16, dtype="int32"), grid=1)
    with pytest.raises(ck.KernelFault, match="race"), checked(strict=True):
        kernel(ck.zeros(16, dtype="int32"), grid=1)


@pytest.mark.parametrize(("seeds", "error"), [(0, ValueError), (1001, ValueError), (1.5, TypeError)])
def test_seeds_that_are_none(seeds: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="checked: seeds: expected a"), checked(seeds=seeds):  # type: ignore[arg-type]
        pass


#: What a kernel does that would end the process, or never end.
HARD = {
    "far": ("y[threadIdx.x * n] = 1;", "out of bounds", "writes element 2000000000 of argument y"),
    "far before": ("y[0] = y[-4ll * n];", "out of bounds", "reads element -8000000000 of argument y"),
    "null": ("y[0] = *(float*)(long long)(n - 2000000000);", "out of bounds", "reads address 0x0"),
    "nowhere": ("*(float*)0x1234567812340 = n;", "fault", "no pointer has"),
    "a local array": (
        "float a[8] = {}; a[n] = y[0]; y[0] = a[threadIdx.x & 7];",
        "out of bounds",
        "index 2000000000 ",
    ),
    "assert": ("assert(threadIdx.x < 7);", "fault", "thread (7, 0, 0): assertion failed"),
    "a spin": ("if (threadIdx.x == 3) while (*(volatile float*)y == 0) ;", "timeout", "thread (3, 0, 0)"),
    "a loop": ("for (long long i = 0; i >= 0; ++i) y[0] = y[0] + i;", "timeout", "thread (0, 0, 0)"),
}


def test_the_librarys_kernels_run_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKERN_KERNEL_TIMEOUT", "0.001")
    with checked():
        ck.nn.softmax(ck.ones((2048, 1024)), axis=-1)
    # The limit is looked at every 50 ms: several times in this launch.
    with checked(), pytest.raises(ck.KernelFault, match="softmax"), function.time_limit(0.01):
        ck.nn.softmax(ck.ones((16384, 1024)), axis=-1)


def test_warps_that_take_turns_are_followed_in_time_that_grows_as_the_turns_do() -> None:
    turns = ck.Kernel(
        """<% include "prelude/mbarrier.cuh" %>
extern "C" __global__ void << name >>(float* y, int turns) {
    __shared__ MBarrier full, empty;
    __shared__ float value[32];
    if (threadIdx.x == 0) mbarrier_init(&full, 32), mbarrier_init(&empty, 32), fence_mbarrier_init();
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < turns; ++i) {
        mbarrier_wait(threadIdx.x < 32 ? &empty : &full, threadIdx.x < 32 ? i % 2 ^ 1 : i % 2);
        if (threadIdx.x < 32) value[threadIdx.x] = i;
        else for (float one : value) sum += one;
        mbarrier_arrive(threadIdx.x < 32 ? &full : &empty);
    }
    if (threadIdx.x >= 32) y[threadIdx.x - 32] = sum;
}""",
        block=64,
    )
    y = ck.empty(32)
    with checked(), function.time_limit(30):
        turns(y, 500, grid=1)
    assert y.numpy().tolist() == [32 * 500 * 499 / 2] * 32


@pytest.mark.parametrize("what", HARD)
def test_the_process_goes_on(what: str) -> None:
    body, kind, message = HARD[what]
    text = f'extern "C" __global__ void << name >>(float* y, int n) {{\n    {body}\n}}'
    with checked(collect=True) as reports, function.time_limit(0.2):
        ck.Kernel(text, name="hard", block=32)(ck.zeros(64), 2_000_000_000, grid=1)
    assert kind in [one.kind for one in reports]
    found = next(one for one in reports if one.kind == kind)
    assert message in str(found)
    assert found.place.startswith("<hard") and found.place.endswith(">:2")
    assert float(ck.sum(ck.ones(5))) == 5


def test_a_launch_that_does_not_end_is_stopped_when_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUKERN_KERNEL_TIMEOUT", "0.3")
    text = 'extern "C" __global__ void << name >>(volatile float* y) { while (y[0] == 0) {} }'
    with pytest.raises(
        ck.KernelFault, match=r"ran longer than 0\.3 s \(CUKERN_KERNEL_TIMEOUT sets the seconds"
    ):
        ck.Kernel(text, name="endless", block=1, checked=True)(ck.zeros(4), grid=1)


def test_logarithms_of_what_has_none_are_no_overflow() -> None:
    with checked():
        found = ck.log(ck.asarray([-0.0, 0.0, -1.0, 1e-45, 1.0], dtype="float32")).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, np.log(np.float32([-0.0, 0.0, -1.0, 1e-45, 1.0])), rtol=1e-6)


def test_a_block_that_fails_takes_its_empty_arrays_along() -> None:
    first = ck.Kernel('extern "C" __global__ void << name >>(float* y) { y[0] = 1; }', name="first", block=1)
    with checked():
        y = None
        with suppress(ZeroDivisionError), checked():
            y = ck.empty(4)
            first(y, grid=1)
            raise ZeroDivisionError
        with checked(collect=True) as reports:
            pass
    assert y is not None and not reports


def test_what_a_launch_that_failed_has_not_written_is_no_second_error() -> None:
    with checked():
        y = ck.empty(4)
        with pytest.raises(ck.KernelFault, match="out of bounds"):
            OVER(ck.ones(2), y, grid=1, block=3)
    assert y.shape == (4,)


def test_what_a_warp_does_is_not_taken_for_another_one_s() -> None:
    """In a random order, threads of other warps find that all lanes have come."""
    text = """<% include "prelude/mma.cuh" %>
    extern "C" __global__ void << name >>(int* y) {
        __shared__ __align__(16) unsigned own[4][32];
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned words[1] = {i};
            store_matrices(own[warp] + lane % 8 * 4, words);
        }
        __syncwarp();
        y[threadIdx.x] = (int)own[warp][lane];
    }"""
    y = ck.zeros(128, "int32", "host")
    with ck.testing.checked(seeds=6):
        ck.Kernel(text, name="by_warps", block=128)(y, grid=1)
    assert y.tolist() == [3] * 128


@pytest.mark.parametrize("used", [5, 6])
def test_a_tile_may_have_unset_rows_that_nothing_depends_on(used: int) -> None:
    """A warp's instruction reads eight rows, of which five were set."""
    text = """<% include "prelude/mma.cuh" %>
    extern "C" __global__ void << name >>(unsigned* y) {
        __shared__ __align__(16) unsigned rows[8][4];
        if (threadIdx.x < 20) rows[threadIdx.x / 4][threadIdx.x % 4] = threadIdx.x;
        __syncwarp();
        unsigned word[1];
        load_matrices(word, rows[threadIdx.x % 8]);
        if (threadIdx.x < 4 * << used >>) y[threadIdx.x] = word[0];
    }"""
    y = ck.zeros(32, "uint32")
    with checked(collect=True) as reports:
        ck.Kernel(text, name="rows_of_tile", block=32, used=used)(y, grid=1)
    assert y.tolist()[:20] == list(range(20))
    assert [one.kind for one in reports] == ["unset"] * (used > 5)


@pytest.mark.parametrize("used", ["at", "unset"])
def test_structs_that_are_set_in_part_may_be_copied(used: str) -> None:
    text = """
    struct Best { double value; int at, unset; };
    extern "C" __global__ void << name >>(const double* x, double* y, int n) {
        __shared__ Best best[32];
        const int t = threadIdx.x;
        best[t].value = x[t];
        best[t].at = t;
        __syncthreads();
        const Best both[2] = {best[31 - t], best[t]}, own = both[n % 2];
        y[t] = own.value + own.<< used >>;
    }"""
    x, y = (ck.ones(32, "float64", "host") for _ in range(2))
    with checked(collect=True) as reports:
        ck.Kernel(text, name="structs", block=32, used=used)(x, y, 0, grid=1)
    assert [one.kind for one in reports] == ["unset"] * (used == "unset")
    if used == "at":
        assert y.tolist() == list(range(32, 0, -1))


SCRIPT = """
import cukern as ck
x, y = ck.ones(6, device="host"), ck.zeros(8, device="host")
text = 'extern "C" __global__ void << name >>(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }'
ck.Kernel(text, name="copy", block=8)(x, y, grid=1)
"""


def test_a_process_of_which_every_launch_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKERN_CHECK", "1")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        "KernelFault: copy_float32_8: out of bounds: block (0, 0, 0), thread (6, 0, 0) reads" in done.stderr
    )


def test_pytest_s_option(tmp_path: object) -> None:
    body = "\n    ".join(SCRIPT.strip().split("\n"))
    path = tmp_path / "test_copy.py"  # type: ignore[operator]
    path.write_text(f"def test_copy():\n    {body}\n\ndef test_again():\n    {body}\n")
    command = [sys.executable, "-m", "pytest", "--cukern-checked", "-q", str(path)]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", "/dev/null"]
    # A source tree may not be installed.
    if not any(one.name == "cukern" for one in entry_points(group="pytest11")):
        command += ["-p", "pytest_cukern"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "2 failed" in done.stdout and "KernelFault: copy_float32_8: out of bounds" in done.stdout, (
        done.stdout
    )


def test_a_kernel_that_is_launched_unchecked_afterwards() -> None:
    """It is compiled for checked launches alone at first."""
    text = """
    extern "C" __global__ void << name >>(const float* x, float* y) {
        __shared__ float turned[32];
        turned[31 - threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = turned[threadIdx.x];
    }"""
    x = ck.asarray(np.arange(32.0), dtype="float32")
    kernel = ck.Kernel(text, name="turned", block=32)
    for mode in (checked, nullcontext, checked, nullcontext):
        y = ck.zeros(32)
        with mode():
            kernel(x, y, grid=1)
        np.testing.assert_array_equal(y.numpy(), x.numpy()[::-1])
