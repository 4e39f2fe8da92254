// Copies of tiles between arrays in global memory and shared memory, which run beside the threads (sm_90 and up). One thread
// asks for them. A tile's place in the array is given outermost axis first. A tile lies in shared memory row after row, at an
// address that is a multiple of 128 bytes; if its map has a swizzle, at a multiple of eight rows: chunk c of 16 bytes of a row
// then lies at c ^ r, where r are as many bits as c has, of its address from bit 7 on. A tile begins a multiple of 16 bytes from
// the array's first element along the innermost axis, and along the others anywhere; only what is copied from an array may
// begin before its first element. Elsewhere a GPU meets an illegal instruction.
// Source: PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, shared memory layouts.
#ifndef CUKERN_TENSOR_MAP
#define CUKERN_TENSOR_MAP
<% include "prelude/bulk_copy.cuh" %>

// Made by cukern.TensorMap. A kernel takes it as `const __grid_constant__ TensorMap map`.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

#ifdef __CUDACC__

// Fetches the map, so that the first copy by it need not wait for that.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// The eviction priority in the L2 of the lines that a copy reads: after others (`evict_last`), or as without a policy.
struct CachePolicy {
    unsigned long long word;
};
__device__ __forceinline__ CachePolicy evict_last() {
    CachePolicy result;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(result.word));
    return result;
}
__device__ __forceinline__ CachePolicy evict_normal() {
    CachePolicy result;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(result.word));
    return result;
}

// `instruction` with what follows it as operand %3, a copy's policy or a number that is not used, and the coordinates, innermost
// first, from %4 on.
#define CUKERN_BY_RANK(instruction, ...)                                                                         \
    static_assert(RANK >= 1 && RANK <= 5, "a tile has 1 to 5 axes");                                             \
    if constexpr (RANK == 1) instruction("1d", "%4", __VA_ARGS__, "r"(at[0]));                                   \
    else if constexpr (RANK == 2) instruction("2d", "%4, %5", __VA_ARGS__, "r"(at[1]), "r"(at[0]));              \
    else if constexpr (RANK == 3)                                                                                \
        instruction("3d", "%4, %5, %6", __VA_ARGS__, "r"(at[2]), "r"(at[1]), "r"(at[0]));                        \
    else if constexpr (RANK == 4)                                                                                \
        instruction("4d", "%4, %5, %6, %7", __VA_ARGS__, "r"(at[3]), "r"(at[2]), "r"(at[1]), "r"(at[0]));        \
    else                                                                                                         \
        instruction("5d", "%4, %5, %6, %7, %8", __VA_ARGS__, "r"(at[4]), "r"(at[3]), "r"(at[2]), "r"(at[1]), "r"(at[0]))

// To shared memory; what is out of the array's bounds is zeros. The barrier's phase that waits for it has to expect the bytes
// of the whole tile, those out of bounds included.
#define CUKERN_COPY_TILE(rank, coordinates, hint, policy, ...)                                                   \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" hint   \
                 " [%0], [%1, {" coordinates "}], [%2]" policy                                                   \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(&map),                                       \
                 "r"((unsigned)__cvta_generic_to_shared(barrier)), __VA_ARGS__ : "memory")
template <int RANK>
__device__ __forceinline__ void copy_tile(void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier) {
    CUKERN_BY_RANK(CUKERN_COPY_TILE, "", "; // %3", "n"(0));
}
template <int RANK>
__device__ __forceinline__ void copy_tile(
    void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, CachePolicy policy) {
    CUKERN_BY_RANK(CUKERN_COPY_TILE, ".L2::cache_hint", ", %3;", "l"(policy.word));
}
#undef CUKERN_COPY_TILE
// The same to each of the blocks of the cluster whose bit in `blocks` is set, bit r for rank r: to the same place of its
// shared memory as `to` is in one's own, with the bytes counted by its barrier at the place of `barrier`.
#define CUKERN_COPY_TILE(rank, coordinates, hint, policy, ...)                                                   \
    asm volatile("{ .reg .b32 barrier, high; .reg .b16 blocks, none; mov.b64 {barrier, high}, %2; "              \
                 "mov.b32 {blocks, none}, high; "                                                                \
                 "cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"        \
                 ".multicast::cluster" hint " [%0], [%1, {" coordinates "}], [barrier], blocks" policy           \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(&map),                                       \
                 "l"((unsigned)__cvta_generic_to_shared(barrier) | shl((unsigned long long)blocks, 32)),         \
                 __VA_ARGS__ : "memory")
template <int RANK>
__device__ __forceinline__ void copy_tile_multicast(
    void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, unsigned blocks) {
    CUKERN_BY_RANK(CUKERN_COPY_TILE, "", "; } // %3", "n"(0));
}
template <int RANK>
__device__ __forceinline__ void copy_tile_multicast(
    void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, unsigned blocks, CachePolicy policy) {
    CUKERN_BY_RANK(CUKERN_COPY_TILE, ".L2::cache_hint", ", %3; }", "l"(policy.word));
}
#undef CUKERN_COPY_TILE
// From shared memory, but for what is out of bounds; the thread then ends a group and waits for it, as after store_bulk.
#define CUKERN_STORE_TILE(rank, coordinates, ...)                                                                \
    asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%0, {" coordinates "}], [%1]; // %2 %3" \
                 ::"l"(&map), "r"((unsigned)__cvta_generic_to_shared(from)), "n"(0), __VA_ARGS__ : "memory")
