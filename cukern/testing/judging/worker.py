"""The process in which a candidate runs: it has the text and inputs, and neither the reference nor its results.

It answers messages of the judge: a header of JSON, and bytes of arrays behind it. Nothing that it answers is executed.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
#: Bytes around an array that nothing may touch, and what they and arrays hold before a launch.
_GUARD = 512
POISON = (0xA5, 0x5C)
#: Bytes that are written before a launch is timed: more than any L2.
FLUSHED = 1 << 29


def send(to: IO[bytes], header: Mapping[str, Any], arrays: Mapping[str, Values] = {}) -> None:
    """Write a message."""
    table = {name: [str(one.dtype), list(one.shape)] for name, one in arrays.items()}
    head = json.dumps({**header, "arrays": table}).encode()
    to.write(struct.pack("<q", len(head)) + head)
    for one in arrays.values():
        to.write(np.ascontiguousarray(one).tobytes())
    to.flush()


def receive(source: IO[bytes], most: int = 1 << 31) -> tuple[dict[str, Any], dict[str, Values]]:
    """Read a message.

    Raises:
        EOFError: the other side has ended.
        ValueError: it is none.
    """
    from ... import dtypes

    (length,) = struct.unpack("<q", _exactly(source, 8))
    if not 0 < length < 1 << 24:
        raise ValueError("the message has no header")
    header = json.loads(_exactly(source, length))
    arrays = {}
    for name, (dtype_name, shape) in header.pop("arrays").items():
        dtype = dtypes.as_dtype(dtype_name)
        nbytes = math.prod(int(size) for size in shape) * dtype.itemsize
        most -= nbytes
        if nbytes < 0 or most < 0:
            raise ValueError(f"the array {name} is too large")
        arrays[name] = np.frombuffer(_exactly(source, nbytes), dtype).reshape(shape)
    return header, arrays


def _exactly(source: IO[bytes], count: int) -> bytes:
    data = source.read(count)
    if len(data) != count:
        raise EOFError
    return data


def _limit(seconds: float) -> None:
    """Limits of this process and of the compilers that it starts; of memory the judge watches what they hold.

    Checked launches reserve terabytes of addresses, so that a limit of those says nothing.
    """
    for what, most in (
        (resource.RLIMIT_CPU, max(1, int(seconds) + 1) * 4),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 1 << 28),
    ):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard), hard))


def _alone() -> bool:
    """Leave the network, where the system lets a process do so."""
    import ctypes

    new_user, new_net = 0x10000000, 0x40000000
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None)
    try:
        if user == 0:
            return bool(libc.unshare(new_net) == 0)
        if libc.unshare(new_user | new_net):
            return False
        for name, value in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            file = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(file, value.encode())
            os.close(file)
    except (OSError, AttributeError):
        return False
    return True


class Worker:
    """A candidate that has been read, and its launches."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        from ...device import Device
        from ...kernel import Kernel
        from ...text.entry import kernels
        from .candidate import parts
        from .task import Signature

        self.text = str(header["text"])
        self.forward = Signature.parsed(header["forward"])
        self.backward = Signature.parsed(header["backward"]) if header["backward"] else None
        self.parts = parts(self.text)
        self.device = Device(header["device"])
        if self.device.addressable:
            from .linked import watch

            watch(self.text)
        self.kernel = Kernel(self.text, plain=True, name="candidate")
        self.kernels = kernels(self.text)
        self.buffers: dict[str, Any] = {}

    def confine(self, files: Sequence[int]) -> bool:
        """Give up the system calls that no launch needs; return whether the system lets a process do so.

        A GPU's driver needs others.

        Args:
            files: descriptors that are this process's alone.
        """
        from .confined import begin_builder, can_filter, filter_system_calls

        if not self.device.addressable or not can_filter():
            return False
        begin_builder(files)
        sys.dont_write_bytecode = True
        return filter_system_calls()

    def entry(self, name: str, cxx: str) -> str:
        """The name of a kernel for a type."""
        from .candidate import Refused

        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise Refused("signature", f"expected a kernel {name}, found {known}")
        parameters = self.kernels[name]
        typed = [one for one, is_type, default in parameters if is_type and not default]
        return f"{name}<{cxx}>" if parameters and typed else name

    def check(self, cxx: str) -> None:
        """Refuse a text whose kernel takes other parameters than the task's.

        Raises:
            Refused: it does.
        """
        from ...errors import CukernError
        from .candidate import Refused
        from .task import Signature

        wanted: list[Signature] = [self.forward, *([self.backward] if self.backward else [])]
        for signature, part in zip(wanted, self.parts, strict=False):
            if part is None:
                raise Refused(
                    "launch", "the task asks for a backward: expected the line // backward: and its launches"
                )
            if any(
                launch.name not in ("", signature.name) or launch.args is not None for launch in part.launches
            ):
                continue  # its launches say themselves what they pass
            entry = self.entry(signature.name, cxx)
            with self.device.activate():
                try:
                    params = self.kernel[entry].bind(self.device, block=1).signature.params
                except CukernError:
                    return  # said by the launch
            found = [(p.kind != "scalar", p.const and p.kind == "pointer", p.dtype) for p in params]
            expected = [
                (one.shape is not None, one.role == "in", one.dtype(_of(cxx))) for one in signature.parameters
            ]
            if [one[::2] for one in found] != [one[::2] for one in expected] or any(
                reads and not const for (_, const, _), (_, reads, _) in zip(found, expected, strict=True)
            ):
                shown = ", ".join(f"{p.type_text} {p.name}" for p in params)
                raise Refused(
                    "signature", f"{signature.name}: expected ({signature.text(cxx)}), got ({shown})"
                )

    def launch(
        self, signature: Any, part: Any, cxx: str, header: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        """Launch a part's kernels with arrays of the device."""
        from ... import dtypes
        from ...array.creation import empty, zeros
        from .candidate import plan

        own = signature.name if signature.name in self.kernels else ""
        entry = self.entry(own, cxx) if own else signature.name
        steps, scratch = plan(part, signature, entry, header["sizes"], header["scalars"], cxx)
        arrays = dict(given)
        for name, (type_of, count, is_zero) in scratch.items():
            dtype = dtypes.from_cxx(type_of)
            assert dtype is not None
            arrays[name] = (zeros if is_zero else empty)((count,), dtype, self.device)
        for step in steps:
            args = [arrays[one] if isinstance(one, str) else one for one in step.args]
            base = step.name.partition("<")[0]
            if base not in self.kernels:
                self.entry(base, cxx)
            name = step.name if "<" in step.name else self.entry(base, cxx)
            self.kernel[name](*args, grid=step.grid, block=step.block, shared=step.shared)

    def checked(
        self, header: Mapping[str, Any], inputs: Mapping[str, Values]
    ) -> tuple[dict[str, Any], dict[str, Values]]:
        """A checked launch: what it reports, what it leaves in outputs and inputs, and which lines write outputs."""
        from ...array.creation import empty
        from ...device.host.checked import mode
        from ...errors import KernelFault
        from ..locate import Launches
        from ..shapes import layouts, on

        dtype = _of(header["cxx"])
        reports: list[Any] = []
        writers: dict[int, str] = {}
        chosen = mode.Mode(reports=reports, writers=writers)
        outputs, places, arrays, launches = {}, {}, {}, Launches()
        with self.device.activate():
            try:
                with mode.checking(chosen), launches.watching():
                    for one, kind, shape in self.forward.arrays(dtype, header["sizes"]):
                        if one.role == "out" and not header["misaligned"]:
                            arrays[one.name] = empty(shape, kind, self.device)
                            continue
                        values = inputs.get(one.name, np.zeros(shape, kind))
                        arrays[one.name] = on(values, kind, self.device)
                        if header["misaligned"]:
                            arrays[one.name] = next(
                                view for what, view, _ in layouts(arrays[one.name]) if "misaligned" in what
                            )
                    self.launch(self.forward, self.parts[0], header["cxx"], header, arrays)
                    outputs = {
                        one.name: np.array(arrays[one.name].numpy())
                        for one in self.forward.of("out", "inout")
                    }
                    places = {
                        name: writers.get(arrays[name]._data.ctypes.data)
                        or launches.writer(arrays[name]).partition(" of ")[2]
                        for name in outputs
                    }
                    mode.finish(chosen)
            except KernelFault as fault:
                reports += fault.reports or (fault,)
        return {"reports": [_report(one) for one in reports], "places": places}, outputs

    def large(self, header: Mapping[str, Any]) -> dict[str, Any]:
        """What some blocks of a launch on arrays of any size report; inputs are zeros."""
        from ...array import Array
        from ..large import sampled, sparse

        dtype = _of(header["cxx"])
        with sampled() as reports:
            arrays = {
                one.name: Array._wrap(sparse(shape, kind), self.device)
                for one, kind, shape in self.forward.arrays(dtype, header["sizes"])
            }
            self.launch(self.forward, self.parts[0], header["cxx"], header, arrays)
        return {"reports": [_report(one) for one in reports]}

    def plain(
        self, header: Mapping[str, Any], inputs: Mapping[str, Values]
    ) -> tuple[dict[str, Any], dict[str, Values]]:
        """An unchecked launch on arrays that stay where they are, between guards, and of outputs full of poison."""
        arrays, held, poison = {}, {}, POISON[header["poison"]]
        misaligned = bool(header.get("misaligned"))
        parameters = list(self.forward.arrays(_of(header["cxx"]), header["sizes"]))
        with self.device.activate():
            xp = self.device.xp
            for one, kind, shape in parameters:
                whole, view = self.placed(one.name, kind, shape, misaligned)
                whole[...] = poison
                if one.role in ("in", "inout"):
                    view[...] = xp.asarray(_bytes(inputs[one.name]))
                held[one.name] = whole, view
                arrays[one.name] = self.wrapped(view, kind, shape)
            launch = partial(self.launch, self.forward, self.parts[0], header["cxx"], header, arrays)
            time = timed(launch) if header.get("timed") else launch()
            self.device.synchronize()
            after = {name: (_numpy(whole), _numpy(view)) for name, (whole, view) in held.items()}
        changed, guards, results = [], [], {}
        for one, kind, shape in parameters:
            whole_bytes, view_bytes = after[one.name]
            at = _begin(kind, misaligned)
            outside = [whole_bytes[:at], whole_bytes[at + view_bytes.size :]]
            if any((part != poison).any() for part in outside):
                guards.append(one.name)
            if one.role == "in":
                if not np.array_equal(_bytes(inputs[one.name]), view_bytes):
                    changed.append(one.name)
            else:
                results[one.name] = view_bytes.view(kind).reshape(shape)
        return {"changed": changed, "guards": guards, "time": time}, results

    def placed(self, name: str, dtype: Any, shape: tuple[int, ...], misaligned: bool) -> tuple[Any, Any]:
        """Bytes of an array between guards, at the same address for the same form."""
        xp = self.device.xp
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        key = f"{name} {dtype} {shape} {misaligned}"
        if key not in self.buffers:
            whole = xp.empty(nbytes + 2 * _GUARD + 256, xp.uint8)
            address = int(whole.ctypes.data if self.device.addressable else whole.data.ptr)
            start = -address % 256
            self.buffers[key] = whole[start : start + nbytes + 2 * _GUARD]
        whole = self.buffers[key]
        begin = _begin(dtype, misaligned)
        return whole, whole[begin : begin + nbytes]

    def wrapped(self, view: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        from ...array import Array

        return Array._wrap(view.view(dtype).reshape(shape), self.device)

    def gradient(self, header: Mapping[str, Any], inputs: Mapping[str, Values]) -> dict[str, Any]:
        """:func:`kernelcheck` of the forward and the backward as one function."""
        from ..kernelcheck import KernelcheckError, kernelcheck
        from ..shapes import on
        from .derivative import function_of

        dtype = _of(header["cxx"])
        with self.device.activate():
            args = [
                on(inputs[one.name], one.dtype(dtype), self.device) for one in self.forward.of("in", "inout")
            ]
            function = function_of(self, header)
            try:
                result = kernelcheck(
                    function,
                    args,
                    order=1,
                    dtypes=[],
                    sizes=[],
                    seed=header["seed"],
                )
            except KernelcheckError as error:
                found = [str(one) for one in error.findings]
                place = next((one.place for one in error.findings if one.place), "")
                return {"findings": found, "place": place}
        return {"findings": [], "cases": len(result.cases), "notes": result.notes, "skipped": result.skipped}


#: How often the L2 is overwritten, so that the GPU is busy until the launch has been prepared on the host.
_FILLS = 16


def timed(launch: Callable[[], Any]) -> float:
    """Milliseconds of a launch on a GPU, after the L2 was overwritten."""
    import cupy

    flushed = cupy.empty(FLUSHED, cupy.uint8)
    for _ in range(_FILLS):
        flushed[...] = 0
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end))


