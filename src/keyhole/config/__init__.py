"""keyhole.toml and options: the one schema of all settings.

A name is imported when it is first used: options take `config.arguments` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyhole.config.columns import Columns, PrivateColumn, PublicColumn, TableRoles
    from keyhole.config.config import BookTable, BudgetTable, Config, FactTable, Online, home
    from keyhole.config.file_layout import FileLayout, SourceTable
    from keyhole.config.short_form import parse_private
    from keyhole.config.toml_table import toml_key

__all__ = [
    "BookTable",
    "BudgetTable",
    "Columns",
    "Config",
    "FactTable",
    "FileLayout",
    "Online",
    "PrivateColumn",
    "PublicColumn",
    "SourceTable",
    "TableRoles",
    "home",
    "parse_private",
    "toml_key",
]

_HOME = {
    "BookTable": "keyhole.config.config",
    "BudgetTable": "keyhole.config.config",
    "Columns": "keyhole.config.columns",
    "Config": "keyhole.config.config",
    "FactTable": "keyhole.config.config",
    "FileLayout": "keyhole.config.file_layout",
    "Online": "keyhole.config.config",
    "PrivateColumn": "keyhole.config.columns",
    "PublicColumn": "keyhole.config.columns",
    "SourceTable": "keyhole.config.file_layout",
    "TableRoles": "keyhole.config.columns",
    "home": "keyhole.config.config",
    "parse_private": "keyhole.config.short_form",
    "toml_key": "keyhole.config.toml_table",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
