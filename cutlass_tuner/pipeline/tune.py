"""The main job, set up: op, space, machine, study; `searching` then does it."""

from __future__ import annotations

import sys
import time

from cutlass_tuner.ops import registry
from cutlass_tuner.options import TuneOptions
from cutlass_tuner.pipeline import setup, simulated
from cutlass_tuner.pipeline.searching import Searching
from cutlass_tuner.pipeline.show import open_study, result_text
from cutlass_tuner.propose.replay import ReplayTransport
from cutlass_tuner.propose.transport import open_transport
from cutlass_tuner.study import Study, default_name


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
        digest, gpu = machine.space.digest, machine.device.name
        name = default_name(op.name, gpu, digest, problems, options.shapes.stem)
        name = options.study or (name if recording is None else name + simulated.SUFFIX)
        recorded = "" if recording is None else recording.name
        header = setup.study_header(machine, op, name, options.l2, recorded)
        with Study.open_or_create(options.studies, header, problems) as study:
            # A resumed run goes on with the recorded replies after those it has.
            replayed = sum(a.transport == ReplayTransport.name for a in study.ledger.answered)
            run = Searching(
                options,
                machine.bench,
                machine.builder,
                space=machine.space,
                candidates=machine.candidates,
                study=study,
                transport=open_transport(options.llm, replayed),
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
