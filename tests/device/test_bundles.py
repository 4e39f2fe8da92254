"""Kernels built ahead of time for the host: found in a bundle without a compiler, refused where they cannot run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest

import cukern as ck
from cukern import cli
from cukern.cli import build
from cukern.device import bundles, trust
from cukern.device.bundle_file import BundleFile, Code, Target, write
from cukern.device.host import compiler, processors
from cukern.device.interface import CompilerFailure
from cukern.device.recording import Recording
from cukern.device.recording.host import RecordedHost
from cukern.text import bytecode, render
from cukern.text.signature import parse

PROGRAM = """
import sys
import cukern as ck

shared = ck.Kernel('''
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    __shared__ << elem >> held[<< block >>];
    if (threadIdx.x < n) held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = 2 * held[n - 1 - threadIdx.x];
}''', name="shared", block=32)
endless = ck.Kernel('''
extern "C" __global__ void << name >>(volatile int* x) { while (x[0] == 0) {} }
''', name="endless", block=1)

def main(*words):
    x = ck.asarray([1.0, 2.0, 3.0])
    y = ck.empty(3)
    shared(x, y, 3)
    if "build" in words:
        endless.bind(elem="int32")
    if "more" in words:
        print((x * y).tolist())
    if "captured" in words:
        step = ck.capture(lambda v: ck.tanh(v) * 2)
        print([round(step(x)[0].item(), 3) for _ in range(4)])
    if "jitted" in words:
        slope = ck.jit(ck.grad(lambda v: (ck.tanh(v) * v).sum()))
        print([round(slope(x)[0].item(), 3) for _ in range(4)])
    print((x + y).tolist(), x.device)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""
PRINTED = "[7.0, 6.0, 5.0] host\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "small_program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def built(program: Path) -> Path:
    """A bundle of the program for this host."""
    path = program.parent / "small.bundle"
    arguments = ["build", str(program), "--arch", "host", "--out", str(path), "--", "build"]
    assert cli.main(arguments) == 0
    return path


@pytest.fixture
def bundle(built: Path) -> Iterator[bundles.Bundle]:
    made = ck.load_bundle(built)
    yield made
    made.close()


def run(program: Path, *words: str, compiler: bool = False, code: str = "", **environment: str) -> Any:
    """Run the program, or code that imports it, where nothing has been compiled."""
    folder = program.parent
    own = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "CUKERN_CACHE_DIR": str(folder / "nothing"),
        "CUKERN_DEVICE": "host",
        "TMPDIR": str(folder / "temporary"),
        **environment,
    }
    (folder / "temporary").mkdir(exist_ok=True)
    own.pop("CXX", None)
    if not compiler:
        own["PATH"] = "/nowhere"
        # The compiler of the extra `zig` is a package.
        code = f"import sys; sys.modules['ziglang'] = None\n{code}" if code else ""
    command = [
        sys.executable,
        "-W",
        "error::RuntimeWarning",
        *(["-c", code] if code else [str(program), *words]),
    ]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=100)
    assert not list((folder / "temporary").iterdir()), "machine code was left on the disk"
    return done


def test_a_bundle_runs_a_program_without_a_compiler_or_a_cache(program: Path, built: Path) -> None:
    done = run(program, CUKERN_BUNDLE=str(built))
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED, "")
    assert not (program.parent / "nothing").exists()


def test_info_tells_the_bundles(program: Path, built: Path, tmp_path: Path) -> None:
    code = "from cukern import cli; cli.main(['info'])"
    assert (
        f"  bundle      {built}, 4 kernels for host\n"
        in run(program, code=code, CUKERN_BUNDLE=str(built)).stdout
    )
    done = run(program, code=code, CUKERN_BUNDLE=str(tmp_path / "none"))
    assert "  bundle      none: CUKERN_BUNDLE: [Errno 2] No such file" in done.stdout, done.stderr


