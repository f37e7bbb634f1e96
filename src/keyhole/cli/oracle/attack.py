"""`keyhole oracle attack`: learn what a living system hides that says only yes or no."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.oracle.report import show
from keyhole.cli.shared import options
from keyhole.cli.shared.interruption import ask_to_stop
from keyhole.cli.shared.terminal import check_out
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.config.settings import Settings
    from keyhole.engines.base import Source
    from keyhole.model.predicate import Predicate
    from keyhole.oracles.result import AskingPlan
    from keyhole.oracles.targets import FunctionTarget, HttpTarget, StatementTarget

LEAST_CHECK = 5  # queries that the check of the noise takes
FURTHEST = 1e60  # an end of --range: squares of it are added up
UNSTATED = (0.0, 1.0)  # where the search begins when nobody says where the hidden numbers lie


HELP = """Learn what a system hides that says only yes or no.

TARGET says whether its answer to a query is above a threshold: a web address that takes {"query": [...], "threshold":
t} and says {"above": true}, a Python function MODULE:FUNCTION, or a statement with {threshold} and {ids} on --data.

Its noise is measured unless --noise says none, gaussian:SD, laplace:SCALE, uniform:HALF-WIDTH, uniform:LOW..HIGH (an
edge known to an interval, for --learner edge) or triangular:HALF-WIDTH. With --budget the queries are asked again and
again until so many answers were given. With --levels K the target is sent "thresholds" and says {"level": 0..K-1}.

The first line says how far an entry is off: what is estimated (one standard error, no promise) and what is certified.

\b
Examples
  keyhole oracle attack http://localhost:8000/above --queries queries.csv --record answers.jsonl --budget 5000
  keyhole oracle attack mine:above --queries queries.jsonl --noise gaussian:0.3 --range 0..1

\b
Exit code
  0 done (warnings included); 2 could not run. Ctrl-C keeps what is known so far.
