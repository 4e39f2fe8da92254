"""Kernels of float as public programs have them, ported with their backward passes, and a mistake to plant in each.

Each text is a file of its own: kernels, helpers that only other kernels use, and the launches of its host. In a text,
``⟦right|||wrong⟧`` is right unless the mistake is planted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cukern as ck

_CHOICE = re.compile(r"⟦(.*?)\|\|\|(.*?)⟧", re.DOTALL)
_BLOCK = 32
#: What stands in every file, and no kernel that is launched uses.
_FILE = """
#include <cuda_runtime.h>
#include <cstdio>
#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define CHECK(call) do { if ((call) != cudaSuccess) { printf("failed"); exit(1); } } while (0)

__global__ void fill_four_at_a_time(float* out, float value, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) FLOAT4(out[i]) = make_float4(value, value, value, value);
}
__device__ float flipped(float x) { return __int_as_float(__float_as_int(x) ^ 0x80000000); }
"""
_HOST = """
void run(const float* input, float* output, int n) {
    float* buffer;
    CHECK(cudaMalloc(&buffer, n * sizeof(float)));
    fill_four_at_a_time<<<(n + 255) / 256, 64>>>(buffer, flipped(1.f), n);
    CHECK(cudaMemcpy(output, buffer, n * sizeof(float), cudaMemcpyDeviceToHost));
}
"""

Run = Callable[..., Any]


@dataclass(frozen=True)
class Port:
    """A ported function.

    Attributes:
        name: what it computes.
        text: its kernels.
        forward: takes the kernels, a context and the arguments; returns the result.
        backward: takes the kernels, the context and the cotangent; returns the gradients.
        args: makes the arguments.
        options: further arguments of ``kernelcheck``.
    """

    name: str
    text: str
    forward: Run
    backward: Run
    args: Callable[[], list[Any]]
    options: dict[str, Any] = field(default_factory=dict)

    def function(self, wrong: bool) -> Callable[..., Any]:
        """The function, with the mistake planted if ``wrong``."""
        text = _FILE + _CHOICE.sub(lambda found: found[2 if wrong else 1], self.text) + _HOST
        kernels = ck.Kernel(text, block=_BLOCK, name=re.sub(r"\W", "_", self.name), plain=True)
        forward, backward = self.forward, self.backward

        class Ported(ck.Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                return forward(kernels, ctx, *args)

            @staticmethod
            @ck.once_differentiable
            def backward(ctx: Any, g: ck.Array) -> Any:
                return backward(kernels, ctx, g)

        return Ported.apply


def _values(*shape: int) -> ck.Array:
    rng = np.random.default_rng(7 + sum(shape))
    return ck.asarray(rng.uniform(0.3, 1.7, shape) * rng.choice([-1, 1], shape), dtype="float32")


def _blocks(n: int) -> int:
    return -(-n // _BLOCK)


PORTS: list[Port] = []


def port(name: str, args: Callable[[], list[Any]], text: str, **options: Any) -> Callable[[type], type]:
    """Add a port whose ``forward`` and ``backward`` are methods of a class."""

    def add(cls: Any) -> type:
        PORTS.append(Port(name, text, cls.forward, cls.backward, args, options))
        return cls  # type: ignore[no-any-return]

    return add


@port(
    "gelu",
    lambda: [_values(2, 3)],
    """
__global__ void gelu_forward(float* out, const float* inp, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = inp[i];
        float cube = 0.044715f * x * x * x;
        out[i] = 0.5f * x * (1.0f + tanhf(sqrtf(2.0f / M_PI) * (x + cube)));
    }
}
__global__ void gelu_backward(float* dinp, const float* inp, const float* dout, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = inp[i];
        float inner = sqrtf(2.0f / M_PI) * (x + 0.044715f * x * x * x);
        float t = tanhf(inner), sech = 1.0f - t * t;
        float grown = sqrtf(2.0f / M_PI) * (1.0f + ⟦3.0f * ||| ⟧0.044715f * x * x);
        dinp[i] = (0.5f * (1.0f + t) + x * 0.5f * sech * grown) * dout[i];
    }
}""",
)
class Gelu:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array) -> ck.Array:
        ctx.save_for_backward(x)
        y = ck.empty(x.shape)
        kernels["gelu_forward"](y, x, x.size, grid=_blocks(x.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        (x,) = ctx.saved_arrays
        dx = ck.empty(x.shape)
        kernels["gelu_backward"](dx, x, g, x.size, grid=_blocks(x.size))
        return dx


@port(
    "layer norm four at a time",
    lambda: [_values(3, 8), _values(8)],
    """
