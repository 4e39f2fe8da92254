// What a mask has in each block of 16 queries and 16 keys: bit 0 if it is true anywhere, bit 1 if it is true everywhere.
// Launch: a thread for each block of a mask's matrices, in x.
constexpr int side = 16;
constexpr bool packs = << packs | lower >>;  // rows are aligned packs of 16 bytes

struct Mask {
    long long batch, head, query, key;  // strides
    int heads, queries, keys;
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned char* mask, unsigned char* blocks, Mask sizes, long long count)
{
    const long long i = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (i >= count) return;
    const int rows = divide_up(sizes.queries, side), columns = divide_up(sizes.keys, side);
    const int column = i % columns * side, row = i / columns % rows * side;
    const long long matrix = i / columns / rows;
    mask += matrix / sizes.heads * sizes.batch + matrix % sizes.heads * sizes.head + row * sizes.query + column * sizes.key;
    unsigned any = 0, all = ~0u;
#pragma unroll
    for (int r = 0; r < side; ++r) {
        if (row + r >= sizes.queries) break;
        if constexpr (packs) {
            const uint4 pack = *(const uint4*)(mask + r * sizes.query);
            any |= pack.x | pack.y | pack.z | pack.w;
            all &= pack.x & pack.y & pack.z & pack.w;
        } else {
            for (int c = 0; c < minimum(side, sizes.keys - column); ++c) {
                const unsigned one = mask[r * sizes.query + c * sizes.key] * 0x01010101u;
                any |= one;
                all &= one;
            }
        }
    }
    blocks[i] = (any != 0) + 2 * (all == 0x01010101u);
}
