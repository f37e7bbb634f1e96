"""What `--advise`, `--suggest` and `--rule` add to a verdict: lines for people, a field for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyhole.api.advice import Advice, RuleCheck, RuledAnswer
    from keyhole.api.table_repair import Suggestion
    from keyhole.report.documents.tables import TablesDocument
    from keyhole.report.documents.verdict import RuleResult, StatementAdvice, VerdictDocument
    from keyhole.report.formats.redacted import Withheld
    from keyhole.report.verdict import Verdict

Lines = Iterator[tuple[str, str]]
FEW = 10  # answers of a rule that are listed


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """What goes beside the verdict on a log: advice, and the classical rules that were asked for."""

    advice: Advice | None = None
    rules: tuple[RuleCheck, ...] = ()
    no_advice: str = ""  # why none was sought

    def without(self, what: Withheld | None, names: Iterable[str]) -> Additions:
        """As it may be passed on. The steps of rounding go too: they are as large as the values they are for.

        So do the keys of groups: of a private column they are its values.
        """
        if what is None:
            return self
        rules = tuple(check.without_keys() for check in self.rules)
        if self.advice is None:
            return replace(self, rules=rules)
        from keyhole.sql.statements.redact import redact_statement

        advice, known = self.advice, tuple(names)
        told = None if advice.alternatives is None else replace(advice.alternatives, rounding=())
        after = None if advice.after is None else advice.after.without(what)
        listed = advice.statements
        if what == "all":
            listed = tuple((q, redact_statement(sql, known), times) for q, sql, times in listed)
        return replace(self, rules=rules, advice=replace(advice, statements=listed, after=after, alternatives=told))

    def lines(self) -> Lines:
        """For people."""
        for check in self.rules:
            yield from rule_lines(check)
        if self.advice is not None:
            yield from advice_lines(self.advice)
        if self.no_advice:
            yield from (("", ""), (self.no_advice, "bold"))

    def add_to(self, document: VerdictDocument) -> VerdictDocument:
        """For machines: the verdict with the fields `rules` and `advice`."""
        from msgspec.structs import replace

        rules = tuple(map(_describe_rule, self.rules))
        return replace(document, rules=rules, advice=None if self.advice is None else _describe_advice(self.advice))

    def exit_code(self, code: int) -> int:
        """An answer that fails a rule counts as a finding; one that cannot be decided is no all-clear."""
        if any(check.failing for check in self.rules):
            return 1
        return 3 if code == 0 and any(check.untold for check in self.rules) else code


def rule_lines(check: RuleCheck) -> Lines:
    """One rule on a log: which answers fail it, and of which it cannot be decided."""
    failing, untold = len(check.failing), len(check.untold)
    yield "", ""
    more = f", {untold} cannot be decided" if untold else ""
    fail = "fails" if failing == 1 else "fail"
    yield f"Rule {check.rule}: {failing} of {check.answers} answers {fail}{more}.", "bold red" if failing else "bold"
    yield from ((f"  fails: {_named(each)}", "") for each in check.failing[:FEW])
    yield from ((f"  cannot be decided: {_named(each)}: {each.why}", "") for each in check.untold[:FEW])
    for listed in (check.failing, check.untold):
        if len(listed) > FEW:
            yield f"  ... and {len(listed) - FEW} more (--format json lists all)", ""


def _named(answer: RuledAnswer) -> str:
    key = ", ".join(f"{k} = {v}" for k, v in answer.key)
    count = "" if answer.count is None else f" ({answer.count} contributors)"
    return f"Q{answer.number}{f' [{key}]' if key else ''}{count}: {' '.join(answer.sql.split())[:140]}"


def _describe_rule(check: RuleCheck) -> RuleResult:
    """One rule on a log as data."""
    from keyhole.report.documents.verdict import RuledStatement, RuleResult

    failing, untold = (
        tuple(RuledStatement(query=a.number, sql=a.sql, contributors=a.count, reason=a.why) for a in answers)
        for answers in (check.failing, check.untold)
    )
    return RuleResult(rule=str(check.rule), answers=check.answers, failing=failing, untold=untold)


def advice_lines(advice: Advice) -> Lines:
    """The advice on a log, as lines with their styles."""
    from keyhole.report.advice import SHOWN, others, sentence

    yield "", ""
    remedy = advice.remedy
    yield sentence(remedy, "Withhold", "statements", advice.of, "nobody is exposed or narrowed down"), "bold"
    for q, sql, times in advice.statements[:SHOWN]:
        often = "" if times == 1 else f" (asked {times} times)"
        yield f"  Q{q}{often}: {' '.join(sql.split())[:160]}", ""
    if advice.statements and not remedy.stopped:
        yield f"  Audited again without {'it' if len(advice.statements) == 1 else 'them'}: {_again(advice.after)}", ""
    if advice.alternatives is not None:
        yield "Instead:", "bold"
        yield from ((f"  {line}", "") for line in others(advice.alternatives))


def _again(after: Verdict | None) -> str:
    if after is None:
        return "nothing would be left to audit."
    if after.exit_code == 1:
        return "somebody is still exposed; this is no remedy."
    return "nobody is exposed." if after.complete else f"nobody is exposed, but it is no all-clear: {after.plain.gap}."


def _describe_advice(advice: Advice) -> StatementAdvice:
    """The field `advice`."""
    from keyhole.report.advice import describe_advice
    from keyhole.report.documents.verdict import WithheldStatement

    withhold = [WithheldStatement(query=q, sql=sql, times=times) for q, sql, times in advice.statements]
    after = _again(advice.after) if withhold else ""
    return describe_advice(advice.remedy, withhold, advice.of, after, advice.alternatives, verified=advice.verified)


def suggestion_lines(found: Suggestion) -> Lines:
    """The repair of tables, as lines with their styles."""
    from keyhole.crosstab.cells import label
    from keyhole.model.numbers import format_fraction
    from keyhole.report.advice import SHOWN, left, sentence

    yield "", ""
    shown = len(found.after.hidden.publication.values) + (0 if found.remedy.stopped else len(found.cells))
    ranged = found.protects and found.after.needed
    clean = "no suppressed cell is recovered" + (", nor in too narrow a range" if ranged else "")
    yield sentence(found.remedy, "Suppress", "shown cells", shown, clean), "bold"
    yield from ((f"  {label(key)}", "") for key in found.cells[:SHOWN])
    if len(found.cells) > SHOWN:
        yield f"  ... and {len(found.cells) - SHOWN} more (--format json lists all)", ""
    if found.cells and not found.remedy.stopped:
        told = "no suppressed cell is recovered" if found.verified else "some cell is still recovered"
        if found.verified and found.given_back:
            told += f" ({found.given_back} of those suppressed besides can be, which gives nothing else away)"
        short = len({p.key for p in found.after.unprotected})
        rest = "" if found.after.complete else f", but it is no all-clear: {found.after.gap}"
        rest = f", but {short} in a narrower range than a rule asks for" if short else rest
        yield f"  Audited again without {'it' if len(found.cells) == 1 else 'them'}: {told}{rest}.", ""
    if found.coarser or found.rounded:
        yield "Instead:", "bold"
    for what, cost, effect in found.coarser:
        yield f"  {what} ({cost} cells fewer): {left(effect, 'cells')}", ""
    for step, effect in found.rounded:
        yield f"  every number rounded to a multiple of {format_fraction(step)}: {left(effect, 'cells')}", ""


def add_suggestion(document: TablesDocument, found: Suggestion) -> TablesDocument:
    """The verdict on tables with the field `suggestion`."""
    from msgspec.structs import replace

    from keyhole.report.advice import describe_suggestion

    cells = [dict(sorted(key)) for key in found.cells]
    suggestion = describe_suggestion(found.remedy, cells, found.coarser, found.rounded, verified=found.verified)
    return replace(document, suggestion=suggestion)
