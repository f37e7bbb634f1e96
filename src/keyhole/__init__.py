"""What aggregate statistics give away about people, and how to answer safely.

`open` a table, `audit` a log, `verify` what it proved, `attack` as an outsider, `plan` the fewest questions, judge
published `tables` and `reconstruct` their rows; open a `session` that answers under the configured policy or a `watch`
that only decides, `ask` for private answers, `connect` to a server.
Each verb is imported when it is first used; `import keyhole` alone costs nothing.

>>> import keyhole
>>> people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
>>> import pyarrow as pa
>>> log = ["SELECT SUM(pay) FROM t", "SELECT SUM(pay) FROM t WHERE team = 'a'"]
>>> [f.who for f in keyhole.audit(log, data=pa.table(people), private="pay", id="name")]
['Cyd']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from keyhole.version import __version__

if TYPE_CHECKING:
    from keyhole.api.ask import ask
    from keyhole.api.attack import attack
    from keyhole.api.audit import audit
    from keyhole.api.connect import connect
    from keyhole.api.open import open  # noqa: A004 - the verb
    from keyhole.api.plan import plan
    from keyhole.api.session import session, watch
    from keyhole.api.tables import tables
    from keyhole.api.verify import verify
    from keyhole.attacks.microdata.reconstruct import reconstruct
    from keyhole.config.settings import File

__all__ = [
    "File",
    "__version__",
    "ask",
    "attack",
    "audit",
    "connect",
    "open",
    "plan",
    "reconstruct",
    "session",
    "tables",
    "verify",
    "watch",
]

_HOME = {
    "ask": "keyhole.api.ask",
    "attack": "keyhole.api.attack",
    "audit": "keyhole.api.audit",
    "connect": "keyhole.api.connect",
    "File": "keyhole.config.settings",
    "open": "keyhole.api.open",
    "plan": "keyhole.api.plan",
    "reconstruct": "keyhole.attacks.microdata.reconstruct",
    "session": "keyhole.api.session",
    "tables": "keyhole.api.tables",
    "verify": "keyhole.api.verify",
    "watch": "keyhole.api.session",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
