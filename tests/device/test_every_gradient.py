"""Every floating argument of every public function: its gradient is right, or asking for it is an error.

A call is probed by each of its arguments in turn, a Python float as a 0-d array. The gradient of a random combination
of the floating results is compared with a central difference along a random direction, and so is that of the results'
tangents; a refusal is a TypeError, a
ValueError or a GradientError. So a gradient that is zero or None where the value depends on the argument fails here.

The calls are the cases of ``cases_*.py``, the rows, the reductions, and ``CALLS`` of ``gradient_calls.py``. A new
function is found by ``test_every_parameter_is_probed``: give it a case, or a call there for arguments that the case
leaves out, or name the parameter in ``EXCLUDED`` with the reason.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gradient_calls import CALLS, Call
from test_namespace import CASES, drawn, results

import cukern as ck
from cukern import namespace
from cukern.array import creation
from cukern.elementwise.row import Row
from cukern.ops import grids
from cukern.reduction.rows import Reduce

STEP = 1e-6


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
    _, tangents = ck.jvp(lambda x: run(call, where, x), [ck.asarray(value)], [ck.asarray(direction)])
    ahead = sum(float((one.numpy() * w).sum()) for one, w in zip(tangents, weights, strict=True))
    np.testing.assert_allclose(ahead, got, rtol=1e-6, atol=1e-7, err_msg=f"{call.id}: tangents of {where}")
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
    "quantile-several": "at both ends of what q may be: quantile of gradient_calls",
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
    "einsum_path.operands": "their shapes alone",
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
    "linalg.cg.M": "the solution depends on it by rounding alone",
    "linalg.cg.atol": "the solution depends on it by rounding alone",
    "linalg.cg.tol": "the solution depends on it by rounding alone",
    "linalg.cg.x0": "the solution depends on it by rounding alone",
    "linalg.gmres.M": "the solution depends on it by rounding alone",
    "linalg.gmres.atol": "the solution depends on it by rounding alone",
    "linalg.gmres.tol": "the solution depends on it by rounding alone",
    "linalg.gmres.x0": "the solution depends on it by rounding alone",
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
