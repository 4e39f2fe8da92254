"""Train a small GPT on the source of Python's own library, and let it write some.

    python examples/07_gpt.py
    python examples/07_gpt.py --steps 2000 --features 192 --layers 6   # with a GPU

A transformer that predicts each next character: embeddings, blocks of causal attention and a small network,
dropout, and weights shared between the first layer and the last. It is trained by AdamW, which lets only matrices
decay, with a learning rate that warms up and then falls along a cosine, and gradients clipped. The model and the
optimizer are saved, loaded again, and the model writes.
"""

import argparse
import math
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import cukern as ck
from cukern import nn

# 1. The model. Submodules and parameters are attributes; there is nothing to register.


class Block(nn.Module):
    def __init__(self, features, heads, dropout, rng):
        self.attention_norm = nn.LayerNorm(features)
        self.attention = nn.MultiHeadAttention(features, heads, dropout=dropout, rng=rng)
        self.network_norm = nn.LayerNorm(features)
        self.network = nn.Sequential(
            nn.Linear(features, 4 * features, rng=rng),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * features, features, rng=rng),
        )
        self.dropout = nn.Dropout(dropout, rng=rng)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.attention_norm(x), is_causal=True))
        return x + self.dropout(self.network(self.network_norm(x)))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, features=48, heads=4, layers=2, dropout=0.1, rng=0):
        rng = np.random.default_rng(rng)
        self.length = length
        self.tokens = nn.Embedding(vocabulary, features, rng=rng)
        self.positions = nn.Embedding(length, features, rng=rng)
        self.dropout = nn.Dropout(dropout, rng=rng)
        self.blocks = [Block(features, heads, dropout, rng) for _ in range(layers)]
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, vocabulary, bias=False, rng=rng)
        self.head.weight = self.tokens.weight  # one parameter in two places
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:  # as GPT-2 starts: less where blocks add to the stream
                adds = name.endswith(("out_proj.weight", "layers.2.weight"))
                std = 0.02 / math.sqrt(2 * layers) if adds else 0.02
                parameter[...] = nn.init.normal(parameter.shape, std=std, rng=rng)

    def forward(self, codes):
        places = ck.arange(codes.shape[1], device=codes.device)
        x = self.dropout(self.tokens(codes) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make_optimizer(model, lr, steps):
    """AdamW: matrices decay, biases and the weights of norms do not."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    warm_up = max(1, steps // 10)
    return ck.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=ck.optim.WarmUp(warm_up, then=ck.optim.CosineDecay(lr, max(1, steps - warm_up), end=0.1 * lr)),
        betas=(0.9, 0.95),
        weight_decay=0.1,
    )


def make_step(model, optimizer):
    """A training step. On a GPU it is recorded once and replayed; masks and learning rates go on."""

    @ck.capture
    def step(codes, following):
        with ck.Tape() as tape:
            loss = nn.cross_entropy(model(codes), following)
        gradients, _ = ck.optim.clip_by_global_norm(tape.gradient(loss, model), 1.0)
        optimizer.step(gradients)
        return loss

    return step


# 2. Writing: the next character is drawn from the model's probabilities.


def write(model, codes, count, rng, temperature=0.8):
    model.eval()
    for _ in range(count):
        logits = model(codes[:, -model.length :])[:, -1]
        codes = ck.concat([codes, nn.sample_tokens(logits, temperature, rng=rng)[:, None]], axis=1)
    model.train()
    return codes


# 3. The data: modules of the standard library; each example is a stretch of text and what follows each character.


def library_text(limit):
    folder = Path(sysconfig.get_path("stdlib"))
    text = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("a*.py")))
    return text[:limit]


def main():
    parser = argparse.ArgumentParser()
    for name, value in {
        "steps": 500,
        "batch": 16,
        "length": 32,
        "features": 48,
        "layers": 2,
        "write": 120,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()

    text = library_text(200_000)
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(character) for character in text], dtype=np.int32)
    rng = np.random.default_rng(0)

    def batch():
        starts = rng.integers(0, len(codes) - options.length - 1, options.batch)
        stretches = codes[starts[:, None] + np.arange(options.length + 1)]
        return ck.asarray(stretches[:, :-1]), ck.asarray(stretches[:, 1:])

    model = GPT(len(alphabet), options.length, options.features, layers=options.layers)
    optimizer = make_optimizer(model, lr=1e-2, steps=options.steps)
    step = make_step(model, optimizer)
    print("parameters:", sum(p.size for p in model.parameters()))

    losses = []
    for i in range(options.steps):
        losses.append(step(*batch()))
        if i % 100 == 99 or i == options.steps - 1:
            print(f"step {i + 1:4d}: loss {np.mean([loss.item() for loss in losses[-20:]]):.3f}")

    # 4. Saving. A model that is made anew and loads the file computes the same.

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "gpt.safetensors")
        ck.save_safetensors(Path(folder) / "optimizer.safetensors", optimizer.state_dict())
        again = GPT(len(alphabet), options.length, options.features, layers=options.layers, rng=1)
        again.load(Path(folder) / "gpt.safetensors")
        resumed = make_optimizer(again, lr=1e-2, steps=options.steps)
        resumed.load_state_dict(ck.load(Path(folder) / "optimizer.safetensors"))
    x, _ = batch()
    assert (again.eval()(x) == model.eval()(x)).all()
    print(f"saved and loaded: step {resumed.steps}")

    start = ck.asarray([[alphabet.index("\n")]], dtype=ck.int64)
    written = write(again, start, options.write, ck.random.default_rng(0))
    print("".join(alphabet[code] for code in written[0].tolist()))
    if options.steps >= 100:
        assert losses[-1].item() < 0.75 * losses[0].item(), "the model should have learnt something"


if __name__ == "__main__":
    main()
