"""Row programs: reductions that wait, along the same rows, and the expressions that they reduce and that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..array.layout import Layout
from ..dtypes import DType
from ..kernel.strides import Axes, Strides, broadcast_steps
from .graph import Indexed, Node, Reshaped, Stage, View, input_node, order, stages_of, substitute
from .program import Program

if TYPE_CHECKING:
    from .launches import Launches

#: Numbers of inputs from which they are gathered rows, and the results of reductions.
GATHERS, _RESULTS = 1 << 23, 1 << 24
#: The fewest rows, and the fewest elements of a row, for which a reduction waits.
LEAST_ROWS, LEAST_ELEMENTS = 16, 32
#: Reductions of one kernel, from which on what is reduced is computed first.
MOST_STAGES = 8


class Gathers(NamedTuple):
    """Operands of which rows are gathered, along the first axis.

    Attributes:
        operands: the number of each, and that of its indices.
        indices: the layouts of the vectors of indices.
    """

    operands: tuple[tuple[int, int], ...]
    indices: tuple[Layout, ...]

    def steps(self, operands: Sequence[Layout], shape: tuple[int, ...]) -> list[Strides]:
        """The steps of operands that broadcast to ``shape``, in elements: none along the first axis if gathered."""
        gathered = {k for k, _ in self.operands}
        return [
            (0, *broadcast_steps(one, (one.shape[0], *shape[1:]))[1:])
            if k in gathered
            else broadcast_steps(one, shape)
            for k, one in enumerate(operands)
        ]

    def sources(self, operands: Sequence[Layout]) -> list[Axes]:
        """The rows of each gathered operand, and the step from one to the next."""
        return [
            Axes(one.shape[:1], (broadcast_steps(one, one.shape)[:1],))
            for one in (operands[k] for k, _ in self.operands)
        ]


class RowProgram(NamedTuple):
    """What one kernel computes of rows.

    Attributes:
        program: its outputs are what is reduced, in turn, and the results; its inputs arrays, and then reductions that
            are read.
        stages: of each reduction its row, the number of its result among the inputs (-1 if none), dtype and parameter.
        shape: the rows'.
        axes: the number of the last axes, along which a row lies.
        operands: the layouts of the arrays, which broadcast to that shape.
        outs: those of the results.
        wide: whether each result has that shape; else it has a number for each row.
        gathers: the operands of which rows are gathered.
    """

    program: Program
    stages: tuple[tuple[Any, int, DType, float], ...]
    shape: tuple[int, ...]
    axes: int
    operands: tuple[Layout, ...]
    outs: tuple[Layout, ...]
    wide: tuple[bool, ...]
    gathers: Gathers = Gathers((), ())


class SegmentProgram(NamedTuple):
    """What kernels compute of rows, and combine by segments.

    Attributes:
        program: its output is what is combined, its inputs arrays.
        shape: the rows', of which the first axis numbers them.
        operands: the layouts of the arrays, which broadcast to that shape.
        gathers: the operands of which rows are gathered.
        order: the layouts of what says which rows a segment has.
    """

    program: Program
    shape: tuple[int, ...]
    operands: tuple[Layout, ...]
    gathers: Gathers
    order: tuple[Layout, ...]


def depth_of(nodes: Sequence[Node]) -> int:
    """The number of reductions in expressions, and in what these reduce."""
    found: dict[Stage, None] = {}
    waiting = stages_of(nodes)
    while waiting:
        one = waiting.pop().kept
        if one not in found:
            found[one] = None
            waiting += stages_of((one.node,))
    return len(found)


def rows_of(node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """The shape of rows, and the number of axes along these, of a reduction that an expression of ``shape`` reads."""
    for one in stages_of((node,)):
        kept = one.kept
        if shape in (one.shape, kept.out) and one.out == kept.out:
            return one.shape, one.axes
        if shape == one.plain == one.out:
            return one.shape, one.axes
    return None


class Rows:
    """Expressions that share rows, as they are collected.

    Attributes:
        operands: what is reduced, where nodes of inputs stand for the results of the reductions before.
        stages: the reductions.
        gathers: the nodes of gathered rows.
    """

    def __init__(self, trace: Launches, shape: tuple[int, ...], axes: int) -> None:
        self._trace, self._shape, self._axes = trace, shape, axes
        self.operands: list[Node] = []
        self.stages: list[Stage] = []
        self.gathers: list[Node] = []

    def placed(self, node: Node, dropped: bool = False) -> Node:
        """An expression whose arrays broadcast to the shape of the rows.

        Args:
            dropped: whether the expression's shape lacks the axes along rows.
        """
        shape = self._shape[: -self._axes] if dropped else self._shape
        (node,) = self._trace.of_values((node,))
        self._trace.narrow_first([((node,), shape)])
        (node,) = self._trace.reused((node,), None if dropped else self._shape)
        added = (None,) * self._axes
        replaced: dict[Node, Node] = {}
        for leaf in order((node,)):
            if leaf.kind == "reduced":
                replaced[leaf] = self._result(leaf, dropped)
            elif leaf.kind == "gathered":
                if leaf not in self.gathers:
                    self.gathers.append(leaf)
                replaced[leaf] = input_node(GATHERS + self.gathers.index(leaf), leaf.dtype)
            elif leaf.kind in ("input", "view") and dropped:
                view = self._trace.view_of(leaf)
                if view.shape:
                    whole = (slice(None),) * len(view.shape)
                    replaced[leaf] = view.then(Indexed((*whole, *added))).node(leaf.dtype)
        return substitute((node,), replaced)[0]

    def _result(self, leaf: Node, dropped: bool) -> Node:
        stage: Stage = leaf.value
        kept = stage.kept
        own = (stage.shape, stage.axes) == (self._shape, self._axes)
        if not own or stage.out != (stage.plain if dropped else kept.out):
            return self.placed(self._trace.computed(stage), dropped)
        if kept not in self.stages:
            operand = self.placed(stage.node)
            self.operands.append(operand)
            self.stages.append(kept)
        return input_node(_RESULTS + self.stages.index(kept), stage.dtype)

    def numbered(self, inputs: Sequence[int]) -> tuple[tuple[Any, int, DType, float], ...]:
        """The stages of a :class:`RowProgram`, of whose inputs these are the numbers."""
        number = {k - _RESULTS: i for i, k in enumerate(inputs)}
        return tuple(
            [
                (one.reduction.row, number.get(i, -1), one.dtype, one.parameter)
                for i, one in enumerate(self.stages)
            ]
        )


def reshaped(array: int, shape: tuple[int, ...], out: tuple[int, ...], dtype: DType) -> Node:
    """The node of an array in C order in another shape."""
    return (
        input_node(array, dtype) if shape == out else View(array, (), shape).then(Reshaped(out)).node(dtype)
    )
