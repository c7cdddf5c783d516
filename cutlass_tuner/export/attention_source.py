"""The texts of an exported attention header, its .cu file and its self-benchmark.

Pure: the same study gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutlass_tuner.export import commands, fragments
from cutlass_tuner.export.bench import element
from cutlass_tuner.export.fragments import SEARCHED_MARK
from cutlass_tuner.export.template import comment, fill, read
from cutlass_tuner.export.tuned import KernelText, Tuned
from cutlass_tuner.export.unit import Unit
from cutlass_tuner.ops import registry
from cutlass_tuner.records import Problem, Tolerance

EXTENTS = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim")
LAYOUTS = ("bshd", "bhsd")
MASKS = ("kNone", "kBottomRight", "kTopLeft")
"""By the value of the dim causal."""
LAUNCH_CODES = 3
"""Launch knobs of attention: grid, order, section."""
LAUNCHERS = {"flash": "attention_flash.h", "example88": "attention_example88.h"}
"""How kernels of a template (knob `template`) are launched; each file defines `<template>_row<STRUCT>`."""
BESIDE = ("-I.",)
"""What a compiler in the export's folder needs beyond CUTLASS: shipped files name each other from there."""


def table_order(served: Sequence[Tuned]) -> tuple[Tuned, ...]:
    """Sorted as `dispatch` searches: layout, mask, head_dim, lengths, heads, batch."""
    return tuple(sorted(served, key=lambda tuned: _sort_key(tuned.problem)))


def _sort_key(problem: Problem) -> tuple[int, ...]:
    order = ("causal", "head_dim", "seqlen_q", "seqlen_kv", "heads_q", "heads_kv", "batch")
    return (LAYOUTS.index(problem.layout), *(problem.dims[name] for name in order))


def header(unit: Unit) -> str:
    return fill(
        "attention_header.h.in",
        {
            "PROVENANCE": fragments.commented(provenance(unit)),
            "L2": unit.provenance.l2,
            "SHAPES": _shapes(unit),
            "NVCC_LINE": object_line(unit),
            "GUARD": fragments.guard(unit),
            "NAMESPACE": unit.namespace,
            "ARCH": unit.provenance.environment.arch,
            "TYPE": unit.contract.elements["o"],
            "TYPE_ACC": unit.contract.accumulator,
        },
    )


def source(unit: Unit, includes: Sequence[str]) -> str:
    """`includes` are whole `#include` lines: the kernels of the templates used, and their host headers."""
    capability = fragments.capability(unit.provenance.environment.arch)
    templates = [template(kernel) for kernel in unit.kernels]
    rows = [
        f"      {made}_row<{kernel.template_arguments}>(&{kernel.symbol}),"
        for made, kernel in zip(templates, unit.kernels, strict=True)
    ]
    return fill(
        "attention_source.cu.in",
        {
            "PROVENANCE": fragments.commented(provenance(unit)),
            "NVCC_LINE": object_line(unit),
            "DEFINES": fragments.defines(unit.flags),
            "NAME": unit.name,
            "INCLUDES": "\n".join(includes),
            "CUTLASS_GUARD": fragments.cutlass_guard(unit.provenance.environment.cutlass),
            "KERNELS": "\n".join(f"{kernel.type_definitions.strip()}\n" for kernel in unit.kernels),
            "NAMESPACE": unit.namespace,
            "LAUNCH_CONFIG": read("launch_config.h"),
            "LAUNCHERS": "\n".join(read(file) for name, file in LAUNCHERS.items() if name in templates),
            "KERNEL_COUNT": str(len(unit.kernels)),
            "KERNEL_ROWS": "\n".join(rows),
            "ON_DEVICE": fill("on_device.h.in", {"CAPABILITY": capability}),
            "TABLE": table(unit),
            "DISPATCH": read("attention_dispatch.h"),
        },
    )


def template(kernel: KernelText) -> str:
    """Which make of kernels it is of."""
    return str(kernel.config.knobs["template"])


def object_line(unit: Unit) -> str:
    return commands.object_line(unit.flags, unit.name, BESIDE)


