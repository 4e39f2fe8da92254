"""The network of a diffusion model.

Source: Ho and others, "Denoising diffusion probabilistic models", 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Program


def unet(lib: Any, scale: int) -> Any:
    """A diffusion UNet of three halvings, whose two lowest levels have attention of 8 heads."""
    base, groups, heads = max(32, 128 // scale), 32 if scale == 1 else 8, 8
    widths, times = [base, 2 * base, 2 * base, 4 * base], 4 * base

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.norms = lib.modules([lib.GroupNormSiLU(groups, one) for one in (inputs, outputs)])
            self.first = lib.Conv2d(inputs, outputs, 3, padding=1)
            self.second = lib.Conv2d(outputs, outputs, 3, padding=1)
            self.time = lib.Linear(times, outputs)
            self.past = lib.Conv2d(inputs, outputs, 1) if inputs != outputs else None

        def forward(self, x: Any, time: Any) -> Any:
            y = self.first(self.norms[0](x))
            y = y + self.time(lib.silu(time))[:, :, None, None]
            y = self.second(self.norms[1](y))
            return y + (x if self.past is None else self.past(x))

    class Attention(lib.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = lib.GroupNorm(groups, width)
            self.inputs, self.outputs = lib.Conv2d(width, 3 * width, 1), lib.Conv2d(width, width, 1)

        def forward(self, x: Any) -> Any:
            batch, width, rows, columns = x.shape
            all_ = self.inputs(self.norm(x)).reshape(batch, 3, heads, width // heads, rows * columns)
            q, k, v = (lib.transposed(all_[:, i], 0, 1, 3, 2) for i in range(3))
            y = lib.transposed(lib.attention(q, k, v), 0, 1, 3, 2).reshape(batch, width, rows, columns)
            return x + self.outputs(y)

    class UNet(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.start = lib.Conv2d(3, base, 3, padding=1)
            self.time = lib.modules([lib.Linear(base, times), lib.Linear(times, times)])
            down, up, seen, width = [], [], [base], base
            for level, own in enumerate(widths):
                for _ in range(2):
                    down.append(lib.modules([Block(width, own), *([Attention(own)] if level > 1 else [])]))
                    seen.append(width := own)
                if level < len(widths) - 1:
                    down.append(lib.modules([lib.Conv2d(width, width, 3, stride=2, padding=1)]))
                    seen.append(width)
            self.middle = lib.modules([Block(width, width), Attention(width), Block(width, width)])
            for level, own in reversed(list(enumerate(widths))):
                for _ in range(3):
                    up.append(
                        lib.modules(
                            [Block(width + seen.pop(), own), *([Attention(own)] if level > 1 else [])]
                        )
                    )
                    width = own
                if level:
                    up.append(lib.modules([lib.Conv2d(width, width, 3, padding=1)]))
            self.down, self.up = lib.modules(down), lib.modules(up)
            self.norm, self.end = lib.GroupNormSiLU(groups, base), lib.Conv2d(base, 3, 3, padding=1)

        def forward(self, x: Any, time: Any) -> Any:
            time = self.time[1](lib.silu(self.time[0](time)))
            x = self.start(x)
            seen = [x]
            for stage in self.down:
                for one in stage:
                    x = one(x, time) if isinstance(one, Block) else one(x)
                seen.append(x)
            for one in self.middle:
                x = one(x, time) if isinstance(one, Block) else one(x)
            for stage in self.up:
                joins = isinstance(stage[0], Block)
                x = lib.concat([x, seen.pop()], 1) if joins else lib.upsampled(x)
                for one in stage:
                    x = one(x, time) if isinstance(one, Block) else one(x)
            return self.end(self.norm(x))

        def loss(self, x: Any, time: Any, noise: Any) -> Any:
            return lib.mean(lib.square(self(x, time) - noise))

    return UNet()


def unet_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images, embedded times, and the noise."""
    batch, size, base = max(1, 32 // scale), max(8, 64 // scale), max(32, 128 // scale)
    shapes = (batch, 3, size, size), (batch, base), (batch, 3, size, size)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


PROGRAMS = (Program("diffusion UNet", unet, unet_inputs, "bfloat16"),)
