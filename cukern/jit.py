"""``jit``: run a function of arrays in few kernels, each of which computes many of its operations."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from . import pytree
from .array import Array
from .array.batched import in_progress
from .array.deferred import trace
from .autodiff import tape
from .autodiff.cotangents import is_array
from .cache import Cache
from .capture import Captured, form_of, is_input, owners_of
from .device import capture_hooks, current
from .dtypes import get_default_dtype, info
from .elementwise.pending import Launched, Trace
from .elementwise.script import Replay, taken_apart
from .launch.cost import bandwidth

P = ParamSpec("P")
R = TypeVar("R")

#: Launches from which a function on a GPU is replayed as a graph, if its arguments and results are small.
_MANY_LAUNCHES = 6
#: Bytes of arguments and results up to which a function on a GPU is replayed as a graph, which copies them.
_SMALL_BYTES = 1 << 22


def jit(function: Callable[P, R]) -> Jitted[P, R]:
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

    Raises:
        CaptureError: when called: the function reads values of an array, as ``if`` and ``float`` do.
        TypeError: when called: an argument can be no part of a form.

    >>> import cukern as ck
    >>> @ck.jit
    ... def smooth(x):
    ...     return (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    >>> smooth(ck.asarray([0.0, 4.0, 8.0, 4.0])).tolist()
    [4.0, 6.0]
    >>> len(smooth.launches(ck.asarray([0.0, 4.0, 8.0, 4.0])))
    1
    """
    return Jitted(function)


class _Known(NamedTuple):
    """What the calls of one form have shown.

    Attributes:
        form: what the first call did, and the numbers in it.
        replay: repeats the launches, from the third call on; None if there is more to do.
        captured: whether the function is captured from the third call on.
        seconds: what the second call took, if its Python has to run on the host, where arrays are computed at once.
        plain: whether the function is called as it is, since that has taken less time.
        tried: whether there was a second call.
        leaves: the results that are no arrays, and None for each array.
        rebuilt: makes the results of their leaves.
    """

    form: Any
    replay: Replay | None = None
    captured: bool = False
    seconds: float = 0.0
    plain: bool = False
    tried: bool = False
    leaves: tuple[Any, ...] = ()
    rebuilt: Callable[[list[Any]], Any] = list


