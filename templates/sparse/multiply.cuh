// Sums over the entries of a row, for `tall` neighbouring rows of y in a block row: the common part of the sparse products.
<% include "prelude/reduce.cuh" %>
<% include "lib/pack.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using IndexT = << index_type >>;
constexpr int block = << block >>, across = << across >>, along = << along >>, items = << items >>;
constexpr int R = << height >>, C = << width >>, tall = << tall >>, deep = << deep >>;
constexpr int groups = block / (across * along), span = across * items;
// Whether all columns are in packs of `items`, which are aligned.
constexpr bool whole = << "true" if whole else "false" >>;
using Sums = acc[tall][items];

// The columns of a thread from memory.
__device__ __forceinline__ Pack<T, items> load_columns(const T* __restrict__ from, long long left) {
    if constexpr (whole) return load_pack<items>(from);
    Pack<T, items> result;
#pragma unroll
    for (int k = 0; k < items; ++k) result.at[k] = k < left ? from[k] : T(0);
    return result;
}

// A thread's sums over the entries first, first + step, ... of a block row, at its columns, for the rows p, ..., p + tall - 1.
__device__ __forceinline__ void add_entries(
    Sums& sums, const T* __restrict__ a, const IndexT* __restrict__ indices, const T* __restrict__ x, int p, long long first,
    long long last, int step, long long column, long long columns)
{
#pragma unroll
    for (int t = 0; t < tall; ++t) {
#pragma unroll
        for (int k = 0; k < items; ++k) sums[t][k] = acc(0);
    }
    if (column >= columns) return;
#pragma unroll << 4 if height * width == 1 else 1 >>
    for (long long j = first; j < last; j += step) {
        const T* const from = x + (long long)indices[j] * C * columns + column;
#pragma unroll
        for (int q = 0; q < C; q += deep) {
            Pack<T, deep> weights[tall];
#pragma unroll
            for (int t = 0; t < tall; ++t) weights[t] = load_pack<deep>(a + (j * R + p + t) * C + q);
#pragma unroll
            for (int d = 0; d < deep; ++d) {
                const Pack<T, items> values = load_columns(from + (q + d) * columns, columns - column);
#pragma unroll
                for (int t = 0; t < tall; ++t) {
#pragma unroll
                    for (int k = 0; k < items; ++k) sums[t][k] += cast<acc>(weights[t].at[d]) * cast<acc>(values.at[k]);
                }
            }
        }
    }
}

// The sums of a group, in each of its threads.
__device__ __forceinline__ void add_group(Sums& sums) {
#pragma unroll
    for (int t = 0; t < tall; ++t) {
#pragma unroll
        for (int k = 0; k < items; ++k) {
#pragma unroll
            for (int distance = across; distance < across * along; distance *= 2)
                sums[t][k] += shuffle_xor(sums[t][k], distance);
        }
    }
}
