"""What kernels use of headers that are left out of their texts: types, constants, versions, old functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_WHOLE = {8: "signed char", 16: "short", 32: "int", 64: "long long"}
#: The largest numbers of C's integers.
_SIGNED = {
    **dict.fromkeys(("SCHAR", "CHAR", "INT8"), "127"),
    **dict.fromkeys(("SHRT", "INT16"), "32767"),
    **dict.fromkeys(("INT", "INT32"), "2147483647"),
    **dict.fromkeys(("LLONG", "INT64"), "9223372036854775807LL"),
    "LONG": "9223372036854775807L",
}
_UNSIGNED = {
    **dict.fromkeys(("UCHAR", "UINT8"), "255"),
    **dict.fromkeys(("USHRT", "UINT16"), "65535"),
    **dict.fromkeys(("UINT", "UINT32"), "0xffffffffu"),
    **dict.fromkeys(("ULLONG", "UINT64", "SIZE"), "0xffffffffffffffffull"),
    "ULONG": "0xffffffffffffffffUL",
}
#: Macros of the left-out headers that kernels use.
DEFINED = {
    **{f"{name}_MAX": most for name, most in (_SIGNED | _UNSIGNED).items()},
    **{f"{name}_MIN": f"(-{most} - 1)" for name, most in _SIGNED.items()},
    "FLT_MAX": "3.402823466e+38F",
    "FLT_MIN": "1.175494351e-38F",
    "FLT_EPSILON": "1.192092896e-07F",
    "DBL_MAX": "1.7976931348623158e+308",
    "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16",
    "M_PI": "3.14159265358979323846",
    "RAND_MAX": "2147483647",
    "CLOCKS_PER_SEC": "1000000L",
    "INFINITY": "__builtin_inff()",
    "NAN": '__builtin_nanf("")',
    "HUGE_VAL": "__builtin_inf()",
    "HUGE_VALF": "__builtin_inff()",
    "M_E": "2.7182818284590452354",
    "M_LN2": "0.69314718055994530942",
    "M_LOG2E": "1.4426950408889634074",
    "M_PI_2": "1.57079632679489661923",
    "M_PI_4": "0.78539816339744830962",
    "M_1_PI": "0.31830988618379067154",
    "M_2_PI": "0.63661977236758134308",
    "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
    "CHAR_BIT": "8",
    "M_LN10": "2.30258509299404568402",
    "M_LOG10E": "0.43429448190325182765",
    "M_2_SQRTPI": "1.12837916709551257390",
    "FLT_DIG": "6",
    "DBL_DIG": "15",
    "FLT_MANT_DIG": "24",
    "DBL_MANT_DIG": "53",
    "FLT_RADIX": "2",
    "CUDART_INF_FP16": "__ushort_as_half((unsigned short)0x7c00)",
    "CUDART_NAN_FP16": "__ushort_as_half((unsigned short)0x7fff)",
    "CUDART_MAX_NORMAL_FP16": "__ushort_as_half((unsigned short)0x7bff)",
    "CUDART_MIN_DENORM_FP16": "__ushort_as_half((unsigned short)0x0001)",
    "CUDART_NEG_ZERO_FP16": "__ushort_as_half((unsigned short)0x8000)",
    "CUDART_ZERO_FP16": "__ushort_as_half((unsigned short)0x0000)",
    "CUDART_ONE_FP16": "__ushort_as_half((unsigned short)0x3c00)",
    "CUDART_INF_BF16": "__ushort_as_bfloat16((unsigned short)0x7f80)",
    "CUDART_NAN_BF16": "__ushort_as_bfloat16((unsigned short)0x7fff)",
    "CUDART_MAX_NORMAL_BF16": "__ushort_as_bfloat16((unsigned short)0x7f7f)",
    "CUDART_MIN_DENORM_BF16": "__ushort_as_bfloat16((unsigned short)0x0001)",
    "CUDART_NEG_ZERO_BF16": "__ushort_as_bfloat16((unsigned short)0x8000)",
    "CUDART_ZERO_BF16": "__ushort_as_bfloat16((unsigned short)0x0000)",
    "CUDART_ONE_BF16": "__ushort_as_bfloat16((unsigned short)0x3f80)",
    "UINT64_C(x)": "x##ull",
    "UINT32_C(x)": "x##u",
    "INT64_C(x)": "x##ll",
}
#: NVRTC has none of these.
_BUILTINS = """#ifdef __CUDACC_RTC__
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ll)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ll)
#endif"""
#: Instructions of GPUs since 9.0, on which a kernel may begin while the previous one ends.
_DEPENDENT = {
    "cudaGridDependencySynchronize()": "CUKERN_DEPENDENT(wait)",
    "cudaTriggerProgrammaticLaunchCompletion()": "CUKERN_DEPENDENT(launch_dependents)",
}
_INSTRUCTION = """#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 900
#define CUKERN_DEPENDENT(what) asm volatile("griddepcontrol." #what ";" ::: "memory")
#else
#define CUKERN_DEPENDENT(what) ((void)0)
#endif"""
_VERSIONS = {"CUDART_VERSION", "CUDA_VERSION", "__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__"}
#: That of the host is a version of which it has the functions of kernels, as texts choose newer ones by it.
_VERSION = """#ifndef __CUDACC_RTC__
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 12000
#endif
#ifndef CUDA_VERSION
#define CUDA_VERSION CUDART_VERSION
#endif"""
#: What the compilers of CUDA define, for programs that choose by them what runs on a GPU.
_COMPILER = {"__CUDACC__": "1", "__CUDA_ARCH__": "900"}
#: Types of the left-out headers, by what they stand for.
TYPES = {
    **{f"int{n}_t": kind for n, kind in _WHOLE.items()},
    **{f"uint{n}_t": f"unsigned {kind.removeprefix('signed ')}" for n, kind in _WHOLE.items()},
    "intptr_t": "long long",
    "uintptr_t": "unsigned long long",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "clock_t": "long",
    "ssize_t": "long",
}
#: Functions of a warp that GPUs no longer have.
_OLD = {
    "__ballot(...)": "__ballot_sync(__activemask(), __VA_ARGS__)",
    "__any(...)": "__any_sync(__activemask(), __VA_ARGS__)",
    "__all(...)": "__all_sync(__activemask(), __VA_ARGS__)",
    "__shfl(...)": "__shfl_sync(__activemask(), __VA_ARGS__)",
    "__shfl_up(...)": "__shfl_up_sync(__activemask(), __VA_ARGS__)",
    "__shfl_down(...)": "__shfl_down_sync(__activemask(), __VA_ARGS__)",
    "__shfl_xor(...)": "__shfl_xor_sync(__activemask(), __VA_ARGS__)",
}
#: Declarations of types, and the braces around them; those of a linkage specification are no scope.
_SCOPES = re.compile(
    r'//[^\n]*|(?s:/\*.*?\*/)|\bextern\s*"C"\s*\{|"(?:\\.|[^"\\\n])*"|\'(?:[^\'\\\n]|\\.)\'|[{}]|'
    r"\btypedef\b[^;{}]*?\b(\w+)\s*;|\busing\s+(\w+)\s*="
)


