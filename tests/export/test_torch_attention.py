"""The PyTorch op of exported attention kernels without a GPU: dispatch, masks, compilers, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from export.attention_samples import CAUSAL, FULL, AttentionWriter, kernel, problem, tuned
from export.torch_modules import OnCpu, load, module_file, normal, on_cpu

TOP_LEFT = kernel(mask="causal", tile_kv=80)
PROBLEMS = {
    "full": ((2, 4, 2, 24, 40, 64, 0), "bshd", False),
    "square": ((1, 4, 4, 33, 33, 64, 1), "bshd", True),
    "bottom_right": ((1, 8, 1, 20, 50, 64, 1), "bhsd", "bottom_right"),
    "top_left": ((2, 2, 2, 40, 30, 64, 2), "bshd", "top_left"),
    "rows_without_keys": ((1, 4, 2, 40, 17, 64, 1), "bshd", "bottom_right"),
}
SLOWER = (1, 2, 2, 8, 8, 64, 0)
"""A problem on which torch was measured to be faster."""
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCpu]:
    entries = [
        tuned(problem(*dims, layout=layout), CAUSAL if dims[6] else FULL)
        for dims, layout, _ in PROBLEMS.values()
    ]
    entries.append(tuned(problem(*SLOWER), FULL, torch=0.99))
    write = AttentionWriter(tmp_path_factory.mktemp("attention"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        yield on_cpu(write(entries, torch=True, name="cpu_attention"))


def operands(dims: tuple[int, ...], layout: str) -> tuple[torch.Tensor, ...]:
    batch, heads, heads_kv, rows, keys, dim, _ = dims
    shapes = ((heads, rows), (heads_kv, keys), (heads_kv, keys))
    return tuple(
        normal(batch, *(pair if layout == "bhsd" else pair[::-1]), dim, seed=seed)
        for seed, pair in enumerate(shapes)
    )


def reference(dims: tuple[int, ...], layout: str, *qkv: torch.Tensor, scale: float | None = None) -> Any:
    """(o, lse) in fp32 by the definition."""
    q, k, v = (x.float() if layout == "bhsd" else x.float().transpose(1, 2) for x in qkv)
    k, v = (x.repeat_interleave(dims[1] // dims[2], dim=1) for x in (k, v))
    scores = q @ k.mT * (dims[5] ** -0.5 if scale is None else scale)
    row, key = torch.arange(dims[3])[:, None], torch.arange(dims[4])
    diagonal = {0: dims[4], 1: dims[4] - dims[3], 2: 0}[dims[6]]
    scores = scores.masked_fill(key > row + diagonal, -math.inf)
    o = scores.softmax(-1).nan_to_num() @ v
    return (o if layout == "bhsd" else o.transpose(1, 2)), scores.logsumexp(-1)


def close(found: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(found.float(), right.float(), atol=4e-3, rtol=4e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_tuned_problem_goes_to_the_kernel(ours: OnCpu, name: str) -> None:
    dims, layout, causal = PROBLEMS[name]
    qkv = operands(dims, layout)
    before = ours.calls()
    o, lse = ours.module.attention(*qkv, causal=causal, layout=layout, return_lse=True)
    assert ours.calls() == before + 1
    right, right_lse = reference(dims, layout, *qkv)
    close(o, right)
    close(lse, right_lse)
    assert (o.shape, o.dtype, o.stride()) == (qkv[0].shape, torch.float16, qkv[0].stride())
    assert (lse.shape, lse.dtype) == ((dims[0], dims[1], dims[3]), torch.float32)
    assert bool((lse == -math.inf).any()) == (name == "rows_without_keys")


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_not_tuned_goes_to_torch_with_the_same_answer(ours: OnCpu, name: str) -> None:
    dims, layout, causal = PROBLEMS[name]
    dims = (dims[0] + 1, *dims[1:])
    qkv = operands(dims, layout)
    before = ours.calls()
    o, lse = ours.module.attention(*qkv, causal=causal, layout=layout, return_lse=True)
    assert ours.calls() == before
    right, right_lse = reference(dims, layout, *qkv)
    close(o, right)
    close(lse, right_lse)


def test_the_scale_reaches_the_kernel_and_torch(ours: OnCpu) -> None:
    dims, layout, _ = PROBLEMS["full"]
    for scale in (0.3, -0.3):  # the kernels take none below 0
        qkv = operands(dims, layout)
        close(ours.module.attention(*qkv, scale=scale), reference(dims, layout, *qkv, scale=scale)[0])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda q, k, v: (q.float(), k.float(), v.float()), "another type"),
        (lambda q, k, v: (q.bfloat16(), k.bfloat16(), v.bfloat16()), "another type"),
        (lambda q, k, v: (q[:1], k[:1], v[:1]), "another batch"),
        (lambda q, k, v: (q, k[:, :-1], v[:, :-1]), "another length"),
    ],
)
def test_other_operands_fall_back(ours: OnCpu, change: Callable[..., Any], why: str) -> None:
    before = ours.calls()
    qkv = change(*operands(PROBLEMS["full"][0], "bshd"))
    assert ours.module.attention(*qkv).shape == qkv[0].shape
    assert ours.calls() == before, why


def test_another_device_falls_back(ours: OnCpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (8, 0))
    before = ours.calls()
    ours.module.attention(*operands(PROBLEMS["full"][0], "bshd"))
    assert ours.calls() == before


def test_where_torch_was_faster_torch_is_called(ours: OnCpu) -> None:
    before = ours.calls()
    ours.module.attention(*operands(SLOWER, "bshd"))
    assert ours.calls() == before and (*SLOWER, "bshd") in ours.module.TUNED


def test_operands_are_recognised_by_how_they_lie_in_memory(ours: OnCpu) -> None:
    """torch's usual views of (batch, seq, heads, dim): no copy, and the answer lies as q does."""
    dims, layout, _ = PROBLEMS["full"]
    qkv = operands(dims, layout)
    views = [x.transpose(1, 2) for x in qkv]
    before = ours.calls()
    o = ours.module.attention(*views, layout="bhsd")
    assert ours.calls() == before + 1
    close(o, reference(dims, layout, *qkv)[0].transpose(1, 2))
    assert o.stride() == views[0].stride()


