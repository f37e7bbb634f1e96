"""Private conditions against all small tables, by seed: `python -m tests.fuzz.enumeration --first SEED --count N`.

The twin evaluates statements itself, in integers; see `tests/auditing/test_enumeration.py`.
"""

from __future__ import annotations

from collections import Counter

from tests.auditing.test_enumeration import SETTINGS
from tests.auditing.test_enumeration import play as play_setting
from tests.fuzz.soak import run

LOGS = 12


def play(seed: int) -> Counter[str]:
    """The logs of one seed, about one kind of private column."""
    found = play_setting(seed, SETTINGS[seed % len(SETTINGS)], LOGS)
    return Counter(
        {"enumeration": found["logs"], "exposures compared": found["findings"], "all clear": found["silent"]}
    )


if __name__ == "__main__":
    run("enumeration", play)
