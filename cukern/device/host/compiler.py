"""The host's C++ compiler: its choice, its command lines, and the cache of its results."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...errors import DeviceError
from ...text import DEFAULT_STD, standard
from ..disk_cache import DiskCache, default_folder
from ..interface import CompilerFailure
from .settings import compiler_limits

#: The names of CUDA C++ for the host's compiler, and the runtime that launches kernels.
RUNTIME = Path(__file__).parent / "runtime"
#: The only header that a kernel's C++ includes directly, before any other text.
HEADER = "cukern_kernel.h"

_IS_X86 = platform.machine() in ("x86_64", "AMD64")
_FLAGS = shlex.split(f"-std={DEFAULT_STD} -shared -fPIC -pipe -fvisibility=hidden -fno-exceptions -fno-rtti")
_OPTIMISED, _QUICK = "-O3", "-O1"
# GCC's -Og leaves out the passes over loops, in a tenth less time than -O1. Without inlining kernels are slow.
_GCC_QUICK = shlex.split("-Og -finline-functions-called-once -finline-small-functions")
# Some systems' compilers add guards of stacks and buffers by default, which are calls of the C library.
# No fast-math: NaN and infinity behave as in NumPy, and all levels give the same bits of whatever C++ gives a value.
# Pointers may be cast as freely as in CUDA.
_KERNEL_FLAGS = [
    *shlex.split("-fno-stack-protector -U_FORTIFY_SOURCE"),
    *shlex.split("-fno-plt -fno-math-errno -fno-trapping-math -ffp-contract=off"),
    # By default compilers avoid 512-bit vectors, with which elementwise functions are faster.
    *(["-mprefer-vector-width=512"] if _IS_X86 else []),
    "-fno-strict-aliasing",
    "-Wno-attributes",
    "-Wno-narrowing",  # which compilers for GPUs take, as of 0xffffffff in the braces of an int
    f"-I{RUNTIME}",
    f"-I{RUNTIME / 'include'}",
]
# Elements of tables are loaded one by one: instructions that gather them are slower on AMD's processors, and on Intel's
# since the microcode of 2023. GCC knows these names from version 12 on.
_GCC_NO_GATHERS = "-mtune-ctrl=^use_gather,^use_gather_2parts,^use_gather_4parts"
_FIRST_WITHOUT_GATHERS = 12
# Compiled in half the time of -O2; tail calls make the switches between fibers as fast.
_RUNTIME_FLAGS = ["-O1", "-foptimize-sibling-calls", "-pthread", f"-I{RUNTIME}"]
# Kernels do not use the C++ library, and linking its start-up files costs time. A thread has
# 512 KB of local memory, as in CUDA. Functions that the entry point does not reach are left out. A process may have
# 65,530 mappings (vm.max_map_count): a kernel's library needs two of them this way, and five by the linker's defaults.
_GCC_KERNEL = [
    *shlex.split("-fwhole-program -Werror=frame-larger-than=524288 -nostartfiles -nodefaultlibs"),
    "-fno-isolate-erroneous-paths-dereference",  # a division by what is always zero keeps its line
    # By default a loop is made into vectors only if 10 pairs of pointers are to be compared: derivatives have more.
    "--param=vect-max-version-for-alias-checks=100",
    # Else a function of which `where` takes some values moves into a branch, and such loops are not made into vectors.
    "-fno-tree-sink",
    *shlex.split("-Wl,-z,noseparate-code,-z,norelro -lm -lc -lgcc"),
]
# The process has the C library, and what these kernels call of it: reading its symbols is a twentieth of a quick build.
_GCC_QUICK_KERNEL = [word for word in _GCC_KERNEL if word != "-lc"]
# Products of a warpgroup identify registers by the addresses of variables, which two variables may not share then.
_GCC_APART, _CLANG_APART = ["-fstack-reuse=none"], ["-Xclang", "-disable-lifetime-markers"]
_KNOWS_REGISTERS = "gives_registers("
_CLANG_KERNEL = [
    *shlex.split("-Wframe-larger-than=524288 -Werror=frame-larger-than -nostdlib++ -lm"),
    "-UNDEBUG",  # zig defines NDEBUG when it optimises
]
_CLANG_RUNTIME = ["-nostdlib++"]
# Of a checked launch: each access and each undefined operation calls the runtime, which has those functions.
_LINES = [
    "-g1",
    "-gdwarf-4",
]  # of DWARF 5 addr2line (2.40) takes another file's name for a text's first function
_CHECKED = ["-DCUKERN_CHECKED", "-O1", *_LINES]
_WATCHED = "alignment,signed-integer-overflow,shift-exponent,integer-divide-by-zero"
_GCC_CHECKED = [
    f"-fsanitize=thread,bounds,unreachable,{_WATCHED}",
    *shlex.split("--param tsan-distinguish-volatile=1 --param tsan-instrument-func-entry-exit=0"),
    *shlex.split("-Wmaybe-uninitialized -Wuninitialized"),
    "-fno-var-tracking",  # which is for debuggers, and takes a tenth of the time
]
# Of a user's kernels: accesses by pointers to local arrays; a branch that sets a variable stays one, where GCC would
# take what it sets for the variable's value in the others too; and a load of a float4 stays one, not four of float.
_GCC_CHECKED_MORE = shlex.split("-fsanitize=object-size -fno-tree-ccp -fno-tree-fre -fno-tree-sra")
# Of the library's own: tests of overflow and bounds that cannot fail are dropped, and floats kept around calls.
_GCC_CHECKED_TRUSTED = shlex.split("-ftree-vrp -fcaller-saves -frerun-cse-after-loop -fgcse")
_CLANG_CHECKED = [
    # Past the driver, which would link the runtimes of these.
    *(
        word
        for flag in (
            f"-fsanitize=thread,array-bounds,{_WATCHED}",
            f"-fsanitize-recover=array-bounds,{_WATCHED}",
        )
        for word in ("-Xclang", flag)
    ),
    *shlex.split("-mllvm -tsan-distinguish-volatile=1 -mllvm -tsan-instrument-func-entry-exit=0"),
    *shlex.split("-mllvm -tsan-instrument-read-before-write=1 -Wuninitialized -Wconditional-uninitialized"),
    "-fno-optimize-sibling-calls",  # the return address of a call is the place in the kernel
    # Before version 15 copies call these functions of the C library, not those that watch them.
    *shlex.split("-Wl,--wrap=memcpy -Wl,--wrap=memmove -Wl,--wrap=memset"),
]
_CLANG_CHECKED_MORE = shlex.split("-Xclang -fsanitize=object-size -Xclang -fsanitize-recover=object-size")
# The runtime is told of each branch.
_GCC_PATHS = ["-fsanitize-coverage=trace-pc"]
_CLANG_PATHS = shlex.split("-Xclang -fsanitize-coverage-type=3 -Xclang -fsanitize-coverage-trace-pc")
#: The runtime of checked launches, as the dynamic linker knows it.
_CHECKED_NAME = "cukern_checked"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, its version text, the processor for which it compiles kernels, whether their
    variables have addresses of their own, and their version of C++.
    """

    command: tuple[str, ...]
    version: str
    march: str = "native"
    apart: bool = False
    std: str = DEFAULT_STD

    @property
    def is_gcc(self) -> bool:
        return "Free Software Foundation" in self.version

    @property
    def _processor(self) -> list[str]:
        is_zig = any(Path(word).name in ("zig", "ziglang") for word in self.command)
        march = f"-march={self.march.replace('-', '_') if is_zig else self.march}"
        number = re.search(r" (\d+)\.\d+", self.version.partition("\n")[0])
        knows = self.is_gcc and number is not None and int(number[1]) >= _FIRST_WITHOUT_GATHERS
        return [march, _GCC_NO_GATHERS] if _IS_X86 and knows else [march]

    def checked_command(
        self,
        output: Path,
        runtime: Path,
        precompiled: Path | None = None,
        trusted: bool = False,
        paths: bool = False,
    ) -> list[str]:
        """:meth:`kernel_command` for checked launches by the runtime in the file ``runtime``."""
        # The process has the C library, as for quick builds.
        command = [word for word in self.kernel_command(output, precompiled) if word != "-lc"]
        if self.is_gcc:
            more = _GCC_CHECKED_TRUSTED if trusted else _GCC_CHECKED_MORE
        else:
            more = [] if trusted else _CLANG_CHECKED_MORE
        more = [*more, *((_GCC_PATHS if self.is_gcc else _CLANG_PATHS) if paths else [])]
        link = ["-x", "none", str(runtime), "-Wl,--no-as-needed"]
        return [*command, *self._checked, *more, *link]

    @property
    def _checked(self) -> list[str]:
        return [*_CHECKED, *(_GCC_CHECKED if self.is_gcc else _CLANG_CHECKED)]

    def kernel_command(
        self, output: Path, precompiled: Path | None = None, lines: bool = False, level: str = _OPTIMISED
    ) -> list[str]:
        """The command that compiles a kernel from standard input to the shared library ``output``.

        Args:
            precompiled: the folder of the precompiled header, which GCC uses if it fits.
            lines: whether to add a line table.
            level: the option of the optimisation; GCC's quick builds have others in its place.
        """
        gcc = _GCC_QUICK_KERNEL if level == _QUICK else _GCC_KERNEL
        own = [*(gcc if self.is_gcc else _CLANG_KERNEL), *(_LINES if lines else [])]
        if self.apart:
            own += _GCC_APART if self.is_gcc else _CLANG_APART
        include = [] if precompiled is None else [f"-I{precompiled}"]
        include += self._std
        command = [*self.command, *_FLAGS, *include, *self._level(level), *self._processor, *_KERNEL_FLAGS]
        return [*command, "-x", "c++", "-", "-o", str(output), *own, *kernel_options]

    @property
    def _std(self) -> list[str]:
        return [] if self.std == DEFAULT_STD else [f"-std={self.std}"]

    def _level(self, level: str) -> list[str]:
        return _GCC_QUICK if self.is_gcc and level == _QUICK else [level]

    def header_command(self, output: Path, level: str = _OPTIMISED, checked: bool = False) -> list[str]:
        """The command that precompiles :data:`HEADER` to ``output``; GCC only."""
        command = [
            *self.command,
            *_FLAGS,
            *self._std,
            *self._level(level),
            *self._processor,
            *_KERNEL_FLAGS,
            "-fwhole-program",
        ]
        command += self._checked if checked else []
        return [*command, "-x", "c++-header", str(RUNTIME / HEADER), "-o", str(output)]

    def runtime_command(self, output: Path, checked: bool = False) -> list[str]:
        """The command that compiles the runtime to ``output``, or that of checked launches."""
        own = [] if self.is_gcc else _CLANG_RUNTIME
        if checked:
            own = [
                *own,
                "-O2",
                f"-I{RUNTIME / 'checked'}",
                f"-Wl,-soname,{_CHECKED_NAME}",
                "-Wno-unused-function",
            ]
        if self.march != "native":  # zig's default is the processor that it runs on
            own = [*own, *self._processor]
        return [*self.command, *_FLAGS, *_RUNTIME_FLAGS, "-x", "c++", "-", "-o", str(output), *own]


