"""`tune --simulate`: a recorded study in the place of the GPU. The same code, labelled, and nothing invented.

The recording is a scripted tune in the small space, or the shipped study. No child is started and nothing
is built in a simulation: child and builder write down what they are asked, and are asked nothing.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cutlass_tuner import pipeline, settings
from cutlass_tuner.events import (
    BaselineMeasured,
    Finished,
    KernelBuilt,
    KernelFailed,
    KernelTold,
    Measured,
    RunFailed,
)
from cutlass_tuner.options import SpaceOptions, TuneOptions
from cutlass_tuner.pipeline import bench, setup
from cutlass_tuner.records import Failure, Measurement, Proposal
from cutlass_tuner.results import TORCH
from cutlass_tuner.space import Space
from cutlass_tuner.statistics import paired
from cutlass_tuner.study import Study
from pipeline.harness import ENTRANTS, KEYS, Done, Server, Workplace, config_of, rows, screened

BUILDS = 20
SHIPPED = "hgemm-24-h200"
LABEL = "SIMULATED, replayed from s: no GPU measured this"
MISSED = "not recorded in s"


@pytest.fixture(scope="module")
def recorded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace whose study "s" is recorded; one of its kernels does not build."""
    place = Workplace(server, tmp_path_factory.mktemp("recorded"))
    place.tune(f"--builds {BUILDS}", BUILD_FAILS_ON="tile_m=256")
    return place


@pytest.fixture
def place(recorded: Workplace, server: Server, tmp_path: Path) -> Workplace:
    """A fresh workplace with the recorded study in it."""
    made = Workplace(server, tmp_path / "work")
    shutil.copytree(recorded.folder / "studies" / "s", made.folder / "studies" / "s")
    return made


def simulate(place: Workplace, options: str = f"--builds {BUILDS}", study: str = "sim") -> Done:
    """A simulated tune on a machine without a GPU; fails the test where it does."""
    done = place.run(simulating(options, study), CHILD_GPU="none")
    assert done.status == 0, done.err
    return done


def simulating(options: str = "", study: str = "sim") -> str:
    return (
        f"tune --op hgemm --shapes s.csv --space space.yaml --jobs 1 --study {study} --simulate s {options}"
    )


def simulated(place: Workplace, study: str = "sim") -> Study:
    return Study.load(place.folder / "studies", study)


def rewrite(place: Workplace, keep: Callable[[dict[str, object]], bool]) -> None:
    """Leave of the recorded journal the events for which `keep` is true."""
    events = [json.loads(line) for line in place.journal.read_text().splitlines()]
    place.journal.write_text("".join(json.dumps(event) + "\n" for event in events if keep(event)))


def ratios(one: Measurement) -> list[float]:
    return [ours / theirs for ours, theirs in zip(one.samples_us, one.reference_us, strict=True)]


@pytest.fixture(scope="module")
def done(recorded: Workplace) -> Done:
    """A simulation of all that is recorded, as the study "all"."""
    before = len(recorded.lines("asked")), len(recorded.lines("built")), len(recorded.lines("pids"))
    done = simulate(recorded, study="all")
    after = len(recorded.lines("asked")), len(recorded.lines("built")), len(recorded.lines("pids"))
    assert before == after, "something was measured or built"
    return done


def test_every_recorded_kernel_is_played_as_it_was_recorded(recorded: Workplace, done: Done) -> None:
    study, source = simulated(recorded, "all"), recorded.study
    assert set(study.ledger.builds) == set(source.ledger.builds)
    failed = {key: event.failure for key, event in source.ledger.failed.items()}
    assert failed and {key: event.failure for key, event in study.ledger.failed.items()} == failed
    known = {config_of(one): ratios(one) for one in screened(source.events())}
    replayed = [one for one in screened(study.events()) if config_of(one) in known]
    assert len({one.kernel.key for one in replayed}) == len(source.ledger.builds)
    for one in replayed:
        assert ratios(one) == pytest.approx(known[config_of(one)][: len(one.samples_us)])
        assert one.verdict.passed and one.card is None


