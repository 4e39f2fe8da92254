"""What a TensorMap refuses, and what a tape knows of launches through one."""

from __future__ import annotations

import copy
import ctypes
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from asynchronous import TILES

import cukern as ck
from cukern.device.cuda import driver
from cukern.device.interface import Tiles


def kernel(text: str = TILES) -> ck.Kernel:
    return ck.Kernel(text, name="tiles", rows=8, columns=8, swizzle=0, adds=False)


def matrix(shape: tuple[int, ...] = (16, 32), dtype: str = "float32") -> ck.Array:
    return ck.zeros(shape, dtype, "host")


@pytest.mark.parametrize(
    ("array", "box", "swizzle", "message"),
    [
        ([1.0], (4,), 0, r"array: expected an Array, got list"),
        (matrix(dtype="bool"), (8, 16), 0, r"array: expected floats, or integers, .* got bool"),
        (matrix(dtype="int16"), (8, 8), 0, r"unsigned if of 8 or 16 bits, got int16"),
        (matrix(()), (), 0, r"array: expected 1 to 5 axes, none empty, got shape \(\)"),
        (matrix((0, 32)), (8, 8), 0, r"none empty, got shape \(0, 32\)"),
        (matrix((1, 1, 1, 1, 1, 4)), (1,) * 5 + (4,), 0, r"expected 1 to 5 axes"),
        (matrix().T, (8, 8), 0, r"the last axis contiguous .* got strides of \(4, 128\) bytes"),
        (matrix((16, 33)), (8, 8), 0, r"multiples of 16 bytes, got strides of \(132, 4\) bytes"),
        (matrix()[::-1], (8, 8), 0, r"got strides of \(-128, 4\) bytes"),
        (ck.broadcast_to(matrix((1, 32)), (4, 32)), (4, 8), 0, r"got strides of \(0, 4\) bytes"),
        (matrix()[:, 1:], (8, 8), 0, r"an address that is a multiple of 16 bytes"),
        (matrix()[:, 2:], (8, 8), 0, r"an address that is a multiple of 16 bytes"),
        (matrix(), 8, 0, r"box: expected a tuple of integers, got 8"),
        (matrix(), (8,), 0, r"box: expected 2 sizes in 1 to 256, got \(8,\)"),
        (matrix(), (257, 8), 0, r"box: expected 2 sizes in 1 to 256"),
        (matrix(), (8, 3), 0, r"a last axis of a multiple of 16 bytes, got 12 bytes"),
        (matrix(), (8, 8), 128, r"swizzle: expected 0, or the 32 bytes of the box's last axis .* got 128"),
        (matrix(), (8, 4), 16, r"swizzle: expected 0, or the 16 bytes"),
        (matrix(), (8, 8), 32.0, r"swizzle: expected 0, .* got 32.0"),
    ],
)
def test_refusals(array: Any, box: Any, swizzle: int, message: str) -> None:
    with pytest.raises(ck.LaunchError, match=f"TensorMap: .*{message}"):
        ck.TensorMap(array, box, swizzle)


def test_constants_are_not_written() -> None:
    shared = matrix()
    shared._storage.constant = True
    assert not ck.TensorMap(shared, (8, 8)).writes
    with pytest.raises(ck.LaunchError, match="TensorMap: array is a constant that others share"):
        ck.TensorMap(shared, (8, 8), writes=True)


