"""The C face of an exported library, as the exporter's templates write it (export/cpp/*source.cu.in)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

from cutlass_tuner.records import Problem

Run = Callable[[Sequence[int], float, int, int], int]
"""Device pointers in the op's order, scalar (alpha, softmax scale), workspace, stream -> status, 0 = fine."""

ATTENTION_EXTENTS = 7


class LibraryError(Exception):
    """The exported library refuses the problem; the text names its answer."""


def calls(path: str, problem: Problem, dims: Sequence[int]) -> tuple[Run, int]:
    """How to run a problem with the library at `path`, and the bytes of workspace it wants.

    `dims` in the ABI's order. Raises OSError where the library cannot be loaded, LibraryError where it has
    no kernels for such problems or refuses this one.
    """
    library, layout = _loaded(path), problem.layout.encode()
    attention = "q" in problem.contract.elements
    face = "ct_export_attention" if attention else "ct_export"
    if not hasattr(library, f"{face}_run"):
        raise LibraryError(f"{path}: a library without {face}_run")
    workspace, run = getattr(library, f"{face}_workspace"), getattr(library, f"{face}_run")
    workspace.restype = ctypes.c_longlong
    extents: tuple[object, ...] = tuple(map(ctypes.c_int64, dims))
    if attention:
        extents = ((ctypes.c_int64 * ATTENTION_EXTENTS)(*dims[:ATTENTION_EXTENTS]),)
    size = int(workspace(*extents, layout))
    if size < 0:
        raise LibraryError(f"{path}: workspace_size answers {size} for {problem.key}")

    def launch(pointers: Sequence[int], scalar: float, space: int, stream: int) -> int:
        operands = map(ctypes.c_void_p, pointers)
        behind = ctypes.c_float(scalar), ctypes.c_void_p(space), ctypes.c_void_p(stream)
        return int(run(*extents, layout, *operands, *behind))

    return launch, size


@cache
def _loaded(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)
