"""Products by the device's library, alone or with a bias, an added matrix and a ReLU in the same call: variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..device import kernels_only
from ..device.cuda import cublas_lt
from ..device.interface import Prepared, Properties
from ..elementwise.function import astype, evaluate
from ..elementwise.graph import Node, cast, input_node
from ..elementwise.program import Program
from ..elementwise.table import add, relu
from ..kernel.plan import Plan, on
from ..kernel.sizes import divide_up
from ..kernel.strides import broadcast_shapes
from ..launch import cost
from ..launch.variant import Variant
from ..shape.joins import concat
from ..shape.views import broadcast_to, reshape, swapaxes
from .blas import HostPlan, LibraryPlan, Matrix
from .problem import MOST_MATRICES, Factor, Gemm, Product


class Ending(NamedTuple):
    """What follows a product.

    Attributes:
        added: what is added to it, in the order of the program's operands: "row", which is added to each of its rows,
            or "matrix".
        relu: whether a ReLU follows.
    """

    added: tuple[str, ...]
    relu: bool


def ending_of(prog: Program, gemm: Gemm, operands: Sequence[Layout]) -> Ending | None:
    """What follows a product in a program, whose first input it is; None if the library cannot do that.

    Args:
        prog: the program, of the product before it is rounded and of ``operands``.
        gemm: the product.
        operands: none, a bias, an array of the product's shape, or both.
    """
    elem = prog.outputs[0].dtype
    acc = dtypes.info(elem).acc
    last = _uncast(prog.outputs[0], elem, acc)
    ends = last.row is relu
    inputs = [input_node(0, prog.inputs[0]), *(input_node(k, elem) for k in range(1, len(operands) + 1))]
    terms = _terms(_uncast(last.args[0], elem, acc) if ends else last, len(inputs))
    wide = {cast(own, acc): own for own in inputs}
    if (
        len(terms) != len(inputs)
        or {wide.get(one, one) for one in terms} != set(inputs)
        or not (operands or ends)
    ):
        return None
    matrix = (gemm.m * gemm.n if gemm.batches > 1 else 0, gemm.n, 1)
    names: dict[tuple[int, ...], str] = {(0, 0, 1): "row"}
    if gemm.n * elem.itemsize % cublas_lt.ALIGNMENT == 0:  # else the product is rounded before it is added
        names[matrix] = "matrix"
    added = [
        names.get(steps, "") if one.aligned else ""
        for steps, one in zip(gemm.operands, operands, strict=True)
    ]
    return Ending(tuple(added), ends) if "" not in added and len({*added}) == len(added) else None


def _terms(node: Node, most: int) -> list[Node]:
    """What a sum is the sum of; the value itself if it is none. More than ``most`` may be sums still."""
    terms = [node]
    while len(terms) <= most and any(one.row is add for one in terms):
        terms = [part for one in terms for part in (one.args if one.row is add else (one,))]
    return terms


def _uncast(node: Node, elem: dtypes.DType, acc: dtypes.DType) -> Node:
    """The value before it is rounded to the dtype of the result; a ReLU of it has the same result."""
    while node.kind == "cast" and node.dtype in (elem, acc) and node.args[0].dtype in (elem, acc):
        node = node.args[0]
    return node


class EpiloguePlan(Plan):
    """A product and its epilogue by one call of the library, for arrays of given layouts.

    Attributes:
        backwards: what a tape records of a call, by which inputs are tracked.
    """

    __slots__ = ("_value", "backwards")
    separate = False

    def __init__(self, ending: Ending, out: Layout, launch: Prepared) -> None:
        super().__init__(out.device, (out,), launch)
        self.backwards: dict[tuple[bool, ...], Any] = {}
        value = " + ".join(["A @ B", *({"row": "bias", "matrix": "C"}[one] for one in ending.added)])
        self._value = f"relu({value})" if ending.relu else value

    @property
    def source(self) -> str:
        """What stands for the text of a kernel."""
        return f"// One call of cuBLASLt: D = {self._value}"

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Array:
        """Multiply and return the result, a new array; there are no numbers."""
        return self(*arrays)


def _steps(factor: Factor) -> tuple[int, int]:
    """The steps of a factor along its own axis and along the depth."""
    return (factor.row, 1) if factor.by_depth else (1, factor.row)


#: The share of the CUDA cores' peak that a library reaches: measured on an H200.
EFFICIENCY = 0.76
#: The share of the tensor cores' peak, by the bytes of an element: measured on an H200.
TENSOR_CORE_EFFICIENCY = {2: 0.9, 4: 0.81}
#: The share of the bandwidth that its stores reach: measured on an H200.
WRITING = 0.74
#: Seconds before it multiplies, beyond those of any launch: measured on an H200.
LATENCY = 1.1e-6
#: Seconds, times the root of the bytes along the depth: as many blocks split it as is fastest, and add up. On an H200.
SPLITTING = 3.1e-8
#: The share of the bandwidth that the writes of a separate epilogue reach: measured on an H200.
SEPARATE = 0.46
#: Where rows are misaligned: rows and columns of a library's tiles, and the seconds in which a multiprocessor adds
#: :data:`MISALIGNED_DEPTH` products to all elements of one. Measured on an H200.
MISALIGNED_TILES, MISALIGNED_DEPTH = ((32, 3.6e-7), (128, 1.16e-6)), 32
#: The rate of the host's library beside plain C++, and how many times as fast one thread of it is whose kernels have
#: vectors of 64 bytes; of OpenBLAS these have. Each measured on an AMD EPYC. Where it has several threads, those that
#: wait for work keep the cores from cukern's own.
BLAS_RATE, BLAS_VECTORS = 8, 1.85
_BLAS_OF_VECTORS = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))


#: The depth from which cuBLAS reads matrices of a batch with a vector each, contiguous along the depth, at full speed,
#: and the share of the bandwidth that is, by bytes of an element; and twice the bytes of a row from which it does so of
#: others: measured on an H200.
VECTOR_DEPTH, VECTORS, VECTOR_BYTES = 256, {2: 0.6, 4: 0.85, 8: 0.9, 16: 0.9}, 2048


@cache
def _blas_has_vectors() -> bool:
    """Whether NumPy's products are those of an OpenBLAS that has chosen kernels with vectors of 64 bytes."""
    from threadpoolctl import threadpool_info  # takes as long as a small product's first call

    return not _BLAS_OF_VECTORS.isdisjoint(one.get("architecture") for one in threadpool_info())


