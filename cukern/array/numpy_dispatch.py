"""NumPy's ufuncs and functions on cukern arrays: each calls cukern's function of the same name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ..autodiff import tape
from ..device import Device, current
from .array import Array
from .creation import asarray, device_of
from .operators import FUNCTIONS

#: Options that have no effect in cukern, and the values for which they have none; () for any value.
_IDLE: dict[str, tuple[str, ...]] = {
    "order": ("C", "K", "A"),
    "subok": (),
    "kind": (),
    "like": (),
    "overwrite_input": (),
    "allow_pickle": (),
    "fix_imports": (),
}


def _namespace(module: str) -> Any:
    """cukern's counterpart of a NumPy module, or None."""
    root = sys.modules["cukern"]
    if module == "numpy":
        return root
    namespace = root if module.startswith("numpy.") else None
    for name in module.split(".")[1:]:
        namespace = getattr(namespace, name, None)
    return namespace


def _refuse(name: str, reason: str) -> TypeError:
    return TypeError(f"numpy.{name} on a cukern array: {reason}; x.numpy() is a NumPy array of it")


def _is_idle(name: str, option: str, value: Any) -> bool:
    """Whether an option has no effect in cukern.

    Raises:
        TypeError: it would have one with this value.
    """
    if option not in _IDLE:
        return False
    if value is not None and _IDLE[option] and value not in _IDLE[option]:
        raise _refuse(name, f"{option}={value!r} is not supported")
    return True


def _finish(name: str, result: Any, out: Any, dtype: Any) -> Any:
    """The result as ``dtype``, written to ``out`` if given."""
    if dtype is not None and isinstance(result, Array):
        result = result.astype(dtype, copy=False)
    if isinstance(out, tuple):
        (out,) = out if len(out) == 1 else (out,)
    if out is None:
        return result
    if not isinstance(out, (Array, np.ndarray)) or not isinstance(result, Array):
        raise _refuse(name, f"out: expected an array, got {type(out).__name__}")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"numpy.{name}: out: a result of {result.dtype} cannot be written to {out.dtype}")
    if out.shape != result.shape:
        raise ValueError(f"numpy.{name}: out: expected shape {result.shape}, got {out.shape}")
    out[...] = result if isinstance(out, Array) else np.asarray(result)
    return out


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Run ``ufunc`` or one of its methods on operands that include a cukern array.

    Raises:
        TypeError: cukern lacks the function or the option.
    """
    name = ufunc.__name__
    if method not in ("__call__", "reduce", "accumulate", "reduceat", "outer", "at"):
        raise _refuse(f"{name}.{method}", "cukern has no such method")
    ours = getattr(_namespace("numpy"), name, None)
    function = ours if method == "__call__" else getattr(ours, method, None)
    if function is None:
        raise _refuse(name if method == "__call__" else f"{name}.{method}", "cukern has no such function")
    given = {key: value for key, value in options.items() if not _is_idle(name, key, value)}
    out = given.pop("out", None)
    if given.get("where") is True:
        del given["where"]
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    device = device_of(_arrays(inputs))
    inputs = inputs if device is None else _at_home(tuple(inputs), device)
    if isinstance(out, Array) and "out" in _parameters(function):
        return function(*inputs, out=out, **given)
    for option in given.keys() - _parameters(function).keys() if method == "__call__" else ():
        raise _refuse(name, f"the option {option} is not supported")
    return _finish(name, function(*inputs, **given), out, None)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """A function's signature, which for NumPy's functions in C is parsed from their docstrings: slow, so once."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    signature = _signature(function)
    return {} if signature is None else signature.parameters


#: NumPy's names of arguments that have another name in cukern.
_RENAMED = {"ddof": "correction", "newshape": "shape", "a_min": "min", "a_max": "max", "arr": "x"}


def _is_default(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and value in (default,))