#: A shell that runs a compiler. Arguments: the read end of a pipe, seconds of CPU time, KiB of memory, the command.
#: Python holds the pipe's write end. When that closes, also because Python was killed, a second process ends the whole
#: process group, and with it what the compiler started. The limit of CPU time is soft: its signal, SIGXCPU, shows in
#: the compiler's message, where a hard limit kills without a reason. Without /proc only the limits remain.
_GUARD = """
lifeline=/proc/self/fd/$1; { ulimit -c 0; ulimit -S -t $2; ulimit -d $3; } 2>/dev/null; shift 3
(exec <$lifeline || exit; read -r end; kill -9 0) </dev/null >/dev/null 2>&1 & guard=$!
"$@"; status=$?
kill -9 $guard 2>/dev/null; exit $status
"""
#: The open ends of those pipes. A process that is forked meanwhile has them too, and must not keep its parent's
#: compilers alive.
_lifelines: set[int] = set()


def _drop_lifelines() -> None:
    for end in _lifelines:
        os.close(end)
    _lifelines.clear()


os.register_at_fork(after_in_child=_drop_lifelines)

#: Options of the compiler for kernels of this process besides its own, for programs whose kernels are not trusted.
kernel_options: list[str] = []

#: What compiles in the place of this process, which may start no other one: see cukern/testing/judging/confined.py.
elsewhere: Callable[..., Mapping[str, Any]] | None = None

