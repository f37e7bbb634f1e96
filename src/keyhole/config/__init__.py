"""What an attacker is assumed to know, and keyhole.toml, the one schema of all settings."""

from keyhole.config.columns import Columns, PrivateColumn, PublicColumn, TableRoles
from keyhole.config.config import BookTable, BudgetTable, Config, FactTable, Online, home
from keyhole.config.file_layout import FileLayout, SourceTable
from keyhole.model.prior import FEW_VALUES, DomainState, Fact, Knowledge, Prior
from keyhole.config.short_form import parse_private
from keyhole.config.toml_table import toml_key

__all__ = [
    "FEW_VALUES",
    "BookTable",
    "BudgetTable",
    "Columns",
    "Config",
    "DomainState",
    "Fact",
    "FactTable",
    "FileLayout",
    "Knowledge",
    "Online",
    "Prior",
    "PrivateColumn",
    "PublicColumn",
    "SourceTable",
    "TableRoles",
    "home",
    "parse_private",
    "toml_key",
]
