// Common to the stages of scatter-reduce. A group of `lanes` threads shares a row, and each combines `items` packs of
// `width` elements from its column on, `lanes` packs apart. Blocks along y share the columns.
<% include "lib/pack.cuh" %>
<% include "prelude/over_pack.cuh" %>
using index = << index >>;
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, width = << width >>;
// Rows per part, and rows in flight per thread.
constexpr int fan = << fan >>, flight = << flight >>;
// Whether the items of all threads lie in a row.
constexpr bool full = << "true" if full else "false" >>;

__device__ __forceinline__ index group() { return index(blockIdx.x) * (block / lanes) + index(threadIdx.x / lanes); }
__device__ __forceinline__ index first_column() { return (index(blockIdx.y) * lanes * items + threadIdx.x % lanes) * width; }
__device__ __forceinline__ index column_step() { return index(gridDim.y) * lanes * items * width; }
// Whether a pack of a thread lies in the row; its first one does.
__device__ __forceinline__ bool in_row(index column, int k, long long inner) {
    return full || k == 0 || column + k * lanes * width < inner;
}
<% include "index/sources.cuh" %>

// The operation and its identity.
__device__ __forceinline__ acc join(acc a, acc b) { return << join >>; }
__device__ __forceinline__ acc identity() { return << identity >>; }

struct Rows {
    acc at[items][width];

    __device__ __forceinline__ Rows() {
#pragma unroll
        for (int k = 0; k < items; ++k)
#pragma unroll
            for (int w = 0; w < width; ++w) at[k][w] = identity();
    }
    // Combines with rows first, ..., last - 1 of a source, in this order.
    template <typename Source>
    __device__ __forceinline__ void take(const Source& source, index first, index last, long long inner, index column) {
#pragma unroll 1
        for (index j = first; j < last; j += flight) {
            typename Source::Held held[flight][items];
#pragma unroll
            for (int f = 0; f < flight; ++f) {
                if (f > 0 && j + f >= last) break;
                const auto row = source.row(j + f);
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if (in_row(column, k, inner)) held[f][k] = source.load(row, k);
            }
#pragma unroll
            for (int f = 0; f < flight; ++f)
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if (f == 0 || j + f < last)
                        over_pack<width>([&](int w) { at[k][w] = join(at[k][w], source.value(held[f][k], w)); });
        }
    }
<% if mean is defined and mean %>
    __device__ __forceinline__ void divide(index rows) {
#pragma unroll
        for (int k = 0; k < items; ++k)
#pragma unroll
            for (int w = 0; w < width; ++w) at[k][w] = at[k][w] / acc(maximum(rows, index(1)));
    }
<% endif %>
    template <typename Row>
    __device__ __forceinline__ void store(Row* row, long long inner, index column) const {
#pragma unroll
        for (int k = 0; k < items; ++k) {
            Pack<Row, width> result;
#pragma unroll
            for (int w = 0; w < width; ++w) result.at[w] = cast<Row>(at[k][w]);
            if (in_row(column, k, inner)) store_pack(row + column + k * lanes * width, result);
        }
    }
};
<% if based is defined %>

// The row of x that is combined with the others: read before them and combined last, so that nothing waits for it.
struct Base {
<% if based %>
    Pack<T, width> held[items];

    __device__ __forceinline__ Base(const T* __restrict__ row, long long inner, index column) {
#pragma unroll
        for (int k = 0; k < items; ++k)
            if (in_row(column, k, inner)) held[k] = *(const Pack<T, width>*)(row + column + k * lanes * width);
    }
    __device__ __forceinline__ void join_to(Rows& result) const {
#pragma unroll
        for (int k = 0; k < items; ++k)
#pragma unroll
            for (int w = 0; w < width; ++w) result.at[k][w] = join(result.at[k][w], cast<acc>(held[k].at[w]));
    }
<% else %>
    __device__ __forceinline__ Base(const T*, long long, index) {}
    __device__ __forceinline__ void join_to(Rows&) const {}
<% endif %>
};
<% endif %>
