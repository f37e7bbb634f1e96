"""Random logs, judged by Keyhole and by an independent twin: `python -m tests.fuzz.logs --first SEED --count N`.

A seed is one small table and several logs about it. Where all answers are affine in the private values, the twin knows
exactly who is exposed: nobody else may be claimed, each value must be the true one, and a verdict that calls itself
complete must have them all. Logs with private conditions are compared with every table that gives the same answers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from typing import Any

from tests.fuzz.soak import FalseVerdict, run
from tests.fuzz.statements import Made, log
from tests.fuzz.twin import Engine, EveryTable, Failed, LinearTwin, Row, RowSpace
from tests.fuzz.world import Unknown, World, make_world

import keyhole
from keyhole.auditing import Exposure, Finding, Judge, Status
from keyhole.config import Columns, Config, PrivateColumn
from keyhole.datasets import Source, load
from keyhole.gather import gather
from keyhole.gather.transcribe import checked, expanded, lowered
from keyhole.gather.whole_table import WholeTableReader
from keyhole.model.transcript import ABSENT, Line

LOGS = 12  # about one table
FEW = range(3)  # private values where every table is tried
ENGINE: list[Engine] = []


def engine() -> Engine:
    """One database for all seeds."""
    if not ENGINE:
        ENGINE.append(Engine())
    return ENGINE[0]


class Door:
    """Keyhole's side: the table is opened once for several logs, and their readings are checked together."""

    def __init__(self, world: World, declared: PrivateColumn) -> None:
        columns = Columns(id=("name",), private=dict.fromkeys(world.private, declared))
        self.source: Source = load(world.arrow(), columns)
        self.roster = self.source.roster
        self.knowledge = Config(columns=columns).knowledge()

    def audits(self, logs: Sequence[Sequence[Line]]) -> Iterator[Exposure]:
        """The verdict on each log by itself."""
        again = WholeTableReader(self.roster, self.source)
        read = iter(checked(lowered(chain.from_iterable(logs), self.roster.schema, again=again), self.roster))
        for lines in logs:
            transcript = expanded(list(islice(read, len(lines))), self.roster, source=self.source)
            evidence = gather(transcript, self.roster, self.knowledge, source=self.source)
            yield Judge().examine(evidence, self.roster)


def play(seed: int) -> Counter[str]:
    """The logs of one seed."""
    rng = random.Random(seed)
    return every_table(rng) if rng.random() < 0.3 else affine(rng)


def affine(rng: random.Random) -> Counter[str]:
    """Logs whose answers are affine in the private values: exposure is a matter of row spaces."""
    world = make_world(rng)
    twin, score = LinearTwin(engine(), world, rng), Counter[str]()
    logs = [log(rng) for _ in range(LOGS)]
    verdicts = Door(world, PrivateColumn()).audits([_lines(rng, twin, asked) for asked in logs])
    for turn, (asked, judged) in enumerate(zip(logs, verdicts, strict=True)):
        if judged.exit_code == 3 and not judged.findings and turn % 3:
            score += _tallied(judged, asked)  # nothing was said that could be wrong
            continue
        read = [_read(twin, made) for made in asked]
        story = Story(world, asked)
        if turn == 0 and rng.random() < 0.2:  # through the front door, groups too
            whole = keyhole.audit(
                [m.sql for m in asked], data=world.arrow(), private=["x", "y"], id="name", group_size=2
            )
            score += weigh(whole, world, asked, read, story)
        score += weigh(judged, world, asked, read, story)
    return score


