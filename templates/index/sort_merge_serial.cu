// A merge pass of a stable merge sort of rows of `n` elements, by single threads: pairs of sorted runs of `run` elements
// become one. No branch depends on keys where many are merged.
// keys and out (rows, n), the bits of the elements as integers<< "; indices and out_indices, where they come from, likewise" if indexed >>.
// Launch: a thread writes `piece` elements of the result, `stretch` of them at a time, and finds their parts of the two
// runs by merge path (Odeh, Green, Mwassi, Shmueli and Birk, 2012). No shared memory.
<% include "index/sort.cuh" %>
constexpr int chains = << chains >>;

// COUNT neighbouring stretches of `size` elements of the result, from `at` on, interleaved, so that their loads overlap. A
// stretch lies within a pair of runs.
template <int COUNT>
__device__ __forceinline__ void merge(Source in, Target out, I n, I run, I at, I size) {
    I a[COUNT], b[COUNT], middle[COUNT], end[COUNT];
    for (int c = 0; c < COUNT; ++c) {
        const I from = at + c * size, start = from / (2 * run) * (2 * run);
        middle[c] = minimum(start + run, n);
        end[c] = minimum(start + 2 * run, n);
        a[c] = start + split(in.keys + start, middle[c] - start, in.keys + middle[c], end[c] - middle[c], from - start);
        b[c] = middle[c] + from - a[c];
    }
    I i = 0;
    // So many steps that no run ends before; then again, until one has ended.
    for (I safe = 1; safe;) {
        safe = size - i;
        for (int c = 0; c < COUNT; ++c) safe = minimum(safe, minimum(middle[c] - a[c], end[c] - b[c]));
        for (const I stop = i + safe; i < stop; ++i) {
            for (int c = 0; c < COUNT; ++c) {
                const I later = ordered(in.keys[b[c]]) < ordered(in.keys[a[c]]);
                out.put(at + c * size + i, in[a[c] + ((b[c] - a[c]) & -later)]);
                a[c] += 1 - later;
                b[c] += later;
            }
        }
    }
    for (int c = 0; c < COUNT; ++c) {
        for (I k = at + c * size + i; k < at + (c + 1) * size; ++k) {
            const bool later = a[c] >= middle[c] || (b[c] < end[c] && ordered(in.keys[b[c]]) < ordered(in.keys[a[c]]));
            out.put(k, in[later ? b[c]++ : a[c]++]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ keys, << "const I* __restrict__ indices, " if indexed >>K* __restrict__ out,
    << "I* __restrict__ out_indices, " if indexed >>long long rows, I n, I run, I stretch, I pieces, I piece)
{
    const long long thread = (long long)blockIdx.x * block + threadIdx.x;
    if (thread >= rows * pieces) return;
    const long long base = thread / pieces * n;
    const Source in = Source{keys<< ", indices" if indexed >>} + base;
    const Target to = Target{out<< ", out_indices" if indexed >>} + base;
    const I begin = I(thread % pieces) * piece, last = minimum(n, begin + piece);
    for (I at = begin; at < last;) {
        const bool many = last - at >= chains * stretch;
        const I size = minimum(stretch, last - at);
        if (many) merge<chains>(in, to, n, run, at, stretch);
        else merge<1>(in, to, n, run, at, size);
        at += many ? chains * stretch : size;
    }
}
