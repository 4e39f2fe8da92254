"""Programs: graphs with one or several outputs that run as one kernel, and the programs of their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from .. import dtypes
from ..array.operators import FUNCTIONS
from ..cache import Cache
from ..dtypes import DType
from ..pytree import declare_leaf
from .graph import Expr, Node, call, cast, input_node, order, scalar_node, substitute, table_node, tracing

Kind = Literal["input", "cotangent", "output", "tangent"]
Source = tuple[Kind, int]


@declare_leaf
@dataclass(frozen=True, eq=False)
class Program:
    """The computation of one elementwise kernel; equal programs are the same object.

    Attributes:
        name: the name of the kernel.
        outputs: the values that it stores.
        inputs: the dtypes of the arrays.
        scalars: the dtypes of the scalar arguments, which are numbered behind the tables.
        tables: the dtypes of the arrays of which elements are picked. Kernels take their addresses before the scalars.
    """

    name: str
    outputs: tuple[Node, ...]
    inputs: tuple[DType, ...]
    scalars: tuple[DType, ...]
    tables: tuple[DType, ...] = ()
    _backward: dict[Any, Derivative] = field(default_factory=dict)
    _ahead: dict[Any, Derivative] = field(default_factory=dict)

    def backward(self, needs: tuple[bool, ...], wide: tuple[bool, ...]) -> Derivative:
        """The program that computes the inputs' cotangents from the outputs'.

        Args:
            needs: for each input, whether its cotangent is needed.
            wide: for each input, whether its cotangent will be summed and is therefore stored in the
                accumulator's dtype.
        """
        key = (needs, wide)
        cached = self._backward.get(key)
        if cached is None:
            cached = self._backward[key] = _derive(self, needs, wide)
        return cached

    def ahead(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Derivative:
        """The program that computes the outputs' tangents from the inputs'.

        It reads no input or output that the one of :meth:`backward` for the same ``needs`` does not read.

        Args:
            needs: as in :meth:`backward`.
            given: for each input, whether it has a tangent.
        """
        key = (needs, given)
        cached = self._ahead.get(key)
        if cached is None:
            cached = self._ahead[key] = _derive_ahead(self, needs, given)
        return cached


_programs: Cache[Any, Program] = Cache()


def program(
    name: str,
    outputs: Sequence[Node],
    inputs: Sequence[DType],
    scalars: Sequence[DType] = (),
    tables: Sequence[DType] = (),
) -> Program:
    """The program with these outputs."""
    key = (name, tuple(outputs), tuple(inputs), tuple(scalars), tuple(tables))
    cached = _programs.get(key)
    if cached is None:
        cached = _programs.keep(key, Program(*key))
    return cached


class Derivative(NamedTuple):
    """How to compute the cotangents of a program's inputs from those of its outputs, or tangents the other way.

    Attributes:
        program: computes them; None if each equals a given one or is None.
        sources: for each input of ``program``, its kind (input or output of the forward program, or cotangent or
            tangent) and index.
        scalars: for each scalar of ``program``, its index in the forward program.
        results: for each cotangent or tangent: None (no derivative), ``("cotangent", m)`` or ``("tangent", m)`` for a
            given one itself, or ``("output", j)`` of ``program``.
    """

    program: Program | None
    sources: tuple[Source, ...]
    scalars: tuple[int, ...]
    results: tuple[Source | None, ...]

    def saved(self, what: str) -> tuple[int, ...]:
        """The indices of the forward inputs or outputs that ``program`` reads."""
        return tuple([k for kind, k in self.sources if kind == what])


def _is_float(node: Node) -> bool:
    return node.dtype in dtypes.INEXACT


def _active(outputs: Sequence[Node], needs: Sequence[bool]) -> set[Node]:
    """The nodes through which a cotangent reaches an input whose cotangent is needed."""
    active: set[Node] = set()
    for node in order(outputs):
        wanted = (node.kind == "input" and needs[node.value]) or any(arg in active for arg in node.args)
        if wanted and _is_float(node):
            active.add(node)
    return active


def _contributions(node: Node, g: Node) -> Sequence[Node | None]:
    """The cotangents of a node's operands, from that of the node."""
    if node.kind == "cast":
        return (g,)
    row = node.row
    assert row is not None
    is_complex = any(one.dtype in dtypes.COMPLEX for one in (node, *node.args))
    rule = row.complex_vjp if is_complex and row.complex_vjp is not None else row.vjp
    if rule is None:
        return (None,) * len(node.args)
    holomorphic = is_complex and row.complex_vjp is None
    seed = call(FUNCTIONS["conj"], (g,)) if holomorphic else g
    with tracing(row.name):
        vjps = rule(Expr(seed), *(Expr(arg) for arg in node.args), Expr(node))
    parts = [None if part is None else part.node for part in (vjps if isinstance(vjps, tuple) else (vjps,))]
    if not holomorphic:
        return parts
    # conj(conj(g) * f'(x)): the cotangent of a holomorphic f takes its derivative conjugated.
    return [None if part is None else call(FUNCTIONS["conj"], (part,)) for part in parts]


