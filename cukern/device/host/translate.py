"""Translation of a kernel to C++ for the host: its text with small edits, and an entry point."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from ...text import COMMENT
from ...text.declarations import DynamicShared
from ...text.edits import Edit, edited
from ...text.signature import Unit
from ...text.std_names import own_at
from ...text.syntax import part, syntax_tree, text_of, walk
from ...text.variables import device_variables
from . import texture
from .compiler import HEADER

#: Functions that may wait, or that end a wait, or that ask what the runtime knows of fibers alone: a kernel that
#: reaches one runs its threads as fibers.
_COLLECTIVES = frozenset(
    ["__syncthreads", "__syncwarp", "__activemask", "__nanosleep", "__barrier_sync", "together", "until"]
    + ["__isShared", "__isLocal", "__isGlobal", "__cvta_shared_to_generic"]
    + [
        "require_mbarrier",  # in all that arrives at one, or lets it count
        "send_store",
        "send_tile",
        "commit_stores",
        "wait_stores",
        "wait_stores_read",
        "wgmma_commit",
        "wgmma_wait",
        "cluster_arrive",
        "cluster_arrive_relaxed",
        "cluster_wait",
        "__cluster_barrier_arrive",
        "__cluster_barrier_arrive_relaxed",
        "__cluster_barrier_wait",
    ]
    + [f"__syncthreads_{vote}" for vote in ("count", "and", "or")]
    + [f"__shfl{kind}_sync" for kind in ("", "_up", "_down", "_xor")]
    + [f"__{vote}_sync" for vote in ("ballot", "all", "any", "match_any", "match_all")]
    + [f"__reduce_{op}_sync" for op in ("add", "min", "max", "and", "or", "xor")]
)
_BUILTINS = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
#: A text without a match sets no ``int`` to a built-in variable.
_OF_BUILTIN = re.compile(rb"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_INT_OF_BUILTIN = re.compile(rb"\bint\s+\w[^;{}]*\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")

#: Static shared memory with ``alignas`` after ``__shared__``, outside comments and literals.
_SHARED_ALIGNED = re.compile(
    rb"""//.*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])'|"""
    rb"""(\b(?:(?:static|const|volatile)\s+)*__shared__\s[^;{}()=/"']*?"""
    rb"""((?:\balignas\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*)+))"""
)
#: Without a match there is none, also in a comment; this search takes a fraction of the time.
_ALIGNED = re.compile(rb"\b__shared__\s[^;]*?\balignas\b")

_BARRIER = re.compile(rb"\b__syncthreads\s*\(\s*\)")

#: What names functions of libcu++ that are instructions.
_OF_DEVICE = re.compile(r"\bcuda\s*::\s*(?:device|ptx)\b")


def shared_edit(text: bytes, shared: DynamicShared) -> Edit:
    """Replace a dynamic shared array by a pointer to the block's buffer, keeping the number of lines."""
    old = text[shared.start : shared.end].decode()
    inner = old.rpartition(shared.name)[2].partition("]")[2].rstrip().removesuffix(";").strip()
    declared = f"cukern::Pointer<{shared.type_text}{inner}> {shared.name}"
    # At file scope there is no buffer yet: the entry point sets the pointer for each block.
    new = (
        f"static thread_local {declared}"
        if shared.at_file_scope
        else f"const {declared} = cukern::dynamic_shared()"
    )
    # A macro leaves the semicolon to those who use it.
    return shared.start, shared.end, new + ";" * old.rstrip().endswith(";") + "\n" * old.count("\n")


def _index_terms(node: tree_sitter.Node) -> list[tree_sitter.Node] | None:
    """The built-in variables of a sum of products of these and integers; None for anything else."""
    text = (node.text or b"").decode()
    if node.type == "number_literal":
        return [] if text.isdigit() else None
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return _index_terms(node.named_children[0])
    if node.type == "field_expression":
        return [node] if text.partition(".")[0] in _BUILTINS else None
    if node.type != "binary_expression" or node.children[1].type not in ("+", "*"):
        return None
    left, right = _index_terms(node.children[0]), _index_terms(node.children[2])
    return None if left is None or right is None else left + right


def _index_edits(text: bytes) -> Iterator[Edit]:
    """Cast built-in variables to ``int`` in sums of products that initialise an ``int``.

    The value is the same, because an ``int`` could not hold a larger one. Signed arithmetic, which does not
    wrap around, shows the compiler that neighbouring threads use neighbouring elements, so it can vectorise them.
    """
    if not _INT_OF_BUILTIN.search(text):
        return
    for node in walk(
        syntax_tree(text), lambda one: not _OF_BUILTIN.search(text, one.start_byte, one.end_byte)
    ):
        value = part(node, "value")
        if node.type == "init_declarator" and value and text_of(part(node.parent, "type")) == "int":
            for term in _index_terms(value) or ():
                yield term.start_byte, term.start_byte, "(int)"


