// y = x @ W.T + bias for a few rows of x and blocks of W, which is read once, at the speed of memory: integer dot products with x
// in 8 bits. Inputs: W (outputs, row_units units), x (columns, k): of T, of which each thread quantises `packs` packs of eight, or,
// if these are 0, as the planes of activations.cuh. If `normed`, x is one row, of which x / sqrt(mean square + eps) * norm is
// multiplied. With a `gate`, W has two matrices, one behind the other, and y is f(x @ W0.T) * (x @ W1.T).
// Launch: a warp takes `rows` rows of W at a time, those with numbers blockIdx.x + gridDim.x * (warp + i * warps), slice by slice
// of 2048 weights, of which each lane has 64: one unit of each piece.
// Shared, dynamic: x, then for each warp `stages` slices of its rows, of which all but one are on their way. A warp loads its
// slices itself and waits for no other.
<% set settled, normed, gate = settled | default(false), normed | default(false), gate | default("") %>
<% set bulk, halves = bulk | default(false), kind in ("q4_0", "q4_1", "q4_k") %>
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% if halves %>
<% include "prelude/dot.cuh" %>
<% endif %>
<% if bulk %>
<% include "prelude/bulk_copy.cuh" %>
<% endif %>
<% include "prelude/issue_loads.cuh" %>
<% include "prelude/overlap.cuh" %>
<% include "lib/pack.cuh" %>
<% include "quant/activations_warp.cuh" %>
using T = << elem >>;
constexpr int rows = << rows >>, columns = << columns >>, warps = << warps >>, stages = << stages >>;
constexpr int packs = << packs >>;
// Slices that a warp asks for before it asks for x, which comes behind them; if W is settled, and x not given as planes.
constexpr int lead = << lead | default(stages - 1) >>;
// Whether W was written before the kernel before this one began, so that it is read while that one ends.
constexpr bool settled = << settled | lower >>;
constexpr int asked = << asked >>;  // bytes of each row that are asked for while earlier kernels end
constexpr bool bulk = << bulk | lower >>;  // whether each row of a slice is one copy
constexpr bool biased = << "true" if biased else "false" >>;
constexpr bool aligned = << "true" if aligned else "false" >>;  // rows of W begin at multiples of 16 bytes
constexpr int threads = 32 * warps, groups = Kind::groups;
constexpr int pieces = 4 / groups;  // of 32 units, in a slice
constexpr int slice_bytes = 32 * pieces / Kind::units * Kind::bytes, chunks = slice_bytes / 16 + (aligned ? 0 : 1);
constexpr int stage_bytes = rows * chunks * 16;
constexpr int rows_out = << "rows / 2" if gate else "rows" >>;  // results of a warp at a time
static_assert(slice_bytes % 16 == 0, "slices begin where rows do");
<% if normed %>
// The sum over all threads of a block, in each of them; once in a kernel.
__device__ __forceinline__ float sum_of_block(float own) {
    __shared__ float of_warps[warps];
#pragma unroll
    for (int apart = 16; apart; apart /= 2) own += __shfl_xor_sync(0xffffffffu, own, apart);
    const int lane = threadIdx.x % 32;
    if (lane == 0) of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    float sum = lane < warps ? of_warps[lane] : 0.0f;
#pragma unroll
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    return sum;
}
<% endif %>
<% if gate %>
<% include "quant/gate.cuh" %>
<% endif %>
// x in shared memory: of each piece its groups of 16 bytes, lane by lane, so that lanes do not meet in the banks; then factors.
struct Activations {
    unsigned char* memory;
    int count;  // of pieces of a row

