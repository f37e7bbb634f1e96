"""Online streams on two tables that differ in private values only: `python -m tests.fuzz.streams --count N`.

Whatever is said before an answer (decision, reason, whom it would expose and why, price, exit code, every printed byte)
must be the same: else it tells something of private values by itself. The values differ in kind as well (40 and 40.5
in a CSV), in size and in sign; which of them are NULL is public, and is the same. What was allowed must expose nobody,
by the twin's reading of it; with insiders = 1 neither to any one other participant.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from tests.fuzz.logs import engine
from tests.fuzz.soak import FalseVerdict, run
from tests.fuzz.statements import log
from tests.fuzz.twin import LinearTwin, Row, RowSpace
from tests.fuzz.world import World, make_world

import keyhole
from keyhole.config import Config

WHOLE = ("0", "1", "40", "-7", "12", "1")
BROKEN = ("40.5", "0.25", "-3.75", "12.0")
WIDE = ("99999999999999999999", "-123456789012345", "0.000000001", "1e3", "-0", "+5", "1e-7", "007")
Words = tuple[str, ...]
KINDS: tuple[tuple[Words, Words], ...] = (
    (WHOLE, WHOLE),
    (WHOLE, BROKEN),
    (BROKEN, WIDE),
    (WHOLE, WIDE),
    (WHOLE, WHOLE + BROKEN + WIDE),
)
ODD = (
    "SELECT SUM(CAST(x AS BIGINT)) FROM t",
    "SELECT SUM(x * x) FROM t",
    "SELECT SUM(x) FROM t WHERE x > 3",
    "SELECT SUM(x) FROM t WHERE x = 40.5",
    "SELECT SUM(x) FROM t WHERE y = 'a'",
    "SELECT MAX(x) FROM t",
    "SELECT x, COUNT(*) FROM t GROUP BY x",
    "SELECT SUM(x) FROM t HAVING SUM(x) > 5",
    "SELECT SUM(x // 2) FROM t",
    "SELECT SUM(x % 2) FROM t",
    "SELECT SUM(x / 2) FROM t",
    "SELECT SUM(x) FROM t WHERE name = 'Ann'",
    "SELECT SUM(ROUND(x)) FROM t",
    "SELECT AVG(x + y) FROM t WHERE g <> 'a'",
    "SELECT SUM(nothing) FROM t",
    "SELECT VAR_POP(x) FROM t",
    "SELECT SUM(x || 'a') FROM t",
    "SELECT SUM(LENGTH(x)) FROM t",
    "SELECT COUNT(DISTINCT x) FROM t",
)


def neighbours(
    world: World, rng: random.Random, folder: Path, kinds: Sequence[tuple[Words, Words]] = KINDS
) -> tuple[Path, Path]:
    """The same people in two files, each with private values of its own."""
    chosen = rng.choice(kinds)
    header = ",".join((*world.public, *world.private))
    found = []
    for which, words in enumerate(chosen if rng.random() < 0.5 else chosen[::-1]):
        lines = [header]
        for i in range(world.n):
            public = ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in _row(world, i)]
            private = ["" if world.private[c][i] is None else rng.choice(words) for c in world.private]
            lines.append(",".join((*public, *private)))
        path = folder / str(which) / "t.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        found.append(path)
    return found[0], found[1]


def _row(world: World, i: int) -> list[object]:
    return [world.public[c][i] for c in world.public]


def stream(rng: random.Random) -> list[str]:
    """Statements as an analyst might ask them, and odd ones among them."""
    asked = [made.sql for _ in range(3) for made in log(rng)] + rng.sample(ODD, 6)
    rng.shuffle(asked)
    return asked


def said(data: Path, asked: list[str], insiders: int) -> list[str]:
    """All that an auditor says, one text for each statement."""
    found = []
    with closing(keyhole.watch(data, config=Config.parse(FAR), insiders=insiders)) as auditor:
        for sql in asked:
            reply = auditor.ask(sql)
            assert reply.admission is not None
            found.append(json.dumps(reply.admission.to_json(explain=True), default=str))
            found.append(f"{reply.outcome} {reply.reason} {reply.instead} {reply.entry}")
    return found


def printed(data: Path, asked: list[str]) -> tuple[int, str, str]:
    """What the command prints, and its exit code; it has a history file of its own."""
    (data.parent / "far.toml").write_text(FAR, encoding="utf-8")
    command = [sys.executable, "-m", "keyhole.cli", "ask", "--decide-only", "--data", "t.csv", "-c", "far.toml"]
    command += ["--book", "h.keyhole", "--format", "json", "--explain"]
    text = ";\n".join(asked) + ";\n"
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=data.parent, input=text, capture_output=True, text=True, env=environment, check=False
    )
    return done.returncode, done.stdout, done.stderr


def priced(data: Path, asked: list[str]) -> list[object]:
    """What each private answer would cost and how far off it may be, and why it is refused."""
    told = Config.parse(DOMAINS)
    found = keyhole.ask(
        asked, data=data, id="name", config=told, epsilon=5, dry_run=True, book=data.with_name("none.keyhole")
    )
    return [json.dumps(found.to_json()["answers"], default=str), str(found.spent), str(found.left)]


FAR = """
[columns]
id = ["name"]
[columns.private]
x = { kind = "decimal", min = -1000000000000000000000 }
y = { kind = "decimal", min = -1000000000000000000000 }
[online]
exact_above = 1
"""
DOMAINS = """
[columns]
hidden = ["y"]
[columns.private.x]
kind = "decimal"
min = 0
max = 50
step = 0.25
[columns.public.g]
values = ["a", "b", "c"]
[columns.public.h]
values = [0, 1, 2, 7]
"""
MILD = (("0", "1", "40", "12"), ("40.5", "0.25", "50", "3.75"))  # inside the declared range, since faults are loud


def allowed(rng: random.Random, insiders: int) -> Counter[str]:
    """What an auditor allows, read by the twin: it determines nobody's value."""
    world = make_world(rng)
    twin, rows, kept = LinearTwin(engine(), world, rng), list[Row](), list[str]()
    asked = [made for _ in range(5) for made in log(rng)]
    with closing(keyhole.watch(world.arrow(), config=Config.parse(FAR), insiders=insiders)) as auditor:
        for made in asked:
            if not auditor.ask(made.sql).answered:
                continue
            kept.append(made.sql)
            read = twin.read(made)
            if read is None:
                raise FalseVerdict(f"allowed, and not affine: {made.sql}\n{world}")
            rows.extend(read.rows)
    outsider: list[list[Row]] = [[]]
    knowing = [[{u: Fraction(1)} for u in world.unknowns if u[0] == i] for i in range(world.n)] if insiders else []
    for known in outsider + knowing:
        space, own = RowSpace([*rows, *known]), {u for row in known for u in row}
        told = [u for u in world.unknowns if u not in own and space.holds({u: Fraction(1)})]
        if told:
            raise FalseVerdict(f"allowed, and {told} are determined (knowing {own}): {kept}\n{world}")
    return Counter({"allowed": len(kept)})


