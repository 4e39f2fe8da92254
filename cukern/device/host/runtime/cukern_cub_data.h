// cub's loads, stores, exchanges and sorts of the items of a block's threads.
#pragma once
#include "cukern_cub.h"

namespace cub {
// Blocked: thread t has the items from t * items. Striped: item i of thread t is t + i * threads of the block.
template <class T, int items, class From>
inline void LoadDirectBlocked(int thread, From from, T (&to)[items]) {
    for (int i = 0; i < items; ++i) to[i] = from[thread * items + i];
}
template <class T, int items, class From>
inline void LoadDirectBlocked(int thread, From from, T (&to)[items], int valid) {
    for (int i = 0; i < items; ++i)
        if (thread * items + i < valid) to[i] = from[thread * items + i];
}
template <class T, int items, class From, class Default>
inline void LoadDirectBlocked(int thread, From from, T (&to)[items], int valid, Default other) {
    for (int i = 0; i < items; ++i) to[i] = thread * items + i < valid ? (T)from[thread * items + i] : (T)other;
}
template <int threads, class T, int items, class From>
inline void LoadDirectStriped(int thread, From from, T (&to)[items]) {
    for (int i = 0; i < items; ++i) to[i] = from[thread + i * threads];
}
template <int threads, class T, int items, class From>
inline void LoadDirectStriped(int thread, From from, T (&to)[items], int valid) {
    for (int i = 0; i < items; ++i)
        if (thread + i * threads < valid) to[i] = from[thread + i * threads];
}
template <int threads, class T, int items, class From, class Default>
inline void LoadDirectStriped(int thread, From from, T (&to)[items], int valid, Default other) {
    for (int i = 0; i < items; ++i) to[i] = thread + i * threads < valid ? (T)from[thread + i * threads] : (T)other;
}
template <class T, int items, class To>
inline void StoreDirectBlocked(int thread, To to, T (&from)[items], int valid = 0x7fffffff) {
    for (int i = 0; i < items; ++i)
        if (thread * items + i < valid) to[thread * items + i] = from[i];
}
template <int threads, class T, int items, class To>
inline void StoreDirectStriped(int thread, To to, T (&from)[items], int valid = 0x7fffffff) {
    for (int i = 0; i < items; ++i)
        if (thread + i * threads < valid) to[thread + i * threads] = from[i];
}

template <class T, int block_x, int items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int block_y = 1, int block_z = 1,
          int = 0>
class BlockLoad {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {};
    BlockLoad() = default;
    explicit BlockLoad(TempStorage&) {}
    template <class From, class... Rest>
    void Load(From from, T (&to)[items], Rest... rest) {
        if constexpr (algorithm == BLOCK_LOAD_STRIPED) LoadDirectStriped<threads>(detail::rank(), from, to, rest...);
        else LoadDirectBlocked(detail::rank(), from, to, rest...);
    }
};
template <class T, int block_x, int items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int block_y = 1, int block_z = 1,
          int = 0>
class BlockStore {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {};
    BlockStore() = default;
    explicit BlockStore(TempStorage&) {}
    template <class To, class... Rest>
    void Store(To to, T (&from)[items], Rest... rest) {
        if constexpr (algorithm == BLOCK_STORE_STRIPED) StoreDirectStriped<threads>(detail::rank(), to, from, rest...);
        else StoreDirectBlocked(detail::rank(), to, from, rest...);
    }
};

namespace detail {
// Items that change places among `threads` threads, of which this one has the number `thread`.
template <class T, int threads, int items, class Barrier>
inline void exchange(Room<T, threads * items>& room, int thread, bool from_striped, bool to_striped, const T* in, T* out,
                     Barrier barrier) {
    for (int i = 0; i < items; ++i) room[from_striped ? thread + i * threads : thread * items + i] = in[i];
    barrier();
    for (int i = 0; i < items; ++i) out[i] = room[to_striped ? thread + i * threads : thread * items + i];
}
}  // namespace detail

#define CUKERN_EXCHANGE(name, from_striped, to_striped)                                                          \
    template <class Out>                                                                                         \
    void name(T (&in)[items], Out (&out)[items], CUKERN_HERE) {                                                  \
        T moved[items];                                                                                          \
        detail::exchange<T, threads, items>(temp_.room, thread(), from_striped, to_striped, in, moved,           \
                                            [=] { wait(file, line); });                                          \
        for (int i = 0; i < items; ++i) out[i] = moved[i];                                                       \
    }                                                                                                            \
    void name(T (&values)[items], CUKERN_HERE) { name(values, values, file, line); }
#define CUKERN_EXCHANGES                                     \
    CUKERN_EXCHANGE(StripedToBlocked, true, false)           \
    CUKERN_EXCHANGE(BlockedToStriped, false, true)           \
    template <class Rank>                                    \
    void ScatterToStriped(T (&in)[items], T (&out)[items], Rank (&ranks)[items], CUKERN_HERE) { \
        for (int i = 0; i < items; ++i) temp_.room[ranks[i]] = in[i];                           \
        wait(file, line);                                                                       \
        for (int i = 0; i < items; ++i) out[i] = temp_.room[thread() + i * threads];            \
    }                                                                                           \
    template <class Rank>                                                                       \
    void ScatterToStriped(T (&values)[items], Rank (&ranks)[items], CUKERN_HERE) {              \
        ScatterToStriped(values, values, ranks, file, line);                                    \
    }

template <class T, int block_x, int items, bool = false, int block_y = 1, int block_z = 1, int = 0>
class BlockExchange {
    static constexpr int threads = block_x * block_y * block_z;
    static int thread() { return detail::rank(); }
    static void wait(const char* file, int line) { __syncthreads(file, line); }