    __device__ __forceinline__ int4* group(int column, int piece, int i) const {
        return (int4*)memory + ((column * count + piece) * groups + i) * 32;
    }
    __device__ __forceinline__ Factor* factor(int column, int piece, int i) const {
        return (Factor*)(memory + columns * count * groups * 512) + ((column * count + piece) * scales + i) * 32;
    }
    __device__ __forceinline__ unsigned char* end() const {
        return memory + columns * count * (groups * 512 + scales * 256);
    }
    // Where half of the 16 numbers of a row's group go, and where the factor does.
    __device__ __forceinline__ uint2* at(int column, int number, int half) const {
        const InUnit<Kind> in(number);
        const int unit = in.block * Kind::units + in.unit;
        return (uint2*)(group(column, unit / 32, in.group) + unit % 32) + half;
    }
    __device__ __forceinline__ Factor* factor_at(int column, int number) const {
        const InUnit<Kind> in(number);
        const int unit = in.block * Kind::units + in.unit;
        return factor(column, unit / 32, in.group / together) + unit % 32;
    }
    // Sends the planes of x, of which rows have k elements, to shared memory, by all threads.
    __device__ __forceinline__ void send(const int4* numbers, const Factor* factors, int k) const {
        const int of_row = k / 16, scales_of_row = of_row / together;
        for (int i = threadIdx.x; i < columns * of_row; i += threads)
            copy_async((int4*)at(i / of_row, i % of_row, 0), numbers + i);
        for (int i = threadIdx.x; i < columns * scales_of_row; i += threads)
            copy_async((uint2*)factor_at(i / scales_of_row, i % scales_of_row * together), (const uint2*)factors + i);
    }
    // The same at once: what was sent before is waited for later.
    __device__ __forceinline__ void copy(const int4* numbers, const Factor* factors, int k) const {
        const int of_row = k / 16, scales_of_row = of_row / together;
        for (int i = threadIdx.x; i < columns * of_row; i += threads) *(int4*)at(i / of_row, i % of_row, 0) = numbers[i];
        // By the last threads, so that none waits for its numbers first.
        for (int i = threads - 1 - threadIdx.x; i < columns * scales_of_row; i += threads)
            *factor_at(i / scales_of_row, i % scales_of_row * together) = factors[i];
    }
};
// A thread's part of x, where each block quantises all of it.
struct Packs {
    Pack<T, 8> of[packs > 0 ? packs : 1];

    __device__ __forceinline__ void load(const T* x, int k) {
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int i = threadIdx.x + p * threads;
            of[p] = 8 * i < columns * k ? load_pack<8>(x + 8 * i) : Pack<T, 8>{};
        }
        issue_loads();
    }
<% if normed %>
    __device__ __forceinline__ void normalize(const Packs& weights, int k, float eps) {
        float sum = 0;
#pragma unroll
        for (int p = 0; p < packs; ++p)
#pragma unroll
            for (int j = 0; j < 8; ++j) sum += of[p].at[j] * of[p].at[j];
        const float factor = 1 / sqrt(sum_of_block(sum) / k + eps);
#pragma unroll
        for (int p = 0; p < packs; ++p)
#pragma unroll
            for (int j = 0; j < 8; ++j) of[p].at[j] *= factor * weights.of[p].at[j];
    }
<% endif %>
    __device__ __forceinline__ void store(const Activations& to, int k) const {
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int i = threadIdx.x + p * threads;
            Factor factor;
            const uint2 bytes = quantize_eight(of[p], factor);
            if (8 * i >= columns * k) continue;
            const int column = 8 * i / k, number = 8 * i % k / 16;
            *to.at(column, number, i % 2) = bytes;
            if (i % (2 * together) == 0) *to.factor_at(column, number) = factor;
        }
    }
};

// The place of a warp in its rows of W.
struct Cursor {
    int item, slice;

    __device__ __forceinline__ void next(int slices) {
        if (++slice == slices) slice = 0, item += warps * gridDim.x;
    }
};

struct Weights {
    const unsigned char* blocks;
    int row_bytes, outputs, items, slices, row_units;

    // Where a row of an item is, from the item's first one on: with a gate, the second half are those of the second matrix.
    __device__ __forceinline__ auto within(int row) const {
        if constexpr (rows_out < rows) return row % rows_out * (long long)row_bytes + row / rows_out * (long long)outputs * row_bytes;
        else return row * row_bytes;
    }
    __device__ __forceinline__ long long first_of(int item) const { return (long long)item * rows_out * row_bytes; }
    // Asks for the first bytes of an item's rows.
    __device__ __forceinline__ void ask(int item) const {
        const int lane = threadIdx.x % 32;
        if (lane >= rows || lane % rows_out >= outputs - item * rows_out) return;
        const long long first = first_of(item) + within(lane);
        ask_ahead(blocks + (first - first % 16), minimum(row_bytes, asked));
    }
<% if not bulk %>
    // Sends a slice of rows to shared memory.
    __device__ __forceinline__ void load(unsigned char* stage, const Cursor& at) const {
        if (at.item >= items) return commit_copies();
        const bool whole = outputs - at.item * rows_out >= rows_out && (at.slice + 1) * slice_bytes <= row_bytes;
        if (aligned && whole) send<true>(stage, at);
        else send<false>(stage, at);
        commit_copies();
    }

private:
    template <bool WHOLE>
    __device__ __forceinline__ void send(unsigned char* stage, const Cursor& at) const {
        const long long first = first_of(at.item);
        const int left = outputs - at.item * rows_out, before = at.slice * slice_bytes;
        const unsigned char* const from = blocks + first + before;
#pragma unroll
        for (int i = 0; i < rows * chunks; i += 32) {
            const int c = i + threadIdx.x % 32;
            if (i + 32 > rows * chunks && c >= rows * chunks) continue;
            const int row = rows == 1 ? 0 : c / chunks, chunk = 16 * (rows == 1 ? c : c % chunks);
            if constexpr (WHOLE) {
                copy_async((uint4*)(stage + 16 * c), (const uint4*)(from + (within(row) + chunk)));
            } else {
                const int start = chunk - (aligned ? 0 : int((first + within(row)) % 16));
                const int bytes = row % rows_out < left ? minimum(row_bytes - before - start, 16) : 0;
                copy_async_or_zeros(stage + 16 * c, from + (within(row) + start), maximum(bytes, 0));
            }
        }
    }
<% endif %>
};

