"""The cases, one line each, with the share of the copy's bandwidth that each should reach."""

from __future__ import annotations

from functools import partial
from typing import Any

from .case import Case

_LONG = "n=2**28 | n=2**22"
_SQUARE = "n=16384 m=16384 | n=2048 m=2048"
_TAKE = "n=65536 m=1024 v=50000 | n=2048 m=1024 v=5000"
_POOL = "n=32 c=64 h=224 w=224 | n=2 c=4 h=224 w=224"
_CELL = "b=16384 s=1024 | b=512 s=256"

_elementwise = partial(Case, "elementwise", sizes=_LONG, goal=0.95)
_broadcast = partial(Case, "broadcast", sizes=_SQUARE, goal=0.95)
_layout = partial(Case, "layout", sizes=_SQUARE, goal=0.88)
_reduction = partial(Case, "reduction", traffic="x", goal=0.93)
_indexing = partial(Case, "indexing", sizes=_TAKE)
_pooling = partial(Case, "pooling", sizes=_POOL, inputs="x:n,c,h,w", numpy=None)
_product = partial(Case, "product", traffic="", numpy=None, dtypes="float32", goal=0.9)
_linear = partial(
    _product, inputs="x:n,k w:m,k b:m", dtypes="bfloat16", flops="2 * n * m * k", bare="F.linear(x, w)", goal=1.0,
    compiled="",
)  # fmt: skip
_few_rows = partial(
    _product, inputs="x:r,n y:n,n b:n", run="ck.nn.matmul_add_relu(x, y, b)", dtypes="bfloat16",
    torch="torch.relu(x @ y + b)", traffic="x + y + b + r * n * element", bare="y[: n // 2].clone()", goal=0.85,
    compiled="",
)  # fmt: skip
#: A call takes at most 10/7 of the time that an addition of small arrays takes.
_CALL_GOAL = 0.7
_call = partial(Case, "call", traffic="", sizes="n=64", dtypes="float32", kind="call")

ELEMENTWISE = [
    *(
        _elementwise(f"copy of {rows}x{columns}", "x:n,m", "np.copy(x)", "2 * x", torch="x.clone()", goal=None,
                     sizes=f"n={rows} m={columns} | n={rows // 64} m={columns}")
        for rows, columns in ((8192, 1024), (8192, 4096))
    ),
    _elementwise("add", "x:n y:n", "np.add(x, y)", "3 * x"),
    _elementwise("tanh", "x:n", "np.tanh(x)", "2 * x"),
    _elementwise("cast to half", "x:n", "x.astype(np.bfloat16)", "1.5 * x", torch="x.bfloat16()", numpy=None,
                 dtypes="float32"),
    _elementwise("cast to single", "x:n", "x.astype(np.float32)", "3 * x", torch="x.float()", numpy=None,
                 dtypes="bfloat16"),
    _elementwise("affine, fused", "x:n", "affine(x)", "2 * x", torch="x * 2.5 + 1.25", numpy="x * 2.5 + 1.25",
                 compiled=""),
    _elementwise("where", "c:n? x:n y:n", "np.where(c, x, y)", "c + 3 * x"),
    _elementwise("fill", "x:n", "ck.full(x.shape, 2.5, dtype=x.dtype)", "x", torch="torch.full_like(x, 2.5)",
                 numpy="np.full_like(x, 2.5)"),
    _elementwise("gelu chain, fused", "m:n,m r:m", "chain(m, r)", "2 * m + r", sizes=_SQUARE,
                 torch="F.gelu(m * r + r) * 0.5", numpy=None, compiled=""),
    _elementwise("gelu chain, backward", "m:n,m r:m", "chain(m, r)", "3 * m + r", sizes=_SQUARE,
                 torch="F.gelu(m * r + r) * 0.5", numpy=None, compiled="", grad="m", goal=0.9),
]  # fmt: skip

