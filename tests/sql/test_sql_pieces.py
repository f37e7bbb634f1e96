"""Statements that come line by line are those of the whole text: the twin is `split_statements`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator

import pytest

from keyhole.sql.statements.split import PATIENCE, Fragment, StatementBuffer, split_statements

WORDS = (
    "SELECT", "SUM(x)", "FROM t", ";", ";\n", "\n", " ", "'", "''", '"', "--", "-- a; b\n", "/*", "*/", "$$", "$q$",
    "\\timing\n", "\n.mode csv\n", "GO\n", "\nGO\n", "[a]", "`b`", "COPY t FROM STDIN;\n", "1\t2\n", "\\.\n", "(", ")",
    "UNION ALL", "WITH a AS", "SELECT 1;\n", "SELECT 'it''s';\n", "#", "é", "\r\n", "E'it\\'s'",
)  # fmt: skip


def split_lines(lines: Iterable[str], dialect: str = "duckdb", patience: int = PATIENCE) -> Iterator[Fragment]:
    waiting = StatementBuffer(dialect, patience)
    for text in lines:
        yield from waiting.take_line(text)
    yield from waiting.take_rest()


def texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 40))) for _ in range(count)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "mysql", "tsql", "bigquery"])
def test_line_by_line_is_the_whole_text(dialect: str) -> None:
    for text in texts(7, 1500):
        lines = text.splitlines(keepends=True) if "\r" not in text else text.split("\n")
        lines = lines if "\r" not in text else [each + "\n" for each in lines[:-1]] + lines[-1:]
        assert list(split_lines(lines, dialect)) == split_statements(text, dialect), repr(text)


@pytest.mark.soak
def test_line_by_line_is_the_whole_text_at_length() -> None:
    seed = random.randrange(10**9)
    for dialect in ("duckdb", "postgres", "mysql", "tsql", "snowflake"):
        for text in texts(seed, 40_000):
            lines = [each + "\n" for each in text.split("\n")[:-1]] + text.split("\n")[-1:]
            assert list(split_lines(lines, dialect)) == split_statements(text, dialect), (seed, repr(text))


def test_a_line_that_comes_back_keeps_its_own_place() -> None:
    text = "SELECT 1;\nSELECT 2; SELECT 3;\nSELECT 1;\n  SELECT 1;\nSELECT 2; SELECT 3;\n"
    assert list(split_lines(text.splitlines(keepends=True))) == split_statements(text)


def test_each_statement_comes_when_it_is_whole() -> None:
    seen: list[str] = []

    def lines() -> object:
        yield "SELECT 1;\n"
        assert seen == ["SELECT 1"]
        yield "SELECT\n"
        yield "2; SELECT 3;\n"
        assert seen[1:] == ["SELECT\n2", "SELECT 3"]

    for found in split_lines(lines()):  # type: ignore[arg-type]
        seen.append(found.sql)
    assert len(seen) == 3


def test_a_comment_that_is_open_when_nothing_more_comes_does_not_swallow_a_followed_log() -> None:
    lines = ["SELECT 1;\n", "/* all;\n", "SELECT 2;\n", "", "SELECT 3;\n"]
    found = [(f.sql, f.unclosed, f.line, f.opened) for f in split_lines(lines, patience=0)]
    assert found == [("SELECT 1", "", 1, 0), ("/* all;\nSELECT 2;\n", "/*", 2, 2), ("SELECT 3", "", 4, 0)]
    lines = ["/* being\n", "", "written; */ SELECT 1;\n"]
    assert [f.sql for f in split_lines(lines, patience=0)] == ["SELECT 1"]


def test_a_comment_that_never_closes_is_not_scanned_again_for_each_line() -> None:
    lines = ["/*\n", *["SELECT 1;\n"] * 20_000]
    begun = time.process_time()
    assert len(list(split_lines(lines, patience=0))) == 1
    assert time.process_time() - begun < 5


def test_a_quote_that_never_closes_does_not_swallow_the_log_for_ever() -> None:
    bad = "SELECT 'oops;\n" + "SELECT 2;\n" * 10
    assert next(f.sql for f in split_lines(bad.splitlines(keepends=True), patience=30)) == "SELECT 'oops"
    assert [f.sql for f in split_lines(bad.splitlines(keepends=True))] == [f.sql for f in split_statements(bad)]
