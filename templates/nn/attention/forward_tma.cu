// forward.cu on the tensor cores of sm_90a, fed by the hardware's copies. Each warpgroup that multiplies has 64 rows of a tile and
// walks back along its keys. While the scores of one tile of keys become weights, those of the one before it multiply their values;
// the last ones of a tile of rows while the first of the next are made.
// Launch: blocks, of which each makes tiles of rows of a head. One thread of the last warpgroup brings tiles of
// keys, of values and of rows to a ring of stages each, its last two warps what the score reads. `full`: a tile has come.
// `empty`: all warps are done with it.
// Shared, dynamic: the stages of rows, of keys, of values, and of what the score reads; 1024 bytes before for alignment.
<% set wgmma_columns = [tile_n, (value_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/warpgroups.cuh" %>
constexpr int size_q = tile_m * head_lines, size_k = tile_n * head_lines, size_v = tile_n * value_lines;
// A score is gain times what the function of it makes, and what shifts it, which is the same for all keys of a tile.
constexpr double gain = << gain >>;
constexpr bool scaled = << scaled | lower >>;  // times the factor of the products
constexpr bool shifted = << (values | length > 1 and values[1] not in ("1", "0", "float(0.0)")) | lower >>;
constexpr bool limited = << limited | lower >>;  // what the function makes is at most 1, and its weights by that are no subnormals
// The largest score of a row counts as what it was until it has grown by so many powers of two, so that sums need not shrink: weights
// stay below the largest number of 16 bits. As in FlashAttention-4.
constexpr float most_growth = 8.0f;
constexpr int held = << held >>;  // tiles of rows in shared memory: of two one is brought while the other is at work
constexpr bool by_turns = << by_turns | lower >>;  // one warpgroup multiplies while the others make weights
constexpr bool added = scaled && brings_ahead;  // the score is the product and a summand that is brought ahead, to which it is added
// Queries are multiplied by the factor, a power of two, when they have come, so that what products are added to is not divided by it.
constexpr bool prescaled = << prescaled | lower >>;

// The tiles of keys of a tile of rows, from its end: which of them all rows attend to needs no comparisons.
struct Walk : Course<tile_n> {
    __device__ __forceinline__ Walk(const Place& at, const Turns& turns, int row)
        : Course(keys_for(at, turns.sizes, turns.lists, row)) {}
    // The tiles to whose keys 64 rows attend, all to all.
    __device__ __forceinline__ Range whole(const Place& at, int row) const {
        if (reads_places && row + 64 > at.rows) return {0, 0};  // the score compares places with the last ones
        int begin = 0, end = at.keys;
        if constexpr (bounded_left) begin = row + 63 + at.offset - at.left;
        if constexpr (bounded_right) end = minimum(end, row + at.offset + at.right + 1);
        return within(begin, end);
    }
};
// Of a lane's two rows: the largest score, and the lane's share of the sum of weights.
struct Statistics {
    float largest[2], total[2];
};
// What is known of a lane's scores with a tile of keys before they are made.
struct Known {
    Kept<tile_n> kept;
    Allowed<tile_n, false> allowed[2];
};
// Where scores are: a warp's rows, and what becomes of them.
struct Task {
    const Place& at;
    const Sizes& sizes;
    const Scores& scores;
    const Draw& draw;
    int row;       // the lane's first
    int tile_row;  // the tile's
    int group;     // the warpgroup
    float unit;    // scores are compared before they are multiplied

    // The place of a score, which need not be attended to, of the lane's first row or second one.
    template <bool MASKED>
    __device__ __forceinline__ Spot spot(int key, int half, int column) const {
        const int none = limits<int>::highest();
        return {at.batch, at.head, row, key + int(threadIdx.x % 4) * 2, 8 * half, column, MASKED ? at.rows - 1 : none,
                MASKED ? at.keys - 1 : none};
    }
    // Scores of the keys from `key` on, made of products with them.
    template <bool MASKED>
    __device__ __forceinline__ void change(float (&s)[tile_n / 2], int key, const Arrived& ahead) const {
#pragma unroll
        for (int n = 0; n < tile_n / 16; ++n) {
            float elements[8] = {};
            ahead.elements<false>(elements, n, threadIdx.x / 32 * 16);
#pragma unroll
            for (int i = 8 * n; i < 8 * n + 8; ++i)
                s[i] = scores(s[i], spot<MASKED>(key, i % 4 / 2, i / 4 * 8 + i % 2), ahead.with(elements[i % 8])).value;
        }
    }
    // What is added to the products with the keys of tile i.
    template <bool MASKED>
    __device__ __forceinline__ void prepare_tile(float (&s)[tile_n / 2], const Walk& walk, int i, Stages& ahead) const {
        if constexpr (!added) return;
        ahead.wait_full();
#pragma unroll
        for (float& x : s) x = -0.0f;
        change<MASKED>(s, walk[i], Arrived(ahead, tile_row, walk[i]));
        ahead.release();
    }
    // Turns the scores of the keys from `key` on into weights; former sums are to be multiplied by `shrink` if that is asked for.
    template <bool MASKED>
    __device__ __forceinline__ bool weigh(
        float (&s)[tile_n / 2], float (&shrink)[2], Statistics& of, int key, const Known& known, const Arrived& ahead) const
    {
        const int q = threadIdx.x % 4 * 2;
        bool shrinks = false;
        // Before anything that threads do together, as both halves may have elements of one place, or of one distance.
        if constexpr (!plain && !added) change<MASKED>(s, key, ahead);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own = row + 8 * half, place = own + at.offset - key - q;
            int end = at.keys - key - q;
            if constexpr (bounded_right) end = minimum(end, place + at.right + 1);
            // The shift is of the lane's first row and key.
            const float shift = shifted ? scores(0.0f, Spot{at.batch, at.head, row, key + q}, ahead.of).slope : 0.0f;
            float most[2] = {of.largest[half] - shift, -limits<float>::infinity()};
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) {
                const int column = i / 2 * 8 + i % 2;
                float& x = s[i / 2 * 4 + 2 * half + i % 2];
                if constexpr (MASKED)
                    if (column >= end || (bounded_left && column < place - at.left) || !known.allowed[half](column))
                        x = -limits<float>::infinity();
                if constexpr (!limited) most[i % 2] = maximum(most[i % 2], x);
            }
            float largest = 1.0f;
            if constexpr (!limited) {
                largest = maximum(most[0], most[1]) + shift;
                largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
                largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
                if ((largest - of.largest[half]) * unit <= most_growth) largest = of.largest[half];
                else shrinks = true;
            }
            const float from = largest == -limits<float>::infinity() ? 0.0f : rounded_product(largest - shift, unit);
            shrink[half] = limited || largest == of.largest[half] ? 1.0f : power_of_two(rounded_product(of.largest[half] - shift, unit) - from);
            of.largest[half] = largest;
            float total[2] = {of.total[half] * shrink[half], 0.0f};
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) {
                float& x = s[i / 2 * 4 + 2 * half + i % 2];
                x = power_of_two(fma(x, unit, -from));
                total[i % 2] += x;
                if (!known.kept(half, i / 2 * 8 + i % 2)) x = 0.0f;
            }
            of.total[half] = total[0] + total[1];
        }
        return __any_sync(0xffffffffu, shrinks);
    }
    // Of the keys of tile i.
    template <bool MASKED>
    __device__ __forceinline__ bool weigh_tile(
        float (&s)[tile_n / 2], float (&shrink)[2], Statistics& of, const Walk& walk, int i, const Known& known, Stages& ahead) const
    {
        if constexpr (brings_ahead && !added) ahead.wait_full();
        const Arrived arrived(ahead, tile_row, walk[i]);
        const bool shrinks = weigh<MASKED>(s, shrink, of, walk[i], known, arrived);
        if constexpr (brings_ahead && !added) ahead.release();
        return shrinks;
    }
    // Of the keys of tile i.
    __device__ __forceinline__ Known known(const Walk& walk, int i) const {
        const int key = walk[i], first = key + threadIdx.x % 4 * 2;
        const bool open = walk.open(i);
        return {{draw, sizes, at, row, key},
                {{scores, sizes, at, row, first, open}, {scores, sizes, at, row + 8, first, open}}};
    }
};
// The scores of the rows with the keys of tile i become weights in `words`, whose values are multiplied next; meanwhile the values
// are that belong to the weights before them. True if the sums are of these weights' rows and have to shrink.
template <bool MASKED>
__device__ __forceinline__ void advance(
    const Task& task, Stages& of_k, Stages& of_v, Stages& ahead, const T* rows, const Walk& walk, int i, float (&sums)[value_width / 2],
    unsigned (&words)[tile_n / 16][4], float (&shrink)[2], bool& shrinks, Statistics& of)
{
    float s[tile_n / 2];
    task.prepare_tile<MASKED>(s, walk, i, ahead);
    of_k.wait_full();
    if constexpr (by_turns) barrier_sync(1 + task.group, 256);
    wgmma_fence();
    multiply_rows<head_width, tile_m, tile_n, added>(s, rows, of_k.tile());
    of_v.wait_full();
    wgmma_fence();
    multiply_weights<tile_n, value_width>(sums, words, of_v.tile());
    if constexpr (by_turns) barrier_arrive(1 + (task.group + 1) % workers, 256);
    const Known known = task.known(walk, i);
    wgmma_wait<1>(sums);
    wgmma_made(s);
    of_k.release();
    shrinks = task.weigh_tile<MASKED>(s, shrink, of, walk, i, known, ahead);
    wgmma_wait<0>(sums);
    of_v.release();
    round<tile_n>(words, s);
}
// The same with the next keys of the same rows.
template <bool MASKED>
__device__ __forceinline__ void go_on(
    const Task& task, Stages& of_k, Stages& of_v, Stages& ahead, const T* rows, const Walk& walk, int i, float (&sums)[value_width / 2],
    unsigned (&words)[tile_n / 16][4], Statistics& of)
{
    float shrink[2];
    bool shrinks;
    advance<MASKED>(task, of_k, of_v, ahead, rows, walk, i, sums, words, shrink, shrinks, of);
    if (limited || !shrinks) return;
#pragma unroll
    for (int i = 0; i < value_width / 2; ++i) sums[i] *= shrink[i / 2 % 2];
}