__inline__ __device__ float sum_of_warp(float v) {
    for (int step = 16; step > 0; step >>= 1) v += __shfl_xor_sync(0xffffffff, v, step);
    return v;
}
__inline__ __device__ float sum_of_four(float4 v) { return v.x + v.y + v.z + v.w; }

__global__ void layernorm(const float* __restrict__ x, const float* __restrict__ gamma, float* __restrict__ y,
                     float* mean, float* rstd, int columns) {
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * columns);
    float sum = 0.f, squares = 0.f;
    for (int i = threadIdx.x; i < columns / 4; i += 32) {
        float4 v = row[i];
        sum += sum_of_four(v);
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float m = sum_of_warp(sum) / columns;
    float r = rsqrtf(sum_of_warp(squares) / columns - m * m + 1e-5f);
    if (threadIdx.x == 0) { mean[blockIdx.x] = m; rstd[blockIdx.x] = r; }
    const float4* weight = reinterpret_cast<const float4*>(gamma);
    float4* out = reinterpret_cast<float4*>(y + blockIdx.x * columns);
    for (int i = threadIdx.x; i < columns / 4; i += 32) {
        float4 v = row[i], w = weight[i];
        out[i] = make_float4((v.x - m) * r * w.x, (v.y - m) * r * w.y, (v.z - m) * r * w.z, (v.w - m) * r * w.w);
    }
}
__global__ void layernorm_backward(const float* dy, const float* x, const float* gamma,
    const float* mean, const float* rstd,
                              float* dx, float* dgamma, int columns) {
    const int at = blockIdx.x * columns;
    const float m = mean[blockIdx.x], r = rstd[blockIdx.x];
    float plain = 0.f, scaled = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float part = dy[at + i] * gamma[i];
        plain += part;
        scaled += part * (x[at + i] - m) * r;
    }
    plain = sum_of_warp(plain) / columns;
    scaled = sum_of_warp(scaled) / columns;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float hat = (x[at + i] - m) * r;
        dx[at + i] = r * (dy[at + i] * gamma[i] - plain⟦ - hat * scaled|||⟧);
        atomicAdd(&dgamma[i], dy[at + i] * hat);
    }
}""",
    sizes=[4, 132],
)
class LayerNorm:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array, gamma: ck.Array) -> ck.Array:
        rows, columns = x.shape
        if columns % 4:
            raise ValueError("columns: expected a multiple of 4")
        y, mean, rstd = ck.empty(x.shape), ck.empty(rows), ck.empty(rows)
        kernels["layernorm"](x, gamma, y, mean, rstd, columns, grid=rows)
        ctx.save_for_backward(x, gamma, mean, rstd)
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        x, gamma, mean, rstd = ctx.saved_arrays
        dx, dgamma = ck.empty(x.shape), ck.zeros(gamma.shape)
        kernels["layernorm_backward"](g, x, gamma, mean, rstd, dx, dgamma, x.shape[1], grid=x.shape[0])
        return dx, dgamma


@port(
    "softmax",
    lambda: [_values(3, 5)],
    """
template <int THREADS>
__global__ void softmax(const float* input, float* output, int columns) {
    __shared__ float shared[THREADS];
    const float* row = input + blockIdx.x * columns;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, row[i]);
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    largest = shared[0];
    __syncthreads();
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += __expf(row[i] - largest);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += THREADS)
        output[blockIdx.x * columns + i] = __fdividef(__expf(row[i] - largest), shared[0]);
}
__global__ void softmax_grad(const float* grad, const float* output, float* grad_input, int columns) {
    const int at = blockIdx.x * columns;
    float dot = 0.f;
    for (int i = 0; i < columns; ++i) dot += grad[at + i]⟦ * output[at + i]|||⟧;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        grad_input[at + i] = output[at + i] * (grad[at + i] - dot);
}""",
)
class Softmax:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array) -> ck.Array:
        y = ck.empty(x.shape, dtype="float32")
        kernels["softmax<32>"](x, y, x.shape[1], grid=x.shape[0])
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        (y,) = ctx.saved_arrays
        dx = ck.empty(y.shape, dtype=ck.float32)
        kernels["softmax_grad"](g, y, dx, y.shape[1], grid=y.shape[0])
        return dx


@port(
    "rotary embedding",
    lambda: [_values(3, 2, 6)],
    """
