"""Train a variational autoencoder on handwritten digits, and draw new ones.

    python examples/08_vae.py

The encoder gives the mean and the variance of a normal distribution in a small space for each image; a point is
drawn from it, and the decoder makes an image of the point. What is drawn is differentiable by the mean and the
variance, since it is ``mean + deviation * noise``. Source: Kingma and Welling, "Auto-encoding variational Bayes", 2014.
The images, 8 x 8, are those of scikit-learn.
"""

import argparse

import numpy as np

import cukern as ck
from cukern import nn


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=128, latent=4, rng=0):
        rng = np.random.default_rng(rng)
        self.encoder = nn.Sequential(
            nn.Linear(pixels, hidden, rng=rng), nn.SiLU(), nn.Linear(hidden, 2 * latent, rng=rng)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden, rng=rng), nn.SiLU(), nn.Linear(hidden, pixels, rng=rng)
        )

    def forward(self, images, noise):
        mean, log_variance = ck.split(self.encoder(images), 2, axis=-1)
        point = mean + ck.exp(0.5 * log_variance) * noise
        return self.decoder(point), mean, log_variance


def divergence(mean, log_variance):
    """Of the normal distributions from the standard one, summed over the space, for each image."""
    return 0.5 * ck.sum(ck.exp(log_variance) + mean**2 - 1 - log_variance, axis=-1)


def loss_of(model, images, noise):
    """The negative evidence lower bound in nats, the mean over the images."""
    logits, mean, log_variance = model(images, noise)
    error = nn.binary_cross_entropy_with_logits(logits, images, reduction="sum") / images.shape[0]
    return error + ck.mean(divergence(mean, log_variance))


def show(images):
    """Images side by side, as text."""
    rows = np.concatenate(list(images.reshape(-1, 8, 8)), axis=1)
    return "\n".join("".join(" .:-=+*#%@"[int(9 * value)] for value in row) for row in rows)


def main():
    from sklearn.datasets import load_digits

    parser = argparse.ArgumentParser()
    for name, value in {"steps": 400, "batch": 128, "hidden": 128, "latent": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()

    images = ck.asarray(load_digits().data / 16, dtype=ck.float32)
    rng = ck.random.default_rng(0)
    model = VAE(images.shape[1], options.hidden, options.latent)
    optimizer = ck.optim.Adam(model, lr=3e-3)

    @ck.capture
    def step(batch):
        noise = rng.normal(size=(batch.shape[0], options.latent))
        with ck.Tape() as tape:
            loss = loss_of(model, batch, noise)
        optimizer.step(tape.gradient(loss, model))
        return loss

    losses = []
    for i in range(options.steps):
        losses.append(step(rng.choice(images, options.batch)))
        if i % 100 == 99 or i == options.steps - 1:
            print(f"step {i + 1:4d}: loss {np.mean([loss.item() for loss in losses[-50:]]):.2f}")

    points = rng.normal(size=(8, options.latent))
    drawn = ck.sigmoid(model.decoder(points)).numpy()
    print("drawn by the model:")
    print(show(drawn))
    if options.steps >= 200:
        assert losses[-1].item() < 0.8 * losses[0].item(), "the model should have learnt something"


if __name__ == "__main__":
    main()
