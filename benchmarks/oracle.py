"""The yes/no oracle: errors against floors, promises under stress, and speed against one numpy pass.

python -m benchmarks.oracle --format text            # everything, some minutes
python -m benchmarks.oracle --only speed             # one section
python -m benchmarks.oracle --plots docs/images      # also the plots of docs/oracle.md
"""

from __future__ import annotations

import argparse
import json
import math
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from keyhole.oracles.base import ModelWarning, ThresholdOracle
from keyhole.oracles.bounds import minimax_lower_bound, phase_level_error, private_laplace_scale
from keyhole.oracles.certify.assumptions import calibrate
from keyhole.oracles.certify.unknown_edge import certify_without_edge
from keyhole.oracles.learners import choose_learner
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.level_newton import LevelNewton
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import Floats, GaussianNoise, LaplaceNoise, OracleNoise, UniformNoise, noise_by_kind
from keyhole.oracles.simulate import StreamKind, build_stream, error_floor, play_game, play_games
from keyhole.oracles.streams import Concentrated, Spread, draw_blocks
from keyhole.oracles.subspace import Subspace
from keyhole.report.charts.figures import compute_guides, draw_errors
from keyhole.report.html.page import write_chart

Rows = list[dict[str, Any]]
SPACE = Subspace.blocks(4, 2)
SHAPES = ((4, 2, 1_000_000), (1_000, 10, 20_000), (10_000, 20, 2_000))


def published(plots: Path | None) -> Rows:
    """OnlineBisection with the published constants and SequentialBisection, T = 10^3 .. 10^6, 8 seeds."""
    rows: Rows = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for kind in StreamKind:
        stream = build_stream(kind, SPACE)
        for method in (choose_learner("online-bisection"), choose_learner("sequential")):
            for T in (1_000, 10_000, 100_000, 1_000_000):
                noise = noise_by_kind("uniform", 0.25, 4)
                runs, summary, _ = play_games(method, stream, noise, T, delta=0.01, seeds=8)
                rows.append(
                    {
                        "stream": str(kind),
                        "method": str(method),
                        "T": T,
                        "average_error": summary.average_error,
                        "final_error": summary.final_error,
                        "floor": summary.floor,
                        "ratio": summary.average_error / summary.floor,
                        "bound": summary.bound if summary.published_bound is None else summary.published_bound,
                        "contained": summary.contained,
                    }
                )
            curves[f"{method}, {kind}"] = _mean([run.trace for run in runs])
    if plots:
        floor = error_floor(
            choose_learner("sequential"), build_stream(StreamKind.CONCENTRATED, SPACE), noise, 1_000_000
        )
        all_curves = curves | compute_guides(curves["sequential, concentrated"], floor)
        title = "Published constants and sequential test, uniform:0.25"
        drawing = draw_errors(all_curves, dashed=("1/sqrt(T)", "floor"))
        write_chart(drawing, plots / "oracle-bisection.svg", title=title)
    return rows


def cuts(_: Path | None) -> Rows:
    """Cuts made by the published algorithm, 8 seeds."""
    rows: Rows = []
    for kind in StreamKind:
        for T in (10_000, 100_000, 1_000_000, 10_000_000):
            made = []
            for seed in range(8 if T < 10_000_000 else 2):
                rng = np.random.default_rng(seed)
                attack = OnlineBisection(SPACE, UniformNoise(1.0), horizon=T)
                attack.run(
                    draw_blocks(build_stream(kind, SPACE), T, rng),
                    ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng),
                )
                made.append(attack.cuts)
            rows.append({"stream": str(kind), "T": T, "cuts": float(np.mean(made)), "side": attack.side})
    return rows


def slope(_: Path | None, seeds: int = 100) -> Rows:
    """OnlineBisection phase by phase to T = 10^16: its average error and the local slope over two decades."""
    rows: Rows = []
    for u in (0.25, 1.0):
        noise, before = noise_by_kind("uniform", u, 4), math.nan
        for decades in range(4, 17, 2):
            runs = [phase_level_error(noise, SPACE, 10**decades, rng=np.random.default_rng(k)) for k in range(seeds)]
            error = float(np.mean(runs))
            rows.append(
                {
                    "noise": f"uniform:{u:g}", "T": f"10^{decades}", "average_error": error,
                    "slope": math.log10(error / before) / 2,
                }
            )  # fmt: skip
            before = error
    return rows


