"""Units as JSON without their text: the results of parsing, which is slower than reading them."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .declarations import DynamicShared
from .signature import Param, Signature, Unit


def stored(unit: Unit) -> dict[str, Any]:
    """A unit, but for its text."""
    return {
        "name": unit.signature.name,
        "max_threads": unit.signature.max_threads,
        "cluster": list(unit.signature.cluster),
        "params": [
            [p.name, p.kind, p.dtype and p.dtype.name, p.const, p.ndim, p.type_text, p.alignment, p.cxx]
            for p in unit.signature.params
        ],
        "body": unit.body,
        "calls": sorted(unit.calls),
        "dynamic_shared": [
            [one.start, one.end, one.type_text, one.name, one.at_file_scope] for one in unit.dynamic_shared
        ],
        "trusted": unit.trusted,
    }


def restored(row: dict[str, Any], text: str) -> Unit:
    """The unit of a text, from :func:`stored`.

    Raises:
        KeyError, TypeError, ValueError: it is no such row.
    """
    params = tuple(
        Param(name, kind, None if dtype is None else dtypes.as_dtype(dtype), *rest)
        for name, kind, dtype, *rest in row["params"]
    )
    x, y, z = row["cluster"]
    return Unit(
        text,
        Signature(row["name"], params, row["max_threads"], (x, y, z)),
        row["body"],
        frozenset(row["calls"]),
        tuple(DynamicShared(*one) for one in row["dynamic_shared"]),
        row["trusted"],
    )
