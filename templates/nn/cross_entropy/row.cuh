// The logarithm of the sum of a row's exponentials, by the threads that share the row.
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
