"""A wheel and an editable install, each in a fresh environment: data found, commands work, no CUDA needed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def shipped(kind: str) -> list[str]:
    """The data files of the checkout, as the package promises them."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / kind).rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        ROOT,
    )
    run(sys.executable, "-m", "pip", *build, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment that has our dependencies from this one, and cutlass-tuner of its own."""
    home = tmp_path_factory.mktemp(request.param)
    run(sys.executable, "-m", "venv", "--without-pip", home / "env", cwd=home)
    python = home / "env" / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    # A path file adds the folder and not its path files, so this environment's own install stays out.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    how = (
        ("--no-build-isolation", "-e", ROOT)
        if request.param == "editable"
        else (request.getfixturevalue("wheel"),)
    )
    flags = ("install", "--quiet", "--no-deps", "--no-index", "--ignore-installed")
    run(sys.executable, "-m", "pip", "--python", python, *flags, *how, cwd=home)
    yield home


def python_of(installed: Path) -> Path:
    return installed / "env" / "bin" / "python"


def test_the_wheel_holds_everything_the_package_reads(wheel: Path) -> None:
    """Tracked non-Python files under the package (C++ of the emitters, the ABI) and the data folders."""
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = [
        path
        for path in (ROOT / "cutlass_tuner").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {str(path.relative_to(ROOT)) for path in ours} <= names
    data = shipped("spaces") + shipped("studies")
    assert {f"cutlass_tuner/_data/{name}" for name in data} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_code_that_runs_is_the_installed_one(installed: Path) -> None:
    where = run(
        python_of(installed), "-c", "import cutlass_tuner; print(cutlass_tuner.__file__)", cwd=installed
    ).strip()
    expected = ROOT if installed.name.startswith("editable") else installed
    assert Path(where).is_relative_to(expected)


@pytest.mark.parametrize("kind", ["spaces", "studies"])
def test_data_is_found(installed: Path, kind: str) -> None:
    program = (
        f"from cutlass_tuner.settings import data_dir; folder = data_dir('{kind}'); "
        "files = (path for path in folder.rglob('*') if path.is_file()); "
        "print(*sorted(str(path.relative_to(folder.parent)) for path in files), sep='\\n')"
    )
    assert run(python_of(installed), "-c", program, cwd=installed).split() == shipped(kind)


def test_the_command_is_there(installed: Path) -> None:
    command = installed / "env" / "bin" / "cutlass-tuner"
    assert "Commands:" in run(command, "--help", cwd=installed)
    assert run(command, "--version", cwd=installed) == run(
        python_of(installed), "-m", "cutlass_tuner", "--version", cwd=installed
    )


def test_doctor_works_without_cuda(installed: Path) -> None:
    """Nothing on PATH and no environment: the problems are told, nothing is written."""
    command = installed / "env" / "bin" / "cutlass-tuner"
    done = subprocess.run(
        [command, "doctor"],
        cwd=installed,
        env={"PATH": "/nowhere", "HOME": str(installed), "CUTLASS_TUNER_CACHE": str(installed / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert done.returncode == 1, done.stdout
    assert any(line.startswith("problem  g++") for line in lines)
    assert lines[-1].startswith("tune cannot run here: ")
    assert not (installed / "cache").exists()
