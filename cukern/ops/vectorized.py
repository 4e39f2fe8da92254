"""Functions of numbers applied to arrays."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from .. import dtypes, pytree
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.graph import Expr, order
from ..elementwise.operands import first_array, require_constant

__all__ = ["frompyfunc", "vectorize"]


class vectorize:
    """A function of numbers as a function of arrays, which broadcast.

    The function is traced into one kernel, as by :func:`fuse`, and is differentiable then. A function that cannot be
    traced, as it branches on values, runs in Python for each element, as with :class:`numpy.vectorize`; that is slow,
    copies arrays to the host and back, and has no derivative.

    Args:
        pyfunc: takes numbers, and returns one or a tuple of them; None makes a decorator of the other arguments.
        otypes: the dtypes of the results, as a string of NumPy's letters or a sequence; those that the function gives
            when None.
        doc: the docstring; that of the function when None.
        excluded: positions or names of arguments that are passed as they are.
        cache: has no effect; NumPy's keeps the result of the first call that finds the dtypes.
        signature: of a function of vectors, such as ``"(n),(n)->()"``, as in NumPy; runs in Python.

    Raises:
        GradientError: when called: a tape tracks an argument, and the function cannot be traced.

    >>> import cukern as ck
    >>> step = ck.vectorize(lambda x, y: x + 1 if x > y else x - 1)
    >>> step(ck.asarray([1, 5]), 3).tolist()
    [0, 6]
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any] | None = None,
        otypes: str | Sequence[Any] | None = None,
        doc: str | None = None,
        excluded: Collection[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        if pyfunc is not None and not callable(pyfunc):
            raise TypeError(f"vectorize: pyfunc: expected a function, got {pyfunc!r}")
        self.otypes = None if otypes is None else [dtypes.as_dtype(one) for one in otypes]
        self.excluded, self.signature, self.cache = excluded or (), signature, cache
        self._doc = doc
        self._taken = None if pyfunc is None else self._take(pyfunc)

    def _take(self, pyfunc: Callable[..., Any]) -> Callable[..., Any]:
        """Become the function of arrays of ``pyfunc``."""
        self.pyfunc = pyfunc
        functools.update_wrapper(self, pyfunc)
        self.__doc__ = pyfunc.__doc__ if self._doc is None else self._doc
        alone = self.excluded or self.signature is not None
        self._traced: Any = None if alone else fuse(_numbers_alone(pyfunc))
        return pyfunc

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._taken is None:  # a decorator with options
            self._taken = self._take(*args)
            return self
        beside = first_array((*args, *options.values()))
        if self._traced is not None and beside is not None:
            with contextlib.suppress(Exception):
                arrays = [asarray(arg, device=beside.device) for arg in args]
                return self._cast(self._traced(*arrays, **options), beside.device)
            self._traced = None
        require_constant("vectorize", **{f"args[{i}]": one for i, one in enumerate(args)}, **options)
        inner = np.vectorize(
            self._numbers,
            otypes=self.otypes,
            excluded=self.excluded,
            signature=self.signature,
        )
        numpys = [_on_host(arg) for arg in args]
        result = inner(*numpys, **{name: _on_host(one) for name, one in options.items()})
        return self._cast(result, None if beside is None else beside.device)

    def _numbers(self, *args: Any, **options: Any) -> Any:
        result = self.pyfunc(*args, **options)
        return tuple(map(_on_host, result)) if isinstance(result, tuple) else _on_host(result)

    def _cast(self, result: Any, device: Device | None) -> Any:
        """The results as arrays in the dtypes that were asked for."""
        several = isinstance(result, (tuple, list))
        results = [asarray(one, device=device) for one in (result if several else (result,))]
        if self.otypes is not None:
            results = [
                astype(one, dtype, copy=False) for one, dtype in zip(results, self.otypes, strict=True)
            ]
        return tuple(results) if several else results[0]


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int) -> Callable[..., Any]:
    """A function of ``nin`` numbers, with ``nout`` results, as a function of arrays: :class:`vectorize`.

    NumPy's gives arrays of objects; these are of the dtypes of the results.

    Args:
        func: takes numbers, and returns one or a tuple of them.
        nin: the number of arguments.
        nout: the number of results.

    Raises:
        TypeError: when called: with another number of arguments.
        ValueError: when called: the function has another number of results; or a number is below 1.

    >>> import cukern as ck
    >>> ck.frompyfunc(lambda x, y: x * y + 1, 2, 1)(ck.asarray([1, 2]), 3).tolist()
    [4, 7]
    """
    if min(operator.index(nin), operator.index(nout)) < 1:
        raise ValueError(f"frompyfunc: nin, nout: expected at least 1, got {nin} and {nout}")
    inner = vectorize(func)

    @functools.wraps(func)
    def called(*args: Any) -> Any:
        if len(args) != nin:
            raise TypeError(f"{getattr(func, '__name__', 'func')}: expected {nin} arguments, got {len(args)}")
        result = inner(*args)
        count = len(result) if isinstance(result, tuple) else 1
        if count != nout:
            raise ValueError(f"frompyfunc: func: expected {nout} results, got {count}")
        return result

    return called


def _numbers_alone(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """``pyfunc`` on symbols of numbers, with results of the shape that all arguments broadcast to.

    It cannot be traced if it takes parts of a number, or orders complex ones: Python refuses that, unlike arrays.
    """

    @functools.wraps(pyfunc)
    def traced(*args: Any, **options: Any) -> Any:
        given = [one for one in (*args, *options.values()) if isinstance(one, Expr)]
        if not given:
            raise TypeError("it is not fused")
        numbers = {name: _number(one) for name, one in options.items()}
        result = pyfunc(*map(_number, args), **numbers)
        leaves = pytree.leaves(result)
        if not all(isinstance(one, Expr) and not one.shape for one in leaves):
            raise TypeError("a result is no number")
        for node in order([one.node for one in leaves]):
            ordering = node.row is not None and node.row.name in (
                "less",
                "less_equal",
                "greater",
                "greater_equal",
            )
            if ordering and any(arg.dtype in dtypes.COMPLEX for arg in node.args):
                raise TypeError("complex numbers have no order")
            if node.kind == "view":
                raise TypeError("a number has no parts")
        shape = np.broadcast_shapes(*(one.shape for one in given))
        return pytree.map(lambda one: Expr(one.node, shape), result)

    return traced


def _on_host(x: Any) -> Any:
    return x.numpy() if isinstance(x, Array) else x


def _number(value: Any) -> Any:
    """The symbol of an element in place of that of an array."""
    return Expr(value.node) if isinstance(value, Expr) else value
