"""Products of float32 that may be rounded to tf32: the setting, and the kernel that rounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_tensor_cores import bias_and_relu, random

import cukern as ck
from cukern.elementwise.program import Program
from cukern.launch.family import STAND_IN
from cukern.linear.problem import Product
from cukern.linear.tma import Tma
from cukern.linear.variants import OneLaunch, Simt, TensorCores


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


def test_which_variants_may_round() -> None:
    """Tensor cores only where the precision allows it and something follows; few rows stay exact."""
    layouts = [ck.zeros(shape)._planned() for shape in ((64, 64), (64, 64))]
    follows = bias_and_relu(ck.float32)
    bias = ck.zeros(64)._planned()

    def fits(variant: type[OneLaunch], precision: str, program: Program | None = follows) -> bool:
        operands = () if program is None else (bias,)
        problem = Product(*layouts[:1], layouts[1], operands, program, precision=precision, transposed=True)
        return not variant.fits(problem, STAND_IN)

    assert fits(Tma, "tf32") and not fits(Tma, "highest") and not fits(Tma, "direct")
    assert not fits(Tma, "tf32", None)  # the library rounds
    assert not fits(TensorCores, "tf32")
    assert fits(Simt, "highest") and fits(Simt, "tf32")
