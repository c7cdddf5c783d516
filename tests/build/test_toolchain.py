"""Where compilers and headers are looked for, in which order, and what is said when they are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner import settings as settings_module
from cutlass_tuner.build import toolchain
from cutlass_tuner.build.toolchain import DEFINES, Cutlass, Tool, find_cutlass, find_gxx, find_nvcc
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Failure


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No CUDA anywhere but where a test puts it."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda _: None)
    settings_module.settings.cache_clear()
    yield
    settings_module.settings.cache_clear()


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def nvcc(path: Path, version: str) -> Path:
    return program(path, f"Cuda compilation tools, release 13.0, V{version}")


def found(result: Tool | Failure) -> tuple[str, str]:
    assert isinstance(result, Tool), result
    return result.origin, result.version


def test_nvcc_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "nvidia"
    nvcc(wheels / "cu13" / "bin" / "nvcc", "13.0.1")

    class Spec:
        submodule_search_locations = (str(wheels),)

    monkeypatch.setattr(
        toolchain.importlib.util, "find_spec", lambda name: Spec if name == "nvidia" else None
    )
    assert found(find_nvcc()) == ("PyPI wheel", "13.0.1")
    nvcc(tmp_path / "path" / "nvcc", "13.0.2")
    assert found(find_nvcc()) == ("PATH", "13.0.2")
    nvcc(tmp_path / "cuda" / "bin" / "nvcc", "13.0.3")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    settings_module.settings.cache_clear()
    assert found(find_nvcc()) == ("CUDA_HOME", "13.0.3")
    named = nvcc(tmp_path / "mine" / "bin" / "nvcc", "13.0.4")
    assert found(find_nvcc(named)) == ("--nvcc", "13.0.4")
    assert found(find_nvcc(tmp_path / "mine")) == ("--nvcc", "13.0.4")


def test_a_named_nvcc_that_does_not_run_is_the_users_mistake(tmp_path: Path) -> None:
    nvcc(tmp_path / "path" / "nvcc", "13.0.2")
    for wrong in (tmp_path / "absent", program(tmp_path / "other", "something else")):
        with pytest.raises(UserError, match=f"--nvcc {wrong}"):
            find_nvcc(wrong)


def test_a_broken_place_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc(tmp_path / "path" / "nvcc", "13.0.2")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "removed"))
    settings_module.settings.cache_clear()
    assert found(find_nvcc()) == ("PATH", "13.0.2")


def test_no_nvcc_and_an_old_one_say_what_to_do(tmp_path: Path) -> None:
    absent = find_nvcc()
    assert isinstance(absent, Failure)
    assert "pip install 'cutlass-tuner[cuda13]'" in absent.reason
    nvcc(tmp_path / "path" / "nvcc", "12.3.1")
    old = find_nvcc()
    assert isinstance(old, Failure)
    assert "12.3.1" in old.reason
    assert "12.8 or newer" in old.reason


def test_gxx_is_cxx_or_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(find_gxx(), Failure)
    program(tmp_path / "path" / "c++", "11.1.0")
    assert found(find_gxx()) == ("PATH", "11.1.0")
    program(tmp_path / "path" / "g++", "12.2.0")
    assert found(find_gxx()) == ("PATH", "12.2.0")
    monkeypatch.setenv("CXX", str(program(tmp_path / "mine", "13.1.0")))
    assert found(find_gxx()) == ("CXX", "13.1.0")


def checkout(root: Path, minor: int = 3) -> Path:
    (root / "tools" / "util" / "include").mkdir(parents=True)
    header = root / "include" / "cutlass" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR {minor}\n#define CUTLASS_PATCH 1 \n")
    return root


def test_cutlass_is_the_package_unless_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_cutlass().origin == "nvidia-cutlass"
    monkeypatch.setenv("CUTLASS_PATH", str(checkout(tmp_path / "variable", 4)))
    settings_module.settings.cache_clear()
    assert (find_cutlass().origin, find_cutlass().version) == ("CUTLASS_PATH", "4.4.1")
    named = find_cutlass(checkout(tmp_path / "named"))
    assert (named.origin, named.version) == ("--cutlass", "4.3.1")
    with pytest.raises(UserError, match="give the root of a CUTLASS checkout"):
        find_cutlass(tmp_path / "named" / "include")


def test_an_edited_checkout_is_another_cutlass(tmp_path: Path) -> None:
    root = checkout(tmp_path / "named")
    before = find_cutlass(root)
    toolchain._tree_digest.cache_clear()
    digests = [before.digest]
    for place in ("include/cutlass", "examples/88_hopper_fmha", "examples/77_blackwell_fmha/kernel"):
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / "gemm.h").write_text("// new\n")
        toolchain._tree_digest.cache_clear()
        digests.append(find_cutlass(root).digest)
    assert len(set(digests)) == 4


def test_the_flags_that_kernels_stand_on() -> None:
    tools = toolchain.Toolchain(
        Tool(Path("/cuda/bin/nvcc"), "13.0.88", "test"),
        Tool(Path("/usr/bin/g++"), "12.2.0", "test"),
        Cutlass(Path("/cutlass"), "4.2.0", "0", "test"),
        (Path("/cuda/include"),),
    )
    device = tools.device_command(Path("d.cu"), Path("d.cubin"), "sm_90a")
    host = tools.host_command(Path("h.cpp"), Path("h.so"))
    # ptxas serialises wgmma without NDEBUG, and Params differ where the defines do.
    assert "-DNDEBUG" in DEFINES
    for define in DEFINES:
        assert define in device
        assert define in host
    assert "-gencode=arch=compute_90a,code=sm_90a" in device
    blackwell = tools.device_command(Path("d.cu"), Path("d.cubin"), "sm_100a")
    assert "-gencode=arch=compute_100a,code=sm_100a" in blackwell
    for command in (blackwell, host):  # example 77 includes its own files by their names from its folder
        assert "-I/cutlass/examples/77_blackwell_fmha" in command
    assert set(tools.flags("sm_90a")) <= set(device)
    assert "-Wl,-z,defs" in host
    assert (tools.compiler, tools.cuda, tools.cutlass) == ("nvcc 13.0.88, g++ 12.2.0", "13.0.88", "4.2.0")
