"""What an op knows about one kernel family, as pure functions over columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cutlass_tuner.ops.columns import Columns, FloatArray
from cutlass_tuner.ops.rule import Rule
from cutlass_tuner.records import DeviceFacts, Problem, Scalar

Facts = Callable[[Columns, Problem | None, DeviceFacts], dict[str, object]]
"""Of a single config: what the {placeholders} of the rules' reasons may name, besides its knobs."""


@dataclass(frozen=True)
class Family:
    """`resolve(kernels, device)` makes raw kernel knobs effective (stages "auto" becomes a number);
    `fold_launch(configs, problem, device)` makes launch knobs effective beside effective kernel knobs;
    `estimate_us(kernels, problem, device)` guesses each effective kernel's best time, in microseconds.

    `given` names the kernel knobs that a problem decides, each with its value: a kernel serves only problems
    that give it its own. A rule of the knob's name says so of the others; nobody chooses such a knob.
    `needs` names kernel knobs that do nothing unless another one has a value (and does something itself), so
    that their values are not tried one by one where they are the same kernel.
    """

    rules: Mapping[str, Rule]
    facts: Facts
    resolve: Callable[[Columns, DeviceFacts], Columns]
    fold_launch: Callable[[Columns, Problem, DeviceFacts], Columns]
    estimate_us: Callable[[Columns, Problem, DeviceFacts], FloatArray]
    given: Mapping[str, Callable[[Problem], Scalar]] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, Scalar]] = field(default_factory=dict)
