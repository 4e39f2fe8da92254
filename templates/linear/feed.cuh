// Producer by cp.async: k-blocks of the factors that all threads of a block copy, after linear/product.cuh.
<% include "prelude/copy_async.cuh" %>
// Copies k-block after k-block of a factor, from depth 0 on, to shared memory; what lies beyond the matrix is zeros. A thread has
// the same chunk of every `apart`-th line.
template <int SIZE, bool BY_DEPTH>
struct Loader {
    using To = KBlock<SIZE, BY_DEPTH>;
    static constexpr int apart = threads / To::chunks;
    static_assert(threads % To::chunks == 0 && apart % 8 == 0 && To::lines % apart == 0, "lines are shared evenly");
    const T* from;
    index step;    // from a line to the next
    int row, left;  // of this thread's first line, and how many there are from it on
    int place, elements;  // of its chunk in a line, and how many there are from it on

    __device__ __forceinline__ Loader(const T* matrix, index step, int first, int size, int depth_end) : step(step) {
        row = threadIdx.x / To::chunks;
        place = threadIdx.x % To::chunks;
        from = matrix + (BY_DEPTH ? (first + row) * step + place * chunk : row * step + first + place * chunk);
        left = (BY_DEPTH ? size - first : depth_end) - row;
        elements = (BY_DEPTH ? depth_end : size - first) - place * chunk;
    }
    __device__ __forceinline__ void next(T* k_block) {
        T* const to = To{k_block}.at(row, place);
        const int bytes = minimum(maximum(elements, 0), chunk) * int(sizeof(T));
#pragma unroll
        for (int j = 0; j < To::lines / apart; ++j)
            copy_async_or_zeros(to + j * apart * line, from + j * apart * step, j * apart < left ? bytes : 0);
        from += BY_DEPTH ? depth : depth * step;
        (BY_DEPTH ? elements : left) -= depth;
    }
};

<% if kind is defined %>
<% include "quant/kind.cuh" %>
<% include "lib/pack.cuh" %>
<% include "quant/loader.cuh" %>
using Right = unsigned char;
template <int SIZE, bool BY_DEPTH>
using LoaderOfRight = QuantisedLoader<SIZE, BY_DEPTH>;
<% else %>
using Right = T;
template <int SIZE, bool BY_DEPTH>
using LoaderOfRight = Loader<SIZE, BY_DEPTH>;
<% endif %>

// Copies k-block after k-block of both factors to stages of shared memory.
struct Feed {
    Loader<tile_m, a_by_depth> of_a;
    LoaderOfRight<tile_n, b_by_depth> of_b;
    int k_blocks;

    __device__ __forceinline__ Feed(const T* a, const Right* b, const Sizes& sizes, const Place& at)
        : of_a(a + at.batch * sizes.batch_a, sizes.row_a, at.m0, sizes.m, sizes.k),
          of_b(b + at.batch * sizes.batch_b, sizes.row_b, at.n0, sizes.n, sizes.k),
          k_blocks(divide_up(sizes.k, depth)) {}
    // Loads k-block i, if there is one; the copies are a group in any case.
    __device__ __forceinline__ void load(int i, T* stage) {
        if (i < k_blocks) of_a.next(stage), of_b.next(stage + tile_m * depth);
        commit_copies();
    }
};
