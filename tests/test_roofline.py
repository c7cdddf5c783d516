"""The roofline goes through what was measured; the floor is under everything ever measured."""

from __future__ import annotations

import pytest
from compare.samples import H200

from cutlass_tuner.roofline import MIB, STREAM_MIB, STREAM_US, floor_us, roofline_us, stream_us

H100 = H200.model_copy(update={"name": "NVIDIA H100 80GB HBM3"})

MEASURED = [
    # m, n, k and microseconds seen on an H200 (cold L2), cuBLAS or streaming kernels
    (4096, 4096, 4096, 178.0),
    (8192, 8192, 8192, 1392.0),
    (16, 4096, 4096, 8.8),
    (64, 64, 16384, 6.8),
    (64, 64, 64, 1.5),
]


def gemm(m: int, n: int, k: int) -> tuple[int, int]:
    return 2 * (m * k + k * n + m * n), 2 * m * n * k


@pytest.mark.parametrize(("mib", "us"), list(zip(STREAM_MIB, STREAM_US, strict=True)))
def test_the_curve_goes_through_its_points(mib: int, us: float) -> None:
    assert stream_us(mib * MIB) == pytest.approx(us)


def test_the_curve_rises_and_goes_on_at_its_last_rate() -> None:
    sizes = [s * MIB // 3 for s in range(1, 3000, 7)]
    times = [stream_us(s) for s in sizes]
    assert times == sorted(times)
    assert stream_us(512 * MIB) - stream_us(256 * MIB) == pytest.approx(2 * (60.7 - 30.9))
    assert 4.3e12 < 256 * MIB / (stream_us(512 * MIB) - stream_us(256 * MIB)) * 1e6 < 4.6e12


def test_the_roofline_is_the_larger_of_memory_and_compute() -> None:
    bytes_, flops = gemm(16, 4096, 4096)
    assert roofline_us(bytes_, flops, H200, "cold") == pytest.approx(8.8, rel=0.02)
    bytes_, flops = gemm(8192, 8192, 8192)
    assert roofline_us(bytes_, flops, H200, "cold") == pytest.approx(flops / 700e12 * 1e6)
    bytes_, flops = gemm(64, 64, 16384)
    assert roofline_us(bytes_, flops, H200, "cold") == pytest.approx(2.37, rel=0.01)


def test_warm_l2_has_no_streaming_term() -> None:
    bytes_, flops = gemm(16, 4096, 4096)
    warm = roofline_us(bytes_, flops, H200, "warm")
    assert warm is not None
    assert warm < 1.0
    compute_us = flops / (132 * 4096 * 1.98e9) * 1e6
    assert floor_us(bytes_, flops, H200, "warm") == pytest.approx(compute_us)
    assert floor_us(bytes_, 0, H200, "warm") == 0.4  # a launch is never free
    assert floor_us(bytes_, flops, H200, "cold") > 6.0


def test_no_roofline_where_nothing_was_measured() -> None:
    assert roofline_us(*gemm(64, 64, 64), H100, "cold") is None
    assert floor_us(*gemm(4096, 4096, 4096), H100, "cold") > 100


@pytest.mark.parametrize(("m", "n", "k", "us"), MEASURED)
def test_the_floor_is_below_everything_measured_but_not_far(m: int, n: int, k: int, us: float) -> None:
    floor = floor_us(*gemm(m, n, k), H200, "cold")
    assert floor < us
    if us > 8:
        assert floor > 0.6 * us


@pytest.mark.parametrize("mib", STREAM_MIB[1:])
def test_the_floor_is_below_the_measured_stream(mib: int) -> None:
    assert floor_us(mib * MIB, 0, H200, "cold") < stream_us(mib * MIB)


def test_the_floor_grants_the_datasheet_and_a_higher_clock() -> None:
    """989.4 TFLOP/s are specified at 1830 MHz; the card may run at 1980, or at what it reports."""
    flops = 10**15
    at_datasheet_us = flops / 989.4e12 * 1e6
    assert floor_us(0, flops, H200, "cold") == pytest.approx(at_datasheet_us * 1830 / 1980, rel=0.001)
    slow_report = H200.model_copy(update={"clock_mhz": 345})
    assert floor_us(0, flops, slow_report, "cold") == floor_us(0, flops, H200, "cold")
    fast = H200.model_copy(update={"clock_mhz": 2200})
    assert floor_us(0, flops, fast, "cold") < floor_us(0, flops, H200, "cold")
    assert floor_us(48 * 10**8, 0, H200, "cold") < 1000.0  # 4.8 TB/s is allowed
