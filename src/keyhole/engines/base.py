"""The privacy boundary, in types: a `Roster` knows who matches, a `Source` also knows the secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.model.predicate import Leaf, Predicate, Scalar
from keyhole.model.query import OrderTerm, Query, Statement
from keyhole.model.schema import Column, Schema, WholeTableColumn

Rows: TypeAlias = NDArray[np.int64]
GroupKey: TypeAlias = dict[str, Scalar | None]
Seal: TypeAlias = Callable[[bytes], Mapping[str, str]]  # key -> digest of each private column that is at hand


@dataclass(frozen=True, slots=True, eq=False)
class PrivateValues:
    """A private column, exactly: value = units / 10**digits where `present`; `floats` where decimals do not do.

    `units` are 64-bit integers, or Python's where those are too small.
    """

    present: NDArray[np.bool_]
    units: NDArray[Any] | None
    digits: int
    floats: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PrivateTotal:
    """A sum over private values, and that of their absolute values."""

    total: Fraction
    size: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """A made-up private column of numbers: value = units / over where `present`."""

    units: NDArray[np.int64]
    present: NDArray[np.bool_]
    over: int


@dataclass(frozen=True, slots=True)
class AsWritten:
    """A text to run: the name of the table in it, and how many columns it should have.

    `as_written` is the text before it was translated into DuckDB's words, and `written_for` the dialect of that.

    Texts with the same `head` have the same words up to a WHERE that ends them, so the same columns and types; empty:
    nothing is known about it.
    """

    text: str
    table: tuple[str, ...]
    columns: int
    head: str = ""
    as_written: str = ""
    written_for: str = ""


class Filling(IntEnum):
    """The ways to make the private columns up: two with all kinds of values, the others for sums over nobody.

    A row whose number is 0, NULL or about a constant in FIRST has a random one other than 0 in SECOND, and one that
    SECOND leaves out has such a number in FIRST: whether a sum counts a row shows in one of the two. FEW has three
    rows, NOBODY none. In EVEN_NULL every other column that may be NULL is NULL throughout, in ODD_NULL the others are.
    """

    FIRST = 0
    SECOND = 1
    FEW = 2
    NOBODY = 3
    EVEN_NULL = 4
    ODD_NULL = 5

    def without(self, schema: Schema) -> tuple[str, ...]:
        """The private columns that are NULL in every row."""
        names = tuple(c.name for c in schema.columns if c.secret and c.nullable)
        return {Filling.EVEN_NULL: names[::2], Filling.ODD_NULL: names[1::2]}.get(self, ())


class ProbeTable(Protocol):
    """A made-up table in a database of its own: real public values, made-up private ones; statements run as written."""

    @property
    def schema(self) -> Schema:
        """The columns of the real table."""

    def sample(self) -> list[GroupKey]:
        """Public columns of some records of the real table; all if there are few."""

    def place(self, extra: Sequence[Mapping[str, Scalar | None]]) -> int:
        """Public rows from now on: the sample, and these. Returns how many there are."""

    def fill(
        self,
        filling: Filling,
        constants: Mapping[str, Sequence[Scalar]],
        names: Sequence[tuple[str, ...]],
        others: Sequence[tuple[tuple[str, ...], str]] = (),
        rows: Mapping[str, Sequence[Mapping[str, Scalar | None]]] | None = None,
    ) -> NDArray[np.bool_]:
        """Make the private columns up; `constants` are what they are compared with, `names` those of the table.

        `others` are names (as written, as declared) of other tables, and `rows` what those with rows of people hold.

        Returns which of the public rows are in the table now.
        """

    def column(self, column: Column) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """(values, where there is one) of a public column of integers, days or text on all public rows, or None."""

    def truths(self, leaves: Sequence[Leaf], *, public: bool) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each condition on each row: 1 true, 0 false, -1 NULL; on all public rows, or on those filled."""

    def values(self, column: Column) -> MadeUp:
        """A private numeric column, on the rows filled."""

    def evaluate_rows(self, expressions: Sequence[str], *, public: bool) -> list[tuple[Any, ...]]:
        """Expressions over the columns: over public ones on all public rows, else on the rows filled."""

    def figures(self, keys: Sequence[str], item: str) -> list[tuple[Any, ...]]:
        """One aggregate for each value of the keys, behind them, over the rows filled."""

    def run(self, texts: Sequence[AsWritten]) -> list[list[tuple[Any, ...]] | None]:
        """The rows of each statement; None: it fails."""

    def can_run(self, texts: Sequence[str]) -> list[bool]:
        """Is each statement executed without an error?"""


