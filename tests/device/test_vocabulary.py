"""Text to tokens and back, beside the algorithms written out: pieces joined by score, and bytes merged within words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cukern.generate import Vocabulary

pytest.importorskip("tokenizers")

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = [
    *"\u2581abcdehlotw",
    "he",
    "ll",
    "\u2581t",
    "\u2581he",
    "lo",
    "llo",
    "\u2581hello",
    "at",
    "the",
    "aa",
    "aaa",
    "\u2581\u2581",
]


def pieces(**changes: Any) -> dict[str, Any]:
    """A vocabulary with scores: the unknown token, two control tokens, one of the user's, bytes and pieces."""
    tokens = ["<unk>", "<s>", "</s>", "<|user|>", *BYTES, *PIECES]
    kinds = [2, 3, 3, 4, *[6] * 256, *[1] * len(PIECES)]
    scores = [0.0] * 260 + [-float(i) for i in range(len(PIECES))]
    found = {
        "model": "llama",
        "tokens": tokens,
        "scores": np.asarray(scores, np.float32),
        "token_type": np.asarray(kinds, np.int32),
        "bos_token_id": np.uint32(1),
        "eos_token_id": np.uint32(2),
    }
    return {f"tokenizer.ggml.{name}": value for name, value in (found | changes).items()}


def joined(text: str) -> list[str]:
    """Neighbours whose union has the highest score are joined, the first of several, until there are none."""
    rank = {piece: i for i, piece in enumerate(PIECES)}
    parts = list("\u2581" + text.replace(" ", "\u2581"))
    while True:
        pairs = [(rank[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in rank]
        if not pairs:
            return [one for part in parts for one in ([part] if part in rank else spelled(part))]
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def spelled(part: str) -> list[str]:
    return [BYTES[byte] for byte in part.encode()]


@pytest.mark.parametrize(
    "text",
    ["hello", "that the hat", "aaaaa aaaa", "  two  spaces", "h\u00e9llo \u2603 \U0001f600", "a\n\tb", ""],
)
def test_pieces_are_joined_by_their_scores(text: str) -> None:
    vocabulary = Vocabulary(pieces())
    tokens = vocabulary.encode(text, begin=False)
    assert [vocabulary.tokens[i] for i in tokens] == (joined(text) if text else [])
    assert vocabulary.decode(tokens) == (" " + text if text else "")
    bare = Vocabulary(pieces(add_space_prefix=False))
    assert bare.decode(bare.encode(text)) == text


def test_control_tokens_stand_for_themselves_and_write_nothing() -> None:
    vocabulary = Vocabulary(pieces())
    assert (vocabulary.begin, vocabulary.ends) == (1, {2})
    tokens = vocabulary.encode("he</s><|user|>he")
    assert [vocabulary.tokens[i] for i in tokens] == ["<s>", "\u2581he", "</s>", "<|user|>", "\u2581he"]
    assert vocabulary.decode(tokens) == " he<|user|> he"
    assert vocabulary.piece(4 + 0xE2) == b"\xe2", "a part of a character"
    with pytest.raises(ValueError, match="token: expected a number in 0 to"):
        vocabulary.piece(len(vocabulary))
    assert Vocabulary(pieces(add_bos_token=False)).begin is None


MERGES = ["\u0120 t", "h e", "\u0120t he", "1 2", "12 3", "\u00c3 \u00a9", "' s", "\u010a \u010a"]


def byte_level(**changes: Any) -> dict[str, Any]:
    """A vocabulary of bytes, each written as a character, and of merges."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) if b in shown else chr(256 + b - sum(s < b for s in shown)) for b in range(256)]
    tokens = [*alphabet, *(merge.replace(" ", "") for merge in MERGES), "<|begin|>", "<|eot_id|>", "whole"]
    kinds = [1] * (256 + len(MERGES)) + [3, 3, 1]
    found = {
        "model": "gpt2",
        "pre": "llama-bpe",
        "tokens": tokens,
        "merges": MERGES,
        "token_type": np.asarray(kinds, np.int32),
        "bos_token_id": np.uint32(256 + len(MERGES)),
    }
    return {f"tokenizer.ggml.{name}": value for name, value in (found | changes).items()}


@pytest.mark.parametrize(
    ("pre", "text", "parts"),
    [
        (
            "llama-bpe",
            "the the 1234 he's",
            ["t", "he", "\u0120the", "\u0120", "123", "4", "\u0120", "he", "'s"],
        ),
        ("qwen2", "123 \u00e9", ["1", "2", "3", "\u0120", "\u00c3\u00a9"]),
        ("qwen2", "e\u0301", ["\u00c3\u00a9"]),  # composed first
        ("gpt-2", "123HE'S", ["123", "H", "E", "'", "S"]),
        ("llama-bpe", "he\n\n\n  the", ["he", "\u010a\u010a", "\u010a", "\u0120", "\u0120the"]),
        ("llama-bpe", "whole<|eot_id|>x", ["whole", "<|eot_id|>", "x"]),
        ("gpt-2", "whole", [*"who", "l", "e"]),
    ],
)
def test_bytes_are_merged_within_words(pre: str, text: str, parts: list[str]) -> None:
    vocabulary = Vocabulary(byte_level(pre=pre))
    tokens = vocabulary.encode(text, begin=False)
    assert [vocabulary.tokens[i] for i in tokens] == parts
    if "<|" not in text and "\u0301" not in text:
        assert vocabulary.decode(tokens) == text


def test_what_begins_and_ends_texts() -> None:
    llama, gpt2 = Vocabulary(byte_level()), Vocabulary(byte_level(pre="gpt-2", add_eos_token=False))
    assert llama.encode("1")[0] == llama.begin == 256 + len(MERGES)
    assert gpt2.begin is None
    assert llama.ends == {257 + len(MERGES)}, "the ends of turns are known by their texts"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": []}, "'tokenizer.ggml.tokens': expected strings"),
        ({"scores": np.zeros(3)}, "'tokenizer.ggml.scores': expected .* numbers, one a token"),
        ({"bos_token_id": -1}, "'tokenizer.ggml.bos_token_id': expected a token's number"),
        ({"add_bos_token": 1}, "'tokenizer.ggml.add_bos_token': expected a bool, got 1"),
        (
            {"token_type": np.full(260 + len(PIECES), 6)},
            "'tokenizer.ggml.tokens': expected bytes to be written as <0x0A>",
        ),
        ({"model": None}, "'tokenizer.ggml.model': the file lacks this entry"),
    ],
)
def test_impossible_entries_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary(pieces(**changes))