template <int RANK>
__device__ __forceinline__ void store_tile(const TensorMap& map, const int (&at)[RANK], const void* from) {
    CUKERN_BY_RANK(CUKERN_STORE_TILE, "n"(0));
}
#undef CUKERN_STORE_TILE
// The same, added to what is there, each element by itself. T, the array's type: float, int, unsigned, unsigned long long.
#define CUKERN_ADD_TILE(rank, coordinates, ...)                                                                  \
    asm volatile("cp.reduce.async.bulk.tensor." rank ".global.shared::cta.add.tile.bulk_group "                  \
                 "[%0, {" coordinates "}], [%1]; // %2 %3"                                                       \
                 ::"l"(&map), "r"((unsigned)__cvta_generic_to_shared(from)), "n"(0), __VA_ARGS__ : "memory")
template <typename T, int RANK>
__device__ __forceinline__ void add_tile(const TensorMap& map, const int (&at)[RANK], const T* from) {
    CUKERN_BY_RANK(CUKERN_ADD_TILE, "n"(0));
}
#undef CUKERN_ADD_TILE
#undef CUKERN_BY_RANK

#else

namespace cukern {
constexpr unsigned long long tensor_map_mark = 0x70616D726F736E65ull;  // as in tensor_map.py of the host

// A tile of an array as its map describes them, innermost axis first.
struct Tile {
    char* first;
    int axes, itemsize, swizzle;
    long long size[5], stride[5], box[5], at[5];

    Tile(const unsigned long long* words, const unsigned long long* place) {
        first = (char*)words[1];
        axes = words[2] & 0xff, itemsize = words[2] >> 8 & 0xff, swizzle = words[2] >> 16 & 0xffff;
        for (int i = 0; i < 5; ++i) {
            const bool there = i < axes;
            size[i] = there ? words[3 + i] : 1, stride[i] = there ? words[8 + i] : 0;
            box[i] = there ? words[13] >> 12 * i & 0xfff : 1, at[i] = there ? (long long)place[i] : 0;
        }
    }
    long long bytes() const { return box[0] * box[1] * box[2] * box[3] * box[4] * itemsize; }

