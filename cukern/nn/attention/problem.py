"""What a call of attention asks for: with its arrays, and as a problem of the families of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout, memory_order
from ...device import Device
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel.sizes import ACCESS
from ...launch import cost
from ..dropout import Draw
from .scores import Lookup

if TYPE_CHECKING:
    from .conditions import Condition
    from .masks import Blocks

#: Features of a head that kernels hold.
MOST = 256
#: Of queries and keys that reach all keys.
_ALL = 2**30


class Head(NamedTuple):
    """The features of a head: of queries and keys, and of values."""

    size: int
    value: int


class Options(NamedTuple):
    """What a call asks for besides its arrays.

    Attributes:
        scale: the factor of the scores.
        left, right: how many keys before and after its position a query attends to; None for all.
        offset: the position of the first query among the keys; None if the last query is at the last key.
        program: the function of a score.
        lookups: what it reads of tables.
        condition: the part of it that makes scores -inf, if what that empties is to be left out.
        dropout: the probability of dropping a weight.
        packed: whether sequences lie behind one another along the axes of queries and keys.
        counted: whether each batch has its own number of keys.
        deterministic: whether gradients are the same in every run, to the last bit.
    """

    scale: float
    left: int | None = None
    right: int | None = None
    offset: int | None = 0
    program: Program | None = None
    lookups: tuple[Lookup, ...] = ()
    condition: Condition | None = None
    dropout: float = 0.0
    packed: bool = False
    counted: bool = False
    deterministic: bool = False


class Attention(NamedTuple):
    """Attention of arrays of these layouts, or if ``d`` is given gradients of it.

    Attributes:
        q, k, v: (batch, heads, L, E), and (batch, heads of keys, S, E or V).
        options: what is asked for besides.
        operands: the arrays of the score, which broadcast to it.
        tables: those that its function indexes.
        sequences: how many are packed; 0 if none are.
        kinds, bits: of a mask, the last of the operands, or of the score's condition, if tiles are left out for it.
        d: the cotangent of the result.
        wanted: whether the gradients of q, k and v are.
        of_array: the number of the array of the score whose gradient is wanted, instead of those.
        step: bytes from q to k and from k to v if their gradients are parts of one :func:`joined` array, else 0.
    """

    q: Layout
    k: Layout
    v: Layout
    options: Options
    operands: tuple[Layout, ...] = ()
    tables: tuple[Layout, ...] = ()
    sequences: int = 0
    kinds: Layout | None = None
    bits: Layout | None = None
    d: Layout | None = None
    wanted: tuple[bool, bool, bool] = (False, False, False)
    of_array: int | None = None
    step: int = 0

    @property
    def device(self) -> Device:
        return self.q.device

    @property
    def acc(self) -> dtypes.DType:
        """The dtype of statistics and sums."""
        return dtypes.info(self.q.dtype).acc

    @property
    def half(self) -> bool:
        """Whether elements have 16 bits."""
        return dtypes.info(self.q.dtype).narrow

    @property
    def head(self) -> Head:
        """The features of a head."""
        return Head(self.q.shape[3], self.v.shape[3])

    @property
    def sharing(self) -> int:
        """Heads of queries that share a head of keys."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def rows(self) -> int:
        """The queries that share a head of keys."""
        return self.q.shape[2] * self.sharing

    @property
    def bounded(self) -> bool:
        """Whether a query attends to some of the keys alone."""
        return self.options.left is not None or self.options.right is not None

    @property
    def scores(self) -> tuple[int, int, int, int]:
        """Batches, heads, queries and keys; instead of batches, packed sequences and their end."""
        batch = self.sequences + 1 if self.options.packed else self.q.shape[0]
        return batch, self.q.shape[1], self.q.shape[2], self.k.shape[2]

    @property
    def kept(self) -> tuple[bool, bool, bool, bool]:
        """The axes of the scores that the array has whose gradient is wanted."""
        assert self.of_array is not None
        shape = self.operands[self.of_array].shape
        batch, head, query, key = (
            n == m for n, m in zip((1,) * (4 - len(shape)) + shape, self.scores, strict=True)
        )
        return batch, head, query, key

    @property
    def packs(self) -> bool:
        """Whether every row of the matrices consists of aligned packs of 16 bytes."""
        return are_packs(self.matrices)

    @property
    def matrices(self) -> tuple[Layout, Layout, Layout, Layout]:
        """q, k, v, and the result or its cotangent."""
        return self.q, self.k, self.v, self.made["o"] if self.d is None else self.d

    @property
    def whole(self) -> Layout | None:
        """The layout of the array of which the gradients are parts; None if they are apart."""
        return joined(self.q, self.step) if self.step else None

    @property
    def made(self) -> dict[str, Layout]:
        """The layouts of the matrices that are made, by their names in the kernels: of the result, or of gradients."""
        if self.d is None:
            return {"o": like(self.q, self.head.value)}
        whole = self.whole
        part = whole and layout(whole.device, whole.dtype, whole.shape[1:], whole.strides[1:], True)
        given = zip(("dq", "dk", "dv"), self.matrices, self.wanted, strict=False)
        return {name: part or like(one, one.shape[-1]) for name, one, want in given if want}

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of the result and its rows' statistics, or of gradients, in one array if they are beside."""
        if self.of_array is not None:
            one = self.operands[self.of_array]
            return (fresh_layout(self.device, one.dtype, one.shape),)
        if self.whole is not None:
            return (self.whole,)
        of_rows = () if self.d is not None else (fresh_layout(self.device, self.acc, (*self.q.shape[:3], 2)),)
        return (*self.made.values(), *of_rows)

    @property
    def features(self) -> dict[str, Any]:
        (batch, heads, length, size), keys, options = self.q.shape, self.k.shape[2], self.options
        return {
            "dtype": dtypes.info(self.q.dtype).name,
            "gradients": "".join(n for n, want in zip("qkv", self.wanted, strict=True) if want),
            "bounded": self.bounded,
            "changed": options.program is not None,
            "masked": self.kinds is not None,
            "dropout": options.dropout > 0,
            "batches": batch * heads,
            "sharing": self.sharing,
            "queries": length,
            "keys": keys,
            "size": size,
            "value": self.head.value,
        }

    @property
    def summary(self) -> str:
        (batch, heads, length, size), (_, key_heads, keys, _) = self.q.shape, self.k.shape
        made = ", ".join(n for n, want in zip("qkv", self.wanted, strict=True) if want)
        of = "" if self.d is None else f"gradient of {made or 'an array of the score'} of "
        return (
            f"{of}attention of {batch} x {heads} x {length} queries to {key_heads} x {keys} keys of "
            f"{size} and {self.head.value} {dtypes.info(self.q.dtype).name}"
        )

    @property
    def operations(self) -> float:
        """Multiplications and additions of products, without the scores that a causal mask or a window leaves out."""
        (batch, heads, length, size), keys = self.q.shape, self.k.shape[2]
        left, right = (_ALL if n is None else n for n in (self.options.left, self.options.right))
        share = min(1.0, (min(left, keys / 2 if right == 0 else keys) + min(right, keys) + 1) / keys)
        once = 2.0 * batch * heads * length * keys * share
        products = size + self.head.value  # the scores, and the result
        if self.d is not None:
            products += size * self.wanted[0] + size * self.wanted[1] + self.head.value * self.wanted[2]
        return once * products

    def least_seconds(self, limits: Properties) -> float:
        """The time in which arrays are moved once, or products are computed, whichever is longer."""
        moved = sum(one.nbytes for one in (*self.matrices, *self.operands, *self.results))
        itemsize = self.q.dtype.itemsize
        cores = self.half and limits.compute_capability >= (8, 0)
        return cost.least_seconds(self.operations, moved, itemsize, cores, limits)


