"""Versions of the data: a change is a new version, and the same question before and after one is never answered."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from session_world import (
    COUNT,
    CSV,
    DECLARED,
    DEPT_A,
    DEPT_B,
    EXACT,
    NAMES,
    NOT_ANN,
    PAY,
    TOML,
    WHOLE,
    audited,
    call,
    listed,
    private,
    staff,
    told,
    written,
)  # fmt: skip
from tests.support.settings import write_into

import keyhole
from keyhole.auditing.online.online import RISK
from keyhole.config import Config
from keyhole.errors import BookError, ConfigError, PrivacyParameterError

RAISED = (10, 27, 30, 40, 50)  # Bob's


def outcome(session: object, sql: str) -> str:
    return str(session.ask(sql).outcome)  # type: ignore[attr-defined]


def test_changed_values_under_the_same_version_are_refused_and_it_is_said_what_to_do(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        assert session.ask(WHOLE).answered
    before = listed(tmp_path)
    for pay in (RAISED, (20, 10, 30, 40, 50)):  # a raise; an exchange
        for version in ("1", None):
            for dry_run in (False, True):
                with pytest.raises(
                    BookError, match=r"private values of 'pay' changed.*a change of data is a new ve"
                ) as no:
                    audited(tmp_path, staff(pay), version=version, dry_run=dry_run)
                said = str(no.value).replace(str(tmp_path), "")  # a folder may have any number in its name
                assert not any(word in said for word in ("27", "Bob", "Ann"))
    assert listed(tmp_path) == before
    audited(tmp_path, version=None).close()


@pytest.mark.parametrize("insiders", [0, 1])
def test_the_same_sum_in_two_epochs_is_denied(tmp_path: Path, insiders: int) -> None:
    """W1 of the specification: the two answers differ by Bob's raise."""
    columns = f"[online]\ninsiders = {insiders}"
    with audited(tmp_path, columns=columns) as session:
        assert session.ask(WHOLE).answered
        assert str(session.ask(WHOLE).exact) == "(({}, (Decimal('150'),)),)"
    with audited(tmp_path, staff(RAISED), version="2", columns=columns) as session:
        said = session.ask(WHOLE)
        assert (str(said.outcome), said.exact) == ("deny", None)
        assert "answered about an earlier version of the data" in said.reason
        assert "ask for a private answer" in said.reason
        assert session.book.state.epoch == 2
    with audited(tmp_path, staff(), version="3", columns=columns) as session:  # nobody's changed: it is denied as well
        assert outcome(session, WHOLE) == "deny"
        if insiders == 0:
            assert session.ask(DEPT_B).answered  # this was never told
            assert outcome(session, DEPT_A) == "deny"


def test_watch_denies_it_too(tmp_path: Path) -> None:
    files = {"staff.csv": CSV, "keyhole.toml": EXACT}
    written(tmp_path, files)
    config = ("-c", str(tmp_path / "keyhole.toml"))
    assert call("ask", "--decide-only", *config, stdin=WHOLE)[:2] == (0, f"Q1 allow: nobody is exposed; {RISK}\n")
    (tmp_path / "staff.csv").write_text(CSV.replace("Bob,a,1,20", "Bob,a,1,27"), encoding="utf-8")
    code, out, err = call("ask", "--decide-only", *config, stdin=WHOLE)
    assert (code, out, "private values of 'pay' changed" in err) == (2, "", True)
    written(tmp_path, {"keyhole.toml": files["keyhole.toml"].replace("'1'", "'2'")})
    code, out, _ = call("ask", "--decide-only", *config, stdin=WHOLE)
    assert (code, out[:7]) == (3, "Q2 deny")


def test_an_earlier_version_is_not_answered_from_again(tmp_path: Path) -> None:
    for version, pay in (("1", PAY), ("2", RAISED)):
        audited(tmp_path, staff(pay), version=version).close()
    for door in (audited, private):
        with pytest.raises(BookError, match=r"version '1' is an earlier one.*gone on to '2'"):
            door(tmp_path, staff(), version="1")


