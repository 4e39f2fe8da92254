// winner[k] = the j that stays of all that belong to place k, -1 of none: << mode >> of j = order[starts[k]], ...,
// order[starts[k + 1] - 1], which are in rising order. x (count) are the values, winner (size).
// Launch: a thread owns `piece` places, << block >> threads a block. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const long long* __restrict__ order, const long long* __restrict__ starts,
    long long* __restrict__ winner, long long size, long long piece)
{
    using acc = << acc >>;
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(size, first + piece);
    for (long long k = first; k < last; ++k) {
        const long long begin = starts[k], end = starts[k + 1];
<% if mode == "last" %>
        winner[k] = begin < end ? order[end - 1] : -1;
<% else %>
        long long found = -1;
        for (long long i = begin; i < end; ++i) {
            const acc value = cast<acc>(x[order[i]]);
            const acc best = found < 0 ? value : cast<acc>(x[found]);
            // The first of equal values stays, and the first NaN.
            if (found < 0 || (best == best && (value != value || value << "<" if mode == "min" else ">" >> best))) found = order[i];
        }
        winner[k] = found;
<% endif %>
    }
}
