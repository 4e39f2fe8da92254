"""A partial preprocessor: ``#if`` and ``#ifdef`` of a plain text, evaluated as far as the text itself decides them.

A parser that reads both branches takes one type for another, or loses count of braces. What depends on the compiler,
such as ``__CUDA_ARCH__``, is left to it.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable

_DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)$", re.DOTALL)
_COMMENTS = re.compile(r"//.*|/\*.*?(?:\*/|$)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NUMBER = re.compile(r"\(?\s*((?:\d+|0[xX][0-9a-fA-F]+)[uUlL]*)\s*\)?")
_ARITHMETIC = re.compile(r"[\d\sxXa-fA-F()<>=!&|+*%-]*")
#: The compiler knows its version.
_VERSIONS = ("CUDART_VERSION", "CUDA_VERSION")
_TOKEN = re.compile(r"0[xX][0-9a-fA-F]+|\d+|&&|\|\||<<|>>|[<>=!]=|\S")
#: The operators of `_ARITHMETIC`, which has no division; binary ones with their precedence.
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
    "%": (9, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
_TIGHTEST = 10
#: Of more names that the compiler defines or not, it is left to it what holds.
_MOST_UNSURE = 4


class Conditions:
    """The state of the preprocessor in a text that is read line by line."""

    def __init__(self, cplusplus: str = "201703") -> None:
        self._values = {"__CUDACC__": "1", "__cplusplus": cplusplus}
        #: Names that are defined, or not, as the compiler decides.
        self._unsure: set[str] = set()
        #: For each open condition, whether its lines are active and whether a branch has been; None if unknown.
        self._open: list[tuple[bool | None, bool | None]] = []
        self._in_comment = False

    @property
    def active(self) -> bool:
        """Whether the lines that follow are not left out."""
        return all(counts is not False for counts, _ in self._open)

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
        name = re.match(r"\w*", rest)
        assert name is not None
        if any(counts is None for counts, _ in self._open):
            self._unsure.add(name[0])
        elif word == "define":
            self._values[name[0]] = rest[name.end() :].strip()
            self._unsure.discard(name[0])
        else:
            self._values.pop(name[0], None)
            self._unsure.discard(name[0])
        return line

    def _begun(self, word: str, rest: str, line: str, text: str) -> str:
        if not self.active:
            self._open.append((False, True))
            return ""
        holds = self._holds(rest, text) if word == "if" else self._is_defined(rest, text)
        if word == "ifndef" and holds is not None:
            holds = not holds
        self._open.append((holds, holds))
        return line if holds is None else ""

    def _gone_on(self, word: str, rest: str, line: str, text: str) -> str:
        counts, taken = self._open.pop()
        if word == "endif":
            return line if counts is None or taken is None else ""
        if taken is None:  # the compiler decides all that follows
            self._open.append((None, None))
            return line
        if taken or not self.active:
            self._open.append((False, True))
            return ""
        holds = True if word == "else" else self._holds(rest, text)
        self._open.append((holds, holds))
        return f"#if {rest}" if holds is None else ""

    def _is_defined(self, name: str, text: str) -> bool | None:
        if name in self._unsure or name.startswith("__has_"):
            return None
        if name in self._values:
            return True
        own = re.search(rf"#[ \t]*define[ \t]+{re.escape(name)}\b", text)
        return None if (name.startswith("__") or name in _VERSIONS) and not own else False

    def _holds(self, condition: str, text: str) -> bool | None:
        """Whether a condition holds; None if that depends on the compiler or is beyond this arithmetic."""
        asked = dict.fromkeys(match[1] or match[2] for match in _DEFINED.finditer(condition))
        unsure = [name for name in asked if self._is_defined(name, text) is None]
        if len(unsure) > _MOST_UNSURE:
            return None
        found = {
            self._holds_if(condition, text, dict(zip(unsure, states, strict=True)))
            for states in itertools.product((False, True), repeat=len(unsure))
        }
        return found.pop() if len(found) == 1 else None

    def _holds_if(self, condition: str, text: str, states: dict[str, bool]) -> bool | None:
        """Whether a condition holds if the compiler defines, or not, the names that it decides."""
        unknown = False

        def state(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            return "1" if states.get(name, self._is_defined(name, text)) else "0"

        def value(match: re.Match[str]) -> str:
            nonlocal unknown
            known = self._is_defined(match[0], text)
            number = _NUMBER.fullmatch(self._values.get(match[0], "0") if known is not None else "")
            unknown = unknown or number is None
            return number[1] if number else "0"

        replaced = re.sub(r"\b[A-Za-z_]\w*", value, _DEFINED.sub(state, condition))
        unsigned = re.search(r"[\da-fA-F][lL]*[uU]", replaced) is not None and "-" in replaced
        replaced = re.sub(r"(\d)[uUlL]+\b", r"\1", replaced)
        if unknown or unsigned or not _ARITHMETIC.fullmatch(replaced):
            return None
        tokens = _TOKEN.findall(replaced)[::-1]
        try:
            value_of_all = _value(tokens)
        except (ValueError, IndexError, ArithmeticError, RecursionError):
            return None
        return None if tokens else bool(value_of_all)


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
