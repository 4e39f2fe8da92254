"""The vocabulary of a GGUF file: text to tokens by the package ``tokenizers``, and tokens to bytes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..nn.fused import is_int

# Regular expressions by which byte-level vocabularies split text into words before merges.
# Source: ``llama-vocab.cpp`` of https://github.com/ggml-org/llama.cpp, and the tokenizer files of the models.
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_ENDS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _ENDS
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _ENDS
#: By ``tokenizer.ggml.pre``: the expression, and whether words that are tokens themselves are not merged from parts and
#: texts begin with a token of their own, unless the file says otherwise.
_PRE: dict[str, tuple[str, bool]] = {
    "default": (_GPT2, False),
    "gpt-2": (_GPT2, False),
    "llama-bpe": (_LLAMA3, True),
    "llama3": (_LLAMA3, True),
    "llama-v3": (_LLAMA3, True),
    "qwen2": (_QWEN2, False),
    "deepseek-r1-qwen": (_QWEN2, False),
}
# GGUF's types of tokens; all others but unused ones are plain.
_UNKNOWN, _CONTROL, _USER, _BYTE = 2, 3, 4, 6
#: Control tokens that end a text, besides those that a file names.
_ENDINGS = ("</s>", "<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "<end_of_turn>", "<eos>")


class Vocabulary:
    """Tokens and their numbers, and how text becomes tokens.

    Attributes:
        tokens: the tokens' texts, as the file has them.
        begin: the number of the token that a text begins with, or None.
        ends: the numbers of the tokens that end a text.

    Args:
        metadata: values by name, as :func:`cukern.load_gguf` reads them.

    Raises:
        ValueError: an entry is missing or impossible, or the kind of vocabulary is not known; the message names it.
        ImportError: the package ``tokenizers`` is not installed.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        entries = _Entries(metadata)
        self.kind = entries.text("model")
        if self.kind not in ("llama", "gpt2"):
            raise entries.wrong("model", f"expected 'llama' or 'gpt2', got {self.kind!r}")
        self.tokens: list[str] = entries.texts("tokens")
        self._types = entries.numbers("token_type", len(self.tokens), 1).astype(np.int64).tolist()
        pre = entries.text("pre", "default") if self.kind == "gpt2" else ""
        if self.kind == "gpt2" and pre not in _PRE:
            raise entries.wrong("pre", f"expected one of {', '.join(_PRE)}, got {pre!r}")
        begins = entries.flag("add_bos_token", self.kind == "llama" or (pre in _PRE and _PRE[pre][1]))
        first = entries.token("bos_token_id", len(self.tokens))
        self.begin = first if begins else None
        ends = {entries.token(f"{name}_token_id", len(self.tokens)) for name in ("eos", "eot", "eom")}
        known_ends = {
            i for i, text in enumerate(self.tokens) if text in _ENDINGS and self._types[i] == _CONTROL
        }
        self.ends = frozenset(known_ends | {end for end in ends if end is not None})
        self._tokenizer = _tokenizer(entries, self.tokens, self._types, pre)
        self._bytes_of = {char: code for code, char in _characters().items()}

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The tokens of a text, in which the texts of control tokens stand for these.

        Args:
            text: any.
            begin: whether to put the token that begins a text before the others, if there is one.

        Returns:
            Their numbers. What the vocabulary has no token for becomes its unknown token, or is left out if there is
            none.

        Raises:
            TypeError: ``text`` is no string.
            ValueError: it is no valid Unicode.
        """
        if not isinstance(text, str):
            raise TypeError(f"encode: text: expected a string, got {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"encode: text: expected valid Unicode: {error}") from None
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return tokens if self.begin is None or not begin else [self.begin, *tokens]

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for; none for control tokens. They may be a part of a character.

        Raises:
            ValueError: there is no such token.
            TypeError: it is no int.
        """
        if not is_int(token):
            raise TypeError(f"token: expected an int, got {token!r}")
        if not 0 <= token < len(self.tokens):
            raise ValueError(f"token: expected a number in 0 to {len(self.tokens) - 1}, got {token}")
        text, kind = self.tokens[token], self._types[token]
        if kind in (_CONTROL, _UNKNOWN):
            return b""
        if kind == _BYTE:
            return bytes([int(text[3:5], 16)])
        if kind == _USER:
            return text.encode()
        if self.kind == "llama":
            return text.replace("\u2581", " ").encode()
        return b"".join(
            bytes([self._bytes_of[char]]) if char in self._bytes_of else char.encode() for char in text
        )

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; bytes that are no character become U+FFFD. The space that encoding puts first stays."""
        return b"".join(map(self.piece, tokens)).decode(errors="replace")

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind}, {len(self)} tokens)"


class _Entries:
    """The entries of a vocabulary, checked as they are read."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata

    def wrong(self, name: str, message: str) -> ValueError:
        return ValueError(f"'tokenizer.ggml.{name}': {message}")

    def get(self, name: str, default: Any = None) -> Any:
        found = self.metadata.get(f"tokenizer.ggml.{name}", default)
        if found is None:
            raise self.wrong(name, "the file lacks this entry")
        return found

    def text(self, name: str, default: str | None = None) -> str:
        found = self.get(name, default)
        if not isinstance(found, str):
            raise self.wrong(name, f"expected a string, got {found!r:.60}")
        return found

    def texts(self, name: str) -> list[str]:
        found = self.get(name)
        if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
            raise self.wrong(name, f"expected strings, got {found!r:.60}")
        return found

    def numbers(self, name: str, count: int, default: float | None = None) -> np.ndarray[Any, Any]:
        """As many numbers as there are tokens."""
        filled = None if default is None else np.full(count, default)
        found = np.asarray(self.get(name, filled))
        if found.shape != (count,) or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
            raise self.wrong(name, f"expected {count} finite numbers, one a token, got {found!r:.60}")
        return found

    def flag(self, name: str, default: bool) -> bool:
        found = self.get(name, default)
        if not isinstance(found, bool):
            raise self.wrong(name, f"expected a bool, got {found!r:.60}")
        return found

    def token(self, name: str, count: int) -> int | None:
        """The number of a token, None where the file names none."""
        found = self.metadata.get(f"tokenizer.ggml.{name}")
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, np.integer)) or not 0 <= found < count:
            raise self.wrong(name, f"expected a token's number below {count}, got {found!r:.60}")
        return int(found)


