// What every kernel's text may name, precompiled where the compiler can; half types come with CUDA's headers for them.
// Functions of the headers have deduced types: GCC then makes them once, for the precompiled file, not for each kernel.
#ifdef CUKERN_CHECKED
// What the headers define becomes part of the kernel's own lines, which reports name.
#define inline inline __attribute__((always_inline))
#endif
#include "cukern_host.h"
#ifdef CUKERN_CHECKED
#undef inline
#endif
