"""An expression over public columns as a value: its SQL, and what may come out of it."""

from __future__ import annotations

from dataclasses import dataclass

from keyhole.model.predicate import Constant, IsNull, Opaque, Predicate, negation
from keyhole.model.schema import Kind
from keyhole.sql.lowering.functions import DAY, NUMBER

FINITE = "ISFINITE"


@dataclass(frozen=True, slots=True)
class Public:
    """An expression over public columns: its SQL, and what may come out."""

    raw: str
    kind: Kind
    columns: frozenset[str]
    nullable: bool
    fallible: bool = False
    finite: bool = True
    column: str | None = None  # set if it is that column and nothing else

    @property
    def sql(self) -> str:
        """The text; NULL where the engine would otherwise fail on a value."""
        return f"TRY({self.raw})" if self.fallible else self.raw

    def present(self) -> Predicate:
        """The condition that it has a value that can be summed."""
        if self.column is not None:
            return negation(IsNull(self.column)) if self.nullable else Constant(True)
        if not self.finite:
            return Opaque(f"{FINITE}({self.sql})", self.columns)
        return Opaque(f"({self.sql}) IS NOT NULL", self.columns) if self.nullable or self.fallible else Constant(True)


def product(left: Public, right: Public) -> Public:
    """The product of two weights."""
    kind = max((left.kind, right.kind), key=NUMBER.index)
    return joined(f"({left.raw} * {right.raw})", kind, left, right, fallible=kind is not Kind.DOUBLE)


def reciprocal(of: Public) -> Public:
    """One over a weight that is not 0."""
    return joined(f"(1 / {of.raw})", Kind.DOUBLE, of)


def joined(text: str, kind: Kind, *parts: Public, fallible: bool = False, finite: bool = True) -> Public:
    return Public(
        text,
        kind,
        frozenset().union(*(p.columns for p in parts)),
        any(p.nullable for p in parts),
        fallible or any(p.fallible for p in parts),
        finite and all(p.finite for p in parts),
    )


def family(kind: Kind) -> Kind:
    return Kind.DOUBLE if kind.numeric else Kind.TIMESTAMP if kind in DAY else kind


def common(parts: list[Public]) -> Kind:
    kinds = [p.kind for p in parts]
    return max(kinds, key=NUMBER.index) if kinds[0].numeric else Kind.TIMESTAMP if Kind.TIMESTAMP in kinds else kinds[0]
