"""Functions of more than 2**31 elements: `python tests/large.py` runs each on a GPU and checks values of its result.

Options: `--elements N` (a small one tries the script itself on the host), `--only NAME...`, which may have wildcards
(`nn.*`), `--slice K/OF`, `--seconds S`, after which no further case starts, and `--workers N`: so many processes, for
which most of the time goes into compiling. The names of functions without a case are printed, too.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import large_workers
import numpy as np
from large_draws import draws, newest
from large_inputs import Case, Inputs, ends, host, tail, written
from large_layers import images, rows

import cukern as ck
from cukern.cli.catalog import families

#: Functions that do not take so many elements, or of which time or memory grow faster than their number.
LEFT_OUT = """
         apply_over_axes asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d block broadcast
    broadcast_shapes c_ can_cast     check_indices finfo frombuffer fromfile fromfunction fromiter
    fromstring get_state histogramdd iinfo iscomplexobj isdtype     isfortran isrealobj isscalar issubdtype
    may_share_memory mgrid ndim ogrid piecewise poly polyder polydiv polyfit polyint     promote_types r_
    rollaxis roots savez savez_compressed shape shares_memory size vectorize diag_indices diag_indices_from
    fft2 fftfreq fftn hfft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft2 rfftfreq rfftn load
        cholesky cond cross det eig eigh eigvals eigvalsh expm inv lstsq matrix_norm
    matrix_power matrix_rank multi_dot pinv qr     slogdet solve solve_triangular svd svdvals tensorinv
    tensorsolve mask_indices tril_indices_from triu_indices     triu_indices_from ix_ sort_complex corrcoef
