// A head of a query, key or value in the registers of `threads` threads: pairs of its elements, of which the first `rotary`
// elements take a rotary position embedding (Su et al., 2021). All threads that share a head call each function.
<% set cluster, acc = 1, "float" %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
constexpr int features = << features >>, rotary = << rotary >>, threads = << threads >>;
constexpr int chunks = (features / 2 + threads - 1) / threads;
// Whether the elements of a pair lie side by side, or half of the rotary features apart.
constexpr bool neighbours = << neighbours | lower >>;
using RowState = float;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

// The index of the first element of a pair, and how far the second is from it.
__device__ __forceinline__ int first_of(int pair) { return pair < rotary / 2 && !neighbours ? pair : 2 * pair; }
__device__ __forceinline__ int apart(int pair) { return pair < rotary / 2 && !neighbours ? rotary / 2 : 1; }

// The cosines and sines of a thread's pairs, from a position's row of the table.
struct Angles {
    float of[chunks][2];

    __device__ __forceinline__ void load(const float* table) {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane();
            if (pair >= rotary / 2) continue;
            of[i][0] = table[2 * pair], of[i][1] = table[2 * pair + 1];
        }
    }
};
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
    __device__ __forceinline__ void rotate(const Angles& angles) {
#pragma unroll
        for (int i = 0; i < chunks; ++i) {
            const int pair = i * threads + row_lane();
            if (pair >= rotary / 2) continue;
            const float cosine = angles.of[i][0], sine = angles.of[i][1], x = of[i][0], y = of[i][1];
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
