"""Every ingredient of a build changes the cache's key, and nothing else does."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from build.fakes import CONTRACT, FakeSources, builder, kernel
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.key import Ingredients
from cutlass_tuner.build.toolchain import Cutlass, Tool

BASE = Ingredients(
    device_source="d",
    host_source="h",
    headers={"abi.h": "1", "shim.h": "2"},
    device_flags=("-O3", "-DNDEBUG"),
    host_flags=("-O1",),
    arch="sm_90a",
    compiler="nvcc 13.0.88, g++ 12.2.0",
    cutlass="4.2.0 0123",
)
CHANGED: dict[str, Any] = {
    "device_source": "d ",
    "host_source": "h2",
    "headers": {"abi.h": "1", "shim.h": "3"},
    "device_flags": ("-O3",),
    "host_flags": ("-O2",),
    "arch": "sm_100a",
    "compiler": "nvcc 13.0.89, g++ 12.2.0",
    "cutlass": "4.2.1 0123",
    "format": 99,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Ingredients)])
def test_each_ingredient_changes_the_key(name: str) -> None:
    assert replace(BASE, **{name: CHANGED[name]}).key != BASE.key


def test_text_cannot_move_between_ingredients() -> None:
    assert (
        replace(BASE, device_source="dh", host_source="").key
        != replace(BASE, host_source="dh", device_source="").key
    )


def test_equal_ingredients_have_equal_keys() -> None:
    assert replace(BASE, headers={"shim.h": "2", "abi.h": "1"}).key == BASE.key


def mutations(base: Builder) -> dict[str, Builder]:
    """A builder for each thing that a user may change between two runs."""
    tools = base.toolchain

    def with_tools(**changes: Any) -> Builder:
        return replace(base, toolchain=replace(tools, **changes))

    return {
        "nvcc version": with_tools(nvcc=Tool(tools.nvcc.path, "13.1.0", "test")),
        "g++ version": with_tools(gxx=Tool(tools.gxx.path, "99.0.0", "test")),
        "CUTLASS version": with_tools(headers=Cutlass(tools.headers.root, "4.3.0", "0123", "test")),
        "CUTLASS headers": with_tools(headers=Cutlass(tools.headers.root, "4.2.0", "4567", "test")),
        "defines": with_tools(defines=("-DNDEBUG",)),
        "arch": replace(base, arch="sm_100a"),
        "contract": replace(base, contract=CONTRACT.model_copy(update={"accumulator": "f16"})),
    }


def test_the_builder_puts_each_of_them_in(tmp_path: Path) -> None:
    base = builder(tmp_path)
    keys = {name: made.key(kernel(1)) for name, made in mutations(base).items()}
    keys |= {"nothing": base.key(kernel(1)), "kernel": base.key(kernel(2))}
    assert len(set(keys.values())) == len(keys), keys


def test_paths_and_limits_are_not_part_of_it(tmp_path: Path) -> None:
    here, there = builder(tmp_path / "a", 1), builder(tmp_path / "b", 2, FakeSources())
    assert here.key(kernel(1)) == there.key(kernel(1))
