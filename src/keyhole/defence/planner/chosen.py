"""The way that was chosen for a question: what is answered from what, and what must be bought first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from keyhole.defence.budget.ledger import Kept
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.asks import Wanted
from keyhole.defence.planner.holdings import Holdings, relevant
from keyhole.defence.planner.laid import Laid
from keyhole.defence.planner.orders import Purchase
from keyhole.defence.planner.quantiles import BoughtQuantile
from keyhole.defence.planner.tree import BoughtTree, tree_mark
from keyhole.defence.planner.ways import variances
from keyhole.defence.tables.inference import Names
from keyhole.defence.tables.noisy_tables import COUNT, Generation, Quantity

Keys = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NotSold:
    """Why a question is not sold."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """How one wanted number is answered: from a generation of tables, from one number, or from a quantile."""

    wanted: Wanted
    keys: Keys
    laid: Laid
    generation: Generation
    quantile: BoughtQuantile | BoughtTree | None = None
    number: Kept | None = None

    def told(self, holdings: Holdings, analyst: str | None) -> list[int]:
        """Write down who is told; the entries of the book that it was made from."""
        if self.number is not None:
            holdings.ledger.tell(analyst, self.number)
            return [self.number.entry]
        return holdings.tell(self.generation, self._needed(), analyst)

    def charges(self) -> list[int]:
        """What was paid for everything that it is made from."""
        kept = self.number or (None if self.quantile is None else self.quantile.kept)
        if kept is not None:
            return list(kept.of or ())
        return [table.charge for table in relevant(self.generation, self._needed())]

    def _needed(self) -> list[tuple[Quantity, Names]]:
        found = [(m, part.functional.names) for m, part in self.laid.sums.items()]
        return found if self.wanted.kind == "linear" else [*found, (COUNT, self.laid.names)]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The way: what is answered from what, what must be bought first, and what else it could have been."""

    found: tuple[Found, ...]
    orders: tuple[tuple[Purchase, int], ...] = ()
    quantiles: tuple[tuple[Wanted, Loss], ...] = ()
    how: str = ""
    notes: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


def why_free(found: Sequence[Found], holdings: Holdings) -> str:
    """Why an answer costs nothing."""
    if not any(variances(f.laid, f.generation) or f.quantile or f.number for f in found):
        return (
            "public: under replace-one neighbours n is no secret"
            if holdings.n is not None and any(f.laid.count.whole for f in found)
            else "public: no declared cell meets the condition, so nobody is asked about"
        )
    if all(f.quantile or f.number for f in found):
        return "released before"
    tables = {id(t) for f in found for t in f.generation.tables}
    return f"follows from {len(tables)} table{'s' if len(tables) != 1 else ''} bought before"


def spoken_orders(
    orders: Sequence[tuple[Purchase, int]], quantiles: Sequence[tuple[Wanted, Loss]], trees: Collection[str] = ()
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    said = [str(order) for order, _ in orders]
    for wanted, _ in quantiles:
        tree = tree_mark(wanted) in trees
        said.append(
            f"a tree of counts of {wanted.column}, for every quantile"
            if tree
            else f"{wanted.label} by the exponential mechanism"
        )
    return f"buys {', '.join(said)}", (), ()
