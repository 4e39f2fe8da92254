"""Convolutions and their gradients, beside PyTorch's.

Usage: python benchmarks/convolution.py [--scale N] [--only WORD] [--out FILE]

Columns are device times in microseconds: the forward pass, the gradient of the image, that of the weights, each of this
library and of PyTorch. Random data; results are compared with PyTorch's of float64 on a part of the batch, or with the
host's float64 kernel without PyTorch. `--scale` divides batch and channels, for a try without a GPU; `--only` takes the
lines that contain a word. PyTorch's float32 does not round to tf32 unless the line says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark, torch

import cukern as ck
from cukern.nn.convolution.families import convolution, weights_gradient
from cukern.nn.convolution.problem import Form, Windows


class Case(NamedTuple):
    """A convolution of a square image: sizes, windows, the dtype, and whether channels lie innermost in memory."""

    batch: int
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dtype: str = "bfloat16"
    last: bool = True
    tf32: bool = False

    def scaled(self, scale: int) -> Case:
        """A smaller one."""
        small = {name: max(1, getattr(self, name) // scale) for name in ("batch", "channels", "filters")}
        return self._replace(**small, groups=1 if self.groups == 1 else small["channels"])

    def __str__(self) -> str:
        order = "last" if self.last else "first"
        windows = f"{self.filters} of {self.kernel}x{self.kernel} / {self.stride}"
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        dtype = "tf32" if self.tf32 else self.dtype
        return f"{dtype} {order}: {self.batch}x{self.channels}x{self.size}x{self.size}, {windows}{groups}"

    @property
    def output(self) -> int:
        """Rows, and columns, of the result."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def operations(self) -> float:
        """Multiplications and additions."""
        window = self.channels // self.groups * self.kernel**2
        return 2.0 * self.batch * self.output**2 * self.filters * window


LAYERS = (
    Case(64, 64, 56, 64, 3, 1, 1),
    Case(64, 128, 28, 128, 3, 1, 1),
    Case(64, 256, 14, 256, 3, 1, 1),
    Case(64, 64, 56, 256, 1),
    Case(64, 512, 7, 512, 3, 1, 1),
    Case(64, 3, 224, 64, 7, 2, 3),
    Case(64, 128, 56, 128, 3, 2, 1),
)
DEPTHWISE = Case(64, 256, 56, 256, 3, 1, 1, 256)
CONVNEXT, MOBILENET = Case(64, 96, 56, 96, 7, 1, 3, 96), Case(64, 144, 56, 144, 3, 2, 1, 144)
CASES = (
    *LAYERS,
    *(one._replace(last=False) for one in LAYERS),
    *(one._replace(dtype="float32", last=False) for one in LAYERS),
    LAYERS[0]._replace(dtype="float32"),
    LAYERS[0]._replace(dtype="float32", tf32=True),
    LAYERS[1]._replace(dtype="float32", tf32=True),
    DEPTHWISE,
    DEPTHWISE._replace(last=False),
    DEPTHWISE._replace(dtype="float16"),
    DEPTHWISE._replace(dtype="float16", last=False),
    DEPTHWISE._replace(dtype="float32"),
    DEPTHWISE._replace(dtype="float32", last=False),
    CONVNEXT,
    CONVNEXT._replace(last=False),
    MOBILENET,
    MOBILENET._replace(last=False),
)


def operands(case: Case, device: ck.Device) -> list[ck.Array]:
    """Image, weights and the gradient of the output."""
    rng = np.random.default_rng(0)

    def random(batch: int, channels: int, rows: int) -> ck.Array:
        shape = (batch, rows, rows, channels) if case.last else (batch, channels, rows, rows)
        made = ck.asarray(rng.standard_normal(shape, np.float32), device=device).astype(case.dtype)
        return ck.permute_dims(made, (0, 3, 1, 2)) if case.last else made

    return [
        random(case.batch, case.channels, case.size),
        random(case.filters, case.channels // case.groups, case.kernel),
        random(case.batch, case.filters, case.output),
    ]


def own(case: Case, x: ck.Array, w: ck.Array, dy: ck.Array) -> list[Callable[[], ck.Array]]:
    """The forward pass and the gradients of image and weights."""
    two = (case.kernel,) * 2
    windows = Windows((case.stride,) * 2, (case.padding,) * 2, (1, 1), case.groups)
    return [
        lambda: convolution(x, w, (), Form(windows, (case.output,) * 2, False, case.last)),
        lambda: convolution(dy, w, (), Form(windows, (case.size,) * 2, True, case.last)),
        lambda: weights_gradient(dy, x, windows, two, case.last),
    ]


def peers(case: Case, x: Any, w: Any, dy: Any) -> list[Callable[[], Any]]:
    """PyTorch's, of its tensors."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = case.tf32
    torch.backends.cudnn.benchmark = True
    options: Any = (case.stride, case.padding, 1, case.groups)
    two = [case.stride] * 2, [case.padding] * 2, [1, 1], False, [0, 0], case.groups
    back = torch.ops.aten.convolution_backward
    return [
        lambda: torch.nn.functional.conv2d(x, w, None, *options),
        lambda: back(dy, x, w, None, *two, [True, False, False])[0],
        lambda: back(dy, x, w, None, *two, [False, True, False])[1],
    ]


def check(case: Case, arrays: list[ck.Array]) -> float:
    """The largest error as a part of the largest number, of two images."""
    few = [arrays[0][:2], arrays[1], arrays[2][:2]]
    exact = case._replace(batch=min(2, case.batch))
    found = [call().astype("float32").numpy() for call in own(exact, *few)]
    values = [one.astype("float32").numpy() for one in few]
    if torch is not None:
        target = "cuda" if torch.cuda.is_available() else "cpu"
        tensors = [torch.tensor(one, dtype=torch.float64, device=target) for one in values]
        wanted = [call().cpu().numpy() for call in peers(exact, *tensors)]
    else:
        host = [ck.asarray(one.astype(np.float64), device="host") for one in values]
        wanted = [call().numpy() for call in own(exact, *host)]
    pairs = zip(found, wanted, strict=True)
    error = max(float(np.abs(one - want).max() / np.abs(want).max()) for one, want in pairs)
    bound = {"bfloat16": 2**-7, "float16": 2**-10}.get(case.dtype, 2**-7 if case.tf32 else 2**-17)
    assert error < bound, f"{case}: the results differ by {error:.2g} of the largest"
    return error


def measured(case: Case, bench: Benchmark) -> None:
    """Add a line to the table."""
    arrays = operands(case, bench.device)
    with ck.matmul_precision("tf32" if case.tf32 else "highest"):
        error = check(case, arrays)
        times = bench.microseconds(*own(case, *arrays))
    assert times[0] is not None
    rate = round(1e-6 * case.operations / times[0])
    theirs: list[float | None] = [None] * 3
    if torch is not None and bench.device.kind == "cuda":
        theirs = bench.microseconds(*peers(case, *(torch.from_dlpack(one) for one in arrays)))
    bench.row(case, *times, *theirs, rate, f"{error:.1e}")


def main() -> None:
    names = [f"{one}{of}" for of in ("", ", PyTorch") for one in ("forward", "image", "weights")]
    heads = ["convolution", *names, "TFLOP/s forward", "error"]
    bench = Benchmark(__doc__, "device times in us", heads)
    for case in bench.chosen(CASES):
        measured(case.scaled(bench.scale), bench)
    bench.end()


if __name__ == "__main__":
    main()
