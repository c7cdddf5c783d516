"""Ideas and the conversation they came from, as text for a terminal. Pure functions over a study's records.

What a proposer wrote is shown on one line and without control characters: it is a stranger's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cutlass_tuner.events import Answered
from cutlass_tuner.ideas import Fared, Rejection, Usage
from cutlass_tuner.report.tables import ABSENT, counted

INDENT = "  "
BETWEEN = "  "
HEADER = ("idea", "fate", "attacks", "built", "failed", "expected", "achieved", "leads", "shapes")
FIGURES = slice(3, 8)
"""Columns that are numbers, and stand to the right."""
USUAL_STOP = ("", "end_turn")


def ideas_table(fared: Sequence[Fared], labels: Mapping[str, str], width: int | None) -> str:
    """Two lines an idea: how it fared, and its hypothesis. Ideas stand under the one they branch from.

    `labels` maps a problem's key to its name; lines are cut to `width` columns, None: they are not.
    Ratios are torch's time / ours; "leads" counts the shapes whose best kernel is the idea's.
    "" where there are no ideas.
    """
    if not fared:
        return ""
    tree = list(_tree(fared))
    head, rule, *lines = _aligned([_cells(one, depth, labels) for one, depth in tree])
    told = [head, rule]
    for line, (one, depth) in zip(lines, tree, strict=True):
        told += [line, f"{INDENT * (depth + 1)}{one_line(one.idea.hypothesis)}"]
    return "\n".join(_cut(line, width) for line in told)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Header, rule and rows, every column as wide as its longest cell. The last column is cut, not padded."""
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    right = set(range(len(HEADER))[FIGURES])
    lines = [
        [
            cell.rjust(w) if i in right else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (HEADER, ["-" * w for w in widths[:-1]] + ["-" * len(HEADER[-1])], *rows)
    ]
    return [BETWEEN.join(line).rstrip() for line in lines]


def _tree(fared: Sequence[Fared]) -> Iterator[tuple[Fared, int]]:
    """Every idea once with its depth: under its parent if that came before it, else in the order given."""
    children: dict[str, list[Fared]] = {"": []}
    for one in fared:
        children[one.idea.parent if one.idea.parent in children else ""].append(one)
        children[one.idea.id] = []
    waiting = [(one, 0) for one in reversed(children[""])]
    while waiting:
        one, depth = waiting.pop()
        yield one, depth
        waiting += [(child, depth + 1) for child in reversed(children[one.idea.id])]


def _cells(one: Fared, depth: int, labels: Mapping[str, str]) -> list[str]:
    idea = one.idea
    named = "" if depth or not idea.parent else f" (of {one_line(idea.parent)})"
    return [
        f"{INDENT * depth}{one_line(idea.id)}{named}",
        one.fate,
        idea.bottleneck,
        str(one.built),
        str(one.failed),
        f"{idea.expected:.3f}",
        ABSENT if one.achieved is None else f"{one.achieved:.3f}",
        str(len(one.leads)),
        _targets(idea.targets, labels),
    ]


def _targets(targets: Sequence[str], labels: Mapping[str, str]) -> str:
    """ "3: 64x64x64, 512x512x512, up-projection"."""
    named = ", ".join(one_line(labels.get(key, key)) for key in targets)
    return named if len(targets) == 1 else f"{len(targets)}: {named}"


def conversation_lines(answered: Sequence[Answered]) -> list[str]:
    """A line a round: who answered, for how much, and what came of it; then what all of it cost, if known."""
    lines = [_round(one) for one in answered]
    costs = [one.answer.usage.cost_usd for one in answered if one.answer.usage is not None]
    known = [cost for cost in costs if cost is not None]
    if known:
        unknown = f" (of {len(known)} of {len(costs)} answers)" if len(known) < len(costs) else ""
        lines.append(f"in all {_dollars(sum(known))}{unknown}")
    return lines


def _round(answered: Answered) -> str:
    answer = answered.answer
    parts = [one_line(answer.model), *_usage(answer.usage)]
    who = f"round {answered.round}, {', '.join(filter(None, [answered.transport, *parts]))}"
    if answer.failure is not None:
        return f"{who}: no answer: {one_line(answer.failure.reason)}"
    said = [counted(len(answered.ideas), "idea")]
    if answered.rejected:
        said.append(f"{counted(len(answered.rejected), 'thing')} refused")
    if answered.dropped:
        said.append(f"{', '.join(map(one_line, answered.dropped))} dropped")
    if answer.stop not in USUAL_STOP:
        said.append(f"stopped by {one_line(answer.stop)}")
    return f"{who}: {', '.join(said)}"


def _usage(usage: Usage | None) -> Iterator[str]:
    if usage is not None:
        yield f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        if usage.cost_usd is not None:
            yield _dollars(usage.cost_usd)


def _dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost >= 0.1 or cost == 0 else f"${cost:.4f}"


def rejections(answered: Sequence[Answered], limit: int, width: int | None = None) -> list[str]:
    """A line for each of the first `limit` things that were not taken over, then how many more there are."""
    refused = [(one.round, rejection) for one in answered for rejection in one.rejected]
    lines = [_cut(_rejection(number, one), width) for number, one in refused[:limit]]
    left = len(refused) - limit
    return [*lines, f"and {left} more"] if left > 0 else lines


def _rejection(number: int, one: Rejection) -> str:
    where = f"round {number}" + (f", idea {one_line(one.idea)}" if one.idea else "")
    return f"{where}: {': '.join(filter(None, [one_line(one.what), one_line(one.reason)]))}"


def one_line(text: str) -> str:
    """Runs of white space as one blank, and nothing that a terminal would act on."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else f"{line[: max(width - 1, 0)]}…"
