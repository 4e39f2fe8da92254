"""Translation of inline PTX to C++ for the host.

An ``asm`` statement becomes a block: a variable for each operand and register, a C++ statement for each instruction,
by the table of :mod:`.table`. What is not in it is refused by its name and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from ....errors import TemplateError
from ....text import Dim3
from ....text.line_directives import directive
from ....text.render import prelude
from .table import CXX, HALF, LIBRARY, MAPS, ROWS, Row

#: Strings, also raw ones; and these, comments and characters, in which nothing is looked for.
_STRING = re.compile(r'\bR"(?P<mark>[^()\\\s]*)\((?P<raw>(?s:.*?))\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\\n])*)"')
_COMMENT = r"//(?:[^\n\\]|\\\n?)*|(?s:/\*.*?\*/)"
_PASSED = rf"{_COMMENT}|{_STRING.pattern}|(?<!\w)'(?:\\.|[^'\\\n])+'"
_ASM = re.compile(
    rf"{_PASSED}|(?P<asm>\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__|__volatile)\b)?\s*\()"
)
_TOKEN = re.compile(rf"{_PASSED}|::|.", re.DOTALL)
_BRACKET = re.compile(rf"{_PASSED}|[()]")
_LINE = re.compile(r'^#line (\d+) "(.*)"$', re.MULTILINE)
#: The types of operands, by their letters.
_CONSTRAINTS = {
    "h": "unsigned short",
    "r": "unsigned",
    "l": "unsigned long long",
    "f": "float",
    "d": "double",
    "n": "long long",
    "C": "const char*",
}
_RANK = "(cukern::thread_rank() & 31)"
_SPECIAL = {
    "laneid": _RANK,
    "warpid": "(cukern::thread_rank() / 32)",
    "nwarpid": "((blockDim.x * blockDim.y * blockDim.z + 31) / 32)",
    "smid": "0u",  # as if there were one multiprocessor
    "nsmid": "1u",
    "gridid": "0ull",
    "clock": "(unsigned)clock64()",
    "clock_hi": "(unsigned)(clock64() >> 32)",
    "clock64": "clock64()",
    "globaltimer": "clock64()",
    "globaltimer_lo": "(unsigned)clock64()",
    "globaltimer_hi": "(unsigned)(clock64() >> 32)",
    "lanemask_eq": f"(1u << {_RANK})",
    "lanemask_lt": f"((1u << {_RANK}) - 1)",
    "lanemask_le": f"((2u << {_RANK}) - 1)",
    "lanemask_ge": f"(~0u << {_RANK})",
    "lanemask_gt": f"(~0u << {_RANK} << 1)",
    "cluster_ctarank": "cukern::runtime->cluster_rank()",
    "cluster_nctarank": "cukern::runtime->cluster_size()",
    # With the sizes of clusters, which `asm_edits` knows, for $x, $y and $z.
    **{f"clusterid.{a}": f"(blockIdx.{a} / ${a})" for a in "xyz"},
    **{f"nclusterid.{a}": f"(gridDim.{a} / ${a})" for a in "xyz"},
    **{f"cluster_ctaid.{a}": f"(blockIdx.{a} % ${a})" for a in "xyz"},
    **{f"cluster_nctaid.{a}": f"${a}" for a in "xyz"},
    **{f"tid.{a}": f"threadIdx.{a}" for a in "xyz"},
    **{f"ntid.{a}": f"blockDim.{a}" for a in "xyz"},
    **{f"ctaid.{a}": f"blockIdx.{a}" for a in "xyz"},
    **{f"nctaid.{a}": f"gridDim.{a}" for a in "xyz"},
}
_SPACES = re.compile(r"(?:global|shared|local|const|param)(?:::\w+)?")
_WAY_OUT = (
    "a GPU runs it; for the host, put C++ that does the same after #else of #ifdef __CUDACC_RTC__, which the compiler "
    "for GPUs defines"
)


@dataclass
class _Statement:
    """An ``asm`` statement while it is read.

    Attributes:
        where: its place, for messages.
        names: the C++ of its operands and registers, the innermost scope last.
        declared: the declarations of the variables of these.
        lines: the C++ of the instructions.
        labels: the labels that are jumped to.
        carries: whether an instruction has set the carry.
        needs: the headers of the instructions.
        in_place: whether outputs are variables of the text itself, as what is written later needs them.
    """

    where: str
    in_place: bool = False
    names: list[dict[str, str]] = field(default_factory=lambda: [{}])
    declared: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    carries: bool = False
    needs: dict[str, None] = field(default_factory=dict)

    def refused(self, instruction: str, why: str = "is none that the host knows") -> TemplateError:
        return TemplateError(f"{self.where}: inline PTX: {instruction!r} {why}; {_WAY_OUT}")

    def named(self, name: str) -> str | None:
        return next((scope[name] for scope in reversed(self.names) if name in scope), None)

    def value(self, operand: str) -> str:
        """The C++ of an operand, or of all in braces."""
        operand = operand.strip()
        if operand.startswith("{"):
            return ", ".join(self.value(one) for one in parts(operand.strip("{} "), ","))
        if operand.startswith("["):
            return self.address(operand)
        if operand.startswith("!"):
            return f"!{self.value(operand[1:])}"
        if operand == "_":
            return "cukern_dropped"
        if operand.startswith("%["):
            raise self.refused(
                operand, "is an operand by its name, and CUDA's compilers take it by number alone"
            )
        if re.fullmatch(r"%\d+", operand):
            if (known := self.named(operand)) is None:
                raise self.refused(operand, "is no operand of this statement")
            return known
        if operand.startswith("%"):
            return self.named(operand) or self.special(operand)
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", operand):
            return f"__int_as_float(0x{match[1]})"
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", operand):
            return f"__longlong_as_double(0x{match[1]}ll)"
        if re.fullmatch(r"-?(0[xXbB][0-9a-fA-F]+|\d+(\.\d*)?)U?", operand):
            return operand.rstrip("U")
        if (known := self.named(operand)) is not None:
            return known
        raise self.refused(operand, "is no operand or register of this statement")

    def special(self, operand: str) -> str:
        if operand[1:] not in _SPECIAL:
            raise self.refused(operand)
        return _SPECIAL[operand[1:]]

    def address(self, operand: str) -> str:
        """The address in ``[address + offset]``, as an integer."""
        match = re.fullmatch(r"\[\s*(%\[\w+\]|[^\s+\]-]+)\s*(?:([+-])\s*(-?[%\w]+))?\s*\]", operand)
        if match is None:
            raise self.refused(operand, "is no address here")
        return f"({self.value(match[1])}{f' {match[2]} {self.value(match[3])}' if match[2] else ''})"


def parts(text: str, mark: str) -> list[str]:
    """A text divided at a mark outside strings and brackets."""
    found, depth = [""], 0
    for piece in (match[0] for match in _TOKEN.finditer(text)):
        depth += (piece in "([{") - (piece in ")}]") if len(piece) == 1 else 0
        if piece == mark and depth == 0:
            found.append("")
        elif piece == "::" and mark == ":" and depth == 0:
            found += ["", ""]
        else:
            found[-1] += piece
    return found


def _written(string: re.Match[str]) -> str:
    """The text that a string stands for."""
    plain = (string["text"] or "").replace("\\n", "\n").replace("\\t", " ").replace("\\r", " ")
    return string["raw"] or plain.replace('\\"', '"')


def _inside(text: str) -> str:
    """A text up to the bracket that closes one before it."""
    depth = 1
    for match in _BRACKET.finditer(text):
        depth += (match[0] == "(") - (match[0] == ")")
        if depth == 0:
            return text[: match.start()]
    return text


def _carried(opcode: str, operands: list[str], statement: _Statement) -> str:
    """Sums, differences and products with the carry of the statement."""
    name, *words, kind = opcode.split(".")
    if kind not in ("u32", "s32", "u64", "s64", "b32", "b64"):
        raise statement.refused(opcode)
    uses, makes = name.endswith("c"), "cc" in words
    if uses and not statement.carries:
        raise statement.refused(opcode, "takes a carry from another asm statement")
    statement.carries = statement.carries or makes
    base = name.removesuffix("c")
    wide = "unsigned __int128" if kind.endswith("64") else "unsigned long long"
    d, *rest = (statement.value(one) for one in operands)
    if base == "mad":
        x, y = (f"({wide})cukern::in<{CXX[kind]}>({one})" for one in rest[:2])
        product = f"{x} * {y}"
        part = f"({product} >> {kind[1:]})" if "hi" in words else f"({CXX[kind]})({product})"
        rest = [part, rest[2]]
    carry = " cukern_carry" if uses else " 0"
    sign = "-" if base == "sub" else "+"
    a, b = (f"({CXX['u' + kind[1:]]})({one})" for one in rest)
    total = f"const {wide} cukern_t = ({wide}){a} {sign} {b} {sign}{carry};"
    store = f" cukern_carry = (unsigned)(cukern_t >> {kind[1:]}) & 1;" if makes else ""
    return f"{{ {total} cukern::out({d}, ({CXX[kind]})cukern_t);{store} }}"


def _moved(opcode: str, operands: list[str], statement: _Statement) -> str:
    """Copies of registers, and to and from the parts of one."""
    kind = opcode.rpartition(".")[2]
    to, source = operands
    size = int(kind[1:]) if kind[1:].isdigit() else 0
    if source.startswith("{"):
        pieces = [statement.value(one) for one in parts(source.strip("{} "), ",")]
        step, whole = size // len(pieces), CXX.get(kind, "unsigned")
        part = CXX.get(f"b{step}", "unsigned")
        value = " | ".join(
            f"({whole})cukern::in<{part}>({one}) << {i * step}" for i, one in enumerate(pieces)
        )
        return f"cukern::out({statement.value(to)}, ({whole})({value}));"
    if to.startswith("{"):
        pieces = [statement.value(one) for one in parts(to.strip("{} "), ",")]
        step, value = size // len(pieces), statement.value(source)
        each = " ".join(
            f"cukern::set_bits({one}, ({CXX[f'b{step}']})(cukern_t >> {i * step}));"
            for i, one in enumerate(pieces)
        )
        return f"{{ const auto cukern_t = cukern::bits_of({value}); {each} }}"
    if kind not in CXX:
        raise statement.refused(f"{opcode} {to}, {source}")
    if kind == "pred":
        return f"{statement.value(to)} = {statement.value(source)};"
    return f"cukern::out({statement.value(to)}, cukern::in<{CXX[kind]}>({statement.value(source)}));"


def _jumped(opcode: str, operands: list[str], statement: _Statement) -> str:
    """A jump to a label of the statement."""
    statement.labels.append(operands[0])
    return f"goto cukern_to_{operands[0].lstrip('$%')};"


#: Instructions that no row of the table can say.
_OF_ITS_OWN: list[tuple[re.Pattern[str], Callable[[str, list[str], _Statement], str]]] = [
    (re.compile(r"(?:addc|subc|madc)\..*|(?:add|sub|mad(?:\.lo|\.hi)?)\.cc\..*"), _carried),
    (re.compile(r"mov\.\w+"), _moved),
    (re.compile(r"bra(?:\.uni)?"), _jumped),
]


#: The words of an access to memory, in the order in which the table has them, whatever the order in an opcode.
_ACCESS = re.compile(r"(?:ld|st|atom|red)\..*")
_ORDER = (
    re.compile(r"weak|relaxed|acquire|release|acq_rel|volatile|mmio"),
    re.compile(r"cta|cluster|gpu|sys"),
    _SPACES,
)


def _rank(word: str) -> int:
    return next((i for i, pattern in enumerate(_ORDER) if pattern.fullmatch(word)), len(_ORDER))


@cache
def _found(opcode: str) -> tuple[Row, dict[str, str]] | None:
    if _ACCESS.fullmatch(opcode):
        name, *words = opcode.split(".")
        opcode = ".".join([name, *sorted(words, key=_rank)])
    for row in ROWS:
        if match := row.pattern.fullmatch(opcode):
            return row, {name: value or "" for name, value in match.groupdict().items()}
    return None


_PLACEHOLDER = re.compile(r"\$(?:\{(,?)(\w+)(?::(\w+))?\}|(\d+)|(at|to|from)\b|([aAbBcCtuq]))")
_POSITIONS = {"a": 1, "b": 2, "c": 3}


def _unsigned(kind: str) -> str:
    return "unsigned long long" if kind.endswith("64") else "unsigned"


def _filled(row: Row, groups: dict[str, str], opcode: str, operands: list[str], statement: _Statement) -> str:
    """The C++ of an instruction."""
    kind = groups.get("t", "")
    spaces = [word for word in opcode.split(".") if _SPACES.fullmatch(word)]
    first, bar, second = operands[0].partition("|") if operands else ("", "", "")
    given = [first, *operands[1:]] if bar else operands
    addresses = [one for one in given if one.startswith("[")]

    def operand(i: int) -> str:
        if i >= len(given):
            raise statement.refused(opcode, f"has {len(given)} operands here, fewer than it takes")
        return statement.value(given[i])

    def pointer(i: int) -> str:
        if i >= len(addresses):
            raise statement.refused(opcode, "names no address here")
        space, at = spaces[i] if i < len(spaces) else "", statement.value(addresses[i])
        return f"cukern::shared_at{at}" if space.startswith("shared") else f"(void*)(size_t){at}"

    def put(match: re.Match[str]) -> str:
        comma, name, mapped, number, address, letter = match.groups()
        if comma:
            return f", {operand(int(name))}" if int(name) < len(given) else ""
        if mapped == "matrix":  # in registers, or described
            return f"cukern::Words{{{{{operand(1)}}}}}" if given[1].startswith("{") else operand(1)
        if mapped == "tile":  # the map, and the place of a tile
            address, _, place = given[int(name)].strip("[] ").partition(",")
            return f"(const void*)(size_t){statement.value(address)}, {statement.value(place)}"
        if mapped and name.isdigit():  # as a value of a type
            return f"cukern::in<{CXX[groups.get(mapped, mapped)]}>({operand(int(name))})"
        if mapped == "given":
            return "true" if groups[name] else "false"
        if name:
            return MAPS[mapped].get(groups[name], "") if mapped else groups[name]
        if number:
            return operand(int(number))
        if address:
            return pointer(1 if address == "from" else 0)
        if letter == "q":
            return statement.value(second) if bar else "cukern_dropped"
        if letter in "tu":
            return CXX[kind] if letter == "t" else _unsigned(kind)
        value = f"cukern::in<{CXX[kind]}>({operand(_POSITIONS[letter.lower()])})"
        return value if letter.islower() else f"({_unsigned(kind)}){value}"

    code = _PLACEHOLDER.sub(put, row.code).strip()
    for header in (*row.needs, *(HALF if re.search(r"__half|__nv_bfloat16", code) else ())):
        statement.needs[header] = None
    if code.endswith((";", "}")):
        return f"{{ {code} }}" if code.count(";") > 1 else code
    value = code[1:] if code.startswith("=") else f"({CXX[kind]})({code})" if kind else code
    return f"cukern::out({operand(0)}, {value});"


def _instruction(text: str, statement: _Statement) -> str:
    guard = ""
    if match := re.match(r"@\s*(!?)\s*(\S+)\s+", text):
        guard, text = f"if ({match[1]}{statement.value(match[2])}) ", text[match.end() :]
    opcode, _, rest = text.partition(" ")
    operands = [one.strip() for one in parts(rest, ",") if one.strip()]
    for pattern, function in _OF_ITS_OWN:
        if pattern.fullmatch(opcode):
            return guard + function(opcode, operands, statement)
    if ".L2::cache_hint" in opcode:
        operands = operands[:-1]  # the policy
    found = _found(opcode)
    if found is None:
        raise statement.refused(text)
    return guard + _filled(*found, opcode, operands, statement)


def _operands(text: str, first: int, statement: _Statement, outputs: bool) -> list[str]:
    """Declare the operands' variables; return the assignments of the values of outputs."""
    given_back = []
    text = re.sub(r'\)\s*(?="[=+&]*\w"\s*\()', "), ", text)  # NVIDIA's compilers do without the comma
    for i, one in enumerate(part for part in parts(text, ",") if part.strip()):
        match = re.match(r'\s*(?:\[\s*\w+\s*\])?\s*"([=+&]*)(\w)"\s*\(', one)
        if match is None or match[2] not in _CONSTRAINTS:
            raise statement.refused(one.strip(), "is no operand of a kind that the host knows")
        kind, variable = _CONSTRAINTS[match[2]], f"cukern_{match[2]}{first + i}"
        expression = one[match.end() - 1 :].strip()
        statement.names[0][f"%{first + i}"] = variable
        if outputs and statement.in_place:
            statement.declared.append(f"auto& {variable} = {expression};")
            given_back.append("")
            continue
        if "+" in match[1] and re.search(r"\+\+|--|[^=!<>]=[^=]", expression):
            raise statement.refused(
                one.strip(), "changes something, and CUDA's compilers evaluate such operands twice"
            )
        if outputs and not re.fullmatch(r"\(\s*\w+\s*\)", expression):  # such as *p++, evaluated once
            statement.declared.append(f"auto&& {variable}_place = {expression};")
            expression = f"({variable}_place)"
        reads = not outputs or "+" in match[1]
        statement.declared.append(f"{kind} {variable} = {f'({kind}){expression}' if reads else '0'};")
        if outputs:
            given_back.append(f"cukern::give_back({expression}, {variable});")
    return given_back


