"""Networks of images.

Sources: Dosovitskiy and others, "An image is worth 16x16 words", 2021; Kingma and Welling, "Auto-encoding variational
Bayes", 2014; Liu and others, "A ConvNet for the 2020s", 2022; Sandler and others, "MobileNetV2", 2018.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .program import Program


def vit(lib: Any, scale: int) -> Any:
    """ViT-B/16."""
    width, heads, depth = 768 // scale // 12 * 12, 12, 12 // min(scale, 6)

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = lib.modules([lib.LayerNorm(width), lib.LayerNorm(width)])
            self.qkv, self.out = lib.Linear(width, 3 * width), lib.Linear(width, width)
            self.wide, self.back = lib.Linear(width, 4 * width), lib.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            all_ = self.qkv(self.norms[0](x)).reshape(batch, length, 3, heads, width // heads)
            q, k, v = (lib.transposed(all_[:, :, i], 0, 2, 1, 3) for i in range(3))
            y = self.out(lib.transposed(lib.attention(q, k, v), 0, 2, 1, 3).reshape(batch, length, width))
            y, x = lib.added_norm(self.norms[1], x, y)
            return x + self.back(lib.gelu(self.wide(y)))

    class ViT(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = lib.Conv2d(3, width, 16, stride=16)
            self.places = lib.parameter(lib.zeros((1, (max(32, 224 // scale) // 16) ** 2, width)))
            self.blocks = lib.modules([Block() for _ in range(depth)])
            self.norm, self.head = lib.LayerNorm(width), lib.Linear(width, 1000)

        def loss(self, images: Any, labels: Any) -> Any:
            x = self.patches(images)
            x = lib.transposed(x.reshape(x.shape[0], width, -1), 0, 2, 1) + self.places
            for block in self.blocks:
                x = block(x)
            return lib.cross_entropy(self.head(lib.mean(self.norm(x), 1)), labels)

    return ViT()


def vit_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images and labels."""
    batch, size = max(1, 64 // scale), max(32, 224 // scale)
    return [rng.standard_normal((batch, 3, size, size), np.float32), rng.integers(0, 1000, batch)]


def vae(lib: Any, scale: int) -> Any:
    """A convolutional variational autoencoder of images of 64x64, with 128 latent numbers."""
    widths, size, latent = [max(8, one // scale) for one in (64, 128, 256, 512)], 64 // min(scale, 4), 128
    small = size // 16

    class VAE(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            down, up = [3, *widths], [*reversed(widths), 3]
            self.down = lib.modules([lib.Conv2d(a, b, 4, 2, 1) for a, b in pairwise(down)])
            self.down_norms = lib.modules([lib.BatchNorm(one) for one in widths])
            self.statistics = lib.Linear(widths[-1] * small * small, 2 * latent)
            self.wide = lib.Linear(latent, widths[-1] * small * small)
            self.up = lib.modules([lib.ConvTranspose2d(a, b, 4, 2, 1) for a, b in pairwise(up)])
            self.up_norms = lib.modules([lib.BatchNorm(one) for one in up[1:-1]])

        def loss(self, images: Any, noise: Any) -> Any:
            x = images
            for layer, norm in zip(self.down, self.down_norms, strict=True):
                x = lib.leaky_relu(norm(layer(x)), 0.2)
            statistics = self.statistics(x.reshape(x.shape[0], -1))
            mean, spread = statistics[:, :latent], statistics[:, latent:]
            x = self.wide(mean + lib.exp(0.5 * spread) * noise).reshape(-1, widths[-1], small, small)
            for layer, norm in zip(self.up[:-1], self.up_norms, strict=True):
                x = lib.leaky_relu(norm(layer(x)), 0.2)
            error = lib.binary_cross_entropy_with_logits(self.up[-1](x), images, reduction="sum")
            apart = -0.5 * lib.sum(1 + spread - mean**2 - lib.exp(spread))
            return (error + apart) / images.shape[0]

    return VAE()


def vae_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images and noise."""
    batch, size = max(4, 128 // scale), 64 // min(scale, 4)
    return [rng.random((batch, 3, size, size), np.float32), rng.standard_normal((batch, 128), np.float32)]


def convnext(lib: Any, scale: int) -> Any:
    """ConvNeXt-T with 2, 2, 4 and 2 blocks."""
    depths = (2, 2, 4, 2) if scale == 1 else (1, 1, 1, 1)
    widths = [max(8, one // scale) for one in (96, 192, 384, 768)]

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.depthwise = lib.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = lib.LayerNorm(width)
            self.wide, self.back = lib.Linear(width, 4 * width), lib.Linear(4 * width, width)
            self.scale = lib.weight((width,), 1e-2)

        def forward(self, x: Any) -> Any:
            y = lib.transposed(self.depthwise(x), 0, 2, 3, 1)
            y = self.scale * self.back(lib.gelu(self.wide(self.norm(y))))
            return x + lib.transposed(y, 0, 3, 1, 2)

    class Norm(lib.Module):  # type: ignore[misc]
        """Layer norm of the channels of images."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = lib.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            return lib.transposed(self.norm(lib.transposed(x, 0, 2, 3, 1)), 0, 3, 1, 2)

    class ConvNeXt(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            inputs = [3, *widths]
            self.halvings = lib.modules(
                [lib.Conv2d(inputs[i], widths[i], size, stride=size) for i, size in enumerate((4, 2, 2, 2))]
            )
            self.norms = lib.modules([Norm(widths[0]), *(Norm(one) for one in widths[:-1])])
            self.stages = lib.modules(
                [
                    lib.modules([Block(width) for _ in range(n)])
                    for width, n in zip(widths, depths, strict=True)
                ]
            )
            self.norm, self.head = lib.LayerNorm(widths[-1]), lib.Linear(widths[-1], 1000)

        def loss(self, images: Any, labels: Any) -> Any:
            x = self.norms[0](self.halvings[0](images))
            for i, stage in enumerate(self.stages):
                if i:
                    x = self.halvings[i](self.norms[i](x))
                for block in stage:
                    x = block(x)
            return lib.cross_entropy(self.head(self.norm(lib.mean(x, (2, 3)))), labels)

    return ConvNeXt()


def mobilenet(lib: Any, scale: int) -> Any:
    """MobileNetV2 of half its depth: inverted residuals with depthwise convolutions."""
    stages = [(1, 16, 1), (2, 24, 2), (2, 32, 2), (2, 64, 2), (1, 96, 1), (2, 160, 2), (1, 320, 1)]
    widths = [max(8, width // scale // 8 * 8) for _, width, _ in stages]
    start, end = max(8, 32 // scale), 1280 // scale

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int, wider: int) -> None:
            super().__init__()
            wide = wider * inputs
            self.expand = lib.Conv2d(inputs, wide, 1, bias=False)
            self.depthwise = lib.Conv2d(wide, wide, 3, stride=stride, padding=1, groups=wide, bias=False)
            self.back = lib.Conv2d(wide, outputs, 1, bias=False)
            self.norms = lib.modules([lib.BatchNorm(wide), lib.BatchNorm(wide), lib.BatchNorm(outputs)])
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            y = lib.relu6(self.norms[0](self.expand(x)))
            y = lib.relu6(self.norms[1](self.depthwise(y)))
            y = self.norms[2](self.back(y))
            return x + y if self.adds else y

    class MobileNet(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.start, self.start_norm = lib.Conv2d(3, start, 3, 2, 1, bias=False), lib.BatchNorm(start)
            blocks: list[Any] = []
            inputs = start
            for (count, _, stride), width in zip(stages, widths, strict=True):
                for i in range(count):
                    blocks.append(Block(inputs, width, 1 if i else stride, 6 if blocks else 1))
                    inputs = width
            self.blocks = lib.modules(blocks)
            self.end, self.end_norm = lib.Conv2d(inputs, end, 1, bias=False), lib.BatchNorm(end)
            self.head = lib.Linear(end, 1000)

        def loss(self, images: Any, labels: Any) -> Any:
            x = lib.relu6(self.start_norm(self.start(images)))
            for block in self.blocks:
                x = block(x)
            x = lib.relu6(self.end_norm(self.end(x)))
            return lib.cross_entropy(self.head(lib.mean(x, (2, 3))), labels)

    return MobileNet()


def photographs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images of 224x224 and labels."""
    batch, size = max(2, 64 // scale), max(32, 224 // scale // 32 * 32)
    return [rng.standard_normal((batch, 3, size, size), np.float32), rng.integers(0, 1000, batch)]


PROGRAMS = (
    Program("ViT-B/16", vit, vit_inputs, "bfloat16"),
    Program("convolutional VAE", vae, vae_inputs, "float32"),
    Program("ConvNeXt-T", convnext, photographs, "bfloat16"),
    Program("MobileNetV2", mobilenet, photographs, "bfloat16"),
)
