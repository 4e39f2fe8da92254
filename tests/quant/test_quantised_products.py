"""Products with quantised weights: of few rows against the same rounding in NumPy, others against dense weights."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from blocks import BLOCKS, random_blocks

import cukern as ck
from cukern.array.layout import address, fresh_layout
from cukern.cli.tune import measure
from cukern.generate.kernels import gated_planes
from cukern.launch.family import STAND_IN
from cukern.linear.variants import TensorCores
from cukern.quant import planes, samples
from cukern.quant.families import QUANTISED, SETTLED
from cukern.quant.kinds import KINDS
from cukern.quant.problem import Quantised
from cukern.quant.product import transposed
from cukern.quant.rows import FewRows, SettledRows
from cukern.testing import asynchrony, gradcheck


def weights(kind: str, outputs: int, inputs: int) -> ck.quant.QuantArray:
    return ck.quant.from_blocks(random_blocks(kind, outputs, inputs), (outputs, inputs), kind)


def random(*shape: int, dtype: str = "float32") -> ck.Array:
    return ck.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)).astype(dtype)


def rounded(x: ck.Array) -> np.ndarray:
    """Each 32 neighbours as multiples of 1/127 of the largest."""
    x32 = x.astype("float32").numpy().reshape(x.shape[0], -1, 32)
    largest = np.abs(x32).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = np.where(largest > 0, np.float32(127) / largest, 0).astype(np.float32)
    made: np.ndarray = (np.rint(x32 * inverse) * (largest / np.float32(127)).astype(np.float64)).reshape(
        x.shape
    )
    return made


def check(x: ck.Array, w: ck.quant.QuantArray, bias: ck.Array | None = None) -> None:
    dense, own = w.dequantize().numpy().astype(np.float64), rounded(x)
    want, size = own @ dense.T, np.abs(own) @ np.abs(dense).T
    if bias is not None:
        want = want + bias.astype("float64").numpy()
    got = ck.quant.linear(x, w, bias)
    assert (got.dtype, got.shape) == (x.dtype, want.shape)
    exact = 2**-20 if x.dtype == ck.float32 else 0
    error = np.abs(got.astype("float64").numpy() - want)
    assert (error <= exact * size + (0 if exact else 2**-8) * np.abs(want) + 1e-6 * size).all()


@pytest.mark.parametrize("kind", BLOCKS)
def test_few_rows_of_every_kind(device: ck.Device, kind: str) -> None:
    """Rows that end within a slice, and whose blocks begin at any multiple of the kind's alignment."""
    inputs = 9 * 256 if KINDS[kind].weights == 256 else 33 * 32
    check(random(2, inputs), weights(kind, 11, inputs))


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=["copies", "bulk copies"])
@pytest.mark.parametrize(
    ("kind", "rows", "warps", "stages", "packs"),
    [("Q4_0", 4, 2, 3, 5), ("Q6_K", 2, 1, 2, 0), ("Q4_K", 1, 2, 4, 5)],
)
def test_constants_of_the_kernel(
    device: ck.Device, kind: str, rows: int, warps: int, stages: int, packs: int, capability: Any
) -> None:
    """The kernel of GPUs, on the host too: the last rows are cut, and warps have several items."""
    if device.kind == "cuda" and device.properties.compute_capability < capability:
        pytest.skip("has no such copies")
    limits = STAND_IN._replace(compute_capability=capability, multiprocessors=2)
    constants: Any = {"rows": rows, "warps": warps, "stages": stages, "packs": packs}
    for inputs in (2048, 2048 + 256):
        bias = random(9, dtype="bfloat16")
        with QUANTISED.only("few rows", limits=limits, **constants) as used:
            check(random(1, inputs, dtype="bfloat16"), weights(kind, 9, inputs), bias)
        assert used == [FewRows(1, **constants)]


@pytest.mark.parametrize(("kind", "inputs"), [("Q5_1", 1056), ("Q4_K", 2304)])
def test_copies_that_come_at_any_time(kind: str, inputs: int) -> None:
    """Of 16 bytes, or, as rows of the second are aligned, of all that a stage has of a row."""
    with ck.device("host"), QUANTISED.only("few rows", rows=2, warps=2, stages=3, packs=0):
        x, w = random(1, inputs), weights(kind, 7, inputs)
        for seed in range(2):
            with asynchrony("random", seed):
                check(x, w)


