"""The families of attention and of its gradients, and their launches for the arrays of a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import kernels_only
from ...device.interface import Properties
from ...device.precision import matmul_precision
from ...elementwise.fuse import fuse
from ...launch import cost
from ...launch.family import Family
from ...launch.variant import Plan, Variant
from . import reference
from .gradients import (
    ArraysPortable,
    KeysPortable,
    KeysTensorCores,
    KeysWarpgroups,
    QueriesPortable,
    QueriesTensorCores,
    QueriesWarpgroups,
    Together,
)
from .problem import MOST, Attention, Call, Options, are_packs, dense, joined
from .simt import FewRows, Portable
from .tensor_cores import TensorCores
from .warpgroups import Warpgroups


@dataclass(frozen=True)
class Composed(Variant[Attention]):
    """Products and softmax of blocks of queries: for heads that no kernel holds."""

    name = "composed"

    #: How often scores are read and written, forward and backward.
    passes: ClassVar[tuple[int, int]] = (8, 24)
    #: Launches of the host, forward and backward.
    launches: ClassVar[tuple[int, int]] = (6, 12)

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """Where there is no kernel, and on the host, whose library multiplies faster, where nothing changes scores."""
        options = problem.options
        changed = options.program or options.dropout or options.packed or options.counted
        if cost.is_host(limits) and 0 not in problem.scores and not (changed or kernels_only.active()):
            return ""
        backward = problem._replace(d=problem.matrices[3])
        held = max(problem.head) <= MOST and any(KeysPortable.configs(backward, limits))
        return "kernels hold these heads" if held else ""

    def cost(self, problem: Attention, limits: Properties) -> float:
        """The time of the products, and in which scores are read and written."""
        backward = problem.d is not None
        moved = math.prod(problem.scores) * problem.acc.itemsize * self.passes[backward]
        launches = self.launches[backward] * cost.launch(limits) if cost.is_host(limits) else 0.0
        return problem.least_seconds(limits) + moved / cost.bandwidth(limits) + launches

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """The composition; half types are multiplied as tf32, whose significand has the bits of float16's."""
        compute = (reference.attention if problem.d is None else reference.gradient)(problem)

        def in_tf32(*given: Any) -> list[Array]:
            with matmul_precision("tf32"):
                made: list[Array] = compute(*given)
            return made

        return in_tf32 if problem.half else compute


#: Of the result, and of the statistics of its rows.
ATTENTION: Family[Attention] = Family(
    "attention",
    Portable,
    FewRows,
    TensorCores,
    Warpgroups,
    Composed,
    reference=reference.attention,
    samples=reference.samples,
)
#: Of the gradient of q.
QUERIES: Family[Attention] = Family(
    "gradient of attention queries",
    QueriesPortable,
    QueriesTensorCores,
    QueriesWarpgroups,
    reference=reference.gradient,
    samples=reference.samples_of_gradients((True, False, False)),
)
#: Of the gradients of k and v, or one of them.
KEYS: Family[Attention] = Family(
    "gradient of attention keys",
    KeysPortable,
    KeysTensorCores,
    KeysWarpgroups,
    reference=reference.gradient,
    samples=reference.samples_of_gradients((False, True, True)),
)
#: Of the gradient of an array of the score.
ARRAYS: Family[Attention] = Family(
    "gradient of attention arrays", ArraysPortable, Composed, reference=reference.gradient
)


@dataclass(frozen=True)
class Apart(Variant[Attention]):
    """The gradient of q by one kernel, and those of k and v by another."""

    name = "apart"

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """Where there are kernels of both."""
        lacking = [family.name for family, own in cls.parts(problem) if not family.computes(own)]
        return f"no kernel of the {lacking[0]}" if lacking else ""

    @staticmethod
    def parts(problem: Attention) -> list[tuple[Family[Attention], Attention]]:
        """The problems of the two, as far as they are wanted."""
        q, k, v = problem.wanted
        found = [(QUERIES, (q, False, False)), (KEYS, (False, k, v))]
        return [(family, problem._replace(wanted=own, step=0)) for family, own in found if any(own)]

    def cost(self, problem: Attention, limits: Properties) -> float:
        """That of both."""
        chosen = [[one for one in family.choices(own) if one.chosen] for family, own in self.parts(problem)]
        return sum(one[0].seconds if one else math.inf for one in chosen)

    def plan(self, problem: Attention, limits: Properties) -> Plan:
        """Their plans."""
        plans = [family(own) for family, own in self.parts(problem)]

        def compute(call: Call, *given: Array) -> list[Array]:
            return [one for plan in plans for one in plan(call, *given)]

        return compute


