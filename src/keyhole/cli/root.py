"""The root of the command line: what there is, told without importing any of it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from keyhole.cli.shared.narrow_lines import fit_help, narrow_help
from keyhole.version import __version__


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand: its name, which its module defines, and its help in one line."""

    name: str
    module: str
    line: str


ENTRIES = (
    Subcommand("demo", "keyhole.cli.demo", "Tell the hospital story: three harmless sums give one patient away."),
    Subcommand("init", "keyhole.cli.setup.init", "Look at a file or database and propose a keyhole.toml."),
    Subcommand("audit", "keyhole.cli.audit", "Prove who is exposed by a log of aggregate queries."),
    Subcommand(
        "tables", "keyhole.cli.published.tables", "Prove which suppressed cells of published tables can be recovered."
    ),
    Subcommand(
        "reconstruct",
        "keyhole.cli.published.reconstruct",
        "Rebuild the rows behind published statistics, and prove whether they are the only ones.",
    ),
    Subcommand("verify", "keyhole.cli.verdict.verify", "Replay every proof of a verdict on made-up private values."),
    Subcommand("review", "keyhole.cli.verdict.review", "Walk through a verdict and sign off what is accepted."),
    Subcommand(
        "report",
        "keyhole.cli.verdict.report",
        "Write a verdict or a book as one self-contained page: no network, any browser, light and dark, prints.",
    ),
    Subcommand(
        "attack", "keyhole.cli.attack.command", "Rebuild private values from a transcript of questions and answers."
    ),
    Subcommand(
        "oracle", "keyhole.cli.oracle.command", "Learn what a system hides that says only yes or no, or names a class."
    ),
    Subcommand("plan", "keyhole.cli.plan", "Find the fewest questions that give somebody away, or prove that none do."),
    Subcommand("simulate", "keyhole.cli.simulate.command", "Play attacks and defences against simulated databases."),
    Subcommand(
        "ask", "keyhole.cli.session.ask", "Ask one question, or a file of them, and get answers that are safe to give."
    ),
    Subcommand(
        "watch", "keyhole.cli.session.watch", "Follow a log as it is written, and say at once whom a statement exposes."
    ),
    Subcommand("book", "keyhole.cli.book", "Show, verify or export what was asked, answered and paid."),
    Subcommand("serve", "keyhole.cli.serve", "Serve questions over HTTP, MCP and the PostgreSQL protocol."),
    Subcommand("explain", "keyhole.cli.verdict.explain", "Say what a word of the output means."),
)

HELP = """What aggregate statistics give away about people, and how to answer safely.

\b
Start with `keyhole demo`, then
  settings for your own data
    keyhole init patients.csv
  audit what was answered
    keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"
  learn from an oracle that says only yes or no
    keyhole oracle simulate --noise uniform:0.25 --learner sequential
  ask one question, safely
    keyhole ask -c keyhole.toml "SELECT AVG(pay) FROM staff"
  follow a server's log
    keyhole watch server.log -c keyhole.toml
  attack as an outsider
    keyhole attack transcript.jsonl --data people.csv --id Name --private "Blood sugar"
"""


def load(entry: Subcommand) -> click.Command:
    """Import a subcommand."""
    found = getattr(import_module(entry.module), entry.name)
    assert isinstance(found, click.Command)
    return narrow_help(found)


class Lazy(click.Group):
    """Holds stand-ins, made of `ENTRIES`, and imports a subcommand only when it is called or asked for its options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the story."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The real subcommand: now it is called."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        found = next((entry for entry in ENTRIES if entry.name == name), None)
        return name, stand_in if found is None else load(found), rest

    def invoke(self, ctx: click.Context) -> Any:
        """Whatever a subcommand does, from its import on, ends in one place."""
        from keyhole.cli.shared.terminal import exit_on_error
        from keyhole.engines.open_files import run_closing_all

        with exit_on_error(), run_closing_all():
            return super().invoke(ctx)


app = Lazy(
    "keyhole",
    commands={entry.name: click.Command(entry.name, help=entry.line, short_help=entry.line) for entry in ENTRIES},
    help=fit_help(HELP),
    no_args_is_help=True,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="keyhole", message="%(prog)s %(version)s", help="Print the version.")(app)
