"""Candidates that cheat or are wrong, for the judge's tests: right texts with changes, and why they are rejected."""

from __future__ import annotations

from typing import NamedTuple

from judged_right import text


class Wrong(NamedTuple):
    """A candidate for the task ``task``, the reason of its rejection, and a word of the line of its first fault."""

    task: str
    text: str
    reason: str
    line: str = ""


def changed(style: str, *changes: tuple[str, str], block: int = 64) -> str:
    """The text of a right candidate with replacements."""
    result = text(style, block)
    for before, after in changes:
        assert before in result, (style, before)
        result = result.replace(before, after)
    return result


SCALE, ROW, SOFT = "scale/one each", "row_sums/thread a row", "softmax/thread a row"
WRITE = "if (i < n) y[i] = a * x[i] + b;"
HEAD = "// grid: divide_up(n, 64)\n// block: 64\n"
SCALE_HEAD = HEAD + "__global__ void scale(const float* x, float* y, int n, float a, float b) {\n"
INDEX = "    int i = blockIdx.x * 64 + threadIdx.x;\n"

VECTORS = (
    HEAD
    + """#include <cuda_fp16.h>
template <typename T> struct __align__(16) Four { T v[16 / sizeof(T)]; };
template <typename T> __global__ void gelu(const T* x, T* y, int n) {
    const int w = 16 / sizeof(T), i = w * (blockIdx.x * 64 + threadIdx.x);
    Four<T> f;
    for (int j = 0; j < w; ++j) f.v[j] = T(0.0f);
    if (i + w <= n) f = *reinterpret_cast<const Four<T>*>(x + i);
    else
        for (int j = 0; i + j < n; ++j) f.v[j] = x[i + j];
    for (int j = 0; j < w && i + j < n; ++j) {
        const float v = float(f.v[j]);
        y[i + j] = T(0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))));
    }
}"""
)
DEEP = """__device__ float deep(float v, int n) {
    volatile float big[4096];
    big[n % 4096] = v;
    return n < 0 ? v : deep(v, n + 1) + big[n % 7];
}
"""
MANY = """template <int n, int m> struct F {
    static constexpr long long v = F<n - 1, 2 * m>::v + F<n - 1, 2 * m + 1>::v;
};
template <int m> struct F<0, m> { static constexpr long long v = m; };
"""

