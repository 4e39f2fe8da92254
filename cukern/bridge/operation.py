"""An operation with its derivatives as other libraries want it: from arrays to a fixed number of arrays, without state.

A Function keeps what its backward needs in a context. Here the arrays that it saves beyond arguments and outputs are
further results, and plain attributes are those that a forward of arguments of the same shapes has set.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, pytree
from ..array import Array, creation
from ..array.array import copied
from ..autodiff import tape
from ..autodiff.cotangents import conform, is_float
from ..autodiff.state import active, opened
from ..autodiff.tape import Tape
from ..device import Device, current, device
from ..errors import GradientError

#: The types of arguments that are no arrays, in the words of PyTorch's schemas; a size may be a symbol there.
PLAIN = {bool: "bool", int: "SymInt", float: "float", str: "str"}
#: What every context has.
_OWN = frozenset(("needs_input_grad", "_name", "_saved", "_non_differentiable", "_materialize"))


class Like(NamedTuple):
    """The shape and the dtype of an array that is not there."""

    shape: tuple[Any, ...]
    dtype: dtypes.DType


class Parameter(NamedTuple):
    """A parameter of an operation.

    Attributes:
        name: its name.
        type: ``"Tensor"``, or the type of a plain argument, as a schema names it.
        floating: whether it is an array that has a derivative.
        default: the value of a plain argument that is left out; None if it may not be.
    """

    name: str
    type: str
    floating: bool = False
    default: Any = None


#: Launches a kernel with the operands of arguments and of new results; False if it did not.
Again = Callable[[Sequence[Any], Sequence[Any]], bool]
#: Where a saved array is found: among the arguments if True, else among the results, and its index there.
Place = tuple[bool, int]
#: The shapes and dtypes of results, from those of the arguments.
Rule = Callable[..., Any]


class Operation:
    """An operation, and its derivatives of first and second order.

    Args:
        body: a Function, with ``forward``, ``backward`` and ``apply``; None of a kernel, see :attr:`into`.
        context: makes what ``forward`` takes first, of a name and whether each argument's gradient is needed.
        rule: the shapes and dtypes of results, from arguments that have these alone.

    Attributes:
        name: its name in messages.
        parameters: of each argument.
        outputs: how many arrays it returns.
        several: whether it returns a tuple.
        live: whether each output has a derivative.
        more: how many further arrays :meth:`run` returns, which :meth:`pull` takes.
        saved: where each array is found that the forward saves; None for those that are None.
        materialize: whether the backward takes zeros in place of cotangents that are not used.
        into: launches a kernel with outputs that are given; None where :meth:`run` makes them. A kernel has no body.
        again: takes arguments and outputs with which ``into`` was called; returns what launches the kernel with others
            of the same layouts and with the same numbers, or None.
        differentiable: whether there is a backward.
    """

    into: Callable[[Sequence[Any], Sequence[Array]], None] | None = None
    again: Callable[[Sequence[Any], Sequence[Array]], Again | None]

    def __init__(
        self,
        name: str,
        body: Any,
        context: Any,
        parameters: Sequence[Parameter],
        rule: Rule | None = None,
        differentiable: bool = True,
    ) -> None:
        self.name, self.parameters, self.differentiable = name, tuple(parameters), differentiable
        self.outputs, self.several, self.live, self.more = 0, False, list[bool](), 0
        self.saved: tuple[Place | None, ...] = ()
        self.materialize = True
        self._body, self._context, self._rule = body, context, rule
        self._needs = tuple([one.floating for one in parameters])
        self._kept: tuple[Any, ...] | None = None
        self._attributes: dict[Any, dict[str, Any]] = {}
        self._forms: dict[Any, list[Like]] = {}
        self.arrays = [i for i, one in enumerate(parameters) if one.type == "Tensor"]
        self.floating = [i for i, one in enumerate(parameters) if one.floating]

    def run(self, args: Sequence[Any]) -> list[Array]:
        """The outputs and the arrays to keep for :meth:`pull`: each has memory of its own, in C order.

        Raises:
            GradientError: the forward returns or keeps other arrays than in its first call.
            RuntimeError: the forward wrote to an argument.
        """
        context = self._context(self.name, self._needs)
        several, made = self._forward(args, context)
        dead = context._non_differentiable
        live = [(one._layout or one._planned()).floating and id(one) not in dead for one in made]
        outputs, saved = len(made), context._saved
        places = self.saved if outputs == self.outputs and not self.more else ()
        for one, place in zip(saved, places, strict=False):
            if one is not (None if place is None else (args if place[0] else made)[place[1]]):
                places = ()
        if len(saved) != len(places):  # else they are where they were in the first call
            places = tuple([_place(one, args, made) for one in saved])
        kept = outputs, several, live, places, context._materialize
        if kept != self._kept:
            self._first(kept, len(made) - outputs)
        if not _OWN.issuperset(vars(context)):
            self._attributed(context, args)
        return _apart(args, made)

    def outputs_of(self, args: Sequence[Any]) -> list[Array]:
        """The outputs alone, as of :meth:`run`, where no derivative will be asked for.

        Raises:
            GradientError, RuntimeError: as of :meth:`run`; what the forward keeps is not looked at.
        """
        several, made = self._forward(args, self._context(self.name, self._needs))
        if several is not self.several or len(made) != self.outputs:
            return self.run(args)
        return _apart(args, made)

    def _forward(self, args: Sequence[Any], context: Any) -> tuple[bool, list[Array]]:
        """Whether the forward returns a tuple, and its outputs."""
        storages = [args[i]._storage for i in self.arrays]
        before = [one.version for one in storages]
        result = _alone(args[self.arrays[0]].device, self._body.forward, context, *args)
        if [one.version for one in storages] != before:
            written = next(
                i for i, one, was in zip(self.arrays, storages, before, strict=True) if one.version != was
            )
            name = self.parameters[written].name
            raise RuntimeError(f"{self.name}: forward wrote to its argument {name}; write to a copy")
        several = type(result) is tuple
        made = list(result) if several else [result]
        for i, one in enumerate(made):
            if not isinstance(one, Array):
                raise TypeError(f"{self.name}: output {i}: expected an array, got {type(one).__name__}")
        return several, made

    def _first(self, kept: tuple[Any, ...], more: int) -> None:
        """Take over what a first call returns and saves; refuse another call that differs."""
        if self._kept is not None:
            raise GradientError(
                f"{self.name}: an operator returns and saves the same in each call: forward returned "
                f"{kept[0]} and saved {_told(kept[3])}, in its first call {self.outputs} and {_told(self._kept[3])}"
            )
        self.outputs, self.several, self.live, self.saved, self.materialize = self._kept = kept
        self.more = more

    def _attributed(self, context: Any, args: Sequence[Any]) -> None:
        """Keep the plain attributes that a forward has set, which depend on shapes and plain arguments alone."""
        found = {name: value for name, value in vars(context).items() if name not in _OWN}
        for name, value in found.items():
            if any(isinstance(leaf, Array) for leaf in pytree.leaves(value)):
                raise GradientError(
                    f"{self.name}: forward keeps an array as the attribute {name} of its context; "
                    "give it to save_for_backward"
                )
        known = self._attributes.setdefault(self._key(args), found)
        for name, value in found.items():
            before = known.get(name)
            if not _same(value, before):
                raise GradientError(
                    f"{self.name}: forward sets {name} of its context to {value!r}, and to {before!r} for other "
                    "arguments of the same shapes: what depends on elements is an array, for save_for_backward"
                )

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            [
                (tuple(map(int, arg.shape)), arg.dtype) if one.type == "Tensor" else plain_key(arg)
                for one, arg in zip(self.parameters, args, strict=True)
            ]
        )

    def results(self, args: Sequence[Any], where: Device) -> list[Like]:
        """Shapes and dtypes of what :meth:`run` returns for arguments of which only these are known.

        Without a rule, the forward runs once with zeros of these shapes.

        Raises:
            ValueError: the rule gives another number of arrays.
        """
        if self._rule is not None:
            found = likes(self._rule(*args), self.name)
            if len(found) != self.outputs + self.more:
                more = f", and {self.more} that forward saves besides" if self.more else ""
                raise ValueError(
                    f"{self.name}: outputs: expected a shape and dtype for each of {self.outputs} outputs{more}, "
                    f"got {len(found)}"
                )
            return found
        args = [
            int(arg) if one.type == "SymInt" else arg for one, arg in zip(self.parameters, args, strict=True)
        ]
        key = self._key(args)
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = [Like(one.shape, one.dtype) for one in self._run_once(args, where)]
        return known

    def _run_once(self, args: Sequence[Any], where: Device) -> list[Array]:
        """What :meth:`run` returns for zeros of the shapes and dtypes of arguments."""
        given = list(args)
        with device(where):
            for i in self.arrays:
                shape = tuple(map(int, args[i].shape))
                given[i] = creation.zeros(shape, dtype=args[i].dtype, device=where)
            return self.run(given)

    def reads(self, argument: bool, i: int) -> bool:
        """Whether the backward reads the elements of an argument, or of a result; of others it has the shapes."""
        return (argument, i) in self.saved

    def differentiable_again(self, i: int) -> bool:
        """Whether :meth:`pull_again` returns the gradient of a result."""
        return i < self.outputs and self.live[i] and self.reads(False, i)

    def pull(
        self,
        args: Sequence[Any],
        results: Sequence[Any],
        cotangents: Sequence[Array | None],
        needs: Sequence[bool],
    ) -> list[Array | None]:
        """The gradient of each floating argument that is needed, from the cotangents of the outputs.

        Args:
            args: those of :meth:`run`; the layout of an array will do where the backward does not read it.
            results: what it returned, likewise; of one that is neither read nor materialized it may be None.
            cotangents: of each output; None for those that are not used.
            needs: of each floating argument.

        Raises:
            GradientError: the backward returns what is no gradient of its argument.
        """
        where = args[self.arrays[0]].device
        gradients = _alone(where, self._pulled, args, results, cotangents, needs)
        return _apart([*args, *results, *cotangents], gradients)

    def _pulled(
        self,
        args: Sequence[Any],
        results: Sequence[Any],
        cotangents: Sequence[Array | None],
        needs: Sequence[bool],
    ) -> list[Array | None]:
        assert self._kept is not None
        wanted = [False] * len(args)
        for i, need in zip(self.floating, needs, strict=True):
            wanted[i] = need
        context = self._context(self.name, tuple(wanted))
        context._saved = tuple(
            [one if one is None else (args if one[0] else results)[one[1]] for one in self.saved]
        )
        if self._attributes:
            key = self._key(args)
            if key not in self._attributes:  # a compiler has left the forward out
                self._run_once(args, args[self.arrays[0]].device)
            vars(context).update(self._attributes.setdefault(key, {}))
        given = list(cotangents)
        if self.materialize:
            for i, one in enumerate(given):
                if one is None:
                    given[i] = _zeros(results[i])
        returned = self._body.backward(context, *given)
        found = returned if isinstance(returned, tuple) else (returned,)
        if len(found) != len(args):
            raise GradientError(
                f"{self.name}: backward must return a gradient or None for each of the {len(args)} arguments, "
                f"returned {len(found)}"
            )
        gradients: list[Array | None] = []
        for i in self.floating:
            one, like = found[i], args[i]
            if not wanted[i]:
                gradients.append(None)
            elif one is None:
                gradients.append(_zeros(like))
            elif isinstance(one, Array) and one._layout is getattr(like, "_layout", like) is not None:
                gradients.append(one)
            else:
                gradients.append(conform(one, like, self.name, f"argument {self.parameters[i].name}"))
        return gradients

    def pull_again(
        self,
        args: Sequence[Any],
        results: Sequence[Any],
        cotangents: Sequence[Array | None],
        needs: Sequence[bool],
        seconds: Sequence[Array | None],
    ) -> list[Array | None]:
        """The gradients of what :meth:`pull` computes.

        Args:
            args, results, cotangents, needs: those of :meth:`pull`.
            seconds: the cotangent of each floating argument's gradient; None for those that are not used.

        Returns:
            Those of each floating argument, None if the backward does not read it; then of each cotangent; then of each
            result that is :meth:`differentiable_again`.

        Raises:
            GradientError: the backward is not differentiable.
        """
        places: list[Place] = [(True, i) for i in self.floating if self.reads(True, i)]
        places += [(False, i) for i in range(len(self.live)) if self.differentiable_again(i)]
        inner = [one for one in self.saved if one is not None and not one[0] and one[1] >= self.outputs]
        of = {place: (args if place[0] else results)[place[1]] for place in (*places, *inner)}
        own = {place: one for place, one in of.items() if is_float(one.dtype)}
        firsts = [one for one in cotangents if one is not None]
        outer = Tape()

        def recorded() -> list[Array | None]:
            with outer:
                outer.watch([*own.values(), *firsts])
                return self._pulled(args, results, cotangents, needs)

        found = _alone(args[self.arrays[0]].device, recorded)
        chosen = [(g, s) for g, s in zip(found, seconds, strict=True) if g is not None and s is not None]
        sources = [*own.values(), *firsts]
        again = outer.gradient([g for g, _ in chosen], sources, [s for _, s in chosen])
        if any(one is not None for place, one in zip(own, again, strict=False) if place in inner):
            raise GradientError(
                f"{self.name}: backward reads a saved array that is neither an argument nor an output, so it cannot "
                "be differentiated again; save those, or return that array as an output too"
            )
        again = [_zeros(source) if one is None else one for source, one in zip(sources, again, strict=True)]
        again = _apart([*args, *results, *cotangents, *seconds], again)
        gradients, left = dict(zip(own, again, strict=False)), iter(again[len(own) :])
        return [
            *(gradients.get((True, i)) for i in self.floating),
            *(None if one is None else next(left) for one in cotangents),
            *(gradients[place] for place in places if not place[0]),
        ]


def _zeros(like: Any) -> Array:
    return creation.zeros(like.shape, dtype=like.dtype, device=like.device)


def plain_key(value: Any) -> tuple[type, Any]:
    """A key of a plain argument, distinct for 0.0 and -0.0, and one for NaN."""
    return type(value), repr(value) if isinstance(value, float) else value


def _alone(where: Device, call: Callable[..., Any], *args: Any) -> Any:
    """What a call returns without the tapes of this thread, with new arrays on ``where``."""
    if (opened and active()) or current() is not where:
        with device(where), tape.stop_recording():
            return call(*args)
    return call(*args)


def _place(kept: Any, args: Sequence[Any], made: list[Any]) -> Place | None:
    """Where a saved array is found again; one that is neither argument nor result becomes a further result."""
    if kept is None:
        return None
    for i, one in enumerate(args):
        if one is kept:
            return True, i
    for i, one in enumerate(made):
        if one is kept:
            return False, i
    made.append(kept)
    return False, len(made) - 1


def _same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal in type and value, NaN and the sign of zero included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray):
        return (one.dtype.str, one.shape, one.tobytes()) == (other.dtype.str, other.shape, other.tobytes())
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    return bool(one == other)


def _told(saved: Sequence[Place | None]) -> str:
    each = ["None" if one is None else f"{'argument' if one[0] else 'result'} {one[1]}" for one in saved]
    return ", ".join(each) or "nothing"


def _apart(args: Sequence[Any], made: Sequence[Any]) -> list[Any]:
    """``made`` in C order, with copies of what shares memory with an argument or with one before it; None stays."""
    taken = [arg._storage for arg in args if isinstance(arg, Array)]
    result: list[Any] = []
    for one in made:
        if one is None:
            result.append(None)
            continue
        storage = one._storage
        if storage in taken or storage.constant:
            one = copied(one)
        if not (one._layout or one._planned()).contiguous:
            one = one.contiguous()
        taken.append(one._storage)
        result.append(one)
    return result


def likes(found: Any, name: str) -> list[Like]:
    """What a rule has returned: an array or a pair of shape and dtype, or a list or tuple of these.

    Raises:
        TypeError: it is something else.
    """
    pair = isinstance(found, tuple) and len(found) == 2 and not isinstance(found[1], (tuple, list, Array))
    each = found if isinstance(found, (list, tuple)) and not pair and not isinstance(found, Like) else [found]
    result = []
    for one in each:
        if hasattr(one, "shape") and hasattr(one, "dtype"):
            shape, dtype = one.shape, one.dtype
        elif isinstance(one, tuple) and len(one) == 2:
            shape, dtype = one
        else:
            raise TypeError(
                f"{name}: outputs: expected an argument, or (shape, dtype), for each output, got {one!r}"
            )
        shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        result.append(Like(shape, dtypes.as_dtype(dtype, "outputs")))
    return result


def parameter(name: str, example: Any, default: Any = None) -> Parameter:
    """The parameter of which ``example`` is an argument.

    Raises:
        TypeError: neither an array nor a number, bool or string.
    """
    if isinstance(example, Array):
        return Parameter(name, "Tensor", is_float(example.dtype))
    kind = next((word for type_, word in PLAIN.items() if isinstance(example, type_)), None)
    if kind is None:
        raise TypeError(
            f"{name}: an operator takes arrays, numbers, bools and strings; the example is {type(example).__name__}"
        )
    return Parameter(name, kind, False, default)


def library(name: str, purpose: str) -> Any:
    """An optional package.

    Raises:
        ImportError: it is not installed; the message says for what it is needed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise ImportError(f"{purpose} needs the package {name}: pip install {name}", name=name) from error
