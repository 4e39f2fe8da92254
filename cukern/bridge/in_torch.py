"""Operations as operators of PyTorch, with fake functions and derivatives, for eager mode and ``torch.compile``.

An operator and its derivatives are three operators of PyTorch's library: ``name``, ``name_backward`` and
``name_backward_backward``. Tensors are shared, not copied; on a GPU all runs on PyTorch's current stream.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..cache import Cache
from ..device import HERE, Device
from ..errors import GradientError
from . import memory
from .operation import Like, Operation, library

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_registering = threading.Lock()


@cache
def _torch() -> Any:
    return library("torch", "to_torch")


class TorchOperator:
    """An operator of PyTorch, called like a function of tensors.

    Attributes:
        name: its name in ``torch.ops``, as ``"namespace::name"``.
        op: the operator of ``torch.ops``. Beyond the outputs it returns the arrays that its derivative needs.
    """

    name: str
    op: Any

    def __init__(self, name: str, operation: Operation, made_by: Any, key: Key) -> None:
        self.name, self._made_by, self._key = name, made_by, key
        self._operation, self._libraries = operation, list[Any]()
        self._outputs, self._several = operation.outputs, operation.several
        self._plain = not operation.more
        self.op = _register(name, operation, self._libraries)

    def __call__(self, *args: Any) -> Any:
        """The outputs, as tensors."""
        if self._plain:
            return self.op(*args)
        made = self.op(*args)
        return made[: self._outputs] if self._several else made[0]

    def __repr__(self) -> str:
        return f"<operator {self.op._schema}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, self._made_by

    def __copy__(self) -> TorchOperator:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchOperator:
        return self


def _remade(maker: Callable[..., TorchOperator], *args: Any) -> TorchOperator:
    return maker(*args)


class Key(NamedTuple):
    """Of what an operator is made.

    Attributes:
        name: of the Function or kernel.
        thing: the Function or kernel; another one of the same name is a redefinition.
        options: how the operator is made of it.
    """

    name: str
    thing: Any
    options: tuple[Any, ...]


def code(function: Any) -> Any:
    """What is equal for functions of the same text and variables; other values are themselves."""
    found = getattr(function, "__code__", None)
    if found is None:
        return function
    cells = tuple([id(cell.cell_contents) for cell in function.__closure__ or ()])
    return found, cells, repr(function.__defaults__)


_operators: dict[str, TorchOperator] = {}


def operator(name: str, key: Key, made_by: Any, operation: Callable[[], Operation]) -> TorchOperator:
    """The operator of a name, made by ``operation`` unless it was made before of the same ``key``.

    Args:
        name: ``"namespace::name"``.
        key: of what it is made; a redefinition takes the name over.
        made_by: a function and its arguments that make it again, in another process.
        operation: makes what the operator does.

    Raises:
        ImportError: PyTorch is not installed.
        ValueError: the name has another form, or belongs to another operator.
    """
    _torch()
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: expected 'namespace::name', got {name!r}")
    with _registering:
        known = _operators.get(name)
        if known is not None and known._key == key:
            return known
        if known is not None and (known._key.name != key.name or known._key.thing == key.thing):
            raise ValueError(
                f"name: {name} is an operator of {known._key.name}, made in another way; give that of {key.name} "
                "another name: to_torch(name=...)"
            )
        if known is None and _taken(name):
            raise ValueError(
                f"name: PyTorch has an operator {name} already; give another name: to_torch(name=...)"
            )
        made = operation()
        if known is not None:
            for one in known._libraries:
                one._destroy()
        _operators[name] = made_operator = TorchOperator(name, made, made_by, key)
        return made_operator


def _taken(name: str) -> bool:
    torch = _torch()

    namespace, _, word = name.partition("::")
    return hasattr(getattr(torch.ops, namespace), word)


def _register(name: str, operation: Operation, libraries: list[Any]) -> Any:
    """Define the operators of an operation in PyTorch's library; return the first."""
    torch = _torch()

    namespace, _, word = name.partition("::")
    lib = torch.library.Library(namespace, "FRAGMENT")
    libraries.append(lib)
    tags = tuple(
        getattr(torch.Tag, tag)
        for tag in ("pt2_compliant_tag", "cudagraph_unsafe")
        if hasattr(torch.Tag, tag)
    )
    count, floating, arrays = len(operation.parameters), operation.floating, operation.arrays
    results = operation.outputs + operation.more
    dtype_of, tensor_of = _dtypes(), _tensors()
    shapes: Cache[Any, list[Like]] = Cache()

    def define(
        suffix: str, parameters: str, returns: int, run: Callable[..., Any], fake: Callable[..., Any]
    ) -> Any:
        what = "Tensor" if returns == 1 else f"({', '.join(['Tensor'] * returns)})"
        lib.define(f"{word}{suffix}({parameters}) -> {what}", tags=tags)
        lib.impl(f"{word}{suffix}", run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{name}{suffix}", fake, lib=lib)
        return getattr(getattr(torch.ops, namespace), word + suffix).default

    def empties(likes: Sequence[Like], beside: Any) -> Any:
        made = tuple(
            [torch.empty(like.shape, dtype=tensor_of[like.dtype], device=beside.device) for like in likes]
        )
        return made[0] if len(made) == 1 else made

    def likes(args: Sequence[Any]) -> list[Like]:
        given = list(args)
        for i in arrays:
            given[i] = Like(tuple(args[i].shape), dtype_of[args[i].dtype])
        return operation.results(given, _device(args[arrays[0]].device))

    def given_of(args: Sequence[Any]) -> list[Any]:
        given, where = list(args), args[arrays[0]].device
        for i in arrays:
            if i != arrays[0] and args[i].device != where:
                names = [operation.parameters[k].name for k in (i, arrays[0])]
                raise ValueError(
                    f"{operation.name}: argument {names[0]} is on {args[i].device}, {names[1]} on {where}"
                )
            try:
                given[i] = _array(args[i], where)
            except KeyError:
                what = f"{operation.name}: argument {operation.parameters[i].name}"
                raise TypeError(f"{what}: cukern has no dtype {args[i].dtype}") from None
        return given

    defaults = [one.default for one in operation.parameters]

    def forward(*args: Any) -> Any:
        if len(args) < count:  # the dispatcher leaves out what equals a default
            args = (*args, *defaults[len(args) :])
        first = args[arrays[0]]
        with _stream(first.device):
            given = given_of(args)
            if operation.into is not None:
                key = tuple(
                    [(args[i].shape, args[i].dtype) if i in arrays else args[i] for i in range(count)]
                )
                known = shapes.get(key)
                if known is None:
                    known = shapes.keep(key, likes(args))
                made = empties(known, first)
                operation.into(
                    given, [_array(one, first.device) for one in (made if results > 1 else (made,))]
                )
                return made
            made = tuple([_tensor(one) for one in operation.run(given)])
        return made[0] if results == 1 else made

    def fake_forward(*args: Any) -> Any:
        args = (*args, *defaults[len(args) :])
        return empties(likes(args), args[arrays[0]])

    schema = [
        f"{one.type} {one.name}" + ("" if one.default is None else f"={_written(one.default)}")
        for one in operation.parameters
    ]
    op = define("", ", ".join(schema), results, forward, fake_forward)
    if not operation.differentiable:
        torch.library.register_autograd(name, partial(_refused, operation.name), lib=lib)
    if not operation.differentiable or not floating:
        return op

    bare = [f"{one.type} {one.name}" for one in operation.parameters]
    grads = [f"Tensor? cotangent{i}" for i in range(operation.outputs)]
    kept = [f"Tensor result{i}" for i in range(results)]
    outputs = operation.outputs

    def optional(tensors: Sequence[Any]) -> list[Array | None]:
        return [None if one is None else _array(one, one.device) for one in tensors]

    def given_back(made: Sequence[Array | None], beside: Any) -> Any:
        none = torch.empty(0, device=beside.device)
        tensors = tuple([torch.empty_like(none) if one is None else _tensor(one) for one in made])
        return tensors[0] if len(tensors) == 1 else tensors

    def backward(*given: Any) -> Any:
        cotangents, args = given[:outputs], given[outputs : outputs + count]
        with _stream(args[arrays[0]].device):
            made = operation.pull(
                given_of(args),
                [_array(one, one.device) for one in given[outputs + count : -1]],
                optional(cotangents),
                given[-1],
            )
            return given_back(made, args[arrays[0]])

    def fake_backward(*given: Any) -> Any:
        args = given[outputs : outputs + count]
        made = tuple(
            [
                torch.empty(args[i].shape if need else 0, dtype=args[i].dtype, device=args[i].device)
                if need
                else torch.empty(0, device=args[arrays[0]].device)
                for i, need in zip(floating, given[-1], strict=True)
            ]
        )
        return made[0] if len(made) == 1 else made

    pull = define(
        "_backward", ", ".join([*grads, *bare, *kept, "bool[] needs"]), len(floating), backward, fake_backward
    )

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        several = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*[inputs[i] for i in arrays], *several)
        ctx.plain = [None if i in arrays else one for i, one in enumerate(inputs)]
        ctx.set_materialize_grads(False)
        dead = [several[i] for i, live in enumerate(operation.live) if not live]
        ctx.mark_non_differentiable(*dead, *several[outputs:])

    def arguments(ctx: Any, tensors: Sequence[Any]) -> list[Any]:
        args = list(ctx.plain)
        for i, one in zip(arrays, tensors, strict=False):
            args[i] = one
        return args

    def spread(made: Any, wanted: Sequence[bool], places: Sequence[int], length: int) -> list[Any]:
        several = made if isinstance(made, (tuple, list)) else (made,)
        found: list[Any] = [None] * length
        for one, need, place in zip(several, wanted, places, strict=True):
            if need:
                found[place] = one
        return found

    def gradients(ctx: Any, *cotangents: Any) -> Any:
        saved = ctx.saved_tensors
        needs = [ctx.needs_input_grad[i] for i in floating]
        if all(one is None for one in cotangents[:outputs]):
            return (None,) * count
        made = pull(*cotangents[:outputs], *arguments(ctx, saved), *saved[len(arrays) :], needs)
        return tuple(spread(made, needs, floating, count))

    torch.library.register_autograd(name, gradients, setup_context=keep, lib=lib)

    seconds = [f"Tensor? second{i}" for i in range(len(floating))]

    def backward_again(*given: Any) -> Any:
        at = [len(floating), outputs, count]
        a, b, c = at[0], at[0] + at[1], sum(at)
        args = given[b:c]
        with _stream(args[arrays[0]].device):
            made = operation.pull_again(given_of(args), optional(given[a:b]), given[-1], optional(given[:a]))
            return given_back(made, args[arrays[0]])

    def fake_backward_again(*given: Any) -> Any:
        a = len(floating)
        cotangents, args = given[a : a + outputs], given[a + outputs : a + outputs + count]
        first = args[arrays[0]]
        made = tuple(
            [
                torch.empty(0, device=first.device)
                if one is None
                else torch.empty(one.shape, dtype=one.dtype, device=one.device)
                for one in [*(args[i] for i in floating), *cotangents]
            ]
        )
        return made[0] if len(made) == 1 else made

    pull_again = define(
        "_backward_backward",
        ", ".join([*seconds, *grads, *bare, "bool[] needs"]),
        len(floating) + outputs,
        backward_again,
        fake_backward_again,
    )

    def keep_again(ctx: Any, inputs: Any, output: Any) -> None:
        args = inputs[outputs : outputs + count]
        present = [one is not None for one in inputs[:outputs]]
        ctx.save_for_backward(
            *[args[i] for i in arrays], *[one for one in inputs[:outputs] if one is not None]
        )
        ctx.plain = [None if i in arrays else one for i, one in enumerate(args)]
        ctx.present, ctx.needs = present, list(inputs[-1])
        ctx.set_materialize_grads(False)

    def gradients_again(ctx: Any, *given: Any) -> Any:
        saved = ctx.saved_tensors
        length = outputs + count + results + 1
        if all(one is None for one in given):
            return (None,) * length
        left = iter(saved[len(arrays) :])
        cotangents = [next(left) if here else None for here in ctx.present]
        made = pull_again(*given, *cotangents, *arguments(ctx, saved), ctx.needs)
        wanted = [ctx.needs_input_grad[outputs + i] for i in floating]
        wanted += [here and ctx.needs_input_grad[i] for i, here in enumerate(ctx.present)]
        return tuple(spread(made, wanted, [*(outputs + i for i in floating), *range(outputs)], length))

    torch.library.register_autograd(f"{name}_backward", gradients_again, setup_context=keep_again, lib=lib)
    return op