   public:
    struct TempStorage {
        detail::Room<T, threads * items> room;
    };

   private:
    CUKERN_CUB(BlockExchange)
    CUKERN_EXCHANGES
};
template <class T, int items, int threads = 32, int = 0>
class WarpExchange {
    static int thread() { return (int)LaneId() & (threads - 1); }
    static void wait(const char* file, int line) { __syncwarp(detail::lanes<threads>(), file, line); }

   public:
    struct TempStorage {
        detail::Room<T, threads * items> room;
    };

   private:
    CUKERN_CUB(WarpExchange)
    CUKERN_EXCHANGES
};
#undef CUKERN_EXCHANGES
#undef CUKERN_EXCHANGE

// Items beside their neighbours: `edge` is what comes before the first one, or after the last.
template <class T, int block_x, int block_y = 1, int block_z = 1, int = 0>
class BlockAdjacentDifference {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {
        detail::Room<T, threads> firsts, lasts;
    };

   private:
    template <int items, class Out, class Op>
    void left(T (&in)[items], Out (&out)[items], Op op, const T* edge, int valid, const char* file, int line) {
        const int rank = detail::rank();
        const T own = in[items - 1];
        temp_.lasts[rank] = own;
        __syncthreads(file, line);
        for (int i = items - 1; i >= 0; --i) {
            const bool has = i || rank || edge;
            T before = i ? in[i - 1] : rank ? temp_.lasts[rank - 1] : edge ? *edge : in[i];
            out[i] = has && rank * items + i < valid ? (Out)op(in[i], before) : (Out)in[i];
        }
    }
    template <int items, class Out, class Op>
    void right(T (&in)[items], Out (&out)[items], Op op, const T* edge, int valid, const char* file, int line) {
        const int rank = detail::rank();
        temp_.firsts[rank] = in[0];
        __syncthreads(file, line);
        for (int i = 0; i < items; ++i) {
            const bool last = i == items - 1, has = !last || rank < threads - 1 || edge;
            T after = !last ? in[i + 1] : rank < threads - 1 ? temp_.firsts[rank + 1] : edge ? *edge : in[i];
            out[i] = has && rank * items + i < valid - !edge ? (Out)op(in[i], after) : (Out)in[i];
        }
    }
    CUKERN_CUB(BlockAdjacentDifference)
#define CUKERN_BESIDE(name, partial, side)                                                                             \
    template <int items, class Out, class Op>                                                                          \
    void name(T (&in)[items], Out (&out)[items], Op op, CUKERN_HERE) {                                                 \
        side(in, out, op, nullptr, threads * items, file, line);                                                       \
    }                                                                                                                  \
    template <int items, class Out, class Op>                                                                          \
    void name(T (&in)[items], Out (&out)[items], Op op, T edge, CUKERN_HERE) {                                         \
        side(in, out, op, &edge, threads * items, file, line);                                                         \
    }                                                                                                                  \
    template <int items, class Out, class Op>                                                                          \
    void partial(T (&in)[items], Out (&out)[items], Op op, int valid, CUKERN_HERE) {                                   \
        side(in, out, op, nullptr, valid, file, line);                                                                 \
    }
    CUKERN_BESIDE(SubtractLeft, SubtractLeftPartialTile, left)
    CUKERN_BESIDE(SubtractRight, SubtractRightPartialTile, right)
#undef CUKERN_BESIDE
};

// Stable: each item goes behind those that are smaller, and those that are equal and came earlier.
template <class Key, int block_x, int items, class Value = NullType, int = 4, bool = true, int = 0, int = 0, int block_y = 1,
          int block_z = 1, int = 0>
class BlockRadixSort {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {
        detail::Room<Key, threads * items> keys, sorted;
        detail::Room<Value, threads * items> values;
    };

