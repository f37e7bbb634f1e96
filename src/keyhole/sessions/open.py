"""Settings to a session: the table opened, the book found and held against it, the policy made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log2
from pathlib import Path
from typing import Any, Literal, TypeAlias

from keyhole.auditing.online.admission import ParsedStatement
from keyhole.auditing.online.engine_space import bound_false_allow
from keyhole.auditing.online.epochs import Changes
from keyhole.basis.cells.numbers import Cuts
from keyhole.book import EVERYBODY, Book
from keyhole.book.state import PUBLIC, WHOLE
from keyhole.config import BudgetTable, Config
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import Settings
from keyhole.datasets import Source
from keyhole.datasets.open import Table, Use, open_table
from keyhole.defence.answering import Answering, AnswerSetting, Strategy
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Number, Unit, check_probability, parse_exact, rho_within
from keyhole.defence.declared_domain import declare_domain
from keyhole.defence.histogram import CountedHistogram
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.planner import Planner
from keyhole.defence.planner.sizing import HORIZON, SPEND, PlanTerms, WantedError
from keyhole.defence.releases import Releases
from keyhole.defence.tables.margins import Margins, NobodysMargins, SourceMargins
from keyhole.errors import BookError, ConfigError, PrivacyParameterError
from keyhole.model.schema import Role
from keyhole.sessions.audited import Audited, Monitored, explain_incomplete, is_bounded
from keyhole.sessions.book_auditor import DecisionSettings, describe_arrivals, rebuild_auditor
from keyhole.sessions.open_book import DataVersion, enter_version, find_book_path, open_book
from keyhole.sessions.private import DryRun, Private
from keyhole.sessions.session import Session

ExactPolicy: TypeAlias = Literal["audited", "watch", "monitored"]


def open_private_session(
    settings: Settings, terms: BudgetArguments, config: Config | str | Path | None, *, dry_run: bool = False
) -> Session[Any]:
    """Answers with differential privacy. A dry run works on a copy of the book in memory, and quotes prices alone."""
    budget = settings.config.budget
    terms = replace(
        terms,
        beta=float(budget.beta) if terms.beta is None else terms.beta,
        horizon=budget.horizon if terms.horizon is None else terms.horizon,
        spend=budget.spend if terms.spend is None else terms.spend,
    )
    accuracy = _check_accuracy(terms, budget)
    terms = replace(terms, mechanism=choose_mechanism(terms, budget))
    error = None if terms.error is None else WantedError.parse(terms.error)
    if error is not None and terms.mechanism != PLANNER:
        raise ConfigError("--error needs the planner: give a delta under [budget], or write accuracy = ... there")
    unit = _choose_unit(budget, terms)
    make_cap(budget, terms, unit)  # refused before anything is opened
    table = open_table(settings, Use.ANSWER)
    source = table.whole
    planned = terms.mechanism == PLANNER
    domain = declare_domain(settings.columns, source.schema)
    columns = Partitions.declared(settings.columns, source.schema) if planned else None
    path = find_book_path(settings, config, terms.book)
    if path is None:
        raise ConfigError(
            "no book: a budget must be kept in one file, so name it with path = ... under [book] (or book=FILE)"
        )
    book = open_book(path, settings, table.name, dry_run=dry_run)
    try:
        version = DataVersion(table.version, lambda key: {WHOLE: source.digest(key)}).digested(book)
        with book.page():  # a new version is not begun if anything else is refused
            key = enter_version(book, version)
            known = book.state.budget.get("unit")
            if known is not None and not budget.unit:  # a book goes on with the unit that it began with
                unit = "rho" if known == "rho" else "epsilon"
            cap = make_cap(budget, terms, unit)
            mark = domain.fingerprint() if columns is None else columns.fingerprint()
            rows = _bound_rows(source, budget, key, planned=planned)
            ledger = Ledger(book, cap, domain=mark if rows is None else f"{mark} {rows} rows", rows=rows or 1)
        answering: Answering | Planner
        if columns is not None:
            columns = replace(columns, several=ledger.rows > 1, unknown=_find_unknown(source, columns, budget))
            answering = _make_planner(source, columns, ledger, terms, accuracy, error, budget, dry_run=dry_run)
        else:
            histogram = CountedHistogram(source, domain, budget.neighbours)
            n = histogram.public_n if histogram.neighbours == "replace-one" else None
            writer = Releases(source.schema, domain, n)
            setting = AnswerSetting(
                histogram,
                ledger,
                _beta_of(terms),
                accuracy,
                terms.horizon or 1000,
                budget.firings,
                writer,
                terms.anyway,
            )
            answering = Answering(source.schema, domain, setting, make_strategy(str(terms.mechanism), setting))
    except BaseException:
        book.close()
        raise
    return Session(book, (DryRun if dry_run else Private)(answering, book.state.epoch), life=table.life)


def _bound_rows(source: Source, budget: BudgetTable, key: bytes, *, planned: bool) -> int | None:
    """Of each person so many rows count, where that is declared."""
    rows = budget.rows_per_person
    if rows is None:
        return None
    ids = [c.name for c in source.schema.of_role(Role.ID)]
    if rows < 1 or not ids or not planned:
        raise ConfigError(
            "rows_per_person is a whole number from 1 on, for tables with an id, and the planner answers: give a delta "
            'under [budget], or mechanism = "planner"'
        )
    source.limit_rows_per_person(ids, rows, key)
    return rows


def _find_unknown(source: Source, columns: Partitions, budget: BudgetTable) -> frozenset[str]:
    """Columns whose keys noise may choose: undeclared ones, where a delta is set aside for it and n is no secret kept
    by the number of groups (add-remove).
    """
    if not budget.delta_for_keys:
        return frozenset()
    roles = (Role.PUBLIC, Role.PRIVATE)
    return frozenset(c.name for c in source.schema.columns if c.role in roles and c.name not in columns.columns)


def _make_planner(
    source: Source,
    columns: Partitions,
    ledger: Ledger,
    terms: BudgetArguments,
    accuracy: float | None,
    error: WantedError | None,
    budget: BudgetTable,
    *,
    dry_run: bool,
) -> Planner:
    who, delta = budget.neighbours, _get_delta(terms, budget)
    numbers = {name: column for name, column in columns.columns.items() if isinstance(column, Cuts)}
    share = SPEND if terms.spend is None else parse_exact(terms.spend, "spend")
    if not 0 < share <= 1:
        raise PrivacyParameterError(f"spend is a share of what is left, above 0 and at most 1, not {terms.spend}")
    keys = parse_exact(budget.delta_for_keys, "delta_for_keys")
    plan = PlanTerms(_beta_of(terms), accuracy, terms.horizon or HORIZON, share, terms.anyway, delta, keys, error)
    margins: Margins = SourceMargins(source, numbers, who)
    if dry_run:
        margins = NobodysMargins(margins.n if who == "replace-one" else 0, who)
    return Planner(source.schema, columns, margins, ledger, plan)


def choose_mechanism(terms: BudgetArguments, budget: BudgetTable) -> str:
    """What was asked for, by option or in the settings; else the planner where there is a delta."""
    return terms.mechanism or budget.mechanism or (PLANNER if _get_delta(terms, budget) else "laplace")


def _get_delta(terms: BudgetArguments, budget: BudgetTable) -> Fraction:
    return parse_exact(terms.delta if terms.delta is not None else budget.delta, "delta")


def _choose_unit(budget: BudgetTable, terms: BudgetArguments) -> Unit:
    """What a new book counts: rho for the planner where there is a delta, unless the settings say otherwise."""
    zcdp = terms.mechanism in PRICED_IN_RHO and _get_delta(terms, budget) > 0
    return budget.unit or ("rho" if zcdp else "epsilon")


@dataclass(frozen=True, slots=True)
class AuditTerms:
    """How statements are decided before they are answered; None: what the settings say."""

    book: str | Path | None = None
    insiders: int | None = None
    vouched: bool = False
    explain: bool = False
    despite: bool = False  # also with a book that lacks something of a log that is followed
    exact_above: int | None = None
    follows: bool = False  # answers are out already: nothing is decided


def open_audited_session(
    settings: Settings,
    config: Config | str | Path | None,
    how: AuditTerms,
    policy: ExactPolicy,
    *,
    dry_run: bool = False,
) -> tuple[Session[ParsedStatement], Table]:
    """Exact answers that expose nobody (`audited`), decisions alone (`watch`), or whatever is asked (`monitored`).

    Where nothing says where the book is, decisions are kept in memory; exact answers are refused. A dry run decides on
    a copy of the book in memory and has no secret in reach: what it told, nobody would have written down.
    """
    withheld = policy == "watch"
    if how.exact_above is not None and how.exact_above < 1:
        raise ConfigError(f"exact_above = {how.exact_above} must be at least 1: it is a number of people")
    decides = policy != "monitored" and not how.follows
    table = open_table(settings, Use.WATCH if withheld else Use.EXACT, decides=decides)
    path = find_book_path(settings, config, how.book)
    if withheld and how.book is None and settings.config.book.path is None and not isinstance(config, str | Path):
        path = None  # no settings stand in a file, and nothing names a book
    if path is None and not withheld:
        raise ConfigError(
            "no book: what was answered must be kept in one file: path = ... under [book] (book=FILE in Python)"
        )
    book = Book.rehearsal(None, table.name) if path is None else open_book(path, settings, table.name, dry_run=dry_run)
    try:
        version = DataVersion(table.version, lambda key: _digest_data(table, key), how.vouched).digested(book)
        exact_above = how.exact_above if how.exact_above is not None else settings.config.online.exact_above
        decisions = _make_decision_settings(settings, how, exact_above)
        source = settings.config.source
        large = source.decide == "auto" and table.roster.n > source.client_rows
        there = source.stay and (source.decide == "engine" or large)
        decisions = replace(decisions, in_engine=there)
        epochs_before = len(book.state.people)
        with book.page():  # a new version is not begun if anything else is refused
            key = enter_version(book, version)
            auditor = rebuild_auditor(book, table.roster, key, decisions)
        arrivals = describe_arrivals(book, table.roster) if len(book.state.people) > epochs_before else None
        if book.state.incomplete and policy != "monitored" and not how.despite:
            raise BookError(explain_incomplete(book))
        made = (Monitored if policy == "monitored" else Audited)(
            book,
            auditor,
            settings.columns.private,
            None if dry_run else table.source,
            explain=how.explain,
            facts={fact.column for fact in settings.knowledge().facts},
            exact_above=exact_above,
        )
    except BaseException:
        book.close()
        raise
    notes = (*((arrivals,) if arrivals else ()), *((DECIDED_THERE,) if there else ()))
    return Session(book, made, notes, table.life), table


DECIDED_THERE = (
    "decided in the engine of the data: the chance that an allow is false is below "
    f"2^{ceil(log2(bound_false_allow(1_000_000, 10_000)))} for 1,000,000 decisions and 10,000 independent answers"
)


def _make_decision_settings(settings: Settings, how: AuditTerms, exact_above: int | None) -> DecisionSettings:
    config, private = settings.config, settings.columns.private
    bounded = [name for name, column in private.items() if is_bounded(column)]
    return DecisionSettings(
        how.insiders if how.insiders is not None else config.online.insiders,
        {name: column.family for name, column in private.items()},
        Changes(config.book.changes),
        None if config.book.written is None else Path(config.book.written),
        settings.knowledge(),
        {} if exact_above is None else dict.fromkeys(bounded, exact_above),
    )


def _digest_data(table: Table, key: bytes) -> dict[str, str]:
    found = {PUBLIC: table.roster.fingerprint()}
    if table.seal is not None:
        found |= {f"private values of {name!r}": mark for name, mark in table.seal(key).items()}
    return found


def _beta_of(terms: BudgetArguments) -> float:
    assert terms.beta is not None
    return terms.beta


def _check_accuracy(terms: BudgetArguments, budget: BudgetTable) -> float | None:
    check_probability(_beta_of(terms), "beta")
    wanted = terms.accuracy if terms.accuracy is not None else budget.accuracy
    accuracy = None if wanted is None else _parse_share(str(wanted), secret=budget.neighbours == "add-remove")
    if accuracy is not None and not accuracy > 0:
        raise PrivacyParameterError(f"accuracy must be above 0, not {accuracy}")
    if accuracy is not None and not 1e-12 <= accuracy <= 1e12:
        raise PrivacyParameterError(f"accuracy must be finite, from 1e-12 to 1e12, not {accuracy}")
    if accuracy is not None and accuracy >= 1 and budget.neighbours != "add-remove":
        raise PrivacyParameterError(f"accuracy is a share of all people: 0.01 is one percent; {wanted} is all or more")
    if terms.horizon is not None and terms.horizon < 1:
        raise PrivacyParameterError(f"a run is planned for at least one question, not {terms.horizon}")
    return accuracy


def _parse_share(text: str, *, secret: bool) -> float:
    """`0.01`, or `1%`; where the number of people is a secret, there is no share of it.

    >>> _parse_share("0.5%", secret=False), _parse_share("20", secret=True)
    (0.005, 20.0)
    """
    percent = text.strip().endswith("%")
    try:
        amount = float(text.strip().removesuffix("%"))
    except ValueError:
        raise PrivacyParameterError(f"accuracy {text!r} is no number: write a share, such as 0.01 or 1%") from None
    if percent and secret:
        raise PrivacyParameterError(f"accuracy {text}: of add-remove neighbours it is in people, not a share of them")
    return amount / 100 if percent else amount


def make_cap(budget: BudgetTable, terms: BudgetArguments, unit: Unit) -> Cap:
    """What may be spent, in all and by each analyst, counted in `unit`."""
    amount: Number | None = terms.epsilon if terms.epsilon is not None else budget.epsilon
    if amount is None:
        raise ConfigError("no budget: write epsilon = ... under [budget] in keyhole.toml")
    slack: Number = terms.delta if terms.delta is not None else budget.delta
    if budget.delta_for_keys and budget.neighbours != "add-remove":
        raise ConfigError('delta_for_keys needs neighbours = "add-remove" under [budget]')
    if unit == "epsilon":
        return Cap.declared(Loss.of_epsilon(amount, slack, budget.neighbours), dict(budget.analysts))
    if not parse_exact(slack, "delta"):
        return Cap.declared(Loss.of_rho(amount, budget.neighbours), dict(budget.analysts))
    keys = parse_exact(budget.delta_for_keys, "delta_for_keys")
    if not 0 <= keys < parse_exact(slack, "delta"):
        raise PrivacyParameterError("delta_for_keys is a part of delta: at least 0 and below it")
    rest = parse_exact(slack, "delta") - keys
    shares = {who: rho_within(share, rest) for who, share in budget.analysts.items()}
    written = {} if budget.unit else {EVERYBODY: amount, **budget.analysts}
    return Cap.declared(Loss("rho", rho_within(amount, rest), keys, budget.neighbours), shares, written)


# --- mechanisms: what [budget] mechanism may name; each is imported when it is made -----------------------------------

PLANNER = "planner"  # answers from tables that it plans and buys, so it is made without a strategy


def _release_separately(setting: AnswerSetting, noise: str) -> Strategy:
    from keyhole.defence.strategies.separate_releases import SeparateReleases

    return SeparateReleases(setting, "gaussian" if noise == "gaussian" else "laplace")


def _run_prepaid(setting: AnswerSetting, update: str) -> Strategy:
    from keyhole.defence.strategies.prepaid_run import PrepaidRun

    return PrepaidRun(setting, update)


def _run_tuned(setting: AnswerSetting, start: str) -> Strategy:
    from keyhole.defence.strategies.prepaid_run import TunedRun

    return TunedRun(setting, warm=start == "margins")


def _construct_once(setting: AnswerSetting, update: str) -> Strategy:
    from keyhole.defence.strategies.one_construction import OneConstruction

    return OneConstruction(setting, update)


STRATEGIES = {
    "laplace": (_release_separately, "laplace"),
    "gaussian": (_release_separately, "gaussian"),
    "online-ic": (_run_prepaid, "multiplicative-weights"),
    "online-ic-median": (_run_prepaid, "median"),
    "online-ic-perceptron": (_run_prepaid, "perceptron"),
    "pmw-tuned": (_run_tuned, "uniform"),
    "pmw-warm": (_run_tuned, "margins"),
    "iterative": (_construct_once, "multiplicative-weights"),
    "iterative-median": (_construct_once, "median"),
    "iterative-perceptron": (_construct_once, "perceptron"),
}
MECHANISMS = (PLANNER, *STRATEGIES)
PRICED_IN_RHO = (PLANNER, "gaussian")  # where there is a delta; the others are priced in epsilon


def make_strategy(mechanism: str, setting: AnswerSetting) -> Strategy:
    """How statements are answered by the mechanism of this name."""
    if mechanism not in STRATEGIES:
        raise ConfigError(f"there is no mechanism {mechanism!r}; there are {', '.join(MECHANISMS)}")
    make, word = STRATEGIES[mechanism]
    return make(setting, word)
