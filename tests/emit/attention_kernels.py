"""Attention kernels that between them have both schedules of example 88, both masks and ragged tile pairs."""

from __future__ import annotations

from cutlass_tuner.records import Contract, KernelConfig, Scalar


def contract(element: str) -> Contract:
    return Contract(elements={**dict.fromkeys("qkvo", element), "lse": "f32"}, accumulator="f32")


HALF = contract("f16")


def kernel(**changes: Scalar) -> KernelConfig:
    """A cooperative causal kernel for head dim 128 with knobs changed."""
    knobs: dict[str, Scalar] = {
        "template": "example88",
        "head_dim": 128,
        "mask": "causal",
        "tile_q": 128,
        "tile_kv": 128,
        "groups": 2,
        "stages": 4,
        "overlap": True,
        "pingpong": True,
        "lazy_rescale": False,
        "exp_fma": 0,
        "schedule": "cooperative",
        "q_stages": 2,
        "separate_q": False,
        "locked": False,
        "persistent": False,
        "blocks_per_sm": 1,
        "cluster_m": 1,
    }
    return KernelConfig(family="attention", knobs=knobs | changes)


def tma(**changes: Scalar) -> KernelConfig:
    one: dict[str, Scalar] = {"schedule": "tma", "groups": 1, "tile_q": 64, "q_stages": 1, "head_dim": 64}
    return kernel(**(one | changes))


KERNELS = {
    "causal": kernel(tile_kv=80, stages=5),
    "full": kernel(mask="full", tile_q=192, groups=3, q_stages=3, head_dim=64),
    "persistent": kernel(persistent=True, separate_q=True, locked=True, tile_q=256, tile_kv=48, head_dim=64),
    "tma": tma(mask="full", blocks_per_sm=2),
    "tma causal": tma(cluster_m=2, tile_kv=112),
}
"""All of template example88."""
