"""Products of given constants: what tests of their kernels share."""

from __future__ import annotations

from collections.abc import Sequence

import cukern as ck
from cukern.array.layout import Layout
from cukern.device.interface import Properties
from cukern.elementwise.program import Program
from cukern.launch.family import STAND_IN
from cukern.linear.problem import Product, Rows
from cukern.linear.variants import OneLaunch, ProductPlan


def limits_of(device: ck.Device) -> Properties:
    """Those of a GPU; for the host those of an H200."""
    return STAND_IN if device.kind == "host" else device.properties


def make_plan(
    made: Program,
    a: Layout,
    b: Layout,
    operands: Sequence[Layout],
    config: OneLaunch,
    rows: Rows | None = None,
    saves: bool = False,
) -> ProductPlan | None:
    """The launch with these constants; None if the variant does not take the layouts."""
    problem = Product(a, b, tuple(operands), made, rows, saves)
    return None if config.gemm_of(problem) is None else config.plan(problem, limits_of(a.device))
