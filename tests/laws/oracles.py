"""Laws of every attack on a yes/no oracle, and a liar for each. A specimen builds an attack."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.laws import oracles_liars as liars
from tests.laws.law import Law, Specimen

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, ThresholdOracle, UnaskedWarning
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.learners.stream_attack import DOUBT, StreamAttack
from keyhole.oracles.noise import Floats, OracleNoise, UniformNoise
from keyhole.oracles.streams import Concentrated, Scaled, Stream
from keyhole.oracles.subspace import Subspace

Builder = Callable[[Subspace, OracleNoise, int], StreamAttack]
DELTA = 0.2

SPECIMENS: tuple[Specimen[Builder], ...] = (
    Specimen("OnlineBisection", lambda space, noise, T: OnlineBisection(space, noise, horizon=T)),
    Specimen("SequentialBisection", lambda space, noise, T: SequentialBisection(space, noise, delta=DELTA)),
    Specimen("OneBitNewton", lambda space, noise, T: OneBitNewton(space, noise, delta=DELTA)),
    Specimen("EdgeBisection", lambda space, noise, T: EdgeBisection(space, noise, delta=DELTA)),
)

SPACE = Subspace.blocks(4, 2)
LITTLE = UniformNoise(0.05)
NEAR: Stream = Concentrated(SPACE)


def _game(
    seed: int, queries: int, stream: Stream = NEAR, noise: OracleNoise = LITTLE
) -> tuple[Floats, ThresholdOracle]:
    for_w, for_queries, for_noise = np.random.default_rng(seed).spawn(3)
    return stream.block(queries, for_queries), ThresholdOracle(for_w.random(4), noise, rng=for_noise)


@contextmanager
def _hushed() -> Iterator[None]:
    """A liar that loses the truth also doubts; here it is the loss that counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", UnaskedWarning)  # of queries that are too short for the published margin
        yield


def _steps(attack: StreamAttack, queries: Floats, oracle: ThresholdOracle) -> Floats:
    errors = np.empty(len(queries))
    for t, q in enumerate(queries):
        errors[t] = abs(attack.answer(q) - float(oracle.hidden @ q))
        threshold = attack.threshold(q)
        if threshold is not None:
            attack.learn(q, threshold, oracle.above(q, threshold))
    return errors


def _same(one: StreamAttack, other: StreamAttack) -> None:
    for a, b in zip((*one.box(), one.estimate()), (*other.box(), other.estimate()), strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-9), f"{a} against {b}"


def the_compiled_run_gives_the_same_numbers_as_its_steps(build: Builder) -> None:
    """Boxes, estimates, answers used and mean errors agree, on near-axis and on scaled, turned queries."""
    for stream in (NEAR, Scaled(NEAR, -2.0, 2.0)):
        queries, oracle = _game(1, 3000, stream)
        compiled, stepped = build(SPACE, LITTLE, 3000), build(SPACE, LITTLE, 3000)
        twin = _game(1, 3000, stream)[1]
        with _hushed():
            run = compiled.run(queries, oracle)
            errors = _steps(stepped, queries, twin)
        assert oracle.asked == twin.asked == run.asked, f"{oracle.asked} answers against {twin.asked}"
        assert math.isclose(run.average_error, float(errors.mean()), abs_tol=1e-9)
        for t, mean in run.trace:
            assert math.isclose(mean, float(errors[:t].mean()), abs_tol=1e-9), f"at {t}"
        _same(compiled, stepped)
        assert math.isclose(compiled.doubt, stepped.doubt, abs_tol=1e-6)


def cutting_the_stream_into_blocks_changes_nothing(build: Builder) -> None:
    """One array, or the same rows in blocks of odd sizes."""
    queries, oracle = _game(2, 5000)
    whole, parts = build(SPACE, LITTLE, 5000), build(SPACE, LITTLE, 5000)
    run = whole.run(queries, oracle)
    again = parts.run(iter(np.split(queries, [1, 8, 1000, 1001, 4999])), _game(2, 5000)[1])
    assert run.asked == again.asked
    assert math.isclose(run.average_error, again.average_error, abs_tol=1e-9)
    _same(whole, parts)


