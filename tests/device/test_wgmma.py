"""Products of a warpgroup in every type, with A in shared memory or in registers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from asynchronous import FACTORS

import cukern as ck

TYPES = {
    "__half": np.float16,
    "__nv_bfloat16": ml_dtypes.bfloat16,
    "float": np.float32,
    "E4M3": ml_dtypes.float8_e4m3fn,
}


def product(
    device: Any, ctype: str, in_registers: bool, by_depth: bool = True, text: str = FACTORS, scale: float = 1
) -> tuple[np.ndarray, np.ndarray]:
    """What is made of random integers times ``scale``, and what is right."""
    dtype = np.dtype(TYPES[ctype])
    rng, depth = np.random.default_rng(0), 128 // dtype.itemsize
    a = (rng.integers(-4, 5, (64, depth)) * scale).astype(dtype)
    b = (rng.integers(-4, 5, (64, depth)) * scale).astype(dtype)  # a row by depth, or across it
    given = [ck.asarray(x.view(np.uint32), device=device) for x in (a, b, a)]
    d = ck.zeros((64, 64), device=device)
    kernel = ck.Kernel(text, name="factors", uses_half=True, uses_bfloat16=True)
    kernel(
        *given, d, grid=1, block=128, type=ctype, in_registers=in_registers, by_depth=str(by_depth).lower()
    )
    return d.numpy(), a.astype(float) @ (b.T if by_depth else b).astype(float)


def needs_wgmma(device: ck.Device) -> None:
    if device.kind != "host" and device.properties.compute_capability[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")


@pytest.mark.parametrize(
    ("ctype", "in_registers", "by_depth"),
    [
        ("__half", True, True),
        ("__nv_bfloat16", True, False),
        ("__nv_bfloat16", False, False),
        ("float", False, True),
        ("float", True, True),
        ("E4M3", False, True),
        ("E4M3", True, True),
    ],
)
def test_products_of_every_type(device: ck.Device, ctype: str, in_registers: bool, by_depth: bool) -> None:
    needs_wgmma(device)
    np.testing.assert_array_equal(*product(device, ctype, in_registers, by_depth))


def test_tf32_leaves_out_the_low_bits(device: ck.Device) -> None:
    needs_wgmma(device)
    made = product(device, "float", False, scale=1 + 2.0**-11)[0]
    np.testing.assert_array_equal(made, product(device, "float", False)[1])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("of_b(right, 0, 1024)", "of_b(right + 32, 0, 2048)", "begins within a group of eight lines"),
        ("of_b(right,", "of_b((char*)right + 8,", "no multiple of 16 bytes"),
        ("of_b(right, 0, 1024)", "of_b(right, 0, 1032)", "no multiple of 16 bytes"),
    ],
    ids=["half of a group", "misaligned", "a step"],
)
def test_what_the_host_says_of_matrices(right: str, wrong: str, message: str) -> None:
    assert FACTORS.count(right) == 1
    with pytest.raises(ck.KernelFault, match=f"{message}.*, <factors"):
        product("host", "__half", True, text=FACTORS.replace(right, wrong))


@pytest.mark.parametrize("in_registers", [False, True])
def test_other_types_lie_by_depth(in_registers: bool) -> None:
    with pytest.raises(ck.CompileError, match="wgmma: matrices of this type lie by depth"):
        product("host", "float", in_registers, by_depth=False)
