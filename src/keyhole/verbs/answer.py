"""`keyhole.answer`: private answers against a durable budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyhole.defend.answering import Answered, Answering, Priced, Setting, Strategy
from keyhole.defend.budget import Cap
from keyhole.defend.ledger import Ledger
from keyhole.defend.load import attach, count_cells, declared_domain
from keyhole.defend.loss import Loss, Number, probability
from keyhole.defend.releases import Releases
from keyhole.defend.strategies.construction import OneConstruction
from keyhole.defend.strategies.each import EachAlone
from keyhole.defend.strategies.run import PrepaidRun
from keyhole.errors import ConfigError, PrivacyParameterError
from keyhole.knowledge import BudgetTable, Config, home
from keyhole.logs.open import read_log
from keyhole.settings import Names, Settings, settings
from keyhole.tables.open import Use, open_table

MECHANISMS = ("laplace", "gaussian", "online-ic", "online-ic-median", "online-ic-perceptron", "iterative")


@dataclass(frozen=True, slots=True)
class Terms:
    """How statements are answered: the cap of the ledger, how accurate, by which mechanism, for whom."""

    epsilon: Number | None = None
    delta: Number | None = None
    mechanism: str = "laplace"
    accuracy: float | None = None
    beta: float = 0.05
    horizon: int = 1000
    analyst: str | None = None
    ledger: str | Path | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers, or the prices of a dry run, with the state of the budget afterwards."""

    answers: tuple[Answered, ...]
    prices: tuple[Priced, ...]
    dry_run: bool
    spent: Fraction
    left: Fraction
    budget: Loss
    ledger: str
    n: int | None
    releases: tuple[str, ...] = ()  # what was released, as lines of a transcript that `keyhole attack` reads

    @property
    def refused(self) -> int:
        """How many statements were not answered (would not be, in a dry run)."""
        return sum(a.refused is not None for a in self.answers) + sum(p.refused is not None for p in self.prices)

    def to_json(self) -> dict[str, Any]:
        """As the contract has it."""
        shown: dict[str, Any] = {
            "answers": [price_json(p) for p in self.prices]
            if self.dry_run
            else [answer_json(a, self.n) for a in self.answers],
            "spent": float(self.spent),
            "budget": float(self.budget.amount),
            "unit": self.budget.unit,
        }
        if self.dry_run:
            return shown | {"left": float(max(self.left, Fraction(0))), "dry_run": True}
        return shown | {"ledger": self.ledger}


def answer(
    statements: str | Path | Sequence[str],
    *,
    data: object = None,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
    table: str | None = None,
    view: str | None = None,
    config: Config | str | Path | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    mechanism: str = "laplace",
    accuracy: float | None = None,
    beta: float = 0.05,
    horizon: int = 1000,
    analyst: str | None = None,
    ledger: str | Path | None = None,
    dry_run: bool = False,
) -> Answers:
    """Answer COUNT, SUM and AVG with differential privacy; every answer carries its error bar and its price.

    `statements` is a path, SQL text or a list. `config` declares the domains of columns and the budget; the ledger file
    is charged before anything is returned. The other words are those of the command.

    >>> import pyarrow as pa
    >>> people = pa.table({"name": ["Ann", "Bob"], "sex": ["F", "M"]})
    >>> told = Config.parse('[columns.public.sex]\\nvalues = ["F", "M"]\\n[budget]\\nledger = ":memory:"')
    >>> found = answer(["SELECT COUNT(*) FROM people WHERE sex = 'F'", "SELECT MAX(name) FROM people"],
    ...                data=people, id="name", config=told, epsilon=1)
    >>> found.refused, float(found.spent)
    (1, 1.0)
    """
    given = settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden)
    terms = Terms(epsilon, delta, mechanism, accuracy, beta, horizon, analyst, ledger)
    return answered(statements, given, terms, config, dry_run=dry_run)


