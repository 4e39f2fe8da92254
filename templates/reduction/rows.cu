// y[i] = the << reduction.name >> over e of f(x0[i, e], x1[i, e], ...), i over `rows` kept elements in C order, for the
// threads of a GPU. The reduced elements are walked along the inner axis, << width >> at a time: a pack.
// Inputs x* of any strides, scalars s*, output y (rows). Launch: << lanes >> threads share a row (a power of two up to 32, or
// the block) and << rows_at_once >> row(s) at once; a thread loads << unroll >> pack(s) of each before it computes. blockIdx.y
// numbers the pieces of `piece` packs that a row is cut into; the stage "partial" leaves a state for each in `parts`
// (rows, pieces). Shared: a state a warp where the block shares a row. The order of values is the same every time.
<% from "reduction/reduce.cuh" import parameters, results, store, steps, computed, states, shared_total with context %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% set R, U, W = rows_at_once, unroll, width %>
<% set packed = inputs | selectattr("step", "equalto", "unit") | list %>
<% set single = inputs | selectattr("step", "equalto", "any") | list %>
<% set same = inputs | selectattr("step", "equalto", "zero") | list %>
<% if over %>
<% set single = single + same %>
<% set same = [] %>
<% endif %>
<% set batch = reduction.batch %>
<% set by_round = batch and ((W == 1 or not reduction.ordered) and rounded) %>
<# The packs of a round, those from `end` on left out where it is guarded. #>
<% macro fetch(guarded) %>
<% for x in packed %>
            Pack< << x.type >>, << W >>> p<< x.k >>[<< R * U >>];
<% endfor %>
<% for x in single %>
            << x.type >> g<< x.k >>[<< R * U >>];
<% endfor %>
<% if packed or single %>
#pragma unroll
            for (int j = 0; j < << R >>; ++j) {
#pragma unroll
                for (int u = 0; u < << U >>; ++u) {
                    const index at = e + u * << lanes >>;
                    << "if (at >= end) continue;" if guarded >>
<% if over %>
                    const index q = at / inner_packs, r = (at - q * inner_packs) * << W >>;
<% for x in inputs %>
                    index w<< x.k >> = o<< x.k >>[j];
<% endfor %>
<< steps("q", "q", over, "w", "outer", "outer_shape") >>
<% else %>
                    const index r = at * << W >><< " + head" if peel >>;
<% endif %>
<% for x in packed %>
                    p<< x.k >>[j * << U >> + u] = load_pack< << W >> >(x<< x.k >> + (<< "w%d" % x.k if over else "o%d[j]" % x.k >> + r));
<% endfor %>
<% for x in single %>
                    g<< x.k >>[j * << U >> + u] = x<< x.k >>[<< "w%d" % x.k if over else "o%d[j]" % x.k >><< " + r * layout.step[%d]" % x.k if x.step == "any" >>];
<% endfor %>
                }
            }
<% endif %>
<%- endmacro %>
<# The value of element k of pack u of row j. #>
<% macro value_of() %>
<% for x in packed %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(p<< x.k >>[j * << U >> + u].at[k]);
<% endfor %>
<% for x in single %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(g<< x.k >>[j * << U >> + u]);
<% endfor %>
<% for x in same %>
                const << x.compute >> a<< x.k >> = c<< x.k >>[j];
<% endfor %>
<< computed() >>
<%- endmacro %>
<% macro gather(guarded) %>
<< fetch(guarded) >>
#pragma unroll
            for (int j = 0; j < << R >>; ++j) {
<% if by_round and not guarded %>
                T v[<< U * W >>];
<% elif not batch %>
                State b = identity();
<% endif %>
#pragma unroll
                for (int u = 0; u < << U >>; ++u) {
                    const index at = e + u * << lanes >>;
                    << "if (at >= end) continue;" if guarded >>
<% if batch and not (by_round and not guarded) %>
                    T v[<< W >>];
<% endif %>
#pragma unroll
                    for (int k = 0; k < << W >>; ++k) {
<< value_of() >>
<% if by_round and not guarded %>
                        v[u * << W >> + k] = << value >>;
<% elif batch %>
                        v[k] = << value >>;
<% else %>
                        b = push(b, << value >>, Place(at * << W >> + k<< " + head" if peel >>));
<% endif %>
                    }
<% if batch and not (by_round and not guarded) %>
                    a[j] = push_all(a[j], v, Place(at * << W >><< " + head" if peel >>), Place(1));
<% endif %>
                }
<% if by_round and not guarded %>
                a[j] = push_all(a[j], v, Place(e), Place(<< lanes >>));
<% elif not batch %>
                a[j] = combine(a[j], b);
<% endif %>
            }
