<% if middle %>
// out (rows, 2): the keys at the indices (n - 1) / 2 and n / 2 of each sorted row of n keys; the second is NaN if one is.
<% else %>
// keys and indices (rows, k): the first k keys of each sorted row of n keys, and where they stand, in the order of that.
<% endif %>
// x (rows, n), the bits of the elements as integers. Radix selection: digits are counted from the highest on among the keys
// with the prefix so far, until the k-th key is known (Alabi, Blanchard, Gordon and Steinbach, "Fast k-selection algorithms
// for graphics processing units", 2012).
// Launch: a block per row. Shared: counts of the digits.
<% include "index/sort_keys.cuh" %>
using U = << unsigned >>;
constexpr int block = << block >>, items = << items >>, warps = block / 32;
constexpr int bits = 8 * int(sizeof(K)), width = << width >>, digits = << digits >>, each = (digits + block - 1) / block;
constexpr U sign = limits<K>::is_signed ? U(1) << "<<" >> (bits - 1) : U(0);

// A number in whose order the key belongs, above 0.
__device__ __forceinline__ U rank_of(K key) { return U(U(ordered(canonical(key))) ^ sign); }
// A key of this rank, where none descend.
__device__ __forceinline__ K key_of(U rank) {
    const O number = O(K(U(rank ^ sign)));
    return floating && number < O(0) ? K(U(U(O(0) - number) | sign)) : K(number);
}

// The exclusive scan over the threads, and the total; `of_warps` is shared memory for it.
__device__ __forceinline__ unsigned sum_before(unsigned number, unsigned* of_warps, unsigned& all) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = number;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += other;
    }
    if (lane == 31) of_warps[warp] = sum;
    __syncthreads();
    sum -= number;
    all = 0;
    for (int w = 0; w < warps; ++w) {
        if (w < warp) sum += of_warps[w];
        all += of_warps[w];
    }
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, << "K* __restrict__ out" if middle else "K* __restrict__ keys, I* __restrict__ indices" >>, I n, I k)
{
    __shared__ unsigned counts[digits], of_warps[warps], digit, skipped;
    << "__shared__ U of_thread[block];" if middle >>
    const long long row = blockIdx.x;
    const K* const from = x + row * n;
    U known = 0, prefix = 0;
    unsigned rank_sought = unsigned(k) - 1, equal = 0;
    << "bool nan = false;" if middle >>
    for (int low = bits - width;; low = maximum(0, low - width)) {
        for (int d = threadIdx.x; d < digits; d += block) counts[d] = 0;
        __syncthreads();
        for (I start = 0; start < n; start += block * items) {
            K held[items];
#pragma unroll
            for (int i = 0; i < items; ++i) {
                const I at = start + i * block + I(threadIdx.x);
                held[i] = at < n ? from[at] : K(0);
            }
#pragma unroll
            for (int i = 0; i < items; ++i) {
                if (start + i * block + I(threadIdx.x) >= n) break;
                << "nan = nan || (floating && canonical(held[i]) == limits<K>::highest());" if middle >>
                const U rank = rank_of(held[i]);
                if ((rank & known) == prefix) atomicAdd(&counts[int(rank >> low) & (digits - 1)], 1u);
            }
        }
        __syncthreads();
        unsigned own = 0, all = 0;
        for (int d = 0; d < each; ++d) {
            const int at = int(threadIdx.x) * each + d;
            own += at < digits ? counts[at] : 0;
        }
        unsigned before = sum_before(own, of_warps, all);
        if (before <= rank_sought && rank_sought < before + own) {
            int at = int(threadIdx.x) * each;
            while (rank_sought - before >= counts[at]) before += counts[at++];
            digit = at;
            skipped = before;
        }
        __syncthreads();
        rank_sought -= skipped;
        equal = counts[digit];
        prefix |= U(U(digit) << "<<" >> low);
        known |= U(U(digits - 1) << "<<" >> low);
        __syncthreads();
        if (low == 0) break;
    }
<% if middle %>
    // The key that follows, if it is not the same.
    U next = prefix;
    if (n % 2 == 0 && rank_sought + 1 == equal) {
        next = limits<U>::highest();
        for (I at = threadIdx.x; at < n; at += block) {
            const U rank = rank_of(from[at]);
            if (rank > prefix) next = minimum(next, rank);
        }
        of_thread[threadIdx.x] = next;
        __syncthreads();
        for (int t = 0; t < block; ++t) next = minimum(next, of_thread[t]);
    }
    nan = __syncthreads_or(nan);
    if (threadIdx.x == 0) {
        out[2 * row] = key_of(prefix);
        out[2 * row + 1] = nan ? limits<K>::highest() : key_of(next);
    }
<% else %>
    // All keys below, and as many of the equal ones as there is room for, the first ones.
    const unsigned room = rank_sought + 1;
    unsigned below = 0, same = 0;
    for (I start = 0; start < n; start += block * items) {
        const I own = start + I(threadIdx.x) * items;
        K held[items];
        // Both counts in one number: keys below, and in the upper half equal ones.
        unsigned number[items], mine = 0, all = 0;
#pragma unroll
        for (int i = 0; i < items; ++i) {
            held[i] = own + i < n ? from[own + i] : K(0);
            const U rank = rank_of(held[i]);
            number[i] = own + i >= n ? 0 : rank < prefix ? 1 : rank == prefix ? 65536 : 0;
            mine += number[i];
        }
        unsigned before = sum_before(mine, of_warps, all);
#pragma unroll
        for (int i = 0; i < items; ++i) {
            const unsigned ties = same + before / 65536;
            if (number[i] == 1 || (number[i] && ties < room)) {
                const long long to = row * k + below + before % 65536 + minimum(ties, room);
                keys[to] = canonical(held[i]);
                indices[to] = own + i;
            }
            before += number[i];
        }
        below += all % 65536;
        same += all / 65536;
    }
<% endif %>
}
