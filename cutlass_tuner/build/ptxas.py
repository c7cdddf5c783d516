"""ptxas's report (`-Xptxas -v`) and the compilers' error messages, read back as facts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
# C7509, C7510 and their kin: wgmma instructions had to be serialised, which costs most of the speed.
_SERIALISED = re.compile(r"\((C75\d\d)\) *(Potential Performance Loss:.*)")


@dataclass(frozen=True)
class Report:
    """What ptxas said of one kernel. `spill_bytes` are stores plus loads of one thread."""

    registers: int
    spill_bytes: int
    warnings: tuple[str, ...] = ()


def reports(log: str) -> dict[str, Report]:
    """Symbol -> report, of every entry function that ptxas compiled."""
    registers: dict[str, int] = {}
    spills: dict[str, int] = {}
    symbol = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            symbol = match[1]
        elif match := _SPILLS.search(line):
            spills[symbol] = int(match[1]) + int(match[2])
        elif match := _REGISTERS.search(line):
            registers[symbol] = int(match[1])
    return {
        name: Report(count, spills.get(name, 0), _warnings(log, name))
        for name, count in registers.items()
        if name
    }


def _warnings(log: str, symbol: str) -> tuple[str, ...]:
    """Warnings about `symbol`; one that names no function is about all of them."""
    found = []
    for match in _SERIALISED.finditer(log):
        named = re.search(r"function '(\w+)'", match[2])
        if named is None or named[1] == symbol:
            found.append(f"{match[1]}: {match[2].strip()}")
    return tuple(dict.fromkeys(found))


# --- error messages -------------------------------------------------------------------------

_ERRORS = (
    re.compile(
        r"^(?P<place>[^\s:(][^:(]*)[:(](?P<line>\d+)[):]+(?:\d+:)? *"
        r"(?:fatal )?error *(?:#\S+ *)?: *(?P<text>.+)$"
    ),
    re.compile(r"^(?P<text>(?:ptxas|nvlink|nvcc|cicc|cc1plus|g\+\+|c\+\+).*(?:error|fatal) *:.+)$"),
    re.compile(r"^(?P<text>.*\berror\b *:.+)$"),
)


def first_error(log: str) -> str:
    """The compiler's first error in one line, "message (file:line)"; empty when there is none."""
    for pattern in _ERRORS:
        for line in log.splitlines():
            match = pattern.match(line)
            if match is None:
                continue
            parts = match.groupdict()
            text = " ".join(parts["text"].split())
            place = parts.get("place")
            return f"{text} ({place.rsplit('/', 1)[-1]}:{parts['line']})" if place else text
    return ""


def named_in_errors(log: str, symbols: Iterable[str]) -> set[str]:
    """Which symbols an error log mentions. A ptxas report mentions them all and is left out."""
    said = "\n".join(line for line in log.splitlines() if not line.startswith("ptxas info"))
    return {symbol for symbol in symbols if symbol in said}


_MACHINE = re.compile(
    r"out of memory|virtual memory exhausted|cannot allocate memory|no space left on device|"
    r"disk quota exceeded|resource temporarily unavailable|\bkilled\b|died due to signal|died with status",
    re.IGNORECASE,
)


def machine_trouble(log: str) -> str:
    """The line that blames the machine and not the source (memory, disk, a kill), or empty.

    Such a failure may not come again, so it must not be remembered.
    """
    return next((" ".join(line.split()) for line in log.splitlines() if _MACHINE.search(line)), "")
