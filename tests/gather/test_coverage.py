"""The corpora in benchmarks/corpora: at least as many statements are judged as when they were last counted."""

from __future__ import annotations

import tomllib

import pytest
from benchmarks.coverage import HERE, Corpus, cause, covered, main, ours, shared, table

CORPORA = {corpus.name: corpus for corpus in ours()}
COUNTED = tomllib.loads((HERE / "judged.toml").read_text(encoding="utf-8"))


def test_every_corpus_is_counted() -> None:
    assert set(CORPORA) == set(COUNTED)
    assert sum(counts["statements"] for counts in COUNTED.values()) >= 200


@pytest.mark.parametrize("name", [name for name in COUNTED if not COUNTED[name].get("slow")])
def test_coverage_does_not_fall(name: str) -> None:
    found = covered(CORPORA[name])
    assert found.total == COUNTED[name]["statements"]
    assert found.judged >= COUNTED[name]["judged"], found.causes


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in COUNTED if COUNTED[name].get("slow")])
def test_coverage_of_the_long_ones_does_not_fall(name: str) -> None:
    found = covered(CORPORA[name])
    assert found.judged >= COUNTED[name]["judged"], found.causes


def test_where_the_engine_runs_here_nine_of_ten_are_judged() -> None:
    for name, counts in COUNTED.items():
        if any(f"({engine})" in name for engine in ("duckdb", "postgres", "sqlite")):
            assert counts["judged"] >= 0.9 * counts["statements"], name


def test_shared_data_that_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYHOLE_DATA", raising=False)
    assert [isinstance(each, Corpus) for each in shared(None)] == [False]
    assert main(["no such corpus"]) == 0
    assert "--shared" in capsys.readouterr().err


def test_a_cause_is_without_its_place() -> None:
    assert cause("line 3: joins are not judged\n  SELECT") == "joins are not judged"
    assert table([]).startswith("| corpus |")
