"""Results that records do not keep: where a derivative reads them they are computed again, from what is kept anyway.

A result has its recipe at its storage, so that views of it have it too. A record that saves the result, or all of its
elements in another shape, keeps a :class:`.cotangents.Forgotten` instead, which stands for an array with the same key:
a tape that records the derivative takes it for the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .cotangents import Forgotten, read, registered
from .state import stop_recording

if TYPE_CHECKING:
    from ..array import Array
    from .tape import Tape


#: Results after so many that are computed again, one from the other, are kept: a derivative computes a chain at once.
_DEEPEST = 32


class Recipe:
    """How a result is computed again.

    Args:
        name: the operation's name, for errors.
        compute: computes the result from ``inputs``.
        inputs: arrays that the operation's own derivative reads, so that keeping them takes no memory.
        result: what it computed from them.

    Attributes:
        cached: the result, computed again: kept from the first derivative that reads it to that of its own operation.
        depth: how many results are computed again at most, one of the other, until this one is.
        key: the result's.
    """

    __slots__ = (
        "_compute",
        "_inputs",
        "_name",
        "_versions",
        "cached",
        "depth",
        "dtype",
        "key",
        "size",
        "version",
    )

    def __init__(
        self,
        name: str,
        compute: Callable[..., Array],
        inputs: Sequence[Array | None],
        result: Array,
        tape: Tape,
    ) -> None:
        self._name, self._compute, self._inputs = name, compute, forgotten(inputs, tape)
        self.key = result._key
        self.depth = 1 + max(
            (one.recipe.depth for one in self._inputs if isinstance(one, Forgotten)), default=0
        )
        self._versions = [0 if one is None else one._storage.version for one in inputs]
        self.dtype, self.size, self.version = result.dtype, result.size, result._storage.version
        self.cached: Array | None = None

    def array(self, shape: tuple[int, ...]) -> Array:
        """The result in a shape, as an array that no tape knows."""
        with stop_recording():
            if (
                self.cached is None or self.cached._storage.version != self.version
            ):  # a backward has written it
                self.cached = self._compute(*read(self._name, self._inputs, self._versions))
            same = self.cached.shape == shape
            return self.cached._alias() if same else registered().reshape(self.cached, shape)


class Again:
    """How another makes a result again, such as one that is gathered from several processes.

    A record keeps none of its views in any order of its axes either. Tapes forget such a result in any case.

    Args:
        make: makes the result.
        drop: called when no derivative reads it any longer.
    """

    depth = 0

    def __init__(self, result: Array, make: Callable[[], Array], drop: Callable[[], None]) -> None:
        self._make, self._drop, self.key = make, drop, result._key
        self.dtype, self.size, self.version = result.dtype, result.size, result._storage.version

    @staticmethod
    def note(
        result: Array, make: Callable[[], Array], drop: Callable[[], None], tapes: Sequence[Tape]
    ) -> None:
        """Give a recorded result its recipe."""
        result._storage.recipe = recipe = Again(result, make, drop)
        for tape in tapes:
            tape._recipes[result._key] = recipe

    @property
    def cached(self) -> None:
        """Nothing, which is set when the result is no longer read."""

    @cached.setter
    def cached(self, value: None) -> None:
        self._drop()

    def array(self, shape: tuple[int, ...]) -> Array:
        """The result in a shape, as an array that no tape knows."""
        with stop_recording():
            made = self._make()
            return made._alias() if made.shape == shape else registered().reshape(made, shape)


def note(
    name: str,
    compute: Callable[..., Array],
    inputs: Sequence[Array | None],
    result: Array,
    tapes: Sequence[Tape],
) -> None:
    """Give a recorded result its recipe, if the outermost tape is to compute results again.

    Args:
        name, compute, inputs, result: as :class:`Recipe` takes them.
        tapes: the tapes that have recorded the operation.
    """
    if tapes[0].recompute and result.is_contiguous:
        recipe = Recipe(name, compute, inputs, result, tapes[0])
        if recipe.depth <= _DEEPEST:
            result._storage.recipe = recipe
            for tape in tapes:
                tape._recipes[result._key] = recipe


def forgotten(saved: Sequence[Array | None], tape: Tape) -> list[Array | Forgotten | None]:
    """``saved`` without the arrays that can be computed again from what ``tape`` keeps."""
    return [array if array is None or not _repeatable(array, tape) else Forgotten(array) for array in saved]


def _repeatable(array: Array, tape: Tape) -> bool:
    """Whether an array has all elements of a result for which the tape has a recipe, and was not written since."""
    recipe: Recipe | Again | None = array._storage.recipe
    if recipe is None or tape._recipes.get(recipe.key) is not recipe:
        return False
    ordered = array.is_contiguous or (type(recipe) is Again and array._planned().order is not None)
    return ordered and (array.dtype, array.size, array._storage.version) == (
        recipe.dtype,
        recipe.size,
        recipe.version,
    )
