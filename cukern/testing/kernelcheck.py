"""One check of a function with kernels of its own: derivatives, types, sizes, layouts and special values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..autodiff.cotangents import is_array
from ..device import Device
from ..device import devices as all_devices
from ..dtypes import DType, as_dtype
from ..errors import GradientError, KernelFault, require_int
from ..jit import Jitted
from .checked import checked
from .gradcheck import GradcheckError, NondifferentiableError, gradcheck
from .locate import Launches, Pulled, cotangents, floats, paths, pull, wrong_elements
from .shapes import (
    Sized,
    cast,
    directions,
    index_of,
    is_real,
    layouts,
    near,
    on,
    resized,
    short,
    sizes_around,
)
from .slopes import UNSEEN, NoDuals, coarse, derivative
from .stand_ins import in_float64

Values = npt.NDArray[np.float64]
#: Relative tolerances of results and gradients of a type beside float64, relative to the largest of an array.
RTOL: dict[DType, float] = {
    dtypes.float64: 1e-9,
    dtypes.float32: 1e-4,
    dtypes.float16: 2e-2,
    dtypes.bfloat16: 1e-1,
}
#: The block sizes around which sizes are tried if no launch is seen, as with functions of the library.
USUAL = (32,)
#: The most findings of a kind.
MOST = 4
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Attributes:
        kind: ``"gradient"``, ``"second order"``, ``"precision"``, ``"transpose"``, ``"layout"``, ``"special value"``,
            ``"device"``, ``"jit"``, ``"fault"`` for what a checked launch reports, or ``"unchecked"`` if no value of a
            derivative could be compared with another.
        case: the arguments with which it was found.
        message: what is wrong.
        place: the line of the kernel, as ``file:line``; empty if that is not known.
    """

    kind: str
    case: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.case}): {self.message}"


class KernelcheckError(GradcheckError):
    """Something is wrong with a function; ``findings`` are all that was found, ``result`` is what is right."""

    def __init__(self, findings: Sequence[Finding], result: KernelcheckResult | None = None) -> None:
        self.findings, self.result = tuple(findings), result or KernelcheckResult()
        super().__init__("kernelcheck:\n" + "\n".join(str(one) for one in findings))


@dataclass
class KernelcheckResult:
    """The cases that were checked and are right.

    Attributes:
        cases: the arguments and types that were tried.
        skipped: those that the function refused, each with its error.
        notes: checks that were not possible, each with the reason.
    """

    cases: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{len(self.cases)} cases are right", *(f"skipped: {one}" for one in self.skipped)]
        return "\n".join([*parts, *(f"note: {one}" for one in self.notes)])


