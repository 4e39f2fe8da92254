"""Forward-mode derivatives of functions with kernels, which are rendered with a dual number for each float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..array import Array
from ..autodiff.cotangents import is_array, is_float
from ..device import Device
from ..errors import CukernError
from ..text.stand_ins import DUAL
from .stand_ins import StandIns, launching

Values = npt.NDArray[np.float64]
#: The scale of a dual number's derivative part (a complex step): between kernels dual numbers are complex numbers, in
#: whose products the product of two such parts must vanish.
STEP = 2.0**-90


class NoDuals(Exception):
    """A function cannot be computed in dual numbers; the message says why."""


def derivative(
    function: Callable[..., Any], args: Sequence[Any], directions: Sequence[Values | None]
) -> tuple[list[Values], list[Values]]:
    """The floating outputs of a function and their derivatives along a direction, all in float64.

    Args:
        function: takes ``args``; outside its kernels it may do whatever is defined for complex numbers.
        args: pytrees of arrays; the floats among their leaves are replaced by dual numbers.
        directions: for each floating leaf, the direction in which it moves; None for one that stays.

    Raises:
        NoDuals: a kernel takes floats apart, or a function has no complex form.
    """
    leaves = list(pytree.leaves(list(args)))
    given, dtype = iter(directions), None
    replaced = []
    for leaf in leaves:
        if not (is_array(leaf) and is_float(leaf.dtype)):
            replaced.append(leaf)
            continue
        dtype = leaf.dtype if dtype is None else dtype
        direction = next(given)
        moved = np.zeros(leaf.shape) if direction is None else direction
        replaced.append(_dual(leaf.numpy().astype(np.float64), moved * STEP, leaf.device))
    run = StandIns(DUAL, dtypes.complex128, dtypes.float32 if dtype is None else dtype)
    try:
        with launching(run.launch):
            outputs = list(pytree.leaves(function(*pytree.replace(list(args), replaced))))
        values = [one.numpy() for one in outputs if is_array(one) and is_float(one.dtype)]
    except (CukernError, TypeError, ValueError, NotImplementedError) as error:
        raise NoDuals(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    finally:
        run.restore()
    return [y.real.astype(np.float64) for y in values], [y.imag.astype(np.float64) / STEP for y in values]


def _dual(values: Values, slopes: Values, device: Device) -> Array:
    whole = np.empty(values.shape, np.complex128)
    whole.real, whole.imag = values, slopes
    with device.activate():
        return Array._wrap(device.xp.asarray(whole), device)
