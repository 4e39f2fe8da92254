// A pass of a stable radix sort of rows of `n` elements: they are scattered by a digit of their keys, read once, with
// decoupled look-back (Adinets and Merrill, "Onesweep: a faster least significant digit radix sort for GPUs", 2022).
// keys and out (rows, n), the bits of the elements as integers<< "; indices, null in the first pass, and out_indices likewise" if indexed >>.
// counts (rows, passes, digits): the digit histograms. status: a word for the ticket, then for each tile of each row a
// word per digit, all 0 before.
// Launch: a block per tile, of the `tiles` of a row. A block draws its tile by a ticket, so the tiles before it are running
// or done, and a thread per digit looks back at them for the offset of the tile's first key of that digit.
// Shared: the tile in its new order, and the counts of each warp.
<% include "index/radix.cuh" %>
<% include "prelude/alike.cuh" %>
constexpr int tile = block * items, warps = block / 32;
static_assert(block >= digits, "a thread per digit");
// Status of a digit's count: that of the tile, and the inclusive prefix.
constexpr int value_bits = 8 * int(sizeof(Word)) - 2;
constexpr Word of_tile = Word(1) << "<<" >> value_bits, up_to_tile = of_tile * 2, values = of_tile - 1;

// The inclusive scan over `digits` threads; `of_warps` is shared memory for it.
__device__ __forceinline__ Word sum_up_to(Word number, Word* of_warps) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const Word other = __shfl_up_sync(0xffffffffu, number, distance);
        if (lane >= distance) number += other;
    }
    if (lane == 31) of_warps[warp] = number;
    __syncthreads();
    for (int w = 0; w < digits / 32; ++w) {
        if (w < warp) number += of_warps[w];
    }
    __syncthreads();
    return number;
}

// Look-back: how many keys of the `tiles` tiles before this one have a digit; `status` is the word of this one. Several are
// read at a time, since most running blocks have only their own count there.
__device__ __forceinline__ Word count_before(const volatile Word* status, I tiles) {
    constexpr int ahead = 4;
    Word sum = 0;
    for (;; tiles -= ahead) {
        Word told[ahead];
#pragma unroll
        for (int k = 0; k < ahead; ++k) told[k] = k < tiles ? status[-(k + 1) * digits] : up_to_tile;
#pragma unroll
        for (int k = 0; k < ahead; ++k) {
            while (!told[k]) {
                __nanosleep(20);
                told[k] = status[-(k + 1) * digits];
            }
            sum += told[k] & values;
            if (told[k] >= up_to_tile) return sum;
        }
        status -= ahead * digits;
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>, << resident >>) << name >>(
    const K* __restrict__ keys, << "const I* __restrict__ indices, " if indexed >>K* __restrict__ out,
    << index_out ~ "* __restrict__ out_indices, " if indexed >>const Word* __restrict__ counts, Word* status,
    long long rows, I n, I tiles, int pass)
{
    __shared__ union {
        K keys[tile];
        I indices[indexed ? tile : 1];
    } staged;
    __shared__ unsigned of_warp[warps][digits];
    // Where the first key of a digit goes, less its index in the tile's new order.
    __shared__ I target[digits];
    __shared__ Word sums[block / 32];
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)status, 1u);
    for (int i = threadIdx.x; i < warps * digits; i += block) of_warp[i / digits][i % digits] = 0;
    __syncthreads();
    const long long row = ticket % rows;
    const I number = I(ticket / rows), first = number * tile;
    const int size = int(minimum(I(tile), n - first)), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int own = warp * 32 * items + lane, bit = 8 * pass;
    const long long base = row * n + first;
    K held[items];
#pragma unroll
    for (int i = 0; i < items; ++i) held[i] = own + 32 * i < size ? canonical(keys[base + own + 32 * i]) : K(0);
    const Word count = threadIdx.x < digits ? counts[(row * passes + pass) * digits + threadIdx.x] : 0;
    // All keys of the row have the same digit: they stay where they are.
    if (__syncthreads_or(count == Word(n))) {
#pragma unroll
        for (int i = 0; i < items; ++i) {
            const int at = own + 32 * i;
            if (at >= size) break;
            out[base + at] = held[i];
            << "out_indices[base + at] = indices ? indices[base + at] : first + at;" if indexed >>
        }
        return;
    }
    // Padding past the end of the row has the last digit, and comes last.
#pragma unroll
    for (int i = 0; i < items; ++i)
        atomicAdd(&of_warp[warp][own + 32 * i < size ? digit_of(held[i], bit) : digits - 1], 1u);
    __syncthreads();
    unsigned in_tile = 0;
    volatile Word* const told = status + 1 + (row * tiles + number) * digits + threadIdx.x;
    if (threadIdx.x < digits) {
        for (int w = 0; w < warps; ++w) {
            const unsigned others = of_warp[w][threadIdx.x];
            of_warp[w][threadIdx.x] = in_tile;
            in_tile += others;
        }
        *told = (number ? of_tile : up_to_tile) | in_tile;
    }
    const Word start = sum_up_to(count, sums) - count;
    const unsigned offset = unsigned(sum_up_to(in_tile, sums)) - in_tile;
    if (threadIdx.x < digits)
        for (int w = 0; w < warps; ++w) of_warp[w][threadIdx.x] += offset;
    __syncthreads();
    int rank[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int digit = own + 32 * i < size ? digit_of(held[i], bit) : digits - 1;
        const unsigned same = lanes_alike<8>(digit), before = of_warp[warp][digit];
        const int others = __popc(same & (shl(1u, lane) - 1));
        rank[i] = int(before) + others;
        __syncwarp();
        if (others == 0) of_warp[warp][digit] = before + __popc(same);
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < items; ++i) staged.keys[rank[i]] = held[i];
    // By now the tiles before have written their counts.
    if (threadIdx.x < digits) {
        const Word before = number ? count_before(told, number) : 0;
        if (number) *told = up_to_tile | (before + in_tile);
        target[threadIdx.x] = I(start + before) - I(offset);
    }
    __syncthreads();
    I to[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int at = i * block + threadIdx.x;
        const K key = staged.keys[at];
        to[i] = target[digit_of(key, bit)] + at;
        if (at < size) out[row * n + to[i]] = key;
    }
<% if indexed %>
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int at = own + 32 * i;
        staged.indices[rank[i]] = indices && at < size ? indices[base + at] : first + at;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int at = i * block + threadIdx.x;
        if (at < size) out_indices[row * n + to[i]] = staged.indices[at];
    }
<% endif %>
}
