// y[i, j] = f(x0[i, j], x1[i, j], ...) on the host, j < length: for lines of few elements, which fill no vector. Loops over the elements
// of `together` lines become loops of vectors: inputs that do not lie in memory as the outputs do are first written to buffers
// that do. Those are the `staged` ones: "each" of their lines is, or "once" the one line that all have.
// Inputs x* that step by layout.stride from line to line and by layout.step in a line (one that is written in place is an output),
// scalars s*, outputs y* in C order.
// Launch: a thread owns `piece` lines. No shared memory.
// `quick`: elements are made by a quick expression, and again if one is NaN.
<% include "prelude/math.cuh" %>
<% set quick = tile and not masks %>
<% set staged = inputs | selectattr("staged") | list %>
<% macro element(quick=false) %>
<% for x in inputs %>
            const << x.compute >> a<< x.k >> = << "b%d[k]" % x.k if x.staged else "cast<%s>(loaded(%s[first + k]))" % (x.compute, x.inplace or "x%d" % x.k) >>;
<% endfor %>
<% for line in body %>
            const << line.type >> << line.name >> = << line.quick if quick and line.quick else line.code >>;
<% endfor %>
<% for y in outputs %>
            y<< loop.index0 >>[first + k] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
<%- endmacro %>
<# The elements of `count` lines from `line` on, of an input. #>
<% macro stage(x, line, count) %>
        for (int i = 0; i < << count >>; ++i) {
            const << x.type >>* const from = x<< x.k >> + << line >> * layout.stride[<< x.k >>];
<% if x.step == "zero" %>
            const << x.compute >> value = cast< << x.compute >> >(loaded(*from));
<% endif %>
            for (int j = 0; j < length; ++j)
                b<< x.k >>[i * length + j] = << "value" if x.step == "zero" else "cast<%s>(loaded(from[j%s]))" % (x.compute, "" if x.step == "unit" else " * layout.step[%d]" % x.k) >>;
        }
<%- endmacro %>
<% macro parameters() %>
<% for x in inputs if not x.inplace %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% for y in outputs %>
    << y.type >>* __restrict__ y<< loop.index0 >>,
<% endfor %>
    Layout layout, << index >> lines, << index >> piece
<%- endmacro %>
<# Buffers of the inputs, those filled that are the same in all lines. #>
<% macro buffers() %>
<% if quick and "signs" in body | map(attribute="quick") | join %>
    const auto signs = complex_parts::signs<< "<%s>" % (body | selectattr("quick") | first).type >>();
<% endif %>
<% for x in staged %>
    << x.compute >> b<< x.k >>[together * length];
<% endfor %>
<% for x in staged if x.staged == "once" %>
<< stage(x, "0", "together") >>
<% endfor %>
<%- endmacro %>
<% macro fill() %>
<% for x in staged if x.staged == "each" %>
<< stage(x, "(line + i)", "some") >>
<% endfor %>
<%- endmacro %>
<% macro quickly() %>
        if (some == together) {
            for (int k = 0; k < together * length; ++k) {
<< element(quick=true) >>
            }
            if (!any_nan<together * length>(&y0[first])) continue;
        }
<%- endmacro %>

// Steps of the operands, inputs first, in elements.
<< Layout >>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>)
{
    using index = << index >>;
    constexpr int length = << length >>, together = << together >>;  // elements of a line, and lines
    const index start = (index(blockIdx.x) * << block >> + index(threadIdx.x)) * piece, end = minimum(lines, start + piece);
<< buffers() >>
    for (index line = start; line < end; line += together) {
        const int some = int(minimum(index(together), end - line));
        const index first = line * length;
<< fill() >>
<< quickly() if quick >>
        for (int k = 0; k < some * length; ++k) {
<< element() >>
        }
    }
}
