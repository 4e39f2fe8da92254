"""Elementwise functions, from the table: values, dtypes and exceptions of NumPy, layouts."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dtype_rule import ruled
from elementwise_support import (
    BINARY,
    NUMPY_DTYPES,
    ROWS,
    UNARY,
    accepted,
    check,
    expected,
    operands,
    oracle,
    size,
)
from emptied import elementwise_plans

import cukern as ck
from cukern import namespace
from cukern.array import operators
from cukern.elementwise import plan as launch
from cukern.elementwise.row import Row
from cukern.kernel import strides
from cukern.testing import assert_close


def test_every_public_name_has_a_docstring() -> None:
    for name in namespace.__all__:
        assert getattr(namespace, name).__doc__, f"{name} has no docstring"


def test_rows_are_named_as_their_variables_are() -> None:
    from cukern.elementwise import special, table

    for module in (table, special):
        for name, row in vars(module).items():
            if isinstance(row, Row) and not name.startswith("_"):
                assert row.name == name


def test_operators_of_rows_are_methods() -> None:
    for row in ROWS.values():
        if row.operator:
            assert row.operator in vars(operators.Operators), row.name


#: Rows whose value in another dtype is another number, which no oracle in float64 has; test_special has them.
OF_DTYPE = {"spacing"}


_FLOAT32 = [row for row in ROWS.values() if row.name not in OF_DTYPE]
#: The first row of each kind of operands and of results: alone others differ from one by an expression.
_ALONE = {(type(row), row.operands, row.result, row.types): row for row in reversed(_FLOAT32)}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=() if row in _ALONE.values() else pytest.mark.thorough)
        for row in _FLOAT32
    ],
)
def test_float32_values(device: ck.Device, row: Row) -> None:
    dtype = np.float32 if accepted(row, np.float32) else np.int32
    values = operands(row, dtype)
    arrays = [ck.asarray(v) for v in values]
    got = row.apply(tuple(arrays))
    check(got, expected(row, values), size(row, values))
    for array, value in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(array.numpy(), value, err_msg="an input was written")


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_values_in_every_dtype(device: ck.Device, dtype: Any) -> None:
    """All rows in one kernel a dtype: compiling each alone takes minutes."""
    for arity in (1, 2, 3):
        rows = [row for row in ROWS.values() if len(row.operands) == arity and accepted(row, dtype)]
        rows = [row for row in rows if row.name not in OF_DTYPE]
        values = [operands(row, dtype) for row in rows]
        together = namespace.fuse(
            lambda groups, rows=rows: [row.apply(tuple(g)) for row, g in zip(rows, groups, strict=True)]
        )
        results = together([[ck.asarray(v) for v in group] for group in values])
        for row, group, got in zip(rows, values, results, strict=True):
            try:
                check(got, expected(row, group), size(row, group))
            except AssertionError as error:
                raise AssertionError(f"{row.name}: {error}") from error


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-30,
    1e30,
    7.0,
    -7.0,
]
#: Rows whose oracle is a composition that overflows where the row does not: test_special_values leaves them out.
COMPOSED = {
    "silu",
    "gelu",
    "relu",
    "elu",
    "digamma",
    "gelu_tanh",
    "leaky_relu",
    "erfinv",
    "xlogy",
    "weighted",
    "binary_entropy",
    "hardswish",
}
#: Rows whose oracle is SciPy's; test_special_functions has what is special to them.
SCIPYS = {row.name for row in ROWS.values() if getattr(row.oracle, "scipys", False)}
#: Rows whose infinities follow the Array API where NumPy's differ; test_special has them.
STANDARD = {"floor_divide"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_special_values(device: ck.Device, dtype: Any) -> None:
    rows = [
        row
        for row in ROWS.values()
        if accepted(row, dtype) and row.name not in COMPOSED | SCIPYS | STANDARD | OF_DTYPE | {"clip"}
    ]
    grid = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype).T
    one, two = ck.asarray(grid[0]), ck.asarray(grid[1])
    for arity in (1, 2):
        chosen = [row for row in rows if row.operands in ("x", "xx") and len(row.operands) == arity]
        together = namespace.fuse(lambda x, y, rows=chosen, n=arity: [row.apply((x, y)[:n]) for row in rows])
        with np.errstate(all="ignore"):
            for row, got in zip(chosen, together(one, two), strict=True):
                want = np.asarray(oracle(row)(*grid[:arity]))
                try:
                    tolerance = 1e-5 if dtype is np.float32 else 1e-12
                    if row.name == "direction":  # the parts of a right angle's, of which one is 0
                        want = np.where(abs(want) < tolerance, 0, want)
                    found, want = got.numpy(), want.astype(got.numpy().dtype)
                    if row.name == "nextafter" and (device.kind, dtype) == ("cuda", np.float32):
                        normal = ~(
                            abs(want) < np.finfo(np.float32).tiny
                        )  # a GPU's float32 has no smaller numbers
                        found, want = found[normal], want[normal]
                    atol = {"direction": tolerance, "nextafter": 0.0}.get(row.name)
                    assert_close(found, want, rtol=tolerance, atol=atol)
                except AssertionError as error:
                    raise AssertionError(f"{row.name}: {error}") from error


def test_relu_of_special_values(device: ck.Device) -> None:
    x = ck.asarray(np.array(SPECIAL, np.float32))
    assert_close(namespace.relu(x), np.maximum(np.array(SPECIAL, np.float32), 0))


INTEGER_EDGES = [-128, -127, -3, -2, -1, 0, 1, 2, 3, 126, 127]


def test_integer_edges(device: ck.Device) -> None:
    grid = np.array(list(itertools.product(INTEGER_EDGES, INTEGER_EDGES)), np.int8).T
    x, y = ck.asarray(grid[0]), ck.asarray(grid[1])
    names = [
        "add",
        "subtract",
        "multiply",
        "floor_divide",
        "remainder",
        "bitwise_and",
        "maximum",
        "less",
        "equal",
    ]
    with np.errstate(all="ignore"):
        for name in names:
            assert_close(ROWS[name].apply((x, y)), getattr(np, name)(*grid))
        for name in ("negative", "abs", "sign", "square"):
            assert_close(ROWS[name].apply((x,)), getattr(np, name)(grid[0]))
        shifts = np.abs(grid[1]) % 10
        assert_close(namespace.bitwise_left_shift(x, ck.asarray(shifts)), np.left_shift(grid[0], shifts))
        assert_close(namespace.bitwise_right_shift(x, ck.asarray(shifts)), np.right_shift(grid[0], shifts))
        powers = np.abs(grid[1].astype(int)).astype(np.int8) % 8
        assert_close(namespace.pow(x, ck.asarray(powers)), np.power(grid[0], powers))


def numpy_result(row: Row, *values: Any) -> Any:
    """The dtype of NumPy's result, or the exception it raises."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(oracle(row)(*values)).dtype
    except TypeError:
        return TypeError