__device__ __forceinline__ void angle(int position, int pair, int width, float& s, float& c) {
    float frequency = powf(10000.0f, -2.0f * pair / width);
    sincosf(position * frequency, &s, &c);
}
template <typename scalar_t, bool backward>
__global__ void rope(const scalar_t* in, scalar_t* out, int steps, int heads, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int pairs = width / 2;
    if (i >= steps * heads * pairs) return;
    int pair = i % pairs, position = i / (pairs * heads), at = i / pairs * width;
    float s, c;
    angle(position, pair, width, s, c);
    if (backward) s = ⟦-s|||s⟧;
    scalar_t a = in[at + pair], b = in[at + pair + pairs];
    out[at + pair] = a * c - b * s;
    out[at + pair + pairs] = a * s + b * c;
}""",
    fixed=[6],
)
class Rope:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array) -> ck.Array:
        y = ck.empty_like(x)
        kernels["rope<float, false>"](x, y, *x.shape, grid=_blocks(x.size // 2))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        dx = ck.empty_like(g)
        kernels["rope<float, true>"](g, dx, *g.shape, grid=_blocks(g.size // 2))
        return dx


@port(
    "cross entropy",
    lambda: [_values(4, 5), ck.asarray([1, 0, 4, 2], dtype="int32")],
    """
__global__ void crossentropy_forward(float* losses, float* probs, const float* logits,
    const int* targets, int N, int V) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    const float* row = logits + n * V;
    float maxval = -FLT_MAX;
    for (int v = 0; v < V; v++) if (row[v] > maxval) maxval = row[v];
    float sum = 0.0f;
    for (int v = 0; v < V; v++) { float e = expf(row[v] - maxval); probs[n * V + v] = e; sum += e; }
    for (int v = 0; v < V; v++) probs[n * V + v] /= sum;
    losses[n] = logf(sum) + maxval - row[targets[n]];
}
__global__ void crossentropy_backward(float* dlogits, const float* dlosses, const float* probs,
    const int* targets, int N, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * V) return;
    int n = i / V, v = i % V;
    float indicator = v == targets[n] ? 1.0f : 0.0f;
    dlogits[i] = (probs[i] - indicator) * dlosses[⟦n|||0⟧];
}""",
)
class CrossEntropy:
    @staticmethod
    def forward(kernels: Any, ctx: Any, logits: ck.Array, targets: ck.Array) -> ck.Array:
        losses, probs = ck.empty(logits.shape[0]), ck.empty(logits.shape)
        kernels["crossentropy_forward"](
            losses, probs, logits, targets, *logits.shape, grid=_blocks(logits.shape[0])
        )
        ctx.save_for_backward(probs, targets)
        return losses

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        probs, targets = ctx.saved_arrays
        dlogits = ck.empty(probs.shape)
        kernels["crossentropy_backward"](dlogits, g, probs, targets, *probs.shape, grid=_blocks(probs.size))
        return dlogits, None


@port(
    "rms norm",
    lambda: [_values(3, 5), _values(5)],
    """
