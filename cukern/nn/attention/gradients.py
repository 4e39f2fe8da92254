"""The variants of attention's gradients: the backward passes of FlashAttention-2 and 3, which make weights again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.plan import new, on, zeroed
from ...kernel.sizes import divide_up
from ...launch.variant import Launch, Plan, Variant, prepared
from ...shape.known_views import items
from .problem import Attention, Call
from .scores import curved
from .simt import Simt
from .staging import staging
from .tensor_cores import Mma
from .variants import Launched, Tiled
from .warpgroups import Fed, whole_lines


class Gradient(Tiled):
    """What variants of the gradients share, whose kernels make the weights again from the statistics of the rows."""

    #: The gradients that the kernel may make, in the order of its parameters.
    makes: ClassVar[tuple[str, ...]] = ("dq",)
    #: Whether each is made by a launch of its own, as registers hold the sums of one.
    apart: bool = False

    def launch(self, problem: Attention, limits: Properties) -> Launch:
        """A block for each tile of each head."""
        return self.laid_out(problem, {n: one for n, one in problem.made.items() if n in self.makes})

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The launch, or one for each gradient: makes those that are wanted."""
        results, packed, layouts = problem.results, problem.options.packed, problem.made
        together = [(name,) for name in layouts] if self.apart else [tuple(layouts)]
        runs = [
            (names, Launched(self, problem, self.laid_out(problem, {one: layouts[one] for one in names})))
            for names in together
        ]

        def compute(call: Call, *given: Array) -> list[Array]:
            with on(problem.device):
                made = [zeroed(one) for one in results] if packed else new(results)
                found = dict(zip(layouts, made, strict=True))
                for names, run in runs:
                    run(call, given, [found[one] if one in names else None for one in self.makes])
            return made

        return compute


class QueriesPortable(Gradient, Simt):
    """The gradient of q by plain arithmetic."""

    kernel = Kernel("nn/attention/backward_queries.cu", name="attention_backward_queries")


class KeysPortable(Gradient, Simt):
    """The gradients of k and v by plain arithmetic."""

    kernel = Kernel("nn/attention/backward_keys.cu", name="attention_backward_keys")
    of_keys, makes = True, ("dk", "dv")


class ArraysPortable(Gradient, Simt):
    """The gradient of an array of the score by plain arithmetic: a sum over the axes along which it is broadcast."""

    kernel = Kernel("nn/attention/backward_arrays.cu", name="attention_backward_arrays")
    makes = ()

    def blocks_of(self, problem: Attention) -> int:
        """A block for each tile of rows and of keys of the batches and heads that it has."""
        batch, heads, length, _ = problem.scores
        kept = (batch if problem.kept[0] else 1) * (heads if problem.kept[1] else 1)
        return self.tiles(problem) * divide_up(length, self.tile_m) * kept

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The launch of partial sums, by tiles along the axes that it does not have, which are added up."""
        tiles = (problem.scores[0], problem.scores[1], self.tile_m, self.tile_n)
        shape = tuple(
            n if keep else divide_up(n, tile)
            for n, tile, keep in zip(problem.scores, tiles, problem.kept, strict=True)
        )
        one, sums = problem.results[0], fresh_layout(problem.device, problem.acc, shape)
        launched = Launched(self, problem, self.launch(problem, limits))
        axes = tuple(axis for axis, keep in enumerate(problem.kept) if not keep)

        def compute(call: Call, *given: Array) -> list[Array]:
            with on(problem.device):
                made = new((sums,))
                launched(call, given, made)
            total = ops.sum(made[0], axis=axes, keepdims=True) if axes else made[0]
            return [ops.reshape(total, one.shape).astype(one.dtype)]

        return compute


@dataclass(frozen=True)
class GradientMma(Gradient, Mma):
    """FlashAttention-2's backward pass on tensor cores by mma."""

    apart: bool = False

    def shared(self, problem: Attention) -> int:
        return (self.tile_m + self.tile_n) * 2 * sum(self.widths(problem)) + 12 * self.tile_m


class QueriesTensorCores(GradientMma):
    """The gradient of q on tensor cores."""

    kernel = Kernel("nn/attention/backward_queries_mma.cu", name="attention_backward_queries")
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 128, "tile_n": 64},
        128: {"tile_m": 64, "tile_n": 32},
        256: {"tile_m": 64, "tile_n": 16},
    }


class KeysTensorCores(GradientMma):
    """The gradients of k and v on tensor cores."""

    kernel = Kernel("nn/attention/backward_keys_mma.cu", name="attention_backward_keys")
    of_keys, makes = True, ("dk", "dv")
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 64, "tile_n": 128},
        128: {"tile_m": 32, "tile_n": 64},
        256: {"tile_m": 32, "tile_n": 64, "apart": True},
    }