def our_result(row: Row, *kinds: Any) -> Any:
    try:
        return row.resolve(kinds)[1]
    except TypeError:
        return TypeError


#: Rows whose oracle is no single NumPy function, and so has no dtype rule of its own.
NO_DTYPE_ORACLE = {name for name, row in ROWS.items() if not isinstance(row.oracle, str)} | {
    "bits",
    "reciprocal",
    "clip",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "row", [r for r in UNARY + BINARY if r.name not in NO_DTYPE_ORACLE], ids=lambda r: r.name
)
def test_dtype_rules_are_numpys_but_for_floats_of_integers(row: Row) -> None:
    for kinds in itertools.product(NUMPY_DTYPES, repeat=len(row.operands)):
        values = [np.ones(2, dtype) for dtype in kinds]
        theirs = ruled(numpy_result(row, *values), *kinds)
        assert our_result(row, *kinds) == _unless_half(row, theirs), [str(k) for k in kinds]
    if len(row.operands) == 2:
        for dtype, scalar in itertools.product(NUMPY_DTYPES, (True, 2, 1.5)):
            ours = our_result(row, dtype, scalar)
            theirs = ruled(numpy_result(row, np.ones(2, dtype), scalar), dtype)
            assert ours == _unless_half(row, theirs), (str(dtype), scalar)