def answered(
    statements: str | Path | Sequence[str],
    given: Settings,
    terms: Terms,
    config: Config | str | Path | None,
    *,
    dry_run: bool = False,
) -> Answers:
    """The answers under merged settings, which came from `config`. A dry run spends nothing."""
    told = given.config
    cap = _cap(told.budget, terms.epsilon, terms.delta)
    probability(terms.beta, "beta")
    _check(terms.accuracy, terms.horizon)
    source = open_table(given, Use.ANSWER).whole
    domain = declared_domain(given.columns, source.schema)
    histogram = count_cells(source, domain, told.budget.neighbours)
    asked = [line.sql for line in read_log(statements)] if isinstance(statements, str | Path) else list(statements)
    path = Path(terms.ledger or told.budget.ledger or _beside(config, given.data) / "budget.keyhole")
    begun = Ledger.rehearsal if dry_run else Ledger
    with begun(path, cap, version=told.source.version or "", domain=domain.fingerprint()) as books:
        attach(books, path, source, histogram)
        books.check_analyst(terms.analyst)
        setting = Setting(histogram, books, terms.beta, terms.accuracy, terms.horizon, terms.analyst)
        answering = Answering(source.schema, domain, setting, _strategy(terms.mechanism, setting))
        made = () if dry_run else tuple(answering.answer(asked))
        prices = tuple(answering.dry_run(asked)) if dry_run else ()
        left = books.left(terms.analyst)
        releases = Releases(source.schema, domain, setting.n)
        lines = tuple(one.line() for one in releases.transcript(a.source for a in made if a.source is not None))
        return Answers(made, prices, dry_run, books.spent(), left, books.cap.total, books.path, setting.n, lines)


def _beside(config: Config | str | Path | None, data: object) -> Path:
    """Where a ledger lies that nobody named: beside the settings, else beside the data, so that there is one."""
    if isinstance(config, str | Path):
        return home(config)
    if isinstance(data, str | Path):
        return Path(data).resolve().parent
    raise ConfigError(
        "no ledger: a budget must be kept in one file, so name it with ledger = ... ([budget] ledger, or ledger=FILE)"
    )


def _check(accuracy: float | None, horizon: int) -> None:
    if accuracy is not None and not accuracy > 0:
        raise PrivacyParameterError(f"accuracy must be above 0, not {accuracy}")
    if accuracy is not None and not 1e-12 <= accuracy <= 1e12:
        raise PrivacyParameterError(f"accuracy must be finite, from 1e-12 to 1e12, not {accuracy}")
    if horizon < 1:
        raise PrivacyParameterError(f"a run is planned for at least one question, not {horizon}")


def _cap(budget: BudgetTable, epsilon: Number | None, delta: Number | None) -> Cap:
    amount: Number | None = epsilon if epsilon is not None else budget.epsilon
    if amount is None:
        raise ConfigError("no budget: give --epsilon, or epsilon = ... under [budget]")
    slack: Number = delta if delta is not None else budget.delta
    if budget.unit == "rho":
        total = Loss.of_rho(amount, budget.neighbours)
    else:
        total = Loss.of_epsilon(amount, slack, budget.neighbours)
    return Cap.declared(total, dict(budget.analysts))


def _strategy(mechanism: str, setting: Setting) -> Strategy:
    match mechanism:
        case "laplace":
            return EachAlone(setting, "laplace")
        case "gaussian":
            return EachAlone(setting, "gaussian")
        case "online-ic":
            return PrepaidRun(setting, "multiplicative-weights")
        case "online-ic-median":
            return PrepaidRun(setting, "median")
        case "online-ic-perceptron":
            return PrepaidRun(setting, "perceptron")
        case "iterative":
            return OneConstruction(setting)
        case _:
            raise ConfigError(f"there is no mechanism {mechanism!r}; there are {', '.join(MECHANISMS)}")


def _number(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def answer_json(a: Answered, n: int | None) -> dict[str, Any]:
    """One answer as the contract has it; `error` is the bar in the unit of the value.

    `alpha` is the same as a share of n under replace-one neighbours, except for a ratio (AVG), which has no share.
    """
    if a.refused is not None:
        return {"sql": a.sql, "refused": a.refused.reason}

    def bars(estimates: Any) -> list[float | int | None]:
        return [_number(e.bar) for e in estimates]

    found: dict[str, Any] = {"sql": a.sql}
    single = not a.grouped and len(a.groups) == 1 and len(a.groups[0][1]) == 1
    if single:
        found["value"] = _number(a.groups[0][1][0].value)
    else:
        found["groups"] = [
            {"key": {k: plain(v) for k, v in key}, "values": [_number(e.value) for e in made], "error": bars(made)}
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


def plain(value: object) -> object:
    """A key of a group as JSON has it."""
    return value if isinstance(value, str | int | bool) else str(value)


def price_json(p: Priced) -> dict[str, Any]:
    """One price; nothing was spent."""
    if p.refused is not None:
        return {"sql": p.sql, "refused": p.refused.reason}
    return {"sql": p.sql, "cost": float(p.cost), "how": p.how} | ({"notes": list(p.notes)} if p.notes else {})