def _written(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def _refused(name: str, ctx: Any, *cotangents: Any) -> Any:
    raise GradientError(
        f"{name}: a kernel has no derivative; launch it in the forward of a Function with a backward"
    )


@cache
def _tensors() -> dict[Any, Any]:
    """PyTorch's dtype of each dtype."""
    torch = _torch()

    found = {row.dtype: getattr(torch, row.name, None) for row in dtypes.TABLE}
    return {dtype: theirs for dtype, theirs in found.items() if theirs is not None}


@cache
def _dtypes() -> dict[Any, Any]:
    """The dtype of each of PyTorch's that has one."""
    return {theirs: ours for ours, theirs in _tensors().items()}


@cache
def _host() -> Device:
    return Device("host")


def _device(where: Any) -> Device:
    """The device of a tensor's.

    Raises:
        ValueError: it is neither a CPU nor a GPU of NVIDIA.
    """
    if where.type == "cpu":
        return _host()
    if where.type == "cuda":
        return _gpu(where.index or 0)
    raise ValueError(f"device: expected tensors on cpu or cuda, got one on {where}")


def _stream(where: Any) -> AbstractContextManager[object]:
    """A with-block in which launches are on PyTorch's current stream of a device.

    Raises:
        RuntimeError: a CUDA graph is being recorded there, which would replay with memory that is given back by then.
    """
    if where.type != "cuda":
        return HERE
    torch = _torch()
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("an operator of cukern cannot be a part of a CUDA graph of PyTorch")
    return memory.on_stream(_gpu(where.index), _current_stream()(where.index))


@cache
def _current_stream() -> Callable[[int], int]:
    """The address of PyTorch's current stream on a GPU, as what its compiler generates asks for it."""
    torch = _torch()
    quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda index: torch.cuda.current_stream(index).cuda_stream)


