"""The page of the server: what it tells to type is typed, in its order, against a real PostgreSQL."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serve.md"
DATABASE = """
CREATE ROLE owner LOGIN CREATEROLE;
CREATE DATABASE hr OWNER owner;
"""
TABLE = """
CREATE TABLE staff AS SELECT 'p' || k AS name, (ARRAY['legal', 'sales'])[k % 2 + 1] AS dept, 20 + k % 40 AS age,
  1000 + k * 7919 % 5000 AS pay FROM generate_series(1, 60) AS k;
"""


def read_blocks(heading: str) -> list[str]:
    """What stands in the shell blocks of a section."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_the_page_is_typed_against_a_real_server(postgres: Postgres, tmp_path: Path) -> None:
    postgres.run(DATABASE)
    owner = [str(postgres.programs / "psql"), postgres.url("owner", database="hr"), "-qc", TABLE]
    subprocess.run(owner, check=True, capture_output=True)
    first, second = (
        read_blocks("In front of your PostgreSQL, in ten minutes"),
        read_blocks("Backup, restore, upgrade, failover"),
    )
    assert (len(first), len(second)) == (4, 2)
    restore = """
cp -p ../backup/* . && cp -p book.keyhole ../newer && keyhole serve -c keyhole.toml --check
(cd ../gateway && keyhole ask "SELECT SUM(pay) FROM staff WHERE age < 40" -c keyhole.toml) > /dev/null
cp -p ../newer book.keyhole && rm -f book.keyhole-wal book.keyhole-shm
keyhole serve -c keyhole.toml --check || echo "an older copy was refused"
"""
    script = "\n".join(["set -e", *first, second[0], restore, second[1], "echo all of it"])
    for role in ("owner", "keyhole_reader", "keyhole_book"):
        script = script.replace(f"postgresql://{role}@db.example/hr", postgres.url(role, database="hr"))
    for port in ("8300", "6432"):
        script = script.replace(port, str(free_port()))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "keyhole"
    program.write_text(f"#!{sys.executable}\nfrom keyhole.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{postgres.programs}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    words = ["bash", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env=env)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "all of it" in said
    assert re.search(r"legal +\| *\d", said)
    assert "would expose somebody" in said
    assert "denied, as it must be" in said
    assert 'keyhole_questions_total{population="staff",door="postgres",outcome="deny"} 1' in said
    assert said.count("everything opens; nothing was served") == 4
    assert "an older copy was refused" in said
    assert "kh_" not in said