def weigh(judged: Any, world: World, asked: list[Made], read: list[Any], story: Story) -> Counter[str]:
    """One verdict against what the twin read."""
    score, skipped = _tallied(judged, asked), _skipped(judged)
    for number, (made, rows) in enumerate(zip(asked, read, strict=True), 1):
        score["not affine"] += rows is None
        if rows == "fails" and number not in skipped:
            raise FalseVerdict(f"judged, and the engine does not run it: {made.sql} {story}")
    space = RowSpace(row for rows in read if isinstance(rows, tuple) for row in rows)
    judged_alone = RowSpace(
        row for n, rows in enumerate(read, 1) if isinstance(rows, tuple) and n not in skipped for row in rows
    )
    bent = any(rows is None for rows in read)  # something was not affine: what is claimed may come from there
    return score + compare(judged, world, None if bent else space, judged_alone, story)


class Story:
    """What is needed to see a verdict again."""

    def __init__(self, world: World, asked: list[Made]) -> None:
        self.world, self.asked = world, asked

    def __str__(self) -> str:
        listed = "\n    ".join(repr(m.sql) for m in self.asked)
        return f"\n    {listed}\n    {self.world.public}\n    {self.world.private} {self.world.kinds}"


def compare(judged: Any, world: World, space: RowSpace | None, alone: RowSpace, story: Story) -> Counter[str]:
    """Claims against the row space of all that was answered; silence against that of what was judged."""
    if judged.contradictions:
        raise FalseVerdict(f"true answers contradict each other: {judged.contradictions} {story}")
    score, claimed = Counter[str](), set()
    for f in judged.findings:
        unknown = (f.row, f.column)
        truth = world.private[f.column][f.row]
        if truth is None or not agrees(f, Fraction(truth)):
            raise FalseVerdict(f"{f} where the value is {truth} {story}")
        if f.status is Status.EXPOSED:
            claimed.add(unknown)
            if f.value is None or Fraction(f.value) != truth:
                raise FalseVerdict(f"{f} where the value is {truth} {story}")
            if space is not None and not space.holds(_unit(unknown)):
                raise FalseVerdict(f"{f} is not determined by the answers {story}")
        elif space is not None and not f.if_shown and not space.holds(_unit(unknown)):
            raise FalseVerdict(f"{f} is claimed of a value that may be anything {story}")
        score["exposures compared"] += 1
    for group in judged.groups:
        row: Row = {(r, group.column): Fraction(1) for r in group.rows if world.private[group.column][r] is not None}
        if space is not None and not space.holds(row):
            raise FalseVerdict(f"{group} is not determined by the answers {story}")
        truth = sum(world.private[group.column][r] or 0 for r in group.rows)
        if group.total is not None and Fraction(group.total) != truth:
            raise FalseVerdict(f"{group} where the total is {truth} {story}")
        score["groups compared"] += 1
    missed = {u for u in world.unknowns if alone.holds(_unit(u))} - {(f.row, f.column) for f in judged.findings}
    if missed and (judged.complete or judged.exit_code == 0):
        raise FalseVerdict(f"all clear, and {sorted(missed)} are determined {story}")
    if space is not None and judged.exit_code == 0 and any(space.holds(_unit(u)) for u in world.unknowns):
        raise FalseVerdict(f"exit 0, and somebody is determined by all that was asked {story}")
    score["missed, and said to be incomplete"] += len(missed)
    score["all clear"] += judged.exit_code == 0
    return score


def agrees(f: Finding, v: Fraction) -> bool:
    """Can the value be this one, by what is claimed of it?"""
    if f.lo is not None and v < Fraction(f.lo):
        return False
    if f.hi is not None and v > Fraction(f.hi):
        return False
    if f.status is Status.EXPOSED and f.value is not None and f.lo == f.hi:
        return v == Fraction(f.value)
    return v not in [Fraction(e) for e in f.excluded] and (not f.allowed or v in [Fraction(a) for a in f.allowed])


