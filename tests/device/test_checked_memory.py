"""Memory that kernels allocate, in checked launches and others: what lives on, and what ends no process."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.testing import checked

LIST = """
struct Node { int value; Node* next; };
__device__ Node* first;
__global__ void push(int value) { first = new Node{value, first}; }
__global__ void sum(int* y) { y[0] = 0; for (Node* at = first; at; at = at->next) y[0] += at->value++; }
__global__ void drop(int* y) {
    while (first) { Node* at = first; first = at->next; delete at; atomicAdd(y, 1); }
}
"""


@pytest.mark.parametrize("is_checked", [(True, True), (False, False), (True, False)])
def test_allocations_live_longer_than_their_launches(is_checked: tuple[bool, bool]) -> None:
    """A launch that runs in several orders leaves what one would. The last launches may be others than the first."""
    made, dropped = is_checked
    y = ck.zeros(1, "int32", device="host")
    program = ck.Kernel(f"{LIST}// {is_checked}", block=1, plain=True)

    def launch(name: str, *args: object, in_check: bool) -> int:
        if in_check:
            with checked():
                program[name](*args, grid=1)
        else:
            program[name](*args, grid=1)
        return int(y[0])

    with ck.device("host"):
        for value in (3, 5, 7):
            launch("push", value, in_check=made)
        assert [launch("sum", y, in_check=made) for _ in range(2)] == [15, 18]
        assert launch("drop", y, in_check=dropped) == 18 + 3
        assert launch("sum", y, in_check=dropped) == 0


def test_indices_far_out_of_bounds_hit_nothing() -> None:
    """Up to eight times the memory that a checked launch reserves, on either side."""
    k = ck.Kernel(
        "__global__ void g(const float* x, float* y, long long i, int writes)"
        "{ if (writes) y[i] = 7; else y[0] = x[i]; }",
        block=1,
        plain=True,
    )
    with ck.device("host"), checked():
        for power in (20, 30, 37, 38, 39, 40, 41, 42, 43):
            for i in (1 << power, -(1 << power)):
                for writes in (0, 1):
                    with pytest.raises(ck.LaunchError, match=r"out of bounds|invalid access"):
                        k(ck.ones(100), ck.zeros(100), i, writes, grid=1)


def test_an_address_far_from_all_arrays_is_no_array_s() -> None:
    text = """extern "C" __global__ void << name >>(const float* x, float* y, long long far) {
        y[threadIdx.x + far] = x[threadIdx.x];
    }"""
    with ck.device("host"), checked(collect=True) as reports:
        ck.Kernel(text, name="far", block=2)(ck.ones(2), ck.zeros(2), 2**37, grid=1)
    assert [(one.kind, one.array) for one in reports] == [("out of bounds", "")]
    assert "writes address 0x" in str(reports[0]) and "which is no array's" in str(reports[0])


@pytest.mark.unchecked_only("checked launches have a memory of their own, and say it in other words")
@pytest.mark.parametrize("what", ["free(y + 4)", "free(own + 4)", "free(own); free(own)"])
def test_what_cannot_be_freed_is_a_fault_of_the_kernel(what: str) -> None:
    text = f"""extern "C" __global__ void << name >>(int* y) {{
        int* own = (int*)malloc(64);
        own[0] = y[threadIdx.x];
        y[threadIdx.x] = own[0] + 1;
        {what};
    }}"""
    with ck.device("host"):
        kernel, y = ck.Kernel(text, name="freeing", block=2), ck.zeros(16, "int32")
        with pytest.raises(ck.KernelFault, match=r"free\(\) of what malloc\(\) has not given.*<freeing.*>:5"):
            kernel(y, grid=1)
        right = ck.Kernel(text.replace(what, "free(own)"), name="right", block=2)
        y = ck.zeros(16, "int32")
        right(y, grid=1)
        np.testing.assert_array_equal(y, [1, 1] + [0] * 14)


# Of a place in the code whose accesses were nothing to look into: what may change before its next one.
@pytest.mark.parametrize(
    ("statements", "kind", "element"),
    [
        pytest.param(
            "if (i < 7) y[8 * i] = 1, ((char*)y)[32 * i + 33] = 2;", "race", 8, id="pieces become smaller"
        ),
        pytest.param("y[i] = 1; z[i] = y[i + 1];", "race", 1, id="elements are read"),
        pytest.param("y[i] = 1; if (i == 5) y[i + 3] = 1;", "race", 8, id="another place writes"),
        pytest.param("y[i] = x[i + 33];", "out of bounds", 64, id="reads beyond the end"),
        pytest.param("y[i + 33] = x[i];", "out of bounds", 64, id="writes beyond the end"),
        pytest.param("*(int*)((char*)y + 4 * i + 2 * (i == 5)) = 1;", "race", 6, id="of two elements"),
    ],
)
@pytest.mark.parametrize("filled", [True, False])
def test_a_place_that_was_harmless_is_watched_on(
    statements: str, kind: str, element: int, filled: bool
) -> None:
    text = f"""extern "C" __global__ void << name >>(const int* x, int* y, int* z) {{
        const int i = threadIdx.x;
        {statements}
    }}"""
    make = ck.zeros if filled else ck.empty
    with ck.device("host"), checked(seeds=1, collect=True, strict=True) as reports:
        y, z = make(64, "int32"), make(64, "int32")
        ck.Kernel(text, name="places", block=32)(ck.zeros(64, "int32"), y, z, grid=1)
    found = [one for one in reports if one.kind == kind]
    assert [one.element for one in found] == [element]


def test_elements_that_a_struct_writes_are_set() -> None:
    """Of an array of numbers that a kernel takes as structs: those written, and no others."""
    pairs = ck.Kernel(
        """
        struct Pair { float first, second; };
        extern "C" __global__ void << name >>(Pair* y, int n) {
            const int i = threadIdx.x;
            if (i < n) y[i] = Pair{1.0f, 2.0f};
        }""",
        name="pairs",
        block=8,
    )
    function = pairs.bind("host").function

    def launch(n: int) -> ck.Array:
        y = ck.empty((8, 2), device="host")
        y._planned()
        function.prepare((1, 1, 1), (8, 1, 1), 0, ())(y._operand, n)
        return y

    with checked():
        assert launch(8).tolist() == [[1.0, 2.0]] * 8
        whole = launch(8)  # its elements are not read, and all are written
    with pytest.raises(ck.KernelFault, match="unwritten: 6 of 16 elements"), checked():
        part = launch(5)
    del whole, part


def test_the_logarithms_of_attention_are_written() -> None:
    q, k, v = (ck.ones((1, 2, n, 8), device="host") for n in (6, 4, 4))
    with checked():
        _, lse = ck.nn.attention(q, k, v, return_lse=True)
    np.testing.assert_allclose(lse.numpy(), 8**0.5 + np.log(4), rtol=1e-6)
