"""Groups that a statement shows twice, and rows of a UNION ALL that ORDER BY mixed: compared with what DuckDB shows."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import keyhole
from keyhole.report.verdict import Verdict

NAMES = ["p0", "p1", "p2", "p3"]
DOMAIN = [0, 1]
ONE = "SELECT SUM(x) AS v FROM t WHERE name = 'p0'"
TWO = "SELECT SUM(x) FROM t WHERE name = 'p1'"


def with_label(sql: str, label: str) -> str:
    return sql.replace("SELECT ", f"SELECT {label}, ", 1)


def labelled(sql: str, text: str) -> str:
    return with_label(sql, f"'{text}' AS k")


def people(values: tuple[int, ...]) -> pa.Table:
    return pa.table({"name": NAMES, "a": [1, 2, 1, 3], "g": ["u", "u", "v", "v"], "x": list(values)})


def audited(log: list[str], values: tuple[int, ...]) -> Verdict:
    return keyhole.audit(log, data=people(values), private=["x:0..1:1"], id="name", table="t")


def told(log: list[str], values: tuple[int, ...], t: duckdb.DuckDBPyConnection) -> str:
    t.register("t", people(values))
    rows = [t.execute(sql).fetchall() for sql in log]
    return repr(
        [
            r if "ORDER BY" in sql or "UNION ALL" in sql else sorted(r, key=repr)
            for sql, r in zip(log, rows, strict=True)
        ]
    )


def known_by_enumeration(log: list[str], values: tuple[int, ...]) -> dict[str, int]:
    """Whose value is the same in every table that shows the same rows: the engine on each of them."""
    con = duckdb.connect()
    seen = told(log, values, con)
    worlds = [other for other in product(DOMAIN, repeat=len(NAMES)) if told(log, other, con) == seen]
    return {n: values[i] for i, n in enumerate(NAMES) if len({w[i] for w in worlds}) == 1}


def exposed(verdict: Verdict) -> dict[str, int]:
    return {f.who: int(f.value) for f in verdict.exposure.findings if str(f.status) == "exposed"}


def assert_no_lie(log: list[str], values: tuple[int, ...]) -> Verdict:
    verdict, known = audited(log, values), known_by_enumeration(log, values)
    assert exposed(verdict).items() <= known.items(), (log, values)
    if verdict.exit_code == 0:
        assert not known, (log, values)
    return verdict


@pytest.mark.parametrize(
    "tail",
    [
        "GROUP BY GROUPING SETS ((name), (name)) ORDER BY name LIMIT 2 OFFSET 4",
        "GROUP BY GROUPING SETS ((name), (name)) ORDER BY name LIMIT 4",
        "GROUP BY GROUPING SETS ((name), (name)) ORDER BY name LIMIT 3",
        "GROUP BY GROUPING SETS ((name), (name), (name)) ORDER BY name DESC LIMIT 4",
        "GROUP BY name, ROLLUP (name) ORDER BY name LIMIT 1 OFFSET 4",
        "GROUP BY GROUPING SETS ((name), (name)) ORDER BY name OFFSET 7",
        "GROUP BY GROUPING SETS ((name), (name)) ORDER BY name OFFSET 8",
        "GROUP BY GROUPING SETS ((name), (name)) QUALIFY ROW_NUMBER() OVER (ORDER BY name) <= 2",
    ],
)
def test_a_group_that_is_shown_twice_takes_two_places(tail: str) -> None:
    log = [f"SELECT name, SUM(x) FROM t {tail}", "SELECT COUNT(*) FROM t"]
    values = (1, 0, 1, 0)
    verdict = assert_no_lie(log, values)
    assert verdict.exit_code == bool(known_by_enumeration(log, values)) == bool(exposed(verdict))


def test_repeated_groups_of_equal_rank_are_sure_only_where_the_cut_cannot_take_all_rows_of_one() -> None:
    log = ["SELECT name, SUM(x) FROM t WHERE g = 'u' GROUP BY GROUPING SETS ((name), (name)) ORDER BY COUNT(*) LIMIT 3"]
    assert set(exposed(audited(log, (1, 0, 1, 0)))) == {"p0", "p1"}  # one of four rows is cut off
    two = [log[0].replace("LIMIT 3", "LIMIT 2")]
    assert not exposed(audited(two, (1, 0, 1, 0)))


def test_few_rows_under_a_limit_are_counted_as_rows() -> None:
    log = ["SELECT g, SUM(x) FROM t WHERE name IN ('p0', 'p2') GROUP BY GROUPING SETS ((g), (g)) ORDER BY 2 LIMIT 2"]
    assert not exposed(audited(log, (1, 0, 1, 0)))
    assert set(exposed(audited([log[0].replace("LIMIT 2", "LIMIT 4")], (1, 0, 1, 0)))) == {"p0", "p2"}


def test_a_statement_that_shows_nobody_is_judged_alone_as_it_is_beside_others() -> None:
    nothing = "SELECT name, SUM(x) FROM t GROUP BY name ORDER BY name LIMIT 2 OFFSET 4"
    alone, beside = audited([nothing], (1, 0, 1, 0)), audited([nothing, "SELECT SUM(x) FROM t"], (1, 0, 1, 0))
    assert (alone.exit_code, beside.exit_code) == (0, 0)
    assert (alone.statements.total, beside.statements.total) == (1, 2)


@pytest.mark.parametrize(
    "sql",
    [
        f"{ONE} UNION ALL {TWO} ORDER BY 1",
        "SELECT SUM(x) AS v FROM t WHERE g = 'u' UNION ALL SELECT SUM(x) FROM t WHERE name <> 'p0' ORDER BY v DESC",
        f"({ONE}) UNION ALL ({TWO}) ORDER BY v",
        f"{ONE} UNION ALL {TWO} UNION ALL SELECT SUM(x) FROM t WHERE name = 'p2' ORDER BY v",
        f"{labelled(ONE, 'k')} UNION ALL {labelled(TWO, 'k')} ORDER BY k, v",
        f"{with_label(ONE, '1 AS k')} UNION ALL {with_label(TWO, '1.0')} ORDER BY k, v",
        f"SELECT a, SUM(x) AS v FROM t GROUP BY a UNION ALL {with_label(TWO, '1')} ORDER BY a, v",
        f"WITH q AS ({ONE} UNION ALL {TWO}) SELECT v FROM q ORDER BY v",
        f"{ONE} UNION ALL {TWO} ORDER BY 1 LIMIT 1",
        f"SELECT SUM(x) AS v FROM t WHERE g = 'u' EXCEPT {TWO} ORDER BY 1",
        f"SELECT SUM(x) AS v FROM t WHERE g = 'u' INTERSECT {TWO} ORDER BY 1",
        f"{with_label(ONE, '1 AS k')} UNION {with_label(TWO, '1.0')}",
    ],
)
def test_rows_of_a_union_that_nothing_tells_apart_are_of_nobody(sql: str) -> None:
    for values in ((1, 0, 1, 0), (0, 1, 1, 0)):
        verdict = assert_no_lie([sql], values)
        assert not exposed(verdict)


@pytest.mark.parametrize(
    "sql",
    [
        f"{labelled(ONE, 'b')} UNION ALL {labelled(TWO, 'a')} UNION ALL SELECT 'c', SUM(x) FROM t ORDER BY 2",
        f"{labelled(ONE, 'all')} UNION ALL SELECT g, SUM(x) FROM t WHERE name = 'p1' GROUP BY g ORDER BY 1",
        f"{ONE} UNION ALL {TWO}",
    ],
)
def test_labels_tell_the_rows_of_a_union_apart(sql: str) -> None:
    values = (1, 0, 1, 0)
    assert exposed(assert_no_lie([sql], values)).keys() >= {"p1"}


def test_given_answers_of_an_ordered_union_are_not_dealt_out_in_its_order(tmp_path: Path) -> None:
    sql = f"{labelled(ONE, 'b')} UNION ALL {labelled(TWO, 'a')} ORDER BY 1"
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"sql": sql, "answer": [0, 1]}) + "\n", encoding="utf-8")
    verdict = keyhole.audit(log, data=people((1, 0, 1, 0)), private=["x:0..1:1"], id="name", table="t")
    assert verdict.exit_code == 3
    assert "ORDER BY" in verdict.refused[0].error


def random_log(rng: random.Random) -> list[str]:
    keys = rng.choice(("name", "a", "g"))
    sets = rng.choice(
        (f"GROUPING SETS (({keys}), ({keys}))", f"{keys}, ROLLUP ({keys})", f"GROUPING SETS (({keys}), ())")
    )
    order = rng.choice((keys, f"{keys} DESC", f"COUNT(*), {keys}", "1"))
    cut = rng.choice((f"ORDER BY {order} LIMIT {rng.randrange(1, 5)}", f"ORDER BY {order} OFFSET {rng.randrange(8)}"))
    if rng.random() < 0.4:
        cut = f"ORDER BY {order} LIMIT {rng.randrange(1, 4)} OFFSET {rng.randrange(8)}"
    if rng.random() < 0.2:
        cut = f"QUALIFY ROW_NUMBER() OVER (ORDER BY {keys}) {rng.choice(('<=', '=', '<'))} {rng.randrange(1, 7)}"
    having = rng.choice(("", "", " HAVING COUNT(*) = 1"))
    also = rng.choice(("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE name <> 'p0'", "SELECT COUNT(*) FROM t"))
    return [f"SELECT {keys}, SUM(x) FROM t GROUP BY {sets}{having} {cut}", also]


def _many(seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        assert_no_lie(random_log(rng), tuple(rng.choice(DOMAIN) for _ in NAMES))


def test_random_cuts_of_repeated_groups_never_lie() -> None:
    _many(13, 4)


@pytest.mark.soak
def test_many_random_cuts_of_repeated_groups_never_lie() -> None:
    _many(random.randrange(10**9), 150)
