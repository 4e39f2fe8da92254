"""What a traced kernel did in memory: sectors, turns of banks, lanes; pages of it; the commands check and trace."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.cli import main
from cukern.device import nvrtc
from cukern.device.interface import CompilerFailure
from cukern.testing import Trace, traced
from cukern.testing.occupancy import arithmetic_seconds
from cukern.testing.trace_page import page

KERNEL = ck.Kernel(
    """
extern "C" __global__ void << name >>(const float* x, float4* y, int* count) {
    __shared__ double tile[64];
    const int t = threadIdx.x;
    tile[t] = x[2 * t];
    __syncthreads();
    if (t % 4 == 0) y[t / 4] = make_float4(tile[t], tile[16 * (t % 4)], 0, 0);
    if (t < 40) atomicAdd(count, 1);
}""",
    name="traced",
    block=64,
)


@pytest.fixture(autouse=True)
def on_the_host() -> Iterator[None]:
    with ck.device("host"):
        yield


def trace(start: int = 0, **options: Any) -> Trace:
    x, y, count = ck.zeros(140)[start:], ck.zeros(64), ck.zeros(1, "int32")
    with traced(**options) as traces:
        KERNEL(x, y, count, grid=2)
    assert count.item() == 80
    (one,) = traces
    return one


def test_accesses_are_counted_by_warps() -> None:
    one = trace(blocks=1)
    assert (one.grid, one.block, one.blocks, one.missed) == ((2, 1, 1), (64, 1, 1), 1, 0)
    found = {
        (a.array, a.what): (a.shared, a.size, a.requests, a.lanes, a.moved, a.least) for a in one.accesses
    }
    assert found[("x", "reads")] == (False, 4, 2, 1.0, 16, 8)  # every other float
    assert found[("tile", "writes")] == (True, 8, 2, 1.0, 4, 4)  # by half warps
    assert found[("y", "writes")] == (False, 16, 2, 0.25, 8, 8)
    assert found[("count", "atomic")] == (False, 4, 2, (1 + 8 / 32) / 2, 2, 2)
    reads = [a for a in one.accesses if (a.array, a.what) == ("tile", "reads")]
    assert sum(a.requests for a in reads) == 4
    assert all(place.startswith("<traced>:") for place in (a.place for a in one.accesses))
    (x,) = (a for a in one.accesses if a.array == "x")
    assert one.source(x.place) == "tile[t] = x[2 * t];"
    assert x.efficiency == 0.5
    assert "x      reads   4      2         100%   16 sectors  8" in str(one)


def test_a_vector_is_one_request_and_lines_of_files_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "vectors.cu"
    path.write_text("""
