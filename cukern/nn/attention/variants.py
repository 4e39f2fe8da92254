"""What the variants of attention and its gradients share: tiles of the scores, sizes, and keys that blocks share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ...array import Array
from ...array.creation import full
from ...array.layout import Layout, fresh_layout
from ...cache import Cache
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.plan import new, on, zeroed
from ...kernel.sizes import ACCESS, LARGEST_INDEX, divide_up, index_type, power_of_two
from ...kernel.strides import broadcast_steps
from ...launch import cost
from ...launch.params import Given, Params
from ...launch.variant import Launch, Plan, Run, Variant, prepared
from .masks import Walk, tile_lists
from .problem import Attention, Call
from .staging import Staging
from .variables import variables_of

#: The most rows that are few: queries times the heads that share a head of keys.
FEW = 16
#: The values of a random word.
_WORDS = 2**32

_STEPS = Params("Steps", batch="index", head="index", row="index")
#: The fields that are the key of a stream of dropout.
_KEY = ("key0", "key1")
#: Their values where nothing is drawn.
_NO_KEY = (0, 0)
#: The matrices of which a kernel takes strides.
_MATRICES = ("q", "k", "v", "o", "dq", "dk", "dv")
_SIZES = Params(
    "Sizes",
    **dict.fromkeys(_MATRICES, _STEPS),
    **dict.fromkeys(("scale", "kept"), "double"),
    **dict.fromkeys("heads queries keys tiles sequences offset left right".split(), "int"),
    **dict.fromkeys(("threshold", *_KEY), "unsigned"),
)
_RESULTS = Params(
    "Results", **dict.fromkeys(("batch", "head", "row"), "index"), parts="int", heads="int", queries="int"
)


def _steps(layout: Layout | None) -> Given:
    batch, head, row = (
        (0, 0, 0) if layout is None else (n // layout.dtype.itemsize for n in layout.strides[:3])
    )
    return _STEPS(batch=batch, head=head, row=row)


def _span(layout: Layout) -> int:
    return sum(
        abs(step) // layout.dtype.itemsize * n for step, n in zip(layout.strides, layout.shape, strict=True)
    )


@dataclass(frozen=True)
class Tiled(Variant[Attention]):
    """What variants share: a tile of the scores that a block makes at a time.

    Attributes:
        tile_m, tile_n: its rows and keys.
    """

    tile_m: int
    tile_n: int

    #: Whether tensor maps bring tiles, and whether warps multiply fragments in registers.
    fed: ClassVar[bool] = False
    by_fragments: ClassVar[bool] = False
    #: Whether a block has a tile of keys, and goes along the rows.
    of_keys: ClassVar[bool] = False
    of_launch = frozenset(("parts", "apart", "blocks", "threads"))

    @property
    def block(self) -> int:
        """Threads of a block."""
        raise NotImplementedError

    def shared(self, problem: Attention) -> int:
        """Bytes of dynamic shared memory of a block."""
        raise NotImplementedError

    def staged(self, problem: Attention) -> Staging:
        """The score, and what is brought ahead of its tiles."""
        return Staging(problem.options.program)

    def walk(self, problem: Attention) -> Walk:
        """Along which tiles the blocks of a launch go."""
        _, heads, queries, keys = problem.scores
        # A block of the score's arrays has one tile, of each head of queries, and looks for it in the list of its keys.
        alone = problem.of_array is not None
        of_keys, apart = alone or self.of_keys, alone or self.fed
        shared = 1 if alone or (apart and not of_keys) else problem.sharing
        group = 1 if apart else shared
        return Walk(self.tile_m, self.tile_n, of_keys, heads // shared, shared, group, queries, keys)

    def tiles(self, problem: Attention) -> int:
        """The tiles of a head of keys, or if tensor maps feed those of rows, of a head of queries."""
        if self.of_keys or problem.of_array is not None:
            found = divide_up(problem.k.shape[2], self.tile_n)
        else:
            found = divide_up(problem.q.shape[2] if self.fed else problem.rows, self.tile_m)
        return found + (problem.sequences if problem.options.packed else 0)

    def blocks_of(self, problem: Attention) -> int:
        """The blocks that have a tile each."""
        batch = 1 if problem.options.packed else problem.q.shape[0]
        heads = problem.q.shape[1] if self.fed and not self.of_keys else problem.k.shape[1]
        return self.tiles(problem) * heads * batch

    def launch(self, problem: Attention, limits: Properties) -> Launch:
        """A block for each tile of each head."""
        return self.laid_out(problem, problem.made)

    def laid_out(self, problem: Attention, made: Mapping[str, Layout]) -> Launch:
        """The launch that makes matrices of these layouts."""
        options, q = problem.options, problem.q
        scores = (problem.sequences, q.shape[1], 1, 1) if options.packed else problem.scores
        matrices = {**dict(zip("qkvo", problem.matrices, strict=True)), **made}
        steps = [broadcast_steps(one, scores) for one in problem.operands]
        spans = [sum(abs(step) * n for step, n in zip(one, scores, strict=True)) for one in steps]
        spans += [_span(one) for one in matrices.values()] + [one.size for one in problem.tables]
        spans += [self.span(problem), q.shape[0] * q.shape[1] * q.shape[2]]
        wide = max(spans) > LARGEST_INDEX - 2**20
        constants = variables_of(problem, self.staged(problem), self.fed, self.by_fragments, self.of_keys)
        constants |= {"index": "long long" if wide else "int", "split": False}
        constants |= {f"makes_{one}": f"d{one}" in made for one in "qkv"}
        apart = self.fed or problem.of_array is not None
        sizes = _SIZES(
            **{name: _steps(matrices.get(name)) for name in _MATRICES},
            scale=options.scale,
            kept=1 / (1 - options.dropout),
            heads=(q if apart else problem.k).shape[1],
            queries=q.shape[2],
            keys=problem.k.shape[2],
            tiles=self.tiles(problem),
            sequences=problem.sequences if options.packed else q.shape[0],
            offset=options.offset or 0,
            left=options.left or 0,
            right=options.right or 0,
            threshold=min(round(options.dropout * _WORDS), _WORDS - 1),
            **dict(zip(_KEY, _NO_KEY, strict=True)),
        )
        steps = steps or [(0, 0, 0, 0)]
        score_steps = Params("ScoreSteps", of=("index", (len(steps), 4)))(of=steps)
        grid = (self.blocks_of(problem), 1, 1)
        return Launch(grid, self.block, self.shared(problem), constants, (sizes, score_steps))

    def span(self, problem: Attention) -> int:
        """Elements of the sums of a gradient, which may be more than it has."""
        return 0


class Tabled(Tiled):
    """What variants on tensor cores share: constants by the most features of a head, for packs of 16-bit elements."""

    table: ClassVar[Mapping[int, Mapping[str, Any]]]
    #: Bytes of shared memory of a block besides the dynamic ones.
    reserved: ClassVar[int] = 0

    @classmethod
    def table_of(cls, problem: Attention) -> Mapping[int, Mapping[str, Any]]:
        """The constants for a problem."""
        return cls.table

    @classmethod
    def tile(cls, problem: Attention) -> Self | None:
        """With the constants for a problem's features; None if there are none."""
        found = (one for most, one in cls.table_of(problem).items() if max(problem.head) <= most)
        return next((cls(**one) for one in found), None)

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """For packs of half types."""
        if not problem.half:
            return "for 16-bit elements"
        if not problem.packs:
            return f"for rows of aligned packs of {ACCESS} bytes"
        tile = cls.tile(problem)
        if tile is None:
            return f"for heads of at most {max(cls.table_of(problem))} features"
        if tile.shared(problem) + cls.reserved <= limits.max_shared_memory_per_block:
            return ""
        return f"{limits.name} has too little shared memory for heads of {max(problem.head)} features"

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """The constants for the features of a head."""
        if (one := cls.tile(problem)) is not None:
            yield one


