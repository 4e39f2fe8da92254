"""One launch of a program for many arrays, each of its own size: their addresses and sizes are kernel parameters.

Nothing is copied to the device for them, so a CUDA graph can contain such a launch.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ..array import Array
from ..array.layout import Layout
from ..cache import Cache
from ..device import Device
from ..device.interface import Table
from ..kernel import plan as kernel_plan
from ..kernel.plan import BoundLaunch, on
from ..kernel.sizes import divide_up
from .geometry import DIVISOR, HOST_PIECE, MANY, WIDEST, Geometry, Work, narrowed
from .plan import converter, variables
from .print_cxx import statements
from .program import Program

if TYPE_CHECKING:
    from ..kernel.bound import BoundKernel

#: The most bytes of a kernel's parameters.
_PARAMETERS = 4096
#: The most arrays per launch for a kernel with few parameters.
_FEW = 8
#: The number of the first block of an array that is not there.
_NEVER = 2**31 - 1
#: What an ndarray's object begins with on the host, before the address of its elements.
_HEADER = object.__basicsize__


#: How threads share arrays: pieces of them, of which a block has one.
_SPLIT = {"simt": Geometry(256, 256, 1, 4096), "serial": Geometry(1, 1, 1, HOST_PIECE)}


def shared_out(count: int, pointers: int, others: int) -> Iterator[tuple[slice, int]]:
    """The arrays of each of the fewest launches, and the most that such a launch takes.

    Args:
        count: the number of arrays.
        pointers: the number of arrays of each size.
        others: the number of other parameters, of 8 bytes at most.
    """
    most = (_PARAMETERS - 8 * (others + 1)) // (8 * pointers + 12) // 2 * 2
    capacity = min(_FEW, most) if count <= _FEW else most
    for start in range(0, count, capacity):
        yield slice(start, min(start + capacity, count)), capacity


class _Table(Table):
    """Addresses in memory, whose arrays checked launches ask for."""

    operands: Sequence[int] = ()

    @property
    def arrays(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The arrays, of which whoever launches keeps the operands alive."""
        return tuple([ctypes.cast(one, ctypes.py_object).value for one in self.operands])


class Pieces(NamedTuple):
    """The arrays of one launch, cut into pieces.

    Attributes:
        capacity: the most arrays of such a launch.
        pieces: how many there are.
        sizes: the kernel parameter with the sizes.
        table: makes the table of the addresses of arrays with given operands: a kernel parameter, or on the host an
            ndarray, for which a launch takes its :func:`operand`.
    """

    capacity: int
    pieces: int
    sizes: bytes
    table: Callable[[Sequence[int]], Any]

    @classmethod
    def of(cls, device: Device, sizes: Sequence[int], capacity: int) -> Self:
        """The pieces of arrays of so many elements each."""
        split = _SPLIT[device.style]
        firsts = [0, *accumulate(divide_up(size, split.piece) for size in sizes)]
        unused = capacity - len(sizes)
        parts = [*sizes, *[0] * unused, *firsts[:-1], *[_NEVER] * unused]
        packed = struct.pack(f"={capacity}q{capacity}ii4x", *parts, firsts[-1])
        pack, on_host = struct.Struct(f"={len(sizes)}Q{8 * unused}x").pack, device.addressable

        def table(operands: Sequence[int]) -> Any:
            if not on_host:
                return pack(*operands)
            addresses = [ctypes.c_uint64.from_address(one + _HEADER).value for one in operands]
            if split.block > 1:
                return pack(*addresses)
            made = np.array(addresses, np.uint64).view(_Table)
            made.operands = operands
            return made

        return cls(capacity, firsts[-1], packed, table)

    @staticmethod
    def variables(device: Device, capacity: int) -> dict[str, Any]:
        """The template variables of a kernel."""
        split = _SPLIT[device.style]
        return {"capacity": capacity, "piece": split.piece, "block": split.block}


def operand(table: Any) -> Any:
    """What a launch takes for a table, which is to be kept as long as it runs."""
    return id(table) if type(table) is _Table else table


