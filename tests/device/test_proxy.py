"""What runs beside the threads reads shared memory that they have passed on to it; the host says where they did not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from asynchronous import FACTORS, PIPELINE, TILES, WARPGROUP
from test_beside import has_hopper, pipeline, run, tiles, warpgroup
from test_wgmma import product

import cukern as ck

UNFENCED = "was written and not passed on: each thread that writes calls fence_to_async, then comes a barrier"
WRITE = "((float4*)made)[lane] = make_float4(2 * own.x, 2 * own.y, 2 * own.z, 2 * own.w);"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("fence_to_async();", ""),
        (f"{WRITE}\n        fence_to_async();", f"fence_to_async();\n        {WRITE}"),
        ("fence_to_async();", "if (i == 0) fence_to_async();"),
        (
            "        __syncwarp();\n        if (lane == 0) {",
            "if (lane == 0) made[1] += 1;\n if (lane == 0) {",
        ),
    ],
    ids=["none", "before the write", "the first time alone", "a write after it"],
)
def test_a_store_of_what_was_not_passed_on(right: str, wrong: str) -> None:
    assert PIPELINE.count(right) == 1
    with pytest.raises(ck.KernelFault, match=rf"thread \(32, 0, 0\): .*{UNFENCED}, <pipeline.*>:\d+"):
        pipeline("host", PIPELINE.replace(right, wrong))


def test_the_fence_may_follow_the_barrier() -> None:
    """One thread that sees what the others wrote passes on all of it."""
    text = PIPELINE.replace("fence_to_async();", "").replace(
        "if (lane == 0) {", "if (lane == 0) { fence_to_async();"
    )
    made, x = pipeline("host", text)
    np.testing.assert_array_equal(made, 2 * x)


def test_the_fences_may_be_written_in_ptx() -> None:
    text = PIPELINE
    for function, instruction in (
        ("fence_to_async();", "fence.proxy.async.shared::cta"),
        ("fence_mbarrier_init();", "fence.mbarrier_init.release.cluster"),
    ):
        assert text.count(function) == 1
        text = text.replace(function, f'asm volatile("{instruction};" ::: "memory");')
    made, x = pipeline("host", text)
    np.testing.assert_array_equal(made, 2 * x)


def test_a_tile_and_factors_that_were_not_passed_on() -> None:
    with pytest.raises(ck.KernelFault, match=f"{UNFENCED}, <tiles"):
        tiles("host", "float32", 64, 64, text=TILES.replace("fence_to_async();", ""))
    with pytest.raises(ck.KernelFault, match=f"{UNFENCED}, <warpgroup"):
        warpgroup("host", WARPGROUP.replace("fence_to_async();", ""))
    for in_registers in (False, True):
        with pytest.raises(ck.KernelFault, match=f"{UNFENCED}, <factors"):
            product("host", "__half", in_registers, text=FACTORS.replace("fence_to_async();", ""))


def passed_on(device: Any, fenced: bool) -> None:
    x, y = ck.asarray(np.arange(128, dtype=np.float32), device=device), ck.zeros(128, device=device)
    body = """__shared__ float4 words[32];
    copy_async(&words[threadIdx.x], (const float4*)x + threadIdx.x);
    commit_copies();
    wait_copies<0>();
    FENCE
    __syncthreads();
    if (threadIdx.x == 0) {
        store_bulk(y, words, sizeof words);
        commit_stores();
        wait_stores<0>();
    }""".replace("FENCE", "fence_to_async();" if fenced else "")
    run(body, 32, x, y)
    assert y.tolist() == x.tolist()


def test_copies_of_threads_are_passed_on_too(device: ck.Device) -> None:
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    passed_on(device, fenced=True)
    with pytest.raises(ck.KernelFault, match=UNFENCED):
        passed_on("host", fenced=False)


def test_what_a_copy_has_brought_needs_no_fence() -> None:
    x, y = ck.asarray(np.arange(4, dtype=np.float32), device="host"), ck.zeros(4, device="host")
    body = """__shared__ __align__(16) float here[4];
    __shared__ MBarrier come;
    mbarrier_init(&come, 1);
    fence_mbarrier_init();
    here[0] = 7;
    mbarrier_arrive_expecting(&come, 16);
    copy_bulk(here, x, 16, &come);
    mbarrier_wait(&come, 0);
    store_bulk(y, here, 16);
    commit_stores();
    wait_stores<0>();"""
    run(body, 1, x, y)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("writer", "owner", "fails"),
    [("fence_to_async();", "", True), ("", "fence_to_async();", False), ("", "", True)],
    ids=["by the writer", "by the owner", "none"],
)
def test_what_another_block_wrote(writer: str, owner: str, fails: bool) -> None:
    """The writer's fence is for the memory of its own block: fence.proxy.async.shared::cta."""
    y = ck.zeros((2, 4), device="host")
    text = f"""<% include "prelude/bulk_copy.cuh" %>
    <% include "prelude/cluster.cuh" %>
    extern "C" __global__ void __cluster_dims__(2) << name >>(float* y) {{
        __shared__ __align__(16) float own[4];
        cluster_barrier();
        map_shared_rank(own, 1 - cluster_rank())[threadIdx.x] = threadIdx.x + 10 * blockIdx.x;
        {writer}
        cluster_barrier();
        {owner}
        __syncthreads();
        if (threadIdx.x == 0) {{
            store_bulk(y + 4 * blockIdx.x, own, sizeof own);
            commit_stores();
            wait_stores_read<0>();
        }}
        cluster_barrier();
    }}"""
    kernel: Any = ck.Kernel(text, name="others")
    if fails:
        with pytest.raises(ck.KernelFault, match=UNFENCED):
            kernel(y, grid=2, block=4)
        return
    kernel(y, grid=2, block=4)
    assert y.tolist() == [[10, 11, 12, 13], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("of_b(right, 0, 1024)", "of_b(right, 0, 65536)"),
        ("of_b(right,", "of_b((const void*)(((size_t)b + 1023) / 1024 * 1024),"),
    ],
    ids=["a step too far", "global memory"],
)
def test_factors_are_in_shared_memory(right: str, wrong: str) -> None:
    assert FACTORS.count(right) == 1
    beyond = "reads an address that is not in the block's shared memory|out of bounds: .*"  # a checked launch
    with pytest.raises(ck.KernelFault, match=f"({beyond}), <factors"):
        product("host", "__half", True, text=FACTORS.replace(right, wrong))


