"""The text of an exported PyTorch module: a custom op in front of the kernels, torch behind it.

The module loads the export's .cu, compiled as a shared library with its C face, through ctypes: no header of
torch is compiled, so that one library serves every version of torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import attention_source, commands, fragments, source
from cutlass_tuner.export.template import fill
from cutlass_tuner.export.tuned import Tuned
from cutlass_tuner.export.unit import Unit

_TYPES = {"f16": "torch.float16", "bf16": "torch.bfloat16"}
_POINTER, _TEXT, _EXTENT, _FLOAT = "ctypes.c_void_p", "ctypes.c_char_p", "ctypes.c_int64", "ctypes.c_float"
_GEMM = ((_EXTENT,) * 4, (_TEXT,), (_POINTER,) * 3)
_ATTENTION = ((f"ctypes.POINTER({_EXTENT})",), (_TEXT,), (_POINTER,) * 5)


def file_name(unit: Unit) -> str:
    return f"{unit.name}_torch.py"


def library_name(unit: Unit) -> str:
    """The shared library that the module loads from its own folder. Python must not take it for a module."""
    return f"lib{unit.name}_torch.so"


def build_line(unit: Unit, beside: Sequence[str] = ()) -> str:
    """The compiler line of that library, for people; `beside` as for `commands.object_line`."""
    return commands.library_line(unit.flags, unit.name, library_name(unit), beside)


def gemm(unit: Unit) -> str:
    rows = (
        (*(t.problem.dims[x] for x in ("m", "n", "k")), t.problem.dims.get("batch", 1)) for t in unit.served
    )
    return fill(
        "gemm.py.in",
        {
            "DOC": _doc(unit, source.provenance(unit), "matmul(a, b)", build_line(unit)),
            "TABLE": _table(unit.served, rows),
            "LAYOUTS": repr(source.LAYOUTS),
            "LIBRARY_PART": _library(unit, "ct_export", _GEMM),
            "RUN": "ct_export_run",
            "WORKSPACE": "ct_export_workspace",
            **_types(unit, "a", "b", "d"),
        },
    )


def attention(unit: Unit) -> str:
    line = build_line(unit, attention_source.BESIDE)
    return fill(
        "attention.py.in",
        {
            "DOC": _doc(unit, attention_source.provenance(unit), "attention(q, k, v)", line),
            "TABLE": _table(unit.served, (tuple(t.problem.dims.values()) for t in unit.served)),
            "LIBRARY_PART": _library(unit, "ct_export_attention", _ATTENTION),
            "RUN": "ct_export_attention_run",
            "WORKSPACE": "ct_export_attention_workspace",
            **_types(unit, "q", "k", "v", "o"),
        },
    )


def _types(unit: Unit, *operands: str) -> dict[str, str]:
    """What both modules say of types. Raises UserError where the operands are not of one type torch has."""
    types = {unit.contract.elements[name] for name in operands}
    if len(types) != 1 or not types <= _TYPES.keys():
        raise UserError(
            f"no PyTorch module for element types {', '.join(sorted(types))}: one of {', '.join(_TYPES)} is "
            "needed for all operands; use --format header"
        )
    capability = fragments.capability(unit.provenance.environment.arch)
    (dtype,) = (_TYPES[letter] for letter in types)
    return {
        "DTYPE": dtype,
        "TYPE": dtype.removeprefix("torch."),
        "TORCH_NAMESPACE": re.sub(r"\W", "_", unit.name),
        "MAJOR": capability[:-1],
        "MINOR": capability[-1],
    }


def _doc(unit: Unit, lines: Sequence[str], call: str, line: str) -> str:
    """The module's docstring. What a study holds may be any text: it cannot end the string."""
    told = "\n".join(" ".join(text.split()) for text in lines).replace("\\", "").replace('"""', "'''")
    return (
        f'r"""{told}\n\n'
        f"{call} with these kernels as a custom op: it works under torch.compile and in CUDA graphs, has\n"
        "gradients, and falls back to torch for whatever was not tuned. The kernels are compiled once, by\n"
        f"`python {file_name(unit)}` or by this line in this folder:\n\n"
        f'    {line}\n"""'
    )


def _table(served: Sequence[Tuned], extents: Iterable[tuple[int, ...]]) -> str:
    rows = []
    for tuned, dims in zip(served, extents, strict=True):
        ratio = "None" if tuned.speedup_torch is None else f"{tuned.speedup_torch:.4f}"
        key: tuple[Any, ...] = (*dims, tuned.problem.layout)
        text = ", ".join(f'"{part}"' if isinstance(part, str) else str(part) for part in key)
        rows.append(f"    ({text}): ({tuned.time_us:.4f}, {ratio}),")
    return "\n".join(rows)


def _library(unit: Unit, prefix: str, arguments: tuple[tuple[str, ...], ...]) -> str:
    """Loading and building; `arguments` are ctypes of the extents, the layout and the operands."""
    extents, layout, operands = arguments
    capability = fragments.capability(unit.provenance.environment.arch)
    flags = "".join(f"\n    {json.dumps(flag)}," for flag in unit.flags)
    return fill(
        "library.py.in",
        {
            "NAME": unit.name,
            "LIBRARY": library_name(unit),
            "FLAGS": f"[{flags}\n]",
            "MAJOR": capability[:-1],
            "MINOR": capability[-1],
            "CUTLASS_VERSION": unit.provenance.environment.cutlass,
            "RUN": f"{prefix}_run",
            "RUN_TYPES": ", ".join((*extents, *layout, *operands, _FLOAT, _POINTER, _POINTER)),
            "WORKSPACE": f"{prefix}_workspace",
            "WORKSPACE_TYPES": ", ".join((*extents, *layout)),
        },
    )
