"""NVRTC as the device compiler, through cuda.core.Program: the alternative to nvcc.

`python -m cutlass_tuner.build.nvrtc SOURCE CUBIN ARCH INCLUDE...` compiles one source in that process,
with ptxas's report on stderr as nvcc has it. A process of its own, because a call into NVRTC cannot be
interrupted and a compile must be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.build.process import module_command
from cutlass_tuner.build.toolchain import DEFINES, Toolchain
from cutlass_tuner.records import Failure

# First what CUTLASS takes from <type_traits> and NVRTC's built-in headers lack. Then a trap: under NVRTC
# CUTLASS has a TMA descriptor of its own, aligned to 64 bytes where CUDA 13's CUtensorMap is to 128, so
# a kernel would read its Params at other offsets than the host library wrote them. The macro is in force
# for that header (and copy_sm90.hpp, which aligns nothing): the rest of its includes come before it.
_PRELUDE = """\
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
namespace std {
template <class...> using void_t = void;
template <class T> inline constexpr bool is_pointer_v = cuda::std::is_pointer_v<T>;
}  // namespace std
#include <cutlass/numeric_types.h>
#include <cute/arch/util.hpp>
#include <cute/arch/config.hpp>
#include <cute/arch/copy.hpp>
#include <cute/container/alignment.hpp>
#include <cute/container/array.hpp>
#include <cute/container/bit_field.hpp>
#define alignas(bytes) alignas(128)
#include <cute/arch/copy_sm90_desc.hpp>
#undef alignas
"""


@dataclass(frozen=True)
class Nvrtc:
    """The NVRTC that this Python loads. `release` is its version, like "13.0"; see `find`."""

    toolchain: Toolchain
    release: str

    @property
    def version(self) -> str:
        return f"nvrtc {self.release}"

    def flags(self, arch: str) -> tuple[str, ...]:
        return ("-std=c++17", "-default-device", *DEFINES, f"-arch={arch}")

    def command(self, source: Path, cubin: Path, arch: str) -> list[str]:
        folders = (*self.toolchain.headers.include, *self.toolchain.cuda_include)
        arguments = [str(source), str(cubin), arch, *(str(folder) for folder in folders)]
        return module_command("cutlass_tuner.build.nvrtc", *arguments)


def find(toolchain: Toolchain) -> Nvrtc | Failure:
    """The installed NVRTC, or what to install."""
    try:
        from cuda.bindings import nvrtc

        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        reason = (
            f"NVRTC cannot be loaded ({' '.join(str(error).split())[:120]}); pip install nvidia-cuda-nvrtc"
        )
        return Failure(stage="build", reason=reason)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return Failure(stage="build", reason=f"NVRTC does not say its version: {status}")
    return Nvrtc(toolchain, f"{major}.{minor}")


def compile_cubin(source: str, arch: str, includes: Sequence[str]) -> tuple[bytes, str]:
    """The cubin of `source` and NVRTC's log. Raises cuda.core's NVRTCError, its text the errors."""
    from io import StringIO

    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name="device.cu",
        arch=arch,
        std="c++17",
        define_macro=[define.removeprefix("-D") for define in DEFINES],
        include_path=list(includes),
        device_as_default_execution_space=True,
        ptxas_options=["-v"],
        diag_suppress=[177],  # unused variables in CUTLASS's own headers
    )
    log = StringIO()
    program = Program(_PRELUDE + source, "c++", options)
    try:
        code = program.compile("cubin", logs=log).code
    finally:
        program.close()
    assert isinstance(code, bytes)
    return code, log.getvalue()


def main(source: str, cubin: str, arch: str, *includes: str) -> int:
    """What the module does as a program; the exit status."""
    from cuda.core._utils.cuda_utils import NVRTCError

    try:
        code, log = compile_cubin(Path(source).read_text(), arch, includes)
    except NVRTCError as error:
        print(error, file=sys.stderr)
        return 1
    print(log, file=sys.stderr)
    Path(cubin).write_bytes(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