LAYOUT = [
    _broadcast("add a row", "m:n,m r:m", "np.add(m, r)", "2 * m + r"),
    _broadcast("add a column", "m:n,m c:n,1", "np.add(m, c)", "2 * m + c"),
    _layout(
        "copy of a transpose",
        "m:n,m",
        "m.T.contiguous()",
        "2 * m",
        numpy="np.ascontiguousarray(m.T)",
        compiled="",
    ),
    _layout("m + m.T", "m:n,m", "np.add(m, m.T)", "2 * m"),
]

REDUCTIONS = [
    _reduction("sum", "x:n", "np.sum(x)", sizes=_LONG),
    _reduction("sum, axis 0", "x:n,m", "np.sum(x, axis=0)", sizes=_SQUARE, compiled=""),
    _reduction("sum, axis 1", "x:n,m", "np.sum(x, axis=1)", sizes=_SQUARE),
    _reduction("max", "x:n", "np.max(x)", sizes=_LONG),
    _reduction("max, axis 0", "x:n,m", "np.max(x, axis=0)", torch="torch.amax(x, 0)", sizes=_SQUARE),
    _reduction("max, axis 1", "x:n,m", "np.max(x, axis=1)", torch="torch.amax(x, 1)", sizes=_SQUARE),
    _reduction("argmax", "x:n", "np.argmax(x)", sizes=_LONG, same="x[out]"),
    _reduction("argmax, axis 0", "x:n,m", "np.argmax(x, axis=0)", sizes=_SQUARE, same="x[out, columns(x)]"),
    _reduction("argmax, axis 1", "x:n,m", "np.argmax(x, axis=1)", sizes=_SQUARE, same="x[rows(x), out]"),
    _reduction("mean, axis 1", "x:n,m", "np.mean(x, axis=1)", sizes=_SQUARE),
    _reduction("var, axis 1", "x:n,m", "np.var(x, axis=1)", torch="torch.var(x, 1, correction=0)", sizes=_SQUARE),
]  # fmt: skip

SCANS = [
    Case("scan", "cumsum", "x:n", "np.cumsum(x, axis=0)", "2 * x", _LONG, goal=0.75, compiled=""),
    Case("scan", "cumsum, axis 1", "x:n,m", "np.cumsum(x, axis=1)", "2 * x", _SQUARE, goal=0.85),
    Case("scan", "cumsum, axis 0", "x:n,m", "np.cumsum(x, axis=0)", "2 * x", _SQUARE),
    Case("scan", "cumsum of 1e6", "x:n", "np.cumsum(x, axis=0)", "2 * x", "n=1000000"),
]


def _softmax(columns: int) -> list[Case]:
    """The cases of softmax and related functions for one length of rows."""
    of = partial(Case, "softmax", sizes=f"n=8192 m={columns} | n=512 m={columns}")
    forward = 0.9 if columns >= 4096 else 0.75
    compiled = "" if columns == 4096 else None
    numpy = "np.exp(x - np.max(x, axis=1, keepdims=True))"
    losses: dict[str, Any] = {
        "run": "ck.nn.cross_entropy(x, t)",
        "torch": "F.cross_entropy(x, t)",
        "numpy": None,
    }
    return [
        of(f"softmax {columns}", "x:n,m", "np.softmax(x, axis=1)", "2 * x", torch="torch.softmax(x, 1)",
           numpy=f"(lambda e: e / np.sum(e, axis=1, keepdims=True))({numpy})", goal=forward,
           compiled=compiled),
        of(f"softmax {columns}, backward", "x:n,m", "np.softmax(x, axis=1)", "3 * x", grad="x",
           torch="torch.softmax(x, 1)", numpy=None, goal=0.85),
        of(f"log_softmax {columns}", "x:n,m", "np.log_softmax(x, axis=1)", "2 * x",
           torch="torch.log_softmax(x, 1)", numpy=None, goal=forward),
        of(f"log_softmax {columns}, backward", "x:n,m", "np.log_softmax(x, axis=1)", "3 * x", grad="x",
           torch="torch.log_softmax(x, 1)", numpy=None, goal=0.85),
        of(f"cross-entropy {columns}", "x:n,m t:n<m", traffic="x + t", goal=forward, **losses),
        of(f"cross-entropy {columns}, backward", "x:n,m t:n<m", traffic="2 * x + t", grad="x", goal=0.85, **losses),
    ]  # fmt: skip