<%- endmacro %>
<# The elements from `first` to `limit`, one by one. #>
<% macro ends(first, limit, j) %>
            for (index r = << first >>lane; r < << limit >>; r += << lanes >>) {
<% for x in inputs %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[o<< x.k >>[<< j >>]<< {"unit": " + r", "zero": "", "any": " + r * layout.step[%d]" % x.k}[x.step] >>]);
<% endfor %>
<< computed() >>
                a[<< j >>] = push(a[<< j >>], << value >>, Place(r));
            }
<%- endmacro %>
<< states(true) >>

// Sizes of the kept axes and of the outer reduced ones; steps of the inputs along them and along the inner one.
struct Layout {
    << index >> << "kept_shape[%d], kept[%d][%d], " % (kept, inputs | length, kept) if kept >><< "outer_shape[%d], outer[%d][%d], " % (over, inputs | length, over) if over >>step[<< inputs | length >>];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, << index >> rows, << index >> inner, << index >> packs, << index >> piece)
{
    using index = << index >>;
    const int lane = int(threadIdx.x) % << lanes >>;
    const index first_row = index(blockIdx.x) * << block // lanes * R >> + int(threadIdx.x) / << lanes >>;
<% if lanes > 32 %>
    __shared__ State of_warp[<< lanes // 32 >>];
<% endif %>
<% if over %>
    const index inner_packs = inner / << W >>;
<% endif %>
<% for x in inputs %>
    index o<< x.k >>[<< R >>];
<% endfor %>
<% for x in same %>
    << x.compute >> c<< x.k >>[<< R >>];
<% endfor %>
    State a[<< R >>];
#pragma unroll
    for (int j = 0; j < << R >>; ++j) {
        // Beyond the last row its work is done again, and not stored.
        const index row = minimum(first_row + j * << block // lanes >>, rows - 1);
<% for x in inputs %>
        index w<< x.k >> = 0;
<% endfor %>
<% if kept %>
<< steps("row", "row", kept, "w", "kept", "kept_shape") >>
<% endif %>
<% for x in inputs %>
        o<< x.k >>[j] = w<< x.k >>;
<% endfor %>
<% for x in same %>
        c<< x.k >>[j] = cast< << x.compute >> >(x<< x.k >>[w<< x.k >>]);
<% endfor %>
        a[j] = identity();
    }
<% if peel %>
    // The elements of the row before the first address that a pack may have.
    const index head = minimum(inner, index((0 - ((unsigned long long)(x<< packed[0].k >> + o<< packed[0].k >>[0]) / sizeof(*x<< packed[0].k >>))) % << W >>));
    const index own_packs = (inner - head) / << W >>;
    if (blockIdx.y == 0) {
<< ends("", "head", 0) >>
    }
<% endif %>
    const index end = minimum(<< "own_packs" if peel else "packs" >>, index(blockIdx.y + 1) * piece);
    index e = index(blockIdx.y) * piece + lane;
<% if R == 1 %>
    for (; e + << (U - 1) * lanes >> < end; e += << U * lanes >>) {
<< gather(false) >>
    }
<% if not exact %>
    if (e < end) {
<< gather(true) >>
    }
<% endif %>
<% else %>
    {
<< gather(not exact) >>
    }
<% endif %>
<% if tail %>
    if (blockIdx.y == gridDim.y - 1) {
#pragma unroll
        for (int j = 0; j < << R >>; ++j) {
<< ends("%s * %d + " % ("head + own_packs" if peel else "packs", W), "inner", "j") >>
        }
    }
<% endif %>
#pragma unroll
    for (int j = 0; j < << R >>; ++j) {
        State total = a[j];
<< shared_total() >>
        const index row = first_row + j * << block // lanes >>;
        if (row < rows<< " && lane == 0" if lanes > 1 >>) << store("row", "total") >>
    }
}
