"""Family attention_sm100: what is emitted and refused, a real host library and a cubin, without a GPU."""

from __future__ import annotations

import ctypes
import subprocess
from functools import partial
from pathlib import Path

import pytest

from cutlass_tuner.abi import Call, HostLibrary
from cutlass_tuner.build import toolchain
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.cache import Cache
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import Build, KernelConfig, Scalar
from emit import attention_calls
from emit.attention_calls import BHSD, BSHD, K, O, Q, V, call
from emit.attention_kernels import HALF, contract

# One worker, so that the library is compiled once.
pytestmark = pytest.mark.xdist_group("example77 host library")

EMITTER = EMITTERS["attention"]
TILES = (0, 0, 0)
"""Launch codes of a CTA a tile."""


def kernel(**changes: Scalar) -> KernelConfig:
    """A causal kernel for head dim 128 with knobs changed."""
    knobs: dict[str, Scalar] = {
        "head_dim": 128,
        "mask": "causal",
        "tile_kv": 128,
        "scheduler": "individual",
        "softmax_registers": 200,
        "correction_registers": 80,
    }
    return KernelConfig(family="attention_sm100", knobs=knobs | changes)


KERNELS = {
    "causal": kernel(),
    "full": kernel(mask="full", head_dim=64, tile_kv=64),
    "persistent": kernel(scheduler="persistent", softmax_registers=184),
    "causal individual": kernel(scheduler="causal_individual"),
    "causal persistent": kernel(scheduler="causal_persistent", head_dim=64, tile_kv=64),
}
INDEX = {name: index for index, name in enumerate(KERNELS)}
filled = partial(attention_calls.filled, "emit.test_example77")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["cutlass::half_t", "Shape<Int<256>, Int<128>, Int<128>>, Causal,", "200, 80>::Kernel"]),
        ({"mask": "full"}, ["Full,"]),
        ({"tile_kv": 64, "head_dim": 64}, ["Shape<Int<256>, Int<64>, Int<64>>"]),
        ({"scheduler": "individual"}, ["\n    IndividualTileScheduler,"]),
        ({"scheduler": "persistent"}, ["\n    PersistentTileScheduler,"]),
        ({"scheduler": "causal_individual"}, ["CausalIndividualTileScheduler,"]),
        ({"scheduler": "causal_persistent"}, ["CausalPersistentTileScheduler,"]),
        ({"softmax_registers": 184, "correction_registers": 96}, ["184, 96>::Kernel"]),
    ],
)
def test_every_knob_is_in_the_text(changes: dict[str, Scalar], words: list[str]) -> None:
    one = kernel(**changes)
    made = EMITTER.device_source([one], HALF)
    assert [word for word in words if word not in made] == []
    assert f'#line 1 "{EMITTER.symbol(one)}"' in made
    assert f"\n{EMITTER.symbol(one)}(CUTLASS_GRID_CONSTANT" in made


def test_elements() -> None:
    assert "cutlass::bfloat16_t" in EMITTER.device_source([kernel()], contract("bf16"))
    with pytest.raises(UserError, match="takes one type for all four, f16 or bf16"):
        EMITTER.device_source([kernel()], contract("f8e4m3"))
    for wrong in ({"accumulator": "f16"}, {"elements": {**HALF.elements, "lse": "f16"}}):
        with pytest.raises(UserError, match="f32 for both"):
            EMITTER.device_source([kernel()], HALF.model_copy(update=wrong))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tile_kv": 96}, "tile_kv = 96"),
        ({"tile_kv": 256}, "tile_kv = 256"),
        ({"head_dim": 32}, "head_dim = 32"),
        ({"head_dim": 256}, "head_dim = 256"),
        ({"mask": "window"}, "mask = 'window'"),
        ({"scheduler": "stream_k"}, "scheduler = 'stream_k'"),
        ({"softmax_registers": 190}, "softmax_registers = 190"),
        ({"softmax_registers": 120}, "softmax_registers = 120"),
        ({"softmax_registers": 208, "correction_registers": 80}, "softmax_registers = 208"),
        ({"softmax_registers": 128}, "softmax_registers = 128"),
        ({"correction_registers": 128, "softmax_registers": 176}, "correction_registers = 128"),
    ],
)
def test_what_the_example_cannot_do_is_refused(changes: dict[str, Scalar], told: str) -> None:
    with pytest.raises(UserError, match=f"^knob {told} of attention_sm100:"):
        EMITTER.device_source([kernel(**changes)], HALF)


