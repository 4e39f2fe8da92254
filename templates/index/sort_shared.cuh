<# What a group of threads does with a tile in shared memory. #>

// The next << items >> elements, from `from` on, of the merge of keys [0, middle) and [middle, end), written in their place.
// All threads of the block call it, those that have none with from >= end.
__device__ __forceinline__ void merge(K* keys,<< " I* places," if indexed >> int middle, int end, int from)
{
    K held[<< items >>];
<% if indexed %>
    I held_places[<< items >>];
<% endif %>
    if (from < end) {
        int a = split(keys, middle, keys + middle, end - middle, from), b = middle + from - a;
#pragma unroll
        for (int i = 0; i < << items >>; ++i) {
            if (from + i >= end) break;
            const bool later = a >= middle || (b < end && ordered(keys[b]) < ordered(keys[a]));
            const int taken = later ? b++ : a++;
            held[i] = keys[taken];
<% if indexed %>
            held_places[i] = places[taken];
<% endif %>
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < << items >>; ++i) {
        if (from + i >= end) break;
        keys[from + i] = held[i];
<% if indexed %>
        places[from + i] = held_places[i];
<% endif %>
    }
    __syncthreads();
}
<% if stage == "tile" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* __restrict__ keys,<< " I* __restrict__ places," if indexed >> long long rows, I n, I tiles)
{
    __shared__ K shared_keys[<< block * items >>];
<% if indexed %>
    __shared__ I shared_places[<< block * items >>];
<% endif %>
    const int group = threadIdx.x / << lanes >>, lane = threadIdx.x % << lanes >>, own = lane * << items >>;
    const long long task = (long long)blockIdx.x * << block // lanes >> + group;
    const I first = I(task % tiles) * << tile >>;
    const long long base = task / tiles * n + first;
    const int size = task < rows * tiles ? int(minimum(I(<< tile >>), n - first)) : 0;
    K* tile = shared_keys + group * << tile >>;
<% if indexed %>
    I* tile_places = shared_places + group * << tile >>;
<% endif %>
    for (int i = lane; i < size; i += << lanes >>) tile[i] = canonical(x[base + i]);
    __syncthreads();

    K held[<< items >>];
    O key[<< items >>];
    int rank[<< items >>];
#pragma unroll
    for (int i = 0; i < << items >>; ++i) {
        held[i] = own + i < size ? tile[own + i] : K(0);
        key[i] = own + i < size ? ordered(held[i]) : limits<O>::highest();
    }
    find_ranks(key, rank);
#pragma unroll
    for (int i = 0; i < << items >>; ++i) {
        if (own + i >= size) break;
        tile[own + rank[i]] = held[i];
<% if indexed %>
        tile_places[own + rank[i]] = first + own + i;
<% endif %>
    }
    __syncthreads();

    for (int run = << items >>; run < << tile >>; run *= 2) {
        const int start = own / (2 * run) * (2 * run);
        const int end = maximum(0, minimum(2 * run, size - start));
        merge(tile + start,<< " tile_places + start," if indexed >> minimum(run, end), end, own - start);
    }
    for (int i = lane; i < size; i += << lanes >>) {
        keys[base + i] = tile[i];
<% if indexed %>
        places[base + i] = tile_places[i];
<% endif %>
    }
}
<% else %>

// As split, by a warp: it looks at 32 places at a time.
__device__ __forceinline__ I split_by_warp(const K* first, I n1, const K* second, I n2, I from) {
    I low = maximum(I(0), from - n2), high = minimum(from, n1);
    while (low < high) {
        const I step = (high - low) / 32 + 1, at = low + I(threadIdx.x % 32 + 1) * step - 1;
        const bool later = at >= high || ordered(second[from - at - 1]) < ordered(first[at]);
        const int part = __ffs(int(__ballot_sync(0xffffffffu, later))) - 1;
        low += part * step;
        high = minimum(high, low + step - 1);
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ keys,<< " const I* __restrict__ places," if indexed >> K* __restrict__ out,
<%- if indexed %> I* __restrict__ out_places,<% endif %> I n, I tiles, I run)
{
    __shared__ K tile[<< tile >>];
<% if indexed %>
    __shared__ I tile_places[<< tile >>];
<% endif %>
    __shared__ I cut[2];
    const long long task = blockIdx.x;
    const I first = I(task % tiles) * << tile >>;
    const long long base = task / tiles * n;
    const int size = int(minimum(I(<< tile >>), n - first));
    const I start = first / (2 * run) * (2 * run), from = first - start;
    const I middle = minimum(run, n - start), end = minimum(2 * run, n - start);
    const K* pair = keys + base + start;
    for (int w = threadIdx.x / 32; w < 2; w += << block // 32 >>) {
        const I found = split_by_warp(pair, middle, pair + middle, end - middle, from + w * size);
        if (threadIdx.x % 32 == 0) cut[w] = found;
    }
    __syncthreads();
    // The part of the first run, and after it that of the second.
    const int before = int(cut[1] - cut[0]);
    for (int i = threadIdx.x; i < size; i += << block >>) {
        const I at = i < before ? cut[0] + i : middle + (from - cut[0]) + (i - before);
        tile[i] = pair[at];
<% if indexed %>
        tile_places[i] = places[base + start + at];
<% endif %>
    }
    __syncthreads();
    merge(tile,<< " tile_places," if indexed >> before, size, int(threadIdx.x) * << items >>);
    for (int i = threadIdx.x; i < size; i += << block >>) {
        out[base + first + i] = tile[i];
<% if indexed %>
        out_places[base + first + i] = tile_places[i];
<% endif %>
    }
}
<% endif %>
