<# What one thread of the host does: no barrier, plain loops, and no branch that depends on keys where many are merged. #>
<% set at_places = " places + base," if indexed %>
<% set at_out_places = " out_places + base," if indexed %>
<% if stage == "tile" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* __restrict__ keys,<< " I* __restrict__ places," if indexed >> long long rows, I n, I tiles,
    long long piece)
{
    const long long thread = (long long)blockIdx.x * << block >> + threadIdx.x;
    const long long last = minimum((thread + 1) * piece, rows * tiles);
    for (long long task = thread * piece; task < last; ++task) {
        const I first = I(task % tiles) * << tile >>;
        const long long base = task / tiles * n + first;
        const int size = int(minimum(I(<< tile >>), n - first));
        O key[<< items >>];
        int rank[<< items >>];
        if (size == << tile >>)
            for (int i = 0; i < << items >>; ++i) key[i] = ordered(canonical(x[base + i]));
        else
            for (int i = 0; i < << items >>; ++i) key[i] = i < size ? ordered(canonical(x[base + i])) : limits<O>::highest();
        find_ranks(key, rank);
        for (int i = 0; i < size; ++i) {
            keys[base + rank[i]] = canonical(x[base + i]);
<% if indexed %>
            places[base + rank[i]] = first + i;
<% endif %>
        }
    }
}
<% else %>

// COUNT neighbouring stretches of `size` elements of the result, from `at` on, an element of each in turn: the processor
// works at one while another waits for its loads. A stretch lies within a pair of runs.
template <int COUNT>
__device__ __forceinline__ void merge(
    const K* __restrict__ keys,<< " const I* __restrict__ places," if indexed >> K* __restrict__ out,
<%- if indexed %> I* __restrict__ out_places,<% endif %> I n, I run, I at, I size)
{
    I a[COUNT], b[COUNT], middle[COUNT], end[COUNT];
    for (int c = 0; c < COUNT; ++c) {
        const I from = at + c * size, start = from / (2 * run) * (2 * run);
        middle[c] = minimum(start + run, n);
        end[c] = minimum(start + 2 * run, n);
        a[c] = start + split(keys + start, middle[c] - start, keys + middle[c], end[c] - middle[c], from - start);
        b[c] = middle[c] + from - a[c];
    }
    I i = 0;
    // So many steps that no run ends before; then again, until one has ended.
    for (I safe = 1; safe;) {
        safe = size - i;
        for (int c = 0; c < COUNT; ++c) safe = minimum(safe, minimum(middle[c] - a[c], end[c] - b[c]));
        for (const I stop = i + safe; i < stop; ++i) {
            for (int c = 0; c < COUNT; ++c) {
                const I later = ordered(keys[b[c]]) < ordered(keys[a[c]]);
                const I taken = a[c] + ((b[c] - a[c]) & -later);
                out[at + c * size + i] = keys[taken];
<% if indexed %>
                out_places[at + c * size + i] = places[taken];
<% endif %>
                a[c] += 1 - later;
                b[c] += later;
            }
        }
    }
    for (int c = 0; c < COUNT; ++c) {
        for (I k = at + c * size + i; k < at + (c + 1) * size; ++k) {
            const bool later = a[c] >= middle[c] || (b[c] < end[c] && ordered(keys[b[c]]) < ordered(keys[a[c]]));
            const I taken = later ? b[c]++ : a[c]++;
            out[k] = keys[taken];
<% if indexed %>
            out_places[k] = places[taken];
<% endif %>
        }
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ keys,<< " const I* __restrict__ places," if indexed >> K* __restrict__ out,
<%- if indexed %> I* __restrict__ out_places,<% endif %> long long rows, I n, I run, I stretch, I pieces, I piece)
{
    const long long thread = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (thread >= rows * pieces) return;
    const long long base = thread / pieces * n;
    const I begin = I(thread % pieces) * piece, last = minimum(n, begin + piece);
    for (I at = begin; at < last;) {
        if (last - at >= << chains >> * stretch) {
            merge< << chains >>>(keys + base,<< at_places >> out + base,<< at_out_places >> n, run, at, stretch);
            at += << chains >> * stretch;
        } else {
            const I size = minimum(stretch, last - at);
            merge<1>(keys + base,<< at_places >> out + base,<< at_out_places >> n, run, at, size);
            at += size;
        }
    }
}
<% endif %>
