"""The exported PyTorch ops on the GPU, inside a small transformer block: eager, compiled, in CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from . import exports
from .exports import Entry, Knobs

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

BATCH, SEQ, HEADS, HEADS_KV, DIM = 2, 512, 8, 2, 64
WIDTH, INNER = HEADS * DIM, 2048
QKV = WIDTH + 2 * HEADS_KV * DIM
ROWS = BATCH * SEQ

ATTENTION: Knobs = {"head_dim": 64, "mask": "causal", "tile_q": 128, "tile_kv": 64, "groups": 2}
GEMM: Knobs = {
    **{"tile_m": 128, "tile_n": 128, "tile_k": 64, "schedule": "cooperative", "stages": 4},
    **{"cluster_m": 1, "cluster_n": 1, "scheduler": "streamk"},
}
SPLIT: Knobs = {"splits": 4, "decomposition": "split_k"}
"""Needs a workspace, zeroed."""
ATTENTIONS = (
    Entry((BATCH, HEADS, HEADS_KV, SEQ, SEQ, DIM, 1), "bshd", ATTENTION, {"grid": "sms", "order": "heavy"}),
    Entry((1, 4, 2, 400, 170, DIM, 1), "bhsd", ATTENTION),
    Entry((2, 4, 4, 100, 300, DIM, 2), "bshd", ATTENTION),
)
GEMMS = (
    Entry((ROWS, QKV, WIDTH, 1), "tn", GEMM),
    Entry((ROWS, WIDTH, WIDTH, 1), "tn", GEMM),
    Entry((ROWS, INNER, WIDTH, 1), "tn", GEMM),
    Entry((ROWS, WIDTH, INNER, 1), "tn", GEMM, SPLIT),
)
PRODUCTS = len(GEMMS)


@dataclass
class Ops:
    """Both modules, and how many kernels they have launched."""

    attention: Callable[..., Any]
    matmul: Callable[[Tensor, Tensor], Tensor]
    launched: dict[str, int]

    def count(self, run: Callable[[], object]) -> dict[str, int]:
        before = dict(self.launched)
        run()
        return {name: self.launched[name] - before[name] for name in before}


def _counted(module: ModuleType, name: str, launched: dict[str, int]) -> None:
    checked = module._checked

    def counting(status: int, problem: object) -> None:
        launched[name] += 1
        checked(status, problem)

    module._checked = counting


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Ops:
    folders = [tmp_path_factory.mktemp(name) for name in ("attention", "gemm")]
    written = [
        exports.write("fmha", ATTENTIONS, folders[0], "gpu_attention"),
        exports.write("hgemm", GEMMS, folders[1], "gpu_gemm"),
    ]
    exports.compile_all([exports.library(one) for one in written])
    attention, gemm = (exports.module(one) for one in written)
    launched = {"attention": 0, "matmul": 0}
    _counted(attention, "attention", launched)
    _counted(gemm, "matmul", launched)
    return Ops(attention.attention, gemm.matmul, launched)


def torch_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: object) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=True).transpose(1, 2)


class Block(nn.Module):
    """qkv projection, attention, output projection, MLP, each with a residual, by the given functions."""

    def __init__(
        self, attention: Callable[..., Tensor], matmul: Callable[..., Tensor], dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.attention, self.matmul = attention, matmul
        shapes = {"qkv": (QKV, WIDTH), "out": (WIDTH, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER)}
        generator = torch.Generator().manual_seed(7)
        for name, (rows, columns) in shapes.items():
            values = torch.randn(rows, columns, generator=generator) / columns**0.5
            setattr(self, name, nn.Parameter(values.half().to("cuda", dtype)))

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.matmul(layer_norm(x, (WIDTH,)), self.qkv.t()).unflatten(-1, (-1, DIM))
        q, k, v = qkv.split([HEADS, HEADS_KV, HEADS_KV], dim=2)
        x = x + self.matmul(self.attention(q, k, v, causal=True).flatten(2), self.out.t())
        return x + self.matmul(gelu(self.matmul(layer_norm(x, (WIDTH,)), self.up.t())), self.down.t())


@pytest.fixture(scope="module")
def block(ops: Ops) -> Block:
    return Block(ops.attention, ops.matmul, torch.float16)


@pytest.fixture(scope="module")
def right(ops: Ops) -> Block:
    """In fp32, by torch."""
    return Block(torch_attention, torch.matmul, torch.float32)


def inputs(seed: int = 0) -> Tensor:
    return torch.randn(BATCH, SEQ, WIDTH, generator=torch.Generator().manual_seed(seed)).half().cuda()


def close(found: Tensor, reference: Tensor) -> None:
    torch.testing.assert_close(found.float(), reference.float(), atol=2e-2, rtol=2e-2)


def test_eager(ops: Ops, block: Block, right: Block) -> None:
    with torch.no_grad():
        assert ops.count(lambda: close(block(inputs()), right(inputs().float()))) == {
            "attention": 1,
            "matmul": PRODUCTS,
        }


def test_on_another_stream(block: Block, right: Block) -> None:
    stream = torch.cuda.Stream()
    x = inputs(1)
    with torch.no_grad():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)  # so that a launch on the wrong stream would come too early
            found = block(x + 1)
        torch.cuda.current_stream().wait_stream(stream)
        close(found, right(x.float() + 1))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled(ops: Ops, block: Block, right: Block, mode: str) -> None:
    pytest.importorskip("triton")
    torch._dynamo.reset()
    compiled = torch.compile(block, mode=mode, fullgraph=True)
    with torch.no_grad():
        for seed in range(4):  # graphs are recorded at the second and replayed from the third
            torch.compiler.cudagraph_mark_step_begin()
            launched = ops.count(lambda seed=seed: close(compiled(inputs(seed)), right(inputs(seed).float())))
            if seed == 0 or mode == "default":
                assert launched == {"attention": 1, "matmul": PRODUCTS}
        assert mode == "default" or launched == {"attention": 0, "matmul": 0}


def test_in_a_cuda_graph(ops: Ops, block: Block, right: Block) -> None:
    x = inputs(2)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        block(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            found = block(x)
        for seed in (3, 4):
            x.copy_(inputs(seed))
            assert ops.count(graph.replay) == {"attention": 0, "matmul": 0}
            close(found, right(inputs(seed).float()))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(ops: Ops, block: Block, right: Block, compiled: bool) -> None:
    if compiled:
        pytest.importorskip("triton")
    torch._dynamo.reset()
    run = torch.compile(block, fullgraph=True) if compiled else block
    weight = inputs(9).float()
    x, y = inputs(5).requires_grad_(), inputs(5).float().requires_grad_()
    found = torch.autograd.grad((run(x).float() * weight).mean() * 1e4, [x, *block.parameters()])
    reference = torch.autograd.grad((right(y) * weight).mean() * 1e4, [y, *right.parameters()])
    for one, other in zip(found, reference, strict=True):
        error = (one.float() - other).norm() / other.norm()
        assert error < 1e-2, float(error)


@pytest.mark.parametrize("entry", ATTENTIONS[1:], ids=["rows_without_keys", "top_left"])
def test_masks_and_the_log_sum_exp(ops: Ops, entry: Entry) -> None:
    batch, heads, heads_kv, rows, keys, dim, causal = entry.extents
    order = (lambda h, s: (h, s)) if entry.layout == "bhsd" else (lambda h, s: (s, h))
    shapes = [order(heads, rows), order(heads_kv, keys), order(heads_kv, keys)]
    q, k, v = (torch.randn(batch, *shape, dim, device="cuda", dtype=torch.float16) for shape in shapes)
    how = {"causal": ("none", "bottom_right", "top_left")[causal], "layout": entry.layout, "return_lse": True}
    before = ops.launched["attention"]
    o, lse = ops.attention(q, k, v, **how)
    assert ops.launched["attention"] == before + 1
    # another type is not tuned: torch's answer, from the same values
    right_o, right_lse = ops.attention(q.double(), k.double(), v.double(), **how)
    assert ops.launched["attention"] == before + 1
    torch.testing.assert_close(o.double(), right_o, atol=4e-3, rtol=4e-3)
    torch.testing.assert_close(lse, right_lse.float(), atol=2e-3, rtol=1e-3)
    assert bool((lse == -torch.inf).any()) == (rows > keys and causal == 1)


def test_what_is_not_tuned_is_torchs(ops: Ops) -> None:
    q = torch.randn(1, 333, HEADS, DIM, device="cuda", dtype=torch.float16)

    def run() -> None:
        close(
            ops.attention(q, q, q, causal=True), torch_attention(q.float(), q.float(), q.float(), causal=True)
        )
        close(ops.attention(q.bfloat16(), q.bfloat16(), q.bfloat16()), ops.attention(q, q, q))
        close(ops.matmul(q, q.mT), torch.matmul(q, q.mT))

    assert ops.count(run) == {"attention": 0, "matmul": 0}
