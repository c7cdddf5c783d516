"""The baseline everybody has: torch.matmul (cuBLAS), with torch's defaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from cutlass_tuner.device.gemm_operands import Operands, as_factors

HOPPER_WORKSPACE_BYTES = 32 << 20
"""What torch gives cuBLAS on Hopper by default; CUBLAS_WORKSPACE_CONFIG would change it."""


def bind(operands: Operands, layout: str, alpha: float) -> Callable[[], object]:
    """A function that enqueues the product on torch's current stream."""
    a, b = as_factors(operands.a, operands.b, layout)
    d = operands.d
    if d.shape[0] == 1:
        a, b, d = a[0], b[0], d[0]
    if alpha == 1.0:
        return partial(torch.matmul, a, b, out=d)
    zero = d.new_zeros(()).expand_as(d)
    add = torch.addmm if d.dim() == 2 else torch.baddbmm
    return partial(add, zero, a, b, beta=0.0, alpha=alpha, out=d)
