"""Shuffles, votes, reductions and atomics on the host, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from host_support import kernel, lanes, launch, run

RNG = np.random.default_rng(4)

SHUFFLE_TYPES = {
    "int": np.int32,
    "unsigned int": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "__half": np.float16,
    "__nv_bfloat16": ml_dtypes.bfloat16,
}


def source_lane(kind: str, argument: int, width: int) -> np.ndarray:
    lane = np.arange(32)
    first, last = lane // width * width, lane // width * width + width - 1
    wanted = {
        "": first + argument % width,
        "_up": np.where(lane - argument < first, lane, lane - argument),
        "_down": np.where(lane + argument > last, lane, lane + argument),
        "_xor": np.where((lane ^ argument) > last, lane, lane ^ argument),
    }
    return wanted[kind]


@pytest.mark.parametrize("ctype", SHUFFLE_TYPES)
@pytest.mark.parametrize("kind", ["", "_up", "_down", "_xor"])
def test_shuffles(ctype, kind):
    dtype = SHUFFLE_TYPES[ctype]
    cases = [(0, 32), (1, 32), (5, 32), (31, 32), (1, 16), (9, 8), (2, 4), (1, 1)]
    x = (RNG.standard_normal(96) * 100).astype(np.int32).astype(dtype)
    out = np.zeros((len(cases), 96), dtype)
    body = "int t = threadIdx.x;" + "".join(
        f"out[{96 * k} + t] = __shfl{kind}_sync(0xffffffffu, x[t], {argument}, {width});"
        for k, (argument, width) in enumerate(cases)
    )
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    launch(kernel(f"const {ctype}* x, {ctype}* out", body, before), [x, out], 1, 96)
    for row, (argument, width) in zip(out, cases, strict=True):
        wanted = x.reshape(3, 32)[:, source_lane(kind, argument, width)].ravel()
        np.testing.assert_array_equal(
            row.view(np.uint8), wanted.view(np.uint8), err_msg=str((argument, width))
        )


@pytest.mark.parametrize("block", [32, 33, 1000])
def test_votes(block):
    predicate = lanes("__ballot_sync(0xffffffffu, t % 3 == 0)", "unsigned", np.uint32, block)
    for warp in range(0, block, 32):
        members = np.arange(warp, min(warp + 32, block))
        wanted = int(sum(1 << int(t - warp) for t in members if t % 3 == 0))
        assert (predicate[members] == wanted).all()
    warps = np.arange(block) // 32
    np.testing.assert_array_equal(lanes("__all_sync(~0u, t / 32 != 0)", "int", np.int32, block), warps != 0)
    np.testing.assert_array_equal(lanes("__any_sync(~0u, t == 5)", "int", np.int32, block), warps == 0)


REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("ctype", ["int", "unsigned"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_warp_reductions(op, ctype):
    x = RNG.integers(-(2**31), 2**31, 64).astype(np.int32).view(np.int32 if ctype == "int" else np.uint32)
    out = np.zeros_like(x)
    body = f"int t = threadIdx.x; out[t] = __reduce_{op}_sync(0xffffffffu, x[t]);"
    run(f"const {ctype}* x, {ctype}* out", body, x, out, block=64)
    with np.errstate(over="ignore"):
        wanted = REDUCTIONS[op].reduce(x.reshape(2, 32), axis=1, dtype=x.dtype, keepdims=True)
    assert (out.reshape(2, 32) == wanted).all()


def test_matches():
    t = np.arange(32)
    same = lanes("__match_any_sync(~0u, t % 5)", "unsigned", np.uint32)
    np.testing.assert_array_equal(same, [int(np.sum(1 << t[t % 5 == v % 5])) for v in t])
    assert (lanes("__match_all_sync(~0u, 7.5, &p) + p", "unsigned", np.uint32, before="int p;") == 0).all()
    assert (lanes("__match_all_sync(~0u, t, &p) + p", "unsigned", np.uint32, before="int p;") == 0).all()
    assert (
        lanes("__match_all_sync(0xffffffffu, 3, &p)", "unsigned", np.uint32, before="int p;") == 2**32 - 1
    ).all()


def test_halves_of_a_warp_in_collectives_of_their_own():
    got = lanes(
        "v", "unsigned", np.uint32,
        before="""unsigned v;
        if (t < 16) { v = __ballot_sync(0xffffu, t % 2); v += __reduce_add_sync(0xffffu, 1u); }
        else v = __shfl_xor_sync(0xffff0000u, t, 1);
        __syncwarp();""",
    )  # fmt: skip
    assert (got[:16] == 0xAAAA + 16).all()
    np.testing.assert_array_equal(got[16:], np.arange(16, 32) ^ 1)


def test_lanes_that_have_returned_are_not_waited_for():
    got = lanes("__ballot_sync(0xffffffffu, 1)", "unsigned", np.uint32, 40, before="if (t % 4 == 1) return;")
    alive = np.arange(40) % 4 != 1
    assert (got[:32][alive[:32]] == 0xDDDDDDDD).all()
    assert (got[32:][alive[32:]] == 0xDD).all()


def test_lanes_returning_while_others_already_wait():
    got = lanes("__ballot_sync(0xffffffffu, 1)", "unsigned", np.uint32, before="if (t == 31) return;")
    assert (got[:31] == 0x7FFFFFFF).all()


def test_active_mask_is_the_lanes_of_the_branch():
    got = lanes(
        "v", "unsigned", np.uint32,
        before="""unsigned v = 0;
        if (t % 2) { unsigned m = __activemask(); v = __reduce_add_sync(m, (unsigned)t) + (m == 0xaaaaaaaau); }
        else if (t < 8) v = __activemask();
        __syncwarp();""",
    )  # fmt: skip
    assert (got[1::2] == sum(range(1, 32, 2)) + 1).all()
    assert (got[:8:2] == 0b1010101).all()


def test_nanosleep_lets_the_thread_that_is_waited_for_run():
    out = np.zeros(2, np.int32)
    body = """
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) { while (!ready) __nanosleep(20); out[0] = 1; }
    if (threadIdx.x == 1) { ready = 1; out[1] = 1; }"""
    run("int* out", body, out, block=2)
    assert out.tolist() == [1, 1]


# ---------------------------------------------------------------- atomics

ATOMIC_TYPES = {
    "int": np.int32,
    "unsigned int": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}


@pytest.mark.parametrize("ctype", [*ATOMIC_TYPES, "float", "double", "__half", "__nv_bfloat16"])
def test_atomic_add_from_many_blocks(ctype):
    dtype = {**ATOMIC_TYPES, **SHUFFLE_TYPES}[ctype]
    total = np.zeros(1, dtype)
    blocks = 1 if dtype == ml_dtypes.bfloat16 else 8 if dtype == np.float16 else 200
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    launch(kernel(f"{ctype}* total", f"atomicAdd(total, ({ctype})1.0f);", before), [total], blocks, 250)
    assert float(total[0]) == 250 * blocks


@pytest.mark.parametrize("ctype", ATOMIC_TYPES)
def test_integer_atomics(ctype):
    dtype = ATOMIC_TYPES[ctype]
    x = RNG.integers(0, 2**31, 64 * 64).astype(dtype)
    state = np.array([5, 2**31 - 1, 0, -1 if ctype in ("int", "long long") else ~dtype(0), 0, 0, 0], dtype)
    body = """
    x += blockIdx.x * 64 + threadIdx.x;
    atomicSub(s, 1); atomicMin(s + 1, *x); atomicMax(s + 2, *x); atomicAnd(s + 3, *x); atomicOr(s + 4, *x);
    atomicXor(s + 5, *x);
    using T = {ctype};
    using U = unsigned long long;  // whose sums wrap around
    T old = s[6], seen;
    do { seen = old; old = atomicCAS(s + 6, seen, (T)((U)seen + *x)); } while (old != seen);"""
    run(f"const {ctype}* x, {ctype}* s", body.replace("{ctype}", ctype), x, state, grid=64, block=64)
    with np.errstate(over="ignore"):
        wanted = [dtype(5) - dtype(4096), x.min(), x.max(), np.bitwise_and.reduce(x), np.bitwise_or.reduce(x)]
        wanted += [np.bitwise_xor.reduce(x), x.sum(dtype=dtype)]
    np.testing.assert_array_equal(state, np.array(wanted, dtype))


def test_exchange_hands_every_value_on_once():
    seen, slot = np.zeros(1001, np.int32), np.array([0], np.int32)
    run(
        "int* slot, int* seen",
        "atomicAdd(seen + atomicExch(slot, (int)(blockIdx.x + 1)), 1);",
        slot,
        seen,
        grid=1000,
    )
    seen[slot[0]] += 1
    assert (seen == 1).all()


def test_atomic_increment_and_decrement_wrap_around():
    state = np.array([0, 0], np.uint32)
    run("unsigned* s", "atomicInc(s, 6); atomicDec(s + 1, 6);", state, grid=10)
    assert state.tolist() == [10 % 7, 7 * 2 - 10]
