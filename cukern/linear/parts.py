"""Products whose depth several blocks share: their sums, which a second kernel adds up in order."""

from __future__ import annotations

import math
import struct

from .. import dtypes
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..device.interface import Prepared
from ..elementwise.graph import input_node
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel.bound import BoundKernel
from ..kernel.sizes import divide_up
from .task import Task, structs, variables

_KERNEL = Kernel("linear/sum_parts.cu")
_THREADS = 256


def alone(made: Program) -> Program:
    """The program of the first kernel, which stores the sums as they are."""
    return program(f"{made.name}_parts", (input_node(0, dtypes.float32),), (dtypes.float32,))


def sums(task: Task, parts: int, device: Device) -> Layout:
    """The layout of the sums."""
    return fresh_layout(device, dtypes.float32, (parts, task.batches, task.m, task.n))


def adding(
    made: Program, elem: dtypes.DType, task: Task, parts: int, device: Device
) -> tuple[BoundKernel, Prepared]:
    """The second kernel, which ends with the epilogue, and its launch."""
    name = f"{made.name}_{dtypes.info(elem).name}_{parts}"
    bound = _KERNEL.bind(device, **variables(made, elem, task), name=name, block=_THREADS, parts=parts)
    blocks = divide_up(math.prod((task.batches, task.m, task.n)), _THREADS)
    sizes = struct.pack("3i", task.batches, task.m, task.n)
    launch = bound.function.prepare((blocks, 1, 1), (_THREADS, 1, 1), 0, (sizes, structs(task, (), ())[1]))
    return bound, launch
