"""``fuse``: one kernel forward, one backward, one for the backward of that; what it refuses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck


@ck.fuse
def bump(x: ck.Array, y: ck.Array, scale: float) -> ck.Array:
    return ck.tanh(x * y + 1) * scale - ck.exp(-x)


def reference(x: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
    return np.tanh(x * y + 1) * scale - np.exp(-x)


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
def test_values(device: ck.Device, dtype: Any) -> None:
    a = np.linspace(-1, 1, 12).reshape(3, 4).astype(dtype)
    b = np.linspace(0, 1, 4).astype(dtype)
    got = bump(ck.asarray(a), ck.asarray(b), 2.5)
    assert_close(
        got,
        reference(a.astype(float), b.astype(float), 2.5),
        dtype=dtype,
        atol=1e-2 if dtype.itemsize == 2 else None,
    )


def test_gradients_to_third_order(device: ck.Device) -> None:
    x, y = ck.asarray(np.linspace(-1, 1, 6).reshape(2, 3)), ck.asarray(np.linspace(0.2, 1, 3))
    assert gradcheck(lambda x, y: bump(x, y, 2.5), [x, y], order=3)


def test_one_kernel_each_way(device: ck.Device, launches: list[str]) -> None:
    x, y = ck.ones((2, 3)), ck.ones((2, 3))
    with ck.Tape() as outer:
        outer.watch(x, y)
        with ck.Tape() as inner:
            inner.watch(x, y)
            z = bump(x, y, 2.0)
        gx, _ = inner.gradient(z, (x, y))
        assert launches == ["bump", "bump_vjp"]
    launches.clear()
    outer.gradient(gx, x)
    assert launches == ["bump_vjp_vjp"]


def test_the_backward_of_one_operation_is_one_kernel(device: ck.Device, launches: list[str]) -> None:
    x = ck.ones(3)
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = ck.gelu(x)
    recorder.gradient(y, x)
    assert launches == ["gelu", "gelu_vjp"]


def test_nothing_is_rendered_twice(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ck.ones((3, 5))
    bump(x, x, 1.0)
    ck.tanh(x)
    monkeypatch.setattr("cukern.text.render.render", None)
    bump(x, x, 2.0)
    ck.tanh(x)


def test_several_results_and_pytrees(device: ck.Device) -> None:
    @ck.fuse
    def parts(state: dict[str, ck.Array], *, shift: float) -> tuple[ck.Array, dict[str, ck.Array]]:
        total = state["a"] + state["b"]
        return total, {"less": total - shift, "same": state["a"]}

    a, b = ck.asarray([1.0, 2.0]), ck.asarray([10.0, 20.0])
    total, rest = parts({"a": a, "b": b}, shift=1.0)
    assert total.tolist() == [11.0, 22.0]
    assert rest["less"].tolist() == [10.0, 21.0]
    assert rest["same"].tolist() == [1.0, 2.0]


def test_results_of_different_shapes_have_right_gradients(device: ck.Device) -> None:
    @ck.fuse
    def both(x: ck.Array, b: ck.Array) -> tuple[ck.Array, ck.Array]:
        return x * b, b * b

    x, b = ck.asarray(np.arange(6.0).reshape(2, 3)), ck.asarray(np.arange(1.0, 4.0))
    big, small = both(x, b)
    assert big.shape == (2, 3)
    assert small.shape == (3,)
    assert gradcheck(both, [x, b], order=2)


def test_fused_functions_compose(device: ck.Device, launches: list[str]) -> None:
    @ck.fuse
    def outer(x: ck.Array, y: ck.Array) -> ck.Array:
        return bump(x, y, 2.0) * bump(y, x, 3.0)

    x, y = np.linspace(0, 1, 4), np.linspace(1, 2, 4)
    assert_close(outer(ck.asarray(x), ck.asarray(y)), reference(x, y, 2.0) * reference(y, x, 3.0))
    assert launches == ["outer"]


def test_static_arguments_of_positions_and_keywords(device: ck.Device) -> None:
    @ck.fuse(static=("power", "negative"))
    def scaled(x: ck.Array, factor: float, power: int = 1, *, negative: bool = False) -> ck.Array:
        made = factor * x**power
        return -made if negative else made

    x = ck.asarray([1.0, 2.0], device=device)
    for _ in range(2):  # the second time by what is known of the first
        assert scaled(x, 3.0).tolist() == [3, 6]
        assert scaled(x, 4.0, 2).tolist() == [4, 16]
        assert scaled(x, 5.0, 2).tolist() == [5, 20]
        assert scaled(x, 5.0, 3).tolist() == [5, 40]
        assert scaled(x, 5.0, power=1, negative=True).tolist() == [-5, -10]
        with pytest.raises(TypeError, match="hashable static arguments"):
            scaled(x, 5.0, [1])  # type: ignore[arg-type]


def test_shapes_and_static_arguments_steer(device: ck.Device) -> None:
    @ck.fuse(static=("power",))
    def f(x: ck.Array, power: int, flip: bool = False) -> ck.Array:
        for _ in range(power):
            x = x * x
        return -x if flip else x + x.ndim

    x = ck.asarray([[2.0]])
    assert f(x, 1).item() == 6.0
    assert f(x, 2).item() == 18.0
    assert f(x, 2, flip=True).item() == -16.0
    assert f(ck.asarray([2.0]), power=1).item() == 5.0


def test_numbers_are_arguments_of_the_kernel(device: ck.Device) -> None:
    text = bump.source(ck.ones(3), ck.ones(3), 2.5)
    assert "double s0" in text
    assert "2.5" not in text
    assert "float(1" in text


def test_numbers_take_the_arrays_dtype(device: ck.Device) -> None:
    @ck.fuse
    def f(x: ck.Array, k: float) -> ck.Array:
        return x * (k + 1)

    assert f(ck.ones(2, dtype="float16"), 0.5).dtype == ck.float16
    assert f(ck.ones(2, dtype="int32"), 2).dtype == ck.int32
    assert f(ck.ones(2, dtype="int32"), 0.5).dtype == ck.float32


def test_halves_are_rounded_once(device: ck.Device) -> None:
    @ck.fuse
    def f(x: ck.Array) -> ck.Array:
        return (x + 1) - 1

    x = ck.asarray([1e-4], dtype="float16")
    assert f(x).tolist() == x.tolist()
    assert ((x + 1) - 1).tolist() == [0.0]


def test_common_expressions_are_computed_once() -> None:
    @ck.fuse
    def f(x: ck.Array) -> ck.Array:
        return ck.exp(x) + ck.exp(x) * ck.exp(x)

    with ck.device("host"):
        assert f.source(ck.ones(3)).count("exp(a0)") == 1


def recorded_otherwise(x: Any) -> Any:
    with ck.stop_recording():
        y = ck.exp(x)
    return x * y


def caught(x: Any) -> Any:
    try:
        return ck.sort(x)
    except TypeError:
        return x


#: Functions, what is said of each, and what there is besides kernels.
NOT_FUSED: dict[str, tuple[Any, str]] = {
    "branch": (lambda x: x if x[0] > 0 else -x, "the truth of an array, which is not elementwise"),
    "truth": (lambda x: x if ck.any(x > 0) else -x, "the truth of an array, .* use cukern.where"),
    "loop": (lambda x: sum(iter(x)), "a loop over an array"),
    "number": (lambda x: x * float(ck.max(x)), "the number of an array"),
    "elsewhere": (lambda x: x * ck.ones(3), "Array from elsewhere, .* pass it as an argument"),
    "constant": (lambda x: x[0].item(), "no attribute 'item'"),
    "numpy": (lambda x: x * x.numpy().sum(), "AttributeError: .* no attribute 'numpy'"),
    "of numpy": (lambda x: np.sort(x), "a loop over an array"),
    "at": (lambda x: x.at[0].set(1.0) * 2, "no attribute 'at'"),
    "converted": (lambda x: ck.asarray(x) * 2, "a loop over an array"),
    "dropout": (lambda x: ck.nn.dropout(x, 0.0) + 1, "dropout"),
    "not recorded": (recorded_otherwise, "expected no stop_recording"),
    "caught": (caught, "sort, which is not elementwise"),
    "length": (lambda x: len(x[:1].repeat(2)) + x, "repeat"),
}


@pytest.mark.parametrize("case", NOT_FUSED.values(), ids=NOT_FUSED)
def test_what_is_not_fused_is_called(device: ck.Device, case: Any) -> None:
    """As without ``fuse``, with its derivative, and a warning in the first call alone."""
    function, message = case
    fused, x = ck.fuse(function), ck.asarray([3.0, -1.0, 2.0])
    with pytest.warns(UserWarning, match=f"is not fused, its operations are called one by one: .*{message}"):
        made = fused(x)
    for again in (made, fused(x)):
        assert np.asarray(again).tolist() == np.asarray(function(x)).tolist()
    if isinstance(made, ck.Array):
        pulled, right = (ck.vjp(one, x)[1](ck.ones_like(made))[0] for one in (fused, function))
        assert np.asarray(pulled).tolist() == np.asarray(right).tolist()
    assert "is not fused" in fused.source(x)


def test_numbers_are_drawn_once(device: ck.Device) -> None:
    def noisy(x: Any) -> Any:
        return x + ck.random.normal(size=3)

    x = ck.zeros(3)
    ck.random.seed(1)
    wanted = [noisy(x).tolist() for _ in range(2)]
    ck.random.seed(1)
    fused = ck.fuse(noisy)
    with pytest.warns(UserWarning, match="Array from elsewhere"):
        made = [fused(x).tolist() for _ in range(2)]
    assert made == wanted


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda x: x if x > 0 else -x, ValueError, "truth"),
        (lambda x: x.nothing, AttributeError, "'Array' object has no attribute 'nothing'"),
        (lambda x: x + "a", TypeError, "unsupported|expected"),
    ],
    ids=["truth", "attribute", "word"],
)
def test_errors_are_those_of_the_function(device: ck.Device, function: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ck.fuse(function)(ck.ones(3))


def test_refused_arguments(device: ck.Device) -> None:
    with pytest.raises(ValueError, match="static: f has no parameter z"):

        @ck.fuse(static=("z",))
        def f(x: ck.Array) -> ck.Array:
            return x

    with pytest.warns(UserWarning, match="a result depends on no array argument"):
        assert ck.fuse(lambda k: k + 1)(2.0) == 3.0
    with pytest.raises(ValueError, match=r"multiply: shapes \(2,\), \(3,\) do not broadcast"):
        bump(ck.ones(2), ck.ones(3), 1.0)


def test_in_place_operators_make_new_values(device: ck.Device) -> None:
    @ck.fuse
    def f(x: ck.Array) -> ck.Array:
        y = x
        y += 1
        y *= x
        return y

    x = ck.asarray([1.0, 2.0])
    assert f(x).tolist() == [2.0, 6.0]
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64"])
def test_constants_beside_every_integer(device: ck.Device, dtype: str) -> None:
    a = np.arange(8).astype(dtype)
    fused = ck.fuse(lambda x: ck.maximum(x // 3, 1) + x**2)
    assert_close(fused(ck.asarray(a)), np.maximum(a // 3, 1) + a**2, dtype=dtype)


def test_traces_tell_containers_numbers_and_none_apart(device: ck.Device) -> None:
    x = ck.asarray([1, 2])
    doubled = ck.fuse(lambda x, n=2: x if n is None else x * n)
    assert doubled(x).tolist() == [2, 4]
    assert doubled(x, None).tolist() == [1, 2]
    mapped = ck.fuse(lambda tree: type(tree)(leaf + 1 for leaf in tree))
    assert isinstance(mapped([x]), list)
    assert isinstance(mapped((x,)), tuple)
    scaled = ck.fuse(static=("n",))(lambda x, n: x * n)
    assert scaled(x, 2).dtype == ck.int64
    assert scaled(x, 2.0).dtype == ck.float32


def test_integer_arguments_must_fit_the_dtype(device: ck.Device) -> None:
    x = ck.asarray([1, 2], dtype="int8")
    f = ck.fuse(lambda x, k: x * k + 1)
    assert f(x, 3).tolist() == [4, 7]
    for k in (300, -129, 2**70):
        with pytest.raises(OverflowError, match=f"Python integer {k} out of bounds"):
            f(x, k)
    assert f(ck.ones(2), 300).tolist() == [301.0, 301.0]


def test_the_length_of_a_symbol(device: ck.Device) -> None:
    f = ck.fuse(lambda x: x / len(x))
    assert f(ck.ones((2, 3))).tolist() == [[0.5] * 3] * 2
    with pytest.raises(TypeError, match="0-d array"):
        f(ck.asarray(1.0))


def test_nothing_to_do_has_no_source(device: ck.Device) -> None:
    f = ck.fuse(lambda x: x + 1)
    assert f.source(ck.zeros((0, 3))) == ""
    assert f(ck.zeros((0, 3))).shape == (0, 3)


def test_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = import_module("cukern.elementwise.program")._programs
    monkeypatch.setattr(programs, "capacity", 2)
    with ck.device("host"):
        for k in range(5):
            assert ck.fuse(lambda x, k=k: x + k)(ck.ones(2)).tolist() == [1.0 + k] * 2
    assert len(programs) <= 2


def test_numpys_functions_of_symbols(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    made = ck.fuse(lambda x: np.exp(x) + np.add(x, 1))(x)
    assert_close(made, np.exp(x.numpy()) + x.numpy() + 1, rtol=1e-6)
    with pytest.raises(TypeError, match="isnat"):
        ck.fuse(lambda x: np.isnat(x))(x)


def test_constants_of_a_fused_function(device: ck.Device) -> None:
    def f(x: Any) -> Any:
        return x * ck.sin(ck.stop_gradient(x)) + ck.stop_gradient(ck.exp(x))

    x = ck.asarray([1.0, 2.0], dtype="float64")
    total = ck.grad(lambda x: ck.fuse(f)(x).sum())
    assert_close(total(x), np.sin(x.numpy()), rtol=1e-14)
    assert_close(ck.grad(lambda x: total(x).sum())(x), np.zeros(2))


def test_a_function_with_a_backward_of_its_own_is_not_fused(device: ck.Device) -> None:
    class Scaled(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

    fused = ck.fuse(lambda x: Scaled.apply(x))
    with pytest.warns(UserWarning, match=r"Scaled, a Function \(cukern.elementwise") as seen:
        assert fused(ck.ones(2)).tolist() == [2, 2]
    assert {Path(one.filename).name for one in seen} == {Path(__file__).name}


def part_is_written(x: Any) -> Any:
    y = x * 2
    part = y[1:]
    part += 1
    return y


def whole_is_written(x: Any) -> Any:
    y = x * 2
    transposed = y.T
    y += 1
    return transposed * 1


NOT_ELEMENTWISE: dict[str, tuple[Any, str]] = {
    "write to a part": (part_is_written, "add in place of an array and a view of it"),
    "write to the whole": (whole_is_written, "add in place of an array and a view of it"),
    "truth": (lambda x: x * 2 if (x[:1, :1] * 0).T else x, "the truth of an array"),
    "index": (lambda x: x[[1, 0]] + x[-2:], "an index by an array"),
    "stencil": (lambda x: ck.pad(x, 1) * 2, "pad"),
    "reduction": (lambda x: x - ck.sum(x), "subtract of sum"),
    "method": (lambda x: x - x.mean(), "subtract of mean"),
    "axes": (lambda x: ck.exp(ck.moveaxis(x @ x, 0, 1)), "a permutation of axes by"),
    "number": (lambda x: ck.roll(x, 1) + 0.5, "roll"),
    "shape": (lambda x: x.reshape(2, 8) + 0.5, "reshape of shape"),
    "broadcast": (lambda x: ck.broadcast_to(x @ x, (2, 4, 4)), "broadcast_to of a product"),
    "ends": (lambda x: ck.diff(x, prepend=0), "diff"),
}


@pytest.mark.parametrize("case", NOT_ELEMENTWISE.values(), ids=NOT_ELEMENTWISE)
def test_what_is_not_elementwise_is_called(device: ck.Device, case: Any) -> None:
    """With a warning for each form, and never again; the source says it too."""
    function, said = case
    fused, x = ck.fuse(function), ck.asarray(np.random.default_rng(0).normal(size=(4, 4)))
    with pytest.warns(UserWarning, match=f"called one by one: {said}.*, which is not elementwise"):
        made = fused(x)
    np.testing.assert_array_equal(made.numpy(), function(x).numpy())
    np.testing.assert_array_equal(fused(2 * x).numpy(), function(2 * x).numpy())
    assert "is not fused: " + said.split("(")[0] in fused.source(x)


def test_numbers_have_no_views(device: ck.Device) -> None:
    with pytest.warns(UserWarning, match="an index of a number"):
        assert ck.fuse(lambda x, a: x + ck.sin(a)[None])(ck.asarray(1.0), 2.0).shape == (1,)


def heat(u: ck.Array) -> ck.Array:
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return u[1:-1, 1:-1] + 0.1 * (around - 4 * u[1:-1, 1:-1])


#: Functions of a matrix and a row that read views, of which each is one kernel.
OF_VIEWS: dict[str, Any] = {
    "stencil": lambda x, b: heat(x),
    "steps of what broadcasts": lambda x, b: (x * b)[::-1, 1:3] + b[None, 1:3],
    "views of views": lambda x, b: ck.permute_dims((x + b)[None, 1:, ::2][..., -1], (1, 0)) * 2,
    "a transpose": lambda x, b: ck.exp(x.T)[1:-1] - (x + b).mT[1:-1],
    "an axis of one": lambda x, b: x - x[:, :1] * b[np.int64(2)],
    "an empty part": lambda x, b: (x[3:1] + b) ** 2,
    "reduced": lambda x, b: ck.sum((x * b).T[2:] ** 2, axis=0),
    "flips": lambda x, b: ck.flip(x * b, 1) + ck.flipud(x) * ck.fliplr(x) - ck.flip(b),
    "turns": lambda x, b: ck.rot90(x * b) - ck.rot90(x, 3) * ck.flip(ck.rollaxis(x, 1)),
    "axes of one": lambda x, b: (
        ck.expand_dims(x, (0, 2)).squeeze(0) * ck.squeeze(b[None]) + x.reshape(4, 1, -1)
    ),
    "no axis": lambda x, b: ck.reshape(x[:1, :1], ()) * x[:1].ravel() + ck.atleast_1d(b[0]),
    "three axes": lambda x, b: ck.atleast_3d(x) - ck.atleast_2d(b),
    "broadcast": lambda x, b: ck.broadcast_to(b * x[0, 0], (3, 5)),
    "parts of what is broadcast": lambda x, b: ck.broadcast_to(x * b, (3, 4, 5))[1:, 2, ::-1] + 1,
    "broadcast together": lambda x, b: ck.broadcast_arrays(x, b)[1].T,
    "broadcast and reduced": lambda x, b: ck.sum(ck.broadcast_to(b, (4, 5)), axis=0),
    "parts": lambda x, b: ck.split(x * b, 2)[1] + ck.unstack(x)[0] - ck.hsplit(x, [2, 4])[1][:2, :1],
    "differences": lambda x, b: ck.diff(x * b, n=2) + ck.diff(b[:4]),
    "of a transpose": lambda x, b: ck.swapaxes(ck.flip(x.T, 0), 0, 1) + x.T.shape[0] * len(x),
}


@pytest.mark.parametrize("name", OF_VIEWS)
def test_kernels_read_views(device: ck.Device, launches: list[str], name: str) -> None:
    rng = np.random.default_rng(0)
    x, b = ck.asarray(rng.standard_normal((4, 5))), ck.asarray(rng.standard_normal(5))
    f, fused = OF_VIEWS[name], ck.fuse(OF_VIEWS[name])
    exact = f(x, b)
    launches.clear()
    made = fused(x, b)
    assert len(launches) == 1 and made.shape == exact.shape
    assert_close(made, exact, rtol=1e-14)
    if name in ("views of views", "steps of what broadcasts", "broadcast"):
        gradcheck(fused, [x, b], order=2)


def test_views_and_products(device: ck.Device) -> None:
    """Factors may be views, and several kernels read one."""
    x = ck.asarray(np.random.default_rng(0).standard_normal((4, 5)))

    def f(x: ck.Array) -> tuple[ck.Array, ...]:
        rows = ck.broadcast_to(x[0], (2, 5)) @ x.T
        return ck.tanh(x[1:] @ x[:-1].T), 2 * x[1:], ck.sum(x[1:] * x[:1], axis=1), rows

    for made, exact in zip(ck.fuse(f)(x), f(x), strict=True):
        assert_close(made, exact, rtol=1e-12)
    gradcheck(ck.fuse(f), [x])
    with pytest.raises(IndexError, match="out of bounds"):
        ck.fuse(lambda x: x[7] + 1)(x)
    with pytest.raises(ValueError, match="permute_dims: axes: expected a permutation of 2 axes"):
        ck.fuse(lambda x: ck.permute_dims(x, (0,)) + 1)(x)
    with pytest.raises(ValueError, match="broadcast_to: shape .* does not broadcast"):
        ck.fuse(lambda x: ck.broadcast_to(x, (2, 5)))(x)


def test_more_results_than_arguments(device: ck.Device) -> None:
    made = ck.fuse(lambda x: (x + 1, 2 * x, -x, x * x))(ck.asarray([3.0]))
    assert [one.item() for one in made] == [4.0, 6.0, -3.0, 9.0]
    a, b = (np.random.default_rng(seed).normal(size=(90, 90)) for seed in (0, 1))
    turned = ck.fuse(lambda x, y: (x + y, x - y, x * y, y))(ck.asarray(a), ck.asarray(b).T)
    for one, want in zip(turned, (a + b.T, a - b.T, a * b.T, b.T), strict=True):
        np.testing.assert_array_equal(one.numpy(), want)
