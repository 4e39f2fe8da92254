"""The programs that are natural in JAX, written for it: functions of a dictionary of the module's parameters.

JAX is imported at a side's making. Products have float32's precision, as the other sides' do by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["flow", "mlp", "pinn", "process"]

Step = Callable[[], Any]
Loss = Callable[..., Any]
Weights = dict[str, Any]


def _jax() -> tuple[Any, Any]:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the other sides need memory too
    import jax  # type: ignore[import-not-found,unused-ignore]

    jax.config.update("jax_default_matmul_precision", "highest")
    return jax, jax.numpy


def trained(loss: Loss, weights: Weights, inputs: list[Any], lr: float = 1e-4, decay: float = 0.01) -> Step:
    """A compiled step of AdamW, which keeps the weights."""
    jax, jnp = _jax()
    if any(one.dtype == "float64" for one in weights.values()):
        jax.config.update("jax_enable_x64", True)
    given = [jnp.asarray(one) for one in inputs]

    def step(state: Any) -> Any:
        weights, means, squares, count = state
        value, slopes = jax.value_and_grad(loss)(weights, *given)
        count = count + 1
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, slopes)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, slopes)

        def moved(w: Any, m: Any, v: Any) -> Any:
            rate = lr / (1 - 0.9**count)
            return w - lr * decay * w - rate * m / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)

        return (jax.tree.map(moved, weights, means, squares), means, squares, count), value

    start = {key: jnp.asarray(one) for key, one in weights.items()}
    zeros = jax.tree.map(jnp.zeros_like, start)
    return _Kept(
        jax.jit(step, donate_argnums=0), (start, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros(()))
    )


class _Kept:
    """A step that keeps its state between calls."""

    def __init__(self, step: Callable[[Any], Any], state: Any) -> None:
        self._step, self._state = step, state

    def __call__(self) -> Any:
        self._state, value = self._step(self._state)
        return value

    def wait(self) -> None:
        """Return when all steps are done: they are launched by another thread."""
        for one in self._state if isinstance(self._state, tuple) else (self._state,):
            _jax()[0].block_until_ready(one)


def _layers(weights: Weights, x: Any, activation: Callable[[Any], Any]) -> Any:
    """A perceptron of the parameters ``layers.0.weight`` and so on."""
    count = len(weights) // 2
    for i in range(count):
        x = x @ weights[f"layers.{i}.weight"].T + weights[f"layers.{i}.bias"]
        x = activation(x) if i < count - 1 else x
    return x


def mlp(weights: Weights, inputs: list[Any], scale: int) -> Step:
    """See :func:`.small.mlp`."""
    jax, jnp = _jax()

    def loss(weights: Weights, x: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(_layers(weights, x, jax.nn.relu))
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], 1))

    return trained(loss, weights, inputs)


def pinn(weights: Weights, inputs: list[Any], scale: int) -> Step:
    """See :func:`.science.pinn`."""
    from .science import BURGERS

    jax, jnp = _jax()

    def loss(weights: Weights, t: Any, x: Any, edge_t: Any, edge_x: Any, edge: Any) -> Any:
        def u(t: Any, x: Any) -> Any:
            return _layers(weights, jnp.stack([t, x]), jnp.tanh)[0]

        def error(t: Any, x: Any) -> Any:
            u_t, u_x = jax.grad(u, (0, 1))(t, x)
            return u_t + u(t, x) * u_x - BURGERS * jax.grad(jax.grad(u, 1), 1)(t, x)

        return jnp.mean(jax.vmap(error)(t, x) ** 2) + jnp.mean((jax.vmap(u)(edge_t, edge_x) - edge) ** 2)

    return trained(loss, weights, inputs)


def process(weights: Weights, inputs: list[Any], scale: int) -> Step:
    """See :func:`.science.process`."""
    jax, jnp = _jax()

    def loss(weights: Weights, x: Any, y: Any, identity: Any) -> Any:
        x = x / jnp.exp(weights["lengths"])
        norms = jnp.sum(x * x, 1)
        squares = norms[:, None] + norms - 2 * x @ x.T
        covariance = jnp.exp(weights["variance"] - 0.5 * squares) + jnp.exp(weights["noise"]) * identity
        factor = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        half = jnp.sum(jnp.log(jnp.diagonal(factor)))
        return 0.5 * jnp.sum(white * white) + half + 0.5 * len(y) * jnp.log(2 * jnp.pi)

    return trained(loss, weights, inputs)


def flow(weights: Weights, inputs: list[Any], scale: int) -> Step:
    """See :func:`.science.flow`."""
    from .science import FLOW_STEPS, TIME_STEP, VISCOSITY

    jax, jnp = _jax()
    vorticity, kx, ky, inverse, kept = (jnp.asarray(one) for one in inputs)
    decay = jnp.exp(-VISCOSITY * TIME_STEP * (kx * kx + ky * ky))
    fft, back = jnp.fft.rfft2, jnp.fft.irfft2

    def speed(w: Any) -> Any:
        stream = w * inverse
        u, v = back(1j * ky * stream), back(-1j * kx * stream)
        return -kept * fft(u * back(1j * kx * w) + v * back(1j * ky * w))

    def advance(_: Any, w: Any) -> Any:
        first = speed(w)
        middle = decay * (w + TIME_STEP * first)
        return decay * (w + 0.5 * TIME_STEP * first) + 0.5 * TIME_STEP * speed(middle)

    def step(vorticity: Any) -> Any:
        new = back(jax.lax.fori_loop(0, FLOW_STEPS, advance, fft(vorticity)))
        return new, jnp.mean(new * new) / new.size

    return _Kept(jax.jit(step, donate_argnums=0), vorticity)
