"""Tests of cutlass_tuner.refine, on a synthetic world of known times."""
