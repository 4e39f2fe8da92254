// Gamma variates, and those made of them, in T's arithmetic.

// A gamma variate of shape a: d * v, times power where a < 1.
template <typename T>
struct GammaParts {
    T d, v, log_power;
    __device__ __forceinline__ T value(T scale) const {
        if (log_power == T(0)) return d * v * scale;
        const T root = exp(T(0.5) * log_power);  // the power may vanish where a large scale's product does not
        return d * v * root * scale * root;
    }
    __device__ __forceinline__ T logarithm() const { return log(d * v) + log_power; }
};
// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
template <typename T>
struct Gamma {
    T a, d, c;
    __device__ __forceinline__ Gamma(T a) : a(a), d((a < T(1) ? a + T(1) : a) - T(<< 1 / 3 >>)), c(T(1) / sqrt(T(9) * d)) {}
    __device__ __forceinline__ GammaParts<T> draw(Uniforms u) const {
        if (!(a >= T(0))) return {T(1), limits<T>::quiet_nan(), T(0)};
        if (a == T(0) || a == limits<T>::infinity()) return {T(1), a, T(0)};
        for (;;) {
            const Four<T> four(u);
            const Point<T> pair = normal_pair(four);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const T x = i ? pair.y : pair.x, root = fma(c, x, T(1)), v = root * root * root;
                if (root > T(0) && accepts(x, root, four.number(2 + i)))
                    return {d, v, a < T(1) ? log(Four<T>(u).number(0)) / a : T(0)};
            }
        }
    }

private:
    __device__ __forceinline__ bool accepts(T x, T root, T u) const {
        const T xx = x * x, t = c * x;
        if (u < fma(T(-0.0331), xx * xx, T(1))) return true;
        // d * (9/2 t^2 + 1 - v + log(v)) with v = root^3 = (1 + t)^3, by its series where digits would cancel.
        T bound = fma(t, fma(t, fma(t, T(<< 1 / 3 >>), T(-0.375)), T(<< 3 / 7 >>)), T(-0.5));
        bound = d * (t * t) * (t * t) * fma(t, fma(t, bound, T(0.6)), T(-0.75));
        if (fabs(t) >= T(0.1)) bound = fma(d, fma(-root * root, root, fma(T(3), log_of(root), T(1))), T(0.5) * xx);
        return log_of(u) < bound;
    }
};
<% if kind in ("beta", "noncentral_f") %>

// The ratio of two gamma variates, by logarithms where one may vanish or overflow.
template <typename T>
__device__ __forceinline__ T ratio(const GammaParts<T>& x, const GammaParts<T>& y) {
    if (x.log_power == T(0) && y.log_power == T(0) && x.d < T(1e30) && y.d < T(1e30)) return x.d * x.v / (y.d * y.v);
    return exp(x.logarithm() - y.logarithm());
}
<% endif %>
<% if kind == "log_gamma" %>

struct Law {
    Gamma<T> gamma;
    __device__ __forceinline__ Law(double a, double, double) : gamma(T(a)) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        const GammaParts<T> made = gamma.draw(u);
        return log(double(made.d) * double(made.v)) + double(made.log_power);
    }
};
<% elif kind == "gamma" %>

// Of shape a, times b.
struct Law {
    Gamma<T> gamma;
    T scale;
    __device__ __forceinline__ Law(double a, double b, double)
        : gamma(T(a)), scale(b >= 0.0 ? T(b) : limits<T>::quiet_nan()) {}
    __device__ __forceinline__ T draw(Uniforms& u) const { return gamma.draw(u).value(scale); }
};
<% elif kind == "beta" %>

struct Law {
    Gamma<T> first, second;
    __device__ __forceinline__ Law(double a, double b, double) : first(T(a)), second(T(b)) {}
    __device__ __forceinline__ T draw(Uniforms& u) const {
        return T(1) / (T(1) + ratio(second.draw(u.part(1)), first.draw(u)));
    }
};
<% elif kind in ("noncentral_chisquare", "noncentral_f") %>

// Half of a chi-squared variate of so many degrees of freedom, if noncentral a Poisson mixture of central ones.
struct HalfChiSquare {
    T half;
    Gamma<T> central;
    Poisson extra;
    __device__ __forceinline__ HalfChiSquare(double df, double noncentral)
        : half(df >= 0.0 ? T(0.5 * df) : limits<T>::quiet_nan()), central(half), extra(0.5 * noncentral) {}
    __device__ __forceinline__ GammaParts<T> draw(const Uniforms& u) const {
        if (extra.a == 0.0) return central.draw(u);
        Uniforms words = u.part(2);
        const double k = extra.draw(words);
        return Gamma<T>(k < 0.0 ? limits<T>::quiet_nan() : half + T(k)).draw(u);
    }
};
<% if kind == "noncentral_chisquare" %>
struct Law {
    HalfChiSquare half;
    __device__ __forceinline__ Law(double df, double noncentral, double) : half(df, noncentral) {}
    __device__ __forceinline__ T draw(Uniforms& u) const { return half.draw(u).value(T(2)); }
};
<% else %>
// Of a and b degrees of freedom and noncentrality c.
struct Law {
    HalfChiSquare above;
    Gamma<T> below;
    T scale;
    __device__ __forceinline__ Law(double a, double b, double c) : above(a, c), below(T(0.5 * b)), scale(T(b / a)) {}
    __device__ __forceinline__ T draw(Uniforms& u) const { return ratio(above.draw(u), below.draw(u.part(1))) * scale; }
};
<% endif %>
<% elif kind == "negative_binomial" %>

// Failures before a successes of probability b: a Poisson count whose mean is a gamma variate.
struct Law {
    Gamma<T> gamma;
    T odds;
    __device__ __forceinline__ Law(double a, double b, double)
        : gamma(T(a)), odds(b > 0.0 && b <= 1.0 ? (1.0 - b) / b : limits<T>::quiet_nan()) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        Uniforms words = u.part(1);
        return Poisson(gamma.draw(u).value(odds)).draw(words);
    }
};
<% endif %>