    // For each 16 bytes of a row, their address in the array, how many of them are in its bounds, the first ones, and their
    // place in shared memory from `shared` on.
    template <class Function>
    void each(unsigned long long shared, Function function) const {
        const unsigned long long chunks = swizzle ? swizzle - 16 : 0, end = shared + bytes();
        for (unsigned long long plain = shared; plain < end; plain += 16) {
            long long rest = (plain - shared) / itemsize, inside = 16 / itemsize;
            char* element = first;
            for (int axis = 0; axis < axes; ++axis) {
                const long long here = at[axis] + rest % box[axis], left = size[axis] - here;
                rest /= box[axis];
                if (here < 0 || left <= 0) inside = 0;
                else if (axis == 0 && left < inside) inside = left;
                element += here * stride[axis];
            }
            function(element, (unsigned)(inside * itemsize), (plain ^ (plain >> 3 & chunks)) - shared);
        }
    }
};

template <int RANK>
Operation for_tile(const char* name, Queue queue, const TensorMap& map, const int (&at)[RANK], const void* shared,
                   const char* file, int line) {
    static_assert(RANK >= 1 && RANK <= 5, "a tile has 1 to 5 axes");
    Operation own{queue, 0, 0, nullptr, nullptr, name, file, line, {}};
    if (map.words[0] != tensor_map_mark || (map.words[2] & 0xff) != RANK)
        fault("the map of a tile was not made by cukern.TensorMap, or has another number of axes", file, line);
    for (int i = 0; i < 16; ++i) own.words[i] = map.words[i];
    for (int i = 0; i < RANK; ++i) own.words[16 + i] = (unsigned long long)(long long)at[RANK - 1 - i];
    own.words[21] = (unsigned long long)shared;
    const Tile tile(own.words, own.words + 16);
    if (tile.at[0] * tile.itemsize % 16)
        fault("a tile begins no multiple of 16 bytes from the array's first element along the innermost axis", file, line);
    if (own.words[21] % (tile.swizzle ? 8 * tile.swizzle : 128))
        fault("a tile's address in shared memory is no multiple of 128 bytes, or of eight rows of its swizzle", file, line);
    return own;
}
inline void bring_tile(const Operation* own) {
    const Tile tile(own->words, own->words + 16);
    char* const to = (char*)own->words[21];
    tile.each(own->words[21], [&](const char* from, unsigned inside, unsigned long long place) {
        if (inside == 16) return (void)__builtin_memcpy(to + place, from, 16);
        __builtin_memcpy(to + place, from, inside);
        __builtin_memset(to + place + inside, 0, 16 - inside);
    });
    runtime->wrote_async(to, tile.bytes());
    count_bytes((MBarrier*)own->words[22], (unsigned)tile.bytes());
}
template <class T>
inline void add_element(char* to, const char* from) {
    T x;
    __builtin_memcpy(&x, from, sizeof x);
    atomicAdd((T*)to, x);
}
template <class T>
inline void take_tile(const Operation* own) {
    const Tile tile(own->words, own->words + 16);
    const char* const from = (const char*)own->source;
    tile.each(own->words[21], [&](char* to, unsigned inside, unsigned long long place) {
        if constexpr (sizeof(T) > 1)
            for (unsigned i = 0; i < inside; i += sizeof(T)) add_element<T>(to + i, from + place + i);
        else if (inside == 16) __builtin_memcpy(to, from + place, 16);
        else __builtin_memcpy(to, from + place, inside);
    });
}
// To where `to` is the place of `own_to`, in the block itself or, of a multicast, in another one.
template <int RANK>
__forceinline__ inline void send_copy(const char* name, void* own_to, void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier,
                      const char* file, int line, bool is_multicast = false) {
    Operation own = for_tile(name, counted_copies, map, at, own_to, file, line);
    const long long bytes = Tile(own.words, own.words + 16).bytes();
    require_shared(own_to, bytes, file, line);
    require_counting(barrier, file, line);
    own.words[21] = (unsigned long long)to;
    spoil(to, bytes);  // until it has come, anything may be there
    runtime->wrote_async(to, bytes);
    if (is_multicast) show_phase(barrier);  // to those who wait until it has come
    own.words[22] = (unsigned long long)barrier;
    own.moves = (unsigned)bytes;
    own.counted_at = barrier;
    own.run = bring_tile;
    runtime->send(&own);
}
template <class T, int RANK>
inline void send_tile(const TensorMap& map, const int (&at)[RANK], const void* from, const char* file, int line) {
    Operation own = for_tile(sizeof(T) > 1 ? "add_tile" : "store_tile", store_groups, map, at, from, file, line);
    const Tile tile(own.words, own.words + 16);
    for (const int place : at)
        if (place < 0) fault("a tile is stored at a negative place", file, line);
    if (!(own.words[2] >> 32 & 1)) fault("a tile is stored through a map that was made without writes=True", file, line);
    if (sizeof(T) > 1 && (tile.itemsize != sizeof(T) || (own.words[2] >> 40 == 2) != (T(0.5) != T(0))))
        fault("a tile is added to an array of another type", file, line);
    own.bytes = own.moves = (unsigned)tile.bytes();
    runtime->reads_async(from, own.bytes, file, line);
    own.source = from;
    own.run = take_tile<T>;
    runtime->send(&own);
}
}  // namespace cukern

struct CachePolicy {};
inline CachePolicy evict_last() { return {}; }
inline CachePolicy evict_normal() { return {}; }
inline void prefetch_map(const TensorMap& map, CUKERN_HERE) {
    if (map.words[0] != cukern::tensor_map_mark) cukern::fault("the map was not made by cukern.TensorMap", file, line);
}
template <int RANK>
__forceinline__ inline void copy_tile(void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, CUKERN_HERE) {
    cukern::require_own(barrier, file, line);
    cukern::send_copy("copy_tile", to, to, map, at, barrier, file, line);
}
template <int RANK>
inline void copy_tile_multicast(
    void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, unsigned blocks, CUKERN_HERE) {
    const auto in_block = [&](void* own, unsigned rank) { return cukern::runtime->map_shared(own, rank, file, line); };
    if (!blocks || blocks >> 16) cukern::fault("copy_tile_multicast: the blocks are no 16 bits, some of them set", file, line);
    for (unsigned rank = 0; rank < 16; ++rank) {
        if (!(blocks >> rank & 1)) continue;
        MBarrier* const counts = (MBarrier*)in_block(barrier, rank);
        cukern::send_copy("copy_tile_multicast", to, in_block(to, rank), map, at, counts, file, line, true);
    }
}
template <int RANK>
inline void copy_tile(void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, CachePolicy, CUKERN_HERE) {
    copy_tile(to, map, at, barrier, file, line);
}
template <int RANK>
inline void copy_tile_multicast(
    void* to, const TensorMap& map, const int (&at)[RANK], MBarrier* barrier, unsigned blocks, CachePolicy, CUKERN_HERE) {
    copy_tile_multicast(to, map, at, barrier, blocks, file, line);
}
template <int RANK>
inline void store_tile(const TensorMap& map, const int (&at)[RANK], const void* from, CUKERN_HERE) {
    cukern::send_tile<char>(map, at, from, file, line);
}
template <typename T, int RANK>
inline void add_tile(const TensorMap& map, const int (&at)[RANK], const T* from, CUKERN_HERE) {
    static_assert(sizeof(T) >= 4, "add_tile: T is float, int, unsigned or unsigned long long");
    cukern::send_tile<T>(map, at, from, file, line);
}

#endif
#endif  // CUKERN_TENSOR_MAP