"""


QUERIES = click.Option(
    ["--queries"], type=options.FILE, required=True, help="What to ask: CSV with a header, or JSON lines of numbers."
)
BUDGET = click.Option(
    ["--budget"],
    type=click.IntRange(min=1),
    help="The most answers to ask for; queries are asked again until then where that teaches anything.",
)
RATE = click.Option(
    ["--rate"], type=click.FloatRange(min=0, min_open=True), metavar="PER SECOND", help="Ask no faster."
)
RECORD = click.Option(
    ["--record"], type=options.FILE, help="Keep the answers here; the same command goes on where it ended."
)
BOUNDS = click.Option(
    ["--range", "bounds"],
    metavar="LOW..HIGH",
    help="Where each hidden number lies (a SELECT SUM(COL): as --private COL:LOW..HIGH). Not stated, it is looked for, "
    "and from noisy answers nothing is certified.",
)
LEARNER = click.Option(
    ["--learner"],
    metavar="NAME|MODULE:CLASS",
    default="auto",
    show_default=True,
    help="How a noisy target is learnt from: newton (auto), sequential, edge, online-bisection, or your own class.",
)
BASIS = click.Option(
    ["--basis"],
    default="span",
    show_default=True,
    metavar="span|auto|NUMBER",
    help="Learn in the span of the queries, or in their principal components: with a clear gap, or so many.",
)
LEVELS = click.Option(
    ["--levels"], type=click.IntRange(min=2), default=2, help="The oracle answers from so many levels, not yes or no."
)
CALIBRATE = click.Option(
    ["--calibrate"],
    type=click.IntRange(min=0),
    metavar="N",
    help="Hold the noise against the last N queries (a tenth, at most 600; for --learner edge a third).",
)
TEST = click.Option(["--test"], type=options.FILE, help="Queries to answer with what was learnt, without asking.")


@dataclass(frozen=True, slots=True)
class AskingArguments:
    """Which target is asked what, and how is learnt from it, as the options say it."""

    queries: Path
    budget: int | None
    rate: float | None
    record: Path | None
    bounds: str | None
    learner: str
    basis: str
    levels: int
    calibrate: int | None
    test: Path | None


_OPTIONS = (QUERIES, BUDGET, RATE, RECORD, BOUNDS, LEARNER, BASIS, LEVELS, CALIBRATE, TEST)
ASKING = options.OptionGroup(
    "asking", _OPTIONS, lambda values: AskingArguments(*(values.pop(str(each.name)) for each in _OPTIONS))
)


@options.command(
    "attack",
    HELP,
    click.Argument(["target"]),
    options.TABLE_ARGUMENTS,
    options.NOISE,
    ASKING,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def attack(
    target: str, table: TableArguments, noise: str | None, asking: AskingArguments, output: OutputArguments
) -> None:
    """Read the queries, ask, learn, report."""
    from keyhole.config.settings import settings, with_private

    attack_oracle(target, asking, noise or "auto", lambda: with_private(settings(**table)), output)


def attack_oracle(
    oracle: str, terms: AskingArguments, noise: str, given: Callable[[], Settings], output: OutputArguments
) -> None:
    """Read the queries, ask, learn, report."""
    import numpy as np

    from keyhole.oracles.attack_target import learn_levels, learn_target
    from keyhole.oracles.recorded import Recorded
    from keyhole.oracles.result import AskingPlan, Questions
    from keyhole.oracles.targets import StatementTarget, open_target

    check_out(output.out)
    names, rows = read_queries(terms.queries)
    test = _test_queries(terms.test, names)
    stated = None if terms.bounds is None else _bounds(terms.bounds)
    plan = AskingPlan(
        noise,
        terms.learner,
        _basis(terms.basis, len(names)),
        terms.levels,
        _kept(terms, noise, len(rows)),
        budget=terms.budget,
    )
    if oracle.lstrip().upper().startswith("SELECT"):
        settings = given()
        target: HttpTarget | FunctionTarget | StatementTarget
        target, declared = _database(oracle, settings, names)
        stated = stated or declared
    else:
        target = open_target(oracle)
    width, (low, high), asks = len(names), stated or UNSTATED, _terms_of(names, rows, stated, plan)
    with (
        ask_to_stop() as stop,
        Recorded(
            target,
            terms.record,
            name=target.name,
            asks=asks,
            budget=terms.budget,
            rate=terms.rate,
            stop=lambda: stop.asked,
        ) as asked,
    ):
        stop.is_waiting = lambda: asked.waiting
        box = np.full(width, low), np.full(width, high)
        sums = isinstance(target, StatementTarget)
        questions = Questions(np.array(rows), *box, np.array(test).reshape(-1, width), stated is not None, sums)
        found = learn_target(asked, questions, plan) if plan.levels == 2 else learn_levels(asked, questions, plan)
        recalled = asked.recalled
    if not found.asked:
        raise ConfigError(
            f"not one question was answered: {'; '.join(found.notes) or 'no query could narrow anything'}"
        )
    show(found, names, recalled, output)


def _terms_of(names: list[str], rows: list[list[float]], stated: tuple[float, float] | None, plan: AskingPlan) -> str:
    """A digest of all that decides what is asked and whose answer it is: the same in every line of one record."""
    kept = [plan.noise, str(plan.learner), plan.basis, plan.levels, plan.calibrate, plan.delta]
    return hashlib.sha256(json.dumps([names, rows, stated, kept]).encode()).hexdigest()[:16]


def _test_queries(path: Path | None, names: list[str]) -> list[list[float]]:
    if path is None:
        return []
    theirs, rows = read_queries(path)
    if theirs != names:
        raise ConfigError(
            f"{path} has other entries than --queries: {', '.join(theirs[:5])}; give the same, in one order"
        )
    return rows


def _kept(terms: AskingArguments, noise: str, queries: int) -> int:
    """Queries kept for the check of the noise."""
    if terms.calibrate is not None:
        if 0 < terms.calibrate < LEAST_CHECK:
            raise ConfigError(f"--calibrate {terms.calibrate}: the check takes at least {LEAST_CHECK}; 0 goes without")
        return terms.calibrate
    if terms.learner == "edge":
        return queries // 3
    return min(600, queries // 10) if terms.levels == 2 and noise != "none" else 0


def _basis(text: str, width: int) -> int:
    """0: the span; -1: principal components by their gap; else so many of them."""
    if text in ("span", "auto"):
        return 0 if text == "span" else -1
    if not text.isdecimal() or not 1 <= int(text) <= width:
        raise ConfigError(f"--basis {text!r}: write span, auto, or a number of dimensions from 1 to {width}")
    return int(text)


def read_queries(path: Path) -> tuple[list[str], list[list[float]]]:
    """Names of the entries, and the queries: CSV with a header, or JSON lines (entries are then named 1, 2, ...)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise ConfigError(f"{path} holds no query")
    if path.suffix.lower() == ".csv":
        header, *rest = [(number, next(csv.reader([line]))) for number, line in lines]
        twice = [name for k, name in enumerate(header[1]) if name in header[1][:k]]
        if twice:
            raise ConfigError(f"{path}: {twice[0]!r} is named twice in the header; an entry stands for one")
        if not rest:
            raise ConfigError(f"{path} holds no query, only a header")
        return header[1], [_numbers(row, path, number, len(header[1])) for number, row in rest]
    rows: list[list[float]] = []
    for number, line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            raise ConfigError(
                f"{path}, line {number} is not JSON: write a list of numbers, such as [1, 0, 0.5]"
            ) from None
        if not isinstance(row, list):
            raise ConfigError(f"{path}, line {number} is not a list of numbers")
        rows.append(_numbers(row, path, number, len(rows[0]) if rows else len(row)))
    return [str(i) for i in range(1, len(rows[0]) + 1)], rows