def _unless_half(row: Row, result: Any) -> Any:
    """NumPy's result, or a refusal where the row does not take halves."""
    return TypeError if result == np.float16 and not row.halves else result


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda a: a,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "transposed": lambda a: a.T.copy().T,
    "row": lambda a: a[:1],
    "column": lambda a: a[:, :1],
    "stride-0": lambda a: np.broadcast_to(a[:1, :1], a.shape),
    "one axis": lambda a: a[0],
    "0-d": lambda a: a[0, 0].reshape(()),
    "size 1": lambda a: a[:1, :1],
}


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(device: ck.Device, first: str, second: str) -> None:
    rng = np.random.default_rng(0)
    a = LAYOUTS[first](rng.standard_normal((4, 6)).astype(np.float32))
    b = LAYOUTS[second](rng.standard_normal((4, 6)).astype(np.float32))
    with device.activate():
        x, y = (ck.Array._wrap(device.xp.asarray(one), device) for one in (a, b))
    got = namespace.multiply(x, y)
    assert_close(got, a * b, dtype=np.float32)
    whole = "contiguous", "strided", "reversed", "transposed"
    # A GPU's copy of repeated elements is no longer repeated.
    copied = first == "stride-0" and device.kind != "host"
    kept = (first if first in whole or copied else second) == "transposed"
    assert (got.mT if kept else got).is_contiguous


def test_memory_order_is_kept(device: ck.Device) -> None:
    """That of the first array of the result's shape, in derivatives and fused functions too, and with gaps."""
    order = (0, 3, 1, 2)
    x = ck.permute_dims(ck.asarray(np.random.default_rng(0).standard_normal((2, 5, 4, 3))), order)
    plain, channel = x.contiguous(), ck.ones((3, 1, 1), x.dtype)
    for function in (ck.exp, lambda x: channel * x + 1, ck.fuse(lambda x: ck.tanh(x) * x), lambda x: x > 0):
        got, want = function(x), function(plain)
        assert ck.permute_dims(got, (0, 2, 3, 1)).is_contiguous and want.is_contiguous
        assert_close(got, want.numpy(), dtype=want.dtype)
    assert (plain * x).is_contiguous and not (x * plain).is_contiguous
    for part in (x[..., ::2], x[:, ::-1], x[:, 1:], x[:1], x[:, :, :1], plain[..., 1:], plain[:, :1]):
        got = part + 1
        assert_close(got, part.numpy() + 1, dtype=np.float64)
        assert ck.permute_dims(
            got, (0, 1, 2, 3) if part._storage is plain._storage else (0, 2, 3, 1)
        ).is_contiguous
    repeated = ck.broadcast_to(x[..., :1], x.shape)
    assert (repeated + 1).is_contiguous
    assert ck.exp(x.astype(ck.float32)).strides == (240, 4, 48, 12)
    with ck.Tape() as tape:
        tape.watch(x)
        loss = ck.sum(ck.square(x))
    gradient = tape.gradient(loss, x)
    assert gradient.strides == x.strides
    assert_close(gradient, 2 * x.numpy(), dtype=np.float64)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 1)])
def test_empty(device: ck.Device, shape: tuple[int, ...]) -> None:
    x = ck.zeros(shape)
    assert namespace.exp(x).shape == shape
    assert (x + ck.ones((1,) * len(shape))).shape == shape


@pytest.mark.parametrize("shapes", [((2, 3, 4), (3, 1)), ((5, 1, 2, 1), (3, 1, 7)), ((2, 1), (1, 3), (1, 1))])
def test_broadcasting_of_many_axes(device: ck.Device, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(shape) for shape in shapes]
    total = ck.asarray(values[0])
    want = values[0]
    for value in values[1:]:
        total, want = total + ck.asarray(value), want + value
    assert_close(total, want)


def test_large_arrays_in_pieces(device: ck.Device) -> None:
    """More than one piece along each axis of the launch."""
    a = np.arange(40_000, dtype=np.float32)
    assert_close(ck.asarray(a) + 1, a + 1)
    m = np.arange(3 * 40_000, dtype=np.float32).reshape(3, -1)
    assert_close(ck.asarray(m) * ck.asarray(a), m * a)
    t = np.arange(40_000, dtype=np.float32).reshape(-1, 4)
    assert_close(ck.asarray(t) * ck.asarray(t[0]), t * t[0])


@pytest.mark.parametrize("shape", [(7, 5), (3, 300), (70000,)])
def test_gpu_launch_shapes_on_the_host(
    monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None], shape: tuple[int, ...]
) -> None:
    """The launch shapes that a GPU gets compute the same where the host runs them."""
    gpu = launch.geometry
    empty(*elementwise_plans())
    monkeypatch.setattr(launch, "geometry", lambda style, rows, columns: gpu("simt", rows, columns))
    with ck.device("host"):
        a = np.random.default_rng(0).standard_normal(shape)
        x = ck.asarray(a)
        assert_close(x + 1.0, a + 1.0)
        assert_close(x * x[..., :1], a * a[..., :1])