def test_what_the_driver_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Innermost axes first, an aligned place for the result, and an error for what it refuses."""
    given: list[Any] = []

    def encode(*arguments: Any) -> int:
        given[:] = arguments
        ctypes.memset(arguments[0].value, 7, 128)
        return 0

    monkeypatch.setattr(driver, "library", lambda: SimpleNamespace(cuTensorMapEncodeTiled=encode))
    tiles = Tiles(4096, ck.bfloat16, (3, 100, 64), (12800, 128), (1, 8, 64), 128, False)
    assert driver.tensor_map(tiles) == b"\x07" * 128
    place, dtype, axes, address, sizes, strides, box, steps, *options = given
    assert place.value % 64 == 0
    assert (dtype, axes.value, address.value) == (9, 3, 4096)
    assert [list(one)[:3] for one in (sizes, box, steps)] == [[64, 100, 3], [64, 8, 1], [1, 1, 1]]
    assert list(strides)[:2] == [128, 12800]
    assert options == [0, 3, 3, 0]
    refuses = SimpleNamespace(cuTensorMapEncodeTiled=lambda *arguments: 1)
    monkeypatch.setattr(driver, "library", lambda: refuses)
    with pytest.raises(ck.DeviceError, match="cuTensorMapEncodeTiled refuses .* CUDA error 1"):
        driver.tensor_map(tiles)
    monkeypatch.setattr(driver, "library", SimpleNamespace)
    with pytest.raises(ck.DeviceError, match=r"no tensor maps, which came with CUDA 12\.0"):
        driver.tensor_map(tiles)


def test_copies_are_the_map_itself() -> None:
    own = ck.TensorMap(matrix(), (8, 8), writes=2)  # type: ignore[arg-type]
    assert own.writes is True
    assert copy.copy(own) is own
    assert copy.deepcopy([own])[0] is own
    with pytest.raises(TypeError, match="holds an address and cannot be pickled"):
        pickle.dumps(own)


def test_arguments_of_a_launch() -> None:
    x, y, seen = matrix((8, 8)), matrix((8, 8)), matrix((1, 1, 8, 8))
    source, target = ck.TensorMap(x, (8, 8)), ck.TensorMap(y, (8, 8), writes=True)
    assert source.array is x
    assert target.writes
    assert repr(source) == "TensorMap(float32, shape (8, 8), box (8, 8), swizzle 0)"
    for wrong, message in (
        ((x, target, seen), r"argument from: expected a cukern.TensorMap, got an array of float32"),
        ((bytes(source), target, seen), r"argument from: expected a cukern.TensorMap, got bytes"),
    ):
        with pytest.raises(ck.LaunchError, match=message):
            kernel()(*wrong, grid=1, block=32)
    reads = ck.TensorMap(y, (8, 8))
    with pytest.raises(ck.KernelFault, match="made without writes=True"):
        kernel()(source, reads, seen, grid=1, block=32)
    lines = ck.TensorMap(matrix((8,)), (8,))
    with pytest.raises(ck.KernelFault, match="or has another number of axes"):
        kernel()(lines, target, seen, grid=1, block=32)
    layer = ck.nn.Linear(8, 8, device="host")
    weight = ck.TensorMap(layer.weight, (8, 8))
    layer.astype("float64")
    with pytest.raises(ck.LaunchError, match="argument from: the array of this map has other memory by now"):
        kernel()(weight, target, seen, grid=1, block=32)


def test_memory_behind_maps_overlaps_no_other_argument() -> None:
    x, seen = matrix((16, 8)), matrix((1, 1, 8, 8))
    top, bottom = ck.TensorMap(x[:8], (8, 8)), ck.TensorMap(x[8:], (8, 8), writes=True)
    kernel()(top, bottom, seen, grid=1, block=32)
    for arguments, names in (
        (
            (ck.TensorMap(x, (8, 8)), bottom, seen),
            "argument to is written, .* overlaps that of argument from",
        ),
        ((top, bottom, x[8:].reshape((1, 1, 8, 8))), "argument bytes is written, .* that of argument to"),
        (
            (top, ck.TensorMap(matrix(), (8, 8)), x[:8].reshape((1, 1, 8, 8))),
            "argument bytes is written, .* from",
        ),
    ):
        with pytest.raises(ck.LaunchError, match=names):
            kernel()(*arguments, grid=1, block=32)


@pytest.mark.unchecked_only("checked launches see the access first, in words of their own")
def test_a_tile_is_aligned_in_shared_memory() -> None:
    x, y, seen = matrix((8, 8)), matrix((8, 8)), matrix((1, 1, 8, 8))
    maps = ck.TensorMap(x, (8, 8), 32), ck.TensorMap(y, (8, 8), writes=True)
    text = TILES.replace("copy_tile(tile,", "copy_tile((char*)tile + 128,")
    with pytest.raises(ck.KernelFault, match="no multiple of 128 bytes, or of eight rows of its swizzle"):
        ck.Kernel(text, name="tiles", rows=8, columns=8, swizzle=32, adds=False)(
            *maps, seen, grid=1, block=32
        )
    text = TILES.replace("copy_tile(tile,", "copy_tile((char*)tile + 65536,")
    with pytest.raises(ck.KernelFault, match="goes beyond the block's shared memory"):
        kernel(text)(*maps, seen, grid=1, block=32)


def test_a_tape_sees_what_is_read_and_written_through_maps() -> None:
    x, y, seen = ck.ones((8, 8), device="host"), matrix((8, 8)), matrix((1, 1, 8, 8))
    maps = ck.TensorMap(x, (8, 8)), ck.TensorMap(y, (8, 8), writes=True)
    with ck.Tape() as tape:
        tape.watch(x)
        kernel()(*maps, seen, grid=1, block=32)
        loss = y.sum()
    with pytest.raises(ck.GradientError, match="its argument from is an array that a tape tracks"):
        tape.gradient(loss, x)
    w = ck.ones((8, 8), device="host")
    with ck.Tape() as tape:
        tape.watch(w)
        loss = (w * y).sum()
        kernel()(*maps, seen, grid=1, block=32)
    with pytest.raises(ck.GradientError, match="was written since by tiles"):
        tape.gradient(loss, w)
