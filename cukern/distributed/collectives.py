"""Collective calls on arrays, with their gradients.

Gradients are those of the sum of all ranks' losses. The rules are those of linear algebra: the transpose of a sum over
ranks is a sum over ranks, of a gather a reduce-scatter, of a broadcast a sum at the root.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from .. import dtypes
from .. import namespace as ops
from ..array import Array, copied
from ..array.creation import zeros, zeros_like
from ..array.deferred import about_to_write
from ..array.layout import renewed
from ..autodiff import tape
from ..dtypes import DType
from ..elementwise.operands import normalize_axis, recorded, require_array
from ..elementwise.ufunc import one_out, written
from ..errors import GradientError, require_choice
from ..kernel.plan import allocate
from .engine import REDUCTIONS, Engine, Work
from .group import Group, world

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "recv",
    "reduce_scatter",
    "send",
]


def all_reduce(x: Array, op: str = "sum", group: Group | None = None, *, out: Array | None = None) -> Array:
    """Reduce ``x`` over the ranks, element by element; every rank gets the result.

    Half types are added in float32 on the host and rounded once; integers of 16 bits in int32.

    Args:
        x: of the same shape and dtype on every rank.
        op: ``"sum"``, ``"mean"``, ``"prod"``, ``"max"`` or ``"min"``. Sum and mean are differentiable.
        group: the ranks; all when None.
        out: the array to write the result to, of the shape of ``x``: ``x`` itself, or another.

    Returns:
        ``out``, or a new array of the shape and dtype of ``x``.

    Raises:
        ValueError: ``op`` is none of these, or ``out`` has another shape.
        TypeError: the dtype has no such reduction: bool has none, complex numbers have sum and mean; or ``out`` is no
            array to which the result can be written.
        DistributedError: the ranks do not agree, one is gone, or one does not come in time.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.all_reduce(ck.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    group = _checked("all_reduce", x, group)
    _check_reduction("all_reduce", x.dtype, op)
    target = one_out("all_reduce", out)
    if target is None or tape.recording((x, target)) or not _holds(target, x):

        def vjp(g: Array) -> Array:
            _check_derivative("all_reduce", op)
            return all_reduce(g, op, group=group)

        with tape.stop_recording():
            result = reduced(x, op, group)()
        return written("all_reduce", recorded("all_reduce", x, result, vjp), target)
    about_to_write(target)
    reduced(x, op, group, out=target)()
    target._bump("all_reduce")
    return target


def reduce_scatter(x: Array, op: str = "sum", axis: int = 0, group: Group | None = None) -> Array:
    """Reduce ``x`` over the ranks, and give each rank an equal part of the result along an axis.

    Args:
        x: of the same shape and dtype on every rank; the axis is divisible by the number of ranks.
        op: as in :func:`all_reduce`; sum and mean are differentiable.
        axis: along which the result is divided.
        group: the ranks; all when None.

    Raises:
        ValueError: ``op`` is unknown, or the axis is not divisible.
        TypeError: the dtype has no such reduction.
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.reduce_scatter(ck.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    group = _checked("reduce_scatter", x, group)
    _check_reduction("reduce_scatter", x.dtype, op)
    axis = normalize_axis(axis, x.ndim, "reduce_scatter")
    check_divisible("reduce_scatter", x, axis, group)

    def vjp(g: Array) -> Array:
        _check_derivative("reduce_scatter", op)
        whole = all_gather(g, group=group)
        return whole / group.size if op == "mean" else whole

    leading = ops.moveaxis(x, axis, 0)
    with tape.stop_recording():
        part = scattered(leading, op, group)()
    return ops.moveaxis(recorded("reduce_scatter", leading, part, vjp), 0, axis)


def all_gather(x: Array, axis: int = 0, group: Group | None = None) -> Array:
    """Concatenate the ranks' arrays along an axis; every rank gets all.

    Args:
        x: of the same shape and dtype on every rank, with at least one axis.
        axis: along which they are joined.
        group: the ranks; all when None.

    Raises:
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.all_gather(ck.asarray([[1.0, 2.0]])).shape
    (1, 2)
    """
    group = _checked("all_gather", x, group)
    axis = normalize_axis(axis, x.ndim, "all_gather")
    leading = ops.moveaxis(x, axis, 0)
    with tape.stop_recording():
        whole = gathered(leading, group)()
    return ops.moveaxis(
        recorded("all_gather", leading, whole, lambda g: reduce_scatter(g, group=group)), 0, axis
    )


def all_to_all(x: Array, axis: int = 0, group: Group | None = None) -> Array:
    """Exchange parts: the i-th part of the result is this rank's part of rank i's array.

    Args:
        x: of the same shape and dtype on every rank; the axis is divisible by the number of ranks.
        axis: along which arrays are divided.
        group: the ranks; all when None.

    Raises:
        ValueError: the axis is not divisible.
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.all_to_all(ck.asarray([3, 4])).tolist()
    [3, 4]
    """
    group = _checked("all_to_all", x, group)
    axis = normalize_axis(axis, x.ndim, "all_to_all")
    check_divisible("all_to_all", x, axis, group)
    leading = ops.moveaxis(x, axis, 0)
    about, _ = _met("all_to_all", leading, group)
    with tape.stop_recording():
        if x.size == 0 or group.size == 1:
            out = _fresh(leading)
        else:
            data, out = leading.contiguous(), _new(leading.shape, x)
            group.engine(x.device).all_to_all(data._data, out._data, about).wait()
    return ops.moveaxis(recorded("all_to_all", leading, out, lambda g: all_to_all(g, group=group)), 0, axis)


def broadcast(x: Array, root: int = 0, group: Group | None = None) -> Array:
    """The array of one rank, on every rank.

    Args:
        x: of the same shape and dtype on every rank; only that of ``root`` is read.
        root: a rank of the group.
        group: the ranks; all when None.

    Raises:
        ValueError: there is no rank ``root``.
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.broadcast(ck.asarray(5)).item()
    5
    """
    group = _checked("broadcast", x, group)
    _check_rank("broadcast", "root", root, group)
    about, _ = _met("broadcast", x, group, f" from rank {root}")
    with tape.stop_recording():
        out = _fresh(x)
        if x.size and group.size > 1:
            group.engine(x.device).broadcast(out._data, root, about).wait()

    def vjp(g: Array) -> Array:
        total = all_reduce(g, group=group)
        return total if group.rank == root else zeros_like(total)

    return recorded("broadcast", x, out, vjp)


def send(x: Array, to: int, group: Group | None = None) -> Array:
    """Send an array to one rank, which calls :func:`recv`.

    Args:
        x: any array.
        to: another rank of the group.
        group: the ranks that ``to`` counts; all when None.

    Returns:
        A 0 of no axes, through which the gradient comes back: add it to the loss where ``x`` shall get its gradient
        from the receiver's loss. The receiver must then compute its gradient too.

    Raises:
        ValueError: there is no such other rank.
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> world, x = ck.distributed.init(), ck.ones(3)
    >>> if world.size == 2:  # of two ranks the first sends
    ...     _ = ck.distributed.send(x, to=1) if world.rank == 0 else ck.distributed.recv(x, source=0)
    """
    group = _checked("send", x, group)
    _check_rank("send", "to", to, group, other=True)
    about = _met_pair(x, group.rank, to, group)
    if x.size:
        with tape.stop_recording():
            data = x.contiguous()
        group.engine(x.device).send(data._data, to, about).wait()
    like = x._planned()
    zero = zeros((), dtype=like.dtype, device=like.device)
    return recorded("send", x, zero, lambda g: recv(Array._made(renewed(like)), to, group))


def recv(like: Array, source: int, group: Group | None = None) -> Array:
    """The array that one rank sends by :func:`send`.

    Args:
        like: an array of the shape, dtype and device of the one to come. If a tape tracks it, the gradient of what
            comes is sent back to the sender, and that of ``like`` is None.
        source: another rank of the group.
        group: the ranks that ``source`` counts; all when None.

    Raises:
        ValueError: there is no such other rank.
        DistributedError: as in :func:`all_reduce`.

    >>> import cukern as ck
    >>> world, like = ck.distributed.init(), ck.zeros(3)
    >>> if world.rank == 1:  # another than the sender
    ...     x = ck.distributed.recv(like, source=0)
    """
    group = _checked("recv", like, group)
    _check_rank("recv", "source", source, group, other=True)
    about = _met_pair(like, source, group.rank, group)
    out = _new(like.shape, like)
    if like.size:
        group.engine(like.device).receive(out._data, source, about).wait()

    def vjp(g: Array) -> None:
        send(g, source, group)

    return recorded("recv", like, out, vjp)


def barrier(group: Group | None = None) -> None:
    """Wait until every rank is here and its GPU has done what it was given.

    Args:
        group: the ranks; all when None.

    Raises:
        DistributedError: a rank is gone, or does not come in time.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.barrier()
    """
    group = world() if group is None else group
    for engine_device in group.devices():
        engine_device.synchronize()
    group.meet("barrier")


def reduced(
    x: Array, op: str, group: Group, note: str = "", aside: bool = False, out: Array | None = None
) -> Callable[[], Array]:
    """Begin to reduce ``x``; the function that waits for the result and returns it.

    Until then ``x`` must not be written. ``aside``: launches go on meanwhile. ``out``: where the result goes, C-ordered
    and of the same shape and dtype; it may be ``x``.
    """
    about, _ = _met("all_reduce", x, group, f" {op}{note}")
    if group.size == 1 or not x.size:
        result = x if out is x else copied(x.contiguous())
        return lambda: _placed(result, out)
    engine = group.engine(x.device)
    carried, op, parts = _carried(x, op, engine, group)
    to = carried if carried is not x or out is x else _new(x.shape, x) if out is None else out
    work = engine.all_reduce(carried._data, to._data, op, about, aside)
    return cache(lambda: _placed(_finished(work, to, x.dtype, parts), out))


def scattered(x: Array, op: str, group: Group, note: str = "", aside: bool = False) -> Callable[[], Array]:
    """Begin to reduce ``x`` and divide the result along the first axis; the function that returns this rank's part.

    ``aside``: launches go on meanwhile.
    """
    about, _ = _met("reduce_scatter", x, group, f" {op}{note}")
    if group.size == 1 or not x.size:
        part = copied(x.contiguous()[: x.shape[0] // group.size])
        return lambda: part
    engine = group.engine(x.device)
    carried, op, parts = _carried(x, op, engine, group)
    to = _new((x.shape[0] // group.size, *x.shape[1:]), carried)
    work = engine.reduce_scatter(carried._data, to._data, op, about, aside)
    return cache(lambda: _finished(work, to, x.dtype, parts))


def gathered(
    x: Array, group: Group, note: str = "", aside: bool = False, out: Array | None = None
) -> Callable[[], Array]:
    """Begin to join the ranks' arrays along the first axis; the function that returns all.

    ``aside``: launches go on meanwhile. ``out``: the array for all, C-ordered, of which ``x`` may be this rank's part.
    """
    about, _ = _met("all_gather", x, group, note)
    data, shape = x.contiguous(), (x.shape[0] * group.size, *x.shape[1:])
    if group.size == 1 or not x.size:
        here = out is not None and data._storage is out._storage
        whole = out if here else _placed(_new(shape, x) if not x.size else copied(data), out)
        return lambda: whole  # type: ignore[return-value]
    if out is not None and x.device.addressable and data._storage is out._storage:
        data = copied(data)  # MPI's arrays must not overlap
    to = _new(shape, x) if out is None else out
    work = group.engine(x.device).all_gather(data._data, to._data, about, aside)
    return cache(lambda: _finished(work, to, x.dtype))


def _holds(out: Array, x: Array) -> bool:
    """Whether the result of a reduction of ``x`` can be written to ``out`` itself."""
    same = (out.shape, out.dtype, out.device) == (x.shape, x.dtype, x.device) and out.is_contiguous
    return same and (out is x or out._storage is not x._storage)


def _placed(result: Array, out: Array | None) -> Array:
    """``result``, or ``out`` with its elements."""
    if out is None or out is result:
        return result
    out[...] = result
    return out


def _finished(work: Work, result: Array, dtype: DType, parts: int = 1) -> Array:
    work.wait()
    # Before it is rounded: a sum may be too large where the mean is not.
    result = result if parts == 1 else result / parts
    return result if result.dtype == dtype else result.astype(dtype)


def _carried(x: Array, op: str, engine: Engine, group: Group) -> tuple[Array, str, int]:
    """``x``, contiguous, in the dtype of the reduction; the reduction; and the divisor of its result."""
    dtype = engine.carrier(x.dtype)
    carried = x.contiguous() if x.dtype == dtype else x.astype(dtype).contiguous()
    if op == "mean" and not engine.averages(dtype):
        return carried, "sum", group.size
    return carried, op, 1


def _fresh(x: Array) -> Array:
    data = x.contiguous()
    return copied(x) if data is x else data


def _new(shape: tuple[int, ...], like: Array) -> Array:
    return Array._wrap(allocate(like.device, shape, like.dtype), like.device)


def form(x: Array) -> str:
    """The dtype and shape of an array, in errors and comparisons."""
    return _form(x.dtype, x.shape)


@lru_cache(maxsize=1024)
def _form(dtype: DType, shape: tuple[int, ...]) -> str:
    return f"{dtype} {shape}"


def _met(call: str, x: Array, group: Group, more: str = "") -> tuple[str, list[str]]:
    return group.meet(call, f"{form(x)}{more}", known=not x.device.addressable)


def _met_pair(x: Array, source: int, to: int, group: Group) -> str:
    pair = (group.ranks[source], group.ranks[to])
    about, _ = group.meet(
        "send and recv", f"{form(x)} from rank {source} to {to}", ranks=pair, known=not x.device.addressable
    )
    return about


def _checked(call: str, x: object, group: Group | None) -> Group:
    require_array(x, call, "x")
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"{call}: group: expected a Group or None, got {type(group).__name__}")
    return world() if group is None else group


def _check_reduction(call: str, dtype: DType, op: str) -> None:
    require_choice(f"{call}: op", op, (*REDUCTIONS, "mean"))
    kind = dtypes.info(dtype).kind
    if kind == "b" or (kind == "c" and op not in ("sum", "mean")) or (kind in "iu" and op == "mean"):
        raise TypeError(f"{call}: x: {dtype} has no {op} over ranks")


def _check_derivative(call: str, op: str) -> None:
    if op not in ("sum", "mean"):
        raise GradientError(f"{call}: op={op!r} has no derivative; sum and mean have")


def check_divisible(call: str, x: Array, axis: int, group: Group) -> None:
    if x.shape[axis] % group.size:
        raise ValueError(
            f"{call}: x: axis {axis} of shape {x.shape} is not divisible by the {group.size} ranks of the group"
        )


def _check_rank(call: str, name: str, rank: object, group: Group, other: bool = False) -> None:
    if not isinstance(rank, int) or not 0 <= rank < group.size or (other and rank == group.rank):
        but = f" other than {group.rank}, which is this one" if other else ""
        raise ValueError(f"{call}: {name}: expected a rank below {group.size}{but}, got {rank!r}")