#: Of the gradients of q, k and v.
GRADIENT: Family[Attention] = Family(
    "gradient of attention",
    Apart,
    Together,
    Composed,
    reference=reference.gradient,
    samples=reference.samples_of_gradients((True, True, True)),
)
#: From so many scores on kernels mask them and drop weights in less time than the composed form.
_MANY_SCORES = 2**22


def forward(call: Call) -> tuple[Array, Array]:
    """The result, and for each query the logarithm of the sum of the exponentials of its scores, as two terms."""
    problem = call.problem
    made, statistics = ATTENTION(problem)(call)
    return made, statistics


@fuse(static=("acc",))
def _dot(o: Any, d: Any, acc: dtypes.DType) -> Any:
    return ops.sum(o.astype(acc) * d.astype(acc), axis=-1)


def backward(
    call: Call, made: Array, statistics: Array, cotangent: Array, of_lse: Array | None, wanted: Sequence[bool]
) -> list[Array | None]:
    """The gradients of q, k, v and the score's arrays, or None for those that are not needed.

    Args:
        call: the arrays.
        made, statistics: what :func:`forward` returned for them.
        cotangent, of_lse: of the result and of the logarithms of its rows' sums of exponentials.
        wanted: whether each of them is needed.
    """
    d = dense(cotangent)
    delta: Array = _dot(made, d, statistics.dtype)
    # A score moves its row's logarithm as it moves the row's mean of dot products, by its weight.
    given = (d, statistics, delta if of_lse is None else ops.subtract(delta, of_lse))
    problem, of_d = call.problem, d._layout or d._planned()

    def gradients(family: Family[Attention], own: Attention) -> list[Array]:
        return family(own)(call, *given)

    found: dict[int, Array] = {}
    q, k, v = wanted[:3]
    if q or k or v:
        step = _step(call) if q and k and v else 0
        made_of = gradients(GRADIENT, _of_gradient(problem, of_d, (q, k, v), step))
        found = dict(zip([i for i in range(3) if wanted[i]], made_of, strict=True))
    for i, want in enumerate(wanted[3:]):
        if want:
            (found[3 + i],) = gradients(ARRAYS, problem._replace(d=of_d, of_array=i))
    return [found.get(i) for i in range(len(wanted))]


def expect_backward(call: Call, wanted: Sequence[bool]) -> None:
    """Compile a GPU's gradients of q, k and v ahead of need, for a cotangent that lies in memory as the result does."""
    q, k, v = wanted[:3]
    if not (q or k or v):
        return
    problem = call.problem
    own = _of_gradient(problem, problem.made["o"], (q, k, v), _step(call) if q and k and v else 0)
    call.q.device.backend.ahead(partial(GRADIENT.expect, own), plans_alone=True)


@lru_cache(maxsize=1024)
def _of_gradient(problem: Attention, d: Layout, wanted: tuple[bool, bool, bool], step: int) -> Attention:
    """The problem of the gradients of q, k and v that are wanted."""
    return problem._replace(d=d, wanted=wanted, step=step)


def _step(call: Call) -> int:
    """Bytes from q to k and from k to v if they are parts of one array, as their gradients then are; else 0."""
    q, k, v = call.q, call.k, call.v
    layout = q._planned()
    if layout.on_host or not q._storage is k._storage is v._storage:
        return 0
    step = k._operand - q._operand if layout is k._planned() is v._planned() else 0
    return step if step and v._operand - k._operand == step and joined(layout, step) is not None else 0


@lru_cache(maxsize=1024)
def quickest(matrices: tuple[Layout, ...], causal: bool, more: bool, limits: Properties) -> bool:
    """Whether a kernel was measured to be faster than products and softmax of these matrices, forward and backward.

    Args:
        matrices: q of shape (..., L, E), k of (..., S, E) and v of (..., S, V), of one dtype.
        causal: whether half of the scores count.
        more: whether there is a mask, or dropout.
        limits: of the device.
    """
    q, k, v = matrices
    if not 3 <= q.ndim == k.ndim == v.ndim or not q.size * k.size * v.size or not are_packs(matrices):
        return False
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return False
    q, k, v = (fresh_layout(q.device, q.dtype, (1, 1, *one.shape[-2:])) for one in matrices)
    problem = Attention(q, k, v, Options(1.0))
    if TensorCores.refusal(problem, limits):
        return False
    # The composed form makes all scores; without warpgroups it makes them faster, and masks and drops them too.
    if causal and not more:
        return True
    few = more and not causal and math.prod(matrices[0].shape[:-1]) * k.shape[-2] < _MANY_SCORES
    of_keys = problem._replace(d=problem.made["o"], wanted=(False, True, True))
    return not few and not KeysWarpgroups.refusal(of_keys, limits)