class Launched:
    """A launch for the arrays of calls, and that of the lists of tiles that a mask leaves to its blocks."""

    def __init__(self, variant: Tiled, problem: Attention, launch: Launch) -> None:
        self._variant, self._launch, self._device = variant, launch, problem.device
        #: By the key of a stream of dropout.
        self._runs: Cache[tuple[int, int], Run] = Cache()
        self._runs.keep(_NO_KEY, prepared(variant, launch, problem.device))
        self._lists = None if problem.kinds is None else tile_lists(problem.kinds, variant.walk(problem))
        self._bits = variant.fed

    def __call__(self, call: Call, given: Sequence[Array], made: Sequence[Array | None]) -> None:
        """Launch on the call's arrays, others that it reads, and those that it writes."""
        draw, blocks = call.draw, call.blocks
        key, at, live = (_NO_KEY, 0, None) if draw is None else draw
        run = self._runs.get(key) or self._runs.keep(key, self._with_key(key))
        lists: tuple[Array | None, ...] = ()
        if self._lists is not None:
            assert blocks is not None
            lists = (self._lists(blocks.kinds), *((blocks.bits,) if self._bits else ()))
        run((*call[:3], *call.operands, *call.tables, *call.starts, live, *lists, *given, *made, at))

    def _with_key(self, key: tuple[int, int]) -> Run:
        sizes, *rest = self._launch.params
        assert isinstance(sizes, Given)
        own = Given(sizes.params, {**sizes.values, **dict(zip(_KEY, key, strict=True))})
        return prepared(self._variant, replace(self._launch, params=(own, *rest)), self._device)


