// y = x @ W.T + bias for a few rows of x and blocks of W, which is read once, at the speed of memory: integer dot products with x
// in 8 bits. Inputs: W (outputs, row_units units), x (columns, k), of T if `direct`, else as the planes of activations.cuh.
// Launch: a warp takes `rows` rows of W at a time, those with numbers blockIdx.x + gridDim.x * (warp + i * warps), slice by slice
// of 32 units, of which each lane has one.
// Shared, dynamic: x, then for each warp `stages` slices of its rows, of which all but one are on their way. A warp brings its
// slices itself and waits for no other.
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% include "lib/pack.cuh" %>
<% include "prelude/overlap.cuh" %>
using T = << elem >>;
constexpr int rows = << rows >>, columns = << columns >>, warps = << warps >>, stages = << stages >>;
constexpr bool direct = << "true" if direct else "false" >>, biased = << "true" if biased else "false" >>;
constexpr bool aligned = << "true" if aligned else "false" >>;  // rows of W begin at multiples of 16 bytes
constexpr bool settled = << "true" if settled else "false" >>;  // W was written before the kernel before this one began
constexpr int threads = 32 * warps, groups = Kind::groups;
constexpr int together = Kind::interleaved ? 1 : 2, scales = groups / together;  // groups that share a scale
constexpr int slice_bytes = 32 / Kind::units * Kind::bytes, chunks = slice_bytes / 16 + (aligned ? 0 : 1);
constexpr int stage_bytes = rows * chunks * 16;
static_assert(slice_bytes % 16 == 0, "slices begin where rows do");
// The float 1.5 * 2^23: a small integer that is added to its bits is added to its value.
constexpr int magic_bits = 0x4b400000;
constexpr float magic = 12582912.0f;

// What a group is multiplied by: the scale d of x; and what the sum of products starts from, or d * the sum of x if the kind
// is shifted.
struct Factor {
    float d;
    int start;
};
// x in shared memory: of each slice its groups of 16 bytes, lane by lane, so that lanes do not meet in the banks; then factors.
struct Activations {
    unsigned char* memory;
    int slices;

    __device__ __forceinline__ int4* group(int column, int slice, int i) const {
        return (int4*)memory + ((column * slices + slice) * groups + i) * 32;
    }
    __device__ __forceinline__ Factor* factor(int column, int slice, int i) const {
        return (Factor*)(memory + columns * slices * groups * 512) + ((column * slices + slice) * scales + i) * 32;
    }
    __device__ __forceinline__ unsigned char* end() const {
        return memory + columns * slices * (groups * 512 + scales * 256);
    }
    // Puts 16 numbers of x, or four of them at `word`, in their place; number `group` of a row.
    template <class W>
    __device__ __forceinline__ void put(int column, int group, int word, W words) const {
        const InUnit<Kind> in(group);
        const int unit = in.block * Kind::units + in.unit;
        ((W*)(this->group(column, unit / 32, in.group) + unit % 32))[word] = words;
    }
    // Puts the factors of the 32 numbers with number `block` of a row.
    __device__ __forceinline__ void put(int column, int block, const Scale& scale) const {
        const int sums[2] = {short(scale.sums), short(scale.sums >> 16)};
#pragma unroll
        for (int half = 0; half < 2; half += together) {
            const InUnit<Kind> in(2 * block + half);
            const int unit = in.block * Kind::units + in.unit;
            const int sum = together == 2 ? sums[0] + sums[1] : sums[half];
            const int start = Kind::shifted ? __float_as_int(scale.d * float(sum)) : magic_bits - Kind::zero * sum;
            factor(column, unit / 32, in.group / together)[unit % 32] = {scale.d, start};
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

    // Sends a slice of rows to shared memory.
    __device__ __forceinline__ void load(unsigned char* stage, const Cursor& at) const {
        if (at.item >= items) return;
        const bool whole = outputs - at.item * rows >= rows && (at.slice + 1) * slice_bytes <= row_bytes;
        if (aligned && whole) send<true>(stage, at);
        else send<false>(stage, at);
    }

private:
    template <bool WHOLE>
    __device__ __forceinline__ void send(unsigned char* stage, const Cursor& at) const {
        const long long first = (long long)at.item * rows * row_bytes;
        const int left = outputs - at.item * rows, before = at.slice * slice_bytes;
        const unsigned char* const from = blocks + first + before;
#pragma unroll
        for (int i = 0; i < rows * chunks; i += 32) {
            const int c = i + threadIdx.x % 32;
            if (i + 32 > rows * chunks && c >= rows * chunks) continue;
            const int row = rows == 1 ? 0 : c / chunks, chunk = 16 * (rows == 1 ? c : c % chunks);
            if constexpr (WHOLE) {
                copy_async((uint4*)(stage + 16 * c), (const uint4*)(from + (row * row_bytes + chunk)));
            } else {
                const int start = row * row_bytes + chunk - (aligned ? 0 : int((first + row * row_bytes) % 16));
                const int bytes = row < left ? minimum((row + 1) * row_bytes - before - start, 16) : 0;
                copy_async_or_zeros(stage + 16 * c, from + start, maximum(bytes, 0));
            }
        }
    }
};

// What a warp adds up: for each of its rows and each column.
struct Sums {
    float of[rows][columns] = {};

    __device__ __forceinline__ void add(const unsigned char* stage, const Activations& x, const Weights& w, const Cursor& at) {
        const int lane = threadIdx.x % 32;
        if (at.slice * 32 + lane >= w.row_units) return;
        int q[rows][4 * groups];
        float scale[rows][scales], least[rows][scales];
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const int before = aligned ? 0 : int(((long long)at.item * rows + row) * w.row_bytes % 16);
            const unsigned char* const slice = stage + row * chunks * 16 + before;
            const Kind::Unit unit(slice + lane / Kind::units * Kind::bytes, lane % Kind::units);
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                const Group group = unit.decode(i);
#pragma unroll
                for (int j = 0; j < 4; ++j) q[row][4 * i + j] = int(group.q[j]);
                scale[row][i / together] = group.scale, least[row][i / together] = group.least;
            }
        }
#pragma unroll
        for (int column = 0; column < columns; ++column) {
#pragma unroll
            for (int s = 0; s < scales; ++s) {
                const Factor factor = x.factor(column, at.slice, s)[lane];
                int own[4 * together];
#pragma unroll
                for (int i = 0; i < together; ++i) {
                    const int4 four = x.group(column, at.slice, s * together + i)[lane];
                    own[4 * i] = four.x, own[4 * i + 1] = four.y, own[4 * i + 2] = four.z, own[4 * i + 3] = four.w;
                }
#pragma unroll
                for (int row = 0; row < rows; ++row) {
                    int sum = Kind::shifted ? magic_bits : factor.start;
#pragma unroll
                    for (int j = 0; j < 4 * together; ++j) sum = __dp4a(q[row][4 * together * s + j], own[j], sum);
                    const float product = __int_as_float(sum) - magic;
                    float& total = of[row][column];
                    total = fmaf(scale[row][s] * factor.d, product, total);
                    if (Kind::shifted) total = fmaf(least[row][s], __int_as_float(factor.start), total);
                }
            }
        }
    }
    // Adds up the lanes' sums, stores them, and starts from zero again.
    __device__ __forceinline__ void store(T* y, const T* bias, int first, int outputs) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int column = 0; column < columns; ++column) {
#pragma unroll
            for (int row = 0; row < rows; ++row) {
                float& sum = of[row][column];
#pragma unroll
                for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
                const int output = first + row;
                if (lane == (column * rows + row) % 32 && output < outputs)
                    y[(long long)column * outputs + output] = cast<T>(biased ? sum + cast<float>(bias[output]) : sum);
                sum = 0;
            }
        }
    }
};

