"""Five kernels that between them have every schedule, epilogue and scheduler, and swapped operands."""

from __future__ import annotations

from cutlass_tuner.records import Contract, KernelConfig, Scalar

HALF = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")


def kernel(tile: tuple[int, int, int], **changes: Scalar) -> KernelConfig:
    """A cooperative kernel with knobs changed."""
    knobs: dict[str, Scalar] = {
        "layout": "tn",
        "tile_m": tile[0],
        "tile_n": tile[1],
        "tile_k": tile[2],
        "cluster_m": 1,
        "cluster_n": 1,
        "schedule": "cooperative",
        "stages": 4,
        "epilogue": "tma",
        "scheduler": "persistent",
        "swap_ab": False,
    }
    return KernelConfig(family="tma_ws", knobs=knobs | changes)


KERNELS = {
    "cooperative": kernel((128, 128, 64), stages=6, cluster_m=2),
    "streamk": kernel((128, 128, 64), stages=6, cluster_m=2, scheduler="streamk"),
    "plain": kernel((64, 64, 64), schedule="plain", stages=6),
    "swapped": kernel((128, 32, 128), schedule="pingpong", swap_ab=True),
    "nosmem": kernel((128, 128, 64), stages=7, epilogue="nosmem"),
}