def _layer_norm(rows: int, columns: int) -> list[Case]:
    of = partial(Case, "layer_norm", sizes=f"n={rows} m={columns} | n={rows // 64} m={columns}", numpy=None)
    plain: dict[str, Any] = {"run": "ck.nn.layer_norm(x, (m,))", "torch": "F.layer_norm(x, (m,))"}
    affine: dict[str, Any] = {
        "run": "ck.nn.layer_norm(x, (m,), w, b)",
        "torch": "F.layer_norm(x, (m,), w, b)",
    }
    size = f"{rows}x{columns}"
    compiled = "" if rows == 65536 else None
    return [
        of(f"{size} plain", "x:n,m", traffic="2 * x", goal=0.9, **plain),
        of(f"{size} affine", "x:n,m w:m b:m", traffic="2 * x + w + b", goal=0.9, **affine),
        of(f"{size} plain, backward", "x:n,m", traffic="3 * x", grad="x", goal=0.85, **plain),
        of(f"{size} affine, backward", "x:n,m w:m b:m", traffic="3 * x + w + b", grad="x w b", goal=0.75,
           compiled=compiled, **affine),
    ]  # fmt: skip


def _pools(kind: str, k: int) -> list[Case]:
    outputs = "0.25 * x" if k == 2 else f"{111 * 111 / 224**2} * x"
    work: dict[str, Any] = {"run": f"ck.nn.{kind}_pool2d(x, {k}, 2)", "torch": f"F.{kind}_pool2d(x, {k}, 2)"}
    backward = f"x + {outputs}" if kind == "avg" else f"x + 1.5 * {outputs}"
    return [
        _pooling(f"{kind} k{k}s2", traffic=f"x + {outputs}", goal=0.75, **work),
        _pooling(f"{kind} k{k}s2, backward", traffic=backward, grad="x", goal=0.6, **work),
    ]


ROWS = [
    *(case for columns in (1024, 4096, 32768) for case in _softmax(columns)),
    *(
        case
        for size in ((8192, 1024), (8192, 4096), (65536, 768), (4096, 16384))
        for case in _layer_norm(*size)
    ),
]
POOLS = [case for kind in ("avg", "max") for k in (2, 3) for case in _pools(kind, k)]

INDEXING = [
    _indexing("take rows", "x:v,m i:n<v", "np.take(x, i, axis=0)", "2 * x * n / v + i",
              torch="x[i]", goal=0.88),
    _indexing("index add", "x:v,m i:n<v u:n,m", "x.at[i].add(u)", "2 * x + u + i",
              torch="torch.index_add(x, 0, i, u)", numpy=None, compiled=""),
    _indexing("take rows, backward", "x:v,m i:n<v", "np.take(x, i, axis=0)", "x + x * n / v + i",
              torch="F.embedding(i, x)", numpy=None, grad="x"),
]  # fmt: skip

_gates = partial(
    Case, "lltm", inputs="i:b,s o:b,s z:b,s c:b,s", run="pointwise(i, o, z, c)[0]", sizes=_CELL, goal=0.9, numpy=None,
    compiled="",
)  # fmt: skip
CELLS = [
    _gates("pointwise", traffic="6 * c"),
    _gates("pointwise, backward", traffic="9 * c", grad="i o z c"),
]

