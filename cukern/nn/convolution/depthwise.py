"""Depthwise convolutions, and others of few channels and filters a group: sums by threads, not products of matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...array.layout import Layout
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from ...launch import cost
from ...launch.params import Params
from ...launch.variant import Launch
from .arrangement import Arranged, channels_last, packed_channels, widest_pack
from .problem import Convolution, Gemm, WeightsGradient, operand_steps
from .tma import LINE
from .variants import Implicit, constants_of

#: Products of channels and filters of a group up to which threads sum by themselves, and taps of a row.
FEW = 4
LONGEST_ROW = 16


def why_not_few(problem: Convolution | WeightsGradient) -> str:
    """Why threads do not sum by themselves; "" if they do."""
    if problem.windows.groups == 1:
        return "for several groups"
    if problem.filters * problem.channels > FEW:
        return f"for at most {FEW} products of a group's filters and channels"
    return "" if problem.kernel[-1] <= LONGEST_ROW else f"for windows of at most {LONGEST_ROW} columns"


class Walking:
    """What variants share whose threads walk down rows: windows of few taps, and arrays that lie as they need to.

    Attributes:
        most_taps: along rows, and along columns, up to which sums and what they are made of are in registers.
        most_step: from a window to the next.
    """

    most_taps: ClassVar[int] = 3
    most_step: ClassVar[int] = 1

    @classmethod
    def gemm(cls, problem: Any) -> Gemm | None:
        """What is summed; None of an empty result."""
        raise NotImplementedError

    @classmethod
    def fits(cls, problem: Any, limits: Properties) -> str:
        """For depthwise windows of few taps."""
        if not problem.depthwise:
            return "for one filter a channel, and windows without dilation"
        if max(problem.windows.stride) > cls.most_step:
            return f"for windows that move by at most {cls.most_step}"
        if len(problem.kernel) != 2 or max(problem.kernel) > cls.most_taps:
            return f"for windows of at most {cls.most_taps} x {cls.most_taps}"
        gemm = cls.gemm(problem)
        return "for arrays that have elements" if gemm is None else cls.why_not(gemm, problem, limits)

    @classmethod
    def why_not(cls, gemm: Gemm, problem: Any, limits: Properties) -> str:
        """Why arrays do not lie as they need to; "" if they do."""
        raise NotImplementedError


@dataclass(frozen=True)
class Direct(Implicit):
    """Threads sum neighbouring outputs of a row, for any windows over one to three axes (direct convolution)."""

    name = "direct"
    kernel = Kernel("nn/convolution/direct.cu")
    efficiency = 0.2

    #: Threads of a block.
    threads: ClassVar[int] = 256
    #: Outputs of a thread along a row at most, and columns of the image that they may span.
    most_items: ClassVar[int] = 4
    most_columns: ClassVar[int] = 24
    #: Rows of neighbouring threads where channels lie innermost.
    band: ClassVar[int] = 8

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For few filters and channels a group."""
        return why_not_few(problem)

    @classmethod
    def width(cls, problem: Convolution) -> int:
        """The channels of a thread."""
        one = problem.filters == problem.channels == 1
        return packed_channels(problem.x) if one and problem.channels_last else 1

    @classmethod
    def arranged(cls, problem: Convolution) -> tuple[Arranged, Arranged]:
        """See :class:`Implicit`; for packs of channels, those of the weights lie innermost too."""
        if cls.width(problem) == 1:
            return super().arranged(problem)
        return Arranged(problem.x), channels_last(problem.weights, transposed=True)

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        z, y, x = gemm.axes
        items, width, last = self.most_items, self.width(problem), gemm.output.channels_last
        while items > 1 and (items - 1) * x.step + 1 + (x.taps - 1) * abs(x.tap_step) > self.most_columns:
            items //= 2
        runs, packs = divide_up(x.pixels, items), gemm.groups * gemm.filters // width
        rows = gemm.image.batch * z.pixels * y.pixels
        sizes = rows, gemm.filters, gemm.channels if gemm.taps else 0
        walked = divide_up(rows, self.band) * self.band if last else rows
        return Launch(
            grid=(divide_up(runs * packs * walked, self.threads), 1, 1),
            block=self.threads,
            constants={
                **constants_of(gemm, problem, epilogue, f"direct_{width}x{items}"),
                "items": items,
                "band": self.band,
                "width": width,
                **{f"taps_{axis}": max(1, one.taps) for axis, one in zip("zyx", gemm.axes, strict=True)},
                "step_x": x.step,
                "tap_step_x": x.tap_step,
                "channels_last": last,
            },
            params=(gemm.geometry((runs, packs), sizes=sizes), operand_steps(gemm, epilogue)),
        )


