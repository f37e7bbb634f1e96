"""How large the house is: python -m benchmarks.size.

Prints code lines and files of each top-level folder of the package beside their ceilings, and the folders, modules and
functions that still break a rule of shape. The ceilings are in `tests/architecture.toml`, tied by
`tests/test_architecture.py`. Code lines are lines of Python without docstrings, comments and blanks, and the lines of
templates, scripts, styles and SQL that are not blank.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "keyhole"
COUNTED = (".py", ".html", ".jinja", ".js", ".css", ".sql")
SMALL_MODULE = 150  # lines: a smaller module with one customer is a part of that customer
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


@dataclass(frozen=True, slots=True)
class FolderSize:
    """Files and code lines of one top-level folder; modules that lie beside the folders are together "."."""

    files: int
    code: int


@dataclass(frozen=True, slots=True)
class Limits:
    """`tests/architecture.toml`: the ceilings, and the lists of what still breaks a rule, which may only shrink."""

    code: int  # code lines of the package
    files: int
    folders: dict[str, int]  # code lines of each top-level folder
    walks: dict[str, list[int]]  # functions, files and hops of a command
    families: list[str]  # folders whose members each stand alone: importers, commands, mechanisms
    crowded: dict[str, int]  # entries of the folders that have too many
    complex: list[str]
    lonely: list[str]
    repeated: list[str]


def load_limits() -> Limits:
    """The limits as they are written down."""
    return Limits(**tomllib.loads((ROOT / "tests" / "architecture.toml").read_text(encoding="utf-8")))


def list_files(package: Path = PACKAGE) -> list[Path]:
    """Every file of the package that counts."""
    return sorted(path for path in package.rglob("*") if path.suffix in COUNTED)


@cache
def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def count_code_lines(path: Path) -> int:
    """Lines of code in one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return sum(1 for line in text.splitlines() if line.strip())
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                code -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(code)


def measure_folders(package: Path = PACKAGE) -> dict[str, FolderSize]:
    """Files and code lines of each top-level folder."""
    files: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for path in list_files(package):
        parts = path.relative_to(package).parts
        folder = parts[0] if len(parts) > 1 else "."
        files[folder] += 1
        code[folder] += count_code_lines(path)
    return {name: FolderSize(files[name], code[name]) for name in sorted(files)}


def count_entries(package: Path = PACKAGE) -> dict[str, int]:
    """Modules, other files and folders in each folder, without `__init__.py`."""
    entries: dict[str, set[str]] = defaultdict(set)
    for path in list_files(package):
        parts = path.relative_to(package).parts
        for depth, name in enumerate(parts):
            if name != "__init__.py":
                entries["/".join(parts[:depth]) or "."].add(name)
    return {folder: len(names) for folder, names in entries.items()}


def find_customers(package: Path = PACKAGE) -> dict[str, set[str]]:
    """For each module (as a path below the package), the modules that import it."""
    paths = {_module_name(path, package): path for path in package.rglob("*.py")}
    customers: dict[str, set[str]] = {path.relative_to(package).as_posix(): set() for path in paths.values()}
    for name, path in paths.items():
        for target in _imported_modules(name, path, paths.keys()):
            if target != name:
                customers[paths[target].relative_to(package).as_posix()].add(path.relative_to(package).as_posix())
    return customers


def _module_name(path: Path, package: Path) -> str:
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_modules(name: str, path: Path, known: Iterable[str]) -> set[str]:
    modules, imported = set(known), set[str]()
    here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                imported.add(inner if inner in modules else module)
    return imported & modules


def find_lonely_modules(families: Iterable[str], package: Path = PACKAGE) -> list[str]:
    """Small modules with exactly one customer, outside the folders of registered families."""
    exempt = tuple(f"{family}/" for family in families)
    return sorted(
        module
        for module, users in find_customers(package).items()
        if len(users) == 1
        and not module.endswith("__init__.py")
        and not module.startswith(exempt)
        and len((package / module).read_text(encoding="utf-8").splitlines()) < SMALL_MODULE
    )


def find_complex_functions(most: int, package: Path = PACKAGE) -> list[str]:
    """Functions whose cyclomatic complexity (ruff's C901) is above `most`, as "file: name"."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--output-format", "json"]
    command += ["--config", f"lint.mccabe.max-complexity={most}", str(package)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    if printed.returncode not in (0, 1):
        raise RuntimeError(printed.stderr)
    rows = json.loads(printed.stdout)
    return sorted(
        f"{Path(row['filename']).resolve().relative_to(package.resolve()).as_posix()}: {row['message'].split('`')[1]}"
        for row in rows
    )


def find_repeated_classes(package: Path = PACKAGE) -> list[str]:
    """Class names that one top-level folder defines more than once, as "folder: name"."""
    places: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        folder = parts[0] if len(parts) > 1 else "."
        places.update(
            f"{folder}: {node.name}" for node in ast.walk(parse_module(path)) if isinstance(node, ast.ClassDef)
        )
    return sorted(name for name, count in places.items() if count > 1)


def main() -> None:
    limits = load_limits()
    folders = measure_folders()
    print(f"{'folder':12}{'files':>8}{'code':>8}{'ceiling':>9}")
    for name, size in folders.items():
        print(f"{name:12}{size.files:>8}{size.code:>8}{limits.folders.get(name, '-')!s:>9}")
    total = FolderSize(sum(s.files for s in folders.values()), sum(s.code for s in folders.values()))
    print(f"{'in all':12}{total.files:>8}{total.code:>8}{limits.code:>9}")
    entries = count_entries()
    largest = max(entries, key=lambda folder: entries[folder])
    print(f"largest folder: {largest} with {entries[largest]} entries")
    print(f"small modules with one customer: {len(find_lonely_modules(limits.families))}")


if __name__ == "__main__":
    main()