def test_64_bit_indices(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]
) -> None:
    """The kernels of arrays beyond 2**31 elements, on small ones."""
    empty(*elementwise_plans())
    monkeypatch.setattr(strides, "LARGEST_INDEX", 1)
    a = np.random.default_rng(0).standard_normal((3, 4, 5))
    x = ck.asarray(a)
    assert "long long" in namespace.fuse(lambda x: x + 1).source(x)
    assert_close(x + x[:, :1], a + a[:, :1])
    assert_close(x.T * 2.0, a.T * 2.0)


def test_shapes_that_do_not_broadcast(device: ck.Device) -> None:
    with pytest.raises(ValueError, match=r"add: shapes \(2, 3\), \(2,\) do not broadcast"):
        namespace.add(ck.zeros((2, 3)), ck.zeros(2))


def test_what_is_no_operand_is_refused(device: ck.Device) -> None:
    with pytest.raises(
        TypeError, match="tanh: x: expected an array, a number or nested lists of them, got str"
    ):
        namespace.tanh("x")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        ck.zeros(2) + "12"
    with pytest.raises(TypeError, match="add: y: expected numbers that a dtype of cukern holds, got object"):
        ck.zeros(2) + [1, None]
    with pytest.raises(TypeError, match="bitwise_and: expected integers or bool, got float32"):
        ck.zeros(2) & 1


def test_python_numbers_take_the_arrays_dtype(device: ck.Device) -> None:
    assert (ck.asarray([1.0], dtype="float16") * 0.1).dtype == ck.float16
    half = np.array([3.0], np.float16)
    assert_close(ck.asarray(half) * 0.1, half * 0.1, rtol=0)
    assert (ck.asarray([1], dtype="uint8") + 1).dtype == ck.uint8
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        ck.asarray([1], dtype="uint8") + 300
    assert (ck.asarray([1], dtype="int32") + 0.5).dtype == ck.float32


@pytest.mark.parametrize("number", [300, -1, 2**70])
def test_comparison_with_an_integer_beyond_the_dtype(device: ck.Device, number: int) -> None:
    a = np.array([0, 1, 255], np.uint8)
    x = ck.asarray(a)
    for name in ("less", "greater", "equal", "not_equal", "less_equal", "greater_equal"):
        assert_close(ROWS[name].apply((x, number)), getattr(np, name)(a, number))
        assert_close(ROWS[name].apply((number, x)), getattr(np, name)(number, a))


def test_numpy_arrays_beside_ours(device: ck.Device) -> None:
    a = np.arange(3.0)
    x = ck.asarray(a)
    for got in (a * x, x * a, np.float64(2.0) * x, x * np.float32(2.0)):
        assert isinstance(got, ck.Array)
        assert got.device is device
    assert (ck.asarray([1.0]) * np.float64(2.0)).dtype == ck.float64


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!="]


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators(device: ck.Device, symbol: str) -> None:
    a, b = np.array([1.0, 2.5, -3.0]), np.array([2.0, 2.5, 0.5])
    x, y = ck.asarray(a), ck.asarray(b)
    with np.errstate(all="ignore"):
        for left, right, u, v in ((x, y, a, b), (x, 2.0, a, 2.0), (3.0, y, 3.0, b)):
            assert_close(
                eval(f"p {symbol} q", {"p": left, "q": right}), eval(f"p {symbol} q", {"p": u, "q": v})
            )


@pytest.mark.parametrize("symbol", ["&", "|", "^", "<<", ">>", "+", "-", "*", "//", "%"])
def test_integer_operators_and_in_place(device: ck.Device, symbol: str) -> None:
    a, b = np.array([5, 9, 12]), np.array([3, 1, 2])
    x, y = ck.asarray(a), ck.asarray(b)
    want = eval(f"a {symbol} b", {"a": a, "b": b})
    assert_close(eval(f"x {symbol} y", {"x": x, "y": y}), want)
    names = {"x": x, "y": y}
    exec(f"x {symbol}= y", names)
    assert names["x"] is x
    assert_close(x, want)


