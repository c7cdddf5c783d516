"""Small attention problems and their workloads on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.attention_operands import Operands
from cutlass_tuner.records import Contract, Evidence, Problem
from cutlass_tuner.verify.tolerance import tolerance

from .flash_model import Flash

NAMES = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim", "causal")
L2 = 1 << 20

SMALL = {
    "full": (2, 2, 2, 40, 100, 64, 0),
    "bottom_right": (1, 4, 2, 50, 130, 64, 1),
    "top_left": (1, 2, 1, 90, 77, 32, 2),
    "square": (2, 4, 1, 97, 97, 32, 1),
    "empty_rows": (1, 2, 2, 90, 50, 64, 1),
    "one_key": (1, 2, 1, 3, 1, 128, 0),
    "wide": (1, 1, 1, 33, 200, 256, 1),
}
"""Ragged lengths throughout; in `empty_rows` the first 40 rows see no key."""

Run = Callable[[Operands, float], object]


def contract(element: str) -> Contract:
    return Contract(elements={**dict.fromkeys("qkvo", element), "lse": "f32"}, accumulator="f32")


def problem(dims: tuple[int, ...], layout: str = "bshd", element: str = "f16") -> Problem:
    named = dict(zip(NAMES, dims, strict=True))
    return Problem(op="fmha", dims=named, layout=layout, contract=contract(element))


def workload(
    dims: tuple[int, ...], layout: str = "bshd", element: str = "f16", *, cold: bool = False
) -> Attention:
    held = tolerance(contract(element))
    l2 = "cold" if cold else "warm"
    return Attention(problem(dims, layout, element), held, l2, L2, seed=1, device="cpu")


def seen(workload: Attention, run: Run, *, repeat: bool = True, every_output: bool = True) -> Evidence:
    """What the child sees of a kernel: a function that writes the outputs of an operand set."""
    probing = [lambda probe=probe: run(probe.operands, probe.scalar) for probe in workload.probes]
    return workload.evidence(
        lambda: run(workload.sets[0], workload.scalar), probing, repeat, every_output=every_output
    )


def seen_of(workload: Attention, flash: Flash) -> Evidence:
    return seen(workload, lambda operands, scale: flash.run(workload.shape, operands, scale))


each_small = pytest.mark.parametrize("dims", SMALL.values(), ids=SMALL)
each_element = pytest.mark.parametrize("element", ["f16", "bf16"])
each_layout = pytest.mark.parametrize("layout", ["bshd", "bhsd"])
