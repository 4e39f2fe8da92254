"""Rows of the table of elementwise operations, and the conversion of Python numbers among their operands."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType

Scalar = bool | int | float | complex
#: The dtype kinds that a row computes in; operands of other kinds are promoted or refused.
ALL, NUMERIC, INEXACT, INTEGER = "biufc", "iufc", "fc", "biu"
#: The same without complex numbers.
REAL, REAL_NUMERIC, FLOAT = "biuf", "iuf", "f"
_KINDS = {
    ALL: "any dtype",
    NUMERIC: "numbers",
    INEXACT: "floats or complex numbers",
    REAL: "any real dtype",
    REAL_NUMERIC: "real numbers",
    INTEGER: "integers or bool",
    FLOAT: "floats",
    "iu": "integers",
    "c": "complex numbers",
}


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a Python number, which takes the dtype of array operands."""
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def convert_scalar(value: Scalar, dtype: DType) -> Scalar:
    """``value`` as a Python number that ``dtype`` holds exactly.

    Raises:
        OverflowError: an integer out of the range of ``dtype``.
    """
    kind = dtypes.info(dtype).kind
    if kind == "c":
        with np.errstate(over="ignore"):
            return complex(dtype.type(value))
    if isinstance(value, complex):
        raise TypeError(f"expected a real number for {dtypes.info(dtype).name}, got {value!r}")
    if kind == "f":
        if dtype == dtypes.float64:
            return float(value)
        with np.errstate(over="ignore"):
            return float(dtype.type(value))
    if kind == "b":
        return bool(value)
    least, most = _limits(dtype)
    if not least <= value <= most:
        raise OverflowError(f"Python integer {value} out of bounds for {dtype.name}")
    return int(value)


@cache
def _limits(dtype: DType) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


