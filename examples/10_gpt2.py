"""GPT-2 as a whole: trained on the source of Python's own library, then writing with a cache of keys and values.

    python examples/10_gpt2.py                                # a tiny one, in seconds
    python examples/10_gpt2.py --preset 124m                  # the smallest of GPT-2's sizes, for a GPU
    python examples/10_gpt2.py --preset 124m --benchmark      # a step's time and memory, beside PyTorch's if installed

The tokens are bytes. The model computes in bfloat16 where the preset says so, and AdamW keeps float32 copies of its
weights; the learning rate warms up and falls along a cosine, gradients are clipped, and the step is captured.
`--checkpoint` computes each block again in the backward, which takes less memory and more time; `--chunks` sets how
many parts the tokens have whose logits are made at a time.
"""

import argparse
import dataclasses
import math
import statistics
import sysconfig
import time
from pathlib import Path

import numpy as np

import cukern as ck
from cukern import nn


@dataclasses.dataclass
class Preset:
    layers: int
    heads: int
    features: int
    length: int
    vocabulary: int  # more rows than bytes: those of GPT-2's tokens, for its size
    batch: int
    steps: int
    lr: float
    dtype: str


PRESETS = {
    "tiny": Preset(2, 4, 64, 64, 256, 8, 200, 3e-3, "float32"),
    "124m": Preset(12, 12, 768, 1024, 50304, 8, 1000, 6e-4, "bfloat16"),
}

# 1. The model.


@ck.fuse
def added(stream, x, weight, bias):
    """A linear layer whose results are added to the stream in the launch of the product, where that is faster."""
    return stream + (x @ weight.T + bias)


class Attention(nn.Module):
    def __init__(self, features, heads, rng):
        self.heads = heads
        self.project = nn.Linear(features, 3 * features, rng=rng)
        self.out = nn.Linear(features, features, rng=rng)

    def forward(self, stream, x, cache=None):
        apart = ck.reshape(self.project(x), (*x.shape[:2], 3, self.heads, -1))
        # Each of shape (batch, heads, length, features of a head); their gradients are joined in one array.
        q, k, v = ck.unstack(ck.permute_dims(apart, (2, 0, 3, 1, 4)))
        if cache is None:
            y = nn.attention(q, k, v, causal=True)
        else:
            cache.append(k, v)
            lengths = cache.lengths
            y = nn.attention(q, cache.keys, cache.values, causal=True, offset="end", key_lengths=lengths)
        return added(stream, ck.reshape(ck.swapaxes(y, 1, 2), x.shape), self.out.weight, self.out.bias)


class Block(nn.Module):
    def __init__(self, features, heads, rng):
        self.attention_norm = nn.LayerNorm(features)
        self.attention = Attention(features, heads, rng)
        self.network_norm = nn.LayerNorm(features)
        # The bias and gelu are computed in the launch of the product, where that is faster.
        self.widen = nn.Linear(features, 4 * features, rng=rng, activation=ck.gelu_tanh)
        self.out = nn.Linear(4 * features, features, rng=rng)

    def forward(self, x, cache=None):
        x = self.attention(x, self.attention_norm(x), cache)
        return added(x, self.widen(self.network_norm(x)), self.out.weight, self.out.bias)