def test_a_family_without_templates_is_refused() -> None:
    strange = kernel().model_copy(update={"family": "attention_sm42"})
    with pytest.raises(UserError, match="one of attention, attention_sm100 is needed"):
        EMITTER.symbol(strange)


def test_kernels_of_one_mainloop_are_one_batch() -> None:
    def key(**changes: Scalar) -> str:
        return EMITTER.batch_key(kernel(**changes))

    assert key() == key(scheduler="persistent") == key(softmax_registers=184)
    assert len({key(), key(tile_kv=64), key(mask="full"), key(head_dim=64)}) == 4


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    found = toolchain.find()
    if not isinstance(found, Toolchain):
        pytest.skip(found.reason)
    return found


@pytest.fixture(scope="module")
def path(tools: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host library, with a walk over each kernel's masks compiled in: headers take most of the time."""
    folder = tmp_path_factory.mktemp("example77")
    source, library = folder / "host.cpp", folder / "host.so"
    walks = [f"MASKS_OF({index}, {EMITTER.kernel_type(KERNELS[name])})\n" for name, index in INDEX.items()]
    masks = f'#include "{Path(__file__).with_name("example77_masks.h")}"\n'
    source.write_text(EMITTER.host_source(list(KERNELS.values()), HALF) + masks + "".join(walks))
    done = subprocess.run(tools.host_command(source, library), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return library


@pytest.fixture(scope="module")
def host(path: Path) -> HostLibrary:
    return HostLibrary(str(path))


def test_it_describes_what_was_asked(host: HostLibrary) -> None:
    assert host.count == len(KERNELS)
    for name, index in INDEX.items():
        said, asked = host.describe(index), EMITTER.asked(KERNELS[name])
        assert host.symbol(index) == EMITTER.symbol(KERNELS[name])
        assert (tuple(said.tile), tuple(said.cluster), said.stages) == tuple(asked.values())
        assert said.threads == 512
        smem = op("fmha").smem(KERNELS[name])
        assert smem is not None
        assert (said.smem_bytes, said.stages) == (smem.total_bytes, smem.stages)
        assert said.smem_bytes <= 227 * 1024


@pytest.mark.parametrize(
    ("name", "made", "grid"),
    [
        ("causal", call(head_dim=128, causal=2), (4, 16, 2)),  # row blocks, heads, batch
        ("full", call(), (4, 16, 2)),
        ("causal individual", call(head_dim=128, causal=2), (16, 4, 2)),  # heads, row blocks, batch
        ("persistent", call(head_dim=128, causal=2), (128, 1, 1)),  # 4 row blocks of 32 heads: fewer than SMs
        ("persistent", call(batch=3, head_dim=128, causal=2), (132, 1, 1)),
        ("persistent", call(batch=3, head_dim=128, causal=2, launch=TILES), (192, 1, 1)),
        ("causal persistent", call(batch=3, causal=2), (132, 1, 1)),
        ("causal persistent", call(batch=3, causal=2, launch=TILES), (192, 1, 1)),
    ],
)
def test_the_grid_is_the_schedulers(
    host: HostLibrary, name: str, made: Call, grid: tuple[int, int, int]
) -> None:
    plan = host.plan(INDEX[name], made)
    assert plan is not None
    assert tuple(plan.grid) == grid
    assert (plan.swizzle, plan.raster, plan.splits) == (-1, -1, -1)
    assert (plan.workspace_bytes, plan.zero_bytes) == (0, 0)


@pytest.mark.parametrize("layout", [BSHD, BHSD])
def test_any_length_is_taken(host: HostLibrary, layout: int) -> None:
    for seqlen in ((1, 1), (1, 5000), (1003, 7)):
        assert host.plan(INDEX["full"], call(seqlen=seqlen, layout=layout)) is not None
        for causal in (1, 2) if seqlen[0] <= seqlen[1] else (2,):
            made = call(seqlen=seqlen, head_dim=128, causal=causal, layout=layout)
            assert host.plan(INDEX["causal"], made) is not None


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("full", call(causal=1, seqlen=(64, 64))),  # another mask than the kernel's
        ("causal", call(head_dim=128)),
        ("full", call(head_dim=128)),
        ("causal", call(head_dim=64, causal=2)),
        ("causal", call(head_dim=128, causal=1, seqlen=(65, 64))),  # a row without a key
        ("causal individual", call(head_dim=128, causal=2, heads=(12, 12))),  # groups of 8 heads
        ("full", call(heads=(16, 3))),
        ("full", call(seqlen=(16, 0))),
        ("full", call(scale=0.0)),
        ("full", call(scale=float("nan"))),
        ("full", call(scale=float("inf"))),
        ("full", call(batch=1 << 16, heads=(1, 1), seqlen=(8, 8))),  # the grid's z
        ("full", call(batch=1 << 11, seqlen=(1 << 10, 1 << 10))),  # 2^31 elements
    ],
)
def test_a_call_that_the_kernel_cannot_do_is_refused(host: HostLibrary, name: str, refused: Call) -> None:
    assert host.plan(INDEX[name], refused) is None
    with pytest.raises(ValueError, match="status 1"):
        room = ctypes.create_string_buffer(8192)
        host.fill(INDEX[name], refused, (ctypes.addressof(room) + 127) // 128 * 128)


@pytest.mark.parametrize("name", ["causal", "full", "causal persistent"])
def test_the_masks_leave_each_row_the_keys_it_must_see(path: Path, name: str) -> None:
    """Bottom-right and top-left, ragged lengths, rows without a key, tiles that do not divide each other."""
    count = getattr(ctypes.CDLL(str(path)), f"wrong_{INDEX[name]}")
    count.restype = ctypes.c_int64
    lengths = [(1, 1), (63, 391), (389, 130), (300, 300), (257, 513), (128, 80), (256, 256), (513, 1)]
    for seqlen_q, seqlen_kv in lengths:
        for diagonal in (seqlen_kv - seqlen_q, 0):
            assert count(seqlen_q, seqlen_kv, diagonal) == 0


@pytest.mark.parametrize("layout", ["BSHD", "BHSD"])
def test_grouped_heads_share_keys_and_values(path: Path, tmp_path: Path, layout: str) -> None:
    """12 query heads read 3 KV heads. Q and O are (dim, row, head of a group, group, batch); K and V lack the
    third."""
    status, _, maps = filled(path, tmp_path, "full", f"call(2, (12, 3), (100, 70), 64, layout={layout})")
    assert status == 0
    head, row, row_kv = (128, 12 * 128, 3 * 128) if layout == "BSHD" else (100 * 128, 128, 128)
    head_kv = 128 if layout == "BSHD" else 70 * 128
    batch, batch_kv = 12 * 100 * 128, 3 * 70 * 128
    known = {found[:3] for found in maps}
    for address in (Q, O):
        assert (address, (64, 100, 4, 3, 2), (row, head, 4 * head, batch)) in known
    for address in (K, V):
        assert (address, (64, 70, 3, 2), (row_kv, head_kv, batch_kv)) in known
    assert {(address, box[:2]) for address, _, _, box in maps} >= {
        (Q, (64, 128)),
        (K, (64, 64)),
        (V, (64, 64)),
    }


@pytest.mark.parametrize(("causal", "diagonal"), [(1, 2025), (2, 0)])
def test_params_hold_size_diagonal_and_scale(path: Path, tmp_path: Path, causal: int, diagonal: int) -> None:
    made = f"call(3, (12, 4), (1000, 3025), 128, causal={causal}, scale=0.25)"
    status, params, _ = filled(path, tmp_path, "causal", made)
    assert status == 0
    words = [params[at : at + 4] for at in range(0, len(params), 4)]
    size = {number.to_bytes(4, "little", signed=True) for number in (1000, 3025, 128, 3, 4, diagonal)}
    assert size == set(words[:7])  # a CuTe tuple's order is its own; the group and the batch are 3
    scales = [bytes(ctypes.c_float(value)) for value in (0.25, 0.25 * 1.4426950408889634)]
    assert scales in [words[at : at + 2] for at in range(len(words) - 1)]
    lse = [number.to_bytes(4, "little") for number in (1000, 3 * 1000, 12 * 1000)]
    assert lse in [words[at : at + 3] for at in range(len(words) - 2)]  # head of a group, group, batch


def test_a_tensor_map_that_the_driver_refuses_is_told(path: Path, tmp_path: Path) -> None:
    status, _, maps = filled(path, tmp_path, "full", "call()", FAKE_DRIVER_REFUSES="1")
    assert status == 2
    assert maps


@pytest.mark.compile
def test_a_kernel_compiles_for_blackwell(tools: Toolchain, tmp_path: Path) -> None:
    builder = Builder(tools, Cache(tmp_path), "sm_100a", 600.0, EMITTER, HALF)
    one = kernel(head_dim=64, tile_kv=64)
    (built,) = builder.build([one])
    assert isinstance(built, Build), built
    assert (built.threads, built.stages, built.spill_bytes) == (512, 3, 0)
    # tcgen05.mma's own opcodes cannot be told apart without a disassembler, but the code of a kernel that was
    # compiled for another architecture is one printf.
    assert built.cubin_bytes > 50_000