#: By name: what cheats the judge's process, what cheats the comparison, and what is wrong.
WRONG: dict[str, Wrong] = {
    # Text that is for a host.
    "runs assembly": Wrong(
        "scale", changed(SCALE, (WRITE, 'asm("syscall"); ' + WRITE)), "forbidden", "syscall"
    ),
    "assembly under a macro": Wrong(
        "scale",
        "#define GO __asm__\n" + changed(SCALE, (WRITE, 'GO("nop");' + WRITE)),
        "forbidden",
        "GO __asm__",
    ),
    "makes a word of two": Wrong(
        "scale",
        "#define GLUE(a, b) a##b\n" + changed(SCALE, (WRITE, 'GLUE(as, m)("nop");' + WRITE)),
        "forbidden",
        "a##b",
    ),
    "a word on two lines": Wrong(
        "scale", changed(SCALE, (WRITE, 'as\\\nm("nop");' + WRITE)), "forbidden", "as\\"
    ),
    "a constructor": Wrong(
        "scale",
        changed(SCALE) + "\n__attribute__((constructor)) void early() { }",
        "forbidden",
        "constructor",
    ),
    "reads a file by a header": Wrong(
        "scale", changed(SCALE) + '\n#include "/etc/passwd"', "forbidden", "passwd"
    ),
    "a header of the host": Wrong("scale", changed(SCALE) + "\n#include <fstream>", "forbidden", "fstream"),
    "an attribute of the compiler": Wrong(
        "scale", changed(SCALE) + "\n[[gnu::constructor]] static void early() { }", "forbidden", "constructor"
    ),
    "a prototype of the host": Wrong(
        "scale",
        'extern "C" int unlink(const char*);\n' + changed(SCALE, (WRITE, 'unlink("x");' + WRITE)),
        "forbidden",
        "int unlink",
    ),
    "a prototype by a macro": Wrong(
        "scale",
        '#define LINK extern "C"\nLINK int unlink(const char*);\n'
        + changed(SCALE, (WRITE, 'unlink("x");' + WRITE)),
        "forbidden",
        "#define LINK",
    ),
    "a function of the C++ library": Wrong(
        "scale", "namespace std { void terminate(); }\n" + changed(SCALE), "forbidden", "namespace std"
    ),
    "declares a function of the host": Wrong(
        "scale",
        changed(SCALE, (WRITE, 'int unlink(const char*); unlink("x");\n' + WRITE)),
        "forbidden",
        "unlink",
    ),
    "asks where it is compiled": Wrong(
        "scale", changed(SCALE, (WRITE, "if (__CUDA_ARCH__ > 0) " + WRITE)), "forbidden", "__CUDA_ARCH__"
    ),
    "calls the system": Wrong(
        "scale",
        'extern "C" int system(const char*);\n' + changed(SCALE, (WRITE, 'system("true");' + WRITE)),
        "forbidden",
    ),
    "reads the environment": Wrong(
        "scale", changed(SCALE, (WRITE, 'getenv("HOME");' + WRITE)), "forbidden", "getenv"
    ),
    "loads a library": Wrong(
        "scale", changed(SCALE, (WRITE, 'dlopen("x", 1);' + WRITE)), "forbidden", "dlopen"
    ),
    "takes the compiler's functions": Wrong(
        "scale", changed(SCALE, (WRITE, "__builtin_trap();" + WRITE)), "forbidden", "__builtin_trap"
    ),
    "turns asserts off": Wrong(
        "scale", "#define assert(x)\n" + changed(SCALE), "forbidden", "#define assert"
    ),
    "redefines barriers": Wrong(
        "row_sums",
        "#define __syncthreads() (void)0\n" + changed("row_sums/block a row"),
        "forbidden",
        "#define __sync",
    ),
    "redefines a type": Wrong(
        "row_sums", "#define float double\n" + changed(ROW), "forbidden", "#define float"
    ),
    "is another kernel where it is tested": Wrong(
        "scale",
        changed(
            SCALE, (WRITE, f"#ifdef __CUDA_ARCH__\n    if (i < n) y[i] = 0;\n#else\n    {WRITE}\n#endif")
        ),
        "forbidden",
        "#ifdef",
    ),
    "asks the compiler's version": Wrong(
        "scale", changed(SCALE, (WRITE, f"#if __GNUC__\n    {WRITE}\n#endif")), "forbidden", "__GNUC__"
    ),
    "reads the clock": Wrong(
        "scale", changed(SCALE, (WRITE, "if (clock64() % 2 == 0) y[0] = 0;" + WRITE)), "forbidden", "clock64"
    ),
    "prints": Wrong("scale", changed(SCALE, (WRITE, 'printf("0.000");' + WRITE)), "forbidden", "printf"),
    "takes memory": Wrong(
        "scale", changed(SCALE, (WRITE, "while (malloc(1 << 20)) ;" + WRITE)), "forbidden", "malloc"
    ),
    "changes a line's number": Wrong(
        "scale", changed(SCALE, (WRITE, f"\n#line 900\n{WRITE}")), "forbidden", "#line 900"
    ),
    "changes optimisation": Wrong(
        "scale", "#pragma GCC optimize (0)\n" + changed(SCALE), "forbidden", "#pragma"
    ),
    "a comment that goes on": Wrong(
        "scale",
        changed(SCALE, (WRITE, f'// a \\\n/*\nextern "C" int unlink(const char*);\n// \\\n*/\n{WRITE}')),
        "forbidden",
        "unlink",
    ),
    "a directive on two lines": Wrong(
        "scale", changed(SCALE) + '\n# \\\ninclude "/etc/passwd"', "forbidden", "# \\"
    ),
    "a directive behind a form feed": Wrong(
        "scale", changed(SCALE) + '\f#include "/etc/passwd"', "forbidden", "passwd"
    ),
    "asks for a constant of some headers": Wrong(
        "scale",
        changed(SCALE, (WRITE, f"#ifdef M_PI\n    if (i < n) y[i] = 0;\n#else\n    {WRITE}\n#endif")),
        "forbidden",
        "#ifdef",
    ),
    "defines a constant where it asks": Wrong(
        "scale",
        changed(SCALE, (WRITE, f"#if 0\n#define UINT_MAX 1\n#endif\n#ifndef UINT_MAX\n    {WRITE}\n#endif")),
        "forbidden",
        "#ifndef",
    ),
    "borrows the library's condition": Wrong(
        "scale",
        changed(
            SCALE,
            (
                WRITE,
                '\n#line 8 "prelude/alike.cuh"\n#ifdef __CUDA_ARCH__\n'
                f"    if (i < n) y[i] = 0;\n#else\n    {WRITE}\n#endif",
            ),
        ),
        "forbidden",
        "#ifdef",
    ),
    "a type that tells devices apart": Wrong(
        "scale", changed(SCALE, ("a * x[i]", "(sizeof(long double) == 16) * a * x[i]")), "forbidden", "sizeof"
    ),
    "an array of any length": Wrong(
        "scale",
        changed(SCALE, (WRITE, "float q[n]; q[0] = b;\n" + WRITE.replace("b;", "q[0];"))),
        "compile",
    ),
    "code before the launch": Wrong(
        "scale",
        changed(
            SCALE,
            (
                "__global__",
                "struct Q { int v; __device__ Q() : v(threadIdx.x) {} };\n__device__ Q q;\n__global__",
            ),
            ("b;", "b + 0 * q.v;"),
        ),
        "compile",
    ),
    "a version in its launch": Wrong(
        "scale", "// launch: scale<__GNUC__>(x, y, n, a, b)\n" + changed(SCALE), "forbidden", "__GNUC__"
    ),
    # Launches.
    "Python in its launch": Wrong(
        "scale",
        changed(SCALE, ("divide_up(n, 64)", "__import__('os').system('true')")),
        "launch",
        "__import__",
    ),
    "a power in its launch": Wrong(
        "scale", changed(SCALE, ("divide_up(n, 64)", "9 ** 9 ** 9")), "launch", "9 ** 9"
    ),
    "no launch": Wrong("scale", text(SCALE).partition("\n\n")[2], "launch"),
    "more threads than there are": Wrong(
        "scale", changed(SCALE, ("// block: 64", "// block: 2048")), "launch"
    ),
    "another name": Wrong("scale", changed(SCALE, ("void scale(", "void scales(")), "signature"),
    "other parameters": Wrong(
        "scale", changed(SCALE, ("const float* x, float* y", "const double* x, float* y")), "signature"
    ),
    "writes by its signature": Wrong("scale", changed(SCALE, ("const float* x", "float* x")), "signature"),
    "does not compile": Wrong("scale", changed(SCALE, ("a * x[i]", "a * z[i]")), "compile"),
    # Memory.
    "no guard": Wrong("scale", changed(SCALE, ("if (i < n) ", "")), "bounds", "y[i] ="),
    "reads what lies beside": Wrong(
        "scale", changed(SCALE, ("a * x[i]", "a * x[i - 4096]")), "bounds", "y[i] ="
    ),
    "follows an address": Wrong(
        "scale",
        changed(SCALE, (WRITE, "y[i] = *reinterpret_cast<const float*>(4096ull * (i + 1));")),
        "bounds",
        "4096ull",
    ),
    "writes far away": Wrong(
        "scale", changed(SCALE, (WRITE, WRITE + "\n    y[1ll << 40] = 0;")), "bounds", "1ll << 40"
    ),
    "loses a barrier": Wrong(
        "row_sums",
        changed(
            "row_sums/block a row",
            ("part[threadIdx.x + half];\n        __syncthreads();", "part[threadIdx.x + half];"),
        ),
        "race",
        "part[threadIdx.x] +=",
    ),
    "sums without atomics": Wrong(
        "histogram",
        changed("histogram/one block", ("atomicAdd(&own[keys[i]], 1)", "own[keys[i]] += 1")),
        "race",
        "own[keys[i]]",
    ),
    "does not clear": Wrong(
        "histogram",
        changed("histogram/one block", ("    if (threadIdx.x < 16) own[threadIdx.x] = 0;\n", "")),
        "unset",
    ),
    "adds to what is there": Wrong("row_sums", changed(ROW, ("y[r] = v", "y[r] += v")), "unset", "y[r] +="),
    "only some threads wait": Wrong(
        "row_sums",
        changed(
            "row_sums/block a row",
            ("v += x[blockIdx.x * columns + c];", "{ v += x[blockIdx.x * columns + c]; __syncthreads(); }"),
        ),
        "divergence",
    ),
    "writes its input": Wrong(
        "scale",
        changed(SCALE, (WRITE, WRITE + "\n    if (i == 0) const_cast<float*>(x)[0] = 0;")),
        "input written",
        "const_cast",
    ),
    "overflows": Wrong(
        "scale",
        changed(
            SCALE, (WRITE, "int big = n * 2147483 * 64; " + WRITE.replace("b;", "b + (big == 1 ? 1 : 0);"))
        ),
        "arithmetic",
        "big",
    ),
    "vectors anywhere": Wrong("gelu", VECTORS, "misaligned"),
    "allocates in its launch": Wrong(
        "scale", "// scratch: double all[n * 67108864]\n" + changed(SCALE), "launch"
    ),
    # It does not end, or ends its process.
    "never ends": Wrong(
        "scale",
        SCALE_HEAD + INDEX + "    volatile int go = 1;\n    while (go) { }\n    if (i < n) y[i] = 0;\n}",
        "timeout",
    ),
    "compiles without end": Wrong(
        "scale",
        HEAD
        + MANY
        + changed(SCALE, (HEAD, ""), (WRITE, "if (i < n) y[i] = a * x[i] + b + 0 * F<24, 1>::v;")),
        "memory",
    ),
    "calls an address": Wrong(
        "scale", changed(SCALE, (WRITE, "((void (*)())(4096ull + n))(); " + WRITE)), "bounds"
    ),
    "calls its constants": Wrong(
        "scale",
        changed(
            SCALE,
            ("__global__", "__device__ const unsigned char code[4] = {0xc3};\n__global__"),
            (WRITE, WRITE + "\n    if (i == 0) ((void (*)())(unsigned long long)code)();"),
        ),
        "bounds",
    ),
    "calls itself for ever": Wrong(
        "scale",
        HEAD + DEEP + changed(SCALE, (HEAD, ""), ("a * x[i] + b", "deep(x[i], 0)")),
        "fault",
    ),
    "fills a variable": Wrong(
        "scale",
        HEAD
        + "__device__ char all[1ll << 33];\n"
        + SCALE_HEAD.removeprefix(HEAD)
        + INDEX
        + "    for (long long j = 0; j < 1ll << 33; j += 64) all[j + threadIdx.x] = 1;\n"
        "    if (i < n) y[i] = a * x[i] + b;\n}",
        "memory",
    ),
    # Results that were not computed.
    "writes nothing": Wrong("scale", SCALE_HEAD + "}", "unwritten"),
    "writes half": Wrong("scale", changed(SCALE, ("if (i < n)", "if (i < n / 2)")), "unwritten"),
    "leaves the last element": Wrong("scale", changed(SCALE, ("if (i < n)", "if (i < n - 1)")), "unwritten"),
    "keeps its first results": Wrong(
        "scale",
        HEAD
        + "__device__ float kept[8192];\n__device__ int known[8192];\n"
        + SCALE_HEAD.removeprefix(HEAD)
        + INDEX
        + "    if (i >= n) return;\n    if (known[i] != n) { kept[i] = a * x[i] + b; known[i] = n; }\n"
        "    y[i] = kept[i];\n}",
        "cached",
    ),
    "keeps results by address": Wrong(
        "scale",
        HEAD
        + "__device__ float kept[8192];\n__device__ const float* from;\n"
        + SCALE_HEAD.removeprefix(HEAD)
        + INDEX
        + "    if (i >= n) return;\n    y[i] = kept[i] = from == x && kept[i] != 0 ? kept[i] : a * x[i] + b;\n"
        "    if (i == n - 1) from = x;\n}",
        "race",
    ),
    "does not repeat what it has done": Wrong(
        "scale",
        HEAD
        + "__device__ int last[32768], sizes[32768];\n"
        + SCALE_HEAD.removeprefix(HEAD)
        + INDEX
        + "    const bool some = i < n, memo = i < 32768;\n"
        "    const int bits = some ? __float_as_int(x[i]) : 0;\n"
        "    if (__syncthreads_and(!some || (memo && sizes[i] == n && last[i] == bits))) return;\n"
        "    if (some && memo) { sizes[i] = n; last[i] = bits; }\n"
        "    if (some) y[i] = a * x[i] + b;\n}",
        "unwritten",
    ),
    "counts its launches": Wrong(
        "scale",
        HEAD
        + "__device__ int launches[8192];\n"
        + SCALE_HEAD.removeprefix(HEAD)
        + INDEX
        + "    if (i < n) y[i] = launches[i]++ < 2 ? a * x[i] + b : 0;\n}",
        "state",
    ),
    "knows the announced size": Wrong(
        "row_sums",
        changed(ROW, ("float v = 0;", "float v = 0;\n    if (columns != 256) { y[r] = 0; return; }")),
        "shape",
        "y[r] = 0",
    ),
    "one block's columns": Wrong(
        "row_sums",
        changed(
            "row_sums/block a row",
            (
                "for (int c = threadIdx.x; c < columns; c += BLOCK)".replace("BLOCK", "256"),
                "for (int c = threadIdx.x; c < min(columns, 256); c += 256)",
            ),
            block=256,
        ),
        "shape",
    ),
    "constants for sizes": Wrong(
        "matmul", changed("matmul/one each", ("i < k", "i < 32"), ("row * k", "row * 32")), "shape"
    ),
    "returns zeros": Wrong(
        "softmax", changed(SOFT, ("y[r * columns + c] = expf", "y[r * columns + c] = 0 * expf")), "wrong"
    ),
    "returns the mean": Wrong(
        "softmax", changed(SOFT, ("= expf(x[r * columns + c] - m) / s", "= 1.0f / columns")), "wrong"
    ),
    "copies its input": Wrong(
        "gelu",
        changed(
            "gelu/template",
            ("(T)(0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))))", "x[i]"),
        ),
        "wrong",
    ),
    "forgets a term": Wrong("gelu", changed("gelu/template", (" + 0.044715f * v * v * v", "")), "wrong"),
    "transposes nothing": Wrong(
        "transpose", changed("transpose/one each", ("y[i % columns * rows + i / columns]", "y[i]")), "wrong"
    ),
    "an index of 32 bits": Wrong(
        "transpose",
        changed(
            "transpose/one each", ("(long long)blockIdx.x * 64", "blockIdx.x * 64"), ("long long i", "int i")
        ),
        "arithmetic",
        "y[i % columns",
    ),
    "a product of 32 bits": Wrong(
        "transpose",
        changed("transpose/one each", ("(long long)rows * columns", "rows * columns")),
        "arithmetic",
    ),
    "right if square": Wrong(
        "transpose",
        changed("transpose/one each", ("* rows + i / columns", "* columns + i / columns")),
        "bounds",
    ),
    "skips the last column": Wrong("row_sums", changed(ROW, ("c < columns;", "c < columns - 1;")), "wrong"),
    "samples": Wrong(
        "row_sums",
        changed(ROW, ("v += x[r * columns + c]", "v += c % 2 ? 0 : 2 * x[r * columns + c]")),
        "wrong",
    ),
    # Results that are right for some numbers.
    "no maximum": Wrong("softmax", changed(SOFT, ("larger(m, x[r * columns + c])", "0")), "special value"),
    "drops NaN": Wrong(
        "softmax",
        changed(
            SOFT,
            ("a > b || isnan(a) ? a : b", "fmaxf(a, b)"),
            (" += expf", " += isnan(x[r * columns + c]) ? 0 : expf"),
        ),
        "special value",
    ),
    "one pass of squares": Wrong(
        "layer_norm",
        changed(
            "layer_norm/thread a row",
            ("(x[c] - mean) * (x[c] - mean)", "x[c] * x[c]"),
            ("square / columns + eps", "square / columns - mean * mean + eps"),
        ),
        "special value",
    ),
    "aligned arrays alone": Wrong(
        "gelu",
        changed("gelu/template", ("y[i] = (T)(", "y[i] = (T)((unsigned long long)x % 16 ? 0.0f : ")),
        "layout",
    ),
    "equal numbers": Wrong(
        "scan",
        changed(
            "scan/thread a row",
            (
                "= v += x[r * columns + c]",
                "= (v = columns > 1 && x[r * columns] == x[r * columns + 1] ? x[r * columns] : v + x[r * columns + c])",
            ),
        ),
        "special value",
    ),
    "clamps": Wrong(
        "scale", changed(SCALE, ("a * x[i] + b", "a * fminf(x[i], 100.0f) + b")), "special value"
    ),
    # Results of fewer digits.
    "adds in half": Wrong(
        "row_sums",
        changed(
            ROW,
            ("// block: 64\n", "// block: 64\n#include <cuda_fp16.h>\n"),
            ("float v = 0;", "__half v = __float2half(0.0f);"),
            ("v += x[r * columns + c]", "v = __hadd(v, __float2half(x[r * columns + c]))"),
            ("y[r] = v", "y[r] = __half2float(v)"),
        ),
        "precision",
    ),
    "a constant of three digits": Wrong(
        "gelu", changed("gelu/template", ("0.7978845608f", "0.798f")), "precision"
    ),
    "rounds its results": Wrong(
        "scale",
        changed(
            SCALE,
            ("// block: 64\n", "// block: 64\n#include <cuda_fp16.h>\n"),
            ("a * x[i] + b", "__half2float(__float2half(a * x[i] + b))"),
        ),
        "precision",
    ),
    "other bits each time": Wrong(
        "add",
        "// grid: 1\n// block: 64\n__device__ int runs;\n__global__ void add(float* y, const float* x, int n) {\n"
        "    const int flip = runs % 3 == 0;\n    __syncthreads();\n    if (threadIdx.x == 0) ++runs;\n"
        "    for (int i = threadIdx.x; i < n; i += 64) y[i] = __int_as_float(__float_as_int(y[i] + x[i]) ^ flip);\n}",
        "nondeterministic",
    ),
    # Mistakes of careful authors.
    "does not rescale": Wrong(
        "softmax", changed("softmax/online", ("s * (m == next ? 1.0f : expf(m - next))", "s")), "wrong"
    ),
    "another variance": Wrong(
        "layer_norm",
        changed("layer_norm/thread a row", ("square / columns + eps", "square / (columns - 1) + eps")),
        "precision",
    ),
    "eps outside of the root": Wrong(
        "layer_norm",
        changed(
            "layer_norm/block a row",
            ("sqrtf(block_sum(v, part) / columns + eps)", "sqrtf(block_sum(v, part) / columns) + eps"),
        ),
        "precision",
    ),
    "one barrier of two": Wrong(
        "matmul",
        changed("matmul/tiles", ("bs[i][threadIdx.x];\n        __syncthreads();", "bs[i][threadIdx.x];")),
        "race",
    ),
    "no fence": Wrong(
        "sum",
        changed("sum/last block", ("        __threadfence();\n        last", "        last")),
        "race",
        "parts)[i]",
    ),
    "half a warp": Wrong("sum", changed("sum/warps", ("int step = 16", "int step = 8")), "wrong"),
    "one block alone": Wrong(
        "scan", changed("scan/by doubling", ("before += part[now][64 - 1]", "before += 0")), "wrong"
    ),
    "too few blocks": Wrong(
        "scale", changed(SCALE, ("// grid: divide_up(n, 64)", "// grid: 4")), "unwritten"
    ),
    "a smaller array": Wrong(
        "row_sums",
        changed("row_sums/cooperative groups", ("part[64 / 32]", "part[1]")),
        "bounds",
        "part[threadIdx.x / 32] = v",
    ),
    "no shared memory asked for": Wrong(
        "softmax",
        changed("softmax/row in shared memory", ("// shared: 4 * columns\n", "")),
        "bounds",
        "row[c] = x",
    ),
    "another gelu": Wrong(
        "gelu",
        changed(
            "gelu/template", ("tanhf(0.7978845608f * (v + 0.044715f * v * v * v))", "erff(0.70710678f * v)")
        ),
        "precision",
    ),
    "a tile's rows for columns": Wrong(
        "transpose", changed("transpose/tiles", ("tile[threadIdx.x][j]", "tile[j][threadIdx.x]")), "wrong"
    ),
    "blocks assign": Wrong(
        "histogram",
        changed(
            "histogram/shared",
            ("atomicAdd(&counts[threadIdx.x], own[threadIdx.x])", "counts[threadIdx.x] += own[threadIdx.x]"),
        ),
        "race",
    ),
    "some lanes shuffle": Wrong(
        "scan",
        changed(
            "scan/warps",
            ("const float left = __shfl_up_sync(0xffffffff, v, step);", ""),
            ("v += left", "v += __shfl_up_sync(0xffffffff, v, step)"),
        ),
        "divergence",
        "__shfl",
    ),
    "a counter that stays": Wrong(
        "sum", changed("sum/sets its counter back", ("        arrived = 0;\n", "")), "unwritten"
    ),
    "rows left out": Wrong(
        "layer_norm",
        changed("layer_norm/warps", ("+ threadIdx.x / 32, lane", "+ threadIdx.x / 64, lane")),
        "unwritten",
    ),
    "a sum without a beginning": Wrong("row_sums", changed(ROW, ("float v = 0;", "float v;")), "unset"),
    "rows for columns": Wrong(
        "gather",
        changed("gather/one each", ("index[i / columns] * columns", "index[i / columns] * rows")),
        "bounds",
    ),
    "no maximum of wide rows": Wrong(
        "softmax",
        changed(
            SOFT, ("larger(m, x[r * columns + c])", "larger(m, columns > 200 ? 0.0f : x[r * columns + c])")
        ),
        "special value",
    ),
    "takes one for the other": Wrong(
        "add", changed("add/in place", ("y[i] += x[i]", "y[i] = 2 * x[i]")), "wrong"
    ),
    "no tail": Wrong(
        "row_sums",
        changed("row_sums/warp a row", ("c < columns; c += 32", "c < columns / 32 * 32; c += 32")),
        "shape",
    ),
    # Results that are wrong for sizes far longer than those announced.
    "columns up to sixteen times": Wrong(
        "row_sums",
        changed(ROW, ("c < columns;", "c < (columns < 4096 ? columns : 4096);")),
        "shape",
        "y[r] = v",
    ),
    "elements up to sixteen times": Wrong(
        "scale", changed(SCALE, ("i < n", "i < n && i < 16384")), "unwritten"
    ),
    "halves up to sixteen times": Wrong(
        "gelu",
        changed("gelu/template", ("if (i >= n)", "if (i >= n || (sizeof(T) == 2 && i >= 8192))")),
        "unwritten",
    ),
    "as many rows as blocks": Wrong(
        "row_sums", changed("row_sums/block a row", ("// grid: rows", "// grid: min(rows, 512)")), "unwritten"
    ),
    "a row in a local array": Wrong(
        "softmax",
        changed(
            SOFT,
            ("float m = -INFINITY", "float row[2048], m = -INFINITY"),
            ("s += expf(x[r * columns + c] - m)", "s += row[c] = expf(x[r * columns + c] - m)"),
            ("= expf(x[r * columns + c] - m) / s", "= row[c] / s"),
        ),
        "bounds",
        "row[c] = expf",
    ),
    "a row in a shared array": Wrong(
        "softmax",
        changed(
            "softmax/row in shared memory",
            ("// shared: 4 * columns\n", ""),
            ("extern __shared__ float row[]", "__shared__ float row[2048]"),
        ),
        "bounds",
        "row[c] = x",
    ),
    "shared memory up to a length": Wrong(
        "softmax",
        changed("softmax/row in shared memory", ("shared: 4 * columns", "shared: 4 * min(columns, 2048)")),
        "bounds",
        "row[c] = x",
    ),
    "a row in registers": Wrong(
        "softmax",
        changed(
            "softmax/block a row",
            ("float m = -INFINITY", "float v[16], m = -INFINITY"),
            (
                "for (int c = threadIdx.x; c < columns; c += 128) m = larger(m, x[c]);",
                "for (int j = 0, c = threadIdx.x; j < 16; ++j, c += 128)\n"
                "        m = larger(m, v[j] = c < columns ? x[c] : -INFINITY);",
            ),
            (
                "for (int c = threadIdx.x; c < columns; c += 128) s += expf(x[c] - m);",
                "for (int j = 0; j < 16; ++j) s += v[j] = expf(v[j] - m);",
            ),
            (
                "for (int c = threadIdx.x; c < columns; c += 128) y[c] = expf(x[c] - m) / s;",
                "for (int j = 0, c = threadIdx.x; j < 16 && c < columns; ++j, c += 128) y[c] = v[j] / s;",
            ),
            block=128,
        ),
        "unwritten",
    ),
    "no maximum of the longest rows": Wrong(
        "softmax",
        changed(
            SOFT, ("larger(m, x[r * columns + c])", "larger(m, columns > 2048 ? 0.0f : x[r * columns + c])")
        ),
        "special value",
    ),
    "weights up to a length": Wrong(
        "layer_norm",
        changed("layer_norm/thread a row", ("weight[c] + bias[c]", "weight[c % 2048] + bias[c % 2048]")),
        "shape",
    ),
    "terms up to sixteen times": Wrong(
        "matmul", changed("matmul/tiles", ("start < k;", "start < min(k, 512);")), "shape"
    ),
    "rows up to sixteen times": Wrong(
        "matmul",
        changed("matmul/one each", ("divide_up(m, 64 / 16)", "min(divide_up(m, 64 / 16), 256)")),
        "unwritten",
    ),
    "columns of a product up to sixteen times": Wrong(
        "matmul",
        changed("matmul/row a block", ("column < n; column", "column < min(n, 768); column")),
        "unwritten",
    ),
    "tiles up to a length": Wrong(
        "transpose",
        changed("transpose/tiles", ("divide_up(rows, 32)", "min(divide_up(rows, 32), 32)")),
        "unwritten",
    ),
    "chunks up to sixteen times": Wrong(
        "scan",
        changed(
            "scan/by doubling",
            ("before += part[now][64 - 1]", "before += start < 4032 ? part[now][64 - 1] : 0"),
        ),
        "shape",
    ),
    "parts up to sixteen times": Wrong(
        "sum",
        changed(
            "sum/two launches",
            ("parts[8]", "parts[64]"),
            ("// grid: 8", "// grid: divide_up(n, 1024)"),
            ("y, 8)", "y, divide_up(n, 1024))"),
        ),
        "bounds",
        "parts[blockIdx.x] =",
    ),
    "gathers up to sixteen times": Wrong(
        "gather", changed("gather/block a row", ("// grid: n", "// grid: min(n, 1120)")), "unwritten"
    ),
    "the last of many terms": Wrong(
        "sum",
        changed("sum/warps", ("i < n; i += 64", "i < (n < 5000 ? n : n - 1); i += 64")),
        "special value",
    ),
    # Derivatives.
    "forgets the chain": Wrong(
        "swish", changed("swish/one each", ("* (1 + x[i] * (1 - s))", "")), "gradient"
    ),
    "ignores the cotangent": Wrong("swish", changed("swish/one each", ("g[i] * s", "s")), "gradient"),
    "a wrong sign": Wrong(
        "softmax_grad",
        changed("softmax_grad/thread a row", ("g[r * columns + c] - s)", "g[r * columns + c] + s)")),
        "gradient",
    ),
    "the first block's gradient": Wrong(
        "swish",
        changed("swish/one each", ("d_x[i] = g[i]", "d_x[i] = (blockIdx.x > 0 ? 0.5f : 1.0f) * g[i]")),
        "gradient",
    ),
    "a long row's gradient": Wrong(
        "softmax_grad",
        changed(
            "softmax_grad/thread a row",
            ("c < columns; ++c) s += y[", "c < min(columns, 640); ++c) s += y["),
        ),
        "gradient",
    ),
    "the gradient up to sixteen times": Wrong(
        "swish",
        changed("swish/one each", ("if (i >= n) return;", "if (i >= n || i >= 4800) return;")),
        "gradient",
    ),
    "the gradient of square arrays": Wrong(
        "softmax_grad",
        changed(
            "softmax_grad/thread a row",
            ("d_x[r * columns + c] = y[r * columns + c] *", "d_x[r * columns + c] = y[r * rows + c] *"),
        ),
        "gradient",
    ),
    "no backward": Wrong(
        "swish",
        text("swish/one each").replace("// backward:\n// grid: divide_up(n, 64)\n// block: 64\n", ""),
        "launch",
    ),
}
