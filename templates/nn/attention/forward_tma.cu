// forward.cu on the tensor cores of sm_90a, fed by the hardware's copies. Each warpgroup that multiplies has 64 rows of a tile and
// walks back along its keys. While the scores of one tile of keys become weights, those of the one after it multiply their values.
// Launch: blocks, of which each makes tiles of rows of a head. One thread of the last warpgroup brings tiles of
// keys and values to a ring of stages each, and the rows. `full`: a tile has come. `empty`: all warps are done with it.
// Shared, dynamic: the rows, the stages of keys, those of values; 1024 bytes before for alignment.
<% set wgmma_columns = [tile_n, (value_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/warpgroups.cuh" %>
constexpr int size_q = tile_m * head_lines, size_k = tile_n * head_lines, size_v = tile_n * value_lines;
// A score is gain times what the function of it makes, and what shifts it, which is the same for all keys of a tile.
constexpr double gain = << gain >>;
constexpr bool scaled = << scaled | lower >>;  // times the factor of the products
constexpr bool shifted = << (values[1] not in ("1", "0", "float(0.0)")) | lower >>;
constexpr bool limited = << limited | lower >>;  // what the function makes is at most 1, and its weights by that are no subnormals
// The function makes the tanh of a score times this, and nothing more, and it is expected that most of these are small; 0 if not.
constexpr double near = << near >>;
constexpr bool by_turns = << by_turns | lower >>;  // one warpgroup multiplies while the others make weights

// The tiles of keys of a tile of rows, from its end: which of them all rows attend to needs no comparisons.
struct Walk {
    int first, count;

    __device__ __forceinline__ Walk(const Place& at, int row) {
        const Range range = at.keys_of(row);
        first = range.first;
        count = divide_up(maximum(range.end - first, 0), tile_n);
    }
    __device__ __forceinline__ int key(int i) const { return first + i * tile_n; }
    // The tiles to whose keys 64 rows attend, all to all.
    __device__ __forceinline__ Range whole(const Place& at, int row) const {
        int begin = 0, end = at.keys;
        if constexpr (bounded_left) begin = divide_up(maximum(row + 63 + at.offset - at.left - first, 0), tile_n);
        if constexpr (bounded_right) end = minimum(end, row + at.offset + at.right + 1);
        return {begin, maximum(end - first, 0) / tile_n};
    }
};
// Of a lane's two rows: the largest score, and the lane's share of the sum of weights.
struct Statistics {
    float largest[2], total[2];
};
// Where scores are: a warp's rows, and what becomes of them.
struct Task {
    const Place& at;
    const Sizes& sizes;
    const Scores& scores;
    const Draw& draw;
    int row;     // the lane's first
    float unit;  // scores are compared before they are multiplied

    // The tanh of a product, times a factor, by the polynomial of two terms whose largest relative difference is least where all of
    // a warp's products are small: 4e-4.
    __device__ __forceinline__ float tanh_of_small(float product, float factor) const {
        const float by = float(scores.scale * near), first = 0.99960171f * by * factor;
        return product * (first + product * product * (-0.31317268f * by * by * by * factor));
    }
    __device__ __forceinline__ bool all_small(const float (&products)[tile_n / 2]) const {
        float most[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < tile_n / 2; ++i) most[i % 2] = maximum(most[i % 2], fabsf(products[i]));
        return __all_sync(0xffffffffu, maximum(most[0], most[1]) * fabsf(float(scores.scale * near)) <= 0.4f);
    }
    // Turns the scores of the keys from `key` on into weights; former sums are to be multiplied by `shrink`.
    template <bool MASKED, bool SMALL = false>
    __device__ __forceinline__ void weigh(float (&s)[tile_n / 2], float (&shrink)[2], Statistics& of, int key) const {
        const int q = threadIdx.x % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own = row + 8 * half, place = own + at.offset - key - q;
            int end = at.keys - key - q;
            if constexpr (bounded_right) end = minimum(end, place + at.right + 1);
            // The shift is of the lane's first key.
            const float shift = shifted ? scores(0.0f, Spot{at.batch, at.head, own, key + q}).slope : 0.0f;
            float most[2] = {of.largest[half] - shift, -limits<float>::infinity()};
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) {
                const int column = i / 2 * 8 + i % 2;
                float& x = s[i / 2 * 4 + 2 * half + i % 2];
                if constexpr (SMALL && !limited) x = tanh_of_small(x, 1.0f);
                else if constexpr (!plain && !SMALL)  // of what is not attended to, too
                    x = scores(x, Spot{at.batch, at.head, own, key + q, 0, column, at.rows - 1,
                                       MASKED ? at.keys - 1 : limits<int>::highest()}).value;
                if constexpr (MASKED)
                    if (column >= end || (bounded_left && column < place - at.left)) x = -limits<float>::infinity();
                if constexpr (!limited) most[i % 2] = maximum(most[i % 2], x);
            }
            float largest = 1.0f;
            if constexpr (!limited) {
                largest = maximum(most[0], most[1]) + shift;
                largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
                largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            }
            const float from = largest == -limits<float>::infinity() ? 0.0f : (largest - shift) * unit;
            shrink[half] = limited ? 1.0f : power_of_two((of.largest[half] - shift) * unit - from);
            of.largest[half] = largest;
            float total[2] = {of.total[half] * shrink[half], 0.0f};
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) {
                float& x = s[i / 2 * 4 + 2 * half + i % 2];
                x = power_of_two((SMALL && limited ? tanh_of_small(x, unit) : x * unit) - from);
                total[i % 2] += x;
                if constexpr (dropping)
                    x *= draw.factor(sizes, at.element(sizes, own, key + q + i / 2 * 8 + i % 2));
            }
            of.total[half] = total[0] + total[1];
        }
    }
};
// The scores of a tile of keys become weights in `words`, whose values are multiplied next; meanwhile the values are that
// belong to the weights before them.
template <bool MASKED>
__device__ __forceinline__ void advance(
    const Task& task, Stages& of_k, Stages& of_v, const T* rows, int key, float (&sums)[value_width / 2],
    unsigned (&words)[tile_n / 16][4], Statistics& of)
{
    const int group = threadIdx.x / 128;
    float s[tile_n / 2], shrink[2];
    of_k.wait_full();
    if constexpr (by_turns) barrier_sync(1 + group, 256);
    wgmma_fence();
    multiply_rows<head_width, tile_m, tile_n>(s, rows, of_k.tile());
    of_v.wait_full();
    wgmma_fence();
    multiply_weights<tile_n, value_width>(sums, words, of_v.tile());
    if constexpr (by_turns) barrier_arrive(1 + (group + 1) % workers, 256);
    wgmma_wait<1>(sums);
    wgmma_made(s);
    of_k.release();
    if (near != 0 && !MASKED && task.all_small(s)) task.weigh<MASKED, near != 0 && !MASKED>(s, shrink, of, key);
    else task.weigh<MASKED>(s, shrink, of, key);
    wgmma_wait<0>(sums);
    of_v.release();
#pragma unroll
    for (int i = 0; i < value_width / 2; ++i)
        if constexpr (!limited) sums[i] *= shrink[i / 2 % 2];
    round<tile_n>(words, s);
}

