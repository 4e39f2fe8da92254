"""Products that the GPU's library ends with a bias and a ReLU: which programs, which form, and the library's values."""

from __future__ import annotations

import threading
import types
from typing import Any

import numpy as np
import pytest
from nn_support import close, sized
from test_tensor_cores import bias_and_relu, random

import cukern as ck
from cukern import dtypes
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import Program, program
from cukern.launch.family import STAND_IN
from cukern.linear import library
from cukern.linear.families import PRODUCT
from cukern.linear.library import Ending, EpiloguePlan
from cukern.linear.problem import Product, Rows, gemm_of
from cukern.reduction.rows import sum as row_sum
from cukern.testing import assert_close


def of_product(expression: Any, *operands: str) -> Program:
    """A program of a product that is rounded to bfloat16 after the expression."""
    given = [Expr(input_node(0, dtypes.float32))]
    given += [Expr(input_node(i, dtypes.as_dtype(one))) for i, one in enumerate(operands, 1)]
    made = expression(*given).astype("bfloat16")
    return program("ended", (made.node,), [one.dtype for one in given])


ROW, BOTH = ("bfloat16",), Ending(("row",), True)
PROGRAMS: dict[str, tuple[Any, tuple[str, ...], tuple[int, ...], Ending | None]] = {
    "bias and relu": (lambda x, b: ck.relu(x + b), ROW, (24,), BOTH),
    "relu of the rounded": (lambda x, b: ck.relu((b + x).astype("bfloat16")), ROW, (1, 24), BOTH),
    "bias": (lambda x, b: b + x, ROW, (24,), Ending(("row",), False)),
    "relu": (ck.relu, (), (), Ending((), True)),
    "nothing": (lambda x: x, (), (), None),
    "bias of the rounded": (lambda x, b: x.astype("bfloat16") + b, ROW, (24,), None),
    "a column": (lambda x, b: x + b, ROW, (8, 1), None),
    "a matrix": (lambda x, b: x + b, ROW, (8, 24), Ending(("matrix",), False)),
    "a matrix and its relu": (lambda x, b: ck.relu(b + x), ROW, (8, 24), Ending(("matrix",), True)),
    "another dtype": (lambda x, b: x + b, ("float32",), (24,), None),
    "twice": (lambda x, b: x + x, ROW, (24,), None),
    "the bias alone": (lambda x, b: b + b, ROW, (24,), None),
    "scaled": (lambda x, b: x * 2 + b, ROW, (24,), None),
    "gelu": (lambda x, b: ck.gelu(x + b), ROW, (24,), None),
    "two rows": (lambda x, b, c: x + b + c, ROW * 2, (24,), None),
    "two": (lambda x, b, c: ck.relu(x + b) + c, ROW * 2, (24,), None),
}


@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)
def test_what_the_library_can_do(case: Any) -> None:
    expression, operands, shape, expected = case
    with ck.device("host"):
        a, b = (ck.zeros(size, "bfloat16")._planned() for size in ((8, 16), (16, 24)))
        others = [ck.zeros(shape, dtype)._planned() for dtype in operands]
    gemm = gemm_of(a, b, others)
    assert gemm is not None
    assert library.ending_of(of_product(expression, *operands), gemm, others) == expected


def test_a_bias_and_a_matrix_in_either_order() -> None:
    with ck.device("host"):
        a, b, row, matrix = (
            ck.zeros(size, "bfloat16")._planned() for size in ((8, 16), (16, 24), (24,), (8, 24))
        )
    for others, added in (((row, matrix), ("row", "matrix")), ((matrix, row), ("matrix", "row"))):
        gemm = gemm_of(a, b, others)
        assert gemm is not None
        for expression in (lambda x, b, c: b + (x + c), lambda x, b, c: x + b + c):
            made = of_product(expression, "bfloat16", "bfloat16")
            assert library.ending_of(made, gemm, others) == Ending(added, False)


