"""What NumPy computes on the host in place of kernels: variants with names, declared, asked and explained alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy import ndarray

from .. import pytree
from ..array import Array
from ..array.batched import level_of, levels
from ..array.host_data import quiet
from ..autodiff import tape
from ..autodiff.state import opened
from ..device import Device
from ..device.host.checked.mode import active as checking
from ..device.host.checked.mode import modes
from ..device.kernels_only import asked

#: Elements from which NumPy computes a call.
MANY = 1 << 14
#: Elements from which kernels on several cores are faster than NumPy's one.
LARGE = 1 << 21
#: The kinds of NumPy's own numbers: half types of others are of another kind.
_KINDS = frozenset("biufc")


class Explained(Protocol):
    """What chooses how a problem is computed, and tells why."""

    name: str

    def explain(self, problem: Any) -> str:
        """A few lines on the choice."""


#: Called with each family and problem for which a plan is asked, and with what NumPy computes or leaves to kernels.
watchers: list[Callable[[Explained, Any], None]] = []


@dataclass(eq=False, slots=True)
class ByNumPy:
    """What NumPy computes of a function in place of kernels, on the host alone.

    Attributes:
        name: of the function.
        compute: takes ndarrays for arrays, and returns ndarrays; None if it has written to one; or in words why not.
        least: the fewest elements.
        most: the elements from which several cores are faster; None if they are not.
        alike: whether all arrays must have one dtype.
        warns: whether NumPy may warn of the numbers.
        refusals: the errors for arguments of which the function that asks says what is wrong, in its own words.
        why: why it takes less time than kernels.
    """

    name: str
    compute: Callable[..., Any]
    least: int = MANY
    most: int | None = LARGE
    alike: bool = False
    warns: bool = False
    refusals: tuple[type[Exception], ...] = (IndexError, OverflowError, TypeError, ValueError)
    why: str = "fewer passes over arrays in caches"

    def __call__(self, x: Array | Device, /, *given: Any, times: int = 1) -> Any:
        """What NumPy computes, as arrays, or True if it has written; None where kernels are to compute it.

        Args:
            x: the array with the most elements; or the device, if sizes, dtypes and tapes have been looked at.
            given: the other arguments.
            times: how many elements of the result there are for each of ``x``.
        """
        # All in this one function, as another call would be a twentieth of what a small one takes.
        datas: Any = given
        why, result, size = "", None, 0
        if isinstance(x, Array):
            form = x._layout or x._ndarray  # a view may have no layout yet, and working it out takes longer
            device, size = x.device, form.size * times
            if size < self.least and not watchers:
                return None
        else:
            device = x
        if not device.addressable:
            why = "not on the host"
        elif asked() or (modes and checking()):
            why = "kernels only"
        elif levels and level_of(pytree.leaves((x, given))) is not None:
            why = "examples of a batch"
        elif device is x:
            pass
        elif size < self.least:
            why = f"fewer than {self.least} elements"
        elif form.dtype.kind not in _KINDS:
            why = f"NumPy has no {form.dtype}"
        elif size >= LARGE and self.most is not None and device.properties.multiprocessors > 1:
            why = "several cores are faster"
        elif opened and tape.recording([one for one in (x, *given) if isinstance(one, Array)]):
            why = "a tape records it"
        else:
            datas = [x._data]  # type: ignore[union-attr]
            for one in given:
                if isinstance(one, Array):
                    if one.device is not device:
                        why = "of several devices"
                        break
                    one = one._data
                    if self.alike and one.dtype != form.dtype:
                        why = "of several dtypes"
                        break
                datas.append(one)
        if not why:
            try:
                result = quiet().run(self.compute, *datas) if self.warns else self.compute(*datas)
            except self.refusals as error:
                why = f"refused: {error}"
        if watchers:
            about = [f"{one.dtype} {one.shape}" for one in (x, *given) if isinstance(one, (Array, ndarray))]
            for watch in watchers:
                watch(self, (", ".join(about), result if isinstance(result, str) else why))
        kind = type(result)
        if kind is ndarray:
            return Array._wrap(result, device)
        if result is None:
            return None if why else True
        if kind is tuple or kind is list:
            return tuple([Array._wrap(one, device) for one in result])
        if isinstance(result, (ndarray, np.generic)):
            return Array._wrap(np.asarray(result), device)
        return None if kind is str else result

    def explain(self, problem: tuple[str, str]) -> str:
        """Whether NumPy or kernels compute a call, and why, for its arrays and why NumPy does not."""
        about, why = problem
        end = f"> kernels\n  NumPy    {why}" if why else f"> NumPy    {self.why}\n  kernels"
        return f"{self.name}: {about}\n{end}"


#: All of them by name.
VARIANTS: dict[str, ByNumPy] = {}


def by_numpy(name: str, **options: Any) -> Callable[[Callable[..., Any]], ByNumPy]:
    """Declare what NumPy computes under a name: called with, or over, the function of ndarrays that computes it.

    Raises:
        ValueError: another variant has the name.
    """

    def declared(compute: Callable[..., Any]) -> ByNumPy:
        if name in VARIANTS:
            raise ValueError(
                f"by_numpy: name: {name!r} is that of another variant, of {VARIANTS[name].compute}"
            )
        VARIANTS[name] = result = ByNumPy(name, compute, **options)
        return result

    return declared
