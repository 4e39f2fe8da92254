// Gamma variates, and those derived from them, in T's arithmetic.

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

    // The first number of the first attempt, without a branch, so that vectors can compute it. `fits` becomes 0 where it is
    // rejected, which is rare.
    template <bool small>
    __device__ __forceinline__ GammaParts<T> draw_once(Uniforms u, int& fits) const {
        const Four<T> four(u);
        const T x = normal_pair(four).x, root = fma(c, x, T(1)), xx = x * x;
        const T least = minimum(minimum(a, root), fma(T(-0.0331), xx * xx, T(1)) - four.number(2));
        fits = least > T(0) ? fits : 0;
        T log_power = T(0);
        if constexpr (small) log_power = a < T(1) ? log(Four<T>(u).number(0)) / a : T(0);
        return {d, root * root * root, log_power};
    }
    __device__ __forceinline__ bool is_small() const { return a < T(1); }

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
    const bool as_numbers = (x.log_power + y.log_power == T(0)) & (maximum(x.d, y.d) < T(1e30));  // no power is above 1
    return as_numbers ? x.d * x.v / (y.d * y.v) : exp(x.logarithm() - y.logarithm());
}
// The same without a branch where no power is to be taken, for vectors.
template <bool small, typename T>
__device__ __forceinline__ T ratio_once(const GammaParts<T>& x, const GammaParts<T>& y, int& fits) {
    if constexpr (small) return ratio(x, y);
    fits = maximum(x.d, y.d) < T(1e30) ? fits : 0;
    return x.d * x.v / (y.d * y.v);
}
<% endif %>
<% if kind == "log_gamma" %>

struct Law {
    Gamma<T> gamma;
    __device__ __forceinline__ Law(double a, double, double) : gamma(T(a)) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        const GammaParts<T> result = gamma.draw(u);
        return log(double(result.d) * double(result.v)) + double(result.log_power);
    }
    // The variate is the logarithm of the result plus `more`: there is no vector logarithm of doubles.
    template <bool small>
    __device__ __forceinline__ double draw_once(const Uniforms& u, int& fits, T& more) const {
        const GammaParts<T> result = gamma.template draw_once<small>(u, fits);
        more = result.log_power;
        return double(result.d) * double(result.v);
    }
    __device__ __forceinline__ bool is_small() const { return gamma.is_small(); }
};
<% elif kind == "gamma" %>

// Of shape a, times b.
struct Law {
    Gamma<T> gamma;
    T scale;
    __device__ __forceinline__ Law(double a, double b, double)
        : gamma(T(a)), scale(b >= 0.0 ? T(b) : limits<T>::quiet_nan()) {}
    __device__ __forceinline__ T draw(Uniforms& u) const { return gamma.draw(u).value(scale); }
    template <bool small>
    __device__ __forceinline__ T draw_once(const Uniforms& u, int& fits, T) const {
        return gamma.template draw_once<small>(u, fits).value(scale);
    }
    __device__ __forceinline__ bool is_small() const { return gamma.is_small(); }
};
<% elif kind == "beta" %>

struct Law {
    Gamma<T> first, second;
    __device__ __forceinline__ Law(double a, double b, double) : first(T(a)), second(T(b)) {}
    __device__ __forceinline__ T draw(Uniforms& u) const {
        return T(1) / (T(1) + ratio(second.draw(u.part(1)), first.draw(u)));
    }
    template <bool small>
    __device__ __forceinline__ T draw_once(const Uniforms& u, int& fits, T) const {
        const GammaParts<T> result = second.template draw_once<small>(u.part(1), fits);
        return T(1) / (T(1) + ratio_once<small>(result, first.template draw_once<small>(u, fits), fits));
    }
    __device__ __forceinline__ bool is_small() const { return first.is_small() || second.is_small(); }
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
        return extra.a == 0.0 ? central.draw(u) : mixed(count(u)).draw(u);
    }
    __device__ __forceinline__ T count(const Uniforms& u) const {
        if (extra.a == 0.0) return T(0);
        Uniforms words = u.part(2);
        const double k = extra.draw(words);
        return k < 0.0 ? limits<T>::quiet_nan() : T(k);
    }
    __device__ __forceinline__ Gamma<T> mixed(T k) const { return Gamma<T>(half + k); }
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
    template <bool small>
    __device__ __forceinline__ T draw_once(const Uniforms& u, int& fits, T count) const {
        const GammaParts<T> result = above.mixed(count).template draw_once<small>(u, fits);
        return ratio_once<small>(result, below.template draw_once<small>(u.part(1), fits), fits) * scale;
    }
    __device__ __forceinline__ T count(const Uniforms& u) const { return above.count(u); }
    __device__ __forceinline__ bool is_small() const { return above.central.is_small() || below.is_small(); }
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
