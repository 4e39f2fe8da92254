"""What a GPU's backend compiles ahead of need is what the backward launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpu_without_one import gpu_without_one

import cukern as ck


@pytest.mark.parametrize("transposed", [False, True], ids=["weight", "transposed weight"])
def test_products(transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_without_one(compiles=False) as gpu:
        compiled: list[str] = []
        jobs: list[Callable[[], object]] = []
        made = gpu.compile

        def compile(index: int, unit: Any) -> Any:
            compiled.append(unit.text)
            return made(index, unit)

        def ahead(job: Callable[[], object], plans_alone: bool = False) -> None:
            if plans_alone:
                jobs.append(job)

        monkeypatch.setattr(gpu, "compile", compile)
        monkeypatch.setattr(gpu, "ahead", ahead)
        x = ck.zeros((8, 1024, 768), "bfloat16")
        w = ck.zeros((3072, 768) if transposed else (768, 3072), "bfloat16")
        with ck.Tape() as tape:
            tape.watch(x, w)
            y = x @ (w.T if transposed else w)
        assert len(jobs) == 1
        compiled.clear()
        jobs[0]()
        expected = {one for one in compiled if "wgmma" in one}
        assert expected
        compiled.clear()
        tape.gradient(y, [x, w], output_gradients=ck.zeros(y.shape, "bfloat16"))
        assert not {one for one in compiled if "wgmma" in one}
