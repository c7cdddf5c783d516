"""nvMatmulHeuristics as a proposer: with the library where it is installed, and with scripted answers."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.hgemm.problem import problem
from cutlass_tuner.propose import nvmmh
from cutlass_tuner.records import DeviceFacts, Failure, Problem, Proposal
from cutlass_tuner.space import Space

SPACE = Space.of("hgemm", "sm_90a")
H200 = nominal_device("sm_90a").model_copy(update={"name": "NVIDIA H200"})
LARGE, SKINNY, DEEP = problem((4096, 4096, 4096)), problem((16, 4096, 4096), "tt"), problem((64, 64, 16384))
PROBLEMS = (LARGE, SKINNY, DEEP)

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("nvMatmulHeuristics") is None,
    reason="the optional nvMatmulHeuristics is missing",
)
Script = Callable[[str], None]


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Lets this Python text answer instead of the library."""

    def answer(program: str) -> None:
        monkeypatch.setattr(nvmmh, "MODULE", "json")
        monkeypatch.setattr(nvmmh, "CHILD", [sys.executable, "-S", "-c", program])

    return answer


def proposed(
    problems: Sequence[Problem] = PROBLEMS, limit: int = 100, device: DeviceFacts = H200, space: Space = SPACE
) -> list[Proposal]:
    found = nvmmh.proposals(space, problems, device, limit)
    assert not isinstance(found, Failure), found
    return found


def refused(device: DeviceFacts = H200, space: Space = SPACE) -> Failure:
    found = nvmmh.proposals(space, PROBLEMS, device, 10)
    assert isinstance(found, Failure)
    return found


def row(tile_m: int, tile_n: int, splits: int = 1, cluster_m: int = 1) -> dict[str, int]:
    tile = {"tile_m": tile_m, "tile_n": tile_n, "tile_k": 64}
    return {**tile, "cluster_m": cluster_m, "cluster_n": 1, "splits": splits}


def printing(answers: object) -> str:
    return f"print({json.dumps(json.dumps(answers))})"


def tiles(found: Sequence[Proposal]) -> list[tuple[object, object]]:
    return [(one.kernel.knobs["tile_m"], one.kernel.knobs["tile_n"]) for one in found]


# --- the library itself ---------------------------------------------------------------------------


@needs_library
def test_the_librarys_kernels_are_legal_distinct_and_led_by_every_problems_best() -> None:
    found = proposed()
    assert len(found) > 10
    assert len({one.kernel.key for one in found}) == len(found)
    assert {one.source for one in found} == {"nvmmh"}
    for one in found:
        assert any(SPACE.check(one.kernel, None, p, H200).legal for p in PROBLEMS)
        assert SPACE.effective(one.kernel, H200) == one.kernel
    alone = [proposed([one], limit=1)[0] for one in PROBLEMS]
    assert found[:3] == alone
    assert found == proposed()


@needs_library
def test_the_librarys_choice_follows_the_problem() -> None:
    large, skinny = (proposed([one], limit=1)[0].kernel.knobs for one in (LARGE, SKINNY))
    assert {large["tile_m"], large["tile_n"]} == {128, 256}
    assert skinny["tile_m"] == 64 and skinny["layout"] == "tt"
    assert any(one.kernel.knobs["scheduler"] == "streamk" for one in proposed([DEEP]))


@needs_library
def test_the_library_never_enters_this_process() -> None:
    proposed()
    assert "nvMatmulHeuristics" not in sys.modules
    assert "libnvMatmulHeuristics" not in Path("/proc/self/maps").read_text()


# --- scripted answers -----------------------------------------------------------------------------


def test_problems_take_turns_by_rank_and_no_kernel_comes_twice(child: Script) -> None:
    answers = [
        [row(128, 256), row(128, 128)],
        [row(64, 16)],
        [row(128, 256), row(64, 64), row(64, 64), row(64, 32)],
    ]
    child(printing(answers))
    problems = (LARGE, problem((16, 4096, 4096)), DEEP)
    assert tiles(proposed(problems)) == [(128, 256), (64, 16), (128, 128), (64, 64), (64, 32)]
    assert tiles(proposed(problems, limit=2)) == [(128, 256), (64, 16)]


def test_answers_that_are_one_kernel_take_one_turn(child: Script) -> None:
    """The library repeats a kernel for every warp tile it knows."""
    child(printing([[row(128, 256), row(128, 256), row(128, 64)], [], [row(64, 16), row(64, 32)]]))
    assert tiles(proposed()) == [(128, 256), (64, 16), (128, 64), (64, 32)]


def test_an_illegal_answer_is_left_out(child: Script) -> None:
    cluster_of_16 = {**row(128, 128), "cluster_m": 4, "cluster_n": 4}
    split_pingpong = row(64, 128, splits=4)
    child(printing([[cluster_of_16, split_pingpong, row(256, 192, cluster_m=3), row(128, 64)], [], []]))
    assert tiles(proposed()) == [(128, 64)]


def test_a_narrowed_space_narrows_the_answers_and_its_held_knobs_are_kept(child: Script) -> None:
    child(printing([[row(64, 128), row(128, 128)], [], []]))
    held = SPACE.restrict({"schedule": "cooperative", "stages": 3})
    (one,) = proposed(space=held)
    assert (one.kernel.knobs["tile_m"], one.kernel.knobs["stages"]) == (128, 3)


def test_the_process_sees_no_gpu(child: Script) -> None:
    child("import os, sys; sys.exit('seen: ' + repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert refused().reason.endswith("seen: ''")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "status -11: it said nothing"),
        ("raise KeyError('H300_SXM')", "status 1: KeyError: 'H300_SXM'"),
        ("print('hello')", "gave no list of kernels"),
        ("pass", "gave no list of kernels"),
        ("print('[[{\"tile_m\": 1}]]')", "gave no list of kernels"),
        ("print('7')", "gave no list of kernels"),
    ],
)
def test_a_library_that_crashes_or_babbles_is_a_failure(child: Script, program: str, said: str) -> None:
    child(program)
    assert said in refused().reason


def test_a_library_that_hangs_is_a_failure_that_may_pass(
    child: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    child("import time; time.sleep(60)")
    monkeypatch.setattr(nvmmh, "TIMEOUT_S", 0.2)
    failure = refused()
    assert "did not answer" in failure.reason and not failure.lasting


# --- nobody to ask --------------------------------------------------------------------------------


def test_without_the_package_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvmmh, "MODULE", "no_such_module_here")
    assert "pip install 'cutlass-tuner[heuristics]'" in (nvmmh.available() or "")
    assert refused().reason == nvmmh.available()


def test_a_gpu_that_the_library_does_not_know_is_named(child: Script) -> None:
    child(printing([[], [], []]))
    assert nvmmh.available() is None and nvmmh.available(H200) is None
    failure = refused(device=nominal_device("sm_90a"))
    assert "'any sm_90a GPU'" in failure.reason and "NVIDIA H200" in failure.reason


def test_an_op_that_the_library_does_not_know_is_named(child: Script) -> None:
    child(printing([[], [], []]))
    other = dataclasses.replace(SPACE, op=dataclasses.replace(SPACE.op, matmul_heuristics=None))
    assert "op hgemm" in refused(space=other).reason


@needs_library
def test_every_gpu_is_one_of_the_librarys() -> None:
    for gpu in nvmmh.GPUS.values():
        answers = nvmmh.ask(gpu, [SPACE.op.matmul_heuristics.query(LARGE)])  # type: ignore[union-attr]
        assert not isinstance(answers, Failure) and answers[0]
