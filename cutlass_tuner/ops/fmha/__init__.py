"""Attention forward: problems, legality, shared memory, folding, first guesses."""
