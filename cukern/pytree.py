"""Pytrees: nested containers of arrays, which sources, arguments and gradients may be.

A pytree is a list, tuple, named tuple, dict, dataclass instance, or an instance of a class passed to
:func:`register`, whose items are pytrees; anything else is a leaf. ``None`` is a container without leaves.
The items of a dict are in the order of insertion.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

__all__ = ["Structure", "flatten", "leaves", "map", "register", "structure", "unflatten"]

T = TypeVar("T")


class Leaf(NamedTuple):
    """A leaf and its path, such as ``"['weights'][0]"``."""

    path: str
    value: Any


class _Node(NamedTuple):
    """A container taken apart.

    Attributes:
        children: its items.
        ends: the last part of the path of each, to be read once.
        rebuild: the container with other children.
    """

    children: Sequence[Any]
    ends: Iterable[str]
    rebuild: Callable[[list[Any]], Any]


_Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
_Unflatten = Callable[[Any, list[Any]], Any]
_registered: dict[type, tuple[_Flatten, _Unflatten]] = {}
_declared_leaves: set[type] = set()
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
    _leaf_types.update(_declared_leaves)


def declare_leaf(cls: type[T]) -> type[T]:
    """Make the instances of a dataclass leaves, as they hold no arrays: a decorator."""
    _declared_leaves.add(cls)
    _leaf_types.add(cls)
    return cls


def is_leaf_type(cls: type) -> bool:
    """Whether an instance has been met, and was no container; it says nothing of types that have not."""
    return cls in _leaf_types


def are_leaves(trees: Iterable[Any]) -> bool:
    """Whether all trees are of types that :func:`is_leaf_type` knows."""
    return _leaf_types.issuperset([type(one) for one in trees])


def is_declared_leaf(cls: type) -> bool:
    """Whether :func:`declare_leaf` has said that instances hold no arrays."""
    return cls in _declared_leaves


def _registration(cls: type) -> tuple[_Flatten, _Unflatten] | None:
    if not _registered:
        return None
    return next((_registered[base] for base in cls.__mro__ if base in _registered), None)


def _rebuild_dataclass(tree: Any, names: list[str], children: list[Any]) -> Any:
    result = copy.copy(tree)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(result, name, child)
    return result


def _open(tree: Any) -> _Node | None:
    """``tree`` taken apart, or None for a leaf."""
    if type(tree) in _leaf_types:
        return None
    if tree is None:
        return _Node((), (), lambda children: None)
    if isinstance(tree, dict):
        keys = list(tree)
        return _Node(
            list(tree.values()),
            (f"[{key!r}]" for key in keys),
            lambda children: dict(zip(keys, children, strict=True)),
        )
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        cls = type(tree)
        return _Node(tree, (f".{name}" for name in cls._fields), lambda children: cls(*children))
    if isinstance(tree, (list, tuple)):
        return _Node(tree, _numbered(tree), list if isinstance(tree, list) else tuple)
    registration = _registration(type(tree))
    if registration is not None:
        flatten_, unflatten_ = registration
        found, rest = flatten_(tree)
        found = found if isinstance(found, (list, tuple)) else list(found)
        return _Node(found, _numbered(found), lambda new: unflatten_(rest, new))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        return _Node(
            [getattr(tree, name) for name in names],
            (f".{name}" for name in names),
            lambda children: _rebuild_dataclass(tree, names, children),
        )
    if not isinstance(tree, type):
        _leaf_types.add(type(tree))
    return None


def _numbered(children: Sequence[Any]) -> Iterable[str]:
    return (f"[{i}]" for i in range(len(children)))


def leaves_with_path(tree: Any, path: str = "") -> Iterator[Leaf]:
    """Every leaf of ``tree``, in order.

    >>> [leaf.path for leaf in leaves_with_path({"w": (1, 2), "b": None})]
    ["['w'][0]", "['w'][1]"]
    """
    node = _open(tree)
    if node is None:
        yield Leaf(path, tree)
    else:
        for end, child in zip(node.ends, node.children, strict=True):
            yield from leaves_with_path(child, path + end)


def leaves(tree: Any) -> list[Any]:
    """The leaves of ``tree``, in order.

    >>> leaves({"w": (1, 2), "b": None})
    [1, 2]
    """
    cls = type(tree)
    if cls in _leaf_types:
        return [tree]
    if cls is tuple or cls is list:
        children = tree
    elif cls is dict:
        children = tree.values()
    else:
        node = _open(tree)
        if node is None:
            return [tree]
        children = node.children
    if are_leaves(children):
        return list(children)
    return [leaf for child in children for leaf in leaves(child)]


def containers(tree: Any) -> Any:
    """A hashable key that is equal for trees of the same containers, whatever their leaves."""
    cls, children = type(tree), tree
    names: tuple[Any, ...] = ()
    if cls is dict:
        children, names = tree.values(), (*tree, *[type(key) for key in tree])
    elif cls is not tuple and cls is not list:
        node = _open(tree)
        if node is None:
            return None
        children, names = node.children, tuple(node.ends)
    if are_leaves(children):
        return cls, names, *[None] * len(children)
    return cls, names, *[None if type(child) in _leaf_types else containers(child) for child in children]


def children(tree: Any) -> dict[str, Any] | None:
    """The items of a container by the last part of the path of each; None of a leaf.

    >>> children({"w": (1, 2)})
    {"['w']": (1, 2)}
    """
    node = _open(tree)
    return None if node is None else dict(zip(node.ends, node.children, strict=True))


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
    return taken_apart(tree)[1](new)


def taken_apart(tree: Any) -> tuple[list[Any], Callable[[Iterable[Any]], Any]]:
    """The leaves of ``tree`` in order, and what :func:`replace` makes of the tree and of other leaves.

    >>> found, replaced = taken_apart({"w": (1, 2), "b": None})
    >>> found, replaced([10, 20])
    ([1, 2], {'w': (10, 20), 'b': None})
    """
    if type(tree) in _leaf_types:
        return [tree], _of_leaf
    found, rebuild = _apart(tree)

    def replaced(new: Iterable[Any]) -> Any:
        given = list(new)
        if len(given) != len(found):
            which = "more" if len(given) > len(found) else "fewer"
            raise ValueError(f"replace: there are {which} new leaves than the tree has")
        return rebuild(iter(given))

    return found, replaced


def _of_leaf(new: Iterable[Any]) -> Any:
    given = list(new)
    if len(given) != 1:
        raise ValueError(f"replace: there are {'more' if given else 'fewer'} new leaves than the tree has")
    return given[0]


def _apart(tree: Any) -> tuple[list[Any], Callable[[Iterator[Any]], Any]]:
    """The leaves of ``tree``, and the tree with leaves taken from an iterator."""
    node = None if type(tree) in _leaf_types else _open(tree)
    if node is None:
        return [tree], next
    children = node.children
    flat = _leaf_types.issuperset([type(child) for child in children])
    parts = [] if flat else [_apart(child) for child in children]

    def rebuild(new: Iterator[Any]) -> Any:
        result = list(islice(new, len(children))) if flat else [take(new) for _, take in parts]
        same = all(child is old for child, old in zip(result, children, strict=True))
        return tree if same else node.rebuild(result)

    return list(children) if flat else [leaf for own, _ in parts for leaf in own], rebuild


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
            expected, got = (
                _what(one, node and list(node.ends)) for one, node in ((tree, mine), (other, theirs))
            )
            raise ValueError(f"{path}: expected {expected}, got {got}")
        return [other]
    ends = list(mine.ends)
    given = dict(zip(theirs.ends, theirs.children, strict=True))
    if type(tree) is not type(other) or given.keys() != set(ends):
        raise ValueError(f"{path}: expected {_what(tree, ends)}, got {_what(other, list(given))}")
    found: list[Any] = []
    for end, child in zip(ends, mine.children, strict=True):
        found += aligned(child, given[end], path + end, missing)
    return found


def _what(tree: Any, ends: Sequence[str] | None) -> str:
    """The description of a part of a tree in an error, from the ends of its children's paths; None for a leaf."""
    name = type(tree).__name__
    if tree is None:
        return "None"
    if ends is None:
        return f"a leaf ({name})"
    return f"{name} of {', '.join(ends)}" if ends else f"an empty {name}"


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
