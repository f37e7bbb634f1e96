"""Runs a fuzzer over many seeds: fresh ones unless told otherwise, resumable, with what failed said reproducibly."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

Play = Callable[[int], Counter[str]]


class FalseVerdict(AssertionError):
    """What was said is not so; the words are all that is needed to see it again."""


def say(text: str) -> None:
    """One line to whoever watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def attempt(play: Play, seed: int) -> tuple[Counter[str], str]:
    """The score of one seed, and what went wrong (else empty)."""
    try:
        return play(seed), ""
    except AssertionError as error:
        return Counter({"false verdicts": 1}), f"seed {seed}: {error}"
    except Exception:  # whatever it is, the next seed is played
        return Counter({"crashes": 1}), f"seed {seed}: {traceback.format_exc()}"


def line(name: str, score: Counter[str]) -> str:
    """What was done, in one line.

    >>> line("logs", Counter({"logs": 3, "statements": 8, "judged": 6, "exposures compared": 2}))
    'logs 3, judged 6 of 8 (75.0 %), exposures compared 2, false verdicts 0, crashes 0'
    """
    asked, judged = score["statements"], score["judged"]
    share = f"judged {judged} of {asked} ({100 * judged / asked:.1f} %), " if asked else ""
    rest = {k: v for k, v in score.items() if k not in (name, "statements", "judged", "false verdicts", "crashes")}
    listed = "".join(f"{k} {v}, " for k, v in rest.items())
    return f"{name} {score[name]}, {share}{listed}false verdicts {score['false verdicts']}, crashes {score['crashes']}"


def main(name: str, play: Play) -> int:
    """`python -m tests.fuzz.NAME [--first SEED] [--count N] [--state FILE]`; a state file is gone on from."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.fuzz.{name}")
    parser.add_argument("--first", type=int, help="the first seed; fresh ones if left out")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds in all")
    parser.add_argument("--state", type=Path, help="where the last seed done is kept, to go on from there")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(10**9) if given.first is None else given.first
    done, score = 0, Counter[str]()
    if given.state is not None and given.state.exists():
        kept = json.loads(given.state.read_text(encoding="utf-8"))
        first, done, score = kept["first"], kept["done"], Counter(kept["score"])
    say(f"{name}: seeds {first} to {first + given.count - 1}, {done} done")
    said = time.monotonic()
    for seed in range(first + done, first + given.count):
        found, wrong = attempt(play, seed)
        score += found
        done += 1
        if wrong:
            say(wrong)
        if time.monotonic() - said > 20 or wrong:
            said = time.monotonic()
            if given.state is not None:
                given.state.write_text(json.dumps({"first": first, "done": done, "score": score}), encoding="utf-8")
            say(f"  seed {seed}: {line(name, score)}")
    if given.state is not None:
        given.state.write_text(json.dumps({"first": first, "done": done, "score": score}), encoding="utf-8")
    say(line(name, score))
    return 1 if score["false verdicts"] or score["crashes"] else 0


def run(name: str, play: Play) -> None:
    """The same as a program."""
    sys.exit(main(name, play))
