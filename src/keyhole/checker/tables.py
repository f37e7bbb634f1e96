"""Proofs by all tables on a grid, in two ways.

**Tables.** People are split one after the other, and cases with the same totals are merged. What each person adds to
each answer, with each value, is taken from the engine (`counts`); values are all numbers of the declared grid, and of a
column without one some of every cell, which must then add the same. A case is a list of totals; it is closed where an
answer cannot be reached any more. The person of the claim comes last: what he adds must be what the others leave, and
every value with which that is so must be one that the claim allows.

**Every table.** Quotients, comparisons, HAVING and rounded sums are no sums of what single people add. Where what is
declared leaves few tables, each of them is filled in and each statement of the proof is run as it is: a table in
which some answer is another is out. What is left of the person in the tables that remain must be what is claimed. A
statement whose answer is not in the verdict rules nothing out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from .claims import STATUSES, UNSETTLED, Addend, Claimed, number
from .counts import Added, Choice, Counts, allows, inside_fact, keys, listed
from .engine import INTEGER, NOBODY, Cannot, Engine, Fails, Result, exact, read_cell
from .fillings import COMMENTS, WORDS, Maker, constants, plainly
from .rounding import between

LIMIT = 100_000  # cases after one person
STEPS = 3_000_000  # of one proof
MOST_TABLES = 10_000  # on which statements are run
DUST = Fraction(1, 10**11)  # of a quotient, in whatever order it is added up

CUT = re.compile(r"median|quantile|percentile", re.IGNORECASE)

Totals = tuple[Fraction, ...]
Table = tuple[Choice, ...]  # what everybody has in the columns that are looked at


class Tables:
    """Replays proofs by all tables; what single people add is kept by `counts`."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self._left: dict[str, tuple[list[str], list[Choice], dict[int, set[int]]]] = {}

    def check(self, claim: Claimed, row: int) -> None:
        """Does every table that gives the answers have what is claimed, and is there one?"""
        if claim.status not in ("exposed", "inferred", *UNSETTLED):
            raise Fails("this proof is of a value, or of what a value is not")
        if row in self.counts.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        names, choices, left = self._possible(claim, row)
        if claim.column not in names:
            raise Fails("the statements do not look at this column")
        at = names.index(claim.column)
        values = {choices[i][at] for i in left[row]}
        if not values:
            raise Cannot("the answers contradict each other")
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def _possible(self, claim: Claimed, row: int) -> tuple[list[str], list[Choice], dict[int, set[int]]]:
        how = claim.certificate
        own = self.counts.own_constants(claim, every=True)
        key = repr((claim.proof, how.get("declared"), how.get("stated"), own))
        if key not in self._left:
            if not all(c.query or c.fact is not None for c in claim.proof):
                raise Cannot("more than answers is used")
            names, choices = self.counts.choices(claim, every=True)
            self._left[key] = (names, choices, {})
        names, choices, left = self._left[key]
        if row not in left:
            left[row] = self._of_one(claim, row, names, choices)
        return names, choices, left

    def _of_one(self, claim: Claimed, row: int, names: Sequence[str], choices: Sequence[Choice]) -> set[int]:
        """The choices of one person that some table has."""
        sums, floors = [], []
        for cited in (c for c in claim.proof if c.query):
            added, empty, (said, most) = self.counts.one(cited, names, choices)
            if said != most:
                raise Cannot("an answer that leaves several numbers")
            sums.append((added, said - empty))
            floors += self._somebody(cited, names, choices)
        stated = claim.certificate.get("stated") or ()
        declared = claim.certificate.get("declared") or {}
        if any(self.counts.cells_sampled(claim, f["column"], declared.get(f["column"]) or {}) for f in stated):
            raise Cannot("a fact about values that are on no finite grid")
        start = self.counts.start(names, choices, stated)
        self._alike(claim, names, choices, [added for added, _ in (*sums, *((f, None) for f in floors))])
        options = [self._options(held, r, sums, floors) for r, held in enumerate(start)]
        target = tuple(told for _, told in sums)
        order = [r for r in range(len(options)) if r != row]
        cases = reached([list(options[r]) for r in order], list(options[row]), target, len(floors))
        found: set[int] = set()
        for adds, held in options[row].items():
            if any(_meets(_plus(case, adds, len(target)), target) for case in cases):
                found |= held
        return found

    def _somebody(self, cited: Addend, names: Sequence[str], choices: Sequence[Choice]) -> list[Added]:
        """A sum that is not NULL says that somebody matches: who would, with which value."""
        if cited.answer is None or cited.besides is not None:
            return []
        return self.counts.matching(cited, names, choices)

    def _options(
        self, held: set[int], r: int, sums: Sequence[tuple[Added, Fraction]], floors: Sequence[Added]
    ) -> dict[Totals, set[int]]:
        """What one person may add to all totals at once, with the choices that do so."""
        found: dict[Totals, set[int]] = {}
        for i in held:
            adds = (*(added[r][i] for added, _ in sums), *(added[r][i] for added in floors))
            found.setdefault(adds, set()).add(i)
        return found

    def _alike(self, claim: Claimed, names: Sequence[str], choices: Sequence[Choice], tables: Sequence[Added]) -> None:
        """Values that stand for a whole cell must add the same as each other, to everything and for everybody."""
        declared: Mapping[str, Any] = claim.certificate.get("declared") or {}
        for at, name in enumerate(names):
            for cell in self.counts.cells_sampled(claim, name, declared.get(name) or {}):
                like: dict[Choice, list[int]] = {}
                for i, choice in enumerate(choices):
                    if choice[at] in cell:
                        like.setdefault((*choice[:at], *choice[at + 1 :]), []).append(i)
                for same in like.values():
                    if any(mine[i] != mine[same[0]] for added in tables for mine in added for i in same):
                        raise Cannot("a sum of values that are on no finite grid")


