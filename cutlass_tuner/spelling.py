"""How problems and configs are written for people and for models: configs as differences from the default."""

from __future__ import annotations

from cutlass_tuner.records import KernelConfig, Problem, Scalar

DEFAULT = "default"
TELLING = 4
"""So many extents, joined by x, are read without their names."""


def few_extents(problem: Problem) -> bool:
    """Do the bare extents say what the problem is, as in 4096x4096x64?"""
    return len(problem.dims) <= TELLING


def extents_text(problem: Problem) -> str:
    """A problem without its user's name: 4096x4096x64, or where that says little each extent by name."""
    if few_extents(problem):
        return problem.model_copy(update={"name": ""}).label
    return " ".join(f"{name}={extent}" for name, extent in problem.dims.items())


def kernel_text(kernel: KernelConfig, default: KernelConfig | None = None) -> str:
    """A kernel as its differences from the default; the family is named where it is another one."""
    if default is None or kernel.family != default.family:
        return f"{kernel.family} {knobs_text(kernel.knobs)}".strip()
    return knobs_text(kernel.knobs, default.knobs)


def knobs_text(knobs: dict[str, Scalar], default: dict[str, Scalar] | None = None) -> str:
    """The knobs that differ from `default` as name=value, in the knobs' own order; "default" if none.

    A knob that only the default has is folded away in this config and not mentioned.
    """
    default = default or {}
    # Compared with the type: True == 1 in Python, but not as a knob.
    differing = [
        f"{name}={_value(value)}"
        for name, value in knobs.items()
        if name not in default or (type(default[name]), default[name]) != (type(value), value)
    ]
    return " ".join(differing) or DEFAULT


def _value(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