// Brings what the warpgroups that multiply go through; by one thread.
__device__ __forceinline__ void supply(
    const TensorMap& q, const TensorMap& k, const TensorMap& v, Turns turns, Stages rows, Stages keys,
    Stages values)
{
    while (turns.next()) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(turns.sizes), key_head = at.head / sharing;
        const Walk walk(at, row);
        if (!walk.count) continue;
        bring<tile_m, head_lines>(rows.memory, q, at.matrix(), at.head, at.before_q + row, rows.open(size_q * sizeof(T)));
        ++rows.number;
        for (int i = walk.count; i-- > -1;) {  // values come after the keys of the tile before them
            if (i >= 0) {
                MBarrier* const full = keys.open(size_k * sizeof(T));
                bring<tile_n, head_lines>(keys.tile(), k, at.matrix(), key_head, at.before_k + walk.key(i), full);
                ++keys.number;
            }
            if (i + 1 < walk.count) {
                MBarrier* const full = values.open(size_v * sizeof(T));
                bring<tile_n, value_lines>(values.tile(), v, at.matrix(), key_head, at.before_k + walk.key(i + 1), full);
                ++values.number;
            }
        }
    }
}
// The sums of weights and values of a warpgroup's rows, which are the first of a tile of `rows`.
__device__ __forceinline__ void attend(
    const Task& task, const Walk& walk, const Range& whole, Stages& rows, Stages& keys, Stages& values, Statistics& of,
    float (&sums)[value_width / 2])
{
    const T* const own = rows.memory + threadIdx.x / 128 * 64 * line;
    unsigned words[tile_n / 16][4];
    float s[tile_n / 2], shrink[2];
    int i = walk.count - 1;
    rows.wait_full();
    keys.wait_full();
    wgmma_fence();
    multiply_rows<head_width, tile_m, tile_n>(s, own, keys.tile());
    wgmma_wait<0>(s);
    keys.release();
    task.weigh<true>(s, shrink, of, walk.key(i));
    round<tile_n>(words, s);
    if (mixed && walk.key(i) + tile_n > task.at.keys) {
        values.wait_full();
        clear_rows<tile_n, value_lines>(values.tile(), task.at.keys - walk.key(i));
        wait_cleared();
    }
    for (; i > maximum(whole.end, 0); --i) advance<true>(task, keys, values, own, walk.key(i - 1), sums, words, of);
    for (; i > maximum(whole.first, 0); --i) advance<false>(task, keys, values, own, walk.key(i - 1), sums, words, of);
    if constexpr (bounded_left)
        for (; i > 0; --i) advance<true>(task, keys, values, own, walk.key(i - 1), sums, words, of);
    rows.release();
    values.wait_full();
    wgmma_fence();
    multiply_weights<tile_n, value_width>(sums, words, values.tile());
    wgmma_wait<0>(sums);
    values.release();
}

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    T* o, float* lse, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_q = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T *const of_k = of_q + size_q, *const of_v = of_k + stages * size_k;
    __shared__ MBarrier full[2 * stages + 1], empty[2 * stages + 1];
    if (threadIdx.x == 0) {
        prepare(full, empty, 2 * stages + 1, 0);
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages keys{of_k, full, empty, size_k, stages, 0}, values{of_v, full + stages, empty + stages, size_v, stages, 0};
    Stages rows{of_q, full + 2 * stages, empty + 2 * stages, size_q, 1, 0};
    const int group_number = threadIdx.x / 128;
    if (group_number == workers) {
        give_registers<kept_registers>();
        if (threadIdx.x == 128 * workers) supply(q, k, v, Turns(sizes, order, starts_q, starts_k), rows, keys, values);
        return;
    }
    take_registers<taken_registers>();
    if (by_turns && group_number == workers - 1) barrier_arrive(1, 256);
    const float unit = float(gain * (scaled ? sizes.scale : 1.0) * log2_e);
    for (Turns turns(sizes, order, starts_q, starts_k); turns.next();) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(sizes), group_row = row + 64 * group_number, warp_row = group_row + threadIdx.x % 128 / 32 * 16;
        const int own_row = warp_row + threadIdx.x % 32 / 4;
        const Walk walk(at, row);
        Statistics of{{-limits<float>::infinity(), -limits<float>::infinity()}, {0.0f, 0.0f}};
        float sums[value_width / 2] = {}, factor[2];
        const Scores of_head = scores.of(at.batch, at.head);
        const Task task{at, sizes, of_head, draw, own_row, unit};
        if (walk.count) attend(task, walk, walk.whole(at, group_row), rows, keys, values, of, sums);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = of.total[half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            if (threadIdx.x % 4 == 0 && own_row + 8 * half < at.rows)
                lse[at.statistic(sizes, own_row + 8 * half)] =
                    total == 0.0f ? -limits<float>::infinity() : (of.largest[half] * unit + log2(total)) * float(1 / log2_e);
            factor[half] = total == 0.0f ? 0.0f : 1 / total;
        }
        store<value_size>(at.of_rows(o, sizes.o), warp_row, sums, factor);
    }
}
