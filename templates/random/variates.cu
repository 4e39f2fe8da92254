// y[i] for i < n: a << kind >> variate of the parameters a[i], b[i] and c[i], each also one number for all.
// Words are Philox's of the counter (offset + i, 0, attempt), attempts from `first` on: what is drawn depends on nothing else.
// `acc`: the type of its arithmetic. `alike`: no parameter is an array.
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a block owns block * `piece` elements, neighbouring threads neighbouring ones. No shared memory.
<% include "prelude/math.cuh" %>
<% include "lib/philox.cuh" %>
using T = << acc >>;
using Number = << elem >>;
constexpr int block = << block >>;
<% include "random/uniforms.cuh" %>
<% include "random/counts.cuh" %>
<% if kind in ("standard_t", "t_exponential", "t_cosine", "vonmises") %>
<% include "random/angles.cuh" %>
<% else %>
<% include "random/gammas.cuh" %>
<% endif %>

template <typename From>
__device__ __forceinline__ Number stored(From x) {
    return cast<Number>(x);
}
<% if elem == "long long" %>
__device__ __forceinline__ Number stored(double x) { return x < << 2.0 ** 63 >> ? Number(x) : limits<Number>::highest(); }
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    Number* y, const double* a, const double* b, const double* c, double a_value, double b_value, double c_value,
    long long n, long long piece, unsigned first, << "const unsigned long long* place" if live else "unsigned long long offset" >>,
    unsigned k0, unsigned k1)
{
    << "const unsigned long long offset = *place;" if live >>
    << "const Law law(a_value, b_value, c_value);" if alike >>
    const long long start = blockIdx.x * piece * block, last = minimum(n, start + piece * block);
    for (long long i = start + threadIdx.x; i < last; i += block) {
<% if not alike %>
        const Law law(a ? a[i] : a_value, b ? b[i] : b_value, c ? c[i] : c_value);
<% endif %>
        Uniforms u(offset + i, first, k0, k1);
        y[i] = stored(law.draw(u));
    }
}
