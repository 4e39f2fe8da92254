"""Operations as operators of PyTorch, with fake functions and derivatives, for eager mode and ``torch.compile``.

An operator and its derivatives are three operators of PyTorch's library: ``name``, ``name_backward`` and
``name_backward_backward``. Tensors are shared, not copied; on a GPU all runs on PyTorch's current stream.
"""

from __future__ import annotations

import keyword
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import contains, or_
from typing import Any, NamedTuple

from ..array import Array
from ..cache import Cache
from ..device import Device
from ..errors import GradientError
from . import tensors
from .operation import PLAIN, Again, Like, Operation

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_registering = threading.RLock()  # a forward that runs with examples may make operators itself


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
        self._outputs, self._several = operation.outputs, operation.several
        self._single = operation.outputs + operation.more == 1
        self._plain = not operation.more and operation.several != self._single
        self._defaults = [one.default for one in operation.parameters]
        self._count = len(self._defaults)
        self._operators = _Operators(name, operation)
        self.op = self._operators.op

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs, as tensors."""
        if not named and len(args) < self._count:
            args = (*args, *(one for one in self._defaults[len(args) :] if one is not None))
        operators = self._operators
        made = operators.compute(*args) if operators.is_direct(args, named) else self.op(*args, **named)
        if self._plain:
            return made
        if self._single:
            return (made,)
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
    tensors.library_of_torch()
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
            known._operators.library._destroy()
            known.op = known._operators.compute = partial(_replaced, name)
        _operators[name] = made_operator = TorchOperator(name, made, made_by, key)
        return made_operator


def _taken(name: str) -> bool:
    torch = tensors.library_of_torch()

    namespace, _, word = name.partition("::")
    return hasattr(getattr(torch.ops, namespace), word)


class _Operators:
    """The operators of an operation and of its derivatives in PyTorch's library.

    Those of derivatives take, in this order, cotangents, the arguments, results or nothing, and whether each floating
    argument's gradient is needed. They return an empty tensor where there is no gradient.
    """

    def __init__(self, name: str, operation: Operation) -> None:
        self.torch = torch = tensors.library_of_torch()
        self.name, self.operation = name, operation
        self.namespace, _, self.word = name.partition("::")
        self.library = torch.library.Library(self.namespace, "FRAGMENT")
        self.arguments, self.outputs = len(operation.parameters), operation.outputs
        self.results = operation.outputs + operation.more
        self.arrays, self.floating = operation.arrays, operation.floating
        self.plain = [i for i in range(self.arguments) if i not in self.arrays]
        self.read = [i for i in self.arrays if operation.reads(True, i)]
        self.results_read = [i for i in range(self.results) if operation.reads(False, i)]
        shaped = operation.outputs if operation.materialize and operation.outputs > 1 else 0
        #: The results that the backward is given: what it reads, and those whose cotangents may be zeros.
        self.kept = [i for i in range(self.results) if i in self.results_read or i < shaped]
        self.again = [i for i in range(self.results) if operation.differentiable_again(i)]
        self._are_alone, self._compiling = _lonely(torch), torch.compiler.is_dynamo_compiling
        self._modes = torch._C._len_torch_function_stack
        tensors_of = torch.Tensor, torch.nn.Parameter
        types = {"Tensor": tensors_of, **{word: (plain,) for plain, word in PLAIN.items()}}
        #: Of each argument the types that PyTorch's dispatcher hands on as they are, and such types seen together.
        self._types = [types[one.type] for one in operation.parameters]
        self._handed: Cache[tuple[type, ...], bool] = Cache()
        written = [f"{one.type} {_word(one.name)}" for one in operation.parameters]
        self.defaults = defaults = [one.default for one in operation.parameters]
        ended = [f"={_written(one)}" if _is_writable(one) else "" for one in defaults]
        schema = [first + rest for first, rest in zip(written, ended, strict=True)]
        forward = self._forward(defaults, operation.run)
        #: What :attr:`op` does where no derivative will be asked for.
        self.compute = forward if operation.more else self._forward(defaults, operation.outputs_of)
        self.op = self._define("", schema, self.results, forward, self._fake_forward(defaults))
        if not operation.differentiable:
            self._derive(self.op, forward, partial(_refused, operation.name), None)
        elif self.floating:
            cotangents = [f"Tensor? cotangent{i}" for i in range(self.outputs)]
            kept = [f"Tensor result{i}" for i in self.kept]
            seconds = [f"Tensor? second{i}" for i in range(len(self.floating))]
            first = [*cotangents, *written, *kept, "bool[] needs"]
            second = [*seconds, *first]
            count = len(self.floating)
            self.pull = self._define("_backward", first, count, self._backward, self._fake_backward)
            again = count + self.outputs + len(self.again)
            self.pull_again = self._define(
                "_backward_backward", second, again, self._second, self._fake_second
            )
            self._derive(self.op, forward, self._gradients, self._keep)
            self._derive(self.pull, self._backward, self._gradients_again, self._keep_again)

    def is_direct(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether PyTorch's dispatcher would do nothing with a call but hand these arguments to :attr:`compute`."""
        types = tuple(map(type, args))
        handed = self._handed.get(types)
        if handed is None:
            fits = len(types) == self.arguments and all(map(contains, self._types, types))
            handed = self._handed.keep(types, fits)
        if named or not handed or self._compiling() or self._modes():
            return False
        return self._are_alone([args[i] for i in self.arrays])

    def _define(
        self,
        suffix: str,
        parameters: Sequence[str],
        returns: int,
        run: Callable[..., Any],
        fake: Callable[..., Any],
    ) -> Any:
        tensors = "Tensor" if returns == 1 else f"({', '.join(['Tensor'] * returns)})"
        tags = [getattr(self.torch.Tag, tag, None) for tag in ("pt2_compliant_tag", "cudagraph_unsafe")]
        self.library.define(
            f"{self.word}{suffix}({', '.join(parameters)}) -> {tensors}",
            tags=tuple(one for one in tags if one is not None),
        )
        self.library.impl(self.word + suffix, run, "CompositeExplicitAutograd")
        self.torch.library.register_fake(self.name + suffix, fake, lib=self.library)
        return getattr(getattr(self.torch.ops, self.namespace), self.word + suffix).default

    def _derive(
        self, op: Any, run: Callable[..., Any], backward: Callable[..., Any], keep: Callable[..., Any] | None
    ) -> None:
        """Register a derivative, as ``torch.library.register_autograd`` does at a greater cost of each call.

        Args:
            op: the operator.
            run: what it computes, which is called without PyTorch's dispatcher where nothing else would happen in it.
            backward: takes a context and cotangents, and returns the gradients of the operator's arguments.
            keep: takes a context, the operator's arguments and its results; None where there is nothing to keep.
        """
        torch = self.torch
        core = torch._C
        after, below = core._after_autograd_keyset, core._AutoDispatchBelowAutograd
        tracked, enabled = core._any_requires_grad, torch.is_grad_enabled
        transformed, alone = core._are_functorch_transforms_active, _keys(core, "{}", "Autograd{}")

        def called(keys: Any, args: Sequence[Any]) -> Any:
            with below():
                return op.redispatch(keys & after, *args)

        def forward(ctx: Any, keys: Any, *args: Any) -> Any:
            ctx.alone = keys is None
            made = run(*args) if keys is None else called(keys, args)
            if keep is not None:
                keep(ctx, args, made)
            return made

        methods = {
            "forward": staticmethod(forward),
            "backward": staticmethod(lambda ctx, *given: (None, *backward(ctx, *given))),
        }
        node: Any = type(op._opname, (torch.autograd.Function,), methods)
        base: Any = super(torch.autograd.Function, node)  # without what it does for transforms of functorch
        record, record_alone = node.apply, base.apply

        def dispatched(keys: Any, *args: Any) -> Any:
            by_itself = keys.raw_repr() in alone and not transformed()
            if enabled() and tracked(*args):
                return record_alone(None, *args) if by_itself else record(keys, *args)
            return run(*args) if by_itself else called(keys, args)

        self.library.impl(op._opname, dispatched, "Autograd", with_keyset=True)

    def _forward(
        self, defaults: Sequence[Any], results_of: Callable[[Sequence[Any]], list[Array]]
    ) -> Callable[..., Any]:
        operation, arrays, count, results = self.operation, self.arrays, self.arguments, self.results
        known: Cache[Any, tuple[list[Any], Again | None]] = Cache()

        def run(where: Any, args: Sequence[Any]) -> Any:
            made = results_of(self._given(args, where))
            if results == 1:
                return tensors.tensor_of(made[0])
            return tuple([tensors.tensor_of(one) for one in made])

        def launch(where: Any, args: Sequence[Any]) -> Any:
            assert operation.into is not None
            key = where, *[(one.dtype, one.shape) if i in arrays else one for i, one in enumerate(args)]
            before = known.get(key)
            if before is not None:
                made = self._again(*before, args, where)
                if made is not None:
                    return made
            given, own = self._given(args, where), tensors.device_of(where)
            out = self._empty(self._forms(args) if before is None else before[0], where)
            arrays_out = [tensors.array_of(one, own) for one in out]
            operation.into(given, arrays_out)
            if before is None:
                known.keep(key, (self._forms(args), operation.again(given, arrays_out)))
            return _packed(out)

        compute = run if operation.into is None else launch

        def forward(*args: Any) -> Any:
            if len(args) < count:  # the dispatcher leaves out what equals a default
                args = (*args, *defaults[len(args) :])
            where = self._beside(args)
            return tensors.caller(where)(compute, where, args)

        return forward

    def _fake_forward(self, defaults: Sequence[Any]) -> Callable[..., Any]:
        def fake(*args: Any) -> Any:
            args = (*args, *defaults[len(args) :])
            self._beside(args)
            where = args[self.arrays[0]].device
            return _packed(self._empty(self._forms(args), where))

        return fake

    def _forms(self, args: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Shapes and PyTorch's dtypes of the results."""
        given = list(args)
        for i in self.arrays:
            given[i] = Like(tuple(args[i].shape), tensors.own_dtypes()[args[i].dtype])
        where = args[self.arrays[0]].device
        found = self.operation.results(
            given, Device("host") if where.type == "meta" else tensors.device_of(where)
        )
        return [(one.shape, tensors.types()[one.dtype]) for one in found]

    def _again(self, forms: Sequence[Any], again: Again | None, args: Sequence[Any], where: Any) -> Any:
        """The results of a kernel that is launched as before; None where it has to be launched by its arguments."""
        if again is None:
            return None
        given, own = list(args), tensors.device_of(where)
        for i in self.arrays:
            given[i] = tensors.operand_of(args[i], own)
            if given[i] is None:
                return None
        out = self._empty(forms, where)
        made = [tensors.operand_of(one, own) for one in out]
        values, results = given, made
        if own.addressable:
            values, results = list(given), [id(one) for one in made]
            for i in self.arrays:
                values[i] = id(given[i])
        return _packed(out) if again(values, results) else None

    def _empty(self, forms: Sequence[Any], where: Any) -> list[Any]:
        empty = self.torch.empty
        return [empty(shape, dtype=dtype, device=where) for shape, dtype in forms]

    def _given(self, args: Sequence[Any], where: Any) -> list[Any]:
        """The arguments as arrays, on PyTorch's device ``where``.

        Raises:
            TypeError: a dtype has no counterpart.
            ValueError: the device is of another kind.
        """
        given, own = list(args), tensors.device_of(where)
        for i in self.arrays:
            try:
                given[i] = tensors.array_of(args[i], own)
            except KeyError:
                raise TypeError(f"{self._named(i)}: cukern has no dtype {args[i].dtype}") from None
        return given

    def _beside(self, args: Sequence[Any]) -> Any:
        """The device of all tensors among the arguments.

        Raises:
            TypeError: None is among them.
            ValueError: they are on several devices.
        """
        first = args[self.arrays[0]]
        where = None if first is None else first.device
        for i in self.arrays:
            one = args[i]
            if one is None:
                raise TypeError(f"{self._named(i)}: expected a tensor, got None")
            if one is not first and one.device != where:
                name = self.operation.parameters[self.arrays[0]].name
                raise ValueError(f"{self._named(i)} is on {one.device}, {name} on {where}")
        return where

    def _named(self, i: int) -> str:
        return f"{self.operation.name}: argument {self.operation.parameters[i].name}"

    def _keep(self, ctx: Any, inputs: Any, output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        args = inputs if len(inputs) == self.arguments else (*inputs, *self.defaults[len(inputs) :])
        kept = [args[i] if i in self.read else _shape_of(args[i]) for i in self.arrays]
        kept += [results[i] if i in self.results_read else _shape_of(results[i]) for i in self.kept]
        ctx.save_for_backward(*kept)
        if self.plain:
            ctx.plain = [args[i] for i in self.plain]
        ctx.set_materialize_grads(False)
        if self.results > self.outputs or False in self.operation.live:
            dead = [one for one, live in zip(results, self.operation.live, strict=False) if not live]
            ctx.mark_non_differentiable(*dead, *results[self.outputs :])

    def _gradients(self, ctx: Any, *cotangents: Any) -> Any:
        given = cotangents[: self.outputs]
        for one in given:
            if one is not None:
                break
        else:
            return (None,) * self.arguments
        needed, saved, count = ctx.needs_input_grad, ctx.saved_tensors, len(self.arrays)
        needs = [needed[1 + i] for i in self.floating]
        if self.plain:
            args = list(saved[:count])
            for i, one in zip(self.plain, ctx.plain, strict=True):
                args.insert(i, one)
            saved = (*args, *saved[count:])
        alone = not self._compiling() and ctx.alone and self._are_alone(given)
        pull = self._backward if alone else self.pull
        return _spread(pull(*given, *saved, needs), needs, self.floating, self.arguments)

    def _backward(self, *given: Any) -> Any:
        where = self._beside_of(given)
        return tensors.caller(where)(self._pulled, where, given)

    def _pulled(self, where: Any, given: Sequence[Any]) -> Any:
        return self._returned(self.operation.pull(*self._divided(given, where)), where)

    def _fake_backward(self, *given: Any) -> Any:
        args = given[self.outputs :]
        needed = zip(self.floating, given[-1], strict=True)
        return self._fakes([args[i] if need else None for i, need in needed], args)

    def _keep_again(self, ctx: Any, inputs: Any, output: Any) -> None:
        ctx.places = [i for i, one in enumerate(inputs) if isinstance(one, self.torch.Tensor)]
        ctx.save_for_backward(*[inputs[i] for i in ctx.places])
        ctx.plain = [None if i in ctx.places else one for i, one in enumerate(inputs)]
        ctx.set_materialize_grads(False)

    def _gradients_again(self, ctx: Any, *seconds: Any) -> Any:
        given = list(ctx.plain)
        for i, one in zip(ctx.places, ctx.saved_tensors, strict=True):
            given[i] = one
        if all(one is None for one in seconds):
            return (None,) * len(given)
        made = self.pull_again(*seconds, *given)
        first = self.outputs + self.arguments
        places = [*(self.outputs + i for i in self.floating), *range(self.outputs)]
        places += [first + self.kept.index(i) for i in self.again]
        wanted = [given[i] is not None and ctx.needs_input_grad[1 + i] for i in places]
        return _spread(made, wanted, places, len(given))

    def _second(self, *given: Any) -> Any:
        count = len(self.floating)
        where = self._beside_of(given[count:])
        return tensors.caller(where)(self._pulled_again, where, given[:count], given[count:])

    def _pulled_again(self, where: Any, seconds: Sequence[Any], given: Sequence[Any]) -> Any:
        taken = self._divided(given, where)
        made = self.operation.pull_again(*taken, self._optional(seconds, tensors.device_of(where)))
        return self._returned(made, where)

    def _fake_second(self, *given: Any) -> Any:
        given = given[len(self.floating) :]
        args, kept = given[self.outputs :], given[self.outputs + self.arguments :]
        results = [kept[self.kept.index(i)] for i in self.again]
        floating = [args[i] if i in self.read else None for i in self.floating]
        return self._fakes([*floating, *given[: self.outputs], *results], args)

    def _beside_of(self, given: Sequence[Any]) -> Any:
        """The device of what a derivative is given."""
        return given[self.outputs + self.arrays[0]].device

    def _divided(self, given: Sequence[Any], where: Any) -> tuple[Any, Any, Any, Any]:
        """Arguments, results, cotangents and needs as :meth:`.Operation.pull` takes them."""
        own, end = tensors.device_of(where), self.outputs + self.arguments
        args = list(given[self.outputs : end])
        for i in self.arrays:
            args[i] = tensors.array_of(args[i], own) if i in self.read else tensors.layout_of(args[i], own)
        results: list[Any] = [None] * self.results
        for i, one in zip(self.kept, given[end:-1], strict=True):
            read = i in self.results_read
            results[i] = tensors.array_of(one, own) if read else tensors.layout_of(one, own)
        return args, results, self._optional(given[: self.outputs], own), given[-1]

    def _optional(self, given: Sequence[Any], own: Device) -> list[Array | None]:
        return [None if one is None else tensors.array_of(one, own) for one in given]

    def _returned(self, made: Sequence[Array | None], where: Any) -> Any:
        return _packed(
            [self.torch.empty(0, device=where) if one is None else tensors.tensor_of(one) for one in made]
        )

    def _fakes(self, like: Sequence[Any], args: Sequence[Any]) -> Any:
        where, empty = args[self.arrays[0]].device, self.torch.empty
        return _packed(
            [
                empty(0, device=where) if one is None else empty(one.shape, dtype=one.dtype, device=where)
                for one in like
            ]
        )


def _keys(core: Any, *words: str) -> frozenset[int]:
    """The sets of dispatch keys of these words for tensors of the CPU, and for those of CUDA."""
    sets = []
    for device in ("CPU", "CUDA"):
        keys = [getattr(core.DispatchKey, word.format(device)) for word in words]
        sets.append(reduce(or_, map(core.DispatchKeySet, keys)).raw_repr())
    return frozenset(sets)


def _lonely(torch: Any) -> Callable[[Sequence[Any]], bool]:
    """Whether PyTorch's dispatcher would do nothing with tensors, and None, but call the kernel of an operator."""
    core = torch._C
    enabled, profiled = torch.is_grad_enabled, core._autograd._profiler_enabled
    included, keys_of = core._dispatch_tls_local_include_set, core._dispatch_keys
    usual = _keys(core, "ADInplaceOrView", "BackendSelect")
    alone = _keys(core, "{}", "Autograd{}", "Autocast{}", "ADInplaceOrView")

    def are_alone(tensors: Sequence[Any]) -> bool:
        if enabled() or profiled() or included().raw_repr() not in usual:
            return False
        return alone.issuperset([keys_of(one).raw_repr() for one in tensors if one is not None])

    return are_alone


def _packed(tensors: Sequence[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _spread(made: Any, wanted: Sequence[bool], places: Sequence[int], length: int) -> tuple[Any, ...]:
    """Gradients at the places of their arguments, among so many; None where none is wanted."""
    several = made if isinstance(made, (tuple, list)) else (made,)
    if len(places) == length and False not in wanted:
        return tuple(several)
    found: list[Any] = [None] * length
    for one, need, place in zip(several, wanted, places, strict=True):
        if need:
            found[place] = one
    return tuple(found)


def _shape_of(tensor: Any) -> Any:
    """A tensor of one element's memory with the dtype and shape of another."""
    return tensor.new_empty(()).expand(tensor.shape)


def _word(name: str) -> str:
    """The name of a parameter in a schema, which takes no words of Python, as ``in``."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _is_writable(default: Any) -> bool:
    """Whether a schema may tell a default. The dispatcher leaves out what equals one, and so the sign of zero."""
    if isinstance(default, float):
        return math.isfinite(default) and default != 0
    return default is not None and not (isinstance(default, str) and set(default) & set('"\\\n'))


def _written(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def _replaced(name: str, *args: Any) -> Any:
    raise RuntimeError(f"{name} was defined again since; call the operator that its last to_torch returned")


def _refused(name: str, ctx: Any, *cotangents: Any) -> Any:
    raise GradientError(
        f"{name}: a kernel has no derivative; launch it in the forward of a Function with a backward"
    )
