// Gradient of layer_norm: dx, and partial sums of dweight and dbias, as backward.cu, with rows staged in shared memory: x and
// dy are read once, and the next stages - 1 turns are prefetched while a turn of `turn` rows is computed.
// x, dy, dx (rows, columns); weight (columns), or not read; statistics (rows, 2) as forward.cu writes them.
// dweight, dbias (slots, columns) or null: sums over the rows of one block or cluster, to be summed over them afterwards.
// With a `residual`, `plus` (rows, columns) is added to dx.
// Launch: any grid, of whole clusters; rows are dealt to their groups of `threads` threads, a turn at a time. A thread has
// `chunks` packs of `width` elements of each array, aligned. Shared: the states of warps; dynamic: the packs of the stages,
// at the end the groups' sums. No atomics.
<% include "prelude/copy_async.cuh" %>
<% include "nn/layer_norm/derivative.cuh" %>
constexpr int stages = << stages >>;
// Whether a thread has registers for its elements of a turn until their sums are there.
constexpr bool keeps_row = << keeps_row | lower >>;
constexpr int row_size = 2 * chunks * block, slot_size = turn * row_size;

// A thread's packs of a row, of x and of dy, in its slot.
__device__ __forceinline__ Held* x_in(Held* slot, int r, int chunk) { return slot + r * row_size + chunk * block; }
__device__ __forceinline__ Held* dy_in(Held* slot, int r, int chunk) { return x_in(slot, r, chunks + chunk); }
__device__ __forceinline__ void stage(Held* to, const T* from) {
    using Access = Words<sizeof(Held)>;
    copy_async((Access*)to, (const Access*)from);
}
__device__ __forceinline__ void bring_rows(Held* slot, const T* x, const T* dy, index row, index rows, index columns) {
#pragma unroll
    for (int r = 0; r < turn; ++r) {
        if (row + r >= rows) break;
        const index at = (row + r) * columns;
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const index start = start_of(chunk);
            if (!exact && start >= columns) continue;
            stage(x_in(slot, r, chunk), x + at + start);
            stage(dy_in(slot, r, chunk), dy + at + start);
        }
    }
    commit_copies();
}
// The loaded values of which a turn's statistics are computed: until they are needed nothing waits for the loads.
struct Ahead {
    T first[turn];
    Statistics kept[turn];
    __device__ __forceinline__ void read(const T* x, const acc* statistics, index row, index rows, index columns) {
#pragma unroll
        for (int r = 0; r < turn; ++r)
            if (row + r < rows) first[r] = x[(row + r) * columns], kept[r] = statistics_of(statistics, row + r);
    }
};
// The groups' sums of a block together, in order, by way of the memory that its rows were in.
__device__ __forceinline__ void store_sums(
    acc* dweight, acc* dbias, const Pack<acc, width> (&weight_sum)[chunks], const Pack<acc, width> (&bias_sum)[chunks],
    acc* of_group, index columns)
{
    constexpr int part = threads * width;
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < width; ++v) {
            of_group[threadIdx.x * width + v] = weight_sum[chunk].at[v];
            of_group[(block + threadIdx.x) * width + v] = bias_sum[chunk].at[v];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 2 * part; i += block) {
            acc* const to = i < part ? dweight : dbias;
            const int column = i % part;
            acc sum = of_group[i / part * block * width + column];
#pragma unroll
            for (int group = 1; group < groups; ++group) sum += of_group[i / part * block * width + group * part + column];
            if (to && chunk * part + column < columns) to[(long long)row_team() * columns + chunk * part + column] = sum;
        }
    }
}

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const T* x, const T* dy, const T* weight, const acc* statistics, << "const T* plus, " if residual >>T* dx, acc* dweight, acc* dbias,
    index rows, index given_columns)
{
    const index columns = exact ? threads * chunks * width : given_columns;
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    const index step = index(row_teams()) * groups * turn;
    index row = (index(row_team()) * groups + row_group()) * turn;
    acc scaled[chunks][width];
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        if (weighted) unpack(load_pack<width>(weight + start), scaled[chunk]);
    }
    Ahead ahead = {};
    ahead.read(x, statistics, row, rows, columns);
    extern __shared__ Held held[];
    Pack<acc, width> weight_sum[chunks] = {}, bias_sum[chunks] = {};
