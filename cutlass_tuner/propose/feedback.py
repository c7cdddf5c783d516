"""How a search stands, told to whoever proposes: winners, ideas, failures, what was refused. Pure.

Whoever reads it remembers nothing of earlier rounds, and pays by the token: each kernel is spelled out once
and has a number, and ideas that were given up take a few words each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cutlass_tuner.ideas import Fared, Idea, Rejection
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.markdown import line, table
from cutlass_tuner.propose.schema import asked_knobs
from cutlass_tuner.propose.spelled import asked_kernel
from cutlass_tuner.records import Config, KernelConfig
from cutlass_tuner.space.knobs import spelled

SHOWN_REJECTIONS, SHOWN_FAILURES = 30, 12
REASON_CHARACTERS, HYPOTHESIS_CHARACTERS = 300, 240
OTHER_KINDS, DIFFERENT_KNOBS = 2, 2
"""Beside a shape's best kernel so many others are shown, each other than those before it in so many knobs."""
STILL_SEARCHED, GIVEN_UP = ("waiting", "searching"), ("lost", "dropped")

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True)
class Leader:
    """A config of a problem (a key). `us` is its time in microseconds, `speedup` torch's time in the same
    rounds / its own; `idea` "" is the tuner's own."""

    problem: str
    config: Config
    us: float
    speedup: float
    idea: str


@dataclass(frozen=True)
class Standing:
    """A search between two rounds.

    `leaders` are each problem's best config, measured again before it is told; `runners_up` further kernels
    as screened, each problem's fastest first. `failures` are kernels that did not build or run, with the
    reason, free of paths and names of machines; `rejected` is what was not taken over of the last answer.
    `geomean` is torch's time / ours over the problems that have a winner, before the last round and now.
    """

    built: int
    leaders: tuple[Leader, ...]
    fared: tuple[Fared, ...]
    failures: tuple[tuple[KernelConfig, str], ...]
    rejected: tuple[Rejection, ...]
    geomean: tuple[float | None, float | None]
    runners_up: tuple[Leader, ...] = ()


def feedback(context: Context, standing: Standing) -> str:
    """The part of a request that tells what came of the last ones."""
    parts = [
        f"## What is known after {standing.built} kernels",
        _progress(standing),
        _winners(context, standing),
        _ideas(context, standing.fared),
        _failures(context, standing.failures),
        _rejections(standing.rejected),
    ]
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def _progress(standing: Standing) -> str:
    before, now = standing.geomean
    if now is None:
        return "No kernel has a time yet."
    moved = "" if before is None else f" (it was {before:.4f} before your last answer)"
    return f"Geometric mean over the shapes of torch's time / the best kernel's: {now:.4f}{moved}."


# --- kernels ---------------------------------------------------------------------------------------


