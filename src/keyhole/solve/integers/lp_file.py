"""Models in the LP format of CPLEX, read sparsely: one split, one pass over the words, no expression per term.

Read are integer models: Subject To, Bounds, Binaries, Generals. The objective is left out: what is asked is which
solutions there are. Cost: about a microsecond a word.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import lcm
from pathlib import Path

import numpy as np

from keyhole.errors import DataError
from keyhole.solve.integers.system import NO_END, IntegerSystem

RELATIONS = {"=": "=", "<=": "<=", "=<": "<=", "<": "<=", ">=": ">=", "=>": ">=", ">": ">="}
TURNED = {"=": "=", "<=": ">=", ">=": "<="}
COMMENT = re.compile(r"\\\*.*?\*\\|\\[^\n]*", re.DOTALL)
HEADS = {
    "rows": ("subject to", "such that", "st", "s.t.", "st."),
    "bounds": ("bounds", "bound"),
    "binary": ("binaries", "binary", "bin"),
    "general": ("generals", "general", "gen", "integers", "integer", "int"),
    "end": ("end",),
    "objective": ("minimize", "maximize", "minimum", "maximum", "min", "max"),
}
HEAD_OF = {word: head for head, words in HEADS.items() for word in words}
LARGEST = 2**53


@dataclass(frozen=True, slots=True, eq=False)
class LpModel:
    """A model: its system, and the names of its columns and rows."""

    system: IntegerSystem
    names: tuple[str, ...]
    rows: tuple[str, ...]


def read_lp(path: Path) -> LpModel:
    """Read a .lp or .lp.gz file."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, EOFError) as error:
        raise DataError.of_file(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise DataError.of_file(f"{path.name} is not UTF-8 text") from None
    return parse_lp(text, path.name)


def parse_lp(text: str, name: str = "the model") -> LpModel:
    """Read LP text.

    >>> model = parse_lp("Minimize obj: x Subject To r: x + 2 y = 2 Bounds x <= 3 Generals x y End")
    >>> model.names, model.system.coefficient.tolist(), model.system.upper.tolist()
    (('x', 'y'), [1, 2], [2, 1])
    """
    reader = _LpReader(name)
    if "\\" in text:
        text = COMMENT.sub(" ", text)
    for head, words in _sections(text.split()):
        getattr(reader, f"read_{head}")(words)
    return reader.model()


def _sections(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The words under each head; a head of two words is one."""
    marks = []
    for k, word in enumerate(words):
        if len(word) > 8 or word[-1] == ":":
            continue
        low = word.lower()
        if low in ("subject", "such") and k + 1 < len(words) and words[k + 1].lower() in ("to", "that"):
            marks.append(("rows", k, k + 2))
        elif low in HEAD_OF:
            marks.append((HEAD_OF[low], k, k + 1))
    if not marks:
        raise DataError.of_file("this is no LP model: it has no Subject To")
    for (head, _, begin), after in zip(marks, [*marks[1:], ("", len(words), 0)], strict=True):
        if head == "end":
            return
        yield head, words[begin : after[1]]


@dataclass(slots=True)
class _LpReader:
    name: str
    place: dict[str, int] = field(default_factory=dict)
    columns: list[int] = field(default_factory=list)
    coefficients: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    ends: list[tuple[int, int]] = field(default_factory=list)
    row_names: list[str] = field(default_factory=list)
    lower: dict[str, Fraction | None] = field(default_factory=dict)
    upper: dict[str, Fraction | None] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    twofold: set[str] = field(default_factory=set)

    def fault(self, what: str) -> DataError:
        row = f", row {self.row_names[-1]}" if self.row_names else ""
        return DataError.of_file(f"{self.name}{row}: {what}")

    def read_objective(self, _words: list[str]) -> None:
        """Left out."""

    def read_rows(self, words: list[str]) -> None:
        """Rows, each to its right side; one may have a left side too: 1 <= x + y <= 3."""
        at = 0
        while at < len(words):
            at = self._named(words, at)
            said, left = self._said(words, at), None
            if len(said[0]) == 1 and self._is_number(said[0][0]):
                left = (TURNED[said[1]], self._number(said[0][0]))
                said = self._said(words, at + 2)
            terms, relation, right, at = said
            self._row(terms, relation, self._number(right), left)

    def _said(self, words: list[str], at: int) -> tuple[list[str], str, str, int]:
        """Words up to a relation, the relation, the word behind it, and where it goes on."""
        begin, n = at, len(words)
        while at < n and words[at] not in RELATIONS:
            at += 1
        if at + 1 >= n:
            raise self.fault("a row has no right side")
        right, after = words[at + 1], at + 2
        if right in ("+", "-") and after < n:
            right, after = right + words[after], after + 1
        return words[begin:at], RELATIONS[words[at]], right, after

    def _named(self, words: list[str], at: int) -> int:
        word = words[at]
        if word[-1] == ":":
            self.row_names.append(word[:-1])
            return at + 1
        if at + 1 < len(words) and words[at + 1] == ":":
            self.row_names.append(word)
            return at + 2
        self.row_names.append(f"row {len(self.row_names) + 1}")
        return at

    def _row(self, words: list[str], relation: str, number: Fraction, left: tuple[str, Fraction] | None = None) -> None:
        """One row: words, a relation and its right side (and a left side, if it has one)."""
        place, columns, before = self.place, self.columns, len(self.columns)
        plain = list(map(place.get, words[::2]))
        if left is None and len(words) == 2 * len(plain) - 1 == 2 * words.count("+") + 1 and None not in plain:
            columns += plain  # type: ignore[arg-type]  # all names are known; all signs are +
            self._close([1] * len(plain), *_ends(relation, number))
            return
        amounts: list[Fraction | int] = []
        sign: int = 1
        factor: Fraction | int = 1
        for word in words:
            if word == "+":
                continue
            if word == "-":
                sign = -sign
                continue
            if word[0] in "0123456789.":
                factor = factor * self._number(word)
                continue
            if word[0] in "+-":
                sign = -sign if word[0] == "-" else sign
                word = word[1:]
                if word[0] in "0123456789.":
                    factor = factor * self._number(word)
                    continue
            at = place.setdefault(word, len(place))
            columns.append(at)
            amounts.append(sign * factor)
            sign = factor = 1
        if factor != 1 or sign != 1 or len(columns) == before:
            raise self.fault("it is no sum of columns on the left and a number on the right")
        lo, hi = _ends(relation, number)
        if left is not None:
            low, high = _ends(*left)
            lo, hi = (lo if low is None else low), (hi if high is None else high)
        self._close(amounts, lo, hi)

    def _close(self, amounts: list[Fraction | int], lo: Fraction | None, hi: Fraction | None) -> None:
        parts = [a for a in (*amounts, lo, hi) if isinstance(a, Fraction) and a.denominator != 1]
        scale = lcm(*(a.denominator for a in parts)) if parts else 1
        self.coefficients += [int(a * scale) for a in amounts]
        self.starts.append(len(self.columns))
        low = Fraction(-NO_END) if lo is None else lo * scale
        high = Fraction(NO_END) if hi is None else hi * scale
        if any(abs(end) > LARGEST and abs(end) != NO_END for end in (low, high)):
            raise self.fault("numbers are too large")
        self.ends.append((int(low), int(high)))

    def read_bounds(self, words: list[str]) -> None:
        """`x = 0`, `x <= 5`, `0 <= x <= 5`, `x free`."""
        at = 0
        while at < len(words):
            if at + 1 < len(words) and words[at + 1].lower() == "free":
                self.lower[words[at]] = None
                at += 2
                continue
            if at + 2 >= len(words) or words[at + 1] not in RELATIONS:
                raise self.fault(f"a bound is not understood near {words[at]!r}")
            first, relation, second = words[at], RELATIONS[words[at + 1]], words[at + 2]
            at += 3
            if second in ("+", "-") and at < len(words):
                second, at = second + words[at], at + 1
            if self._is_number(first):
                self._bound(second, TURNED[relation], self._end(first))
                if at + 1 < len(words) and words[at] in RELATIONS:
                    self._bound(second, RELATIONS[words[at]], self._end(words[at + 1]))
                    at += 2
            else:
                self._bound(first, relation, self._end(second))

    def _bound(self, name: str, relation: str, end: Fraction | None) -> None:
        if relation in ("=", ">="):
            self.lower[name] = end
        if relation in ("=", "<="):
            self.upper[name] = end

    def read_binary(self, words: list[str]) -> None:
        """Columns that are 0 or 1."""
        self.twofold.update(words)

    def read_general(self, words: list[str]) -> None:
        """Columns that are whole numbers."""
        self.whole.update(words)

    def _is_number(self, word: str) -> bool:
        return word.lstrip("+-")[:1] in tuple("0123456789.") or word.lower().lstrip("+-") in ("inf", "infinity")

    def _end(self, word: str) -> Fraction | None:
        return None if word.lower().lstrip("+-") in ("inf", "infinity") else self._number(word)

    def _number(self, word: str) -> Fraction:
        try:
            return Fraction(word)
        except ValueError:
            raise self.fault(f"{word!r} is no number") from None

    def model(self) -> LpModel:
        """All that was read."""
        names = tuple(self.place)
        lower, upper = [self._floor(name) for name in names], [self._ceiling(name) for name in names]
        for name, lo, hi in zip(names, lower, upper, strict=True):
            if name not in self.whole and name not in self.twofold and lo != hi:
                raise DataError.of_file(
                    f"{self.name}: {name} is not listed under Binaries or Generals: it may be any number"
                )
        if any(end == NO_END for end in upper):
            self._imply(lower, upper)
        for name, lo, hi in zip(names, lower, upper, strict=True):
            if lo == -NO_END or hi == NO_END:
                raise DataError.of_file(f"{self.name}: {name} has no end: write one under Bounds")
        ends = np.array(self.ends, dtype=np.int64).reshape(-1, 2)
        system = IntegerSystem(
            np.array(self.starts, dtype=np.int64),
            np.array(self.columns, dtype=np.int64),
            np.array(self.coefficients, dtype=np.int64),
            ends[:, 0].copy(),
            ends[:, 1].copy(),
            np.array(lower, dtype=np.int64),
            np.array(upper, dtype=np.int64),
            np.arange(len(ends)),
        )
        return LpModel(system, names, tuple(self.row_names))

    def _imply(self, lower: list[int], upper: list[int]) -> None:
        """Upper ends that follow from one row of positive coefficients, where none is written."""
        for (a, b), (_, hi) in zip(pairwise(self.starts), self.ends, strict=True):
            columns, amounts = self.columns[a:b], self.coefficients[a:b]
            if hi < NO_END and all(c > 0 for c in amounts) and all(lower[k] >= 0 for k in columns):
                for k, c in zip(columns, amounts, strict=True):
                    upper[k] = min(upper[k], max(hi // c, lower[k]))

    def _floor(self, name: str) -> int:
        end = self.lower.get(name, Fraction(0))
        return -NO_END if end is None else -int(-end // 1)

    def _ceiling(self, name: str) -> int:
        end = self.upper.get(name, Fraction(1) if name in self.twofold else None)
        return NO_END if end is None else int(end // 1)


def _ends(relation: str, number: Fraction) -> tuple[Fraction | None, Fraction | None]:
    return (None if relation == "<=" else number), (None if relation == ">=" else number)
