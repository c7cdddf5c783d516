"""Batches side by side: results as they come, errors raised, and a close that leaves no compiler."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from build.fakes import builder, calls, kernel
from cutlass_tuner.build import pool
from cutlass_tuner.build.pool import Pool, available_memory, default_jobs
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Build


def test_every_batch_comes_back_with_its_kernels(tmp_path: Path) -> None:
    with Pool(builder(tmp_path), jobs=2) as pool:
        wanted = [[kernel(1), kernel(2)], [kernel(3)], [kernel(4, "bad"), kernel(5)]]
        for batch in wanted:
            pool.submit(batch)
        assert pool.pending == 3
        got = []
        while pool.pending:
            got += pool.completed(timeout_s=30)
    assert sorted(str(kernels) for kernels, _ in got) == sorted(map(str, wanted))
    for kernels, outcomes in got:
        for asked, outcome in zip(kernels, outcomes, strict=True):
            assert isinstance(outcome, Build) == (asked.knobs["mode"] == "good")


def test_drain_hands_out_every_kernel_once_and_then_ends(tmp_path: Path) -> None:
    with Pool(builder(tmp_path), jobs=2) as pool:
        batches = [[kernel(1), kernel(2, "bad")], [kernel(3)]]
        for batch in batches:
            pool.submit(batch)
        got = list(pool.drain())
        assert pool.pending == 0 and list(pool.drain()) == []
    assert sorted(k.key for k, _ in got) == sorted(k.key for batch in batches for k in batch)
    assert {k.key for k, outcome in got if isinstance(outcome, Build)} == {kernel(1).key, kernel(3).key}


def test_asking_early_or_for_nothing_does_not_block(tmp_path: Path) -> None:
    with Pool(builder(tmp_path), jobs=1) as pool:
        assert pool.completed() == []
        pool.submit([kernel(1, "slow")])
        started = time.monotonic()
        assert pool.completed(timeout_s=0) == []
        assert pool.completed(timeout_s=0.1) == []
        assert time.monotonic() - started < 2
        assert pool.pending == 1


def test_jobs_limits_the_compilers_at_once(tmp_path: Path) -> None:
    with Pool(builder(tmp_path), jobs=1) as pool:
        pool.submit([kernel(1, "slow")])
        pool.submit([kernel(2)])
        assert pool.completed(timeout_s=1) == []
        assert calls(tmp_path) == [[pool._builder.emitter.symbol(kernel(1, "slow"))]]


def test_closing_kills_compilers_and_drops_what_waits(tmp_path: Path) -> None:
    with Pool(builder(tmp_path), jobs=1) as pool:
        pool.submit([kernel(1, "slow")])
        pool.submit([kernel(2)])
        while not (tmp_path / "cuda" / "child").exists():
            time.sleep(0.01)
        started = time.monotonic()
    assert time.monotonic() - started < 2
    assert len(calls(tmp_path)) == 1
    child = int((tmp_path / "cuda" / "child").read_text())
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_an_error_that_is_no_failure_reaches_the_caller(tmp_path: Path) -> None:
    make = builder(tmp_path)
    make.cache.root.write_text("a file where the cache should be")
    with Pool(make, jobs=1) as pool:
        pool.submit([kernel(1)])
        with pytest.raises(UserError, match="CUTLASS_TUNER_CACHE"):
            pool.completed(timeout_s=10)
        assert pool.pending == 0


def test_jobs_leave_a_core_and_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    for gigabytes, jobs in ((1000, 15), (13, 4), (1, 1)):
        monkeypatch.setattr(pool, "available_memory", lambda size=gigabytes: size << 30)
        assert default_jobs() == jobs


def test_memory_is_asked_of_the_machine() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_memory() < total
