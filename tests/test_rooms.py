"""The order of the rooms of ``cukern``: each imports only from those above it, and no modules import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mutation
import pytest
import python_mutants

import cukern
from cukern.text import render

PACKAGE = Path(cukern.__file__).parent

#: Packages and modules of ``cukern``, each of which imports only from itself and from what stands above it.
ORDER = """
    errors dtypes pytree cache files
    text
    device
    autodiff
    array
    bridge
    kernel
    launch
    elementwise
    shape
    reduction
    index
    linear
    ops
    function batching transforms
    namespace tree
    control
    linalg fft io lib capture jit random sparse polynomial
    nn
    quant
    gguf generate
    optim testing export
    distributed
    __init__
    bench demo
    cli __main__
""".split()


def modules() -> dict[str, Path]:
    """Every module of the package by its name without ``cukern.``; that of the package itself is ``__init__``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


MODULES = modules()


@cache
def imports(name: str) -> list[tuple[str, bool]]:
    """The modules of the package that one imports, each with whether it does so within a function."""
    path = MODULES[name]
    package = path.relative_to(PACKAGE).parent.parts

    def walk(node: ast.AST, within: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.level:
                base = [*package[: len(package) - child.level + 1], *(child.module or "").split(".")]
                where = ".".join(part for part in base if part)
                for one in child.names:
                    full = f"{where}.{one.name}" if where else one.name
                    yield full if full in MODULES else where or "__init__", within
            elif isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "cukern":
                yield (child.module or "").partition(".")[2] or "__init__", within
            elif isinstance(child, ast.Import):
                for one in child.names:
                    if one.name.split(".")[0] == "cukern":
                        yield one.name.partition(".")[2] or "__init__", within
            yield from walk(child, within or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))

    return [(found, within) for found, within in walk(ast.parse(path.read_text()), False) if found != name]


def room(name: str) -> int:
    return ORDER.index(name.partition(".")[0])


def test_every_module_has_its_place_in_the_order() -> None:
    assert {name.partition(".")[0] for name in MODULES} == set(ORDER)
    assert len(set(ORDER)) == len(ORDER)


def test_rooms_import_only_from_those_above() -> None:
    upward = [
        f"{name} imports {other}"
        for name in MODULES
        for other, _ in imports(name)
        if room(other) > room(name)
    ]
    assert not upward


def test_no_modules_import_each_other() -> None:
    """Also not where an import within a function would hide it; a package's own file counts as any other."""
    reached: dict[str, set[str]] = {}

    def visit(name: str, way: tuple[str, ...]) -> set[str]:
        assert name not in way, " imports ".join((*way[way.index(name) :], name))
        if name not in reached:
            found = {other for other, _ in imports(name)}
            reached[name] = found.union(*(visit(other, (*way, name)) for other in sorted(found)))
        return reached[name]

    for name in MODULES:
        visit(name, ())


def test_a_room_that_is_imported_later_is_entered_by_its_package() -> None:
    """Else threads that import two rooms at once may each hold a module that the other waits for.

    A thread that imports a module of a package has the module's lock when it waits for the package, whose import in
    another thread waits for the module. So a room begins with the packages of whose modules its own are made, or with
    one that begins with them.
    """
    later = set(vars(cukern)["_LATER"][""].split())
    entered: dict[str, set[str]] = {}
    for name in sorted(later, key=room):
        first = next((other for other, _ in imports(name)), "")
        entered[name] = {first} | entered.get(first, set())
        inside = {other for one in MODULES if one.partition(".")[0] == name for other, _ in imports(one)}
        needed = {other.partition(".")[0] for other in inside if "." in other} & later - {name}
        assert needed <= entered[name], f"{name}/__init__.py: import {needed - entered[name]} first"


def test_the_page_of_the_architecture_names_what_is_there() -> None:
    root = PACKAGE.parent
    page = root / "docs" / "pages" / "architecture.md"
    if not page.exists():
        pytest.skip("needs the source tree: the page is no part of the package")
    text = page.read_text()
    paths = re.findall(r"`((?:cukern|templates|tests)/[\w/.]*)`", text)
    assert len(paths) > 20
    assert [path for path in paths if not (root / path).exists()] == []
    picture = text.partition("```text")[2].partition("```")[0]
    told = re.findall(r"^[a-z][\w/ ]*?(?=  |$)", picture, re.M)
    words = [word.strip("/") for line in told for word in line.split()]
    assert words == [name for name in ORDER if name not in ("__init__", "__main__")]


def test_only_devices_know_their_kinds() -> None:
    """Others ask a device for its style, and whether its memory is addressable."""
    test = re.compile(r"""kind\s*(==|!=|in|not in)\s*[("']*(host|cuda)\b""")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in MODULES.values()
        if path.relative_to(PACKAGE).parts[0] != "device"
        for line in path.read_text().splitlines()
        if test.search(line) and "write x.device.kind" not in line
    ]
    assert not found


def test_files_are_written_whole_or_not_at_all() -> None:
    """By `cukern/files.py` alone; what compilers make has its own way into the cache."""
    test = re.compile(
        r"""\.write_(bytes|text)\(|(?<!archive\.)\bopen\(.*, ["'][wax]b?\+?["']|savefig\((?!file)|mkstemp\("""
    )
    own = ("files.py", "device/disk_cache.py", "device/bundle_file.py", "device/host/compiler.py")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in MODULES.values()
        if str(path.relative_to(PACKAGE)) not in own
        for line in path.read_text().splitlines()
        if test.search(line) and ">>>" not in line
    ]
    assert not found


def test_templates_branch_on_devices_in_the_prelude_alone() -> None:
    found = [
        str(path.relative_to(render.TEMPLATES))
        for path in Path(render.TEMPLATES).rglob("*.cu*")
        if path.parent.name != "prelude" and re.search(r"__CUDA_?(ARCH|CC)", path.read_text())
    ]
    assert not found


def test_kernels_are_plain_cuda_below_their_opening_lines() -> None:
    """Template variables become types and constants above a kernel, which has few splices itself."""
    counts = {}
    for path in Path(render.TEMPLATES).rglob("*.cu*"):
        _, marker, kernel = path.read_text().partition('extern "C"')
        if marker:
            counts[str(path.relative_to(render.TEMPLATES))] = len(re.findall("<<|<%", kernel))
    assert len(counts) > 50
    assert not {name: count for name, count in counts.items() if count > 20}


def test_every_template_has_tests_for_its_mutants() -> None:
    for path in Path(render.TEMPLATES).rglob("*.cu*"):
        name = str(path.relative_to(render.TEMPLATES))
        assert mutation.tests(name), f"name the tests of {name} in CHECKS of tests/mutation.py"


def test_every_module_has_tests_for_its_mutants() -> None:
    for path in MODULES.values():
        first, *others = python_mutants.tests(path.relative_to(PACKAGE).as_posix())
        assert first.endswith(".py") and others, path
