// Threads of a warp: `across` neighbours have neighbouring columns, and `along` share the elements of each column, of
// which each reads `flight` before it combines them.
<% include "prelude/reduce.cuh" %>
constexpr int threads = across * along, flight = << flight >>;

__device__ __forceinline__ index own_column() { return index(threadIdx.x) % across; }

struct Fold {
    acc value;
    bool any;

    __device__ __forceinline__ static Fold none(index) {
        Fold result;
        result.any = false;
        return result;
    }
    __device__ __forceinline__ static index own() { return index(threadIdx.x) / across % along; }
    __device__ __forceinline__ void add(acc x) {
        value = any ? join(value, x) : x;
        any = true;
    }
    template <bool parts, typename Row>
    __device__ __forceinline__ void take(const Row* __restrict__ rows, index first, index last, index inner) {
#pragma unroll 1
        for (index j = first + own(); j < last; j += flight * along) {
            Row held[flight];
#pragma unroll
            for (int f = 0; f < flight; ++f)
                if (f == 0 || j + f * along < last) held[f] = rows[(long long)(j + f * along) * (single ? 1 : inner)];
#pragma unroll
            for (int f = 0; f < flight; ++f)
                if (f == 0 || j + f * along < last) add(value_of<parts>(held[f]));
        }
    }
    // Combines the values of all threads that share a column.
    __device__ __forceinline__ void share() {
#pragma unroll
        for (int distance = along / 2; distance > 0; distance /= 2) {
            const Fold other = shuffle_xor(*this, distance * across);
            if (other.any) add(other.value);
        }
    }
    template <typename Row>
    __device__ __forceinline__ void store(Row* row) const {
        if (own() == 0) *row = cast<Row>(value);
    }
};
