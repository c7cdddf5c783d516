"""Reading a kernel's knobs with their types checked. Each raises UserError naming the knob and its value."""

from __future__ import annotations

from collections.abc import Collection

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import KernelConfig


def count(kernel: KernelConfig, name: str, least: int = 1) -> int:
    value = kernel.knobs.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        what = "a positive integer" if least == 1 else f"a whole number from {least}"
        raise UserError(f"knob {name} = {value!r} of {kernel.key}: {what} is needed")
    return value


def flag(kernel: KernelConfig, name: str) -> bool:
    value = kernel.knobs.get(name)
    if not isinstance(value, bool):
        raise UserError(f"knob {name} = {value!r} of {kernel.key}: true or false is needed")
    return value


def word(kernel: KernelConfig, name: str, allowed: Collection[str]) -> str:
    value = kernel.knobs.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise UserError(f"knob {name} = {value!r} of {kernel.key}: one of {', '.join(allowed)} is needed")
    return value
