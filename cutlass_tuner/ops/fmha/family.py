"""The family of attention kernels, and how its launch knobs travel in the host library's ABI."""

from __future__ import annotations

from cutlass_tuner.ops.columns import Alphabet, one_row
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.fmha import rules, smem
from cutlass_tuner.ops.fmha.estimate import estimate_us
from cutlass_tuner.ops.fmha.fold import NEEDS, fold_launch, resolve_kernel
from cutlass_tuner.ops.fmha.problem import mask
from cutlass_tuner.ops.smem import Smem
from cutlass_tuner.records import KernelConfig, LaunchConfig, Readback

GRIDS = ("tiles", "sms")
ORDERS = ("rows", "heavy")
"""In the order of their codes in ct_call.launch."""

FAMILIES = {
    "attention": Family(
        rules=rules.RULES,
        facts=rules.facts,
        resolve=resolve_kernel,
        fold_launch=fold_launch,
        estimate_us=estimate_us,
        given={"head_dim": lambda problem: problem.dims["head_dim"], "mask": mask},
        needs=NEEDS,
    ),
}

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


def kernel_smem(kernel: KernelConfig) -> Smem:
    """Shared memory of an effective kernel; a stage is a tile of K (or of V)."""
    columns = one_row({name: kernel.knobs[name] for name in _SMEM_KNOBS}, _SMEM_KNOBS)
    return Smem(
        stage_bytes=int(smem.stage_bytes(columns)[0]),
        stages=int(columns["stages"][0]),
        total_bytes=int(smem.total_bytes(columns)[0]),
    )


def launch_codes(launch: LaunchConfig) -> tuple[int, ...]:
    """Launch knobs as ct_call.launch wants them: grid, order, section."""
    knobs = launch.knobs
    return GRIDS.index(str(knobs["grid"])), ORDERS.index(str(knobs["order"])), int(knobs["section"])


def ran_otherwise(kernel: KernelConfig, launch: LaunchConfig, back: Readback) -> str:
    """What ran that was not asked, "" where all is as asked. `kernel` and `launch` in effective form.

    A section is read back as swizzle; of example 88, which has none, it is None and says nothing.
    """
    pairs: list[tuple[str, object, object]] = [
        ("stages", kernel.knobs["stages"], back.stages),
        ("cluster", (kernel.knobs["cluster_m"], 1, 1), back.cluster),
        ("section", launch.knobs["section"], back.swizzle),
    ]
    wrong = [
        f"{name} {ran} ran where {want} was asked" for name, want, ran in pairs if ran not in (None, want)
    ]
    return "; ".join(wrong)


def deterministic(launch: LaunchConfig) -> bool:
    """Always: no two CTAs add to one result."""
    return True
