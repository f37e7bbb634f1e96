"""`keyhole oracle`: simulated, attacked, stolen from."""

from __future__ import annotations

import click

from keyhole.cli.oracle.attack import attack
from keyhole.cli.oracle.simulate import simulate
from keyhole.cli.oracle.steal import steal

oracle = click.Group(
    "oracle",
    help="Learn what a system hides that says only yes or no, or names a class.",
    no_args_is_help=True,
    commands=[simulate, attack, steal],
)
