"""Products of copies whose rows begin at multiples of 16 bytes, of factors whose rows do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..array import Array
from ..array.creation import empty
from ..array.layout import Layout, layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..device.interface import Properties
from ..kernel.sizes import ACCESS, divide_up
from ..launch import cost
from ..launch.variant import Variant
from ..shape.copy import write
from ..shape.views import swapaxes
from .library import Separate, epilogue_seconds, library_seconds
from .problem import Product, is_misaligned
from .tma import Tma
from .variants import TensorCores


def _pitch(one: Layout) -> int:
    """Elements from a row of a copy to the next."""
    chunk = ACCESS // one.dtype.itemsize
    return divide_up(one.shape[-1], chunk) * chunk


def _is_transposed(one: Layout) -> bool:
    """Whether the contiguous axis is the last but one."""
    return one.strides[-2] == one.dtype.itemsize != one.strides[-1]


def _swapped(one: Layout) -> Layout:
    shape, strides = ((*each[:-2], each[-1], each[-2]) for each in (one.shape, one.strides))
    return layout(one.device, one.dtype, shape, strides, one.aligned)


def aligned_layout(one: Layout) -> Layout:
    """The layout of a factor, or of its copy."""
    if not is_misaligned(one):
        return one
    if _is_transposed(one):
        return _swapped(aligned_layout(_swapped(one)))
    steps, step = [one.dtype.itemsize], one.dtype.itemsize * _pitch(one)
    for n in reversed(one.shape[:-1]):
        steps.append(step)
        step *= n
    return layout(one.device, one.dtype, one.shape, tuple(reversed(steps)), True)


def aligned(x: Array) -> Array:
    """``x``, or a copy in the same order whose rows begin at multiples of 16 bytes; nothing is recorded."""
    form = x._planned()
    if not is_misaligned(form):
        return x
    if _is_transposed(form):
        return swapaxes(aligned(swapaxes(x, -1, -2)), -1, -2)
    copy: Array = empty((*x.shape[:-1], _pitch(form)), dtype=x.dtype, device=x.device)[..., : x.shape[-1]]
    write(x.device, copy._data, x._data)
    return copy


@dataclass(frozen=True)
class Aligned(Variant[Product]):
    """The product of aligned copies, by the fastest variant for these, and a separate epilogue."""

    name = "aligned copies"
    needs = (8, 0)

    @staticmethod
    def of_copies(problem: Product) -> Product:
        """The product of the copies, by itself."""
        a, b = aligned_layout(problem.a), aligned_layout(problem.b)
        return problem._replace(a=a, b=b, operands=(), epilogue=None)

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For 16-bit factors in rows that begin at other addresses."""
        if problem.rows is not None or problem.saves:
            return "for the result alone"
        if not (problem.misaligned and any(is_misaligned(one) for one in (problem.a, problem.b))):
            return "for 16-bit factors whose rows are misaligned"
        return ""

    def cost(self, problem: Product, limits: Properties) -> float:
        """The copies, the fastest product of them, and what a second kernel reads and writes."""
        own = self.of_copies(problem)
        copies = [one for one in (problem.a, problem.b) if is_misaligned(one)]
        seconds = sum(cost.launch(limits) + cost.moving(one.nbytes, one.nbytes, limits) for one in copies)
        products = [
            config.cost(own, limits)
            for kind in (Tma, TensorCores)
            if not kind.refusal(own, limits)
            for config in kind.configs(own, limits)
        ]
        seconds += min([library_seconds(own, limits), *products])
        return seconds + epilogue_seconds(problem, limits)

    def plan(self, problem: Product, limits: Properties) -> Callable[..., Array]:
        """The product, or that it is one computation and what follows it another."""
        product = partial(_product, problem.transposed)
        return product if problem.epilogue is None else Separate(problem, lambda: product)


def _product(transposed: bool, a: Array, b: Array) -> Array:
    """The product of two arrays by that of copies, not recorded."""
    with tape.stop_recording():
        left, right = aligned(a), aligned(b)
        result: Array = FUNCTIONS["matmul"](left, swapaxes(right, -1, -2) if transposed else right)
    return result
