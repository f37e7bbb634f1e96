"""The budget: what may be spent in all, by everybody together and by each analyst."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from keyhole.book import EVERYBODY, NOTHING
from keyhole.defence.budget.loss import Loss, Number, Unit, check_positive, parse_exact
from keyhole.errors import BudgetExhausted, ConfigError, PrivacyParameterError


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that may ever be spent: in all (against colluding analysts) and, if named, by each analyst.

    `written`: where the budget is written in epsilon and counted in rho, the epsilon of each account.

    >>> Cap(Loss.of_epsilon(1), {"alice": Fraction(3, 10)}).of("alice")
    Fraction(3, 10)
    """

    total: Loss
    analysts: Mapping[str, Fraction] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[str, Fraction] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def declared(cls, total: Loss, analysts: Mapping[str, Number], written: Mapping[str, Number] | None = None) -> Cap:
        """A cap from numbers as written in a configuration file, each checked to be above zero."""
        if EVERYBODY in analysts:
            raise ConfigError(f"an analyst may not be called {EVERYBODY!r}: that name is everybody together")
        named = {who: check_positive(share, f"the budget of {who}") for who, share in analysts.items()}
        shown = {who: check_positive(amount, "epsilon") for who, amount in (written or {}).items()}
        return cls(total, MappingProxyType(named), MappingProxyType(shown))

    @property
    def unit(self) -> Unit:
        """What prices are shown in: the unit that the budget is written in."""
        return "epsilon" if self.written else self.total.unit

    def show(self, amount: Fraction, account: str | None = None) -> Fraction:
        """An amount that is counted, as it is shown: the same share of what is written. Prices add up as amounts do."""
        who = self.account_of(account)
        return amount if who not in self.written else amount / self.of(who) * self.written[who]

    def account_of(self, analyst: str | None) -> str:
        """What prices for somebody are held against: his own account, if he has one."""
        return analyst if analyst is not None and analyst in self.analysts else EVERYBODY

    def say(self, amount: Fraction, account: str | None = None) -> str:
        """`epsilon 0.01`: an amount with its unit, for people."""
        return f"{self.unit} {float(self.show(amount, account)):.4g}"

    def explain_too_dear(self, cost: Fraction, left: Fraction, account: str | None) -> str:
        """Why something that costs more than is left is refused."""
        price, rest = (float(self.show(amount, account)) for amount in (cost, max(left, Fraction(0))))
        most = float(self.show(self.total.amount))
        return (
            f"this would cost {self.unit} {price:.6g} and {rest:.6g} would be left of {most:.6g}: ask for less "
            "accuracy or raise the budget"
        )

    def of(self, account: str) -> Fraction:
        """The cap of an account, in the unit of the budget."""
        return self.total.amount if account == EVERYBODY else self.analysts[account]


