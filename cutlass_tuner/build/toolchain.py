"""Which compilers and headers a kernel is built with, where they were found, and the flags.

Nothing is compiled here. What the user named and is not there raises UserError; what simply is not
installed is a Failure, because `doctor` and a machine that only replays studies go on without it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from os import X_OK, access, environ
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Failure
from cutlass_tuner.settings import PACKAGE, settings

# Without the second, CUTLASS splits N = 48, 80, 112... into several narrower WGMMA instructions. The
# host library must see the same defines as the kernel, or their Params would not agree.
DEFINES = ("-DNDEBUG", "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED")
LEAST_CUDA = (12, 8)
HOPPER, BLACKWELL = "examples/88_hopper_fmha", "examples/77_blackwell_fmha"
"""Those of CUTLASS's examples that kernels are made of."""


@dataclass(frozen=True)
class Tool:
    """A program that runs, its version as it says it, and how it was found."""

    path: Path
    version: str
    origin: str


@dataclass(frozen=True)
class Cutlass:
    """CUTLASS's headers. `digest` is of every header's text, so an edited checkout is another CUTLASS."""

    root: Path
    version: str
    digest: str
    origin: str

    @property
    def include(self) -> tuple[Path, ...]:
        # Example 77's files include one another by their names from its folder.
        return self.root / "include", self.root / "tools" / "util" / "include", self.root / BLACKWELL


@dataclass(frozen=True)
class Toolchain:
    """Everything that decides what a source compiles to. `cuda_include`: the toolkit's header folders."""

    nvcc: Tool
    gxx: Tool
    headers: Cutlass
    cuda_include: tuple[Path, ...]
    defines: tuple[str, ...] = field(default=DEFINES)

    @property
    def cuda(self) -> str:
        return self.nvcc.version

    @property
    def cutlass(self) -> str:
        return self.headers.version

    @property
    def compiler(self) -> str:
        return f"nvcc {self.nvcc.version}, g++ {self.gxx.version}"

    def flags(self, arch: str) -> tuple[str, ...]:
        """nvcc's flags that shape the machine code; an exported header is compiled with these."""
        return (
            "-std=c++17",
            "-O3",
            "--expt-relaxed-constexpr",
            *self.defines,
            f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}",
        )

    def includes(self) -> tuple[str, ...]:
        """-I for CUTLASS; nvcc finds the toolkit's headers by itself."""
        return tuple(f"-I{folder}" for folder in self.headers.include)

    def device_command(self, source: Path, cubin: Path, arch: str) -> list[str]:
        """The nvcc line that makes a cubin, with ptxas's report on stderr."""
        return [
            str(self.nvcc.path),
            *self.flags(arch),
            f"-ccbin={self.gxx.path}",
            "-cubin",
            "-Xptxas=-v",
            *self.includes(),
            f"-I{PACKAGE}",
            str(source),
            "-o",
            str(cubin),
        ]

    def host_flags(self) -> tuple[str, ...]:
        """g++'s. -fpermissive and -w because CUTLASS's device code is only parsed; -z defs because a
        missing symbol must fail here and not when the library is loaded."""
        return (
            *(
                "-std=c++17",
                "-O1",
                "-shared",
                "-fPIC",
                "-fvisibility=hidden",
                "-fpermissive",
                "-w",
                "-Wl,-z,defs",
            ),
            *self.defines,
        )

    def host_command(self, source: Path, library: Path) -> list[str]:
        toolkit = [part for folder in self.cuda_include for part in ("-isystem", str(folder))]
        return [
            *(str(self.gxx.path), *self.host_flags(), f"-iquote{PACKAGE}", *self.includes(), *toolkit),
            *(str(source), "-o", str(library), "-ldl"),
        ]


def find(nvcc: Path | None = None, cutlass: Path | None = None) -> Toolchain | Failure:
    """The toolchain of this machine. `nvcc` and `cutlass` are what the user named, if anything."""
    compiler = find_nvcc(nvcc)
    if isinstance(compiler, Failure):
        return compiler
    gxx = find_gxx()
    if isinstance(gxx, Failure):
        return gxx
    include = _cuda_include(compiler)
    if isinstance(include, Failure):
        return include
    return Toolchain(compiler, gxx, find_cutlass(cutlass), include)


def find_nvcc(explicit: Path | None = None) -> Tool | Failure:
    """nvcc: the one named, else in CUDA_HOME, on PATH, or from the PyPI wheels, in this order.

    Raises UserError when the named one does not run.
    """
    if explicit is not None:
        path = explicit / "bin" / "nvcc" if explicit.is_dir() else explicit
        version = _nvcc_version(path) if _runs(path) else None
        if version is None:
            raise UserError(
                f"--nvcc {explicit}: not an nvcc that runs; give its path, like /usr/local/cuda/bin/nvcc"
            )
        return _recent_enough(Tool(path, version, "--nvcc"))
    for origin, path in _nvcc_places():
        version = _nvcc_version(path) if _runs(path) else None
        if version is not None:
            return _recent_enough(Tool(path, version, origin))
    return Failure(
        stage="build",
        reason="no nvcc in CUDA_HOME, on PATH or among Python's packages; "
        "install CUDA, or `pip install 'cutlass-tuner[cuda13]'`",
    )


