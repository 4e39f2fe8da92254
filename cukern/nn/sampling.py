"""Drawing tokens from a model's logits."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from .. import dtypes, random
from .. import namespace as ops
from ..array import Array
from ..array.creation import full
from ..device import device
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_array
from ..function import stop_gradient
from ..random import Generator
from .dropout import require_generator
from .fused import common_dtype, is_int, require_broadcast

#: A number, or an array of one for each row of logits.
Number = float | Array

#: The largest number of float32, in which probabilities are computed.
_HOTTEST = 3.4e38


@fuse(static=("dtype",))
def _scaled(logits: Any, highest: Any, temperature: Any, dtype: dtypes.DType) -> Any:
    """Logits less the largest, which a small temperature does not make infinite, over the temperature."""
    # Before anything is rounded to float32, as a float64 may exceed it.
    apart = (logits.astype(dtype) - highest.astype(dtype)).astype(temperature.dtype)
    return ops.where(logits == highest, 0, apart / ops.where(temperature > 0, temperature, 1))


@fuse
def _noisy(scaled: Any, noise: Any, temperature: Any) -> Any:
    return scaled + ops.where(temperature > 0, noise, 0)


@fuse
def _above(scaled: Any, share: Any) -> Any:
    """What is at least ``share`` times as likely as the likeliest, which is scaled to 0."""
    return ops.where(scaled >= ops.log(share), scaled, -math.inf)


@fuse
def _nucleus(scaled: Any, shares: Any, totals: Any, mass: Any) -> Any:
    """Tokens in descending order until the totals of their probabilities reach ``mass``; the first in any case."""
    taken = ops.logical_or(totals - shares < mass, totals == shares)
    return ops.where(ops.logical_or(taken, mass >= 1), scaled, -math.inf)


def _number(name: str, argument: str, value: Number, logits: Array, low: float, high: float) -> Array:
    """``value`` as an array of float32 that broadcasts to the rows of logits, with an axis for tokens.

    Raises:
        TypeError: it is neither a number nor a floating array.
        ValueError: a Python number is out of range, or an array does not broadcast.
    """
    if isinstance(value, Array):
        if dtypes.info(value.dtype).kind != "f":
            raise TypeError(f"{name}: {argument}: expected a floating array, got {value.dtype}")
        require_broadcast(name, argument, value, logits.shape[:-1], "the rows' ")
        return ops.expand_dims(ops.astype(stop_gradient(value), "float32"), axis=-1)
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}: {argument}: expected a number or an array, got {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name}: {argument}: expected a number from {low:g} to {high:g}, got {value!r}")
    return full((1,), float(value), dtype="float32", device=logits.device)


def sample_tokens(
    logits: Array,
    temperature: Number = 1.0,
    *,
    top_k: int | None = None,
    top_p: Number | None = None,
    min_p: Number | None = None,
    rng: Generator | None = None,
) -> Array:
    """Draw one token for each row of logits, i with a probability in proportion to ``exp(logits[i] / temperature)``.

    ``top_k``, then ``top_p`` and ``min_p`` leave tokens out; what each leaves is what the next one looks at. Gumbel's
    trick draws: the largest of the scaled logits plus Gumbel noise. A seed draws the same tokens on every device
    but for rounding, in float32, and each replay of a step of :func:`cukern.capture` draws others. A token whose logit
    is -inf is never drawn if another's is not.

    Args:
        logits: shape (..., tokens), a floating dtype.
        temperature: divides the logits; 0 gives the token of the largest logit, the first of equal ones.
        top_k: the number of tokens of the largest logits that may be drawn; of equal ones the first are taken.
        top_p: from the likeliest on, as many tokens may be drawn as it takes for their probabilities to reach it.
        min_p: tokens may be drawn whose probability is at least ``min_p`` times that of the likeliest.
        rng: the generator, on the device of the logits; that of the functions of :mod:`cukern.random` when None.

    ``temperature``, ``top_p`` and ``min_p`` may be arrays that broadcast to ``logits.shape[:-1]``.

    Returns:
        The indices, of shape ``logits.shape[:-1]`` and dtype int64.

    Raises:
        TypeError: ``logits`` is not a floating array, or an option is not of its type.
        ValueError: an option is out of range, there is no token, or ``rng`` draws on another device.

    Source: Fan and others, "Hierarchical neural story generation", 2018 (``top_k``); Holtzman and others, "The curious
    case of neural text degeneration", 2020 (``top_p``); Nguyen and others, "Turning up the heat: min-p sampling", 2024.

    >>> import cukern as ck
    >>> logits = ck.asarray([[0.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
    >>> ck.nn.sample_tokens(logits, temperature=0).tolist()
    [1, 0]
    >>> ck.nn.sample_tokens(logits, top_k=1, rng=ck.random.default_rng(0)).tolist()
    [1, 0]
    """
    name = "sample_tokens"
    logits = stop_gradient(require_array(logits, name, "logits"))
    common_dtype(name, {"logits": logits})
    if not logits.ndim or not logits.shape[-1]:
        raise ValueError(f"{name}: logits: expected shape (..., tokens) with a token, got {logits.shape}")
    require_generator(name, "logits", logits, rng)
    if top_k is not None and (not is_int(top_k) or top_k < 1):
        raise ValueError(f"{name}: top_k: expected an int of at least 1, got {top_k!r}")
    heat = _number(name, "temperature", temperature, logits, 0.0, _HOTTEST)
    least = None if min_p is None else _number(name, "min_p", min_p, logits, 0.0, 1.0)
    mass = None if top_p is None else _number(name, "top_p", top_p, logits, 0.0, 1.0)
    if not isinstance(temperature, Array) and temperature == 0:
        return ops.argmax(logits, axis=-1)
    highest, acc = ops.max(logits, axis=-1, keepdims=True), dtypes.info(logits.dtype).acc
    scaled, indices = _scaled(logits, highest, heat, acc), None
    if mass is not None or (top_k is not None and top_k < logits.shape[-1]):
        scaled, indices = ops.topk(scaled, min(top_k or logits.shape[-1], logits.shape[-1]))
    if mass is not None:
        shares = ops.softmax(scaled, axis=-1)
        scaled = _nucleus(scaled, shares, ops.cumulative_sum(shares, axis=-1), mass)
    if least is not None:
        scaled = _above(scaled, least)
    with device(logits.device):
        noise = (rng or random).gumbel(size=scaled.shape, dtype="float32")
    chosen = ops.argmax(_noisy(scaled, noise, heat), axis=-1, keepdims=True)
    if indices is not None:
        chosen = ops.take_along_axis(indices, chosen, axis=-1)
    return chosen[..., 0]