__global__ void vectors(const float* x, float4* y) {
    float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x);
    v.x += x[2 * threadIdx.x];
    y[threadIdx.x] = v;
}""")
    with traced() as traces:
        ck.Kernel(path, block=32, plain=True)(ck.ones(128), ck.zeros(128), grid=1)
    found = {(a.array, a.size): (a.requests, a.moved, traces[0].source(a.place)) for a in traces[0].accesses}
    assert found["y", 16] == (1, 16, "y[threadIdx.x] = v;")
    assert found["x", 4][:2] == (1, 8)
    assert found["x", 16] == (1, 16, "float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x);")


def test_banks_serve_one_word_a_turn() -> None:
    columns = ck.Kernel(
        """
    extern "C" __global__ void << name >>(float* y, int stride, int* bins) {
        __shared__ float tile[1024];
        __shared__ int bin[2];
        for (int i = threadIdx.x; i < 1024; i += 32) tile[i] = i;
        if (threadIdx.x < 2) bin[threadIdx.x] = 0;
        __syncthreads();
        y[threadIdx.x] = tile[stride * threadIdx.x];
        atomicAdd(&bin[threadIdx.x % 2], 1);
        __syncthreads();
        if (threadIdx.x < 2) bins[threadIdx.x] = bin[threadIdx.x];
    }""",
        name="columns",
        block=32,
    )
    for stride, turns in ((0, 1), (1, 1), (2, 2), (31, 1), (32 - 8, 8)):
        with traced() as traces:
            columns(ck.zeros(32), stride, ck.zeros(2, "int32"), grid=1)
        reads = {a.array: a for a in traces[0].accesses if a.what == "reads"}
        assert (reads["tile"].moved, reads["tile"].least) == (turns, 1), stride
        (added,) = (a for a in traces[0].accesses if a.what == "atomic")
        assert added.moved == 16  # of two words, one after another


def test_a_view_that_is_not_aligned_touches_more_sectors() -> None:
    (x,) = (a for a in trace(start=7, blocks=1).accesses if a.array == "x")
    assert (x.moved, x.least) == (18, 8)


def test_what_is_left_out() -> None:
    one = trace(accesses=10)
    assert len(one.events) == 10
    assert one.missed > 100
    said = f"left out: {one.missed} accesses or steps, for which there was no room"
    assert said in str(one) and said in str(one.timeline()) and said.capitalize() in page(one)
    assert f"missed={one.missed}" in repr(one.roofline()) and one.cost().missed == one.missed
    assert "left out" not in str(trace()) and trace().roofline().missed == 0
    with traced("other") as traces:
        KERNEL(ck.zeros(128), ck.zeros(64), ck.zeros(1, "int32"), grid=1)
    assert not traces
    with traced(most=1) as traces:
        for grid in (1, 1, 2):
            KERNEL(ck.zeros(128), ck.zeros(64), ck.zeros(1, "int32"), grid=grid)
    assert [one.grid[0] for one in traces] == [1]


def _image(png: bytes) -> np.ndarray[Any, Any]:
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT")
    (size,) = struct.unpack(">I", png[start - 4 : start])
    lines = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + size]), np.uint8)
    return lines.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_a_picture_shows_which_thread_touches_what() -> None:
    one = trace(blocks=1)
    at = next(i for i, a in enumerate(one.accesses) if a.array == "x")
    image = _image(one.picture(at))
    scale = image.shape[0] // 64
    touched = (image[::scale, ::scale] < 255).any(axis=-1)
    bytes_of = np.zeros((64, 508), bool)
    for t in range(64):
        bytes_of[t, 8 * t : 8 * t + 4] = True
    np.testing.assert_array_equal(touched, bytes_of)


def test_a_page_has_all(tmp_path: Path) -> None:
    one = trace(blocks=1)
    one.save(tmp_path / "page.html")
    with pytest.raises(ValueError, match=r"save writes a page of HTML; picture\(access\) returns the PNG"):
        one.save(tmp_path / "page.png")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<image") == len(one.accesses)
    assert "tile[t] = x[2 * t];" in text
    assert one.kernel in text
    held = one.occupancy()
    assert (held.blocks, held.warps, held.share, held.limit) == (32, 64, 1.0, "threads")
    held = one.occupancy("sm_89")
    assert (held.blocks, held.warps, held.most, held.limit) == (24, 48, 48, "threads")
    assert held.spilled in (0, None)
    cost = one.cost("A100")  # two blocks: 8 bytes of each of 16 sectors, then 8 and 2 whole ones
    assert (cost.moved, cost.least) == (2 * 32 * (16 + 8 + 2), 2 * 32 * (8 + 8 + 2))
    assert cost.seconds == cost.least / 2.039e12
    assert cost.conflicts == 2 * sum(a.moved - a.least for a in one.accesses if a.shared)
    one.save(tmp_path / "a100.html", "sm_80", "A100")
    assert f"{cost.moved} bytes moved" in (tmp_path / "a100.html").read_text()
    with pytest.raises(ValueError, match="cost: gpu: expected one of 'V100', 'T4', 'A100'"):
        one.cost("A1000")
    with pytest.raises(ck.DeviceError, match="got 'sm_1'"):
        one.occupancy("sm_1")


def test_operations_are_counted() -> None:
    kernel = ck.Kernel(
        """
    #include <cuda_fp16.h>
    #define SQUARE(x) ((x) * (x))
    template <int N> __device__ float powers(float x) {
        float y = 0;
        for (int i = 0; i < N * 2; i += 1) y = y * x + 1;
        return y;
    }
    extern "C" __global__ void << name >>(const float4* x, float4* y, __half* h, double* d, float* s, float a) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const float4 v = x[i], w = y[i];
        y[i] = make_float4(fmaf(a, v.x, w.x), a * v.y + w.y, a * v.z + w.z, a * v.w + w.w);
        __half2 p = __half2half2(h[i] * h[i] + __half(1.0f));
        p = p * p;
        h[i] = p.x;
        d[i] *= 3;
        s[i] = SQUARE(s[i]) - expf(s[i]);
        if ((s[i] += 1.5f) > 3) s[i] = -s[i];
        s[i] += powers<2>(s[i]) + 1.0f / 3.0f;
        atomicAdd(s, 1.0f);
    }""",
        name="counted",
        block=32,
    )
    vectors, halves, doubles, floats = (
        ck.ones(256),
        ck.ones(64, "float16"),
        ck.ones(64, "float64"),
        ck.ones(64),
    )
    with traced() as traces:
        kernel(vectors, ck.ones(256), halves, doubles, floats, 2.0, grid=2)
    operations = traces[0].operations
    assert operations is not None
    each = {kind: count / 64 for kind, count in operations.items() if count}
    assert each == {"float32": 8 + 2 + 1 + (8 + 2) + 1, "float16": 2 + 2, "float64": 1, "calls": 1}
    assert traces[0].flops == 64 * 27
    at = {traces[0].source(place): count / 64 for place, count in traces[0].flops_at.items()}
    assert at["s[i] = SQUARE(s[i]) - expf(s[i]);"] == 3  # the call among them


def test_roofline_of_a_scaled_sum() -> None:
    kernel = ck.Kernel(
        """
    extern "C" __global__ void << name >>(const float4* x, float4* y, float a) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const float4 v = x[i], w = y[i];
        y[i] = make_float4(a * v.x + w.x, a * v.y + w.y, a * v.z + w.z, a * v.w + w.w);
    }""",
        name="axpy",
        block=32,
    )
    with traced(blocks=2) as traces:
        kernel(ck.ones(1024), ck.ones(1024), 2.0, grid=8)
    roof = traces[0].roofline("A100")
    assert (roof.flops, roof.bytes, roof.intensity, roof.exact) == (2 * 1024, 12 * 1024, 1 / 6, False)
    assert (roof.bound, roof.seconds, roof.arithmetic) == ("memory", 12 * 1024 / 2.039e12, 2 * 1024 / 19.5e12)
    with pytest.raises(ValueError, match="roofline: gpu: expected one of 'V100', 'T4'"):
        traces[0].roofline("G2")


def test_products_of_tensor_cores_count_by_their_shape() -> None:
    kernel = ck.Kernel(
        """
    <% include "prelude/mma.cuh" %>
    extern "C" __global__ void << name >>(float* y) {
        float d[4] = {};
        const unsigned a[4] = {}, b[2] = {};
        for (int k = 0; k < 3; ++k) mma<__half>(d, a, b);
        y[threadIdx.x] = d[0];
    }""",
        name="products",
        block=64,
    )
    with traced() as traces:
        kernel(ck.zeros(64), grid=2)
    assert traces[0].operations is not None
    assert {kind: n for kind, n in traces[0].operations.items() if n} == {
        "tensor float16": 4 * 3 * 2 * 16 * 8 * 16
    }
    with pytest.raises(ValueError, match="roofline: gpu: the V100 has no tensor cores for float64"):
        arithmetic_seconds({"tensor float64": 1}, "V100", "roofline")


PIPELINE = ck.Kernel(
    """
