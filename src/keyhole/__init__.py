"""What aggregate statistics give away about people, and how to answer safely.

`open` a table, `examine` a log, `watch` before each answer, `attack` as an outsider, `answer` with noise and a budget,
`ask` one question under the configured policy.
Each verb is imported when it is first used; `import keyhole` alone costs nothing.

>>> import keyhole
>>> people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
>>> import pyarrow as pa
>>> log = ["SELECT SUM(pay) FROM t", "SELECT SUM(pay) FROM t WHERE team = 'a'"]
>>> [f.who for f in keyhole.examine(log, data=pa.table(people), private="pay", id="name")]
['Cyd']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from keyhole.version import __version__

if TYPE_CHECKING:
    from keyhole.api.ask import answer
    from keyhole.api.attack import attack
    from keyhole.api.audit import examine
    from keyhole.api.connect import connect
    from keyhole.api.open import open  # noqa: A004 - the verb
    from keyhole.api.plan import plan
    from keyhole.api.session import ask
    from keyhole.api.watch import watch
    from keyhole.config.settings import File

__all__ = ["File", "__version__", "answer", "ask", "attack", "connect", "examine", "open", "plan", "watch"]

_HOME = {
    "answer": "keyhole.api.ask",
    "ask": "keyhole.api.session",
    "attack": "keyhole.api.attack",
    "connect": "keyhole.api.connect",
    "examine": "keyhole.api.audit",
    "File": "keyhole.config.settings",
    "open": "keyhole.api.open",
    "plan": "keyhole.api.plan",
    "watch": "keyhole.api.watch",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
