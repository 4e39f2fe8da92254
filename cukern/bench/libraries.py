"""The measured libraries, with one interface: convert arrays, evaluate an expression, compare results."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol

import cukern as ck

from .. import dtypes
from .. import namespace as ops
from . import work
from .case import Case

Arrays = dict[str, Any]
Call = Callable[..., Any]


class Library(Protocol):
    """A measured library on one device."""

    name: str
    version: str

    def take(self, data: Any, dtype: str) -> Any:
        """Convert an ndarray of the device to this library's array of a dtype."""

    def prepare(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """A function that evaluates the expression ``text`` on arrays.

        Args:
            seed: makes an ndarray of random numbers for the cotangent of a shape.
        """

    def peak(self, call: Call) -> int:
        """The peak of device memory during a call, in bytes above the memory in use before."""


class Reference(Library, Protocol):
    """A library that can compare cukern's results with float64."""

    def widen(self, arrays: Arrays) -> Arrays:
        """The arrays in float64; arrays of integers and bools are returned unchanged."""

    def distance(self, ours: Any, exact: Any, case: Case, arrays: Arrays) -> float:
        """The norm of the difference between cukern's array and this library's, divided by the norm of the latter.

        Args:
            arrays: the case's arguments as this library's arrays.
        """


def _compared(case: Case, arrays: Arrays, out: Any, arange: Call) -> Any:
    """The value that the case compares instead of ``out``."""
    names = {"rows": lambda x: arange(x.shape[0]), "columns": lambda x: arange(x.shape[1])}
    return evaluated(case.same, {**names, **arrays, "out": out})()


def libraries(device: ck.Device) -> list[Library]:
    """cukern, followed by the libraries to compare: PyTorch in its modes and CuPy on a GPU, NumPy on the host."""
    found: list[Library] = [Cukern(device)]
    if not device.addressable and importlib.util.find_spec("torch"):
        found += [PyTorch(), CompiledPyTorch(), GraphedPyTorch()]
    return [*found, NumPyLike(device)]


def _scope(case: Case, device: str, arrays: Arrays, **names: Any) -> dict[str, Any]:
    return {**names, **case.sizes_on(device), **arrays}


def evaluated(text: str, scope: Mapping[str, Any]) -> Call:
    """A function that evaluates an expression."""
    made: Call = eval(f"lambda: {text}", dict(scope))
    return made


class Cukern:
    """cukern itself."""

    name = "cukern"

    def __init__(self, device: ck.Device) -> None:
        self.device = device
        self.version = str(ck.__version__)

    def take(self, data: Any, dtype: str) -> Any:
        """See :class:`Library`."""
        return ops.astype(ck.from_dlpack(data), dtypes.as_dtype(dtype), copy=False)

    def prepare(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """See :class:`Library`."""
        value = self._value(text, case, arrays)
        sources = [arrays[name] for name in case.grad.split()]
        if not sources:
            return value
        if case.kind == "call":
            return _recorded(value, sources)
        if case.kind == "backward":
            return self._pulled(text, case, arrays, seed)
        tape = ck.Tape(persistent=True)
        with tape:
            tape.watch(sources)
            result = value()
        cotangent = self.take(seed(result.shape), "float32").astype(result.dtype)
        return lambda: tape.gradient(result, sources, output_gradients=cotangent)

    def _pulled(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """The derivative of :data:`TRACKED` calls, each on arrays of its own, so that none is added to another's."""
        copies = [{name: one.copy() for name, one in arrays.items()} for _ in range(TRACKED)]
        sources = [one[name] for one in copies for name in case.grad.split()]
        tape = ck.Tape(persistent=True)
        with tape:
            tape.watch(sources)
            results = [one for given in copies for one in _listed(self._value(text, case, given)())]
        cotangents = [self.take(seed(one.shape), "float32").astype(one.dtype) for one in results]
        return lambda: tape.gradient(results, sources, output_gradients=cotangents)

    def _value(self, text: str, case: Case, arrays: Arrays) -> Call:
        return evaluated(text, _scope(case, self.device.kind, arrays, ck=ck, np=ck, **work.OURS))

    def peak(self, call: Call) -> int:
        """See :class:`Library`."""
        call()  # memory that the first call keeps is not part of a step's peak
        held = _Held(self.device.xp.cuda)
        with held.hook:
            call()
        return held.most


class _Held:
    """Counts the bytes of CuPy's memory pool that are in use."""

    def __init__(self, cuda: Any) -> None:
        self.now = self.most = 0

        class Hook(cuda.MemoryHook):  # type: ignore[misc]
            name = "bytes held"

            def malloc_postprocess(hook, *, mem_size: int, **rest: Any) -> None:
                self.now += mem_size
                self.most = max(self.most, self.now)

            def free_postprocess(hook, *, mem_size: int, **rest: Any) -> None:
                self.now -= mem_size

        self.hook = Hook()


def _listed(result: Any) -> list[Any]:
    """The arrays that a call returns."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _recorded(value: Call, sources: Sequence[Any]) -> Call:
    """A call on arrays that a tape tracks; the tape drops its records afterwards."""

    def call() -> Any:
        with ck.Tape() as tape:
            tape.watch(sources)
            return [value() for _ in range(TRACKED)]

    return call


#: Tracked calls per tape, which amortise the cost of the tape itself.
TRACKED = 100


class PyTorch:
    """PyTorch on a GPU, run eagerly, without TF32."""

    name = "torch"

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.work = importlib.import_module(".torch_work", __package__)
        self.version = str(self.torch.__version__)
        self.torch.backends.cuda.matmul.allow_tf32 = False

    def take(self, data: Any, dtype: str) -> Any:
        """See :class:`Library`."""
        return self.torch.from_dlpack(data).to(getattr(self.torch, dtype))

    def prepare(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """See :class:`Library`."""
        torch = self.torch
        sources = [arrays[name].requires_grad_() for name in case.grad.split()]
        value = self.value(text, case, arrays)
        if not sources:
            return value
        if case.kind == "call":
            return lambda: [value() for _ in range(TRACKED)]
        if case.kind == "backward":
            return self._pulled(text, case, arrays, seed)
        result = value()
        cotangent = self.take(seed(tuple(result.shape)), "float32").to(result.dtype)
        return lambda: torch.autograd.grad(result, sources, cotangent, retain_graph=True)

    def _pulled(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """See :class:`Cukern`."""
        names = case.grad.split()
        copies = [{name: one.detach().clone() for name, one in arrays.items()} for _ in range(TRACKED)]
        sources = [one[name].requires_grad_() for one in copies for name in names]
        results = [one for given in copies for one in _listed(self.value(text, case, given)())]
        cotangents = [self.take(seed(tuple(one.shape)), "float32").to(one.dtype) for one in results]
        return lambda: self.torch.autograd.grad(results, sources, cotangents, retain_graph=True)

    def value(self, text: str, case: Case, arrays: Arrays) -> Call:
        """A function that evaluates the expression on the arrays."""
        return evaluated(text, {**self._names(case), **arrays})

    def _names(self, case: Case) -> dict[str, Any]:
        torch = self.torch
        return {
            **vars(self.work),
            "np": torch,
            "F": torch.nn.functional,
            **case.sizes_on("cuda"),
        }

    def peak(self, call: Call) -> int:
        """See :class:`Library`."""
        call()
        cuda = self.torch.cuda
        cuda.reset_peak_memory_stats()
        before = int(cuda.memory_allocated())
        call()
        return int(cuda.max_memory_allocated()) - before

    def widen(self, arrays: Arrays) -> Arrays:
        """See :class:`Reference`."""
        return {
            name: one.detach().double() if one.is_floating_point() else one for name, one in arrays.items()
        }

    def distance(self, ours: Any, exact: Any, case: Case, arrays: Arrays) -> float:
        """See :class:`Reference`."""
        mine, arange = self.torch.from_dlpack(ours), partial(self.torch.arange, device="cuda")
        if mine.shape != exact.shape:
            return float("nan")
        mine, right = (_compared(case, arrays, out, arange).double() for out in (mine, exact))
        return float(((mine - right).norm() / right.norm().clamp_min(1e-300)).detach())


class CompiledPyTorch(PyTorch):
    """PyTorch compiled by ``torch.compile``.

    Its modes with CUDA graphs make no difference here: the clock leaves out what the host takes.
    """

    name = "torch compiled"

    def __init__(self) -> None:
        super().__init__()
        # The backward of one forward runs many times.
        config: Any = importlib.import_module("torch._functorch.config")
        config.donated_buffer = False
        with suppress(ImportError):  # without it, its case fails alone
            self.work.prepare_flex()

    def value(self, text: str, case: Case, arrays: Arrays) -> Call:
        """See :class:`PyTorch`: arrays are arguments, so that one compilation serves all that are alike."""
        return partial(self._compiled(text, tuple(arrays), case), *arrays.values())

    @cache  # noqa: B019 (there is one for each process)
    def _compiled(self, text: str, arguments: tuple[str, ...], case: Case) -> Call:
        made = eval(f"lambda {', '.join(arguments)}: {text}", self._names(case))
        mode = "max-autotune-no-cudagraphs" if case.autotuned else None
        compiled: Call = self.torch.compile(made, mode=mode, dynamic=False)
        return compiled


class GraphedPyTorch(PyTorch):
    """PyTorch's calls recorded as a CUDA graph, which a measured call replays."""

    name = "torch graphed"

    def prepare(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """See :class:`Library`."""
        cuda, call = self.torch.cuda, super().prepare(text, case, arrays, seed)
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):  # what runs once at first must not be recorded
            for _ in range(3):
                call()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            result = call()

        def replay() -> Any:
            graph.replay()
            return result

        return replay


class NumPyLike:
    """NumPy on the host, CuPy on a GPU."""

    def __init__(self, device: ck.Device) -> None:
        self.xp: Any = device.xp
        self.kind = device.kind
        self.name = str(self.xp.__name__)
        self.version = str(self.xp.__version__)

    def take(self, data: Any, dtype: str) -> Any:
        """See :class:`Library`."""
        return data.astype(dtype, copy=False)

    def prepare(self, text: str, case: Case, arrays: Arrays, seed: Any) -> Call:
        """See :class:`Library`."""
        return evaluated(text, _scope(case, self.kind, arrays, np=self.xp))

    def peak(self, call: Call) -> int:
        """See :class:`Library`: no case measures it for these libraries."""
        raise NotImplementedError("the memory of NumPy and CuPy is not measured")

    def widen(self, arrays: Arrays) -> Arrays:
        """See :class:`Reference`."""
        return {name: one.astype("float64") if one.dtype.kind == "f" else one for name, one in arrays.items()}

    def distance(self, ours: Any, exact: Any, case: Case, arrays: Arrays) -> float:
        """See :class:`Reference`."""
        mine = ours._data
        if mine.shape != exact.shape:
            return float("nan")
        mine, right = (
            _compared(case, arrays, out, self.xp.arange).astype("float64").ravel() for out in (mine, exact)
        )
        return float(self.xp.linalg.norm(mine - right) / max(float(self.xp.linalg.norm(right)), 1e-300))
