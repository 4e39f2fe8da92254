"""Collectives of GPU arrays by NCCL, through CuPy, on the current stream or beside it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from .. import dtypes
from ..device import Device, capture_hooks
from ..errors import DistributedError
from .environment import RankInfo, is_loopback
from .member import Member

#: Seconds between two looks of the watchdog threads.
_LOOK_SECONDS = 0.2
#: Seconds that the ranks may take to hear which of them is gone, once NCCL has noticed that one is.
_SECONDS_TO_HEAR = 1.0
#: Seconds that NCCL may take to abort collectives and free its memory.
_SECONDS_TO_ABORT = 5.0


def library(info: RankInfo | None = None) -> Any:
    """CuPy's module ``cupy.cuda.nccl``.

    Args:
        info: that of this process in its job, if it has one.

    Raises:
        DistributedError: NCCL is missing.
    """
    # Ranks of one machine find each other at its loopback address; without this, they listen at another one. Nothing
    # asks NCCL's own watch, which listens too.
    if info is not None and is_loopback(info.address):
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_RAS_ENABLE", "0")
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise DistributedError(f"NCCL needs CuPy ({error}): pip install cukern[cuda12,nccl12]") from None
    if not nccl.available:
        raise DistributedError("NCCL is not here: pip install cukern[nccl12] or cukern[nccl13]")
    return nccl


class Work:
    """A collective on a stream: ``done`` is the event of its end, if that stream is not the current one."""

    def __init__(self, device: Device, done: Any, begun: _Begun, member: Member | None, about: str) -> None:
        self._device, self._done, self._begun = device, done, begun
        self._member, self._about = member, about

    def wait(self) -> None:
        """Let later launches on the current stream wait for the results."""
        if self._member is not None:
            self._member.check(self._about)
        if self._done is not None:
            with self._device.activate():
                self._device.xp.cuda.get_current_stream().wait_event(self._done)
        self._begun.held = ()


class _Later:
    """A collective that begins together with others."""

    work: Work | _Later | None = None

    def wait(self) -> None:
        """As :meth:`Work.wait`."""
        assert self.work is not None  # the block in which they were called has ended
        self.work.wait()


class _Begun:
    """A collective, or a graph with some, under watch: ``event`` is its end, once it is on a stream.

    ``held``: its arrays, until it is waited for or has ended.
    """

    def __init__(self, about: str, held: Sequence[Any] = ()) -> None:
        self.about, self.began, self.held = about, time.monotonic(), held
        self.event: Any = None
        self.over = False

    def done(self) -> bool:
        """Whether it has finished."""
        event = self.event
        return self.over or (event is not None and bool(event.done))

    def ended(self) -> bool:
        """Wait until it has finished, if it is on a stream; whether it is."""
        if not self.over and self.event is not None:
            self.event.synchronize()
        return self.over or self.event is not None

    def given_event(self) -> Any:
        """Hand the event of an ended collective to the caller."""
        event, self.over, self.event = self.event, True, None
        return event


class Engine:
    """The collectives of one group on one GPU.

    Args:
        nccl: CuPy's module.
        size, rank: of the group, and of this process in it.
        unique: NCCL's identifier of the group, from its first rank.
        member: whose failure ends what waits; None in a job of one.
        timeout: seconds after which a collective that has not finished is aborted.
    """

    def __init__(
        self,
        nccl: Any,
        device: Device,
        size: int,
        rank: int,
        unique: bytes,
        member: Member | None,
        timeout: float,
    ) -> None:
        self._nccl, self._device, self._size, self._rank = nccl, device, size, rank
        self._member, self._timeout = member, timeout
        self._errors = (nccl.NcclError, KeyError)  # CuPy looks up the names of errors, of which it knows some
        cuda = device.xp.cuda
        with device.activate():
            self._communicator = nccl.NcclCommunicator(size, unique, rank)
            # Its kernels begin before others that are ready, as other GPUs wait for them.
            self._stream = cuda.Stream(non_blocking=True, priority=-1)
        same = {dtypes.complex64: "FLOAT32", dtypes.complex128: "FLOAT64"}
        known = "int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split()
        same |= {getattr(dtypes, name): name.upper() for name in known}
        self._types = {dtype: getattr(nccl, f"NCCL_{name}") for dtype, name in same.items()}
        self._operations = {
            "sum": nccl.NCCL_SUM,
            "prod": nccl.NCCL_PROD,
            "max": nccl.NCCL_MAX,
            "min": nccl.NCCL_MIN,
            "mean": nccl.NCCL_AVG,
        }
        #: Those that begin together: their arrays, the call, and what stands for it.
        self._queued: list[tuple[Sequence[Any], Any, _Later]] | None = None
        #: Collectives that have not finished.
        self._begun: deque[_Begun] = deque()
        #: Events of finished ones, for the program's thread to destroy; see :meth:`_look`.
        self._spent: deque[Any] = deque()
        #: CUDA's error when :meth:`_look` waited for one; empty if there was none.
        self._broken = ""
        #: The graphs that have collectives of this engine.
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closed, self._ending, self._over = threading.Event(), threading.Lock(), False
        if member is not None:
            program = threading.get_ident()
            for target, arguments in ((self._look, ()), (self._watch, (program,))):
                threading.Thread(target=target, args=arguments, name="cukern NCCL", daemon=True).start()

    def carrier(self, dtype: dtypes.DType) -> dtypes.DType:
        """The dtype in which elements are reduced: NCCL knows no integers of 16 bits."""
        return dtypes.int32 if dtype in (dtypes.int16, dtypes.uint16) else dtype

    def averages(self, dtype: dtypes.DType) -> bool:
        """Whether ``"mean"`` is a reduction, as precise as a sum that is divided.

        NCCL multiplies elements by ``1 / size`` before it adds them, in ``dtype``. That is exact for powers of two,
        except where a product is subnormal, as with small gradients of float16.
        """
        power = self._size & (self._size - 1) == 0
        return power and dtypes.info(dtype).kind in "fc" and dtype != dtypes.float16

    @contextmanager
    def together(self, about: str, aside: bool = False) -> Iterator[None]:
        """Begin the collectives that are called in the block at its end, as one launch."""
        queued = self._queued = list[tuple[Sequence[Any], Any, _Later]]()
        try:
            yield
        finally:
            self._queued = None

        def call(stream: int) -> None:
            self._nccl.groupStart()
            for _, one, _ in queued:
                one(stream)
            self._nccl.groupEnd()

        if queued:
            work = self._start(about, [held for held, *_ in queued], call, aside)
            for *_, later in queued:
                later.work = work

    def _start(self, about: str, held: Sequence[Any], call: Any, aside: bool = False) -> Work | _Later:
        """Run ``call`` with the current stream, or ``aside``: with the engine's, after what is on the current one."""
        if self._queued is not None:
            self._queued.append((held, call, _Later()))
            return self._queued[-1][-1]
        cuda, done = self._device.xp.cuda, None
        self._spent.clear()
        if self._member is not None:
            self._member.check(about)
        recorder = capture_hooks.recorder()
        with self._device.activate():
            current = stream = cuda.get_current_stream()
            if aside:
                stream, before = self._stream, cuda.Event(disable_timing=True)
                before.record(current)
                stream.wait_event(before)
            begun = _Begun(about, held)
            if self._member is not None:  # before the call, which waits for ranks that have no connection yet
                self._begun.append(begun)
            try:
                call(stream.ptr)
                if aside or recorder is None:
                    done = cuda.Event(block=True, disable_timing=True)
                    done.record(stream)
            except self._errors as error:
                raise self._failed(about, f"NCCL: {error}") from None
            except BaseException:
                begun.over = True  # nothing tells when it ends
                raise
        if recorder is None:
            begun.event = done
        else:
            begun.over = True
            self._graphs.add(recorder)
            recorder.launched(self, partial(self._replayed, f"a captured step with {about}"))
        return Work(self._device, done if aside else None, begun, self._member, about)

    def _replayed(self, about: str) -> None:
        """Note that a graph with collectives was launched."""
        self._spent.clear()
        if self._member is not None:
            self._member.check(about)
            begun = _Begun(about)
            event = self._device.xp.cuda.Event(block=True, disable_timing=True)
            event.record(self._device.xp.cuda.get_current_stream())
            begun.event = event
            self._begun.append(begun)

    def _failed(self, about: str, why: str) -> DistributedError:
        if self._member is None:
            return DistributedError(f"{about}: {why}")
        why = self._member.heard(_SECONDS_TO_HEAR) or why
        self._member.told = True  # before the watch, which would tell the program too, can see the failure
        self._member.fail(f"{about}: {why}")
        return self._member.error(about, why)

    def _counted(self, data: Any) -> tuple[int, int]:
        """The number of elements that NCCL reduces, and their type."""
        parts = 2 if data.dtype.kind == "c" else 1
        return data.size * parts, self._types[data.dtype]

    def all_reduce(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work | _Later:
        """Reduce ``data`` over the ranks."""
        given = data.data.ptr, out.data.ptr, *self._counted(data), self._operations[op]
        return self._start(about, (data, out), partial(self._communicator.allReduce, *given), aside)

    def reduce_scatter(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work | _Later:
        """Reduce ``data`` over the ranks, and give each an equal part of the result."""
        given = data.data.ptr, out.data.ptr, *self._counted(out), self._operations[op]
        return self._start(about, (data, out), partial(self._communicator.reduceScatter, *given), aside)

    def all_gather(self, data: Any, out: Any, about: str, aside: bool = False) -> Work | _Later:
        """Put the ``data`` of all ranks into ``out``, one after another."""
        given = data.data.ptr, out.data.ptr, data.nbytes, self._nccl.NCCL_UINT8
        return self._start(about, (data, out), partial(self._communicator.allGather, *given), aside)

    def broadcast(self, data: Any, root: int, about: str) -> Work | _Later:
        """Fill ``data`` with that of ``root``."""
        given = data.data.ptr, data.data.ptr, data.nbytes, self._nccl.NCCL_UINT8, root
        return self._start(about, (data,), partial(self._communicator.broadcast, *given))

    def all_to_all(self, data: Any, out: Any, about: str) -> Work | _Later:
        """Send each rank its equal part of ``data``."""
        part, kind = data.nbytes // self._size, self._nccl.NCCL_UINT8

        def call(stream: int) -> None:
            self._nccl.groupStart()
            for peer in range(self._size):
                self._communicator.send(data.data.ptr + peer * part, part, kind, peer, stream)
                self._communicator.recv(out.data.ptr + peer * part, part, kind, peer, stream)
            self._nccl.groupEnd()

        return self._start(about, (data, out), call)

    def send(self, data: Any, to: int, about: str) -> Work | _Later:
        """Send ``data`` to a rank."""
        given = data.data.ptr, data.nbytes, self._nccl.NCCL_UINT8, to
        return self._start(about, (data,), partial(self._communicator.send, *given))

    def receive(self, data: Any, source: int, about: str) -> Work | _Later:
        """Fill ``data`` with what a rank sends."""
        given = data.data.ptr, data.nbytes, self._nccl.NCCL_UINT8, source
        return self._start(about, (data,), partial(self._communicator.recv, *given))

    def close(self, well: bool) -> None:
        """Give the communicator back.

        Args:
            well: whether all ranks have ended well.

        Raises:
            DistributedError: a collective has not finished, and cannot, of which nobody has been told.
        """
        self._closed.set()
        member = self._member
        left = [one.about for one in list(self._begun) if not one.done()]
        destroyed = self._end(self._communicator.destroy if well else self._communicator.abort)
        if member is not None and left and not (well and destroyed) and not member.told:
            member.told = True
            raise member.error(left[0], member.failure or "not finished at the program's end")

    def _end(self, end: Any) -> bool:
        """Destroy or abort the communicator; whether that has come to an end.

        NCCL waits for the graphs that have its collectives to end too.
        """
        with self._ending:
            if self._over:
                return True
            self._over = True
            ending = threading.Thread(target=end, name="cukern NCCL's end", daemon=True)
            ending.start()
            for graph in list(self._graphs):
                graph.end(f"its collectives among {self._size} ranks have ended")
            ending.join(_SECONDS_TO_ABORT)
            if ending.is_alive():  # CuPy would destroy it once more, and wait for that
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._communicator))
            return not ending.is_alive()

    def _look(self) -> None:
        """Remove finished collectives from those under watch.

        Waiting for an event lets other threads run, where asking whether it is done may not, nor destroying it: CUDA
        does not answer while the program copies from the GPU what is not ready, and CuPy keeps the interpreter's lock
        meanwhile.
        """
        with self._device.activate():
            while not self._closed.wait(_LOOK_SECONDS):
                try:
                    while self._begun and self._begun[0].ended():
                        self._spent.append(self._begun.popleft().given_event())
                except self._device.xp.cuda.runtime.CUDARuntimeError as error:
                    self._broken = f"CUDA: {error}"
                    return

    def _watch(self, program: int) -> None:
        """Abort collectives that do not finish, and raise in the program's thread, which may be waiting for the GPU.

        Only the abort calls CUDA here, see :meth:`_look`; at its beginning the GPU is told to stop.
        """
        member = self._member
        assert member is not None
        with self._device.activate():
            while not self._closed.wait(_LOOK_SECONDS):
                first = self._first()
                if first is None:
                    continue
                why = member.failure
                if not why and (fault := self._fault()):
                    why = member.heard(_SECONDS_TO_HEAR) or fault
                if not why and time.monotonic() - first.began > self._timeout:
                    why = f"not finished within {self._timeout:g} s"
                if not why or self._closed.wait(2 * _LOOK_SECONDS) or self._first() is not first:
                    continue  # it had finished
                member.fail(f"{first.about}: {why}")
                if not member.told:
                    # Before the abort, after which the program would read what was not reduced.
                    _raise_in(program, str(member.error(first.about, why)))
                self._end(self._communicator.abort)
                return

    def _first(self) -> _Begun | None:
        """The first collective that is not known to have finished; :meth:`_look` may forget it meanwhile."""
        begun = list(self._begun)
        return begun[0] if begun else None

    def _fault(self) -> str:
        try:
            self._communicator.check_async_error()
        except self._errors as error:
            return f"NCCL: {error}"
        return self._broken


def _raise_in(thread: int, message: str) -> None:
    """Raise a :class:`DistributedError` in another thread, as soon as it runs Python again."""

    def init(self: DistributedError) -> None:
        DistributedError.__init__(self, message)

    of = {"__init__": init, "__module__": DistributedError.__module__}  # as programs and their users know it
    kind = type(DistributedError.__name__, (DistributedError,), of)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
