"""Every option, defined once: a word means the same thing in each command that has it.

A command lists its options and groups of options (`command`); a group reaches its function as one value, as
`keyhole.config.arguments` has it. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import click

from keyhole.config.arguments import BudgetArguments, Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError
from keyhole.logs.importers import LogFormat

FILE = click.Path(path_type=Path)


class FileOrAddress(click.Path):
    """A file or folder, or the address of a database; its password is not taken from the command line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path; an address stays text."""
        if not isinstance(value, str) or "://" not in value:
            return super().convert(value, param, ctx)
        from keyhole.engines.engine import DataUrl

        if DataUrl.parse(value).has_secret:
            raise ConfigError(
                "everybody on this machine can read a password in a command: put it into ~/.pgpass or PGPASSWORD, or "
                "with the address into keyhole.toml (data under [source])"
            )
        return value


DATA_FILE = FileOrAddress(path_type=Path)


FORMATS = {
    Format.TEXT: "text for people",
    Format.JSON: "JSON for machines",
    Format.SARIF: "SARIF for code scanning, without values",
    Format.JUNIT: "JUnit XML for pipelines, without values",
    Format.TRANSCRIPT: "a transcript of what was released, for `keyhole attack`",
    Format.HTML: "one self-contained page, to look at",
    Format.BASELINE: "fingerprints for --baseline, without names or values",
}

# What a log may be written for: the values of `sql.Dialect` (tied by a test; that module is not light).
DIALECTS = (
    "duckdb",
    "postgres",
    "sqlite",
    "mysql",
    "snowflake",
    "bigquery",
    "tsql",
    "spark",
    "databricks",
    "redshift",
    "trino",
    "unknown",
)


class OneOf(click.Choice[str]):
    """A choice among the words of an enumeration; gives the member."""

    def __init__(self, kind: type[StrEnum], words: tuple[StrEnum, ...] = ()) -> None:
        super().__init__([str(word) for word in (words or tuple(kind))])
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The member of the enumeration."""
        return None if value is None else self.kind(super().convert(str(value), param, ctx))


def words(name: str, default: StrEnum, help: str) -> click.Option:  # noqa: A002 - the word of click
    """An option that takes one word of an enumeration."""
    return click.Option([name], type=OneOf(type(default)), default=default, show_default=str(default), help=help)


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options that reach the function of a command as one argument, `name`.

    `pack` makes it of the values of all options of the command, and takes out those that it uses.
    """

    name: str
    options: tuple[click.Option, ...]
    pack: Callable[[dict[str, Any]], object]


def command(
    name: str,
    help: str | None,  # noqa: A002 - the word of click
    *parts: click.Parameter | OptionGroup,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function the command `name`, with these arguments, options and groups of options."""
    groups = [part for part in parts if isinstance(part, OptionGroup)]
    params = [each for part in parts for each in (part.options if isinstance(part, OptionGroup) else (part,))]

    def make(function: Callable[..., None]) -> click.Command:
        def call(**values: Any) -> None:
            packed = {group.name: group.pack(values) for group in groups}
            function(**values, **packed)

        return click.Command(name, callback=call, help=help or function.__doc__, params=params)

    return make


def formats(*accepted: Format) -> click.Option:
    """--format, with the formats that a command can write; the first is the default."""
    told = ", ".join(FORMATS[each] for each in accepted)
    return click.Option(
        ["--format"],
        type=OneOf(Format, accepted),
        default=accepted[0],
        show_default=str(accepted[0]),
        help=f"{told[0].upper()}{told[1:]}.",
    )


def settings_here(table: TableArguments) -> TableArguments:
    """The same, with the settings in the working folder where neither settings nor data were named."""
    here = Path("keyhole.toml")
    if table.get("config") is None and table.get("data") is None and here.is_file():
        return {**table, "config": here}
    return table


def flag(name: str, help: str) -> click.Option:  # noqa: A002 - the word of click
    """An option that is there or not."""
    return click.Option([name], is_flag=True, default=False, help=help)


# how a file is written: these words go with the file (`config.settings.File`), whichever command it is for
LAYOUT_KEY = "keyhole.layout"


