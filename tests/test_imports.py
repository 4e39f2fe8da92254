"""What ``import cukern`` loads and what it exports, and that the rest is there at its first use."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import cukern

#: Packages of others that ``import cukern`` loads, and einops where it is installed, to register with it.
OTHERS = {"numpy", "ml_dtypes"}
#: Parts of ``cukern`` that it loads.
ROOMS = set(
    "array autodiff cache capture device dtypes elementwise errors files function index jit kernel launch linear "
    "namespace ops pytree reduction shape text transforms tree".split()
)
#: What it does not load, though a part of one of these packages is loaded, or Python's own library has it.
HEAVY = {
    *(
        "cukern.device.cuda.backend",
        "cukern.device.host.backend",
        "cukern.device.nvrtc",
        "cukern.kernel.bound",
    ),
    *(
        "cukern.linear.lapack",
        "cukern.linear.tensor_cores",
        "cukern.text.environment",
        "cukern.text.signature",
    ),
    *("hashlib", "pathlib", "shutil", "socket", "subprocess", "urllib.parse"),
}
LATER: dict[str, str] = vars(cukern)["_LATER"]
NAMES = [name for names in LATER.values() for name in names.split()]
#: Names that are first used together: modules alone, and all those of a module.
TOGETHER = [[name] for name in LATER[""].split()] + [names.split() for place, names in LATER.items() if place]
#: Uses of cukern, each the first in its process, that lead to modules not loaded yet.
USES = {
    "a function of a module": "assert cukern.fft.fft(cukern.ones(4)).shape == (4,)",
    "a function by from": "from cukern.fft import fft; assert fft(cukern.ones(4)).shape == (4,)",
    "a module by import": "import cukern.distributed; cukern.distributed.Mesh",
    "a module of a module": "assert cukern.nn.functional.relu(cukern.asarray([-1.0])).tolist() == [0]",
    "a module of a module by import": "import cukern.nn.functional as f; assert f is cukern.nn.functional",
    "all names": "all = {{}}; exec('from cukern import *', all); assert all.keys() >= set(cukern.__all__)",
    "help": "import pydoc; assert 'array2string' in pydoc.render_doc(cukern)",
    "NumPy's functions": "import numpy; assert isinstance(numpy.fft.fft(cukern.ones(4)), cukern.Array)",
    "NumPy's functions in a module": "import numpy; assert float(numpy.linalg.norm(cukern.ones(4))) == 2",
    "a pytree": "assert len(cukern.tree.leaves(cukern.nn.Linear(2, 3))) == 2",
    "a pickled array": "import pickle; assert pickle.loads({array!r}).tolist() == [1, 2]",
    "a pickled module": "import pickle; assert pickle.loads({module!r})(cukern.ones((1, 2))).shape == (1, 3)",
    "a pickled kernel": "import pickle; x = cukern.zeros(2); pickle.loads({kernel!r})(x); assert x.tolist() == [1, 1]",
    "a kernel with a variable": "list(cukern.Kernel('__device__ int n; __global__ void f() {{ n = 1; }}').globals)",
    "the text of a kernel": "assert 'mine' in cukern.Kernel('__global__ void mine(int* x) {{ }}').source()",
    "a plain kernel": "assert 'f' in cukern.Kernel('__global__ void f(int* x) {{ }}', plain=True).source()",
    "a product": "assert (cukern.ones((2, 3)) @ cukern.ones((3, 2))).tolist() == [[3, 3], [3, 3]]",
    "a fit": "x = cukern.arange(4.0); assert cukern.polyfit(x, x, 1).shape == (2,)",
    "a template of one's own": "cukern.add_templates('/'); cukern.ones(2) + 1",
    "an error of a template": "try: cukern.Kernel('<< x >> {{').source()\nexcept cukern.TemplateError: pass",
    "a file": "import io; f = io.BytesIO(); cukern.save(f, cukern.ones(2)); f.seek(0); assert cukern.load(f).size == 2",
    "checked launches": "with cukern.testing.checked(): assert (cukern.ones(2) + 1).tolist() == [2, 2]",
    "a gradient": "assert cukern.grad(lambda x: cukern.sum(x * x))(cukern.ones(2)).tolist() == [2, 2]",
}
#: Runs each use in a process of its own, forked from one that has imported cukern, and prints what went wrong.
RUNNER = """
import json, os, sys, traceback
import cukern
uses, failed = json.load(sys.stdin), {}
for name, use in uses.items():
    read, write = os.pipe()
    if not os.fork():
        told = ""
        try:
            exec(use, {"cukern": cukern})
        except BaseException:
            told = traceback.format_exc()
        os.write(write, told.encode()[-4000:])
        os._exit(0)
    os.close(write)
    with open(read) as said:
        failed[name] = said.read()
    os.wait()
