// cuda::device and cuda::ptx: arrivals at a cuda::barrier that expect bytes, and copies that it counts.
#pragma once
#include <cuda/barrier>

namespace cuda::device {
using Barrier = barrier<thread_scope_block>;
inline cukern::MBarrier* words_of(Barrier& own) { return (cukern::MBarrier*)barrier_native_handle(own); }

inline void barrier_expect_tx(Barrier& own, long long bytes, CUKERN_HERE) {
    cukern::expect_bytes(words_of(own), (unsigned)bytes, file, line);
}
inline Barrier::arrival_token barrier_arrive_tx(Barrier& own, long long count, long long bytes, CUKERN_HERE) {
    barrier_expect_tx(own, bytes, file, line);
    return own.arrive(count, file, line);
}

namespace experimental {
inline void fence_proxy_async_shared_cta() { cukern::runtime->fence_to_async(); }
inline void cp_async_bulk_global_to_shared(void* to, const void* from, unsigned bytes, Barrier& counts, CUKERN_HERE) {
    copy_bulk(to, from, bytes, words_of(counts), file, line);
}
inline void cp_async_bulk_shared_to_global(void* to, const void* from, unsigned bytes, CUKERN_HERE) {
    store_bulk(to, from, bytes, file, line);
}
inline void cp_async_bulk_commit_group() { commit_stores(); }
template <int left>
inline void cp_async_bulk_wait_group_read() {
    wait_stores_read<left>();
}
// Places innermost axis first.
#define CUKERN_TENSOR(rank, places, ...)                                                                       \
    inline void cp_async_bulk_tensor_##rank##_global_to_shared(                                                \
        void* to, const void* map, CUKERN_PLACES places, Barrier& counts, CUKERN_HERE) {                       \
        cukern::copy_tile_at({file, line}, to, words_of(counts), 0, map, __VA_ARGS__);                         \
    }                                                                                                          \
    inline void cp_async_bulk_tensor_##rank##_shared_to_global(                                                \
        const void* map, CUKERN_PLACES places, const void* from, CUKERN_HERE) {                                \
        cukern::store_tile_at({file, line}, from, map, __VA_ARGS__);                                           \
    }
#define CUKERN_PLACES(...) __VA_ARGS__
CUKERN_TENSOR(1d, (int a), a)
CUKERN_TENSOR(2d, (int a, int b), a, b)
CUKERN_TENSOR(3d, (int a, int b, int c), a, b, c)
CUKERN_TENSOR(4d, (int a, int b, int c, int d), a, b, c, d)
CUKERN_TENSOR(5d, (int a, int b, int c, int d, int e), a, b, c, d, e)
#undef CUKERN_PLACES
#undef CUKERN_TENSOR
}  // namespace experimental
}  // namespace cuda::device

namespace cuda::ptx {
constexpr struct space_global_t {} space_global;
constexpr struct space_shared_t {} space_shared;
constexpr struct space_cluster_t {} space_cluster;
template <int n>
struct n32_t {};

inline void fence_proxy_async(space_shared_t) { cukern::runtime->fence_to_async(); }
template <class Shared>
inline void cp_async_bulk(
    Shared, space_global_t, void* to, const void* from, unsigned bytes, unsigned long long* counts, CUKERN_HERE) {
    copy_bulk(to, from, bytes, (MBarrier*)counts, file, line);
}
inline void cp_async_bulk(space_global_t, space_shared_t, void* to, const void* from, unsigned bytes, CUKERN_HERE) {
    store_bulk(to, from, bytes, file, line);
}
template <int rank>
struct Reversed {
    int at[rank];
    explicit Reversed(const int (&innermost_first)[rank]) {
        for (int i = 0; i < rank; ++i) at[i] = innermost_first[rank - 1 - i];
    }
};
template <class Shared, int rank>
inline void cp_async_bulk_tensor(
    Shared, space_global_t, void* to, const void* map, const int (&at)[rank], unsigned long long* counts, CUKERN_HERE) {
    copy_tile(to, *(const TensorMap*)map, Reversed<rank>(at).at, (MBarrier*)counts, file, line);
}
template <int rank>
inline void cp_async_bulk_tensor(
    space_global_t, space_shared_t, const void* map, const int (&at)[rank], const void* from, CUKERN_HERE) {
    store_tile(*(const TensorMap*)map, Reversed<rank>(at).at, from, file, line);
}
inline void cp_async_bulk_commit_group() { commit_stores(); }
template <int left>
inline void cp_async_bulk_wait_group(n32_t<left>) {
    wait_stores<left>();
}
template <int left>
inline void cp_async_bulk_wait_group_read(n32_t<left>) {
    wait_stores_read<left>();
}
}  // namespace cuda::ptx
