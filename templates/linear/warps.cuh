// K-blocks of the factors, multiplied by << warps_m >> by << warps_n >> warps that share a tile, after linear/tile.cuh.
<% include "prelude/mma.cuh" %>
constexpr int warps_n = << warps_n >>, warp_m = tile_m / << warps_m >>, warp_n = tile_n / warps_n;

constexpr int step = 32 / sizeof(T);  // elements that an instruction multiplies along the depth

// Loads the words of four matrices of 8 by 16 bytes: from rows (or columns) first and first + 8, and from depths k and
// k + step / 2. The depth varies fastest if DEPTHS_FIRST.
template <bool DEPTHS_FIRST, int SIZE, bool BY_DEPTH>
__device__ __forceinline__ void fragments(unsigned (&to)[4], const KBlock<SIZE, BY_DEPTH>& k_block, int first, int k) {
    const auto place = [&](int matrix) { return first + 8 * (DEPTHS_FIRST ? matrix / 2 : matrix % 2); };
    const auto inner = [&](int matrix) { return k + chunk * (DEPTHS_FIRST ? matrix % 2 : matrix / 2); };
    const int lane = threadIdx.x % 32, own = lane / 8;
    if constexpr (BY_DEPTH) {
        load_matrices(to, k_block.at(place(own) + lane % 8, inner(own) / chunk));
    } else if constexpr (sizeof(T) == 2) {
        load_matrices_transposed(to, k_block.at(inner(own) + lane % 8, place(own) / chunk));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int across = place(i) + lane / 4;
            to[i] = *(const unsigned*)(k_block.at(inner(i) + lane % 4, across / chunk) + across % chunk);
        }
    }
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = as_tf32(__int_as_float((int)to[i]));
    }
}

// The fragments that a warp multiplies in a step along the depth.
struct Fragments {
    unsigned a[warp_m / 16][4], b[warp_n / 16][4];

    __device__ __forceinline__ void load(T* stage, int row, int column, int k) {
#pragma unroll
        for (int x = 0; x < warp_m / 16; ++x) fragments<false>(a[x], KBlockA{stage}, row + 16 * x, k);
#pragma unroll
        for (int y = 0; y < warp_n / 16; ++y) fragments<true>(b[y], KBlockB{stage + tile_m * depth}, column + 16 * y, k);
    }
};

// The mainloop of a warp over a feed's k-blocks: adds to the sums of its rows and columns of the tile from (row, column) on.
template <class Feed>
__device__ __forceinline__ void multiply(
    float (&sums)[warp_m / 16][warp_n / 2], T* const first_stage, Feed& feed, int row, int column)
{
    T* const last_stage = first_stage + (stages - 1) * stage_size;
    for (int i = 0; i < stages - 1; ++i) feed.load(i, first_stage + i * stage_size);
    T *stage = first_stage, *free_stage = last_stage;
    const auto next = [&](T* one) { return one == last_stage ? first_stage : one + stage_size; };
    for (int i = 0; i < feed.k_blocks; ++i) {
        wait_copies<stages - 2>();
        __syncthreads();
        Fragments of[2];  // those of the next step are loaded before this one's are multiplied
        of[0].load(stage, row, column, 0);
        feed.load(i + stages - 1, free_stage);
#pragma unroll
        for (int k = 0; k < depth / step; ++k) {
            if (k + 1 < depth / step) of[(k + 1) % 2].load(stage, row, column, step * (k + 1));
#pragma unroll
            for (int x = 0; x < warp_m / 16; ++x)
#pragma unroll
                for (int y = 0; y < warp_n / 8; ++y) {
                    const unsigned(&two)[4] = of[k % 2].b[y / 2];
                    const unsigned own[2] = {two[y % 2 * 2], two[y % 2 * 2 + 1]};
                    mma<T>((float(&)[4])sums[x][4 * y], of[k % 2].a[x], own);
                }
        }
        stage = next(stage);
        free_stage = next(free_stage);
    }
    wait_copies<0>();
}