#: Messages of compilers that were refused memory.
_NO_MEMORY = re.compile(
    r"out of memory|memory exhausted|bad_alloc|Cannot allocate memory|unable to allocate", re.I
)
_NO_TIME = re.compile(r"CPU time limit exceeded", re.I)
#: Messages of compilers that another process has killed, or of their shell.
_KILLED = re.compile(r"Killed signal|command: Killed|^Killed$", re.M)


def _run(command: Sequence[str], source: str, output: Path) -> str:
    """Run a compiler; return its messages."""
    # zig keeps its own cache, by default in the home folder, which may be read-only.
    zig = str(output.parent.parent / "zig")
    # The compiler's heap grows by 1 MiB at a time, which saves system calls and page faults.
    heap = {"MALLOC_TOP_PAD_": str(2**20)}
    environment = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig, **heap, **os.environ}
    seconds, gibibytes = compiler_limits()
    ended, lifeline = os.pipe()
    _lifelines.add(lifeline)
    limits = [str(limit) if limit else "unlimited" for limit in (math.ceil(seconds), int(gibibytes * 2**20))]
    try:
        # A process group of its own, so that Ctrl-C reaches Python only.
        done = subprocess.run(
            ["/bin/sh", "-c", _GUARD, "sh", str(ended), *limits, *command],
            input=source,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            process_group=0,
            pass_fds=[ended],
            timeout=seconds or None,
        )
    except subprocess.TimeoutExpired:
        raise _too_long(command, seconds) from None
    finally:
        _lifelines.discard(lifeline)
        os.close(lifeline)
        os.close(ended)
    if done.returncode and os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(output))
    if done.returncode and gibibytes and _NO_MEMORY.search(done.stderr):
        raise DeviceError(
            f"{command[0]} was refused memory: the limit is {gibibytes:g} GiB, which CUKERN_COMPILER_MEMORY sets "
            "(0 for none). The kernel's text asks too much of it"
        )
    if done.returncode and seconds and _NO_TIME.search(done.stderr):
        raise _too_long(command, seconds)
    if done.returncode and _KILLED.search(done.stderr):
        raise DeviceError(
            f"{command[0]} was killed by another process: by the system itself, if memory ran out before "
            f"{gibibytes:g} GiB, the limit that CUKERN_COMPILER_MEMORY sets (0 for none)"
        )
    if not done.returncode and not output.stat().st_size:
        raise DeviceError(f"{command[0]} made no file, so it is not a C++ compiler: CXX may name another")
    if done.returncode and not _compiles(compiler().command):
        raise DeviceError(
            f"{shlex.join(compiler().command)} is not a C++ compiler that works here, as it does not compile an "
            "empty text: CXX may name another"
        )
    if done.returncode:
        raise CompilerFailure(done.stderr or f"{shlex.join(command)} ended with status {done.returncode}")
    return done.stderr


