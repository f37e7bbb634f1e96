"""The shape of the code: every implementation is a specimen, every module says what it is, nothing is said twice.

What breaks a rule today is listed as data and must be listed exactly: who mends a place takes it off the list, and
nothing can be added unseen.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmarks import size
from tests.laws import attacks, auditors, budgets, designs, oracle_learners, oracles, sources, updates
from tests.laws.mechanism_games import GAMES, Game

import keyhole
import keyhole.attacks
import keyhole.attacks.design
import keyhole.attacks.methods
import keyhole.auditing
import keyhole.defence
import keyhole.oracles
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram

SRC = Path(keyhole.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
PATHS = sorted(SRC.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def implementations(package: str, *methods: str) -> set[str]:
    """Public classes of a package that have all these methods (protocols aside)."""
    found = set()
    module = importlib.import_module(package)
    for info in pkgutil.walk_packages(module.__path__, package + "."):
        tree = parsed(Path(importlib.import_module(info.name).__file__ or ""))
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            if any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases):
                continue
            names = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            if set(methods) <= names:
                found.add(node.name)
    return found


def exported(module: ModuleType) -> list[type]:
    """The classes that a package exports, without protocols and abstract ones."""
    found = [getattr(module, name) for name in module.__all__]
    return [c for c in found if inspect.isclass(c) and not inspect.isabstract(c) and not getattr(c, "_is_protocol", 0)]


def having(module: ModuleType, *methods: str) -> set[type]:
    """The exported classes that have all these methods."""
    return {c for c in exported(module) if all(hasattr(c, name) for name in methods)}


def test_every_auditor_is_a_specimen() -> None:
    assert implementations("keyhole.auditing", "examine") == {s.name for s in auditors.SPECIMENS}


def test_every_source_is_a_specimen() -> None:
    """One that needs a server is held against DuckDBSource in tests/engines/test_stay.py."""
    found = implementations("keyhole.engines", "evaluate", "returned_groups")
    assert found == {s.name for s in sources.SPECIMENS} | {"EngineSource"}


def test_every_attack_is_a_specimen() -> None:
    found = {type(s.subject.fresh(from_arrays(np.eye(2), [1, 2], prior=s.subject.prior))) for s in attacks.SPECIMENS}
    assert having(keyhole.attacks.methods, "observe", "estimate", "state", "resume") == found
    assert set(keyhole.attacks.methods.METHODS) == {c.name for c in found}


def test_every_query_design_is_a_specimen() -> None:
    assert having(keyhole.attacks.design, "queries", "exposes", "decode") == {
        type(s.subject.design) for s in designs.SPECIMENS
    }


def test_every_oracle_attack_is_a_specimen() -> None:
    found = {type(s.subject.make(10)) for s in oracle_learners.SPECIMENS}
    assert having(keyhole.oracles, "answer", "learn", "estimate") == found
    streaming = {type(s.subject(oracles.SPACE, oracles.LITTLE, 10)) for s in oracles.SPECIMENS}
    assert having(keyhole.oracles, "threshold", "learn", "box", "save") == streaming


def test_every_mechanism_is_a_specimen() -> None:
    """A mechanism is what draws noise over a histogram and charges a budget."""
    needs = {"histogram", "budget", "noise"}
    found = {c for c in exported(keyhole.defence) if needs <= set(inspect.signature(c).parameters)}
    assert found == {game.mechanism for game in GAMES}


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_every_game_plays_the_mechanism_that_it_names(game: Game, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = game.mechanism.__init__

    def noted(self: object, *given: object, **named: object) -> None:
        made.append(self)
        real(self, *given, **named)

    monkeypatch.setattr(game.mechanism, "__init__", noted)
    game.play(Histogram.of(game.pair[0], game.cost.neighbours), game.purse(), game.door())
    assert made


def test_every_update_is_a_specimen() -> None:
    found = {type(s.subject(3, 0.2)) for s in updates.SPECIMENS}
    assert having(keyhole.defence, "start", "update", "limit", "pack", "unpack") == found


def test_every_budget_is_a_specimen() -> None:
    found = {type(s.subject(Cap(Loss.of_epsilon(1)))) for s in budgets.SPECIMENS}
    assert having(keyhole.defence, "spend", "spent", "left") == found


def test_every_module_says_what_it_is() -> None:
    assert [where(path) for path in PATHS if parsed(path).body and not ast.get_docstring(parsed(path))] == []


def imported(path: Path) -> set[str]:
    """The absolute names of what a file imports, wherever in it."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {str(node.module), *(f"{node.module}.{each.name}" for each in node.names)}
    return names


