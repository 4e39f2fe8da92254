"""The kernels of convolutions of each channel with one filter of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, random

import cukern as ck
from cukern.nn.convolution import (
    depthwise,
    depthwise_column_weights,
    depthwise_plane_weights,
    depthwise_planes,
    depthwise_ring,
    depthwise_ring_weights,
    depthwise_weights,
    direct,
    plan,
)
from cukern.nn.convolution.geometry import Windows


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype"),
    [
        ((2, 40, 5, 9), (3, 2), (1, 0), "bfloat16"),
        ((2, 3, 5, 8), (3, 3), (1, 1), "float32"),
        pytest.param((1, 5, 1, 1), (3, 3), (1, 1), "float32", marks=pytest.mark.thorough),
        pytest.param((2, 3, 7, 8), (2, 3), (0, 2), "float64", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_threads_walk_down_rows(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
) -> None:
    """Blocks, bands of rows and channels as on a GPU, with threads beyond the last."""
    forms, last = [], shape[1] == 40
    chosen = depthwise.form_for

    def form_for(*given: Any) -> Any:
        form = chosen(*given)
        assert form is not None
        forms.append(
            form._replace(across=3 if last else 1, block=16, rows=2, ahead=1 if last else form.ahead)
        )
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_ring, "form_for", lambda *given: None)
    monkeypatch.setattr(depthwise, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), dtype, last=last, groups=shape[1], padding=padding)
    assert len(forms) == 2 and forms[0].last == last and forms[0].whole == (shape[3] == 8)


@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((2, 72, 9, 70), (3, 2), (1, 0)),
        pytest.param((1, 136, 3, 7), (2, 3), (0, 2), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_rows_are_brought_ahead(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
) -> None:
    """Tiles of columns and of channels, bands, and rings that go round."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the form is chosen on sm_90 alone")
    forms = []

    def form_for(task: Any, image: Any, _: Any) -> Any:
        forms.append(depthwise_ring.form_of(task, image, 64 * 1024, 64))
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_ring, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), "bfloat16", last=True, groups=shape[1], padding=padding)
    assert len(forms) == 2 and all(forms)


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "memory"),
    [
        ((2, 72, 9, 70), (3, 2), (1, 0), 112 * 1024),
        pytest.param((1, 136, 9, 7), (2, 3), (0, 2), 58 * 1024, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_rows_of_gradients_of_weights_are_brought_ahead(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    memory: int,
) -> None:
    """Tiles of columns and of channels, bands, and rings that go round."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the form is chosen on sm_90 alone")
    forms = []

    def form_for(task: Any, image: Any, output: Any, _: Any) -> Any:
        forms.append(depthwise_ring_weights.form_of(task, image, output, memory, 64))
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_ring_weights, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), "bfloat16", last=True, groups=shape[1], padding=padding)
    (form,) = forms
    assert 1 < form.stages < form.rows < shape[2]


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype"),
    [
        ((2, 24, 7, 10), (3, 3), (1, 1), "bfloat16"),
        pytest.param((3, 8, 9, 5), (2, 3), (2, 0), "float32", marks=pytest.mark.thorough),
        pytest.param((2, 144, 4, 4), (3, 1), (0, 1), "float16", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_gradients_of_weights_walk_down_rows(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
) -> None:
    """Bands of rows, threads beyond the last, and parts whose sums are added up."""
    forms = []

    def form_for(task: Any, image: Any, output: Any, _: Any) -> Any:
        form = depthwise_weights.form_of(task, image, output)
        assert form is not None
        forms.append(form if kernel[1] == 1 else form._replace(block=16))
        assert (forms[-1].parts(task) > 1) == (kernel[1] > 1)
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_ring_weights, "form_for", lambda *given: None)
    monkeypatch.setattr(depthwise_weights, "_ROWS", 3)
    monkeypatch.setattr(depthwise_weights, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), dtype, last=True, groups=shape[1], padding=padding)
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype"),
    [
        ((3, 5, 7, 16), (3, 3), (1, 1), "bfloat16"),
        ((2, 3, 6, 9), (3, 2), (1, 0), "float32"),
        pytest.param((2, 3, 9, 8), (2, 3), (2, 2), "float32", marks=pytest.mark.thorough),
        pytest.param((2, 4, 5, 10), (1, 3), (0, 0), "float64", marks=pytest.mark.thorough),
        pytest.param((1, 2, 4, 4), (3, 1), (0, 1), "float16", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_gradients_of_weights_of_rows_of_columns(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
) -> None:
    """Bands of rows, strips that threads take by turns, and parts whose sums are added up."""
    forms = []

    def form_for(task: Any, image: Any, output: Any, _: Any) -> Any:
        form = depthwise_column_weights.form_of(task, image, output, 1)
        assert form is not None and form.whole == (kernel[1] > 1 and shape[3] % 2 == 0)
        forms.append(form._replace(rows=3, block=32, wanted=2, ahead=2 if kernel[0] == 2 else 1))
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_plane_weights, "form_for", lambda *given: None)
    monkeypatch.setattr(depthwise_column_weights, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), dtype, groups=shape[1], padding=padding)
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype"),
    [
        ((4, 9, 8, 8), (3, 3), (1, 1), "bfloat16"),
        pytest.param((2, 3, 9, 16), (2, 3), (0, 1), "float16", marks=pytest.mark.thorough),
        pytest.param((1, 4, 16, 10), (3, 1), (2, 0), "bfloat16", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_planes_are_brought_ahead(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
) -> None:
    """Warps that have several planes and some that have none, bands of rows, and rings that go round."""
    if device.kind == "cuda" and device.properties.compute_capability[0] < 9:
        pytest.skip("bulk copies came with sm_90")
    forms = []

    def form_for(task: Any, image: Any, _: Any) -> Any:
        form = depthwise_planes.form_of(task, image, 227 * 1024)
        forms.append(form and form._replace(warps=2, stages=2, resident=1))
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_planes, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), dtype, groups=shape[1], padding=padding)
    assert len(forms) == 2 and forms[0] is not None


def test_planes_that_are_not_brought(device: ck.Device) -> None:
    """Sizes in bytes that are no multiple of 16, views, and planes of which not two a warp are in shared memory."""
    forms = []

    def formed(task: Any, image: Any, _: Any) -> None:
        forms.append(depthwise_planes.form_of(task, image, 227 * 1024))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_plans", {})
        patch.setattr(depthwise_planes, "form_for", formed)
        whole = ck.zeros((1, 4, 56, 56), "bfloat16")
        weights = ck.zeros((4, 1, 3, 3), "bfloat16")
        for x in (
            whole,
            whole[:, :, :14, :14].copy(),
            whole[:, :, 1:],
            ck.zeros((1, 4, 112, 112), "bfloat16"),
        ):
            ck.nn.conv2d(x, weights, padding=1, groups=4)
    assert [one is not None for one in forms] == [True, False, False, False]


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype", "form"),
    [
        ((9, 3, 19, 24), (3, 3), (1, 1), "bfloat16", (8, 8, 10)),
        ((3, 2, 9, 56), (3, 3), (0, 1), "float16", (8, 16, 7)),
        pytest.param((2, 3, 8, 10), (3, 1), (1, 0), "bfloat16", (2, 4, 8), marks=pytest.mark.thorough),
        pytest.param((2, 3, 4, 36), (1, 3), (2, 1), "bfloat16", (4, 12, 8), marks=pytest.mark.thorough),
        pytest.param((1, 2, 28, 28), (3, 3), (1, 1), "float16", (4, 8, 14), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_planes_of_gradients_of_weights_are_brought_ahead(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
    form: tuple[int, int, int],
) -> None:
    """Bands of rows and a last one of fewer, lanes beyond the columns, warps without an image, parts of the batch."""
    if device.kind == "cuda" and device.properties.compute_capability[0] < 9:
        pytest.skip("bulk copies came with sm_90")
    forms = []

    def form_for(task: Any, image: Any, output: Any, _: Any) -> Any:
        made = depthwise_plane_weights.form_of(task, image, output, 227 * 1024, 132)
        assert made is not None and (made.items, made.per, made.each) == form
        forms.append(made._replace(warps=2, stages=2, share=5))
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(depthwise_plane_weights, "form_for", form_for)
    check(shape, (shape[1], 1, *kernel), dtype, ulps=2, groups=shape[1], padding=padding)
    assert len(forms) == 1


@pytest.mark.parametrize("of_image", [True, False])
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (depthwise_plane_weights, (1, 120, 15, 8)),
        (depthwise_plane_weights, (1, 80, 2, 40)),
        (depthwise_column_weights, (1, 56, 7, 8)),
        (depthwise_column_weights, (1, 63, 7, 9)),
        (depthwise_weights, (1, 48, 7, 6)),
        (depthwise_ring_weights, (1, 64, 7, 9)),
        (direct, (1, 12, 3, 4)),
    ],
    ids=lambda one: one.__name__.rpartition(".")[2] if hasattr(one, "__name__") else str(one),
)
def test_infinity_is_multiplied_by_what_its_windows_read(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, module: Any, shape: tuple[int, ...], of_image: bool
) -> None:
    """By the padding's zeros, which make NaN of it, and not by zeros in place of outputs that are not a thread's."""
    by_copies = module in (depthwise_plane_weights, depthwise_ring_weights)
    if by_copies and device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the form is chosen on sm_90 alone")
    forms = []
    given: dict[Any, tuple[int, ...]] = {
        depthwise_plane_weights: (227 * 1024, 132),
        depthwise_ring_weights: (112 * 1024, 64),
        depthwise_column_weights: (1,),
    }

    def form_for(task: Any, image: Any, output: Any, _: Any) -> Any:
        form = module.form_of(task, image, output, *given.get(module, ()))
        forms.append(form._replace(rows=3, block=32) if module is depthwise_column_weights else form)
        return forms[-1]

    monkeypatch.setattr(plan, "_plans", {})
    kinds = depthwise_ring_weights, depthwise_weights, depthwise_plane_weights, depthwise_column_weights
    for one in kinds:
        monkeypatch.setattr(one, "form_for", form_for if one is module else lambda *_: None)
    monkeypatch.setattr(depthwise_weights, "_ROWS", 3)
    dy, x = (random(seed, shape, "bfloat16").numpy() for seed in range(2))
    channels, pixels = shape[1], shape[2] * shape[3]
    own = (x if of_image else dy).reshape(channels, pixels)
    own[range(channels), np.arange(channels) % pixels] = np.inf
    last = module in (depthwise_weights, depthwise_ring_weights)
    arrays = [innermost(ck.asarray(one)) if last else ck.asarray(one) for one in (dy, x)]
    found = plan.weights_gradient(*arrays, Windows((1, 1), (1, 1), (1, 1), channels), (3, 3), last)
    with np.errstate(invalid="ignore"):
        doubles = (one.astype(np.float64) for one in (dy, x))
        wanted = Definition(2, padding=1, groups=channels).weights(*doubles, (3, 3))
    assert len(forms) == (module is not direct) and all(forms)
    close(found, wanted, 2)


def test_parts_of_many_images_are_found_in_few_trials():
    """They are the best of all numbers of parts, of which no more are tried than twice the places."""

    class Image:
        tried = 0

        def __init__(self, batch):
            self._batch = batch

        @property
        def batch(self):
            self.tried += 1
            return self._batch

    def best(batch, groups, warps, places):
        def time(parts):
            planes = -(-batch // parts)
            planes = -(-planes // warps)
            return 2 * -(-groups * parts // places) * (planes + 1) + (parts > 1)

        return min(range(1, -(-batch // warps) + 1), key=time)

    for batch, groups, warps, places in (
        (20_000, 3, 4, 12),
        (5_000, 99, 1, 132),
        (64, 384, 8, 1056),
        (1, 7, 8, 12),
    ):
        image = Image(batch)
        task = SimpleNamespace(image=image, groups=groups)
        assert depthwise_plane_weights._parts(task, warps, places) == best(batch, groups, warps, places)
        assert image.tried <= 2 * places + 1
