"""The same command again: what was measured stands, and the search goes on from there."""

from __future__ import annotations

from collections import Counter

from cutlass_tuner.events import KernelBuilt, KernelTold, Measured
from cutlass_tuner.study import Study
from pipeline.harness import CONTESTS, KEYS, SHAPES, Workplace, repeated, rows, screened

ADDED = "hgemm:tn:2048x512x256x1"


def kernels(place: Workplace) -> set[str]:
    return {e.build.kernel.key for e in place.events if isinstance(e, KernelBuilt)}


def test_the_same_command_does_nothing_twice_and_more_builds_go_on(place: Workplace) -> None:
    first = place.tune("--builds 10")
    stored = place.journal.read_bytes()
    contests, built = len(place.asked()), len(place.lines("built"))
    spent_s = place.events[-1].at_s

    again = place.tune("--builds 10")
    assert again.out == first.out
    assert place.journal.read_bytes() == stored
    assert (len(place.asked()), len(place.lines("built"))) == (contests, built)
    assert len(place.asked("tune_baseline")) == 3

    place.tune("--builds 13")
    events = place.events
    assert place.journal.read_bytes().startswith(stored)
    assert repeated(events) == []
    assert len(kernels(place)) == 13
    assert len(place.lines("built")) == len(set(place.lines("built")))
    assert len(place.asked("tune_baseline")) == 3
    times = [event.at_s for event in events]
    assert times == sorted(times)
    assert times[len(stored.splitlines())] > spent_s
    sources = Counter(e.proposal.source for e in events if isinstance(e, KernelBuilt))
    assert sources["default"] == 1  # the seeds are not proposed again


def test_an_added_shape_gets_every_kernel_there_is(place: Workplace) -> None:
    place.tune("--builds 8")
    settled = {key: event.row for key, event in rows(place.events).items()}
    place.write("s.csv", f"{SHAPES}2048,512,256\n")
    done = place.tune("--builds 8")
    events = place.events
    assert "problems added since the last run: 2048x512x256" in done.err
    assert len(kernels(place)) == 8
    assert {one.kernel.key for one in screened(events) if one.problem == ADDED} == kernels(place)
    assert repeated(events) == []
    assert rows(events)[ADDED].row.winner is not None
    assert {key: rows(events)[key].row for key in KEYS} == settled
    assert "4 of 4 shapes" in done.out
    # Which is known to the search, too.
    place.tune("--builds 9")
    assert repeated(place.events) == []


def test_a_dropped_shape_keeps_its_results_for_when_it_comes_back(place: Workplace) -> None:
    place.tune("--builds 8")
    stored = place.journal.read_bytes()
    place.write("s.csv", "m,n,k\n512,512,512\n16,4096,4096\n")
    done = place.tune("--builds 8")
    assert "problems dropped since the last run (results kept): 1024x4096x1024" in done.err
    assert "2 of 2 shapes" in done.out and "1024x4096x1024" not in done.out
    assert place.journal.read_bytes() == stored
    place.write("s.csv", SHAPES)
    assert "3 of 3 shapes" in place.tune("--builds 8").out
    assert place.journal.read_bytes() == stored


def test_all_shapes_may_change(place: Workplace) -> None:
    place.tune("--builds 6")
    place.write("s.csv", "m,n,k\n2048,512,256\n")
    assert "1 of 1 shapes" in place.tune("--builds 8").out
    assert {one.kernel.key for one in screened(place.events) if one.problem == ADDED} == kernels(place)
    assert repeated(place.events) == []


def test_a_kernel_that_was_right_nowhere_is_tried_on_an_added_shape(place: Workplace) -> None:
    place.tune("--builds 6", CHILD_LIES_ON="tile_n=256")
    place.write("s.csv", f"{SHAPES}2048,512,256\n")
    place.tune("--builds 6")
    assert {one.kernel.key for one in screened(place.events) if one.problem == ADDED} == kernels(place)


