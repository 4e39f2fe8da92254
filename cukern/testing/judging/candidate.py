"""The text of a candidate: what it may have, and the launches that its first lines declare.

The first lines are comments, each ``// WORD: ...``::

    // grid: divide_up(n, 256)
    // block: 256
    // shared: 4 * columns

for one launch of the kernel that the task names. Several launches begin with ``// launch: NAME(ARGUMENT, ...)`` each,
memory between them is ``// scratch: float parts[64]``, with ``= 0`` behind it if it begins as zeros. What follows
``// backward:`` is for the kernel of the derivative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import dtypes
from ...text import render
from ...text.edits import split
from ...text.signature import canonical
from .expressions import evaluate
from .task import Signature

#: The most characters of a text and of a line, blocks of a launch, and elements of memory between launches.
_LONGEST, _LONGEST_LINE, _MOST_BLOCKS, _MOST_SCRATCH = 1 << 18, 2000, 1 << 31, 1 << 26
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)|(?P<line>\n)|(?P<blank>[ \t\r\f\v]+)|(?P<mark>\#\#?|.)""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w*)[ \t]*(.*)")
_HEADERS = re.compile(
    r"<(?:cuda_runtime\.h|cuda_runtime_api\.h|cuda\.h|cuda_(?:fp16|bf16|fp8)\.h|device_launch_parameters\.h|cuComplex\.h|"
    r"cooperative_groups(?:/reduce|/scan|/memcpy_async)?\.h|cub/cub\.cuh|cub/(?:block|warp)/\w+\.cuh|math_constants\.h|"
    r"cuda_pipeline(?:_primitives)?\.h|c?std(?:int|def)(?:\.h)?|c?math(?:\.h)?|c?float(?:\.h)?|c?limits(?:\.h)?|"
    r"climits|cfloat|type_traits|limits)>"
)
#: Words that no kernel needs, each with what it would do.
_REFUSED = {
    **dict.fromkeys(("asm", "__asm__", "__asm"), "is assembly, which on the host would run as it stands"),
    **dict.fromkeys(("__attribute__", "__attribute", "__declspec"), "may run code outside a kernel"),
    **dict.fromkeys(
        ("_Pragma", "__has_include", "__has_include_next", "__has_embed"), "is for the compiler's host"
    ),
    **dict.fromkeys(
        ("clock", "clock64", "__clock", "__clock64", "globaltimer", "__globaltimer", "__nanosleep"),
        "lets a kernel tell when it is timed",
    ),
    **dict.fromkeys(("printf", "puts", "putchar", "vprintf"), "writes to the judge's output"),
    **dict.fromkeys(
        ("malloc", "free", "new", "delete", "alloca"), "takes memory that the task does not give"
    ),
    **dict.fromkeys(
        "system popen execv execve execl fork vfork syscall getenv setenv putenv environ dlopen dlsym dlclose fopen "
        "socket mmap mprotect sigaction _exit atexit setjmp longjmp ptrace stdin stdout stderr errno FILE fstream "
        "ifstream ofstream cout cin cerr pthread_create filesystem".split(),
        "reaches outside the kernel",
    ),
    **dict.fromkeys(("cukern", "cudaMalloc", "cudaMemcpy", "cudaLaunchKernel"), "belongs to the host"),
    **dict.fromkeys(
        ("throw", "try", "catch", "typeid", "dynamic_cast", "virtual", "co_await"),
        "is not for kernels",
    ),
    **dict.fromkeys(
        ("__float128", "_Float128", "__float80", "thread_local", "__thread"), "is not for kernels"
    ),
    **dict.fromkeys(("gnu", "clang", "constructor", "destructor", "ifunc"), "may run code outside a kernel"),
    **dict.fromkeys(
        ("__FILE__", "__DATE__", "__TIME__", "__TIMESTAMP__", "__COUNTER__"), "differs between builds"
    ),
}
_NO_MACRO = frozenset(
    "assert min max abs int float double half char short long unsigned signed bool void const volatile if else for "
    "while do return switch case break continue struct class template typename static extern inline sizeof threadIdx "
    "blockIdx blockDim gridDim warpSize defined asm true false constexpr using namespace operator private".split()
)
#: Words of compilers and of the host's runtime, and macros that tell one device from another.
_OF_COMPILER = re.compile(
    r"__(?:builtin|sync|atomic|cxa|libc|tsan|ubsan|asan|cukern|gnu)_|_mm\d*_|cukern_|CUKERN|_Z|__[A-Z][A-Z0-9_]*(?:__)?$"
)
#: Words of the text's own conditions that it need not define, as they are the same everywhere.
_SAME = frozenset(("__cplusplus", "defined"))
#: A constant that is defined where a header does not, with nothing else in the condition.
_DEFAULT = re.compile(
    r"[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t][^\n]*\n[ \t]*#[ \t]*endif"
)


class Refused(Exception):
    """A text is refused; ``reason`` is the code, ``line`` the line's number or 0."""

    def __init__(self, reason: str, message: str, line: int = 0) -> None:
        self.reason, self.line = reason, line
        super().__init__(message)


