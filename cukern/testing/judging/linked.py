"""What a compiled candidate calls of the host's libraries: the numbers' functions, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from ...device.host import backend, compiler, packing
from ...device.host.checked import function
from ...device.host.elf import symbols
from .candidate import Refused

_FILE = 4  # STT_FILE: a name that is no function
_MATH = (
    "acosh? asinh? atanh? atan2 cbrt ceil copysign cosh? erfc? exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod "
    "frexp hypot ilogb j[01n] ldexp lgamma lgamma_r log log10 log1p log2 logb l?lrint l?lround modf nan nearbyint "
    "nextafter pow remainder remquo rint round roundeven scalbl?n sincos sinh? sqrt tanh? tgamma trunc y[01n]"
)
#: Functions of numbers and of memory, and those that compilers and checked launches put in. `printf` is no word of
#: candidates, but of asserts in their headers.
_ALLOWED = re.compile(
    rf"(?:{_MATH.replace(' ', '|')})f?(?:_finite)?|__(?:\w+)_finite|_ZGV\w+|mem(?:cpy|move|set|cmp)|strlen|strcmp"
    r"|printf|malloc|free|cukern_\w+|__(?:tsan|ubsan|asan|sanitizer)_\w+|__tls_get_addr|_GLOBAL_OFFSET_TABLE_|__gmon_start__"
    r"|__[a-z]+(?:[sdtxhb][fi]|[sdt]c){1,2}\d?|__cxa_finalize|_ITM_\w+|__dso_handle"
)


def watch(text: str) -> None:
    """Refuse to load what is linked to functions of this process, but for its own runtime, which is loaded before."""
    backend._runtime()
    function._library()
    compiler.kernel_options.append("-Werror=vla")  # which no GPU's compiler takes
    if compiler.compiler().is_gcc:  # constants, which may be any bytes, are no code then
        compiler.kernel_options.append("-Wl,-z,separate-code")
    packing.before_loading.append(lambda path: check(path, text))


def check(path: Path, text: str) -> None:
    """Refuse a library that takes other functions of the process than those of numbers.

    A text can name a function of the host by a declaration in a kernel, whatever its words hide.

    Raises:
        Refused: it does.
    """
    for symbol, kind, section, value, _ in symbols(path.read_bytes()):
        name = symbol.decode(errors="replace").partition("@")[0]
        if name.startswith("_GLOBAL__sub_I"):
            raise Refused(
                "compile", "the first value of a variable is computed by code, which no GPU's compiler takes"
            )
        if name and not section and not value and kind != _FILE and not _ALLOWED.fullmatch(name):
            found = re.search(rf"\b{re.escape(name)}\b", text)
            line = text.count("\n", 0, found.start()) + 1 if found else 0
            raise Refused("forbidden", f"{name} is a function of the host, and none of CUDA C++", line)
