"""Private values planted into every place of SQL where an expression may stand: the places, and what comes of them."""

from __future__ import annotations

import csv
import inspect
import io
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from keyhole.auditing import Judge
from keyhole.config.settings import settings, with_private
from keyhole.datasets.open import Use, open_table
from keyhole.gather import gather
from keyhole.gather.transcribe import checked, expanded, lowered, spelt_out
from keyhole.gather.whole_table import WholeTableReader
from keyhole.logs.open import as_log

PEOPLE = "name,dept,age,kids\nAnn,a,30,2\nBob,a,41,0\nCyd,b,52,3\nDan,b,38,1\nEve,b,29,1\nFay,a,30,4\n"
ANN = "(SELECT kids FROM t WHERE name = 'Ann')"
MOST = "(SELECT MAX(kids) FROM t WHERE name = 'Ann')"
OF_ANN = "MAX(CASE WHEN name = 'Ann' THEN kids END)"
PLANTS = (ANN, MOST, OF_ANN, f"(SELECT {OF_ANN})")  # each shows Ann's value; the last one of records outside of it
TRIES = 8
ASKED_FIRST = "SELECT COUNT(*) FROM t;\n"  # so that a statement that is skipped is not the only one
# each is clear as it stands, and together they have most kinds of nodes that are judged
BASES = (
    "SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY age LIMIT 3",
    (
        "WITH a AS (SELECT age, COUNT(*) AS n FROM t WHERE dept = 'a' GROUP BY age) "
        "SELECT age, n FROM a WHERE n > 0 ORDER BY n DESC LIMIT 2 OFFSET 1"
    ),
    "SELECT 1 AS k, COUNT(*) FROM t UNION ALL SELECT 2, COUNT(*) FROM t ORDER BY k",
    (
        "SELECT age, SUM(COUNT(*)) OVER (PARTITION BY age > 3 ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
        "FROM t GROUP BY age"
    ),
    "SELECT age, RANK() OVER w FROM t GROUP BY age WINDOW w AS (ORDER BY COUNT(*))",
    (
        "SELECT dept, COUNT(*) FILTER (WHERE age BETWEEN 3 AND 60), COUNT(DISTINCT age) "
        "FROM t WHERE age IN (29, 30, 41, 52) AND dept LIKE 'a%' OR NOT dept IS NULL GROUP BY ROLLUP (dept) "
        "HAVING COUNT(*) > 1"
    ),
    "SELECT dept, COUNT(*) FROM t GROUP BY dept QUALIFY ROW_NUMBER() OVER (ORDER BY dept) <= 1",
    "SELECT CASE WHEN age > 40 THEN 'old' ELSE 'young' END AS g, AVG(age), MEDIAN(age), STDDEV(age) FROM t GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT age AS a FROM t WHERE dept = 'a') AS s WHERE a > CAST('3' AS INTEGER)",
    "SELECT g, AVG(n) FROM (SELECT age AS g, dept, COUNT(*) AS n FROM t GROUP BY age, dept) GROUP BY g ORDER BY g",
    (
        "SELECT s.v, a.n FROM (VALUES (29), (30)) AS s(v) "
        "LEFT JOIN (SELECT age, COUNT(*) AS n FROM t GROUP BY age) AS a ON a.age = s.v"
    ),
    "SELECT COUNT(*) FROM t WHERE age < (SELECT AVG(age) FROM t)",
    "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.age > t.age)",
    "SELECT SUM(r) FROM (SELECT RANK() OVER (ORDER BY age) AS r FROM t)",
    "SELECT DISTINCT dept, COUNT(*) OVER (PARTITION BY dept) FROM t",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM t",
    "SELECT dept, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) FROM t GROUP BY dept",
    "SELECT dept, LAG(COUNT(*), 1, 0) OVER (ORDER BY dept) FROM t GROUP BY dept",
)
KINDS: tuple[type[exp.Expr], ...] = tuple(
    sorted(
        {kind for kind in vars(exp).values() if inspect.isclass(kind) and issubclass(kind, exp.Expr)},
        key=lambda kind: kind.__name__,
    )
)
_FAULTS = (SqlglotError, ValueError, AttributeError, TypeError, LookupError, RuntimeError, AssertionError)
_CLAUSES = ("having", "where", "limit", "qualify", "distinct", "hint", "sample", "kind", "into", "group", "order")
_LISTS = ("joins", "laterals", "windows", "settings", "locks", "pivots")
_BY_AGE = sqlglot.parse_one("SELECT age, COUNT(*) FROM t GROUP BY age", read="duckdb")
_TREES = tuple(sqlglot.parse_one(base, read="duckdb") for base in BASES)
_PARSED = {plant: sqlglot.parse_one(plant, read="duckdb") for plant in PLANTS}


@dataclass(frozen=True, slots=True)
class Place:
    """An argument of a node of a base (`at`: which node), or of a kind of node that is put into a clause."""

    node: str
    argument: str
    plant: str
    base: int = 0
    at: int = -1
    member: int | None = None  # of a list: which one is replaced, or its end; None: the plant is the whole argument
    clause: str = ""

    def write(self, dialect: str) -> str:
        """The statement with the plant; empty if the plant does not survive text and back."""
        try:
            if self.clause and not _is_written(self.node, self.argument, self.plant, self.member, dialect):
                return ""
            tree = self._in_kind() if self.clause else self._in_base()
            text = _text(tree, dialect)
        except _FAULTS:
            return ""
        return text if "kids" in text.lower() and _is_read_back(text, dialect) else ""

    def _in_base(self) -> exp.Expr:
        tree = _TREES[self.base].copy()
        node = next(islice(tree.walk(), self.at, None))
        plant = _PARSED[self.plant].copy()
        value: Any = plant
        if self.member is not None:
            held = node.args.get(self.argument)
            value = list(held) if isinstance(held, list) else []
            value[self.member : self.member + 1] = [plant]
        node.set(self.argument, value)
        return tree

    def _in_kind(self) -> exp.Expr:
        node = _make_node(self.node, self.argument, self.plant, self.member)
        if self.clause == "statement":
            return node
        tree = _BY_AGE.copy()
        made: Any = [node] if self.clause in _LISTS else node
        if self.clause == "item":
            tree.append("expressions", node)
        elif self.clause == "term":
            tree.set("order", exp.Order(expressions=[exp.Ordered(this=node)]))
        else:
            tree.set(self.clause, exp.From(this=node) if self.clause == "from_" else made)
        return tree


