// Expressions of rows, of reductions along these rows, and of expressions of such reductions, one behind another: x* are
// read once, y* are arrays of the rows' shape or have a number for each row. s* are scalars. << stages | length >> stage(s).
// `rows` rows of `n` elements, which lie along one axis of each array; an array may be broadcast along rows or to rows.
// The rows of << gathers | length >> array(s) are those at the indices i*, clipped to its size, along the first axis.
// Launch: << lanes >> thread(s) share a row, and hold << count >> packs of << width >> elements each of each array in registers. On the
// host (count 0) a thread has << "`each`" >> rows, and reads them again for each stage. The order of values is always the same.
// Shared: the states of warps where a block shares a row.
<% if computed %>
<% include "prelude/math.cuh" %>
<% endif %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% if not count %>
<% if stages | selectattr("twice") | list %>
<% include "reduction/moments.cuh" %>
<% endif %>
<% endif %>
using index = << index >>;
constexpr int lanes = << lanes >>, width = << width >>, count = << count >>;
<% include "lib/strided.cuh" %>
<% if gathers %>
<% include "lib/wrap_index.cuh" %>
<% endif %>
<< Layout >>
<% for stage in stages %>
struct Stage<< loop.index0 >> {
    using T = << stage.value_type >>;
    using A = << stage.accumulator >>;
    using Place = index;
    using State = << stage.row.state >>;
    static __device__ __forceinline__ State identity() { return << stage.row.identity >>; }
    static __device__ __forceinline__ State combine(State a, State b) { return << stage.row.combine >>; }
    static __device__ __forceinline__ State push(State a, T x) { return << stage.row.push >>; }
    template <int N>
    static __device__ __forceinline__ State push_all(State a, const T (&v)[N]) {
<% if stage.row.batch %>
        return << stage.row.batch >>;
<% else %>
        State b = identity();
#pragma unroll
        for (int k = 0; k < N; ++k) b = push(b, v[k]);
        return combine(a, b);
<% endif %>
    }
    static __device__ __forceinline__ << stage.compute >> finish(State a, index count_of_values) {
        const A n = A(count_of_values);
<% if stage.row.parameter %>
        const double p = << stage.parameter >>;
<% endif %>
        return cast< << stage.compute >> >(cast< << stage.result >> >(<< stage.row.finish >>));
    }
};
<% endfor %>
<# What is the same for all elements of a row. #>
<% macro fixed(part) %>
<% for one in part.fixed %>
        << one.type >> a<< one.k >>;
<% endfor %>
<% if part.fixed %>
        {
<% for line in part.before %>
            const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<% for one in part.fixed %>
            a<< one.k >> = << one.value >>;
<% endfor %>
        }
<% endif %>
<%- endmacro %>
<# Where the host keeps a value of element r + k, until what reads it is written there. #>
<% macro kept(one) %>
y<< one.k >>[offset[<< one.at >>] + stepped<Step::<< one.step >>>(r + k, layout.step[<< one.at >>])]
<%- endmacro %>
<# The values of element k of pack u of a thread, or on the host of element r + k. #>
<% macro element(part) %>
<% for one in part.again %>
                const << one.type >> a<< one.number >> = << kept(one) >>;
<% endfor %>
<% for x in inputs if x.k in part.reads %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< "in%d[u].at[k]" % x.k if count else "loaded(x%d[offset[%d] + stepped<Step::%s>(r + k, layout.step[%d])])" % (x.k, x.k, x.step, x.k) >>);
<% endfor %>
<% for line in part.body %>
                const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<%- endmacro %>