@pytest.mark.parametrize("target", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_astype(device: ck.Device, target: Any) -> None:
    for source in (np.float32, np.int16, np.bool_, ml_dtypes.bfloat16, np.float64, np.uint64):
        a = np.array([0, 1, 2, 100, 0.6 if np.dtype(source).kind not in "iub" else 3], source)
        assert_close(namespace.astype(ck.asarray(a), target), a.astype(target), rtol=0, atol=0, dtype=target)


def test_astype_copies_unless_told_not_to(device: ck.Device) -> None:
    x = ck.ones(2)
    assert x.astype("float32") is not x
    assert x.astype("float32", copy=False) is x


def test_remainder_by_the_largest_unsigned_number(device: ck.Device) -> None:
    for dtype in ("uint8", "uint64"):
        a, b = np.array([3, 7], dtype), np.full(2, np.iinfo(dtype).max, dtype)
        assert_close(ck.asarray(a) % ck.asarray(b), a % b)


def test_threads_of_a_gpu_are_numbered_in_64_bits_where_there_are_more_than_32_hold() -> None:
    axes = strides.Axes((300_000_000, 5), ((5, 1), (0, 1)))
    assert not strides.needs_64_bits(axes)
    assert launch._wide(axes, launch.geometry("simt", 300_000_000, 5))


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
@pytest.mark.parametrize("signed", ["int64", "int32"])
def test_comparisons_of_signed_and_unsigned_are_exact(device: ck.Device, name: str, signed: str) -> None:
    """As integers: float64, to which the two promote, holds neither 2**53 + 1 nor 2**64 - 1."""
    limit = int(np.iinfo(signed).max)
    x = [value for value in (-limit - 1, -1, 0, 1, 2**53, 2**53 + 1, limit) if value <= limit]
    y = [0, 1, 2**53, 2**53 + 1, limit, limit + 1, 2**64 - 1]
    exact, compare = getattr(operator, OPERATORS[name]), getattr(ck, name)
    a, b = ck.asarray(np.array(x, signed)), ck.asarray(np.array(y, np.uint64))
    assert compare(a[:, None], b).tolist() == [[exact(p, q) for q in y] for p in x]
    assert compare(b[:, None], a).tolist() == [[exact(p, q) for q in x] for p in y]
    assert ck.fuse(compare)(a[:, None], b).tolist() == [[exact(p, q) for q in y] for p in x]


OPERATORS = {
    **{"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"},
    **{"equal": "eq", "not_equal": "ne"},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_powers_in_long_rows(device: ck.Device, dtype: str) -> None:
    """Processors compute several powers at once: each as it is alone."""
    tiny, huge = np.finfo(dtype).smallest_normal, np.finfo(dtype).max
    special = np.array([0.0, -0.0, 1, -1, 2, -8, 0.5, np.inf, -np.inf, np.nan, tiny, huge, -huge], dtype)
    x, y = (one.ravel() for one in np.meshgrid(special, np.append(special, [3, 1.5, -3]).astype(dtype)))
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    got = ck.pow(ck.asarray(x), ck.asarray(y)).numpy()
    # What is less than the smallest normal number, a GPU may flush to 0.
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=tiny)
    assert np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (1000,)),
        *((dtype, (3, 300)) for dtype in ("float32", "int32", "uint32")),
        *(pytest.param(dtype, (1000,), marks=pytest.mark.thorough) for dtype in ("int32", "uint32")),
    ],
)
def test_conditions_in_long_rows(device: ck.Device, dtype: str, shape: tuple[int, ...]) -> None:
    """The host packs the results of whole tiles of a row, whose order differs in each half of a vector."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 4, (*shape[:-1], shape[-1] + 5)).astype(dtype) for _ in range(2))
    if dtype == "float32":
        x[x == 3] = np.nan
    ours, others = (ck.asarray(one)[..., 2:-3] for one in (x, y))
    x, y = x[..., 2:-3], y[..., 2:-3]
    for name in ("less", "equal", "not_equal", "greater_equal"):
        np.testing.assert_array_equal(getattr(ck, name)(ours, others).numpy(), getattr(np, name)(x, y), name)
        np.testing.assert_array_equal(getattr(ck, name)(ours, 2).numpy(), getattr(np, name)(x, 2), name)
    np.testing.assert_array_equal(ck.isfinite(ours).numpy(), np.isfinite(x))
    np.testing.assert_array_equal(ck.less(ours[..., :1], others).numpy(), x[..., :1] < y)


def test_cubes_are_products(device: ck.Device) -> None:
    data = np.random.default_rng(0).standard_normal(50).astype(np.float32) * 10
    x = ck.asarray(data, device=device)
    np.testing.assert_allclose(
        (x**3).numpy(), data.astype(np.float64) ** 3, rtol=2 * np.finfo(np.float32).eps
    )
    ck.testing.gradcheck(lambda x: x**3, [ck.asarray(data.astype(np.float64), device=device)])
