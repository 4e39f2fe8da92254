"""Text generation with a GGUF file: prefill of the prompt, then token by token, in steps that a GPU replays."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray
from ..capture import capture
from ..device import Device
from ..errors import require_int
from ..gguf.file import Mapped, open_gguf
from ..nn import sample_tokens
from ..nn.fused import is_int
from ..random import Generator, default_rng
from .decoder import Decoder, read_hyper
from .vocabulary import Vocabulary

#: Tokens of a prompt per call of the decoder (chunked prefill), which bounds the memory of activations.
_TOGETHER = 512


class Sampling(NamedTuple):
    """How tokens are drawn from logits.

    Attributes:
        temperature: what logits are divided by; 0 for the likeliest token.
        top_k: how many of the likeliest tokens take part; 0 for all.
        top_p: the fewest of the likeliest tokens take part whose probabilities sum to this, those of ``top_k``
            counted as all; 1 for all.

    >>> import cukern as ck
    >>> rng = ck.random.default_rng(0)
    >>> ck.generate.Sampling(temperature=0).draw(ck.asarray([[0.0, 2.0, 1.0]]), rng).tolist()
    [[1]]
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95

    def require(self) -> Sampling:
        """These numbers.

        Raises:
            TypeError: ``temperature`` or ``top_p`` is not a real number.
            ValueError: one is out of its range, or ``top_k`` is not an int.
        """
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name}: expected a number, got {value!r}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number of at least 0, got {self.temperature}")
        if not is_int(self.top_k) or self.top_k < 0:
            raise ValueError(f"top_k: expected an int of at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a number above 0 and up to 1, got {self.top_p}")
        return self

    def draw(self, logits: Array, rng: Generator) -> Array:
        """A token for each row of logits (batch, vocabulary): shape (batch, 1), int64; see :func:`sample_tokens`."""
        top_p = None if self.top_p == 1 else self.top_p
        tokens = sample_tokens(logits, self.temperature, top_k=self.top_k or None, top_p=top_p, rng=rng)
        return ops.expand_dims(tokens, axis=-1)