def kernelcheck(
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    order: int = 2,
    dtypes: Sequence[Any] = ("float32", "float16", "bfloat16"),
    sizes: Sequence[int] | None = None,
    largest: int = 1 << 14,
    seed: int = 0,
    fixed: Sequence[int] = (),
    prepare: Callable[..., Sequence[Any]] | None = None,
) -> KernelcheckResult:
    """Check a function that calls kernels, and its derivatives, in all ways that usually go wrong.

    On the host every launch is a checked one. Checked are:

    - gradients beside finite differences in float64 (:func:`gradcheck`), for the arguments to ``order``, and to the
      first order with each size of an axis replaced by 0, 1, and sizes around the blocks and tiles of the launches; if
      the function refuses float64, as with kernels of ``const float*``, these run with ``double`` in place of floats;
    - results and gradients of each type of ``dtypes`` beside those in float64, element by element;
    - ``<v, J u> = <J^T v, u>`` in each type, where ``J u`` comes from the forward kernels themselves, rendered with
      dual numbers, and ``J^T v`` from the backward;
    - arguments with strides, transposed, broadcast and misaligned; NaN, infinities and zeros in each argument, which
      must reach the same results in each type; the GPU beside the host, where there is one;
    - of a function of :func:`cukern.jit` the results beside those of its operations one by one, in each type; findings
      name the kernel, one that replaces another too, and the line of the function.

    Args:
        function: takes ``args`` and returns an array or a pytree of arrays.
        args: pytrees. Floats are the values near which it is checked; integers are passed on, and their arrays drawn
            anew for other sizes.
        order: the highest order of derivatives; 1 for a backward that is not differentiable, 0 for a function without
            one, of which all else is checked.
        dtypes: the floating types besides float64.
        sizes: the sizes of axes to try instead.
        largest: the most elements of an array to try.
        seed: the seed of the random numbers.
        fixed: sizes of axes in ``args`` that stay as they are, such as the length of a list that the function knows.
        prepare: takes arguments as they were drawn for other sizes, one by one as ``function`` does, and returns those
            to try: valid indices, matrices that have an inverse.

    Returns:
        What was tried, and what the function refused. Sizes and types that it refuses by an error are skipped.

    Raises:
        KernelcheckError: something is wrong, or no derivative could be compared. Findings name the argument, the
            element, and the line that writes it.
        TypeError: ``args`` has no floating array.
        ValueError: ``order`` is negative, or no array has an axis of a size in ``fixed``.

    >>> import cukern as ck
    >>> result = kernelcheck(ck.tanh, [ck.asarray([0.5, -1.0])], dtypes=["float32"], sizes=[0, 3])
    >>> result.cases[:4]
    ['as given, float64', 'size 2 is 0, float64', 'size 2 is 3, float64', 'as given, float32']
    """
    require_int("order", order, 0)
    if not floats(list(args)):
        raise TypeError("args: there is no floating array to check the gradient of")
    types = [_dtype(one) for one in dtypes]
    have = {size for leaf in pytree.leaves(list(args)) if is_array(leaf) for size in leaf.shape}
    for size in fixed:
        if size not in have:
            raise ValueError(f"fixed: expected sizes of axes, which are {sorted(have)}, got {size!r}")
    run = _Check(function, list(args), order, seed, frozenset(fixed), prepare)
    run.gradients(sizes, largest)
    for dtype in types:
        run.precision(dtype)
    run.jitted([None, *types])
    run.layouts()
    run.special_values(types[0] if types else None)
    run.devices()
    run.coverage()
    if run.findings:
        raise KernelcheckError(run.findings, run.result)
    return run.result


def _dtype(given: Any) -> DType:
    dtype = as_dtype(given, "dtypes")
    if dtype not in RTOL:
        raise TypeError(f"dtypes: expected floating types, got {dtype}")
    return dtype


