"""The mechanisms that `--mechanism` and [budget] mechanism may name: the one place where a new one is registered.

A mechanism is imported when it is made, since the command line reads the names at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.defence.answering import AnswerSetting, Strategy

MakeStrategy: TypeAlias = "Callable[[AnswerSetting], Strategy]"

PLANNER = "planner"  # answers from tables that it plans and buys, so it is made without a strategy


def _answer_each_alone(kind: Literal["laplace", "gaussian"]) -> MakeStrategy:
    def make(setting: AnswerSetting) -> Strategy:
        from keyhole.defence.strategies.separate_releases import SeparateReleases

        return SeparateReleases(setting, kind)

    return make


def _answer_from_prepaid_run(update: str) -> MakeStrategy:
    def make(setting: AnswerSetting) -> Strategy:
        from keyhole.defence.strategies.prepaid_run import PrepaidRun

        return PrepaidRun(setting, update)

    return make


def _answer_from_one_construction(update: str) -> MakeStrategy:
    def make(setting: AnswerSetting) -> Strategy:
        from keyhole.defence.strategies.one_construction import OneConstruction

        return OneConstruction(setting, update)

    return make


STRATEGIES: Mapping[str, MakeStrategy] = {
    "laplace": _answer_each_alone("laplace"),
    "gaussian": _answer_each_alone("gaussian"),
    "online-ic": _answer_from_prepaid_run("multiplicative-weights"),
    "online-ic-median": _answer_from_prepaid_run("median"),
    "online-ic-perceptron": _answer_from_prepaid_run("perceptron"),
    "iterative": _answer_from_one_construction("multiplicative-weights"),
    "iterative-median": _answer_from_one_construction("median"),
    "iterative-perceptron": _answer_from_one_construction("perceptron"),
}
MECHANISMS = (PLANNER, *STRATEGIES)
PRICED_IN_RHO = (PLANNER, "gaussian")  # where there is a delta; the others are priced in epsilon


def make_strategy(mechanism: str, setting: AnswerSetting) -> Strategy:
    """How statements are answered by the mechanism of this name."""
    if mechanism not in STRATEGIES:
        raise ConfigError(f"there is no mechanism {mechanism!r}; there are {', '.join(MECHANISMS)}")
    return STRATEGIES[mechanism](setting)
