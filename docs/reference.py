"""The API pages of the site, made by this hook of MkDocs: each public name stands on exactly one.

An object is documented in full under its first name. Under another, as ``ck.absolute`` is ``ck.abs`` and
``ck.nn.functional.gelu`` is ``ck.gelu``, a row of a table leads there; so do the rows of modules and constants.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cukern as ck
from cukern.cli.catalog import families

#: Pages of names that are no functions on arrays.
_OWN = {
    "Array": "Array",
    "Kernel": "Kernel add_templates fuse",
    "Tape and Function": "Tape stop_recording stop_gradient checkpoint Function once_differentiable",
    "Derivatives": "grad value_and_grad elementwise_grad vjp jvp hvp hessian_vector_product jacobian hessian",
    "Capture": "capture",
    "Devices": "device devices Device check_indices load_bundle",
    "GGUF files": "load_gguf save_gguf GGUFFile",
    "Default dtype": "default_dtype get_default_dtype set_default_dtype result_type",
    "Precision of products": "matmul_precision get_matmul_precision set_matmul_precision",
    "Errors": "CukernError TemplateError CompileError DeviceError LaunchError KernelFault KernelReport "
    "GradientError CaptureError DistributedError",
}
#: Modules with a page of their own.
_MODULES = (
    "nn",
    "nn.functional",
    "nn.init",
    "optim",
    "distributed",
    "quant",
    "generate",
    "random",
    "sparse",
    "polynomial",
    "polynomial.polynomial",
    "polynomial.polyutils",
    "lib",
    "lib.stride_tricks",
    "lib.array_utils",
    "testing",
    "tree",
)
_FOLDER = "api/"
#: What a page of functions begins with.
_FUNCTIONS = """Functions run on the device of their arrays; what is made of none is made on the current device. In the
examples ``ck`` is cukern: ``import cukern as ck``."""

_DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_LITERAL = re.compile(r"^(?:(.+:)|:):\n\n((?:    .*\n|\n)+)", re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|attr|data|mod|exc):`~?([\w.]+)`")
_CODE = re.compile(r"(```.*?```|``.*?``|`.*?`)", re.DOTALL)


def value_of(path: str) -> Any:
    """What a full name such as ``cukern.nn.Linear`` stands for; None where it is no public name."""
    found: Any = ck
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


@cache
def examples() -> dict[str, str]:
    """Examples that stand in no docstring, ``docs/examples.txt``: doctests by full name."""
    text = (Path(__file__).parent / "examples.txt").read_text(encoding="utf-8")
    pairs = (part.partition("\n") for part in text.strip().split("\n\n"))
    return {name.replace("ck", "cukern", 1): example for name, _, example in pairs}


def docstring(path: str) -> str:
    """The docstring of what a full name stands for, with its example, as Markdown."""
    text = inspect.getdoc(value_of(path)) or ""
    return as_markdown(f"{text}\n\n{examples()[path]}" if path in examples() else text)


def _reference(found: re.Match[str]) -> str:
    """A name in a docstring, linked where it is documented in full."""
    name = found[1].removeprefix("cukern.")
    path = _linked().get(name)
    return f"[`{name}`][{path}]" if path else f"`{name}`"


@cache
def _linked() -> dict[str, str]:
    """Where names lead that a docstring may write: below ``cukern``, and without a module's name before them."""
    full = in_full(pages())
    found = {path.rpartition(".")[2]: path for path in reversed(full.values())}
    for module in modules():
        for name in public(module):
            path = full.get(id(getattr(module, name)))
            if path:
                found[path_of(module, name).removeprefix("cukern.")] = path
    return found


def _literal(found: re.Match[str]) -> str:
    """An indented block after ``::`` as a fenced one."""
    return f"{found[1] or ''}\n\n```text\n{inspect.cleandoc(found[2])}\n```\n"


def as_markdown(text: str) -> str:
    """A docstring, which is written in reStructuredText's terms, as Markdown."""
    text = _LITERAL.sub(_literal, text + "\n")
    text = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text.rstrip("\n"))
    text = _ROLE.sub(_reference, text)
    parts = _CODE.split(text)
    # Outside of code a star is a star: no docstring has emphasis.
    parts[::2] = [re.sub(r"(?<!^)(?<!\n)\*", r"\\*", part) for part in parts[::2]]
    return "".join(parts)


class Page(NamedTuple):
    """A page: its section and title, what stands above the names, and the names, each with the module that it is in."""

    section: str
    title: str
    text: str
    names: list[tuple[ModuleType, str]]

    @property
    def path(self) -> str:
        """Where the page lies in the site's sources."""
        words = re.sub(r"[',]", "", self.title.lower().replace("ck.", ""))
        return _FOLDER + words.replace(" ", "-") + ".md"