def library_seconds(problem: Product, limits: Properties, others: int = 0) -> float:
    """The time of a library's product: that of its operations at a share of the peak, and of its bytes.

    Args:
        problem: the product.
        limits: of the device.
        others: bytes that it reads besides the factors.
    """
    batches, m, n, k = problem.sizes
    size = problem.elem.itemsize
    read, written = problem.a.nbytes + problem.b.nbytes + others, batches * m * n * size
    moving = cost.moving(read, written, limits, WRITING) / _vectors_share(problem)
    if cost.is_host(limits):
        rate = BLAS_RATE * EFFICIENCY * cost.flops(limits)
        rate *= BLAS_VECTORS if limits.multiprocessors == 1 and _blas_has_vectors() else 1
        return max(problem.operations / rate, moving) + cost.launch(limits)
    tensor_cores = problem.by_tensor_cores
    share = TENSOR_CORE_EFFICIENCY[size] * cost.TENSOR_CORES[size] if tensor_cores else EFFICIENCY
    rate = share * cost.flops(limits)
    begins = cost.launch(limits) + LATENCY + SPLITTING * math.sqrt(k * size)
    multiplying = problem.operations / rate
    if problem.misaligned:
        multiplying = divide_up(k, MISALIGNED_DEPTH) * min(
            seconds * cost.waves(batches * divide_up(m, tile) * divide_up(n, tile), limits)
            for tile, seconds in MISALIGNED_TILES
        )
    return begins + math.hypot(multiplying, moving)


def is_along_rows(problem: Product) -> bool:
    """Whether the matrices, of a product with vectors, are contiguous along the axis that is summed over."""
    matrix = problem.a if problem.sizes[2] == 1 else problem.right
    return matrix.strides[-1 if problem.sizes[2] == 1 else -2] == matrix.dtype.itemsize


def _vectors_share(problem: Product) -> float:
    """The share of the bandwidth that the library reaches with a vector for each of several matrices; else 1."""
    batches, m, n, k = problem.sizes
    if problem.device.addressable or batches == 1 or 1 not in (m, n):
        return 1
    if is_along_rows(problem):
        return min(1, k / VECTOR_DEPTH) * VECTORS.get(problem.elem.itemsize, 1)
    return min(1, 0.5 + max(m, n) * problem.elem.itemsize / VECTOR_BYTES)


@dataclass(frozen=True)
class LibraryEpilogue(Variant[Product]):
    """cuBLASLt's product with a bias, an added matrix and a ReLU in the same call."""

    name = "cuBLASLt with epilogue"
    needs = (8, 0)
    of_library = True

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For float32, and 16-bit floats whose rows begin at multiples of 16 bytes."""
        ending = _ending(problem)
        if problem.elem.itemsize > 4 or problem.saves or problem.rows is not None or ending is None:
            return "for one result, and what follows a bias, a matrix and a ReLU"
        return "" if _epilogue_plan(problem, ending) else "cuBLASLt does not take it"

    def cost(self, problem: Product, limits: Properties) -> float:
        """The library's time, with that of the matrix."""
        others = sum(one.nbytes for one in problem.operands)
        return library_seconds(problem, limits, others)

    def plan(self, problem: Product, limits: Properties) -> EpiloguePlan:
        """The call."""
        ending = _ending(problem)
        plan = ending and _epilogue_plan(problem, ending)
        assert plan is not None
        return plan


def _ending(problem: Product) -> Ending | None:
    gemm = problem.gemm
    if gemm is None or problem.epilogue is None:
        return None
    return ending_of(problem.epilogue, gemm, problem.operands)


