// D = epilogue(A @ B) on the tensor cores of sm_90a, fed by the hardware's copies: for A (m, k) and B (k, n) of 16-bit floats, or
// of floats that are contiguous along k and whose digits beyond tf32 are left out, in batches: sums in float, and the epilogue an
// elementwise expression of the sum and of operands that broadcast to (m, n). Maps
// lead to the factors, each contiguous along one of its two axes, and to D, in rows that begin at multiples of 16 bytes.
// Launch: blocks of three warpgroups, of which each makes every gridDim.x-th tile. One thread of the last warpgroup brings
// slabs to a ring of stages, those of one tile after those of the other. The first two warpgroups share the rows of each tile
// and multiply. They keep a finished tile of 16-bit elements in registers, and store its parts while the first slabs of the next
// are multiplied. Or they make tiles by turns, so that one stores its tile while the other multiplies. Or they keep a tile's
// sums, and with each slab of the next tile finish a slice of 16 columns, whose arithmetic the tensor cores do not wait for. Then
// a row that is added to the product first is added when the sums are copied, and a matrix of D's shape and dtype (`brought`)
// comes by a map too, to where the parts of D that are made of it will be.
// A stage goes round: `empty` until both factors' slabs may be brought, `full` when all their bytes have come, and empty again
// when all warps have multiplied it.
// Blocks of a cluster make tiles that lie below one another: each brings its part of B's slab for all of them, once it is empty
// in all, so that B is read from the L2 once a cluster. The hardware gives clusters to its groups of multiprocessors (GPCs) in
// turn: if `apart` is the number of groups, every `apart`-th cluster is in the same one. These make tiles that follow one another,
// which share factors, and what several multiprocessors of a group read at a time is one request to the L2.
// With `saves` it stores the sums too, straight from registers.
// Shared, dynamic: the stages, then for each warpgroup two parts of 64 lines of D, or one, or, where a matrix comes to them, half a
// part for each 64 columns; 1024 bytes before for alignment.
<% include "linear/product.cuh" %>
<% include "linear/warpgroup.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/cluster_mbarrier.cuh" %>
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/mma.cuh" %>
constexpr bool by_turns = << by_turns | lower >>;  // each warpgroup makes every second tile alone
constexpr bool defers = << deferred | lower >>;  // finishes a tile while the next is multiplied
constexpr bool brings = << "true" if brought else "false" >>;  // a matrix, to where parts of D will be
constexpr int brought = << brought - 1 if brought else 0 >>;  // its place among the operands
constexpr int parts_each = brings ? tile_n / 64 : defers ? 1 : 2;  // of D in shared memory, of each warpgroup
constexpr bool keeps = !by_turns && !defers && sizeof(Out) == 2;  // the registers do not suffice for more bytes
constexpr int rows = by_turns ? tile_m : tile_m / 2;  // of a warpgroup
constexpr bool lets_next = << with_next | lower >>;  // the next kernel may begin where there is no tile
constexpr int apart = << apart >>;  // from a cluster to that which makes the tiles after its own
constexpr int cluster = << cluster >>, part_n = tile_n / cluster;  // blocks of a cluster, and the columns of B that each brings
constexpr int stage_bytes = stage_size * int(sizeof(T));
constexpr int part_line = brings ? line / 2 : line, part_size = 64 * part_line;  // of D, its lines and elements
constexpr int part_k = depth / cluster;  // where B's lines are contiguous along n, each block brings so many of them
static_assert(rows % 64 == 0 && depth == line && tile_n % 64 == 0 && part_n % 8 == 0, "tiles are copied in lines of 128 bytes");
static_assert(!defers || (rows == 64 && sizeof(Out) == 2 && !<< "true" if saves else "false" >>), "the registers do not suffice for more");
static_assert(sizeof(Out) == sizeof(T), "a line of D has as many elements");
// Tile `turn` of this block: in each turn the blocks make gridDim.x tiles that follow one another.
struct Turn {
    int number;

