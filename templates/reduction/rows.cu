// y[i] = the << reduction.name >> over e of f(x0[i, e], x1[i, e], ...), i over `rows` kept elements in C order, for the
// threads of a GPU. The reduced elements are walked along the inner axis, `width` at a time: a pack.
// Inputs x* of any strides, scalars s*, output y (rows). Launch: `lanes` threads share a row (a power of two up to 32, or
// the block) and `at_once` rows at once; a thread loads `unroll` packs of each before it computes. blockIdx.y numbers the
// pieces of `piece` packs that a row is cut into; the stage "partial" leaves a state for each in `parts` (rows, pieces).
// Shared: a state a warp where the block shares a row. The order of values is always the same.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/shared_total.cuh" %>
constexpr int block = << block >>, lanes = << lanes >>, at_once = << rows_at_once >>, unroll = << unroll >>, width = << width >>;
// `peel`: a row may start inside a pack; `full`: no round has a tail. `together`: a round's values are combined at once.
constexpr bool peel = << peel | lower >>, full = << full | lower >>, in_registers = << in_registers | lower >>, ordered = << reduction.ordered | lower >>;
constexpr bool together = batch && (width == 1 || !ordered) && in_registers;
<# An input with step 1 is loaded in packs; one with step 0 along all reduced axes once a row. #>
<% set invariant = [] if over else inputs | selectattr("step", "equalto", "zero") | list %>
<% set packed = inputs | selectattr("step", "equalto", "unit") | list %>
// The inputs that are constant along a row.
struct Fixed {
<% for x in invariant %>
    << x.compute >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const index (&offset)[inputs]) {
<% for x in invariant %>
        x<< x.k >> = cast< << x.compute >> >(memory.x<< x.k >>[offset[<< x.k >>]]);
<% endfor %>
    }
};
// A pack of each other input: the elements from r on along the inner axis.
struct Moving {
<% for x in inputs if x not in invariant %>
    << "Pack<%s, width>" % x.type if x.step == "unit" else x.type >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const Layout& layout, const index (&offset)[inputs], index r) {
<% for x in inputs if x not in invariant %>
        x<< x.k >> = << "load_pack<width>(memory.x%d + (offset[%d] + r))" % (x.k, x.k) if x.step == "unit" else "memory.x%d[offset[%d] + stepped<Step::%s>(r, layout.step[%d])]" % (x.k, x.k, x.step, x.k) >>;
<% endfor %>
    }
    __device__ __forceinline__ T value(const Scalars& scalars, const Fixed& fixed, int k) const {
        return value_of(scalars<% for x in inputs %>, << "fixed.x%d" % x.k if x in invariant else "cast<%s>(x%d%s)" % (x.compute, x.k, ".at[k]" if x.step == "unit") >><% endfor %>);
    }
};
__device__ __forceinline__ T value_at(const Memory& memory, const Layout& layout, const Scalars& scalars, const index (&offset)[inputs], index r) {
    return value_of(scalars<% for x in inputs %>, cast< << x.compute >> >(memory.x<< x.k >>[offset[<< x.k >>] + stepped<Step::<< x.step >>>(r, layout.step[<< x.k >>])])<% endfor %>);
}
// The number of elements of a row of n before its first address that is aligned to a pack.
__device__ __forceinline__ index before_packs(const Memory& memory, const index (&offset)[inputs], index n) {
<% if peel %>
    const auto first = (unsigned long long)(memory.x<< packed[0].k >> + offset[<< packed[0].k >>]);
    return minimum(n, index((0 - (first / sizeof(*memory.x<< packed[0].k >>))) % width));
<% else %>
    return 0;
<% endif %>
}
// A thread's rows: offsets, inputs and partial states.
struct ThreadRows {
    const Memory& memory;
    const Layout& layout;
    const Scalars& scalars;
    index inner, head, offset[at_once][inputs];
    Fixed fixed[at_once];
    State a[at_once];

