"""Every case of the namespace: NumPy's values, dtypes and shapes in every dtype and memory layout, and derivatives."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dtype_rule import ruled
from namespace_cases import A, Case
from nn_support import STEP

import cukern as ck
from cukern import dtypes, namespace
from cukern.device.host.checked import mode
from cukern.elementwise.row import Row
from cukern.testing import assert_close, gradcheck

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for name in MODULES for case in importlib.import_module(name).CASES]
DIFFERENTIABLE = [case for case in CASES if case.gradient]
#: Every kind and width of dtype; the case's kernels are compiled for each, so one integer stands for its width.
DTYPES = [
    ck.bool_,
    ck.int8,
    ck.int64,
    ck.uint8,
    ck.uint32,
    ck.float16,
    ck.bfloat16,
    ck.float32,
    ck.float64,
]
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5, "float64": 1e-11}


def replaced(tree: Any, change: Callable[[A], Any]) -> Any:
    """The arguments with each :class:`A` changed."""
    if isinstance(tree, A):
        return change(tree)
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(replaced(item, change) for item in tree)
    return tree


def drawn(case: Case, dtype: Any) -> tuple[Any, ...]:
    """The case's arguments with NumPy arrays."""
    seeds = iter(range(1, 100))
    made: tuple[Any, ...] = replaced(case.args, lambda one: one.draw(dtype, next(seeds)))
    return made


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The arguments with each NumPy array changed."""
    if isinstance(tree, np.ndarray):
        return change(tree)
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(mapped(item, change) for item in tree)
    return tree


def wide(value: np.ndarray) -> np.ndarray:
    """Floats in float64, in which NumPy computes what is expected."""
    return value.astype(np.float64) if dtypes.info(value.dtype).kind == "f" else value


def results(made: Any) -> list[Any]:
    """One result or several as a list."""
    return [leaf for one in made for leaf in results(one)] if isinstance(made, (list, tuple)) else [made]


def expected(case: Case, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    """NumPy's results, of floats computed in float64."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = case.reference()(*mapped(arguments, wide), **mapped(case.options, wide))
    return [np.asarray(one) for one in results(made)]


def operand_dtypes(case: Case, dtype: Any) -> list[Any]:
    """The dtypes of the arrays that a case is called with."""
    given = results([*drawn(case, dtype), *case.options.values()])
    return [one.dtype for one in given if isinstance(one, np.ndarray)]


def wanted_dtype(case: Case, dtype: Any, want: np.ndarray) -> Any:
    """The dtype that a result must have, None where that is open."""
    if case.dtype == "numpy":
        # NumPy computed floats in float64: a floating result has the dtype of the case instead.
        if dtypes.info(dtype).kind == "f":
            return dtype if want.dtype == np.float64 else want.dtype
        return ruled(want.dtype, *operand_dtypes(case, dtype))
    return (
        {"same": dtype, "": None}.get(case.dtype, case.dtype) if isinstance(case.dtype, str) else case.dtype
    )


def sizes(case: Case, arguments: tuple[Any, ...]) -> list[Any]:
    """How much each of NumPy's results changes with relative changes of the floating arguments."""
    rng, exact = np.random.default_rng(0), expected(case, arguments)
    found = [np.zeros(one.shape) for one in exact]

    def moved(value: np.ndarray) -> np.ndarray:
        step = STEP * rng.standard_normal(value.shape) if dtypes.info(value.dtype).kind == "f" else 0
        return wide(value) * (1 + step) if np.ndim(step) or step else value

    for _ in range(4):
        for i, one in enumerate(expected(case, mapped(arguments, moved))):
            if (
                case.name != "divmod" and one.shape == exact[i].shape and exact[i].dtype.kind in "fc"
            ):  # that is exact
                with np.errstate(all="ignore"):
                    change = np.abs(one - exact[i])
                    smooth = change < 1e-3 * (1 + np.abs(exact[i]))  # a jump is no rounding
                    found[i] = np.fmax(found[i], np.where(smooth, change / STEP, 0))
    return found


