"""Gradient checks by finite differences, to any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..array import Array
from ..array.creation import asarray
from ..autodiff.tape import Tape
from ..elementwise.complex_rows import from_parts, imag, real
from .shapes import directions, is_floating

Values = npt.NDArray[np.float64]
ATTEMPTS = 5
#: Rounding errors of one call that a finite difference may contain, in units of float64's epsilon.
ROUNDING = 32


class GradcheckError(AssertionError):
    """A gradient disagrees with finite differences, or a function cannot be checked."""


class NondifferentiableError(GradcheckError):
    """A function has a kink or a jump at every point that was tried, so there is no gradient to compare."""


class _Kink(Exception):
    """A function is not smooth at these inputs along a direction in one of them."""

    def __init__(self, position: int) -> None:
        self.position = position


class _Slope(NamedTuple):
    """A finite difference, the change of slope around it, and its rounding error."""

    value: float
    bend: float
    noise: float


class _Map(NamedTuple):
    """A function of float64 arrays to float64 arrays, with a name for each."""

    call: Callable[[list[Array]], list[Array]]
    inputs: list[Array]
    input_names: list[str]
    output_names: list[str]


def gradcheck(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    *,
    eps: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 0.0,
    seed: int = 0,
) -> bool:
    """Compare the tape's gradients of ``f`` at ``args`` with finite differences.

    The comparison is between ``v . J . u`` of the tape and the five-point central difference of ``v . f(x + t u)``, for
    each output of ``f`` and all together, with random cotangents ``v``, and for each array ``x`` of ``args``, with a
    random direction ``u`` without elements near zero. The gradients must also be the same for inputs and cotangents
    that are not contiguous or have strides of 0, and neither inputs nor cotangents may be written to. At a kink of
    ``f``, ``x`` is moved a little. Real and imaginary parts of complex numbers are arguments and results of their own.

    Args:
        f: takes ``args`` and returns an array or a pytree of arrays; integer outputs are ignored.
        args: pytrees. Floating arrays must be float64, complex ones complex128; other leaves are passed on unchanged.
        order: 2 also checks the gradient of the gradient, with respect to inputs and cotangents; and so on.
        eps: the step of the finite differences.
        rtol: relative tolerance.
        atol: absolute tolerance, beside the rounding errors of the differences, which are allowed for.
        seed: the seed of the random numbers.

    Returns:
        True.

    Raises:
        TypeError: a floating argument or result is not float64, or there is none.
        GradcheckError: they disagree; the message names the output, the argument and both values.
        NondifferentiableError: ``f`` has a kink at every point that was tried.

    >>> import cukern as ck
    >>> gradcheck(lambda x: ck.exp(x) * x, [ck.asarray([0.5, -1.0], dtype="float64")], order=2)
    True
    """
    if order < 1:
        raise ValueError(f"order: expected at least 1, got {order}")
    checked = _map_of(f, args)
    for level in range(order):
        _Checker(checked, eps, rtol, atol, seed + level).run()
        if level + 1 < order:
            checked = _gradient_map(checked, seed + level)
    return True


def _map_of(f: Callable[..., Any], args: Sequence[Any]) -> _Map:
    leaves = list(pytree.leaves_with_path(list(args), "args"))
    positions = [i for i, leaf in enumerate(leaves) if is_floating(leaf.value)]
    for i in positions:
        if leaves[i].value.dtype not in (dtypes.float64, dtypes.complex128):
            raise TypeError(
                f"{leaves[i].path}: gradcheck needs float64, got {leaves[i].value.dtype}; "
                "cukern.testing.kernelcheck takes functions of other floats"
            )
    if not positions:
        raise TypeError("args: there is no floating array to check the gradient of")

    def results(arrays: list[Array]) -> Iterator[pytree.Leaf]:
        values = [value for _, value in leaves]
        given = iter(arrays)
        for i in positions:
            whole = leaves[i].value.dtype == dtypes.complex128
            values[i] = from_parts(next(given), next(given)) if whole else next(given)
        for leaf in pytree.leaves_with_path(f(*pytree.replace(list(args), values)), "output"):
            if is_floating(leaf.value):
                yield from _parts(leaf)

    parts = [part for i in positions for part in _parts(leaves[i])]
    inputs = [part.value for part in parts]
    names = []
    for path, value in results([_on(array.numpy(), array) for array in inputs]):
        if value.dtype != dtypes.float64:
            raise TypeError(f"{path}: gradcheck needs float64, f returned {value.dtype}")
        names.append(path)
    if not names:
        raise TypeError("f: expected it to return a floating array, it returned none")
    input_names = [part.path for part in parts]
    return _Map(lambda arrays: [leaf.value for leaf in results(arrays)], inputs, input_names, names)


def _parts(leaf: pytree.Leaf) -> Iterator[pytree.Leaf]:
    """A real array, or the real and the imaginary part of a complex one."""
    if leaf.value.dtype not in dtypes.COMPLEX:
        yield leaf
        return
    yield pytree.Leaf(f"the real part of {leaf.path}", real(leaf.value))
    yield pytree.Leaf(f"the imaginary part of {leaf.path}", imag(leaf.value))


def _gradient_map(of: _Map, seed: int) -> _Map:
    """The gradient of ``of`` as a function of its inputs and of the cotangents of its outputs."""
    count = len(of.inputs)
    rng = np.random.default_rng([seed, 1])
    cotangents = [_on(directions(rng, y.shape), y) for y in of.call(of.inputs)]

    def call(arrays: list[Array]) -> list[Array]:
        inputs = arrays[:count]
        with Tape() as inner:
            inner.watch(inputs)
            outputs = of.call(inputs)
        gradients: list[Array] = inner.gradient(outputs, inputs, arrays[count:], unconnected="zero")
        return gradients

    return _Map(
        call,
        of.inputs + cotangents,
        of.input_names + [f"the cotangent of {name}" for name in of.output_names],
        [f"the gradient by {name}" for name in of.input_names],
    )


def _on(values: Values, like: Array) -> Array:
    return asarray(values, dtype=dtypes.float64, device=like.device)


def _strided(array: Array) -> Array:
    """The same values with NaN between them in memory and, with several axes, in Fortran order."""
    if array.ndim == 0:
        return array
    values = array.numpy().T
    wide = np.full((*values.shape[:-1], 2 * values.shape[-1] + 1), np.nan)
    wide[..., 1::2] = values
    with array.device.activate():
        return Array._wrap(array.device.xp.asarray(wide)[..., 1::2].T, array.device)


def _same(a: Values, b: Values) -> bool:
    """Whether two results agree up to rounding errors from another order of sums."""
    scale = float(np.max(np.abs(b), initial=1e-4))
    return bool(np.all(np.abs(a - b) <= 1e-9 * (np.abs(b) + scale)))


class _Checker:
    """One comparison of a map's gradients, at its inputs or near them."""

    def __init__(self, checked: _Map, eps: float, rtol: float, atol: float, seed: int) -> None:
        self.map = checked
        self.eps = eps
        self.rtol = rtol
        self.atol = atol
        self.rng = np.random.default_rng(seed)

    def run(self) -> None:
        inputs = list(self.map.inputs)
        self.check_layouts(inputs)
        for _ in range(ATTEMPTS):
            try:
                self.check_at(inputs)
            except _Kink as kink:
                moved = inputs[kink.position]
                step = 1000 * self.eps * directions(self.rng, moved.shape)
                inputs[kink.position] = _on(moved.numpy() + step, moved)
                where = self.map.input_names[kink.position]
            else:
                return
        raise NondifferentiableError(
            f"gradcheck: no gradient with respect to {where}: the slopes on both sides differ, there and "
            f"at {ATTEMPTS - 1} points near it"
        )

    def outputs(self, inputs: list[Array]) -> list[Values]:
        return [output.numpy() for output in self.map.call(inputs)]

    def gradients(
        self, inputs: list[Array], cotangents: list[Array] | None, only: int | None = None
    ) -> list[Values | None]:
        """The tape's gradients of all outputs, or of one."""
        with Tape() as inner:
            inner.watch(inputs)
            outputs = self.map.call(inputs)
        chosen = slice(None) if only is None else slice(only, only + 1)
        seeds = None if cotangents is None else cotangents[chosen]
        gradients = inner.gradient(outputs[chosen], inputs, seeds)
        return [None if gradient is None else gradient.numpy() for gradient in gradients]

    def check_layouts(self, inputs: list[Array]) -> None:
        """Check that gradients do not depend on memory layouts, and that nothing is written to."""
        before = [array.numpy() for array in inputs]
        values = self.outputs(inputs)
        for name, value in zip(self.map.output_names, values, strict=True):
            if not np.isfinite(value).all():
                raise GradcheckError(f"gradcheck: {name} is not finite at args")
        cotangents = [_on(directions(self.rng, value.shape), inputs[0]) for value in values]
        before += [array.numpy() for array in cotangents]
        dense = self.gradients(inputs, cotangents)
        names = self.map.input_names + [f"the cotangent of {name}" for name in self.map.output_names]
        for name, array, old in zip(names, inputs + cotangents, before, strict=True):
            if not np.array_equal(array.numpy(), old):
                raise GradcheckError(f"gradcheck: {name} was written to")
        strided = [_strided(array) for array in inputs]
        for name, got, want in zip(self.map.output_names, self.outputs(strided), values, strict=True):
            if not _same(got, want):
                raise GradcheckError(f"gradcheck: {name} is different when args are not contiguous")
        spread = self.gradients(strided, [_strided(array) for array in cotangents])
        self.compare(spread, dense, "arrays are not contiguous")
        ones = [_on(np.ones(value.shape), inputs[0]) for value in values]
        spread = self.gradients(inputs, None)
        self.compare(spread, self.gradients(inputs, ones), "cotangents have strides of 0")

    def compare(self, got: list[Values | None], want: list[Values | None], when: str) -> None:
        for name, a, b in zip(self.map.input_names, got, want, strict=True):
            if (a is None) != (b is None) or (a is not None and b is not None and not _same(a, b)):
                raise GradcheckError(
                    f"gradcheck: the gradient with respect to {name} is different when {when}"
                )

    def check_at(self, inputs: list[Array]) -> None:
        values = self.outputs(inputs)
        cotangents = [directions(self.rng, value.shape) for value in values]
        seeds = [_on(cotangent, inputs[0]) for cotangent in cotangents]
        chosen: list[int | None] = [*range(len(values))]
        if len(values) > 1:
            chosen.append(None)
        analytic = {only: self.gradients(inputs, seeds, only) for only in chosen}
        for position, array in enumerate(inputs):
            if array.size:
                direction = directions(self.rng, array.shape)
                stencil = _Stencil(self, inputs, position, direction, self.eps)
                for only in chosen:
                    stencil.check(analytic[only][position], cotangents, only)