def are_packs(layouts: Sequence[Layout]) -> bool:
    """Whether every row consists of aligned packs of 16 bytes."""
    return all(
        one.aligned
        and one.shape[-1] * one.dtype.itemsize % ACCESS == 0
        and all(step % ACCESS == 0 for step in one.strides[:-1])
        for one in layouts
    )


def dense(x: Array) -> Array:
    """``x`` with contiguous features."""
    own = x._layout or x._planned()
    return x if own.strides[-1] == own.dtype.itemsize or own.shape[-1] == 1 else x.contiguous()


@lru_cache(maxsize=1024)
def like(x: Layout, features: int) -> Layout:
    """That of a new array of the shape of x but for the last axis, with axes in memory in the order of those of x."""
    batch, heads, length, _ = x.shape
    order = (0, 2, 1, 3) if x.strides[1] < x.strides[2] else None
    return fresh_layout(x.device, x.dtype, (batch, heads, length, features), order)


@lru_cache(maxsize=1024)
def joined(one: Layout, step: int) -> Layout | None:
    """The layout of three arrays that lie ``step`` bytes apart, as one; None if they leave gaps."""
    shape = (3, *one.shape)
    order = memory_order(shape, (step, *one.strides), one.dtype.itemsize)
    return None if order is None else fresh_layout(one.device, one.dtype, shape, order)


class Call(NamedTuple):
    """The arrays of a call: q (batch, heads, L, E), k and v (batch, heads of keys, S, E or V), and those of the score.

    Attributes:
        operands: broadcast to the scores; the last are a bias and a mask if ``given``.
        tables: contiguous; the function of a score indexes them.
        starts: where the packed sequences begin along the queries and the keys, and end: (sequences + 1,) each; or
            None and the number of keys of each batch.
        score: the function of a score.
        blocks: of a mask, the last of the operands, or of the score's condition, what it has in blocks of queries and
            keys, and in bits; None if no tile is to be left out for it.
    """

    q: Array
    k: Array
    v: Array
    options: Options
    operands: tuple[Array, ...] = ()
    tables: tuple[Array, ...] = ()
    starts: tuple[Array | None, Array | None] = (None, None)
    draw: Draw | None = None
    score: Callable[..., Any] | None = None
    given: tuple[bool, bool] = (False, False)
    blocks: Blocks | None = None

    @property
    def problem(self) -> Attention:
        """What is asked for, as far as launches depend on it."""
        q, k, v, options, operands, tables, (first, _), _, _, _, blocks = self
        return Attention(
            q._layout or q._planned(),
            k._layout or k._planned(),
            v._layout or v._planned(),
            options,
            tuple([one._layout or one._planned() for one in operands]) if operands else (),
            tuple([one._layout or one._planned() for one in tables]) if tables else (),
            0 if first is None else first.size - 1,
            None if blocks is None else blocks.kinds._planned(),
            None if blocks is None or blocks.bits is None else blocks.bits._planned(),
        )
