"""Attention's evidence, against kernels modelled on a CPU: honest ones pass, each cheat is caught."""

from __future__ import annotations

import math

import pytest
import torch

from cutlass_tuner.device import attention_reference
from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.attention_operands import Operands, Shape
from cutlass_tuner.device.attention_reference import answer, blocks, corner_blocks
from cutlass_tuner.verify.judge import judge

from .flash_model import Flash, cubic_exp2, to
from .problems import SMALL, contract, each_element, each_layout, each_small, problem, seen, seen_of, workload

LN2 = math.log(2)

HONEST = {
    "plain": Flash(),
    "backwards": Flash(backwards=True, tile_kv=48),
    "stale_maximum": Flash(stale=8.0, tile_kv=32),
    "polynomial_exp2": Flash(exp2=cubic_exp2),
    "wide_tile": Flash(tile_kv=256),
}

CHEATS = {
    "accumulates_in_fp16": Flash(accumulator=to(torch.float16)),
    "scores_in_fp16": Flash(s=to(torch.float16)),
    "softmax_in_fp8": Flash(p=to(torch.float8_e4m3fn)),
    "one_key_of_zeros_too_many": Flash(zeros=1),
    "a_tile_of_zeros_too_many": Flash(zeros=28),
    "lse_in_base_2": Flash(lse=lambda top, total, _: top + total.log2()),
    "lse_without_logarithm": Flash(lse=lambda top, total, _: top * LN2 + total),
    "lse_of_unscaled_scores": Flash(lse=lambda top, total, scale: top * LN2 / scale + total.log()),
    "lse_without_sum": Flash(lse=lambda top, _total, _: top * LN2),
}
"""Wrong for every mask."""


@pytest.mark.parametrize("flash", HONEST.values(), ids=HONEST)
@each_element
@each_small
def test_honest_kernels_pass_with_room(dims: tuple[int, ...], element: str, flash: Flash) -> None:
    evidence = seen_of(workload(dims, element=element), flash)
    assert judge(evidence, deterministic=True).reasons == ()
    assert evidence.error_over_bound < 0.75
    assert evidence.elements == dims[0] * dims[1] * dims[3] * (dims[5] + 1)
    assert (evidence.nonfinite, evidence.unwritten, evidence.guard_touched) == (0, 0, 0)


@pytest.mark.parametrize("flash", CHEATS.values(), ids=CHEATS)
@each_element
@pytest.mark.parametrize("mask", ["full", "bottom_right", "square", "wide"])
def test_each_cheat_fails(mask: str, element: str, flash: Flash) -> None:
    assert not judge(seen_of(workload(SMALL[mask], element=element), flash), deterministic=True).passed


@pytest.mark.parametrize("dims", [(1, 2, 2, 64, 512, 64, 0), (1, 1, 1, 32, 4096, 128, 0)])
def test_bf16_softmax_under_an_fp16_contract_fails(dims: tuple[int, ...]) -> None:
    evidence = seen_of(workload(dims), Flash(p=to(torch.bfloat16)))
    assert evidence.error_over_bound > 1.3
    assert evidence.exact_mismatches == 0  # 1 and 0 are exact in any type: only the bound tells


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_a_key_too_many_or_too_few_among_thousands_shows(element: str) -> None:
    """Random inputs hide it behind the rounding of P; the counting probe's LSE does not."""
    tall = workload((1, 1, 1, 4, 8192, 64, 1), element=element)
    for keys in (1, -1):
        evidence = seen_of(tall, Flash(more_keys=keys, tile_kv=1024))
        assert evidence.exact_mismatches >= 3  # the LSE of each row that has such a key


@each_element
@pytest.mark.parametrize("mask", ["bottom_right", "top_left", "square", "empty_rows", "wide"])
@pytest.mark.parametrize("keys", [1, -1])
def test_a_causal_mask_off_by_one_fails(mask: str, element: str, keys: int) -> None:
    evidence = seen_of(workload(SMALL[mask], element=element), Flash(more_keys=keys))
    assert evidence.error_over_bound > 10
    assert evidence.exact_mismatches > 0


@pytest.mark.parametrize("other", ["full", "bottom_right", "top_left"])
@pytest.mark.parametrize("mask", [0, 1, 2])
def test_a_kernel_for_another_mask_fails(mask: int, other: str) -> None:
    asked = workload((1, 2, 2, 60, 100, 64, mask))
    causal = {"full": 0, "bottom_right": 1, "top_left": 2}[other]
    theirs = Shape.of(problem((1, 2, 2, 60, 100, 64, causal)))
    evidence = seen(asked, lambda operands, scale: Flash().run(theirs, operands, scale))
    assert judge(evidence, deterministic=True).passed == (causal == mask)
    assert (evidence.exact_mismatches > 0) == (causal != mask)


