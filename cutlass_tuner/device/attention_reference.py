"""What attention's answer is, in fp64, and how far an honest kernel may be from it.

Computed block by block of heads and rows, so that a block's scores and what is made of them stay
near 2 GiB at any length. `verify.tolerance` derives the bound's formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from cutlass_tuner.device.attention_operands import Operands, Shape
from cutlass_tuner.records import Tolerance

SCORES_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class Block:
    """Rows of the query heads that read some kv heads of one batch entry."""

    batch: int
    kv_heads: slice
    rows: slice

    def of(self, outputs: torch.Tensor, shape: Shape) -> torch.Tensor:
        """This block of Q, O or LSE, (kv heads, group, rows, ...): a view."""
        grouped = outputs[self.batch].unflatten(0, (shape.heads_kv, shape.group))
        return grouped[self.kv_heads, :, self.rows]


@dataclass(frozen=True)
class Answer:
    """fp64 outputs of a block and their bounds; the LSE of a row that sees no key is -inf."""

    o: torch.Tensor
    o_bound: torch.Tensor
    lse: torch.Tensor
    lse_bound: torch.Tensor


def blocks(shape: Shape) -> Iterator[Block]:
    """All of a problem, in blocks of at most SCORES_AT_ONCE scores (a row of a group at least)."""
    for batch in range(shape.batch):
        yield from _blocks(shape, batch, range(shape.heads_kv))


def corner_blocks(shape: Shape) -> Iterator[Block]:
    """The first and the last kv head of the first and of the last batch entry."""
    for batch in sorted({0, shape.batch - 1}):
        for head in sorted({0, shape.heads_kv - 1}):
            yield from _blocks(shape, batch, range(head, head + 1))


def _blocks(shape: Shape, batch: int, heads: range) -> Iterator[Block]:
    row = shape.group * shape.seqlen_kv
    rows = min(shape.seqlen_q, max(1, SCORES_AT_ONCE // row))
    together = max(1, SCORES_AT_ONCE // (row * rows))
    for head in range(heads.start, heads.stop, together):
        for start in range(0, shape.seqlen_q, rows):
            kv_heads = slice(head, min(head + together, heads.stop))
            yield Block(batch, kv_heads, slice(start, min(start + rows, shape.seqlen_q)))


def answer(shape: Shape, operands: Operands, scale: float, held: Tolerance, block: Block) -> Answer:
    """One block's outputs and bounds. Shapes: (kv heads, group, rows, head_dim or nothing)."""
    q = block.of(operands.q, shape)
    k, v = operands.k[block.batch, block.kv_heads], operands.v[block.batch, block.kv_heads]
    seen = shape.visible(q.device)[block.rows]
    hidden = torch.arange(shape.seqlen_kv, device=q.device) >= seen[:, None]
    scores = _product(q.double(), k.double().mT).mul_(scale).masked_fill_(hidden, -math.inf)
    # Finite for a row that sees no key, so that its softmax is 0 and not a NaN.
    top = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
    softmax = scores.sub_(top).exp_()
    total = softmax.sum(-1, keepdim=True)
    lse = (top + total.log()).squeeze(-1)
    softmax /= total.clamp(min=1.0)  # at least exp(0), but for a row that sees no key
    o = _product(softmax, v.double())
    swing = _product(q.float().abs(), k.float().abs().mT).masked_fill_(hidden, 0.0).amax(-1) * scale
    unit = held.accumulator_roundoff * held.spread
    score_error = unit * swing * math.sqrt(shape.head_dim)
    sum_error = unit * math.sqrt(shape.seqlen_kv)
    softmax = softmax.float()
    size = _product(softmax, v.float().abs())
    rounding = _product(softmax.square_(), v.float().square()).sqrt_()
    subnormal = v.float().square().sum(-2)[:, None, None, :].sqrt() / total.clamp(min=1.0)
    o_bound = (
        (held.output_roundoff * o.abs() + held.tiny)
        + held.probability_spread * (held.probability_roundoff * rounding + held.probability_tiny * subnormal)
        + size * (2 * score_error + sum_error)[..., None]
    )
    log_error = held.log_roundoff * lse.nan_to_num(neginf=0.0).abs()
    return Answer(o, o_bound, lse, held.probability_roundoff / 2 + log_error + score_error + sum_error)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """(heads, group, rows, x) by (heads, x, y): one matrix product a head, its group's rows together."""
    return (left.flatten(1, 2) @ right).unflatten(1, left.shape[1:3])


@dataclass(frozen=True)
class Excess:
    """How far an output is from the answer: largest error over its bound, the largest error, and how
    many elements are beyond the bound. A NaN is beyond any."""

    over_bound: float
    error: float
    beyond: int


def excess(found: torch.Tensor, right: torch.Tensor, bound: torch.Tensor) -> Excess:
    # Infinities that agree are no error; their difference would be a NaN.
    error = torch.where(found == right, 0.0, (found.double() - right).abs())
    figures = torch.stack([(error / bound).max(), error.max(), (~(error <= bound)).sum().double()])
    over, largest, beyond = figures.tolist()
    return Excess(over, largest, int(beyond))


def worst(several: list[Excess]) -> Excess:
    """The one furthest over its bound, NaN before all, with everything counted that is beyond."""
    chosen = max(several, key=lambda one: math.inf if math.isnan(one.over_bound) else one.over_bound)
    return Excess(chosen.over_bound, chosen.error, sum(one.beyond for one in several))
