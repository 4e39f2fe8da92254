"""A plain text with its includes expanded, and definitions in place of the host's headers, which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .conditions import Conditions

#: Headers of the host's libraries, which kernels do not need; NVRTC has none of them.
_HOST_HEADERS = re.compile(
    rb"[a-z_0-9]+|(?:assert|ctype|dirent|errno|fcntl|float|getopt|inttypes|iso646|limits|locale|malloc|math|memory|omp|"
    rb"pthread|sched|setjmp|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|values|wchar|"
    rb"sys/\w+|mpi|nccl|cuda|cuda_runtime|cuda_runtime_api|cuda_profiler_api|curand|cublas\w*|cudnn|cufft|cusolver\w*|"
    rb"cusparse|nvToolsExt|helper_\w+)\.h|(?:ATen|boost|c10|thrust|torch)/.*"
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
    "UINT64_C(x)": "x##ull",
    "UINT32_C(x)": "x##u",
    "INT64_C(x)": "x##ll",
}
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
    "__ballot": "(...) __ballot_sync(__activemask(), __VA_ARGS__)",
    "__any": "(...) __any_sync(__activemask(), __VA_ARGS__)",
    "__all": "(...) __all_sync(__activemask(), __VA_ARGS__)",
    "__shfl": "(...) __shfl_sync(__activemask(), __VA_ARGS__)",
    "__shfl_up": "(...) __shfl_up_sync(__activemask(), __VA_ARGS__)",
    "__shfl_down": "(...) __shfl_down_sync(__activemask(), __VA_ARGS__)",
    "__shfl_xor": "(...) __shfl_xor_sync(__activemask(), __VA_ARGS__)",
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
            elif include[2] is None and not _HOST_HEADERS.fullmatch(include[1]):
                lines.append(line)
            else:
                lines.append("")
        return "\n".join(lines)

    text = put(source, label, folders)
    words = set(re.findall(r"\w+", text))
    declared = set(re.findall(r"\btypedef\b[^;{}]*?\b(\w+)\s*;|\busing\s+(\w+)\s*=", text))
    own = {name for names in declared for name in names}
    defined = [
        f"typedef {kind} {name};" for name, kind in _TYPES.items() if name in words and name not in own
    ]
    defined += [
        f"#ifndef {name.partition('(')[0]}\n#define {name} {value}\n#endif"
        for name, value in _DEFINED.items()
        if name.partition("(")[0] in words
    ]
    defined += [
        f"#ifndef {name}\n#define {name}{value}\n#endif" for name, value in _OLD.items() if name in words
    ]
    if "__forceinline__" in words:  # the host's compilers refuse it of functions that call themselves
        defined.append("#ifndef __CUDACC_RTC__\n#undef __forceinline__\n#define __forceinline__\n#endif")
    defined += [
        f"#ifndef {name}\n#define {name} {value}\n#endif"
        for name, value in _COMPILER.items()
        if name in words
    ]
    return "\n".join([*(['#line 1 "prelude/plain"'] if defined else []), *defined, text])
