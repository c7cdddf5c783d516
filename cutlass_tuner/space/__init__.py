"""Which kernels and launches there are, which of them are legal, and what they fold to."""

from cutlass_tuner.space.candidates import Candidates
from cutlass_tuner.space.knobs import FamilySpace, Knob, RuleText
from cutlass_tuner.space.legality import Broken, Legality
from cutlass_tuner.space.space import Space

__all__ = ["Broken", "Candidates", "FamilySpace", "Knob", "Legality", "RuleText", "Space"]