def _as(node: Node, dtype: DType) -> Node:
    """A cotangent as the dtype of its value; of a real value, the real part."""
    if node.dtype in dtypes.COMPLEX and dtype not in dtypes.COMPLEX:
        node = call(FUNCTIONS["real"], (node,))
    return cast(node, dtype)


def _reverse(outputs: Sequence[Node], seeds: Sequence[Node], needs: Sequence[bool]) -> dict[Node, Node]:
    """The cotangents of all active nodes."""
    active = _active(outputs, needs)
    cotangents: dict[Node, Node] = {}

    def accumulate(node: Node, part: Node) -> None:
        part = _as(part, node.dtype)
        have = cotangents.get(node)
        cotangents[node] = part if have is None else call(FUNCTIONS["add"], (have, part))

    for node, seed in zip(outputs, seeds, strict=True):
        if node in active:
            accumulate(node, seed)
    for node in reversed(order(outputs)):
        if node not in active or node not in cotangents or not node.args:
            continue
        for arg, part in zip(node.args, _contributions(node, cotangents[node]), strict=True):
            if part is not None and arg in active:
                accumulate(arg, part)
    return cotangents


def _derive(forward: Program, needs: tuple[bool, ...], wide: tuple[bool, ...]) -> Derivative:
    roots, results = _pulled(forward, needs, wide)
    return _compacted(f"{forward.name}_vjp", forward, roots, results)


def _pulled(
    forward: Program, needs: tuple[bool, ...], wide: tuple[bool, ...]
) -> tuple[list[Node], tuple[Source | None, ...]]:
    """:func:`roots_from` cotangents that are further inputs, which reads as few arrays as can be."""
    k, m = len(forward.inputs), len(forward.outputs)
    seeds = [input_node(k + i, node.dtype) for i, node in enumerate(forward.outputs)]
    roots, results = roots_from(forward, seeds, needs, wide)
    return _saving_least(roots, forward.outputs, k, m), results


