"""A defended database is a responder like any other."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from keyhole.config import Config
from keyhole.datasets import load
from keyhole.defence.answering import Defended
from keyhole.defence.budget.budget import epsilon_budget
from keyhole.defence.declared_domain import declare_domain
from keyhole.defence.histogram import CountedHistogram
from keyhole.defence.mechanisms.laplace import Laplace
from keyhole.defence.simulate.release import SeededNoise
from keyhole.errors import BudgetExhausted, UnsupportedQuery
from keyhole.model.transcript import Noise
from keyhole.sql import lower_statement

CONFIG = Config.parse("[columns.public.who]\nmin=1\nmax=40\n[columns.private.bit]\nmin=0\nmax=1\nstep=1")


def test_answers_state_their_noise_and_are_charged() -> None:
    bits = np.random.default_rng(1).integers(0, 2, 40)
    source = load(pd.DataFrame({"who": range(1, 41), "bit": bits}), CONFIG.columns)
    domain = declare_domain(CONFIG.columns, source.schema)
    histogram = CountedHistogram(source, domain, "replace-one")
    budget = epsilon_budget(3)
    laplace = Laplace(histogram, budget, 1, noise=SeededNoise(np.random.default_rng(2)))
    defended = Defended(domain, histogram, laplace)

    def ask(sql: str) -> object:
        return defended.answer(lower_statement(sql, source.schema).queries[0])

    answer = ask("SELECT SUM(bit) FROM t WHERE who <= 20")
    assert answer.noise == Noise("laplace", Fraction(1))
    assert abs(answer.value - int(bits[:20].sum())) < 20
    ratio = ask("SELECT AVG(bit) FROM t WHERE who <= 20")
    assert ratio.noise is None
    assert ratio.lo <= Fraction(int(bits[:20].sum()), 20) <= ratio.hi
    assert ask("SELECT COUNT(*) FROM t").value == Decimal(40)  # public, free
    assert budget.left() == 1
    with pytest.raises(UnsupportedQuery):
        ask("SELECT MAX(bit) FROM t")
    ask("SELECT SUM(bit) FROM t WHERE who IN (1, 7)")
    with pytest.raises(BudgetExhausted):
        ask("SELECT SUM(bit) FROM t WHERE who = 3")
