// y[i] for i < n: a << kind >> variate of the parameters a[i], b[i] and c[i], each also one number for all, in double precision.
// Words are Philox's of the counter (offset + i, 0, attempt): what is drawn depends on nothing else.
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a thread owns `piece` elements, << block >> threads a block. No shared memory.
<% include "prelude/math.cuh" %>
<% include "lib/philox.cuh" %>

// Numbers in (0, 1) of one element, two of each four words.
struct Uniforms {
    unsigned long long at;
    unsigned k0, k1, attempt;
    bool second;
    RandomWords words;
    __device__ __forceinline__ Uniforms(unsigned long long at, unsigned k0, unsigned k1)
        : at(at), k0(k0), k1(k1), attempt(0), second(false), words() {}
    __device__ __forceinline__ double next() {
        if (!second) words = philox(at, attempt++, k0, k1);
        const int i = second ? 2 : 0;
        second = !second;
        return (double(joined(words.w[i], words.w[i + 1]) >> 12) + 0.5) * << 2.0 ** -52 >>;
    }
};
<% if kind == "log_gamma" %>

// The logarithm of a gamma variate of shape a (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
__device__ __forceinline__ double variate(Uniforms& u, double a, double, double) {
    if (!(a >= 0.0)) return limits<double>::quiet_nan();
    if (a == 0.0) return -limits<double>::infinity();
    if (a == limits<double>::infinity()) return a;
    const double d = (a < 1.0 ? a + 1.0 : a) - 1.0 / 3, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        const double radius = sqrt(-2.0 * log(u.next())), x = radius * cos(<< 6.283185307179586 >> * u.next());
        const double root = 1.0 + c * x;
        if (root <= 0.0) continue;
        const double v = root * root * root;
        if (log(u.next()) < 0.5 * x * x + d - d * v + d * log(v)) return log(d * v) + (a < 1.0 ? log(u.next()) / a : 0.0);
    }
}
<% elif kind == "poisson" %>

