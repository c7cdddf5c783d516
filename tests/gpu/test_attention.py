"""Attention on the GPU: kernels and baselines are judged right, answers of a wrong mask are not.

Small ragged problems, so that every edge of a tile is somewhere: grouped heads, both layouts, both
alignments of the causal mask, rows that see no key, fp16 and bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from cutlass_tuner.machine import Driver, driver
from cutlass_tuner.ops import registry
from cutlass_tuner.ops.fmha.problem import DIMS
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, Evidence, Problem, Scalar
from cutlass_tuner.results import CONTROL
from cutlass_tuner.space import Space
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.verify.tolerance import tolerance
from cutlass_tuner.wire import BaselineEntry, ContestResult, KernelEntry, Refused, Timed

from .conftest import ROUNDS, SAMPLE_US

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

ARCH = "sm_90a"
OPS = ("fmha", "fmha-bf16")
Knobs = Mapping[str, Scalar]

KERNELS: Mapping[str, Knobs] = {
    "flash_full": {"mask": "full", "head_dim": 64, "tile_q": 128, "tile_kv": 80, "groups": 2},
    "flash_causal": {"mask": "causal", "head_dim": 64, "tile_q": 128, "tile_kv": 64, "groups": 2},
    "flash_plain": {
        **{"mask": "causal", "head_dim": 64, "tile_q": 192, "tile_kv": 64, "groups": 3},
        **{"overlap": False, "pingpong": False, "lazy_rescale": False, "exp_fma": 2},
    },
    "flash_narrow": {
        **{"mask": "full", "head_dim": 64, "tile_q": 256, "tile_kv": 32, "groups": 4, "stages": 4},
        **{"q_stages": 2, "lazy_rescale": False},
    },
    "flash_shared": {
        **{"mask": "causal", "head_dim": 64, "tile_q": 128, "tile_kv": 32, "groups": 2, "stages": 1},
        **{"q_stages": 2, "blocks_per_sm": 2, "overlap": False},
    },
    "flash_32": {
        **{"mask": "causal", "head_dim": 32, "tile_q": 192, "tile_kv": 96, "groups": 3},
        **{"q_stages": 2, "exp_fma": 3},
    },
    "flash_128": {
        **{"mask": "full", "head_dim": 128, "tile_q": 128, "tile_kv": 112, "groups": 2},
        **{"q_stages": 2, "lazy_rescale": False},
    },
    "flash_one_group": {
        "mask": "causal",
        "head_dim": 128,
        "tile_q": 64,
        "tile_kv": 48,
        "groups": 1,
        "stages": 1,
    },
    "flash_256": {"mask": "causal", "head_dim": 256, "tile_q": 128, "tile_kv": 64, "groups": 2},
    "cooperative": {
        **{"template": "example88", "mask": "causal", "head_dim": 64, "tile_q": 128, "tile_kv": 96},
        **{"groups": 2, "stages": 4},
    },
    "persistent": {
        **{"template": "example88", "mask": "full", "head_dim": 128, "tile_q": 128, "tile_kv": 64},
        **{"groups": 2, "stages": 4, "persistent": True, "separate_q": True},
    },
    "tma_cluster": {
        **{"template": "example88", "mask": "causal", "head_dim": 64, "tile_q": 64, "tile_kv": 64},
        **{"groups": 1, "stages": 4, "schedule": "tma", "cluster_m": 2},
    },
}
PROBLEMS: Mapping[str, tuple[int, ...]] = {
    "full": (2, 4, 4, 200, 333, 64, 0),
    "grouped": (2, 8, 2, 130, 1000, 64, 0),
    "square": (2, 4, 4, 257, 257, 64, 1),
    "bottom_right": (1, 8, 1, 100, 700, 64, 1),
    "top_left": (2, 2, 2, 300, 190, 64, 2),
    "rows_without_keys": (1, 4, 2, 400, 170, 64, 1),
    "long_rows": (1, 2, 1, 256, 20_000, 64, 0),
}
LAUNCHES: tuple[Knobs, ...] = ({}, {"grid": "sms", "order": "heavy", "section": 2})
BASELINES = (CONTROL, "cudnn", "flash", "efficient", "flash-attn-2", "flash-attn-3", "flash-attn-4")


@dataclass(frozen=True)
class Lab:
    """One op's child and its kernels, by name."""

    bench: Bench
    space: Space
    builds: Mapping[str, Build]

    def problem(self, name: str, layout: str, head_dim: int = 64) -> Problem:
        extents = list(PROBLEMS[name])
        extents[DIMS.index("head_dim")] = head_dim
        return self.bench.op.problem(extents, layout)

    def refuses(self, name: str, problem: Problem) -> bool:
        device = self.bench.describe().device
        return bool(self.space.check(self.builds[name].kernel, None, problem, device).illegal)

    def outcome(
        self, problem: Problem, entry: KernelEntry | BaselineEntry, reference: str = "torch"
    ) -> Timed | Refused:
        beside = BaselineEntry(name=reference, layout=problem.layout)
        result = self.bench.contest(problem, [beside, entry], ROUNDS, sample_us=SAMPLE_US, check_after=True)
        assert isinstance(result, ContestResult), result
        return result.entries[1]

    def kernel_entry(self, name: str, launch: Knobs, problem: Problem) -> KernelEntry:
        build = self.builds[name]
        device = self.bench.describe().device
        asked = self.space.launch(**launch)
        effective = self.space.effective_launch(build.kernel, asked, problem, device)
        return self.bench.kernel_entry(build, effective)