namespace llama {
__device__ float total(const float* row, int size) {
    extern __shared__ float partial[];
    float sum = 0.f;
    for (int j = threadIdx.x; j < size; j += blockDim.x) sum += row[j] * row[j];
    partial[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.f;
    for (int j = 0; j < blockDim.x; ++j) sum += partial[j];
    return sum;
}
__global__ void rmsnorm(float* o, float* scale, const float* x, const float* weight, int size) {
    float ss = rsqrtf(total(x + blockIdx.x * size, size) / size + 1e-5f);
    if (threadIdx.x == 0) scale[blockIdx.x] = ss;
    for (int j = threadIdx.x; j < size; j += blockDim.x)
        o[blockIdx.x * size + j] = weight[j] * (ss * x[blockIdx.x * size + j]);
}
__global__ void rmsnorm_grad(const float* g, const float* x, const float* weight,
    const float* scale, float* dx, float* dw, int rows, int size) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= rows * size) return;
    int r = j / size, c = j % size;
    float ss = scale[r], dot = 0.f;
    for (int k = 0; k < size; ++k) dot += g[r * size + k] * weight[k] * x[r * size + k];
    dx[j] = ss * g[j] * weight[c] - ss * ss * ⟦ss * ||| ⟧x[j] * dot / size;
    atomicAdd(dw + c, g[j] * x[j] * ss);
}
}""",
)
class RmsNorm:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array, w: ck.Array) -> ck.Array:
        y, scale = ck.empty(x.shape), ck.empty(x.shape[0])
        kernels["llama::rmsnorm"](y, scale, x, w, x.shape[1], grid=x.shape[0], shared=4 * _BLOCK)
        ctx.save_for_backward(x, w, scale)
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        x, w, scale = ctx.saved_arrays
        dx, dw = ck.empty(x.shape), ck.zeros(w.shape)
        kernels["llama::rmsnorm_grad"](g, x, w, scale, dx, dw, *x.shape, grid=_blocks(x.size))
        return dx, dw


@port(
    "swiglu",
    lambda: [_values(2, 3), _values(2, 3)],
    """
static inline __device__ float sigmoid(const float v) { return __frcp_rn(1.0f + __expf(-v)); }
__global__ void swiglu(const float* gate, const float* up, float* out, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}
__global__ void swiglu_bwd(const float* gate, const float* up, const float* dout, float* dgate,
    float* dup, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const float s = sigmoid(gate[i]);
        dup[i] = dout[i] * gate[i] * s;
        dgate[i] = dout[i] * ⟦up[i] * |||⟧s * (1.0f + gate[i] * (1.0f - s));
    }
}""",
)
class SwiGlu:
    @staticmethod
    def forward(kernels: Any, ctx: Any, gate: ck.Array, up: ck.Array) -> ck.Array:
        ctx.save_for_backward(gate, up)
        y = ck.empty(gate.shape)
        kernels["swiglu"](gate, up, y, y.size, grid=_blocks(y.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        gate, up = ctx.saved_arrays
        dgate, dup = ck.empty(gate.shape), ck.empty(up.shape)
        kernels["swiglu_bwd"](gate, up, g, dgate, dup, g.size, grid=_blocks(g.size))
        return dgate, dup


@port(
    "bias",
    lambda: [_values(3, 4), _values(4)],
    """
__global__ void add_bias(float* out, const float* bias, const float* x, int rows, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * OC) out[idx] = x[idx] + bias[idx % OC];
}
__global__ void bias_backward(float* dbias, const float* dout, int rows, int OC) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= OC) return;
    double sum = 0.0;
    for (int r = 0; r < rows; r++) sum += dout[⟦r * OC + o|||o * rows + r⟧];
    dbias[o] = sum;
}""",
)
class Bias:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array, bias: ck.Array) -> ck.Array:
        y = ck.empty(x.shape)
        kernels["add_bias"](y, bias, x, *x.shape, grid=_blocks(x.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        dbias = ck.empty(g.shape[1])
        kernels["bias_backward"](dbias, g, *g.shape, grid=_blocks(g.shape[1]))
        return g, dbias


@port(
    "dropout with a mask",
    lambda: [_values(2, 4), ck.asarray([[1, 0, 1, 1], [0, 1, 1, 0]], dtype="uint8")],
    """
__global__ void dropout(const int N, const float ratio, const float* in, const unsigned char* mask, float* out) {
    const float scale = 1.0f / (1.0f - ratio);
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < N; j += blockDim.x * gridDim.x)
        out[j] = in[j] * (float)mask[j] * scale;
}
__global__ void dropout_bwd(const int N, const float ratio, const float* dout,
    const unsigned char* mask, float* din) {
    const float scale = 1.0f / (1.0f - ratio);
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < N; j += blockDim.x * gridDim.x)
        din[j] = dout[j] * (float)mask[j]⟦ * scale|||⟧;
}""",
)
class Dropout:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array, mask: ck.Array) -> ck.Array:
        ctx.save_for_backward(mask)
        y = ck.empty(x.shape)
        kernels["dropout"](x.size, 0.375, x, mask, y, grid=_blocks(x.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        (mask,) = ctx.saved_arrays
        dx = ck.empty(g.shape)
        kernels["dropout_bwd"](g.size, 0.375, g, mask, dx, grid=_blocks(g.size))
        return dx, None


@port(
    "embedding",
    lambda: [_values(4, 3), ck.asarray([2, 0, 2, 1, 3, 2], dtype="int64")],
    """
