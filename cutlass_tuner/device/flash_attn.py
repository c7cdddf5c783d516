"""The flash-attn packages, where they are installed: FlashAttention 2, 3 and 4.

All take (batch, seq, heads, head_dim), know groups of heads, and align a causal mask bottom-right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch

from cutlass_tuner.device.attention_operands import FULL, TOP_LEFT, Operands, Shape
from cutlass_tuner.device.sdpa import ReturnedOutput
from cutlass_tuner.device.workload import BaselineRefused, Binding, refusal

PACKAGES = {
    "flash-attn-2": "flash_attn",
    "flash-attn-3": "flash_attn_interface",
    "flash-attn-4": "flash_attn.cute.interface",
}
"""The module with `flash_attn_func`."""


class FlashAttn:
    """One of PACKAGES on one problem. Raises BaselineRefused where it is not installed, or cannot."""

    def __init__(self, name: str, shape: Shape) -> None:
        if shape.causal == TOP_LEFT and not shape.square:
            raise BaselineRefused("flash-attn's causal mask is bottom-right, the problem's top-left")
        self.workspace_bytes = 0
        self._function = _function(PACKAGES[name])
        self._causal = shape.causal != FULL

    def bind(self, operands: Operands, scalar: float) -> Binding:
        q, k, v = (tensor.transpose(1, 2) for tensor in (operands.q, operands.k, operands.v))
        call = partial(self._function, q, k, v, softmax_scale=scalar, causal=self._causal)
        return ReturnedOutput(partial(_output, call), operands.o).binding()


def _function(module: str) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = import_module(module).flash_attn_func
    except Exception as error:  # the package of others: whatever its import raises, it is not usable
        raise BaselineRefused(f"{module} cannot be imported: {_line(error)}") from error
    return function


def _output(call: Callable[[], Any]) -> torch.Tensor:
    """O as (batch, heads, seq, head_dim). Some versions return the log-sum-exp beside it."""
    try:
        result = call()
    except Exception as error:  # asserts, and classes of the package's own compiler
        raise refusal(error) from error
    output: torch.Tensor = result[0] if isinstance(result, tuple) else result
    return output.transpose(1, 2)


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
