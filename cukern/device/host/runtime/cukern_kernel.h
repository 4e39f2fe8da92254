// What every kernel's text may name, precompiled where the compiler can; half types come with CUDA's headers for them.
// Functions of the headers have deduced types: GCC then makes them once, for the precompiled file, not for each kernel.
#ifdef CUKERN_CHECKED
// What the headers define becomes part of the kernel's own lines, which reports name.
#define inline inline __attribute__((always_inline))
#endif
#include "cukern_host.h"
#ifdef CUKERN_CHECKED
#undef inline
// The compiler announces copies of small and known sizes, and the runtime does the others itself.
extern "C" {
void* __tsan_memcpy(void*, const void*, size_t);
void* __tsan_memset(void*, int, size_t);
}
#define CUKERN_IS_SMALL(bytes) (__builtin_constant_p(bytes) && (bytes) <= 8)
#define __builtin_memcpy(to, from, bytes) \
    (CUKERN_IS_SMALL(bytes) ? __builtin_memcpy(to, from, bytes) : __tsan_memcpy(to, from, bytes))
#define __builtin_memset(to, value, bytes) __tsan_memset(to, value, bytes)
#define memcpy(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define memset(to, value, bytes) __builtin_memset(to, value, bytes)
#endif
namespace cukern {
// Puts in memory what a thread finds there that does not wait for an asynchronous copy, of which a trace shows nothing.
inline __attribute__((always_inline)) void spoil(void* to, unsigned long long bytes) {
    begin_quiet();
    __builtin_memset(to, 0xff, bytes);
    end_quiet();
}
}  // namespace cukern
// In a kernel it is a mistake to get there, which would go on with whatever instructions follow.
#define __builtin_unreachable() cukern::fault("__builtin_unreachable() is reached", __FILE__, __LINE__)