def test_a_public_log_of_changes_is_judged(tmp_path: Path) -> None:
    """Only Bob was written: what differs by his versions alone is denied, what he is not in goes on."""
    log = tmp_path / "written.csv"
    log.write_text("name,column\nBob,pay\n", encoding="utf-8")
    public = "changes = 'public'"
    with audited(tmp_path, more=public) as session:
        assert session.ask(WHOLE).answered
        assert session.ask(DEPT_B).answered
    with pytest.raises(ConfigError, match="list them in a CSV"):
        audited(tmp_path, staff(RAISED), public, version="2")
    with audited(tmp_path, staff(RAISED), f"{public}\nwritten = '{log}'", version="2") as session:
        assert outcome(session, WHOLE) == "deny"  # the raise
        assert outcome(session, DEPT_A) == "deny"
        again = session.ask(DEPT_B)  # nobody in it was written: it follows from what was told
        assert (str(again.outcome), str(again.exact)) == ("answered", "(({}, (Decimal('120'),)),)")
    log.write_text("name,pay\nBob,1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="each line has name, column"):
        audited(tmp_path, staff((10, 28, 30, 40, 50)), f"{public}\nwritten = '{log}'", version="3")


def test_nobody_written_is_said_by_the_header_alone(tmp_path: Path) -> None:
    log = tmp_path / "written.csv"
    log.write_text("name,column\n", encoding="utf-8")
    public = f"changes = 'public'\nwritten = '{log}'"
    with audited(tmp_path, more=public) as session:
        assert session.ask(WHOLE).answered
    moved = pa.table({**staff().to_pydict(), "dept": ["b", "b", "a", "a", "a"]})
    with audited(tmp_path, moved, public, version="2") as session:
        assert session.ask(WHOLE).answered
        assert outcome(session, NOT_ANN) == "deny"


def test_who_comes_and_goes_is_matched_by_the_id(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        assert session.ask(WHOLE).answered
    with audited(tmp_path, staff((10, 20, 30, 40, 50, 60), (*NAMES, "Fay")), version="2") as session:
        assert outcome(session, f"{WHOLE} WHERE name <> 'Fay'") == "deny"
        assert outcome(session, WHOLE) == "deny"  # with the sum of then it tells hers


def test_no_id_in_common_is_another_population(tmp_path: Path) -> None:
    audited(tmp_path).close()
    with pytest.raises(BookError, match="kept for other people: no id of this table is in it"):
        audited(tmp_path, staff(PAY, ("Fay", "Gus", "Hal", "Ida", "Jon")), version="2")
    with audited(tmp_path) as session:
        assert session.book.state.epoch == 1  # nothing was begun


def test_another_population_is_refused_by_name(tmp_path: Path) -> None:
    audited(tmp_path, more="population = 'staff of 2026'").close()
    for dry_run in (False, True):
        with pytest.raises(BookError, match="the population 'staff of 2026', and the settings say 'others'"):
            audited(tmp_path, more="population = 'others'", dry_run=dry_run)
    audited(tmp_path).close()  # who does not say goes on


def test_without_an_id_there_is_one_epoch(tmp_path: Path) -> None:
    nameless = staff().drop_columns(["name"])
    with keyhole.session(told(tmp_path), data=nameless, private="pay:0..", exact_above=1) as session:
        assert session.ask(WHOLE).answered
    with keyhole.session(told(tmp_path), data=nameless, private="pay:0..", exact_above=1) as session:
        assert outcome(session, f"{WHOLE} WHERE dept = 'b' OR level = 1") == "deny"
    with pytest.raises(BookError, match="matched across versions by their id"):
        keyhole.session(told(tmp_path, version="2"), data=nameless, private="pay:0..", exact_above=1)


def test_the_order_and_the_spelling_of_values_do_not_matter(tmp_path: Path) -> None:
    audited(tmp_path).close()
    audited(tmp_path, staff().take([4, 2, 0, 1, 3])).close()
    audited(tmp_path, staff([float(pay) for pay in PAY])).close()
    with pytest.raises(BookError, match="people and public values"):
        audited(tmp_path, staff([10, None, 30, 40, 50]))  # who has no value is public


def test_the_key_is_its_owners_and_is_not_made_twice(tmp_path: Path) -> None:
    key = tmp_path / "book.keyhole.key"
    with audited(tmp_path) as session:
        session.ask(WHOLE)
    kept = key.read_bytes()
    assert (key.stat().st_mode & 0o777, len(kept)) == (0o600, 32)
    link = tmp_path / "elsewhere"
    link.mkdir()
    (link / "book.keyhole").symlink_to(tmp_path / "book.keyhole")
    audited(link).close()
    assert [p.name for p in link.iterdir()] == ["book.keyhole"]
    key.unlink()
    for version in ("1", "2", None):
        with pytest.raises(BookError, match=r"key .* is missing.*restore it"):
            audited(tmp_path, version=version)
    assert not key.exists()
    key.write_bytes(kept[:5])
    with pytest.raises(ConfigError, match="5 bytes"):
        audited(tmp_path)
    key.write_bytes(bytes(32))
    with pytest.raises(BookError, match="changed"):
        audited(tmp_path)
    key.write_bytes(kept)
    audited(tmp_path).close()


def test_private_answers_go_on_over_versions_and_what_was_spent_stays_spent(tmp_path: Path) -> None:
    with private(tmp_path) as session:
        first = session.ask(COUNT)
    for dry_run in (False, True):
        with pytest.raises(BookError, match=r"the whole table changed.*What was spent stays spent"):
            private(tmp_path, staff(RAISED), dry_run=dry_run)
    with private(tmp_path, staff(RAISED), version="2") as session:
        again = session.ask(COUNT)
        assert (first.noisy is None, again.noisy is None) == (False, False)
        assert again.noisy is not None
        assert (again.noisy.cost, again.noisy.left) == (Fraction(1, 10), Fraction(8, 10))  # about other data: paid anew


def test_unit_neighbours_domain_and_caps_between_two_questions(tmp_path: Path) -> None:
    with private(tmp_path) as session:
        session.ask(COUNT)
    for budget, why in (
        ("epsilon = 1\nunit = 'rho'", "counts another unit"),
        ("epsilon = 1\nneighbours = 'add-remove'", "other neighbours"),
    ):
        for dry_run in (False, True):
            with pytest.raises(PrivacyParameterError, match=why):
                private(tmp_path, budget=budget, dry_run=dry_run)
    config = told(tmp_path, columns=DECLARED.replace('["a", "b"]', '["a", "b", "c"]') + "[budget]\nepsilon = 1")
    with keyhole.session(config, data=staff(), id="name", anyway=True) as session:  # other cells: another question
        made = session.ask(COUNT)
        assert made.noisy is not None
        assert made.noisy.cost == Fraction(1, 10)
    with private(tmp_path, budget="epsilon = 0.15") as session:
        lowered = session.ask("SELECT COUNT(*) FROM staff WHERE dept = 'b'")
        assert (str(lowered.outcome), "nothing is left" in lowered.reason) == ("refused", True)
        assert session.ask(COUNT).answered  # told before
    with private(tmp_path, budget="epsilon = 2") as session:
        raised = session.ask("SELECT COUNT(*) FROM staff WHERE dept = 'b'")
        assert raised.noisy is not None
        assert (raised.noisy.cost, raised.noisy.left) == (Fraction(2, 10), Fraction(16, 10))


def test_a_session_stops_when_the_book_goes_on_to_another_version(tmp_path: Path) -> None:
    with private(tmp_path) as noisy, audited(tmp_path) as exact:
        assert noisy.ask(COUNT).answered
        assert exact.ask(WHOLE).answered
        audited(tmp_path, staff(RAISED), version="2").close()
        for session, sql in ((noisy, COUNT), (exact, WHOLE)):
            with pytest.raises(BookError, match="gone on to another version"):
                session.ask(sql)


def test_one_population_has_one_book_however_it_is_named(tmp_path: Path) -> None:
    named = Config.parse(f"[book]\npath = '{tmp_path}/b.keyhole'")
    keyhole.session(named, data=staff(), private="pay:0..", id="name", exact_above=1).close()
    with pytest.raises(ConfigError, match="one population has one book"):
        keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, config=named, book=tmp_path / "c.keyhole")
    (tmp_path / "link").symlink_to(tmp_path / "b.keyhole")
    keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, config=named, book=tmp_path / "link").close()
    assert {p.name for p in tmp_path.iterdir()} == {"b.keyhole", "b.keyhole.key", "link"}


