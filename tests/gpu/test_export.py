"""An exported header on the GPU: the kernels that were measured, at the speed they were measured with."""

from __future__ import annotations

import subprocess

import pytest

from cutlass_tuner import statistics
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.finals import SAMPLE_US, USUAL
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import ContestResult, LibraryEntry, Refused, Timed

from .workshop import EXPORTED, Workshop

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

MOST_APART = 0.03


@pytest.mark.parametrize("index", range(len(EXPORTED)), ids=lambda i: "x".join(map(str, EXPORTED[i][2])))
def test_the_library_answers_right_and_takes_as_long_as_the_tuned_cubin(
    bench: Bench, workshop: Workshop, index: int
) -> None:
    """Launched again and again, on the contest's own stream, inside its CUDA graphs."""
    batch, place, *_ = EXPORTED[index]
    exported = workshop.export()
    tuned = exported.tuned[index]
    cubin = bench.kernel_entry(workshop.build(batch, place), tuned.config.launch)
    library = LibraryEntry(name="library", path=str(exported.library))
    result = bench.contest(
        tuned.problem,
        [cubin, library],
        USUAL.rounds,
        sample_us=SAMPLE_US,
        steady_s=USUAL.steady_s,
        check_after=True,
    )
    assert isinstance(result, ContestResult), result
    ours, theirs = result.entries
    assert isinstance(ours, Timed) and isinstance(theirs, Timed), theirs
    for entry, deterministic in ((ours, True), (theirs, False)):
        verdict = judge(entry.evidence, deterministic)
        assert verdict.passed, f"{entry.name}: {verdict.reasons}"
    assert theirs.workspace_bytes == ours.workspace_bytes
    pair = statistics.paired(theirs.samples_us, ours.samples_us)
    assert pair is not None and pair.n == USUAL.rounds
    medians = [statistics.median_us(entry.samples_us) for entry in (ours, theirs)]
    print(f"cubin {medians[0]:.2f} us, library {medians[1]:.2f} us, ratio {pair.ratio:.4f}", flush=True)
    assert abs(pair.ratio - 1.0) <= MOST_APART


def test_a_shape_that_was_not_tuned_is_refused(bench: Bench, workshop: Workshop) -> None:
    problem = workshop.problem(64, 64, 64)
    library = LibraryEntry(name="library", path=str(workshop.export().library))
    result = bench.contest(problem, [bench.reference(problem), library], 1, sample_us=20.0)
    assert isinstance(result, ContestResult), result
    refused = result.entries[1]
    assert isinstance(refused, Refused)
    assert refused.failure.stage == "load"


def test_the_self_benchmark_compiles_by_its_own_line_and_finds_all_answers_right(workshop: Workshop) -> None:
    done = subprocess.run([str(workshop.export().benchmark)], capture_output=True, text=True, timeout=60)
    print(done.stdout, flush=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all answers right" in done.stdout
    assert done.stdout.count(" yes ") == len(EXPORTED)


def test_the_header_may_be_included_twice_and_in_several_units(workshop: Workshop) -> None:
    done = subprocess.run([str(workshop.export().twice)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=3) == ["3", "1", "1", "no kernel was tuned for this problem\n"]