json.dump(failed, sys.stdout)
"""


def _python(code: str, given: str = "", **env: str) -> str:
    environment = {**os.environ, **env}
    run = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, env=environment
    )
    assert not run.returncode, run.stderr
    return run.stdout


def _loaded(statement: str, **env: str) -> set[str]:
    return set(_python(f"import sys; {statement}; print('\\n'.join(sys.modules))", **env).split())


def test_import_loads_what_every_program_needs(tmp_path: Path) -> None:
    # Found before those that are installed, and also where none is.
    for name in ("cupy", "jinja2", "scipy", "torch", "tree_sitter"):
        (tmp_path / f"{name}.py").touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    loaded = _loaded("import cukern", PYTHONPATH=path)
    assert "cukern.kernel.kernel" in loaded
    own = {name.split(".")[1] for name in loaded if name.startswith("cukern.")}
    assert own == ROOMS
    assert len([name for name in loaded if name.partition(".")[0] == "cukern"]) <= 161
    before = _loaded("import sys, numpy, ml_dtypes")
    others = {name.partition(".")[0] for name in loaded - before} - sys.stdlib_module_names
    assert others - OTHERS <= {"cukern", "einops"}
    assert (loaded - before).isdisjoint(HEAVY)


def test_import_takes_little_beside_numpy(tmp_path: Path) -> None:
    """Processor times by turns, the least of each: what other programs do to them has a part in both."""
    code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    env = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    times: dict[str, list[float]] = {"numpy": [], "cukern": []}
    for _ in range(6):  # the first writes the modules' bytecode
        for name, found in times.items():
            found.append(float(_python(code.format(name), **env)))
    least = {name: min(found[1:]) for name, found in times.items()}
    assert least["cukern"] < 2.6 * least["numpy"], times


def test_the_plugin_of_pytest_loads_nothing_of_cukern() -> None:
    loaded = _loaded("import pytest, pytest_cukern")
    assert not any(name.partition(".")[0] in {"cukern", "numpy", "jinja2"} for name in loaded)


@pytest.fixture(scope="module")
def first_uses() -> dict[str, str]:
    """What each use reports in a process of its own; empty if it went well."""
    import pickle

    kernel = 'extern "C" __global__ void one(float* x) { x[threadIdx.x] = 1; }'
    given = {
        "array": pickle.dumps(cukern.asarray([1.0, 2.0], device="host")),
        "module": pickle.dumps(cukern.nn.Linear(2, 3)),
        "kernel": pickle.dumps(cukern.Kernel(kernel, block=2)),
    }
    uses = {name: use.format(**given) for name, use in USES.items()}
    uses |= {
        " ".join(names): "; ".join(f"cukern.{name}; from cukern import {name}" for name in names)
        for names in TOGETHER
    }
    with_host = "cukern.device('host').__enter__()\n"
    found: dict[str, str] = json.loads(
        _python(RUNNER, json.dumps({name: with_host + use for name, use in uses.items()}))
    )
    return found


@pytest.mark.parametrize("name", [*USES, *map(" ".join, TOGETHER)])
def test_what_is_imported_later_is_there_at_its_first_use(name: str, first_uses: dict[str, str]) -> None:
    assert not first_uses[name]


def test_threads_may_use_all_for_the_first_time_at_once() -> None:
    code = """
import sys, threading
import cukern
sys.setswitchinterval(1e-5)
names = sys.stdin.read().split()
together, wrong = threading.Barrier(len(names)), []
def use(name):
    together.wait()
    try:
        found = getattr(cukern, name)
        [getattr(found, one) for one in getattr(found, "__all__", ())]
    except BaseException as error:
        wrong.append((name, repr(error)))
threads = [threading.Thread(target=use, args=(name,)) for name in names]
[one.start() for one in threads], [one.join() for one in threads]
print(*wrong)
"""
    for names in (NAMES, NAMES[::-1]):
        assert not _python(code, " ".join(names)).strip()


def test_names_that_are_imported_later_are_those_of_their_modules() -> None:
    for place, names in LATER.items():
        found = names.split()
        assert len(found) == len(set(found))
        if place:
            public = getattr(importlib.import_module(f"cukern.{place}"), "__all__", found)
            assert set(found) == set(public)
    assert set(NAMES) - {"gguf", "io"} <= set(cukern.__all__)
    own = _python("import cukern; print(*vars(cukern))").split()
    assert not set(NAMES) & set(own), "a room or a name of the same name is found first"


def test_type_checkers_see_what_is_imported_later() -> None:
    tree = ast.parse(Path(cukern.__file__).read_text())
    (block,) = (one for one in tree.body if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test))
    seen: dict[str, set[str]] = {place: set() for place in LATER}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        for one in line.names:
            public = (
                importlib.import_module(f"cukern.{line.module}").__all__ if one.name == "*" else [one.name]
            )
            seen[line.module or ""].update(public)
    assert seen == {place: set(names.split()) for place, names in LATER.items()}


@pytest.mark.parametrize("module", [cukern, cukern.nn, cukern.nn.functional, cukern.optim, cukern.testing])
def test_all_is_what_is_public(module: types.ModuleType) -> None:
    assert all(hasattr(module, name) for name in module.__all__)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and name not in module.__all__)
    }
    public -= {"annotations", "TYPE_CHECKING"}
    assert sorted(module.__all__) == sorted(set(module.__all__)), "a name stands twice"
    assert public == set(module.__all__)
