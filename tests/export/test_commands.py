from __future__ import annotations

from pathlib import Path

from cutlass_tuner.export import commands

MEASURED = ("-std=c++17", "-O3", "-DNDEBUG", "-DWIDTH=4", "-gencode=arch=compute_90a,code=sm_90a")


def test_the_measured_flags_are_used_as_they_are() -> None:
    assert commands.compile_flags(MEASURED, "sm_90a") == MEASURED


def test_include_paths_of_the_measuring_machine_are_left_out() -> None:
    flags = commands.compile_flags(("-I/home/me/cutlass", "-I", "/x", "-isystem", "/y", *MEASURED), "sm_90a")
    assert flags == MEASURED


def test_language_and_architecture_are_added_where_the_build_did_not_name_them() -> None:
    flags = commands.compile_flags(("-O3",), "sm_90a")
    assert flags == ("-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-O3")


def test_macros_are_found_in_both_spellings() -> None:
    assert commands.defines((*MEASURED, "-D", "LATE=1")) == (("NDEBUG", ""), ("WIDTH", "4"), ("LATE", "1"))


def test_printed_lines_leave_the_users_cutlass_to_the_shell_and_quote_the_rest() -> None:
    line = commands.object_line(("-DTEXT='a b'",), "tuned")
    assert "-I$CUTLASS/include -I$CUTLASS/tools/util/include" in line
    assert line.endswith("-c tuned.cu -o tuned.o")
    assert "-DTEXT='a b'" not in line  # its quotes are escaped, so the shell hands them on


def test_the_librarys_arguments_turn_the_shim_on() -> None:
    words = commands.shared_library(
        Path("/cuda/nvcc"), [Path("/cutlass/include")], MEASURED, Path("t.cu"), Path("t.so")
    )
    assert words[0] == "/cuda/nvcc"
    assert words[-3:] == ["t.cu", "-o", "t.so"]
    assert {"-DCUTLASS_TUNER_SHIM", "-shared", "-fPIC", "-I/cutlass/include", *MEASURED} <= set(words)
