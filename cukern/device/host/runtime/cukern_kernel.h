// All that a kernel's text may name. It is compiled once a machine where the compiler can use that (host_compiler.py).
#include "cukern_host.h"
#include "cukern_half.h"
