"""The GEMM workload: operands, fp64 reference, integer probe, and evidence about an output.

D (batch x m x n, row-major) = alpha * A (m x k) B (k x n); `gemm_operands` says how they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from cutlass_tuner.device import gemm_baselines, ring
from cutlass_tuner.device.gemm_operands import Operands, as_factors, stored_shapes
from cutlass_tuner.device.workload import POISON, Baseline, Probe
from cutlass_tuner.probe import probe
from cutlass_tuner.records import Evidence, L2Mode, Problem, Tolerance
from cutlass_tuner.wire import BaselineEntry

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ROWS_AT_ONCE = 4096
STREAMING_BYTES_PER_US = 4.3e6
FLOPS_PER_US = 700e6
LAUNCH_US = 2.0


class Gemm:
    """One problem on the device: a ring of operand sets and what the right answer is.

    Set 0 is the one that is checked: N(0,1) inputs with an fp64 reference. The probe has inputs of
    its own, integers for which every fp32-accumulating kernel gives the same bits.
    """

    def __init__(self, problem: Problem, tolerance: Tolerance, l2: L2Mode, l2_bytes: int, seed: int) -> None:
        self.problem, self.l2, self.scalar = problem, l2, 1.0
        self.dims = tuple(problem.dims[x] for x in ("m", "n", "k", "batch"))
        self._shapes = stored_shapes(problem)
        self._dtype = DTYPES[problem.contract.elements["d"]]
        m, n, k, batch = self.dims
        set_bytes = 2 * sum(math.prod(shape) for shape in self._shapes)
        flops = 2 * m * n * k * batch
        guess = LAUNCH_US + max(set_bytes / STREAMING_BYTES_PER_US, flops / FLOPS_PER_US)
        self.rotation = ring.Rotation.plan(set_bytes, guess, l2, l2_bytes)
        self._random = torch.Generator(device="cuda").manual_seed(seed)
        self._rings = self._allocate(self.rotation.sets)
        for operand in self._rings[:2]:
            operand.normal_(generator=self._random)
        self._rings[2].view(torch.int16).fill_(POISON)
        self.sets = [self._set(i) for i in range(self.rotation.sets)]
        self._reference(tolerance)
        self._probe()
        kept = (*self._rings, self._ref, self._bound, self._exact, self.probe.a, self.probe.b)
        self.bytes = sum(tensor.nbytes for tensor in kept)
        self.probes: Sequence[Probe[Operands]] = (Probe(self.probe, self.probe_alpha),)

    def baseline(self, entry: BaselineEntry, stream: int) -> Baseline[Operands]:
        return gemm_baselines.baseline(self.problem, entry, stream)

    def _allocate(self, sets: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a, b, d = self._shapes
        return (
            ring.allocate(sets, a, self._dtype),
            ring.allocate(sets, b, self._dtype),
            ring.allocate(sets, d, self._dtype, ring.GUARD_ELEMENTS),
        )

    def _set(self, index: int) -> Operands:
        a, b, d = self._rings
        shape_a, shape_b, shape_d = self._shapes
        return Operands(
            ring.view(a, index, shape_a),
            ring.view(b, index, shape_b),
            ring.view(d, index, shape_d, ring.GUARD_ELEMENTS),
        )

    def _reference(self, tolerance: Tolerance) -> None:
        """fp64 product of set 0 and the bound of `records.Tolerance`, element by element."""
        self._tolerance = tolerance
        self._ref = torch.empty(self._shapes[2], dtype=torch.float64, device="cuda")
        self._bound = torch.empty(self._shapes[2], dtype=torch.float32, device="cuda")
        for rows, ref, bound in self._answers(0):
            self._ref[:, rows] = ref
            self._bound[:, rows] = bound.float()

    def _answers(self, index: int) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Rows, fp64 product and bound of one set, a block of rows at a time to save memory."""
        a, b = as_factors(self.sets[index].a, self.sets[index].b, self.problem.layout)
        held = self._tolerance
        growth = held.spread * math.sqrt(self.dims[2]) * held.accumulator_roundoff
        for start in range(0, self.dims[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            part = a[:, rows]
            ref = part.double() @ b.double()
            size = part.float().abs() @ b.float().abs()
            yield rows, ref, held.output_roundoff * ref.abs() + held.tiny + growth * size.double()

    def _probe(self) -> None:
        chosen = probe(self.problem.contract, self.dims[2])
        self.probe_alpha = chosen.alpha
        shape_a, shape_b, _ = self._shapes
        low, high = -chosen.limit, chosen.limit + 1
        whole = {"generator": self._random, "device": "cuda", "dtype": torch.int32}
        a = torch.randint(low, high, shape_a, **whole).to(self._dtype)
        b = torch.randint(low, high, shape_b, **whole).to(self._dtype)
        self.probe = Operands(a, b, self.sets[0].d)
        left, right = as_factors(a, b, self.problem.layout)
        self._exact = torch.empty(self._shapes[2], dtype=self._dtype, device="cuda")
        for start in range(0, self.dims[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            product = left[:, rows].double() @ right.double()
            # Exact in fp32 by the probe's construction, so fp64 -> fp32 -> fp16 rounds once.
            self._exact[:, rows] = (product * chosen.alpha).to(self._dtype)

    def poison(self, index: int = 0) -> None:
        """NaN over an output and its guards, so that what is not written shows."""
        self._rings[2][index].view(torch.int16).fill_(POISON)

    def guard_touched(self, index: int) -> int:
        """Elements around an output that no longer hold the poison."""
        whole = self._rings[2][index].view(torch.int16)
        size = math.prod(self._shapes[2])
        guards = torch.cat((whole[: ring.GUARD_ELEMENTS], whole[ring.GUARD_ELEMENTS + size :]))
        return int((guards != POISON).sum().item())

    def out_of_bound_of(self, index: int, every_output: bool = True) -> int:
        """As `out_of_bound`, for any set: its answer is computed for this, in fp64."""
        wrong = 0
        for rows, ref, bound in self._answers(index):
            error = (self.sets[index].d[:, rows].double() - ref).abs()
            wrong += int((~(error <= bound)).sum().item())
        return wrong

    def output_bits(self) -> torch.Tensor:
        """A copy of output 0's bits."""
        return self.sets[0].d.view(torch.int16).clone()

    def differing_bits(self, bits: torch.Tensor) -> int:
        return int((self.sets[0].d.view(torch.int16) != bits).sum().item())

    def out_of_bound(self, every_output: bool = True) -> int:
        """Elements of output 0 beyond the bound (a NaN is beyond it)."""
        error = (self.sets[0].d.double() - self._ref).abs()
        return int((~(error <= self._bound)).sum().item())

    def evidence(
        self,
        run: Callable[[], object],
        probing: Sequence[Callable[[], object]],
        repeat: bool,
        every_output: bool,
    ) -> Evidence:
        """Run the entry on the normal set and on the probe and report what its output is like."""
        (run_probe,) = probing
        self.poison()
        run()
        facts = self._facts()
        repeats: int | None = None
        if repeat:
            bits = self.output_bits()
            self.poison()
            run()
            repeats = self.differing_bits(bits)
        self.poison()
        run_probe()
        wrong = (self.sets[0].d.view(torch.int16) != self._exact.view(torch.int16)) & ~(
            (self.sets[0].d == 0) & (self._exact == 0)  # -0 and +0 are one answer
        )
        elements, unwritten, nonfinite, guard, over, largest = facts
        return Evidence(
            elements=int(elements),
            unwritten=int(unwritten),
            nonfinite=int(nonfinite),
            guard_touched=int(guard),
            error_over_bound=over,
            max_abs_error=largest,
            exact_mismatches=int(wrong.sum().item()),
            repeat_mismatches=repeats,
        )

    def _facts(self) -> tuple[float, float, float, float, float, float]:
        d = self.sets[0].d
        size = d.numel()
        unwritten = (d.view(torch.int16) == POISON).sum()
        nonfinite = (~torch.isfinite(d)).sum() - unwritten
        error = (d.double() - self._ref).abs()
        over = (error / self._bound).max()
        values = [unwritten, nonfinite, over, error.max()]
        unwritten_n, nonfinite_n, over_f, error_f = torch.stack([v.double() for v in values]).tolist()
        return size, unwritten_n, nonfinite_n, self.guard_touched(0), over_f, error_f
