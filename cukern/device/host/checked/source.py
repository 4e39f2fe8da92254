"""Translation of a kernel to C++ for checked launches: red zones around static shared memory, and an entry point."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from ....text.edits import Edit, edited
from ....text.scopes import declared_name
from ....text.signature import Unit
from ....text.syntax import in_function, part, syntax_tree, text_of, walk
from .. import texture
from ..compiler import HEADER
from ..elf import SIZE_OF_SHARED
from ..translate import (
    alignment_edits,
    barrier_edits,
    entry_words,
    needs_fibers,
    ptx_edits,
    shared_edit,
    variable_table,
)
from . import counting, dropped, fills

_ENTRY = """
#line 1 "cukern entry point"
extern "C" {{
CukernOwn cukern_own_values __asm__("cukern_own") __attribute__((visibility("hidden"), used));
CukernParams cukern_param_values __asm__("cukern_params") __attribute__((visibility("hidden"), used));
}}
namespace cukern {{
using Function = decltype(&::{name});
using Every = Numbers<{numbers}>;
constexpr unsigned param_bytes = offsets<Function>.at[Params<Function>::count];
static_assert(param_bytes <= sizeof cukern_params, "too many parameters");
static Dim* begin_threads(const Launch* launch, Dim block, void* shared) {{
    cukern_own_values.block = {{block.x, block.y, block.z}};
    cukern_own_values.block_size = {{launch->block.x, launch->block.y, launch->block.z}};
    cukern_own_values.grid_size = {{launch->grid.x, launch->grid.y, launch->grid.z}};
    dynamic_shared_base = shared;
    __builtin_memcpy(cukern_param_values.bytes, launch->params, param_bytes);
    {bindings}
    return (Dim*)&cukern_own_values;
}}
static void run_thread(const Launch*) {{
    {loads}
    ::{name}({arguments});
}}
}}
extern "C" __attribute__((visibility("default"), externally_visible)) const cukern::Kernel cukern_kernel = {{
    cukern::abi_version, cukern::Params<cukern::Function>::count, cukern::Params<cukern::Function>::sizes,
    &cukern::runtime, nullptr, cukern::begin_threads, cukern::run_thread}};
"""

#: By which a thread may spin, or leave a result that depends on the order of threads.
_SPINS = re.compile(
    r"\bvolatile\b(?!\s*\()|\batomic[A-Z]|\b(?:atom|red|mbarrier)\.|\bcp\.(?:reduce\.)?async\.bulk\b|"
    r"\b(?:ld|st)\.[\w.:]*\b(?:volatile|relaxed|acquire|release|mmio|cg|cv)\b"
)
#: Functions by which the order of threads makes a difference.
_OTHERS_WAIT = frozenset(["send_store", "send_tile", "until"])
#: By which a thread asks which lanes of its warp are active.
_ASKS = "__activemask", "coalesced_threads", "activemask.b32"
#: A lambda that copies what it names, which must not be an array in shared memory.
_COPIES = re.compile(r"\[\s*=")
_ALIGNED = re.compile(r"(?:\balignas|\b__align__)\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")


def _variables(node: tree_sitter.Node, text: bytes) -> str | None:
    """References to the memory of a declaration's variables; None if it cannot be read."""
    kind = part(node, "type")
    declarators = node.children_by_field_name("declarator")
    if kind is None or not declarators or node.has_error:
        return None
    own = text[node.start_byte : node.end_byte].decode()  # the tree's own text has no alignment
    aligned = "".join(f" __attribute__((aligned{size}))" for size in _ALIGNED.findall(own))
    volatile = "volatile " if re.search(r"\bvolatile\b", own) else ""
    parts = []
    for declarator in declarators:
        name = declared_name(declarator)
        if name is None:
            return None
        head = text[declarator.start_byte : name.start_byte].decode()
        tail = _ALIGNED.sub("", text[name.end_byte : declarator.end_byte].decode())
        type_text, word = text[kind.start_byte : kind.end_byte].decode(), text_of(name)
        parts.append(
            f"typedef {volatile}{type_text} {_ALIGNED.sub('', head)}cukern_type_{word}{tail}{aligned}; "
            f"static unsigned cukern_slot_{word}; "
            f"__attribute__((used)) static char {SIZE_OF_SHARED}{word}[sizeof(cukern_type_{word})]; "
            f'auto& {word} = cukern::shared_variable<cukern_type_{word}>(cukern_slot_{word}, "{word}");'
        )
    return " ".join(parts) + "\n" * own.count("\n")


