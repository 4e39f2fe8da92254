"""The headers of the prelude on a GPU beside the host: the same kernels, of the same numbers, leave the same bits.

The kernels are those of the other tests, each with a launch that NumPy checks there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_beside
import test_clusters
import test_instructions
import test_mma
import test_proxy
import test_wgmma
from asynchronous import PIPELINE, ROLES

import cukern as ck
from cukern.testing import asynchrony
from cukern.text import render, syntax

ROOT = Path(__file__).parent.parent.parent
Case = Callable[[Any], object]


def roles(device: Any) -> None:
    """How many lanes of a warp are elected: which one is not said. Registers move between more warps than these."""
    text = ROLES.replace("elect_lane()", "__popc(__ballot_sync(~0u, elect_lane()))")
    for moved in ("give_registers<24>();", "take_registers<240>();"):
        text = text.replace(moved, "")
    y = ck.zeros(128, "int32", device)
    ck.Kernel(text, name="roles")(y, grid=1, block=128)


def arguments(test: Any) -> list[tuple[Any, ...]]:
    """Those with which pytest calls a test, each mark's by itself."""
    return [one if isinstance(one, tuple) else (one,) for one in test.pytestmark[0].args[1]]


#: What is computed exactly.
EXACT: dict[str, Case] = {
    **{f"mma {name}": lambda d, n=name: test_mma.product(d, n, True) for name in test_mma.TYPES},
    **{
        f"matrices {count}, {transposed}": lambda d, c=count, t=transposed: (
            test_mma.test_loads_and_stores_of_matrices(d, c, t)
        )
        for count in (1, 2, 4)
        for transposed in (False, True)
    },
    "transposed matrices": test_instructions.test_transposed_matrices_are_stored_and_loaded,
    "numbers of warpgroups": test_instructions.test_warps_know_the_number_of_their_warpgroup,
    "as_tf32": test_mma.test_rounding_to_tf32,
    "e4m3": test_mma.test_e4m3,
    "a thread's copies": lambda d: test_beside.copies(d, test_beside.COPIES),
    "a thread's copies, stored in bulk": lambda d: test_proxy.passed_on(d, True),
    "a warp's copies": test_instructions.test_a_warps_copies_arrive,
    "bulk copies": test_beside.pipeline,
    "bulk sums": lambda d: test_beside.pipeline(d, PIPELINE.replace("store_bulk", "add_bulk"), start=1),
    "roles of warps": roles,
    "registers": test_beside.moves,
    **{f"tiles {form}": lambda d, f=form: test_beside.tiles(d, *f) for form in test_beside.TILED},
    "tiles for several blocks": test_clusters.multicast,
    "tiles with a cache policy": test_instructions.test_tiles_are_brought_with_a_cache_policy,
    "bytes for several blocks": test_clusters.bytes_for_several,
    "a ring between two warps": test_instructions.test_a_ring_between_two_warps,
    "stages of another block": test_instructions.test_stages_of_another_block_are_freed,
    "a cluster": test_clusters.cluster,
    "clusters of one block": test_clusters.test_a_kernel_without_clusters_has_clusters_of_one_block,
    "words for another block": test_clusters.exchange,
    "wgmma of slabs": lambda d: test_beside.warpgroup(d, whole=True),
    **{f"wgmma {form}": lambda d, f=form: test_wgmma.product(d, *f) for form in test_wgmma.FORMS},
    **{
        f"wgmma of {n} columns": lambda d, n=n: test_wgmma.product(
            d, "__nv_bfloat16", n != 104, text=test_wgmma.of_columns(n), columns=n
        )
        for n in (8, 104, 256)
    },
    "wgmma of a line": lambda d: test_wgmma.test_a_line_is_multiplied_as_by_its_four_steps(d, "__half", True),
    "wgmma of the low bits of tf32": test_wgmma.test_tf32_leaves_out_the_low_bits,
    "wgmma of two groups": (test_instructions.test_sums_of_an_earlier_group_are_read_while_another_is_made),
    **{
        f"kernels in order: {header}": lambda d, h=header, f=first: (
            test_instructions.test_kernels_that_allow_the_next_one_come_in_order(d, h, f)
        )
        for header, first in arguments(test_instructions.test_kernels_that_allow_the_next_one_come_in_order)
    },
}
#: What is rounded: tensor cores cut off bits of the terms of a sum.
ROUNDED: dict[str, Case] = {
    **{f"mma {name}": lambda d, n=name: test_mma.product(d, n, False) for name in test_mma.TYPES},
    "wgmma of slabs": test_beside.warpgroup,
}