""".split()


def elementwise(a: Inputs) -> dict[str, Case]:
    """Every row of the table."""
    names = next(family.names for family in families() if family.title == "Elementwise")
    made = {}
    for name in names:
        f = getattr(ck, name)
        x = a.numbers
        if name in ("lcm", "gcd") or name.startswith("bitwise"):
            x = a.marks
        elif name == "nextafter":
            x = x.astype("float32")
        elif name.startswith("logical"):
            x = a.flags
        count = len(f.operands)
        made[name] = ends(f, a.flags, x, x) if name == "where" else ends(f, *[x] * count)
    return made


def of_parts(a: Inputs) -> dict[str, Case]:
    """Shapes, stacks and pieces."""
    x, n, last = a.marks, a.n, [0, 7, -5]
    matrix, rows = x.reshape((a.rows, a.columns)), a.rows

    def end(made: ck.Array) -> Any:
        return host(tail(made.reshape((-1,)), 3))

    return {
        "broadcast_arrays": Case(lambda: end(ck.copy(ck.broadcast_arrays(x, x[:1])[1])), [3, 3, 3]),
        "expand_dims": Case(lambda: end(ck.copy(ck.expand_dims(x, 0))), last),
        "squeeze": Case(lambda: end(ck.squeeze(x[None]).copy()), last),
        "ravel": Case(lambda: end(ck.ravel(matrix.T)), lambda: host(matrix.T[-1]) if rows == 3 else last),
        "moveaxis": Case(lambda: end(ck.moveaxis(matrix, 0, 1).copy()), lambda: host(matrix.T[-1])),
        "swapaxes": Case(lambda: end(ck.swapaxes(matrix, 0, 1).copy()), lambda: host(matrix.T[-1])),
        "permute_dims": Case(lambda: end(ck.permute_dims(matrix, (1, 0)).copy()), lambda: host(matrix.T[-1])),
        "transpose": Case(lambda: end(ck.transpose(matrix).copy()), lambda: host(matrix.T[-1])),
        "matrix_transpose": Case(lambda: end(ck.matrix_transpose(matrix).copy()), lambda: host(matrix.T[-1])),
        "rot90": Case(lambda: host(ck.rot90(matrix).copy()[0, -1]), -5),
        "fliplr": Case(lambda: host(ck.fliplr(matrix).copy()[-1, :2]), [-5, 7]),
        "flipud": Case(lambda: host(ck.flipud(matrix).copy()[-1, :2]), [3, 0]),
        "triu": Case(lambda: host(ck.triu(matrix)[-1, :2]), lambda: [0, 0] if rows == 3 else [3, 0]),
        "unstack": Case(lambda: end(ck.unstack(matrix)[-1].copy()), last),
        "split": Case(lambda: end(ck.split(matrix, rows)[-1].copy()), last),
        "array_split": Case(lambda: end(ck.array_split(x, 2)[1].copy()), last),
        "vsplit": Case(lambda: end(ck.vsplit(matrix, rows)[-1].copy()), last),
        "hsplit": Case(lambda: end(ck.hsplit(x, [3])[-1].copy()), last),
        "dsplit": Case(lambda: end(ck.dsplit(x[None, None], [3])[-1].copy()), last),
        "column_stack": Case(lambda: end(ck.column_stack([x, x])), [7, -5, -5]),
        "dstack": Case(lambda: end(ck.dstack([x, x])), [7, -5, -5]),
        "hstack": Case(lambda: end(ck.hstack([x[:2], x])), last),
        "vstack": Case(lambda: end(ck.vstack([matrix[:1], matrix])), last),
        "vander": Case(lambda: host(tail(ck.vander(a.numbers, 2), 1))[0, 1], 1),
        "diag": Case(lambda: end(ck.diag(ck.ones(a.side, dtype="int8"))), [0, 0, 1]),
        "diagflat": Case(lambda: end(ck.diagflat(ck.ones(a.side, dtype="int8"))), [0, 0, 1]),
        "fill_diagonal": Case(lambda: filled_diagonal(a), [0, 0, 4]),
        "diagonal": Case(lambda: host(ck.diagonal(matrix[:, a.columns - rows :])[-1]), -5),
        "sliding_window_view": Case(lambda: end(ck.sliding_window_view(x, 3).copy()), last),
        "apply_along_axis": Case(lambda: host(ck.apply_along_axis(ck.sum, 1, matrix)).sum(), 14),
        "full_like": Case(lambda: end(ck.full_like(x, 4)), [4, 4, 4]),
        "ones_like": Case(lambda: end(ck.ones_like(x)), [1, 1, 1]),
        "zeros_like": Case(lambda: end(ck.zeros_like(x)), [0, 0, 0]),
        "ones": Case(lambda: end(ck.ones(n, dtype="int8")), [1, 1, 1]),
        "empty_like": Case(lambda: host(ck.empty_like(x).shape), [n]),
        "empty": Case(lambda: host(ck.empty(n, dtype="int8").shape), [n]),
        "array": Case(lambda: end(ck.array(x)), last),
        "from_dlpack": Case(lambda: end(ck.from_dlpack(x)), last),
        "tri": Case(lambda: host(ck.tri(a.side, dtype="int8")[-1, -2:]), [1, 1]),
        "identity": Case(lambda: host(ck.identity(a.side, dtype="int8")[-1, -2:]), [0, 1]),
        "indices": Case(lambda: host(ck.indices((n // 2 + 5, 1), dtype="int32")[0, -1]), [n // 2 + 4]),
        "tril_indices": Case(
            lambda: [host(i[-1]) for i in ck.tril_indices(2 * a.side)], [2 * a.side - 1] * 2
        ),
        "asarray_chkfinite": Case(lambda: host(ck.asarray_chkfinite(a.numbers).shape), [n]),
        "save": Case(lambda: saved(x), last),
        "save_safetensors": Case(lambda: saved_safetensors(x), last),
    }


def filled_diagonal(a: Inputs) -> Any:
    x = ck.zeros((a.side, a.side), dtype="int8")
    ck.fill_diagonal(x, 4)
    return host(x[-1, -3:])


def saved(x: ck.Array) -> Any:
    path = Path("large.npy")
    try:
        ck.save(path, x)
        return host(tail(ck.load(path), 3))
    finally:
        path.unlink(missing_ok=True)


def saved_safetensors(x: ck.Array) -> Any:
    path = Path("large.safetensors")
    try:
        ck.save_safetensors(path, {"x": x})
        return host(tail(ck.load(path)["x"], 3))
    finally:
        path.unlink(missing_ok=True)


def reductions(a: Inputs) -> dict[str, Case]:
    """Reductions, scans, statistics and products."""
    x, r, n = a.marks, a.numbers, a.n
    variance, half = 0.64 / 12, n // 2
    units = ck.where(x == 0, 1, x)
    wide, few = r.reshape((a.rows, a.columns)), ck.asarray([3, 5, 7], "int8")
    return {
        "nanargmin": Case(lambda: host(ck.nanargmin(x)), n - 1),
        "nanmin": Case(lambda: host(ck.nanmin(x)), -5),
        "nanmean": Case(lambda: host(ck.nanmean(r)), 0.5, 0.01),
        "nanvar": Case(lambda: host(ck.nanvar(r)), variance, 0.01),
        "nanstd": Case(lambda: host(ck.nanstd(r)), variance**0.5, 0.01),
        "nanprod": Case(lambda: host(ck.nanprod(units)), -945),
        "cummin": Case(lambda: host(tail(ck.cummin(x), 2)), [0, -5]),
        "cumulative_sum": Case(lambda: host(tail(ck.cumulative_sum(x), 3)), [12, 19, 14]),
        "cumulative_prod": Case(lambda: host(tail(ck.cumulative_prod(units), 3)), [27, 189, -945]),
        "nancumsum": Case(lambda: host(tail(ck.nancumsum(x), 3)), [12, 19, 14]),
        "nancumprod": Case(lambda: host(tail(ck.nancumprod(units), 3)), [27, 189, -945]),
        "percentile": Case(lambda: host(ck.percentile(x, 100)), 9),
        "nanmedian": Case(lambda: host(ck.nanmedian(r)), 0.5, 0.01),
        "nanpercentile": Case(lambda: host(ck.nanpercentile(r, 25)), 0.3, 0.01),
        "nanquantile": Case(lambda: host(ck.nanquantile(r, 0.75)), 0.7, 0.01),
        "cov": Case(lambda: host(ck.cov(r[: 2 * half].reshape((2, half))))[0, 0], variance, 0.01),
        "histogram_bin_edges": Case(lambda: host(ck.histogram_bin_edges(x, 2)), [-5, 2, 9]),
        # In float32, as the data's floating dtype.
        "histogram2d": Case(lambda: host(ck.histogram2d(x, x, 2)[0]), [[np.float32(n - 3), 0], [0, 3]]),
        "log_softmax": Case(lambda: host(ck.log_softmax(wide, 1)[-1, -1]), -np.log(a.columns), 0.03),
        "inner": Case(lambda: host(ck.inner(r, r)) / n, 0.25 + variance, 0.02),
        "tensordot": Case(lambda: host(ck.tensordot(r, r, 1)) / n, 0.25 + variance, 0.02),
        "vecdot": Case(lambda: host(ck.vecdot(r, r)) / n, 0.25 + variance, 0.02),
        "einsum": Case(lambda: host(ck.einsum("i,i->", r, r)) / n, 0.25 + variance, 0.02),
        "matvec": Case(
            lambda: host(ck.matvec(wide.T, wide[:, 0])[-1]),
            lambda: host(wide[:, -1]) @ host(wide[:, 0]),
            0.02,
        ),
        "vecmat": Case(
            lambda: host(ck.vecmat(wide[:, 0], wide)[-1]), lambda: host(wide[:, 0]) @ host(wide[:, -1]), 0.02
        ),
        "kron": Case(
            lambda: host(ck.kron(r[: half // 16384 + 1], r[:32769])[-1]),
            lambda: host(r[half // 16384]) * host(r[min(n - 1, 32768)]),
            0.02,
        ),
        "trace": Case(lambda: host(ck.trace(ck.ones((a.side, a.side), dtype="int8"))), a.side),
        "cross": Case(
            lambda: host(
                tail(ck.cross(r[: n // 3 * 3].reshape((-1, 3)), ck.asarray([1.0, 0, 0], r.dtype)), 1)
            )[0],
            lambda: np.cross(host(tail(r[: n // 3 * 3], 3)), [1, 0, 0]),
            0.01,
        ),
        "norm": Case(lambda: host(ck.linalg.norm(r)) / n**0.5, (0.25 + variance) ** 0.5, 0.02),
        "vector_norm": Case(lambda: host(ck.linalg.vector_norm(r)) / n**0.5, (0.25 + variance) ** 0.5, 0.02),
        "reduction": Case(
            lambda: host(ck.reduction("largest", "x", "max(a, b)", "a", identity="-100")(x)), 9
        ),
        "gradient of index_add": Case(
            lambda: gradient(lambda y: ck.index_add(y, a.places, y[:4]), r), 1, 0.01
        ),
        "gradient of cumsum": Case(lambda: gradient(lambda y: ck.cumsum(y, dtype=ck.float32), r), 1, 0.01),
        "segment_sum": Case(lambda: host(ck.segment_sum(x, a.flags.astype("int8"), 2)), [-2, 16]),
        "segment_prod": Case(lambda: host(ck.segment_prod(units, a.flags.astype("int8"), 2)), [-15, 63]),
        "segment_mean": Case(lambda: host(ck.segment_mean(r, a.flags.astype("int8"), 2))[0], 0.5, 0.01),
        "segment_max": Case(lambda: host(ck.segment_max(x, offsets=[0, 5, n])), [3, 9]),
        "segment_min": Case(lambda: host(ck.segment_min(x, a.flags.astype("int8"), 2)), [-5, 0]),
        "matmul": ends(lambda y: ck.matmul(y[:, None], r[:1, None]), r),
        "outer": Case(lambda: host(ck.outer(few, x[: half + 1])[-1, half - 1 :]), [0, 9 * 7]),
        "meshgrid": Case(lambda: host(ck.meshgrid(few[:2], x)[1].copy()[n - 1]), [-5, -5]),
        "gradient": Case(
            lambda: host(tail(ck.gradient(r), 1)), lambda: host(r[n - 1]) - host(r[n - 2 : n - 1]), 0.01
        ),
        "interp": ends(lambda y: ck.interp(y, ck.asarray([0.0, 1.0]), ck.asarray([0.0, 2.0])), r),
        "trapezoid": Case(lambda: host(ck.trapezoid(r)) / n, 0.5, 0.02),
        "reshape": Case(lambda: host(ck.reshape(x, (n, 1))[n - 1]), [-5]),
        "scatter": Case(lambda: host(ck.scatter(x, a.flags.astype("int8"), 0, 2, reduce="max")), [3, 9]),
    }


def gradient(f: Callable[[ck.Array], ck.Array], x: ck.Array) -> Any:
    with ck.Tape() as tape:
        tape.watch([x])
        y = f(x)
    (made,) = tape.gradient(y, [x])
    return host(made[x.shape[0] - 1])


def searches(a: Inputs) -> dict[str, Case]:
    """Sorting, sets and choices."""
    x, n, flags, r = a.marks, a.n, a.flags, a.numbers
    few = ck.asarray([3, 7, 100], "int8")
    return {
        "ravel_multi_index": Case(
            lambda: host(
                ck.ravel_multi_index((a.places // a.columns, a.places % a.columns), (a.rows, a.columns))
            ),
            host(a.places),
        ),
        "argpartition": Case(lambda: host(ck.argpartition(x, 3)[:1]), [n - 1]),
        "lexsort": Case(lambda: host(tail(ck.lexsort((x,)), 3)), [0, n - 2, n // 2]),
        "msort": Case(lambda: host(tail(ck.msort(x), 3)), [3, 7, 9]),
        "intersect1d": Case(lambda: host(ck.intersect1d(x, few)), [3, 7]),
        "setdiff1d": Case(lambda: host(ck.setdiff1d(x, few)), [-5, 0, 9]),
        "setxor1d": Case(lambda: host(ck.setxor1d(x, few)), [-5, 0, 9, 100]),
        "union1d": Case(lambda: host(ck.union1d(x, few)), [-5, 0, 3, 7, 9, 100]),
        "unique_values": Case(lambda: host(ck.unique_values(x)), [-5, 0, 3, 7, 9]),
        "unique_inverse": Case(lambda: host(tail(ck.unique_inverse(x)[1], 3)), [1, 3, 0]),
        "unique_all": Case(lambda: host(ck.unique_all(x)[1]), [n - 1, 1, 0, n - 2, n // 2]),
        "select": Case(lambda: host(tail(ck.select([flags], [x]), 3)), [0, 7, 0]),
        "choose": Case(lambda: host(tail(ck.choose(flags, (x, x + 1)), 3)), [0, 8, -5]),
        "angle": ends(lambda y: ck.angle(y), r),
        "unwrap": ends(lambda y: ck.unwrap(y), r),
        "real_if_close": ends(ck.real_if_close, r),
        "float_power": ends(lambda y: ck.float_power(y, 2), r),
        "array_equiv": Case(lambda: float(ck.array_equiv(x, x)), 1),
        "divmod": ends(lambda y: ck.divmod(y, 4)[1], x),
        "modf": ends(lambda y: ck.modf(y)[0], r),
        "elementwise": ends(ck.elementwise("twice_over", "x + x"), r),
        "polyval": ends(lambda y: ck.polyval(ck.asarray([1.0, 2.0], y.dtype), y), r, tolerance=0.02),
        "polyadd": Case(lambda: host(tail(ck.polyadd(x, few), 3)), [3, 14, 95]),
        "polysub": Case(lambda: host(tail(ck.polysub(x, few), 3)), [-3, 0, -105]),
        "polymul": Case(lambda: host(tail(ck.polymul(x, few[:2]), 2)), [34, -35]),
        "correlate": Case(lambda: host(tail(ck.correlate(x, few[:2], "valid"), 2)), [49, -14]),
        "polygamma": ends(lambda y: ck.polygamma(1, y), r, tolerance=0.02),
        "multigammaln": ends(lambda y: ck.multigammaln(y + 2, 2), r, tolerance=0.02),
        "zeta": ends(lambda y: ck.zeta(y + 2, y), r, tolerance=0.02),
        "packbits": Case(lambda: host(ck.packbits(flags)[:1]), [64]),
        "unpackbits": Case(lambda: host(tail(ck.unpackbits(x.view("uint8")), 8)), [1, 1, 1, 1, 1, 0, 1, 1]),
        "put": Case(lambda: written(a, lambda y: ck.put(y, a.places, [1, 2, 3, 4])), [1, 0, 2, 3, 4]),
        "putmask": Case(lambda: written(a, lambda y: ck.putmask(y, flags, [1])), [3, 1, 1, 1, -5]),
        "place": Case(lambda: written(a, lambda y: ck.place(y, flags, [1, 2, 4])), [3, 1, 2, 4, -5]),
        "copyto": Case(lambda: written(a, lambda y: ck.copyto(y, 1, where=flags)), [3, 1, 1, 1, -5]),
        "bartlett": Case(lambda: host(ck.bartlett(n)[n // 2]), 1, 1e-5),
        "blackman": Case(lambda: host(ck.blackman(n)[n // 2]), 1, 1e-5),
        "hamming": Case(lambda: host(ck.hamming(n)[n - 1]), 0.08, 1e-5),
        "hanning": Case(lambda: host(ck.hanning(n)[n // 2]), 1, 1e-5),
        "kaiser": Case(lambda: host(ck.kaiser(n, 5)[n // 2]), 1, 1e-5),
        "logspace": Case(lambda: host(tail(ck.logspace(0, 1, n, dtype="float32"), 1)), [10], 1e-5),
        "geomspace": Case(lambda: host(tail(ck.geomspace(1, 10, n, dtype="float32"), 1)), [10], 1e-5),
        "fft": Case(lambda: transformed(a), [3, 3], 0.001),
        "ifft": Case(
            lambda: host(ck.fft.ifft(a.flags[: n - n % 2].astype("complex64"))[0]).real, 3 / n, 1e-3
        ),
        "rfft": Case(lambda: host(ck.fft.rfft(a.flags[: n - n % 2].astype("float32"))[0]).real, 3, 1e-3),
        "fftshift": Case(lambda: host(ck.fft.fftshift(x)[n // 2]), 3),
    }


def transformed(a: Inputs) -> Any:
    """The first number of the transform of the flags, and that of its mirror image."""
    made = ck.fft.fft(a.flags[: a.n - a.n % 2].astype("complex64"))
    return [host(made[0]).real, abs(host(made[0]))]


def everyday(a: Inputs) -> dict[str, Case]:
    """Reductions, sorts, pieces and sums that programs use most."""
    x, r, n, flags, places = a.marks, a.numbers, a.n, a.flags, a.places
    variance, middle = 0.64 / 12, n // 2
    few = ck.asarray([1, 5], "int8")
    units, wide = ck.where(x == 0, 1, x), r.reshape((a.rows, a.columns))
    pairs = {
        "all": (lambda: ck.all(flags), False),
        "any": (lambda: ck.any(flags), True),
        "argmax": (lambda: ck.argmax(x), middle),
        "argmin": (lambda: ck.argmin(x), n - 1),
        "max": (lambda: ck.max(x), 9),
        "min": (lambda: ck.min(x), -5),
        "sum": (lambda: ck.sum(x), 14),
        "prod": (lambda: ck.prod(units), -945),
        "ptp": (lambda: ck.ptp(x), 14),
        "nanmax": (lambda: ck.nanmax(x), 9),
        "nanargmax": (lambda: ck.nanargmax(x), middle),
        "count_nonzero": (lambda: ck.count_nonzero(flags), 3),
        "median": (lambda: ck.median(x), 0),
        "bincount": (lambda: ck.bincount(flags.astype("int8")), [n - 3, 3]),
        "histogram": (lambda: ck.histogram(x, 2, (-10, 10))[0], [1, n - 1]),
        "sort": (lambda: tail(ck.sort(x), 3), [3, 7, 9]),
        "argsort": (lambda: tail(ck.argsort(x), 3), [0, n - 2, middle]),
        "topk": (lambda: ck.topk(x, 3)[0], [9, 7, 3]),
        "partition": (lambda: tail(ck.partition(x, 5), 3), [3, 7, 9]),
        "unique": (lambda: ck.unique(x), [-5, 0, 3, 7, 9]),
        "unique_counts": (lambda: ck.unique_counts(x)[1], [1, n - 4, 1, 1, 1]),
        "isin": (lambda: tail(ck.isin(x, few[:1] + 6), 2), [1, 0]),
        "nonzero": (lambda: ck.nonzero(flags)[0], [1, middle, n - 2]),
        "flatnonzero": (lambda: ck.flatnonzero(x), [0, middle, n - 2, n - 1]),
        "argwhere": (lambda: ck.argwhere(flags)[:, 0], [1, middle, n - 2]),
        "compress": (lambda: ck.compress(flags, x), [0, 9, 7]),
        "extract": (lambda: ck.extract(flags, x), [0, 9, 7]),
        "take": (lambda: ck.take(x, places), [3, 9, 7, -5]),
        "take_along_axis": (lambda: ck.take_along_axis(x, places, 0), [3, 9, 7, -5]),
        "searchsorted": (lambda: tail(ck.searchsorted(few, x), 3), [0, 2, 0]),
        "digitize": (lambda: tail(ck.digitize(x, few), 3), [0, 2, 0]),
        "unravel_index": (
            lambda: ck.stack(ck.unravel_index(places[3:], (a.rows, a.columns)))[:, 0],
            [a.rows - 1, a.columns - 1],
        ),
        "cumsum": (lambda: tail(ck.cumsum(x), 3), [12, 19, 14]),
        "cummax": (lambda: tail(ck.cummax(x), 2), [9, 9]),
        "cumprod": (lambda: tail(ck.cumprod(units), 2), [189, -945]),
        "roll": (lambda: ck.roll(x, 2)[:3], [7, -5, 3]),
        "flip": (lambda: ck.flip(x).copy()[:2], [-5, 7]),
        "concat": (lambda: tail(ck.concat([x, x[:1]]), 3), [7, -5, 3]),
        "stack": (lambda: ck.stack([x, x])[1, n - 2 :], [7, -5]),
        "repeat": (lambda: tail(ck.repeat(x, 2), 3), [7, -5, -5]),
        "tile": (lambda: ck.tile(x, 2)[n - 1 : n + 1], [-5, 3]),
        "resize": (lambda: tail(ck.resize(x, n + 1), 2), [-5, 3]),
        "append": (lambda: tail(ck.append(x, x[:1]), 2), [-5, 3]),
        "insert": (lambda: tail(ck.insert(x, n - 1, 4), 2), [4, -5]),
        "delete": (lambda: tail(ck.delete(x, n - 2), 2), [0, -5]),
        "pad": (lambda: tail(ck.pad(x, 2, mode="edge"), 3), [-5] * 3),
        "diff": (lambda: tail(ck.diff(x), 2), [7, -12]),
        "ediff1d": (lambda: tail(ck.ediff1d(x), 2), [7, -12]),
        "convolve": (lambda: tail(ck.convolve(x, few), 2), [30, -25]),
        "arange": (lambda: tail(ck.arange(n), 1), [n - 1]),
        "full": (lambda: tail(ck.full(n, 3, dtype="int8"), 1), [3]),
        "zeros": (lambda: tail(ck.zeros(n, dtype="int8"), 1), [0]),
        "eye": (lambda: ck.eye(a.side, dtype="int8")[-1, -2:], [0, 1]),
        "broadcast_to": (lambda: tail(ck.broadcast_to(x[:1], (n,)).copy(), 1), [3]),
        "tril": (
            lambda: ck.tril(x.reshape((a.rows, a.columns)))[-1, :1],
            lambda: host(x.reshape((a.rows, a.columns))[-1, :1]),
        ),
        "trim_zeros": (lambda: ck.trim_zeros(x[1:])[:1], [9]),
        "put_along_axis": (
            lambda: written(a, lambda y: ck.put_along_axis(y, places, ck.asarray([1, 2, 3, 4], "int8"), 0)),
            [1, 0, 2, 3, 4],
        ),
        "allclose": (lambda: ck.allclose(r, r), 1),
        "array_equal": (lambda: ck.array_equal(x, x), 1),
    }
    made = {name: Case(lambda call=call: host(call()), want) for name, (call, want) in pairs.items()}
    near: dict[str, tuple[Callable[[], Any], float]] = {
        "mean": (lambda: ck.mean(r), 0.5),
        "average": (lambda: ck.average(r), 0.5),
        "var": (lambda: ck.var(r), variance),
        "std": (lambda: ck.std(r), variance**0.5),
        "quantile": (lambda: ck.quantile(r, 0.25), 0.3),
        "nansum": (lambda: ck.nansum(r, dtype="float64") / n, 0.5),
        "dot": (lambda: ck.dot(r, r) / n, 0.25 + variance),
        "vdot": (lambda: ck.vdot(r, r) / n, 0.25 + variance),
        "softmax": (lambda: ck.sum(ck.softmax(wide, 1), dtype="float64") / a.rows, 1.0),
        "linspace": (lambda: ck.linspace(0, 1, n, dtype="float32")[n - 1], 1.0),
        "logsumexp": (lambda: ck.logsumexp(r), float(np.log(n * (np.exp(0.9) - np.exp(0.1)) / 0.8))),
        "logcumsumexp": (
            lambda: ck.logcumsumexp(r, 0)[n - 1],
            float(np.log(n * (np.exp(0.9) - np.exp(0.1)) / 0.8)),
        ),
        "random.normal": (lambda: ck.std(ck.random.normal(0, 1, n, dtype="bfloat16")), 1.0),
        "random.uniform": (lambda: ck.mean(ck.random.uniform(0, 1, n, dtype="bfloat16")), 0.5),
    }
    made |= {name: Case(lambda call=call: host(call()), want, 0.02) for name, (call, want) in near.items()}
    made |= {name: ends(getattr(ck, name), r) for name in ("nan_to_num",)}
    return made | {
        "astype": ends(lambda y: ck.astype(y, "float32"), r),
        "isclose": ends(lambda y: ck.isclose(y, y), r),
    }


def right(case: Case) -> tuple[bool, str]:
    """Whether a call gives what it should."""
    got = np.asarray(case.call(), dtype="complex128")
    wanted = np.asarray(case.wanted() if callable(case.wanted) else case.wanted, dtype="complex128")
    near = np.abs(got - wanted) <= case.tolerance * np.maximum(1, np.abs(wanted))
    same = near | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    return got.shape == wanted.shape and bool(
        np.all(same)
    ), f"{got.ravel()[:8]}, expected {wanted.ravel()[:8]}"


def without_case(cases: dict[str, Case]) -> list[str]:
    """Public functions that no case calls."""
    text = Path(__file__).read_text()
    public = [name.split(".")[-1] for family in families() for name in family.names]
    layers = {f"nn.{name}" for name in ck.nn.functional.__all__} - {"nn.upsample"}  # which is interpolate
    return [
        name
        for name in public
        if name not in cases and name not in LEFT_OUT and not re.search(rf"ck\.(\w+\.)?{name}\b", text)
    ] + sorted(layers - set(cases))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=lambda s: int(eval(s)), default=2**31 + 1)
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.workers > 1:
        return large_workers.run(given.elements, given.workers, given.seconds, given.only)
    start, a = time.monotonic(), Inputs(given.elements)
    cases = {
        k: v
        for group in (newest, draws, images, rows, searches, of_parts, reductions, elementwise, everyday)
        for k, v in group(a).items()
    }
    part, of = map(int, given.slice.split("/"))
    only = given.only or ("*",)
    names = [name for name in cases if any(fnmatchcase(name, one) for one in only)][part::of]
    device, good, bad = a.marks.device, 0, []
    for i, name in enumerate(names):
        if time.monotonic() - start > given.seconds:
            print("out of time before:", "  ".join(names[i:]))
            break
        began = time.monotonic()
        try:
            fine, what = right(cases[name])
        except Exception as error:
            fine, what = False, f"{type(error).__name__}: {str(error)[:200]}"
        good += fine
        if not fine:
            bad.append(name)
        took = time.monotonic() - began
        print(f"{name}: right, {took:.1f} s" if fine else f"{name}: {what}".replace("\n", " "), flush=True)
        if not device.addressable:
            device.xp.get_default_memory_pool().free_all_blocks()
    print(
        f"{a.n} elements, slice {given.slice}: {good} right, not right: {bad}; {time.monotonic() - start:.0f} s"
    )
    if part == 0 and not given.only:
        print("without a case:", " ".join(without_case(cases)))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