@dataclass(frozen=True)
class GradientFed(Gradient, Fed):
    """FlashAttention-3's backward pass; tiles were measured on an H200."""

    apart: bool = False


class QueriesWarpgroups(GradientFed):
    """The gradient of q by warpgroups."""

    kernel = Kernel("nn/attention/backward_queries_tma.cu", name="attention_backward_queries")
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 128, "tile_n": 128, "stages": 2},
        128: {"tile_m": 128, "tile_n": 96, "stages": 2},
        256: {"tile_m": 128, "tile_n": 48, "stages": 2},
    }

    def shared(self, problem: Attention) -> int:
        both = 2 * sum(map(whole_lines, problem.head))
        return (self.tile_m + self.stages * self.tile_n) * both + 1024 + self.ahead_size * self.ahead_stages


class KeysWarpgroups(GradientFed):
    """The gradients of k and v by warpgroups."""

    kernel = Kernel("nn/attention/backward_keys_tma.cu", name="attention_backward_keys")
    of_keys, makes = True, ("dk", "dv")
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 128, "tile_n": 128, "stages": 2},
        128: {"tile_m": 80, "tile_n": 128, "stages": 2},
        256: {"tile_m": 48, "tile_n": 128, "stages": 2, "apart": True},
    }

    def shared(self, problem: Attention) -> int:
        both = 2 * sum(map(whole_lines, problem.head))
        stage = self.tile_m * (both + 12) + 8
        return self.tile_n * both + self.stages * stage + 1024 + self.ahead_size * self.ahead_stages


class Together(KeysWarpgroups):
    """The gradients of q, k and v by one kernel of warpgroups, whose blocks add to that of q."""

    kernel = Kernel("nn/attention/backward_keys_tma.cu", name="attention_backward")
    name = "together"
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 128, "tile_n": 128, "stages": 2},
        128: {"tile_m": 64, "tile_n": 128, "stages": 2, "by_turns": True},
    }

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """Where the gradients need not be the same in every run."""
        options = problem.options
        if options.deterministic or options.packed or not all(problem.wanted):
            return "for all gradients, of sequences that are not packed, with sums in any order"
        return super().fits(problem, limits)

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """See :class:`.Fed`; by turns where that was measured to be faster."""
        of = problem.options.program
        for one in super().configs(problem, limits):
            bent = of and (curved(of) or (one.ahead_size > 0 and staging(problem).tiled is not None))
            yield replace(one, by_turns=True) if bent else one

    def shared(self, problem: Attention) -> int:
        return super().shared(problem) + 4 * self.tile_m * (self.tile_n + whole_lines(problem.head.size))

    def sums(self, problem: Attention) -> tuple[int, ...]:
        """The shape of the sums for the gradient of q: of whole tiles and lines."""
        batch, heads, length, size = problem.q.shape
        return batch, heads, divide_up(length, self.tile_m), self.tile_m, whole_lines(size)

    def span(self, problem: Attention) -> int:
        """Elements of the sums."""
        return math.prod(self.sums(problem))

    def launch(self, problem: Attention, limits: Properties) -> Launch:
        made = super().launch(problem, limits)
        return replace(made, constants={**made.constants, "makes_q": True})

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The launch, and one that rounds the sums for q."""
        results, shape, dq = problem.results, self.sums(problem), problem.made["dq"]
        launched = Launched(self, problem, self.launch(problem, limits))
        rounded = _Rounded(self.tile_m, shape[-1])
        run = prepared(rounded, rounded.of(dq, math.prod(shape)), problem.device)
        of = fresh_layout(problem.device, dtypes.float32, shape)

        def compute(call: Call, *given: Array) -> list[Array]:
            with on(problem.device):
                made = new(results)
                dq, dk, dv = items(made[0]) if problem.step else made
                sums = zeroed(of)
                launched(call, given, (dk, dv, sums))
                run((dq, sums))
            return [dq, dk, dv]

        return compute


@dataclass(frozen=True)
class _Rounded(Variant[Attention]):
    """The gradient of q in the dtype of q, from its sums in float32."""

    tile_m: int
    lines: int

    name = "rounded"
    kernel = Kernel("nn/attention/backward_rounded.cu", name="attention_backward_rounded")
    block: ClassVar[int] = 256

    def of(self, made: Layout, sums: int) -> Launch:
        """The launch that makes a gradient of this layout from so many sums."""
        _, heads, length, features = made.shape
        steps = [step // made.dtype.itemsize for step in made.strides[:3]]
        tail = (sums // 8, *steps, heads, length, features)
        return Launch((divide_up(sums // 8, self.block), 1, 1), self.block, 0, {"elem": made.dtype}, tail)
