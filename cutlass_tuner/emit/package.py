"""The CUTLASS Python package, imported so that it leaves the command line alone.

`cutlass_library` parses sys.argv when it is imported, and would answer a `--help` meant for whoever
imports it.
"""

import sys

_given, sys.argv = sys.argv, sys.argv[:1]
try:
    from cutlass_library import library
    from cutlass_library.gemm_operation import EmitGemmUniversal3xInstance, GemmOperation
finally:
    sys.argv = _given

__all__ = ["EmitGemmUniversal3xInstance", "GemmOperation", "library"]
