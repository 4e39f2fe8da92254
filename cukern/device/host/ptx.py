"""Translation of common inline PTX to C++ for the host.

An ``asm`` statement becomes a block: a variable for each operand, a C++ statement for each instruction, by the meaning
that NVIDIA's PTX ISA gives it. What is not among these instructions is refused by its name and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import TemplateError

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__|__volatile)?\s*\(")
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_LINE = re.compile(r'^#line (\d+) "(.*)"$', re.MULTILINE)
#: Conversions for which the host has functions in a header.
_HALF = re.compile(r'"[^"\n]*\bcvt\.[\w.]*\bb?f16\b')
#: Instructions at which threads wait for each other.
WAITS = re.compile(r'"[^"\n]*\b(?:bar\.|barrier\.|shfl\.|vote\.|activemask|nanosleep|redux|match\.)')

_CONSTRAINTS = {
    "h": "unsigned short",
    "r": "unsigned",
    "l": "unsigned long long",
    "f": "float",
    "d": "double",
    "n": "long long",
}
_TYPES = {
    "b8": "unsigned char",
    "u8": "unsigned char",
    "s8": "signed char",
    "b16": "unsigned short",
    "u16": "unsigned short",
    "s16": "short",
    "b32": "unsigned",
    "u32": "unsigned",
    "s32": "int",
    "b64": "unsigned long long",
    "u64": "unsigned long long",
    "s64": "long long",
    "f32": "float",
    "f64": "double",
    "pred": "bool",
}
_WIDER = {"u16": "unsigned", "s16": "int", "u32": "unsigned long long", "s32": "long long"}
_RANK = "(cukern::thread_rank() & 31)"
_SPECIAL = {
    "laneid": _RANK,
    "warpid": "(cukern::thread_rank() / 32)",
    "clock": "(unsigned)clock64()",
    "clock64": "clock64()",
    "globaltimer": "clock64()",
    "lanemask_eq": f"(1u << {_RANK})",
    "lanemask_lt": f"((1u << {_RANK}) - 1)",
    "lanemask_le": f"((2u << {_RANK}) - 1)",
    "lanemask_ge": f"(~0u << {_RANK})",
    "lanemask_gt": f"(~0u << {_RANK} << 1)",
    **{f"tid.{a}": f"threadIdx.{a}" for a in "xyz"},
    **{f"ntid.{a}": f"blockDim.{a}" for a in "xyz"},
    **{f"ctaid.{a}": f"blockIdx.{a}" for a in "xyz"},
    **{f"nctaid.{a}": f"gridDim.{a}" for a in "xyz"},
}
_OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "div": "/", "rem": "%"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<="}
_COMPARED |= {"hi": ">", "hs": ">="}
_FUNCTIONS = {
    "ex2": "exp2(a)",
    "lg2": "log2(a)",
    "rcp": "1 / a",
    "sqrt": "sqrt(a)",
    "rsqrt": "rsqrt(a)",
    "sin": "sin(a)",
    "cos": "cos(a)",
    "tanh": "tanh(a)",
}
_WHOLE_OF = {
    "popc": {"b32": "__popc(a)", "b64": "__popcll(a)"},
    "clz": {"b32": "__clz(a)", "b64": "__clzll(a)"},
    "brev": {"b32": "__brev(a)", "b64": "__brevll(a)"},
}
_ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor", "exch": "Exch"}
_ROUNDED = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@dataclass
class _Statement:
    """An ``asm`` statement while it is read: the C++ of its names, and whether an instruction has set the carry."""

    where: str
    names: dict[str, str] = field(default_factory=dict)
    carries: bool = False

    def refused(self, instruction: str, why: str = "is none that the host knows") -> TemplateError:
        return TemplateError(f"{self.where}: inline PTX: {instruction!r} {why}; a GPU runs it")

    def value(self, operand: str) -> str:
        operand = operand.strip()
        if operand.startswith("%"):
            return self.names.get(operand[1:].strip("[]")) or self.special(operand)
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", operand):
            return f"__int_as_float(0x{match[1]})"
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", operand):
            return f"__longlong_as_double(0x{match[1]}ll)"
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+(\.\d+)?)U?", operand):
            return operand.rstrip("U")
        if operand in self.names:
            return self.names[operand]
        raise self.refused(operand, "is no operand or register of this statement")

    def special(self, operand: str) -> str:
        if operand[1:] not in _SPECIAL:
            raise self.refused(operand)
        return _SPECIAL[operand[1:]]

    def memory(self, operand: str, kind: str) -> str:
        """The memory at ``[address + offset]``."""
        match = re.fullmatch(r"\[\s*(%\[\w+\]|[^\s+\]]+)\s*(?:\+\s*(-?\w+))?\s*\]", operand.strip())
        if match is None:
            raise self.refused(operand, "is no address here")
        return f"((({kind}*)({self.value(match[1])} + {match[2] or 0})))"


def _parts(text: str, mark: str) -> list[str]:
    """A text divided at a mark outside strings and brackets."""
    parts, depth = [""], 0
    for piece in re.findall(r'"(?:\\.|[^"\\])*"|.', text, re.DOTALL):
        depth += (piece in "([{") - (piece in ")]}")
        if piece == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _inside(text: str) -> str:
    """A text up to the bracket that closes one before it."""
    depth = 1
    for match in re.finditer(r'"(?:\\.|[^"\\])*"|[()]', text):
        depth += (match[0] == "(") - (match[0] == ")")
        if depth == 0:
            return text[: match.start()]
    return text


def _integer(kind: str) -> bool:
    return kind[0] in "bus"


def _carried(name: str, words: list[str], kind: str, given: list[str], statement: _Statement) -> str:
    """Sums, differences and products with the carry of the statement."""
    uses, makes = name.endswith("c"), "cc" in words
    if uses and not statement.carries:
        raise statement.refused(".".join([name, *words, kind]), "takes a carry from another asm statement")
    statement.carries = statement.carries or makes
    base = name.removesuffix("c")
    wide = "unsigned __int128" if kind.endswith("64") else "unsigned long long"
    d, *rest = given
    if base == "mad":
        product = f"({wide}){rest[0]} * {rest[1]}"
        part = f"({product} >> {kind[1:]})" if "hi" in words else f"({_TYPES[kind]})({product})"
        rest = [part, rest[2]]
    carry = " cukern_carry" if uses else " 0"
    sign = "-" if base == "sub" else "+"
    a, b = (f"({_TYPES[kind]})({one})" for one in rest)
    total = f"const {wide} cukern_t = ({wide}){a} {sign} {b} {sign}{carry};"
    store = f" cukern_carry = (unsigned)(cukern_t >> {kind[1:]}) & 1;" if makes else ""
    return f"{{ {total} {d} = ({_TYPES[kind]})cukern_t;{store} }}"


def _arithmetic(name: str, words: list[str], kind: str, given: list[str]) -> str | None:
    """The value of an instruction of operands of one type; None for others."""
    t = _TYPES[kind]
    a, b, c = ([f"(({t}){one})" for one in given[1:]] + ["", "", ""])[:3]
    plain = set(words) <= {"rn", "ftz", "approx", "full", "lo", "sat"} and "sat" not in words
    wrap = t.replace("int", "unsigned") if t == "int" else "unsigned long long" if t == "long long" else t
    if name in _OPERATORS and plain:
        if _integer(kind) and name in ("add", "sub"):
            return f"({wrap}){a} {_OPERATORS[name]} ({wrap}){b}"
        return f"{a} {_OPERATORS[name]} {b}"
    if name in ("mul", "mad", "fma") and (plain or "hi" in words or "wide" in words):
        return _product(name, words, kind, (a, b, c), wrap)
    if name in ("min", "max") and plain:
        return (
            f"f{name}({a}, {b})" if kind[0] == "f" else f"{a} {'<' if name == 'min' else '>'} {b} ? {a} : {b}"
        )
    if name == "abs" and plain:
        return f"fabs({a})" if kind[0] == "f" else f"{a} < 0 ? -{a} : {a}"
    if name in ("neg", "not"):
        return (
            f"{'-' if name == 'neg' else '~'}{a}" if kind[0] == "f" or name == "not" else f"0 - ({wrap}){a}"
        )
    if name in ("shl", "shr"):
        over = f"{a} < 0 ? -1 : 0" if kind[0] == "s" and name == "shr" else "0"
        return (
            f"(unsigned){given[2]} < {kind[1:]} ? {a} {'<<' if name == 'shl' else '>>'} {given[2]} : {over}"
        )
    if name in _FUNCTIONS and plain and kind[0] == "f":
        return _FUNCTIONS[name].replace("a)", f"{a})").replace("/ a", f"/ {a}")
    if name in _WHOLE_OF and kind in _WHOLE_OF[name]:
        return _WHOLE_OF[name][kind].replace("(a)", f"({a})")
    if name == "copysign":
        return f"copysign({b}, {a})"
    return None


def _product(name: str, words: list[str], kind: str, given: tuple[str, str, str], wrap: str) -> str | None:
    a, b, c = given
    if kind[0] == "f":
        if name == "mul":
            return f"{a} * {b}"
        return f"fma{'f' if kind == 'f32' else ''}({a}, {b}, {c})"
    if "wide" in words:
        wide = _WIDER.get(kind)
        if wide is None:
            return None
        c = c.replace(f"({_TYPES[kind]})", f"({wide})", 1)
        return f"({wide}){a} * ({wide}){b}" + (f" + {c}" if name == "mad" else "")
    if "hi" in words:
        wide = ("unsigned " if kind[0] != "s" else "") + ("__int128" if kind[1:] == "64" else "long long")
        product = f"(({wide}){a} * {b} >> {kind[1:]})"
    else:
        product = f"({wrap}){a} * ({wrap}){b}"
    return f"({wrap})({product}) + ({wrap}){c}" if name == "mad" else product


def _bits(name: str, words: list[str], kind: str, given: list[str]) -> str | None:
    """The value of an instruction on bits."""
    a = given[1:]
    if name == "lop3":
        return f"cukern::lop3({', '.join(a[:4])})"
    if name == "prmt" and not words:
        return f"__byte_perm({', '.join(a)})"
    if name == "shf" and len(words) == 2:
        return f"__funnelshift_{words[0]}{'c' if words[1] == 'clamp' else ''}({', '.join(a)})"
    if name == "bfe" and kind in ("u32", "s32"):
        return f"cukern::bit_field<{_TYPES[kind]}>({', '.join(a)})"
    if name == "bfi" and kind == "b32":
        return f"cukern::with_bit_field({', '.join(a)})"
    if name == "dp4a":
        return f"__dp4a({', '.join(f'({_TYPES[kind]}){one}' for one in a)})"
    if name == "sad":
        return f"__{'u' if kind[0] == 'u' else ''}sad({', '.join(a)})"
    return None


def _converted(words: list[str], kinds: list[str], value: str) -> str | None:
    to, source = kinds
    words = [word for word in words if word != "ftz"]
    if source == "f16" and not words:
        return f"cukern::from_half_bits({value})" if to == "f32" else None
    if to == "f16":
        return f"cukern::to_half_bits({value})" if source == "f32" and words == ["rn"] else None
    if to == "bf16":
        return f"cukern::to_bfloat_bits({value})" if source == "f32" and words == ["rn"] else None
    value = f"({_TYPES[source]}){value}"
    if source[0] == "f" and _integer(to):
        rounding = next((word for word in words if word in _ROUNDED), None)
        if rounding is None or to not in ("s32", "u32", "s64", "u64"):
            return None
        name = {"s32": "int", "u32": "uint", "s64": "ll", "u64": "ull"}[to]
        direction = {"rni": "rn", "rzi": "rz", "rmi": "rd", "rpi": "ru"}[rounding]
        return f"__{'float' if source == 'f32' else 'double'}2{name}_{direction}({value})"
    return f"({_TYPES[to]})({value})" if set(words) <= {"rn"} else None


def _memory(name: str, words: list[str], kind: str, operands: list[str], statement: _Statement) -> str | None:
    """Loads, stores and atomics."""
    if "shared" in words or "local" in words or "const" in words or "param" in words:
        if not any(re.search(r"\[\s*%", one) for one in operands) or "shared" not in words:
            return None
        address = next(one for one in operands if "[" in one)
        inner = re.search(r"\[\s*(%\[\w+\]|[^\s+\]]+)", address)
        if inner is None or not statement.value(inner[1]).startswith("cukern_l"):
            raise statement.refused(
                ".".join([name, *words, kind]), "takes an address of 32 bits, which the host's do not fit"
            )
    t = _TYPES[kind]
    count = next((int(word[1]) for word in words if word in ("v2", "v4")), 1)
    if name in ("ld", "ldu", "st"):
        values, at = (operands[0], operands[1]) if name != "st" else (operands[1], operands[0])
        parts = _parts(values.strip().strip("{}"), ",") if count > 1 else [values]
        memory = statement.memory(at, ("volatile " if "volatile" in words else "") + t)
        if len(parts) != count:
            return None
        if name == "st":
            return " ".join(f"{memory}[{i}] = ({t}){statement.value(one)};" for i, one in enumerate(parts))
        loads = " ".join(f"const {t} cukern_t{i} = {memory}[{i}];" for i in range(count))
        return f"{{ {loads} {' '.join(f'{statement.value(one)} = cukern_t{i};' for i, one in enumerate(parts))} }}"
    operation = next((word for word in words if word in (*_ATOMICS, "cas", "inc", "dec")), None)
    if operation is None or count != 1:
        return None
    if name == "red":
        operands = ["", *operands]
    at, rest = statement.memory(operands[1], t), [f"({t}){statement.value(one)}" for one in operands[2:]]
    function = {"cas": "CAS", "inc": "Inc", "dec": "Dec"}.get(operation) or _ATOMICS[operation]
    call = f"atomic{function}({at}, {', '.join(rest)});"
    return call if name == "red" else f"{statement.value(operands[0])} = {call}"


def _meeting(opcode: str, operands: list[str], statement: _Statement) -> str | None:
    """Barriers, votes, shuffles, fences, and hints."""
    if re.fullmatch(
        r"fence\.(proxy\.async(\.shared::(cta|cluster))?|mbarrier_init\.release\.cluster)", opcode
    ):
        return "cukern::runtime->fence_to_async();"
    if re.match(r"(membar|fence)\.", opcode):
        return "__threadfence();"
    if opcode.startswith(("prefetch", "pmevent", "griddepcontrol")):
        return ";"
    if not re.match(r"(bar|barrier|trap|nanosleep|activemask|vote|shfl)\b", opcode):
        return None
    given = [statement.value(one.partition("|")[0]) for one in operands]
    if opcode in ("bar.sync", "barrier.sync", "bar.sync.aligned") and operands == ["0"]:
        return "__syncthreads();"
    if opcode == "bar.warp.sync":
        return f"__syncwarp({given[0]});"
    if opcode == "trap":
        return "__trap();"
    if opcode == "nanosleep.u32":
        return f"__nanosleep({given[0]});"
    if opcode == "activemask.b32":
        return f"{given[0]} = __activemask();"
    if match := re.fullmatch(r"vote\.sync\.(ballot\.b32|any\.pred|all\.pred)", opcode):
        return f"{given[0]} = __{match[1].partition('.')[0]}_sync({given[2]}, {given[1]});"
    if match := re.fullmatch(r"shfl\.sync\.(idx|up|down|bfly)\.b32", opcode):
        if "|" in operands[0] or given[3] not in ("31", "0x1f", "0", "0x0"):
            return None
        name = {"idx": "", "up": "_up", "down": "_down", "bfly": "_xor"}[match[1]]
        return f"{given[0]} = __shfl{name}_sync({given[4]}, {given[1]}, {given[2]});"
    return None


def _instruction(text: str, statement: _Statement) -> str:
    guard = ""
    if match := re.match(r"@(!?)\s*(\S+)\s+", text):
        guard, text = f"if ({match[1]}{statement.value(match[2])}) ", text[match.end() :]
    opcode, _, rest = text.partition(" ")
    operands = [one.strip() for one in _parts(rest, ",") if one.strip()]
    if code := _meeting(opcode, operands, statement) if not opcode.startswith(".") else None:
        return guard + code
    name, *words = opcode.split(".")
    kinds = [word for word in words if word in _TYPES or word in ("f16", "bf16")]
    words = [word for word in words if word not in kinds]
    if name == "cvt" and len(kinds) == 2:
        value = _converted(words, kinds, statement.value(operands[1]))
        if value is not None:
            return f"{guard}{statement.value(operands[0])} = {value};"
        raise statement.refused(text)
    if name in ("cvta", "mov") and len(kinds) == 1:
        return guard + _moved(operands, kinds[0], statement)
    if len(kinds) != 1 or kinds[0] not in _TYPES:
        raise statement.refused(text)
    if name in ("ld", "ldu", "st", "atom", "red"):
        code = _memory(name, words, kinds[0], operands, statement)
        if code is None:
            raise statement.refused(text)
        return guard + code
    return guard + _computed(name, words, kinds[0], operands, text, statement)


def _computed(
    name: str, words: list[str], kind: str, operands: list[str], text: str, statement: _Statement
) -> str:
    given = [statement.value(one) for one in operands]
    t = _TYPES[kind]
    if name in ("addc", "subc", "madc") or "cc" in words:
        return _carried(name, words, kind, given, statement)
    if name == "setp" and words and words[0] in _COMPARED:
        return f"{given[0]} = ({t}){given[1]} {_COMPARED[words[0]]} ({t}){given[2]};"
    if name == "selp":
        return f"{given[0]} = {given[3]} ? ({t}){given[1]} : ({t}){given[2]};"
    value = _arithmetic(name, words, kind, given) or _bits(name, words, kind, given)
    if value is None:
        raise statement.refused(text)
    wide = "wide" in words
    return f"{given[0]} = {value};" if wide else f"{given[0]} = ({t})({value});"


def _moved(operands: list[str], kind: str, statement: _Statement) -> str:
    to, source = operands
    size = int(kind[1:]) if kind[1:].isdigit() else 0
    if source.startswith("{"):
        parts = [statement.value(one) for one in _parts(source.strip("{}"), ",")]
        step = size // len(parts)
        whole = " | ".join(
            f"({_TYPES[kind]})cukern::bits_of({one}) << {i * step}" for i, one in enumerate(parts)
        )
        return f"{statement.value(to)} = {whole};"
    if to.startswith("{"):
        parts = [statement.value(one) for one in _parts(to.strip("{}"), ",")]
        step = size // len(parts)
        value, part = statement.value(source), _TYPES[f"b{step}"]
        return " ".join(
            f"cukern::set_bits({one}, ({part})(cukern::bits_of({value}) >> {i * step}));"
            for i, one in enumerate(parts)
        )
    return f"cukern::set_bits({statement.value(to)}, {statement.value(source)});"


def _operands(text: str, first: int, statement: _Statement, outputs: bool) -> tuple[list[str], list[str]]:
    """The declarations of the operands' variables, and for outputs the assignments of their values."""
    declared, given_back = [], []
    for i, one in enumerate(part for part in _parts(text, ",") if part.strip()):
        match = re.match(r'\s*(?:\[\s*(\w+)\s*\])?\s*"([=+&]*)(\w)"\s*\(', one)
        if match is None or match[3] not in _CONSTRAINTS:
            raise statement.refused(one.strip(), "is no operand of a kind that the host knows")
        kind, variable = _CONSTRAINTS[match[3]], f"cukern_{match[3]}{first + i}"
        expression = one[match.end() - 1 :].strip()
        statement.names[str(first + i)] = variable
        if match[1]:
            statement.names[match[1]] = variable
        reads = not outputs or "+" in match[2]
        declared.append(f"{kind} {variable} = {f'({kind}){expression}' if reads else '0'};")
        if outputs:
            given_back.append(f"{expression} = {variable};")
    return declared, given_back


