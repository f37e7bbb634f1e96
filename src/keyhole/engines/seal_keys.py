"""The key under which a table is sealed: 32 random bytes that only their owner can read.

It stands in a file of its own beside what it guards (`history.keyhole.key`), is made once and never replaced: without
it nobody could say whether private values changed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from keyhole.errors import ConfigError

KEY_BYTES = 32


def key_file(path: Path) -> Path:
    """Where the key of a file stands: beside it, wherever a link to it may be.

    >>> key_file(Path("history.keyhole")).name
    'history.keyhole.key'
    """
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.key")


def read_key(where: Path) -> bytes | None:
    """The key in this file, None if it was never made (or is lost)."""
    try:
        key = where.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the key {where}: {error.strerror}") from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"the key {where} has {len(key)} bytes, not {KEY_BYTES}: restore it from a backup")
    return key


def make_key(where: Path) -> bytes:
    """The key in this file; made now, durably and for its owner alone, if there is none."""
    key = read_key(where)
    if key is not None:
        return key
    try:
        handle, name = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")  # readable by its owner alone
        try:
            os.write(handle, secrets.token_bytes(KEY_BYTES))
            os.fsync(handle)
            with contextlib.suppress(FileExistsError):  # another process was faster: its key counts
                os.link(name, where)
        finally:
            os.close(handle)
            Path(name).unlink()
    except OSError as error:
        raise ConfigError(f"cannot write the key {where}: {error.strerror}") from None
    made = read_key(where)
    assert made is not None
    return made
