"""The families of layer norm and of its gradient, and their launches for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any

from ... import dtypes
from ...array import Array
from ...array.creation import zeros
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...kernel.plan import made, serial
from ...launch.family import Family
from . import reference
from .problem import Normalization
from .variants import HOST_SLOTS, GradientPacks, GradientTwoPasses, Registers, TwoPasses

#: Of layer norm, RMS norm, and group norm where registers hold a group.
LAYER_NORM: Family[Normalization] = Family(
    "layer norm",
    TwoPasses,
    Registers,
    reference=reference.normalization,
    samples=reference.samples(of_gradient=False),
)
#: Of the gradients of layer norm and RMS norm.
GRADIENT: Family[Normalization] = Family(
    "gradient of layer norm",
    GradientTwoPasses,
    GradientPacks,
    reference=reference.gradient,
    samples=reference.samples(of_gradient=True),
)
#: Elements at most on which the host's gradient is run to compile it ahead of need.
_REHEARSED = 1 << 17


def _dense(*arrays: Array | None) -> tuple[list[Any], list[Any]]:
    """Arrays in C order, and their layouts; None for None."""
    given: list[Any] = list(arrays)
    layouts: list[Layout | None] = [None] * len(given)
    for i, one in enumerate(given):
        if one is not None:
            own = one._layout or one._planned()
            if not own.contiguous:
                given[i] = one = one.contiguous()
                own = one._planned()
            layouts[i] = own
    return given, layouts


def launch_forward(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    columns: int,
    centered: bool = True,
    residual: Array | None = None,
) -> list[Array]:
    """The normalized ``x`` and its statistics (rows, 2); all arrays have one dtype.

    Rows that are not ``centered`` are divided by the root of their mean square. With a ``residual`` its sum with ``x``
    is normalized, and is the third result.
    """
    name = "layer_norm" if centered else "rms_norm"
    return made(name, _forward, eps, columns, centered, x, weight, bias, residual)


def _forward(eps: float, columns: int, centered: bool, *arrays: Array | None) -> list[Array]:
    (x, weight, bias, residual), (own, of_weight, of_bias, last) = _dense(*arrays)
    plan = LAYER_NORM(Normalization(own, of_weight, of_bias, columns, centered, residual=last))
    return plan(x, *(() if residual is None else (residual,)), weight, bias, eps)


def launch_backward(
    x: Array,
    dy: Array,
    weight: Array | None,
    statistics: Array,
    columns: int,
    wanted: tuple[bool, bool] = (True, True),
    centered: bool = True,
    plus: Array | None = None,
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of x, to which ``plus`` is added, weight and bias.

    The last two have shape (columns,), or are None unless ``wanted``.
    """
    name = f"gradient of {'layer_norm' if centered else 'rms_norm'}"
    dx, dweight, dbias = made(name, _backward, columns, wanted, centered, statistics, x, dy, weight, plus)
    return dx, dweight, dbias


def _backward(
    columns: int, wanted: tuple[bool, bool], centered: bool, statistics: Array, *arrays: Array | None
) -> list[Array | None]:
    (x, dy, weight, plus), (own, of_dy, of_weight, last) = _dense(*arrays)
    problem = Normalization(own, of_weight, None, columns, centered, dy=of_dy, wanted=wanted, residual=last)
    results: list[Array | None] = GRADIENT(problem)(
        x, dy, weight, statistics, *(() if plus is None else (plus,))
    )
    return results


def expect_backward(
    x: Array, weight: Array | None, bias: Array | None, columns: int, needs: Sequence[bool], centered: bool
) -> None:
    """Compile the gradient for rows of ``x`` ahead of need, for a cotangent in C order.

    Args:
        needs: whether a tape needs the gradients of x, weight and bias, of those that are not None.
    """
    rows = min(x.size // columns, HOST_SLOTS)
    if not serial(x.device):
        of_given = iter(needs[1:])
        wanted = weight is not None and next(of_given), bias is not None and next(of_given)
        of_weight = None if weight is None else weight._planned()
        _expect(x.device, x.dtype, x.shape, of_weight, columns, wanted, centered)
    elif rows * columns <= _REHEARSED:
        _rehearse(x.device, x.dtype, rows, columns, weight is not None, centered)


@lru_cache(maxsize=1024)
def _expect(
    device: Device,
    elem: dtypes.DType,
    shape: tuple[int, ...],
    weight: Layout | None,
    columns: int,
    wanted: tuple[bool, bool],
    centered: bool,
) -> None:
    x = fresh_layout(device, elem, shape)
    problem = Normalization(x, weight, None, columns, centered, dy=x, wanted=wanted)
    device.backend.ahead(partial(GRADIENT.expect, problem), plans_alone=True)


@cache
def _rehearse(
    device: Device, elem: dtypes.DType, rows: int, columns: int, weighted: bool, centered: bool
) -> None:
    """Have the kernels of a gradient run on a few rows."""

    def run() -> None:
        x = zeros((rows, columns), elem, device)
        weight = zeros((columns,), elem, device) if weighted else None
        statistics = zeros((rows, 2), dtypes.info(elem).acc, device)
        launch_backward(x, x, weight, statistics, columns, (weighted, weighted and centered), centered)

    device.backend.ahead(run)
