"""FROM and column names: which column of the one table a name means."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from keyhole.errors import UnknownColumn
from keyhole.model.predicate import TRUE, Predicate, format_literal
from keyhole.model.schema import Column, Related, Role, Schema, fold_name
from keyhole.sql.statements.parse import LONGEST, SourceText


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column that a subquery computes: its expression, to be read in the subquery's own scope."""

    node: exp.Expr
    scope: Scope


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """Another table in FROM under a name; `inner`: every record that is left has a row of it."""

    alias: str
    related: Related
    inner: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a SELECT may use.

    `names` is None for the table itself, else what a subquery passes on (case folded). `where` is what the
    subqueries ask of a record. `qualifiers` are the names before the dot. `table` is the table's name as written.
    `joined` are other tables in FROM; a record may be there several times, once for each row of those `multiplied`.
    """

    source: SourceText
    schema: Schema
    qualifiers: frozenset[str]
    where: Predicate = TRUE
    names: dict[str, Column | DerivedColumn] | None = field(default=None, hash=False)
    table: tuple[str, ...] = ()
    joined: tuple[JoinedTable, ...] = ()
    multiplied: tuple[str, ...] = ()

    def resolve(self, node: exp.Column) -> Column | DerivedColumn:
        """What the name means; raises `UnknownColumn` with the nearest name, refuses hidden columns."""
        name, identifier = node.name, node.this
        if not isinstance(identifier, exp.Identifier):
            raise self.source.refuse("name one column here, not *", node)
        parts = node.parts
        if (other := self._joined(node)) is not None:
            return self._of(other, node)
        if len(parts) > 1 and fold_name(parts[-2].name) not in self.qualifiers:
            known = " or ".join(sorted(self.qualifiers)) or "nothing"
            raise UnknownColumn(
                f"there is no table {parts[-2].name} in FROM: write {known}.{name}, or {name} alone",
                self.source.text,
                self.source.position(node),
            )
        column = self.schema.find(name) if self.names is None else self.names.get(fold_name(name))
        if column is None:
            # in double quotes, or where a value is compared: most likely text is meant
            as_text = bool(identifier.quoted) or (
                isinstance(node.parent, exp.EQ | exp.NEQ | exp.In) and node.arg_key != "this"
            )
            message = self._unknown(name, bool(identifier.quoted), as_text) + self._corrected(node, name, as_text)
            raise UnknownColumn(message, self.source.text, self.at(node))
        if isinstance(column, Column) and column.role is Role.HIDDEN:
            raise self.source.refuse(f"column {column.name} is hidden: nobody may ask about it", node)
        if isinstance(column, Column) and column.name in self.schema.unreviewed:
            raise self.source.refuse(
                f"nobody has reviewed the role of column {column.name}: say in keyhole.toml whether it is private or "
                "public, and write reviewed = true there",
                node,
            )
        return column

    def _joined(self, node: exp.Column) -> JoinedTable | None:
        """The other table whose column is meant: by its name, or because only it has the column."""
        if len(node.parts) > 1:
            named = fold_name(node.parts[-2].name)
            return None if named in self.qualifiers else next((j for j in self.joined if j.alias == named), None)
        mine = self.schema.find(node.name) if self.names is None else self.names.get(fold_name(node.name))
        if mine is not None:
            return None
        return next((j for j in self.joined if j.related.find(node.name) is not None), None)

    def _of(self, other: JoinedTable, node: exp.Column) -> Column:
        """A column of another table as one of the record: of a dimension, or a key that says whose row it is."""
        related, own = other.related, other.related.find(node.name)
        if own is None:
            raise UnknownColumn(
                f"{related.name} has no column {node.name}", self.source.text, self.source.position(node)
            )
        person, mine = related.keys[0]
        name = f"{related.name}.{own.name}" if related.dimension else mine if own.name == person else ""
        usable = related.dimension or (other.inner and related.agrees)
        column = self.schema.find(name) if usable else None
        if column is None:
            raise self.source.refuse(
                f"{own.name} stands in rows of {related.name}, of which a record may have several: only conditions on "
                "them are judged here",
                node,
            )
        return column

    def at(self, node: exp.Expr) -> int:
        """The caret under a node."""
        return self.source.position(node)

    def _corrected(self, node: exp.Column, name: str, as_text: bool) -> str:
        """The statement with the word as text, where text must be meant."""
        text, at = self.source.text, self.at(node)
        word = next((w for w in (f'"{name}"', name) if text.startswith(w, at)), "")
        if (
            not as_text
            or not word
            or len(node.parts) > 1
            or len(text) > LONGEST
            or self.schema.nearest(name) is not None
        ):
            return ""
        return f". Write: {' '.join((text[:at] + format_literal(name) + text[at + len(word) :]).split())}"

    def _unknown(self, name: str, quoted: bool, as_text: bool) -> str:
        nearest = self.schema.nearest(name) if self.names is None else None
        if nearest is not None and (column := self.schema.find(nearest)) is not None and column.role is Role.HIDDEN:
            nearest = None
        hint = f"; did you mean {nearest}?" if nearest else ""
        if self.names is not None:
            hint = "; the subquery does not pass it on"
        elif not nearest and not as_text:
            known = [c.name for c in self.schema.columns if c.role is not Role.HIDDEN]
            hint = f"; the columns are {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"
        shown = f'"{name}"' if quoted else name
        if as_text:
            return f"there is no column {shown}. Text takes single quotes: {format_literal(name)}{hint}"
        return f"there is no column {shown}{hint}"
