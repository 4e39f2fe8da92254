"""``jit``: run a function of arrays in few kernels, each of which computes many of its operations."""

from __future__ import annotations

import dis
import functools
import inspect
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

from . import pytree
from .array import Array
from .array.batched import in_progress
from .array.deferred import trace
from .array.donated import Donation
from .autodiff import tape
from .autodiff.cotangents import is_array
from .cache import Cache
from .capture import ARRAYS, Captured, form_of, is_input, owners_of
from .device import capture_hooks, current
from .device.precision import get_matmul_precision
from .dtypes import get_default_dtype, info

if TYPE_CHECKING:
    from .elementwise.launches import Launched
    from .elementwise.trace import Trace
    from .kernel.plan import BoundLaunch

P = ParamSpec("P")
#: One or several names or positions of arguments.
_Names = str | int | Sequence[str | int]
R = TypeVar("R")

#: Launches from which a function on a GPU is replayed as a graph, if its arguments and results are small.
_MANY_LAUNCHES = 6
#: Bytes of arguments and results up to which a function on a GPU is replayed as a graph, which copies them; and up to
#: which both ways are timed.
_SMALL_BYTES, _MOST_BYTES = 1 << 22, 1 << 28
#: Calls of each way that are timed, and those of a graph before it is replayed.
_TIMED, _RECORDINGS = 2, 2


