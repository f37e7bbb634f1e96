"""Proofs as a plain SQL script that a sceptic runs in his own database: DuckDB or PostgreSQL, nothing of keyhole.

In a transaction that is rolled back, a temporary table with made-up private values takes the table's name; then the
original statements, with the weights of each proof, must give the made-up value of that person. Twice, with values
from 1 to 2,000,000,000: a wrong sum passes once in 10^18 times.
"""

from __future__ import annotations

import re
from math import lcm

from keyhole.auditing.base import visible
from keyhole.checker.fillings import public_only
from keyhole.model.predicate import format_literal, quote_name
from keyhole.report.cases import Case, Cited, PlainVerdict
from keyhole.sql.statements.select_outline import list_item_names, list_table_names

ROUNDS = 2
LARGEST = 2_000_000_000
MADE_UP = "keyhole_made_up"
TYPES = {"integer": "BIGINT", "decimal": "DECIMAL(18, 4)", "double": "DOUBLE PRECISION"}


class _Left(Exception):
    """Why a claim is not in the script."""


def proof_sql(verdict: PlainVerdict) -> str:
    """The script: for every proof a SELECT that answers TRUE, TRUE if it holds and adds up to the claimed value."""
    checks: list[str] = []
    left: list[str] = []
    names: dict[str, None] = {_name(verdict.source.table): None}
    for case in verdict.cases:
        try:
            checks.append(_check(case, verdict))
            names |= dict.fromkeys(n for step in case.argument.steps for n in sorted(list_table_names(step.cited.sql)))
        except _Left as why:
            left.append(f"--   {_comment(case.who)}: {_comment(case.column)}: {why}")
    table = verdict.source.table
    head = [
        f"-- {len(checks)} of {len(verdict.cases)} proofs of a keyhole audit of the table {_comment(table)}.",
        "-- Run it in DuckDB or PostgreSQL where that table is. It changes nothing: both transactions are rolled back.",
        f"-- Private columns are filled with numbers by chance, {ROUNDS} times; every SELECT must answer TRUE, TRUE.",
        "-- It checks what is claimed, not that nobody is missing.",
    ]
    if left:
        head += ["-- Not in this script (`keyhole verify` replays them):", *left]
    body = [line for _ in range(ROUNDS) for line in _round(verdict, list(names), checks)] if checks else []
    return "\n".join([*head, *body, ""])


def _round(verdict: PlainVerdict, names: list[str], checks: list[str]) -> list[str]:
    columns = []
    for name, kind in verdict.source.kinds.items():
        column = quote_name(name)
        if name in verdict.source.private:
            made = (
                f"CAST(floor(random() * {LARGEST}) + 1 AS {TYPES[kind]})" if kind in TYPES else "CAST(NULL AS VARCHAR)"
            )
            column = f"CASE WHEN {column} IS NOT NULL THEN {made} END AS {column}"
        columns.append(column)
    listed = ",\n  ".join(columns)
    return [
        "",
        "BEGIN;",
        f"CREATE TEMP TABLE {MADE_UP} AS SELECT\n  {listed}\nFROM {names[0]};",
        *(f"CREATE TEMP TABLE {name} AS SELECT * FROM {MADE_UP};" for name in names),
        *checks,
        "ROLLBACK;",
    ]


def _check(case: Case, verdict: PlainVerdict) -> str:
    """One proof, multiplied by the common denominator of its weights."""
    argument = case.argument
    if argument.certificate.get("kind") != "identity":
        raise _Left("a proof by rule")
    weights = [step.weight for step in argument.steps]
    over = lcm(argument.constant.denominator, *(w.denominator for w in weights))
    made, told, known = [], [], True
    for step in argument.steps:
        cited, weight = step.cited, int(step.weight * over)
        made.append(f"{weight} * {_cell(cited, verdict)}")
        known &= cited.ends is not None
        told.append(f"{weight} * {_number(cited)}")
    constant = f" + {int(argument.constant * over)}" if argument.constant else ""
    column = quote_name(case.column)
    person = f"(SELECT SUM({column}) FROM {MADE_UP} WHERE {_people(case, verdict)})"
    holds = f"ABS({' + '.join(made)}{constant} - {over} * {person}) < 0.4"
    adds_up = "TRUE"
    if known and case.value is not None:
        adds_up = (
            f"ABS({' + '.join(told)}{constant} - {over} * ({case.value})) <= 0.000001 * ({over} + ABS({case.value}))"
        )
    label = format_literal(f"{visible(case.who)}: {visible(case.column)}")
    return f"SELECT {label} AS claim,\n  {holds} AS holds,\n  {adds_up} AS adds_up;"


def _cell(cited: Cited, verdict: PlainVerdict) -> str:
    """The number that a statement answers in the cell that is cited, as a scalar."""
    if cited.fact is not None:
        raise _Left("it rests on a fact")
    sql = cited.sql.strip().rstrip(";").rstrip()
    if not public_only(sql, verdict.source.private):
        raise _Left("a statement that may have private conditions")
    if any("." in name for name in list_table_names(sql)):
        raise _Left("a statement that names a schema")
    at = cited.replayed.column
    items = [name.casefold() for name in list_item_names(sql)]
    if cited.form or at is None or not items:
        raise _Left("a cell of an answer that is not plain")
    aliases = ", ".join(f"c{i}" for i in range(1, len(items) + 1))
    tests = []
    for name, value in cited.key:
        if items.count(name.casefold()) != 1:
            raise _Left("an answer that does not show the key of its group")
        tests.append(f"c{items.index(name.casefold()) + 1} IS NOT DISTINCT FROM {format_literal(value)}")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"(SELECT c{at} FROM (\n    {sql}\n  ) AS q({aliases}){where})"


def _number(cited: Cited) -> str:
    return "NULL" if cited.value is None else f"({cited.value})"


def _people(case: Case, verdict: PlainVerdict) -> str:
    if not verdict.source.id:
        raise _Left("no id names the person")
    return " OR ".join(
        "(" + " AND ".join(f"{quote_name(k)} IS NOT DISTINCT FROM {format_literal(v)}" for k, v in record.items()) + ")"
        for record in case.records
    )


def _name(table: str) -> str:
    """A table as a statement would name it: quoted only where it must be."""
    return table if re.fullmatch(r"[a-z_][a-z0-9_]*", table) else quote_name(table)


def _comment(text: str) -> str:
    return visible(text)
