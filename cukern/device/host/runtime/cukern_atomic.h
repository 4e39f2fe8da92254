// Atomics, fences, cached loads and stores, the clock. Atomics are real ones, as blocks run on several cores.
#pragma once

namespace cukern {
template <unsigned size>
struct Bits;
template <> struct Bits<2> { using type = unsigned short; };
template <> struct Bits<4> { using type = unsigned; };
template <> struct Bits<8> { using type = unsigned long long; };

// Replaces *at by what `next` makes of it, in one step that nobody sees the middle of; the old value. Checked launches know
// sums by the weak exchange.
template <bool adds = true, class T, class Next>
inline auto exchange_by(T* at, Next next) {
    using U = typename Bits<sizeof(T)>::type;
    U old = __atomic_load_n((U*)at, __ATOMIC_RELAXED);
    for (;;) {
        T value;
        __builtin_memcpy((void*)&value, &old, sizeof(T));
        const T wanted = next(value);
        U bits;
        __builtin_memcpy(&bits, (const void*)&wanted, sizeof(T));
        if (__atomic_compare_exchange_n((U*)at, &old, bits, adds, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return value;
    }
}
template <class T>
inline auto exchange_bits(T* at, T value) {
    using U = typename Bits<sizeof(T)>::type;
    U bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    const U old = __atomic_exchange_n((U*)at, bits, __ATOMIC_RELAXED);
    __builtin_memcpy(&value, &old, sizeof(T));
    return value;
}
// Around an operation that is atomic for the threads of its block alone: checked launches know it by these fences, which order nothing.
struct OfBlock {
    OfBlock() { __atomic_signal_fence(__ATOMIC_ACQUIRE); }
    ~OfBlock() { __atomic_signal_fence(__ATOMIC_RELEASE); }
};
// Around an operation by which its thread learns nothing of what others did before theirs, up to its next fence.
struct Relaxed {
    Relaxed() { __atomic_signal_fence(__ATOMIC_ACQ_REL); }
    ~Relaxed() { __atomic_signal_fence(__ATOMIC_RELEASE); }
};
}  // namespace cukern

#define CUKERN_ATOMIC(name, type, expression)                                                                \
    static inline type name(type* at, type value) { return expression; }                                     \
    static inline type name##_block(type* at, type value) {                                                  \
        const cukern::OfBlock here;                                                                          \
        return name(at, value);                                                                              \
    }                                                                                                        \
    static inline type name##_system(type* at, type value) { return name(at, value); }
#define CUKERN_ATOMIC_BY(name, type, expression, ...) \
    CUKERN_ATOMIC(name, type, cukern::exchange_by<__VA_ARGS__>(at, [value](type old) { return (type)(expression); }))
#define CUKERN_ATOMIC_INTEGER(type)                                                                          \
    CUKERN_ATOMIC(atomicAdd, type, __atomic_fetch_add(at, value, __ATOMIC_RELAXED))                          \
    CUKERN_ATOMIC(atomicSub, type, __atomic_fetch_sub(at, value, __ATOMIC_RELAXED))                          \
    CUKERN_ATOMIC(atomicAnd, type, __atomic_fetch_and(at, value, __ATOMIC_RELAXED))                          \
    CUKERN_ATOMIC(atomicOr, type, __atomic_fetch_or(at, value, __ATOMIC_RELAXED))                            \
    CUKERN_ATOMIC(atomicXor, type, __atomic_fetch_xor(at, value, __ATOMIC_RELAXED))                          \
    CUKERN_ATOMIC(atomicExch, type, __atomic_exchange_n(at, value, __ATOMIC_RELAXED))                        \
    CUKERN_ATOMIC_BY(atomicMin, type, value < old ? value : old, false)                                      \
    CUKERN_ATOMIC_BY(atomicMax, type, old < value ? value : old, false)
CUKERN_ATOMIC_INTEGER(int)
CUKERN_ATOMIC_INTEGER(unsigned)
CUKERN_ATOMIC_INTEGER(long long)
CUKERN_ATOMIC_INTEGER(unsigned long long)
CUKERN_ATOMIC_BY(atomicAdd, float, old + value)
CUKERN_ATOMIC_BY(atomicAdd, double, old + value)
CUKERN_ATOMIC(atomicExch, float, cukern::exchange_bits(at, value))
CUKERN_ATOMIC_BY(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUKERN_ATOMIC_BY(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

// Each component by itself, as on a GPU.
CUKERN_ATOMIC(atomicAdd, float2, (float2{atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y)}))
CUKERN_ATOMIC(atomicAdd, float4, (float4{atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y), atomicAdd(&at->z, value.z),
                                         atomicAdd(&at->w, value.w)}))

#define CUKERN_COMPARE_AND_SWAP(type)                                                                        \
    static inline type atomicCAS(type* at, type compare, type value) {                                       \
        __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
        return compare;                                                                                      \
    }                                                                                                        \
    static inline type atomicCAS_block(type* at, type compare, type value) {                                 \
        const cukern::OfBlock here;                                                                          \
        return atomicCAS(at, compare, value);                                                                \
    }                                                                                                        \
    static inline type atomicCAS_system(type* at, type compare, type value) { return atomicCAS(at, compare, value); }
CUKERN_COMPARE_AND_SWAP(int)
CUKERN_COMPARE_AND_SWAP(unsigned)
CUKERN_COMPARE_AND_SWAP(long long)
CUKERN_COMPARE_AND_SWAP(unsigned long long)
CUKERN_COMPARE_AND_SWAP(unsigned short)
#undef CUKERN_COMPARE_AND_SWAP
#undef CUKERN_ATOMIC_INTEGER

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define CUKERN_LOAD(name)      \
    template <class T>         \
    inline T name(const T* at) { return *at; }
CUKERN_LOAD(__ldg)
CUKERN_LOAD(__ldca)
CUKERN_LOAD(__ldcg)
CUKERN_LOAD(__ldcs)
CUKERN_LOAD(__ldcv)
CUKERN_LOAD(__ldlu)
#undef CUKERN_LOAD
#define CUKERN_STORE(name)     \
    template <class T>         \
    inline void name(T* at, T value) { *at = value; }
CUKERN_STORE(__stwb)
CUKERN_STORE(__stcg)
CUKERN_STORE(__stcs)
CUKERN_STORE(__stwt)
#undef CUKERN_STORE

static inline long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    long long ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    static thread_local long long ticks;
    return ++ticks;
#endif
}
static inline long clock() { return (long)clock64(); }
