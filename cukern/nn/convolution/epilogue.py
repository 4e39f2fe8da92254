"""How convolutions end: the elementwise expression, as their kernels take it, and sums of parts."""

from __future__ import annotations

import struct
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...elementwise.print_cxx import compute_type, statements
from ...elementwise.program import Program
from .geometry import Task


def variables(task: Task, made: Program, elem: dtypes.DType) -> dict[str, Any]:
    """The template variables of the epilogue, and of what all kernels of a convolution are told.

    Args:
        task: the product.
        made: makes an element of a sum, and of operands that have one number a filter.
        elem: of image, weights and output.
    """
    (last,) = made.outputs
    if last.kind == "cast" and compute_type(last.dtype) == compute_type(last.args[0].dtype):
        (last,) = last.args  # the store rounds
    body, (value,) = statements([last])
    return {
        "elem": elem,
        "out": dtypes.info(made.outputs[0].dtype).cxx,
        "index": "long long" if task.wide else "int",
        "operands": [
            {
                "k": i,
                "type": dtypes.info(dtype).cxx,
                "compute": compute_type(dtype),
                "row": "zero",
                "column": "unit",
            }
            for i, dtype in enumerate(made.inputs[1:], 1)
        ],
        "scalars": [],
        "body": body,
        "value": value,
        "of_weights": task.of_weights,
    }


def steps(task: Task, made: Program) -> bytes:
    """The kernels' struct Steps."""
    operands = max(1, len(made.inputs) - 1)
    return struct.pack(f"{3 * operands}{'q' if task.wide else 'i'}", *(task.filters, 0, 1) * operands)


def added(parts: Array, dtype: dtypes.DType) -> Array:
    """The sum along the first axis, rounded to ``dtype`` once."""
    return ops.astype(ops.sum(parts, 0), dtype)
