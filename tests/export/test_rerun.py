from __future__ import annotations

import shlex

import pytest

from cutlass_tuner import pipeline, settings
from cutlass_tuner.cli import main
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.ops import registry
from cutlass_tuner.options import RunOptions
from cutlass_tuner.pipeline.run import Ran
from cutlass_tuner.records import Config, L2Mode, Problem
from cutlass_tuner.space import Space
from cutlass_tuner.study import Study

FOLDER = settings.data_dir("studies")
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/study.json"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """What the `run` command asks the pipeline for."""
    found: list[RunOptions] = []

    def run(options: RunOptions) -> Ran:
        found.append(options)
        return Ran("", True)

    monkeypatch.setattr(pipeline, "run", run)
    return found


def meant(options: RunOptions) -> tuple[Problem, Config, L2Mode]:
    """The problem and the effective config of a `run` (as the pipeline's makes them)."""
    op = registry.op(options.op)
    arch = next(iter(op.spaces))
    space, device = Space.of(op.name, arch).restrict(family=options.family), op.nominal_device(arch)
    problem = op.problem(options.extents, options.layout)
    kernel_knobs, launch_knobs = space.split(space.parse_all(options.knobs))
    kernel = space.effective(space.kernel(**{**space.family().knobs_for(problem), **kernel_knobs}), device)
    launch = space.effective_launch(kernel, space.launch(**launch_knobs), problem, device)
    return problem, Config(kernel=kernel, launch=launch), options.l2


@pytest.mark.parametrize("name", NAMES)
def test_every_winner_of_a_shipped_study_comes_back_from_its_command_line(
    name: str, asked: list[RunOptions]
) -> None:
    study = Study.load(FOLDER, name)
    for problem in study.problems:
        winner = study.ledger.finals[problem.key].winner
        assert winner is not None
        program, *arguments = shlex.split(
            run_command(problem, winner, "warm", study.header.environment.compiler)
        )
        assert program == "cutlass-tuner" and main(arguments) == 0
        again, config, l2 = meant(asked[-1])
        assert (again.key, config, l2) == (problem.key, winner, "warm")
        assert asked[-1].toolchain.compiler == "nvcc"
        given = registry.op(problem.op).families[winner.kernel.family].given
        assert {*given, *asked[-1].knobs} == {*winner.kernel.knobs, *winner.launch.knobs}
    assert len(asked) == len(study.problems) > 0


def test_a_batch_and_another_layout_come_back_too(asked: list[RunOptions]) -> None:
    op = registry.op("hgemm")
    problem = op.problem((128, 256, 512, 3), "tt")
    space, device = Space.of("hgemm", "sm_90a"), op.nominal_device("sm_90a")
    kernel = space.effective(space.kernel(layout="tt", tile_n=64, stages=9), device)
    launch = space.effective_launch(kernel, space.launch(swizzle=2), problem, device)
    command = run_command(problem, Config(kernel=kernel, launch=launch), "cold", "nvrtc 13.0, g++ 13.3.0")
    assert main(shlex.split(command)[1:]) == 0
    assert asked[-1].toolchain.compiler == "nvrtc"
    assert meant(asked[-1]) == (problem, Config(kernel=kernel, launch=launch), "cold")


def test_booleans_are_spelled_as_the_space_files_do() -> None:
    op = registry.op("hgemm")
    space = Space.of("hgemm", "sm_90a")
    config = Config(kernel=space.kernel(swap_ab=True), launch=space.launch())
    assert " --set swap_ab=true " in run_command(
        op.problem((64, 64, 64), "tn"), config, "cold", "nvcc 13.0.88, g++ 13.3.0"
    )
