"""The story: what happens in which order. The only package that knows all stages.

One file a command; `tune.py` is the main one. Each takes the options of `options.py` and returns the
text to print (`run` also whether the kernel was right); progress goes to stderr.
"""

from cutlass_tuner.pipeline.build import build
from cutlass_tuner.pipeline.caches import cache_prune, cache_show
from cutlass_tuner.pipeline.compare import compare
from cutlass_tuner.pipeline.export import export
from cutlass_tuner.pipeline.lab import lab
from cutlass_tuner.pipeline.propose import propose
from cutlass_tuner.pipeline.run import Ran, run
from cutlass_tuner.pipeline.show import show
from cutlass_tuner.pipeline.tune import tune

__all__ = [
    "Ran",
    "build",
    "cache_prune",
    "cache_show",
    "compare",
    "export",
    "lab",
    "propose",
    "run",
    "show",
    "tune",
]
