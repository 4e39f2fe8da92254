// cuRAND's generators XORWOW and Philox4_32_10, with the states, numbers and order of numbers of CUDA's header. Sources: Marsaglia,
// "Xorshift RNGs" (2003), section 3.1; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); cuRAND's guide.
#pragma once
#include "cukern_xorwow.h"

struct curandStateXORWOW {
    unsigned d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState_t;
typedef curandStateXORWOW curandState;
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
struct curandStateMRG32k3a {
    unsigned words[18];
};
typedef curandStateMRG32k3a curandStateMRG32k3a_t;

namespace cukern {
inline void xorwow_step(unsigned (&v)[5]) {
    const unsigned t = v[0] ^ v[0] >> 2, last = v[4];
    for (int i = 0; i < 4; ++i) v[i] = v[i + 1];
    v[4] = last ^ last << 4 ^ t ^ t << 1;
}
inline void xorwow_jump(unsigned (&v)[5], unsigned long long count, const Polynomial (&jumps)[64]) {
    for (int bit = 0; count >> bit; ++bit) {
        if (count >> bit & 1) {
            unsigned sum[5] = {};
            for (int power = 0; power < 160; ++power) {
                for (int i = 0; i < 5; ++i) sum[i] ^= jumps[bit].words[power / 32] >> power % 32 & 1 ? v[i] : 0;
                xorwow_step(v);
            }
            for (int i = 0; i < 5; ++i) v[i] = sum[i];
        }
        if (bit == 63) break;
    }
}

inline uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
        c = {(unsigned)(b >> 32) ^ c.y ^ key.x, (unsigned)b, (unsigned)(a >> 32) ^ c.w ^ key.y, (unsigned)a};
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return c;
}
inline void philox_add(curandStatePhilox4_32_10& s, unsigned long long count) {
    const unsigned long long low = s.ctr.x | (unsigned long long)s.ctr.y << 32, sum = low + count;
    s.ctr.x = (unsigned)sum, s.ctr.y = (unsigned)(sum >> 32);
    if (sum < low && ++s.ctr.z == 0) ++s.ctr.w;
    s.output = philox(s.ctr, s.key);
}

inline float uniform_of(unsigned x) { return x * 0x1p-32f + 0x1p-33f; }
inline double uniform_of(unsigned x, unsigned y) {
    return ((unsigned long long)x ^ (unsigned long long)y << 21) * 0x1p-53 + 0x1p-54;
}
inline float2 normal_of(unsigned x, unsigned y) {
    constexpr float turn = 0x1p-32f * 6.2831855f;
    const float length = sqrtf(-2 * logf(uniform_of(x))), angle = __builtin_fmaf((float)y, turn, turn / 2);
    return {sinf(angle) * length, cosf(angle) * length};
}
inline double2 normal_of(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
    const double length = sqrt(-2 * log(uniform_of(x0, x1))), angle = 2 * uniform_of(y0, y1);
    return {sinpi(angle) * length, cospi(angle) * length};
}
}  // namespace cukern

inline unsigned curand(curandStateXORWOW* state) {
    cukern::xorwow_step(state->v);
    return state->v[4] + (state->d += 362437);
}
inline unsigned curand(curandStatePhilox4_32_10* state) {
    const uint4 all = state->output;
    const unsigned at = state->STATE, result = at == 0 ? all.x : at == 1 ? all.y : at == 2 ? all.z : all.w;
    if (++state->STATE == 4) {
        state->STATE = 0;
        cukern::philox_add(*state, 1);
    }
    return result;
}
inline uint4 curand4(curandStatePhilox4_32_10* state) {
    const unsigned x = curand(state), y = curand(state), z = curand(state);
    return {x, y, z, curand(state)};
}

inline void skipahead(unsigned long long count, curandStateXORWOW* state) {
    cukern::xorwow_jump(state->v, count, cukern::xorwow_steps);
    state->d += 362437 * (unsigned)count;
}
inline void skipahead_sequence(unsigned long long count, curandStateXORWOW* state) {
    cukern::xorwow_jump(state->v, count, cukern::xorwow_sequences);
}
inline void skipahead(unsigned long long count, curandStatePhilox4_32_10* state) {
    state->STATE += count & 3;
    const bool next = state->STATE > 3;
    if (next) state->STATE -= 4;
    cukern::philox_add(*state, count / 4 + next);
}
inline void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10* state) {
    const unsigned long long high = state->ctr.z | (unsigned long long)state->ctr.w << 32, sum = high + count;
    state->ctr.z = (unsigned)sum, state->ctr.w = (unsigned)(sum >> 32);
    state->output = cukern::philox(state->ctr, state->key);
}

