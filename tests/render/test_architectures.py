"""What is chosen for GPUs of several architectures: kernels that each of them runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_without_one import gpu_without_one

import cukern as ck
from cukern import nn

#: Tensor cores without those of warpgroups, the most shared memory and less, and what came after sm_90a.
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]


def _random(*shape: int, dtype: str = "bfloat16") -> ck.Array:
    return ck.asarray(np.zeros(shape, np.float32)).astype(dtype)


def _convolution(channels: int, groups: int, last: bool, stride: int = 1) -> ck.Array:
    x, w = _random(16, 64, 64, channels), _random(channels, 3, 3, channels // groups)
    x, w = (ck.permute_dims(one, (0, 3, 1, 2)) for one in (x, w))
    x, w = (one if last else ck.copy(one) for one in (x, w))
    return nn.conv2d(x, w, padding=1, groups=groups, stride=stride)


CALLS: dict[str, Callable[[], Any]] = {
    "product": lambda: ck.relu(_random(512, 512) @ _random(512, 512).mT + _random(512)),
    "product of few rows": lambda: nn.linear(_random(4, 1024), _random(1024, 1024)),
    "convolution": lambda: _convolution(64, 1, True),
    "convolution of planes": lambda: _convolution(64, 1, False),
    "strided convolution": lambda: _convolution(128, 1, True, 2),
    "depthwise convolution": lambda: _convolution(64, 64, True),
    "attention": lambda: nn.attention(*(_random(2, 8, 512, 64) for _ in range(3)), causal=True),
    "layer norm": lambda: nn.layer_norm(_random(64, 4096), 4096, _random(4096), _random(4096)),
    "group norm": lambda: nn.group_norm(_random(4, 64, 16, 16), 8),
    "softmax": lambda: ck.nn.softmax(_random(64, 20000), -1),
    "cross-entropy": lambda: nn.cross_entropy(_random(64, 5000), ck.zeros(64, dtype="int32")),
    "sort": lambda: ck.sort(_random(4, 5000)),
    "scan": lambda: ck.cumsum(_random(4, 5000), axis=-1),
    "sums of rows": lambda: ck.segment_sum(_random(500, 64), ck.zeros(500, dtype="int32"), 8),
}


def _launched(call: Callable[[], Any]) -> None:
    """A call and its gradient."""
    parameters: list[ck.Array] = []
    make = globals()["_random"]

    def watched(*shape: int, dtype: str = "bfloat16") -> ck.Array:
        parameters.append(make(*shape, dtype=dtype))
        tape.watch(parameters[-1])
        return parameters[-1]

    with pytest.MonkeyPatch.context() as patch, ck.Tape() as tape:
        patch.setitem(globals(), "_random", watched)
        result = call()
    tape.gradient(result, parameters, output_gradients=ck.ones(result.shape, result.dtype))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_is_chosen_is_of_the_architecture(arch: str) -> None:
    with gpu_without_one(compiles=False, arch=arch) as gpu:
        for call in CALLS.values():
            _launched(call)
    assert len(gpu.templates) > 15


@pytest.mark.thorough
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_chosen_compiles(arch: str, name: str) -> None:
    with gpu_without_one(arch=arch):
        _launched(CALLS[name])
