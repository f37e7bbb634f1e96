"""`keyhole engine`: split a table inside its database, so that who decides cannot read a secret."""

from __future__ import annotations

from enum import StrEnum

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit_text, exit_with
from keyhole.config.arguments import TableArguments
from keyhole.errors import ConfigError

HELP = """Let the data stay in PostgreSQL: set up, check, take away.

ACTION is one of

\b
  setup      print the SQL that makes schema keyhole with the public half and the private half of the table, the roles
             keyhole_roster (reads the public half) and keyhole_source (reads both), and their GRANTs
  check      prove that the role that decides cannot read a private column; refuse otherwise
  teardown   print the SQL that takes schema and roles away

With --execute the SQL is executed in one transaction instead, by the role of the address. Then say stay = true under
[source], with the address of keyhole_roster as data and that of keyhole_source as secrets.

\b
Examples
  keyhole engine setup -c keyhole.toml | psql hr
  keyhole engine check --data postgresql://keyhole_roster@db/hr --private pay

\b
Exit code
  0 printed, done, or the role is barred; 2 could not run, or the role can read a secret.
"""


class Action(StrEnum):
    """What is to be done."""

    SETUP = "setup"
    CHECK = "check"
    TEARDOWN = "teardown"


EXECUTE = options.flag("--execute", "Execute it, in one transaction, instead of printing it.")


@options.command(
    "engine",
    HELP,
    click.Argument(["action"], type=options.OneOf(Action)),
    options.table(options.DATA, options.TABLE, options.ID, options.PRIVATE, options.HIDDEN, options.CONFIG),
    EXECUTE,
)
def engine(action: Action, table: TableArguments, execute: bool) -> None:
    """Print, execute or check."""
    from keyhole.config.settings import settings
    from keyhole.datasets.public_half import address_of_half, check_role, run_statements, write_setup, write_teardown

    given = settings(**table)
    url = address_of_half(given.data, "data")
    roles = given.columns
    if action is Action.CHECK:
        private = check_role(url, list(roles.private))
        emit_text(f"{url.shown}: this role cannot read {', '.join(private)}", None)
        exit_with(0)
    if action is Action.SETUP:
        if given.table is None:
            raise ConfigError("say which table has the people: --table SCHEMA.TABLE")
        statements = write_setup(url, given.table, roles.id, list(roles.private), roles.hidden)
    else:
        statements = write_teardown()
    if execute:
        run_statements(url, statements)
        emit_text(f"{url.shown}: done", None)
    else:
        emit_text("\n".join(f"{statement};" for statement in statements), None)
    exit_with(0)
