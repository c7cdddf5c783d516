"""Naming, folding, judging and listing configs through `Space`; narrowing it by flags."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

import numpy as np
import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.columns import Columns
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, LaunchConfig, Problem
from cutlass_tuner.settings import data_dir
from cutlass_tuner.space import Candidates, Space, grid

HGEMM = op("hgemm")


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.load("hgemm-sm90")


@pytest.fixture(scope="module")
def device() -> DeviceFacts:
    return nominal_device("sm_90a")


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return HGEMM.read_shapes(data_dir("spaces") / "shapes" / "hgemm-24.csv")


@pytest.fixture(scope="module")
def table(space: Space, device: DeviceFacts, problems: list[Problem]) -> Candidates:
    return space.candidates(problems, device)


def _said(call: object, *args: object, **kwargs: object) -> str:
    assert callable(call)
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- naming -----------------------------------------------------------------------------------


def test_defaults_fill_what_is_not_said(space: Space) -> None:
    kernel = space.kernel("tma_ws", tile_n=256, swap_ab=True)
    assert kernel.family == "tma_ws"
    assert set(kernel.knobs) == {knob.name for knob in space.kernel_knobs()}
    assert (kernel.knobs["tile_n"], kernel.knobs["tile_m"], kernel.knobs["swap_ab"]) == (256, 128, True)
    assert space.launch(swizzle=4).knobs == {
        "swizzle": 4,
        "raster": "heuristic",
        "splits": 1,
        "decomposition": "heuristic",
        "reduction": "deterministic",
    }


def test_unknown_names_and_values_are_one_line(space: Space) -> None:
    assert "no kernel knob 'tile'" in _said(space.kernel, tile=128)
    assert "no launch knob 'stages'" in _said(space.launch, stages=4)
    said = _said(space.kernel, schedule="fast")
    assert "schedule is 'fast'" in said and "plain, pingpong, cooperative" in said
    assert "tile_n is 24" in _said(space.kernel, tile_n=24)
    assert "swap_ab is 1" in _said(space.kernel, swap_ab=1)
    assert "tile_m is True" in _said(space.kernel, tile_m=True)
    assert "no family 'tiny'" in _said(space.kernel, "tiny")
    assert "stages is 1" in _said(space.kernel, stages=1)


def test_stages_outside_the_searched_values_may_be_named(space: Space, device: DeviceFacts) -> None:
    assert space.kernel(stages=9).knobs["stages"] == 9
    assert space.parse("stages", "9") == 9
    assert 9 not in next(knob for knob in space.kernel_knobs() if knob.name == "stages").values


def test_parse(space: Space) -> None:
    assert space.parse("tile_n", " 96 ") == 96
    assert space.parse("swap_ab", "True") is True
    assert space.parse("stages", "two_ctas") == "two_ctas"
    assert space.parse("swizzle", "8") == 8
    assert "tile_n is '24'" in _said(space.parse, "tile_n", "24")
    assert "stages is '-4'" in _said(space.parse, "stages", "-4")
    assert "no knob 'beta'" in _said(space.parse, "beta", "1")


def test_shorthands(space: Space) -> None:
    assert space.parse_all({"tile": "128x256x64", "cluster": "2x1", "stages": "auto"}) == {
        "tile_m": 128,
        "tile_n": 256,
        "tile_k": 64,
        "cluster_m": 2,
        "cluster_n": 1,
        "stages": "auto",
    }
    assert "tile wants MxNxK, like 128x128x64" in _said(space.parse_all, {"tile": "128x256"})
    assert "cluster wants MxN, like 2x1" in _said(space.parse_all, {"cluster": "2"})
    assert "tile_m is '100'" in _said(space.parse_all, {"tile": "100x256x64"})
    assert "no knob 'tiles'" in _said(space.parse_all, {"tiles": "128x256x64"})


@pytest.mark.parametrize("parse", ["parse_all", "parse_choices"])
def test_a_knob_given_twice_is_refused_whichever_way(space: Space, parse: str) -> None:
    tile, alone = {"tile": "128x128x64"}, {"tile_m": "64"}
    call = getattr(space, parse)
    assert "tile_m is given twice, by tile_m=64 and tile=128x128x64" in _said(call, alone | tile)
    assert "tile_m is given twice, by tile=128x128x64 and tile_m=64" in _said(call, tile | alone)
    assert call(tile | {"cluster_m": "1"})


def test_choices(space: Space) -> None:
    assert space.parse_choices({"stages": "3,4,auto", "tile": "128x256x64"}) == {
        "stages": (3, 4, "auto"),
        "tile_m": (128,),
        "tile_n": (256,),
        "tile_k": (64,),
    }


def test_split(space: Space) -> None:
    assert space.split({"stages": 4, "splits": 2}) == ({"stages": 4}, {"splits": 2})
    assert "no knob 'beta'" in _said(space.split, {"beta": 1})


def test_foreign_configs_are_refused_in_one_line(space: Space, device: DeviceFacts) -> None:
    knobs = space.kernel().knobs
    missing = KernelConfig(family="tma_ws", knobs={k: v for k, v in knobs.items() if k != "stages"})
    assert "stages" in _said(space.effective, missing, device)
    foreign = KernelConfig(family="tma_ws", knobs={**knobs, "schedule": "turbo"})
    assert "schedule is 'turbo'" in _said(space.check, foreign, None, None, device)
    typed = KernelConfig(family="tma_ws", knobs={**knobs, "swap_ab": 1})
    assert "swap_ab is 1" in _said(space.check, typed, None, None, device)
    launch = LaunchConfig(knobs={"swizzle": 1})
    assert "other knobs" in _said(space.check, space.kernel(), launch, None, device)


# --- candidates -------------------------------------------------------------------------------


def test_there_are_many_legal_kernels_and_it_takes_no_time(
    space: Space, device: DeviceFacts, problems: list[Problem]
) -> None:
    begun = time.process_time()
    table = space.candidates(problems, device)
    assert time.process_time() - begun < 3.0
    assert len(table) > 100_000
    assert table.serves.shape == table.unwise_on.shape == (len(table), len(problems))
    assert 0.02 < table.unwise.mean() < 0.5
    for name, least in (("schedule", 3), ("tile_n", 17), ("tile_k", 4), ("tile_m", 3), ("cluster_m", 4)):
        assert len(np.unique(table.columns[name])) == least


def test_rows_agree_with_check(
    table: Candidates, space: Space, device: DeviceFacts, problems: list[Problem]
) -> None:
    rng = random.Random(3)
    for row in rng.sample(range(len(table)), 250):
        kernel = table.kernel(row)
        assert space.check(kernel, None, None, device).legal
        place = rng.randrange(len(problems))
        judged = space.check(kernel, None, problems[place], device)
        assert judged.legal == table.serves[row, place]
        assert bool(judged.unwise) == table.unwise_on[row, place]


def test_check_and_rows_agree_on_random_raw_kernels(
    table: Candidates, space: Space, device: DeviceFacts
) -> None:
    rng = random.Random(4)
    verdicts = set()
    for _ in range(600):
        chosen = {knob.name: rng.choice(knob.values) for knob in space.kernel_knobs()}
        raw = space.kernel(**{**chosen, "layout": "tn"})
        kernel = space.effective(raw, device)
        legal = space.check(raw, None, None, device).legal
        assert legal == space.check(kernel, None, None, device).legal
        row = table.row(kernel)
        assert (row is not None) == legal, kernel.key
        if row is not None:
            assert table.kernel(row) == kernel
        verdicts.add(legal)
    assert verdicts == {True, False}


def test_rows_are_distinct_and_codes_name_them(table: Candidates, space: Space, device: DeviceFacts) -> None:
    assert table.codes.dtype == np.int16
    assert len(np.unique(table.codes, axis=0)) == len(table)
    rows = range(0, len(table), 1009)
    assert len({table.kernel(row).key for row in rows}) == len(rows)
    knobs = space.kernel_knobs()
    for row in rows:
        raw = table.raw(row)
        assert raw == {k.name: k.values[c] for k, c in zip(knobs, table.codes[row], strict=True)}
        assert space.effective(space.kernel(**raw), device) == table.kernel(row)


def test_equal_kernels_are_one_row(table: Candidates, space: Space, device: DeviceFacts) -> None:
    named = {}
    for stages in ("auto", 6):
        kernel = space.effective(space.kernel(stages=stages), device)
        named[stages] = table.row(kernel)
    assert named["auto"] is not None and named["auto"] == named[6]
    assert table.raw(named["auto"])["stages"] == "auto"
    assert table.row(space.effective(space.kernel(layout="tt"), device)) is None


def test_codes_still_name_rows_when_a_layout_is_left_out(space: Space, device: DeviceFacts) -> None:
    of = HGEMM.problem((512, 512, 512), "tt")
    table = space.candidates([of], device)
    assert {table.raw(row)["layout"] for row in range(0, len(table), 5003)} == {"tt"}
    assert table.kernel(17).knobs["layout"] == "tt"


def test_candidates_without_problems_have_every_layout(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"tile_m": 128, "tile_k": 64, "cluster_m": 1, "cluster_n": 1})
    table = held.candidates([], device)
    assert {table.kernel(row).knobs["layout"] for row in range(len(table))} == {"tn", "tt"}
    assert table.serves.shape == (len(table), 0)
    spilling = [row for row in range(len(table)) if table.unwise[row]]
    assert spilling
    assert all(space.check(table.kernel(row), None, None, device).unwise for row in spilling[:20])


def test_a_kernel_stays_if_it_serves_any_problem(space: Space, device: DeviceFacts) -> None:
    mixed = [HGEMM.problem((512, 512, 512), "tn"), HGEMM.problem((512, 512, 512), "tt")]
    table = space.candidates(mixed, device)
    assert table.serves.any(axis=1).all()
    assert not table.serves.all(axis=1).any()


def test_no_kernel_for_a_layout_says_so(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"layout": "tt"})
    said = _said(held.candidates, [HGEMM.problem((512, 512, 512), "tn")], device)
    assert "layout" in said and "tn" in said and "tt" in said


def test_distinct_rows_stay_distinct_however_wide_their_values() -> None:
    wide = np.array([0, 2**62, 2**62, 5, 0])
    other = np.array([0, 2**40, 2**40, 2**40, 4])
    table = Columns({"a": wide, "b": other, "c": other}, {})
    assert grid.first_of_each(table).tolist() == [0, 1, 3, 4]
    # Packed into 64 bits the first two would be one: 4 * 2**62 wraps to 0.
    clash = Columns({"a": np.array([0, 4, 0]), "b": np.array([0, 0, 2**62 - 1])}, {})
    assert grid.first_of_each(clash).tolist() == [0, 1, 2]


def test_knobs_that_do_nothing_are_not_walked_and_no_kernel_is_lost(device: DeviceFacts) -> None:
    family = Space.of("fmha", "sm_90a").restrict(
        {
            "tile_kv": 64,
            "groups": (1, 2),
            "tile_q": (64, 128),
            "head_dim": 64,
            "mask": "full",
            "stages": (4, 6),
        }
    )
    knobs, model = family.family().kernel, op("fmha").families["attention"]

    def kernels(blocks: Iterable[tuple[grid.Codes, Columns]]) -> tuple[int, set[str]]:
        count, found = 0, set()
        for codes, raw in blocks:
            count += len(codes)
            effective = model.resolve(raw, device)
            # Codes name the raw values beside them, also in the parts that the grid is walked in.
            assert raw.knobs(0) == {n: k.values[c] for (n, k), c in zip(knobs.items(), codes[0], strict=True)}
            found |= {str(effective.knobs(row)) for row in range(len(codes))}
        return count, found

    every, all_kernels = kernels(grid.blocks(knobs))
    some, found = kernels(grid.blocks(knobs, model.needs))
    assert found == all_kernels
    assert len(found) <= some < every / 20


def test_a_problem_gives_its_knobs_a_value(device: DeviceFacts) -> None:
    fmha, space = (
        op("fmha"),
        Space.of("fmha", "sm_90a").restrict({"template": "flash", "head_dim": (64, 128)}),
    )
    full, causal = (fmha.problem((1, 16, 16, 1024, 1024, 64, mask), None) for mask in (0, 1))
    table = space.candidates([causal], device)
    assert {name: set(np.unique(table.columns[name])) for name in ("head_dim", "mask")} == {
        "head_dim": {64},
        "mask": {table.columns.word("mask", "causal")},
    }
    assert table.raw(0)["mask"] == table.kernel(0).knobs["mask"] == "causal"
    both = space.candidates([full, causal], device)
    assert (both.serves.sum(axis=1) == 1).all()
    other = fmha.problem((1, 16, 16, 1024, 1024, 256), None)
    assert "head_dim of the shapes is 256, of the space 64, 128" in _said(space.candidates, [other], device)


# --- launches ---------------------------------------------------------------------------------


def test_launches_are_effective_legal_distinct_and_start_with_the_default(
    space: Space, device: DeviceFacts
) -> None:
    kernel = space.effective(space.kernel(scheduler="streamk", cluster_m=1), device)
    of = HGEMM.problem((512, 512, 16384), None)
    launches = space.launches(kernel, of, device)
    assert launches[0] == space.effective_launch(kernel, space.launch(), of, device)
    assert len({launch.key for launch in launches}) == len(launches) > 50
    assert {launch.knobs["splits"] for launch in launches} >= {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}
    for launch in launches:
        assert set(launch.knobs) == {knob.name for knob in space.launch_knobs()}
        assert space.check(kernel, launch, of, device).legal
        assert space.effective_launch(kernel, launch, of, device) == launch


def test_few_launches_where_little_can_differ(space: Space, device: DeviceFacts) -> None:
    plain = space.effective(space.kernel(schedule="plain"), device)
    large, tiny = HGEMM.problem((8192, 8192, 8192), None), HGEMM.problem((64, 64, 64), None)
    assert len(space.launches(plain, large, device)) == 1
    persistent = space.effective(space.kernel(), device)
    assert len(space.launches(persistent, large, device)) == 8  # 4 swizzles x 2 directions
    assert len(space.launches(persistent, tiny, device)) == 1


def test_narrowed_launch_knobs_narrow_the_launches(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"swizzle": 4})
    large = HGEMM.problem((8192, 8192, 8192), None)
    launches = held.launches(held.effective(held.kernel(), device), large, device)
    assert {launch.knobs["swizzle"] for launch in launches} == {4}
    assert held.launch().knobs["swizzle"] == 4


def test_illegal_launches_are_not_listed_under_what_they_fold_to(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"splits": 4, "decomposition": "stream_k"})
    of = HGEMM.problem((512, 512, 16384), None)
    splitting = held.effective(held.kernel(scheduler="streamk"), device)
    assert held.launches(splitting, of, device) == []
    assert held.launches(held.effective(held.kernel(), device), of, device) != []


# --- narrowing --------------------------------------------------------------------------------


def test_restrict_holds_knobs_and_moves_defaults(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"tile_n": 256, "stages": (3, 4), "swap_ab": True}, "tma_ws")
    assert held.kernel().knobs["tile_n"] == 256
    assert held.kernel().knobs["stages"] == 3
    table = held.candidates([], device)
    assert set(np.unique(table.columns["stages"])) == {3, 4}
    assert set(np.unique(table.columns["swap_ab"])) == {1}
    assert "tile_n is 128" in _said(held.kernel, tile_n=128)
    assert space.kernel().knobs["tile_n"] == 128


def test_restrict_keeps_a_default_that_is_still_allowed(space: Space) -> None:
    assert space.restrict({"tile_n": (64, 128)}).kernel().knobs["tile_n"] == 128


def test_restrict_to_nothing_legal_says_why(space: Space) -> None:
    said = _said(space.restrict, {"schedule": "pingpong", "scheduler": "streamk"})
    assert "nothing legal is left" in said and "pingpong_scheduler" in said
    said = _said(space.restrict, {"tile_m": 256, "tile_n": 256, "tile_k": 256})
    assert "two_stages" in said or "smem_capacity" in said


def test_restrict_refuses_unknown_names_and_values(space: Space) -> None:
    assert "no knob 'beta'" in _said(space.restrict, {"beta": 1})
    assert "tile_n is 24" in _said(space.restrict, {"tile_n": 24})
    assert "no family 'tiny'" in _said(space.restrict, {}, "tiny")


def test_restrict_to_nothing_in_particular_is_the_same_space(space: Space) -> None:
    assert space.restrict() == space
    assert space.restrict(family="tma_ws").digest == space.digest


def test_the_digest_is_of_what_is_searched(space: Space) -> None:
    assert space.digest == Space.load("hgemm-sm90.yaml").digest
    assert len(space.digest) == 16
    others = [space.restrict(fix).digest for fix in ({"tile_n": 256}, {"swizzle": 8}, {"stages": (3, 4)})]
    assert len({space.digest, *others}) == 4


def test_the_space_of_an_op(space: Space) -> None:
    assert Space.of("hgemm", "sm_90a").digest == space.digest
    assert "sm_90a" in _said(Space.of, "hgemm", "sm_100a")