def test_what_a_bundle_says_of_itself(bundle: bundles.Bundle, built: Path) -> None:
    assert (bundle.path, bundle.targets, bundle.missing) == (built, ("host",), ())
    assert len(bundle) == 4, "the runtime and three kernels"
    assert repr(bundle) == f"<bundle {str(built)!r}: 4 kernels for host>"
    names = [code.name for code in bundle._file.codes(0)]
    assert names == ["add_float32_1", "endless_int32_1", "runtime", "shared_float32_32"]


def test_a_kernel_that_is_missing_is_named(program: Path, built: Path, tmp_path: Path) -> None:
    done = run(program, "more", CUKERN_BUNDLE=str(built))
    assert done.returncode == 1
    told = f"kernel multiply_float32_1 is not in the bundle {built}"
    assert f"DeviceError: {told}, and cannot be compiled: the host device needs a C++ compiler" in done.stderr
    code = f"""
import warnings, small_program, cukern as ck
bundle = ck.load_bundle({str(built)!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    small_program.main("more")
print([str(one.message) for one in caught], bundle.missing)
"""
    done = run(program, compiler=True, code=code, CUKERN_CACHE_DIR=str(tmp_path))
    said = [f"{told}: it is compiled, or taken from the cache"], ("multiply_float32_1",)
    assert done.stdout == f"[6.0, 8.0, 6.0]\n{PRINTED}{said[0]} {said[1]}\n", done.stderr


def test_kernels_are_looked_up_once_by_threads_and_forks(program: Path, built: Path) -> None:
    code = """
import os, sys, threading
import small_program, cukern as ck
from cukern.device import bundle_file, trust
found = []
real = bundle_file.BundleFile.find
def find(self, target, key):
    code = real(self, target, key)
    found.append(code.name)
    return code
bundle_file.BundleFile.find = find
start = threading.Barrier(8)
def work():
    start.wait()
    small_program.shared(x, ck.empty(3), 3)
x = ck.asarray([1.0, 2.0, 3.0])
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(sorted(name for name in found if not name.endswith((".cu", ".cuh")) and name[0] != "<"))
del found[:]
sys.stdout.flush()
if os.fork() == 0:
    small_program.main()
    print([name for name in found if not name.endswith((".cu", ".cuh"))])
    sys.stdout.flush()
    os._exit(0)
os.wait()
small_program.main()
"""
    done = run(program, code=code, CUKERN_BUNDLE=str(built))
    printed = ["['runtime', 'shared_float32_32']", PRINTED.strip(), "['add_float32_1']", PRINTED.strip()]
    assert done.stdout.splitlines() == printed, done.stderr


def test_a_kernel_that_is_stopped_needs_no_compiler(program: Path, built: Path) -> None:
    code = """
import small_program, cukern as ck
try:
    small_program.endless(ck.zeros(1, "int32"), grid=1)
except ck.KernelFault as error:
    print(error)
"""
    done = run(program, code=code, CUKERN_BUNDLE=str(built), CUKERN_KERNEL_TIMEOUT="0.2")
    assert "endless_int32_1: stopped, as it ran longer than 0.2 s" in done.stdout, done.stderr


def limits_of_a_gpu() -> Any:
    gpus = [device for device in ck.devices() if device.kind == "cuda"]
    return gpus[0].properties if gpus else pytest.skip("needs a GPU")


def test_a_gpu_runs_what_was_built_without_one(program: Path, tmp_path: Path) -> None:
    limits = limits_of_a_gpu()
    built = tmp_path / "b"
    arch = ["--arch", "sm_{}{}".format(*limits.compute_capability)]
    arch += ["--multiprocessors", str(limits.multiprocessors)]
    words = ["more", "captured", "jitted"]
    assert cli.main(["build", str(program), *arch, "--out", str(built), "--", *words]) == 0
    code = f"""
import cupy
real = cupy.RawModule
def loaded(*, code=None, path=None, options=()):
    assert path is not None, code
    return real(path=path)
cupy.RawModule = loaded
import small_program, cukern as ck
bundle = ck.load_bundle({str(built)!r})
small_program.main(*{words})
print(bundle.missing)
"""
    done = run(program, code=code, CUKERN_DEVICE="cuda:0")
    printed = ["[6.0, 8.0, 6.0]", str([1.523] * 4), str([1.182] * 4)]
    printed += [PRINTED.strip().replace("host", "cuda:0"), "()"]
    assert done.stdout.splitlines() == printed, done.stderr


