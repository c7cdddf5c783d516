"""The texts of an exported header and its .cu file. Pure: the same study gives the same bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands
from cutlass_tuner.export.template import comment, fill, read
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.records import Contract, Problem

LAYOUTS = ("tn", "tt", "nn", "nt")
LAUNCH_CODES = 5
"""Launch knobs of a GEMM: the fields of the host header's GemmLaunch that are not the device's."""

SEARCHED_MARK = "~"
"""After the figures of a kernel that no final measured on the problem it serves."""

_CPP_NAMES = {"tn": "kTN", "tt": "kTT", "nn": "kNN", "nt": "kNT"}
_INCLUDE_ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*\n", re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """One export: what is served by which kernels, and how it is named.

    `served` is in table order; `kernels` are those it uses, in the order of their indices.
    """

    name: str
    namespace: str
    served: tuple[Tuned, ...]
    kernels: tuple[KernelText, ...]
    includes: tuple[str, ...]
    host_header: str
    provenance: Provenance
    unserved: tuple[Problem, ...]
    loss: float

    @property
    def contract(self) -> Contract:
        return self.served[0].problem.contract

    @property
    def searched(self) -> tuple[Tuned, ...]:
        """Problems served by a kernel that no final measured on them."""
        return tuple(tuned for tuned in self.served if tuned.from_search)

    @property
    def flags(self) -> tuple[str, ...]:
        environment = self.provenance.environment
        return commands.compile_flags(environment.flags, environment.arch)

    def kernel_index(self, tuned: Tuned) -> int:
        return [kernel.config.key for kernel in self.kernels].index(tuned.kernel_key)


def table_order(served: Sequence[Tuned]) -> tuple[Tuned, ...]:
    """Sorted as `dispatch` searches: layout, m, n, k, batch."""
    return tuple(sorted(served, key=lambda tuned: _sort_key(tuned.problem)))


def header(unit: Unit) -> str:
    layouts = {tuned.problem.layout for tuned in unit.served}
    elements = unit.contract.elements
    return fill(
        "header.h.in",
        {
            "PROVENANCE": _provenance(unit),
            "L2": unit.provenance.l2,
            "SHAPES": _shapes(unit),
            "NVCC_LINE": commands.object_line(unit.flags, unit.name),
            "GUARD": _guard(unit),
            "NAMESPACE": unit.namespace,
            "DEFAULT_LAYOUT": _CPP_NAMES[next(layout for layout in LAYOUTS if layout in layouts)],
            "ARCH": unit.provenance.environment.arch,
            "TYPE_A": elements["a"],
            "TYPE_B": elements["b"],
            "TYPE_D": elements["d"],
            "TYPE_ACC": unit.contract.accumulator,
        },
    )


def source(unit: Unit) -> str:
    return fill(
        "source.cu.in",
        {
            "PROVENANCE": _provenance(unit),
            "NVCC_LINE": commands.object_line(unit.flags, unit.name),
            "DEFINES": _defines(unit.flags),
            "NAME": unit.name,
            "INCLUDES": "\n".join(f"#include <{name}>" for name in unit.includes),
            "CUTLASS_GUARD": _cutlass_guard(unit.provenance.environment.cutlass),
            "HOST_HEADER": _INCLUDE_ONCE.sub("", unit.host_header),
            "KERNELS": "\n".join(_kernel(kernel) for kernel in unit.kernels),
            "NAMESPACE": unit.namespace,
            "ZERO_RANGE": read("zero_range.h"),
            "KERNEL_COUNT": str(len(unit.kernels)),
            "KERNEL_ROWS": "\n".join(
                f"      kernel_row<{kernel.template_arguments}>(&{kernel.symbol})," for kernel in unit.kernels
            ),
            "CAPABILITY": _capability(unit.provenance.environment.arch),
            "TABLE": table(unit),
            "DISPATCH": read("dispatch.h"),
        },
    )


def _guard(unit: Unit) -> str:
    words = dict.fromkeys([*unit.namespace.split("::"), unit.name, "h"])
    return re.sub(r"\W", "_", "_".join(words)).upper() + "_"


def table(unit: Unit) -> str:
    """The rows `dispatch` searches, with their launch codes."""
    rows = "\n".join(f"    {_row(unit, tuned)}," for tuned in unit.served)
    return (
        "// launch: swizzle, raster, splits, decomposition, reduction.\n"
        f"struct Row {{\n  Entry entry;\n  bool beats_baseline;\n  int launch[{LAUNCH_CODES}];\n}};\n\n"
        "// Sorted by layout, m, n, k, batch.\n"
        f"constexpr int kRowCount = {len(unit.served)};\n"
        f"constexpr Row kRows[kRowCount] = {{\n{rows}\n}};"
    )


def _row(unit: Unit, tuned: Tuned) -> str:
    codes = tuned.launch_codes
    if len(codes) < LAUNCH_CODES or any(codes[LAUNCH_CODES:]):
        raise ValueError(f"{tuned.config.key}: launch codes {codes} are not those of a GEMM")
    p = tuned.problem
    extents = ", ".join(str(p.dims[name]) for name in ("m", "n", "k"))
    problem = f"{{{extents}, {p.dims.get('batch', 1)}, Layout::{_CPP_NAMES[p.layout]}}}"
    figures = ", ".join(_float(v) for v in (tuned.time_us, tuned.speedup_torch, tuned.speedup_cublaslt_tuned))
    entry = f"{{{problem}, {unit.kernel_index(tuned)}, {figures}}}"
    launch = ", ".join(str(code) for code in codes[:LAUNCH_CODES])
    return f"{{{entry}, {'true' if tuned.beats_baselines else 'false'}, {{{launch}}}}}"


def _sort_key(problem: Problem) -> tuple[int, ...]:
    if problem.layout not in LAYOUTS:
        raise UserError(f"layout {problem.layout!r} cannot be exported; known are {', '.join(LAYOUTS)}")
    dims = problem.dims
    return (LAYOUTS.index(problem.layout), dims["m"], dims["n"], dims["k"], dims.get("batch", 1))


def _provenance(unit: Unit) -> str:
    env, origin = unit.provenance.environment, unit.provenance
    lines = [
        f"{unit.name}: CUTLASS GEMM kernels tuned by measuring, written by cutlass-tuner {env.tuner}",
        *filter(None, [origin.label]),
        f"Study {origin.study}, {origin.date}" + (f", command: {origin.command}" if origin.command else ""),
        f"GPU {env.gpu} ({env.arch}, {env.sm_count} SMs), driver {env.driver}",
        f"CUDA {env.cuda}, {env.compiler}, CUTLASS {env.cutlass}; compared with torch {env.torch}, "
        f"cuBLAS {env.cublas}",
        f"Kernels: {len(unit.kernels)}, problems: {len(unit.served)}",
    ]
    if unit.loss > 0.0:
        lines.append(
            f"Fewer kernels than winners: {unit.loss:.2%} slower (geometric mean over calls, as the search "
            "saw it) than each problem's own winner"
        )
    if unit.unserved:
        labels = ", ".join(f"{problem.label} {problem.layout}" for problem in unit.unserved)
        lines.append(f"Not served, no exported kernel was measured on them: {labels}")
    return "\n".join(comment(line) for line in lines)


def _shapes(unit: Unit) -> str:
    title = (
        f"{'m':>6} {'n':>6} {'k':>6} {'batch':>5} layout {'time us':>10} {'x torch':>8} {'x tuned Lt':>10}"
    )
    lines = [f"//  {title}  kernel  name"]
    for tuned in unit.served:
        dims = tuned.problem.dims
        extents = " ".join(f"{dims[name]:>6}" for name in ("m", "n", "k"))
        ratios = f"{_ratio(tuned.speedup_torch):>8} {_ratio(tuned.speedup_cublaslt_tuned):>10}"
        figures = f"{tuned.time_us:>10.2f} {ratios}{SEARCHED_MARK if tuned.from_search else ' '}"
        line = (
            f" {extents} {dims.get('batch', 1):>5} {tuned.problem.layout:>6} {figures}"
            f" {unit.kernel_index(tuned):>6}"
        )
        name = " ".join(tuned.problem.name.split())
        lines.append(f"// {line}  {name}".rstrip("\\ "))
    if unit.searched:
        lines += [
            f"// {SEARCHED_MARK} from the search, no final measured it here: the winner's figures, slowed by",
            "//   what the search saw between the two, never quickened; beats_baseline is false",
        ]
    return "\n".join(lines)


def _kernel(kernel: KernelText) -> str:
    return f"{comment(kernel.config.key)}\n{kernel.type_definitions.strip()}\n\n{kernel.wrapper.strip()}\n"


def _defines(flags: Sequence[str]) -> str:
    """The measured build's macros, so that a build which forgets one still makes the same kernels."""
    return "\n".join(
        f"#ifndef {name}\n#define {name} {value}".rstrip() + "\n#endif"
        for name, value in commands.defines(flags)
    )


def _cutlass_guard(version: str) -> str:
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is None:
        return ""
    return (
        f"#if CUTLASS_MAJOR != {parts[1]} || CUTLASS_MINOR != {parts[2]}\n"
        f'#warning "these kernels were measured with CUTLASS {version}; another version may be slower"\n'
        "#endif"
    )


def _capability(arch: str) -> str:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None:
        raise UserError(f"architecture {arch!r} cannot be exported; it must look like sm_90a")
    return match[1]


def _float(value: float | None) -> str:
    return f"{value or 0.0:.4f}f"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
