"""Mistakes that checked launches missed in kernels of public style, each beside the right kernel; and all of these."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from planted import Pair

import cukern as ck
from cukern.device.host.checked import dropped
from cukern.testing import checked

COPIES = '<% include "prelude/copy_async.cuh" %>'


def _keys(n: int, below: int) -> ck.Array:
    return (ck.arange(n, dtype="int32") * 7) % below


PAIRS = [
    Pair("copies", "no wait of a thread for its own copy", """(const float* x, float* y) {
    __shared__ float own[32];
    copy_async(&own[threadIdx.x], x + threadIdx.x);
    commit_copies();
    ⟦wait_copies<0>();|||⟧
    y[threadIdx.x] = own[threadIdx.x];
}""", lambda: [ck.ones(32), ck.zeros(32)], "unset,race", "own", COPIES, launch={"grid": 1, "block": 32}),
    Pair("copies", "sixteen bytes from an address of four", """(const float* x, float* y) {
    __shared__ float4 own[8];
    copy_async(&own[threadIdx.x], (const float4*)(x + ⟦4|||3⟧) + threadIdx.x);
    commit_copies();
    wait_copies<0>();
    y[threadIdx.x] = own[threadIdx.x].y;
}""", lambda: [ck.ones(36), ck.zeros(8)], "fault", "", COPIES, launch={"grid": 1, "block": 8}),
    Pair("lanes", "who comes out of a loop votes, beside atomic operations", """(const int* x, int* bins, int* y) {
    const int own = x[threadIdx.x];
    for (int i = 0; i < own; ++i) atomicAdd(&bins[i], 1);
    y[threadIdx.x] = __popc(__ballot_sync(⟦0xffffffffu|||__activemask()⟧, own > 3));
}""", lambda: [_keys(32, 8), ck.zeros(8, "int32"), ck.zeros(32, "int32")], "lane", launch={"grid": 1, "block": 32}),
    Pair("lanes", "who comes out of a loop pushes, wherever", """(const int* x, int* list, int* length, float* y) {
    const int own = x[threadIdx.x], lane = threadIdx.x;
    int sum = 0;
    for (int i = 0; i < own; ++i) sum += i ^ lane;
    const unsigned here = __activemask();
    int first = 0;
    if (lane == __ffs(here) - 1) first = atomicAdd(length, __popc(here));
    first = __shfl_sync(here, first, __ffs(here) - 1) + __popc(here & (shl(1u, lane) - 1));
    list[first] = sum;
    y[⟦first] = sum|||lane] = __popc(here)⟧;
}""", lambda: [_keys(32, 8), ck.zeros(32, "int32"), ck.zeros(1, "int32"), ck.zeros(32)], "lane",
         launch={"grid": 1, "block": 32}),
    Pair("lanes", "a lane beyond the last of a coalesced group", """(const int* x, int* y) {
    if (threadIdx.x % 2) return;
    auto group = cooperative_groups::coalesced_threads();
    y[threadIdx.x] = group.shfl(x[threadIdx.x], ⟦(group.thread_rank() + 1) % 16|||group.thread_rank() + 1⟧);
}""", lambda: [_keys(32, 8), ck.zeros(32, "int32")], "lane", "", "#include <cooperative_groups.h>\n",
         launch={"grid": 1, "block": 32}),
    Pair("blocks", "an operation that is atomic for one block", """(const int* x, int* own, int* all) {
    const int v = x[threadIdx.x];
    atomicAdd_block(&own[8 * blockIdx.x + v], 1);
    cuda::atomic_ref<int, cuda::thread_scope_⟦device|||block⟧>(all[v]).fetch_add(1, cuda::memory_order_relaxed);
}""", lambda: [_keys(32, 8), ck.zeros(16, "int32"), ck.zeros(8, "int32")], "race", "all", "#include <cuda/atomic>\n",
         launch={"grid": 2, "block": 32}),
    Pair("blocks", "the block with the highest number for the last one", """(
    const float* x, float* part, unsigned* count, float* y) {
    if (threadIdx.x) return;
    part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    const bool all = atomicAdd(count, 1u) == gridDim.x - 1;
    if (⟦all|||blockIdx.x == gridDim.x - 1⟧)
        for (int b = 0; b < gridDim.x; ++b) *y += part[b];
}""", lambda: [ck.ones(4), ck.zeros(4), ck.zeros(1, "uint32"), ck.zeros(1)], "race", "part", launch={"grid": 4}),
    Pair("unset register", "a variable that a function of a header reads", """(const float* x, float* y) {
    float most⟦ = x[0]|||⟧;
    for (int i = threadIdx.x; i < 64; i += 32) most = most > x[i] ? most : x[i];
    y[threadIdx.x] = fmaxf(most, y[threadIdx.x]);
}""", lambda: [-ck.ones(64), -5 * ck.ones(32)], "unset", launch={"grid": 1, "block": 32}),
    Pair("blocks", "a sum of all blocks is used by each", """(const float* x, float* sum, float* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    float own = x[i];
    for (int d = 16; d > 0; d /= 2) own += __shfl_down_sync(0xffffffffu, own, d);
    if (threadIdx.x == 0) atomicAdd(⟦sum + blockIdx.x|||sum⟧, own);
    __syncthreads();
    y[i] = x[i] / sum[⟦blockIdx.x|||0⟧];
}""", lambda: [ck.ones(96), ck.zeros(3), ck.zeros(96)], "race", "sum", launch={"grid": 3, "block": 32}),
    Pair("blocks", "the least of all blocks is used by each", """(const int* x, int* least, int* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    atomicMin(least, x[i]);
    __syncthreads();
    if (⟦atomicMin(least, x[i])|||*least⟧ < x[i]) ⟦atomicAdd(y, 1)|||y[i] = 1⟧;
}""", lambda: [96 - ck.arange(96, dtype="int32"), ck.full(1, 99, dtype="int32"), ck.zeros(96, "int32")], "race",
         "least", launch={"grid": 3, "block": 32}),
    Pair("atomics", "a compare and swap whose result is never read", """(const int* x, ⟦|||volatile ⟧int* sum) {
    const int own = x[blockIdx.x * 32 + threadIdx.x];
    int old = *sum, seen;
    ⟦do { seen = old; old = |||if (own) { seen = old; old = ⟧atomicCAS((int*)sum, seen, seen + own);
    }⟦ while (old != seen);|||⟧
}""", lambda: [_keys(64, 16), ck.zeros(1, "int32")], "race", "sum", launch={"grid": 2, "block": 32}),
    Pair("atomics", "one try for the largest, where the first value does for a flag", """(
    const int* x, int* most, int* flag) {
    const int own = x[blockIdx.x * 32 + threadIdx.x];
    if (*flag == 0) { const int was = atomicCAS(flag, 0, 1); }
    int old = *most;
    ⟦while|||if⟧ (old < own) {
        const int seen = old;
        old = atomicCAS(most, seen, own);
        ⟦if (old == seen) break;|||⟧
    }
}""", lambda: [_keys(64, 16), ck.zeros(1, "int32"), ck.zeros(1, "int32")], "race", "most",
         launch={"grid": 2, "block": 32}),
    Pair("atomics", "a sum of doubles by a function, and one by a macro, that try once", """(
    const int* x, double* sum, double* other) {
    const int own = x[blockIdx.x * 32 + threadIdx.x];
    add(sum, own);
#define ADD(p, v) do { unsigned long long *at_ = (unsigned long long*)(p), old_ = *at_, seen_; \\
    ⟦do { seen_ = old_; old_ = |||seen_ = old_; ⟧atomicCAS(at_, seen_, \\
        __double_as_longlong((v) + __longlong_as_double(seen_))); \\
    ⟦} while (seen_ != old_);|||⟧ } while (0)
    ADD(other, own);
}""", lambda: [1 + _keys(64, 16), ck.zeros(1, "float64"), ck.zeros(1, "float64")], "race", "sum",
         """__device__ double add(double* p, double v) {
    unsigned long long *at = (unsigned long long*)p, old = *at, seen;
    ⟦do {|||⟧ seen = old;
    old = atomicCAS(at, seen, __double_as_longlong(v + __longlong_as_double(seen)));
    ⟦} while (seen != old);|||⟧
    return __longlong_as_double(old);
}""", launch={"grid": 2, "block": 32}),
    Pair("atomics", "a number is looked at, and exchanged for the next", """(int* next, int* own) {
    int taken;
    ⟦taken = atomicAdd(next, 1);|||taken = atomicOr(next, 0); atomicExch(next, taken + 1);⟧
    own[blockIdx.x * 32 + threadIdx.x] = taken;
}""", lambda: [ck.zeros(1, "int32"), ck.zeros(64, "int32")], "race", "next", launch={"grid": 2, "block": 32}),
    Pair("atomics", "one try for the least after an atomic look", """(const int* x, int* least) {
    const int own = x[blockIdx.x * 32 + threadIdx.x];
    int old = atomicCAS(least, 0, 0);
    ⟦while|||if⟧ (own < old) {
        const int seen = old;
        ⟦old = |||⟧atomicCAS(least, seen, own);
        ⟦if (old == seen) break;|||⟧
    }
}""", lambda: [1 + _keys(64, 16), ck.full(1, 99, dtype="int32")], "race", "least",
         launch={"grid": 2, "block": 32}),
    Pair("blocks", "one sets by a volatile store what all add to", """(volatile float* sum, int* count) {
    ⟦atomicAdd((float*)sum, 1.f);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(count, 1) == gridDim.x - 1) {
        sum[1] = sum[0];
        sum[0] = 0;
        atomicExch(count, 0);
    }|||if (blockIdx.x == 1 && threadIdx.x == 0) sum[0] = 0;
    __syncthreads();
    atomicAdd((float*)sum, 1.f);⟧
}""", lambda: [ck.zeros(2), ck.zeros(1, "int32")], "race", "sum", launch={"grid": 3, "block": 32}),
    Pair("blocks", "the first sets by an exchange what all raise", """(int* most, int* all) {
    ⟦atomicMax(most, (int)(blockIdx.x * 32 + threadIdx.x));
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(all, atomicExch(most, 0));|||if (blockIdx.x == 0 && threadIdx.x == 0)
        atomicExch(most, -1);
    __syncthreads();
    atomicMax(most, (int)(blockIdx.x * 32 + threadIdx.x));⟧
}""", lambda: [ck.full(1, 999, dtype="int32"), ck.zeros(1, "int32")], "race", "most",
         launch={"grid": 2, "block": 32}),
    Pair("blocks", "whoever finds a table empty fills it", """(int* state, int* owner, int* y) {
    if (⟦atomicCAS(state, 0, 1)|||atomicAdd(state, 0)⟧ == 0) {
        *owner = 1 + blockIdx.x;
        __threadfence();
        atomicExch(state, 2);
    }
    while (atomicAdd(state, 0) != 2) ;
    __threadfence();
    y[blockIdx.x] = *owner;
}""", lambda: [ck.zeros(1, "int32"), ck.zeros(1, "int32"), ck.zeros(3, "int32")], "race", "state",
         launch={"grid": 3, "block": 1}),
    Pair("blocks", "a table is filled under a lock", """(int* ready, int* lock, int* owner, int* y) {
    if (*(volatile int*)ready == 0) {
        while (atomicCAS(lock, 0, 1)) ;
        __threadfence();
        ⟦if (atomicAdd(ready, 0) == 0)|||⟧ {
            *owner = 1 + blockIdx.x;
            __threadfence();
            atomicExch(ready, 1);
        }
        __threadfence();
        atomicExch(lock, 0);
    }
    __threadfence();
    y[blockIdx.x] = *owner;
}""", lambda: [ck.zeros(1, "int32"), ck.zeros(1, "int32"), ck.zeros(1, "int32"), ck.zeros(3, "int32")], "race",
         "ready", launch={"grid": 3, "block": 1}),
    Pair("blocks", "a relaxed look with no fence after it", """(const int* x, int* box, int* flag, int* y) {
    cuda::atomic_ref<int, cuda::thread_scope_device> full(*flag);
    if (blockIdx.x == 0) {
        box[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) full.store(1, cuda::memory_order_release);
    } else {
        if (threadIdx.x == 0) {
            while (full.load(cuda::memory_order_relaxed) == 0) ;
            ⟦cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);|||⟧
        }
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x];
    }
}""", lambda: [_keys(32, 8), ck.zeros(32, "int32"), ck.zeros(1, "int32"), ck.zeros(32, "int32")], "race", "box",
         "#include <cuda/atomic>\n", launch={"grid": 2, "block": 32}),
    Pair("blocks", "a load of PTX that is relaxed", """(int* box, int* flag, int* y) {
    if (blockIdx.x == 0) {
        *box = 7;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        int seen;
        do asm volatile("ld.⟦acquire|||relaxed⟧.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        while (seen == 0);
        *y = *box;
    }
}""", lambda: [ck.zeros(1, "int32"), ck.zeros(1, "int32"), ck.zeros(1, "int32")], "race", "box",
         launch={"grid": 2, "block": 1}),
    Pair("atomics", "one try of a cuda::atomic for the largest", """(const int* x, int* most) {
    const int own = x[blockIdx.x * 32 + threadIdx.x];
    cuda::atomic_ref<int, cuda::thread_scope_device> largest(*most);
    int old = largest.load(cuda::memory_order_relaxed);
    ⟦while|||if⟧ (old < own) {
        const bool done = largest.compare_exchange_weak(old, own, cuda::memory_order_relaxed);
        ⟦if (done) break;|||⟧
    }
}""", lambda: [_keys(64, 16), ck.zeros(1, "int32")], "race", "most", "#include <cuda/atomic>\n",
         launch={"grid": 2, "block": 32}),
]  # fmt: skip


#: Statements of a function with ``int *p, *y, v, old, seen``, and whether they drop what an atomicCAS says.
UNSEEN = {
    "old = atomicCAS(p, old, old + v);": True,
    "if (v) { int was = old; old = atomicCAS(p, was, v); }": True,
    "const bool done = atomicCAS(p, old, v) == old;": True,
    "for (int i = 0; i < v; ++i) { old = *p; seen = atomicCAS(p, old, old + v); }": True,
    "if (v) { int was = atomicCAS(p, old, v); } else { int was = 3; *y = was; }": True,
    "(void)atomicCAS(p, old, v);": True,
    "atomicExch(p, v);": True,
    "*y = atomicExch(p, v);": False,
    "do { seen = old; old = atomicCAS(p, seen, seen + v); } while (old != seen);": False,
    "for (int i = 0; i < v; ++i) old = atomicCAS(p, old, old + v);": False,
    "while ((seen = atomicCAS(p, old, old + v)) != old) old = seen;": False,
    "old = atomicCAS(p, old, v); *y = old;": False,
    "cuda::atomic_ref<int> at(*p); bool done = at.compare_exchange_weak(old, old + v);": True,
    "cuda::atomic_ref<int> at(*p); at.compare_exchange_strong(old, v); *y = old;": False,
    "cuda::atomic_ref<int> at(*p); while (!at.compare_exchange_weak(old, old + v)) ;": False,
    "struct Own { bool compare_exchange_weak(int& old, int v); }; Own().compare_exchange_weak(old, v);": False,
    "int& other = old; old = atomicCAS(p, old, v); *y = other;": False,
    "int* other = &old; old = atomicCAS(p, old, v); *y = *other;": False,
    "auto other = [&] { return old; }; old = atomicCAS(p, old, v); *y = other();": False,
    "const int was = v ? atomicCAS(p, old, v) : 0; *y = was;": False,
    "v = (*y = 3, atomicCAS(p, old, v)); *y = v;": False,
}


@pytest.mark.parametrize("statements", UNSEEN)
def test_it_is_known_whether_a_compare_and_swap_is_looked_at(statements: str) -> None:
    text = f"void f(int* p, int* y, int v) {{ int old = *p, seen; {statements} }}"
    assert bool(list(dropped.edits(text.encode()))) == UNSEEN[statements]


#: Definitions of ``add``, and calls of it where ``int *p, *y, v`` and a copy ``old`` of ``*p`` are known.
_RETURNS = "__device__ int add(int* p, int old, int v) { return atomicCAS(p, old, old + v); }"
_CONVERTS = """__device__ float add(int* p, int old, int v) {
    int seen = atomicCAS(p, old, __float_as_int(v + __int_as_float(old)));
    return __int_as_float(seen);
}"""
_LOOKS = (
    "__device__ int add(int* p, int old, int v) { old = atomicCAS(p, old, v); if (old) *p = 1; return old; }"
)
_STATEMENT = "#define add(p, old, v) do { int was_ = *(p); atomicCAS((p), was_, \\\n was_ + (v)); } while (0)"
_EXPRESSION = "#define add(p, old, v) atomicCAS(p, old, old + (v))"
_INNER = f"{_RETURNS} __device__ float more(int* p) {{ return 1 + (float)add(p, *p, 2); }}"
UNSEEN_BY_CALLERS = [
    (_RETURNS, "add(p, old, v);", True),
    (_RETURNS, "if (v) add(p, old, v); int was = add(p, old, v);", True),
    (_RETURNS, "add(p, old, v); *y = add(p, old, v);", False),
    (_RETURNS, "auto* other = add; *y = other(p, old, v);", False),
    (_RETURNS, "#define OTHER(p) #p, add", False),
    (_RETURNS.replace("__device__", "template <int N> __device__"), "add<3>(p, old, v);", True),
    (_CONVERTS, "add(p, old, v);", True),
    (_CONVERTS, "*y = (int)add(p, old, v);", False),
    (_LOOKS, "add(p, old, v);", False),
    (_INNER, "more(p);", True),
    (_INNER, "if (more(p) > 2) *y = 1;", False),
    (_STATEMENT, "add(p, old, v);", True),
    (_EXPRESSION, "add(p, old, v);", True),
    (_EXPRESSION, "while (add(p, old, v) != old) old = *p;", False),
    ("#define add(p, old, v) ({ atomicCAS(p, old, v); })", "*y = add(p, old, v);", False),
    ("#define add(p, old, v) old = atomicCAS(p, old, v)", "add(p, old, v); *y = old;", False),
]


@pytest.mark.parametrize(("definition", "calls", "unseen"), UNSEEN_BY_CALLERS)
def test_it_is_known_whether_callers_look_at_a_compare_and_swap(
    definition: str, calls: str, unseen: bool
) -> None:
    text = f"{definition}\nvoid f(int* p, int* y, int v) {{ int old = *p;\n{calls}\n}}"
    places = [text.index("atomicCAS")] if unseen else []
    assert [start for start, _, _ in dropped.edits(text.encode())] == places


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_mistake_is_named_and_the_right_kernel_is_not(pair: Pair) -> None:
    with ck.device("host"):
        with checked(collect=True) as reports:
            pair.run(wrong=True)
        found = [one for one in reports if one.kind in pair.expected.split(",")]
        assert found and all(one.place.startswith("<planted") for one in found), reports
        assert not pair.array or pair.array in {one.array for one in found}
        with checked(collect=True) as reports:
            pair.run(wrong=False)
        assert not reports


def test_blocks_that_wait_for_earlier_ones_pass() -> None:
    text = """
    extern "C" __global__ void << name >>(const int* x, volatile int* sums, volatile int* ready, int* y) {
        if (threadIdx.x) return;
        int before = 0;
        if (blockIdx.x) {
            while (!ready[blockIdx.x - 1]) ;
            __threadfence();
            before = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = before + x[blockIdx.x];
        __threadfence();
        ready[blockIdx.x] = 1;
        y[blockIdx.x] = before;
    }"""
    x, sums, ready, y = ck.ones(6, "int32", "host"), *(ck.zeros(6, "int32", "host") for _ in range(3))
    with checked(collect=True) as reports:
        ck.Kernel(text, name="waiting", block=32)(x, sums, ready, y, grid=6)
    assert not reports and y.tolist() == list(range(6))


@pytest.mark.parametrize("look", ["atomicAdd(state, 0)", "atomicCAS(state, 2, 2)", "*(volatile int*)state"])
def test_what_is_filled_once_is_known_to_all_blocks_that_look(look: str) -> None:
    text = """
    extern "C" __global__ void << name >>(int* state, float* table, const float* x, float* y) {
        if (threadIdx.x == 0) {
            if (atomicCAS(state, 0, 1) == 0) {
                for (int k = 0; k < 4; ++k) table[k] = x[k];
                __threadfence();
                atomicExch(state, 2);
            }
            while (<< look >> != 2) ;
            __threadfence();
        }
        __syncthreads();
        y[blockIdx.x * 32 + threadIdx.x] = table[threadIdx.x & 3];
    }"""
    y = ck.zeros(96, device="host")
    with checked(collect=True) as reports:
        arrays = (
            ck.zeros(1, "int32", "host"),
            ck.zeros(4, device="host"),
            ck.arange(4, device="host", dtype="float32"),
        )
        ck.Kernel(text, name="once", block=32, look=look)(*arrays, y, grid=3)
    assert not reports and y.tolist() == [0, 1, 2, 3] * 24


@pytest.mark.parametrize("fence", ["", "__threadfence();"])
def test_a_lock_without_a_fence_after_it_is_a_race_in_strict_launches(fence: str) -> None:
    text = """
    extern "C" __global__ void << name >>(int* sum, int* lock) {
        while (atomicCAS(lock, 0, 1) != 0) ;
        << fence >>
        *sum += 1;
        __threadfence();
        atomicExch(lock, 0);
    }"""
    kernel = ck.Kernel(text, name="locked", block=1, fence=fence)
    for strict in (False, True):
        with checked(collect=True, strict=strict) as reports:
            kernel(ck.zeros(1, "int32", "host"), ck.zeros(1, "int32", "host"), grid=3)
        assert {(one.kind, one.array) for one in reports} == (
            {("race", "sum")} if strict and not fence else set()
        )


def test_an_operation_that_ends_a_launch_is_over_in_the_next() -> None:
    broken = ck.Kernel(
        """
    #include <cuda/atomic>
    extern "C" __global__ void << name >>(int* x) {
        cuda::atomic_ref<int, cuda::thread_scope_block>(*(int*)(size_t)x[0]).fetch_add(1, cuda::memory_order_relaxed);
    }""",
        name="broken",
        block=1,
    )
    flag = ck.Kernel(
        """
    extern "C" __global__ void << name >>(int* box, int* flag, int* y) {
        if (blockIdx.x == 0) {
            *box = 7;
            __threadfence();
            atomicExch(flag, 1);
        } else {
            while (atomicCAS(flag, 1, 2) == 0) ;
            y[blockIdx.x] = *box;
        }
    }""",
        name="told",
        block=1,
    )
    with checked(collect=True) as reports:
        broken(ck.zeros(1, "int32", "host"), grid=1)
    assert [one.kind for one in reports] == ["out of bounds"]
    with checked(collect=True) as reports:
        flag(*(ck.zeros(3, "int32", "host") for _ in range(3)), grid=3)
    assert not reports


@pytest.mark.parametrize("seeds", [1, 3])
def test_variables_are_left_as_by_one_launch(seeds: int) -> None:
    """Of a kernel that runs more often, as a plain read is beside a sum."""
    text = """
    __device__ int launches;
    extern "C" __global__ void << name >>(const int* x, int* sum, int* y) {
        const int i = blockIdx.x * 32 + threadIdx.x, before = *sum;
        if (i == 0) *y = ++launches;
        if (before >= 0) atomicAdd(sum, x[i]);
    }"""
    x, total, y = ck.ones(64, "int32", "host"), *(ck.zeros(1, "int32", "host") for _ in range(2))
    kernel = ck.Kernel(text, name=f"counted{seeds}", block=32)
    for launch in (1, 2):
        with checked(collect=True, seeds=seeds) as reports:
            kernel(x, total, y, grid=2)
        assert not reports and (total.tolist(), y.tolist()) == ([64 * launch], [launch])


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_the_usual_order_shows_a_sum_that_is_read_too_early(dtype: str) -> None:
    text = """
    extern "C" __global__ void << name >>(const << T >>* x, << T >>* y) {
        __shared__ << T >> sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        if (threadIdx.x % 32 == 0) atomicAdd(&sum, x[threadIdx.x]);
        if (threadIdx.x == 0) y[0] = sum;
    }"""
    kernel = ck.Kernel(text, name="early", block=128, T="int" if dtype == "int32" else "float")
    with checked(collect=True, seeds=1) as reports:
        kernel(ck.ones(128, dtype, "host"), ck.zeros(1, dtype, "host"), grid=1)
    assert [(one.kind, one.place) for one in reports] == [("race", "<early>:7")]


@pytest.mark.parametrize("own", ["1", "*sum < 100"])
def test_sums_that_nobody_looks_at_are_checked_in_one_order(
    own: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
    extern "C" __global__ void << name >>(int* sum) {
        if (threadIdx.x == 0 && blockIdx.x == 0) printf("a run\\n");
        atomicAdd(sum, << own >>);
    }"""
    total = ck.zeros(1, "int32", "host")
    with checked(collect=True):
        ck.Kernel(text, name="adds", block=32, own=own)(total, grid=2)
    assert (capfd.readouterr().out.count("a run") == 1) == (own == "1") and total.tolist() == [64]


def test_operations_that_may_come_in_any_order_are_known() -> None:
    any_order = "atomicAdd(p, v); for (;;) { (void)atomicSub(p + 1, v); atomicAdd_block(y, 2); }"
    assert dropped.commute(f"void f(int* p, int* y, int v) {{ {any_order} }}".encode())
    for other in ("*y = atomicAdd(p, v);", "atomicAdd(p, v); atomicMax(p, v);", "atomicExch(p, v);"):
        assert not dropped.commute(f"void f(int* p, int* y, int v) {{ {other} }}".encode())
    macro = "#define ADD(at) atomicAdd(at, 1)\nvoid f(int* p) {{ {}ADD(p); }}"
    assert dropped.commute(macro.format("").encode())
    assert not dropped.commute(macro.format("*p = ").encode())


@pytest.fixture
def planted_set(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "planted.py"
    spec = importlib.util.spec_from_file_location("planted_set", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted_set", module)
    spec.loader.exec_module(module)
    return module


#: What is not reported: barriers, votes and matches whose other threads have ended, which do no harm since Volta.
MISSED: dict[str, set[str]] = {
    "planted_set": set(),
    "unseen_set": {
        "sync in guard",
        "sync in stride loop",
        "ballot in branch",
        "match stale mask",
    },
    # Nor are, besides, pointers to locals that are out of scope, a lock without a fence, and wrong values.
    "unseen_set_2": {
        "reduce in branch",
        "pointer to a local in shared",
        "pointer into a loop body",
        "no fence after acquiring",
        "lock taken by the wrong value",
        "pop without tag",
        "float maximum as integers of both signs",
        "order of threads taken for the order of elements",
    },
}


@pytest.mark.parametrize("folder", MISSED)
def test_the_sets_are_read(planted_set: ModuleType, folder: str) -> None:
    kernels = planted_set.public(folder)
    assert len({(one.kinds, one.name) for one in kernels}) == len(kernels)
    for one in kernels:
        assert one.pair == ("//!" in one.body), one.name
        assert "|||" not in one.text(wrong=True) + one.text(wrong=False), one.name


@pytest.mark.thorough
@pytest.mark.parametrize("folder", MISSED)
def test_all_of_a_set(planted_set: ModuleType, folder: str) -> None:
    missed, alarms = set(), []
    for one in planted_set.public(folder):
        with ck.device("host"):
            for wrong in (True, False) if one.pair else (False,):
                with checked(collect=True) as reports:
                    kept = one.run(wrong=wrong)
                del kept
                named = one.named([place for r in reports for place in (r.place, r.other_place)])
                missed |= {one.name} if wrong and not named else set()
                alarms += [one.name] * (not wrong and bool(reports))
    assert missed == MISSED[folder] and not alarms


@pytest.mark.parametrize("sender", [0, 31])
def test_a_bulk_store_in_ptx_that_reads_what_others_overwrite(sender: int) -> None:
    """Of a block of one warp, whose threads need not wait for one another."""
    text = """
    __device__ unsigned to_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
    __global__ void shifted(const float* x, float* y) {
        __shared__ __align__(128) float stage[32];
        for (int k = 0; k < 3; ++k) {
            stage[threadIdx.x] = x[32 * k + threadIdx.x] + 1;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            if (threadIdx.x == SENDER) {
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                    :: "l"(y + 32 * k), "r"(to_shared(stage)), "r"(128) : "memory");
                asm volatile("cp.async.bulk.commit_group;");
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            WAIT
        }
        if (threadIdx.x == SENDER) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    """
    x = np.arange(96, dtype=np.float32)
    for wait, kinds in (("", ["race"]), ("__syncthreads();", [])):
        with ck.device("host"), checked(collect=True) as reports:
            y = ck.zeros(96)
            kernel = ck.Kernel(
                text, name="shifted", block=32, plain=True, defines={"SENDER": str(sender), "WAIT": wait}
            )
            kernel(ck.asarray(x), y, grid=1)
        assert [one.kind for one in reports][:1] == kinds
        if wait:
            np.testing.assert_array_equal(y.numpy(), x + 1)
