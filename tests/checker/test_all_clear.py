"""The all-clear, replayed: true ones hold, and of many forged ones none is accepted."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checker_world import Data, load

import keyhole
from keyhole.checker import replay
from keyhole.checker.replay import Replay
from keyhole.report.documents.json_text import dumps

PEOPLE = 66  # too many for tables that the checker finds by itself
SETTINGS: dict[str, Any] = {"private": ["pay", "kids:0..9:1"], "id": "name"}
DECLARED: dict[str, dict[str, Any]] = {"pay": {}, "kids": {"min": 0, "max": 9, "step": 1}}
CALM = (
    "SELECT team, SUM(pay), COUNT(*) FROM staff GROUP BY team",
    "SELECT site, AVG(pay), MAX(kids) FROM staff GROUP BY site",
    "SELECT SUM(kids) FROM staff WHERE age < 40",
)
TELLING = (*CALM, "SELECT SUM(pay), SUM(kids) FROM staff WHERE name <> 'p7'", "SELECT SUM(pay), SUM(kids) FROM staff")


def values_of(rng: random.Random) -> list[tuple[int, int]]:
    """The pay and the kids of everybody."""
    drawn = [rng.choice((20, 25, 30, 45, 60, 61, 80)) if i % 3 else rng.randint(20, 90) for i in range(PEOPLE)]
    return [(pay, rng.randint(0, 9)) for pay in drawn]


VALUES = values_of(random.Random(5))


def write_staff(values: list[tuple[int, int]], path: Path) -> None:
    lines = ["name,team,site,age,pay,kids"]
    for i, (pay, kids) in enumerate(values):
        lines.append(f"p{i},{'abc'[i % 3]},{'xy'[i // 3 % 2]},{30 + i // 6 % 2 * 20},{pay},{kids}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def judge(log: tuple[str, ...], data: Path, **more: Any) -> Data:
    return load(keyhole.audit(list(log), data=data, **(SETTINGS | more)).dumps())


def write_log(log: tuple[str, ...], path: Path) -> Path:
    path.write_text("".join(json.dumps({"sql": sql}) + "\n" for sql in log), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("staff")
    write_staff(VALUES, made / "staff.csv")
    write_log(CALM, made / "calm.jsonl")
    write_log(TELLING, made / "telling.jsonl")
    return made


@pytest.fixture(scope="module")
def calm(folder: Path) -> Data:
    return judge(CALM, folder / "staff.csv")


@pytest.fixture(scope="module")
def telling(folder: Path) -> Data:
    return judge(TELLING, folder / "staff.csv")


def replayed(verdict: Data, folder: Path, log: str = "calm.jsonl") -> Replay:
    return replay(dumps(verdict), folder / "staff.csv", log=folder / log, declared=DECLARED)


def test_an_all_clear_is_replayed_whole(folder: Path, calm: Data) -> None:
    assert calm["complete"] is True
    assert calm["exposed"] == []
    assert calm["witness"]["whole"] is True
    found = replayed(calm, folder)
    assert found.exit_code == 0, found.cleared
    assert [(each.shown, each.of) for each in found.cleared] == [(2 * PEOPLE, 2 * PEOPLE)]


@pytest.mark.parametrize("more", [{"within": "0.5"}, {"among": 1}], ids=["within", "among"])
def test_an_all_clear_of_more_than_a_second_value_is_not_replayed(folder: Path, more: dict[str, Any]) -> None:
    """A second table shows a second value; that the two are far apart, or that there are more, it does not."""
    verdict = judge(CALM[:1], folder / "staff.csv", private="pay:real", **more)
    assert verdict["complete"] is True
    assert "witness" not in verdict
    assert replay(dumps(verdict), folder / "staff.csv", declared={"pay": {"domain": "real"}}).exit_code == 3


def test_who_is_listed_needs_no_second_table(folder: Path, telling: Data) -> None:
    assert {e["record"]["name"] for e in telling["exposed"]} == {"p7"}
    found = replayed(telling, folder, "telling.jsonl")
    assert found.exit_code == 0, (found.cleared, found.checked)
    assert [(each.shown, each.of) for each in found.cleared] == [(2 * PEOPLE - 2, 2 * PEOPLE - 2)]


def test_people_alone_in_their_class_move_along_vectors(tmp_path: Path) -> None:
    """Nobody has an equal in age x site; all are shown by vectors that keep them inside the assumed domain."""
    rng, data = random.Random(3), tmp_path / "t.csv"
    rows = [f"p{i},{i % 10},{i // 10},{rng.randint(0, 200) / 4}" for i in range(90)]
    data.write_text("\n".join(["name,a,b,pay", *rows, ""]), encoding="utf-8")
    log = ("SELECT a, SUM(pay) FROM t GROUP BY a", "SELECT b, SUM(pay) FROM t GROUP BY b")
    verdict = judge(log, data, private="pay")
    (part,) = verdict["witness"]["parts"]
    assert (verdict["complete"], part.get("classes", [])) == (True, [])
    assert len(part["vectors"]) > 10
    found = replay(dumps(verdict), data)
    assert found.exit_code == 0, found.cleared
    for vector in part["vectors"]:
        assert not vector.partition(":")[2].startswith("-")  # its sign says nothing
    left = copy.deepcopy(verdict)
    left["witness"]["parts"][0]["vectors"] = part["vectors"][:3]
    assert replay(dumps(left), data).exit_code == 1


def test_a_sample_ends_in_three_and_its_seed_repeats_it(
    folder: Path, calm: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyhole.checker.all_clear.MOST_RUNS", 3)
    found = replayed(calm, folder)
    (cleared,) = found.cleared
    assert found.exit_code == 3
    assert cleared.seed is not None
    assert 0 < cleared.shown < cleared.of
    assert f"{cleared.shown} of {cleared.of} values replayed, none failed: fewer than" in str(cleared)
    again = replay(dumps(calm), folder / "staff.csv", declared=DECLARED, seed=cleared.seed)
    assert [str(each) for each in again.cleared] == [str(cleared)]


def test_no_value_is_in_a_witness(folder: Path, calm: Data) -> None:
    """The same people with other values of the same kind leave the same classes."""
    other = folder / "other"
    other.mkdir(exist_ok=True)
    write_staff(VALUES[::-1], other / "staff.csv")
    assert judge(CALM, other / "staff.csv")["witness"] == calm["witness"]


def test_without_a_witness_an_all_clear_is_not_replayed(folder: Path, calm: Data) -> None:
    bare = {name: value for name, value in calm.items() if name != "witness"}
    assert replayed(bare, folder).exit_code == 3


# --- forged ones ------------------------------------------------------------------------------------------------------


def classes_of(verdict: Data) -> list[list[str]]:
    return [part["classes"] for part in verdict["witness"]["parts"]]


def summed(verdict: Data) -> list[str]:
    """The classes of pay, of which sums were asked alone: of kids another MAX is hard to get."""
    (part,) = (part for part in verdict["witness"]["parts"] if part["columns"] == ["pay"])
    found: list[str] = part["classes"]
    return found


def words_of(text: str) -> list[int]:
    found: list[int] = []
    for word in text.split():
        low, _, high = word.partition("-")
        found.extend(range(int(low), int(high or low) + 1))
    return found


def differ(one: int, two: int) -> bool:
    return all(a != b for a, b in zip(VALUES[one - 1], VALUES[two - 1], strict=True))


def swapped(rng: random.Random, verdict: Data) -> None:
    """Somebody of one class stands in another, where people have other values."""
    classes = summed(verdict)
    one, two = rng.sample(range(len(classes)), 2)
    first, second = words_of(classes[one]), words_of(classes[two])
    pairs = [(a, b) for a in range(len(first)) for b in range(len(second)) if differ(first[a], second[b])]
    a, b = rng.choice(pairs)
    first[a], second[b] = second[b], first[a]
    classes[one], classes[two] = " ".join(map(str, first)), " ".join(map(str, second))


def merged(rng: random.Random, verdict: Data) -> None:
    """Two classes are one."""
    classes = summed(verdict)
    one, two = rng.sample(range(len(classes)), 2)
    classes[one] += " " + classes[two]
    del classes[two]


def left_out(rng: random.Random, verdict: Data) -> None:
    """A class is not there, and its people are shown by nothing."""
    classes = rng.choice(classes_of(verdict))
    del classes[rng.randrange(len(classes))]


def alone(rng: random.Random, verdict: Data) -> None:
    """A class has but one of its people."""
    classes = rng.choice(classes_of(verdict))
    at = rng.randrange(len(classes))
    classes[at] = str(rng.choice(words_of(classes[at])))


def no_column(rng: random.Random, verdict: Data) -> None:
    """A private column is shown by nothing."""
    parts = verdict["witness"]["parts"]
    del parts[rng.randrange(len(parts))]


def no_statement(rng: random.Random, verdict: Data) -> None:
    """A statement of the log is not there."""
    asked = verdict["witness"]["statements"]
    del asked[rng.randrange(len(asked))]


def another_statement(rng: random.Random, verdict: Data) -> None:
    """A statement of the log is another."""
    asked = rng.choice(verdict["witness"]["statements"])
    asked["sql"] = (
        asked["sql"].replace("staff", f"staff WHERE age > {rng.randint(0, 9)}", 1).replace("WHERE age < 40", "")
    )


def wider(rng: random.Random, verdict: Data) -> None:
    """More values are taken as possible than are declared, or assumed."""
    name = rng.choice(("pay", "kids"))
    verdict["witness"]["domains"][name] = {"min": -rng.randint(1, 99), "max": rng.randint(100, 999), "step": 1}


def narrower(rng: random.Random, verdict: Data) -> None:
    """Fewer values are taken as possible than are assumed."""
    verdict["witness"]["domains"]["pay"] = {"values": rng.sample(range(20, 90), 5)}


def beyond(rng: random.Random, verdict: Data) -> None:
    """Vectors that nobody has room for, or that no sum keeps, instead of classes."""
    for part in verdict["witness"]["parts"]:
        part["vectors"] = [f"{r}:{rng.choice((1, 200, 5000))} {r % PEOPLE + 1}:-1" for r in range(1, PEOPLE + 1, 2)]
        part["classes"] = []


FORGERIES: tuple[Callable[[random.Random, Data], None], ...] = (
    swapped,
    merged,
    left_out,
    alone,
    no_column,
    no_statement,
    another_statement,
    wider,
    narrower,
    beyond,
)


def forged(rng: random.Random, calm: Data, telling: Data) -> Iterator[tuple[str, Data, str]]:
    """How a verdict is forged, the verdict, and the log that it is held against."""
    for forge in FORGERIES:
        found = copy.deepcopy(calm)
        forge(rng, found)
        yield forge.__name__, found, "calm.jsonl"
    for change in (lambda *_: None, swapped, merged, beyond):  # an all-clear for a log that determines somebody
        found = copy.deepcopy(telling)
        for name in ("exposed", "by_assumption", "features", "groups"):
            found[name] = []
        found["intervals"] = [
            i | {"status": "open", "lo": i["prior"][0], "hi": i["prior"][1], "proof": []} for i in found["intervals"]
        ]
        found["intervals"] = [
            {k: v for k, v in i.items() if k in ("record", "column", "lo", "hi", "prior", "status", "proof")}
            for i in found["intervals"]
        ]
        change(rng, found)
        yield f"nobody is listed, {getattr(change, '__name__', '')}", found, "telling.jsonl"
        yield "a witness for another question", found | {"witness": copy.deepcopy(calm["witness"])}, "telling.jsonl"
        one = copy.deepcopy(found)
        one["witness"]["statements"] = copy.deepcopy(calm["witness"]["statements"])
        yield "without the statements that tell", one, "telling.jsonl"


def test_no_forged_all_clear_is_accepted(folder: Path, calm: Data, telling: Data) -> None:
    rng, tried, accepted = random.Random(11), 0, list[str]()
    while tried < 200:
        for how, verdict, log in forged(rng, calm, telling):
            tried += 1
            if replayed(verdict, folder, log).exit_code == 0:
                accepted.append(how)
    assert not accepted, accepted


SMALL = {"pay": {"min": 0, "max": 50, "step": 1}}
FAR = {"pay": {"min": 1000, "max": 2000, "step": 1000}}
HIDDEN = [
    ("SELECT COUNT(*) FILTER (WHERE t::VARCHAR LIKE '%2000%') FROM t WHERE name = 'a'", FAR, (1000, 2000, 1000)),
    ("SELECT SUM(pay + 1e15) FROM t WHERE name = 'a'", SMALL, (10, 20, 30)),
    ("SELECT AVG(pay + 1000000000000000) FROM t WHERE name = 'a'", SMALL, (10, 20, 30)),
]


def forge_small(
    text: str, declared: dict[str, dict[str, Any]], held: tuple[int, ...], folder: Path, **more: Any
) -> Replay:
    """An all-clear over one statement that gives somebody away, made of that over a harmless one."""
    data = folder / "t.csv"
    data.write_text("name,pay\n" + "".join(f"{n},{v}\n" for n, v in zip("abc", held, strict=True)), encoding="utf-8")
    ends = "..".join(str(declared["pay"][end]) for end in ("min", "max"))
    private = [f"pay:{ends}:{declared['pay']['step']}"]
    verdict = load(keyhole.audit(["SELECT COUNT(*) FROM t"], data=data, private=private, id="name").dumps())
    verdict["witness"] |= {"statements": [{"sql": text}], "domains": declared, "parts": [], "whole": True}
    return replay(
        dumps(verdict | {"complete": True} | more), data, log=write_log((text,), folder / "l.jsonl"), declared=declared
    )


@pytest.mark.parametrize(("text", "declared", "held"), HIDDEN)
def test_a_value_behind_a_large_constant_or_a_whole_row_is_no_open_one(
    text: str, declared: dict[str, dict[str, Any]], held: tuple[int, ...], tmp_path: Path
) -> None:
    assert forge_small(text, declared, held, tmp_path).exit_code == 1


@pytest.mark.parametrize("cells", [[], 3])
def test_an_all_clear_that_says_it_is_of_published_tables_is_not_taken_on_trust(cells: Any, tmp_path: Path) -> None:
    found = forge_small("SELECT SUM(pay) FROM t WHERE name = 'a'", SMALL, (10, 20, 30), tmp_path, cells=cells)
    assert found.exit_code == 3
