"""The answer of `Space.check`: which rules a config breaks, and why that matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutlass_tuner.ops.columns import Columns
from cutlass_tuner.ops.family import Family
from cutlass_tuner.records import DeviceFacts, Problem
from cutlass_tuner.space.knobs import FamilySpace, spelled


@dataclass(frozen=True)
class Broken:
    """A rule that a config breaks, with the reason filled in for it."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Legality:
    """`illegal`: will not compile, launch or be right. `unwise`: will, but is expected to be slow."""

    illegal: tuple[Broken, ...] = ()
    unwise: tuple[Broken, ...] = ()

    @property
    def legal(self) -> bool:
        return not self.illegal


def judge(
    family: FamilySpace,
    model: Family,
    config: Columns,
    *,
    launched: bool,
    problem: Problem | None,
    device: DeviceFacts,
) -> Legality:
    """Every rule that applies to one effective kernel (and, when `launched`, its raw launch knobs)."""
    broken: dict[str, list[Broken]] = {"illegal": [], "unwise": []}
    facts: Mapping[str, object] | None = None
    for name, rule in model.rules.items():
        if (rule.scope == "problem" and problem is None) or (rule.scope == "launch" and not launched):
            continue
        if rule.broken(config, problem, device).any():
            facts = facts or _facts(model, config, problem, device)
            text = family.rules[name]
            broken[text.kind].append(Broken(name, text.reason.format_map(facts)))
    return Legality(tuple(broken["illegal"]), tuple(broken["unwise"]))


def _facts(model: Family, config: Columns, problem: Problem | None, device: DeviceFacts) -> dict[str, object]:
    knobs = {name: spelled(value) for name, value in config.knobs(0).items()}
    return {**knobs, **model.facts(config, problem, device)}
