"""The signature of a kernel is read from its text."""

import json

import ml_dtypes
import numpy as np
import pytest

from cukern import errors
from cukern.text.conditions import Conditions
from cukern.text.signature import parse, restored, stored
from cukern.text.syntax import blanked, variables

C = 'extern "C" __global__ '


def params(text):
    return parse(f'extern "C" __global__ void k({text}) {{}}').signature.params


@pytest.mark.parametrize(
    "cxx, name",
    [
        ("float", "float32"), ("double", "float64"), ("int", "int32"), ("unsigned", "uint32"),
        ("unsigned int", "uint32"), ("long long", "int64"), ("long", "int64"), ("size_t", "uint64"),
        ("unsigned long long int", "uint64"), ("short", "int16"), ("unsigned short", "uint16"),
        ("char", "int8"), ("signed char", "int8"), ("unsigned char", "uint8"), ("uint8_t", "uint8"),
        ("int64_t", "int64"), ("bool", "bool"), ("__half", "float16"), ("half", "float16"),
        ("__nv_bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_scalars_and_pointers(cxx, name):
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    scalar, read, restricted, written = params(
        f"const {cxx} s, const {cxx}* r, {cxx} const * __restrict__ q, {cxx} *w"
    )
    assert (scalar.kind, scalar.dtype) == ("scalar", dtype)
    assert (read.kind, read.dtype, read.const) == ("pointer", dtype, True)
    assert (restricted.kind, restricted.const) == ("pointer", True)
    assert (written.kind, written.dtype, written.const) == ("pointer", dtype, False)
    assert [p.name for p in (scalar, read, restricted, written)] == ["s", "r", "q", "w"]


def test_views_structs_and_aliases():
    text = """using real = double;
    typedef unsigned char byte;
    struct Shape { int n[3]; };
    extern "C" __global__ void k(View<const real, 2> v, View<float, 1> w, Shape s, byte b, float4* f) {}
    """
    v, w, s, b, f = parse(text).signature.params
    assert (v.kind, v.dtype, v.const, v.ndim) == ("view", np.float64, True, 2)
    assert (w.kind, w.dtype, w.const, w.ndim) == ("view", np.float32, False, 1)
    assert (s.kind, s.dtype) == ("struct", None)
    assert (b.kind, b.dtype) == ("scalar", np.uint8)
    assert (f.kind, f.dtype, f.alignment) == ("pointer", np.float32, 16)


def test_macros_and_const_aliases_are_followed():
    text = """#define T float
    #define R __restrict__
    using frozen = const double;
    extern "C" __global__ void k(const T* R x, frozen* y, const uchar4* z, Pair* q) {}
    """
    x, y, z, q = parse(text).signature.params
    assert (x.dtype, x.const) == (np.float32, True)
    assert (y.dtype, y.const) == (np.float64, True)
    assert (z.dtype, z.alignment) == (np.uint8, 4)
    assert (q.dtype, q.alignment) == (None, 16)


@pytest.mark.parametrize("block", ['extern "C" {{ {} }}', "{}"])
def test_attributes_and_linkage_blocks(block):
    inner = "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) k(int n) {}"
    text = block.format(inner) if "{{" in block else 'extern "C" ' + inner
    assert [p.name for p in parse(text).signature.params] == ["n"]


@pytest.mark.parametrize(
    "bounds, most", [("(64)", 64), ("(64, 2)", 64), ("(threads, 2)", None), ("(2 * 32, 2)", None)]
)
def test_the_bound_of_a_launch_is_the_first_number(bounds: str, most: int | None) -> None:
    text = f'constexpr int threads = 64; extern "C" __global__ void __launch_bounds__{bounds} k(int n) {{}}'
    assert parse(text).signature.max_threads == most


@pytest.mark.parametrize(
    "dims, cluster",
    [("", (1, 1, 1)), ("__cluster_dims__(4)", (4, 1, 1)), ("__cluster_dims__( 2,1, 2 )", (2, 1, 2))],
)
def test_the_blocks_of_a_cluster(dims: str, cluster: tuple[int, int, int]) -> None:
    text = f'// __cluster_dims__(8)\nextern "C" __global__ void {dims} __launch_bounds__(64) k(int n) {{}}'
    assert parse(text).signature.cluster == cluster


@pytest.mark.parametrize("dims", ["(n, 1, 1)", "(0, 1, 1)", "(2, 1, 1, 1)", "()", "((2), 1, 1)"])
def test_sizes_of_a_cluster_are_numbers(dims: str) -> None:
    with pytest.raises(errors.TemplateError, match="k: expected __cluster_dims__ of one to three numbers"):
        parse(f'extern "C" __global__ void __cluster_dims__{dims} k(int n) {{}}')


def test_line_directives_inside_a_parameter_list():
    text = f"""{C} void k(
#line 3 "a"
    const float* b,
#line 5 "a"
    float* y) {{ float v[] = {{
#line 7 "a"
    1, 2 }}; __syncthreads(); }}"""
    found = parse(text)
    assert [p.name for p in found.signature.params] == ["b", "y"]
    assert "__syncthreads" in found.calls


def test_a_text_that_is_not_followed_may_call_anything():
    found = parse(C + "void k(float* y) { weird <::> nonsense @ here; __syncthreads(); }")
    assert "__syncthreads" in found.calls


def test_no_parameters():
    assert params("") == () and params("void") == ()


@pytest.mark.parametrize(
    "text, message",
    [
        ("int f() { return 1; }", "found none"),
        (C + "void a() {}" + C + "void b() {}", "found a, b"),
        ("#if 0\n" + C + "void a() {}\n#else\n" + C + "void a(int n) {}\n#endif", "written with <% if %>"),
        (
            C + "void a(float*** x) {}",
            r"float\*\*\* cannot be passed by a launch: T\*\* takes a list of arrays",
        ),
        (C + "void a(View<float> x) {}", "expected View<element type, number of axes>"),
        (C + "void a(const float& x) {}", "parameter x: const float& x cannot be passed by a launch"),
        (C + "void a(void (*f)(int)) {}", "cannot be passed by a launch"),
        ("typedef float* fp;" + C + "void a(fp x) {}", "cannot be passed by a launch"),
        ("__global__ void a(float* x) {}", 'a: write extern "C" before __global__'),
        ("namespace q {" + C + "void a() {} }", "a: a kernel in a C\\+\\+ namespace has no plain name"),
        ("template <typename T> __global__ void a(T* x) {}", "a: a kernel template has no plain name"),
        (C + "void a(int x, { }", "the parser understands no more from"),
        (
            "int f(int x) {\n if (x) { /* } */ '}'; \n}" + C + "void a() {}",
            "found none .the '{' in line 1 is not closed",
        ),
        ('#line 7 "x.cu"\nint f(int x) { "}";' + C + "void a() {}", "'{' in line 7 of x.cu is not closed"),
        ("int f() { } }", "found none .a '}' in line 1 closes nothing"),
    ],
)
def test_refused(text, message):
    with pytest.raises(errors.TemplateError, match=message):
        parse(text)


def test_calls_reach_through_helpers_and_macros_only_from_the_kernel():
    text = """
    #define SYNC() __syncthreads()
    template <typename T> __device__ T total(T x) { return helper(x); }
    __device__ float helper(float x) { return __shfl_xor_sync(~0u, x, 1); }
    __device__ float unused(float x) { return __ballot_sync(~0u, x > 0); }
    extern "C" __global__ void k(float* x) { x[0] = total<float>(x[0]); SYNC(); }
    """
    calls = parse(text).calls
    assert {"total", "helper", "__shfl_xor_sync", "__syncthreads"} <= calls
    assert "__ballot_sync" not in calls


def test_calls_reach_through_functions_that_return_references():
    text = "__device__ float& place(float* x) { __syncthreads(); return x[0]; }"
    assert "__syncthreads" in parse(f"{text} {C} void k(float* x) {{ place(x) = 1; }}").calls


def test_comments_and_strings_call_nothing():
    body = """/* __syncthreads() over
    lines */ char c = '"'; f("a \\" __syncwarp()"); // __ballot_sync()
    char d = '\\''; __shfl_sync(~0u, c, 0);"""
    calls = parse(C + f"void k(float* x) {{ {body} }}").calls
    assert {"c", "f", "d", "__shfl_sync"} <= calls
    assert calls.isdisjoint({"__syncthreads", "__syncwarp", "__ballot_sync"})


def test_dynamic_shared_memory():
    text = """extern __shared__ float whole[];
    extern "C" __global__ void k(float* x) {
        extern __shared__ __align__(16) unsigned char bytes[];
        __shared__ float tile[32][33];
    }"""
    whole, inner = parse(text).dynamic_shared
    assert (whole.name, whole.type_text, whole.at_file_scope) == ("whole", "float", True)
    assert (inner.name, inner.type_text, inner.at_file_scope) == ("bytes", "unsigned char", False)
    assert text[inner.start : inner.end].startswith("extern") and text[inner.end - 1] == ";"


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        ("x / (1 + fabs(x))", ("x",)),
        ("y > T(0) ? y : cast<float>(x) * limits<A>::lowest()", ("y", "x")),
        ("(T)x + a.y + b->z", ("x", "a", "b")),
        ("[&](T t) { T u = t * x; return u; }(y)", ("x", "y")),
        ("true ? 0x1f : 1e-5f", ()),
        ("fabs(x", None),
        ("x; y", None),
        ("(x)) + ((y", None),
        ("x // y", None),
        ("", None),
    ],
)
def test_the_variables_of_an_expression(expression, read):
    assert variables(expression) == read


def test_what_parsing_finds_can_be_stored_without_the_text() -> None:
    text = """
    struct Two { int a, b; };
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    work(const float* __restrict__ x, Two two, long long n)
    {
        extern __shared__ float part[];
        part[threadIdx.x] = x[two.a];
        __syncthreads();
    }"""
    unit = parse(text)
    assert unit.signature.cluster == (2, 1, 1) and unit.signature.max_threads == 64 and unit.dynamic_shared
    assert restored(json.loads(json.dumps(stored(unit))), text) == unit


@pytest.mark.parametrize(
    "body",
    [
        "auto set = [&](int i) { extern __shared__ float s[]; s[i] = y[i]; }; set(0);",
        "each(n, [&](int i) { extern __shared__ float s[]; s[i] = y[i]; });",
    ],
)
def test_dynamic_shared_memory_of_a_lambda_is_found(body: str) -> None:
    (found,) = parse(C + f"void k(float* y, int n) {{ {body} }}").dynamic_shared
    assert (found.name, found.type_text) == ("s", "float")


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("1 << (1 << 40)", None),  # memory for so many digits there is not
        ("(1 + 1) << 63", None),
        ("1 << 3 > 7 && !(2 % 2)", True),
        ("(0x10 + 3 * 2) == 22 || 0", True),
        ("1 << 3 < 8", False),
        ("-1 < 0 & 1", True),
        ("1 << -1", None),
        ("6 & 2 == 2", False),  # operators bind as in C
        ("6 | 0 != 6", True),
        ("!!4 == 1", True),
        ("!3 == 3", False),
        ("1 < 2 == 1", True),
        ("-3 % 2 == -1", True),
        ("-7 / 2 == -3 && 7 / 2 * 2 == 6", True),  # towards zero
        ("1 / 0", None),
        ("2 - 3 < 0u", None),  # numbers without a sign are left to the compiler
        ("SMALL - 4 > 0", None),
        ("1 + (2", None),
        ("1 2", None),
    ],
)
def test_conditions_are_decided_in_64_bits(condition, kept):
    """None: left to the compiler."""
    conditions = Conditions()
    conditions.line("#define SMALL 3u", "")
    line = conditions.line(f"#if {condition}", "")
    assert conditions.active == (kept is not False)
    assert bool(line) == (kept is None)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        # By values of macros, and macros in them.
        ("#define A (B | 4)\n#define B 3\n#if A == 7\nyes\n#endif", "#define A (B | 4) #define B 3 yes"),
        ("#define A A\n#if A\nno\n#endif", "#define A A"),
        ("#define A 1 + 1\n#if A * 2 == 3\nyes\n#endif", "#define A 1 + 1 yes"),  # as tokens, in no parentheses
        ("#define A defined(B) && !defined B\n#if A || B\nno\n#else\nyes\n#endif",
         "#define A defined(B) && !defined B yes"),
        ("#define A defined\n#if A\nmaybe\n#endif", "#define A defined #if A maybe #endif"),
        ("#define F(x) x\n#if F(1)\nmaybe\n#endif", "#define F(x) x #if F(1) maybe #endif"),
        # What is defined where the compiler decides is one of several values.
        ("#ifdef __X\n#define A 4\n#else\n#define A 6\n#endif\n#if A & 4\nyes\n#endif\n#if A & 2\nmaybe\n#endif",
         "#ifdef __X #define A 4 #else #define A 6 #endif yes #if A & 2 maybe #endif"),
        ("#ifdef __X\n#define A 4\n#endif\n#if A & 4\nmaybe\n#endif\n#if A & 2\nno\n#endif",
         "#ifdef __X #define A 4 #endif #if A & 4 maybe #endif"),
        ("#ifdef __X\n#define A\n#ifdef A\nyes\n#endif\n#undef A\n#endif\n#ifdef A\nno\n#endif",
         "#ifdef __X #define A yes #undef A #endif"),
        # Branches behind one that the compiler decides on.
        ("#ifdef __X\na\n#elif 0\nno\n#elif 1\nb\n#elif defined(__Y)\nno\n#else\nno\n#endif",
         "#ifdef __X a #else b #endif"),
        ("#ifdef __X\n#define A 1\n#elif 1\n#define A 1\n#endif\n#if A\nyes\n#endif",
         "#ifdef __X #define A 1 #else #define A 1 #endif yes"),
        # Versions of CUDA.
        ("#if CUDART_VERSION >= 11000\nyes\n#endif\n#if __CUDACC_VER_MAJOR__ < 9\nno\n#endif", "yes"),
        ("#if CUDA_VERSION >= 12040\nmaybe\n#endif", "#if CUDA_VERSION >= 12040 maybe #endif"),
        ("#if CUDA_VERSION >= 12040 && CUDA_VERSION < 12060\nmaybe\n#endif",
         "#if CUDA_VERSION >= 12040 && CUDA_VERSION < 12060 maybe #endif"),
        # Constants of headers that are left out.
        ("#if CHAR_BIT == 8 && INT_MIN < 0\nyes\n#endif\n#ifndef INFINITY\nno\n#endif", "yes"),
        ("#if UINT_MAX != 0xffffffff\nno\n#endif", ""),
        ("#ifndef M_PI\n#define M_PI 3.14\n#endif", "#define M_PI 3.14"),
        ("#ifdef __AVX2__\nno\n#elif defined(__SSE2__)\nno\n#else\nyes\n#endif", "yes"),
        ("#if true && !false\nyes\n#endif", "yes"),
    ],
)  # fmt: skip
def test_conditions_by_what_macros_may_be(lines, kept):
    conditions = Conditions()
    assert " ".join(conditions.line(line, lines) for line in lines.split("\n")).split() == kept.split()
    assert conditions.active


def test_a_construct_without_its_end_is_blanked_to_the_text_s_end() -> None:
    assert blanked(b"int a; __align__(16") == b"int a; " + b" " * 12
    assert blanked(b"alignas(2 * (4)) int a;") == b" " * 16 + b" int a;"
