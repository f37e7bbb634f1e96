"""keyhole.toml and options: the one schema of all settings."""

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
