"""The noise a transcript states, as it is read."""

from __future__ import annotations

from fractions import Fraction

import pytest

from keyhole.errors import LogError
from keyhole.model.transcript import Noise, parse_answer, read_jsonl


def noise(text: str) -> Noise | None:
    return next(iter(read_jsonl([f'{{"sql": "SELECT 1", "answer": 3, "noise": {text}}}']))).noise


def test_discrete_laws_have_a_scale_and_an_unknown_one_has_none() -> None:
    assert noise('{"kind": "discrete-laplace", "scale": 2}') == Noise("discrete-laplace", Fraction(2))
    assert noise('{"kind": "discrete-gaussian", "scale": 0.5}') == Noise("discrete-gaussian", Fraction(1, 2))
    assert noise('{"kind": "unknown"}') == noise('{"kind": "unknown", "scale": 3}') == Noise("unknown", Fraction(0))
    for wrong in ('{"kind": "discrete-laplace"}', '{"kind": "unknown", "width": 1}', '{"kind": "none", "scale": 1}'):
        with pytest.raises(LogError, match="line 1"):
            noise(wrong)


@pytest.mark.parametrize("kind", ["discrete-laplace", "discrete-gaussian", "unknown"])
def test_a_noisy_answer_bounds_nothing(kind: str) -> None:
    answer = parse_answer(3, Noise(kind, Fraction(0)))
    assert (answer.lo, answer.hi, answer.value) == (None, None, 3)
