// y[places[order[i]]] = x[order[i]] for the last i of each place, i < count; order puts the places in order, stably.
// Launch: a thread owns `piece` of the i, << block >> threads a block: no two threads write one place. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const long long* __restrict__ places, const long long* __restrict__ order,
    << elem >>* __restrict__ y, long long count, long long piece)
{
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    for (long long i = first; i < last; ++i) {
        const long long place = places[order[i]];
        if (i + 1 == count || places[order[i + 1]] != place) y[place] = x[order[i]];
    }
}
