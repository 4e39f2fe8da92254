// Shuffles indices[i], i < n, within each run of equal sorted keys, all orders equally likely (Durstenfeld, "Algorithm 235:
// random permutation", 1964). Words are Philox's of the counter (offset + i, 0, m), of the first i of m or more equal keys.
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a block owns block * `piece` elements, neighbouring threads neighbouring ones, and a thread shuffles the runs of
// equal keys that begin at its own. No shared memory.
<% include "lib/philox.cuh" %>
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned* __restrict__ keys, long long* __restrict__ indices, long long n, long long piece,
    << "const unsigned long long* counter_memory" if live else "unsigned long long offset" >>, unsigned k0, unsigned k1)
{
    << "const unsigned long long offset = *counter_memory;" if live >>
    const long long start = blockIdx.x * piece * block, last = minimum(n, start + piece * block);
#pragma unroll 4
    for (long long i = start + threadIdx.x; i < last; i += block) {
        const unsigned key = keys[i], next = keys[minimum(i + 1, n - 1)];
        if (next != key || i + 1 == n || (i > 0 && keys[i - 1] == key)) continue;
        long long end = i + 2;
        while (end < n && keys[end] == key) ++end;
        for (long long m = end - i; m > 1; --m) {
            const RandomWords words = philox(offset + i, unsigned(m), k0, k1);
            const long long other = i + (long long)__umul64hi(joined(words.w[0], words.w[1]), (unsigned long long)m);
            const long long kept = indices[i + m - 1];
            indices[i + m - 1] = indices[other];
            indices[other] = kept;
        }
    }
}
