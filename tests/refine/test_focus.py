"""Which rows of a pool are an idea's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutlass_tuner.records import KernelConfig, Scalar
from cutlass_tuner.refine.focus import focus, why_empty
from cutlass_tuner.refine.pool import Pool
from refine.stating import coupling, idea
from refine.synthetic import Knob

KEYS = ["p", "q"]
STAGES: tuple[Scalar, ...] = ("auto", "two_ctas", 3, 4)
ROWS = [  # family, layout, tile_m, raw stages, effective stages, swap_ab, serves p, serves q
    ("ws", "tn", 64, "auto", 4, False, True, False),
    ("ws", "tn", 64, "two_ctas", 2, False, True, False),
    ("ws", "tn", 64, 3, 3, True, True, False),
    ("ws", "tn", 128, "auto", 3, False, True, False),
    ("ws", "tn", 128, 4, 4, True, True, False),
    ("ws", "tt", 128, 4, 4, False, False, True),
    ("other", "tn", 64, 4, 4, False, True, True),
]


class Few:
    knobs = (
        Knob("layout", ("tn", "tt")), Knob("tile_m", (64, 128)), Knob("stages", STAGES),
        Knob("swap_ab", (False, True)),
    )  # fmt: skip
    codes = np.array(
        [
            [("tn", "tt").index(r[1]), (64, 128).index(r[2]), STAGES.index(r[3]), int(r[5])]
            for r in ROWS
        ],
        dtype=np.int16,
    )  # fmt: skip
    serves = np.array([row[6:] for row in ROWS])
    unwise = np.zeros(len(ROWS), dtype=np.bool_)
    unwise_on = np.zeros((len(ROWS), 2), dtype=np.bool_)

    def __len__(self) -> int:
        return len(ROWS)

    def kernel(self, row: int) -> KernelConfig:
        family, layout, tile_m, _, stages, swap_ab, *_ = ROWS[row]
        knobs = {"layout": layout, "tile_m": tile_m, "stages": stages, "swap_ab": swap_ab}
        return KernelConfig(family=family, knobs=knobs)


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool(Few(), Few.knobs, lambda kernel: str(kernel.knobs["tile_m"]))


def rows(pool: Pool, targets: str = "pq", **stated: Any) -> list[int]:
    return np.flatnonzero(focus(pool, idea("i", targets, family="ws", **stated), KEYS).rows).tolist()


def test_only_the_family_and_what_serves_a_target(pool: Pool) -> None:
    assert rows(pool) == [0, 1, 2, 3, 4, 5]
    assert rows(pool, targets="p") == [0, 1, 2, 3, 4]
    assert rows(pool, targets="q") == [5]
    assert rows(pool, targets=["gone"]) == []
    other = focus(pool, idea("i", "q", family="other"), KEYS)
    assert (other.idea, np.flatnonzero(other.rows).tolist(), other.problems.tolist()) == (
        "i",
        [6],
        [False, True],
    )


def test_a_narrowed_knob_holds_by_its_raw_or_by_its_effective_value(pool: Pool) -> None:
    assert rows(pool, stages=(4,)) == [0, 4, 5]  # "auto" that comes to 4 is 4
    assert rows(pool, stages=("auto",)) == [0, 3]
    assert rows(pool, stages=("two_ctas",)) == [1]
    assert rows(pool, stages=(2,)) == [1]
    assert rows(pool, stages=(3, "two_ctas"), tile_m=(64,)) == [1, 2]
    assert rows(pool, swap_ab=(True,)) == [2, 4]
    assert rows(pool, swap_ab=(1,)) == []  # 1 is not True
    assert rows(pool, speed=(1,)) == []


def test_a_coupling_binds_only_where_its_condition_is_true(pool: Pool) -> None:
    four_is_wide = coupling(("stages", (4,)), ("tile_m", (128,)))
    assert rows(pool, couplings=(four_is_wide,)) == [1, 2, 3, 4, 5]  # row 0 has four in effect
    auto_is_wide = coupling(("stages", ("auto",)), ("tile_m", (128,)))
    assert rows(pool, couplings=(auto_is_wide,)) == [1, 2, 3, 4, 5]
    wide_has_four = coupling(("tile_m", (128,)), ("stages", (4,)))
    assert rows(pool, couplings=(four_is_wide, wide_has_four)) == [1, 2, 4, 5]
    assert rows(pool, couplings=(coupling(("speed", (1,)), ("tile_m", (64,))),)) == rows(pool)


def test_rows_asked_for_already_stay_in_the_focus() -> None:
    pool = Pool(Few(), Few.knobs, lambda kernel: "")
    pool.take(0)
    assert rows(pool, stages=(4,)) == [0, 4, 5]


def test_an_empty_focus_says_what_together_leaves_nothing(pool: Pool) -> None:
    stated = idea("i", "p", family="ws", swap_ab=(True,), stages=("auto", 2), tile_m=(64,))
    assert not focus(pool, stated, KEYS).rows.any()
    assert why_empty(pool, stated, KEYS) == (
        "no candidate has all of this: family ws; serves a target; swap_ab true; stages auto or 2"
    )
