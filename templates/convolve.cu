// y[p, i] = sum over j of x[i + j] * k[j], i < count, over the p-th `part` of the m elements of k. x (count + m - 1),
// k (m), y (parts, count) in << result >>: the whole where there is one part, else sums that are still to be added up.
// Launch: blockIdx.y numbers the parts; a thread owns `piece` elements of y, << items >> at a time. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const << elem >>* __restrict__ k, << result >>* __restrict__ y, long long count,
    long long m, long long part, long long piece)
{
    using T = << compute >>;
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    const long long begin = blockIdx.y * part, end = minimum(m, begin + part);
    long long i = first;
<% if items > 1 %>
    for (; i + << items >> <= last; i += << items >>) {
        T total[<< items >>];
        for (int v = 0; v < << items >>; ++v) total[v] = cast<T>(0);
        for (long long j = begin; j < end; ++j)
            for (int v = 0; v < << items >>; ++v) total[v] += cast<T>(x[i + j + v]) * cast<T>(k[j]);
        for (int v = 0; v < << items >>; ++v) y[blockIdx.y * count + i + v] = cast< << result >> >(total[v]);
    }
<% endif %>
    for (; i < last; ++i) {
        T total = cast<T>(0);
        for (long long j = begin; j < end; ++j) total += cast<T>(x[i + j]) * cast<T>(k[j]);
        y[blockIdx.y * count + i] = cast< << result >> >(total);
    }
}
