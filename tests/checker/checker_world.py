"""Random small worlds whose verdicts have proofs of every rule, and verdicts with one thing in them made false."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import keyhole
from keyhole.report.documents.json_text import dumps

Data = dict[str, Any]


def write_table(rng: random.Random, path: Path) -> None:
    lines = ["name,a,g,w,x,d"]
    for i in range(rng.randrange(3, 8)):
        a = "" if i and rng.random() < 0.1 else rng.randrange(4)
        x = "" if i and rng.random() < 0.1 else rng.choice((0, 2, 3, 3, 5, 7, 4.5 if path.stem == "half" else 6))
        lines.append(f"r{i},{a},{rng.choice('pqp')},{rng.randrange(1, 4)},{x},{rng.choice(('flu', 'flu', 'cold'))}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def condition(rng: random.Random, private: bool) -> str:
    public = [
        f"a = {rng.randrange(4)}",
        f"a > {rng.randrange(3)}",
        "g = 'p'",
        "g <> 'p'",
        f"name <> 'r{rng.randrange(5)}'",
    ]
    public += [f"name = 'r{rng.randrange(5)}'", f"a BETWEEN {rng.randrange(3)} AND 3"]
    hidden = ["x > 3", "x <= 5", "x = 3", "x <> 3", "d = 'flu'", "d <> 'cold'", "x < 100"]
    parts = [rng.choice(hidden if private and rng.random() < 0.5 else public) for _ in range(rng.randrange(1, 3))]
    text = rng.choice((" AND ", " AND ", " OR ")).join(parts)
    return f"NOT ({text})" if rng.random() < 0.1 else text


SUMS = ("SUM(x)", "SUM(x)", "AVG(x)", "SUM(x * w)", "SUM(2 * x)", "COUNT(*)", "COUNT(x)", "SUM(x) - COUNT(*)")
SQUARES = ("SUM(x * x)", "VAR_POP(x), AVG(x)", "SUM(x), VAR_SAMP(x)", "STDDEV(x), SUM(x)", "SUM(x), SUM(x * x)")


def write_log(rng: random.Random) -> list[str]:
    log = []
    private, squares = rng.random() < 0.5, rng.random() < 0.4
    for _ in range(rng.randrange(2, 7)):
        item = rng.choice((*SUMS, *SQUARES) if squares and not private else SUMS)
        if private and rng.random() < 0.4:
            item = "COUNT(*)"
        where = "" if rng.random() < 0.15 else f" WHERE {condition(rng, private)}"
        shape = rng.random()
        if shape < 0.15:
            log.append(f"SELECT g, 'note' AS n, {item} FROM t{where} GROUP BY g")
        elif shape < 0.2 and private:
            log.append(f"SELECT d, g, COUNT(*) FROM t{where} GROUP BY d, g")
        elif shape < 0.25:
            log.append(f"SELECT {item}, COUNT(*) FROM t{where}")
        else:
            log.append(f"SELECT {item} FROM t{where}")
    return log


def judged(log: list[str], data: Path, **more: Any) -> Data:
    """The JSON of a verdict, read as a stranger reads it."""
    settings: Any = {"private": ["x", "d"], "id": "name", "group_size": 3} | more
    return load(keyhole.audit(list(log), data=data, **settings).dumps())


def load(text: str) -> Data:
    found: Data = json.loads(text, parse_float=Decimal)
    return found


def worlds(seeds: range, folder: Path) -> Iterator[tuple[int, Path, list[str], Data]]:
    """Seed, data, log and verdict; only those in which something is claimed."""
    for seed in seeds:
        rng = random.Random(seed)
        data = folder / ("half.csv" if seed % 4 == 0 else "t.csv")
        write_table(rng, data)
        for _ in range(3):
            log = write_log(rng)
            bounds = rng.choice(("x", "x", "x:0..10"))
            verdict = judged(log, data, private=[bounds, "d"])
            if verdict["exposed"] or verdict["groups"] or any(i["status"] != "open" for i in verdict["intervals"]):
                yield seed, data, log, verdict


# --- what makes a verdict false ---------------------------------------------------------------------------------------


def claims(verdict: Data) -> list[Data]:
    return [*verdict["exposed"], *verdict["groups"], *(i for i in verdict["intervals"] if i["status"] == "inferred")]


def alone(verdict: Data, k: int) -> tuple[Data, Data]:
    """A verdict with its k-th claim only, and that claim, to be tampered with."""
    found = copy.deepcopy(verdict)
    claim = claims(found)[k]
    for name in ("exposed", "groups"):
        found[name] = [c for c in found[name] if c is claim]
    found["intervals"] = [i for i in found["intervals"] if i is claim]
    found["contradictions"], found["complete"] = [], False
    return found, claim


def other_weight(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """One weight is another."""
    if claim["certificate"]["kind"] not in ("identity", "part", "square"):
        return False
    item = rng.choice([i for i in claim["proof"] if "query" in i])
    item["weight"] = str(Fraction(item["weight"]) + rng.choice((1, -1, Fraction(1, 2))))
    return True


def other_person(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """It is said of somebody else."""
    everybody = [json.dumps(i) for i in verdict["everybody"]]
    if "records" in claim:
        others = [o for o in everybody if o not in [json.dumps(r) for r in claim["records"]]]
        if not others:
            return False
        claim["records"][0] = json.loads(rng.choice(others))
        return True
    if claim["certificate"]["kind"] in ("counts", "cases", "equal", "zero", "none"):
        return False  # the same may well be true of somebody else
    said = [json.dumps(c["record"]) for c in verdict["said"] if "record" in c and _alike(c, claim)]  # true of them too
    others = [o for o in everybody if o not in said]
    if not others:
        return False
    claim["record"] = json.loads(rng.choice(others))
    if "row" in claim:
        claim["row"] = everybody.index(json.dumps(claim["record"])) + 1
    return claim["certificate"]["kind"] != "roots"


def _alike(one: Data, other: Data) -> bool:
    return all(one.get(name) == other.get(name) for name in ("column", "value", "lo", "hi", "allowed", "excluded"))


def other_value(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """Another number is claimed."""
    for name in ("value", "total"):
        if isinstance(claim.get(name), int | Decimal):
            claim[name] += rng.choice((1, -1, Decimal("0.001")))
            return True
        if isinstance(claim.get(name), str):
            claim[name] = "cold" if claim[name] == "flu" else "flu"
            return True
    if claim.get("allowed") and all(isinstance(v, int | Decimal) for v in claim["allowed"]):
        claim["allowed"][0] += 1
        return True
    return False


def other_side(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """A range is turned over."""
    if claim.get("status") != "inferred" or claim.get("allowed") or claim.get("excluded"):
        return False
    lo, hi = claim["lo"], claim["hi"]
    if (lo is None) == (hi is None):
        return False
    claim["lo"], claim["hi"] = hi, lo
    return True


def narrower(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """A range is narrower than what is proved."""
    if claim.get("status") != "inferred" or claim.get("allowed") or claim["lo"] is None:
        return False
    claim["lo"] += Decimal("0.9")
    return not isinstance(claim["hi"], int | Decimal) or claim["lo"] <= claim["hi"]


def extra_query(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """Something is added that does not belong there, value and all."""
    if claim["certificate"]["kind"] not in ("identity", "part"):
        return False
    sql = "SELECT SUM(x) FROM t WHERE name = 'r0'"
    claim["proof"].append({"query": "99", "sql": sql, "weight": "1", "answer": 7, "column": 1})
    for name in ("value", "total"):
        if isinstance(claim.get(name), int | Decimal):
            claim[name] += 7
    return True


def other_answer(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """An answer is another, and the value is not."""
    items = [
        i for i in claim["proof"] if isinstance(i.get("answer"), int | Decimal) and not isinstance(i["answer"], bool)
    ]
    if claim["certificate"]["kind"] not in ("identity", "part", "square", "equal", "zero") or not items:
        return False
    item = rng.choice(items)
    item.pop("exactly", None)
    item["answer"] += 1
    return claim["certificate"]["kind"] != "square" or item["weight"] != "0"


def no_certificate(rng: random.Random, claim: Data, verdict: Data) -> bool:
    """The kind is another."""
    kind = claim["certificate"]["kind"]
    claim["certificate"] = {"kind": {"identity": "square", "part": "square"}.get(kind, "identity")}
    return kind != "none"


TAMPERINGS: tuple[Callable[[random.Random, Data, Data], bool], ...] = (
    other_weight,
    other_person,
    other_value,
    other_side,
    narrower,
    extra_query,
    other_answer,
    no_certificate,
)


def tampered(rng: random.Random, verdict: Data) -> Iterator[tuple[str, str]]:
    """False verdicts with one claim each: what was done, and the text."""
    everybody: list[Data] = []
    for i in verdict["intervals"]:
        if i["record"] not in everybody:
            everybody.append(i["record"])
    for k, given in enumerate(claims(verdict)):
        if given["certificate"]["kind"] == "none":
            continue  # nothing to tamper with
        for tamper in TAMPERINGS:
            found, claim = alone(verdict, k)
            if tamper(rng, claim, {**found, "everybody": everybody, "said": claims(verdict)}):
                yield tamper.__name__, dumps(found)
