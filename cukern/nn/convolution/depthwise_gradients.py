"""Gradients of the weights of depthwise convolutions, and of others of few channels and filters a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ... import dtypes
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, power_of_two
from ...launch import cost
from ...launch.params import Params
from ...launch.variant import Launch, Plan, Variant, prepared
from .arrangement import PLANE, TAPS, Pipeline, is_packed, packed_channels, plane_of, taps_of, widest_pack
from .depthwise import Walking, why_not_few, why_not_planes
from .problem import Gemm, WeightsGradient
from .tma import LINE, image_tiles


class _BySums(Variant[WeightsGradient]):
    """What the variants share: partial sums of parts of the pixels, behind one another, which are added up in order."""

    @classmethod
    def sums(cls, problem: WeightsGradient) -> Gemm:
        """What is summed."""
        return problem.gemm(problem.output, problem.image, problem.layout())

    def partials(self, gemm: Gemm) -> int:
        """How many partial sums of each weight there are."""
        raise NotImplementedError

    def plan(self, problem: WeightsGradient, limits: Properties) -> Plan:
        """The launch, and the addition of its partial sums."""
        gemm, layout = self.sums(problem), problem.layout()
        gemm.check()
        runs = [prepared(self, self.launch(problem, limits), problem.device)] if layout.size else []
        return Pipeline(problem.device, layout, (), runs, self.partials(gemm))

    def constants_of(self, gemm: Gemm, problem: WeightsGradient, kind: str) -> dict[str, Any]:
        """The template variables that all of them have."""
        info = dtypes.info(problem.elem)
        out = info.acc if self.partials(gemm) > 1 else problem.dtype
        return {
            "name": f"convolution_weights_{info.name}_{self.name}_{kind}",
            "elem": problem.elem,
            "out": dtypes.info(out).cxx,
            "index": gemm.offsets,
            "taps_y": gemm.axes[1].taps,
            "taps_x": gemm.axes[2].taps,
            "step_y": gemm.axes[1].step,
            "step_x": gemm.axes[2].step,
        }


@dataclass(frozen=True)
class Direct(_BySums):
    """Threads of a block sum a tap's row over pixels, for any windows over one to three axes (direct convolution).

    Attributes:
        width: channels of a thread.
        across: neighbouring threads that have the same pixels.
        threads: of a block.
        splits: partial sums.
    """

    name = "direct"
    kernel = Kernel("nn/convolution/direct_weights.cu")
    efficiency = 0.15

    width: int
    across: int
    threads: int
    splits: int

    #: Pixels that each thread sums at least, and partial sums at most.
    fewest_pixels: ClassVar[int] = 16
    most_splits: ClassVar[int] = 256
    #: Blocks for each multiprocessor, where pixels are many.
    blocks: ClassVar[int] = 8

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For few filters and channels a group."""
        return why_not_few(problem)

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[Direct]:
        """As many partial sums as give each multiprocessor enough blocks."""
        gemm, threads = cls.sums(problem), 256
        one = problem.filters == problem.channels == 1
        width = packed_channels(problem.output, problem.image) if one else 1
        if cost.is_host(limits):
            yield cls(width, 1, threads=1, splits=1)
            return
        z, y, _ = gemm.axes
        pairs = gemm.groups * gemm.filters * gemm.channels
        last = gemm.image.channels_last and gemm.output.channels_last
        across = min(limits.warp_size, power_of_two(divide_up(pairs, width))) if last else 1
        wanted = (
            cls.blocks * limits.multiprocessors // max(1, divide_up(pairs, across * width) * z.taps * y.taps)
        )
        most = gemm.pixels * across // (threads * cls.fewest_pixels)
        splits = max(1, min(wanted, most, cls.most_splits))
        yield cls(width, across, threads, divide_up(gemm.pixels, max(1, divide_up(gemm.pixels, splits))) or 1)

    def partials(self, gemm: Gemm) -> int:
        return self.splits

    def launch(self, problem: WeightsGradient, limits: Properties) -> Launch:
        """A block for filters' channels, a part of the pixels, and the taps of a row."""
        gemm = self.sums(problem)
        z, y, x = gemm.axes
        pairs, each = gemm.groups * gemm.filters * gemm.channels, max(1, divide_up(gemm.pixels, self.splits))
        return Launch(
            grid=(divide_up(pairs, self.across * self.width), self.splits, z.taps * y.taps),
            block=self.threads,
            constants=self.constants_of(gemm, problem, f"{self.width}x{x.taps}"),
            params=(gemm.geometry((pairs, y.taps), each, (gemm.filters, gemm.channels, gemm.pixels)),),
        )


