// What the stages of scatter-add share. A group of `lanes` threads shares a row, and each has the sums of `items` packs
// of `width` elements from its column on, `lanes` packs apart. Blocks along y share the columns.
<% include "lib/pack.cuh" %>
using index = << index >>;
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, width = << width >>;
// Neighbours in the order that a partial sum is of, and rows that a thread reads before it adds one.
constexpr int fan = << fan >>, flight = << flight >>;
// Whether the items of all threads lie in a row.
constexpr bool exact = << "true" if exact else "false" >>;

__device__ __forceinline__ index group() { return index(blockIdx.x) * (block / lanes) + index(threadIdx.x / lanes); }
__device__ __forceinline__ index first_column() { return (index(blockIdx.y) * lanes * items + threadIdx.x % lanes) * width; }
__device__ __forceinline__ index column_step() { return index(gridDim.y) * lanes * items * width; }
// Whether a pack of a thread lies in the row; its first one does.
__device__ __forceinline__ bool in_row(index column, int k, long long inner) {
    return exact || k == 0 || column + k * lanes * width < inner;
}

struct Sums {
    acc at[items][width];

    // Adds rows first, ..., last - 1, or those that `order` names, in this order.
    template <typename Row>
    __device__ __forceinline__ void add_rows(
        const Row* __restrict__ rows, const long long* __restrict__ order, index first, index last, long long inner, index column)
    {
#pragma unroll 1
        for (index j = first; j < last; j += flight) {
            Pack<Row, width> held[flight][items];
#pragma unroll
            for (int f = 0; f < flight; ++f) {
                if (f > 0 && j + f >= last) break;
                const Row* const row = rows + (order ? order[j + f] : (long long)(j + f)) * inner;
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if (in_row(column, k, inner)) held[f][k] = *(const Pack<Row, width>*)(row + column + k * lanes * width);
            }
#pragma unroll
            for (int f = 0; f < flight; ++f)
#pragma unroll
                for (int k = 0; k < items; ++k)
#pragma unroll
                    for (int w = 0; w < width; ++w)
                        if (f == 0 || j + f < last) at[k][w] += cast<acc>(held[f][k].at[w]);
        }
    }
    template <typename Row>
    __device__ __forceinline__ void store(Row* row, long long inner, index column) const {
#pragma unroll
        for (int k = 0; k < items; ++k) {
            Pack<Row, width> made;
#pragma unroll
            for (int w = 0; w < width; ++w) made.at[w] = cast<Row>(at[k][w]);
            if (in_row(column, k, inner)) store_pack(row + column + k * lanes * width, made);
        }
    }
};
<% if based is defined %>

// The row of x that the sums are added to: read before them and added last, so that nothing waits for it.
struct Base {
<% if based %>
    Pack<T, width> held[items];

    __device__ __forceinline__ Base(const T* __restrict__ row, long long inner, index column) {
#pragma unroll
        for (int k = 0; k < items; ++k)
            if (in_row(column, k, inner)) held[k] = *(const Pack<T, width>*)(row + column + k * lanes * width);
    }
    __device__ __forceinline__ void add_to(Sums& sums) const {
#pragma unroll
        for (int k = 0; k < items; ++k)
#pragma unroll
            for (int w = 0; w < width; ++w) sums.at[k][w] += cast<acc>(held[k].at[w]);
    }
<% else %>
    __device__ __forceinline__ Base(const T*, long long, index) {}
    __device__ __forceinline__ void add_to(Sums&) const {}
<% endif %>
};
<% endif %>