def test_only_the_door_opens_a_table() -> None:
    """DuckDB is imported in `engines/` and `datasets/` alone: whoever needs data goes through `datasets.open`."""
    found = {where(path).split("/")[0] for path in PATHS if any(n.split(".")[0] == "duckdb" for n in imported(path))}
    # the checker shares nothing with what it checks, so it has a door of its own
    assert found == {"checker", "datasets", "engines"}


def test_only_the_door_knows_which_engine_holds_the_data() -> None:
    """Everybody else speaks to a `Roster`, a `Source` or a `ProbeTable`: a new engine is a folder of `engines/`."""
    engines = {f"keyhole.engines.{folder.name}" for folder in (SRC / "engines").iterdir() if folder.is_dir()}
    engines.discard("keyhole.engines.__pycache__")
    assert "keyhole.engines.duckdb" in engines
    knowing = {where(path) for path in PATHS if any(n.startswith(tuple(engines)) for n in imported(path))}
    assert not {name for name in knowing if not name.startswith(("engines/", "datasets/"))}


def test_the_checker_imports_nothing_of_keyhole() -> None:
    """It can be read, copied and run alone: the standard library, and a database connection where data are opened."""
    for path in (SRC / "checker").glob("*.py"):
        tree = parsed(path)
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""] if node.level == 0 else []
                assert node.level <= 1, f"{path.name} reaches out of its folder"
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names | {"duckdb"}, f"{path.name} imports {name}"
                assert top != "duckdb" or node not in tree.body, f"{path.name} imports duckdb before it is needed"


def test_no_vague_module_names() -> None:
    vague = {"utils", "helpers", "misc", "manager", "common"}
    assert not [p for p in SRC.rglob("*.py") if p.stem in vague]


def test_public_names_exist() -> None:
    for name in keyhole.__all__:
        assert hasattr(keyhole, name)
    for package in ("auditing", "attacks", "defence", "gather", "sql", "solve", "datasets"):
        module = importlib.import_module(f"keyhole.{package}")
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"keyhole.{package} exports {name}, which it has not"


# --- shape: a newcomer guesses the file of anything from the listing --------------------------------------------------

MOST_ENTRIES, MOST_LINES, MOST_COMPLEX = 15, 800, 15
LIMITS = size.load_limits()


