"""Launch knobs in the ABI, and what ran against what was asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import KernelConfig, LaunchConfig, Readback

FMHA = op("fmha")
LAUNCH = LaunchConfig(knobs={"grid": "sms", "order": "heavy", "section": 8})
BACK = Readback(
    grid=(132, 1, 1),
    cluster=(1, 1, 1),
    threads=384,
    smem_bytes=1,
    stages=2,
    workspace_bytes=0,
    zeroed_bytes=0,
    swizzle=8,
)


def test_codes_are_the_abis() -> None:
    assert FMHA.launch_codes(LAUNCH) == (1, 1, 8)
    rows = LaunchConfig(knobs={"grid": "tiles", "order": "rows", "section": 1})
    assert FMHA.launch_codes(rows) == (0, 0, 1)
    assert FMHA.deterministic(rows)


@pytest.mark.parametrize(
    ("field", "value", "called"),
    [("stages", 3, "stages"), ("cluster", (2, 1, 1), "cluster"), ("swizzle", 4, "section")],
)
def test_a_difference_is_named(
    kernel: Callable[..., KernelConfig], field: str, value: object, called: str
) -> None:
    assert FMHA.ran_otherwise(kernel(), LAUNCH, BACK) == ""
    wrong = FMHA.ran_otherwise(kernel(), LAUNCH, BACK.model_copy(update={field: value}))
    assert wrong.startswith(f"{called} {value} ran where")


def test_a_kernel_without_sections_says_nothing(kernel: Callable[..., KernelConfig]) -> None:
    assert FMHA.ran_otherwise(kernel(), LAUNCH, BACK.model_copy(update={"swizzle": None})) == ""


def test_both_ops_share_everything_but_the_contract() -> None:
    brain = op("fmha-bf16")
    assert brain.families is FMHA.families and brain.spaces == FMHA.spaces
    assert (
        brain.dims
        == FMHA.dims
        == ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim", "causal")
    )
    assert FMHA.baselines[0] == brain.baselines[0] == "torch"
    assert FMHA.contract != brain.contract
    assert FMHA.notes.read_text()
