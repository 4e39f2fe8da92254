"""Nested containers of arrays, walked and rebuilt: what sources, arguments and gradients may be.

A pytree is a list, tuple, named tuple, dict, dataclass instance, an instance of a class given to
:func:`register`, or a leaf, which is anything else. ``None`` holds no leaf. A dict is walked in the
order of its keys' insertion.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Leaf(NamedTuple):
    """One leaf, with the path that leads to it, such as ``"['weights'][0]"``."""

    path: str
    value: Any


class _Node(NamedTuple):
    """How one container came apart: its children with the end of their paths, and how to rebuild it."""

    children: Sequence[tuple[str, Any]]
    rebuild: Callable[[list[Any]], Any]


_Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
_Unflatten = Callable[[Any, list[Any]], Any]
_registered: dict[type, tuple[_Flatten, _Unflatten]] = {}
_leaf_types: set[type] = set()  # found to be no containers


def register(
    cls: type[T],
    flatten: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, list[Any]], Any],
) -> None:
    """Make the instances of ``cls`` and of its subclasses pytrees.

    Args:
        cls: the class.
        flatten: takes an instance apart into its children and whatever else rebuilding it needs.
        unflatten: takes that and as many new children, and returns what stands for the instance.
    """
    _registered[cls] = (flatten, unflatten)
    _leaf_types.clear()


def _registration(cls: type) -> tuple[_Flatten, _Unflatten] | None:
    if not _registered:
        return None
    return next((_registered[base] for base in cls.__mro__ if base in _registered), None)


def _rebuild_dataclass(tree: Any, names: list[str], children: list[Any]) -> Any:
    made = copy.copy(tree)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def _open(tree: Any) -> _Node | None:
    """The container that ``tree`` is, or None for a leaf."""
    if type(tree) in _leaf_types:
        return None
    if tree is None:
        return _Node((), lambda children: None)
    if isinstance(tree, dict):
        keys = list(tree)
        return _Node(
            [(f"[{key!r}]", tree[key]) for key in keys],
            lambda children: dict(zip(keys, children, strict=True)),
        )
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        cls = type(tree)
        return _Node(
            [(f".{name}", child) for name, child in zip(cls._fields, tree, strict=True)],
            lambda children: cls(*children),
        )
    if isinstance(tree, (list, tuple)):
        make = list if isinstance(tree, list) else tuple
        return _Node([(f"[{i}]", child) for i, child in enumerate(tree)], make)
    registration = _registration(type(tree))
    if registration is not None:
        flatten_, unflatten_ = registration
        found, rest = flatten_(tree)
        return _Node([(f"[{i}]", child) for i, child in enumerate(found)], lambda new: unflatten_(rest, new))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        return _Node(
            [(f".{name}", getattr(tree, name)) for name in names],
            lambda children: _rebuild_dataclass(tree, names, children),
        )
    if not isinstance(tree, type):
        _leaf_types.add(type(tree))
    return None


def leaves(tree: Any, path: str = "") -> Iterator[Leaf]:
    """Every leaf of ``tree``, in order.

    >>> [leaf.path for leaf in leaves({"w": (1, 2), "b": None})]
    ["['w'][0]", "['w'][1]"]
    """
    node = _open(tree)
    if node is None:
        yield Leaf(path, tree)
    else:
        for end, child in node.children:
            yield from leaves(child, path + end)


def values(tree: Any) -> list[Any]:
    """What the leaves of ``tree`` hold, in order.

    >>> values({"w": (1, 2), "b": None})
    [1, 2]
    """
    kind = type(tree)
    if kind in _leaf_types:
        return [tree]
    if kind is list or kind is tuple:
        found: list[Any] = []
        for child in tree:
            found += values(child)
        return found
    return [leaf.value for leaf in leaves(tree)]


def structure(tree: Any) -> Any:
    """What ``tree`` is but for its leaves: hashable, and equal for trees of the same containers.

    >>> structure((1, 2)) == structure((3, 4)), structure((1, 2)) == structure([1, 2])
    (True, False)
    """
    node = _open(tree)
    if node is None:
        return None
    return type(tree), *((end, structure(child)) for end, child in node.children)


def replace(tree: Any, new: Iterable[Any]) -> Any:
    """``tree`` with its leaves replaced by those of ``new``, in the order of :func:`leaves`.

    A container none of whose leaves changes is kept as the same object.

    >>> replace({"w": (1, 2), "b": None}, [10, 20])
    {'w': (10, 20), 'b': None}
    """
    source = iter(new)
    made = _replace(tree, source)
    if next(source, source) is not source:
        raise ValueError("replace: there are more new leaves than the tree has")
    return made


def _replace(tree: Any, new: Iterator[Any]) -> Any:
    kind = type(tree)
    if (kind is list or kind is tuple) and tree:
        made = [_replace(child, new) for child in tree]
        same = all(map(operator.is_, made, tree))
        return tree if same else made if kind is list else tuple(made)
    node = None if kind in _leaf_types else _open(tree)
    if node is None:
        try:
            return next(new)
        except StopIteration:
            raise ValueError("replace: there are fewer new leaves than the tree has") from None
    made = [_replace(child, new) for _, child in node.children]
    if all(child is old for child, (_, old) in zip(made, node.children, strict=True)):
        return tree
    return node.rebuild(made)


def transform(function: Callable[[Any], Any], tree: Any) -> Any:
    """``tree`` with ``function`` of each leaf in its place.

    >>> transform(abs, [-1, (2, -3)])
    [1, (2, 3)]
    """
    return replace(tree, [function(value) for value in values(tree)])
