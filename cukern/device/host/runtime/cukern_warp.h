// Barriers, shuffles, votes and faults. Each notes where it is called, for the report of threads that never meet: by
// default arguments named CUKERN_HERE, which the prelude's own instructions have, too.
#pragma once

#define CUKERN_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace cukern {
static inline unsigned long long collect(Wait contribution) {
    runtime->wait(&contribution);
    return contribution.result;
}

[[noreturn]] static __attribute__((noinline, cold)) void fault(const char* what, const char* file, int line) {
    runtime->fault(what, file, line, {blockIdx.x, blockIdx.y, blockIdx.z}, {threadIdx.x, threadIdx.y, threadIdx.z});
    __builtin_unreachable();
}

// The place of the running thread in its block.
static inline unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// An instruction of all 32 lanes of a warp: `work` is done once, when all have come, with the address that each has given.
inline void together(
    const char* name, void (*work)(const unsigned long long*), void* given, const char* file, int line) {
    Wait wait{warp_together, line, file, 0xffffffffu, 0, 0, (unsigned long long)given, 0, name, work, nullptr, nullptr};
    runtime->wait(&wait);
}

// Tells a trace of a product of an M by K matrix and a K by N one on tensor cores, by the bits of a factor's element.
#ifdef CUKERN_CHECKED
extern "C" __attribute__((visibility("default"))) void cukern_count(unsigned kind, unsigned count);
inline void note_product(int m, int n, int k, int bits) {
    cukern_count(bits == 16 ? 4 : bits == 32 ? 5 : bits == 8 ? 6 : 7, (unsigned)(2 * m * n * k));
}
#else
inline void note_product(int, int, int, int) {}
#endif

// Tell a checked launch of work on a barrier's own words, and of the order that the barrier makes between threads.
#ifdef CUKERN_CHECKED
inline void begin_order() { runtime->order(1, nullptr); }
inline void end_order() { runtime->order(0, nullptr); }
inline void show_order(const void* barrier, bool arrives = false) { runtime->order(arrives ? 6 : 2, barrier); }
inline void see_order(const void* barrier, bool waited = false) { runtime->order(waited ? 7 : 3, barrier); }
inline __attribute__((no_sanitize("thread"))) void begin_use(const void* barrier, const char* file, int line) {
    const BarrierUse use{barrier, file, line};
    runtime->order(4, &use);
}
inline void note_init(const void* barrier) { runtime->order(5, barrier); }
inline void begin_quiet() { runtime->order(8, nullptr); }
inline void end_quiet() { runtime->order(9, nullptr); }
#else
inline void begin_order() {}
inline void end_order() {}
inline void show_order(const void*, bool = false) {}
inline void see_order(const void*, bool = false) {}
inline void begin_use(const void*, const char*, int) {}
inline void note_init(const void*) {}
inline void begin_quiet() {}
inline void end_quiet() {}
#endif

// Returns when `ready` says so of the wait, whose value and barrier are given.
inline void until(const char* name, bool (*ready)(const Wait*), unsigned long long value, const MBarrier* barrier,
                  const char* file, int line) {
    Wait wait{condition, line, file, 0, 0, 0, value, 0, name, nullptr, ready, barrier};
    begin_order();
    const bool met = ready(&wait);
    end_order();
    if (!met) runtime->wait(&wait);
}

template <class T>
inline T shuffle(Collective what, unsigned mask, T value, int argument, int width, const char* file, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = collect({what, line, file, mask, argument, width, bits});
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
}  // namespace cukern

