// The sums of sparse/multiply.cu over parts of long block rows: part b, of `part` entries at most, is of the block row
// long_rows[l], where l = owners[b], whose first part is firsts[l]. sums (parts * R, columns).
// Launch: a block owns `tall` rows of a part, whose entries its groups share. Blocks along y share the columns. Shared: the
// sums of the groups.
<% include "sparse/multiply.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const IndexT* __restrict__ indices, const IndexT* __restrict__ offsets, const T* __restrict__ x,
    acc* __restrict__ result, const long long* __restrict__ long_rows, const long long* __restrict__ firsts,
    const long long* __restrict__ owners, long long columns, long long part)
{
    __shared__ acc shared[groups][tall][span];
    const int lane = threadIdx.x % (across * along), own = threadIdx.x / (across * along);
    const long long b = blockIdx.x / (R / tall);
    const int p = int(blockIdx.x % (R / tall)) * tall;
    const long long l = owners[b], row = long_rows[l];
    const long long begin = offsets[row] + (b - firsts[l]) * part;
    const long long last = minimum((long long)offsets[row + 1], begin + part);
    Sums sums;
    for (long long base = (long long)blockIdx.y * span; base < columns; base += (long long)gridDim.y * span) {
        const long long column = base + lane % across * items;
        add_entries(sums, a, indices, x, p, begin + threadIdx.x / across, last, block / across, column, columns);
        add_group(sums);
        if (lane < across) {
            for (int t = 0; t < tall; ++t)
                for (int k = 0; k < items; ++k) shared[own][t][lane * items + k] = sums[t][k];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < tall * span; i += block) {
            const int t = i / span, c = i % span;
            acc sum = shared[0][t][c];
            for (int g = 1; g < groups; ++g) sum += shared[g][t][c];
            if (base + c < columns) result[(b * R + p + t) * columns + base + c] = sum;
        }
        __syncthreads();
    }
}
