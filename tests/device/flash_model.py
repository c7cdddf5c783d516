"""Flash kernels in torch on a CPU: honest ones as GPUs compute them, and ways to cheat.

Blockwise online softmax in fp32 over keys, P rounded to the element type before the second product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cutlass_tuner.device.attention_operands import Operands, Shape

LOG2_E = math.log2(math.e)
Rounding = Callable[[torch.Tensor], torch.Tensor]


def single(x: torch.Tensor) -> torch.Tensor:
    return x.float()


def to(dtype: torch.dtype) -> Rounding:
    return lambda x: x.to(dtype).float()


@dataclass(frozen=True)
class Flash:
    """What a kernel does. The defaults are honest."""

    tile_kv: int = 64
    stale: float = 0.0
    """The maximum is kept until it grows by more than this, in powers of two."""
    p: Rounding | None = None
    """How P is rounded; None for the element type."""
    s: Rounding = single
    """What accumulates scores, 16 of head_dim at a time."""
    accumulator: Rounding = single
    """What O is accumulated in, 16 keys at a time."""
    exp2: Rounding = torch.exp2
    backwards: bool = False
    """Walks the keys from the last block to the first."""
    more_keys: int = 0
    """Sees this many keys more than it may, none past the end."""
    zeros: int = 0
    """Sees this many keys of zeros behind the last one."""
    kv_head: Callable[[int, Shape], int] | None = None
    lse: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor] | None = None
    """From maximum and sum (base 2, scaled) and the scale."""

    def run(self, shape: Shape, operands: Operands, scale: float) -> None:
        """Write O and LSE."""
        heads = range(shape.heads_q)
        kv = [self.kv_head(head, shape) if self.kv_head else head // shape.group for head in heads]
        q, k, v = operands.q.float(), operands.k[:, kv].float(), operands.v[:, kv].float()
        o, lse = self._heads(shape, q, k, v, scale)
        operands.o.copy_(o)
        operands.lse.copy_(lse)

    def _heads(
        self, shape: Shape, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        seen = (shape.visible() + self.more_keys).clamp(max=shape.seqlen_kv)
        if self.zeros:
            seen = torch.where(seen == shape.seqlen_kv, seen + self.zeros, seen)
            k, v = (torch.nn.functional.pad(t, (0, 0, 0, self.zeros)) for t in (k, v))
        rounded = self.p or to(shape.dtype)
        scale_log2 = torch.tensor(scale * LOG2_E, dtype=torch.float32)
        top = q.new_full((*q.shape[:3], 1), -torch.inf)
        total, o = torch.zeros_like(top), torch.zeros_like(q)
        starts = range(0, k.shape[2], self.tile_kv)
        for start in reversed(starts) if self.backwards else starts:
            keys = slice(start, start + self.tile_kv)
            hidden = torch.arange(k.shape[2])[keys] >= seen[:, None]
            scores = self._scores(q, k[:, :, keys]).masked_fill(hidden, -torch.inf)
            grown = torch.maximum(top, scores.amax(-1, keepdim=True))
            new = torch.where((grown - top) * scale_log2 > self.stale, grown, top)
            safe = new.clamp(min=-1e30)
            shrunk = self.exp2((top - safe) * scale_log2)
            p = self.exp2((scores - safe) * scale_log2)
            total = total * shrunk + p.sum(-1, keepdim=True)
            o = self._accumulated(o * shrunk, rounded(p), v[:, :, keys])
            top = new
        lse = self.lse or right_lse
        return o / torch.where(total == 0, 1.0, total), lse(top * scale_log2, total, scale).squeeze(-1)

    def _scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        total = q.new_zeros(())
        for start in range(0, q.shape[-1], 16):
            part = slice(start, start + 16)
            total = self.s(total + q[..., part] @ k[..., part].mT)
        return total

    def _accumulated(self, o: torch.Tensor, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        for start in range(0, p.shape[-1], 16):
            part = slice(start, start + 16)
            o = self.accumulator(o + p[..., part] @ v[:, :, part])
        return o


def right_lse(top: torch.Tensor, total: torch.Tensor, _scale: float) -> torch.Tensor:
    return (top + total.log2()) * math.log(2)


def cubic_exp2(x: torch.Tensor) -> torch.Tensor:
    """2^x by a polynomial of degree 3, as FMA units may compute it: relative error 8.8e-5."""
    whole = x.clamp(min=-126.0).floor()
    part = x.clamp(min=-126.0) - whole
    polynomial = 1.0 + part * (
        0.695146143436431884765625
        + part * (0.227564394474029541015625 + part * 0.077119089663028717041015625)
    )
    return torch.where(x < -126.0, 0.0, torch.ldexp(polynomial, whole.int()))
