"""Statements answered by the planner: read, planned, bought where they must be, answered from all that is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

from keyhole.basis.cells.domain import Domain
from keyhole.book.noisy_tables import table_lines
from keyhole.config import toml_key
from keyhole.defence.answering import Answered, Priced
from keyhole.defence.base import half_of_everybody
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import epsilon_at, round_down
from keyhole.defence.load import asking_schema
from keyhole.defence.noise import NoiseSource, exact_noise
from keyhole.defence.planner.affordable import affordable
from keyhole.defence.planner.asks import AskedStatement, asked
from keyhole.defence.planner.choice import Chooser, Chosen, NotSold
from keyhole.defence.planner.clipping import ClippingAdvice, buy_clipping
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.estimates import estimates
from keyhole.defence.planner.group_quantiles import (
    buy_groups,
    check_groups,
    group_orders,
    released_groups,
    whole_price,
    why_no_groups,
)
from keyhole.defence.planner.holdings import Holdings
from keyhole.defence.planner.keys import buy_keys, key_groups, key_note, key_order, released_keys
from keyhole.defence.planner.orders import Buying
from keyhole.defence.planner.quantiles import buy_quantile, coarse_note
from keyhole.defence.planner.stream import StreamPlan, StreamPlanner
from keyhole.defence.planner.terms import PlanTerms
from keyhole.defence.planner.tree import buy_tree
from keyhole.defence.tables.margins import Margins, SourceMargins
from keyhole.defence.workload import Estimate, GroupKey
from keyhole.errors import BudgetExhausted, ConfigError, PrivacyParameterError, QueryError
from keyhole.model.query import Refused, Statement
from keyhole.model.schema import Role, Schema
from keyhole.sql import lower

REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A statement that was read."""

    sql: str
    statement: Statement
    question: AskedStatement

    @property
    def mark(self) -> str:
        """Under what it is noted."""
        return hashlib.blake2b(self.question.fingerprint().encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class PlanSetting:
    """What whoever shows the answers needs to know."""

    ledger: Ledger
    n: int | None


class Planning:
    """Answers statements by the cheapest safe way, against one book; the planner's face to a session.

    A purchase may depend on what is public and on what was released, never on true values; its charge is fixed before
    the data is read, and charge and table are one commit. Whatever cannot be read, planned or paid is refused alone.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Partitions,
        margins: Margins,
        ledger: Ledger,
        terms: PlanTerms,
        noise: NoiseSource | None = None,
    ) -> None:
        self._schema = asking_schema(schema, Domain(tuple(columns.columns.values())))
        self.columns, self.margins, self.terms = columns, margins, terms
        n = margins.n if margins.neighbours == "replace-one" and ledger.rows == 1 else None
        self.setting = PlanSetting(ledger, n)
        self.holdings = Holdings(ledger, n)
        self.buying = Buying(schema.table, columns, margins, ledger, self.holdings, noise or exact_noise())
        self.chooser = Chooser(columns, self.holdings, terms, margins.neighbours, ledger.cap.total.unit)
        self.stream: StreamPlan | None = None
        self._read: dict[str, PlannedStatement] = {}
        self._used: dict[int, None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The columns as they are asked about."""
        return self._schema

    def read(self, sql: str) -> PlannedStatement:
        """A statement as numbers wanted; `QueryError` from the text and the declaration alone."""
        found = self._read.get(sql)
        if found is None:
            statement = lower(sql, self._schema)
            found = PlannedStatement(sql, statement, asked(statement, self.columns))
            if found.question.ranked:
                check_groups(found.question, self.chooser)
            else:
                self.chooser.parts(found.question)  # refused here, if its cells cannot be laid out
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            self._read[sql] = found
        return found

    def expect(self, statements: Sequence[str], analyst: str | None) -> None:
        """These are about to be asked: they are planned for together when the first of them is asked."""
        found = {}
        for sql in statements:
            try:
                read = self.read(sql)
            except QueryError:
                continue
            if not read.question.unknown and not read.question.ranked:
                found[read.mark] = read.question
        self.chooser.listed = frozenset(found) if len(found) > 1 else frozenset()
        self.stream = StreamPlanner(self.chooser, self.buying, self.terms).expected(found) if len(found) > 1 else None

    # --- answering ----------------------------------------------------------------------------------------------------

    def recall(self, asked: PlannedStatement, analyst: str | None) -> Answered | None:
        """What is free: public, released before, or following from what was, if it is good enough."""
        self.holdings.refresh()
        if asked.question.unknown:
            return self._keys(asked, Fraction(0), "released before", analyst)
        if asked.question.ranked:
            return self._ranked(asked, Fraction(0), "released before", analyst)
        if self.stream is not None and self.stream.waits_for(asked.mark, analyst):
            return None
        try:
            chosen = self.chooser.choose(asked.question, asked.mark, analyst)
        except (BudgetExhausted, PrivacyParameterError):  # nothing is free, and nothing can be bought: refused alone
            return None
        if isinstance(chosen, NotSold) or chosen.orders or chosen.quantiles or not self._may_hear(chosen, analyst):
            return None
        return self._answered(asked, chosen, Fraction(0), analyst)

    def answer(self, asked: PlannedStatement, analyst: str | None) -> Answered:
        """Plan, charge, read, write down; on the open page."""
        ledger = self.setting.ledger
        before = ledger.spent()
        try:
            if asked.question.unknown:
                keys = buy_keys(self.buying, self.chooser, asked.question, analyst)
                made = self._keys(asked, ledger.spent() - before, f"buys {keys}", analyst)
                assert made is not None
                return made
            if asked.question.ranked:
                return self._ranks_bought(asked, before, analyst)
            if self.stream is not None and self.stream.waits_for(asked.mark, analyst):
                self.stream.buy(analyst)
                self.holdings.refresh()
            chosen = self.chooser.choose(asked.question, asked.mark, analyst)
            if isinstance(chosen, NotSold):
                return self.refused(asked.sql, Refused(chosen.reason), analyst)
            for order, generation in chosen.orders:
                self.buying.buy(order, generation, analyst, asked.sql)
            ranked = [w for w in asked.question.wanted if w.kind == "quantile"]
            trees = [self.chooser.by_tree(wanted, ranked) for wanted, _ in chosen.quantiles]  # before any is bought
            for (wanted, loss), tree in zip(chosen.quantiles, trees, strict=True):
                buy = buy_tree if tree else buy_quantile
                buy(self.buying, self.chooser.part(wanted, ()), loss, analyst, asked.sql)
            self.holdings.refresh()
            if chosen.orders or chosen.quantiles:
                chosen = self.chooser.after(asked.question, asked.mark, analyst, chosen)
            if not self._may_hear(chosen, analyst):
                why = (
                    f"what was released before would answer this, and being told of it would pass the cap of {analyst}"
                )
                return self.refused(asked.sql, Refused(why), analyst)
        except BudgetExhausted as error:
            return self.refused(asked.sql, Refused(f"{error}{self._affordable(asked, analyst)}"), analyst)
        except PrivacyParameterError as error:
            return self.refused(asked.sql, Refused(str(error)), analyst)
        return self._answered(asked, chosen, ledger.spent() - before, analyst)

    def _keys(self, asked: PlannedStatement, cost: Fraction, how: str, analyst: str | None) -> Answered | None:
        """Keys that nobody declared, from what was released."""
        ledger = self.setting.ledger
        kept = released_keys(ledger, asked.question, analyst)
        if kept is None:
            return None
        ledger.tell(analyst, kept)
        self._used[kept.entry] = None
        groups = tuple(key_groups(kept, asked.question, self.terms.beta))
        return Answered(asked.sql, True, groups, self.terms.beta, cost, ledger.left(analyst), self.margins.neighbours,
                        how + self._in_epsilon(), None, (key_note(kept),), entry=kept.entry)  # fmt: skip

    def _ranks_bought(self, asked: PlannedStatement, before: Fraction, analyst: str | None) -> Answered:
        """Quantiles of all groups, at one price."""
        orders = group_orders(asked.question, self.chooser, analyst)
        if why := why_no_groups(orders, self.chooser):
            return self.refused(asked.sql, Refused(why), analyst)
        buy_groups(self.buying, self.chooser, asked.question, orders, analyst)
        how = f"buys {', '.join(map(str, orders))}"
        made = self._ranked(asked, self.setting.ledger.spent() - before, how, analyst)
        assert made is not None
        return made

    def _ranked(self, asked: PlannedStatement, cost: Fraction, how: str, analyst: str | None) -> Answered | None:
        """Quantiles of groups, from what was released."""
        ledger, wanted = self.setting.ledger, asked.question.wanted
        known = released_groups(asked.question, self.chooser, analyst)
        if known is None or not ledger.may_be_told(
            analyst, [at for _, q in known for k in q for at in k.kept.of or ()]
        ):
            return None
        self.holdings.note(asked.mark)
        groups = []
        for key, best in known:
            made = (b.estimate(w, self.columns, self.terms.beta) for b, w in zip(best, wanted, strict=True))
            groups.append((key, tuple(made)))
            for each in best:
                ledger.tell(analyst, each.kept)
                self._used[each.kept.entry] = None
        notes = (*(w.spoken or coarse_note(w, self.columns) for w in wanted), *self._left_out(asked))
        return Answered(asked.sql, True, tuple(groups), self.terms.beta, cost, ledger.left(analyst),
                        self.margins.neighbours, how + self._in_epsilon(), None, tuple(n for n in notes if n),
                        entry=max(b.kept.entry for _, best in known for b in best))  # fmt: skip

    def refused(self, sql: str, why: Refused, analyst: str | None) -> Answered:
        """A statement that got no numbers."""
        left, neighbours = self.setting.ledger.left(analyst), self.margins.neighbours
        return Answered(sql, False, (), self.terms.beta, Fraction(0), left, neighbours, "", why)

    def _answered(self, asked: PlannedStatement, chosen: Chosen, cost: Fraction, analyst: str | None) -> Answered:
        entries: list[int] = []
        columns: list[list[Estimate]] = []
        for found in chosen.found:  # in the order of the question's parts
            if found.quantile is not None:
                columns.append([found.quantile.estimate(found.wanted, self.columns, self.terms.beta)])
                self.setting.ledger.tell(analyst, found.quantile.kept)
                entries.append(found.quantile.kept.entry)
                continue
            bounds = self.chooser.bounds(found.wanted)
            columns.append(estimates(found.laid, found.generation, self.terms.beta, bounds))
            entries += found.told(self.holdings, analyst)
        self.holdings.note(asked.mark)
        self._used.update(dict.fromkeys(entries))
        groups = tuple(self._groups(asked.question, columns))
        left = self.setting.ledger.left(analyst)
        coarse = (coarse_note(w, self.columns) for w in asked.question.wanted if w.kind == "quantile")
        said = [w.spoken for w in asked.question.wanted]
        rows = self.setting.ledger.rows
        bounded = f"of each person at most {rows} rows count, those of the smallest keyed hash" if rows > 1 else ""
        notes = (*(note for note in (*said, *coarse, bounded) if note), *self._left_out(asked), *chosen.notes)
        made = Answered(asked.sql, asked.question.grouped, groups, self.terms.beta, cost, left,
                        self.margins.neighbours, chosen.how + self._in_epsilon(), None, notes)  # fmt: skip
        return replace(made, entry=max(entries)) if entries else made

    def _may_hear(self, chosen: Chosen, analyst: str | None) -> bool:
        """Has the analyst room for everything that the answer is made from, together?"""
        return self.setting.ledger.may_be_told(analyst, [at for found in chosen.found for at in found.charges()])

    def _in_epsilon(self) -> str:
        """A budget in rho told as what it promises."""
        spent = self.setting.ledger.spent()
        if self.chooser.unit != "rho" or not self.terms.delta or not spent:
            return ""
        delta, keys = self.terms.delta, self.terms.delta_for_keys
        return f"; all so far is epsilon {float(epsilon_at(spent, delta - keys)):.4g} at delta {float(delta):g}"

    def _left_out(self, asked: PlannedStatement) -> tuple[str, ...]:
        """Whom a GROUP BY does not show, from the declaration."""
        columns = dict.fromkeys(column for keys in asked.question.sets for _, column in keys)
        names = [name for name in columns if self.columns.of(name).missing is None]
        if not names:
            return ()
        listed = ", ".join(names)
        return (f"groups are the declared values of {listed}: records with NULL or any other value are in no group",)

    def _groups(
        self, question: AskedStatement, columns: Sequence[list[Estimate]]
    ) -> Iterator[tuple[GroupKey, tuple[Estimate, ...]]]:
        for at, keys in enumerate(question.sets):
            axes = [self.chooser.key_values(column) for _, column in keys]
            width = len(question.wanted)
            rows = zip(*columns[at * width : (at + 1) * width], strict=True)
            for values, made in zip(product(*axes), rows, strict=True):
                yield tuple((name, v) for (name, _), v in zip(keys, values, strict=True)), tuple(made)

    # --- advice -------------------------------------------------------------------------------------------------------

    def clipping(self, column: str, analyst: str | None) -> ClippingAdvice:
        """Bounds for a column that has none, bought for a hundredth of what is left; on a page of its own."""
        named = self._schema.find(column)
        if named is None or named.role in (Role.ID, Role.HIDDEN) or not isinstance(self.margins, SourceMargins):
            raise ConfigError(f"--clip {column}: the table has no such column to be asked about")
        if named.role is not Role.PRIVATE:
            table = f"[columns.public.{toml_key(named.name)}]"
            raise ConfigError(
                f"--clip {column}: it is public, so write min and max, or values, under {table}: it is free"
            )
        if not named.kind.numeric:
            table = f"[columns.private.{toml_key(named.name)}]"
            raise ConfigError(
                f"--clip {column}: it holds {named.kind}, and bounds are of numbers: write values = [...] under {table}"
            )
        ledger = self.setting.ledger
        with ledger.book.lock, ledger.book.page():
            ledger.check_analyst(analyst)
            ledger.charged.clear()
            half = half_of_everybody(self.holdings.n, anyway=False)
            found = buy_clipping(named.name, self.margins.source, ledger, self.buying.noise, analyst, half)
            self.holdings.refresh()
        return found

    # --- prices -------------------------------------------------------------------------------------------------------

    def dry_run(self, statements: Sequence[str], analyst: str | None = None) -> list[Priced]:
        """What each statement would cost and why, with the alternatives; spends nothing and reads nothing."""
        self.holdings.refresh()
        made, seen = [], set()
        for sql in statements:
            try:
                read = self.read(sql)
            except QueryError as error:
                made.append(Priced(sql, Fraction(0), "", Refused(str(error))))
                continue
            if self.stream is not None and self.stream.waits_for(read.mark, analyst):
                made.append(self.stream.priced(sql, read.mark, analyst))
            elif read.mark in seen:
                made.append(Priced(sql, Fraction(0), "released before"))
            else:
                made.append(self._priced(read, analyst))
            seen.add(read.mark)
        return made

    def _priced(self, read: PlannedStatement, analyst: str | None) -> Priced:
        try:
            if read.question.unknown:
                if released_keys(self.setting.ledger, read.question, analyst) is not None:
                    return Priced(read.sql, Fraction(0), "released before")
                order = key_order(self.chooser, analyst)
                self.setting.ledger.check(order.loss, analyst=analyst)
                return Priced(read.sql, order.loss.amount, f"buys {order}")
            if read.question.ranked:
                return self._ranks_priced(read, analyst)
            chosen = self.chooser.choose(read.question, read.mark, analyst)
        except (BudgetExhausted, PrivacyParameterError) as error:
            return Priced(read.sql, Fraction(0), "", Refused(str(error)))
        if isinstance(chosen, NotSold):
            return Priced(read.sql, Fraction(0), "", Refused(chosen.reason))
        cost = self.chooser.cost(chosen, self.setting.ledger)
        rest = max(self.setting.ledger.left(analyst), Fraction(0))
        if cost > rest:
            unit, cap = self.chooser.unit, float(self.setting.ledger.cap.total.amount)
            why = (
                f"this would cost {unit} {float(cost):.6g} and {float(rest):.6g} would be left of {cap:.6g}: ask for "
                f"less accuracy or raise the budget{self._affordable(read, analyst)}"
            )
            return Priced(read.sql, Fraction(0), "", Refused(why))
        return Priced(read.sql, cost, chosen.how, None, (*chosen.notes, *chosen.alternatives))

    def _affordable(self, read: PlannedStatement, analyst: str | None) -> str:
        if read.question.unknown or read.question.ranked:
            return ""
        return affordable(self.chooser, read.question, read.mark, analyst)

    def _ranks_priced(self, read: PlannedStatement, analyst: str | None) -> Priced:
        if released_groups(read.question, self.chooser, analyst) is not None:
            return Priced(read.sql, Fraction(0), "released before")
        orders = group_orders(read.question, self.chooser, analyst)
        if why := why_no_groups(orders, self.chooser):
            return Priced(read.sql, Fraction(0), "", Refused(why))
        price = whole_price(orders, self.setting.ledger)
        self.setting.ledger.check(price, analyst=analyst)
        return Priced(read.sql, price.amount, f"buys {', '.join(map(str, orders))}")

    def lines(self, made: Iterable[Answered]) -> Iterator[str]:
        """What was released, as lines of a transcript: every purchase that the answers were made from, once."""
        for _ in made:
            pass
        for seq in sorted(self._used):
            answer = self.setting.ledger.book.entry(seq).body["answer"]
            yield from table_lines(answer) if answer.get("kind") in ("table", "number") else answer.get("lines", ())


__all__ = ["PlanSetting", "PlannedStatement", "Planning", "field", "round_down"]
