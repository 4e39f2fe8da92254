"""The API pages of the site, made by this hook of MkDocs: each public name stands on exactly one.

An object is documented in full under its first name. Under another, as ``ck.absolute`` is ``ck.abs`` and
``ck.nn.functional.gelu`` is ``ck.gelu``, a row of a table leads there; so do the rows of modules and constants.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cukern as ck
from cukern.cli.catalog import families

#: Pages of names that are no functions on arrays, with the parts of each.
_OWN = {
    "Array": {"Array": "Array"},
    "Kernels": {"Kernels": "Kernel add_templates fuse elementwise reduction"},
    "Derivatives": {
        "Tape and Function": "Tape stop_recording stop_gradient checkpoint Function once_differentiable",
        "Transformations": "grad value_and_grad elementwise_grad vjp jvp linearize hvp hessian_vector_product jacobian "
        "hessian",
    },
    "Devices, settings and errors": {
        "Devices": "device devices Device check_indices load_bundle",
        "Capture": "capture",
        "Jit": "jit",
        "Default dtype": "default_dtype get_default_dtype set_default_dtype result_type",
        "Precision of products": "matmul_precision get_matmul_precision set_matmul_precision",
        "Errors": "CukernError TemplateError CompileError DeviceError LaunchError KernelFault KernelReport "
        "GradientError CaptureError DistributedError",
    },
}
#: Pages of functions, with the families of each.
_FUNCTIONS = {
    "Elementwise functions": (
        "Elementwise",
        "Special functions",
        "Floating-point parts",
        "Bits",
        "Comparison",
        "Phases, powers and complex numbers",
        "Vectorised functions",
        "Other functions",
    ),
    "Reductions and statistics": (
        "Reductions",
        "Averages, and reductions that ignore NaN",
        "Softmax",
        "Cumulative sums and scans",
        "Segments and scatter",
        "Medians and quantiles",
        "Correlation",
        "Histograms",
    ),
    "Shapes and joining": ("Shapes", "Joining and splitting", "Stacking, tiling and repeating", "Padding"),
    "Indexing, sorting and sets": (
        "Indexing and assignment",
        "Sliding windows and slices",
        "Selection",
        "Searching",
        "Sorting",
        "Sets",
    ),
    "Linear algebra": ("Matrix and vector products", "Diagonals", "Linear algebra"),
    "Signals and polynomials": (
        "Fourier transforms",
        "Window functions",
        "Differences, integrals and interpolation",
        "Polynomials",
    ),
    "Control flow and solvers": ("Control flow",),
    "Creation, inspection and files": (
        "Creation",
        "Number ranges",
        "Index grids",
        "From bytes, files and texts",
        "Inspection",
        "Files",
    ),
}
#: Pages of modules.
_MODULES = {
    "ck.nn and ck.optim": ("nn", "nn.functional", "nn.init", "optim"),
    "ck.random": ("random",),
    "ck.sparse": ("sparse",),
    "ck.distributed": ("distributed",),
    "ck.quant and ck.generate": ("quant", "generate"),
    "ck.testing": ("testing",),
    "ck.polynomial, ck.tree and ck.lib": (
        "polynomial",
        "polynomial.polynomial",
        "polynomial.polyutils",
        "tree",
        "lib",
        "lib.stride_tricks",
        "lib.array_utils",
    ),
}
_GGUF = ("load_gguf", "save_gguf", "GGUFFile")
_FOLDER = "api/"
#: What a page of functions begins with.
_ON_DEVICES = """Functions run on the device of their arrays; what is made of none is made on the current device. In the
examples ``ck`` is cukern: ``import cukern as ck``."""

_DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_LITERAL = re.compile(r"^(?:(.+:)|:):\n\n((?:    .*\n|\n)+)", re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|attr|data|mod|exc):`~?([\w.]+)`")
#: The script of a page of measurements, with what stands before and after it.
_MEASURES = re.compile(r"`([^`\n]*(?:benchmarks|tests)/\w+\.py[^`\n]*)`")
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


class Part(NamedTuple):
    """A part of a page: its title, what stands above the names, and the names, each with the module that it is in."""

    title: str
    text: str
    names: list[tuple[ModuleType, str]]


class Page(NamedTuple):
    """A page: its section, its title, what stands at its beginning, and its parts."""

    section: str
    title: str
    text: str
    parts: list[Part]

    @property
    def names(self) -> list[tuple[ModuleType, str]]:
        """The names of all parts."""
        return [name for part in self.parts for name in part.names]

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
    names = ("linalg", "fft", *(name for page in _MODULES.values() for name in page))
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
    texts = {"Array": _methods(), "Errors": inspect.getdoc(ck.errors) or ""}
    for title, own in _OWN.items():
        made.append(
            Page(
                "",
                title,
                "",
                [
                    Part(one, texts.get(one, ""), [(ck, name) for name in names.split()])
                    for one, names in own.items()
                ],
            )
        )
    told = {name for page in made for _, name in page.names} | set(_GGUF)
    made += [
        Page("Functions", title, _ON_DEVICES, _families(names, told)) for title, names in _FUNCTIONS.items()
    ]
    for title, names in _MODULES.items():
        parts = []
        for name in names:
            module = importlib.import_module(f"cukern.{name}")
            parts.append(
                Part(f"ck.{name}", inspect.getdoc(module) or "", [(module, one) for one in public(module)])
            )
            if name == "generate":
                parts.append(Part("GGUF files", "", [(ck, one) for one in _GGUF]))
        made.append(Page("Modules", title, "", parts))
    told = {name for page in made for home, name in page.names if home is ck}
    others = [(ck, name) for name in public(ck) if name not in told]
    last = next(page for page in made if page.title == "Creation, inspection and files")
    last.parts.append(
        Part("Other names", "Constants, dtypes, modules, and second names of functions.", others)
    )
    return made


def _families(titles: Sequence[str], told: set[str]) -> list[Part]:
    """The parts of a page of functions."""
    named = {family.title: family for family in families()}
    parts = []
    for title in titles:
        _, home, names = named[title]
        # The results of a module's functions, too.
        more = [] if home is ck else [name for name in public(home) if inspect.isclass(getattr(home, name))]
        shown = [name for name in names if home is not ck or name not in told]
        parts.append(Part(title, "", [(home, name) for name in [*shown, *more]]))
    return parts


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
    for part in page.parts:
        if len(page.parts) > 1:
            lines += [f"## {part.title}", ""]
        lines += [as_markdown(part.text), ""]
        directives = [path_of(*one) for one in part.names if full.get(id(getattr(*one))) == path_of(*one)]
        rows = [_row(*one, full) for one in part.names if path_of(*one) not in directives]
        for path in directives:
            lines.append(f"::: {path}")
            lines += ["    options:", "      heading_level: 3", ""] if len(page.parts) > 1 else [""]
        if rows:
            lines += ["| name | what it is |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def listed() -> str:
    """The list of all functions, ``docs/namespace.md``, with a link from each to its page."""
    full = in_full(pages())

    def linked(found: re.Match[str]) -> str:
        path = full.get(id(value_of(found[1].replace("ck", "cukern", 1))))
        return f"| [`{found[1]}`][{path}] |"

    text = (Path(__file__).parent / "namespace.md").read_text(encoding="utf-8")
    example = as_markdown(f">>> import cukern as ck\n{examples()['cukern.unique_counts']}")
    text = text.replace("\n## ", f"\n{example}\n\n## ", 1)
    return re.sub(r"^\| `(ck\.[\w.]+)` \|", linked, text, flags=re.MULTILINE)


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, in sections of what is on them."""
    reference: list[Any] = [{"All functions": _FOLDER + "index.md"}]
    for section, found in groupby(pages(), lambda page: page.section):
        paths = [page.path for page in found]
        reference += [{section: paths}] if section else paths
    config.nav.append({"Reference": reference})
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


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Begin a page of measurements with the command that makes them, which its text names."""
    if not page.file.src_uri.startswith("measured/"):
        return text
    found = _MEASURES.search(text)
    script = found[1] if found else "python -m cukern bench"
    command = script if "python" in script else f"python {script}"
    title, _, rest = text.partition("\n")
    return f"{title}\n\n```sh\n{command}\n```\n\n[All measurements](../performance.md#where-the-figures-are)\n{rest}"
