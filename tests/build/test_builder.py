"""Builds through a fake nvcc: batching, the cache, and every way in which a build can go wrong."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from build.fakes import FakeSources, builder, calls, kernel
from cutlass_tuner import abi
from cutlass_tuner.build import unit
from cutlass_tuner.records import Build, Failure


def built(outcome: Build | Failure) -> Build:
    assert isinstance(outcome, Build), outcome
    return outcome


def failed(outcome: Build | Failure) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


def test_a_batch_is_one_nvcc_call_and_says_what_was_built(tmp_path: Path) -> None:
    make = builder(tmp_path)
    kernels = [kernel(1), kernel(2), kernel(3)]
    builds = [built(outcome) for outcome in make.build(kernels)]
    assert len(calls(tmp_path)) == 1
    for index, (asked, build) in enumerate(zip(kernels, builds, strict=True)):
        assert build.kernel == asked
        assert build.index == index
        assert (build.registers, build.spill_bytes, build.batch_size, build.cached) == (168, 20, 3, False)
        assert build.cubin_bytes == Path(build.cubin).stat().st_size
        assert abi.HostLibrary(build.host_library).symbol(build.index) == build.symbol


def test_a_second_batch_compiles_only_what_the_cache_lacks(tmp_path: Path) -> None:
    make = builder(tmp_path)
    make.build([kernel(1), kernel(2)])
    outcomes = make.build([kernel(3), kernel(2), kernel(1)])
    assert [built(outcome).cached for outcome in outcomes] == [False, True, True]
    assert [outcome.kernel for outcome in map(built, outcomes)] == [kernel(3), kernel(2), kernel(1)]
    assert calls(tmp_path)[1:] == [[make.emitter.symbol(kernel(3))]]


def test_a_repeated_kernel_is_compiled_once(tmp_path: Path) -> None:
    one, other = builder(tmp_path).build([kernel(1), kernel(1)])
    assert one == other
    assert len(calls(tmp_path)[0]) == 1


@pytest.mark.parametrize("mode", ["bad", "nameless", "hostbad"])
def test_one_bad_kernel_costs_only_itself(tmp_path: Path, mode: str) -> None:
    make = builder(tmp_path)
    kernels = [kernel(1), kernel(2), kernel(3, mode), kernel(4), kernel(5)]
    outcomes = make.build(kernels)
    for good in (0, 1, 3, 4):
        assert built(outcomes[good]).kernel == kernels[good]
    expected = {
        "bad": 'static assertion failed with "bad" (thing.hpp:12)',
        "nameless": "nameless (thing.hpp:12)",
        "hostbad": "static assertion failed: host says no",
    }
    assert expected[mode] in failed(outcomes[2]).reason


def test_a_named_culprit_is_set_apart_in_one_step(tmp_path: Path) -> None:
    make = builder(tmp_path)
    make.build([kernel(number, "bad" if number == 2 else "good") for number in range(5)])
    assert [len(symbols) for symbols in calls(tmp_path)] == [5, 4, 1]


def test_a_failure_is_remembered_with_its_reason(tmp_path: Path) -> None:
    make = builder(tmp_path)
    first = failed(make.build([kernel(1, "bad")])[0])
    assert first.lasting
    assert failed(make.build([kernel(1, "bad")])[0]) == first
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("memory", "out of memory"),
        ("disk", "No space left"),
        ("killed", "killed by signal 9"),
        ("slow", "longer than 0.5 s"),
    ],
)
def test_what_the_machine_did_is_not_remembered(tmp_path: Path, mode: str, reason: str) -> None:
    make = builder(tmp_path, timeout_s=0.5)
    failure = failed(make.build([kernel(1, mode)])[0])
    assert reason in failure.reason
    assert not failure.lasting
    assert make.cache.entries() == []
    make.build([kernel(1, mode)])
    assert len(calls(tmp_path)) == 2


def test_a_time_limit_kills_what_the_compiler_started(tmp_path: Path) -> None:
    builder(tmp_path, timeout_s=0.5).build([kernel(1, "slow")])
    child = int((tmp_path / "cuda" / "child").read_text())
    assert gone(child)
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_cancelling_ends_a_build_at_once(tmp_path: Path) -> None:
    make, cancelled = builder(tmp_path), Event()
    outcomes: list[Build | Failure] = []
    worker = Thread(target=lambda: outcomes.extend(make.build([kernel(1, "slow"), kernel(2)], cancelled)))
    worker.start()
    while not (tmp_path / "cuda" / "child").exists():
        time.sleep(0.01)
    started = time.monotonic()
    cancelled.set()
    worker.join(10)
    assert time.monotonic() - started < 2
    assert {(failed(outcome).reason, failed(outcome).lasting) for outcome in outcomes} == {
        ("cancelled", False)
    }
    assert len(calls(tmp_path)) == 1


def test_giving_up_another_process_is_not_lasting(tmp_path: Path) -> None:
    make, cancelled = builder(tmp_path), Event()
    cancelled.set()
    with make.cache.locked([make.key(kernel(1))], Event()):
        failure = failed(make.build([kernel(1)], cancelled)[0])
    assert (failure.reason, failure.lasting) == ("cancelled", False)


_PROBES = {
    "No module named 'cutlass_tuner'": "raise ModuleNotFoundError(\"No module named 'cutlass_tuner'\")",
    "status -9": "import os; os.kill(os.getpid(), 9)",
    "it said nothing": "import time; time.sleep(600)",
}


@pytest.mark.parametrize("reason", _PROBES)
def test_a_probe_that_the_machine_stopped_is_no_reason_to_compile_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(unit.probe, "command", lambda _: [sys.executable, "-c", _PROBES[reason]])
    monkeypatch.setattr(unit, "_PROBE_TIMEOUT_S", 0.5)
    make = builder(tmp_path)
    failures = [failed(outcome) for outcome in make.build([kernel(1), kernel(2)])]
    assert all(reason in failure.reason and not failure.lasting for failure in failures)
    assert len(calls(tmp_path)) == 1
    assert make.cache.entries() == []


def test_a_host_library_that_crashes_is_its_kernels_fault(tmp_path: Path) -> None:
    make = builder(tmp_path)
    good, crashing = make.build([kernel(1), kernel(2, "crash")])
    assert built(good).kernel == kernel(1)
    failure = failed(crashing)
    assert "status -4" in failure.reason
    assert failure.lasting
    assert failed(make.build([kernel(2, "crash")])[0]) == failure
    assert len(calls(tmp_path)) == 3


def test_a_compiler_that_cannot_be_started_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    make = builder(tmp_path)
    nvcc = tmp_path / "cuda" / "nvcc"
    nvcc.chmod(0o644)
    failures = [failed(outcome) for outcome in make.build([kernel(1), kernel(2)])]
    assert all("Permission denied" in failure.reason and not failure.lasting for failure in failures)
    nvcc.chmod(0o755)
    assert all(isinstance(outcome, Build) for outcome in make.build([kernel(1), kernel(2)]))


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("large", "needs 300000 bytes of shared memory, a block has at most 232448"),
        ("other", "stages 1 was built where 4 was asked"),
        ("misaligned", "Params are 320 bytes to nvcc 13.0.88 and 256 to g++"),
        ("silent", "where cutlass_fake_"),
    ],
)
def test_what_was_built_must_be_what_was_asked(tmp_path: Path, mode: str, reason: str) -> None:
    good, wrong = builder(tmp_path).build([kernel(1), kernel(2, mode)])
    assert built(good).kernel == kernel(1)
    assert reason in failed(wrong).reason


def test_a_damaged_entry_is_built_again(tmp_path: Path) -> None:
    make = builder(tmp_path)
    build = built(make.build([kernel(1)])[0])
    Path(build.cubin).write_bytes(b"\x7fELF and then nothing")
    again = built(make.build([kernel(1)])[0])
    assert not again.cached
    assert len(calls(tmp_path)) == 2
    assert Path(again.cubin).stat().st_size == build.cubin_bytes


def test_the_cache_can_be_moved(tmp_path: Path) -> None:
    builder(tmp_path).build([kernel(1)])
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "cache").rename(moved / "cache")
    (tmp_path / "cuda").rename(moved / "cuda")
    build = built(builder(moved).build([kernel(1)])[0])
    assert build.cached
    assert Path(build.cubin).is_relative_to(moved)


def test_the_key_follows_headers_and_toolchain(tmp_path: Path) -> None:
    header = tmp_path / "abi.h"
    header.write_text(abi.HEADER.read_text())

    def key() -> str:
        return builder(tmp_path, sources=FakeSources(headers=(header,))).key(kernel(1))

    before = key()
    assert key() == before
    header.write_text(header.read_text() + "// changed\n")
    assert key() != before


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":  # dead, and its new parent has not noticed yet
            return True
        time.sleep(0.02)
    return False
