"""Clusters: blocks that wait for each other and use each other's shared memory; and planted mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from asynchronous import CLUSTER, EXCHANGE, MULTICAST

import cukern as ck
from cukern.testing import asynchrony

TILES = 5
UNKNOWN = r"counts at an mbarrier whose mbarrier_init was not passed on: .*, <\w+.*>:\d+"
OWN_WORDS = "checked launches say it in words of their own"


@pytest.fixture(params=["at_once", "late", "random"])
def when(request: pytest.FixtureRequest) -> Iterator[str]:
    with asynchrony(request.param, seed=5):
        yield request.param


@pytest.fixture(autouse=True)
def needs_clusters(request: pytest.FixtureRequest) -> None:
    if "device" in request.fixturenames:
        device = request.getfixturevalue("device")
        if device.properties.max_blocks_per_cluster < 2:
            pytest.skip("needs a GPU of compute capability 9.0")


def cluster(device: Any, text: str = CLUSTER) -> bool:
    """Whether sums, counts and what the blocks leave each other are right."""
    x = np.random.default_rng(0).integers(-50, 50, (4, 6, 48)).astype(np.float32)
    y, counts = ck.zeros(x.shape, device=device), ck.zeros((4, 6), "int32", device)
    kernel = ck.Kernel(text, name="cluster")
    kernel(ck.asarray(x, device=device), y, counts, grid=(6, 4), block=48, shared=48 * 4)
    sums = x.reshape(2, 2, 3, 2, 48).sum((1, 3), keepdims=True)
    wanted = np.broadcast_to(sums + 2 * sums[..., ::-1], (2, 2, 3, 2, 48)).reshape(x.shape)
    ranks = np.arange(4)[:, None] % 2 * 2 + np.arange(6) % 2
    wanted = wanted + ((ranks - 1) % 4)[..., None]
    return np.array_equal(y.numpy(), wanted) and np.array_equal(counts.numpy(), 48 + 1000 * ranks)


def test_blocks_of_a_cluster_use_each_others_memory(device: ck.Device, when: str) -> None:
    assert cluster(device)


@pytest.mark.parametrize(
    ("right", "wrong", "symptom"),
    [
        (
            "    cluster_arrive();\n    cluster_wait();\n",
            "",
            "written before it began: a barrier of the cluster comes first",
        ),
        (
            "cluster_barrier();\n    y[48 * block + i] = sum",
            "y[48 * block + i] = sum",
            None,
        ),
        (
            "cluster_barrier();\n    y[48 * block + i] +=",
            "__syncthreads();\n    y[48 * block + i] +=",
            "that block of the cluster has ended",
        ),
        ("cluster_wait();", "cluster_arrive();", r"arrives twice .*, <cluster.*>:13"),
        (
            "cluster_arrive();\n    cluster_wait",
            "cluster_wait",
            "waits at its cluster's barrier before it has arrived",
        ),
        (
            "cluster_arrive();\n",
            "if (rank) cluster_arrive(); else __syncthreads();\n",
            "waits at its cluster's barrier before",
        ),
        ("if (i == 0) count", "if (rank == 2) cluster_barrier();\nif (i == 0) count", None),
        ("(&count, next)", "(&count, 4)", "the cluster has no block of that rank, <cluster.*>:17"),
        ("(&count, next)", "(&counts[block], 1)", "not in the block's own shared memory"),
    ],
    ids=[
        "no barrier before reads",
        "no barrier after counts",
        "a barrier of the block alone",
        "twice",
        "no arrival",
        "some do not arrive",
        "a block that waits alone",
        "no such block",
        "global memory",
    ],
)
@pytest.mark.unchecked_only(OWN_WORDS)
def test_a_mistake_between_blocks_shows(right: str, wrong: str, symptom: str | None) -> None:
    assert CLUSTER.count(right) == 1
    text = CLUSTER.replace(right, wrong)
    if symptom is None:
        assert not cluster("host", text)
        return
    with pytest.raises(ck.KernelFault, match=symptom):
        cluster("host", text)


def run(body: str, block: int = 32, blocks: int = 2) -> ck.Array:
    y = ck.zeros(4, device="host")
    text = f"""<% include "prelude/cluster_mbarrier.cuh" %>
    extern "C" __global__ void __cluster_dims__({blocks}, 1, 1) << name >>(float* y) {{
        __shared__ float own;
        __shared__ MBarrier here;
        const unsigned rank = cluster_rank();
        {body}
    }}"""
    ck.Kernel(text, name="own", block=block)(y, grid=2 * blocks)
    return y


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "*map_shared_rank(&own, 1 - rank) = 1;",
            "written before it began: a barrier of the cluster comes first",
        ),
        ("cluster_barrier(); *map_shared_rank(&own, 1 - rank) = 1;", "that block of the cluster has ended"),
        (
            "float* const other = map_shared_rank(&own, 1 - rank); cluster_barrier(); *other = 1;",
            "written after it had ended: a barrier of the cluster comes last",
        ),
        (
            "mbarrier_init(&here, 1); cluster_barrier(); mbarrier_wait(map_shared_rank(&here, 1 - rank), 1);",
            "an mbarrier is not in the block's own shared memory",
        ),
        (
            "if (rank) mbarrier_init(&here, 1); cluster_barrier(); mbarrier_arrive_at(&here, 0); cluster_barrier();",
            "an mbarrier is used before mbarrier_init",
        ),
        (
            "if (rank == 0) { mbarrier_init(&here, 1); mbarrier_wait(&here, 0); }",
            r"of block \(0, 0, 0\) at mbarrier_wait",
        ),
    ],
)
@pytest.mark.unchecked_only(OWN_WORDS)
def test_what_the_host_reports_of_other_blocks(body: str, message: str) -> None:
    with pytest.raises(ck.KernelFault, match=message):
        run(body, block=1)


def test_a_value_of_another_block_has_whole_words() -> None:
    with pytest.raises(ck.CompileError, match="of_block_number: a value of whole words of 4 bytes"):
        run("y[0] = of_block_number((const short*)&own, 0);")


def test_threads_that_have_ended_are_not_waited_for() -> None:
    body = """if (threadIdx.x % 2) return;
        if (threadIdx.x == 2) { cluster_arrive(); return; }
        cluster_barrier();
        if (threadIdx.x == 4) y[2 * (blockIdx.x / 2) + rank] = rank + 1;"""
    assert run(body, block=40).tolist() == [1, 2, 1, 2]


def test_a_kernel_without_clusters_has_clusters_of_one_block(device: ck.Device) -> None:
    y = ck.zeros(3, device=device)
    text = """<% include "prelude/cluster.cuh" %>
    extern "C" __global__ void << name >>(float* y) {
        __shared__ float own;
        own = 7;
        cluster_barrier();
        y[blockIdx.x] = 100 * cluster_rank() + 10 * cluster_size() + *map_shared_rank(&own, 0);
    }"""
    ck.Kernel(text, name="single", block=1)(y, grid=3)
    assert y.tolist() == [17, 17, 17]


def multicast(device: Any, text: str = MULTICAST) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (16 * TILES, 32)).astype(np.float32)
    y = ck.zeros((4, 32), device=device)
    tiles = ck.TensorMap(ck.asarray(x, device=device), (8, 32), swizzle=128)
    ck.Kernel(text, name="multicast")(tiles, y, TILES, grid=4, block=64)
    weights = np.arange(4)[:, None] % 2 + np.arange(16 * TILES) % 16
    np.testing.assert_array_equal(y.numpy(), weights @ x)


def test_tiles_for_several_blocks(device: ck.Device, when: str) -> None:
    multicast(device)


@pytest.mark.parametrize(
    ("right", "wrong", "symptom"),
    [
        (
            "&full[i % 2], 3)",
            "&full[i % 2], 1 + rank)",
            r"of block \(0, 0, 0\) at mbarrier_wait \(phase 0 lacks 0 arrivals and 1024",
        ),
        (
            "mbarrier_arrive_expecting(&full[i % 2], bytes)",
            "mbarrier_arrive_expecting(&full[i % 2], bytes / 2)",
            "while copies to its shared memory were in flight",
        ),
        ("r = 0; r < 2", "r = rank; r <= rank", r"mbarrier_wait_cluster \(phase 0 lacks 32 arrivals"),
        ("&empty[s], 64", "&empty[s], 32", "more threads arrive at an mbarrier than its phase expects"),
        (
            "    cluster_barrier();\n    if",
            "    __syncthreads();\n    if",
            "an mbarrier is used before mbarrier_init",
        ),
        ("fence_mbarrier_init();", "", UNKNOWN),
        ("fence_mbarrier_init();", "if (rank) fence_mbarrier_init();", UNKNOWN),
        ("    cluster_arrive();\n    cluster_wait();\n}", "}", "that block of the cluster has ended"),
        ("&full[i % 2], 3)", "&full[i % 2], 7)", "the cluster has no block of that rank"),
        ("&full[i % 2], 3)", "&full[i % 2], 0)", "the blocks are no 16 bits, some of them set"),
    ],
    ids=[
        "itself alone",
        "own bytes",
        "own arrivals",
        "own consumers",
        "no first barrier",
        "no fence",
        "a block without a fence",
        "no last barrier",
        "no block",
        "none",
    ],
)
@pytest.mark.unchecked_only(OWN_WORDS)
def test_a_mistake_with_tiles_for_several_blocks_shows(right: str, wrong: str, symptom: str) -> None:
    assert MULTICAST.count(right) == 1
    with pytest.raises(ck.KernelFault, match=symptom):
        multicast("host", MULTICAST.replace(right, wrong))


#: Each of two blocks brings half of a row to both, and doubles it.
BYTES = """
<% include "prelude/bulk_copy.cuh" %>
<% include "prelude/cluster.cuh" %>
extern "C" __global__ void __cluster_dims__(2, 1, 1) << name >>(const float* x, float* y) {
    __shared__ __align__(16) float row[64];
    __shared__ MBarrier come;
    if (threadIdx.x == 0) {
        mbarrier_init(&come, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&come, sizeof row);
    }
    cluster_barrier();
    const int part = 32 * cluster_rank();
    if (threadIdx.x == 0) copy_bulk_multicast(row + part, x + blockIdx.x / 2 * 64 + part, 128, &come, 3);
    mbarrier_wait(&come, 0);
    y[blockIdx.x * 64 + threadIdx.x] = 2 * row[threadIdx.x];
}
"""


def bytes_for_several(device: Any) -> None:
    x = np.random.default_rng(0).random((2, 64), np.float32)
    y = ck.zeros((4, 64), device=device)
    ck.Kernel(BYTES, name="bytes")(ck.asarray(x, device=device), y, grid=4, block=64)
    np.testing.assert_array_equal(y.numpy(), 2 * np.repeat(x, 2, 0))


def test_bytes_for_several_blocks(device: ck.Device, when: str) -> None:
    bytes_for_several(device)


@pytest.mark.parametrize(
    ("right", "wrong", "symptom"),
    [
        ("&come, 3)", "&come, 0)", "copy_bulk_multicast: the blocks are no 16 bits, some of them set"),
        ("&come, 3)", "&come, 1)", "phase 0 lacks 0 arrivals and 256 bytes"),
        ("128, &come", "120, &come", "no multiple of 16 bytes"),
        ("row + part, x", "row + 2 * part, x", "beyond the block's shared memory"),
        ("    cluster_barrier();\n", "    __syncthreads();\n", "an mbarrier is used before mbarrier_init"),
    ],
)
@pytest.mark.unchecked_only(OWN_WORDS)
def test_a_mistake_with_bytes_for_several_blocks_shows(right: str, wrong: str, symptom: str) -> None:
    assert BYTES.count(right) == 1
    x, y = ck.ones((2, 64), device="host"), ck.zeros((4, 64), device="host")
    with pytest.raises(ck.KernelFault, match=symptom):
        ck.Kernel(BYTES.replace(right, wrong), name="bytes")(x, y, grid=4, block=64)


def exchange(device: Any, text: str = EXCHANGE) -> None:
    x = np.random.default_rng(0).integers(0, 1000, (2, 4, 32, 4)).astype(np.uint32)
    y = ck.zeros(x.shape, "uint32", device)
    ck.Kernel(text, name="exchange", blocks=4)(ck.asarray(x, device=device), y, grid=8, block=32)
    sent = np.roll(x, 1, axis=1) * np.asarray([2, 2, 2, 1], np.uint32)
    np.testing.assert_array_equal(y.numpy(), sent)


def test_words_that_are_sent_to_another_block(device: ck.Device, when: str) -> None:
    exchange(device)


def test_a_barrier_of_another_block_is_passed_on_before_words_count_there() -> None:
    with pytest.raises(ck.KernelFault, match=UNKNOWN):
        exchange("host", EXCHANGE.replace("fence_mbarrier_init();", ""))


def test_threads_arrive_at_a_barrier_that_no_fence_has_passed_on() -> None:
    """The cluster's barrier does: the fence is for what is done beside the threads."""
    body = """if (threadIdx.x == 0) mbarrier_init(&here, 64);
        cluster_barrier();
        for (unsigned to = 0; to < 2; ++to) mbarrier_arrive_at(&here, to);
        mbarrier_wait_cluster(&here, 0);
        y[blockIdx.x] = 1 + rank;
        cluster_barrier();"""
    assert run(body).tolist() == [1, 2, 1, 2]


def test_a_grid_is_made_of_whole_clusters() -> None:
    with pytest.raises(
        ck.LaunchError, match=r"grid.y is 3, which is no multiple of the 2 blocks of a cluster"
    ):
        ck.Kernel(CLUSTER, name="cluster")(
            *ck.zeros((2, 8), device="host"), ck.zeros(8, "int32", "host"), grid=(2, 3)
        )


def test_a_cluster_has_no_more_blocks_than_the_device_takes() -> None:
    with pytest.raises(ck.LaunchError, match="its clusters have 16 blocks, and .* takes 8 at most"):
        ck.Kernel(EXCHANGE, name="exchange", blocks=16).bind("host")
