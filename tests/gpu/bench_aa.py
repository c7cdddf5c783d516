"""A/A: a kernel against itself. How often is a winner named where there is none, and how wide is the noise?

    python tests/gpu/bench_aa.py

Two entries with the same artefacts and launch but different names, timed as finals are, in contests of 50
rounds, ten contests a problem. "named" counts contests in which `statistics.faster` saw a winner; "IQR" is
the interquartile range of log(time of a / time of b) over all rounds; "bias" the median of that and "worst"
the contest whose own median lies farthest from nought. About 20 s, and 30 s more where the kernel is not in
the cache.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from cutlass_tuner import statistics
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.finals import SAMPLE_US, USUAL
from cutlass_tuner.records import Build, CardState, Problem
from cutlass_tuner.space import Space
from cutlass_tuner.wire import ContestResult, KernelEntry, Timed

SIZES = (64, 1024, 4096, 8192)
ROUNDS = 50
CONTESTS = 10


@dataclass(frozen=True)
class Pairing:
    """One contest of a kernel against itself: its samples and the card's state."""

    a_us: tuple[float, ...]
    b_us: tuple[float, ...]
    card: CardState | None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contests", type=int, default=CONTESTS, help="contests a problem (default 10)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds a contest (default 50)")
    parser.add_argument("--gpu", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    op = registry.op("hgemm")
    build = default_kernel(op)
    say(began, f"{build.symbol} built: {build.kernel.key}")
    rows = []
    with Bench(op, "cold", arguments.gpu, setup.child_log()) as bench:
        device = bench.describe().device
        say(began, f"{device.name}, driver {device.driver}")
        for size in SIZES:
            problem = op.problem((size, size, size), "tn")
            pairings = [
                against_itself(bench, build, problem, arguments.rounds, first=number == 0)
                for number in range(arguments.contests)
            ]
            rows.append(row(problem, pairings))
            say(began, f"{problem.label} done")
    print(tabulate(rows, headers="keys", floatfmt=".3f"), flush=True)


def say(began: float, text: str) -> None:
    print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)


def default_kernel(op: registry.Op) -> Build:
    options = ToolchainOptions()
    space, device = Space.of(op.name, "sm_90a"), op.nominal_device("sm_90a")
    builder = setup.builder(setup.toolchain(options), "sm_90a", op, options)
    (built,) = builder.build([space.effective(space.kernel(), device)])
    if not isinstance(built, Build):
        raise SystemExit(f"the default kernel was not built: {built.reason}\n{built.detail}")
    return built


def against_itself(bench: Bench, build: Build, problem: Problem, rounds: int, *, first: bool) -> Pairing:
    """One contest; the first of a problem brings the card to its steady state, later ones keep it there."""
    space = Space.of(bench.op.name, "sm_90a")
    entry = bench.kernel_entry(build, space.launch())
    twins: list[KernelEntry] = [entry.model_copy(update={"name": name}) for name in ("a", "b")]
    result = bench.contest(
        problem,
        twins,
        rounds,
        sample_us=SAMPLE_US,
        steady_s=USUAL.steady_s if first else USUAL.steady_s / 4,
    )
    if not isinstance(result, ContestResult):
        raise SystemExit(f"{problem.label}: {result.reason}\n{result.detail}")
    a, b = result.entries
    if not (isinstance(a, Timed) and isinstance(b, Timed)):
        raise SystemExit(f"{problem.label}: {a} {b}")
    return Pairing(a.samples_us, b.samples_us, result.card)


def row(problem: Problem, pairings: list[Pairing]) -> dict[str, object]:
    named = [statistics.faster(each.a_us, each.b_us) for each in pairings]
    logs = [np.log(np.asarray(each.a_us) / np.asarray(each.b_us)) for each in pairings]
    low, middle, high = np.percentile(np.concatenate(logs), (25, 50, 75))
    worst = max((float(np.median(each)) for each in logs), key=abs)
    clocks = [each.card.sm_clock_mhz for each in pairings if each.card is not None]
    return {
        "problem": problem.label,
        "us": statistics.median_us([us for each in pairings for us in each.a_us]),
        "contests": len(pairings),
        "pairs": sum(len(each.a_us) for each in pairings),
        "named": sum(name != "tie" for name in named),
        "IQR %": 100 * (high - low),
        "bias %": 100 * middle,
        "worst %": 100 * worst,
        "MHz": f"{min(clocks)}-{max(clocks)}" if clocks else "",
    }


if __name__ == "__main__":
    main()
