"""A verdict.json as claims: who, which column, what is said of him, and by which proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

LARGEST_POWER, MOST_DIGITS = 400, 10_000  # numbers are read below 10^400, with so many digits
UNSETTLED = ("open", "limit")  # statuses that say no more than a range, if that
LISTS = ("excluded", "allowed")
STATUSES = ("exposed", "inferred", *UNSETTLED)

# What docs/json.md knows. A field that is not here may say anything, so that nothing with it is said to hold.
# `first` and `why` retell the proof, and are not replayed; `private` are the roles that it is replayed under.
SAID = {"column", "private", "proof", "certificate", "first", "why"}
PERSONAL = {"person", "form", "rows", "grade"}
FIELDS = {
    "exposed": {*SAID, *PERSONAL, "cell", "record", "row", "value", "status", "singled_out", "known", "assumed"},
    "features": {*SAID, *PERSONAL, "status", "if_shown", "assumed"},
    "groups": {*SAID, "records", "rows", "total", "known"},
    "intervals": {
        *SAID,
        *("cell", "record", "row", "lo", "hi", "prior", "status", "value", "excluded", "allowed", "tight", "if_shown"),
        "assumed",
    },
    "certificate.known": {"record", "row", "column", "status", "value", "lo", "hi", "proof", "certificate"},
}
VERDICT = {
    *("sentence", "measures", "proved", "records", "people", "queries", "statements", "complete", "atoms", "rank"),
    *("promise", "assumed"),
    *("source", "exposed", "features", "grades", "groups", "rows", "intervals", "unjudged", "refused"),
    *("contradictions", "warnings", "by_assumption", "accepted", "advice", "rules", "by", "analyst"),
    "witness",
}
TABLES = {  # of keyhole tables besides: what was published, and which cells its rules are about
    *("tables", "cells", "suppressed", "lines", "inferred", "suggestion", "rules_applied", "sensitive", "protection"),
    "by_rule",
    *("rounding", "rounding_given", "uneven", "unrounded"),
}
ASKED = {"query", "sql", "weight", "answer", "form", "rule", "key", "column", "exactly", "besides", "rows", "squares"}
ITEM = {*ASKED, "rounded", "noise", "side", "ends", "offset", "test"}
FACT_ITEM = {"fact", "weight", "where", "column", "total", "ends", "side"}
BOUND_ITEM = {"bound", "each", "weight", "people", "of", "record", "own", "fact", "where", "column", "side"}
SQUARES = {"times", "power", "people", "sum", "scale", "offset"}
TEST = {"op", "value", "offset", "noise", "shown"}
MOMENTS = {"where", "squares", "sum", "scale", "offset", "variance", "factor", "plain", "shift"}
CERTIFICATES = {
    "identity": {"declared", "step"},
    "part": {"declared", "step"},
    "square": {"declared"},
    "range": {"people", "declared", "known"},
    "counts": {"rows", "declared"},
    "equal": MOMENTS,
    "zero": MOMENTS,
    "roots": MOMENTS,
    "cases": {"declared", "every", "stated"},
    "order": {"facts", "stated", "declared", "cases", "known"},
    "rest": {"query", "scale", "offset", "others", "stated", "declared", "known"},
    "both": {"declared", "known"},
    "people": {"table", "tables", "atoms", "counts", "implied", "conditions", "some", "declared"},
    "alone": {"table", "tables", "parts", "constant", "off"},
    "none": {"why"},
}


# --- which types the fields have --------------------------------------------------------------------------------------

NUMBER, TEXT, WHOLE, TRUTH, ANY = "a number, or p/q as text", "a text", "a whole number", "true or false", "a value"
ANYTHING = "anything"
OBJECT, LIST, TEXTS, WHOLES, PAIR = "an object", "a list", "a list of texts", "a list of whole numbers", "a pair"
MAY_BE_NULL = " or null"
ENTRY_TYPES = {
    **dict.fromkeys(("record", "person", "cell"), OBJECT),
    **dict.fromkeys(("column", "status", "form", "grade"), TEXT),
    **dict.fromkeys(("assumed", "tight", "if_shown", "known"), TRUTH),
    **dict.fromkeys(("excluded", "allowed"), LIST),
    **dict.fromkeys(("value", "lo", "hi", "total"), ANY),
    "certificate": f"{OBJECT}{MAY_BE_NULL}",
    "first": f"object:first{MAY_BE_NULL}",
    "row": WHOLE,
    "rows": WHOLES,
    "prior": f"{PAIR}{MAY_BE_NULL}",
    "singled_out": f"{TRUTH}{MAY_BE_NULL}",
    "why": TEXTS,
    "private": TEXTS,
    "records": "entries:record",
    "proof": "entries:item",
}
NEEDED = {
    "exposed": ("record", "column", "value", "proof"),
    "intervals": ("record", "column", "lo", "hi", "status", "proof"),
    "features": ("person", "form", "rows", "column", "proof"),
    "groups": ("records", "rows", "column", "total", "proof"),
    "by_assumption": ("column", "people", "proof"),
    "shown": ("query", "sql", "columns", "records", "singled_out"),
    "item": ("weight",),
    "first": ("query",),
}
TYPES: dict[str, dict[str, str]] = {
    "verdict": {
        **dict.fromkeys(("sentence", "promise", "proved"), TEXT),
        "measures": TEXTS,
        **dict.fromkeys(("records", "queries", "atoms", "rank"), f"{WHOLE}{MAY_BE_NULL}"),
        **dict.fromkeys(("statements", "assumed", "grades"), OBJECT),
        **dict.fromkeys(("unjudged", "refused", "contradictions", "warnings"), "entries:statement"),
        **{name: f"entries:{name}" for name in ("exposed", "features", "groups", "intervals", "by_assumption")},
        "complete": TRUTH,
        "people": WHOLE,
        "source": "object:source",
        "witness": f"{OBJECT}{MAY_BE_NULL}",
        "rows": "entries:shown",
        "by": "entries:verdict",
    },
    "source": {
        **dict.fromkeys(("id", "private", "hidden"), f"{TEXTS}{MAY_BE_NULL}"),
        "kinds": f"{OBJECT}{MAY_BE_NULL}",
        "dialect": f"{TEXT}{MAY_BE_NULL}",
    },
    **dict.fromkeys(("exposed", "intervals", "features", "groups"), ENTRY_TYPES),
    "by_assumption": {"column": TEXT, "people": WHOLE, "why": TEXT, "proof": "entries:item"},
    "shown": {
        "query": TEXT,
        "sql": TEXT,
        "columns": TEXTS,
        "records": f"{WHOLE}{MAY_BE_NULL}",
        "singled_out": f"{WHOLE}{MAY_BE_NULL}",
    },
    "statement": {"query": TEXT, "queries": TEXTS, "reason": TEXT, "error": TEXT},
    "record": {},
    "first": {"query": TEXT, "least": TRUTH},
    "item": {
        "query": TEXT,
        "sql": f"{TEXT}{MAY_BE_NULL}",
        "side": TEXT,
        "form": TEXT,
        "rule": TEXT,
        **dict.fromkeys(("weight", "known", "exactly", "rounded", "noise", "offset"), NUMBER),
        **dict.fromkeys(("key", "squares", "test"), f"{OBJECT}{MAY_BE_NULL}"),
        "ends": f"{PAIR}{MAY_BE_NULL}",
        "besides": f"{LIST}{MAY_BE_NULL}",
        "column": ANY,
        "rows": TRUTH,
    },
}


def wrong_type(entry: Mapping[str, Any], kind: str, path: str = "") -> str:
    """Which field is missing or of another type than docs/json.md says, in a sentence; empty if none is.

    >>> wrong_type({"exposed": [{"record": {}, "column": "pay", "value": 1, "proof": None}]}, "verdict")
    '`exposed[0].proof` must be a list of objects'
    """
    needed = NEEDED.get(kind, ())
    if kind == "item" and not {"query", "bound", "known", "fact"} & set(entry):
        needed = (*needed, "query")
    if kind == "exposed" and entry.get("form"):
        needed = (*needed, "person", "rows")
    for name in needed:
        if name not in entry:
            return f"`{path}{name}` is missing"
    for name, value in entry.items():
        wanted = TYPES[kind].get(name, ANYTHING)
        if value is None and wanted.endswith(MAY_BE_NULL):
            continue
        wanted = wanted.removesuffix(MAY_BE_NULL)
        what, _, inner = wanted.partition(":")
        if not inner:
            if not _has_type(value, wanted):
                return f"`{path}{name}` must be {wanted}"
            continue
        listed = value if what == "entries" else [value]
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            return f"`{path}{name}` must be {'a list of objects' if what == 'entries' else OBJECT}"
        for k, each in enumerate(listed):
            place = f"{path}{name}[{k}]." if what == "entries" else f"{path}{name}."
            if wrong := wrong_type(each, inner, place):
                return wrong
    return ""


def _has_type(value: Any, wanted: str) -> bool:
    if wanted == ANYTHING:
        return True
    if wanted == ANY:
        return not isinstance(value, dict | list)
    if wanted == NUMBER:
        return _is_fraction(value)
    if wanted in (TEXTS, WHOLES):
        return isinstance(value, list) and all(type(each) is (str if wanted == TEXTS else int) for each in value)
    if wanted == PAIR:
        return isinstance(value, list) and len(value) == 2 and all(e is None or _is_fraction(e) for e in value)
    return type(value) is {TEXT: str, WHOLE: int, TRUTH: bool, OBJECT: dict, LIST: list}[wanted]


def _is_fraction(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        fraction(value)
    except (ValueError, ArithmeticError, TypeError):
        return False
    return True


class Unreadable(Exception):
    """The verdict, the log or the data cannot be read: nothing was checked."""


@dataclass(frozen=True)
class Addend:
    """One addend of a proof: a weight on a cell of a statement, on a fact, or on a public constant (`known`)."""

    weight: Fraction
    query: str = ""
    sql: str | None = None
    key: Mapping[str, Any] | None = None
    column: int | None = None
    answer: Any = None
    answered: bool = False
    form: str = ""
    rule: str = ""
    squares: Mapping[str, Any] | None = None
    besides: Sequence[Mapping[str, Any]] | None = None
    fact: Mapping[str, Any] | None = None
    known: Fraction | None = None
    exactly: Fraction | None = None
    rounded: Fraction | None = None  # how far the true number may lie from the answer
    noise: Fraction = Fraction(0)  # how far the answer may lie from what the statement gives
    side: str = ""
    ends: tuple[Fraction | None, Fraction | None] | None = None  # of an answer that is no equation
    offset: Fraction = Fraction(0)  # what is public in such an answer
    bound: Mapping[str, Any] | None = None  # people at an end of what is known of them
    rows: bool = False  # how many rows of the answer have the key
    test: Mapping[str, Any] | None = None  # op, value, offset, noise: what a yes-or-no question compares


@dataclass(frozen=True)
class Claimed:
    """What is said of one record's value, or of the total of several (`status` group); `proof` is what it rests on."""

    status: str
    records: tuple[Mapping[str, Any], ...]
    row: int | None
    column: str
    value: Any
    lo: Any
    hi: Any
    excluded: tuple[Any, ...]
    allowed: tuple[Any, ...]
    proof: tuple[Addend, ...]
    certificate: Mapping[str, Any]
    rows: tuple[int, ...] = ()  # of a person with several records: those that it is about, from 1
    form: str = ""  # what is said of these records, in words
    grade: str = ""
    singled_out: bool | None = None
    prior: tuple[Any, Any] | None = None  # what the entry itself says was known before
    unknown: str = ""  # a field of the entry that is not among those of docs/json.md
    private: tuple[str, ...] = ()  # the private columns, where they are others than those of the verdict
    assumed: bool = False  # said to hold if only the values that the data have are possible
    first: str = ""  # the statement that is said to have completed it

    @property
    def who(self) -> str:
        """The ids as text."""
        return "; ".join(", ".join(str(v) for v in record.values()) for record in self.records)