def _too_long(command: Sequence[str], seconds: float) -> DeviceError:
    return DeviceError(
        f"{command[0]} took more than {seconds:g} s, the limit that CUKERN_COMPILER_TIMEOUT sets (0 for none). "
        "The kernel's text asks too much of it, or the machine is very busy"
    )


def _compiles(command: tuple[str, ...]) -> bool:
    """Whether a command compiles an empty text; asked anew after each failure, as one for want of memory passes."""
    done = subprocess.run([*command, "-x", "c++", "-fsyntax-only", "-"], input=b"", capture_output=True)
    return not done.returncode


def _try_compiler(command: Sequence[str]) -> Compiler | None:
    if not command or shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
            raise DeviceError(f"{command[0]} could not be started: {error.strerror}") from error
        return None
    return None if done.returncode else Compiler(tuple(command), done.stdout.strip())


@cache
def _find(chosen: str | None, path: str | None) -> Compiler:
    if chosen:
        try:
            named = _try_compiler(shlex.split(chosen))
        except ValueError:  # an unclosed quotation mark
            named = None
        if named is None:
            raise DeviceError(f"CXX is {chosen!r}, which is not a compiler that runs here")
        return named
    for name in ("c++", "g++", "clang++"):
        if candidate := _try_compiler([name]):
            return candidate
    zig = [sys.executable, "-m", "ziglang", "c++"]
    if importlib.util.find_spec("ziglang") and (candidate := _try_compiler(zig)):
        return candidate
    raise DeviceError(
        "the host device needs a C++ compiler and found none: install the system's (g++ or clang++; the "
        'environment variable CXX may name another), or run: pip install "cukern[zig]"'
    )


