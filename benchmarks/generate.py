"""Steps of generation by a Llama of 8 billion parameters in blocks of Q4_K, beside a copy of the bytes of its weights.

    python benchmarks/generate.py                  # on a GPU with 16 GB
    CUKERN_DEVICE=host python benchmarks/generate.py --scale 8

The weights are random blocks, so no file is needed. A step computes one token behind others and is captured; each step
reads all matrices once. "tokens/s" counts the time on the device; "with reading" the host's, which reads every token
while the next step runs, as text is written.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from measure import Benchmark

import cukern as ck
from cukern.gguf.file import Mapped
from cukern.gguf.header import Place
from cukern.quant.kinds import KINDS

#: Tokens that are present when the step runs, and the steps that are timed with the host reading tokens.
CONTEXTS, STEPS = (16, 1000), 100


class RandomLlama(Mapped):
    """The header of a Llama whose tensors are random when they are read."""

    def __init__(
        self, layers: int, features: int, hidden: int, heads: int, vocabulary: int, kind: str
    ) -> None:
        self.name, self.kind, key_heads = "random", kind, max(1, heads // 4)
        width = features // heads
        self.metadata = {
            "general.architecture": "llama",
            "llama.block_count": layers,
            "llama.context_length": 2048,
            "llama.embedding_length": features,
            "llama.feed_forward_length": hidden,
            "llama.attention.head_count": heads,
            "llama.attention.head_count_kv": key_heads,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 500000.0,
        }
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (vocabulary, features),
            "output.weight": (vocabulary, features),
            "output_norm.weight": (features,),
        }
        for i in range(layers):
            block = {
                "attn_norm": (features,),
                "ffn_norm": (features,),
                "attn_q": (features, features),
                "attn_k": (key_heads * width, features),
                "attn_v": (key_heads * width, features),
                "attn_output": (features, features),
                "ffn_gate": (hidden, features),
                "ffn_up": (hidden, features),
                "ffn_down": (features, hidden),
            }
            shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in block.items()}
        self.places = {name: self._place(shape) for name, shape in shapes.items()}

    def _place(self, shape: tuple[int, ...]) -> Place:
        kind = self.kind if len(shape) == 2 else "F32"
        rows = shape[0] if len(shape) == 2 else 1
        return Place(kind, shape, 0, rows * KINDS[kind].row_bytes(shape[-1]))

    def array(self, name: str, device: ck.Device) -> Any:
        place = self.places[name]
        if place.kind == "F32":
            return ck.ones(place.shape, "float32", device)
        return self.joined([name], device)[0]

    def joined(self, names: Any, device: ck.Device) -> list[Any]:
        places = [self.places[name] for name in names]
        count = sum(place.nbytes for place in places)
        rng = ck.random.default_rng(len(names), device)
        bits = rng.bits((count + 3) // 4)
        blocks = ck.asarray(bits._data.view(np.uint8)[:count]).reshape(-1, KINDS[self.kind].bytes)
        # Weights of mean 0: Q4_K is scale * number - minimum * number, each of those four bytes first.
        scale = np.asarray([8e-5, 8e-5 * 7.5], np.float16).view(np.uint8)
        blocks[:, :4] = ck.asarray(scale, device=device)
        shape = (sum(place.shape[0] for place in places), places[0].shape[1])
        return [ck.quant.from_blocks(blocks, shape, self.kind)]


def main() -> None:
    bench = Benchmark(
        __doc__,
        "a step of one token, times in us",
        ["tokens present", "step", "a copy of the weights' bytes", "fraction", "tokens/s", "with reading"],
    )
    small = bench.scale
    file = RandomLlama(
        max(1, 32 // small), 4096 // small, 14336 // small, max(1, 32 // small), 128256 // small, "Q4_K"
    )
    decoder = ck.generate.Decoder(file, positions=2048, device=bench.device)
    copy = bench.copy_of(decoder.nbytes)
    for context in CONTEXTS:
        lengths = decoder.caches[0].lengths

        @ck.capture
        def step(token: ck.Array, context: int = context, lengths: ck.Array = lengths) -> ck.Array:
            lengths[...] = context
            return ck.argmax(decoder(token), axis=-1, keepdims=True)

        token = ck.zeros((1, 1), "int64", bench.device)
        for _ in range(3):
            token = step(token)
        assert np.isfinite(decoder(token).numpy()).all()
        own, copied = bench.microseconds(functools.partial(step, token), copy)
        assert own is not None and copied is not None
        start = time.perf_counter()
        for _ in range(STEPS):
            following = step(token)
            token.item()
            token = following
        token.item()
        read = STEPS / (time.perf_counter() - start)
        bench.row(context, own, copied, f"{copied / own:.2f}", f"{1e6 / own:.0f}", f"{read:.0f}")
    bench.end(
        f"{decoder.hyper.layers} layers of {decoder.hyper.features} features, {decoder.nbytes / 1e9:.2f} GB of weights "
        "that a step reads."
    )


if __name__ == "__main__":
    main()
