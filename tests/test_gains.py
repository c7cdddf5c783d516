"""tools/gains: what a feature is, which measurements count, and the arithmetic, on a search made by hand."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cutlass_tuner import settings
from cutlass_tuner.ops import registry
from cutlass_tuner.records import (
    Config,
    Evidence,
    Measurement,
    Problem,
    Readback,
    Scalar,
    Verdict,
)
from cutlass_tuner.space import Space
from cutlass_tuner.space.knobs import Knob
from cutlass_tuner.study import Study, log_ratio

TOOL = Path(__file__).resolve().parent.parent / "tools" / "gains"
OP = registry.op("fmha")
FAMILY = OP.families["attention"]
SPACE = Space.of("fmha", "sm_90a")
PROBLEMS = [OP.problem((1, 8, 8, length, length, 128, 0), None) for length in (512, 1024)]


@pytest.fixture(scope="module")
def gains() -> ModuleType:
    loader = SourceFileLoader("gains", str(TOOL))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gains"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def config(**knobs: Scalar) -> Config:
    kernel, launch = SPACE.split(knobs)
    return Config(kernel=SPACE.kernel(**kernel), launch=SPACE.launch(**launch))


def measured(
    problem: Problem, chosen: Config, times_as_fast: float, *, rounds: int = 3, right: bool = True
) -> Measurement:
    """So many times as fast as torch, whose every sample is 100 us."""
    evidence = Evidence(
        elements=1,
        unwritten=0,
        nonfinite=0,
        guard_touched=0,
        error_over_bound=0.5,
        max_abs_error=0.0,
        exact_mismatches=0,
    )
    grid = Readback(
        grid=(1, 1, 1),
        cluster=(1, 1, 1),
        threads=128,
        smem_bytes=0,
        stages=2,
        workspace_bytes=0,
        zeroed_bytes=0,
    )
    return Measurement(
        kernel=chosen.kernel,
        launch=chosen.launch,
        problem=problem.key,
        reference="torch",
        samples_us=(100.0 / times_as_fast,) * rounds,
        reference_us=(100.0,) * rounds,
        launches_per_sample=1,
        l2="cold",
        readback=grid,
        evidence=evidence,
        verdict=Verdict(passed=right, reasons=() if right else ("error",)),
    )


def searched(gains: ModuleType, measurements: list[Measurement], winners: dict[str, Config]) -> Any:
    def of(problem: str) -> list[Measurement]:
        return [one for one in measurements if one.problem == problem]

    finals = {key: SimpleNamespace(winner=winner) for key, winner in winners.items()}
    ledger = SimpleNamespace(finals=finals)
    return gains.Searched.of(SimpleNamespace(problems=PROBLEMS, measurements=of, ledger=ledger))


def row(gains: ModuleType, found: Any, feature: Any) -> dict[str, str]:
    return dict(zip(gains.HEADS, gains.line(found, feature, FAMILY), strict=True))


def pingpong(gains: ModuleType) -> Any:
    return gains.Feature("pingpong", "pingpong=true", frozenset({True}), "false")


def test_best_against_best_and_pairs_that_differ_in_this_knob_alone(gains: ModuleType) -> None:
    first, second = PROBLEMS
    on, off, narrow = config(), config(pingpong=False), config(pingpong=False, tile_kv=48)
    other_launch = config(pingpong=False, section=8)
    measurements = [
        measured(first, on, 1.2),
        measured(first, off, 1.0),
        measured(first, narrow, 1.1),
        measured(second, on, 0.9),
        measured(second, other_launch, 1.0),
    ]
    found = searched(gains, measurements, {first.key: on, second.key: other_launch})
    shown = row(gains, found, pingpong(gains))
    ratios = (1.2 / 1.1, 0.9 / 1.0)
    assert shown["gain"] == f"{math.sqrt(ratios[0] * ratios[1]):.3f}"
    assert (shown["least"], shown["most"]) == (f"{ratios[1]:.3f}", f"{ratios[0]:.3f}")
    assert shown["worth"] == f"{math.sqrt(ratios[0] * 1.0):.3f}"
    assert (shown["shapes"], shown["winners"], shown["kernels"]) == ("2", "1", "1 / 2")
    assert (shown["alone"], shown["pairs"]) == ("1.200", "1")


def test_wrong_answers_finals_and_disturbed_contests_do_not_count(gains: ModuleType) -> None:
    first, _ = PROBLEMS
    on, off = config(), config(pingpong=False)
    wrong, late = config(tile_kv=48), config(tile_kv=80)
    disturbed = measured(first, config(tile_kv=96), 3.0)
    measurements = [
        measured(first, on, 1.1),
        measured(first, off, 1.0),
        measured(first, wrong, 2.0),
        measured(first, wrong, 2.0, rounds=13, right=False),  # one wrong answer is one too many
        measured(first, late, 2.0, rounds=13),
        disturbed.model_copy(update={"reference_us": (100.0, 100.0, 130.0)}),
    ]
    shown = row(gains, searched(gains, measurements, {first.key: on}), pingpong(gains))
    assert (shown["gain"], shown["shapes"], shown["kernels"]) == ("1.100", "1", "1 / 1")


def test_a_knob_is_compared_where_it_does_something(gains: ModuleType) -> None:
    first, _ = PROBLEMS
    theirs = config(template="example88", stages=4)  # pingpong stands at true there, and does nothing
    measurements = [
        measured(first, theirs, 5.0),
        measured(first, config(), 1.1),
        measured(first, config(pingpong=False), 1.0),
    ]
    found = searched(gains, measurements, {first.key: theirs})
    shown = row(gains, found, pingpong(gains))
    assert (shown["gain"], shown["winners"]) == ("1.100", "0")
    locked = gains.Feature("locked", "locked=true", frozenset({True}), "false")
    assert row(gains, found, locked)["shapes"] == "0"


@pytest.mark.parametrize(
    ("name", "seen", "switches", "single"),
    [
        ("pingpong", {True, False}, ["pingpong=true"], []),
        ("locked", {True, False}, ["locked=true"], []),
        ("pingpong", {True}, [], []),
        ("order", {"rows", "heavy"}, ["order=heavy"], []),
        ("exp_fma", {0, 2}, ["exp_fma>0"], []),
        ("groups", {2, 3, 4}, ["groups>2"], ["groups=2", "groups=3", "groups=4"]),
        ("tile_kv", {64, 128}, ["tile_kv>64"], []),
        ("tile_kv", {32, 48, 64, 80, 96, 112, 128}, ["tile_kv no power of two"], []),
    ],
)
def test_features_come_from_the_values_that_were_measured(
    gains: ModuleType, name: str, seen: set[Scalar], switches: list[str], single: list[str]
) -> None:
    knobs = {knob.name: knob for knob in (*SPACE.kernel_knobs(), *SPACE.launch_knobs())}
    knob: Knob = knobs[name]
    assert [one.label for one in gains.switches(knob, seen)] == switches
    assert [one.label for one in gains.single(knob, seen)] == single
    for one in (*gains.switches(knob, seen), *gains.single(knob, seen)):
        assert 0 < len(one.values & seen) < len(seen)


def test_a_shipped_studys_figure_is_found_again_from_its_measurements(gains: ModuleType) -> None:
    study = Study.load(settings.data_dir("studies"), "fmha-h200")
    logs = []
    for problem in study.problems:
        best: dict[Scalar, float] = {}
        several = study.measurements(problem.key)
        wrong = {(one.kernel.key, one.launch.key) for one in several if not one.verdict.passed}
        for one in several:
            value = log_ratio(one)
            screened = len(one.samples_us) <= 3 and (one.kernel.key, one.launch.key) not in wrong
            if screened and value is not None:
                template = one.kernel.knobs["template"]
                best[template] = min(value, best.get(template, math.inf))
        if len(best) == 2:
            logs.append(best["example88"] - best["flash"])
    tables = list(gains.tables(study))
    (line,) = [line for line in tables[0].splitlines() if line.startswith("| template=flash ")]
    assert f" {math.exp(sum(logs) / len(logs)):.3f} |" in line and f" {len(logs)} |" in line


def test_a_study_that_is_not_there_is_one_line() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2 and "no study 'nowhere'" in done.stderr and "Traceback" not in done.stderr
