"""The tape: which operations ran, in which order, and the gradients that follow from them.

A tape keeps one list of records, in the order of execution. An array is known to it by an integer
key, given when the array is first watched or produced; keys are never used twice. ``gradient`` walks
the list backwards with a dictionary of cotangents by key, so it neither recurses nor sorts. Backward
rules are written in cukern's own operations on the very arrays that were saved: whatever other tape
is active records them, which is all that derivatives of higher order need.

The tape knows arrays by what :mod:`.cotangents` says of them, and nothing of kernels.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from operator import or_
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from weakref import WeakKeyDictionary, ref

from .. import pytree
from ..errors import GradientError
from .cotangents import (
    FLOATING,
    Handed,
    Jvp,
    Keys,
    Likeness,
    Meta,
    Opaque,
    Operation,
    Parts,
    Record,
    Vjp,
    accumulate,
    conform,
    describe,
    float_leaves,
    form_of,
    ones_for,
    register_algebra,
    require_floats,
    walk,
    whole,
    written,
    zeros_like,
)
from .recompute import Again, Recipe, forgotten
from .state import Pause, active, begin, end, opened, state, stop_recording

if TYPE_CHECKING:
    from ..array import Array, Storage

__all__ = [
    "Keys",
    "Operation",
    "Record",
    "Tape",
    "Vjp",
    "active",
    "opened",
    "record",
    "record_copy",
    "recording",
    "register_algebra",
    "state",
    "stop_recording",
]

#: The cotangents or the saved arrays that a :data:`Vjp` gets.
Arrays: TypeAlias = "Sequence[Array]"
#: Which inputs of a call are tracked, the keys of all, and the tapes that track one.
Tracking: TypeAlias = "tuple[tuple[bool, ...], Keys, Sequence[Tape]]"


#: Called with the index of a source and its gradient.
Finished: TypeAlias = "Callable[[int, Array | None], None]"

_keys = itertools.count(1)
_first_key = threading.Lock()
#: Without a lock, as a signal's handler or a finalizer may make a tape at any time.
_tapes: set[ref[Tape]] = set()
#: Stored instead of a version: the array was overwritten while only another tape recorded, so this one lost its value.
LOST = -1
#: The shared empty dict of tapes that have seen no launch of a raw kernel.
_NOTHING: dict[Storage, Opaque] = {}


def _key_of(array: Array) -> int:
    key = array._key
    if key is None:
        with _first_key:  # a parameter may meet the tapes of two threads at once
            key = array._key
            if key is None:
                key = array._key = next(_keys)
    return key


def recording(inputs: Sequence[Array]) -> bool:
    """Whether an active tape tracks one of ``inputs``, so that :func:`record` would record.

    Every operation asks this first; when it is False there is nothing to save.
    """
    if not opened or not (active := state.active):
        return False
    for array in inputs:
        if getattr(array, "_trainable", False):
            return True
        key = array._key
        if key is not None:
            for tape in active:
                if key in tape._tracked:
                    return True
    for tape in active:  # noqa: SIM110 - a loop is faster than a generator
        if tape._opaque and any(array._storage in tape._opaque for array in inputs):
            return True
    return False


def tracked(inputs: Sequence[Array]) -> Tracking | None:
    """What :func:`record_tracked` needs to know of ``inputs``; None where no active tape tracks one of them.

    Raises:
        GradientError: an input was written since a tape began to track it.
    """
    if not opened or not (active := state.active):
        return None
    if len(active) == 1:
        needs, keys = active[0]._needs(inputs)
        return (needs, keys, active) if True in needs else None
    tapes: list[Tape] = []
    for tape in active:
        some, keys = tape._needs(inputs)
        if True in some:
            needs = tuple(map(or_, needs, some)) if tapes else some
            tapes.append(tape)
    return (needs, keys, tapes) if tapes else None


def record(
    name: str,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    vjp: Vjp,
    saved: Sequence[Array | None] = (),
    *,
    materialize: bool = True,
    tracking: Tracking | None = None,
    jvp: Jvp | None = None,
) -> None:
    """Put an operation on every active tape that tracks one of its inputs.

    Args:
        name: the operation's name, for errors.
        inputs: the arrays that it read.
        outputs: its results, already written.
        vjp: the backward rule, written in cukern's operations. It gets a cotangent per output, the saved
            arrays, and a bool per input, and returns a gradient or None per input. A gradient may have
            the shape that the input was broadcast to, and another floating dtype.
        saved: the arrays that ``vjp`` reads, handed to it as the same objects.
        materialize: whether the cotangent of an unused output is zeros (the default) or None.
        tracking: what :func:`tracked` has said of ``inputs``, if it has been asked.
        jvp: the forward rule, written in cukern's operations too. It gets a tangent or None per input and the saved
            arrays, and returns a tangent or None per output. By default it is derived from ``vjp``.

    Raises:
        GradientError: an input was written since a tape began to track it; an output was not made just now.
    """
    tracking = tracking or tracked(inputs)
    if tracking is not None:
        _, keys, tapes = tracking
        _append(tapes, name, keys, tuple(map(form_of, inputs)), outputs, vjp, saved, materialize, jvp)


def record_copy(name: str, x: Array, result: Array) -> None:
    """:func:`record` that ``result`` has the values of ``x``."""
    if recording((x,)):
        record(name, (x,), (result,), _same, jvp=_same)


def _same(of_one: Sequence[Array], *others: object) -> Sequence[Array]:
    return of_one


def record_tracked(
    operation: Operation,
    keys: Keys,
    outputs: Sequence[Array],
    saved: Sequence[Array | None],
    tapes: Sequence[Tape],
    values: tuple[Any, ...] = (),
) -> None:
    """:func:`record` in fewer steps, with the keys of inputs and the tapes that :func:`tracked` has just given.

    Args:
        outputs: new arrays of known layouts, one of them of a floating dtype.
        values: what the rule of ``operation`` takes besides, of this call alone.
    """
    output_keys = []
    for array in outputs:
        if array._layout.floating:  # type: ignore[union-attr]
            array._key = key = next(_keys)
            for tape in tapes:
                tape._tracked[key] = array._storage.version
        output_keys.append(array._key)
    if saved:
        append(operation, keys, output_keys, saved, tapes, values)
        return
    recorded = operation, keys, tuple(output_keys), (), (), values
    for tape in tapes:
        tape._records.append(recorded)


def append(
    operation: Operation,
    inputs: Keys,
    outputs: Keys,
    saved: Sequence[Array | None],
    tapes: Sequence[Tape],
    values: tuple[Any, ...] = (),
) -> None:
    """Put a call on ``tapes``, which track its outputs already.

    Records hold tuples: the garbage collector visits each list that lives, but no tuple of integers.
    """
    versions: list[int] = []
    for array in saved:
        versions.append(0 if array is None else array._storage.version)
    kept = forgotten(saved, tapes[0]) if saved and tapes[0]._recipes else saved
    recorded = operation, inputs, tuple(outputs), kept, tuple(versions), values
    for tape in tapes:
        tape._records.append(recorded)


def poison(name: str, inputs: Sequence[Meta], outputs: Sequence[Array], message: str) -> None:
    """Record ``outputs`` as depending on ``inputs`` by a rule that raises :class:`GradientError`."""

    def vjp(cotangents: object, saved: object, needs: object) -> Sequence[Array | None]:
        raise GradientError(message)

    tapes = [tape for tape in state.active if tape._knows(inputs)]
    if tapes:
        keys, forms = [one.key for one in inputs], [one.form for one in inputs]
        _append(tapes, name, keys, forms, outputs, vjp, (), False)


def _append(
    tapes: Sequence[Tape],
    name: str,
    keys: Keys,
    forms: Sequence[Likeness],
    outputs: Sequence[Array],
    vjp: Vjp,
    saved: Sequence[Array | None],
    materialize: bool,
    jvp: Jvp | None = None,
) -> None:
    output_forms = tuple(map(form_of, outputs))
    output_keys: list[int | None] = []
    for array, form in zip(outputs, output_forms, strict=True):
        key = None
        if form.dtype in FLOATING:
            if array._key is not None:
                raise GradientError(f"{name}: its output is {describe(array)} that a tape knows already")
            array._key = key = next(_keys)
            for tape in tapes:
                tape._tracked[key] = array._storage.version
        output_keys.append(key)
    if output_keys != [None] * len(output_keys):
        operation = Operation(name, forms, output_forms, vjp, materialize, jvp=jvp)
        append(operation, keys, tuple(output_keys), tuple(saved), tapes)


class Tape:
    """Records operations on watched arrays, and gives gradients.

    Operations are recorded inside the ``with`` block, in the thread that entered it. Parameters are
    watched by themselves. Tapes nest: a gradient taken inside an outer tape's block is recorded by the
    outer tape, which gives derivatives of higher order.

    Args:
        persistent: whether ``gradient`` may be called more than once. If not, it frees what the tape holds.
        recompute: whether results are computed again where a derivative reads them, instead of kept, if the tape keeps
            their operation's arguments anyway: those of elementwise functions such as ``gelu``, of ``layer_norm`` and
            of ``rms_norm``. That takes less memory, and the time of their kernels once more. The outermost of nested
            tapes decides.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, 2.0, 3.0])
    >>> with ck.Tape() as tape:
    ...     tape.watch(x)
    ...     y = (x * x).sum()
    >>> tape.gradient(y, x).tolist()
    [2.0, 4.0, 6.0]
    """

    _opaque: MutableMapping[Storage, Opaque] = _NOTHING
    _thread: dict[str, Any] | None = None  # the state of the thread in which it records
    _consumed = False
    _keeps = True  # records, for gradients

    def __init__(self, persistent: bool = False, recompute: bool = False) -> None:
        self.persistent, self.recompute = persistent, recompute
        self._tracked: MutableMapping[int | None, int] = {}
        self._records: list[Record] = []
        self._recipes: dict[int | None, Recipe | Again] = {}
        self._watched: set[int | None] = set()
        _tapes.add(ref(self, _tapes.discard))

    def __enter__(self) -> Self:
        self._check_usable()
        if not begin(self):
            raise GradientError("this tape is already recording")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end(self)

    def __del__(self) -> None:
        opened.discard(id(self))  # its thread may have ended in the with-block

    def _check_usable(self) -> None:
        if self._consumed:
            raise GradientError(
                "this tape has given its gradient and freed what it held; make a new one, or use "
                "Tape(persistent=True)"
            )

    def _needs(self, inputs: Sequence[Array]) -> tuple[tuple[bool, ...], Keys]:
        """Which of ``inputs`` are tracked, and the keys of all; begins to track parameters."""
        tracked = self._tracked
        keys: list[int | None] = []
        needs: list[bool] = []
        for array in inputs:
            key = array._key
            version = tracked.get(key)
            if version is None:
                if getattr(array, "_trainable", False):
                    key = key or _key_of(array)
                    tracked[key] = array._storage.version
                elif self._opaque and array._storage in self._opaque:
                    key = self._meet(array)
                else:
                    needs.append(False)
                    keys.append(key)
                    continue
            elif version != array._storage.version:
                self._meet(array)
            needs.append(True)
            keys.append(key)
        return tuple(needs), tuple(keys)

    def _meet(self, array: Array) -> int:
        """The key of an array that was written since the tape began to track it, or whose memory a kernel wrote.

        The array depends on the tracked arguments of that launch; the rule recorded for it raises.

        Raises:
            GradientError: the array is watched or a parameter, or no launch is known that wrote it.
        """
        known = self._opaque.get(array._storage)
        if known is None or self._watches(array._key) or getattr(array, "_trainable", False):
            raise written(array)
        key = _key_of(array)
        self._tracked[key] = array._storage.version
        self._records.append((known.operation(array), tuple(known.inputs), (key,), (), (), ()))
        return key

    def _known(self, array: Array) -> int | None:
        """The key of ``array`` if this tape tracks it, even if it was written since; else None."""
        if array._key not in self._tracked:
            if getattr(array, "_trainable", False):
                self._tracked[_key_of(array)] = array._storage.version
            elif array._storage in self._opaque:
                return self._meet(array)
            else:
                return None
        return array._key

    def _hold(self, array: Array) -> None:
        """Keep what belongs to the key of an array while copies of the array have it."""

    def _launched(self, name: str, arguments: Sequence[tuple[str, Array]], into: Sequence[Array]) -> None:
        keys = [(which, array, self._known(array)) for which, array in arguments if array.dtype in FLOATING]
        known = [(which, key, form_of(array)) for which, array, key in keys if key is not None]
        for array in into:
            if known and array.dtype in FLOATING:
                if self._opaque is _NOTHING:
                    self._opaque = WeakKeyDictionary()
                self._opaque.setdefault(array._storage, Opaque()).add(name, known)

    def watch(self, *trees: Any) -> None:
        """Begin to track arrays, with the values that they have now.

        Args:
            trees: arrays of a floating dtype, or pytrees of them.

        Raises:
            TypeError: a leaf is not an array, or has no floating dtype.
        """
        self._check_usable()
        for array in float_leaves(trees, "watch"):
            unknown = self._opaque and array._storage in self._opaque and not array._trainable
            if unknown and not self._watches(array._key):
                self._meet(array)
            key = array._key or _key_of(array)
            self._tracked[key] = array._storage.version
            self._watched.add(key)

    def _watches(self, key: int | None) -> bool:
        return key in self._watched

    def _knows(self, inputs: Sequence[Meta]) -> bool:
        return any(one.key in self._tracked for one in inputs)

    def continued(self) -> Tape:
        """A persistent tape that has recorded what this one has, and may go on to record its gradients."""
        result = Tape(persistent=True, recompute=self.recompute)
        result._tracked, result._records = dict(self._tracked), list(self._records)
        result._watched, result._recipes = set(self._watched), dict(self._recipes)
        return result

    def stop_recording(self) -> Pause:
        """A with-block in which this tape does not record."""
        return Pause(self)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected: Literal["none", "zero"] = "none",
        finished: Finished | None = None,
    ) -> Any:
        """The gradient of ``target`` with respect to each of ``sources``.

        May be called inside the tape's block: a tape that is not persistent stops recording, and a
        persistent one also records the operations of the gradient.

        Args:
            target: an array, or a pytree of arrays. The gradient of several elements is that of their sum. A complex
                one needs ``output_gradients``.
            sources: an array, or a pytree of arrays or modules.
            output_gradients: the cotangents, of the same structure and shapes as ``target``; ones when None.
            unconnected: what a source gets that ``target`` does not depend on, as far as the tape knows:
                ``"none"`` for None, ``"zero"`` for zeros.
            finished: called with the index of each source, in the order of its leaves, and its gradient or None, as
                soon as that is whole: often while the rest of the backward pass still runs.

        Returns:
            A pytree like ``sources``; each gradient has the shape, dtype and device of its source.

        Raises:
            TypeError: a target or source is not an array of a floating dtype.
            ValueError: the shape of a cotangent differs from that of its target.
            GradientError: the tape is used up; a saved array was written since; there is no derivative.
        """
        if unconnected not in ("none", "zero"):
            raise ValueError(f"unconnected: expected 'none' or 'zero', got {unconnected!r}")
        self._check_usable()
        wanted, replaced = pytree.taken_apart(sources)
        require_floats(wanted, sources, "sources")
        cotangents = self._seeds(target, output_gradients)
        keys: set[int | None] = set()
        for array in wanted:
            version = self._tracked.get(array._key)
            if version == LOST:
                raise written(array)
            if version is not None:
                keys.add(array._key)
        relevant, reached = self._relevant(keys)
        recipes = self._recipes
        if not self.persistent:
            self._consumed = True
            if self._thread is not None:
                end(self)
            self._records, self._tracked, self._watched, self._recipes = [], {}, set(), {}
            self._opaque = _NOTHING
        handed = Handed([] if output_gradients is None else pytree.leaves(output_gradients))

        def given(array: Array, pending: Iterable[Array] = ()) -> Array | None:
            gradient = whole(cotangents, array._key)
            if gradient is None and unconnected == "zero":
                gradient = zeros_like(array)
            return None if gradient is None else handed.own(gradient, pending)

        if finished is None:
            walk(relevant, reached, keys, cotangents, recipes=recipes)
            found = []
            for array in wanted:
                one: Any = cotangents.get(array._key)
                plain = one is not None and type(one) is not Parts
                found.append(handed.own(one) if plain else given(array))
            return replaced(found)
        gradients: dict[int, Array | None] = {}
        made = {key for record in relevant for key in record[2]}
        once = len({array._key for array in wanted}) == len(wanted)

        def give(i: int) -> None:
            # What the user writes to a gradient changes no cotangent that is still read: those of other arrays, and its
            # own if an operation made the array.
            own = wanted[i]._key
            read = [one for key, one in cotangents.items() if key != own or own in made]
            pending = [
                array for one in read for array in (one.arrays() if isinstance(one, Parts) else (one,))
            ]
            gradients[i] = given(wanted[i], pending)
            if once and own not in made:
                cotangents.pop(own, None)  # so that the next gradient is compared with few
            finished(i, gradients[i])

        walk(relevant, reached, keys, cotangents, _due(relevant, wanted), give, recipes)
        for i in range(len(wanted)):
            if i not in gradients:
                give(i)
        return replaced([gradients[i] for i in range(len(wanted))])

    def _seeds(self, target: Any, output_gradients: Any) -> dict[int | None, Array | Parts]:
        """The cotangents that the walk begins with."""
        targets = float_leaves(target, "target")
        for array in targets:
            version = array._storage.version
            unmet = self._opaque and array._storage in self._opaque and array._key not in self._tracked
            if unmet or self._tracked.get(array._key, version) != version:
                self._meet(array)
        seeds: dict[int | None, Array | Parts] = {}
        if output_gradients is None:
            for array in targets:
                if array._key in self._tracked:
                    accumulate(seeds, array._key, ones_for(array))
            return seeds
        leaves = float_leaves(output_gradients, "output_gradients")
        if len(leaves) != len(targets):
            raise ValueError(f"output_gradients: expected {len(targets)} arrays, got {len(leaves)}")
        for i, (array, cotangent) in enumerate(zip(targets, leaves, strict=True)):
            form = getattr(array, "_layout", None)
            same = form is not None and getattr(cotangent, "_layout", None) is form
            if not same and _form(array) != _form(cotangent):
                path = next(itertools.islice(pytree.leaves_with_path(target, "target"), i, None))[0]
                if cotangent.shape != array.shape:
                    raise ValueError(
                        f"output_gradients: expected shape {array.shape} for {path}, got shape {cotangent.shape}"
                    )
                if array._key in self._tracked:
                    cotangent = conform(cotangent, array, path, "output_gradients")
            if array._key in self._tracked:
                accumulate(seeds, array._key, cotangent)
        return seeds

    def _relevant(self, keys: set[int | None]) -> tuple[list[Record], set[int | None]]:
        """The records downstream of ``keys``, and the keys of ``keys`` and their outputs."""
        reached = set(keys)
        relevant = []
        for recorded in self._records:
            if not reached.isdisjoint(recorded[1]):
                reached.update(recorded[2])
                reached.discard(None)
                relevant.append(recorded)
        return relevant, reached


def _form(array: Array) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.device


def _due(records: Sequence[Record], wanted: Sequence[Array]) -> dict[int, list[int]]:
    """Which of ``wanted`` have their whole gradient once the record of an index has been pulled back."""
    positions: dict[int | None, list[int]] = {}
    for i, array in enumerate(wanted):
        positions.setdefault(array._key, []).append(i)
    due: dict[int, list[int]] = {}
    for number, (_, inputs, *_) in enumerate(records):
        for key in inputs:
            if key in positions:
                due.setdefault(number, []).extend(positions.pop(key))
    return due
