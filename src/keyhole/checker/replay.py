"""Every claim of a verdict, replayed: right, wrong, or not to be replayed here. Nothing counts as right unchecked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from .alone import AloneSums
from .claims import UNSETTLED, Addend, Claimed, Claims, Unreadable, known_before, number, parse
from .counts import Counts, allows
from .dealt import DealtTables
from .engine import Cannot, Engine, Fails
from .every import EveryTable
from .fillings import Maker
from .moments import Moments
from .order import Ends, Order
from .people import PeopleCounts
from .ranges import Place, RangeProofs
from .rest import Rest, narrower
from .sums import Sums
from .tables import Tables
from .thresholds import Thresholds

BITS = 50


class Outcome(StrEnum):
    """What came of one claim."""

    HOLDS = "holds"
    FAILS = "fails"
    CANNOT = "cannot be replayed"


@dataclass(frozen=True)
class Checked:
    """One claim with what came of it, and why where it does not hold."""

    claim: Claimed
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class Replay:
    """What came of all claims. `contradictions` of the verdict carry no proof, and were not replayed."""

    checked: tuple[Checked, ...]
    contradictions: int = 0

    def of(self, outcome: Outcome) -> tuple[Checked, ...]:
        """The claims with this outcome."""
        return tuple(c for c in self.checked if c.outcome is outcome)

    @property
    def exit_code(self) -> int:
        """0 all replayed, 1 a proof fails, 3 some cannot be replayed here."""
        if self.of(Outcome.FAILS):
            return 1
        return 3 if self.of(Outcome.CANNOT) or self.contradictions else 0


def replay(
    verdict: Path | str,
    data: Path,
    *,
    log: Path | None = None,
    table: str | None = None,
    view: str | None = None,
    bits: int = BITS,
) -> Replay:
    """Replay the proofs of a verdict (a path, or its text) against the data. A wrong sum passes with chance 2^-bits."""
    try:
        read = parse(verdict.read_text(encoding="utf-8") if isinstance(verdict, Path) else verdict)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot read the verdict: {error}") from None
    engine = Engine(data, read.source, table=table, view=view)
    _same_columns(read, engine)
    texts = statements(log) if log is not None else {}
    checker = Checker(read, engine, texts, bits, DealtTables(data, engine.private))
    return Replay(tuple(checker.checked()), read.contradictions)


def _same_columns(verdict: Claims, engine: Engine) -> None:
    """Data that are read in another way than they were audited prove nothing, right or wrong."""
    source = verdict.source
    secret = {*(source.get("private") or ()), *(source.get("hidden") or ())}
    named = [*(source.get("id") or ()), *(n for n in source.get("kinds") or () if n not in secret and "." not in n)]
    lost = [str(name) for name in named if name not in engine.columns]
    if lost and engine.columns:
        listed = ", ".join(repr(name) for name in lost[:3])
        raise Unreadable(
            f"the data has no column {listed} that the verdict names: if the audit had settings (how the file is "
            "written, a view, other tables), give them here too, -c keyhole.toml"
        )


class Checker:
    """One verdict against one engine."""

    def __init__(
        self, verdict: Claims, engine: Engine, texts: Mapping[str, str], bits: int, dealt: DealtTables
    ) -> None:
        self.verdict = verdict
        self.engine = engine
        self.texts = texts
        maker = Maker(engine)
        self.sums = Sums(engine, maker, bits, verdict.priors)
        self.counts = Counts(engine, maker)
        self.tables = Tables(self.counts)
        self.every = EveryTable(self.counts)
        self.moments = Moments(self.sums)
        self.order = Order(engine, maker)
        thresholds = Thresholds(self.sums)
        self.rest = Rest(self.sums, thresholds)
        self.ranges = RangeProofs(self.sums, thresholds)
        self.people, self.alone = PeopleCounts(dealt, maker), AloneSums(dealt)
        self._values: dict[str, list[Any]] = {}

    def checked(self) -> Iterator[Checked]:
        """Every claim, with what came of it."""
        for claim in self.verdict.claims:
            claim = replace(claim, proof=tuple(self._with_text(c) for c in claim.proof))
            try:
                rows = self._rows(claim)
                try:
                    self._replay(claim, rows)
                except Cannot as cannot:
                    self._true_of_the_data(claim, rows)
                    yield Checked(claim, Outcome.CANNOT, str(cannot))
                    continue
                self._true_of_the_data(claim, rows)
                yield Checked(claim, Outcome.HOLDS)
            except Fails as fails:
                yield Checked(claim, Outcome.FAILS, str(fails))
            except Cannot as cannot:
                yield Checked(claim, Outcome.CANNOT, str(cannot))
            except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
                yield Checked(claim, Outcome.CANNOT, f"its certificate cannot be read ({type(error).__name__} {error})")

    def _with_text(self, cited: Addend) -> Addend:
        if cited.sql is not None or not cited.query:
            return cited
        return replace(cited, sql=self.texts.get(cited.query.partition(".")[0]))

    def _rows(self, claim: Claimed) -> list[int]:
        """The rows of the people of a claim; each must be there once."""
        dialect = self.verdict.source.get("dialect") or "duckdb"
        if dialect != "duckdb":
            raise Cannot(f"the statements are written for {dialect}")
        if self.verdict.records != self.engine.n:
            raise Cannot(f"the verdict is about {self.verdict.records} records, the data has {self.engine.n}")
        kind = claim.certificate.get("kind")
        if claim.column not in self.engine.private and not (claim.rows and kind in ("none", "people", "alone")):
            raise Fails("the column is not private")
        found = []
        for record in claim.records:
            rows = self.engine.find(record, list(self.verdict.source.get("id") or ()))
            if claim.rows:
                if not {r - 1 for r in claim.rows} <= set(rows):
                    raise Fails("some of the records are not this person's")
                return [r - 1 for r in claim.rows]
            if claim.row is not None and claim.row - 1 in rows:
                rows = [claim.row - 1]
            if len(rows) != 1:
                raise Fails(f"{len(rows)} rows of the data have this id")
            found.extend(rows)
        if claim.row is not None and found != [claim.row - 1]:
            raise Fails("the id and the row are not of the same person")
        if len(set(found)) != len(found) or not found:
            raise Fails("a group names somebody twice, or nobody")
        return found

    def _replay(self, claim: Claimed, rows: list[int]) -> None:
        kind = claim.certificate.get("kind")
        if not claim.proof:
            raise Fails("there is no proof")
        if any(c.sql is None and c.query for c in claim.proof):
            raise Cannot("a statement is not in the verdict: give --log")
        if kind in ("identity", "part"):
            if claim.status not in ("exposed", "inferred") and kind == "part":
                raise Fails("a sum of answers proves a value or a total")
            self.sums.identity(claim, rows, part=kind == "part")
        elif (claim.status == "group" or claim.rows) and kind not in ("none", "people", "alone"):
            raise Fails("a total is proved by a sum of answers alone")
        elif kind == "range":
            self.ranges.check(claim, rows[0], self._learned(claim))
        elif claim.status in UNSETTLED and kind not in ("order", "rest", "both", "cases", "none"):
            raise Fails("this proof says more than that somebody is open")
        elif kind == "square":
            self.sums.square(claim, rows[0])
        elif kind == "counts":
            self.counts.check(claim, rows[0], rows=claim.certificate["rows"])
        elif kind == "cases":
            (self.every if claim.certificate.get("every") else self.tables).check(claim, rows[0])
        elif kind == "order":
            self.order.check(claim, rows[0], self._before(claim))
        elif kind == "rest":
            self.rest.check(claim, rows[0], self._before(claim))
        elif kind == "both":
            self.rest.left(claim, *self._both(claim, rows[0]))
        elif kind == "people":
            self.people.check(claim, rows)
        elif kind == "alone":
            self.alone.check(claim, rows)
        elif kind in ("equal", "zero", "roots"):
            self.moments.check(claim, rows[0])
        else:
            raise Cannot(str(claim.certificate.get("why") or "the proof carries no certificate"))

    def _earlier(self, claim: Claimed, *, others: bool = False) -> Iterator[tuple[Claimed, int]]:
        """The claims that a proof rests on besides its own answers, each replayed, with the row that it is about.

        `others`: of other columns too.
        """
        for each in known_before(claim):
            each = replace(each, proof=tuple(self._with_text(c) for c in each.proof))
            if each.column != claim.column and not others:
                raise Fails("what is known of another column is used")
            rows = self._rows(each)
            self._replay(each, rows)
            yield each, rows[0]

    def _before(self, claim: Claimed) -> dict[int, Ends]:
        """What is known of others before, by row."""
        return {row: (number(each.lo), number(each.hi)) for each, row in self._earlier(claim)}

    def _both(self, claim: Claimed, row: int) -> Ends:
        """What several ranges of one value leave together."""
        found: Ends = (None, None)
        for each, of in self._earlier(claim):
            if of != row:
                raise Fails("the range of somebody else is used")
            found = narrower(found, (number(each.lo), number(each.hi)))
        return found

    def _learned(self, claim: Claimed) -> dict[Place, Ends]:
        """What other rules are said to know: an order statistic bounds everybody whom it is about."""
        found: dict[Place, Ends] = {}
        for each, row in self._earlier(claim, others=True):
            told = {row: (number(each.lo), number(each.hi))}
            if each.certificate.get("kind") == "order":
                told = self.order.everybody(each, row, self._before(each))
            for r, ends in told.items():
                found[each.column, r] = narrower(found.get((each.column, r), (None, None)), ends)
        return found

    def _true_of_the_data(self, claim: Claimed, rows: list[int]) -> None:
        """Where the printed answers are those of the data, what is claimed must be true of the data."""
        if (
            claim.certificate.get("kind") == "alone"  # it is no value of one record, and was compared already
            or claim.column not in self.engine.private
            or not self.engine.real
            or not self.sums.real(claim.proof, claim.column)
        ):
            return
        if claim.column not in self._values:
            self._values[claim.column] = self.engine.real_values(claim.column)
        held = [self._values[claim.column][r] for r in rows]
        if any(v is None for v in held):
            raise Fails("somebody who has no value is said to have one")
        numbers = [number(v) for v in held]
        said, claimed = sum((n for n in numbers if n is not None), Fraction(0)), number(claim.value)
        true = True
        if claimed is not None and None not in numbers:
            room = max(abs(claimed), Fraction(1)) / 10**6 + self.sums.slack(claim)
            true = abs(said - claimed) <= room
        elif claim.status != "group" and not (claim.status == "exposed" and claim.value is None):
            true = allows(claim, held[0]) or self._nearly(claim, held[0])
        if not true:
            raise Fails("it is not true of the data, while the answers are")

    def _nearly(self, claim: Claimed, value: Any) -> bool:
        """Roots and ends are printed with a dozen digits."""
        at = number(value)
        if at is None:
            return False
        near = abs(at) / 10**9 + (0 if at else 1) / 10**9
        if claim.allowed:
            return any(n is not None and abs(n - at) <= near for n in map(number, claim.allowed))
        lo, hi = number(claim.lo), number(claim.hi)
        inside = (lo is None or lo - near <= at) and (hi is None or at <= hi + near)
        return inside and not claim.excluded and (lo is not None or hi is not None)


def statements(log: Path) -> dict[str, str]:
    """The statements of a log by number: a .jsonl transcript, or SQL text (its SELECTs counted from 1)."""
    try:
        text = log.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot read the log: {error}") from None
    if log.suffix.lower() == ".jsonl":
        try:
            lines = [json.loads(line) for line in text.splitlines() if line.strip()]
            return {str(i): str(line["sql"]) for i, line in enumerate(lines, 1)}
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"the log is no transcript: {error}") from None
    import duckdb

    try:
        found = duckdb.connect(":memory:").extract_statements(text)
    except duckdb.Error as error:
        raise Unreadable(f"the log is no SQL that DuckDB reads: {str(error).splitlines()[0]}") from None
    chosen = [s.query.strip().rstrip(";") for s in found if s.type == duckdb.StatementType.SELECT]
    return {str(i): sql for i, sql in enumerate(chosen, 1)}
