"""The page that the lab writes: `report.md`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from cutlass_tuner.compare.regret import CAP, Calibration, by_problem, calibration
from cutlass_tuner.pipeline.lab_arms import DEFAULT, LLM
from cutlass_tuner.pipeline.lab_data import Recorded
from cutlass_tuner.pipeline.lab_verdict import Outcome, verdict
from cutlass_tuner.report import curves
from cutlass_tuner.report.tables import ABSENT, counted
from cutlass_tuner.spelling import kernel_text, knobs_text

COST_TARGET = 0.02
WORST = 10

BUILDS, COMPILE, DEVICE, IDEAS = "regret-builds", "regret-compile", "regret-device", "calibration"
"""Names of the pictures, without .png."""


def page(outcome: Outcome, pictures: Mapping[str, str]) -> str:
    """The whole page; `pictures` are the captions of those that were drawn, by name."""
    parts = [
        f"# Lab: {outcome.study.name}",
        f"{head(outcome)}.",
        f"    {command(outcome)}",
        "## In short",
        _bullets(verdict(outcome)),
        "## Arms",
        curves.arms_table(outcome.standings, COST_TARGET, "github"),
        _about_table(outcome),
        *(_picture(name, pictures) for name in (BUILDS, COMPILE, DEVICE)),
        *_behind(outcome),
        *_expectations(outcome, pictures),
        "## What was replayed",
        _bullets([*_about_data(outcome), *_about_replies(outcome), *_about_runs(outcome), *outcome.notes]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def head(outcome: Outcome) -> str:
    """One line: what was replayed."""
    header, recorded = outcome.study.header, outcome.recorded
    return (
        f"lab on {outcome.study.name} ({header.environment.gpu}, recorded {header.created[:10]}): "
        f"{counted(len(recorded), 'recorded kernel')}, {counted(len(recorded.problems), 'shape')}, "
        f"{counted(outcome.options.builds, 'build')} a run"
    )


def command(outcome: Outcome) -> str:
    """The command line that does the same again."""
    o = outcome.options
    words = ["cutlass-tuner", "lab", o.data]
    words += [word for folder in o.replies for word in ("--replies", str(folder))]
    words += [word for name in o.arms or () for word in ("--arm", name)]
    return shlex.join([*words, "--builds", str(o.builds), "--seeds", str(o.seeds), "--out", str(o.out)])


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _picture(name: str, pictures: Mapping[str, str]) -> str:
    return f"![{pictures[name]}]({name}.png)" if name in pictures else ""


def _about_table(outcome: Outcome) -> str:
    return (
        f"Best first, by the regret after {counted(outcome.mark, 'build')}. Regret: the geometric mean over "
        "the shapes of time / time of the best recorded kernel, less 1 (mean ± standard deviation over "
        f"{counted(outcome.options.seeds, 'seed')}); a shape counts as at most {CAP:g} times its best, and "
        "as that much while it has no kernel. Builds and seconds to a regret: the median over the seeds, "
        "where most get there. Bands of the curves: 10 to 90 % of the seeds, of the arms that are compared "
        "above."
    )


# --- where the language model is behind


def _behind(outcome: Outcome) -> list[str]:
    arm = outcome.leader(llm=True)
    if arm is None:
        return []
    heads = [
        "shape", "its own kernels, % behind", f"{arm} at {outcome.mark}, % behind", "best recorded kernel",
        "launch",
    ]  # fmt: skip
    return [
        "## Where the language model is behind",
        "The shapes on which the kernels that the model itself named are furthest behind the best recorded "
        f"one after {counted(outcome.mark, 'build')} of {arm} (mean over the seeds), and what that one is: "
        "its differences from the default.",
        curves.plain_table(worst_shapes(outcome, arm), heads, "github"),
    ]


def worst_shapes(outcome: Outcome, arm: str) -> list[list[str]]:
    """Cells of that table, worst first."""
    recorded, runs = outcome.recorded, outcome.by_arm[arm]
    own = by_problem(runs, recorded.log_ratio, recorded.known, outcome.mark, {LLM})
    whole = by_problem(runs, recorded.log_ratio, recorded.known, outcome.mark)
    kernel = outcome.space.effective(outcome.space.kernel(), outcome.study.header.device)
    launch = outcome.space.launch()
    return [
        [
            recorded.problems[place].label,
            _behind_cell(own[place]),
            _behind_cell(whole[place]),
            kernel_text(recorded.best[place].kernel, kernel),
            knobs_text(recorded.best[place].launch.knobs, launch.knobs),
        ]
        for place in np.argsort(-own, kind="stable")[:WORST].tolist()
    ]


def _behind_cell(regret: float) -> str:
    most = CAP - 1.0
    return f"{100 * regret:.1f}" if regret < most - 1e-9 else f"≥ {100 * most:.0f}"


# --- expectations


def _expectations(outcome: Outcome, pictures: Mapping[str, str]) -> list[str]:
    if not outcome.expectations:
        return []
    rows = [
        [e.name, e.bottleneck, f"{e.expected:.3f}", ABSENT if e.achieved is None else f"{e.achieved:.3f}"]
        for e in outcome.expectations
    ]
    return [
        "## What the ideas expected",
        _in_words(calibration(outcome.expectations)),
        _picture(IDEAS, pictures),
        curves.plain_table(rows, ["idea", "attacks", "expected", "achieved"], "github"),
        f"Speed-ups over {outcome.space.op.reference_call}, the geometric mean over an idea's targets: what "
        "it says its kernels will reach, and what the best of its recorded suggestions reached on each "
        "target. No figure: a target has no time from any of them.",
    ]


def _in_words(found: Calibration) -> str:
    said = f"{counted(found.judged, 'idea')} can be judged, {found.unjudged} cannot."
    if found.bias is None or found.reached is None:
        return said
    rank = "is not defined" if found.rank is None else f"is {found.rank:.2f}"
    kind = "more" if found.bias >= 1 else "less"
    return (
        f"{said} {100 * found.reached:.0f} % of them reached what they expected; they got "
        f"{100 * abs(found.bias - 1):.1f} % {kind} than that in the geometric mean. Spearman's rank "
        f"correlation of expected and achieved {rank}."
    )


# --- what was replayed, and what that means


def _about_data(outcome: Outcome) -> list[str]:
    recorded, header = outcome.recorded, outcome.study.header
    environment = header.environment
    sources = ", ".join(f"{number} from {source}" for source, number in recorded.sources.items())
    compile_s, device_s = recorded.typical_s
    return [
        f"recorded on {environment.gpu} (driver {environment.driver}, CUDA {environment.cuda}, CUTLASS "
        f"{environment.cutlass}, cuBLAS {environment.cublas}, torch {environment.torch}), {header.created}, "
        f"L2 {header.l2}",
        f"{len(recorded)} kernels ({int(recorded.failed.sum())} that failed to build): {sources}",
        "every arm chooses among these kernels alone, so random is uniform over what earlier searches "
        "thought worth building, and easier than random over the space; an arm that searches as the "
        "recording did finds its own kernels again",
        _about_noise(recorded),
        "times are from each kernel's own screening: the finals, which measure only finalists again, are "
        "left out; the best of many noisy times is a little too good, for every arm alike",
        f"a kernel that is not recorded is a miss: it counts as a build, costs the median ({compile_s:.1f} "
        f"CPU seconds of compiling, {device_s:.2f} s of measuring) and brings nothing; a kernel recorded as "
        "failed costs the same median of compiling",
        "compile seconds are those of the recording, a kernel's share of the batch it was built in; device "
        "seconds the wall time of its screening",
    ]


def _about_noise(recorded: Recorded) -> str:
    least, most = 100 * recorded.noise.min(), 100 * recorded.noise.max()
    return (
        "a search is told each recorded time with the noise of one round of a contest, as repeated rounds "
        f"of the recording show it ({least:.1f} to {most:.1f} % by shape), drawn anew for every seed and "
        "alike for all arms; what it found is judged by the recorded times. Without that, seeds would "
        "hardly change anything: the portfolio sampler looks at every recorded kernel"
    )


def _about_replies(outcome: Outcome) -> list[str]:
    lines = []
    for number, one in enumerate(outcome.sets, start=1):
        named = {s.kernel.key for idea in one.ideas for s in idea.suggestions}
        recorded = {outcome.recorded.candidates.kernel(row).key for row in range(len(outcome.recorded))}
        failed = f", {one.failed} of them unreadable" if one.failed else ""
        lines.append(
            f"replies {number}: {one.name}, by {one.model or 'an unnamed model'}: "
            f"{_replies(len(one.rounds))}{failed}, {counted(len(one.ideas), 'idea')}, "
            f"{counted(len(named), 'kernel')} of which {len(named & recorded)} are recorded, "
            f"{counted(one.rejected, 'rejection')}"
        )
    if lines:
        lines.append(
            "whether who wrote a reply had seen these results, the lab cannot know: see where the replies "
            "come from"
        )
    return lines


def _replies(number: int) -> str:
    return "1 reply" if number == 1 else f"{number} replies"


def _about_runs(outcome: Outcome) -> list[str]:
    lines = [
        "one compiler: every batch (2 kernels, then 5) is told before the next is chosen; a tune on 16 "
        "cores has up to 18 batches in flight",
        f"{DEFAULT} is what tune does without a language model",
    ]
    if any(LLM in run.sources for run in outcome.runs):
        lines.append("the next reply is read once every suggestion of the last one is told")
    if outcome.options.builds > len(outcome.recorded):
        lines.append("there are fewer recorded kernels than builds asked for: curves end flat")
    return lines
