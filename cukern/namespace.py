"""The array namespace: every public function of arrays, gathered from the tables and families."""

from __future__ import annotations

from . import tape
from .constants import constant, owned
from .fuse import fuse as fuse
from .operators import FUNCTIONS
from .ops import at as _at  # noqa: F401 - registers x.at
from .ops import getitem as _getitem  # noqa: F401 - registers x[key]
from .ops import inplace as _inplace  # noqa: F401 - registers x += y
from .ops.assemble import *  # noqa: F403
from .ops.bessel_functions import *  # noqa: F403
from .ops.calculus import *  # noqa: F403
from .ops.comparisons import *  # noqa: F403
from .ops.einsum import *  # noqa: F403
from .ops.elementwise import astype as astype
from .ops.fitting import *  # noqa: F403
from .ops.gamma_functions import *  # noqa: F403
from .ops.histogram import *  # noqa: F403
from .ops.index import *  # noqa: F403
from .ops.index import check_indices as check_indices
from .ops.linalg import *  # noqa: F403
from .ops.manipulate import *  # noqa: F403
from .ops.nan import *  # noqa: F403
from .ops.padding import *  # noqa: F403
from .ops.reduce import *  # noqa: F403
from .ops.reduce import sum_to_shape
from .ops.scan import *  # noqa: F403
from .ops.search import *  # noqa: F403
from .ops.sets import *  # noqa: F403
from .ops.slices import *  # noqa: F403
from .ops.softmax import *  # noqa: F403
from .ops.sort import *  # noqa: F403
from .ops.spaces import *  # noqa: F403
from .ops.statistics import *  # noqa: F403
from .special import *  # noqa: F403
from .table import *  # noqa: F403

#: Functions that arrays have as methods or operators, under another public name or none; rows of derivatives alone.
INTERNAL = frozenset({"at", "compare", "getitem", "setitem", "inplace", "direction", "logistic_density"})


tape.register_algebra(
    add=FUNCTIONS["add"],
    sum_to_shape=sum_to_shape,
    zeros=constant(0.0),
    ones=constant(1.0),
    cast=astype,
    own=owned,
)

__all__ = sorted(set(FUNCTIONS) - INTERNAL | {"check_indices", "fuse"})
