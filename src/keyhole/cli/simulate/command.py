"""`keyhole simulate`: the games that there are."""

from __future__ import annotations

import click

from keyhole.cli.simulate.attack import attack
from keyhole.cli.simulate.release import release

simulate = click.Group(
    "simulate",
    help="Play attacks and defences against simulated databases.",
    no_args_is_help=True,
    commands=[release, attack],
)
