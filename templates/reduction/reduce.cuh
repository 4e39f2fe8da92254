// What the kernels of reductions share: the state and its functions, the inputs, and how an element's value is made.
<% macro parameters() %>
<% for x in inputs %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<%- endmacro %>
<# Where the result goes, and what it is made with. #>
<% macro results() %>
<% if stage == "partial" %>
    State* parts,
<% else %>
    << "double p, " if reduction.parameter >><< result >>* y,
<% endif %>
<%- endmacro %>
<% macro store(at, state) %>
<% if stage == "partial" %>
parts[(long long)(<< at >>) * gridDim.y + blockIdx.y] = << state >>;
<% else %>
y[<< at >>] = finish(<< state >>, A(n)<< ", p" if reduction.parameter >>);
<% endif %>
<%- endmacro %>
<# Adds to `target`0, `target`1, ... the offsets of the inputs at place `from` of some axes. #>
<% macro steps(from, name, axes, target, field, shape) %>
            index << name >>_left = << from >>;
<% for axis in range(axes - 1, -1, -1) %>
<% for x in inputs %>
            << target >><< x.k >> += << name >>_left<< " % layout." ~ shape ~ "[" ~ axis ~ "]" if axis >> * layout.<< field >>[<< x.k >>][<< axis >>];
<% endfor %>
<% if axis %>
            << name >>_left /= layout.<< shape >>[<< axis >>];
<% endif %>
<% endfor %>
<%- endmacro %>
<# What is computed of an element, once a0, a1, ... are its inputs. #>
<% macro computed() %>
<% for line in body %>
                const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<%- endmacro %>
<# The types of a reduction and its functions; `batches` for those of several values. #>
<% macro states(batches) %>
using T = << value_type >>;
using A = << accumulator >>;
using Place = << index >>;
using State = << reduction.state >>;
__device__ __forceinline__ State identity() { return << reduction.identity >>; }
__device__ __forceinline__ State combine(State a, State b) { return << reduction.combine >>; }
<% if stage != "final" %>
__device__ __forceinline__ State push(State a, T x, Place i) { return << reduction.push >>; }
<% if batches and reduction.batch %>
template <int N>
__device__ __forceinline__ State push_all(State a, const T (&v)[N], Place i, Place step) {
    return << reduction.batch >>;
}
<% endif %>
<% endif %>
<% if stage != "partial" %>
__device__ __forceinline__ << result >> finish(State a, A n<< ", double p" if reduction.parameter >>) {
    return cast< << result >> >(<< reduction.finish >>);
}
<% endif %>
<%- endmacro %>
<# The states `total` of << lanes >> neighbouring threads together, in the first of them. #>
<% macro shared_total() %>
<% if lanes > 1 %>
#pragma unroll
        for (int distance = << [lanes, 32] | min // 2 >>; distance > 0; distance /= 2)
            total = combine(total, shuffle_xor(total, distance));
<% endif %>
<% if lanes > 32 %>
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = total;
        __syncthreads();
        if (threadIdx.x < 32) {
            total = threadIdx.x < << lanes // 32 >> ? of_warp[threadIdx.x] : identity();
#pragma unroll
            for (int distance = << lanes // 64 >>; distance > 0; distance /= 2)
                total = combine(total, shuffle_xor(total, distance));
        }
<% endif %>
<%- endmacro %>
