"""Pieces of text that every exported source or page has, whatever its op."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.template import comment
from cutlass_tuner.export.tuned import Tuned
from cutlass_tuner.export.unit import Unit

SEARCHED_MARK = "~"
"""After the figures of a kernel that no final measured on the problem it serves."""

_INCLUDE_ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*\n", re.MULTILINE)


def guard(unit: Unit) -> str:
    """The macro that guards the header."""
    words = dict.fromkeys([*unit.namespace.split("::"), unit.name, "h"])
    return re.sub(r"\W", "_", "_".join(words)).upper() + "_"


def provenance(unit: Unit, what: str, compared: str) -> list[str]:
    """Lines of where the figures come from. `what` the kernels are, what they were `compared` with."""
    env, origin = unit.provenance.environment, unit.provenance
    lines = [
        f"{unit.name}: {what} tuned by measuring, written by cutlass-tuner {env.tuner}",
        *filter(None, [origin.label]),
        f"Study {origin.study}, {origin.date}" + (f", command: {origin.command}" if origin.command else ""),
        f"GPU {env.gpu} ({env.arch}, {env.sm_count} SMs), driver {env.driver}",
        f"CUDA {env.cuda}, {env.compiler}, CUTLASS {env.cutlass}; compared with {compared}",
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
    return lines


def commented(lines: Sequence[str]) -> str:
    return "\n".join(comment(line) for line in lines)


def searched_legend(unit: Unit) -> list[str]:
    """What the mark in a table means; nothing where nothing is marked."""
    if not unit.searched:
        return []
    return [
        f"// {SEARCHED_MARK} from the search, no final measured it here: the winner's figures, slowed by",
        "//   what the search saw between the two, never quickened; beats_baseline is false",
    ]


def searched_note(unit: Unit) -> str:
    """What the page says of problems whose kernel no final measured on them; nothing where there are none."""
    if not unit.searched:
        return ""
    labels = ", ".join(f"{tuned.problem.label} {tuned.problem.layout}" for tuned in unit.searched)
    return (
        f"\nMarked `{SEARCHED_MARK}` in the table of `{unit.name}.h`: {' '.join(labels.split())}.\n"
        "The kernel limit left their winners out, and no final measured the kernels that serve them\n"
        "instead. Their figures are the winner's, slowed by what the search saw between the two;\n"
        "`beats_baseline` is false, for only a final may say otherwise.\n"
    )


def run_lines(unit: Unit) -> str:
    """`cutlass-tuner run` of each served problem, indented."""
    return "\n".join(f"    {_run_line(unit, tuned)}" for tuned in unit.served)


def _run_line(unit: Unit, tuned: Tuned) -> str:
    origin = unit.provenance
    return run_command(tuned.problem, tuned.config, origin.l2, origin.environment.compiler)


def page_label(unit: Unit) -> str:
    return f"\n\n**{unit.provenance.label}.**" if unit.provenance.label else ""


def defines(flags: Sequence[str]) -> str:
    """The measured build's macros, so that a build which forgets one still makes the same kernels."""
    return "\n".join(
        f"#ifndef {name}\n#define {name} {value}".rstrip() + "\n#endif"
        for name, value in commands.defines(flags)
    )


def cutlass_guard(version: str) -> str:
    """A warning in a build with another CUTLASS; nothing where the version says nothing."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is None:
        return ""
    return (
        f"#if CUTLASS_MAJOR != {parts[1]} || CUTLASS_MINOR != {parts[2]}\n"
        f'#warning "these kernels were measured with CUTLASS {version}; another version may be slower"\n'
        "#endif"
    )


def capability(arch: str) -> str:
    """Major and minor compute capability in one number. Raises UserError for what is no sm_XY."""
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None:
        raise UserError(f"architecture {arch!r} cannot be exported; it must look like sm_90a")
    return match[1]


def included_once(header: str) -> str:
    """A header's text to stand inside a source: without its `#pragma once`."""
    return _INCLUDE_ONCE.sub("", header)


def cpp_float(value: float | None) -> str:
    return f"{value or 0.0:.4f}f"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def one_line(text: str) -> str:
    """A user's name, in a comment: no line break, nothing that joins lines."""
    return " ".join(text.split())
