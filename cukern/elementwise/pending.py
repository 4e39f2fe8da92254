"""Arrays that wait within a trace: each is an expression of arrays that are there, which a kernel computes later."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..array.deferred import Deferred, trace
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..autodiff.cotangents import Likeness
from ..cache import Cache
from ..dtypes import FLOATS
from .graph import Node, order
from .plan import Plan, planned
from .program import Program

if TYPE_CHECKING:
    from .launches import Launches
    from .trace import Trace


def _nobody() -> None:
    return None


class Expression:
    """What an array will be.

    Attributes:
        trace: the trace whose arrays and numbers the node counts.
        node: the expression.
        layout: the array's.
        reads: the arrays that the expression reads.
        depth: of the operations behind one another from these arrays.
        base: if the array is a view of another one in its memory: that one, and the view of an ndarray.
        owner: the array, as long as there is one.
        lines: those of the program that it comes of, if they are noted.
        sum: that of the array's rows, if it is wanted, too.
    """

    __slots__ = ("base", "depth", "layout", "lines", "node", "owner", "reads", "sum", "trace")

    def __init__(
        self,
        trace: Launches,
        node: Node,
        layout: Layout,
        reads: tuple[Array, ...],
        depth: int,
        base: Any = None,
        lines: tuple[str, ...] = (),
    ) -> None:
        self.trace, self.node, self.layout, self.reads = trace, node, layout, reads
        self.depth, self.base, self.lines = depth, base, lines
        self.owner: Callable[[], Array | None] = _nobody
        self.sum: RowSum | None = None

    def __call__(self) -> Array:
        return self.trace.compute([self])[0] if self.base is None else self.trace.seen(self)

    def held(self, made: Array) -> Array:
        """The array, or what was made for it where there is none."""
        owner = self.owner()
        return made if owner is None else owner


class RowSum:
    """The sum of the rows of an array that waits, which the kernel makes that computes the array, where that is faster.

    Attributes:
        form: the layout of the sum.
        made: it, if it has been made.
    """

    __slots__ = ("form", "made")

    def __init__(self, form: Layout) -> None:
        self.form = form
        self.made: Array | None = None


class Pending(Deferred):
    """An array whose value is an expression; an ordinary one from when its memory is read on."""

    __slots__ = ()
    arriving = True  # what it is computed from is written after it is computed, see Trace.write

    def summed_beside(self, like: Likeness) -> RowSum | None:
        """Have what computes this array sum its rows, too, if nothing has to record that; None if it does not."""
        one = expression(self)
        if one is None or one.base is not None or self.ndim < 2 or tuple(like.shape) != self.shape[-1:]:
            return None
        if like.dtype not in FLOATS or (tape.opened and tape.tracked((self,)) is not None):
            return None
        one.sum = RowSum(fresh_layout(self.device, like.dtype, tuple(like.shape)))
        return one.sum

    def _seen(self, layout: Layout, offset: int = 0) -> Array:
        _ = self._operand
        return self._seen(layout, offset)


def expression(x: Array) -> Expression | None:
    """That of an array that is not computed yet, or None."""
    return x.compute if type(x) is Pending else None  # type: ignore[return-value]


def replace(x: Array, one: Expression) -> None:
    """Let an array that waits have another expression."""
    assert isinstance(x, Pending)
    one.owner, x.compute = weakref.ref(x), one


class Waiting(Plan):
    """The plan of a program whose results wait."""

    __slots__ = ()

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """See :class:`Plan`."""
        for convert, value in zip(self.converters, scalars, strict=True):
            convert(value)  # raises of what is out of range
        active: Trace | None = trace()
        if active is None:  # a tape repeats it after the trace
            return planned(self.program, arrays).run(arrays, scalars)
        return active.apply(self, arrays, scalars)


_leaves: Cache[Program, tuple[Node, ...]] = Cache()


def leaves_of(program: Program) -> tuple[Node, ...]:
    """The inputs and scalars of a program."""
    found = _leaves.get(program)
    if found is None:
        nodes = order(program.outputs)
        found = _leaves.keep(program, tuple([one for one in nodes if one.kind in ("input", "scalar")]))
    return found
