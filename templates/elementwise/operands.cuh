// Common to the elementwise kernels of a GPU: the memory of a program's operands, and the expression as a function
// of one element of each input. An input is "one" where it is a single element; `inplace` names the output whose memory it is.
// `totals` are values that a kernel sums instead of storing them, in t0, t1, ...
<% macro parameters() %>
<% for x in inputs if not x.inplace %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% for y in outputs %>
    << y.type >>* y<< loop.index0 >>,
<% endfor %>
<% for t in totals %>
    << t.type >>* t<< loop.index0 >>,
<% endfor %>
<%- endmacro %>
<# The members of Memory and Same, in a kernel. #>
<% macro memory() %><% for x in inputs %><< x.inplace or "x%d" % x.k >>, <% endfor %><% for y in outputs %>y<< loop.index0 >>, <% endfor %><% for t in totals %>t<< loop.index0 >>, <% endfor %><% endmacro %>
<% macro same() %><% for x in inputs if x.access == "one" %>cast< << x.compute >> >(memory.x<< x.k >>[0]), <% endfor %><% for type in scalars %>s<< loop.index0 >>, <% endfor %><% endmacro %>

<% include "lib/pack.cuh" %>
<% if streaming %>
<% include "prelude/streaming.cuh" %>
<% endif %>
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load(const T* from) {
    return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <typename T, int N>
__device__ __forceinline__ void store(T* to, const Pack<T, N>& pack) {
    << "store_streaming(reinterpret_cast<Pack<T, N>*>(to), pack)" if streaming else "store_pack(to, pack)" >>;
}

// A divisor of numbers below 2^31, as a factor and a shift. Source: Granlund and Montgomery, "Division by invariant
// integers using multiplication", 1994.
<< Divisor >>
__device__ __forceinline__ unsigned int quotient(unsigned int i, Divisor by) {
    return ((unsigned int)((unsigned long long)i * by.factor >> 32) + i) >> by.shift;
}
__device__ __forceinline__ long long quotient(long long i, long long by) { return i / by; }
__device__ __forceinline__ int size_of(Divisor by) { return int(by.n); }
__device__ __forceinline__ long long size_of(long long by) { return by; }

// The inputs and outputs in memory, and the layout of those that need one.
struct Layout;
struct Memory {
<% for x in inputs %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
<% for y in outputs %>
    << y.type >>* y<< loop.index0 >>;
<% endfor %>
<% for t in totals %>
    << t.type >>* t<< loop.index0 >>;
<% endfor %>
    const Layout& layout;
};
// What is the same for all elements: inputs of one element, and numbers.
struct Same {
<% for x in inputs if x.access == "one" %>
    << x.compute >> a<< x.k >>;
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>;
<% endfor %>
};
// One element of each output and total.
struct Values {
<% for y in outputs %>
    << y.type >> y<< loop.index0 >>;
<% endfor %>
<% for t in totals %>
    << t.compute >> t<< loop.index0 >>;
<% endfor %>
};
__device__ __forceinline__ Values expression(const Same& same<% for x in inputs if x.access != "one" %>, << x.compute >> a<< x.k >><% endfor %>) {
<% for x in inputs if x.access == "one" %>
    const << x.compute >> a<< x.k >> = same.a<< x.k >>;
<% endfor %>
<% for type in scalars %>
    const auto s<< loop.index0 >> = same.s<< loop.index0 >>;
<% endfor %>
<% for line in body %>
    const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
    return {<% for y in outputs %>cast< << y.type >> >(<< y.value >>), <% endfor %><% for t in totals %>cast< << t.compute >> >(<< t.value >>), <% endfor %>};
}
