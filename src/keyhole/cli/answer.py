"""`keyhole answer`: answer a file of statements with differential privacy, against a durable budget."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from keyhole.defend.budget import Cap
from keyhole.defend.desk import Answered, Desk, Priced, Setting, Till
from keyhole.defend.ledger import Ledger
from keyhole.defend.load import count_cells, declared_domain
from keyhole.defend.loss import Loss, Number, probability
from keyhole.defend.till_each import EachTill
from keyhole.defend.till_offline import OfflineTill
from keyhole.defend.till_online import OnlineTill
from keyhole.errors import ConfigError, KeyholeError, PrivacyParameterError
from keyhole.gather.log import read_log
from keyhole.knowledge import BudgetTable, Config
from keyhole.sources import load


class MechanismName(StrEnum):
    """How answers are made."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    ONLINE_IC = "online-ic"
    ONLINE_IC_MEDIAN = "online-ic-median"
    ONLINE_IC_PERCEPTRON = "online-ic-perceptron"
    ITERATIVE = "iterative"


class Format(StrEnum):
    """How answers are shown."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("answer")(answer)


def answer(
    queries: Annotated[str, typer.Argument(metavar="QUERIES.sql", help="Statements to answer; - for standard input.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="keyhole.toml with columns and [budget].")],
    data: Annotated[str | None, typer.Option("--data", help="The table: .csv, .parquet, .duckdb, ...")] = None,
    table: Annotated[str | None, typer.Option("--table", help="The table of a .duckdb file.")] = None,
    view: Annotated[str | None, typer.Option("--view", help="SELECT that makes one row a person.")] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Cap of the ledger, not of this run (rho if unit = rho).")
    ] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Cap of delta.")] = None,
    mechanism: Annotated[
        MechanismName, typer.Option("--mechanism", help="How answers are made.")
    ] = MechanismName.LAPLACE,
    accuracy: Annotated[
        float | None,
        typer.Option("--accuracy", help="Error bar: a share of n (add-remove: people). Default: share what is left."),
    ] = None,
    beta: Annotated[float, typer.Option("--beta", help="Probability that an error bar is missed.")] = 0.05,
    horizon: Annotated[int, typer.Option("--horizon", help="Questions an online-ic run is planned for.")] = 1000,
    analyst: Annotated[
        str | None, typer.Option("--analyst", help="Who asks, if the budget is kept per analyst.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The budget's file. Default: [budget] ledger, or budget.keyhole.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what each statement would cost; spend nothing.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="How answers are shown.")] = Format.TEXT,
) -> None:
    """Answer COUNT, SUM and AVG with differential privacy; every answer carries its error bar and its price."""
    try:
        settings = Config.load(config)
        cap = _cap(settings.budget, epsilon, delta)
        probability(beta, "beta")
        _check(accuracy, horizon)
        where = data or _beside(config, settings.source.data)
        if where is None:
            raise ConfigError("no data: give --data FILE, or data = ... under [source]")
        source = load(where, settings.columns, table=table or settings.source.table, view=view or settings.source.view)
        domain = declared_domain(settings.columns, source.schema)
        histogram = count_cells(source, domain, settings.budget.neighbours)
        statements = [line.sql for line in read_log(queries)]
        path = str(ledger or _beside(config, settings.budget.ledger) or config.parent / "budget.keyhole")
        opened = ":memory:" if dry_run and not Path(path).exists() else path
        with Ledger(opened, cap, version=settings.source.version or "", domain=domain.fingerprint()) as books:
            if not dry_run:
                books.attach(histogram.fingerprint())
            books.left(analyst)  # an unknown analyst is refused before anything else
            setting = Setting(histogram, books, beta, accuracy, horizon, analyst)
            desk = Desk(source.schema, domain, setting, _till(mechanism, setting))
            if dry_run:
                _show_prices(desk.dry_run(statements), books, analyst, form)
            else:
                _show(desk.answer(statements), books, setting, form)
    except KeyholeError as error:
        typer.echo(f"keyhole: {error}", err=True)
        raise typer.Exit(2) from None


def _beside(config: Path, name: str | None) -> str | None:
    """A path written in the settings is meant from the settings' folder."""
    return None if name is None else str(config.parent / name)


def _check(accuracy: float | None, horizon: int) -> None:
    if accuracy is not None and not accuracy > 0:
        raise PrivacyParameterError(f"accuracy must be above 0, not {accuracy}")
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
    """One answer as the contract has it; `error` is the bar in the unit of the value, `alpha` a share of n."""
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
    widths = [[e.bar for e in made] for _, made in a.groups]
    worst = [
        None if None in column else max(c for c in column if c is not None) for column in zip(*widths, strict=True)
    ]
    shares = [None if w is None else float(w / n) if n is not None else _number(w) for w in worst]
    if single:
        found["error"] = _number(worst[0])
    found["alpha"] = shares[0] if len(shares) == 1 else shares
    found |= {
        "beta": a.beta,
        "cost": float(a.cost),
        "left": float(a.left),
        "neighbours": a.neighbours,
        "how": a.how,
    }
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
            f"  cost {float(a.cost):g}, left {float(a.left):g}; {a.neighbours}; bars hold with probability "
            f"{1 - a.beta:g}; {a.how}"
        )
    typer.echo(f"spent {float(spent):g} of {cap.unit} {float(cap.amount):g} (ledger {books.path})")


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
                else {"sql": p.sql, "cost": float(p.cost), "how": p.how}
            )
        shown = {
            "answers": rows,
            "spent": float(books.spent()),
            "budget": float(cap.amount),
            "unit": cap.unit,
            "left": float(left),
            "dry_run": True,
        }
        sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
        return
    for p in prices:
        typer.echo(" ".join(p.sql.split()))
        typer.echo(f"  refused: {p.refused}" if p.refused is not None else f"  would cost {float(p.cost):g}: {p.how}")
    total = sum((p.cost for p in prices), Fraction(0))
    verdict = "more than is left" if total > left else "which is there"
    typer.echo(f"nothing was spent; all would cost {float(total):g}, {verdict}: {cap.unit} {float(left):g}")