    __device__ __forceinline__ explicit Turn(int turn) {
        const int clusters = gridDim.x / cluster, own = blockIdx.x / cluster, group = own % apart;
        const int before = group * (clusters / apart) + minimum(group, clusters % apart);  // clusters of the groups before
        number = turn * gridDim.x + (before + own / apart) * cluster + blockIdx.x % cluster;
    }
    __device__ __forceinline__ bool there(const Sizes& sizes) const {
        return number < sizes.batches * sizes.tiles_m * sizes.tiles_n;
    }
    __device__ __forceinline__ Place place(const Sizes& sizes) const {
        const int tiles = sizes.tiles_m * sizes.tiles_n;
        return Place(sizes, number / tiles, number % tiles);
    }
};
// A stage of the ring, and the parity of the phase in which it is full.
struct Round {
    int stage, phase;

    // The one after `slabs` more.
    __device__ __forceinline__ void skip(int slabs) {
        phase ^= (stage + slabs) / stages % 2;
        stage = (stage + slabs) % stages;
    }
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};
// Asks for a slab of SIZE rows (or columns) of the product from `first` on, from depth `from` on, for BLOCKS blocks.
template <int SIZE, bool BY_DEPTH, int BLOCKS = 1>
__device__ __forceinline__ void bring(T* slab, const TensorMap& map, int batch, int first, int from, MBarrier* full) {
    const auto copy = [&](T* to, const int(&at)[3]) {
        if constexpr (BLOCKS == 1) copy_tile(to, map, at, full);
        else copy_tile_multicast(to, map, at, full, shl(1u, BLOCKS) - 1);
    };
    if constexpr (BY_DEPTH) {
        copy(slab, {batch, first, from});
    } else {
#pragma unroll
        for (int x = 0; x < SIZE; x += line) copy(slab + x * depth, {batch, from, first + x});
    }
}
<% include "linear/lane_operands.cuh" %>
// Elements of D of a warpgroup's 64 rows: for each eight columns of a part a pair of row g, then those of row g + 8.
struct Kept {
    Pair pairs[tile_n / 4];

    // Makes those of the part from column `x` on.
    __device__ __forceinline__ void finish(const Epilogue& epilogue, const PartOperands& own, int x, const float (&sums)[tile_n / 2]) {
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {
            const int half = i / groups, group = i % groups;
            alignas(Pair) Out two[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) two[j] = epilogue(sums[x / 2 + group * 4 + half * 2 + j], own.of[half][group].at(j));
            pairs[x / 4 + i] = *(const Pair*)two;
        }
    }
    // Stores the part from column `x` on through shared memory, by all threads of the warpgroup.
    __device__ __forceinline__ void store(const TensorMap& d, const Sizes& sizes, int group, int batch, int row, int column, int x, T* to) const {
        const int warp = threadIdx.x % 128 / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
        if (threadIdx.x % 128 == 0) wait_stores_read<1>();
        barrier_sync(1 + group, 128);  // the part may be written again
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {  // chunks change places as in a slab, and as the map says
            const int own = i % groups * 8 + 2 * q;
            *(Pair*)(to + (16 * warp + i / groups * 8 + g) * line + (own / chunk ^ g) * chunk + own % chunk) = pairs[x / 4 + i];
        }
        fence_to_async();
        barrier_sync(1 + group, 128);
        if (threadIdx.x % 128 == 0) {
            if (row < sizes.m && column + x < sizes.n) store_tile(d, {batch, row, column + x}, to);
            commit_stores();
        }
    }
};