def find_gxx() -> Tool | Failure:
    """g++: CXX, else g++ or c++ on PATH."""
    for origin, name in (("CXX", environ.get("CXX")), ("PATH", "g++"), ("PATH", "c++")):
        path = shutil.which(name) if name else None
        if path is not None and (version := _said(path, "-dumpfullversion", "-dumpversion")):
            return Tool(Path(path), version.strip(), origin)
    return Failure(
        stage="build", reason="no g++ on PATH and none in CXX; install g++ 11 or newer, or set CXX"
    )


def find_cutlass(explicit: Path | None = None) -> Cutlass:
    """CUTLASS: the checkout named, else CUTLASS_PATH's, else the headers of the nvidia-cutlass package.

    Raises UserError when a named folder holds no CUTLASS 4.
    """
    named = ("--cutlass", explicit) if explicit else ("CUTLASS_PATH", settings().cutlass_dir)
    if named[1] is None:
        import cutlass_library

        named = ("nvidia-cutlass", Path(cutlass_library.source_path))
    origin, root = named
    assert root is not None
    version = _cutlass_version(root)
    if version is None:
        raise UserError(
            f"{origin} {root}: no include/cutlass/version.h and tools/util/include there; "
            "give the root of a CUTLASS checkout"
        )
    return Cutlass(root.resolve(), version, _tree_digest(root.resolve()), origin)


def _nvcc_places() -> Iterator[tuple[str, Path]]:
    home = settings().cuda_home
    if home is not None:
        yield "CUDA_HOME", home / "bin" / "nvcc"
    on_path = shutil.which("nvcc")
    if on_path is not None:
        yield "PATH", Path(on_path)
    # The wheels nvidia-cuda-nvcc 13 and its companions share one toolkit-like folder, nvidia/cu13.
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder in sorted(Path(root).glob("cu[0-9]*"), reverse=True):
            yield "PyPI wheel", folder / "bin" / "nvcc"


def _recent_enough(nvcc: Tool) -> Tool | Failure:
    if tuple(int(part) for part in nvcc.version.split(".")[:2]) >= LEAST_CUDA:
        return nvcc
    least = ".".join(str(part) for part in LEAST_CUDA)
    return Failure(
        stage="build",
        reason=f"{nvcc.path} ({nvcc.origin}) is CUDA {nvcc.version}; {least} or newer is needed",
    )


def _cuda_include(nvcc: Tool) -> tuple[Path, ...] | Failure:
    """The header folders nvcc would use: it may be a wrapper script, so it is asked where it stands."""
    said = _said(str(nvcc.path), "--dryrun", "-E", "-x", "cu", "/dev/null", stderr=True) or ""
    match = re.search(r"^#\$ TOP=(.+)$", said, re.MULTILINE)
    top = Path(match[1].strip()) if match else nvcc.path.parent.parent
    for folder in (
        top / "targets" / "x86_64-linux" / "include",
        top / "include",
        *top.glob("targets/*/include"),
    ):
        if (folder / "cuda_runtime.h").is_file():
            resolved = folder.resolve()
            return tuple(path for path in (resolved, resolved / "cccl") if path.is_dir())
    return Failure(
        stage="build",
        reason=f"{nvcc.path}: no cuda_runtime.h under {top}; "
        "install nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl beside it",
    )


def _runs(path: Path) -> bool:
    return path.is_file() and access(path, X_OK)


def _said(program: str, *arguments: str, stderr: bool = False) -> str | None:
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stderr if stderr else done.stdout


def _nvcc_version(path: Path) -> str | None:
    match = re.search(r"\bV(\d+\.\d+\.\d+)\b", _said(str(path), "--version") or "")
    return match[1] if match else None


def _cutlass_version(root: Path) -> str | None:
    header = root / "include" / "cutlass" / "version.h"
    if not header.is_file() or not (root / "tools" / "util" / "include").is_dir():
        return None
    text = header.read_text()
    found = [
        re.search(rf"^#define CUTLASS_{part} +(\d+)", text, re.MULTILINE)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(match[1] for match in found if match) if all(found) else None


@cache
def _tree_digest(root: Path) -> str:
    """Names and texts of all headers (some 20 MB, a tenth of a second); once a process."""
    digest = hashlib.sha256()
    for folder in map(root.joinpath, ("include", "tools/util/include", HOPPER, BLACKWELL)):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
