"""A partial preprocessor: ``#if`` and ``#ifdef`` of a plain text, evaluated as far as the text itself decides them.

A parser that reads both branches takes one type for another, or loses count of braces. What depends on the compiler,
such as ``__CUDA_ARCH__``, is left to it.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .definitions import DEFINED
from .macros import defined

_DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)$", re.DOTALL)
_COMMENTS = re.compile(r"//.*|/\*.*?(?:\*/|$)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_ARITHMETIC = re.compile(r"[\d\sxXa-fA-F()<>=!&|+*/%-]*")
#: What CUDA's compilers say of their version; a release has minor versions from 0 to 9.
_RELEASES = frozenset(str(version) for version in range(12000, 15000, 10))
_VERSIONS: dict[str, frozenset[str | None]] = {
    "CUDART_VERSION": _RELEASES,
    "CUDA_VERSION": _RELEASES,
    "__CUDACC_VER_MAJOR__": frozenset(("12", "13", "14")),
    "__CUDACC_VER_MINOR__": frozenset(map(str, range(10))),
}
#: Macros by which processors of the host tell what they have, of which kernels have nothing.
_OF_PROCESSORS = re.compile(r"__(?:AVX|SSE|SSSE|FMA|F16C|MMX|ARM|ALTIVEC|VSX)\w*")
#: A value that is no number that is known here.
_UNKNOWN = "?"
#: The possible values of a macro; None where it is not defined.
_Values = frozenset[str | None]
_OF_COMPILER: _Values = frozenset((None, _UNKNOWN))
_UNDEFINED: _Values = frozenset((None,))
_TOKEN = re.compile(r"0[xX][0-9a-fA-F]+|\d+|&&|\|\||<<|>>|[<>=!]=|\S")
#: The operators of `_ARITHMETIC`; binary ones with their precedence.
_UNARY: dict[str, Callable[[int], int]] = {"!": operator.not_, "+": operator.pos, "-": operator.neg}
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: bool(a or b)),
    "&&": (2, lambda a, b: bool(a and b)),
    "|": (3, operator.or_),
    "&": (4, operator.and_),
    "==": (5, operator.eq),
    "!=": (5, operator.ne),
    "<": (6, operator.lt),
    "<=": (6, operator.le),
    ">": (6, operator.gt),
    ">=": (6, operator.ge),
    "<<": (7, lambda a, b: a << _within(b, 0, 64)),
    ">>": (7, lambda a, b: a >> _within(b, 0, 64)),
    "+": (8, operator.add),
    "-": (8, operator.sub),
    "*": (9, operator.mul),
    "/": (9, lambda a, b: abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)),
    "%": (9, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
_TIGHTEST = 10
#: Of more states of the names that the compiler decides on, it is left to it what holds.
_MOST_STATES = 512
_WORD = re.compile(r"\b[A-Za-z_]\w*")


@dataclass
class _Chain:
    """An open condition with its branches.

    Attributes:
        counts: whether the lines of the present branch are active; None if the compiler decides.
        closed: whether none of the branches that follow can be.
        written: whether the compiler gets the condition.
        before: the macros before it, if so.
        ends: the macros at the ends of its branches.
    """

    counts: bool | None
    closed: bool
    written: bool
    before: dict[str, _Values]
    ends: list[dict[str, _Values]] = field(default_factory=list)


class Conditions:
    """The state of the preprocessor in a text that is read line by line."""

    def __init__(self, cplusplus: str = "201703") -> None:
        given = {"__CUDACC__": "1", "__cplusplus": cplusplus, "true": "1", "false": "0"}
        self._macros: dict[str, _Values] = {name: frozenset([value]) for name, value in given.items()}
        self._open: list[_Chain] = []
        self._in_comment = False

    @property
    def active(self) -> bool:
        """Whether the lines that follow are not left out."""
        return all(chain.counts is not False for chain in self._open)

    def line(self, line: str, text: str) -> str:
        """The replacement of a line: the line, nothing, or another condition.

        Args:
            line: a line, with its continuation lines.
            text: the whole file; names that it defines are not the compiler's.
        """
        kept = self._kept(line, text)
        return kept + "\n" * (line.count("\n") - kept.count("\n"))

    def _kept(self, line: str, text: str) -> str:
        was_in_comment = self._in_comment
        self._follow_comments(line)
        match = None if was_in_comment else _DIRECTIVE.match(line)
        if match is None:
            return line if self.active else ""
        word, rest = match[1], _COMMENTS.sub(" ", match[2]).replace("\\\n", " ").strip()
        if word in ("define", "undef"):
            return self._defined(word, rest, line)
        if word in ("if", "ifdef", "ifndef"):
            return self._begun(word, rest, line, text)
        return self._gone_on(word, rest, line, text) if self._open else line

    def _follow_comments(self, line: str) -> None:
        at = 0
        plain = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', line)
        while at >= 0:
            if self._in_comment:
                at = plain.find("*/", at)
                self._in_comment = at < 0
                continue
            start, other = plain.find("/*", at), plain.find("//", at)
            if start < 0 or 0 <= other < start:
                return
            self._in_comment, at = True, start + 2

    def _defined(self, word: str, rest: str, line: str) -> str:
        if not self.active:
            return ""
        for one in defined(f"#define {rest}") if word == "define" else ():
            self._macros[one.name] = frozenset([one.value if one.params is None else _UNKNOWN])
        if word == "undef":
            self._macros[re.split(r"\W", rest, maxsplit=1)[0]] = _UNDEFINED
        return line

    def _begun(self, word: str, rest: str, line: str, text: str) -> str:
        if not self.active:
            self._open.append(_Chain(False, True, False, {}))
            return ""
        condition = rest if word == "if" else f"{'!' if word == 'ifndef' else ''}defined({rest})"
        holds = self._holds(condition, text)
        self._open.append(_Chain(holds, bool(holds), holds is None, dict(self._macros)))
        return line if holds is None else ""

    def _gone_on(self, word: str, rest: str, line: str, text: str) -> str:
        chain = self._open[-1]
        if chain.written and chain.counts is not False:
            chain.ends.append(self._macros)
        if word == "endif":
            self._open.pop()
            if not chain.written:
                return ""
            self._macros = self._joined([*chain.ends, *([] if chain.closed else [chain.before])])
            return line
        if chain.closed:
            chain.counts = False
            return ""
        if chain.written:
            self._macros = dict(chain.before)
        holds = True if word == "else" else self._holds(rest, text)
        chain.closed = bool(holds)
        if not chain.written:
            chain.counts, chain.written = holds, holds is None
            return f"#if {rest}" if holds is None else ""
        chain.counts = False if holds is False else None
        return "" if holds is False else line if holds is None or word == "else" else "#else"

    @staticmethod
    def _joined(ends: list[dict[str, _Values]]) -> dict[str, _Values]:
        """The macros behind branches of which the compiler takes one."""
        names = {name for end in ends for name in end}
        return {name: frozenset().union(*(end.get(name, _first(name)) for end in ends)) for name in names}

    def _values(self, name: str, text: str) -> _Values:
        """What a macro may be here; those that the text defines further down are not the compiler's.

        Operators of the compiler's are, which a text defines where they are missing.
        """
        if name in self._macros:
            return self._macros[name]
        values = _first(name)
        own = (
            not name.startswith("__has_")
            and values != _UNDEFINED
            and re.search(rf"#[ \t]*define[ \t]+{re.escape(name)}\b", text)
        )
        return _UNDEFINED if own else values

    def _holds(self, condition: str, text: str) -> bool | None:
        """Whether a condition holds; None if that depends on the compiler or is beyond this arithmetic."""
        asked = [*_WORD.findall(condition)]
        found: dict[str, _Values] = {}
        while asked:
            name = asked.pop()
            if name not in found and name != "defined":
                found[name] = self._values(name, text)
                asked += [word for value in found[name] for word in _WORD.findall(value or "")]
        if math.prod(len(values) for values in found.values()) > _MOST_STATES:
            return None
        outcomes = {
            _holds_if(condition, dict(zip(found, state, strict=True)))
            for state in itertools.product(*found.values())
        }
        return outcomes.pop() if len(outcomes) == 1 else None


def _first(name: str) -> _Values:
    """What a macro may be before the text says anything of it."""
    if name in _VERSIONS:
        return _VERSIONS[name]
    if name in DEFINED:
        return frozenset((DEFINED[name],))
    return _OF_COMPILER if name.startswith("__") and not _OF_PROCESSORS.fullmatch(name) else _UNDEFINED


def _holds_if(condition: str, macros: dict[str, str | None]) -> bool | None:
    """Whether a condition of macros holds; None if it is beyond this arithmetic."""

    def state(match: re.Match[str]) -> str:
        return "0" if macros.get(match[1] or match[2]) is None else "1"

    def expanded(part: str, within: frozenset[str] = frozenset()) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[0]
            of_name = macros.get(name, _UNKNOWN)
            if of_name is None or name in within:  # a macro that names itself
                return "0"
            return f" {expanded(of_name, within | {name})} "

        return _WORD.sub(value, _DEFINED.sub(state, part))

    value_of_all = integer(expanded(condition))
    return None if value_of_all is None else bool(value_of_all)


def integer(text: str) -> int | None:
    """The value of an expression of whole numbers as C++ has it; None if it is another one.

    >>> integer("(1 << 4) / 3 * 2u"), integer("-1 < 0u")
    (10, None)
    """
    unsigned = re.search(r"[\da-fA-F][lL]*[uU]", text) is not None and "-" in text
    text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    if unsigned or not _ARITHMETIC.fullmatch(text):
        return None
    tokens = _TOKEN.findall(text)[::-1]
    try:
        value = _value(tokens)
    except (ValueError, IndexError, ArithmeticError, RecursionError):
        return None
    return None if tokens else value


def _value(tokens: list[str], least: int = 0) -> int:
    """The value of an expression of integers, all of 64 bits, as of a preprocessor.

    Args:
        tokens: in reverse order; those that are read are popped.
        least: how tightly an operator must bind to belong to the expression.

    Raises:
        ArithmeticError: a shift, or what it gives, is out of range.
        ValueError, IndexError: it is none.
    """
    token = tokens.pop()
    if token in _UNARY:
        value = int(_UNARY[token](_value(tokens, _TIGHTEST)))
    elif token == "(":
        value = _value(tokens)
        if tokens.pop() != ")":
            raise ValueError
    else:
        value = int(token, 0)
    while tokens and tokens[-1] in _BINARY and _BINARY[tokens[-1]][0] >= least:
        level, work = _BINARY[tokens.pop()]
        value = int(work(value, _value(tokens, level + 1)))
        _within(value, -(2**63), 2**63)
    return value


def _within(number: int, low: int, high: int) -> int:
    if not low <= number < high:
        raise ArithmeticError
    return number
