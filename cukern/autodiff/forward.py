"""Forward mode: the derivatives of results along tangents, computed beside the results.

A :class:`Forward` is a tape that keeps no records: each record is pushed forward at once, that is, the tangents of its
outputs are computed from those of its inputs, by the operation's ``jvp`` if it has one. For any other operation they
are the derivative of its ``vjp``, a linear function, with respect to the cotangents (Townsend, "A new trick for
calculating Jacobian vector products", 2017). The tapes around a Forward record what it computes, which is all that
derivatives of higher order need; those within it do not, as nothing they differentiate depends on it.
"""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..errors import GradientError
from .cotangents import (
    FLOATING,
    Forgotten,
    Handed,
    Keys,
    Likeness,
    Operation,
    Record,
    Tangent,
    accumulate,
    describe,
    read,
    registered,
    walk,
    whole,
    zeros_like,
)
from .state import resume, state
from .tape import Tape

if TYPE_CHECKING:
    from ..array import Array


class Key(int):
    """A key that drops the tangents of its arrays when the last array and the last record that have it are gone."""

    holders: tuple[ref[Forward], ...] = ()

    def __del__(self) -> None:
        for holder in self.holders:
            forward = holder()
            if forward is not None:
                forward._tangents.pop(self, None)


class Forward(Tape):
    """Computes the tangents of all that depends on ``primals``, and keeps each as long as its array lives.

    Args:
        primals: arrays of floating dtypes.
        tangents: of the same shapes, dtypes and devices.
    """

    _keeps = False

    def __init__(self, primals: Sequence[Array], tangents: Sequence[Array]) -> None:
        super().__init__()
        self.watch(primals)
        self._given = tangents
        self._tangents = seeds(primals, tangents)
        self._own = ref(self)
        self._lasting = set(self._tangents)
        self._records = self  # type: ignore[assignment]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._records = []

    def append(self, recorded: Record) -> None:
        """Push a record forward at once, in place of keeping it."""
        for array in recorded[3]:
            if isinstance(array, Forgotten):
                self._lasting.add(array._key)  # another array of this key may be made
        active = state.active
        state.active = tuple(itertools.takewhile(lambda one: one is not self, active))
        try:
            push(recorded, self._tangents)
        finally:
            resume(active)

    def tangents_of(self, arrays: Sequence[Array]) -> list[Array]:
        """The tangents of results, each with memory of its own."""
        self._needs(arrays)  # refuses what was written unseen
        return results(arrays, self._tangents, self._given)

    def _needs(self, inputs: Sequence[Array]) -> tuple[tuple[bool, ...], Keys]:
        needs = tuple([self._known(array) is not None for array in inputs])
        return needs, tuple([array._key for array in inputs])

    def _known(self, array: Array) -> int | None:
        version = self._tracked.get(array._key)
        if version is None and not (self._opaque and array._storage in self._opaque):
            return None
        if version != array._storage.version:
            self._meet(array)
        if array._key not in self._tangents:
            raise GradientError(
                f"the tangent of {describe(array)} was dropped, as no array had its key any longer"
            )
        self._hold(array)
        return array._key

    def _hold(self, array: Array) -> None:
        """Keep the tangent of an array for as long as anything has its key."""
        key = array._key
        if key is None or key in self._lasting:
            return
        if type(key) is not Key:
            array._key = key = Key(key)
        if self._own not in key.holders:
            key.holders += (self._own,)


def seeds(primals: Sequence[Array], tangents: Sequence[Array]) -> dict[int | None, Tangent]:
    """The tangents of watched arrays, by key; those of one array are added."""
    found: dict[int | None, Any] = {}
    for array, tangent in zip(primals, tangents, strict=True):
        accumulate(found, array._key, tangent)
    return found


def results(
    arrays: Sequence[Array], tangents: MutableMapping[int | None, Tangent], given: Sequence[Array]
) -> list[Array]:
    """The tangents of arrays, each with memory of its own, apart from that of the ``given`` ones."""
    handed, found = Handed(given), []
    for array in arrays:
        tangent = tangents.get(array._key)
        if isinstance(tangent, GradientError):
            raise tangent
        found.append(handed.own(zeros_like(array) if tangent is None else tangent))
    return found


