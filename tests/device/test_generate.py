"""Decoders from GGUF files beside NumPy's float64, how tokens are drawn, and the text that is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import decoders
import numpy as np
import pytest

import cukern as ck
from cukern.array.layout import address
from cukern.cli import generate as command
from cukern.cli import main
from cukern.generate import Decoder, Model, Sampling, Vocabulary, kernels
from cukern.generate import decoder as decoder_module
from cukern.generate.hyper import HyperParameters
from cukern.gguf.file import open_gguf
from cukern.quant.families import QUANTISED, SETTLED

pytest.importorskip("gguf")

PROMPT, AFTER = [3, 1, 4, 1, 5, 9], [2, 6, 5, 35]
#: Kinds of the matrices of each form, and of some that differ, so that they are not joined.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "llama": ("Q8_0", {"attn_v.weight": "F16", "token_embd.weight": "F32"}),
    "llama stretched": ("Q4_0", {}),
    "qwen2": ("F32", {}),
    "qwen3": ("Q8_0", {}),
    "gemma": ("Q8_0", {}),
    "gemma2": ("F32", {"attn_q.weight": "Q8_0"}),
    "gemma3": ("F32", {}),
}


def tolerance(form: decoders.Form, exact: np.ndarray) -> float:
    """Each layer has four products in a row, of sums of up to 128 terms whose float32 roundings add as a random walk.

    They change the stream relative to its size, and so the logits.
    """
    return float(form.layers * 4 * np.sqrt(128) * 2**-24 * np.abs(exact).max())


def codes(tokens: list[int], device: ck.Device) -> ck.Array:
    return ck.asarray(np.asarray([tokens]), device=device)


@pytest.mark.parametrize("name", CASES)
def test_logits_are_numpys(name: str, device: ck.Device, tmp_path: Path) -> None:
    """Those after a prompt, and after each of the tokens that follow it one by one."""
    form, path = decoders.FORMS[name], tmp_path / "model.gguf"
    kind, others = CASES[name]
    weights = decoders.write(path, form, kind, others)
    exact = decoders.logits(form, weights, PROMPT + AFTER)[len(PROMPT) - 1 :]
    decoder = Decoder(path, dtype="float32", device=device, exact=True)
    made = [decoder(codes(PROMPT, device)), *(decoder(codes([token], device)) for token in AFTER)]
    found = np.concatenate([one.numpy() for one in made])
    bound = tolerance(form, exact)
    if "F16" in others.values():  # activations are rounded to float16 for such a matrix
        bound = float(np.abs(exact).max() * 2**-11)
    assert np.abs(found - exact).max() < bound
    decoder.reset()
    again = decoder(codes(PROMPT, device)).numpy()
    assert np.abs(again - exact[:1]).max() < bound


@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_rounded_activations_change_logits_little(
    name: str, device: ck.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each product errs by about 0.5 % of its result's size, and nine follow each other.

    On the host the GPU's kernels run, which make such activations where they make them at all.
    """
    for module in (kernels, decoder_module):
        monkeypatch.setattr(module, "serial", lambda device: False)
    form, path = decoders.FORMS[name], tmp_path / "model.gguf"
    weights = decoders.write(path, form, "Q8_0")
    decoder = Decoder(path, device=device)
    for tokens in (
        PROMPT,
        PROMPT + AFTER,
    ):  # the second are more than are rounded to 8 bits: they are in bfloat16
        decoder.reset()
        exact = decoders.logits(form, weights, tokens)[-1]
        with SETTLED.only("settled rows"), QUANTISED.only("few rows", "dense"):
            found = decoder(codes(tokens, device)).numpy()[0]
        assert 0 < np.std(found - exact) < 0.005 * np.sqrt(9) * np.std(exact)


def test_vectors_are_aligned_where_the_file_is_not(tmp_path: Path) -> None:
    form, starts = decoders.FORMS["qwen2"], set()
    for pad in ("", "x" * 8):  # one of the two moves all tensors to odd multiples of 8 bytes
        path = tmp_path / "model.gguf"
        decoders.write(path, form, extra={"general.alignment": 8, "pad": pad})
        starts |= {place.start % 16 for place in open_gguf(path).places.values()}
        weights = Decoder(path, device="host").weights
        for one in (weights.norm, weights.layers[0].norm, weights.layers[0].network_norm):
            assert address(one._data) % 16 == 0
    assert 8 in starts


