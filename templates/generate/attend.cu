// Decoding attention of one new position of each sequence, fused with its projections' heads (heads.cu): the new key and value
// are written to the cache, and each query's softmax(q @ keys.T * scale) @ values to y. Blocks of a cluster share the positions
// and merge partial softmaxes (split-KV, as in flash-decoding).
// q, k, v (batch, heads * features) in float, rows q_step, k_step and v_step apart; keys, values (batch, heads of keys, capacity,
// features) in C order; lengths (batch): the positions with the new ones, of which the last `window` are attended to; biases and
// weights: or null; table (positions, rotary / 2, 2): the cosine and sine of each pair's angle. y (batch, heads * features) in
// float; with `planes` in 8 bits, as numbers and factors of activations.cuh. With `capped` scores are cap * tanh(score / cap).
// Launch: for each head of keys and sequence `shares` clusters of `parts` blocks, in x: the clusters have equal parts of the head's
// queries. While earlier kernels end, this one reads lengths, the table and the cache of earlier positions: between the kernel that
// wrote them and this one there must be one that did not let its successor begin early.
<% set threads = 32 %>
<% include "prelude/overlap.cuh" %>
<% include "generate/head.cuh" %>
<% include "prelude/exponential.cuh" %>
<% include "prelude/cluster.cuh" %>
<% include "lib/pack.cuh" %>
<% if planes %>
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "quant/activations_warp.cuh" %>
<% else %>
struct Factor;
<% endif %>
constexpr int group = << group >>, shares = << shares >>;  // queries of a cluster, clusters that share a head of keys
constexpr int warps = << warps >>, parts = << parts >>;
constexpr int lanes = features / 8, teams = 32 / lanes;                       // lanes share a position, teams a warp
constexpr int ahead = 4;                                                      // positions that a team reads together
constexpr bool capped = << capped | lower >>;

// The state of an online softmax: sums of values weighted by exp(score - largest); without a position `largest` is -inf.
template <int N>
struct Mean {
    float largest, total, sums[N];

    // Rescales the sums for scores up to `most`. Returns the number that is subtracted from exponents.
    __device__ __forceinline__ float raise(float most) {
        const float from = most == -limits<float>::infinity() ? 0.0f : most, shrink = exp_of(largest - from);
        largest = most;
        total *= shrink;
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] *= shrink;
        return from;
    }
    __device__ __forceinline__ void add(const Mean& other) {
        const float factor = exp_of(other.largest - raise(maximum(largest, other.largest)));
        total += other.total * factor;
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += other.sums[i] * factor;
    }
};
using Own = Mean<8>;
// Merges COUNT states, STEP apart. All factors are relative to the largest of all, so that no merge waits for another.
template <int COUNT, int STEP>
__device__ __forceinline__ Own joined(const Own* given) {
    float most = given[0].largest;
#pragma unroll
    for (int i = 1; i < COUNT; ++i) most = maximum(most, given[i * STEP].largest);
    const float from = most == -limits<float>::infinity() ? 0.0f : most;
    Own all = {most, 0, {}};
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const Own& one = given[i * STEP];
        const float factor = exp_of(one.largest - from);
        all.total += one.total * factor;
#pragma unroll
        for (int j = 0; j < 8; ++j) all.sums[j] += one.sums[j] * factor;
    }
    return all;
}
// Results of a cluster in packs of eight; one block computes four neighbouring packs.
constexpr int packs = group * lanes, of_rank = (packs / 4 + parts - 1) / parts * 4;
// Shared memory: the heads of the new position; the states of the block's warps; those of all blocks for its packs.
struct Memory {
    alignas(16) T queries[group][features], key[features], value[features];
    Own of_warps[warps][packs], of_parts[parts][of_rank];
};
// Keys and values of `ahead` positions in a team's registers, eight features a lane; positions beyond the last are not loaded.
struct Rows {
    Pack<T, 8> keys[ahead], values[ahead];

    __device__ __forceinline__ void load(const T* from_keys, const T* from_values, int first, int step, int end) {
        const int feature = 8 * (threadIdx.x % lanes);
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            const int position = first + u * step;
            if (position >= end) continue;
            keys[u] = load_pack<8>(from_keys + (long long)position * features + feature);
            values[u] = load_pack<8>(from_values + (long long)position * features + feature);
        }
    }
    // Replaces the new position, which the cache did not have when it was read.
    __device__ __forceinline__ void put(const Memory& memory, int first, int step, int latest) {
        const int feature = 8 * (threadIdx.x % lanes);
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            if (first + u * step != latest) continue;
            keys[u] = load_pack<8>(memory.key + feature);
            values[u] = load_pack<8>(memory.value + feature);
        }
    }
    __device__ __forceinline__ void attend(Own& own, const T* query, int first, int step, int end, float scale, float cap) const {
        float score[ahead], most = own.largest;
        const Pack<T, 8> q = load_pack<8>(query + 8 * (threadIdx.x % lanes));
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) sum += cast<float>(q.at[i]) * cast<float>(keys[u].at[i]);
#pragma unroll
            for (int apart = 1; apart < lanes; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
            sum *= scale;
            score[u] = first + u * step < end ? (capped ? cap * tanh_of(sum / cap) : sum) : -limits<float>::infinity();
            most = maximum(most, score[u]);
        }
        const float from = own.raise(most);
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            if (first + u * step >= end) continue;
            const float weight = exp_of(score[u] - from);
            own.total += weight;
#pragma unroll
            for (int i = 0; i < 8; ++i) own.sums[i] += weight * cast<float>(values[u].at[i]);
        }
    }
};

