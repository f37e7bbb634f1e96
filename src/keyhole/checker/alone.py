"""Sums of answers that are about one person: his records alone give the same, whatever everybody else is.

On tables dealt out anew (private columns and the owners of rows by chance) the weighted answers of the statements, as
they were written, must be what the certificate says of the records of one person; then the printed answers must give
what is claimed. A certificate that is wrong about somebody passes a trial only if what he adds happens to vanish.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .dealt import DealtTables
from .engine import Cannot, Fails, quoted

TRIALS = 24
# what is said of a person's records: an aggregate, of how many, with which condition; compared, and how that came out
FORM = re.compile(
    r"(?P<word>total|average|number|count|[A-Z_]+\((?P<inner>.+?)\))(?: (?P<column>.+?)(?P<square>²)?)?"
    r"(?: (?P<op>>=|<=|<>|=|>|<) (?P<at>-?[\d.]+))? of (?P<records>\d+) records?"
    r"(?: with (?P<where>.+?))?(?: is (?P<truth>true|false))?",
    re.DOTALL,
)
DUST = Fraction(1, 10**9)  # of a sum: floating-point averages


class AloneSums:
    """Replays sums of answers about one person's records."""

    def __init__(self, dealt: DealtTables) -> None:
        self.dealt = dealt

    def check(self, claim: Claimed, rows: Sequence[int]) -> None:
        """The claim about these rows is what its answers give."""
        import duckdb

        try:
            self._check(claim, rows)
        except duckdb.Error:
            raise Cannot("the engine refuses a statement or a condition of it") from None

    def _check(self, claim: Claimed, rows: Sequence[int]) -> None:
        told = claim.certificate
        own = {r + 1 for r in rows}
        if not all(set(part["rows"]) <= own for part in told["parts"]):
            raise Fails("the certificate adds up records that the claim does not name")
        cited = [c for c in claim.proof if c.query]
        constant, off = fraction(told["constant"]), fraction(told["off"])
        self.dealt.open(told)
        self._holds_as_it_is(claim, cited, constant, off)
        words = self._words(claim, rows, cited)
        try:
            for _ in range(TRIALS):
                self.dealt.deal(shuffled=True)
                self._same(cited, told["parts"], constant, off)
                if not _close(self._parts(told["parts"]), self._parts([words]), off):
                    raise Cannot("its words do not say what its certificate proves")
        finally:
            self.dealt.deal(shuffled=False)
        said = sum((c.weight * _amount(c.answer) for c in cited), constant)
        real = all(_close(_amount(self.dealt.cell(c)), _amount(c.answer), Fraction(0)) for c in cited)
        if real and not _close(self._parts(told["parts"]), said, off):
            raise Fails("it is not true of the data, while the answers are")

    def _words(self, claim: Claimed, rows: Sequence[int], cited: Sequence[Addend]) -> dict[str, Any]:
        """What is said in words, as a part of a certificate: it must come to the same."""
        said = FORM.fullmatch(claim.form)
        if (
            said is None
            or int(said["records"]) != len(rows)
            or claim.column not in (*claim.form.split(), *_names(said))
        ):
            raise Cannot("its words are not read here")
        name = said["inner"] or said["column"]
        of = "1" if name is None else f"{quoted(name)} * {quoted(name)}" if said["square"] else quoted(name)
        plain = {"total": "SUM", "average": "AVG", "number": "SUM", "count": "SUM"}
        select = f"{plain.get(said['word']) or said['word'].partition('(')[0]}({of})"
        select += f" FILTER (WHERE {_condition(said['where'], claim.certificate['tables'])})" if said["where"] else ""
        if (said["op"] is None) != (said["truth"] is None):
            raise Cannot("its words do not say how a comparison came out")
        if said["op"] is not None:
            select = f"({select}) {said['op']} {said['at']}"
            if len(cited) != 1 or cited[0].answer is not (said["truth"] == "true"):
                raise Fails("the comparison came out otherwise than is said")
        return {"weight": "1", "select": select, "rows": [r + 1 for r in rows]}

    def _holds_as_it_is(self, claim: Claimed, cited: Sequence[Addend], constant: Fraction, off: Fraction) -> None:
        """Do the printed answers give what is claimed?"""
        if any(not c.answered for c in cited):
            raise Cannot("an answer is not in the verdict")
        said = sum((c.weight * _amount(c.answer) for c in cited), constant)
        value, lo, hi = number(claim.value), number(claim.lo), number(claim.hi)
        if value is not None and not _close(said, value, off):
            raise Fails("the answers do not give the value")
        if value is None and claim.status == "exposed":
            raise Fails("there is no value")
        room = off + DUST * max(Fraction(1), abs(said))
        if (lo is not None and lo > said + room) or (hi is not None and hi < said - room):
            raise Fails("the answers lie outside the range")
        narrow = lo is not None and hi is not None and value is None and hi - lo < 2 * off - room * DUST
        if narrow:
            raise Fails("the range is narrower than the answers")

    def _same(
        self, cited: Sequence[Addend], parts: Sequence[Mapping[str, Any]], constant: Fraction, off: Fraction
    ) -> None:
        asked = sum((c.weight * _amount(self.dealt.cell(c)) for c in cited), constant)
        if not _close(asked, self._parts(parts), off):
            raise Fails("the answers are not about these records alone")

    def _parts(self, parts: Sequence[Mapping[str, Any]]) -> Fraction:
        total = Fraction(0)
        for part in parts:
            listed = ", ".join(str(int(r)) for r in part["rows"])
            his = f"(SELECT * FROM keyhole_people WHERE keyhole_row IN ({listed})) keyhole_people"
            sql = f"SELECT {part['select']} FROM {his}"
            if len(self.dealt.con.extract_statements(sql)) != 1:
                raise Cannot("a part of the certificate is not one expression")
            total += fraction(part["weight"]) * _amount(self.dealt.con.execute(sql).fetchall()[0][0])
        return total


def _names(said: re.Match[str]) -> list[str]:
    """The columns that are named: the one that is added up, and those of the condition."""
    return [said["inner"] or said["column"] or "records", *re.findall(r'"((?:[^"]|"")+)"', said["where"] or "")]


def _condition(where: str, tables: Sequence[Mapping[str, Any]]) -> str:
    """A condition in words as SQL: that there is a row in another table is a condition on its keys."""
    has = re.fullmatch(r"(?P<some>a|no) row in (?P<table>.+?)(?: with (?P<inside>.+))?", where, re.DOTALL)
    if has is None:
        return where
    keys = [pair for t in tables if t["name"] == has["table"] for pair in t["keys"]]
    same = "".join(f" AND r.{quoted(own)} = keyhole_people.{quoted(other)}" for own, other in keys)
    inside = f"(SELECT * FROM {quoted('keyhole ' + has['table'])} WHERE {has['inside'] or 'TRUE'}) r"
    return f"{'' if has['some'] == 'a' else 'NOT '}EXISTS (SELECT 1 FROM {inside} WHERE TRUE{same})"


def _amount(value: Any) -> Fraction:
    """A cell as a number: NULL and a group that is not shown add nothing."""
    if isinstance(value, bool):
        return Fraction(int(value))
    found = number(value)
    if found is None and value is not None:
        raise Cannot("an answer is no number")
    return found or Fraction(0)


def _close(a: Fraction, b: Fraction, off: Fraction) -> bool:
    return abs(a - b) <= off + DUST * max(Fraction(1), abs(a), abs(b))
