"""Train a small residual network on handwritten digits.

    python examples/11_cnn.py

Blocks of two convolutions are added to what goes past them; some halve the image and double the channels. Source: He
and others, "Deep residual learning for image recognition", 2015. The images, 8 x 8, are those of scikit-learn.
"""

import argparse

import numpy as np

import cukern as ck
from cukern import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, rng):
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False, rng=rng)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False, rng=rng)
        self.norms = [nn.BatchNorm(outputs, activation=ck.relu), nn.BatchNorm(outputs)]
        same = inputs == outputs and stride == 1
        self.past = None if same else nn.Conv2d(inputs, outputs, 1, stride, rng=rng)

    def forward(self, x):
        y = self.norms[0](self.first(x))
        y = self.norms[1](self.second(y))
        return ck.relu(y + (x if self.past is None else self.past(x)))


class ResNet(nn.Module):
    def __init__(self, channels=16, classes=10, rng=0):
        rng = np.random.default_rng(rng)
        self.start = nn.Conv2d(1, channels, 3, padding=1, activation=ck.relu, rng=rng)
        self.blocks = nn.Sequential(
            Block(channels, channels, 1, rng),
            Block(channels, 2 * channels, 2, rng),
            Block(2 * channels, 4 * channels, 2, rng),
        )
        self.end = nn.Linear(4 * channels, classes, rng=rng)

    def forward(self, images):
        features = self.blocks(self.start(images))
        return self.end(ck.mean(features, axis=(2, 3)))


def make_step(model, optimizer):
    @ck.capture
    def step(images, labels):
        with ck.Tape() as tape:
            loss = nn.cross_entropy(model(images), labels)
        optimizer.step(tape.gradient(loss, model))
        return loss

    return step


def main():
    from sklearn.datasets import load_digits

    parser = argparse.ArgumentParser()
    for name, value in {"steps": 150, "batch": 64, "channels": 16}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()

    digits = load_digits()
    images = ck.asarray(digits.images[:, None] / 16, dtype=ck.float32)  # (images, 1, rows, columns)
    labels = ck.asarray(digits.target)
    order = np.random.default_rng(0).permutation(len(digits.target))
    trained, kept = ck.asarray(order[:-297]), ck.asarray(order[-297:])

    rng = ck.random.default_rng(0)
    model = ResNet(options.channels)
    step = make_step(model, ck.optim.Adam(model, lr=2e-3))
    for i in range(options.steps):
        chosen = rng.choice(trained, options.batch)
        loss = step(images[chosen], labels[chosen])
        if i % 50 == 49 or i == options.steps - 1:
            print(f"step {i + 1:4d}: loss {loss.item():.4f}")

    model.eval()
    found = ck.argmax(model(images[kept]), axis=-1)
    right = ck.mean((found == labels[kept]).astype(ck.float32)).item()
    print(f"right on digits that it has not seen: {100 * right:.1f} %")
    if options.steps >= 100:
        assert right > 0.9, "the model should have learnt something"


if __name__ == "__main__":
    main()
