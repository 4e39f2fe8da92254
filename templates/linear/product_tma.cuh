// Common to the warp-specialized GEMMs of sm_90a: persistent blocks of three warpgroups. A thread of the last one, the producer,
// loads the k-blocks of every gridDim.x-th tile by TMA into a ring of stages; the first two, the consumers, multiply.
// A stage's barriers: `empty` until both factors' k-blocks may be loaded, `full` when all their bytes have come, and empty again
// when all warps have multiplied it.
// Blocks of a cluster compute tiles that lie below one another: each multicasts its part of B's k-block once the stage is empty in
// all, so that B is read from the L2 once a cluster. The hardware gives clusters to its groups of multiprocessors (GPCs)
// round-robin: if `cluster_stride` is the number of groups, every `cluster_stride`-th cluster is in the same one. These get
// neighbouring tiles, which share factors, and what several multiprocessors of a group read at a time is one request to the L2.
<% include "linear/product.cuh" %>
<% include "linear/warpgroup.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/cluster_mbarrier.cuh" %>
<% include "prelude/mma.cuh" %>
constexpr bool ping_pong = << ping_pong | lower >>;  // each consumer computes every second tile alone
constexpr int rows = ping_pong ? tile_m : tile_m / 2;  // of a warpgroup
constexpr int cluster_stride = << cluster_stride >>;  // from a cluster to that of the tiles after its own
constexpr int cluster = << cluster >>, part_n = tile_n / cluster;  // blocks of a cluster, and the columns of B that each loads
constexpr int stage_bytes = stage_size * int(sizeof(T));
constexpr int part_k = depth / cluster;  // where B's lines are contiguous along n, each block loads so many of them
constexpr int part_line = << "line / 2" if mapped else "line" >>, part_size = 64 * part_line;  // of a part of D, its lines and elements
constexpr int kept_bytes = 8 * 1024 * 1024;  // of B, at most, a sixth of the L2 of an H100
constexpr int slots = << slots >>;  // for parts in shared memory, of each warpgroup
static_assert(rows % 64 == 0 && depth == line && tile_n % 64 == 0 && part_n % 8 == 0, "tiles are copied in lines of 128 bytes");
static_assert(sizeof(Out) == sizeof(T), "a line of D has as many elements");
// Tile `iteration` of this block: in each iteration the blocks compute gridDim.x neighbouring tiles.
struct ScheduledTile {
    int number;

    __device__ __forceinline__ explicit ScheduledTile(int iteration) {
        const int clusters = gridDim.x / cluster, own = blockIdx.x / cluster, group = own % cluster_stride;
        const int before = group * (clusters / cluster_stride) + minimum(group, clusters % cluster_stride);  // clusters of the groups before
        number = iteration * gridDim.x + (before + own / cluster_stride) * cluster + blockIdx.x % cluster;
    }
    __device__ __forceinline__ bool there(const Sizes& sizes) const {
        return number < sizes.batches * sizes.tiles_m * sizes.tiles_n;
    }
    __device__ __forceinline__ Place place(const Sizes& sizes) const {
        const int tiles = sizes.tiles_m * sizes.tiles_n;
        return Place(sizes, number / tiles, number % tiles);
    }
    // The same, computed where this is called: the compiler does not put it off until it is used.
    __device__ __forceinline__ Place coord_now(const Sizes& sizes) const {
        Place at = place(sizes);
        at.batch = in_register(at.batch), at.m0 = in_register(at.m0), at.n0 = in_register(at.n0);
        return at;
    }
};
// A stage of the ring, and the parity of the phase in which it is full.
struct PipelineState {
    int stage, phase;

    // The one after `k_blocks` more.
    __device__ __forceinline__ void skip(int k_blocks) {
        phase ^= (stage + k_blocks) / stages % 2;
        stage = (stage + k_blocks) % stages;
    }
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};
// Loads a k-block of SIZE rows (or columns) of the product from `first` on, from depth `from` on, for BLOCKS blocks.
// The policy is for copies to several blocks; those to one have none.
template <int SIZE, bool BY_DEPTH, int BLOCKS = 1>
__device__ __forceinline__ void load_k_block(T* k_block, const TensorMap& map, int batch, int first, int from, MBarrier* full, CachePolicy policy = evict_normal()) {
    const auto copy = [&](T* to, const int(&at)[3]) {
        if constexpr (BLOCKS == 1) copy_tile(to, map, at, full);
        else copy_tile_multicast(to, map, at, full, shl(1u, BLOCKS) - 1, policy);
    };
    if constexpr (BY_DEPTH) {
        copy(k_block, {batch, first, from});
    } else {
#pragma unroll
        for (int x = 0; x < SIZE; x += line) copy(k_block + x * depth, {batch, from, first + x});
    }
}
// The ring: stages, which begin at a multiple of 1024 bytes, and their barriers.
struct Ring {
    T* first;
    MBarrier *full, *empty;