def test_rows_that_are_normalised(device: ck.Device) -> None:
    """The threads' sums of squares come from three warps; one row takes part of the last."""
    for inputs in (256, 704, 1536):
        x, norm, w = random(1, inputs), random(inputs), weights("Q4_0", 5, inputs)
        x32, added = x.numpy().astype(np.float64), random(1, 5)
        exact = x32 / np.sqrt(np.mean(x32**2) + 1e-5) * norm.numpy()
        with SETTLED.only("settled rows", warps=3) as used:
            assert planes.fuses(w)
            found = planes.product(planes.Normed(x, norm, 1e-5), w, added=added).numpy() - added.numpy()
        assert [one.warps for one in used] == [3]
        want = exact @ w.dequantize().numpy().T.astype(np.float64)
        size = np.sqrt((exact**2).mean()) * np.sqrt((w.dequantize().numpy().astype(np.float64) ** 2).sum(1))
        assert (np.abs(found - want) < 0.05 * size).all()


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_gated_rows_in_8_bits(device: ck.Device, kind: str) -> None:
    """A scale for 32 numbers, or for 16."""
    gate, up = random(2, 512), random(2, 512)
    made = gated_planes(gate, up, "silu", KINDS[kind])
    want = planes.rounded(ck.nn.silu(gate) * up, KINDS[kind])
    numbers = (ck.asarray(one.numbers).numpy().astype(int) for one in (made, want))
    assert np.abs(np.subtract(*numbers)).max() <= 1
    scales = (ck.asarray(one.factors).numpy().view(np.float32)[:, 0] for one in (made, want))
    np.testing.assert_allclose(*scales, rtol=1e-5)


@pytest.mark.parametrize("function", ["silu", "gelu_tanh"])
def test_a_gate_of_minus_infinity_is_closed(device: ck.Device, function: str) -> None:
    gate, up = random(2, 512), random(2, 512)
    found, want = (
        gated_planes(
            ck.where(ck.arange(512) % 7 == 0, low, gate).astype("float32"), up, function, KINDS["Q4_0"]
        )
        for low in (-np.inf, -1e4)
    )
    for one, other in ((found.numbers, want.numbers), (found.factors, want.factors)):
        np.testing.assert_array_equal(ck.asarray(one).numpy(), ck.asarray(other).numpy())


@pytest.mark.parametrize("rows", [3, 8])
def test_numbers_of_rows(device: ck.Device, rows: int) -> None:
    check(random(rows, 320), weights("Q8_0", 5, 320), random(5))


@pytest.mark.parametrize("rows", [3, 8])
def test_many_inputs_take_several_launches(device: ck.Device, rows: int) -> None:
    """Activations that do not fit the shared memory are multiplied in halves."""
    limits = STAND_IN._replace(max_shared_memory_per_block=9 * 1024)
    with QUANTISED.only("few rows", limits=limits) as used:
        check(random(rows, 2048), weights("Q4_0", 40, 2048), random(40))
    assert [one.columns for one in used] == [2]


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
@pytest.mark.parametrize(
    "tile", [TensorCores(*TensorCores.tiles[i]) for i in (-1, 1)], ids=["warps", "warpgroups"]
)
def test_tiles_that_dequantise(device: ck.Device, kind: str, tile: TensorCores) -> None:
    """Both ways round; rows, columns and the depth are cut."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9 and tile.grouped:
        pytest.skip("has no warpgroups")
    inputs = 96 if kind == "Q4_0" else 768
    w, bias = weights(kind, 72, inputs), random(72, dtype="bfloat16")
    dense = w.dequantize("bfloat16").astype("float64").numpy()
    x, dy = random(70, inputs, dtype="bfloat16"), random(70, 72, dtype="bfloat16")
    fields: Any = {"tile_m": tile.tile_m, "tile_n": tile.tile_n, "grouped": tile.grouped}
    with QUANTISED.only("tiles", **fields) as used:
        both = ck.quant.linear(x, w, bias), transposed(dy, w)
    assert [one.tile for one in used] == [tile, tile]
    exact = x.astype("float64").numpy() @ dense.T + bias.astype("float64").numpy()
    for made, want in zip(both, (exact, dy.astype("float64").numpy() @ dense), strict=True):
        assert made.shape == want.shape
        np.testing.assert_allclose(
            made.astype("float64").numpy(), want, rtol=2**-8, atol=1e-4 * np.abs(want).max()
        )


def test_explain_names_all_variants(device: ck.Device) -> None:
    x, w = random(9, 64, dtype="bfloat16"), weights("Q4_0", 6, 64)
    found = ck.explain(ck.quant.linear, x, w)
    table = repr(found)
    assert found.problems[0][0] is QUANTISED
    assert "quantised product: 9 x 64 of bfloat16 by 64 x 6 of Q4_0" in table
    assert all(name in table for name in QUANTISED.variants)
    for why in ("for few rows, which are rounded to 8 bits", "for multiples of 256 "):
        assert why in table or device.kind == "host"
    assert "few rows are rounded to 8 bits" in repr(ck.explain(ck.quant.linear, x[:8], w))


@pytest.mark.unchecked_only("checked ones leave the library out")
@pytest.mark.parametrize("family", [QUANTISED, SETTLED], ids=["calls", "steps"])
def test_products_are_what_the_reference_says(
    device: ck.Device, family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every variant that fits, as `python -m cukern tune` compares them."""
    monkeypatch.setattr(samples, "_MODELS", ((72, 256), (512, 512)))
    entries, refused = measure(family, device, 12, 1, 1, 60)
    assert refused == []
    assert len(entries) == (12 if family is QUANTISED or device.kind == "cuda" else 0)


