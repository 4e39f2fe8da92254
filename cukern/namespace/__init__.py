"""The array namespace: all public functions of arrays, collected from the other rooms."""

from __future__ import annotations

from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..elementwise import inplace as _inplace  # noqa: F401 - registers x += y
from ..elementwise.complex_rows import *  # noqa: F403
from ..elementwise.complex_rows import as_cotangent
from ..elementwise.constants import constant, owned
from ..elementwise.custom import elementwise as elementwise
from ..elementwise.exponents import *  # noqa: F403
from ..elementwise.function import astype as astype
from ..elementwise.fuse import fuse as fuse
from ..elementwise.logic import *  # noqa: F403
from ..elementwise.piecewise import *  # noqa: F403
from ..elementwise.special import *  # noqa: F403
from ..elementwise.table import *  # noqa: F403
from ..index import update as _at  # noqa: F401 - registers x.at
from ..index.assemble import *  # noqa: F403
from ..index.bits import *  # noqa: F403
from ..index.put import *  # noqa: F403
from ..index.scan import *  # noqa: F403
from ..index.search import *  # noqa: F403
from ..index.segments import *  # noqa: F403
from ..index.select import *  # noqa: F403
from ..index.sets import *  # noqa: F403
from ..index.sort import *  # noqa: F403
from ..index.subscript import *  # noqa: F403
from ..index.take import *  # noqa: F403
from ..index.take import check_indices as check_indices
from ..index.unravel import *  # noqa: F403
from ..linear import epilogue as _epilogue  # noqa: F401 - fused functions find it by name
from ..linear.cross import *  # noqa: F403
from ..linear.diagonals import *  # noqa: F403
from ..linear.einsum import *  # noqa: F403
from ..linear.products import *  # noqa: F403
from ..ops.bessel_functions import *  # noqa: F403
from ..ops.calculus import *  # noqa: F403
from ..ops.choices import *  # noqa: F403
from ..ops.comparisons import *  # noqa: F403
from ..ops.conversions import *  # noqa: F403
from ..ops.covariance import *  # noqa: F403
from ..ops.fitting import *  # noqa: F403
from ..ops.gamma_functions import *  # noqa: F403
from ..ops.histogram import *  # noqa: F403
from ..ops.histogram_grid import *  # noqa: F403
from ..ops.padding import *  # noqa: F403
from ..ops.polynomials import *  # noqa: F403
from ..ops.slices import *  # noqa: F403
from ..ops.spaces import *  # noqa: F403
from ..ops.statistics import *  # noqa: F403
from ..ops.ufunc_methods import *  # noqa: F403
from ..ops.vectorized import *  # noqa: F403
from ..ops.windows import *  # noqa: F403
from ..reduction.custom import reduction as reduction
from ..reduction.nan import *  # noqa: F403
from ..reduction.rows import *  # noqa: F403
from ..reduction.rows import sum_to_shape
from ..reduction.softmax import *  # noqa: F403
from ..shape import nested as _nested  # noqa: F401 - registers arrays of nested lists
from ..shape.broadcast import repeated
from ..shape.joins import *  # noqa: F403
from ..shape.views import *  # noqa: F403

#: Functions that are not public under their name: those of operators and methods, and rows used only by others.
INTERNAL = frozenset(
    {
        *(
            "at",
            "compare",
            "getitem",
            "setitem",
            "inplace",
            "inplace_matmul",
            "direction",
            "logistic_density",
        ),
        *("cast_to", "evaluate", "flat", "viewed"),
        *("array_function", "array_ufunc", "assembled", "contiguous_copy", "filled", "require_array"),
        *("ufunc_reduce", "ufunc_accumulate", "ufunc_reduceat", "ufunc_at"),
        *("bits", "exponent", "mantissa", "scaled"),
        *(
            "product_then",
            "product_plan",
            "product_source",
            "matmul_transposed",
            "times_i",
            "times_real",
            "conj_times",
            "phase",
            "binary_entropy",
            "weighted",
        ),
    }
)


tape.register_algebra(
    add=FUNCTIONS["add"],
    sum_to_shape=sum_to_shape,
    zeros=constant(0.0),
    ones=constant(1.0),
    cast=as_cotangent,
    reshape=FUNCTIONS["reshape"],
    broadcast=repeated,
    own=owned,
)

__all__ = sorted(
    set(FUNCTIONS) - INTERNAL
    | {"check_indices", "elementwise", "frompyfunc", "fuse", "poly1d", "reduction", "vectorize"}
)
