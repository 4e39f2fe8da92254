"""The parameters of an optimizer, with their names, groups and gradients."""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from .. import dtypes, pytree
from ..array import Array
from ..device import capture_hooks
from ..nn.module import Module
from ..nn.structure import leaves_by_parameter

_PLAIN = {Array, type(None)}


def _unchecked(name: str, value: Any) -> Any:
    return value


class Options(UserDict[str, Any]):
    """The options of a group by name; setting one other than ``lr`` makes captured steps be captured anew.

    Attributes:
        check: converts a value, from its name and value; raises for unknown options and values out of range.
    """

    def __init__(self, options: Mapping[str, Any], check: Callable[[str, Any], Any] = _unchecked) -> None:
        self.check = check
        super().__init__(options)

    def __setitem__(self, name: str, value: Any) -> None:
        value = self.check(name, value)
        if name != "lr" and self.get(name) != value:
            capture_hooks.replaced += 1
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        capture_hooks.replaced += 1

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self


class Group:
    """Parameters of an optimizer with their own options.

    Attributes:
        members: the indices of the parameters among the optimizer's.
        options: by name, such as ``{"weight_decay": 0.0}``; may be changed between steps. Other options have
            the optimizer's value, such as ``optimizer.weight_decay``.
    """

    def __init__(self, members: Iterable[int], options: dict[str, Any]) -> None:
        self.members = tuple(members)
        self._options = Options(options, _unchecked)

    @property
    def options(self) -> Options:
        """The group's own options."""
        return self._options

    @options.setter
    def options(self, options: Mapping[str, Any]) -> None:
        self._options = Options(options, self._options.check)
        capture_hooks.replaced += 1

    def checked(self, check: Callable[[str, Any], Any]) -> None:
        """Check the present options, and those that will be set."""
        self._options = Options(self._options, check)

    def __repr__(self) -> str:
        return f"Group({len(self.members)} parameters, {self.options})"


