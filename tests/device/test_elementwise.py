"""Elementwise functions, from the table: values, dtypes and exceptions of NumPy, layouts, derivatives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cukern as ck
from cukern import namespace, operators, tape
from cukern.expr import Row
from cukern.ops import launch
from cukern.testing import assert_close, gradcheck

ROWS: dict[str, Row] = {name: f for name, f in operators.FUNCTIONS.items() if isinstance(f, Row)}
UNARY = [row for row in ROWS.values() if len(row.operands) == 1]
BINARY = [row for row in ROWS.values() if len(row.operands) == 2]
DIFFERENTIABLE = [row for row in ROWS.values() if row.differentiable]
NUMPY_DTYPES = [d for d in ck.dtypes.ALL if d != ck.bfloat16]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 4e-6, "float64": 1e-13}


def oracle(row: Row) -> Callable[..., Any]:
    """NumPy's function of the same values."""
    return getattr(np, row.oracle) if isinstance(row.oracle, str) else row.oracle


def sample(row: Row, dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Values of the row's domain, special ones of the dtype left out."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    low, high = row.domain
    if ck.dtypes.info(dtype).kind in "iu":
        low, high = (
            max(math.floor(low), -2 if np.issubdtype(dtype, np.signedinteger) else 0),
            math.ceil(high) + 3,
        )
        low = max(low, 1) if row.domain[0] > 0 else low
        return rng.integers(low, high, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def operands(row: Row, dtype: Any, shape: tuple[int, ...] = (3, 5)) -> list[np.ndarray]:
    """Values for each operand; where the row takes a bool first, one."""
    return [
        sample(row, bool if mark == "b" else dtype, shape, seed) for seed, mark in enumerate(row.operands)
    ]


def expected(row: Row, values: list[np.ndarray]) -> np.ndarray:
    """NumPy's result, of floats computed in float64."""
    wide = [v.astype(np.float64) if ck.dtypes.info(v.dtype).kind == "f" else v for v in values]
    with np.errstate(all="ignore"):
        return np.asarray(oracle(row)(*wide))


def check(got: ck.Array, want: np.ndarray) -> None:
    """Equality to the precision of the dtype of ``got``."""
    tolerance = TOLERANCE.get(ck.dtypes.info(got.dtype).name, 0.0)
    assert_close(
        got, want.astype(got.numpy().dtype) if not tolerance else want, rtol=tolerance, atol=tolerance
    )


def accepted(row: Row, dtype: Any) -> bool:
    """Whether the row computes in this dtype as it is."""
    return "x" not in row.operands or ck.dtypes.info(np.dtype(dtype)).kind in row.types


def test_every_public_name_has_a_row_or_is_a_function_of_a_family() -> None:
    families = {
        name
        for module in ("manipulate", "index", "linalg", "reduce")
        for name in __import__(f"cukern.ops.{module}", fromlist=["__all__"]).__all__
    }
    made = families | set(ROWS) | {"astype", "fuse"}
    assert set(namespace.__all__) == made
    for name in namespace.__all__:
        assert getattr(namespace, name).__doc__, f"{name} has no docstring"


def test_rows_are_named_as_their_variables_are() -> None:
    from cukern import table

    for name, row in vars(table).items():
        if isinstance(row, Row):
            assert row.name == name


def test_operators_of_rows_are_methods() -> None:
    for row in ROWS.values():
        if row.operator:
            assert row.operator in vars(operators.Operators), row.name


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_float32_values(device: ck.Device, row: Row) -> None:
    dtype = np.float32 if accepted(row, np.float32) else np.int32
    values = operands(row, dtype)
    arrays = [ck.asarray(v) for v in values]
    got = row.apply(tuple(arrays))
    check(got, expected(row, values))
    for array, value in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(array.numpy(), value, err_msg="an input was written")


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_values_in_every_dtype(device: ck.Device, dtype: Any) -> None:
    """All rows in one kernel a dtype: compiling each alone takes minutes."""
    for arity in (1, 2, 3):
        rows = [row for row in ROWS.values() if len(row.operands) == arity and accepted(row, dtype)]
        values = [operands(row, dtype) for row in rows]
        together = namespace.fuse(
            lambda groups, rows=rows: [row.apply(tuple(g)) for row, g in zip(rows, groups, strict=True)]
        )
        results = together([[ck.asarray(v) for v in group] for group in values])
        for row, group, got in zip(rows, values, results, strict=True):
            try:
                check(got, expected(row, group))
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
#: Rows whose oracle is a composition that overflows where the row does not.
COMPOSED = {"silu", "gelu", "relu", "elu"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_special_values(device: ck.Device, dtype: Any) -> None:
    rows = [
        row
        for row in ROWS.values()
        if accepted(row, dtype) and row.name not in COMPOSED and row.name != "clip"
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
                    assert_close(
                        got, want.astype(got.numpy().dtype), rtol=1e-5 if dtype is np.float32 else 1e-12
                    )
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
    "reciprocal",
    "clip",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "row", [r for r in UNARY + BINARY if r.name not in NO_DTYPE_ORACLE], ids=lambda r: r.name
)
def test_dtype_rules_are_numpys(row: Row) -> None:
    for kinds in itertools.product(NUMPY_DTYPES, repeat=len(row.operands)):
        values = [np.ones(2, dtype) for dtype in kinds]
        assert our_result(row, *kinds) == numpy_result(row, *values), [str(k) for k in kinds]
    if len(row.operands) == 2:
        for dtype, scalar in itertools.product(NUMPY_DTYPES, (True, 2, 1.5)):
            if dtype == ck.bool_ and scalar == 1.5:
                continue  # cukern's default float, not NumPy's
            ours, theirs = our_result(row, dtype, scalar), numpy_result(row, np.ones(2, dtype), scalar)
            assert ours == theirs, (str(dtype), scalar)


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
    x = ck.Array._wrap(device.xp.asarray(a), device)
    y = ck.Array._wrap(device.xp.asarray(b), device)
    got = namespace.multiply(x, y)
    assert_close(got, a * b, dtype=np.float32)
    assert got.is_contiguous


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
def test_gpu_launch_shapes_on_the_host(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """The launch shapes that a GPU gets compute the same where the host runs them."""
    gpu = launch.geometry
    monkeypatch.setattr(launch, "_plans", {})
    monkeypatch.setattr(launch, "geometry", lambda kind, rows, columns: gpu("cuda", rows, columns))
    with ck.device("host"):
        a = np.random.default_rng(0).standard_normal(shape)
        x = ck.asarray(a)
        assert_close(x + 1.0, a + 1.0)
        assert_close(x * x[..., :1], a * a[..., :1])


def test_64_bit_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of arrays beyond 2**31 elements, on small ones."""
    monkeypatch.setattr(launch, "_plans", {})
    monkeypatch.setattr(launch, "_LIMIT_32", 1)
    a = np.random.default_rng(0).standard_normal((3, 4, 5))
    x = ck.asarray(a)
    assert "long long columns" in namespace.fuse(lambda x: x + 1).source(x)
    assert_close(x + x[:, :1], a + a[:, :1])
    assert_close(x.T * 2.0, a.T * 2.0)


def test_shapes_that_do_not_broadcast(device: ck.Device) -> None:
    with pytest.raises(ValueError, match=r"add: shapes \(2, 3\), \(2,\) do not broadcast"):
        namespace.add(ck.zeros((2, 3)), ck.zeros(2))


def test_what_is_no_operand_is_refused(device: ck.Device) -> None:
    with pytest.raises(TypeError, match="tanh: expected arrays and numbers, got str"):
        namespace.tanh("x")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        ck.zeros(2) + [1, 2]
    with pytest.raises(TypeError, match="bitwise_and: expected integers or bool, got float32"):
        ck.zeros(2) & 1


def test_python_numbers_take_the_arrays_dtype(device: ck.Device) -> None:
    assert (ck.asarray([1.0], dtype="float16") * 0.1).dtype == ck.float16
    half = np.array([3.0], np.float16)
    assert_close(ck.asarray(half) * 0.1, half * 0.1, rtol=0)
    assert (ck.asarray([1], dtype="uint8") + 1).dtype == ck.uint8
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        ck.asarray([1], dtype="uint8") + 300
    assert (ck.asarray([1], dtype="int32") + 0.5).dtype == ck.float64


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


def test_in_place_writes_the_memory_and_counts(device: ck.Device) -> None:
    x = ck.asarray(np.arange(12.0).reshape(3, 4))
    part = x[:, ::2]
    version = x._storage.version
    part *= 10.0
    assert x._storage.version == version + 1
    want = np.arange(12.0).reshape(3, 4)
    want[:, ::2] *= 10.0
    assert_close(x, want)
    turned = x.T
    turned += turned
    assert_close(x, 2 * want)


def test_in_place_with_overlapping_memory(device: ck.Device) -> None:
    a = np.arange(6.0)
    x = ck.asarray(a.copy())
    x += x[::-1]
    assert_close(x, a + a[::-1])


def test_in_place_refusals(device: ck.Device) -> None:
    x = ck.asarray([1, 2, 3])
    with pytest.raises(TypeError, match="a result of float64 cannot be written to an array of int64"):
        x /= 2
    with pytest.raises(ValueError, match="does not fit"):
        x += ck.ones((2, 3), dtype="int64")
    y = ck.asarray([1.0])
    with ck.Tape() as recorder:
        recorder.watch(y)
        with pytest.raises(ck.GradientError, match=r"x = cukern.add\(x, y\)"):
            y += 1.0


@pytest.mark.parametrize("target", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_astype(device: ck.Device, target: Any) -> None:
    for source in (np.float32, np.int16, np.bool_, ml_dtypes.bfloat16, np.float64, np.uint64):
        a = np.array([0, 1, 2, 100, 0.6 if np.dtype(source).kind not in "iub" else 3], source)
        assert_close(namespace.astype(ck.asarray(a), target), a.astype(target), rtol=0, atol=0, dtype=target)


def test_astype_copies_unless_told_not_to(device: ck.Device) -> None:
    x = ck.ones(2)
    assert x.astype("float32") is not x
    assert x.astype("float32", copy=False) is x


# ----- derivatives -----


def domains() -> dict[tuple[str, tuple[float, float]], list[Row]]:
    """The differentiable rows of one kind of operands, together by the interval they are drawn from."""
    groups: dict[tuple[str, tuple[float, float]], list[Row]] = {}
    for row in DIFFERENTIABLE:
        groups.setdefault((row.operands, row.domain), []).append(row)
    return groups


@pytest.mark.parametrize("group", domains().items(), ids=lambda g: f"{g[0][0]}-{g[0][1]}".replace(" ", ""))
def test_gradients_of_all_rows_to_second_order(device: ck.Device, group: Any) -> None:
    """One kernel a group, in which nothing is read that the inputs do not give."""
    _, rows = group
    arrays = [ck.asarray(v) for v in operands(rows[0], np.float64, (4,))]
    together = namespace.fuse(lambda *xs: [row.apply(xs) for row in rows])
    assert gradcheck(together, arrays, order=2)


READS_RESULT = ["divide", "tanh", "sqrt", "sigmoid", "elu", "relu", "pow", "reciprocal", "logaddexp", "hypot"]


@pytest.mark.parametrize("name", READS_RESULT)
def test_gradients_of_single_rows_to_second_order(device: ck.Device, name: str) -> None:
    """These save their result, or choose at a kink."""
    row = ROWS[name]
    assert gradcheck(
        lambda *xs: row.apply(xs), [ck.asarray(v) for v in operands(row, np.float64, (4,))], order=2
    )


@pytest.mark.parametrize(
    ("name", "saves"),
    [
        ("add", 0),
        ("negative", 0),
        ("tanh", 1),
        ("exp", 1),
        ("multiply", 2),
        ("where", 1),
        ("relu", 1),
        ("sigmoid", 1),
    ],
)
def test_only_what_the_derivative_reads_is_saved(device: ck.Device, name: str, saves: int) -> None:
    row = ROWS[name]
    arrays = [ck.asarray(v) for v in operands(row, np.float64)]
    with ck.Tape() as recorder:
        recorder.watch(*(a for a in arrays if a.dtype == ck.float64))
        row.apply(tuple(arrays))
    (made,) = recorder._records
    assert len(made.saved) == saves


def test_an_operand_that_is_not_tracked_saves_less(device: ck.Device) -> None:
    x, y = ck.ones(3), ck.ones(3)
    with ck.Tape() as recorder:
        recorder.watch(x)
        x * y
    (made,) = recorder._records
    assert [saved is y for saved in made.saved] == [True]


def test_nothing_is_recorded_for_arrays_that_no_tape_tracks(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(tape, "record", lambda *args, **options: calls.append(args))
    with ck.Tape() as recorder:
        recorder.watch(ck.ones(2))
        namespace.tanh(ck.ones(3))
    assert not calls


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
def test_gradients_of_broadcast_operands(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray(np.arange(6.0).reshape(2, 3), dtype=dtype)
    row, number = ck.asarray([1.0, 2.0, 3.0], dtype=dtype), ck.asarray(2.0, dtype=dtype)
    with ck.Tape() as recorder:
        recorder.watch(x, row, number)
        y = (x * row * number).sum()
    gx, grow, gnumber = recorder.gradient(y, (x, row, number))
    assert_close(gx, np.broadcast_to([2.0, 4.0, 6.0], (2, 3)), dtype=dtype)
    assert_close(grow, np.array([6.0, 10.0, 14.0]), dtype=dtype)
    assert_close(gnumber, 3.0 + 5.0 * 2 + 7.0 * 3 - 0.0, dtype=dtype)


@pytest.mark.parametrize(
    ("name", "at", "gradient"),
    [("abs", 0.0, 0.0), ("relu", 0.0, 0.0), ("clip", 1.0, 1.0)],
)
def test_documented_derivatives_at_kinks(device: ck.Device, name: str, at: float, gradient: float) -> None:
    x = ck.asarray([at])
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = namespace.clip(x, -1.0, 1.0) if name == "clip" else ROWS[name].apply((x,))
    assert recorder.gradient(y, x).tolist() == [gradient]


def test_ties_share_the_derivative(device: ck.Device) -> None:
    x, y = ck.asarray([1.0, 2.0]), ck.asarray([1.0, 3.0])
    with ck.Tape() as recorder:
        recorder.watch(x, y)
        z = namespace.maximum(x, y)
    gx, gy = recorder.gradient(z, (x, y))
    assert gx.tolist() == [0.5, 0.0]
    assert gy.tolist() == [0.5, 1.0]


def test_powers_of_numbers(device: ck.Device) -> None:
    a = np.array([0.5, 1.0, 3.0])
    x = ck.asarray(a)
    for power in (2, 2.0, 0.5, -1, 1, 3, 0, 2.5):
        assert_close(x**power, a**power)
    assert_close(ck.asarray([2, 3]) ** 2, np.array([4, 9]))
    with pytest.raises(ValueError, match="negative integer powers"):
        ck.asarray([2, 3]) ** -1
    zero = ck.asarray([0.0])
    for power, slope in ((2, 0.0), (3, 0.0), (0, 0.0), (1, 1.0)):
        with ck.Tape() as recorder:
            recorder.watch(zero)
            y = zero**power
        assert recorder.gradient(y, zero).tolist() == [slope]