def test_slices_of_a_fused_projection_are_packed_first(ours: OnCpu) -> None:
    dims, layout, _ = PROBLEMS["square"]
    batch, heads, _, rows, _, dim, _ = dims
    q, k, v = normal(batch, rows, 3, heads, dim).unbind(2)
    before = ours.calls()
    close(ours.module.attention(q, k, v, causal=True), reference(dims, layout, q, k, v)[0])
    assert ours.calls() == before + 1


def test_misaligned_operands_are_copied(ours: OnCpu) -> None:
    dims, layout, _ = PROBLEMS["square"]
    q, k, v = operands(dims, layout)
    odd = torch.empty(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape).copy_(q)
    assert odd.data_ptr() % 16
    close(ours.module.attention(odd, k, v, causal=True), reference(dims, layout, q, k, v)[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROBLEMS, "untuned"])
def test_it_compiles_into_one_graph(ours: OnCpu, name: str, backend: str) -> None:
    dims, layout, causal = PROBLEMS.get(name, ((1, 2, 1, 12, 20, 32, 1), "bshd", "bottom_right"))
    qkv = operands(dims, layout)

    def block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        o, lse = ours.module.attention(2 * q, k, v + 1, causal=causal, layout=layout, return_lse=True)
        return o.relu(), lse + 1

    torch._dynamo.reset()
    before = ours.calls()
    found = torch.compile(block, backend=backend, fullgraph=True)(*qkv)
    assert ours.calls() == before + (name != "untuned")
    for one, right in zip(found, block(*qkv), strict=True):
        close(one, right)


def test_lengths_that_change_are_compiled_again(ours: OnCpu) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(ours.module.attention, backend="eager", fullgraph=True)
    (dims, layout, _), seen = PROBLEMS["full"], []
    for rows in (24, 25, 24, 26):
        changed = (*dims[:3], rows, *dims[4:])
        qkv, before = operands(changed, layout), ours.calls()
        close(compiled(*qkv), reference(changed, layout, *qkv)[0])
        seen.append(ours.calls() - before)
    assert seen == [1, 0, 1, 0]


