"""The PyTorch op of exported GEMM kernels: dispatch, layouts, compilers, gradients, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from export.samples import PERSISTENT, Writer, problem, tuned
from export.torch_modules import OnCpu, load, module_file, normal, on_cpu

M, N, K = 24, 40, 16
LAYOUTS = ("tn", "tt", "nn", "nt")
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCpu]:
    shapes = [problem(M, N, K, layout=layout, batch=batch) for layout in LAYOUTS for batch in (1, 3)]
    # the products of a gradient, as a linear layer's backward pass has them
    shapes += [problem(M, K, N, layout="tt"), problem(64, 64, 64)]
    entries = [tuned(shape, PERSISTENT) for shape in shapes]
    entries.append(tuned(problem(8, 8, 8), PERSISTENT, torch=0.99))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        yield on_cpu(Writer(tmp_path_factory.mktemp("gemm"))(entries, torch=True, name="cpu_gemm"))


def operands(
    layout: str, *batch: int, m: int = M, n: int = N, k: int = K
) -> tuple[torch.Tensor, torch.Tensor]:
    a = normal(*batch, m, k) if layout[0] == "t" else normal(*batch, k, m).mT
    b = normal(*batch, k, n, seed=1) if layout[1] == "t" else normal(*batch, n, k, seed=1).mT
    return a, b


def close(found: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(found.float(), right.float(), atol=1e-2, rtol=4e-3)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_storage_goes_to_its_kernel(ours: OnCpu, layout: str, batch: tuple[int, ...]) -> None:
    a, b = operands(layout, *batch)
    before = ours.calls()
    d = ours.module.matmul(a, b)
    assert ours.calls() == before + 1 and ours.module._layout(a, b) == layout
    close(d, a.float() @ b.float())
    assert d.is_contiguous() and d.dtype == torch.float16


def test_a_linear_layers_leading_extents_are_rows(ours: OnCpu) -> None:
    x, weight = normal(2, 12, K), normal(N, K, seed=1)
    before = ours.calls()
    d = ours.module.matmul(x, weight.t())
    assert ours.calls() == before + 1 and d.shape == (2, 12, N)
    close(d, x.float() @ weight.float().t())


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (normal(M, K + 1), normal(K + 1, N)),
        (normal(M, K).float(), normal(K, N).float()),
        (normal(M, 2 * K)[:, :K], normal(K, N)),
        (normal(M, 2 * K)[:, ::2], normal(K, N)),
        (normal(3, M, K), normal(1, K, N)),
        (normal(2, 2, M, K), normal(2, 2, K, N)),
        (normal(K), normal(K, N)),
        (normal(8, 8), normal(8, 8).mT),
        (normal(24, 2, K).transpose(0, 1), normal(K, N)),
    ],
    ids=[
        "shape",
        "type",
        "rows_apart",
        "strided",
        "broadcast",
        "two_batches",
        "vector",
        "slower",
        "transposed",
    ],
)
def test_whatever_else_torch_does(ours: OnCpu, a: torch.Tensor, b: torch.Tensor) -> None:
    before = ours.calls()
    close(ours.module.matmul(a, b), a.float() @ b.float())
    assert ours.calls() == before


def test_misaligned_operands_are_copied(ours: OnCpu) -> None:
    a, b = operands("tt")
    odd = torch.empty(a.numel() + 1, dtype=a.dtype)[1:].view(a.shape).copy_(a)
    close(ours.module.matmul(odd, b), a.float() @ b.float())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch", [(), (3,), (4,)])
def test_it_compiles_into_one_graph(ours: OnCpu, batch: tuple[int, ...], backend: str) -> None:
    def block(a: torch.Tensor, b: torch.Tensor) -> Any:
        return ours.module.matmul(a + 1, b).relu()

    a, b = operands("tt", *batch)
    torch._dynamo.reset()
    before = ours.calls()
    found = torch.compile(block, backend=backend, fullgraph=True)(a, b)
    assert ours.calls() == before + (batch != (4,))
    close(found, block(a, b))


def test_the_op_keeps_torchs_own_rules(ours: OnCpu) -> None:
    for layout in LAYOUTS:
        for batch in ((), (3,)):
            a, b = (x.detach().requires_grad_() for x in operands(layout, *batch))
            torch._dynamo.reset()
            torch.library.opcheck(ours.module._matmul, (a, b, layout), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_gradients_are_two_products_and_tuned_ones_where_there_are(ours: OnCpu, backend: str | None) -> None:
    a, b = (x.detach().requires_grad_() for x in operands("tn"))
    weight = normal(M, N, seed=2)

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (ours.module.matmul(a, b) * weight).sum()

    torch._dynamo.reset()
    before = ours.calls()
    compiled = loss if backend is None else torch.compile(loss, backend=backend, fullgraph=True)
    found = torch.autograd.grad(compiled(a, b), (a, b))
    # the forward product, and gradient (24, 40) by b transposed, stored row by row
    assert ours.calls() == before + 2
    right = weight.float() @ b.float().mT, a.float().mT @ weight.float()
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one.float(), other, atol=0.05, rtol=0.01)


def test_a_refusing_kernel_is_an_error_and_names_the_problem(ours: OnCpu) -> None:
    ours.stub.stub_refuse(4)
    try:
        with pytest.raises(RuntimeError, match=r"cpu_gemm, \(24, 40, 16, 1, b?'tn'\): refused by the stub"):
            ours.module.matmul(*operands("tn"))
    finally:
        ours.stub.stub_refuse(0)


def test_as_exported_it_imports_traces_and_falls_back_without_a_library_or_a_gpu(tmp_path: Path) -> None:
    exported = Writer(tmp_path)([tuned(problem(M, N, K), PERSISTENT)], torch=True, name="bare_gemm")
    module = load(module_file(exported))
    a, b = operands("tn")
    close(module.matmul(a, b), a.float() @ b.float())
    with FakeTensorMode():
        a, b = (torch.empty(shape, dtype=torch.float16, device="cuda") for shape in ((5, M, K), (5, K, N)))
        d = module._matmul(a, b, "tt")
    assert (d.shape, d.dtype, d.device.type) == ((5, M, N), torch.float16, "cuda")
    with pytest.raises(RuntimeError, match="is not built: run `python"):
        module._library()