#pragma unroll
    for (int stage = 0; stage < stages; ++stage)
        bring_rows(held + stage * slot_size + threadIdx.x, x, dy, row + stage * step, rows, columns);
    int stage = 0;
    // Every thread of a block goes round equally often, since row_sums needs them all.
    for (index first = index(row_team()) * groups * turn; first < rows; first += step, row += step) {
        RowStatistics of[turn];
        for (int r = 0; r < turn; ++r) of[r] = {ahead.first[r], ahead.kept[r]};
        ahead.read(x, statistics, row + step, rows, columns);
        Held* const slot = held + stage * slot_size + threadIdx.x;
        stage = stage + 1 == stages ? 0 : stage + 1;
        wait_copies<stages - 1>();
        RowState own = {};
        acc ns[turn][chunks][width], gs[turn][chunks][width];
#pragma unroll
        for (int r = 0; r < turn; ++r) {
            if (row + r >= rows) break;
            acc sum[width], product[width];
            clear(sum), clear(product);
#pragma unroll
            for (int chunk = 0; chunk < chunks; ++chunk) {
                if (!exact && start_of(chunk) >= columns) continue;
                const Numbers here(load_pack<width>(x_in(slot, r, chunk)->at), load_pack<width>(dy_in(slot, r, chunk)->at), of[r], scaled[chunk]);
#pragma unroll
                for (int v = 0; v < width; ++v) {
                    sum[v] += here.g[v], product[v] += here.g[v] * here.n[v];
                    weight_sum[chunk].at[v] += here.given[v] * here.n[v];
                    if (centered) bias_sum[chunk].at[v] += here.given[v];
                    if (keeps_row) ns[r][chunk][v] = here.n[v], gs[r][chunk][v] = here.g[v];
                }
            }
            for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
            own.of[2 * r] = centered ? sum[0] : acc(0), own.of[2 * r + 1] = product[0];
        }
        if (keeps_row) bring_rows(slot, x, dy, row + stages * step, rows, columns);
<% if residual %>
        Held pluses[turn][chunks];
#pragma unroll
        for (int r = 0; r < turn; ++r)
#pragma unroll
            for (int chunk = 0; chunk < chunks; ++chunk)
                if (row + r < rows && (exact || start_of(chunk) < columns))
                    pluses[r][chunk] = load_pack<width>(plus + (row + r) * columns + start_of(chunk));
<% endif %>
        const RowState total = row_sums(own, phase);
#pragma unroll
        for (int r = 0; r < turn; ++r) {
            if (row + r >= rows) break;
            const acc gradient_mean = total.of[2 * r] * scale, product_mean = total.of[2 * r + 1] * scale;
#pragma unroll
            for (int chunk = 0; chunk < chunks; ++chunk) {
                const index start = start_of(chunk);
                if (!exact && start >= columns) continue;
                if (!keeps_row) {
                    const Numbers here(load_pack<width>(x_in(slot, r, chunk)->at), load_pack<width>(dy_in(slot, r, chunk)->at), of[r], scaled[chunk]);
#pragma unroll
                    for (int v = 0; v < width; ++v) ns[r][chunk][v] = here.n[v], gs[r][chunk][v] = here.g[v];
                }
                acc result[width]<< ", more[width]" if residual >>;
                << "unpack(pluses[r][chunk], more);" if residual >>
#pragma unroll
                for (int v = 0; v < width; ++v)
                    result[v] = derivative(ns[r][chunk][v], gs[r][chunk][v], of[r], gradient_mean, product_mean)<< " + more[v]" if residual >>;
                store_pack(dx + (row + r) * columns + start, packed<T>(result));
            }
        }
        if (!keeps_row) bring_rows(slot, x, dy, row + stages * step, rows, columns);
    }
    if constexpr (groups > 1) {
        store_sums(dweight, dbias, weight_sum, bias_sum, (acc*)held, columns);
    } else {
        const long long sums_at = (long long)row_team() * columns;
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const index start = start_of(chunk);
            if (!exact && start >= columns) continue;
            if (dweight) store_pack(dweight + sums_at + start, weight_sum[chunk]);
            if (dbias) store_pack(dbias + sums_at + start, bias_sum[chunk]);
        }
    }
    row_end();
}
