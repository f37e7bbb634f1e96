"""Where answers are private, loading is total: an odd value is rounded or cut off, and changes nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyhole.config import Config
from keyhole.datasets.load import Reading, read

ODD = ["9.7", "1e30", "-1e400", "1" * 44, "9.123456789123456789", "nan", "inf", "x", "", "1e-3", "+7.000", "-0"]
SETTINGS = '[columns]\nid = ["name"]\n[columns.private.pay]\nmin = 0\nmax = {top}\nstep = {step}\n'


def held(folder: Path, values: list[str], top: str, step: str) -> tuple[str, list[str | None]]:
    """The type of the column, and each value as text."""
    path = folder / "t.csv"
    path.write_text("name,pay\n" + "".join(f"p{i},{v}\n" for i, v in enumerate(values)), encoding="utf-8")
    roles = Config.parse(SETTINGS.format(top=top, step=step)).columns
    loaded = read(path, roles, Reading(declared=True, guarded=True))
    rows = loaded.secrets.execute("SELECT typeof(pay), pay::VARCHAR FROM secrets").fetchall()
    return rows[0][0], [row[1] for row in rows]


@pytest.mark.parametrize(("top", "step", "others"), [("49", "1", ["3", "40"]), ("4.9", "0.1", ["0.35", "4.05"])])
def test_an_odd_value_changes_nobody_elses(tmp_path: Path, top: str, step: str, others: list[str]) -> None:
    plain = held(tmp_path, [*others, "1"], top, step)
    for odd in ODD:
        kind, found = held(tmp_path, [*others, odd], top, step)
        assert (kind, found[:2]) == (plain[0], plain[1][:2]), odd


def test_numbers_are_rounded_or_cut_off_and_the_rest_is_null(tmp_path: Path) -> None:
    _, found = held(tmp_path, ODD, "49", "1")
    far = str(10**18)
    assert found == ["10", far, None, far, "9", None, None, None, None, "0", "7", "0"]