def named(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a pytree with dotted names, as in a module; None counts as a leaf."""
    children: Iterable[tuple[Any, Any]]
    if isinstance(tree, Module):
        children = tree.named_parameters()
    elif isinstance(tree, Mapping):
        children = tree.items()
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        children = zip(tree._fields, tree, strict=True)
    elif isinstance(tree, (list, tuple)):
        children = enumerate(tree)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        children = [(field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree)]
    else:
        leaves = [] if tree is None else pytree.leaves(tree)
        if len(leaves) < 2:
            yield prefix, leaves[0] if leaves else tree
            return
        children = enumerate(leaves)
    for name, child in children:
        yield from named(child, f"{prefix}.{name}" if prefix else str(name))


def read(parameters: Any) -> tuple[list[tuple[str, Array]], list[Group]]:
    """The parameters with their names, and their groups.

    Raises:
        ValueError: there are none, one is given twice, two share memory or a name, or one has gaps in memory.
        TypeError: one is not a floating array, or ``parameters`` is not a container.
    """
    if isinstance(parameters, Array):
        raise TypeError("parameters: expected a Module or a sequence of arrays, got one array")
    parameters = _listed(parameters, "parameters")
    are_groups = isinstance(parameters, (list, tuple)) and all(
        isinstance(parameter, dict) and "params" in parameter for parameter in parameters
    )
    if not are_groups or not parameters:
        leaves = _leaves(parameters, 0)
        groups = [Group(range(len(leaves)), {})]
    else:
        parts: list[list[tuple[str, Array]]] = []
        groups = []
        for i, one in enumerate(parameters):
            count = sum(len(part) for part in parts)
            parts.append(_leaves(_listed(one["params"], f"parameters[{i}]['params']"), count))
            options = {name: value for name, value in one.items() if name != "params"}
            groups.append(Group(range(count, count + len(parts[-1])), options))
        leaves = [leaf for part in parts for leaf in part]
        if len({name for name, _ in leaves}) < len(leaves):
            leaves = [(f"{i}.{name}", leaf) for i, part in enumerate(parts) for name, leaf in part]
    if not leaves:
        raise ValueError("parameters: expected at least one, got none")
    for name, parameter in leaves:
        if not is_floating(parameter):
            raise TypeError(f"parameters: {name!r} is not a floating array but {describe(parameter)}")
        if parameter.size and parameter._planned().order is None:
            raise ValueError(f"parameters: {name!r} is written in place and must lie in memory without gaps")
    _refuse_repeated(leaves)
    return leaves, groups


def _listed(parameters: Any, argument: str) -> Any:
    """Iterators as lists, pairs of names and arrays as dicts, and other pytrees unchanged."""
    if isinstance(parameters, (Module, Mapping, Array)):
        return parameters
    if not isinstance(parameters, Iterable):
        if not any(map(is_floating, pytree.leaves(parameters))):
            raise TypeError(
                f"{argument}: expected a module or a pytree of arrays, got {describe(parameters)}"
            )
        return parameters
    listed = parameters if isinstance(parameters, (list, tuple)) else list(parameters)
    pairs = [one for one in listed if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)]
    if not pairs or len(pairs) < len(listed):
        return listed
    names = [name for name, _ in pairs]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{argument}: two of them are named {repeated[0]!r}")
    return dict(pairs)


def _leaves(tree: Any, count: int) -> list[tuple[str, Array]]:
    """The parameters of a tree; those of a sequence are named by numbers from ``count`` on."""
    if isinstance(tree, (list, tuple)) and all(isinstance(one, Array) for one in tree):
        return [(str(count + i), one) for i, one in enumerate(tree)]
    return [(name, leaf) for name, leaf in named(tree) if leaf is not None]


def _refuse_repeated(leaves: list[tuple[str, Array]]) -> None:
    """Refuse an array that would be updated twice per step, and a name that two parameters share."""
    names: set[str] = set()
    owners: dict[int, str] = {}
    for name, parameter in leaves:
        if name in names:
            raise ValueError(f"parameters: two of them are named {name!r}")
        if id(parameter) in owners:
            raise ValueError(f"parameters: {owners[id(parameter)]!r} and {name!r} are one array")
        names.add(name)
        owners[id(parameter)] = name


def aligned(
    gradients: Any, names: Sequence[str], parameters: Sequence[Array], indices: Mapping[int, int]
) -> list[Any]:
    """The gradients in the order of the parameters.

    Args:
        gradients: as :meth:`.Optimizer.step` takes them.
        indices: the indices of the parameters by identity.

    Raises:
        ValueError: they do not match the parameters in number or name.
    """
    if isinstance(gradients, (list, tuple)) and _PLAIN.issuperset(map(type, gradients)):
        aligned_gradients = list(gradients)
    elif isinstance(gradients, Module):
        by_parameter = leaves_by_parameter(gradients)
        if not indices.keys().isdisjoint(by_parameter):
            if lost := [name for i, name in enumerate(names) if id(parameters[i]) not in by_parameter]:
                raise ValueError(
                    f"gradients: their module lacks the parameter {lost[0]!r} of this optimizer; "
                    "was it replaced after the optimizer was created?"
                )
            return [by_parameter.get(id(parameter)) for parameter in parameters]
        aligned_gradients = list(
            by_parameter.values()
        )  # the gradients are of another module than the parameters
    elif isinstance(gradients, Mapping):
        by_name = dict(named(gradients))
        if unknown := [name for name, one in by_name.items() if one is not None and name not in names]:
            raise ValueError(f"gradients: no parameters are named {', '.join(map(repr, unknown))}")
        return [by_name.get(name) for name in names]
    else:
        aligned_gradients = [leaf for _, leaf in named(gradients)]
    if len(aligned_gradients) != len(parameters):
        raise ValueError(f"gradients: expected {len(parameters)}, got {len(aligned_gradients)}")
    return aligned_gradients


def is_floating(value: object) -> bool:
    """Whether ``value`` is an array of a floating dtype."""
    return isinstance(value, Array) and dtypes.info(value.dtype).kind == "f"


def describe(value: object) -> str:
    """``value`` in an error."""
    return f"an array of {value.dtype}" if isinstance(value, Array) else type(value).__name__
