"""What counts show of people's rows is replayed by the checker, and a planted falsehood is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import duckdb

import keyhole
from keyhole.checker.replay import Outcome, replay
from keyhole.config import Config
from keyhole.report.documents.json_text import dumps

SETTINGS = """
[source]
table = "adm"
[columns]
id = ["pid"]
[columns.private.cost]
[tables.diag]
keys = ["pid", "hadm"]
private = "all"
"""
LOG = [
    "SELECT st, COUNT(DISTINCT adm.pid) FROM adm JOIN diag USING (hadm) WHERE title = 'flu' GROUP BY st",
    "SELECT SUM(cost) FROM adm",
    "SELECT SUM(cost) FROM adm WHERE pid <> 1",
]


def test_proofs_about_people_are_replayed_and_lies_are_not(tmp_path: Path) -> None:
    data = tmp_path / "h.duckdb"
    con = duckdb.connect(str(data))
    con.execute(
        "CREATE TABLE adm AS FROM (VALUES (1, 10, 'CA', 3), (1, 11, 'NY', 4), (2, 12, 'CA', 5), (3, 13, 'XX', 6)) "
        "AS t(pid, hadm, st, cost)"
    )
    con.execute("CREATE TABLE diag AS FROM (VALUES (1, 10, 'flu'), (2, 12, 'flu'), (2, 12, 'x')) t(pid, hadm, title)")
    con.close()
    verdict = json.loads(dumps(keyhole.audit(LOG, data=str(data), config=Config.parse(SETTINGS)).to_json()))
    assert next(e["form"] for e in verdict["exposed"]) == "total cost of 2 records"
    checked = replay(json.dumps(verdict), data, table="adm").checked
    assert len(checked) == 5
    assert {c.outcome for c in checked} == {Outcome.HOLDS}

    def lied(change) -> set[Outcome]:  # type: ignore[no-untyped-def]
        told = copy.deepcopy(verdict)
        for entry in told["features"] + [e for e in told["exposed"] if e.get("grade")]:
            change(entry)
        found = replay(json.dumps(told), data, table="adm").checked
        return {c.outcome for c in found if c.claim.column == "diag"}

    assert lied(
        lambda e: e["certificate"]["conditions"][0].update(holds=not e["certificate"]["conditions"][0]["holds"])
    ) == {Outcome.FAILS}
    moved = lied(lambda e: [c["clauses"][0].update(where="TRUE") for c in e["certificate"]["counts"]])
    assert moved == {Outcome.FAILS}
    assert Outcome.HOLDS not in lied(lambda e: [p.update(answer=1) for p in e["proof"]])


def test_a_null_is_no_wrong_count(tmp_path: Path) -> None:
    data = tmp_path / "clinic.duckdb"
    con = duckdb.connect(str(data))
    con.execute(
        "CREATE TABLE adm AS FROM (VALUES (1, 10, 'CA', 3), (2, 11, 'NY', 4), (3, 12, 'CA', 5)) t(pid, hadm, st, cost)"
    )
    con.execute("CREATE TABLE diag AS FROM (VALUES (2, 11, 'flu'), (3, 12, 'flu'), (1, 10, 'x')) t(pid, hadm, title)")
    con.close()
    flu = "EXISTS (SELECT 1 FROM diag d WHERE d.pid = adm.pid AND d.title = 'flu')"
    log = [f"SELECT MAX(cost) FROM adm WHERE pid = 1 AND {flu}"]
    verdict = keyhole.audit(log, data=str(data), config=Config.parse(SETTINGS))
    assert [f.form for f in verdict.findings] == ["has no row in diag with \"title\" = 'flu'"]
    checked = replay(dumps(verdict.to_json()), data, table="adm").checked
    assert {c.outcome for c in checked} == {Outcome.CANNOT}
