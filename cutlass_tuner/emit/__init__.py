"""Config to C++ text, through the CUTLASS package's own emitters."""

from cutlass_tuner.emit.attention import Attention
from cutlass_tuner.emit.emitter import Emitter
from cutlass_tuner.emit.example77 import Example77
from cutlass_tuner.emit.example88 import Example88
from cutlass_tuner.emit.flash import Flash
from cutlass_tuner.emit.gemm3x import Gemm3x

EMITTERS: dict[str, Emitter] = {
    "gemm3x": Gemm3x(),
    "attention": Attention(
        {
            # example88's host part must see its shim before anything of CUTLASS: it goes first
            "attention": {"example88": Example88(), "flash": Flash()},
            "attention_sm100": {"example77": Example77()},
        }
    ),
}

__all__ = ["EMITTERS", "Emitter"]
