"""The LLTM: a recurrent cell like an LSTM's, without a forget gate and with ELU as its inner activation.

With ``X = concat([old_h, input])`` and ``z = X @ weights.T + bias``, whose three parts are the input gate,
the output gate and the candidate:

    new_cell = old_cell + elu(z_candidate) * sigmoid(z_input)
    new_h = tanh(new_cell) * sigmoid(z_output)

The device's library computes the matrix products; the rest of a step is one kernel, and so is its derivative. A
sequence multiplies all its inputs by their part of the weights at once, so that each step is one small product and
one launch; the gradient of the weights is one product over all steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...array.creation import zeros
from ...array.layout import Layout, fresh_layout
from ...autodiff import tape
from ...cache import Cache
from ...device import Device
from ...device.kernels_only import allows_numpy
from ...elementwise.operands import require_array, require_arrays
from ...function import Function
from ...kernel import Kernel
from ...kernel.plan import on
from ...linear.blas import multiply, readable
from .. import init
from ..fused import common_dtype, fused_vjp, require_sizes
from ..module import Module, Parameter
from .plan import BACKWARD, FORWARD, Shape, Step, prepared, product_dtype


def lltm_cell_reference(
    input: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array]:
    """:func:`lltm_cell` of checked arguments as a composition: for derivatives of higher order, and for tests."""
    state = old_h.shape[1]
    joined = ops.concat([old_h, input], axis=1)
    gates = ops.add(ops.matmul(joined, ops.permute_dims(weights, (1, 0))), bias)
    input_gate = ops.sigmoid(gates[:, :state])
    output_gate = ops.sigmoid(gates[:, state : 2 * state])
    candidate = ops.elu(gates[:, 2 * state :])
    new_cell = ops.add(old_cell, ops.multiply(candidate, input_gate))
    return ops.multiply(ops.tanh(new_cell), output_gate), new_cell


def lltm_reference(
    inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array, Array]:
    """:func:`lltm` of checked arguments: :func:`lltm_cell_reference` along the first axis of ``inputs``."""
    h, cell = old_h, old_cell
    outputs = []
    for step in range(inputs.shape[0]):
        h, cell = lltm_cell_reference(inputs[step], weights, bias, h, cell)
        outputs.append(h)
    return ops.stack(outputs, axis=0), h, cell


class _Sequence:
    """The sizes of a call, and its steps on raw memory, which tapes do not record."""

    def __init__(self, inputs: Array, state: int) -> None:
        self.steps, self.batch, self.features = inputs.shape
        self.state = state
        self.device, self.dtype = inputs.device, inputs.dtype
        # The dtype of products is the accumulator's, so that half types are rounded once.
        self.product = product_dtype(self.dtype)

    def launcher(
        self, kernel: Kernel, arrays: Sequence[Array | None], **variables: bool
    ) -> Callable[..., None]:
        """The function that launches a step's kernel; ``arrays`` contain the arrays of all steps."""
        aligned = all(one is None or one._planned().aligned for one in arrays)
        shape = Shape(self.device, self.batch, self.state, aligned)
        launch = prepared(kernel, self.device, self.dtype, self.state, shape, **variables)
        null = self.device.backend.operand(None)

        def operand(part: Array | None) -> int:
            return null if part is None or part._planned() is None else part._operand

        def step(*parts: Array | None) -> None:
            if launch is not None:
                launch(*map(operand, parts))

        return step

    def _empty(self, *shape: int, product: bool = False) -> Array:
        return Array._made(fresh_layout(self.device, self.product if product else self.dtype, shape))

    def _factor(self, x: Any) -> Any:
        """Raw memory in a dtype that the device's library multiplies: NumPy lacks products of half types."""
        return x.astype(self.product, copy=False) if allows_numpy(self.device) else x

    def _laid_out(self, factor: Any) -> Any:
        """A factor of every step in the layout that is fastest for the library: C order for NumPy."""
        return self.device.xp.ascontiguousarray(factor) if allows_numpy(self.device) else factor

    def _matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        if out is None:
            out = self._empty(a.shape[0], b.shape[1], product=True)._data
        return multiply(self.device, a, b, out)

    def forward(
        self, inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array, keep: bool
    ) -> tuple[Array, Array, Array | None]:
        """All states and all cells, the initial ones first, and the gates if they are kept."""
        steps, batch, state = self.steps, self.batch, self.state
        factor = self._factor(weights._data)
        of_state = self._laid_out(factor[:, :state].T)
        flat = self._factor(inputs._data).reshape(steps * batch, self.features)
        from_input = self._wrap(self._matmul(flat, factor[:, state:].T).reshape(steps, batch, 3 * state))
        from_state = self._empty(batch, 3 * state, product=True)
        states, cells = self._empty(steps + 1, batch, state), self._empty(steps + 1, batch, state)
        gates = self._empty(steps, batch, 3 * state) if keep else None
        states._data[0], cells._data[0] = old_h._data, old_cell._data
        whole = (from_input, from_state, bias, cells, states, gates)
        step = self.launcher(FORWARD, whole, keep=keep)
        for t in range(steps):
            self._matmul(self._factor(states._data[t]), of_state, out=from_state._data)
            kept = None if gates is None else self._at(gates, t)
            arrays = (self._at(from_input, t), from_state, bias, self._at(cells, t))
            step(*arrays, self._at(states, t + 1), self._at(cells, t + 1), kept)
        return states, cells, gates

    def backward(
        self, weights: Array, cells: Array, gates: Array, outputs_d: Array, h_d: Array, cell_d: Array
    ) -> tuple[Array, Array, Array]:
        """The gradients of every step's z, of the initial h and of the initial cell, from those of the results."""
        batch, state = self.batch, self.state
        of_state = self._laid_out(self._factor(weights._data)[:, :state])
        gates_d = self._empty(self.steps, batch, 3 * state)
        outputs_d = outputs_d.contiguous()
        state_d = self._wrap(h_d._data.astype(self.product, order="C"))
        cell_d = cell_d.contiguous()
        written = (self._empty(batch, state), self._empty(batch, state))
        whole = (gates, cells, outputs_d, state_d, cell_d, gates_d, *written)
        step = self.launcher(BACKWARD, whole, one_dh=False, one_dcell=False)
        for t in reversed(range(self.steps)):
            arrays = (self._at(gates, t), self._at(cells, t + 1), self._at(outputs_d, t), state_d, cell_d)
            step(*arrays, self._at(gates_d, t), written[t % 2])
            self._matmul(self._factor(gates_d._data[t]), of_state, out=state_d._data)
            cell_d = written[t % 2]
        return gates_d, state_d, cell_d

    def products(
        self, gates_d: Array, inputs: Array, weights: Array, before: Any, needs: tuple[bool, ...]
    ) -> tuple[Array | None, Array | None]:
        """The gradients of the inputs and of the weights, as far as they are needed.

        Args:
            before: the h before each step, an ndarray (..., batch, state).
        """
        rows, state, features = self.steps * self.batch, self.state, self.features
        flat = self._factor(gates_d._data).reshape(rows, 3 * state)
        inputs_d = weights_d = None
        if needs[0]:
            product = self._matmul(flat, self._factor(weights._data)[:, state:])
            inputs_d = self._wrap(product.reshape(inputs.shape))
        if needs[1]:
            weights_d = self._empty(3 * state, state + features, product=True)
            before = self._factor(before).reshape(rows, state)
            projected = self._factor(inputs._data).reshape(rows, features)
            self._matmul(flat.T, before, out=weights_d._data[:, :state])
            self._matmul(flat.T, projected, out=weights_d._data[:, state:])
        return inputs_d, weights_d

    def _wrap(self, data: Any) -> Array:
        return Array._wrap(data, self.device)

    def _at(self, x: Array, step: int) -> Array:
        return Array._wrap(x._data[step], self.device)


