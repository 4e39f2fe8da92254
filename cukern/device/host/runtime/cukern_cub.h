// cub's primitives of blocks and warps, by what they compute: through their temporary storage and the block's barriers.
// Sums of floats are added in the order of the threads, which on a GPU is another one.
#pragma once

namespace cub {
struct NullType {};

struct Sum {
    template <class T>
    T operator()(const T& a, const T& b) const { return a + b; }
};
struct Max {
    template <class T>
    T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
struct Min {
    template <class T>
    T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
struct Difference {
    template <class T>
    T operator()(const T& a, const T& b) const { return a - b; }
};
struct Equality {
    template <class T>
    bool operator()(const T& a, const T& b) const { return a == b; }
};
struct Inequality {
    template <class T>
    bool operator()(const T& a, const T& b) const { return a != b; }
};
template <class Key_, class Value_>
struct KeyValuePair {
    using Key = Key_;
    using Value = Value_;
    Key key;
    Value value;
    KeyValuePair() = default;
    KeyValuePair(const Key& key, const Value& value) : key(key), value(value) {}
    bool operator!=(const KeyValuePair& other) const { return value != other.value || key != other.key; }
};
struct ArgMax {
    template <class P>
    P operator()(const P& a, const P& b) const { return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a; }
};
struct ArgMin {
    template <class P>
    P operator()(const P& a, const P& b) const { return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a; }
};
inline unsigned LaneId() { return cukern::thread_rank() & 31; }
inline unsigned WarpId() { return cukern::thread_rank() / 32; }

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

namespace detail {
// Room for values in shared memory, without constructors.
template <class T, int count>
struct Room {
    alignas(T) unsigned char bytes[sizeof(T) * count];
    T& operator[](int i) { return ((T*)bytes)[i]; }
};
inline int rank() { return (int)cukern::thread_rank(); }
// The lanes of a logical warp of so many threads.
template <int width>
inline unsigned lanes() {
    static_assert(width >= 1 && width <= 32 && !(width & (width - 1)), "cukern's host: a logical warp has a power of two lanes");
    return (width == 32 ? ~0u : (1u << (width & 31)) - 1) << (LaneId() & ~(width - 1));
}
template <int width, class T>
inline T moved(cukern::Collective what, const T& value, int by, const char* file, int line) {
    constexpr unsigned words = (sizeof(T) + 7) / 8;
    unsigned long long bits[words] = {};
    __builtin_memcpy(bits, &value, sizeof(T));
    for (unsigned i = 0; i < words; ++i) bits[i] = cukern::shuffle(what, lanes<width>(), bits[i], by, width, file, line);
    T result;
    __builtin_memcpy((void*)&result, bits, sizeof(T));
    return result;
}
}  // namespace detail

#define CUKERN_CUB(name)                                           \
    TempStorage& temp_;                                            \
                                                                   \
   public:                                                         \
    explicit name(TempStorage& temp) : temp_(temp) {}

// The result is thread 0's; other threads get what they gave.
template <class T, int block_x, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int block_y = 1, int block_z = 1, int = 0>
class BlockReduce {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {
        detail::Room<T, threads> values;
    };

   private:
    CUKERN_CUB(BlockReduce)
    template <class Op>
    T Reduce(T value, Op op, int valid = threads, CUKERN_HERE) {
        temp_.values[detail::rank()] = value;
        __syncthreads(file, line);
        if (detail::rank() != 0) return value;
        T result = temp_.values[0];
        for (int i = 1; i < valid; ++i) result = op(result, temp_.values[i]);
        return result;
    }
    template <int items, class Op>
    T Reduce(T (&values)[items], Op op, CUKERN_HERE) {
        T own = values[0];
        for (int i = 1; i < items; ++i) own = op(own, values[i]);
        return Reduce(own, op, threads, file, line);
    }
    T Sum(T value, CUKERN_HERE) { return Reduce(value, cub::Sum(), threads, file, line); }
    T Sum(T value, int valid, CUKERN_HERE) { return Reduce(value, cub::Sum(), valid, file, line); }
    template <int items>
    T Sum(T (&values)[items], CUKERN_HERE) {
        return Reduce(values, cub::Sum(), file, line);
    }
};

template <class T, int block_x, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int block_y = 1, int block_z = 1, int = 0>
class BlockScan {
    static constexpr int threads = block_x * block_y * block_z;

