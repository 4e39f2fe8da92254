"""Programs of physics and statistics.

Sources: Chen and others, "Neural ordinary differential equations", 2018; Raissi and others, "Physics-informed neural
networks", 2019; Rasmussen and Williams, "Gaussian processes for machine learning", 2006; Orszag, "On the elimination of
aliasing in finite-difference schemes by filtering high-wavenumber components", 1971.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from . import in_jax
from .program import Program

#: Time steps of a solution, which a step of the programs takes together.
ODE_STEPS, FLOW_STEPS = 20, 10
#: Burgers' and the flow's viscosity, and the flow's time step.
BURGERS, VISCOSITY, TIME_STEP = 0.01 / np.pi, 1e-4, 1e-3


def ode(lib: Any, scale: int) -> Any:
    """A network's flow in 64 dimensions, by the classical Runge-Kutta method."""
    size, wide, steps = 64 // min(scale, 4), 256 // scale, ODE_STEPS // min(scale, 5)

    class Flow(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.modules(
                [lib.Linear(size, wide), lib.Linear(wide, wide), lib.Linear(wide, size)]
            )

        def slope(self, x: Any) -> Any:
            for layer in self.layers[:-1]:
                x = lib.tanh(layer(x))
            return self.layers[-1](x)

        def loss(self, x: Any, wanted: Any) -> Any:
            h = 1 / steps
            for _ in range(steps):
                k1 = self.slope(x)
                k2 = self.slope(x + 0.5 * h * k1)
                k3 = self.slope(x + 0.5 * h * k2)
                k4 = self.slope(x + h * k3)
                x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return lib.mean(lib.square(x - wanted))

    return Flow()


def ode_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Where the flow starts, and where it should end."""
    shape = max(4, 1024 // scale), 64 // min(scale, 4)
    return [rng.standard_normal(shape, np.float32) for _ in range(2)]


def pinn(lib: Any, scale: int) -> Any:
    """Burgers' equation by a network of 5 layers, whose loss has second derivatives."""
    sizes = [2, *([max(16, 128 // scale)] * 4), 1]

    class Network(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.modules([lib.Linear(a, b) for a, b in pairwise(sizes)])

        def at(self, t: Any, x: Any) -> Any:
            y = lib.stack([t, x], 1)
            for layer in self.layers[:-1]:
                y = lib.tanh(layer(y))
            return self.layers[-1](y)[:, 0]

        def loss(self, t: Any, x: Any, edge_t: Any, edge_x: Any, edge: Any) -> Any:
            u, u_t, u_x, u_xx = lib.second(self.at, t, x)
            error = lib.square(u_t + u * u_x - BURGERS * u_xx)
            return lib.mean(error) + lib.mean(lib.square(self.at(edge_t, edge_x) - edge))

    return Network()


def pinn_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Times and places inside, then on the edge, and the values there."""
    count = 16384 // scale
    t, x = rng.random(count, np.float32), rng.uniform(-1, 1, count).astype(np.float32)
    edge_t, edge_x = t[: count // 8].copy(), x[: count // 8].copy()
    edge_t[::2], edge_x[1::2] = 0, np.sign(edge_x[1::2])
    return [t, x, edge_t, edge_x, -np.sin(np.pi * edge_x) * (edge_t == 0)]


def process(lib: Any, scale: int) -> Any:
    """The likelihood of a Gaussian process of 4096 points in 8 dimensions, by Cholesky's factor."""

    class Process(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lengths, self.variance = lib.parameter(lib.zeros((8,))), lib.parameter(lib.zeros(()))
            self.noise = lib.parameter(lib.zeros(()))

        def loss(self, x: Any, y: Any, identity: Any) -> Any:
            x = x / lib.exp(self.lengths)
            norms = lib.sum(x * x, 1)
            squares = norms[:, None] + norms - 2 * lib.matmul(x, x.T)
            covariance = lib.exp(self.variance - 0.5 * squares) + lib.exp(self.noise) * identity
            factor = lib.cholesky(covariance)
            white = lib.lower_solved(factor, y[:, None])
            half = lib.sum(lib.log(lib.diagonal(factor)))
            return 0.5 * lib.sum(white * white) + half + 0.5 * len(y) * float(np.log(2 * np.pi))

    return Process()


def process_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Points, noisy values, and the identity."""
    count = 4096 // scale
    x = rng.standard_normal((count, 8))
    return [x, np.sin(x.sum(1)) + 0.1 * rng.standard_normal(count), np.eye(count)]


def flow(lib: Any, scale: int) -> Any:
    """Two-dimensional turbulence: vorticity by Fourier transforms and Heun's method, 10 time steps a step."""
    size = 1024 // scale

    class Flow(lib.Module):  # type: ignore[misc]
        def speed(self, w: Any, kx: Any, ky: Any, inverse: Any, kept: Any) -> Any:
            """The change of the transformed vorticity by its own flow."""
            stream = w * inverse
            u, v = lib.irfft2(1j * ky * stream), lib.irfft2(-1j * kx * stream)
            along, across = lib.irfft2(1j * kx * w), lib.irfft2(1j * ky * w)
            return -kept * lib.rfft2(u * along + v * across)

        def advance(self, vorticity: Any, kx: Any, ky: Any, inverse: Any, kept: Any) -> Any:
            squares, given = kx * kx + ky * ky, (kx, ky, inverse, kept)
            decay = lib.exp(-VISCOSITY * TIME_STEP * squares)
            w = lib.rfft2(vorticity)
            for _ in range(FLOW_STEPS):
                first = self.speed(w, *given)
                middle = decay * (w + TIME_STEP * first)
                w = decay * (w + 0.5 * TIME_STEP * first) + 0.5 * TIME_STEP * self.speed(middle, *given)
            new = lib.irfft2(w)
            lib.assign(vorticity, new)
            return lib.mean(new * new) / size**2

    return Flow()


def flow_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Vorticity, wave numbers, the inverse Laplacian, and the two thirds of waves that are kept."""
    size = 1024 // scale
    kx, ky = np.fft.fftfreq(size, 1 / size)[:, None], np.fft.rfftfreq(size, 1 / size)
    squares = kx * kx + ky * ky
    inverse = 1 / np.where(squares == 0, np.inf, squares)
    spectrum = np.fft.rfft2(rng.standard_normal((size, size))) * np.exp(-squares / 200)
    kept = (np.abs(kx) < size / 3) & (ky < size / 3)
    return [np.fft.irfft2(spectrum), kx, ky, inverse, kept.astype(np.float64)]


PROGRAMS = (
    Program("neural ODE", ode, ode_inputs, "float32"),
    Program("PINN of Burgers' equation", pinn, pinn_inputs, "float32", jax=in_jax.pinn),
    Program("Gaussian process", process, process_inputs, "float64", jax=in_jax.process),
    Program("Navier-Stokes flow", flow, flow_inputs, "float32", jax=in_jax.flow),
)
