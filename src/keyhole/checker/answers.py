"""What was asked and what was answered: a log, and whether two answers are the same."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from .claims import Addend, Unreadable, fraction, number, read_json
from .engine import Cannot, Engine, Fails, Result, plain

DUST, DUST_OF_DOUBLES = Fraction(1, 2**44), Fraction(1, 2**42)
STEERING = re.compile(  # statements that change no answer: of a transaction, and SET to a constant
    r"""\s*(?:(?:begin|start|commit|end|rollback)\b[^()]*|set\s+[\w.]+\s*(?:=|\s+to\s)\s*(?:'[^']*'|[\w.]+))\s*;?\s*$""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Asked:
    """One statement, and the answer that the log has (`answered`), with its noise."""

    sql: str
    answered: bool = False
    answer: Any = None
    noise: Mapping[str, Any] | None = None

    @property
    def leaves_several(self) -> bool:
        """Was it answered with noise, or with two ends: so that several numbers may be the true one?"""
        return self.answered and (self.noise is not None or isinstance(self.answer, Mapping))


TOKEN = re.compile(r"""(?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?:--[^\n]*|/\*.*?\*/|\s+)+""", re.DOTALL)


@dataclass(frozen=True)
class Log:
    """What was asked, and what was answered where the log says it. `others` are statements that are no SELECT."""

    asked: tuple[Asked, ...]
    others: tuple[str, ...] = ()

    @functools.cached_property
    def by_number(self) -> dict[str, str]:
        """The statements by number, from 1."""
        return {str(i): each.sql for i, each in enumerate(self.asked, 1)}

    @functools.cached_property
    def by_text(self) -> dict[str, list[Asked]]:
        """The statements by their normal text: one may have been asked several times."""
        found: dict[str, list[Asked]] = {}
        for each in self.asked:
            found.setdefault(normal_text(each.sql), []).append(each)
        return found

    def stands(self, sql: str) -> bool:
        """Is it a statement of the log, of whatever kind, or a part of one?"""
        text = normal_text(sql)
        return text in self.by_text or any(text in normal_text(other) for other in self.others)

    def is_numbered(self, number: str, sql: str) -> bool:
        """Has a statement this number?"""
        return normal_text(self.by_number.get(number, "")) == normal_text(sql)

    def check(self, cited: Addend, engine: Engine) -> None:
        """Does a statement of a proof stand here, with the same answer? Fails or Cannot if not."""
        text = normal_text(cited.sql or "")
        lines = self.by_text.get(text, [])
        if not lines:
            if text and any(text in other for other in (*map(normal_text, self.others), *self.by_text)):
                raise Cannot(f"statement {cited.query} stands inside another statement of the log")
            raise Fails(f"statement {cited.query} does not stand in the log")
        answered = [each for each in lines if each.answered]
        if not answered or not cited.answered:
            return
        cannot: Cannot | None = None
        for each in answered:
            try:
                if _same_answer(each, cited, engine):
                    return
            except Cannot as error:
                cannot = error
        raise cannot or Fails(f"the log has another answer to statement {cited.query}")


def normal_text(sql: str) -> str:
    """A statement without its comments, line breaks and last semicolon; with an escape in it, as it is.

    >>> normal_text("SELECT 1 -- one;\\n  FROM t WHERE a = '--  x' ;")
    "SELECT 1 FROM t WHERE a = '--  x'"
    """
    if "\\" in sql or "$" in sql:
        return sql.strip().rstrip(";").strip()
    return TOKEN.sub(lambda found: found["kept"] or " ", sql).strip().rstrip(";").strip()


def _same_answer(asked: Asked, cited: Addend, engine: Engine) -> bool:
    """Is what a proof cites what the log says was answered, with the noise that the log says?"""
    off = Fraction(0)
    if asked.noise is not None:
        if asked.noise.get("kind") not in ("uniform", "rounded"):
            raise Fails("an answer with noise that has no bound is used in a proof")
        if cited.test is not None:
            raise Cannot("a comparison with noise is not compared with the log")
        off = fraction(asked.noise["scale"])
    cell = _logged_cell(asked.answer, cited, engine)
    if isinstance(cell, Mapping):
        ends = cell["suppressed"] if "suppressed" in cell else [cell["lo"], cell["hi"]]
        lo, hi = (None if end is None else number(end) for end in ends)
        said = cited.answer if isinstance(cited.answer, Mapping) else {}
        widened = (None if lo is None else lo - off, None if hi is None else hi + off)
        return bool(said) and (number(said.get("lo")), number(said.get("hi"))) == widened
    if cell is None or cited.answer is None:
        return cited.answer in (None, 0) and cell in (None, 0)
    if isinstance(cited.answer, bool):
        return cell in (0, 1) and bool(cell) is cited.answer
    return max(cited.noise, cited.rounded or Fraction(0)) >= off and plain(cell) == plain(cited.answer)


def _logged_cell(answer: Any, cited: Addend, engine: Engine) -> Any:
    """The cell of a logged answer that a proof cites; None for NULL and for a group that is not there."""
    if not isinstance(answer, list):
        if cited.key or cited.besides is not None or (cited.test or {}).get("shown"):
            raise Cannot("the answer in the log does not show its groups")
        if len(engine.names(cited.sql or "")) != 1:
            raise Cannot("the answer in the log does not show its columns")
        return answer
    if answer and not any(isinstance(cell, list | Mapping) and "values" in cell for cell in answer):
        answer = [{"values": answer}]  # one row
    if not all(isinstance(row, Mapping) and isinstance(row.get("values"), list) for row in answer):
        raise Cannot("the answer in the log is not read here")
    folded = [{k.casefold(): plain(v) for k, v in (row.get("key") or {}).items()} for row in answer]
    wanted = {k.casefold(): plain(v) for k, v in (cited.key or {}).items()}
    if any(not wanted.keys() <= key.keys() for key in folded):
        raise Cannot("the answer in the log does not show the key of its group")
    rows = [k for k, key in enumerate(folded) if wanted.items() <= key.items()]
    if cited.besides is not None:
        listed = [{k.casefold(): plain(v) for k, v in other.items()} for other in cited.besides]
        return sum(not any(other.items() <= folded[k].items() for other in listed) for k in rows) or None
    if (cited.test or {}).get("shown"):
        return bool(rows)
    if len(rows) > 1:
        raise Cannot("several rows of the answer in the log have this key")
    if not rows:
        return None
    values, names = answer[rows[0]]["values"], [name.casefold() for name in engine.names(cited.sql or "")]
    places = [i for i, name in enumerate(names, 1) if name not in folded[rows[0]]]
    if len(places) != len(values) or (cited.column is None and len(values) != 1):
        raise Cannot("the columns of the answer in the log are not those of the statement")
    return values[0] if cited.column is None else values[places.index(cited.column)]


def read_log(log: Path) -> Log:
    """The statements of a log: a .jsonl transcript, or SQL text (its SELECTs are counted)."""
    try:
        text = log.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot read the log: {error}") from None
    if log.suffix.lower() == ".jsonl":
        try:
            lines = [read_json(line) for line in text.splitlines() if line.strip()]
            return Log(tuple(Asked(str(r["sql"]), "answer" in r, r.get("answer"), r.get("noise")) for r in lines))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreadable(f"the log is no transcript: {error}") from None
    import duckdb

    try:
        with duckdb.connect(":memory:") as con:
            found = con.extract_statements(text)
    except duckdb.Error as error:
        raise Unreadable(f"the log is no SQL that DuckDB reads: {str(error).splitlines()[0]}") from None
    chosen = [s.type == duckdb.StatementType.SELECT for s in found]
    asked = tuple(Asked(s.query.strip().rstrip(";")) for s, select in zip(found, chosen, strict=True) if select)
    return Log(asked, tuple(s.query for s, select in zip(found, chosen, strict=True) if not select))


# --- answers ----------------------------------------------------------------------------------------------------------


def same_rows(
    before: Sequence[tuple[Any, ...]], after: Sequence[tuple[Any, ...]], dust: Fraction, *, ordered: bool
) -> bool:
    """Are two answers the same, up to dust; and up to the order of their rows, where none was asked for?

    >>> same_rows([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], DUST, ordered=False)
    True
    """
    if len(before) != len(after):
        return False
    if _same(before, after, dust):
        return True
    return not ordered and _same(sorted(before, key=_row_order), sorted(after, key=_row_order), dust)


def _same(before: Sequence[tuple[Any, ...]], after: Sequence[tuple[Any, ...]], dust: Fraction) -> bool:
    return all(
        len(one) == len(two) and all(same_cell(a, b, dust) for a, b in zip(one, two, strict=True))
        for one, two in zip(before, after, strict=True)
    )


def _row_order(row: tuple[Any, ...]) -> tuple[tuple[bool, str], ...]:
    texts = [(isinstance(cell, float), f"{cell:.9e}" if isinstance(cell, float) else repr(plain(cell))) for cell in row]
    return tuple(sorted(texts, key=lambda each: each[0]))


def same_cell(one: Any, two: Any, dust: Fraction) -> bool:
    """Are two cells of an answer the same? Only DOUBLEs have dust; NaN (CORR with a constant) is printed as itself.

    >>> same_cell(0.1 + 0.2, 0.3, DUST), same_cell(1, 2, DUST), same_cell(None, 0, DUST)
    (True, False, False)
    >>> same_cell(float("nan"), float("nan"), DUST), same_cell(float("nan"), 0.0, DUST)
    (True, False)
    """
    if one is two or one == two or (one != one and two != two):
        return isinstance(one, bool) is isinstance(two, bool)
    if not (isinstance(one, float) and isinstance(two, float)):
        return bool(plain(one) == plain(two)) and isinstance(one, bool) is isinstance(two, bool)
    return abs(one - two) <= float(dust) * max(abs(one), abs(two))


def agrees(asked: Asked, result: Result, dust: Fraction = DUST) -> bool:
    """Is what a table answers what the log says was answered?"""
    names, rows = result
    off = Fraction(0)
    if asked.noise is not None:
        if asked.noise.get("kind") not in ("uniform", "rounded"):
            raise Cannot("an answer with noise that has no bound")
        off = Fraction(str(asked.noise["scale"]))
    answer = asked.answer
    if not isinstance(answer, list):
        return len(rows) == 1 and len(rows[0]) == 1 and _is_answer(rows[0][0], answer, off, dust)
    if not all(isinstance(each, Mapping) for each in answer):
        return (
            len(rows) == 1
            and len(rows[0]) == len(answer)
            and all(_is_answer(cell, said, off, dust) for cell, said in zip(rows[0], answer, strict=True))
        )
    if len(rows) != len(answer):
        return False
    return all(_has_row(each, names, rows, off, dust) for each in answer)


def _has_row(
    said: Mapping[str, Any], names: Sequence[str], rows: Sequence[tuple[Any, ...]], off: Fraction, dust: Fraction
) -> bool:
    key = {str(name).casefold(): plain(value) for name, value in (said.get("key") or {}).items()}
    folded = [name.casefold() for name in names]
    if not key.keys() <= set(folded):
        raise Cannot("the answer in the log is not read here")
    places = [i for i, name in enumerate(folded) if name not in key]
    values = list(said.get("values") or ())
    if len(values) != len(places):
        raise Cannot("the answer in the log is not read here")
    for row in rows:
        if all(_has_key(row[folded.index(name)], value) for name, value in key.items()) and all(
            _is_answer(row[i], value, off, dust) for i, value in zip(places, values, strict=True)
        ):
            return True
    return False


def _has_key(cell: Any, value: Any) -> bool:
    return bool(plain(cell) == value or str(cell) == str(value))


def _is_answer(cell: Any, said: Any, off: Fraction, dust: Fraction) -> bool:
    if isinstance(said, Mapping):
        low, high = said["suppressed"] if "suppressed" in said else (said.get("lo"), said.get("hi"))
        at = number(cell)
        lo, hi = number(low), number(high)
        return at is not None and (lo is None or at >= lo - off) and (hi is None or at <= hi + off)
    if cell is None or said is None or isinstance(cell, bool) or isinstance(said, bool):
        return (cell is None) == (said is None) and (cell is None or bool(cell) == bool(said))
    one, two = number(cell), number(said)
    if one is None or two is None:
        return str(cell) == str(said)
    if off and not dust:  # of a made-up table: it must be inside
        return abs(one - two) <= off
    near = off + max(abs(one), abs(two)) * (Fraction(1, 10**9) if isinstance(cell, float) or off else dust)
    return abs(one - two) <= near