def check(case: Case, got: Any, want: np.ndarray, dtype: Any, size: Any = 0.0) -> None:
    """One result: its shape, dtype and values, to the roundings of what they are made of."""
    if not isinstance(got, ck.Array):
        assert got == want.item(), case.id
        return
    assert got.shape == want.shape, f"{case.id}: shape {got.shape}, expected {want.shape}"
    kind = wanted_dtype(case, dtype, want)
    assert kind is None or got.dtype == kind, f"{case.id}: {got.dtype}, expected {kind}"
    if kind is None and got.dtype == ck.float64:
        assert ck.float64 in operand_dtypes(case, dtype), f"{case.id}: of {dtype} float64 is made unseen"
    narrow = min((dtype, got.dtype), key=lambda d: dtypes.info(d).itemsize if d in dtypes.FLOATS else 9)
    tolerance = TOLERANCE.get(dtypes.info(narrow).name, 0.0)
    if narrow in dtypes.FLOATS and narrow.itemsize > 2:  # half types are computed in float32
        tolerance *= case.tolerance
    if dtypes.info(got.dtype).kind != "f":
        np.testing.assert_array_equal(got.numpy(), want.astype(got.numpy().dtype), err_msg=case.id)
    else:
        smallest = float(ck.finfo(narrow).smallest_normal) if narrow in dtypes.FLOATS else 0.0
        assert_close(got, want.astype(np.float64), rtol=tolerance, atol=tolerance * (size + smallest))


def layouts(value: np.ndarray) -> dict[str, ck.Array]:
    """Arrays of the same values whose elements lie differently in memory."""
    doubled = np.repeat(value, 2, axis=-1) if value.ndim else value
    reverse = (slice(None, None, -1),) * value.ndim
    made = {
        "strided": ck.asarray(doubled)[..., ::2] if value.ndim else ck.asarray(value),
        "transposed": ck.asarray(np.ascontiguousarray(value.T)).T,
        "reversed": ck.asarray(np.ascontiguousarray(value[reverse]))[reverse]
        if value.ndim
        else ck.asarray(value),
    }
    padded = np.concatenate([value.reshape(-1)[:1], value.reshape(-1)]) if value.size else value.reshape(-1)
    if value.size:
        made["misaligned"] = ck.reshape(ck.asarray(padded)[1:], value.shape)
    return made


#: Those of the first case of a function: int8 has the width of uint8 and the sign of int64, uint32 is between both, and
#: float16 is converted as bfloat16 is.
MOST = [dtype for dtype in DTYPES if dtype not in (ck.int8, ck.uint32, ck.float16)]
#: Those of its other cases, whose kernels differ by shapes and options: of each kind with numbers one.
USUAL = [ck.int64, ck.float32]
_FIRST = {case.name: case for case in reversed(CASES)}
_FIRST_GRADIENT = {case.name: case for case in reversed(DIFFERENTIABLE)}


def usual(case: Case) -> list[Any]:
    """The dtypes that a case is tested in each time; the others are thorough.

    Checked launches see which elements a kernel touches, which does not depend on the dtype.
    """
    if _FIRST[case.name] is case and not mode.active():
        return MOST
    return USUAL if any(map(case.takes, USUAL)) else [ck.bool_, ck.uint8]


def check_values(case: Case, tried: list[Any]) -> None:
    """Those of one case in each dtype tried that it takes."""
    for dtype in tried:
        if not case.takes(dtype):
            continue
        arguments = drawn(case, dtype)
        held = mapped(arguments, np.copy)
        got = case.function()(*mapped(arguments, ck.asarray), **mapped(case.options, ck.asarray))
        for one, want, size in zip(results(got), expected(case, held), sizes(case, held), strict=True):
            check(case, one, want, dtype, size)
        for after, before in zip(results(arguments), results(held), strict=True):
            same = after.tobytes() == before.tobytes() if isinstance(after, np.ndarray) else after == before
            assert same, f"{case.id}: an argument was written"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_values_in_every_dtype(device: ck.Device, case: Case) -> None:
    check_values(case, usual(case))


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_values_in_the_other_dtypes(device: ck.Device, case: Case) -> None:
    check_values(case, [dtype for dtype in DTYPES if dtype not in usual(case)])


