// The gradient of nn/convolution/depthwise_weights.cu for 16-bit floats whose pixels lie innermost, by tensor cores, with whole planes
// of image and output in shared memory (sm_90 and up). A block owns a channel in a part of the batch: each warp has every so many-th
// image of it, whose planes are copied while it multiplies those before.
// A band of rows of the output are the rows of A, and the rows of the image that its windows read, moved by a column of taps, the
// columns of B: row o of the one and o + a of the other make a sum of tap row a, and the other elements of D are left out.
// A product's depth may be counted in any order: a lane has `per` neighbouring columns of each of its rows.
// Launch: blockIdx.x numbers channels, then parts of the batch, whose sums lie behind one another. Shared, dynamic: `stages` planes of
// image and output of each warp; static: the sums of warps.
<% include "prelude/mma.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/bulk_copy.cuh" %>
using T = << elem >>;
using index = << index >>;
constexpr int warps = << warps >>, stages = << stages >>, taps_y = << taps_y >>, taps_x = << taps_x >>, taps = taps_y * taps_x;
constexpr int height = << height >>, out_height = << out_height >>, columns = << columns >>, before = << before >>;  // before: columns of padding
constexpr int items = << items >>, per = << per >>, words = per / 2;  // columns of an access, and of a lane, two a word
constexpr int image_stage = << image_stage >>, stage_size = << stage >>;  // elements of whole lines: of the image, and of both
constexpr int each = << each >>, left = out_height % each, blocks = (each + taps_y + 6) / 8;  // rows of a band, of the last, blocks of B
static_assert(sizeof(T) == 2 && columns % items == 0 && per % items == 0 && per % 4 == 0 && 4 * per >= columns, "lanes share a row");
static_assert(each + taps_y - 1 <= 16 && before < taps_x && taps_x <= 3, "B has 16 columns at most, each with a word on either side");

// Strides of the weights; channels; images, and those of a part; top: the row in the image of the first output's window.
<< Sizes >>
// Elements of D, of a block of B each.
using Sums = float[taps_x][blocks][4];

// A lane's columns of a row, from column `first`: zeros where it has none.
__device__ __forceinline__ void load_words(unsigned* to, const T* line, int first, bool is) {
    constexpr int pack = items / 2;
#pragma unroll
    for (int i = 0; i < words; i += pack) {
        const bool there = is && (3 * per + 2 * i < columns || first + 2 * i < columns);
        const Pack<unsigned, pack> own = there ? load_pack<pack>((const unsigned*)(line + first + 2 * i)) : Pack<unsigned, pack>{};
#pragma unroll
        for (int j = 0; j < pack; ++j) to[i + j] = own.at[j];
    }
}
// Word j of a lane's columns of the row in `x`, moved by `by` columns; x[0] and x[words + 1] are its neighbours'. Where the output has
// no column it is zero, as is the output's: infinity times zero is not.
__device__ __forceinline__ unsigned moved(const unsigned (&x)[words + 2], int j, int by, int first) {
    const int at = j + (by + 2) / 2;
    const bool sure = by >= 0 || 2 * j % items || 3 * per + 2 * j < columns;
    const unsigned word = by % 2 ? __byte_perm(x[at], x[at + 1], 0x5432) : x[at];
    return sure || first + 2 * j < columns ? word : 0;
}
// Adds the products of a band, from row `top` of the image and row `row` of the output on.
__device__ __forceinline__ void add_band(Sums& sums, const T* image, const T* output, int top, int row) {
    const int lane = threadIdx.x % 32, first = lane % 4 * per, rows = lane / 4;
    unsigned of_output[2][words] = {}, of_image[blocks][words + 2];
#pragma unroll
    for (int i = 0; i < (each > 8 ? 2 : 1); ++i) {
        const int at = row + rows + 8 * i;
        load_words(of_output[i], output + at * columns, first, at < out_height);
    }
#pragma unroll
    for (int i = 0; i < blocks; ++i) {
        const int at = top + rows + 8 * i;
        unsigned(&own)[words + 2] = of_image[i];
        load_words(own + 1, image + at * columns, first, unsigned(at) < unsigned(height));
        const unsigned above = __shfl_up_sync(0xffffffff, own[words], 1), below = __shfl_down_sync(0xffffffff, own[1], 1);
        own[0] = lane % 4 > 0 ? above : 0;
        own[words + 1] = lane % 4 < 3 ? below : 0;
    }
#pragma unroll
    for (int j = 0; j < words; j += 2) {
        const unsigned a[4] = {of_output[0][j], of_output[1][j], of_output[0][j + 1], of_output[1][j + 1]};
#pragma unroll
        for (int tap = 0; tap < taps_x; ++tap) {
#pragma unroll
            for (int i = 0; i < blocks; ++i) {
                const unsigned b[2] = {moved(of_image[i], j, tap - before, first), moved(of_image[i], j + 1, tap - before, first)};
                mma<T>(sums[tap][i], a, b);
            }
        }
    }
}
// Adds to each tap those elements of D that belong to it, of a band of so many rows.
__device__ __forceinline__ void add_taps(float (&to)[taps], const Sums& sums, int rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < taps * blocks * 4; ++i) {
        const int tap = i / (blocks * 4), block = i / 4 % blocks, k = i % 4;
        const int row = lane / 4 + 8 * (k / 2), column = 8 * block + 2 * (lane % 4) + k % 2;
        if (row < rows && column - row == tap / taps_x) to[tap] += sums[tap % taps_x][block][k];
    }
}

