"""Repeated launches of a kernel for arguments of a known form: only the checks of values are repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..array.deferred import about_to_write, traced_threads
from ..array.layout import overlap
from ..autodiff import tape
from ..autodiff.state import opened
from ..device import capture_hooks
from ..device.interface import Prepared

if TYPE_CHECKING:
    from .bound import BoundKernel

_INTEGERS = frozenset((int,))


def form_of(args: Sequence[Any], grid: Any, shared: Any) -> tuple[Any, ...] | None:
    """The form of a launch, on which its checks depend: layouts of arrays, types of other arguments, grid, and shared.

    None if the grid, or the bytes of shared memory, have to be converted or refused.
    """
    plain = (
        grid is None or type(grid) is int or (type(grid) is tuple and _INTEGERS.issuperset(map(type, grid)))
    )
    if not plain or type(shared) is not int:
        return None
    return (
        grid,
        shared,
        *[arg._layout or arg._planned() if isinstance(arg, Array) else type(arg) for arg in args],
    )


class Repeat:
    """A launch for arguments of a form that has passed all checks which depend on the form alone.

    Args:
        bound: the kernel.
        launch: the prepared launch, which takes operands of arrays and numbers.
        converters: the converter of each parameter.
        written: the indices of the arguments that it writes to.
        args: arguments of the form.
    """

    __slots__ = (
        "_arrays",
        "_bound",
        "_launch",
        "_name",
        "_nulls",
        "_numbers",
        "_pairs",
        "_which",
        "_written",
    )

    def __init__(
        self,
        bound: BoundKernel,
        launch: Prepared,
        converters: Sequence[Callable[[Any], Any]],
        written: Sequence[int],
        args: Sequence[Any],
    ) -> None:
        self._bound, self._launch = bound, launch
        self._which, self._name = bound.device.which, bound.signature.name
        self._arrays = arrays = [i for i, arg in enumerate(args) if isinstance(arg, Array)]
        self._written = [i for i in written if i in arrays]
        self._pairs = [(i, [j for j in arrays if j not in self._written or i < j]) for i in self._written]
        self._nulls = [i for i, arg in enumerate(args) if arg is None]
        self._numbers = [(i, converters[i]) for i in range(len(args)) if i not in {*arrays, *self._nulls}]

    def __call__(self, args: Sequence[Any]) -> bool:
        """Launch on the current stream; return False if that takes the checks of a first launch.

        Raises:
            LaunchError: a number does not fit its parameter.
            KernelFault: the kernel failed while it ran.
        """
        bound, which = self._bound, self._which
        if traced_threads:
            about_to_write(*(args[i] for i in self._written))
        if capture_hooks.new_empty is not None or (which is not None and which() != bound.device.index):
            return False
        for i, others in self._pairs:
            storage = args[i]._storage
            if storage.constant:
                return False
            new = storage.empty is not None and not storage.version and not storage.shared
            for j in others:  # nobody else knows new memory
                if args[j]._storage is storage if new else overlap(args[i], args[j]):
                    return False
        values = list(args)
        for i in self._arrays:
            values[i] = args[i]._operand
        for i, convert in self._numbers:
            values[i] = convert(args[i])
        for i in self._nulls:
            values[i] = bound.device.backend.operand(None)
        try:
            self._launch(*values)
        except OverflowError:  # of a number, which a first launch rounds; nothing was launched
            return False
        finally:  # a kernel that fails may already have written
            for i in self._written:
                if capture_hooks.capturing:
                    args[i]._bump(self._name)
                else:
                    storage = args[i]._storage
                    storage.version += 1
                    storage.writer = self._name
        if opened and tape.active():
            bound.tell_tapes(args, [args[i] for i in self._written])
        return True

    def anew(self, values: list[Any]) -> bool:
        """A call with the operands of arrays instead of these; what is written is memory that nothing else knows.

        Raises:
            LaunchError, KernelFault: as of a call.
        """
        device = self._bound.device
        if self._nulls or capture_hooks.new_empty is not None or capture_hooks.recorder() is not None:
            return False
        if device.which is not None and device.which() != device.index:
            return False
        for i, convert in self._numbers:
            values[i] = convert(values[i])
        try:
            self._launch(*values)
        except OverflowError:
            return False
        return True