def layout_dtype(case: Case) -> Any:
    """The dtype that layouts are tested in: they make other kernels, and one dtype shows them."""
    return next(d for d in (ck.float32, ck.int64, ck.bool_) if dtypes.info(d).kind in case.kinds)


def first(cases: Iterable[Case]) -> list[Any]:
    """Parameters, of which those that are not the first case of their function are thorough."""
    return [
        pytest.param(case, id=case.id, marks=() if _FIRST[case.name] is case else pytest.mark.thorough)
        for case in cases
    ]


@pytest.mark.parametrize("case", first(CASES))
def test_values_in_every_layout(device: ck.Device, case: Case) -> None:
    dtype = layout_dtype(case)
    arguments = drawn(case, dtype)
    want = expected(case, arguments)
    for layout in ("strided", "transposed", "reversed", "misaligned"):
        made = mapped(arguments, lambda value, layout=layout: layouts(value).get(layout, ck.asarray(value)))
        got = case.function()(*made, **mapped(case.options, ck.asarray))
        for one, value, size in zip(results(got), want, sizes(case, arguments), strict=True):
            check(case, one, value, dtype, size)


def first_repeated(value: np.ndarray) -> np.ndarray:
    """What repeats the first part of ``value`` along its first axis, with stride 0."""
    return np.broadcast_to(value[:1], value.shape) if value.ndim and value.size else value


@pytest.mark.parametrize("case", first(case for case in CASES if case.repeat))
def test_values_of_repeated_views(device: ck.Device, case: Case) -> None:
    dtype = layout_dtype(case)
    arguments = mapped(drawn(case, dtype), first_repeated)
    want = expected(case, mapped(arguments, np.copy))

    def repeated(value: np.ndarray) -> ck.Array:
        if not (value.ndim and value.size):
            return ck.asarray(value.copy())
        return ck.broadcast_to(ck.asarray(value[:1].copy()), value.shape)

    got = case.function()(*mapped(arguments, repeated), **mapped(case.options, ck.asarray))
    for one, value, size in zip(results(got), want, sizes(case, mapped(arguments, np.copy)), strict=True):
        check(case, one, value, dtype, size)


def check_gradients(case: Case, order: int) -> None:
    """Those of one case up to an order."""
    arguments = drawn(case, ck.float64)
    moving = [v for v in results(arguments) if isinstance(v, np.ndarray) and v.dtype == np.float64]

    def f(*arrays: ck.Array) -> Any:
        given = iter(arrays)

        def place(value: np.ndarray) -> ck.Array:
            return next(given) if value.dtype == np.float64 else ck.asarray(value)

        made = case.function()(*mapped(arguments, place), **mapped(case.options, ck.asarray))
        floats = [one for one in results(made) if isinstance(one, ck.Array) and one.dtype in dtypes.FLOATS]
        return floats[0] if len(floats) == 1 else tuple(floats)

    primals = [ck.asarray(value) for value in moving]
    assert gradcheck(f, primals, order=order)
    rng = np.random.default_rng(1)
    value, pullback = ck.vjp(f, *primals)
    tangents, cotangents = (
        ck.tree.map(lambda one: ck.asarray(rng.uniform(0.5, 1.0, one.shape), dtype=one.dtype), tree)
        for tree in (primals, value)
    )
    _, ahead = ck.jvp(f, primals, tangents)
    pairs = (results(ahead), results(cotangents)), (results(pullback(cotangents)), tangents)
    along, back = (sum(float((x * y).sum()) for x, y in zip(*pair, strict=True)) for pair in pairs)
    np.testing.assert_allclose(1 + along, 1 + back, rtol=1e-7)  # they may be rounding errors alone


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.id)
def test_gradients(device: ck.Device, case: Case) -> None:
    """Of a function's first case to the highest order, of the others, whose derivatives are made alike, the first."""
    check_gradients(case, case.gradient if _FIRST_GRADIENT[case.name] is case else 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [c for c in DIFFERENTIABLE if _FIRST_GRADIENT[c.name] is not c], ids=lambda case: case.id
)
def test_gradients_of_the_other_cases(device: ck.Device, case: Case) -> None:
    check_gradients(case, case.gradient)