def test_a_fault_in_what_is_done_later_names_who_sent_it() -> None:
    """The others wait for the copy, and it is done when one of them does."""
    body = """__shared__ __align__(16) float here[4];
    __shared__ MBarrier come;
    if (threadIdx.x == 1) {
        mbarrier_init(&come, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&come, 16);
        copy_bulk(here, (const float*)4096, 16, &come);
    }
    __syncthreads();
    mbarrier_wait(&come, 0);"""
    message = (
        r"thread \(1, 0, 0\): invalid access of memory at 0x1000, in what copy_bulk left to be done beside"
    )
    checked = r"thread \(1, 0, 0\) reads address 0x1000, which is no array's"
    with pytest.raises(ck.KernelFault, match=rf"({message}|{checked}), <own.*>:\d+"):
        run(body, 64, ck.zeros(1, device="host"))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("none", None),
        ("fence_to_async();", UNFENCED),
        ("fence_mbarrier_init();", "mbarrier_init was not passed on"),
    ],
)
def test_a_checked_launch_says_so_too(missing: str, message: str | None) -> None:
    """Of static and of dynamic shared memory, of what a copy has brought, and of barriers."""
    text = """<% include "prelude/bulk_copy.cuh" %>
    extern "C" __global__ void << name >>(const float* x, float* y) {
        __shared__ __align__(16) float here[32];
        __shared__ MBarrier full;
        extern __shared__ float made[];
        if (threadIdx.x == 0) {
            mbarrier_init(&full, 1);
            fence_mbarrier_init();
            mbarrier_arrive_expecting(&full, sizeof here);
            copy_bulk(here, x, sizeof here, &full);
        }
        __syncthreads();
        mbarrier_wait(&full, 0);
        made[threadIdx.x] = 2 * here[threadIdx.x];
        fence_to_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            store_bulk(y, here, sizeof here);
            store_bulk(y + 32, made, sizeof here);
            commit_stores();
            wait_stores_read<0>();
        }
    }""".replace(missing, "")
    x, y = ck.asarray(np.arange(32, dtype=np.float32), device="host"), ck.zeros(64, device="host")
    kernel = ck.Kernel(text, name="watched", block=32, checked=True)
    if message is None:
        kernel(x, y, grid=1, shared=128)
        assert y.tolist() == [*range(32), *range(0, 64, 2)]
        return
    with pytest.raises(ck.KernelFault, match=message):
        kernel(x, y, grid=1, shared=128)


