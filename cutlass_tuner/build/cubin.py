"""The size of each kernel's Params as the device compiler laid them out, read from a cubin.

A cubin is an ELF64 file. Section `.nv.info.<symbol>` is a list of attributes: a format byte, an
attribute byte, then two bytes of value, or of length with that many bytes after it (format 4).
"""

from __future__ import annotations

import struct

_SIZED = 4  # EIFMT_SVAL
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO: one a parameter
_INFO = b".nv.info."


def params_bytes(cubin: bytes) -> dict[str, int]:
    """Symbol -> bytes of its one parameter, for every kernel. Raises ValueError for what is no cubin."""
    try:
        sections = _sections(cubin)
    except struct.error as error:
        raise ValueError(f"not a cubin: {error}") from error
    found = {}
    for name, body in sections:
        if name.startswith(_INFO) and (about := _attribute(body, _PARAMETER)) is not None:
            # index (4 bytes), ordinal (2), offset (2), then a word whose upper 14 bits are the size
            found[name.removeprefix(_INFO).decode()] = struct.unpack_from("<I", about, 8)[0] >> 18
    return found


def _sections(elf: bytes) -> list[tuple[bytes, bytes]]:
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("not a cubin: no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * entry) for index in range(count)]
    bodies = [elf[header[4] : header[4] + header[5]] for header in headers]
    names = bodies[names_at]
    return [
        (names[header[0] : names.index(b"\0", header[0])], body)
        for header, body in zip(headers, bodies, strict=True)
    ]


def _attribute(info: bytes, wanted: int) -> bytes | None:
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        if attribute == wanted and form == _SIZED:
            return info[at + 4 : at + 4 + value]
        at += 4 + (value if form == _SIZED else 0)
    return None
