"""Every option, defined once: a word means the same thing in each command that has it.

A command lists its options and groups of options (`command`); a group reaches its function as one value, as
`keyhole.config.arguments` has it. Nothing heavy is imported here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import click

from keyhole.config.arguments import BudgetArguments, Detail, Format, OutputArguments, TableArguments
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
    *arguments: click.Parameter | OptionGroup,
    parts: Mapping[str, click.Command] | None = None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function the command `name`, with these arguments, options and groups of options.

    `parts` are commands of their own that are called by their names behind it.
    """
    groups = [each for each in arguments if isinstance(each, OptionGroup)]
    params = [one for each in arguments for one in (each.options if isinstance(each, OptionGroup) else (each,))]

    def make(function: Callable[..., None]) -> click.Command:
        def call(**values: Any) -> None:
            packed = {group.name: group.pack(values) for group in groups}
            function(**values, **packed)

        made = GroupedCommand(name, callback=call, help=help or function.__doc__, params=params)
        made.commands = parts or {}
        return made

    return make


# what the first screen of a help leaves out: --help-all shows it
RARE = """
--now --among --rounding --key --by --proof-sql --progress --fail-on --baseline --accept --delta --clip --load --book
--accept-unjudged --same-values --rate --record --range --learner --basis --levels --calibrate --test --tolerance
--compare --max-columns --operators
""".split()  # noqa: SIM905 - thirty words, to be read
PEOPLE = ("--data", "--table", "--id", "--private", "--hidden", "--config")
SHOWING = "--format --out --all --ranges --verbose --no-values --redact --proof-sql --progress".split()  # noqa: SIM905
FIRST_SCREEN = 20  # options that a help shows at once


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, the usual ones first. `commands` are its parts, by name."""

    commands: Mapping[str, click.Command] = {}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """That of the part that is named first, or its own."""
        part = self.commands.get(args[0]) if args else None
        if part is None:
            return super().make_context(info_name, args, parent, **extra)
        context: click.Context = part.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return context

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """With --help-all, where the help does not show all options."""
        params = super().get_params(ctx)
        if not self._list_rare():
            return params
        more = click.Option(
            ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all, help="All options."
        )
        return [*params, more]

    def _list_rare(self) -> list[click.Option]:
        named = [p for p in self.params if isinstance(p, click.Option)]
        return [p for p in named if p.opts[-1] in RARE] if len(named) > FIRST_SCREEN else []

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """People, privacy, output; of the rare ones only the names, unless all are wanted."""
        rare = [] if ctx.meta.get(ALL_OPTIONS) else self._list_rare()
        groups: dict[str, list[tuple[str, str]]] = {"People": [], "Privacy": [], "Output": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or param in rare or not isinstance(param, click.Option):
                continue
            word = param.opts[-1]
            shows = word in SHOWING or word.startswith("--help")
            groups["People" if word in PEOPLE else "Output" if shows else "Privacy"].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=26)
        if rare:
            formatter.write_paragraph()
            more = f"More, with --help-all: {', '.join(p.opts[-1] for p in rare)}."
            formatter.write(f"{textwrap.fill(more, formatter.width, break_on_hyphens=False)}\n")


ALL_OPTIONS = "keyhole.all_options"


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Print the help with all options."""
    if value:
        ctx.meta[ALL_OPTIONS] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def formats(*accepted: Format) -> click.Option:
    """--format, with the formats that a command can write; the first is the default."""
    return click.Option(
        ["--format"],
        type=OneOf(Format, accepted),
        default=accepted[0],
        show_default=str(accepted[0]),
        metavar="WORD",
        help=f"How the result is written: {', '.join(accepted)}.",
    )


def flag(name: str, help: str) -> click.Option:  # noqa: A002 - the word of click
    """An option that is there or not."""
    return click.Option([name], is_flag=True, default=False, help=help)


# who is who
DATA = click.Option(
    ["--data"],
    type=DATA_FILE,
    help="The table: text, Excel, Parquet, JSON or DuckDB file, or postgresql://USER@HOST/DB; a row or more a person.",
)
TABLE = click.Option(["--table"], help="The table's name in FROM (default: the name of the file).")
ID = click.Option(["--id"], multiple=True, metavar="COL", help="Column that names the person. Repeatable.")
PRIVATE = click.Option(
    ["--private"],
    multiple=True,
    metavar="COL[:LO..HI]",
    help="Private column and its possible values: pay:0..900:0.5, ill=flu,cold or pay:real. Repeatable.",
)
HIDDEN = click.Option(
    ["--hidden"], multiple=True, metavar="COL", help="Column nobody knows and nobody asks about. Repeatable."
)
CONFIG = click.Option(["-c", "--config"], type=FILE, help="Settings (default without --data: keyhole.toml here).")
LOG_FORMAT = click.Option(
    ["--log-format"],
    type=click.Choice([str(kind) for kind in LogFormat]),
    default=str(LogFormat.AUTO),
    show_default=True,
    help="What wrote the log (auto: found).",
)
OUT = click.Option(["--out"], type=FILE, help="Write to this file instead of the terminal.")


