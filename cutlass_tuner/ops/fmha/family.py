"""The families of attention kernels, one an architecture, and how their launch knobs travel in the ABI."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutlass_tuner.ops.columns import Alphabet, one_row
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.fmha import rules, sm100, sm100_estimate, smem
from cutlass_tuner.ops.fmha.estimate import estimate_us
from cutlass_tuner.ops.fmha.fold import NEEDS, fold_launch, resolve_kernel
from cutlass_tuner.ops.fmha.problem import mask
from cutlass_tuner.ops.smem import Smem
from cutlass_tuner.records import KernelConfig, LaunchConfig, Problem, Readback, Scalar

GRIDS = ("tiles", "sms")
ORDERS = ("rows", "heavy")
"""In the order of their codes in ct_call.launch."""

_GIVEN: Mapping[str, Callable[[Problem], Scalar]] = {
    "head_dim": lambda problem: problem.dims["head_dim"],
    "mask": mask,
}
SM100 = "attention_sm100"

FAMILIES = {
    "attention": Family(
        rules=rules.RULES,
        facts=rules.facts,
        resolve=resolve_kernel,
        fold_launch=fold_launch,
        estimate_us=estimate_us,
        given=_GIVEN,
        needs=NEEDS,
    ),
    SM100: Family(
        rules=sm100.RULES,
        facts=sm100.facts,
        resolve=sm100.resolve,
        fold_launch=sm100.fold_launch,
        estimate_us=sm100_estimate.estimate_us,
        given=_GIVEN,
    ),
}
"""Hopper's, and Blackwell's: no knob of one but head_dim, mask and tile_kv means something to the other."""

_SMEM_KNOBS = {
    "template": Alphabet(("flash", "example88")),
    "head_dim": Alphabet(),
    "tile_q": Alphabet(),
    "tile_kv": Alphabet(),
    "groups": Alphabet(),
    "stages": Alphabet(),
    "q_stages": Alphabet(),
    "persistent": Alphabet(boolean=True),
}
_SM100_SMEM_KNOBS = {
    "head_dim": Alphabet(),
    "tile_kv": Alphabet(),
    "scheduler": Alphabet(("individual", "persistent", "causal_individual", "causal_persistent")),
}


def kernel_smem(kernel: KernelConfig) -> Smem:
    """Shared memory of an effective kernel; a stage is a tile of K (or of V)."""
    if kernel.family == SM100:
        columns = one_row({name: kernel.knobs[name] for name in _SM100_SMEM_KNOBS}, _SM100_SMEM_KNOBS)
        return Smem(
            stage_bytes=int(sm100.stage_bytes(columns)[0]),
            stages=sm100.KV_STAGES,
            total_bytes=int(sm100.smem_bytes(columns)[0]),
        )
    columns = one_row({name: kernel.knobs[name] for name in _SMEM_KNOBS}, _SMEM_KNOBS)
    return Smem(
        stage_bytes=int(smem.stage_bytes(columns)[0]),
        stages=int(columns["stages"][0]),
        total_bytes=int(smem.total_bytes(columns)[0]),
    )


def launch_codes(launch: LaunchConfig) -> tuple[int, ...]:
    """Launch knobs as ct_call.launch wants them: grid, order, section; on sm_100a the grid alone."""
    knobs = launch.knobs
    grid = GRIDS.index(str(knobs["grid"]))
    return (grid, ORDERS.index(str(knobs["order"])), int(knobs["section"])) if "order" in knobs else (grid,)


def ran_otherwise(kernel: KernelConfig, launch: LaunchConfig, back: Readback) -> str:
    """What ran that was not asked, "" where all is as asked. `kernel` and `launch` in effective form.

    A section is read back as swizzle; of the examples, which have none, it is None and says nothing.
    """
    stages, cluster = kernel.knobs.get("stages", sm100.KV_STAGES), kernel.knobs.get("cluster_m", 1)
    pairs: list[tuple[str, object, object]] = [
        ("stages", stages, back.stages),
        ("cluster", (cluster, 1, 1), back.cluster),
        ("section", launch.knobs.get("section"), back.swizzle),
    ]
    wrong = [
        f"{name} {ran} ran where {want} was asked" for name, want, ran in pairs if ran not in (None, want)
    ]
    return "; ".join(wrong)


def deterministic(launch: LaunchConfig) -> bool:
    """Always: no two CTAs add to one result."""
    return True
