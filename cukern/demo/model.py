"""The demo's model: an embedding of characters, an LLTM along the text, a linear layer to the next character."""

from __future__ import annotations

import numpy as np

from ..array import Array
from ..array.creation import asarray
from ..nn import LLTM, Embedding, Linear, Module, init
from .text import ALPHABET, decode, encode

State = tuple[Array, Array]

FEATURES, STATE = 32, 128


class CharacterModel(Module):
    """Predicts the next character at each position of texts.

    Args:
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.
    """

    def __init__(self, rng: init.Rng = None) -> None:
        generator = init.generator(rng)
        self.embedding = Embedding(len(ALPHABET), FEATURES, rng=generator)
        self.lltm = LLTM(FEATURES, STATE, rng=generator)
        self.head = Linear(STATE, len(ALPHABET), rng=generator)

    def forward(self, codes: Array, state: State | None = None) -> tuple[Array, State]:
        """The logits of each next character, and the state after the last.

        Args:
            codes: positions in the alphabet, shape (steps, batch).
            state: the initial h and cell; zeros when None.
        """
        outputs, state = self.lltm(self.embedding(codes), state)
        return self.head(outputs), state


def sample(
    model: CharacterModel,
    start: str,
    length: int,
    memory: int,
    rng: np.random.Generator,
    temperature: float = 0.8,
) -> str:
    """``start``, continued by ``length`` characters drawn from the model.

    The cell has no forget gate, so it grows along a text, beyond its values in training. So the state is recomputed
    from the last characters, often enough that it never depends on more than ``memory`` of them.
    """
    device = model.head.weight.device
    fresh = memory // 4
    written = list(encode(start))
    while len(written) < len(start) + length:
        context = np.array(written[fresh - memory :])
        logits, state = model(asarray(context[:, None], device=device))
        for _ in range(fresh):
            scores = logits[-1, 0].numpy().astype(np.float64) / temperature
            shares = np.exp(scores - scores.max())
            written.append(int(rng.choice(len(ALPHABET), p=shares / shares.sum())))
            logits, state = model(asarray(np.array([written[-1:]]), device=device), state)
    return decode(written[: len(start) + length])