__global__ void lookup(float* out, const float* table, const long long* ids, int tokens, int D) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < tokens * D) out[i] = table[ids[i / D] * D + i % D];
}
__global__ void lookup_backward(float* dtable, const float* dout, const long long* ids, int tokens, int D) {
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= D) return;
    for (int t = 0; t < tokens; ++t) dtable[ids[t] * D + d] ⟦+=|||=⟧ dout[t * D + d];
}""",
)
class Embedding:
    @staticmethod
    def forward(kernels: Any, ctx: Any, table: ck.Array, ids: ck.Array) -> ck.Array:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        y = ck.empty((ids.size, table.shape[1]))
        kernels["lookup"](y, table, ids, *y.shape, grid=_blocks(y.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        (ids,) = ctx.saved_arrays
        dtable = ck.zeros(ctx.shape)
        kernels["lookup_backward"](dtable, g, ids, *g.shape, grid=_blocks(g.shape[1]))
        return dtable, None


@port(
    "tanh of a residual",
    lambda: [_values(6), _values(6)],
    """
struct Args { int n; };
__global__ void residual(const float* __restrict__ inp1, const float* __restrict__ inp2,
    float* __restrict__ out, int N) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N) out[idx] = inp1[idx] + tanhf(inp1[idx] * __ldg(&inp2[idx]));
}
__global__ void residual_backward(const float* inp1, const float* inp2, const float* dout,
    float* d1, float* d2, int N) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N) return;
    const float t = tanhf(inp1[idx] * inp2[idx]), slope = fmaf(-t, t, 1.f);
    d1[idx] = ⟦dout[idx] + |||⟧dout[idx] * slope * inp2[idx];
    d2[idx] = dout[idx] * slope * inp1[idx];
}""",
)
class Residual:
    @staticmethod
    def forward(kernels: Any, ctx: Any, a: ck.Array, b: ck.Array) -> ck.Array:
        ctx.save_for_backward(a, b)
        y = ck.empty(a.shape)
        kernels["residual"](a, b, y, y.size, grid=_blocks(y.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        a, b = ctx.saved_arrays
        da, db = ck.empty(a.shape), ck.empty(b.shape)
        kernels["residual_backward"](a, b, g, da, db, g.size, grid=_blocks(g.size))
        return da, db


@port(
    "elu",
    lambda: [_values(7)],
    """
template <typename T> struct Elu {
    T alpha;
    __device__ T operator()(T x) const { return x > T(0) ? x : alpha * (exp(x) - T(1)); }
    __device__ T slope(T y) const { return y > T(0) ? T(1) : y⟦ + alpha|||⟧; }
};
__global__ void elu(const float* x, float* y, float alpha, int n) {
    Elu<float> f{alpha};
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) y[i] = f(x[i]);
}
__global__ void elu_grad(const float* y, const float* dy, float* dx, float alpha, int n) {
    Elu<float> f{alpha};
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) dx[i] = dy[i] * f.slope(y[i]);
}""",
)
class Elu:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array) -> ck.Array:
        y = ck.empty(x.shape)
        kernels["elu"](x, y, 0.7, x.size, grid=_blocks(x.size))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        (y,) = ctx.saved_arrays
        dx = ck.empty(y.shape)
        kernels["elu_grad"](y, g, dx, 0.7, y.size, grid=_blocks(y.size))
        return dx


@port(
    "pooling of two",
    lambda: [_values(3, 6)],
    """
