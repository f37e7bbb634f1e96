"""Statements with one argument of one node changed: `python -m tests.fuzz.mutants --first SEED --count N`.

An argument whose change changes nothing is unread. So of a statement and its mutant, both judged, either what they are
read as differs, or they give the same rows; where only something computed from what is read was shown, they must look
at the same private columns. Over a handful of people all of it is checked by every table: those that agree in what was
read agree in the answer, and in its order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from benchmarks.coverage import NOW, SHAPES, Corpus, ours
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from tests.fuzz.dashboards import Text, log
from tests.fuzz.logs import FEW, Door, engine
from tests.fuzz.soak import FalseVerdict, run
from tests.fuzz.twin import EveryTable, Failed, written_rows
from tests.fuzz.world import World, make_world

from keyhole.config import PrivateColumn
from keyhole.config.settings import settings, with_private
from keyhole.datasets import Roster, Source
from keyhole.datasets.open import Use, compared_with_text, open_table
from keyhole.gather.transcribe import Read, checked, lowered, spelt_out
from keyhole.gather.whole_table import WholeTableReader
from keyhole.logs.open import as_log
from keyhole.model.query import COVERED, FINER, Statement
from keyhole.model.transcript import Line
from keyhole.sql.statements.table_names import list_tables_read

MUTANTS = 6  # of one statement
TRIES = 40
_FAULTS = (SqlglotError, ValueError, AttributeError, TypeError, LookupError, RuntimeError, AssertionError)


class Mutator:
    """Changes one argument of one node, to what stands in that place elsewhere or to any expression."""

    def __init__(self, trees: Sequence[exp.Expr], private: Sequence[str], dialect: str, table: str) -> None:
        self.dialect = dialect
        self.seen: dict[tuple[type[exp.Expr], str], list[Any]] = {}
        self.private: list[exp.Expr] = []
        self.expressions: list[exp.Expr] = [exp.Literal.number(2), exp.Literal.string("a"), exp.Null()]
        for node in (node for tree in trees for node in tree.walk()):
            for name, value in node.args.items():
                if value:
                    self.seen.setdefault((type(node), name), []).append(value)
            if isinstance(node, exp.Column | exp.AggFunc | exp.Window | exp.Binary):
                self.expressions.append(node)
        for name in private:
            most = exp.Max(this=exp.column(name))
            asked = [exp.select(most.copy()).subquery(), exp.select(most.copy()).from_(table).subquery()]
            self.private += [exp.column(name), most, *asked]

    def mutants(self, tree: exp.Expr, rng: random.Random, count: int) -> Iterator[str]:
        """Texts that parse, and are another tree than the statement's."""
        before = self.text(tree)
        found: set[str] = set()
        for _ in range(TRIES):
            try:
                text = self.text(self.changed(tree.copy(), rng))
                parsed = sqlglot.parse_one(text, read=self.dialect)
            except _FAULTS:
                continue
            if isinstance(parsed, exp.Query) and text != before and text not in found and parsed != tree:
                found.add(text)
                yield text
            if len(found) == count:
                return

    def changed(self, tree: exp.Expr, rng: random.Random) -> exp.Expr:
        by_kind: dict[type[exp.Expr], list[exp.Expr]] = {}
        for node in tree.walk():
            by_kind.setdefault(type(node), []).append(node)
        node = rng.choice(rng.choice(list(by_kind.values())))
        names = list(node.args) if node.args and rng.random() < 0.7 else list(node.arg_types)
        name = rng.choice(names)
        node.set(name, self.other(node.args.get(name), type(node), name, rng))
        return tree

    def other(self, value: Any, kind: type[exp.Expr], name: str, rng: random.Random) -> Any:
        """Something else for an argument."""
        if isinstance(value, bool):
            return not value
        if isinstance(value, str) and value.isdigit() and rng.random() < 0.5:
            return str(int(value) + 1)
        if isinstance(value, list) and value and rng.random() < 0.7:
            listed, at = [_copied(each) for each in value], rng.randrange(len(value))
            listed[at : at + 1] = rng.choice(([], [listed[at], self.any_expression(rng)], [self.any_expression(rng)]))
            return listed if rng.random() < 0.8 else listed[::-1]
        elsewhere = self.seen.get((kind, name), [])
        ways = [lambda: None, lambda: self.any_expression(rng), lambda: [self.any_expression(rng)], lambda: True]
        ways = [ways[1], *([ways[0]] if value else ways[2:])]
        if elsewhere:
            ways += [lambda: _copied(rng.choice(elsewhere))] * 3
        return rng.choice(ways)()

    def any_expression(self, rng: random.Random) -> exp.Expr:
        return rng.choice(self.private if rng.random() < 0.4 else self.expressions).copy()

    def text(self, tree: exp.Expr) -> str:
        return str(tree.sql(dialect=self.dialect, unsupported_level=ErrorLevel.IGNORE))


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value.copy() if isinstance(value, exp.Expr) else value