def hybrid(_: Path | None, seeds: int = 200) -> Rows:
    """OneBitNewton against the floor at T = 10^6: noises x streams, mean of 200 seeds."""
    rows: Rows = []
    for noise_kind in ("uniform", "gaussian", "laplace"):
        for kind in StreamKind:
            noise, stream = noise_by_kind(noise_kind, 0.25, 4), build_stream(kind, SPACE)
            runs, summary, said = play_games(
                choose_learner("newton"), stream, noise, 1_000_000, delta=0.01, seeds=seeds
            )
            errors = np.array([run.average_error for run in runs])
            rows.append(
                {
                    "noise": f"{noise_kind}:0.25",
                    "stream": str(kind),
                    "average_error": summary.average_error,
                    "floor": summary.floor,
                    "ratio": summary.average_error / summary.floor,
                    "ratio_se": float(errors.std() / math.sqrt(seeds) / summary.floor),
                    "lower_bound": minimax_lower_bound(noise, 2, 1_000_000),
                    "contained": summary.contained,
                    "warnings": len(said),
                }
            )
    return rows


def edge(plots: Path | None) -> Rows:
    """Edge thresholds against the centred floor, uniform noise, 8 seeds."""
    rows: Rows = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for kind in StreamKind:
        for u in (0.25, 1.0):
            noise, stream = noise_by_kind("uniform", u, 4), build_stream(kind, SPACE)
            for method in (choose_learner("edge"), choose_learner("newton")):
                runs, summary, _ = play_games(method, stream, noise, 1_000_000, delta=0.01, seeds=8)
                rows.append(
                    {
                        "stream": str(kind),
                        "noise": f"uniform:{u:g}",
                        "method": str(method),
                        "average_error": summary.average_error,
                        "final_error": summary.final_error,
                        "floor": summary.floor,
                        "ratio": summary.average_error / summary.floor,
                        "contained": summary.contained,
                    }
                )
                if u == 0.25 and kind is StreamKind.CONCENTRATED:
                    curves[str(method)] = _mean([run.trace for run in runs])
                    floor = summary.floor
    if plots:
        title = "Edge thresholds beat the centred floor, uniform:0.25, concentrated"
        shown = curves | compute_guides(curves["newton"], floor)
        drawing = draw_errors(shown, dashed=("1/sqrt(T)", "floor"))
        write_chart(drawing, plots / "oracle-edge.svg", title=title)
    return rows


def promise(_: Path | None) -> Rows:
    """1,000 short runs at delta = .2, axis queries, w just inside what a wrong first cut removes."""
    rows: Rows = []
    builders: dict[str, Callable[[OracleNoise], StreamAttack]] = {
        "SequentialBisection": lambda noise: SequentialBisection(SPACE, noise, delta=0.2),
        "OneBitNewton": lambda noise: OneBitNewton(SPACE, noise, delta=0.2),
        "EdgeBisection": lambda noise: EdgeBisection(SPACE, noise, delta=0.2),
    }
    for name, build in builders.items():
        for noise in (UniformNoise(1.0), GaussianNoise(0.6), LaplaceNoise(0.4)):
            if name == "EdgeBisection" and not isinstance(noise, UniformNoise):
                continue
            for T in (100, 1_000, 10_000):
                lost = 0
                for seed in range(1000):
                    rng = np.random.default_rng([seed, T])
                    attack = build(noise)
                    x, y = attack.box()
                    keep = 0.75 if name == "EdgeBisection" else 0.85
                    inside = (1 - keep) * 0.999
                    share = np.where(rng.random(2) < 0.5, inside, 1 - inside)
                    w = (x + share * (y - x)) @ SPACE.basis
                    with warnings.catch_warnings():  # a run that loses w also doubts; here losses are counted
                        warnings.simplefilter("ignore", ModelWarning)
                        attack.run(Concentrated(SPACE, phi=0.0).block(T, rng), ThresholdOracle(w, noise, rng=rng))
                    lost += not attack.holds(w)
                rows.append(
                    {
                        "method": name,
                        "noise": type(noise).__name__.removesuffix("Noise"),
                        "T": T,
                        "lost": lost,
                        "allowed": 200,
                    }
                )
    return rows


