<% if stage == "sum" %>
// y[o, k, :] = << "x[o, k, :] + " if based >>the sum of the rows g[o, j, :] that belong to k: j = order[starts[k]], ..., order[starts[k + 1] - 1].
// g (outer, count, inner), x and y (outer, size, inner), in C order. A place that has << fan >> whole neighbours in the order is left
// to stage "long". What is added to what depends on the places alone, so that every run gives the same bits. No atomics.
<% elif stage == "parts" %>
// The sum of each << fan >> neighbours in the order of the places that all belong to one place, for stage "long": at level 1 of
// rows g[o, order[j], :], at the next of the sums of the level below. g (outer, count, inner), parts (outer, all, inner),
// in C order: the `tiles` sums of this level start at `here`, those of the level below at `below`.
<% else %>
// As stage "sum", for the places that it leaves: the rows before and after the sums that stage "parts" has made of theirs,
// then those of these that no sum of the next level has, and so on. A group owns one of the `tiles` sums of level 1, and
// does the work of the place that it is the first of.
<% endif %>
// Launch: << lanes >> thread(s) share a row, << items >> pack(s) of << width >> elements each; blocks along y share the
// columns. No shared memory.
using I = << index >>;
using acc = << acc >>;
constexpr int lanes = << lanes >>, items = << items >>, width = << width >>, fan = << fan >>, flight = << flight >>;

template <typename T>
struct alignas(sizeof(T) * width < 16 ? sizeof(T) * width : 16) Pack {
    T at[width];
};

// Adds rows first, ..., last - 1, or those that `order` names, in this order; `flight` of them are read before one is added.
template <typename T>
__device__ __forceinline__ void add_rows(
    acc (&total)[items][width], const T* __restrict__ rows, const long long* __restrict__ order, I first, I last, long long inner, I column)
{
#pragma unroll 1
    for (I j = first; j < last; j += flight) {
        Pack<T> held[flight][items];
#pragma unroll
        for (int f = 0; f < flight; ++f) {
            if (f > 0 && j + f >= last) break;
            const T* const row = rows + (order ? order[j + f] : (long long)(j + f)) * inner;
#pragma unroll
            for (int k = 0; k < items; ++k)
                if (<< "true" if exact else "k == 0 || column + k * lanes * width < inner" >>) held[f][k] = *(const Pack<T>*)(row + column + k * lanes * width);
        }
#pragma unroll
        for (int f = 0; f < flight; ++f)
#pragma unroll
            for (int k = 0; k < items; ++k)
#pragma unroll
                for (int w = 0; w < width; ++w)
                    if (f == 0 || j + f < last) total[k][w] += cast<acc>(held[f][k].at[w]);
    }
}

// What a group writes: y = sums, from `column` on.
__device__ __forceinline__ void write(const acc (&sums)[items][width], << elem >>* y, long long inner, I column) {
#pragma unroll
    for (int k = 0; k < items; ++k) {
        Pack< << elem >> > made;
#pragma unroll
        for (int w = 0; w < width; ++w) made.at[w] = cast< << elem >> >(sums[k][w]);
        if (<< "true" if exact else "k == 0 || column + k * lanes * width < inner" >>) *(Pack< << elem >> >*)(y + column + k * lanes * width) = made;
    }
}

<% if stage == "parts" %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ g, const << key >>* __restrict__ keys, const long long* __restrict__ order, acc* __restrict__ parts,
    I total, long long count, long long inner, I tiles, long long span, long long all, long long below, long long here)
{
    const I row = (I)blockIdx.x * << block // lanes >> + (I)(threadIdx.x / lanes);
    if (row >= total) return;
    const I tile = row % tiles;
    const long long o = row / tiles;
    // Nobody asks for the sum of rows of several places.
    if (keys[tile * span] != keys[(tile + 1) * span - 1]) return;
#pragma unroll 1
    for (I column = ((I)blockIdx.y * lanes * items + threadIdx.x % lanes) * width; column < inner; column += (I)gridDim.y * lanes * items * width) {
        acc sums[items][width] = {};
<% if level == 1 %>
        add_rows(sums, g + o * count * inner, order, tile * fan, (tile + 1) * fan, inner, column);
<% else %>
        add_rows(sums, parts + (o * all + below) * inner, nullptr, tile * fan, (tile + 1) * fan, inner, column);
<% endif %>
        acc* const to = parts + (o * all + here + tile) * inner;
#pragma unroll
        for (int k = 0; k < items; ++k)
            for (int w = 0; w < width; ++w)
                if (<< "true" if exact else "k == 0 || column + k * lanes * width < inner" >>) to[column + k * lanes * width + w] = sums[k][w];
    }
}
<% else %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    <<- "const %s* __restrict__ x, " % elem if based >>const << elem >>* __restrict__ g, const long long* __restrict__ order,
    const << starts >>* __restrict__ starts, << elem >>* __restrict__ y, I total, I size, long long count, long long inner, int levels
    <<- ", const %s* __restrict__ keys, const acc* __restrict__ parts, I tiles, long long all" % key if stage == "long" >>)
{
    const I row = (I)blockIdx.x * << block // lanes >> + (I)(threadIdx.x / lanes);
    if (row >= total) return;
<% if stage == "long" %>
    const I tile = row % tiles;
    const long long o = row / tiles;
    const I k = keys[tile * fan];
    const I first = starts[k], last = starts[k + 1];
    if (divide_up(first, (I)fan) != tile || tile >= last / fan) return;
<% else %>
    const long long o = << "0" if single else "row / size" >>;
    const I k = << "row" if single else "row % size" >>;
    const I first = starts[k], last = starts[k + 1];
    if (levels && divide_up(first, (I)fan) < last / fan) return;
<% endif %>
    const << elem >>* const from = g + o * count * inner;
    const long long base = (o * size + k) * inner;
#pragma unroll 1
    for (I column = ((I)blockIdx.y * lanes * items + threadIdx.x % lanes) * width; column < inner; column += (I)gridDim.y * lanes * items * width) {
        acc sums[items][width] = {};
<% if based %>
        Pack< << elem >> > held[items];
#pragma unroll
        for (int k = 0; k < items; ++k)
            if (<< "true" if exact else "k == 0 || column + k * lanes * width < inner" >>) held[k] = *(const Pack< << elem >> >*)(x + base + column + k * lanes * width);
<% endif %>
<% if stage == "sum" %>
        add_rows(sums, from, order, first, last, inner, column);
<% else %>
        add_rows(sums, from, order, first, tile * fan, inner, column);
        add_rows(sums, from, order, last / fan * fan, last, inner, column);
        const acc* at = parts + o * all * inner;
        I a = tile, b = last / fan, here = tiles;
        for (int level = 1; level < levels; ++level) {
            const I up = divide_up(a, (I)fan), down = b / fan;
            if (up >= down) break;
            add_rows(sums, at, nullptr, a, up * fan, inner, column);
            add_rows(sums, at, nullptr, down * fan, b, inner, column);
            at += here * inner;
            here /= fan;
            a = up;
            b = down;
        }
        add_rows(sums, at, nullptr, a, b, inner, column);
<% endif %>
<% if based %>
        // Not before, so that nothing waits for it.
#pragma unroll
        for (int k = 0; k < items; ++k)
#pragma unroll
            for (int w = 0; w < width; ++w) sums[k][w] += cast<acc>(held[k].at[w]);
<% endif %>
        write(sums, y + base, inner, column);
    }
}
<% endif %>