def reached(options: Sequence[Sequence[Totals]], last: Sequence[Totals], target: Totals, floors: int) -> set[Totals]:
    """The totals that people can add up to, as far as the last one can still bring them to the target.

    >>> one, half = (Fraction(0),), (Fraction(1),)
    >>> reached([[one, half], [one, half]], [one], (Fraction(2),), 0)
    {(Fraction(2, 1),)}
    """
    width = len(target)
    rest = [list(map(min, zip(*last, strict=True))), list(map(max, zip(*last, strict=True)))]
    suffix = [rest]
    for each in reversed(options):
        low, high = (list(map(best, zip(*each, strict=True))) for best in (min, max))
        before = suffix[-1]
        suffix.append(
            [
                [a + b for a, b in zip(low, before[0], strict=True)],
                [a + b for a, b in zip(high, before[1], strict=True)],
            ]
        )
    suffix.reverse()
    cases: set[Totals] = {tuple([Fraction(0)] * (width + floors))}
    steps = 0
    for n, each in enumerate(options):
        low, high = suffix[n + 1]
        steps += len(cases) * len(each)
        if steps > STEPS:
            raise Cannot(f"it takes more than {STEPS} steps")
        made = {_plus(case, adds, width) for case in cases for adds in each}
        cases = {c for c in made if all(c[i] + low[i] <= target[i] <= c[i] + high[i] for i in range(width))}
        if len(cases) > LIMIT:
            raise Cannot(f"it takes more than {LIMIT} cases")
    return cases


def _plus(case: Totals, adds: Totals, width: int) -> Totals:
    """Totals with what one more person adds; of those who match only matters whether there are any."""
    found = [a + b for a, b in zip(case, adds, strict=True)]
    return (*found[:width], *(min(f, Fraction(1)) for f in found[width:]))


def _meets(totals: Totals, target: Totals) -> bool:
    return totals[: len(target)] == target and all(totals[len(target) :])


