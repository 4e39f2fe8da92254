"""The calls that ``functions.py`` measures: for each function of the namespace its arguments, and its peers' calls.

They are the lines of ``functions.txt``, ``name | arguments | PyTorch's call | NumPy's and CuPy's call``. A call that is
left out is the function of the same name, or of NumPy's name for it, with the same arguments; ``-`` is for a library
that has none. Several names before the first bar share a line, in which ``{name}`` is the function's. A name may have
several lines. Arguments that begin with ``ck.`` are the whole call. A peer's call that begins with ``~`` has another
result: a median that is no mean of two, an array changed in place.

The names of arguments are keys of ``INPUTS``; ``N`` is the number of elements, ``R`` the rows of a matrix of them;
``np`` is NumPy or CuPy, ``sp`` the package of its special functions, ``torch`` and ``F`` PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: What each name stands for, made of ``normal``, ``uniform``, ``integers`` and ``np`` by an expression.
INPUTS = {
    "x": "normal(N)",
    "y": "normal(N)",
    "u": "uniform(0.5, 4, N)",
    "v": "uniform(0.5, 4, N)",
    "p": "uniform(0.01, 0.99, N)",
    "r": "uniform(-0.99, 0.99, N)",
    "i": "integers(1, 1000, N)",
    "j": "integers(1, 1000, N)",
    "bits": "integers(0, 8, N)",
    "places": "integers(0, N, N, wide=True)",
    "b": "normal(N) > 0",
    "c": "normal(N) > 0",
    "z": "normal(N // 2) + 1j * normal(N // 2)",
    "m": "normal(R, N // R)",
    "o": "normal(R, N // R)",
    "row": "normal(N // R)",
    "rows": "integers(0, R, R, wide=True)",
    "along": "integers(0, R, R, N // R, wide=True)",
    "sorted_": "np.sort(normal(4096))",
    "heights": "normal(4096)",
    "segments": "np.arange(R) // 8",
    "starts": "np.minimum(np.arange(0, R + 8, 8), R)",
    "few": "integers(0, 1000, 512)",
    "short": "normal(32)",
    "flags": "normal(R) > 0",
    "left": "normal(M, M)",
    "right": "normal(M, M)",
    "vector": "normal(M)",
    "triples": "normal(N // 3, 3)",
    "others": "normal(N // 3, 3)",
    "batch": "normal(16, D, D) + 8 * np.eye(D, dtype=np.float32)",
    "spd": "spd(16, D)",
    "sides": "normal(16, D, 8)",
    "tall": "normal(8 * D, D)",
    "heights_of_tall": "normal(8 * D)",
    "wave": "normal(N // 1024, 1024)",
    "zwave": "normal(N // 2048, 1024) + 1j * normal(N // 2048, 1024)",
    "image": "normal(2 * IMAGES, 256, 256)",
    "zimage": "normal(IMAGES, 256, 256) + 1j * normal(IMAGES, 256, 256)",
    "half": "normal(N // 2048, 513) + 1j * normal(N // 2048, 513)",
    "zhalf": "normal(IMAGES, 256, 129) + 1j * normal(IMAGES, 256, 129)",
}

#: Functions that make no new values on the device: views, facts, files and what makes other functions.
NO_WORK = set(
    """broadcast_arrays broadcast_to expand_dims flip matrix_transpose moveaxis permute_dims ravel reshape squeeze
    swapaxes transpose unstack split array_split atleast_1d atleast_2d atleast_3d dsplit hsplit vsplit fliplr
    flipud rollaxis rot90 sliding_window_view diagonal linalg.diagonal linalg.matrix_transpose apply_along_axis
    check_indices elementwise fuse reduction array asarray ascontiguousarray empty empty_like from_dlpack c_ r_
    ix_ broadcast_shapes can_cast finfo iinfo isdtype isscalar may_share_memory ndim promote_types shape
    shares_memory size load save save_safetensors savez savez_compressed real imag histogram_bin_edges fft.fftfreq
    fft.rfftfreq fromfunction diag_indices diag_indices_from broadcast mgrid ogrid iscomplexobj
    isfortran isrealobj issubdtype apply_over_axes vectorize asanyarray asarray_chkfinite frombuffer fromfile
    fromiter fromstring poly1d require random.device random.state random.spawn random.split""".split()
)

#: Functions with several right results.
UNCOMPARED = set(
    """argpartition partition linalg.eig linalg.eigvals linalg.eigh linalg.qr linalg.svd linalg.lstsq unique_all
    linalg.cond polyfit linalg.tensorinv""".split()
)


class Case(NamedTuple):
    """A measured call.

    Attributes:
        name: the function.
        call: the text of the call in cukern, and ``arguments`` what is passed; "" if the call is not of this form.
        torch: PyTorch's call, and ``other``, NumPy's and CuPy's; "" for the function of the same name, None for none.
        compared: whether results are compared.
    """

    name: str
    call: str
    arguments: str
    torch: str | None
    other: str | None

    def compared(self, peer: str | None) -> bool:
        """Whether the result is compared with that of a peer's call."""
        return self.name not in UNCOMPARED and not self.name.startswith("random.") and "~" not in (peer or "")


def _peer(cells: list[str], place: int, name: str) -> str | None:
    text = cells[place].strip() if place < len(cells) else ""
    return None if text == "-" else text.replace("{name}", name)


def cases() -> Iterator[Case]:
    """The cases, in the order of the table."""
    for line in (Path(__file__).parent / "functions.txt").read_text().splitlines():
        cells = line.split("|")
        names = [cells[0].strip()] if "[" in cells[0] or cells[0].endswith(" copy ") else cells[0].split()
        arguments = cells[1].strip()
        for name in names:
            whole = arguments.startswith("ck.") or name.startswith(("x[", "x*", "m[", "m."))
            call = arguments.replace("{name}", name) if whole else f"ck.{name}({arguments})"
            yield Case(name, call, "" if whole else arguments, _peer(cells, 2, name), _peer(cells, 3, name))
