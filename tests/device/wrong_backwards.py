"""Functions with kernels forward and backward, and mistakes to plant in them.

In a text, ``⟦right|||wrong#name⟧`` is right unless the mistake ``name`` is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cukern as ck

_CHOICE = re.compile(r"⟦(.*?)\|\|\|(.*?)#([\w ]+)⟧", re.DOTALL)
_BLOCK = 32


def _kernel(name: str, body: str, mistake: str, block: int = _BLOCK) -> ck.Kernel:
    text = _CHOICE.sub(lambda m: m[2] if m[3] == mistake else m[1], body)
    for short in ("elem", "acc"):
        text = text.replace(f"<{short.upper()}>", f"< << {short} >> >").replace(
            short.upper(), f"<< {short} >>"
        )
    return ck.Kernel(f'extern "C" __global__ void << name >>{text}', name=name, block=block)


def _blocks(count: int) -> int:
    return -(-count // _BLOCK)


@dataclass(frozen=True)
class Family:
    """A function, its arguments, and the mistakes that its backward may have.

    Attributes:
        name: what it computes.
        make: takes a mistake's name, or ``""``; returns the function.
        args: makes the arguments.
        mistakes: the class of each mistake by its name.
    """

    name: str
    make: Callable[[str], Callable[..., Any]]
    args: Callable[[], list[Any]]
    mistakes: dict[str, str]


def _function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    made = type(
        "Planted",
        (ck.Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(ck.once_differentiable(backward))},
    )
    return made.apply  # type: ignore[attr-defined, no-any-return]


def _values(*shape: int, dtype: str = "float32") -> ck.Array:
    rng = np.random.default_rng(len(shape) + sum(shape))
    return ck.asarray(rng.uniform(0.3, 1.7, shape) * rng.choice([-1, 1], shape), dtype=dtype)


INDEX = "const int i = blockIdx.x * << block >> + threadIdx.x;"

# ---------------------------------------------------------------- y = x * sigmoid(x)


def _swish(mistake: str) -> Callable[..., Any]:
    forward = _kernel(
        "swish",
        f"""(const ELEM* x, ELEM* y, int n) {{
    {INDEX}
    if (i >= n) return;
    const ACC v = cast<ACC>(x[i]);
    y[i] = cast<ELEM>(v / (1 + exp(-v)));
}}""",
        "",
    )
    backward = _kernel(
        "swish_backward",
        f"""(const ELEM* x, const ELEM* g, ELEM* dx, int n) {{
    {INDEX}
    ⟦if (i >= n) return;|||if (i >= n - 1) return;#last element⟧
    const ACC v = cast<ACC>(x[i]), s = 1 / (1 + exp(⟦-v|||v#sign of the exponent⟧));
    const ACC slope = s⟦ + v * s * (1 - s)|||#missing term⟧;
    dx[i] = ⟦cast<ELEM>(cast<ACC>(g[i]) * slope)|||cast<ELEM>(slope)#no cotangent⟧;
    ⟦|||if (i >= 2 * << block >>) dx[i] = cast<ELEM>(0);#third block⟧
    ⟦|||if (sizeof(ELEM) == 4) dx[i] = cast<ELEM>(cast<ACC>(dx[i]) * ACC(1.01));#float32 alone⟧
    ⟦|||if (sizeof(ELEM) == 2 && v > 1) dx[i] = g[i];#half types alone⟧
}}""",
        mistake,
    )

    def run(ctx: Any, x: ck.Array) -> ck.Array:
        ctx.save_for_backward(x)
        y = ck.empty_like(x)
        forward(x, y, x.size, grid=_blocks(x.size))
        return y

    def back(ctx: Any, g: ck.Array) -> ck.Array:
        (x,) = ctx.saved_arrays
        dx = ck.empty_like(x)
        backward(x, g, dx, x.size, grid=_blocks(x.size))
        return dx

    return _function(run, back)


# ---------------------------------------------------------------- y[r, c] = x[r, c] * w[c] + b[c]


def _scale(mistake: str) -> Callable[..., Any]:
    forward = _kernel(
        "scale",
        f"""(const ELEM* x, const ELEM* w, const ELEM* b, ELEM* y, int rows, int columns) {{
    {INDEX}
    if (i >= rows * columns) return;
    y[i] = cast<ELEM>(cast<ACC>(x[i]) * cast<ACC>(w[i % columns]) + cast<ACC>(b[i % columns]));
}}""",
        "",
    )
    of_x = _kernel(
        "scale_dx",
        f"""(const ELEM* w, const ELEM* g, ELEM* dx, int rows, int columns) {{
    {INDEX}
    if (i >= rows * columns) return;
    dx[i] = cast<ELEM>(cast<ACC>(g[i]) * cast<ACC>(w[⟦i % columns|||i / columns % columns#row for column⟧]));
}}""",
        mistake,
    )
    of_w = _kernel(
        "scale_dw",
        f"""(const ELEM* x, const ELEM* g, ELEM* dw, ELEM* db, int rows, int columns) {{
    {INDEX}
    if (i >= columns) return;
    ACC sum = 0, plain = 0;
    for (int r = 0; r < ⟦rows|||min(rows, << block >>)#rows of one block⟧; ++r) {{
        const ACC h = cast<ACC>(g[r * columns + i]);
        sum ⟦+=|||=#missing accumulate⟧ h * cast<ACC>(x[⟦r * columns + i|||i * rows + r#transposed index⟧]);
        plain += h⟦|||* cast<ACC>(x[r * columns + i])#bias like weight⟧;
    }}
    dw[i] = cast<ELEM>(sum⟦||| / rows#mean for sum⟧);
    db[i] = cast<ELEM>(plain);
}}""",
        mistake,
    )

    def run(ctx: Any, x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
        ctx.save_for_backward(x, w)
        y = ck.empty_like(x)
        forward(x, w, b, y, *x.shape, grid=_blocks(x.size))
        return y

    def back(ctx: Any, g: ck.Array) -> Any:
        x, w = ctx.saved_arrays
        dx, dw, db = ck.empty_like(x), ck.zeros_like(w), ck.zeros_like(w)
        of_x(w, g, dx, *x.shape, grid=_blocks(x.size))
        of_w(x, g, dw, db, *x.shape, grid=_blocks(w.size))
        return dx, dw, db

    return _function(run, back)


# ---------------------------------------------------------------- softmax of rows, a block a row


def _softmax(mistake: str) -> Callable[..., Any]:
    total = """
    part[t] = sum;
    __syncthreads();
    for (int half = << block >> / 2; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        BARRIER
    }"""
    forward = _kernel(
        "soft",
        """(const ELEM* x, ELEM* y, int columns) {
    __shared__ ACC part[<< block >>];
    const int t = threadIdx.x, from = blockIdx.x * columns;
    ACC sum = 0;
    for (int c = t; c < columns; c += << block >>) sum += exp(cast<ACC>(x[from + c]));"""
        + total.replace("BARRIER", "__syncthreads();")
        + """
    for (int c = t; c < columns; c += << block >>) y[from + c] = cast<ELEM>(exp(cast<ACC>(x[from + c])) / part[0]);
}""",
        "",
    )
    backward = _kernel(
        "soft_backward",
        """(const ELEM* y, const ELEM* g, ELEM* dx, int columns) {
    __shared__ ACC part[<< block >>];
    const int t = threadIdx.x, from = blockIdx.x * columns;
    ACC sum = 0;
    for (int c = t; c < ⟦columns|||min(columns, << block >>)#sum over one block⟧; c += << block >>)
        sum += cast<ACC>(y[from + c]) * cast<ACC>(g[from + c]);"""
        + total.replace("BARRIER", "⟦__syncthreads();|||#missing barrier⟧")
        + """
    for (int c = t; c < columns; c += << block >>) {
        const ACC own = cast<ACC>(y[from + c]);
        dx[from + c] = cast<ELEM>(own * (cast<ACC>(g[from + c])⟦ - part[0]||| #missing coupling⟧)⟦|||* own#squared⟧);
    }
}""",
        mistake,
    )

    def run(ctx: Any, x: ck.Array) -> ck.Array:
        y = ck.empty_like(x)
        forward(x, y, x.shape[1], grid=x.shape[0])
        ctx.save_for_backward(y)
        return y

    def back(ctx: Any, g: ck.Array) -> ck.Array:
        (y,) = ctx.saved_arrays
        dx = ck.empty_like(y)
        backward(y, g, dx, y.shape[1], grid=y.shape[0])
        return dx

    return _function(run, back)


# ---------------------------------------------------------------- y[i] = x[at[i]]


def _gather(mistake: str) -> Callable[..., Any]:
    forward = _kernel(
        "pick",
        f"""(const ELEM* x, const int* at, ELEM* y, int n) {{
    {INDEX}
    if (i < n) y[i] = x[at[i]];
}}""",
        "",
    )
    backward = _kernel(
        "pick_backward",
        f"""(const ELEM* g, const int* at, ACC* dx, int n) {{
    {INDEX}
    if (i < n) ⟦atomicAdd(&dx[at[i]], cast<ACC>(g[i]))|||dx[at[i]] = cast<ACC>(g[i])#overwritten⟧;
    ⟦|||if (i < n && at[i] == 0) dx[1] = 0;#neighbour cleared⟧
}}""",
        mistake,
    )

    def run(ctx: Any, x: ck.Array, at: ck.Array) -> ck.Array:
        ctx.save_for_backward(at)
        ctx.size, ctx.dtype = x.size, x.dtype
        y = ck.empty(at.size, x.dtype)
        forward(x, at, y, at.size, grid=_blocks(at.size))
        return y

    def back(ctx: Any, g: ck.Array) -> Any:
        (at,) = ctx.saved_arrays
        acc = ck.float64 if g.dtype == ck.float64 else ck.float32
        dx = ck.empty(ctx.size, acc) if mistake == "sums not zeroed" else ck.zeros(ctx.size, acc)
        backward(g, at, dx, at.size, grid=_blocks(at.size), elem=g.dtype)
        return dx.astype(ctx.dtype), None

    return _function(run, back)


# ---------------------------------------------------------------- c = a @ b, a thread an element


def _product(mistake: str) -> Callable[..., Any]:
    text = f"""(const ELEM* a, const ELEM* b, ELEM* c, int m, int n, int k) {{
    {INDEX}
    if (i >= m * n) return;
    ACC sum = 0;
    for (int p = 0; p < k; ++p) sum += cast<ACC>(a[A_AT]) * cast<ACC>(b[B_AT]);
    c[i] = cast<ELEM>(sum);
}}"""

    def kernel(name: str, a_at: str, b_at: str) -> ck.Kernel:
        return _kernel(name, text.replace("A_AT", a_at).replace("B_AT", b_at), mistake)

    forward = kernel("times", "i / n * k + p", "p * n + i % n")
    of_a = kernel("times_da", "i / n * k + p", "⟦i % n * k + p|||p * n + i % n#factor not transposed⟧")
    of_b = kernel("times_db", "⟦p * m + i / n|||i / n * k + p#first factor not transposed⟧", "p * n + i % n")

    def run(ctx: Any, a: ck.Array, b: ck.Array) -> ck.Array:
        ctx.save_for_backward(a, b)
        c = ck.empty((a.shape[0], b.shape[1]), a.dtype)
        forward(a, b, c, a.shape[0], b.shape[1], a.shape[1], grid=_blocks(c.size))
        return c

    def back(ctx: Any, g: ck.Array) -> Any:
        a, b = ctx.saved_arrays
        (m, k), n = a.shape, b.shape[1]
        da, db = ck.empty_like(a), ck.empty_like(b)
        of_a(g, b, da, m, k, n, grid=_blocks(da.size))
        of_b(a, g, db, k, n, m, grid=_blocks(db.size))
        return (db, da) if mistake == "gradients swapped" else (da, db)

    return _function(run, back)


# ---------------------------------------------------------------- differences of neighbours, float alone; a View


def _differences(mistake: str) -> Callable[..., Any]:
    forward = _kernel(
        "steps",
        f"""(const float* x, float* y, int n) {{
    {INDEX}
    if (i < n) y[i] = (i > 0 ? x[i - 1] : 0.0f) - 2.0f * x[i] * x[i];
}}""",
        "",
    )
    backward = _kernel(
        "steps_backward",
        f"""(const float* x, View<const float, 1> g, float* dx, int n) {{
    {INDEX}
    if (i < n) dx[i] = -4.0f * x[i] * ⟦g(i)|||g.data[i]#strides ignored⟧ + (i ⟦+ 1 < n|||+ 2 < n#edge⟧ ? ⟦g(i + 1)|||g(i)#wrong neighbour⟧ : 0.0f);
}}""",
        mistake,
    )

    def run(ctx: Any, x: ck.Array) -> ck.Array:
        ctx.save_for_backward(x)
        y = ck.empty_like(x)
        forward(x, y, x.size, grid=_blocks(x.size))
        return y

    def back(ctx: Any, g: ck.Array) -> ck.Array:
        (x,) = ctx.saved_arrays
        dx = ck.empty_like(x)
        backward(x, g, dx, x.size, grid=_blocks(x.size))
        return dx

    return _function(run, back)


FAMILIES = [
    Family(
        "swish",
        _swish,
        lambda: [_values(2, 3)],
        {
            "missing term": "missing term",
            "sign of the exponent": "sign",
            "no cotangent": "cotangent ignored",
            "last element": "bound",
            "third block": "wrong beyond a block",
            "float32 alone": "wrong in one type",
            "half types alone": "wrong in one type",
        },
    ),
    Family(
        "scale by columns",
        _scale,
        lambda: [_values(3, 4), _values(4), _values(4)],
        {
            "row for column": "wrong under broadcasting",
            "rows of one block": "wrong beyond a block",
            "missing accumulate": "missing accumulate",
            "transposed index": "transposed index",
            "bias like weight": "wrong under broadcasting",
            "mean for sum": "scale",
        },
    ),
    Family(
        "softmax",
        _softmax,
        lambda: [_values(3, 5)],
        {
            "sum over one block": "wrong beyond a block",
            "missing barrier": "race",
            "missing coupling": "missing term",
            "squared": "scale",
        },
    ),
    Family(
        "gather",
        _gather,
        lambda: [_values(4), ck.asarray([2, 0, 2, 1, 1, 3], dtype="int32")],
        {
            "overwritten": "missing accumulate",
            "sums not zeroed": "unset",
            "neighbour cleared": "race",
        },
    ),
    Family(
        "product",
        _product,
        lambda: [_values(3, 4), _values(4, 5)],
        {
            "factor not transposed": "transposed index",
            "first factor not transposed": "transposed index",
        },
    ),
    Family(
        "square product",
        _product,
        lambda: [_values(4, 4), _values(4, 4)],
        {
            "factor not transposed": "transposed index",
            "gradients swapped": "order of gradients",
        },
    ),
    Family(
        "differences, float32 alone",
        _differences,
        lambda: [_values(6)],
        {
            "strides ignored": "strides",
            "edge": "bound",
            "wrong neighbour": "index",
        },
    ),
]
