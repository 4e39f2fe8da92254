"""What a benchmark case is: one line of data, the same expression for every library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

_NO_NAMES: Mapping[str, Any] = MappingProxyType({"__builtins__": {}})
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class Input:
    """An argument of a case: its name, its shape, and what it is filled with.

    Attributes:
        below: random integers under this many; 0 for random numbers of the case's dtype.
        logical: random truth values.
        single: of float32 in a case of any dtype.
    """

    name: str
    shape: tuple[int, ...]
    below: int = 0
    logical: bool = False
    single: bool = False

    def dtype(self, of_case: str) -> str:
        """The name of its dtype in a case of the dtype ``of_case``."""
        if self.below or self.logical:
            return "int64" if self.below else "bool"
        return "float32" if self.single else of_case

    def nbytes(self, of_case: str) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * _BYTES[self.dtype(of_case)]


@dataclass(frozen=True)
class Case:
    """A piece of work to be timed.

    Attributes:
        family, name: where it stands in the table.
        inputs: its arguments, such as ``"x:n,m i:k<n mask:n?"``: shapes by the names of sizes, ``<`` for
            integers under a bound, ``?`` for truth values, ``!`` for float32 in any case.
        run: the expression. ``np`` is the library's namespace, ``ck`` cukern's.
        traffic: bytes that must move, each once, by the bytes of each input and the sizes, such as ``"2 * x + w"``.
        sizes: the sizes on a GPU and on the host, such as ``"n=2**28 | n=2**22"``.
        torch, numpy: the expression for PyTorch and for NumPy and CuPy where it is another; ``None``
            where they have none.
        grad: the inputs whose gradient is timed in place of the value, by names.
        goal: the least share of the copy's bandwidth, or of the library's bare product.
        flops: operations of a product, by the sizes.
        bare: the expression of the library's bare product that ``flops`` are compared with.
        same: what is compared in place of the result, by ``out`` and the inputs, where results may differ.
        dtypes: the dtypes that it is run in.
        kind: what is measured: seconds on the device, the host's seconds a call, or bytes of device memory.
    """

    family: str
    name: str
    inputs: str
    run: str
    traffic: str
    sizes: str
    torch: str | None = ""
    numpy: str | None = ""
    grad: str = ""
    goal: float | None = None
    flops: str = ""
    bare: str = ""
    same: str = "out"
    dtypes: str = "float32 bfloat16"
    kind: Literal["device", "call", "memory"] = "device"

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
        """The bytes that must move."""
        names = {one.name: one.nbytes(dtype) for one in self.arguments(device)}
        return float(eval(self.traffic or "0", dict(_NO_NAMES), {**self.sizes_on(device), **names}))

    def operations(self, device: str) -> float:
        """The floating-point operations of a product; 0 for other work."""
        return float(eval(self.flops or "0", dict(_NO_NAMES), self.sizes_on(device)))

    def expression(self, library: str) -> str | None:
        """What a library evaluates; None where it has nothing for the case."""
        own = self.torch if library == "torch" else self.numpy if library in ("numpy", "cupy") else ""
        return self.run if own == "" else own


def _number(word: str, sizes: Mapping[str, int]) -> int:
    return int(eval(word, dict(_NO_NAMES), dict(sizes)))
