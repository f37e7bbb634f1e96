"""The files that other repositories use: the pre-commit hook, and the recipes of docs/pipelines.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pre_commit.clientlib import InvalidManifestError, load_manifest
from tests.support.files import write_files

from keyhole.cli import app
from keyhole.cli.demo import CONFIG, LOG, PEOPLE

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
RECIPE = r"(?:run: |- )keyhole (audit queries\.sql .+)"


def write_baseline_of_nothing() -> None:
    """baseline.json: the verdict of a statement that exposes nobody."""
    Path("nothing.sql").write_text("SELECT COUNT(*) FROM people;\n", encoding="utf-8")
    command = ["audit", "nothing.sql", "-c", "keyhole.toml", "--format", "json", "--out", "baseline.json"]
    assert CliRunner().invoke(app, command).exit_code == 0


def test_the_hook_is_valid_and_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    assert hook["id"] in PAGE
    assert hook["entry"] == "keyhole audit --no-values"
    assert re.search(hook["files"], "queries.sql")
    (tmp_path / "broken.yaml").write_text("- id: x\n", encoding="utf-8")
    with pytest.raises(InvalidManifestError):
        load_manifest(tmp_path / "broken.yaml")
    write_files(tmp_path, {"people.csv": PEOPLE, "queries.sql": LOG, "keyhole.toml": CONFIG})
    monkeypatch.chdir(tmp_path)
    words = re.search(r"args: \[(.+)\]", PAGE)
    assert words is not None
    args = [word.strip() for word in words[1].split(",")]
    command = [*shlex.split(hook["entry"])[1:], *args]
    assert CliRunner().invoke(app, command).exit_code == 2  # no baseline yet
    write_baseline_of_nothing()
    assert CliRunner().invoke(app, command).exit_code == 1
    CliRunner().invoke(
        app, ["audit", "queries.sql", "-c", "keyhole.toml", "--format", "json", "--out", "baseline.json"]
    )
    assert CliRunner().invoke(app, command).exit_code == 0  # nobody new, and everybody else is shown to be open
    (tmp_path / "keyhole.toml").write_text(CONFIG.partition("min =")[0], encoding="utf-8")
    assert CliRunner().invoke(app, command).exit_code == 0


@pytest.mark.parametrize("line", re.findall(RECIPE, PAGE))
def test_every_command_of_the_recipes_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"people.csv": PEOPLE, "queries.sql": LOG, "keyhole.toml": CONFIG}
    signed = "[[waiver]]\nkind = 'gap'\nfingerprint = 'another'\nby = 'A'\nwhy = 'x'\nat = 2026-01-01\n"
    files["waivers.toml"] = signed
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    write_baseline_of_nothing()
    assert CliRunner().invoke(app, shlex.split(line)).exit_code == 1
    assert (tmp_path / shlex.split(line)[-1]).is_file()
