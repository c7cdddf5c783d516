"""What is emitted: golden sources, and what a knob changes in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, Scalar
from emit.kernels import HALF, KERNELS, kernel

EMITTER = EMITTERS["gemm3x"]
GOLDEN = Path(__file__).parent / "golden"
ROW, COLUMN = "cutlass::layout::RowMajor", "cutlass::layout::ColumnMajor"


@pytest.mark.parametrize("name", ["cooperative", "streamk", "plain", "swapped"])
def test_the_device_source_is_as_recorded(name: str) -> None:
    """After a wanted change: UPDATE_GOLDEN=1 pytest tests/emit, then read the difference."""
    source = EMITTER.device_source([KERNELS[name]], HALF)
    recorded = GOLDEN / f"{name}.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        recorded.write_text(source)
    assert source == recorded.read_text()


def types(contract: Contract = HALF, **changes: Scalar) -> str:
    made = kernel((128, 128, 64), **changes)
    return EMITTER.type_definitions(made, contract).replace(EMITTER.symbol(made), "K")


def mainloop_operands(text: str) -> list[str]:
    """Element and layout of the mainloop's A and B."""
    lines = [line.strip() for line in text.split("_mainloop =")[1].splitlines()]
    return lines[3:5]


@pytest.mark.parametrize(
    ("layout", "a", "b"), [("tn", ROW, COLUMN), ("tt", ROW, ROW), ("nn", COLUMN, COLUMN), ("nt", COLUMN, ROW)]
)
def test_layout_words(layout: str, a: str, b: str) -> None:
    assert mainloop_operands(types(layout=layout)) == [
        f"cutlass::half_t, {a}, 8,",
        f"cutlass::half_t, {b}, 8,",
    ]
    assert f"cutlass::half_t, {ROW}, 8," in types(layout=layout).split("_mainloop =")[0]


@pytest.mark.parametrize(
    ("layout", "a", "b"), [("tn", ROW, COLUMN), ("tt", COLUMN, COLUMN), ("nn", ROW, ROW), ("nt", COLUMN, ROW)]
)
def test_swapping_transposes_every_operand(layout: str, a: str, b: str) -> None:
    text = types(layout=layout, swap_ab=True)
    assert mainloop_operands(text) == [f"cutlass::half_t, {a}, 8,", f"cutlass::half_t, {b}, 8,"]
    assert f"cutlass::half_t, {COLUMN}, 8," in text.split("_mainloop =")[0]


def test_swapping_trades_element_types() -> None:
    mixed = Contract(elements={"a": "f16", "b": "bf16", "d": "bf16"}, accumulator="f32")
    assert [line.split(",")[0] for line in mainloop_operands(types(mixed))] == [
        "cutlass::half_t",
        "cutlass::bfloat16_t",
    ]
    assert [line.split(",")[0] for line in mainloop_operands(types(mixed, swap_ab=True))] == [
        "cutlass::bfloat16_t",
        "cutlass::half_t",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"schedule": "plain"},
            ["gemm::KernelTmaWarpSpecialized\n", "epilogue::TmaWarpSpecialized,", "    void>;"],
        ),
        ({"schedule": "pingpong"}, ["KernelTmaWarpSpecializedPingpong\n", "epilogue::TmaWarpSpecialized,"]),
        ({}, ["KernelTmaWarpSpecializedCooperative\n", "epilogue::TmaWarpSpecializedCooperative,"]),
        (
            {"epilogue": "nosmem"},
            ["KernelTmaWarpSpecializedCooperative\n", "epilogue::NoSmemWarpSpecialized,"],
        ),
        ({"scheduler": "streamk"}, ["cutlass::gemm::StreamKScheduler>;"]),
        ({"cluster_m": 2, "cluster_n": 4}, ["cute::Shape<cute::_2, cute::_4, cute::_1>"]),
        ({"stages": 3}, ["cutlass::gemm::collective::StageCount<3>"]),
    ],
)
def test_each_knob_reaches_the_types(changes: dict[str, Scalar], words: list[str]) -> None:
    text = types(**changes)
    for word in words:
        assert word in text


def test_symbols_are_alike_and_every_compilers_message_names_one() -> None:
    for each in KERNELS.values():
        symbol = EMITTER.symbol(each)
        assert symbol == f"cutlass_tuner_tma_ws_{each.digest}"
        for source in (EMITTER.device_source([each], HALF), EMITTER.host_source([each], HALF)):
            assert f'#line 1 "{symbol}"\n' in source


def test_the_table_of_kernels_is_no_kernels_fault() -> None:
    """Else an error in one row would be blamed on the kernel that happens to be last."""
    source = EMITTER.host_source(list(KERNELS.values()), HALF)
    table = source[source.index("kKernels") :]
    before = source[: source.index("kKernels")]
    assert before.rsplit("#line", 1)[1].startswith(' 1 "host.cpp"')
    assert "#line" not in table


def test_siblings_differ_in_what_is_cheap() -> None:
    key = EMITTER.batch_key(KERNELS["cooperative"])
    assert key == EMITTER.batch_key(KERNELS["streamk"]) == EMITTER.batch_key(KERNELS["nosmem"])
    assert EMITTER.batch_key(kernel((128, 128, 64))) == key
    assert EMITTER.batch_key(kernel((128, 64, 64))) != key
    for name, value in (("schedule", "pingpong"), ("swap_ab", True), ("layout", "tt")):
        assert EMITTER.batch_key(kernel((128, 128, 64), **{name: value})) != key


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stages": "auto"}, "knob stages = 'auto'"),
        ({"stages": 0}, "knob stages = 0"),
        ({"tile_m": True}, "knob tile_m = True"),
        ({"swap_ab": 1}, "knob swap_ab = 1"),
        ({"schedule": "other"}, "one of plain, pingpong, cooperative is needed"),
    ],
)
def test_a_knob_that_cannot_be_emitted_is_named(changes: dict[str, Scalar], said: str) -> None:
    with pytest.raises(UserError, match=said):
        types(**changes)


def test_a_contract_that_cannot_be_emitted_is_named() -> None:
    with pytest.raises(UserError, match="accumulator f16"):
        types(HALF.model_copy(update={"accumulator": "f16"}))
    with pytest.raises(UserError, match="element type s8"):
        types(HALF.model_copy(update={"elements": {"a": "s8", "b": "f16", "d": "f16"}}))
