"""The mechanisms that `--mechanism` and [budget] mechanism may name: the one place where a new one is registered.

A mechanism is imported when it is made, since the command line reads the names at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.defence.answering import AnswerSetting, Strategy

PLANNER = "planner"  # answers from tables that it plans and buys, so it is made without a strategy


def _release_separately(setting: AnswerSetting, noise: str) -> Strategy:
    from keyhole.defence.strategies.separate_releases import SeparateReleases

    return SeparateReleases(setting, "gaussian" if noise == "gaussian" else "laplace")


def _run_prepaid(setting: AnswerSetting, update: str) -> Strategy:
    from keyhole.defence.strategies.prepaid_run import PrepaidRun

    return PrepaidRun(setting, update)


def _run_tuned(setting: AnswerSetting, start: str) -> Strategy:
    from keyhole.defence.strategies.prepaid_run import TunedRun

    return TunedRun(setting, warm=start == "margins")


def _construct_once(setting: AnswerSetting, update: str) -> Strategy:
    from keyhole.defence.strategies.one_construction import OneConstruction

    return OneConstruction(setting, update)


STRATEGIES = {
    "laplace": (_release_separately, "laplace"),
    "gaussian": (_release_separately, "gaussian"),
    "online-ic": (_run_prepaid, "multiplicative-weights"),
    "online-ic-median": (_run_prepaid, "median"),
    "online-ic-perceptron": (_run_prepaid, "perceptron"),
    "pmw-tuned": (_run_tuned, "uniform"),
    "pmw-warm": (_run_tuned, "margins"),
    "iterative": (_construct_once, "multiplicative-weights"),
    "iterative-median": (_construct_once, "median"),
    "iterative-perceptron": (_construct_once, "perceptron"),
}
MECHANISMS = (PLANNER, *STRATEGIES)
PRICED_IN_RHO = (PLANNER, "gaussian")  # where there is a delta; the others are priced in epsilon


def make_strategy(mechanism: str, setting: AnswerSetting) -> Strategy:
    """How statements are answered by the mechanism of this name."""
    if mechanism not in STRATEGIES:
        raise ConfigError(f"there is no mechanism {mechanism!r}; there are {', '.join(MECHANISMS)}")
    make, word = STRATEGIES[mechanism]
    return make(setting, word)
