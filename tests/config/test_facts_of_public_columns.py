"""A fact says of whom it speaks by id and public columns: private ones are refused before anything is judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.errors import ConfigError
from keyhole.gather import gather, transcribe
from keyhole.model.prior import Fact, Knowledge

STAFF = pa.table(
    {
        "name": ["ann", "bob", "cat", "dan"],
        "dept": ["A", "A", "B", "B"],
        "pay": [50, 60, 70, 80],
        "note": ["u", "v", "w", "x"],
    }
)
COLUMNS = '[columns]\nid = ["name"]\nhidden = ["note"]\n[columns.private.pay]\nkind = "integer"\nmin = 0\nmax = 100\n'
PRIVATE = [
    "dept = 'B' AND pay < 75",
    "pay < 65",
    "name = 'ann' AND pay > 40",
    '"PAY" < 65',
    "t.Pay < 65",
    "NOT (dept = 'A' OR (name = 'cat' AND abs(pay) BETWEEN 1 AND 2))",
    "dept = 'A' AND pay IS NOT NULL",
    "pay = pay",
    "CASE WHEN dept = 'A' THEN pay ELSE 0 END > 3",
    "name IN (SELECT name FROM t WHERE pay > 60)",
    "note = 'u'",
    "upper(\"Note\") = 'U'",
]


def told(where: str) -> Config:
    return Config.parse(f"{COLUMNS}[[facts]]\nwhere = '''{where}'''\nmax = 75\n")


@pytest.mark.parametrize("where", PRIVATE)
def test_a_private_or_hidden_column_is_refused_however_it_is_spelt(where: str) -> None:
    column, role = ("note", "hidden") if "note" in where.lower() else ("pay", "private")
    with pytest.raises(ConfigError, match=f"^fact 1: where names {column}, which is {role}: .* public columns only"):
        keyhole.audit(["SELECT SUM(pay) FROM t"], data=STAFF, config=told(where))


@pytest.mark.parametrize("use", list(Use))
def test_every_use_of_a_table_refuses_it_whatever_the_values_are(use: Use) -> None:
    said = set()
    for pay in ([50, 60, 70, 80], [1, 2, 3, 4]):
        with pytest.raises(ConfigError) as caught:
            open_table(settings(told(PRIVATE[0]), data=STAFF.set_column(2, "pay", pa.array(pay))), use)
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize(
    "command",
    [
        lambda path, config: keyhole.audit(path, config=config),
        lambda path, config: keyhole.watch(config=config),
        lambda path, config: keyhole.attack(path, config=config),
    ],
    ids=["audit", "watch", "attack"],
)
def test_the_settings_file_is_refused_too(command: Callable[[Path, Path], object], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,dept,pay\nann,A,50\nbob,B,60\n")
    log, config = tmp_path / "log.jsonl", tmp_path / "keyhole.toml"
    log.write_text('{"sql": "SELECT SUM(pay) FROM t", "answer": 110}\n')
    config.write_text(
        '[source]\ndata = "t.csv"\n[columns]\nid = ["name"]\n[columns.private.pay]\n'
        '[[facts]]\nwhere = "pay < 55"\nmax = 55\n'
    )
    with pytest.raises(ConfigError, match="where names pay, which is private"):
        command(log, config)


def test_knowledge_that_was_made_in_python_is_refused_where_it_is_read() -> None:
    opened = open_table(settings(Config.parse(COLUMNS), data=STAFF), Use.AUDIT)
    knowledge = Knowledge(facts=(Fact("dept = 'B' AND pay < 75", "pay"),))
    log = transcribe([], opened.roster)
    with pytest.raises(ConfigError, match="where names pay, which is private"):
        gather(log, opened.roster, knowledge)


def test_values_functions_and_tables_of_the_same_name_are_no_private_column() -> None:
    pay = pa.table({"name": ["ann", "bob"], "dept": ["pay", "B"], "pay": [50, 60], "note": ["u", "v"]})
    fact = "[[facts]]\nwhere = '''pay.dept = 'pay' AND name <> 'note' '''\nequals = 50\n"
    found = keyhole.audit(["SELECT SUM(pay) FROM pay"], data=pay, table="pay", config=Config.parse(COLUMNS + fact))
    assert {f.who: f.value for f in found.exposed} == {"bob": 60}
