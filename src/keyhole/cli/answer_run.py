"""What `keyhole answer` does, apart from its options: loaded only when the command runs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import typer

from keyhole.cli.answer import Format, MechanismName
from keyhole.defend.budget import Cap
from keyhole.defend.desk import Answered, Desk, Priced, Setting, Till
from keyhole.defend.ledger import Ledger
from keyhole.defend.load import attach, count_cells, declared_domain
from keyhole.defend.loss import Loss, Number, probability
from keyhole.defend.releases import Releases
from keyhole.defend.till_each import EachTill
from keyhole.defend.till_offline import OfflineTill
from keyhole.defend.till_online import OnlineTill
from keyhole.errors import ConfigError, PrivacyParameterError
from keyhole.gather.log import read_log
from keyhole.knowledge import BudgetTable, Config
from keyhole.tables.open import Use, open_table


@dataclass(frozen=True, slots=True)
class Request:
    """The command line, as given."""

    queries: str
    config: Path
    data: str | None
    table: str | None
    view: str | None
    epsilon: str | None
    delta: str | None
    mechanism: MechanismName
    accuracy: float | None
    beta: float
    horizon: int
    analyst: str | None
    ledger: Path | None
    dry_run: bool
    form: Format


def run(r: Request) -> None:
    """Load, open the ledger, answer or price, show."""
    settings = Config.load(r.config)
    cap = _cap(settings.budget, r.epsilon, r.delta)
    probability(r.beta, "beta")
    _check(r.accuracy, r.horizon)
    if r.dry_run and r.form is Format.TRANSCRIPT:
        raise ConfigError("--dry-run releases nothing, so there is no transcript: take --format text or json")
    source = open_table(settings, Use.ANSWER, data=r.data, table=r.table, view=r.view).whole
    domain = declared_domain(settings.columns, source.schema)
    histogram = count_cells(source, domain, settings.budget.neighbours)
    statements = [line.sql for line in read_log(r.queries)]
    path = r.ledger or Path(settings.budget.ledger or r.config.parent / "budget.keyhole")
    begun = Ledger.rehearsal if r.dry_run else Ledger
    with begun(path, cap, version=settings.source.version or "", domain=domain.fingerprint()) as books:
        attach(books, path, source, histogram)
        books.check_analyst(r.analyst)
        setting = Setting(histogram, books, r.beta, r.accuracy, r.horizon, r.analyst)
        desk = Desk(source.schema, domain, setting, _till(r.mechanism, setting))
        if r.dry_run:
            _show_prices(desk.dry_run(statements), books, r.analyst, r.form)
        elif r.form is Format.TRANSCRIPT:
            _show_releases(desk.answer(statements), Releases(source.schema, domain, setting.n))
        else:
            _show(desk.answer(statements), books, setting, r.form)


def _check(accuracy: float | None, horizon: int) -> None:
    if accuracy is not None and not accuracy > 0:
        raise PrivacyParameterError(f"accuracy must be above 0, not {accuracy}")
    if accuracy is not None and not 1e-12 <= accuracy <= 1e12:
        raise PrivacyParameterError(f"accuracy must be finite, from 1e-12 to 1e12, not {accuracy}")
    if horizon < 1:
        raise PrivacyParameterError(f"a run is planned for at least one question, not {horizon}")


def _cap(budget: BudgetTable, epsilon: str | None, delta: str | None) -> Cap:
    amount: Number | None = epsilon if epsilon is not None else budget.epsilon
    if amount is None:
        raise ConfigError("no budget: give --epsilon, or epsilon = ... under [budget]")
    slack: Number = delta if delta is not None else budget.delta
    if budget.unit == "rho":
        total = Loss.of_rho(amount, budget.neighbours)
    else:
        total = Loss.of_epsilon(amount, slack, budget.neighbours)
    return Cap.declared(total, dict(budget.analysts))


def _till(mechanism: MechanismName, setting: Setting) -> Till:
    match mechanism:
        case MechanismName.LAPLACE:
            return EachTill(setting, "laplace")
        case MechanismName.GAUSSIAN:
            return EachTill(setting, "gaussian")
        case MechanismName.ONLINE_IC:
            return OnlineTill(setting, "multiplicative-weights")
        case MechanismName.ONLINE_IC_MEDIAN:
            return OnlineTill(setting, "median")
        case MechanismName.ONLINE_IC_PERCEPTRON:
            return OnlineTill(setting, "perceptron")
        case MechanismName.ITERATIVE:
            return OfflineTill(setting)


def _number(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def answer_json(a: Answered, n: int | None) -> dict[str, Any]:
    """One answer as the contract has it; `error` is the bar in the unit of the value.

    `alpha` is the same as a share of n under replace-one neighbours, except for a ratio (AVG), which has no share.
    """
    if a.refused is not None:
        return {"sql": a.sql, "refused": a.refused}

    def bars(estimates: Any) -> list[float | int | None]:
        return [_number(e.bar) for e in estimates]

    found: dict[str, Any] = {"sql": a.sql}
    single = not a.grouped and len(a.groups) == 1 and len(a.groups[0][1]) == 1
    if single:
        found["value"] = _number(a.groups[0][1][0].value)
    else:
        found["groups"] = [
            {"key": {k: _plain(v) for k, v in key}, "values": [_number(e.value) for e in made], "error": bars(made)}
            for key, made in a.groups
        ]
    worst, shares = [], []
    for column in zip(*(made for _, made in a.groups), strict=True):
        bars_here = [e.bar for e in column]
        widest = None if None in bars_here else max(b for b in bars_here if b is not None)
        worst.append(widest)
        if widest is None or n is None or column[0].ratio:
            shares.append(_number(widest))
        else:
            shares.append(float(widest / n))
    if single:
        found["error"] = _number(worst[0])
    found["alpha"] = shares[0] if len(shares) == 1 else shares
    found |= {
        "beta": a.beta,
        "cost": float(a.cost),
        "left": float(max(a.left, Fraction(0))),
        "neighbours": a.neighbours,
        "how": a.how,
    }
    if a.notes:
        found["notes"] = list(a.notes)
    return found


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | bool) else str(value)


def _show(answers: list[Answered], books: Ledger, setting: Setting, form: Format) -> None:
    spent, cap = books.spent(), books.cap.total
    if form is Format.JSON:
        shown = {
            "answers": [answer_json(a, setting.n) for a in answers],
            "spent": float(spent),
            "budget": float(cap.amount),
            "unit": cap.unit,
            "ledger": books.path,
        }
        sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
        return
    for a in answers:
        typer.echo(" ".join(a.sql.split()))
        if a.refused is not None:
            typer.echo(f"  refused: {a.refused}")
            continue
        for key, made in a.groups:
            label = "".join(f"{k} = {_plain(v)}  " for k, v in key)
            typer.echo(f"  {label}" + ", ".join(_pair(e.value, e.bar) for e in made))
        typer.echo(
            f"  cost {float(a.cost):g}, left {_remainder(a.left)}; {a.neighbours}; bars hold with probability "
            f"{1 - a.beta:g}; {a.how}"
        )
        for note in a.notes:
            typer.echo(f"  note: {note}")
    typer.echo(f"spent {float(spent):g} of {cap.unit} {float(cap.amount):g} (ledger {books.path})")


def _show_releases(answers: list[Answered], releases: Releases) -> None:
    """What was released on stdout, one number a line; what was not, and why, on stderr."""
    for a in answers:
        if a.refused is not None:
            typer.echo(f"keyhole: not in the transcript: {' '.join(a.sql.split())}: {a.refused}", err=True)
    for one in releases.transcript(a.source for a in answers if a.source is not None):
        sys.stdout.write(one.line() + "\n")


def _remainder(left: Fraction) -> str:
    return f"{float(left):g}" if left >= 0 else "0 (the cap was lowered below what had been spent)"


def _pair(value: Fraction | None, bar: Fraction | None) -> str:
    if value is None or bar is None:
        return "unknown: too few records for a ratio"
    return f"{float(value):.10g} ± {float(bar):.4g}"


def _show_prices(prices: list[Priced], books: Ledger, analyst: str | None, form: Format) -> None:
    left, cap = books.left(analyst), books.cap.total
    if form is Format.JSON:
        rows: list[dict[str, Any]] = []
        for p in prices:
            rows.append(
                {"sql": p.sql, "refused": p.refused}
                if p.refused is not None
                else {"sql": p.sql, "cost": float(p.cost), "how": p.how} | ({"notes": list(p.notes)} if p.notes else {})
            )
        shown = {
            "answers": rows,
            "spent": float(books.spent()),
            "budget": float(cap.amount),
            "unit": cap.unit,
            "left": float(max(left, Fraction(0))),
            "dry_run": True,
        }
        sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
        return
    for p in prices:
        typer.echo(" ".join(p.sql.split()))
        typer.echo(f"  refused: {p.refused}" if p.refused is not None else f"  would cost {float(p.cost):g}: {p.how}")
        for note in p.notes:
            typer.echo(f"  note: {note}")
    total = sum((p.cost for p in prices), Fraction(0))
    refused = sum(p.refused is not None for p in prices)
    rest = f" ({refused} would be refused)" if refused else ""
    typer.echo(f"nothing was spent; all would cost {float(total):g}{rest}; left is {cap.unit} {_remainder(left)}")
