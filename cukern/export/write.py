"""The folder of an exported operator: kernels, what launches them, a binding, and a test with stored values."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import replacing, write_text
from . import cuda, folder
from .formulas import Formula
from .program import Number, Operator, Place, Program, Words, names, programs, sizes_used

#: ctypes' numbers, by the kind and size of a dtype.
_CTYPES = {
    **{f"i{n}": f"c_int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"c_uint{8 * n}" for n in (1, 2, 4, 8)},
    "b1": "c_bool",
    "f4": "c_float",
    "f8": "c_double",
}


def write(operator: Operator, target: str, out: Path) -> list[Path]:
    """Write the folder of an operator; return the files.

    Args:
        operator: what is exported.
        target: ``"torch"``, ``"jax"`` or ``"cuda"``.
        out: the folder, which is made.
    """
    (out / "kernels").mkdir(parents=True, exist_ok=True)
    texts = {f"kernels/{name}.cu": text for name, text in _kernels(operator).items()}
    if target == "cuda":
        texts = {name: cuda.whole(text, Path(name).stem) for name, text in texts.items()}
        texts |= cuda.texts(operator)
    else:
        texts |= _python(operator, target, out.resolve().name)
        packed = io.BytesIO()
        np.savez(packed, **{f"{k}_{i}": v for k, one in _values(operator).items() for i, v in one.items()})
        with replacing(out / "reference.npz") as file:
            file.write(packed.getvalue())
    for name, text in texts.items():
        write_text(out / name, text)
    return sorted(path for path in out.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _values(operator: Operator) -> dict[str, dict[str, Any]]:
    def plain(value: Any) -> Any:
        return (
            value.astype(np.float32) if value.dtype.kind == "V" or value.dtype.name == "bfloat16" else value
        )

    return {
        "given": {k: plain(v) for k, v in operator.examples.items()},
        "expected": {k: plain(v) for k, v in operator.expected.items()},
    }


def _kernels(operator: Operator) -> dict[str, str]:
    """The text of each kernel by its name, which is that of its function."""
    named, found = names(operator), {}
    for direction, program in programs(operator).items():
        for i, launch in enumerate(program.launches):
            name, own = named[direction, i], launch.unit.signature.name
            renamed = "" if name == own else f"#define {own} {name}\n"
            found[name] = renamed + launch.unit.text
    return found


def _python(operator: Operator, target: str, package: str) -> dict[str, str]:
    here = Path(folder.__file__).parent
    binding = (here / f"of_{target}.py").read_text()
    name = operator.name
    return {
        "__init__.py": f'"""The operator {name}, written by cukern, which it does not need."""\n\n'
        f"from . import program\nfrom .binding import operator\n\n{name} = operator(program)\n",
        "binding.py": binding,
        "runtime.py": (here / "runtime.py").read_text(),
        "program.py": _program_text(operator),
        f"test_{name}.py": _TESTS[target].replace("NAME", name),
        "README.md": _readme(operator, target, package),
    }


def _readme(operator: Operator, target: str, package: str) -> str:
    library = {"torch": "PyTorch", "jax": "JAX"}[target]
    taken = zip(operator.arguments, operator.forward.buffers, strict=False)
    wanted = ", ".join(f"{name}: {dtype} {tupled(one.shape)}" for (name, dtype, _), one in taken)
    lines = [
        f"# {operator.name}",
        f"An operator of {library}, written by `python -m cukern export`; it needs {library}, NumPy, NVRTC and a GPU.",
        f"```python\n{_import(operator.name, package)}\n```",
        f"It takes `{wanted}`. `kernels/` has the CUDA C++ that NVRTC compiles at the first call.",
    ]
    if operator.constants:
        lines.append("With " + ", ".join(f"{k} = {v!r}" for k, v in operator.constants.items()) + ".")
    for direction, program in programs(operator).items():
        if not program.general:
            shapes = ", ".join(
                f"{one.name} {tuple(size.value({}) for size in one.shape)}"
                for one in program.buffers[: program.arguments]
            )
            lines.append(f"The {direction} takes these shapes alone: {shapes}.")
    lines.append(
        f"`python -m pytest {shlex.quote(package)}` compares it with values that were computed when it was exported."
    )
    return "\n\n".join(lines) + "\n"


def _import(name: str, package: str) -> str:
    if package.isidentifier():
        return f"from {package} import {name}"
    return f"import importlib\n{name} = importlib.import_module({package!r}).{name}"


def _program_text(operator: Operator) -> str:
    ranks, words, parts = {}, {}, []
    named = names(operator)
    for direction, program in programs(operator).items():
        arguments = program.buffers[: program.arguments]
        ranks[direction] = [len(one.shape) for one in arguments]
        words[direction] = [one.name for one in arguments]
        parts.append(_direction(program, direction, named))
    return "\n".join(
        [
            f'"""The launches of {operator.name}, from the shapes of its arguments."""',
            "",
            "from ctypes import c_bool, c_double, c_float, c_int8, c_int16, c_int32, c_int64",
            "from ctypes import c_uint8, c_uint16, c_uint32, c_uint64, c_void_p",
            "from struct import pack",
            "",
            "from .runtime import Plan, divided",
            "",
            f"NAME = {operator.name!r}",
            "#: Name, dtype and whether there is a derivative, of each argument.",
            f"ARGUMENTS = {operator.arguments!r}",
            f"OUTPUTS, SEVERAL = {operator.outputs}, {operator.several}",
            f"DIFFERENTIABLE = {operator.backward is not None}",
            "#: Of each result of the forward, whether it has a cotangent.",
            f"KINDS = {operator.live!r}",
            f"RANKS = {ranks!r}",
            f"WORDS = {words!r}",
            f"OPTIONS = {operator.options!r}",
            *parts,
            "",
        ]
    )


def _direction(program: Program, direction: str, named: dict[tuple[str, int], str]) -> str:
    arguments = program.buffers[: program.arguments]
    last = program.arguments + program.results
    lines = ["", "", f"def {direction}({', '.join(one.name for one in arguments)}):"]
    used = sizes_used(program)
    lines += [
        f"    {name} = {arguments[i].name}[{axis}]"
        for name, (i, axis) in program.sizes.items()
        if name in used
    ]
    shapes = ", ".join(tupled(one.shape) for one in arguments)
    results = ", ".join(
        f"({tupled(one.shape)}, {one.dtype.name!r})" for one in program.buffers[program.arguments : last]
    )
    memory = ", ".join(
        repr(one.content) if one.content else str(one.shape[0]) for one in program.buffers[last:]
    )
    cleared = ", ".join(
        f"({i}, {_bytes(one.shape, one.dtype.itemsize)})"
        for i, one in enumerate(program.buffers)
        if one.cleared
    )
    lines += [
        f"    expected = [{shapes}]",
        f"    results = [{results}]",
        f"    memory = [{memory}]",
        f"    cleared = [{cleared}]",
        "",
        "    def launches(at):",
        "        return [",
    ]
    for i, launch in enumerate(program.launches):
        values = ", ".join(_value(one) for one in launch.args)
        shape = f"{tupled(launch.grid)}, {launch.block}, {launch.shared}"
        lines.append(f"            ({named[direction, i]!r}, {shape}, [{values}]),")
    lines += ["        ]", "", "    return Plan(expected, results, memory, cleared, launches)"]
    return "\n".join(lines)


def tupled(sizes: Sequence[Formula]) -> str:
    """A tuple in Python."""
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


def _bytes(shape: Sequence[Formula], itemsize: int) -> str:
    return " * ".join([*map(str, shape), str(itemsize)])


def _value(arg: Place | Words | Number | None) -> str:
    if arg is None:
        return "c_void_p()"
    if isinstance(arg, Place):
        offset = "" if arg.offset == Formula(0) else f" + {arg.offset}"
        return f"c_void_p(at[{arg.buffer}]{offset})"
    if isinstance(arg, Words):
        return f"pack('={len(arg.words)}i', {', '.join(map(str, arg.words))})"
    kind = f"{arg.dtype.kind}{arg.dtype.itemsize}"
    if kind in _CTYPES:
        return (
            f"{_CTYPES[kind]}({arg.value})"
            if not isinstance(arg.value, float)
            else f"{_CTYPES[kind]}({_float(arg.value)})"
        )
    return repr(np.asarray(arg.value, arg.dtype).tobytes())


def _float(value: float) -> str:
    return repr(value) if np.isfinite(value) else f"float({str(value)!r})"


_HEAD = '''"""Compares NAME with stored values, which cukern computed on a CPU."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
'''
_TESTS = {
    "torch": _HEAD
    + """torch = pytest.importorskip("torch")
package = importlib.import_module(HERE.name)
stored = np.load(HERE / "reference.npz")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tensors(kind):
    found = [torch.as_tensor(stored[key]) for key in stored.files if key.startswith(kind)]
    return [one.to(DEVICE) for one in found]


def close(got, expected):
    loose = 1e-2 if got.dtype in (torch.float16, torch.bfloat16) else 1e-4
    assert torch.allclose(got.double(), expected.double(), rtol=loose, atol=loose)


def given():
    made = []
    for (name, dtype, floating), one in zip(package.program.ARGUMENTS, tensors("given"), strict=False):
        made.append(one.to(getattr(torch, dtype)).requires_grad_(floating and package.program.DIFFERENTIABLE))
    return made


def test_values_and_gradients():
    if not package.binding.runtime.available():
        pytest.skip("needs a GPU")
    arguments = given()
    out = package.NAME(*arguments)
    several = out if package.program.SEVERAL else [out]
    expected = tensors("expected_result")
    for one, right in zip(several, expected, strict=False):
        close(one, right)
    if package.program.DIFFERENTIABLE:
        live = [one for one, kind in zip(several, package.program.KINDS) if kind]
        cotangents = [c.to(o.dtype) for c, o in zip(tensors("given_cotangent"), live, strict=True)]
        found = torch.autograd.grad(live, [one for one in arguments if one.requires_grad], cotangents)
        for one, right in zip(found, tensors("expected_grad"), strict=True):
            close(one, right)


def test_fake_function():
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(one) for one in given()]
        out = package.NAME(*fakes)
    several = out if package.program.SEVERAL else [out]
    for one, right in zip(several, tensors("expected_result"), strict=False):
        assert one.shape == right.shape
""",
    "jax": _HEAD
    + """jax = pytest.importorskip("jax")
package = importlib.import_module(HERE.name)
stored = np.load(HERE / "reference.npz")
if any(dtype.endswith("64") for _, dtype, _ in package.program.ARGUMENTS):
    jax.config.update("jax_enable_x64", True)


def arrays(kind):
    return [jax.numpy.asarray(stored[key]) for key in stored.files if key.startswith(kind)]


def close(got, expected):
    loose = 1e-2 if got.dtype.itemsize == 2 else 1e-4
    assert np.allclose(np.asarray(got, "f8"), np.asarray(expected, "f8"), rtol=loose, atol=loose)


def given():
    made = zip(package.program.ARGUMENTS, arrays("given"), strict=False)
    return [one.astype(dtype) for (_, dtype, _), one in made]


def test_values_and_gradients():
    if not package.binding.runtime.available():
        pytest.skip("needs a GPU")
    arguments = given()
    out = jax.jit(package.NAME)(*arguments)
    several = out if package.program.SEVERAL else [out]
    expected = arrays("expected_result")
    for one, right in zip(several, expected, strict=False):
        close(one, right)
    if package.program.DIFFERENTIABLE:
        floating = [i for i, (_, _, one) in enumerate(package.program.ARGUMENTS) if one]
        cotangents = iter(arrays("given_cotangent"))

        def loss(*args):
            made = package.NAME(*args)
            each = made if package.program.SEVERAL else [made]
            left = iter(weights)
            return sum((one * next(left)).sum() for one, kind in zip(each, package.program.KINDS) if kind)

        weights = list(cotangents)
        found = jax.jit(jax.grad(loss, floating))(*arguments)
        for one, right in zip(found, arrays("expected_grad"), strict=True):
            close(one, right)


def test_shapes():
    out = jax.eval_shape(package.NAME, *given())
    several = out if package.program.SEVERAL else [out]
    assert [one.shape for one in several] == [one.shape for one in arrays("expected_result")][: len(several)]
""",
}
