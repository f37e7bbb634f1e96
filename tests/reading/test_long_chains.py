"""A chain of thousands of queries in WITH: read or not, the reason can be read, and comes in seconds."""

from __future__ import annotations

import pyarrow as pa

import keyhole

DATA = pa.table({"name": ["Ann", "Bob", "Cyd"], "pay": [51, 64, 70]})


def chain(links: int) -> str:
    rest = "".join(f", c{i} AS (SELECT * FROM c{i - 1})" for i in range(1, links))
    return f"WITH c0 AS (SELECT * FROM t){rest} SELECT SUM(pay) FROM c{links - 1} WHERE name = 'Ann'"


def test_a_short_chain_is_opened() -> None:
    found = keyhole.audit(chain(20), data=DATA, private="pay", id="name")
    assert [f.value for f in found.exposed] == [51]


def test_a_long_one_says_what_is_wrong_with_it() -> None:
    found = keyhole.audit(chain(3000), data=DATA, private="pay", id="name")
    assert found.exit_code == 3
    (said,) = [*(u.reason for u in found.unjudged), *(r.error for r in found.refused)]
    assert "3,000 queries that read from one another" in said
    assert len(said) < 300