def _winners(context: Context, standing: Standing) -> str:
    """A line a shape, then every kernel named there."""
    if not standing.leaders:
        return ""
    kinds = [_kinds(context, best, standing.runners_up) for best in standing.leaders]
    kernels = {one.config.kernel.key: one for shape in kinds for one in shape}
    numbers = {key: f"k{number}" for number, key in enumerate(kernels, start=1)}
    timed = {best.problem for best in standing.leaders}
    missing = " ".join(name for key, name in context.names.items() if key not in timed)
    parts = [
        "### The best kernels of each shape",
        "The best was measured again, in more rounds; others, of a different kind, stand as they were "
        "screened, by torch / ours. Kernels and launches are given as differences from the default. A cool "
        "card may pass the roofline by some percent.",
        table(_columns(context), [_line(context, shape, numbers) for shape in kinds]),
        f"No kernel has given a right answer yet on: {missing}." if missing else "",
        table(
            ["kernel", "idea", "knobs"],
            [
                [numbers[key], one.idea or "(not yours)", context.kernel_text(one.config.kernel)]
                for key, one in kernels.items()
            ],
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _columns(context: Context) -> list[str]:
    known = any(context.roofline_us(problem) is not None for problem in context.problems)
    bound = ["us / roofline"] if known else []
    return ["shape", "us", "torch us", *bound, "torch / ours", "kernel", "launch", "others"]


def _line(context: Context, kinds: Sequence[Leader], numbers: Mapping[str, str]) -> list[str]:
    """A shape's line: its best kernel, then those of other kinds."""
    best, *others = kinds
    problem = next(problem for problem in context.problems if problem.key == best.problem)
    bound_us = context.roofline_us(problem)
    return [
        context.names[problem.key],
        _us(best.us),
        _us(best.us * best.speedup),
        *([] if bound_us is None else [f"{best.us / bound_us:.2f}"]),
        f"{best.speedup:.3f}",
        numbers[best.config.kernel.key],
        context.launch_text(best.config, problem),
        ", ".join(f"{numbers[one.config.kernel.key]} {one.speedup:.3f}" for one in others),
    ]


def _us(microseconds: float) -> str:
    """Three digits or more, never an exponent."""
    return f"{microseconds:.{max(0, 2 - math.floor(math.log10(microseconds)))}f}"


def _kinds(context: Context, best: Leader, runners_up: Iterable[Leader]) -> list[Leader]:
    """The best of a problem, then the fastest that are of another kind than all before them."""
    kinds = [best]
    for one in runners_up:
        if len(kinds) > OTHER_KINDS:
            break
        if one.problem == best.problem and all(_differ(context, one, kind) for kind in kinds):
            kinds.append(one)
    return kinds


def _differ(context: Context, one: Leader, other: Leader) -> bool:
    a, b = one.config.kernel, other.config.kernel
    if a.family != b.family:
        return True
    mine, its = (asked_kernel(context.space, kernel, context.device) for kernel in (a, b))
    return sum(mine.get(knob) != its.get(knob) for knob in {**mine, **its}) >= DIFFERENT_KNOBS


# --- ideas -----------------------------------------------------------------------------------------


def _ideas(context: Context, fared: Sequence[Fared]) -> str:
    if not fared:
        return ""
    alive = [one for one in fared if one.fate not in GIVEN_UP]
    head = [
        "idea",
        "parent",
        "state",
        "kernels",
        "expected",
        "achieved",
        "on its shapes",
        "best on",
        "thought",
    ]
    parts = [
        "### How your ideas fared",
        "waiting: nothing of it is measured yet; searching: the sampler may still choose in the space it "
        "opened; done: measured, and nothing left to gain; lost: it gained nothing in two rounds. "
        + _calibration(fared),
        table(head, [_idea(context, one) for one in alive]) if alive else "",
        _opened(context, alive),
        _given_up(fared),
    ]
    return "\n\n".join(part for part in parts if part)


def _calibration(fared: Sequence[Fared]) -> str:
    """How far to trust what was expected: one line for all ideas whose outcome is known."""
    logs = [math.log(one.achieved / one.idea.expected) for one in fared if one.achieved is not None]
    if not logs:
        return ""
    mean, least, most = (math.exp(value) for value in (sum(logs) / len(logs), min(logs), max(logs)))
    spread = f"from {least:.3f} to {most:.3f}"
    return f"Achieved / expected: {mean:.3f} in the geometric mean of {len(logs)}, {spread}."


def _idea(context: Context, one: Fared) -> list[str]:
    idea, names = one.idea, context.names
    on_targets = [
        f"{names[key]} {one.speedup[key]:.3f}" for key in idea.targets if key in one.speedup and key in names
    ]
    untimed = [names[key] for key in idea.targets if key not in one.speedup and key in names]
    return [
        idea.id,
        idea.parent,
        one.fate,
        f"{one.built}" + (f" + {one.failed} failed" if one.failed else ""),
        f"{idea.expected:.3f}",
        "" if one.achieved is None else f"{one.achieved:.3f}",
        ", ".join([*on_targets, *(f"{name} -" for name in untimed)]),
        " ".join(names[key] for key in names if key in one.leads),
        line(idea.hypothesis, HYPOTHESIS_CHARACTERS) if one.leads or one.fate in STILL_SEARCHED else "",
    ]


def _opened(context: Context, alive: Sequence[Fared]) -> str:
    """The parts of the space that the sampler may still search."""
    lines = [
        f"- {one.idea.id}: {_part_of_space(context, one.idea)}"
        for one in alive
        if one.idea.searches and one.fate in STILL_SEARCHED
    ]
    head = "Open to the sampler (knobs that are not named are held to their default):"
    return "\n".join([head, "", *lines]) if lines else ""


def _part_of_space(context: Context, idea: Idea) -> str:
    """Knobs that may have another value than the default, and how many couplings there are besides."""
    said = []
    for name, knob in asked_knobs(context.space.family(idea.family)).items():
        values = idea.narrowed.get(name, knob.values)
        if set(values) >= set(knob.values):
            said.append(f"{name}=any")
        elif values != (knob.default,):
            said.append(f"{name}={','.join(map(spelled, values))}")
    if idea.couplings:
        said.append(f"and {len(idea.couplings)} coupling{'s' * (len(idea.couplings) > 1)}")
    return " ".join(said)


def _given_up(fared: Sequence[Fared]) -> str:
    told = [f"{one.idea.id} ({one.fate}{_outcome(one)})" for one in fared if one.fate in GIVEN_UP]
    return f"Given up: {', '.join(told)}." if told else ""


def _outcome(one: Fared) -> str:
    return "" if one.achieved is None else f", {one.idea.expected:.3f} expected, {one.achieved:.3f} achieved"


# --- failures and rejections -----------------------------------------------------------------------


def _failures(context: Context, failures: Sequence[tuple[KernelConfig, str]]) -> str:
    """Reasons that differ in numbers only are one; each kernel counts once under it, the first is shown."""
    groups: dict[str, dict[str, str]] = {}
    for kernel, reason in failures:
        group = groups.setdefault(_NUMBER.sub("#", reason), {})
        group.setdefault(kernel.key, f"{line(reason, REASON_CHARACTERS)}: {context.kernel_text(kernel)}")
    ranked = sorted(groups.values(), key=len, reverse=True)
    lines = [f"- {len(group)} x {next(iter(group.values()))}" for group in ranked]
    return _listed("### Kernels that failed", lines, SHOWN_FAILURES, "more reasons")


def _rejections(rejected: Sequence[Rejection]) -> str:
    lines = [_rejection(one) for one in rejected]
    return _listed("### What was not taken over from your last answer", lines, SHOWN_REJECTIONS, "more")


def _rejection(one: Rejection) -> str:
    where = ", ".join(filter(None, [one.idea, one.what]))
    return f"- {line(where, REASON_CHARACTERS)}: {line(one.reason, REASON_CHARACTERS)}"


def _listed(title: str, lines: Sequence[str], most: int, more: str) -> str:
    if not lines:
        return ""
    left = [f"- and {len(lines) - most} {more}"] if len(lines) > most else []
    return "\n".join([title, "", *lines[:most], *left])
