"""tools/install-offline over a folder of tiny wheels: what is there is kept, what is missing is named."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def write_wheel(folder: Path, name: str, version: str, *requires: str, tag: str = "py3-none-any") -> None:
    """A wheel with one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(
        f"{line}\n" for line in ["Provides-Extra: fast", *(f"Requires-Dist: {one}" for one in requires)]
    )
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder needs `here` (on the machine or not) and `there`; `plus` only for the extra."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    needs = ("here>=2", "there", "plus; extra == 'fast'", "absent; python_version < '3'")
    write_wheel(wheels, "cutlass_tuner", "0.1.0", *needs)
    write_wheel(wheels, "there", "1.0")
    write_wheel(wheels, "plus", "1.0")
    write_wheel(wheels, "there", "9.0", tag="cp21-cp21-win32")
    (wheels / "requirement.txt").write_text("cutlass-tuner==0.1.0\n")
    return wheels


def install(folder: Path, machine: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a machine whose packages are those under `machine`, into its folder `new`."""
    script = [sys.executable, str(ROOT / "tools" / "install-offline"), str(folder)]
    return subprocess.run(
        [*script, "--target", str(machine / "new"), *options],
        env={**os.environ, "PYTHONPATH": str(machine)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def has(machine: Path, name: str, version: str) -> None:
    (machine / f"{name}-{version}.dist-info").mkdir(parents=True)
    (machine / f"{name}-{version}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )


def installed(machine: Path) -> dict[str, str]:
    found = (
        path.name.removesuffix(".dist-info").split("-") for path in (machine / "new").glob("*.dist-info")
    )
    return dict(found)


def test_what_is_there_is_kept(folder: Path, tmp_path: Path) -> None:
    has(tmp_path, "here", "2.5")
    done = install(folder, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept here 2.5" in done.stdout
    assert installed(tmp_path) == {"cutlass_tuner": "0.1.0", "there": "1.0"}


def test_what_is_missing_is_named_and_nothing_installed(folder: Path, tmp_path: Path) -> None:
    (folder / "there-1.0-py3-none-any.whl").unlink()
    done = install(folder, tmp_path)
    assert done.returncode == 1
    assert "\n  here>=2 for cutlass-tuner" in done.stderr
    assert "\n  there for cutlass-tuner" in done.stderr
    assert installed(tmp_path) == {}


def test_too_old_is_not_there(folder: Path, tmp_path: Path) -> None:
    has(tmp_path, "here", "1.9")
    done = install(folder, tmp_path)
    assert done.returncode == 1
    assert "here>=2 for cutlass-tuner (installed 1.9)" in done.stderr
    write_wheel(folder, "here", "2.0")
    assert install(folder, tmp_path).returncode == 0
    assert installed(tmp_path)["here"] == "2.0"


def test_all_installs_over_what_is_there(folder: Path, tmp_path: Path) -> None:
    has(tmp_path, "here", "2.5")
    write_wheel(folder, "here", "2.0")
    assert install(folder, tmp_path, "--all").returncode == 0
    assert installed(tmp_path)["here"] == "2.0"


def test_an_extra_brings_its_own(folder: Path, tmp_path: Path) -> None:
    has(tmp_path, "here", "2.5")
    (folder / "requirement.txt").write_text("cutlass-tuner[fast]==0.1.0\n")
    assert install(folder, tmp_path).returncode == 0
    assert installed(tmp_path) == {"cutlass_tuner": "0.1.0", "there": "1.0", "plus": "1.0"}


def test_another_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    done = install(tmp_path, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("install-offline: ")
    assert done.stderr.count("\n") == 1
