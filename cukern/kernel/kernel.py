"""Kernels: templates rendered per dtype and block size, compiled for a device, and launched with checked types."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..cache import Cache
from ..device import Device, current
from ..device.interface import CompilerFailure
from ..errors import LaunchError
from ..text import Dim3, render
from .repeat import Repeat, form_of
from .sizes import LARGEST_INDEX, as_dim3
from .variables import Globals, State

if TYPE_CHECKING:
    from ..text.build import Build
    from ..text.stand_ins import StandIn
    from .bound import BoundKernel

_BY_POSITION = "a kernel's arguments are given by position, in the order of its parameters"


#: Types of template variables of which equal ones of one type render alike.
_PLAIN = frozenset((str, int, bool, type(None), *map(type, dtypes.ALL)))

#: What a call of a kernel does instead of launching it.
through: Callable[[Call], None] | None = None

#: All kernels. A forked child drops their locks, because the threads that held them do not exist there.
_KERNELS: weakref.WeakSet[Kernel] = weakref.WeakSet()


def _forked() -> None:
    for kernel in _KERNELS:
        kernel._making.clear()


os.register_at_fork(after_in_child=_forked)


class Kernel:
    """A CUDA C++ kernel, written as a Jinja2 template for all devices.

    Kernels of a stream run in the order of their launches. On GPUs of compute capability 9 and later (driver 12.3 and
    later) a kernel begins while the previous one ends, and first waits for its writes (``griddepcontrol.wait``, which
    neither :meth:`source` nor :meth:`ptx` show). A text with ``__restrict__`` or ``__ldg`` allows reads before that
    wait, and is launched without the overlap.

    A kernel has no derivative. If an argument is an array that a tape tracks, the kernel's outputs can be used, but a
    gradient through them is a :class:`GradientError`. Call the kernel in the ``forward`` of a :class:`Function`, or
    pass it :func:`stop_gradient` of constant arrays.

    Args:
        source: the kernel's text (anything with a line break or a brace), the name of a template,
            or a ``Path`` to a file.
        block: threads per block: an integer, or up to three for x, y and z.
        name: the name of the kernel, on which the variable ``name`` in ``<< name >>`` is based.
        checked: whether every launch on the host is a checked one: see :func:`cukern.testing.checked`.
        plain: whether ``source`` is CUDA C++ as it stands, and no template: it may have several kernels, also C++
            templates and in namespaces, of which ``kernel["name<float>"]`` chooses one. What runs on the host is left
            out; files in quotes are included from the folder of the ``Path``. What a program's build gives its compiler
            is given here too: ``defines={"N": 4}`` for macros, ``include=`` a folder or several in which files are
            searched, ``std="c++20"``.
        variables: template variables. ``elem`` may be a dtype; by default it is the dtype of the first
            array of each call. ``acc``, ``index``, ``vec``, ``block``, ``block_x``, ``block_y``,
            ``block_z`` and ``name`` follow from the others unless they are given.

    Raises:
        TemplateError: there is no such template.
        TypeError: ``source`` is neither a string nor a path.

    >>> import cukern as ck
    >>> axpy = ck.Kernel('''
    ... extern "C" __global__ void << name >>(<< elem >> a, const << elem >>* x, << elem >>* y, int n) {
    ...     int i = blockIdx.x * << block >> + threadIdx.x;
    ...     if (i < n) y[i] = a * x[i] + y[i];
    ... }''', name="axpy")
    >>> x, y = ck.asarray([1.0, 2.0]), ck.asarray([10.0, 20.0])
    >>> axpy(3, x, y, x.size)
    >>> y.tolist()
    [13.0, 26.0]
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        block: int | Sequence[int] = 256,
        name: str | None = None,
        *,
        checked: bool = False,
        plain: bool = False,
        **variables: Any,
    ) -> None:
        if name is not None and not (isinstance(name, str) and name.isprintable()):
            raise ValueError(f"name: expected the name of a kernel, on one line, got {name!r}")
        self.plain = bool(plain)
        self.entry: str | None = None
        if self.plain:
            from ..text.build import Build

            source, name = _assembled(source, name, Build.of(variables))
        if isinstance(source, os.PathLike):
            self.name = name or _stem(source)
            with open(source) as file:
                self.template = render.add_source(file.read(), os.fspath(source))
        elif not isinstance(source, str):
            raise TypeError(f"source: expected a string or a Path, got {type(source).__name__}")
        elif any(mark in source for mark in "\n{"):
            self.name = name or "kernel"
            self.template = render.add_source(source, self.name)
        else:
            self.name = name or _stem(source)
            self.template = source
            render.require(source)
        self.block = as_dim3(block, "block")
        self.checked = bool(checked)
        self.variables = copy.deepcopy(variables)
        self._bound: dict[Any, BoundKernel] = {}
        self._repeats: Cache[Any, Repeat] = Cache()
        #: For each form, the lock that the thread holds which compiles it.
        self._making: dict[Any, threading.Lock] = {}
        self._entries: dict[str, Kernel] = {}
        self._state = State()
        _KERNELS.add(self)

    def __repr__(self) -> str:
        return f"Kernel({self.template!r}, block={self.block}, {render.describe(self.variables)})"

    def __getitem__(self, entry: str) -> Kernel:
        """The kernel of a name in a text that has several, with the arguments of its template if it is one.

        >>> import cukern as ck
        >>> both = Kernel('''
        ... template <typename T> __global__ void set(T* x, T value) { x[threadIdx.x] = value; }
        ... __global__ void twice(float* x) { x[threadIdx.x] *= 2; }
        ... ''', block=4, plain=True)
        >>> x = ck.zeros(4)
        >>> both["set<float>"](x, 3)
        >>> both["twice"](x)
        >>> x.tolist()
        [6.0, 6.0, 6.0, 6.0]
        """
        if not isinstance(entry, str):
            raise TypeError(
                f"{self.name}: expected the name of a kernel, got {type(entry).__name__}; "
                "a launch is kernel(x, y, n, grid=blocks, block=threads)"
            )
        kernel = self._entries.get(entry)
        if kernel is None:
            kernel = copy.copy(self)
            kernel.entry, kernel._bound, kernel._repeats = entry, {}, Cache()
            kernel._making, kernel._entries = {}, {}
            kernel._state = self._state
            _KERNELS.add(kernel)
            self._entries[entry] = kernel
        return kernel

    @property
    def globals(self) -> Globals:
        """The ``__constant__`` and ``__device__`` variables of the text on the current device: see :class:`Globals`."""
        from ..text.variables import device_variables

        whole = render.source_of(self.template) if self.plain else self._rendered(self._resolve({})[0]).text
        return Globals(self._state, device_variables(whole), self.bind)

    def _rendered(self, variables: dict[str, Any], stand_in: StandIn | None = None) -> render.Rendered:
        from ..device import bundles  # noqa: F401 - it finds templates that a bundle has compiled to Python

        rendered = render.render(self.template, variables, stand_in, self.plain)
        if not self.plain and not render.is_own(self.template):
            from ..text.std_names import completed

            rendered = replace(rendered, text=completed(rendered.text))
        if self.plain or self.entry is not None:
            from ..text.entry import isolated

            entry = self.entry if self.entry is None or stand_in is None else stand_in.text(self.entry)
            rendered = replace(rendered, text=isolated(rendered.text, entry))
        return rendered

    def _resolve(self, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], Dim3]:
        """All template variables, and the block size."""
        bound = {**self.variables, **overrides}
        block = as_dim3(bound.pop("block", self.block), "block")
        words = [self.name]
        if "elem" in bound:
            row = dtypes.info(_element(bound["elem"], "elem"))
            words.append(row.name)
            bound["elem"] = row.cxx
            bound.setdefault("acc", row.acc)
            bound.setdefault("vec", 16 // row.itemsize)
        if "acc" in bound:
            bound["acc"] = dtypes.info(_element(bound["acc"], "acc")).cxx
        for size, axis in zip(block, "xyz", strict=True):
            if f"block_{axis}" in bound:
                raise LaunchError(f"{self.name}: block_{axis}: give block=(x, y, z), from which it follows")
            bound[f"block_{axis}"] = size
        bound.setdefault("index", "int")
        bound["block"] = block[0] * block[1] * block[2]
        symbol = "_".join([*words, str(bound["block"])])
        symbol = "".join(c if c.isascii() and c.isalnum() else "_" for c in symbol)
        bound.setdefault("name", symbol if not symbol[0].isdigit() else f"_{symbol}")
        return bound, block

    @contextmanager
    def _rewritten(self, source: str) -> Iterator[None]:
        """Give the kernel another text while the with-block runs."""
        before = self.template, self._bound, self._repeats
        self.template, self._bound, self._repeats = render.add_source(source, self.name), {}, Cache()
        try:
            yield
        finally:
            self.template, self._bound, self._repeats = before

    def __reduce__(self) -> tuple[Any, ...]:
        source = render.source_of(self.template) if self.template.startswith("<") else self.template
        options = {"checked": self.checked, "plain": self.plain}
        return _remake, (type(self), source, self.block, self.name, self.variables, options, self.entry)

    def bind(self, device: Device | str | None = None, /, **overrides: Any) -> BoundKernel:
        """Render and compile the kernel, or return the result of an earlier call.

        Args:
            device: the device on which to run; the current device if None.
            overrides: template variables, and ``block``.

        Raises:
            TemplateError: the template cannot be rendered.
            CompileError: the rendered text does not compile.
            LaunchError: the block is larger than the device allows.
        """
        device = current() if device is None else Device(device)
        if not isinstance(overrides.get("block", 0), int):
            overrides["block"] = as_dim3(overrides["block"], "block")
        plain = None
        if _PLAIN.issuperset(map(type, overrides.values())):
            plain = (device, *overrides.items(), *map(type, overrides.values()))
            bound = self._bound.get(plain)
            if bound is not None:
                return bound
        key = (device, *sorted((k, _freeze(v, k)) for k, v in overrides.items()))
        bound = self._bound.get(key)
        if bound is None:
            variables, block = self._resolve(overrides)
            with self._making.setdefault(key, threading.Lock()):
                bound = self._bound.get(key)
                if bound is None:
                    from .bound import BoundKernel

                    rendered = self._rendered(variables)
                    bound = self._bound[key] = BoundKernel(rendered, device, block, self.checked, self._state)
        if plain is not None:
            self._bound[plain] = bound
        return bound

    def _defaults(self, args: Sequence[Any], overrides: dict[str, Any]) -> tuple[Device, dict[str, Any]]:
        arrays = [arg for arg in args if isinstance(arg, Array)]
        if not arrays:
            from .arguments import arrays_in

            self._refuse_packed(args)
            arrays = arrays_in(args)
        if "elem" not in overrides and "elem" not in self.variables and arrays:
            overrides["elem"] = arrays[0].dtype
        names = overrides.keys() | self.variables.keys()
        if "index" not in names and any(a.size > LARGEST_INDEX for a in arrays):
            overrides["index"] = "long long"
        return (arrays[0].device if arrays else current()), overrides

    def _refuse_packed(self, args: Sequence[Any]) -> None:
        """Raise an error with the right call if arguments come in a tuple, as in CuPy."""
        if len(args) == 3 and isinstance(args[2], tuple):
            raise LaunchError(
                f"{self.name}: arguments come one by one, and the grid and the block by name: CuPy's "
                "kernel(grid, block, (x, y, n)) is kernel(x, y, n, grid=grid, block=block) here"
            )
        if len(args) == 1 and isinstance(args[0], (tuple, list)):
            raise LaunchError(
                f"{self.name}: arguments come one by one: kernel(x, y, n), not kernel((x, y, n))"
            )

    def __call__(
        self, *args: Any, grid: int | Sequence[int] | None = None, shared: int = 0, **overrides: Any
    ) -> None:
        """Launch on the device of the arrays.

        Args:
            args: one argument per parameter. ``const T*`` and ``T*`` take None or an Array of that dtype, which for
                ``const T*`` is copied if it is not contiguous; ``T**`` takes a list of such arrays; ``View`` takes any
                strides; a scalar is cast to the declared type; a struct takes ``bytes``; a ``cudaTextureObject_t`` a
                :class:`Texture`, a ``cudaSurfaceObject_t`` a :class:`Surface`.
            grid: blocks along x, y and z. None: one thread for each element of the first written
                array, or of the first array.
            shared: bytes of dynamic shared memory per block.
            overrides: template variables, and ``block``, for this call.

        Raises:
            TemplateError, CompileError: as :meth:`bind`.
            LaunchError: an argument does not fit its parameter, or the launch does not fit the device.
            KernelFault: the kernel failed while it ran; on the host also if it wrote outside an array or beyond
                ``shared``, or took longer than ``CUKERN_KERNEL_TIMEOUT`` (60 seconds by default).
        """
        if through is not None:
            return through(Call(self, args, grid, shared, overrides))
        if not overrides:  # the common case, in fewer calls
            repeat = self._repeats.get(form_of(args, grid, shared))
            if repeat is not None and repeat(args):
                return
        self._launch(args, grid, shared, overrides)

    def _launch(
        self, args: Sequence[Any], grid: int | Sequence[int] | None, shared: int, overrides: dict[str, Any]
    ) -> None:
        form = self._form(args, grid, shared, overrides)
        repeat = self._repeats.get(form)
        if repeat is not None and repeat(args):
            return
        device, overrides = self._defaults(args, overrides)
        bound = self.bind(device, **overrides)
        try:
            repeat = bound.launch(args, bound.grid_for(args) if grid is None else grid, shared)
        except LaunchError as error:
            named = [p.name for p in bound.signature.params[len(args) :] if p.name in overrides]
            if named:
                raise LaunchError(f"{error}; {_BY_POSITION}, not {named[0]}=") from None
            raise
        if form is not None and repeat is not None:
            self._repeats.keep(form, repeat)

    def _repeat(
        self, args: Sequence[Any], grid: Any, shared: int = 0, **overrides: Any
    ) -> Callable[[list[Any]], bool] | None:
        """What launches with the operands of others, as :meth:`.Repeat.anew` does; None if no such launch was made."""
        repeats = self._repeats
        repeat = repeats.get(self._form(args, grid, shared, overrides))
        if repeat is None:
            return None
        anew = repeat.anew
        return lambda values: through is None and self._repeats is repeats and anew(values)

    @staticmethod
    def _form(
        args: Sequence[Any], grid: Any, shared: Any, overrides: dict[str, Any]
    ) -> tuple[Any, ...] | None:
        """The form of a launch with its template variables; None if a variable is not of a plain type."""
        form = form_of(args, grid, shared)
        if form is None or not overrides:
            return form
        for name, value in overrides.items():
            if type(value) not in _PLAIN and (name != "block" or type(value) is not tuple):
                return None
        return (*form, *overrides.items(), *map(type, overrides.values()))

    def source(self, *args: Any, **overrides: Any) -> str:
        """The text that a call with these arguments compiles.

        Raises:
            TemplateError: the template cannot be rendered.
        """
        _, overrides = self._defaults(args, overrides)
        return self._rendered(self._resolve(overrides)[0]).text

    def ptx(self, *args: Any, arch: str = "sm_90", **overrides: Any) -> str:
        """The PTX to which NVRTC compiles :meth:`source`; needs no GPU.

        Args:
            arch: the architecture for which to compile.

        Raises:
            TemplateError, CompileError: as :meth:`bind`.
            DeviceError: no NVRTC is installed.
        """
        from ..device import nvrtc
        from .bound import compile_error

        _, overrides = self._defaults(args, overrides)
        rendered = self._rendered(self._resolve(overrides)[0])
        try:
            return nvrtc.compile(rendered.text, arch, options=[nvrtc.PLAIN] if self.plain else []).ptx
        except CompilerFailure as failure:
            raise compile_error(failure.log, rendered, arch) from None

    def to_torch(
        self,
        outputs: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        grid: Any = None,
        updates: Sequence[str] = (),
        start: Any = None,
        **overrides: Any,
    ) -> Any:
        """An operator of PyTorch that launches the kernel; ``torch.compile`` takes it.

        Its arguments are the parameters of the kernel in their order, without those that it writes; these are its
        results, new tensors. It shares the memory of its tensors, and launches on a GPU on PyTorch's current stream.
        It has no derivative: for one, see :meth:`.Function.to_torch`.

        Args:
            outputs: takes the operator's arguments, of which arrays have only ``shape`` and ``dtype``; returns for each
                result an argument of the same shape and dtype, or ``(shape, dtype)``.
            name: ``"namespace::name"``, in ``torch.ops``; by default that of the kernel in ``cukern::``.
            grid: as of a launch, or a function of the operator's arguments that returns it.
            updates: the names of parameters that are written and read: they are arguments, of which the results are
                copies that the kernel updates.
            start: a number with which the other results start; by default their elements are not initialised.
            overrides: template variables, ``block`` and ``shared``.

        Raises:
            ImportError: PyTorch is not installed.
            TypeError: a parameter is neither a number nor an array, or ``outputs`` is missing.
            ValueError: ``name`` belongs to another operator, or ``updates`` names what the kernel does not write.

        >>> twice = Kernel('''
        ... extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
        ...     int i = blockIdx.x * << block >> + threadIdx.x;
        ...     if (i < n) y[i] = 2 * x[i];
        ... }''', name="twice")
        >>> double = twice.to_torch(lambda x, n: x)  # doctest: +SKIP
        >>> double(torch.tensor([1.0, 2.0]), 2)  # doctest: +SKIP
        tensor([2., 4.])
        """
        from ..bridge import in_torch
        from .operator import Options, operation

        options = Options(outputs, grid, tuple(updates), start, overrides)
        chosen = in_torch.code(outputs), in_torch.code(grid), options.updates, start, repr(overrides)
        own = self.entry or self.name
        key = in_torch.Key(f"the kernel {own}", (self.template, repr(self)), chosen)
        made_by = _to_torch, self, options, name
        word = "".join(c if c.isalnum() else "_" for c in own)
        return in_torch.operator(name or f"cukern::{word}", key, made_by, lambda: operation(self, options))

    def to_jax(
        self,
        outputs: Callable[..., Any] | None = None,
        *,
        grid: Any = None,
        updates: Sequence[str] = (),
        start: Any = None,
        vmap: str = "sequential",
        **overrides: Any,
    ) -> Any:
        """A function of JAX arrays that launches the kernel, eagerly and under ``jax.jit`` and ``jax.vmap``.

        The kernel reads XLA's memory and writes to it, on a GPU on XLA's stream. Arguments that are numbers are static.
        It has no derivative: for one, see :meth:`.Function.to_jax`.

        Args:
            outputs, grid, updates, start, overrides: as of :meth:`to_torch`.
            vmap: as of :meth:`.Function.to_jax`.

        Raises:
            ImportError: JAX is not installed.
            TypeError, ValueError: as of :meth:`to_torch`.
        """
        from ..bridge import in_jax
        from .operator import Options, operation

        options = Options(outputs, grid, tuple(updates), start, overrides)
        return in_jax.operator(operation(self, options), vmap, (_to_jax, self, options, vmap))

    def attributes(self, *args: Any, **overrides: Any) -> Mapping[str, int]:
        """CUDA's function attributes of the kernel that a call with these arguments launches."""
        device, overrides = self._defaults(args, overrides)
        return self.bind(device, **overrides).attributes


class Call(NamedTuple):
    """A call of a kernel, as of :meth:`Kernel.__call__`."""

    kernel: Kernel
    args: Sequence[Any]
    grid: Any
    shared: int
    overrides: dict[str, Any]

    def launch(self) -> None:
        """Launch the kernel."""
        self.kernel._launch(self.args, self.grid, self.shared, dict(self.overrides))

    def bound(self) -> BoundKernel:
        """The compiled kernel."""
        device, known = self.kernel._defaults(self.args, dict(self.overrides))
        return self.kernel.bind(device, **known)


def _to_torch(kernel: Kernel, options: Any, name: str | None) -> Any:
    outputs, grid, updates, start, variables = options
    return kernel.to_torch(outputs, name=name, grid=grid, updates=updates, start=start, **variables)


def _to_jax(kernel: Kernel, options: Any, vmap: str) -> Any:
    outputs, grid, updates, start, variables = options
    return kernel.to_jax(outputs, grid=grid, updates=updates, start=start, vmap=vmap, **variables)


def _remake(
    cls: type[Kernel],
    source: str,
    block: Dim3,
    name: str,
    variables: dict[str, Any],
    options: dict[str, bool],
    entry: str | None,
) -> Kernel:
    kernel = cls(source, block, name, **options, **variables)
    return kernel if entry is None else kernel[entry]


def _assembled(source: str | os.PathLike[str], name: str | None, build: Build) -> tuple[str, str]:
    """The text of a plain source, with what it includes, and the kernel's name.

    Raises:
        TypeError: ``source`` is neither a string nor a path.
    """
    from ..text.assemble import assembled

    if isinstance(source, os.PathLike):
        from pathlib import Path

        path = Path(source)
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        return assembled(text, path.name, (path.parent,), build), name or path.stem
    if not isinstance(source, str):
        raise TypeError(f"source: expected a string or a Path, got {type(source).__name__}")
    name = name or "kernel"
    if source.startswith("#line "):
        return source, name
    source = source.removeprefix("\ufeff").replace("\r\n", "\n")
    # Messages name the source by this label, and show its lines.
    return assembled(source, render.add_source(source, name), build=build), name


def _stem(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _element(elem: Any, argument: str) -> dtypes.DType:
    known = dtypes.from_cxx(elem) if isinstance(elem, str) else None
    return known if known is not None else dtypes.as_dtype(elem, argument)


def _freeze(value: Any, name: str) -> Any:
    """A hashable key of a template variable, distinct for values that render differently."""
    if isinstance(value, dict):
        return dict, tuple((key, _freeze(item, name)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_freeze(item, name) for item in value)
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    if isinstance(value, Array):
        raise TypeError(f"{name}: {_BY_POSITION}; what is given by name is a template variable")
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{name}: a template variable is a number, a string, a dtype, or a list, tuple or dict of these; "
            f"got {type(value).__name__}"
        ) from None
    return type(value), value


if os.environ.get("CUKERN_RECORD"):
    from .recorder import Recorder

    through = Recorder(os.environ["CUKERN_RECORD"])