PRODUCTS = [
    *(
        case
        for of in (_product, partial(_product, dtypes="bfloat16", goal=1.0, compiled="", autotuned=True))
        for case in (
            of("matmul_add_relu 4096", "x:n,n y:n,n b:n", "ck.nn.matmul_add_relu(x, y, b)",
               sizes="n=4096 | n=512", flops="2 * n**3", torch="torch.relu(x @ y + b)", bare="np.matmul(x, y)"),
            of("matmul_add_relu 32 x 512", "x:k,n,n y:k,n,n b:n", "ck.nn.matmul_add_relu(x, y, b)",
               sizes="k=32 n=512 | k=2 n=256", flops="2 * k * n**3", torch="torch.relu(x @ y + b)",
               bare="np.matmul(x, y)"),
        )
    ),
    _product("matmul_add_relu 4096", "x:n,n y:n,n b:n", "tf32_add_relu(x, y, b)", sizes="n=4096 | n=512",
             flops="2 * n**3", torch="torch.relu(tf32_product(x, y) + b)", bare="tf32_product(x, y)", dtypes="tf32",
             goal=0.91),
    _linear("gelu(x @ w.T + b)", run="ck.nn.linear(x, w, b, activation=ck.gelu)", torch="F.gelu(F.linear(x, w, b))",
            autotuned=True,
            sizes="n=16384 k=768 m=3072 | n=256 k=96 m=384"),
    _linear("x @ w.T + b + r", inputs="x:n,k w:m,k b:m r:n,m", run="residual(x, w, b, r)",
            torch="F.linear(x, w, b) + r", sizes="n=16384 k=3072 m=768 | n=256 k=384 m=96"),
    _linear("x @ w.T + b, 50304 columns", run="ck.nn.linear(x, w, b)", torch="F.linear(x, w, b)",
            sizes="n=8192 k=768 m=50304 | n=64 k=96 m=1024"),
    *(_few_rows(f"{rows} x 4096 x 4096", sizes=f"r={rows} n=4096 | r={rows} n=512") for rows in (1, 4, 8, 16)),
]  # fmt: skip

_decode = partial(
    Case, "attention", inputs="q:b,h,1,d k:b,g,n,d v:b,g,n,d", run="ck.nn.attention(q, k, v)", traffic="k + v",
    torch="F.scaled_dot_product_attention(q, k, v, enable_gqa=True)", numpy=None, goal=0.85,
)  # fmt: skip
_attention = partial(
    Case, "attention", inputs="q:b,h,n,d k:b,h,n,d v:b,h,n,d", traffic="", dtypes="bfloat16", numpy=None, goal=1.0,
)  # fmt: skip
_full = partial(
    _attention, flops="4 * b * h * n * n * d", run="ck.nn.attention(q, k, v)",
    torch="F.scaled_dot_product_attention(q, k, v)", bare="F.scaled_dot_product_attention(q, k, v)",
)  # fmt: skip
_causal = partial(
    _attention, flops="2 * b * h * n * n * d", run="ck.nn.attention(q, k, v, causal=True)",
    torch="F.scaled_dot_product_attention(q, k, v, is_causal=True)",
    bare="F.scaled_dot_product_attention(q, k, v, is_causal=True)",
)  # fmt: skip
_backward = partial(_causal, flops="5 * b * h * n * n * d", grad="q k v", goal=0.9)
_capped = partial(_causal, run="ck.nn.attention(q, k, v, causal=True, score=capped)",
                  torch="capped_attention(q, k, v)", compiled="flex_capped_attention(q, k, v)", goal=0.85)  # fmt: skip
_HEADS = {128: "b=4 h=16 n=4096 d=128 | b=1 h=1 n=64 d=128", 64: "b=8 h=12 n=1024 d=64 | b=1 h=1 n=64 d=64"}
ATTENTION = [
    *(
        of(f"{name}, heads of {size}{end}", sizes=sizes)
        for size, sizes in _HEADS.items()
        for of, name, end in (
            (_causal, "causal", ""),
            (_backward, "causal", ", backward"),
            (_full, "all keys", ""),
            (_capped, "capped scores", ""),
        )
    ),
    _decode("1 query of 16384 keys", sizes="b=1 h=32 g=32 n=16384 d=128 | b=1 h=4 g=4 n=2048 d=64"),
    _decode("1 query of 16384 keys, grouped", sizes="b=4 h=32 g=8 n=16384 d=128 | b=1 h=8 g=2 n=2048 d=64"),
]