def _derive_ahead(forward: Program, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Derivative:
    k, m = len(forward.inputs), len(forward.outputs)
    cotangents = [input_node(k + i, node.dtype) for i, node in enumerate(forward.outputs)]
    tangents = [
        input_node(k + 2 * m + i, dtype) if given[i] else None for i, dtype in enumerate(forward.inputs)
    ]
    made: list[Node] = []
    results: list[Source | None] = []
    for node in tangents_of(*_pulled(forward, needs, (False,) * k), cotangents, tangents):
        if node is None:
            results.append(None)
        elif node in tangents:
            results.append(("tangent", tangents.index(node)))
        else:
            results.append(("output", len(made)))
            made.append(node)
    return _compacted(f"{forward.name}_jvp", forward, made, tuple(results))


def _compacted(
    name: str, forward: Program, roots: list[Node], results: tuple[Source | None, ...]
) -> Derivative:
    """A derivative of ``forward`` whose inputs are its inputs, the cotangents, its outputs, and the tangents."""
    if not roots:
        return Derivative(None, (), (), results)
    k, m = len(forward.inputs), len(forward.outputs)
    ends: list[tuple[Kind, int]] = [("input", 0), ("cotangent", k), ("output", k + m), ("tangent", k + 2 * m)]
    made, inputs, scalars = compact(name, roots)
    sources = []
    for at in inputs:
        kind, first = next(one for one in reversed(ends) if one[1] <= at)
        sources.append((kind, at - first))
    return Derivative(made, tuple(sources), scalars, results)


def cotangents_of(outputs: Sequence[Node], seeds: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """The nodes of the cotangents of some inputs, on which the outputs depend, from those of the outputs."""
    found = _reverse(outputs, seeds, [True] * (1 + max(int(one.value) for one in inputs)))
    return [found[one] for one in inputs]


def tangents_of(
    roots: Sequence[Node],
    results: Sequence[Source | None],
    cotangents: Sequence[Node],
    tangents: Sequence[Node | None],
) -> list[Node | None]:
    """The nodes of the outputs' tangents; None where there is none.

    They are the derivative of the inputs' cotangents, which are linear in the outputs', with respect to these.

    Args:
        roots, results: as :func:`roots_from` returns them.
        cotangents: those of the outputs, inputs of the roots.
        tangents: those of the inputs.
    """
    pulled, seeds = [], []
    for result, tangent in zip(results, tangents, strict=True):
        if result is not None and tangent is not None:
            pulled.append((cotangents if result[0] == "cotangent" else roots)[result[1]])
            seeds.append(tangent)
    read = [int(node.value) for node in order(pulled) if node.kind == "input"]
    wanted = {int(one.value) for one in cotangents}
    found = _reverse(pulled, seeds, [i in wanted for i in range(1 + max(read, default=0))])
    return [found.get(one) for one in cotangents]


def roots_from(
    forward: Program, seeds: Sequence[Node], needs: tuple[bool, ...], wide: tuple[bool, ...]
) -> tuple[list[Node], tuple[Source | None, ...]]:
    """The nodes of the inputs' cotangents, and the results as in :class:`Derivative`."""
    cotangents = _reverse(forward.outputs, seeds, needs)
    inputs = [seed if seed.kind == "input" else None for seed in seeds]
    roots: list[Node] = []
    results: list[Source | None] = []
    gradients = [
        cotangents.get(input_node(i, dtype)) if needs[i] else None for i, dtype in enumerate(forward.inputs)
    ]
    stored = [root for root, is_wide in zip(gradients, wide, strict=True) if not is_wide]
    for root, dtype, is_wide in zip(gradients, forward.inputs, wide, strict=True):
        if root is None:
            results.append(None)
        elif root in inputs:
            results.append(("cotangent", inputs.index(root)))
        else:
            # What is stored for another input is summed as it is: another array would have no more than its digits.
            gradient = cast(root, dtypes.info(dtype).acc if is_wide and root not in stored else dtype)
            if gradient not in roots:
                roots.append(gradient)
            results.append(("output", roots.index(gradient)))
    return roots, tuple(results)


def _saving_least(roots: list[Node], outputs: Sequence[Node], k: int, m: int) -> list[Node]:
    """The roots, reading forward outputs instead of recomputing them, unless that saves more arrays."""
    stored = {
        node: input_node(k + m + i, node.dtype) for i, node in enumerate(outputs) if node.kind == "call"
    }
    reading = list(substitute(roots, stored))

    def count(nodes: list[Node]) -> int:
        return sum(node.kind == "input" and not k <= node.value < k + m for node in order(nodes))

    return reading if count(reading) <= count(roots) else roots


@lru_cache(maxsize=4096)
def onto(backward: Derivative, which: tuple[int, ...]) -> Derivative:
    """The same with some inputs' cotangents added to others, which are further inputs of the program."""
    own = backward.program
    assert own is not None
    inputs, outputs = list(own.inputs), list(own.outputs)
    for i in which:
        result = backward.results[i]
        assert result is not None
        made = outputs[result[1]]
        outputs[result[1]] = call(FUNCTIONS["add"], (made, input_node(len(inputs), made.dtype)))
        inputs.append(made.dtype)
    return backward._replace(program=program(f"{own.name}_onto", outputs, inputs, own.scalars))


def compact(
    name: str, roots: Sequence[Node], by_use: bool = False
) -> tuple[Program, tuple[int, ...], tuple[int, ...]]:
    """The program of the roots that takes only the inputs, tables and scalars that they read.

    Args:
        by_use: whether it takes them in the order in which they occur, else in that of their numbers.

    Returns:
        The program, and the former indices of its inputs, followed by those of its tables, and of its scalars.
    """
    kinds = "input", "table", "scalar"
    leaves = [node for node in order(roots) if node.kind in kinds]
    leaves = leaves if by_use else sorted(leaves, key=lambda n: int(n.value))
    inputs, tables, scalars = ([n for n in leaves if n.kind == kind] for kind in kinds)
    renamed = {node: input_node(i, node.dtype) for i, node in enumerate(inputs)}
    renamed |= {node: table_node(i, node.dtype) for i, node in enumerate(tables)}
    renamed |= {node: scalar_node(i, node.dtype, node.weak) for i, node in enumerate(scalars, len(tables))}
    taken = [[node.dtype for node in some] for some in (inputs, scalars, tables)]
    result = program(name, substitute(roots, renamed), *taken)
    return result, tuple(int(n.value) for n in (*inputs, *tables)), tuple(int(n.value) for n in scalars)
