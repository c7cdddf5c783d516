"""A recorded builder: what was built is built, what failed fails, and nothing else is known."""

from __future__ import annotations

from build.fakes import kernel
from cutlass_tuner.build.pool import Pool
from cutlass_tuner.build.recorded import RecordedBuilder
from cutlass_tuner.records import Build, Failure, KernelConfig

MISSED = Failure(stage="build", reason="not recorded in R")
FAILED = Failure(stage="build", reason="ptxas gave up")


def built(number: int) -> Build:
    return Build(
        kernel=kernel(number), symbol=f"k{number}", cubin="kernels.cubin", host_library="host.so", index=0,
        registers=168, spill_bytes=0, smem_bytes=1, threads=384, stages=4, params_bytes=1, cubin_bytes=1,
        compile_s=25.0, batch_size=2, cached=False,
    )  # fmt: skip


BUILDER = RecordedBuilder([built(1), built(2)], {kernel(3).key: FAILED}, "not recorded in R")


def test_outcomes_are_the_recorded_ones_in_the_order_asked_for() -> None:
    asked = [kernel(3), kernel(2), kernel(4), kernel(1)]
    assert BUILDER.build(asked) == [FAILED, built(2), MISSED, built(1)]


def test_a_kernel_that_was_built_after_it_failed_is_built() -> None:
    again = RecordedBuilder([built(3)], {kernel(3).key: FAILED}, "not recorded in R")
    assert again.build([kernel(3)]) == [built(3)]


def test_a_pool_in_line_builds_one_batch_at_a_time_in_order() -> None:
    batches: list[list[KernelConfig]] = [[kernel(1), kernel(3)], [kernel(2)], [kernel(4)]]
    with Pool(BUILDER, jobs=1, inline=True) as pool:
        for batch in batches:
            pool.submit(batch)
        for left, batch in zip((2, 1, 0), batches, strict=True):
            assert pool.completed(timeout_s=0) == [(batch, BUILDER.build(batch))]
            assert pool.pending == left
        assert pool.completed() == []
