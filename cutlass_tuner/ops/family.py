"""What an op knows about one kernel family, as pure functions over columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cutlass_tuner.ops.columns import Columns, FloatArray
from cutlass_tuner.ops.rule import Rule
from cutlass_tuner.records import DeviceFacts, Problem

Facts = Callable[[Columns, Problem | None, DeviceFacts], dict[str, object]]
"""Of a single config: what the {placeholders} of the rules' reasons may name, besides its knobs."""


@dataclass(frozen=True)
class Family:
    """`resolve(kernels, device)` makes raw kernel knobs effective (stages "auto" becomes a number);
    `fold_launch(configs, problem, device)` makes launch knobs effective beside effective kernel knobs;
    `estimate_us(kernels, problem, device)` guesses each effective kernel's best time, in microseconds.
    """

    rules: Mapping[str, Rule]
    facts: Facts
    resolve: Callable[[Columns, DeviceFacts], Columns]
    fold_launch: Callable[[Columns, Problem, DeviceFacts], Columns]
    estimate_us: Callable[[Columns, Problem, DeviceFacts], FloatArray]