def test_a_winner_that_won_before_has_the_figures_it_had(recorded: Workplace, done: Done) -> None:
    """Once, not three times: the same samples again would look more certain than they are."""
    before, after = rows(recorded.events), rows(simulated(recorded, "all").events())
    same = 0
    for key in KEYS:
        row, source = after[key].row, before[key].row
        assert row.winner is not None and source.winner is not None
        assert row.entrants == (*ENTRANTS, row.winner.key) and len(row.contests) == 1
        for name in ENTRANTS[1:]:
            pair, known = (
                paired(one.samples_us[one.entrants.index(name)], one.samples_us[0]) for one in (row, source)
            )
            assert pair is not None and known is not None and pair.n <= known.n
            assert pair.ratio == pytest.approx(known.ratio, rel=1e-3)
        if row.winner == source.winner:
            same += 1
            ours, known_ours = (paired(one.samples_us[-1], one.samples_us[0]) for one in (row, source))
            assert ours is not None and ours.model_dump() == pytest.approx(
                known_ours and known_ours.model_dump()
            )
            assert len(row.samples_us[-1]) == sum(source.contests)
    assert same


def test_everything_that_is_printed_says_so(recorded: Workplace, done: Done) -> None:
    assert done.out.splitlines()[:2] == [LABEL, f"all {BUILDS} kernels asked for are recorded"]
    said = done.err.splitlines()[-1]
    assert said.startswith("simulated: replayed from s (NVIDIA H200, 20") and said.endswith("are recorded")
    shown = recorded.run("show all").out
    assert f"\n{LABEL}\n" in shown
    assert "SIMULATED" not in recorded.run("show s").out


def test_everything_that_is_exported_says_so(recorded: Workplace, done: Done) -> None:
    table = json.loads(recorded.run("export all --format json").out)
    assert table["simulated"] == "s"
    header, *lines = recorded.run("export all --format csv").out.splitlines()
    assert header.endswith(",simulated") and all(line.endswith(",s") for line in lines)
    assert recorded.run("export all --out exported").out.startswith("SIMULATED, replayed from s: 3 shapes")
    for path in (recorded.folder / "exported").iterdir():
        assert "SIMULATED: figures replayed from the recorded study s, no GPU" in path.read_text(), path.name
    assert "beats_baseline" in (recorded.folder / "exported" / "tuned.cu").read_text()
    assert "}, true, {" not in (recorded.folder / "exported" / "tuned.cu").read_text()


def test_what_is_exported_of_a_measured_study_does_not(recorded: Workplace) -> None:
    assert "simulated" not in recorded.run("export s --format json").out
    assert "simulated" not in recorded.run("export s --format csv").out
    recorded.run("export s --out measured")
    for path in (recorded.folder / "measured").iterdir():
        assert "SIMULATED" not in path.read_text()
    assert "}, true, {" in (recorded.folder / "measured" / "tuned.cu").read_text()


def test_a_kernel_that_is_not_recorded_on_a_problem_is_missed_there_and_has_no_time(place: Workplace) -> None:
    victim = screened(place.events)[0].kernel.key
    rewrite(
        place,
        lambda e: not (
            e["event"] == "measured" and Measured.model_validate(e).measurement.problem == KEYS[1]
            and Measured.model_validate(e).measurement.kernel.key == victim
        ),
    )  # fmt: skip
    done = simulate(place)
    study = simulated(place)
    assert not [m for m in study.measurements(KEYS[1]) if m.kernel.key == victim]
    assert [m for m in study.measurements(KEYS[0]) if m.kernel.key == victim]
    (missed,) = study.ledger.run_failures
    assert (missed.kernel.key, missed.problem, missed.failure.reason) == (victim, KEYS[1], MISSED)
    (told,) = [e for e in study.events() if isinstance(e, KernelTold) and e.kernel.key == victim]
    assert KEYS[1] not in told.log_ratio and KEYS[0] in told.log_ratio
    count = f"0 of the {BUILDS} kernels asked for are not recorded, nor are 1 config of the others"
    assert done.out.splitlines()[1].startswith(count) and count in done.err


def test_a_kernel_that_is_not_recorded_is_missed_and_counted(place: Workplace) -> None:
    """The search itself asks for none; whoever proposes kernels from elsewhere may."""
    simulate(place, "--builds 6")
    source = pipeline.simulated.Recording(place.study, "s")
    space = Space.load(place.folder / "space.yaml")
    device = place.study.header.device
    known = {kernel.key for kernel in source.kernels}
    everything = space.candidates(place.study.problems, device)
    kernel = next(k for row in range(len(everything)) if (k := everything.kernel(row)).key not in known)
    (failure,) = source.builder().build([kernel])
    assert isinstance(failure, Failure) and failure.reason == MISSED
    folder = place.folder / "studies"
    with Study.open_or_create(folder, simulated(place).header, simulated(place).problems) as study:
        proposal = Proposal(kernel=kernel, source="llm")
        study.append(KernelFailed(proposal=proposal, failure=failure, at_s=study.now_s()))
    assert "\n1 of the 7 kernels asked for are not recorded, nor are 0 configs" in place.run("show sim").out


