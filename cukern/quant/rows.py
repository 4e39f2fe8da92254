"""The variants of products of a few rows with quantised weights, which are read once: by integer dot products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..cache import Cache
from ..device import Device
from ..device.interface import Properties
from ..kernel import Kernel
from ..kernel.plan import BoundLaunch, new, on
from ..kernel.sizes import LARGEST_INDEX, divide_up
from ..launch import cost
from ..launch.variant import Launch, Plan, Replay, Run, Variant, prepared
from ..shape.copy import write
from .kinds import Kind
from .problem import FACTOR, KEPT, Quantised

_ACTIVATIONS = Kernel("quant/activations.cu", block=256)
_ACTIVATIONS_SERIAL = Kernel("quant/activations_serial.cu", block=1, name="activations")
#: Activations of a pack.
_PACK = 8
#: Activations in a block of Q8_1.
_BLOCK = 32


def as_read(problem: Quantised, plan: Plan) -> Plan:
    """A plan that takes the activations as they are, of one that reads them in C order in packs of 16 bytes."""
    if problem.x.contiguous and problem.x.aligned:
        return plan

    def compute(x: Array, *others: Any) -> Any:
        x = x.contiguous()
        return plan(x if x._planned().aligned else x.copy(), *others)

    return compute


def plane_layouts(device: Device, shape: tuple[int, ...], kind: Kind) -> tuple[Layout, Layout]:
    """Those of activations in 8 bits: the numbers, and what products with a kind take of the scales."""
    factors = math.prod(shape) // kind.scaled, FACTOR
    return fresh_layout(device, dtypes.int8, shape), fresh_layout(device, dtypes.uint8, factors)


_roundings: Cache[tuple[Layout, Kind, bool], tuple[tuple[Layout, Layout], Run]] = Cache()


def rounding(x: Layout, kind: Kind, serial: bool) -> tuple[tuple[Layout, Layout], Run]:
    """What rounds activations in C order to 8 bits, and what it writes; ``serial`` if a thread works alone."""
    known = _roundings.get((x, kind, serial))
    if known is not None:
        return known
    assert x.size <= LARGEST_INDEX
    kernel, own, block = (_ACTIVATIONS_SERIAL, _BLOCK, 1) if serial else (_ACTIVATIONS, _PACK, 256)
    count = x.size // own
    with on(x.device):
        bound = kernel.bind(x.device, elem=x.dtype, kind=kind.header)
        grid = 1 if serial else divide_up(count, block)
        run = Run(BoundLaunch(bound, (grid, 1, 1), block, (count,)), x.device, {})
    made = plane_layouts(x.device, x.shape, kind), run
    return _roundings.keep((x, kind, serial), made)


def _after_rounding(problem: Quantised, serial: bool, run: Callable[..., None]) -> Plan:
    """A plan that rounds the activations, then runs a product: of blocks, numbers, factors, bias and result."""
    device, dense = problem.device, fresh_layout(problem.device, problem.dtype, problem.x.shape)
    planes, rounds = rounding(dense, problem.kind, serial)
    layouts = (*planes, *problem.results)

    def compute(x: Array, blocks: Array, bias: Array | None = None) -> Array:
        if device.which is not None and device.which() != device.index:
            with device.activate():
                return compute(x, blocks, bias)
        numbers, factors, y = new(layouts)
        rounds((x, numbers, factors))
        run(blocks, numbers, factors, bias, y)
        return y

    return compute


@dataclass(frozen=True)
class Serial(Variant[Quantised]):
    """Rows of weights by a thread that runs alone, of activations that are rounded before.

    Attributes:
        each: rows of weights of a thread.
    """

    name = "serial"
    kernel = Kernel("quant/rows_serial.cu", name="quantised_rows")

    each: int = 16

    #: The share of the memory's rate, estimated.
    efficiency: ClassVar[float] = 0.3

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """On the host."""
        if not cost.is_host(limits):
            return "for the host"
        return "" if problem.rounds(limits) else "for few rows, which are rounded to 8 bits"

    def cost(self, problem: Quantised, limits: Properties) -> float:
        """The bytes of the blocks, by the share of the memory's rate that is reached."""
        return problem.nbytes / (self.efficiency * cost.bandwidth(limits)) + 2 * cost.launch(limits)

    def launch(self, problem: Quantised, limits: Properties) -> Launch:
        """As many threads as have ``each`` rows."""
        rows, outputs, inputs = problem.sizes
        return Launch(
            grid=(divide_up(outputs, self.each), 1, 1),
            block=1,
            constants={"elem": problem.dtype, "kind": problem.kind.header, "biased": problem.biased},
            params=(outputs, rows, inputs, self.each),
        )

    def plan(self, problem: Quantised, limits: Properties) -> Plan:
        """The launches, prepared."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        return as_read(problem, _after_rounding(problem, True, lambda *values: run(values)))


@dataclass(frozen=True)
class FewRows(Variant[Quantised]):
    """Rows of weights by warps: integer dot products with activations that blocks round, or that are rounded before.

    Attributes:
        columns: rows of activations of a launch.
        rows: of weights that a warp multiplies at a time.
        warps: of a block.
        stages: slices of its rows that a warp holds, all but one on their way.
        packs: of eight activations that a thread rounds; if 0, they are given in 8 bits.
        lead: slices that a warp asks for before the activations that it rounds; if 0, all that it may hold.
    """

    name = "few rows"
    kernel = Kernel("quant/rows.cu", name="quantised_rows")
    needs = (5, 0)

    columns: int
    rows: int
    warps: int
    stages: int
    packs: int
    lead: int = 0

    #: The share of the memory's rate, estimated.
    efficiency: ClassVar[float] = 0.85
    #: The most packs of activations that a thread rounds; of more a kernel makes numbers first.
    most_packs: ClassVar[int] = 4
    #: Warps of a block for one row of activations and for several, which take more registers.
    most_warps: ClassVar[tuple[int, int]] = (24, 16)
    #: Warps of a block of which each has one row.
    warps_alone: ClassVar[int] = 32
    #: The fewest stages of a warp if it takes several rows of weights, for one row of activations and for several.
    fewest_stages: ClassVar[tuple[int, int]] = (2, 3)
    most_stages: ClassVar[int] = 4
    #: The most bytes of all stages of a multiprocessor: more of them delay the first ones.
    in_flight: ClassVar[int] = 212 * 1024
    #: Bytes of each of a warp's first rows that are prefetched while the kernel before ends: measured on an H200.
    asked: ClassVar[int] = 1024

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """For rows that are rounded to 8 bits, of which one fits the shared memory."""
        if problem.rounds(limits):
            return ""
        return (
            "a row does not fit the shared memory"
            if problem.few
            else "for few rows, which are rounded to 8 bits"
        )

    @classmethod
    def of(cls, problem: Quantised, limits: Properties, columns: int, rows: int, warps: int) -> FewRows:
        """With stages up to the bytes in flight that hide the memory's latency."""
        room = min(limits.max_shared_memory_per_block - problem.rounded_bytes(columns) - KEPT, cls.in_flight)
        packs = divide_up(columns * problem.weights[1], _PACK * 32 * warps)
        stages = min(cls.most_stages, room // (warps * rows * problem.slice_bytes))
        return cls(columns, rows, warps, stages, packs if packs <= cls.most_packs else 0)

    @classmethod
    def configs(cls, problem: Quantised, limits: Properties) -> list[FewRows]:
        """By preference: as many rows at a time as leave half of the warps some or more.

        Of activations that do not fit the shared memory a launch has half, or half of these.
        """
        outputs, columns, found = problem.weights[0], problem.x.shape[0], []
        while not problem.holds(columns, limits):
            columns = divide_up(columns, 2)
        several, warps = columns > 1, cls.most_warps[columns > 1]
        while warps:
            for rows in (4, 2, 1):
                one = cls.of(problem, limits, columns, rows, warps)
                busy = 2 * outputs >= limits.multiprocessors * warps * rows
                if busy and one.stages >= cls.fewest_stages[several]:
                    break
            if one.stages > 1:
                found.append(one)
            warps //= 2
        first = found[0]
        if not several and first.rows > 1 and first.stages == cls.fewest_stages[0]:
            # A row for each of more warps, of which more slices are on their way.
            alone = cls.of(problem, limits, 1, 1, cls.warps_alone)
            if outputs <= cls.warps_alone * limits.multiprocessors and alone.stages > first.stages:
                found.insert(0, alone)
        return found

    def shared(self, problem: Quantised) -> int:
        """Bytes of shared memory of a block."""
        return (
            problem.rounded_bytes(self.columns) + self.warps * self.stages * self.rows * problem.slice_bytes
        )

    def cost(self, problem: Quantised, limits: Properties) -> float:
        """The bytes of the blocks, in each launch, by the share of the memory's rate that is reached."""
        launches = 1 if self.packs or problem.given else 2
        once = problem.nbytes / (self.efficiency * cost.bandwidth(limits)) + launches * cost.launch(limits)
        return divide_up(problem.x.shape[0], self.columns) * once

    def launch(self, problem: Quantised, limits: Properties) -> Launch:
        """A block a multiprocessor, whose warps take rows in turn; none without rows."""
        outputs, aligned = problem.sizes[1], problem.row_aligned
        return Launch(
            grid=(
                min(limits.multiprocessors, divide_up(outputs, self.rows // (2 if problem.gate else 1))),
                1,
                1,
            ),
            block=32 * self.warps,
            shared=self.shared(problem),
            constants={
                "elem": problem.dtype,
                "kind": problem.kind.header,
                "lead": self.lead or self.stages - 1,
                "biased": problem.biased,
                "settled": problem.given != "",
                "normed": problem.given == "normed",
                "gate": problem.gate,
                "asked": self.asked,
                "aligned": aligned,
                "bulk": aligned and limits.compute_capability >= (9, 0),
            },
            params=(outputs, problem.weights[1]),
        )

    def plan(self, problem: Quantised, limits: Properties) -> Plan:
        """The launch, prepared, after that which rounds activations if there is one."""
        if self.columns < problem.x.shape[0]:
            return as_read(problem, self._in_halves(problem, limits))
        run = prepared(self, self.launch(problem, limits), problem.device)
        if self.packs:
            replay = Replay(problem.device, run, problem.results)
            return as_read(
                problem, lambda x, blocks, bias=None: replay(blocks, x, None, None, bias, None, 0.0)
            )

        def multiply(blocks: Array, numbers: Array, factors: Array, bias: Array | None, y: Array) -> None:
            run((blocks, None, numbers, factors, bias, None, 0.0, y))

        return as_read(problem, _after_rounding(problem, False, multiply))

    def _in_halves(self, problem: Quantised, limits: Properties) -> Plan:
        rows, depth = problem.x.shape
        half = divide_up(rows, 2)
        plans = []
        for count in (half, rows - half):
            part = problem._replace(x=fresh_layout(problem.device, problem.dtype, (count, depth)))
            plans.append(self.configs(part, limits)[0].plan(part, limits))

        def compute(x: Array, *others: Array) -> Array:
            (y,) = new(problem.results)
            with on(problem.device):
                for plan, part in zip(plans, (slice(None, half), slice(half, None)), strict=True):
                    write(problem.device, y._data[part], plan(x[part], *others)._data)
            return y

        return compute


@dataclass(frozen=True)
class SettledRows(FewRows):
    """As :class:`FewRows`, in a decoder's step: weights are read while the kernel before ends."""

    name = "settled rows"

    #: Slices of a row of weights up to which it counts as short, and warps per block for short rows and for longer
    #: ones, if each warp then has all stages. Measured on an H200.
    short: ClassVar[int] = 2
    fewer_warps: ClassVar[tuple[int, int]] = (16, 20)
    #: Slices of weights that are loaded before activations. Measured on an H200.
    most_lead: ClassVar[int] = 1

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """For rows that fit the shared memory, of which a block's threads hold one if it is not rounded before."""
        if not (problem.few and problem.holds(problem.x.shape[0], limits)):
            return "for few rows, which fit the shared memory"
        first, plain = cls.configs(problem, limits)[0], problem.given != "rounded"
        if plain and not (first.packs and problem.x.shape[0] == 1):
            return "for one row that a block's threads hold, or rows that are rounded before"
        return (
            "for more outputs: a warp has one of a matrix alone" if problem.gate and first.rows == 1 else ""
        )

    @classmethod
    def configs(cls, problem: Quantised, limits: Properties) -> list[FewRows]:
        """Those of fewer warps first, if each then holds more slices, as these are on their way before activations.

        Activations are asked for before most of the slices, as memory answers in the order of requests.
        """
        found, inputs = super().configs(problem, limits), problem.weights[1]
        first, warps = found[0], cls.fewer_warps[inputs > cls.short * problem.kind.slice]
        fewer = cls(1, first.rows, warps, cls.most_stages, divide_up(inputs, _PACK * 32 * warps))
        if (
            first.columns == 1
            and first.rows > 1
            and warps < first.warps
            and fewer.stages > first.stages
            and fewer.packs <= cls.most_packs
            and fewer.shared(problem) <= limits.max_shared_memory_per_block - KEPT
        ):
            found.insert(0, fewer)
        if problem.given == "rounded":
            return [replace(one, packs=0) for one in found]
        return [replace(one, lead=cls.most_lead if one.packs and one.columns == 1 else 0) for one in found]

    def plan(self, problem: Quantised, limits: Properties) -> Plan:
        """The launch, prepared; see :data:`~cukern.quant.families.SETTLED`."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        return Replay(problem.device, run, problem.results)
