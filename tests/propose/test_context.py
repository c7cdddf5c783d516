"""What a proposer is told of GPU, op, space, rules and shapes: all of it, and nothing a user typed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.hgemm.problem import problem
from cutlass_tuner.propose.context import Context, Past, gpu, operation, past, rules, shapes, space
from cutlass_tuner.propose.schema import asked_knobs, shape_ids
from cutlass_tuner.records import Config, KernelConfig, LaunchConfig, Problem, Scalar
from cutlass_tuner.space.knobs import spelled
from propose.replies import DEVICE, LARGE, OTHER_LAYOUT, PROBLEMS, SKINNY, SPACE, effective, two_families

H200 = DEVICE.model_copy(update={"name": "NVIDIA H200", "l2_bytes": 60 << 20})
CONTEXT = Context(SPACE.op, SPACE, PROBLEMS, H200, "cold")
FAMILY = SPACE.family()


def tables(text: str) -> list[list[dict[str, str]]]:
    """Every Markdown table of a text, a dict by column for each row."""
    found = []
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines())
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def config(on: Problem, *, launch: dict[str, Scalar] | None = None, **knobs: Scalar) -> Config:
    """An effective config of the shipped space on a problem, from what it was asked for."""
    kernel = effective(**{"layout": on.layout, **knobs})
    asked = SPACE.launch(**(launch or {}))
    return Config(kernel=kernel, launch=SPACE.effective_launch(kernel, asked, on, H200))


# --- GPU and op ------------------------------------------------------------------------------------


def test_the_gpu_and_what_was_measured_on_it() -> None:
    facts = gpu(CONTEXT)
    for fact in ("NVIDIA H200 (sm_90a)", "132 SMs", "60 MB L2", "232,448 bytes", "1980 MHz"):
        assert fact in facts
    assert "reading 1, 2, 4, 8, 16, 32, 64, 128, 256 MB from DRAM takes 1.64, 1.89, 2.37, 3.35" in facts
    assert "an empty kernel takes 0.52 us" in facts and "700 TFLOP/s" in facts


def test_nothing_is_said_to_be_measured_on_another_gpu() -> None:
    facts = gpu(replace(CONTEXT, device=DEVICE))
    assert facts.startswith("any sm_90a GPU (sm_90a): 132 SMs, 50 MB L2")
    assert "Measured" not in facts and "\n" not in facts


def test_the_op_and_where_its_operands_are() -> None:
    assert operation(CONTEXT) == (
        "`hgemm`: fp16 x fp16 -> fp16 matrix product, fp32 accumulation (A f16, B f16, D f16; accumulator "
        "f32). Timed with the operands out of the L2 cache. The layout is the problem's and is no knob of "
        "yours."
    )
    assert "operands in the L2 cache" in operation(replace(CONTEXT, l2="warm"))


# --- space and rules -------------------------------------------------------------------------------


@pytest.mark.parametrize("knobs", [asked_knobs(FAMILY), FAMILY.launch], ids=["kernel", "launch"])
def test_every_knob_stands_there_with_its_values_default_and_meaning(knobs: dict) -> None:  # type: ignore[type-arg]
    told = space(CONTEXT).splitlines()
    for name, knob in knobs.items():
        [line] = [line for line in told if line.startswith(f"- `{name}`: ")]
        values, default, doc = re.fullmatch(r"- `\w+`: (.*?) \(default (\w+)\)\. (.*)", line).groups()  # type: ignore[union-attr]
        assert values.split(", ") == [spelled(value) for value in knob.values]
        assert (default, doc) == (spelled(knob.default), knob.doc)


def test_launch_knobs_are_told_from_compile_time_knobs_and_the_layout_is_none() -> None:
    kernel, launch = space(CONTEXT).split("Launch knobs, free to change:")
    assert re.findall(r"^- `(\w+)`", kernel, re.MULTILINE) == list(asked_knobs(FAMILY))
    assert re.findall(r"^- `(\w+)`", launch, re.MULTILINE) == list(FAMILY.launch)
    assert "layout" not in space(CONTEXT)


def test_every_rule_stands_under_its_kind_but_the_one_about_layouts() -> None:
    refused, slow = rules(CONTEXT).split("and may be built, but is expected to be slow")
    for text, kind in ((refused, "illegal"), (slow, "unwise")):
        names = re.findall(r"^- (\w+): ", text, re.MULTILINE)
        assert names == [
            rule.name for rule in FAMILY.rules.values() if rule.kind == kind and rule.name != "layout"
        ]
    assert len(re.findall("^- ", rules(CONTEXT), re.MULTILINE)) == len(FAMILY.rules) - 1


def test_placeholders_are_shown_as_quantities() -> None:
    told = rules(CONTEXT)
    assert "needs <smem_bytes> bytes of shared memory with <stages> stages, a block has <smem_limit>" in told
    assert "{" not in told and "}" not in told


def test_every_family_has_its_knobs_and_rules() -> None:
    context = replace(CONTEXT, space=two_families(tile_m=(64,)))
    first, second = space(context).split("Family `second`: ")
    assert "- `tile_m`: 64, 128, 256 (default 128)" in first
    assert "- `tile_m`: 64 (default 64)" in second
    assert rules(context).count("smem_capacity") == 2
    assert "A config of `second` is refused" in rules(context)


def test_a_narrowed_space_is_told_as_it_is() -> None:
    held = replace(CONTEXT, space=SPACE.restrict({"schedule": "pingpong", "splits": (1, 4)}))
    assert "- `schedule`: pingpong (default pingpong)" in space(held)
    assert "- `splits`: 1, 4 (default 1)" in space(held)


# --- shapes ----------------------------------------------------------------------------------------


def test_shapes_stand_by_regime_under_the_names_of_the_schema() -> None:
    told = shapes(CONTEXT)
    assert re.findall(r"^### ([\w -]+): ", told, re.MULTILINE) == ["compute-bound", "skinny", "tiny"]
    rows = {row["shape"]: row for group in tables(told) for row in group}
    names = shape_ids(PROBLEMS)
    assert list(rows) == list(names)
    for name, one in names.items():
        assert [rows[name][dim] for dim in "mnk"] == [str(one.dims[dim]) for dim in "mnk"]
        assert rows[name]["layout"] == one.layout
        assert CONTEXT.names[one.key] == name
    assert rows["s1"]["roofline us"] == "196" and rows["s1"]["waves 128x128"] == "7.76"


def test_shapes_of_one_regime_share_a_table_in_their_order() -> None:
    context = replace(CONTEXT, problems=(SKINNY, LARGE, problem((32, 4096, 4096))))
    groups = [[row["shape"] for row in group] for group in tables(shapes(context))]
    assert groups == [["s1", "s3"], ["s2"]]


def test_batches_are_a_column_where_there_are_any() -> None:
    batched = problem((16, 4096, 4096, 3))
    context = replace(CONTEXT, problems=(LARGE, SKINNY, batched))
    large, skinny = tables(shapes(context))
    assert "batch" not in large[0]
    assert [(row["shape"], row["batch"]) for row in skinny] == [("s2", "1"), ("s3", "3")]
    assert [row["k"] for row in skinny] == ["4096", "4096"]


def test_the_roofline_is_explained_where_it_is_known() -> None:
    assert "`roofline us` is" in shapes(CONTEXT)
    assert "roofline" not in shapes(replace(CONTEXT, device=DEVICE))


# --- configs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "knobs, text",
    [
        ({}, "default"),
        ({"tile_m": 64, "schedule": "plain", "swap_ab": True}, "tile_m=64 schedule=plain swap_ab=true"),
        ({"tile_n": 256}, "tile_n=256"),  # as deep as "auto" makes it
        ({"tile_n": 256, "stages": 3}, "tile_n=256 stages=3"),
        ({"layout": "tt", "cluster_m": 1}, "cluster_m=1"),  # the layout is the problem's
    ],
)
def test_a_kernel_is_spelled_as_it_would_be_asked_for(knobs: dict[str, Scalar], text: str) -> None:
    assert CONTEXT.kernel_text(effective(**knobs)) == text


def test_stages_are_spelled_wherever_auto_means_another_number() -> None:
    """The default kernel's own stages, on a smaller tile: they are no default there."""
    stages = effective().knobs["stages"]
    assert CONTEXT.kernel_text(effective(tile_n=64, stages=stages)) == f"tile_n=64 stages={stages}"


