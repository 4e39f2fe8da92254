"""Pytrees: nested containers of arrays, which sources, arguments and gradients may be.

A pytree is a list, tuple, named tuple, dict, dataclass instance, or an instance of a class passed to
:func:`register`, whose items are pytrees; anything else is a leaf. ``None`` is a container without leaves.
The items of a dict are in the order of insertion.

>>> import cukern as ck
>>> parameters = {"w": ck.asarray([1.0, 2.0]), "b": ck.asarray(3.0)}
>>> gradients = {"w": ck.asarray([10.0, 20.0]), "b": ck.asarray(30.0)}
>>> stepped = ck.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
>>> [leaf.tolist() for leaf in ck.tree.leaves(stepped)]
[[0.0, 0.0], 0.0]
"""

from .pytree import Structure as Structure
from .pytree import flatten as flatten
from .pytree import leaves as leaves
from .pytree import map as map
from .pytree import register as register
from .pytree import structure as structure
from .pytree import unflatten as unflatten
from .shape.vector import ravel as ravel

__all__ = ["Structure", "flatten", "leaves", "map", "ravel", "register", "structure", "unflatten"]