class _LLTM(Function):
    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
    ) -> tuple[Array, Array, Array]:
        sequence = _Sequence(inputs, old_h.shape[1])
        keep = any(ctx.needs_input_grad)
        with on(inputs.device):
            states, cells, gates = sequence.forward(inputs, weights, bias.contiguous(), old_h, old_cell, keep)
            last_h, last_cell = (sequence._wrap(one._data[-1].copy()) for one in (states, cells))
        if keep:
            ctx.save_for_backward(inputs, weights, bias, old_h, old_cell, states, cells, gates)
        # A view of the saved states that shares their storage, so that writes to it are noticed.
        outputs = Array._wrap(states._data[1:], states.device, states._storage)
        return outputs, last_h, last_cell

    @staticmethod
    def backward(ctx: Any, outputs_d: Array, h_d: Array, cell_d: Array) -> tuple[Array | None, ...]:
        *primals, states, cells, gates = ctx.saved_arrays
        inputs, weights = primals[:2]
        needs = ctx.needs_input_grad

        def kernels() -> list[Array | None]:
            sequence = _Sequence(inputs, states.shape[2])
            with on(inputs.device):
                gates_d, old_h_d, old_cell_d = sequence.backward(
                    weights, cells, gates, outputs_d, h_d, cell_d
                )
                products = sequence.products(gates_d, inputs, weights, states._data[:-1], needs)
            bias_d = ops.sum(gates_d, axis=(0, 1)) if needs[2] else None
            gradients = (*products, bias_d, old_h_d, old_cell_d)
            return [None if one is None else ops.astype(one, inputs.dtype, copy=False) for one in gradients]

        return fused_vjp(kernels, lltm_reference, primals, (outputs_d, h_d, cell_d), needs)


