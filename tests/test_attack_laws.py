"""Every law of attacks on every attack, and every law on its liar."""

from __future__ import annotations

import pytest

from keyhole.checks.attacks import LAWS, SPECIMENS, Law
from keyhole.checks.attacks_liars import LIARS

PAIRS = [(law, name) for law in LAWS for name in SPECIMENS]


@pytest.mark.parametrize(("law", "name"), PAIRS, ids=[f"{name}: {law.name}" for law, name in PAIRS])
def test_attacks(law: Law, name: str) -> None:
    law.check(SPECIMENS[name])


@pytest.mark.parametrize("law", LAWS, ids=[law.name for law in LAWS])
def test_every_law_catches_its_liar(law: Law) -> None:
    with pytest.raises(AssertionError):
        law.check(LIARS[law.check.__name__])


def test_no_law_without_a_liar() -> None:
    assert set(LIARS) == {law.check.__name__ for law in LAWS}
