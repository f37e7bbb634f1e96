"""A statement means the same whether its shape was met before or not."""

from __future__ import annotations

import re
import threading

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_world import SCHEMA
from test_sql_meaning import statements
from tests.support.effort import effort

from keyhole.errors import QueryError
from keyhole.model.query import Statement
from keyhole.sql import lower_statement
from keyhole.sql.statements.parse import forget_trees, read_shape, recall_tree

CONSTANT = re.compile(r"'[^']*'|(?<![\w.\"])\d+(?:\.\d+)?(?![\w.\"])")
TEXTS = st.sampled_from(["'F'", "''", "'it''s'", "'2020-01-01'", "'1; DROP'", "'李%'", "'month'", "'5'"])
NUMBERS = st.sampled_from(["0", "1", "2", "7", "0.5", "1e3", "12345678901234567890", "99999999999999999999.5", "1e60"])


def outcome(sql: str) -> Statement | tuple[str, str, int | None]:
    try:
        return lower_statement(sql, SCHEMA)
    except QueryError as error:
        return type(error).__name__, error.message, error.position


@settings(max_examples=effort(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(), st.data())
def test_a_shape_met_before_changes_nothing(first: str, data: st.DataObject) -> None:
    def other(match: re.Match[str]) -> str:
        if data.draw(st.booleans()):
            return match.group()
        return data.draw(TEXTS if match.group().startswith("'") else NUMBERS)

    second = CONSTANT.sub(other, first)
    forget_trees()
    afresh = outcome(second)
    forget_trees()
    outcome(first)
    assert outcome(second) == afresh
    assert outcome(second) == afresh  # nor does being filled in twice


def test_a_repeated_shape_is_not_parsed_again() -> None:
    forget_trees()
    lower_statement("SELECT SUM(pay) AS s, COUNT(*) > 3 FROM people WHERE age > 5 AND sex = 'F'", SCHEMA)
    again = "SELECT SUM(pay) AS s, COUNT(*) > 12 FROM people WHERE age > 60 AND sex = 'it''s'"
    shaped = read_shape(again)
    assert shaped is not None
    kept = recall_tree(again, *shaped)
    assert kept is not None
    assert kept[0].labels == ["SUM(pay)", "COUNT(*) > 12"]
    assert lower_statement(again, SCHEMA).text == again


def test_constants_that_the_parser_reads_are_not_exchanged() -> None:
    forget_trees()
    year = lower_statement("SELECT COUNT(*) FROM people WHERE DATE_TRUNC('year', born) = '2020-01-01'", SCHEMA)
    month = lower_statement("SELECT COUNT(*) FROM people WHERE DATE_TRUNC('month', born) = '2020-01-01'", SCHEMA)
    assert year.where != month.where


def test_the_caret_is_that_of_the_text_at_hand() -> None:
    forget_trees()
    lower_statement("SELECT SUM(pay) FROM people WHERE zip = 5 AND born > '2020-01-01'", SCHEMA)
    sql = "SELECT SUM(pay) FROM people WHERE zip = 5000000 AND born > 'soon'"
    found = outcome(sql)
    assert isinstance(found, tuple)
    assert found[2] == sql.index("'soon'")


def test_threads_do_not_share_trees() -> None:
    forget_trees()
    wrong: list[str] = []

    def ask(number: int) -> None:
        for i in range(60):
            sql = f"SELECT SUM(pay) FROM people WHERE zip = {number} AND age < {i}"
            if lower_statement(sql, SCHEMA).where != lower_statement(f"{sql} -- afresh", SCHEMA).where:
                wrong.append(sql)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
