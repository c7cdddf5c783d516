"""The extents of an attention problem, which keys a row sees, and its operands as they are stored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from cutlass_tuner.records import Problem

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
LAYOUTS = ("bshd", "bhsd")
"""In the order of their codes, which follow the dims in the ABI."""

FULL, BOTTOM_RIGHT, TOP_LEFT = 0, 1, 2
"""`causal`: row i sees every key; keys j <= i + seqlen_kv - seqlen_q; keys j <= i."""


@dataclass(frozen=True)
class Shape:
    """Extents in elements, in the ABI's order. Query head h reads kv head h // group.

    Tensors here are logical, (batch, heads, seq, head_dim), whatever the layout stores them as.
    """

    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_kv: int
    head_dim: int
    causal: int
    layout: str
    dtype: torch.dtype

    @classmethod
    def of(cls, problem: Problem) -> Shape:
        dtype = DTYPES[problem.contract.elements["o"]]
        return cls(**problem.dims, layout=problem.layout, dtype=dtype)

    @property
    def dims(self) -> tuple[int, ...]:
        """The ABI's dims: extents, mask, and the layout's code."""
        extents = (self.batch, self.heads_q, self.heads_kv, self.seqlen_q, self.seqlen_kv, self.head_dim)
        return (*extents, self.causal, LAYOUTS.index(self.layout))

    @property
    def group(self) -> int:
        return self.heads_q // self.heads_kv

    @property
    def scale(self) -> float:
        """1 / sqrt(head_dim) as the ABI's fp32 holds it."""
        return float(torch.tensor(self.head_dim**-0.5, dtype=torch.float32))

    @property
    def square(self) -> bool:
        """Both causal alignments are one."""
        return self.seqlen_q == self.seqlen_kv

    def visible(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """How many keys each row sees, [seqlen_q]: always the first ones."""
        rows = torch.arange(self.seqlen_q, device=device)
        if self.causal == FULL:
            return torch.full_like(rows, self.seqlen_kv)
        offset = self.seqlen_kv - self.seqlen_q if self.causal == BOTTOM_RIGHT else 0
        return (rows + 1 + offset).clamp(0, self.seqlen_kv)

    @property
    def flops(self) -> int:
        """Two products over the pairs that the mask leaves."""
        return 4 * self.batch * self.heads_q * self.head_dim * int(self.visible().sum())

    @property
    def queries(self) -> tuple[int, ...]:
        """Q and O as stored."""
        return self._stored(self.heads_q, self.seqlen_q)

    @property
    def keys(self) -> tuple[int, ...]:
        """K and V as stored."""
        return self._stored(self.heads_kv, self.seqlen_kv)

    @property
    def rows(self) -> tuple[int, int, int]:
        """LSE, in either layout."""
        return self.batch, self.heads_q, self.seqlen_q

    def _stored(self, heads: int, seq: int) -> tuple[int, ...]:
        middle = (seq, heads) if self.layout == "bshd" else (heads, seq)
        return self.batch, *middle, self.head_dim

    def logical(self, stored: torch.Tensor) -> torch.Tensor:
        """(batch, heads, seq, head_dim): a view, no copy."""
        return stored.transpose(1, 2) if self.layout == "bshd" else stored

    @property
    def set_bytes(self) -> int:
        """Of one set, outputs included."""
        elements = 2 * math.prod(self.queries) + 2 * math.prod(self.keys)
        return elements * int(self.dtype.itemsize) + 4 * math.prod(self.rows)


@dataclass(frozen=True)
class Operands:
    """One set, as logical views of what is stored. LSE is (batch, heads_q, seqlen_q), fp32."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    lse: torch.Tensor

    @property
    def pointers(self) -> tuple[int, ...]:
        return tuple(operand.data_ptr() for operand in (self.q, self.k, self.v, self.o, self.lse))
