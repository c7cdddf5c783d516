"""Flash kernels that between them have both masks, both swizzles and every number of warp groups but four."""

from __future__ import annotations

from cutlass_tuner.records import KernelConfig, Scalar
from emit import attention_kernels


def kernel(**changes: Scalar) -> KernelConfig:
    """A causal kernel of two warp groups for head_dim 128 with knobs changed."""
    return attention_kernels.kernel(**{"template": "flash", "stages": 2, "q_stages": 1, **changes})


KERNELS = {
    "causal": kernel(tile_kv=80),
    "full": kernel(mask="full", groups=3, tile_q=192, q_stages=2, stages=3),
    "narrow": kernel(mask="full", head_dim=32, tile_kv=48, groups=1, tile_q=64, blocks_per_sm=2),
    "wide": kernel(head_dim=256, tile_kv=64, stages=1),
}
