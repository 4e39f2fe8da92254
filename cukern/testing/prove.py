"""All checks of one function with kernels of its own, as a report: what was checked, how, and what was not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import pytree
from ..array import Array
from ..autodiff.cotangents import is_array
from ..autodiff.tape import Tape
from ..device import Device, devices
from ..device.host.checked import mode
from ..dtypes import info
from ..errors import CukernError, KernelReport
from ..function import Function
from ..kernel import Kernel
from ..kernel.kernel import Call
from .kernelcheck import Finding, KernelcheckError, KernelcheckResult, kernelcheck
from .large import sampled, sparse
from .locate import floats
from .mutants import mutants
from .report import Line, Report
from .shapes import on, short
from .stand_ins import launching
from .ulps import WIDER, ulps

#: As many elements as an ``int`` counts, and more.
_MOST, _MANY = 2**31 - 1, 2**31 + 2**24
#: By line of the report: the kinds of kernelcheck's findings, how it is checked, and what that does not show.
_KINDS = {
    "accesses": (
        ("fault",),
        "every access of checked launches: bounds, races, unset memory, barriers; three orders where these matter",
        "blocks that run at once; reads of textures",
    ),
    "first derivative": (
        ("gradient", "transpose", "unchecked"),
        "finite differences in float64 along random directions; <v, J u> = <J^T v, u> by dual numbers in each type",
        "points far from the arguments given",
    ),
    "second derivative": (("second order",), "finite differences of the first derivative, in float64", ""),
    "dtypes": (
        ("precision",),
        "results and gradients of each type beside those in float64, element by element",
        "errors below 1e-4 (float32), 2e-2 (float16), 1e-1 (bfloat16) of the largest element",
    ),
    "layouts": (
        ("layout",),
        "arguments that are strided, transposed, broadcast or misaligned, strided cotangents, beside contiguous ones",
        "",
    ),
    "special values": (
        ("special value",),
        "NaN, infinities and zeros in one element of each argument, in each type beside float64",
        "several of them at once",
    ),
    "GPU": (("device",), "results and gradients on the GPU beside the host's", "other models of GPUs"),
}


def prove(
    function: Any,
    args: Sequence[Any],
    *,
    tests: Callable[[], object] | None = None,
    name: str = "",
    order: int = 2,
    dtypes: Sequence[Any] = ("float32", "float16", "bfloat16"),
    sizes: Sequence[int] | None = None,
    fixed: Sequence[int] = (),
    prepare: Callable[..., Sequence[Any]] | None = None,
    seed: int = 0,
    versions: int = 40,
    score: float = 0.8,
) -> Report:
    """Check a function that launches kernels in all ways that there are, and report each on a line.

    Checked are accesses, derivatives, types, layouts, sizes and special values (:func:`kernelcheck`), errors in units
    in the last place (:func:`ulps`), arrays of about 2^31 elements, of which some blocks run, and how many wrong
    versions of each kernel the function's own tests notice (:func:`mutants`). All of it runs on the host, and what
    :func:`kernelcheck` does once more on a GPU, if there is one.

    Args:
        function: a :class:`Function`, or what takes ``args`` and returns an array or a pytree of arrays.
        args: pytrees, with floats near which the function is smooth.
        tests: calls what tests the function; raises an error or returns False if it notices a mistake.
        name: what the report calls it.
        order: the highest order of derivatives; 0 for a function without one.
        dtypes, sizes, fixed, prepare, seed: as :func:`kernelcheck` takes them.
        versions: the most wrong versions of each kernel that the tests run with.
        score: the least part of them that the tests have to notice.

    Returns:
        The report; ``report.ok`` says whether all of it passed.

    Raises:
        TypeError: ``function`` cannot be called, or ``args`` has no floating array.

    >>> import cukern as ck
    >>> report = prove(ck.tanh, [ck.asarray([0.5, -1.0])], dtypes=["float32"], sizes=[0, 3])
    >>> report.ok, [line.what for line in report.lines if line.result == "passed"][:3]
    (True, ['accesses', 'first derivative', 'second derivative'])
    """
    called = function.apply if isinstance(function, type) and issubclass(function, Function) else function
    if not callable(called):
        raise TypeError(f"function: expected a function or a ck.Function, got {type(function).__name__}")
    if not floats(list(args)):
        raise TypeError("args: there is no floating array")
    begin = time.monotonic()
    report = Report(f"{name or getattr(function, '__name__', 'function')}, proved")
    kernels: dict[int, Kernel] = {}
    host = Device("host")
    # Where launches are checked; kernelcheck takes copies to a GPU.
    args = pytree.map(lambda one: on(one.numpy(), one.dtype, host) if is_array(one) else one, list(args))
    options = {"order": order, "dtypes": dtypes, "sizes": sizes, "fixed": fixed, "prepare": prepare}
    with host.activate(), _collected(kernels):
        report.lines += _kernelchecked(called, args, {**options, "seed": seed})
        report.lines.append(_precision(called, args))
    report.lines.append(_large(called, args, order, fixed))
    report.lines += _tested(kernels.values(), tests, versions, seed, score)
    shapes = ", ".join(
        f"{info(one.dtype).name}{list(one.shape)}" for one in pytree.leaves(list(args)) if is_array(one)
    )
    where = ", ".join(str(one) for one in devices())
    report.facts = {
        "arguments": shapes,
        "seed": seed,
        "devices": where,
        "seconds": round(time.monotonic() - begin, 1),
    }
    return report


@contextmanager
def _collected(kernels: dict[int, Kernel]) -> Iterator[None]:
    """Note the users' kernels that are launched while the with-block runs."""

    def launch(call: Call) -> None:
        kernels[id(call.kernel)] = call.kernel
        through(call)

    with launching(launch) as through:
        yield


