"""Putting a request together from the Markdown files under `prompts/` and what is known."""

from __future__ import annotations

from pathlib import Path
from string import Template

from cutlass_tuner.propose import context as told
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.feedback import Standing, feedback
from cutlass_tuner.propose.request import Request
from cutlass_tuner.propose.schema import reply_schema

FOLDER = Path(__file__).parent / "prompts"

FEWEST_IDEAS, FIRST_IDEAS, MOST_IDEAS = 2, 8, 24
"""A first answer holds as many ideas as there are shapes, within the first two; at most twice as many, or one
for each shape up to the last."""
NEXT_IDEAS = 10
"""The most ideas of a later answer."""
CONFIGS_A_SHAPE, FEWEST_CONFIGS, MOST_CONFIGS = 2, 8, 48
"""A first answer's configs: two a shape, within these. Later answers have half as many."""


def request(context: Context, round_: int, standing: Standing | None) -> Request:
    """What is asked in this round (from 1); `standing` is None while nothing is measured.

    Who answers, and what for, is said in a file of its own for each kind of work (`Op.workload`).
    """
    text = _prompt("request").substitute(
        round=round_,
        gpu=told.gpu(context),
        operation=told.operation(context),
        space=told.space(context),
        rules=told.rules(context),
        notes=context.op.notes.read_text(encoding="utf-8").strip(),
        shapes=told.shapes(context),
        history=told.past(context),
        feedback="" if standing is None else feedback(context, standing),
        task=_first(len(context.problems)) if standing is None else _next(len(context.problems)),
    )
    schema = reply_schema(context.space, context.problems)
    system = _prompt(f"system-{context.op.workload}").substitute().strip()
    return Request(round_, system, text.strip() + "\n", schema)


def _first(problems: int) -> str:
    ideas = min(FIRST_IDEAS, max(FEWEST_IDEAS, problems))
    most_ideas = max(2 * ideas, min(MOST_IDEAS, problems))
    most = _most_configs(problems)
    return _task("first", ideas=ideas, most_ideas=most_ideas, configs=f"about {most}", most_configs=most)


def _next(problems: int) -> str:
    return _task("next", most_ideas=NEXT_IDEAS, most_configs=_most_configs(problems) // 2)


def _most_configs(problems: int) -> int:
    return max(FEWEST_CONFIGS, min(MOST_CONFIGS, CONFIGS_A_SHAPE * problems))


def _task(name: str, **numbers: object) -> str:
    return _prompt(name).substitute(numbers).strip()


def _prompt(name: str) -> Template:
    return Template((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