def test_what_is_spelled_is_the_kernel_again() -> None:
    for knobs in ({"tile_n": 192, "stages": 4}, {"schedule": "plain", "stages": "two_ctas", "tile_m": 64}):
        kernel = effective(**knobs)
        again = dict(pair.split("=") for pair in CONTEXT.kernel_text(kernel).split())
        assert effective(**SPACE.parse_all(again)) == kernel


@pytest.mark.parametrize(
    "knobs, launch, text",
    [
        ({}, {}, "default"),  # though it is along_m, say, in effect
        ({}, {"swizzle": 4}, "swizzle=4"),
        ({"scheduler": "streamk"}, {"splits": 4}, "splits=4"),
        ({"scheduler": "streamk"}, {"splits": 4, "decomposition": "split_k"}, "splits=4"),
        ({"schedule": "plain", "tile_m": 64}, {"swizzle": 8}, "default"),  # without a scheduler
    ],
)
def test_a_launch_is_spelled_as_it_would_be_asked_for(
    knobs: dict[str, Scalar], launch: dict[str, Scalar], text: str
) -> None:
    assert CONTEXT.launch_text(config(LARGE, launch=launch, **knobs), LARGE) == text


def test_the_family_is_named_where_there_are_several() -> None:
    context = replace(CONTEXT, space=two_families(tile_m=(64,)))
    assert context.kernel_text(effective(tile_n=64)) == "tma_ws: tile_n=64"
    second = effective(tile_m=64).model_copy(update={"family": "second"})
    assert context.kernel_text(second) == "second: default"


