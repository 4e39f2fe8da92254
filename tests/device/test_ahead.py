"""What will soon be launched is compiled on a second thread of the host."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from cukern.device import ahead

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores: on one nothing is compiled ahead"
)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_will_be_launched_is_compiled_beside_what_is() -> None:
    """In a process that has made no kernel yet: the derivatives of what a tape records, and a step."""
    program = """
import sys, threading
import numpy as np
import cukern as ck
from cukern import nn
from cukern.device import ahead

scope = ck.device("host")  # which ends when nothing names it
scope.__enter__()
host, built = sys.modules[type(ck.Device("host").backend).__module__], []
real = host.Host.compile
host.Host.compile = lambda *args: built.append(threading.current_thread().name) or real(*args)

weight = nn.Parameter(ck.ones(19))
for function in (
    ck.fuse(lambda x: x / (1 + abs(x) * 1.25)),
    ck.softmax,
    lambda x: nn.layer_norm(x, 19, weight),
    lambda x: nn.cross_entropy(x, ck.zeros(40, dtype="i2")),
):
    x = ck.asarray(np.random.default_rng(0).standard_normal((40, 19)), dtype="f4")
    with ck.Tape() as tape:
        tape.watch(x)
        y = function(x + 1)
    given = ck.ones(y.shape)
    ahead.settle()
    assert "cukern compiler" in built, built
    del built[:]
    assert np.isfinite(tape.gradient(y, x, given).numpy()).all()
    assert not built, built

optimizer = ck.optim.RMSprop([{"params": [weight], "momentum": 0.5}])
ahead.settle()
optimizer.step([ck.ones(19)])
assert built == ["cukern compiler"], built
"""
    run(program)


def test_the_last_job_comes_first_and_failures_are_left_to_others() -> None:
    done: list[int] = []
    first, go = threading.Event(), threading.Event()

    def begin() -> None:
        first.set()
        go.wait()

    def fail() -> None:
        done.append(0)
        raise RuntimeError

    ahead.ahead(begin)
    first.wait()
    for job in (lambda: done.append(2), lambda: done.append(1), fail):
        ahead.ahead(job)
    go.set()
    ahead.settle()
    assert done == [0, 1, 2]


def test_one_core_compiles_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    done: list[int] = []
    ahead.ahead(lambda: done.append(1))
    ahead.settle()
    assert not done


def test_a_fork_waits_for_the_job_that_runs() -> None:
    program = """
import os, threading
from cukern.device.ahead import ahead, settle
lock, begun = threading.Lock(), threading.Event()

def job():
    with lock:
        begun.set()
        threading.Event().wait(0.2)

ahead(job)
begun.wait()
child = os.fork()
with lock:  # held by a thread that the child has not, if the fork came in between
    ahead(lambda: os.write(1, b"child\\n" if child == 0 else b"parent\\n"))  # whole, beside the other's
settle()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert sorted(run(program).split()) == ["child", "parent"]


def test_a_fork_while_kernels_are_compiled() -> None:
    """By the worker, which waits for a file's lock as the fork begins, and by a thread of the user's."""
    program = """
import os, tempfile, threading
os.environ["CUKERN_CACHE_DIR"] = tempfile.mkdtemp()
import cukern as ck

scope = ck.device("host")
scope.__enter__()
x = ck.asarray([1.0, 2.0])
ck.sin(x)
with ck.Tape() as tape:
    tape.watch(x)
    ck.fuse(lambda x: ck.sin(x) * ck.exp(ck.cos(x)))(x)
kernel = ck.Kernel('extern "C" __global__ void k(<< elem >>* y, int n) { y[0] = n; }')
other = threading.Thread(target=lambda: kernel.bind(elem=ck.float64))
other.start()
child = os.fork()
with ck.device("host"):
    kernel.bind(elem=ck.float64)
os.write(1, b"child\\n" if child == 0 else b"parent\\n")
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert sorted(run(program).split()) == ["child", "parent"]


def test_where_no_thread_may_be_started_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    ahead.ahead(lambda: None)
    assert ahead._worker is None and not ahead._jobs


def test_python_ends_without_what_nobody_waits_for() -> None:
    program = """
import time
from cukern.device.ahead import ahead
for i in range(200):
    ahead(lambda: (time.sleep(0.05), print("one", flush=True)))
"""
    assert run(program).count("one") < 200
