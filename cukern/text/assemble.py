"""A plain text with the files that it includes, and what left-out headers of the host define."""

from __future__ import annotations

import re
from pathlib import Path

#: Headers of the host's libraries, which kernels do not need; NVRTC has none of them.
_HOST_HEADERS = re.compile(
    rb"[a-z_0-9]+|(?:assert|ctype|errno|float|limits|math|memory|omp|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|"
    rb"time|unistd|sys/\w+|mpi|cuda|cuda_runtime|cuda_runtime_api|cuda_profiler_api|curand|cublas_v2|cufft|getopt|"
    rb"helper_\w+)\.h|thrust/.*"
)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)").*$', re.MULTILINE)
_WHOLE = {8: "signed char", 16: "short", 32: "int", 64: "long long"}
#: What the left-out headers define and kernels use, and functions of a warp that GPUs no longer have.
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
    **{f"int{n}_t": kind for n, kind in _WHOLE.items()},
    **{f"uint{n}_t": f"unsigned {kind.removeprefix('signed ')}" for n, kind in _WHOLE.items()},
}
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
            return path, path.read_text(encoding="utf-8", errors="replace")
    return None


def assembled(source: str, label: str, folders: tuple[Path, ...] = ()) -> str:
    """A plain text with the files that it includes from folders, and without headers of the host's libraries.

    Args:
        source: CUDA C++.
        label: the name that compilers' messages give it.
        folders: where files in quotes are looked for.
    """
    seen: set[Path] = set()

    def put(text: str, name: str, here: tuple[Path, ...]) -> str:
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(text.split("\n"), 1):
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
            elif include[2] is None and not _HOST_HEADERS.fullmatch(include[1]):
                lines.append(line)
            else:
                lines.append("")
        return "\n".join(lines)

    text = put(source, label, folders)
    words = set(re.findall(r"\w+", text))
    defined = [
        f"#ifndef {name}\n#define {name} {value}\n#endif" for name, value in _DEFINED.items() if name in words
    ]
    defined += [
        f"#ifndef {name}\n#define {name}{value}\n#endif" for name, value in _OLD.items() if name in words
    ]
    return "\n".join([*(['#line 1 "prelude/plain"'] if defined else []), *defined, text])
