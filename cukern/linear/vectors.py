"""Products of the matrices of a batch with a vector each, as sums of elementwise products in one launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device.interface import Properties
from ..elementwise.fuse import fuse
from ..launch import cost
from ..launch.variant import Variant
from ..reduction.rows import sum as sum_along
from ..shape.views import swapaxes
from .library import Separate, epilogue_seconds, is_along_rows
from .problem import Product


@fuse(static=("axis",))
def _summed(x: Any, y: Any, axis: int) -> Any:
    return sum_along(x * y, axis=axis, keepdims=True)


@dataclass(frozen=True)
class Vectors(Variant[Product]):
    """Each matrix is read once, as the sum's operand: cuBLAS reads those of a batch at a quarter of the speed."""

    name = "sum of products"

    #: The share of the bandwidth that sums along rows and along columns reach: measured on an H200.
    along_rows: ClassVar[float] = 0.9
    along_columns: ClassVar[float] = 0.78
    #: Seconds that a call takes beyond a library's, of views and of the sum: measured on an H200's host.
    calling: ClassVar[float] = 5e-6

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For a batch of matrices, with one row or one column on the other side."""
        batches, m, n, _ = problem.sizes
        if problem.rows is not None or problem.saves:
            return "for the result alone"
        if problem.elem not in dtypes.INEXACT:
            return "sums of integers have another dtype"
        return "" if batches > 1 and 1 in (m, n) else "for a batch of matrices and a vector each"

    def cost(self, problem: Product, limits: Properties) -> float:
        """The bytes of the factors and the product, and a separate epilogue."""
        share = self.along_rows if is_along_rows(problem) else self.along_columns
        moving = problem.nbytes / (share * cost.bandwidth(limits))
        return moving + cost.launch(limits) + self.calling + epilogue_seconds(problem, limits)

    def plan(self, problem: Product, limits: Properties) -> Callable[..., Array]:
        """The sum, or that it is one computation and what follows it another."""
        product = partial(_product, problem.transposed, problem.sizes[2] == 1)
        return product if problem.epilogue is None else Separate(problem, lambda: product)


def _product(transposed: bool, column: bool, a: Array, b: Array) -> Array:
    """The product of two arrays, of which the second is one column or the first one row; not recorded."""
    with tape.stop_recording():
        if column:
            result: Array = _summed(a, b if transposed else swapaxes(b, -1, -2), -1)
        else:
            result = _summed(swapaxes(a, -1, -2), swapaxes(b, -1, -2) if transposed else b, -2)
    return result
