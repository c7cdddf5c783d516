"""Config to C++ text, through the CUTLASS package's own emitters."""

from cutlass_tuner.emit.attention import Attention
from cutlass_tuner.emit.emitter import Emitter
from cutlass_tuner.emit.example88 import Example88
from cutlass_tuner.emit.flash import Flash
from cutlass_tuner.emit.gemm3x import Gemm3x

EMITTERS: dict[str, Emitter] = {
    "gemm3x": Gemm3x(),
    # example88's host part must see its shim before anything of CUTLASS: it goes first
    "attention": Attention({"example88": Example88(), "flash": Flash()}),
}

__all__ = ["EMITTERS", "Emitter"]