def _declare(kind: str, names: str, statement: _Statement) -> None:
    """Declare registers, such as ``p, q`` or ``r<4>``."""
    for name, count in re.findall(r"([%$\w]+)\s*(?:<(\d+)>)?", names):
        for one in [f"{name}{i}" for i in range(int(count))] if count else [name]:
            variable = f"cukern_reg{len(statement.declared)}_{one.lstrip('%$')}"
            statement.names[-1][one] = variable
            statement.declared.append(f"{CXX[kind]} {variable} = {{}};")


def _instructions(code: str, statement: _Statement) -> None:
    """Read the instructions of a statement, with its scopes, labels and registers."""
    for raw in code.split(";"):
        text = " ".join(raw.split())
        while match := re.match(r"([{}])\s*|([$%\w]+)\s*:(?!:)\s*", text):
            if match[1] == "{":
                statement.names.append({})
            elif match[1] == "}":
                statement.names.pop()
            else:
                statement.lines.append(f"cukern_to_{match[2].lstrip('$%')}:;")
                statement.labels.append(match[2])
            text = text[match.end() :]
        if not text:
            continue
        if match := re.match(r"\.reg\s+\.(?:v\d\s+\.)?(\w+)\s+(.*)", text):
            if match[1] not in CXX:
                raise statement.refused(text)
            _declare(match[1], match[2], statement)
        else:
            statement.lines.append(_instruction(text, statement))