def test_a_kernel_of_another_space_cannot_be_spelled() -> None:
    with pytest.raises(UserError):
        CONTEXT.kernel_text(KernelConfig(family="tma_ws", knobs={"tile_m": 64}))


# --- earlier studies -------------------------------------------------------------------------------


def test_nearby_shapes_with_their_winners() -> None:
    before = problem((1024, 1024, 2048), "tt").model_copy(update={"name": "mlp up"})
    winner = config(before, tile_n=64, launch={"swizzle": 2})
    told = past(replace(CONTEXT, past=(Past(before, winner, 1.0239),)))
    [[row]] = tables(told)
    assert list(row.values()) == ["1024x1024x2048", "tt", "1.024", "tile_n=64", "swizzle=2"]
    assert told.startswith("\n## Nearby shapes tuned earlier on this GPU\n\n") and told.endswith("|\n")


def test_without_earlier_studies_there_is_no_section() -> None:
    assert past(CONTEXT) == ""


def test_winners_that_this_space_cannot_spell_are_left_out() -> None:
    other = KernelConfig(family="mma", knobs={"tile_m": 64})
    knobless = KernelConfig(family="tma_ws", knobs={"tile_m": 64})
    strange = KernelConfig(family="tma_ws", knobs={**effective().knobs, "schedule": "magic"})
    launch = config(LARGE).launch
    odd_launch = Config(kernel=effective(), launch=LaunchConfig(knobs={"warps": 4}))
    lost = [Config(kernel=kernel, launch=launch) for kernel in (other, knobless, strange)]
    known = Past(OTHER_LAYOUT, config(OTHER_LAYOUT), 1.1)
    foreign = tuple(Past(LARGE, one, 9.0) for one in (*lost, odd_launch))
    assert past(replace(CONTEXT, past=foreign)) == ""
    [[row]] = tables(past(replace(CONTEXT, past=(*foreign, known))))
    assert row["torch / ours"] == "1.100"