extern "C" __global__ void __launch_bounds__(32 * warps, << resident >>) << name >>(const T* output, const T* image, << out >>* d, Sizes g)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ MBarrier full[warps][stages];
    __shared__ float of_warps[warps][taps];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channel = blockIdx.x % g.channels, part = blockIdx.x / g.channels;
    T* const ring = (T*)shared + warp * stages * stage_size;
    if (lane == 0) {
        for (int i = 0; i < stages; ++i) mbarrier_init(&full[warp][i], 1);
        fence_mbarrier_init();
    }
    __syncwarp();
    const int end = minimum((part + 1) * g.share, g.batch);
    const auto copy_planes = [&](int number, int stage) {
        constexpr int of_image = height * columns, of_output = out_height * columns;
        if (lane != 0 || number >= end) return;
        T* const to = ring + stage * stage_size;
        const index plane = (index)number * g.channels + channel;
        mbarrier_arrive_expecting(&full[warp][stage], (of_image + of_output) * int(sizeof(T)));
        copy_bulk(to, image + plane * of_image, of_image * sizeof(T), &full[warp][stage]);
        copy_bulk(to + image_stage, output + plane * of_output, of_output * sizeof(T), &full[warp][stage]);
    };
    const int own = part * g.share + warp;
    for (int i = 0; i < stages; ++i) copy_planes(own + i * warps, i);
    Sums sums = {}, last = {};  // of bands of `each` rows, and of `left`
    for (int number = own, iteration = 0; number < end; number += warps, ++iteration) {
        const int stage = iteration % stages;
        const T *const x = ring + stage * stage_size, *const dy = x + image_stage;
        mbarrier_wait(&full[warp][stage], iteration / stages % 2);
        int row = 0;
        for (; row + each <= out_height; row += each) add_band(sums, x, dy, g.top + row, row);
        if (left > 0) add_band(last, x, dy, g.top + row, row);
        __syncwarp();
        copy_planes(number + stages * warps, stage);
    }
    float of_taps[taps] = {};
    add_taps(of_taps, sums, each);
    if (left > 0) add_taps(of_taps, last, left);
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) of_taps[tap] += shuffle_xor(of_taps[tap], distance);
        if (lane == 0) of_warps[warp][tap] = of_taps[tap];
    }
    __syncthreads();
    d += (index)part * g.channels * taps + channel * g.weights.group;
    for (int tap = threadIdx.x; tap < taps; tap += 32 * warps) {
        float total = of_warps[0][tap];
        for (int i = 1; i < warps; ++i) total += of_warps[i][tap];
        d[tap / taps_x * g.weights.row + tap % taps_x * g.weights.column] = cast< << out >> >(total);
    }
}