class _Walking(Walking, Implicit):
    """The same of convolutions and gradients of images, which have one phase."""

    @classmethod
    def gemm(cls, problem: Convolution) -> Gemm | None:
        return next(iter(cls.gemms(problem)), None)

    @staticmethod
    def constants_of(gemm: Gemm, problem: Convolution, epilogue: Program, kind: str) -> dict[str, Any]:
        """The template variables that all of them have."""
        _, y, x = gemm.axes
        own = {"taps_y": y.taps, "taps_x": x.taps, "transposed": x.tap_step < 0}
        return {**constants_of(gemm, problem, epilogue, kind), **own}


@dataclass(frozen=True)
class Rows(_Walking):
    """Threads walk down the image's rows, and add each to the sums of all outputs whose windows it is in.

    Attributes:
        width: channels of a thread.
        items: columns of a thread.
        whole: whether rows are read in packs of columns.
        ahead: rows of the image that are on their way, a divisor of a window's rows.
        rows: of the output, of a thread.
        across: neighbouring threads that have packs of channels.
        threads: of a block.
        resident: blocks that a multiprocessor has at a time.
    """

    name = "rows"
    kernel = Kernel("nn/convolution/depthwise.cu")
    efficiency = 0.75

    width: int
    items: int
    whole: bool
    ahead: int
    rows: int
    across: int
    threads: int
    resident: int

    #: Neighbouring threads that have packs of channels at most.
    most_across: ClassVar[int] = 32
    #: Columns of a thread where they are not read in packs.
    spread_items: ClassVar[int] = 4
    #: Rows of a thread at most, fewer of long packs, and at least where threads are few.
    most_rows: ClassVar[int] = 16
    most_rows_of_packs: ClassVar[int] = 8
    fewest_rows: ClassVar[int] = 4

    @classmethod
    def why_not(cls, gemm: Gemm, problem: Convolution, limits: Properties) -> str:
        last = gemm.image.channels_last and gemm.image.strides[1] == 1
        return "" if gemm.output.channels_last == last else "for image and output in one memory order"

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Rows]:
        """Packs as wide as the arrays allow, and as many rows as leave each multiprocessor enough threads."""
        (gemm,), item, out = cls.gemms(problem), problem.elem.itemsize, cls.written(problem)
        _, y, x = gemm.axes
        width, packed, across, threads = 1, 1, 1, 128
        if gemm.output.channels_last:
            width = widest_pack(ACCESS // 2 // item, 1, problem.x, out)
            packs = divide_up(gemm.groups, width)
            across = divide_up(packs, divide_up(packs, cls.most_across))
            ahead, resident = (1, 3) if item == 2 else (y.taps, 4)
        else:
            packed = widest_pack(ACCESS // item if x.pads_within else 1, 3, problem.x, out)
            ahead, resident = 1, 6
        items = packed if packed > 1 else cls.spread_items
        strips = gemm.image.batch * divide_up(gemm.groups, width) * divide_up(x.pixels, items)
        wanted = 2 * limits.multiprocessors * resident * threads
        most = cls.most_rows_of_packs if items > cls.spread_items else cls.most_rows
        fewest = min(divide_up(wanted, strips), divide_up(y.pixels, cls.fewest_rows))
        rows = divide_up(y.pixels, max(divide_up(y.pixels, most), fewest))
        if cost.is_host(limits):
            rows, across, threads, resident = y.pixels, 1, 1, 1
        yield cls(width, items, packed > 1, ahead, rows, across, threads, resident)

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        _, y, x = gemm.axes
        last, batch = gemm.output.channels_last, gemm.image.batch
        runs, bands = divide_up(x.pixels, self.items), divide_up(y.pixels, self.rows)
        tiles = divide_up(gemm.groups, self.across * self.width) if last else 1
        strips = runs * bands * batch * (1 if last else gemm.groups)
        sizes = bands, gemm.groups, batch
        return Launch(
            grid=(divide_up(strips, self.threads // self.across) * tiles, 1, 1),
            block=self.threads,
            constants={
                **self.constants_of(gemm, problem, epilogue, f"rows_{self.width}x{self.items}"),
                "channels_last": last,
                "before": -x.lowest if self.whole else 0,
            },
            params=(gemm.geometry((runs, tiles), self.rows, sizes), operand_steps(gemm, epilogue)),
        )


def why_not_planes(gemm: Gemm, *loaded: Layout) -> str:
    """Why whole planes of image and output are not loaded by bulk copies from arrays; "" if they are."""
    if loaded[0].dtype.itemsize != 2 or gemm.wide:
        return "for 16-bit floats, and offsets of 32 bits"
    if not (gemm.image.dense_planes(gemm.groups) and gemm.output.dense_planes(gemm.groups)):
        return "for planes behind one another"
    if any(2 * math.prod(one.shape[2:]) % ACCESS or not one.aligned for one in loaded):
        return f"for planes that begin at multiples of {ACCESS} bytes"
    same = gemm.axes[2].pads_within and gemm.axes[2].pixels == gemm.image.size[2]
    return "" if same else "for as many columns of output as of image"


_PLANES = Params("Sizes", planes="int", channels="int", top="int")


@dataclass(frozen=True)
class Planes(_Walking):
    """Warps walk down the rows of whole planes of 16-bit floats, which bulk copies load to shared memory (sm_90).

    Attributes:
        items: columns of a lane.
        stages: planes of a warp in shared memory.
        stage: elements of one.
        warps: of a block.
        resident: blocks that a multiprocessor has at a time.
    """

    name = "planes"
    kernel = Kernel("nn/convolution/depthwise_planes.cu")
    needs = (9, 0)
    efficiency = 0.83

    items: int
    stages: int
    stage: int
    warps: int = 8
    resident: int = 2

    #: Planes of a warp in shared memory at most; at least two.
    most_stages: ClassVar[int] = 4
    #: Bytes of shared memory that blocks leave.
    left: ClassVar[int] = 2048

    @staticmethod
    def columns_of_lane(columns: int) -> int:
        """Those of a lane, for so many of a plane; 0 if the lanes of a warp do not divide them."""
        return next((n for n in (8, 4, 2) if columns % n == 0 and columns // n <= 32), 0)

    @classmethod
    def why_not(cls, gemm: Gemm, problem: Convolution, limits: Properties) -> str:
        _, y, x = gemm.axes
        if why := why_not_planes(gemm, problem.x):
            return why
        taps = zip((gemm.weight_group, *gemm.weights[3:]), (gemm.taps, x.taps, 1), strict=True)
        sizes = gemm.groups, y.taps, x.taps
        if any(n > 1 and a != b for n, (a, b) in zip(sizes, taps, strict=True)):
            return "for weights behind one another"
        return "" if cls.columns_of_lane(x.pixels) else "for columns that the 32 lanes of a warp divide"

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Planes]:
        """As many planes as fit in shared memory."""
        _, height, columns = cls.gemms(problem)[0].image.size
        stage = divide_up(height * columns, LINE) * LINE
        memory = limits.max_shared_memory_per_block // cls.resident - cls.left
        stages = min(cls.most_stages, memory // (2 * cls.warps * stage))
        if stages >= 2:
            yield cls(cls.columns_of_lane(columns), stages, stage)

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        _, y, x = gemm.axes
        _, height, columns = gemm.image.size
        planes = gemm.image.batch * gemm.groups
        sizes = _PLANES(planes=planes, channels=gemm.groups, top=y.lowest)
        own = {"width": 1, "before": -x.lowest, "height": height, "columns": columns, "out_height": y.pixels}
        return Launch(
            grid=(min(divide_up(planes, self.warps), self.resident * limits.multiprocessors), 1, 1),
            block=32 * self.warps,
            shared=2 * self.warps * self.stages * self.stage,
            constants={**self.constants_of(gemm, problem, epilogue, f"planes_{self.items}"), **own},
            params=(sizes, operand_steps(gemm, epilogue)),
        )
