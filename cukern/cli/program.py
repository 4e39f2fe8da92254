"""Programs of users, run by commands of ``python -m cukern``."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path


def run(program: str, arguments: Sequence[str]) -> object:
    """Run a script or a module as ``__main__``; return the status with which it ends, if it is not 0.

    Raises:
        FileNotFoundError: ``program`` is the name of a file, and there is none.
    """
    script = Path(program)
    if not script.is_file() and (script.suffix == ".py" or len(script.parts) > 1):
        raise FileNotFoundError(f"there is no file {program}")
    sys.argv = [program, *arguments]
    if not sys.flags.safe_path:  # else Python has put no folder of its own there
        sys.path[0] = str(script.parent.resolve()) if script.is_file() else os.getcwd()
    try:
        if script.is_file():
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code
    except Exception:  # as Python does
        traceback.print_exc()
        return 1
    return None
