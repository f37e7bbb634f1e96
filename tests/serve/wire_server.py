"""A PostgreSQL door over small populations: in a thread of a test, or as a process that can be killed."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from keyhole.serve.gate import Gate
from keyhole.serve.keys import KeyRing, KeyRole
from keyhole.serve.postgres_wire.front import WireDoor, open_door
from keyhole.serve.server import bind

T = TypeVar("T")
ROWS = [
    (f"p{at}", "abc"[at % 3], 20 + at, f"2026-01-{at % 28 + 1:02d}", 1000 + 7 * at * at, f"{at}.5") for at in range(24)
]
AUDITED = """
[source]
data = "staff.csv"
table = "staff"
[columns]
id = ["name"]
[columns.private.pay]
domain = "real"
[columns.private.bonus]
domain = "real"
[book]
path = "staff.keyhole"
"""
NOISY = """
[source]
data = "staff.csv"
table = "visits"
[columns]
id = ["name"]
[columns.public.dept]
values = ["a", "b", "c"]
[columns.private.pay]
min = 0
max = 6000
[budget]
epsilon = 8
[budget.analysts]
bob = 4
[book]
path = "visits.keyhole"
"""


def write_world(folder: Path) -> dict[str, str]:
    """Data, settings and keys of two populations; analyst -> key."""
    lines = ["name,dept,age,hired,pay,bonus", *(",".join(map(str, row)) for row in ROWS)]
    (folder / "staff.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "staff.toml").write_text(AUDITED, encoding="utf-8")
    (folder / "visits.toml").write_text(NOISY, encoding="utf-8")
    ring = KeyRing(folder / "keys.keyhole")
    keys = {"ann": ring.add("ann", KeyRole.ANALYST, populations=("staff",), per_minute=100_000)}
    keys["bob"] = ring.add("bob", KeyRole.ANALYST, populations=("visits",), per_minute=100_000)
    keys["olga"] = ring.add("olga", KeyRole.OWNER)
    return keys


class WireServer:
    """A door that is open in a thread with its own loop, until `close`."""

    def __init__(self, folder: Path, keys: dict[str, str], tls: ssl.SSLContext | None = None) -> None:
        self.folder, self.keys = folder, keys
        self.gate = Gate.open([folder / "staff.toml", folder / "visits.toml"], folder / "keys.keyhole")
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="postgres-door")
        self._thread.start()
        listening = bind("127.0.0.1:0", None)
        self.port = listening.getsockname()[1]
        try:
            self.door: WireDoor = self.run(open_door(self.gate, listening, tls))
        except BaseException:
            listening.close()
            self._end()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something on the loop of the door."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def address(self, who: str = "ann", more: str = "") -> str:
        """For libpq."""
        name = "staff" if who == "ann" else "visits"
        return f"postgresql://{who}:{self.keys[who]}@127.0.0.1:{self.port}/{name}{more}"

    def close(self) -> None:
        """Shut the door and end everything behind it."""
        self.run(self.door.close())
        self._end()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()
        self.gate.close()


async def serve_forever(folder: Path) -> None:
    """As a process: says its port and the process of its shadow, and stays."""
    gate = Gate.open([folder / "staff.toml", folder / "visits.toml"], folder / "keys.keyhole")
    listening = bind("127.0.0.1:0", None)
    door = await open_door(gate, listening, None)
    sys.stdout.write(f"{listening.getsockname()[1]} {door.shadow.process.pid} {door.shadow.folder}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def start_process(folder: Path) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    words = [sys.executable, "-m", "tests.serve.wire_server", str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    asyncio.run(serve_forever(Path(sys.argv[1])))
