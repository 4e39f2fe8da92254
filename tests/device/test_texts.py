"""What a process makes of texts is there for the next one: Python's code of templates, and results of parsing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cukern.device import bundles, texts
from cukern.text import signature

PROGRAM = """
import jinja2
import cukern as ck
from cukern.text import signature

made = []
for owner, name in ((jinja2.Environment, "compile"), (signature, "parse")):
    def counted(*given, _of=getattr(owner, name), _name=name, **options):
        made.append(_name)
        return _of(*given, **options)
    setattr(owner, name, counted)
with ck.device("host"):
    x = ck.asarray([1.0, 2.0])
    own = ck.Kernel('extern "C" __global__ void own(float* x) { x[threadIdx.x] *= 3; }', block=2, plain=True)
    y = ck.exp(x)
    own(y, grid=1)
print((y / ck.exp(x)).round().tolist(), made.count("compile") > 1, made.count("parse"))
"""


def run(cache: Path) -> str:
    environment = {**os.environ, "CUKERN_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_later_process_compiles_no_template_and_parses_no_text_of_the_library_s(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert first.startswith("[3.0, 3.0] True ")
    assert run(tmp_path) == "[3.0, 3.0] False 1\n"  # a user's text may be any program's
    for path in (tmp_path / "texts").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1])
    assert run(tmp_path) == first


TEXT = 'extern "C" __global__ void k(const float* x, float* y, int n) {}'


def test_what_other_code_has_made_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    parsed = bundles.unit(TEXT, trusted=True)
    monkeypatch.setattr(signature, "parse", lambda *given: pytest.fail("it was parsed again"))
    assert bundles.unit(TEXT, trusted=True) == parsed
    monkeypatch.setattr(texts, "_makers", lambda: "other code")
    with pytest.raises(pytest.fail.Exception, match="it was parsed again"):
        bundles.unit(TEXT, trusted=True)


def test_nothing_is_kept_where_others_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)
    assert bundles.unit(TEXT, trusted=True) == signature.parse(TEXT, trusted=True)
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_parsed_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert bundles.unit(TEXT, trusted=True) == signature.parse(TEXT, trusted=True)