@dataclass(frozen=True)
class Claims:
    """What a verdict claims, and what it says of its source; nothing of it is believed."""

    claims: tuple[Claimed, ...]
    source: Mapping[str, Any]
    records: int | None
    priors: Mapping[str, tuple[Any, Any]]
    contradictions: int
    unknown: tuple[str, ...] = ()  # fields of the verdict that are not among those of docs/json.md
    raw: Mapping[str, Any] = field(default_factory=dict)  # the verdict itself


class TooLong(ValueError):
    """A number that would fill the memory: 1e999999999 is a short text."""

    def __init__(self) -> None:
        super().__init__(f"a number is too large or too long: below 10^{LARGEST_POWER}, at most {MOST_DIGITS:,} digits")


def read_decimal(text: str) -> Decimal:
    """A number of a verdict or log, with all its digits, if they are not too many.

    >>> read_decimal("1e999999999")
    Traceback (most recent call last):
    keyhole.checker.claims.TooLong: a number is too large or too long: below 10^400, at most 10,000 digits
    """
    if len(text) > MOST_DIGITS + 20:
        raise TooLong
    found = Decimal(text)
    _, digits, exponent = found.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{text} is no number")
    if not found:
        return Decimal(0) if abs(exponent) > MOST_DIGITS else found
    if found.adjusted() >= LARGEST_POWER or max(len(digits), -exponent) > MOST_DIGITS:
        raise TooLong
    return found


