"""Barriers of all blocks of a grid, and clusters of cooperative groups, in plain texts."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck

SCAN = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void scan(const int* x, int* sums, int* y) {
    cg::grid_group grid = cg::this_grid();
    __shared__ int own[32];
    const int t = threadIdx.x, i = blockIdx.x * 32 + t;
    own[t] = x[i];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k <= t; ++k) sum += own[k];
    if (t == 31) sums[blockIdx.x] = sum;
    grid.sync();
    int before = 0;
    for (int b = 0; b < blockIdx.x; ++b) before += sums[b];
    y[i] = before + sum;
}
"""


def test_a_grid_meets(device: ck.Device) -> None:
    x = ck.arange(8 * 32, dtype="int32")
    y, sums = ck.empty(256, "int32"), ck.zeros(8, "int32")
    ck.Kernel(SCAN, block=32, plain=True)(x, sums, y, grid=8)
    np.testing.assert_array_equal(y.numpy(), np.cumsum(x.numpy()))


def test_a_missing_barrier_of_a_grid_is_a_race() -> None:
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        for text in (SCAN, SCAN.replace("    grid.sync();\n", "    if (grid.size() == 0) grid.sync();\n")):
            assert not reports, reports
            y, sums = ck.empty(256, "int32"), ck.zeros(8, "int32")
            ck.Kernel(text, block=32, plain=True)(ck.arange(256, dtype="int32"), sums, y, grid=8)
    line = 1 + text.split("\n").index("    for (int b = 0; b < blockIdx.x; ++b) before += sums[b];")
    assert any(one.kind == "race" and one.place.endswith(f":{line}") for one in reports), reports


CLUSTER = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(4, 1, 1) neighbours(const int* x, int* y) {
    __shared__ int own[32];
    cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x;
    own[t] = x[blockIdx.x * 32 + t];
    cluster.sync();
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    const int* other = cluster.map_shared_rank(own, next);
    y[blockIdx.x * 32 + t] = other[31 - t] + 1000 * cluster.thread_rank();
    cluster.sync();
}
"""


def test_clusters(device: ck.Device) -> None:
    if device.properties.max_blocks_per_cluster < 4:
        pytest.skip("this GPU has no clusters")
    x, y = ck.arange(256, dtype="int32"), ck.zeros(256, "int32")
    ck.Kernel(CLUSTER, block=32, plain=True)(x, y, grid=8)
    blocks = x.numpy().reshape(2, 4, 32)
    expected = np.roll(blocks, -1, axis=1)[:, :, ::-1] + 1000 * np.arange(128).reshape(4, 32)
    np.testing.assert_array_equal(y.numpy(), expected.reshape(-1))
