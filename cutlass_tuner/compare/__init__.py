"""Ours beside the baselines: ratios, floors, summaries. Pure."""

from cutlass_tuner.compare.rows import rows
from cutlass_tuner.compare.summary import against, summary
from cutlass_tuner.roofline import floor_us, roofline_us

__all__ = ["against", "floor_us", "roofline_us", "rows", "summary"]
