"""The main job, set up: op, space, device, study; `searching` then does it."""

from __future__ import annotations

import datetime
import time

from cutlass_tuner.events import StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.options import TuneOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.searching import Searching
from cutlass_tuner.pipeline.show import result_text
from cutlass_tuner.study import Study, default_name


def tune(options: TuneOptions) -> str:
    """Search, and return the result table. Ctrl-C ends the search and keeps what was measured."""
    started = time.monotonic()
    op = registry.op(options.op)
    problems = op.read_shapes(options.shapes)
    space = setup.space(op, next(iter(op.spaces)), options.space)  # a mistake in it is told on any machine
    toolchain = setup.toolchain(options.toolchain)
    with Bench(op, options.l2, options.gpu, setup.child_log(), options.seed) as bench:
        described = bench.describe()
        setup.check_fits(op, problems, described.device)
        if described.device.arch != space.arch:
            space = setup.space(op, described.device.arch, options.space)
        candidates = space.candidates(problems, described.device)
        builder = setup.builder(toolchain, described.device.arch, op, options.toolchain)
        header = StudyHeader(
            name=options.study
            or default_name(op.name, described.device.name, space.digest, problems, options.shapes.stem),
            op=op.name,
            family=",".join(space.families),
            environment=setup.environment(described, toolchain, builder),
            device=described.device,
            space_digest=space.digest,
            l2=options.l2,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )
        with Study.open_or_create(options.studies, header, problems) as study:
            run = Searching(
                options, bench, builder, space=space, candidates=candidates, study=study, started=started
            )
            run.whole()
            return result_text(study, op)
