"""``python -m cukern prove``: all checks of one function with kernels of its own, as a report."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

DESCRIPTION = """Check a function or a ck.Function of a Python file in all ways that there are, and report on each:
accesses, derivatives, types, layouts, sizes, special values, precision, large arrays, what its tests notice. Arguments
are those of --args, or the value of `arguments` in the file: a list, or a dictionary of lists by name. Tests are the
functions test_* of the file, or of --tests. The exit status is 1 if anything fails."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("function", metavar="FILE.py::NAME", help="a function, or a class of ck.Function")
    parser.add_argument(
        "--args", metavar="EXPRESSION", help="in the file's names, such as 'ck.ones((3, 4)), 0.5'"
    )
    parser.add_argument(
        "--tests", type=Path, metavar="FILE.py", help="a file of tests that take no arguments"
    )
    parser.add_argument(
        "--order", type=int, default=2, help="of derivatives; 0 for none (default: %(default)s)"
    )
    parser.add_argument(
        "--dtypes", nargs="*", default=["float32", "float16", "bfloat16"], help="besides float64"
    )
    parser.add_argument(
        "--fixed", type=int, nargs="*", default=[], metavar="SIZE", help="sizes of axes that stay"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    parser.add_argument(
        "--versions",
        type=int,
        default=40,
        metavar="N",
        help="wrong versions of each kernel (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, help="the page, with its JSON beside it (default: NAME.html)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the function and write the report; return the exit status."""
    from ..device import device
    from ..testing import prove

    file, _, name = options.function.partition("::")
    with device("host"):
        try:
            module = _loaded(Path(file))
            function = getattr(module, name)
            args = _arguments(module, name, options.args)
            source = module if options.tests is None else _loaded(options.tests)
        except OSError:
            raise
        except Exception as error:
            print(f"prove: {options.function}: {type(error).__name__}: {error}", file=sys.stderr)
            return 2
        report = prove(
            function,
            args,
            tests=_tests(source),
            name=name,
            order=options.order,
            dtypes=options.dtypes,
            fixed=options.fixed,
            seed=options.seed,
            versions=options.versions,
        )
    page = options.out or Path(f"{name}.html")
    report.save(page)
    print(f"{report}\n{page}")
    return int(not report.ok)


def _loaded(path: Path) -> ModuleType:
    """A file's module.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _arguments(module: ModuleType, name: str, expression: str | None) -> Sequence[Any]:
    """The arguments near which a function is checked.

    Raises:
        ValueError: there are none.
    """
    if expression is not None:
        given = eval(f"({expression},)", vars(module))  # the user's own words, beside the user's file
        return list(given)
    found = getattr(module, "arguments", None)
    if isinstance(found, dict):
        found = found.get(name)
    if not isinstance(found, (list, tuple)):
        raise ValueError(
            f"expected --args, or `arguments` in the file: a list, or a dictionary with {name!r}"
        )
    return found


def _tests(module: ModuleType) -> Callable[[], object] | None:
    """What runs all tests of a module; None if it has none."""
    found = [value for key, value in vars(module).items() if key.startswith("test_") and callable(value)]
    if not found:
        return None

    def tests() -> None:
        for one in found:
            one()

    return tests