class Roster(Protocol):
    """The public half of a table: which records match. It cannot read a secret."""

    @property
    def n(self) -> int:
        """How many records."""

    @property
    def people(self) -> int:
        """How many people: as many as there are ids, or records where no id repeats."""

    @property
    def schema(self) -> Schema:
        """The columns, with kinds and roles."""

    def support(self, query: Query) -> Rows:
        """The records a query with public conditions looks at: sorted, unique row numbers from 0."""

    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        """Records grouped by (which predicates hold, values of the weights)."""

    def probe(self) -> ProbeTable:
        """A made-up table with the public values of this one, for checking how statements are read."""

    def classes(self, expressions: Sequence[str]) -> Rows:
        """Records by the value of public expressions: a number from 0 for each value, -1 where one is NULL."""

    def faults(self, parts: Sequence[tuple[Predicate, str | None]]) -> list[str | None]:
        """`fault` of many conditions and weights."""

    def fault(self, predicate: Predicate, weight: str | None) -> str | None:
        """The engine's objection to a public condition or weight, or None if it can be evaluated."""

    def compute(self, columns: Sequence[WholeTableColumn]) -> str:
        """Add public columns that the engine computes over the whole table; why that cannot be, else empty."""

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""

    def give_the_same_rows(self, table: tuple[str, ...], one: str, other: str) -> bool:
        """Do two statements give the same rows over all public rows with made-up private values?"""

    def keys(self, statement: Statement) -> list[GroupKey]:
        """The values of a statement's public GROUP BY keys that occur, for each of its grouping sets."""

    def ranked(self, statement: Statement, order: Sequence[OrderTerm]) -> list[tuple[GroupKey, int]]:
        """The groups under the public conditions of a statement, in a public order, each with its rank."""

    def spellings(self, column: str) -> frozenset[str]:
        """The values of a public column of text."""

    def figure(self, query: Query) -> Decimal | bool | None:
        """The answer of a query that looks at public things only, computed by the engine."""

    def figures(
        self, statement: Statement, queries: Sequence[Query]
    ) -> list[tuple[GroupKey, list[Decimal | bool | None]]]:
        """The answers of such queries for each group of a statement with public keys, in one go."""

    def sign_ids(self, key: bytes) -> list[bytes] | None:
        """HMAC-SHA256 of each record's id, spelled as `population.id_key` does; None where an id is no text or whole
        number.
        """

    def labels(self, rows: Rows) -> list[dict[str, Scalar | None]]:
        """The id of each record (its row number where no id is declared)."""

    def singled_out(self, rows: Rows) -> list[bool]:
        """For each record: do the public columns alone point to it?"""

    def code_column(self, column: str) -> tuple[tuple[Scalar, ...], Rows]:
        """The values of a public column in their order, and the number of each record's value (NULL: the last)."""

    def has_value(self, column: str) -> NDArray[np.bool_]:
        """Who has a value in a private column; everybody, where the data has no such column."""

    def as_separate_people(self) -> Roster:
        """The same records, each taken as somebody of his own, without rows of other tables."""

    def fingerprint(self) -> str:
        """A digest of the public half, independent of the order of its rows: is this the table that was seen before?"""

    def close(self) -> None:
        """Let go of the table, of both halves."""


class Source(Roster, Protocol):
    """The whole table: the public half and the secret."""

    @property
    def roster(self) -> Roster:
        """The public half alone."""

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer, computed by the engine."""

    def returned_groups(self, statement: Statement) -> list[GroupKey]:
        """The groups that the statement really returns."""

    def describe_orphan_rows(self, table: str) -> str:
        """How many rows of another table belong to nobody, or which ids of its own differ by a blank or a capital only,
        in words for the owner of the data; empty if none.
        """

    def values(self, column: str) -> PrivateValues:
        """A private numeric column, in row order."""

    @property
    def gives_values(self) -> bool:
        """Are values of single records given? False where they stay in their database, and totals alone come over."""

    def sums_over_atoms(
        self, atoms: Atoms, questions: Sequence[Mapping[int, Fraction]], column: str, power: int
    ) -> list[PrivateTotal]:
        """The sum of weight * column ** power over the records of some atoms, for each question: one number each, for
        sources that give no values. A question says what each atom that counts is weighted with.
        """

    def value_counts(self, column: str, most: int) -> list[tuple[Scalar, int]] | None:
        """Each value of a private column and how many records have it, NULL aside; None if there are more than most."""

    def value_ends(self, column: str) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest number of a private column; None if it has none."""

    def row_values(self, table: str, column: str) -> list[Scalar | None]:
        """The values of a column of another table's rows, in their order, NULL last."""

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each private condition on each record: 1 true, 0 false, -1 NULL."""

    def holds(self, condition: str) -> bool:
        """Does a condition hold for some record?"""

    def tally(self, code: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records there are for each value of a whole-numbered expression: (values, counts), in one scan."""

    def tallies(self, code: str, sums: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each value of a whole-numbered expression: the value, how many records, and the sums of other whole-
        numbered expressions, in one scan. Sums must fit 63 bits.
        """

    def limit_rows_per_person(self, ids: Sequence[str], rows: int, key: bytes) -> None:
        """From now on tallies are of so many rows of each person at most: those of the smallest keyed hash of the
        person and the row's own content.
        """

    def count_distinct(self, code: str, where: str) -> int:
        """How many different values an expression has among the counted records under a condition."""

    def count_keys(self, columns: Sequence[str], where: str) -> list[tuple[tuple[str, ...], int]]:
        """The values of columns as text, among the counted records under a condition, and how many have each."""

    def seal(self) -> Seal | None:
        """Keyed digests of the private columns at hand; None if none is."""

    def digest(self, key: bytes) -> str:
        """A keyed digest of all that is not hidden."""
