"""Stands in for nvcc: counts its calls, and does to each kernel what the kernel's line says.

A device source of `FakeSources` holds one line a kernel: KERNEL symbol params_bytes mode.
"""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls")


def elf(kernels: dict[str, int]) -> bytes:
    """A 64-bit ELF file with a section .nv.info.<symbol> a kernel, as cubins have them."""
    names, bodies = b"\0.shstrtab\0", []
    entries = [(0, b""), (1, b"")]
    for symbol, size in kernels.items():
        info = struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, size << 18)
        entries.append((len(names), struct.pack("<BBH", 3, 0x19, 7) + info))
        names += b".nv.info." + symbol.encode() + b"\0"
    entries[1] = (1, names)
    headers, offset = b"", 64
    for name, body in entries:
        headers += struct.pack("<IIQQQQ", name, 1, 0, 0, offset, len(body)) + bytes(24)
        bodies.append(body)
        offset += len(body)
    head = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", offset) + bytes(10)
    head += struct.pack("<HHH", 64, len(entries), 1)
    return head.ljust(64, b"\0") + b"".join(bodies) + headers


def main(arguments: list[str]) -> int:
    if "--version" in arguments:
        print("Cuda compilation tools, release 13.0, V13.0.88")
        return 0
    source = Path(next(a for a in arguments if a.endswith(".cu"))).read_text()
    lines = [line.split() for line in source.splitlines() if line.startswith("KERNEL ")]
    with CALLS.open("a") as calls:
        calls.write(" ".join(symbol for _, symbol, _, _ in lines) + "\n")
    status, sizes = 0, {}
    for _, symbol, size, mode in lines:
        if mode == "bad":
            print(f'/c/include/cutlass/thing.hpp(12): error: static assertion failed with "{mode}"')
            print(f'          detected during instantiation of "X" at line 3 of {symbol}\n')
            status = 2
        elif mode == "nameless":
            print("/c/include/cutlass/thing.hpp(12): error: nameless")
            status = 2
        elif mode == "memory":
            print("cicc: fatal: out of memory allocating 4096 bytes")
            status = 1
        elif mode == "killed":
            os.kill(os.getpid(), 9)
        elif mode == "slow":
            child = subprocess.Popen(["sleep", "600"])
            CALLS.with_name("child").write_text(str(child.pid))
            child.wait()
        elif mode == "disk":
            print("/tmp/x.ii: fatal error: cannot write: No space left on device")
            status = 1
        elif mode == "brief":
            time.sleep(0.3)
        elif mode == "silent":
            continue
        print(f"ptxas info    : Compiling entry function '{symbol}' for 'sm_90a'")
        print("    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads")
        print("ptxas info    : Used 168 registers, used 1 barriers")
        sizes[symbol] = int(size) + (64 if mode == "misaligned" else 0)
    if status == 0:
        Path(arguments[arguments.index("-o") + 1]).write_bytes(elf(sizes))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
