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

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from keyhole.version import __version__

if TYPE_CHECKING:
    from keyhole.config.settings import File
    from keyhole.api.answer import answer
    from keyhole.api.ask import ask
    from keyhole.api.attack import attack
    from keyhole.api.examine import examine
    from keyhole.api.open import open  # noqa: A004 - the verb
    from keyhole.api.plan import plan
    from keyhole.api.watch import watch

__all__ = ["File", "__version__", "answer", "ask", "attack", "examine", "open", "plan", "watch"]

_HOME = {
    "answer": "keyhole.api.answer",
    "ask": "keyhole.api.ask",
    "examine": "keyhole.api.examine",
    "File": "keyhole.config.settings",
    "open": "keyhole.api.open",
    "plan": "keyhole.api.plan",
    "watch": "keyhole.api.watch",
}


class _Attack(ModuleType):
    """`keyhole.attack` is a package, and a verb: called, it attacks."""

    @property
    def __call__(self) -> object:
        return import_module("keyhole.api.attack").attack

    @property
    def __signature__(self) -> object:
        return import_module("inspect").signature(self.__call__)


class _Keyhole(ModuleType):
    """This package. Its subpackage `attack` becomes callable when Python binds it here, whoever imports it first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "attack" and isinstance(value, ModuleType):
            value.__class__ = _Attack
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Keyhole


def __getattr__(name: str) -> object:
    if name == "attack":
        return import_module("keyhole.attacks")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