def _lab(name: str, folder: Path, stack: ExitStack) -> Lab:
    op, space, tools = registry.op(name), Space.of(name, ARCH), setup.toolchain(ToolchainOptions())
    device = op.nominal_device(ARCH)
    kernels = [space.effective(space.kernel(**knobs), device) for knobs in KERNELS.values()]
    builder = setup.builder(tools, ARCH, op, ToolchainOptions())
    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda kernel: builder.build([kernel], Event()), kernels))
    builds = {}
    for knobs, (outcome,) in zip(KERNELS, outcomes, strict=True):
        assert isinstance(outcome, Build), outcome
        builds[knobs] = outcome
    found = driver()
    assert isinstance(found, Driver), found
    gpu = next(each.index for each in found.gpus if each.arch == "sm_90")
    bench = stack.enter_context(Bench(op, "cold", gpu, folder / f"{name}.log"))
    return Lab(bench, space, builds)


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """An op's lab, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("attention"), dict[str, Lab]()
    with ExitStack() as stack:

        def lab(name: str) -> Lab:
            if name not in made:
                made[name] = _lab(name, folder, stack)
            return made[name]

        yield lab


def reasons(evidence: Evidence, *, deterministic: bool) -> tuple[str, ...]:
    verdict = judge(evidence, deterministic)
    print(f"{verdict.reasons or 'right'}, error {evidence.error_over_bound:.3g} of the bound", flush=True)
    return verdict.reasons


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("op_name", OPS)
def test_kernels_are_right(labs: Callable[[str], Lab], op_name: str, problem: str, layout: str) -> None:
    lab = labs(op_name)
    mask = "causal" if PROBLEMS[problem][-1] else "full"
    tried = 0
    for name in (name for name, knobs in KERNELS.items() if knobs["mask"] == mask):
        asked = lab.problem(problem, layout, int(KERNELS[name]["head_dim"]))
        if lab.refuses(name, asked):
            assert not name.startswith("flash"), f"{name} should serve {problem}"
            continue
        tried += 1
        for launch in LAUNCHES:
            outcome = lab.outcome(asked, lab.kernel_entry(name, launch, asked))
            assert isinstance(outcome, Timed), f"{name}: {outcome}"
            assert reasons(outcome.evidence, deterministic=True) == (), name
            assert outcome.evidence.after_timing_mismatches == 0
            rows = asked.dims["batch"] * asked.dims["heads_q"] * asked.dims["seqlen_q"]
            assert outcome.evidence.elements == rows * (asked.dims["head_dim"] + 1)
    assert tried >= 3


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name != "rows_without_keys"])
@pytest.mark.parametrize("op_name", OPS)
def test_baselines_are_right_or_refuse(
    labs: Callable[[str], Lab], op_name: str, problem: str, layout: str
) -> None:
    """Held to the bound, as in a final; the exact probes are for kernels of ours."""
    lab, timed = labs(op_name), set()
    asked = lab.problem(problem, layout)
    for name in BASELINES:
        outcome = lab.outcome(asked, BaselineEntry(name=name, layout=layout))
        if isinstance(outcome, Refused):
            print(f"{name}: {outcome.failure.reason}", flush=True)
            assert outcome.failure.reason and "\n" not in outcome.failure.reason
            continue
        timed.add(name)
        assert len(outcome.samples_us) == ROUNDS
        evidence = outcome.evidence.model_copy(update={"exact_mismatches": 0})
        assert reasons(evidence, deterministic=False) == (), name
        assert evidence.after_timing_mismatches == 0
    assert CONTROL in timed
    if problem in ("full", "square"):
        assert {"cudnn", "flash", "efficient"} <= timed


def test_a_kernel_of_another_mask_is_refused_or_wrong(labs: Callable[[str], Lab]) -> None:
    lab = labs("fmha")
    asked = lab.problem("square", "bshd")
    outcome = lab.outcome(asked, lab.kernel_entry("flash_full", {}, asked))
    if isinstance(outcome, Timed):
        assert reasons(outcome.evidence, deterministic=True) != ()


@pytest.mark.parametrize("computed", ["full", "bottom_right", "top_left"])
@pytest.mark.parametrize("asked", ["full", "bottom_right", "top_left"])
def test_answers_of_another_mask_are_wrong(asked: str, computed: str) -> None:
    """torch's own answers, with the mask asked for and with others, through the evidence of a contest."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from cutlass_tuner.device.attention import Attention
    from cutlass_tuner.device.attention_operands import Operands

    op = registry.op("fmha-bf16")
    masks = {"full": 0, "bottom_right": 1, "top_left": 2}
    problem = op.problem((2, 4, 2, 100, 300, 64, masks[asked]), "bshd")
    workload = Attention(problem, tolerance(op.contract), "warm", 50 << 20, 0)
    row, key = torch.arange(100, device="cuda")[:, None], torch.arange(300, device="cuda")
    everything = torch.ones(100, 300, dtype=torch.bool, device="cuda")
    mask = {"full": everything, "bottom_right": key <= row + 200, "top_left": key <= row}[computed]

    def run(operands: Operands, scale: float) -> None:
        with sdpa_kernel([SDPBackend.MATH]):
            # In fp32: what torch's unfused path rounds of bf16 scores is not at issue.
            q, k, v = (t.float() for t in (operands.q, operands.k, operands.v))
            operands.o.copy_(
                torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=mask, scale=scale, enable_gqa=True
                )
            )

    probing = [lambda probe=probe: run(probe.operands, probe.scalar) for probe in workload.probes]
    evidence = workload.evidence(
        lambda: run(workload.sets[0], workload.scalar), probing, repeat=False, every_output=False
    )
    assert (reasons(evidence, deterministic=False) == ()) == (asked == computed)
    assert (evidence.exact_mismatches == 0) == (asked == computed)
    assert (evidence.error_over_bound <= 1) == (asked == computed)