def test_a_gpu_refuses_what_was_built_for_another(program: Path, tmp_path: Path) -> None:
    """At the first kernel, and with the reason, though the kernel could be compiled; another bundle's runs."""
    major, minor = limits_of_a_gpu().compute_capability
    other = "sm_80" if major != 8 else "sm_90"
    built = tmp_path / "b"
    assert cli.main(["build", str(program), "--arch", other, "--out", str(built), "--", "more"]) == 0
    code = f"""
import cukern as ck
bundle = ck.load_bundle({str(built)!r})
try:
    ck.ones(3) + 1
except ck.DeviceError as error:
    print(error)
bundle.close()
print((ck.ones(3) + 1).tolist())
"""
    done = run(program, code=code, CUKERN_DEVICE="cuda:0")
    refused, printed = done.stdout.splitlines()
    assert re.search(f"that run here: {other}: this GPU, .*, is of sm_{major}{minor}", refused), done.stderr
    assert printed == "[2.0, 2.0, 2.0]"


def test_the_variable_s_error_names_it(program: Path, tmp_path: Path) -> None:
    done = run(program, CUKERN_BUNDLE=str(tmp_path / "none"))
    assert "DeviceError: CUKERN_BUNDLE: [Errno 2] No such file or directory" in done.stderr
    assert "TemplateError" not in done.stderr


def test_an_error_in_a_bundle_s_template_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, tuple[str, bytes]] = {}
    monkeypatch.setattr(render.bytecode, "compiled", made)
    own = render.add_source("\n\nint x = << missing >>;\n", "of a bundle")
    said = []
    for find in (lambda key: None, lambda key: made[key][1]):
        monkeypatch.setattr(render.bytecode, "find", find)
        cache = render.environment().cache
        assert cache is not None
        cache.clear()
        for template in (own, "nn/linear_fused.cu"):
            with pytest.raises(ck.TemplateError) as error:
                render.render(template, {})
            said.append(str(error.value))
        monkeypatch.setattr(render.environment(), "compile", lambda *_: pytest.fail("it was compiled again"))
    cache.clear()
    assert said[:2] == said[2:]
    assert said[0].startswith("<of a bundle>, line 3: 'missing' is undefined")
    assert re.match(r"nn/linear_fused.cu, line \d+: ", said[1])


def test_a_template_that_was_found_in_a_bundle_is_in_the_next_one() -> None:
    """As where a program that is recorded loads the bundle that was built before."""
    made = []
    for find in (None, lambda key: made[0][key][1]):
        kept = bytecode.Bytecode()
        kept.compiled, kept.find = {}, find
        jinja2.Environment(loader=jinja2.DictLoader({"t": "x"}), bytecode_cache=kept).get_template("t")
        made.append(kept.compiled)
    assert made[0]
    assert made[0] == made[1]


def test_what_was_found_in_a_text_is_named_where_it_is_wrong(built: Path, tmp_path: Path) -> None:
    parts = BundleFile(built)
    codes = [replace(code, parsed={"name": 3} if code.parsed else {}) for code in parts.codes(0)]
    write(tmp_path / "odd", ck.__version__, [(parts.targets[0], codes)])
    made = ck.load_bundle(tmp_path / "odd")
    try:
        with pytest.raises(ck.DeviceError, match="odd: parsed: expected the result of parsing a text"):
            _shared().bind("host", elem="float32")
    finally:
        made.close()


def _shared() -> ck.Kernel:
    text = PROGRAM.partition("'''")[2].partition("'''")[0]
    return ck.Kernel(text, name="shared", block=32)


# ---------------------------------------------------------------- bundles of something else


def test_another_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "old", "0.0.1", [])
    with pytest.raises(
        ck.DeviceError, match=f"is of cukern 0.0.1, and this is {ck.__version__}: build it again"
    ):
        ck.load_bundle(tmp_path / "old")


