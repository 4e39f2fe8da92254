"""Products in the host's vectors, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn_support import close, sized

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.launch.family import Used
from cukern.linear import library, panels
from cukern.linear.families import PRODUCT
from cukern.linear.panels import Panels
from cukern.linear.problem import Product


@ck.fuse
def ended(x: Any, w: Any, b: Any, scale: float) -> Any:
    return ck.tanh(x @ w * scale) * b


def random(dtype: str, *shape: int) -> ck.Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return ck.asarray(rng.standard_normal(shape)).astype(dtype)


def check(used: Used, *arrays: ck.Array) -> None:
    close(ended(*arrays, 0.25), sized(lambda x, w, b: np.tanh(0.25 * (x @ w)) * b, *arrays))
    assert used and all(isinstance(one, Panels) for one in used)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sizes(dtype: str) -> None:
    """Tiles and panels, full and not; one panel of the depth, and several."""
    for m, k, n in ((1, 1, 1), (3, 17, 33), (9, 192, 32), (130, 400, 70), (137, 5, 64)):
        with PRODUCT.only("panels") as used:
            check(used, random(dtype, m, k), random(dtype, k, n), random(dtype, m, 1))


REDUCTIONS = ("min", "argmax", "sum", "any")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduced_rows(name: str) -> None:
    """Rows of one tile and of several, of one block and of two, in a batch; NaN of one row is of that row."""
    for dtype, shape, n in (("float32", (130, 5), 33), ("float64", (2, 3, 200), 16), ("float32", (1, 1), 1)):
        x, w, b = random(dtype, *shape), random(dtype, n, shape[-1]).T, random(dtype, n)
        x[..., -1, 0] = np.nan
        function = ck.fuse(
            lambda x, w, b: getattr(ck, name)(x @ w * 0.25 + b > 1 if name == "any" else x @ w + b, axis=-1)
        )
        with PRODUCT.only("panels") as used:
            y = function(x, w, b)
        assert [type(one) for one in used] == [Panels]
        a, c, d = (one.numpy().astype(np.float64) for one in (x, w, b))
        wanted = getattr(np, name)(a @ c * 0.25 + d > 1 if name == "any" else a @ c + d, axis=-1)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-5)


def test_strides_and_batches() -> None:
    rows = random("float32", 50, 67)
    lefts = [rows[::-2, 1:34], random("float32", 33, 40).T, ck.broadcast_to(random("float32", 33), (40, 33))]
    rights = [
        random("float32", 33, 50)[:, ::-2],
        random("float32", 40, 33).T,
        random("float32", 33, 80)[:, 1:65],
    ]
    for x in lefts:
        for w in rights:
            with PRODUCT.only("panels") as used:
                check(used, x, w, random("float32", 2 * w.shape[1])[::-2])
    x, w = random("float32", 2, 3, 9, 16), random("float32", 2, 3, 40, 16)
    for left, right in ((x, w.mT), (x[0, 0], w.mT), (x, w[0, 0].T)):
        with PRODUCT.only("panels") as used:
            check(used, left, right, random("float32", 2, 3, 9, 40))


def test_the_product_is_saved_and_differentiated() -> None:
    arrays = [random("float64", *shape) for shape in ((2, 3, 4), (4, 5), (5,))]
    with PRODUCT.only("panels", "library") as used:
        ck.testing.gradcheck(lambda x, w, b: ended(x, w, b, 0.5), arrays)
        most = ck.fuse(lambda x, w, b: (x @ w + b).max(axis=-1))
        ck.testing.gradcheck(most, arrays)
    assert {
        problem.saves for one, problem in zip(used, used.problems, strict=True) if type(one) is Panels
    } == {
        False,
        True,
    }


@pytest.mark.unchecked_only("checked launches leave the library out")
def test_large_products_alone_are_taken_from_the_library(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a processor with vectors of 64 bytes, which the library may not use; in one thread it may be faster."""
    if device.kind != "host":
        pytest.skip("for the host")
    monkeypatch.setattr(library, "_blas_has_vectors", lambda: False)
    chosen = {}
    for features in (frozenset({"avx512f"}), frozenset[str]()):
        monkeypatch.setattr(panels, "features", lambda features=features: features)
        for n in (64, 128):
            own = Product(*(fresh_layout(device, ck.float32, (n, n)) for _ in "ab"))
            (chosen[n, len(features)],) = (one.variant for one in PRODUCT.choices(own) if one.chosen)
    assert chosen == {(64, 1): "library", (128, 1): "panels", (64, 0): "library", (128, 0): "library"}
    one_thread = device.properties._replace(multiprocessors=1)
    for vectors in (False, True):
        monkeypatch.setattr(library, "_blas_has_vectors", lambda vectors=vectors: vectors)
        monkeypatch.setattr(panels, "features", lambda: frozenset({"avx512f"}))
        panel = Panels(tile_n=32).cost(own, one_thread)
        assert (library.library_seconds(own, one_thread) < panel) == vectors


def test_checked() -> None:
    with ck.testing.checked(), PRODUCT.only("panels") as used:
        check(used, random("float32", 11, 200), random("float32", 200, 37), random("float32", 37))
