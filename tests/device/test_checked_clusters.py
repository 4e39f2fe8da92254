"""Clusters in checked launches: mistakes between their blocks are named, and the right kernels beside them pass."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

import cukern as ck
from cukern.testing import checked

THREADS = 40


class Pair(NamedTuple):
    """A kernel's body with a mistake, ``⟦right|||wrong⟧`` or by ``wrong``, and what is reported of it."""

    name: str
    body: str
    kind: str
    message: str


#: After a relaxed arrival, which releases nothing, each block reads what the other one has written.
_READ_THERE = """
        cluster_arrive_relaxed();
        cluster_wait();
        y[rank * n + i] = map_shared_rank(own, 1 - rank)[n - 1 - i];
        cluster_barrier();"""
_RACY = "own[i] = x[rank * n + i];" + _READ_THERE
PAIRS = [
    Pair(
        "a barrier of the block alone",
        """own[i] = x[rank * n + i];
        ⟦cluster_barrier();|||cluster_barrier(); own[i] += 1; __syncthreads();⟧
        y[rank * n + i] = map_shared_rank(own, 1 - rank)[n - 1 - i];
        cluster_barrier();""",
        "race",
        " of shared own, which has 160 bytes, written by block (1, 0, 0), thread (",
    ),
    Pair(
        "a write between arrival and wait",
        """own[i] = x[rank * n + i];
        cluster_barrier();
        const float there = *map_shared_rank(own + i, 1 - rank);
        cluster_arrive();
        ⟦|||own[i] = there;⟧
        cluster_wait();
        own[i] = there;
        y[rank * n + i] = own[i];""",
        "race",
        "with no barrier in between",
    ),
    Pair(
        "a relaxed arrival",
        "own[i] = x[rank * n + i]; ⟦__threadfence();|||⟧" + _READ_THERE,
        "race",
        " of shared own, which has 160 bytes",
    ),
    *(
        Pair(
            f"{what} by one thread alone of its {group}",
            f"""own[i] = x[rank * n + i];
            ⟦{meet}();|||⟧
            {release}
            cluster_wait();
            y[rank * n + i] = map_shared_rank(own, 1 - rank)[n - 1 - i];
            cluster_barrier();""",
            "race",
            " of shared own, which has 160 bytes",
        )
        for group, meet, one in (
            ("block", "__syncthreads", "i == n - 1"),
            ("warp", "__syncwarp", "i % 32 == 0"),
        )
        for what, release in (
            ("an arrival", f"if ({one}) cluster_arrive(); else cluster_arrive_relaxed();"),
            ("a fence", f"if ({one}) __threadfence(); {meet}(); cluster_arrive_relaxed();"),
        )
    ),
    Pair(
        "a write after the last release",
        "own[i] = x[rank * n + i]; cluster_barrier(); ⟦|||own[i] = 2 * x[rank * n + i];⟧" + _READ_THERE,
        "race",
        " of shared own, which has 160 bytes",
    ),
    Pair(
        "a relaxed arrival, and an mbarrier of the block after it",
        """if (i == 0) mbarrier_init(&here, 1);
        fence_mbarrier_init();
        own[i] = x[rank * n + i];
        ⟦cluster_arrive();|||cluster_arrive_relaxed();⟧
        cluster_wait();
        if (i == 0) mbarrier_arrive(&here);
        mbarrier_wait(&here, 0);
        if (i != 0) y[rank * n + i] = map_shared_rank(own, 1 - rank)[n - 1 - i];
        cluster_barrier();""",
        "race",
        " of shared own, which has 160 bytes",
    ),
    Pair(
        "no first barrier",
        """⟦cluster_barrier();|||⟧
        map_shared_rank(own, 1 - rank)[i] = x[rank * n + i];
        cluster_barrier();
        y[rank * n + i] = own[i];""",
        "race",
        "of a block that may not have begun: a barrier of the cluster comes first",
    ),
    Pair(
        "no last barrier",
        """own[i] = x[rank * n + i];
        cluster_barrier();
        if (rank == 0) y[i] = own[i] + map_shared_rank(own, 1)[i];
        ⟦cluster_barrier();|||⟧""",
        "race",
        "of a block that may have ended: a barrier of the cluster comes last",
    ),
    Pair(
        "beyond another block's array",
        """own[i] = x[rank * n + i];
        cluster_barrier();
        y[rank * n + i] = map_shared_rank(own, 1 - rank)[i + wrong];
        cluster_barrier();""",
        "out of bounds",
        "block (0, 0, 0), thread (39, 0, 0) reads element 40 (byte 160) of shared own",
    ),
    Pair(
        "sums that are not atomic",
        """if (i == 0) count = 0;
        cluster_barrier();
        ⟦atomicAdd(map_shared_rank(&count, 0), 1);|||if (i == 0) *map_shared_rank(&count, 0) += 1;⟧
        cluster_barrier();
        y[rank * n + i] = *map_shared_rank(&count, 0);
        cluster_barrier();""",
        "race",
        "of shared count",
    ),
    Pair(
        "unset memory of another block",
        """⟦own[i] = x[rank * n + i];|||if (rank == 0) own[i] = x[i];⟧
        cluster_barrier();
        y[rank * n + i] = map_shared_rank(own, 1 - rank)[i];
        cluster_barrier();""",
        "unset",
        "of shared own, which has 160 bytes, which nothing has written",
    ),
    Pair(
        "a store that nobody waits for",
        """if (i == 0) mbarrier_init(&here, 1);
        fence_mbarrier_init();
        cluster_barrier();
        if (i == 0) mbarrier_arrive_expecting(&here, sizeof own);
        store_async(own + i, x[rank * n + i], &here, 1 - rank);
        ⟦mbarrier_wait_cluster(&here, 0);|||⟧
        y[rank * n + i] = own[i];
        ⟦|||mbarrier_wait_cluster(&here, 0);⟧""",
        "unset",
        "of shared own",
    ),
    Pair(
        "values that nobody waits for",
        """if (i == 0) mbarrier_init(&here, n);
        fence_mbarrier_init();
        cluster_barrier();
        map_shared_rank(own, 1 - rank)[i] = x[rank * n + i];
        mbarrier_arrive_at(&here, 1 - rank);
        ⟦mbarrier_wait_cluster(&here, 0);|||⟧
        y[rank * n + i] = own[n - 1 - i];
        mbarrier_wait_cluster(&here, 0);
        cluster_barrier();""",
        "race",
        "of shared own",
    ),
    Pair(
        "an mbarrier that its maker does not release",
        """if (i == 0) mbarrier_init(&here, n);
        ⟦fence_mbarrier_init();|||⟧
        cluster_arrive_relaxed();
        cluster_wait();
        mbarrier_arrive_at(&here, 1 - rank);
        mbarrier_wait_cluster(&here, 0);
        cluster_barrier();""",
        "race",
        "by mbarrier_init, with no barrier in between",
    ),
]


