// y[i, c] = the << reduction.name >> over e of f(x0[i, e, c], x1[i, e, c], ...), for the threads of a GPU, where neighbouring
// results read neighbouring elements. Inputs x* of any strides, scalars s*, output y (rows, columns) in C order.
// Launch: a block has `across` threads side by side, each for `width` columns (a pack), and `down` threads one below the
// other, that share the reduced elements; a thread loads `unroll` packs of each input before it computes. blockIdx.x
// numbers the columns' tiles of every row, blockIdx.y the pieces of `piece` reduced elements; the stage "partial" leaves a
// state for each in `parts` (rows, columns, pieces). Shared: the block's states. The order of values is always the same.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "reduction/reduce.cuh" %>
constexpr int block = << block >>, across = << across >>, down = << down >>, unroll = << unroll >>, width = << width >>;
// Whether a block has threads without a column.
constexpr bool spare = across * down < block;
// The columns of a block, and into how many shares the states of a column are combined first, if it has many.
constexpr int tile = across * width, shares = down < 32 || 2 * tile > block ? down : 8 * tile < block ? 8 : block / tile;
<# An input with step 0 along the reduced axes is loaded once; one with step 0 along the columns as a scalar. #>
<% set once = [] if over else inputs | selectattr("step", "equalto", "zero") | list %>
<% for name, some in (("Fixed", once), ("Moving", inputs | reject("in", once) | list)) %>
struct << name >> {
<% for x in some %>
    << x.type if x.column == "zero" else "Pack<%s, width>" % x.type >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const Layout& layout, const index (&offset)[inputs], index r) {
<% for x in some %>
        x<< x.k >> = << "%s(memory.x%d + (offset[%d] + stepped<Step::%s>(r, layout.step[%d])))" % ("*" if x.column == "zero" else "load_pack<width>", x.k, x.k, x.step, x.k) >>;
<% endfor %>
    }
};
<% endfor %>
__device__ __forceinline__ T value(const Scalars& scalars, const Fixed& fixed, const Moving& moving, int k) {
    return value_of(scalars<% for x in inputs %>, cast< << x.compute >> >(<< "fixed" if x in once else "moving" >>.x<< x.k >><< ".at[k]" if x.column != "zero" >>)<% endfor %>);
}
// A thread's columns: offsets, inputs and partial states.
struct ThreadColumns {
    const Memory& memory;
    const Layout& layout;
    const Scalars& scalars;
    index inner, offset[inputs];
    Fixed fixed;
    State a[width];

    // Accumulate the elements e, e + down, ..., `unroll` of them; with `guarded` those below `end`. Each call takes a separate
    // `in`: if calls shared it, a compiler would keep loads of one alive for the other, with unset elements.
    template <bool guarded>
    __device__ __forceinline__ void accumulate(Moving (&in)[unroll], index e, index end) {
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const index at = e + u * down;
            if (guarded && at >= end) continue;
            if constexpr (over > 0) {
                const index q = at / inner;
                index position[inputs];
#pragma unroll
                for (int k = 0; k < inputs; ++k) position[k] = offset[k];
                advance_outer(layout, position, q);
                in[u].load(memory, layout, position, at - q * inner);
            } else {
                in[u].load(memory, layout, offset, at);
            }
        }
#pragma unroll
        for (int k = 0; k < width; ++k) {
            if constexpr (batch && !guarded) {
                T v[unroll];
#pragma unroll
                for (int u = 0; u < unroll; ++u) v[u] = value(scalars, fixed, in[u], k);
                a[k] = push_all(a[k], v, Place(e), Place(down));
            } else {
                State b = identity();
#pragma unroll
                for (int u = 0; u < unroll; ++u) {
                    if (guarded && e + u * down >= end) continue;
                    b = push(b, value(scalars, fixed, in[u], k), Place(e + u * down));
                }
                a[k] = combine(a[k], b);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, index columns, index tiles, index inner, index reduced, index piece)
{
    const Memory memory{<< memory() >>};
    const Scalars scalars{<< numbers() >>};
    const Output out{<< output() >>};
    const int left = int(threadIdx.x) % across, above = int(threadIdx.x) / across;
    const index row = index(blockIdx.x) / tiles;
    const index first_column = (index(blockIdx.x) - row * tiles) * (across * width);
    const index thread_column = first_column + left * width;
    // Beyond the last column it is reduced again and not stored.
    const index column = minimum(thread_column, index(columns - width));
    ThreadColumns partial{memory, layout, scalars, inner};
<% for x in inputs %>
    partial.offset[<< x.k >>] = stepped<Step::<< x.column >>>(column, layout.column[<< x.k >>]);
<% endfor %>
    advance_kept(layout, partial.offset, row);
    partial.fixed.load(memory, layout, partial.offset, 0);
#pragma unroll
    for (int k = 0; k < width; ++k) partial.a[k] = identity();
    const index end = minimum(reduced, index(blockIdx.y + 1) * piece);
    index e = spare && above >= down ? end : index(blockIdx.y) * piece + above;
    for (; e + (unroll - 1) * down < end; e += unroll * down) {
        Moving in[unroll];
        partial.accumulate<false>(in, e, end);
    }
    if (e < end) {
        Moving in[unroll];
        partial.accumulate<true>(in, e, end);
    }
    if constexpr (down > 1) {
        __shared__ State thread_states[block * width];
#pragma unroll
        for (int k = 0; k < width; ++k) thread_states[threadIdx.x * width + k] = partial.a[k];
        __syncthreads();
        if constexpr (shares < down) {
            const int c = int(threadIdx.x) % tile, share = int(threadIdx.x) / tile;
            if (share < shares) {
                State total = thread_states[share * tile + c];
#pragma unroll
                for (int d = share + shares; d < down; d += shares) total = combine(total, thread_states[d * tile + c]);
                thread_states[share * tile + c] = total;
            }
            __syncthreads();
        }
        for (int c = threadIdx.x; c < tile; c += block) {
            State total = thread_states[c];
#pragma unroll
            for (int d = 1; d < shares; ++d) total = combine(total, thread_states[d * tile + c]);
            if (first_column + c < columns) out.store(row * columns + first_column + c, total);
        }
    } else if ((!spare || above == 0) && thread_column < columns) {
#pragma unroll
        for (int k = 0; k < width; ++k) out.store(row * columns + column + k, partial.a[k]);
    }
}
