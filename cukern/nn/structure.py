"""Where the parameters of a module are, and copies of it with other arrays in their place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

from .parameter import Parameter

#: The attribute in which values for a module, such as gradients, refer to the module whose structure they have.
STRUCTURE = "_structure"


class Tree:
    """The base class of modules: an object whose attributes may hold parameters."""

    __slots__ = ("__dict__", "__weakref__", "_known_plan")
    _known_plan: _Plan

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if isinstance(state, tuple):  # attributes, and slots, of which copies have a plan of their own
            attributes, slots = state
            slots.pop("_known_plan", None)
            return (attributes, slots) if slots else attributes
        return state

    @property
    def _of_module(self) -> Tree:
        """The module, or that of which this is a tree of values."""
        return vars(self).get(STRUCTURE, self)


#: Types that may contain parameters.
_HOLDERS = (Parameter, Tree, dict, list, tuple)


class _Plan:
    """Where the parameters of a module are, as one walk has found them, and how a copy is put together.

    A part is the module itself, a module in it, or a list, tuple or dict that may hold parameters.

    Attributes:
        leaves: the parameters by identity, in the order in which they are met.
    """

    def __init__(self, root: Tree) -> None:
        self.leaves: dict[int, Parameter] = {}
        #: The part and the key of each place that holds a parameter, and the parameter's number.
        self._places: list[tuple[int, Any, int]] = []
        #: The same of each place that holds a part, in the order of the walk.
        self._links: list[tuple[int, Any, int]] = []
        #: The parts after the root, which does not own itself: reference counts free it.
        self._parts: list[Any] = []
        self._visit(0, vars(root), {id(root): 0})
        self._modules = [one for one in self._parts if isinstance(one, Tree)]
        self._tables = [one for one in self._parts if isinstance(one, dict)]
        self._rows = [one for one in self._parts if isinstance(one, (list, tuple))]
        self._sizes, self._keys, values = self._seen(root)
        self._types = [*map(type, values)]
        self._held = [i for i, value in enumerate(values) if isinstance(value, _HOLDERS)]
        self._holders = [values[i] for i in self._held]

    def _visit(self, part: int, items: Any, numbers: dict[int, int]) -> None:
        """Number what the items of a part hold; ``numbers`` are those so far of modules and parameters."""
        for key, value in items.items() if isinstance(items, dict) else enumerate(items):
            if isinstance(value, Parameter):
                self._places.append((part, key, numbers.setdefault(id(value), len(self.leaves))))
                self.leaves[id(value)] = value
            elif isinstance(value, _HOLDERS):
                new = len(self._parts) + 1
                number = numbers.setdefault(id(value), new) if isinstance(value, Tree) else new
                self._links.append((part, key, number))
                if number == new:
                    self._parts.append(value)
                    self._visit(number, vars(value) if isinstance(value, Tree) else value, numbers)

    def _seen(self, root: Tree) -> tuple[list[int], list[Any], list[Any]]:
        """The sizes of all parts, the keys of those that have some, and the values of all."""
        tables = [vars(root), *map(vars, self._modules), *self._tables]
        sizes = [*map(len, tables), *map(len, self._rows)]
        values = chain(chain.from_iterable(map(dict.values, tables)), chain.from_iterable(self._rows))
        return sizes, [*chain.from_iterable(tables)], [*values]

    def holds(self, root: Tree) -> bool:
        """Whether a walk would find the same: all places have values of the same types, and hold the same parts.

        It takes few loops of Python, as it precedes each step.
        """
        sizes, keys, values = self._seen(root)
        return (
            sizes == self._sizes
            and keys == self._keys
            and [*map(type, values)] == self._types
            and all(map(is_, map(values.__getitem__, self._held), self._holders))
        )

    def read(self, values: Tree) -> list[Any]:
        """What values for the module have in place of each parameter; for one of two places, that of the first.

        Raises:
            ValueError: a place is not there.
        """
        parts: list[Any] = [vars(values)]
        found: dict[int, Any] = {}
        try:
            for part, key, number in self._links:
                if number == len(parts):
                    child = parts[part][key]
                    parts.append(vars(child) if isinstance(child, Tree) else child)
            for part, key, number in self._places:
                if number not in found:
                    found[number] = parts[part][key]
        except (LookupError, TypeError):
            raise ValueError(
                f"values for {type(values).__name__} lack the attribute or item {key!r}, which its module has"
            ) from None
        return list(found.values())

    def build(self, root: Tree, leaves: Sequence[Any]) -> Tree:
        """A copy of the module with ``leaves`` in place of the parameters."""
        made: list[Any] = []
        for one in (root, *self._parts):
            if isinstance(one, Tree):
                made.append(object.__new__(type(one)))
                vars(made[-1]).update(vars(one))
                vars(made[-1])[STRUCTURE] = one
            else:
                made.append(dict(one) if isinstance(one, dict) else list(one))
        parts = [vars(one) if isinstance(one, Tree) else one for one in made]
        for part, key, number in self._places:
            parts[part][key] = leaves[number]
        for part, key, number in reversed(self._links):  # items before the tuple that is made of them
            own = self._parts[number - 1] if number else root
            child = made[number]
            if isinstance(own, tuple):
                child = type(own)(*child) if hasattr(own, "_fields") else tuple(child)
            parts[part][key] = child
        result: Tree = made[0]
        result._known_plan = self
        return result


def _plan_of(module: Tree) -> _Plan:
    """The plan of a module, of a new walk only where its structure is another than before."""
    plan = getattr(module, "_known_plan", None)
    if plan is None or not plan.holds(module):
        plan = _Plan(module)
        object.__setattr__(module, "_known_plan", plan)
    return plan


#: The module whose structure a tree has, its plan, and whether the tree is one of values.
_Of = tuple[Tree, _Plan, bool]


def flatten(module: Tree) -> tuple[list[Any], _Of]:
    """The parameters or their values; and what a tree of the same structure is made of."""
    structure = vars(module).get(STRUCTURE)
    if structure is None:
        plan = _plan_of(module)
        return list(plan.leaves.values()), (module, plan, False)
    plan = getattr(module, "_known_plan", None) or _plan_of(structure)
    return plan.read(module), (structure, plan, True)


def leaves_by_parameter(module: Tree) -> dict[int, Any]:
    """The value of each parameter, by the parameter's identity; for a module, the parameters themselves."""
    leaves, (_, plan, _) = flatten(module)
    return dict(zip(plan.leaves, leaves, strict=True))


def unflatten(of: _Of, leaves: Sequence[Any]) -> Tree:
    """A copy of a module's structure with ``leaves`` in place of the parameters of its plan."""
    structure, taken, of_values = of
    plan = _plan_of(structure)
    same = plan is taken or [*plan.leaves] == [*taken.leaves]
    try:
        if same or of_values:  # values of a module that has changed since are of the parameters that it had
            return (plan if same else taken).build(structure, leaves)
    except (LookupError, TypeError):
        pass
    raise ValueError(
        f"{type(structure).__name__}: a parameter was replaced after its structure was taken; take it again"
    )
