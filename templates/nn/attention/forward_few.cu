// forward.cu for few rows: keys and values go from memory to registers, as a block needs each of them once. << lanes >> lanes of a
// warp share a key, each with some packs of 16 bytes of its features; the threads of a block have the keys of a tile side by side.
// While the scores of a tile are made its values are on their way, and while those are summed the next keys are.
// Launch: a block for each tile of rows, head of keys and batch, in x. Rows of q, k and v begin at multiples of 16 bytes.
// Shared, dynamic: the rows of q; after the last tile the sums of each warp in their place.
<% include "nn/attention/attention.cuh" %>
<% include "lib/pack.cuh" %>
<% include "prelude/next_kernel.cuh" %>
constexpr int lanes = << lanes >>, teams = threads / lanes, warps = threads / 32;
constexpr int own_n = tile_n / teams;  // keys of a thread, teams apart
constexpr int width = 16 / sizeof(T);  // elements of a pack
constexpr int head_packs = head_size / width, value_packs = value_size / width;
constexpr int own_value = (value_packs + lanes - 1) / lanes;  // packs of a lane, lanes apart
constexpr int result_step = value_size + 2;

__device__ __forceinline__ int lane() { return threadIdx.x % lanes; }

// What a thread has of a tile of keys or of values, PACKS of a row in all; zeros beyond the last key.
template <int PACKS>
struct OwnPacks {
    static constexpr int count = (PACKS + lanes - 1) / lanes;
    Pack<T, width> at[own_n][count];

    template <typename R>
    __device__ __forceinline__ void load(const R& rows, int first) {
#pragma unroll
        for (int j = 0; j < own_n; ++j) {
            const T* const from = rows(first + j * teams + (int)threadIdx.x / lanes);
#pragma unroll
            for (int p = 0; p < count; ++p) {
                const int i = lane() + p * lanes;
                at[j][p] = from && (PACKS % lanes == 0 || i < PACKS) ? load_pack<width>(from + i * width) : Pack<T, width>{};
            }
        }
    }
};
// The weighted sum of values of a row, whose weights are exponentials; without a key `largest` is -inf.
struct Mean {
    A largest, total, sums[own_value][width];

