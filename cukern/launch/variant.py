"""Variants: the ways in which a family of kernels computes a problem, as data that can be listed, priced and chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, address, fresh_layout
from ..cache import Cache
from ..device import Device
from ..device.interface import Properties, Tiles
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.plan import BoundLaunch, new, zeroed
from ..text import Dim3
from . import cost
from .params import Given

#: Bytes of a tensor map.
MAP_BYTES = 128


class Problem(Hashable, Protocol):
    """What one call asks of a family, as far as a launch depends on it."""

    @property
    def device(self) -> Device:
        """Where it is computed."""

    @property
    def results(self) -> Sequence[Layout]:
        """The layouts of the new arrays that the call returns."""

    @property
    def features(self) -> Mapping[str, Any]:
        """What its time depends on: words, which problems near it share, and sizes of at least 0."""

    @property
    def summary(self) -> str:
        """The problem in a line."""

    def least_seconds(self, limits: Properties) -> float:
        """The time in which a device moves its arrays once, or computes its products, whichever is longer."""


@dataclass(frozen=True)
class OfArrays:
    """A problem whose time is that in which arrays are moved; what else it says is for its subclasses.

    Attributes:
        operands: the layouts of the arrays that are read, which are on one device.
    """

    operands: tuple[Layout, ...]

    @property
    def results(self) -> tuple[Layout, ...]:
        """See :class:`Problem`."""
        raise NotImplementedError

    @property
    def device(self) -> Device:
        """Where it is computed."""
        return self.operands[0].device

    @property
    def dtype(self) -> DType:
        """The dtype of the first array."""
        return self.operands[0].dtype

    def least_seconds(self, limits: Properties) -> float:
        """The time in which the arrays are read and the results are written once."""
        return sum(one.nbytes for one in (*self.operands, *self.results)) / cost.bandwidth(limits)


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Launch:
    """One launch of a template.

    Attributes:
        grid: blocks along x, y and z.
        block: threads of a block.
        shared: bytes of dynamic shared memory of a block.
        constants: the template's variables besides the fields of the variant.
        params: what the kernel takes after the arrays.
        maps: the tensor maps by which the kernel knows an array, by the number of the argument: one, or those of a
            struct of several. Their addresses are counted in bytes from the array's first element.
        kernel: the template, of a variant that launches several.
        zeros: bytes, all 0, that the kernel takes after the results, by which its blocks wait for each other: memory of
            this launch only, as others may run on other streams.
    """

    grid: Dim3
    block: int
    shared: int = 0
    constants: Mapping[str, Any] = field(default_factory=dict)
    params: Sequence[Given | bytes | int | float] = ()
    maps: Mapping[int, Sequence[Tiles]] = field(default_factory=dict)
    kernel: Kernel | None = None
    zeros: int = 0


#: Computes a problem for arrays of its layouts.
Plan = Callable[..., Any]


class Variant(Generic[P]):
    """A template, and a frozen dataclass whose fields are constants of it.

    A variant that a library computes, or that is composed of others, has no template and its own :meth:`plan`.

    Attributes:
        name: by which a family's variants are told apart.
        kernel: the template.
        needs: the least compute capability of the devices that have it; (0, 0) for the host too.
        major: the major compute capability that alone has its instructions, as of sm_90a; 0 for all from ``needs`` on.
        of_library: whether a library computes it, which :func:`cukern.kernels_only` leaves out.
        of_launch: the fields that are no constants of the template.
        efficiency: the share of the device's rate of memory or of arithmetic, estimated.
    """

    name: ClassVar[str]
    kernel: ClassVar[Kernel | None] = None
    needs: ClassVar[tuple[int, int]] = (0, 0)
    major: ClassVar[int] = 0
    of_library: ClassVar[bool] = False
    of_launch: ClassVar[frozenset[str]] = frozenset()
    efficiency: ClassVar[float]

    def template(self) -> Kernel | None:
        """The template, where it depends on the constants."""
        return self.kernel

    @classmethod
    def refusal(cls, problem: P, limits: Properties) -> str:
        """Why a device has no such launch, or the problem does not fit it; "" if it computes the problem."""
        if limits.compute_capability < cls.needs:
            return "needs compute capability {}.{}".format(*cls.needs)
        if cls.major and limits.compute_capability[0] != cls.major:
            return f"for compute capability {cls.major} alone"
        return cls.fits(problem, limits)

    @classmethod
    def fits(cls, problem: P, limits: Properties) -> str:
        """Why it cannot compute a problem; "" if it can, by default."""
        return ""

    @classmethod
    def configs(cls, problem: P, limits: Properties) -> Iterable[Variant[P]]:
        """The constants with which it can, for a device with these limits."""
        return (cls(),)

    def cost(self, problem: P, limits: Properties) -> float:
        """The seconds, estimated: by default the least ones by the share of the rate that is reached (roofline)."""
        return problem.least_seconds(limits) / self.efficiency + cost.launch(limits)

    def launch(self, problem: P, limits: Properties) -> Launch:
        """The launch that computes a problem."""
        raise NotImplementedError

    def plan(self, problem: P, limits: Properties) -> Plan:
        """The launch, prepared for arrays of the problem's layouts; none of results without elements."""
        device, results = problem.device, problem.results
        if results and not any(one.size for one in results):
            return Replay(device, None, results)
        launch = self.launch(problem, limits)
        return Replay(device, prepared(self, launch, device), results, launch.zeros)

    def constants(self) -> dict[str, Any]:
        """The template's variables that are fields."""
        names = [one.name for one in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name not in self.of_launch}


