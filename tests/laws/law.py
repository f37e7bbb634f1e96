"""What a law is: a sentence that holds for every implementation of a family, and the liars that it must catch.

from tests.laws import attacks
from tests.laws.law import Specimen, product
for case in product(attacks.LAWS, [Specimen("MyAttack", attacks.Recipe(MyAttack))]):
    case.check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Specimen(Generic[T]):
    """An implementation under its name: what the laws of a family are checked on, or a liar that one must catch."""

    name: str
    subject: T


@dataclass(frozen=True, slots=True)
class Law(Generic[T]):
    """A check whose name is the sentence, and bad implementations that it must catch: without one it proves nothing.

    >>> def it_is_even(number: int) -> None:
    ...     assert number % 2 == 0, f"{number} is odd"
    >>> law = Law(it_is_even, (Specimen("three", 3),))
    >>> law.name
    'it is even'
    >>> law.check(4)
    """

    check: Callable[[T], None]
    liars: tuple[Specimen[T], ...]

    def __post_init__(self) -> None:
        if not self.liars:
            raise ValueError(f"'{self.name}' has no liar: plant a bad implementation that it must catch")

    @property
    def name(self) -> str:
        """The law as a sentence."""
        return self.check.__name__.replace("_", " ")


@dataclass(frozen=True, slots=True)
class LawCase(Generic[T]):
    """One law on one specimen (or on one liar)."""

    law: Law[T]
    specimen: Specimen[T]

    def __str__(self) -> str:
        return f"{self.specimen.name}: {self.law.name}"

    def check(self) -> None:
        """The law holds: AssertionError if not."""
        self.law.check(self.specimen.subject)

    def must_fail(self) -> None:
        """The law catches this liar: AssertionError if it lets it pass."""
        try:
            self.check()
        except AssertionError:
            return
        raise AssertionError(f"'{self.law.name}' does not catch its liar {self.specimen.name}")


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """All laws of one kind of thing, and every implementation of it that is shipped."""

    name: str
    laws: tuple[Law[T], ...]
    specimens: tuple[Specimen[T], ...]

    def cases(self) -> Iterator[LawCase[T]]:
        """Every law on every specimen."""
        return product(self.laws, self.specimens)

    def lies(self) -> Iterator[LawCase[T]]:
        """Every law on each of its liars."""
        return (LawCase(law, liar) for law in self.laws for liar in law.liars)


def product(laws: Iterable[Law[T]], specimens: Iterable[Specimen[T]]) -> Iterator[LawCase[T]]:
    """Every law on every specimen.

    >>> def it_is_even(number: int) -> None:
    ...     assert number % 2 == 0, f"{number} is odd"
    >>> laws = [Law(it_is_even, (Specimen("three", 3),))]
    >>> [str(case) for case in product(laws, [Specimen("two", 2), Specimen("four", 4)])]
    ['two: it is even', 'four: it is even']
    """
    chosen = tuple(specimens)
    return (LawCase(law, specimen) for law in laws for specimen in chosen)
