// Bits of y[o, j] = whether x[o, 8 * j + k] is not 0, for k from 0 to 7; bits beyond the end are 0.
// x (rows, n) and y (rows, bytes), in C order; bytes is n / 8, rounded up.
// Launch: a thread writes `items` bytes; a row is a multiple of that many, and of 8 * items elements, unless items is 1. No
// shared memory.
using Word = << word >>;
constexpr int block = << block >>, items = << items >>;
constexpr bool big = << "true" if big else "false" >>;
struct alignas(<< align >>) Bits {
    Word of[8 * items];
};
struct alignas(items) Bytes {
    unsigned char of[items];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Word* __restrict__ x, unsigned char* __restrict__ y, long long total, long long n, long long bytes)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * items;
    if (first >= total) return;
    Bits bits;
    if (items > 1) {
        bits = *reinterpret_cast<const Bits*>(x + 8 * first);
    } else {
        const long long row = first / bytes, from = 8 * (first - row * bytes);
#pragma unroll
        for (int k = 0; k < 8; ++k) bits.of[k] = from + k < n ? x[row * n + from + k] : Word(0);
    }
    Bytes result;
#pragma unroll
    for (int i = 0; i < items; ++i) {
        unsigned byte = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) byte |= shl(unsigned(bits.of[8 * i + k] != 0), big ? 7 - k : k);
        result.of[i] = (unsigned char)byte;
    }
    *reinterpret_cast<Bytes*>(y + first) = result;
}