def alignment_edits(text: bytes) -> Iterator[Edit]:
    """Move ``alignas`` before ``__shared__``: C++ requires it first, CUDA's guide writes it second."""
    for match in _SHARED_ALIGNED.finditer(text) if _ALIGNED.search(text) else ():
        if match[1] is not None:
            yield match.start(2), match.end(2), ""
            yield match.start(1), match.start(1), match[2].decode() + " "


def barrier_edits(unit: Unit) -> Iterator[Edit]:
    """Tell barriers of a user's text that are on one line from each other."""
    text = b"" if unit.trusted else unit.text.encode()
    line, number = -1, 0
    for match in _BARRIER.finditer(text) if text.count(b"__syncthreads") > 1 else ():
        start = text.rfind(b"\n", 0, match.start())
        line, number = start, number + 1 if start == line else 0
        if number:
            yield match.start(), match.end(), f"::cukern::barrier_on_line({number})"


def ptx_edits(unit: Unit) -> Iterator[Edit]:
    """The edits that replace the inline PTX of a user's text by C++, and give it what it names of ``cuda::device``."""
    if _has_asm(unit):
        from .ptx import asm_edits

        yield from asm_edits(unit.text, unit.signature.cluster, _OF_DEVICE.search(unit.text) is not None)


def _has_asm(unit: Unit) -> bool:
    """Whether a user's text may have inline PTX, or functions that stand for it, which few programs have."""
    return not unit.trusted and ("asm" in unit.text or _OF_DEVICE.search(unit.text) is not None)


def _waits_in_asm(unit: Unit) -> bool:
    """Whether threads may wait for each other at an instruction of a unit's inline PTX."""
    if not _has_asm(unit):
        return False
    from .ptx import asm_waits

    return asm_waits(unit.text)


def _rewritten(unit: Unit, fibers: bool) -> str:
    text = unit.text.encode()
    edits = [shared_edit(text, shared) for shared in unit.dynamic_shared]
    if not fibers and "blockIdx" in unit.text:
        edits.extend(_index_edits(text))
    edits.extend(alignment_edits(text))
    edits.extend(ptx_edits(unit))
    edits.extend(barrier_edits(unit))
    return edited(text, edits).decode()


_ENTRY = """
#line 1 "cukern entry point"
namespace cukern {{
using Function = decltype(&::{name});
using Every = Numbers<{numbers}>;
static void enter_block(const Launch* launch, Dim block, void* shared) {{
    begin_block(launch, block, shared);
    {bindings}
}}
{run}
}}
extern "C" __attribute__((visibility("default"), externally_visible)) const cukern::Kernel cukern_kernel = {{
    cukern::abi_version, cukern::Params<cukern::Function>::count, cukern::Params<cukern::Function>::sizes,
    &cukern::runtime, {functions}}};
"""
_VARIABLES = """extern "C" __attribute__((visibility("default"), externally_visible))
const cukern::Variable cukern_variables[] = {{{rows}}};
"""

_IS_CONSTANT = """
bool cukern::is_constant(const void* address) {{
    [[maybe_unused]] const auto among = [address](const void* first, unsigned long long bytes) {{
        return (unsigned long long)address - (unsigned long long)first < bytes;
    }};
    return {among};
}}"""
_ASKS_CONSTANT = re.compile(r"\b__is(?:Constant|Global)\b|\bisspacep\b")

_PLAIN = """
static void run_blocks(
    const Launch* launch, unsigned long long first, unsigned long long count, void* shared) {{
    enter_block(launch, block_at(launch, first), shared);
    {loads}{place}
    const int x_end = launch->block.x, y_end = launch->block.y, z_end = launch->block.z;
    for (unsigned long long done = 0; done < count; ++done) {{{mark_block}
        for (int z = 0; z < z_end; ++z) {{
            threadIdx.z = z;{mark_z}
            for (int y = 0; y < y_end; ++y) {{
                threadIdx.y = y;{mark_y}
                for (int x = 0; x < x_end; ++x) {{
                    threadIdx.x = x;{mark_x}
                    ::{name}({arguments});
                }}
            }}
        }}
        next_block(launch);
    }}
}}"""

#: ``_PLAIN`` for blocks of one thread: without the loop over threads it compiles faster.
_SINGLE = """
static void run_blocks(
    const Launch* launch, unsigned long long first, unsigned long long count, void* shared) {{
    enter_block(launch, block_at(launch, first), shared);
    {loads}
    threadIdx = {{0, 0, 0}};
    for (unsigned long long done = 0; done < count; ++done) {{
        ::{name}({arguments});
        next_block(launch);
    }}
}}"""

