"""Products to which the device's library adds a bias and a matrix and applies a ReLU: a form beside the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout
from ..device.cuda import cublas_lt
from ..device.interface import Prepared
from ..device.precision import allows_tf32
from ..elementwise.graph import Node, cast, input_node
from ..elementwise.program import Program
from ..elementwise.table import add, relu
from ..kernel.plan import Plan, on
from .task import Factor, Task


class _Matrix(NamedTuple):
    """A matrix in memory, with the attributes of an ndarray."""

    dtype: dtypes.DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Ending(NamedTuple):
    """What follows a product.

    Attributes:
        added: what is added to it, in the order of the program's operands: "row", which is added to each of its rows,
            or "matrix".
        relu: whether a ReLU follows.
    """

    added: tuple[str, ...]
    relu: bool


def ending_of(made: Program, task: Task, operands: Sequence[Layout]) -> Ending | None:
    """What follows a product in a program, whose first input it is; None if the library cannot do that.

    Args:
        made: the program, of the product before it is rounded and of ``operands``.
        task: the product.
        operands: none, a bias, an array of the product's shape, or both.
    """
    elem = made.outputs[0].dtype
    acc = dtypes.info(elem).acc
    last = _uncast(made.outputs[0], elem, acc)
    ends = last.row is relu
    given = [input_node(0, made.inputs[0]), *(input_node(k, elem) for k in range(1, len(operands) + 1))]
    terms = _terms(_uncast(last.args[0], elem, acc) if ends else last, len(given))
    wide = {cast(own, acc): own for own in given}
    if (
        len(terms) != len(given)
        or {wide.get(one, one) for one in terms} != set(given)
        or not (operands or ends)
    ):
        return None
    matrix = (task.m * task.n if task.batches > 1 else 0, task.n, 1)
    names: dict[tuple[int, ...], str] = {(0, 0, 1): "row"}
    if task.n * elem.itemsize % cublas_lt.ALIGNMENT == 0:  # else the product is rounded before it is added
        names[matrix] = "matrix"
    added = [
        names.get(steps, "") if one.aligned else ""
        for steps, one in zip(task.operands, operands, strict=True)
    ]
    return Ending(tuple(added), ends) if "" not in added and len({*added}) == len(added) else None


def _terms(node: Node, most: int) -> list[Node]:
    """What a sum is the sum of; the value itself if it is none. More than ``most`` may be sums still."""
    terms = [node]
    while len(terms) <= most and any(one.row is add for one in terms):
        terms = [part for one in terms for part in (one.args if one.row is add else (one,))]
    return terms


def _uncast(node: Node, elem: dtypes.DType, acc: dtypes.DType) -> Node:
    """The value before it is rounded to the dtype of the result; a ReLU of it has the same result."""
    while node.kind == "cast" and node.dtype in (elem, acc) and node.args[0].dtype in (elem, acc):
        node = node.args[0]
    return node


class LibraryPlan(Plan):
    """A product and what follows it by one call of the library, for arrays of given layouts.

    Attributes:
        backwards: what a tape records of a call, by which inputs are tracked.
    """

    __slots__ = ("_ending", "backwards")

    def __init__(self, ending: Ending, out: Layout, launch: Prepared) -> None:
        super().__init__(out.device, (out,), launch)
        self.backwards: dict[tuple[bool, ...], Any] = {}
        self._ending = ending

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Array:
        """Multiply and return the result, a new array; there are no numbers."""
        return self(*arrays)

    @property
    def source(self) -> str:
        """What stands for the text of a kernel."""
        value = " + ".join(["A @ B", *({"row": "bias", "matrix": "C"}[one] for one in self._ending.added)])
        return f"// One call of cuBLASLt: D = {f'relu({value})' if self._ending.relu else value}"


def make_plan(ending: Ending, task: Task, out: Layout) -> LibraryPlan | None:
    """The call of the library for a product of layouts; None if it cannot do that.

    Args:
        ending: what follows the product.
        task: the product.
        out: the layout of the result, which is dense.
    """
    size = out.dtype.itemsize
    sizes = ((task.m, task.k), (task.k, task.n), (task.m, task.n))
    steps = (_steps(task.a), _steps(task.b)[::-1], (task.n, 1))
    matrices = [
        _Matrix(out.dtype, shape, (size * row, size * column))
        for shape, (row, column) in zip(sizes, steps, strict=True)
    ]
    apart = (task.a.batch, task.b.batch, task.m * task.n)
    left, right, made = matrices
    with on(out.device):
        launch = cublas_lt.prepare(
            out.device.xp, left, right, made, task.batches, apart, ending.added, ending.relu, allows_tf32()
        )
    return None if launch is None else LibraryPlan(ending, out, launch)


def _steps(factor: Factor) -> tuple[int, int]:
    """The steps of a factor along its own axis and along the depth."""
    return (factor.row, 1) if factor.by_depth else (1, factor.row)
