"""What several kernels of a trace would compute of different arrays by one program, so that a launch of many does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..array.layout import Layout
from .graph import gathers_of, pieces_of, products_of, stages_of
from .pending import Expression

if TYPE_CHECKING:
    from .launches import Kernel, Launches

#: The fewest kernels for which there is one launch of many: that of the host takes about as long as five others, as it
#: looks up addresses.
FEWEST = {"simt": 2, "serial": 8}


class Member(NamedTuple):
    """Expressions of one shape that a launch of many computes with others.

    Attributes:
        of: the number of the kernel that would compute them, and perhaps more.
        results: the expressions.
        own: a kernel of these alone.
        ones: the numbers of its inputs that are single elements.
    """

    of: int
    results: list[Expression]
    own: Kernel
    ones: tuple[int, ...]

    @property
    def key(self) -> Any:
        """What is equal for those that one launch computes."""
        own, device = self.own, self.results[0].layout.device
        numbers = [(type(one), repr(one)) for one in own.numbers]
        return own.program, device, *numbers, *[(k, id(own.arrays[k])) for k in self.ones]


def alike(trace: Launches, kernels: Sequence[list[Expression]]) -> Iterator[list[Member]]:
    """The members of each launch of many that computes what several kernels would have."""

    def several(members: Sequence[tuple[Any, ...]]) -> bool:
        """Whether the first items, the numbers of kernels, are enough."""
        return len({one[0] for one in members}) >= fewest

    fewest = min([FEWEST[some[0].layout.device.style] for some in kernels], default=0)
    forms: dict[Any, list[tuple[int, list[Expression]]]] = {}
    for i, some in enumerate(kernels if len(kernels) >= fewest else ()):
        for part in _apart(some):
            if (form := _form(trace, part)) is not None:
                forms.setdefault(form, []).append((i, part))
    for parts in forms.values():
        members: dict[Any, list[Member]] = {}
        for i, part in parts if several(parts) else ():
            own = trace.kernel([one.node for one in part], part[0].layout.shape, by_use=True)
            ones = _ones(own, [one.layout for one in part])
            if ones is not None:
                one = Member(i, part, own, ones)
                members.setdefault(one.key, []).append(one)
        yield from filter(several, members.values())


def _apart(some: Sequence[Expression]) -> list[list[Expression]]:
    """Expressions of arrays in memory, those together that read an array of more than one element in common."""
    found: list[tuple[set[int], list[Expression]]] = []
    for one in some:
        nodes = (one.node,)
        if pieces_of(nodes) or stages_of(nodes) or products_of(nodes) or gathers_of(nodes):
            return []
        read = {id(x) for x in one.reads if x.size > 1 or x.shape == one.layout.shape}
        joined = [each for each in found if not read.isdisjoint(each[0])]
        rest = [each for each in found if read.isdisjoint(each[0])]
        results = [each for _, own in joined for each in own]
        found = [*rest, (read.union(*[own for own, _ in joined]), [*results, one])]
    return [own for _, own in found]


def _form(trace: Launches, part: Sequence[Expression]) -> Any:
    """What is equal for those that one launch computes, found without a kernel; None for what none does."""
    shapes, found = trace.shapes_of(trace.of_values([one.node for one in part])), list[Any]()
    for node, shape in shapes.items():
        one = node.kind in ("input", "view") and shape != part[0].layout.shape
        if node.kind == "table" or (one and math.prod(shape) != 1):
            return None
        found.append((node.row, node.dtype, len(node.args), one))
    return tuple(found)


def _ones(own: Kernel, results: Sequence[Layout]) -> tuple[int, ...] | None:
    """The inputs of a kernel that are single elements; None if others do not lie in memory as the results."""
    shape, order = results[0].shape, results[0].order
    wide = [k for k, one in enumerate(own.layouts) if one.shape == shape]
    ones = [k for k, one in enumerate(own.layouts) if one.shape != shape and one.size == 1]
    lying = [*results, *[own.layouts[k] for k in wide]]
    fits = len(wide) + len(ones) == len(own.layouts) and all(one.order == order for one in lying)
    return tuple(ones) if fits and order is not None else None
