"""Every claim of a verdict, replayed: right, wrong, or not to be replayed here. Nothing counts as right unchecked."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from random import SystemRandom
from typing import Any

from .all_clear import AllClear, Cleared, Part, domains_of
from .answers import DUST_OF_DOUBLES, STEERING, Asked, Log, agrees, normal_text, read_log, same_rows
from .claims import (
    STATUSES,
    UNSETTLED,
    Addend,
    Claimed,
    Claims,
    Unreadable,
    fraction,
    item,
    known_before,
    number,
    parse,
)
from .engine import Cannot, Engine, Fails, Result, plain
from .fillings import Maker
from .order import Ends, Order
from .people import AloneSums, DealtTables, PeopleCounts
from .ranges import Place, RangeProofs, Rest, Thresholds, narrower
from .sections import Disagreement, compare_sections
from .sums import Moments, Sums
from .tables import Counts, EveryTable, Tables, allows, tells

BITS = 50
OF_CELLS = "the other cells of published tables are not shown to have another value"
OF_RANGES = ("identity", "range", "order", "rest", "both", "cases", "none")
OF_ONE_COLUMN = ("order", "rest", "both")  # kinds whose certificate declares the column of the claim alone

Declared = Mapping[str, Mapping[str, Any]]  # column -> min, max, step, values


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
    unknown: tuple[str, ...] = ()  # fields of the verdict that the checker does not know
    beside: tuple[Disagreement, ...] = ()  # what the verdict says beside its claims, and does not agree
    cleared: tuple[Cleared, ...] = ()  # what came of each all-clear: of the verdict, and of what each analyst asked

    def of(self, outcome: Outcome) -> tuple[Checked, ...]:
        """The claims with this outcome."""
        return tuple(c for c in self.checked if c.outcome is outcome)

    @property
    def exit_code(self) -> int:
        """0 all replayed, 1 a proof fails, 3 some cannot be replayed here."""
        if self.of(Outcome.FAILS) or any(each.is_false for each in self.beside):
            return 1
        if any(each.fails for each in self.cleared):
            return 1
        partly = any(each.cannot or each.seed is not None for each in self.cleared)
        return 3 if partly or self.of(Outcome.CANNOT) or self.contradictions or self.unknown or self.beside else 0


def replay(
    verdict: Path | str,
    data: Path,
    *,
    log: Path | None = None,
    table: str | None = None,
    view: str | None = None,
    bits: int = BITS,
    declared: Declared | None = None,
    unreviewed: Collection[str] = (),
    facts: Sequence[Mapping[str, Any]] | None = None,
    seed: int | None = None,
) -> Replay:
    """Replay the proofs of a verdict (a path, or its text) against the data. A wrong sum passes with chance 2^-bits.

    `declared`: the private columns by the settings, each with its min, max, step and values; without it what the
    verdict says was declared is taken as it is. With `log` every statement of a proof must stand in it, with the same
    answer where the log has one. What is proved under other roles of columns is replayed under these; by the settings
    they may differ in the columns that are `unreviewed`. `facts` are those of the settings. `seed` repeats the sample
    of an all-clear that is too large to be replayed whole.
    """
    try:
        read = parse(verdict.read_text(encoding="utf-8") if isinstance(verdict, Path) else verdict)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot read the verdict: {error}") from None
    logged = None if log is None else read_log(log)
    checked: list[Checked] = []
    beside: list[Disagreement] = []
    cleared: list[Cleared] = []
    drawn = SystemRandom().randrange(2**32) if seed is None else seed
    readings = dict.fromkeys(((), *(claim.private for claim in read.claims)))
    private_names = tuple(str(name) for name in read.source.get("private") or ())
    for private in readings:
        claims = tuple(claim for claim in read.claims if claim.private == private)
        roles = read if not private else replace(read, source={**read.source, "private": list(private)})
        with closing(Engine(data, roles.source, table=table, view=view)) as engine:
            _same_columns(roles, engine)
            _same_roles(roles, declared, unreviewed)
            with closing(DealtTables(data, engine.private)) as dealt:
                checker = Checker(replace(roles, claims=claims), engine, logged, bits, dealt)
                checker.declared, checker.facts = declared, facts
                checked += checker.checked()
                beside += dict.fromkeys(checker.beside)
            if not private:
                others = {names or private_names for names in readings}
                beside += dict.fromkeys(compare_sections(read.raw, engine, logged, others))
                failed = any(
                    each.outcome is Outcome.FAILS for each in checked
                )  # then the all-clear makes no difference
                verdicts: list[Mapping[str, Any]] = [] if failed else [read.raw, *read.raw.get("by", ())]
                for said in verdicts:
                    if said.get("complete") is True and "cells" in said:
                        cleared.append(Cleared(0, 0, cannot=OF_CELLS))
                    elif said.get("complete") is True:
                        whole = logged if said is read.raw else None
                        clearing = Clearing(said, roles, engine, whole, declared, facts, drawn)
                        cleared.append(clearing.replay(checker, checked))
    return Replay(tuple(checked), read.contradictions, read.unknown, tuple(beside), tuple(cleared))


@dataclass(frozen=True)
class Clearing:
    """The all-clear of one verdict: what it says of it, and what it is held against."""

    raw: Mapping[str, Any]
    verdict: Claims
    engine: Engine
    log: Log | None
    declared: Declared | None
    facts: Sequence[Mapping[str, Any]] | None
    seed: int

    def replay(self, checker: Checker, checked: Sequence[Checked]) -> Cleared:
        """Everybody of whom nothing was claimed and replayed has another value in a second table."""
        try:
            witness = self.raw.get("witness")
            if witness is None:
                raise Cannot("the verdict does not say where second tables are")
            if (self.verdict.source.get("dialect") or "duckdb") != "duckdb":
                raise Cannot("the statements are written in another dialect")
            ids = [str(name) for name in self.verdict.source.get("id") or ()]
            if self.verdict.records != self.engine.n:
                raise Cannot("the data have another number of records")
            if self.engine.count_people(ids) != self.engine.n:
                raise Cannot("people have several records, and what is known of them together is not replayed")
            asked = self._read_questions(witness)
            facts = self._facts(witness)
            said = {name: each or {} for name, each in (witness.get("domains") or {}).items()}
            domains = domains_of(self.engine, said, self.declared)
            if not self.engine.real:
                return self._by_every_table(checker, checked, said, asked, facts)
            found = AllClear(self.engine, asked, domains, facts, self._claimed(checker, checked), self.seed)
            parts = [Part.read(each, self.engine.n) for each in witness.get("parts") or ()]
            return found.replay(parts, whole=witness.get("whole") is True)
        except Cannot as cannot:
            return Cleared(0, 0, cannot=str(cannot))
        except Fails as fails:
            return Cleared(0, 0, fails=str(fails))
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            return Cleared(0, 0, cannot="`witness` has not the fields of docs/json.md")

    def _by_every_table(
        self,
        checker: Checker,
        checked: Sequence[Checked],
        domains: Mapping[str, Any],
        asked: Sequence[Asked],
        facts: Sequence[Mapping[str, Any]],
    ) -> Cleared:
        """Without the private columns: every table that gives the answers, of which somebody must have two values."""
        if not all(each.answered for each in asked):
            raise Cannot("the data do not have the private columns, and the log does not have all answers")
        answers = [(each.sql, functools.partial(agrees, each)) for each in asked]
        proof = [Addend(Fraction(1), query="0", sql=each.sql) for each in asked]
        names, left = checker.every.possible(None, proof, domains, facts, answers)
        if not left:
            raise Cannot("no table gives the answers of the log")
        claimed = self._claimed(checker, checked)
        cells = [(name, r) for name in self.engine.private for r in range(self.engine.n) if (name, r) not in claimed]
        fixed = [(n, r) for n, r in cells if n in names and len({table[r][names.index(n)] for table in left}) < 2]
        if fixed:
            return Cleared(0, len(cells), fails=f"row {fixed[0][1] + 1}: {fixed[0][0]} is the same in every table")
        return Cleared(len(cells), len(cells))

    def _read_questions(self, witness: Mapping[str, Any]) -> list[Asked]:
        """The statements of the log; without it, those that the verdict names."""
        named = [
            Asked(str(each["sql"]), "answer" in each, each.get("answer"), each.get("noise"))
            for each in witness["statements"]
        ]
        if self.log is None:
            return named
        if any(not STEERING.match(other) for other in self.log.others):
            raise Cannot("the log has statements that are no SELECT")
        texts = {normal_text(each.sql) for each in self.log.asked}
        if texts != {normal_text(each.sql) for each in named}:
            raise Fails("its statements are not those of the log")
        return list(self.log.asked)

    def _facts(self, witness: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        said = list(witness.get("facts") or ())
        if self.facts is not None and [_plain_fact(f) for f in said] != [_plain_fact(f) for f in self.facts]:
            raise Fails("other facts are taken as known than the settings have")
        return said

    def _claimed(self, checker: Checker, checked: Sequence[Checked]) -> set[tuple[str, int]]:
        """The values of which something was claimed that is more than a range, and did not fail."""
        found: set[tuple[str, int]] = set()
        mine = (c.claim for c in checked if c.outcome is not Outcome.FAILS and not c.claim.private)
        for claim in mine:
            if claim.status in ("exposed", "inferred"):
                try:
                    found |= {(claim.column, row) for row in checker.rows_of(claim)}
                except (Cannot, Fails):
                    continue
        return found


def _plain_fact(fact: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in fact.items() if value is not None}


def _same_roles(verdict: Claims, declared: Declared | None, unreviewed: Collection[str]) -> None:
    """Private columns are those of the settings, but for columns that nobody has reviewed."""
    private = [str(name) for name in verdict.source.get("private") or ()]
    for name in declared or ():
        if name not in private and name not in unreviewed:
            raise Unreadable(f"the settings call {name!r} private, and the verdict does not")


def _is_nameless(claim: Claimed) -> bool:
    """Was everybody of a claim given a number, and its proof taken out? (`audit --redact`)"""
    ids = [str(value) for record in claim.records for value in record.values()]
    numbered = bool(ids) and all(re.fullmatch(r"person [1-9][0-9]*", text) for text in ids)
    return numbered and claim.certificate.get("kind") == "none"


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

    def __init__(self, verdict: Claims, engine: Engine, log: Log | None, bits: int, dealt: DealtTables) -> None:
        self.verdict = verdict
        self.engine = engine
        self.log = log
        maker = Maker(engine)
        self.sums = Sums(engine, maker, bits, verdict.priors)
        self.counts = Counts(engine, maker)
        self.tables = Tables(self.counts)
        self.every = EveryTable(engine, maker)
        self.moments = Moments(self.sums)
        self.order = Order(engine, maker)
        thresholds = Thresholds(self.sums)
        self.rest = Rest(self.sums, thresholds)
        self.ranges = RangeProofs(self.sums, thresholds)
        self.people, self.alone = PeopleCounts(dealt, maker), AloneSums(dealt)
        self.declared: Declared | None = None
        self.facts: Sequence[Mapping[str, Any]] | None = None
        self.beside: list[Disagreement] = []
        self._values: dict[str, list[Any]] = {}
        roles = (verdict.source.get(role) or () for role in ("id", "private", "hidden"))
        self._not_public = frozenset(str(name) for names in roles for name in names)

    def checked(self) -> Iterator[Checked]:
        """Every claim, with what came of it."""
        for claim in self.verdict.claims:
            claim = replace(claim, proof=tuple(self._with_text(c) for c in claim.proof))
            try:
                if claim.unknown:
                    raise Cannot(f"the checker does not know its field {claim.unknown!r}")
                if _is_nameless(claim):
                    raise Cannot("the verdict was redacted: it has neither ids nor proofs, so verify the one that has")
                rows = self.rows_of(claim)
                try:
                    self._replay(claim, rows)
                except Cannot as cannot:
                    self._as_a_whole(claim, rows)
                    self._true_of_the_data(claim, rows)
                    yield Checked(claim, Outcome.CANNOT, str(cannot))
                    continue
                self._as_a_whole(claim, rows)
                self._true_of_the_data(claim, rows)
                if not self._completes(claim, rows):
                    said = f"`first` of {claim.who} names statement {claim.first}, which is not in the proof beside it"
                    self.beside.append(Disagreement(said))
                yield Checked(claim, Outcome.HOLDS)
            except Fails as fails:
                yield Checked(claim, Outcome.FAILS, str(fails))
            except Cannot as cannot:
                yield Checked(claim, Outcome.CANNOT, str(cannot))
            except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
                name = f": {error.args[0]!r} is missing" if isinstance(error, KeyError) else ""
                yield Checked(claim, Outcome.CANNOT, f"its certificate has not the fields of docs/json.md{name}")

    def _with_text(self, cited: Addend) -> Addend:
        if cited.sql is not None or not cited.query or self.log is None:
            return cited
        return replace(cited, sql=self.log.by_number.get(cited.query.partition(".")[0]))

    def rows_of(self, claim: Claimed) -> list[int]:
        """The rows of the people of a claim; each must be there once."""
        dialect = self.verdict.source.get("dialect") or "duckdb"
        if dialect != "duckdb":
            raise Cannot(f"the statements are written for {dialect}")
        if self.verdict.records != self.engine.n:
            raise Cannot(f"the verdict is about {self.verdict.records} records, the data has {self.engine.n}")
        kind = claim.certificate.get("kind")
        personal = bool(claim.rows) and claim.status != "group"
        if claim.column not in self.engine.private and not (personal and kind in ("none", "people", "alone")):
            raise Fails("the column is not private")
        found = []
        for k, record in enumerate(claim.records):
            rows = self.engine.find(record, list(self.verdict.source.get("id") or ()))
            if personal:
                if len(set(claim.rows)) != len(claim.rows):
                    raise Fails("a record is named twice")
                if not {r - 1 for r in claim.rows} <= set(rows):
                    raise Fails("some of the records are not this person's")
                return [r - 1 for r in claim.rows]
            row = claim.rows[k] if len(claim.rows) == len(claim.records) else claim.row
            if row is not None and row - 1 in rows:
                rows = [row - 1]
            if len(rows) != 1:
                raise Fails(f"{len(rows)} rows of the data have this id")
            found.extend(rows)
        if claim.row is not None and found != [claim.row - 1]:
            raise Fails("the id and the row are not of the same person")
        if len(set(found)) != len(found) or not found:
            raise Fails("a group names somebody twice, or nobody")
        if claim.status == "group" and [r - 1 for r in claim.rows] != found:
            raise Fails("the rows of a group are not those of its people")
        return found

    def _as_a_whole(self, claim: Claimed, rows: list[int]) -> None:
        """Do the fields of a claim fit each other, and what the verdict says was known before?"""
        value, lo, hi = number(claim.value), number(claim.lo), number(claim.hi)
        if claim.status not in ("group", *STATUSES):
            raise Fails("its status is none of a verdict")
        if claim.prior is not None and claim.prior != self.verdict.priors.get(claim.column):
            raise Fails("another range is said to be known before than elsewhere in the verdict")
        said = (claim.value, claim.lo, claim.hi, *claim.allowed, *claim.excluded)
        if any(isinstance(each, bool) for each in said) and self.engine.types.get(claim.column, "BOOLEAN") != "BOOLEAN":
            raise Fails("true or false is claimed of a column of other values")
        text = isinstance(claim.value, str | bool) and claim.lo == claim.hi == claim.value  # a word or truth is known
        if not text and any(end is not None and number(end) is None for end in (claim.lo, claim.hi)):
            raise Fails("an end that is no number")
        if claim.status in ("exposed", "group"):
            if claim.allowed or claim.excluded:
                raise Fails("a list of values is claimed beside a value")
            if value is None and not (lo is None and hi is None):
                raise Fails("a range of numbers is claimed of a value that is none")
            if value is not None and ((lo is not None and lo > value) or (hi is not None and hi < value)):
                raise Fails("the claimed value lies outside its own range")
        elif claim.value is not None and not claim.form:
            raise Fails("a value is claimed, and that it is not known")
        elif claim.status in UNSETTLED and (len(claim.allowed) == 1 or (lo is not None and lo == hi)):
            raise Fails("one value is left of what is said to be open")
        if lo is not None and hi is not None and lo > hi:
            raise Fails("nothing lies between its ends")
        if claim.singled_out is not None and not claim.form:
            self._singled_out(claim, rows[0])
        if claim.form and claim.certificate.get("kind") == "identity":
            several = f"total {claim.column} of {len(rows)} records"
            if claim.form != (f"{claim.column} of record {rows[0] + 1}" if len(rows) == 1 else several) or claim.grade:
                raise Fails("its words are not those of a total of these records")

    def _singled_out(self, claim: Claimed, row: int) -> None:
        """Do the public columns alone point to the person, as is said?"""
        source = self.verdict.source
        if any("." in name and name not in self.engine.columns for name in source.get("kinds") or ()):
            return  # public columns of other tables, which are not here
        public = [name for name in self.engine.columns if name not in self._not_public]
        if self.engine.is_singled_out(row, public) is not claim.singled_out:
            raise Fails("whether the public columns point to one person is not as it is said to be")

    def _as_declared(self, claim: Claimed) -> None:
        """What a proof assumes of columns is what the verdict says beside it, and what the settings declare."""
        how = claim.certificate
        said: Mapping[str, Any] = how.get("declared") or {}
        if how.get("kind") in OF_ONE_COLUMN:
            said = {claim.column: said}
        for name, assumed in said.items():
            prior = self.verdict.priors.get(name)
            ends = (assumed.get("min"), assumed.get("max"))
            if prior is not None and ends != (None, None) and tuple(map(number, ends)) != tuple(map(number, prior)):
                raise Fails("what is declared is not what the verdict says beside it")
            if self.declared is not None:
                self._in_settings(name, assumed)
        if self.declared is not None:
            for name, (lo, hi) in self.verdict.priors.items():
                self._in_settings(name, {"min": lo, "max": hi})
            self._in_settings(claim.column, {"step": how.get("step")})

    def _in_settings(self, name: str, assumed: Mapping[str, Any]) -> None:
        settings = (self.declared or {}).get(name) or {}
        for each, value in assumed.items():
            if value is not None and not plainly_equal(settings.get(each), value):
                raise Cannot(f"the verdict assumes {each} = {value} of {name}, and the settings do not say so")

    def _with_assumed(self, claim: Claimed) -> Claimed:
        """The claim with the values that were assumed put in as declared: they are read off the data, here too."""
        names = claim.certificate.get("assumed")
        if names is None and (not claim.assumed or claim.certificate.get("kind") == "none"):
            return claim
        if not claim.assumed:
            raise Fails("it needs values that were assumed, and is not said to")
        if not isinstance(names, list) or not names:
            raise Fails("it is said to need values that were assumed, and its proof names no column of them")
        found = {str(name): self.engine.assumed_domain(str(name)) for name in names}
        declared = claim.certificate.get("declared") or {}
        flat = claim.certificate.get("kind") in ("order", "rest", "both")
        ends = [end for name in found for end in self.sums.priors.get(name, ())]
        settings = self.declared or {}
        if any(value is not None for name in found for value in settings.get(name, {}).values()):
            raise Fails("values of a column were assumed that the settings declare")
        if (
            any(end is not None for end in ends)
            or any(declared.get(name) for name in found)
            or (flat and declared and claim.column in found)
        ):
            raise Fails("values of a column are said to be declared and assumed")
        said = found.get(claim.column, declared) if flat else {**declared, **found}
        return replace(claim, certificate={**claim.certificate, "declared": said})

    def _replay(self, claim: Claimed, rows: list[int]) -> None:
        self._as_declared(claim)
        self._as_facts(claim)
        claim = self._with_assumed(claim)
        if not claim.proof:
            raise Fails("there is no proof")
        if any(c.sql is None and c.query for c in claim.proof):
            raise Cannot("a statement is not in the verdict: give --log")
        if self.log is not None:
            for cited in _statements_of(claim):
                self.log.check(cited, self.engine)
        try:
            self._by_certificate(claim, rows)
        except Cannot as cannot:
            self._by_every_table(claim, rows, cannot)

    def _completes(self, claim: Claimed, rows: list[int]) -> bool:
        """Does the claim follow from the statements up to the one that is said to have completed it?"""
        if not claim.first or claim.first.partition(".")[0] in {c.query.partition(".")[0] for c in claim.proof}:
            return True
        if self.log is None or self.log.others or claim.form or not claim.first.isdigit():
            return False
        asked = self.log.asked[: int(claim.first)]
        proof = [Addend(Fraction(1), query=str(k), sql=each.sql) for k, each in enumerate(asked, 1)]
        try:
            answers = [(each.sql, self._answered(each)) for each in asked]
            claim = self._with_assumed(claim)
            domains = self._domains(claim)
            names, left = self.every.possible(claim, proof, domains, self._facts(claim, claim.proof), answers)
            self.every.compare(claim, rows, names, left, len(self.every.choices(claim.column, claim, domains, proof)))
        except (Cannot, Fails):
            return False
        return True

    def _answered(self, asked: Asked) -> Callable[[Result], bool]:
        """May a table with this answer have given the one of the log, or of the data?"""
        if asked.answered:
            return functools.partial(agrees, asked)
        if not self.engine.real:
            raise Cannot("the data do not have the private columns, and the log does not have all answers")
        _, before = self.engine.run_on_data(asked.sql)
        return lambda result: same_rows(before, result[1], DUST_OF_DOUBLES, ordered=True)

    def _by_every_table(self, claim: Claimed, rows: list[int], cannot: Cannot) -> None:
        """What the certificate does not show is looked up in every table with the answers that are cited."""
        if claim.form or claim.column not in self.engine.private:
            raise cannot
        proof = [*claim.proof, *(self._with_text(c) for each in _rests_on(claim) for c in each.proof)]
        try:
            if any(c.query and c.sql is None for c in proof):
                raise Cannot("a statement is not in the verdict: give --log")
            self.every.check(claim, rows, proof, self._domains(claim), self._facts(claim, proof))
        except Cannot as other:
            by_tables = claim.certificate.get("every") or claim.certificate.get("kind") == "none"
            raise (Cannot(f"{cannot}; by every table: {other}") if by_tables else cannot) from None
        except Fails:
            if claim.certificate.get("every") or self.facts is not None:
                raise
            raise cannot from None

    def _domains(self, claim: Claimed) -> dict[str, Mapping[str, Any]]:
        """What is declared of each private column, or assumed: by the settings, else by the verdict."""
        how = claim.certificate
        said: Mapping[str, Any] = how.get("declared") or {}
        said = {claim.column: said} if how.get("kind") in OF_ONE_COLUMN else said
        found: dict[str, Mapping[str, Any]] = {}
        for name in self.engine.private:
            ends = dict(zip(("min", "max"), self.verdict.priors.get(name, (None, None)), strict=True))
            given = ends if self.declared is None else self.declared.get(name) or {}
            given = {k: v for k, v in {**given, **(said.get(name) or {})}.items() if v is not None}
            if claim.assumed and not given and how.get("assumed") is None:
                given = self.engine.assumed_domain(name)
            found[name] = given
        return found

    def _as_facts(self, claim: Claimed) -> None:
        """What is cited as known beforehand stands in the settings."""
        for c in claim.proof if self.facts is not None else ():
            said = c.fact if c.fact is not None else c.bound if c.bound is not None and "fact" in c.bound else None
            if said is None or "where" not in said:
                continue
            alike = [f for f in self.facts or () if (f["where"], f["column"]) == (said["where"], said["column"])]
            if c.bound is not None:
                ends = [(said["bound"], said["each"])]
            else:
                low, high = (said.get("total"), said.get("total")) if c.ends is None else c.ends
                ends = [("sum_min", low), ("sum_max", high)]
            if not any(all(v is None or number(f.get(k)) == fraction(v) for k, v in ends) for f in alike):
                raise Cannot("something is cited as known that the settings do not say")

    def _facts(self, claim: Claimed, proof: Sequence[Addend]) -> list[Mapping[str, Any]]:
        """What is known besides: by the settings, else what the proof says of it."""
        if self.facts is not None:
            return list(self.facts)
        stated = claim.certificate.get("stated") or ()
        found: list[Mapping[str, Any]] = [] if isinstance(stated, Mapping) else [dict(f) for f in stated]
        for each in found:
            each.setdefault("column", claim.column)  # type: ignore[attr-defined]
        for c in proof:
            if c.fact is not None and "where" in c.fact:
                total = c.fact.get("total")
                low, high = (total, total) if c.ends is None else c.ends
                found.append({"where": c.fact["where"], "column": c.fact["column"], "sum_min": low, "sum_max": high})
            if c.bound is not None and "fact" in c.bound:
                said = {"where": c.bound["where"], "column": c.bound["column"], c.bound["bound"]: c.bound["each"]}
                found.append(said)
        return found

    def _by_certificate(self, claim: Claimed, rows: list[int]) -> None:
        """By what its certificate names, which proves claims of some statuses and not of others."""
        kind = str(claim.certificate.get("kind"))
        if claim.status not in ("exposed", "inferred") and kind == "part":
            raise Fails("a sum of answers proves a value or a total")
        sums = kind in ("identity", "part")
        several = ("none",) if claim.status == "group" else ("none", "people", "alone")
        if not sums and (claim.status == "group" or claim.rows) and kind not in several:
            raise Fails("a total is proved by a sum of answers alone")
        if claim.status in UNSETTLED and kind not in OF_RANGES:
            raise Fails("this proof says more than that somebody is open")
        how = claim.certificate
        if kind == "cases" and how.get("every"):
            raise Cannot("people cannot be looked at one by one")
        ways: dict[str, Callable[[], None]] = {
            "identity": lambda: self.sums.identity(claim, rows),
            "part": lambda: self.sums.identity(claim, rows, part=True),
            "range": lambda: self.ranges.check(claim, rows[0], self._learned(claim)),
            "square": lambda: self.sums.square(claim, rows[0]),
            "counts": lambda: self.counts.check(claim, rows[0], rows=how["rows"]),
            "cases": lambda: self.tables.check(claim, rows[0]),
            "order": lambda: self.order.check(claim, rows[0], self._before(claim)),
            "rest": lambda: self.rest.check(claim, rows[0], self._before(claim)),
            "both": lambda: self.rest.left(claim, *self._both(claim, rows[0])),
            "people": lambda: self.people.check(claim, rows),
            "alone": lambda: self.alone.check(claim, rows),
            **dict.fromkeys(("equal", "zero", "roots"), lambda: self.moments.check(claim, rows[0])),
        }
        if kind not in ways:
            raise Cannot(str(how.get("why") or "the proof carries no certificate"))
        ways[kind]()

    def _earlier(self, claim: Claimed, *, others: bool = False) -> Iterator[tuple[Claimed, int]]:
        """The claims that a proof rests on besides its own answers, each replayed, with the row that it is about.

        `others`: of other columns too.
        """
        for each in known_before(claim):
            each = replace(each, proof=tuple(self._with_text(c) for c in each.proof))
            if each.column != claim.column and not others:
                raise Fails("what is known of another column is used")
            if each.unknown:
                raise Cannot(f"the checker does not know the field {each.unknown!r} of a claim that it rests on")
            rows = self.rows_of(each)
            self._as_a_whole(each, rows)
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
            if (claim.assumed or claim.status == "inferred") and not tells(claim):
                return  # what follows from assumed values, or of texts, is not told: there is nothing to compare
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


def _rests_on(claim: Claimed) -> Iterator[Claimed]:
    """The claims that a claim rests on, and those that they rest on."""
    for each in known_before(claim):
        yield each
        yield from _rests_on(each)


def plainly_equal(one: Any, two: Any) -> bool:
    """Are two declarations the same: numbers by value, lists item by item?

    >>> from decimal import Decimal
    >>> plainly_equal(Decimal("1.0"), 1), plainly_equal(("a",), ["a"]), plainly_equal(None, 1)
    (True, True, False)
    """
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return [plain(v) for v in one] == [plain(v) for v in two]
    return bool(plain(one) == plain(two))


def _statements_of(claim: Claimed) -> Iterator[Addend]:
    """Every statement that a proof cites; a variance names a second one."""
    for cited in claim.proof:
        if cited.query:
            yield cited
        if cited.squares is not None:
            yield item({**cited.squares["sum"], "weight": "1"})