def _block(inside: str, where: str) -> str:
    """The block of C++ that does what an ``asm`` statement says."""
    statement = _Statement(where)
    template, *sections = _parts(inside, ":")
    code = "".join(_STRING.findall(template)).replace("\\n", "\n").replace("\\t", " ").replace("%%", "%")
    code = re.sub(r"//.*|/\*.*?\*/", " ", code, flags=re.DOTALL)
    outputs, inputs = ([*sections, "", ""])[:2]
    declared, given_back = _operands(outputs, 0, statement, True)
    more, _ = _operands(inputs, len(declared), statement, False)
    declared += more
    lines = []
    for raw in code.replace("\n", " ").split(";"):
        text = " ".join(raw.split())
        while text[:1] in ("{", "}") and text:
            text = text[1:].strip()
        if not text:
            continue
        if match := re.match(r"\.reg\s+\.(\w+)\s+(.*)", text):
            if match[1] not in _TYPES:
                raise statement.refused(text)
            for name in re.findall(r"[%\w]+", match[2]):
                statement.names[name.lstrip("%")] = f"cukern_reg_{name.lstrip('%')}"
                declared.append(f"{_TYPES[match[1]]} cukern_reg_{name.lstrip('%')} = 0;")
            continue
        lines.append(_instruction(text, statement))
    carry = ["unsigned cukern_carry = 0;"] if statement.carries else []
    return " ".join(["{", *declared, *carry, *lines, *given_back, "}"])


def asm_edits(text: str) -> Iterator[tuple[int, int, str]]:
    """Edits of a user's text, at offsets in bytes, that replace ``asm`` statements, by errors if they are unknown."""
    if _HALF.search(text):
        yield 0, 0, "#include <cuda_fp16.h>\n"
    marks = list(_LINE.finditer(text))
    for match in _ASM.finditer(text):
        before = [mark for mark in marks if mark.start() < match.start()]
        if not before or before[-1][2].startswith("prelude/"):
            continue
        mark = before[-1]
        where = f"{mark[2]}:{int(mark[1]) + text.count(chr(10), mark.end(), match.start()) - 1}"
        inside = _inside(text[match.end() :])
        end = match.end() + len(inside) + 1
        try:
            block = _block(inside, where)
        except TemplateError as error:  # said by the compiler, if it compiles this branch at all
            said = str(error).replace("\\", "/").replace('"', "'")
            block = f'_Pragma("GCC error \\"{said}\\"")'
        lines = text.count("\n", match.start(), end)
        yield len(text[: match.start()].encode()), len(text[:end].encode()), block + "\n" * lines
