// Lists of the tiles of scores in which a mask leaves something, from what it has in blocks of 16 queries and 16 keys: for each tile
// of rows those along the keys, or for each tile of keys those along the rows. A list is the number of its tiles, then of each
// its number along the way twice, plus one if the mask is true throughout, then zeros. A row is a query of one of `group` heads;
// blocks that reach into a tile count as if they were of it.
// Launch: << lanes >> threads for each list, in x.
constexpr int side = 16, lanes = << lanes >>;

// Strides of blocks, 0 along an axis that the mask has not; the count of all lists; lists of a batch for each tile, and the heads
// of which each is; lists of a head, and tiles along the way; and whether lists are of tiles of keys.
<< Lists >>
struct Blocks : Lists {
    // One tile of scores: bit 0 and bit 1 as those of a block.
    __device__ __forceinline__ int kind(const unsigned char* blocks, int tile_of_rows, int tile_of_keys) const {
        const long long first = (long long)tile_of_rows * tile_m;
        const int first_query = query ? int(first / group) / side : 0;
        const int last_query = query ? minimum(int((first + tile_m - 1) / group), queries - 1) / side : 0;
        const int first_key = key ? tile_of_keys * tile_n / side : 0;
        const int last_key = key ? (minimum(tile_of_keys * tile_n + tile_n, keys) - 1) / side : 0;
        int any = 0, all = 2;
        for (int h = 0; h < (head ? sharing : 1); ++h)
            for (int i = first_query; i <= last_query; ++i)
                for (int j = first_key; j <= last_key; ++j) {
                    const int one = blocks[h * head + i * query + j * key];
                    any |= one & 1;
                    all &= one;
                }
        return any | all;
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(const unsigned char* blocks, int* lists, Lists given) {
    const Blocks sizes{given};
    const long long which = (long long)blockIdx.x * (<< block >> / lanes) + threadIdx.x / lanes;
    if (which >= sizes.count) return;
    const int lane = threadIdx.x % lanes, tile = which % sizes.tiles;
    const long long matrix = which / sizes.tiles;
    blocks += matrix / sizes.heads * sizes.batch + matrix % sizes.heads * sizes.sharing * sizes.head;
    int* const list = lists + which * (sizes.along + 1);
    int count = 0;
    for (int first = 0; first < sizes.along; first += lanes) {
        const int own = first + lane;
        const int kind = own >= sizes.along ? 0 : sizes.of_keys ? sizes.kind(blocks, own, tile) : sizes.kind(blocks, tile, own);
        const unsigned present = lanes == 32 ? __ballot_sync(0xffffffffu, kind & 1) : kind & 1;
        if (kind & 1) list[1 + count + __popc(present & (shl(1u, lane) - 1))] = 2 * own + (kind > 1);
        count += __popc(present);
    }
    for (int i = count + lane; i < sizes.along; i += lanes) list[1 + i] = 0;
    if (lane == 0) list[0] = count;
}