    __device__ __forceinline__ Ring(unsigned char* shared, MBarrier* full, MBarrier* empty)
        : first((T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024)), full(in_register(full)), empty(in_register(empty)) {}
    __device__ __forceinline__ T* at(int stage) const { return first + stage * stage_size; }
    // Initializes these barriers, and `count` others at which one thread arrives. All threads meet by `await_open` before they use them.
    __device__ __forceinline__ void open(MBarrier* others = nullptr, int count = 0) const {
        if (threadIdx.x == 0) {
            mbarrier_init_ring(full, empty, stages, 1, (ping_pong ? 4 : 8) * cluster);
            for (int i = 0; i < count; ++i) mbarrier_init(&others[i], 1);
            fence_mbarrier_init();
        }
        if (cluster > 1) cluster_arrive_relaxed();  // the fence has released the barriers
        else __syncthreads();
    }
    __device__ __forceinline__ void await_open() const {
        if (cluster > 1) cluster_wait();
    }
    // Before the block ends: waits until `count` stages from `at` on are empty, where other blocks of the cluster arrive.
    __device__ __forceinline__ void await_empty(PipelineState at, int count) const {
        for (int i = 0; cluster > 1 && i < count; ++i, at.next()) mbarrier_wait(&empty[at.stage], at.phase ^ 1);
    }
};
// Loads all k-blocks of the block's tiles to `at` and the stages after it, by one thread; the first one has its place. Returns the
// number of tiles.
// Each band of rows of tiles reads all of B. If B is small, the lines that blocks multicast stay in the L2 from band to
// band; those that the last band reads are as others again.
__device__ __forceinline__ int feed(
    const Ring& ring, const TensorMap& a, const TensorMap& b, const Sizes& sizes, int k_blocks, PipelineState& at, Place place) {
    const long long size = (sizes.batch_b ? sizes.batches : 1ll) * sizes.k * sizes.n * sizeof(T);
    const int last_band = (sizes.tiles_m - 1) / band * band * tile_m;  // its first row
    int iteration = 0;
    while (ScheduledTile(iteration).there(sizes)) {
        const CachePolicy policy = size <= kept_bytes && place.m0 < last_band ? evict_last() : evict_normal();
        const int own_n = cluster_rank() * part_n, own_k = cluster_rank() * part_k;  // which columns or depths of B
        for (int i = 0; i < k_blocks; ++i, at.next()) {
            T *const left = ring.at(at.stage), *const right = left + tile_m * depth;
            const int of_a = sizes.batch_a ? place.batch : 0, of_b = sizes.batch_b ? place.batch : 0;
            MBarrier* const barrier = &ring.full[at.stage];
            mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);
            mbarrier_arrive_expecting(barrier, stage_bytes);
            load_k_block<tile_m, a_by_depth>(left, a, of_a, place.m0, i * depth, barrier);
            if constexpr (b_by_depth) load_k_block<part_n, true, cluster>(right + own_n * depth, b, of_b, place.n0 + own_n, i * depth, barrier, policy);
            else load_k_block<tile_n, false, cluster>(right + own_k * line, b, of_b, place.n0, i * depth + own_k, barrier, policy);
        }
        place = ScheduledTile(++iteration).place(sizes);
    }
    return iteration;
}
// What a warpgroup does with the k-blocks, from its row of a tile on.
using Sums = float[rows / 64][tile_n / 2];
struct Multiplication {
    Ring ring;
    SharedMatrix lefts[2], right;  // the operands in the first stage
    PipelineState at{0, 0};  // the next k-block
    int current = 0, previous = 0;  // the stage of the k-block that is multiplied, and of the one before it

    __device__ __forceinline__ static SharedMatrix left_at(const Ring& ring, int row) { return part(KBlockA{ring.first}, row).in_register(); }
    __device__ __forceinline__ Multiplication(const Ring& ring, int first_row)
        : ring(ring), lefts{left_at(ring, first_row), left_at(ring, first_row + rows - 64)},
          right(part(KBlockB{ring.first + tile_m * depth}, 0).in_register()) {}
    __device__ __forceinline__ void await() const { mbarrier_wait(&ring.full[at.stage], at.phase); }
    // The k-block that has come is multiplied from now on: added to the sums, or to zeros.
    __device__ __forceinline__ void begin(Sums& sums, bool zeros) {
        wgmma_fence();
#pragma unroll
        for (int x = 0; x < rows / 64; ++x) {
            const SharedMatrix own = lefts[x].later(at.stage * stage_bytes), other = right.later(at.stage * stage_bytes);
            wgmma_line<T, tile_n, a_by_depth, b_by_depth>(sums[x], own, other, !zeros);
        }
        wgmma_commit();
        previous = current, current = at.stage;
        at.next();
    }
    // Frees the k-block before the one that was begun, if there is one, when it has been multiplied.
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
// Coordinates of the tiles of 32 iterations, one per lane, as computing one takes more than a hundred instructions.
struct TileCoords {
    const Sizes& sizes;
    int first;
    Place known;

    __device__ __forceinline__ TileCoords(const Sizes& sizes, int first) : sizes(sizes), first(first), known(own(first)) {}
    __device__ __forceinline__ Place own(int from) const { return ScheduledTile(from + threadIdx.x % 32).place(sizes); }
    // The tile of an iteration, moved down by `rows`; called for each iteration in order.
    __device__ __forceinline__ Place at(int iteration, int rows) {
        if (iteration - first == 32) known = own(first = iteration);
        const auto from_lane = [&](int own) { return __shfl_sync(0xffffffffu, own, iteration - first); };
        Place place = known;
        place.batch = from_lane(known.batch), place.m0 = from_lane(known.m0) + rows, place.n0 = from_lane(known.n0);
        return place;
    }
};
<% include "linear/lane_operands.cuh" %>
