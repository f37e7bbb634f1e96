"""Every law of the yes/no oracle's attacks on every specimen, and on its liar."""

from __future__ import annotations

import pytest

from keyhole.checks import oracles

CASES = [(law, name) for law in oracles.LAWS for name in oracles.SPECIMENS]


@pytest.mark.parametrize(("law", "name"), CASES, ids=[f"{name}: {law.name}" for law, name in CASES])
def test_oracle_attacks(law: oracles.Law, name: str) -> None:
    law.check(oracles.SPECIMENS[name])


@pytest.mark.parametrize("law", oracles.LAWS, ids=[law.name for law in oracles.LAWS])
def test_every_law_catches_its_liar(law: oracles.Law) -> None:
    with pytest.raises(AssertionError):
        law.check(law.liar)
