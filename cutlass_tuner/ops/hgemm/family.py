"""The families of hgemm kernels, and how their launch knobs travel in the host library's ABI."""

from __future__ import annotations

from cutlass_tuner.abi import DECOMPOSITIONS, RASTERS, REDUCTIONS
from cutlass_tuner.ops.columns import Alphabet, one_row
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.hgemm import rules, smem
from cutlass_tuner.ops.hgemm.estimate import estimate_us
from cutlass_tuner.ops.hgemm.fold import fold_launch, resolve_kernel
from cutlass_tuner.ops.smem import Smem
from cutlass_tuner.records import KernelConfig, LaunchConfig, Readback

FAMILIES = {
    "tma_ws": Family(
        rules=rules.RULES,
        facts=rules.facts,
        resolve=resolve_kernel,
        fold_launch=fold_launch,
        estimate_us=estimate_us,
        given={"layout": lambda problem: problem.layout},
    ),
}

_SMEM_KNOBS = {
    "tile_m": Alphabet(),
    "tile_n": Alphabet(),
    "tile_k": Alphabet(),
    "stages": Alphabet(),
    "schedule": Alphabet(("plain", "pingpong", "cooperative")),
    "epilogue": Alphabet(("tma", "nosmem")),
    "swap_ab": Alphabet(boolean=True),
}


def kernel_smem(kernel: KernelConfig) -> Smem:
    """Shared memory of an effective kernel. Raises ValueError where its stages are not a number yet."""
    columns = one_row({name: kernel.knobs[name] for name in _SMEM_KNOBS}, _SMEM_KNOBS)
    parts = smem.layout(columns)
    stages = int(columns["stages"][0])
    return Smem(
        stage_bytes=int(parts.stage[0]), stages=stages, total_bytes=int(smem.total_bytes(parts, stages)[0])
    )


def launch_codes(launch: LaunchConfig) -> tuple[int, ...]:
    """Launch knobs as abi.h's ct_call.launch wants them."""
    knobs = launch.knobs
    return (
        int(knobs["swizzle"]),
        RASTERS.index(str(knobs["raster"])),
        int(knobs["splits"]),
        DECOMPOSITIONS.index(str(knobs["decomposition"])),
        REDUCTIONS.index(str(knobs["reduction"])),
    )


def ran_otherwise(kernel: KernelConfig, launch: LaunchConfig, back: Readback) -> str:
    """What ran that was not asked, "" where all is as asked. `kernel` and `launch` in effective form.

    The stream-K scheduler's "heuristic" decomposition may choose splits of its own; a field the
    kernel's scheduler lacks is None and says nothing.
    """
    knobs, asked = kernel.knobs, launch.knobs
    pairs: list[tuple[str, object, object]] = [
        ("stages", knobs["stages"], back.stages),
        ("cluster", (knobs["cluster_m"], knobs["cluster_n"], 1), back.cluster),
        ("swizzle", asked["swizzle"], back.swizzle),
        ("raster", asked["raster"], back.raster),
    ]
    if asked["decomposition"] != "heuristic":
        pairs.append(("splits", asked["splits"], back.splits))
    wrong = [
        f"{name} {ran} ran where {want} was asked" for name, want, ran in pairs if ran not in (None, want)
    ]
    return "; ".join(wrong)


def deterministic(launch: LaunchConfig) -> bool:
    """Whether repeated launches must give the same bits."""
    return launch.knobs["reduction"] == "deterministic"
