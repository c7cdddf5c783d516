"""The measuring side alone: what a lost, broken or missing child comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import registry
from cutlass_tuner.pipeline import bench as benches
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Failure, KernelConfig, LaunchConfig, Measurement
from cutlass_tuner.settings import settings
from cutlass_tuner.space import Space
from cutlass_tuner.statistics import MANY_ROUNDS
from cutlass_tuner.wire import ContestResult
from pipeline import tuner

OP = registry.op("hgemm")
SPACE = Space.of("hgemm", "sm_90a")
DEVICE = OP.nominal_device("sm_90a")
PROBLEM = OP.problem((512, 512, 4096), None)
KERNEL = SPACE.effective(SPACE.kernel(cluster_m=1, scheduler="streamk"), DEVICE)
LAUNCHES = [
    SPACE.launch(decomposition="split_k", splits=splits) for splits in (2, 3, 4, 6, 8)
]  # effective as they are

Made = Callable[..., Bench]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes the bench, over a child with this environment."""
    monkeypatch.setattr(benches, "CHILD", tuner.CHILD)
    monkeypatch.setattr(benches, "ANSWER_S", 0.5)
    monkeypatch.setenv("CUTLASS_TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    settings.cache_clear()
    benches_made: list[Bench] = []

    def make(**environment: str) -> Bench:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        benches_made.append(Bench(OP, "cold", 0, tmp_path / "log"))
        return benches_made[-1]

    yield make
    for one in benches_made:
        one.__exit__()
    settings.cache_clear()


def screened(
    bench: Bench, launches: list[LaunchConfig], kernel: KernelConfig = KERNEL, alone: bool = True
) -> list[Measurement | Failure]:
    (build,) = tuner.Builder().build([kernel])
    assert not isinstance(build, Failure)
    return bench.screen(build, PROBLEM, launches, 0.0, alone=alone)


def asked(tmp_path: Path) -> list[int]:
    """How many kernels each contest had; after a failure torch alone is asked whether the GPU is well."""
    requests = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    return [len(r["entries"]) - 1 for r in requests if r["request"] == "contest" and len(r["entries"]) > 1]


def stages(outcomes: list[Measurement | Failure]) -> list[str]:
    return [outcome.stage if isinstance(outcome, Failure) else "measured" for outcome in outcomes]


def test_only_the_guilty_launch_fails(made: Made, tmp_path: Path) -> None:
    outcomes = screened(made(CHILD_DIES_ON="splits=4,"), LAUNCHES)
    assert stages(outcomes) == ["measured", "measured", "worker", "measured", "measured"]
    assert asked(tmp_path) == [5, 1, 1, 1, 1, 1]
    assert [o.launch for o in outcomes if isinstance(o, Measurement)] == [*LAUNCHES[:2], *LAUNCHES[3:]]


def test_two_guilty_launches_speak_for_the_rest(made: Made, tmp_path: Path) -> None:
    """A hang costs a deadline each time: a kernel that always hangs must not cost one for each launch."""
    assert stages(screened(made(CHILD_HANGS_ON="splits="), LAUNCHES)) == ["worker"] * 5
    assert asked(tmp_path) == [5, 1, 1]


def test_a_suspect_is_not_tried_launch_by_launch(made: Made, tmp_path: Path) -> None:
    assert stages(screened(made(CHILD_DIES_ON="splits=4,"), LAUNCHES, alone=False)) == ["worker"] * 5
    assert asked(tmp_path) == [5]


def test_the_start_of_a_new_child_is_no_part_of_a_contests_deadline(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After a hang the next one is found as quickly: the new child was waited for beforehand."""
    bench = made(CHILD_HANGS_ON="splits=4,")
    deadlines: list[float] = []
    exchange = bench._worker._exchange

    def watched(message: bytes, allowed_s: float) -> object:
        if b'"request":"contest"' in message:
            deadlines.append(allowed_s)
        return exchange(message, allowed_s)

    monkeypatch.setattr(bench._worker, "_exchange", watched)
    screened(bench, LAUNCHES[:3])
    assert len(deadlines) == 6 and max(deadlines) < 5


def test_where_not_even_torch_runs_no_kernel_is_to_blame(made: Made) -> None:
    with pytest.raises(UserError, match=r"no longer runs torch.matmul on .* is kept"):
        screened(made(CHILD_DIES_ON_CONTESTS="1"), LAUNCHES)


def test_a_poisoned_context_counts_as_a_lost_child(made: Made) -> None:
    (outcome,) = screened(made(CHILD_BREAKS_ON="splits=4,"), LAUNCHES[2:3])
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.reason) == ("worker", "CUDA_ERROR_ILLEGAL_ADDRESS")


def test_a_child_that_cannot_start_means_no_gpu(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "CHILD", ["/no/such/program"])
    with pytest.raises(UserError, match=r"no GPU to measure on .*doctor.*build"):
        made().describe()


def test_a_contest_with_a_child_that_cannot_start_fails(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "CHILD", ["/no/such/program"])
    bench = made()
    failed = bench.contest(PROBLEM, [bench.reference(PROBLEM)], 3)
    assert isinstance(failed, Failure) and failed.stage == "worker"
    assert isinstance(bench.tune_baseline(PROBLEM, 100), Failure)


@pytest.mark.parametrize(
    ("inherited", "gpu", "seen"),
    [(None, 0, "0"), (None, 3, "3"), ("5", 0, "5"), ("4, GPU-77", 1, "GPU-77")],
)
def test_the_child_sees_one_gpu(
    inherited: str | None, gpu: int, seen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if inherited is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", inherited)
    told = tmp_path / "told"
    program = f'echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER" > {told}'
    monkeypatch.setattr(benches, "CHILD", ["sh", "-c", program])
    with Bench(OP, "cold", gpu, tmp_path / "log") as bench:
        assert isinstance(bench.contest(PROBLEM, [bench.reference(PROBLEM)], 3), Failure)
    assert told.read_text() == f"{seen} PCI_BUS_ID\n"


def test_a_gpu_that_is_not_visible_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UserError, match="--gpu 2: CUDA_VISIBLE_DEVICES=0,1 leaves 2 GPUs"):
        Bench(OP, "cold", 2, tmp_path / "log")


def test_a_disturbed_contest_is_held_once_more_in_many_rounds(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = made()
    contest, rounds = bench.contest, list[int]()

    def stalled(*given: Any, **named: Any) -> ContestResult | Failure:
        rounds.append(given[2])
        result = contest(*given, **named)
        assert isinstance(result, ContestResult)
        reference, ours = result.entries
        slow = (1.3 * reference.samples_us[0], *reference.samples_us[1:])  # type: ignore[union-attr]
        torch = reference.model_copy(update={"samples_us": slow})
        return result.model_copy(update={"entries": (torch, ours)}) if len(rounds) < 2 else result

    monkeypatch.setattr(bench, "contest", stalled)
    (one,) = screened(bench, LAUNCHES[:1])
    assert isinstance(one, Measurement)
    assert rounds == [benches.SCREEN_ROUNDS, MANY_ROUNDS]
    assert len(one.samples_us) == MANY_ROUNDS


def test_what_a_dropped_entry_is_compared_with(made: Made) -> None:
    """Ours is paired with as many rounds of the reference as it took part in."""
    bench = made()
    (one,) = screened(bench, LAUNCHES[:1])
    assert isinstance(one, Measurement)
    (build,) = tuner.Builder().build([KERNEL])
    assert not isinstance(build, Failure)
    result = bench.contest(PROBLEM, [bench.reference(PROBLEM), bench.kernel_entry(build, LAUNCHES[0])], 3)
    assert isinstance(result, ContestResult)
    reference, ours = result.entries
    dropped = ours.model_copy(update={"samples_us": ours.samples_us[:1]})  # type: ignore[union-attr]
    cut = result.model_copy(update={"entries": (reference, dropped)})
    short = bench.measurement(KERNEL, LAUNCHES[0], PROBLEM, cut, 1)
    assert isinstance(short, Measurement)
    assert len(short.samples_us) == len(short.reference_us) == 1
    assert short.reference_us == reference.samples_us[:1]  # type: ignore[union-attr]
