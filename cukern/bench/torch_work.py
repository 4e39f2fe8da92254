"""PyTorch's equivalents of `work`, written with its own functions. Importing this module imports PyTorch if it can."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
#: FlexAttention's module, and its masks by the number of rows: making one takes longer than the attention.
FLEX: dict[str, Any] = {}
CAUSAL: dict[int, Any] = {}


def tf32_product(x: Any, y: Any) -> Any:
    allowed = torch.backends.cuda.matmul
    before, allowed.allow_tf32 = allowed.allow_tf32, True
    try:
        return x @ y
    finally:
        allowed.allow_tf32 = before


def capped_attention(q: Any, k: Any, v: Any) -> Any:
    scores = 30 * torch.tanh(q @ k.mT / (30 * q.shape[-1] ** 0.5))
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1) @ v


def _causal(batch: Any, head: Any, row: Any, column: Any) -> Any:
    return row >= column


def prepare_flex(rows: Sequence[int] = (1024, 4096)) -> None:
    """Import FlexAttention, which PyTorch has since version 2.5, and make its masks."""
    found: Any = importlib.import_module("torch.nn.attention.flex_attention")
    FLEX["attention"] = found.flex_attention
    CAUSAL.update({n: found.create_block_mask(_causal, None, None, n, n, device="cuda") for n in rows})


def flex_capped_attention(q: Any, k: Any, v: Any) -> Any:
    """The same by FlexAttention, which is meant to be compiled."""

    def capped(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        return 30 * torch.tanh(score / 30)

    return FLEX["attention"](q, k, v, score_mod=capped, block_mask=CAUSAL[q.shape[-2]])


def grad_of_squares(x: Any) -> Any:
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
    return gradient


class Squared(torch.autograd.Function if torch else object):  # type: ignore[misc]
    """x * x."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def pointwise(z_input: Any, z_output: Any, z_candidate: Any, old_cell: Any) -> Any:
    new_cell = old_cell + torch.nn.functional.elu(z_candidate) * torch.sigmoid(z_input)
    return torch.tanh(new_cell) * torch.sigmoid(z_output), new_cell


def lltm_gradients(x: Any, weights: Any, bias: Any, h: Any, cell: Any) -> Any:
    weights, bias = weights.detach().requires_grad_(), bias.detach().requires_grad_()
    gates = torch.nn.functional.linear(torch.cat([h, x], dim=1), weights, bias)
    z_input, z_output, z_candidate = gates.chunk(3, dim=1)
    new_h, new_cell = pointwise(z_input, z_output, z_candidate, cell)
    return torch.autograd.grad(new_h.sum() + new_cell.sum(), [weights, bias])


def mlp_gradients(x: Any, first: Any, scale: Any, shift: Any, second: Any) -> Any:
    f, weights = torch.nn.functional, [one.detach().requires_grad_() for one in (first, scale, shift, second)]
    hidden = f.gelu(f.layer_norm(x @ weights[0], first.shape[1:], weights[1], weights[2]))
    return torch.autograd.grad(((hidden @ weights[3]) ** 2).mean(), weights)
