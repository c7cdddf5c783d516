"""Template example88: what is emitted, what is refused, and a real host library, without a GPU."""

from __future__ import annotations

import ctypes
import subprocess
from functools import partial
from pathlib import Path

import pytest

from cutlass_tuner.abi import Call, HostLibrary
from cutlass_tuner.build import toolchain
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.emit.example88 import Example88
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, Scalar
from emit import attention_calls
from emit.attention_calls import BHSD, BSHD, K, O, Q, V, call
from emit.attention_kernels import HALF, KERNELS, contract, kernel, tma

# One worker, so that the library is compiled once.
pytestmark = pytest.mark.xdist_group("example88 host library")

EMITTER, TEMPLATE = EMITTERS["attention"], Example88()
INDEX = {name: index for index, name in enumerate(KERNELS)}
filled = partial(attention_calls.filled, "emit.test_example88")


def text(contract: Contract = HALF, **changes: Scalar) -> str:
    return TEMPLATE.device_text(kernel(**changes), contract)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["Cooperative<", "cutlass::half_t", "Int<128>, Int<128>, Int<128>", "Causal<1>"]),
        ({"mask": "full"}, ["Full,"]),
        (
            {"tile_q": 192, "groups": 3, "q_stages": 3},
            ["Shape<Int<192>,", "kNumMmaWarpGroups, Int<3>", "kStagesQ, Int<3>"],
        ),
        ({"tile_kv": 80, "head_dim": 64}, ["Shape<Int<128>, Int<80>, Int<64>>"]),
        ({"stages": 6}, ["kStagesKV, Int<6>"]),
        ({"separate_q": True}, ["kLoadsQSeparately, cute::true_type", "kIsPersistent, cute::false_type"]),
        ({"locked": True}, ["kIsMainloopLocked, cute::true_type", "kLoadsQSeparately, cute::false_type"]),
        ({"persistent": True}, ["kIsPersistent, cute::true_type", "kIsMainloopLocked, cute::false_type"]),
    ],
)
def test_every_knob_of_a_cooperative_kernel_is_in_its_text(
    changes: dict[str, Scalar], words: list[str]
) -> None:
    made = text(**changes)
    assert [word for word in words if word not in made] == []
    assert "kClusterM" not in made  # an option that the schedule does not read


def test_every_knob_of_a_tma_kernel_is_in_its_text() -> None:
    made = TEMPLATE.device_text(tma(blocks_per_sm=3, cluster_m=2, stages=6), HALF)
    words = ["Tma<", "kBlocksPerSM, Int<3>", "kClusterM, Int<2>", "kStagesKV, Int<6>", "Causal<2>"]
    assert [word for word in words if word not in made] == []
    assert "kNumMmaWarpGroups" not in made


def test_the_text_names_the_kernel_to_whoever_reads_a_compilers_message() -> None:
    symbol = TEMPLATE.symbol(kernel())
    assert symbol == f"cutlass_tuner_attention_{kernel().digest}"
    assert f'#line 1 "{symbol}"' in text()
    assert f"\n{symbol}(CUTLASS_GRID_CONSTANT" in text()


def test_elements() -> None:
    assert "cutlass::bfloat16_t" in text(contract("bf16"))
    mixed = Contract(elements={**contract("f16").elements, "v": "bf16"}, accumulator="f32")
    for refused in (contract("f8e4m3"), mixed):
        with pytest.raises(UserError, match="takes one type for all four, f16 or bf16"):
            text(refused)
    for wrong in ({"accumulator": "f16"}, {"elements": {**HALF.elements, "lse": "f16"}}):
        with pytest.raises(UserError, match="f32 for both"):
            text(HALF.model_copy(update=wrong))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"groups": 1, "tile_q": 64}, "groups = 1"),
        ({"tile_q": 192}, "tile_q = 192"),
        ({"q_stages": 1}, "q_stages = 1"),
        ({"stages": 2}, "stages = 2"),
        ({"tile_kv": 72}, "tile_kv = 72"),
        ({"tile_kv": 272}, "tile_kv = 272"),
        ({"head_dim": 512}, "head_dim = 512"),
        ({"mask": "window"}, "mask = 'window'"),
        ({"schedule": "pingpong"}, "schedule = 'pingpong'"),
        ({"persistent": 1}, "persistent = 1"),
        ({"stages": True}, "stages = True"),
    ],
)
def test_what_the_example_cannot_do_is_refused(changes: dict[str, Scalar], told: str) -> None:
    with pytest.raises(UserError, match=f"^knob {told} of attention:"):
        text(**changes)


