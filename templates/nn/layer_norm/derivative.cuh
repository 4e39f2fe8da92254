<# With n = (x - mean) * rstd and g = dy * weight:  dx = (g - mean(g) - n * mean(g * n)) * rstd. #>
<# n, the given cotangents and g of the packs of x and dy; `of`: the row's statistics; of the weight, the pack, or the
   numbers that it was unpacked to. #>
<% macro numbers(x, dy, of, weight=none, unpacked="g", again=false) %>
        acc n[width], given[width], g[width];
        unpack(<< x >>, n<< ", true" if again >>);
        unpack(<< dy >>, given<< ", true" if again >>);
<% if weighted and weight %>
        unpack(<< weight >>, g);
<% endif %>
#pragma unroll
        for (int v = 0; v < width; ++v) {
            n[v] = << of >>.normal(n[v]);
            g[v] = << "%s[v] * given[v]" % unpacked if weighted else "given[v]" >>;
        }
<%- endmacro %>
<% macro derivative(n, g, of, gradient_mean, product_mean) %>
        acc made[width];
#pragma unroll
        for (int v = 0; v < width; ++v)
            made[v] = << "%s * %s.rstd - (%s * (%s * %s.rstd) + %s * %s.rstd)" % (g, of, n, product_mean, of, gradient_mean, of) if half else "(%s - %s - %s * %s) * %s.rstd" % (g, gradient_mean, n, product_mean, of) >>;
<%- endmacro %>
using elem = << elem >>;
using acc = << acc >>;
using index = << index >>;
using Held = Pack<elem, << width >>>;
constexpr int groups = << groups >>, chunks = << chunks >>, threads = << threads >>, width = << width >>, block = << block >>;
<# The sums of g and of g * n, of each row of a turn. #>
<% set sums = 2 * turn %>
<% include "lib/row_sums.cuh" %>
<% include "nn/layer_norm/statistics.cuh" %>
