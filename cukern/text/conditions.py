"""``#if`` and ``#ifdef`` of a plain text, decided as far as the text itself decides them.

A parser that reads both branches takes one type for another, or loses count of braces. What depends on the compiler,
such as ``__CUDA_ARCH__``, is left to it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

_DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)$", re.DOTALL)
_COMMENTS = re.compile(r"//.*|/\*.*?(?:\*/|$)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NUMBER = re.compile(r"\(?\s*(\d+|0[xX][0-9a-fA-F]+)[uUlL]*\s*\)?")
_ARITHMETIC = re.compile(r"[\d\sxXa-fA-F()<>=!&|+*%-]*")
#: Defined wherever CUDA C++ is compiled.
_ALWAYS = {"__CUDACC__": "1", "__cplusplus": "201703"}
#: The operators that `_ARITHMETIC` has, which division is not among.
_OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Not: operator.not_,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Conditions:
    """The state of the preprocessor in a text that is read line by line."""

    def __init__(self) -> None:
        self._values = dict(_ALWAYS)
        #: Names that are defined, or not, as the compiler decides.
        self._unsure: set[str] = set()
        #: Of each open condition: whether its lines count, whether a branch has counted; None where that is not known.
        self._open: list[tuple[bool | None, bool | None]] = []
        self._in_comment = False

    @property
    def active(self) -> bool:
        """Whether the lines that follow are not left out."""
        return all(counts is not False for counts, _ in self._open)

    def line(self, line: str, text: str) -> str:
        """What takes a line's place: the line, nothing, or another condition.

        Args:
            line: a line, with those by which it continues.
            text: the whole file, whose own names are not the compiler's.
        """
        kept = self._kept(line, text)
        return kept + "\n" * (line.count("\n") - kept.count("\n"))

    def _kept(self, line: str, text: str) -> str:
        was_in_comment = self._in_comment
        self._follow_comments(line)
        found = None if was_in_comment else _DIRECTIVE.match(line)
        if found is None:
            return line if self.active else ""
        word, rest = found[1], _COMMENTS.sub(" ", found[2]).replace("\\\n", " ").strip()
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
        if name in self._unsure:
            return None
        if name in self._values:
            return True
        own = re.search(rf"#[ \t]*define[ \t]+{re.escape(name)}\b", text)
        return None if name.startswith("__") and not own else False

    def _holds(self, condition: str, text: str) -> bool | None:
        """Whether a condition holds; None if that depends on the compiler or is beyond this arithmetic."""
        unknown = False

        def state(found: re.Match[str]) -> str:
            nonlocal unknown
            known = self._is_defined(found[1] or found[2], text)
            unknown = unknown or known is None
            return "1" if known else "0"

        def value(found: re.Match[str]) -> str:
            nonlocal unknown
            known = self._is_defined(found[0], text)
            number = _NUMBER.fullmatch(self._values.get(found[0], "0") if known is not None else "")
            unknown = unknown or number is None
            return number[1] if number else "0"

        replaced = re.sub(r"\b[A-Za-z_]\w*", value, _DEFINED.sub(state, condition))
        replaced = re.sub(r"(\d)[uUlL]+\b", r"\1", replaced)
        if unknown or not _ARITHMETIC.fullmatch(replaced):
            return None
        python = replaced.replace("&&", " and ").replace("||", " or ")
        python = re.sub(r"!(?!=)", " not ", python)
        if re.search(r"(?<![\w.])0\d", python):
            return None
        try:
            return bool(_value(ast.parse(python.strip(), mode="eval").body))
        except (SyntaxError, TypeError, ArithmeticError, KeyError, RecursionError, MemoryError):
            return None


def _value(node: ast.expr) -> int:
    """The value of an expression of integers, all of 64 bits, as of a preprocessor.

    Raises:
        ArithmeticError: a shift, or what it gives, is out of range.
        KeyError: it is none.
    """
    if isinstance(node, ast.BoolOp):
        values = (_value(one) for one in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, (ast.LShift, ast.RShift)) and not 0 <= right < 64:
            raise ArithmeticError
        found = _OPERATORS[type(node.op)](left, right)
        if not -(2**63) <= found < 2**64:
            raise ArithmeticError
        return found
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left), _value(node.comparators[0]))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise KeyError(node)
