"""A kernel as an operation of other libraries: what it reads are arguments, what it writes are results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..array import Array
from ..bridge.operation import Again, Like, Operation, Parameter, likes
from ..text import signature

if TYPE_CHECKING:
    from .kernel import Kernel

#: The types of scalars, in the words of schemas, by the kind of their dtype; the last one is bfloat16's.
_WORDS = {"b": "bool", "i": "SymInt", "u": "SymInt", "f": "float", "V": "float"}


class Options(NamedTuple):
    """How an operator launches a kernel; attributes as the arguments of :meth:`.Kernel.to_torch`."""

    outputs: Callable[..., Any] | None
    grid: Any
    updates: tuple[str, ...]
    start: Any
    variables: dict[str, Any]


def operation(kernel: Kernel, options: Options) -> Operation:
    """The launch of a kernel as an operation.

    Raises:
        TemplateError: the template cannot be rendered.
        TypeError: a parameter is of a type that operators do not have.
        ValueError: the kernel writes nothing, or not what ``updates`` names.
    """
    variables = {name: value for name, value in options.variables.items() if name != "shared"}
    if "elem" not in variables and "elem" not in kernel.variables:
        variables["elem"] = "float32"  # names and kinds of parameters are those of each dtype
    params = signature.parse(kernel.source(**variables)).signature.params
    written = [i for i, one in enumerate(params) if not one.const and one.kind in ("pointer", "view")]
    names = [params[i].name for i in written]
    if not written or not set(options.updates) <= set(names):
        raise ValueError(
            f"{kernel.name}: updates: expected names of what it writes ({', '.join(names) or 'nothing'}), "
            f"got {', '.join(options.updates) or 'no kernel that writes'}"
        )
    if options.outputs is None and len(options.updates) < len(written):
        raise TypeError(
            f"{kernel.name}: outputs: expected a function that gives the shapes of {', '.join(names)}"
        )
    made = [i for i in written if params[i].name not in options.updates]
    given = [i for i in range(len(params)) if i not in made]
    parameters = [_parameter(kernel.name, params[i]) for i in given]

    def rule(*args: Any) -> list[Like]:
        found = likes(() if options.outputs is None else options.outputs(*args), kernel.name)
        if len(found) != len(made):
            wanted = ", ".join(params[i].name for i in made)
            raise ValueError(f"{kernel.name}: outputs: expected one for each of {wanted}, got {len(found)}")
        shapes = iter(found)
        of = dict(zip(given, args, strict=True))
        return [Like(of[i].shape, of[i].dtype) if i in of else next(shapes) for i in written]

    starts = [(k, given.index(i)) for k, i in enumerate(written) if i in given]
    cleared = [] if options.start is None else [k for k, i in enumerate(written) if i in made]
    order = [
        (True, written.index(i)) if i in written else (False, given.index(i)) for i in range(len(params))
    ]
    grid_of = options.grid if callable(options.grid) else None

    def into(args: Sequence[Any], out: Sequence[Array]) -> None:
        for k, i in starts:
            out[k][...] = args[i]
        for k in cleared:
            out[k][...] = options.start
        grid = options.grid if grid_of is None else grid_of(*args)
        kernel(*[out[i] if is_out else args[i] for is_out, i in order], grid=grid, **options.variables)

    def again(args: Sequence[Any], out: Sequence[Array]) -> Again | None:
        if starts or cleared:
            return None
        forms = [one._planned() if isinstance(one, Array) else one for one in args]
        try:
            grid = options.grid if grid_of is None else grid_of(*forms)
        except Exception:  # it reads elements
            return None
        whole = [out[i] if is_out else args[i] for is_out, i in order]
        repeat = kernel._repeat(whole, grid, **options.variables)
        if repeat is None:
            return None

        def launch(args: Sequence[Any], out: Sequence[Any]) -> bool:
            if grid_of is not None and grid_of(*forms) != grid:
                return False
            return repeat([out[i] if is_out else args[i] for is_out, i in order])

        return launch

    result = Operation(kernel.name, None, None, parameters, rule, differentiable=False)
    result.again = again
    result.into, result.outputs, result.several = into, len(written), len(written) > 1
    result.live = [False] * len(written)
    if not result.arrays:
        raise TypeError(f"{kernel.name}: expected a kernel that reads an array")
    return result


def _parameter(kernel: str, param: signature.Param) -> Parameter:
    if param.kind in ("pointer", "view") and param.dtype is not None:
        return Parameter(param.name, "Tensor")
    word = None if param.kind != "scalar" or param.dtype is None else _WORDS.get(param.dtype.kind)
    if word is None:
        raise TypeError(
            f"{kernel}: parameter {param.name}: operators take arrays and numbers; {param.type_text} is neither"
        )
    return Parameter(param.name, word)
