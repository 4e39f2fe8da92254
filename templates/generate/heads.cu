// Queries, keys and values of new positions, from projections to what attention reads: a bias is added; each head of queries
// and keys is divided by its root mean square and multiplied by a weight; their first `turned` features are rotated. Queries
// go to `to`, keys and values behind those of a cache.
// q, k, v (batch * length, heads * features) in float, rows q_step, k_step and v_step apart; to (batch, heads, length,
// features), keys, values (batch, heads of keys, capacity, features) in C order; lengths (batch): the positions with the new
// ones; biases and weights: or null; table (positions, turned / 2, 2): the cosine and sine of each pair's angle.
// Launch: a row for each position and head of q, k and v, of threads / block threads.
<% set cluster, acc = 1, "float" %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/overlap.cuh" %>
using T = << elem >>;
constexpr int features = << features >>, turned = << turned >>, threads = << threads >>;
constexpr int chunks = (features / 2 + threads - 1) / threads;
// Whether the elements of a pair lie side by side, or half of the turned features apart.
constexpr bool neighbours = << neighbours | lower >>;
using RowState = float;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

// Where the first element of a pair is, and how far the second is from it.
__device__ __forceinline__ int first_of(int pair) { return pair < turned / 2 && !neighbours ? pair : 2 * pair; }
__device__ __forceinline__ int apart(int pair) { return pair < turned / 2 && !neighbours ? turned / 2 : 1; }

struct Head {
    float of[chunks][2];

    __device__ __forceinline__ void read(const float* from, const float* bias) {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane(), at = first_of(pair), other = at + apart(pair);
            of[i][0] = of[i][1] = 0;
            if (2 * pair >= features) continue;
            of[i][0] = from[at] + (bias ? bias[at] : 0.0f);
            of[i][1] = from[other] + (bias ? bias[other] : 0.0f);
        }
    }
    __device__ __forceinline__ void normalize(const float* weight, float eps, int& phase) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < chunks; ++i) sum += of[i][0] * of[i][0] + of[i][1] * of[i][1];
        const float factor = 1 / sqrt(row_reduce(sum, phase) / features + eps);
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane(), at = first_of(pair);
            if (2 * pair >= features) continue;
            of[i][0] *= factor * weight[at];
            of[i][1] *= factor * weight[at + apart(pair)];
        }
    }
    __device__ __forceinline__ void turn(const float* table) {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane();
            if (pair >= turned / 2) continue;
            const float cosine = table[2 * pair], sine = table[2 * pair + 1], x = of[i][0], y = of[i][1];
            of[i][0] = x * cosine - y * sine;
            of[i][1] = x * sine + y * cosine;
        }
    }
    __device__ __forceinline__ void write(T* to) const {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane(), at = first_of(pair);
            if (2 * pair >= features) continue;
            to[at] = cast<T>(of[i][0]);
            to[at + apart(pair)] = cast<T>(of[i][1]);
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const float* q, const float* k, const float* v, const float* q_bias, const float* k_bias, const float* v_bias,
    const float* q_weight, const float* k_weight, const float* table, const int* lengths, T* to, T* keys, T* values,
    long long q_step, long long k_step, long long v_step, int heads, int key_heads, int length, int capacity,
    long long rows, float eps)
{
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int all = heads + 2 * key_heads;
    const long long given = (long long)row_team() * row_groups + row_group(), row = given < rows ? given : rows - 1;
    const long long position = row / all, batch = position / length;
    const int at = position % length, place = lengths[batch] - length + at;
    int head = row % all, phase = 0;
    // Which of q, k and v, and the number of the head in it.
    const int which = head < heads ? 0 : head < heads + key_heads ? 1 : 2;
    head -= which == 0 ? 0 : which == 1 ? heads : heads + key_heads;
    const float* const from = which == 0 ? q + position * q_step : which == 1 ? k + position * k_step : v + position * v_step;
    const float* const bias = which == 0 ? q_bias : which == 1 ? k_bias : v_bias;
    const float* const weight = which == 0 ? q_weight : which == 1 ? k_weight : nullptr;
    Head found;
    found.read(from + head * features, bias ? bias + head * features : nullptr);
    if (weight) found.normalize(weight, eps, phase);
    row_end();
    if (given >= rows || place < 0 || place >= capacity) return;
    if (which < 2) found.turn(table + (long long)place * turned);
    const long long cached = ((batch * key_heads + head) * capacity + place) * features;
    if (which == 0) found.write(to + ((batch * heads + head) * length + at) * features);
    else found.write((which == 1 ? keys : values) + cached);
}
