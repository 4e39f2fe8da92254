"""The LLTM: a recurrent cell like an LSTM's, without a forget gate and with ELU as its inner activation.

With ``X = concat([old_h, input])`` and ``z = X @ weights.T + bias``, whose three parts are the input gate,
the output gate and the candidate:

    new_cell = old_cell + elu(z_candidate) * sigmoid(z_input)
    new_h = tanh(new_cell) * sigmoid(z_output)
"""

from __future__ import annotations

import math
from typing import Any

from .. import namespace as ops
from ..array import Array
from ..array.creation import zeros
from ..device import Device
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_array
from . import init
from .fused import in_common_dtype, require_shape, require_sizes
from .linear import linear
from .module import Module, Parameter
from .recurrence import stacked

#: The input gate, the output gate and the candidate.
_GATES = 3


@fuse
def lltm_gates(input: Any, output: Any, candidate: Any, old_cell: Any) -> tuple[Any, Any]:
    """The new h and cell of a step after its products."""
    cell = old_cell + ops.elu(candidate) * ops.sigmoid(input)
    return ops.tanh(cell) * ops.sigmoid(output), cell


def _lltm_step(of_x: Any, of_h: Any, state: Any) -> tuple[Any, ...]:
    input, output, candidate = (x + h for x, h in zip(of_x, of_h, strict=True))
    new_h, new_cell = lltm_gates(input, output, candidate, state[1])
    return new_h, new_cell


def _checked(
    name: str, what: str, inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> list[Array]:
    """The arguments in one dtype, with checked shapes; errors call the first one ``what``."""
    given = {what: inputs, "weights": weights, "bias": bias, "old_h": old_h, "old_cell": old_cell}
    taken = in_common_dtype(name, given)
    arrays = dict(zip(given, taken, strict=True))
    _require_inputs(name, what, arrays[what])
    require_shape(name, "old_h", arrays["old_h"], "batch", "state")
    (batch, features), state = arrays[what].shape[-2:], arrays["old_h"].shape[1]
    note = f" for {what} {arrays[what].shape} and a state of {state}"
    require_shape(name, "weights", arrays["weights"], 3 * state, state + features, note=note)
    require_shape(name, "bias", arrays["bias"], 3 * state, note=note)
    require_shape(name, "old_h", arrays["old_h"], batch, state, note=note)
    require_shape(name, "old_cell", arrays["old_cell"], batch, state, note=note)
    return taken


def _require_inputs(name: str, what: str, inputs: Array) -> None:
    """Raise unless ``inputs`` are the input of a step, or the inputs of at least one step."""
    if what == "input":
        require_shape(name, what, inputs, "batch", "features")
    if what == "inputs" and (inputs.ndim != 3 or not inputs.shape[0]):
        raise ValueError(
            f"{name}: inputs: expected shape (steps, batch, features), at least one step, got {inputs.shape}"
        )


def lltm_cell(
    input: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array]:
    """One step of an LLTM.

    Args:
        input: shape (batch, features), a floating dtype.
        weights: shape (3 * state, state + features); the columns multiply ``concat([old_h, input])``, the
            rows are those of the input gate, the output gate and the candidate.
        bias: shape (3 * state,).
        old_h, old_cell: shape (batch, state).

    Returns:
        new_h and new_cell, each (batch, state), in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit.

    Source: the cell of PyTorch's tutorial on C++ and CUDA extensions.
    """
    input, weights, bias, old_h, old_cell = _checked(
        "lltm_cell", "input", input, weights, bias, old_h, old_cell
    )
    gates = linear(ops.concat([old_h, input], axis=1), weights, bias)
    gates = ops.reshape(gates, (len(gates), _GATES, old_h.shape[1]))
    input_gate, output_gate, candidate = ops.unstack(gates, axis=1)
    new_h, new_cell = lltm_gates(input_gate, output_gate, candidate, old_cell)
    return new_h, new_cell


def lltm(
    inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array, Array]:
    """Run :func:`lltm_cell` over the steps along the first axis of ``inputs``.

    Args:
        inputs: shape (steps, batch, features), at least one step.
        weights, bias, old_h, old_cell: as in :func:`lltm_cell`.

    Returns:
        every step's h (steps, batch, state), the last h and the last cell (batch, state).

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit.
    """
    inputs, weights, bias, old_h, old_cell = _checked(
        "lltm", "inputs", inputs, weights, bias, old_h, old_cell
    )
    state = old_h.shape[1]
    of_x = linear(inputs, weights[:, state:], bias)
    if not state:  # no step has anything to compute
        return of_x, old_h, old_cell
    layer = None, None, weights[:, :state], None, (old_h, old_cell)
    outputs, ((h, cell),) = stacked(_lltm_step, False, of_x, [layer])
    return outputs, h, cell


class LLTMCell(Module):
    """One step of an LLTM with trained weights and bias.

    Args:
        features: elements of an input.
        state: elements of h and of the cell.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`: uniform in ±1 / sqrt(state).
    """

    def __init__(
        self,
        features: int,
        state: int,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
    ) -> None:
        require_sizes("LLTM", features=features, state=state)
        self.features, self.state = features, state
        bound = 1 / math.sqrt(state) if state else 0.0
        generator = init.generator(rng)
        self.weights = Parameter(
            init.uniform((3 * state, state + features), -bound, bound, dtype, device, generator)
        )
        self.bias = Parameter(init.uniform((3 * state,), -bound, bound, dtype, device, generator))

    def initial_state(self, batch: int) -> tuple[Array, Array]:
        """The initial state of a sequence: h and cell (batch, state) of zeros."""
        h, cell = (zeros((batch, self.state), self.weights.dtype, self.weights.device) for _ in range(2))
        return h, cell

    def forward(self, input: Array, state: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """The new h and cell from an input (batch, features) and the old h and cell, zeros when None."""
        input = require_array(input, "lltm_cell", "input")
        _require_inputs("lltm_cell", "input", input)
        return lltm_cell(input, self.weights, self.bias, *(state or self.initial_state(input.shape[0])))


class LLTM(LLTMCell):
    """An LLTM over sequences, the steps along the first axis; its arguments are those of :class:`LLTMCell`.

    >>> import cukern as ck
    >>> model = ck.nn.LLTM(features=3, state=4, rng=0)
    >>> outputs, (h, cell) = model(ck.zeros((5, 2, 3)))
    >>> outputs.shape, h.shape, cell.shape
    ((5, 2, 4), (2, 4), (2, 4))
    """

    def forward(  # type: ignore[override]
        self, inputs: Array, state: tuple[Array, Array] | None = None
    ) -> tuple[Array, tuple[Array, Array]]:
        """Every step's h, and the last h and cell.

        Args:
            inputs: shape (steps, batch, features).
            state: the initial h and cell, each (batch, state); zeros when None.
        """
        inputs = require_array(inputs, "lltm", "inputs")
        _require_inputs("lltm", "inputs", inputs)
        start = state or self.initial_state(inputs.shape[1])
        outputs, h, cell = lltm(inputs, self.weights, self.bias, *start)
        return outputs, (h, cell)
