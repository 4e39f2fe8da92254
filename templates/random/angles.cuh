// Variates of a point on the unit circle, in T's arithmetic.
<% if kind == "standard_t" %>

// Bailey, "Polar generation of random variates with the t-distribution", 1994.
struct Law {
    T df;
    __device__ __forceinline__ Law(double df, double, double) : df(df >= 0.0 ? T(df) : limits<T>::quiet_nan()) {}
    __device__ __forceinline__ T draw(Uniforms& u) const {
        const Four<T> four(u);
        const T part = -log_of(four.number(0)) / df;
        return exp(part) * sqrt(-df * expm1(T(-2) * part)) * four.point(1).x;
    }
};
<% elif kind in ("t_exponential", "t_cosine") %>

// The factors of a variate of Student's t.
struct Law {
    __device__ __forceinline__ Law(double, double, double) {}
    __device__ __forceinline__ T draw(Uniforms& u) const {
        const Four<T> four(u);
        return << "-log_of(four.number(0))" if kind == "t_exponential" else "four.point(1).x" >>;
    }
};
<% else %>

// An angle around a with concentration b, by a wrapped Cauchy envelope (Best and Fisher, "Efficient simulation of the von
// Mises distribution", 1979). Where b is small the envelope is uniform, and where b is large nearly normal.
struct Law {
    bool known;
    double b;
    T center, squeeze, twice, rest;
    __device__ __forceinline__ Law(double a, double b, double)
        : known(b >= 0.0 && fabs(a) < limits<double>::infinity()), b(b), center(known ? T(remainder(a, << 6.283185307179586 >>)) : T(0)) {
        // The envelope has s = (1 + rho^2) / (2 rho); half of its angle has the tangent `squeeze` times a uniform angle's.
        const double t = 1.0 + sqrt(1.0 + 4.0 * b * b), rho = (t - sqrt(2.0 * t)) / (2.0 * b), s = 1.0 / b + b;
        squeeze = T(b < 1e-5 ? sqrt((s - 1.0) / (s + 1.0)) : (1.0 - rho) / (1.0 + rho));
        twice = T(2.0 * b);
        rest = T(b < 1e-5 ? 1.0 + b * b - b : b * (1.0 - rho) * (1.0 - rho) / (2.0 * rho));
    }
    __device__ __forceinline__ T draw(Uniforms& u) const {
        if (!known) return limits<T>::quiet_nan();
        constexpr T pi = T(<< 3.141592653589793 >>);
        const T result = around_zero(u) + center;
        return result > pi ? result - T(2) * pi : result < -pi ? result + T(2) * pi : result;
    }

private:
    __device__ __forceinline__ T around_zero(Uniforms& u) const {
        for (;;) {
            const Four<T> four(u);
            if (b > 1e6) return normal_pair(four).x / T(sqrt(b));
            if (b < 1e-8) return T(<< 3.141592653589793 >>) * (T(2) * four.number(0) - T(1));
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const Point<T> p = four.point(i);
                const T y = squeeze * p.y, yy = y * y, v = four.number(i + 1), c = fma(twice, yy / fma(p.x, p.x, yy), rest);
                if (c * (T(2) - c) > v || log_of(c / v) + T(1) >= c) return T(2) * atan(y / p.x);
            }
        }
    }
};
<% endif %>
