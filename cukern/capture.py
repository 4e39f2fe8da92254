"""``capture``: record a step once as a CUDA graph and replay it, so that a call costs one launch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from . import pytree
from .array import Array, copied
from .array.deferred import computed
from .array.layout import overlap
from .autodiff import tape
from .autodiff.cotangents import is_array
from .cache import Cache, Is
from .device import Device, capture_hooks, current
from .dtypes import DType, get_default_dtype
from .errors import CaptureError
from .shape.copy import Copies
from .shape.views import permute_dims

P = ParamSpec("P")
R = TypeVar("R")

ARRAYS = frozenset((Array,))
#: Modules whose types compare by value.
_OF_VALUES = frozenset(("builtins", "datetime", "decimal", "fractions", "pathlib"))
#: Bytes of changing numbers in a step: the most that the driver copies before it returns.
_LIVE_BYTES = 65536


def capture(step: Callable[P, R]) -> Captured[P, R]:
    """Record ``step`` as one CUDA graph per form of arguments, and replay it from the third call on.

    Use it for a step whose kernels take less time than their launches, such as a whole training step with
    its tape, optimizer and random numbers. The first call with arguments of a new form compiles the kernels
    and allocates; the second records the graph and runs it. Each later call copies array arguments into the
    graph's own memory and launches the graph. Shapes, dtypes, orders of axes in memory, numbers and the default dtype
    make up the form.
    On the host, and while a tape records, ``step`` is called without recording.

    A graph replays what was recorded:

    * Python code does not run again. Numbers are constants, except that the learning rate and step count of
      cukern's optimizers and the position in a generator's stream advance.
    * Arrays that the step refers to without taking them as arguments remain the same arrays. In-place updates
      of them, as by optimizers, are part of the graph. After a module has moved to another device, steps are
      recorded anew.
    * The step works on one GPU: that of its array arguments, or the current device if there are none.
    * Arrays made of host data in the step keep the values that they had when it was recorded, with a warning if the
      data is a NumPy array, whose values may change.
    * A step that reads a value on the host (``item``, ``if x > 0``, ``x[mask]``), or copies an array of the host, is
      not recorded: a warning names the line, and its calls launch kernel after kernel, as without ``capture``.
    * What CUDA cannot record, such as decompositions of matrices, runs between two graphs.

    The results are copies, so the next call does not change them. A graph keeps the memory of its intermediate
    results for itself.

    Args:
        step: takes pytrees of arrays, modules and hashable constants, and returns a pytree of arrays.

    Raises:
        CaptureError: in a call, if the step uses several devices, or a library that a graph cannot record; or writes
            to an array argument that shares memory with another one.

    >>> import cukern as ck
    >>> w = ck.nn.Parameter(ck.asarray([3.0]))
    >>> optimizer = ck.optim.SGD([w], lr=0.25)
    >>> @capture
    ... def step(x):
    ...     with ck.Tape() as tape:
    ...         loss = ((w * x) ** 2).sum()
    ...     optimizer.step([tape.gradient(loss, w)])
    ...     return loss
    >>> [round(step(ck.asarray([1.0])).item(), 3) for _ in range(3)]
    [9.0, 2.25, 0.562]
    """
    return Captured(step)


class Captured(Generic[P, R]):
    """A step that is replayed; made by :func:`capture`.

    Attributes:
        graphs: the number of graphs recorded.
    """

    def __init__(self, step: Callable[P, R]) -> None:
        functools.update_wrapper(self, step)
        self._step = step
        self._graphs: dict[Any, _Graph | None] = {}
        # The forms of arguments for which the step is called.
        self._unrecorded: set[Any] = set()
        # Graphs for array arguments without gaps, by the default dtype and the arguments' layouts.
        self._known: Cache[tuple[Any, ...], _Graph] = Cache()
        self._replaced = capture_hooks.replaced

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The step as a method of ``instance``, which its graphs keep alive."""
        plain = instance is None or isinstance(self._step, staticmethod)
        return self if plain else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<captured {getattr(self._step, '__name__', 'step')}, {self.graphs} graphs>"

    @property
    def graphs(self) -> int:
        """The number of graphs recorded."""
        return sum(graph is not None for graph in self._graphs.values())

    @property
    def replay(self) -> Callable[[Sequence[Array]], R] | None:
        """The replay, of a step that is called with arguments of one form, for all arrays among these.

        None as long as there is no graph, and of a step that writes to them.
        """
        graphs = list(self._graphs.values())
        if len(graphs) != 1 or (graph := graphs[0]) is None or graph.writes or self._unrecorded:
            return None
        return lambda arrays: graph.replay([_in_order(one) for one in arrays])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay the graph for these arguments, or call ``step`` where none can be used."""
        if self._replaced != capture_hooks.replaced:
            self._replaced = capture_hooks.replaced
            self._graphs.clear()
            self._known.clear()
            self._unrecorded.clear()
        if not kwargs and self._known and ARRAYS.issuperset(map(type, args)):
            arrays: Any = args
            layouts = [one._layout or one._planned() for one in arrays]
            graph = self._known.get((get_default_dtype(), *layouts))
            if graph is not None and not tape.active() and capture_hooks.recorder() is None:
                known: R = graph.replay(arrays)
                return known
        return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> R:
        """Call the step with arguments that the fast lookup did not find."""
        tree = (args, kwargs)
        leaves = pytree.leaves(tree)
        inputs = [leaf for leaf in leaves if is_input(leaf)]
        homes = [leaf.device for leaf in leaves if is_array(leaf)] or [current()]
        device = next((home for home in homes if not home.addressable), homes[0])
        if device.addressable or tape.active() or capture_hooks.recorder() is not None:
            return self._step(*args, **kwargs)
        other = next((home for home in homes if home is not device), None)
        if other is not None:
            raise CaptureError(
                f"capture: {_name(self._step)}: expected arrays on one device, got {device} and {other}"
            )
        owners = tuple(owners_of(tree))
        key = (device, get_default_dtype(), pytree.containers(tree), owners, *map(form_of, leaves))
        try:
            graph = self._graphs.get(key)
        except TypeError as error:
            raise TypeError(f"capture: expected arrays, modules and hashable constants; {error}") from None
        if key not in self._graphs or key in self._unrecorded:
            self._graphs[key] = None
            return self._step(*args, **kwargs)
        with device.activate():
            if graph is None:
                graph = _Graph(self._step, tree, inputs, device)
                if graph.left:
                    self._unrecorded.add(key)
                    graph.return_writes(inputs)
                    own: R = graph.result
                    return own
            graph.refuse_shared(inputs, _name(self._step))
            self._graphs[key] = graph
            result: R = graph.replay([_in_order(one) for one in inputs])
            graph.return_writes(inputs)
        if not kwargs and inputs and not graph.writes and ARRAYS.issuperset(map(type, args)):
            layouts = tuple([one._planned() for one in args])
            if all(one.order is not None for one in layouts):
                self._known.keep((get_default_dtype(), *layouts), graph)
        return result


def is_input(leaf: Any) -> bool:
    """Whether a leaf is copied into the graph's memory; parameters and modules are used in place."""
    return is_array(leaf) and not getattr(leaf, "_is_parameter", False)