def _forbidden(message: str, text: str = "", at: int = -1) -> Refused:
    """The refusal of what is at an offset of a text."""
    return Refused("forbidden", message, text.count("\n", 0, at) + 1 if at >= 0 else 0)


@dataclass
class Launch:
    """One launch, whose parts are expressions."""

    name: str = ""
    args: list[str] | None = None
    grid: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    shared: str = "0"
    line: int = 0


@dataclass(frozen=True)
class Scratch:
    """Memory between launches: its C++ type, the number of elements as an expression, whether it begins as zeros."""

    name: str
    cxx: str
    size: str
    zeros: bool


@dataclass
class Part:
    """The launches that compute one signature."""

    launches: list[Launch] = field(default_factory=lambda: [Launch()])
    scratch: list[Scratch] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One launch with its numbers: ``args`` are names of arrays, or numbers."""

    name: str
    args: tuple[str | int | float, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int


def screen(text: str) -> None:
    """Refuse a text with anything that is not for kernels.

    Raises:
        Refused: it has such a thing.
    """
    if len(text) > _LONGEST:
        raise _forbidden(f"the text has {len(text)} characters, of at most {_LONGEST}")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LONGEST_LINE:
            raise Refused(
                "forbidden", f"a line has {len(line)} characters, of at most {_LONGEST_LINE}", number
            )
    known = _library_lines(text)
    screened = "\n".join("" if i in known else line for i, line in enumerate(text.split("\n")))
    screened = screened.replace("\r\n", "\n")
    hidden = re.search(r"\\[ \t]+\n", screened) or next(
        (m for m in re.finditer(r"[^\t\n -~]", screened) if not m[0].isprintable()), None
    )
    if hidden is not None:
        said = f"{ascii(hidden[0])[1:-1]}: compilers differ in how they read this, so it may hide words"
        raise _forbidden(said, screened, hidden.start())
    screened = _joined(screened)
    if re.search(r'\?\?[=/\'()!<>-]|%:|<%|%>|\b(?:u8|[uUL])?R"', screened):
        raise _forbidden("digraphs, trigraphs and raw strings are not taken: they hide words")
    _tokens(screened)
    plain = _without_comments(screened)
    _directives(plain)
    _linkage(plain)
    wide = re.search(r"\blong\s+double\b|\bdouble\s+long\b", plain)
    if wide is not None:
        raise _forbidden("long double is another type on a GPU", plain, wide.start())


def _joined(text: str) -> str:
    """Lines that a backslash continues as one, as compilers read them, with empty ones behind it for their numbers."""
    found, begun, more = [], "", 0
    for line in text.split("\n"):
        if line.endswith("\\"):
            begun, more = begun + line[:-1], more + 1
        else:
            found += [begun + line, *[""] * more]
            begun, more = "", 0
    return "\n".join([*found, begun] if begun else found)


def _library_lines(text: str) -> set[int]:
    """The lines that stand, word by word, in the library's own headers, as `#line` says.

    Lines that leave a condition open are none: what the text has between them would depend on the device.
    """
    found: set[int] = set()
    run: list[int] = []
    name, at, depth = "", 0, 0
    files: dict[str, list[str]] = {"": []}
    for i, line in enumerate([*text.split("\n"), ""]):
        match = re.fullmatch(r'#line (\d+) "([\w/.]+)"', line)
        if match is not None:
            name, at = match[2], int(match[1]) - 3
            if name not in files:
                files[name] = _template(name)
        own = files[name]
        at += 1
        from_file = own[at] if name.startswith("prelude/") and 0 <= at < len(own) else None
        if (own and match) or (from_file is not None and _rendered(from_file, line)):
            run += [i] if match or from_file == line else []
            word = _DIRECTIVE.fullmatch(line)
            kind = "" if word is None else word[1]
            depth += kind.startswith("if") - (kind == "endif")
            if depth < 0 or (depth == 0 and kind in ("else", "elif")):
                depth = 1 << 30
        else:
            found |= set() if depth else set(run)
            run, depth = [], 0
    return found


def _rendered(source: str, line: str) -> bool:
    """Whether a line is that of a template, with a name or an operator for each of its expressions."""
    pieces = [re.escape(piece) for piece in re.split(r"<< .*? >>", source)]
    return source == line or re.fullmatch(r"(?:\w+|[-+*/<>=!]+)".join(pieces), line) is not None


def _template(name: str) -> list[str]:
    try:
        return render.source_of(name).split("\n")
    except Exception:
        return []


def _tokens(text: str, line: int = 1) -> None:
    """Refuse words that no kernel needs, in a text that begins at a line."""
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            why = _REFUSED.get(found)
            if why is None and _OF_COMPILER.match(found):
                why = "belongs to the compiler or the host's runtime"
            if why is not None:
                raise Refused("forbidden", f"{found} {why}", line)
        elif kind == "mark" and (found == "##" or not found.isascii()):
            why = "makes words that are not seen" if found == "##" else "is no letter of C++"
            raise Refused("forbidden", f"{found} {why}", line)
        line += found.count("\n")


_SHARED = re.compile(r"\s*(?:__shared__|__align__\s*\([^()]*\)\s*__shared__)")


def _linkage(text: str) -> None:
    """Refuse declarations of what the text does not define, by which it would call the host's libraries."""
    for match in re.finditer(r"\b(?:extern|namespace)\b", text):
        rest = text[match.end() :]
        if match[0] == "namespace":
            own = re.match(r"\s*(?:std\b|__)", rest) is None
            good = own or "using" in text[: match.start()].split("\n")[-1]
        else:
            good = bool(re.match(r'\s*"C"\s*__global__\b[^;{]*\{', rest) or _SHARED.match(rest))
        if not good:
            said = " ".join((match[0] + rest.split("\n")[0]).split())[:60]
            why = "only kernels and dynamic shared memory are extern; std is the library's"
            raise _forbidden(f"{said}: {why}", text, match.start())


