"""What is no array of cukern's as an argument: NumPy's arrays, Python's numbers and nested lists, in every function."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from namespace_cases import Case
from test_namespace import CASES, drawn, layout_dtype, mapped, results

import cukern as ck

#: Functions that write into an array: what was made of a list would be written, and lost.
WRITING = {"copyto", "place", "put", "put_along_axis", "putmask"}
#: Functions to which a list says how arrays lie beside one another.
NESTING = {"block"}
#: Functions that leave what is NumPy's to NumPy, which computes in its own dtype.
CREATING = {"linspace", "logspace", "geomspace"}


def same(case: Case, got: Any, want: Any, device: ck.Device) -> None:
    for one, other in zip(results(got), results(want), strict=True):
        if not isinstance(other, ck.Array):
            assert one == other, case.id
            continue
        assert (one.shape, one.dtype) == (other.shape, other.dtype), case.id
        assert one.device == device, case.id
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=case.id)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name not in WRITING | CREATING], ids=lambda case: case.id
)
def test_numpy_arrays_are_taken_in_every_place(device: ck.Device, case: Case) -> None:
    arguments = drawn(case, layout_dtype(case))
    options = mapped(case.options, ck.asarray)
    want = case.function()(*mapped(arguments, ck.asarray), **options)
    same(case, case.function()(*arguments, **case.options), want, device)
    count = sum(isinstance(one, np.ndarray) for one in results(arguments))
    for place in range(count if count > 1 else 0):
        numbers = itertools.count()
        one_of_numpy = mapped(arguments, lambda x, p=place, n=numbers: x if next(n) == p else ck.asarray(x))
        same(case, case.function()(*one_of_numpy, **options), want, device)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name not in WRITING | NESTING], ids=lambda case: case.id
)
def test_nested_lists_are_what_asarray_makes_of_them(device: ck.Device, case: Case) -> None:
    arguments = drawn(case, layout_dtype(case))
    if any(isinstance(one, np.ndarray) and not one.size for one in results(arguments)):
        return  # the list of an empty array has lost its dtype
    lists = mapped(arguments, lambda x: x.tolist())
    arrays = mapped(arguments, lambda x: ck.asarray(x.tolist()))
    options = mapped(case.options, lambda x: ck.asarray(x.tolist()))
    want = case.function()(*arrays, **options)
    same(case, case.function()(*lists, **mapped(case.options, lambda x: x.tolist())), want, device)


def test_functions_of_training_take_them(device: ck.Device) -> None:
    logits, targets = np.asarray([[1.0, 2.0], [0.0, 0.5]], "f4"), [1, 0]
    want = ck.nn.cross_entropy(ck.asarray(logits), ck.asarray(targets)).item()
    assert ck.nn.cross_entropy(logits, targets).item() == want
    assert ck.nn.cross_entropy(ck.asarray(logits), np.asarray(targets)).item() == want
    assert ck.nn.mse_loss(ck.asarray(logits), logits.tolist()).item() == 0.0
    layer = ck.nn.Linear(2, 3, rng=0)
    assert ck.allclose(layer(logits), layer(ck.asarray(logits)))
    assert ck.nn.embedding([1], logits).tolist() == [[0.0, 0.5]]
    assert ck.nn.one_hot([1, 0], 2).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert ck.nn.layer_norm(logits.tolist(), 2, eps=0.0).tolist() == [[-1.0, 1.0], [-1.0, 1.0]]
    assert ck.nn.max_pool2d(logits[None], 2).tolist() == [[[2.0]]]


def test_a_number_or_list_beside_an_array_loses_no_digits(device: ck.Device) -> None:
    x = ck.asarray([0.1, 0.2], dtype=ck.float64)
    tenth = ck.asarray(0.1, dtype=ck.float64)
    assert (x - [0.1, 0.2]).tolist() == [0.0, 0.0] and ([0.1, 0.2] - x).tolist() == [0.0, 0.0]
    assert ck.isin(x, [0.1]).tolist() == [True, False]
    assert ck.searchsorted(x, [0.1, 0.2]).tolist() == [0, 1]
    assert ck.hstack([x, [0.1]])[2] == tenth and ck.concat([x, (0.1,)])[2] == tenth
    half = ck.ones(2, dtype=ck.float16)
    assert ck.dot(half, 2.5).dtype == ck.float16  # a number, as in arithmetic
    assert ck.concat([half, [2.5]]).dtype == ck.float32  # a list, as asarray makes it


def test_what_holds_no_numbers_is_refused_by_name(device: ck.Device) -> None:
    x = ck.ones(2)
    for call, message in (
        (lambda: ck.dot(x, "a"), "dot: x2: expected an array, a number or nested lists of them, got str"),
        (lambda: ck.concat([x, "a"]), r"concat: arrays\[1\]: expected an array, .* got str"),
        (lambda: ck.sum(["a"]), "sum: x: expected numbers that a dtype of cukern holds, got <U1 data"),
        (lambda: ck.sort([1, None]), "sort: x: expected numbers that a dtype of cukern holds, got object"),
        (lambda: ck.sum(np.zeros(1, "M8[s]")), "sum: x: expected numbers"),
        (lambda: ck.linalg.solve(object(), x), "solve: x1: expected an array, .* got object"),
        (lambda: ck.nn.cross_entropy(x, {}), "cross_entropy: targets: expected an array, .* got dict"),
        (
            lambda: ck.put_along_axis(np.ones(2), [0], 1.0),
            "put_along_axis: x: expected a cukern.Array to write",
        ),
        (lambda: x + None, "unsupported operand"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ValueError, match="sum: x: .*inhomogeneous"):
        ck.sum([[1], [2, 3]])


def test_gradients_pass_beside_lists(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    gradient = ck.grad(lambda x: ck.dot(ck.hstack([x, [3.0]]), [1.0, 2.0, 5.0]))(x)
    assert gradient.tolist() == [1.0, 2.0]


def test_numpys_functions_take_lists_beside_our_arrays(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    for made in (np.hstack([x, [1.0]]), np.concatenate([[1.0], x])):
        assert isinstance(made, ck.Array) and made.device == device and made.shape == (3,)
    assert isinstance(np.dot([1.0, 2.0], x), ck.Array)
    assert np.add([1.0, 1.0], x).tolist() == [2.0, 3.0]


def test_matplotlib_draws_our_arrays(device: ck.Device) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    x, y = ck.arange(3), ck.asarray([0.5, 1.0, 2.0])
    figure, axes = plt.subplots()
    bars = axes.bar(x, y)
    assert [bar.get_height() for bar in bars] == [0.5, 1.0, 2.0]
    counts, *_ = axes.hist2d(y, y, bins=2)
    assert np.asarray(counts).sum() == 3
    axes.plot(x, y)
    axes.scatter(x, y, c=y)
    axes.hist(y, bins=2)
    axes.errorbar(x, y, yerr=y)
    axes.fill_between(x, y, 0)
    axes.imshow(ck.outer(y, y))
    figure.canvas.draw()
    plt.close(figure)


def test_arguments_under_numpys_names(device: ck.Device) -> None:
    a = np.arange(12.0).reshape(4, 3)
    b = np.where(a == 5, np.nan, a)
    mask = a % 2 == 0
    calls: dict[str, Any] = {
        "take": lambda xp, x, n: (xp.take(x, [0, 2], 1), xp.take(x, indices=[1], axis=0, mode="wrap")),
        "take_along_axis": lambda xp, x, n: xp.take_along_axis(x, indices=xp.argsort(-x, 1), axis=1),
        "moveaxis": lambda xp, x, n: xp.moveaxis(x, source=0, destination=1),
        "repeat": lambda xp, x, n: (xp.repeat(x, repeats=2, axis=0), x.repeat(repeats=2)),
        "tile": lambda xp, x, n: xp.tile(x, reps=(2, 1)),
        "partition": lambda xp, x, n: xp.partition(x, kth=1),
        "clip": lambda xp, x, n: (
            xp.clip(x, a_min=2, a_max=5),
            xp.clip(x, 2, 5),
            xp.clip(x, a_min=None, a_max=3),
        ),
        "cross": lambda xp, x, n: (
            xp.cross(x, x.T + 1, axisa=1, axisb=0, axisc=0),
            xp.cross(x.T, x.T + 1, axis=0),
            xp.cross(x, x + 1, -1, 1),
        ),
        "sum": lambda xp, x, n: (xp.sum(x, 0, "f4"), x.sum(1, "f4"), xp.prod(x, 0, "f4")),
        "mean": lambda xp, x, n: (xp.mean(x, 0, "f4"), xp.std(x, 1, "f4"), x.var(0, "f4")),
        "nansum": lambda xp, x, n: (
            xp.nansum(n, 0, "f8", initial=3, where=mask_of[xp]),
            xp.nanprod(n, 1, initial=2),
            xp.nanmean(n, 1, where=mask_of[xp]),
            xp.nanvar(n, 0, where=mask_of[xp]),
            xp.nanstd(n, 0, ddof=1, where=mask_of[xp]),
        ),
        "zeros_like": lambda xp, x, n: (xp.zeros_like(x, shape=(2,)), xp.full_like(x, 7, shape=3)),
        "eye": lambda xp, x, n: (xp.eye(N=2, M=3, k=1, dtype="f8"), xp.eye(3, 3, -1), xp.tri(N=2, M=3)),
        "average": lambda xp, x, n: xp.average(x, 0, None, True),
        "indices": lambda xp, x, n: xp.indices((2, 3), "i8", True),
        "stacks": lambda xp, x, n: (xp.hstack([x, x], dtype="f4"), xp.vstack([x, x], dtype="f4")),
        "astype": lambda xp, x, n: x.astype(dtype="f4"),
        "split": lambda xp, x, n: xp.array_split(x, indices_or_sections=3, axis=1),
        "insert": lambda xp, x, n: (
            xp.insert(x, obj=1, values=7, axis=0),
            xp.delete(x, obj=1),
            xp.append(x, values=x),
        ),
        "quantile": lambda xp, x, n: xp.quantile(x, q=0.5, axis=0),
        "resize": lambda xp, x, n: xp.resize(x, new_shape=(2, 2)),
        "rollaxis": lambda xp, x, n: xp.rollaxis(x, axis=1, start=0),
    }
    mask_of = {np: mask, ck: ck.asarray(mask)}
    for name, call in calls.items():
        got, want = call(ck, ck.asarray(a), ck.asarray(b)), call(np, a, b)
        for one, other in zip(results(got), results(want), strict=True):
            assert one.shape == other.shape, name
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-6, err_msg=name)
    x = ck.asarray(a)
    assert ck.topk(x, 2, 0)[0].tolist() == ck.topk(x, 2, axis=0)[0].tolist()
    assert [part.tolist() for part in ck.unstack(x, 1)] == a.T.tolist()
    with pytest.raises(TypeError, match="min and a_min"):
        ck.clip(x, 1, 2, a_min=1)