def play(seed: int, *, command: bool | None = None) -> Counter[str]:
    """One pair of tables, one stream."""
    rng = random.Random(seed)
    world, asked, insiders = make_world(rng), stream(rng), rng.randrange(2)
    score = Counter[str]({"streams": 1, "statements": len(asked)})
    score += allowed(rng, insiders)
    with tempfile.TemporaryDirectory() as folder:
        one, two = neighbours(world, rng, Path(folder))
        first, second = said(one, asked, insiders), said(two, asked, insiders)
        compare("watch", first, second, one, two)
        score["judged"] += sum('"refused"' not in text for text in first if text.startswith("{"))
        score["denied"] += sum('"deny"' in text for text in first if text.startswith("{"))
        if rng.random() < 0.2:
            mild = neighbours(world, rng, Path(folder) / "mild", (MILD,))
            compare("prices", priced(mild[0], asked), priced(mild[1], asked), *mild)
            score["priced"] += 1
        if rng.random() < 0.02 if command is None else command:
            compare("command", list(printed(one, asked)), list(printed(two, asked)), one, two)
            score["commands"] += 1
    return score


def compare(what: str, first: list[object] | list[str], second: list[object] | list[str], one: Path, two: Path) -> None:
    """Byte for byte."""
    for a, b in zip(first, second, strict=False):
        if a != b:
            raise FalseVerdict(f"{what} differs:\n  {a}\n  {b}\n{one.read_text()}\n{two.read_text()}")
    if len(first) != len(second):
        raise FalseVerdict(f"{what} says more of one table than of the other\n{one.read_text()}\n{two.read_text()}")


if __name__ == "__main__":
    run("streams", play)
