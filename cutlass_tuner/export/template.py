"""The exporter's files: text with @NAMES@ to fill in. C++ lies in `cpp/` beside this, Python in `py/`."""

from __future__ import annotations

import re
from pathlib import Path

CPP = Path(__file__).with_name("cpp")
PY = Path(__file__).with_name("py")
_NAME = re.compile(r"@([A-Z0-9_]+)@")


def fill(file_name: str, values: dict[str, str]) -> str:
    """The text of a file of that name with every @NAME@ replaced once (values are not filled again).

    Raises KeyError for a name without a value and ValueError for a value without a name.
    """
    text = read(file_name)
    unused = set(values) - set(_NAME.findall(text))
    if unused:
        raise ValueError(f"{file_name}: no placeholder for {', '.join(sorted(unused))}")
    filled = _NAME.sub(lambda match: values[match[1]], text)
    return "\n".join(line.rstrip() for line in filled.splitlines()) + "\n"


def read(file_name: str) -> str:
    folder = PY if file_name.endswith(".py.in") else CPP
    return (folder / file_name).read_text(encoding="utf-8")


def comment(text: str) -> str:
    """`text` as one `//` line whatever it holds: no line break, no backslash that would join lines."""
    return f"// {' '.join(text.split())}".rstrip("\\ ")