// Puts x in shared memory, by all threads; k is a multiple of 32.
__device__ __forceinline__ void stage_activations(const Activations& to, const T* x, const int4* numbers, const Scale* given, int k) {
    if constexpr (direct) {
        const int four = columns * k / 4;
        for (int i = threadIdx.x; i < divide_up(four, 32) * 32; i += threads) {
            float own[4] = {};
            if (i < four) {
                const Pack<T, 4> pack = load_pack<4>(x + 4 * i);
#pragma unroll
                for (int j = 0; j < 4; ++j) own[j] = cast<float>(pack.at[j]);
            }
            Scale scale;
            const unsigned bytes = quantize_four(own, scale);
            if (i >= four) continue;
            const int column = 4 * i / k, element = 4 * i % k;
            to.put(column, element / 16, element / 4 % 4, bytes);
            if (i % 8 == 0) to.put(column, element / 32, scale);
        }
    } else {
        for (int i = threadIdx.x; i < columns * (k / 16); i += threads) to.put(i / (k / 16), i % (k / 16), 0, numbers[i]);
        for (int i = threadIdx.x; i < columns * (k / 32); i += threads) to.put(i / (k / 32), i % (k / 32), given[i]);
    }
}

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const unsigned char* blocks, const T* x, const int4* numbers, const Scale* given, const T* bias, T* y, int outputs, int k)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const int row_units = k / (16 * groups), slices = divide_up(row_units, 32);
    const Weights w{blocks, k / Kind::weights * Kind::bytes, outputs, divide_up(outputs, rows), slices, row_units};
    const Activations activations{shared, slices};
    const int warp = threadIdx.x / 32;
    unsigned char* const ring = activations.end() + warp * stages * stage_bytes;
    Cursor ahead{int(blockIdx.x + gridDim.x * warp), 0}, at = ahead;
    if (!settled) wait_for_earlier_kernels();
    let_next_kernel_begin();
    for (int i = 0; i < stages - 1; ++i) {
        w.load(ring + i * stage_bytes, ahead);
        commit_copies();
        ahead.next(slices);
    }
    if (settled) wait_for_earlier_kernels();
    stage_activations(activations, x, numbers, given, k);
    __syncthreads();
    Sums sums;
    int stage = 0, next_stage = stages - 1;
    while (at.item < w.items) {
        wait_copies<stages - 2>();
        __syncwarp();  // all lanes' chunks have come, and the slice before has been multiplied
        w.load(ring + next_stage * stage_bytes, ahead);
        commit_copies();
        ahead.next(slices);
        sums.add(ring + stage * stage_bytes, activations, w, at);
        if (at.slice == slices - 1) sums.store(y, bias, at.item * rows, outputs);
        at.next(slices);
        stage = stage + 1 == stages ? 0 : stage + 1;
        next_stage = next_stage + 1 == stages ? 0 : next_stage + 1;
    }
    wait_copies<0>();
}
