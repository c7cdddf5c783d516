"""Which ops exist: the one place to add one. Nothing else branches on an op's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.columns import FloatArray
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.fmha import family as fmha
from cutlass_tuner.ops.fmha import problem as fmha_problem
from cutlass_tuner.ops.fmha import regimes as fmha_regimes
from cutlass_tuner.ops.fmha import seeds as fmha_seeds
from cutlass_tuner.ops.fmha import shapes as fmha_shapes
from cutlass_tuner.ops.hgemm import family as hgemm
from cutlass_tuner.ops.hgemm import problem as hgemm_problem
from cutlass_tuner.ops.hgemm import regimes as hgemm_regimes
from cutlass_tuner.ops.hgemm import seeds as hgemm_seeds
from cutlass_tuner.ops.hgemm import shapes as hgemm_shapes
from cutlass_tuner.ops.hgemm.matmul_heuristics import HGEMM, MatmulHeuristics
from cutlass_tuner.ops.regime import Regime
from cutlass_tuner.ops.smem import Smem
from cutlass_tuner.records import (
    Contract,
    DeviceFacts,
    KernelConfig,
    L2Mode,
    LaunchConfig,
    Problem,
    Proposal,
    Readback,
)

if TYPE_CHECKING:
    from cutlass_tuner.space import Candidates, Space


@dataclass(frozen=True)
class Op:
    """Everything the rest of the program needs to know about an op.

    `spaces` maps an architecture to its file under spaces/; `emitter` and `workload` are names
    that the emitters and the measuring child know. `dims` is the ABI's order.
    """

    name: str
    summary: str
    contract: Contract
    dims: tuple[str, ...]
    layouts: tuple[str, ...]
    baseline_layouts: tuple[str, ...]
    """Layouts a baseline may choose from for the best-layout column: also those without kernels of ours."""
    baselines: tuple[str, ...]
    """Entrants of a final, by the measuring child's names; the first is every contest's reference."""
    tunes_baseline: bool
    """Whether the last baseline is tuned by the measuring child before the final."""
    reference_call: str
    """What the reference is to a reader: the call that a user would make."""
    spaces: Mapping[str, str]
    families: Mapping[str, Family]
    emitter: str
    workload: str
    read_shapes: Callable[[Path | str], list[Problem]]
    problem: Callable[[Sequence[int], str | None], Problem]
    """The problem with these extents, in the order of `dims` (trailing ones default), and this layout."""
    fits: Callable[[Problem, DeviceFacts], str | None]
    """Why a problem is too large for a GPU's memory, or None."""
    flops: Callable[[Problem], int]
    bytes: Callable[[Problem], int]
    """Every operand moved once."""
    seeds: Callable[[Space, Candidates, FloatArray, Sequence[Problem], DeviceFacts], list[Proposal]]
    """Kernels to build first, from the space, its candidates for the problems, and their prior."""
    prior: Callable[[Candidates, Sequence[Problem], DeviceFacts], FloatArray]
    """Estimated microseconds, candidates x problems; what it says of a problem that a candidate does not
    serve means nothing, and may be infinite."""
    smem: Callable[[KernelConfig], Smem | None]
    """Shared memory of an effective kernel, None where the op has no formula for its family."""
    launch_codes: Callable[[LaunchConfig], tuple[int, ...]]
    """Launch knobs in the host library's ABI."""
    ran_otherwise: Callable[[KernelConfig, LaunchConfig, Readback], str]
    """What the host library read back that differs from what was asked, in words; "" where nothing does."""
    deterministic: Callable[[LaunchConfig], bool]
    """Whether a launch promises the same bits every time."""
    regime: Callable[[Problem, DeviceFacts, L2Mode], Regime]
    """What limits a problem, and the figures that say so."""
    notes: Path
    """How the op's kernels behave, in words, for whoever proposes some: a Markdown file."""
    matmul_heuristics: MatmulHeuristics | None
    """How NVIDIA's nvMatmulHeuristics is asked about the op; None where it cannot be."""

    def nominal_device(self, arch: str) -> DeviceFacts:
        """Facts to assume of a GPU of `arch` where none is at hand. Raises UserError for another arch."""
        if arch not in self.spaces:
            raise UserError(
                f"op {self.name} has no kernels for {arch}; it has some for {', '.join(self.spaces)}"
            )
        return nominal_device(arch)


def _fmha(name: str, element: str) -> Op:
    """Attention forward in one element type: the same functions with another contract."""
    return Op(
        name=name,
        summary=f"attention forward in {element}, fp32 scores and accumulation, with the log-sum-exp",
        contract=fmha_problem.CONTRACTS[name],
        dims=fmha_problem.DIMS,
        layouts=fmha_problem.LAYOUTS,
        baseline_layouts=fmha_problem.LAYOUTS,
        baselines=("torch", "cudnn", "flash", "efficient", "flash-attn-2", "flash-attn-3", "flash-attn-4"),
        tunes_baseline=False,
        reference_call="torch's scaled_dot_product_attention",
        spaces={"sm_90a": "fmha-sm90.yaml", "sm_100a": "fmha-sm100.yaml"},
        families=fmha.FAMILIES,
        emitter="attention",
        workload="attention",
        read_shapes=partial(fmha_shapes.read_shapes, op=name),
        problem=partial(fmha_problem.problem, op=name),
        fits=fmha_problem.fits,
        flops=fmha_problem.flops,
        bytes=fmha_problem.compulsory_bytes,
        seeds=fmha_seeds.seeds,
        prior=fmha_seeds.prior,
        smem=fmha.kernel_smem,
        launch_codes=fmha.launch_codes,
        ran_otherwise=fmha.ran_otherwise,
        deterministic=fmha.deterministic,
        regime=fmha_regimes.regime,
        notes=Path(__file__).parent / "fmha" / "notes.md",
        matmul_heuristics=None,
    )


OPS: dict[str, Op] = {
    "hgemm": Op(
        name="hgemm",
        summary="fp16 x fp16 -> fp16 matrix product, fp32 accumulation",
        contract=hgemm_problem.CONTRACT,
        dims=hgemm_problem.DIMS,
        layouts=hgemm_problem.LAYOUTS,
        baseline_layouts=hgemm_problem.STORABLE,
        baselines=("torch", "cublaslt", "cublaslt-tuned"),
        tunes_baseline=True,
        reference_call="torch.matmul",
        spaces={"sm_90a": "hgemm-sm90.yaml"},
        families=hgemm.FAMILIES,
        emitter="gemm3x",
        workload="gemm",
        read_shapes=hgemm_shapes.read_shapes,
        problem=hgemm_problem.problem,
        fits=hgemm_problem.fits,
        flops=hgemm_problem.flops,
        bytes=hgemm_problem.compulsory_bytes,
        seeds=hgemm_seeds.seeds,
        prior=hgemm_seeds.prior,
        smem=hgemm.kernel_smem,
        launch_codes=hgemm.launch_codes,
        ran_otherwise=hgemm.ran_otherwise,
        deterministic=hgemm.deterministic,
        regime=hgemm_regimes.regime,
        notes=Path(__file__).parent / "hgemm" / "notes.md",
        matmul_heuristics=HGEMM,
    ),
    "fmha": _fmha("fmha", "fp16"),
    "fmha-bf16": _fmha("fmha-bf16", "bf16"),
}


def op(name: str) -> Op:
    """The op called `name`. Raises UserError naming those there are."""
    if name not in OPS:
        raise UserError(f"no op {name!r}; known: {', '.join(OPS)}")
    return OPS[name]
