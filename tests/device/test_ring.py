"""How often an operand set comes round, and who is timed when: what a cold L2 and fair turns rest on.

Needs torch, of any build, and no GPU.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from cutlass_tuner.device.ring import Rotation
from cutlass_tuner.device.timing import order

L2 = 50 << 20
MIB = 1 << 20
COLD = 2.2
"""How many times over a ring must fill the L2, so that a set is evicted before its turn comes again."""
MOST = 512


def plan(set_bytes: int, guess_us: float = 10.0) -> Rotation:
    return Rotation.plan(set_bytes, guess_us, "cold", L2)


def test_a_warm_l2_is_one_set_that_stays() -> None:
    warm = Rotation.plan(MIB, 10.0, "warm", L2)
    assert (warm.sets, warm.flush) == (1, False)
    assert warm.launches(400.0) == 40


@pytest.mark.parametrize("set_bytes", [2 * MIB, 3 * MIB, 7 * MIB, 50 * MIB, 109 * MIB, 1 << 40])
def test_a_ring_fills_the_l2_more_than_twice_and_is_no_longer_than_that(set_bytes: int) -> None:
    ring = plan(set_bytes)
    assert not ring.flush
    assert ring.sets * set_bytes >= COLD * L2
    assert ring.sets == 1 or (ring.sets - 1) * set_bytes < COLD * L2


@pytest.mark.parametrize("sample_us", [1.0, 20.0, 400.0, 1e6])
def test_every_set_of_a_ring_has_its_turn_in_a_sample(sample_us: float) -> None:
    """Else the launches would go round fewer sets than were planned, and find them in the L2."""
    ring = plan(2 * MIB)
    assert ring.sets > 50
    assert ring.launches(sample_us) >= ring.sets


@pytest.mark.parametrize(("set_bytes", "guess_us"), [(24 << 10, 2.0), (24 << 10, 0.5), (MIB, 10.0), (1, 1e4)])
@pytest.mark.parametrize("sample_us", [1.0, 20.0, 400.0, 1e6])
def test_operands_too_small_for_a_ring_are_flushed_and_used_once_a_sample(
    set_bytes: int, guess_us: float, sample_us: float
) -> None:
    ring = plan(set_bytes, guess_us)
    assert ring.flush
    assert ring.sets * set_bytes < COLD * L2
    assert 1 <= ring.launches(sample_us) <= ring.sets <= MOST


def test_a_flushed_sample_is_as_long_as_a_sample_may_be() -> None:
    assert plan(1, 2.0).sets == 300
    assert plan(1, 0.5).sets == MOST
    assert plan(1, 2.0).launches(400.0) == 200


def test_a_sample_is_long_enough_and_no_longer() -> None:
    ring = plan(50 * MIB, 7.0)
    assert ring.launches(400.0) == 58
    assert ring.launches(1e9) == MOST


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_everybody_stands_in_every_place_equally_often(count: int) -> None:
    """Over 2 x count rounds: first as often as last, so that no place's advantage falls to one entrant."""
    rounds = [order(count, number) for number in range(2 * count)]
    assert all(sorted(turns) == list(range(count)) for turns in rounds)
    for place in range(count):
        assert Counter(turns[place] for turns in rounds) == dict.fromkeys(range(count), 2)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_everybody_follows_a_neighbour_as_often_as_it_precedes_it(count: int) -> None:
    """What one entrant leaves behind (heat, a full L2) must not always meet the same one."""
    rounds = [order(count, number) for number in range(2 * count)]
    after = Counter(pair for turns in rounds for pair in pairwise(turns))
    assert all(after[a, b] == after[b, a] for a, b in after)
