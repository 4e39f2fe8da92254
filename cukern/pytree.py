"""Pytrees: nested containers of arrays, which sources, arguments and gradients may be.

A pytree is a list, tuple, named tuple, dict, dataclass instance, or an instance of a class passed to
:func:`register`, whose items are pytrees; anything else is a leaf. ``None`` is a container without leaves.
The items of a dict are in the order of insertion.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

__all__ = ["Structure", "flatten", "leaves", "map", "register", "structure", "unflatten"]

T = TypeVar("T")


class Leaf(NamedTuple):
    """A leaf and its path, such as ``"['weights'][0]"``."""

    path: str
    value: Any


class _Node(NamedTuple):
    """A container taken apart: its children with the last part of their paths, and how to rebuild it."""

    children: Sequence[tuple[str, Any]]
    rebuild: Callable[[list[Any]], Any]


_Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
_Unflatten = Callable[[Any, list[Any]], Any]
_registered: dict[type, tuple[_Flatten, _Unflatten]] = {}
_leaf_types: set[type] = set()  # types known not to be containers


def register(
    cls: type[T],
    flatten: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, list[Any]], Any],
) -> None:
    """Make the instances of ``cls`` and of its subclasses pytrees.

    Args:
        cls: the class.
        flatten: takes an instance; returns its children, and any data needed to rebuild it.
        unflatten: takes that data and as many new children; returns the new instance.
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
    """``tree`` taken apart, or None for a leaf."""
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


def leaves_with_path(tree: Any, path: str = "") -> Iterator[Leaf]:
    """Every leaf of ``tree``, in order.

    >>> [leaf.path for leaf in leaves_with_path({"w": (1, 2), "b": None})]
    ["['w'][0]", "['w'][1]"]
    """
    node = _open(tree)
    if node is None:
        yield Leaf(path, tree)
    else:
        for end, child in node.children:
            yield from leaves_with_path(child, path + end)


def leaves(tree: Any) -> list[Any]:
    """The leaves of ``tree``, in order.

    >>> leaves({"w": (1, 2), "b": None})
    [1, 2]
    """
    kind = type(tree)
    if kind in _leaf_types:
        return [tree]
    if kind is list or kind is tuple:
        found: list[Any] = []
        for child in tree:
            found += leaves(child)
        return found
    return [leaf.value for leaf in leaves_with_path(tree)]


def containers(tree: Any) -> Any:
    """A hashable key that is equal for trees of the same containers, whatever their leaves."""
    node = _open(tree)
    if node is None:
        return None
    return type(tree), *((end, containers(child)) for end, child in node.children)


class Structure:
    """The containers of a pytree without its leaves; structures of the same containers are equal.

    Attributes:
        size: the number of leaves.
    """

    __slots__ = ("_containers", "_like", "size")

    def __init__(self, tree: Any) -> None:
        self._containers = containers(tree)
        self.size = len(leaves(tree))
        # Placeholders instead of the leaves, so that no array is kept alive.
        self._like = replace(tree, [_Place() for _ in range(self.size)])

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with ``leaves``; see :func:`unflatten`."""
        given = list(leaves)
        if len(given) != self.size:
            raise ValueError(f"unflatten: expected {self.size} leaves, got {len(given)}")
        return replace(self._like, given)

    def aligned(self, other: Any, path: str) -> list[Any]:
        """The leaves of ``other``, a tree of this structure in which None may replace any part.

        Raises:
            ValueError: the containers differ; the message starts with ``path``.
        """
        return aligned(self._like, other, path, missing=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self._containers == other._containers

    def __hash__(self) -> int:
        return hash(self._containers)

    def __repr__(self) -> str:
        return f"Structure({self._like!r})"


class _Place:
    """The placeholder of a leaf in a structure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def structure(tree: Any) -> Structure:
    """The structure of ``tree`` without its leaves: hashable, and equal for trees of the same containers.

    >>> structure((1, 2)) == structure((3, 4)), structure((1, 2)) == structure([1, 2])
    (True, False)
    >>> structure({"w": (1, 2), "b": None})
    Structure({'w': (*, *), 'b': None})
    """
    return Structure(tree)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of ``tree`` in order, and its structure; :func:`cukern.tree.ravel` joins the arrays into one vector.

    >>> found, made = flatten({"w": (1, 2), "b": 3})
    >>> found
    [1, 2, 3]
    >>> unflatten(made, [10, 20, 30])
    {'w': (10, 20), 'b': 30}
    """
    return leaves(tree), Structure(tree)


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with ``leaves`` in order.

    Raises:
        TypeError: ``structure`` is not a Structure.
        ValueError: there are more or fewer leaves than the structure has.
    """
    if not isinstance(structure, Structure):
        raise TypeError(f"unflatten: structure: expected a Structure, got {type(structure).__name__}")
    return structure.unflatten(leaves)


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
        same = all(child is old for child, old in zip(made, tree, strict=True))
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


def aligned(tree: Any, other: Any, path: str, missing: bool = False) -> list[Any]:
    """The leaves of ``other``, which has the containers of ``tree``, in the order of the leaves of ``tree``.

    Args:
        path: the name of ``other`` in an error.
        missing: whether None may replace a part of ``other``; the leaves of that part are then None.

    Raises:
        ValueError: the containers differ; the message has the path to the difference.
    """
    mine = _open(tree)
    if missing and other is None:
        return [None] * len(leaves(tree))
    theirs = _open(other)
    if mine is None or theirs is None:
        if mine is not theirs:
            raise ValueError(f"{path}: expected {_what(tree, mine)}, got {_what(other, theirs)}")
        return [other]
    given = dict(theirs.children)
    if type(tree) is not type(other) or given.keys() != dict(mine.children).keys():
        raise ValueError(f"{path}: expected {_what(tree, mine)}, got {_what(other, theirs)}")
    found: list[Any] = []
    for end, child in mine.children:
        found += aligned(child, given[end], path + end, missing)
    return found


def _what(tree: Any, node: _Node | None) -> str:
    """The description of a part of a tree in an error."""
    name = type(tree).__name__
    if tree is None:
        return "None"
    if node is None:
        return f"a leaf ({name})"
    return f"{name} of {', '.join(end for end, _ in node.children)}" if node.children else f"an empty {name}"


def map(function: Callable[..., Any], tree: Any, /, *trees: Any) -> Any:
    """Apply ``function`` to each leaf of ``tree``.

    Args:
        function: takes a leaf of ``tree``, and the leaf at the same path of each of ``trees``; returns the new leaf.
        tree: any pytree.
        trees: pytrees of the same containers; dicts may have their keys in another order.

    Raises:
        ValueError: one of ``trees`` has other containers; the message has the path to the difference.

    >>> map(abs, [-1, (2, -3)])
    [1, (2, 3)]
    >>> map(lambda a, b: a + b, {"w": 1, "b": (2, 3)}, {"w": 10, "b": (20, 30)})
    {'w': 11, 'b': (22, 33)}
    """
    columns = [leaves(tree), *(aligned(tree, one, f"map: trees[{i}]") for i, one in enumerate(trees))]
    return replace(tree, [function(*each) for each in zip(*columns, strict=True)])
