"""What is read of plain CUDA texts: macros, declarations, variables and lines."""

from __future__ import annotations

import pytest

from cukern.text.assemble import assembled
from cukern.text.conditions import Conditions
from cukern.text.entry import isolated, kernels
from cukern.text.line_directives import origin, place, placed
from cukern.text.macros import Macro, defined
from cukern.text.variables import device_variables

KERNEL = "__global__ void k(float* x) { x[0] = 1; }\n"


def test_parameters_of_macros_may_go_on_in_the_next_line_and_have_comments() -> None:
    text = "#define MAKE(name, \\\n  /* its type */ T) __global__ void name(T* x) { x[0] = 1; }\n"
    assert defined(text)[0].params == ("name", "T")
    assert list(kernels(f"{text}MAKE(first, float)\nMAKE(second, double)\n")) == ["first", "second"]
    assert defined("#define NONE() 1\n#define PLAIN (1)") == [
        Macro("NONE", (), "1"),
        Macro("PLAIN", None, "(1)"),
    ]


@pytest.mark.parametrize(
    "begin, condition, holds",
    [
        ("#define/* of */A 3", "A == 3", True),
        ("#define A \\\n 3", "A == 3", True),
        ("#define A(x, \\\n  y) x", "A(1, 2)", None),
        ("#define A 3\n#undef A/* no more */", "A", False),
        ("#define A 3\n#undef A\t// no more", "defined(A)", False),
    ],
)
def test_conditions_know_macros_with_comments_and_over_lines(
    begin: str, condition: str, holds: bool | None
) -> None:
    conditions = Conditions()
    for line in begin.replace("\\\n", "\0").split("\n"):
        conditions.line(line.replace("\0", "\\\n"), begin)
    left = conditions.line(f"#if {condition}", begin)
    assert (None if left else conditions.active) is holds


@pytest.mark.parametrize(
    "declared",
    [
        "struct Outer { struct Inner { __device__ float f(float y) const; float v; } inner; };\n"
        "float Outer::Inner::f(float y) const { return y * v; }\n"
        "__global__ void k(float* x) { Outer o; x[0] = o.inner.f(2); }",
        "struct S { __device__ float f(float y) const; float v; } __device__ s;\n"
        "float S::f(float y) const { return y * v; }\n"
        "__global__ void k(float* x) { x[0] = s.f(2); }",
    ],
)
def test_functions_of_a_class_that_is_defined_with_a_variable_are_kept(declared: str) -> None:
    assert "f(float y) const { return y * v; }" in isolated(assembled(declared, "<text>"), "k")


def test_a_kernel_without_parameters_is_chosen_by_void_and_by_nothing() -> None:
    text = assembled(f"__global__ void k(void) {{ }}\n{KERNEL}", "<text>")
    assert isolated(text, "k(void)") == isolated(text, "k()")
    assert "float" in isolated(text, "k(float*)")


def test_references_and_pointers_to_arrays_are_no_variables() -> None:
    text = """
#define N 16
__device__ float shorter[N - 1], shifted[(1 << 4) / 3];
__device__ float (*rows)[4];
__device__ float* pointers[4];
__device__ float& same = shorter[0];
"""
    found = {one.name: one.shape for one in device_variables(text)}
    assert found == {"shorter": (15,), "shifted": (5,), "pointers": (4,)}


def test_a_macro_of_which_a_definition_is_of_the_device_is_kept() -> None:
    text = f"""#if __CUDA_ARCH__ >= 700
#define HELPER(name) __device__ float name(float v) {{ return v; }}
#else
#define HELPER(name) UNKNOWN(name)
#endif
HELPER(twice)
{KERNEL}"""
    assert "\nHELPER(twice)\n" in assembled(text, "<text>")


def test_places_of_lines() -> None:
    assert list(placed('#line 7 "a\\"b.h"\nx')) == [('a\\"b.h', 7, "x")]
    assert place('#line 7 "f"') == ("", 1)
    assert origin('#line 7 "f"\na\nbc', len('#line 7 "f"\na\nb')) == "line 8 of f"


def test_what_is_left_out_takes_as_many_bytes() -> None:
    text = assembled(
        f"static void host() {{ /* \u00e9 */ }}\n__global__ void other() {{ /* \u00e9 */ }}\n{KERNEL}",
        "<text>",
    )
    assert isolated(text, "k") == isolated(text.replace("\u00e9", "ee"), "k")
