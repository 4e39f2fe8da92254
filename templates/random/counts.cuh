// Counts, in double precision: -1 where parameters are out of range.
<% if kind in ("poisson", "noncentral_chisquare", "noncentral_f", "negative_binomial") %>

// A count of mean a: by inversion below 10, above by transformed rejection (Hormann, "The
// transformed rejection method for generating Poisson random variables", 1993).
struct Poisson {
    double a, none;
    __device__ __forceinline__ Poisson(double a) : a(a), none(a < 10.0 ? exp(-a) : 0.0) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        if (!(a >= 0.0 && a < 9.2e18)) return -1.0;
        if (a < 10.0) {
            double rest = u.next(), p = none, k = 0.0;
            while (rest > p && k < 200.0) {
                rest -= p;
                k += 1.0;
                p *= a / k;
            }
            return k;
        }
        const double log_a = log(a), b = 0.931 + 2.53 * sqrt(a), slope = 0.02483 * b - 0.059;
        const double inverse = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2.0);
        for (;;) {
            const double x = u.next() - 0.5, v = u.next(), s = 0.5 - fabs(x);
            const double k = floor((2.0 * slope / s + b) * x + a + 0.43);
            if (s >= 0.07 && v <= inner) return k;
            if (k < 0.0 || (s < 0.013 && v > s)) continue;
            if (log(v * inverse / (slope / (s * s) + b)) <= k * log_a - a - lgamma(k + 1.0)) return k;
        }
    }
};
<% endif %>
<% if kind == "poisson" %>

struct Law : Poisson {
    __device__ __forceinline__ Law(double a, double, double) : Poisson(a) {}
};
<% elif kind == "binomial" %>

// Successes of a trials of probability b: by inversion where the mean is below 10, above by
// transformed rejection (Hormann, "The generation of binomial random variates", 1993).
struct Law {
    double a, b;
    bool flipped;
    double p, odds, none;
    __device__ __forceinline__ Law(double a, double b, double)
        : a(a), b(b), flipped(b > 0.5), p(flipped ? 1.0 - b : b), odds(p / (1.0 - p)),
          none(a * p < 10.0 ? exp(a * log1p(-p)) : 0.0) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        if (!(a >= 0.0 && a < 9.2e18) || a != floor(a) || !(b >= 0.0 && b <= 1.0)) return -1.0;
        double k = 0.0;
        if (a * p < 10.0) {
            double rest = u.next(), mass = none;
            while (rest > mass && k < a && k < 200.0) {
                rest -= mass;
                k += 1.0;
                mass *= (a - k + 1.0) / k * odds;
            }
            return flipped ? a - k : k;
        }
        const double spread = sqrt(a * p * (1.0 - p)), wide = 1.15 + 2.53 * spread, slope = 0.0248 * wide + 0.01 * p - 0.0873;
        const double middle = a * p + 0.5, inner = 0.92 - 4.2 / wide, alpha = (2.83 + 5.1 / wide) * spread;
        const double mode = floor((a + 1.0) * p), peak = lgamma(mode + 1.0) + lgamma(a - mode + 1.0);
        for (;;) {
            const double x = u.next() - 0.5, v = u.next(), s = 0.5 - fabs(x);
            k = floor((2.0 * slope / s + wide) * x + middle);
            if (k < 0.0 || k > a) continue;
            if (s >= 0.07 && v <= inner) break;
            const double bound = peak - lgamma(k + 1.0) - lgamma(a - k + 1.0) + (k - mode) * log(odds);
            if (log(v * alpha / (slope / (s * s) + wide)) <= bound) break;
        }
        return flipped ? a - k : k;
    }
};
<% elif kind == "hypergeometric" %>

__device__ __forceinline__ bool is_count(double x) { return x >= 0.0 && x <= 1e9 && x == floor(x); }
__device__ __forceinline__ double log_factorials(double k, double few, double many, double sample) {
    return lgamma(k + 1.0) + lgamma(few - k + 1.0) + lgamma(sample - k + 1.0) + lgamma(many - sample + k + 1.0);
}