<% include "prelude/copy_async.cuh" %>
extern "C" __global__ void << name >>(const float4* x, float4* y, int n) {
    __shared__ float4 tile[2][64];
    const int t = threadIdx.x;
    copy_async(&tile[0][t], &x[t]);
    commit_copies();
    for (int k = 0; k < n; ++k) {
        if (k + 1 < n) copy_async(&tile[(k + 1) % 2][t], &x[(k + 1) * 64 + t]);
        commit_copies();
        wait_copies<1>();
        __syncthreads();
        y[k * 64 + t] = tile[k % 2][t ^ 1];
        __syncthreads();
    }
}""",
    name="pipeline",
    block=64,
)


def test_a_timeline_of_copies_in_two_stages() -> None:
    with traced() as traces:
        PIPELINE(ck.ones(1024), ck.zeros(1024), 3, grid=1)
    timeline = traces[0].timeline()
    turn = ["commits", "waits", "comes", "goes on", "comes", "goes on"]
    assert [one.what for one in timeline.steps] == ["sends", "commits", *2 * ["sends", *turn], *turn]
    assert [one.step for one in timeline.steps] == list(range(1, 23))
    assert all(one.warps == (0, 1) for one in timeline.steps)
    sent = [one.step for one in timeline.steps if one.what == "sends"]
    waited = [one.step for one in timeline.steps if one.what == "waits"]
    # Each copy is in flight until the wait of the turn that reads it, one after that which issued it.
    flights = [(one.first, one.last, one.bytes) for one in timeline.flights if one.warp == 1]
    assert flights == [(first, last, 32 * 16) for first, last in zip(sent, waited, strict=True)]
    copies = [a for a in traces[0].accesses if a.what == "copies"]
    assert {(a.array, a.size, a.requests, a.efficiency) for a in copies} == {
        *((array, 16, n, 1.0) for array in ("x", "tile") for n in (2, 4))
    }
    svg = timeline.svg()
    assert svg.count('class="flight"') == 3 + 1  # and in the legend
    assert ">0-1</text>" in svg
    assert ">20</text>" in svg


def test_a_timeline_of_bulk_copies_and_their_barriers() -> None:
    kernel = ck.Kernel(
        """
    <% include "prelude/bulk_copy.cuh" %>
    extern "C" __global__ void << name >>(const float* x, float* y) {
        __shared__ alignas(128) float tile[64];
        __shared__ MBarrier full[2];
        if (threadIdx.x == 0) {
            mbarrier_init(&full[1], 1);
            fence_mbarrier_init();
        }
        __syncthreads();
        if (threadIdx.x == 32) {
            mbarrier_arrive_expecting(&full[1], sizeof tile);
            copy_bulk(tile, x, sizeof tile, &full[1]);
        }
        mbarrier_wait(&full[1], 0);
        y[threadIdx.x] = tile[threadIdx.x];
    }""",
        name="bulk",
        block=64,
    )
    with traced() as traces:
        kernel(ck.ones(64), ck.zeros(64), grid=1)
    told = [(one.step, one.warps, one.what, one.of) for one in traces[0].timeline().steps]
    assert told == [
        (1, (0, 1), "comes", "__syncthreads()"),
        (2, (0, 1), "goes on", "__syncthreads()"),
        (3, (1,), "arrives", "full[1]"),
        (4, (1,), "sends", "counted copies"),
        (5, (0, 1), "passes", "full[1]"),
    ]
    assert [(one.warp, one.first, one.last, one.bytes) for one in traces[0].timeline().flights] == [
        (1, 4, 5, 256)
    ]


def test_axes_count_threads_and_elements() -> None:
    one = trace(blocks=1)
    at = next(i for i, a in enumerate(one.accesses) if a.array == "x")
    svg = one.svg(at)
    assert "x, elements (float32) from its start" in svg
    for tick in ("0", "32", "100"):  # the last of 127 elements, of 64 threads
        assert f">{tick}</text>" in svg


def test_refusals() -> None:
    with pytest.raises(TypeError, match="traced: kernel: expected a string, got int"), traced(3):  # type: ignore[arg-type]
        pass
    with pytest.raises(ValueError, match="traced: blocks: expected at least 1, got 0"), traced(blocks=0):
        pass
    with pytest.raises(TypeError, match="traced: most: expected an int, got 'all'"), traced(most="all"):  # type: ignore[arg-type]
        pass


SCRIPT = """
import sys
import cukern as ck
assert sys.argv[1:] == ["one", "two"], sys.argv
kernel = ck.Kernel('''extern "C" __global__ void << name >>(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}''', name="skewed", block=4)
kernel(ck.ones(4), ck.zeros(4), grid=1)
"""


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr("sys.argv", ["cukern"])
    monkeypatch.setattr("sys.path", ["", *sys.path])
    assert main(["check", str(script), "--seeds", "1", "--", "one", "two"]) == 1
    out = capsys.readouterr().out
    assert "reads element 4 of argument x" in out
    assert out.endswith("1 finding\n")
    assert main(["trace", str(script), "--out", str(tmp_path / "pages"), "--", "one", "two"]) == 0
    (page,) = (tmp_path / "pages").iterdir()
    assert page.name == "01-skewed_float32_4.html"
    assert "bytes moved, at least" in capsys.readouterr().out
    assert main(["trace", str(script), "--gpu", "G2", "--out", str(tmp_path / "no"), "--", "one", "two"]) == 2
    assert "trace: cost: gpu: expected one of 'V100'" in capsys.readouterr().out
    script.write_text("raise ValueError('no')")
    assert main(["check", str(script)]) == 1
    assert "no findings in what ran before the program failed" in capsys.readouterr().out
    assert main(["trace", str(script), "--out", str(tmp_path / "none")]) == 1
    assert "the program failed" in capsys.readouterr().out and not (tmp_path / "none").exists()
    assert main(["check", str(script), "--seeds", "0"]) == 2
    assert main(["check", str(tmp_path / "missing.py")]) == 1
    assert "there is no file" in capsys.readouterr().err
    script.write_text("import sys; sys.exit('no luck')")
    assert main(["check", str(script)]) == 1
    assert "no luck" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", str(script), "--fast"])
    assert "--fast; arguments of the program follow after --" in capsys.readouterr().err
    (tmp_path / "fine.py").write_text("print('fine')")
    assert main(["check", str(tmp_path / "fine.py")]) == 0
    assert capsys.readouterr().out.endswith("fine\nno findings\n")


def test_a_page_says_why_registers_are_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(text: str, *args: Any, **options: Any) -> None:
        raise CompilerFailure('a.h(1): catastrophic error: cannot open source file "nv/target"')

    one = trace(blocks=1)
    monkeypatch.setattr(nvrtc, "compile", fails)
    assert (one.occupancy().registers, one.occupancy().spilled) == (None, None)
    one.save(tmp_path / "page.html")
    assert "Registers: unknown, as nv/target is not on this machine." in (tmp_path / "page.html").read_text()
