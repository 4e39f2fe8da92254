// What the elementwise kernels of a GPU share: elements moved several at a time, indices taken apart without divisions,
// and the parts of a kernel that do not depend on how its threads share the work.
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
<%- endmacro %>
<# The memory of an input or output. #>
<% macro memory(x) %><< "y%d" % (x.k - inputs | length) if x.k >= inputs | length else "y0" if x.inplace else "x%d" % x.k >><% endmacro %>
<# Inputs that are one element. #>
<% macro constants() %>
<% for x in inputs if x.place == "one" %>
    const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< memory(x) >>[0]);
<% endfor %>
<%- endmacro %>
<# What is computed of an element, once a0, a1, ... are its inputs. #>
<% macro computed() %>
<% for line in body %>
                const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<%- endmacro %>

<% if streaming %>
<% include "prelude/streaming.cuh" %>
<% endif %>
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
    T at[N];
};
// N elements as the one access that they are.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load(const T* at) {
    return *reinterpret_cast<const Pack<T, N>*>(at);
}
template <typename T, int N>
__device__ __forceinline__ void store(T* at, Pack<T, N> pack) {
    << "store_streaming(reinterpret_cast<Pack<T, N>*>(at), pack)" if streaming else "*reinterpret_cast<Pack<T, N>*>(at) = pack" >>;
}

// A divisor of numbers below 2^31, as a factor and a shift. Source: Granlund and Montgomery, "Division by invariant
// integers using multiplication", 1994.
struct Divisor {
    unsigned int n, factor, shift;
};
__device__ __forceinline__ unsigned int quotient(unsigned int i, Divisor by) {
    return ((unsigned int)((unsigned long long)i * by.factor >> 32) + i) >> by.shift;
}
__device__ __forceinline__ long long quotient(long long i, long long by) { return i / by; }
__device__ __forceinline__ int size_of(Divisor by) { return int(by.n); }
__device__ __forceinline__ long long size_of(long long by) { return by; }