__global__ void MaxPoolForward(const int count, const float* bottom, const int width, float* top, int* mask) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
        const int at = 2 * i;
        const int chosen = bottom[at] >= bottom[at + 1] ? at : at + 1;
        top[i] = bottom[chosen];
        mask[i] = chosen;
    }
}
__global__ void MaxPoolBackward(const int count, const float* top_diff, const int* mask, float* bottom_diff) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
        bottom_diff[i] = mask[i / 2] == i ? top_diff[⟦i / 2|||i / 3⟧] : 0.f;
}""",
)
class Pool:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array) -> ck.Array:
        rows, width = x.shape
        if width % 2:
            raise ValueError("x: expected an even width")
        y, mask = ck.empty((rows, width // 2)), ck.empty((rows, width // 2), dtype="int32")
        kernels["MaxPoolForward"](y.size, x, width, y, mask, grid=max(1, _blocks(y.size)))
        ctx.save_for_backward(mask)
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        (mask,) = ctx.saved_arrays
        dx = ck.empty((g.shape[0], 2 * g.shape[1]))
        kernels["MaxPoolBackward"](dx.size, g, mask, dx, grid=max(1, _blocks(dx.size)))
        return dx


@port(
    "causal softmax of scores",
    lambda: [_values(4, 4)],
    """
__global__ void causal(float* att, const float* preatt, float scale, int T) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= T) return;
    float sum = 0.f;
    for (int t = 0; t <= row; ++t) sum += expf(scale * preatt[row * T + t]);
    for (int t = 0; t < T; ++t) att[row * T + t] = t <= row ? expf(scale * preatt[row * T + t]) / sum : 0.f;
}
__global__ void causal_backward(float* dpreatt, const float* datt, const float* att, float scale, int T) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= T * T) return;
    int row = i / T, t3 = i % T;
    float sum = 0.f;
    for (int t2 = 0; t2 <= row; ++t2) {
        float indicator = t2 == t3 ? 1.0f : 0.0f;
        sum += att[row * T + t2] * (indicator - att[row * T + t3]) * datt[row * T + t2];
    }
    dpreatt[i] = t3 <= row ? ⟦scale * |||⟧sum : 0.f;
}""",
)
class Causal:
    @staticmethod
    def forward(kernels: Any, ctx: Any, scores: ck.Array) -> ck.Array:
        att = ck.empty(scores.shape)
        kernels["causal"](att, scores, 0.6, scores.shape[0], grid=_blocks(scores.shape[0]))
        ctx.save_for_backward(att)
        return att

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> ck.Array:
        (att,) = ctx.saved_arrays
        dscores = ck.empty(att.shape)
        kernels["causal_backward"](dscores, g, att, 0.6, att.shape[0], grid=_blocks(att.size))
        return dscores


@port(
    "convolution of half types",
    lambda: [_values(9).astype("float16"), _values(3).astype("float16")],
    """
#include <cuda_fp16.h>
__global__ void conv1d(const __half* x, const __half* w, __half* y, int n, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.f;
    for (int k = 0; k < taps; ++k) if (i + k < n) sum += __half2float(x[i + k]) * __half2float(w[k]);
    y[i] = __float2half(sum);
}
__global__ void conv1d_dx(const __half* g, const __half* w, __half* dx, int n, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.f;
    for (int k = 0; k < taps; ++k) if (i - k >= 0) sum += __half2float(g[i - k]) * __half2float(w[⟦k|||taps - 1 - k⟧]);
    dx[i] = __float2half(sum);
}
__global__ void conv1d_dw(const __half* g, const __half* x, __half* dw, int n, int taps) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= taps) return;
    float sum = 0.f;
    for (int i = 0; i + k < n; ++i) sum += __half2float(g[i]) * __half2float(x[i + k]);
    dw[k] = __float2half(sum);
}""",
)
class Convolution:
    @staticmethod
    def forward(kernels: Any, ctx: Any, x: ck.Array, w: ck.Array) -> ck.Array:
        ctx.save_for_backward(x, w)
        y = ck.empty(x.shape, dtype="float16")
        kernels["conv1d"](x, w, y, x.size, w.size, grid=_blocks(x.size))
        return y

    @staticmethod
    def backward(kernels: Any, ctx: Any, g: ck.Array) -> Any:
        x, w = ctx.saved_arrays
        dx, dw = ck.empty(x.shape, dtype="float16"), ck.empty(w.shape, dtype="float16")
        kernels["conv1d_dx"](g, w, dx, x.size, w.size, grid=_blocks(x.size))
        kernels["conv1d_dw"](g, x, dw, x.size, w.size, grid=_blocks(w.size))
        return dx, dw