<% set parameters %>
<% for x in operands %><< "const __grid_constant__ TensorMap matrix" if x.k == brought else "const %s* x%d" % (x.type, x.k) >>, <% endfor %><% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>
<% endset %>
<% set arguments %>
<% for x in operands %><< "nullptr" if x.k == brought else "x%d" % x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>
<% endset %>
extern "C" __global__ void __launch_bounds__(threads, 1) __cluster_dims__(<< cluster >>, 1, 1) << name >>(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
    << parameters | trim >>
    const __grid_constant__ TensorMap d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<< arguments | trim >> steps};
    << "const TensorMap& matrix = d;  // there is none" if not brought >>
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    __shared__ MBarrier all_full[stages], all_empty[stages], all_brought[brings ? 2 * parts_each : 1];
    MBarrier *const full = in_register(&all_full[0]), *const empty = in_register(&all_empty[0]);
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], (by_turns ? 4 : 8) * cluster);
        }
        for (int i = 0; brings && i < 2 * parts_each; ++i) mbarrier_init(&all_brought[i], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (cluster > 1) cluster_barrier();
    if constexpr (lets_next) allow_next_kernel();

    // Of a tile that waits to be finished, one with each slab of the next: what slabs lie beyond the depth are zeros.
    constexpr int slices = tile_n / 16;
    const int slabs = maximum(divide_up(sizes.k, depth), defers ? slices : 1), group = own_group();
    if (group == 2) {
        give_registers<24>();
        Round at{0, 0};
        for (int turn = 0; threadIdx.x == 256 && Turn(turn).there(sizes); ++turn) {
            const Place place = Turn(turn).place(sizes);
            const int own_n = cluster_rank() * part_n, own_k = cluster_rank() * part_k;  // which columns or depths of B
            for (int i = 0; i < slabs; ++i, at.next()) {
                T *const left = ring + at.stage * stage_size, *const right = left + tile_m * depth;
                const int of_a = sizes.batch_a ? place.batch : 0, of_b = sizes.batch_b ? place.batch : 0;
                MBarrier* const barrier = &full[at.stage];
                mbarrier_wait(&empty[at.stage], at.phase ^ 1);
                mbarrier_arrive_expecting(barrier, stage_bytes);
                bring<tile_m, a_by_depth>(left, a, of_a, place.m0, i * depth, barrier);
                if constexpr (b_by_depth) bring<part_n, true, cluster>(right + own_n * depth, b, of_b, place.n0 + own_n, i * depth, barrier);
                else bring<tile_n, false, cluster>(right + own_k * line, b, of_b, place.n0, i * depth + own_k, barrier);
            }
        }
        return;
    }
    take_registers<240>();
    T* const parts = ring + stages * stage_size + group * parts_each * part_size;
    const auto arrive = [](MBarrier* barrier) {  // at the barrier of each block of the cluster
        __syncwarp();
        if (cluster == 1 && threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
        if (cluster > 1 && threadIdx.x % 32 < cluster) mbarrier_free_at(barrier, threadIdx.x % 32);
    };
    const int first_row = by_turns ? 0 : rows * group;  // in a tile
    float sums[rows / 64][tile_n / 2];
    const auto left_at = [&](int x) { return part(SlabA{ring}, first_row + 64 * x).in_register(); };
    const SharedMatrix lefts[2] = {left_at(0), left_at(rows / 64 - 1)}, first_right = part(SlabB{ring + tile_m * depth}, 0).in_register();
    Round at{0, 0};
    int before = 0, behind = 0;  // the stage of the slab that is multiplied, and of the one before it
    const auto await = [&] { mbarrier_wait(&full[at.stage], at.phase); };
    const auto begin = [&](bool first) {  // what has come is multiplied from now on
        wgmma_fence();
#pragma unroll
        for (int x = 0; x < rows / 64; ++x) {
            SharedMatrix left = lefts[x].later(at.stage * stage_bytes), right = first_right.later(at.stage * stage_bytes);
#pragma unroll
            for (int k = 0; k < depth; k += step) {
                wgmma<T, tile_n, a_by_depth, b_by_depth>(sums[x], left, right, !first || k > 0);
                left += step_a;
                right += step_b;
            }
        }
        wgmma_commit();
        behind = before, before = at.stage;
        at.next();
    };
    const auto release = [&](bool first) {
        wgmma_wait<1>(sums[0]);  // the slab before this one has been multiplied
        if (!first) arrive(&empty[behind]);
    };
    const auto multiply = [&](bool first) {
        await();
        begin(first);
        release(first);
    };
    Kept kept[defers ? 1 : rows / 64];
    int batch = 0, row = sizes.m, column = 0;  // of what is kept; there is nothing at first
    constexpr int across = tile_n / line;
    const auto store = [&](int i) {  // part i of it
        kept[i / across].store(d, sizes, group, batch, row + i / across * 64, column, i % across * line, parts + i % 2 * part_size);
    };
    constexpr int tile_parts = rows / 64 * across;
    // Where the tiles of 32 turns are: each lane knows that of one, as it takes more than a hundred instructions.
    const auto places = [&](int turn) { return Turn(turn + threadIdx.x % 32).place(sizes); };
    int first_known = by_turns ? group : 0;
    Place known = places(first_known);
    const auto found_at = [&](int turn) {
        if (turn - first_known == 32) known = places(first_known = turn);
        const auto given = [&](int own) { return __shfl_sync(0xffffffffu, own, turn - first_known); };
        Place place = known;
        place.batch = given(known.batch), place.m0 = given(known.m0) + first_row, place.n0 = given(known.n0);
        return place;
    };
    float waiting[defers ? tile_n / 2 : 1] = {};
    TileOperands found(epilogue, sizes, 0, 0, 0);  // nothing waits yet
    constexpr int early = slice_registers <= 6 ? 3 : slice_registers <= 8 ? 2 : 1;  // slices whose operands are on their way
    SliceOperands operands[early + 1] = {};
    // Where a lane's chunk of a part's first slice is, in bytes: chunks change places as in a slab, and as the map says.
    constexpr int chunks = part_line / chunk;
    const int own_line = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16;
    const int own_chunk = in_register(
        int((unsigned char*)parts - shared) + own_line * chunks * 16 + (own_line * chunks / 8 % chunks ^ threadIdx.x % 32 / 16) * 16);
    // Parts of the matrix come to where those of D will be: the first three of a tile while the tile before it is finished.
    MBarrier* const own_brought = in_register(&all_brought[group * parts_each]);
    Place next = known;  // where the tile is that is multiplied
    constexpr int all_parts = tile_n / part_line;
    static_assert(!brings || all_parts == 2 * parts_each, "the parity of a phase is known");
    const auto bring_part = [&](int i, int of_batch, int m0, int n0) {  // after the part before was stored from there
        if (threadIdx.x % 128) return;
        wait_stores_read<0>();
        MBarrier* const barrier = &own_brought[i % parts_each];
        mbarrier_arrive_expecting(barrier, part_size * sizeof(T));
        copy_tile(parts + i % parts_each * part_size, matrix, {steps.of[brought][0] ? of_batch : 0, m0, n0 + i * part_line}, barrier);
    };
    if constexpr (brings) {
#pragma unroll
        for (int i = 0; i < parts_each; ++i) bring_part(i, 0, sizes.m, 0);  // of no tile: zeros
    }
    const auto finish_slice = [&](int i, bool multiplies) {
        if (i + early < slices) found.load(operands[(i + early) % (early + 1)], epilogue, i + early);
        constexpr int of_part = part_line / 16;
        const int own_part = i / of_part, place_of_part = own_part % parts_each;
        if (brings && i % of_part == 0) mbarrier_wait(&own_brought[place_of_part], own_part / parts_each);
        if (!brings && i % of_part == 0) {
            if (threadIdx.x % 128 == 0) wait_stores_read<0>();
            barrier_sync(1 + group, 128);  // the part may be written again
        }
        unsigned char* const own = shared + place_of_part * part_size * sizeof(T) + (own_chunk ^ i % of_part * 32);
        SliceOperands& of_slice = operands[i % (early + 1)];
        unsigned pairs[4];
        if constexpr (brings) {
            load_matrices(pairs, own);
            of_slice.bring(pairs);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            alignas(unsigned) Out two[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) two[e] = epilogue(waiting[8 * i + 2 * j + e], of_slice.of[j % 2][j / 2].at(e));
            pairs[j] = *(const unsigned*)two;
        }
        store_matrices(own, pairs);
        if (brings && i % of_part == 0 && own_part > 0) {
            const int part = own_part - 1 + parts_each;
            if (part < all_parts) bring_part(part, batch, row, column);
            else if (multiplies) bring_part(part - all_parts, next.batch, next.m0, next.n0);
        }
        if ((i + 1) % of_part == 0) {
            const int x = own_part * part_line;
            fence_to_async();
            barrier_sync(1 + group, 128);
            if (threadIdx.x % 128 == 0) {
                if (row < sizes.m && column + x < sizes.n) store_tile(d, {batch, row, column + x}, parts + place_of_part * part_size);
                commit_stores();
            }
        }
    };
    if (by_turns && group == 1) {
        barrier_arrive(3, 256);
        at.skip(slabs);
    }
    for (int turn = first_known; Turn(turn).there(sizes); turn += by_turns ? 2 : 1) {
        if constexpr (keeps) {
#pragma unroll
            for (int i = 0; i < tile_parts; ++i) {
                if (i < slabs) multiply(i == 0);
                store(i);
            }
        }
        if constexpr (brings) next = found_at(turn);
        if constexpr (defers) {
#pragma unroll
            for (int i = 0; i < slices; ++i) {
                if (i == 0) await();
                begin(i == 0);
                release(i == 0);
                if (i + 1 < slices) await();  // ptxas leaves the slice's arithmetic behind this, and so behind the products
                finish_slice(i, true);
            }
        }
        if constexpr (by_turns) barrier_sync(3 + group, 256);  // the other one has had all slabs before these
        for (int i = keeps ? tile_parts : defers ? slices : 0; i < slabs; ++i) multiply(!keeps && i == 0);
        if constexpr (by_turns) barrier_arrive(4 - group, 256);
        const Place place = brings ? next : found_at(turn);
        batch = place.batch, row = place.m0, column = place.n0;
        if constexpr (defers) {
            found = TileOperands(epilogue, sizes, batch, row, column);
#pragma unroll
            for (int i = 0; i < early; ++i) found.load(operands[i], epilogue, i);
            const AddedRow row_to_add(epilogue, sizes, batch, column);
            wgmma_wait<0>(sums[0]);
            arrive(&empty[before]);
#pragma unroll
            for (int i = 0; i < tile_n / 2; ++i) waiting[i] = in_register(row_to_add.to(sums[0][i], i));
            if constexpr (brings) bring_part(parts_each - 1, batch, row, column);
            continue;
        }
        PartOperands of_parts[ahead];  // on their way while the last slab is multiplied, and parts are made
        const auto load = [&](int i) {
            of_parts[i % ahead].load(epilogue, sizes, batch, row + i / across * 64, column + i % across * line);
        };
#pragma unroll
        for (int i = 0; i < ahead; ++i) load(i);
        wgmma_wait<0>(sums[0]);
        if constexpr (rows > 64) wgmma_made(sums[1]);
        arrive(&empty[before]);
        if constexpr (by_turns) at.skip(slabs);
<% if saves %>
#pragma unroll
        for (int x = 0; x < rows / 64; ++x)
            ::store<tile_n>(
                Rounded{}, saved + (index)batch * sizes.m * sizes.n, sizes, batch, row + 64 * x + threadIdx.x % 128 / 32 * 16, column, sums[x]);
<% endif %>
#pragma unroll
        for (int i = 0; i < tile_parts; ++i) {
            kept[i / across].finish(epilogue, of_parts[i % ahead], i % across * line, sums[i / across]);
            if (i + ahead < tile_parts) load(i + ahead);
            if constexpr (!keeps && !by_turns) store(i);
        }
        if constexpr (by_turns) {
#pragma unroll
            for (int i = 0; i < tile_parts; ++i) store(i);
        }
    }
    if constexpr (keeps) {
#pragma unroll
        for (int i = 0; i < tile_parts; ++i) store(i);
    }
    if constexpr (defers) {
#pragma unroll
        for (int i = 0; i < slices; ++i) finish_slice(i, false);
    }
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
    if (cluster > 1) cluster_barrier();  // others may still bring to this block, or arrive at it
}
