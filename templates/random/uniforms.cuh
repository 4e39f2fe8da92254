// Numbers of one element, from Philox's words of the counter (at, 0, attempt), attempts from `first` on.
struct Uniforms {
    unsigned long long at;
    unsigned k0, k1, attempt;
    bool second;
    RandomWords words;
    __device__ __forceinline__ Uniforms(unsigned long long at, unsigned first, unsigned k0, unsigned k1)
        : at(at), k0(k0), k1(k1), attempt(first), second(false), words() {}
    // Words of another variate of the same element; no rejection comes to 2^28 attempts.
    __device__ __forceinline__ Uniforms part(unsigned number) const {
        return Uniforms(at, attempt + shl(number, 28), k0, k1);
    }
    __device__ __forceinline__ RandomWords next_words() { return philox(at, attempt++, k0, k1); }
    // Numbers in (0, 1), two of each four words.
    __device__ __forceinline__ double next() {
        if (!second) words = next_words();
        const int i = second ? 2 : 0;
        second = !second;
        return open_unit(words.w[i], words.w[i + 1]);
    }
    __device__ static __forceinline__ double open_unit(unsigned low, unsigned high) {
        return (double(joined(low, high) >> 12) + 0.5) * << 2.0 ** -52 >>;
    }
};

// Four numbers in (0, 1) of type T, in (0, 1] of float; or a point on the unit circle from each.
template <typename T>
struct Point {
    T x, y;
};
template <typename T>
struct Four;
template <>
struct Four<double> {
    RandomWords few, more;
    __device__ __forceinline__ Four(Uniforms& u) : few(u.next_words()), more(u.next_words()) {}
    __device__ __forceinline__ double number(int i) const {
        const RandomWords& words = i < 2 ? few : more;
        return Uniforms::open_unit(words.w[i % 2 * 2], words.w[i % 2 * 2 + 1]);
    }
    __device__ __forceinline__ Point<double> point(int i) const {
        Point<double> result;
        sincospi(2.0 * number(i), &result.y, &result.x);
        return result;
    }
};
template <>
struct Four<float> {
    RandomWords words;
    __device__ __forceinline__ Four(Uniforms& u) : words(u.next_words()) {}
    __device__ __forceinline__ float number(int i) const { return (float(words.w[i]) + 0.5f) * << 2.0 ** -32 >>f; }
    // In an eighth of a turn to either side of a quarter, the series up to t^9 and t^10 are exact to half a unit.
    __device__ __forceinline__ Point<float> point(int i) const {
        const unsigned quarters = (shl(1u, 29) + words.w[i]) >> 30;
        const float t = << 6.283185307179586 * 2.0 ** -34 >>f * float(int(shl(words.w[i], 2))), u = t * t;
        float x = fma(u, << -1 / 3628800 >>f, << 1 / 40320 >>f), y = fma(u, << 1 / 362880 >>f, << -1 / 5040 >>f);
        x = fma(u, fma(u, fma(u, fma(u, x, << -1 / 720 >>f), << 1 / 24 >>f), -0.5f), 1.0f);
        y = fma(t * u, fma(u, fma(u, y, << 1 / 120 >>f), << -1 / 6 >>f), t);
        const float across = quarters & 1 ? y : x, up = quarters & 1 ? x : y;
        return {quarters == 1 || quarters == 2 ? -across : across, quarters > 1 ? -up : up};
    }
};

// In single precision a rejection has the same bits on both devices: every fused operation is written out, and logarithms,
// of positive normal numbers, are this one, to within one ulp.
__device__ __forceinline__ double log_of(double x) { return log(x); }
__device__ __forceinline__ float log_of(float x) {
    const int exponent = (__float_as_int(x) - 0x3f2aaaab) & 0xff800000;
    const float f = __int_as_float(__float_as_int(x) - exponent) - 1.0f, s = f * f;  // in [-1/3, 1/3]
    float even = fma(-0.130310059f, s, -0.121483512f), odd = fma(0.140869141f, s, 0.139814854f);
    even = fma(even, s, -0.166846126f), odd = fma(odd, s, 0.200120345f);
    even = fma(odd, f, fma(even, s, -0.249996200f));
    even = fma(fma(even, f, 0.333331972f), f, -0.5f);
    return fma(float(exponent), << 0.6931471805599453 * 2.0 ** -23 >>f, fma(even, s, f));
}

// Two normal numbers (Box and Muller, "A note on the generation of random normal deviates", 1958).
template <typename T>
__device__ __forceinline__ Point<T> normal_pair(const Four<T>& four) {
    const T radius = sqrt(T(-2) * log_of(four.number(0)));
    const Point<T> point = four.point(1);
    return {radius * point.x, radius * point.y};
}