@lru_cache(maxsize=8)
def _wanted(text: str) -> frozenset[str]:
    """The words of a text without those that it defines itself."""
    own = re.findall(r"#[ \t]*define[ \t]+(\w+)|\b(?!return\b|else\b)[A-Za-z]\w*[ \t]+(\w+)[ \t]*\(", text)
    return frozenset(re.findall(r"\w+", text)) - {name for names in own for name in names}


def _macros(text: str, values: Mapping[str, str]) -> list[str]:
    words = _wanted(text)
    return [
        f"#ifndef {name.partition('(')[0]}\n#define {name} {value}\n#endif"
        for name, value in values.items()
        if name.partition("(")[0] in words
    ]


def _declared(text: str) -> set[str]:
    """The types that a text declares by ``typedef`` or ``using``, outside namespaces and classes."""
    own, inside = set(), []
    for match in _SCOPES.finditer(text):
        if match[0].endswith("{"):
            inside.append(match[0] == "{")
        elif match[0] == "}":
            inside = inside[:-1]
        elif match.lastindex and not any(inside):
            own.add(match[match.lastindex])
    return own


def definitions(text: str) -> list[str]:
    """Definitions of what a text may use of the headers that are left out, each with its own line breaks."""
    words = _wanted(text)
    own = _declared(text)
    defined = [f"typedef {kind} {name};" for name, kind in TYPES.items() if name in words and name not in own]
    if "CUtensorMap" in words - own:
        defined.append(
            "typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;"
        )
    macros = _macros(text, {**DEFINED, **_OLD})
    if dependent := _macros(text, _DEPENDENT):
        defined += [_INSTRUCTION, *dependent]
    if "__builtin_" in text or any("__builtin_" in macro for macro in macros):
        defined.append(_BUILTINS)
    if any(word.startswith("CUDART_") and word not in _VERSIONS for word in words):
        defined.append("#include <math_constants.h>")
    if not words.isdisjoint(_VERSIONS):
        defined.append(_VERSION)
    return defined + macros


def of_compiler(text: str) -> list[str]:
    """Definitions of what a plain text may ask of CUDA's compilers, on the host, and of words that it lacks."""
    defined = _macros(text, _COMPILER)
    if "__forceinline__" in text:  # the host's compilers refuse it of functions that call themselves
        defined.append("#ifndef __CUDACC_RTC__\n#undef __forceinline__\n#define __forceinline__\n#endif")
    return defined
