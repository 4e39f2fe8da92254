// y[i] = the << reduction.name >> over e of f(x0[i, e], x1[i, e], ...), i over `rows` kept elements in C order, for the
// threads of a GPU. The reduced elements are walked along the inner axis, `width` at a time: a pack.
// Inputs x* of any strides, scalars s*, output y (rows). Launch: `lanes` threads share a row (a power of two up to 32, or
// the block) and `at_once` rows at once; a thread loads `unroll` packs of each before it computes. blockIdx.y numbers the
// pieces of `piece` packs that a row is cut into; the stage "partial" leaves a state for each in `parts` (rows, pieces).
// Shared: a state a warp where the block shares a row. The order of values is the same every time.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/shared_total.cuh" %>
constexpr int block = << block >>, lanes = << lanes >>, at_once = << rows_at_once >>, unroll = << unroll >>, width = << width >>;
// `peel`: a row starts between packs; `exact`: its rounds are full. `together`: a round's values are handed on together.
constexpr bool peel = << peel | lower >>, exact = << exact | lower >>, rounded = << rounded | lower >>, ordered = << reduction.ordered | lower >>;
constexpr bool together = batch && (width == 1 || !ordered) && rounded;
<# An input that steps by 1 is loaded in packs; one that steps by 0 once a row, where its place is found by the row alone. #>
<% set same = [] if over else inputs | selectattr("step", "equalto", "zero") | list %>
<% set packed = inputs | selectattr("step", "equalto", "unit") | list %>
// What all elements of a row have in common.
struct Fixed {
<% for x in same %>
    << x.compute >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const index (&offset)[inputs]) {
<% for x in same %>
        x<< x.k >> = cast< << x.compute >> >(memory.x<< x.k >>[offset[<< x.k >>]]);
<% endfor %>
    }
};
// A pack's worth of each other input, the elements from r on along the inner axis.
struct Moving {
<% for x in inputs if x not in same %>
    << "Pack<%s, width>" % x.type if x.step == "unit" else x.type >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const Layout& layout, const index (&offset)[inputs], index r) {
<% for x in inputs if x not in same %>
        x<< x.k >> = << "load_pack<width>(memory.x%d + (offset[%d] + r))" % (x.k, x.k) if x.step == "unit" else "memory.x%d[offset[%d] + stepped<Step::%s>(r, layout.step[%d])]" % (x.k, x.k, x.step, x.k) >>;
<% endfor %>
    }
    __device__ __forceinline__ T value(const Scalars& scalars, const Fixed& fixed, int k) const {
        return value_of(scalars<% for x in inputs %>, << "fixed.x%d" % x.k if x in same else "cast<%s>(x%d%s)" % (x.compute, x.k, ".at[k]" if x.step == "unit") >><% endfor %>);
    }
};
__device__ __forceinline__ T value_at(const Memory& memory, const Layout& layout, const Scalars& scalars, const index (&offset)[inputs], index r) {
    return value_of(scalars<% for x in inputs %>, cast< << x.compute >> >(memory.x<< x.k >>[offset[<< x.k >>] + stepped<Step::<< x.step >>>(r, layout.step[<< x.k >>])])<% endfor %>);
}
// How many elements of a row of n lie before the first address that a pack may have.
__device__ __forceinline__ index before_packs(const Memory& memory, const index (&offset)[inputs], index n) {
<% if peel %>
    const auto first = (unsigned long long)(memory.x<< packed[0].k >> + offset[<< packed[0].k >>]);
    return minimum(n, index((0 - (first / sizeof(*memory.x<< packed[0].k >>))) % width));
<% else %>
    return 0;
<% endif %>
}
// A thread's rows, and the states of what it has seen of them.
struct Rows {
    const Memory& memory;
    const Layout& layout;
    const Scalars& scalars;
    index inner, head, offset[at_once][inputs];
    Fixed fixed[at_once];
    State a[at_once];

    // The packs e, e + lanes, ... of each row: `unroll` of them, those from `end` on left out where it is guarded. Each call
    // has an `in` of its own: a compiler would keep what one has loaded for the other, which leaves some unset.
    template <bool guarded>
    __device__ __forceinline__ void take(Moving (&in)[at_once][unroll], index e, index end) {
#pragma unroll
        for (int j = 0; j < at_once; ++j)
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                const index at = e + u * lanes;
                if (guarded && at >= end) continue;
                if constexpr (over > 0) {
                    const index inner_packs = inner / width, q = at / inner_packs;
                    index there[inputs];
#pragma unroll
                    for (int k = 0; k < inputs; ++k) there[k] = offset[j][k];
                    layout.advance_outer(there, q);
                    in[j][u].load(memory, layout, there, (at - q * inner_packs) * width);
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
    // The elements from `first` to `end` of row j, one by one.
    __device__ __forceinline__ void take_singly(int j, index first, index end) {
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
    Rows own{memory, layout, scalars, inner, 0};
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
        // Beyond the last row its work is done again, and not stored.
        const index row = minimum(first_row + j * (block / lanes), rows - 1);
#pragma unroll
        for (int k = 0; k < inputs; ++k) own.offset[j][k] = 0;
        layout.advance_kept(own.offset[j], row);
        own.fixed[j].load(memory, own.offset[j]);
        own.a[j] = identity();
    }
    if constexpr (peel) {
        own.head = before_packs(memory, own.offset[0], inner);
        packs = (inner - own.head) / width;
        if (blockIdx.y == 0) own.take_singly(0, lane, own.head);
    }
    const index end = minimum(packs, index(blockIdx.y + 1) * piece);
    index e = index(blockIdx.y) * piece + lane;
    if constexpr (at_once == 1)
        for (; e + (unroll - 1) * lanes < end; e += unroll * lanes) {
            Moving in[at_once][unroll];
            own.take<false>(in, e, end);
        }
    if (at_once > 1 || (!exact && e < end)) {
        Moving in[at_once][unroll];
        own.take<!exact>(in, e, end);
    }
    if (<< "blockIdx.y == gridDim.y - 1" if tail else "false" >>)
#pragma unroll
        for (int j = 0; j < at_once; ++j) own.take_singly(j, own.head + packs * width + lane, inner);
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
        const State total = shared_total(own.a[j]);
        const index row = first_row + j * (block / lanes);
        if (row < rows && lane == 0) out.store(row, total);
    }
}
