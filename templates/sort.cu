// Stable merge sort of rows of `n` elements: keys (rows, n), and with << "places" if indexed else "no places" >>.
// Stage "tile": runs of << tile >> elements become sorted; << lanes >> thread(s) share a run, << items >> elements each, and the
// places start as 0, 1, ... Stage "merge": pairs of sorted runs of `run` elements become one; a thread makes `piece`
// elements of the result, which it finds by a binary search along the diagonal of the pair (Odeh, Green, Mwassi, Shmueli
// and Birk, "Merge path", 2012). Launch: << block >> threads a block. Shared: a tile where a block shares one.
using K = << elem >>;
using I = << index >>;

// Whether `a` belongs before `b`, which equal elements never do; NaN is larger than any number.
__device__ __forceinline__ bool before(K first, K second) {
    const << acc >> a = cast< << acc >> >(first), b = cast< << acc >> >(second);
<% if floating %>
    return << "a > b || (a != a && b == b)" if descending else "a < b || (b != b && a == a)" >>;
<% else %>
    return << "a > b" if descending else "a < b" >>;
<% endif %>
}

// Elements `from` to `to` of the merge of the sorted runs [0, middle) and [middle, end) of `keys`.
__device__ __forceinline__ void merge(
    const K* keys, const I* places, I middle, I end, I from, I to, K* out, I* out_places)
{
    I low = maximum(I(0), from - (end - middle)), high = minimum(from, middle);
    while (low < high) {
        const I half = low + (high - low) / 2;
        if (before(keys[middle + from - half - 1], keys[half])) high = half;
        else low = half + 1;
    }
    I a = low, b = middle + from - low;
    for (I at = 0; at < to - from; ++at) {
        const bool second = a >= middle || (b < end && before(keys[b], keys[a]));
        const I taken = second ? b : a;
        out[at] = keys[taken];
<% if indexed %>
        out_places[at] = places[taken];
<% endif %>
        a += !second;
        b += second;
    }
}
<% if stage == "tile" %>

__device__ __forceinline__ void insertion_sort(K* keys, I* places, int size) {
    for (int i = 1; i < size; ++i) {
        const K key = keys[i];
<% if indexed %>
        const I place = places[i];
<% endif %>
        int j = i;
        for (; j > 0 && before(key, keys[j - 1]); --j) {
            keys[j] = keys[j - 1];
<% if indexed %>
            places[j] = places[j - 1];
<% endif %>
        }
        keys[j] = key;
<% if indexed %>
        places[j] = place;
<% endif %>
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* __restrict__ keys,<< " I* __restrict__ places," if indexed >> long long rows, I n, I tiles,
    I piece)
{
    const long long group = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const int lane = threadIdx.x % << lanes >>;
<% if lanes > 1 %>
    __shared__ K shared_keys[<< tile >>];
<% if indexed %>
    __shared__ I shared_places[<< tile >>];
<% endif %>
<% endif %>
    for (long long task = group * piece; task < (group + 1) * piece && task < rows * tiles; ++task) {
        const I first = I(task % tiles) * << tile >>;
        const long long base = task / tiles * n + first;
        const int size = n - first < << tile >> ? int(n - first) : << tile >>;
        const int own = lane * << items >>;
        const int count = maximum(0, minimum(<< items >>, size - own));
        K held[<< items >>];
        I held_places[<< items if indexed else 1 >>];
        for (int i = 0; i < count; ++i) {
            held[i] = x[base + own + i];
<% if indexed %>
            held_places[i] = first + own + i;
<% endif %>
        }
        insertion_sort(held, held_places, count);
<% if lanes > 1 %>
        for (int run = << items >>; run < << tile >>; run *= 2) {
            __syncthreads();
            for (int i = 0; i < count; ++i) {
                shared_keys[own + i] = held[i];
<% if indexed %>
                shared_places[own + i] = held_places[i];
<% endif %>
            }
            __syncthreads();
            const int start = own / (2 * run) * (2 * run);
            const I end = minimum(2 * run, size - start), middle = minimum(I(run), end);
            if (count > 0)
                merge(shared_keys + start, << "shared_places + start" if indexed else "nullptr" >>, middle, end,
                      own - start, own - start + count, held, held_places);
        }
<% endif %>
        for (int i = 0; i < count; ++i) {
            keys[base + own + i] = held[i];
<% if indexed %>
            places[base + own + i] = held_places[i];
<% endif %>
        }
    }
}
<% else %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ keys,<< " const I* __restrict__ places," if indexed >> K* __restrict__ out,
<%- if indexed %> I* __restrict__ out_places,<% endif %> long long rows, I n, I pieces, I piece, I run)
{
    const long long task = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (task >= rows * pieces) return;
    const long long base = task / pieces * n;
    const I last = minimum(n, (I(task % pieces) + 1) * piece);
    for (I at = I(task % pieces) * piece; at < last;) {
        const I start = at / (2 * run) * (2 * run);
        const I end = minimum(2 * run, n - start), middle = minimum(run, end);
        const I to = minimum(last, start + end);
        merge(keys + base + start, << "places + base + start" if indexed else "nullptr" >>, middle, end, at - start, to - start,
              out + base + at, << "out_places + base + at" if indexed else "nullptr" >>);
        at = to;
    }
}
<% endif %>
