"""Attention's baselines: torch's SDPA on a CPU, and stand-ins for the flash-attn packages."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
import torch

from cutlass_tuner.device import sdpa
from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.workload import BaselineRefused, Binding
from cutlass_tuner.wire import BaselineEntry

from .problems import SMALL, each_element, each_layout, each_small, workload


def bound(asked: Attention, name: str, probe: int = 0) -> Binding:
    """A baseline on one of the probes, bound to outputs that hold poison."""
    entry = BaselineEntry(name=name, layout=asked.shape.layout)
    chosen = asked.probes[probe]
    asked.poison()
    return asked.baseline(entry, stream=0).bind(chosen.operands, chosen.scalar)


def mismatches(asked: Attention, name: str) -> int:
    bound(asked, name).run()
    return asked._selection.mismatches(every_output=False)


@pytest.mark.filterwarnings("ignore:Lower right causal bias")
@each_element
@each_layout
@each_small
def test_torch_selects_the_right_values_in_every_layout_and_mask(
    dims: tuple[int, ...], layout: str, element: str
) -> None:
    assert mismatches(workload(dims, layout, element), "torch") == 0


@each_layout
@pytest.mark.parametrize("mask", ["full", "bottom_right", "top_left", "square"])
def test_torch_is_within_the_bound_of_the_reference_once_delivered(mask: str, layout: str) -> None:
    asked = workload(SMALL[mask], layout, "bf16")
    everything = asked.sets[0].o.numel()
    asked.poison()
    binding = asked.baseline(BaselineEntry(name="torch", layout=layout), 0).bind(asked.sets[0], asked.scalar)
    binding.enqueue()
    assert asked.out_of_bound(every_output=False) == everything
    binding.deliver()
    assert asked.out_of_bound(every_output=False) < everything / 100
    assert asked.guard_touched(0) == 0


@each_layout
def test_flash_can_be_forced(layout: str) -> None:
    for mask in ("full", "square"):
        assert mismatches(workload(SMALL[mask], layout), "flash") == 0


def test_a_backend_that_is_not_there_is_refused_in_one_line() -> None:
    for name in ("cudnn", "efficient"):
        with pytest.raises(BaselineRefused) as refused:
            mismatches(workload(SMALL["full"]), name)
        assert str(refused.value) and "\n" not in str(refused.value)


def test_cudnn_is_not_measured_through_a_mask_in_memory() -> None:
    with pytest.raises(BaselineRefused, match="bottom-right"):
        bound(workload(SMALL["bottom_right"]), "cudnn")
    bound(workload(SMALL["square"]), "cudnn")
    bound(workload(SMALL["top_left"]), "cudnn")


def test_unknown_names_are_refused_with_those_known() -> None:
    with pytest.raises(BaselineRefused, match=r"no baseline 'xformers'.*torch, cudnn, flash, efficient"):
        bound(workload(SMALL["full"]), "xformers")


@pytest.mark.parametrize(
    ("dims", "layout"),
    [((2, 6, 2, 5, 7, 32, 0), "bhsd"), ((1, 6, 2, 5, 7, 32, 0), "bshd"), ((3, 4, 1, 5, 7, 32, 0), "bshd")],
)
def test_groups_are_folded_into_views(dims: tuple[int, ...], layout: str) -> None:
    """As the efficient backend gets them; torch's default kernel computes the same of both."""
    asked = workload(dims, layout)
    operands = asked.probes[0].operands
    q, k, v = sdpa.folded(asked.shape, operands.q, operands.k, operands.v)
    assert (q.data_ptr(), k.data_ptr(), v.data_ptr()) == operands.pointers[:3]
    assert k.stride(1) == v.stride(1) == 0
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=asked.probes[0].scalar)
    operands.o.copy_(out.reshape(operands.o.shape))
    assert asked._selection.mismatches(every_output=False) == 0


def test_groups_that_no_view_can_fold_are_refused() -> None:
    with pytest.raises(BaselineRefused, match="bshd with batch 2 cannot be seen"):
        bound(workload((2, 6, 2, 5, 7, 32, 0), "bshd"), "efficient")


def test_each_binding_keeps_its_own_output_until_it_runs_again() -> None:
    made: list[torch.Tensor] = []

    def call() -> torch.Tensor:
        assert binding_of.get("first") is None or first._output is None, "let go of before the next call"
        made.append(torch.full((2, 3), float(len(made))))
        return made[-1]

    binding_of: dict[str, object] = {}
    o = [torch.empty(2, 3), torch.empty(3, 2)]
    first, second = (sdpa.ReturnedOutput(call, each) for each in o)
    first.enqueue()
    second.enqueue()
    binding_of["first"] = first
    first.deliver()
    second.deliver()
    assert [float(each[0, 0]) for each in o] == [0.0, 1.0]
    first.enqueue()
    first.deliver()
    assert [float(each[0, 0]) for each in o] == [2.0, 1.0]


# --- flash-attn packages


def package(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., object]) -> None:
    """A module of this name, and its parents, that have `flash_attn_func`."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:end]))
        module.__path__ = []  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    module.flash_attn_func = function  # type: ignore[attr-defined]


def by_definition(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, softmax_scale: float, causal: bool
) -> torch.Tensor:
    """(batch, seq, heads, head_dim), causal bottom-right, 0 for a row that sees nothing."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (t.transpose(1, 2).double() for t in (q, k, v))
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = q @ k.mT * softmax_scale
    if causal:
        rows, keys = scores.shape[-2:]
        scores.masked_fill_(torch.arange(keys) > torch.arange(rows)[:, None] + keys - rows, -math.inf)
    return (scores.softmax(-1).nan_to_num(0.0) @ v).transpose(1, 2).half()


PACKAGES = {
    "flash-attn-2": "flash_attn",
    "flash-attn-3": "flash_attn_interface",
    "flash-attn-4": "flash_attn.cute.interface",
}


@each_layout
@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("mask", [mask for mask in SMALL if mask != "top_left"])
def test_a_package_gets_its_layout_scale_and_mask(
    monkeypatch: pytest.MonkeyPatch, mask: str, name: str, layout: str
) -> None:
    def with_lse(*tensors: torch.Tensor, **options: float) -> tuple[torch.Tensor, None]:
        return by_definition(*tensors, **options), None

    package(monkeypatch, PACKAGES[name], with_lse if name == "flash-attn-4" else by_definition)
    assert mismatches(workload(SMALL[mask], layout), name) == 0


def test_a_package_aligns_its_mask_bottom_right_only(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "flash_attn", by_definition)
    with pytest.raises(BaselineRefused, match="top-left"):
        bound(workload(SMALL["top_left"]), "flash-attn-2")


def test_a_package_that_is_missing_broken_or_cannot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload(SMALL["full"])
    monkeypatch.setitem(sys.modules, "flash_attn_interface", None)
    with pytest.raises(BaselineRefused, match="flash_attn_interface cannot be imported"):
        bound(asked, "flash-attn-3")
    monkeypatch.setitem(sys.modules, "flash_attn_interface", SimpleNamespace())
    with pytest.raises(BaselineRefused, match="flash_attn_func"):
        bound(asked, "flash-attn-3")

    def refuses(*_: torch.Tensor, **__: float) -> torch.Tensor:
        raise AssertionError("only head_dim 128\nis there")

    package(monkeypatch, "flash_attn_interface", refuses)
    with pytest.raises(BaselineRefused, match=r"^only head_dim 128$"):
        mismatches(asked, "flash-attn-3")