    // Accumulate the packs e, e + lanes, ... of each row, `unroll` of them; with `guarded` those below `end`. Each call takes
    // a separate `in`: if calls shared it, a compiler would keep loads of one alive for the other, with unset elements.
    template <bool guarded>
    __device__ __forceinline__ void accumulate(Moving (&in)[at_once][unroll], index e, index end) {
#pragma unroll
        for (int j = 0; j < at_once; ++j)
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                const index at = e + u * lanes;
                if (guarded && at >= end) continue;
                if constexpr (over > 0) {
                    const index inner_packs = inner / width, q = at / inner_packs;
                    index position[inputs];
#pragma unroll
                    for (int k = 0; k < inputs; ++k) position[k] = offset[j][k];
                    advance_outer(layout, position, q);
                    in[j][u].load(memory, layout, position, (at - q * inner_packs) * width);
                } else {
                    in[j][u].load(memory, layout, offset[j], at * width + head);
                }
            }
#pragma unroll
        for (int j = 0; j < at_once; ++j) {
            if constexpr (together && !guarded) {
                T v[unroll * width];
#pragma unroll
                for (int u = 0; u < unroll; ++u)
#pragma unroll
                    for (int k = 0; k < width; ++k) v[u * width + k] = in[j][u].value(scalars, fixed[j], k);
                a[j] = push_all(a[j], v, Place(e), Place(lanes));
                continue;
            }
            State b = identity();
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                const index at = e + u * lanes;
                if (guarded && at >= end) continue;
                T v[width];
#pragma unroll
                for (int k = 0; k < width; ++k) {
                    v[k] = in[j][u].value(scalars, fixed[j], k);
                    if constexpr (!batch) b = push(b, v[k], Place(at * width + k + head));
                }
                if constexpr (batch) a[j] = push_all(a[j], v, Place(at * width + head), Place(1));
            }
            if constexpr (!batch) a[j] = combine(a[j], b);
        }
    }
    // Accumulate the elements from `first` to `end` of row j, without packs.
    __device__ __forceinline__ void accumulate_scalars(int j, index first, index end) {
        for (index r = first; r < end; r += lanes) a[j] = push(a[j], value_at(memory, layout, scalars, offset[j], r), Place(r));
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, index rows, index inner, index packs, index piece)
{
    const Memory memory{<< memory() >>};
    const Scalars scalars{<< numbers() >>};
    const Output out{<< output() >>};
    const int lane = int(threadIdx.x) % lanes;
    const index first_row = index(blockIdx.x) * (block / lanes * at_once) + int(threadIdx.x) / lanes;
    ThreadRows partial{memory, layout, scalars, inner, 0};
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
        // Beyond the last row it is reduced again and not stored.
        const index row = minimum(first_row + j * (block / lanes), rows - 1);
#pragma unroll
        for (int k = 0; k < inputs; ++k) partial.offset[j][k] = 0;
        advance_kept(layout, partial.offset[j], row);
        partial.fixed[j].load(memory, partial.offset[j]);
        partial.a[j] = identity();
    }
    if constexpr (peel) {
        partial.head = before_packs(memory, partial.offset[0], inner);
        packs = (inner - partial.head) / width;
        if (blockIdx.y == 0) partial.accumulate_scalars(0, lane, partial.head);
    }
    const index end = minimum(packs, index(blockIdx.y + 1) * piece);
    index e = index(blockIdx.y) * piece + lane;
    if constexpr (at_once == 1)
        for (; e + (unroll - 1) * lanes < end; e += unroll * lanes) {
            Moving in[at_once][unroll];
            partial.accumulate<false>(in, e, end);
        }
    if (at_once > 1 || (!full && e < end)) {
        Moving in[at_once][unroll];
        partial.accumulate<!full>(in, e, end);
    }
    if (<< "blockIdx.y == gridDim.y - 1" if tail else "false" >>)
#pragma unroll
        for (int j = 0; j < at_once; ++j) partial.accumulate_scalars(j, partial.head + packs * width + lane, inner);
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
        const State total = shared_total(partial.a[j]);
        const index row = first_row + j * (block / lanes);
        if (row < rows && lane == 0) out.store(row, total);
    }
}
