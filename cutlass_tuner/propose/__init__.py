"""Asks a language model for ideas: what it reads, how it must answer, what is taken of its reply."""