def table(unit: Unit) -> str:
    """The rows `dispatch` searches, with their launch codes."""
    rows = "\n".join(f"    {_row(unit, tuned)}," for tuned in unit.served)
    return (
        "// launch: grid (1 persistent), order (1 tiles with most keys first), section (heads).\n"
        f"struct Row {{\n  Entry entry;\n  bool beats_baseline;\n  int launch[{LAUNCH_CODES}];\n}};\n\n"
        "// Sorted by layout, mask, head_dim, seqlen_q, seqlen_kv, heads_q, heads_kv, batch.\n"
        f"constexpr int kRowCount = {len(unit.served)};\n"
        f"constexpr Row kRows[kRowCount] = {{\n{rows}\n}};"
    )


def _row(unit: Unit, tuned: Tuned) -> str:
    codes = tuned.launch_codes
    if len(codes) < LAUNCH_CODES or any(codes[LAUNCH_CODES:]):
        raise ValueError(f"{tuned.config.key}: launch codes {codes} are not those of attention")
    measured = (tuned.time_us, tuned.speedup_torch, tuned.speedup_best)
    figures = ", ".join(fragments.cpp_float(value) for value in measured)
    entry = f"{{{problem_text(tuned.problem)}, {unit.kernel_index(tuned)}, {figures}}}"
    launch = ", ".join(str(code) for code in codes[:LAUNCH_CODES])
    return f"{{{entry}, {'true' if tuned.beats_baselines else 'false'}, {{{launch}}}}}"


def problem_text(problem: Problem, scope: str = "") -> str:
    """The initializer of a `Problem`; `scope` stands before the names of its enums."""
    extents = ", ".join(str(problem.dims[name]) for name in EXTENTS)
    mask, layout = MASKS[problem.dims["causal"]], f"k{problem.layout.upper()}"
    return f"{{{extents}, {scope}Causal::{mask}, {scope}Layout::{layout}}}"


def provenance(unit: Unit) -> list[str]:
    """Lines of where the figures come from."""
    element_type = unit.contract.elements["o"]
    what = f"CUTLASS attention kernels (forward, {element_type})"
    return fragments.provenance(unit, what, f"torch {unit.provenance.environment.torch}")


def _shapes(unit: Unit) -> str:
    extents = f"{'batch':>5} {'hq':>3} {'hkv':>3} {'seqq':>6} {'seqkv':>6} {'dim':>3} {'causal':>12} layout"
    lines = [f"//  {extents} {'time us':>10} {'TFLOP/s':>8} {'x torch':>8} {'x best':>8}  kernel  best  name"]
    for tuned in unit.served:
        problem, dims = tuned.problem, tuned.problem.dims
        tflops = registry.op(problem.op).flops(problem) / tuned.time_us / 1e6
        causal = ("none", "bottom-right", "top-left")[dims["causal"]]
        ratios = f"{fragments.ratio(tuned.speedup_torch):>8} {fragments.ratio(tuned.speedup_best):>8}"
        line = (
            f" {dims['batch']:>5} {dims['heads_q']:>3} {dims['heads_kv']:>3} {dims['seqlen_q']:>6} "
            f"{dims['seqlen_kv']:>6} {dims['head_dim']:>3} {causal:>12} {problem.layout:>6} "
            f"{tuned.time_us:>10.2f} {tflops:>8.1f} {ratios}{SEARCHED_MARK if tuned.from_search else ' '} "
            f"{unit.kernel_index(tuned):>6}  {tuned.best_baseline or '-'}"
        )
        lines.append(f"// {line}  {fragments.one_line(problem.name)}".rstrip("\\ "))
    return "\n".join([*lines, *fragments.searched_legend(unit)])


def bench(unit: Unit, tolerance: Tolerance) -> str:
    """The self-benchmark, judging by the tolerance the study judged by."""
    label = unit.provenance.label
    held = {name.upper(): repr(value) for name, value in tolerance.model_dump().items()}
    return fill(
        "attention_bench.cu.in",
        {
            **held,
            "NAME": unit.name,
            "NAMESPACE": unit.namespace,
            "BENCH_LINE": commands.bench_line(unit.flags, unit.name, cublas=False),
            "LABEL": f"{comment(label)}\n" if label else "",
            "CPP": element(unit.contract.elements["o"])[0],
            "COLD_L2": "true" if unit.provenance.l2 == "cold" else "false",
            "RANDOM": read("bench_random.h"),
            "REPLAY": read("bench_replay.h"),
        },
    )
