"""Online decisions on a table large enough for the compiled paths, with the offline audit as judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import workload as work

from keyhole.auditing.examine import examine
from keyhole.auditing.online.online import OnlineAuditor, Permission
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import load_roster

ROWS = 33_000


def exposed(path: Path, statements: list[str]) -> set[int]:
    return {f.row for f in examine(statements, data=path, private=[work.PRIVATE]).exposed}


@pytest.mark.parametrize("insiders", [0, 1])
def test_answers_expose_nobody_and_denials_are_not_in_vain(tmp_path: Path, insiders: int) -> None:
    people = work.people(ROWS)
    path = tmp_path / "staff.parquet"
    work.parquet(path, people)
    log = work.workload(people, 60, groupings=6, pairs=8)
    roster = load_roster(path, Columns(private={work.PRIVATE: PrivateColumn()}))
    auditor = OnlineAuditor(roster, insiders=insiders)
    weighted = "SELECT SUM(salary * (age - 10)) FROM staff WHERE sex = 'F'"
    answered: list[str] = []
    denied: list[tuple[list[str], str, set[int]]] = []
    for sql in (*(asked.sql for asked in log.statements), weighted):
        said = auditor.admit(sql)
        assert said.verdict is not Permission.REFUSED, said.reason
        if said.verdict is Permission.ALLOW:
            auditor.record(sql)
            answered.append(sql)
        else:
            outright = {f.row for f in said.who if f.insider is None}
            denied.append(([*answered], sql, outright))
    assert weighted in answered
    assert len(denied) >= len(log.planted)  # one of each pair at least
    assert not exposed(path, answered)
    for before, sql, outright in denied[:3]:
        if outright or not insiders:
            assert exposed(path, [*before, sql]) == outright