    // Takes exponents from `most` on, or from 0 if that is -inf, and rescales what has been summed; returns where they begin.
    __device__ __forceinline__ A raise(A most) {
        const A from = most == -limits<A>::infinity() ? A(0) : most, shrink = exp_of(largest - from);
        largest = most;
        total *= shrink;
#pragma unroll
        for (int p = 0; p < own_value; ++p)
#pragma unroll
            for (int e = 0; e < width; ++e) sums[p][e] *= shrink;
        return from;
    }
    // Adds the sum of the lane so many apart, which has other keys.
    __device__ __forceinline__ void add_lane(int apart) {
        raise(maximum(largest, __shfl_xor_sync(0xffffffffu, largest, apart)));
        total += __shfl_xor_sync(0xffffffffu, total, apart);
#pragma unroll
        for (int p = 0; p < own_value; ++p)
#pragma unroll
            for (int e = 0; e < width; ++e) sums[p][e] += __shfl_xor_sync(0xffffffffu, sums[p][e], apart);
    }
};
// score += the products of rows of q with a thread's keys, as far as its packs go; then those of all lanes.
__device__ __forceinline__ void multiply(A (&score)[tile_m][own_n], const T* of_q, const OwnPacks<head_packs>& keys) {
#pragma unroll
    for (int p = 0; p < keys.count; ++p) {
        const int i = lane() + p * lanes;
        A key[own_n][width];
#pragma unroll
        for (int j = 0; j < own_n; ++j)
#pragma unroll
            for (int e = 0; e < width; ++e) key[j][e] = cast<A>(keys.at[j][p].at[e]);
#pragma unroll
        for (int r = 0; r < tile_m; ++r) {
            if (head_packs % lanes && i >= head_packs) continue;
            const Pack<T, width> q = load_pack<width>(of_q + r * head_size + i * width);
#pragma unroll
            for (int e = 0; e < width; ++e)
#pragma unroll
                for (int j = 0; j < own_n; ++j) score[r][j] += cast<A>(q.at[e]) * key[j][e];
        }
    }
#pragma unroll
    for (int apart = 1; apart < lanes; apart *= 2)
#pragma unroll
        for (int r = 0; r < tile_m; ++r)
#pragma unroll
            for (int j = 0; j < own_n; ++j) score[r][j] += __shfl_xor_sync(0xffffffffu, score[r][j], apart);
}
// Adds the values of a thread's keys, times their weights.
__device__ __forceinline__ void add_values(Mean (&means)[tile_m], const A (&weights)[tile_m][own_n], const OwnPacks<value_packs>& values) {
#pragma unroll
    for (int j = 0; j < own_n; ++j)
#pragma unroll
        for (int p = 0; p < own_value; ++p)
#pragma unroll
            for (int e = 0; e < width; ++e) {
                const A value = cast<A>(values.at[j][p].at[e]);
#pragma unroll
                for (int r = 0; r < tile_m; ++r) means[r].sums[p][e] += weights[r][j] * value;
            }
}
// Leaves the means of all warps in shared memory: of each row the sums, then the largest score and the total.
__device__ __forceinline__ void leave(A* of_warps, Mean (&means)[tile_m]) {
    A* const of_warp = of_warps + threadIdx.x / 32 * tile_m * result_step;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < tile_m; ++r) {
        Mean& mean = means[r];
#pragma unroll
        for (int apart = lanes; apart < 32; apart *= 2) mean.add_lane(apart);
        if (threadIdx.x % 32 >= lanes) continue;
        A* const to = of_warp + r * result_step;
#pragma unroll
        for (int p = 0; p < own_value; ++p)
#pragma unroll
            for (int e = 0; e < width; ++e)
                if (lane() + p * lanes < value_packs) to[(lane() + p * lanes) * width + e] = mean.sums[p][e];
        if (lane() == 0) to[value_size] = mean.largest, to[value_size + 1] = mean.total;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    Result* o, RowStatistics* lse, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    allow_next_kernel();
    T* const of_q = (T*)shared;
    const Place at(sizes, starts_q, starts_k, false);
    RowStatistics* const of_lse = at.of_part(lse, sizes, (index)sizes.heads * group * sizes.queries);
    const int row = at.first_row(sizes);
    const auto keys = at.of_keys(k, sizes.k, at.keys);
    const auto values = at.of_keys(v, sizes.v, at.keys);
    const Course<tile_n> course = keys_for(at, sizes, lists, row);
    OwnPacks<head_packs> own_keys;
    OwnPacks<value_packs> own_values;
    if (course.count) own_keys.load(keys, course[0]), own_values.load(values, course[0]);
    const auto queries = at.of_rows(q, sizes.q);
    for (int x = threadIdx.x; x < tile_m * head_packs; x += threads) {
        const T* const from = queries(row + x / head_packs);
        store_pack(of_q + x * width, from ? load_pack<width>(from + x % head_packs * width) : Pack<T, width>{});
    }
    __syncthreads();
    Mean means[tile_m];
#pragma unroll
    for (int r = 0; r < tile_m; ++r) means[r] = {-limits<A>::infinity(), A(0), {}};
    for (int n = 0; n < course.count; ++n) {
        const int key = course[n];
        scores.open = course.open(n);
        A score[tile_m][own_n] = {};
        multiply(score, of_q, own_keys);
        if (n + 1 < course.count) own_keys.load(keys, course[n + 1]);
        const bool whole = at.attends_to_all(row, row + tile_m, key, key + tile_n);
#pragma unroll
        for (int r = 0; r < tile_m; ++r) {
            const int own_row = row + r;
            A most = means[r].largest;
#pragma unroll
            for (int j = 0; j < own_n; ++j) {
                const int own_key = key + j * teams + (int)threadIdx.x / lanes;
                A& s = score[r][j];
                if (!whole && !at.attends(own_row, own_key)) s = -limits<A>::infinity();
                else if constexpr (plain) s *= A(sizes.scale);
                else s = scores(s, Spot{at.batch, at.head * group + own_row % group, own_row / group, own_key}).value;
                most = maximum(most, s);
            }
            const A from = means[r].raise(most);
#pragma unroll
            for (int j = 0; j < own_n; ++j) {
                A& s = score[r][j];
                s = exp_of(s - from);
                means[r].total += s;
                if constexpr (dropping)
                    s *= draw.factor(sizes, at.element(sizes, own_row, key + j * teams + (int)threadIdx.x / lanes));
            }
        }
        add_values(means, score, own_values);
        if (n + 1 < course.count) own_values.load(values, course[n + 1]);
    }
    A* const of_warps = (A*)shared;
    leave(of_warps, means);
    const auto results = at.of_rows(at.of_part(o, sizes, sizes.o.batch), sizes.o);
    for (int x = threadIdx.x; x < tile_m * value_size; x += threads) {
        const int r = x / value_size, e = x % value_size;
        const A* const from = of_warps + r * result_step;
        A most = from[value_size], total = A(0), sum = A(0);
#pragma unroll
        for (int w = 1; w < warps; ++w) most = maximum(most, from[w * tile_m * result_step + value_size]);
        const A base = most == -limits<A>::infinity() ? A(0) : most;
#pragma unroll
        for (int w = 0; w < warps; ++w) {
            const A* const one = from + w * tile_m * result_step;
            const A factor = exp_of(one[value_size] - base);
            total += one[value_size + 1] * factor;
            sum += one[e] * factor;
        }
        Result* const to = results(row + r);
        if (!to) continue;
        to[e] = cast<Result>(total == A(0) ? A(0) : sum / total);
        if (e == 0) of_lse[at.statistic(sizes, row + r)] = statistics_of(most, total);
    }
}
