"""Reductions as problems of a family, with the sizes and strides that kernels see; and plans, their launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..device.interface import Prepared, Properties
from ..dtypes import DType
from ..elementwise.graph import cast, input_node
from ..elementwise.plan import converter
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program, program
from ..kernel import plan as kernel_plan
from ..kernel.plan import BoundLaunch
from ..kernel.strides import Axes, Strides, broadcast_shapes, broadcast_steps, collapse, needs_64_bits

#: Steps beyond which a loop's offset is counted in 64 bits.
_REACH = 2**30
#: Bytes of accumulators by their C++ type, where they are not those of a value.
_BYTES = {
    "bool": 1,
    "float": 4,
    "double": 8,
    "unsigned long long": 8,
    "complex<float>": 8,
    "complex<double>": 16,
}


@dataclass(frozen=True, eq=False)
class Reduction:
    """How a reduction combines values: C++ expressions over a state.

    ``T`` is the type of values, ``A`` of the accumulator, ``State`` of the state, ``Place`` of indices.

    Attributes:
        name: the public name.
        push: the state ``a`` updated with the value ``x`` at index ``i``.
        combine: the states ``a`` and ``b`` combined.
        identity: the state of no values.
        finish: the result, from the state ``a`` of ``n`` values, and the parameter ``p`` if there is one.
        state: the type of the state.
        wide: whether float32 accumulates in float64, and integers modulo 2**64.
        parameter: whether there is a parameter ``p``.
        ordered: whether the indices of values matter.
        empty: whether the reduction of no values has a result.
        batch: the state ``a`` updated with the values of the array ``v``, whose indices are ``i``, ``i + step``
            and so on; by default each value is pushed to a separate state.
        custom: whether it is a user's, whose C++ may call all that elementwise expressions may.
    """

    name: str
    push: str
    combine: str
    identity: str
    finish: str = "a"
    state: str = "A"
    wide: bool = False
    parameter: bool = False
    ordered: bool = False
    empty: bool = True
    batch: str = ""
    custom: bool = False


def accumulator(reduction: Reduction, value: DType) -> str:
    """The C++ type of the accumulator for values of a dtype."""
    if reduction.wide:
        kind = dtypes.info(value).kind
        if kind in "iu":
            return "unsigned long long"
        if value == dtypes.float32:
            return "double"
        if value == dtypes.complex64:
            return "complex<double>"
    return compute_type(value)


@lru_cache(maxsize=256)
def load(source: DType, value: DType) -> Program:
    """The program that reads a reduction's input unchanged."""
    return program("load", (cast(input_node(0, source), value),), (source,))


class Source(NamedTuple):
    """An input: bytes of an element; strides in elements along the kept, outer reduced and inner reduced axes."""

    size: int
    kept: Strides
    over: Strides
    step: int
    aligned: bool

    @property
    def column(self) -> int:
        """The stride along the last kept axis."""
        return self.kept[-1] if self.kept else 0


def along(axes: Sequence[int], shape: Sequence[int], steps: Sequence[Strides], by: int | None = None) -> Axes:
    """Some axes of arrays with these steps, adjacent ones merged, and sorted by the steps of array ``by``."""
    own = [tuple([step[i] for i in axes]) for step in steps]
    return collapse([shape[i] for i in axes], own, None if by is None else own[by])