<# Begins a loop over the packs of a thread. #>
<% macro packs() %>
#pragma unroll
        for (int u = 0; u < count; ++u) {
            const index r = index(u * lanes + lane) * width;
<% if not full %>
            if (r >= n) continue;
<% endif %>
<%- endmacro %>
<% macro parameters() %>
<% for x in inputs %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for one in indices %>
    const << one.type >>* i<< loop.index0 >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% for y in outputs %>
    << y.type >>*<< "" if count else " __restrict__" >> y<< loop.index0 >>,
<% endfor %>
<%- endmacro %>
<# Begins the rows of a thread. #>
<% macro rows_of_thread() %>
<% if count %>
    const int lane = int(threadIdx.x) % lanes;
    const index own = index(blockIdx.x) * << block // lanes >> + int(threadIdx.x) / lanes;
    {
        const index row = minimum(own, rows - 1);  // beyond the last row it is computed again and not stored
<% else %>
    for (index row = index(blockIdx.x) * each; row < minimum(rows, index(blockIdx.x + 1) * each); ++row) {
<% endif %>
<%- endmacro %>
<# Moves the offsets of gathered rows to these. #>
<% macro gathered() %>
<% for one in indices %>
        const long long at<< loop.index0 >> = i<< loop.index0 >>[offset[<< one.at >>]];
<% endfor %>
<% for k, by in gathers %>
        offset[<< k >>] += index(in_range(at<< by >>, layout.source_size[<< loop.index0 >>])) * layout.source_step[<< loop.index0 >>];
<% endfor %>
<%- endmacro %>
<# The arrays of a row. #>
<% macro loads() %>
<% for x in inputs if x.step == "zero" %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(loaded(x<< x.k >>[offset[<< x.k >>]]));
<% endfor %>
<% if count %>
<% for x in inputs if x.step != "zero" %>
        Pack< << x.type >>, width> in<< x.k >>[count];
<% endfor %>
<< packs() >>
<% for x in inputs if x.step != "zero" %>
            in<< x.k >>[u] = load_pack<width>(x<< x.k >> + (offset[<< x.k >>] + r));
<% endfor %>
        }
<% endif %>
<%- endmacro %>
<# The values of a thread, or on the host of a row, reduced. #>
<% macro accumulated(stage) %>
<% set i = stage.i %>
<< fixed(stage) >>
        Stage<< i >>::State t<< i >> = Stage<< i >>::identity();
<% if count %>
        {
<% if stage.whole %>
        Stage<< i >>::T v[count * width];
<% endif %>
<< packs() >>
<% if not stage.whole %>
            Stage<< i >>::T v[width];
<% endif %>
#pragma unroll
            for (int k = 0; k < width; ++k) {
<< element(stage) >>
                v[<< "u * width + k" if stage.whole else "k" >>] = << stage.value >>;
            }
<% if not stage.whole %>
            t<< i >> = Stage<< i >>::push_all(t<< i >>, v);
<% endif %>
        }
<% if stage.whole %>
        t<< i >> = Stage<< i >>::push_all(t<< i >>, v);
<% endif %>
        }
<% else %>
        {
            const auto value_at = [&](index r, int k) -> Stage<< i >>::T {
<< element(stage) >>
<% if stage.kept %>
                << kept(stage.kept) >> = << stage.value >>;
<% endif %>
                return << stage.value >>;
            };
<% if stage.twice %>
            t<< i >> = moments_of<Stage<< i >>::A, width>(index(0), n, [&](index r) { return value_at(r, 0); });
<% else %>
            index r = 0;
<% if stage.row.batch %>
            for (; r + width - 1 < n; r += width) {
                Stage<< i >>::T v[width];
                over_pack<width>([&](int k) { v[k] = value_at(r, k); });
                t<< i >> = Stage<< i >>::push_all(t<< i >>, v);
            }
<% else %>
            Stage<< i >>::State parts[width];
            for (int k = 0; k < width; ++k) parts[k] = Stage<< i >>::identity();
            const auto push_at = [&](Stage<< i >>::State state, index r) { return Stage<< i >>::push(state, value_at(r, 0)); };
<% if "(" not in stage.body | map(attribute="code") | join %>
            r = pushed<4>(parts, r, n, push_at);
<% endif %>
            r = pushed<1>(parts, r, n, push_at);
<% endif %>
            for (; r < n; ++r) t<< i >> = Stage<< i >>::push(t<< i >>, value_at(r, 0));
<% if not stage.row.batch %>
            t<< i >> = Stage<< i >>::combine(t<< i >>, by_halves<width>(parts, Stage<< i >>::combine));
<% endif %>
<% endif %>
        }
<% endif %>
<%- endmacro %>
<# Reductions that do not read each other, for all threads of the row, which wait for each other once. #>
<% macro reduced(level) %>
<% for stage in level if stage.mean_of is none %>
<< accumulated(stage) >>
<% endfor %>
<% if count %>
<% for i in level | map(attribute="i") %>
#pragma unroll
        for (int distance = << [lanes, 32] | min // 2 >>; distance > 0; distance /= 2) t<< i >> = Stage<< i >>::combine(t<< i >>, shuffle_xor(t<< i >>, distance));
<% endfor %>
<% if lanes > 32 %>
<% for i in level | map(attribute="i") %>
        __shared__ Stage<< i >>::State of_warp<< i >>[<< lanes // 32 >>];
        if (threadIdx.x % 32 == 0) of_warp<< i >>[threadIdx.x / 32] = t<< i >>;
<% endfor %>
        __syncthreads();
<% for i in level | map(attribute="i") %>
        t<< i >> = of_warp<< i >>[threadIdx.x % << lanes // 32 >>];
#pragma unroll
        for (int distance = << lanes // 64 >>; distance > 0; distance /= 2) t<< i >> = Stage<< i >>::combine(t<< i >>, shuffle_xor(t<< i >>, distance));
<% endfor %>
<% endif %>
<% endif %>
<% for stage in level %>
<% if stage.mean_of is none %>
        const << stage.compute >> a<< stage.number >> = Stage<< stage.i >>::finish(t<< stage.i >>, n);
<% else %>
        const << stage.compute >> a<< stage.number >> = cast< << stage.compute >> >(cast< << stage.result >> >(t<< stage.mean_of >>.mean));
<% endif %>
<% endfor %>
<%- endmacro %>
<# What is stored. #>
<% macro results() %>
<< fixed(ends) >>
<% for y in outputs if not y.wide %>
        << "if (lane == 0 && own < rows) " if count >>y<< y.k >>[offset[<< y.at >>]] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
<% set wide = outputs | selectattr("wide") | list %>
<% if wide and count %>
<< packs() >>
<% for y in wide %>
            Pack< << y.type >>, width> to<< y.k >>;
<% endfor %>
#pragma unroll
            for (int k = 0; k < width; ++k) {
<< element(ends) >>
<% for y in wide %>
                to<< y.k >>.at[k] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
            }
<% for y in wide %>
            if (own < rows) store_pack(y<< y.k >> + (offset[<< y.at >>] + r), to<< y.k >>);
<% endfor %>
        }
<% elif wide %>
        for (index r = 0; r < n; ++r) {
            constexpr int k = 0;
<< element(ends) >>
<% for y in wide %>
            y<< y.k >>[offset[<< y.at >>] + stepped<Step::<< y.step >>>(r, layout.step[<< y.at >>])] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
        }
<% endif %>
<%- endmacro %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    Layout layout, index rows, index n, index each)
{
<< rows_of_thread() >>
        index offset[<< arrays >>] = {};
        advance(offset, row, layout.kept_shape, layout.kept_step);
<< gathered() >>
<< loads() >>
<% for level in levels %>
<< reduced(level) >>
<% endfor %>
<< results() >>
    }
}
