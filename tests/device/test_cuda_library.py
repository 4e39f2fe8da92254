"""CUDA's C++ library in plain texts, <cuda/atomic>, <cuda/barrier> and <cuda/pipeline>, on a GPU and on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck

SUMS = """
#include <cuda/atomic>
__global__ void sums(const int* x, int* total, float* count, long long* most, unsigned* done, int* out, int n) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> own;
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        own.fetch_add(x[i], cuda::memory_order_relaxed);
        cuda::atomic_ref<float, cuda::thread_scope_device>(*count).fetch_add(1.0f, cuda::std::memory_order_relaxed);
        cuda::atomic_ref<long long, cuda::thread_scope_device> largest(*most);
        largest.fetch_max(x[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> all(*total);
        all += own.load();
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> ended(*done);
        const bool last = ended.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
        if (last) out[0] = all.load(cuda::memory_order_acquire);
        int seen = 7;
        out[1] = cuda::atomic_ref<int, cuda::thread_scope_device>(out[2]).compare_exchange_strong(seen, 1) ? -1 : seen;
    }
}
"""
TILES = """
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
using state_of_block = cuda::pipeline_shared_state<cuda::thread_scope_block, 2>;
__global__ void by_barriers(const float* x, float* y, int tiles) {
    __shared__ float held[2][64];
    __shared__ barrier bars[2];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) { init(&bars[0], block.size()); init(&bars[1], block.size()); }
    block.sync();
    cuda::memcpy_async(block, held[0], x, cuda::aligned_size_t<16>(256), bars[0]);
    for (int i = 0; i < tiles; ++i) {
        const int next = i + 1;
        if (next < tiles) cuda::memcpy_async(block, held[next % 2], x + 64 * next, sizeof(float) * 64, bars[next % 2]);
        bars[i % 2].arrive_and_wait();
        y[64 * i + threadIdx.x] = held[i % 2][63 - threadIdx.x];
        block.sync();
    }
}
__global__ void by_stages(const float* x, float* y, int tiles) {
    __shared__ float held[2][64];
    __shared__ state_of_block state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int fetched = 0;
    for (int i = 0; i < tiles; ++i) {
        for (; fetched < tiles && fetched < i + 2; ++fetched) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, held[fetched % 2], x + 64 * fetched, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        y[64 * i + threadIdx.x] = held[i % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
}
__global__ void by_threads(const float* x, float* y, int tiles) {
    __shared__ float held[2][64];
    auto pipe = cuda::make_pipeline();
    const int t = threadIdx.x;
    for (int i = 0; i <= tiles; ++i) {
        if (i < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(&held[i % 2][t], x + 64 * i + 63 - t, sizeof(float), pipe);
            pipe.producer_commit();
        }
        if (i == 0) continue;
        if (i < tiles) cuda::pipeline_consumer_wait_prior<1>(pipe);
        else cuda::pipeline_consumer_wait_prior<0>(pipe);
        y[64 * (i - 1) + t] = held[(i - 1) % 2][t];
        pipe.consumer_release();
    }
}
__global__ void by_roles(const float* x, float* y, int tiles) {
    __shared__ float held[2][64];
    __shared__ state_of_block state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state, (size_t)32);
    if (threadIdx.x < 32) {
        auto warp = cg::tiled_partition<32>(block);
        for (int i = 0; i < tiles; ++i) {
            pipe.producer_acquire();
            cuda::memcpy_async(warp, held[i % 2], x + 64 * i, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
    } else {
        const int t = threadIdx.x - 32;
        for (int i = 0; i < tiles; ++i) {
            pipe.consumer_wait();
            y[64 * i + t] = held[i % 2][63 - t];
            pipe.consumer_release();
        }
    }
}
"""

#: As in CUDA's Programming Guide, by both of the library's names of the instructions.
COPIES = """
#include <cuda/barrier>
#include <cuda/ptx>
#include <cudaTypedefs.h>
#include <utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;
static constexpr size_t length = 1024;
__global__ void add_one(int* data, size_t offset) {
    __shared__ alignas(16) int held[length];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();  // of the barrier
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_global_to_shared(held, data + offset, sizeof(held), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(held));
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < length; i += blockDim.x) held[i] += 1;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_shared_to_global(data + offset, held, sizeof(held));
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}
template <int rows, int columns>
__global__ void add_numbers(const __grid_constant__ CUtensorMap map, int x, int y) {
    __shared__ alignas(128) int held[rows][columns];
    __shared__ barrier bar;
    if (threadIdx.x == 0) { init(&bar, blockDim.x); cde::fence_proxy_async_shared_cta(); }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&held, &map, x, y, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(held));
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    held[0][threadIdx.x] += threadIdx.x;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &held);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
        (&bar)->~barrier();
    }
}
__global__ void add_two(int* data, const __grid_constant__ CUtensorMap map, int x, int y) {
    __shared__ alignas(128) int held[8][64], row[64];
    __shared__ barrier bar;
    if (threadIdx.x == 0) { init(&bar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        const int at[2] = {x, y};
        auto* counts = cuda::device::barrier_native_handle(bar);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &held, &map, at, counts);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, row, data, sizeof(row), counts);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(held) + sizeof(row));
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    held[7][threadIdx.x] = 2 + row[threadIdx.x];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        const int at[2] = {x, y};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, at, &held);
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, data, held[7], sizeof(row));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
    }
}
"""


def _launch(kernel: ck.Kernel, *arguments: Any, **launch: Any) -> None:
    """Launch a kernel, or skip the test where a GPU's compiler lacks the library's headers."""
    try:
        kernel(*arguments, **launch)
    except ck.CompileError as error:
        if "open source file" in error.log:
            pytest.skip("CUDA's C++ library is not installed")
        raise


def test_atomics(device: ck.Device) -> None:
    x = ck.arange(1000, dtype="int32")
    total, count, most, done = ck.zeros(1, "int32"), ck.zeros(1), ck.zeros(1, "int64"), ck.zeros(1, "uint32")
    out = ck.zeros(3, "int32")
    _launch(ck.Kernel(SUMS, plain=True), x, total, count, most, done, out, 1000, grid=4, block=64)
    assert [total.item(), count.item(), most.item(), done.item()] == [499500, 1000, 999, 4]
    assert out.tolist() == [499500, 0, 0]


@pytest.mark.parametrize("name", ["by_barriers", "by_stages", "by_threads", "by_roles"])
def test_pipelines(device: ck.Device, name: str) -> None:
    tiles = 5
    x, y = ck.arange(64 * tiles).astype("float32"), ck.zeros((tiles, 64))
    _launch(ck.Kernel(TILES, plain=True)[name], x, y, tiles, grid=1, block=96 if name == "by_roles" else 64)
    np.testing.assert_array_equal(y.numpy(), x.numpy().reshape(tiles, 64)[:, ::-1])


@pytest.mark.parametrize(
    ("name", "removed", "line"),
    [
        ("by_barriers", "bars[i % 2].arrive_and_wait();", "held[i % 2][63"),
        ("by_barriers", "block.sync();\n    }", "memcpy_async(block, held[next"),
        ("by_barriers", "block.sync();\n    cuda::memcpy_async(block, held[0]", "arrive_and_wait"),
        ("by_stages", "pipe.consumer_wait();\n        y[64 * i + threadIdx", "held[i % 2][63"),
        ("by_roles", "pipe.producer_acquire();\n            cuda::memcpy_async(warp", "pipe.consumer_wait"),
    ],
    ids=["no wait", "no barrier", "no barrier after init", "no stage", "no acquire"],
)
def test_planted_mistakes(name: str, removed: str, line: str) -> None:
    kept = removed.partition("\n")[2]
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        for text in (TILES, TILES.replace(removed, kept)):
            assert not reports, reports
            x, y = ck.arange(320).astype("float32"), ck.zeros((5, 64))
            block = 96 if name == "by_roles" else 64
            ck.Kernel(text, plain=True)[name](x, y, 5, grid=1, block=block)
    lines = [f":{number}" for number, row in enumerate(text.split("\n"), 1) if line in row]
    places = [(report.kind, report.place, report.other_place) for report in reports]
    assert any(
        kind in ("race", "unset", "divergence") and place.endswith(tuple(lines)) for kind, place, _ in places
    ), places


def test_copies_that_a_barrier_counts(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    if device.kind != "host" and device.properties.compute_capability < (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    program = ck.Kernel(COPIES, block=64, plain=True)
    x = ck.arange(2048, dtype="int32")
    _launch(program["add_one"], x, 1024, grid=1)
    np.testing.assert_array_equal(x.numpy(), np.arange(2048) + (np.arange(2048) >= 1024))
    wanted = np.arange(16 * 128).reshape(16, 128)
    y = ck.asarray(wanted.astype("int32"))
    tiles = ck.TensorMap(y, (8, 64), writes=True)
    _launch(program["add_numbers<8, 64>"], tiles, 64, 8, grid=1)
    wanted[8, 64:] += np.arange(64)
    np.testing.assert_array_equal(y.numpy(), wanted)
    _launch(program["add_two"], x, tiles, 0, 8, grid=1)
    wanted[15, :64] = np.arange(64) + 2
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(x.numpy()[:65], [*(np.arange(64) + 2), 64])


@pytest.mark.parametrize(
    "removed",
    [
        "cde::fence_proxy_async_shared_cta();  // of the barrier",
        "cde::fence_proxy_async_shared_cta();\n    __sync",
    ],
)
def test_a_missing_fence_for_copies_is_named(removed: str) -> None:
    text = COPIES.replace(removed, "\n    __sync" if removed.endswith("__sync") else "")
    kernel = ck.Kernel(text, block=64, plain=True)
    x = ck.arange(2048, dtype="int32", device="host")
    with ck.device("host"), ck.testing.checked(), pytest.raises(ck.KernelFault, match="not passed on"):
        kernel["add_one"](x, 0, grid=1)


def test_a_missing_header_is_named() -> None:
    from cukern.kernel.bound import compile_error
    from cukern.text import render

    log = 'kernel(2): catastrophic error: cannot open source file "cuda/barrier"'
    error = compile_error(log, render.Rendered("#include <cuda/barrier>", "<k>", {}, plain=True), "cuda")
    assert "cuda/barrier is not on this machine" in str(error)
    assert "nvidia-cuda-cccl-cu12" in str(error)