def bind(
    program: Program,
    device: Device,
    capacity: int,
    ones: Sequence[int] = (),
    inplace: Sequence[int | None] = (),
) -> BoundKernel:
    """The kernel of :class:`Many` with these properties."""
    dtypes = [*program.inputs, *[node.dtype for node in program.outputs]]
    widest = max(dtype.itemsize for k, dtype in enumerate(dtypes) if k not in ones)
    width = 1 if _SPLIT[device.style].block == 1 else max(1, WIDEST // widest)
    common = {
        "width": narrowed(width, len(statements(program.outputs)[0])),
        "streaming": False,
        "Divisor": DIVISOR.source,
        **Pieces.variables(device, capacity),
    }
    accesses = [{"access": "one" if k in ones else "flat"} for k in range(len(dtypes))]
    work = Work(MANY, common, accesses, (1, 1, 1), _SPLIT[device.style].block, None, ())
    return MANY.bind(device, **variables(program, work, inplace or [None] * len(program.inputs)))


class Many(kernel_plan.Plan):
    """A launch of a program for several arrays as each input and output, all without gaps in memory.

    It takes the arrays of the first input, then those of the second, and so on, and results likewise.

    Attributes:
        program: the program.
        sizes: the number of elements of the arrays; some may be 0.
        ones: the inputs that are a single element, the same one for all.
        inplace: for each input the number of the output whose memory it is, or None.
        converters: see :class:`.plan.Plan`.
    """

    __slots__ = ("_kept", "_pieces", "_places", "converters", "inplace", "ones", "program", "sizes")

    def __init__(
        self,
        program: Program,
        device: Device,
        sizes: Sequence[int],
        capacity: int,
        layouts: Sequence[Layout] = (),
        ones: Sequence[int] = (),
        inplace: Sequence[int | None] = (),
        outs: Sequence[Sequence[int]] = (),
    ) -> None:
        """
        Args:
            layouts: those of new results.
            outs: the operands of the results, if it always writes to the same ones.
        """
        super().__init__(device, layouts)
        self.program, self.sizes, self.ones = program, tuple(sizes), tuple(ones)
        self.inplace = tuple(inplace) or (None,) * len(program.inputs)
        self.converters = tuple(map(converter, program.scalars))
        self._pieces = Pieces.of(device, sizes, capacity)
        #: Where the operands of each input that is no output are among those of all: a number, or a slice.
        self._places: list[int | slice] = []
        end = 0
        for k, own in enumerate(self.inplace):
            if own is None:
                start, end = end, end + (1 if k in self.ones else len(self.sizes))
                self._places.append(start if k in self.ones else slice(start, end))
        if count := self._pieces.pieces:
            split = _SPLIT[device.style]
            if split.block == 1:  # a thread has several small arrays
                count = divide_up(sum(sizes), split.piece)
            bound = bind(program, device, capacity, self.ones, self.inplace)
            self._kept = list(map(self._pieces.table, outs))
            tail = *self._kept, self._pieces.sizes
            tables = [k for k, own in enumerate(self.inplace) if own is None and k not in self.ones]
            leading = len(tables) + (0 if outs else len(program.outputs))
            structs = (8 * capacity,) * leading
            with on(device):
                self.prepared(BoundLaunch(bound, (count, 1, 1), split.block, tail, structs=structs))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many arrays there are of each input."""
        return tuple([1 if k in self.ones else len(self.sizes) for k in range(len(self.inplace))])

    def into(self, inplace: tuple[int | None, ...]) -> Many:
        """The plan that writes to arrays that are there, among them inputs."""
        made = self.program, self.device, self.sizes, self._pieces.capacity, self.layouts, self.ones
        return many(*made, inplace)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """Launch and return the results, which are new arrays."""
        with on(self.device):
            made = [Array._made(one) for one in self.layouts]
            self.write([one._operand for one in arrays], scalars, [one._operand for one in made])
        return made

    def write(self, inputs: Sequence[int], scalars: Sequence[Any], outs: Sequence[int]) -> None:
        """Launch with operands of inputs that are no results and of results, whose memory the caller keeps."""
        if self.launch is None:
            return
        table, count = self._pieces.table, len(self.sizes)
        values = [table(inputs[own]) if isinstance(own, slice) else inputs[own] for own in self._places]
        values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        values += [table(outs[start : start + count]) for start in range(0, len(outs), count)]
        with on(self.device):
            self.launch(*(map(operand, values) if self.device.addressable else values))


_plans: Cache[Any, Many] = Cache()


def many(
    program: Program,
    device: Device,
    sizes: tuple[int, ...],
    capacity: int,
    layouts: tuple[Layout, ...] = (),
    ones: tuple[int, ...] = (),
    inplace: tuple[int | None, ...] = (),
) -> Many:
    """The plan with these properties, see :class:`Many`."""
    key = program, device, sizes, capacity, layouts, ones, inplace
    found = _plans.get(key)
    return _plans.keep(key, Many(*key)) if found is None else found


def split(
    program: Program, device: Device, layouts: Sequence[Layout], ones: tuple[int, ...] = ()
) -> list[tuple[slice, Many]]:
    """The plans of a program that makes one array of each, with these layouts, as few as can be; and of which arrays.

    Args:
        ones: the inputs that are a single element.
    """
    found = []
    for part, capacity in shared_out(len(layouts), 2, len(ones)):
        own = tuple(layouts[part])
        plan = many(program, device, tuple([one.size for one in own]), capacity, own, ones)
        found.append((part, plan))
    return found
