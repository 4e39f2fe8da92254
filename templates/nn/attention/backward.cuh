// What the backward kernels without tensor cores share: the cotangents of a tile of scores.
<% include "nn/attention/portable.cuh" %>

// The operands of a tile of scores in shared memory.
struct Tiles {
    A *q, *d, *k, *v, *lse, *rest, *delta, *weights, *dscores;

    __device__ __forceinline__ explicit Tiles(unsigned char* shared)
        : q((A*)shared), d(q + tile_m * head_step), k(d + tile_m * value_step), v(k + tile_n * head_step),
          lse(v + tile_n * value_step), rest(lse + tile_m), delta(rest + tile_m), weights(delta + tile_m), dscores(weights + tile_m * score_step) {}

    // The rows' operands, where d is the cotangent of the result.
    __device__ __forceinline__ void load_rows(
        const Place& at, const Sizes& sizes, const T* of_q, const T* of_d, const RowStatistics* of_lse, const A* of_delta,
        int row) const
    {
        load<tile_m, head_size>(q, at.of_rows(of_q, sizes.q), row);
        load<tile_m, value_size>(d, at.of_rows(of_d, sizes.o), row);
        load_statistics<tile_m>(lse, rest, at, sizes, of_lse, row);
        load_deltas<tile_m>(delta, at, sizes, of_delta, row);
    }
    __device__ __forceinline__ void load_keys(const Place& at, const Sizes& sizes, const T* of_k, const T* of_v, int key) const {
        load<tile_n, head_size>(k, at.of_keys(of_k, sizes.k, at.keys), key);
        load<tile_n, value_size>(v, at.of_keys(of_v, sizes.v, at.keys), key);
    }
    // Calls use(element, row, column) for the thread's elements.
    template <typename Use>
    __device__ __forceinline__ void each(
        const Place& at, const Sizes& sizes, const Scores& scores, const Draw& draw, int row, int key, Use use) const
    {
        const int x = threadIdx.x % lanes_x, y = threadIdx.x / lanes_x;
        A score[own_m][own_n] = {}, dweight[own_m][own_n] = {};
        const bool whole = at.attends_to_all(row, row + tile_m, key, key + tile_n);
        multiply<head_size>(score, q, head_step, 1, k, head_step, 1, tile_n);
        multiply<value_size>(dweight, d, value_step, 1, v, value_step, 1, tile_n);
#pragma unroll
        for (int i = 0; i < own_m; ++i)
#pragma unroll
            for (int j = 0; j < own_n; ++j) {
                const int r = i * lanes_y + y, c = j * lanes_x + x;
                use(Element(at, sizes, scores, draw, score[i][j], dweight[i][j], lse[r], rest[r], delta[r], row + r, key + c, whole), i, j, r,
                    c);
            }
    }
};
