"""What is known already: every way to answer a wanted number from what was released, and what each is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.defence.budget.ledger import KeptRelease
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.layout import Layout, find_known_layouts
from keyhole.defence.planner.purchases import Purchases, find_used_tables, number_question
from keyhole.defence.planner.quantiles import BoughtQuantile, BoughtTree, recall_quantiles, recall_trees
from keyhole.defence.planner.wanted import WantedNumber, WantedStatement
from keyhole.defence.tables.noisy_tables import COUNT, BoughtTable, Generation


@dataclass(frozen=True, slots=True, eq=False)
class KnownAnswer:
    """How one wanted number is answered: from a generation of tables, from one number, or from a quantile."""

    wanted: WantedNumber
    layout: Layout
    generation: Generation
    quantile: BoughtQuantile | BoughtTree | None = None
    number: KeptRelease | None = None

    @property
    def is_public(self) -> bool:
        """Is no noise in it?"""
        return not (self.quantile or self.number or self.layout.variances(self.generation))

    @property
    def worst_variance(self) -> float:
        """Of what it is made from, in units of one person."""
        variances = self.layout.variances(self.generation)
        return max((v / m.reach**2 for m, v in variances.items()), default=0.0)

    def tell(self, purchases: Purchases, analyst: str | None) -> list[int]:
        """Write down who is told; the entries of the book that it was made from."""
        kept = self._kept
        if kept is not None:
            purchases.ledger.tell(analyst, kept)
            return [kept.entry]
        return purchases.tell(self._find_tables(), analyst)

    def charges(self) -> list[int]:
        """What was paid for everything that it is made from."""
        kept = self._kept
        return list(kept.of or ()) if kept is not None else [table.charge for table in self._find_tables()]

    @property
    def _kept(self) -> KeptRelease | None:
        return self.number or (None if self.quantile is None else self.quantile.kept)

    def _find_tables(self) -> list[BoughtTable]:
        needed = [(quantity, part.functional.names) for quantity, part in self.layout.sums.items()]
        if self.wanted.kind != "linear":
            needed.append((COUNT, self.layout.names))
        return find_used_tables(self.generation, needed)


def find_known_answers(
    layout: Layout,
    question: WantedStatement,
    purchases: Purchases,
    columns: Partitions,
    beta: float,
    analyst: str | None,
) -> list[KnownAnswer]:
    """Every way to answer from what was released, the most precise first."""
    wanted, ledger = layout.wanted, purchases.ledger
    if wanted.kind == "quantile":
        nothing = Generation(None)
        trees = [KnownAnswer(wanted, layout, nothing, tree) for tree in recall_trees(ledger, wanted, analyst)]
        best = sorted(recall_quantiles(ledger, wanted, analyst), key=lambda q: q.ranks(beta))
        return trees + [KnownAnswer(wanted, layout, nothing, quantile) for quantile in best]
    answers: list[KnownAnswer] = []
    for number in purchases.answering:
        generation = purchases.for_analyst(number, analyst)
        bought = purchases.axes_of(generation, columns)
        for known in find_known_layouts(layout, generation, columns, bought):
            answers.append(KnownAnswer(wanted, known, generation))
    if layout.is_one_number and question.is_one_number:
        for kept in ledger.recall(number_question(question), analyst):
            alone = Generation(purchases.n if layout.count.whole else None)  # n is public if everybody is asked about
            alone.add(BoughtTable.unpacked(kept.answer, (kept.of or (0,))[0], kept.entry))
            answers.append(KnownAnswer(wanted, layout.without_axes(), alone, None, kept))
    return sorted(answers, key=lambda answer: answer.worst_variance)


def explain_free(answers: Sequence[KnownAnswer], purchases: Purchases) -> str:
    """Why an answer costs nothing."""
    if all(answer.is_public for answer in answers):
        return (
            "public: under replace-one neighbours n is no secret"
            if purchases.n is not None and any(answer.layout.count.whole for answer in answers)
            else "public: no declared cell meets the condition, so nobody is asked about"
        )
    if all(answer.quantile or answer.number for answer in answers):
        return "released before"
    tables = {id(table) for answer in answers for table in answer.generation.tables}
    return f"follows from {len(tables)} table{'s' if len(tables) != 1 else ''} bought before"
