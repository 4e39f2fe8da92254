"""Arrays as chunks of dask.array: the hooks of Dask beyond NumPy's protocols."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..errors import DeviceError

__all__ = ["register_dask"]


def register_dask() -> None:
    """Register arrays with Dask: their sizes, tokens, percentiles, and their bytes for other processes.

    ``import cukern`` does this by itself where Dask was imported before, as in the workers of a cluster. Without it
    most of ``dask.array`` works too; arrays then pass between processes by pickle.

    Raises:
        ImportError: Dask is not installed.

    >>> import cukern as ck
    >>> ck.distributed.register_dask()
    >>> import dask.array as da
    >>> x = da.from_array(ck.asarray([[1.0, 2.0], [3.0, 4.0]]), chunks=(1, 2))
    >>> (x @ x.T).sum(axis=0).compute().tolist()
    [16.0, 36.0]
    """
    from dask.array.dispatch import percentile_lookup
    from dask.base import normalize_token
    from dask.sizeof import sizeof

    sizeof.register(Array, _nbytes)
    normalize_token.register(Array, _token)
    percentile_lookup.register(Array, _percentile)
    protocol = sys.modules.get("distributed.protocol")  # where Dask's own scheduler is used
    if protocol is not None:
        protocol.dask_serialize.register(Array)(_serialize)
        protocol.dask_deserialize.register(Array)(_deserialize)


def _nbytes(x: Array) -> int:
    return x.nbytes


def _token(x: Array) -> tuple[str, str, str, tuple[int, ...], str]:
    """A token by content: equal values on one device have equal tokens."""
    digest = hashlib.blake2b(_host_bytes(x), digest_size=16).hexdigest()
    return (type(x).__qualname__, str(x.device), str(x.dtype), x.shape, digest)


def _percentile(x: Array, q: Any, method: str = "linear") -> tuple[Any, int]:
    return (np.percentile(x, q, method=method), len(x)) if len(x) else (None, 0)  # type: ignore[call-overload]


def _host_bytes(x: Array) -> Any:
    """The elements in C order, as bytes that Python can read; without a copy if they are on the host."""
    data = x._data if x.device.addressable else x._fetched()
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


def _serialize(x: Array) -> tuple[dict[str, Any], list[Any]]:
    if type(x) is not Array:
        raise NotImplementedError("parameters keep their class by pickle")
    return {"dtype": str(x.dtype), "shape": x.shape, "device": str(x.device)}, [_host_bytes(x)]


def _deserialize(header: dict[str, Any], frames: list[Any]) -> Array:
    dtype = dtypes.as_dtype(header["dtype"])
    data = np.frombuffer(frames[0], dtype) if frames else np.empty(0, dtype)
    try:
        where: Device | None = Device(header["device"])
    except DeviceError:  # this worker lacks the sender's device
        where = None
    return asarray(data.reshape(header["shape"]), device=where, copy=True)
