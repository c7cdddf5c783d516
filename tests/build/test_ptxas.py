"""Reports and error messages as the real tools wrote them (CUDA 13.0.88, g++ 12.2), shortened."""

from __future__ import annotations

import pytest

from cutlass_tuner.build.ptxas import Report, first_error, machine_trouble, named_in_errors, reports

REPORT = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function 'cutlass_tuner_tma_ws_ffd44c62e388' for 'sm_90a'
ptxas info    : Function properties for cutlass_tuner_tma_ws_ffd44c62e388
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
ptxas info    : Compile time = 110.525 ms
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
insufficient register resources for the wgmma pipeline in the function 'cutlass_tuner_tma_ws_caa6106198b3'
ptxas info    : Compiling entry function 'cutlass_tuner_tma_ws_caa6106198b3' for 'sm_90a'
ptxas info    : Function properties for cutlass_tuner_tma_ws_caa6106198b3
    4608 bytes stack frame, 4600 bytes spill stores, 4604 bytes spill loads
ptxas info    : Used 58 registers, used 2 barriers
"""
SERIALISED = (
    "C7510: Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient "
    "register resources for the wgmma pipeline in the function 'cutlass_tuner_tma_ws_caa6106198b3'"
)
EDG = """\
/site/cutlass_library/source/include/cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp(357): \
error: static assertion failed with "Cooperative kernel requires Tile Size of 128."
      static_assert(size<0>(TileShape{}) >= 128,
      ^
          detected during instantiation of "void GemmUniversal<...>::operator()" at line 42 of \
cutlass_tuner_tma_ws_4f96f369d2fc

1 error detected in the compilation of "bad.cu".
"""
GXX = """\
cutlass_tuner_tma_ws_3165957a5694:37:10:   required from here
/site/include/cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp:137:40: error: static \
assertion failed: Specialization requires Stages set to value 2 or more.
"""


def test_registers_spills_and_serialised_wgmma_by_symbol() -> None:
    assert reports(REPORT) == {
        "cutlass_tuner_tma_ws_ffd44c62e388": Report(168, 0),
        "cutlass_tuner_tma_ws_caa6106198b3": Report(58, 9204, (SERIALISED,)),
    }


def test_a_warning_that_names_no_function_is_about_all() -> None:
    warning = "ptxas warning : (C7509) Potential Performance Loss: wgmma instructions are serialized\n"
    assert all(len(report.warnings) >= 1 for report in reports(REPORT + warning).values())


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            EDG,
            'static assertion failed with "Cooperative kernel requires Tile Size of 128." '
            "(sm90_gemm_tma_warpspecialized_cooperative.hpp:357)",
        ),
        (
            GXX,
            "static assertion failed: Specialization requires Stages set to value 2 or more. "
            "(sm90_mma_tma_gmma_ss_warpspecialized.hpp:137)",
        ),
        (
            "x.h:1:10: fatal error: cuda_runtime.h: No such file or directory\n",
            "cuda_runtime.h: No such file or directory (x.h:1)",
        ),
        (
            "ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)\n",
            "ptxas error : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)",
        ),
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n",
            "nvcc fatal : Unsupported gpu architecture 'compute_10'",
        ),
        (
            'device.cu(3): error #20: identifier "q" is undefined\n',
            'identifier "q" is undefined (device.cu:3)',
        ),
        (REPORT, ""),
    ],
)
def test_the_first_error_is_one_line_with_its_place(log: str, line: str) -> None:
    assert first_error(log) == line


def test_an_error_names_its_kernel_and_a_report_does_not() -> None:
    symbols = ["cutlass_tuner_tma_ws_4f96f369d2fc", "cutlass_tuner_tma_ws_3165957a5694"]
    assert named_in_errors(EDG, symbols) == {symbols[0]}
    assert named_in_errors(GXX, symbols) == {symbols[1]}
    assert named_in_errors(REPORT, ["cutlass_tuner_tma_ws_ffd44c62e388"]) == set()


@pytest.mark.parametrize(
    "log",
    [
        "virtual memory exhausted: Cannot allocate memory",
        "g++: fatal error: Killed signal terminated program cc1plus",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "fatal error: error writing to /tmp/cc.s: No space left on device",
    ],
)
def test_memory_disk_and_kills_are_the_machines_trouble(log: str) -> None:
    assert machine_trouble(f"first\n{log}\n") == log.replace("error   :", "error :")


def test_a_static_assertion_is_not() -> None:
    assert machine_trouble(EDG + GXX + REPORT) == ""
