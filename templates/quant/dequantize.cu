// y[i, :] = the weights of row indices[i] of blocks, or of row i if all rows are wanted.
// Launch: each thread owns `piece` units, whose bytes it reads once; one if it does not run alone. Then a warp's weights go
// through shared memory, so that its stores are of neighbours.
<% include "quant/kind.cuh" %>
<% include "lib/pack.cuh" %>
<% include "lib/wrap_index.cuh" %>
using index = << index >>;
using T = << elem >>;
using IndexT = << index_type >>;
constexpr bool placed = << "true" if placed else "false" >>;
constexpr int width = 16 / sizeof(T), packs = 16 / width;  // weights of a store, stores of a group
using Held = Pack<T, width>;

// Weights of a group, from its j-th on.
__device__ __forceinline__ Held held(const Group& group, int j) {
    Held result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = cast<T>(weight(group, j + k));
    return result;
}
// Where the number i of the 16-byte chunks of a warp is: lanes that write the same chunk of their rows of 128 bytes do not meet
// in the banks.
__device__ __forceinline__ int swizzled(int i) { return i ^ i / 8 % 8; }

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned char* blocks, const IndexT* indices, T* y, index count, index piece, index row_blocks, long long rows)
{
    const index first = (index(blockIdx.x) * << block >> + index(threadIdx.x)) * piece, end = minimum(count, first + piece);
    const auto unit_of = [&](index i) {
        const index block = i / Kind::units, row = block / row_blocks;
        const long long from = placed ? in_range(indices[row], rows) : (long long)row;
        return Kind::Unit(blocks + (from * row_blocks + block % row_blocks) * Kind::bytes, int(i % Kind::units));
    };
<% if serial %>
    for (index i = first; i < end; ++i) {
        const Kind::Unit unit = unit_of(i);
        T* const to = y + (long long)(i / Kind::units) * Kind::weights;
        for (int g = 0; g < Kind::groups; ++g) {
            const Group group = unit.decode(g);
            for (int j = 0; j < 16; j += width) store_pack(to + 16 * group_of<Kind>(int(i % Kind::units), g) + j, held(group, j));
        }
    }
<% else %>
    constexpr int own = Kind::groups * packs;  // chunks of a unit
    __shared__ Held of_warps[<< block >> / 32][32 * own];
    Held* const of_warp = of_warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const index before = first - lane;
    // The bytes of a warp's blocks follow each other: they come in chunks where these are aligned, and lanes read them there.
    constexpr int bytes = 32 / Kind::units * Kind::bytes;
    const unsigned char* const from = blocks + (long long)(before / Kind::units) * Kind::bytes;
    const bool together = !placed && bytes % 16 == 0 && before + 32 <= count && (unsigned long long)from % 16 == 0;
    if (together) {
        for (int i = lane; i < bytes / 16; i += 32) ((uint4*)of_warp)[i] = ((const uint4*)from)[i];
        __syncwarp();
    }
    if (first < end) {
        Kind::Unit unit;
        if (together) {
            unit = Kind::Unit((const unsigned char*)of_warp + lane / Kind::units * Kind::bytes, lane % Kind::units);
            __syncwarp();
        } else {
            unit = unit_of(first);
        }
        // Units of a block in two: its index is that of the first of its block, or of its pair, in the warp.
        const int part = int(first % Kind::units);
#pragma unroll
        for (int g = 0; g < Kind::groups; ++g) {
            const Group group = unit.decode(g);
            const int number = (lane - part) * Kind::groups + group_of<Kind>(part, g);
#pragma unroll
            for (int j = 0; j < packs; ++j) of_warp[swizzled(number * packs + j)] = held(group, j * width);
        }
    }
    __syncwarp();
    const index present = minimum(count - before, index(32)) * own;
    Held* const to = (Held*)y + (long long)before * own;
#pragma unroll
    for (int i = 0; i < 32 * own; i += 32)
        if (i + lane < present) to[i + lane] = of_warp[swizzled(i + lane)];
<% endif %>
}
