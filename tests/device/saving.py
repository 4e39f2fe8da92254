"""A process that saves until it is killed, or whose files may not grow. Arguments: which of the two, and a folder."""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cukern as ck
from cukern import files
from cukern.device import bundle_file

#: Bytes that a file may have on what stands for a full disk, and elements of an array that has more.
ROOM, SIZE = 1 << 12, 1 << 14


def savers() -> dict[str, Callable[[Path, ck.Array], Any]]:
    """Every function that writes a file, by the name of its file."""
    found: dict[str, Callable[[Path, ck.Array], Any]] = {
        "x.npy": ck.save,
        "x.npz": lambda path, x: ck.savez(path, x=x, y=x),
        "small.npz": lambda path, x: ck.savez_compressed(path, x=x, y=ck.random.default_rng(0).random(SIZE)),
        "x.safetensors": lambda path, x: ck.save_safetensors(path, {"x": x}),
        "x.pickle": lambda path, x: x.dump(path),
        "x.bin": lambda path, x: x.tofile(path),
        "x.csv": lambda path, x: x.tofile(path, ","),
        "x.txt": ck.savetxt,
        "x.txt.gz": lambda path, x: ck.savetxt(path, ck.random.default_rng(0).random(x.size)),
        "module.safetensors": lambda path, x: _module(x).save(path),
        "x.ckb": lambda path, x: bundle_file.write(
            path, "1", [(bundle_file.Target("host", {}), [bundle_file.Code("k", "0" * 64, x.tobytes())])]
        ),
        "x.html": lambda path, x: files.write_text(path, x.tobytes().hex()),
    }
    try:
        import gguf  # noqa: F401
    except ImportError:
        return found
    return {**found, "x.gguf": lambda path, x: ck.save_gguf(path, {"x": x})}


def _module(x: ck.Array) -> ck.nn.Module:
    module = ck.nn.Module()
    module.x = ck.nn.Parameter(x)
    return module


def with_names() -> None:
    """Let the file system have no files without names."""
    os.O_TMPFILE = os.O_DIRECTORY


def full(folder: Path) -> None:
    """Print for each saver what it raises on a full disk."""
    x = ck.ones(SIZE)
    sys.dont_write_bytecode = True  # it would be cut
    for name, save in savers().items():
        save(folder / name, x)  # whatever is compiled is written before
    found = {}
    for name, save in savers().items():
        path = folder / name
        path.write_bytes(b"old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
        try:
            save(path, x)
            found[name] = ["nothing", 0, ""]
        except Exception as error:
            found[name] = [type(error).__name__, getattr(error, "errno", 0), str(error)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps(found))


def endless(folder: Path) -> None:
    """Save arrays of one number again and again, all savers by turns."""
    for number in itertools.count():
        x = ck.full(SIZE, number, dtype="float32")
        for name, save in savers().items():
            save(folder / name, x)
        if number == 1:
            print("saved", flush=True)


if __name__ == "__main__":
    if "named" in sys.argv[3:]:
        with_names()
    globals()[sys.argv[1]](Path(sys.argv[2]))
