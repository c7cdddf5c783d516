"""Replies to read: a good idea to spoil, and replies drawn from a schema."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cutlass_tuner.ideas import Rejection
from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.hgemm.problem import problem
from cutlass_tuner.propose.reply import Reading, read
from cutlass_tuner.records import KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space

SPACE = Space.of("hgemm", "sm_90a")
DEVICE = nominal_device("sm_90a")
LARGE, SKINNY, OTHER_LAYOUT = (
    problem((4096, 4096, 4096)),
    problem((16, 4096, 4096)),
    problem((1024, 1024, 1024), "tt"),
)
PROBLEMS = (LARGE, SKINNY, OTHER_LAYOUT)

Json = Any


def kernel(**knobs: object) -> dict[str, Json]:
    """A config's kernel: the space's default but for these knobs."""
    asked = {knob.name: knob.default for knob in SPACE.kernel_knobs() if knob.name != "layout"}
    return {**asked, **knobs}


def launch(**knobs: object) -> dict[str, Json]:
    return {**{knob.name: knob.default for knob in SPACE.launch_knobs()}, **knobs}


def config(*launches: Mapping[str, Json], **knobs: object) -> dict[str, Json]:
    return {"kernel": kernel(**knobs), "launches": list(launches)}


def condition(knob: str, *values: object) -> dict[str, Json]:
    return {"knob": knob, "values": list(values)}


def idea(**fields: object) -> dict[str, Json]:
    """A good idea about s1 with one kernel, but for these fields."""
    good = {
        "id": "wide-tiles",
        "parent": "",
        "hypothesis": "Wide tiles reuse more of B.",
        "bottleneck": "l2",
        "family": "tma_ws",
        "shapes": ["s1"],
        "expected": 1.05,
        "configs": [config(tile_n=256)],
        "allow": [],
        "couplings": [],
    }
    return {**good, **fields}


def text(*ideas: Json, drop: Sequence[object] = ()) -> str:
    return json.dumps({"ideas": list(ideas), "drop": list(drop)})


def reading(
    *ideas: Json,
    drop: Sequence[object] = (),
    known: Mapping[str, str] | None = None,
    earlier: Collection[str] = (),
    problems: Sequence[Problem] = PROBLEMS,
    space: Space = SPACE,
) -> Reading:
    return read(text(*ideas, drop=drop), space, problems, DEVICE, known=known or {}, ideas=earlier)


def two_families(**knobs_of_second: tuple[int, ...]) -> Space:
    """The shipped space and a second family of the same rules, whose knobs have other values."""
    first = SPACE.family()
    kernel_knobs = {
        name: knob.narrowed(knobs_of_second[name]) if name in knobs_of_second else knob
        for name, knob in first.kernel.items()
    }
    second = replace(first, name="second", kernel=kernel_knobs)
    models = SPACE.op.families
    doubled = replace(SPACE.op, families={**models, "second": models["tma_ws"]})
    return replace(SPACE, op=doubled, families={"tma_ws": first, "second": second})


def effective(**knobs: Scalar) -> KernelConfig:
    return SPACE.effective(SPACE.kernel(**knobs), DEVICE)


def rejections(found: Reading) -> list[tuple[str, str, str]]:
    return [(one.idea, one.what, one.reason) for one in found.rejected]


def only_rejection(found: Reading) -> Rejection:
    assert len(found.rejected) == 1, rejections(found)
    return found.rejected[0]


def distinct_configs(count: int) -> list[Any]:
    """Configs of distinct kernels, legal or not."""
    widths = SPACE.family().kernel["tile_n"].values
    stages = (2, 3, 4)
    clusters = (1, 2, 4, 8)
    grid = [
        config(tile_n=n, stages=s, cluster_m=c, schedule="pingpong")
        for n in widths
        for s in stages
        for c in clusters
    ]
    assert len(grid) >= count
    return grid[:count]


class Sampler:
    """Draws values that fit a schema. Strings are what their field needs: the schema says no more."""

    def __init__(self, schema: Mapping[str, Json], seed: int) -> None:
        self._schema, self._rng, self._ids = schema, random.Random(seed), 0

    def reply(self) -> Json:
        return self._draw(self._schema, "")

    def _draw(self, schema: Mapping[str, Json], field: str) -> Json:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            return self._draw(self._schema["$defs"][name], field)
        if "anyOf" in schema:
            return self._draw(self._rng.choice(schema["anyOf"]), field)
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        if schema["type"] == "object":
            return {name: self._draw(one, name) for name, one in schema["properties"].items()}
        if schema["type"] == "array":
            count = 0 if field == "drop" else self._rng.randint(1, 4)
            return [self._draw(schema["items"], field) for _ in range(count)]
        return self._rng.uniform(0.1, 9) if schema["type"] == "number" else self._string(field)

    def _string(self, field: str) -> str:
        self._ids += 1
        return {"id": f"idea.{self._ids}", "parent": ""}.get(field, "Words, \u00e9t\u00e9, 块.\n\tMore.")
