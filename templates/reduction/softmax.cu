// y = << kind >> along an axis of `n` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. Arrays of any strides; the `rows` other places are numbered in C order.
// Launch: << lanes >> threads share a row (a power of two up to 32, or the block); such a group owns `rows_piece` tasks.
// A task is << tile >> neighbouring row(s). A thread keeps << keep >> places of the row in registers; 0: it reads again.
// Shared: a number a warp where the block shares a row. No barrier where one thread has a row to itself.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% set forward = not kind.endswith("_vjp") %>
<% set logs = kind.startswith("log") %>
<% macro at(k, r, c) -%>
o<< k >><< {"unit": " + " ~ r, "zero": "", "any": " + " ~ r ~ " * layout.step[" ~ k ~ "]"}[steps[k]] >>
<%- if c %><< {"unit": " + " ~ c, "zero": "", "any": " + " ~ c ~ " * layout.column[" ~ k ~ "]"}[columns[k]] >><% endif %>
<%- endmacro %>
<% macro load(k, r, c="") -%>
cast<A>(x<< k >>[<< at(k, r, c) >>])
<%- endmacro %>
<% macro share(value, combine) %>
<% if lanes > 1 %>
#pragma unroll
        for (int distance = << [lanes, 32] | min // 2 >>; distance > 0; distance /= 2)
            << value >> = << combine % (value, "shuffle_xor(%s, distance)" % value) >>;
<% endif %>
<% if lanes > 32 %>
        __syncthreads();
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = << value >>;
        __syncthreads();
        << value >> = of_warp[0];
        for (int warp = 1; warp < << block // 32 >>; ++warp) << value >> = << combine % (value, "of_warp[warp]") >>;
<% endif %>
<% endmacro %>
<% macro result(r, c, peak, total, known="") -%>
<% if forward %>
<% if logs %>
(<< load(0, r, c) if not known else known ~ "0" >> - << peak >>) - << total >>
<%- else %>
exp(<< load(0, r, c) if not known else known ~ "0" >> - << peak >>) / << total >>
<%- endif %>
<% else %>
<% set g, y = (known ~ "0", known ~ "1") if known else (load(0, r, c), load(1, r, c)) %>
<< g ~ " - exp(" ~ y ~ ") * " ~ total if logs else y ~ " * (" ~ g ~ " - " ~ total ~ ")" >>
<%- endif %>
<%- endmacro %>
<% macro term(r, c, peak, known="") -%>
<% if forward -%>
exp(<< load(0, r, c) if not known else known ~ "0" >> - << peak >>)
<%- else -%>
<% set g, y = (known ~ "0", known ~ "1") if known else (load(0, r, c), load(1, r, c)) -%>
<< g if logs else g ~ " * " ~ y >>
<%- endif %>
<%- endmacro %>
using T = << elem >>;
using A = << acc >>;
using W = << total >>;

// Sizes of the kept axes; steps of the arrays, the output last, along them, along the axis and along the last kept one.
struct Layout {
    << index >> << "kept_shape[%d], kept[%d][%d], " % (kept, arrays, kept) if kept >>step[<< arrays >>], column[<< arrays >>];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% for k in range(arrays - 1) %>
    const T* x<< k >>,
<% endfor %>
    T* y, Layout layout, << index >> n, << index >> columns, << index >> tiles, << index >> tasks, << index >> rows_piece)
{
    using index = << index >>;
    const index group = (index(blockIdx.x) * << block >> + index(threadIdx.x)) / << lanes >>;
    const index lane = index(threadIdx.x) % << lanes >>;
<% set out = arrays - 1 %>
<% if lanes > 32 %>
    __shared__ A of_warp[<< block // 32 >>];
<% endif %>
    for (index task = group * rows_piece; task < (group + 1) * rows_piece; ++task) {
<% if lanes == 1 %>
        if (task >= tasks) break;
        const bool live = true;
<% else %>
        const bool live = task < tasks;
<% endif %>
        index row = live ? task : 0;
<% if tile > 1 %>
        const index first = row % tiles * << tile >>;
        const index width = minimum(index(<< tile >>), columns - first);
        row /= tiles;
<% endif %>
<% for k in range(arrays) %>
        index o<< k >> = << "first * layout.column[%d]" % k if tile > 1 else 0 >>;
<% endfor %>
<% for axis in range(kept - 1, -1, -1) %>
<% for k in range(arrays) %>
        o<< k >> += row<< " % layout.kept_shape[" ~ axis ~ "]" if axis >> * layout.kept[<< k >>][<< axis >>];
<% endfor %>
<% if axis %>
        row /= layout.kept_shape[<< axis >>];
<% endif %>
<% endfor %>
<% if tile > 1 %>
        A peak[<< tile >>];
        W total[<< tile >>];
        for (index c = 0; c < width; ++c) {
            peak[c] = limits<A>::lowest();
            total[c] = W(0);
        }
<% if forward %>
        for (index r = 0; r < n; ++r)
            for (index c = 0; c < width; ++c) peak[c] = maximum(peak[c], << load(0, "r", "c") >>);
<% endif %>
        for (index start = 0; start < n; start += 1024) {
            const index end = minimum(n, start + 1024);
            A part[<< tile >>];
            for (index c = 0; c < width; ++c) part[c] = A(0);
            for (index r = start; r < end; ++r)
                for (index c = 0; c < width; ++c) {
                    const A e = << term("r", "c", "peak[c]") >>;
                    part[c] += e;
<% if stored %>
                    y[<< at(out, "r", "c") >>] = cast<T>(e);
<% endif %>
                }
            for (index c = 0; c < width; ++c) total[c] += W(part[c]);
        }
        A whole[<< tile >>];
        for (index c = 0; c < width; ++c) whole[c] = << "A(log(total[c]))" if forward and logs else "A(total[c])" >>;
        for (index r = 0; r < n; ++r)
            for (index c = 0; c < width; ++c)
<% if stored %>
                y[<< at(out, "r", "c") >>] = cast<T>(cast<A>(y[<< at(out, "r", "c") >>]) / whole[c]);
<% else %>
                y[<< at(out, "r", "c") >>] = cast<T>(<< result("r", "c", "peak[c]", "whole[c]") | trim >>);
<% endif %>
<% elif keep %>
<% for k in range(arrays - 1) %>
        A v<< k >>[<< keep >>];
<% endfor %>
#pragma unroll
        for (int u = 0; u < << keep >>; ++u) {
            const index r = lane + u * << lanes >>;
<% for k in range(arrays - 1) %>
            v<< k >>[u] = r < n ? << load(k, "r") >> : << "limits<A>::lowest()" if forward else "A(0)" >>;
<% endfor %>
        }
<% if forward %>
        A peak = v0[0];
#pragma unroll
        for (int u = 1; u < << keep >>; ++u) peak = maximum(peak, v0[u]);
<< share("peak", "maximum(%s, %s)") >>
<% endif %>
        A total = A(0);
#pragma unroll
        for (int u = 0; u < << keep >>; ++u) {
<% if forward %>
            const A e = exp(v0[u] - peak);
            total += lane + u * << lanes >> < n ? e : A(0);
<% if not logs %>
            v0[u] = e;
<% endif %>
<% else %>
            total += << "v0[u]" if logs else "v0[u] * v1[u]" >>;
<% endif %>
        }
<< share("total", "%s + %s") >>
<% if forward and logs %>
        total = log(total);
<% endif %>
#pragma unroll
        for (int u = 0; u < << keep >>; ++u) {
            const index r = lane + u * << lanes >>;
<% if forward and not logs %>
            if (live && r < n) y[<< at(out, "r", "") >>] = cast<T>(v0[u] / total);
<% else %>
            const A w0 = v0[u]<< "" if forward else ", w1 = v1[u]" >>;
            if (live && r < n) y[<< at(out, "r", "") >>] = cast<T>(<< result("r", "", "peak", "total", "w") | trim >>);
<% endif %>
        }
<% else %>
        A part[<< unroll >>];
<% set place = "(r + u * %d)" % lanes %>
        index r = lane;
<% if forward %>
        for (int u = 0; u < << unroll >>; ++u) part[u] = limits<A>::lowest();
        for (; r + << (unroll - 1) * lanes >> < n; r += << unroll * lanes >>)
#pragma unroll
            for (int u = 0; u < << unroll >>; ++u) part[u] = maximum(part[u], << load(0, place) >>);
        for (; r < n; r += << lanes >>) part[0] = maximum(part[0], << load(0, "r") >>);
        A peak = part[0];
        for (int u = 1; u < << unroll >>; ++u) peak = maximum(peak, part[u]);
<< share("peak", "maximum(%s, %s)") >>
<% endif %>
        W sum = W(0);
        for (r = lane; r < n;) {
            const index end = minimum(n, r + << 4096 * lanes >>);
            for (int u = 0; u < << unroll >>; ++u) part[u] = A(0);
            for (; r + << (unroll - 1) * lanes >> < end; r += << unroll * lanes >>)
#pragma unroll
                for (int u = 0; u < << unroll >>; ++u) {
                    const A e = << term(place, "", "peak") >>;
                    part[u] += e;
<% if stored %>
                    y[<< at(out, place, "") >>] = cast<T>(e);
<% endif %>
                }
            for (; r < end; r += << lanes >>) {
                const A e = << term("r", "", "peak") >>;
                part[0] += e;
<% if stored %>
                y[<< at(out, "r", "") >>] = cast<T>(e);
<% endif %>
            }
            for (int u = 0; u < << unroll >>; ++u) sum += W(part[u]);
        }
        A total = A(sum);
<< share("total", "%s + %s") >>
<% if forward and logs %>
        total = log(total);
<% endif %>
        for (r = lane; live && r < n; r += << lanes >>)
<% if stored %>
            y[<< at(out, "r", "") >>] = cast<T>(cast<A>(y[<< at(out, "r", "") >>]) / total);
<% else %>
            y[<< at(out, "r", "") >>] = cast<T>(<< result("r", "", "peak", "total") | trim >>);
<% endif %>
<% endif %>
    }
}