@overload
def jit(
    function: None = None, *, donate: _Names = (), static: _Names = ()
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@overload
def jit(function: Callable[P, R], *, donate: _Names = (), static: _Names = ()) -> Jitted[P, R]: ...
def jit(function: Callable[P, R] | None = None, *, donate: _Names = (), static: _Names = ()) -> Any:
    """Run ``function`` in few kernels: what is elementwise in it is computed by the kernels of what reads it.

    While the function runs, its elementwise operations and views make expressions. One kernel computes an expression
    when something needs the array: a product, a function that is no elementwise one, a write, the end of the function.
    Reductions compute the expression that they reduce. So a stencil of slices is one kernel, and so are the steps of a
    loop, what follows a product, and all results of one shape. Anything may stand in the function: tapes, optimizers,
    writes to arrays, modules, random numbers. What is not elementwise runs as it always does.

    After two calls with arguments of one form (dtypes, shapes, orders in memory, numbers), what was launched is known.
    If the function did nothing else, later calls repeat the launches, without the function's Python: numbers in it are
    constants, arrays to which it referred are read anew. Else it is captured on a GPU, as by :func:`capture`, whose
    rules hold; on the host its Python runs in each call, as it does everywhere if its numbers differ from call to call,
    or while a tape records outside of it. A Python number may not be made of an array in it.

    Args:
        function: takes pytrees of arrays, modules and hashable constants, and returns a pytree.
        donate: names or positions of arguments whose arrays are given away (JAX's ``donate_argnames``): calls that are
            repeated write results of the same form to their memory where nothing reads it later, and free it as soon as
            they can. Reading such an array after the call is an error. While a tape records outside, within another
            jitted function and in a ``vmap`` nothing is given away.
        static: names or positions of arguments that are one hashable value each: calls with equal ones have the same
            form. Of others that are no arrays, numbers, strings and the like count as equal, objects as themselves.

    Raises:
        TypeError: the function is a generator or a coroutine, whose text would run after the call.
        ValueError: it has no such argument.
        CaptureError: when called: the function reads values of an array, as ``if`` and ``float`` do.
        TypeError: when called: an argument can be no part of a form; or a parameter is to be given away.
        ValueError: when called: an array is given away that is another argument, too.
        RuntimeError: when called: an array was given away before.

    >>> import cukern as ck
    >>> @ck.jit
    ... def smooth(x):
    ...     return (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    >>> smooth(ck.asarray([0.0, 4.0, 8.0, 4.0])).tolist()
    [4.0, 6.0]
    >>> len(smooth.launches(ck.asarray([0.0, 4.0, 8.0, 4.0])))
    1
    """
    if function is None:
        return functools.partial(jit, donate=donate, static=static)
    for is_kind, kind in _LATER:
        if is_kind(function):
            raise TypeError(
                f"jit: expected a function that returns arrays, got the {kind} {function.__qualname__}, whose text "
                "runs after the call: jit a function of one of its steps"
            )
    return Jitted(function, donate, static)


_LATER: tuple[tuple[Callable[[object], bool], str], ...] = (
    (inspect.isgeneratorfunction, "generator"),
    (inspect.iscoroutinefunction, "coroutine"),
    (inspect.isasyncgenfunction, "asynchronous generator"),
)
#: The modules of the host whose numbers differ from call to call.
_CHANCE = ("datetime", "numpy.random", "random", "secrets", "time")


def _chance_in(function: Callable[..., Any]) -> str:
    """What a function's text calls of the host's clocks or random numbers, which replays do not call; or ""."""
    if not inspect.isfunction(function):
        return ""
    outside = inspect.getclosurevars(function)
    scope = {**outside.globals, **outside.nonlocals}
    path, owner = "", None
    for step in dis.get_instructions(function):
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            path = str(step.argval)
            owner = scope.get(path)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and owner is not None:
            path = f"{path}.{step.argval}"
            place = owner if inspect.ismodule(owner) or inspect.isclass(owner) else type(owner)
            home = place.__name__ if inspect.ismodule(place) else place.__module__
            found = getattr(place, str(step.argval), None)
            if any(f"{home}.".startswith(f"{one}.") for one in _CHANCE) and inspect.isroutine(found):
                return path
            owner = found if inspect.ismodule(found) or inspect.isclass(found) else None
        else:
            owner = None
    return ""


class _State(Enum):
    """How the next call of a form runs the function."""

    TRACED = 0
    #: As it is, on the host, where arrays are computed at once: to see whether that takes less time.
    TRIED = 1
    #: As it is, since that took less.
    PLAIN = 2
    CAPTURED = 3
    REPLAYED = 4
    #: By the launches, then as a graph, on a GPU, to see which takes less time.
    TIMED = 5


class _Static:
    """A static argument: a leaf of a form."""

    __slots__ = ("_key",)

    def __init__(self, value: Any) -> None:
        self._key = type(value), value

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key


def _are_different(leaves: Sequence[Any]) -> bool:
    """Whether leaves are arrays, none of them a parameter and none twice."""
    return ARRAYS.issuperset(map(type, leaves)) and len(set(map(id, leaves))) == len(leaves)


def _names_of(function: Callable[..., Any], chosen: _Names, option: str) -> dict[int | str, str]:
    """The names of chosen arguments, by these and by positions."""
    names = list(inspect.signature(function).parameters)
    found: dict[int | str, str] = {}
    for one in [chosen] if isinstance(chosen, (str, int)) else chosen:
        at = names.index(one) if one in names else one
        if not isinstance(at, int) or not 0 <= at < len(names):
            listed = ", ".join(f"{i} {name}" for i, name in enumerate(names))
            raise ValueError(f"jit: {option}: expected names or positions of {listed}, got {one!r}")
        found |= {at: names[at], names[at]: names[at]}
    return found


def _among(chosen: dict[int | str, str], args: Any, kwargs: Any) -> list[tuple[str, Any]]:
    """The names and values of chosen arguments of a call."""
    return [(chosen[i], one) for i, one in (*enumerate(args), *kwargs.items()) if i in chosen]


class _Known(NamedTuple):
    """What the calls of one form have shown.

    Attributes:
        form: what the last traced call did, and the numbers in it.
        state: how the next one runs.
        seconds: what the traced call took before it is tried without a trace; or the launches, before the graph is.
        replay: repeats the launches with the arrays of a call, and returns its results.
        captured: the function as a graph.
        turn: how many calls have been timed.
        fixed: for each array among the arguments, whether another one is just there, if all traced calls had it there
            and the function may refer to it by another name, too; None where these calls differ.
    """

    form: Any
    state: _State = _State.TRACED
    seconds: float = 0.0
    replay: Callable[[list[Array]], Any] = list
    captured: Any = None
    turn: int = 0
    fixed: tuple[Callable[[Array], bool] | None, ...] = ()

    def shows(self, arrays: Sequence[Array]) -> bool:
        """Whether traced calls have shown what one with these arguments does."""
        if self.state not in (_State.REPLAYED, _State.TIMED):
            return True
        return not self.fixed or all(one is None or one(x) for one, x in zip(self.fixed, arrays, strict=True))


class Jitted(Generic[P, R]):
    """A function that runs in few kernels; made by :func:`jit`."""

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], donate: _Names = (), static: _Names = ()) -> None:
        functools.update_wrapper(self, function)
        self._donate = _names_of(function, donate, "donate") if donate != () else {}
        self._static = _names_of(function, static, "static") if static != () else {}
        self._function = function
        self._name = getattr(function, "__name__", "function").strip("<>")
        self._known: Cache[Any, _Known] = Cache()
        #: By the forms of arguments: by those of launches, what a user gave instead of them.
        self._given: dict[Any, dict[Any, BoundLaunch]] = {}
        self._replaced = capture_hooks.replaced

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function as a method of ``instance``."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted {self._name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function; within another one that is traced, or that runs for a batch, as a part of it."""
        if trace() is not None or in_progress():
            return self._function(*args, **kwargs)
        if tape.active() or capture_hooks.recorder() is not None:
            return self._traced(*args, **kwargs)
        if self._replaced != capture_hooks.replaced:
            self._replaced = capture_hooks.replaced
            self._known.clear()
        key, arrays = self._form(args, kwargs)
        if not self._donate:
            return self._call(key, arrays, args, kwargs)
        donation = Donation(_among(self._donate, args, kwargs), arrays, self._name)
        result: R = donation.ended(self._call(key, arrays, args, kwargs, lambda: donation.taken(arrays)))
        return result

    def _call(
        self,
        key: Any,
        arrays: list[Array],
        args: Any,
        kwargs: Any,
        taken: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> R:
        """Run the function for arguments of a form; ``taken`` is how a repeated call has the donated ones."""
        try:
            known = self._known.get(key)
        except TypeError as error:
            raise TypeError(f"jit: expected arrays, modules and hashable constants; {error}") from None
        state = None if known is None else known.state if known.shows(arrays) else _State.TRACED
        if known is not None and state is _State.REPLAYED:
            from .elementwise.script import Differs

            try:
                if taken is None:
                    return known.replay(arrays)
                with taken():
                    return known.replay(arrays)
            except Differs:
                state = _State.TRACED if key in self._given else _State.PLAIN
                self._known.keep(key, known._replace(state=state))
        if known is not None and state is _State.CAPTURED:
            replay = known.captured.replay
            result: R = known.captured(*args, **kwargs) if replay is None else replay(arrays)
            return result
        if known is not None and state is _State.TIMED:
            return self._timed(key, known, arrays, args, kwargs)
        if state is _State.PLAIN:
            return self._function(*args, **kwargs)
        start = time.perf_counter()
        if known is not None and state is _State.TRIED:
            plain = self._function(*args, **kwargs)
            faster = time.perf_counter() - start < known.seconds
            last = known.turn + 1 == _TIMED  # the first call has to plan its launches
            tried = _State.PLAIN if faster else _State.TRACED if last else _State.TRIED
            self._known.keep(key, known._replace(state=tried, turn=known.turn + 1))
            return plain
        if known is None and (call := _chance_in(self._function)):
            warnings.warn(
                f"jit: {self._name} calls {call}: if two calls get the same, later ones repeat it. Draw with "
                "ck.random, or make it an argument",
                stacklevel=2,
            )
        active, result = self._run(args, kwargs, arrays)
        learnt = self._learnt(known, active, arrays, result, _among(self._donate, args, kwargs))
        repeated = known is not None and known.state is learnt.state is _State.TRACED
        if repeated and not learnt.seconds and not active.given:
            learnt = learnt._replace(state=_State.TRIED, seconds=time.perf_counter() - start)
        self._known.keep(key, learnt)
        return result

    def _timed(self, key: Any, known: _Known, arrays: list[Array], args: Any, kwargs: Any) -> R:
        """The result of a call that is timed; after the last one the faster way is known."""
        from .elementwise.script import Differs

        synchronize = arrays[0].device.synchronize
        synchronize()
        start = time.perf_counter()
        try:
            launched = known.turn < _TIMED
            result: R = known.replay(arrays) if launched else known.captured(*args, **kwargs)
        except Differs:
            self._known.keep(key, _Known(known.form, _State.PLAIN))
            return self._function(*args, **kwargs)
        synchronize()
        taken = time.perf_counter() - start
        after = known._replace(turn=known.turn + 1)
        if launched:
            after = after._replace(seconds=min(taken, known.seconds or taken))
        elif after.turn > _TIMED + _RECORDINGS and taken < known.seconds:
            after = _Known(known.form, _State.CAPTURED, captured=known.captured)
        elif after.turn == _TIMED + _RECORDINGS + _TIMED:
            after = _Known(known.form, _State.REPLAYED, replay=known.replay, fixed=known.fixed)
        self._known.keep(key, after)
        return result

    def _form(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], list[Array]]:
        """What calls that do the same have in common, and the arrays among the arguments."""
        context = get_default_dtype(), get_matmul_precision(), current()
        if not (kwargs or self._static) and _are_different(args):
            return (*context, *[x._layout or x._planned() for x in args]), list(args)
        tree: Any = args, kwargs
        for name, one in _among(self._static, args, kwargs):
            if isinstance(one, Array) or not isinstance(one, Hashable):
                raise TypeError(
                    f"jit: {name}: expected a hashable value, as it is static, got {type(one).__name__}"
                )
        if self._static:
            tree = (
                tuple([_Static(one) if i in self._static else one for i, one in enumerate(args)]),
                {k: _Static(one) if k in self._static else one for k, one in kwargs.items()},
            )
        arrays: list[Array] = []
        numbers: dict[int, int] = {}
        forms: list[Any] = [*context, pytree.containers(tree), *owners_of(tree)]
        leaves = pytree.leaves(tree)
        if _are_different(leaves):
            return (*forms, *[x._layout or x._planned() for x in leaves]), leaves
        for leaf in leaves:
            if is_array(leaf) and is_input(leaf):
                forms += (leaf._layout or leaf._planned(), numbers.setdefault(id(leaf), len(arrays)))
                arrays.append(leaf)
            else:
                forms.append(leaf if isinstance(leaf, _Static) else form_of(leaf))
        return tuple(forms), arrays

    def _run(self, args: Any, kwargs: Any, arrays: list[Array], lines: bool = False) -> tuple[Trace, R]:
        """The function's result, and the trace of it."""
        from .elementwise.trace import Trace

        given = self._given.get(self._form(args, kwargs)[0]) if self._given else None
        with Trace(self._name, arrays, strict=True, lines=lines, given=given) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        for one in () if tape.active() else active.unused.values():
            warnings.warn(
                f"jit: {self._name} no longer launches what {one.bound.signature.name} was given for: replace anew",
                stacklevel=capture_hooks.stacklevel(),
            )
        return active, result

    def _traced(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, whose elementwise operations wait."""
        return self._run(args, kwargs, [])[1]

    def _learnt(
        self, known: _Known | None, active: Trace, arrays: list[Array], result: Any, given_away: Any
    ) -> _Known:
        """What is known after the first call of a form, or another one."""
        from .elementwise.script import Replay, lies_at, taken_apart

        script = active.script
        leaves, rebuilt = taken_apart(result)
        slots = [script.slot(leaf) for leaf in leaves if isinstance(leaf, Array)]
        form = active.numbers, (*script.form(), *slots)
        learnt = _Known(
            form, seconds=0.0 if known is None else known.seconds, fixed=tuple(map(lies_at, arrays))
        )
        if known is None or not _equal(known.form[0], form[0]):  # its Python has to run
            return learnt
        concerned = [x for x in (*arrays, *leaves) if isinstance(x, Array)]
        captures = not active.given and not all(x.device.addressable for x in concerned)
        if script.open or any(leaf is None for leaf in leaves) or not _equal(known.form[1], form[1]):
            return (
                learnt._replace(state=_State.CAPTURED, captured=Captured(self._traced))
                if captures
                else learnt
            )
        away = [] if active.given else pytree.leaves(given_away)
        donated = [script.slot(x) for x in away if isinstance(x, Array)]
        many = (
            captures and not donated and len(active.kernels) >= _MANY_LAUNCHES
        )  # a graph copies its arguments
        moved = sum(x.nbytes for x in concerned)
        if many and moved <= _SMALL_BYTES:
            return learnt._replace(state=_State.CAPTURED, captured=Captured(self._traced))
        replay = Replay(script, slots, donated)
        both = zip(known.fixed or (None,) * len(arrays), arrays, strict=True)
        fixed = tuple([one if one is not None and one(x) else None for one, x in both])
        fixed = fixed if any(fixed) else ()
        constants, bare = [None if isinstance(x, Array) else x for x in leaves], isinstance(result, Array)

        def again(arrays: list[Array]) -> Any:
            if bare:
                return replay(arrays)[0]
            made = iter(replay(arrays))
            return rebuilt([next(made) if leaf is None else leaf for leaf in constants])

        if many and arrays and moved <= _MOST_BYTES:
            captured = Captured(self._traced)
            return _Known(form, _State.TIMED, replay=again, captured=captured, fixed=fixed)
        return learnt._replace(state=_State.REPLAYED, replay=again, fixed=fixed)

    def launches(self, *args: P.args, **kwargs: P.kwargs) -> list[Launched]:
        """What a call with these arguments launches; the function runs."""
        return self._run(args, kwargs, self._form(args, kwargs)[1])[0].kernels

    def source(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The text of the kernels of a call with these arguments, in the order of their launches; the function runs.

        Of what is called as it is, as a product, there is a line of comment.
        """
        texts = (one.text() or f"// {one.name}: a call" for one in self.launches(*args, **kwargs))
        return "\n".join(dict.fromkeys(texts))

    def run(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, list[Launched], list[Launched | None]]:
        """Run the function as a first call does.

        Returns:
            Its result, what it launched, and for each array of the result what of that wrote it, None for arguments.
        """
        active, result = self._run(args, kwargs, self._form(args, kwargs)[1], lines=True)
        numbers = [active.script.writer(leaf) for leaf in pytree.leaves(result) if isinstance(leaf, Array)]
        writers = [None if number is None else active.kernels[number] for number in numbers]
        return result, active.kernels, writers

    def replace(self, kernel: int | str, text: str | None, *args: P.args, **kwargs: P.kwargs) -> None:
        """Launch a kernel of your own instead of one that a call with these arguments launches; the function runs.

        Write the text from that of the kernel, ``f.launches(*args)[kernel].text()``, or anew: a kernel with the same
        parameters, for the same grid of the same blocks. It is launched in calls with arguments of this form (dtypes,
        shapes, orders in memory, device, numbers) alone, there wherever the very text that it replaces is launched
        with the same grid and numbers. If a call no longer launches that, a warning says so. Derivatives are those of
        the operations, as before.

        Args:
            kernel: its number or its name in :meth:`launches`.
            text: CUDA C++; None for the library's own again.
            args: as of a call.
            kwargs: as of a call.

        Raises:
            ValueError: ``kernel`` is none of the call's, is several, or has no text.
            LaunchError: the text's kernel takes other parameters.
            TemplateError, CompileError: the text has not one kernel, or does not compile.

        >>> import cukern as ck
        >>> more = jit(lambda x: x + 1)
        >>> x = ck.asarray([1.0, 2.0], device="host")
        >>> text = more.launches(x)[0].text()
        >>> more.replace("add", text.replace("x0[j]", "10 * x0[j]"), x)
        >>> more(x).tolist(), more(x[:1]).tolist()
        ([11.0, 21.0], [2.0])
        """
        key, arrays = self._form(args, kwargs)
        given = self._given.pop(key, {})
        try:
            launches = self._run(args, kwargs, arrays)[0].kernels
            name, ready = _chosen(launches, kernel)
            form = ready.form
            rest = {other: one for other, one in given.items() if other != form}
            given = rest if text is None else {**rest, form: ready.by(text, f"replacement of {name}")}
        finally:
            if given:
                self._given[key] = given
        self._known.clear()

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """A table of what a call with these arguments launches; the function runs.

        For each launch: what it reads and writes, the bytes, the time in which the device's memory moves them, the
        time that it took by itself, in us, and the lines of the program that it computes. Below: the bytes that
        repeated calls take at most, but what products and other calls allocate within. Times and bytes are missing
        where the function does more than to launch.
        """
        from .elementwise.script import Replay
        from .launch.cost import bandwidth

        arrays = self._form(args, kwargs)[1]
        active, result = self._run(args, kwargs, arrays, lines=True)
        slots = [active.script.slot(x) for x in pytree.leaves(result) if isinstance(x, Array)]
        del result
        active.script.end()  # what no step has made is gone by now
        device = arrays[0].device if arrays else current()
        taken: list[float] = []
        if not active.script.open:
            with device.activate():
                taken = Replay(active.script, []).timed(arrays, device.synchronize)
            away = pytree.leaves(_among(self._donate, args, kwargs))
            donated = [active.script.slot(x) for x in away if isinstance(x, Array)]
            most = Replay(active.script, slots, donated).most_bytes(arrays)
            own = sum({id(x._storage): x.nbytes for x in arrays}.values())
            end = f"memory: {own:,} bytes of arguments, and {most:,} more at most"
        else:
            end = f"not repeated without its Python: {active.script.open}"
        rows = [["launch", "reads", "writes", "bytes", "least us", "took us", "lines"]]
        for i, one in enumerate(active.kernels):
            moved = sum(x.nbytes for x in (*one.inputs, *one.outputs))
            least = f"{1e6 * moved / bandwidth(device.properties):.1f}"
            took = f"{1e6 * taken[i]:.1f}" if taken else ""
            name = f"{one.name} (replaced by {one.symbol})" if one.replaced else one.name
            rows.append(
                [name, _shapes(one.inputs), _shapes(one.outputs), f"{moved:,}", least, took, one.places]
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([*table, end])


def _chosen(launches: Sequence[Launched], kernel: int | str) -> tuple[str, BoundLaunch]:
    """The name of the launch with a number or a name, and what it was prepared of."""
    numbers = [i for i, one in enumerate(launches) if kernel in (i, one.name)]
    listed = ", ".join(f"{i} {one.name}" for i, one in enumerate(launches))
    if not numbers:
        raise ValueError(f"kernel: expected the number or the name of one of {listed}, got {kernel!r}")
    plans = [launches[i].plan for i in numbers]
    if any(plan is None or plan.ready is None or getattr(plan, "final", None) for plan in plans):
        raise ValueError(f"kernel: expected what is launched as one kernel; {kernel!r} is not, of {listed}")
    if len({plan.ready.form for plan in plans}) > 1:
        raise ValueError(f"kernel: {kernel!r} is the name of several, give the number of one of {listed}")
    return launches[numbers[0]].name, plans[0].ready


def _shapes(layouts: Any) -> str:
    """The dtypes and shapes of arrays, each once with its count."""
    found: dict[str, int] = {}
    for one in layouts:
        name = f"{info(one.dtype).name}{list(one.shape)}".replace(" ", "")
        found[name] = found.get(name, 0) + 1
    return " ".join(name if n == 1 else f"{n}x{name}" for name, n in found.items())


def _equal(before: Any, after: Any) -> bool:
    """Whether two traces did the same, as far as that can be said."""
    try:
        return bool(before == after)
    except ValueError:  # of arrays among constants
        return False
