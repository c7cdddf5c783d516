"""What a proposer must know before it can say anything: GPU, op, space, rules and shapes, as Markdown.

Nothing a user typed as free text goes in: shapes have numbers for names, so that the name of a layer can be
no instruction. Of the machine there is the GPU's name and its figures, nothing else.

Recorded replies answer exactly the text that is made here: a changed word makes them answers to another
question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tabulate import tabulate

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.regime import Regime
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.propose.markdown import table
from cutlass_tuner.propose.schema import asked_knobs, shape_ids
from cutlass_tuner.propose.spelled import kernel_text, launch_text
from cutlass_tuner.records import Config, DeviceFacts, KernelConfig, L2Mode, Problem
from cutlass_tuner.roofline import EMPTY_KERNEL_US, STREAM_MIB, STREAM_US, SUSTAINED_FLOPS, roofline_us
from cutlass_tuner.space import Space
from cutlass_tuner.space.knobs import FamilySpace, Kind, Knob, spelled
from cutlass_tuner.spelling import extents_text

_PLACEHOLDER = re.compile(r"{(.*?)}")


@dataclass(frozen=True)
class Past:
    """The winner of a problem in an earlier study on the same GPU; `speedup` is torch's time / its time."""

    problem: Problem
    config: Config
    speedup: float


@dataclass(frozen=True)
class Context:
    """What does not change from round to round. `past` is empty where there is none, or none is wanted."""

    op: Op
    space: Space
    problems: tuple[Problem, ...]
    device: DeviceFacts
    l2: L2Mode
    past: tuple[Past, ...] = ()

    @cached_property
    def names(self) -> dict[str, str]:
        """What a reply calls each problem, by the problem's key."""
        return {problem.key: name for name, problem in shape_ids(self.problems).items()}

    def kernel_text(self, kernel: KernelConfig) -> str:
        """A kernel's differences from the default. UserError for a kernel that is none of this space."""
        return kernel_text(self.space, kernel, self.device)

    def launch_text(self, config: Config, problem: Problem) -> str:
        """A launch's differences from the default on this problem. UserError as `kernel_text`."""
        return launch_text(self.space, config, problem, self.device)

    def roofline_us(self, problem: Problem) -> float | None:
        """None on a GPU that was not measured."""
        return roofline_us(self.op.bytes(problem), self.op.flops(problem), self.device, self.l2)


def gpu(context: Context) -> str:
    """The device, and what was measured on cards of its kind."""
    device = context.device
    facts = [
        f"{device.name} ({device.arch}): {device.sm_count} SMs, {device.l2_bytes / 2**20:.0f} MB L2, "
        f"{device.smem_per_block_bytes:,} bytes of shared memory a block, {device.clock_mhz} MHz at most."
    ]
    if any(context.roofline_us(problem) is not None for problem in context.problems):
        sizes, times = (", ".join(f"{value:g}" for value in values[1:]) for values in (STREAM_MIB, STREAM_US))
        facts.append(
            f"Measured on such a card: an empty kernel takes {EMPTY_KERNEL_US} us in a graph; reading "
            f"{sizes} MB from DRAM takes {times} us (launch included); dense "
            f"fp16 sustains {SUSTAINED_FLOPS / 1e12:.0f} TFLOP/s at the power limit."
        )
    return "\n".join(facts)


def operation(context: Context) -> str:
    """The op's contract, and where its operands are when it is timed."""
    op = context.op
    elements = ", ".join(f"{operand.upper()} {kind}" for operand, kind in op.contract.elements.items())
    cache = "out of" if context.l2 == "cold" else "in"
    return (
        f"`{op.name}`: {op.summary} ({elements}; accumulator {op.contract.accumulator}). Timed with the "
        f"operands {cache} the L2 cache. {_given(context.space)}"
    )


def _given(space: Space) -> str:
    """Which knobs the problem decides."""
    names = list(dict.fromkeys(name for family in space.families.values() for name in family.given))
    if len(names) == 1:
        return f"The {names[0]} is the problem's and is no knob of yours."
    return f"The {' and '.join(names)} are the problem's and are no knobs of yours." if names else ""


def space(context: Context) -> str:
    """Every family with its knobs, values, defaults and what they do."""
    return "\n\n".join("\n".join(_family(family)) for family in context.space.families.values())


def _family(family: FamilySpace) -> Iterator[str]:
    yield f"Family `{family.name}`: {family.doc}"
    yield "\nCompile-time knobs of a kernel:\n"
    yield from map(_knob, asked_knobs(family).values())
    yield "\nLaunch knobs, free to change:\n"
    yield from map(_knob, family.launch.values())


def _knob(knob: Knob) -> str:
    values = ", ".join(spelled(value) for value in knob.values)
    return f"- `{knob.name}`: {values} (default {spelled(knob.default)}). {knob.doc}"


def rules(context: Context) -> str:
    """Every family's rules by name, those that forbid before those that advise."""
    return "\n\n".join("\n".join(_rules(family)) for family in context.space.families.values())


def _rules(family: FamilySpace) -> Iterator[str]:
    yield f"A config of `{family.name}` is refused when it breaks one of these:\n"
    yield from _rules_of(family, "illegal")
    yield "\nand may be built, but is expected to be slow, with one of these:\n"
    yield from _rules_of(family, "unwise")


def _rules_of(family: FamilySpace, kind: Kind) -> Iterator[str]:
    """A reason's placeholders are shown as the quantities they stand for."""
    for rule in family.rules.values():
        # A kernel is made with the knobs its shapes decide: nobody who isn't asked can break their rules.
        if rule.kind == kind and rule.name not in family.given:
            yield f"- {rule.name}: " + _PLACEHOLDER.sub(r"<\1>", rule.reason)


def shapes(context: Context) -> str:
    """The problems by regime, each group in a table of its own."""
    groups: dict[str, list[tuple[str, Regime]]] = {}
    for problem in context.problems:
        regime = context.op.regime(problem, context.device, context.l2)
        groups.setdefault(regime.name, []).append((context.names[problem.key], regime))
    [legend] = {regime.legend for group in groups.values() for _, regime in group}
    return "\n\n".join([legend, *(_group(name, group) for name, group in groups.items())])


def _group(name: str, group: list[tuple[str, Regime]]) -> str:
    figures = [{"shape": shape, **regime.figures} for shape, regime in group]
    if all(one.get("batch") == "1" for one in figures):
        figures = [{column: text for column, text in one.items() if column != "batch"} for one in figures]
    rows = tabulate(figures, headers="keys", tablefmt="github", disable_numparse=True)
    return f"### {name}: {group[0][1].meaning}\n\n{rows}"


def past(context: Context) -> str:
    """A section on winners of earlier studies on nearby shapes, "" where none are known."""
    rows = [row for one in context.past if (row := _past_row(context, one)) is not None]
    if not rows:
        return ""
    head = ["shape", "layout", "torch / ours", "kernel", "launch"]
    note = "Their winners, as differences from the default. None is built in this search unless asked for."
    return f"\n## Nearby shapes tuned earlier on this GPU\n\n{note}\n\n{table(head, rows)}\n"


def _past_row(context: Context, past: Past) -> list[str] | None:
    """None for a winner out of a space with other knobs or families: it cannot be asked for."""
    try:
        kernel = context.kernel_text(past.config.kernel)
        launch = context.launch_text(past.config, past.problem)
    except UserError:
        return None
    return [extents_text(past.problem), past.problem.layout, f"{past.speedup:.3f}", kernel, launch]
