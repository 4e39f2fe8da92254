"""A plain text with its includes expanded, and definitions in place of the host's headers, which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .conditions import Conditions
from .host_macros import without_host_macros

#: Headers with something for kernels. Of others, a kernel can use nothing but what `definitions` gives.
_OF_DEVICE = re.compile(
    rb"(?:cuda|cub|cooperative_groups)/.*|(?:cooperative_groups|cuComplex|cuda_(?:bf16|fp\d+|pipeline|awbarrier)|"
    rb"cuda_\w+_primitives|cu\w+_kernel|device_\w+|math_\w+|mma|sm_\w+|(?:vector|surface|texture)_\w+)\.h"
)
#: The parts of cub/cub.cuh, which NVRTC cannot include as a whole.
_CUB = {
    **{
        name: f"cub/block/block_{header}.cuh"
        for name, header in (
            ("BlockAdjacentDifference", "adjacent_difference"),
            ("BlockDiscontinuity", "discontinuity"),
            ("BlockExchange", "exchange"),
            ("BlockHistogram", "histogram"),
            ("BlockLoad", "load"),
            ("BlockMergeSort", "merge_sort"),
            ("BlockRadixSort", "radix_sort"),
            ("BlockReduce", "reduce"),
            ("BlockScan", "scan"),
            ("BlockShuffle", "shuffle"),
            ("BlockStore", "store"),
            ("LoadDirectStriped", "load"),
            ("StoreDirectStriped", "store"),
        )
    },
    **{
        f"Warp{name}": f"cub/warp/warp_{name.lower()}.cuh"
        for name in ("Exchange", "Load", "Reduce", "Scan", "Store")
    },
    "cub": "cub/thread/thread_operators.cuh",
}
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)").*$', re.MULTILINE)
_WHOLE = {8: "signed char", 16: "short", 32: "int", 64: "long long"}
#: Macros of the left-out headers that kernels use.
_DEFINED = {
    "FLT_MAX": "3.402823466e+38F",
    "FLT_MIN": "1.175494351e-38F",
    "FLT_EPSILON": "1.192092896e-07F",
    "DBL_MAX": "1.7976931348623158e+308",
    "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16",
    "INT_MAX": "2147483647",
    "INT_MIN": "(-2147483647 - 1)",
    "UINT_MAX": "0xffffffffu",
    "LLONG_MAX": "9223372036854775807LL",
    "M_PI": "3.14159265358979323846",
    "RAND_MAX": "2147483647",
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
    "SHRT_MAX": "32767",
    "SHRT_MIN": "(-32767 - 1)",
    "UCHAR_MAX": "255",
    "USHRT_MAX": "65535",
    "LLONG_MIN": "(-9223372036854775807LL - 1)",
    "ULLONG_MAX": "0xffffffffffffffffull",
    "LONG_MAX": "9223372036854775807L",
    "ULONG_MAX": "0xffffffffffffffffUL",
    "SIZE_MAX": "0xffffffffffffffffULL",
    "INT32_MAX": "2147483647",
    "INT32_MIN": "(-2147483647 - 1)",
    "UINT32_MAX": "0xffffffffu",
    "UINT8_MAX": "255",
    "UINT16_MAX": "65535",
    "INT64_MAX": "9223372036854775807LL",
    "UINT64_MAX": "0xffffffffffffffffull",
    "LONG_MIN": "(-9223372036854775807L - 1)",
    "M_LN10": "2.30258509299404568402",
    "M_LOG10E": "0.43429448190325182765",
    "M_2_SQRTPI": "1.12837916709551257390",
    "FLT_DIG": "6",
    "DBL_DIG": "15",
    "FLT_MANT_DIG": "24",
    "DBL_MANT_DIG": "53",
    "FLT_RADIX": "2",
    "SCHAR_MAX": "127",
    "SCHAR_MIN": "(-128)",
    "CHAR_MAX": "127",
    "CHAR_MIN": "(-128)",
    "INT8_MAX": "127",
    "INT8_MIN": "(-128)",
    "INT16_MAX": "32767",
    "INT16_MIN": "(-32767 - 1)",
    "INT64_MIN": "(-9223372036854775807LL - 1)",
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
_VERSIONS = {"CUDART_VERSION", "CUDA_VERSION", "__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__"}
#: That of the host is of the CUDA whose functions it has.
_VERSION = """#ifndef __CUDACC_RTC__
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9
#define CUDART_VERSION 12090
#endif
#ifndef CUDA_VERSION
#define CUDA_VERSION CUDART_VERSION
#endif"""
#: Begins the comment that names what is left out of a program.
LEFT_OUT = "Left out, as no code of kernels"
#: What the compilers of CUDA define, for programs that choose by them what runs on a GPU.
_COMPILER = {"__CUDACC__": "1", "__CUDA_ARCH__": "900"}
_TYPES = {
    **{f"int{n}_t": kind for n, kind in _WHOLE.items()},
    **{f"uint{n}_t": f"unsigned {kind.removeprefix('signed ')}" for n, kind in _WHOLE.items()},
    "intptr_t": "long long",
    "uintptr_t": "unsigned long long",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "clock_t": "long",
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


def _read(name: str, folders: tuple[Path, ...]) -> tuple[Path, str] | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path, path.read_text(encoding="utf-8-sig", errors="replace")
    return None


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines, with their line breaks, and the number of the last physical line of each."""
    held: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        held.append(line)
        if not line.rstrip("\r").endswith("\\"):
            yield number, "\n".join(held)
            held = []
    if held:
        yield number, "\n".join(held)


def assembled(source: str, label: str, folders: tuple[Path, ...] = ()) -> str:
    """A plain text with the files that it includes from folders, and without headers of the host's libraries.

    Args:
        source: CUDA C++.
        label: its name in compilers' messages.
        folders: the folders in which files in quotes are searched.
    """
    seen: set[Path] = set()
    used = set(re.findall(r"\w+", source))
    left_out: list[str] = []
    conditions = Conditions()

    def put(text: str, name: str, here: tuple[Path, ...]) -> str:
        lines = [f'#line 1 "{name}"']
        for number, line in _whole_lines(text):
            line = conditions.line(line, text)
            include = _INCLUDE.match(line.encode())
            if include is None:
                lines.append(line)
                continue
            wanted = (include[1] or include[2]).decode()
            own = _read(wanted, here) if include[2] is not None else None
            if own is not None:
                if own[0] not in seen:
                    seen.add(own[0])
                    lines += [put(own[1], wanted, (own[0].parent, *folders)), f'#line {number + 1} "{name}"']
                else:
                    lines.append("")
            elif wanted == "cub/cub.cuh":
                lines += [
                    f"#include <{part}>" for part in dict.fromkeys(_CUB[one] for one in _CUB if one in used)
                ]
                lines.append(f'#line {number + 1} "{name}"')
            elif include[2] is None and _OF_DEVICE.fullmatch(include[1]):
                lines.append(line)
            else:
                left_out.append(f"<{wanted}>" if include[2] is None else f'"{wanted}"')
                lines.append("")
        return "\n".join(lines)

    text, macros = without_host_macros(put(source, label, folders))
    defined = definitions(text)
    if "__forceinline__" in text:  # the host's compilers refuse it of functions that call themselves
        defined.append("#ifndef __CUDACC_RTC__\n#undef __forceinline__\n#define __forceinline__\n#endif")
    defined += _macros(text, _COMPILER)
    parts = ['#line 1 "prelude/plain"', *defined, text] if defined else [text]
    return "\n".join([*parts, *left_out_line([*dict.fromkeys(left_out), *macros])])


def left_out_line(names: Iterable[str]) -> list[str]:
    """The comment, as a line, that says what of a program is left out; none for nothing."""
    listed = ", ".join(names)
    return [f"// {LEFT_OUT}: {listed}"] if listed else []


def _macros(text: str, values: Mapping[str, str]) -> list[str]:
    words = set(re.findall(r"\w+", text))
    return [
        f"#ifndef {name.partition('(')[0]}\n#define {name} {value}\n#endif"
        for name, value in values.items()
        if name.partition("(")[0] in words
    ]


def definitions(text: str) -> list[str]:
    """Definitions of what a text may use of the headers that are left out, each with its own line breaks."""
    words = set(re.findall(r"\w+", text))
    declared = set(re.findall(r"\btypedef\b[^;{}]*?\b(\w+)\s*;|\busing\s+(\w+)\s*=", text))
    own = {name for names in declared for name in names}
    defined = [
        f"typedef {kind} {name};" for name, kind in _TYPES.items() if name in words and name not in own
    ]
    macros = _macros(text, {**_DEFINED, **_OLD})
    if "__builtin_" in text or any("__builtin_" in macro for macro in macros):
        defined.append(_BUILTINS)
    if any(word.startswith("CUDART_") and word not in _VERSIONS for word in words):
        defined.append("#include <math_constants.h>")
    if not words.isdisjoint(_VERSIONS):
        defined.append(_VERSION)
    return defined + macros
