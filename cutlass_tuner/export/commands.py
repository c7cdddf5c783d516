"""The compiler lines of an export: the flags of the measurement, and what each target adds to them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

CUTLASS = "$CUTLASS"
"""Stands for the CUTLASS checkout in the lines that are printed for people."""

_SHIM = ("-DCUTLASS_TUNER_SHIM", "-Xcompiler", "-fPIC", "-shared")


def compile_flags(flags: Sequence[str], arch: str) -> tuple[str, ...]:
    """The measured build's flags with its include paths left out; language and architecture are added
    where the build gave them some other way. (-gencode, not -arch: for sm_90a nvcc 13 would also run its
    front end for plain compute_90, which doubles the compile and helps nobody.)"""
    kept = tuple(flag for flag in _joined(flags) if not flag.startswith(("-I", "-isystem")))
    standard = () if any(f.startswith(("-std", "--std")) for f in kept) else ("-std=c++17",)
    named = any(f.startswith(("-arch", "--gpu-architecture", "-gencode", "--generate-code")) for f in kept)
    return (
        *standard,
        *(() if named else (f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}",)),
        *kept,
    )


def defines(flags: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The macros that `flags` define, as (name, value), in their order."""
    macros = []
    for flag in _joined(flags):
        if flag.startswith("-D"):
            name, _, value = flag[2:].partition("=")
            macros.append((name, value))
    return tuple(macros)


def includes(cutlass: str) -> tuple[str, ...]:
    """`-I` for a CUTLASS checkout: its headers and the two of its utilities."""
    return (f"-I{cutlass}/include", f"-I{cutlass}/tools/util/include")


def object_line(flags: Sequence[str], name: str, beside: Sequence[str] = ()) -> str:
    """`beside`: include paths besides CUTLASS's."""
    return _line(*flags, *includes(CUTLASS), *beside, "-c", f"{name}.cu", "-o", f"{name}.o")


def library_line(flags: Sequence[str], name: str, library: str, beside: Sequence[str] = ()) -> str:
    """The export and its C face as a shared library."""
    return _line(*flags, *includes(CUTLASS), *beside, *_SHIM, f"{name}.cu", "-o", library)


def bench_line(flags: Sequence[str], name: str, *, cublas: bool) -> str:
    extra = ("-DWITH_CUBLAS", "-lcublas") if cublas else ()
    return _line(*flags, f"{name}_bench.cu", f"{name}.o", *extra, "-o", f"{name}_bench")


def shared_library(
    nvcc: Path, include_dirs: Sequence[Path], flags: Sequence[str], cu: Path, out: Path
) -> list[str]:
    """Arguments that compile an export with its C shim into a library the measuring child can load."""
    dirs = [f"-I{folder}" for folder in include_dirs]
    return [str(nvcc), *flags, *dirs, *_SHIM, str(cu), "-o", str(out)]


def _joined(flags: Sequence[str]) -> list[str]:
    """`-I dir`, `-D NAME` and the like written as one word."""
    words: list[str] = []
    for flag in flags:
        if words and words[-1] in ("-I", "-isystem", "-D", "-arch", "-gencode", "-std"):
            separator = "" if words[-1] in ("-I", "-D", "-isystem") else "="
            words[-1] += separator + flag
        else:
            words.append(flag)
    return words


def _line(*words: str) -> str:
    """For a shell, with $CUTLASS left to expand."""
    return " ".join(["nvcc", *(word if CUTLASS in word else shlex.quote(word) for word in words)])
