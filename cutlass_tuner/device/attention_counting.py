"""The counting probe: Q of zeros, so that each row's softmax is even and O the mean of the V it sees.

Every exp2 is 1 and their sum n, the keys seen; V holds integers, so every partial sum is exact in fp32
in any order, and LSE = ln(n). What remains are a division, one rounding to the output's type, and a
logarithm. Sums of random signs pass 2^11 after a few keys and come back near 0 in some rows, where an
accumulator in fp16 has lost them; and a row that counts one key too many, or too few, has another LSE
at any length. The rounding of P, which hides both on random inputs, is absent here.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from cutlass_tuner.device.attention_operands import Operands, Shape
from cutlass_tuner.device.workload import Probe
from cutlass_tuner.records import Tolerance

SIGNIFICANT = 256
"""V is an integer below this, times 2^0 to 2^3: exact in bf16 and fp16, up to 2^11. Sums of 2^17 of
them stay below 2^24 by 40 standard deviations."""
LARGEST_EXPONENT = 3
LARGEST = SIGNIFICANT << LARGEST_EXPONENT

DIVISION = 2.0**-8
"""Of the output's roundoff: a reciprocal and a product in fp32 may move a sum across a tie. Where parts
of the keys are divided before they are added up, a unit of fp32 at LARGEST comes on top."""
LOGARITHM = 2.0
"""Times `log_roundoff`: lg2.approx, and its product with ln 2. Absolute near ln(1), relative elsewhere."""
ELEMENTS_AT_ONCE = 1 << 26


class Counting:
    """The probe of one problem, on the keys and outputs of a given set."""

    def __init__(self, shape: Shape, operands: Operands, held: Tolerance, random: torch.Generator) -> None:
        self._shape, self._held = shape, held
        self._seen = shape.visible(operands.v.device)
        v = torch.empty_like(operands.v, memory_format=torch.preserve_format)
        v.copy_(self._integers(random))
        self.probe = Probe(
            Operands(torch.zeros_like(operands.q), operands.k, v, operands.o, operands.lse), shape.scale
        )
        self.bytes = int(operands.q.nbytes + v.nbytes)

    def _integers(self, random: torch.Generator) -> torch.Tensor:
        shape = self._shape
        logical = (shape.batch, shape.heads_kv, shape.seqlen_kv, shape.head_dim)
        drawn = {"generator": random, "device": self._seen.device, "dtype": torch.int16}
        integers = torch.randint(1 - SIGNIFICANT, SIGNIFICANT, logical, **drawn)
        return integers << torch.randint(0, LARGEST_EXPONENT + 1, logical, **drawn)

    def mismatches(self, every_output: bool) -> int:
        """Elements of the outputs that are not the mean, or ln(n), as exactly as fp32 gives them."""
        found, held = self.probe.operands, self._held
        relative = held.output_roundoff * (1 + DIVISION)
        absolute = held.tiny + held.accumulator_roundoff * LARGEST
        wrong = torch.zeros((), dtype=torch.int64, device=self._seen.device)
        for entries in self._entries():
            mean = self._means(found.v[entries])
            o = found.o[entries].unflatten(1, (self._shape.heads_kv, self._shape.group))
            bound = relative * mean.abs() + absolute
            wrong += (~((o - mean).abs() <= bound)).sum()
        if every_output:
            lse = self._seen.double().log()
            bound = LOGARITHM * held.log_roundoff * lse.abs().clamp(min=1.0)
            close = (found.lse - lse).abs() <= bound
            wrong += (~torch.where(self._seen == 0, found.lse == lse, close)).sum()
        return int(wrong.item())

    def _entries(self) -> Iterator[slice]:
        """The batch, so many entries at a time that their sums fit."""
        shape = self._shape
        elements = (shape.heads_kv * shape.seqlen_kv + shape.heads_q * shape.seqlen_q) * shape.head_dim
        together = max(1, ELEMENTS_AT_ONCE // elements)
        for start in range(0, shape.batch, together):
            yield slice(start, start + together)

    def _means(self, v: torch.Tensor) -> torch.Tensor:
        """fp64, (entries, heads_kv, 1, seqlen_q, head_dim)."""
        sums = torch.nn.functional.pad(v.double().cumsum(2), (0, 0, 1, 0))
        return (sums[:, :, self._seen] / self._seen.clamp(min=1)[:, None])[:, :, None]
