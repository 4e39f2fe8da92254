// y[i] = how many elements of the sorted xs (n) come before q[i], i < count: << "those below it, or equal" if right else "those below it" >>.
// xs in ascending order, NaN last<< "; its element j is xs[order[j]]" if indirect >>. A binary search each.
// Launch: a thread owns `piece` queries, << block >> threads a block. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ xs,<< " const long long* __restrict__ order," if indirect >> const << elem >>* __restrict__ q,
    long long* __restrict__ y, long long n, long long count, long long piece)
{
    using acc = << acc >>;
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    for (long long i = first; i < last; ++i) {
        const acc wanted = cast<acc>(q[i]);
        long long low = 0, high = n;
        while (low < high) {
            const long long middle = low + (high - low) / 2;
            const acc x = cast<acc>(xs[<< "order[middle]" if indirect else "middle" >>]);
<% if right %>
            const bool after = wanted < x<< " || (x != x && wanted == wanted)" if floating >>;
<% else %>
            const bool after = !(x < wanted<< " || (wanted != wanted && x == x)" if floating >>);
<% endif %>
            if (after) high = middle;
            else low = middle + 1;
        }
        y[i] = low;
    }
}