// A count of mean a, -1 where that is no mean: by inversion below 10, above by transformed rejection (Hormann, "The
// transformed rejection method for generating Poisson random variables", 1993).
__device__ __forceinline__ double variate(Uniforms& u, double a, double, double) {
    if (!(a >= 0.0 && a < 9.2e18)) return -1.0;
    if (a < 10.0) {
        double rest = u.next(), p = exp(-a), k = 0.0;
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
<% elif kind == "binomial" %>

// Successes of a trials of probability b, -1 where these are none: by inversion where the mean is below 10, above by
// transformed rejection (Hormann, "The generation of binomial random variates", 1993).
__device__ __forceinline__ double variate(Uniforms& u, double a, double b, double) {
    if (!(a >= 0.0 && a < 9.2e18) || a != floor(a) || !(b >= 0.0 && b <= 1.0)) return -1.0;
    const bool flipped = b > 0.5;
    const double p = flipped ? 1.0 - b : b, odds = p / (1.0 - p);
    double k = 0.0;
    if (a * p < 10.0) {
        double rest = u.next(), mass = exp(a * log1p(-p));
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
<% elif kind == "hypergeometric" %>

__device__ __forceinline__ bool is_count(double x) { return x >= 0.0 && x <= 1e9 && x == floor(x); }
__device__ __forceinline__ double log_factorials(double k, double few, double many, double sample) {
    return lgamma(k + 1.0) + lgamma(few - k + 1.0) + lgamma(sample - k + 1.0) + lgamma(many - sample + k + 1.0);
}

// Good ones of c drawn from a good and b bad ones, -1 where these are no counts: one by one up to 10, above by the ratio
// of uniforms (Stadlober, "The ratio of uniforms approach for generating discrete random variates", 1990).
__device__ __forceinline__ double variate(Uniforms& u, double a, double b, double c) {
    if (!is_count(a) || !is_count(b) || !is_count(c) || c > a + b) return -1.0;
    // By symmetry the kind of which there are fewer is counted, in the smaller of the sample and what is left.
    const double few = minimum(a, b), many = maximum(a, b), all = a + b, sample = minimum(c, all - c);
    double k = 0.0;
    if (sample <= 10.0) {
        for (double i = 0.0; i < sample; i += 1.0) k += u.next() * (all - i) < few - k ? 1.0 : 0.0;
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
<% elif kind == "logseries" %>

// Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", 1981; -1 where a is out of range.
__device__ __forceinline__ double variate(Uniforms& u, double a, double, double) {
    if (!(a >= 0.0 && a < 1.0)) return -1.0;
    const double v = u.next();
    if (v >= a) return 1.0;
    const double log_miss = log1p(-a) * u.next(), q = -expm1(log_miss);
    return v <= q * q ? minimum(floor(1.0 + log(v) / log1p(-exp(log_miss))), 9.2e18) : v >= q ? 1.0 : 2.0;
}
<% elif kind == "zipf" %>

// By rejection from a power of a uniform number (Devroye, "Non-uniform random variate generation", 1986, chapter 10.6);
// -1 where a is out of range.
__device__ __forceinline__ double variate(Uniforms& u, double a, double, double) {
    if (!(a > 1.0)) return -1.0;
    if (a > 1000.0) return 1.0;
    // Uniform numbers below `least` would exceed the integers.
    const double less = a - 1.0, log_two = << 0.6931471805599453 >>, least = pow(9.2e18, -less);
    for (;;) {
        const double x = floor(pow(least + (1.0 - least) * u.next(), -1.0 / less)), log_t = log1p(1.0 / x);
        if (u.next() * x * expm1(less * log_t) <= exp(less * (log_t - log_two)) * expm1(less * log_two)) return x;
    }
}
<% elif kind == "vonmises" %>

// An angle around a with concentration b, by a wrapped Cauchy envelope (Best and Fisher, "Efficient simulation of the von
// Mises distribution", 1979). Where b is small the envelope is uniform, and where b is large nearly normal.
__device__ __forceinline__ double variate(Uniforms& u, double a, double b, double) {
    if (!(b >= 0.0) || !(fabs(a) < limits<double>::infinity())) return limits<double>::quiet_nan();
    constexpr double pi = << 3.141592653589793 >>;
    double angle;
    if (b < 1e-8) {
        angle = pi * (2.0 * u.next() - 1.0);
    } else if (b > 1e6) {
        const double radius = sqrt(-2.0 * log(u.next()));
        angle = radius * cos(2.0 * pi * u.next()) / sqrt(b);
    } else {
        const double t = 1.0 + sqrt(1.0 + 4.0 * b * b), rho = (t - sqrt(2.0 * t)) / (2.0 * b);
        const double s = b < 1e-5 ? 1.0 / b + b : (1.0 + rho * rho) / (2.0 * rho);
        double f;
        for (;;) {
            const double z = cos(pi * u.next()), v = u.next();
            f = (1.0 + s * z) / (s + z);
            const double c = b * (s - f);
            if (c * (2.0 - c) > v || log(c / v) + 1.0 >= c) break;
        }
        angle = u.next() < 0.5 ? -acos(f) : acos(f);
    }
    return remainder(angle + a, 2.0 * pi);
}
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << elem >>* y, const double* a, const double* b, const double* c, double a_value, double b_value,
    double c_value, long long n, long long piece,
    << "const unsigned long long* place" if live else "unsigned long long offset" >>, unsigned k0, unsigned k1)
{
<% if live %>
    const unsigned long long offset = *place;
<% endif %>
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(n, first + piece);
    for (long long i = first; i < last; ++i) {
        Uniforms u(offset + i, k0, k1);
        y[i] = cast< << elem >> >(variate(u, a ? a[i] : a_value, b ? b[i] : b_value, c ? c[i] : c_value));
    }
}
