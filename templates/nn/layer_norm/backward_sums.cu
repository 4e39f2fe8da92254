// dx of layer_norm.cu, and what dweight and dbias are summed up from, as in layer_norm_backward.cu, for rows that are brought
// to shared memory: x and dy are read once, those of the next << (stages - 1) * turn >> row(s) while << turn >> are worked on.
// x, dy, dx (rows, columns); weight (columns)<< "" if weighted else ", not read" >>; statistics (rows, 2) as layer_norm.cu writes them.
// dweight, dbias (slots, columns) or null: sums over the rows of one block or cluster, to be summed over them afterwards.
// Launch: any grid, of whole clusters; rows are dealt to their groups of << threads >> thread(s), << turn >> at a time. A thread has
// << chunks >> pack(s) of << width >> elements of each array, aligned. Shared: the states of warps; dynamic: the packs of << stages * turn >> row(s)
// a group, at the end its sums. No atomics.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% from "lib/chunks.cuh" import each_chunk with context %>
<% from "nn/layer_norm/derivative.cuh" import numbers, derivative with context %>
<% include "nn/layer_norm/derivative.cuh" %>
constexpr int turn = << turn >>, row_size = 2 * chunks * block, slot_size = turn * row_size;

using Access = Words<sizeof(Held)>;

__device__ __forceinline__ Held held_at(const Held* shared) {
    const Access words = *(const Access*)shared;
    return *(const Held*)&words;
}
__device__ __forceinline__ void bring(Held* to, const elem* from) { copy_async((Access*)to, (const Access*)from); }
// The packs of x and dy of the rows from `row` on, those of this thread.
__device__ __forceinline__ void bring_rows(Held* slot, const elem* x, const elem* dy, index row, index rows, index columns) {
#pragma unroll
    for (int r = 0; r < turn; ++r) {
        if (row + r >= rows) break;
        const index at = (row + r) * columns;
<% call each_chunk() %>
bring(slot + r * row_size + chunk * block, x + at + start);
        bring(slot + r * row_size + (chunks + chunk) * block, dy + at + start);
<% endcall %>
    }
    commit_copies();
}
// What their statistics are made of, when they are needed: until then nothing waits for it.
struct Ahead {
    elem first[turn];
    Statistics kept[turn];
    __device__ __forceinline__ void read(const elem* x, const acc* statistics, index row, index rows, index columns) {
#pragma unroll
        for (int r = 0; r < turn; ++r)
            if (row + r < rows) first[r] = x[(row + r) * columns], kept[r] = statistics_of(statistics, row + r);
    }
};

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const elem* x, const elem* dy, const elem* weight,
    const acc* statistics, elem* dx, acc* dweight, acc* dbias,
    << index >> rows, << index >> << "" if exact else "columns" >>)
{
<% if exact %>
    constexpr index columns = threads * chunks * width;
<% endif %>
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    const index step = index(row_teams()) * groups * turn;
    index row = (index(row_team()) * groups + row_group()) * turn;
<% if weighted %>
    acc weight_held[chunks][width];
<% call each_chunk() %>
unpack(load_pack<width>(weight + start), weight_held[chunk]);
<% endcall %>
<% endif %>
    Ahead ahead = {};
    ahead.read(x, statistics, row, rows, columns);
    extern __shared__ Held held[];
    Pack<acc, width> weight_sum[chunks] = {}, bias_sum[chunks] = {};
#pragma unroll
    for (int stage = 0; stage < << stages >>; ++stage)
        bring_rows(held + stage * slot_size + threadIdx.x, x, dy, row + stage * step, rows, columns);
    int stage = 0;
    // Every thread of a block goes round equally often, since row_sums needs them all.
    for (index first = index(row_team()) * groups * turn; first < rows; first += step, row += step) {
        RowStatistics of[turn];
        for (int r = 0; r < turn; ++r) of[r] = {ahead.first[r], ahead.kept[r]};
        ahead.read(x, statistics, row + step, rows, columns);
        Held* const slot = held + stage * slot_size + threadIdx.x;
        stage = stage + 1 == << stages >> ? 0 : stage + 1;
        wait_copies< << stages - 1 >> >();
        RowState own = {};
<% if keeps_row %>
        acc ns[turn][chunks][width], gs[turn][chunks][width];
<% endif %>
#pragma unroll
        for (int r = 0; r < turn; ++r) {
            if (row + r >= rows) break;
            acc sum[width], product[width];
            clear(sum), clear(product);
<% call each_chunk() %>
<< numbers("held_at(slot + r * row_size + chunk * block)", "held_at(slot + r * row_size + (chunks + chunk) * block)", "of[r]", unpacked="weight_held[chunk]") >>
#pragma unroll
        for (int v = 0; v < width; ++v) {
            sum[v] += g[v], product[v] += g[v] * n[v];
            weight_sum[chunk].at[v] += given[v] * n[v], bias_sum[chunk].at[v] += given[v];
            << "ns[r][chunk][v] = n[v], gs[r][chunk][v] = g[v];" if keeps_row >>
        }
<% endcall %>
            for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
            own.of[2 * r] = sum[0], own.of[2 * r + 1] = product[0];
        }
<% set bring_next = "bring_rows(slot, x, dy, row + %d * step, rows, columns);" % stages %>
        << bring_next if keeps_row >>
        const RowState total = row_sums(own, phase);
#pragma unroll
        for (int r = 0; r < turn; ++r) {
            if (row + r >= rows) break;
            const acc gradient_mean = total.of[2 * r] * scale, product_mean = total.of[2 * r + 1] * scale;
<% call each_chunk() %>
<% if keeps_row %>
<< derivative("ns[r][chunk][v]", "gs[r][chunk][v]", "of[r]", "gradient_mean", "product_mean") >>
<% else %>
<< numbers("held_at(slot + r * row_size + chunk * block)", "held_at(slot + r * row_size + (chunks + chunk) * block)", "of[r]", unpacked="weight_held[chunk]") >>
<< derivative("n[v]", "g[v]", "of[r]", "gradient_mean", "product_mean") >>
<% endif %>
        store_pack(dx + (row + r) * columns + start, packed<elem>(made));
<% endcall %>
        }
        << bring_next if not keeps_row >>
    }
    const long long sums_at = (long long)row_team() * columns;
<% if groups > 1 %>
    // The groups of the block together, in order, in the memory that its rows were in.
    constexpr int part = threads * width;
    acc* const of_group = (acc*)held;
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
            if (to && chunk * part + column < columns) to[sums_at + chunk * part + column] = sum;
        }
    }
<% else %>
<% call each_chunk() %>
if (dweight) store_pack(dweight + sums_at + start, weight_sum[chunk]);
        if (dbias) store_pack(dbias + sums_at + start, bias_sum[chunk]);
<% endcall %>
<% endif %>
    row_end();
}
