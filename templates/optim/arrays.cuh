// What a step of an optimizer reads and writes: the gradients, the parameters, and the arrays of its `slots`, kept for each
// parameter; the numbers that are `changing` from step to step, and the `fixed` ones.
// `live`: the changing numbers are read from memory, where they change between replays of one launch.
// `masters`: half types' parameters in float, whose roundings the parameters are. One that a parameter is not the
// rounding of is out of date: something else has written the parameter, and that is what the step begins with.
<% set given, capacity, piece = given | default(elem), capacity | default(8), piece | default(4096) %>
<% set live, masters = live | default(false), masters | default(false) %>
<% set kept = slots + (["master"] if masters else []) %>
<% include "optim/pieces.cuh" %>
using G = << given >>;
struct Gradients {
    const G* of[capacity];
};
struct Arrays {
    T* param[capacity];
<% for one in kept %>
    acc* << one >>[capacity];
<% endfor %>
};
struct Numbers {
    acc << (changing + fixed) | join(", ") >>;
};
<# The kernel's parameters for the numbers, and the numbers. #>
<% macro number_parameters() %><% if live %>const acc* schedule, <% endif %><% for one in (fixed if live else changing + fixed) %>acc << one >>, <% endfor %><% endmacro %>
<% macro numbers() %><% for one in changing %><< "schedule[%d]" % loop.index0 if live else one >>, <% endfor %><< fixed | join(", ") >><% endmacro %>

// N elements of each array in registers.
template <int N>
struct Elements {
    acc param[N], grad[N]<% for one in kept %>, << one >>[N]<% endfor %>;
};
// A piece of each array in memory.
struct Pieces {
    const G* grad;
    T* param;
<% for one in kept %>
    acc* << one >>;
<% endfor %>

    __device__ __forceinline__ bool aligned() const {
        return is_aligned(grad) && is_aligned(param)<% for one in kept %> && is_aligned(<< one >>)<% endfor %>;
    }
    template <int N>
    __device__ __forceinline__ void load(int i, Elements<N>& at) const {
        unpack(load_pack<N>(grad + i), at.grad);
        unpack(load_pack<N>(param + i), at.param);
<% for one in kept %>
        unpack(load_pack<N>(<< one >> + i), at.<< one >>);
<% endfor %>
    }
    template <int N>
    __device__ __forceinline__ void store(int i, const Elements<N>& at) const {
<% for one in slots %>
        store_pack<N>(<< one >> + i, packed<acc, N>(at.<< one >>));
<% endfor %>
<% if masters %>
        store_pack<N>(master + i, packed<acc, N>(at.param));
<% endif %>
        store_pack<N>(param + i, packed<T, N>(at.param));
    }
};
__device__ __forceinline__ Pieces pieces_of(const Gradients& gradients, const Arrays& arrays, const Piece& own) {
    return {gradients.of[own.array] + own.start, arrays.param[own.array] + own.start
<% for one in kept %>
        , arrays.<< one >>[own.array] + own.start
<% endfor %>
    };
}
// The step begins with the masters, if they are kept.
template <int N>
__device__ __forceinline__ void begin_with_masters(Elements<N>& at) {
<% if masters %>
#pragma unroll
    for (int i = 0; i < N; ++i) {
        // A choice of bits: host compilers do not vectorize a choice of what is in memory.
        const int current = -(int)(cast<float>(cast<T>(at.master[i])) == at.param[i]);
        at.param[i] = __int_as_float((current & __float_as_int(at.master[i])) | (~current & __float_as_int(at.param[i])));
    }
<% endif %>
}