def owners_of(tree: Any) -> Iterator[Is]:
    """The identities of modules among arguments: their attributes that are no parameters are constants of a graph."""
    if (module := getattr(tree, "_of_module", None)) is not None:
        yield Is(module)
    elif isinstance(tree, (list, tuple, dict)):
        children = tree.values() if isinstance(tree, dict) else tree
        for one in () if pytree.are_leaves(children) else children:
            yield from owners_of(one)


def _is_value(leaf: Any) -> bool:
    """Whether what equals an object has the same attributes: of others, such as a method's owner, each is its own."""
    kind = type(leaf)
    frozen = getattr(kind, "__dataclass_params__", None)
    return (
        kind.__module__ in _OF_VALUES
        or isinstance(leaf, (np.generic, np.dtype, Device, Enum))
        or (frozen is not None and frozen.frozen)
    )


def form_of(leaf: Any) -> Any:
    if not is_array(leaf):
        return type(leaf), repr(leaf) if isinstance(leaf, float) else leaf if _is_value(leaf) else Is(leaf)
    if not is_input(leaf):
        return Is(leaf)
    return leaf.shape, leaf.dtype, leaf.device, leaf._planned().order or tuple(range(leaf.ndim))


class _Graph:
    """One recorded step: its graphs, and the memory that they read and write.

    Attributes:
        result: what the step returned.
        left: whether the step ended the recording, and has run.
    """

    def __init__(self, step: Callable[..., Any], tree: Any, inputs: Sequence[Array], device: Device) -> None:
        self.device = device
        self._cuda: Any = device.xp.cuda
        self._current = self._cuda.runtime.getDevice
        self._pool = self._cuda.MemoryPool()
        # The call before kept as much for its intermediate results, which no replay uses.
        device.backend.free_unused()
        self._tree = tree  # keeps the modules and parameters that the graph uses alive
        self._values: list[tuple[int, DType, Callable[[], Sequence[Any]]]] = []
        self._after: dict[object, Callable[[], None]] = {}
        self._writes: dict[int, tuple[Array, str]] = {}
        self._joins: list[Callable[[], object]] = []
        self._order: list[tuple[str, Any]] = []
        self._host = np.zeros(_LIVE_BYTES, np.uint8)
        self._used = 0
        self._workspaces: dict[int, Any] = {}
        self._constants: list[Any] = []
        self._outer, self._stream = self._cuda.get_current_stream(), self._cuda.Stream(non_blocking=True)
        # Each graph before the last, what runs behind it, and the ndarrays that this makes.
        self._parts: list[tuple[Any, Callable[[], Sequence[Any]], Sequence[Any]]] = []
        self.left = self._failed = False
        with self._cuda.using_allocator(self._pool.malloc):
            self._live = device.xp.zeros(_LIVE_BYTES, np.uint8)
            self._inputs = [_copied(one) for one in inputs]
            self._refresh = Copies(device, self._inputs, into=True)
        versions = [one._storage.version for one in self._inputs]
        leaves = iter(self._inputs)
        own = pytree.map(lambda leaf: next(leaves) if is_input(leaf) else leaf, tree)
        self.result, self._graph = self._record(step, own)
        before = zip(self._inputs, versions, strict=True)
        #: The numbers of the arguments that the step writes to.
        self.writes = [i for i, (one, version) in enumerate(before) if one._storage.version != version]
        if self.left:
            return
        self._leaves = pytree.leaves(self.result)
        self._places = [i for i, leaf in enumerate(self._leaves) if is_input(leaf)]
        results = [self._leaves[i] for i in self._places]
        for one in results:
            self.enter(one.device)
        self._forms = [one._planned() for one in results]
        self._hand_out = Copies(device, results, into=False)
        #: Whether all but the last graph have run, with the arguments of the call.
        self._fresh = True

    def _record(self, step: Callable[..., Any], tree: Any) -> tuple[Any, Any]:
        stream, graph = self._stream, None
        args, kwargs = tree
        with stream, self._cuda.using_allocator(self._pool.malloc):
            stream.begin_capture()
            capture_hooks.begin(self)
            try:
                result = pytree.map(_in_order, step(*args, **kwargs))
                self._join()
                if self._failed:
                    self._warn("catches an error of what runs between its graphs")
            except (RuntimeError, NotImplementedError) as error:
                if capture_hooks.recorder() is not self or "captur" not in str(error):
                    raise
                raise CaptureError(
                    f"capture: {_name(step)} does something that a graph cannot record, such as reading "
                    f"a value on the host ({error})"
                ) from error
            finally:
                if capture_hooks.recorder() is self:
                    capture_hooks.begin(None)
                    # The step may have ended the recording.
                    with suppress(self._cuda.runtime.CUDARuntimeError):
                        graph = stream.end_capture()
                if self.left or self._parts:
                    stream.synchronize()
        if graph is None and not self.left:
            raise CaptureError(f"capture: {_name(step)} does something that a graph cannot record")
        return result, graph

    def _run(self) -> Any:
        """Run what has been recorded, and return its graph."""
        self._join()
        capture_hooks.begin(None)
        graph = self._stream.end_capture()
        event = self._cuda.Event(disable_timing=True)
        event.record(self._outer)
        self._stream.wait_event(event)
        self._send(self._stream)
        graph.launch(self._stream)
        return graph

    def between(self, call: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """See :func:`.device.capture_hooks.between`."""
        graph = self._run()
        try:
            made = call()
        except BaseException:  # if the step catches it, it goes on without a graph
            self._failed = True
            self._go_on()
            raise
        self._parts.append((graph, call, made))
        self._stream.begin_capture()
        capture_hooks.begin(self)
        return made

    def leave(self, why: str) -> None:
        """See :func:`.device.capture_hooks.leave`."""
        self._run()
        self._go_on()
        self._warn(why)

    def _go_on(self) -> None:
        """Let the step, of which all that was recorded has run, go on without a graph."""
        for action in self._after.values():
            action()
        self.left = True

    @staticmethod
    def _warn(why: str) -> None:
        warnings.warn(
            f"capture: the step {why}; it is not recorded: each call launches its kernels one after another, as "
            "without capture",
            stacklevel=capture_hooks.stacklevel(),
        )

    def return_writes(self, inputs: Sequence[Array]) -> None:
        """Write to the arguments of the call what the step has written to its own copies of them."""
        for i in self.writes:
            inputs[i][...] = self._inputs[i]

    def refuse_shared(self, inputs: Sequence[Array], name: str) -> None:
        """Refuse an argument that the step writes to if its memory is another one's, too: the graph has a copy of each.

        Raises:
            CaptureError: there is one.
        """
        for i in self.writes:
            for j, other in enumerate(inputs):
                own = inputs[i]
                if i != j and other._storage is own._storage and overlap(own, other):
                    raise CaptureError(
                        f"capture: {name} writes to an array argument of shape {own.shape} that shares memory with "
                        f"another one of shape {other.shape}: give it a copy"
                    )

    def numbers(self, dtype: DType, values: Callable[[], Sequence[Any]]) -> Array:
        """See :func:`.device.capture_hooks.numbers`."""
        data = np.asarray(values(), dtype)
        start, end = self._used, self._used + data.nbytes
        if end > _LIVE_BYTES:
            raise CaptureError(f"capture: more than {_LIVE_BYTES} bytes of numbers that change between steps")
        self._used = end + -end % 16
        self._host[start:end] = data.view(np.uint8)
        self._order.append(("numbers", (start, end, dtype, values)))
        return Array._wrap(self._live[start:end].view(dtype), self.device)

    def repeat(self, action: Callable[[], None]) -> None:
        """See :func:`.device.capture_hooks.repeated`."""
        self._order.append(("action", action))

    def launched(self, key: object, action: Callable[[], None]) -> None:
        """Run ``action`` after each launch of the graph; of several of one ``key`` the first."""
        self._after.setdefault(key, action)

    def join(self, action: Callable[[], object]) -> None:
        """See :func:`.device.capture_hooks.joined`."""
        self._joins.append(action)

    def _join(self) -> None:
        for action in self._joins:
            action()
        self._joins.clear()

    def end(self, why: str) -> None:
        """Give the graph back, and let later replays raise."""
        self._graph = _Ended(why)

    def workspace(self, nbytes: int, stream: int) -> Any:
        """A library's workspace that only this graph uses, for the launches of a stream that is recorded."""
        if stream not in self._workspaces:
            self._workspaces[stream] = self._pool.malloc(nbytes)
        return self._workspaces[stream]

    def constant(self, make: Callable[[], Any]) -> Any:
        """An ndarray of host data, which is copied now, and kept for all replays."""
        side = self._cuda.Stream(non_blocking=True)
        with side:
            result = make()
        side.synchronize()
        self._constants.append(result)
        return result

    def written(self, array: Array, writer: str) -> None:
        """Note that the step writes to ``array``."""
        self._writes[id(array._storage)] = (array, writer)

    def enter(self, device: Device) -> None:
        """Refuse a device other than the graph's."""
        if device is not self.device:
            raise CaptureError(
                f"capture: a step on {self.device} works on {device} as well, which is not recorded"
            )

    def _advance(self) -> None:
        """The numbers of the next replay, in the order in which the step requested them."""
        for kind, what in self._order:
            if kind == "action":
                what()
            else:
                start, end, dtype, values = what
                self._host[start:end] = np.asarray(values(), dtype).view(np.uint8)

    def _send(self, stream: Any) -> None:
        """Copy the changing numbers to the graph's memory."""
        if self._used:  # pageable memory: the driver has copied it when the call returns
            runtime = self._cuda.runtime
            to, at = self._live.data.ptr, self._host.ctypes.data
            runtime.memcpyAsync(to, at, self._used, runtime.memcpyHostToDevice, stream.ptr)

    def replay(self, inputs: Sequence[Array]) -> Any:
        """Run the graphs on arrays without gaps in the recorded orders; return copies of its results."""
        if self._current() != self.device.index:
            with self.device.activate():
                return self.replay(inputs)
        parts = () if self._fresh else self._parts
        if self._fresh:
            self._fresh = False
        else:
            self._advance()
            self._refresh(inputs)
        stream = self._cuda.get_current_stream()
        if parts and isinstance(self._graph, _Ended):
            self._graph.launch(stream)
        self._send(stream)
        for graph, call, made in parts:
            graph.launch(stream)
            for old, new in zip(made, call(), strict=True):
                old[...] = new
        self._graph.launch(stream)
        for action in self._after.values():
            action()
        for array, writer in self._writes.values():
            array._bump(writer)
        copies = [Array._made(layout) for layout in self._forms]
        self._hand_out(copies)
        leaves = list(self._leaves)
        for place, copy in zip(self._places, copies, strict=True):
            leaves[place] = copy
        return pytree.replace(self.result, leaves)


class _Ended:
    """In the place of a graph that was given back."""

    def __init__(self, why: str) -> None:
        self._why = why

    def launch(self, stream: Any) -> None:
        raise CaptureError(f"capture: the recorded step cannot run again: {self._why}")


def _copied(one: Array) -> Array:
    """A copy without gaps, in the same order in memory if ``one`` has no gaps either."""
    order = one._planned().order or tuple(range(one.ndim))
    result = permute_dims(copied(permute_dims(one, order)), [order.index(axis) for axis in range(one.ndim)])
    result._planned()
    return result


def _in_order(leaf: Any) -> Any:
    """An input array, in C order if it has gaps; other leaves unchanged."""
    if not is_input(leaf):
        return leaf
    computed(leaf)
    if leaf._planned().order is not None:
        return leaf
    result = leaf.contiguous()
    result._planned()
    return result


def _name(step: Callable[..., Any]) -> str:
    return getattr(step, "__name__", "the step")