inline void curand_init(
    unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStateXORWOW* state) {
    const unsigned low = ((unsigned)seed ^ 0xaad26b49u) * 1099087573u;
    const unsigned high = ((unsigned)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
    *state = {6615241u + high + low,
              {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low}, 0, 0, 0, 0};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}
inline void curand_init(
    unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStatePhilox4_32_10* state) {
    *state = {{0, 0, 0, 0}, {0, 0, 0, 0}, {(unsigned)seed, (unsigned)(seed >> 32)}, 0, 0, 0, 0, 0};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}

// What the host lacks does not compile, and the message says why.
#define CUKERN_LACKS(type, name, what)                                                                               \
    template <class... T>                                                                                            \
    __attribute__((error(what))) type name(T...);
#define CUKERN_ONLY "the host has cuRAND's XORWOW and Philox4_32_10 alone, uniform, normal and log-normal"
__attribute__((error(CUKERN_ONLY))) unsigned curand(curandStateMRG32k3a*);
__attribute__((error(CUKERN_ONLY))) void curand_init(
    unsigned long long, unsigned long long, unsigned long long, curandStateMRG32k3a*);
__attribute__((error(CUKERN_ONLY))) void skipahead(unsigned long long, curandStateMRG32k3a*);
CUKERN_LACKS(unsigned, curand_poisson, CUKERN_ONLY)
CUKERN_LACKS(uint4, curand_poisson4, CUKERN_ONLY)
CUKERN_LACKS(unsigned, curand_discrete, CUKERN_ONLY)
#undef CUKERN_LACKS
#undef CUKERN_ONLY

template <class State>
inline float curand_uniform(State* state) { return cukern::uniform_of(curand(state)); }
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
    const uint4 x = curand4(state);
    return {cukern::uniform_of(x.x), cukern::uniform_of(x.y), cukern::uniform_of(x.z), cukern::uniform_of(x.w)};
}
template <class State>
inline double curand_uniform_double(State* state) {
    const unsigned x = curand(state);
    return cukern::uniform_of(x, curand(state));
}
inline double curand_uniform_double(curandStatePhilox4_32_10* state) { return curand(state) * 0x1p-32 + 0x1p-32; }
inline double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
    const uint4 x = curand4(state);
    return {cukern::uniform_of(x.x, x.y), cukern::uniform_of(x.z, x.w)};
}

template <class State>
inline float2 curand_normal2(State* state) {
    const unsigned x = curand(state);
    return cukern::normal_of(x, curand(state));
}
template <class State>
inline double2 curand_normal2_double(State* state) {
    const unsigned x0 = curand(state), x1 = curand(state), y0 = curand(state);
    return cukern::normal_of(x0, x1, y0, curand(state));
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
    const float2 a = curand_normal2(state), b = curand_normal2(state);
    return {a.x, a.y, b.x, b.y};
}
template <class State>
inline float2 curand_log_normal2(State* state, float mean, float deviation) {
    const float2 x = curand_normal2(state);
    return {expf(__builtin_fmaf(deviation, x.x, mean)), expf(__builtin_fmaf(deviation, x.y, mean))};
}
template <class State>
inline double2 curand_log_normal2_double(State* state, double mean, double deviation) {
    const double2 x = curand_normal2_double(state);
    return {exp(__builtin_fma(deviation, x.x, mean)), exp(__builtin_fma(deviation, x.y, mean))};
}
inline float4 curand_log_normal4(curandStatePhilox4_32_10* state, float mean, float deviation) {
    const float2 a = curand_log_normal2(state, mean, deviation), b = curand_log_normal2(state, mean, deviation);
    return {a.x, a.y, b.x, b.y};
}

// They come in pairs: a state keeps the second for the next call, with a flag that says of which function.
#define CUKERN_OF_PAIR(type, name, parameters, pair, kept, flag, number)                                             \
    template <class State>                                                                                           \
    inline type name parameters {                                                                                    \
        if (state->flag == number) {                                                                                 \
            state->flag = 0;                                                                                         \
            return state->kept;                                                                                      \
        }                                                                                                            \
        const auto made = pair;                                                                                      \
        state->kept = made.y, state->flag = number;                                                                  \
        return made.x;                                                                                               \
    }
CUKERN_OF_PAIR(float, curand_normal, (State* state), curand_normal2(state), boxmuller_extra, boxmuller_flag, 1)
CUKERN_OF_PAIR(
    float, curand_log_normal, (State* state, float mean, float deviation), curand_log_normal2(state, mean, deviation),
    boxmuller_extra, boxmuller_flag, 2)
CUKERN_OF_PAIR(
    double, curand_normal_double, (State* state), curand_normal2_double(state), boxmuller_extra_double,
    boxmuller_flag_double, 1)
CUKERN_OF_PAIR(
    double, curand_log_normal_double, (State* state, double mean, double deviation),
    curand_log_normal2_double(state, mean, deviation), boxmuller_extra_double, boxmuller_flag_double, 2)
#undef CUKERN_OF_PAIR