class GPT(nn.Module):
    def __init__(self, preset, checkpoint=False, chunks=None, rng=0):
        rng = np.random.default_rng(rng)
        self.preset, self.checkpoint, self.chunks = preset, checkpoint, chunks
        self.tokens = nn.Embedding(
            preset.vocabulary, preset.features, rng=rng
        )  # also the weights of the last layer
        self.positions = nn.Embedding(preset.length, preset.features, rng=rng)
        self.blocks = [Block(preset.features, preset.heads, rng) for _ in range(preset.layers)]
        self.norm = nn.LayerNorm(preset.features)
        for (
            name,
            parameter,
        ) in self.named_parameters():  # as GPT-2 starts: less where blocks add to the stream
            if parameter.ndim == 2:
                std = 0.02 / math.sqrt(2 * preset.layers) if name.endswith("out.weight") else 0.02
                parameter[...] = nn.init.normal(parameter.shape, std=std, rng=rng)
            elif name.endswith("bias"):
                parameter[...] = 0.0

    def forward(self, codes, caches=None):
        """The features from which the logits of the next tokens are made."""
        length = codes.shape[1]
        if caches is None:
            positions = self.positions.weight[:length]
        else:
            positions = self.positions(caches[0].lengths[:, None] + ck.arange(length, device=codes.device))
        x = self.tokens(codes) + positions
        for i, block in enumerate(self.blocks):
            cache = None if caches is None else caches[i]
            x = ck.checkpoint(block)(x, cache) if self.checkpoint else block(x, cache)
        return self.norm(x)

    def logits(self, x):
        return nn.linear(x, self.tokens.weight)

    def loss(self, codes, following):
        return nn.linear_cross_entropy(self(codes), self.tokens.weight, following, chunks=self.chunks)

    def caches(self, batch):
        p = self.preset
        return [
            nn.KeyValueCache(batch, p.heads, p.length, p.features // p.heads, dtype=p.dtype)
            for _ in self.blocks
        ]


# 2. A training step. On a GPU it is recorded once and replayed.


def learning_rate(preset):
    warm_up = max(1, preset.steps // 10)
    fall = ck.optim.CosineDecay(preset.lr, max(1, preset.steps - warm_up), end=0.1 * preset.lr)
    return ck.optim.WarmUp(warm_up, then=fall)


def make_step(model, captured=True, recompute=True, masters=True):
    """AdamW: matrices decay, biases and the weights of norms do not.

    With ``recompute`` the backward computes the results of gelu and of layer norms again, which takes 0.8 GiB less;
    with ``masters`` the optimizer keeps float32 copies of bfloat16 weights.
    """
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = ck.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=learning_rate(model.preset),
        betas=(0.9, 0.95),
        weight_decay=0.1,
        masters=masters,
    )

    def step(codes, following):
        with ck.Tape(recompute=recompute) as tape:
            loss = model.loss(codes, following)
        gradients = tape.gradient(loss, optimizer.parameters)
        gradients, _ = ck.optim.clip_by_global_norm(gradients, 1.0)
        optimizer.step(gradients)
        return loss

    return ck.capture(step) if captured else step


# 3. Writing. Each step computes the newest token alone; the cache has the keys and values of those before it.


def write(model, prompt, count, rng, temperature=0.8):
    """The tokens after the prompt, and the logits from which they were drawn."""
    caches = model.caches(prompt.shape[0])

    @ck.capture
    def following(codes):
        logits = model.logits(model(codes, caches)[:, -1]).astype("float32")
        return nn.sample_tokens(logits, temperature, rng=rng)[:, None], logits

    codes, logits = zip(*_repeat(following, prompt, count), strict=True)
    return ck.concat(codes, axis=1), ck.stack(logits, axis=1)


def _repeat(step, codes, count):
    for _ in range(count):
        codes, logits = step(codes)
        yield codes, logits


# 4. The data.


def library_text(limit):
    """Modules of the standard library, as bytes."""
    folder = Path(sysconfig.get_path("stdlib"))
    return b"\n".join(path.read_bytes() for path in sorted(folder.glob("[a-z]*.py")))[:limit]


def batches(text, preset):
    """Stretches of the text, and what follows each byte."""
    data, rng = np.frombuffer(text, np.uint8), np.random.default_rng(0)
    while True:
        starts = rng.integers(0, len(data) - preset.length, preset.batch)
        stretches = data[starts[:, None] + np.arange(preset.length + 1)].astype(np.int32)
        yield ck.asarray(stretches[:, :-1]), ck.asarray(stretches[:, 1:])


def train(model, preset, text):
    step, losses, start = make_step(model), [], time.perf_counter()
    for i, batch in zip(range(preset.steps), batches(text, preset), strict=False):
        losses.append(step(*batch))
        if (i + 1) % max(1, preset.steps // 5) == 0:
            recent = np.mean([loss.item() for loss in losses[-10:]])
            print(f"step {i + 1:5d}: loss {recent:.3f}, {time.perf_counter() - start:.1f} s")
    first, last = (np.mean([loss.item() for loss in some]) for some in (losses[:3], losses[-3:]))
    if preset.steps >= 10:
        assert last < first, "the model should have learnt something"


# 5. The same in PyTorch, from the same weights.


def torch_loss(state, codes, following, heads):
    import torch.nn.functional as f

    def linear(x, name):
        return f.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x, name):
        return f.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    x = f.embedding(codes, state["tokens.weight"]) + state["positions.weight"][: codes.shape[1]]
    for i in range(sum(name.endswith("widen.weight") for name in state)):
        at = f"blocks.{i}"
        apart = linear(norm(x, f"{at}.attention_norm"), f"{at}.attention.project").unflatten(
            -1, (3, heads, -1)
        )
        q, k, v = (one.transpose(1, 2) for one in apart.unbind(2))
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(y, f"{at}.attention.out")
        wide = f.gelu(linear(norm(x, f"{at}.network_norm"), f"{at}.widen"), approximate="tanh")
        x = x + linear(wide, f"{at}.out")
    logits = f.linear(norm(x, "norm"), state["tokens.weight"])
    return f.cross_entropy(logits.flatten(0, 1), following.flatten())


def torch_step(weights, preset, where, compiled=None, masters=True):
    """A step ``compiled`` in a mode, or eager.

    With ``masters`` the weights are float32, and autocast rounds them to bfloat16 for each use.
    """
    import torch

    kind = torch.float32 if masters else getattr(torch, preset.dtype)
    state = {
        name: torch.tensor(value, device=where, dtype=kind, requires_grad=True)
        for name, value in weights.items()
    }
    groups = [
        {"params": [p for p in state.values() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in state.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=where == "cuda")
    schedule, done = learning_rate(preset), iter(range(10**9))
    loss_of = torch.compile(torch_loss, mode=compiled) if compiled else torch_loss

    def step(codes, following):
        with torch.autocast(where, torch.bfloat16, enabled=masters and preset.dtype == "bfloat16"):
            loss = loss_of(state, codes, following, preset.heads)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(state.values()), 1.0)
        rate = schedule(next(done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        return loss.detach()

    return step


def measured(name, step, batch, synchronize, memory, count):
    """Print and return the milliseconds of a step, those until its Python returns, its MiB, and the first three losses.

    The milliseconds are medians of ``count`` steps.
    """
    losses = [float(step(*batch)) for _ in range(3)]
    times, returned = [], []
    for _ in range(count):
        synchronize()
        start = time.perf_counter()
        step(*batch)
        returned.append(1e3 * (time.perf_counter() - start))
        synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    shown = ", ".join(f"{loss:.5f}" for loss in losses)
    taken = f"{memory() / 2**20:.0f}" if memory else "-"
    found = statistics.median(times), statistics.median(returned), taken, shown
    print("{:22} {:9.2f} ms (Python {:.2f}) {:>6} MiB  losses {}".format(name, *found), flush=True)
    return found


def taken_since(device, held=0):
    """What counts the bytes of a GPU that are taken from now on, and those `held` already.

    The whole GPU's, as a captured step has a pool of its own.
    """
    free = device.xp.cuda.runtime.memGetInfo
    before = free()[0] + held
    return lambda: before - free()[0]


def benchmark(model, preset, text, count):
    device = model.tokens.weight.device
    batch = next(batches(text, preset))
    weights = {name: p.numpy().astype(np.float32) for name, p in model.named_parameters()}
    on_host = device.kind == "host"
    memory = None if on_host else taken_since(device, device.xp.get_default_memory_pool().total_bytes())
    measured("cukern, captured", make_step(model), batch, device.synchronize, memory, count)
    model.load_state_dict({name: ck.asarray(value) for name, value in weights.items()})
    step = make_step(model, captured=False, recompute=False)
    measured("cukern, not captured", step, batch, device.synchronize, None, count)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return
    on_gpu = not on_host and torch.cuda.is_available()
    where, wait = ("cuda", torch.cuda.synchronize) if on_gpu else ("cpu", lambda: None)
    codes = [torch.tensor(one.numpy().astype(np.int64), device=where) for one in batch]
    for name, compiled in (("PyTorch, eager", None), ("PyTorch, torch.compile", "default")):
        if on_gpu:
            torch.cuda.empty_cache()
        memory = taken_since(device) if on_gpu else None
        measured(name, torch_step(weights, preset, where, compiled), codes, wait, memory, count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--steps", type=int, help="steps of training, or those that are timed")
    parser.add_argument("--batch", type=int, help="stretches of text in a step")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"])
    parser.add_argument("--checkpoint", action="store_true", help="compute the blocks again in the backward")
    parser.add_argument(
        "--chunks", type=int, help="parts of the tokens, the logits of one of which are made at a time"
    )
    parser.add_argument("--write", type=int, default=48, help="tokens to write")
    parser.add_argument("--benchmark", action="store_true", help="measure a step, and PyTorch's")
    options = parser.parse_args()
    given = {name: value for name in ("steps", "batch", "dtype") if (value := getattr(options, name))}
    preset = dataclasses.replace(PRESETS[options.preset], **given)
    model = GPT(preset, options.checkpoint, options.chunks).astype(preset.dtype)
    print(f"GPT-2, {options.preset}: {sum(p.size for p in model.parameters()):,} parameters, {preset.dtype}")
    text = library_text(2**24)
    if options.benchmark:
        benchmark(model, preset, text, options.steps or 20)
        return

    train(model, preset, text)
    prompt = ck.asarray(np.frombuffer(b"def ", np.uint8).astype(np.int32)[None])
    count = min(options.write, preset.length - prompt.shape[1])
    written, logits = write(model, prompt, count, ck.random.default_rng(0))
    codes = ck.concat([prompt, written.astype(prompt.dtype)], axis=1)
    print(bytes(c % 256 for c in codes[0].tolist()).decode(errors="replace"))
    whole = model.logits(model(codes[:, :-1]))[:, prompt.shape[1] - 1 :].astype("float32")
    apart = float(ck.max(ck.abs(whole - logits)) / ck.max(ck.abs(whole)))
    assert apart < (1e-5 if preset.dtype == "float32" else 5e-2), apart
    print(f"with the cache as without it: logits are {apart:.0e} apart")


if __name__ == "__main__":
    main()
