// y[i, c] = the << reduction.name >> over e of f(x0[i, e, c], x1[i, e, c], ...), for the threads of a GPU, where neighbouring
// results read neighbouring elements. Inputs x* of any strides, scalars s*, output y (rows, columns) in C order.
// Launch: a block has << across >> threads side by side, each for << width >> columns (a pack), and << down >> threads one below
// the other, that share the reduced places; a thread loads << unroll >> packs of each input before it computes. blockIdx.x
// numbers the columns' tiles of every row, blockIdx.y the pieces of `piece` reduced places; the stage "partial" leaves a
// state for each in `parts` (rows, columns, pieces). Shared: the block's states. The order of values is always the same.
<% from "reduction/reduce.cuh" import parameters, results, store, steps, computed, states with context %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% set U, W = unroll, width %>
<# An input is read as packs, or an element at a time where all columns have the same one; once, if every place has. #>
<% set once = [] if over else inputs | selectattr("step", "equalto", "zero") | list %>
<% set often = inputs if over else inputs | rejectattr("step", "equalto", "zero") | list %>
<% set batch = reduction.batch %>
<% macro fetch(x, to, at) %>
<% if x.column == "zero" %>
                << to >> = x<< x.k >>[<< at >>];
<% else %>
                << to >> = load_pack< << W >> >(x<< x.k >> + (<< at >>));
<% endif %>
<%- endmacro %>
<% macro round(guarded) %>
<% for x in often %>
            << x.type if x.column == "zero" else "Pack<%s, %d>" % (x.type, W) >> p<< x.k >>[<< U >>];
<% endfor %>
#pragma unroll
            for (int u = 0; u < << U >>; ++u) {
                const index at = e + u * << down >>;
                << "if (at >= end) continue;" if guarded >>
<% if over %>
                const index q = at / inner, r = at - q * inner;
<% for x in inputs %>
                index w<< x.k >> = o<< x.k >><< {"unit": " + r", "zero": "", "any": " + r * layout.step[%d]" % x.k}[x.step] >>;
<% endfor %>
<< steps("q", "q", over, "w", "outer", "outer_shape") >>
<% endif %>
<% for x in often %>
<< fetch(x, "p%d[u]" % x.k, "w%d" % x.k if over else "o%d + at" % x.k if x.step == "unit" else "o%d + at * layout.step[%d]" % (x.k, x.k)) >>
<% endfor %>
            }
#pragma unroll
            for (int k = 0; k < << W >>; ++k) {
<% if batch and not guarded %>
                T v[<< U >>];
<% else %>
                State b = identity();
<% endif %>
#pragma unroll
                for (int u = 0; u < << U >>; ++u) {
                    << "if (e + u * %d >= end) continue;" % down if guarded >>
<% for x in often %>
                    const << x.compute >> a<< x.k >> = cast< << x.compute >> >(p<< x.k >>[u]<< ".at[k]" if x.column != "zero" >>);
<% endfor %>
<% for x in once %>
                    const << x.compute >> a<< x.k >> = cast< << x.compute >> >(c<< x.k >><< ".at[k]" if x.column != "zero" >>);
<% endfor %>
<< computed() >>
<% if batch and not guarded %>
                    v[u] = << value >>;
<% else %>
                    b = push(b, << value >>, Place(e + u * << down >>));
<% endif %>
                }
<% if batch and not guarded %>
                a[k] = push_all(a[k], v, Place(e), Place(<< down >>));
<% else %>
                a[k] = combine(a[k], b);
<% endif %>
            }
<%- endmacro %>
<< states(true) >>

// Sizes of the kept axes but the columns and of the outer reduced ones; steps of the inputs along all of them.
struct Layout {
    << index >> << "kept_shape[%d], kept[%d][%d], " % (kept, inputs | length, kept) if kept >><< "outer_shape[%d], outer[%d][%d], " % (over, inputs | length, over) if over >>step[<< inputs | length >>], column[<< inputs | length >>];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, << index >> columns, << index >> tiles, << index >> inner, << index >> places, << index >> piece)
{
    using index = << index >>;
    const int left = int(threadIdx.x) % << across >>, above = int(threadIdx.x) / << across >>;
    const index row = index(blockIdx.x) / tiles;
    const index first_column = (index(blockIdx.x) - row * tiles) * << across * W >>;
    // Beyond the last column its work is done again, and not stored.
    const index column = minimum(first_column + left * << W >>, index(columns - << W >>));
<% for x in inputs %>
    index o<< x.k >> = << {"unit": "column", "zero": "0", "any": "column * layout.column[%d]" % x.k}[x.column] >>;
<% endfor %>
<% if kept %>
<< steps("row", "row", kept, "o", "kept", "kept_shape") >>
<% endif %>
<% for x in once %>
    << x.type if x.column == "zero" else "Pack<%s, %d>" % (x.type, W) >> c<< x.k >>;
<< fetch(x, "c%d" % x.k, "o%d" % x.k) >>
<% endfor %>
    State a[<< W >>];
#pragma unroll
    for (int k = 0; k < << W >>; ++k) a[k] = identity();
    const index end = minimum(places, index(blockIdx.y + 1) * piece);
    index e = << "above < %d ? index(blockIdx.y) * piece + above : end" % down if across * down < block else "index(blockIdx.y) * piece + above" >>;
    for (; e + << (U - 1) * down >> < end; e += << U * down >>) {
<< round(false) >>
    }
    if (e < end) {
<< round(true) >>
    }
<% if down > 1 %>
    __shared__ State of_thread[<< block * W >>];
#pragma unroll
    for (int k = 0; k < << W >>; ++k) of_thread[threadIdx.x * << W >> + k] = a[k];
    __syncthreads();
    for (int c = threadIdx.x; c < << across * W >>; c += << block >>) {
        State total = of_thread[c];
#pragma unroll
        for (int d = 1; d < << down >>; ++d) total = combine(total, of_thread[d * << across * W >> + c]);
        if (first_column + c < columns) << store("row * columns + first_column + c", "total") >>
    }
<% else %>
    if (<< "above == 0 && " if across * down < block >>first_column + left * << W >> < columns)
#pragma unroll
        for (int k = 0; k < << W >>; ++k) << store("row * columns + column + k", "a[k]") >>
<% endif %>
}
