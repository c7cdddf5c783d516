"""What an attention problem is: its contract, extents, mask, layouts, work and memory.

O = softmax(scale Q K^T + mask) V for `batch` sequences, scale = 1 / sqrt(head_dim), and the log-sum-exp of
each row of scaled scores (fp32, natural). Query head h reads K and V of head h // (heads_q / heads_kv).
A row that sees no key has O = 0 and a log-sum-exp of -inf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.shape_file import LARGEST, WHOLE
from cutlass_tuner.records import Contract, DeviceFacts, Problem


def _contract(element: str) -> Contract:
    return Contract(elements=dict.fromkeys("qkvo", element) | {"lse": "f32"}, accumulator="f32")


CONTRACTS: Mapping[str, Contract] = {"fmha": _contract("f16"), "fmha-bf16": _contract("bf16")}
"""The ops that differ in their element type alone."""

DIMS = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim", "causal")
LAYOUTS = ("bshd", "bhsd")
"""Memory order of Q, K, V and O, outermost first: batch, sequence, head, dim or batch, head, sequence..."""

HEAD_DIMS = (32, 64, 128, 256)
FULL, BOTTOM_RIGHT, TOP_LEFT = 0, 1, 2
"""Values of the dim causal. Bottom-right: row i sees key j where j <= i + seqlen_kv - seqlen_q, so that the
last row sees all keys (flash-attn's way). Top-left: where j <= i (torch's is_causal)."""

MASKS = {FULL: "full", BOTTOM_RIGHT: "causal", TOP_LEFT: "causal-top-left"}

ELEMENT_BYTES = 2
LSE_BYTES = 4


def problem(extents: Sequence[int], layout: str | None = None, *, op: str = "fmha") -> Problem:
    """The problem of these `DIMS` (causal may be missing: 0) in a layout (default bshd).

    Raises UserError on what is not one.
    """
    if not len(DIMS) - 1 <= len(extents) <= len(DIMS):
        raise UserError(
            f"{len(extents)} extents {tuple(extents)}; give batch, heads_q, heads_kv, seqlen_q, seqlen_kv, "
            "head_dim and optionally causal (0 no mask, 1 bottom-right, 2 top-left)"
        )
    *sizes, causal = (*extents, FULL)[: len(DIMS)]
    for name, extent in zip(DIMS, sizes, strict=False):
        if not 1 <= extent <= LARGEST:
            raise UserError(f"{name} is {extent}; give {WHOLE}")
    if causal not in MASKS:
        raise UserError(f"causal is {causal}; give 0 (no mask), 1 (bottom-right) or 2 (top-left)")
    return labelled(checked(op, (*sizes, causal), layout))


def checked(
    op: str, extents: Sequence[int], layout: str | None, *, count: int = 1, name: str = ""
) -> Problem:
    """A problem of all `DIMS`, each in its range, with heads, head_dim and layout checked (UserError).

    Both alignments of a causal mask are one where there are as many queries as keys: it is called
    bottom-right.
    """
    dims = dict(zip(DIMS, extents, strict=True))
    if dims["causal"] == TOP_LEFT and dims["seqlen_q"] == dims["seqlen_kv"]:
        dims["causal"] = BOTTOM_RIGHT
    if dims["heads_q"] % dims["heads_kv"]:
        raise UserError(
            f"heads_q is {dims['heads_q']} and heads_kv {dims['heads_kv']}; as many query heads share each "
            "head of K and V, so heads_q must be a multiple of heads_kv"
        )
    if dims["head_dim"] not in HEAD_DIMS:
        dim = dims["head_dim"]
        there = ", ".join(map(str, HEAD_DIMS))
        larger = next((f"; pad it with zeros to {known}" for known in HEAD_DIMS if known > dim), "")
        raise UserError(f"head_dim is {dim}; there are kernels for {there}{larger}")
    known = (layout or LAYOUTS[0]).lower()
    if known not in LAYOUTS:
        raise UserError(f"layout {layout!r} is none; use {' or '.join(LAYOUTS)}")
    return Problem(op=op, dims=dims, layout=known, contract=CONTRACTS[op], count=count, name=name)


def labelled(problem: Problem) -> Problem:
    """The problem with a name that can be read where it has none, like b4.h32/8.q512.kv8192.d128.causal."""
    if problem.name:
        return problem
    batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, causal = (problem.dims[dim] for dim in DIMS)
    parts = [f"b{batch}", f"h{heads_q}" if heads_q == heads_kv else f"h{heads_q}/{heads_kv}"]
    parts += [f"s{seqlen_q}"] if seqlen_q == seqlen_kv else [f"q{seqlen_q}", f"kv{seqlen_kv}"]
    parts += [f"d{head_dim}", MASKS[causal]]
    parts += [problem.layout] if problem.layout != LAYOUTS[0] else []
    return problem.model_copy(update={"name": ".".join(parts)})


def mask(problem: Problem) -> str:
    """The kernel's word for the problem's mask, "full" or "causal": the diagonal is a run-time argument."""
    return "full" if problem.dims["causal"] == FULL else "causal"


def diagonal(problem: Problem) -> int:
    """Of a causal problem: row i sees key j where j <= i + diagonal."""
    aligned = problem.dims["causal"] == BOTTOM_RIGHT
    return problem.dims["seqlen_kv"] - problem.dims["seqlen_q"] if aligned else 0


def visible_pairs(problem: Problem) -> int:
    """(query, key) pairs of one head of one sequence that the mask lets through."""
    queries, keys = problem.dims["seqlen_q"], problem.dims["seqlen_kv"]
    if problem.dims["causal"] == FULL:
        return queries * keys
    # Row i sees i + 1 + diagonal keys, no fewer than none and no more than all.
    shift = diagonal(problem)
    blind = max(0, -shift)
    growing = max(0, min(queries, keys - shift) - blind)
    first = blind + 1 + shift
    return growing * first + growing * (growing - 1) // 2 + (queries - blind - growing) * keys


def flops(problem: Problem) -> int:
    """Floating-point operations of both products, 2 head_dim each for every visible pair of every head."""
    dims = problem.dims
    return 4 * dims["head_dim"] * visible_pairs(problem) * dims["heads_q"] * dims["batch"]


def compulsory_bytes(problem: Problem) -> int:
    """Bytes of Q, K, V, O and the log-sum-exp, each moved once.

    Keys that no query sees (top-left, more keys than queries) need not be read, nor queries that see no
    key (bottom-right, more queries than keys).
    """
    batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, causal = (problem.dims[dim] for dim in DIMS)
    fewer = min(seqlen_q, seqlen_kv)
    queries = fewer if causal == BOTTOM_RIGHT else seqlen_q
    keys = fewer if causal == TOP_LEFT else seqlen_kv
    rows = heads_q * (queries + seqlen_q) + 2 * heads_kv * keys
    return batch * (ELEMENT_BYTES * head_dim * rows + LSE_BYTES * heads_q * seqlen_q)


def fits(problem: Problem, device: DeviceFacts) -> str | None:
    """Why the problem is too large to be measured and checked on this GPU, or None.

    Counted, at the checker's peak: two sets of operands (timed and exact probe); of Q's, K's and V's size an
    fp64 copy; of O's size the fp64 reference, the bound and three fp64 temporaries, and of the log-sum-exp's
    size the same; and 3 GiB for the reference's scores, which are made in chunks, CUDA and workspaces.
    """
    batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, _ = (problem.dims[dim] for dim in DIMS)
    q, kv = batch * heads_q * seqlen_q, batch * heads_kv * seqlen_kv
    operands = ELEMENT_BYTES * head_dim * (2 * q + 2 * kv) + LSE_BYTES * q
    needed = 2 * operands + 8 * head_dim * (q + 2 * kv) + 40 * (head_dim + 1) * q + (3 << 30)
    if needed <= device.memory_bytes:
        return None
    return (
        f"{problem.label}: measuring and checking needs {needed / 2**30:.0f} GiB, "
        f"{device.name} has {device.memory_bytes / 2**30:.0f} GiB"
    )