def form_of(read: Read) -> tuple[Statement, ...] | None:
    """What a line was read as, without its words; None if it is not judged."""
    if read.statement is None or read.unjudged or read.public:
        return None
    return tuple(
        replace(
            each,
            text="",
            written="",
            queries=tuple(replace(query, label="") for query in each.queries),
            keys=tuple(replace(key, name="") for key in each.keys),
        )
        for each in read.statements
    )


def is_exact(read: Read) -> bool:
    """Was everything shown as it was read?"""
    first = read.statements[0].certainty
    return first == COVERED or (not first and all(each.certainty != FINER for each in read.statements))


# statements of the corpora


@cache
def corpora() -> tuple[tuple[Corpus, list[Line], Mutator], ...]:
    """Those over the tables of the repository, with the lines that parse."""
    found = []
    for corpus in ours():
        lines = [line for line in as_log(corpus.log, corpus.dialect).lines if _parsed(line.sql, line.dialect)]
        trees = [sqlglot.parse_one(line.sql, read=line.dialect) for line in lines]
        table = next(table.name for tree in trees for table in tree.find_all(exp.Table))
        found.append((corpus, lines, Mutator(trees, corpus.private, corpus.dialect, table)))
    return tuple(found)


def play_corpus(rng: random.Random, count: int) -> Counter[str]:
    """Mutants of some statements of one corpus."""
    corpus, lines, mutator = rng.choice(corpora())
    asked: list[tuple[Line, list[Line]]] = []
    for line in rng.sample(lines, min(len(lines), count)):
        tree = sqlglot.parse_one(line.sql, read=line.dialect)
        texts = mutator.mutants(tree, rng, MUTANTS)
        asked.append((line, [replace(line, sql=text) for text in texts]))
    given = with_private(settings(None, data=corpus.data, private=corpus.private, id=corpus.id, table=corpus.table))
    opened = open_table(given, Use.AUDIT, text=compared_with_text(lines, given.columns.private))
    score = Counter[str]()
    with closing(opened.roster) as roster:
        for line, mutants in asked:
            first, *others = _read([line, *mutants], roster, opened.source)
            for mutant in others:
                score += compare(first, mutant, corpus)
    return score


def _parsed(sql: str, dialect: str) -> bool:
    try:
        return isinstance(sqlglot.parse_one(sql, read=dialect), exp.Query)
    except SqlglotError:
        return False


def _read(lines: Sequence[Line], roster: Roster, source: Source | None) -> list[Read]:
    again = WholeTableReader(roster, source)
    return checked(lowered(lines, spelt_out(roster), NOW, again), roster)


def compare(first: Read, mutant: Read, corpus: Corpus) -> Counter[str]:
    """A statement and its mutant: if they are read alike, they say the same."""
    score = Counter({"mutants": 1, "statements": 1})
    forms = form_of(first), form_of(mutant)
    score["judged"] += forms[1] is not None
    if None in forms or forms[0] != forms[1]:
        return score
    story = f"\n    {first.line.sql!r}\n    {mutant.line.sql!r} ({corpus.name})"
    if not is_exact(first):
        looked_at = [_private_names(read.line, corpus.private) for read in (first, mutant)]
        if looked_at[0] != looked_at[1]:
            raise FalseVerdict(f"another private column, and nothing changes {story}")
        score["computed alike"] += 1
        return score
    for table in fillings(corpus.name.split()[0]):
        answers = [_rows(read.statements[0], table) for read in (first, mutant)]
        if answers[0] is not None and answers[0] != answers[1]:
            raise FalseVerdict(f"read alike, and the answers differ {story}")
    score["alike"] += 1
    return score


def _private_names(line: Line, private: Sequence[str]) -> set[str]:
    """The private columns that it looks at; in COUNT one without NULL is none."""
    tree = sqlglot.parse_one(line.sql, read=line.dialect)
    columns = (column for column in tree.find_all(exp.Column) if not isinstance(column.parent, exp.Count))
    return {column.name.casefold() for column in columns} & {name.casefold() for name in private}