def test_a_wrong_map_of_grouped_heads_fails() -> None:
    grouped = workload((1, 6, 2, 50, 90, 64, 0))
    assert judge(seen_of(grouped, Flash()), deterministic=True).passed
    evidence = seen_of(grouped, Flash(kv_head=lambda head, shape: head % shape.heads_kv))
    assert evidence.error_over_bound > 1
    assert evidence.exact_mismatches > 0


@each_layout
def test_a_kernel_for_the_other_layout_fails(layout: str) -> None:
    asked = workload((2, 3, 3, 20, 20, 32, 0), layout)
    assert judge(seen_of(asked, Flash()), deterministic=True).passed

    def elsewhere(operands: Operands, scale: float) -> None:
        four = (misread(t, layout) for t in (operands.q, operands.k, operands.v, operands.o))
        Flash().run(asked.shape, Operands(*four, operands.lse), scale)

    evidence = seen(asked, elsewhere)
    assert evidence.error_over_bound > 1
    assert evidence.exact_mismatches > 0


def misread(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The memory of a tensor of this layout through the strides of the other one."""
    _, heads, seq, dim = tensor.shape
    inner = (seq * dim, dim) if layout == "bshd" else (dim, heads * dim)
    return tensor.as_strided(tensor.shape, (heads * seq * dim, *inner, 1), tensor.storage_offset())


def test_a_missing_tile_and_a_write_outside_are_seen() -> None:
    asked = workload(SMALL["full"])

    def short(operands: Operands, scale: float) -> None:
        kept = operands.o[:, :, 32:].clone(), operands.lse[:, :, 32:].clone()
        Flash().run(asked.shape, operands, scale)
        operands.o[:, :, 32:], operands.lse[:, :, 32:] = kept

    evidence = seen(asked, short, repeat=False)
    assert evidence.unwritten == 2 * 2 * 8 * (64 + 1)
    assert evidence.nonfinite == 0
    assert math.isnan(evidence.error_over_bound)
    assert evidence.repeat_mismatches is None

    def outside(operands: Operands, scale: float) -> None:
        Flash().run(asked.shape, operands, scale)
        operands.lse.as_strided((2,), (1,), operands.lse.storage_offset() + operands.lse.numel()).fill_(0.0)

    evidence = seen(asked, outside)
    assert evidence.guard_touched == 2
    assert evidence.error_over_bound < 1


def test_launches_that_differ_are_seen() -> None:
    asked, launches = workload(SMALL["full"]), []

    def racing(operands: Operands, scale: float) -> None:
        Flash(tile_kv=64 if len(launches) % 2 else 32).run(asked.shape, operands, scale)
        launches.append(scale)

    assert (seen(asked, racing).repeat_mismatches or 0) > 0


@pytest.mark.parametrize(
    ("o", "lse", "finite"), [(0.0, -math.inf, True), (0.0, math.inf, False), (math.nan, -math.inf, False)]
)
def test_rows_without_keys_are_zero_and_minus_infinity(o: float, lse: float, finite: bool) -> None:
    asked = workload(SMALL["empty_rows"])

    def run(operands: Operands, scale: float) -> None:
        Flash().run(asked.shape, operands, scale)
        operands.o[:, :, :40], operands.lse[:, :, :40] = o, lse

    evidence = seen(asked, run)
    assert judge(evidence, deterministic=True).passed == finite
    assert (evidence.nonfinite == 0) == finite
    assert (evidence.exact_mismatches == 0) == finite


def test_a_baseline_owes_o_only() -> None:
    asked = workload(SMALL["bottom_right"])

    def without_lse(operands: Operands, scale: float) -> None:
        kept = operands.lse.clone()
        Flash().run(asked.shape, operands, scale)
        operands.lse.copy_(kept)

    evidence = seen(asked, without_lse, every_output=False)
    assert judge(evidence, deterministic=True).passed
    assert evidence.elements == asked.sets[0].o.numel()
    assert not judge(seen(asked, without_lse), deterministic=True).passed
    without_lse(asked.sets[0], asked.scalar)
    assert asked.out_of_bound(every_output=False) == 0


def test_every_set_of_a_ring_can_be_checked() -> None:
    """As the contest does after timing: of the first and of the last set."""
    ring = workload((1, 2, 2, 33, 65, 32, 1), cold=True)
    last = len(ring.sets) - 1
    assert last > 2
    assert len({operands.pointers for operands in ring.sets}) == last + 1
    for index in (0, last):
        ring.poison(index)
        assert ring.out_of_bound_of(index) == 2 * 33 * (32 + 1)
        Flash().run(ring.shape, ring.sets[index], ring.scalar)
        assert ring.out_of_bound_of(index) == 0
        assert ring.guard_touched(index) == 0
    assert ring.out_of_bound() == 0
    ring.sets[0].o[0, 0, 0, 0] += 1.0
    ring.sets[0].lse[0, 1, 2] = math.nan
    assert (ring.out_of_bound(), ring.out_of_bound(every_output=False)) == (2, 1)


# --- the reference itself


@each_layout
@each_small
def test_the_reference_is_attention(dims: tuple[int, ...], layout: str) -> None:
    """Against the definition, written with a mask in memory and torch's own softmax."""
    asked = workload(dims, layout)
    shape, operands = asked.shape, asked.sets[0]
    q, k, v = operands.q.double(), operands.k.double(), operands.v.double()
    k, v = (t.repeat_interleave(shape.group, 1) for t in (k, v))
    row, key = torch.arange(dims[3])[:, None], torch.arange(dims[4])
    everything = torch.ones(dims[3], dims[4], dtype=torch.bool)
    mask = [everything, key <= row + dims[4] - dims[3], key <= row][dims[6]]
    scores = (q @ k.mT * asked.scalar).masked_fill(~mask, -math.inf)
    right, lse = scores.softmax(-1).nan_to_num(0.0) @ v, scores.logsumexp(-1)
    for block in blocks(shape):
        part = answer(shape, operands, asked.scalar, asked._tolerance, block)
        torch.testing.assert_close(part.o, block.of(right, shape), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(part.lse, block.of(lse, shape), rtol=1e-12, atol=1e-12)


def test_blocks_cover_every_row_once_and_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    dims = (2, 6, 3, 50, 40, 32, 1)
    whole = workload(dims)._answer
    monkeypatch.setattr(attention_reference, "SCORES_AT_ONCE", 40 * 2 * 7)
    asked = workload(dims)
    shape, times = asked.shape, torch.zeros(2, 6, 50)
    for block in blocks(shape):
        part = block.of(times, shape)
        assert part.numel() * 40 <= 40 * 2 * 7
        part += 1
    assert bool((times == 1).all())
    for name, tensor in vars(asked._answer).items():
        torch.testing.assert_close(tensor, getattr(whole, name), msg=name)


def test_corners_are_the_first_and_last_heads() -> None:
    shape = workload((3, 8, 4, 10, 10, 32, 0)).shape
    times = torch.zeros(3, 8, 10)
    for block in corner_blocks(shape):
        block.of(times, shape).add_(1)
    assert times[:, :, 0].nonzero().tolist() == [[b, h] for b in (0, 2) for h in (0, 1, 6, 7)]
    assert float(times.max()) == 1


@pytest.mark.parametrize(
    ("mask", "rows", "keys", "seen_keys"),
    [
        (0, 3, 5, [5, 5, 5]),
        (1, 3, 5, [3, 4, 5]),
        (1, 5, 3, [0, 0, 1, 2, 3]),
        (2, 5, 3, [1, 2, 3, 3, 3]),
        (2, 3, 5, [1, 2, 3]),
    ],
)
def test_which_keys_a_row_sees(mask: int, rows: int, keys: int, seen_keys: list[int]) -> None:
    shape = Shape.of(problem((2, 3, 1, rows, keys, 32, mask)))
    assert shape.visible().tolist() == seen_keys
    assert shape.flops == 4 * 2 * 3 * 32 * sum(seen_keys)
    assert shape.dims == (2, 3, 1, rows, keys, 32, mask, 0)


def test_the_layout_is_the_last_of_the_abi_s_dims_and_of_the_strides() -> None:
    by_layout = {name: workload((1, 3, 1, 5, 7, 32, 0), name) for name in ("bshd", "bhsd")}
    assert [each.dims[-1] for each in by_layout.values()] == [0, 1]
    strides = [each.sets[0].q.stride()[1:3] for each in by_layout.values()]
    assert strides == [(32, 3 * 32), (5 * 32, 32)]
    assert all(each.sets[0].lse.is_contiguous() for each in by_layout.values())


def test_inputs_depend_on_the_seed_alone() -> None:
    def first(seed: int) -> torch.Tensor:
        held = workload(SMALL["full"])._tolerance
        return Attention(problem(SMALL["full"]), held, "warm", 1, seed, device="cpu").sets[0].q

    assert torch.equal(first(3), first(3))
    assert not torch.equal(first(3), first(4))


def test_the_scale_is_the_fp32_that_the_abi_carries() -> None:
    scale = workload((1, 1, 1, 2, 2, 128, 0)).scalar
    assert scale != 128**-0.5
    assert scale == float(torch.tensor(128**-0.5))
    assert contract("f16").elements["lse"] == "f32"