   public:
    struct TempStorage {
        detail::Room<T, threads> values;
        detail::Room<T, 1> prefix;
    };

   private:
    // The values of the threads before this one, combined, and those of all; false for the first thread.
    template <class Op>
    bool before(T own, Op op, T& prefix, T& all, const char* file, int line) {
        const int rank = detail::rank();
        temp_.values[rank] = own;
        __syncthreads(file, line);
        if (rank == 0)
            for (int i = 1; i < threads; ++i) temp_.values[i] = op(temp_.values[i - 1], temp_.values[i]);
        __syncthreads(file, line);
        all = temp_.values[threads - 1];
        if (rank) prefix = temp_.values[rank - 1];
        return rank != 0;
    }
    // `start` comes before all values, if there is one.
    template <int items, class Op>
    void scan(const T* in, T* out, Op op, bool inclusive, const T* start, T* aggregate, const char* file, int line) {
        T own = in[0], prefix, all;
        for (int i = 1; i < items; ++i) own = op(own, in[i]);
        bool has = before(own, op, prefix, all, file, line);
        if (aggregate) *aggregate = all;
        if (start) prefix = has ? op(*start, prefix) : *start, has = true;
        for (int i = 0; i < items; ++i) {
            const T value = in[i];
            const T next = has ? op(prefix, value) : value;
            if (inclusive || has) out[i] = inclusive ? next : prefix;
            prefix = next, has = true;
        }
    }
    template <int items, class Op, class Prefix>
    void scan_from(const T* in, T* out, Op op, bool inclusive, Prefix& given, const char* file, int line) {
        T own = in[0], prefix, all;
        for (int i = 1; i < items; ++i) own = op(own, in[i]);
        const bool has = before(own, op, prefix, all, file, line);
        if (detail::rank() < 32) {
            const T start = given(all);
            if (detail::rank() == 0) temp_.prefix[0] = start;
        }
        __syncthreads(file, line);
        prefix = has ? op(temp_.prefix[0], prefix) : temp_.prefix[0];
        for (int i = 0; i < items; ++i) {
            const T next = op(prefix, in[i]);
            out[i] = inclusive ? next : prefix;
            prefix = next;
        }
    }
    CUKERN_CUB(BlockScan)
#define CUKERN_SCANS(name, inclusive, start, op)                                                               \
    void name(T in, T& out, CUKERN_HERE) { scan<1>(&in, &out, op, inclusive, start, nullptr, file, line); } \
    void name(T in, T& out, T& all, CUKERN_HERE) { scan<1>(&in, &out, op, inclusive, start, &all, file, line); } \
    template <int items>                                                                                            \
    void name(T (&in)[items], T (&out)[items], CUKERN_HERE) {                                        \
        scan<items>(in, out, op, inclusive, start, nullptr, file, line);                                            \
    }                                                                                                               \
    template <int items>                                                                                            \
    void name(T (&in)[items], T (&out)[items], T& all, CUKERN_HERE) {                                \
        scan<items>(in, out, op, inclusive, start, &all, file, line);                                               \
    }
    CUKERN_SCANS(InclusiveSum, true, nullptr, cub::Sum())
    CUKERN_SCANS(ExclusiveSum, false, &zero_, cub::Sum())
#undef CUKERN_SCANS
#define CUKERN_SCANS(name, inclusive, start, extra)                                                                   \
    template <class Op>                                                                                             \
    void name(T in, T& out, extra Op op, CUKERN_HERE) {                                                     \
        scan<1>(&in, &out, op, inclusive, start, nullptr, file, line);                                              \
    }                                                                                                               \
    template <class Op>                                                                                             \
    void name(T in, T& out, extra Op op, T& all, CUKERN_HERE) {                                             \
        scan<1>(&in, &out, op, inclusive, start, &all, file, line);                                                 \
    }                                                                                                               \
    template <int items, class Op>                                                                                  \
    void name(T (&in)[items], T (&out)[items], extra Op op, CUKERN_HERE) {                                  \
        scan<items>(in, out, op, inclusive, start, nullptr, file, line);                                            \
    }                                                                                                               \
    template <int items, class Op>                                                                                  \
    void name(T (&in)[items], T (&out)[items], extra Op op, T& all, CUKERN_HERE) {                          \
        scan<items>(in, out, op, inclusive, start, &all, file, line);                                               \
    }
#define CUKERN_INITIAL T initial,
    CUKERN_SCANS(InclusiveScan, true, nullptr, )
    CUKERN_SCANS(ExclusiveScan, false, nullptr, )
    CUKERN_SCANS(ExclusiveScan, false, &initial, CUKERN_INITIAL)
#undef CUKERN_INITIAL
#undef CUKERN_SCANS
    // With a function that the first warp calls with the sum of the block, for what comes before all values.
    template <class Prefix>
    void InclusiveSum(T in, T& out, Prefix& given, CUKERN_HERE) {
        scan_from<1>(&in, &out, cub::Sum(), true, given, file, line);
    }
    template <class Prefix>
    void ExclusiveSum(T in, T& out, Prefix& given, CUKERN_HERE) {
        scan_from<1>(&in, &out, cub::Sum(), false, given, file, line);
    }
    template <int items, class Prefix>
    void InclusiveSum(T (&in)[items], T (&out)[items], Prefix& given, CUKERN_HERE) {
        scan_from<items>(in, out, cub::Sum(), true, given, file, line);
    }
    template <int items, class Prefix>
    void ExclusiveSum(T (&in)[items], T (&out)[items], Prefix& given, CUKERN_HERE) {
        scan_from<items>(in, out, cub::Sum(), false, given, file, line);
    }

