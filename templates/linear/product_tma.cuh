// What the kernels of D = epilogue(A @ B) share that the hardware's copies feed: blocks of three warpgroups, of which each makes
// every gridDim.x-th tile. One thread of the last warpgroup brings slabs to a ring of stages, those of one tile after those of the
// other; the first two warpgroups multiply.
// A stage goes round: `empty` until both factors' slabs may be brought, `full` when all their bytes have come, and empty again
// when all warps have multiplied it.
// Blocks of a cluster make tiles that lie below one another: each brings its part of B's slab for all of them, once it is empty
// in all, so that B is read from the L2 once a cluster. The hardware gives clusters to its groups of multiprocessors (GPCs) in
// turn: if `apart` is the number of groups, every `apart`-th cluster is in the same one. These make tiles that follow one another,
// which share factors, and what several multiprocessors of a group read at a time is one request to the L2.
<% include "linear/product.cuh" %>
<% include "linear/warpgroup.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/cluster_mbarrier.cuh" %>
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/mma.cuh" %>
constexpr bool by_turns = << by_turns | lower >>;  // each warpgroup makes every second tile alone
constexpr int rows = by_turns ? tile_m : tile_m / 2;  // of a warpgroup
constexpr bool lets_next = << with_next | lower >>;  // the next kernel may begin where there is no tile
constexpr int apart = << apart >>;  // from a cluster to that which makes the tiles after its own
constexpr int cluster = << cluster >>, part_n = tile_n / cluster;  // blocks of a cluster, and the columns of B that each brings
constexpr int stage_bytes = stage_size * int(sizeof(T));
constexpr int part_k = depth / cluster;  // where B's lines are contiguous along n, each block brings so many of them
constexpr int part_line = << "line / 2" if brought else "line" >>, part_size = 64 * part_line;  // of a part of D, its lines and elements
constexpr int kept_bytes = 8 * 1024 * 1024;  // of B, at most, a sixth of the L2 of an H100
constexpr int slots = << slots >>;  // for parts in shared memory, of each warpgroup
static_assert(rows % 64 == 0 && depth == line && tile_n % 64 == 0 && part_n % 8 == 0, "tiles are copied in lines of 128 bytes");
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
    // The same, computed where this is called: the compiler does not put it off until it is used.
    __device__ __forceinline__ Place place_now(const Sizes& sizes) const {
        Place found = place(sizes);
        found.batch = in_register(found.batch), found.m0 = in_register(found.m0), found.n0 = in_register(found.n0);
        return found;
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
// The policy is for copies to several blocks; those to one have none.
template <int SIZE, bool BY_DEPTH, int BLOCKS = 1>
__device__ __forceinline__ void bring(T* slab, const TensorMap& map, int batch, int first, int from, MBarrier* full, CachePolicy policy = evict_normal()) {
    const auto copy = [&](T* to, const int(&at)[3]) {
        if constexpr (BLOCKS == 1) copy_tile(to, map, at, full);
        else copy_tile_multicast(to, map, at, full, shl(1u, BLOCKS) - 1, policy);
    };
    if constexpr (BY_DEPTH) {
        copy(slab, {batch, first, from});
    } else {
#pragma unroll
        for (int x = 0; x < SIZE; x += line) copy(slab + x * depth, {batch, from, first + x});
    }
}
// What threads share: the stages, which begin at a multiple of 1024 bytes, and their barriers.
struct Ring {
    T* first;
    MBarrier *full, *empty;

    __device__ __forceinline__ Ring(unsigned char* shared, MBarrier* full, MBarrier* empty)
        : first((T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024)), full(in_register(full)), empty(in_register(empty)) {}
    __device__ __forceinline__ T* at(int stage) const { return first + stage * stage_size; }
    // Initializes these barriers, and `count` others at which one thread arrives. All threads meet by `await_open` before they use them.
    __device__ __forceinline__ void open(MBarrier* others = nullptr, int count = 0) const {
        if (threadIdx.x == 0) {
            for (int i = 0; i < stages; ++i) {
                mbarrier_init(&full[i], 1);
                mbarrier_init(&empty[i], (by_turns ? 4 : 8) * cluster);
            }
            for (int i = 0; i < count; ++i) mbarrier_init(&others[i], 1);
            fence_mbarrier_init();
        }
        if (cluster > 1) cluster_arrive_relaxed();  // the fence has released the barriers
        else __syncthreads();
    }
    __device__ __forceinline__ void await_open() const {
        if (cluster > 1) cluster_wait();
        if constexpr (lets_next) allow_next_kernel();
    }
    // Before the block ends: waits until `count` stages from `at` on are empty, where other blocks of the cluster arrive.
    __device__ __forceinline__ void await_empty(Round at, int count) const {
        for (int i = 0; cluster > 1 && i < count; ++i, at.next()) mbarrier_wait(&empty[at.stage], at.phase ^ 1);
    }
};
// Brings all slabs of the block's tiles to `at` and the stages after it, by one thread; the first one has its place. Returns the
// number of tiles.
// Each band of rows of tiles reads all of B. If B is small, its lines that blocks bring for each other stay in the L2 from band to
// band; those that the last band reads are as others again.
__device__ __forceinline__ int feed(
    const Ring& ring, const TensorMap& a, const TensorMap& b, const Sizes& sizes, int slabs, Round& at, Place place) {
    const long long size = (sizes.batch_b ? sizes.batches : 1ll) * sizes.k * sizes.n * sizeof(T);
    const int last_band = (sizes.tiles_m - 1) / band * band * tile_m;  // its first row
    int turn = 0;
    while (Turn(turn).there(sizes)) {
        const CachePolicy policy = size <= kept_bytes && place.m0 < last_band ? evict_last() : evict_normal();
        const int own_n = cluster_rank() * part_n, own_k = cluster_rank() * part_k;  // which columns or depths of B
        for (int i = 0; i < slabs; ++i, at.next()) {
            T *const left = ring.at(at.stage), *const right = left + tile_m * depth;
            const int of_a = sizes.batch_a ? place.batch : 0, of_b = sizes.batch_b ? place.batch : 0;
            MBarrier* const barrier = &ring.full[at.stage];
            mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);
            mbarrier_arrive_expecting(barrier, stage_bytes);
            bring<tile_m, a_by_depth>(left, a, of_a, place.m0, i * depth, barrier);
            if constexpr (b_by_depth) bring<part_n, true, cluster>(right + own_n * depth, b, of_b, place.n0 + own_n, i * depth, barrier, policy);
            else bring<tile_n, false, cluster>(right + own_k * line, b, of_b, place.n0, i * depth + own_k, barrier, policy);
        }
        place = Turn(++turn).place(sizes);
    }
    return turn;
}
// What a warpgroup does with the slabs, from its row of a tile on.
using Sums = float[rows / 64][tile_n / 2];
struct Multiplication {
    Ring ring;
    SharedMatrix lefts[2], right;  // the operands in the first stage
    Round at{0, 0};  // the next slab
    int current = 0, previous = 0;  // the stage of the slab that is multiplied, and of the one before it

