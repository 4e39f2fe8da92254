"""Print an expression's graph as C++, with one statement per node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .. import dtypes
from ..dtypes import DType
from .graph import Node, order
from .program import Program
from .row import Scalar


class Statement(NamedTuple):
    """A line of a kernel: ``const type name = code;``, or the row's ``quick`` in place of ``code``."""

    type: str
    name: str
    code: str
    quick: str = ""


def compute_type(dtype: DType) -> str:
    """The C++ type of values of ``dtype`` inside a kernel."""
    return dtypes.info(dtypes.info(dtype).acc).cxx


def argument_types(program: Program) -> list[str]:
    """The C++ types of the arguments ``s0``, ``s1``, ... of a kernel: addresses of tables, then numbers."""
    tables = [f"const {dtypes.info(dtype).cxx}* __restrict__" for dtype in program.tables]
    return [*tables, *map(compute_type, program.scalars)]


def literal(value: Scalar, dtype: DType) -> str:
    """A constant as exact C++ text."""
    name = compute_type(dtype)
    if isinstance(value, complex):
        part = dtypes.info(dtype).real
        return f"{name}({literal(value.real, part)}, {literal(value.imag, part)})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if dtype.itemsize < 4:
            return f"(({name}){value})"
        if dtype == dtypes.int32:
            return _signed(value, "") if value > -(2**31) else "(-2147483647 - 1)"
        if dtype == dtypes.uint32:
            return f"{value}u"
        if value == -(2**63):
            return "(-9223372036854775807LL - 1)"
        return f"{value}ULL" if dtype == dtypes.uint64 else _signed(value, "LL")
    if math.isnan(value):
        return f"limits<{name}>::quiet_nan()"
    if math.isinf(value):
        return ("-" if value < 0 else "") + f"limits<{name}>::infinity()"
    return f"{name}({value!r})"


def _signed(value: int, suffix: str) -> str:
    """An integer's text, safe after a minus sign."""
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def _cast_code(name: str, source: DType, target: DType) -> str | None:
    """The C++ of a cast of values; None if it changes nothing."""
    from_type, to_type = compute_type(source), compute_type(target)
    narrow = dtypes.info(target).cxx
    if narrow != to_type and source != target:
        return f"cast<{to_type}>(cast<{narrow}>({name}))"
    return None if from_type == to_type else f"cast<{to_type}>({name})"


def statements(roots: Sequence[Node]) -> tuple[list[Statement], list[str]]:
    """The statements of a kernel that computes the roots, and the names of their values.

    The ``k``-th input's value is named ``a{k}``, the ``k``-th table or scalar ``s{k}``.
    """
    names: dict[Node, str] = {}
    body: list[Statement] = []
    for node in order(roots):
        quick = ""
        if node.kind == "input":
            names[node] = f"a{node.value}"
            continue
        if node.kind in ("scalar", "table"):
            names[node] = f"s{node.value}"
            continue
        if node.kind == "constant":
            names[node] = literal(node.value, node.dtype)
            continue
        if node.kind == "cast":
            code = _cast_code(names[node.args[0]], node.args[0].dtype, node.dtype)
            if code is None:
                names[node] = names[node.args[0]]
                continue
        elif node.kind == "picked":
            table, place = (names[arg] for arg in node.args)
            code = f"cast<{compute_type(node.dtype)}>(loaded({table}[{place}]))"
        else:
            assert node.row is not None
            operand = next(
                (a for a, m in zip(node.args, node.row.operands, strict=True) if m == "x"), node.args[0]
            )
            operands = [names[arg] for arg in node.args]
            code, quick = (line(operands, operand.dtype) for line in (node.row.print, node.row.print_quick))
        names[node] = f"v{len(body)}"
        body.append(Statement(compute_type(node.dtype), names[node], code, quick))
    return body, [names[root] for root in roots]
