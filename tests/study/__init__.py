"""Tests of cutlass_tuner.study: the files, their views, and kills at any instant."""