def _pack_table(values: dict[str, Any]) -> TableArguments:
    """Who is who, and where; keyhole.toml in the working folder where neither data nor settings are named."""
    known = TableArguments.__annotations__.keys() & values.keys()
    found = cast(TableArguments, {key: values.pop(key) for key in known})
    here = Path("keyhole.toml")
    if "config" in found and found["config"] is None and found.get("data") is None and here.is_file():
        found["config"] = here
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


TABLE_ARGUMENTS = table(DATA, TABLE, ID, PRIVATE, HIDDEN, CONFIG)

# audit, attack; watch and ask: of the statements that they are given
DIALECT = click.Option(
    ["--dialect"],
    type=click.Choice(DIALECTS),
    help="The engine the log was written for (default: what wrote it, or duckdb).",
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
    metavar="K",
    help="Also report groups of up to K people whose total is determined.",
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
    help="A proved range of at most this width (0.5), or share of its larger end (5%), counts as a finding.",
)
TIME_LIMIT = click.Option(
    ["--time-limit"],
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after so long: what is proved is kept, the rest is not judged.",
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
ALL = flag("--all", "Everybody, every proof and every statement, not one screen of them.")
RANGES = flag("--ranges", "Also those whose possible range became narrower, with the reasons.")
VERBOSE = click.Option(
    ["-v", "--verbose"], is_flag=True, default=False, help="Also the technical lines: classes, rank, conditions."
)
DETAIL = OptionGroup(
    "detail",
    (ALL, RANGES, VERBOSE),
    lambda values: Detail(values.pop("all"), values.pop("ranges"), values.pop("verbose")),
)
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
NO_VALUES = flag("--no-values", "Names and proofs, but no private value and no answer.")
REDACT = flag("--redact", "No names, values, literals, answers or file names: to be passed on.")
PROOF_SQL = click.Option(
    ["--proof-sql"], type=FILE, help="Also write the proofs as SQL that a sceptic runs in his own database."
)

# verify, oracle steal and init
SEED = click.Option(
    ["--seed"], type=int, metavar="N", help="What is drawn at random: the same number draws the same again."
)
LOG_FILE = click.Option(
    ["--log"],
    type=FILE,
    help="The log. init: what its tables are called is proposed; verify: every statement of a proof must stand in it.",
)

# watch
BOOK = click.Option(
    ["--book"], type=FILE, help="The book's file. Default: what the settings name, or book.keyhole beside them."
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
ACCEPT_UNJUDGED = flag(
    "--accept-unjudged", "Go on although no verdict accounts for some of --load, or of a log that was followed."
)
EXPLAIN = flag("--explain", "Also say whom and by which proof; for the owner, not the analyst.")

ROUNDING = click.Option(
    ["--rounding"],
    metavar="STEP",
    help="The answers of the log, or numbers of tables, were rounded to multiples of this, such as 1 or 0.01.",
)

# attack
NOISE = click.Option(
    ["--noise"],
    metavar="KIND:SCALE|auto",
    help="Noise of answers that state none: laplace:2, gaussian:0.5; auto: estimated.",
)
TRUTH = click.Option(["--truth"], type=FILE, help="The whole table, to score the guesses against.")
TOLERANCE = click.Option(["--tolerance"], type=float, help="A guess this near counts as within tolerance.")

# ask
ERROR = click.Option(
    ["--error"],
    metavar="SIZE|SHARE%",
    help="The error bar you need: 500 in the units of the answer, or 5% of the largest possible answer. Else what is "
    "left of the budget is shared out over the questions to come ([budget] horizon).",
)
ANYWAY = flag("--anyway", "Answer even if the error bar covers more than half of the possible range.")
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
    help='A classical rule: "N<3", "dominance 85%" or "p 15%". Repeatable.',
)
ADVISE = flag("--advise", "Also the fewest statements to withhold, verified, and alternatives.")