def _characters() -> dict[int, str]:
    """The characters that stand for bytes in byte-level vocabularies: themselves where they can be seen.

    Source: Radford and others, "Language models are unsupervised multitask learners", 2019, their ``encoder.py``.
    """
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = (byte for byte in range(256) if byte not in seen)
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def _tokenizer(entries: _Entries, tokens: list[str], types: list[int], pre: str) -> Any:
    try:
        import tokenizers
    except ImportError as error:
        message = f"Vocabulary: it needs the package tokenizers: pip install 'cukern[gguf]' ({error})"
        raise ImportError(message) from None
    for token, kind in zip(tokens, types, strict=True):
        if kind == _BYTE and not re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
            raise entries.wrong("tokens", f"expected bytes to be written as <0x0A>, got {token!r:.60}")
    numbers = {token: i for i, token in enumerate(tokens)}
    build = _pieces if pre == "" else _byte_level
    try:
        tokenizer = build(tokenizers, entries, tokens, types, numbers, pre)
    except ValueError:
        raise
    except Exception as error:  # the package raises this class itself
        raise entries.wrong("merges" if pre else "tokens", f"they make no vocabulary: {error}") from None
    plain = [tokens[i] for i, kind in enumerate(types) if kind == _USER]
    control = [tokens[i] for i, kind in enumerate(types) if kind == _CONTROL]
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in plain if text])
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(text, normalized=False, special=True) for text in control if text]
    )
    return tokenizer


def _pieces(
    tokenizers: Any, entries: _Entries, tokens: list[str], types: list[int], numbers: dict[str, int], pre: str
) -> Any:
    """SentencePiece's BPE: neighbours whose union has the highest score are merged first."""
    scores = entries.numbers("scores", len(tokens))
    joined = sorted(_splits(tokens, types, numbers), key=lambda pair: -scores[pair[2]])
    merges = [(left, right) for left, right, _ in joined]
    unknown = next((tokens[i] for i, kind in enumerate(types) if kind == _UNKNOWN), None)
    model = tokenizers.models.BPE(
        vocab=numbers, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=_BYTE in types
    )
    tokenizer = tokenizers.Tokenizer(model)
    rules = [tokenizers.normalizers.Replace(" ", "\u2581")]
    if entries.flag("add_space_prefix", True):
        rules.insert(0, tokenizers.normalizers.Prepend("\u2581"))
    tokenizer.normalizer = tokenizers.normalizers.Sequence(rules)
    return tokenizer


def _splits(tokens: list[str], types: list[int], numbers: dict[str, int]) -> Iterator[tuple[str, str, int]]:
    """Each split of a token into two tokens, with the token's number."""
    parts = (
        (token, kind not in (_UNKNOWN, _CONTROL, _BYTE)) for token, kind in zip(tokens, types, strict=True)
    )
    whole = dict.fromkeys(token for token, is_part in parts if is_part)
    lengths = sorted({len(token) for token in whole if token})
    for token in whole:
        for at in itertools.takewhile(len(token).__gt__, lengths):
            if token[:at] in whole and token[at:] in whole:
                yield token[:at], token[at:], numbers[token]


def _byte_level(
    tokenizers: Any, entries: _Entries, tokens: list[str], types: list[int], numbers: dict[str, int], pre: str
) -> Any:
    """Byte-level BPE: bytes, each written as a character, are merged within words."""
    pattern, whole = _PRE[pre]
    merges = []
    for i, merge in enumerate(entries.texts("merges") if "tokenizer.ggml.merges" in entries.metadata else []):
        left, space, right = merge.partition(" ")
        if not (left and space and right):
            raise entries.wrong(
                "merges", f"expected two parts with a space between, got {merge!r:.60} at {i}"
            )
        merges.append((left, right))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=merges, ignore_merges=whole))
    cut = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    spell = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([cut, spell])
    if pre == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    return tokenizer
