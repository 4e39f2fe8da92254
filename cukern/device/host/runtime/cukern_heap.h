// Memory that kernels allocate. A word in front of each piece tells that it is one.
#pragma once

extern "C" {
#ifdef CUKERN_CHECKED
void* cukern_allocate(size_t) noexcept;
void cukern_free(void*) noexcept;
#else
void* cukern_c_malloc(size_t) noexcept __asm__("malloc");
void cukern_c_free(void*) noexcept __asm__("free");
#endif
}

#ifdef CUKERN_CHECKED
static inline void* malloc(size_t bytes) noexcept { return cukern_allocate(bytes); }
static inline void free(void* at) noexcept { cukern_free(at); }
#else
static inline void* malloc(size_t bytes) noexcept {
    cukern::Allocated* made = bytes + sizeof *made < bytes ? 0 : (cukern::Allocated*)cukern_c_malloc(bytes + sizeof *made);
    if (!made) return 0;
    made->check = cukern::check_of(made);
    return made + 1;
}
static inline void free(void* at, CUKERN_HERE) noexcept {
    if (!at) return;
    cukern::Allocated* made = (cukern::Allocated*)at - 1;
    unsigned long long check = cukern::check_of(made);
    const bool aligned = (size_t)at % sizeof *made == 0;
    if (aligned && __atomic_compare_exchange_n(&made->check, &check, 0ull, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) cukern_c_free(made);
    else if (!aligned || check != ~cukern::check_of(made))  // of a checked launch, which keeps it
        cukern::fault("free() of what malloc() has not given, or of what has been freed", file, line);
}
#endif

#define CUKERN_NEW __attribute__((always_inline)) inline
#ifdef __clang__
#pragma clang diagnostic ignored "-Winline-new-delete"
#endif
CUKERN_NEW void* operator new(size_t bytes) { return malloc(bytes); }
CUKERN_NEW void* operator new[](size_t bytes) { return malloc(bytes); }
CUKERN_NEW void operator delete(void* at) noexcept { free(at); }
CUKERN_NEW void operator delete[](void* at) noexcept { free(at); }
CUKERN_NEW void operator delete(void* at, size_t) noexcept { free(at); }
CUKERN_NEW void operator delete[](void* at, size_t) noexcept { free(at); }
CUKERN_NEW void* operator new(size_t, void* at) noexcept { return at; }
CUKERN_NEW void* operator new[](size_t, void* at) noexcept { return at; }
#undef CUKERN_NEW