def every_table(rng: random.Random, make: Callable[[random.Random, float], list[Made]] = log) -> Counter[str]:
    """Logs with private conditions about two or three people: what is claimed must hold in every table left.

    What is said of a row that LIMIT may have cut off must be true, and no more.
    """
    people = rng.choice((2, 3))
    world = make_world(rng, people, FEW)
    if people == 3:
        world.private["y"] = [None] * people
    else:
        world.private["y"][0] = None
    declared = rng.random() < 0.5
    prior = PrivateColumn(min=0, max=2, step=1) if declared else PrivateColumn()
    twin, score = EveryTable(engine(), world, FEW), Counter[str]()
    logs = [make(rng, 0.35)[:3] for _ in range(LOGS)]
    verdicts = Door(world, prior).audits([_lines(rng, twin, asked) for asked in logs])
    for asked, judged in zip(logs, verdicts, strict=True):
        if judged.exit_code == 3 and not judged.findings:
            score += _tallied(judged, asked)
            continue
        story, failing = Story(world, asked), set()
        left = list(range(len(twin.tables)))
        skipped = _skipped(judged)
        heard = list(left)
        for number, made in enumerate(asked, 1):
            try:
                same = twin.same(made, set(left) | set(heard))
                left = [k for k in left if k in same]
                heard = heard if number in skipped else [k for k in heard if k in same]
            except Failed:
                failing.add(number)
        score += _tallied(judged, asked)
        if failing - skipped:
            raise FalseVerdict(f"judged, and the engine does not run {failing - skipped} {story}")
        if judged.contradictions:
            raise FalseVerdict(f"true answers contradict each other: {judged.contradictions} {story}")
        for f in judged.findings:
            for k in [twin.at] if f.if_shown else left:
                v = twin.tables[k][f.column][f.row]
                if v is None or not agrees(f, Fraction(v)):
                    raise FalseVerdict(f"{f} where it is {v} in {twin.tables[k]} with the same answers {story}")
            score["exposures compared"] += 1
        fixed = {u for u in world.unknowns if len({twin.tables[k][u[1]][u[0]] for k in heard}) == 1}
        missed = fixed - {(f.row, f.column) for f in judged.findings}
        if declared and world.kinds["x"] == world.kinds["y"] == "BIGINT" and missed and judged.exit_code == 0:
            raise FalseVerdict(f"exit 0, and {sorted(missed)} have one value left {story}")
        score["all clear"] += judged.exit_code == 0
    return score


def _tallied(judged: Any, asked: list[Made]) -> Counter[str]:
    return Counter({"logs": 1, "statements": len(asked), "judged": len(asked) - len(_skipped(judged))})


def _read(twin: LinearTwin, made: Made) -> tuple[Row, ...] | str | None:
    try:
        found = twin.read(made)
    except Failed:
        return "fails"
    return None if found is None else found.rows


def _unit(unknown: Unknown) -> Row:
    return {unknown: Fraction(1)}


def _skipped(judged: Any) -> set[int]:
    """The statements that were refused, or of which a part was not judged."""
    listed = [*(r.number for r in judged.refused), *(u.number for u in judged.unjudged)]
    return {int(str(number).split(".")[0]) for number in listed}


def _lines(rng: random.Random, twin: LinearTwin | EveryTable, asked: list[Made]) -> list[Line]:
    """The statements as lines of a log; some with the answers that the engine gives."""
    given = rng.random() < 0.25
    return [Line(i, made.sql, _answer(twin, made) if given else ABSENT, at=i) for i, made in enumerate(asked, 1)]


def _answer(twin: LinearTwin | EveryTable, made: Made) -> Any:
    """The answer as a transcript has it, where that is simple: one row of numbers."""
    if made.by or not all("(" in item for item in made.items):
        return ABSENT
    try:
        rows = twin.answers(made)
    except Failed:
        return ABSENT
    if not rows:
        return []
    cells = [Decimal(repr(v)) if isinstance(v, float) else v for v in rows[0]]
    if any(isinstance(v, Decimal) and not v.is_finite() for v in cells):
        return ABSENT
    return cells if len(cells) > 1 else cells[0]


if __name__ == "__main__":
    run("logs", play)
