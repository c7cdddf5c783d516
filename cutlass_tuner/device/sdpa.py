"""torch's scaled_dot_product_attention, as torch dispatches it or with one backend forced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from cutlass_tuner.device.attention_operands import BOTTOM_RIGHT, FULL, Operands, Shape
from cutlass_tuner.device.workload import BaselineRefused, Binding, refusal

BACKENDS: Mapping[str, SDPBackend | None] = {
    "torch": None,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


class ReturnedOutput:
    """A call that allocates its output. Each binding keeps what its own last call returned.

    It lets go of that just before it calls again, so that the allocator hands it the same memory: a
    ring of outputs as long as ours, whose lines are as cold. Under graph capture the output stays in
    the graph's memory, where every replay writes it.
    """

    def __init__(self, call: Callable[[], torch.Tensor], o: torch.Tensor) -> None:
        self._call, self._o = call, o
        self._output: torch.Tensor | None = None

    def enqueue(self) -> None:
        self._output = None
        try:
            with torch.no_grad():
                self._output = self._call()
        except RuntimeError as error:
            raise refusal(error) from error

    def deliver(self) -> None:
        """Copy the last output, whatever its strides, to the set's O."""
        assert self._output is not None, "delivered before it was enqueued"
        self._o.copy_(self._output.reshape(self._o.shape))

    def binding(self) -> Binding:
        return Binding(self.enqueue, self.deliver)


class Sdpa:
    """One of BACKENDS on one problem. Raises BaselineRefused where torch reaches no such kernel.

    Without log-sum-exp, which torch computes only for a backward pass, while ours always writes it.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        if name not in BACKENDS:
            raise BaselineRefused(f"no baseline {name!r} of attention: known are {', '.join(BACKENDS)}")
        self.workspace_bytes = 0
        self._backend, self._shape = BACKENDS[name], shape
        self._options: dict[str, Any] = _mask(shape)
        # Bottom-right, torch reaches cuDNN only through a mask in memory: not what cuDNN can do.
        if self._backend is SDPBackend.CUDNN_ATTENTION and "attn_mask" in self._options:
            raise BaselineRefused("torch has no way to cuDNN's bottom-right causal mask")
        # The efficient kernel knows no groups of heads: its K and V are expanded instead.
        self._folds = shape.group > 1 and self._backend is SDPBackend.EFFICIENT_ATTENTION
        if shape.group > 1 and not self._folds:
            self._options["enable_gqa"] = True

    def bind(self, operands: Operands, scalar: float) -> Binding:
        q, k, v = operands.q, operands.k, operands.v
        if self._folds:
            q, k, v = folded(self._shape, q, k, v)

        def call() -> torch.Tensor:
            with self._forced():
                output: torch.Tensor = scaled_dot_product_attention(q, k, v, scale=scalar, **self._options)
            return output

        return ReturnedOutput(call, operands.o).binding()

    def _forced(self) -> AbstractContextManager[None]:
        if self._backend is None:
            return nullcontext()
        forced: AbstractContextManager[None] = sdpa_kernel([self._backend])
        return forced


def _mask(shape: Shape) -> dict[str, Any]:
    """torch's is_causal is top-left; its bottom-right bias is a type of its own."""
    if shape.causal == FULL:
        return {}
    if shape.causal == BOTTOM_RIGHT and not shape.square:
        return {"attn_mask": causal_lower_right(shape.seqlen_q, shape.seqlen_kv)}
    return {"is_causal": True}


def folded(
    shape: Shape, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every kv head as a batch entry, its K and V repeated over the group by a stride of 0: views.

    Raises BaselineRefused where batch and heads have no common stride.
    """
    entries = shape.batch * shape.heads_kv
    try:
        q = q.view(entries, shape.group, *q.shape[2:])
        k, v = (t.view(entries, 1, *t.shape[2:]).expand(-1, shape.group, -1, -1) for t in (k, v))
    except RuntimeError:
        raise BaselineRefused(
            f"this backend knows no grouped heads, and {shape.layout} with batch {shape.batch}"
            " cannot be seen as one head a batch entry without a copy"
        ) from None
    return q, k, v
