// What threads of one block of a cluster do to mbarriers and shared memory of another (sm_90 and up). The other block is given
// by its rank, and what lies in it by the address of the same thing in the thread's own block. Threads wait at mbarriers of
// their own block alone.
// Source: PTX ISA, mbarrier, st.async.
#ifndef CUKERN_CLUSTER_MBARRIER
#define CUKERN_CLUSTER_MBARRIER
<% include "prelude/cluster.cuh" %>
<% include "prelude/mbarrier.cuh" %>
#ifdef __CUDACC__

__device__ __forceinline__ unsigned cukern_shared_of_rank(const void* own, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(rank));
    return there;
}
// What this thread did before is seen by those who wait for this phase by mbarrier_wait_cluster.
__device__ __forceinline__ void mbarrier_arrive_at(MBarrier* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(cukern_shared_of_rank(barrier, rank)) : "memory");
}
// The same where nothing that it did need be seen: what it has read of shared memory may be overwritten by copies beside the
// threads. Those who wait for that need mbarrier_wait alone, which costs less.
__device__ __forceinline__ void mbarrier_free_at(MBarrier* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cukern_shared_of_rank(barrier, rank)) : "memory");
}
// The same, and so many bytes more are expected in this phase.
__device__ __forceinline__ void mbarrier_arrive_expecting_at(MBarrier* barrier, unsigned bytes, unsigned rank) {
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;"
                 ::"r"(cukern_shared_of_rank(barrier, rank)), "r"(bytes) : "memory");
}
// Waits until the phase of this parity is complete, and sees what threads of other blocks did before they arrived.
__device__ __forceinline__ void mbarrier_wait_cluster(MBarrier* barrier, unsigned parity) {
    unsigned complete;
    do {
        asm volatile("{ .reg .pred complete; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2; "
                     "selp.u32 %0, 1, 0, complete; }"
                     : "=r"(complete) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
    } while (!complete);
}
// Stores a value of 4, 8 or 16 bytes beside the thread; the barrier, in the same block as `to`, counts its bytes.
template <typename T>
__device__ __forceinline__ void store_async(T* to, const T& value, MBarrier* barrier, unsigned rank) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "store_async: a value of 4, 8 or 16 bytes");
    union {
        T value;
        unsigned word[sizeof(T) / 4];
    } own;
    own.value = value;
    const unsigned at = cukern_shared_of_rank(to, rank), counts = cukern_shared_of_rank(barrier, rank);
    if constexpr (sizeof(T) == 4)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                     ::"r"(at), "r"(own.word[0]), "r"(counts) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                     ::"r"(at), "r"(own.word[0]), "r"(own.word[1]), "r"(counts) : "memory");
    else
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                     ::"r"(at), "r"(own.word[0]), "r"(own.word[1]), "r"(own.word[2]), "r"(own.word[3]), "r"(counts)
                     : "memory");
}

#else

namespace cukern {
inline void store_value(const Operation* own) {
    __builtin_memcpy((void*)own->words[0], &own->words[3], own->words[1]);
    count_bytes((MBarrier*)own->words[2], (unsigned)own->words[1]);
}
}  // namespace cukern

inline void mbarrier_arrive_at(MBarrier* barrier, unsigned rank, CUKERN_HERE) {
    cukern::arrive(map_shared_rank(barrier, rank, file, line), 0, file, line);
}
inline void mbarrier_free_at(MBarrier* barrier, unsigned rank, CUKERN_HERE) {
    cukern::arrive(map_shared_rank(barrier, rank, file, line), 0, file, line);
}
inline void mbarrier_arrive_expecting_at(MBarrier* barrier, unsigned bytes, unsigned rank, CUKERN_HERE) {
    cukern::arrive(map_shared_rank(barrier, rank, file, line), bytes, file, line);
}
inline void mbarrier_wait_cluster(MBarrier* barrier, unsigned parity, CUKERN_HERE) {
    cukern::wait_for_phase("mbarrier_wait_cluster", barrier, parity, file, line);
    cukern::see_phase(barrier, parity);
}
template <typename T>
__forceinline__ inline void store_async(T* to, const T& value, MBarrier* barrier, unsigned rank, CUKERN_HERE) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "store_async: a value of 4, 8 or 16 bytes");
    T* const there = map_shared_rank(to, rank, file, line);
    MBarrier* const counts = map_shared_rank(barrier, rank, file, line);
    cukern::require_counting(counts, file, line);
    if ((unsigned long long)there % sizeof(T)) cukern::fault("the address of store_async is not aligned to its value", file, line);
    cukern::Operation own{cukern::counted_copies, 0, 0, nullptr, cukern::store_value, "store_async", file, line,
                          {(unsigned long long)there, sizeof(T), (unsigned long long)counts}, false, sizeof(T), counts};
    __builtin_memcpy(&own.words[3], &value, sizeof(T));
    cukern::spoil((void*)there, sizeof(T));  // until it has come, anything may be there
    cukern::show_phase(counts);  // to those who wait until it has come
    cukern::runtime->send(&own);
}

#endif
#endif  // CUKERN_CLUSTER_MBARRIER
