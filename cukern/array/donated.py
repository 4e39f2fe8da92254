"""Arrays that a caller gives away to a function, which may write their memory: reading them later is an error."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from .. import pytree
from ..errors import KernelFault
from .array import ALONE, Array, Storage, has_others, holders
from .deferred import Deferred, computed


class Donated(Deferred):
    """An array whose memory was given away: what reads it raises an error."""

    __slots__ = ()


def _refuse(message: str) -> Callable[[], NoReturn]:
    def compute() -> NoReturn:
        raise RuntimeError(message)

    return compute


def alone(x: Array) -> bool:
    """Whether the memory of an array is the library's, and no other array's."""
    if has_others(x) or x._storage.shared or x._storage.constant:
        return False
    if not x.device.addressable:
        return True
    made = x._memory is x._ndarray  # as a launch makes it, with one more reference
    return holders(x)[1] <= ALONE[1] + made and (made or bool(x._ndarray.flags.owndata))


class Donation:
    """Arguments that a call gives away.

    Args:
        given: the names of arguments, and what was given for them.
        arguments: all arrays among the arguments.
        to: the name of the function.

    Raises:
        RuntimeError: an array is donated already.
        TypeError: an array is a parameter.
        ValueError: an array is given twice.
    """

    def __init__(self, given: Sequence[tuple[str, Any]], arguments: Sequence[Array], to: str) -> None:
        self._to = to
        ids = list(map(id, arguments))
        found = [leaf for name, tree in given for leaf in pytree.leaves_with_path(tree, name)]
        self._arrays: list[pytree.Leaf] = [leaf for leaf in found if isinstance(leaf.value, Array)]
        for path, x in self._arrays:
            if x._is_parameter:
                raise TypeError(f"jit: {to}: {path}: expected an array to give away, got a parameter")
            computed(x)
            if ids.count(id(x)) > 1:
                raise ValueError(f"jit: {to}: {path} is given away, and is another argument, too")
        #: The arrays that have the memory, as long as they are there.
        self._owners: list[Callable[[], Array | None]] = []

    def _take(self) -> dict[int, Array]:
        """Give all away; return by the ids of arrays others that have their memory."""
        owners = {}
        for path, x in self._arrays:
            owners[id(x)] = x._alias()
            x._storage, x._viewed = Storage(), None
            x._ndarray = x._memory = x._operand = None
            x.__class__ = Donated
            x.compute = _refuse(
                f"{path}: this array of shape {x.shape} was given away to {self._to}: use what that returned, or give "
                "it a copy"
            )
        self._owners = [weakref.ref(one) for one in owners.values()]
        return owners

    @contextmanager
    def taken(self, arrays: list[Array]) -> Iterator[None]:
        """A with-block in which others have the memory, which replace the given ones in ``arrays``.

        If the block raises an error other than that of a kernel, which may have written it, that is undone.
        """
        owners = self._take()
        arrays[:] = [owners.get(id(x), x) for x in arrays]
        owners.clear()
        try:
            yield
        except KernelFault:
            raise
        except Exception:
            for (_, x), owner in zip(self._arrays, self._owners, strict=True):
                if (own := owner()) is not None:
                    x.__class__ = Array
                    for part in ("_ndarray", "_memory", "_operand", "_storage"):
                        setattr(x, part, getattr(own, part))
            raise

    def ended(self, result: Any) -> Any:
        """A result, in which other arrays are in place of those that are given away by now."""
        if all(type(x) is Donated for _, x in self._arrays):
            return result
        owners = self._take()
        return pytree.replace(result, [owners.get(id(x), x) for x in pytree.leaves(result)])