def _block(inside: str, where: str) -> tuple[str, dict[str, None]]:
    """The block of C++ that does what an ``asm`` statement says, and the headers that it needs."""
    statement = _Statement(where)
    # Without comments, and with the lines of a macro in one.
    inside = _ASM.sub(lambda match: " " if match[0][:2] in ("//", "/*") else match[0], inside)
    template, *sections = parts(inside.replace("\\\n", ""), ":")
    if unread := _STRING.sub(" ", template).strip():
        raise statement.refused(unread, "is no string, of which the text of an asm statement is made")
    code = "".join(_written(match) for match in _STRING.finditer(template))
    code = re.sub(r"//[^\n]*|(?s:/\*.*?\*/)", " ", code.replace("%%", "%")).replace("%=", "0")
    code = re.sub(r"%([{}|])", r"\1", code).replace("\n", " ")
    outputs, inputs = ([*sections, "", ""])[:2]
    statement.in_place = "wgmma.mma_async" in code
    given_back = _operands(outputs, 0, statement, True)
    _operands(inputs, len(given_back), statement, False)
    _instructions(code, statement)
    used = " ".join(statement.lines)
    own = ["unsigned cukern_carry = 0;"] if statement.carries else []
    own += ["[[maybe_unused]] cukern::Dropped cukern_dropped;"] if "cukern_dropped" in used else []
    labels = dict.fromkeys(f"cukern_to_{label.lstrip('$%')}" for label in statement.labels)
    local = [f"__label__ {', '.join(labels)};"] if labels else []
    body = " ".join([*local, *statement.declared, *own, *statement.lines, *given_back])
    return f"do {{ {body} }} while (0)", statement.needs