def _translated(
    function: Callable[..., Any], ours: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Translate arguments of a NumPy function to cukern's, without those at their defaults.

    Raises:
        TypeError: cukern's function lacks an argument.
    """
    signature, taken = _signature(function), _parameters(ours)
    if signature is None or not signature.parameters or not taken:
        return list(args), dict(options)
    leading = max(1, sum(p.kind is p.POSITIONAL_ONLY for p in taken.values()))
    free = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    result: list[Any] = []
    named: dict[str, Any] = {}
    bound = signature.bind(*args, **options)
    for i, (name, value) in enumerate(bound.arguments.items()):
        theirs = signature.parameters[name]
        if theirs.kind is inspect.Parameter.VAR_POSITIONAL:
            result += value
        elif theirs.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif i == len(result) < leading:
            result.append(value)
        elif name in taken or free or _RENAMED.get(name) in taken:
            named[name if name in taken else _RENAMED.get(name, name)] = value
        elif not _is_default(value, theirs.default) and not _is_idle(function.__name__, name, value):
            raise _refuse(function.__name__, f"the argument {name} is not supported")
    return result, named


def _arrays(tree: Any) -> list[Array]:
    """The cukern arrays among arguments."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        return [x for one in tree for x in _arrays(one)]
    return [tree] if isinstance(tree, Array) else []


def _at_home(tree: Any, device: Device) -> Any:
    """The arguments with NumPy arrays moved to ``device``."""
    if isinstance(tree, dict):
        return {name: _at_home(one, device) for name, one in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_at_home(one, device) for one in tree)
    return asarray(tree, device=device) if isinstance(tree, np.ndarray) and tree.dtype != object else tree


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    """numpy.broadcast_arrays; NumPy broadcasts values that no dtype of cukern holds, such as None."""
    ours = _namespace("numpy")
    first = next(x for x in arrays if isinstance(x, Array))
    shape = np.broadcast_shapes(*(x.shape if isinstance(x, Array) else np.shape(x) for x in arrays))
    result: list[Any] = []
    for x in arrays:
        foreign = x if isinstance(x, Array) else np.asarray(x)
        if foreign.dtype.kind in "OUS":
            result.append(np.broadcast_to(foreign, shape))
        else:
            result.append(ours.broadcast_to(x if x is foreign else asarray(x, device=first.device), shape))
    return tuple(result)


def _shares_memory(x: Any, y: Any, max_work: object = None) -> bool:
    return bool(_namespace("numpy").shares_memory(x, y))


def _may_share_memory(x: Any, y: Any, max_work: object = None) -> bool:
    return bool(_namespace("numpy").may_share_memory(x, y))


def _at_least(name: str, *arrays: Any) -> Any:
    """numpy.atleast_1d and similar functions: arrays that no tape tracks become NumPy arrays.

    SciPy's optimizers convert gradients this way.
    """
    if tape.recording(_arrays(arrays)):
        return getattr(_namespace("numpy"), name)(*arrays)
    return getattr(np, name)(*(np.asarray(x) if isinstance(x, Array) else x for x in arrays))


def _asanyarray(a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:
    """numpy.asanyarray: there is one class of arrays."""
    return _namespace("numpy").asarray(a, dtype=dtype, **options)


def _einsum(*operands: Any, dtype: Any = None, out: Any = None, **options: Any) -> Any:
    """numpy.einsum, whose ``dtype`` is that of the factors and the result."""
    if dtype is not None:
        operands = tuple(x.astype(dtype, copy=False) if isinstance(x, Array) else x for x in operands)
    given = {name: value for name, value in options.items() if name not in ("casting", "order")}
    return _finish("einsum", _namespace("numpy").einsum(*operands, **given), out, None)


#: NumPy functions whose arguments are not first moved to the cukern array's device.
_ANSWERS: dict[str, Callable[..., Any]] = {
    "asanyarray": _asanyarray,
    "einsum": _einsum,
    "broadcast_arrays": _broadcast_arrays,
    **{name: partial(_at_least, name) for name in ("atleast_1d", "atleast_2d", "atleast_3d")},
    "may_share_memory": _may_share_memory,
    "shares_memory": _shares_memory,
}


def array_function(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Run a NumPy function on arguments that include a cukern array.

    Raises:
        TypeError: cukern lacks the function or an argument.
    """
    name = function.__name__
    if name in _ANSWERS and function is getattr(np, name):
        return _ANSWERS[name](*args, **options)
    namespace = _namespace(getattr(function, "__module__", None) or "numpy")
    ours: Any = getattr(namespace, name, None) if namespace is not None else None
    if ours is None:
        raise _refuse(name, "cukern has no such function")
    given = dict(options)
    out = given.pop("out", None)
    # numpy.asarray(values, like=x) has no cukern array among its arguments, as NumPy keeps ``like`` to itself.
    device = device_of(_arrays((args, given))) or current()
    result, named = _translated(function, ours, _at_home(args, device), _at_home(given, device))
    return _finish(name, ours(*result, **named), out, None)


FUNCTIONS.update(array_ufunc=array_ufunc, array_function=array_function)
