// A kind of blocks: struct Kind tells the weights and bytes of a block, the alignment of its fields, and how to decode it. A unit
// is what shares bytes: a thread reads it at once. It has groups of 16 weights; group(unit, i) is the number of its i-th one
// among those of the block. A weight is scale * (q - zero), plus `least` if the kind is shifted: products of so few bits are
// exact, so that it does not matter whether the sum is a fused one.
#include <cuda_fp16.h>
<% include "quant/words.cuh" %>
struct Group {
    unsigned q[4];  // a weight in each byte, which is signed
    float scale, least;
};
<% include "quant/kinds/" ~ kind ~ ".cuh" %>
// Weight j of a group.
__device__ __forceinline__ float weight(const Group& group, int j) {
    const int q = (signed char)(group.q[j / 4] >> 8 * (j % 4));
    const float product = group.scale * float(q - Kind::zero);
    return Kind::shifted ? product + group.least : product;
}