@dataclass(frozen=True)
class _Asm:
    """An ``asm`` statement of a text: where it is, in characters, and the C++ for it with the headers that it needs."""

    start: int
    end: int
    block: str
    needs: tuple[str, ...] = ()


def _statements(text: str) -> Iterator[_Asm]:
    marks = list(_LINE.finditer(text))
    for match in (one for one in _ASM.finditer(text) if one["asm"]):
        before = [mark for mark in marks if mark.start() < match.start()]
        if not before or before[-1][2].startswith("prelude/"):
            continue
        mark = before[-1]
        where = f"{mark[2]}:{int(mark[1]) + text.count(chr(10), mark.end(), match.start()) - 1}"
        inside = _inside(text[match.end() :])
        end = match.end() + len(inside) + 1
        needs: dict[str, None] = {}
        try:
            block, needs = _block(inside, where)
        except TemplateError as error:  # said by the compiler, if it compiles this branch at all
            said = str(error).replace("\\", "/").replace('"', "'")
            block = f'_Pragma("GCC error \\"{said}\\"")'
        broken = text[match.start() : end]
        # In a macro each line but the last ends with a backslash.
        lines = re.sub(r"[^\n\\]|\\(?!\n)", "", broken) if "\\\n" in broken else "\n" * broken.count("\n")
        yield _Asm(match.start(), end, block + (" " if lines else "") + lines, tuple(needs))


