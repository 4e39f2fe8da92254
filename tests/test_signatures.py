"""Signatures beside NumPy's: arguments in NumPy's order, under NumPy's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cukern as ck

#: NumPy's names of leading operands. The Array API takes operands by position alone, under no name.
OPERANDS = set(
    "A a a1 a2 ar ar1 ar2 arr array arrays ary arys b condition element f filt fp function keys m object p "
    "prototype test_elements tup v val x x1 x2 xi xp y".split()
)
#: Arguments of NumPy's that no function here has, and why.
NOWHERE = {
    "out": "functions return new arrays, so that a tape can follow them",
    "order": "the order of the elements in memory: arrays are made in C order",
    "subok": "there is one class of arrays",
    "like": "device= says where an array is made",
    "casting": "astype casts; nothing else does",
    "signature": "the loop of a ufunc",
    "max_work": "the answer of shares_memory is exact",
    "axes": "of NumPy's generalised ufuncs: moveaxis moves axes",
    "mmap_mode": "a file is read as a whole",
    "allow_pickle": "no pickle is read or written",
    "fix_imports": "of pickles",
    "encoding": "of pickles",
    "max_header_size": "a file is read as a whole",
}
#: Of one function, and why.
MISSING = {
    "array": {"ndmax"},  # nested lists are of numbers alone
    "linspace": {"endpoint", "retstep", "axis"},  # endpoint by keyword
    "logspace": {"endpoint", "base", "axis"},
    "geomspace": {"endpoint", "axis"},
    "ravel_multi_index": {"mode"},
    "einsum_path": {"einsum_call"},  # of NumPy itself
}
#: Taken by position alone, and why.
UNNAMED = {
    ("finfo", "dtype"): "as in the Array API, whose name is type",
    ("iinfo", "int_type"): "as in the Array API, whose name is type",
    ("apply_along_axis", "func1d"): "it and the axis stand before an operand that has no name",
    ("apply_along_axis", "axis"): "it stands before an operand that has no name",
    ("savez", "file"): "an array may have that name",
    ("savez_compressed", "file"): "an array may have that name",
}
#: By position under the Array API's name; NumPy's is taken by keyword.
TWO_NAMES = {("clip", "a_min"), ("clip", "a_max")}
#: Where ufuncs take where= and dtype=, rows of the table do not: where and astype are functions.
UFUNC = {"where", "dtype", "axis", "keepdims"}
UNCHECKED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # NumPy has written down none
        return []


def functions() -> Iterator[Any]:
    for module in ("", "linalg", "fft"):
        ours, theirs = (getattr(one, module) if module else one for one in (ck, np))
        for name in ours.__all__:
            function, numpys = getattr(ours, name), getattr(theirs, name, None)
            if callable(function) and callable(numpys) and not isinstance(numpys, type):
                full = f"{module}.{name}" if module else name
                yield pytest.param(full, function, numpys, id=full)
    for name in dir(np.ndarray):
        method, numpys = getattr(ck.Array, name, None), getattr(np.ndarray, name)
        if not name.startswith("_") and callable(method) and callable(numpys):
            yield pytest.param(f"Array.{name}", method, numpys, id=f"Array.{name}")


FUNCTIONS = list(functions())


def wanted(name: str, numpys: Callable[..., Any]) -> list[inspect.Parameter]:
    left_out = set(NOWHERE) | MISSING.get(name, set())
    if isinstance(numpys, np.ufunc):
        left_out |= UFUNC - ({"axis"} if name == "vecdot" else set())
    return [one for one in parameters(numpys) if one.name not in left_out]


@pytest.mark.parametrize(("name", "function", "numpys"), FUNCTIONS)
def test_arguments_have_numpys_names(name: str, function: Any, numpys: Any) -> None:
    ours = {one.name: one for one in parameters(function)}
    for one in wanted(name, numpys):
        if one.name in OPERANDS or one.kind in UNCHECKED:
            continue
        if (name, one.name) in UNNAMED:
            continue
        assert one.name in ours, f"{name} has no argument {one.name}"
        assert ours[one.name].kind is not one.POSITIONAL_ONLY, f"{name}({one.name}=) is not taken"


@pytest.mark.parametrize(("name", "function", "numpys"), FUNCTIONS)
def test_arguments_have_numpys_order(name: str, function: Any, numpys: Any) -> None:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ours = [one.name for one in parameters(function) if one.kind in positional]
    free = any(one.kind is one.VAR_POSITIONAL for one in parameters(function))
    left_out = set(NOWHERE) | MISSING.get(name, set())
    for place, one in enumerate(parameters(numpys)):
        if one.kind not in positional or one.name in left_out:
            break  # what follows an argument that is not there can only be given by name
        assert place < len(ours) or free, f"{name}: argument {place}, {one.name}, is not taken by position"
        if free or one.name in OPERANDS or one.kind is one.POSITIONAL_ONLY:
            continue
        if (name, one.name) in UNNAMED or (name, one.name) in TWO_NAMES:
            continue
        assert ours[place] == one.name, f"{name}: argument {place} is {ours[place]}, of NumPy's {one.name}"