def test_a_kernel_that_was_built_but_never_run_is_not_recorded(place: Workplace) -> None:
    victim = screened(place.events)[-1].kernel.key
    rewrite(
        place,
        lambda e: (
            e["event"] not in ("measured", "final")
            or (e["event"] == "measured" and Measured.model_validate(e).measurement.kernel.key != victim)
        ),
    )
    source = pipeline.simulated.Recording(place.study, "s")
    assert victim in place.study.ledger.builds and victim not in {kernel.key for kernel in source.kernels}
    (failure,) = source.builder().build([place.study.ledger.builds[victim].kernel])
    assert isinstance(failure, Failure) and failure.reason == MISSED
    simulate(place)
    assert victim not in simulated(place).ledger.proposals


def test_what_failed_to_run_fails_again(place: Workplace) -> None:
    victim = screened(place.events)[0]
    failed = RunFailed(
        kernel=victim.kernel,
        launch=None,
        problem=KEYS[1],
        failure=Failure(stage="worker", reason="hung that day"),
        at_s=1.0,
    )
    place.journal.write_text(place.journal.read_text() + failed.model_dump_json() + "\n")
    done = simulate(place)
    (again,) = simulated(place).ledger.run_failures
    assert (again.kernel, again.problem, again.failure.reason) == (victim.kernel, KEYS[1], "hung that day")
    assert f"all {BUILDS} kernels asked for are recorded" in done.out


def test_without_recorded_finals_there_is_torch_alone(place: Workplace) -> None:
    rewrite(
        place,
        lambda e: (
            e["event"] not in ("baseline", "final")
            and not (
                e["event"] == "measured"
                and Measured.model_validate(e).measurement.evidence.after_timing_mismatches is not None
            )
        ),
    )
    assert not place.study.ledger.finals
    done = simulate(place)
    study = simulated(place)
    for key in KEYS:
        row = study.ledger.finals[key]
        assert row.winner is not None and row.entrants == (TORCH, row.winner.key)
        best = study.best(key)
        assert best is not None
        pair = paired(row.samples_us[1], row.samples_us[0])
        assert pair is not None and pair.ratio == pytest.approx(best.speedup, rel=0.01)
        assert pair.n == 3
    assert MISSED in done.out and "3 of 3 shapes" in done.out
    assert done.out.splitlines()[2].startswith("too few samples are recorded of 3 winners")


def test_a_simulated_study_goes_on_where_it_stopped(place: Workplace) -> None:
    simulate(place, "--builds 6")
    simulate(place, "--builds 14")
    events = simulated(place).events()
    built = [e for e in events if isinstance(e, KernelBuilt | KernelFailed)]
    told = [e.kernel.key for e in events if isinstance(e, KernelTold)]
    assert len({e.proposal.kernel.key for e in built}) == len(built) == 14
    assert len(set(told)) == len(told) == len([e for e in built if isinstance(e, KernelBuilt)])
    assert simulated(place).header.simulated == "s"
    assert all(finals.row.winner for finals in rows(events).values())


def test_the_same_run_twice_is_the_same(place: Workplace) -> None:
    def told(study: str) -> list[tuple[str, dict[str, float]]]:
        events = simulated(place, study).events()
        return [(e.kernel.key, e.log_ratio) for e in events if isinstance(e, KernelTold)]

    assert simulate(place, "--builds 12", "one").out == simulate(place, "--builds 12", "two").out
    assert told("one") == told("two")


def test_measured_and_simulated_do_not_mix(place: Workplace) -> None:
    simulate(place, "--builds 4")
    told = place.run("tune --op hgemm --shapes s.csv --space space.yaml --study sim --builds 8").told()
    assert "recording s there, none (a GPU measures) now" in told
    assert "recording none (a GPU measures) there, s now" in place.run(simulating(study="s")).told()
    shutil.copytree(place.folder / "studies" / "s", place.folder / "studies" / "t")
    header = json.loads((place.folder / "studies" / "t" / "study.json").read_text())
    (place.folder / "studies" / "t" / "study.json").write_text(json.dumps(header | {"name": "t"}))
    other = place.run(simulating().replace("--simulate s", "--simulate t")).told()
    assert "recording s there, t now" in other


