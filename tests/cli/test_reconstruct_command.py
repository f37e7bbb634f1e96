"""`keyhole reconstruct` as people call it: text, JSON, faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.commands import call_command

TWO = """
[columns.age]
min = 0
max = 9
[columns.sex]
values = ["F", "M"]
[[statistics]]
count = 2
sum = { age = 7 }
[[statistics]]
where = "sex = 'F'"
count = 1
max = { age = 5 }
"""


def test_rows_that_are_the_only_ones(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO)
    found = call_command("reconstruct", str(file))
    assert found.exit_code == 0
    assert found.output.startswith("The 2 rows below are the only ones that give these statistics")
    assert "  2    M\n  5    F\n" in found.output
    data = json.loads(call_command("reconstruct", str(file), "--format", "json").output)
    assert (data["unique"], data["status"], data["common"]) == (True, "proved", data["rows"])
    assert data["rows"] == [{"age": 2, "sex": "M"}, {"age": 5, "sex": "F"}]


def test_a_page_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO.replace("sum = { age = 7 }", "sum = { age = [7, 8] }"))
    page = call_command("reconstruct", str(file), "--format", "html").output
    assert "1 row is in all of them" in page
    assert "In every set of rows with these statistics" in page
    assert "<td>F</td>" in page


def test_rows_that_are_not_the_only_ones(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO.replace("sum = { age = 7 }", "sum = { age = [7, 8] }"))
    found = call_command("reconstruct", str(file))
    assert "Several sets of 2 rows give these statistics; 1 row is in all of them" in found.output
    data = json.loads(call_command("reconstruct", str(file), "--format", "json").output)
    assert (data["unique"], data["common"]) == (False, [{"age": 5, "sex": "F"}])


def test_faults_end_with_2(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO.replace("count = 1", "count = 3"))
    found = call_command("reconstruct", str(file))
    assert found.exit_code == 2
    assert "no rows give these 2 statements" in " ".join(found.output.split())
    for given, message in ((["a.toml", "b.lp"], "name one .toml"), (["a.sql"], "what is it?"), (["a.csv"], "--value")):
        found = call_command("reconstruct", *given)
        assert (found.exit_code, message in " ".join(found.output.split())) == (2, True)


def test_it_runs_beside_highspy(tmp_path: Path) -> None:
    """OR-tools and highspy cannot be loaded in one process."""
    file = tmp_path / "two.toml"
    file.write_text(TWO)
    script = tmp_path / "both.py"
    script.write_text(
        "import sys\nfrom keyhole.attacks.microdata.reconstruct import reconstruct\n"
        "print(reconstruct(sys.argv[1]).unique, 'ortools' in sys.modules)\nimport highspy\nhighspy.Highs()\n"
    )
    ended = subprocess.run([sys.executable, str(script), str(file)], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["True", "False"], ended.stderr