def test_the_op_keeps_torchs_own_rules(ours: OnCpu) -> None:
    """Schema, fake tensors and autograd registration, as torch's own checker sees them."""
    for name in ("square", "bottom_right"):
        dims, layout, _ = PROBLEMS[name]
        qkv = tuple(x.requires_grad_() for x in operands(dims, layout))
        torch.library.opcheck(ours.module._attention, (*qkv, dims[6], 0.125, layout), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("name", ["full", "square", "top_left", "bottom_right"])
def test_gradients_are_torchs(ours: OnCpu, name: str, backend: str | None) -> None:
    dims, layout, causal = PROBLEMS[name]

    def loss(*qkv: torch.Tensor) -> torch.Tensor:
        o, lse = ours.module.attention(*qkv, causal=causal, layout=layout, return_lse=True)
        return (o.float() * torch.arange(o.shape[-1])).sum() + lse.sum()

    qkv = [x.requires_grad_() for x in operands(dims, layout)]
    torch._dynamo.reset()
    before = ours.calls()
    compiled = loss if backend is None else torch.compile(loss, backend=backend, fullgraph=True)
    found = torch.autograd.grad(compiled(*qkv), qkv)
    assert ours.calls() == before + 1
    o, lse = reference(dims, layout, *qkv)
    right = torch.autograd.grad((o * torch.arange(o.shape[-1])).sum() + lse.sum(), qkv)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one.float(), other.float(), atol=0.05, rtol=0.03)


def test_a_gradient_of_the_output_alone(ours: OnCpu) -> None:
    dims, layout, _ = PROBLEMS["square"]
    qkv = [x.requires_grad_() for x in operands(dims, layout)]
    ours.module.attention(*qkv, causal=True).sum().backward()
    right = torch.autograd.grad(reference(dims, layout, *qkv)[0].sum(), qkv)
    for x, other in zip(qkv, right, strict=True):
        assert x.grad is not None
        torch.testing.assert_close(x.grad.float(), other.float(), atol=0.02, rtol=0.02)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"causal": True}, "say 'bottom_right' or 'top_left'"),
        ({"causal": "upper"}, "causal 'upper': use False, True"),
        ({"layout": "sbhd"}, "layout 'sbhd': use 'bshd' or 'bhsd'"),
    ],
)
def test_what_is_no_mask_or_layout_is_told(ours: OnCpu, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ours.module.attention(*operands(PROBLEMS["full"][0], "bshd"), **options)


def test_a_refusing_kernel_is_an_error_and_names_the_problem(ours: OnCpu) -> None:
    ours.stub.stub_refuse(4)
    try:
        with pytest.raises(RuntimeError, match=r"\(2, 4, 2, 24, 40, 64, 0, 'bshd'\): refused by the stub"):
            ours.module.attention(*operands(PROBLEMS["full"][0], "bshd"))
    finally:
        ours.stub.stub_refuse(0)


def test_as_exported_it_imports_traces_and_falls_back_without_a_library_or_a_gpu(tmp_path: Path) -> None:
    exported = AttentionWriter(tmp_path)(
        [tuned(problem(1, 4, 2, 64, 128, 64, 0), FULL)], torch=True, name="bare"
    )
    module = load(module_file(exported))
    q, k = normal(1, 64, 4, 64), normal(1, 128, 2, 64)
    close(module.attention(q, k, k), reference((1, 4, 2, 64, 128, 64, 0), "bshd", q, k, k)[0])
    with FakeTensorMode():
        q, k = (
            torch.empty(1, *shape, dtype=torch.float16, device="cuda")
            for shape in ((64, 4, 64), (128, 2, 64))
        )
        o, lse = module._attention(q, k, k, 0, 0.125, "bshd")
    assert (o.shape, o.dtype, o.device.type, o.stride()) == (q.shape, q.dtype, "cuda", q.stride())
    assert (lse.shape, lse.dtype) == ((1, 4, 64), torch.float32)
    with pytest.raises(
        RuntimeError, match=r"libbare_torch.so is not built: run `python .*bare_torch.py` once"
    ):
        module._library()