def read_json(text: str) -> Any:
    """JSON with numbers as they are written; a field that an object has twice is refused.

    >>> read_json('{"value": 3, "value": 1}')
    Traceback (most recent call last):
    ValueError: the field 'value' stands twice in one object
    """
    try:
        return json.loads(
            text,
            parse_float=read_decimal,
            parse_int=lambda digits: int(read_decimal(digits)),
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_of_distinct_fields,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _object_of_distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name!r} stands twice in one object")
        found[name] = value
    return found


def fraction(given: Any) -> Fraction:
    """A number of a proof: a JSON number, or a text such as 3/2.

    >>> fraction("3/2"), fraction(Decimal("0.1"))
    (Fraction(3, 2), Fraction(1, 10))
    """
    if isinstance(given, Fraction):
        return given
    above, _, below = str(given).partition("/")
    value = Fraction(read_decimal(above)) / Fraction(read_decimal(below or "1"))
    if abs(value) >= 10**LARGEST_POWER:
        raise TooLong
    return value


def number(value: Any) -> Fraction | None:
    """A JSON number as it is written; None if it is none.

    >>> number(Decimal("0.1")), number("x"), number(True)
    (Fraction(1, 10), None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction | float):
        return None
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        return None


def parse(text: str) -> Claims:
    """The text of a verdict.json."""
    try:
        raw = read_json(text)
    except TooLong as error:
        raise Unreadable(f"the verdict: {error}") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"the verdict is not JSON: {error}") from None
    except ValueError as error:
        raise Unreadable(f"the verdict cannot be read: {error}") from None
    if isinstance(raw, dict) and (wrong := wrong_type(raw, "verdict")):
        raise Unreadable(f"the verdict has not the fields of docs/json.md: {wrong}")
    return _read(raw)


def _read(raw: Any) -> Claims:
    if not isinstance(raw, dict) or not isinstance(raw.get("exposed"), list):
        raise Unreadable("this is no verdict: it has no list `exposed` (write one with keyhole audit --format json)")
    try:
        source = raw.get("source") or {}
        listed = raw.get("intervals", ())
        intervals = [i for i in listed if i.get("status") not in UNSETTLED or i.get("proof") or _narrows(i)]
        priors = {str(i["column"]): (i["prior"][0], i["prior"][1]) for i in listed if i.get("prior")}
        groups = raw.get("groups", ())
        whole = [e for e in raw["exposed"] if not e.get("form")]
        forms = [e for e in raw["exposed"] if e.get("form")]
        claims = (
            *_people(whole, intervals),
            *(_form(e, "exposed") for e in forms),
            *(_form(e, "features") for e in raw.get("features", ())),
            *map(_group, groups),
        )
        views = [_read(view) for view in raw.get("by", ())]  # what each analyst alone was told
        claims = (*claims, *(claim for view in views for claim in view.claims))
        against = len(raw.get("contradictions", ())) + sum(view.contradictions for view in views)
        strange = tuple(sorted(set(raw) - VERDICT - (TABLES if "cells" in raw else set())))
        if raw.get("inferred", []) != [i for i in listed if "cells" in raw and i.get("status") == "inferred"]:
            strange += ("inferred, which is not that of its intervals",)
        if any((view.source or source) != source or view.records != raw.get("records") for view in views):
            strange += ("by, which is of other data",)
        strange += tuple(name for view in views for name in view.unknown)
        return Claims(claims, source, raw.get("records"), priors, against, strange, raw)
    except ValueError as error:
        raise Unreadable(f"the verdict has not the fields of docs/json.md: {error}") from None
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
        name = f"; `{error.args[0]}` is missing" if isinstance(error, KeyError) else ""
        raise Unreadable(f"the verdict has not the fields of docs/json.md{name}") from None


def _narrows(i: Mapping[str, Any]) -> bool:
    """Does an entry without a proof say more than what was known before?"""
    said = [i.get("lo"), i.get("hi")]
    return said != list(i.get("prior") or (None, None)) or any(i.get(n) is not None for n in ("value", *LISTS))


def _people(exposed: Sequence[Mapping[str, Any]], intervals: Sequence[Mapping[str, Any]]) -> Iterator[Claimed]:
    """Those exposed, each with his range put to it; and those of whom something else is known."""
    row = any("row" in i for i in intervals)
    ranges: dict[str, Mapping[str, Any]] = {}
    others = []  # said twice of one person: each is a claim of its own
    for i in intervals:
        if _name(i, row=row) in ranges:
            others.append(i)
        else:
            ranges[_name(i, row=row)] = i
    for e in exposed:
        i = ranges.get(_name(e, row=row)) or {}
        value = e["value"]
        same = i.get("status") == "exposed" and all(i.get(n) == e.get(n) for n in ("proof", "certificate"))
        same = same and i.get("value", value) == value
        if same:
            del ranges[_name(e, row=row)]  # else it stays a claim of its own
        yield _claim(e, "exposed", i if same else {"lo": value, "hi": value}, value)
    for i in (*ranges.values(), *others):
        exact = i["status"] == "exposed"
        yield _claim(i, "intervals", i, i.get("value", i["lo"]) if exact else i.get("value"))


def _claim(entry: Mapping[str, Any], where: str, ends: Mapping[str, Any], value: Any) -> Claimed:
    """What an entry says of one value; `ends` is the entry that has its range."""
    if not isinstance(entry["record"], Mapping):
        raise TypeError("a record is not an object")
    prior = ends.get("prior")
    half = next((name for name in sorted(PERSONAL & set(entry))), "")  # of a person's records, without saying what
    return Claimed(
        str(entry.get("status", "exposed")),
        (entry["record"],),
        entry.get("row"),
        entry["column"],
        value,
        ends["lo"],
        ends["hi"],
        tuple(ends.get("excluded", ())),
        tuple(ends.get("allowed", ())),
        *_proof(entry["proof"], entry),
        singled_out=entry.get("singled_out"),
        assumed=entry.get("assumed") is True,
        prior=None if prior is None else (prior[0], prior[1]),
        first=str((entry.get("first") or {}).get("query") or ""),
        unknown=half or unknown_field(entry, where) or (unknown_field(ends, "intervals") if ends is not entry else ""),
        private=_private(entry),
    )


def unknown_field(entry: Mapping[str, Any], where: str) -> str:
    """The first field of an entry that docs/json.md does not have; empty if there is none.

    >>> unknown_field({"column": "pay", "mean": 3, "proof": [], "certificate": {"kind": "both"}}, "intervals")
    'mean'
    """
    if strange := sorted(set(entry) - FIELDS[where]):
        return strange[0]
    if "cell" in entry:  # of a published table: its record is the cell in words
        words = ", ".join(f"{column} {category}" for column, category in sorted(entry["cell"].items()))
        if entry["record"] != {"cell": words or "the grand total"}:
            return "cell, which is not its record"
    certificate = entry.get("certificate") or {}
    fields = {"kind", "declared", "why", "assumed"} | CERTIFICATES.get(str(certificate.get("kind")), set(certificate))
    for name in sorted(set(certificate) - fields):
        return f"certificate.{name}"
    for each in entry.get("proof") or ():
        known = BOUND_ITEM if "bound" in each else {"known", "weight", "side"} if "known" in each else ITEM
        known = FACT_ITEM if "fact" in each and "bound" not in each else known
        inner = {"squares": SQUARES, "test": TEST, "squares.sum": ASKED - {"weight"}}
        found = [f"proof.{name}" for name in sorted(set(each) - known)]
        for name, inside in inner.items():
            part: Any = each
            for step in name.split("."):
                part = part.get(step) if isinstance(part, Mapping) else None
            if isinstance(part, Mapping):
                found += [f"proof.{name}.{key}" for key in sorted(set(part) - inside)]
        if found:
            return found[0]
    return ""


def known_before(claim: Claimed) -> Iterator[Claimed]:
    """The claims about others that a proof rests on, with their own proofs."""
    for e in claim.certificate.get("known") or ():
        yield _claim(e, "certificate.known", e, e["value"])


def _name(entry: Mapping[str, Any], *, row: bool = False) -> str:
    """Whose value it is; with `row` ids repeat, and the row tells records apart."""
    about = [entry["record"], entry["column"], entry["row"] if row else None, _private(entry)]
    return json.dumps(about, default=str, sort_keys=True)


def _private(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The private columns under which an entry is proved; empty: those of the verdict."""
    names = entry.get("private", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("private lists names of columns")
    return tuple(names)


def _form(e: Mapping[str, Any], where: str) -> Claimed:
    """What is said of a person with several records, or of his rows in other tables."""
    value = e.get("value")
    about = (e.get("status", "exposed"), (e["person"],), None, e["column"], value, value, value, (), ())
    unknown = unknown_field(e, where)
    if e.get("record", e["person"]) != e["person"] or e.get("row", e["rows"][0]) != e["rows"][0]:
        unknown = unknown or "record, which is not the person"
    return Claimed(
        *about,
        *_proof(e["proof"], e),
        _rows(e["rows"]),
        str(e["form"]),
        str(e.get("grade", "")),
        e.get("singled_out"),
        assumed=e.get("assumed") is True,
        first=str((e.get("first") or {}).get("query") or ""),
        unknown=unknown,
        private=_private(e),
    )


def _group(g: Mapping[str, Any]) -> Claimed:
    total, found, unknown = g["total"], _proof(g["proof"], g), unknown_field(g, "groups")
    about = (tuple(g["records"]), None, g["column"], total, total, total, (), ())
    first = str((g.get("first") or {}).get("query") or "")
    return Claimed("group", *about, *found, _rows(g["rows"]), first=first, unknown=unknown, private=_private(g))


def _rows(listed: Sequence[Any]) -> tuple[int, ...]:
    if not all(type(r) is int for r in listed):
        raise ValueError("a row is a whole number")
    return tuple(listed)


def _proof(
    items: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]
) -> tuple[tuple[Addend, ...], Mapping[str, Any]]:
    cited = tuple(item(each) for each in items)
    given = entry.get("certificate") or {"kind": "none"}
    return cited, dict(given)


