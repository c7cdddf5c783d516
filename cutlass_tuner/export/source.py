"""The texts of an exported GEMM header and its .cu file. Pure: the same study gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands, fragments
from cutlass_tuner.export.fragments import SEARCHED_MARK
from cutlass_tuner.export.template import comment, fill, read
from cutlass_tuner.export.tuned import KernelText, Tuned
from cutlass_tuner.export.unit import Unit
from cutlass_tuner.records import Problem

LAYOUTS = ("tn", "tt", "nn", "nt")
LAUNCH_CODES = 5
"""Launch knobs of a GEMM: the fields of the host header's GemmLaunch that are not the device's."""

_CPP_NAMES = {"tn": "kTN", "tt": "kTT", "nn": "kNN", "nt": "kNT"}


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
            "GUARD": fragments.guard(unit),
            "NAMESPACE": unit.namespace,
            "DEFAULT_LAYOUT": _CPP_NAMES[next(layout for layout in LAYOUTS if layout in layouts)],
            "ARCH": unit.provenance.environment.arch,
            "TYPE_A": elements["a"],
            "TYPE_B": elements["b"],
            "TYPE_D": elements["d"],
            "TYPE_ACC": unit.contract.accumulator,
        },
    )


def source(unit: Unit, includes: Sequence[str], host_header: str) -> str:
    """`includes` are headers of CUTLASS, `host_header` the text between a call and a kernel's Params."""
    capability = fragments.capability(unit.provenance.environment.arch)
    return fill(
        "source.cu.in",
        {
            "PROVENANCE": _provenance(unit),
            "NVCC_LINE": commands.object_line(unit.flags, unit.name),
            "DEFINES": fragments.defines(unit.flags),
            "NAME": unit.name,
            "INCLUDES": "\n".join(f"#include <{name}>" for name in includes),
            "CUTLASS_GUARD": fragments.cutlass_guard(unit.provenance.environment.cutlass),
            "HOST_HEADER": fragments.included_once(host_header),
            "KERNELS": "\n".join(_kernel(kernel) for kernel in unit.kernels),
            "NAMESPACE": unit.namespace,
            "ZERO_RANGE": read("zero_range.h"),
            "LAUNCH_CONFIG": read("launch_config.h"),
            "KERNEL_COUNT": str(len(unit.kernels)),
            "KERNEL_ROWS": "\n".join(
                f"      kernel_row<{kernel.template_arguments}>(&{kernel.symbol})," for kernel in unit.kernels
            ),
            "ON_DEVICE": fill("on_device.h.in", {"CAPABILITY": capability}),
            "TABLE": table(unit),
            "DISPATCH": read("dispatch.h"),
        },
    )


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
    measured = (tuned.time_us, tuned.speedup_torch, tuned.speedup_cublaslt_tuned)
    figures = ", ".join(fragments.cpp_float(value) for value in measured)
    entry = f"{{{problem}, {unit.kernel_index(tuned)}, {figures}}}"
    launch = ", ".join(str(code) for code in codes[:LAUNCH_CODES])
    return f"{{{entry}, {'true' if tuned.beats_baselines else 'false'}, {{{launch}}}}}"


def _sort_key(problem: Problem) -> tuple[int, ...]:
    if problem.layout not in LAYOUTS:
        raise UserError(f"layout {problem.layout!r} cannot be exported; known are {', '.join(LAYOUTS)}")
    dims = problem.dims
    return (LAYOUTS.index(problem.layout), dims["m"], dims["n"], dims["k"], dims.get("batch", 1))


def _provenance(unit: Unit) -> str:
    return fragments.commented(provenance(unit))


def provenance(unit: Unit) -> list[str]:
    """Lines of where the figures come from."""
    env = unit.provenance.environment
    return fragments.provenance(unit, "CUTLASS GEMM kernels", f"torch {env.torch}, cuBLAS {env.cublas}")


def _shapes(unit: Unit) -> str:
    title = (
        f"{'m':>6} {'n':>6} {'k':>6} {'batch':>5} layout {'time us':>10} {'x torch':>8} {'x tuned Lt':>10}"
    )
    lines = [f"//  {title}  kernel  name"]
    for tuned in unit.served:
        dims = tuned.problem.dims
        extents = " ".join(f"{dims[name]:>6}" for name in ("m", "n", "k"))
        torch, cublaslt = (fragments.ratio(x) for x in (tuned.speedup_torch, tuned.speedup_cublaslt_tuned))
        figures = (
            f"{tuned.time_us:>10.2f} {torch:>8} {cublaslt:>10}{SEARCHED_MARK if tuned.from_search else ' '}"
        )
        line = (
            f" {extents} {dims.get('batch', 1):>5} {tuned.problem.layout:>6} {figures}"
            f" {unit.kernel_index(tuned):>6}"
        )
        lines.append(f"// {line}  {fragments.one_line(tuned.problem.name)}".rstrip("\\ "))
    return "\n".join([*lines, *fragments.searched_legend(unit)])


def _kernel(kernel: KernelText) -> str:
    return f"{comment(kernel.config.key)}\n{kernel.type_definitions.strip()}\n\n{kernel.wrapper.strip()}\n"
