"""Config to C++ text, through the CUTLASS package's own emitters."""

from cutlass_tuner.emit.emitter import Emitter
from cutlass_tuner.emit.gemm3x import Gemm3x

EMITTERS: dict[str, Emitter] = {"gemm3x": Gemm3x()}

__all__ = ["EMITTERS", "Emitter"]