def _static_shared_edits(unit: Unit, text: bytes) -> Iterator[Edit]:
    taken = [(one.start, one.end) for one in unit.dynamic_shared]
    for node in walk(syntax_tree(text)) if b"__shared__" in text else ():
        if node.type != "declaration" or not in_function(node):
            continue
        is_shared = any(child.text == b"__shared__" for child in node.children)
        is_taken = any(start < node.end_byte and node.start_byte < end for start, end in taken)
        if is_shared and not is_taken and (new := _variables(node, text)) is not None:
            yield node.start_byte, node.end_byte, new


def _rewritten(unit: Unit, filled: frozenset[str], arrays: bool, counts: bool) -> str:
    text = unit.text.encode()
    edits = [shared_edit(text, one) for one in unit.dynamic_shared]
    if not _COPIES.search(unit.text):
        edits.extend(_static_shared_edits(unit, text))
    spans = [(start, end) for start, end, _ in edits]
    edits += [*ptx_edits(unit), *barrier_edits(unit)]
    edits += dropped.edits(text)
    edits += [edit for _, edit in fills.declarations(text, filled)] if filled else []
    edits += [edit for _, _, edit in fills.arrays(text)] if arrays else []
    for edit in alignment_edits(text):
        if not any(start <= edit[0] < end for start, end in spans):
            edits.append(edit)
    taken = [(start, end) for start, end, _ in edits if start < end]
    for operation in counting.edits(text) if counts else ():
        if not any(start < at < end for at, _, _ in operation for start, end in taken):
            edits += operation
    return edited(text, edits).decode()


def depends_on_order(unit: Unit) -> bool:
    """Whether a kernel without races may give another result when its threads run in another order."""
    return _SPINS.search(unit.text) is not None or not _OTHERS_WAIT.isdisjoint(unit.calls)


def is_blind(unit: Unit) -> bool:
    """Whether no thread sees what its atomic operations find, and the order of these makes no difference to any."""
    others = _SPINS.sub(lambda found: "" if found[0].startswith("atomic") else found[0], unit.text)
    ordered = _SPINS.search(others) or takes_active_mask(unit) or not _OTHERS_WAIT.isdisjoint(unit.calls)
    return not ordered and "#include" not in unit.text and dropped.commute(unit.text.encode())


def takes_active_mask(unit: Unit) -> bool:
    """Whether a kernel asks which lanes are active."""
    return any(name in unit.text for name in _ASKS)


def runs_in_fibers(unit: Unit) -> bool:
    """Whether a thread of the kernel may wait for another one."""
    return needs_fibers(unit) or _SPINS.search(unit.text) is not None


def source(
    unit: Unit, filled: frozenset[str] = frozenset(), arrays: bool = True, counts: bool = False
) -> str:
    """The C++ text that is compiled for ``unit``, without the included headers.

    Args:
        filled: variables that get a value where they are declared: see :mod:`.fills`.
        arrays: whether arrays of a user's kernel do.
        counts: whether it counts its floating-point operations: see :mod:`.counting`.
    """
    entry = _ENTRY.format(**entry_words(unit, "cukern_params.bytes"))
    marks = "#define CUKERN_FIBERS\n" if needs_fibers(unit) else ""
    arrays = arrays and not unit.trusted
    preludes = f"{fills.PRELUDE if filled else ''}{fills.ARRAYS_PRELUDE if arrays else ''}"
    preludes += dropped.PRELUDE if dropped.is_needed(unit.text) else ""
    preludes += counting.PRELUDE if counts else ""
    head = f"#include <{HEADER}>\n{texture.header(unit.text)}{marks}{preludes}"
    return f"{head}{_rewritten(unit, filled, arrays, counts)}{entry}{variable_table(unit)}"
