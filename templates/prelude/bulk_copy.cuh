// Copies of contiguous bytes between global and shared memory that run beside the threads (sm_90 and up). Addresses and sizes
// are multiples of 16 bytes. What threads wrote to shared memory is stored after fence_to_async and a barrier.
// Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk.
#ifndef CUKERN_BULK_COPY
#define CUKERN_BULK_COPY
<% include "prelude/mbarrier.cuh" %>
<% include "prelude/async_proxy.cuh" %>
#ifdef __CUDACC__

// To shared memory, by one thread. The barrier's phase that waits for them has to expect the bytes.
__device__ __forceinline__ void copy_bulk(void* to, const void* from, unsigned bytes, MBarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
// The same, to this address in each block of the cluster whose number's bit is set in `blocks`; each block's own barrier counts
// its bytes.
__device__ __forceinline__ void copy_bulk_multicast(void* to, const void* from, unsigned bytes, MBarrier* barrier, unsigned blocks) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"((unsigned)__cvta_generic_to_shared(barrier)), "h"((unsigned short)blocks) : "memory");
}
// From shared memory, by one thread, which then ends a group and waits for it.
__device__ __forceinline__ void store_bulk(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes) : "memory");
}
// The same, added to what is there, each float by itself.
__device__ __forceinline__ void add_bulk(float* to, const float* from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but the last LEFT groups have read shared memory, which may then be written again.
template <int LEFT>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}
// Waits until what all but the last LEFT groups store can be read by this thread.
template <int LEFT>
__device__ __forceinline__ void wait_stores() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory");
}

#else

namespace cukern {
inline void require_chunks(const void* to, const void* from, unsigned bytes, const char* file, int line) {
    if (((unsigned long long)to | (unsigned long long)from | bytes) % 16)
        fault("an address or the size of a bulk copy is no multiple of 16 bytes", file, line);
}
inline void require_shared(const void* to, unsigned long long bytes, const char* file, int line) {
    if (!runtime->is_shared(to, bytes)) fault("what is copied goes beyond the block's shared memory", file, line);
}
inline void copy_bytes(const Operation* own) { __builtin_memcpy((void*)own->words[0], own->source, own->words[1]); }
inline void copy_counted(const Operation* own) {
    copy_bytes(own);
    runtime->wrote_async((void*)own->words[0], own->words[1]);
    count_bytes((MBarrier*)own->words[2], (unsigned)own->words[1]);
}
__forceinline__ inline void send_bulk(
    const char* name, void* to, const void* from, unsigned bytes, MBarrier* barrier, const char* file, int line,
    bool is_multicast = false) {
    require_chunks(to, from, bytes, file, line);
    require_counting(barrier, file, line);
    spoil(to, bytes);  // until it has come, anything may be there
    runtime->wrote_async(to, bytes);
    if (is_multicast) show_phase(barrier);  // to those who wait until it has come
    Operation own{counted_copies, 0, 0, from, copy_counted, name, file, line,
                  {(unsigned long long)to, bytes, (unsigned long long)barrier}, false, bytes, barrier};
    runtime->send(&own);
}
inline void add_floats(const Operation* own) {
    for (unsigned long long i = 0; i < own->words[1] / sizeof(float); ++i)
        atomicAdd((float*)own->words[0] + i, ((const float*)own->source)[i]);
}
inline void send_store(const char* name, void* to, const void* from, unsigned bytes, void (*run)(const Operation*),
                       const char* file, int line) {
    require_chunks(to, from, bytes, file, line);
    runtime->reads_async(from, bytes, file, line);
    Operation own{store_groups, 0, bytes, from, run, name, file, line, {(unsigned long long)to, bytes}, false, bytes};
    runtime->send(&own);
}
}  // namespace cukern

__forceinline__ inline void copy_bulk(void* to, const void* from, unsigned bytes, MBarrier* barrier, CUKERN_HERE) {
    cukern::require_shared(to, bytes, file, line);
    cukern::require_own(barrier, file, line);
    cukern::send_bulk("copy_bulk", to, from, bytes, barrier, file, line);
}
__forceinline__ inline void copy_bulk_multicast(
    void* to, const void* from, unsigned bytes, MBarrier* barrier, unsigned blocks, CUKERN_HERE) {
    cukern::require_shared(to, bytes, file, line);
    cukern::require_own(barrier, file, line);
    if (!blocks || blocks >> 16) cukern::fault("copy_bulk_multicast: the blocks are no 16 bits, some of them set", file, line);
    const auto in_block = [&](void* own, unsigned rank) { return cukern::runtime->map_shared(own, rank, file, line); };
    for (unsigned rank = 0; rank < 16; ++rank) {
        if (!(blocks >> rank & 1)) continue;
        MBarrier* const counts = (MBarrier*)in_block(barrier, rank);
        cukern::send_bulk("copy_bulk_multicast", in_block(to, rank), from, bytes, counts, file, line, true);
    }
}
inline void store_bulk(void* to, const void* from, unsigned bytes, CUKERN_HERE) {
    cukern::send_store("store_bulk", to, from, bytes, cukern::copy_bytes, file, line);
}
inline void add_bulk(float* to, const float* from, unsigned bytes, CUKERN_HERE) {
    cukern::send_store("add_bulk", to, from, bytes, cukern::add_floats, file, line);
}
inline void commit_stores() { cukern::runtime->commit(cukern::store_groups); }
template <int LEFT>
inline void wait_stores_read() {
    cukern::runtime->finish(cukern::store_groups, LEFT, true);
}
template <int LEFT>
inline void wait_stores() {
    cukern::runtime->finish(cukern::store_groups, LEFT, false);
}

#endif
#endif  // CUKERN_BULK_COPY
