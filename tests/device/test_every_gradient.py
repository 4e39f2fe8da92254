"""Every floating argument of every public function: its gradient is right, or asking for it is an error.

A call is probed by each of its arguments in turn, a Python float as a 0-d array. The gradient of a random combination
of the floating results is compared with a central difference along a random direction; a refusal is a TypeError, a
ValueError or a GradientError. So a gradient that is zero or None where the value depends on the argument fails here.

The calls are the cases of ``cases_*.py``, the rows, the reductions, and ``CALLS`` below. A new function is found by
``test_every_parameter_is_probed``: give it a case, or a call here for arguments that the case leaves out (write a
number that is meant as a value as a float: 1.0, not 1), or name the parameter in ``EXCLUDED`` with the reason.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from test_namespace import CASES, drawn, results

import cukern as ck
from cukern import namespace
from cukern.array import creation
from cukern.elementwise.row import Row
from cukern.ops import grids
from cukern.reduction.rows import Reduce

STEP = 1e-6


@dataclass(frozen=True)
class Call:
    """A call of a public function: NumPy arrays and Python floats among its arguments are probed."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


def f(*values: Any) -> np.ndarray:
    return np.asarray(values, np.float64)


M = np.random.default_rng(3).uniform(0.5, 2.0, (3, 4))
S = M[:, :3] @ M[:, :3].T + np.eye(3)
V = f(0.3, 1.7, 1.1)
BINS = np.asarray([2, 0, 2])
#: Calls of functions that are no case, or with arguments that their cases leave out.
CALLS = [
    Call("array", (V,)),
    Call("array", ([[V[:2], [1.0, 2.0]], [[3.0, 4.0], V[1:]]],), {"ndmin": 4}, "nested"),
    Call("array", ([1.5, 2, np.asarray(0.5)],), label="numbers"),
    Call("asarray", (V,), {"copy": True}),
    Call("asarray", (V,), {"dtype": "float64"}, "cast"),
    Call("asarray", ([V, V],), {"dtype": "float64"}, "list"),
    Call("ascontiguousarray", (M.T,)),
    Call("from_dlpack", (V,)),
    Call("from_dlpack", (V,), {"copy": True}, "copied"),
    Call("full", ((2, 3), 1.5)),
    Call("full", ((2, 3), V), label="array"),
    Call("full", ((2,), [0.5, 1.5]), {"dtype": "float64"}, "list"),
    Call("full_like", (M, 1.5)),
    Call("full_like", (M, f(1, 2, 3, 4)), label="array"),
    Call("empty_like", (M[:0],)),
    Call("ones_like", (M,)),
    Call("zeros_like", (M,)),
    Call("arange", (0.5, 2.25, 0.5), {"dtype": "float64"}),
    Call("arange", (2.5,), {"dtype": "float64"}, "end"),
    Call("linspace", (0.5, 2.5, 4), {"dtype": "float64"}),
    Call("linspace", (M, f(1, 2, 3, 4), 3), {"axis": -1, "retstep": True}, "arrays"),
    Call("linspace", (V, 2.5, 3), {"endpoint": False}, "open"),
    Call("logspace", (0.5, 2.5, 4), {"base": 2.5, "dtype": "float64"}),
    Call("logspace", (V, f(1, 2, 3), 3), {"base": f(2, 3, 4), "axis": 1}, "arrays"),
    Call("geomspace", (0.5, 2.5, 4), {"dtype": "float64"}),
    Call("geomspace", (V, f(1, 2, 3), 3), {"axis": 1}, "arrays"),
    Call("allclose", (V, V, 0.5, 0.5)),
    Call("array_equal", (V, V)),
    Call("array_equiv", (V, V)),
    Call("bincount", (BINS, V)),
    Call("clip", (M, 0.7, 1.5)),
    Call("clip", (M, f(0.6, 0.7, 0.8, 0.9), 1.5), label="array"),
    Call("compress", (np.asarray([True, False, True]), M), {"axis": 0}),
    Call("cov", (M,), {"aweights": f(1, 2, 3, 4)}),
    Call("cov", (M,), {"fweights": np.asarray([1, 2, 1, 1])}, "counts"),
    Call("cov", (M,), {"ddof": 1.0}, "ddof"),
    Call("digitize", (V, f(0, 1, 2))),
    Call("diff", (V,), {"prepend": 0.5, "append": f(1, 2)}),
    Call("ediff1d", (V,), {"to_end": f(1, 2), "to_begin": 0.5}),
    Call("extract", (np.asarray([True, False, True]), V)),
    Call("histogram", (M, 3), {"weights": M[::-1].copy(), "density": True}),
    Call("histogram", (M, f(0, 1, 1.75, 3)), {"density": True}, "edges"),
    Call("histogram_bin_edges", (M, f(0, 1, 1.75, 3)), label="edges"),
    Call("histogram_bin_edges", (M, 3), {"range": (0.25, 2.5), "weights": M}),
    Call("index_add", (M, BINS, M[:, :4] + 1.0)),
    *(Call(f"segment_{how}", (M, np.asarray([0, 1, 0]), 2)) for how in ("sum", "prod", "mean", "max", "min")),
    Call("scatter", (M, np.asarray([[0, 1, 0, 1]]), 1, 2), {"reduce": "prod"}),
    Call("isclose", (V, V, 0.5, 0.5)),
    Call("linalg.cond", (S, 1.0)),
    Call("linalg.eigh", (S,)),
    Call("linalg.lstsq", (M, V, 1e-9)),
    Call("linalg.matrix_rank", (S,), {"rtol": 1e-9}),
    Call("linalg.norm", (V, 2.5)),
    Call("linalg.norm", (S, 1.0), label="matrix"),
    Call("linalg.pinv", (M,), {"rtol": 1e-9}),
    Call("linalg.pinv", (M,), {"rcond": 1e-9}, "rcond"),
    Call("linalg.qr", (S,)),
    Call("linalg.svd", (M,), {"full_matrices": False}),
    Call("linalg.cholesky", (S + np.eye(3) * 5.0,)),
    Call("linalg.eigvalsh", (S,)),
    Call("linalg.tensorinv", (S.reshape(3, 1, 3), 2)),
    Call("linalg.tensorsolve", (S, V)),
    Call("linalg.matmul", (S, V)),
    Call("linalg.tensordot", (S, M), {"axes": 1}),
    Call("linalg.vecdot", (V, V + 1.0)),
    Call("nan_to_num", (f(1.0, np.nan, np.inf, -np.inf), True, 1.5), {"posinf": 2.5, "neginf": -2.5}),
    Call("nanpercentile", (M, 30.0)),
    Call("nanstd", (M,), {"correction": 0.5}),
    Call("nanstd", (M,), {"ddof": 0.5}, "ddof"),
    Call("nanvar", (M,), {"ddof": 0.5}),
    *(Call(f"nn.{kind}_pool1d", (M, 2)) for kind in ("avg", "max", "adaptive_avg", "adaptive_max")),
    *(Call(f"nn.{kind}_pool2d", (M[None], 2)) for kind in ("avg", "max", "adaptive_avg", "adaptive_max")),
    *(Call(f"nn.{kind}_pool3d", (M[None, None], (1, 2, 2))) for kind in ("avg", "max")),
    *(Call(f"nn.adaptive_{kind}_pool3d", (M[None, None], (1, 2, 3))) for kind in ("avg", "max")),
    Call("nn.interpolate", (M[None], 5), {"mode": "linear"}),
    Call("nn.interpolate", (M[None],), {"scale_factor": 1.5}, "factor"),
    Call("nn.upsample", (M[None],), {"scale_factor": 1.5}, "factor"),
    Call("nn.pad", (M, [(1, 2)]), {"value": 1.5}),
    Call("nn.pixel_shuffle", (M[:, :, None].repeat(4, 0), 2)),
    Call("nn.pixel_unshuffle", (S[None, :2, :2], 2)),
    Call("nn.rotary_embedding", (M, f(0.5, 1.5, 2.5)), {"base": 100.0}),
    Call("nn.rotary_embedding", (M,), {"positions": 1.5, "interleaved": True}, "from a position"),
    Call("nn.rotary_embedding", (M,), {"cos": M[:, :1], "sin": M[:, 1:2], "size": 2}, "tables"),
    Call("nn.sample_tokens", (M, 0.5), {"top_p": 0.7, "min_p": 0.1}),
    Call("nn.batch_norm", (M, f(1, 2, 3, 4), f(4, 3, 2, 1), f(0, 1, 0, 1), f(1, 2, 1, 2), False, 0.1, 0.2)),
    Call("nn.batch_norm", (M, None, None, f(0, 1, 0, 1), f(1, 2, 1, 2), True, 0.1), {}, "training"),
    Call("nn.binary_cross_entropy", (M / 3, M[::-1] / 3, M + 1)),
    Call("nn.binary_cross_entropy_with_logits", (M, M[::-1] / 3, M + 1, f(1, 2, 3, 4))),
    Call("nn.conv1d", (M, M[None, :, :2] + 1.0, f(0.5)), {"stride": 2, "padding": 1}),
    Call("nn.conv2d", (M[None], M[None, None, :2, :2] + 1.0, f(0.5)), {"padding": "same"}),
    Call("nn.conv3d", (M[None, None], M[None, None, None, :2, :2] + 1.0, f(0.5))),
    Call("nn.conv_transpose1d", (M, M[:, None, :2] + 1.0, f(0.5)), {"stride": 2}),
    Call("nn.conv_transpose2d", (M[None], M[None, None, :2, :2] + 1.0, f(0.5))),
    Call("nn.conv_transpose3d", (M[None, None], M[None, None, None, :2, :2] + 1.0, f(0.5))),
    Call("nn.cross_entropy", (M, BINS)),
    Call("nn.cross_entropy", (M, BINS, f(1, 2, 3, 4)), {"label_smoothing": 0.1}, "weighted"),
    Call("nn.cross_entropy", (M, M[::-1] / M.sum()), {}, "probabilities"),
    Call("nn.dropout", (M, 0.0)),
    Call("nn.fold", (np.concatenate([M, M[:1]]), (2, 3), (1, 2)), {"padding": (0, 1)}),
    Call("nn.group_norm", (M, 2, f(1, 2, 3, 4), f(4, 3, 2, 1), 0.1)),
    Call("nn.huber_loss", (M, M[::-1] + 1.0, 0.7)),
    Call("nn.kl_div", (M, M[::-1])),
    Call("nn.l1_loss", (M, M[::-1] + 2.0)),
    Call("nn.nll_loss", (M, BINS, f(1, 2, 3, 4))),
    Call("nn.rms_norm", (M, 4), {"weight": f(1, 2, 3, 4), "eps": 0.1}),
    Call("nn.attention", (M[None], M[None, :2] + 1.0, M[None, 1:]), {"scale": 0.3, "causal": True}),
    Call("nn.attention", (M[None], M[None, :2], M[None, 1:]), {"bias": M[:, :2]}, "biased"),
    Call(
        "nn.attention",
        (M[None], M[None, :2], M[None, 1:]),
        {"score": lambda s, batch, head, i, j, x: s * x + j, "arrays": [M[:, :2]], "dropout": 0.0},
        "scored",
    ),
    Call(
        "nn.attention",
        (M[None], M[None, :2], M[None, 1:]),
        {"score": lambda s, batch, head, i, j, x: s * x[i, j + 1], "tables": [M]},
        "indexed",
    ),
    Call("nn.scaled_dot_product_attention", (M, M[:2] + 1.0, M[1:]), {"scale": 0.3}),
    Call("nn.scaled_dot_product_attention", (M, M[:2], M[1:], M[:, :2]), {"dropout_p": 0.0}, "masked"),
    Call("nn.smooth_l1_loss", (M, M[::-1] + 1.0, 0.7)),
    Call("nn.embedding", (BINS, M)),
    Call("nn.layer_norm", (M, 4, f(1, 2, 3, 4), f(4, 3, 2, 1), 0.1)),
    Call("nn.linear", (M, M[:2] + 1.0, f(1, 2))),
    Call("nn.linear_cross_entropy", (M, M + 1.0, BINS, f(1, 2, 3)), {"chunks": 2}),
    Call(
        "nn.lltm_cell",
        (M[:2, :2], S, V, M[:2, :1], M[:2, 1:2]),
    ),
    Call("nn.log_softmax", (M,)),
    Call("nn.matmul_add_relu", (M, M.T.copy(), f(-5, -6, -7))),
    Call("nn.mse_loss", (M, M[::-1] + 1.0)),
    Call("nn.softmax", (M,)),
    Call("nn.unfold", (M[None], 2), {"padding": 1}),
    Call("pad", (V, 2), {"constant_values": (0.5, 1.5)}),
    Call("pad", (V, 2), {"constant_values": 0.5}, "one"),
    Call("pad", (M, 2, "linear_ramp"), {"end_values": ((0.5, 1.5), (2.5, 3.5))}, "ramp"),
    Call("polygamma", (1, V)),
    Call("multigammaln", (V + 2.0, 2)),
    Call("zeta", (3, V)),
    Call("put_along_axis", (M, np.asarray([[0], [1], [2]]), 2.5)),
    Call("copyto", (V, V + 1.0)),
    Call("place", (V, np.asarray([True, False, True]), f(1.5, 2.5))),
    Call("put", (V, [0, 2], f(1.5, 2.5))),
    Call("putmask", (V, np.asarray([True, False, True]), V + 1.0)),
    Call("quantile", (M, [0.2, 0.7])),
    Call("quantile", (V, 0.6), {"weights": f(1, 2, 3), "method": "inverted_cdf"}, "weights"),
    Call("percentile", (V, 60.0), {"weights": f(1, 2, 3), "method": "inverted_cdf"}),
    Call("polyfit", (V, f(1, 3, 2), 1), {"w": f(1, 2, 1), "rcond": 1e-9}),
    Call("polyval", (f(1, 2, 3), V)),
    Call("unwrap", (V * 5, 4.0), {"period": 6.0}),
    Call("float_power", (V, 1.5)),
    Call("frexp", (V,)),
    Call("ldexp", (V, 3)),
    Call("real_if_close", (V, 100.0)),
    Call("sort_complex", (V,)),
    Call("apply_over_axes", (lambda x, axis: x.sum(axis), M, [0])),
    Call("choose", (np.asarray([0, 1, 0]), [V, 1.5])),
    Call("piecewise", (V, [V < 1, V > 1.5], [lambda v, by, k=0.0: v * by + k, 0.5], 1.5), {"k": 0.25}),
    Call("poly", (V,)),
    Call("polyadd", (V, 1.5)),
    Call("polyadd", (1.5, V), label="number first"),
    Call("polysub", (V, f(0.5, 2))),
    Call("polymul", (V, f(0.5, 2))),
    Call("polydiv", (V, f(0.5, 2))),
    Call("polyder", (V,)),
    Call("polyint", (V,), {"k": 0.5}),
    Call("roots", (f(1, 3, 2),)),
    Call("kaiser", (4, 1.5)),
    Call("histogramdd", ([V, V + 1.0],), {"bins": 2, "range": [[0.0, 2.5], [0.5, 3.5]], "density": True}),
    Call("histogramdd", ([V, V + 1.0], [f(0, 1, 2), f(1, 2, 3)]), {"weights": V}, "edges"),
    Call("linalg.matrix_rank", (S, 0.5)),
    Call("random.Generator.laplace", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.logistic", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.lognormal", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.pareto", (1.5,), {"dtype": "float64"}),
    Call("random.Generator.power", (1.5,), {"dtype": "float64"}),
    Call("random.Generator.rayleigh", (1.5,), {"dtype": "float64"}),
    Call("random.Generator.weibull", (1.5,), {"dtype": "float64"}),
    Call("random.Generator.triangular", (0.5, 1.0, 2.5), {"dtype": "float64"}),
    Call("random.Generator.wald", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.vonmises", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.geometric", (0.4,)),
    Call("random.Generator.hypergeometric", (5.0, 4.0, 3.0)),
    Call("random.Generator.logseries", (0.4,)),
    Call("random.Generator.zipf", (1.5,)),
    Call("random.Generator.negative_binomial", (3.0, 0.4)),
    Call("select", ([np.asarray([True, False, False]), np.asarray([True, True, False])], [V, V + 1.0], 1.5)),
    Call("sliding_window_view", (V, 2)),
    Call("fill_diagonal", (S, 1.5)),
    Call("apply_along_axis", (lambda row, by: row * by, 0, M, 1.5)),
    Call("histogram2d", (V, V + 1.0), {"bins": 2, "range": [[0.0, 2.5], [0.5, 3.5]], "density": True}),
    Call("histogram2d", (V, V + 1.0, [f(0, 1, 2), f(1, 2, 3)]), {"weights": V}, "edges"),
    Call("interp", (V, f(0, 1, 2), f(1, 3, 2), -1.5, 2.5)),
    Call("interp", (V, f(0, 1, 2), f(1, 3, 2)), {"period": 2.5}, "period"),
    Call("gradient", (M, 0.5, f(0, 1, 3, 4))),
    Call("trim_zeros", (V,)),
    Call("trapezoid", (M,), {"dx": 0.5}),
    Call("trapezoid", (V,), {"x": f(0, 1, 3)}, "places"),
    Call("average", (V,), {"weights": V, "returned": True}),
    Call("insert", (V, 1, 0.5)),
    Call("append", (V, [0.5, 1.5])),
    Call("take", (V, BINS % 2)),
    Call("union1d", ([0.5, 1.25], V)),
    Call("where", (np.asarray([True, False, True]), 0.5, V)),
    Call("where", (V, 0.5, 1.5), label="condition"),
    Call("fft.fftfreq", (3, 0.5), {"dtype": "float64"}),
    Call("fft.rfftfreq", (3, 0.5), {"dtype": "float64"}),
    Call("nanprod", (np.array([1.0, np.nan, 3.0]),), {"initial": 1.5}),
    Call("nansum", (np.array([1.0, np.nan, 3.0]),), {"initial": 1.5}),
    Call("fromfunction", (lambda i, x: x * i, (3,)), {"x": 1.5}),
    Call("ix_", (V,)),
    Call("random.Generator.uniform", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.normal", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.normal", (V, V), {"dtype": "float64"}, "arrays"),
    Call("random.Generator.exponential", (1.5,), {"dtype": "float64"}),
    Call("random.Generator.gumbel", (0.5, 1.5), {"dtype": "float64"}),
    Call("random.Generator.bernoulli", (0.5,)),
    Call("random.Generator.integers", (0.5, 1.5)),
    Call("random.Generator.permutation", (M,)),
    Call("random.Generator.gamma", (2, 1.5), {"dtype": "float64"}),
    Call("random.Generator.poisson", (1.5,)),
    Call("random.Generator.binomial", (3.0, 0.4)),
    Call("random.Generator.multinomial", (3.0, f(0.2, 0.5, 0.3))),
    Call("random.Generator.multivariate_normal", (V, S), {"dtype": "float64"}),
    Call("random.Generator.shuffle", (M,)),
    Call("random.Generator.choice", (V, 2)),
    *(
        Call(f"fft.{name}", (V,))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn")
    ),
    *(Call(f"fft.{name}", (M,)) for name in ("fft2", "ifft2", "rfft2", "irfft2")),
    Call("linalg.eig", (S,)),
    Call("linalg.eigvals", (S,)),
]


def function_of(name: str) -> Callable[..., Any]:
    """The public function of a name; a generator's method starts from the same seed each time."""
    found: Any = ck
    for part in name.split("."):
        found = ck.random.default_rng(0) if part == "Generator" else getattr(found, part)
    return found


Path = tuple[Any, ...]


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Where floats and floating arrays stand in arguments."""
    if isinstance(tree, (list, tuple)):
        for i, one in enumerate(tree):
            yield from leaves(one, (*path, i))
    elif isinstance(tree, dict):
        for name, one in tree.items():
            yield from leaves(one, (*path, name))
    elif type(tree) is float or (isinstance(tree, np.ndarray) and tree.dtype == np.float64):
        yield path, tree


def placed(tree: Any, where: Path | None, value: Any) -> Any:
    """The arguments with ``value`` at a place, NumPy's arrays as cukern's."""
    if where == ():
        return value
    rest = where[1:] if where else None
    if isinstance(tree, (list, tuple)):
        made = [placed(one, rest if where and where[0] == i else None, value) for i, one in enumerate(tree)]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    if isinstance(tree, dict):
        return {
            name: placed(one, rest if where and where[0] == name else None, value)
            for name, one in tree.items()
        }
    return ck.asarray(tree.copy()) if isinstance(tree, np.ndarray) else tree


def run(call: Call, where: Path, value: ck.Array) -> list[ck.Array]:
    """The floating results of a call with ``value`` at a place of its arguments."""
    args, options = placed((call.args, call.options), where, value)
    made = results(function_of(call.name)(*args, **options))
    return [one for one in made if isinstance(one, ck.Array) and one.dtype in ck.dtypes.FLOATS]


def probe(call: Call, where: Path, value: Any) -> str:
    """ "right" or "refused"; raises AssertionError where the gradient is wrong."""
    value = np.asarray(value, np.float64)
    rng = np.random.default_rng(1)
    direction = rng.uniform(0.5, 1.0, value.shape)
    if value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, value.T):
        direction += direction.T  # what reads one triangle takes the other to be equal
    x = ck.asarray(value)
    try:
        run(call, where, ck.asarray(value.copy()))
        with ck.Tape() as tape:
            tape.watch(x)
            made = run(call, where, x)
        weights = [rng.uniform(0.5, 1.0, one.shape) for one in made]
        cotangents = [ck.asarray(w, dtype=one.dtype) for w, one in zip(weights, made, strict=True)]
        found = tape.gradient(made, x, cotangents)
    except (TypeError, ValueError, ck.GradientError):
        return "refused"
    got = 0.0 if found is None else float((found.numpy() * direction).sum())

    def total(sign: float) -> float:
        moved = run(call, where, ck.asarray(value + sign * STEP * direction))
        return sum(float((one.numpy() * w).sum()) for one, w in zip(moved, weights, strict=True))

    want = (total(1.0) - total(-1.0)) / (2 * STEP)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"{call.id}: argument {where}")
    return "right"


def of_rows() -> Iterator[Call]:
    """Each row without a derivative, of operands of its domain; test_elementwise_gradients has the others."""
    for name in namespace.__all__:
        row = getattr(ck, name)
        if isinstance(row, Row) and row.vjp is None:
            low, high = (max(row.domain[0], -3.0), min(row.domain[1], 3.0))
            places = [low + (high - low) * np.asarray([0.3, 0.55, 0.8])[:: 1 - 2 * (i % 2)] for i in range(3)]
            bools = np.asarray([True, False, True])
            args = [
                bools if kind == "b" else place + 0.01 * i
                for i, (kind, place) in enumerate(zip(row.operands, places, strict=False))
            ]
            yield Call(name, tuple(args))


def of_cases() -> Iterator[tuple[Call, list[Path]]]:
    """Each case, and what test_gradients of test_namespace does not check of it."""
    for case in CASES:
        if "f" in case.kinds and case.id not in JUMPS:
            call = Call(case.name, drawn(case, ck.float64), case.options, case.label)
            found = leaves((call.args, call.options))
            rest = [
                (path, one) for path, one in found if not case.gradient or path[0] == 1 or type(one) is float
            ]
            yield call, [path for path, _ in rest]


#: Cases at values where a result jumps, and what is probed in their place.
JUMPS = {
    "trim_zeros": "its zeros are what is cut: it is a view",
    "trim_zeros-axis": "its zeros are what is cut: it is a view",
    "sort-nan": "of NaN: sort",
    "quantile-several": "at both ends of what q may be: quantile of CALLS",
}
PROBED = [(call, [path for path, _ in leaves((call.args, call.options))]) for call in [*of_rows(), *CALLS]]
PROBED += of_cases()


@pytest.mark.parametrize(
    ("call", "paths"), [one for one in PROBED if one[1]], ids=lambda one: getattr(one, "id", "")
)
def test_the_gradient_by_each_argument_is_right_or_refused(
    device: ck.Device, call: Call, paths: list[Path]
) -> None:
    for path in paths:
        value: Any = (call.args, call.options)
        for step in path:
            value = value[step]
        probe(call, path, value)


#: In the annotation of a parameter that can hold a floating value.
FLOATING = re.compile("Any|Array|float|Scalar|Number|Parameter|_empty")
#: Parameters with such an annotation that never hold one.
STATIC = frozenset(
    """axes device dtype func func1d function fweights ids ind indices kind mask_func multi_index obj offsets optimize
    out out1 out2 pad_width repeats s segment_ids shift sorter stat_length where window_shape condlist""".split()
)
#: Parameters, or all of a function, that are not probed, and why.
EXCLUDED = {
    "apply_along_axis.options": "given on, as its args are",
    "bincount.x": "integers",
    "bitwise_count.x": "integers",
    "choose.a": "integers",
    "compress.condition": "compared with 0",
    "extract.condition": "compared with 0",
    "check_indices": "a with-block",
    "diag_indices_from": "places",
    "divmod.options": "where, dtype and casting",
    "elementwise": "makes functions",
    "fuse": "makes functions",
    "ldexp.x2": "integers",
    "nanvar.correction": "ddof, by its other name",
    "nn.attention.key_lengths": "integers",
    "nn.attention.mask": "bools",
    "nn.attention.score": "a function",
    "nn.attention.starts": "integers",
    "nn.linear_cross_entropy.targets": "integers",
    "nn.nll_loss.targets": "integers",
    "nn.lltm": "test_nn_lltm",
    "packbits": "integers",
    "place.mask": "bools",
    "putmask.mask": "bools",
    "random.Generator.choice.p": "a distribution: what is drawn has no derivative by it",
    # Moved along with their distribution, which differences of draws are not: test_distributions.
    "random.Generator.beta": "implicit derivatives",
    "random.Generator.gamma.shape": "implicit derivatives",
    "random.Generator.standard_t": "implicit derivatives",
    "random.Generator.chisquare": "implicit derivatives",
    "random.Generator.dirichlet": "implicit derivatives",
    "random.Generator.f": "implicit derivatives",
    "random.Generator.noncentral_chisquare": "implicit derivatives",
    "random.Generator.noncentral_f": "implicit derivatives",
    "random.Generator.standard_gamma": "implicit derivatives",
    "pad.mode": "a name or a function",
    "pad.options": "of a function",
    "reduction": "makes functions",
    "sliding_window_view.axis": "an axis or several",
    "tril_indices_from": "places",
    "triu_indices_from": "places",
    "unpackbits": "integers",
    "zeta.x": "NaN, as it says",
}


def parameters(name: str) -> set[str]:
    """The parameters of a public function that could hold a floating value, by their types and names."""
    found = inspect.signature(function_of(name)).parameters
    return {p for p, one in found.items() if FLOATING.search(str(one.annotation))} - STATIC


def public() -> list[str]:
    """Every public function that is no row and no reduction."""
    named = [*namespace.__all__, *creation.__all__, *grids.__all__]
    for module in ("linalg", "fft", "nn"):
        named += [f"{module}.{name}" for name in getattr(ck, module).__all__]
    named += [
        f"random.Generator.{n}" for n in dir(ck.random.Generator) if not n.startswith("_") and n != "state"
    ]
    found = {name: function_of(name) for name in named}
    return [n for n, one in found.items() if callable(one) and not isinstance(one, (type, Row, Reduce))]


def test_every_parameter_is_probed() -> None:
    probed: set[str] = set()
    for call in [*(call for call, _ in of_cases()), *CALLS]:
        bound = inspect.signature(function_of(call.name)).bind(*call.args, **call.options)
        probed |= {f"{call.name}.{name}" for name, value in bound.arguments.items() if any(leaves(value))}
    wanted = {
        f"{name}.{parameter}" for name in public() if name not in EXCLUDED for parameter in parameters(name)
    }
    missing = sorted(wanted - probed - EXCLUDED.keys())
    assert not missing, f"add a call with a float or a floating array for {missing}: see the top of this file"
    known = {f"{name}.{parameter}" for name in public() for parameter in parameters(name)}
    assert sorted(EXCLUDED.keys() - known - set(public())) == []
