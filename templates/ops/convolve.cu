// y[p, i] = sum over j of x[i + j] * k[j], i < count, over the p-th `part` of the m elements of k. x (count + m - 1),
// k (m), y (parts, count) in << result >>: the whole where there is one part, else sums that are still to be added up.
// Launch: blockIdx.y numbers the parts; a thread owns `piece` elements of y, << items >> at a time. No shared memory.
// Products are added up in << compute >>, and every << run >> of them in << wide >>, so that long sums keep their digits.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const << elem >>* __restrict__ k, << result >>* __restrict__ y, long long count,
    long long m, long long part, long long piece)
{
    using T = << compute >>;
    using W = << wide >>;
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    const long long begin = blockIdx.y * part, end = minimum(m, begin + part);
    long long i = first;
<% for step in ([items, 1] if items > 1 else [1]) %>
    for (; i + << step >> <= last; i += << step >>) {
        W total[<< step >>] = {};
        for (long long start = begin; start < end; start += << run >>) {
            const long long stop = minimum(end, start + << run >>);
            T sum[<< step >>] = {};
            for (long long j = start; j < stop; ++j)
                for (int v = 0; v < << step >>; ++v) sum[v] += cast<T>(x[i + j + v]) * cast<T>(k[j]);
            for (int v = 0; v < << step >>; ++v) total[v] += sum[v];
        }
        for (int v = 0; v < << step >>; ++v) y[blockIdx.y * count + i + v] = cast< << result >> >(total[v]);
    }
<% endfor %>
}