def compiler() -> Compiler:
    """The C++ compiler: ``$CXX``, or the first of c++, g++, clang++ and ziglang that is installed.

    Raises:
        DeviceError: there is none.
    """
    return _find(os.environ.get("CXX"), os.environ.get("PATH"))


@cache
def machine() -> str:
    """A description of this processor and C library, because machines may share a cache."""
    lines = []
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if not line.strip():
                    break
                if line.startswith(("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")):
                    lines.append(line)
    except OSError:
        lines.append(platform.processor())
    return "".join([platform.machine(), "\n", " ".join(platform.libc_ver()), "\n", *lines])


@cache
def _headers_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in RUNTIME.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(RUNTIME)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def runtime_text() -> str:
    """The source of the runtime, with a line of its headers' hash."""
    return f"{(RUNTIME / 'runtime.cpp').read_text()}\n// {_headers_hash()}\n"


@cache
def _cache(folder: Path) -> DiskCache:
    return DiskCache(folder)


def _key(compiler: Compiler, options: list[str], source: str) -> str:
    """A hash of everything on which the result of compiling ``source`` depends.

    Args:
        options: the command without the result's own path.
    """
    # The hash depends on the content of the package's folder, not on its path in the command.
    text = " ".join(options).replace(str(RUNTIME), "")
    parts = "\0".join((text, compiler.version, machine(), _headers_hash(), source))
    return hashlib.sha256(parts.encode()).hexdigest()


def _files() -> DiskCache:
    return _cache(default_folder() / "host")


def _compiled(compiler: Compiler, command: Callable[[Path], list[str]], source: str, name: str = "") -> Path:
    """What a command makes of a source, from the cache or compiled; ``name`` is that of a file in a folder."""
    key = _key(compiler, command(Path()), source)
    return _files().get(key + name, lambda path: _run(command(path), source, path))


@cache
def _precompiled(
    compiler: Compiler, folder: Path, level: str = _OPTIMISED, checked: bool = False
) -> Path | None:
    """The folder of the precompiled :data:`HEADER`; None if the compiler cannot use one."""
    if not compiler.is_gcc:
        return None

    try:
        command = partial(compiler.header_command, level=level, checked=checked)
        return _compiled(compiler, command, "", f"/{HEADER}.gch").parent
    except (CompilerFailure, DeviceError):
        return None


def precompile() -> None:
    """Precompile the header that all kernels share, if the compiler can, for quick builds.

    Raises:
        DeviceError: there is no compiler.
    """
    _precompiled(compiler(), default_folder(), _QUICK)


def _compiler_of(source: str, march: str = "native") -> Compiler:
    return replace(compiler(), march=march, apart=_KNOWS_REGISTERS in source, std=standard(source))