def the_box_loses_the_truth_no_more_often_than_promised(build: Builder) -> None:
    """Short runs on axis queries, w just inside what a wrong first cut removes; losses within delta, 4 deviations."""
    noise, runs, lost = UniformNoise(1.0), 300, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        attack = build(SPACE, noise, 1500)
        low, high = attack.box()
        keep = getattr(attack, "keep", 0.75)
        low = np.maximum(low, 0.0)
        inside = (1 - keep) * 0.999
        share = inside if seed % 2 else 1 - inside
        c = low + share * (high - low)
        # inside [0, 1]^D, whatever the first box of the method is
        w = np.clip(c @ SPACE.basis, 0.0, 1.0)
        with _hushed():
            attack.run(Concentrated(SPACE, phi=0.0).block(1500, rng), ThresholdOracle(w, noise, rng=rng))
        low, high = attack.box()
        c = SPACE.coordinates(w)
        lost += not (np.all(c >= low - 1e-9) and np.all(c <= high + 1e-9))
    allowed = runs * DELTA + 4 * math.sqrt(runs * DELTA * (1 - DELTA))
    assert lost <= allowed, f"lost in {lost} of {runs} runs, promised {DELTA}"


def the_box_holds_the_truth_for_any_norm_and_sign(build: Builder) -> None:
    """Queries of norms up to 2 in both directions."""
    lost = 0
    for seed in range(40):
        queries, oracle = _game(seed, 3000, Scaled(NEAR, -2.0, 2.0), UniformNoise(0.2))
        attack = build(SPACE, UniformNoise(0.2), 3000)
        with _hushed():
            attack.run(queries, oracle)
        low, high = attack.box()
        c = SPACE.coordinates(oracle.hidden)
        lost += not (np.all(c >= low - 1e-9) and np.all(c <= high + 1e-9))
    assert lost <= 40 * DELTA, f"lost in {lost} of 40 runs"


def the_box_only_shrinks(build: Builder) -> None:
    """A side, once cut, does not grow back."""
    queries, oracle = _game(4, 4000)
    attack = build(SPACE, LITTLE, 4000)
    low, high = attack.box()
    for part in np.array_split(queries, 8):
        attack.run(part, oracle)
        now_low, now_high = attack.box()
        assert np.all(now_low >= low - 1e-12), f"{now_low} below {low}"
        assert np.all(now_high <= high + 1e-12), f"{now_high} above {high}"
        low, high = now_low, now_high


def more_answers_bring_the_estimate_nearer(build: Builder) -> None:
    """Mean distance to w after 20,000 queries is below a tenth of the distance after 100."""
    early, late = list[float](), list[float]()
    for seed in range(4):
        queries, oracle = _game(seed, 20_000)
        attack = build(SPACE, LITTLE, 20_000)
        early.append(attack.run(queries[:100], oracle).final_error)
        late.append(attack.run(queries[100:], oracle).final_error)
    assert sum(late) < sum(early) / 10, f"{sum(late) / 4:.4g} after {sum(early) / 4:.4g}"


def a_saved_attack_carries_on_as_if_uninterrupted(build: Builder) -> None:
    """Save in the middle, restore into a fresh attack, go on: the same box and estimate."""
    queries, oracle = _game(5, 4000)
    through, first, second = (build(SPACE, LITTLE, 4000) for _ in range(3))
    through.run(queries, oracle)
    twin = _game(5, 4000)[1]
    first.run(queries[:1777], twin)
    with tempfile.TemporaryDirectory() as folder:
        first.save(Path(folder) / "state.npz")
        second.restore(Path(folder) / "state.npz")
    second.run(queries[1777:], twin)
    _same(through, second)
    assert through.queries_seen == second.queries_seen


def memory_stays_flat(build: Builder) -> None:
    """The saved state is as large after 50,000 queries as after 500."""
    queries, oracle = _game(6, 50_000)
    attack, sizes = build(SPACE, LITTLE, 50_000), list[int]()
    with tempfile.TemporaryDirectory() as folder:
        for part in (queries[:500], queries[500:]):
            attack.run(part, oracle)
            attack.save(Path(folder) / "state.npz")
            sizes.append((Path(folder) / "state.npz").stat().st_size)
    assert sizes[1] <= sizes[0] + 64, f"{sizes[0]} bytes, then {sizes[1]}"


