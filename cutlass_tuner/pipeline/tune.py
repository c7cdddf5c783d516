"""The main job, set up: op, space, machine, study; `searching` then does it."""

from __future__ import annotations

import datetime
import sys
import time

from cutlass_tuner.events import StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.options import TuneOptions
from cutlass_tuner.pipeline import setup, simulated
from cutlass_tuner.pipeline.searching import Searching
from cutlass_tuner.pipeline.show import open_study, result_text
from cutlass_tuner.propose.transport import open_transport
from cutlass_tuner.study import Study, default_name

REPLAYED = "replay"
"""Transport of answers that were recorded: a resumed run goes on with those after them."""


def tune(options: TuneOptions) -> str:
    """Search, and return the result table. Ctrl-C ends the search and keeps what was measured."""
    started = time.monotonic()
    op = registry.op(options.op)
    problems = op.read_shapes(options.shapes)
    space = setup.space(op, next(iter(op.spaces)), options.space)  # a mistake in it is told on any machine
    recording = _recording(options)
    open_transport(options.llm, 0)  # a mistake in it is told before a GPU is asked
    open_machine = setup.machine if recording is None else recording.machine
    with open_machine(op, options, problems, space) as machine:
        digest = machine.space.digest
        name = default_name(op.name, machine.device.name, digest, problems, options.shapes.stem)
        header = StudyHeader(
            name=options.study or (name if recording is None else name + simulated.SUFFIX),
            op=op.name,
            family=",".join(machine.space.families),
            environment=machine.environment,
            device=machine.device,
            space_digest=digest,
            l2=options.l2,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            simulated="" if recording is None else recording.name,
        )
        with Study.open_or_create(options.studies, header, problems) as study:
            run = Searching(
                options,
                machine.bench,
                machine.builder,
                space=machine.space,
                candidates=machine.candidates,
                study=study,
                transport=open_transport(
                    options.llm, sum(a.transport == REPLAYED for a in study.ledger.answered)
                ),
                started=started,
            )
            run.whole()
            if recording is not None:
                print(recording.told(study), file=sys.stderr)
            return result_text(study, op)


def _recording(options: TuneOptions) -> simulated.Recording | None:
    """The study that is to stand in for a GPU, None where none is."""
    if options.simulate is None:
        return None
    return simulated.Recording(open_study(options.simulate, options.studies), options.simulate)
