// What kernels use of the C++ library, in namespace std, which NVRTC lacks and which takes the host's compiler long.
namespace std {
using ::acos, ::acosh, ::asin, ::asinh, ::atan, ::atan2, ::atanh, ::cbrt, ::ceil, ::copysign, ::cos, ::cosh, ::erf, ::erfc;
using ::exp, ::exp2, ::expm1, ::fabs, ::fdim, ::floor, ::fma, ::fmax, ::fmin, ::fmod, ::frexp, ::hypot, ::isfinite, ::isinf;
using ::isnan, ::ldexp, ::lgamma, ::llround, ::log, ::log10, ::log1p, ::log2, ::logb, ::lround, ::modf, ::nearbyint;
using ::nextafter, ::pow, ::remainder, ::rint, ::round, ::scalbn, ::signbit, ::sin, ::sinh, ::sqrt, ::tan, ::tanh, ::tgamma;
using ::trunc, ::printf, ::memcpy, ::memset;
using ::atan2f, ::ceilf, ::cosf, ::expf, ::fabsf, ::floorf, ::fmaf, ::fmaxf, ::fminf, ::fmodf, ::log2f, ::logf, ::powf;
using ::roundf, ::sinf, ::sqrtf, ::tanhf, ::truncf;

using nullptr_t = decltype(nullptr);
using ::size_t;
using ptrdiff_t = decltype((char*)0 - (char*)0);
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using intptr_t = long long;
using uintptr_t = unsigned long long;

template <class T, T v>
struct integral_constant {
    static constexpr T value = v;
    using value_type = T;
    using type = integral_constant;
    __device__ constexpr operator T() const noexcept { return v; }
    __device__ constexpr T operator()() const noexcept { return v; }
};
template <bool v>
using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

// A trait of a type, true for the types that follow it; and what makes one type of another.
#define CUKERN_TRAIT(name, ...)                            \
    template <class T>                                     \
    struct name : bool_constant<__VA_ARGS__> {};           \
    template <class T>                                     \
    constexpr bool name##_v = name<T>::value;
#define CUKERN_MAKES(name)                                 \
    template <class T>                                     \
    using name##_t = typename name<T>::type;
#define CUKERN_REMOVES(name, ...)                          \
    template <class T>                                     \
    struct name { using type = T; };                       \
    template <class T>                                     \
    struct name<__VA_ARGS__> { using type = T; };

CUKERN_REMOVES(remove_const, const T)
CUKERN_REMOVES(remove_volatile, volatile T)
CUKERN_REMOVES(remove_pointer, T*)
CUKERN_REMOVES(remove_reference, T&)
template <class T>
struct remove_reference<T&&> { using type = T; };
template <class T>
struct remove_pointer<T* const> { using type = T; };
CUKERN_REMOVES(remove_extent, T[])
template <class T, size_t n>
struct remove_extent<T[n]> { using type = T; };
CUKERN_MAKES(remove_const)
CUKERN_MAKES(remove_volatile)
CUKERN_MAKES(remove_pointer)
CUKERN_MAKES(remove_reference)
CUKERN_MAKES(remove_extent)
template <class T>
struct remove_cv { using type = remove_const_t<remove_volatile_t<T>>; };
CUKERN_MAKES(remove_cv)
template <class T>
struct remove_cvref { using type = remove_cv_t<remove_reference_t<T>>; };
CUKERN_MAKES(remove_cvref)
template <class T>
struct decay { using type = remove_cvref_t<T>; };
template <class T, size_t n>
struct decay<T[n]> { using type = T*; };
template <class T, size_t n>
struct decay<T (&)[n]> { using type = T*; };
CUKERN_MAKES(decay)
template <class T>
struct add_const { using type = const T; };
CUKERN_MAKES(add_const)
template <class T>
struct add_pointer { using type = remove_reference_t<T>*; };
CUKERN_MAKES(add_pointer)
template <class T>
struct type_identity { using type = T; };
CUKERN_MAKES(type_identity)

template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class A, class B>
constexpr bool is_same_v = is_same<A, B>::value;
template <class T, class... Of>
constexpr bool cukern_is_one_of = (is_same_v<remove_cv_t<T>, Of> || ...);

CUKERN_TRAIT(is_void, cukern_is_one_of<T, void>)
CUKERN_TRAIT(is_floating_point, cukern_is_one_of<T, float, double>)
CUKERN_TRAIT(is_integral, cukern_is_one_of<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned int,
             long, unsigned long, long long, unsigned long long, wchar_t, char16_t, char32_t>)
CUKERN_TRAIT(is_arithmetic, is_integral_v<T> || is_floating_point_v<T>)
CUKERN_TRAIT(is_const, !is_same_v<T, remove_const_t<T>>)
CUKERN_TRAIT(is_volatile, !is_same_v<T, remove_volatile_t<T>>)
CUKERN_TRAIT(is_reference, !is_same_v<T, remove_reference_t<T>>)
CUKERN_TRAIT(is_lvalue_reference, is_reference_v<T> && is_same_v<T, remove_reference_t<T>&>)
CUKERN_TRAIT(is_rvalue_reference, is_reference_v<T> && !is_lvalue_reference_v<T>)
CUKERN_TRAIT(is_array, !is_same_v<T, remove_extent_t<T>>)
CUKERN_TRAIT(is_null_pointer, cukern_is_one_of<T, decltype(nullptr)>)
CUKERN_TRAIT(is_pointer, !is_same_v<remove_cv_t<T>, remove_pointer_t<remove_cv_t<T>>>)
CUKERN_TRAIT(is_enum, __is_enum(T))
CUKERN_TRAIT(is_class, __is_class(T))
CUKERN_TRAIT(is_union, __is_union(T))
CUKERN_TRAIT(is_empty, __is_empty(T))
CUKERN_TRAIT(is_scalar, is_arithmetic_v<T> || is_enum_v<T> || is_pointer_v<T> || is_null_pointer_v<T>)
CUKERN_TRAIT(is_trivial, __is_trivial(T))
CUKERN_TRAIT(is_standard_layout, __is_standard_layout(T))
CUKERN_TRAIT(is_default_constructible, __is_constructible(T))
CUKERN_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
template <class T, bool = is_arithmetic_v<T>>
struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T>
struct is_signed<T, false> : false_type {};
template <class T>
constexpr bool is_signed_v = is_signed<T>::value;
CUKERN_TRAIT(is_unsigned, is_arithmetic_v<T> && !is_signed_v<T>)
template <class A, class B>
struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B>
constexpr bool is_base_of_v = is_base_of<A, B>::value;

template <class T, class... From>
struct is_constructible : bool_constant<__is_constructible(T, From...)> {};
template <class T, class... From>
constexpr bool is_constructible_v = is_constructible<T, From...>::value;

template <class... All>
struct conjunction : bool_constant<(All::value && ...)> {};
template <class... All>
constexpr bool conjunction_v = conjunction<All...>::value;
template <class... All>
struct disjunction : bool_constant<(All::value || ...)> {};
template <class... All>
constexpr bool disjunction_v = disjunction<All...>::value;
template <class T>
struct negation : bool_constant<!T::value> {};
template <class T>
constexpr bool negation_v = negation<T>::value;

template <bool chosen, class A, class B>
struct conditional { using type = A; };
template <class A, class B>
struct conditional<false, A, B> { using type = B; };
template <bool chosen, class A, class B>
using conditional_t = typename conditional<chosen, A, B>::type;
template <bool there, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> { using type = T; };
template <bool there, class T = void>
using enable_if_t = typename enable_if<there, T>::type;
template <class...>
using void_t = void;
template <class T>
struct underlying_type { using type = __underlying_type(T); };
CUKERN_MAKES(underlying_type)
template <class T>
struct make_unsigned {
    using type = conditional_t<sizeof(T) == 1, unsigned char, conditional_t<sizeof(T) == 2, unsigned short,
                               conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>>>;
};
template <class T>
struct make_signed {
    using type = conditional_t<sizeof(T) == 1, signed char, conditional_t<sizeof(T) == 2, short,
                               conditional_t<sizeof(T) == 4, int, long long>>>;
};
CUKERN_MAKES(make_unsigned)
CUKERN_MAKES(make_signed)
template <size_t bytes, size_t alignment>
struct aligned_storage {
    struct type { alignas(alignment) unsigned char data[bytes]; };
};
template <size_t bytes, size_t alignment>
using aligned_storage_t = typename aligned_storage<bytes, alignment>::type;
template <class T>
__device__ T&& declval() noexcept;
template <class To>
__device__ void cukern_takes(To) noexcept;
template <class From, class To, class = void>
struct is_convertible : bool_constant<is_void_v<From> && is_void_v<To>> {};
template <class From, class To>
struct is_convertible<From, To, void_t<decltype(cukern_takes<To>(declval<From>()))>> : true_type {};
template <class From, class To>
constexpr bool is_convertible_v = is_convertible<From, To>::value;
template <class Function, class... T>
struct invoke_result {
    using type = decltype(declval<Function>()(declval<T>()...));
};
template <class Function, class... T>
using invoke_result_t = typename invoke_result<Function, T...>::type;
template <class... All>
struct common_type {};
template <class T>
struct common_type<T> { using type = decay_t<T>; };
template <class A, class B, class... More>
struct common_type<A, B, More...> : common_type<decay_t<decltype(true ? declval<A>() : declval<B>())>, More...> {};
template <class... All>
using common_type_t = typename common_type<All...>::type;

#ifndef __CUDACC_RTC__  // which has these
template <class T>
constexpr remove_reference_t<T>&& move(T&& x) noexcept { return static_cast<remove_reference_t<T>&&>(x); }
template <class T>
constexpr T&& forward(remove_reference_t<T>& x) noexcept { return static_cast<T&&>(x); }
template <class T>
constexpr T&& forward(remove_reference_t<T>&& x) noexcept { return static_cast<T&&>(x); }
#endif
template <class T>
__device__ constexpr void swap(T& a, T& b) { T kept = move(a); a = move(b); b = move(kept); }
template <class T, class U = T>
__device__ constexpr T exchange(T& x, U&& value) { T kept = move(x); x = forward<U>(value); return kept; }

template <class T>
__device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T>
__device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T, class Less>
__device__ constexpr const T& min(const T& a, const T& b, Less less) { return less(b, a) ? b : a; }
template <class T, class Less>
__device__ constexpr const T& max(const T& a, const T& b, Less less) { return less(a, b) ? b : a; }
template <class T>
__device__ constexpr const T& clamp(const T& x, const T& low, const T& high) { return x < low ? low : high < x ? high : x; }
template <class T, enable_if_t<is_arithmetic_v<T>, int> = 0>
__device__ constexpr auto abs(T x) { return x > T(0) ? +x : 0 - x; }
template <class To, class From>
__device__ To bit_cast(const From& x) {
    static_assert(sizeof(To) == sizeof(From), "types of one size");
    To result;
    memcpy(&result, &x, sizeof(To));
    return result;
}

#define CUKERN_OPERATION(name, ...)                                                      \
    template <class T = void>                                                            \
    struct name {                                                                        \
        __device__ constexpr auto operator()(const T& a, const T& b) const { return __VA_ARGS__; } \
    };                                                                                   \
    template <>                                                                          \
    struct name<void> {                                                                  \
        template <class A, class B>                                                      \
        __device__ constexpr auto operator()(const A& a, const B& b) const { return __VA_ARGS__; } \
    };
CUKERN_OPERATION(plus, a + b)
CUKERN_OPERATION(minus, a - b)
CUKERN_OPERATION(multiplies, a * b)
CUKERN_OPERATION(divides, a / b)
CUKERN_OPERATION(less, a < b)
CUKERN_OPERATION(greater, a > b)
CUKERN_OPERATION(less_equal, a <= b)
CUKERN_OPERATION(greater_equal, a >= b)
CUKERN_OPERATION(equal_to, a == b)

template <class T, bool = is_integral_v<T>>
struct cukern_limits {
    static constexpr bool is_specialized = false, is_signed = false, is_integer = false, is_exact = false;
    static constexpr bool is_iec559 = false, is_bounded = false, is_modulo = false;
    static constexpr bool has_infinity = false, has_quiet_NaN = false;
};
template <class T>
struct cukern_limits<T, true> {
    static constexpr bool is_specialized = true, is_signed = std::is_signed_v<T>, is_integer = true, is_exact = true;
    static constexpr bool is_iec559 = false, is_bounded = true, is_modulo = !is_signed && !is_same_v<T, bool>;
    static constexpr bool has_infinity = false, has_quiet_NaN = false;
    static constexpr int digits = is_same_v<T, bool> ? 1 : 8 * sizeof(T) - is_signed, digits10 = digits * 30103 / 100000;
    static constexpr int radix = 2;
    __device__ static constexpr T max() { return T(is_same_v<T, bool> ? 1 : ~0ull >> (64 - digits)); }
    __device__ static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
    __device__ static constexpr T lowest() { return min(); }
    __device__ static constexpr T epsilon() { return 0; }
    __device__ static constexpr T infinity() { return 0; }
    __device__ static constexpr T quiet_NaN() { return 0; }
};
struct cukern_float_limits {
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
    static constexpr bool is_iec559 = true, is_bounded = true, is_modulo = false;
    static constexpr bool has_infinity = true, has_quiet_NaN = true;
    static constexpr int radix = 2;
};
template <>
struct cukern_limits<float, false> : cukern_float_limits {
    static constexpr int digits = 24, digits10 = 6, max_digits10 = 9, max_exponent = 128, min_exponent = -125;
    __device__ static constexpr float max() { return 3.402823466e+38f; }
    __device__ static constexpr float min() { return 1.175494351e-38f; }
    __device__ static constexpr float lowest() { return -max(); }
    __device__ static constexpr float epsilon() { return 1.1920928955078125e-07f; }
    __device__ static constexpr float denorm_min() { return 1.401298464e-45f; }
    __device__ static constexpr float infinity() { return __builtin_inff(); }
    __device__ static constexpr float quiet_NaN() { return __builtin_nanf(""); }
};
template <>
struct cukern_limits<double, false> : cukern_float_limits {
    static constexpr int digits = 53, digits10 = 15, max_digits10 = 17, max_exponent = 1024, min_exponent = -1021;
    __device__ static constexpr double max() { return 1.7976931348623158e+308; }
    __device__ static constexpr double min() { return 2.2250738585072014e-308; }
    __device__ static constexpr double lowest() { return -max(); }
    __device__ static constexpr double epsilon() { return 2.2204460492503131e-16; }
    __device__ static constexpr double denorm_min() { return 4.9406564584124654e-324; }
    __device__ static constexpr double infinity() { return __builtin_inf(); }
    __device__ static constexpr double quiet_NaN() { return __builtin_nan(""); }
};
template <class T>
struct numeric_limits : cukern_limits<remove_cv_t<T>> {};

template <class T, size_t n>
struct array {
    using value_type = T;
    T elements[n ? n : 1];
    __device__ constexpr T& operator[](size_t i) { return elements[i]; }
    __device__ constexpr const T& operator[](size_t i) const { return elements[i]; }
    __device__ constexpr T* data() { return elements; }
    __device__ constexpr const T* data() const { return elements; }
    __device__ constexpr T* begin() { return elements; }
    __device__ constexpr const T* begin() const { return elements; }
    __device__ constexpr T* end() { return elements + n; }
    __device__ constexpr const T* end() const { return elements + n; }
    __device__ constexpr T& front() { return elements[0]; }
    __device__ constexpr T& back() { return elements[n - 1]; }
    __device__ static constexpr size_t size() { return n; }
    __device__ constexpr void fill(const T& value) {
        for (size_t i = 0; i < n; ++i) elements[i] = value;
    }
};
template <class A, class B>
struct pair {
    using first_type = A;
    using second_type = B;
    A first;
    B second;
};
template <class A, class B>
pair(A, B) -> pair<A, B>;
template <class A, class B>
__device__ constexpr pair<decay_t<A>, decay_t<B>> make_pair(A&& a, B&& b) { return {forward<A>(a), forward<B>(b)}; }

template <class T, T... all>
struct integer_sequence {
    __device__ static constexpr size_t size() { return sizeof...(all); }
};
template <size_t... all>
using index_sequence = integer_sequence<size_t, all...>;
template <class T, size_t n, T... all>
struct cukern_counted : cukern_counted<T, n - 1, T(n - 1), all...> {};
template <class T, T... all>
struct cukern_counted<T, 0, all...> { using type = integer_sequence<T, all...>; };
template <class T, T n>
using make_integer_sequence = typename cukern_counted<T, size_t(n)>::type;
template <size_t n>
using make_index_sequence = make_integer_sequence<size_t, n>;
#undef CUKERN_TRAIT
#undef CUKERN_MAKES
#undef CUKERN_REMOVES
#undef CUKERN_OPERATION
}  // namespace std