def test_it_has_a_name_of_its_own(place: Workplace) -> None:
    done = place.run("tune --op hgemm --shapes s.csv --space space.yaml --simulate s --builds 4")
    assert done.status == 0, done.err
    (name,) = [path.name for path in (place.folder / "studies").iterdir() if path.name != "s"]
    assert name.startswith("hgemm-s-h200-") and name.endswith("-simulated")


MISTAKES = {
    "a shape that is not recorded": ("--shapes more.csv", "1 of 4 shapes in more.csv not recorded there: 8"),
    "a warm L2": ("--l2 warm", "recorded with --l2 cold, not warm; give --l2 cold"),
    "a study that is simulated": ("--simulate sim", "--simulate sim: that study is itself simulated, from s"),
    "no such study": ("--simulate nowhere", "no study 'nowhere' in studies; known: s, sim; shipped:"),
    "a space of other kernels": ("--fix tile_n=64 --fix tile_m=256 --fix tile_k=128", "none of its"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_in_one_line(what: str, place: Workplace) -> None:
    simulate(place, "--builds 2")
    place.write("more.csv", "m,n,k\n512,512,512\n1024,4096,1024\n16,4096,4096\n8,8,8\n")
    options, expected = MISTAKES[what]
    rewrite(place, lambda e: '"tile_m": 256' not in json.dumps(e))
    assert expected in place.run(simulating(options, study="x")).told()


def test_kernels_of_other_knobs_are_refused(place: Workplace) -> None:
    text = place.journal.read_text().replace('"epilogue":', '"epilog":')
    place.journal.write_text(text)
    told = place.run(simulating(study="x")).told()
    assert "recorded with other knobs than the space has: epilog, epilogue; give the space" in told


def test_a_study_of_another_op_is_refused(place: Workplace) -> None:
    path = place.folder / "studies" / "s" / "study.json"
    path.write_text(path.read_text().replace('"op": "hgemm"', '"op": "batched"'))
    told = place.run(simulating(study="x")).told()
    assert "--simulate s: that study is of batched, not of hgemm; give another one" in told


# --- the shipped study, in this process


@pytest.fixture
def no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither compilers nor a child may be looked for."""

    def never(*_: object) -> object:
        raise AssertionError("a simulation needs no toolchain and no GPU")

    for name in ("toolchain", "builder", "cache", "child_log"):
        monkeypatch.setattr(setup, name, never)
    monkeypatch.setattr(bench, "Worker", never)


def shipped(tmp_path: Path, **options: object) -> TuneOptions:
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("m,n,k\n512,512,512\n16,4096,4096\n4096,4096,4096\n")
    base = TuneOptions(
        op="hgemm", shapes=shapes, studies=tmp_path / "studies", simulate=SHIPPED, builds=10, study="x",
        space=SpaceOptions(fix={"tile_k": "64"}),
    )  # fmt: skip
    return TuneOptions(**{**base.__dict__, **options})  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_machine")
def test_the_shipped_study_replays_its_ratios(tmp_path: Path) -> None:
    text = pipeline.tune(shipped(tmp_path))
    assert text.startswith(f"SIMULATED, replayed from {SHIPPED}: no GPU measured this\nall 10 kernels")
    study = Study.load(tmp_path / "studies", "x")
    source = Study.load(settings.data_dir("studies"), SHIPPED)
    assert (study.header.environment, study.header.device) == (
        source.header.environment, source.header.device,
    )  # fmt: skip
    for problem in study.problems:
        known: dict[tuple[str, str, str], list[list[float]]] = {}
        for one in source.measurements(problem.key):
            known.setdefault(config_of(one), []).append(ratios(one))
        mine = study.measurements(problem.key)
        assert len({one.kernel.key for one in mine}) >= 5
        for one in mine:
            found = ratios(one)
            assert any(found == pytest.approx(each[: len(found)]) for each in known[config_of(one)])
        row = study.ledger.finals[problem.key]
        assert row.winner is not None and math.isfinite(row.samples_us[-1][0])
        names = [e.result.name for e in study.events() if isinstance(e, BaselineMeasured)]
        assert {"cublaslt-tuned", "cublaslt", "torch-again", "torch@tt"} <= set(names)
    assert len([e for e in study.events() if isinstance(e, Finished)]) == 3
    assert not study.ledger.run_failures