// Good ones of c drawn from a good and b bad ones: by inversion of samples up to 10, above by the ratio of uniforms
// (Stadlober, "The ratio of uniforms approach for generating discrete random variates", 1990).
struct Law {
    double a, b, c;
    // By symmetry the kind of which there are fewer is counted, in the smaller of the sample and what is left.
    double few, many, all, sample, none;
    __device__ __forceinline__ Law(double a, double b, double c)
        : a(a), b(b), c(c), few(minimum(a, b)), many(maximum(a, b)), all(a + b), sample(minimum(c, all - c)), none(1.0) {
        if (sample <= 10.0)
            for (double i = 0.0; i < sample; i += 1.0) none *= (many - i) / (all - i);
    }
    __device__ __forceinline__ double draw(Uniforms& u) const {
        if (!is_count(a) || !is_count(b) || !is_count(c) || c > all) return -1.0;
        double k = 0.0;
        if (sample <= 10.0) {
            double rest = u.next(), p = none;
            while (rest > p && k < minimum(few, sample)) {
                rest -= p;
                p *= (few - k) * (sample - k) / ((k + 1.0) * (many - sample + k + 1.0));
                k += 1.0;
            }
        } else {
            const double share = few / all, middle = sample * share + 0.5;
            const double spread = sqrt((all - sample) * sample * share * (1.0 - share) / (all - 1.0) + 0.5);
            const double wide = << 2 * (2 / 2.718281828459045) ** 0.5 >> * spread + << 3 - 2 * (3 / 2.718281828459045) ** 0.5 >>;
            const double mode = floor((sample + 1.0) * (few + 1.0) / (all + 2.0));
            const double peak = log_factorials(mode, few, many, sample);
            const double end = minimum(minimum(sample, few) + 1.0, floor(middle + 16.0 * spread));
            for (;;) {
                const double x = u.next(), w = middle + wide * (u.next() - 0.5) / x;
                if (w < 0.0 || w >= end) continue;
                k = floor(w);
                if (2.0 * log(x) <= peak - log_factorials(k, few, many, sample)) break;
            }
        }
        if (a > b) k = sample - k;
        return c > sample ? a - k : k;
    }
};
<% elif kind == "logseries" %>

// Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", 1981.
struct Law {
    double a, b;
    __device__ __forceinline__ Law(double a, double b, double) : a(a), b(b) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        if (!(a >= 0.0 && a < 1.0)) return -1.0;
        const double v = u.next();
        if (v >= a) return 1.0;
        const double log_miss = log1p(-a) * u.next(), q = -expm1(log_miss);
        return v <= q * q ? minimum(floor(1.0 + log(v) / log1p(-exp(log_miss))), 9.2e18) : v >= q ? 1.0 : 2.0;
    }
};
<% elif kind == "zipf" %>

// By rejection from a power of a uniform number (Devroye, "Non-uniform random variate generation", 1986, chapter 10.6).
struct Law {
    double a, less, least, twice;
    // Uniform numbers below `least` would exceed the integers.
    __device__ __forceinline__ Law(double a, double, double)
        : a(a), less(a - 1.0), least(pow(9.2e18, -less)), twice(exp2(less)) {}
    __device__ __forceinline__ double draw(Uniforms& u) const {
        if (!(a > 1.0)) return -1.0;
        if (a > 1000.0) return 1.0;
        for (;;) {
            const double x = floor(exp(log(least + (1.0 - least) * u.next()) / -less)), v = u.next();
            if (x == 1.0) return x;
            const double rise = expm1(less * log1p(1.0 / x));
            if (v * x * rise * twice <= (rise + 1.0) * (twice - 1.0)) return x;
        }
    }
};
<% endif %>
