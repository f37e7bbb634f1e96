"""Keys of callers: 256 bits, shown once; the file has their digests alone.

A key is `kh_` and 43 characters. Its digest is SHA-256: a random key of 256 bits needs no slow hash. The file is
JSON, readable by its owner alone (0600), and written whole. A server notices when it changed.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from keyhole.errors import ConfigError

START = "kh_"
BITS = 256
FORMAT = 2
SHOWN = 6  # characters of a key that lists and logs show, behind the start


class KeyRole(StrEnum):
    """ANALYST: asks. OWNER: reads the book, and asks nothing under an analyst's name."""

    ANALYST = "analyst"
    OWNER = "owner"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a key: whose it is, what it may do, and until when. `scram` is for the PostgreSQL door."""

    name: str  # the analyst's name, as the book and the budget have it
    role: KeyRole
    digest: str
    prefix: str
    created: str
    expires: str | None = None
    per_minute: int | None = None  # None: as the server says
    per_day: int | None = None  # None: no cap
    populations: tuple[str, ...] = ()  # none: all of them
    scram: str = ""

    def has_expired(self, now: dt.datetime) -> bool:
        """Is it too late?"""
        return self.expires is not None and now >= dt.datetime.fromisoformat(self.expires)

    def may_reach(self, population: str) -> bool:
        """Is this one of its populations?"""
        return not self.populations or population in self.populations


class KeyList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    format: int = FORMAT
    keys: tuple[ApiKey, ...] = ()


def digest_key(key: str) -> str:
    """What the file has of a key.

    >>> digest_key("kh_x")[:8]
    '0c8aa49f'
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def make_scram_verifier(key: str) -> str:
    """What SCRAM-SHA-256 needs of a key, as PostgreSQL writes it: nobody can log in with it."""
    import base64

    rounds, salt = 4096, secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", key.encode(), salt, rounds)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${rounds}:{salt_text}${stored_text}:{server_text}"


class KeyRing:
    """The keys of a file. `find` tells whose a key is, at a cost that says nothing about which digests are near.

    >>> ring = KeyRing(Path(tempfile.mkdtemp()) / "keys.keyhole")
    >>> key = ring.add("ann", KeyRole.ANALYST)
    >>> ring.find(key).name, ring.find("kh_wrong"), key in ring.path.read_text()
    ('ann', None, False)
    >>> ring.revoke("ann"), ring.find(key)
    (1, None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[ApiKey, ...] = ()
        self.refresh()

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """Every key, oldest first; also expired ones."""
        self.refresh()
        return self._keys

    def refresh(self) -> None:
        """Read the file again if it changed. A file that others can read is refused."""
        try:
            about = self.path.stat()
        except FileNotFoundError:
            self._seen, self._keys = None, ()
            return
        seen = (about.st_ino, about.st_mtime_ns, about.st_size)
        if seen == self._seen:
            return
        if stat.S_IMODE(about.st_mode) & 0o077:
            raise ConfigError(f"others can read {self.path}: run chmod 600 on it, and make new keys if anybody did")
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=KeyList)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path} is not a list of keys: {error}") from None
        if found.format != FORMAT:
            raise ConfigError(f"{self.path} has the format {found.format}, this program reads {FORMAT}")
        self._seen, self._keys = seen, found.keys

    def find(self, key: str) -> ApiKey | None:
        """Whose key it is; None if it is nobody's, was revoked or has expired. Each digest is compared in full."""
        self.refresh()
        wanted, now = digest_key(key), dt.datetime.now(dt.UTC)
        match: ApiKey | None = None
        for each in self._keys:
            if hmac.compare_digest(each.digest, wanted):
                match = each
        return None if match is None or match.has_expired(now) else match

    def find_digest(self, digest: str) -> ApiKey | None:
        """A key that was found before, if it still is one."""
        self.refresh()
        now = dt.datetime.now(dt.UTC)
        return next((each for each in self._keys if each.digest == digest and not each.has_expired(now)), None)

    def add(
        self,
        name: str,
        role: KeyRole,
        *,
        expires: dt.datetime | None = None,
        per_minute: int | None = None,
        per_day: int | None = None,
        populations: tuple[str, ...] = (),
    ) -> str:
        """Make a key; this is the one time that it is known."""
        if not name or name == "*" or not name.isprintable() or len(name) > 63:
            raise ConfigError(f"{name!r} is no name for a key: write 1 to 63 printable characters, not '*'")
        key = START + secrets.token_urlsafe(BITS // 8)
        made = ApiKey(
            name=name,
            role=role,
            digest=digest_key(key),
            prefix=key[: len(START) + SHOWN],
            created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            expires=None if expires is None else expires.astimezone(dt.UTC).isoformat(timespec="seconds"),
            per_minute=per_minute,
            per_day=per_day,
            populations=populations,
            scram=make_scram_verifier(key),
        )
        with self._locked():
            clash = [each.role for each in self.keys if each.name == name and each.role is not role]
            if clash:
                raise ConfigError(f"{name!r} has a key as {clash[0]} already: an owner asks nothing, so use two names")
            self._write((*self._keys, made))
        return key

    def revoke(self, name_or_prefix: str) -> int:
        """Take away every key of this name, or the one that begins so; how many there were."""
        with self._locked():
            kept = tuple(each for each in self.keys if name_or_prefix not in (each.name, each.prefix))
            gone = len(self._keys) - len(kept)
            if gone:
                self._write(kept)
        return gone

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time."""
        handle = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, keys: tuple[ApiKey, ...]) -> None:
        text = msgspec.json.format(msgspec.json.encode(KeyList(keys=keys)), indent=1)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # 0600 from the start
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self.refresh()