@pytest.mark.parametrize("given", ["rounded", "normed", "plain"])
def test_steps_are_what_the_reference_says(
    device: ck.Device, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel of GPUs, on the host too."""
    monkeypatch.setattr(samples, "_MODELS", ((144, 512), (160, 512)) * 3)
    drawn = [one for one in itertools.islice(samples.steps(device, 5), 36) if one[0].given == given]
    with SETTLED.only("settled rows", warps=1, limits=STAND_IN._replace(multiprocessors=2)) as used:
        for problem, arrays in drawn:
            want, found = (made(problem)(*arrays).numpy() for made in (samples.settled, SETTLED))
            # Gates that are closed leave little of an element beside others, so that these are compared together.
            assert np.linalg.norm(found - want) < 5e-4 * np.linalg.norm(want)
    assert {one.gate for one in used.problems} == ({"", "silu"} if given == "normed" else {""})


def test_linear_takes_the_way_that_fits(device: ck.Device) -> None:
    w = weights("Q4_0", 6, 64)
    dense = w.dequantize().numpy().astype(np.float64)
    x, bias = random(2, 3, 64), random(6)
    few = ck.quant.linear(x, w, bias)
    own = rounded(x.reshape(6, 64)).reshape(2, 3, 64)
    np.testing.assert_allclose(few.numpy(), own @ dense.T + bias.numpy(), rtol=1e-5, atol=1e-5)
    exact = x.numpy().astype(np.float64) @ dense.T + bias.numpy()
    for made in (
        ck.quant.linear(x, w, bias, exact=True),
        ck.quant.linear(ck.broadcast_to(x, (4, 2, 3, 64)), w, bias)[1],
        ck.quant.linear(x.astype("float64"), w, bias),
    ):
        np.testing.assert_allclose(made.numpy(), exact, rtol=1e-5, atol=1e-5)
    assert ck.quant.linear(ck.zeros((0, 64)), w, bias).shape == (0, 6)
    assert ck.quant.linear(x[0, 0], w).shape == (6,)
    strided = ck.asarray(np.repeat(x.numpy(), 2, axis=-1))[..., ::2]
    np.testing.assert_array_equal(ck.quant.linear(strided, w, bias).numpy(), few.numpy())
    plain = ck.quant.quantize(ck.asarray(dense.astype(np.float32)), "F32")
    np.testing.assert_allclose(ck.quant.linear(x, plain, bias).numpy(), exact, rtol=1e-5, atol=1e-5)


def test_plain_numbers_are_multiplied_where_they_are(device: ck.Device) -> None:
    w = ck.quant.quantize(ck.ones((2, 3)), "F32")
    assert address(w._dense(ck.float32)._data) == address(w.blocks._data)
    w.dequantize()[...] = 7.0  # a copy
    assert ck.quant.linear(ck.ones((1, 3)), w).tolist() == [[3.0, 3.0]]


def test_what_is_not_finite_stays_in_its_row(device: ck.Device) -> None:
    w = weights("Q4_1", 6, 64)
    for value in (np.nan, np.inf):
        x = np.ones((2, 64), np.float32)
        x[1, 40] = value
        y = ck.quant.linear(ck.asarray(x), w).numpy()
        assert np.isfinite(y[0]).all()
        assert not np.isfinite(y[1]).any()
    assert not ck.quant.linear(ck.zeros((1, 64)), w).numpy().any()


def test_gradients(device: ck.Device) -> None:
    """Of float64 by finite differences to second order; of few rows that of the exact product."""
    w = weights("Q4_0", 4, 32)
    x, bias = random(2, 32).astype("float64"), random(4).astype("float64")
    assert gradcheck(lambda x, b: ck.quant.linear(x, w, b) ** 2, [x, bias], order=2)
    g = ck.grad(lambda x: ck.quant.linear(x, w).sum())(x.astype("float32"))
    np.testing.assert_allclose(g.numpy(), np.tile(w.dequantize().numpy().sum(0), (2, 1)), rtol=1e-5)
    with pytest.raises(TypeError, match="QuantArray"):
        ck.grad(lambda w: ck.quant.linear(x, w).sum())(w)


def test_module(device: ck.Device, tmp_path: Any) -> None:
    x = random(2, 64)
    layer = ck.quant.Linear(weights("Q8_0", 3, 64), ck.nn.Parameter(ck.ones(3)))
    want = layer(x).numpy()
    np.testing.assert_array_equal(want, ck.quant.linear(x, layer.weight, layer.bias).numpy())
    assert repr(layer) == "Linear(blocks: uint8[3, 68] buffer, bias: float32[3], Q8_0[3, 64])"
    layer.save(tmp_path / "layer.safetensors")
    other = ck.quant.Linear(ck.quant.quantize(ck.zeros((3, 64)), "Q8_0"), ck.nn.Parameter(ck.zeros(3)))
    np.testing.assert_array_equal(other.load(tmp_path / "layer.safetensors")(x).numpy(), want)
    with ck.Tape() as tape:
        loss = layer(x).sum()
    assert tape.gradient(loss, layer).bias.tolist() == [2.0] * 3


def test_captured(device: ck.Device) -> None:
    w, table = weights("Q4_K", 8, 256), weights("Q6_K", 5, 256)

    @ck.capture
    def step(ids: ck.Array) -> ck.Array:
        return ck.quant.linear(ck.quant.take(table, ids), w)

    for ids in ([0, 3], [4, 1]):
        places = ck.asarray(ids)
        want = ck.quant.linear(table.dequantize()[places], w).numpy()
        for _ in range(2):
            np.testing.assert_array_equal(step(places).numpy(), want)


def divided(
    kind: str,
    rows: int,
    outputs: int,
    inputs: int,
    shared: int = STAND_IN.max_shared_memory_per_block,
    of: type[FewRows] = FewRows,
) -> FewRows:
    """As on an H200, but for the shared memory."""
    x = fresh_layout(ck.Device("host"), ck.float32, (rows, inputs))
    given = "rounded" if of is SettledRows and rows > 1 else "plain"
    problem = Quantised(x, KINDS[kind], (outputs, inputs), given=given)
    return of.configs(problem, STAND_IN._replace(max_shared_memory_per_block=shared))[0]


def test_how_the_work_is_divided() -> None:
    """Rows at a time if each of half of the warps gets some and slices fit; activations in packs or planes."""
    assert divided("Q4_0", 1, 14336, 4096) == FewRows(1, 2, 24, 3, 1)
    assert divided("Q4_0", 1, 4096, 14336) == FewRows(1, 2, 24, 3, 3)
    assert divided("Q4_0", 1, 1024, 4096) == FewRows(1, 1, 24, 4, 1)
    assert divided("Q6_K", 1, 14336, 4096) == FewRows(1, 2, 24, 2, 1)
    assert divided("Q6_K", 1, 4096, 14336) == FewRows(1, 1, 32, 3, 2)
    assert divided("Q4_0", 8, 14336, 4096) == FewRows(8, 2, 16, 4, 0)
    assert divided("Q4_0", 1, 14336, 4096, shared=48 * 1024) == FewRows(1, 1, 12, 3, 2)
    assert divided("Q4_0", 8, 4096, 28672).columns == 4


def test_how_the_work_is_divided_where_weights_are_read_early() -> None:
    """Fewer warps with more slices, if these fit; else as in other products. One row is asked for behind one slice."""
    early = partial(divided, of=SettledRows)
    assert early("Q4_K", 1, 6144, 4096) == SettledRows(1, 2, 16, 4, 1, 1)
    assert early("Q4_K", 1, 28672, 4096) == SettledRows(1, 2, 16, 4, 1, 1)
    assert early("Q4_K", 1, 4096, 14336) == SettledRows(1, 2, 20, 4, 3, 1)
    as_others: Any = (
        ("Q4_K", 1, 1024, 4096),
        ("Q8_0", 1, 6144, 4096),
        ("Q2_K", 1, 6144, 4096),
        ("Q4_K", 1, 6144, 4096, 128 * 1024),
        ("Q4_K", 1, 4096, 14336, 190 * 1024),
    )
    for sizes in as_others:
        assert early(*sizes) == SettledRows(*dataclasses.astuple(divided(*sizes))[:-1], 1)
    for sizes in (("Q4_K", 2, 6144, 4096), ("Q4_K", 1, 4096, 2**16)):
        assert early(*sizes) == SettledRows(*dataclasses.astuple(divided(*sizes))[:-2], 0)
