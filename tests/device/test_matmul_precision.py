"""Products of float32 that may be rounded to tf32: the setting, and the kernel that rounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_few_rows import gpu
from test_tensor_cores import bias_and_relu, random

import cukern as ck
from cukern.linear import measured, tensor_cores
from cukern.linear.few_rows import FewRows
from cukern.linear.task import Factor, Task
from cukern.testing import assert_close


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = ck.get_matmul_precision()
    yield
    ck.set_matmul_precision(before)


def test_the_setting_of_the_process_and_of_a_block() -> None:
    assert ck.get_matmul_precision() == "highest"
    with ck.matmul_precision("tf32"):
        assert ck.get_matmul_precision() == "tf32"
        with ck.matmul_precision("highest"):
            assert ck.get_matmul_precision() == "highest"
        ck.set_matmul_precision("highest")
        assert ck.get_matmul_precision() == "tf32"
    ck.set_matmul_precision("tf32")
    found: list[str] = []
    with ck.matmul_precision("highest"):
        other = threading.Thread(target=lambda: found.append(ck.get_matmul_precision()))
        other.start()
        other.join()
    assert found == ["tf32"]
    with pytest.raises(ZeroDivisionError), ck.matmul_precision("highest"):
        raise ZeroDivisionError
    assert ck.get_matmul_precision() == "tf32"


@pytest.mark.parametrize("wrong", ["high", "TF32", None, True])
def test_refusals(wrong: Any) -> None:
    with pytest.raises(ValueError, match="precision: expected one of 'highest', 'direct', 'tf32', got"):
        ck.set_matmul_precision(wrong)
    with pytest.raises(ValueError, match="precision: expected one of"), ck.matmul_precision(wrong):
        pass


def test_the_host_stays_exact() -> None:
    x, y = (random(ck.Device("host"), "float32", *shape) for shape in ((20, 30), (30, 20)))
    with ck.matmul_precision("tf32"):
        np.testing.assert_array_equal((x @ y).numpy(), x.numpy() @ y.numpy())


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of mantissa, halves away from zero."""
    return ((x.view(np.uint32) + 0x1000) & ~np.uint32(0x1FFF)).view(np.float32).astype(float)


@pytest.mark.parametrize("tile", tensor_cores.TF32_TILES[::2], ids=["large", "small"])
@pytest.mark.parametrize(("a_swapped", "b_swapped"), [(False, False), (False, True), (True, False)])
def test_the_kernel_rounds_its_factors(
    device: ck.Device, a_swapped: bool, b_swapped: bool, tile: tensor_cores.Tile
) -> None:
    a = random(device, "float32", 132, 84, swapped=a_swapped)
    b = random(device, "float32", 84, 76 if b_swapped else 264, swapped=b_swapped)
    for last in (0, 1) if b_swapped else (0,):
        columns = b[:, : b.shape[1] - last]  # rows of the result that are not aligned
        bias = random(device, "float32", columns.shape[1])
        operands = [x._planned() for x in (a, columns, bias)]
        plan = tensor_cores.make_plan(bias_and_relu(a.dtype), *operands[:2], operands[2:], tile)
        assert plan is not None
        left, right = tf32(a.numpy()), tf32(columns.numpy())
        exact = np.maximum(left @ right + bias.numpy(), 0)
        size = np.abs(left) @ np.abs(right) + np.abs(bias.numpy())
        assert_close(plan(a, columns, bias), exact, rtol=0, atol=2e-6 * size)


def test_when_the_kernel_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    times = (
        measured.Times("tf32", 32, 512, 512, 512, False, 50, 44, 66),
        measured.Times("tf32", 1, 4096, 4096, 4096, False, 550, 373, 430),
        measured.Times("few rows of float32", 1, 8, 4096, 4096, True, 18, 17, 19),
    )
    monkeypatch.setattr(measured, "TIMES", times)
    factor = Factor(0, 512, True)
    task = Task(32, 512, 512, 512, factor._replace(batch=2**18), factor._replace(batch=2**18), (), 4)
    assert tensor_cores.quickest(task, gpu()) is None
    with ck.matmul_precision("tf32"):
        chosen = tensor_cores.quickest(task, gpu())
        assert isinstance(chosen, tensor_cores.Tile)
        assert chosen in tensor_cores.TF32_TILES
        large = task._replace(batches=1, m=4096, n=4096, k=4096)
        assert tensor_cores.quickest(large, gpu()) is None  # the library's is faster
        assert isinstance(tensor_cores.quickest(large._replace(m=4), gpu()), FewRows)
