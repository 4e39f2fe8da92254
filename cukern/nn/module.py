"""Modules: parts of a model, which can be called, walked, saved and loaded."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from .. import dtypes, pytree
from ..array import Array
from ..array.creation import array, asarray
from ..array.deferred import about_to_write
from ..autodiff import tape
from ..device import Device, capture_hooks
from ..elementwise.operands import on_device
from ..io import read_safetensors, save_safetensors
from ..namespace.hints import MODULE, hinting
from .parameter import Parameter as Parameter
from .structure import STRUCTURE, Tree, flatten, leaves_by_parameter, unflatten


class Module(Tree):
    """A part of a model: its parameters, buffers and submodules are its attributes.

    A subclass assigns them in ``__init__`` and defines ``forward``; it need not register them or call a base
    ``__init__``. Attributes are walked in the order of assignment, including the items of lists, tuples and dicts.
    A :class:`Parameter` is trained; any other ``Array`` attribute is a buffer, saved with the parameters, unless
    its name starts with an underscore. A parameter with two names is one parameter, listed under the first name.

    An attribute that holds a parameter takes another :class:`Parameter` or None, but no other array, which would not
    be trained: ``module.weight[...] = values`` changes the values, ``module.weight = Parameter(values)`` replaces it.

    Values for a module, such as gradients from ``tape.gradient(loss, module)``, are a copy of the module with other
    arrays in place of the parameters. Its ``parameters()`` returns these arrays, in the module's order.

    >>> import cukern as ck
    >>> class Scale(ck.nn.Module):
    ...     def __init__(self, size):
    ...         self.weight = ck.nn.Parameter(ck.ones(size))
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> Scale(2)
    Scale(weight: float32[2])
    >>> Scale(2)(ck.asarray([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """

    #: Whether the module is in training mode; :meth:`train` and :meth:`eval` set it.
    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; calling the module calls this. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    __getattr__ = hinting(MODULE)

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """This module, named ``""``, and every module in it, each once, with dotted names."""
        for name, value in _walk(self):
            if isinstance(value, Module):
                yield name, value

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if isinstance(old, (Parameter, Module, list, tuple, dict)):
            _refuse_untrained(type(self).__name__, name, old, value)
        if name == "training" and value != self.training:
            capture_hooks.replaced += 1  # steps captured before must be captured anew
        object.__setattr__(self, name, value)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter, each once, with its dotted name.

        For gradients of a module: each gradient, or None, with the name of its parameter.
        """
        structure = vars(self).get(STRUCTURE)
        if structure is not None:
            names = [name for name, _ in structure.named_parameters()]
            yield from zip(names, flatten(self)[0], strict=True)
            return
        for name, value in _walk(self):
            if isinstance(value, Parameter):
                yield name, value

    def named_buffers(self) -> Iterator[tuple[str, Array]]:
        """Every array attribute that is not a parameter and whose name does not start with an underscore."""
        structure = vars(self).get(STRUCTURE)
        trained = set() if structure is None else {id(leaf) for leaf in flatten(self)[0]}
        for name, value in _walk(self):
            if isinstance(value, Array) and not isinstance(value, Parameter) and id(value) not in trained:
                yield name, value

    def parameters(self) -> list[Parameter]:
        """The parameters, in the order of :meth:`named_parameters`."""
        return self.leaves()

    def freeze(self) -> Self:
        """Stop training all parameters: no tape watches them, and no optimizer updates them.

        >>> import cukern as ck
        >>> ck.nn.Linear(3, 2, rng=0).freeze()
        Linear(weight: float32[2, 3] frozen, bias: float32[2] frozen)
        """
        return self._set_trainable(False)

    def unfreeze(self) -> Self:
        """Undo :meth:`freeze`: all parameters are trained."""
        return self._set_trainable(True)

    def _set_trainable(self, trainable: bool) -> Self:
        for _, value in _walk(self):
            if isinstance(value, Parameter):
                value.trainable = trainable
        return self

    def leaves(self) -> list[Any]:
        """The parameters, or the gradients if this module holds gradients."""
        return flatten(self)[0]

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` here and in every submodule."""
        for _, module in self.named_modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """The same as ``train(False)``."""
        return self.train(False)

    def to_device(self, device: Device | str) -> Self:
        """Move all parameters and other arrays to ``device``, in place."""
        for _, value in _walk(self, hidden=True):
            if isinstance(value, Array):
                value._replace(value.to_device(device))
        return self

    def astype(self, dtype: Any) -> Self:
        """Cast all parameters and other floating arrays to ``dtype``, in place.

        For mixed precision: a module in bfloat16 computes in bfloat16 without a cast per use, and the optimizer
        keeps float32 copies of the parameters (see :class:`cukern.optim.Optimizer`).

        Raises:
            TypeError: ``dtype`` is not a floating dtype.

        >>> import cukern as ck
        >>> ck.nn.Linear(3, 2, rng=0).astype(ck.bfloat16)
        Linear(weight: bfloat16[2, 3], bias: bfloat16[2])
        """
        wanted = dtypes.floating(dtypes.as_dtype(dtype))
        for _, value in _walk(self, hidden=True):
            if isinstance(value, Array) and dtypes.info(value.dtype).kind == "f" and value.dtype != wanted:
                writes = value._storage.version
                about_to_write(value)
                with tape.stop_recording():
                    value._replace(asarray(value, dtype=wanted, copy=True))
                value._storage.version = writes  # counts as a write for tapes that saved the array
                value._bump("astype")
        return self

    def state_dict(self) -> dict[str, Array]:
        """The parameters and buffers by name: the live arrays, which later training changes.

        Raises:
            ValueError: two arrays have one name, as by the keys ``"a.b"`` and ``"a"``, ``"b"`` of dicts.
        """
        state: dict[str, Array] = {}
        for name, value in _walk(self):
            if isinstance(value, Array):
                if name in state:
                    raise ValueError(f"{type(self).__name__}: two arrays are named {name!r}")
                state[name] = value
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy values into the parameters and buffers; nothing is changed when there is an error.

        Args:
            state: arrays by name, as from :meth:`state_dict`.
            strict: whether missing and unexpected names are errors.

        Raises:
            ValueError: names or shapes do not match; the message lists all mismatches.
            TypeError: a value is of another kind of dtype, such as integers for a floating parameter, or no array;
                or ``state`` has no names.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"state of {type(self).__name__}: expected arrays by name, got {type(state).__name__}"
            )
        own = self.state_dict()
        problems = []
        if strict:
            problems += [f"missing {name!r}" for name in own if name not in state]
            problems += [f"unexpected {name!r}" for name in state if name not in own]
        # Copies, because a value may be one of this module's own arrays under another name.
        leaves = {}
        for name in own:
            if name in state:
                try:
                    leaves[name] = array(state[name], device="host")
                except (TypeError, ValueError) as error:
                    raise type(error)(f"state of {type(self).__name__}: {name!r}: {error}") from None
        for name, value in leaves.items():
            if value.shape != own[name].shape:
                problems.append(f"{name!r} has shape {value.shape}, expected {own[name].shape}")
        if problems:
            raise ValueError(f"state of {type(self).__name__}: " + "; ".join(problems))
        for name, value in leaves.items():
            if dtypes.info(value.dtype).kind != dtypes.info(own[name].dtype).kind:
                raise TypeError(
                    f"state of {type(self).__name__}: {name!r} has dtype {value.dtype}, expected {own[name].dtype}"
                )
        for name, value in leaves.items():
            _write(own[name], value)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state as a safetensors file; an existing file is replaced atomically."""
        save_safetensors(path, self.state_dict())

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> Self:
        """Read a safetensors file into the parameters and buffers, as :meth:`load_state_dict` does.

        Raises:
            ValueError: the file is damaged, or its names or shapes are not the module's; the message names the file.
            TypeError: an array is of another kind of dtype than the module's, or of one that cukern lacks.
            OSError: the file cannot be read.
        """
        state = read_safetensors(path)
        try:
            self.load_state_dict(state, strict)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from None
        return self

    def extra_repr(self) -> str:
        """The text that :func:`repr` adds about the module's options, such as ``"stride=2"``."""
        return ""

    def __repr__(self) -> str:
        # Gradients and other values for a module have no parameters.
        return _described(self) if STRUCTURE not in vars(self) else f"values for {_described(self)}"


def _described(module: Module) -> str:
    """The representation of a module: each array with its dtype, shape, and whether it is trained."""
    structure = vars(module).get(STRUCTURE)
    stand = {} if structure is None else leaves_by_parameter(module)
    own = [
        f"{name}: {_form(stand.get(id(value), value), id(value) in stand)}"
        for name, value in _attributes(structure or module)
        if isinstance(value, Array)
    ]
    own += [extra] if (extra := module.extra_repr()) else []
    children = [
        f"{name}: {_described(value) if type(value).__repr__ is Module.__repr__ else repr(value)}"
        for name, value in _attributes(module)
        if isinstance(value, Module)
    ]
    if not children:
        return f"{type(module).__name__}({', '.join(own)})"
    return _indented(module, [*own, *children])


def _indented(module: Module, lines: Iterable[str]) -> str:
    body = "\n".join(lines).replace("\n", "\n  ")
    return f"{type(module).__name__}(\n  {body}\n)"


def _form(value: Any, stands_in: bool) -> str:
    """Dtype, shape and kind of a module's array, or of the value of a parameter."""
    if not isinstance(value, Array):
        return repr(value)
    kind = "" if stands_in else " buffer"
    if isinstance(value, Parameter):
        kind = "" if value.trainable else " frozen"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]{kind}"


def _attributes(module: Module, hidden: bool = False) -> Iterator[tuple[str, Any]]:
    """A module's parameters, buffers and submodules, also those in containers, with dotted names.

    ``hidden``: whether to include arrays that are not parameters and whose names start with an underscore.
    """
    for name, value in vars(module).items():
        if name == STRUCTURE:
            continue
        shown = hidden or not name.startswith("_")
        for inner, leaf in _open(name, value):
            if shown or isinstance(leaf, (Parameter, Module)):
                yield inner, leaf


def _open(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Array, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _open(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _open(f"{name}.{key}", item)


def _walk(
    module: Module, prefix: str = "", seen: set[int] | None = None, hidden: bool = False
) -> Iterator[tuple[str, Any]]:
    """Every module and array of a model, each once, depth first."""
    seen = set() if seen is None else seen
    if id(module) in seen:
        return
    seen.add(id(module))
    yield prefix, module
    for name, value in _attributes(module, hidden):
        full = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Module):
            yield from _walk(value, full, seen, hidden)
        elif id(value) not in seen:
            seen.add(id(value))
            yield full, value


@on_device
def _write(target: Array, values: Array) -> None:
    """Copy host values into an array, in place, on its own device."""
    source = asarray(values, dtype=target.dtype, device=target.device)
    about_to_write(target)
    target._data[...] = source._data
    target._bump("load_state_dict")


def _refuse_untrained(owner: str, name: str, old: Any, new: Any) -> None:
    """Refuse an assignment that replaces a parameter, or a module with parameters, by an untrained value.

    Raises:
        TypeError: the message lists the alternatives.
    """
    if isinstance(old, Parameter):
        if new is None or isinstance(new, Parameter):
            return
        leaves = [(name, new)]
    elif isinstance(old, Module):
        if isinstance(new, Array) and not isinstance(new, Parameter) and old.parameters():
            raise TypeError(
                f"{owner}.{name} is the module {type(old).__name__}, and an Array in its place would not be trained: "
                f"write {name} = nn.Parameter(values) for a new parameter (then make a new optimizer), "
                f"or {name} = None first for a buffer"
            )
        return
    else:
        before = {inner for inner, leaf in _open(name, old) if isinstance(leaf, Parameter)}
        after = _open(name, new) if before else ()
        leaves = [
            (inner, leaf)
            for inner, leaf in after
            if inner in before and isinstance(leaf, Array) and not isinstance(leaf, Parameter)
        ]
    for inner, value in leaves:
        what = "an Array" if isinstance(value, Array) else type(value).__name__
        path = name + "".join(f"[{key if key.isdigit() else repr(key)}]" for key in inner.split(".")[1:])
        raise TypeError(
            f"{owner}.{path} is a parameter, and {what} in its place would not be trained: write "
            f"{path}[...] = values to change its values, {path} = nn.Parameter(values) for a new parameter "
            f"(then make a new optimizer), or {path} = None"
        )


pytree.register(Module, flatten, unflatten)


class Sequential(Module):
    """Calls each layer with the result of the previous one.

    Args:
        layers: modules, or functions of one array such as ``cukern.relu``.

    >>> import cukern as ck
    >>> model = ck.nn.Sequential(ck.nn.Linear(3, 4, rng=0), ck.tanh, ck.nn.Linear(4, 1, rng=1))
    >>> model(ck.zeros((2, 3))).shape
    (2, 1)
    """

    def __init__(self, *layers: Callable[[Any], Any]) -> None:
        self.layers = layers

    def __repr__(self) -> str:
        lines = []
        for i, layer in enumerate(self.layers):
            text = repr(layer) if isinstance(layer, Module) else getattr(layer, "__name__", repr(layer))
            lines.append(f"layers.{i}: {text}")
        return _indented(self, lines) if lines else f"{type(self).__name__}()"

    def forward(self, x: Any) -> Any:
        """The result of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x


class _Constructed:
    """``__signature__`` of a class that takes options: not of its modules, nor of a class with another ``__init__``."""

    def __get__(self, module: Module | None, owner: type[Module]) -> inspect.Signature:
        known = next((one for one in owner.__mro__ if {"_options", "__init__"} & vars(one).keys()), owner)
        if module is not None or "_options" not in vars(known):
            raise AttributeError("__signature__")
        options: inspect.Signature = vars(known)["_options"]
        return options


class OfFunction(Module):
    """A function of an array as a module, whose options are the function's other arguments.

    Raises:
        TypeError: the function lacks an option.
    """

    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[inspect.Signature]
    __signature__ = _Constructed()

    def __init_subclass__(cls, of: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._function = staticmethod(of)
            _, *options = inspect.signature(of).parameters.values()
            cls._options = inspect.Signature(options)
            cls.__doc__ = (
                cls.__doc__ or f":func:`{of.__name__}` as a module; its arguments are those of the function."
            )

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            bound = self._options.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        self.options = dict(bound.arguments)

    def forward(self, x: Array) -> Any:
        """The function of ``x``."""
        return type(self)._function(x, *self.options.values())