def public(module: ModuleType) -> list[str]:
    """The public names of a module: classes, then functions, then what else it has."""
    names = getattr(module, "__all__", None)
    if names is None:
        own = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        names = [name for name in own if getattr(module, name).__module__ == module.__name__]
    return sorted(names, key=lambda name: not inspect.isclass(getattr(module, name)))


def modules() -> list[ModuleType]:
    """The public modules whose names are on the pages."""
    names = ("linalg", "fft", *_MODULES)
    return [ck, *(importlib.import_module(f"cukern.{name}") for name in names)]


def _methods() -> str:
    """What a page says of the methods of arrays that are functions."""
    names = {name for _, home, found in families() for name in found if home is ck}
    own = sorted(name for name in names if inspect.isfunction(inspect.getattr_static(ck.Array, name, None)))
    shown = ", ".join(f":func:`{name}`" for name in own)
    return f"Many functions are methods as well, of the array that is their first argument: {shown}."


def pages() -> list[Page]:
    """Every page, in the order of the site's navigation."""
    made = []
    for title, words in _OWN.items():
        text = {"Array": _methods(), "Errors": inspect.getdoc(ck.errors) or ""}.get(title, "")
        made.append(Page("Reference", title, text, [(ck, name) for name in words.split()]))
    told = {name for page in made for _, name in page.names}
    for title, home, names in families():
        shown = [*names]
        if home is ck:
            shown = [name for name in names if name not in told]
        else:  # the results of its functions, too
            shown += [name for name in public(home) if inspect.isclass(getattr(home, name))]
        if shown:
            made.append(Page("Functions", title, _FUNCTIONS, [(home, name) for name in shown]))
    for name in _MODULES:
        module = importlib.import_module(f"cukern.{name}")
        found = [(module, one) for one in public(module)]
        made.append(Page("Modules", f"ck.{name}", inspect.getdoc(module) or "", found))
    told = {name for page in made for home, name in page.names if home is ck}
    others = [(ck, name) for name in public(ck) if name not in told]
    text = "Constants, dtypes, modules, and second names of functions."
    return [*made, Page("Functions", "Other names", text, others)]


def path_of(module: ModuleType, name: str) -> str:
    """The full name."""
    return f"{module.__name__}.{name}"


def in_full(shown: Iterable[Page]) -> dict[int, str]:
    """The objects that are documented in full, by their identity, with the name where that is."""
    found: dict[int, str] = {}
    for page in shown:
        for module, name in page.names:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type(ck.float32)):
                found.setdefault(id(value), path_of(module, name))
    return found


def _row(module: ModuleType, name: str, full: dict[int, str]) -> str:
    value: Any = getattr(module, name)
    if id(value) in full:
        what = f"[`{full[id(value)].replace('cukern', 'ck', 1)}`][{full[id(value)]}]"
    elif isinstance(value, ModuleType):
        what = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    elif isinstance(value, type(ck.float32)):
        what = f"the dtype {value.name}; called, an array of it"
    else:
        what = f"`{value}`"
    return f"| `{path_of(module, name).replace('cukern', 'ck', 1)}` | {as_markdown(what)} |"


def markdown(page: Page, full: dict[int, str]) -> str:
    """The text of a page, for mkdocstrings to fill in."""
    lines = [f"# {page.title}", "", as_markdown(page.text), ""]
    directives = [path_of(*one) for one in page.names if full.get(id(getattr(*one))) == path_of(*one)]
    rows = [_row(*one, full) for one in page.names if path_of(*one) not in directives]
    if rows:
        lines += ["| name | what it is |", "| --- | --- |", *rows, ""]
    for path in directives:
        lines += [f"::: {path}", ""]
    return "\n".join(lines)


def listed() -> str:
    """The list of all functions, ``docs/namespace.md``, with a link from each to its page."""
    full = in_full(pages())

    def linked(found: re.Match[str]) -> str:
        path = full.get(id(value_of(found[1].replace("ck", "cukern", 1))))
        return f"| [`{found[1]}`][{path}] |"

    text = (Path(__file__).parent / "namespace.md").read_text(encoding="utf-8")
    return re.sub(r"^\| `(ck\.[\w.]+)` \|", linked, text, flags=re.MULTILINE)


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, in sections of what is on them."""
    sections: dict[str, list[Any]] = {"Reference": [], "Functions": [{"All functions": _FOLDER + "index.md"}]}
    for page in pages():
        sections.setdefault(page.section, []).append(page.path)
    config.nav += [{title: paths} for title, paths in sections.items()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site's files."""
    from mkdocs.structure.files import File

    shown = pages()
    full = in_full(shown)
    texts = {page.path: markdown(page, full) for page in shown}
    for path, text in {_FOLDER + "index.md": listed(), **texts}.items():
        files.append(File.generated(config, path, content=text))
    return files
