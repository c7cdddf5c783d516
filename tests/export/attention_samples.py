"""Attention kernels of both templates, as emitted, and problems they were tuned for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.export.attention import write
from cutlass_tuner.export.tuned import Tuned
from cutlass_tuner.export.unit import Exported
from cutlass_tuner.ops import registry
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.pipeline import export_attention
from cutlass_tuner.records import Config, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space
from cutlass_tuner.verify.tolerance import tolerance
from export.samples import PROVENANCE

OP = registry.op("fmha")
SPACE = Space.of("fmha", "sm_90a")
DEVICE = OP.nominal_device("sm_90a")


def kernel(**knobs: Scalar) -> KernelConfig:
    default: dict[str, Scalar] = {"template": "flash", "mask": "causal", "head_dim": 64, "tile_q": 128}
    size: dict[str, Scalar] = {"tile_kv": 64, "groups": 2, "stages": 2}
    return SPACE.effective(SPACE.kernel(**{**default, **size, **knobs}), DEVICE)


CAUSAL = kernel()
FULL = kernel(mask="full")
EXAMPLE = kernel(
    template="example88",
    mask="full",
    schedule="cooperative",
    tile_kv=64,
    stages=3,
    q_stages=2,
    persistent=True,
)


def problem(*extents: int, layout: str = "bshd", count: int = 1, op: Op = OP, name: str = "") -> Problem:
    return op.problem(extents, layout).model_copy(update={"count": count, "name": name})


def tuned(
    shape: Problem,
    config: KernelConfig,
    time_us: float = 10.0,
    *,
    torch: float | None = 1.1,
    best: float | None = 1.05,
    codes: tuple[int, ...] = (0, 0, 1),
) -> Tuned:
    knobs: dict[str, Scalar] = {"grid": ("tiles", "sms")[codes[0]], "order": ("rows", "heavy")[codes[1]]}
    launch = SPACE.launch(**knobs, section=codes[2])
    beats = torch is not None and all(ratio is None or ratio > 1.0 for ratio in (torch, best))
    return Tuned(
        shape,
        Config(kernel=config, launch=launch),
        codes,
        time_us,
        torch,
        beats_baselines=beats,
        speedup_best=best,
        best_baseline="cudnn" if best else "",
    )


@dataclass
class AttentionWriter:
    """`write` with the arguments that no test varies."""

    out_dir: Path
    op: Op = OP

    def __call__(self, entries: list[Tuned], **options: object) -> Exported:
        kernels = {entry.kernel_key: entry.config.kernel for entry in entries}
        arguments: dict[str, object] = {
            "kernels": {key: export_attention.text(one, self.op) for key, one in kernels.items()},
            "headers": export_attention.headers(),
            "provenance": PROVENANCE,
            "tolerance": tolerance(self.op.contract),
            "out_dir": self.out_dir,
        }
        return write(entries, **{**arguments, **options})  # type: ignore[arg-type]


GROUPED = problem(2, 8, 2, 130, 1000, 64, 0)
SQUARE = problem(1, 4, 4, 257, 257, 64, 1, name="prefill")
TOP_LEFT = problem(2, 2, 2, 300, 190, 64, 2, layout="bhsd")
CHUNKED = problem(1, 8, 1, 100, 700, 64, 1)
FOUR = [
    tuned(CHUNKED, CAUSAL, 12.5, codes=(1, 1, 4)),
    tuned(GROUPED, FULL, 20.25, torch=0.9, best=0.8),
    tuned(SQUARE, CAUSAL, 5.0, torch=None, best=None),
    tuned(TOP_LEFT, CAUSAL, 7.0),
]
