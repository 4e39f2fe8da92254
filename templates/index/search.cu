// By a binary search for each i < count: y[i] = << "whether q[i] is one of the sorted xs (n)" if among else "how many of the sorted xs (n) come before q[i]" >>, << "those below it, or equal" if right else "those below it" >>.
// xs in ascending order, NaN last<< "; its element j is xs[order[j]]" if indirect >>.
// Launch: a thread owns `piece` times `items` queries, which it searches together: they take as many steps. Shared: << "xs" if kept else "none" >>.
using T = << elem >>;
using acc = << acc >>;
using I = << index >>;
constexpr int block = << block >>, items = << items >>;
constexpr bool right = << "true" if right else "false" >>;

// Whether x comes before what is sought: below it, or on the left side of equal ones, where NaN equals NaN and is above all;
// without branches, which would be taken at random.
__device__ __forceinline__ bool before(acc x, acc wanted) {
    return right ? !((wanted < x) | ((x != x) & (wanted == wanted))) : (x < wanted) | ((wanted != wanted) & (x == x));
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ xs, << "const long long* __restrict__ order, " if indirect >>const T* __restrict__ q,
    << "bool" if among else "long long" >>* __restrict__ y, I n, long long count, I piece)
{
<% if kept %>
    // A search begins at places a power of two apart, which are spread over the banks.
    const auto spread = [](I i) { return i + i / 32u + i / 1024u; };
    __shared__ acc table[<< kept + kept // 32 + kept // 1024 + 1 >>];
    for (I i = threadIdx.x; i < n; i += block) table[spread(i)] = cast<acc>(xs[i]);
    __syncthreads();
    const auto element = [&](I i) { return table[spread(i)]; };
<% else %>
    const auto element = [&](I i) { return cast<acc>(xs[<< "order[i]" if indirect else "i" >>]); };
<% endif %>
    long long at = (long long)blockIdx.x * block * items * piece + threadIdx.x;
    for (I turn = 0; turn < piece && at < count; ++turn, at += block * items) {
        acc wanted[items];
        I base[items];
#pragma unroll
        for (int k = 0; k < items; ++k) {
            wanted[k] = cast<acc>(q[minimum(at + k * block, count - 1)]);
            base[k] = 0;
        }
        // What is sought is at one of base to base + length.
        for (I length = n; length > 1;) {
            const I half = length / 2;
#pragma unroll
            for (int k = 0; k < items; ++k) base[k] += I(before(element(base[k] + half - 1), wanted[k])) * half;
            length -= half;
        }
#pragma unroll
        for (int k = 0; k < items; ++k) {
            if (at + k * block >= count) break;
            const I found = base[k] + (n > 0 && before(element(base[k]), wanted[k]));
            y[at + k * block] = << "found < n && element(found) == wanted[k]" if among else "found" >>;
        }
    }
}