class EveryTable:
    """Replays claims by every table of a finite domain; what each statement answers on each of them is kept."""

    def __init__(self, engine: Engine, maker: Maker) -> None:
        self.engine, self.maker = engine, maker
        self._made: dict[str, list[Table]] = {}
        self._ran: dict[tuple[str, str], dict[int, Result]] = {}
        self._left: dict[str, tuple[list[str], list[Table]]] = {}
        self._filled = ""

    def check(
        self,
        claim: Claimed,
        rows: Sequence[int],
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
    ) -> None:
        """Does every table with the answers that are cited have what is claimed, and is there one?"""
        if claim.status not in ("group", *STATUSES):
            raise Fails("this proof is of a value, or of what a value is not")
        if any(r in self.engine.null[claim.column] for r in rows):
            raise Fails("somebody who has no value is said to have one")
        names, left = self.left(claim, proof, domains, facts)
        self.compare(claim, rows, names, left, len(self.choices(claim.column, domains, proof)))

    def compare(
        self, claim: Claimed, rows: Sequence[int], names: Sequence[str], left: Sequence[Table], assumed: int
    ) -> None:
        """Is it so in each of these tables? `assumed`: how many values are possible without an answer."""
        at = names.index(claim.column)
        if not left:
            raise Cannot("the answers contradict each other")
        if len(rows) > 1 or claim.status == "group":
            totals = {sum((number(table[r][at]) or Fraction(0) for r in rows), Fraction(0)) for table in left}
            if totals != {number(claim.value)}:
                raise Fails("there is a table with these answers in which it is not so")
            return
        values = {table[rows[0]][at] for table in left}
        if claim.assumed and not any(v not in (None, ()) for v in (claim.value, claim.lo, claim.hi, *_lists(claim))):
            if claim.status == "exposed" or len(values) == assumed:
                raise Fails("the answers leave every value that was assumed")
            return
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def left(
        self,
        claim: Claimed,
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
    ) -> tuple[list[str], list[Table]]:
        """The private columns that are looked at, and the tables that give all answers of a proof."""
        cited = [c for c in proof if c.query and c.answered]
        return self.possible(claim.column, cited, domains, facts, [(c.sql or "", self._matches(c)) for c in cited])

    def possible(
        self,
        column: str | None,
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
        answers: Sequence[tuple[str, Callable[[Result], bool]]],
    ) -> tuple[list[str], list[Table]]:
        """The same of statements with what their answers must be; `column` is looked at in any case."""
        names = self._looked_at(column, [sql for sql, _ in answers], facts)
        key = repr((names, proof, [sql for sql, _ in answers], domains, facts))
        if key not in self._left:
            tables = self._every(names, proof, domains, facts)
            made = repr((names, domains, facts))
            left: Sequence[int] = range(len(tables))
            looked = {sql: self._looked_at(None, [sql], ()) for sql, _ in answers}
            for sql in sorted(looked, key=lambda each: len(looked[each])):
                same = alike(tables, [names.index(name) for name in looked[sql]])
                ran = self._run(made, names, tables, sql, sorted({same[k] for k in left}))
                mine = [test for text, test in answers if text == sql]
                fits = {k: all(test(ran[k]) for test in mine) for k in {same[k] for k in left}}
                left = [k for k in left if fits[same[k]]]
            self._true_among(names, tables, left)
            self._left[key] = names, [tables[k] for k in left]
        return self._left[key]

    def _matches(self, cited: Addend) -> Callable[[Result], bool]:
        """May a table with this answer have given the one that is cited? A group that the data hide stays hidden."""
        hidden: bool | None = None
        if self.engine.real and not cited.answer:
            self.engine.fill(None)
            hidden = self.engine.answer(cited) is NOBODY
        return lambda result: answers_as(cited, read_cell(cited, *result), hidden=hidden)

    def _looked_at(self, column: str | None, texts: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
        """The private columns on which an answer may depend: those that are named, or all."""
        words = {w.casefold().strip('"') for sql in texts for w in WORDS.findall(COMMENTS.sub(" ", sql))}
        stars = any("*" in sql.casefold().replace("count(*)", "") for sql in texts)
        every = stars or bool(words & {"columns", "natural", "summarize", "pivot", "unpivot"})
        named = {column, *(str(fact["column"]) for fact in facts)}
        return [name for name in self.engine.private if every or name in named or name.casefold() in words]

    def choices(self, name: str, domains: Mapping[str, Mapping[str, Any]], proof: Sequence[Addend]) -> list[Any]:
        """All values of a column; of texts without a list those that are named, and one that is not."""
        said = domains.get(name) or {}
        if not self.engine.numeric(name) and self.engine.types[name] != "BOOLEAN" and said.get("values") is None:
            plainly(proof, self.engine.private)
        words = constants([c.sql for c in proof if c.sql is not None], keys(proof, name))[1]
        found: list[Any] = []
        for cell in self.maker.cells(name, [], words, said):
            gridded = self.engine.types[name] == INTEGER or "numbers" in said or said.get("step") is not None
            values = listed(cell) if gridded or cell.point is not None else None
            if values is None:
                raise Cannot("a column has values without end")
            found += values
        return found

    def _every(
        self,
        names: Sequence[str],
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
    ) -> list[Table]:
        key = repr((names, domains, facts))
        if key not in self._made:
            pools = {name: self.choices(name, domains, proof) for name in names}
            told = [(names.index(str(f["column"])), f, set(self.engine.condition(str(f["where"])))) for f in facts]
            held: list[list[Choice]] = []
            for r in range(self.engine.n):
                mine = [(at, f) for at, f, rows in told if r in rows and r not in self.engine.null[names[at]]]
                pool = [[None] if r in self.engine.null[name] else pools[name] for name in names]
                held.append([c for c in product(*pool) if all(inside_fact(c[at], f) for at, f in mine)])
            if prod(map(len, held)) > MOST_TABLES:
                raise Cannot(f"it takes more than {MOST_TABLES} tables")
            self._made[key] = [t for t in product(*held) if all(_adds_up(t, at, f, rows) for at, f, rows in told)]
        return self._made[key]

    def _run(
        self, key: str, names: Sequence[str], tables: Sequence[Table], sql: str, left: Sequence[int]
    ) -> Mapping[int, Result]:
        """What a statement answers on each of the tables that are left."""
        ran = self._ran.setdefault((key, sql), {})
        wanted = [k for k in left if k not in ran]
        if wanted and self._filled != key:
            self._fill(names, tables)
            self._filled = key
        absent = any(t.startswith("DECIMAL") and n not in self.engine.columns for n, t in self.engine.types.items())
        if absent and CUT.search(sql):
            raise Cannot("an engine cuts it to the decimals of the column, which the data do not have")
        for k in wanted:
            self.engine.pick(k)
            ran[k] = self.engine.run(sql)
        return ran

    def _fill(self, names: Sequence[str], tables: Sequence[Table]) -> None:
        """All tables beside each other; columns that no statement names are the same in each."""
        filled = []
        other = {n: [self.maker.values(self.maker.cells(n, [], ["a"]))[0]] * self.engine.n for n in self.engine.private}
        for table in tables:
            filled.append(other | {name: [choice[at] for choice in table] for at, name in enumerate(names)})
        self.engine.fill_tables(filled)

    def _true_among(self, names: Sequence[str], tables: Sequence[Table], left: Sequence[int]) -> None:
        """Cannot, where the real table is not one of those that are left: then the answers are read in another way."""
        if not all(name in self.engine.columns for name in names):
            return
        values = [[exact(v) for v in self.engine.real_values(name)] for name in names]
        real = tuple(zip(*values, strict=True))
        if not any(tuple(tuple(exact(v) for v in choice) for choice in tables[k]) == real for k in left):
            raise Cannot("the data do not give the answers that are cited")


def alike(tables: Sequence[Table], places: Sequence[int]) -> list[int]:
    """For each table the first one that is the same in these columns.

    >>> alike([((1, 2),), ((1, 3),), ((4, 2),)], [0])
    [0, 0, 2]
    """
    first: dict[tuple[Choice, ...], int] = {}
    return [first.setdefault(tuple(tuple(c[p] for p in places) for c in table), k) for k, table in enumerate(tables)]


def _lists(claim: Claimed) -> tuple[Any, ...]:
    return (*claim.allowed, *claim.excluded)


def _adds_up(table: Table, at: int, fact: Mapping[str, Any], rows: set[int]) -> bool:
    """Is the total of these people between the ends of a fact?"""
    low, high = number(fact.get("sum_min")), number(fact.get("sum_max"))
    if low is None and high is None:
        return True
    total = sum((number(table[r][at]) or Fraction(0) for r in rows), Fraction(0))
    return (low is None or total >= low) and (high is None or total <= high)


def answers_as(cited: Addend, said: Any, *, hidden: bool | None = None) -> bool:
    """Is the cell that a statement gives one that may have been answered so? `hidden`: its group is not shown.

    >>> one = Addend(Fraction(1), answer={"lo": 1, "hi": None}, noise=Fraction(1))
    >>> answers_as(one, 0), answers_as(one, -1), answers_as(replace(one, answer=None), NOBODY)
    (True, False, True)
    >>> answers_as(replace(one, answer=0, noise=Fraction(0)), NOBODY, hidden=False)
    False
    """
    if (cited.test or {}).get("shown") or (isinstance(cited.answer, bool) and isinstance(said, bool)):
        return said is cited.answer
    if isinstance(cited.answer, bool) and cited.column is None:  # of a HAVING: is the group shown?
        return (said is not NOBODY) is cited.answer
    if said is NOBODY or hidden:  # a group that is not there counts nobody
        return hidden is not False and not isinstance(cited.answer, bool) and not cited.answer and said in (NOBODY, 0)
    if said is None or cited.answer is None:
        return said is None and (cited.answer is None or (cited.besides is not None and not cited.answer))
    if isinstance(cited.answer, Mapping) or cited.noise:
        low, high = between(cited)
        off, at = (cited.noise if isinstance(cited.answer, Mapping) else Fraction(0)), number(said)
        dust = DUST * max(Fraction(1), *(abs(end) for end in (low, high, at) if end is not None))
        return at is not None and (low is None or at >= low - off - dust) and (high is None or at <= high + off + dust)
    return _equal(said, cited.answer if cited.exactly is None else cited.exactly)


def _equal(said: Any, answer: Any) -> bool:
    """Are two answers the same, up to dust?

    >>> from decimal import Decimal
    >>> _equal(0.1 + 0.2, Decimal("0.3")), _equal(True, True), _equal(1, Decimal("1.01")), _equal("flu", "cold")
    (True, True, False, False)
    """
    if isinstance(said, bool) or isinstance(answer, bool):
        return said is answer
    one, two = number(said), number(answer)
    if one is None or two is None:
        return str(said) == str(answer)
    return abs(one - two) <= DUST * max(Fraction(1), abs(one), abs(two))
