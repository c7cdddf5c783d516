"""`cutlass-tuner show`: what a study found."""

from __future__ import annotations

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import ShowOptions


def show(study: arguments.Study, studies: arguments.Studies = None) -> None:
    """Print what a study found.

    Its environment, what was built and measured, and the best kernel of every shape beside the baselines.
    """
    options = ShowOptions(study=study, studies=arguments.studies_dir(studies))

    from cutlass_tuner import pipeline

    print(pipeline.show(options))
