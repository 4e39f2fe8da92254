"""A plain text with its includes expanded, and definitions in place of the host's headers, which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import TemplateError
from . import DEFAULT_STD, LEFT_OUT, STANDARD
from .build import STANDARDS, Build
from .conditions import Conditions
from .definitions import definitions, of_compiler
from .host_macros import without_host_macros
from .render import is_own, prelude

#: Headers with something for kernels. Of others, a kernel can use nothing but what `definitions` gives.
_OF_DEVICE = re.compile(
    r"(?:cuda|cub|cooperative_groups)/.*|(?:cooperative_groups|cuComplex|cuda_(?:bf16|fp\d+|pipeline|awbarrier)|"
    r"cuda_\w+_primitives|cu\w+_kernel|device_launch_parameters|math_constants|mma|vector_\w+)\.h"
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
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)
#: Files that are being included at most, as compilers have it.
_MOST_NESTED = 200


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
        if not line.endswith("\\"):
            yield number, "\n".join(held)
            held = []
    if held:
        yield number, "\n".join(held)


def assembled(source: str, label: str, folders: tuple[Path, ...] = (), build: Build | None = None) -> str:
    """A plain text with the files that it includes from folders, and without headers of the host's libraries.

    Args:
        source: CUDA C++.
        label: its name in compilers' messages.
        folders: the folders in which files in quotes are searched first.
        build: what the program's build gives its compiler.

    Raises:
        TemplateError: files include one another without end.
    """
    build = build or Build()
    folders = (*folders, *build.include)
    guards: dict[Path, str] = {}
    nested: list[str] = []
    seen_preludes: set[str] = set()
    used = set(re.findall(r"\w+", source))
    left_out: list[str] = []
    conditions = Conditions(STANDARDS[build.std])

    def put_file(path: Path, text: str, name: str) -> list[str]:
        if len(nested) == _MOST_NESTED:
            raise TemplateError(
                f"{label}: #include: expected at most {_MOST_NESTED} files, each in another, got more: "
                f"{' > '.join(nested[-2:])} > {name}"
            )
        nested.append(name)
        # Whether it is there already may be up to the compiler, as is what it was included in.
        file = path.resolve()  # as a/../b.h and b.h are one
        once = guards.setdefault(file, f"CUKERN_ONCE_{len(guards)}") if _ONCE.search(text) else None
        begun = [conditions.line(f"#{word} {once}", "") for word in ("ifndef", "define")] if once else []
        body = [put(text, name, (path.parent, *folders))] if conditions.active else []
        ended = [conditions.line("#endif", "")] if once else []
        nested.pop()
        return [*begun, *body, *ended]

    def put(text: str, name: str, here: tuple[Path, ...]) -> str:
        lines = [f'#line 1 "{name}"']
        for number, line in _whole_lines(text):
            line = conditions.line(line, text)
            include = _INCLUDE.match(line.encode())
            if _ONCE.fullmatch(line):
                lines.append("")
                continue
            if include is None:
                lines.append(line)
                continue
            wanted = (include[1] or include[2]).decode()
            own = _read(wanted, here if include[2] is not None else build.include)
            if own is not None:
                lines += [*put_file(*own, wanted), f'#line {number + 1} "{name}"']
            elif include[2] is not None and wanted.startswith("prelude/") and is_own(wanted):
                preludes = [prelude(wanted)] if wanted not in seen_preludes else []
                seen_preludes.add(wanted)
                lines += [*preludes, f'#line {number + 1} "{name}"']
            elif wanted == "cub/cub.cuh":
                lines += [
                    f"#include <{part}>" for part in dict.fromkeys(_CUB[one] for one in _CUB if one in used)
                ]
                lines.append(f'#line {number + 1} "{name}"')
            elif _OF_DEVICE.fullmatch(wanted):
                lines.append(f"#include <{wanted}>")
            else:
                left_out.append(f"<{wanted}>" if include[2] is None else f'"{wanted}"')
                lines.append("")
        return "\n".join(lines)

    parts = [put(build.text, "defines", ())] if build.defines else []
    text, macros = without_host_macros("\n".join([*parts, put(source, label, folders)]))
    defined = definitions(text) + of_compiler(text)
    parts = ['#line 1 "prelude/plain"', *defined, text] if defined else [text]
    parts += [f"// {STANDARD}{build.std}"] if build.std != DEFAULT_STD else []
    return "\n".join([*parts, *left_out_line([*dict.fromkeys(left_out), *macros])])


def left_out_line(names: Iterable[str]) -> list[str]:
    """The comment, as a line, that says what of a program is left out; none for nothing."""
    listed = ", ".join(names)
    return [f"// {LEFT_OUT}: {listed}"] if listed else []
