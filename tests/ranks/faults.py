"""Run by two ranks of a test, one of which is killed. Arguments: how, and a folder."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck
from cukern import distributed as cd
from cukern.distributed import checkpoint

STEPS = 4
VALUES = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)


def trained(folder: Path, steps: int, killed_at: int | None = None) -> list[float]:
    """Train from the last checkpoint on, with one after each step; the loss of each step made."""
    world = cd.init(timeout=30)
    net = ck.nn.Linear(3, 2, rng=0)
    training = cd.DataParallel(ck.optim.Adam(net, lr=0.1), shard=1)
    sampler = cd.Sampler(len(VALUES), batch=4, seed=2)
    step = 0
    if cd.last_checkpoint(folder) is not None:
        saved = cd.load_checkpoint(folder)
        step, sampler.state = saved.step, saved.texts["sampler"]
        cd.load_model_state(net, saved.under("model"))
        training.load_state_dict(saved.under("optimizer"))
    losses: list[float] = []
    while step < steps:
        for batch in sampler:
            with ck.Tape() as tape:
                loss = ck.mean(net(ck.asarray(VALUES[batch])) ** 2)
            training.step(training.gradient(tape, loss))
            losses.append(cd.all_reduce(loss, "mean").item())
            step += 1
            if step == killed_at and world.rank == 1:
                checkpoint.save_safetensors = lambda *given: (ck.save_safetensors(*given), dies())
            state: dict[str, Any] = {f"model.{name}": one for name, one in cd.model_state(net).items()}
            state |= {f"optimizer.{name}": one for name, one in training.state_dict().items()}
            cd.save_checkpoint(folder, step, state, texts={"sampler": sampler.state})
            if step == steps:
                break
    return losses


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_in_a_collective() -> None:
    world = cd.init(timeout=30)
    cd.all_reduce(ck.zeros(3)).tolist()  # until then the other rank may be in this one
    if world.rank == 1:
        dies()
    cd.all_reduce(ck.zeros((2, 2)))


def killed_in_a_known_one() -> None:
    """On GPUs ranks meet at the first call of a form alone: of later ones NCCL knows."""
    world = cd.init(timeout=30)
    for number in range(3):
        if number == 2 and world.rank == 1:
            dies()
        cd.all_reduce(ck.zeros(3)).tolist()


def killed_where_nobody_reads() -> None:
    """The program of the other rank is at its end when it learns of it."""
    world = cd.init(timeout=30)
    for number in range(3):
        if number == 2 and world.rank == 1:
            dies()
        made = cd.all_reduce(ck.zeros(3))
        if number < 2:
            made.tolist()


def killed_in_a_captured_step() -> None:
    world = cd.init(timeout=30)
    step = ck.capture(lambda x: cd.all_reduce(x) * 2)
    for number in range(5):
        if number == 4 and world.rank == 1:
            dies()
        step(ck.ones(3)).tolist()


def leaves(rank: str, how: str) -> None:
    """A rank ends by itself; the other learns of it in a collective."""
    world = cd.init(timeout=30)
    cd.all_reduce(ck.zeros(3)).tolist()
    if world.rank == int(rank):
        if how == "exit":
            sys.exit(3)
        elif how == "raise":
            raise KeyError("lost")
        os._exit(4)
    cd.all_reduce(ck.zeros((2, 2))).tolist()


def full_for_one(folder: str) -> None:
    """A checkpoint of which rank 1 cannot write its part."""
    world = cd.init(timeout=30)
    x = ck.ones(1 << 15)
    sys.dont_write_bytecode = True  # it would be cut
    if world.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
    try:
        cd.save_checkpoint(folder, 1, {"x": x})
    except OSError as error:
        print("told:", error)


def late(seconds: str) -> None:
    world = cd.init(timeout=float(seconds))
    for number in range(3):
        if number == 2 and world.rank == 1:
            time.sleep(60)
        cd.all_reduce(ck.ones(3)).tolist()


def late_for_a_captured_step(seconds: str) -> None:
    world = cd.init(timeout=float(seconds))
    step = ck.capture(lambda x: cd.all_reduce(x) * 2)
    for number in range(5):
        if number == 4 and world.rank == 1:
            time.sleep(60)
        step(ck.ones(3)).tolist()


def another_shape() -> None:
    world = cd.init(timeout=30)
    cd.all_reduce(ck.zeros(3))
    cd.all_reduce(ck.zeros((2, 3) if world.rank == 1 else (2, 2)))


if __name__ == "__main__":
    if sys.argv[1] == "checkpoint":
        trained(Path(sys.argv[2]), STEPS, killed_at=3)
    else:
        globals()[sys.argv[1]](*sys.argv[2:])
