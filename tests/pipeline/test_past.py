"""Winners of earlier studies: near ones, of the same GPU, measured, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner.events import FinalRow, Finished, StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.ops.hgemm.problem import problem
from cutlass_tuner.pipeline.past import NEAR, nearby
from cutlass_tuner.records import Config, KernelConfig, LaunchConfig, Problem
from cutlass_tuner.settings import data_dir
from cutlass_tuner.study import Study
from pipeline.recording import DEVICE, ENVIRONMENT, SPACE

HERE = problem((1024, 1024, 1024))


def header(name: str = "now", gpu: str = ENVIRONMENT.gpu, **fields: object) -> StudyHeader:
    values = {
        "name": name, "op": "hgemm", "family": "tma_ws", "device": DEVICE, "space_digest": SPACE.digest,
        "environment": ENVIRONMENT.model_copy(update={"gpu": gpu}), "l2": "cold",
        "created": "2026-11-30T12:00:00+00:00",
    }  # fmt: skip
    return StudyHeader.model_validate(values | fields)


NOW = header()


def winner(tile_n: int = 128) -> Config:
    return Config(
        kernel=KernelConfig(family="tma_ws", knobs={"tile_n": tile_n}), launch=LaunchConfig(knobs={})
    )


def final(on: Problem, speedup: float = 1.25, tile_n: int = 128, **fields: object) -> Finished:
    """Three rounds in which the winner takes 10 us, in the median."""
    best = winner(tile_n)
    values = {
        "problem": on.key, "l2": "cold", "entrants": ("torch", best.key), "winner": best, "why": "",
        "samples_us": ((10 * speedup, 11 * speedup, 9 * speedup), (10.0, 11.0, 9.0)),
    }  # fmt: skip
    return Finished(row=FinalRow.model_validate(values | fields), at_s=1.0)


def write(root: Path, head: StudyHeader, *finals: tuple[Problem, Finished]) -> None:
    with Study.open_or_create(root, head, [one for one, _ in finals]) as study:
        for _, event in finals:
            study.append(event)


def store(root: Path, head: StudyHeader, *problems: Problem) -> None:
    write(root, head, *((one, final(one)) for one in problems))


@pytest.mark.parametrize(
    "extents, near",
    [
        ((1024, 1024, 1024), True),
        ((4096, 1024, 1024), True),  # two doublings
        ((4104, 1024, 1024), False),
        ((512, 1024, 2048), True),  # one and one
        ((512, 2048, 2048), False),
        ((1024, 1024, 1024, 4), True),
        ((1024, 1024, 1024, 8), False),
    ],
)
def test_near_is_two_doublings_over_all_extents(tmp_path: Path, extents: tuple[int, ...], near: bool) -> None:
    store(tmp_path, header("before"), problem(extents))
    assert NEAR == 2
    assert [one.problem for one in nearby([tmp_path], NOW, [HERE])] == [problem(extents)] * near


def test_what_is_told_is_the_winner_and_by_how_much_it_beats_torch(tmp_path: Path) -> None:
    write(tmp_path, header("before"), (HERE, final(HERE, 1.1, tile_n=64)))
    [one] = nearby([tmp_path], NOW, [HERE])
    assert (one.problem, one.config) == (HERE, winner(64))
    assert one.speedup == pytest.approx(1.1)


def test_the_speedup_is_the_median_over_contests(tmp_path: Path) -> None:
    """Ratios of three contests: 1.1, 1.0 and 1.3, the last with most rounds. Pooled it would be 1.3."""
    torch = (11.0, 10.0, 13.0, 13.0, 13.0)
    several = final(HERE, samples_us=(torch, (10.0,) * 5), contests=(1, 1, 3))
    write(tmp_path, header("before"), (HERE, several))
    [one] = nearby([tmp_path], NOW, [HERE])
    assert one.speedup == pytest.approx(1.1)


@pytest.mark.parametrize(
    "other",
    [
        header("other", gpu="NVIDIA H100"),
        header("other", op="bgemm"),
        header("other", l2="warm"),
        header("other", simulated="recorded"),
        header("now"),
    ],
    ids=["gpu", "op", "l2", "simulated", "own"],
)
def test_what_does_not_compare_does_not_count(tmp_path: Path, other: StudyHeader) -> None:
    store(tmp_path, other, HERE)
    assert nearby([tmp_path], NOW, [HERE]) == ()
    store(tmp_path, header("fine"), HERE)
    assert len(nearby([tmp_path], NOW, [HERE])) == 1


def test_another_layout_is_not_near(tmp_path: Path) -> None:
    store(tmp_path, header("before"), problem((1024, 1024, 1024), "tt"))
    assert nearby([tmp_path], NOW, [HERE]) == ()


def test_the_nearest_then_the_fastest(tmp_path: Path) -> None:
    twice = problem((2048, 1024, 1024))
    write(tmp_path, header("far"), (twice, final(twice, 9.0)))
    write(tmp_path, header("a"), (HERE, final(HERE, 1.1, tile_n=64)))
    write(tmp_path, header("b"), (HERE, final(HERE, 1.3, tile_n=96)))
    write(tmp_path, header("c"), (HERE, final(HERE, 1.2, tile_n=32)))
    [one] = nearby([tmp_path], NOW, [HERE])
    assert one.config == winner(96)


def test_each_past_problem_stands_once_in_the_order_of_the_problems(tmp_path: Path) -> None:
    small, large = problem((64, 64, 64)), problem((8192, 8192, 8192))
    store(tmp_path, header("before"), small, HERE, large)
    asked = [
        large,
        problem((1024, 1024, 2048)),
        HERE,
        problem((1024, 512, 1024)),
        problem((8, 8, 65536)),
        small,
    ]
    found = nearby([tmp_path, tmp_path], NOW, asked)
    assert [one.problem for one in found] == [large, HERE, small]


def test_several_folders(tmp_path: Path) -> None:
    large = problem((8192, 8192, 8192))
    store(tmp_path / "own", header("before"), HERE)
    store(tmp_path / "shipped", header("before"), large)
    roots = [tmp_path / "nowhere", tmp_path / "own", tmp_path / "shipped"]
    assert [one.problem for one in nearby(roots, NOW, [HERE, large])] == [HERE, large]


@pytest.mark.parametrize(
    "broken",
    [
        final(HERE, winner=None),
        final(HERE, entrants=("cublaslt", winner().key)),
        final(HERE, entrants=("torch", "another")),
        final(HERE, samples_us=((10.0,),)),
        final(HERE, samples_us=((), ())),
        final(HERE, samples_us=((10.0, 0.0), (10.0, 10.0))),
        final(HERE, samples_us=((10.0, 10.0), (10.0, 10.0)), contests=(3, 3)),
    ],
    ids=["no winner", "no torch", "no samples", "cut short", "empty", "no time", "rounds"],
)
def test_a_final_that_says_nothing_is_passed_over(tmp_path: Path, broken: Finished) -> None:
    other = problem((8192, 8192, 8192))
    write(tmp_path, header("before"), (HERE, broken), (other, final(other)))
    assert [one.problem for one in nearby([tmp_path], NOW, [HERE, other])] == [other]


def test_finals_of_problems_that_were_dropped_since_are_passed_over(tmp_path: Path) -> None:
    store(tmp_path, header("before"), HERE)
    with Study.open_or_create(tmp_path, header("before"), [problem((64, 64, 64))]):
        pass
    assert nearby([tmp_path], NOW, [HERE]) == ()


def test_a_broken_study_spoils_nothing(tmp_path: Path) -> None:
    store(tmp_path, header("a"), HERE)
    store(tmp_path, header("b"), HERE)
    (tmp_path / "a" / "problems.json").write_text("[{}]")
    assert len(nearby([tmp_path], NOW, [HERE])) == 1


ATTENTION = header(op="fmha", family="attention")


@pytest.mark.parametrize(
    ("extents", "near"),
    [
        ((1, 16, 16, 4096, 4096, 128, 1), True),
        ((2, 16, 8, 4096, 4096, 128, 1), True),  # two doublings
        ((2, 16, 8, 2048, 4096, 128, 1), False),
        ((1, 16, 16, 4096, 4096, 64, 1), False),  # half as wide heads: another kernel
        ((1, 16, 16, 4096, 4096, 128, 0), False),  # another mask: another kernel
    ],
)
def test_a_problem_that_no_kernel_shares_is_never_near(
    tmp_path: Path, extents: tuple[int, ...], near: bool
) -> None:
    attention = registry.op("fmha").problem
    store(tmp_path, header("before", op="fmha", family="attention"), attention(extents, None))
    here = attention((1, 16, 16, 4096, 4096, 128, 1), None)
    assert bool(nearby([tmp_path], ATTENTION, [here])) is near


def test_no_mask_is_near_no_mask(tmp_path: Path) -> None:
    attention = registry.op("fmha").problem
    store(
        tmp_path, header("before", op="fmha", family="attention"), attention((1, 8, 8, 512, 512, 64, 0), None)
    )
    here = attention((1, 8, 8, 1024, 512, 64, 0), None)
    assert len(nearby([tmp_path], ATTENTION, [here])) == 1


def test_the_shipped_studies_know_every_shipped_shape() -> None:
    problems = SPACE.op.read_shapes(data_dir("spaces") / "shapes" / "hgemm-24.csv")
    found = nearby([data_dir("studies")], NOW, problems)
    assert [one.problem.key for one in found] == [one.key for one in problems]
    assert all(0.5 < one.speedup < 2 for one in found)
