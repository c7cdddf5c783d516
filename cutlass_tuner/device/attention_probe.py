"""The selection probe: inputs for which each row's softmax is exactly one key, so O is that key's V.

A key is a code of +1 and -1: its index in binary, then random digits, so that no two keys of a head
are alike; its last element is +1. A row's Q is the code of one key that it sees, but -head_dim in the
last place: that key's score is then (head_dim - 1) - head_dim = -1, every other key's -3 or less, and
-SCALE log2(e) against -3 SCALE log2(e) leaves the others 164 powers of two behind: exp2 gives 0 in
fp32. The score -1 makes every product with it exact, so the selected key's exp2 is 1, the sum 1, and O
the bits of one V row whatever the tiles, their order, or how scale and log2(e) are multiplied.

A key too many of zeros, as TMA fills in past the end, has score 0 and is selected instead. Half of the
rows select the last key that they see, so that a mask one key short shows in all of them.
"""

from __future__ import annotations

import torch

from cutlass_tuner.device import ring
from cutlass_tuner.device.attention_operands import Operands, Shape
from cutlass_tuner.device.workload import Probe

SCALE = 57.0
SELECTED_SCORE = -1
LSE_RELATIVE = 1e-6
"""A logarithm of exactly 1 and two multiplications in fp32."""


class Selection:
    """The probe of one problem, on the values and outputs of a given set."""

    def __init__(self, shape: Shape, operands: Operands, random: torch.Generator) -> None:
        self._shape = shape
        device = operands.v.device
        self._seen = shape.visible(device)
        self._kv_head = torch.arange(shape.heads_q, device=device)[:, None] // shape.group
        self._entry = torch.arange(shape.batch, device=device)[:, None, None]
        self._target = self._targets(random)
        k = shape.logical(_stored(shape.keys, shape, device))
        k.copy_(self._codes(random))
        q = shape.logical(_stored(shape.queries, shape, device))
        q.copy_(self._selected(k))
        q[..., -1] = -shape.head_dim
        self.probe = Probe(Operands(q, k, operands.v, operands.o, operands.lse), SCALE)
        self.bytes = int(q.nbytes + k.nbytes + self._target.nbytes)

    def _targets(self, random: torch.Generator) -> torch.Tensor:
        """The key that each row selects, (batch, heads_q, seqlen_q); 0 where it sees none."""
        drawn = torch.rand(
            (2, *self._shape.rows), generator=random, device=self._seen.device, dtype=torch.float64
        )
        anywhere = (drawn[0] * self._seen).long()
        return torch.where(drawn[1] < 0.5, self._seen - 1, anywhere).clamp_(min=0)

    def _codes(self, random: torch.Generator) -> torch.Tensor:
        """(batch, heads_kv, seqlen_kv, head_dim) of +1 and -1."""
        shape, device = self._shape, self._seen.device
        logical = (shape.batch, shape.heads_kv, shape.seqlen_kv, shape.head_dim)
        digits = torch.randint(0, 2, logical, generator=random, device=device, dtype=torch.int8)
        index = torch.arange(shape.seqlen_kv, device=device)[:, None]
        places = torch.arange((shape.seqlen_kv - 1).bit_length(), device=device)
        digits[..., : len(places)] = (index >> places & 1).to(torch.int8)
        digits[..., -1] = 1
        return 2 * digits - 1

    def _selected(self, of: torch.Tensor) -> torch.Tensor:
        """Of K or V, each row's selected key: (batch, heads_q, seqlen_q, head_dim), a copy."""
        return of[self._entry, self._kv_head, self._target]

    def mismatches(self, every_output: bool) -> int:
        """Elements of the outputs that are not the one right answer; -0 and +0 are one."""
        found = self.probe.operands
        none = self._seen == 0
        o = self._selected(found.v).masked_fill_(none[:, None], 0.0)
        wrong = (found.o != o).sum()
        if every_output:
            lse = torch.where(none, -torch.inf, SELECTED_SCORE * SCALE).expand(found.lse.shape)
            close = (found.lse - lse).abs() <= LSE_RELATIVE * SCALE
            wrong += (~(close | (found.lse == lse))).sum()
        return int(wrong.item())


def _stored(stored: tuple[int, ...], shape: Shape, device: torch.device) -> torch.Tensor:
    return ring.view(ring.allocate(1, stored, shape.dtype, device=str(device)), 0, stored)
