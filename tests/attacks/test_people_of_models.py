"""Models that number their people: rows that differ in the number alone are one person, against enumeration.

And a search that is stopped keeps what was proved by then.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random

import numpy as np
import pytest

from keyhole.attacks.microdata.reconstruct import RebuiltStatus, name_people, reconstruct
from keyhole.report.reconstruction import summarize_reconstruction
from keyhole.solve.integers.other_process import call_apart
from keyhole.solve.integers.search import find_shared_values
from keyhole.solve.integers.system import LinearRow, system_of_rows

KINDS = [(sex, age) for sex in "fm" for age in (30, 31, 32)]


def model(folder: Path, people: int, women: int, years: int) -> Path:
    """So many people, of whom so many are women, with so many years together; each is of one kind."""
    slots = [[f"C_x_{sex}_{i}_{age}" for sex, age in KINDS] for i in range(people)]
    lines = [f"slot{i}: {' + '.join(slot)} = 1" for i, slot in enumerate(slots)]
    names = [name for slot in slots for name in slot]
    lines.append(f"women: {' + '.join(n for n in names if '_f_' in n)} = {women}")
    lines.append(f"years: {' + '.join(f'{n[-2:]} {n}' for n in names)} = {years}")
    path = folder / "people.lp"
    path.write_text("Minimize\nobj: 0\nSubject To\n" + "\n".join(lines) + "\nBinary\n" + "\n".join(names) + "\nEnd\n")
    return path


@pytest.mark.parametrize("seed", range(6))
def test_people_as_enumeration_says(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    people = rng.randint(2, 5)
    drawn = [rng.choice(KINDS) for _ in range(people)]
    women, years = sum(sex == "f" for sex, _ in drawn), sum(age for _, age in drawn)
    found = reconstruct(model(tmp_path, people, women, years))
    tables = [
        Counter(table)
        for table in combinations_with_replacement(KINDS, people)
        if sum(sex == "f" for sex, _ in table) == women and sum(age for _, age in table) == years
    ]
    shared = tables[0]
    for table in tables:
        shared = shared & table
    assert found.people
    assert found.proved
    assert found.unique == (len(tables) == 1)
    listed = Counter(str(row["person"]) for row in found.common or ())
    assert listed == Counter(f"C_x_{sex}_{age}" for sex, age in shared.elements())
    assert len(found.rows) == people
    assert "people" in summarize_reconstruction(found) or "person" in summarize_reconstruction(found)


def test_numbers_of_variables_are_no_people() -> None:
    """x_0 and x_1 have roles of their own: no row may take them for one another."""
    own = system_of_rows([LinearRow((0, 1), (1, 2), 2, 2)], [0, 0], [1, 1])
    assert name_people(["x_0", "x_1"], own) is None
    alike = system_of_rows([LinearRow((0, 1), (1, 1), 1, 1)], [0, 0], [1, 1])
    assert name_people(["x_0", "x_1"], alike) == ("x", "x")
    assert name_people(["x_0", "x_1"], system_of_rows([], [0, 0], [1, 2])) is None
    assert name_people(["x_30", "x_31"], system_of_rows([], [0, 0], [1, 1])) is None


def test_a_search_that_ends_early_keeps_what_was_proved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from keyhole.attacks.microdata import reconstruct as rebuilding
    from keyhole.solve.integers.search import SharedValues

    file = tmp_path / "s.toml"
    file.write_text("[columns.age]\nmin = 0\nmax = 3\n[[statistics]]\ncount = 2\n")
    ended = SharedValues(rebuilding.SolverStatus.FEASIBLE, np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    monkeypatch.setattr(rebuilding, "call_until_stopped", lambda *_: (ended, True))
    found = reconstruct(file)
    assert found.status is RebuiltStatus.STOPPED_ROWS
    assert found.common == ({"age": 0},)
    assert summarize_reconstruction(found).endswith("Proved by then: 1 row is in every set.")


@pytest.mark.parametrize("seed", range(10))
def test_what_is_proved_in_parts_is_the_least_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, size=(2, 12))
    truth = rng.integers(0, 3, size=12)
    made = [LinearRow(tuple(range(12)), tuple(map(int, r)), int(r @ truth), int(r @ truth)) for r in rows]
    made += [
        LinearRow((k, k + 1), (1, 1), int(truth[k] + truth[k + 1]), int(truth[k] + truth[k + 1])) for k in range(11)
    ]
    found = call_apart(find_shared_values, system_of_rows(made, [0] * 12, [3] * 12), 30)
    least = np.full(12, 9)
    for first in range(4):
        z = [first]
        for k in range(11):
            z.append(int(truth[k] + truth[k + 1]) - z[-1])
        if all(0 <= v <= 3 for v in z) and all(int(r @ np.array(z)) == int(r @ truth) for r in rows):
            least = np.minimum(least, z)
    assert found.common is not None
    assert found.common.tolist() == least.tolist()