// Brings what the warpgroups that multiply go through; by one thread.
__device__ __forceinline__ void supply(
    const TensorMap& q, const TensorMap& k, const TensorMap& v, Turns turns, Stages rows, Stages keys,
    Stages values)
{
    while (turns.next()) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(turns.sizes), key_head = at.head / sharing;
        const Walk walk(at, turns, row);
        if (!walk.count) continue;
        bring<tile_m, head_lines>(rows.tile(), q, at.matrix(), at.head, at.before_q + row, rows.open(size_q * sizeof(T)));
        ++rows.number;
        for (int i = walk.count; i-- > -1;) {  // values come after the keys of the tile before them
            if (i >= 0) {
                MBarrier* const full = keys.open(size_k * sizeof(T));
                bring<tile_n, head_lines>(keys.tile(), k, at.matrix(), key_head, at.before_k + walk[i], full);
                ++keys.number;
            }
            if (i + 1 < walk.count) {
                MBarrier* const full = values.open(size_v * sizeof(T));
                bring<tile_n, value_lines>(values.tile(), v, at.matrix(), key_head, at.before_k + walk[i + 1], full);
                ++values.number;
            }
        }
    }
}
// Brings what a score reads; by so many threads, as what is made for a distance may take long.
constexpr int makers = 64;
__device__ __forceinline__ void supply_ahead(const Scores& scores, const TensorMap& map, Turns turns, Stages ahead) {
    while (turns.next()) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(turns.sizes);
        const Walk walk(at, turns, row);
        if (!walk.count) continue;
        const Scores of_head = scores.of(at.batch, at.head);
        for (int i = walk.count; i-- > 0;)
            bring_ahead<makers>(of_head, map, at, row, walk[i], ahead, i + 1 < walk.count ? walk[i + 1] - walk[i] : span);
    }
}
// A tile of rows that a warpgroup makes.
struct Work {
    Place at;
    int row;  // the tile's first
    Walk walk;
    Statistics of{{-limits<float>::infinity(), -limits<float>::infinity()}, {0.0f, 0.0f}};

