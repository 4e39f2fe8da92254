"""LSTM and GRU along sequences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .. import namespace as ops
from ..array import Array
from ..array.creation import zeros
from ..device import Device
from . import init
from .dropout import dropout, require_probability, stream
from .fused import common_dtype, require_shape, require_sizes
from .linear import linear
from .module import Module, Parameter
from .recurrence import stacked

State = tuple[Array, ...]


def _lstm_step(of_x: Any, of_h: Any, state: Any) -> tuple[Any, ...]:
    input, forget, candidate, output = (x + h for x, h in zip(of_x, of_h, strict=True))
    cell = ops.sigmoid(forget) * state[1] + ops.sigmoid(input) * ops.tanh(candidate)
    return ops.sigmoid(output) * ops.tanh(cell), cell


def _gru_step(of_x: Any, of_h: Any, state: Any) -> tuple[Any, ...]:
    reset, update = (ops.sigmoid(x + h) for x, h in zip(of_x[:2], of_h[:2], strict=True))
    new = ops.tanh(of_x[2] + reset * of_h[2])
    return (new + update * (state[0] - new),)


class _Recurrent(Module):
    """Base class of LSTM and GRU: parameters with PyTorch's names, layers, directions and the loop over steps."""

    _gates: int
    #: The number of arrays in a state.
    _states: int

    def __init__(
        self,
        inputs: int,
        state: int,
        layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
    ) -> None:
        name = type(self).__name__
        require_sizes(name, inputs=inputs, state=state, layers=layers)
        if not layers or not state:
            raise ValueError(f"{name}: state, layers: expected at least 1, got {state} and {layers}")
        self.inputs, self.state, self.layers = inputs, state, layers
        self.batch_first, self.bidirectional = bool(batch_first), bool(bidirectional)
        self.dropout = require_probability(name, dropout)
        generator, bound = init.generator(rng), 1 / math.sqrt(state)
        rows = self._gates * state
        for layer in range(layers):
            columns = inputs if not layer else state * self._directions
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, columns),
                    "weight_hh": (rows, state),
                }
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for kind, shape in shapes.items():
                    values = init.uniform(shape, -bound, bound, dtype, device, generator)
                    setattr(self, kind + suffix, Parameter(values))
        self._stream = stream(generator) if self.dropout else None

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        """The suffixes of the names of a layer's parameters, one for each direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def _run(self, x: Array, state: Sequence[Array] | None) -> tuple[Array, State]:
        """The outputs, and the last states of all layers and directions."""
        name = type(self).__name__
        common_dtype(name, {"x": x})
        order = ("batch", "steps") if self.batch_first else ("steps", "batch")
        require_shape(name, "x", x, *order, self.inputs)
        steps, batch = x.shape[:2] if not self.batch_first else (x.shape[1], x.shape[0])
        if not steps:
            raise ValueError(f"{name}: x: expected one step or more, got shape {x.shape}")
        starts = self._starts(x, batch, state)
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        dropped = self.training and self._stream is not None
        alone = x.device.addressable or self.bidirectional or dropped
        x, ends = self._through(x, iter(starts), 1 if alone else self.layers)
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        return x, tuple(ops.stack(list(one)) for one in zip(*ends, strict=True))

    def _through(self, x: Array, starts: Iterator[State], several: int) -> tuple[Array, list[State]]:
        """The outputs, and the last states of all layers and directions; a GPU runs ``several`` layers side by side."""
        ends: list[State] = []
        for first in range(0, self.layers, several):
            if first and self.training and self._stream is not None:
                self._stream.device = x.device
                x = dropout(x, self.dropout, self._stream)
            directions = []
            for suffixes in zip(*map(self._suffixes, range(first, first + several)), strict=True):
                (of_x, bias, *lowest), *others = ((*self._parameters(one), next(starts)) for one in suffixes)
                layers: Any = [(None, None, *lowest), *others]
                backwards = suffixes[0].endswith("_reverse")
                # One product for the inputs of all steps.
                outputs, last = stacked(type(self)._step, backwards, linear(x, of_x, bias), layers)
                directions.append(outputs)
                ends += last
            x = directions[0] if len(directions) == 1 else ops.concat(directions, axis=-1)
        return x, ends

    def _starts(self, x: Array, batch: int, state: Sequence[Array] | None) -> list[State]:
        """The state that each layer and direction starts from."""
        count = self.layers * self._directions
        shape = (count, batch, self.state)
        if state is None:
            nothing = zeros(shape[1:], x.dtype, x.device)
            return [(nothing,) * self._states] * count
        for i, one in enumerate(state):
            argument = f"state[{i}]" if self._states > 1 else "state"
            common_dtype(type(self).__name__, {"x": x, argument: one})
            require_shape(type(self).__name__, argument, one, *shape)
        return list(zip(*(ops.unstack(one) for one in state), strict=True))

    def _parameters(self, suffix: str) -> tuple[Array, Array | None, Array, Array | None]:
        """The weight and the bias of the inputs, and those of the state."""
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        of_x, bias, of_h, bias_h = (getattr(self, kind + suffix, None) for kind in kinds)
        return of_x, bias, of_h, bias_h  # type: ignore[return-value]

    @staticmethod
    def _step(of_x: Sequence[Any], of_h: Sequence[Any], state: Sequence[Any]) -> tuple[Any, ...]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"batch_first={self.batch_first}, dropout={self.dropout}, bidirectional={self.bidirectional}"


class LSTM(_Recurrent):
    """A long short-term memory along sequences, with layers and one or two directions.

    The parameters have the names, shapes and order of PyTorch's ``LSTM``: the gates are input, forget, candidate
    and output.

    Args:
        inputs: elements of an input.
        state: elements of a state.
        layers: the number of layers, each of which takes the outputs of the previous one.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (batch, steps, features) instead of (steps, batch, features).
        dropout: the probability of dropping an element between two layers in training.
        bidirectional: whether each layer also runs backwards along the sequence, which doubles the output features.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.

    Source: Hochreiter and Schmidhuber, 1997, with the forget gate of Gers and others, 2000.

    >>> import cukern as ck
    >>> outputs, (h, cell) = ck.nn.LSTM(3, 4, rng=0)(ck.zeros((5, 2, 3)))
    >>> outputs.shape, h.shape, cell.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    """

    _gates, _states, _step = 4, 2, staticmethod(_lstm_step)

    def forward(
        self, x: Array, state: tuple[Array, Array] | None = None
    ) -> tuple[Array, tuple[Array, Array]]:
        """The outputs of the last layer, and the last state ``(h, cell)`` of each layer and direction.

        Args:
            x: shape (steps, batch, inputs).
            state: the initial ``h`` and ``cell``, each (layers * directions, batch, state); zeros when None.
        """
        if state is not None and not (isinstance(state, (tuple, list)) and len(state) == 2):
            raise TypeError(f"LSTM: state: expected (h, cell) or None, got {type(state).__name__}")
        outputs, (h, cell) = self._run(x, state)
        return outputs, (h, cell)


class GRU(_Recurrent):
    """Gated recurrent units along sequences, with layers and one or two directions.

    The parameters have the names, shapes and order of PyTorch's ``GRU``: the gates are reset, update and candidate,
    and the reset gate multiplies the product with the state.

    Args:
        inputs: elements of an input.
        state: elements of a state.
        layers, bias, batch_first, dropout, bidirectional, dtype, device, rng: as in :class:`LSTM`.

    Source: Cho and others, 2014.

    >>> import cukern as ck
    >>> outputs, h = ck.nn.GRU(3, 4, bidirectional=True, rng=0)(ck.zeros((5, 2, 3)))
    >>> outputs.shape, h.shape
    ((5, 2, 8), (2, 2, 4))
    """

    _gates, _states, _step = 3, 1, staticmethod(_gru_step)

    def forward(self, x: Array, state: Array | None = None) -> tuple[Array, Array]:
        """The outputs of the last layer, and the last state of each layer and direction.

        Args:
            x: shape (steps, batch, inputs).
            state: the initial state, (layers * directions, batch, state); zeros when None.
        """
        if state is not None and not isinstance(state, Array):
            raise TypeError(f"GRU: state: expected an array or None, got {type(state).__name__}")
        outputs, (h,) = self._run(x, None if state is None else (state,))
        return outputs, h
