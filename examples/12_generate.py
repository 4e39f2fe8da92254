"""A small Llama: trained on the source of Python's own library, written to a GGUF file in 8 bits, and writing.

    python examples/12_generate.py
    python examples/12_generate.py --steps 2000 --features 256 --layers 6 --keep llama.gguf   # with a GPU
    python -m cukern generate llama.gguf "def "

The model has what Llamas have: root-mean-square norms, positions that rotate queries and keys, heads of queries that
share keys, and a gated network. Its tokens are characters, and bytes for all other characters.
"""

import argparse
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import cukern as ck
from cukern import nn

EPS, BASE = 1e-5, 10000.0

# 1. The model, for training.


class Block(nn.Module):
    def __init__(self, features, hidden, heads, key_heads, rng):
        self.heads, self.key_heads = heads, key_heads
        width = features // heads

        def matrix(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False, rng=rng)

        self.attn_norm, self.ffn_norm = nn.RMSNorm(features, eps=EPS), nn.RMSNorm(features, eps=EPS)
        self.attn_q, self.attn_output = matrix(features, features), matrix(features, features)
        self.attn_k, self.attn_v = matrix(features, key_heads * width), matrix(features, key_heads * width)
        self.ffn_gate, self.ffn_up = matrix(features, hidden), matrix(features, hidden)
        self.ffn_down = matrix(hidden, features)

    def apart(self, x, heads):
        return ck.swapaxes(ck.reshape(x, (*x.shape[:2], heads, -1)), 1, 2)

    def forward(self, x):
        y = self.attn_norm(x)
        q, k = self.apart(self.attn_q(y), self.heads), self.apart(self.attn_k(y), self.key_heads)
        q, k = (nn.rotary_embedding(one, interleaved=True, base=BASE) for one in (q, k))
        y = nn.attention(q, k, self.apart(self.attn_v(y), self.key_heads), causal=True)
        x = x + self.attn_output(ck.reshape(ck.swapaxes(y, 1, 2), x.shape))
        y = self.ffn_norm(x)
        return x + self.ffn_down(nn.swiglu(self.ffn_gate(y), self.ffn_up(y)))


class Llama(nn.Module):
    def __init__(self, vocabulary, features, layers, heads=4, key_heads=2, rng=0):
        rng = np.random.default_rng(rng)
        self.token_embd = nn.Embedding(vocabulary, features, rng=rng)
        self.token_embd.weight[...] *= 0.1
        hidden = 32 * round(features * 8 / 3 / 32)  # a multiple of the weights of a block
        self.blk = [Block(features, hidden, heads, key_heads, rng) for _ in range(layers)]
        self.output_norm = nn.RMSNorm(features, eps=EPS)
        self.output = nn.Linear(features, vocabulary, bias=False, rng=rng)

    def forward(self, codes):
        x = self.token_embd(codes)
        for block in self.blk:
            x = block(x)
        return self.output(self.output_norm(x))


# 2. The vocabulary, as a GGUF file describes it: three control tokens, every byte, and the characters of the text.


def vocabulary(text):
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, 3, 3] + [6] * 256
    characters = sorted(set(text))
    tokens += [character.replace(" ", "\u2581") for character in characters]
    kinds += [1] * len(characters)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": np.zeros(len(tokens), np.float32),
        "tokenizer.ggml.token_type": np.asarray(kinds, np.int32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


# 3. The file. The module's names are those of GGUF; matrices are quantised, norms are not.


def export(path, model, length, metadata, kind="Q8_0"):
    state = {name: ck.asarray(x) for name, x in model.state_dict().items()}
    tensors = {name: ck.quant.quantize(x, kind) if x.ndim == 2 else x for name, x in state.items()}
    block = model.blk[0]
    entries = {
        "block_count": len(model.blk),
        "context_length": length,
        "embedding_length": model.token_embd.weight.shape[1],
        "feed_forward_length": block.ffn_up.weight.shape[0],
        "attention.head_count": block.heads,
        "attention.head_count_kv": block.key_heads,
        "attention.layer_norm_rms_epsilon": EPS,
        "rope.freq_base": BASE,
    }
    named = {"general.architecture": "llama", **{f"llama.{name}": value for name, value in entries.items()}}
    ck.save_gguf(path, tensors, named | metadata)


def library_text(limit):
    folder = Path(sysconfig.get_path("stdlib"))
    text = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("a*.py")))
    return text[:limit]


def main():
    parser = argparse.ArgumentParser()
    sizes = {"steps": 300, "batch": 8, "length": 64, "features": 64, "layers": 2, "write": 120}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--keep", type=Path, help="where to leave the GGUF file")
    options = parser.parse_args()

    text = library_text(200_000)
    metadata = vocabulary(text)
    words = ck.generate.Vocabulary(metadata)
    data = np.asarray(words.encode(text), np.int32)
    rng = np.random.default_rng(0)

    def batch():
        starts = rng.integers(0, len(data) - options.length - 1, options.batch)
        stretches = data[starts[:, None] + np.arange(options.length + 1)]
        return ck.asarray(stretches[:, :-1]), ck.asarray(stretches[:, 1:])

    model = Llama(len(words), options.features, options.layers)
    warm_up = max(1, options.steps // 10)
    rate = ck.optim.WarmUp(warm_up, then=ck.optim.CosineDecay(5e-3, max(1, options.steps - warm_up)))
    optimizer = ck.optim.AdamW(model, lr=rate, betas=(0.9, 0.95))

    @ck.capture
    def step(codes, following):
        with ck.Tape() as tape:
            loss = nn.cross_entropy(model(codes), following)
        optimizer.step(ck.optim.clip_by_global_norm(tape.gradient(loss, model), 1.0)[0])
        return loss

    for i in range(options.steps):
        loss = step(*batch())
        if i % 100 == 99 or i == options.steps - 1:
            print(f"step {i + 1:4d}: loss {loss.item():.3f}")

    # 4. Reading the file and writing text. The logits are those of the trained model, but for the rounding to 8 bits.

    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "llama.gguf"
        export(path, model, 4 * options.length, metadata)
        print(f"{path.stat().st_size} bytes, of {sum(p.size for p in model.parameters())} parameters")
        written = ck.generate.Model(path)
        prompt = words.encode("def ")
        logits = written.decoder(ck.asarray([prompt]))
        trained = model(ck.asarray([prompt]))[:, -1]
        apart = ck.max(abs(logits - trained)) / ck.max(abs(trained))
        assert apart < 0.1, "the file's weights should be those of the model"
        print(f"logits of the file's model differ by {100 * apart.item():.1f} % of the largest")
        print("def " + "".join(written.write("def ", options.write, ck.generate.Sampling(0.7), seed=0)))


if __name__ == "__main__":
    main()
