## queue: a push beyond the queue's end | grid=2 block=32 | k(64, 9), z(20, "int32"), z(1, "int32")
__global__ void planted(const int* x, int* queue, int* tail) {
    int v = x[blockIdx.x * 32 + threadIdx.x];
    if (v > 3) {
        int at = atomicAdd(tail, 1);
        ⟦if (at < 20)|||⟧
            queue[at] = v; //!
    }
}
## queue: a count in shared memory is read beside the pushes | grid=1 block=64 | k(64, 9), z(64, "int32"), z(1, "int32")
__global__ void planted(const int* x, int* out, int* count) {
    __shared__ int found, list[64];
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    if (x[threadIdx.x] % 2) list[atomicAdd(&found, 1)] = threadIdx.x; //!
    ⟦__syncthreads();|||⟧
    int n = found; //!
    for (int i = threadIdx.x; i < n; i += 64) out[i] = list[i]; //!
    if (threadIdx.x == 0) *count = n;
}
## queue: a flag without a fence tells of an item | grid=2 block=32 | f(32), z(32), z(32), z(1, "int32")
__global__ void planted(const float* x, float* item, float* y, volatile int* ready) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        item[t] = 2 * x[t]; //!
        ⟦__threadfence();|||⟧
        __syncthreads();
        if (t == 0) *ready = 1;
    } else {
        if (t == 0) while (*ready == 0) {}
        __syncthreads();
        ⟦__threadfence();|||⟧
        y[t] = item[t]; //!
    }
}
## queue: pushes of a warp whose base only the leader knows | grid=1 block=32 | k(32, 5), z(32, "int32"), z(1, "int32")
__global__ void planted(const int* x, int* out, int* tail) {
    int lane = threadIdx.x;
    bool has = x[lane] > 1;
    unsigned votes = __ballot_sync(0xffffffff, has);
    int leader = __ffs(votes) - 1, base⟦ = 0|||⟧; //!
    if (lane == leader) base = atomicAdd(tail, __popc(votes));
    ⟦base = __shfl_sync(0xffffffff, base, leader);|||⟧
    unsigned below = votes & (shl(1u, lane) - 1);
    if (has) out[base + __popc(below)] = x[lane]; //!
}
## queue: a ring is filled before its slots are read | grid=1 block=64 | f(256), z(256)
__global__ void planted(const float* x, float* y) {
    __shared__ float ring[2][32];
    int lane = threadIdx.x % 32;
    bool producer = threadIdx.x < 32;
    for (int i = 0; i < 8; ++i) {
        if (producer) ring[i % 2][lane] = x[i * 32 + lane]; //!
        __syncthreads();
        if (!producer) y[i * 32 + lane] = ring[⟦i % 2|||i % 2 ^ (i == 5)⟧][lane]; //!
    }
}
## queue: two levels of a search in one list | grid=1 block=32 | a(33) * 2, k(64, 32), z(32, "int32") - 1, z(32, "int32")
__global__ void planted(const int* start, const int* next, int* level, int* list) {
    __shared__ int head, tail;
    if (threadIdx.x == 0) { head = 0; tail = 1; list[0] = 0; level[0] = 0; }
    __syncthreads();
    for (int depth = 1; depth < 6; ++depth) {
        int begin = head, end = tail; //!
        ⟦__syncthreads();|||⟧
        for (int i = begin + threadIdx.x; i < end; i += 32)
            for (int e = start[list[i]]; e < start[list[i] + 1]; ++e)
                if (atomicCAS(&level[next[e]], -1, depth) == -1) list[atomicAdd(&tail, 1)] = next[e]; //!
        __syncthreads();
        if (threadIdx.x == 0) head = end; //!
        __syncthreads();
    }
}
## groups: a tile's barrier for the block's | grid=1 block=64 | f(64), z(64)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    s[block.thread_rank()] = x[block.thread_rank()]; //!
    ⟦block|||tile⟧.sync();
    y[block.thread_rank()] = s[63 - block.thread_rank()] + tile.meta_group_rank(); //!
}
## groups: a tile's sum where half of its threads are missing | grid=1 block=32 | f(32), z(4)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void planted(const float* x, float* y) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    float v = x[threadIdx.x];
    if (⟦tile.meta_group_rank() < 3|||tile.thread_rank() < 4⟧) {
        v = cg::reduce(tile, v, cg::plus<float>()); //!
        if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = v;
    }
}
## groups: the thread's rank for the tile's | grid=1 block=128 | f(128), z(1)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void planted(const float* x, float* y) {
    __shared__ float sums[8];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    float v = x[block.thread_rank()];
    for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) sums[⟦tile.meta_group_rank()|||block.thread_rank() / 8⟧] = v; //!
    block.sync();
    if (block.thread_rank() == 0) { for (int i = 0; i < 8; ++i) y[0] += sums[i]; } //!
}
## groups: a copy by all, without the wait | grid=1 block=64 | f(64), z(64)
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(16) float s[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(float) * 64); //!
    ⟦cg::wait(block);|||block.sync();⟧
    y[threadIdx.x] = s[63 - threadIdx.x]; //!
}
## groups: labelled partitions whose members all write | grid=1 block=32 | k(32, 4), f(32), z(4)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void planted(const int* keys, const float* x, float* y) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto mine = cg::labeled_partition(tile, keys[threadIdx.x]);
    float sum = cg::reduce(mine, x[threadIdx.x], cg::plus<float>());
    ⟦if (mine.thread_rank() == 0)|||⟧ y[keys[threadIdx.x]] = sum⟦|||+ mine.thread_rank()⟧; //!
}
## groups: the block's barrier in a branch by tiles | grid=1 block=64 | f(64), z(64)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    s[threadIdx.x] = x[threadIdx.x];
    if (warp.meta_group_rank() == 0) {
        ⟦warp|||block⟧.sync(); //!
        y[threadIdx.x] = s[31 - threadIdx.x];
    } else {
        ⟦warp|||block⟧.sync(); //!
        y[threadIdx.x] = s[95 - threadIdx.x];
    }
}
## cp.async: a wait that is not there | grid=1 block=32 | f(32), z(32)
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(16) float s[32];
    copy_async(&s[threadIdx.x], &x[threadIdx.x]); //!
    commit_copies();
    ⟦wait_copies<0>();|||⟧
    y[threadIdx.x] = s[threadIdx.x]; //!
}
## cp.async: one group too many is left on its way | grid=1 block=32 | f(128), z(128)
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ float s[2][32];
    int t = threadIdx.x;
    copy_async(&s[0][t], x + t); //!
    commit_copies();
    for (int i = 0; i < 4; ++i) {
        if (i < 3) copy_async(&s[(i + 1) % 2][t], x + (i + 1) * 32 + t); //!
        ⟦commit_copies();|||if (i < 3) commit_copies();⟧
        wait_copies<1>();
        y[i * 32 + t] = s[i % 2][t]; //!
    }
}
## cp.async: what others have copied, without a barrier | grid=1 block=64 | f(64), z(64)
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(16) float4 s[16];
    if (threadIdx.x < 16) copy_async(&s[threadIdx.x], (const float4*)x + threadIdx.x); //!
    commit_copies();
    wait_copies<0>();
    ⟦__syncthreads();|||__syncwarp();⟧
    y[threadIdx.x] = reinterpret_cast<float*>(s)[threadIdx.x]; //!
}
## cp.async: the next copy lands where neighbours still read | grid=1 block=64 | f(192), z(192)
#include <cuda_pipeline.h>
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; ++i) {
        __pipeline_memcpy_async(&s[t], x + i * 64 + t, sizeof(float)); //!
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        y[i * 64 + t] = s[(t + 1) % 64]; //!
        ⟦__syncthreads();|||⟧
    }
}
## cp.async: sixteen bytes from an address of four | grid=1 block=16 | f(68), z(64)
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(16) float4 s[16];
    copy_async(&s[threadIdx.x], reinterpret_cast<const float4*>(x + ⟦4|||2⟧) + threadIdx.x); //!
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += 16) y[i] = ((const float*)s)[i];
}
## cp.async: the last tile is copied whole | grid=2 block=32 | f(60), z(60), 60
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y, int n) {
    __shared__ float s[32];
    int i = blockIdx.x * 32 + threadIdx.x;
    ⟦copy_float_or_zero(&s[threadIdx.x], i < n ? x + i : x, i < n);|||copy_async(&s[threadIdx.x], x + i);⟧ //!
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    if (i < n) y[i] = s[31 - threadIdx.x];
}
## bulk copy: nobody waits | grid=1 block=32 | f(32), z(32)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ MBarrier bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expecting(&bar, 128);
        copy_bulk(s, x, 128, &bar); //!
    }
    ⟦mbarrier_wait(&bar, 0);|||if (threadIdx.x == 0) mbarrier_wait(&bar, 0);⟧
    y[threadIdx.x] = s[threadIdx.x]; //!
}
## bulk copy: the parity stays | grid=1 block=32 | f(96), z(96)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ MBarrier bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expecting(&bar, 128);
            copy_bulk(s, x + i * 32, 128, &bar); //!
        }
        mbarrier_wait(&bar, ⟦i % 2|||0⟧); //!
        y[i * 32 + threadIdx.x] = s[threadIdx.x]; //!
        __syncthreads();
    }
}
## bulk copy: more bytes are expected than come | grid=1 block=32 | f(32), z(32)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ MBarrier bar;
    if (threadIdx.x == 0) {
        mbarrier_init(&bar, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&bar, ⟦sizeof s|||sizeof s * 2⟧); //!
        copy_bulk(s, x, sizeof s, &bar); //!
    }
    __syncthreads();
    mbarrier_wait(&bar, 0); //!
    y[threadIdx.x] = s[threadIdx.x];
}
## bulk copy: a stage is taken before it was given back | grid=1 block=64 | f(256), z(256)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float ring[2][32];
    __shared__ MBarrier full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 32); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int i = 0; i < 8; ++i) {
                int s = i % 2;
                if (⟦i >= 2|||i > 2⟧) mbarrier_wait(&empty[s], (i / 2 + 1) % 2); //!
                mbarrier_arrive_expecting(&full[s], 128); //!
                copy_bulk(ring[s], x + i * 32, 128, &full[s]); //!
            }
    } else {
        for (int i = 0; i < 8; ++i) {
            int s = i % 2, lane = threadIdx.x - 32;
            mbarrier_wait(&full[s], i / 2 % 2);
            y[i * 32 + lane] = ring[s][lane]; //!
            mbarrier_arrive(&empty[s]);
        }
    }
}
## bulk copy: a store of what was not passed on | grid=1 block=32 | f(32), z(32)
<% include "prelude/bulk_copy.cuh" %>
<% include "prelude/async_proxy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    s[threadIdx.x] = 3 * x[threadIdx.x]; //!
    ⟦|||if (threadIdx.x < 16)⟧ fence_to_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_bulk(y, s, 128); //!
        commit_stores();
        wait_stores<0>();
    }
}
## bulk copy: shared memory is written while a store reads it | grid=1 block=32 | f(32), z(64)
<% include "prelude/bulk_copy.cuh" %>
<% include "prelude/async_proxy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    for (int i = 0; i < 2; ++i) {
        s[threadIdx.x] = (i + 1) * x[threadIdx.x]; //!
        fence_to_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            store_bulk(y + 32 * i, s, 128); //!
            commit_stores();
            ⟦wait_stores_read<0>();|||if (i == 1) wait_stores_read<0>();⟧
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) wait_stores<0>();
}
## bulk copy: more bytes than the tile has | grid=1 block=32 | f(64), z(64)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[⟦64|||60⟧];
    __shared__ MBarrier bar;
    if (threadIdx.x == 0) {
        mbarrier_init(&bar, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&bar, 256);
        copy_bulk(s, x, 256, &bar); //!
    }
    __syncthreads();
    mbarrier_wait(&bar, 0);
    for (int i = threadIdx.x; i < 60; i += 32) y[i] = s[i];
}
## warp: a full mask in half of a warp | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        v += __shfl_xor_sync(⟦0x0000ffff|||0xffffffff⟧, v, 8); //!
    __syncwarp();
    y[threadIdx.x] = v;
}
## warp: lanes leave a loop whose mask was made before it | grid=1 block=32 | k(32, 6), z(32, "int32")
__global__ void planted(const int* x, int* y) {
    int left = x[threadIdx.x] + 1, sum = 0;
    unsigned mask = __ballot_sync(0xffffffff, left > 0);
    while (left > 0) {
        sum += __popc(__ballot_sync(mask, left > 2)); //!
        --left;
        ⟦mask = __ballot_sync(mask, left > 0);|||⟧
    }
    y[threadIdx.x] = __shfl_xor_sync(0xffffffff, sum, 1); //!
}
## warp: a value from a lane outside of the mask | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x >= 8) v = __shfl_sync(0xffffff00, v, ⟦8|||0⟧); //!
    y[threadIdx.x] = v;
}
## warp: two branches vote with one mask | grid=1 block=32 | k(32, 5), z(32, "int32")
__global__ void planted(const int* x, int* y) {
    int v = x[threadIdx.x], n;
    ⟦unsigned mask = __ballot_sync(0xffffffff, v < 3);|||unsigned mask = 0xffffffff;⟧
    if (v < 3) n = __popc(__ballot_sync(mask, v == 1)); //!
    else n = __shfl_sync(⟦~mask|||mask⟧, v, threadIdx.x); //!
    y[threadIdx.x] = n;
}
## warp: a mask of who happens to be here | grid=1 block=32 | k(32, 8), z(8, "int32"), z(32, "int32")
__global__ void planted(const int* x, int* bins, int* y) {
    int v = x[threadIdx.x], sum = 0;
    for (int i = 0; i < v; ++i) sum += i;
    if (v % 2) sum += 5; else atomicAdd(&bins[v], 1);
    unsigned here = ⟦0xffffffff|||__activemask()⟧; //!
    y[threadIdx.x] = sum + __popc(__ballot_sync(here, v > 3)); //!
}
## warp: a leader of those who happen to be here counts for all | grid=1 block=64 | k(64, 8), z(1, "int32"), z(64, "int32")
__global__ void planted(const int* x, int* count, int* slot) {
    int v = x[threadIdx.x];
    ⟦unsigned lanes = __ballot_sync(0xffffffff, v > 2);|||⟧
    if (v > 2) {
        for (int i = 0; i < v; ++i) if (x[i] == 77) return;
        ⟦|||unsigned lanes = __activemask();⟧ //!
        int leader = __ffs(lanes) - 1, lane = threadIdx.x & 31;
        if (lane == leader) atomicAdd(count, __popc(lanes));
        slot[threadIdx.x] = leader; //!
    }
}
## warp: match in a tail that has left | grid=1 block=32 | k(27, 4), z(27, "int32"), 27
__global__ void planted(const int* x, int* y, int n) {
    int i = threadIdx.x;
    ⟦unsigned in = __ballot_sync(0xffffffff, i < n);|||unsigned in = 0xffffffff;⟧
    if (i < n) {
        unsigned same = __match_any_sync(in, x[i]); //!
        y[i] = __popc(same);
    }
    __syncwarp(); //!
}
## warp: who calls is not in the mask | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = x[lane];
    __syncwarp();
    if (lane < ⟦8|||9⟧) {
        float v = s[lane] + s[lane ^ 1];
        __syncwarp(0xff); //!
        s[lane] = v;
    }
    __syncwarp();
    y[lane] = s[lane];
}
## warp: neighbours exchange through shared memory, in step | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x]; //!
    ⟦__syncwarp();|||⟧
    y[threadIdx.x] = s[threadIdx.x ^ 1]; //!
}
## warp: a shuffle's step leaves the part of a width | grid=1 block=32 | k(32, 9), z(32, "int32")
__global__ void planted(const int* x, int* y) {
    int v = x[threadIdx.x];
    if (threadIdx.x < 24)
        v = __shfl_sync(0x00ffffff, v, threadIdx.x + ⟦0|||8⟧); //!
    y[threadIdx.x] = v;
}
## lock: the release has no fence | grid=3 block=32 | z(1, "int32"), z(1)
__global__ void planted(int* lock, float* sum) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *sum = *sum + blockIdx.x; //!
        ⟦__threadfence();|||⟧
        atomicExch(lock, 0);
    }
}
## lock: the sum is read when the lock is free again | grid=3 block=1 | z(1, "int32"), z(1), z(3)
__global__ void planted(int* lock, float* sum, float* seen) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *sum += blockIdx.x + 1; //!
    ⟦seen[blockIdx.x] = *sum;|||⟧
    __threadfence();
    atomicExch(lock, 0);
    ⟦|||seen[blockIdx.x] = *sum;⟧ //!
}
## lock: each bin has one, and its neighbour is changed | grid=2 block=32 | z(8, "int32"), z(9), k(64, 8)
__global__ void planted(int* locks, float* bins, const int* x) {
    int b = x[blockIdx.x * 32 + threadIdx.x];
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[b], 0, 1) == 0) {
            __threadfence();
            bins[b] += 1; //!
            ⟦|||bins[b + 1] += 1;⟧ //!
            __threadfence();
            atomicExch(&locks[b], 0);
            done = true;
        }
    }
}
## lock: who does not get it goes on all the same | grid=4 block=1 | z(1, "int32"), z(4)
__global__ void planted(int* lock, float* log) {
    int got = atomicCAS(lock, 0, blockIdx.x + 1);
    if (⟦got == 0|||got >= 0⟧) log[0] = 10 + blockIdx.x; //!
    log[⟦3|||3⟧] = 1;
}
## atomics: one branch adds by a plain operation | grid=2 block=32 | k(64, 4), z(4)
__global__ void planted(const int* x, float* sums) {
    int v = x[blockIdx.x * 32 + threadIdx.x];
    if (v == 3 && threadIdx.x ⟦< 32|||> 16⟧) atomicAdd(&sums[v], 0.5f); //!
    else ⟦atomicAdd(&sums[v], 1.0f)|||sums[v] += 1.0f⟧; //!
}
## atomics: the least of all is used by each at once | grid=2 block=32 | 70 - a(64), z(1, "int32") + 99, z(64, "int32")
__global__ void planted(const int* x, int* least, int* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    atomicMin(least, x[i]); //!
    __syncthreads();
    y[i] = x[i] - ⟦x[0]|||*least⟧; //!
}
## atomics: a table's key is there before its value | grid=2 block=32 | k(32, 64), z(64, "int32") - 1, z(64), z(32)
__global__ void planted(const int* keys, int* table, float* values, float* y) {
    int t = threadIdx.x, key = keys[t], at = key % 64;
    if (blockIdx.x == 0) {
        values[at] = key * 0.5f; //!
        ⟦__threadfence();|||⟧
        atomicExch(&table[at], key);
    } else if (atomicAdd(&table[at], 0) == key) {
        ⟦__threadfence();|||⟧
        y[t] = values[at]; //!
    }
}
## last block: no fence before the count | grid=4 block=32 | f(128), z(4), z(1, "uint32"), z(1)
__global__ void planted(const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v; //!
        ⟦__threadfence();|||⟧
        last = atomicAdd(count, 1u) + 1 == gridDim.x;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += part[b]; //!
        *y = sum;
    }
}
## last block: the one with the highest number | grid=4 block=32 | f(128), z(4), z(1, "uint32"), z(1)
__global__ void planted(const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v; //!
        __threadfence();
        unsigned ticket = atomicAdd(count, 1u);
        last = ⟦ticket == gridDim.x - 1|||blockIdx.x == gridDim.x - 1⟧;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += part[b]; //!
        *y = sum;
    }
}
## last block: all threads write, one fences | grid=3 block=64 | f(192), z(192), z(1, "uint32"), z(64)
__device__ unsigned finished = 0;
__global__ void planted(const float* x, float* part, unsigned* unused, float* y) {
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = 2 * x[blockIdx.x * 64 + t]; //!
    ⟦__threadfence();
    __syncthreads();|||⟧
    if (t == 0) {
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) y[t] = part[t] + part[64 + t] + part[128 + t]; //!
}
## last block: the flag is read before it is set | grid=3 block=64 | f(192), z(3), z(1, "uint32"), z(1)
__global__ void planted(const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        __threadfence();
        last = atomicAdd(count, 1) == 2; //!
    }
    ⟦__syncthreads();|||⟧
    if (last) { //!
        if (threadIdx.x == 63) *y = __ldcg(&part[0]) + __ldcg(&part[1]) + __ldcg(&part[2]);
    }
}
## indexing: planes beyond the last | grid=(1, 1, 3) block=(4, 4, 2) | f(80), z(80), 5
__global__ void planted(const float* x, float* y, int depth) {
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int i = (z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ⟦if (z >= depth) return;|||⟧
    y[i] = x[i] + 1; //!
}
## indexing: a row's pitch for its width | grid=1 block=(8, 8) | f(80), z(72)
__global__ void planted(const float* x, float* y) {
    const int width = 9, pitch = 10, rows = 8;
    for (int c = threadIdx.x; c < width; c += 8) {
        float* row = y + threadIdx.y * ⟦width|||pitch⟧;
        row[c] = x[threadIdx.y * pitch + c]; //!
    }
}
## indexing: a flat number of a thread that forgets z | grid=1 block=(4, 4, 4) | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    int flat = threadIdx.y * blockDim.x + threadIdx.x⟦ + threadIdx.z * blockDim.x * blockDim.y|||⟧;
    int real = (threadIdx.z * 4 + threadIdx.y) * 4 + threadIdx.x;
    y[flat] = x[real] * 3; //!
}
## indexing: channels last, taken for channels first | grid=3 block=(5, 4) | f(60), z(60)
__global__ void planted(const float* x, float* y) {
    const int W = 5, H = 4, C = 3;
    int w = threadIdx.x, h = threadIdx.y, c = blockIdx.x;
    y[(c * H + h) * W + w] = x[⟦(h * W + w) * C + c|||(c * W + w) * H * C / 2 + h⟧]; //!
}
## indexing: an offset of a batch beyond 32 bits | grid=1 block=32 | f(32), z(32), 70000
__global__ void planted(const float* x, float* y, int rows) {
    int batch = 40000 + threadIdx.x;
    ⟦long long|||int⟧ offset = ⟦(long long)|||⟧batch * rows; //!
    y[threadIdx.x] = offset > 0 ? x[threadIdx.x] : 0;
}
## persistent: the next tile's number is fetched over the one in use | grid=2 block=64 | f(512), z(512), z(1, "int32")
__global__ void planted(const float* x, float* y, int* next) {
    __shared__ int tile;
    while (true) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1); //!
        __syncthreads();
        int mine = tile; //!
        ⟦__syncthreads();|||⟧
        if (mine >= 8) break;
        y[mine * 64 + threadIdx.x] = 2 * x[mine * 64 + threadIdx.x];
    }
}
## persistent: each thread leaves the loop by itself | grid=1 block=64 | f(150), z(150), 150
__global__ void planted(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int base = 0; ⟦base < n|||base + t < n⟧; base += 64) {
        if (base + t < n) s[t] = x[base + t]; //!
        __syncthreads(); //!
        int last = min(64, n - base) - 1;
        if (base + t < n) y[base + t] = s[last - t]; //!
        __syncthreads(); //!
    }
    ⟦|||s[t] = 0;
    __syncthreads();⟧ //!
}
## persistent: a stride of the block where the grid's is meant | grid=3 block=32 | f(96), f(96)
__global__ void planted(const float* x, float* y) {
    int stride = ⟦gridDim.x * blockDim.x|||blockDim.x⟧;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 96; i += stride)
        y[i] += x[i]; //!
}
## persistent: the total is written by each of the blocks | grid=2 block=32 | f(64), z(1)
__global__ void planted(const float* x, float* y) {
    float sum = 0;
    for (int i = ⟦threadIdx.x|||blockIdx.x * 32 + threadIdx.x⟧; i < 64; i += ⟦32|||64⟧) sum += x[i];
    sum += __shfl_xor_sync(~0u, sum, 16);
    sum += __shfl_xor_sync(~0u, sum, 8);
    sum += __shfl_xor_sync(~0u, sum, 4);
    sum += __shfl_xor_sync(~0u, sum, 2);
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (threadIdx.x == 0) y[0] = sum; //!
}
