// y[i] for i < n: a << kind >> variate of the parameters a[i], b[i] and c[i], each also one number for all.
// Words are Philox's of the counter (offset + i, 0, attempt), attempts from `first` on: results depend on nothing else.
// `acc`: the type of its arithmetic. `alike`: no parameter is an array.
// `stretch`: the elements whose first attempts are computed at once, by vectors; 1 for one element after the other.
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
<% macro law(a, b, c) %>
<< "" if alike else "const Law law(%s, %s, %s);" % (a, b, c) >>
<% endmacro %>
<% set law_of_i = law("a ? a[i] : a_value", "b ? b[i] : b_value", "c ? c[i] : c_value") | trim %>
<% set law_of_k = law("of_a[k]", "of_b[k]", "of_c[k]") | trim %>

template <typename From>
__device__ __forceinline__ Number stored(From x) {
    return cast<Number>(x);
}
<% if elem == "long long" %>
__device__ __forceinline__ Number stored(double x) { return x < << 2.0 ** 63 >> ? Number(x) : limits<Number>::highest(); }
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    Number* y, const double* a, const double* b, const double* c, double a_value, double b_value, double c_value,
    long long n, long long piece, unsigned first, << "const unsigned long long* counter_memory" if live else "unsigned long long offset" >>,
    unsigned k0, unsigned k1)
{
    << "const unsigned long long offset = *counter_memory;" if live >>
    << "const Law law(a_value, b_value, c_value);" if alike >>
    const long long start = blockIdx.x * piece * block, last = minimum(n, start + piece * block);
    long long i = start + threadIdx.x;
<% if stretch > 1 %>
    constexpr int stretch = << stretch >>;
    for (; i + stretch <= last; i += stretch) {
        Number result[stretch];
        int fits[stretch];
        T more[stretch];
        bool any_small = false;
<% if not alike %>
        double of_a[stretch], of_b[stretch], of_c[stretch];
        for (int k = 0; k < stretch; ++k) of_a[k] = a ? a[i + k] : a_value;
        for (int k = 0; k < stretch; ++k) of_b[k] = b ? b[i + k] : b_value;
        for (int k = 0; k < stretch; ++k) of_c[k] = c ? c[i + k] : c_value;
<% endif %>
        for (int k = 0; k < stretch; ++k) {
            << law_of_k >>
            more[k] = << "law.count(Uniforms(offset + i + k, first, k0, k1))" if kind == "noncentral_f" else "T(0)" >>;
            any_small |= law.is_small();
        }
<% for small in ("true", "false") %>
        << "if (any_small)" if loop.first else "else" >>
            for (int k = 0; k < stretch; ++k) {
                << law_of_k >>
                fits[k] = 1;
                constexpr bool small = << small >>;
                result[k] = stored(law.template draw_once<small>(Uniforms(offset + i + k, first, k0, k1), fits[k], more[k]));
            }
<% endfor %>
        for (int k = 0; k < stretch; ++k) {
            if (fits[k]) {
                y[i + k] = << "log(result[k]) + double(more[k])" if kind == "log_gamma" else "result[k]" >>;
            } else {
                << law_of_k >>
                Uniforms u(offset + i + k, first, k0, k1);
                y[i + k] = stored(law.draw(u));
            }
        }
    }
<% endif %>
    for (; i < last; i += block) {
        << law_of_i >>
        Uniforms u(offset + i, first, k0, k1);
        y[i] = stored(law.draw(u));
    }
}