class Budget:
    """A budget in memory. `Ledger` is the same thing in a book.

    `spend` either records a loss in full or raises `BudgetExhausted` and changes nothing, so that a cheaper
    question may still be asked. Sums are exact rationals: (epsilon, delta) and rho add up by basic
    composition. Each charge counts for everybody together and for the analyst who asks. O(1) a charge.

    >>> budget = Budget(Cap(Loss.of_epsilon("0.3")))
    >>> for _ in range(3): budget.spend(Loss.of_epsilon("0.1"))
    >>> budget.left()
    Fraction(0, 1)
    >>> budget.spend(Loss.of_epsilon("0.1"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    keyhole.errors.BudgetExhausted: this costs epsilon 0.1 and 0 is left of 0.3: nothing was spent; ...
    """

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self._lock = threading.RLock()
        self._totals: dict[str, tuple[Fraction, Fraction]] = {}

    # The three methods a durable budget replaces.
    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            yield

    def _spent(self, account: str) -> tuple[Fraction, Fraction]:
        return self._totals.get(account, NOTHING)

    def _charge(self, charge: Loss, analyst: str | None, what: str) -> None:
        """Write down a loss that was checked, in the unit of the budget."""
        for account in self._accounts(analyst):
            spent, delta = self._spent(account)
            self._record(account, spent + charge.amount, delta + charge.delta)

    def _record(self, account: str, amount: Fraction, delta: Fraction) -> None:
        self._totals[account] = (amount, delta)

    def _accounts(self, analyst: str | None) -> tuple[str, ...]:
        named = self.cap.analysts
        if not named:
            return (EVERYBODY,)  # whoever asks
        if analyst is None:
            raise ConfigError(f"this budget is kept per analyst: say who asks ({', '.join(named)})")
        if analyst not in named:
            raise ConfigError(f"analyst {analyst!r} has no budget; the budget knows {', '.join(named)}")
        return (EVERYBODY, analyst)

    def check_analyst(self, analyst: str | None) -> None:
        """Refuse an unknown analyst, or none where each has a budget."""
        self._accounts(analyst)

    def price(self, loss: Loss) -> Loss:
        """`loss` in the unit of this budget; refused for other neighbours or a unit no theorem links."""
        if loss.neighbours != self.cap.total.neighbours:
            raise PrivacyParameterError(
                f"the budget is kept for {self.cap.total.neighbours} neighbours and this release is made for "
                f"{loss.neighbours}: they are never mixed"
            )
        return loss.converted(self.cap.total.unit)

    def check(self, loss: Loss, *, analyst: str | None = None) -> Loss:
        """The price of `loss` if it can be paid now; else `BudgetExhausted`, with both numbers."""
        charge = self.price(loss)
        for account in self._accounts(analyst):
            spent, delta = self._spent(account)
            whose = "" if account == EVERYBODY else f" for {account}"
            cap = self.cap.of(account)
            if spent + charge.amount > cap:
                rest = max(cap - spent, Fraction(0))
                before, price, rest, most = (self.cap.show(x, account) for x in (spent, charge.amount, rest, cap))
                lowered = f" ({float(before):.6g} was spent before the cap was lowered)" if spent > cap else ""
                raise BudgetExhausted(
                    f"this costs {self.cap.unit} {float(price):.6g} and {float(rest):.6g} is left of "
                    f"{float(most):.6g}{whose}{lowered}: nothing was spent; ask for less accuracy or raise the budget",
                    remaining=cap - spent,
                    requested=charge.amount,
                )
            if account == EVERYBODY and delta + charge.delta > self.cap.total.delta:
                raise BudgetExhausted(
                    f"this costs delta {float(charge.delta):g} and {float(self.cap.total.delta - delta):g} is "
                    f"left of {float(self.cap.total.delta):g}: nothing was spent; use delta = 0 or raise it",
                    remaining=self.cap.total.delta - delta,
                    requested=charge.delta,
                )
        return charge

    def spend(self, loss: Loss, *, analyst: str | None = None, what: str = "") -> None:
        """Charge `loss`, all or nothing. The caller may touch the data only after this returns."""
        with self._transaction():
            self._charge(self.check(loss, analyst=analyst), analyst, what)

    def spent(self, analyst: str | None = None) -> Fraction:
        """What was spent so far, in the unit of the budget: by one analyst, or by everybody together."""
        with self._transaction():
            return self._spent(EVERYBODY if analyst is None else self._accounts(analyst)[-1])[0]

    def delta_left(self) -> Fraction:
        """What may still be spent of delta, by everybody together."""
        with self._transaction():
            return max(Fraction(0), self.cap.total.delta - self._spent(EVERYBODY)[1])

    def left(self, analyst: str | None = None) -> Fraction:
        """What may still be spent (by this analyst): the smaller of his own rest and of everybody's.

        It is below zero only where a cap was lowered under what had been spent before.
        """
        accounts = (EVERYBODY,) if analyst is None else self._accounts(analyst)
        with self._transaction():
            return min(self.cap.of(account) - self._spent(account)[0] for account in accounts)


def epsilon_budget(epsilon: Number, delta: Number = 0) -> Budget:
    """A budget in memory of (epsilon, delta) for replace-one neighbours.

    >>> epsilon_budget(1).left()
    Fraction(1, 1)
    """
    return Budget(Cap(Loss.of_epsilon(parse_exact(epsilon), delta)))
