"""The project's own machinery: hooks, workflow, templates and the release script agree with ``.ci/run``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def commands() -> list[str]:
    """What ``.ci/run`` runs in its environment, a line each."""
    return (ROOT / ".ci" / "run").read_text().partition("\nset -x\n")[2].splitlines()


def test_hooks_are_the_lint_and_types_of_the_checks() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "hooks call the installed tools and download nothing"
    wanted = [line for line in commands() if line.split()[0] in ("ruff", "mypy")]
    assert len(wanted) == 3, wanted
    assert [hook["entry"] for hook in local["hooks"]] == wanted
    for hook in local["hooks"]:
        # Names of files would take the place of the folders that the settings name.
        assert (hook["language"], hook["always_run"], hook["pass_filenames"]) == ("system", True, False)


def test_workflow_runs_the_checks_with_every_python() -> None:
    (job,) = read(".github/workflows/tests.yml")["jobs"].values()
    assert job["runs-on"].startswith("ubuntu-")
    assert [step["run"] for step in job["steps"] if "run" in step] == ["g++ --version", ".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", c) for c in project["classifiers"])
    pythons = [match[1] for match in found if match]
    assert job["strategy"]["matrix"]["python"] == pythons
    assert project["requires-python"] == f">={pythons[0]}"
    (setup,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    assert setup["with"] == {"python-version": "${{ matrix.python }}"}


@pytest.mark.parametrize("form", ["bug_report", "feature_request"])
def test_issue_forms_have_what_github_reads(form: str) -> None:
    """An unknown or missing key makes GitHub leave a form out, without a word."""
    content = read(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert set(content) == {"name", "description", "labels", "body"}
    for field in content["body"]:
        assert set(field) <= {"type", "id", "attributes", "validations"}
        assert field["type"] == "textarea"
        assert field["attributes"]["label"]
    ids = [field["id"] for field in content["body"]]
    assert len(set(ids)) == len(ids)


def test_bug_report_requires_program_expectation_and_info() -> None:
    fields = {field["id"]: field for field in read(".github/ISSUE_TEMPLATE/bug_report.yml")["body"]}
    required = {name for name, field in fields.items() if field.get("validations", {}).get("required")}
    assert required == {"program", "expected", "happened", "info"}
    assert "python -m cukern info" in fields["info"]["attributes"]["description"]


def test_pull_requests_are_asked_for_the_checks() -> None:
    text = (ROOT / ".github" / "pull_request_template.md").read_text()
    for line in commands():
        if line.split()[0] in ("ruff", "mypy"):
            assert f"`{line}`" in text
    assert "`.ci/run`" in text
    assert "python -m cukern info" in text


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of what the release script looks at before it builds: version 1.2.3, its changelog, one commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for folder in (".ci", "cukern"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".ci" / "release").write_text((ROOT / ".ci" / "release").read_text())
    (tmp_path / "cukern" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2001-02-03\n\n- New.\n"
    )
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=tree, check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "x")


def release(tree: Path, *arguments: str) -> str:
    """Runs the release script, which must refuse, with a Python that cannot build; returns what it says."""
    environment = {**os.environ, "PYTHON": "false"}
    script = ["bash", str(tree / ".ci" / "release"), *arguments]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert not (tree / "dist").exists()
    return done.stderr


def test_release_takes_a_version() -> None:
    assert release(ROOT).startswith("usage: .ci/release VERSION")


@pytest.mark.parametrize("version", ["1.2.4", "1.2", "1x2.3"])
def test_release_refuses_another_version(tree: Path, version: str) -> None:
    assert f"cukern/__init__.py says 1.2.3, not {version}" in release(tree, version)


@pytest.mark.parametrize(
    "heading", ["## [Unreleased]", "## [1.2.3]", "## [1.2.30] - 2001-02-03", "## [1x2.3] - 2001-02-03"]
)
def test_release_refuses_a_changelog_without_the_version(tree: Path, heading: str) -> None:
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n- New.\n")
    commit(tree)
    assert "CHANGELOG.md has no heading '## [1.2.3] - YYYY-MM-DD'" in release(tree, "1.2.3")


def test_release_refuses_what_is_not_committed(tree: Path) -> None:
    (tree / "notes.txt").write_text("x")
    said = release(tree, "1.2.3")
    assert "commit or remove" in said and "notes.txt" in said


def test_release_refuses_a_tag_of_another_commit(tree: Path) -> None:
    git(tree, "tag", "v1.2.3")
    (tree / "later.txt").write_text("x")
    commit(tree)
    assert "tag v1.2.3 is another commit" in release(tree, "1.2.3")


def test_release_refuses_a_folder_that_holds_files(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out")
    (out / "cukern-1.2.2.tar.gz").write_bytes(b"")
    assert "is not empty" in release(tree, "1.2.3", str(out))


def test_release_begins_when_nothing_is_amiss(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    git(tree, "tag", "v1.2.3")
    said = release(tree, "1.2.3", str(tmp_path_factory.mktemp("out")))
    assert "release:" not in said
    assert "false -m venv" in said
