"""What a verdict is about: the table, what its columns are taken for, the log's dialect, the version of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyhole.auditing.base import Exposure
from keyhole.model.schema import Role, Schema


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was judged: the table, the roles of its columns, the dialect of the log, the version of the data."""

    table: str
    id: tuple[str, ...]
    private: tuple[str, ...]
    hidden: tuple[str, ...]
    dialect: str
    version: str | None
    kinds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, exposure: Exposure) -> Provenance:
        """That of an exposure."""
        schema = exposure.roster.schema
        return cls(
            schema.table,
            _named(schema, Role.ID),
            _named(schema, Role.PRIVATE),
            _named(schema, Role.HIDDEN),
            exposure.dialect,
            exposure.version,
            {column.name: str(column.kind) for column in schema.columns if not column.computed},
        )


def _named(schema: Schema, role: Role) -> tuple[str, ...]:
    return tuple(column.name for column in schema.of_role(role))