class Model:
    """A decoder and its vocabulary, which write text.

    Attributes:
        decoder: the :class:`Decoder`.
        vocabulary: the :class:`Vocabulary`.

    Args:
        file: the path of a GGUF file.
        positions: the most tokens of a prompt and its text; those that the model was trained for, at most 4096,
            when None.
        dtype: that of keys and values, see :class:`Decoder`.
        device: where the model is; the current device when None.
        vocabulary: that of the file, if it has been read; read from it when None.
        exact: see :class:`Decoder`.

    Raises:
        ValueError: the file is damaged, or has no model that is known; the message names the file and the entry.
        TypeError: a tensor has a type that cukern lacks.
        OSError: the file cannot be read.
        ImportError: the package ``gguf`` or ``tokenizers`` is not installed.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | Mapped,
        positions: int | None = None,
        dtype: Any = None,
        device: Device | str | None = None,
        vocabulary: Vocabulary | None = None,
        exact: bool = False,
    ) -> None:
        mapped = file if isinstance(file, Mapped) else open_gguf(file)
        self.vocabulary = read_vocabulary(mapped) if vocabulary is None else vocabulary
        count = min(read_hyper(mapped).positions, 4096) if positions is None else positions
        self.decoder = Decoder(mapped, count, 1, dtype, device, exact)
        if len(self.vocabulary) > self.decoder.hyper.vocabulary:
            raise ValueError(
                f"{mapped.name}: 'tokenizer.ggml.tokens': expected at most {self.decoder.hyper.vocabulary} tokens, the "
                f"rows of 'token_embd.weight', got {len(self.vocabulary)}"
            )
        self._rng: Generator | None = None
        self._steps: dict[Sampling, Callable[[Array], Array]] = {}
        self._begun = 0  # texts so far: the decoder has the positions of the last one

    def write(
        self, prompt: str, max_tokens: int = 128, sampling: Sampling | None = None, seed: int | None = None
    ) -> Iterator[str]:
        """The text that follows a prompt, in parts as they are computed. It ends at a token that ends texts.

        A model writes one text at a time: when another one begins, the earlier one cannot be continued.

        Args:
            prompt: the text before, in which the texts of control tokens stand for these.
            max_tokens: the most tokens to write.
            sampling: how tokens are drawn; as :class:`Sampling` does by default when None.
            seed: of the random numbers; fresh entropy when None.

        Raises:
            ValueError: the prompt is empty, or has no room; or another argument is out of range.
            TypeError: the prompt is no string, ``max_tokens`` or ``seed`` no int, or a number of ``sampling`` none.
            RuntimeError: while it is written: another text has begun.
        """
        return self.text(self.tokens(self.vocabulary.encode(prompt), max_tokens, sampling, seed))

    def text(self, tokens: Iterable[int]) -> Iterator[str]:
        """The texts of tokens, whole characters as soon as their last token is there."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            if text := decoder.decode(self.vocabulary.piece(token)):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    def tokens(
        self,
        prompt: Sequence[int],
        max_tokens: int = 128,
        sampling: Sampling | None = None,
        seed: int | None = None,
    ) -> Iterator[int]:
        """The tokens that follow those of a prompt; see :meth:`write`. Those that end a text are left out.

        Args:
            prompt: numbers of tokens, at least one.
            max_tokens, sampling, seed: as in :meth:`write`.

        Raises:
            ValueError: as :meth:`write`; or there is no such token.
            TypeError: as :meth:`write`; or ``prompt`` is no sequence of ints.
            RuntimeError: as :meth:`write`.
        """
        chosen = (Sampling() if sampling is None else sampling).require()
        room = self.decoder.positions
        require_int("max_tokens", max_tokens, 0)
        if not isinstance(prompt, Sequence | np.ndarray) or isinstance(prompt, str | bytes):
            raise TypeError(f"prompt: expected a sequence of ints, got {type(prompt).__name__}")
        if seed is not None:
            require_int("seed", seed, 0)
        if not len(prompt):
            raise ValueError("prompt: expected at least one token, got none")
        for token in prompt:
            self.vocabulary.piece(token)
        if len(prompt) >= room:
            raise ValueError(f"prompt: expected fewer than {room} tokens, the positions, got {len(prompt)}")
        return self._following(list(prompt), min(max_tokens, room - len(prompt)), chosen, seed)

    def _following(
        self, prompt: list[int], count: int, sampling: Sampling, seed: int | None
    ) -> Iterator[int]:
        device = self.decoder.device
        if self._rng is None or seed is not None:
            self._rng = default_rng(seed, device)
            self._steps.clear()
        step = self._steps.setdefault(sampling, self._step(sampling, self._rng))
        self._begun += 1
        text = self._begun
        self.decoder.reset()
        for start in range(0, len(prompt), _TOGETHER):
            part = np.asarray([prompt[start : start + _TOGETHER]], np.int64)
            logits = self.decoder(asarray(part, device=device))
        following = sampling.draw(logits, self._rng) if count else None
        for left in range(count, 0, -1):
            token = following
            assert token is not None
            if text != self._begun:
                raise RuntimeError("Model: another text has begun, so that this one cannot be continued")
            # On a GPU the next step runs while this token is read.
            following = step(token) if left > 1 else None
            number = int(token.numpy()[0, 0])
            if number in self.vocabulary.ends or number >= len(self.vocabulary):
                return
            yield number

    def _step(self, sampling: Sampling, rng: Generator) -> Callable[[Array], Array]:
        def step(token: Array) -> Array:
            return sampling.draw(self.decoder(token), rng)

        return capture(step)

    def __repr__(self) -> str:
        return f"Model({self.decoder!r}, {self.vocabulary!r})"


def read_vocabulary(file: Mapped) -> Vocabulary:
    """The vocabulary of a file.

    Raises:
        ValueError: as :class:`Vocabulary`, with the file's name.
    """
    try:
        return Vocabulary(file.metadata)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None
