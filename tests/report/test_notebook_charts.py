"""What a notebook shows of a verdict, an attack and answers: HTML with a chart, whose style stays inside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.test_every_page import ASKED, BUDGET
from tests.report.test_pages import parsed
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import CONFIG, LOG, PEOPLE, ROSTER, TRANSCRIPT


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("notebook")
    files = {"people.csv": PEOPLE, "roster.csv": ROSTER, "log.sql": LOG, "t.jsonl": TRANSCRIPT, "q.sql": ASKED}
    write_files(folder, {**files, "keyhole.toml": CONFIG, "budget.toml": BUDGET})
    verdict = keyhole.audit(folder / "log.sql", config=folder / "keyhole.toml")
    given = {"data": folder / "roster.csv", "id": "Name", "private": "Blood sugar:3..10"}
    guessed = keyhole.attack(folder / "t.jsonl", **given)
    scored = keyhole.attack(folder / "t.jsonl", truth=folder / "people.csv", **given)
    told = keyhole.ask(folder / "q.sql", config=folder / "budget.toml", epsilon=1)
    made = {"verdict": verdict, "attack": guessed, "scored": scored, "answers": told}
    return {name: each._repr_html_() for name, each in made.items()}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("verdict", "1 of 6 people is exposed"),
        ("attack", "Guesses for 6 people"),
        ("scored", "rebuilt exactly"),
        ("answers", "SELECT Gender"),
    ],
)
def test_it_has_its_words_and_a_chart(name: str, words: str, shown: dict[str, str]) -> None:
    found = parsed(shown[name])
    assert words in " ".join(found.text)
    assert found.tags.count("svg") == 1
    assert not found.links


def test_its_style_is_for_itself_alone(shown: dict[str, str], tmp_path: Path) -> None:
    style = re.search(r"<style>(.*?)</style>", shown["verdict"], re.DOTALL)
    assert style is not None
    rules = re.sub(r"@media[^{]*\{|\}\s*\}", "}", style[1])
    selectors = [s.strip() for rule in re.findall(r"(?:^|\})([^{}]+)\{", rules) for s in rule.split(",")]
    assert len(selectors) > 20
    assert [s for s in selectors if not s.startswith(".keyhole")] == []
