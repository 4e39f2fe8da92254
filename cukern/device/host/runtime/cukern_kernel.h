// What every kernel's text may name, precompiled where the compiler can; half types come with CUDA's headers for them.
// Functions of the headers have deduced types: GCC then makes them once, for the precompiled file, not for each kernel.
#include "cukern_host.h"