class _Walking(Walking, _BySums):
    """The same of those that read each row of image and output once, on a GPU."""

    needs = (5, 0)
    most_taps, most_step = 7, 2
    #: Taps along rows and columns up to which registers are left for several blocks.
    few_taps: ClassVar[int] = 3
    #: 32-bit registers of a multiprocessor, of a thread at most, and those for addresses and counts.
    registers: ClassVar[tuple[int, int, int]] = 65536, 255, 50

    @classmethod
    def gemm(cls, problem: WeightsGradient) -> Gemm | None:
        gemm = cls.sums(problem)
        return gemm if gemm.pixels and gemm.groups else None

    @classmethod
    def columns_in_registers(cls, gemm: Gemm, words: int, loaded: int, threads: int) -> list[int]:
        """The numbers of columns of a thread for which it has registers, the most first; one at least.

        Args:
            gemm: what is summed.
            words: of the sum of a tap, and of what is multiplied for it.
            loaded: words of a column that is on its way, and of its address.
            threads: of a multiprocessor.
        """
        _, y, x = gemm.axes
        total, most, others = cls.registers
        recent = divide_up(y.taps, y.step)

        def needed(items: int) -> int:
            span = (items - 1) * x.step + x.taps
            return words * (gemm.taps + recent * items + span) + loaded * (span + items) + others

        return [n for n in (8, 4, 2, 1) if n == 1 or needed(n) <= min(total // threads, most)]


def _equal(pixels: int, most: int) -> int:
    """The rows of bands of equal height, of at most so many."""
    return divide_up(pixels, divide_up(pixels, most))


_STRIPS = Params(
    "Sizes",
    image=PLANE,
    output=PLANE,
    weights=TAPS,
    **dict.fromkeys(("channels", "tiles", "strips", "share", "runs", "bands", "each", "top", "left"), "int"),
)


@dataclass(frozen=True)
class _Strips(_Walking):
    """What the variants share whose threads walk down strips: some columns of a channel in a band of rows.

    Attributes:
        width: channels of a thread.
        items: columns of a thread.
        whole: whether all threads have as many columns; if these lie innermost, they are read in packs.
        rows: of the output, of a thread at a time.
        resident: blocks that a multiprocessor has at a time.
        across: neighbouring threads that have packs of channels.
        threads: of a block.
    """

    width: int
    items: int
    whole: bool
    rows: int
    resident: int
    across: int = 1
    threads: int = 128

    #: Blocks that a multiprocessor has at a time where windows are of many taps.
    fewest_resident: ClassVar[int] = 2

    def share(self, gemm: Gemm) -> int:
        """The strips of a partial sum."""
        raise NotImplementedError

    def strips(self, gemm: Gemm) -> tuple[int, int, int]:
        """The strips of a channel of all images; those of a row, and bands of rows."""
        _, y, x = gemm.axes
        runs, bands = divide_up(x.pixels, self.items), divide_up(y.pixels, self.rows)
        return gemm.image.batch * runs * bands, runs, bands

    def partials(self, gemm: Gemm) -> int:
        return divide_up(self.strips(gemm)[0], self.share(gemm))

    def launch(self, problem: WeightsGradient, limits: Properties) -> Launch:
        """A block for a tile of channels and a part of the strips."""
        gemm = self.sums(problem)
        _, y, x = gemm.axes
        tiles, (strips, runs, bands) = divide_up(gemm.groups, self.across * self.width), self.strips(gemm)
        planes = {"image": plane_of(gemm.image), "output": plane_of(gemm.output), "weights": taps_of(gemm)}
        counts = {"channels": gemm.groups, "tiles": tiles, "strips": strips, "share": self.share(gemm)}
        offsets = {"runs": runs, "bands": bands, "each": self.rows, "top": y.base, "left": x.base}
        return Launch(
            grid=(tiles * self.partials(gemm), 1, 1),
            block=self.threads,
            constants={
                **self.constants_of(gemm, problem, str(self.items)),
                "before": -x.base if self.whole else 0,
            },
            params=(_STRIPS(**planes, **counts, **offsets),),
        )


@dataclass(frozen=True)
class Rows(_Strips):
    """Threads walk down the rows of packs of channels, which lie innermost."""

    name = "rows"
    kernel = Kernel("nn/convolution/depthwise_weights.cu")
    efficiency = 0.75

    #: Neighbouring threads that have packs of channels, and rows of a thread, at most.
    most_across: ClassVar[int] = 32
    most_rows: ClassVar[int] = 28

    @classmethod
    def why_not(cls, gemm: Gemm, problem: WeightsGradient, limits: Properties) -> str:
        width = widest_pack(ACCESS // 2 // problem.elem.itemsize, 1, problem.image, problem.output)
        return "" if width > 1 and not gemm.wide else "for packs of channels, and offsets of 32 bits"

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[Rows]:
        """As many neighbouring threads as fill a block best."""
        gemm, item = cls.sums(problem), problem.elem.itemsize
        _, y, x = gemm.axes
        few = max(y.taps, x.taps) <= cls.few_taps
        width = widest_pack(ACCESS // 2 // item if few else 2, 1, problem.image, problem.output)
        across = _equal(divide_up(gemm.groups, width), cls.most_across)
        own = cls(width, 4, False, _equal(y.pixels, cls.most_rows), 3 if few else cls.fewest_resident, across)
        loaded = 1 + divide_up(width * item, 4)
        fitting = cls.columns_in_registers(gemm, width, loaded, own.resident * own.threads)
        for items in [own.items] if few else [n for n in fitting if n <= own.items]:
            yield replace(own, items=items, whole=x.pixels % items == 0)

    def share(self, gemm: Gemm) -> int:
        """See :class:`_Strips`: one for each thread that has other columns."""
        return self.threads // self.across


@dataclass(frozen=True)
class Columns(_Strips):
    """Threads walk down strips of a plane, whose columns lie innermost.

    Attributes:
        splits: partial sums of each channel, at most.
        ahead: rows that a thread has on their way, a divisor of a window's rows.
    """

    name = "columns"
    kernel = Kernel("nn/convolution/depthwise_column_weights.cu")
    efficiency = 0.65

    splits: int = 1
    ahead: int = 1

    #: Columns of a thread that are not read in packs, and rows of a thread at most.
    spread_items: ClassVar[int] = 4
    most_rows: ClassVar[int] = 14

    @classmethod
    def why_not(cls, gemm: Gemm, problem: WeightsGradient, limits: Properties) -> str:
        steps = {gemm.image.strides[4], gemm.output.strides[4]}
        return "for columns that lie innermost, and offsets of 32 bits" if steps - {0, 1} or gemm.wide else ""

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[Columns]:
        """Packs as wide as the arrays allow, and as many partial sums as multiprocessors have blocks."""
        gemm = cls.sums(problem)
        _, y, x = gemm.axes
        most = ACCESS // problem.elem.itemsize if 0 <= -x.base <= x.taps - x.step else 1
        packed = min(widest_pack(most, 3, problem.image) // x.step, widest_pack(most, 3, problem.output))
        few = max(y.taps, x.taps) <= cls.few_taps
        own = cls(1, packed, packed > 1, _equal(y.pixels, cls.most_rows), 6 if few else cls.fewest_resident)
        widest = packed if packed > 1 else cls.spread_items
        words, loaded = (divide_up(one.itemsize, 4) for one in (dtypes.info(problem.elem).acc, problem.elem))
        fitting = cls.columns_in_registers(gemm, words, 1 + loaded, own.resident * own.threads)
        for items in [widest] if few else [n for n in fitting if n <= widest]:
            one = replace(own, items=items, whole=own.whole and items > 1)
            most, places = one.strips(gemm)[0] // own.threads, own.resident * limits.multiprocessors
            wanted = round(places / gemm.groups) if few else one.fastest_splits(gemm, places)
            yield replace(one, splits=max(1, min(wanted, most)))

    def fastest_splits(self, gemm: Gemm, places: int) -> int:
        """Partial sums for which multiprocessors with places for so many blocks take the least time."""
        strips = self.strips(gemm)[0]

        def time(splits: int) -> float:  # in that of a strip of each thread; a block's sums take half of it
            return divide_up(gemm.groups * splits, places) * (divide_up(strips, splits * self.threads) + 0.5)

        return min(range(1, min(divide_up(strips, self.threads), 2 * places) + 1), key=time)

    def share(self, gemm: Gemm) -> int:
        return divide_up(self.strips(gemm)[0], self.splits)


_PLANES = Params("Sizes", weights=TAPS, **dict.fromkeys(("channels", "batch", "share", "top"), "int"))


@dataclass(frozen=True)
class Planes(_Walking):
    """Warps multiply rows of whole planes on tensor cores, which bulk copies load to shared memory (sm_90).

    Attributes:
        items: columns of an access.
        per: columns of a lane.
        each: rows of the output that are multiplied at a time.
        image_stage: elements of a plane of the image in shared memory.
        stage: the same of image and output.
        warps: of a block.
        stages: planes of image and output of a warp.
        resident: blocks that a multiprocessor has at a time.
        share: images of a block.
    """

    name = "planes"
    most_taps, most_step = 3, 1
    kernel = Kernel("nn/convolution/depthwise_plane_weights.cu")
    needs = (9, 0)
    efficiency = 0.95

    items: int
    per: int
    each: int
    image_stage: int
    stage: int
    warps: int
    stages: int
    resident: int
    share: int

    #: Warps of a block and of a multiprocessor at most, and its blocks at least.
    most_warps: ClassVar[int] = 8
    most_resident_warps: ClassVar[int] = 16
    fewest_blocks: ClassVar[int] = 2
    #: Bytes of shared memory that each block leaves.
    left: ClassVar[int] = 2048
    #: Columns of a row at most, rows of a product, and columns of a step of its depth.
    most_columns: ClassVar[int] = 64
    mma_rows: ClassVar[int] = 16
    mma_depth: ClassVar[int] = 16
    #: Planes of image and output of a warp in shared memory at most.
    most_stages: ClassVar[int] = 2

    @classmethod
    def columns_of_lane(cls, columns: int) -> tuple[int, int]:
        """Those of a lane, and those of an access: 0 if no access divides both them and a row."""
        per = divide_up(columns, cls.mma_depth) * (cls.mma_depth // 4)
        return per, next((n for n in (8, 4, 2) if columns % n == per % n == 0), 0)

    @classmethod
    def why_not(cls, gemm: Gemm, problem: WeightsGradient, limits: Properties) -> str:
        columns = gemm.image.size[2]
        if why := why_not_planes(gemm, problem.image, problem.output):
            return why
        fits = columns <= cls.most_columns and cls.columns_of_lane(columns)[1]
        return "" if fits else f"for an even number of columns up to {cls.most_columns}"

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[Planes]:
        """As many warps and planes as fit in shared memory."""
        gemm, memory = cls.sums(problem), limits.max_shared_memory_per_block
        _, y, x = gemm.axes
        per, items = cls.columns_of_lane(x.pixels)
        image, output = (divide_up(v.size[1] * v.size[2], LINE) * LINE for v in (gemm.image, gemm.output))
        stage, batch = 2 * (image + output), gemm.image.batch
        warps = min(cls.most_warps, batch, (memory // cls.fewest_blocks - cls.left) // stage)
        if warps < 1:
            return
        resident = min(cls.most_resident_warps // warps, memory // (warps * stage + cls.left))
        stages = min(cls.most_stages, (memory // resident - cls.left) // (warps * stage))
        each = _equal(y.pixels, cls.mma_rows + 1 - y.taps)
        share = divide_up(batch, fastest_splits(gemm, warps, resident * limits.multiprocessors))
        yield cls(items, per, each, image, image + output, warps, stages, resident, share)

    def partials(self, gemm: Gemm) -> int:
        return divide_up(gemm.image.batch, self.share)

    def launch(self, problem: WeightsGradient, limits: Properties) -> Launch:
        """A block for a channel and a part of the batch."""
        gemm = self.sums(problem)
        _, y, x = gemm.axes
        own = {"before": -x.base, "height": gemm.image.size[1], "out_height": y.pixels, "columns": x.pixels}
        sizes = {"channels": gemm.groups, "batch": gemm.image.batch, "share": self.share, "top": y.base}
        return Launch(
            grid=(gemm.groups * self.partials(gemm), 1, 1),
            block=32 * self.warps,
            shared=2 * self.warps * self.stages * self.stage,
            constants={**self.constants_of(gemm, problem, str(self.items)), **own},
            params=(_PLANES(weights=taps_of(gemm), **sizes),),
        )


def fastest_splits(gemm: Gemm, warps: int, slots: int) -> int:
    """Parts of the batch for which multiprocessors with places for so many blocks take the least time."""

    def time(splits: int) -> int:  # in halves of that of a plane a warp; a block's first takes twice as long
        planes = divide_up(divide_up(gemm.image.batch, splits), warps)
        return 2 * divide_up(gemm.groups * splits, slots) * (planes + 1) + (splits > 1)

    # As many parts as places fill them with less than two planes a warp too many: twice as many parts waste more.
    return min(range(1, min(divide_up(gemm.image.batch, warps), 2 * slots) + 1), key=time)


_RING = Params(
    "Sizes",
    output=PLANE,
    weights=TAPS,
    **dict.fromkeys(
        ("channels", "bands", "each", "tiles_x", "tiles_c", "top", "left", "batch", "share"), "int"
    ),
)


@dataclass(frozen=True)
class Ring(_Walking):
    """Warps walk down rows of 16-bit floats, channels innermost, which tensor maps load to shared memory (sm_90).

    One warp of a block loads rows of image and output to a ring, and others walk down them.

    Attributes:
        items: columns of a thread, which has two channels.
        rows: of the output, of a block.
        stages: rows of both arrays in shared memory.
        resident: blocks that a multiprocessor has at a time.
        warps: that walk down rows.
        share: images of a block, one after the other.
        line: channels; 64, of a warp's threads, or half of them.
    """

    name = "ring"
    kernel = Kernel("nn/convolution/depthwise_ring_weights.cu")
    needs = (9, 0)
    efficiency = 0.9

    items: int
    rows: int
    stages: int = 1
    resident: int = 2
    warps: int = 8
    share: int = 1
    line: int = LINE

    #: Columns of a thread at most, of few taps.
    most_items: ClassVar[int] = 7
    #: Bytes of shared memory that blocks leave.
    left: ClassVar[int] = 4096
    #: Rows of the output in whose time a block begins and writes its sums, and one of the image is read: estimates.
    start: ClassVar[float] = 8
    reading: ClassVar[float] = 0.25

    @classmethod
    def why_not(cls, gemm: Gemm, problem: WeightsGradient, limits: Properties) -> str:
        if problem.elem.itemsize != 2 or gemm.wide:
            return "for 16-bit floats, and offsets of 32 bits"
        last = all(view.channels_last and view.unique for view in (gemm.image, gemm.output))
        if not (last and is_packed(problem.image) and is_packed(problem.output)):
            return "for channels that lie innermost, in multiples of 16 bytes"
        return "" if limits.compute_capability[0] == 9 else "for compute capability 9"

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[Ring]:
        """Of few taps tiles of equal width, else as many columns as registers hold, in bands for all blocks."""
        gemm = cls.sums(problem)
        _, y, x = gemm.axes
        if max(y.taps, x.taps) <= cls.few_taps:
            across = divide_up(x.pixels, cls.warps * cls.most_items)
            tile = cls(divide_up(divide_up(x.pixels, across), cls.warps), y.pixels)
            tiles, across, _ = tile.tiles(gemm)
            blocks = cls.resident * limits.multiprocessors // (gemm.image.batch * tiles * across)
            bands = max(1, min(blocks, divide_up(y.pixels, cls.warps)))
            yield from replace(tile, rows=divide_up(y.pixels, bands)).staged(gemm, limits)
            return
        line = LINE // 2 if divide_up(gemm.groups, LINE // 2) % 2 else LINE
        groups = cls.warps * LINE // line
        for most in cls.columns_in_registers(gemm, 2, 0, 32 * (cls.warps + 1)):
            columns = _equal(x.pixels, groups * most)
            items = divide_up(columns, groups)
            warps = divide_up(divide_up(columns, items) * line, LINE)
            tile = cls(items, y.pixels, resident=1, warps=warps, line=line)
            yield from tile.divided(gemm, limits.multiprocessors).staged(gemm, limits)

    def divided(self, gemm: Gemm, places: int) -> Ring:
        """The same with the bands and parts for which so many blocks at a time take the least time."""
        tiles, across, _ = self.tiles(gemm)
        height, taps, batch = gemm.axes[1].pixels, gemm.axes[1].taps, gemm.image.batch

        def time(one: tuple[int, int]) -> float:
            rows, share = one
            blocks = tiles * across * divide_up(height, rows) * divide_up(batch, share)
            return divide_up(blocks, places) * (share * (rows + self.reading * (rows + taps)) + self.start)

        bands = {divide_up(height, n) for n in range(1, min(divide_up(height, taps), 2 * places) + 1)}
        shares = {divide_up(batch, n) for n in range(1, min(batch, 2 * places) + 1)}
        rows, share = min(((a, b) for a in sorted(bands) for b in sorted(shares)), key=time)
        return replace(self, rows=rows, share=share)

    def staged(self, gemm: Gemm, limits: Properties) -> Iterator[Ring]:
        """The same with as many stages as memory holds; none if it does not hold two."""
        sums = self.warps * LINE * 4 * gemm.axes[2].taps
        one = replace(self, stages=1).shared(gemm)
        most = (limits.max_shared_memory_per_block // self.resident - self.left - sums) // one
        for stages in [n for n in range(8, 1, -1) if n <= most][:1]:
            yield replace(self, stages=stages)

    def tiles(self, gemm: Gemm) -> tuple[int, int, int]:
        """Tiles of channels and of columns, and bands of rows."""
        _, y, x = gemm.axes
        sizes = (gemm.groups, self.line), (x.pixels, self.own), (y.pixels, self.rows)
        a, b, c = (divide_up(*one) for one in sizes)
        return a, b, c

    @property
    def own(self) -> int:
        """Columns of the output of a block."""
        return self.warps * LINE // self.line * self.items

    def columns(self, gemm: Gemm) -> tuple[int, int]:
        """Columns of each row in shared memory, of the output and of the image."""
        x = gemm.axes[2]
        return self.own, (self.own - 1) * x.step + x.taps

    def shared(self, gemm: Gemm) -> int:
        """Bytes of dynamic shared memory."""
        return self.stages * sum(divide_up(n * self.line, LINE) for n in self.columns(gemm)) * LINE * 2

    def partials(self, gemm: Gemm) -> int:
        _, across, bands = self.tiles(gemm)
        return across * bands * divide_up(gemm.image.batch, self.share)

    def launch(self, problem: WeightsGradient, limits: Properties) -> Launch:
        """A block for some channels of a tile of columns in a band of rows of some images, which maps load."""
        gemm = self.sums(problem)
        _, y, x = gemm.axes
        tiles, across, bands = self.tiles(gemm)
        counts = {"channels": gemm.groups, "bands": bands, "each": self.rows, "share": self.share}
        offsets = {"tiles_x": across, "tiles_c": tiles, "top": y.lowest, "left": x.lowest}
        planes = {"output": plane_of(gemm.output), "weights": taps_of(gemm), "batch": gemm.image.batch}
        boxes = zip((problem.output, problem.image), self.columns(gemm), strict=True)
        constants = self.constants_of(gemm, problem, str(self.items))
        return Launch(
            grid=(tiles * across * bands * divide_up(gemm.image.batch, self.share), 1, 1),
            block=32 * (self.warps + 1),
            shared=self.shared(gemm),
            constants={**constants, "whole": x.pixels % self.items == 0},
            params=(_RING(**planes, **counts, **offsets),),
            maps={
                i: [image_tiles(one, (1, n), channels=self.line)._replace(swizzle=0)]
                for i, (one, n) in enumerate(boxes)
            },
        )