def reports(pair: Pair, wrong: bool) -> list[ck.KernelReport]:
    body = re.sub("⟦(.*?)[|]{3}(.*?)⟧", r"if (wrong) { \2 } else { \1 }", pair.body)
    text = f"""<% include "prelude/cluster_mbarrier.cuh" %>
    extern "C" __global__ void __cluster_dims__(2, 1, 1) << name >>(const float* x, float* y, int wrong) {{
        const int n = {THREADS}, i = threadIdx.x;
        const unsigned rank = cluster_rank();
        __shared__ float own[n];
        __shared__ int count;
        __shared__ MBarrier here;
        {body}
    }}"""
    x, y = ck.arange(2 * THREADS, dtype="float32"), ck.zeros(2 * THREADS)
    with checked(collect=True) as found:
        ck.Kernel(text, name="pair", block=THREADS)(x, y, int(wrong), grid=2)
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_mistake_between_blocks_is_named(pair: Pair) -> None:
    with ck.device("host"):
        found = [one for one in reports(pair, True) if one.kind == pair.kind]
    assert any(pair.message in str(one) for one in found), [str(one) for one in found]
    assert all(one.place.startswith("<pair") for one in found)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_right_kernel_beside_it_passes(pair: Pair) -> None:
    with ck.device("host"):
        assert reports(pair, False) == []


def test_an_earlier_launchs_releases_are_forgotten_with_its_times() -> None:
    """The checker's times begin again after a quarter of 2**28, when phases have the numbers of an earlier launch's."""
    spend = ck.Kernel(
        'extern "C" __global__ void << name >>(int n) { for (int i = 0; i < n; ++i) __threadfence(); }',
        name="fences",
        block=1,
    )
    late = (
        "own[i] = x[rank * n + i];" + "__syncthreads(); cluster_barrier();" * 5 + "y[rank * n + i] = own[i];"
    )
    with ck.device("host"):
        with checked():
            spend(2**25, grid=1)
        assert reports(Pair("", late, "", ""), False) == []
        with checked():
            spend(2**26, grid=1)
        assert [one.kind for one in reports(Pair("", _RACY, "", ""), False)] == ["race"]
