"""A synthetic world: a small kernel space, 24 problems, and a known time for every pair of them.

The times are a roofline with wave quantisation (so that tile and problem interact), factors of the
other knobs that depend on the problem's regime, and a fixed lognormal term nobody can predict.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.records import Contract, KernelConfig, Problem, Scalar

EXTENTS = [
    (64, 64, 64), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (128, 128, 2048), (64, 4096, 4096),
    (128, 8192, 4096), (256, 4096, 2048), (2048, 2048, 2048), (2048, 512, 8192), (4096, 4096, 4096),
    (4096, 12288, 4096), (8192, 1024, 8192), (8192, 8192, 8192), (16384, 16384, 16384), (64, 16384, 64),
    (64, 64, 16384), (512, 512, 16384), (16384, 64, 1024), (1024, 16384, 256), (12288, 128, 12288),
    (16, 4096, 4096), (1, 8192, 8192), (384, 5120, 3072),
]  # fmt: skip
SMS, FLOPS_PER_US_SM, SMEM = 132, 5.3e6, 232_448


@dataclass(frozen=True)
class Knob:
    name: str
    values: tuple[Scalar, ...]


def problems(layouts: tuple[str, ...] = ("tn",)) -> list[Problem]:
    contract = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
    return [
        Problem(
            op="hgemm",
            dims={"m": m, "n": n, "k": k, "batch": 1},
            layout=layouts[i % len(layouts)],
            contract=contract,
        )
        for i, (m, n, k) in enumerate(EXTENTS)
    ]


class World:
    """Implements `Candidates`. `log_ratio` is rows x problems, NaN where a kernel does not serve.

    With `size`, a random subset of the legal kernels; with `layouts`, kernels and problems of several.
    """

    def __init__(self, size: int | None = None, seed: int = 0, layouts: tuple[str, ...] = ("tn",)) -> None:
        self.knobs = [
            Knob("tile_m", (64, 128, 256)),
            Knob("tile_n", (16, 32, 64, 96, 128, 192, 256)),
            Knob("tile_k", (32, 64, 128)),
            Knob("cluster_m", (1, 2, 4)),
            Knob("cluster_n", (1, 2, 4)),
            Knob("schedule", ("plain", "pingpong", "cooperative")),
            Knob("stages", ("auto", 2, 3, 4, 6)),
            Knob("scheduler", ("persistent", "stream_k")),
            Knob("swap_ab", (False, True)),
            Knob("layout", layouts),
        ]
        self.problems = problems(layouts)
        rng = np.random.default_rng(seed)
        codes = self._legal()
        if size is not None:
            codes = codes[np.sort(rng.choice(len(codes), size, replace=False))]
        self.codes: NDArray[np.int16] = codes
        self.unwise = self._value("tile_m") * self._value("tile_n") >= 256 * 256
        self.unwise_on = np.repeat(self.unwise[:, None], len(self.problems), axis=1)
        layout_of_problem = np.array([layouts.index(p.layout) for p in self.problems])
        self.serves: NDArray[np.bool_] = codes[:, -1][:, None] == layout_of_problem[None, :]
        self._surprise = rng.normal(0.0, 0.02, self.serves.shape)

    def __len__(self) -> int:
        return len(self.codes)

    def kernel(self, row: int) -> KernelConfig:
        named = zip(self.knobs, self.codes[row], strict=True)
        return KernelConfig(family="sm90", knobs={knob.name: knob.values[code] for knob, code in named})

    def siblings(self, kernel: KernelConfig) -> str:
        shared = ("tile_m", "tile_n", "tile_k", "schedule", "swap_ab", "layout")
        return ",".join(str(kernel.knobs[name]) for name in shared)

    def _legal(self) -> NDArray[np.int16]:
        grid = itertools.product(*(range(len(knob.values)) for knob in self.knobs))
        codes = np.array(list(grid), dtype=np.int16)
        self.codes = codes
        m, n, k = self._value("tile_m"), self._value("tile_n"), self._value("tile_k")
        schedule, stages = self._code("schedule"), self._stages()
        legal = (m + n) * k * 2 * stages + np.minimum(m * n * 2, 32768) <= SMEM
        legal &= stages >= 2
        legal &= (schedule != 2) | (m >= 128)
        legal &= (schedule == 2) | (m * n <= 128 * 256)
        legal &= (schedule == 2) | (self._code("scheduler") == 0)
        legal &= self._value("cluster_m") * self._value("cluster_n") <= 8
        return codes[legal]

    def _column(self, name: str) -> int:
        return [knob.name for knob in self.knobs].index(name)

    def _code(self, name: str) -> NDArray[np.int64]:
        return self.codes[:, self._column(name)].astype(np.int64)

    def _value(self, name: str) -> NDArray[np.int64]:
        return np.array(self.knobs[self._column(name)].values)[self._code(name)]

    def _stages(self) -> NDArray[np.int64]:
        stage = (self._value("tile_m") + self._value("tile_n")) * self._value("tile_k") * 2
        auto = (SMEM - 33_000) // stage
        return np.where(self._code("stages") == 0, auto, np.array([0, 2, 3, 4, 6])[self._code("stages")])

    @cached_property
    def estimate_us(self) -> NDArray[np.float64]:
        """The analytic part alone: what an op's prior would say."""
        return np.stack([self._roofline_us(p) for p in self.problems], axis=1)

    @cached_property
    def log_ratio(self) -> NDArray[np.float64]:
        columns = [self._time_us(p) for p in self.problems]
        time_us = np.stack(columns, axis=1) * np.exp(self._surprise)
        reference = np.quantile(time_us, 0.002, axis=0) * np.linspace(0.9, 1.15, len(self.problems))
        return np.where(self.serves, np.log(time_us / reference), np.nan)

    def _roofline_us(self, p: Problem) -> NDArray[np.float64]:
        m, n, k = p.dims["m"], p.dims["n"], p.dims["k"]
        swapped = self._value("swap_ab").astype(bool)
        rows, columns = np.where(swapped, n, m), np.where(swapped, m, n)
        tile_m, tile_n = self._value("tile_m"), self._value("tile_n")
        tiles = np.ceil(rows / tile_m) * np.ceil(columns / tile_n)
        waves = np.ceil(tiles / SMS)
        efficiency = np.minimum(1.0, (tile_m * tile_n / (128 * 256)) ** 0.3)
        compute = waves * tile_m * tile_n * k * 2.0 / (FLOPS_PER_US_SM * efficiency)
        traffic = (m * k + k * n + m * n) * 2 / 4.0e6
        return 1.5 + np.maximum(compute, traffic)

    def _time_us(self, p: Problem) -> NDArray[np.float64]:
        m, n, k = p.dims["m"], p.dims["n"], p.dims["k"]
        schedule, stages = self._code("schedule"), self._stages()
        cluster = self._value("cluster_m") * self._value("cluster_n")
        stream_k = self._code("scheduler") == 1
        deep = k >= 8 * max(m, n)
        large = m * n * k > 2**34
        us = self._roofline_us(p)
        us = us * (1.0 + 0.35 / stages)
        us = (
            us
            * np.where(large & (schedule == 2), 0.92, 1.0)
            * np.where(~np.bool_(large) & (schedule == 0), 0.95, 1.0)
        )
        us = us * np.where(schedule == 1, 0.96, 1.0)
        us = us * np.where(large, 1.06 - 0.04 * np.minimum(cluster, 2), 1.0 + 0.03 * np.log2(cluster))
        us = us * np.where(self._value("cluster_m") == 2, 0.98, 1.0)
        us = us * np.where(stream_k, 0.45 if deep else 1.12, 1.0)
        return us * np.where(self.unwise, 1.25, 1.0)


def regret(world: World, rows: list[int]) -> float:
    """Mean over problems of log(best time among `rows` / best time there is), by count."""
    best = np.nanmin(world.log_ratio[rows], axis=0)
    return float(np.mean(best - np.nanmin(world.log_ratio, axis=0)))
