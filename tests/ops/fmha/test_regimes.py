"""Regimes: real shapes in every one, their borders, and figures that were worked out by hand."""

from __future__ import annotations

import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.fmha.regimes import MEANINGS, regime
from cutlass_tuner.records import Problem

from .conftest import problem

H200 = nominal_device("sm_90a").model_copy(update={"name": "NVIDIA H200"})

BORDERS = [
    (problem(64, 8192, batch=64), "decode"),
    # 256 queries on 8192 keys of 64 sequences stream 1.1 GB in 264 us, 275 GFLOP take 393 us
    (problem(256, 8192, batch=64), "compute-bound"),
    (problem(96, 8192, batch=64), "memory-bound"),
    (problem(512, dim=64, batch=32, heads=32, causal=1), "memory-bound"),
    # 33 heads of 16 tiles of 128 rows are four waves of 132 SMs
    (problem(16 * 128, heads=33), "compute-bound"),
    (problem(16 * 128, heads=32), "few waves"),
    (problem(1024, batch=16), "short"),
    (problem(1025, batch=16), "compute-bound"),
    (problem(4096, dim=64, batch=4), "exponential-bound"),
    (problem(4096, dim=128, batch=4), "compute-bound"),
]


@pytest.mark.parametrize(("of", "name"), BORDERS, ids=lambda value: getattr(value, "name", value))
def test_the_regime_of_a_shape(of: Problem, name: str) -> None:
    found = regime(of, H200, "cold")
    assert (found.name, found.meaning) == (name, MEANINGS[name])


def test_every_regime_is_met_and_the_shipped_shapes_have_most(shipped: list[Problem]) -> None:
    assert {name for _, name in BORDERS} == set(MEANINGS)
    found = {regime(one, H200, "cold").name for one in shipped}
    assert found == set(MEANINGS) - {"decode"}


def test_figures_of_a_prompt() -> None:
    """4 * 128 * 32 * 4096 * 4097 / 2 FLOP; Q and O of 32 heads, K and V of 8, the LSE; 1024 tiles of 128."""
    of = problem(4096, heads=32, heads_kv=8, causal=1).model_copy(update={"count": 3})
    assert dict(regime(of, H200, "cold").figures) == {
        "batch": "1",
        "heads_q": "32",
        "heads_kv": "8",
        "seqlen_q": "4096",
        "seqlen_kv": "4096",
        "head_dim": "128",
        "mask": "causal",
        "layout": "bshd",
        "count": "3",
        "GFLOP": "137",
        "MB": "84.4",
        "seen": "0.5",
        "roofline us": "196",
        "waves 64": "15.5",
        "waves 128": "7.76",
        "waves 192": "5.33",
    }


def test_a_gpu_without_a_roofline_has_no_column_for_it() -> None:
    known, unknown = (regime(problem(512), gpu, "cold") for gpu in (H200, nominal_device("sm_90a")))
    assert known.figures.keys() - unknown.figures.keys() == {"roofline us"}
    assert "roofline" in known.legend and "roofline" not in unknown.legend
    assert "waves N" in unknown.legend


def test_the_roofline_streams_only_where_the_l2_is_cold() -> None:
    decode = problem(1, 8192, batch=8)
    cold, warm = (regime(decode, H200, l2) for l2 in ("cold", "warm"))  # type: ignore[arg-type]
    assert float(cold.figures["roofline us"]) > 10 * float(warm.figures["roofline us"])
    assert "streaming Q, K, V and O" in cold.legend and "streaming" not in warm.legend
