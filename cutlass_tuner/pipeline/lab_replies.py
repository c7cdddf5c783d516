"""Sets of recorded replies, read for the lab: what a language model said, and how far it was right."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutlass_tuner.compare.regret import Expectation
from cutlass_tuner.errors import UserError
from cutlass_tuner.ideas import Answer, Idea
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.pipeline.lab_arms import Round
from cutlass_tuner.pipeline.lab_data import Recorded
from cutlass_tuner.pipeline.setup import Space
from cutlass_tuner.propose import reply
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.prompt import request
from cutlass_tuner.propose.replay import ReplayTransport
from cutlass_tuner.records import Problem
from cutlass_tuner.study import Study


@dataclass(frozen=True)
class ReplySet:
    """The replies of one folder. `name` is the folder as given, `model` who is said to have written them;
    `failed` are replies that could not be read at all, `rejected` counts what was refused in the others.
    """

    name: str
    model: str
    rounds: tuple[Round, ...]
    failed: int
    rejected: int

    @property
    def ideas(self) -> list[Idea]:
        return [idea for one in self.rounds for idea in one.ideas]


def read_set(folder: Path, study: Study, op: Op, space: Space, recorded: Recorded) -> ReplySet:
    """Raises UserError for a folder without replies.

    Replies name shapes by their place in the shapes file, so they are read against all problems of the study,
    and then narrowed to those that are recorded.
    """
    if not folder.is_dir():
        raise UserError(f"--replies {folder}: no such folder; give one of recorded replies, or a study's")
    rounds: list[Round] = []
    model, failed, rejected = "", 0, 0
    earlier = set[str]()
    for answer in _answers(folder, study, op, space):
        model = model or answer.model
        failed += answer.failure is not None
        device = study.header.device
        reading = reply.read(answer.text, space, study.problems, device, known={}, ideas=earlier)
        rejected += 0 if answer.failure is not None else len(reading.rejected)
        earlier |= {idea.id for idea in reading.ideas}
        rounds.append(Round(tuple(_recorded_targets(reading.ideas, recorded.problems)), reading.dropped))
    return ReplySet(str(folder), model, tuple(rounds), failed, rejected)


def _answers(folder: Path, study: Study, op: Op, space: Space) -> Iterator[Answer]:
    context = Context(op, space, study.problems, study.header.device, study.header.l2)
    question = request(context, 1, None)
    transport = ReplayTransport(folder, 0)
    while (answer := transport.ask(question, threading.Event())) is not None:
        yield answer


def _recorded_targets(ideas: Sequence[Idea], problems: Sequence[Problem]) -> Iterator[Idea]:
    """Ideas narrowed to targets that can be judged; those without any are left out."""
    keys = {problem.key for problem in problems}
    for idea in ideas:
        targets = tuple(target for target in idea.targets if target in keys)
        if targets:
            yield idea.model_copy(update={"targets": targets})


def expectations(sets: Sequence[ReplySet], recorded: Recorded) -> list[Expectation]:
    """Each idea's expectation beside what its suggestions reached, whether or not a run built them."""
    row = {recorded.candidates.kernel(i).key: i for i in range(len(recorded))}
    column = {problem.key: i for i, problem in enumerate(recorded.problems)}
    found = []
    for number, one in enumerate(sets, start=1):
        for idea in one.ideas:
            rows = [row[s.kernel.key] for s in idea.suggestions if s.kernel.key in row]
            times = recorded.log_ratio[rows][:, [column[target] for target in idea.targets]]
            timed = bool(rows) and not np.isnan(times).all(axis=0).any()
            found.append(
                Expectation(
                    name=f"{number}:{idea.id}" if len(sets) > 1 else idea.id,
                    bottleneck=idea.bottleneck,
                    expected=idea.expected,
                    achieved=math.exp(-float(np.nanmin(times, axis=0).mean())) if timed else None,
                )
            )
    return found