@cache
def fillings(shape: str) -> tuple[pa.Table, ...]:
    """The table of a corpus, as it is and with its private values handed around."""
    make, private, _ = SHAPES[shape]
    table = turned = make()
    for name in private:
        values, place = table[name].to_pylist(), table.schema.get_field_index(name)
        turned = turned.set_column(
            place, table.schema.field(place), pa.array(values[7:] + values[:7], table[name].type)
        )
    return table, turned


def _rows(statement: Statement, table: pa.Table) -> list[str] | None:
    """The rows of a statement in the engine's words, in any order; None if it does not run under that name."""
    with duckdb.connect() as connection:
        connection.register(statement.table[-1] if statement.table else "t", table)
        try:
            return sorted(written_rows(connection.execute(statement.written or statement.text).fetchall()))
        except duckdb.Error:
            return None


# statements over every small table


def play_small(rng: random.Random, count: int) -> Counter[str]:
    """Mutants of dashboards about two or three people: what they are read as determines their answers."""
    world = make_world(rng, rng.choice((2, 3)), FEW)
    world.private["y"] = [None] * world.n if world.n == 3 else [None, *world.private["y"][1:]]
    texts = [made.sql for _ in range(count) for made in log(rng, 0.35)]
    trees = [sqlglot.parse_one(text, read="duckdb") for text in texts]
    mutator = Mutator(trees, ("x", "y"), "duckdb", "t")
    mutants = [text for tree in trees for text in mutator.mutants(tree, rng, MUTANTS)]
    asked = [text for text in map(with_total_order, [*texts, *mutants]) if text]
    door = Door(world, PrivateColumn())
    twin, score = EveryTable(engine(), world, FEW), Counter[str]()
    with closing(door.roster):
        lines = [Line(number, text, at=number) for number, text in enumerate(asked, 1)]
        for read in _read(lines, door.roster, door.source):
            score += check_determined(read, twin, world)
    return score


def with_total_order(text: str) -> str:
    """The statement with all columns behind its ORDER BY; empty if LIMIT stands where nothing orders the rows, or if
    another table is named.
    """
    tree = sqlglot.parse_one(text, read="duckdb")
    cut = [query for query in tree.find_all(exp.Query) if query.args.get("limit") or query.args.get("offset")]
    if any(query.args.get("order") is None or query is not tree for query in cut) or list_tables_read(text) != {("t",)}:
        return ""
    if (order := tree.args.get("order")) is not None:
        first = tree
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.this
        for place in range(len(first.expressions)):
            order.append("expressions", exp.Ordered(this=exp.Literal.number(place + 1)))
    return str(tree.sql(dialect="duckdb"))


def _answers(text: str, twin: EveryTable) -> list[tuple[list[str], list[str]] | None]:
    """The rows in every table, None where the engine fails on its values."""

    def seen(k: int) -> tuple[list[str], list[str]] | None:
        try:
            return twin.seen(Text((), "", text=text), k)
        except Failed:
            return None

    return [seen(k) for k in range(len(twin.tables))]


def check_determined(read: Read, twin: EveryTable, world: World) -> Counter[str]:
    """Do all tables that give the answers of the parts give that of the statement, in its order?"""
    score = Counter({"mutants": 1, "statements": 1})
    if form_of(read) is None:
        return score
    score["judged"] += 1
    answers = _answers(read.line.sql, twin)
    if not any(answers):
        raise FalseVerdict(f"judged, and the engine does not run it: {read.line.sql}")
    left = set(range(len(twin.tables)))
    same = {k for k in left if answers[k] == answers[twin.at]}
    for part in read.statements:
        found = _answers(part.text, twin)
        if not all(found):  # it looks at a column that was computed of the whole table
            return score
        left &= {k for k in left if found[k] == found[twin.at]}
    score["determined"] += 1
    if left - same:
        story = [part.text for part in read.statements], twin.tables[min(left - same)]
        raise FalseVerdict(
            f"what it is read as does not determine it:\n    {read.line.sql!r}\n    {story}\n    {world}"
        )
    return score


def play(seed: int, count: int = 12) -> Counter[str]:
    """Mutants of statements of a corpus, and of random ones."""
    rng = random.Random(seed)
    return play_corpus(rng, count) + play_small(rng, count // 2)


if __name__ == "__main__":
    run("mutants", play)
