"""The operands of a GEMM as they are stored, by layout letter.

A (m x k) is row-major for t*, column-major for n*; B (k x n) is row-major for *t, column-major (k
contiguous) for *n; D (m x n) is row-major. A leading axis is the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cutlass_tuner.records import Problem


@dataclass(frozen=True)
class Operands:
    """One set: A and B as stored (three-dimensional, batch first), D in its final shape."""

    a: torch.Tensor
    b: torch.Tensor
    d: torch.Tensor

    @property
    def pointers(self) -> tuple[int, int, int]:
        return self.a.data_ptr(), self.b.data_ptr(), self.d.data_ptr()


def stored_shapes(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    m, n, k, batch = (problem.dims[x] for x in ("m", "n", "k", "batch"))
    a = (batch, m, k) if problem.layout[0] == "t" else (batch, k, m)
    b = (batch, k, n) if problem.layout[1] == "t" else (batch, n, k)
    return a, b, (batch, m, n)


def as_factors(a: torch.Tensor, b: torch.Tensor, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A as (batch, m, k) and B as (batch, k, n): views, no copies."""
    return (
        a if layout[0] == "t" else a.transpose(1, 2),
        b if layout[1] == "t" else b.transpose(1, 2),
    )
