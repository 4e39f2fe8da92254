// Addresses of the matrices of a batch that no single step leads through, for products that read them from a table.
// In: the addresses of the first left, right and resulting matrix; sizes of the batch's axes, and the steps along them
// in bytes, all of the left operand first. Out: table[3 * count], the left addresses, the right ones, the results'.
// Launch: one thread per matrix, blocks along x. Shared memory: none.
constexpr int block = << block >>, axes = << axes >>;
<< Batch >>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    unsigned long long* table, unsigned long long a, unsigned long long b, unsigned long long out, Batch batch, int count)
{
    const int i = blockIdx.x * block + threadIdx.x;
    if (i >= count) return;
    int rest = i;
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis) {
        const int size = int(batch.size[axis]), at = rest % size;
        rest /= size;
        a += at * batch.step[0][axis];
        b += at * batch.step[1][axis];
        out += at * batch.step[2][axis];
    }
    table[i] = a;
    table[count + i] = b;
    table[2 * count + i] = out;
}
