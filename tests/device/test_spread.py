"""The kernels by which a GPU's threads share elements: run on the host too, equal to the host's plain loops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from elementwise_support import address_counts
from emptied import elementwise_plans, emptied

import cukern as ck
from cukern import dtypes
from cukern.elementwise import costs
from cukern.elementwise import geometry as spread
from cukern.elementwise import plan as launch
from cukern.shape import copy as copying


@pytest.fixture
def like_a_gpu(monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]) -> list[spread.Work]:
    """Within the test the host takes a GPU's kernels; what they were chosen to be is listed."""
    chosen: list[spread.Work] = []

    def work(*args: Any) -> spread.Work:
        chosen.append(choose(*args))
        return chosen[-1]

    choose = launch._work
    monkeypatch.setattr(launch, "_style", lambda device: "simt")
    monkeypatch.setattr(launch, "_work", work)
    empty(*elementwise_plans())
    monkeypatch.setattr(launch, "layout_of", address_counts)
    # Its name in the package is that of the function.
    monkeypatch.setattr(sys.modules["cukern.array.array"], "layout_of", address_counts)
    return chosen


def _values(shape: Sequence[int], dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def _template(work: spread.Work) -> str:
    return work.kernel.template.removeprefix("elementwise/").removesuffix(".cu")


def _run(f: Callable[..., Any], *datas: Any) -> Any:
    # Views keep their strides and their address.
    host = ck.Device("host")
    return f(*(ck.Array._wrap(data, host) for data in datas)).numpy()


ADD, ROUNDED = ck.fuse(lambda x, y: x + y), ck.fuse(lambda x: ck.sqrt(x) * 3 + 1)
# The template that is chosen, and the elements that it moves at a time, where the operands are of 4 bytes.
PAIRS: list[tuple[str, str, int, Callable[[Any], tuple[Any, Any]]]] = [
    ("one line", "flat", 4, lambda v: (v(5003), v(5003))),
    ("whole packs", "flat", 4, lambda v: (v(4096), v(4096))),
    ("few", "flat", 4, lambda v: (v(3), v(3))),
    ("one element", "flat", 4, lambda v: (v(5000), v(1))),
    ("one of each", "flat", 4, lambda v: (v(1), v(1))),
    ("off the alignment", "flat", 1, lambda v: (v(5001)[1:], v(5000))),
    ("every other", "flat", 1, lambda v: (v(9000)[::2], v(4500))),
    ("reversed", "flat", 1, lambda v: (v(9000)[::-1], v(9000))),
    ("short rows", "flat", 4, lambda v: (v((1700, 3)), v((1, 3)))),
    ("short rows, a column", "flat", 4, lambda v: (v((1700, 3)), v((1700, 1))[:, :1])),
    ("odd rows", "flat", 4, lambda v: (v((9, 1001)), v(1001))),
    ("axes", "flat", 4, lambda v: (v((7, 6, 5, 11)), v((6, 1, 11)))),
    ("axes that repeat", "flat", 4, lambda v: (v((3, 1, 60, 1)), v((1, 7, 1, 11)))),
    ("a row", "rows", 4, lambda v: (v((13, 1024)), v(1024))),
    ("a row, some threads idle", "rows", 4, lambda v: (v((11, 772)), v(772))),
    ("a column", "rows", 4, lambda v: (v((13, 1024)), v((13, 1)))),
    ("an outer product", "rows", 4, lambda v: (v(1024), v((13, 1)))),
    ("rows of a view", "rows", 4, lambda v: (v((21, 1040))[::2, :1024], v((11, 1024)))),
    ("odd rows of a view", "rows", 1, lambda v: (v((21, 1040))[::2, :1021], v((11, 1021)))),
    ("rows by twos", "rows", 1, lambda v: (v((11, 1001))[:, ::2], v((11, 501)))),
    ("rows along axes", "rows", 4, lambda v: (v((3, 5, 7, 256)), v((3, 1, 7, 256)))),
    ("a transpose", "tiles", 4, lambda v: (v((128, 192)).T, v((192, 128)))),
    ("a transpose, its sides odd", "tiles", 4, lambda v: (v((101, 203)).T, v((203, 101)))),
    ("a transpose, sides of packs", "tiles", 4, lambda v: (v((100, 200)).T, v((200, 100)))),
    ("a transpose, sides of half a pack", "tiles", 2, lambda v: (v((130, 202)).T, v((202, 130)))),
    ("a transpose, one side of half a pack", "tiles", 4, lambda v: (v((70, 132)).T, v((132, 70)))),
    ("batches", "tiles", 4, lambda v: (v((3, 132, 68)), np.swapaxes(v((3, 68, 132)), 1, 2))),
    ("axes reversed", "tiles", 2, lambda v: (v((64, 5, 3, 70)).T, v((70, 3, 5, 64)))),
    ("a transpose and every other", "tiles", 4, lambda v: (v((128, 128))[:, ::2], v((64, 128)).T)),
    ("a transpose that is kept", "rows", 4, lambda v: (v((64, 1024)).T, v((1024, 1)))),
    ("two transposes", "tiles", 4, lambda v: (v((64, 128)).T, v((64, 128)).T + v((128, 64), 0).T.T)),
]


@pytest.mark.parametrize(
    ("template", "width", "make"), [pair[1:] for pair in PAIRS], ids=[p[0] for p in PAIRS]
)
@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_layouts(
    like_a_gpu: list[spread.Work],
    monkeypatch: pytest.MonkeyPatch,
    template: str,
    width: int,
    make: Callable[[Any], tuple[Any, Any]],
    wide: bool,
) -> None:
    if wide:
        monkeypatch.setattr(launch, "LARGEST_INDEX", 0)
    x, y = make(lambda shape, *seed: _values(shape, np.float32, *seed))
    np.testing.assert_array_equal(_run(ADD, x, y), x + y)
    assert (_template(like_a_gpu[-1]), like_a_gpu[-1].variables["width"]) == (template, width)


@pytest.mark.parametrize("side", [64, 128, 192, 200, 256, 320])
def test_a_matrix_and_its_transpose(like_a_gpu: list[spread.Work], side: int) -> None:
    """Tiles and their mirror images take turns, each done once."""
    m = _values((side, side), np.float32)
    np.testing.assert_array_equal(_run(ADD, m, m.T), m + m.T)
    assert like_a_gpu[-1].variables["paired"]


#: Every dtype in a line; one of each size of element in the other shapes, in which the rest is thorough.
_USUAL = ("bool", "bfloat16", "float32", "int64", "complex128")
_SHAPED = [
    pytest.param(
        shape,
        dtype,
        marks=() if len(shape) == 1 or dtypes.info(dtype).name in _USUAL else pytest.mark.thorough,
        id=f"{shape}-{dtypes.info(dtype).name}",
    )
    for shape in ((9001,), (17, 1024), (256, 192))
    for dtype in dtypes.ALL
]


@pytest.mark.parametrize("shape, dtype", _SHAPED)
def test_dtypes(like_a_gpu: list[spread.Work], dtype: Any, shape: tuple[int, ...]) -> None:
    a = _values(shape, dtype)
    np.testing.assert_array_equal(_run(lambda x: ck.minimum(x, x), a), a)
    np.testing.assert_array_equal(_run(lambda x: ck.minimum(x, x), a.T), a.T)
    if len(shape) > 1:
        row = _values(shape[1:], dtype)
        np.testing.assert_array_equal(_run(ck.maximum, a, row), np.maximum(a, row))


@pytest.mark.parametrize("source", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target", [np.int8, np.float16, np.float64])
def test_dtypes_of_different_sizes(like_a_gpu: list[spread.Work], source: Any, target: Any) -> None:
    for a in (_values(9001, source), _values((256, 192), source).T, _values((17, 1040), source)[:, :1024]):
        np.testing.assert_array_equal(_run(lambda x: x.astype(target, copy=True), a), a.astype(target))


def _sobel(x: Any) -> Any:
    across = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
    down = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
    return across * across + down * down


def _cube(x: Any) -> Any:
    i = slice(1, -1)
    return x[2:, i, i] + x[:-2, i, i] + x[i, 2:, i] + x[i, :-2, i] + x[i, i, 2:] + x[i, i, :-2]


def _beside_others(x: Any, y: Any, row: Any) -> Any:
    ends = x[1:-1, 2:] * y[:-2, :1] + x[1:-1, :-2]
    return x[2:, 1:-1] * y[1:-1, 1:-1] + x[:-2, 1:-1] * row[1:-1] + ends, ends


def _kept(x: Any) -> Any:
    new = x.copy()
    new[1:-1, 1:-1] = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return new


#: Programs, the shapes of their arguments, the columns and rows of a patch, and the loads that it makes.
STENCILS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], Any, tuple[int, int, int]]] = {
    "packs": (_sobel, [(36, 264)], np.float32, (4, 5, 14)),
    "columns": (_sobel, [(37, 301)], np.float32, (1, 7, 27)),
    "half packs": (_sobel, [(20, 262)], np.int32, (2, 7, 18)),
    "bytes": (_sobel, [(9, 1056)], np.int8, (16, 1, 6)),
    "few rows": (_sobel, [(4, 264)], np.float64, (2, 2, 8)),
    "whole rows": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], [(20, 264)], np.float32, (4, 6, 8)),
    "a row": (lambda x: sum(x[i : i - 9] for i in range(1, 9)), [(3001,)], np.float32, (4, 1, 3)),
    "planes": (_cube, [(5, 9, 200)], np.float32, (4, 2, 16)),
    "other inputs": (_beside_others, [(20, 264), (20, 264), (264,)], np.float32, (4, 1, 14)),
    "a part of an array": (_kept, [(40, 264)], np.float32, (4, 5, 14)),
}


