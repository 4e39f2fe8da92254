"""Pytrees: nested containers of arrays, walked, mapped and rebuilt; what sources, arguments and gradients may be.

A pytree is a list, tuple, named tuple, dict, dataclass instance, an instance of a class given to
:func:`register`, or a leaf, which is anything else. ``None`` holds no leaf. A dict is walked in the
order of its keys' insertion.

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