def test_sequences_of_a_batch_are_apart(device: ck.Device, tmp_path: Path) -> None:
    form, path = decoders.FORMS["qwen2"], tmp_path / "model.gguf"
    weights = decoders.write(path, form)
    decoder = Decoder(path, batch=2, dtype="float32", device=device)
    both = np.asarray([PROMPT, PROMPT[::-1]])
    found = decoder(ck.asarray(both, device=device)).numpy()
    for row, one in zip(both.tolist(), found, strict=True):
        exact = decoders.logits(form, weights, row)[-1]
        assert np.abs(one - exact).max() < tolerance(form, exact)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2"])
def test_greedy_text_is_numpys(name: str, device: ck.Device, tmp_path: Path) -> None:
    form, path = decoders.FORMS[name], tmp_path / "model.gguf"
    weights = decoders.write(path, form, CASES[name][0], extra=vocabulary())
    model = Model(path, dtype="float32", device=device, exact=True)
    tokens = model.vocabulary.encode("hello zz")
    wanted: list[int] = []
    while len(wanted) < 8:
        exact = decoders.logits(form, weights, tokens + wanted)[-1]
        first, second = np.sort(exact)[:-3:-1]
        assert first - second > 2 * tolerance(form, exact), "the likeliest token should be beyond doubt"
        wanted.append(int(exact.argmax()))
        if wanted[-1] in model.vocabulary.ends:
            wanted.pop()
            break
    assert list(model.tokens(tokens, 8, Sampling(temperature=0))) == wanted
    text = "".join(model.write("hello zz", 8, Sampling(temperature=0)))
    assert text == model.vocabulary.decode(wanted)


def test_a_trained_model_writes_numpys_text(device: ck.Device, tmp_path: Path) -> None:
    """The example's whole way: trained, exported, quantised, read again; then its weights in NumPy."""
    root, path = Path(__file__).parents[2], tmp_path / "llama.gguf"
    sizes = "--steps 20 --batch 4 --length 16 --features 128 --layers 1 --write 2 --keep"
    subprocess.run(
        [sys.executable, str(root / "examples" / "12_generate.py"), *sizes.split(), str(path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root), *sys.path]),
            "CUKERN_DEVICE": str(device),
        },
        check=True,
        timeout=300,
    )
    tensors = ck.load_gguf(path, device="host").tensors
    weights = {
        name: (one if isinstance(one, ck.Array) else one.dequantize()).numpy().astype("f8")
        for name, one in tensors.items()
    }
    form = decoders.Form("llama", layers=1, rope__freq_base=10000.0)
    model = Model(path, dtype="float32", device=device, exact=True)
    tokens = model.vocabulary.encode("def ")
    wanted: list[int] = []
    while len(wanted) < 6:
        exact = decoders.logits(form, weights, tokens + wanted)
        first, second = np.sort(exact[-1])[:-3:-1]
        assert first - second > 2 * tolerance(form, exact), "the likeliest token should be beyond doubt"
        if not wanted:
            found = model.decoder(codes(tokens, device)).numpy()[0]
            assert np.abs(found - exact[-1]).max() < tolerance(form, exact)
            model.decoder.reset()
        wanted.append(int(exact[-1].argmax()))
    assert list(model.tokens(tokens, 6, Sampling(temperature=0))) == wanted


def vocabulary() -> dict[str, Any]:
    """Metadata of a byte-level vocabulary of as many tokens as the decoders have."""
    tokens = ["<s>", "</s>", *"\u0120abcdefghijklmnopqrstuvwxyzABCDEFGHIJ", "zz"]
    assert len(tokens) == decoders.TOKENS
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.asarray([3, 3] + [1] * (len(tokens) - 2), np.int32),
        "tokenizer.ggml.merges": ["z z"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
    }


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    decoders.write(path, decoders.FORMS["llama"], "Q8_0", extra=vocabulary())
    return path


def test_a_seed_gives_the_same_text(model_file: Path, device: ck.Device) -> None:
    model = Model(model_file, device=device)
    sampling = Sampling(1.0, 5, 0.9)
    prompt = model.vocabulary.encode("ab")
    first = list(model.tokens(prompt, 12, sampling, seed=3))
    assert first == list(model.tokens(prompt, 12, sampling, seed=3))
    assert first != list(model.tokens(prompt, 12, sampling, seed=4))
    assert list(model.tokens(prompt, 12, Sampling(1.0, top_k=1))) == list(
        model.tokens(prompt, 12, Sampling(0))
    )
    # Text ends where the positions do.
    assert len(list(model.tokens(prompt, 1000, Sampling(2.0, 0, 1.0), seed=1))) <= decoders.POSITIONS - len(
        prompt
    )