@pytest.mark.parametrize("waits", [True, False])
def test_a_checked_launch_finds_what_is_overwritten_while_it_is_stored(waits: bool) -> None:
    """Of static and of dynamic shared memory, with the store's place and the writer's."""
    text = """<% include "prelude/bulk_copy.cuh" %>
    extern "C" __global__ void << name >>(float* y) {
        __shared__ __align__(16) float made[32];
        extern __shared__ float more[];
        for (int i = 0; i < 3; ++i) {
            made[threadIdx.x] = i;
            more[threadIdx.x] = -i;
            fence_to_async();
            __syncthreads();
            if (threadIdx.x == 0) {
                store_bulk(y + 64 * i, made, sizeof made);
                store_bulk(y + 64 * i + 32, more, sizeof made);
                commit_stores();
                WAIT
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) wait_stores_read<0>();
    }""".replace("WAIT", "wait_stores_read<0>();" if waits else "")
    y = ck.zeros(192, device="host")
    kernel = ck.Kernel(text, name="waits" if waits else "overtaken", block=32, checked=True)
    with ck.testing.checked(collect=True) as reports:
        kernel(y, grid=1, shared=128)
    if waits:
        assert not reports
        assert y.tolist() == np.repeat([0.0, 0, 1, -1, 2, -2], 32).tolist()
        return
    found = {(one.kind, one.array, one.place, one.other_place) for one in reports}
    assert {
        ("race", "made", "<overtaken>:11", "<overtaken>:6"),
        ("race", "more", "<overtaken>:12", "<overtaken>:7"),
    } <= found
    for one in reports:
        assert one.message.startswith(
            "overtaken_float32_32: race: store_bulk of block (0, 0, 0), thread (0, 0, 0) reads "
        )
        assert "before a wait for it" in one.message


@pytest.mark.parametrize("barrier", [True, False])
def test_a_checked_launch_takes_a_threads_copies_for_its_writes(barrier: bool) -> None:
    """Other threads see them after a barrier, not after the wait of the thread that sent them."""
    text = """<% include "prelude/copy_async.cuh" %>
    extern "C" __global__ void << name >>(const float* x, float* y) {
        __shared__ float brought[64];
        for (int i = 0; i < 2; ++i) {
            copy_async(&brought[threadIdx.x], &x[64 * i + threadIdx.x]);
            commit_copies();
            wait_copies<0>();
            if (BARRIER) __syncthreads();
            y[64 * i + threadIdx.x] = brought[63 - threadIdx.x];
            __syncthreads();
        }
    }""".replace("BARRIER", "true" if barrier else "i == 0")
    x, y = ck.arange(128, dtype="float32", device="host"), ck.zeros(128, device="host")
    kernel = ck.Kernel(text, name="brings" if barrier else "too_soon", block=64, checked=True)
    with ck.testing.checked(collect=True) as reports:
        kernel(x, y, grid=1)
    if barrier:
        assert not reports
        assert y.tolist() == [*range(63, -1, -1), *range(127, 63, -1)]
    else:
        assert any(
            one.kind == "race" and one.array == "brought" and "<too_soon>:9" in (one.place, one.other_place)
            for one in reports
        )
