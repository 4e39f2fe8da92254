"""What a kernel is to compute: its signature, a reference, and inputs of shapes and values that are not told."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ... import dtypes
from ...text.signature import canonical
from .expressions import evaluate

Values = npt.NDArray[Any]
Sizes = dict[str, int]
_SIGNATURE = re.compile(r"\s*(?:void\s+)?(\w+)\s*\((.*)\)\s*;?\s*", re.DOTALL)
_PARAMETER = re.compile(r"((?:const|inout)\s+)?((?:\w+\s+)*?\w+)\s+(\w+)((?:\s*\[[^\[\]]*\])*)")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a task's kernel.

    Attributes:
        name: its name.
        cxx: its C++ type, of an array that of an element; ``"T"`` stands for each dtype of the task.
        shape: the sizes of an array's axes, as expressions; None for a scalar.
        role: ``"in"``, ``"out"``, ``"inout"`` or ``"scalar"``.
    """

    name: str
    cxx: str
    shape: tuple[str, ...] | None
    role: str

    def dtype(self, of: dtypes.DType) -> dtypes.DType:
        """The dtype, where that of the task is ``of``."""
        found = of if self.cxx == "T" else dtypes.from_cxx(self.cxx)
        assert found is not None
        return found

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(evaluate(size, sizes) for size in self.shape or ())


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters, as a task states them."""

    name: str
    parameters: tuple[Parameter, ...]

    @classmethod
    def parsed(cls, text: str) -> Signature:
        """The signature of a text such as ``scale(const T x[n], T y[n], int n, float factor)``.

        Raises:
            ValueError: the text is none.
        """
        match = _SIGNATURE.fullmatch(text)
        if match is None:
            raise ValueError(f"signature: expected NAME(const T x[n], T y[n], int n), got {text!r}")
        found = []
        for part in re.split(r",(?![^\[]*\])", match[2]):
            one = _PARAMETER.fullmatch(part.strip())
            cxx = "" if one is None else canonical(one[2], {})
            if one is None or (cxx != "T" and dtypes.from_cxx(cxx) is None):
                raise ValueError(
                    f"signature: expected const T x[n], inout T x[n], T y[n] or int n, got {part.strip()!r}"
                )
            axes = tuple(axis.strip() for axis in re.findall(r"\[([^\[\]]*)\]", one[4]))
            word = (one[1] or "").strip()
            if not axes and word:
                raise ValueError(
                    f"signature: {part.strip()}: expected the sizes of its axes, as in {word} T x[n]"
                )
            role = {"const": "in", "inout": "inout"}.get(word, "out") if axes else "scalar"
            found.append(Parameter(one[3], cxx, axes or None, role))
        return cls(match[1], tuple(found))

    def of(self, *roles: str) -> list[Parameter]:
        """The parameters of some roles, in order."""
        return [one for one in self.parameters if one.role in roles]

    def arrays(
        self, dtype: dtypes.DType, sizes: Mapping[str, int]
    ) -> Iterator[tuple[Parameter, dtypes.DType, tuple[int, ...]]]:
        """The parameters that are arrays, with their dtypes and shapes, where that of the task is ``dtype``."""
        for one in self.parameters:
            if one.shape is not None:
                yield one, one.dtype(dtype), one.sized(sizes)

    @property
    def dims(self) -> list[str]:
        """The names of sizes in the shapes of arrays."""
        words = (
            word
            for one in self.parameters
            for size in one.shape or ()
            for word in re.findall(r"[A-Za-z_]\w*", size)
        )
        return list(
            dict.fromkeys(word for word in words if word not in ("min", "max", "divide_up", "if", "else"))
        )

    def text(self, cxx: str) -> str:
        """The parameters as C++ has them."""
        words = (
            (
                "const " * (one.role == "in"),
                cxx if one.cxx == "T" else one.cxx,
                "*" * bool(one.shape),
                " ",
                one.name,
            )
            for one in self.parameters
        )
        return ", ".join("".join(one) for one in words)


@dataclass(frozen=True)
class Case:
    """One launch's inputs.

    Attributes:
        what: what is special about them.
        reason: the code of a wrong result.
        sizes: the value of each size.
        dtype: that of ``T``.
        values: how floats are drawn.
        misaligned: whether arrays begin one element after an aligned address.
        once: whether it is launched once, unchecked, as it is large.
    """

    what: str
    reason: str
    sizes: Sizes
    dtype: dtypes.DType
    values: str = "normal"
    misaligned: bool = False
    once: bool = False

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.what} ({sizes}, {dtypes.info(self.dtype).name})"


#: How the floats of a case may be drawn.
VALUES = tuple("normal zeros sparse repeated permuted offset small huge denormal nan inf".split())


def _drawn(kind: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: dtypes.DType) -> Values:
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    count = math.prod(shape)
    values = rng.standard_normal(count)
    if kind == "zeros":
        values = np.copysign(0.0, values + 0.5)  # one third are -0.0
    elif kind == "sparse":  # so that no other term hides one that is left out: the last ones above all
        values[:-3] *= rng.uniform(size=max(0, count - 3)) < 4 / max(1, count)
    elif kind == "repeated":
        values = np.full(count, rng.uniform(0.5, 2))
    elif kind == "permuted":
        values = rng.permutation(np.linspace(-2, 2, count))
    elif kind == "offset":
        values = values + 2.0 ** min(10, int(limits.nmant) - 3)
    elif kind == "small":
        values = values * 2.0**-10
    elif kind == "huge":
        values = values * 10.0 ** int(np.log10(float(limits.max)) * 0.78)
    elif kind == "denormal":
        values = values * float(limits.smallest_normal) / 4
    return values.reshape(shape)


def _special(kind: str, rng: np.random.Generator, values: Values) -> Values:
    """Floats with a NaN, or with infinities, at random places."""
    count = {"nan": 1, "inf": 2}.get(kind, 0)
    places = rng.permutation(values.size)[:count]
    for place, value in zip(places, (np.nan,) if kind == "nan" else (np.inf, -np.inf), strict=False):
        values.flat[int(place)] = value
    return values


@dataclass(frozen=True)
class Task:
    """What a kernel is to compute, for :func:`judge`.

    Attributes:
        signature: the kernel's name and parameters, with the sizes of arrays:
            ``"row_sums(const T x[rows][columns], T y[rows], int rows, int columns)"``. ``const`` arrays are read,
            ``inout`` arrays read and written, others written whole; ``T`` stands for each dtype.
        reference: takes the arrays that are read, and the scalars that are no sizes, in their order, and returns the
            arrays that are written. Of NumPy's functions: its bounds of errors follow from the formula.
        announced: sizes that candidates are told, such as ``[{"rows": 128, "columns": 64}]``.
        hidden: further sizes; None for sizes around and between the announced ones, and some of which one is more than
            16 times as long, drawn anew for each seed.
        dtypes: what ``T`` stands for; a candidate of several is a template, ``template <typename T>``.
        scalars: the values of scalars that are no sizes; of a list, the first is told and others are hidden.
        draw: for a parameter, a function of a generator, the shape and the sizes that gives its values, such as
            indices; arrays of integers need one.
        values: how the floats of other parameters are drawn, of ``VALUES``.
        valid: whether a candidate has to take given sizes; what says, too, how long one may be.
        aligned: whether arrays begin at addresses that vectors of 16 bytes take.
        deterministic: whether two launches must give the same bits.
        backward: the signature of the kernel of the derivative, if one is asked for: ``g_y`` is the cotangent of ``y``,
            ``d_x`` the gradient by ``x``, other names are those of the arrays of ``signature``.
        library: ``"cukern"`` if the reference takes cukern's arrays. Bounds then follow from how small changes of the
            inputs move its results.
        bound: takes what the reference takes, and gives the largest error of each output, in place of what follows
            from the reference.
        largest: the most elements of an array with hidden sizes; those of long ones have up
            to 16 times as many, or twice as many as announced.
        large: sizes of arrays that no memory holds, of which some blocks run, as with :func:`check_large`.

    Raises:
        ValueError: the signature is none, or a size, a scalar or the values of an array of integers are missing.

    >>> import numpy as np
    >>> task = Task("lengths(const T x[n][3], T y[n], int n)", lambda x: np.sqrt(np.sum(x * x, axis=1)), [{"n": 64}])
    >>> [one.name for one in task.forward.of("out")], task.forward.dims
    (['y'], ['n'])
    """

    signature: str
    reference: Callable[..., Any]
    announced: Sequence[Sizes]
    hidden: Sequence[Sizes] | None = None
    dtypes: Sequence[str] = ("float32",)
    scalars: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    draw: Mapping[str, Callable[[np.random.Generator, tuple[int, ...], Sizes], Any]] = field(
        default_factory=dict
    )
    values: Sequence[str] = VALUES
    valid: Callable[[Sizes], bool] = lambda sizes: True
    aligned: bool = True
    deterministic: bool = False
    backward: str = ""
    library: str = "numpy"
    bound: Callable[..., Any] | None = None
    largest: int = 1 << 14
    large: Sequence[Sizes] = ()

    def __post_init__(self) -> None:
        forward = self.forward
        dims = forward.dims
        for sizes in (*self.announced, *(self.hidden or ()), *self.large):
            if set(dims) - set(sizes):
                raise ValueError(
                    f"announced, hidden, large: expected values of {', '.join(dims)}, got {sizes}"
                )
        for name in self.values:
            if name not in VALUES:
                raise ValueError(f"values: expected some of {', '.join(VALUES)}, got {name!r}")
        if not self.announced:
            raise ValueError("announced: expected at least one set of sizes")
        if self.library not in ("numpy", "cukern"):
            raise ValueError(f'library: expected "numpy" or "cukern", got {self.library!r}')
        for one in (*forward.of("scalar"), *(self.derivative.of("scalar") if self.derivative else ())):
            if one.name not in dims and one.name not in self.scalars:
                raise ValueError(f"scalars: expected a value of {one.name}, which is no size of an array")
        for one in forward.of("in", "inout"):
            integers = one.cxx != "T" and one.dtype(dtypes.float32).kind not in "fV"
            if integers and one.name not in self.draw:
                raise ValueError(f"draw: expected how the integers of {one.name} are drawn")

    @property
    def forward(self) -> Signature:
        """The signature, parsed."""
        return Signature.parsed(self.signature)

    @property
    def derivative(self) -> Signature | None:
        """That of the backward, or None."""
        return Signature.parsed(self.backward) if self.backward else None

    def inputs(self, case: Case, seed: Sequence[int]) -> dict[str, Values]:
        """The arrays of a case that are read, by name; the same for the same seed."""
        rng = np.random.default_rng(list(seed))
        found: dict[str, Values] = {}
        for one in self.forward.of("in", "inout"):
            shape, dtype = one.sized(case.sizes), one.dtype(case.dtype)
            if one.name in self.draw:
                values = np.array(self.draw[one.name](rng, shape, case.sizes))
            else:
                values = _drawn(case.values, rng, shape, dtype)
            if dtypes.info(dtype).kind == "f":
                values = _special(case.values, rng, values)
            with np.errstate(over="ignore"):
                found[one.name] = values.reshape(shape).astype(dtype)
        return found

    def scalars_of(self, case: Case) -> dict[str, float]:
        """The scalars of a case that are no sizes."""
        turn = 0 if case.reason == "wrong" else sum(case.sizes.values())
        return {
            name: value[turn % len(value)] if isinstance(value, Sequence) else value
            for name, value in self.scalars.items()
        }

    def cases(self, seed: int) -> Iterator[Case]:
        """All cases: announced sizes, special values, hidden sizes, each dtype."""
        rng = np.random.default_rng([seed, 7])
        hidden = self._around(rng) if self.hidden is None else [dict(one) for one in self.hidden]
        long = self._long(rng) if self.hidden is None else []
        for number, name in enumerate(self.dtypes):
            dtype = dtypes.as_dtype(name)
            first = dict(self.announced[0])
            for sizes in self.announced:
                yield Case("announced sizes", "wrong", dict(sizes), dtype)
            for sizes in hidden if number == 0 else hidden[:3]:
                yield Case("hidden sizes", "shape", sizes, dtype)
            largest = max((one for one in [first, *hidden]), key=self._elements)
            kinds = [one for one in self.values if one == "nan" or (number == 0 and one != "normal")]
            for k, kind in enumerate(kinds):
                chosen = [first, largest, *hidden[k % len(hidden) :][:1]] if hidden else [first]
                for sizes in [one for i, one in enumerate(chosen) if one not in chosen[:i]]:
                    yield Case(f"values: {kind}", "special value", sizes, dtype, kind)
            for sizes in long:
                yield Case("long sizes", "shape", sizes, dtype)
                for kind in kinds:
                    yield Case(f"values: {kind}", "special value", sizes, dtype, kind)
            if number == 0 and self.hidden is None and (wide := self._wide(rng)) is not None:
                yield Case("larger sizes", "shape", wide, dtype, once=True)
            if not self.aligned:
                yield Case("misaligned arrays", "layout", first, dtype, misaligned=True)

    def derivatives(self, seed: int) -> list[Case]:
        """The cases at which a derivative is checked: those of normal values in the first dtype."""
        first = dtypes.as_dtype(self.dtypes[0])
        found = [
            one
            for one in self.cases(seed)
            if one.values == "normal" and one.dtype == first and not one.misaligned and not one.once
        ]
        hidden = [one for one in found if one.what == "hidden sizes"]
        return [
            one for one in found if one not in hidden[1::2]
        ]  # half of them, as each takes most of a second

    def _elements(self, sizes: Sizes) -> int:
        return max((math.prod(one.sized(sizes)) for one in self.forward.parameters if one.shape), default=0)

    def _fits(self, sizes: Sizes, most: int) -> bool:
        return self._elements(sizes) <= most and self.valid(sizes)

    def _wide(self, rng: np.random.Generator) -> Sizes | None:
        """Sizes for 16 times the elements of hidden ones, in proportion to the first that are announced."""
        found = None
        for factor in 2.0 ** np.arange(1, 20, 0.5):
            sizes = {
                name: int(size * factor) + int(rng.integers(1, 8)) for name, size in self.announced[0].items()
            }
            if self._elements(sizes) > 16 * self.largest:
                break
            found = sizes if self.valid(sizes) else found
        return found

    def _long(self, rng: np.random.Generator) -> list[Sizes]:
        """For each size, more than 16 times the announced one, and odd, with small others.

        Where that is not valid or takes too many elements, it is the longest that bisection and doubling find.
        """
        first, found = {name: self.announced[0][name] for name in self.forward.dims}, []
        elements = max(16 * self.largest, 2 * self._elements(first))
        for name in first:
            told, tried = max(one[name] for one in self.announced), []
            most = 16 * told + 1 + 2 * int(rng.integers(told))
            for others in ({other: int(rng.integers(2, 6)) for other in first}, first):
                for lengths in (range(told + 1, most + 1), [told << k for k in range(1, 5)]):
                    count = bisect_left(
                        lengths, True, key=lambda n: not self._fits({**others, name: n}, elements)
                    )
                    tried += [{**others, name: length} for length in lengths[:count][-1:]]
            if tried:
                found.append(max(tried, key=lambda sizes: sizes[name]))
        return found

    def _around(self, rng: np.random.Generator) -> list[Sizes]:
        """Sizes around, between and beyond the announced ones."""
        dims, found = self.forward.dims, []
        largest = {name: max(one[name] for one in self.announced) for name in dims}
        ways: list[Callable[[int], int]] = [
            lambda n: n + 1,
            lambda n: 2 * n + 3,
            lambda n: max(1, n - 1),
            lambda n: int(rng.integers(1, n + 1)),
            lambda n: int(rng.integers(n + 1, 3 * n + 2)),
            lambda n: int(rng.choice([2, 3, 31, 33, 63, 65, 127, 129, 255, 257, 513])),
            lambda n: 1,
        ]
        tried: list[Sizes] = [{name: way(largest[name]) for name in dims} for way in ways]
        for _ in range(12):
            tried.append({name: ways[int(rng.integers(len(ways)))](largest[name]) for name in dims})
        told = [dict(one) for one in self.announced]
        for sizes in tried:
            if sizes not in found and sizes not in told and self._fits(sizes, self.largest):
                found.append(sizes)
        return found[:9]