def test_a_file_that_others_may_write_to_is_refused(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "open"
    path.write_bytes(built.read_bytes())
    path.chmod(0o666)
    trust._own_group.cache_clear()
    with pytest.raises(
        ck.DeviceError, match="is not loaded, as every user may write to .*open: a bundle is code"
    ):
        ck.load_bundle(path)


FLAGS = " ".join(processors._LEVELS.values())


@pytest.mark.parametrize(
    ("name", "facts", "flags", "reason"),
    [
        ("host", {}, FLAGS, None),
        ("host", {"processor": "another"}, FLAGS, "built for another processor"),
        ("host", {"runtime": "another"}, FLAGS, "another runtime of the host"),
        ("host", {"c library": "glibc 99.1"}, FLAGS, "needs the C library glibc 99.1 or later"),
        ("host", {"c library": "glibc 2.4"}, FLAGS, None),
        ("host", {"c library": "musl 1.2"}, FLAGS, "needs the C library musl 1.2"),
        ("host:x86-64-v3", {}, FLAGS, None),
        ("host:x86-64-v3", {}, FLAGS.replace("avx512f", ""), None),
        ("host:x86-64-v4", {}, FLAGS.replace("avx512f", ""), "built for x86-64-v4, and this processor has no avx512f"),
        ("host:x86-64-v3", {}, FLAGS.replace("fma", "").replace("abm", ""), "has no abm, fma"),
        ("host:x86-64-v2", {"level": "x86-64-v9"}, FLAGS, "built for x86-64-v9"),
    ],
)  # fmt: skip
def test_a_host_that_cannot_run_the_kernels_refuses_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, facts: Any, flags: str, reason: str | None
) -> None:
    for module in (compiler, processors):
        monkeypatch.setattr(module, "machine", lambda: f"x86_64\nflags : {flags}\n")
    monkeypatch.setattr(processors.platform, "machine", lambda: "x86_64")
    made = processors.target(name)
    write(
        tmp_path / "b",
        ck.__version__,
        [(Target(name, {**made.facts, **facts}), [Code("k", "a" * 64, b"code")])],
    )
    bundle = ck.load_bundle(tmp_path / "b")
    try:
        if reason is None:
            assert bundles.find("host", 0, "a" * 64, processors.why_not) is not None
            assert bundles.find("host", 0, "b" * 64, processors.why_not) is None
        else:
            with pytest.raises(ck.DeviceError, match=f"b has no kernels that run here: {name}: .*{reason}"):
                processors.bundled("text")
    finally:
        bundle.close()


@pytest.mark.parametrize(
    ("command", "option"),
    [(("g++",), "-march=x86-64-v3"), (("python", "-m", "ziglang", "c++"), "-march=x86_64_v3")],
)
def test_all_that_is_built_for_a_level_is_compiled_for_it(command: tuple[str, ...], option: str) -> None:
    """The runtime too: zig compiles for its own processor where it is not told."""
    found = compiler.Compiler(command, "", "x86-64-v3")
    for made in (found.kernel_command, found.header_command, found.runtime_command):
        assert option in made(Path("made"))
    own = compiler.Compiler(command, "").runtime_command(Path("made"))
    assert not [word for word in own if word.startswith("-march")]