def with_layout(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Any:
    """The file with what was said of how it is written; the path alone if nothing was."""
    said = ctx.meta.get(LAYOUT_KEY)
    if not said:
        return value
    from keyhole.config.settings import File

    try:
        return File(path=value, **said)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None


def _layout(name: str, metavar: str | None, help: str, *, listed: bool = False) -> click.Option:  # noqa: A002
    """An option about how a file is written: it goes with the file (`keyhole.config.settings.File`)."""
    key = name.removeprefix("--")

    def said(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        given = tuple(part.strip() for text in value for part in text.split(",")) if listed else value
        if given:
            ctx.meta.setdefault(LAYOUT_KEY, {})[key] = given

    kind: dict[str, Any] = {"is_flag": True, "default": False} if metavar is None else {"metavar": metavar}
    if listed:
        kind["multiple"] = True
    return click.Option([name], expose_value=False, is_eager=True, callback=said, help=help, **kind)


LAYOUT = (
    _layout("--columns", "A,B,...", "Names of the columns, for a file without a header.", listed=True),
    _layout("--encoding", "NAME", "Encoding of a text file (default: UTF-8, UTF-16 and latin-1 are recognised)."),
    _layout("--delimiter", "SIGN", "What separates the fields of a text file (default: found)."),
    _layout("--decimal", "SIGN", "The sign before decimals in numbers: , or . (default)."),
    _layout("--thousands", "SIGN", "The sign between thousands in numbers, such as . or ,"),
    _layout("--null", "WORD,...", "Words that stand for an empty value, such as NA or ?", listed=True),
    _layout("--trim", None, "Take blanks off the ends of all values."),
    _layout("--sheet", "NAME", "Sheet of an Excel file (default: the first)."),
)

# who is who
DATA = click.Option(
    ["--data"],
    type=DATA_FILE,
    callback=with_layout,
    help="The table: CSV or other text, Excel, Parquet, JSON or DuckDB, whatever its extension, or the address of a "
    "database (postgresql://USER@HOST/DB); one row per person, or several with the same --id.",
)
TABLE = click.Option(["--table"], help="The table's name in FROM (default: the file stem; more names: [source] names).")
VIEW = click.Option(["--view"], help="A SELECT over the file that gives one row per person, for joins and sums.")
ID = click.Option(["--id"], multiple=True, metavar="COL", help="Column that names the person. Repeatable.")
PRIVATE = click.Option(
    ["--private"],
    multiple=True,
    metavar="COL[:min..max[:step]]",
    help="Private column, with its possible values; COL=flu,cold for categories, COL:real if any number is possible. "
    "Repeatable.",
)
HIDDEN = click.Option(
    ["--hidden"], multiple=True, metavar="COL", help="Column nobody knows and nobody asks about. Repeatable."
)
CONFIG = click.Option(["-c", "--config"], type=FILE, help="Settings, a keyhole.toml; options here override them.")
LOG_FORMAT = click.Option(
    ["--log-format"],
    type=click.Choice([str(kind) for kind in LogFormat]),
    default=str(LogFormat.AUTO),
    show_default=True,
    help="What the log was written by; auto goes by its extension and header.",
)
OUT = click.Option(
    ["--out"], type=FILE, help="Write here instead: complete or not at all (watch: line by line, as it decides)."
)


def _pack_table(values: dict[str, Any]) -> TableArguments:
    """Who is who, and where; `--roster` and `--knowledge` are other names of `--data` and `--config`."""
    known = TableArguments.__annotations__.keys() & values.keys()
    found = cast(TableArguments, {key: values.pop(key) for key in known})
    roster, knowledge = values.pop("roster", None), values.pop("knowledge", None)
    if found.get("config") is not None and knowledge is not None:
        raise click.UsageError("-c and -k are two names of one option: give the settings once, with facts and all.")
    if knowledge is not None:
        found["config"] = knowledge
    if getattr(roster, "path", roster) is not None:
        found["data"] = roster
    return found


def _pack_output(values: dict[str, Any]) -> OutputArguments:
    return OutputArguments(values.pop("format"), values.pop("out"))


def output(*accepted: Format) -> OptionGroup:
    """--format, with the formats that a command can write, and --out."""
    return OptionGroup("output", (formats(*accepted), OUT), _pack_output)


def budget(*options: click.Option) -> OptionGroup:
    """Those of the options about what may be spent that a command has."""
    names = [str(option.name) for option in options]
    return OptionGroup("terms", options, lambda values: BudgetArguments(**{name: values.pop(name) for name in names}))


def table(*options: click.Option) -> OptionGroup:
    """Those of the options about who is who, and where the table is, that a command has."""
    return OptionGroup("table", options, _pack_table)


TABLE_ARGUMENTS = table(DATA, TABLE, VIEW, ID, PRIVATE, HIDDEN, CONFIG, *LAYOUT)

# audit, attack; watch and ask: of the statements that they are given
DIALECT = click.Option(
    ["--dialect"],
    type=click.Choice(DIALECTS),
    help="The engine the log was written for (default: what it was exported from; for .sql and .jsonl the engine of "
    "--data, which is duckdb for files).",
)
NOW = click.Option(
    ["--now"],
    metavar="TIME",
    help="When statements run (or ran, if a log has no time), for CURRENT_DATE and NOW(): 2026-11-15, or with a time.",
)
GROUP_SIZE = click.Option(
    ["--group-size"],
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Also report groups of up to this many people whose total is determined.",
)
AMONG = click.Option(
    ["--among"],
    metavar="K",
    type=click.IntRange(min=1),
    help="An all-clear needs that everybody else has more than K possible values, instead of two. Whoever is proved to "
    "have one of three values is listed without it too.",
)
WITHIN = click.Option(
    ["--within"],
    metavar="WIDTH|SHARE%",
    help="A proved range of at most this width (0.5), or share of its larger end (5%), counts as inferred. A range "
    "from 0 is never a small share: give a width for those.",
)
TIME_LIMIT = click.Option(
    ["--time-limit"],
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="audit: for all of it, advice included; what is not read by then is not judged, and what is proved is kept "
    "(default: none, but 60 for ranges in each system of columns). Elsewhere: for the search.",
)
BASELINE = click.Option(
    ["--baseline"],
    type=FILE,
    help="A former verdict (--format json, or baseline): only what is new counts for the exit code.",
)
BY_ANALYST = click.Option(
    ["--by"],
    type=click.Choice(["analyst"]),
    help="Also judge what each analyst asked alone, where the log says who asked; the exit code is that of the worst.",
)
PROGRESS = flag("--progress", "Say on standard error how far it has come, also where that is no terminal.")
YES = flag("--yes", "Ask nothing: take what is proposed (review: accept all; needs --signed-by and --why).")
ACCEPT = click.Option(
    ["--accept"], type=FILE, help="Waivers that `keyhole review` wrote: what they sign off does not count."
)
FAIL_ON = click.Option(
    ["--fail-on"],
    type=click.Choice(["exposed", "inferred", "unjudged"]),
    default="unjudged",
    show_default=True,
    help="What counts for the exit code, with all that is worse: unjudged counts everything.",
)
KEY = click.Option(
    ["--key"], type=FILE, help="Waivers and baselines are for single people: a secret file of 16 bytes or more."
)
NO_VALUES = flag("--no-values", "Names and proofs, but no private value and no answer, in every format.")
REDACT = flag("--redact", "No names, values, literals, answers or file names, in every format: to be passed on.")
PROOF_SQL = click.Option(
    ["--proof-sql"], type=FILE, help="Also write the proofs as SQL that a sceptic runs in his own database."
)

# verify
VERIFY_LOG = click.Option(
    ["--log"], type=FILE, help="The log (.jsonl or .sql): every statement of a proof must stand in it."
)

# watch
BOOK = click.Option(
    ["--book"], type=FILE, help="The book's file. Default: what the settings name, or book.keyhole beside them."
)
INSIDERS = click.Option(
    ["--insiders"],
    type=click.IntRange(0, 1),
    help="1: nobody may be exposed to any one other participant either (recommended).",
)
EXACT_ABOVE = click.Option(
    ["--exact-above"],
    type=click.IntRange(min=1),
    metavar="K",
    help="Where the range of a private column is known: answer exactly about more than K people only.",
)
LOAD = click.Option(
    ["--load"], type=FILE, multiple=True, help="A log of what was published earlier: it counts too. Repeatable."
)
SAME_VALUES = flag("--same-values", "You vouch that no private value changed since the book began; it has no digest.")
FOLLOW = click.Option(
    ["--follow"], type=FILE, metavar="LOG", help="Enter the statements of a growing log as published; deny nothing."
)
IGNORE = click.Option(
    ["--ignore"],
    multiple=True,
    metavar="TABLE",
    help="A table (or schema.*) of logs that holds nothing about these people, as ignore under [source]. Repeatable.",
)
ACCEPT_UNJUDGED = flag(
    "--accept-unjudged", "Go on although no verdict accounts for some of --load, or of a log that was followed."
)
EXPLAIN = flag("--explain", "Also say whom and by which proof; for the custodian, not the analyst.")

ROUNDING = click.Option(
    ["--rounding"],
    metavar="STEP",
    help="The answers of the log, or numbers of tables, were rounded to multiples of this, such as 1 or 0.01.",
)

# attack
ROSTER = click.Option(
    ["--roster"],
    type=DATA_FILE,
    callback=with_layout,
    help="Another name of --data: the public half of the table suffices.",
)
KNOWLEDGE = click.Option(["-k", "--knowledge"], type=FILE, help="Another name of --config.")
NOISE = click.Option(
    ["--noise"],
    metavar="KIND:SCALE|auto",
    help="Noise of answers that state none: laplace:2, gaussian:0.5; auto: estimated.",
)
TRUTH = click.Option(["--truth"], type=FILE, help="The whole table, to score the guesses against.")
TOLERANCE = click.Option(["--tolerance"], type=float, help="A guess this near counts as within tolerance.")

# answer
EPSILON = click.Option(["--epsilon"], help="Cap of the book, not of this run (rho if unit = rho).")
DELTA = click.Option(["--delta"], help="Cap of delta.")
ACCURACY = click.Option(
    ["--accuracy"],
    metavar="SHARE",
    help="Error bar: a share of n, 0.01 or 1% (add-remove: people). Default: [budget] accuracy; without, ask spends "
    "a tenth of the budget on each question (planner: what is left over --horizon), answer shares out what is left.",
)
BETA = click.Option(
    ["--beta"], type=float, default=0.05, show_default=True, help="Probability that an error bar is missed."
)
HORIZON = click.Option(
    ["--horizon"],
    type=int,
    help="Questions to expect: what is left is shared out over them (default 100; an online-ic run: 1000).",
)
SPEND = click.Option(
    ["--spend"], metavar="SHARE", help="Share of what is left that this file may spend (planner; default 0.1; 1: all)."
)
ANYWAY = flag("--anyway", "Also sell answers whose bar is more than half of all they could be.")
ANALYST = click.Option(["--analyst"], help="Who asks, if the budget is kept per analyst.")
DRY_RUN = flag("--dry-run", "Show what each statement would cost; spend nothing.")

# oracle simulate
DIMENSION = click.Option(
    ["--dimension"], type=click.IntRange(min=1), default=4, show_default=True, help="D, entries of the hidden vector."
)
SUBSPACE = click.Option(
    ["--subspace"],
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="d, dimension of the queries' subspace: equal blocks of entries.",
)
ORACLE_NOISE = click.Option(
    ["--noise"],
    metavar="KIND:u",
    default="uniform:0.25",
    show_default=True,
    help="uniform, gaussian, laplace or triangular, with standard deviation D u / sqrt 3.",
)
QUERIES = click.Option(
    ["--queries"], type=click.IntRange(min=1), default=1_000_000, show_default=True, help="T, length of the stream."
)
SEEDS = click.Option(
    ["--seeds"], type=click.IntRange(min=1), default=8, show_default=True, help="Runs, with seeds 0, 1, ..."
)
BOX_DELTA = click.Option(
    ["--delta"],
    type=float,
    default=0.01,
    show_default=True,
    help="Chance that the certified box may ever lose the hidden vector.",
)
QUESTIONS = click.Option(
    ["--log"],
    type=FILE,
    help="Also write the questions of seed 0 and their answers to this .jsonl file, for `keyhole audit`, and the "
    "hidden vector as a table beside it (.csv).",
)

# audit and tables
RULE = click.Option(
    ["--rule"],
    multiple=True,
    metavar="RULE",
    help='A classical rule: "N<3", "dominance 85%" or "p 15%". Repeatable: each is a check of its own.',
)
ADVISE = flag(
    "--advise", "Also the fewest statements to withhold so that nobody is exposed, verified, and what else would do."
)