   private:
    T zero_{};
};

// The result is lane 0's of each logical warp.
template <class T, int width = 32, int = 0>
class WarpReduce {
   public:
    struct TempStorage {};
    explicit WarpReduce(TempStorage&) {}
    template <class Op>
    T Reduce(T value, Op op, int valid = width, CUKERN_HERE) {
        const int lane = (int)LaneId() & (width - 1);
        for (int step = 1; step < width; step *= 2) {
            const T other = detail::moved<width>(cukern::warp_shuffle_down, value, step, file, line);
            if (lane + step < valid && lane % (2 * step) == 0) value = op(value, other);
        }
        return value;
    }
    T Sum(T value, CUKERN_HERE) { return Reduce(value, cub::Sum(), width, file, line); }
    T Sum(T value, int valid, CUKERN_HERE) { return Reduce(value, cub::Sum(), valid, file, line); }
};

template <class T, int width = 32, int = 0>
class WarpScan {
    template <class Op>
    void scan(T in, T& inclusive, T& exclusive, Op op, const char* file, int line) {
        const int lane = (int)LaneId() & (width - 1);
        T value = in;
        for (int step = 1; step < width; step *= 2) {
            const T other = detail::moved<width>(cukern::warp_shuffle_up, value, step, file, line);
            if (lane >= step) value = op(other, value);
        }
        inclusive = value;
        exclusive = detail::moved<width>(cukern::warp_shuffle_up, value, 1, file, line);
    }

   public:
    struct TempStorage {};
    explicit WarpScan(TempStorage&) {}
    template <class Op>
    void InclusiveScan(T in, T& out, Op op, CUKERN_HERE) {
        T before;
        scan(in, out, before, op, file, line);
    }
    template <class Op>
    void InclusiveScan(T in, T& out, Op op, T& all, CUKERN_HERE) {
        InclusiveScan(in, out, op, file, line);
        all = Broadcast(out, width - 1, file, line);
    }
    template <class Op>
    void ExclusiveScan(T in, T& out, T initial, Op op, CUKERN_HERE) {
        T inclusive, before;
        scan(in, inclusive, before, op, file, line);
        out = LaneId() & (width - 1) ? op(initial, before) : initial;
    }
    void InclusiveSum(T in, T& out, CUKERN_HERE) { InclusiveScan(in, out, cub::Sum(), file, line); }
    void InclusiveSum(T in, T& out, T& all, CUKERN_HERE) { InclusiveScan(in, out, cub::Sum(), all, file, line); }
    void ExclusiveSum(T in, T& out, CUKERN_HERE) { ExclusiveScan(in, out, T{}, cub::Sum(), file, line); }
    void ExclusiveSum(T in, T& out, T& all, CUKERN_HERE) {
        T inclusive;
        InclusiveSum(in, inclusive, all, file, line);
        ExclusiveSum(in, out, file, line);
    }
    T Broadcast(T value, unsigned lane, CUKERN_HERE) {
        return detail::moved<width>(cukern::warp_shuffle, value, (int)lane, file, line);
    }
};
}  // namespace cub