def test_a_book_in_memory_is_refused_everywhere(tmp_path: Path) -> None:
    files = {
        "staff.csv": CSV,
        "keyhole.toml": f"{TOML}{DECLARED}",
        "named.toml": f"{TOML}{DECLARED}[book]\npath = ':memory:'",
    }
    written(tmp_path, files)
    named, plain = str(tmp_path / "named.toml"), str(tmp_path / "keyhole.toml")
    (tmp_path / "q.sql").write_text(COUNT)
    paid = str(write_into(tmp_path / "keyhole.toml", ("--epsilon", "1"))[0])
    calls = (
        ("ask", "-c", named, WHOLE),
        ("ask", "--decide-only", "-c", named),
        ("ask", "-f", str(tmp_path / "q.sql"), "-c", named),
        ("ask", "--decide-only", "-c", plain, "--book", ":memory:"),
        ("ask", "-f", str(tmp_path / "q.sql"), "-c", paid, "--book", ":memory:"),
    )
    for words in calls:
        code, out, err = call(*words, stdin=WHOLE)
        assert (code, out) == (2, ""), words
        assert "would forget" in err
    for made in (
        lambda: keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, book=":memory:"),
        lambda: keyhole.ask([COUNT], data=staff(), id="name", config=plain, epsilon=1, book=":memory:"),
    ):
        with pytest.raises(ConfigError, match="would forget"):
            made()
    assert set(listed(tmp_path)) == {*files, "q.sql", "moved.toml"}
