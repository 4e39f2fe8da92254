// The kernel of an optimizer: a step of many arrays, in place. Before it stand `advance`, which makes the step of N
// elements in registers, and the names of the optimizer's arrays and numbers.
// In: the gradients and the numbers. In and out: the parameters and << slots | join(", ") or "nothing else" >>.
// `live`: the numbers that change from step to step are read from memory, where they change between replays of one launch.
// `masters`: half types' parameters in float, whose roundings the parameters are. One that a parameter is not the
// rounding of is out of date: something else has written the parameter, and that is what the step begins with.
<% set given, capacity, piece = given | default(elem), capacity | default(8), piece | default(4096) %>
<% set live, masters = live | default(false), masters | default(false) %>
<% set arrays = ["param"] + slots + (["master"] if masters else []) %>
<% include "optim/pieces.cuh" %>
struct Gradients {
    const << given >>* of[<< capacity >>];
};
struct Arrays {
    << elem >>* param[<< capacity >>];
<% for one in arrays[1:] %>
    << acc >>* << one >>[<< capacity >>];
<% endfor %>
};
struct Numbers {
    << acc >> << (changing + fixed) | join(", ") >>;
};

template <int N>
__device__ __forceinline__ void update(
    const << given >>* grad, << elem >>* param<% for one in arrays[1:] %>, << acc >>* << one >><% endfor %>, const Numbers& numbers)
{
    << acc >> x[N], g[N]<% for one in arrays[1:] %>, of_<< one >>[N]<% endfor %>;
    unpack(load_pack<N>(grad), g);
    unpack(load_pack<N>(param), x);
<% for one in arrays[1:] %>
    unpack(load_pack<N>(<< one >>), of_<< one >>);
<% endfor %>
<% if masters %>
#pragma unroll
    for (int i = 0; i < N; ++i) {
        // A choice of bits, as a compiler for the host makes no vectors of a choice of what is in memory.
        const int kept = -(int)(cast<float>(cast< << elem >>>(of_master[i])) == x[i]);
        x[i] = __int_as_float((kept & __float_as_int(of_master[i])) | (~kept & __float_as_int(x[i])));
    }
<% endif %>
    advance<N>(x, g<% for one in slots %>, of_<< one >><% endfor %>, numbers);
<% for one in slots %>
    store_pack<N>(<< one >>, packed< << acc >>, N>(of_<< one >>));
<% endfor %>
<% if masters %>
    store_pack<N>(master, packed< << acc >>, N>(x));
<% endif %>
    store_pack<N>(param, packed< << elem >>, N>(x));
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Gradients gradients,
<% if live %>
    const << acc >>* schedule,
<% else %>
<% for one in changing %>
    << acc >> << one >>,
<% endfor %>
<% endif %>
<% for one in fixed %>
    << acc >> << one >>,
<% endfor %>
    const Arrays arrays, const Sizes sizes)
{
    const Piece piece = own_piece(sizes);
    const << given >>* grad = gradients.of[piece.array] + piece.start;
<% for one in arrays %>
    << acc if not loop.first else elem >>* << one >> = arrays.<< one >>[piece.array] + piece.start;
<% endfor %>
    const Numbers numbers = {
<% for one in changing %><< ("schedule[%d]" % loop.index0) if live else one >>, <% endfor %><< fixed | join(", ") >>};
<% if vec > 1 %>
    const bool wide = is_aligned(grad)<% for one in arrays %> && is_aligned(<< one >>)<% endfor %>;
    const int packs = wide ? piece.size / << vec >> : 0;
    for (int k = threadIdx.x; k < packs; k += << block >>) {
        const int i = << vec >> * k;
        update< << vec >>>(grad + i<% for one in arrays %>, << one >> + i<% endfor %>, numbers);
    }
    for (int i = << vec >> * packs + threadIdx.x; i < piece.size; i += << block >>)
<% else %>
    for (int i = threadIdx.x; i < piece.size; i += << block >>)
<% endif %>
        update<1>(grad + i<% for one in arrays %>, << one >> + i<% endfor %>, numbers);
}
