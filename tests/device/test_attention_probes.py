"""The exact probes: what they promise of their inputs, checked in integers."""

from __future__ import annotations

import math

import pytest
import torch

from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.attention_counting import LARGEST
from cutlass_tuner.device.attention_operands import Shape
from cutlass_tuner.device.attention_probe import SCALE, Selection

from .flash_model import Flash
from .problems import SMALL, each_element, each_layout, each_small, problem, workload


def scores(asked: Attention) -> torch.Tensor:
    """The selection probe's, exact, (batch, heads_q, seqlen_q, seqlen_kv): -inf where a key is hidden."""
    operands, shape = asked.probes[0].operands, asked.shape
    k = operands.k.double().repeat_interleave(shape.group, 1)
    hidden = torch.arange(shape.seqlen_kv) >= shape.visible()[:, None]
    return (operands.q.double() @ k.mT).masked_fill(hidden, -math.inf)


@each_element
@each_layout
@each_small
def test_each_row_sees_exactly_one_key_of_score_minus_one(
    dims: tuple[int, ...], layout: str, element: str
) -> None:
    """And all others at least 160 powers of two behind, so that exp2 gives 0 in fp32."""
    asked = workload(dims, layout, element)
    found = scores(asked)
    best = found.topk(min(2, found.shape[-1]), -1).values
    sees = asked.shape.visible() > 0
    assert bool((best[:, :, sees, 0] == -1).all())
    if best.shape[-1] > 1:
        assert bool((best[..., 1] <= -3).all())
    assert asked.probes[0].scalar * 2 * math.log2(math.e) > 160
    assert asked.probes[0].scalar * math.log2(math.e) > 80  # to a key of zeros, whose score is 0


def test_a_half_of_the_rows_select_the_last_key_they_see() -> None:
    asked = workload((2, 4, 4, 200, 200, 32, 1))
    chosen, last = scores(asked).argmax(-1), asked.shape.visible() - 1
    share = float((chosen == last)[:, :, 1:].double().mean())
    assert 0.45 < share < 0.6
    assert len(set(chosen.flatten().tolist())) > 150


def test_codes_are_distinct_where_head_dim_barely_holds_the_index() -> None:
    shape = Shape.of(problem((1, 1, 1, 1, 1 << 14, 32, 0)))
    values = torch.zeros(1, 1, 1 << 14, 32, dtype=torch.float16)
    outputs = workload((1, 1, 1, 1, 1, 32, 0)).sets[0]
    held = type(outputs)(outputs.q, outputs.k, values, outputs.o, outputs.lse)
    keys = Selection(shape, held, torch.Generator().manual_seed(0)).probe.operands.k[0, 0]
    assert len(torch.unique(keys, dim=0)) == 1 << 14
    assert bool((keys.abs() == 1).all()) and bool((keys[:, -1] == 1).all())


@each_element
@each_small
def test_an_honest_selection_is_exact_and_one_wrong_element_shows(
    dims: tuple[int, ...], element: str
) -> None:
    asked = workload(dims, element=element)
    selection, operands = asked._selection, asked.probes[0].operands
    Flash(tile_kv=32).run(asked.shape, operands, SCALE)
    assert selection.mismatches(every_output=True) == 0
    last = asked.shape.seqlen_q - 1
    assert float(operands.lse[0, 0, last]) == pytest.approx(-SCALE, rel=1e-6)
    operands.o[0, -1, last, 3] *= 1.01
    assert selection.mismatches(every_output=False) == 1
    operands.lse[0, 0, last] *= 1 + 1e-5
    assert (selection.mismatches(every_output=True), selection.mismatches(every_output=False)) == (2, 1)


def test_zeros_of_either_sign_are_one_answer() -> None:
    asked = workload(SMALL["empty_rows"])
    Flash().run(asked.shape, asked.probes[0].operands, SCALE)
    asked.sets[0].o[:, :, :40] = -0.0
    assert asked._selection.mismatches(every_output=True) == 0


@each_element
@each_small
def test_means_of_integers_are_exact_in_any_order(dims: tuple[int, ...], element: str) -> None:
    asked = workload(dims, element=element)
    probe = asked.probes[1]
    v = probe.operands.v.double()
    assert bool((v == v.round()).all()) and float(v.abs().max()) < LARGEST
    assert bool((probe.operands.q == 0).all())
    for backwards in (False, True):
        asked.poison()
        Flash(tile_kv=48, backwards=backwards).run(asked.shape, probe.operands, probe.scalar)
        assert asked._counting.mismatches(every_output=True) == 0


def test_means_are_counted_batch_entry_by_batch_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload((3, 2, 1, 20, 30, 32, 1))
    Flash().run(asked.shape, asked.probes[1].operands, asked.scalar)
    asked.sets[0].o[2, 1, 5, 7] += 1
    asked.sets[0].lse[1, 0, 0] *= 1.0001
    assert asked._counting.mismatches(every_output=True) == 2
    monkeypatch.setattr("cutlass_tuner.device.attention_counting.ELEMENTS_AT_ONCE", 1)
    assert asked._counting.mismatches(every_output=True) == 2


def test_probes_write_to_set_0_and_leave_its_inputs_alone() -> None:
    asked = workload(SMALL["full"])
    inputs = [tensor.clone() for tensor in (asked.sets[0].q, asked.sets[0].k, asked.sets[0].v)]
    for probe in asked.probes:
        assert probe.operands.pointers[3:] == asked.sets[0].pointers[3:]
        assert probe.operands.q.data_ptr() != asked.sets[0].q.data_ptr()
        assert probe.operands.q.stride() == asked.sets[0].q.stride()
        assert probe.operands.k.stride() == asked.sets[0].k.stride()
        assert probe.operands.v.stride() == asked.sets[0].v.stride()
    kept = (asked.sets[0].q, asked.sets[0].k, asked.sets[0].v)
    assert all(torch.equal(a, b) for a, b in zip(inputs, kept, strict=True))
    large, q = asked.probes[2].operands.q, asked.sets[0].q
    assert torch.equal(large[:, :, 1], 16 * q[:, :, 1]) and torch.equal(large[:, :, 4], 64 * q[:, :, 4])