def prepared(variant: Variant[Any], launch: Launch, device: Device) -> Run:
    """A launch of a variant's template, ready to be replayed."""
    constants = {**variant.constants(), **launch.constants}
    declared = {one.params.name: one.source(constants) for one in launch.params if isinstance(one, Given)}
    kernel = launch.kernel or variant.template()
    assert kernel is not None
    bound = kernel.bind(device, **{**declared, **constants, "block": launch.block})
    tail = [one.packed(constants) if isinstance(one, Given) else one for one in launch.params]
    structs = [MAP_BYTES * len(launch.maps[i]) for i in sorted(launch.maps)]
    ready = BoundLaunch(bound, launch.grid, launch.block, tuple(tail), launch.shared, tuple(structs))
    return Run(ready, device, launch.maps)


class Run:
    """A launch that is ready to be replayed.

    Attributes:
        ready: the kernel, and what it is launched with.
        launch: the launch itself, which takes operands: those of arrays, and numbers.
    """

    __slots__ = ("_device", "_known", "_maps", "_null", "launch", "ready")

    def __init__(self, ready: BoundLaunch, device: Device, maps: Mapping[int, Sequence[Tiles]]) -> None:
        self.launch, self.ready, self._device, self._maps = ready.prepare(), ready, device, dict(maps)
        self._null = device.backend.operand(None)
        #: The tensor maps of arrays at addresses that came before.
        self._known: Cache[tuple[int, int], bytes] = Cache()

    def by(self, ready: BoundLaunch) -> Run:
        """The run by another kernel, which takes the same."""
        return Run(ready, self._device, self._maps)

    def __call__(self, values: Sequence[Array | int | float | None]) -> None:
        """Launch for arrays, None for a null pointer, and numbers, in the order of the kernel's parameters."""
        given: list[Any] = []  # a loop, because a comprehension is a function call before Python 3.12
        for one in values:
            if isinstance(one, Array):
                given.append(one._operand if one._layout is not None else _planned(one))
            else:
                given.append(self._null if one is None else one)
        for number in self._maps:
            # An operand of the host is no address.
            at = address(values[number]._data) if self._device.addressable else given[number]  # type: ignore[union-attr]
            given[number] = self._known.get((number, at)) or self._map(number, at)
        self.launch(*given)

    def _map(self, number: int, at: int) -> bytes:
        make = self._device.backend.tensor_map
        made = b"".join([make(one._replace(address=at + one.address)) for one in self._maps[number]])
        return self._known.keep((number, at), made)


def _planned(array: Array) -> Any:
    array._planned()
    return array._operand


class Replay:
    """A launch of given arrays that returns new ones.

    Args:
        device: where it runs.
        run: the launch, if there is one.
        layouts: those of the results.
        zeros: see :class:`Launch`.
    """

    __slots__ = ("_device", "_layouts", "_run", "_which", "_zeros")

    def __init__(self, device: Device, run: Run | None, layouts: Sequence[Layout], zeros: int = 0) -> None:
        self._device, self._run, self._layouts = device, run, tuple(layouts)
        self._which = device.which
        self._zeros = fresh_layout(device, dtypes.uint8, (zeros,)) if zeros else None

    def __call__(self, *arrays: Array | int | float | None) -> Any:
        """Launch, and return the result, or the list of several."""
        if self._which is not None and self._which() != self._device.index:
            with self._device.activate():
                return self(*arrays)
        made = new(self._layouts)
        if self._run is not None:
            self._run((*arrays, *made) if self._zeros is None else (*arrays, *made, zeroed(self._zeros)))
        return made[0] if len(made) == 1 else made
