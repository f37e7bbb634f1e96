"""Every law on every specimen, and every law on its liar."""

from __future__ import annotations

import pytest

from keyhole.checks import auditors, sources

AUDITORS = [(law, name) for law in auditors.LAWS for name in auditors.SPECIMENS]
SOURCES = [(law, name) for law in sources.LAWS for name in sources.SPECIMENS]


@pytest.mark.parametrize(("law", "name"), AUDITORS, ids=[f"{n}: {law.name}" for law, n in AUDITORS])
def test_auditors(law: auditors.Law, name: str) -> None:
    law.check(auditors.SPECIMENS[name]())


@pytest.mark.parametrize("law", auditors.LAWS, ids=[law.name for law in auditors.LAWS])
def test_every_auditor_law_catches_its_liar(law: auditors.Law) -> None:
    with pytest.raises(AssertionError):
        law.check(law.liar)


@pytest.mark.parametrize(("law", "name"), SOURCES, ids=[f"{n}: {law.name}" for law, n in SOURCES])
def test_sources(law: sources.Law, name: str) -> None:
    law.check(sources.SPECIMENS[name])


@pytest.mark.parametrize("law", sources.LAWS, ids=[law.name for law in sources.LAWS])
def test_every_source_law_catches_its_liar(law: sources.Law) -> None:
    with pytest.raises(AssertionError):
        law.check(law.liar)