@dataclass
class _Check:
    """One run of :func:`kernelcheck`.

    Attributes:
        widest: the reference type; ``refused`` says why the function cannot be computed in it.
        exactly: the context in which it can.
        compared: the number of elements of derivatives that were compared with an oracle.
    """

    function: Callable[..., Any]
    given: list[Any]
    order: int
    seed: int
    fixed: frozenset[int]
    prepare: Callable[..., Sequence[Any]] | None
    findings: list[Finding] = field(default_factory=list)
    result: KernelcheckResult = field(default_factory=KernelcheckResult)
    launches: Launches = field(default_factory=Launches)
    widest: DType = dtypes.float64
    refused: str = ""
    exactly: Callable[[], AbstractContextManager[None]] = nullcontext
    duals: bool = True
    compared: int = 0
    cases: list[Sized] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pull = partial(pull, self.function, seed=self.seed, differentiable=self.order > 0)

    @contextmanager
    def trying(self, case: str, kind: str) -> Iterator[None]:
        """Note the findings of a case; skip what the function refuses."""
        count = len(self.findings)
        label = f"{case}: {kind}"
        try:
            with checked():
                yield
        except KernelFault as fault:
            for report in fault.reports or (fault,):
                if getattr(report, "kind", "") == "misaligned" and case.endswith("is misaligned"):
                    self.result.notes.append(f"arrays have to be aligned: {str(report).splitlines()[0]}")
                else:
                    self.note("fault", case, f"{report}{_hint(case)}", getattr(report, "place", ""))
        except NondifferentiableError as error:
            self.result.notes.append(f"{label}: {error}")
        except GradcheckError as error:
            self.note(kind, case, str(error))
        except Exception as error:
            self.result.skipped.append(f"{label}: {short(error)}")
        else:
            if case not in self.result.cases and len(self.findings) == count:
                self.result.cases.append(case)

    def note(self, kind: str, case: str, message: str, place: str = "") -> None:
        """Note a finding, some of each kind: one mistake is found in most cases."""
        same = [one for one in self.findings if one.kind == kind]
        if len(same) < MOST and not any(one.message == message for one in same):
            written = re.search(r"written by \S+ of (\S+:\d+)", message)
            self.findings.append(Finding(kind, case, message, written[1] if written else place))

    # ---- gradients

    def gradients(self, sizes: Sequence[int] | None, largest: int) -> None:
        """Finite differences, at the arguments and with other sizes."""
        args = self.find_exact()
        around = sizes_around(self.launches.blocks or USUAL) if sizes is None else sorted(sizes)
        others = resized(args, around, largest, self.seed, self.fixed)
        self.cases = [Sized("as given", args), *(self.prepared(case) for case in others)]
        for case in self.cases:
            if self.order == 0:
                label = f"{case.what}, {dtypes.info(floats(case.args)[0].dtype).name}"
                with self.trying(label, "fault"), self.exactly():
                    self.pull(case.args)
            elif self.refused:
                dtype = floats(case.args)[0].dtype
                label = f"{case.what}, {dtypes.info(dtype).name}"
                with self.trying(label, "transpose"):
                    self.transpose(case, dtype)
                if not self.duals and dtype == dtypes.float32:
                    self.coarse(case, label)
            else:
                self.gradient(case)

    def prepared(self, case: Sized) -> Sized:
        """A case with the arguments that the caller's ``prepare`` returns for those that were drawn."""
        return case if self.prepare is None else Sized(case.what, list(self.prepare(*case.args)))

    def find_exact(self) -> list[Any]:
        """The arguments in float64 if the function can be computed in it, directly or by stand-ins; else as given."""
        args = cast(self.given, self.widest)
        reasons = []
        for way in (nullcontext, in_float64):
            self.exactly = way
            try:
                with checked(), way():
                    outputs = floats(self.function(*args))
                    if any(y.dtype != self.widest for y in outputs):
                        raise TypeError(f"the result is of {outputs[0].dtype}")
                    exact = self.pull(args, launches=self.launches).outputs
                if way is in_float64:
                    self.same_as_given(exact)
                return args
            except KernelFault:
                return args  # found again in its case
            except Exception as error:
                reasons.append(short(error))
        self.exactly, self.refused = nullcontext, reasons[0]
        with checked():
            self.pull(self.given, launches=self.launches)  # its own error is the caller's to see
        why = reasons[0] if reasons[0] == reasons[1] else f"{reasons[0]}; with double for float, {reasons[1]}"
        self.result.notes.append(f"no finite differences, as float64 is refused: {why}")
        return self.given

    def same_as_given(self, exact: list[Values]) -> None:
        """Raise if the results in float64 are others than those of the types given: kernels may depend on a size."""
        dtype = floats(self.given)[0].dtype
        with checked():
            narrow = self.pull(self.given).outputs
        for a, b in zip(narrow, exact, strict=True):
            if not near(a, b, max(1e-2, RTOL.get(dtype, 0)) * _scale(b)).all():
                raise ArithmeticError("the results are others than those of float")

    def coverage(self) -> None:
        """Note a finding if nothing was compared."""
        if self.findings or self.compared or self.order == 0:
            return
        missing = [*self.result.notes, *self.result.skipped] or ["no argument has an element"]
        self.note(
            "unchecked",
            "all",
            "no value of a derivative was compared with another: " + "; ".join(missing[:MOST]),
        )

    def gradient(self, case: Sized) -> None:
        """Finite differences in float64, and the transposed identity."""
        label = f"{case.what}, float64"
        before = len(self.findings)
        with self.trying(label, "gradient"), self.exactly():
            try:
                gradcheck(self.function, case.args, seed=self.seed)
            except NondifferentiableError:
                raise
            except GradcheckError as error:
                if "is not finite" in str(error) and case.what != "as given":
                    raise ArithmeticError(str(error)) from error
                raise GradcheckError("; ".join(self.sentences(case) or [str(error)])) from error
            self.compared += sum(x.size for x in floats(case.args))
        if case.what == "as given":
            if len(self.findings) == before and self.order > 1:
                self.higher(case)
            with self.trying(label, "transpose"):
                self.transpose(case, dtypes.float64, judges=len(self.findings) > before)

    def coarse(self, case: Sized, label: str) -> None:
        """Finite differences in float32, where there is nothing better."""
        note = f"differences in float32 alone, which show no gradient that is off by less than {UNSEEN:.0%}"
        if note not in self.result.notes:
            self.result.notes.append(note)
        with self.trying(label, "gradient"):
            for one in coarse(self.function, case.args, self.seed):
                if one.decides:
                    self.compared += 1
                    if not one.agrees:
                        slopes = (
                            f"{one.numeric:.3g} by differences in float32, {one.analytic:.6g} by the backward"
                        )
                        self.note("gradient", label, f"{one.path}: the slope along a direction is {slopes}")

    def sentences(self, case: Sized) -> list[str]:
        """A sentence on each wrong gradient."""
        return wrong_elements(self.function, case.args, self.launches.blocks, self.seed)

    def higher(self, case: Sized) -> None:
        with self.trying(f"{case.what}, float64", "second order"), self.exactly():
            try:
                gradcheck(self.function, case.args, self.order, seed=self.seed)
            except GradientError as error:
                self.result.notes.append(f"first order only: {str(error).splitlines()[0]}")

    # ---- types

    def precision(self, dtype: DType) -> None:
        """Results and gradients of a type, as given and for the two largest sizes."""
        chosen = self.cases[:1] + sorted(self.cases[1:], key=lambda case: _elements(case.args))[-2:]
        for case in chosen:
            label = f"{case.what}, {dtypes.info(dtype).name}"
            skipped = len(self.result.skipped)
            with self.trying(label, "precision"):
                args = cast(case.args, dtype)
                got = self.pull(args)
                if not self.refused:
                    with self.exactly():
                        want = self.pull(cast(args, self.widest))
                    self.compare("precision", label, got, want, dtype, "in float64")
            if case is self.cases[0] and len(self.result.skipped) > skipped:
                return  # it does not take this type
            with self.trying(label, "transpose"):
                self.transpose(case, dtype)

    def transpose(self, case: Sized, dtype: DType, judges: bool = True) -> None:
        """Compare <v, J u> with <J^T v, u>.

        Args:
            judges: whether a difference is a finding; otherwise it shows that there is no oracle.
        """
        if not self.duals or self.order == 0:
            return
        args = cast(case.args, dtype)
        rng = np.random.default_rng([self.seed, 3])
        moves = [directions(rng, x.shape) for x in floats(args)]
        try:
            values, slopes = derivative(self.function, args, moves)
        except NoDuals as reason:
            self.duals = False
            self.result.notes.append(f"no dual numbers: {reason}")
            return
        with self.exactly() if dtype == self.widest else nullcontext():
            pulled = self.pull(args)
        weights = cotangents(values, self.seed)
        left = [w * s for w, s in zip(weights, slopes, strict=True)]
        right = [g * u for g, u in zip(pulled.gradients, moves, strict=True)]
        a, b = (float(sum(np.sum(term) for term in terms)) for terms in (left, right))
        scale = float(sum(np.linalg.norm(term) for term in (*left, *right))) + 1e-3
        if np.isfinite(a):
            self.compared += sum(move.size for move in moves)
        if np.isfinite(a) and not abs(a - b) <= RTOL[dtype] * scale:
            message = f"<v, J u> is {a:.6g} by dual numbers, <J^T v, u> is {b:.6g} by the backward"
            if not judges:
                self.duals = False
                self.result.notes.append(
                    f"no dual numbers: {message}, and finite differences agree with the backward"
                )
                return
            wrong = self.wrong_parts(args, moves, weights, right, dtype)
            writers = [f"written by {place}" for place in pulled.writers if place]
            self.note(
                "transpose", f"{case.what}, {dtypes.info(dtype).name}", "; ".join([message, *wrong, *writers])
            )

    def wrong_parts(
        self,
        args: list[Any],
        moves: list[Values],
        weights: list[Values],
        right: list[Values],
        dtype: DType,
    ) -> list[str]:
        """The arguments whose part of the identity does not hold."""
        said = []
        for i, name in enumerate(paths(args)):
            alone = [move if i == k else None for k, move in enumerate(moves)]
            slopes = derivative(self.function, args, alone)[1]
            left = [w * s for w, s in zip(weights, slopes, strict=True)]
            a, b = float(sum(np.sum(term) for term in left)), float(np.sum(right[i]))
            scale = float(sum(np.linalg.norm(term) for term in (*left, right[i]))) + 1e-3
            if not abs(a - b) <= RTOL[dtype] * scale:
                said.append(f"with respect to {name}: {a:.6g} and {b:.6g}")
        return said

    def compare(
        self,
        kind: str,
        case: str,
        got: Pulled,
        want: Pulled,
        dtype: DType,
        beside: str,
        writers: Sequence[str] = (),
    ) -> None:
        """Compare results, which ``writers`` wrote, and gradients, element by element."""
        places = writers or [""] * len(got.outputs)
        outputs = zip(got.outputs, want.outputs, places, strict=True)
        gradients = zip(got.gradients, want.gradients, got.writers, strict=True)
        pairs = [(f"output {i}", *one) for i, one in enumerate(outputs)]
        pairs += [(f"the gradient by floating argument {i}", *one) for i, one in enumerate(gradients)]
        largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        for name, a, b, place in pairs:
            with np.errstate(all="ignore"):
                good = near(a, b, RTOL[dtype] * (np.abs(b) + _scale(b))) | (np.abs(b) > largest / 2)
                errors = np.nan_to_num(np.abs(a - b), nan=np.inf) + 1e-300
            if not good.all():
                index = index_of(int(np.argmax(np.where(good, 0, errors))), a.shape)
                end = f"; written by {place}" if place else ""
                self.note(
                    kind,
                    case,
                    f"{name}, element {index}: {a[index]:.6g}, {beside} {b[index]:.6g}; {int((~good).sum())} of "
                    f"{a.size} elements differ{end}",
                )

    # ---- functions of jit

    def jitted(self, types: Sequence[DType | None]) -> None:
        """The launches of a jitted function, and its results beside those of its operations.

        Args:
            types: the floating types, None for those of the cases.
        """
        if not isinstance(self.function, Jitted):
            return
        for case in self.cases:
            for dtype in types:
                args = case.args if dtype is None else cast(case.args, dtype)
                kind = floats(args)[0].dtype
                label = f"{case.what}, {dtypes.info(kind).name}"
                with self.trying(label, "jit"):
                    with checked(collect=True) as reports:
                        made, launches, writers = self.function.run(*args)
                    for report in reports:
                        lines = [one.places for one in launches if one.symbol == report.kernel]
                        self.note("fault", label, f"{' '.join(lines[:1])}: {report}", report.place)
                    want = self.function.__wrapped__(*args)
                    got, wanted = (
                        Pulled([y.numpy().astype(np.float64) for y in floats(one)], [], [])
                        for one in (made, want)
                    )
                    places = [
                        f"{one.symbol} of {one.lines[-1]}" if one is not None and one.lines else ""
                        for one, y in zip(writers, filter(is_array, pytree.leaves(made)), strict=True)
                        if floats(y)
                    ]
                    self.compare("jit", label, got, wanted, kind, "by its operations", places)

    # ---- layouts, values, devices

    def layouts(self) -> None:
        """Each floating argument in other layouts."""
        args = self.cases[0].args
        dtype = floats(args)[0].dtype
        leaves = list(pytree.leaves(args))
        for position, leaf in enumerate(leaves):
            if not is_real(leaf):
                continue
            for what, view, dense in layouts(leaf):
                case = f"floating argument {position} {what}"
                if what == "is broadcast" and self.prepare is not None:
                    continue  # what is broadcast need not be what the caller would prepare
                with self.trying(case, "layout"), self.exactly():
                    got, want = (
                        self.pull(pytree.replace(args, [*leaves[:position], one, *leaves[position + 1 :]]))
                        for one in (view, dense)
                    )
                    self.compare("layout", case, got, want, dtype, "with a contiguous copy")

        if self.order == 0:
            return
        with self.trying("cotangents have strides", "layout"), self.exactly():
            got = self.pull(args, spread=lambda g: next(iter(layouts(g)))[1])
            want = self.pull(args)
            self.compare("layout", "cotangents have strides", got, want, dtype, "with contiguous ones")

    def special_values(self, dtype: DType | None) -> None:
        """NaN, infinities and zeros in one element of each argument reach the same results in both types."""
        if dtype is None or self.refused:
            return
        for position, array in enumerate(floats(self.given)):
            for value in SPECIAL if array.size else ():
                case = f"{value} in floating argument {position}"
                with self.trying(case, "special value"), np.errstate(all="ignore"):
                    kinds = [self.kinds(position, value, dtype, one) for one in (dtype, self.widest)]
                    for i, (a, b) in enumerate(zip(*kinds, strict=True)):
                        if not np.array_equal(a, b):
                            index = tuple(int(k) for k in np.argwhere(a != b)[0])
                            names = ["finite", "infinite", "-infinite", "NaN"]
                            self.note(
                                "special value",
                                case,
                                f"output {i}, element {index}: {names[a[index]]} in {dtypes.info(dtype).name}, "
                                f"{names[b[index]]} in float64",
                            )

    def kinds(self, position: int, value: float, narrow: DType, dtype: DType) -> list[npt.NDArray[np.int64]]:
        """For each element of the outputs: 0 if finite, 1 and 2 for infinities in ``narrow``, 3 for NaN."""
        args = cast(cast(self.given, narrow), dtype)
        array = floats(args)[position]
        values = array.numpy().copy()
        values.flat[array.size // 2] = value
        changed = on(values, dtype, array.device)
        with self.exactly() if dtype == self.widest else nullcontext():
            given = pytree.map(lambda leaf: changed if leaf is array else leaf, args)
            outputs = floats(self.function(*given))
        largest = float(ml_dtypes.finfo(narrow).max)  # type: ignore[no-untyped-call]
        results = [np.asarray(y.numpy()).astype(np.float64) for y in outputs]
        return [
            np.where(np.isnan(y), 3, np.where(y > largest, 1, np.where(y < -largest, 2, 0))) for y in results
        ]

    def devices(self) -> None:
        """The GPU beside the host."""
        here = floats(self.given)[0].device
        others = [device for device in all_devices() if device.kind != here.kind][:1]
        for device in others:
            for case in self.cases:
                label = f"{case.what}, on {device}"
                with self.trying(label, "device"), self.exactly():
                    want = self.pull(case.args)
                    dtype = floats(case.args)[0].dtype
                    with Device(device).activate():
                        got = self.pull(cast(case.args, dtype, device))
                    self.compare("device", label, got, want, dtype, f"on {here}")


def _scale(values: Values) -> float:
    """The largest of an array's finite elements, and a little more."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=0)) + 1e-2


def _elements(args: Sequence[Any]) -> int:
    return sum(leaf.size for leaf in pytree.leaves(list(args)) if is_array(leaf))


def _hint(case: str) -> str:
    """What to do about a fault at a size that the function need not take."""
    size = re.match(r"size (\d+) is \d+,", case)
    return f"; if that size cannot change, say fixed=[{size[1]}]" if size else ""
