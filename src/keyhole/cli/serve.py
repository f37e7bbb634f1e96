"""`keyhole serve`: the server, its keys, and its demo."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import re
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit, exit_with, write_whole
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.serve.server import ServerSettings

HELP = """Serve questions over HTTP, MCP and the PostgreSQL protocol.

Every door asks the same sessions: exact answers that expose nobody, or noise under a budget, as the settings say.
Callers need a key. All populations are opened, or none. On SIGTERM no new question is taken; what was answered is in
the book. An agent that starts it speaks MCP with --mcp-stdio. `keyhole serve --demo` shows all of it on a made-up
hospital.

\b
Examples
  keyhole serve --demo
  keyhole serve -c keyhole.toml --http 127.0.0.1:8300

\b
Exit code
  0 it was closed, or --check found nothing wrong; 2 could not run.
"""
KEYS_HELP = """Make, list and revoke the keys of callers.

A key is shown once; the file has its digest alone. A running server takes changes at once.

\b
Examples
  keyhole serve keys add ann --days 90
  keyhole serve keys add assistant --per-day 200 --per-minute 20
  keyhole serve keys add owner --role owner
  keyhole serve keys revoke ann
"""
TRY = """\
A made-up hospital of 5,000 patients is served from {folder}.
Names, wards, towns, ages are public. Blood sugar is not: answers about it expose nobody, or are not given.

{doors}

The code for the dashboard, once: {code}

Try, in another terminal:
  cd {folder}
  curl -s {place}/v1/query -H @ann.header -H 'content-type: application/json' -d @average.json
  curl -s {place}/v1/query -H @ann.header -H 'content-type: application/json' -d @everybody.json
  curl -s {place}/v1/query -H @bob.header -H 'content-type: application/json' -d @all-but-one.json
The last one is denied: with everybody's sum it would tell one patient's value, although another analyst asked for that.
"""
DEMO_CONFIG = """\
[source]
data = "patients.csv"

[columns]
id = ["patient"]

[columns.private.blood_sugar]
min = 3
max = 20
step = 0.1

[online]
exact_above = 10
"""
DEMO_QUESTIONS = {
    "average": "SELECT ward, AVG(blood_sugar), COUNT(*) FROM patients GROUP BY ward ORDER BY 2 DESC",
    "everybody": "SELECT SUM(blood_sugar) FROM patients",
    "all-but-one": "SELECT SUM(blood_sugar) FROM patients WHERE patient <> '{patient}'",
}


def _log() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("keyhole.serve").setLevel(logging.INFO)
    for name in ("mcp", "asyncio", "uvicorn"):  # their lines may quote what was asked
        logging.getLogger(name).setLevel(logging.CRITICAL)


def open_doors(
    config: tuple[Path, ...],
    http: str | None,
    postgres: str | None,
    mcp_stdio: bool,
    key_env: str,
    check: bool,
    demo: bool,
) -> None:
    """Open, announce, stay."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return
    from keyhole.serve.server import choose_settings

    _log()
    if demo:
        _serve_demo(http)
        return
    configs = config or ((Path("keyhole.toml"),) if Path("keyhole.toml").is_file() else ())
    if not configs:
        raise ConfigError("say what is served: -c keyhole.toml, or --demo to look at a made-up hospital")
    found, keys, per_minute = choose_settings(configs)
    settings = _override(found, http, postgres)
    if mcp_stdio:
        _serve_stdio(configs, keys, per_minute, key_env)
    else:
        _serve(configs, keys, per_minute, settings, check=check)
    exit_with(0)


def _override(found: ServerSettings, http: str | None, postgres: str | None) -> ServerSettings:
    from dataclasses import replace

    return replace(found, http=http or found.http, postgres=postgres or found.postgres)


def _serve(configs: tuple[Path, ...], keys: Path, per_minute: int, settings: ServerSettings, *, check: bool) -> None:
    from keyhole.serve.gate import Gate
    from keyhole.serve.server import check_tls, run_server

    async def stay() -> None:
        gate = Gate.open(configs, keys, per_minute=per_minute)
        try:
            check_tls(settings.tls)
            for each in gate.populations.values():
                book = each.session.book
                emit(f"{each.name}: {each.policy}, {book.state.seq} entries in {book.name}", None)
                if book.witness is None:
                    emit("  it has no witness ([book] witness): an older copy of it would not be noticed", None)
            if check:
                emit("everything opens; nothing was served", None)
            else:
                if not gate.keys.keys:
                    emit("nobody has a key yet: keyhole serve keys add NAME", None)
                await run_server(gate, settings, lambda line: emit(line, None))
        finally:
            gate.close()

    asyncio.run(stay())


def _serve_stdio(configs: tuple[Path, ...], keys: Path, per_minute: int, key_env: str) -> None:
    from keyhole.serve.gate import Gate
    from keyhole.serve.keys import KeyRole
    from keyhole.serve.mcp import serve_stdio

    async def stay() -> None:
        gate = Gate.open(configs, keys, per_minute=per_minute)
        try:
            caller = gate.keys.find(os.environ.pop(key_env, ""))
            if caller is None or caller.role is not KeyRole.ANALYST:
                raise ConfigError(
                    f"the environment variable {key_env} has no key of an analyst: keyhole serve keys add NAME"
                )
            await serve_stdio(gate, caller)
            await gate.drain()
        finally:
            gate.close()

    asyncio.run(stay())


