"""What somebody who asks privately reads: a price in his budget's unit, a bar in the answer's unit, nothing impossible;
and none of it depends on the data but the noisy numbers.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from keyhole.api.session import open_session
from keyhole.basis.cells.possible_range import PossibleRange
from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import settings
from keyhole.defence.tables.margins import SourceMargins
from keyhole.report.replies import describe_reply, render_reply
from keyhole.sessions.private import Private
from keyhole.sessions.reply import Reply

N = 100_000
SETTINGS = """
[columns]
id = ["name"]
[columns.private.pay]
min = 18000
max = 60000
step = 10
[columns.public.dept]
values = ["a", "b", "c"]
[columns.public.age]
min = 18
max = 97
width = 10
[budget]
epsilon = 1.0
delta = {delta}
"""


def staff(n: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"p{k}" for k in range(n)],
            "dept": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
            "age": rng.integers(18, 98, n),
            "pay": 18_000 + 10 * rng.integers(0, 4_200, n),
        }
    )


def questions(seed: int, many: int) -> list[str]:
    rng = random.Random(seed)
    asked = []
    for _ in range(many):
        what = rng.choice(("COUNT(*)", "SUM(pay)", "AVG(pay)"))
        where = rng.choice(("", f" WHERE dept = '{rng.choice('abc')}'", f" WHERE age < {rng.randrange(20, 95)}"))
        group = rng.choice(("", "", " GROUP BY dept"))
        keys = "dept, " if group else ""
        asked.append(f"SELECT {keys}{what} FROM staff{where}{group}")
    return asked


def ask_all(table: pa.Table, book: Path, asked: list[str], delta: str, *, dry_run: bool = False) -> list[Reply]:
    config = Config.parse(SETTINGS.format(delta=delta))
    given = settings(config, data=table, table="staff")
    with open_session(given, config, BudgetArguments(book=book), dry_run=dry_run) as session:
        assert isinstance(session.policy, Private)
        return [session.ask(text) for text in asked]


POSSIBLE = {"COUNT(*)": (0, N), "SUM(pay)": (0, N * 60_000), "AVG(pay)": (18_000, 60_000)}


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_no_reply_is_impossible(tmp_path: Path, delta: str) -> None:
    asked = questions(3, 30)
    replies = ask_all(staff(N), tmp_path / "b.keyhole", asked, delta)
    answered = [r for r in replies if r.answered]
    assert len(answered) >= 10
    left = None
    for reply in answered:
        document = describe_reply(reply, n=N)
        lo, hi = next(ends for word, ends in POSSIBLE.items() if word in reply.sql)
        values = [document.value] if not reply.noisy.grouped else [v for g in document.groups for v in g.values]  # type: ignore[union-attr]
        assert all(v is None or lo <= v <= hi for v in values), reply.sql  # type: ignore[operator]
        bars = [document.error] if not reply.noisy.grouped else [e for g in document.groups for e in g.error]  # type: ignore[union-attr]
        assert all(b is None or b <= hi - lo for b in bars), reply.sql  # type: ignore[operator]
        assert left is None or document.left <= left + 1e-12  # type: ignore[operator]
        left = document.left


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_dry_run_says_what_is_then_charged(tmp_path: Path, delta: str) -> None:
    """Question by question, with all that was bought by then."""
    asked, table = questions(4, 30), staff(N)
    dry = ask_all(table, tmp_path / "b.keyhole", asked, delta, dry_run=True)
    real = ask_all(table, tmp_path / "b.keyhole", asked, delta)
    for said, done in zip(dry, real, strict=True):
        assert said.answered == done.answered, (said.sql, said.reason, done.reason)
        if said.price is not None and done.noisy is not None:
            assert said.price.cost == done.noisy.cost, said.sql
    assert sum(1 for r in real if r.noisy is not None and r.noisy.cost) >= 5


def test_a_dry_run_names_the_error_to_expect(tmp_path: Path) -> None:
    """Of sums it is the bar of the answer; of averages it is for a stated group size, and noise decides which it is."""
    asked, table = questions(6, 20), staff(N)
    dry = ask_all(table, tmp_path / "b.keyhole", asked, "1e-6", dry_run=True)
    real = ask_all(table, tmp_path / "b.keyhole", asked, "1e-6")
    seen = set()
    for said, done in zip(dry, real, strict=True):
        if not said.answered or said.price is None or done.noisy is None:
            continue
        ((bar,),) = ({e.bar for e in said.price.bars},)
        worst = max((e.bar for _, made in done.noisy.groups for e in made if e.bar is not None), default=None)
        if bar is None or worst is None:
            continue
        seen.add("AVG" in said.sql)
        near = 3 if "AVG" in said.sql else 1.01
        assert float(worst) / near <= bar <= float(worst) * near or bar == worst == 0, said.sql
    assert seen == {True, False}


def test_a_dry_run_reads_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("a true table was read")

    monkeypatch.setattr(SourceMargins, "tables", read)
    monkeypatch.setattr(SourceMargins, "points", read)
    asked = [*questions(7, 10), "SELECT MEDIAN(pay) FROM staff", "SELECT COUNT(DISTINCT dept) FROM staff"]
    replies = ask_all(staff(2_000), tmp_path / "b.keyhole", asked, "1e-6", dry_run=True)
    assert any(r.answered for r in replies)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_prices_and_refusals_are_those_of_neighbouring_data(tmp_path: Path, delta: str) -> None:
    """One person has other values: what is said beforehand, and what is refused, is word for word the same."""
    asked = [
        *questions(5, 12),
        "SELECT MAX(pay) FROM staff WHERE age = 30",
        "SELECT AVG(pay) FROM staff WHERE age < 19",
    ]
    one = staff(400)
    pay = one["pay"].to_pylist()
    pay[7] = 60_000 if pay[7] != 60_000 else 18_000
    other = one.set_column(3, "pay", pa.array(pay))
    said = []
    for k, table in enumerate((one, other)):
        replies = ask_all(table, tmp_path / f"{k}.keyhole", asked, delta, dry_run=True)
        said.append([(str(r.outcome), r.reason, None if r.price is None else r.price.cost) for r in replies])
    assert said[0] == said[1]
    assert {outcome for outcome, _, _ in said[0]} == {"allow", "refused"}


def test_a_reply_names_the_price_as_a_share(tmp_path: Path) -> None:
    config = Config.parse(SETTINGS.format(delta="0"))
    given = settings(config, data=staff(N), table="staff")
    with open_session(given, config, BudgetArguments(book=tmp_path / "b.keyhole")) as session:
        reply = session.ask("SELECT COUNT(*) FROM staff WHERE dept = 'a'")
        assert isinstance(session.policy, Private)
        lines = "\n".join(render_reply(reply, budget=session.policy.budget(None)))
    assert "costs 10 % of your budget (epsilon 0.1); 9 such questions left" in lines
    assert repr(reply).endswith("; cost 0.1, left 0.9>")
    assert " ± " in repr(reply)
    assert "of the possible range (0 to 100000)" in lines


def test_clamping_is_sound() -> None:
    """The truth is in the range and near the raw number, so it is within the shown bar of the shown number."""
    rng = random.Random(2)
    for _ in range(500):
        lo, width = rng.randrange(-50, 50), rng.randrange(1, 80)
        possible = PossibleRange(*map(Fraction, (lo, lo + width)))
        truth, bar = lo + rng.randrange(width + 1), rng.randrange(1, 200)
        raw = truth + rng.randrange(-bar, bar + 1)
        value, reach = possible.clamp(Fraction(raw), Fraction(bar))
        assert lo <= value <= lo + width
        assert abs(value - truth) <= reach <= width