@dataclass(frozen=True)
class Reducing:
    """The reduction of the value of a program along axes.

    Attributes:
        reduction: how values are combined.
        program: computes them.
        operands: the inputs' layouts.
        axes: those reduced.
        keepdims: whether they stay, with size 1.
        result: the result's dtype.
        onto: whether the result is added to another array.
    """

    reduction: Reduction
    program: Program
    operands: tuple[Layout, ...]
    axes: tuple[int, ...]
    keepdims: bool
    result: DType
    onto: bool = False

    @property
    def device(self) -> Device:
        return self.operands[0].device

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the values."""
        return broadcast_shapes(self.program.name, [operand.shape for operand in self.operands])

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """The same with size 1 for the reduced axes."""
        return tuple([1 if i in self.axes else n for i, n in enumerate(self.shape)])

    @property
    def results(self) -> tuple[Layout]:
        """The layout of the result."""
        shape = [n for i, n in enumerate(self.kept_shape) if self.keepdims or i not in self.axes]
        return (fresh_layout(self.device, self.result, tuple(shape)),)

    @property
    def value(self) -> DType:
        """The dtype of the values."""
        return self.program.outputs[0].dtype

    @property
    def statements(self) -> int:
        """The number of those that compute a value."""
        return len(statements(self.program.outputs)[0])

    @cached_property
    def walked(self) -> tuple[Axes, Axes]:
        """The kept axes and the reduced ones, of these at least one, with adjacent axes merged: kernels walk few."""
        shape, none = self.shape, (0,) * len(self.operands)
        steps = [broadcast_steps(operand, shape) for operand in self.operands]
        kept = along([i for i in range(len(shape)) if i not in self.axes], shape, steps)
        if any(shape[i] == 0 for i in self.axes):
            # With strides of 0 the kernel would read an element, but there is none.
            return kept, Axes((0,), ((1,),) * len(none))
        over = along(sorted(self.axes), shape, steps, None if self.reduction.ordered else 0)
        return kept, over if over.shape else Axes((1,), ((0,),) * len(none))

    @property
    def kept(self) -> tuple[int, ...]:
        """The sizes of the kept axes."""
        return self.walked[0].shape

    @property
    def over(self) -> tuple[int, ...]:
        """The sizes of the outer reduced axes."""
        return self.walked[1].shape[:-1]

    @property
    def inner(self) -> int:
        """The size of the inner reduced axis."""
        return self.walked[1].shape[-1]

    @property
    def rows(self) -> int:
        """The number of results."""
        return math.prod(self.kept)

    @property
    def outer(self) -> int:
        """The number of inner axes of a result."""
        return math.prod(self.over)

    @cached_property
    def count(self) -> int:
        """The number of values of a result."""
        return self.outer * self.inner

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The inputs."""
        kept, over = self.walked
        return tuple(
            Source(operand.dtype.itemsize, steps, reduced[:-1], reduced[-1], operand.aligned)
            for operand, steps, reduced in zip(self.operands, kept.steps, over.steps, strict=True)
        )

    @property
    def wide(self) -> bool:
        """Whether an index or offset needs 64 bits."""
        flat = Axes((self.rows, max(self.count, 1024)), ())
        reach = [abs(source.step) * self.inner for source in self.sources]
        reach += [abs(source.column) * self.kept[-1] for source in self.sources if source.kept]
        return max(reach) > _REACH or any(map(needs_64_bits, (flat, *self.walked)))

    @property
    def in_columns(self) -> bool:
        """Whether neighbouring elements of the largest input belong to different results."""
        sizes = (*self.kept, *self.over, self.inner)

        def elements(source: Source) -> int:
            steps = (*source.kept, *source.over, source.step)
            return math.prod(n for n, step in zip(sizes, steps, strict=True) if step)

        largest = max(self.sources, key=elements)
        return bool(largest.column) and (not largest.step or abs(largest.column) < abs(largest.step))

    @property
    def state_bytes(self) -> int:
        """The bytes of a state."""
        value = self.value
        number = _BYTES.get(accumulator(self.reduction, value), value.itemsize)
        index = 8 if self.wide else max(4, value.itemsize)
        sizes = {"T": value.itemsize, "int": 4, "Moments<A>": 3 * number, "LogSum<A>": 2 * number}
        if value in dtypes.NARROW:
            sizes["T"], index = 4, max(4, index)
        sizes["Indexed<T, Place>"] = 2 * max(index, sizes["T"])
        return sizes.get(self.reduction.state, number)

    @property
    def features(self) -> dict[str, Any]:
        return {
            "reduction": self.reduction.name,
            "dtype": dtypes.info(self.operands[0].dtype).name,
            "in_columns": self.in_columns,
            "inputs": len(self.operands),
            "rows": self.rows,
            "values": self.count,
        }

    @property
    def summary(self) -> str:
        of = "" if self.program.name in ("load", self.reduction.name) else f" of {self.program.name}"
        arrays = ", ".join(f"{dtypes.info(one.dtype).name} {one.shape}" for one in self.operands)
        onto = ", added to another array" if self.onto else ""
        return f"{self.reduction.name}{of} of {arrays} along axes {self.axes}{onto}"

    def least_seconds(self, limits: Properties) -> float:
        """The time in which the inputs are read and the result is written once."""
        from ..launch import cost  # not before the first reduction

        return sum(one.nbytes for one in (*self.operands, *self.results)) / cost.bandwidth(limits)


class Plan(kernel_plan.Plan):
    """What computes a reduction for arrays of one layout, with what its derivatives need.

    Attributes:
        problem: what it computes.
        parts: the memory for the states of pieces, if there are several.
        final: the kernel that combines them, and what it was prepared of.
        converters: functions that convert each Python number to the dtype in which it is computed.
        parameter: whether the result takes a parameter.
        pulls: the derivatives of calls without numbers, by the inputs that are tracked.
    """

    __slots__ = ("converters", "final", "parameter", "parts", "problem", "pulls")

    def __init__(self, problem: Reducing) -> None:
        super().__init__(problem.device, problem.results)
        self.problem, self.parameter = problem, problem.reduction.parameter
        self.converters = tuple(map(converter, problem.program.scalars))
        self.parts: Layout | None = None
        self.final: tuple[Prepared, BoundLaunch] | None = None
        self.pulls: dict[tuple[bool, ...], Any] = {}

    @property
    def source(self) -> str:
        """The text of the kernels."""
        return "\n".join([super().source, *(() if self.final is None else (self.final[1].text,))])

    def __call__(self, *arrays: Array) -> Array:
        """The result of arrays alone, a new array."""
        return self.run(arrays, ())

    def run(
        self,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        parameter: float = 0.0,
        onto: Array | None = None,
    ) -> Array:
        """Launch and return the result, a new array; ``onto`` is what it is added to, in C order."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self.run(arrays, scalars, parameter, onto)
        result = Array._made(self.layouts[0])
        if self.launch is None:
            return result
        values: list[Any] = []
        for array in arrays:
            values.append(array._operand)
        if scalars:
            values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        end = (parameter, result._operand) if self.parameter else (result._operand,)
        if onto is not None:
            end = (onto._operand, *end)
        if self.parts is None:
            self.launch(*values, *end)
        else:
            parts = Array._made(self.parts)
            self.launch(*values, parts._operand)
            assert self.final is not None
            self.final[0](parts._operand, *end)
        return result