    __device__ __forceinline__ explicit Work(const Turns& turns) : at(turns.place<1, false>()), row(at.first_row(turns.sizes)), walk(at, turns, row) {}
    __device__ __forceinline__ int warp_row() const { return row + threadIdx.x / 32 * 16; }
    __device__ __forceinline__ int own_row() const { return warp_row() + threadIdx.x % 32 / 4; }
    // The tiles of keys to whose keys the warpgroup's rows attend, all to all.
    __device__ __forceinline__ Range whole(int group) const { return walk.whole(at, row + group * 64); }
};
// What comes to the warpgroups, and what they make of it.
struct Worker {
    Stages rows, keys, values, ahead;
    float sums[value_width / 2] = {};
    unsigned words[tile_n / 16][4];  // weights

    __device__ __forceinline__ const T* rows_of(const Task& task) const { return rows.tile() + task.group * 64 * line; }
    // Waits for a tile of rows, and multiplies the warpgroup's by the factor if that is asked for; once for each tile.
    __device__ __forceinline__ void wait_rows(const Task& task) const {
        rows.wait_full();
        if constexpr (!prescaled) return;
        for (int i = threadIdx.x % 128; i < 8 * head_lines; i += 128) {
            Pack<T, 8>& pack = *(Pack<T, 8>*)(rows_of(task) + i / (8 * line) * tile_m * line + i % (8 * line) * 8);
            float of[8];
            unpack(pack, of);
#pragma unroll
            for (float& x : of) x *= float(task.sizes.scale);
            pack = packed<T, 8>(of);
        }
        fence_to_async();
        barrier_sync(9 + task.group, 128);
    }
    // Makes the first weights of a tile of rows.
    __device__ __forceinline__ void begin(const Task& task, Work& work) {
        float s[tile_n / 2], shrink[2];
        const int last = work.walk.count - 1;
        task.prepare_tile<true>(s, work.walk, last, ahead);
        wait_rows(task);
        keys.wait_full();
        wgmma_fence();
        multiply_rows<head_width, tile_m, tile_n, added>(s, rows_of(task), keys.tile());
        const Known known = task.known(work.walk, last);
        wgmma_wait<0>(s);
        keys.release();
        task.weigh_tile<true>(s, shrink, work.of, work.walk, last, known, ahead);
        round<tile_n>(words, s);
    }
    // Goes through the keys of a tile of rows, but for the product of the last weights.
    __device__ __forceinline__ void walk(const Task& task, Work& work) {
        const Walk& walk = work.walk;
        const Range whole = work.whole(task.group);
        int i = walk.count - 1;
        // Made once where that keeps the descriptors of a tile of rows in registers: elsewhere it was seen to do the opposite.
        const T* const made = rows_of(task);
        const auto own = [&] { return prescaled ? made : rows_of(task); };
        if (mixed && walk[i] + tile_n > work.at.keys) {
            values.wait_full();
            clear_rows<tile_n, value_lines>(values.tile(), work.at.keys - walk[i]);
            wait_cleared();
        }
        for (; i > maximum(whole.end, 0); --i) go_on<true>(task, keys, values, ahead, own(), walk, i - 1, sums, words, work.of);
        for (; i > maximum(whole.first, 0); --i) {
            if (!listed || walk.open(i - 1)) go_on<false>(task, keys, values, ahead, own(), walk, i - 1, sums, words, work.of);
            else go_on<true>(task, keys, values, ahead, own(), walk, i - 1, sums, words, work.of);
        }
        if constexpr (bounded_left)
            for (; i > 0; --i) go_on<true>(task, keys, values, ahead, own(), walk, i - 1, sums, words, work.of);
        rows.release();
    }
    // Multiplies the last weights of a tile of rows.
    __device__ __forceinline__ void end() {
        values.wait_full();
        wgmma_fence();
        multiply_weights<tile_n, value_width>(sums, words, values.tile());
        wgmma_wait<0>(sums);
        values.release();
    }
    // The same, and makes the first weights of the next tile of rows.
    __device__ __forceinline__ void end_and_begin(const Task& task, Work& next) {
        float shrink[2];
        bool shrinks;
        const int last = next.walk.count - 1;
        wait_rows(task);
        if (!bounded_left && !bounded_right && (!listed || next.walk.open(last)) && next.whole(task.group).end >= next.walk.count)
            advance<false>(task, keys, values, ahead, rows_of(task), next.walk, last, sums, words, shrink, shrinks, next.of);
        else advance<true>(task, keys, values, ahead, rows_of(task), next.walk, last, sums, words, shrink, shrinks, next.of);
    }
    // Stores what was made, and begins anew.
    __device__ __forceinline__ void store_result(const Work& work, const Sizes& sizes, T* o, RowStatistics* lse, float unit) {
        float factor[2];
        const float lacks = lacking(gain * (scaled && !prescaled ? float(sizes.scale) : 1.0f) * log2_e, unit);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own_row = work.own_row() + 8 * half;
            float total = work.of.total[half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            if (threadIdx.x % 4 == 0 && own_row < work.at.rows)
                lse[work.at.statistic(sizes, own_row)] = statistics_of_powers(rounded_product(work.of.largest[half], unit), total, lacks);
            factor[half] = total == 0.0f ? 0.0f : (dropping ? float(sizes.kept) : 1.0f) / total;
        }
        store<value_size>(work.at.of_rows(o, sizes.o), work.warp_row(), sums, factor);
#pragma unroll
        for (int i = 0; i < value_width / 2; ++i) sums[i] = 0.0f;
    }
};

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    T* o, RowStatistics* lse, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_q = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T *const of_k = of_q + held * size_q, *const of_v = of_k + stages * size_k, *const of_ahead = of_v + stages * size_v;
    constexpr int rings = 2 * stages + held;
    __shared__ MBarrier full[rings + ahead_stages], empty[rings + ahead_stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, rings, 1, 4 * workers);
        mbarrier_init_ring(full + rings, empty + rings, ahead_stages, makers, 4 * workers);
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages keys{of_k, full, empty, size_k, stages, 0}, values{of_v, full + stages, empty + stages, size_v, stages, 0};
    Stages rows{of_q, full + 2 * stages, empty + 2 * stages, size_q, held, 0};
    Stages ahead{of_ahead, full + rings, empty + rings, size_ahead, ahead_stages, 0};
    const int group = own_group();
    if (group == workers) {
        give_registers<kept_registers>();
        if (threadIdx.x == 128 * workers) supply(q, k, v, Turns(sizes, order, starts_q, starts_k, lists), rows, keys, values);
        if (brings_ahead && threadIdx.x >= threads - makers)
            supply_ahead(scores, << tiled or "q" >>, Turns(sizes, order, starts_q, starts_k, lists), ahead);
        return;
    }
    take_registers<taken_registers>();
    if (by_turns && group == workers - 1) barrier_arrive(1, 256);
    const float unit = float(gain * (scaled && !prescaled ? sizes.scale : 1.0) * log2_e);
    Turns turns(sizes, order, starts_q, starts_k, lists);
    if (turns.next()) {
        Worker worker{rows, keys, values, ahead};
        Work work(turns);
        for (bool more = true, begun = false; more;) {
            const Scores of_head = scores.of(work.at.batch, work.at.head);
            const Task task{work.at, sizes, of_head, draw, work.own_row(), work.row, group, unit};
            if (work.walk.count && !begun) worker.begin(task, work);
            if (work.walk.count) worker.walk(task, work);
            more = turns.next();
            Work next = more ? Work(turns) : work;
            begun = more && work.walk.count && next.walk.count;
            if (begun) {
                const Scores of_next = scores.of(next.at.batch, next.at.head);
                worker.end_and_begin(Task{next.at, sizes, of_next, draw, next.own_row(), next.row, group, unit}, next);
            } else if (work.walk.count) worker.end();
            worker.store_result(work, sizes, o, lse, unit);
            work = next;
        }
    }
}
