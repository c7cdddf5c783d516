"""The finals of stored studies: the last of each problem, of every study that can be read, in no time."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutlass_tuner.events import Event, FinalRow, Finished, StudyHeader
from cutlass_tuner.records import Config, Problem
from cutlass_tuner.settings import data_dir
from cutlass_tuner.study import Study
from cutlass_tuner.study import outcomes as module
from cutlass_tuner.study.outcomes import Outcome, outcomes
from study.events import P1, P2, P3, built, header, kernel, launch, measured, told


def final(on: Problem, tile: int = 128, us: float = 10.0) -> Finished:
    winner = Config(kernel=kernel(tile), launch=launch())
    row = FinalRow(
        problem=on.key, l2="cold", entrants=("torch", winner.key), samples_us=((11.0,), (us,)), winner=winner,
        why="",
    )  # fmt: skip
    return Finished(row=row, at_s=1.0)


def write(root: Path, name: str, *events: Event, problems: tuple[Problem, ...] = (P1, P2)) -> Path:
    with Study.open_or_create(root, header(name), problems) as study:
        for event in events:
            study.append(event)
    return root / name


def zipped(folder: Path) -> None:
    plain = folder / "events.jsonl"
    (folder / "events.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()


def everything(root: Path) -> dict[str, Outcome]:
    return {one.header.name: one for one in outcomes(root, lambda _: True)}


def test_only_the_last_final_of_each_problem_among_all_other_events(tmp_path: Path) -> None:
    first, again, other = final(P1, us=9.0), final(P1, 64, us=8.0), final(P2)
    write(tmp_path, "a", built(), measured(), first, other, told(), again)
    found = everything(tmp_path)["a"]
    assert found.finals == (again.row, other.row)
    assert found.header == header("a") and found.problems == (P1, P2)


def test_the_same_from_a_gzipped_journal(tmp_path: Path) -> None:
    events = (built(), final(P1), measured(), final(P3))
    write(tmp_path, "plain", *events)
    zipped(write(tmp_path, "packed", *events))
    found = everything(tmp_path)
    assert list(found) == ["packed", "plain"]
    assert found["plain"].finals == found["packed"].finals == (events[1].row, events[3].row)


def test_a_plain_journal_hides_the_gzipped_one_it_came_from(tmp_path: Path) -> None:
    folder = write(tmp_path, "a", final(P1))
    zipped(folder)
    write(tmp_path, "a", final(P2))
    assert [row.problem for row in everything(tmp_path)["a"].finals] == [P1.key, P2.key]


def test_a_study_without_finals_or_without_a_journal_has_none(tmp_path: Path) -> None:
    write(tmp_path, "a", built(), measured())
    (write(tmp_path, "b", final(P1)) / "events.jsonl").unlink()
    assert [one.finals for one in everything(tmp_path).values()] == [(), ()]


def test_a_torn_last_line_is_no_event(tmp_path: Path) -> None:
    folder = write(tmp_path, "a", final(P1))
    with (folder / "events.jsonl").open("ab") as file:
        file.write(final(P2).model_dump_json().encode()[:-20])
    assert [row.problem for row in everything(tmp_path)["a"].finals] == [P1.key]


def spoiled_header(folder: Path) -> None:
    (folder / "study.json").write_text("{")


def spoiled_problems(folder: Path) -> None:
    (folder / "problems.json").unlink()


def spoiled_final(folder: Path) -> None:
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event":"final","row":{}}\n')


def spoiled_archive(folder: Path) -> None:
    zipped(folder)
    packed = folder / "events.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-12])


def no_file(folder: Path) -> None:
    (folder / "events.jsonl").unlink()
    (folder / "events.jsonl").mkdir()


def newer(folder: Path) -> None:
    stored = header("a").model_copy(update={"version": 99})
    (folder / "study.json").write_text(stored.model_dump_json())


@pytest.mark.parametrize(
    "spoil", [spoiled_header, spoiled_problems, spoiled_final, spoiled_archive, no_file, newer]
)
def test_a_study_that_cannot_be_read_is_passed_over(tmp_path: Path, spoil: object) -> None:
    folder = write(tmp_path, "a", final(P1))
    write(tmp_path, "b", final(P2))
    assert list(everything(tmp_path)) == ["a", "b"]
    spoil(folder)  # type: ignore[operator]
    assert list(everything(tmp_path)) == ["b"]


def test_folders_that_are_no_studies_are_none(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "study.json").write_text("{}")
    assert everything(tmp_path) == everything(tmp_path / "nowhere") == {}


def test_journals_of_studies_that_nobody_wants_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a", final(P1))
    write(tmp_path, "b", final(P2))
    read: list[str] = []
    real = module.lines
    monkeypatch.setattr(
        module, "lines", lambda path, parse: (read.append(path.parent.name), real(path, parse))[1]
    )
    wanted: Iterator[Outcome] = outcomes(tmp_path, lambda stored: stored.name == "b")
    assert [one.header.name for one in wanted] == read == ["b"]


def test_the_shipped_studies_agree_with_their_whole_journals_and_are_quick_to_read() -> None:
    root = data_dir("studies")
    largest = max(root.glob("*/events.jsonl.gz"), key=lambda path: path.stat().st_size).parent

    def is_largest(stored: StudyHeader) -> bool:
        return stored.name == largest.name

    began = time.process_time()
    [found] = outcomes(root, is_largest)
    took_s = time.process_time() - began
    study = Study.load(root, largest.name)
    assert {row.problem: row for row in found.finals} == study.ledger.finals
    assert len(found.finals) == len(study.problems)
    assert took_s < 1.5
