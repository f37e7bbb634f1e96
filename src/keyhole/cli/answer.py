"""`keyhole answer`: answer a file of statements with differential privacy, against a durable budget."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keyhole.errors import KeyholeError


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
    TRANSCRIPT = "transcript"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("answer")(answer)


def answer(
    queries: Annotated[str, typer.Argument(metavar="QUERIES.sql", help="Statements to answer; - for standard input.")],
    config: Annotated[Path, typer.Option("--config", "-c", help=r"keyhole.toml with columns and \[budget].")],
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
        Path | None, typer.Option("--ledger", help=r"The budget's file. Default: \[budget] ledger, or budget.keyhole.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what each statement would cost; spend nothing.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="How answers are shown; transcript: what `keyhole attack` reads.")
    ] = Format.TEXT,
) -> None:
    """Answer COUNT, SUM and AVG with differential privacy; every answer carries its error bar and its price."""
    from keyhole.cli.answer_run import Request, run  # loads numpy, numba and the engine: only for this command

    request = Request(
        queries,
        config,
        data,
        table,
        view,
        epsilon,
        delta,
        mechanism,
        accuracy,
        beta,
        horizon,
        analyst,
        ledger,
        dry_run,
        form,
    )
    try:
        run(request)
    except KeyholeError as error:
        typer.echo(f"keyhole: {error}", err=True)
        raise typer.Exit(2) from None