// The barrier of that number on its line, from 0 on: translate.py gives each but the first its own.
namespace cukern {
static inline void barrier_on_line(unsigned number, CUKERN_HERE) {
    Wait wait;
    wait.what = barrier;
    wait.line = line;
    wait.file = file;
    wait.mask = number;
    runtime->wait(&wait);
}
}  // namespace cukern
static inline void __syncthreads(CUKERN_HERE) { cukern::barrier_on_line(0, file, line); }
static inline int __syncthreads_count(int predicate, CUKERN_HERE) {
    return (int)cukern::collect({cukern::barrier_count, line, file, 0, 0, 0, predicate != 0});
}
static inline int __syncthreads_and(int predicate, CUKERN_HERE) {
    return (int)cukern::collect({cukern::barrier_and, line, file, 0, 0, 0, predicate != 0});
}
static inline int __syncthreads_or(int predicate, CUKERN_HERE) {
    return (int)cukern::collect({cukern::barrier_or, line, file, 0, 0, 0, predicate != 0});
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, CUKERN_HERE) {
    cukern::collect({cukern::warp_sync, line, file, mask});
}
static inline unsigned __activemask(CUKERN_HERE) {
    return (unsigned)cukern::collect({cukern::warp_active_mask, line, file, 0xffffffffu});
}
static inline void __nanosleep(unsigned, CUKERN_HERE) {
    cukern::Wait wait{cukern::yield_thread, line, file};
    cukern::runtime->yield(&wait);
}

#define CUKERN_SHUFFLE(name, what, type)                                                            \
    template <class T>                                                                              \
    inline T name(unsigned mask, T value, type argument, int width = 32, CUKERN_HERE) {             \
        return cukern::shuffle(cukern::what, mask, value, (int)argument, width, file, line);        \
    }
CUKERN_SHUFFLE(__shfl_sync, warp_shuffle, int)
CUKERN_SHUFFLE(__shfl_up_sync, warp_shuffle_up, unsigned)
CUKERN_SHUFFLE(__shfl_down_sync, warp_shuffle_down, unsigned)
CUKERN_SHUFFLE(__shfl_xor_sync, warp_shuffle_xor, int)
#undef CUKERN_SHUFFLE

static inline unsigned __ballot_sync(unsigned mask, int predicate, CUKERN_HERE) {
    return (unsigned)cukern::collect({cukern::warp_ballot, line, file, mask, 0, 0, predicate != 0});
}
static inline int __all_sync(unsigned mask, int predicate, CUKERN_HERE) {
    return (int)cukern::collect({cukern::warp_all, line, file, mask, 0, 0, predicate != 0});
}
static inline int __any_sync(unsigned mask, int predicate, CUKERN_HERE) {
    return (int)cukern::collect({cukern::warp_any, line, file, mask, 0, 0, predicate != 0});
}
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, CUKERN_HERE) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return (unsigned)cukern::collect({cukern::warp_match_any, line, file, mask, 0, 0, bits});
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all, CUKERN_HERE) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    const unsigned same = (unsigned)cukern::collect({cukern::warp_match_all, line, file, mask, 0, 0, bits});
    *all = same != 0;
    return same;
}

#define CUKERN_REDUCE(name, what, type)                                                             \
    static inline type name(unsigned mask, type value, CUKERN_HERE) {                               \
        return (type)cukern::collect({cukern::what, line, file, mask, 0, 0, (unsigned)value});        \
    }
CUKERN_REDUCE(__reduce_add_sync, warp_add, int)
CUKERN_REDUCE(__reduce_add_sync, warp_add, unsigned)
CUKERN_REDUCE(__reduce_min_sync, warp_min_signed, int)
CUKERN_REDUCE(__reduce_min_sync, warp_min_unsigned, unsigned)
CUKERN_REDUCE(__reduce_max_sync, warp_max_signed, int)
CUKERN_REDUCE(__reduce_max_sync, warp_max_unsigned, unsigned)
CUKERN_REDUCE(__reduce_and_sync, warp_and, unsigned)
CUKERN_REDUCE(__reduce_or_sync, warp_or, unsigned)
CUKERN_REDUCE(__reduce_xor_sync, warp_xor, unsigned)
#undef CUKERN_REDUCE

static inline void __trap() { cukern::fault("__trap() was called", nullptr, 0); }
static inline void __brkpt() {}

#include <assert.h>