def item(raw: Mapping[str, Any]) -> Addend:
    """One entry of a proof."""
    weight, side = fraction(raw["weight"]), str(raw.get("side", ""))
    given = raw.get("ends")
    ends = None if given is None else (_end(given[0]), _end(given[1]))
    if (raw.get("squares") or {"power": 1})["power"] not in (1, 2):
        raise ValueError("a variance, or its root, has power 1 or 2")
    if "bound" in raw:
        return Addend(weight, side=side, bound=raw)
    if "known" in raw:
        return Addend(weight, known=fraction(raw["known"]), side=side)
    if "fact" in raw:
        return Addend(weight, fact=raw, side=side, ends=ends)
    return Addend(
        weight,
        str(raw["query"]),
        raw.get("sql"),
        raw.get("key"),
        raw.get("column"),
        raw.get("answer"),
        "answer" in raw,
        raw.get("form", ""),
        raw.get("rule", ""),
        raw.get("squares"),
        raw.get("besides"),
        exactly=fraction(raw["exactly"]) if "exactly" in raw else None,
        rounded=fraction(raw["rounded"]) if "rounded" in raw else None,
        noise=fraction(raw.get("noise", "0")),
        side=side,
        ends=ends,
        offset=fraction(raw.get("offset", "0")),
        rows=bool(raw.get("rows")),
        test=raw.get("test"),
    )


def _end(given: Any) -> Fraction | None:
    return None if given is None else fraction(given)