def test_a_kernel_of_a_dropped_layout_cut_short_by_a_kill(place: Workplace) -> None:
    """Its round is still open, but there is nothing left to run it on."""
    place.write("s.csv", "m,n,k,layout\n512,512,512,tn\n512,512,512,tt\n")
    place.tune("--builds 8")
    events = place.events
    cut = next(
        i
        for i, e in enumerate(events)
        if isinstance(e, KernelBuilt) and e.build.kernel.knobs["layout"] == "tt"
    )
    place.journal.write_bytes(b"".join(place.journal.read_bytes().splitlines(keepends=True)[: cut + 1]))
    place.write("s.csv", "m,n,k,layout\n512,512,512,tn\n")
    assert "1 of 1 shapes" in place.tune("--builds 10").out
    assert repeated(place.events) == []
    assert not [m for m in screened(place.events) if m.problem == "hgemm:tt:512x512x512x1"][1:]


def test_a_round_cut_short_is_completed_without_repeating_its_beginning(place: Workplace) -> None:
    place.tune("--builds 4")
    told = next(i for i, e in enumerate(place.events) if isinstance(e, KernelTold))
    lines = place.journal.read_bytes().splitlines(keepends=True)
    assert isinstance(place.events[told - 1], Measured)
    place.journal.write_bytes(b"".join(lines[: told - 1]))
    lost = place.study.events()
    place.tune("--builds 4")
    assert place.events[: len(lost)] == lost
    assert repeated(place.events) == []
    rounds = Counter(e.kernel.key for e in place.events if isinstance(e, KernelTold))
    assert set(rounds) == kernels(place) and set(rounds.values()) == {1}


def test_finals_cut_short_are_played_again_and_only_those(place: Workplace) -> None:
    place.tune("--builds 4")
    lines = place.journal.read_bytes().splitlines(keepends=True)
    assert b'"event":"final"' in lines[-1]
    place.journal.write_bytes(b"".join(lines[:-1]))
    before = len(place.asked())
    place.tune("--builds 4")
    again = place.asked()[before:]
    assert len(again) == 1 + CONTESTS  # the semifinal and the final
    assert {f"{r['problem']['dims']['m']}" for r in again} == {"16"}
    assert len(rows(place.events)) == 3


def test_kernels_pruned_from_the_cache_are_built_again_for_the_finals(place: Workplace) -> None:
    place.tune("--builds 4")
    for artefact in (place.folder / "cache" / "kernels").iterdir():
        artefact.unlink()
    place.journal.write_bytes(
        b"".join(
            line for line in place.journal.read_bytes().splitlines(True) if b'"event":"final"' not in line
        )
    )
    assert "3 of 3 shapes" in place.tune("--builds 4").out
    rebuilt = Counter(place.lines("built"))
    assert max(rebuilt.values()) == 2
    assert len(kernels(place)) == 4 and repeated(place.events) == []


def test_another_gpu_or_setting_is_refused_with_both_values(place: Workplace) -> None:
    place.tune("--builds 2")
    folder = place.folder / "studies" / "s"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    for options, gpu, told in (
        ("", "NVIDIA H100 PCIe", "gpu NVIDIA H200 there, NVIDIA H100 PCIe now"),
        ("--l2 warm", "NVIDIA H200", "l2 cold there, warm now"),
        ("--fix tile_m=64", "NVIDIA H200", "space "),
    ):
        line = place.run(place.tuning(f"--builds 4 {options}"), CHILD_GPU=gpu).told()
        assert told in line and " there, " in line and "--study NAME" in line
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"} == before
    said = place.tune("--builds 2", CHILD_DRIVER="590.1").err
    assert "driver was 580.0 when the study began and is 590.1 now" in said


def test_without_a_name_another_gpu_gets_a_study_of_its_own(place: Workplace) -> None:
    command = "tune --op hgemm --shapes s.csv --space space.yaml --builds 2"
    for gpu in ("NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA H200"):
        assert place.run(command, CHILD_GPU=gpu).status == 0
    names = {path.name for path in (place.folder / "studies").iterdir()}
    assert len(names) == 2
    assert {Study.load(place.folder / "studies", name).header.device.name for name in names} == {
        "NVIDIA H200",
        "NVIDIA H100 PCIe",
    }
