"""The names that programs use, of either library: most are the same in both, the others are bridged here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from measure import torch

import cukern as ck
from cukern import nn

__all__ = ["OURS", "peer"]

#: Names whose meaning and order of arguments are the same in both libraries.
SHARED = (
    "Module Linear Conv1d Conv2d ConvTranspose2d Embedding GroupNorm LayerNorm RMSNorm LSTM silu gelu relu relu6 "
    "leaky_relu elu softplus sigmoid tanh softmax linear conv1d binary_cross_entropy_with_logits huber_loss "
    "zeros zeros_like square mean sum exp log sqrt where stack cumsum einsum matmul topk tril"
).split()


def shared(*places: Any) -> dict[str, Any]:
    """The shared names, each from the first of the places that has it."""
    return {name: next(getattr(one, name) for one in places if hasattr(one, name)) for name in SHARED}


def second(f: Any, t: Any, x: Any) -> Any:
    """``u = f(t, x)`` with its derivatives by t, by x, and twice by x, each of a row's own numbers."""
    with ck.Tape() as outer:
        outer.watch(x)
        with ck.Tape() as inner:
            inner.watch([t, x])
            u = f(t, x)
        u_t, u_x = inner.gradient(u, [t, x])
    return u, u_t, u_x, outer.gradient(u_x, x)


OURS = SimpleNamespace(
    **shared(nn, ck),
    BatchNorm=nn.BatchNorm,
    GroupNormSiLU=lambda groups, channels: nn.GroupNorm(groups, channels, activation=nn.silu),
    modules=list,
    parameter=nn.Parameter,
    weight=lambda shape, std: nn.Parameter(nn.init.normal(shape, std=std)),
    frozen=nn.Module.freeze,
    assign=lambda target, values: target.__setitem__(..., values),
    parameters=nn.Module.parameters,
    constant=ck.stop_gradient,
    float32=ck.float32,
    swiglu=nn.swiglu,
    added_norm=lambda norm, x, y: norm(x, y),
    concat=ck.concat,
    cross_entropy=nn.cross_entropy,
    attention=nn.attention,
    upsampled=lambda x: nn.interpolate(x, scale_factor=2),
    transposed=lambda x, *axes: ck.permute_dims(x, axes),
    rotated=nn.rotary_embedding,
    padded=lambda x, before, after: nn.pad(x, [(before, after)]),
    padded_rows=lambda x: nn.pad(x, [(0, 1), (0, 0)]),
    zeros_of=lambda x, shape: ck.zeros(shape, dtype=x.dtype),
    ones_of=lambda x, shape: ck.ones(shape, dtype=x.dtype),
    one_hot=lambda ids, classes: nn.one_hot(ids, classes, dtype=ck.int64),
    repeated=ck.repeat,
    taken_along=ck.take_along_axis,
    added_at=ck.index_add,
    segment_sum=ck.segment_sum,
    segment_max=ck.segment_max,
    largest=lambda x, axis: ck.max(x, axis=axis),
    cast=ck.astype,
    second=second,
    cholesky=ck.linalg.cholesky,
    lower_solved=lambda a, b: ck.linalg.solve_triangular(a, b, lower=True),
    rfft2=ck.fft.rfft2,
    irfft2=ck.fft.irfft2,
    diagonal=ck.diagonal,
)


def peer() -> SimpleNamespace:
    """The same names of PyTorch."""
    own, functions = torch.nn, torch.nn.functional

    def rotated(x: Any) -> Any:
        half, length = x.shape[-1] // 2, x.shape[-2]
        rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
        angles = torch.arange(length, device=x.device)[:, None] * rates
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class GroupNormSiLU(own.GroupNorm):  # type: ignore[misc,unused-ignore]
        def forward(self, x: Any) -> Any:
            return functions.silu(super().forward(x))

    def added_norm(norm: Any, x: Any, y: Any) -> Any:
        total = x + y
        return norm(total), total

    def attention(q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        grouped = q.shape[1] != k.shape[1]
        return functions.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped
        )

    def segment_max(x: Any, ids: Any, count: int) -> Any:
        made = torch.full((count, *x.shape[1:]), -torch.inf, dtype=x.dtype, device=x.device)
        return made.scatter_reduce(0, ids[:, None].expand_as(x), x, "amax")

    def second(f: Any, t: Any, x: Any) -> Any:
        t, x = (one.detach().requires_grad_() for one in (t, x))
        u = f(t, x)
        u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
        return u, u_t, u_x, torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]

    def cross_entropy(logits: Any, labels: Any, label_smoothing: float = 0.0) -> Any:
        return functions.cross_entropy(logits, labels, label_smoothing=label_smoothing)

    return SimpleNamespace(
        **shared(own, functions, torch),
        BatchNorm=own.BatchNorm2d,
        GroupNormSiLU=GroupNormSiLU,
        modules=own.ModuleList,
        parameter=own.Parameter,
        weight=lambda shape, std: own.Parameter(torch.empty(shape)),
        frozen=lambda module: module.requires_grad_(False),
        assign=lambda target, values: target.copy_(values),
        parameters=lambda module: module.parameters(),
        constant=lambda x: x.detach(),
        float32=torch.float32,
        swiglu=lambda gate, up: functions.silu(gate) * up,
        added_norm=added_norm,
        concat=torch.cat,
        cross_entropy=cross_entropy,
        attention=attention,
        upsampled=lambda x: functions.interpolate(x, scale_factor=2),
        transposed=lambda x, *axes: x.permute(*axes),
        rotated=rotated,
        padded=lambda x, before, after: functions.pad(x, (before, after)),
        padded_rows=lambda x: functions.pad(x, (0, 0, 0, 1)),
        zeros_of=lambda x, shape: x.new_zeros(shape),
        ones_of=lambda x, shape: x.new_ones(shape),
        one_hot=functions.one_hot,
        repeated=torch.repeat_interleave,
        taken_along=torch.take_along_dim,
        added_at=lambda x, ids, values: x.index_add(0, ids, values),
        segment_sum=lambda x, ids, count: x.new_zeros((count, *x.shape[1:])).index_add(0, ids, x),
        segment_max=segment_max,
        largest=lambda x, axis: torch.amax(x, axis),
        cast=lambda x, dtype: x.to(dtype),
        second=second,
        cholesky=torch.linalg.cholesky,
        lower_solved=lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        rfft2=torch.fft.rfft2,
        irfft2=torch.fft.irfft2,
        diagonal=torch.diagonal,
    )
