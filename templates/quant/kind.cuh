// A kind of blocks: struct Kind tells the weights and bytes of a block, the alignment of its fields, and how to decode it. A unit
// is what shares bytes: a thread reads it at once. It has groups of 16 weights: of two units that are interleaved, one has the
// even groups and one the odd; else a unit's groups follow each other, and each two have one scale. A weight is
// scale * (q - zero), plus `least` if the kind is shifted: products of so few bits are exact, so that it does not matter whether
// the sum is a fused one.
#include <cuda_fp16.h>
<% include "quant/words.cuh" %>
struct Group {
    unsigned q[4];  // a weight in each byte, which is signed
    float scale, least;
};
// The number within a block of a unit's i-th group.
template <class K>
__device__ __forceinline__ int group_of(int unit, int i) {
    return K::interleaved ? unit / 2 * (2 * K::groups) + unit % 2 + 2 * i : unit * K::groups + i;
}
<% include "quant/kinds/" ~ kind ~ ".cuh" %>
// Weight j of a group.
__device__ __forceinline__ float weight(const Group& group, int j) {
    const int q = (signed char)(group.q[j / 4] >> 8 * (j % 4));
    const float product = group.scale * float(q - Kind::zero);
    return Kind::shifted ? product + group.least : product;
}
