"""`keyhole init engine`: split a table inside its database, so that who decides cannot read a secret."""

from __future__ import annotations

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit_text, exit_with
from keyhole.config.arguments import TableArguments
from keyhole.errors import ConfigError

HELP = """Let the data stay in PostgreSQL: print the SQL that splits the table there.

It makes schema keyhole with the public half and the private half of the table, the roles keyhole_roster (reads the
public half) and keyhole_source (reads both), their GRANTs, and an empty database keyhole_probe, where statements run as
they are written, on made-up rows, by a role of that name. With --run it is executed by the role of the address. Then
say stay = true under [source], with the address of keyhole_roster as data, that of keyhole_source as secrets, and that
of keyhole_probe as probe.

\b
Examples
  keyhole init engine -c keyhole.toml | psql hr
  keyhole init engine --check -c keyhole.toml

\b
Exit code
  0 printed, done, or the role is barred
  2 could not run, or the role can read a secret
"""

RUN = options.flag("--run", "Execute the SQL instead of printing it.")
CHECK = options.flag("--check", "Prove that the role of the address cannot read a private column; refuse otherwise.")
TEARDOWN = options.flag("--teardown", "The SQL that takes schema and made-up database away; the roles stay.")


@options.command(
    "engine",
    HELP,
    options.table(options.DATA, options.TABLE, options.ID, options.PRIVATE, options.HIDDEN, options.CONFIG),
    RUN,
    CHECK,
    TEARDOWN,
)
def engine(table: TableArguments, run: bool, check: bool, teardown: bool) -> None:
    """Print, execute or check."""
    from keyhole.config.settings import settings
    from keyhole.datasets.public_half import address_of_half, check_role, run_statements, write_setup, write_teardown

    given = settings(**table)
    url = address_of_half(given.data, "data")
    roles = given.columns
    if check + teardown > 1 or (check and run):
        raise ConfigError("--check, --teardown: one of them; --check executes nothing that --run could")
    if check:
        private = check_role(url, list(roles.private))
        emit_text(f"{url.shown}: this role cannot read {', '.join(private)}", None)
        exit_with(0)
    if teardown:
        statements = write_teardown()
    elif given.table is None:
        raise ConfigError("say which table has the people: --table SCHEMA.TABLE")
    else:
        statements = write_setup(url, given.table, roles.id, list(roles.private), roles.hidden)
    if run:
        run_statements(url, statements)
        emit_text(f"{url.shown}: done", None)
    else:
        emit_text("\n".join(f"{statement};" for statement in statements), None)
    exit_with(0)
