"""The shape of the code: every implementation is a specimen, every law has a liar, every module a docstring."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import keyhole
import keyhole.audit
import keyhole.checks
from keyhole.checks import auditors, sources

SRC = Path(keyhole.__file__).parent


def implementations(package: str, *methods: str) -> set[str]:
    """Public classes of a package that have all these methods (protocols aside)."""
    found = set()
    module = importlib.import_module(package)
    for info in pkgutil.walk_packages(module.__path__, package + "."):
        tree = ast.parse(Path(importlib.import_module(info.name).__file__ or "").read_text(encoding="utf-8"))
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            if any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases):
                continue
            names = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            if set(methods) <= names:
                found.add(node.name)
    return found


def test_every_auditor_is_a_specimen() -> None:
    assert implementations("keyhole.audit", "examine") == set(auditors.SPECIMENS)


def test_every_source_is_a_specimen() -> None:
    assert implementations("keyhole.tables", "evaluate", "shown") == set(sources.SPECIMENS)


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), f"{path} has no docstring"


def test_only_the_door_opens_a_table() -> None:
    """DuckDB is imported in `tables/` and nowhere else: whoever needs data goes through `keyhole.tables.open`."""
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            if any(name.split(".")[0] == "duckdb" for name in names):
                found.add(path.relative_to(SRC).parts[0])
    assert found == {"tables"}


def test_no_vague_module_names() -> None:
    vague = {"utils", "helpers", "misc", "manager", "common"}
    assert not [p for p in SRC.rglob("*.py") if p.stem in vague]


def test_public_names_exist() -> None:
    for name in keyhole.__all__:
        assert hasattr(keyhole, name)
    for package in ("audit", "attack", "defend", "gather", "sql", "solve", "tables"):
        module = importlib.import_module(f"keyhole.{package}")
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"keyhole.{package} exports {name}, which it has not"
