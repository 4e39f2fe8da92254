"""Blocks against those of the package gguf, bit for bit: dequantised, quantised, and rows that are taken."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from blocks import random_blocks

import cukern as ck
from cukern.quant.kinds import KINDS

gguf = pytest.importorskip("gguf")
MADE = [name for name, row in KINDS.items() if row.levels or row.dtype is not None]


def reference(kind: str, blocks: np.ndarray) -> np.ndarray:
    """The weights by the package gguf, or by the definition of the kinds that it does not read."""
    if kind in ("Q8_1", "Q8_K"):
        row = KINDS[kind]
        each = blocks.reshape(blocks.shape[0], -1, row.bytes)
        if kind == "Q8_1":
            d, q = np.ascontiguousarray(each[..., :2]).view(np.float16), each[..., 4:]
        else:
            d, q = np.ascontiguousarray(each[..., :4]).view(np.float32), each[..., 4:260]
        with np.errstate(all="ignore"):
            return (d.astype(np.float32) * q.view(np.int8)).reshape(blocks.shape[0], -1)
    with np.errstate(all="ignore"):
        made: Any = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    return np.asarray(made)


@pytest.mark.parametrize("kind", KINDS)
def test_dequantised_bits(device: ck.Device, kind: str) -> None:
    """Scales of any bits, infinity and NaN among them."""
    row = KINDS[kind]
    if kind != "Q8_1":  # GGML's has two float16, the package's two floats
        sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        assert sizes == (row.weights, row.bytes)
    inputs = 3 * 256
    for scale in (0.01, None):
        if scale is None and kind == "Q8_K":
            continue  # products of subnormal floats differ with the flushing of the device
        blocks = random_blocks(kind, 5, inputs, scale) if row.dtype is None else plain(kind, 5, inputs)
        want = reference(kind, blocks)
        w = ck.quant.from_blocks(blocks, (5, inputs), kind)
        assert w.device is device
        got = w.dequantize().numpy()
        assert_bits(got, want)
        assert_bits(ck.quant.take(w, [3, 0, -1, 3]).numpy(), got[[3, 0, 4, 3]])
        np.testing.assert_array_equal(w.blocks.numpy(), blocks)


def plain(kind: str, rows: int, inputs: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(rows, inputs)).astype(np.float32)
    return np.asarray(gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind])).view(np.uint8)


def assert_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, but for those of NaN."""
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("kind", MADE)
def test_quantised_bytes(device: ck.Device, kind: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(9, 96)) * 10.0 ** rng.integers(-3, 4, (9, 1))).astype(np.float32)
    x[0] = 0
    x[1, :40] = -0.25
    x[2, 32:64] = np.repeat([1, -1], 16)  # of equal extremes the first decides
    w = ck.quant.quantize(ck.asarray(x), kind)
    want = np.asarray(gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind])).view(np.uint8)
    np.testing.assert_array_equal(w.blocks.numpy(), want)
    assert (w.shape, w.kind, w.nbytes, w.size, w.ndim) == ((9, 96), kind, want.size, 864, 2)
    if kind == "Q4_0":
        np.testing.assert_array_equal(ck.quant.quantize(ck.asarray(x.T).T, kind).blocks.numpy(), want)
        cube = ck.quant.quantize(ck.asarray(x).reshape(3, 3, 96), kind)
        assert cube.blocks.shape == (3, 3, 54)
        assert_bits(cube.dequantize().numpy(), w.dequantize().numpy().reshape(3, 3, 96))