def test_the_first_bundle_that_has_a_kernel_serves_it(tmp_path: Path) -> None:
    """One without kernels for the host is passed over; the latest one comes first."""
    own = processors.target("host")
    for name, target, code in (
        ("one", own, b"one"),
        ("two", own, b"two"),
        ("gpu", Target("sm_80", {}), b"gpu"),
    ):
        write(tmp_path / name, ck.__version__, [(target, [Code("k", "a" * 64, code)])])
    made = [ck.load_bundle(tmp_path / name) for name in ("one", "two", "gpu")]
    try:
        found = []
        for bundle in reversed(made):
            code = bundles.find("host", 0, "a" * 64, processors.why_not)
            found.append(code and code.payload)
            bundle.close()
        assert found == [b"two", b"two", b"one"]
        assert bundles.find("host", 0, "a" * 64, processors.why_not) is None
    finally:
        for bundle in made:
            bundle.close()


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--arch", "sm_1"], 1, "--arch: expected host, host:LEVEL or one of sm_70, .*got 'sm_1'"),
        (["--arch", "host:x86"], 1, "--arch: expected host or host: and one of x86-64, .*got 'host:x86'"),
        (["--arch", "host", "--multiprocessors", "3"], 2, "--multiprocessors: expected a positive number, with one"),
        (["--arch", "sm_80", "--shared-memory", "0"], 2, "--shared-memory: expected a positive number, .*got 0"),
    ],
)  # fmt: skip
def test_arguments_that_are_wrong(
    capsys: Any, program: Path, tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    assert cli.main(["build", str(program), "--out", str(tmp_path / "b"), *arguments]) == status
    assert re.search(message, capsys.readouterr().err)
    assert cli.main(["build", "--out", str(tmp_path / "b"), "--arch", "host"]) == 2
    assert "build: expected a program, or kernels by --list" in capsys.readouterr().err
    for out in (tmp_path, tmp_path / "nowhere" / "b"):
        assert cli.main(["build", str(program), "--out", str(out), "--arch", "host"]) == 2
        assert f"--out: expected a file in a folder that exists, got '{out}'" in capsys.readouterr().err


def test_a_program_that_fails_makes_no_bundle(
    capfd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    for name, text, message in (
        ("fails.py", "import sys; sys.exit(3)", "the program ended with status 3: no bundle is written"),
        ("fails", "assert __name__ == '__main__'; 1 / 0", "ZeroDivisionError"),
        ("fails", "def load():\n    open('nowhere')\nload()", ", in load\n"),
    ):
        (tmp_path / "fails.py").write_text(text)
        out = tmp_path / "b"
        assert cli.main(["build", name, "--arch", "host", "--out", str(out)]) == 1
        assert message in capfd.readouterr().err
        assert not out.exists()


def test_a_processor_takes_the_highest_of_its_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def record(name: str, path: Path, options: object) -> int:
        write(path, ck.__version__, [(Target(name, {}), []), (Target("templates", {}), [])])
        return 0

    monkeypatch.setattr(build, "_record", record)
    arch = "host:x86-64-v2,sm_80,host:x86-64-v4,sm_90,host"
    assert cli.main(["build", "p", "--arch", arch, "--out", str(tmp_path / "b")]) == 0
    names = [target.name for target in BundleFile(tmp_path / "b").targets]
    assert [name for name in names if name[0] == "h"] == ["host", "host:x86-64-v4", "host:x86-64-v2"]
    assert [name for name in names if name[0] == "s"] == ["sm_80", "sm_90"]


def test_a_program_finds_its_modules_where_python_adds_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").touch()
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").write_text("import beside\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    out = tmp_path / "b"
    assert (
        cli.main(["build", str(tmp_path / "program" / "main.py"), "--arch", "host", "--out", str(out)]) == 0
    )


def test_a_kernel_that_does_not_compile_is_not_recorded() -> None:
    """The program may go on without it."""
    recording = Recording()
    with pytest.raises(CompilerFailure):
        RecordedHost(recording).compile(0, parse('extern "C" __global__ void k(int* x) { x[0] = missing; }'))
    assert recording.units() == []


def test_listed_kernels_are_built(capfd: Any, tmp_path: Path) -> None:
    (tmp_path / "own.cu").write_text(
        'extern "C" __global__ void << name >>(<< elem >>* x) { x[0] = << value >>; }\n'
    )
    (tmp_path / "kernels").write_text(
        f"# a comment\n\n{tmp_path / 'own.cu'} elem=double value=1.5 block=64\n"
    )
    arguments = ["build", "--list", str(tmp_path / "kernels"), "--arch", "host", "--out", str(tmp_path / "b")]
    assert cli.main(arguments) == 0
    assert [code.name for code in BundleFile(tmp_path / "b").codes(0)] == ["own_float64_64", "runtime"]
    (tmp_path / "kernels").write_text("\nnone.cu elem=double\n")
    assert cli.main(arguments) == 1
    assert "kernels, line 2: no template named 'none.cu'" in capfd.readouterr().err
