from __future__ import annotations

import itertools
import math
import random

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.export.select import select
from cutlass_tuner.export.tuned import Tuned
from export.samples import kernel, problem, tuned

A, B, C = (kernel(tile_n=n) for n in (64, 128, 256))
SMALL, MIDDLE, LARGE = problem(64, 64, 64), problem(512, 512, 512), problem(4096, 4096, 4096)
WINNERS = [tuned(SMALL, A, 2.0), tuned(MIDDLE, B, 6.0), tuned(LARGE, C, 200.0)]


def used(entries: tuple[Tuned, ...]) -> set[str]:
    return {entry.kernel_key for entry in entries}


def test_without_a_limit_every_problem_keeps_its_winner() -> None:
    chosen = select(WINNERS, [tuned(SMALL, B, 1.0)], None)
    assert chosen.served == tuple(WINNERS)
    assert chosen.loss == 0.0


def test_a_limit_keeps_the_kernels_whose_loss_is_least() -> None:
    alternatives = [
        *(tuned(SMALL, B, 2.2), tuned(LARGE, B, 300.0)),
        *(tuned(SMALL, C, 8.0), tuned(MIDDLE, C, 9.0)),
        *(tuned(MIDDLE, A, 30.0), tuned(LARGE, A, 900.0)),
    ]
    chosen = select(WINNERS, alternatives, 2)
    assert used(chosen.served) == {B.key, C.key}
    assert [entry.time_us for entry in chosen.served] == [2.2, 6.0, 200.0]
    assert chosen.loss == pytest.approx(math.exp(math.log(1.1) / 3) - 1)


def test_a_kernel_that_won_nowhere_may_be_the_one_to_ship() -> None:
    all_rounder = kernel(tile_k=128)
    alternatives = [tuned(w.problem, all_rounder, w.time_us * 1.05) for w in WINNERS]
    chosen = select(WINNERS, alternatives, 1)
    assert used(chosen.served) == {all_rounder.key}
    assert chosen.loss == pytest.approx(0.05)


def test_counts_weigh() -> None:
    often = [tuned(problem(64, 64, 64, count=100), A, 2.0), tuned(MIDDLE, B, 6.0)]
    alternatives = [tuned(SMALL, B, 2.2), tuned(MIDDLE, A, 12.0)]
    assert used(select(often, alternatives, 1).served) == {A.key}
    assert used(select([tuned(SMALL, A, 2.0), often[1]], alternatives, 1).served) == {B.key}


def test_a_problem_no_chosen_kernel_was_measured_on_is_named_and_costs_more_than_any_slowdown() -> None:
    chosen = select(WINNERS, [tuned(SMALL, B, 200.0), tuned(MIDDLE, A, 6.1)], 1)
    assert used(chosen.served) == {A.key} or used(chosen.served) == {B.key}
    assert len(chosen.served) == 2
    assert chosen.unserved == (LARGE,)


def test_alternatives_never_replace_a_winner_of_the_same_kernel() -> None:
    """Screening times come from other minutes than the finals' and may look faster."""
    chosen = select(WINNERS, [tuned(SMALL, A, 1.0, codes=(8, 2, 1, 0, 0))], 3)
    assert chosen.served[0] is WINNERS[0]
    limited = select(WINNERS, [tuned(SMALL, A, 1.0, codes=(8, 2, 1, 0, 0))], 1)
    assert all(entry in WINNERS for entry in limited.served)


def test_a_screening_time_below_the_winners_neither_wins_nor_pays() -> None:
    winners = [*WINNERS, tuned(problem(8, 8, 8), A, 1.5)]
    alternatives = [tuned(SMALL, B, 1.0), tuned(LARGE, A, 190.0), tuned(LARGE, B, 300.0)]
    chosen = select(winners, alternatives, 2)
    assert used(chosen.served) == {A.key, B.key}
    assert chosen.served[0] is winners[0]
    assert chosen.loss == 0.0


def test_swaps_reach_the_optimum_of_small_cases() -> None:
    chance = random.Random(7)
    kernels = [kernel(stages=stages) for stages in range(2, 10)]
    problems = [problem(64 * i, 64, 64) for i in range(1, 11)]
    for _ in range(20):
        times = {(k.key, p.key): 1.0 + chance.random() for k in kernels for p in problems}
        entries = [tuned(p, k, times[k.key, p.key]) for k in kernels for p in problems]
        winners = [min((e for e in entries if e.problem == p), key=lambda e: e.time_us) for p in problems]
        best = min(
            sum(math.log(min(times[k.key, p.key] for k in subset)) for p in problems)
            for subset in itertools.combinations(kernels, 3)
        )
        floor = sum(math.log(w.time_us) for w in winners)
        chosen = select(winners, entries, 3)
        assert len(used(chosen.served)) <= 3
        assert math.log1p(chosen.loss) * len(problems) <= (best - floor) * 1.1 + 1e-9


def test_nothing_to_export_and_a_limit_of_zero_are_the_users_mistakes() -> None:
    with pytest.raises(UserError, match="no shape of this study has a verified winner"):
        select([], [], None)
    with pytest.raises(UserError, match="--max-kernels 0"):
        select(WINNERS, [], 0)