def _directives(text: str) -> None:
    """Refuse directives that reach outside, or that make the text depend on the compiler."""
    own: set[str] = set()
    depth = 0
    defaults = set(_DEFAULT.findall(text))
    text = _DEFAULT.sub(lambda m: re.sub(r"#[ \t]*(?:ifndef|endif)[^\n]*", "", m[0]), text)
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.fullmatch(line)
        if match is None:
            continue
        word, rest, refused = match[1], match[2].strip(), ""
        depth += word.startswith("if") - (word == "endif")
        said = f"#{word} {rest}"
        if word == "include" and not _HEADERS.fullmatch(rest):
            refused = f"{said}: of headers, those of CUDA for kernels and of numbers are taken"
        elif word in ("define", "undef"):
            name = re.match(r"\w*", rest)
            macro = "" if name is None else name[0]
            if macro.startswith("__") or macro in _NO_MACRO or _builtin(macro):
                refused = f"#{word} {macro}: a macro must not change what a word of CUDA C++ means"
            if depth == 0 and macro not in defaults:
                own.add(macro)
        elif word in ("if", "ifdef", "ifndef", "elif"):
            unknown = (one for one in re.findall(r"\b[A-Za-z_]\w*", rest) if one not in own | _SAME)
            if one := next(unknown, ""):
                refused = (
                    f"#{word} {one}: a text must mean the same on every device; it does not define {one}"
                )
        elif word == "pragma":
            refused = "" if re.match(r"(?:unroll|nounroll|once)\b", rest) else said
        elif word not in ("include", "else", "endif", "error", ""):
            refused = said
        if refused:
            raise Refused("forbidden", refused, number)


def _builtin(name: str) -> bool:
    return re.match(r"atomic[A-Z]|sync|cuda|blockDim|tex\dD|make_", name) is not None


def _without_comments(text: str) -> str:
    return "".join(
        re.sub(r"[^\n]", " ", match[0]) if match.lastgroup == "comment" else match[0]
        for match in _TOKEN.finditer(text)
    )


_HEAD = re.compile(r"[ \t]*//[ \t]*(grid|block|shared|launch|scratch|backward)[ \t]*:[ \t]*(.*?)[ \t\r]*")
_SCRATCH = re.compile(r"([\w ]+?)\s+(\w+)\s*\[([^\[\]]+)\]\s*(=\s*0)?")
_CALL = re.compile(r"([A-Za-z_][\w:]*(?:<[\w ,:]*>)?)\s*(?:\((.*)\))?")


