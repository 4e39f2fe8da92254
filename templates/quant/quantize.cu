// blocks = x, in blocks of 32 weights of << kind >>.
// Launch: each thread owns `piece` blocks. No shared memory. Each operation is rounded, as in NumPy: none is fused with another.
#include <cuda_fp16.h>
using index = << index >>;
constexpr int levels = << levels >>, bytes = << bytes >>;  // of a weight, and of a block
constexpr bool shifted = << "true" if shifted else "false" >>;

// The number of steps from zero or the minimum, and how to divide by a step.
struct Scale {
    float step, least, inverse;

    __device__ __forceinline__ explicit Scale(const float* x) {
        float largest = x[0], smallest = x[0], extreme = x[0];
        for (int i = 1; i < 32; ++i) {
            largest = maximum(largest, x[i]);
            smallest = minimum(smallest, x[i]);
            if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
        }
        least = smallest;
        step = shifted ? __fdiv_rn(__fsub_rn(largest, smallest), float(levels - 1))
             : levels == 256 ? __fdiv_rn(fabsf(extreme), 127.0f)
                             : __fdiv_rn(extreme, -float(levels / 2));
        inverse = step == 0 ? 0.0f : __fdiv_rn(1.0f, step);
    }
    __device__ __forceinline__ int level(float x) const {
        if (levels == 256) {
            const float scaled = __fmul_rn(x, inverse), size = fabsf(scaled), whole = floorf(size);
            const int level = int(whole + floorf(2 * (size - whole)));
            return scaled < 0 ? -level : level;
        }
        const float from = shifted ? __fsub_rn(x, least) : x;
        const float middle = shifted ? 0.5f : levels / 2 + 0.5f;
        return min(int(__fadd_rn(__fmul_rn(from, inverse), middle)), levels - 1);
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(const float* x, unsigned char* blocks, index count, index piece)
{
    const index first = (index(blockIdx.x) * << block >> + index(threadIdx.x)) * piece, end = minimum(count, first + piece);
    for (index i = first; i < end; ++i) {
        const float* const from = x + (long long)i * 32;
        unsigned char* to = blocks + (long long)i * bytes;
        const Scale scale(from);
        *(unsigned short*)to = __half_as_ushort(__float2half(scale.step));
        to += 2;
        if (shifted) {
            *(unsigned short*)to = __half_as_ushort(__float2half(scale.least));
            to += 2;
        }
        if (levels == 256) {
            for (int j = 0; j < 32; ++j) to[j] = (unsigned char)scale.level(from[j]);
            continue;
        }
        unsigned high = 0;
        unsigned char* const nibbles = to + (levels == 32 ? 4 : 0);
        for (int j = 0; j < 16; ++j) {
            const int low = scale.level(from[j]), above = scale.level(from[j + 16]);
            nibbles[j] = (unsigned char)((low & 15) | (above & 15) * 16);
            high |= shl(unsigned(low >> 4), j) | shl(unsigned(above >> 4), j + 16);
        }
        if (levels == 32)
            for (int j = 0; j < 4; ++j) to[j] = (unsigned char)(high >> 8 * j);
    }
}