@pytest.mark.parametrize(
    ("sampling", "kept"), [(Sampling(1.0, 0, 1.0), 6), (Sampling(0.5, 3, 1.0), 3), (Sampling(1.0, 0, 0.6), 2)]
)
def test_draws_have_the_probabilities_of_the_softmax(
    sampling: Sampling, kept: int, device: ck.Device
) -> None:
    p = np.asarray([0.05, 0.4, 0.1, 0.3, 0.1, 0.05])
    wanted = np.where(np.argsort(np.argsort(-p, kind="stable")) < kept, p ** (1 / sampling.temperature), 0)
    wanted /= wanted.sum()
    count = 20000
    logits = ck.asarray(np.broadcast_to(np.log(p), (count, 6)), dtype="float32", device=device)
    drawn = sampling.draw(logits, ck.random.default_rng(0, device)).numpy()
    share = np.bincount(drawn.reshape(-1), minlength=6) / count
    assert (share[wanted == 0] == 0).all()
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / count)).sum() == kept


def changed(name: str, value: Any) -> tuple[Any, Any]:
    """The tensors and metadata of a decoder with one of them changed; None takes it out."""
    form = decoders.FORMS["llama"]
    tensors, metadata = {k: ck.asarray(v) for k, v in form.weights().items()}, form.metadata() | vocabulary()
    where = tensors if name.endswith("weight") else metadata
    where.pop(name, None)
    return tensors, metadata if value is None else (where.update({name: value}) or metadata)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("blk.1.ffn_up.weight", None, "'blk.1.ffn_up.weight': the file lacks this tensor"),
        ("token_embd.weight", None, "'token_embd.weight': the file lacks this matrix"),
        ("blk.0.attn_q.weight", (3, 64), "'blk.0.attn_q.weight': expected shape (128, 64), got (3, 64)"),
        ("blk.0.attn_q_norm2.weight", (32,), "'blk.0.attn_q_norm2.weight': llama has no such tensor"),
        ("general.architecture", "falcon", "'general.architecture': expected one of llama, qwen2"),
        ("llama.block_count", None, "'llama.block_count': the file lacks this entry"),
        ("llama.block_count", -1, "'llama.block_count': expected a number from 1 to 65536, got -1"),
        ("llama.block_count", 2**31 - 1, "'llama.block_count': expected a number from 1 to 65536"),
        ("llama.attention.key_length", 2**30, "'llama.attention.value_length': expected 1073741824"),
        ("llama.embedding_length", "many", "'llama.embedding_length': expected an integer, got 'many'"),
        (
            "llama.attention.head_count_kv",
            3,
            "'llama.attention.head_count_kv': expected a divisor of the 4 heads",
        ),
        (
            "llama.rope.scaling.type",
            "yarn",
            "'llama.rope.scaling.type': expected 'none' or 'linear', got 'yarn'",
        ),
        ("llama.rope.dimension_count", 33, "'llama.rope.dimension_count': expected an even number"),
        ("llama.expert_count", 8, "'llama.expert_count': mixtures of experts are not supported"),
        ("tokenizer.ggml.model", "bert", "'tokenizer.ggml.model': expected 'llama' or 'gpt2', got 'bert'"),
        ("tokenizer.ggml.pre", "x", "'tokenizer.ggml.pre': expected one of default"),
        ("tokenizer.ggml.merges", ["zz"], "'tokenizer.ggml.merges': expected two parts"),
        ("tokenizer.ggml.merges", ["q zz"], "'tokenizer.ggml.merges': they make no vocabulary"),
        (
            "tokenizer.ggml.eos_token_id",
            99,
            "'tokenizer.ggml.eos_token_id': expected a token's number below 40",
        ),
    ],
)
def test_files_without_a_model_are_refused(name: str, value: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    with ck.device("host"):
        made = ck.zeros(value) if isinstance(value, tuple) else value
        ck.save_gguf(path, *changed(name, made))
        with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")):
            Model(path)


def test_what_cannot_be_written_is_named(model_file: Path) -> None:
    model = Model(model_file, positions=4, device="host")
    for call, message in (
        (lambda: model.write("abcd"), "prompt: expected fewer than 4 tokens"),
        (lambda: model.tokens([]), "prompt: expected at least one token"),
        (lambda: model.write("a", -1), "max_tokens: expected at least 0, got -1"),
        (lambda: model.write("a", sampling=Sampling(-1.0)), "temperature: expected a number of at least 0"),
        (
            lambda: model.write("a", sampling=Sampling(top_k=-1)),
            "top_k: expected an int of at least 0, got -1",
        ),
        (
            lambda: model.write("a", sampling=Sampling(top_k=2.5)),
            "top_k: expected an int of at least 0, got 2.5",
        ),
        (lambda: model.write("a", sampling=Sampling(top_p=0.0)), "top_p: expected a number above 0"),
        (lambda: model.tokens([1, 40]), "token: expected a number in 0 to 39, got 40"),
        (lambda: model.write("a\udcff"), "encode: text: expected valid Unicode"),
        (lambda: model.decoder(codes([1] * 5, model.decoder.device)), "Decoder: tokens: expected room for 5"),
        (
            lambda: model.decoder(ck.zeros((2, 1), "int64", "host")),
            r"tokens: expected shape \(1, length\) .*\(2, 1\)",
        ),
        (
            lambda: model.decoder(ck.zeros((1, 0), "int64", "host")),
            r"tokens: expected shape \(1, length\) .*\(1, 0\)",
        ),
        (
            lambda: model.decoder(ck.zeros(3, "int64", "host")),
            r"tokens: expected shape \(1, length\) .*\(3,\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_what_a_file_does_not_state_is_as_its_architecture_has_it() -> None:
    """The defaults of llama.cpp's models."""
    sizes = {"block_count": 6, "embedding_length": 64, "attention.head_count": 4, "feed_forward_length": 96}
    sizes |= {"context_length": 512, "attention.layer_norm_rms_epsilon": 1e-6}

    def made(architecture: str, **more: Any) -> HyperParameters:
        entries = {f"{architecture}.{name}": value for name, value in {**sizes, **more}.items()}
        return HyperParameters.of({"general.architecture": architecture, **entries}, 32)

    llama = made("llama")
    assert (llama.score_cap, llama.logit_cap, llama.embedding_scale) == (None, None, 1.0)
    assert (llama.key_heads, llama.head_features, llama.turned, llama.scale) == (4, 16, 16, 0.25)
    assert (llama.windows, llama.bases, llama.stretches) == ((None,) * 6, (10000.0,) * 6, (1.0,) * 6)
    gemma = made("gemma2")
    assert (gemma.score_cap, gemma.logit_cap, gemma.embedding_scale) == (50.0, 30.0, 8.0)
    assert gemma.windows == (4096, None) * 3
    period = made(
        "gemma3", **{"attention.sliding_window": 7, "rope.freq_base": 1e6, "rope.scaling.factor": 8.0}
    )
    assert period.windows == (7,) * 5 + (None,)
    assert period.bases == (10000.0,) * 5 + (1e6,) and period.stretches == (1.0,) * 5 + (8.0,)


def test_arguments_of_other_types_are_named(model_file: Path) -> None:
    model = Model(model_file, positions=4, device="host")
    odd: Any = 5.0
    text: Any = "a"
    for call, message in (
        (lambda: model.tokens([1], odd), "max_tokens: expected an int, got 5.0"),
        (lambda: model.tokens([1], True), "max_tokens: expected an int, got True"),
        (lambda: model.tokens(text), "prompt: expected a sequence of ints, got str"),
        (lambda: model.tokens([odd]), "token: expected an int, got 5.0"),
        (lambda: model.tokens([1], seed=odd), "seed: expected an int, got 5.0"),
        (lambda: model.tokens([1], sampling=Sampling(text)), "temperature: expected a number, got 'a'"),
        (lambda: model.tokens([1], sampling=Sampling(top_p=text)), "top_p: expected a number, got 'a'"),
        (lambda: Model(odd), "path: expected a string or a path, got float"),
        (lambda: Model(model_file, odd), "Decoder: positions: expected an int, got 5.0"),
        (lambda: Decoder(model_file, batch=odd), "Decoder: batch: expected an int, got 5.0"),
        (lambda: ck.save_gguf(odd, {}), "save_gguf: path: expected a string or a path, got float"),
        (lambda: ck.save_gguf("x", odd), "save_gguf: tensors: expected values by name, got float"),
        (lambda: ck.save_gguf("x", {}, odd), "save_gguf: metadata: expected values by name, got float"),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()
    with pytest.raises(ValueError, match="seed: expected at least 0, got -1"):
        model.tokens([1], seed=-1)
    assert list(model.tokens(np.asarray([1]), 1, Sampling(0))) == list(model.tokens([1], 1, Sampling(0)))


def test_tokens_that_there_are_not_leave_the_positions(model_file: Path) -> None:
    decoder = Decoder(model_file, device="host", exact=True)
    first = decoder(codes(PROMPT, decoder.device)).numpy()
    decoder.reset()
    for wrong, error in ((codes([99], decoder.device), IndexError), ([[1]], TypeError)):
        with pytest.raises(error, match=r"tokens: expected"):
            decoder(wrong)
    np.testing.assert_array_equal(decoder(codes(PROMPT, decoder.device)).numpy(), first)


def test_a_model_writes_one_text_at_a_time(model_file: Path) -> None:
    model = Model(model_file, device="host")
    greedy = Sampling(0)
    first, second = model.tokens([5], 4, greedy), model.tokens([7, 8], 4, greedy)
    next(first)
    found = [next(second)]
    with pytest.raises(RuntimeError, match="another text has begun"):
        next(first)
    assert found + list(second) == list(model.tokens([7, 8], 4, greedy))


def test_pieces_of_a_vocabulary(model_file: Path) -> None:
    """Characters that are split over tokens come whole; bytes are hexadecimal; a long token takes no long time."""
    tokens = ["<unk>", "\u2581", "a", "\u2581a", "<0xE2>", "<0x82>", "<0xAC>"]
    entries = {"model": "llama", "tokens": tokens, "scores": np.zeros(7), "token_type": [2, 1, 1, 1, 6, 6, 6]}

    def made(**changed: Any) -> Vocabulary:
        return Vocabulary({f"tokenizer.ggml.{name}": value for name, value in (entries | changed).items()})

    model = Model(model_file, vocabulary=made(), device="host")
    assert model.vocabulary.encode("a\u20ac") == [3, 4, 5, 6]
    assert list(model.text([4, 5, 6, 2, 4, 5])) == ["\u20ac", "a", "\ufffd"]
    assert model.vocabulary.encode("\u00e9") == [1, 0]
    for changed, message in (
        ({"tokens": [*tokens[:-1], "<0xZZ>"]}, "expected bytes to be written as <0x0A>, got '<0xZZ>'"),
        ({"token_type": np.full(7, np.nan)}, "'tokenizer.ggml.token_type': expected 7 finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            made(**changed)
    begun = time.process_time()
    made(tokens=[*tokens[:-1], "a" * 1_000_000], token_type=[2, 1, 1, 1, 6, 6, 1])
    assert time.process_time() - begun < 5  # all of its parts would take minutes


def test_the_report_leaves_out_what_takes_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    """The first three tokens, before which kernels are compiled, and the last, which needs no further step."""
    command._report(0.0, 1.0, [2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 6.0], 1)
    assert "7 tokens, 2.0 tokens/s]" in capsys.readouterr().err


def test_the_command_writes_and_reports(model_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model(model_file, device="host")
    text = "".join(model.write("hello zz", 6, Sampling(0)))
    common = ["generate", str(model_file), "hello zz", "--device", "host"]
    assert main([*common, "--max-tokens", "6", "--temperature", "0"]) == 0
    out, report = capsys.readouterr()
    assert out == f"hello zz{text}\n"
    assert "tokens/s]" in report
    for arguments, message in (
        (["--top-p", "2"], "generate: top_p: expected a number above 0 and up to 1, got 2.0\n"),
        (["--max-tokens", "-1"], "generate: --max-tokens: expected at least 0, got -1\n"),
        (["--seed", "-1"], "generate: --seed: expected at least 0, got -1\n"),
    ):
        assert main([*common, *arguments]) == 1
        assert capsys.readouterr().err == message
    assert main(["generate", str(model_file), "x" * 40, "--device", "host"]) == 1
    out, report = capsys.readouterr()
    assert (out, report) == ("", "generate: prompt: expected fewer than 32 tokens, the positions, got 40\n")
    assert main(["generate", str(model_file.parent / "none.gguf"), "x"]) == 1
    assert capsys.readouterr().err.startswith("generate: [Errno 2]")