_steps: Cache[tuple[Layout, ...], Step] = Cache()


def _step(arguments: Sequence[Array]) -> Step | None:
    """The cached step for the layouts of these arguments, or None."""
    try:
        return _steps.get(tuple([one._layout or one._planned() for one in arguments]))
    except AttributeError:  # not an array: a later check raises the error
        return None


def _pull_step(
    step: Step, cotangents: Sequence[Array], saved: Sequence[Array], needs: tuple[bool, ...]
) -> Sequence[Array | None]:
    *primals, new_cell, gates = saved
    if not tape.active():
        return step.backward(primals, new_cell, gates, cotangents, needs)

    def kernels() -> list[Array | None]:
        return step.backward(primals, new_cell, gates, cotangents, needs)

    return fused_vjp(kernels, lltm_cell_reference, primals, cotangents, needs)


def _checked(
    name: str, what: str, inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> list[Array]:
    """The arguments in one dtype, with checked shapes; errors call the first one ``what``."""
    names = (what, "weights", "bias", "old_h", "old_cell")
    taken = require_arrays((inputs, weights, bias, old_h, old_cell), name, names)
    inputs, weights, bias, old_h, old_cell = taken
    arrays = dict(zip(names, taken, strict=True))
    dtype = common_dtype(name, arrays)
    _require_inputs(name, what, inputs)
    if old_h.ndim != 2:
        raise ValueError(f"{name}: old_h: expected shape (batch, state), got {old_h.shape}")
    batch, features = inputs.shape[-2:]
    state = old_h.shape[1]
    expected = {
        "weights": (3 * state, state + features),
        "bias": (3 * state,),
        "old_h": (batch, state),
        "old_cell": (batch, state),
    }
    for argument, shape in expected.items():
        if arrays[argument].shape != shape:
            raise ValueError(
                f"{name}: {argument}: expected shape {shape} for {what} {inputs.shape} and a state of "
                f"{state}, got {arrays[argument].shape}"
            )
    return [ops.astype(one, dtype, copy=False) for one in arrays.values()]


def _require_inputs(name: str, what: str, inputs: Array) -> None:
    """Raise unless ``inputs`` are the input of a step, or the inputs of at least one step."""
    common_dtype(name, {what: inputs})
    if what == "input" and inputs.ndim != 2:
        raise ValueError(f"{name}: input: expected shape (batch, features), got {inputs.shape}")
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
    arguments = [input, weights, bias, old_h, old_cell]
    step = _step(arguments)
    if step is None:
        arguments = _checked("lltm_cell", "input", *arguments)
        arguments = [one.contiguous() if i in (2, 4) else readable(one) for i, one in enumerate(arguments)]
        layouts = tuple([one._planned() for one in arguments])
        step = _steps.get(layouts) or _steps.keep(layouts, Step(layouts))
    tracking = tape.tracked(arguments) if tape.opened else None
    new_h, new_cell, gates = step.forward(arguments, tracking is not None)
    if tracking is not None:
        _, keys, tapes = tracking
        saved = (*arguments, new_cell, gates)
        pull = partial(_pull_step, step)
        operation = tape.Operation("lltm_cell", step.arguments, step.layouts, pull)
        tape.record_tracked(operation, keys, (new_h, new_cell), saved, tapes)
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
    outputs, h, cell = _LLTM.apply(*_checked("lltm", "inputs", inputs, weights, bias, old_h, old_cell))
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
        old = self.initial_state(input.shape[0]) if state is None else state
        return lltm_cell(input, self.weights, self.bias, *old)


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
        old = self.initial_state(inputs.shape[1]) if state is None else state
        outputs, h, cell = lltm(inputs, self.weights, self.bias, *old)
        return outputs, (h, cell)


__all__ = ["LLTM", "LLTMCell", "lltm", "lltm_cell"]
