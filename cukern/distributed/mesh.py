"""Device meshes: ranks arranged along named axes."""

from __future__ import annotations

import math

from ..errors import require_choice
from .group import Group, new_group, world

__all__ = ["Mesh"]


class Mesh:
    """All ranks of the job in a grid of named axes, as ``Mesh(data=2, tensor=4)``.

    The ranks run fastest along the last axis, which should be the one along which most bytes travel: its ranks are then
    on one machine. All ranks create the mesh together.

    Args:
        axes: the size of each axis; their product is the number of ranks.

    Raises:
        ValueError: it is not, or there are no axes.

    Attributes:
        shape: the size of each axis by name.
        coordinates: this rank's index along each axis, by name.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> mesh = Mesh(data=1, tensor=1)
    >>> mesh.group("tensor").size, mesh.coordinates
    (1, {'data': 0, 'tensor': 0})
    """

    def __init__(self, **axes: int) -> None:
        everyone = world()
        if not axes or min(axes.values()) < 1 or math.prod(axes.values()) != everyone.size:
            raise ValueError(f"Mesh: expected sizes whose product is the {everyone.size} ranks, got {axes}")
        self.shape = dict(axes)
        self.coordinates: dict[str, int] = {}
        self._groups: dict[str, Group] = {}
        stride = everyone.size
        for name, size in axes.items():
            stride //= size
            at = self.coordinates[name] = everyone.rank // stride % size
            first = everyone.rank - at * stride
            self._groups[name] = new_group(range(first, first + size * stride, stride))

    def group(self, axis: str) -> Group:
        """The ranks that differ from this one along one axis alone, and this one.

        Raises:
            ValueError: there is no such axis.
        """
        require_choice("Mesh: axis", axis, self._groups)
        return self._groups[axis]

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.shape.items())})"