def build(source: str, level: str, lines: bool, march: str = "native") -> Path:
    """:func:`build_kernel`, with the option of the optimisation."""
    if elsewhere is not None:
        return Path(elsewhere(what="kernel", source=source, level=level, lines=lines, march=march)["path"])
    compiler = _compiler_of(source, march)

    def make(path: Path) -> None:
        if not lines and (precompiled := _precompiled(compiler, default_folder(), level)):
            # If the precompiled header causes the failure, the plain compilation below succeeds; else it reports it.
            with suppress(CompilerFailure):
                _run(compiler.kernel_command(path, precompiled, level=level), source, path)
                return
        _run(compiler.kernel_command(path, lines=lines, level=level), source, path)

    return _files().get(
        _key(compiler, compiler.kernel_command(Path(), lines=lines, level=level), source), make
    )


def build_kernel(source: str, lines: bool = False, march: str = "native") -> Path:
    """The shared library of a kernel's C++, from the cache or compiled.

    Args:
        source: the C++.
        lines: whether to add a line table.
        march: the processor for which to compile, in the compiler's words.

    Raises:
        CompilerFailure: the compiler refuses it.
        DeviceError: there is no compiler.
    """
    return build(source, _OPTIMISED, lines, march)


def find_kernel(source: str) -> Path | None:
    """The library that :func:`build_kernel` has built of ``source``, if the cache has it."""
    compiler = _compiler_of(source)
    return _files().find(_key(compiler, compiler.kernel_command(Path()), source))


def build_quickly(source: str) -> Path:
    """A library that computes the same bits as that of :func:`build_kernel`, built sooner, and slower; raises as it."""
    return build(source, _QUICK, False)


#: Between the library of a kernel for checked launches and the compiler's messages, which are appended to it.
_SAYS = b"\0cukern: the compiler says\0"


def build_checked(source: str, runtime: Path, trusted: bool = False, paths: bool = False) -> tuple[Path, str]:
    """The shared library of a kernel for checked launches, and the compiler's warnings; raises as :func:`build_kernel`.

    Args:
        source: the C++.
        runtime: the library of the runtime of checked launches.
        trusted: whether it is a kernel of the library's own, which is watched a little less, and faster.
        paths: whether its branches are watched.
    """
    if elsewhere is not None:
        made = elsewhere(what="checked", source=source, trusted=trusted, paths=paths)
        return Path(made["path"]), str(made["said"])
    compiler = _compiler_of(source)

    def make(path: Path) -> None:
        precompiled = _precompiled(compiler, default_folder(), checked=True)
        said = _run(compiler.checked_command(path, runtime, precompiled, trusted, paths), source, path)
        with path.open("ab") as file:
            file.write(_SAYS + said.encode() + b"\0")

    command = compiler.checked_command(Path(), Path(), trusted=trusted, paths=paths)
    path = _files().get(_key(compiler, command, source), make)
    return path, path.read_bytes().rpartition(_SAYS)[2].partition(b"\0")[0].decode(errors="replace")


def build_runtime(checked: bool = False, march: str = "native") -> Path:
    """The shared library of the runtime, or that of checked launches, as :func:`build_kernel`."""
    chosen = replace(compiler(), march=march)
    source = (RUNTIME / "checked/checked.cpp").read_text() if checked else runtime_text()

    # zig links a file only if its name says what it is.
    name = f"/{_CHECKED_NAME}.so" if checked else ""
    return _compiled(chosen, partial(chosen.runtime_command, checked=checked), source, name)


def frames(path: Path, places: Sequence[int]) -> list[list[str]]:
    """The lines of the source, of the innermost function first, at each place in a library; empty without addr2line."""
    if elsewhere is not None:
        return list(elsewhere(what="lines", path=str(path), places=list(places))["frames"])
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not places or tool is None:
        return [[] for _ in places]
    command = [tool, "-a", "-i", "-e", str(path), *map(hex, places)]
    found: list[list[str]] = []
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("0x"):
            found.append([])
        else:
            found[-1].append(line)
    return found + [[] for _ in places[len(found) :]]
