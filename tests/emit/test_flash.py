"""Template flash: what is emitted, and what is refused."""

from __future__ import annotations

import pytest

from cutlass_tuner.emit.flash import Flash
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, Scalar
from emit.attention_kernels import HALF, contract
from emit.flash.kernels import kernel

TEMPLATE = Flash()


def arguments(of: Contract = HALF, /, **changes: Scalar) -> list[str]:
    """Template arguments of flash::Knobs in a kernel's text."""
    text = TEMPLATE.device_text(kernel(**changes), of)
    [line] = [line for line in text.splitlines() if "flash::Knobs<" in line]
    return line.partition("Knobs<")[2].removesuffix(">;").split(", ")


NAMES = (
    *("element", "head_dim", "mask", "groups", "tile_kv", "stages", "q_stages", "blocks_per_sm"),
    *("overlap", "pingpong", "lazy_rescale", "exp_fma"),
)
"""As traits.h declares them."""


def test_the_arguments_come_in_the_order_of_the_template() -> None:
    said = dict(zip(NAMES, arguments(), strict=True))
    assert said.pop("element") == "cutlass_tuner::flash::Element::kF16"
    assert said == {
        "head_dim": "128",
        "mask": "true",
        "groups": "2",
        "tile_kv": "128",
        "stages": "2",
        "q_stages": "1",
        "blocks_per_sm": "1",
        "overlap": "true",
        "pingpong": "true",
        "lazy_rescale": "false",
        "exp_fma": "0",
    }
    header = next(path for path in TEMPLATE.headers if path.name == "traits.h").read_text()
    declared = header[header.index("template <") : header.index("struct Knobs")].split("_,")
    words = [one.split()[-1].removesuffix("_>") for one in declared]
    assert [word.lower() for word in words] == [
        "k" + {"mask": "causal"}.get(name, name).replace("_", "") for name in NAMES
    ]


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("head_dim", 64, "64"),
        ("mask", "full", "false"),
        ("tile_kv", 80, "80"),
        ("stages", 5, "5"),
        ("q_stages", 2, "2"),
        ("blocks_per_sm", 3, "3"),
        ("overlap", False, "false"),
        ("pingpong", False, "false"),
        ("lazy_rescale", True, "true"),
        ("exp_fma", 3, "3"),
    ],
)
def test_every_knob_is_its_own_argument(knob: str, value: Scalar, said: str) -> None:
    before, after = arguments(), arguments(**{knob: value})
    assert {name for name, a, b in zip(NAMES, before, after, strict=True) if a != b} == {knob}
    assert after[NAMES.index(knob)] == said


def test_groups_and_rows_go_together() -> None:
    assert arguments(groups=4, tile_q=256)[NAMES.index("groups")] == "4"
    with pytest.raises(UserError, match=r"^knob tile_q of attention:.*64 rows a group$"):
        arguments(tile_q=192)


def test_what_only_example88_has_changes_nothing() -> None:
    assert arguments() == arguments(schedule="tma", locked=True, persistent=True, cluster_m=2)


def test_the_text_names_the_kernel_to_whoever_reads_a_compilers_message() -> None:
    symbol = TEMPLATE.symbol(kernel())
    text = TEMPLATE.device_text(kernel(), HALF)
    assert f'#line 1 "{symbol}"' in text
    assert f"\n{symbol}(__grid_constant__ cutlass_tuner::flash::Params const params)" in text
    bounds = f"__launch_bounds__({symbol}_t::kThreads, {symbol}_t::kBlocksPerSM)"
    assert bounds in text and f"attention<{symbol}_t>(params, smem)" in text


def test_elements() -> None:
    assert arguments(contract("bf16"))[0].endswith("kBF16")
    mixed = HALF.model_copy(update={"elements": {**HALF.elements, "v": "bf16"}})
    for refused in (contract("f8e4m3"), mixed, HALF.model_copy(update={"accumulator": "f16"})):
        with pytest.raises(UserError, match=r"^element types .*: template flash takes one of f16, bf16") as e:
            arguments(refused)
        assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stages": 0}, "stages = 0"),
        ({"stages": True}, "stages = True"),
        ({"q_stages": "2"}, "q_stages = '2'"),
        ({"tile_kv": -16}, "tile_kv = -16"),
        ({"groups": None}, "groups = None"),
        ({"exp_fma": -1}, "exp_fma = -1"),
        ({"mask": "window"}, "mask = 'window'"),
        ({"overlap": 1}, "overlap = 1"),
        ({"pingpong": "yes"}, "pingpong = 'yes'"),
    ],
)
def test_a_knob_of_no_such_value_is_one_line(changes: dict[str, Scalar], told: str) -> None:
    config = kernel()
    broken = config.model_copy(update={"knobs": {**config.knobs, **changes}})
    with pytest.raises(UserError, match=f"^knob {told} of attention:") as error:
        TEMPLATE.device_text(broken, HALF)
    assert "\n" not in str(error.value)


def test_kernels_of_equal_operands_are_one_batch() -> None:
    def key(**changes: Scalar) -> str:
        return TEMPLATE.batch_key(kernel(**changes))

    assert key() == key(stages=5) == key(overlap=False) == key(groups=3, tile_q=192)
    assert len({key(), key(tile_kv=64), key(mask="full"), key(head_dim=64)}) == 4
