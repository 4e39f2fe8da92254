// y[i] = how many elements of the sorted xs (n) come before q[i], i < count: << "those below it, or equal" if right else "those below it" >>. A binary search each.
// xs in ascending order, NaN last<< "; its element j is xs[order[j]]" if indirect >>.
// Launch: a thread owns `piece` queries. No shared memory.
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>;
constexpr bool right = << "true" if right else "false" >>;

// Whether x comes before what is sought: below it, or on the left side of equal ones, where NaN equals NaN and is above all.
__device__ __forceinline__ bool before(acc x, acc wanted) {
    return right ? !(wanted < x || (x != x && wanted == wanted)) : x < wanted || (wanted != wanted && x == x);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ xs, << "const long long* __restrict__ order, " if indirect >>const T* __restrict__ q,
    long long* __restrict__ y, long long n, long long count, long long piece)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    for (long long i = first; i < last; ++i) {
        const acc wanted = cast<acc>(q[i]);
        long long low = 0, high = n;
        while (low < high) {
            const long long middle = low + (high - low) / 2;
            const bool less = before(cast<acc>(xs[<< "order[middle]" if indirect else "middle" >>]), wanted);
            if (less) low = middle + 1;
            else high = middle;
        }
        y[i] = low;
    }
}