def _epilogue_plan(problem: Product, ending: Ending) -> EpiloguePlan | None:
    """The call of the library; None if it cannot compute the product."""
    gemm, out = problem.gemm, problem.results[0]
    assert gemm is not None
    size = out.dtype.itemsize
    sizes = ((gemm.m, gemm.k), (gemm.k, gemm.n), (gemm.m, gemm.n))
    steps = (_steps(gemm.a), _steps(gemm.b)[::-1], (gemm.n, 1))
    matrices = [
        Matrix(out.dtype, shape, (size * row, size * column))
        for shape, (row, column) in zip(sizes, steps, strict=True)
    ]
    a, b, d = matrices
    strides = (gemm.a.batch, gemm.b.batch, gemm.m * gemm.n)
    with on(out.device):
        launch = cublas_lt.prepare(
            out.device.xp, a, b, d, gemm.batches, strides, ending.added, ending.relu, problem.tf32
        )
    return None if launch is None else EpiloguePlan(ending, out, launch)


class Separate:
    """A product, by the library or by a kernel, then its epilogue by an elementwise kernel; rows are not reduced.

    A caller that gets it computes, and records, the two as separate operations.
    """

    separate = True

    def __init__(self, problem: Product, product: Callable[[], Callable[..., Array]]) -> None:
        self._problem, self._make = problem, product
        self._product: Callable[..., Array] | None = None

    def __call__(self, a: Array, b: Array, *operands: Array) -> Array:
        """The result, a new array."""
        if self._product is None:
            self._product = self._make()
        assert self._problem.epilogue is not None
        product = astype(self._product(a, b), self._problem.epilogue.inputs[0])
        return evaluate(self._problem.epilogue, (product, *operands))[0]


def epilogue_seconds(problem: Product, limits: Properties) -> float:
    """The time of a separate epilogue, by the bytes that it reads and writes; none if nothing follows."""
    if problem.epilogue is None:
        return 0.0
    product = math.prod(problem.sizes[:3]) * problem.elem.itemsize
    read, share = sum(one.nbytes for one in problem.operands), 1 if cost.is_host(limits) else SEPARATE
    written = problem.results[-1].nbytes
    return (product + read + written / share) / cost.bandwidth(limits) + cost.launch(limits)


def _library_plan(problem: Product) -> Plan:
    """The product alone."""
    kind = HostPlan if problem.device.addressable else LibraryPlan
    return kind(problem.a, problem.right)


@dataclass(frozen=True)
class Library(Variant[Product]):
    """The product by cuBLAS, cuBLASLt or the host's BLAS; an epilogue by an elementwise kernel."""

    name = "library"
    of_library = True

    def cost(self, problem: Product, limits: Properties) -> float:
        """The library's time, and that of the bytes that the second kernel reads and writes."""
        return library_seconds(problem, limits) + epilogue_seconds(problem, limits)

    def plan(self, problem: Product, limits: Properties) -> Callable[..., Array]:
        """The product alone, or that it is one computation and what follows it another."""
        return (
            _library_plan(problem)
            if problem.epilogue is None
            else Separate(problem, partial(_library_plan, problem))
        )


@dataclass(frozen=True)
class InSteps(Variant[Product]):
    """The product of copies, for factors that no kernel reads as they lie, and a separate epilogue."""

    name = "in steps"

    #: The share of the peak that copies leave at least: it is for what no other kernel takes.
    efficiency: ClassVar[float] = 0.05

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For kernels only, and what they do not compute in one launch."""
        if not kernels_only.active():
            return "the library takes fewer"
        if problem.epilogue is None and problem.strided is not None:
            return "one launch reads the factors as they lie"
        return ""

    def cost(self, problem: Product, limits: Properties) -> float:
        """More than that of any other."""
        rate = self.efficiency * cost.flops(limits)
        return problem.operations / rate + problem.nbytes / cost.bandwidth(limits) + 2 * cost.launch(limits)

    def plan(self, problem: Product, limits: Properties) -> Callable[..., Array]:
        """The product of copies, or that it is one computation and what follows it another."""
        if problem.epilogue is None:
            return partial(_copied, problem.transposed)
        return Separate(problem, lambda: partial(_multiplied, problem.transposed))


def _multiplied(transposed: bool, a: Array, b: Array) -> Array:
    """The product of two arrays by itself, not recorded."""
    with tape.stop_recording():
        result: Array = FUNCTIONS["matmul"](a, swapaxes(b, -1, -2) if transposed else b)
    return result


def _copied(transposed: bool, a: Array, b: Array) -> Array:
    """The product of two arrays whose batch is neither of one stride nor of few matrices."""
    with tape.stop_recording():
        b = swapaxes(b, -1, -2) if transposed else b
        batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
        left, right = (
            reshape(broadcast_to(x, (*batch, *x.shape[-2:])), (math.prod(batch), *x.shape[-2:]))
            for x in (a, b)
        )
        parts = range(0, len(left), MOST_MATRICES)
        products = [FUNCTIONS["matmul"](*(x[i : i + MOST_MATRICES] for x in (left, right))) for i in parts]
        return reshape(concat(products), (*batch, a.shape[-2], b.shape[-1]))
