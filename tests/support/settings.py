"""Settings of a test, with what it asks for written under [budget] and [online]."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

BUDGET = ("epsilon", "delta", "mechanism", "accuracy", "beta", "horizon", "spend")
ONLINE = ("insiders", "exact_above")


def write_into(settings: Path, options: Sequence[str], name: str = "moved.toml") -> tuple[Path, list[str]]:
    """Beside the settings, the same with `--epsilon 1` and their like under [budget] or [online]; the other options."""
    left: list[str] = []
    said: dict[str, str] = {}
    words = iter(options)
    for word in words:
        key = word.removeprefix("--").replace("-", "_")
        if word.startswith("--") and key in (*BUDGET, *ONLINE):
            said[key] = next(words)
        else:
            left.append(word)
    if not said:
        return settings, left
    lines = settings.read_text(encoding="utf-8").splitlines()
    for table, names in (("[budget]", BUDGET), ("[online]", ONLINE)):
        lines = _put(lines, table, {key: _write(value) for key, value in said.items() if key in names})
    made = settings.with_name(name)
    made.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return made, left


def _put(lines: list[str], head: str, keys: dict[str, str]) -> list[str]:
    """A table with these keys instead of those it has."""
    if not keys:
        return lines
    found, inside = [], False
    for line in lines if head in lines else [*lines, head]:
        inside = line.strip() == head if line.startswith("[") else inside
        if not (inside and line.split("=")[0].strip() in keys):
            found.append(line)
        if line.strip() == head:
            found += [f"{key} = {value}" for key, value in keys.items()]
    return found


def _write(value: str) -> str:
    try:
        tomllib.loads(f"x = {value}")
    except tomllib.TOMLDecodeError:
        return f'"{value}"'
    return value