def _begin(dtype: Any, misaligned: bool) -> int:
    """The byte at which an array begins between its guards."""
    return _GUARD + (int(dtype.itemsize) if misaligned else 0)


def _of(cxx: str) -> Any:
    from ... import dtypes

    found = dtypes.from_cxx(cxx)
    assert found is not None
    return found


def _bytes(array: Values) -> Values:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _numpy(array: Any) -> Values:
    return np.array(array.get() if hasattr(array, "get") else array)


def _report(one: Any) -> dict[str, Any]:
    return {
        "kind": getattr(one, "kind", "fault"),
        "message": str(one),
        "place": getattr(one, "place", ""),
    }


def _answer(
    worker: Worker, header: Mapping[str, Any], arrays: dict[str, Values]
) -> tuple[dict[str, Any], dict[str, Values]]:
    match header["what"]:
        case "check":
            worker.check(header["cxx"])
            return {}, {}
        case "large":
            return worker.large(header), {}
        case "gradient":
            return worker.gradient(header, arrays), {}
        case "checked":
            return worker.checked(header, arrays)
    return worker.plain(header, arrays)


#: What an error says where memory was refused.
_NO_MEMORY = re.compile(r"Cannot allocate memory|was refused memory|out of memory|virtual memory exhausted")


def _failed(error: BaseException) -> dict[str, Any]:
    """What the judge is told of an error, with its reason's code."""
    from ...device.interface import CompilerFailure
    from ...errors import CompileError, KernelFault, LaunchError, TemplateError
    from .candidate import Refused

    message, place = f"{error}" or type(error).__name__, ""
    match error:
        case Refused():
            reason, place = error.reason, f"<candidate>:{error.line}" if error.line else ""
        case KernelFault():
            return {"reason": "", **_report(error.reports[0] if error.reports else error)}
        case _ if isinstance(error, MemoryError) or _NO_MEMORY.search(message):
            reason = "memory"
        case CompileError() | CompilerFailure() | TemplateError():
            reason = "compile"
        case LaunchError():
            reason = "launch"
        case _:
            reason = "crash"
    return {"reason": reason, "message": message, "place": place}


def main() -> None:
    """Serve the judge until it closes the pipe."""
    source, to = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    header, _ = receive(source)
    alone = _alone()
    _limit(float(header["seconds"]))
    worker, filtered = None, False
    send(to, {"alone": alone})
    while True:
        try:
            header_now, arrays = receive(source)
        except EOFError:
            return
        try:
            if worker is None:
                worker = Worker(header)
                filtered = worker.confine([source.fileno(), to.fileno()])
            answer, results = _answer(worker, header_now, arrays)
            answer["filtered"] = filtered
        except Exception as error:
            answer, results = {"failed": _failed(error)}, {}
        send(to, answer, results)