   private:
    static unsigned long long bits_of(Key key, int begin, int end) {
        unsigned long long bits = 0;
        __builtin_memcpy(&bits, &key, sizeof(Key));
        const unsigned long long sign = 1ull << (8 * sizeof(Key) - 1);
        if constexpr (Key(0.5) != Key(0)) bits = bits & sign ? ~bits : bits | sign;
        else if constexpr (Key(-1) < Key(0)) bits ^= sign;
        if (8 * sizeof(Key) < 64) bits &= (1ull << (8 * sizeof(Key) & 63)) - 1;
        bits >>= begin;
        return end - begin < 64 ? bits & ((1ull << (end - begin)) - 1) : bits;
    }
    void sort(Key* keys, Value* values, bool down, bool striped, int begin, int end, const char* file, int line) {
        const int first = detail::rank() * items;
        for (int i = 0; i < items; ++i) temp_.keys[first + i] = keys[i];
        __syncthreads(file, line);
        for (int i = 0; i < items; ++i) {
            const unsigned long long own = bits_of(keys[i], begin, end);
            int place = 0;
            for (int j = 0; j < threads * items; ++j) {
                const unsigned long long other = bits_of(temp_.keys[j], begin, end);
                place += (down ? other > own : other < own) || (other == own && j < first + i);
            }
            temp_.sorted[place] = keys[i];
            if (values) temp_.values[place] = values[i];
        }
        __syncthreads(file, line);
        for (int i = 0; i < items; ++i) {
            const int at = striped ? detail::rank() + i * threads : first + i;
            keys[i] = temp_.sorted[at];
            if (values) values[i] = temp_.values[at];
        }
    }
    CUKERN_CUB(BlockRadixSort)
#define CUKERN_SORT(name, down, striped)                                                                             \
    void name(Key (&keys)[items], int begin = 0, int end = sizeof(Key) * 8, CUKERN_HERE) {                           \
        sort(keys, nullptr, down, striped, begin, end, file, line);                                                  \
    }                                                                                                                \
    void name(Key (&keys)[items], Value (&values)[items], int begin = 0, int end = sizeof(Key) * 8, CUKERN_HERE) {   \
        sort(keys, values, down, striped, begin, end, file, line);                                                   \
    }
    CUKERN_SORT(Sort, false, false)
    CUKERN_SORT(SortDescending, true, false)
    CUKERN_SORT(SortBlockedToStriped, false, true)
    CUKERN_SORT(SortDescendingBlockedToStriped, true, true)
#undef CUKERN_SORT
};
#undef CUKERN_CUB
}  // namespace cub