class _Stencil:
    """The outputs at five points along a direction in one input."""

    def __init__(
        self, checker: _Checker, inputs: list[Array], position: int, direction: Values, eps: float
    ) -> None:
        self.checker = checker
        self.inputs = inputs
        self.position = position
        self.eps = eps
        centre = inputs[position].numpy()
        # The actual step, after the rounding of centre + step.
        step = (centre + eps * direction) - centre
        self.direction = step / eps
        self.points = [self.outputs_at(centre + k * step) for k in (-2, -1, 0, 1, 2)]

    def outputs_at(self, values: Values) -> list[Values]:
        moved = list(self.inputs)
        moved[self.position] = _on(values, moved[self.position])
        return self.checker.outputs(moved)

    def measure(self, cotangents: list[Values], outputs: Sequence[int]) -> _Slope:
        value = noise = bend = 0.0
        for i in outputs:
            a, b, c, d, e = (point[i] * cotangents[i] for point in self.points)
            value += float(np.sum(a - e + 8 * (d - b))) / (12 * self.eps)
            # Where f is smooth, the difference of the slopes on both sides doubles with the step.
            near, far = (d - 2 * c + b) / self.eps, (e - 2 * c + a) / (2 * self.eps)
            bend += float(np.linalg.norm(far - 2 * near))
            noise += float(np.linalg.norm(c))
        return _Slope(value, bend, noise * ROUNDING * float(np.finfo(np.float64).eps) / self.eps)

    def check(self, gradient: Values | None, cotangents: list[Values], only: int | None) -> None:
        """Compare the tape's gradient of one output, or of all, with the slope along the direction."""
        outputs = range(len(cotangents)) if only is None else [only]
        numeric = self.measure(cotangents, outputs)
        terms = np.zeros(()) if gradient is None else gradient * self.direction
        analytic = float(np.sum(terms))
        scale = max(abs(numeric.value), float(np.linalg.norm(terms)))
        allowed = self.checker.atol + self.checker.rtol * scale + numeric.noise
        error = abs(numeric.value - analytic)
        if error <= allowed:
            return
        again = _Stencil(self.checker, self.inputs, self.position, self.direction, 0.37 * self.eps)
        second = again.measure(cotangents, outputs)
        if 4 * numeric.bend >= error or abs(second.value - numeric.value) > allowed + second.noise:
            raise _Kink(self.position)
        raise GradcheckError(self.message(gradient, numeric.value, analytic, allowed, only))

    def message(
        self, gradient: Values | None, numeric: float, analytic: float, allowed: float, only: int | None
    ) -> str:
        checked = self.checker.map
        output = "all outputs" if only is None else checked.output_names[only]
        direction = np.array2string(self.direction, precision=3, threshold=8, edgeitems=2).replace("\n", "")
        name = checked.input_names[self.position]
        lines = [
            f"gradcheck: the gradient of {output} with respect to {name} is wrong",
            f"along {direction}: numeric {numeric:.9g}, analytic {analytic:.9g}, relative error "
            f"{abs(numeric - analytic) / max(abs(numeric), abs(analytic)):.3g} "
            f"(difference {abs(numeric - analytic):.3g}, allowed {allowed:.3g})",
        ]
        if gradient is None:
            lines.append("the tape knows of no dependence on it")
        centre = self.points[2]
        if all(np.array_equal(a, b) for point in self.points for a, b in zip(point, centre, strict=True)):
            lines.append("the function does not depend on it")
        return "; ".join(lines)