def _kernelchecked(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> Iterator[Line]:
    """A line for each kind of kernelcheck's findings, and one for the sizes."""
    findings: Sequence[Finding] = ()
    try:
        result = kernelcheck(function, args, **options)
    except KernelcheckError as error:
        findings, result = error.findings, error.result
    except (CukernError, TypeError, ValueError) as error:
        yield Line("accesses", _KINDS["accesses"][1], "failed", short(error), "", "error")
        return
    for what in _KINDS:
        yield _line(what, findings, result, options["order"])
    tried = list(dict.fromkeys(one.partition(",")[0] for one in result.cases if one.startswith("size ")))
    how = "each size of an axis replaced by 0, 1 and sizes around the blocks and tiles of the launches"
    bad = [one for one in findings if one.case.startswith("size ")]
    if not tried:
        yield Line("sizes", how, "not checked", "", "no other size was right, or could be tried")
    elif bad:
        yield Line("sizes", how, "failed", _said(bad), "", "sizes")
    else:
        yield Line("sizes", how, "passed", f"{len(tried)} right: {', '.join(tried)}")


def _line(what: str, findings: Sequence[Finding], result: KernelcheckResult, order: int) -> Line:
    kinds, how, left_out = _KINDS[what]
    bad = [one for one in findings if one.kind in kinds]
    if bad:
        place = next((one.place for one in bad if one.place), "")
        return Line(what, how, "failed", _said(bad), left_out, bad[0].kind, place)
    refused = [f"refused: {one}" for one in result.skipped if any(f": {kind}:" in one for kind in kinds)]
    notes = [one for one in result.notes if _belongs(one, what)]
    count, why = _count(what, result), ""
    if what == "first derivative" and order < 1:
        why = "the function has none"
    elif what == "second derivative" and (
        order < 2 or any(one.startswith("first order only") for one in notes)
    ):
        why = next(iter(notes), "it was not asked for")
    elif what == "GPU" and not any(not one.addressable for one in devices()):
        why = "there is no GPU"
    elif count == 0:
        why = "; ".join([*refused, *notes]) or "nothing of it could be tried"
    if why:
        return Line(what, how, "not checked", "", why)
    more = "\n".join(one for one in (left_out, *refused, *notes) if one)
    return Line(what, how, "passed", f"{count} case{'s' * (count != 1)}", more)


def _count(what: str, result: KernelcheckResult) -> int:
    """The right cases of a line."""
    marks: dict[str, Callable[[str], bool]] = {
        "layouts": lambda one: one.startswith(("floating argument", "cotangents")),
        "special values": lambda one: " in floating argument" in one,
        "GPU": lambda one: ", on " in one,
        "dtypes": lambda one: one.startswith("as given,") and not one.endswith("float64"),
        "second derivative": lambda one: one == "as given, float64",
    }
    if what in marks:
        return sum(map(marks[what], result.cases))
    apart = [marks[key] for key in ("layouts", "special values", "GPU")]
    return sum(not any(mark(one) for mark in apart) for one in result.cases)


def _belongs(note: str, what: str) -> bool:
    """Whether a note of kernelcheck is on a line's subject."""
    words = {
        "first derivative": ("no finite differences", "no dual numbers", "differences in float32"),
        "second derivative": ("first order only",),
        "layouts": ("arrays have to be aligned",),
    }
    return note.startswith(words.get(what, ()))


def _said(findings: Sequence[Finding]) -> str:
    return "\n".join(str(one) for one in findings)


def _precision(function: Callable[..., Any], args: Sequence[Any]) -> Line:
    """The errors in units in the last place."""
    how = "each output beside the same kernels in a wider type, in units in the last place"
    left_out = "the derivatives; other values than those given"
    if not any(one.dtype in WIDER for one in floats(list(args))):
        return Line("ulps", how, "not checked", "", "the arguments are float64, than which no type is wider")
    try:
        table = ulps(function, args)
    except Exception as error:
        return Line("ulps", how, "not checked", "", short(error))
    found = f"at most {table.worst:.3g}\n{table}"
    bad = math.isinf(table.worst)
    return Line("ulps", how, "failed" if bad else "passed", found, left_out, "ulps" if bad else "")


def _large(function: Callable[..., Any], args: Sequence[Any], order: int, fixed: Sequence[int]) -> Line:
    """The function on arrays of about as many elements as an ``int`` counts, and of more; some blocks run."""
    how = "arrays of 2^31 - 1 elements and of more, without the memory for them; 64 blocks of each launch run"
    arrays = [one for one in pytree.leaves(list(args)) if is_array(one)]
    tried, wrong, refused = [], [], []
    for size in dict.fromkeys(size for one in arrays for size in one.shape if size > 1 and size not in fixed):
        for many in (_MOST, _MANY):
            grown = _grown(arrays, size, many)
            case = f"size {size} is {grown}"
            try:
                reports = _on_many(function, args, order, size, grown)
            except Exception as error:
                refused.append(f"{case}: {short(error)}")
                continue
            tried.append(case)
            wrong += [(one.place, f"{case}: {one.message}") for one in reports]
    if wrong:
        said = "\n".join(message for _, message in wrong[:4])
        return Line("large arrays", how, "failed", said, "; ".join(refused), "large", wrong[0][0])
    if not tried:
        return Line("large arrays", how, "not checked", "", "; ".join(refused) or "no axis can be larger")
    left_out = "; ".join(["unsigned integers, which may overflow", *(f"refused: {one}" for one in refused)])
    return Line("large arrays", how, "passed", "; ".join(tried), left_out)


def _grown(arrays: Sequence[Array], size: int, many: int) -> int:
    """What to make of a size, so that the largest array has about ``many`` elements, less rather than more."""
    sizes = []
    for one in arrays:
        times = sum(axis == size for axis in one.shape)
        if times:
            rest = math.prod(axis for axis in one.shape if axis != size)
            sizes.append(int((many / max(1, rest)) ** (1 / times)))
    return min(sizes)


def _on_many(
    function: Callable[..., Any], args: Sequence[Any], order: int, size: int, grown: int
) -> list[KernelReport]:
    """What sampled blocks of a call and its derivative report if an axis is that long."""
    host = Device("host")

    def large(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        shape = tuple(grown if axis == size else axis for axis in leaf.shape)
        return Array._wrap(sparse(shape, leaf.dtype), host)

    given = pytree.map(large, list(args))
    with sampled() as reports:
        if not mode.active():
            raise RuntimeError("launches are not checked in this process")
        with Tape() as tape:
            inputs = floats(given) if order else []
            tape.watch(inputs)
            outputs = floats(function(*given))
            if order:
                # Ones, which is what a tape begins with, would be copied for a kernel, and take memory.
                zeros = [Array._wrap(sparse(one.shape, one.dtype), host) for one in outputs]
                tape.gradient(outputs, inputs, zeros, unconnected="zero")
    return reports


def _tested(
    kernels: Any, tests: Callable[[], object] | None, versions: int, seed: int, score: float
) -> Iterator[Line]:
    """A line for each kernel: how many of its wrong versions the tests notice."""
    how = f"up to {versions} wrong versions of the kernel, one change each, run by its tests"
    if tests is None:
        yield Line("tests", how, "not checked", "", "no tests were given")
        return
    if not kernels:
        yield Line("tests", how, "not checked", "", "the function launches no kernel of its own")
    for kernel in kernels:
        what = f"tests of {kernel.name}" + (f"[{kernel.entry!r}]" if kernel.entry else "")
        try:
            result = mutants(kernel, tests, limit=versions, seed=seed)
        except ValueError as error:
            yield Line(what, how, "failed", str(error), "", "tests")
            continue
        bad = result.score < score
        left_out = "wrong versions of several changes; the host's part of the function"
        yield Line(what, how, "failed" if bad else "passed", str(result), left_out, "tests" if bad else "")