    __device__ __forceinline__ static SharedMatrix left_at(const Ring& ring, int row) { return part(SlabA{ring.first}, row).in_register(); }
    __device__ __forceinline__ Multiplication(const Ring& ring, int first_row)
        : ring(ring), lefts{left_at(ring, first_row), left_at(ring, first_row + rows - 64)},
          right(part(SlabB{ring.first + tile_m * depth}, 0).in_register()) {}
    __device__ __forceinline__ void await() const { mbarrier_wait(&ring.full[at.stage], at.phase); }
    // The slab that has come is multiplied from now on: added to the sums, or to zeros.
    __device__ __forceinline__ void begin(Sums& sums, bool zeros) {
        wgmma_fence();
#pragma unroll
        for (int x = 0; x < rows / 64; ++x) {
            SharedMatrix own = lefts[x].later(at.stage * stage_bytes), other = right.later(at.stage * stage_bytes);
#pragma unroll
            for (int k = 0; k < depth; k += step) {
                wgmma<T, tile_n, a_by_depth, b_by_depth>(sums[x], own, other, !zeros || k > 0);
                own += step_a;
                other += step_b;
            }
        }
        wgmma_commit();
        previous = current, current = at.stage;
        at.next();
    }
    // Gives back the slab before the one that was begun, if there is one, when it has been multiplied.
    __device__ __forceinline__ void release(Sums& sums, bool first) const {
        wgmma_wait<1>(sums[0]);
        if (!first) free(previous);
    }
    __device__ __forceinline__ void multiply(Sums& sums, bool zeros, bool first) {
        await();
        begin(sums, zeros);
        release(sums, first);
    }
    // Arrives at the stage's barrier in each block of the cluster.
    __device__ __forceinline__ void free(int stage) const {
        MBarrier* const barrier = &ring.empty[stage];
        __syncwarp();
        if (cluster == 1 && threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
        if (cluster > 1 && threadIdx.x % 32 < cluster) mbarrier_free_at(barrier, threadIdx.x % 32);
    }
};
// Where the tiles of 32 turns are: each lane knows that of one, as it takes more than a hundred instructions.
struct TilePlaces {
    const Sizes& sizes;
    int first;
    Place known;

    __device__ __forceinline__ TilePlaces(const Sizes& sizes, int first) : sizes(sizes), first(first), known(own(first)) {}
    __device__ __forceinline__ Place own(int from) const { return Turn(from + threadIdx.x % 32).place(sizes); }
    // The place of a turn's tile, moved down by `rows`. Turns are asked for in order, and none of them is left out.
    __device__ __forceinline__ Place at(int turn, int rows) {
        if (turn - first == 32) known = own(first = turn);
        const auto given = [&](int own) { return __shfl_sync(0xffffffffu, own, turn - first); };
        Place place = known;
        place.batch = given(known.batch), place.m0 = given(known.m0) + rows, place.n0 = given(known.n0);
        return place;
    }
};
<% include "linear/lane_operands.cuh" %>
