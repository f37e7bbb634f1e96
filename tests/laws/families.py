"""Every family of laws with its specimens: what the tests run, and what a new implementation is added to."""

from __future__ import annotations

from typing import Any, Final

from tests.laws import (
    attacks,
    auditors,
    bases,
    budgets,
    designs,
    epochs,
    mechanisms,
    online,
    oracle_learners,
    oracles,
    sessions,
    sources,
    updates,
)
from tests.laws.law import Family

FAMILIES: Final[tuple[Family[Any], ...]] = (
    Family("auditor", auditors.LAWS, auditors.SPECIMENS),
    Family("online auditor", online.LAWS, online.SPECIMENS),
    Family("epochs", epochs.LAWS, epochs.SPECIMENS),
    Family("source", sources.LAWS, sources.SPECIMENS),
    Family("basis", bases.LAWS, bases.SPECIMENS),
    Family("attack", attacks.LAWS, attacks.SPECIMENS),
    Family("query design", designs.LAWS, designs.SPECIMENS),
    Family("oracle attack", oracles.LAWS, oracles.SPECIMENS),
    Family("oracle learner", oracle_learners.LAWS, oracle_learners.SPECIMENS),
    Family("mechanism", mechanisms.LAWS, mechanisms.SPECIMENS),
    Family("budget", budgets.LAWS, budgets.SPECIMENS),
    Family("session", sessions.LAWS, sessions.SPECIMENS),
    Family("update", updates.LAWS, updates.SPECIMENS),
)