class Row:
    """One elementwise operation: its name, C++ expression and derivative.

    Args:
        name: the public name.
        code: a C++ expression of the operands ``x``, ``y``, ``z``, of type ``T``. ``U`` is an unsigned type at least
            as wide as ``T``, whose arithmetic wraps.
        types: the kinds of dtype in which it computes, from ``"biufc"``.
        signature: the types of the operands and the result: ``x`` for the common one, ``b`` for bool, ``r`` for the
            real dtype of its parts if it is complex, ``c`` for the complex dtype of its precision.
        vjp: takes the cotangent ``g``, the operands and the result as symbols, and returns the cotangent of each
            operand; None where the derivative is zero or not defined.
        complex_vjp: the derivative for complex operands if it is not ``vjp``. Whatever depends on ``g`` linearly, as
            that of a holomorphic function does, needs none: :mod:`.program` conjugates what ``vjp`` multiplies by.
        codes: other expressions for some kinds of dtype, from ``"biufc"``, or ``"h"`` for floats of 16 bits, or for
            one of them by its name.
        quick: by names of dtypes other expressions, which the host computes for many elements at once by vectors: with
            the same values, or NaN where ``code`` is to be asked.
        integers: the dtype in which NumPy computes integers; None for the float of its math functions.
        halves: whether it is defined for float16 and bfloat16, which are computed in float32.
        simplify: returns another row and operands for special Python numbers, or None.
        oracle: the NumPy function with the same values, if its name differs.
        domain: the open interval from which tests and gradient checks draw operands.
        operator: the Python operator's method.
        names: the names of the operands in ``code``.
        doc: the first line of the docstring; the rest is generated.

    Attributes:
        calls: whether its expression calls a function.
    """

    def __init__(
        self,
        name: str,
        code: str,
        types: str,
        signature: str,
        vjp: Callable[..., Any] | None = None,
        *,
        complex_vjp: Callable[..., Any] | None = None,
        codes: dict[str, str] | None = None,
        quick: dict[str, str] | None = None,
        integers: DType | None = None,
        bools: DType | None = None,
        halves: bool = True,
        simplify: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]] | None] | None = None,
        oracle: str | Callable[..., Any] | None = None,
        domain: tuple[float, float] = (-2.0, 2.0),
        operator: str = "",
        names: Sequence[str] = "xyz",
        doc: str = "",
    ) -> None:
        self.name = self.__name__ = name
        self.names = names
        self.code, self.codes, self.quick_codes = code, codes or {}, quick or {}
        self.calls = re.search(r"\b(?![TU]\()\w+\(", code) is not None
        self.types = types
        operands, _, result = signature.partition("->")
        self.operands, self.result = operands, result
        self.vjp, self.complex_vjp = vjp, complex_vjp
        self.integers, self.bools, self.halves = integers, bools, halves
        self.simplify = simplify
        self.oracle = name if oracle is None else oracle
        self.domain = domain
        self.operator = operator
        self.__doc__ = f"{doc}\n\n{self._rules()}"

    def __repr__(self) -> str:
        return f"<elementwise function {self.name}>"

    def _rules(self) -> str:
        """The generated part of the docstring: dtypes, shapes and derivatives."""
        kinds = _KINDS[self.types] if "x" in self.operands else "any dtype, taken as bool"
        rules = [f"Takes arrays of {kinds}, and Python numbers."]
        if len(self.operands) > 1:
            rules.append(
                "Operands are broadcast, and promoted to a common dtype."
                if self.result == "b"
                else "Operands are broadcast, and promoted to a common dtype; a floating dtype wins over integers."
            )
        if self.types in (FLOAT, INEXACT) and self.result == "x":
            smaller = "" if self.integers else ", or in NumPy's dtype if that is smaller"
            rules.append(f"Integers are computed in the default floating dtype{smaller}.")
        rules.append(_RESULTS[self.result])
        rules.append("Differentiable to any order." if self.differentiable else "Has no derivative.")
        refused = "" if self.types in (ALL, INEXACT) else " Raises TypeError for other dtypes."
        if len(self.operands) > 1:
            refused += " Raises ValueError if the shapes do not broadcast."
        return " ".join(rules) + refused

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self.vjp is not None

    def resolve(self, operands: Sequence[DType | Scalar]) -> tuple[tuple[DType, ...], DType]:
        """The dtypes to which the operands are cast, and the result's dtype.

        Raises:
            TypeError: the operation is not defined for these dtypes.
        """
        common = [o for o, mark in zip(operands, self.operands, strict=True) if mark == "x"]
        dtype = self._computed(common) if common else dtypes.bool_
        if not self.halves and dtypes.info(dtype).narrow:
            raise TypeError(f"{self.name}: expected float32 or float64, got {dtypes.info(dtype).name}")
        cast = tuple(dtype if mark == "x" else dtypes.bool_ for mark in self.operands)
        if self.result == "r":
            return cast, dtypes.info(dtype).real
        if self.result == "c":
            return cast, dtypes.complex_of(dtype)
        return cast, dtype if self.result == "x" else dtypes.bool_

    def _computed(self, operands: Sequence[DType | Scalar]) -> DType:
        truth = self.result == "b"
        dtype = (dtypes.comparable if truth else dtypes.result_type)(*operands)
        kind = dtypes.info(dtype).kind
        if kind in self.types:
            return dtype
        if kind == "b" and self.bools is not None:
            return self.bools
        if self.types in (FLOAT, INEXACT) and kind != "c":
            strong = [operand for operand in operands if isinstance(operand, np.dtype)]
            each = strong if len(strong) == len(operands) else [dtype]
            floats = [self.integers or _float_of(one) for one in each]
            if truth:
                return dtypes.comparable(*floats)
            return dtypes.result_type(*map(dtypes.of_integers, floats))
        raise TypeError(f"{self.name}: expected {_KINDS[self.types]}, got {dtypes.info(dtype).name}")

    def print(self, operands: Sequence[str], dtype: DType) -> str:
        """The C++ expression over named operands of ``dtype``."""
        info = dtypes.info(dtype)
        code = self.codes.get(info.kind, self.code)
        if info.narrow:
            code = self.codes.get(info.name, self.codes.get("h", code))
        return self._print(code, operands, dtype)

    def print_quick(self, operands: Sequence[str], dtype: DType) -> str:
        """The expression for many elements at once; empty if there is none."""
        return self._print(self.quick_codes.get(dtypes.info(dtype).name, ""), operands, dtype)

    def _print(self, code: str, operands: Sequence[str], dtype: DType) -> str:
        info = dtypes.info(dtype)
        names = dict(zip(self.names, operands, strict=False))
        names["T"] = dtypes.info(info.acc).cxx
        names["U"] = "unsigned long long" if info.itemsize == 8 else "unsigned int"
        return _substitute(code, names)


_RESULTS = {
    "b": "The result is bool.",
    "x": "The result has the dtype of the computation.",
    "r": "The result has the dtype of the computation, or of the parts of complex numbers.",
    "c": "The result has the complex dtype of the computation's precision.",
}


def scipys(name: str) -> Callable[..., Any]:
    """The function ``name`` of ``scipy.special``, imported on the first call: an oracle for tests."""

    def oracle(*operands: Any) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)(*operands)

    vars(oracle)["scipys"] = True
    return oracle


#: A name that is not preceded by ``.``, ``->`` or ``::``, and an opening parenthesis after it.
_WORD = re.compile(r"(?<![.\w])(?<!->)(?<!::)([A-Za-z_]\w*)(\(?)")


def _substitute(code: str, names: dict[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name = names.get(match[1], match[1])
        # C++ has no long long(x), but (long long)(x).
        return (f"({name})" if match[2] and " " in name else name) + match[2]

    return _WORD.sub(replaced, code)


@cache
def _float_of(dtype: DType) -> DType:
    """The float dtype in which NumPy's math functions compute an integer dtype."""
    size = dtype.itemsize
    return dtypes.float16 if size == 1 else dtypes.float32 if size == 2 else dtypes.float64