_LLTM = "x:b,f weights:3*s,s+f bias:3*s h:b,s c:b,s"
_step = partial(
    _call, inputs=_LLTM, sizes="b=16 f=32 s=128", torch="lltm_gradients(x, weights, bias, h, c)", numpy=None,
    graphed=True,
)  # fmt: skip


def _function(name: str, inputs: str, run: str, torch: str | None = None, grad: str = "") -> list[Case]:
    """The cases of one function: a call, one that a tape records, and its derivative."""
    of = partial(_call, inputs=inputs, run=run, torch=torch, numpy=None, goal=_CALL_GOAL)
    if not grad:
        return [of(name)]
    return [of(name), of(f"{name}, recorded", grad=grad), of(f"{name}, backward", grad=grad, kind="backward")]


FUNCTIONS = [
    _function("gelu", "x:n", "ck.gelu(x)", "F.gelu(x)", "x"),
    _function("softmax", "x:8,64", "ck.softmax(x, axis=1)", "torch.softmax(x, 1)", "x"),
    _function("sum, axis 0", "x:8,64", "ck.sum(x, axis=0)", "torch.sum(x, 0)", "x"),
    _function("linear", "x:8,16 w:16,16 b:16", "ck.nn.linear(x, w, b)", "F.linear(x, w, b)", "x w b"),
    _function("x @ y", "x:8,16 y:16,16", "x @ y", "x @ y", "x y"),
    _function("layer_norm", "x:8,64 w:64 b:64", "ck.nn.layer_norm(x, 64, w, b)", "F.layer_norm(x, (64,), w, b)",
              "x w b"),
    _function("rms_norm", "x:8,64 w:64", "ck.nn.rms_norm(x, 64, w)", "F.rms_norm(x, (64,), w)", "x w"),
    _function("group_norm", "x:2,8,4,4 w:8 b:8", "ck.nn.group_norm(x, 4, w, b)", "F.group_norm(x, 4, w, b)", "x w b"),
    _function("conv2d", "x:2,8,8,8 w:8,8,3,3 b:8", "ck.nn.conv2d(x, w, b, padding=1)", "F.conv2d(x, w, b, padding=1)",
              "x w b"),
    _function("max_pool2d", "x:2,8,8,8", "ck.nn.max_pool2d(x, 2)", "F.max_pool2d(x, 2)", "x"),
    _function("interpolate", "x:2,8,4,4", "ck.nn.interpolate(x, scale_factor=2)", "F.interpolate(x, scale_factor=2)",
              "x"),
    _function("attention", "q:1,2,16,16 k:1,2,16,16 v:1,2,16,16", "ck.nn.attention(q, k, v)",
              "F.scaled_dot_product_attention(q, k, v)", "q k v"),
    _function("rotary_embedding", "x:1,2,16,16", "ck.nn.rotary_embedding(x)", None, "x"),
    _function("cross_entropy", "x:8,64 t:8<64", "ck.nn.cross_entropy(x, t)", "F.cross_entropy(x, t)", "x"),
    _function("dropout", "x:n", "ck.nn.dropout(x, 0.5)", None, "x"),
    _function("embedding", "w:64,16 i:8<64", "ck.nn.embedding(i, w)", "F.embedding(i, w)", "w"),
    _function("LSTM's gates", "a:4,16 c:4,16 d:4,16 e:4,16 f:4,16", "lstm_gates(a, c, d, e, f)", None, "a c d e f"),
    _function("lltm_cell", "x:4,16 w:48,32 b:48 h:4,16 c:4,16", "ck.nn.lltm_cell(x, w, b, h, c)", None, "x w b h c"),
    _function("a user's Function", "x:n", "Squared.apply(x)", "Squared.apply(x)", "x"),
    _function("segment_sum", "x:64,8 i:64<8", "ck.segment_sum(x, i, 8)", None, "x"),
    _function("take", "x:64,8 i:8<64", "ck.take(x, i, axis=0)", "torch.index_select(x, 0, i)", "x"),
    _function("take_along_axis", "x:8,64 i:8,4<64", "ck.take_along_axis(x, i, axis=1)", "torch.gather(x, 1, i)", "x"),
    _function("x[i]", "x:64,8 i:8<64", "x[i]", "x[i]", "x"),
    _function("concat", "x:8,16 y:8,16", "ck.concat([x, y], axis=1)", "torch.cat([x, y], 1)", "x y"),
    _function("stack", "x:8,16 y:8,16", "ck.stack([x, y])", "torch.stack([x, y])", "x y"),
    _function("permute_dims", "x:4,4,4", "ck.permute_dims(x, (2, 0, 1))", "x.permute(2, 0, 1)", "x"),
    _function("reshape", "x:8,16", "x.reshape(4, 32)", "x.reshape(4, 32)", "x"),
    _function("x[:, :, 1]", "x:4,4,4", "x[:, :, 1]", "x[:, :, 1]", "x"),
    _function("where", "c:n? x:n y:n", "ck.where(c, x, y)", "torch.where(c, x, y)", "x y"),
    _function("cumsum", "x:n", "ck.cumsum(x, axis=0)", "torch.cumsum(x, 0)", "x"),
    _function("fft.rfft", "x:n", "ck.fft.rfft(x)", "torch.fft.rfft(x)"),
    _function("fft.irfft(fft.rfft)", "x:n", "ck.fft.irfft(ck.fft.rfft(x))", "torch.fft.irfft(torch.fft.rfft(x))", "x"),
    # Random matrices may be so ill-conditioned that no solution in float32 is close to that in float64.
    _function("linalg.solve", "x:8,8 y:8,8", "ck.linalg.solve(x, y)", None, "x y"),
    *(
        _function(f"random.{name}", "x:1", f"ck.random.{name}({arguments})")
        for name, arguments in (
            ("normal", "size=(8, 8)"), ("uniform", "size=(8, 8)"), ("integers", "10, size=(8, 8)"),
            ("random", "(8, 8)"), ("exponential", "size=(8, 8)"), ("gamma", "2.0, size=(8, 8)"),
            ("beta", "2.0, 3.0, (8, 8)"), ("poisson", "3.0, (8, 8)"), ("binomial", "10, 0.5, (8, 8)"),
            ("bernoulli", "0.5, (8, 8)"), ("permutation", "64"), ("choice", "64, 8"), ("gumbel", "size=(8, 8)"),
            ("standard_t", "3.0, (8, 8)"), ("laplace", "size=(8, 8)"), ("multinomial", "10, [0.5, 0.5], 8"),
        )
    ),
]  # fmt: skip

