"""Kernels with a planted mistake each, by class: ``wrong`` chooses between the right text and the wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cukern as ck


@dataclass(frozen=True)
class Pair:
    """A right and a wrong kernel.

    Attributes:
        kinds: the class of the mistake.
        name: what it is.
        body: the kernel's parameters and body; what stands in ``⟦right|||wrong⟧`` differs.
        args: makes the arguments.
        expected: kinds of report, one of which the wrong kernel gives.
        array: the name that the report has, if any.
        launch: of both, or the wrong one's in ``wrong_launch``.
    """

    kinds: str
    name: str
    body: str
    args: Callable[[], list[Any]]
    expected: str
    array: str = ""
    before: str = ""
    launch: dict[str, Any] = field(default_factory=dict)
    wrong_launch: dict[str, Any] = field(default_factory=dict)

    def text(self, wrong: bool) -> str:
        parts = []
        for piece in f'{self.before}\nextern "C" __global__ void << name >>{self.body}'.split("⟦"):
            choice, found, rest = piece.partition("⟧")
            parts.append(choice.split("|||")[wrong] + rest if found else piece)
        return "".join(parts)

    def run(self, wrong: bool, **more: Any) -> list[Any]:
        options = {**self.launch, **(self.wrong_launch if wrong else {})}
        block = options.pop("block", 64)
        kernel = ck.Kernel(self.text(wrong), block=block, name="planted", **more)
        args = self.args()
        kernel(*args, **options)
        return args


def _f(n: int) -> ck.Array:
    return ck.linspace(1, 2, n, dtype=ck.float32)


def _two(n: int, m: int | None = None) -> Callable[[], list[Any]]:
    return lambda: [_f(n), ck.zeros(m or n), n]


INDEX = "int i = blockIdx.x * << block >> + threadIdx.x;"
SUM = """(const float* x, float* y, int n) {
    __shared__ float part[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    part[t] = i < n ? x[i] : 0.0f;
"""

PAIRS = [
    # ---------------------------------------------------------------- global memory, out of bounds
    Pair("global bounds", "no guard", f"(const float* x, float* y, int n) {{\n{INDEX}\n⟦if (i < n)|||⟧ y[i] = 2 * x[i];\n}}",
         _two(100), "out of bounds", "x", launch={"grid": 2}),
    Pair("global bounds", "guard off by one", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i ⟦<|||<=⟧ n) y[i] = 2;\n}}",
         _two(100), "out of bounds", "y", launch={"grid": 2}),
    Pair("global bounds", "stencil's right edge",
         f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i > 0 && i < n⟦ - 1|||⟧) y[i] = x[i - 1] + x[i + 1];\n}}",
         _two(100), "out of bounds", "x", launch={"grid": 2}),
    Pair("global bounds", "stencil's left edge",
         f"(const float* x, float* y, int n) {{\n{INDEX}\nif (⟦i > 0 && |||⟧i < n) y[i] = x[i - 1];\n}}",
         _two(100), "out of bounds", "x", launch={"grid": 2}),
    Pair("global bounds", "gather by a bad index",
         f"(const float* x, float* y, const int* at, int n) {{\n{INDEX}\nif (i < n) y[i] = x[at[i]⟦ % n|||⟧];\n}}",
         lambda: [_f(50), ck.zeros(50), ck.arange(50, dtype=ck.int32) + 7, 50], "out of bounds", "x", launch={"grid": 1}),
    Pair("global bounds", "rows taken for columns",
         "(const float* x, float* y, int rows, int columns) {\nint r = threadIdx.y, c = threadIdx.x;\n"
         "if (r < rows && c < columns) y[c * rows + r] = x[r * ⟦columns|||33⟧ + c];\n}",
         lambda: [_f(4 * 10), ck.zeros(40), 4, 10], "out of bounds", "x", launch={"grid": 1, "block": (16, 4)}),
    Pair("global bounds", "four at a time over the tail",
         f"(const float4* x, float4* y, int n) {{\n{INDEX}\nif (i < n ⟦/ 4|||/ 4 + 1⟧) y[i] = x[i];\n}}",
         lambda: [_f(102), ck.zeros(102), 102], "out of bounds", "x", launch={"grid": 1}),
    # ---------------------------------------------------------------- shared memory, out of bounds
    Pair("shared bounds", "halo not allotted", """(const float* x, float* y) {
    __shared__ float s[⟦66|||65⟧];
    int t = threadIdx.x;
    s[t + 1] = x[t];
    if (t == 0) { s[0] = 0; s[65] = 0; }
    __syncthreads();
    y[t] = s[t] + s[t + 2];
}""", lambda: [_f(64), ck.zeros(64)], "out of bounds", "s", launch={"grid": 1}),
    Pair("shared bounds", "through a pointer", """(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ float other[64];
    float* p = s;
    int t = threadIdx.x;
    other[t] = 1;
    p[t] = x[t];
    __syncthreads();
    y[t] = p[⟦63 - t|||64 - t⟧] + other[t];
}""", lambda: [_f(64), ck.zeros(64)], "out of bounds", "s", launch={"grid": 1}),
    Pair("shared bounds", "a column of a tile", """(const float* x, float* y) {
    __shared__ float tile[8][8];
    int c = threadIdx.x, r = threadIdx.y;
    tile[r][c] = x[r * 8 + c];
    __syncthreads();
    y[r * 8 + c] = tile[c][⟦r|||r + 1⟧];
}""", lambda: [_f(64), ck.zeros(64)], "out of bounds", launch={"grid": 1, "block": (8, 8)}),
    Pair("shared bounds", "a local array", """(const float* x, float* y, int n) {
    float last[4] = {};
    for (int k = 0; k ⟦<|||<=⟧ n; ++k) last[k] = x[k];
    y[threadIdx.x] = last[threadIdx.x & 3];
}""", lambda: [_f(64), ck.zeros(64), 4], "out of bounds", launch={"grid": 1}),
    Pair("shared bounds", "a local array by a pointer", """(const float* x, float* y) {
    float last[5];
    for (int i = 0; i < 5; ++i) last[i] = x[threadIdx.x + i];
    moved(last, 5);
    y[threadIdx.x] = last[0] + last[4];
}""", lambda: [_f(80), ck.zeros(64)], "out of bounds", launch={"grid": 1},
         before="__device__ void moved(float* p, int n) { for (int i = 0; i < n⟦ - 1|||⟧; ++i) p[i] = p[i + 1]; }"),
    # ---------------------------------------------------------------- dynamic shared memory, too small
    *(Pair("dynamic shared", name, """(const float* x, float* y) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t];
}""", lambda: [_f(64), ck.zeros(64)], "out of bounds", "s", launch={"grid": 1, "shared": 256}, wrong_launch={"shared": shared})
      for name, shared in [("none", 0), ("half", 128), ("one element less", 252)]),
    Pair("dynamic shared", "two arrays in one", """(const float* x, float* y) {
    extern __shared__ float s[];
    float* second = s + 64;
    int t = threadIdx.x;
    s[t] = x[t]; second[t] = 2 * x[t];
    __syncthreads();
    y[t] = s[63 - t] + second[63 - t];
}""", lambda: [_f(64), ck.zeros(64)], "out of bounds", "s", launch={"grid": 1, "shared": 512}, wrong_launch={"shared": 256}),
    # ---------------------------------------------------------------- races in shared memory
    Pair("shared race", "no barrier after the load", SUM + """    ⟦__syncthreads();|||⟧
    for (int half = 32; half > 0; half /= 2) { if (t < half) part[t] += part[t + half]; __syncthreads(); }
    if (t == 0) y[blockIdx.x] = part[0];
}""", _two(100, 2), "race", "part", launch={"grid": 2}),
    Pair("shared race", "no barrier in the loop", SUM + """    __syncthreads();
    for (int half = 32; half > 0; half /= 2) { if (t < half) part[t] += part[t + half]; ⟦__syncthreads();|||⟧ }
    if (t == 0) y[blockIdx.x] = part[0];
}""", _two(100, 2), "race", "part", launch={"grid": 2}),
    Pair("shared race", "a tile used again", """(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 3; ++k) {
        s[t] = x[t] * k;
        __syncthreads();
        sum += s[63 - t];
        ⟦__syncthreads();|||⟧
    }
    y[t] = sum;
}""", lambda: [_f(64), ck.zeros(64)], "race", "s", launch={"grid": 1}),
    Pair("shared race", "a plain count", """(const float* x, int* y) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (x[threadIdx.x] > 1.5f) ⟦atomicAdd(&count, 1)|||count += 1⟧;
    __syncthreads();
    if (threadIdx.x == 0) y[0] = count;
}""", lambda: [_f(64), ck.zeros(1, dtype=ck.int32)], "race", "count", launch={"grid": 1}),
    Pair("shared race", "no __syncwarp", """(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    ⟦__syncwarp();|||⟧
    y[t] = s[31 - t];
}""", lambda: [_f(32), ck.zeros(32)], "race,unset", "s", launch={"grid": 1, "block": 32}),
    Pair("shared race", "a barrier of a warp for two", """(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    ⟦__syncthreads();|||__syncwarp();⟧
    y[t] = s[63 - t];
}""", lambda: [_f(64), ck.zeros(64)], "race,unset", "s", launch={"grid": 1}),
    Pair("shared race", "structs in a tree", """(const float* x, int* y) {
    __shared__ Best s[64];
    int t = threadIdx.x;
    s[t] = {x[t], t, t};
    __syncthreads();
    for (int half = 32; half; half /= 2) { if (t < half && s[t + half].value > s[t].value) s[t] = s[t + half]; ⟦__syncthreads();|||⟧ }
    if (t == 0) y[0] = s[0].at;
}""", lambda: [_f(64), ck.zeros(1, dtype=ck.int32)], "race", "s", launch={"grid": 1},
         before="struct Best { float value; int at, from; };"),
    # ---------------------------------------------------------------- races in global memory
    Pair("global race", "a histogram without atomics", f"""(const int* x, int* y, int n) {{
    {INDEX}
    if (i < n) ⟦atomicAdd(&y[x[i]], 1)|||y[x[i]] += 1⟧;
}}""", lambda: [ck.arange(200, dtype=ck.int32) % 7, ck.zeros(7, dtype=ck.int32), 200], "race", "y", launch={"grid": 4}),
    Pair("global race", "blocks add to one sum", """(const float* x, float* y, int n) {
    if (threadIdx.x == 0) ⟦atomicAdd(y, x[blockIdx.x])|||*y += x[blockIdx.x]⟧;
}""", lambda: [_f(5), ck.zeros(1), 5], "race", "y", launch={"grid": 5}),
    Pair("global race", "in place with a neighbour", f"""(float* x, float* y, int n) {{
    {INDEX}
    if (i < n - 1) ⟦y|||x⟧[i] = x[i + 1];
}}""", lambda: [_f(64), ck.zeros(64), 64], "race", "x", launch={"grid": 1}),
    Pair("global race", "the last block without a fence", """(const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        ⟦__threadfence();|||⟧
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) { float sum = 0; for (int b = 0; b < gridDim.x; ++b) sum += part[b]; *y = sum; }
}""", lambda: [_f(5), ck.zeros(5), ck.zeros(1, dtype=ck.uint32), ck.zeros(1)], "race", "part", launch={"grid": 5}),
    Pair("global race", "another block's result", """(const float* x, float* part, float* y) {
    if (threadIdx.x == 0) part[blockIdx.x] = x[blockIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = part[⟦blockIdx.x|||(blockIdx.x + 1) % gridDim.x⟧];
}""", lambda: [_f(5), ck.zeros(5), ck.zeros(5)], "race", "part", launch={"grid": 5}),
    Pair("global race", "a counter read before it is raised", """(const int* x, int* found, int* count) {
    int t = threadIdx.x;
    if (x[t] % 3 == 0) { ⟦int at = atomicAdd(count, 1);|||int at = *count; atomicAdd(count, 1);⟧ found[at] = x[t]; }
}""", lambda: [ck.arange(64, dtype=ck.int32), ck.zeros(64, dtype=ck.int32), ck.zeros(1, dtype=ck.int32)], "race", "found", launch={"grid": 1}),
    # ---------------------------------------------------------------- barriers
    Pair("divergence", "a barrier in a branch", """(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < ⟦64|||32⟧) __syncthreads();
    else s[t] = __shfl_sync(0xffffffffu, s[t], 0);
    ⟦|||__syncthreads();⟧
    y[t] = s[t];
}""", lambda: [_f(64), ck.zeros(64)], "divergence", launch={"grid": 1}),
    Pair("divergence", "loops of different lengths", """(const int* x, float* y) {
    int t = threadIdx.x;
    for (int k = 0; k < ⟦4|||x[t]⟧; ++k) { __syncthreads(); y[t] += k; }
    __syncthreads();
}""", lambda: [ck.arange(64, dtype=ck.int32) // 32, ck.zeros(64)], "divergence", launch={"grid": 1}),
    Pair("divergence", "a warp's barrier for half", """(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    if (t < 16) v += __shfl_xor_sync(⟦0xffffu|||0xffffffffu⟧, v, 1);
    ⟦|||__syncwarp();⟧
    y[t] = v;
}""", lambda: [_f(32), ck.zeros(32)], "divergence", launch={"grid": 1, "block": 32}),
    Pair("divergence", "a return in between", """(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = t < n ? x[t] : 0;
    __syncthreads();
    float v = s[63 - t];
    if (t < ⟦0|||32⟧) __syncthreads();
    else __syncthreads();
    y[t] = v;
}""", lambda: [_f(64), ck.zeros(64), 60], "divergence", launch={"grid": 1}),
    # ---------------------------------------------------------------- unset shared memory
    Pair("unset shared", "an accumulator", """(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum ⟦=|||+=⟧ 0;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) y[0] = sum;
}""", lambda: [_f(64), ck.zeros(1)], "unset", "sum", launch={"grid": 1}),
    Pair("unset shared", "the tail of a tile", """(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    ⟦else s[t] = 0;|||⟧
    __syncthreads();
    y[t] = s[63 - t];
}""", lambda: [_f(50), ck.zeros(64), 50], "unset", "s", launch={"grid": 1}),
    Pair("unset shared", "bins of a histogram", """(const int* x, int* y) {
    __shared__ int bins[8];
    ⟦if (threadIdx.x < 8) bins[threadIdx.x] = 0;|||⟧
    __syncthreads();
    atomicAdd(&bins[x[threadIdx.x]], 1);
    __syncthreads();
    if (threadIdx.x < 8) y[threadIdx.x] = bins[threadIdx.x];
}""", lambda: [ck.arange(64, dtype=ck.int32) % 8, ck.zeros(8, dtype=ck.int32)], "unset", "bins", launch={"grid": 1}),
    Pair("unset shared", "dynamic", """(const float* x, float* y) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    if (t < ⟦64|||63⟧) s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t];
}""", lambda: [_f(64), ck.zeros(64)], "unset", "s", launch={"grid": 1, "shared": 256}),
    # ---------------------------------------------------------------- unset registers
    Pair("unset register", "an accumulator", """(const float* x, float* y, int n) {
    float sum⟦ = 0|||⟧;
    for (int k = 0; k < n; ++k) sum += x[k];
    y[threadIdx.x] = sum;
}""", lambda: [_f(64), ck.zeros(64), 64], "unset", launch={"grid": 1}),
    Pair("unset register", "set in one branch", """(const float* x, float* y, int n) {
    float v⟦ = 0|||⟧;
    if (threadIdx.x < n) v = x[threadIdx.x];
    y[threadIdx.x] = v * 2;
}""", lambda: [_f(64), ck.zeros(64), 50], "unset", launch={"grid": 1}),
    Pair("unset register", "a switch without a default", """(const int* x, float* y) {
    float v;
    switch (x[threadIdx.x]) { case 0: v = 1; break; case 1: v = 2; break; ⟦default: v = 0;|||⟧ }
    y[threadIdx.x] = v;
}""", lambda: [ck.arange(64, dtype=ck.int32) % 3, ck.zeros(64)], "unset", launch={"grid": 1}),
    Pair("unset register", "an index", """(const float* x, float* y, int n) {
    int best⟦ = 0|||⟧;
    for (int k = 1; k < n; ++k) if (x[k] > 100) best = k;
    y[threadIdx.x] = best;
}""", lambda: [_f(64), ck.zeros(64), 64], "unset", launch={"grid": 1}),
    Pair("unset register", "one value or none", """(const float* x, float* y) {
    float v;
    if (x[threadIdx.x] > 1.5f) v = 1;
    ⟦else v = 0;|||⟧
    y[threadIdx.x] = v;
}""", lambda: [_f(64), ck.zeros(64)], "unset", launch={"grid": 1}),
    Pair("unset register", "a tile in a struct", """(const float* x, float* y) {
    Tile<2> sums;
    for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) ⟦|||if (i == j)⟧ sums.at[i][j] = 0;
    for (int k = 0; k < 4; ++k) for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) sums.at[i][j] += x[k] * (i + j);
    y[threadIdx.x] = sums.at[0][1] + sums.at[1][1];
}""", lambda: [_f(4), ck.zeros(64)], "unset", launch={"grid": 1}, before="template <int N> struct Tile { float at[N][N]; };"),
    # ---------------------------------------------------------------- unset arrays
    Pair("unset array", "adds to empty", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n) y[i] ⟦=|||+=⟧ x[i];\n}}",
         lambda: [_f(100), ck.empty(100), 100], "unset", "y", launch={"grid": 2}),
    Pair("unset array", "an empty input", f"(const float* x, const float* z, float* y, int n) {{\n{INDEX}\nif (i < n) y[i] = x[i]⟦|||+ z[i]⟧;\n}}",
         lambda: [_f(100), ck.empty(100), ck.zeros(100), 100], "unset", "z", launch={"grid": 2}),
    Pair("unset array", "counts in empty", "(const int* x, int* y) {\n⟦y[threadIdx.x % 8] = 0; __syncthreads();|||⟧ atomicAdd(&y[x[threadIdx.x]], 1);\n}",
         lambda: [ck.arange(64, dtype=ck.int32) % 8, ck.empty(8, dtype=ck.int32)], "unset", "y", launch={"grid": 1}),
    # ---------------------------------------------------------------- elements that no thread wrote
    Pair("unwritten", "the grid is short", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n) y[i] = x[i];\n}}",
         lambda: [_f(200), ck.empty(200), 200], "unwritten", "y", launch={"grid": 4}, wrong_launch={"grid": 3}),
    Pair("unwritten", "the guard is short", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n⟦|||- 1⟧) y[i] = x[i];\n}}",
         lambda: [_f(200), ck.empty(200), 200], "unwritten", "y", launch={"grid": 4}),
    Pair("unwritten", "every second", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n) y[i⟦|||/ 2 * 2⟧] = 1;\n}}",
         lambda: [_f(200), ck.empty(200), 200], "unwritten,race", "y", launch={"grid": 4}),
    Pair("unwritten", "a stride that is too long", """(const float* x, float* y, int n) {
    for (int i = blockIdx.x * << block >> + threadIdx.x; i < n; i += gridDim.x * << block >>⟦|||* 2⟧) y[i] = x[i];
}""", lambda: [_f(400), ck.empty(400), 400], "unwritten", "y", launch={"grid": 2}),
    # ---------------------------------------------------------------- writes to const
    Pair("const", "a cast", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n) {{ y[i] = x[i]; ⟦|||const_cast<float*>(x)[i] = 0;⟧ }}\n}}",
         _two(100), "const", "x", launch={"grid": 2}),
    Pair("const", "a C cast", f"(const float* x, float* y, int n) {{\n{INDEX}\nif (i < n) {{ float* z = ⟦y|||(float*)x⟧; z[i] = 1; }}\n}}",
         _two(100), "const", "x", launch={"grid": 2}),
    Pair("const", "an atomic", "(const int* x, int* y) {\natomicAdd(⟦y|||(int*)x⟧, 1);\n}",
         lambda: [ck.zeros(1, dtype=ck.int32), ck.zeros(1, dtype=ck.int32)], "const", "x", launch={"grid": 1}),
    # ---------------------------------------------------------------- misaligned
    Pair("misaligned", "a vector from an odd element", "(const float* x, float* y) {\nint t = threadIdx.x;\n"
         "float4 v = *reinterpret_cast<const float4*>(x + ⟦4 * t|||4 * t + 1⟧);\ny[t] = v.x + v.w;\n}",
         lambda: [_f(260), ck.zeros(64)], "misaligned", "x", launch={"grid": 1}),
    Pair("misaligned", "a vector from shared memory", """(const float* x, float* y) {
    __shared__ __align__(16) float s[68];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 4) s[64 + t] = 0;
    __syncthreads();
    float2 v = *(float2*)&s[⟦t / 2 * 2|||t⟧];
    y[t] = v.x + v.y;
}""", lambda: [_f(64), ck.zeros(64)], "misaligned", "s", launch={"grid": 1}),
    Pair("misaligned", "a word of bytes", "(const unsigned char* x, unsigned* y) {\nint t = threadIdx.x;\n"
         "y[t] = *(const unsigned*)(x + t⟦ * 4|||⟧);\n}",
         lambda: [ck.zeros(256, dtype=ck.uint8), ck.zeros(64, dtype=ck.uint32)], "misaligned", "x", launch={"grid": 1}),
    # ---------------------------------------------------------------- integers
    Pair("integer", "a product of sizes", f"(float* y, int rows, int columns) {{\n{INDEX}\n"
         "⟦long long|||int⟧ at = ⟦(long long)|||⟧rows * columns + i;\nif (i == 0) y[0] = (float)at;\n}",
         lambda: [ck.zeros(1), 50000, 50000], "overflow", launch={"grid": 1}),
    Pair("integer", "a sum", "(const int* x, long long* y, int n) {\n⟦long long|||int⟧ sum = 0;\nfor (int i = 0; i < n; ++i) sum += x[i];\ny[0] = sum;\n}",
         lambda: [ck.full(8, 2**30, dtype=ck.int32), ck.zeros(1, dtype=ck.int64), 8], "overflow", launch={"grid": 1, "block": 1}),
    Pair("integer", "a shift too far", "(int* y, int n) {\ny[threadIdx.x] = shl(1, threadIdx.x ⟦% 31|||+ 1⟧);\n}",
         lambda: [ck.zeros(64, dtype=ck.int32), 64], "shift", launch={"grid": 1}),
    Pair("integer", "a division by zero", "(const int* x, int* y) {\nint d = x[threadIdx.x];\ny[threadIdx.x] = ⟦d ? 100 / d : 0|||100 / d⟧;\n}",
         lambda: [ck.arange(64, dtype=ck.int32), ck.zeros(64, dtype=ck.int32)], "division", launch={"grid": 1}),
    # ---------------------------------------------------------------- lanes
    Pair("lanes", "a warp that is not full", """(const float* x, float* y, int n) {
    int t = threadIdx.x;
    ⟦float v = t < n ? x[t] : 0;|||if (t >= n) return; float v = x[t];⟧
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t == 0) y[0] = v;
}""", lambda: [_f(20), ck.zeros(1), 20], "lane", launch={"grid": 1, "block": 32}),
    Pair("lanes", "a source that the mask leaves out", """(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    if (t < 8) v = __shfl_sync(0xffu, v, ⟦(t + 1) % 8|||t + 1⟧);
    y[t] = v;
}""", lambda: [_f(32), ck.zeros(32)], "lane", launch={"grid": 1, "block": 32}),
    Pair("lanes", "a block of 48", """(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    v += __shfl_xor_sync(⟦t < 32 ? 0xffffffffu : 0xffffu|||0xffffffffu⟧, v, ⟦8|||16⟧);
    y[t] = v;
}""", lambda: [_f(48), ck.zeros(48)], "lane", launch={"grid": 1, "block": 48}),
    # ---------------------------------------------------------------- the launch's shape
    Pair("geometry", "rows of threads that the text does not know",
         "(const float* x, float* y, int n) {\nint i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = x[i];\n}",
         _two(64), "geometry", launch={"grid": 2, "block": 32}, wrong_launch={"block": (32, 4)}),
    Pair("geometry", "a block of another size", "(const float* x, float* y, int n) {\nint i = blockIdx.x * 64 + threadIdx.x;\nif (i < n) y[i] = x[i];\n}",
         lambda: [_f(256), ck.empty(256), 256], "geometry,unwritten", launch={"grid": 4, "block": 64}, wrong_launch={"block": 32}),
    Pair("geometry", "a block that is too large", """(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (i < n) s[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = s[t];
}""", _two(256), "out of bounds", "s", launch={"grid": 4, "block": 64}, wrong_launch={"grid": 2, "block": 128}),
    Pair("geometry", "blocks along y", "(const float* x, float* y, int n) {\nint i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = x[i];\n}",
         _two(64), "geometry", launch={"grid": 1}, wrong_launch={"grid": (1, 3)}),
]  # fmt: skip
