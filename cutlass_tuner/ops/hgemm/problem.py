"""What an hgemm problem is: its contract, extents, layouts, work and memory.

D (m x n, row-major fp16) = A (m x k) B (k x n) in fp16 with fp32 accumulation, `batch` times.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.columns import Columns, IntArray
from cutlass_tuner.records import Contract, DeviceFacts, Problem

OP = "hgemm"
CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
DIMS = ("m", "n", "k", "batch")
LAYOUTS = ("tn", "tt")
STORABLE = ("tn", "tt", "nn", "nt")
"""Every layout of A and B there is: those a baseline may choose from."""

LARGEST = 2**31 - 1
WHOLE = f"a whole number from 1 to {LARGEST}"
ELEMENT_BYTES = 2
TMA_ALIGNMENT = 8
"""TMA rows are multiples of 16 bytes: of 8 fp16 elements (CUDA driver API, cuTensorMapEncodeTiled)."""


CONTIGUOUS = {
    "tn": {"a": "k", "b": "k", "d": "n"},
    "tt": {"a": "k", "b": "n", "d": "n"},
}
"""Which extent is contiguous in each operand: it must be a multiple of TMA_ALIGNMENT where TMA moves it."""


def problem(extents: Sequence[int], layout: str | None = None) -> Problem:
    """The problem m, n, k[, batch] in a layout (default tn). Raises UserError on what is not one."""
    if not 3 <= len(extents) <= len(DIMS):
        raise UserError(f"{len(extents)} extents {tuple(extents)}; give m, n, k and optionally batch")
    dims = dict(zip(DIMS, (*extents, 1), strict=False))
    for name, extent in dims.items():
        if not 1 <= extent <= LARGEST:
            raise UserError(f"{name} is {extent}; give {WHOLE}")
    made = Problem(op=OP, dims=dims, layout=known_layout(layout or LAYOUTS[0]), contract=CONTRACT)
    wrong = misalignment(made)
    if wrong is not None:
        raise UserError(wrong)
    return made


def known_layout(text: str) -> str:
    """The layout called `text`, in any case. Raises UserError for one this version has no kernels for."""
    layout = text.lower()
    if layout in LAYOUTS:
        return layout
    why = "is not in this version" if layout in STORABLE else "is none"
    raise UserError(f"layout {text!r} {why}; use {' or '.join(LAYOUTS)}")


def misalignment(problem: Problem) -> str | None:
    """Which extent TMA cannot move and why, or None."""
    for operand, dim in CONTIGUOUS[problem.layout].items():
        extent = problem.dims[dim]
        if extent % TMA_ALIGNMENT:
            return (
                f"{dim} is {extent}, but rows of {operand.upper()} are {dim} long in layout "
                f"{problem.layout} and TMA needs 16-byte rows: pad {dim} to a multiple of {TMA_ALIGNMENT}"
            )
    return None


def extents(columns: Columns, problem: Problem) -> tuple[IntArray, IntArray]:
    """M and N as the kernels see them: swap_ab computes the transposed product, N x M."""
    m, n = problem.dims["m"], problem.dims["n"]
    swapped = columns["swap_ab"]
    return m + swapped * (n - m), n + swapped * (m - n)


def flops(problem: Problem) -> int:
    """Floating-point operations of the product: 2 m n k a batch entry."""
    dims = problem.dims
    return 2 * dims["m"] * dims["n"] * dims["k"] * dims["batch"]


def compulsory_bytes(problem: Problem) -> int:
    """Bytes of A, B and D, each moved once."""
    m, n, k, batch = (problem.dims[name] for name in DIMS)
    return ELEMENT_BYTES * batch * (m * k + k * n + m * n)


def fits(problem: Problem, device: DeviceFacts) -> str | None:
    """Why the problem is too large to be measured and checked on this GPU, or None.

    Counted, at the checker's peak: two sets of A, B and D (timed and integer probe); B once in fp64 and
    twice in fp32 for the reference; of D's size the fp64 reference, the bound, the exact answer and
    three fp64 temporaries; and 1 GiB for CUDA, cuBLAS and workspaces.
    """
    m, n, k, batch = (problem.dims[name] for name in DIMS)
    needed = 2 * compulsory_bytes(problem) + batch * (16 * k * n + 40 * m * n) + (1 << 30)
    if needed <= device.memory_bytes:
        return None
    return (
        f"{problem.label}: measuring and checking needs {needed / 2**30:.0f} GiB, "
        f"{device.name} has {device.memory_bytes / 2**30:.0f} GiB"
    )
