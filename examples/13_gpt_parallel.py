"""A GPT over a mesh of processes: some share the batch, others the weights of each layer.

As one process: ``python examples/13_gpt_parallel.py``. Over (data, tensor) = (2, 2), on four GPUs or on the host:

    python -m cukern launch -n 4 examples/13_gpt_parallel.py --tensor 2

Both print the same losses up to rounding. So do ``--sequence``, by which each process has a part of the positions
between the layers that several share, and ``--shard 3``, by which the parameters of blocks are divided too. A job that
is killed goes on from its last checkpoint when it is started again with the same ``--checkpoints`` folder and the same
``--tensor`` and ``--sequence``; that along ``data`` and ``--shard`` may differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import cukern as ck
from cukern import distributed

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. "


def between(module, tensor, sequence):
    """A module between layers that are divided, which has all positions, or with ``sequence`` those of this rank."""
    return distributed.SequenceParallel(module, tensor) if sequence else module


class Block(ck.nn.Module):
    """Attention and a multi-layer perceptron, each after a norm and added to its input."""

    def __init__(self, features, heads, tensor, sequence, rng):
        attention = ck.nn.MultiHeadAttention(features, heads, rng=rng)
        wide = ck.nn.Linear(features, 4 * features, rng=rng, activation=ck.nn.gelu)
        narrow = ck.nn.Linear(4 * features, features, rng=rng)
        self.first = between(ck.nn.LayerNorm(features), tensor, sequence)
        self.second = between(ck.nn.LayerNorm(features), tensor, sequence)
        # Every rank of the group makes the whole layers from the same seed, and keeps its part of them.
        self.attention = distributed.ParallelAttention(attention, tensor, sequence=sequence)
        self.wide = distributed.ColumnLinear(wide, tensor, sequence=sequence)
        self.narrow = distributed.RowLinear(narrow, tensor, sequence=sequence)

    def forward(self, x):
        x = x + self.attention(self.first(x), is_causal=True)
        return x + self.narrow(self.wide(self.second(x)))


class GPT(ck.nn.Module):
    """A language model of characters."""

    def __init__(self, characters, features, heads, layers, length, tensor, sequence):
        rng = np.random.default_rng(0)
        words = ck.nn.Embedding(characters, features, rng=rng)
        self.words = distributed.ParallelEmbedding(words, tensor, sequence=sequence)
        self.places = between(ck.nn.Embedding(length, features, rng=rng), tensor, sequence)
        self.blocks = [Block(features, heads, tensor, sequence, rng) for _ in range(layers)]
        self.norm = between(ck.nn.LayerNorm(features), tensor, sequence)
        logits = ck.nn.Linear(features, characters, bias=False, rng=rng)
        self.logits = distributed.ColumnLinear(logits, tensor, join=True, sequence=sequence)
        self.sequence = sequence

    def forward(self, tokens):
        places = ck.arange(tokens.shape[1])
        if self.sequence:
            places = self.places.part(places, axis=0)
        x = self.words(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensor", type=int, default=1, help="processes that share a layer's weights")
    parser.add_argument("--sequence", action="store_true", help="positions are divided between such layers")
    parser.add_argument(
        "--shard",
        type=int,
        default=1,
        choices=(0, 1, 3),
        help="1: the optimizer's state is divided; 3: the blocks' parameters too",
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8, help="of all processes together")
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--checkpoints", type=Path)
    options = parser.parse_args()

    world = distributed.init(timeout=120)
    mesh = distributed.Mesh(data=world.size // options.tensor, tensor=options.tensor)
    data, tensor = mesh.group("data"), mesh.group("tensor")
    characters = sorted(set(TEXT)) + ["\0"] * (-len(set(TEXT)) % 4)  # a number that the ranks divide
    text = np.array([characters.index(one) for one in TEXT * 4])
    sizes = (len(characters), options.features, 4, options.layers, options.length)
    model = GPT(*sizes, tensor, options.sequence)
    adam = ck.optim.AdamW(model, lr=3e-3)
    training = distributed.DataParallel(adam, data, shard=options.shard, model=model)
    starts = len(text) - options.length - 1
    sampler = distributed.Sampler(starts, options.batch, seed=0, group=data)

    step = 0
    # The ranks of each part of the weights have checkpoints of their own.
    folder = options.checkpoints and options.checkpoints / f"part-{tensor.rank}-of-{tensor.size}"
    if folder and distributed.last_checkpoint(folder):
        saved = distributed.load_checkpoint(folder)
        distributed.load_model_state(model, saved.under("model"))
        training.load_state_dict(saved.under("optimizer"))
        step, sampler.state = saved.step, saved.texts["sampler"]
    while step < options.steps:
        for batch in sampler:
            window = batch[:, None] + np.arange(options.length + 1)
            tokens = ck.asarray(text[window])
            with ck.Tape() as tape:
                loss = ck.nn.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
            training.step(training.gradient(tape, loss))
            step += 1
            if step % 5 == 0 or step == options.steps:
                mean = distributed.all_reduce(loss, "mean", group=data).item()
                if world.rank == 0:
                    print(f"step {step}: loss {mean:.4f} over {mesh}")
                if folder:
                    state = {f"model.{name}": one for name, one in distributed.model_state(model).items()}
                    state |= {f"optimizer.{name}": one for name, one in training.state_dict().items()}
                    texts = {"sampler": sampler.state}
                    distributed.save_checkpoint(folder, step, state, texts=texts, keep=2, group=data)
            if step == options.steps:
                return


if __name__ == "__main__":
    main()