def test_sums_of_sums_are_not_followed_to_all_their_terms() -> None:
    with ck.device("host"):
        a, b, row = (ck.zeros(size, "bfloat16")._planned() for size in ((8, 16), (16, 24), (24,)))

    def doubled(x: Any, c: Any) -> Any:
        x = x + c
        for _ in range(60):
            x = x + x
        return x

    gemm = gemm_of(a, b, [row])
    assert gemm is not None
    assert library.ending_of(of_product(doubled, "bfloat16"), gemm, [row]) is None


def test_a_bias_that_begins_anywhere_is_not_the_librarys() -> None:
    with ck.device("host"):
        a, b, row = (ck.zeros(size, "bfloat16")._planned() for size in ((8, 16), (16, 24), (24,)))
    gemm, made = gemm_of(a, b, [row]), of_product(lambda x, b: x + b, "bfloat16")
    assert gemm is not None
    assert library.ending_of(made, gemm, [types.SimpleNamespace(aligned=False)]) is None  # type: ignore[list-item]


def test_a_matrix_whose_rows_begin_anywhere_is_not_the_librarys() -> None:
    with ck.device("host"):
        a, matrix = (ck.zeros(size, "bfloat16")._planned() for size in ((8, 16), (8, 20)))
        b = ck.zeros((20, 16), "bfloat16").T._planned()
    gemm = gemm_of(a, b, [matrix])
    assert gemm is not None
    assert library.ending_of(of_product(lambda x, c: x + c, "bfloat16"), gemm, [matrix]) is None


def test_one_call_is_predicted_to_be_faster() -> None:
    """Than the library's product and a kernel."""
    with ck.device("host"):
        a, b, row = (ck.zeros(size, "bfloat16")._planned() for size in ((512, 512), (512, 512), (512,)))
    problem = Product(a, b, (row,), bias_and_relu(dtypes.bfloat16))
    assert library.LibraryEpilogue().cost(problem, STAND_IN) < library.Library().cost(problem, STAND_IN)


@pytest.mark.unchecked_only("checked launches leave the library out")
def test_what_is_refused_before_the_library_is_asked() -> None:
    layouts = [ck.zeros(size, "bfloat16", "host")._planned() for size in ((8, 16), (16, 24), (24,))]
    problem = Product(layouts[0], layouts[1], (layouts[2],), bias_and_relu(dtypes.bfloat16))
    sums = Rows(row_sum.row, False, dtypes.bfloat16)
    gelu = of_product(lambda x, b: ck.gelu(x + b), "bfloat16")
    why = "for one result, and what follows a bias, a matrix and a ReLU"
    for other in (
        problem._replace(saves=True),
        problem._replace(rows=sums),
        problem._replace(epilogue=gelu),
        problem._replace(operands=(), epilogue=None),
    ):
        assert library.LibraryEpilogue.fits(other, STAND_IN) == why
    choice = PRODUCT.choices(problem)[1]
    assert (choice.variant, choice.why) == ("cuBLASLt with epilogue", "needs compute capability 8.0")


def on_a_gpu(device: ck.Device) -> None:
    if device.kind != "cuda":
        pytest.skip("needs a GPU")


def asked(a: ck.Array, b: ck.Array, *operands: ck.Array, relu: bool = True) -> Product:
    """The sum of a product and of operands, and its ReLU."""
    elem, acc = a.dtype, dtypes.info(a.dtype).acc
    made = Expr(input_node(0, acc))
    for number in range(1, 1 + len(operands)):
        made = made + Expr(input_node(number, elem))
    made = (ck.relu(made) if relu else made).astype(elem)
    epilogue = program("ended", (made.node,), (acc, *(one.dtype for one in operands)))
    left, right, *others = (one._planned() for one in (a, b, *operands))
    return Product(left, right, tuple(others), epilogue)


