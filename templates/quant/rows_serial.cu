// As rows.cu, for a thread that runs alone: y = x @ W.T + bias by integer dot products. Launch: a thread makes `each` rows of W.
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
using T = << elem >>;
constexpr bool biased = << "true" if biased else "false" >>;

// The product of a unit with 8-bit numbers of x from the block's first on.
__device__ __forceinline__ float product(const Kind::Unit& unit, int part, const signed char* numbers, const Factor* factors) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < Kind::groups; ++i) {
        const Group group = unit.decode(i);
        const int number = group_of<Kind>(part, i);
        const signed char *const q = (const signed char*)group.q, *const x = numbers + 16 * number;
        const Factor& factor = factors[number / together];
        int sum = Kind::shifted || number % together ? 0 : factor.start - magic_bits;
#pragma unroll
        for (int j = 0; j < 16; ++j) sum += int(q[j]) * int(x[j]);
        total += group.scale * factor.d * float(sum);
        if (Kind::shifted && number % together == 0) total += group.least * __int_as_float(factor.start);
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned char* blocks, const signed char* numbers, const Factor* factors, const T* bias, T* y,
    int outputs, int columns, int k, int each)
{
    const int row_blocks = k / Kind::weights, first = blockIdx.x * each, end = minimum(outputs, first + each);
    for (int row = first; row < end; ++row) {
        float sums[8] = {};
        for (int block = 0; block < row_blocks; ++block) {
            const unsigned char* const from = blocks + ((long long)row * row_blocks + block) * Kind::bytes;
#pragma unroll
            for (int part = 0; part < Kind::units; ++part) {
                const Kind::Unit unit(from, part);
                for (int column = 0; column < columns; ++column) {
                    const long long before = (long long)column * k + block * Kind::weights;
                    sums[column] += product(unit, part, numbers + before, factors + before / (16 * together));
                }
            }
        }
        for (int column = 0; column < columns; ++column)
            y[(long long)column * outputs + row] = cast<T>(biased ? sums[column] + cast<float>(bias[row]) : sums[column]);
    }
}