# The current thread and block, kept in memory for the runtime, which reads them when it stops a kernel.
_MARKED = """
static thread_local Dim place[2];
static Dim* begin_threads(const Launch* launch, Dim block, void* shared) {{
    enter_block(launch, block, shared);
    return place;
}}"""
_PLACE = """
    volatile Dim* here = place;
    __asm__("" : "+r"(here));"""
_MARK_BLOCK = " here[1].x = blockIdx.x, here[1].y = blockIdx.y, here[1].z = blockIdx.z;"

_FIBERS = """
static Dim* begin_threads(const Launch* launch, Dim block, void* shared) {{
    enter_block(launch, block, shared);
    return (Dim*)&threadIdx;
}}
static void run_thread(const Launch* launch) {{
    {loads}
    ::{name}({arguments});
}}"""


#: Headers of which nearly every function is one of these.
_WAITING = re.compile(
    r"^\s*#\s*include\s*<(?:cooperative_groups|cub/|cuda/|cuda_pipeline|mma\.h)", re.MULTILINE
)


def variable_table(unit: Unit) -> str:
    """The table of the unit's variables, in the order of :func:`variables`, so that others find and set them, and
    what says of an address whether it is in a constant one.
    """
    variables = () if unit.trusted else device_variables(unit.text)
    rows = ", ".join(f"{{(void*)&::{one.name}, sizeof(::{one.name})}}" for one in variables)
    return (_VARIABLES.format(rows=rows) if rows else "") + _is_constant(unit)


def _is_constant(unit: Unit) -> str:
    """The function that says whether an address is in a ``__constant__`` variable of the unit, if it asks that."""
    if not _ASKS_CONSTANT.search(unit.text):
        return ""
    names = [one.name for one in device_variables(unit.text) if one.constant]
    among = " || ".join(f"among(&::{name}, sizeof(::{name}))" for name in names)
    return _IS_CONSTANT.format(among=among or "false")


def needs_fibers(unit: Unit) -> bool:
    """Whether the threads of the unit's kernel may wait for each other."""
    if _WAITING.search(unit.text) or _waits_in_asm(unit):
        return True
    return unit.signature.cluster != (1, 1, 1) or not _COLLECTIVES.isdisjoint(unit.calls)


# Constructs by which a thread may spin until another thread writes, without calling a collective function.
_MAY_SPIN = re.compile(r"\b(volatile|goto|while)\b(?!\s*\(\s*0\s*\))|\bfor\s*\([^;()]*;\s*;")


def keeps_place(unit: Unit) -> bool:
    """Whether a user's kernel without barriers records its running thread for error reports.

    It does if a thread may spin, or if the kernel uses shared memory, which is checked for each block.
    """
    if unit.trusted or needs_fibers(unit):
        return False
    text = COMMENT.sub(" ", unit.text[own_at(unit.text) :])
    atomic = any(name.startswith("atomic") for name in unit.calls)
    return atomic or "__shared__" in text or _MAY_SPIN.search(text) is not None


def entry_words(unit: Unit, params: str) -> dict[str, str]:
    """What entry points of a unit's kernel say of it.

    Args:
        params: the C++ of the packed parameters' address.
    """
    numbers = range(len(unit.signature.params))
    load = "const auto cukern_arg{0} = load_param<{0}, Function, Every>({1});"
    return {
        "name": unit.signature.name,
        "numbers": ", ".join(map(str, numbers)),
        "bindings": " ".join(
            f"::{d.name} = dynamic_shared();" for d in unit.dynamic_shared if d.at_file_scope
        ),
        "loads": "\n    ".join(load.format(i, params) for i in numbers),
        "arguments": ", ".join(f"cukern_arg{i}" for i in numbers),
    }


def source(unit: Unit) -> str:
    """The C++ text that is compiled for ``unit``, without the included headers."""
    words = entry_words(unit, "launch->params")
    fibers = needs_fibers(unit)
    alone = unit.signature.max_threads == 1
    marked = keeps_place(unit)
    parts = (_FIBERS,) if fibers else (_MARKED, _PLAIN) if marked else (_SINGLE,) if alone else (_PLAIN,)
    run = "".join(parts).format(
        **words,
        place=_PLACE if marked else "",
        mark_block=_MARK_BLOCK if marked else "",
        **{f"mark_{axis}": f" here->{axis} = {axis};" if marked else "" for axis in "xyz"},
    )
    functions = "nullptr, cukern::begin_threads, cukern::run_thread"
    if not fibers:
        functions = f"cukern::run_blocks, {'cukern::begin_threads' if marked else 'nullptr'}, nullptr"
    entry = _ENTRY.format(**words, run=run, functions=functions)
    # In angle brackets, because a quoted name could be a file in the current folder.
    marks = "#define CUKERN_FIBERS\n" if fibers else ""
    head = f"#include <{HEADER}>\n{texture.header(unit.text)}{marks}"
    return f"{head}{_rewritten(unit, fibers)}{entry}{variable_table(unit)}"