class Jitted(Generic[P, R]):
    """A function that runs in few kernels; made by :func:`jit`."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", "function").strip("<>")
        self._known: Cache[Any, _Known] = Cache()
        self._captured = Captured(self._traced)
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
        key, arrays = self._form((args, kwargs))
        try:
            known = self._known.get(key)
        except TypeError as error:
            raise TypeError(f"jit: expected arrays, modules and hashable constants; {error}") from None
        if known is not None and known.replay is not None:
            made = iter(known.replay(arrays))
            again: R = known.rebuilt([next(made) if leaf is None else leaf for leaf in known.leaves])
            return again
        if known is not None and known.captured:
            return self._captured(*args, **kwargs)
        start = time.perf_counter()
        if known is not None and known.seconds:
            plain: R = self._function(*args, **kwargs)
            if not known.plain:
                faster = time.perf_counter() - start < known.seconds
                self._known.keep(key, known._replace(plain=faster, seconds=known.seconds if faster else 0.0))
            return plain
        active, result = self._run(args, kwargs, arrays)
        learnt = self._learnt(known, active, arrays, result)
        if known is not None and not known.tried and learnt.replay is None and not learnt.captured:
            learnt = learnt._replace(seconds=time.perf_counter() - start, tried=True)
        self._known.keep(key, learnt._replace(tried=True) if known is not None else learnt)
        return result

    @staticmethod
    def _form(tree: Any) -> tuple[tuple[Any, ...], list[Array]]:
        """What calls that do the same have in common, and the arrays among the arguments."""
        arrays: list[Array] = []
        numbers: dict[int, int] = {}
        forms: list[Any] = [get_default_dtype(), pytree.containers(tree), *owners_of(tree)]
        for leaf in pytree.leaves(tree):
            if is_array(leaf) and is_input(leaf):
                forms += (leaf._layout or leaf._planned(), numbers.setdefault(id(leaf), len(arrays)))
                arrays.append(leaf)
            else:
                forms.append(form_of(leaf))
        return tuple(forms), arrays

    def _run(self, args: Any, kwargs: Any, arrays: list[Array], lines: bool = False) -> tuple[Trace, R]:
        """The function's result, and the trace of it."""
        with Trace(self._name, arrays, strict=True, lines=lines) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        return active, result

    def _traced(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, whose elementwise operations wait."""
        return self._run(args, kwargs, [])[1]

    def _learnt(self, known: _Known | None, active: Trace, arrays: list[Array], result: Any) -> _Known:
        """What is known after the first call of a form, or another one."""
        script = active.script
        leaves, rebuilt = taken_apart(result)
        slots = [script.slot(leaf) for leaf in leaves if isinstance(leaf, Array)]
        form = active.numbers, (*script.form(), *slots)
        if known is None:
            return _Known(form)
        on_host = all(leaf.device.addressable for leaf in (*arrays, *leaves) if isinstance(leaf, Array))
        if not _equal(known.form[0], form[0]):  # its Python has to run
            return _Known(form)
        if script.open or any(leaf is None for leaf in leaves) or not _equal(known.form[1], form[1]):
            return _Known(form, captured=not on_host)
        moved = sum(x.nbytes for x in (*arrays, *leaves) if isinstance(x, Array))
        if not on_host and len(active.kernels) >= _MANY_LAUNCHES and moved <= _SMALL_BYTES:
            return _Known(form, captured=True)
        constants = tuple([None if isinstance(leaf, Array) else leaf for leaf in leaves])
        return _Known(form, Replay(script, slots), leaves=constants, rebuilt=rebuilt)

    def launches(self, *args: P.args, **kwargs: P.kwargs) -> list[Launched]:
        """What a call with these arguments launches; the function runs."""
        return self._run(args, kwargs, self._form((args, kwargs))[1])[0].kernels

    def source(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The text of the kernels of a call with these arguments, in the order of their launches; the function runs.

        Of what is called as it is, as a product, there is a line of comment.
        """
        texts = (one.text() or f"// {one.name}: a call" for one in self.launches(*args, **kwargs))
        return "\n".join(dict.fromkeys(texts))

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """A table of what a call with these arguments launches; the function runs.

        For each launch: what it reads and writes, the bytes, the time in which the device's memory moves them, the
        time that it took by itself, in us, and the lines of the program that it computes. Times are missing where the
        function does more than to launch.
        """
        arrays = self._form((args, kwargs))[1]
        active, _ = self._run(args, kwargs, arrays, lines=True)
        device = arrays[0].device if arrays else current()
        taken: list[float] = []
        if not active.script.open:
            with device.activate():
                taken = Replay(active.script, []).timed(arrays, device.synchronize)
        rows = [["launch", "reads", "writes", "bytes", "least us", "took us", "lines"]]
        for i, one in enumerate(active.kernels):
            moved = sum(x.nbytes for x in (*one.inputs, *one.outputs))
            least = f"{1e6 * moved / bandwidth(device.properties):.1f}"
            took = f"{1e6 * taken[i]:.1f}" if taken else ""
            rows.append(
                [one.name, _shapes(one.inputs), _shapes(one.outputs), f"{moved:,}", least, took, _lines(one)]
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        end = f"not repeated without its Python: {active.script.open}" if active.script.open else ""
        return "\n".join([*table, *([end] if end else [])])


def _shapes(layouts: Any) -> str:
    """The dtypes and shapes of arrays, each once with its count."""
    found: dict[str, int] = {}
    for one in layouts:
        name = f"{info(one.dtype).name}{list(one.shape)}".replace(" ", "")
        found[name] = found.get(name, 0) + 1
    return " ".join(name if n == 1 else f"{n}x{name}" for name, n in found.items())


def _lines(one: Launched) -> str:
    """The lines of a launch, by file."""
    files: dict[str, list[int]] = {}
    for line in one.lines:
        path, _, number = line.rpartition(":")
        files.setdefault(os.path.basename(path), []).append(int(number))
    return " ".join(f"{name}:{','.join(map(str, sorted(numbers)))}" for name, numbers in files.items())


def _equal(before: Any, after: Any) -> bool:
    """Whether two traces did the same, as far as that can be said."""
    try:
        return bool(before == after)
    except ValueError:  # of arrays among constants
        return False