def list_places() -> Iterator[Place]:
    """Every argument that each node of the bases has or could have, and every argument of every kind of node."""
    for number, tree in enumerate(_TREES):
        for at, node in enumerate(tree.walk()):
            for name in node.arg_types:
                value = node.args.get(name)
                members = range(len(value) + 1) if isinstance(value, list) else (0,)
                for plant in PLANTS:
                    for member in (None, *members):
                        yield Place(type(node).__name__, name, plant, number, at, member)
    for kind in KINDS:
        clauses = ["item", "term"]
        if not issubclass(kind, exp.Condition):
            clauses += [*_CLAUSES, *_LISTS, "from_", "statement"]
        for name in kind.arg_types:
            for plant, member, clause in product(PLANTS[1:], (None, 0), clauses):
                yield Place(kind.__name__, name, plant, member=member, clause=clause)


def survivors(dialect: str, rng: random.Random | None) -> tuple[dict[str, Place], int]:
    """Statements with a plant that survives text and back, and how many arguments of nodes have none.

    With `rng` one statement is drawn for each argument of each kind of node, in a few tries; else there are all.
    """
    at: dict[tuple[str, str], list[Place]] = {}
    for place in list_places():
        at.setdefault((place.node, place.argument), []).append(place)
    texts: dict[str, Place] = {}
    lost = 0
    for some in at.values():
        if rng is not None:
            some = rng.sample(some, min(len(some), TRIES))
        survived = False
        for place in some:
            if text := place.write(dialect):
                survived = True
                texts.setdefault(text, place)
                if rng is not None:
                    break
        lost += not survived
    return texts, lost


def find_cleared(texts: Sequence[str], dialect: str) -> tuple[list[str], int]:
    """Those texts that end with exit 0, each as a log with a plain count before it; and how many were read."""
    given = with_private(settings(None, data=_people(), private=("kids:real",), id=("name",), table="t"))
    logs = [as_log(f"{ASKED_FIRST}{text};", dialect) for text in texts]
    opened = open_table(given, Use.AUDIT)
    cleared, readable = [], 0
    with closing(opened.roster) as roster:
        source, knowledge, again = opened.source, given.knowledge(), WholeTableReader(roster, opened.source)
        lines = [line for log in logs for line in log.lines]
        read = iter(checked(lowered(lines, spelt_out(roster), again=again), roster))
        for text, log in zip(texts, logs, strict=True):
            mine = list(islice(read, len(log.lines)))
            if log.refused or log.unjudged or any(each.statement is None or each.unjudged for each in mine):
                continue
            readable += 1
            evidence = gather(expanded(mine, roster, source=source), roster, knowledge, source=source)
            if Judge().examine(evidence, roster).exit_code == 0:
                cleared.append(text)
    return cleared, readable


def depends_on_ann(text: str, dialect: str) -> bool:
    """Do the rows of a statement, or their order, differ with what Ann has? True if it does not run."""
    answers = set()
    with duckdb.connect() as connection:
        connection.register("people", _people())
        for kids in range(6):
            connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM people")
            connection.execute(f"UPDATE t SET kids = {kids} WHERE name = 'Ann'")
            try:
                answers.add(repr(connection.execute(sqlglot.transpile(text, dialect, "duckdb")[0]).fetchall()))
            except duckdb.Error:
                return True
    return len(answers) > 1


def _people() -> pa.Table:
    rows = list(csv.DictReader(io.StringIO(PEOPLE)))
    numbers = ("age", "kids")
    return pa.table({name: [int(row[name]) if name in numbers else row[name] for row in rows] for name in rows[0]})


def _make_node(kind_name: str, argument: str, plant: str, member: int | None) -> exp.Expr:
    """A node with the plant in one argument, and COUNT(*) in the others that it needs."""
    kind: type[exp.Expr] = getattr(exp, kind_name)
    needed = (name for name, must in kind.arg_types.items() if must and name != argument)
    filled: dict[str, Any] = {name: exp.Count(this=exp.Star()) for name in needed}
    value = _PARSED[plant].copy()
    return kind(**filled, **{argument: value if member is None else [value]})


@cache
def _is_written(kind_name: str, argument: str, plant: str, member: int | None, dialect: str) -> bool:
    return "kids" in _text(_make_node(kind_name, argument, plant, member), dialect).lower()


def _text(tree: exp.Expr, dialect: str) -> str:
    return str(tree.sql(dialect=dialect, unsupported_level=ErrorLevel.IGNORE))


@cache
def _is_read_back(text: str, dialect: str) -> bool:
    try:
        again = sqlglot.parse_one(text, read=dialect)
    except _FAULTS:
        return False
    return isinstance(again, exp.Command) or any(column.name.lower() == "kids" for column in again.find_all(exp.Column))