@pytest.mark.parametrize("changes", [{"groups": 2}, {"tile_q": 128}, {"stages": 2}, {"stages": 5}])
def test_what_schedule_tma_cannot_do_is_refused(changes: dict[str, Scalar]) -> None:
    with pytest.raises(UserError, match=rf"knob {next(iter(changes))} = .*schedule tma"):
        TEMPLATE.device_text(tma(**changes), HALF)


def test_kernels_of_one_mainloop_are_one_batch() -> None:
    def key(**changes: Scalar) -> str:
        return TEMPLATE.batch_key(kernel(**changes))

    assert key() == key(stages=5) == key(persistent=True) == key(separate_q=True)
    others = {key(tile_kv=64), key(mask="full"), key(head_dim=64), TEMPLATE.batch_key(tma())}
    assert len(others | {key()}) == 5


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host library, with a walk over each kernel's masks compiled in: headers take most of the time."""
    found = toolchain.find()
    if not isinstance(found, Toolchain):
        pytest.skip(found.reason)
    folder = tmp_path_factory.mktemp("example88")
    source, library = folder / "host.cpp", folder / "host.so"
    walks = [f"MASKS_OF({index}, {EMITTER.kernel_type(KERNELS[name])})\n" for name, index in INDEX.items()]
    masks = f'#include "{Path(__file__).with_name("example88_masks.h")}"\n'
    source.write_text(EMITTER.host_source(list(KERNELS.values()), HALF) + masks + "".join(walks))
    done = subprocess.run(found.host_command(source, library), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return library


@pytest.fixture(scope="module")
def host(path: Path) -> HostLibrary:
    return HostLibrary(str(path))


def test_it_describes_what_was_asked(host: HostLibrary) -> None:
    assert host.count == len(KERNELS)
    threads = {"causal": 384, "full": 512, "persistent": 384, "tma": 128, "tma causal": 128}
    for name, index in INDEX.items():
        said, asked = host.describe(index), EMITTER.asked(KERNELS[name])
        assert host.symbol(index) == EMITTER.symbol(KERNELS[name])
        assert (tuple(said.tile), tuple(said.cluster), said.stages) == tuple(asked.values())
        assert said.threads == threads[name]
        tile_q, tile_kv, head_dim = said.tile
        operands = 2 * head_dim * (tile_q + said.stages * tile_kv)  # Q, and a ring of K and V
        assert operands <= said.smem_bytes <= 227 * 1024


@pytest.mark.parametrize(
    ("name", "causal", "grid"),
    [
        ("causal", 1, (8, 2, 16)),  # row blocks, batch, heads
        ("causal", 2, (8, 2, 16)),
        ("full", 0, (6, 2, 16)),
        ("persistent", 1, (128, 1, 1)),  # 4 row blocks of 256 in 32 heads: fewer than SMs
        ("tma", 0, (16, 2, 16)),
        ("tma causal", 1, (16, 2, 16)),
    ],
)
def test_the_grid_is_the_kernels_own(
    host: HostLibrary, name: str, causal: int, grid: tuple[int, int, int]
) -> None:
    plan = host.plan(INDEX[name], call(causal=causal))
    assert plan is not None
    assert tuple(plan.grid) == grid
    assert (plan.swizzle, plan.raster, plan.splits) == (4, -1, -1)
    assert (plan.workspace_bytes, plan.zero_bytes) == (0, 0)


def test_a_persistent_grid_is_no_larger_than_the_gpu(host: HostLibrary) -> None:
    plan = host.plan(INDEX["persistent"], call(batch=3, causal=1))
    assert plan is not None
    assert tuple(plan.grid) == (132, 1, 1)


def test_a_cluster_pads_the_rows(host: HostLibrary) -> None:
    plan = host.plan(INDEX["tma causal"], call(seqlen=(65, 65), causal=1))
    other = host.plan(INDEX["tma causal"], call(seqlen=(129, 129), causal=1))
    assert plan is not None and other is not None
    assert (plan.grid[0], other.grid[0]) == (2, 4)


@pytest.mark.parametrize("layout", [BSHD, BHSD])
def test_any_length_is_taken(host: HostLibrary, layout: int) -> None:
    for seqlen in ((1, 1), (1, 5000), (1003, 7)):
        for name, causal in (("full", 0), ("tma", 0), ("causal", 1), ("causal", 2), ("tma causal", 2)):
            assert host.plan(INDEX[name], call(seqlen=seqlen, causal=causal, layout=layout)) is not None


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("full", call(causal=1)),  # another mask than the kernel's
        ("full", call(causal=2)),
        ("causal", call(causal=0)),
        ("tma", call(heads=(16, 4))),  # its strides have no place for groups
        ("full", call(heads=(16, 3))),
        ("full", call(head_dim=128)),  # wider than the tile
        ("full", call(head_dim=60)),  # rows of 120 bytes
        ("full", call(seqlen=(16, 0))),
        ("full", call(scale=0.0)),
        ("full", call(scale=float("nan"))),
        ("full", call(scale=float("inf"))),
        ("full", call(batch=1 << 16, heads=(1, 1), seqlen=(8, 8))),  # the grid's y
        ("full", call(batch=1 << 11, seqlen=(1 << 10, 1 << 10))),  # 2^31 elements
        ("full", call(seqlen=(1, 1 << 21), heads=(16, 16), batch=1 << 40)),
    ],
)
def test_a_call_that_the_kernel_cannot_do_is_refused(host: HostLibrary, name: str, refused: Call) -> None:
    assert host.plan(INDEX[name], refused) is None
    with pytest.raises(ValueError, match="status 1"):
        room = ctypes.create_string_buffer(8192)
        host.fill(INDEX[name], refused, (ctypes.addressof(room) + 127) // 128 * 128)


@pytest.mark.parametrize("name", KERNELS)
def test_the_masks_leave_each_row_the_keys_it_must_see(path: Path, name: str) -> None:
    """Bottom-right and top-left, ragged lengths, rows without a key, tiles that do not divide each other."""
    count = getattr(ctypes.CDLL(str(path)), f"wrong_{INDEX[name]}")
    count.restype = ctypes.c_int64
    lengths = [
        (1, 1),
        (63, 391),
        (389, 130),
        (300, 300),
        (257, 513),
        (128, 80),
        (256, 256),
        (129, 1),
        (241, 241),
        (225, 225),
    ]
    for seqlen_q, seqlen_kv in lengths:
        for diagonal in (seqlen_kv - seqlen_q, 0):
            assert count(seqlen_q, seqlen_kv, diagonal) == 0


def test_grouped_heads_share_keys_and_values(path: Path, tmp_path: Path) -> None:
    """12 query heads read 3 KV heads. Q is (dim, row, batch, head of a group, group); K lacks the fourth."""
    made = "call(2, (12, 3), (100, 70), 64, layout={})"
    status, _, maps = filled(path, tmp_path, "full", made.format("BSHD"))
    assert status == 0
    row, row_kv = 12 * 64 * 2, 3 * 64 * 2
    assert (Q, (64, 100, 2, 4, 3), (row, 100 * row, 128, 4 * 128), (64, 64, 1, 1, 1)) in maps
    for address in (K, V):
        assert (address, (64, 70, 2, 3), (row_kv, 70 * row_kv, 128), (64, 128, 1, 1)) in maps
    assert (O, (64, 100, 2, 12), (row, 100 * row, 128)) in {found[:3] for found in maps}

    status, _, maps = filled(path, tmp_path, "full", made.format("BHSD"))
    assert status == 0
    head, head_kv = 100 * 128, 70 * 128
    assert (Q, (64, 100, 2, 4, 3), (128, 12 * head, head, 4 * head), (64, 64, 1, 1, 1)) in maps
    for address in (K, V):
        assert (address, (64, 70, 2, 3), (128, 3 * head_kv, head_kv), (64, 128, 1, 1)) in maps
    assert (O, (64, 100, 2, 12), (128, 12 * head, head)) in {found[:3] for found in maps}


def test_a_cluster_fetches_halves_of_the_keys(path: Path, tmp_path: Path) -> None:
    status, _, maps = filled(path, tmp_path, "tma causal", "call(2, (3, 3), (100, 70), 64, causal=1)")
    assert status == 0
    row = 3 * 64 * 2
    for address in (K, V):
        assert (address, (64, 70, 2, 3), (row, 70 * row, 128)) in {found[:3] for found in maps}
    assert 56 in {box[1] for address, _, _, box in maps if address == K}


@pytest.mark.parametrize(("causal", "diagonal"), [(1, 2025), (2, 0)])
def test_params_hold_scale_diagonal_and_heads(path: Path, tmp_path: Path, causal: int, diagonal: int) -> None:
    made = f"call(3, (12, 4), (1000, 3025), 128, causal={causal}, scale=0.25)"
    status, params, _ = filled(path, tmp_path, "causal", made)
    assert status == 0
    words = [params[at : at + 4] for at in range(0, len(params), 4)]
    heads = [number.to_bytes(4, "little", signed=True) for number in (3, 4, diagonal)]
    assert heads in [words[at : at + 3] for at in range(len(words) - 2)]  # group, heads_kv, diagonal
    scales = [bytes(ctypes.c_float(value)) for value in (0.25, 0.25 * 1.4426950408889634)]
    assert scales in [words[at : at + 2] for at in range(len(words) - 1)]


def test_a_tensor_map_that_the_driver_refuses_is_told(path: Path, tmp_path: Path) -> None:
    status, _, maps = filled(path, tmp_path, "full", "call()", FAKE_DRIVER_REFUSES="1")
    assert status == 2
    assert maps
