"""Functions of functions: gradients, Jacobians, Hessians and their products, over pytrees of arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import pytree
from .array import Array
from .array.creation import asarray, device_of, eye
from .autodiff import tape
from .autodiff.cotangents import float_leaves, is_array, is_float
from .autodiff.tape import Tape
from .device import Device
from .elementwise.function import astype
from .shape.joins import concat, stack
from .shape.views import reshape

__all__ = [
    "elementwise_grad",
    "grad",
    "hessian",
    "hessian_vector_product",
    "hvp",
    "jacobian",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]

#: Which arguments: a position or a name, or several.
Argnums: TypeAlias = int | str | Sequence[int | str]


def _device_beside(arguments: Iterable[Any]) -> Device | None:
    """Where numbers among the arguments belong: the device of the first floating array."""
    return device_of(one for one in arguments if is_array(one) and is_float(one.dtype))


def _fresh(value: Any, path: str, device: Device | None) -> Array:
    """A new array equal to ``value``; a number or a NumPy array goes to ``device``.

    Tapes that track ``value`` record this step. The function is differentiated with respect to the new array, so
    that other references to ``value``, such as an enclosing derivative's, are constants to it.
    """
    if isinstance(value, (float, np.ndarray)):
        value = asarray(value, device=device)
    if not is_array(value):
        raise TypeError(
            f"{path}: expected an array to differentiate with respect to, got {type(value).__name__}"
        )
    if not is_float(value.dtype):
        raise TypeError(f"{path}: only floating dtypes have gradients, got {value.dtype}")
    if getattr(value, "_is_parameter", False):
        return value  # modules hold their parameters by identity
    result = value._alias()
    tape.record_copy("argument", value, result)
    return result


def _differentiable(tree: Any, path: str, device: Device | None) -> Any:
    if is_array(tree):
        return _fresh(tree, path, device)
    return pytree.replace(
        tree, [_fresh(value, where, device) for where, value in pytree.leaves_with_path(tree, path)]
    )


def _places(f: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: Any) -> list[int | str]:
    """Where the arguments of ``argnums`` are: positions in ``args``, and names in ``kwargs``."""
    positions: list[int | str] = []
    for one in [argnums] if isinstance(argnums, (int, str)) else argnums:
        if isinstance(one, str):
            positions.append(one if one in kwargs else _position(f, one, args))
        elif -len(args) <= one < len(args):
            positions.append(one % len(args))
        else:
            raise ValueError(f"argnums: no argument {one} among {len(args)} positional arguments")
    return positions


def _position(f: Callable[..., Any], name: str, args: Sequence[Any]) -> int:
    """The place in ``args`` of the parameter called ``name``."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        raise ValueError(
            f"argnums: {name!r}: the parameters of {f!r} have no names that can be read; give a position, or "
            "pass the argument by name"
        ) from None
    if name not in parameters or parameters[name].kind in (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise ValueError(f"argnums: no parameter {name!r} among ({', '.join(parameters)})")
    place = list(parameters).index(name)
    if place >= len(args) or parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ValueError(f"argnums: the argument {name!r} was not passed")
    return place


class _Call:
    """A call of a function, and those of its arguments with respect to which it is differentiated."""

    def __init__(
        self, f: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs
        self.places = _places(f, argnums, args, kwargs)
        device = _device_beside((*args, *kwargs.values()))
        #: Those arguments, with a new array for each of their arrays.
        self.wanted = [
            _differentiable(args[place], f"args[{place}]", device)
            if isinstance(place, int)
            else _differentiable(kwargs[place], place, device)
            for place in self.places
        ]

    def __call__(self, *wanted: Any) -> Any:
        """The function's result with ``wanted`` in the place of those arguments."""
        args, kwargs = list(self.args), dict(self.kwargs)
        for place, value in zip(self.places, wanted, strict=True):
            if isinstance(place, int):
                args[place] = value
            else:
                kwargs[place] = value
        return self.f(*args, **kwargs)


def _target(value: Any, name: str) -> Any:
    """The part of a result to differentiate: the array, or nothing if it is constant."""
    if is_array(value):
        return value if is_float(value.dtype) else ()
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return ()
    several = (
        ", several; has_aux=True takes the first alone" if isinstance(value, (tuple, list, dict)) else ""
    )
    raise TypeError(f"{name}: the function must return an array, returned {type(value).__name__}{several}")


def _one_number(value: Any) -> Any:
    """The part of a result that :func:`grad` differentiates."""
    if is_array(value) and value.size != 1:
        raise ValueError(
            f"grad: the function must return one number, returned shape {value.shape}; see elementwise_grad, "
            "vjp and jacobian"
        )
    return _target(value, "grad")


def _each_number(value: Any) -> Any:
    """The part of a result that :func:`elementwise_grad` differentiates."""
    return _target(value, "elementwise_grad")


def _differentiated(
    call: _Call, target: Callable[[Any], Any], has_aux: bool = False
) -> tuple[Any, list[Any]]:
    """The result of a call, and the gradients of the sum of its target."""
    with Tape() as inner:
        inner.watch(call.wanted)
        result = call(*call.wanted)
    return result, inner.gradient(target(result[0] if has_aux else result), call.wanted, unconnected="zero")


def _shaped(gradients: Sequence[Any], argnums: Argnums) -> Any:
    """One gradient, or the tuple of several."""
    return gradients[0] if isinstance(argnums, (int, str)) else tuple(gradients)


def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the value of ``f`` and its gradient.

    Args:
        f: returns an array of one element, or a pair of it and anything else where ``has_aux``. A Python number,
            and an array of bools or integers, is constant: its gradient is zeros.
        argnums: the position or the name of the argument to differentiate with respect to, or several. Each of them
            is an array, a Python float, a module, or a pytree of these.
        has_aux: whether ``f`` returns a pair.

    Returns:
        A function with the arguments of ``f`` that returns ``(what f returned, gradient)``. The gradient is
        a pytree like the argument, or a tuple of such when ``argnums`` is a sequence; where ``f`` does
        not depend on an array it is zeros.

    Raises:
        TypeError: an argument of ``argnums`` is not a floating array, or the result is not an array.
        ValueError: the result does not have one element, or there is no such argument.

    >>> import cukern as ck
    >>> value, gradient = value_and_grad(lambda p: (p["w"] * p["w"]).sum())({"w": ck.asarray([1.0, 2.0])})
    >>> value.item(), gradient["w"].tolist()
    (5.0, [2.0, 4.0])
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        call = _Call(f, argnums, args, kwargs)
        result, gradients = _differentiated(call, _one_number, has_aux)
        return result, _shaped(gradients, argnums)

    return differentiated


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``; arguments and errors as :func:`value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``. Derivatives of higher order: ``grad(grad(f))``.

    >>> import cukern as ck
    >>> third = grad(grad(grad(lambda x: x * x * x * x)))
    >>> third(ck.asarray(2.0)).item()
    48.0
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        result, gradients = _differentiated(_Call(f, argnums, args, kwargs), _one_number, has_aux)
        gradient = _shaped(gradients, argnums)
        return (gradient, result[1]) if has_aux else gradient

    return differentiated


def elementwise_grad(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the gradient of the sum of the value of ``f``, an array of any shape.

    If each element of the result depends only on the element of the argument at the same index, this is the
    derivative of each element. Arguments and errors as :func:`value_and_grad`.

    >>> import cukern as ck
    >>> elementwise_grad(elementwise_grad(lambda x: x**3))(ck.asarray([1.0, 2.0])).tolist()
    [6.0, 12.0]
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        return _shaped(_differentiated(_Call(f, argnums, args, kwargs), _each_number)[1], argnums)

    return differentiated


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of ``f`` at ``primals``, and the function that pulls a cotangent back to them.

    Args:
        f: returns an array or a pytree of arrays.
        primals: arrays or pytrees of them.

    Returns:
        ``(f(*primals), pullback)``. ``pullback(cotangent)`` takes a pytree like the value and returns a tuple
        with a gradient like each of ``primals``, zeros where there is no dependence. It may be called
        again, and inside a tape.

    >>> import cukern as ck
    >>> y, pullback = vjp(lambda a, b: a * b, ck.asarray([1.0, 2.0]), ck.asarray([3.0, 4.0]))
    >>> [gradient.tolist() for gradient in pullback(ck.asarray([1.0, 10.0]))]
    [[3.0, 40.0], [1.0, 20.0]]
    """
    own = _primals(primals)
    value, inner = _recorded(f, own)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return tuple(inner.gradient(value, own, cotangent, unconnected="zero"))

    return value, pullback


def _primals(primals: Sequence[Any]) -> list[Any]:
    """The primals, with a new array for each of their arrays."""
    device = _device_beside(primals)
    return [_differentiable(primal, f"primals[{i}]", device) for i, primal in enumerate(primals)]


def _recorded(f: Callable[..., Any], own: Sequence[Any]) -> tuple[Any, Tape]:
    """The value of ``f``, and a persistent tape for its gradients."""
    with Tape(persistent=True) as inner:
        inner.watch(own)
        value = f(*own)
    return value, inner


def _tangents(own: Sequence[Any], tangents: Any, name: str) -> list[Any]:
    """The arrays of ``tangents``, cast to the dtypes of those of ``own``.

    Raises:
        ValueError: they have other containers or shapes.
    """
    given = pytree.aligned(tuple(own), tuple(tangents), f"{name}: tangents")
    paths = pytree.leaves_with_path(tuple(own), f"{name}: tangents")
    result = []
    for (path, like), value in zip(paths, given, strict=True):
        tangent = asarray(value, device=None if is_array(value) else like.device)
        if tangent.shape != like.shape or tangent.device != like.device:
            raise ValueError(
                f"{path}: expected shape {like.shape} on {like.device}, as the primal, got {tangent.shape} on "
                f"{tangent.device}"
            )
        result.append(astype(tangent, like.dtype, copy=False))
    return result


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of ``f`` at ``primals``, and its derivative along ``tangents``: the Jacobian times a vector.

    The derivative is computed beside the value, in one pass, and nothing is kept for a backward pass.

    Args:
        f: returns a floating array, or a pytree of them.
        primals: its arguments, arrays or pytrees of them.
        tangents: for each of them a pytree of the same shapes.

    Returns:
        ``(f(*primals), tangent)``; the tangent is a pytree like the value.

    Raises:
        TypeError: an argument or a result is not a floating array.
        ValueError: the tangents differ from the primals in structure or shape.

    >>> import cukern as ck
    >>> y, tangent = jvp(lambda a, b: a * b, [ck.asarray([1.0, 2.0]), ck.asarray([3.0, 4.0])],
    ...                  [ck.asarray([1.0, 0.0]), ck.asarray([0.0, 1.0])])
    >>> tangent.tolist()
    [3.0, 2.0]
    """
    from .autodiff.forward import Forward  # many programs have no forward mode

    own = _primals(primals)
    directions = _tangents(own, tangents, "jvp")
    with Forward(pytree.leaves(own), directions) as forward:
        value = f(*own)
    leaves = float_leaves(value, "jvp: result")
    return value, pytree.replace(value, forward.tangents_of(leaves))


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``f`` at ``primals``, and its derivative there: the linear function of tangents.

    ``f`` is called once, whatever number of tangents follows. What the derivative reads is kept.

    Args:
        f: returns a floating array, or a pytree of them.
        primals: its arguments, arrays or pytrees of them.

    Returns:
        ``(f(*primals), f_jvp)``. ``f_jvp(*tangents)`` takes for each of the primals a pytree of the same shapes, and
        returns a pytree like the value. It may be called again, and inside a tape.

    Raises:
        TypeError: an argument or a result is not a floating array.
        ValueError: of ``f_jvp``: the tangents differ from the primals in structure or shape.

    >>> import cukern as ck
    >>> y, f_jvp = linearize(lambda a: a * a, ck.asarray([1.0, 2.0]))
    >>> f_jvp(ck.asarray([1.0, 0.0])).tolist(), f_jvp(ck.asarray([1.0, 1.0])).tolist()
    ([2.0, 0.0], [2.0, 4.0])
    """
    from .autodiff.forward import Linear

    own = _primals(primals)
    value, inner = _recorded(f, own)
    leaves = float_leaves(value, "linearize: result")
    derivative = Linear(inner, pytree.leaves(own), leaves)

    def f_jvp(*tangents: Any) -> Any:
        return pytree.replace(value, derivative(_tangents(own, tangents, "linearize")))

    return value, f_jvp


def hvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, tuple[Any, ...]]:
    """The value of ``f`` at ``primals``, and its Hessian times ``tangents``: the derivative of its gradient along them.

    It costs two gradients for any size: the Hessian is never formed.

    Args:
        f: returns one number, as in :func:`grad`.
        primals: its arguments, arrays or pytrees of them.
        tangents: for each of them a pytree of the same shapes.

    Returns:
        ``(f(*primals), product)``; the product is a tuple with a pytree like each of ``primals``.

    Raises:
        TypeError, ValueError: as :func:`grad` and :func:`jvp`.

    >>> import cukern as ck
    >>> value, (product,) = hvp(lambda x: (x**3).sum(), [ck.asarray([1.0, 2.0])], [ck.asarray([1.0, 10.0])])
    >>> product.tolist()
    [6.0, 120.0]
    """
    own = _primals(primals)
    return _along_gradient(f, own, _tangents(own, tangents, "hvp"))


def _along_gradient(
    f: Callable[..., Any], own: Sequence[Any], directions: Sequence[Array]
) -> tuple[Any, tuple[Any, ...]]:
    """:func:`hvp` of new arrays: the gradient's derivative, forward over reverse."""
    from .autodiff.forward import Forward

    with Forward(pytree.leaves(own), directions) as forward:
        value, gradients = value_and_grad(f, range(len(own)))(*own)
    found = forward.tangents_of(pytree.leaves(gradients))
    return value, pytree.replace(gradients, found)


def hessian_vector_product(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function of the arguments of ``f`` and, after them, of a vector, that returns the Hessian times the vector.

    Args:
        f: as in :func:`grad`.
        argnums: as in :func:`grad`; the vector has the structure of the argument, or is a tuple for several.

    >>> import cukern as ck
    >>> product = hessian_vector_product(lambda x, k: k * (x**3).sum())
    >>> product(ck.asarray([1.0, 2.0]), 2.0, ck.asarray([1.0, 10.0])).tolist()
    [12.0, 240.0]
    """

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError("hessian_vector_product: expected the arguments of the function and a vector")
        call = _Call(f, argnums, args[:-1], kwargs)
        tangents = [args[-1]] if isinstance(argnums, (int, str)) else args[-1]
        directions = _tangents(call.wanted, tangents, "hessian_vector_product")
        return _shaped(_along_gradient(call, call.wanted, directions)[1], argnums)

    return differentiated


def jacobian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, by a backward pass for the elements of the result together.

    The pass is a :func:`vmap` of the pullback, of at most 256 elements.

    Args:
        f: returns a floating array, or a pytree of them.
        argnums: as in :func:`value_and_grad`.

    Returns:
        A function with the arguments of ``f``. For an argument of shape ``s`` and a result of shape ``r`` it
        returns an array of shape ``r + s``; pytrees and several arguments as in :func:`value_and_grad`. If ``f``
        returns a pytree, so does this, with such a Jacobian in the place of each array.

    >>> import cukern as ck
    >>> jacobian(lambda x: x * x)(ck.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    >>> jacobian(lambda x: {"square": x * x, "sum": x.sum()})(ck.asarray([1.0, 2.0]))["sum"].tolist()
    [1.0, 1.0]
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        call = _Call(f, argnums, args, kwargs)
        value, inner = _recorded(call, call.wanted)
        leaves = float_leaves(value, "jacobian: result")
        result = [_shaped(_rows(leaf, call.wanted, inner), argnums) for leaf in leaves]
        return pytree.replace(value, result)

    return differentiated


def _rows(value: Array, wanted: Sequence[Any], inner: Tape) -> Sequence[Any]:
    """The Jacobian of one array."""
    size, shape = value.size, value.shape

    def pull(row: Array) -> Any:
        return inner.gradient(value, wanted, row, unconnected="zero")

    if size < _FEWEST:  # where the result has no element, one row of zeros keeps the shapes
        ones = np.eye(max(1, size), size).reshape(max(1, size), *shape)
        rows = [pull(asarray(one, dtype=value.dtype, device=value.device)) for one in ones]
        parts = [pytree.map(lambda *each: stack(each)[:size], *rows)]
    else:
        from .batching import vmap  # few programs need it

        basis = reshape(eye(size, dtype=value.dtype, device=value.device), (size, *shape))
        parts = [vmap(pull)(basis[start : start + _MOST]) for start in range(0, size, _MOST)]
    return [
        pytree.map(lambda *each: reshape(concat(each), shape + each[0].shape[1:]), *column)
        for column in zip(*parts, strict=True)
    ]


#: Elements of a result from which a Jacobian's rows are computed together, and the most of one pass, whose cotangents
#: take as many times the memory of one.
_FEWEST, _MOST = 3, 256


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``f``, the :func:`jacobian` of its Jacobian.

    Args:
        f: returns a floating array, or a pytree of them.
        argnums: as in :func:`value_and_grad`.

    Returns:
        A function with the arguments of ``f``. For an argument of shape ``s`` and a result of shape ``r`` it returns an
        array of shape ``r + s + s``; of a pytree, or of several arguments, such a pytree of such pytrees.

    >>> import cukern as ck
    >>> hessian(lambda x: (x**3).sum())(ck.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    >>> made = hessian(lambda p: p["a"] * p["b"])({"a": ck.asarray(2.0), "b": ck.asarray(3.0)})
    >>> made["a"]["b"].item()
    1.0
    """
    return jacobian(jacobian(f, argnums), argnums)