def parts(text: str) -> tuple[Part, Part | None]:
    """The launches that the first lines declare, of the kernel and of its derivative.

    Raises:
        Refused: they are none.
    """
    forward, backward = Part(), None
    part, fresh = forward, True
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("//"):
            break
        match = _HEAD.fullmatch(line)
        if match is None:
            continue
        word, rest = match[1], match[2]
        if word == "backward":
            backward = part = Part()
            fresh = True
        elif word == "launch":
            call = _CALL.fullmatch(rest)
            if call is None:
                raise Refused("launch", f"expected // launch: NAME(ARGUMENT, ...), got {rest!r}", number)
            _tokens(call[1], number)
            args = None if call[2] is None else split(call[2], "([", ")]")
            launch = Launch(call[1], args, line=number)
            part.launches = [launch] if fresh else [*part.launches, launch]
            fresh = False
        elif word == "scratch":
            found = _SCRATCH.fullmatch(rest)
            cxx = "" if found is None else canonical(found[1], {})
            if found is None or (cxx != "T" and dtypes.from_cxx(cxx) is None):
                raise Refused(
                    "launch", f"expected // scratch: float NAME[SIZE] or ... = 0, got {rest!r}", number
                )
            part.scratch.append(Scratch(found[2], cxx, found[3], found[4] is not None))
        else:
            value: Any = rest if word == "shared" else split(rest, "([", ")]")
            setattr(part.launches[-1], word, value)
            part.launches[-1].line = part.launches[-1].line or number
    return forward, backward


def plan(
    part: Part,
    signature: Signature,
    entry: str,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    cxx: str,
) -> tuple[list[Step], dict[str, tuple[str, int, bool]]]:
    """The launches of a part for given sizes, and the type, size and zeros of its scratch memory.

    Args:
        part: what the text declares.
        signature: what it computes.
        entry: the kernel of the signature's name, with its template's arguments.
        sizes: the value of each size.
        scalars: the values of other scalars.
        cxx: what ``T`` stands for.

    Raises:
        Refused: an expression has no value, or a launch is too large.
    """
    names = dict(sizes)
    scratch = {}
    for one in part.scratch:
        count = _number(one.size, names, "scratch", 0)
        if not 0 <= count <= _MOST_SCRATCH:
            raise Refused(
                "launch", f"scratch {one.name}: expected 0 to {_MOST_SCRATCH} elements, got {count}"
            )
        scratch[one.name] = (cxx if one.cxx == "T" else one.cxx, count, one.zeros)
    arrays = {one.name for one in signature.parameters if one.shape is not None} | set(scratch)
    values = {**scalars, **names}
    steps = []
    for launch in part.launches:
        if not launch.grid or not launch.block:
            raise Refused(
                "launch", "expected the lines // grid: ... and // block: ... before the text", launch.line
            )

        def number(text: str, what: str, line: int = launch.line) -> int:
            return _number(text, names, what, line)

        given = launch.args if launch.args is not None else [one.name for one in signature.parameters]
        known: dict[str, str | float] = {**{one: one for one in arrays}, **values}
        args = tuple(known[arg] if arg in known else number(arg, "launch") for arg in given)
        grid = tuple(number(one, "grid") for one in launch.grid)
        block = tuple(number(one, "block") for one in launch.block)
        shared = number(launch.shared, "shared")
        _check(grid, block, shared, launch.line)
        name = re.sub(r"\bT\b", cxx, launch.name) if launch.name and launch.name != signature.name else entry
        steps.append(Step(name, args, grid, block, shared))
    return steps, scratch


def _number(text: str, names: Mapping[str, int], what: str, line: int) -> int:
    try:
        return evaluate(text, names)
    except ValueError as error:
        raise Refused("launch", f"{what}: {text.strip()}: {error}", line) from None


def _check(grid: tuple[int, ...], block: tuple[int, ...], shared: int, line: int) -> None:
    for what, sizes, most in (("grid", grid, _MOST_BLOCKS), ("block", block, 1024)):
        if not 1 <= len(sizes) <= 3 or min(sizes) < 0 or math.prod(sizes) > most:
            raise Refused(
                "launch", f"{what}: expected one to three sizes, together at most {most}, got {sizes}", line
            )
    if min(block) < 1 or not 0 <= shared <= 232448:
        raise Refused(
            "launch",
            f"expected blocks of threads, and up to 232448 bytes of shared memory, got {block}, {shared}",
            line,
        )