#: Public functions with no case, and where they are tested.
ELSEWHERE = {
    "allclose": "a Python bool: test_special",
    "array_equal": "a Python bool: test_special",
    "array_equiv": "a Python bool: test_special",
    "apply_along_axis": "takes a function: test_slices",
    "as_strided": "its strides are in bytes: test_numpy_habits",
    "einsum_path": "a list and a text: test_numpy_habits",
    "frompyfunc": "makes functions: test_numpy_habits",
    "check_indices": "a with-block: test_at",
    "elementwise": "makes functions: test_custom",
    "copyto": "writes in place: test_put",
    "fill_diagonal": "writes in place: test_slices",
    "fuse": "makes functions: test_fuse, test_fuse_reduce",
    "histogram2d": "takes pairs of options: test_slices",
    "index_add": "writes by places: test_index",
    "multigammaln": "its second operand is a Python int: test_special_functions",
    "nan_to_num": "its numbers depend on the dtype: test_special",
    "packbits": "takes integers alone: test_put",
    "place": "writes in place: test_put",
    "put": "writes in place: test_put",
    "polyfit": "of float32 and float64: test_polynomials",
    "polyval": "of an array and anything: test_polynomials",
    "put_along_axis": "writes in place: test_at",
    "putmask": "writes in place: test_put",
    "unpackbits": "takes uint8 alone: test_put",
    "ravel_multi_index": "of places: test_at",
    "reduction": "makes functions: test_custom",
    "select": "its conditions are bool: test_slices",
    "sliding_window_view": "its windows are a shape: test_slices",
    "unravel_index": "of places: test_at",
    "polygamma": "its first operand is a Python int: test_special",
    "zeta": "its second operand has a default: test_special_functions",
    "bartlett": "takes a number: test_polynomials",
    "blackman": "takes a number: test_polynomials",
    "hamming": "takes a number: test_polynomials",
    "hanning": "takes a number: test_polynomials",
    "kaiser": "takes a number: test_polynomials",
    "polyadd": "of two arrays of any size, or lists: test_polynomials",
    "polydiv": "of two arrays of any size, or lists: test_polynomials",
    "polymul": "of two arrays of any size, or lists: test_polynomials",
    "polysub": "of two arrays of any size, or lists: test_polynomials",
    "poly": "of roots: test_polynomials",
    "roots": "of coefficients: test_polynomials",
    "polyder": "of coefficients: test_polynomials",
    "polyint": "of coefficients: test_polynomials",
    "poly1d": "a class: test_polynomials",
    "vectorize": "a class: test_polynomials",
    "choose": "its choices are a list: test_polynomials",
    "piecewise": "takes functions: test_polynomials",
    "histogramdd": "takes lists of options: test_polynomials",
    "apply_over_axes": "takes a function: test_polynomials",
    "float_power": "float64 alone: test_polynomials",
    "real_if_close": "its dtype depends on values: test_polynomials",
    "sort_complex": "complex alone: test_polynomials",
    "scatter": "its reduction is named: test_segments",
    **dict.fromkeys(
        ("segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"),
        "NumPy has none: test_segments",
    ),
    "bitwise_count": "takes integers alone: test_polynomial_module",
    "frexp": "two results, one of them int32: test_polynomial_module",
    "ldexp": "its second operand is an integer: test_polynomial_module",
    "unwrap": "its period is a number: test_polynomials",
}


def test_every_public_name_has_a_row_or_a_case() -> None:
    cases = {case.name for case in CASES}
    without = {
        name for name in namespace.__all__ if name not in cases and not isinstance(getattr(ck, name), Row)
    }
    assert without == set(ELSEWHERE), (
        f"add a case to tests/device/cases_*.py for {sorted(without - set(ELSEWHERE))}, or name it in ELSEWHERE with "
        "the test that it has"
    )
