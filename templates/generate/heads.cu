// Queries, keys and values of new positions, from projections to what attention reads: a bias is added; each head of queries
// and keys is divided by its root mean square and multiplied by a weight; their first `turned` features are rotated. Queries
// go to `to`, keys and values behind those of a cache.
// q, k, v (batch, length, heads * features), in float; to (batch, heads, length, features) in C order; keys, values (batch,
// heads of keys, capacity, features); lengths (batch): the positions with the new ones; biases and weights: or null; table
// (positions, turned / 2, 2): the cosine and sine of each pair's angle.
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
    View<const float, 3> q, View<const float, 3> k, View<const float, 3> v, const float* q_bias, const float* k_bias,
    const float* v_bias, const float* q_weight, const float* k_weight, const float* table, const int* lengths, T* to,
    View<T, 4> keys, View<T, 4> values, int heads, long long rows, float eps)
{
    let_next_kernel_begin();
    wait_for_earlier_kernels();
    const int key_heads = keys.shape[1], length = q.shape[1], all = heads + 2 * key_heads;
    const long long given = (long long)row_team() * row_groups + row_group(), row = given < rows ? given : rows - 1;
    const int head = row % all, at = row / all % length, batch = row / all / length, place = lengths[batch] - length + at;
    int phase = 0;
    Head found;
    if (head < heads) {
        found.read(&q(batch, at, (long long)head * features), q_bias ? q_bias + head * features : nullptr);
        if (q_weight) found.normalize(q_weight, eps, phase);
    } else if (head < heads + key_heads) {
        const int own = head - heads;
        found.read(&k(batch, at, (long long)own * features), k_bias ? k_bias + own * features : nullptr);
        if (k_weight) found.normalize(k_weight, eps, phase);
    } else {
        const int own = head - heads - key_heads;
        found.read(&v(batch, at, (long long)own * features), v_bias ? v_bias + own * features : nullptr);
    }
    row_end();
    if (given >= rows || place < 0 || place >= keys.shape[2]) return;
    if (head < heads + key_heads) found.turn(table + (long long)place * turned);
    if (head < heads) found.write(to + (((long long)batch * heads + head) * length + at) * features);
    else if (head < heads + key_heads) found.write(&keys(batch, head - heads, place, 0));
    else found.write(&values(batch, head - heads - key_heads, place, 0));
}
