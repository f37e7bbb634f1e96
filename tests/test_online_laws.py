"""Every law of online auditors on every specimen, and on its liar."""

from __future__ import annotations

import pytest

from keyhole.checks import online

PAIRS = [(law, name) for law in online.LAWS for name in online.SPECIMENS]


@pytest.mark.parametrize(("law", "name"), PAIRS, ids=[f"{name}: {law.name}" for law, name in PAIRS])
def test_online_auditors(law: online.Law, name: str) -> None:
    law.check(online.SPECIMENS[name])


@pytest.mark.parametrize("law", online.LAWS, ids=[law.name for law in online.LAWS])
def test_every_law_catches_its_liar(law: online.Law) -> None:
    with pytest.raises(AssertionError):
        law.check(law.liar)


@pytest.mark.soak
@pytest.mark.parametrize("law", online.LAWS[:4], ids=[law.name for law in online.LAWS[:4]])
def test_many_streams(law: online.Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "SEEDS", range(1000, 1060))
    law.check(online.SPECIMENS["OnlineAuditor"])
