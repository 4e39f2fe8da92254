"""Directional derivatives of functions by dual numbers: their kernels, rendered with a dual number for each float."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..array import Array
from ..autodiff.cotangents import is_array, is_float
from ..device import Device
from ..dtypes import DType
from ..errors import CukernError
from ..kernel import Kernel
from ..kernel import kernel as launches
from ..kernel.bound import BoundKernel
from ..text import render

Values = npt.NDArray[np.float64]
#: How far a dual number's derivative part is scaled down, so that products of two vanish in the library's complex
#: arithmetic, by which dual numbers pass from one kernel to another.
STEP = 2.0**-90
#: Texts that take floats apart, as bits or as vectors.
_REFUSED = re.compile(
    r"\b(?:float|double|half|__half|__nv_bfloat16|int|uint)[1-4]\b|\breinterpret_cast\b|\basm\b|_as_(?:float|int|uint)\b"
    r"|__half2|__nv_bfloat162|\bwmma\b|mma_"
)
#: Held while one thread's launches are diverted.
_diverting = threading.RLock()


class NoDuals(Exception):
    """A function cannot be computed in dual numbers; the message says why."""


@contextmanager
def launching(instead: Callable[..., None]) -> Iterator[None]:
    """Call ``instead`` for each launch of a user's kernel by this thread while the with-block runs.

    Other threads launch as usual, and wait where they open such a block.
    """
    own = threading.get_ident()

    def divert(
        kernel: Kernel, args: Sequence[Any], grid: Any, shared: int, overrides: dict[str, Any]
    ) -> None:
        if threading.get_ident() == own:
            instead(kernel, args, grid, shared, overrides)
        else:
            kernel._launch(args, grid, shared, overrides)

    with _diverting:
        before, launches.through = launches.through, divert
        try:
            yield
        finally:
            launches.through = before


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
        replaced.append(_made(leaf.numpy().astype(np.float64), moved * STEP, leaf.device))
    run = _Run(dtypes.float32 if dtype is None else dtype)
    try:
        with launching(run.launch):
            outputs = list(pytree.leaves(function(*pytree.replace(list(args), replaced))))
    except (CukernError, TypeError, ValueError, NotImplementedError) as error:
        raise NoDuals(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    found = [run.read(one) for one in outputs if is_array(one) and is_float(one.dtype)]
    return [value for value, _ in found], [slope / STEP for _, slope in found]


def _made(values: Values, slopes: Values, device: Device) -> Array:
    whole = np.empty(values.shape, np.complex128)
    whole.real, whole.imag = values, slopes
    with device.activate():
        return Array._wrap(device.xp.asarray(whole), device)


class _Run:
    """The launches of one call of a function.

    Args:
        dtype: that of the arrays which dual numbers stand for.
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.made: dict[Any, BoundKernel] = {}
        #: The derivatives of arrays that the function makes of a fixed floating dtype, beside the array.
        self.slopes: dict[int, tuple[Array, Values]] = {}

    def read(self, array: Array) -> tuple[Values, Values]:
        """An array's values and derivatives."""
        values = array.numpy()
        if array.dtype in dtypes.COMPLEX:
            return values.real.astype(np.float64), values.imag.astype(np.float64)
        known = self.slopes.get(id(array._storage))
        slope = np.zeros(values.shape) if known is None or known[1].shape != values.shape else known[1]
        return values.astype(np.float64), slope

    def launch(
        self, kernel: Kernel, args: Sequence[Any], grid: Any, shared: int, overrides: dict[str, Any]
    ) -> None:
        """Launch a kernel's dual form."""
        device, overrides = kernel._defaults(args, overrides)
        if overrides.get("elem") in dtypes.COMPLEX:
            overrides["elem"] = self.dtype
        bound = self.bind(kernel, device, overrides)
        params = bound.signature.params
        given = [
            self.dual(arg) if p.kind in ("pointer", "view") and p.dtype in dtypes.COMPLEX else arg
            for p, arg in zip(params, args, strict=False)
        ]
        blocks = bound.grid_for(args) if grid is None else grid
        bound(given, blocks, shared * 8)
        for param, old, new in zip(params, args, given, strict=True):
            if isinstance(new, Array) and new is not old and not param.const:
                self.write(old, new)

    def bind(self, kernel: Kernel, device: Device, overrides: dict[str, Any]) -> BoundKernel:
        """The dual form of a kernel."""
        key = kernel, device, repr(sorted(overrides.items()))
        if key not in self.made:
            variables, block = kernel._resolve(overrides)
            if found := _REFUSED.search(render.source_of(kernel.template)):
                raise NoDuals(f"{kernel.name} takes floats apart: {found[0]}")
            self.made[key] = BoundKernel(kernel._rendered(variables, duals=True), device, block)
        return self.made[key]

    def dual(self, array: Any) -> Any:
        """The array in dual numbers: itself, or a copy of one that the function made of floats."""
        if array is None or array.dtype in dtypes.COMPLEX:
            return array
        values, slopes = self.read(array)
        return _made(values, slopes, array.device)

    def write(self, array: Array, duals: Array) -> None:
        """Copy what a kernel wrote to an array of floats."""
        whole = duals.numpy()
        array[...] = whole.real.astype(array.numpy().dtype)
        self.slopes[id(array._storage)] = array, whole.imag
