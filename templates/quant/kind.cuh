// A kind of blocks: struct Kind tells the weights and bytes of a block, the alignment of its fields, and how to decode it. A unit
// is what shares bytes: a thread reads it at once. It has groups of 16 weights: of two units that are interleaved, one has the
// even groups and one the odd; else a unit's groups follow each other, and each two have one scale. A weight is
// scale * (q - zero), plus `least` if the kind is shifted: products of so few bits are exact, so that it does not matter whether
// the sum is a fused one.
#include <cuda_fp16.h>
// How many words of a group's weights a thread has, one in each byte: those of all, or, `of_lane`, of those that lane
// 4 * g + q has of a row of A in products of warpgroups: weights 2 * q, 2 * q + 1, 2 * q + 8 and 2 * q + 9.
constexpr int own_words = << 1 if of_lane is defined else 4 >>;
<% include "quant/words.cuh" %>
struct Group {
    unsigned q[own_words];  // a weight in each byte, which is signed
    float scale, least;
};
// The i-th of groups whose weights are bytes as they are.
template <int N>
__device__ __forceinline__ Group group_in(const unsigned (&words)[N], int i, float scale) {
    Group result{{}, scale, 0};
#pragma unroll
    for (int j = 0; j < own_words; ++j) result.q[j] = words[i * own_words + j];
    return result;
}
// The number within a block of a unit's i-th group.
template <class K>
__device__ __forceinline__ int group_of(int unit, int i) {
    return K::interleaved ? unit / 2 * (2 * K::groups) + unit % 2 + 2 * i : unit * K::groups + i;
}
// Which unit has a group of a row, and as which of its groups.
template <class K>
struct InUnit {
    int block, unit, group;

    __device__ __forceinline__ explicit InUnit(int number) {
        constexpr int all = K::weights / 16;
        block = number / all;
        const int within = number % all;
        unit = K::interleaved ? within / (2 * K::groups) * 2 + within % 2 : within / K::groups;
        group = K::interleaved ? within % (2 * K::groups) / 2 : within % K::groups;
    }
};
<% include "quant/kinds/" ~ kind ~ ".cuh" %>
// Weight j of the thread's own of a group. Its bits become the low ones of 2^23 as a float, of which 2^23 is subtracted.
__device__ __forceinline__ float weight(const Group& group, int j) {
    constexpr int shift = Kind::bits == 8 ? 128 : 0;
    const unsigned four = Kind::bits == 8 ? group.q[j / 4] ^ 0x80808080u : group.q[j / 4];
    const float q = __int_as_float(int(__byte_perm(four, 0x4b000000u, 0x7540 + j % 4))) - (8388608.0f + shift + Kind::zero);
    const float product = group.scale * q;
    return Kind::shifted ? product + group.least : product;
}