@pytest.mark.parametrize(("kind", "dtype"), [("Q6_K", "bfloat16"), ("Q4_0", "float32"), ("Q4_K", "float64")])
def test_the_kernel_of_gpus(device: ck.Device, kind: str, dtype: str) -> None:
    """A warp's weights go through shared memory; the last warp has fewer, and rows end within one."""
    w = ck.quant.from_blocks(random_blocks(kind, 3, 2304), (3, 2304), kind)
    made, row = ck.empty((3, 2304), dtype), KINDS[kind]
    kernel = ck.Kernel(
        "quant/dequantize.cu",
        block=64,
        kind=row.header,
        index_type="int",
        serial=False,
        placed=False,
        clip=True,
    )
    count = made.size // row.unit
    kernel(w.blocks, None, made, count, 1, 2304 // row.weights, 3, grid=-(-count // 64), elem=made.dtype)
    np.testing.assert_array_equal(
        made.astype("float64").numpy(), w.dequantize(dtype).astype("float64").numpy()
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes_are_rounded_once(device: ck.Device, dtype: str) -> None:
    w = ck.quant.from_blocks(random_blocks("Q6_K", 2, 256), (2, 256), "Q6_K")
    want = w.dequantize().astype(dtype)
    made = w.dequantize(dtype)
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(made.astype("float64").numpy(), want.astype("float64").numpy())


def test_empty_arrays_and_shapes_of_rows(device: ck.Device) -> None:
    none = ck.quant.from_blocks(b"", (0, 64), "Q4_0")
    assert none.dequantize().shape == (0, 64)
    assert ck.quant.quantize(ck.zeros((3, 0)), "Q8_0").dequantize().shape == (3, 0)
    w = ck.quant.quantize(ck.ones((4, 32)), "Q4_0")
    assert ck.quant.take(w, 2).shape == (32,)
    assert ck.quant.take(w, np.zeros((2, 0), np.int64)).shape == (2, 0, 32)
    assert ck.quant.take(w, ck.asarray([[1], [2]]), "float16").dtype == ck.float16
    assert ck.quant.take(ck.quant.quantize(ck.ones((4, 3)), "F16"), [1]).tolist() == [[1.0] * 3]


def test_misaligned_bytes_are_copied(device: ck.Device) -> None:
    blocks = random_blocks("Q4_K", 1, 256)
    whole = np.concatenate([[np.uint8(0)], blocks[0]])
    w = ck.quant.from_blocks(ck.asarray(whole)[1:], (1, 256), "Q4_K")
    assert_bits(w.dequantize().numpy(), reference("Q4_K", blocks))


def test_copies_and_pickles(device: ck.Device) -> None:
    w = ck.quant.quantize(ck.linspace(-1, 1, 64), "Q5_0")
    for other in (copy.deepcopy(w), pickle.loads(pickle.dumps(w)), w.to_device("host")):
        assert (other.kind, other.shape) == ("Q5_0", (64,))
        np.testing.assert_array_equal(other.blocks.numpy(), w.blocks.numpy())


def test_errors() -> None:
    quant, w = ck.quant, ck.quant.quantize(ck.ones((2, 32)), "Q8_0")
    with pytest.raises(ValueError, match="kind: expected one of F32, .*Q8_K, got 'Q4_2'"):
        quant.from_blocks(b"", (0, 32), "Q4_2")
    with pytest.raises(ValueError, match=r"expected 68 bytes for shape \(2, 32\) of Q8_0, got 3"):
        quant.from_blocks(b"abc", (2, 32), "Q8_0")
    with pytest.raises(ValueError, match=r"blocks of 256 weights, got shape \(2, 32\)"):
        quant.from_blocks(b"abc", (2, 32), "Q4_K")
    with pytest.raises(TypeError, match="expected bytes or an array of uint8, got float32"):
        quant.from_blocks(ck.ones(34), 32, "Q8_0")
    with pytest.raises(ValueError, match="Q4_K can be read, but not made"):
        quant.quantize(ck.ones(256), "Q4_K")
    with pytest.raises(TypeError, match="expected a real floating array, got int64"):
        quant.quantize(ck.arange(32), "Q8_0")
    with pytest.raises(TypeError, match="a QuantArray is made by"):
        quant.QuantArray()
    with pytest.raises(TypeError, match="dtype: expected a real floating dtype, got int8"):
        w.dequantize("int8")
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        quant.take(quant.quantize(ck.ones((2, 32), device="host"), "Q8_0"), [2])
    with pytest.raises(TypeError, match="w: expected a QuantArray, got Array"):
        quant.take(ck.ones((2, 32)), [0])
    with pytest.raises(ValueError, match=r"w: expected two axes, got shape \(32,\)"):
        quant.linear(ck.ones(32), quant.quantize(ck.ones(32), "Q8_0"))
    with pytest.raises(ValueError, match=r"x: expected shape \(..., 32\) for w \(2, 32\), got \(64,\)"):
        quant.linear(ck.ones(64), w)
    with pytest.raises(ValueError, match=r"bias: expected shape \(2,\), got \(3,\)"):
        quant.linear(ck.ones(32), w, ck.ones(3))
    with pytest.raises(TypeError, match="x: expected a real floating array, got int64"):
        quant.linear(ck.arange(32), w)
