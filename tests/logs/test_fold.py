"""Repeats folded: the verdict is that of the whole log, and what may say something new is not folded."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import astuple

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.logs.fold import fold_log, fold_repeats
from keyhole.logs.open import Log, LogFormat, as_log, open_log
from keyhole.report.exposure import count_statements

TEXTS = (
    "SELECT SUM(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE team = 'a'",
    "SELECT SUM(pay) FROM t WHERE team = 'b'",
    "SELECT SUM(pay) FROM t WHERE age > 30",
    "SELECT team, AVG(pay), COUNT(*) FROM t GROUP BY team",
    "SELECT COUNT(*) FROM t WHERE pay > 15",
    "SELECT MAX(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE name <> 'e'",
    "SELECT SUM(nothing) FROM t",
    "SELECT SUM(pay) FROM t WHERE",
    "INSERT INTO t VALUES (1)",
    "COMMIT",
)


def people(rng: random.Random) -> pa.Table:
    n = rng.randrange(4, 8)
    return pa.table(
        {
            "name": [chr(97 + i) for i in range(n)],
            "team": [rng.choice("ab") for _ in range(n)],
            "age": [rng.randrange(20, 60) for _ in range(n)],
            "pay": [rng.randrange(1, 40) for _ in range(n)],
        }
    )


def random_log(rng: random.Random, table: pa.Table) -> list[dict[str, Any]]:
    """Repeats, some with an answer (right, wrong, or noisy), by several analysts."""
    total = sum(table["pay"].to_pylist())
    lines: list[dict[str, Any]] = []
    for _ in range(rng.randrange(3, 25)):
        line: dict[str, Any] = {"sql": rng.choice(TEXTS), "analyst": rng.choice(["ann", "bob", None])}
        if line["sql"] == TEXTS[0] and rng.random() < 0.6:
            line["answer"] = rng.choice([total, total, total + 1])
            if rng.random() < 0.4:
                line["noise"] = {"kind": "laplace", "scale": 2}
        lines.append(line)
    return lines


def unfolded(monkeypatch: pytest.MonkeyPatch, log: object, table: pa.Table) -> Exposure:
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["keyhole.auditing.examine"], "fold_repeats", lambda given: given)
        return examine(log, data=table, private="pay", id="name")  # type: ignore[arg-type]


def said(found: Exposure) -> tuple[object, ...]:
    findings = [(f.row, f.column, f.status, f.value, f.lo, f.hi, f.excluded, f.allowed) for f in found.findings]
    return findings, found.exit_code, found.complete, bool(found.contradictions), astuple(count_statements(found))


def compared(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    table = people(rng)
    log = random_log(rng, table)
    if not any(line["sql"] != "COMMIT" for line in log):
        return
    assert said(examine(log, data=table, private="pay", id="name")) == said(unfolded(monkeypatch, log, table)), seed


@pytest.mark.parametrize("seed", range(12))
def test_the_verdict_is_that_of_the_whole_log(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    compared(monkeypatch, seed)


@pytest.mark.soak
def test_the_verdict_is_that_of_the_whole_log_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(300):
        compared(monkeypatch, random.randrange(10**9))


@pytest.mark.parametrize("seed", range(20))
def test_folding_while_reading_is_folding_what_was_read(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lines = [rng.choice(TEXTS) for _ in range(60)]
    text = "".join(f"{line};{rng.choice(['', '', ' ' + rng.choice(TEXTS) + ';', chr(10)])}\n" for line in lines)
    path = tmp_path / "log.sql"
    path.write_text(text, encoding="utf-8")
    assert fold_log(path) == fold_repeats(open_log(path))
    transcript = tmp_path / "log.jsonl"
    said = random_log(rng, people(rng))
    transcript.write_text("".join(json.dumps({**line, "analyst": "ann"}) + "\n" for line in said), encoding="utf-8")
    assert fold_log(transcript) == fold_repeats(open_log(transcript))


def lines_of(log: Log) -> list[tuple[str, int]]:
    return [(line.sql, line.repeats) for line in fold_repeats(log).lines]


def test_what_may_say_something_new_is_not_folded() -> None:
    ask = TEXTS[0]
    assert lines_of(as_log([ask, ask, (ask, 3), (ask, 3), (ask, 4)])) == [(ask, 2), (ask, 2), (ask, 1)]
    noisy = {"sql": ask, "answer": 3, "noise": {"kind": "laplace", "scale": 1}}
    assert lines_of(as_log([noisy, noisy])) == [(ask, 1), (ask, 1)]
    now = "SELECT SUM(pay) FROM t WHERE hired > CURRENT_DATE"
    times = [{"sql": now, "time": when} for when in ("2026-11-15", "2026-11-16", "2026-11-15")]
    assert lines_of(as_log(times)) == [(now, 2), (now, 1)]
    assert [line.time for line in fold_repeats(as_log(times)).lines] == ["2026-11-15", "2026-11-16"]


def test_analysts_are_kept_apart_until_all_are_judged_together(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"sql": TEXTS[0], "analyst": who} for who in ("ann", "bob", "ann", "bob", "bob")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    log = fold_log(path)
    assert [(line.number, line.analyst, line.repeats) for line in log.lines] == [(1, "ann", 2), (2, "bob", 3)]
    assert [(line.number, line.analyst, line.repeats) for line in fold_repeats(log).lines] == [(1, "ann", 5)]


def test_statements_are_counted_with_their_repeats(tmp_path: Path) -> None:
    path = tmp_path / "log.sql"
    path.write_text(f"{TEXTS[0]};\n" * 7 + "SELECT nonsense;\n" * 3 + f"{TEXTS[1]};\n", encoding="utf-8")
    table = pa.table({"name": ["a", "b", "c"], "team": ["a", "a", "b"], "pay": [1, 2, 3]})
    found = count_statements(examine(fold_log(path), data=table, private="pay", id="name"))
    assert (found.total, found.judged, found.refused, found.distinct) == (11, 8, 3, 3)
    assert len(open_log(path, LogFormat.SQL).lines) == 11
