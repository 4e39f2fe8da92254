// total[r] = log of the sum of exponentials of row r; parts[s] = the sum of total[r] - x[r, targets[r]] over the rows of
// slot s, which are every `slots`-th. x (rows, columns) in C order, packs of `width` elements aligned; targets (rows): the
// classes, one out of range taken as the nearest; total (rows); parts (slots).
// Launch: block / threads slots a block. A thread reads `chunks` packs of a row before it computes, again and again until
// the row's end. Shared: the states of warps.
<% set half, cluster = elem != acc, 1 %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "lib/exponents.cuh" %>
using T = << elem >>;
using Target = << target >>;
using index = << index >>;
constexpr int threads = << threads >>, chunks = << chunks >>, width = << width >>;
// Whether rows end where a thread's packs do.
constexpr bool exact = << exact | lower >>;

// The state of a thread's packs from `start` on, and of what it has had of the row.
__device__ __forceinline__ RowState extended(RowState state, const T* row, index start, index columns) {
    Pack<T, width> packs[chunks];
#pragma unroll
    for (int u = 0; u < chunks; ++u) {
        if (exact || start + u * (threads * width) < columns)
            packs[u] = load_pack<width>(row + start + u * (threads * width));
        else
            for (int v = 0; v < width; ++v) packs[u].at[v] = cast<T>(limits<acc>::lowest());
    }
    Pack<T, width> top = packs[0];
#pragma unroll
    for (int u = 1; u < chunks; ++u) top = larger(top, packs[u]);
    acc peaks[width], sums[width] = {};
    unpack(top, peaks);
    peaks[0] = maximum(peaks[0], state.peak);
    for (int v = 1; v < width; ++v) peaks[0] = maximum(peaks[0], peaks[v]);
    const Exponents below(peaks[0]);
#pragma unroll
    for (int u = 0; u < chunks; ++u) {
        acc held[width];
        unpack(packs[u], held);
#pragma unroll
        for (int v = 0; v < width; ++v) sums[v] += below(held[v]);
    }
    for (int v = 1; v < width; ++v) sums[0] += sums[v];
    return row_join(state, {peaks[0], sums[0]});
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, const Target* targets, acc* total, acc* parts, index rows, index columns, index slots)
{
    const index slot = index(row_team()) * row_groups + row_group();
    acc part = acc(0);
    int phase = 0;
    // As many turns for all slots of a block; one that has no row does the last one again.
    for (index first = slot - row_group(); first < rows; first += slots) {
        const bool live = slot < slots && first + row_group() < rows;
        const index row = live ? first + row_group() : rows - 1;
        const T* const from = x + row * columns;
        const Target named = targets[row];
        RowState state = {limits<acc>::lowest(), acc(0)};
        for (index start = row_lane() * width; start < columns; start += chunks * threads * width)
            state = extended(state, from, start, columns);
        // Read after the row, as its place depends on a number that was read: the loads of the row would wait for that.
        const acc chosen = cast<acc>(from[index(maximum(minimum((long long)named, (long long)columns - 1), 0ll))]);
        state = row_total(state, phase);
        const acc above = state.peak + log(state.sum);
        if (live && row_lane() == 0) {
            total[row] = above;
            part += above - chosen;
        }
    }
    if (slot < slots && row_lane() == 0) parts[slot] = part;
    row_end();
}