@cache
def _gpu(index: int) -> Device:
    return Device(f"cuda:{index}")


def _array(tensor: Any, where: Any) -> Array:
    """The array that shares the memory of a tensor, which is on the device ``where``.

    Raises:
        KeyError: its dtype has no counterpart.
    """
    dtype = _dtypes()[tensor.dtype]
    if where.type == "cpu":
        if dtype == dtypes.bfloat16:
            return Array._wrap(tensor.detach().view(_bits()).numpy().view(dtype), _host())
        return Array._wrap(tensor.numpy(force=True), _host())
    strides = None
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
        strides = [step * dtype.itemsize for step in tensor.stride()]
    return memory.lent(_gpu(where.index), tensor.data_ptr(), tuple(tensor.shape), dtype, strides, tensor)


@cache
def _bits() -> Any:
    torch = _torch()

    return torch.int16


def _tensor(array: Array) -> Any:
    """The tensor that shares the memory of a new array in C order."""
    torch = _torch()

    data = array._data
    half = data.dtype == dtypes.bfloat16
    if half:
        data = data.view("i2")  # neither NumPy nor CuPy hands it on
    if array.device.addressable:
        made = torch.from_numpy(data)
    else:
        made = torch.utils.dlpack.from_dlpack(data.__dlpack__(stream=-1))
    return made.view(torch.bfloat16) if half else made
