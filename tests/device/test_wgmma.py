"""Products of a warpgroup in every type, with A in shared memory or in registers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from asynchronous import FACTORS, WARPGROUP
from test_beside import warpgroup

import cukern as ck
from cukern.testing import asynchrony

TYPES = {
    "__half": np.float16,
    "__nv_bfloat16": ml_dtypes.bfloat16,
    "float": np.float32,
    "E4M3": ml_dtypes.float8_e4m3fn,
}


def product(
    device: Any,
    ctype: str,
    in_registers: bool,
    by_depth: bool = True,
    text: str = FACTORS,
    scale: float = 1,
    columns: int = 64,
) -> tuple[np.ndarray, np.ndarray]:
    """What is made of random integers times ``scale``, and what is right."""
    dtype = np.dtype(TYPES[ctype])
    rng, depth = np.random.default_rng(0), 128 // dtype.itemsize
    a = (rng.integers(-4, 5, (64, depth)) * scale).astype(dtype)
    b = (rng.integers(-4, 5, (columns, depth)) * scale).astype(dtype)  # a row by depth, or across it
    given = [ck.asarray(x.view(np.uint32), device=device) for x in (a, b, a)]
    d = ck.zeros((64, columns), device=device)
    kernel = ck.Kernel(text, name="factors", uses_half=True, uses_bfloat16=True)
    kernel(
        *given, d, grid=1, block=128, type=ctype, in_registers=in_registers, by_depth=str(by_depth).lower()
    )
    return d.numpy(), a.astype(float) @ (b.T if by_depth else b).astype(float)


def of_columns(columns: int) -> str:
    """FACTORS with so many rows of B by depth."""
    text = FACTORS
    for right, other in (
        ("[64]", f"[{columns}]"),
        ("right[64 * 8]", f"right[{columns} * 8]"),
        (
            "        right[i ^ i / 8 % 8] = b[i];\n    }",
            "    }\n    for (int i = threadIdx.x; i < COLUMNS * 8; i += 128) right[i ^ i / 8 % 8] = b[i];",
        ),
        ("float sums[32];", "float sums[COLUMNS / 2];"),
        ("<< type >>, 64, <<", "<< type >>, COLUMNS, <<"),
        ("<< type >>, 64, true", "<< type >>, COLUMNS, true"),
        ("i < 32; ++i) d[", "i < COLUMNS / 2; ++i) d["),
        ("i / 2 % 2 * 8) * 64", "i / 2 % 2 * 8) * COLUMNS"),
    ):
        assert text.count(right) == 1
        text = text.replace(right, other.replace("COLUMNS", str(columns)))
    return text


def needs_wgmma(device: ck.Device) -> None:
    if device.kind != "host" and device.properties.compute_capability[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")


#: The type, whether A is in registers, whether B lies by depth.
FORMS = [
    ("__half", True, True),
    ("__nv_bfloat16", True, False),
    ("__nv_bfloat16", False, False),
    ("float", False, True),
    ("float", True, True),
    ("E4M3", False, True),
    ("E4M3", True, True),
]


@pytest.mark.parametrize(("ctype", "in_registers", "by_depth"), FORMS)
def test_products_of_every_type(device: ck.Device, ctype: str, in_registers: bool, by_depth: bool) -> None:
    needs_wgmma(device)
    np.testing.assert_array_equal(*product(device, ctype, in_registers, by_depth))


STEPS = FACTORS[
    FACTORS.index("    for (int k = 0; k < 4; ++k) {\n<% if") : FACTORS.index("    wgmma_commit();")
]


@pytest.mark.parametrize(
    ("ctype", "by_depth"), [(ctype, by_depth) for ctype, inner, by_depth in FORMS if not inner]
)
def test_a_line_is_multiplied_as_by_its_four_steps(device: ck.Device, ctype: str, by_depth: bool) -> None:
    needs_wgmma(device)
    line = "wgmma_line< << type >>, 64, true, << by_depth >> >(sums, of_a, of_b, {});"
    begun = "for (int i = 0; i < 32; ++i) sums[i] = 1;\n    wgmma_fence();"
    for add in ("false", "true"):
        text = FACTORS.replace(STEPS, line.format(add)).replace("wgmma_fence();", begun)
        made, right = product(device, ctype, False, by_depth, text=text)
        np.testing.assert_array_equal(made, right + (add == "true"))


@pytest.mark.parametrize(("columns", "in_registers"), [(8, True), (104, False), (256, True)])
def test_products_of_every_width(device: ck.Device, columns: int, in_registers: bool) -> None:
    needs_wgmma(device)
    np.testing.assert_array_equal(
        *product(device, "__half", in_registers, text=of_columns(columns), columns=columns)
    )


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


#: Between the second slab and the third: all is done, and the thread doubles its sums.
TOUCH = "wgmma_wait<0>(sums);\n    for (int i = 0; i < 32; ++i) sums[i] *= 2;\n    bring(2);"
UNFENCED = "wgmma is given registers that were not passed on to it: wgmma_fence comes before the first wgmma, and after"


@pytest.mark.parametrize("when", ["at_once", "late", "random"])
@pytest.mark.parametrize(
    ("fence", "third", "passed_on"),
    [
        ("", "bring(2);", False),
        ("if (slab == 0) wgmma_fence();", "bring(2);", True),
        ("if (slab == 0) wgmma_fence();", TOUCH, False),
        ("if (slab == 0) wgmma_fence();", f"wgmma_fence();\n    {TOUCH}", False),
        ("if (slab == 0) wgmma_fence();", f"{TOUCH}\n    wgmma_fence();", True),
    ],
    ids=["none", "the first alone", "none after a touch", "before a touch", "after a touch"],
)
def test_sums_are_passed_on_to_products(when: Any, fence: str, third: str, passed_on: bool) -> None:
    """Products follow each other on the same sums without a fence, and see what a thread has done to them after one."""
    text = WARPGROUP.replace("wgmma_fence();", fence).replace("bring(2);", third)
    with asynchrony(when, seed=3):
        if passed_on:
            assert warpgroup("host", text) == (third == "bring(2);")
            return
        with pytest.raises(ck.KernelFault, match=rf"thread \(\d+, 0, 0\): {UNFENCED} .*, <warpgroup.*>:21"):
            warpgroup("host", text)


def once_more(touch: str, begins: str, fence: str = "wgmma_fence();") -> str:
    """FACTORS whose last product comes a second time, after a thread has touched what it is given."""
    loop, call = "k < 4; ++k) {", "own[k], of_b, k > 0"
    assert FACTORS.count(loop) == FACTORS.count(call) == 1
    again = f"if (k == 4) {{ wgmma_commit(); wgmma_wait<0>(sums); of_b += -32; {touch} {fence} }}"
    text = FACTORS.replace(
        f"for (int k = 0; {loop}", f"#pragma unroll\n    for (int k = 0; k < 5; ++k) {{\n{again}"
    )
    return text.replace(call, f"own[k == 4 ? 3 : k], of_b, {begins} > 0")


NEGATED = "for (int i = 0; i < 4; ++i) own[3][i] ^= 0x80008000;", "k"
BEGUN = "for (int i = 0; i < 32; ++i) sums[i] = 2 * sums[i] + 1;", "k % 4"


@pytest.mark.parametrize(
    ("touched", "same_as"),
    [(NEGATED, ("k < 4; ++k) {", "k < 3; ++k) {")), (BEGUN, ("of_b, k > 0", "of_b, k % 3 > 0"))],
    ids=["words of A", "sums that begin anew"],
)
def test_what_a_product_is_given_may_be_touched_before_a_fence(
    device: ck.Device, touched: tuple[str, str], same_as: tuple[str, str]
) -> None:
    needs_wgmma(device)
    made, _ = product(device, "__half", True, text=once_more(*touched))
    np.testing.assert_array_equal(made, product(device, "__half", True, text=FACTORS.replace(*same_as))[0])
    for launches in (nullcontext(), ck.testing.checked()):
        fault = rf"thread \(\d+, 0, 0\): {UNFENCED} .*, <factors.*>:\d+"
        with launches, pytest.raises(ck.KernelFault, match=fault):
            product("host", "__half", True, text=once_more(*touched, fence=""))


@pytest.mark.parametrize("in_registers", [False, True])
def test_sums_that_begin_anew_are_not_taken_for_a_variable_before_them(in_registers: bool) -> None:
    """Between the fence and the product other variables may have had their places."""
    text = FACTORS.replace("    float sums[32];\n", "").replace("= sums[i];\n", "= sums[i];\n    }\n")
    twice = """    for (int turn = 0; turn < 2; ++turn) {
    wgmma_fence();
    { float counts[32]; count(counts); if (counts[31] < 0) d[0] = 1; }
    float sums[32];
"""
    count = """__device__ __noinline__ void count(float (&x)[32]) {
    for (int i = 0; i < 32; ++i) x[i] = i * threadIdx.x;
}
extern"""
    text = text.replace("    wgmma_fence();\n", twice).replace("extern", count)
    for launches in (nullcontext, ck.testing.checked):
        with launches():
            np.testing.assert_array_equal(*product("host", "__half", in_registers, text=text))
    touched = "float sums[32];\n    for (int i = 0; i < 32; ++i) sums[i] = turn;\n"
    with ck.testing.checked(), pytest.raises(ck.KernelFault, match=UNFENCED):
        product("host", "__half", in_registers, text=text.replace("float sums[32];\n", touched))
