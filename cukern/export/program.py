"""A program of launches: buffers, and the kernels that read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..text import Dim3
from ..text.signature import Unit
from .formulas import Formula


class Place(NamedTuple):
    """A pointer that a launch takes: a buffer, and bytes from its start."""

    buffer: int
    offset: Formula


class Words(NamedTuple):
    """A struct by value, in words of 4 bytes."""

    words: tuple[Formula, ...]


class Number(NamedTuple):
    """A scalar: an integer that may depend on sizes, or another number."""

    dtype: DType
    value: Any


class Buffer(NamedTuple):
    """An array of a program, in C order.

    Attributes:
        name: of an argument or result; empty of memory that the program needs meanwhile.
        shape, dtype: of an argument or result; bytes of others.
        cleared: whether it begins as zeros.
        content: the bytes with which it begins, of a constant.
    """

    name: str
    shape: tuple[Formula, ...]
    dtype: DType
    cleared: bool = False
    content: bytes = b""


class Launch(NamedTuple):
    """A launch of a kernel.

    Attributes:
        function: runs it on the host.
    """

    unit: Unit
    grid: tuple[Formula, ...]
    block: Dim3
    shared: Formula
    args: tuple[Place | Words | Number | None, ...]
    function: Any


@dataclass
class Program:
    """What a forward or a backward launches.

    Attributes:
        buffers: arguments, then results, then others.
        arguments, results: how many.
        sizes: the name of each size, and the argument and the axis that have it.
        general: whether other sizes than those of the examples may be given.
    """

    buffers: list[Buffer]
    arguments: int
    results: int
    launches: list[Launch]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    general: bool = False

    def run(self, arguments: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
        """Compute the results on the host, from NumPy arrays to NumPy arrays."""
        memory = []
        for i, one in enumerate(self.buffers):
            shape = tuple(size.value(sizes) for size in one.shape)
            if i < self.arguments:
                memory.append(np.ascontiguousarray(arguments[i]).reshape(shape))
            elif one.content:
                memory.append(np.frombuffer(bytearray(one.content), np.uint8))
            else:
                memory.append(np.zeros(shape, one.dtype))
        raw = [one.reshape(-1).view(np.uint8) for one in memory]
        for launch in self.launches:
            values: list[Any] = []
            for arg in launch.args:
                if isinstance(arg, Place):
                    values.append(raw[arg.buffer][arg.offset.value(sizes) :])
                elif isinstance(arg, Words):
                    values.append(
                        np.array([one.value(sizes) for one in arg.words], "i8").astype("u4").tobytes()
                    )
                elif isinstance(arg, Number):
                    value = arg.value
                    values.append(value.value(sizes) if isinstance(value, Formula) else value)
                else:
                    values.append(None)
            grid = tuple(one.value(sizes) for one in launch.grid)
            launch.function(grid, launch.block, launch.shared.value(sizes), values)
        return memory[self.arguments : self.arguments + self.results]


@dataclass
class Operator:
    """What is exported.

    Attributes:
        name: a word.
        arguments: name, dtype and whether there is a derivative, of each.
        outputs: how many arrays it returns; further results of the forward are for the backward.
        several: whether it returns a tuple.
        live: of each result, whether it has a cotangent.
        forward, backward: the programs; None without a derivative.
        examples: arrays of the arguments and of the cotangents, for the test.
        expected: what the results and the gradients are for these.
        options: NVRTC's.
        constants: arguments that are no arrays.
    """

    name: str
    arguments: list[tuple[str, str, bool]]
    outputs: int
    several: bool
    live: list[bool]
    forward: Program
    backward: Program | None
    examples: dict[str, Any]
    expected: dict[str, Any]
    options: list[str]
    constants: dict[str, Any]


def programs(operator: Operator) -> dict[str, Program]:
    """The programs by direction."""
    found = {"forward": operator.forward}
    if operator.backward is not None:
        found["backward"] = operator.backward
    return found


def names(operator: Operator) -> dict[tuple[str, int], str]:
    """The name of the kernel of each launch: texts of one name are numbered."""
    known: dict[str, str] = {}
    taken: dict[str, int] = {}
    result = {}
    for direction, program in programs(operator).items():
        for i, launch in enumerate(program.launches):
            text, name = launch.unit.text, launch.unit.signature.name
            if text not in known:
                count = taken.get(name, 0)
                taken[name] = count + 1
                known[text] = name if not count else f"{name}__{count + 1}"
            result[direction, i] = known[text]
    return result


def sizes_used(program: Program) -> set[str]:
    """The names of sizes that a formula has."""
    found: set[str] = set()
    for one in program.buffers:
        found.update(*(size.sizes for size in one.shape))
    for launch in program.launches:
        for arg in launch.args:
            each = [arg.offset] if isinstance(arg, Place) else arg.words if isinstance(arg, Words) else []
            if isinstance(arg, Number) and isinstance(arg.value, Formula):
                each = [arg.value]
            found.update(*(size.sizes for size in (*launch.grid, launch.shared, *each)))
    return found
