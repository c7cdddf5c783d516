"""Siblings share a unit, no kernel is lost, and no compiler idles for want of a batch."""

from __future__ import annotations

import random

import pytest

from build.fakes import FakeSources, kernel
from cutlass_tuner.build.batches import batches
from cutlass_tuner.records import KernelConfig

EMITTER = FakeSources()


def shape(made: list[list[KernelConfig]]) -> list[list[str]]:
    return [[EMITTER.batch_key(each) for each in batch] for batch in made]


def test_siblings_are_together_up_to_the_limit() -> None:
    kernels = [kernel(number, stages=3 + number % 2) for number in range(8)]
    assert shape(batches(kernels, EMITTER, 4)) == [["3"] * 4, ["4"] * 4]


def test_kernels_with_few_siblings_share_a_unit() -> None:
    kernels = [kernel(number, stages=number) for number in range(1, 7)]
    assert [len(batch) for batch in batches(kernels, EMITTER, 6)] == [6]


def test_a_small_group_is_not_cut() -> None:
    kernels = [kernel(number, stages=stages) for number, stages in enumerate([3, 3, 3, 4, 4, 5])]
    assert shape(batches(kernels, EMITTER, 4)) == [["3", "3", "3", "5"], ["4", "4"]]


def test_many_compilers_get_a_batch_each() -> None:
    kernels = [kernel(number) for number in range(12)]
    assert [len(batch) for batch in batches(kernels, EMITTER, 6, workers=4)] == [3, 3, 3, 3]


def test_any_list_comes_back_whole() -> None:
    generator = random.Random(0)
    for _ in range(100):
        kernels = [kernel(generator.randrange(20), stages=generator.randrange(1, 5)) for _ in range(30)]
        limit = generator.randrange(1, 9)
        made = batches(kernels, EMITTER, limit)
        flat = [each.key for batch in made for each in batch]
        assert sorted(flat) == sorted({each.key for each in kernels})
        assert all(1 <= len(batch) <= limit for batch in made)
        assert flat[0] in {each.key for each in made[0]}


def test_nothing_makes_no_batch() -> None:
    assert batches([], EMITTER, 4) == []
    with pytest.raises(ValueError, match="batches of 0"):
        batches([kernel(1)], EMITTER, 0)
