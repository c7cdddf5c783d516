"""Regimes: real shapes in every one, their borders, and figures that were worked out by hand."""

from __future__ import annotations

import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.hgemm.regimes import MEANINGS, regime
from cutlass_tuner.ops.hgemm.shapes import read_shapes
from cutlass_tuner.settings import data_dir

from .conftest import problem

H200 = nominal_device("sm_90a").model_copy(update={"name": "NVIDIA H200"})

BORDERS = {
    # 16 times the larger side, and 1024 at least; fewer tiles than the 132 SMs
    (128, 128, 2048, 1): "deep K",
    (128, 128, 2040, 1): "tiny",
    (64, 64, 1024, 1): "deep K",
    (16, 16, 1016, 1): "tiny",
    (64, 64, 16384, 131): "deep K",
    (64, 64, 16384, 132): "skinny",
    # 11 MiB stream in 4 us: 6.3 us of arithmetic on 9.4 MiB is more, and so is streaming 12.1 MiB
    (64, 16384, 64, 1): "tiny",
    (1024, 1024, 1024, 1): "tiny",
    (1280, 1280, 1280, 1): "few waves",
    (64, 32768, 128, 1): "skinny",
    # one WGMMA's 64 rows, of either side
    (64, 4096, 4096, 1): "skinny",
    (72, 4096, 4096, 1): "memory-bound",
    (16384, 64, 1024, 1): "skinny",
    (16384, 72, 1024, 1): "memory-bound",
    # 45 MB stream in 11.5 us, 8.6 GFLOP take 12.3
    (128, 8192, 4096, 1): "memory-bound",
    (256, 4096, 2048, 1): "few waves",
    # 22 x 24 = 528 tiles are four waves
    (2816, 3072, 4096, 1): "compute-bound",
    (2816, 2944, 4096, 1): "few waves",
    (704, 3072, 4096, 4): "compute-bound",
}


@pytest.mark.parametrize("extents, name", BORDERS.items())
def test_the_regime_of_a_shape(extents: tuple[int, int, int, int], name: str) -> None:
    m, n, k, batch = extents
    found = regime(problem(m, n, k, batch=batch), H200, "cold")
    assert (found.name, found.meaning) == (name, MEANINGS[name])


def test_every_regime_is_met_in_the_shipped_shapes_and_no_other() -> None:
    problems = read_shapes(data_dir("spaces") / "shapes" / "hgemm-24.csv")
    found = {regime(problem, H200, "cold").name for problem in problems}
    assert found == set(MEANINGS) == set(BORDERS.values())


def test_figures_of_a_large_product() -> None:
    """2 * 4096^3 FLOP at 700 TFLOP/s; three matrices of 4096^2 halves; 32 x 32 tiles of 128 on 132 SMs."""
    assert dict(regime(problem(4096, 4096, 4096, count=3), H200, "cold").figures) == {
        "m": "4096",
        "n": "4096",
        "k": "4096",
        "batch": "1",
        "layout": "tn",
        "count": "3",
        "GFLOP": "137",
        "MB": "101",
        "FLOP/B": "1365",
        "roofline us": "196",
        "waves 64x64": "31",
        "waves 128x64": "15.5",
        "waves 128x128": "7.76",
        "waves 128x256": "3.88",
        "waves 256x128": "3.88",
    }


def test_figures_of_a_batch_of_ragged_ones() -> None:
    """200 x 136 x 64, twice: 3.48 MFLOP each; 2 (200*64 + 64*136 + 200*136) = 97,408 bytes each."""
    figures = regime(problem(200, 136, 64, batch=2, layout="tt"), H200, "cold").figures
    assert (figures["batch"], figures["layout"]) == ("2", "tt")
    assert (figures["GFLOP"], figures["MB"], figures["FLOP/B"]) == ("0.00696", "0.195", "36")
    # 4 x 3, 2 x 3, 2 x 2, 2 x 1 and 1 x 2 tiles, twice
    waves = [float(text) for column, text in figures.items() if column.startswith("waves")]
    assert waves == pytest.approx([24 / 132, 12 / 132, 8 / 132, 4 / 132, 4 / 132], rel=0.01)


def test_the_roofline_streams_from_dram_only_where_the_l2_is_cold() -> None:
    """34.6 MB are 33.0 MiB: 32 of them take 8.8 us, 64 take 16.2. 2.15 GFLOP take 3.07 us."""
    skinny = problem(64, 4096, 4096)
    cold, warm = (regime(skinny, H200, l2) for l2 in ("cold", "warm"))  # type: ignore[arg-type]
    assert (cold.figures["roofline us"], warm.figures["roofline us"]) == ("9.03", "3.07")
    assert cold.name == warm.name == "skinny"
    assert "streaming A, B and D once" in cold.legend
    assert "streaming" not in warm.legend and "time of the arithmetic" in warm.legend


def test_a_gpu_without_a_roofline_has_no_column_for_it() -> None:
    known, unknown = (regime(problem(512, 512, 512), gpu, "cold") for gpu in (H200, nominal_device("sm_90a")))
    assert known.figures.keys() - unknown.figures.keys() == {"roofline us"}
    assert "roofline" in known.legend and "roofline" not in unknown.legend
    assert "waves MxN" in unknown.legend


def test_waves_are_of_the_gpus_sms() -> None:
    half = H200.model_copy(update={"sm_count": 66})
    assert regime(problem(2048, 2048, 2048), half, "cold").figures["waves 128x128"] == "3.88"
    assert regime(problem(2048, 2048, 2048), H200, "cold").figures["waves 128x128"] == "1.94"
