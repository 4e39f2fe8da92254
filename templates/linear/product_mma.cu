// D = epilogue(A @ B) on the tensor cores of sm_80 and later, for A (m, k) and B (k, n) of 16-bit floats, or of floats that are
// rounded to tf32, in batches: sums in float, and the epilogue an elementwise expression of the sum and of operands that
// broadcast to (m, n). A factor is contiguous along one of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: << warps_m >> by << warps_n >> warps share a tile; blockIdx.x numbers the tiles, blockIdx.y the matrices of the batch,
// blockIdx.z parts of the depth, whose sums lie behind one another in D.
// Shared, dynamic: `stages` slabs of both factors. While one is multiplied the next are on their way.
<% include "linear/product.cuh" %>
<% include "prelude/mma.cuh" %>
constexpr int warps_n = << warps_n >>, warp_m = tile_m / << warps_m >>, warp_n = tile_n / warps_n;

constexpr int step = 32 / sizeof(T);  // elements that an instruction multiplies along the depth

// Loads the words of four matrices of 8 by 16 bytes: from rows (or columns) first and first + 8, and from depths k and
// k + step / 2. The depth varies fastest if DEPTHS_FIRST.
template <bool DEPTHS_FIRST, int SIZE, bool BY_DEPTH>
__device__ __forceinline__ void fragments(unsigned (&to)[4], const Slab<SIZE, BY_DEPTH>& slab, int first, int k) {
    const auto place = [&](int matrix) { return first + 8 * (DEPTHS_FIRST ? matrix / 2 : matrix % 2); };
    const auto inner = [&](int matrix) { return k + chunk * (DEPTHS_FIRST ? matrix % 2 : matrix / 2); };
    const int lane = threadIdx.x % 32, own = lane / 8;
    if constexpr (BY_DEPTH) {
        load_matrices(to, slab.at(place(own) + lane % 8, inner(own) / chunk));
    } else if constexpr (sizeof(T) == 2) {
        load_matrices_transposed(to, slab.at(inner(own) + lane % 8, place(own) / chunk));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int across = place(i) + lane / 4;
            to[i] = *(const unsigned*)(slab.at(inner(i) + lane % 4, across / chunk) + across % chunk);
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
        for (int x = 0; x < warp_m / 16; ++x) fragments<false>(a[x], SlabA{stage}, row + 16 * x, k);
#pragma unroll
        for (int y = 0; y < warp_n / 16; ++y) fragments<true>(b[y], SlabB{stage + tile_m * depth}, column + 16 * y, k);
    }
};

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const Right* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    T *const first_stage = (T*)shared, *const last_stage = first_stage + (stages - 1) * stage_size;
    const Place at(sizes, blockIdx.y, blockIdx.x);
    const Depth along(sizes);
    d += ((index)blockIdx.z * gridDim.y + at.batch) * sizes.m * sizes.n;
    a += at.batch * sizes.batch_a + along.first * (a_by_depth ? 1 : sizes.row_a);
    b += at.batch * sizes.batch_b + along.first * (b_by_depth ? 1 : sizes.row_b);
    LoaderA of_a(a, sizes.row_a, at.m0, sizes.m, along.left);
    LoaderB of_b(b, sizes.row_b, at.n0, sizes.n, along.left);
    const int slabs = along.slabs;
    const auto load = [&](int i, T* stage) {
        if (i < slabs) of_a.next(stage), of_b.next(stage + tile_m * depth);
        commit_copies();
    };
    for (int i = 0; i < stages - 1; ++i) load(i, first_stage + i * stage_size);

    const int warp = threadIdx.x / 32;
    const int warp_row = warp / warps_n * warp_m, warp_column = warp % warps_n * warp_n;
    float sums[warp_m / 16][warp_n / 2] = {};
    T *stage = first_stage, *free_stage = last_stage;
    const auto next = [&](T* one) { return one == last_stage ? first_stage : one + stage_size; };
    for (int i = 0; i < slabs; ++i) {
        wait_copies<stages - 2>();
        __syncthreads();
        Fragments of[2];  // those of the next step are loaded before this one's are multiplied
        of[0].load(stage, warp_row, warp_column, 0);
        load(i + stages - 1, free_stage);
#pragma unroll
        for (int k = 0; k < depth / step; ++k) {
            if (k + 1 < depth / step) of[(k + 1) % 2].load(stage, warp_row, warp_column, step * (k + 1));
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
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
        store<warp_n>(epilogue, d, sizes, at.batch, at.m0 + warp_row + 16 * x, at.n0 + warp_column, sums[x]);
}