__device__ __forceinline__ Memory& memory_of_block() {
    __shared__ Memory memory;
    return memory;
}
// Computes the heads of a sequence's new position, a head a warp at a time.
struct Heads {
    const float *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_weight, *k_weight;
    Angles angles;
    bool inside;  // whether the position is in the table
    float eps;

    __device__ __forceinline__ void write(Memory& memory, int key_head, int first_query) const {
        for (int i = threadIdx.x / 32; i < group + 2; i += warps) {
            const int which = i < group ? 0 : i - group + 1, start = (which ? key_head : first_query + i) * features;
            const float* const bias = which == 0 ? q_bias : which == 1 ? k_bias : v_bias;
            const float* const weight = which == 0 ? q_weight : which == 1 ? k_weight : nullptr;
            int phase = 0;
            Head head;
            head.read((which == 0 ? q : which == 1 ? k : v) + start, bias ? bias + start : nullptr);
            if (weight) head.normalize(weight, eps, phase);
            if (which < 2 && inside) head.rotate(angles);
            head.write(which == 0 ? memory.queries[i] : which == 1 ? memory.key : memory.value);
        }
        row_end();
    }
};
// Merges the states of all teams and warps, and sends them to the blocks that finish the results.
__device__ __forceinline__ void send(Memory& memory, Own (&own)[group], int rank) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < group; ++g) {
#pragma unroll
        for (int apart = lanes; apart < 32; apart *= 2) own[g].add(shuffle_xor(own[g], apart));
        if (lane < lanes) memory.of_warps[threadIdx.x / 32][g * lanes + lane] = own[g];
    }
    __syncthreads();
    cluster_wait();  // all blocks have begun
    for (int pack = threadIdx.x; pack < packs; pack += 32 * warps) {
        const Own all = joined<warps, packs>(&memory.of_warps[0][pack]);
        const int four = pack / 4;
        *map_shared_rank(&memory.of_parts[rank][four / parts * 4 + pack % 4], four % parts) = all;
    }
    cluster_barrier();
}

extern "C" __global__ void __cluster_dims__(<< parts >>, 1, 1) __launch_bounds__(<< block >>) << name >>(
    const float* q, const float* k, const float* v, const float* q_bias, const float* k_bias, const float* v_bias,
    const float* q_weight, const float* k_weight, const float* table, const int* lengths, T* keys, T* values, float* y,
    uint2* numbers, Factor* factors, long long q_step, long long k_step, long long v_step, int key_heads, int capacity,
    int window, float scale, float cap, float eps)
{
    Memory& memory = memory_of_block();
    cluster_arrive_relaxed();  // nothing has been written
    allow_next_kernel();
    const int rank = blockIdx.x % parts, lane = threadIdx.x % 32;
    const long long cluster = blockIdx.x / parts, matrix = cluster / shares, batch = matrix / key_heads;
    const int key_head = matrix % key_heads, latest = lengths[batch] - 1, end = minimum(latest + 1, capacity);
    T *const own_keys = keys + matrix * capacity * features, *const own_values = values + matrix * capacity * features;
    // A warp's teams have neighbouring positions.
    constexpr int step = parts * warps * teams;
    const int before = maximum(0, latest + 1 - window) + (rank * warps + (int)threadIdx.x / 32) * teams;
    Rows rows = {};
    rows.load(own_keys, own_values, before + lane / lanes, step, minimum(end, latest));
    const bool inside = latest >= 0 && latest < capacity;
    Angles angles = {};
    if (inside) angles.load(table + (long long)latest * rotary);
    wait_for_earlier_kernels();
    const Heads heads{q + batch * q_step, k + batch * k_step, v + batch * v_step, q_bias, k_bias, v_bias, q_weight, k_weight,
                      angles, inside, eps};
    heads.write(memory, key_head, (key_head * shares + int(cluster % shares)) * group);
    __syncthreads();
    if (rank == 0 && cluster % shares == 0 && inside)
        for (int i = threadIdx.x; i < features; i += 32 * warps) {
            own_keys[(long long)latest * features + i] = memory.key[i];
            own_values[(long long)latest * features + i] = memory.value[i];
        }
    Own own[group];
#pragma unroll
    for (int g = 0; g < group; ++g) own[g] = {-limits<float>::infinity(), 0, {}};
    for (int first = before; first < end; first += ahead * step) {
        const int at = first + lane / lanes;
        if (first != before) rows.load(own_keys, own_values, at, step, minimum(end, latest));
        rows.put(memory, at, step, latest);
#pragma unroll
        for (int g = 0; g < group; ++g) rows.attend(own[g], memory.queries[g], at, step, end, scale, cap);
    }
    send(memory, own, rank);
    // Whole warps take part, as quantize_eight needs.
    for (int i = threadIdx.x; i - lane < of_rank; i += 32 * warps) {
        const int pack = (i / 4 * parts + rank) * 4 + i % 4;
        const bool present = i < of_rank && pack < packs;
        Own all = {-limits<float>::infinity(), 0, {}};
        if (present) all = joined<parts, of_rank>(&memory.of_parts[0][i]);
        const float inverse = all.total == 0 ? 0.0f : 1 / all.total;
        Pack<float, 8> result;
#pragma unroll
        for (int j = 0; j < 8; ++j) result.at[j] = all.sums[j] * inverse;
        const long long to = cluster * packs + pack;
<% if planes %>
        Factor factor;
        const uint2 bytes = quantize_eight(result, factor);
        if (!present) continue;
        numbers[to] = bytes;
        if (to % (2 * together) == 0) factors[to / (2 * together)] = factor;
<% else %>
        if (present) store_pack(y + 8 * to, result);
<% endif %>
    }
}
