"""An extension of Griffe, which reads the docstrings for the API pages: names as users write them, and Markdown.

Griffe reads text and imports nothing. It does not see what is made as the package is imported, such as the functions of
the elementwise table, so every public name is put where users find it, ``cukern.exp``, with the signature it has.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.append(str(Path(__file__).parent))
import reference


def _parameters(value: Any) -> griffe.Parameters:
    """The parameters of a callable, as Griffe has them."""
    made = []
    for one in inspect.signature(value).parameters.values():
        default = None if one.default is inspect.Parameter.empty else repr(one.default)
        kind = griffe.ParameterKind(one.kind.description)
        annotation = None if one.annotation is inspect.Parameter.empty else str(one.annotation)
        made.append(griffe.Parameter(one.name, annotation=annotation, kind=kind, default=default))
    return griffe.Parameters(*made)


class PublicNames(griffe.Extension):
    """Puts what users call at the names they call it by, and turns docstrings into Markdown."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Do it for a package that was read."""
        # All are found before one is put: `cukern.array` is a function there, and a module on the way to others.
        found = {path: self._object(pkg, path) for path in reference.in_full(reference.pages()).values()}
        for path, one in found.items():
            home, _, one.name = path.rpartition(".")
            one.parent = pkg if home == pkg.path else pkg[home.removeprefix(f"{pkg.path}.")]
        for path, one in found.items():
            one.parent.members[one.name] = one
            self._construct(one, reference.value_of(path))
            one.docstring = griffe.Docstring(reference.docstring(path), parent=one)
            self._convert(one)

    def _object(self, pkg: griffe.Module, path: str) -> Any:
        """What Griffe has read of the object of a public name, or what can be seen of it at run time."""
        value: Any = reference.value_of(path)
        source = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '<none>')}"
        found: Any = pkg
        for part in source.split(".")[1:]:
            found = found.members.get(part)
            if found is None or found.is_alias:
                break
        else:
            if found.is_class or found.is_function:
                return found
        if inspect.isclass(value):
            return griffe.Class(value.__name__)
        return griffe.Function(value.__name__, parameters=_parameters(value))

    def _construct(self, found: griffe.Object, value: Any) -> None:
        """Give a class the signature of its ``__init__``, inherited or not, where that names what it takes."""
        if not found.is_class or not inspect.isfunction(value.__init__):
            return
        parameters = griffe.Parameters(griffe.Parameter("self"), *_parameters(value))
        if all(one.name in ("self", "args", "kwargs") for one in parameters):
            found.members.pop("__init__", None)
        elif "__init__" not in found.members or getattr(value, "__signature__", None) is not None:
            found.members["__init__"] = griffe.Function("__init__", parameters=parameters, parent=found)

    def _convert(self, found: griffe.Object) -> None:
        """Turn the docstrings of a class's members into Markdown."""
        for member in found.members.values() if found.is_class else ():
            if member.docstring is not None:
                member.docstring.value = reference.as_markdown(member.docstring.value)