// Sends slice after slice of a warp's rows to its ring, each row's by one copy of one lane.
struct Sender {
    const Weights& w;
    unsigned char* ring;
    int item, slice = 0, stage = 0;
<% if bulk %>
    MBarrier* arrivals;  // one a stage
    const unsigned char* from;

    __device__ __forceinline__ Sender(const Weights& w, unsigned char* ring, int item, MBarrier* arrivals)
        : w(w), ring(ring), item(item), arrivals(arrivals)
    {
        begin();
    }
    __device__ __forceinline__ void begin() {
        // Of rows beyond the last output, that one's: results that are dropped, but of memory that is set.
        const int lane = threadIdx.x % 32, last = minimum(w.outputs - item * rows_out, rows_out) - 1;
        from = w.blocks + (w.first_of(item) + w.within(lane / rows_out * rows_out + minimum(lane % rows_out, last)));
    }
    __device__ __forceinline__ void next() {
        if (item >= w.items) return;
        const int lane = threadIdx.x % 32, bytes = slice == w.slices - 1 ? w.row_bytes - slice * slice_bytes : slice_bytes;
        if (lane == 0) mbarrier_arrive_expecting(arrivals + stage, bytes * rows);
        if (lane < rows) copy_bulk(ring + stage * stage_bytes + lane * slice_bytes, from, bytes, arrivals + stage);
        from += slice_bytes;
        stage = stage + 1 == stages ? 0 : stage + 1;
        if (++slice < w.slices) return;
        slice = 0, item += warps * gridDim.x;
        begin();
    }
<% else %>
    __device__ __forceinline__ void next() {
        w.load(ring + stage * stage_bytes, Cursor{item, slice});
        stage = stage + 1 == stages ? 0 : stage + 1;
        if (++slice == w.slices) slice = 0, item += warps * gridDim.x;
    }
<% endif %>
};

// What a warp adds up: for each of its rows and each column.
struct Sums {
    float of[rows][columns] = {};

    __device__ __forceinline__ void add(const unsigned char* stage, const Activations& x, const Weights& w, const Cursor& at) {
#pragma unroll
        for (int piece = 0; piece < pieces; ++piece) add(stage, x, w, at, piece);
    }
    __device__ __forceinline__ void add(
        const unsigned char* stage, const Activations& x, const Weights& w, const Cursor& at, int piece)
    {
        const int lane = threadIdx.x % 32, of_row = at.slice * pieces + piece;
        if (of_row * 32 + lane >= w.row_units) return;
        int q[rows][4 * groups];
        float scale[rows][scales], least[rows][scales];
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const int before = aligned ? 0 : int((w.first_of(at.item) + w.within(row)) % 16);
            const unsigned char* const slice = stage + row * chunks * 16 + before;
            const Kind::Unit unit(slice + (32 * piece + lane) / Kind::units * Kind::bytes, lane % Kind::units);
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                const Group group = unit.decode(i);
#pragma unroll
                for (int j = 0; j < 4; ++j) q[row][4 * i + j] = int(<< "unit.in_place(i, j)" if halves else "group.q[j]" >>);
                scale[row][i / together] = group.scale, least[row][i / together] = group.least;
            }
        }