@contextmanager
def recorded() -> Iterator[tuple[list[list[np.ndarray]], list[str]]]:
    """What launches of kernels leave in their arrays, and those behind maps; and the kernels' templates."""
    left: list[list[np.ndarray]] = []
    texts: list[str] = []
    launch = ck.Kernel.__call__

    def call(kernel: ck.Kernel, *args: Any, **options: Any) -> None:
        launch(kernel, *args, **options)
        arrays = [getattr(one, "array", one) for one in args]
        left.append([np.array(one.numpy()) for one in arrays if isinstance(one, ck.Array)])
        texts.append(render.source_of(kernel.template))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ck.Kernel, "__call__", call)
        yield left, texts


def on_both(case: Case) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each array that a launch has been given, as the host leaves it and as the GPU does."""
    found = []
    for kind in ("host", "cuda"):
        with ck.device(kind) as device, asynchrony("random", seed=7), recorded() as (left, _):
            case(device)
        found.append(left)
    assert len(found[0]) == len(found[1]) > 0
    for ours, theirs in zip(*found, strict=True):
        yield from zip(ours, theirs, strict=True)


@pytest.fixture
def gpu() -> None:
    gpus = [one for one in ck.devices() if one.kind == "cuda"]
    if not gpus or gpus[0].properties.compute_capability[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")


@pytest.mark.parametrize("name", EXACT)
def test_bits(gpu: None, name: str) -> None:
    for ours, theirs in on_both(EXACT[name]):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(*(np.ascontiguousarray(one).view(np.uint8) for one in (ours, theirs)))


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_sums(gpu: None, name: str) -> None:
    for ours, theirs in on_both(ROUNDED[name]):
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=1e-5, atol=1e-5)


def calls(template: str) -> set[str]:
    """The functions that a kernel's text calls, either of two that an expression chooses between."""
    chosen = re.findall(r"<< ([^<>]*) >>\(", template)
    found = {name for expression in chosen for name in re.findall(r'"(\w+)"', expression)}
    text = re.sub(r"<%.*?%>", "", re.sub(r"<< .*? >>", "1", template), flags=re.DOTALL)
    for node in syntax.walk(syntax.syntax_tree(text.encode())):
        if node.type == "call_expression":
            called = node.child_by_field_name("function")
            name = called.child_by_field_name("name") or called
            found.add(name.text.decode())
    return {name for name in found if name.isidentifier()}


def test_a_call_is_no_mention() -> None:
    text = """<% include "prelude/mma.cuh" %>
    extern "C" __global__ void << name >>(float* y) {
        // mma(y)
        const char* said = "fence()";
        wait< << stages >>, 2>(y, arrive(&full[0]));
        << "add" if adds else "store" >>(y);
    }"""
    assert calls(text) == {"wait", "arrive", "add", "store"}


def test_every_instruction_is_called_by_a_kernel_that_a_test_launches() -> None:
    """Those of the headers in the page's table, and of those beside it that stand for an instruction."""
    called: set[str] = set()
    for case in EXACT.values():
        with ck.device("host") as device, recorded() as (_, texts):
            case(device)
        called |= {name for text in texts for name in calls(text)}
    for header, names in test_instructions.instructions().items():
        assert names - called == set(), f"{header}.cuh: no launch calls them"