#: Those that need little time to compile, and show most.
_FEW = ("packs", "columns", "other inputs")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in _FEW else pytest.mark.thorough) for one in STENCILS]
)
def test_stencils(like_a_gpu: list[spread.Work], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Views of one array are read once by a patch, and nothing beside them."""
    monkeypatch.setattr(launch, "FEWEST_PATCHED", 0)
    monkeypatch.setattr(spread, "_FEWEST_THREADS", 0)
    monkeypatch.setattr(costs, "MANY_BYTES", {"simt": 0, "serial": 0})
    function, shapes, dtype, size = STENCILS[name]
    datas = [_values(shape, dtype, i) % 9 for i, shape in enumerate(shapes)]
    with ck.device("host"), ck.testing.checked():
        made = ck.jit(function)(*map(ck.asarray, datas))
    want = function(*datas)
    for x, y in zip(ck.tree.leaves(made), ck.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(x.numpy(), y)
    (work,) = [one for one in like_a_gpu if _template(one) == "stencil"]
    loads = sum(len(line["chunks"]) for group in work.variables["groups"] for line in group["lines"])
    assert (work.variables["width"], work.variables["height"], loads) == size


def test_stencils_of_equal_layouts(like_a_gpu: list[spread.Work], monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs alike that read other neighbours have plans of their own."""
    monkeypatch.setattr(launch, "FEWEST_PATCHED", 0)
    a = _values((5, 90), np.float32)

    def mixed(x: Any, first: int, second: int, third: int) -> Any:
        return x[1:, first : 80 + first] - 2 * x[1:, second : 80 + second] + 3 * x[1:, third : 80 + third]

    for make in (ck.fuse, ck.jit):
        for at in ((0, 1, 2), (1, 0, 9)):
            made = _run(make(lambda x, at=at: mixed(x, *at)), a)
            np.testing.assert_array_equal(made, mixed(a, *at))
            assert _template(like_a_gpu[-1]) == "stencil"


@pytest.mark.parametrize("shape", [(5000,), (16, 1024), (192, 128)])
def test_equal_to_the_hosts_loops(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """Bit for bit: the same statements of the same elements."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, *shape)).astype(np.float32)
    f = ck.fuse(lambda x, y: (x * y + x - y * 0.25, ck.where(x > y, x, y)))
    x, y = ck.asarray(a, device="host"), ck.asarray(b.T.copy(), device="host").T
    plain = [one.numpy() for one in f(x, y)]
    with emptied(*elementwise_plans()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_style", lambda device: "simt")
        for made, want in zip(f(x, y), plain, strict=True):
            assert made.numpy().tobytes() == want.tobytes()


def test_in_place(like_a_gpu: list[spread.Work]) -> None:
    with ck.device("host"):
        for shape in ((5003,), (17, 1024), (96, 80)):
            a, b = _values(shape, np.float32), _values(shape, np.float32, 1)
            x = ck.asarray(a.copy())
            x += ck.asarray(b)
            np.testing.assert_array_equal(x.numpy(), a + b)
            x = ck.asarray(a.copy())
            x[...] = ck.asarray(np.ascontiguousarray(b.T)).T
            np.testing.assert_array_equal(x.numpy(), b)
            x += ck.asarray(b[:1])
            np.testing.assert_array_equal(x.numpy(), b + b[:1])


@pytest.mark.parametrize(("length", "long"), [(20, False), (45, False), (150, True)])
def test_long_computations_do_fewer_elements_at_a_time(
    like_a_gpu: list[spread.Work], length: int, long: bool
) -> None:
    def steps(x: Any) -> Any:
        for k in range(length):
            x = x * 0.5 + k
        return x

    for a in (_values(3000, np.int8), _values((64, 64), np.int8).T, _values((3, 1024), np.int8)[:, 1:]):
        with ck.default_dtype(ck.float64):
            np.testing.assert_array_equal(_run(ck.fuse(steps), a), steps(a.astype(np.float64)))
        work = like_a_gpu[-1]
        assert (_template(work) == "lines") == long
        if not long and _template(work) != "tiles":
            assert 2 * length * work.variables["width"] * work.variables["unroll"] <= 384


@pytest.mark.parametrize("shape", [(700, 300), (64, 1024), (3, 200, 130)])
def test_the_hosts_tiles(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None], shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(launch, "HOST_TURNS", 0)
    empty(*elementwise_plans())
    a = _values((*shape[:-2], *shape[:-3:-1]), np.float32)
    b = _values(shape, np.float32)
    x = ck.swapaxes(ck.asarray(a), -1, -2)
    np.testing.assert_array_equal((x + ck.asarray(b)).numpy(), np.swapaxes(a, -1, -2) + b)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: dtypes.info(d).name)
def test_fill_and_copy(device: ck.Device, dtype: Any) -> None:
    a = _values((5, 300), dtype)
    for data in (a, a.T, a[::2, 1:], a[0, 0, ...], a[:, :0]):
        x = (
            ck.asarray(a)._data
            if data is a
            else ck.Array._wrap(data, ck.Device("host")).to_device(device)._data
        )
        made = copying.in_order(device, x)
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(ck.Array._wrap(made, device).numpy(), data)
    made = copying.filled(device, (3, 70), 1, dtype)
    np.testing.assert_array_equal(ck.Array._wrap(made, device).numpy(), np.full((3, 70), 1, dtype))


def test_copies_keep_what_nan_carries(device: ck.Device) -> None:
    bits = np.array([0x7F81, 0xFFC3, 0x8000], np.uint16)
    x = ck.asarray(bits.view(dtypes.bfloat16))
    made = ck.Array._wrap(copying.in_order(device, x._data), device).numpy()
    np.testing.assert_array_equal(made.view(np.uint16), bits)


@pytest.mark.parametrize(
    "count, into",
    [
        (1, True),
        (1, False),
        (3, True),
        (3, False),
        (70, True),
        pytest.param(70, False, marks=pytest.mark.thorough),
    ],
)
def test_many_copies_in_one_launch(device: ck.Device, count: int, into: bool) -> None:
    """Bytes of aligned and misaligned arrays, of all sizes to beyond a block's share, and none."""
    flat = ck.asarray(np.random.default_rng(count).integers(0, 255, 70000 + count, np.uint8), copy=True)
    sizes = [(7, 0, 1, 16, 40003, 64)[k % 6] for k in range(count)]
    sources = [flat[k % 5 + k :][:n] for k, n in enumerate(sizes)]
    targets = [ck.zeros(n + 1, "uint8")[k % 2 : n + k % 2] for k, n in enumerate(sizes)]
    given, kept = (sources, targets) if into else (targets, sources)
    for one in given:
        one._planned()
    with device.activate():
        copying.Copies(device, kept, into)(given)
    for x, y in zip(sources, targets, strict=True):
        assert y.tolist() == x.tolist()


def test_divisors() -> None:
    numbers = np.array([0, 1, 2, 3, 5, 7, 99, 2**16, 2**31 - 2**20 - 1], np.uint64)
    for n in (1, 2, 3, 5, 6, 7, 10, 641, 2**16 - 1, 2**16, 2**31 - 2**20):
        _, factor, shift = spread._divisor(n)
        found = ((numbers * np.uint64(factor) >> np.uint64(32)) + numbers) >> np.uint64(shift)
        np.testing.assert_array_equal(found, numbers // np.uint64(n))
        near = np.array([k * n + d for k in (1, 2, 1000) for d in (-1, 0, 1)], np.int64)
        near = near[(near >= 0) & (near < 2**31)].astype(np.uint64)
        found = ((near * np.uint64(factor) >> np.uint64(32)) + near) >> np.uint64(shift)
        np.testing.assert_array_equal(found, near // np.uint64(n))
