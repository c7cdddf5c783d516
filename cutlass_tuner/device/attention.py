"""The attention workload: O = softmax(scale * Q K^T + mask) V and each row's log-sum-exp.

Set 0 is the one that is checked: N(0,1) inputs against fp64. Three more inputs are run once: the
selection and the counting probe, whose answers are exact, and set 0 with a Q so large that softmax is
nearly one key in most rows, where a wrong maximum overflows and a stale one must be rescaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from cutlass_tuner.device import flash_attn, ring, sdpa
from cutlass_tuner.device.attention_counting import Counting
from cutlass_tuner.device.attention_operands import Operands, Shape
from cutlass_tuner.device.attention_probe import Selection
from cutlass_tuner.device.attention_reference import (
    Answer,
    Block,
    Excess,
    answer,
    blocks,
    corner_blocks,
    excess,
    worst,
)
from cutlass_tuner.device.workload import POISON, WORDS, Baseline, Probe
from cutlass_tuner.records import Evidence, L2Mode, Problem, Tolerance
from cutlass_tuner.wire import BaselineEntry

STREAMING_BYTES_PER_US = 4.3e6
FLOPS_PER_US = 500e6
LAUNCH_US = 3.0
LARGE, LARGER, LARGER_EVERY = 16.0, 64.0, 4
"""Factors of the large Q, the second of every fourth row: scores of standard deviation 16 and 64."""


class Attention:
    """One problem on the device: a ring of operand sets and what the right answers are."""

    def __init__(
        self,
        problem: Problem,
        tolerance: Tolerance,
        l2: L2Mode,
        l2_bytes: int,
        seed: int,
        *,
        device: str = "cuda",
    ) -> None:
        self.problem, self.shape = problem, Shape.of(problem)
        self.dims, self.scalar = self.shape.dims, self.shape.scale
        self._tolerance = tolerance
        set_bytes = self.shape.set_bytes
        guess = LAUNCH_US + set_bytes / STREAMING_BYTES_PER_US + self.shape.flops / FLOPS_PER_US
        self.rotation = ring.Rotation.plan(set_bytes, guess, l2, l2_bytes)
        random = torch.Generator(device=device).manual_seed(seed)
        self._inputs, self._outputs = self._allocate(self.rotation.sets, device)
        for operand in self._inputs:
            operand.normal_(generator=random)
        self.sets = [self._set(i) for i in range(self.rotation.sets)]
        for output in self._outputs:
            output.view(WORDS[output.itemsize]).fill_(POISON)
        self._answer = self._whole_answer(device)
        self._selection = Selection(self.shape, self.sets[0], random)
        self._counting = Counting(self.shape, self.sets[0], tolerance, random)
        self._large = replace(self.sets[0], q=self._large_q())
        self._large_answers = list(self._answers(self._large, corner_blocks(self.shape)))
        self.probes: Sequence[Probe[Operands]] = (
            self._selection.probe,
            self._counting.probe,
            Probe(self._large, self.scalar),
        )
        self.bytes = self._kept_bytes()

    # --- operands

    def _allocate(
        self, sets: int, device: str
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, torch.Tensor]]:
        """Rings of Q, K, V, and of O and LSE with their guards."""
        shape, guard = self.shape, ring.GUARD_ELEMENTS
        stored = (shape.queries, shape.keys, shape.keys)
        inputs = tuple(ring.allocate(sets, extents, shape.dtype, device=device) for extents in stored)
        o = ring.allocate(sets, shape.queries, shape.dtype, guard, device)
        return inputs, (o, ring.allocate(sets, shape.rows, torch.float32, guard, device))

    def _set(self, index: int) -> Operands:
        shape, guard = self.shape, ring.GUARD_ELEMENTS
        q, k, v = self._inputs
        o, lse = self._outputs
        return Operands(
            shape.logical(ring.view(q, index, shape.queries)),
            shape.logical(ring.view(k, index, shape.keys)),
            shape.logical(ring.view(v, index, shape.keys)),
            shape.logical(ring.view(o, index, shape.queries, guard)),
            ring.view(lse, index, shape.rows, guard),
        )

    def _large_q(self) -> torch.Tensor:
        stored = torch.empty(self.shape.queries, dtype=self.shape.dtype, device=self._inputs[0].device)
        large = self.shape.logical(stored).copy_(self.sets[0].q).mul_(LARGE)
        large[:, :, ::LARGER_EVERY] *= LARGER / LARGE
        return large

    def baseline(self, entry: BaselineEntry, stream: int) -> Baseline[Operands]:
        if entry.name in flash_attn.PACKAGES:
            return flash_attn.FlashAttn(entry.name, self.shape)
        # "torch" once more as the control, or of the other layout.
        name = "torch" if entry.name.startswith("torch") else entry.name
        return sdpa.Sdpa(name, self.shape)

    # --- answers

    def _answers(self, operands: Operands, of: Iterator[Block]) -> Iterator[tuple[Block, Answer]]:
        for block in of:
            yield block, answer(self.shape, operands, self.scalar, self._tolerance, block)

    def _whole_answer(self, device: str) -> Answer:
        """Of set 0: fp64 and, for the bounds, fp32 tensors of the outputs' shapes."""
        logical = (*self.shape.rows, self.shape.head_dim)
        o = torch.empty(logical, dtype=torch.float64, device=device)
        lse = torch.empty(self.shape.rows, dtype=torch.float64, device=device)
        whole = Answer(o, torch.empty_like(o, dtype=torch.float32), lse, torch.empty_like(lse))
        for block, part in self._answers(self.sets[0], blocks(self.shape)):
            for name, kept in vars(whole).items():
                block.of(kept, self.shape).copy_(getattr(part, name))
        return whole

    def _kept_bytes(self) -> int:
        large = (tensor for _, part in self._large_answers for tensor in vars(part).values())
        kept = (*self._inputs, *self._outputs, *vars(self._answer).values(), self._large.q, *large)
        return self._selection.bytes + self._counting.bytes + sum(int(tensor.nbytes) for tensor in kept)

    def _excess(self, every_output: bool) -> Excess:
        """Of set 0's outputs."""
        found, right = self.sets[0], self._answer
        several = [excess(found.o, right.o, right.o_bound)]
        if every_output:
            several.append(excess(found.lse, right.lse, right.lse_bound))
        return worst(several)

    def _block_excess(
        self, found: Operands, answers: Iterator[tuple[Block, Answer]], every_output: bool
    ) -> Excess:
        several = []
        for block, right in answers:
            several.append(excess(block.of(found.o, self.shape), right.o, right.o_bound))
            if every_output:
                several.append(excess(block.of(found.lse, self.shape), right.lse, right.lse_bound))
        return worst(several)

    def out_of_bound(self, every_output: bool = True) -> int:
        return self._excess(every_output).beyond

    def out_of_bound_of(self, index: int, every_output: bool = True) -> int:
        found = self.sets[index]
        return self._block_excess(found, self._answers(found, blocks(self.shape)), every_output).beyond

    # --- evidence

    def poison(self, index: int = 0) -> None:
        """NaN over the outputs and their guards, so that what is not written shows."""
        for output in self._outputs:
            output[index].view(WORDS[output.itemsize]).fill_(POISON)

    def guard_touched(self, index: int) -> int:
        touched = 0
        for output, extents in zip(self._outputs, (self.shape.queries, self.shape.rows), strict=True):
            whole, end = output[index].view(WORDS[output.itemsize]), ring.GUARD_ELEMENTS + math.prod(extents)
            guards = torch.cat((whole[: ring.GUARD_ELEMENTS], whole[end:]))
            touched += int((guards != POISON).sum().item())
        return touched

    def _bits(self, every_output: bool) -> list[torch.Tensor]:
        """Set 0's outputs as integers: views."""
        outputs = (self.sets[0].o, self.sets[0].lse) if every_output else (self.sets[0].o,)
        return [output.view(WORDS[output.itemsize]) for output in outputs]

    def _nonfinite(self, every_output: bool) -> int:
        """NaN and infinities, the poison included, but for the LSE of rows that see no key."""
        count = (~torch.isfinite(self.sets[0].o)).sum()
        if every_output:
            lse = self.sets[0].lse
            count += (~torch.isfinite(lse) & ~(lse == self._answer.lse)).sum()
        return int(count.item())

    def evidence(
        self,
        run: Callable[[], object],
        probing: Sequence[Callable[[], object]],
        repeat: bool,
        every_output: bool,
    ) -> Evidence:
        """Run an entry on set 0 and on the three probes and report what its outputs are like."""
        select, count, enlarge = probing
        self.poison()
        run()
        bits = self._bits(every_output)
        unwritten = sum(int((words == POISON).sum().item()) for words in bits)
        nonfinite = self._nonfinite(every_output) - unwritten
        guards, normal = self.guard_touched(0), self._excess(every_output)
        repeats: int | None = None
        if repeat:
            first = [words.clone() for words in bits]
            self.poison()
            run()
            repeats = sum(int((a != b).sum().item()) for a, b in zip(first, bits, strict=True))
        self.poison()
        select()
        mismatches = self._selection.mismatches(every_output)
        self.poison()
        count()
        mismatches += self._counting.mismatches(every_output)
        self.poison()
        enlarge()
        large = self._block_excess(self._large, iter(self._large_answers), every_output)
        furthest = worst([normal, large])
        return Evidence(
            elements=sum(words.numel() for words in bits),
            unwritten=unwritten,
            nonfinite=nonfinite,
            guard_touched=guards,
            error_over_bound=furthest.over_bound,
            max_abs_error=furthest.error,
            exact_mismatches=mismatches,
            repeat_mismatches=repeats,
        )
