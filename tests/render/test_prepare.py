"""How a prepared launch on a GPU lays out its parameters, without a GPU."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from cukern.device.cuda import backend as cuda
from cukern.device.cuda import driver
from cukern.text import signature

TEXT = """
struct Three { const float* of[3]; };
struct Two { int of[2]; };
extern "C" __global__ void k(const Three given, float rate, const double* numbers, const Two kept, const Three more) {}
"""


def test_structs_before_and_after_what_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    def launcher(
        cupy: Any,
        index: int,
        kernel: int,
        sizes: Any,
        memory: bytearray,
        pack: Any,
        params: Any,
        *kinds: bool,
    ) -> Any:
        return lambda *values: (pack(*values), bytes(memory))[1]

    monkeypatch.setattr(driver, "launcher", launcher)
    function: Any = type("Function", (), {"ptr": 0})
    made = cuda.CudaFunction(function, {}, signature.parse(TEXT), 0, None, False, None)  # type: ignore[arg-type]
    kept, more = struct.pack("=2i", 5, 6), struct.pack("=3Q", 7, 8, 9)
    launch = made.prepare((1, 1, 1), (1, 1, 1), 0, (kept, more), structs=[24])
    memory: Any = launch(struct.pack("=3Q", 1, 2, 3), 0.5, 4)
    addresses = struct.unpack_from("=5Q", memory)
    assert [at - addresses[0] for at in addresses] == [0, 24, 32, 40, 48]
    assert struct.unpack_from("=3Qf4xQ2i3Q", memory, 40) == (1, 2, 3, 0.5, 4, 5, 6, 7, 8, 9)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("body", "meets"),
    [("grid_barrier();", True), ("cg::this_grid().sync();", True), ("cg::this_grid().thread_rank();", False)],
)
def test_blocks_that_meet_are_launched_together(body: str, meets: bool, trusted: bool) -> None:
    """Also those of a kernel of one's own that includes the library's barrier."""
    text = f'extern "C" __global__ void k(int* x) {{ {body} }}'
    assert cuda._is_cooperative(signature.parse(text, trusted)) is meets