CALLS = [
    _call("add", "x:n y:n", "np.add(x, y)"),
    _call("add, tracked", "x:n y:n", "np.add(x, y)", numpy=None, grad="x y"),
    *(case for one in FUNCTIONS for case in one),
    _call("exp", "x:n", "np.exp(x)"),
    _call("sum", "x:n", "np.sum(x)"),
    _call("product", "x:8,8 y:8,8", "np.matmul(x, y)"),
    _call("slice", "x:n", "x[3:40]"),
    _call("(x * x).sum(), its gradient", "x:n", "grad_of_squares(x)", numpy=None, graphed=True),
    _step("LLTM forward and backward", run="lltm_gradients(x, weights, bias, h, c)"),
    _step("LLTM, captured", run="lltm_captured(x, weights, bias, h, c)"),
]

_memory = partial(Case, "memory", traffic="", dtypes="float32", kind="memory", numpy=None)
MEMORY = [
    _memory("LLTM", _LLTM, "lltm_gradients(x, weights, bias, h, c)", sizes="b=4096 f=1024 s=1024"),
    _memory("MLP with layer_norm", "x:n,m first:m,k scale:k shift:k second:k,m",
            "mlp_gradients(x, first, scale, shift, second)", sizes="n=8192 m=1024 k=4096"),
]  # fmt: skip

CASES: list[Case] = [
    *ELEMENTWISE, *LAYOUT, *REDUCTIONS, *SCANS, *ROWS, *POOLS, *INDEXING, *CELLS, *ATTENTION, *PRODUCTS, *CALLS,
    *MEMORY,
]  # fmt: skip