def _headers(needs: dict[str, None]) -> str:
    return "".join(f"{prelude(one)}\n" if "/" in one else f"#include <{one}>\n" for one in needs)


def asm_edits(text: str, cluster: Dim3 = (1, 1, 1), library: bool = False) -> Iterator[tuple[int, int, str]]:
    """Edits of a user's text, at offsets in bytes, that replace ``asm`` statements, by errors if they are unknown.

    Args:
        cluster: the blocks of the kernel's clusters along each axis.
        library: whether the text names functions of libcu++ that are instructions.
    """
    sizes = dict(zip(("$x", "$y", "$z"), map("{}u".format, cluster), strict=True))
    needs: dict[str, None] = dict.fromkeys(LIBRARY if library else ())
    for one in _statements(text):
        needs.update(dict.fromkeys(one.needs))
        block = re.sub(r"\$[xyz]\b", lambda match: sizes[match[0]], one.block)
        yield len(text[: one.start].encode()), len(text[: one.end].encode()), block
    own = next((mark for mark in _LINE.finditer(text) if not mark[2].startswith("prelude/")), None)
    if needs and own is not None:
        at = len(text[: own.start()].encode())
        yield at, at, f"{directive('prelude/ptx', 1)}\n{_headers(needs)}"


def asm_waits(text: str) -> bool:
    """Whether threads may wait for each other at an instruction of a text's ``asm`` statements."""
    return any(row.waits for row in _rows(text)) or ".shared" in text


def _rows(text: str) -> Iterator[Row]:
    for word in dict.fromkeys(re.findall(r"(?:\\[nt])*([a-z]\w*(?:\.[\w:]+)+)", text)):
        if found := _found(word):
            yield found[0]