def looking_changes_nothing(build: Builder) -> None:
    """answer, threshold, estimate, box and doubt may be called at any time, as often as one likes."""
    queries, oracle = _game(7, 600)
    watched, alone = build(SPACE, LITTLE, 600), build(SPACE, LITTLE, 600)
    twin = _game(7, 600)[1]
    for q in queries:
        for _ in range(2):
            watched.answer(q)
            watched.threshold(q)
            watched.estimate()[:] = 0
            watched.box()[0][:] = -9
        t = watched.threshold(q)
        if t is not None:
            watched.learn(q, t, oracle.above(q, t))
    _steps(alone, queries, twin)
    _same(watched, alone)


def each_query_is_answered_at_most_once(build: Builder) -> None:
    """The oracle counts no more answers than there are queries, and the run says how many."""
    queries, oracle = _game(8, 2000)
    run = build(SPACE, LITTLE, 2000).run(queries, oracle)
    assert 0 < oracle.asked <= 2000, f"{oracle.asked} answers to 2000 queries"
    assert run.asked == oracle.asked


def bits_that_nothing_explains_are_doubted(build: Builder) -> None:
    """A hidden vector far outside its box: always yes, until no vector in the box is believable. A ModelWarning."""
    rng = np.random.default_rng(9)
    attack = build(SPACE, LITTLE, 100_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attack.run(NEAR.block(100_000, rng), ThresholdOracle(np.full(4, 100.0), LITTLE, rng=rng))
    assert any(issubclass(w.category, ModelWarning) for w in caught), f"doubt {attack.doubt:.3g}, no warning"


def honest_bits_are_not_doubted(build: Builder) -> None:
    """With the model right, the odds against it stay below a million to one."""
    for seed in range(20):
        queries, oracle = _game(seed, 3000)
        attack = build(SPACE, LITTLE, 3000)
        with _hushed():
            attack.run(queries, oracle)
        assert attack.doubt < DOUBT, f"seed {seed}: doubt {attack.doubt:.3g}"


def bad_input_is_refused_and_changes_nothing(build: Builder) -> None:
    """Zero, too short, not finite, off the subspace; a bit that is none; a threshold that is none."""
    queries, oracle = _game(10, 500)
    attack, twin = build(SPACE, LITTLE, 500), build(SPACE, LITTLE, 500)
    attack.run(queries, oracle)
    twin.run(queries, _game(10, 500)[1])
    good = queries[0]
    wrong: tuple[tuple[Floats, float, int], ...] = (
        (np.zeros(4), 0.5, 1),
        (np.ones(3), 0.5, 1),
        (np.array([1.0, math.nan, 0.0, 0.0]), 0.5, 1),
        (np.array([1.0, 0.0, 0.0, 0.0]), 0.5, 1),
        (good, 0.5, 2),
        (good, math.nan, 1),
    )
    for q, threshold, bit in wrong:
        try:
            with _hushed():
                attack.learn(q, threshold, bit)
        except ModelError:
            continue
        raise AssertionError(f"accepted {q}, {threshold}, {bit}")
    _same(attack, twin)


LAWS: tuple[Law[Builder], ...] = (
    Law(the_compiled_run_gives_the_same_numbers_as_its_steps, (Specimen("Skipping", liars.Skipping),)),
    Law(cutting_the_stream_into_blocks_changes_nothing, (Specimen("ForgetsAtBlocks", liars.ForgetsAtBlocks),)),
    Law(the_box_loses_the_truth_no_more_often_than_promised, (Specimen("Hasty", liars.Hasty),)),
    Law(the_box_holds_the_truth_for_any_norm_and_sign, (Specimen("SignBlind", liars.SignBlind),)),
    Law(the_box_only_shrinks, (Specimen("Breathing", liars.Breathing),)),
    Law(more_answers_bring_the_estimate_nearer, (Specimen("Deaf", liars.Deaf),)),
    Law(a_saved_attack_carries_on_as_if_uninterrupted, (Specimen("ForgetsOdds", liars.ForgetsOdds),)),
    Law(memory_stays_flat, (Specimen("Hoarder", liars.Hoarder),)),
    Law(looking_changes_nothing, (Specimen("Fickle", liars.Fickle),)),
    Law(each_query_is_answered_at_most_once, (Specimen("AsksTwice", liars.AsksTwice),)),
    Law(bits_that_nothing_explains_are_doubted, (Specimen("Credulous", liars.Credulous),)),
    Law(honest_bits_are_not_doubted, (Specimen("Paranoid", liars.Paranoid),)),
    Law(bad_input_is_refused_and_changes_nothing, (Specimen("Swallows", liars.Swallows),)),
)