@dataclass(frozen=True)
class Combine(Variant[Attention]):
    """Split-KV: one result from the partial results of parts of the keys, weighted by their sums of exponentials.

    Attributes:
        lanes, teams: threads that share the features, and the parts, of a row.
    """

    lanes: int
    teams: int

    name = "combine"
    kernel = Kernel("nn/attention/combine.cu", name="attention_combine")

    @classmethod
    def of(cls, value: int, limits: Properties) -> Combine:
        """That of rows of so many features."""
        return cls(1, 1) if cost.is_host(limits) else cls(min(128, max(32, power_of_two(value))), 4)

    def combined(self, problem: Attention, parts: int) -> Launch:
        """A block for each row."""
        made, (batch, heads, length, value) = problem.results[0], problem.results[0].shape
        rows, itemsize = batch * heads * length, made.dtype.itemsize
        constants = {
            "elem": made.dtype,
            "half": problem.half,
            "index": index_type(parts * rows * value, made.size),
            "value_size": value,
        }
        steps = dict(zip(("batch", "head", "row"), (step // itemsize for step in made.strides), strict=False))
        results = _RESULTS(**steps, parts=parts, heads=heads, queries=length)
        return Launch((rows, 1, 1), self.lanes * self.teams, constants=constants, params=(results,))


#: Bytes that a multiprocessor must have asked for to be given memory's full rate.
_IN_FLIGHT = 48 * 1024
#: What a wave of blocks takes, in the time in which a multiprocessor reads a tile.
_WAVE = 1.0
#: What each part takes besides, in that time.
_PART = 0.05
#: What another launch takes, in that time.
_LAUNCH = 2.0
#: Blocks that a multiprocessor holds at most, as their registers allow.
_RESIDENT = 8
#: Registers of a multiprocessor.
REGISTERS = 2**16


def residents(limits: Properties, shared: int) -> int:
    """Blocks of so many bytes of shared memory that a multiprocessor holds."""
    return max(1, min(_RESIDENT, limits.max_shared_memory_per_block // (shared + 1024)))


def parts_for(limits: Properties, blocks: int, tiles: int, in_flight: int, resident: int) -> int:
    """Into how many parts to split the keys of each block (flash-decoding), so that memory is read at its full rate.

    Args:
        limits: of the device.
        blocks: those of the launch if keys are not split.
        tiles: those of a block's keys.
        in_flight: bytes of keys and values that a block has asked for.
        resident: blocks that a multiprocessor holds.
    """
    if cost.is_host(limits):
        return 1

    def time(parts: int) -> float:
        busy = divide_up(blocks * parts, limits.multiprocessors)
        rate = min(1.0, min(busy, resident) * in_flight / _IN_FLIGHT)
        waves = divide_up(busy, resident)
        read = busy * divide_up(tiles, parts) / rate + waves * _WAVE
        return read + (parts * _PART + _LAUNCH if parts > 1 else 0)

    most = max(1, limits.multiprocessors * resident // blocks)
    return min(range(1, min(tiles, most) + 1), key=time)


class Forward(Tiled):
    """What variants share that make the result and the statistics of its rows."""

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The launch; no block has the rows that belong to no packed sequence."""
        launched, results = Launched(self, problem, self.launch(problem, limits)), problem.results
        packed = problem.options.packed

        def compute(call: Call) -> list[Array]:
            with on(problem.device):
                if packed:
                    of, statistics = results
                    made = [zeroed(of), full(statistics.shape, -math.inf, statistics.dtype, problem.device)]
                else:
                    made = new(results)
                launched(call, (), made)
            return made

        return compute


@dataclass(frozen=True, kw_only=True)
class Splitting(Forward):
    """What variants share whose blocks may share the keys of few rows; a launch more combines their partial results.

    Attributes:
        parts: blocks that share the keys of a tile of rows.
    """

    parts: int = 1

    def resident(self, problem: Attention, limits: Properties) -> int:
        """Blocks that a multiprocessor holds."""
        return residents(limits, self.shared(problem))

    def in_flight(self, problem: Attention) -> int:
        """Bytes of keys and values that a block has asked for."""
        return self.shared(problem) // 2

    def splits(self, problem: Attention) -> bool:
        """Whether keys may be split: of one tile of rows."""
        return not problem.options.packed and problem.rows <= self.tile_m

    def in_parts(self, problem: Attention, limits: Properties) -> Self:
        """The variant with as many parts as read the keys soonest."""
        if not self.splits(problem):
            return self
        tiles, in_flight = divide_up(problem.k.shape[2], self.tile_n), self.in_flight(problem)
        parts = parts_for(limits, self.blocks_of(problem), tiles, in_flight, self.resident(problem, limits))
        return replace(self, parts=parts)

    def partial(self, problem: Attention) -> tuple[Layout, ...]:
        """The layouts of the partial results, and of their statistics."""
        shape = (self.parts * problem.q.shape[0], *problem.q.shape[1:3])
        return tuple(fresh_layout(problem.device, problem.acc, (*shape, n)) for n in (problem.head.value, 2))

    def launch(self, problem: Attention, limits: Properties) -> Launch:
        """A block for each tile of each head of keys, or each part of its keys."""
        if self.parts == 1:
            return super().launch(problem, limits)
        made = self.laid_out(problem, {"o": self.partial(problem)[0]})
        constants = {**made.constants, "split": True}
        return replace(made, grid=(made.grid[0], self.parts, 1), constants=constants)

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The launch, and with several parts that which combines them: makes the result and its statistics."""
        if self.parts == 1:
            return super().plan(problem, limits)
        launched, partial = Launched(self, problem, self.launch(problem, limits)), self.partial(problem)
        combine, results = Combine.of(problem.head.value, limits), problem.results
        combined = prepared(combine, combine.combined(problem, self.parts), problem.device)

        def compute(call: Call) -> list[Array]:
            with on(problem.device):
                made, parts = new(results), new(partial)
                launched(call, (), parts)
                combined((*parts, *made))
            return made

        return compute