#pragma unroll
        for (int column = 0; column < columns; ++column) {
#pragma unroll
            for (int s = 0; s < scales; ++s) {
                const Factor factor = x.factor(column, of_row, s)[lane];
                int own[4 * together];
#pragma unroll
                for (int i = 0; i < together; ++i) {
                    const int4 four = x.group(column, of_row, s * together + i)[lane];
                    own[4 * i] = four.x, own[4 * i + 1] = four.y, own[4 * i + 2] = four.z, own[4 * i + 3] = four.w;
                }
#pragma unroll
                for (int row = 0; row < rows; ++row) {
                    int sum = Kind::shifted ? magic_bits : factor.start;
<% if halves %>
                    int high = magic_bits;  // of weights that are 16 times as large
#pragma unroll
                    for (int j = 0; j < 4 * together; ++j) {
                        int& of_half = together * s + j / 4 < Kind::first_high ? sum : high;
                        of_half = dot_unsigned(q[row][4 * together * s + j], own[j], of_half);
                    }
                    const float product = __int_as_float(sum) - magic + (__int_as_float(high) - magic) * 0.0625f;
<% else %>
#pragma unroll
                    for (int j = 0; j < 4 * together; ++j) sum = __dp4a(q[row][4 * together * s + j], own[j], sum);
                    const float product = __int_as_float(sum) - magic;
<% endif %>
                    float& total = of[row][column];
                    total = fmaf(scale[row][s] * factor.d, product, total);
                    if (Kind::shifted) total = fmaf(least[row][s], __int_as_float(factor.start), total);
                }
            }
        }
    }
    // What is added to the result that a lane stores.
    static __device__ __forceinline__ float added(const T* bias, int first, int outputs) {
        const int lane = threadIdx.x % 32, output = first + lane % rows_out;
        return biased && lane < columns * rows_out && output < outputs ? cast<float>(bias[output]) : 0.0f;
    }
    // Adds up the lanes' sums, stores what they make, and starts from zero again.
    __device__ __forceinline__ void store(T* y, float added, int first, int outputs) {
        static_assert(columns * rows_out <= 32, "a lane stores one result");
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int column = 0; column < columns; ++column) {
#pragma unroll
            for (int row = 0; row < rows; ++row) {
#pragma unroll
                for (int apart = 16; apart; apart /= 2) of[row][column] += __shfl_xor_sync(0xffffffffu, of[row][column], apart);
            }
#pragma unroll
            for (int row = 0; row < rows_out; ++row) {
                const int output = first + row;
                if (lane == column * rows_out + row && output < outputs) {
                    float result = of[row][column];
<% if gate %>
                    result = activated(result) * of[rows_out + row][column];
<% endif %>
                    if (biased) result += added;
                    y[(long long)column * outputs + output] = cast<T>(result);
                }
            }
#pragma unroll
            for (int row = 0; row < rows; ++row) of[row][column] = 0;
        }
    }
};

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const unsigned char* blocks, const T* x, const int4* numbers, const Factor* factors, const T* bias, const float* norm,
    float eps, T* y, int outputs, int k)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const int row_units = k / (16 * groups), slices = divide_up(row_units, 32 * pieces);
    const Weights w{blocks, k / Kind::weights * Kind::bytes, outputs, divide_up(outputs, rows_out), slices, row_units};
    const Activations activations{shared, slices * pieces};
    const int warp = threadIdx.x / 32;
    unsigned char* const ring = activations.end() + warp * stages * stage_bytes;
    Cursor at{int(blockIdx.x + gridDim.x * warp), 0};
    if (!settled) {
        if (asked) w.ask(at.item);
        wait_for_earlier_kernels();
    }
    // What is asked for first comes first: x, which everything waits for, if it is there.
    Packs own;
<% if normed %>
    Packs norms;
    norms.load(norm, k);
<% endif %>
    if (!settled) {
        if (packs) own.load(x, k);
        else activations.send(numbers, factors, k);
        commit_copies();
    }
<% if bulk %>
    __shared__ MBarrier of_warps[warps][stages];
    MBarrier* const arrivals = of_warps[warp];
    if (threadIdx.x % 32 == 0) {
        for (int i = 0; i < stages; ++i) mbarrier_init(arrivals + i, 1);
        fence_mbarrier_init();
    }
    __syncwarp();
    Sender sender(w, ring, at.item, arrivals);
<% else %>
    Sender sender{w, ring, at.item};
<% endif %>
    for (int i = 0; i < lead; ++i) sender.next();
    allow_next_kernel();
<% if settled %>
    wait_for_earlier_kernels();
    if (packs) own.load(x, k);
<% endif %>
    // What is added to an item's results comes while it is multiplied.
    float added = Sums::added(bias, at.item * rows_out, outputs);
    for (int i = lead; i < stages - 1; ++i) sender.next();
<% if settled %>
    if (!packs) activations.copy(numbers, factors, k);
<% endif %>
<% if normed %>
    own.normalize(norms, k, eps);
<% endif %>
    if (packs) own.store(activations, k);
    if (!settled) wait_copies<bulk ? 0 : stages - 1>();
    __syncthreads();
    Sums sums;
    int stage = 0;
    unsigned parity = 0;
    while (at.item < w.items) {
<% if bulk %>
        mbarrier_wait(arrivals + stage, parity);
<% else %>
        wait_copies<stages - 2>();
<% endif %>
        __syncwarp();  // all lanes' chunks have come, and the slice before has been multiplied
        sender.next();
        sums.add(ring + stage * stage_bytes, activations, w, at);
        if (at.slice == slices - 1) sums.store(y, added, at.item * rows_out, outputs);
        at.next(slices);
        if (biased && at.slice == 0) added = Sums::added(bias, at.item * rows_out, outputs);
        if (++stage == stages) stage = 0, parity ^= 1;
    }
<% if not bulk %>
    wait_copies<0>();
<% endif %>
}
