"""`python -m checker VERDICT.json --data FILE`: the checker without the rest of keyhole."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .claims import Unreadable
from .replay import replay
from .report import as_data, lines


def main() -> int:
    """Replay, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="checker", description="Replay every proof of a verdict.")
    parser.add_argument("verdict", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--table")
    parser.add_argument("--view")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    try:
        found = replay(given.verdict, given.data, log=given.log, table=given.table, view=given.view)
    except Unreadable as error:
        sys.stderr.write(f"checker: {error}\n")
        return 2
    text = json.dumps(as_data(found), indent=2) if given.format == "json" else "\n".join(lines(found))
    sys.stdout.write(text + "\n")
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