def misstated(_: Path | None) -> Rows:
    """Uniform noise of half-width .2 stated, another true: 10 seeds, 100,000 concentrated queries, 6,000 probes."""
    rows: Rows = []
    stream, stated = Concentrated(SPACE), UniformNoise(0.2)
    for build in (SequentialBisection, OneBitNewton, EdgeBisection):
        for true in (0.02, 0.1, 0.2, 0.4, 2.0):
            lost = warned = calibrated = 0
            for seed in range(10):
                for_w, for_queries, for_noise = np.random.default_rng(seed).spawn(3)
                attack, oracle = (
                    build(SPACE, stated),
                    ThresholdOracle(for_w.random(4), UniformNoise(true), rng=for_noise),
                )
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", ModelWarning)
                    lost += not attack.run(stream.block(100_000, for_queries), oracle).contained
                    warned += bool(caught)
                    probes = calibrate(attack, stream.block(6_000, for_queries), oracle)
                calibrated += not all(probe.believable for probe in probes)
            rows.append(
                {"method": build.__name__, "true": true, "lost": lost, "warned": warned, "calibrate_warned": calibrated}
            )
    return rows


def wrong_edge(_: Path | None) -> Rows:
    """Uniform noise of half-width 1 stated, another true; a third of T answers for `edge_free`. 20 seeds, delta .01."""
    rows: Rows = []
    stream, stated = Concentrated(SPACE), UniformNoise(1.0)
    for T in (300, 1_000, 3_000, 10_000, 30_000):
        for true in (0.9, 0.99, 0.999, 1.0, 1.001, 1.01, 1.1):
            lost = silent = warned = free = 0
            halves, sides = list[float](), list[float]()
            for seed in range(20):
                rng = np.random.default_rng([seed, 78])
                attack, w = EdgeBisection(SPACE, stated), rng.random(4)
                oracle = ThresholdOracle(w, UniformNoise(true), rng=rng)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", ModelWarning)
                    gone = not attack.run(stream.block(2 * T // 3, rng), oracle).contained
                found = certify_without_edge(attack, stream.block(T // 3, rng), oracle)
                lost, warned, silent = lost + gone, warned + bool(caught), silent + (gone and not caught)
                free += bool(np.any(np.abs(SPACE.coordinates(w) - found.centre) > found.half))
                halves.append(float(np.max(found.half)))
                sides.append(float(np.max(attack.box()[1] - attack.box()[0])) / 2)
            rows.append(
                {
                    "T": T, "true": true, "box_lost": lost, "warned": warned, "silently_lost": silent,
                    "box_half": float(np.median(sides)), "edge_free_lost": free,
                    "edge_free_half": float(np.median(halves)),
                }
            )  # fmt: skip
    return rows


def dimensions(plots: Path | None) -> Rows:
    """Spread streams in d = 2 .. 16: the estimate keeps working where axis boxes stall. T = 300,000, 8 seeds."""
    rows: Rows = []
    for d in (2, 4, 8, 16):
        stream, noise = Spread(Subspace.blocks(2 * d, d)), UniformNoise(1.0)
        for method in (choose_learner("newton"), choose_learner("sequential")):
            runs, summary, _ = play_games(method, stream, noise, 300_000, delta=0.01, seeds=8)
            rows.append(
                {
                    "d": d,
                    "method": str(method),
                    "average_error": summary.average_error,
                    "floor": summary.floor,
                    "ratio": summary.average_error / summary.floor,
                    "share_asked": float(np.mean([run.asked for run in runs])) / 300_000,
                    "contained": summary.contained,
                }
            )
    if plots:
        curves = {
            method: [(float(row["d"]), float(row["average_error"])) for row in rows if row["method"] == method]
            for method in ("newton", "sequential")
        }
        curves["floor"] = [(float(row["d"]), float(row["floor"])) for row in rows if row["method"] == "newton"]
        title = "Spread queries, T = 300,000"
        drawing = draw_errors(curves, x="dimension d", y="average error", dashed=("floor",))
        write_chart(drawing, plots / "oracle-dimension.svg", title=title)
    return rows


def privacy(plots: Path | None) -> Rows:
    """Laplace noise for epsilon over a cap of 1,000 answers: error against epsilon, 400 seeds."""
    rows: Rows = []
    cap, sensitivity = 1_000, 1 / math.sqrt(2)  # a record moves a unit query of two equal entries by at most that
    # the same 400 hidden vectors that `play` draws from its seeds
    w = np.array([np.random.default_rng(seed).spawn(3)[0].uniform(SPACE.lower, SPACE.upper) for seed in range(400)])
    q = Concentrated(SPACE).block(4_000, np.random.default_rng(0))
    prior = float(np.mean(np.abs((w - 0.5) @ q.T)))
    for epsilon in (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0):
        noise = LaplaceNoise(private_laplace_scale(epsilon, cap, sensitivity))
        _, summary, _ = play_games(choose_learner("newton"), Concentrated(SPACE), noise, cap, delta=0.01, seeds=400)
        rows.append(
            {
                "epsilon": epsilon,
                "noise_scale": noise.scale,
                "average_error": summary.average_error,
                "prior_error": prior,
                "share_of_prior": summary.average_error / prior,
            }
        )
    if plots:
        curves = {
            "newton": [(row["epsilon"], row["average_error"]) for row in rows],
            "prior": [(row["epsilon"], prior) for row in rows],
        }
        title = "A cap of 1,000 answers with epsilon-private noise"
        drawing = draw_errors(curves, x="epsilon", y="average error", dashed=("prior",))
        write_chart(drawing, plots / "oracle-privacy.svg", title=title)
    return rows


def levels(_: Path | None) -> Rows:
    """The price of one bit: k levels and the raw answer, Gaussian noise, T = 5,000, 20 seeds."""
    rows: Rows = []
    noise, stream, T = GaussianNoise(0.5), Spread(SPACE), 5_000
    for k in (2, 3, 4, 8):
        errors = []
        for seed in range(20):
            for_w, for_q, for_noise = np.random.default_rng(seed).spawn(3)
            attack = LevelNewton(SPACE, noise, levels=k)
            oracle = ThresholdOracle(for_w.random(4), noise, rng=for_noise)
            errors.append(attack.run(stream.block(T, for_q), oracle).average_error)
        rows.append(
            {
                "answer": f"{k} levels",
                "information": attack.information * noise.std**2,
                "average_error": float(np.mean(errors)),
            }
        )
    raw = [
        play_game(choose_learner("oracle-off"), stream, noise, T, delta=0.01, seed=seed).average_error
        for seed in range(20)
    ]
    rows.append({"answer": "raw", "information": 1.0, "average_error": float(np.mean(raw))})
    return rows


def speed(_: Path | None) -> Rows:
    """Compiled stream against one numpy pass `queries @ basis` over the same array, one thread each, interleaved.

    `ratio`: the attack, with the noise of the oracle drawn beforehand; `with_noise`: drawing it included. Medians of
    ratios to the passes just before and after; the times are minima.
    """
    rows: Rows = []
    cases: list[tuple[str, OracleNoise]] = [
        ("OnlineBisection", UniformNoise(1.0)),
        ("SequentialBisection", UniformNoise(1.0)),
        ("EdgeBisection", UniformNoise(1.0)),
        ("OneBitNewton", UniformNoise(1.0)),
        ("OneBitNewton", GaussianNoise(0.6)),
        ("OneBitNewton", LaplaceNoise(0.4)),
        ("SequentialBisection", LaplaceNoise(0.4)),
        ("OracleOff", GaussianNoise(0.6)),
    ]
    for D, d, T in SHAPES:
        space = Subspace.blocks(D, d)
        queries, w = Concentrated(space).block(T, np.random.default_rng(0)), np.random.default_rng(1).random(D)
        columns = np.ascontiguousarray(space.basis.T)

        def attack_of(name: str, noise: OracleNoise, space: Subspace = space, T: int = T) -> StreamAttack | OracleOff:
            match name:
                case "OnlineBisection":
                    return OnlineBisection(space, noise, horizon=T)
                case "SequentialBisection":
                    return SequentialBisection(space, noise)
                case "EdgeBisection":
                    return EdgeBisection(space, noise)
                case "OracleOff":
                    return OracleOff(space, noise)
                case _:
                    return OneBitNewton(space, noise)

        def numpy_pass(repeats: int, queries: Floats = queries, columns: Floats = columns) -> float:
            started = time.perf_counter()
            for _ in range(repeats):
                queries @ columns
            return (time.perf_counter() - started) / repeats

        repeats = 5 if D < 100 else 1  # so that both sides run for about as long
        for name, noise in cases:
            fast, times, ratios = [numpy_pass(repeats)], list[float](), (list[float](), list[float]())
            for turn in range(16):
                beforehand = turn % 2 == 0
                oracle = ThresholdOracle(w, noise, rng=np.random.default_rng(turn))
                if beforehand:
                    oracle.upcoming(T)
                taken = attack_of(name, noise).run(queries, oracle).seconds
                fast.append(numpy_pass(repeats))
                if turn >= 2:  # the first two load compiled code
                    # a neighbour on the machine slows both: compare with the passes just before and just after
                    ratios[turn % 2].append(taken / (0.5 * (fast[-2] + fast[-1])))
                    times += [taken] if beforehand else []
            rows.append(
                {
                    "D": D,
                    "d": d,
                    "method": name,
                    "noise": type(noise).__name__.removesuffix("Noise"),
                    "numpy_ns": min(fast) / T * 1e9,
                    "attack_ns": min(times) / T * 1e9,
                    "ratio": float(np.median(ratios[0])),
                    "with_noise": float(np.median(ratios[1])),
                }
            )
    return rows


def scaling(_: Path | None) -> Rows:
    """Time per query and dD: constant; memory against T: flat."""
    rows: Rows = []
    for D, d, T in ((250, 4, 40_000), (1_000, 4, 10_000), (4_000, 4, 2_500), (4_000, 16, 2_500)):
        space = Subspace.blocks(D, d)
        queries, w = Concentrated(space).block(T, np.random.default_rng(0)), np.random.default_rng(1).random(D)
        times = []
        for turn in range(5):
            oracle = ThresholdOracle(w, UniformNoise(1.0), rng=np.random.default_rng(turn))
            times.append(OneBitNewton(space, UniformNoise(1.0)).run(queries, oracle).seconds)
        rows.append(
            {"D": D, "d": d, "T": T, "ns_per_query": min(times) / T * 1e9, "ns_per_dD": min(times) / T * 1e9 / (d * D)}
        )
    for T in (100_000, 1_000_000, 4_000_000):
        rng = np.random.default_rng(0)
        attack = OneBitNewton(SPACE, UniformNoise(1.0))
        oracle = ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng)
        tracemalloc.start()
        attack.run(draw_blocks(Concentrated(SPACE), T, rng), oracle)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append({"D": 4, "d": 2, "T": T, "peak_megabytes": peak / 1e6})
    return rows


def _mean(traces: list[tuple[tuple[int, float], ...]]) -> list[tuple[float, float]]:
    return [(float(points[0][0]), float(np.mean([e for _, e in points]))) for points in zip(*traces, strict=True)]


SECTIONS: dict[str, Callable[[Path | None], Rows]] = {
    "published": published,
    "cuts": cuts,
    "slope": slope,
    "hybrid": hybrid,
    "edge": edge,
    "promise": promise,
    "misstated": misstated,
    "wrong-edge": wrong_edge,
    "dimensions": dimensions,
    "privacy": privacy,
    "levels": levels,
    "speed": speed,
    "scaling": scaling,
}


def table(rows: Rows) -> str:
    """Rows as aligned text."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def shown(value: object) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "NO"
        return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

    cells = [names, *[[shown(row.get(name)) for name in names] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells)


def main() -> None:
    """Run sections and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--only", choices=tuple(SECTIONS), action="append")
    parser.add_argument("--plots", type=Path, default=None, help="folder for the plots of the docs")
    chosen = parser.parse_args()
    results: dict[str, Rows] = {}
    with threadpool_limits(1):  # both sides of every ratio on one thread
        for name in chosen.only or SECTIONS:
            started = time.perf_counter()
            results[name] = SECTIONS[name](chosen.plots)
            if chosen.format == "text":
                head = (SECTIONS[name].__doc__ or "").strip().splitlines()[0]
                print(f"\n{name}: {head} [{time.perf_counter() - started:.0f} s]")
                print(table(results[name]), flush=True)
    if chosen.format == "json":
        print(json.dumps({"benchmark": "oracle", "results": results}, indent=2))


if __name__ == "__main__":
    main()