def _numbers(row: list[Any], path: Path, number: int, width: int) -> list[float]:
    if len(row) != width or not width:
        raise ConfigError(f"{path}, line {number} has {len(row)} entries, the first query {width}")
    try:
        found = [float(v) for v in row]
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{path}, line {number}: an entry is not a number") from None
    if not all(math.isfinite(v) and abs(v) <= 1e100 for v in found):
        raise ConfigError(f"{path}, line {number}: entries are numbers from -1e100 to 1e100")
    return found


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise ConfigError(f"--range {text!r}: write LOW..HIGH, such as 0..1")
    if max(map(abs, ends)) > FURTHEST:
        raise ConfigError(f"--range {text!r}: its ends are numbers from -{FURTHEST:.0e} to {FURTHEST:.0e}")
    return ends


def _declared(statement: str, where: Predicate, given: Settings, source: Source) -> tuple[float, float] | None:
    """Bounds of what a person adds to SELECT SUM(COL) > {threshold} FROM, by those declared for COL."""
    from keyhole.oracles.database import range_of_sums

    for name, column in given.columns.private.items():
        summed = rf'\s*SELECT\s+SUM\s*\(\s*"?{re.escape(name)}"?\s*\)\s*>=?\s*\{{threshold\}}\s+FROM\b'
        if re.match(summed, statement, re.IGNORECASE) and column.min is not None and column.max is not None:
            low, high = range_of_sums(source, where, name, float(column.min), float(column.max))
            return (low, high) if low < high else None
    return None


def _database(text: str, given: Settings, ids: list[str]) -> tuple[StatementTarget, tuple[float, float] | None]:
    """A statement on the table of the settings, read like any analyst's, and the range that the settings declare.

    Ids that the table has not are an error.
    """
    import numpy as np

    from keyhole.datasets.open import Use, open_table
    from keyhole.oracles.database import asking, check_additive
    from keyhole.oracles.targets import StatementTarget

    source = open_table(given, Use.AUDIT).whole
    if len(given.columns.id) != 1:
        raise ConfigError("a SELECT needs one id column: name it with --id")
    known = {str(v) for label in source.labels(np.arange(source.n)) for v in label.values()}
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} in the header of the queries is nobody's id ({len(unknown)} are not)")
    target = StatementTarget(text, ids, asking(source), source.fingerprint()[:12])
    sums = check_additive(lambda at: target.statement(np.ones(len(ids)), at), source.schema, given.columns.id[0], ids)
    return target, _declared(text, sums.terms[0].where, given, source)
