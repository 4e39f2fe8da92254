"""What a GPU's backend compiles ahead of need is what the backward and the optimizer launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_without_one import gpu_without_one

import cukern as ck
from cukern import nn, optim


class Expected:
    """What a GPU compiles, ahead of need or not, by the names of kernels."""

    def __init__(self, gpu: Any) -> None:
        self.names: list[str] = []
        self.jobs: list[Callable[[], object]] = []
        self.at_once = False
        self._made = gpu.compile

    def compile(self, index: int, unit: Any) -> Any:
        self.names.append(unit.signature.name)
        return self._made(index, unit)

    def ahead(self, job: Callable[[], object], plans_alone: bool = False) -> None:
        if plans_alone and self.at_once:
            names, self.names = self.names, []
            job()
            self.names = names
        elif plans_alone:
            self.jobs.append(job)

    def compiled(self, run: Callable[[], object], name: str) -> list[str]:
        """The names of what ``run`` compiles that begin with ``name``."""
        self.names.clear()
        run()
        return [one for one in self.names if one.startswith(name)]

    def ahead_of_need(self, name: str) -> list[str]:
        """The same of what was compiled ahead of need since the last call."""
        jobs = self.jobs.copy()
        self.jobs.clear()
        return self.compiled(lambda: [job() for job in jobs], name)


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Expected]:
    with gpu_without_one(compiles=False) as gpu:
        made = Expected(gpu)
        monkeypatch.setattr(gpu, "compile", made.compile)
        monkeypatch.setattr(gpu, "ahead", made.ahead)
        yield made


@pytest.mark.parametrize("transposed", [False, True], ids=["weight", "transposed weight"])
def test_products(expected: Expected, transposed: bool) -> None:
    x = ck.zeros((8, 1024, 768), "bfloat16")
    w = ck.zeros((3072, 768) if transposed else (768, 3072), "bfloat16")
    with ck.Tape() as tape:
        tape.watch(x, w)
        y = x @ (w.T if transposed else w)
    assert len(expected.jobs) == 1
    assert expected.ahead_of_need("matmul")
    cotangent = ck.zeros(y.shape, "bfloat16")
    assert not expected.compiled(lambda: tape.gradient(y, [x, w], output_gradients=cotangent), "matmul")


def test_a_trace_expects_products_alone(expected: Expected) -> None:
    x, weight, bias, last = (
        ck.zeros(shape, "bfloat16") for shape in ((4096, 768), (768, 768), (768,), (3072, 768))
    )

    def loss(weight: ck.Array, bias: ck.Array, last: ck.Array) -> ck.Array:
        return ck.sum(nn.linear(nn.linear(x, weight, bias), last))

    expected.at_once = True
    names = expected.compiled(lambda: ck.jit(ck.grad(loss))(weight, bias, last), "")
    assert [one for one in names if one.startswith("add_bfloat16_128x")]
    assert not [one for one in names if one.startswith("matmul")]


@pytest.mark.parametrize("apart", [True, False], ids=["arrays", "parts of one array"])
def test_attention(expected: Expected, apart: bool) -> None:
    parts = ck.zeros((2, 256, 3, 4, 64), "bfloat16")
    with ck.Tape() as tape:
        own = [ck.zeros((2, 4, 256, 64), "bfloat16") for _ in range(3)]
        leaves = own if apart else [parts]
        tape.watch(*leaves)
        q, k, v = own if apart else [ck.swapaxes(parts[:, :, i], 1, 2) for i in range(3)]
        y = ck.reshape(ck.swapaxes(nn.attention(q, k, v, causal=True), 1, 2), (2, 256, 256))
    assert expected.ahead_of_need("attention_backward")
    cotangent = ck.zeros(y.shape, "bfloat16")
    backward = expected.compiled(lambda: tape.gradient(y, leaves, output_gradients=cotangent), "")
    assert backward and not [one for one in backward if one.startswith("attention_backward")]


@pytest.mark.parametrize("given", [(True, True), (False, False), (True, False), (False, True)])
def test_layer_norm(expected: Expected, given: tuple[bool, bool]) -> None:
    x = ck.zeros((512, 768), "bfloat16")
    weight, bias = (ck.ones(768, "bfloat16") if one else None for one in given)
    leaves = [one for one in (x, weight, bias) if one is not None]
    with ck.Tape() as tape:
        tape.watch(*leaves)
        y = nn.layer_norm(x, 768, weight, bias)
    assert expected.ahead_of_need("layer_norm_backward")
    cotangent = ck.zeros(y.shape, "bfloat16")
    assert not expected.compiled(
        lambda: tape.gradient(y, leaves, output_gradients=cotangent), "layer_norm_backward"
    )


def test_cross_entropy(expected: Expected) -> None:
    logits, targets = ck.zeros((512, 1000), "bfloat16"), ck.zeros(512, "int32")
    with ck.Tape() as tape:
        tape.watch(logits)
        loss = nn.cross_entropy(logits, targets)
    assert expected.ahead_of_need("cross_entropy_backward")
    assert not expected.compiled(lambda: tape.gradient(loss, logits), "cross_entropy_backward")


def test_steps_of_optimizers(expected: Expected) -> None:
    parameters = [nn.Parameter(ck.zeros((64, 64), "bfloat16")) for _ in range(3)]
    adam = optim.AdamW(parameters, lr=1e-3)
    assert expected.ahead_of_need("adam")
    gradients = [ck.zeros(one.shape, "bfloat16") for one in parameters]
    assert not expected.compiled(lambda: adam.step(gradients), "adam")


def test_norms_of_gradients(expected: Expected) -> None:
    """The last kernel is compiled while the first ones are."""
    names = expected.compiled(lambda: optim.clip_by_global_norm([ck.zeros(64, "float32")], 1.0), "norm")
    assert [one.partition("_")[0] for one in names] == ["norms", "norm"]
    assert len(expected.jobs) == 1 and not expected.ahead_of_need("norm")


def test_rows_that_are_taken(expected: Expected) -> None:
    table, indices = ck.zeros((50304, 768), "bfloat16"), ck.zeros((8, 1024), "int32")
    with ck.Tape() as tape:
        tape.watch(table)
        rows = table[indices]
    assert expected.ahead_of_need("argsort")
    cotangent = ck.zeros(rows.shape, "bfloat16")
    backward = expected.compiled(lambda: tape.gradient(rows, table, output_gradients=cotangent), "")
    assert backward and not [one for one in backward if one.startswith(("argsort", "sum"))]
