"""Calls of functions whose kernels run with another number type in place of floats."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import empty
from ..array.layout import address
from ..autodiff.cotangents import is_array, is_float
from ..dtypes import DType
from ..errors import LaunchError
from ..kernel import kernel as launches
from ..kernel.bound import BoundKernel
from ..kernel.kernel import Call
from ..text.needed import reached
from ..text.signature import Param
from ..text.stand_ins import DOUBLE, StandIn

#: Held while one thread's launches are diverted.
_diverting = threading.RLock()
#: How many bytes of dynamic shared memory stand for one of a kernel of floats: those of half types grow the most.
_GROWTH = {False: 4, True: 8}
#: The parts of an array that are replaced while its memory is.
_PARTS = ("_ndarray", "_layout", "_memory", "_operand", "_storage", "device")

Launch = Callable[[Call], None]


class NoStandIn(LaunchError):
    """A kernel cannot run with other numbers in place of its floats; the message says why."""


@contextmanager
def launching(instead: Launch) -> Iterator[Launch]:
    """Call ``instead`` for each launch of a user's kernel by this thread while the with-block runs.

    Other threads launch as usual, and wait where they open such a block.

    Yields:
        what a launch did before, for ``instead`` to call.
    """
    own = threading.get_ident()

    def divert(call: Call) -> None:
        (instead if threading.get_ident() == own else Call.launch)(call)

    with _diverting:
        before, launches.through = launches.through, divert
        try:
            yield before or Call.launch
        finally:
            launches.through = before


class StandIns:
    """Launches with other numbers in place of floats.

    Arrays of floats that a kernel writes become arrays of these numbers, and are what they were once :meth:`restore` is
    called.

    Args:
        numbers: what stands in place of floats in kernels.
        dtype: that of the arrays of these numbers.
        elem: the dtype that templates are rendered for, in place of ``dtype``.
    """

    def __init__(self, numbers: StandIn, dtype: DType, elem: DType) -> None:
        self.numbers, self.dtype, self.elem = numbers, dtype, elem
        self.compiled: dict[Any, BoundKernel] = {}
        self.replaced: list[tuple[Array, dict[str, Any]]] = []

    def launch(self, call: Call) -> None:
        """Launch the version of a kernel that is compiled for these numbers."""
        kernel, args, grid, shared, given_overrides = call
        device, overrides = kernel._defaults(args, dict(given_overrides))
        if overrides.get("elem") == self.dtype:
            overrides["elem"] = self.elem
        key = kernel, device, repr(sorted(overrides.items()))
        if key not in self.compiled:
            variables, block = kernel._resolve(overrides)
            if use := self.numbers.refused(reached(kernel._rendered(variables).text)):
                raise NoStandIn(f"{kernel.entry or kernel.name} takes floats apart: {use}")
            self.compiled[key] = BoundKernel(kernel._rendered(variables, self.numbers), device, block)
        bound = self.compiled[key]
        params = bound.signature.params
        given = [self.given(p, arg) for p, arg in zip(params, args, strict=False)] + list(args[len(params) :])
        bound(given, bound.grid_for(args) if grid is None else grid, shared * _GROWTH[self.numbers.dual])

    def given(self, param: Param, arg: Any) -> Any:
        """An argument as a kernel takes it."""
        if param.kind == "table" and isinstance(arg, (list, tuple)):
            return [self.stood_for(param, one) for one in arg]
        return self.stood_for(param, arg)

    def stood_for(self, param: Param, array: Any) -> Any:
        """An array of floats as one of these numbers: a copy if it is only read."""
        if param.dtype != self.dtype or not is_array(array) or not is_float(array.dtype):
            return array
        if array.dtype == self.dtype:
            return array
        if param.const:
            return self.copy(array)
        self.become(array)
        return array

    def copy(self, array: Array) -> Array:
        """A copy in these numbers, without the array's count of writes."""
        if array._storage.empty is not None and not array._storage.version:
            return empty(array.shape, self.dtype, array.device)
        with array.device.activate():
            return Array._wrap(array._data.astype(self.dtype, order="C"), array.device)

    def become(self, array: Array) -> None:
        """Make an array, and the one that it views, arrays of these numbers.

        Raises:
            NoStandIn: it views an array that is not contiguous.
        """
        whole = array.base
        if whole is None or whole.dtype != array.dtype:
            return self.replace(array, self.copy(array))
        if not whole.is_contiguous:
            raise NoStandIn("an array that a kernel writes views one that is not contiguous")
        old, size = array._data, array.dtype.itemsize
        offset = (address(old) - address(whole._data)) // size
        copied = self.copy(whole)
        grown = self.dtype.itemsize
        strides = [stride // size * grown for stride in old.strides]
        flat = copied._data.ravel()[offset:]
        with array.device.activate():
            xp = array.device.xp
            view = (
                np.ndarray(old.shape, self.dtype, flat, 0, strides)
                if array.device.addressable
                else xp.ndarray(old.shape, self.dtype, flat.data, strides=strides)
            )
        self.replace(whole, copied)
        self.replace(array, Array._wrap(view, array.device, copied._storage))

    def replace(self, array: Array, new: Array) -> None:
        self.replaced.append((array, {name: getattr(array, name) for name in _PARTS}))
        array._replace(new)

    def restore(self) -> None:
        """Give arrays back the memory that they had, with the values that they have now."""
        values = [(array, array._data) for array, _ in self.replaced]
        for array, parts in reversed(self.replaced):
            for name, part in parts.items():
                setattr(array, name, part)
        for array, data in values:
            with array.device.activate():
                array._data[...] = (data.real if data.dtype.kind == "c" else data).astype(array.dtype)
            array._bump("a launch with other numbers in place of floats")
        self.replaced.clear()


@contextmanager
def in_float64() -> Iterator[None]:
    """A with-block in which users' kernels compute in double, also where they say float.

    Narrower dtypes are float64 where the user's function names them.
    """
    run = StandIns(DOUBLE, dtypes.float64, dtypes.float64)
    narrow = dict.fromkeys((dtypes.float32, dtypes.float16, dtypes.bfloat16), dtypes.float64)
    with launching(run.launch), dtypes.default_dtype(dtypes.float64), dtypes.standing(narrow):
        try:
            yield
        finally:
            run.restore()