def where(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def test_folders_can_be_overseen() -> None:
    crowded = {folder: count for folder, count in size.count_entries(SRC).items() if count > MOST_ENTRIES}
    assert crowded == LIMITS.crowded, f"folders with more than {MOST_ENTRIES} entries; the list may only shrink"


def test_a_file_answers_one_question() -> None:
    lengths = {where(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PATHS}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_functions_are_simple() -> None:
    assert size.find_complex_functions(MOST_COMPLEX, SRC) == sorted(LIMITS.complex), "the list may only shrink"


def test_small_modules_have_several_customers() -> None:
    """A small module with one customer is a part of that customer; members of registered families are exempt."""
    assert size.find_lonely_modules(LIMITS.families, SRC) == sorted(LIMITS.lonely), "the list may only shrink"


def test_a_class_name_is_defined_once_in_its_folder() -> None:
    assert size.find_repeated_classes(SRC) == sorted(LIMITS.repeated), "the list may only shrink"


def test_the_size_budget_is_kept() -> None:
    """Each top-level folder has a ceiling of code lines, and so has the package; a gain is written down."""
    folders = size.measure_folders(SRC)
    assert folders.keys() == LIMITS.folders.keys()
    over = {name: found.code for name, found in folders.items() if found.code > LIMITS.folders[name]}
    assert not over, f"over the ceiling of tests/architecture.toml: {over}"
    slack = {name: found.code for name, found in folders.items() if found.code < LIMITS.folders[name] - 200}
    assert not slack, f"far below the ceiling of tests/architecture.toml, so write the gain down: {slack}"
    assert sum(found.code for found in folders.values()) <= LIMITS.code
    assert sum(found.files for found in folders.values()) <= LIMITS.files


def test_the_walk_budget_is_kept() -> None:
    """No command walks further than its ceiling, and ARCHITECTURE prints the ceilings."""
    command = [sys.executable, "-m", "benchmarks.walks"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=walking_environment())
    walks = {name: [int(n) for n in numbers] for name, *numbers in map(str.split, printed.stdout.splitlines()[1:])}
    assert walks.keys() == LIMITS.walks.keys()
    for name, walk in walks.items():
        assert all(n <= most for n, most in zip(walk, LIMITS.walks[name], strict=True)), (name, walk)
        assert walk[0] >= 0.9 * LIMITS.walks[name][0], f"{name} walks {walk}: write the gain down"
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for name, (functions, files, hops) in LIMITS.walks.items():
        assert f"| {name} | {functions} / {files} / {hops} |" in page, f"ARCHITECTURE does not print the walk of {name}"


def walking_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC.parent), os.environ.get("PYTHONPATH", "")])}


def test_every_folder_has_its_layer() -> None:
    """The list of layers in pyproject.toml is the one place that says which folder may import which."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [name.strip() for contract in contracts for line in contract["layers"] for name in line.split("|")]
    modules = {path.stem if path.suffix else path.name for path in SRC.iterdir() if path.suffix in ("", ".py")}
    assert sorted(layers) == sorted(f"keyhole.{name}" for name in modules - WITHOUT_LAYER)


WITHOUT_LAYER = {"__init__", "__main__", "__pycache__", "checker"}  # the checker has a stricter test of its own


# --- nothing said twice -----------------------------------------------------------------------------------------------

EQUAL_LINES = 10  # more than so many lines in a row are said once
SAID_TWICE: set[tuple[str, str]] = set()


def code_lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines without blank ones, comments and imports."""
    imports: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    stripped = ((number, line.strip()) for number, line in lines if number not in imports)
    return [(number, line) for number, line in stripped if line and not line.startswith("#")]


def said_twice(texts: dict[str, list[tuple[int, str]]]) -> dict[tuple[str, str], list[str]]:
    """Pairs of files (or a file and itself) with more than EQUAL_LINES equal lines in a row, and where these begin."""
    windows: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in texts.items():
        for k in range(len(lines) - EQUAL_LINES):
            windows[tuple(line for _, line in lines[k : k + EQUAL_LINES + 1])].append((name, lines[k][0]))
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for places in windows.values():
        first = places[0]
        for other in places[1:]:
            found[first[0], other[0]].append(f"{first[0]}:{first[1]} = {other[0]}:{other[1]}")
    return found


def test_nothing_is_said_twice() -> None:
    found = said_twice({where(path): code_lines(path) for path in PATHS})
    assert set(found) == SAID_TWICE, f"more than {EQUAL_LINES} equal lines: {dict(found)}"


def test_the_finder_of_equal_lines_finds_them() -> None:
    ten, eleven = ([(i, f"line {i}") for i in range(1, n + 1)] for n in (10, 11))
    assert not said_twice({"a": ten, "b": ten})
    assert said_twice({"a": eleven, "b": [(0, "before"), *eleven]}) == {("a", "b"): ["a:1 = b:1"]}
    assert said_twice({"a": [*eleven, *((i + 20, line) for i, line in eleven)]}) == {("a", "a"): ["a:1 = a:21"]}