class Linear:
    """The derivative of recorded results: a function of tangents.

    Args:
        tape: a persistent one, which has recorded how ``results`` come from ``primals``.
    """

    def __init__(self, tape: Tape, primals: Sequence[Array], results: Sequence[Array]) -> None:
        tape._needs(results)  # refuses what was written unseen
        self._primals, self._results = primals, results
        self._records, _ = tape._relevant({array._key for array in primals})
        last = {key: i for i, (_, inputs, *_) in enumerate(self._records) for key in inputs}
        asked = {array._key for array in results}
        #: For each record, the keys that no later one reads.
        self._done: list[list[int | None]] = [[] for _ in self._records]
        for key, i in last.items():
            if key not in asked:
                self._done[i].append(key)

    def __call__(self, directions: Sequence[Array]) -> list[Array]:
        """The tangents of the results, each with memory of its own."""
        tangents = seeds(self._primals, directions)
        for recorded, done in zip(self._records, self._done, strict=True):
            push(recorded, tangents)
            for key in done:
                tangents.pop(key, None)
        return results(self._results, tangents, directions)


def push(recorded: Record, tangents: MutableMapping[int | None, Tangent]) -> None:
    """Compute the tangents of a record's outputs from those of its inputs.

    A GradientError is raised by what reads the tangent, as the result may not depend on it.
    """
    operation, inputs, outputs, saved, versions, values = recorded
    given: list[Any] = [tangents.get(key) for key in inputs]
    made: Sequence[Tangent]
    failed = [one for one in given if isinstance(one, GradientError)]
    if failed:
        made = failed[:1] * len(outputs)
    elif all(one is None for one in given):
        made = [None] * len(outputs)
    else:
        try:
            arrays = read(operation.name, saved, versions)
            if operation.jvp is None:
                made = transposed(operation, given, arrays, values)
            else:
                made = operation.jvp(given, arrays, *values)
        except Exception as error:
            error.add_note(f"while computing the tangent of {operation.name}")
            if not isinstance(error, GradientError):
                raise
            made = [error] * len(outputs)
    for key, tangent, form in zip(outputs, made, operation.output_forms, strict=True):
        if key is not None:
            tangents[key] = _conformed(tangent, form)


def _conformed(tangent: Tangent, form: Likeness) -> Tangent:
    """The tangent in the shape and dtype of its output."""
    if tangent is None or isinstance(tangent, GradientError) or getattr(tangent, "_layout", None) is form:
        return tangent
    if tangent.dtype != form.dtype:
        tangent = registered().cast(tangent, form.dtype)
    return tangent if tangent.shape == form.shape else registered().broadcast(tangent, form.shape)


def transposed(
    operation: Operation,
    tangents: Sequence[Array | None],
    saved: Sequence[Array | None],
    values: tuple[Any, ...] = (),
    outputs: int | None = None,
) -> list[Tangent]:
    """The outputs' tangents, as the derivative of the ``vjp`` with respect to the cotangents.

    Args:
        outputs: how many of the outputs have cotangents, the first ones; all by default.
    """
    forms = operation.output_forms[:outputs]
    cotangents = [
        registered().own(zeros_like(form), None) if form.dtype in FLOATING else None for form in forms
    ]
    k = len(tangents)
    versions = [0 if array is None else array._storage.version for array in saved]
    keys = [k + i if one is not None else None for i, one in enumerate(cotangents)]
    keys += [None] * (len(operation.output_forms) - len(keys))
    recorded = operation, range(k), keys, saved, versions, values
    wanted = {i for i, tangent in enumerate(tangents) if tangent is not None}
    with Tape() as inner:
        live = [one for one in cotangents if one is not None]
        inner.watch(live)
        found: dict[int | None, Any] = {k + i: one for i, one in enumerate(cotangents) if one is not None}
        walk([recorded], set(wanted), set(), found)
        pulled = {i: gradient for i in wanted if (gradient := whole(found, i)) is not None}
    along = [tangents[i] for i in pulled]
    made = iter(inner.gradient(list(pulled.values()), live, along))
    return [None if one is None else next(made) for one in cotangents]
