"""Benchmark cases: each is one line of data, with one expression for all libraries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

_NO_NAMES: Mapping[str, Any] = MappingProxyType({"__builtins__": {}})
_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class Input:
    """An argument of a case: its name, its shape and its values.

    Attributes:
        below: the bound of random integers; 0 for random numbers of the case's dtype.
        logical: whether it has random bools.
        single: whether it is float32 in a case of any dtype.
    """

    name: str
    shape: tuple[int, ...]
    below: int = 0
    logical: bool = False
    single: bool = False

    def dtype(self, of_case: str) -> str:
        """The name of its dtype in a case of dtype ``of_case``."""
        if self.below or self.logical:
            return "int64" if self.below else "bool"
        return "float32" if self.single or of_case == "tf32" else of_case

    def nbytes(self, of_case: str) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * _BYTES[self.dtype(of_case)]


@dataclass(frozen=True)
class Case:
    """A computation to time.

    Attributes:
        family, name: its name in the table.
        inputs: its arguments, such as ``"x:n,m i:k<n mask:n?"``: shapes by the names of sizes, ``<`` for
            integers below a bound, ``?`` for bools, ``!`` for float32 in any case.
        run: the expression. ``np`` is the library's namespace, ``ck`` cukern's.
        traffic: the least bytes to move, from the bytes of each input, those of an ``element`` and the sizes, such
            as ``"2 * x + w"``.
        sizes: the sizes on a GPU and on the host, such as ``"n=2**28 | n=2**22"``.
        torch, numpy: the expression for PyTorch, and for NumPy and CuPy, if it differs; ``None`` if they have
            none.
        compiled: the expression that PyTorch compiles, if it does; empty for that of ``torch``.
        autotuned: whether the compiler tries several kernels, which takes it half a minute for a large product.
        graphed: whether PyTorch's call is measured as a CUDA graph too.
        grad: names of the inputs whose gradient is timed instead of the value.
        goal: the lowest acceptable share of the large copy's bandwidth, of the speed of ``bare``, or, of a call, of the
            time of an addition of small arrays over the call's.
        flops: operations of a product, or of attention, from the sizes.
        bare: what the first other library computes at the speed to compare with, such as the product alone.
        same: the expression to compare instead of the result, of ``out`` and the inputs, if results may differ.
        dtypes: the dtypes in which it is run; tf32 are float32 arrays whose products may be rounded.
        kind: the measured quantity: seconds on the device, the host's seconds per call, those of the derivative of a
            call, or bytes of device memory.
    """

    family: str
    name: str
    inputs: str
    run: str
    traffic: str
    sizes: str
    torch: str | None = ""
    numpy: str | None = ""
    compiled: str | None = None
    autotuned: bool = False
    graphed: bool = False
    grad: str = ""
    goal: float | None = None
    flops: str = ""
    bare: str = ""
    same: str = "out"
    dtypes: str = "float32 bfloat16"
    kind: Literal["device", "call", "backward", "memory"] = "device"

    def sizes_on(self, device: str) -> dict[str, int]:
        """The sizes on a kind of device."""
        gpu, _, host = self.sizes.partition("|")
        text = host if device == "host" and host else gpu
        pairs = (pair.partition("=") for pair in text.split())
        return {name: int(eval(value, dict(_NO_NAMES))) for name, _, value in pairs}

    def arguments(self, device: str) -> list[Input]:
        """The inputs with their shapes on a kind of device."""
        sizes = self.sizes_on(device)
        made = []
        for text in self.inputs.split():
            name, _, rest = text.partition(":")
            logical, single = rest.endswith("?"), rest.endswith("!")
            shape_text, _, bound = rest.rstrip("?!").partition("<")
            shape = tuple(_number(word, sizes) for word in shape_text.split(",") if word)
            made.append(Input(name, shape, _number(bound, sizes) if bound else 0, logical, single))
        return made

    def nbytes(self, device: str, dtype: str) -> float:
        """The least bytes to move."""
        names = {one.name: one.nbytes(dtype) for one in self.arguments(device)}
        known = {"element": _BYTES[dtype], **self.sizes_on(device), **names}
        return float(eval(self.traffic or "0", dict(_NO_NAMES), known))

    def operations(self, device: str) -> float:
        """The floating-point operations of products; 0 for other work."""
        return float(eval(self.flops or "0", dict(_NO_NAMES), self.sizes_on(device)))

    def expression(self, library: str) -> str | None:
        """The expression for a library; None if it has none."""
        own: str | None = ""
        match library:
            case "torch":
                own = self.torch
            case "torch compiled":
                own = self.compiled if self.compiled != "" else self.torch
            case "torch graphed":
                own = self.torch if self.graphed else None
            case "numpy" | "cupy":
                own = self.numpy
        return self.run if own == "" else own


def _number(word: str, sizes: Mapping[str, int]) -> int:
    return int(eval(word, dict(_NO_NAMES), dict(sizes)))