def planned(*given: ck.Array) -> EpiloguePlan:
    problem, limits = asked(*given), given[0].device.properties
    assert library.LibraryEpilogue.fits(problem, limits) == ""
    return library.LibraryEpilogue().plan(problem, limits)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_two_computations_are_a_plan_too(device: ck.Device, dtype: str) -> None:
    """By which they are timed beside one launch."""
    a, b, bias = (random(device, dtype, *s) for s in ((3, 40, 64), (64, 48), (48,)))
    plan = library.Library().plan(asked(a, b, bias), device.properties)
    roundings = 2 if dtypes.info(a.dtype).narrow else None
    for _ in range(2):
        close(plan(a, b, bias), sized(lambda x, y, z: np.maximum(x @ y + z, 0), a, b, bias), roundings)


ENDINGS = (
    BOTH,
    Ending(("row",), False),
    Ending((), True),
    Ending(("matrix",), False),
    Ending(("matrix", "row"), False),
    Ending(("row", "matrix"), True),
)
SHAPES = {
    "matrices": ((152, 328), (328, 80)),
    "a batch": ((3, 40, 64), (3, 64, 48)),
    "a shared factor": ((3, 40, 64), (64, 48)),
    "another shared factor": ((40, 64), (3, 64, 48)),
    "one row": ((1, 64), (64, 48)),
    "odd sizes": ((37, 64), (64, 41)),
    "two axes": ((2, 3, 16, 64), (2, 3, 64, 24)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_values(device: ck.Device, dtype: str, shapes: Any) -> None:
    on_a_gpu(device)
    turns = [(False, True)]  # of odd sizes, other rows do not begin at multiples of 16 bytes
    if shapes != SHAPES["odd sizes"]:
        turns += [(False, False), (True, False), (True, True)]
    for swapped in turns:
        a, b = (random(device, dtype, *s, swapped=turn) for s, turn in zip(shapes, swapped, strict=True))
        bias = random(device, dtype, b.shape[-1])
        bias._planned()  # as a plan takes it
        left, right, row = (one.numpy().astype(float) for one in (a, b, bias))
        plain = left @ right
        matrix = random(device, dtype, *plain.shape)
        matrix._planned()
        adds = {"row": (bias, row), "matrix": (matrix, matrix.numpy().astype(float))}
        for ending in ENDINGS if turns[1:] else ENDINGS[:3]:
            operands = (a, b, *(adds[one][0] for one in ending.added))
            problem = asked(*operands, relu=ending.relu)
            plan = library._epilogue_plan(problem, ending)
            assert plan is not None
            made = plan(*operands)
            exact = plain + sum(adds[one][1] for one in ending.added)
            exact = np.maximum(exact, 0) if ending.relu else exact
            size = np.abs(left) @ np.abs(right) + sum(np.abs(adds[one][1]) for one in ending.added)
            assert_close(made, exact, rtol=float(ck.finfo(a.dtype).eps), atol=2e-6 * size)
            assert made.numpy().tobytes() == plan(*operands).numpy().tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_not_a_number_stays(device: ck.Device, dtype: str) -> None:
    """A ReLU of NaN is NaN, in all forms."""
    on_a_gpu(device)
    for m in (16, 128, 512):
        a, b, bias = (
            random(device, dtype, m, 256),
            random(device, dtype, 256, 256),
            random(device, dtype, 256),
        )
        a[3, 5], bias[7], bias[8], bias[9] = np.nan, np.nan, np.inf, -np.inf
        bias._planned()
        got, wanted = planned(a, b, bias)(a, b, bias).numpy(), ck.relu(a @ b + bias).numpy()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
        assert np.isnan(got[3]).all()
        assert np.isnan(got[:, 7]).all()
        np.testing.assert_array_equal(np.isposinf(got), np.isposinf(wanted))
        assert not np.delete(got[:, 9], 3).any()


def test_a_fused_function_and_its_derivative(device: ck.Device) -> None:
    on_a_gpu(device)
    with PRODUCT.only("cuBLASLt with epilogue", "library") as used:
        check_a_fused_function(device)
    assert used[0] == library.LibraryEpilogue()


def check_a_fused_function(device: ck.Device) -> None:
    ended = ck.fuse(lambda x, w, b: ck.relu(x @ w + b))
    arrays = [random(device, "bfloat16", *size) for size in ((96, 72), (72, 136), (136,))]
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = ended(*arrays)
    assert ended.source(*arrays) == "// One call of cuBLASLt: D = relu(A @ B + bias)"
    x, w, b = (one.astype("float64") for one in arrays)
    with ck.Tape() as exact:
        exact.watch(x, w, b)
        wanted = ck.relu(x @ w + b)
    np.testing.assert_allclose(y.astype("float64").numpy(), wanted.numpy(), rtol=0.02, atol=0.05)
    g = random(device, "bfloat16", *y.shape)
    g = ck.where(ck.abs(wanted) < 0.1, 0, g)  # where a rounding may change which side of 0 it is on
    for one, other in zip(
        tape.gradient(y, arrays, g), exact.gradient(wanted, [x, w, b], g.astype("float64")), strict=True
    ):
        top = float(ck.max(ck.abs(other)))
        np.testing.assert_allclose(one.astype("float64").numpy(), other.numpy(), rtol=0.02, atol=0.01 * top)


def test_captured_steps_and_threads(device: ck.Device) -> None:
    """A graph replays the call with the workspace of its own; threads take turns at the bias of a plan."""
    on_a_gpu(device)
    a, b = random(device, "bfloat16", 256, 4096), random(device, "bfloat16", 4096, 256)
    rows = [random(device, "bfloat16", 256) + i for i in range(4)]
    for row in rows:
        row._planned()
    plan = planned(a, b, rows[0])
    wanted = [plan(a, b, row).numpy().tobytes() for row in rows]
    assert len(set(wanted)) == len(rows)
    step = ck.capture(lambda x, row: plan(x, b, row))
    for _ in range(2):
        for row, expected in zip(rows, wanted, strict=True):
            assert step(a, row).numpy().tobytes() == expected
    different: list[int] = []

    def repeat(i: int) -> None:
        with ck.device(device):
            for _ in range(50):
                if plan(a, b, rows[i]).numpy().tobytes() != wanted[i]:
                    different.append(i)

    threads = [threading.Thread(target=repeat, args=(i,)) for i in range(len(rows))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert different == []


def test_the_first_call_of_a_thread(device: ck.Device) -> None:
    """Nothing else has made the device the thread's own: memory for the result is there already."""
    on_a_gpu(device)
    a, b = random(device, "bfloat16", 64, 128), random(device, "bfloat16", 128, 64)
    row = random(device, "bfloat16", 64)
    row._planned()
    plan = planned(a, b, row)
    wanted = plan(a, b, row).numpy().tobytes()
    freed = [plan(a, b, row) for _ in range(4)]
    device.synchronize()
    del freed
    made: list[ck.Array] = []
    thread = threading.Thread(target=lambda: made.append(plan(a, b, row)))
    thread.start()
    thread.join()
    assert [one.numpy().tobytes() for one in made] == [wanted]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_at_any_address(device: ck.Device, dtype: str) -> None:
    """Arrays of one layout, of which some begin at multiples of 16 bytes, and some do not."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(40 * 24 + 8) for _ in range(2)]
    a, b = (ck.asarray(one, dtype=dtype, device=device) for one in values)
    for begin in (0, 1, 8):
        x, w = a[begin : begin + 40 * 24].reshape(40, 24), b[begin : begin + 24 * 40].reshape(24, 40)
        for left, right in ((x, w), (w, x), (x[:, :23], w[:23]), (x[1:, 1:], w[1:, 3:])):
            close(left @ right, sized(np.matmul, left, right))


def test_the_program_of_the_other_tests_is_one_of_the_librarys(device: ck.Device) -> None:
    a, b, bias = (random(device, "bfloat16", *s)._planned() for s in ((8, 16), (16, 24), (24,)))
    gemm = gemm_of(a, b, [bias])
    assert gemm is not None
    assert library.ending_of(bias_and_relu(dtypes.bfloat16), gemm, [bias]) == BOTH
