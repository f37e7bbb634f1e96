"""How far one command walks through the code: python -m benchmarks.walks [--by-folder].

Each command runs on the hospital of `keyhole demo`, traced. Counted are the functions of the package that it
enters, the files they are in, and the hops: distinct pairs of a function and a function of another package (a folder or
module right under `keyhole`) that it calls. Fewer means less to read for whoever follows a question through the house.
`--by-folder` says where they are: functions and files of each folder, and the hops that lead into it.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeAlias

HOSPITAL = ["--id", "Name", "--private", "Blood sugar"]
DECLARED = ["--private", "Blood sugar:3.0..10.0:0.1", "--exact-above", "2"]
COMMANDS = {
    "audit": ["audit", "log.sql", "--data", "people.csv", *HOSPITAL],
    "watch": ["ask", "--decide-only", "--data", "people.csv", "--id", "Name", *DECLARED, "--book", "history.keyhole"],
    "attack": ["attack", "transcript.jsonl", "--data", "roster.csv", *HOSPITAL],
    "answer": ["ask", "-f", "queries.sql", "-c", "keyhole.toml", "--anyway"],  # six people: noise leaves little
    "simulate": ["oracle", "simulate", "--queries", "1000", "--seeds", "1"],
}
QUERIES = "SELECT COUNT(*) FROM people WHERE Gender = 'Male'; SELECT AVG(\"Blood sugar\") FROM people;"
DOMAIN = '\n[columns.public.Gender]\nvalues = ["Male", "Female"]\n[budget]\nepsilon = 1.0\n'


Place: TypeAlias = tuple[str, str]  # a file, and a function in it


@dataclass(frozen=True, slots=True)
class Walk:
    """What a command enters, and the calls (from, to) that lead from one folder into another."""

    functions: set[Place] = field(default_factory=set)
    hops: set[tuple[Place, Place]] = field(default_factory=set)

    def counts(self) -> tuple[int, int, int]:
        """Functions, files and hops."""
        return len(self.functions), len({file for file, _ in self.functions}), len(self.hops)

    def by_folder(self) -> dict[str, tuple[int, int, int]]:
        """The same for each folder, the largest first; its hops are those that lead into it."""
        functions = Counter(Path(file).parts[0] for file, _ in self.functions)
        files = Counter(Path(file).parts[0] for file in {file for file, _ in self.functions})
        hops = Counter(Path(file).parts[0] for _, (file, _) in self.hops)
        return {folder: (count, files[folder], hops[folder]) for folder, count in functions.most_common()}


def walk(arguments: list[str]) -> Walk:
    """The walk of one command, in this process."""
    import keyhole
    from keyhole.cli.root import app

    base = str(Path(keyhole.__file__).parent) + os.sep
    found = Walk()

    def entered(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(base) or frame.f_code.co_name.startswith("<"):
            return
        here = (frame.f_code.co_filename[len(base) :], frame.f_code.co_qualname)
        found.functions.add(here)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(base):
            caller = caller.f_back
        if caller is not None:
            there = (caller.f_code.co_filename[len(base) :], caller.f_code.co_qualname)
            if Path(there[0]).parts[0] != Path(here[0]).parts[0]:
                found.hops.add((there, here))

    for profile in (None, entered):  # once unseen: imports are no part of the walk
        for left in Path().glob("*.keyhole*"):
            left.unlink()
        sys.stdin = io.StringIO(Path("log.sql").read_text(encoding="utf-8"))
        sys.setprofile(profile)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                code = app(arguments, prog_name="keyhole", standalone_mode=False)
        finally:
            sys.setprofile(None)
        if code not in {None, 0, 1, 3}:
            raise RuntimeError(f"keyhole {' '.join(arguments)} ended with {code}: its walk says nothing")
    return found


def main() -> None:
    """One child for each command, so that nothing is imported or compiled already."""
    words = [word for word in sys.argv[1:] if word != "--by-folder"]
    if words:
        found = walk(COMMANDS[words[0]])
        rows = {words[0]: found.counts()}
        if "--by-folder" in sys.argv:
            rows |= {f"  {folder}": counts for folder, counts in found.by_folder().items()}
        for name, counts in rows.items():
            print(f"{name:12}" + "".join(f"{n:>10}" for n in counts))
        return
    from keyhole.cli import demo

    print(f"{'walk':12}{'functions':>10}{'files':>10}{'hops':>10}")
    root = str(Path(__file__).resolve().parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            "people.csv": demo.PEOPLE,
            "roster.csv": demo.ROSTER,
            "log.sql": demo.LOG,
            "transcript.jsonl": demo.TRANSCRIPT,
            "keyhole.toml": demo.CONFIG + DOMAIN,
            "queries.sql": QUERIES,
        }.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        for name in COMMANDS:
            command = [sys.executable, "-m", "benchmarks.walks", name, *sys.argv[1:]]
            subprocess.run(command, cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    main()
