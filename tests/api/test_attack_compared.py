"""An attack beside others: the whole log is the attack itself, more statements tell more, and methods say why not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.support.commands import run_in

from keyhole.report.charts.figures import measure_coverage

PEOPLE = 14


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("compared")
    rng = random.Random(4)
    bits = [rng.randint(0, 1) for _ in range(PEOPLE)]
    (made / "roster.csv").write_text("name,k\n" + "".join(f"p{k},{k}\n" for k in range(PEOPLE)))
    (made / "truth.csv").write_text("name,k,bit\n" + "".join(f"p{k},{k},{b}\n" for k, b in enumerate(bits)))
    lines = []
    for _ in range(40):
        chosen = sorted(rng.sample(range(PEOPLE), 7))
        sql = f"SELECT SUM(bit) FROM t WHERE k IN ({', '.join(map(str, chosen))})"
        lines.append(json.dumps({"sql": sql, "answer": sum(bits[k] for k in chosen)}) + "\n")
    (made / "log.jsonl").write_text("".join(lines))
    return made


WHO = ("--data", "roster.csv", "--id", "name", "--private", "bit:0..1:1", "--method", "bounded")


def test_growth_ends_at_the_attack_and_methods_are_scored_alike(folder: Path) -> None:
    code, out, _ = run_in(folder, "attack", "log.jsonl", *WHO, "--truth", "truth.csv", "--compare", "--format", "json")
    assert code == 0
    found = json.loads(out)
    growth, methods = found["compared"]["growth"], found["compared"]["methods"]
    assert [g["statements"] for g in growth] == sorted({g["statements"] for g in growth})
    assert growth[-1]["statements"] == 40
    assert growth[-1]["exact"] == found["score"]["exact"] == 1.0
    assert growth[0]["exact"] < 1.0
    by_name = {m["method"]: m for m in methods}
    assert by_name["bounded"]["exact"] == 1.0
    assert "bounds" in by_name["least-squares"]["cannot"]


def test_without_the_truth_there_is_nothing_to_compare(folder: Path) -> None:
    code, _, err = run_in(folder, "attack", "log.jsonl", *WHO, "--compare")
    assert code == 2
    assert "--truth" in err


def test_normal_errors_are_calibrated_and_boasts_are_not() -> None:
    rng = random.Random(1)
    truths = [(0.0, 1.0, rng.gauss(0, 1)) for _ in range(4000)]
    assert all(abs(level - share) < 0.03 for level, share in measure_coverage(truths))
    assert all(share < level for level, share in measure_coverage([(g, 0.3, t) for g, _, t in truths]))