def _serve_demo(http: str | None) -> None:
    """A hospital, two analysts, an owner; on loopback alone."""
    import json

    from keyhole.cli.demo import clinic_csv
    from keyhole.serve.gate import Gate
    from keyhole.serve.keys import KeyRole
    from keyhole.serve.server import HTTP, ServerSettings, is_loopback, run_server, split_address

    address = http or HTTP
    if not is_loopback(split_address(address)[0]):
        raise ConfigError(f"the demo is for this machine alone: {address} can be reached from others")
    folder = Path(tempfile.mkdtemp(prefix="keyhole-serve-"))  # 0700
    csv = clinic_csv()
    write_whole(folder / "patients.csv", csv)
    write_whole(folder / "keyhole.toml", DEMO_CONFIG)
    for name, sql in DEMO_QUESTIONS.items():
        patient = csv.splitlines()[1].partition(",")[0]
        write_whole(folder / f"{name}.json", json.dumps({"sql": sql.format(patient=patient)}) + "\n")
    code = "-".join(re.findall("....", secrets.token_hex(6)))

    async def stay() -> None:
        gate = Gate.open([folder / "keyhole.toml"], folder / "keys.keyhole", per_minute=600)
        try:
            for name, role in (("ann", KeyRole.ANALYST), ("bob", KeyRole.ANALYST), ("owner", KeyRole.OWNER)):
                header = folder / f"{name}.header"
                header.touch(0o600)
                header.write_text(f"Authorization: Bearer {gate.keys.add(name, role)}\n", encoding="utf-8")
            lines: list[str] = []

            def announce(line: str) -> None:
                if not line.startswith("closing"):
                    lines.append(line)
                if line.startswith("dashboard"):
                    place = line.split()[-1].removesuffix("/dashboard")
                    emit(TRY.format(folder=folder, doors="\n".join(lines), code=code, place=place), None)
                    _open_browser(f"{place}/dashboard")

            await run_server(gate, ServerSettings(http=address, code=code), announce)
        finally:
            gate.close()

    asyncio.run(stay())


def _open_browser(url: str) -> None:
    """Only where somebody sits in front of it."""
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        import webbrowser

        webbrowser.open(url)


# --- keys -------------------------------------------------------------------------------------------------------------

NAME = click.Argument(["name"])


def _keys_path() -> Path:
    """What keyhole.toml here names under [serve], else keys.keyhole."""
    from keyhole.serve.server import choose_settings

    here = Path("keyhole.toml")
    return choose_settings((here,))[1] if here.is_file() else Path("keys.keyhole")


@options.command(
    "add",
    None,
    NAME,
    click.Option(["--role"], type=click.Choice(["analyst", "owner"]), default="analyst", show_default=True,
                 help="An analyst asks; an owner reads the book and the dashboard."),
    click.Option(["--days"], type=click.IntRange(1, 3650), help="For how many days; always, if not given."),
    click.Option(["--per-minute"], type=click.IntRange(1, 100_000), help="Requests a minute."),
    click.Option(["--per-day"], type=click.IntRange(1, 10_000_000), help="Questions a day; no cap if not given."),
    click.Option(["--population"], multiple=True, metavar="NAME", help="What it reaches. Repeatable."),
)  # fmt: skip
def add(
    name: str,
    role: str,
    days: int | None,
    per_minute: int | None,
    per_day: int | None,
    population: tuple[str, ...],
) -> None:
    """Make a key and show it, once."""
    from keyhole.serve.keys import KeyRing, KeyRole

    expires = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    ring = KeyRing(_keys_path())
    made = ring.add(
        name, KeyRole(role), expires=expires, per_minute=per_minute, per_day=per_day, populations=population
    )
    emit(made, None)
    exit_with(0)


@options.command("list", None)
def list_keys() -> None:
    """Whose keys there are; none of them is shown."""
    from keyhole.serve.keys import KeyRing

    found = KeyRing(_keys_path()).keys
    lines = [
        f"{key.prefix}…  {key.role:<7}  {key.name}  until {key.expires or 'revoked'}"
        + (f"  {key.per_day} a day" if key.per_day else "")
        + (f"  {', '.join(key.populations)}" if key.populations else "")
        for key in found
    ]
    emit("\n".join(lines) or "nobody has a key", None)
    exit_with(0)


@options.command("revoke", None, NAME)
def revoke(name: str) -> None:
    """Take away the keys of a name, or the one key that begins so."""
    from keyhole.serve.keys import KeyRing

    ring = KeyRing(_keys_path())
    gone = ring.revoke(name)
    if not gone:
        raise ConfigError(f"no key is called {name!r} or begins so: keyhole serve keys list")
    emit(f"{gone} {'key' if gone == 1 else 'keys'} revoked", None)
    exit_with(0)


serve_keys = click.Group("keys", help=KEYS_HELP, no_args_is_help=True, commands=[add, list_keys, revoke])
serve = click.Group(
    "serve",
    callback=open_doors,
    help=HELP,
    invoke_without_command=True,
    commands=[serve_keys],
    params=[
        click.Option(["-c", "--config"], type=options.FILE, multiple=True, help="Settings. Repeatable."),
        click.Option(["--http"], metavar="ADDR", help="Where HTTP, MCP and the dashboard are, such as 127.0.0.1:8300."),
        click.Option(["--postgres"], metavar="ADDR", help="Where the PostgreSQL protocol is; nowhere if not given."),
        options.flag("--mcp-stdio", "Speak MCP on standard input and output, for the agent that starts this."),
        click.Option(["--key-env"], default="KEYHOLE_KEY", show_default=True, help="What has the agent's key."),
        options.flag("--check", "Open everything, say what it is, and close."),
        options.flag("--demo", "Serve a made-up hospital with two analysts, on this machine alone."),
    ],
)  # fmt: skip
