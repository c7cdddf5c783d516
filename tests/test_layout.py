"""The shape of the code base: imports go one way, importing does nothing, files stay readable."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import cutlass_tuner

PACKAGE = Path(cutlass_tuner.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

STAGES = {"propose", "emit", "build", "measure", "verify", "compare", "refine", "export", "report", "study"}
LAYERS = (
    {"records", "errors"},
    {"ideas"},
    {"wire", "abi", "events"},
    {
        "ops",
        "space",
        "settings",
        "options",
        "probe",
        "statistics",
        "results",
        "fortunes",
        "roofline",
        "spelling",
    },
    STAGES,
    {"pipeline", "doctor", "machine"},
    {"cli"},
)
"""Lowest first. A module imports its own part and lower layers; but for the stages, its own layer too."""

CHILD = "device"
"""The measuring child may import what both sides of the pipe share, and nobody imports it."""

LONGEST_FILE = 300
LONGEST_FUNCTION = 60


def part(path: Path) -> str:
    """The part of the package a file belongs to: its top-level module or folder."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and part of every import of ours in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the absolute name"
            module = node.module or ""
            names = (
                [f"{module}.{alias.name}" for alias in node.names] if module == "cutlass_tuner" else [module]
            )
        else:
            continue
        yield from ((node.lineno, name.split(".")[1]) for name in names if name.startswith("cutlass_tuner."))


def layer(name: str) -> int:
    for height, parts in enumerate(LAYERS):
        if name in parts:
            return height
    raise AssertionError(
        f"{name} stands in no layer: give it one in {Path(__file__).name} and in docs/architecture.md"
    )


def allowed(importer: str, target: str) -> bool:
    if importer == target:
        return True
    if target == CHILD:
        return False
    stage = layer("build")
    if importer == CHILD:
        return layer(target) < stage
    height, below = layer(importer), layer(target)
    return below < height or (below == height < stage) or (below == height > stage)


def package_metadata(name: str) -> bool:
    return name.startswith("__")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    importer = part(path)
    if package_metadata(importer):  # __init__ imports nothing of ours, __main__ only the CLI
        assert {name for _, name in imported(path)} <= {"cli"}
        return
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {importer} must not import {name}"
        for line, name in imported(path)
        if not package_metadata(name) and not allowed(importer, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_rule_itself() -> None:
    assert allowed("pipeline", "build")
    assert allowed("build", "records")
    assert allowed("ops", "space")
    assert not allowed("build", "emit")
    assert not allowed("study", "export")
    assert not allowed("build", "pipeline")
    assert not allowed("records", "wire")
    assert not allowed("pipeline", CHILD)
    assert not allowed(CHILD, "verify")


WATCHED_IMPORT = """
import importlib, pathlib, pkgutil, sys
import cutlass_tuner

def watch(event, arguments):
    if event in ("os.mkdir", "subprocess.Popen", "os.fork", "os.exec", "socket.connect"):
        print(event, arguments[:1])
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        print(event, arguments[:2])
    elif event == "ctypes.dlopen" and any(name in str(arguments[0]) for name in ("libcuda.", "nvidia-ml")):
        print(event, arguments[:1])

sys.addaudithook(watch)
for module in pkgutil.walk_packages(cutlass_tuner.__path__, "cutlass_tuner."):
    if module.name.startswith("cutlass_tuner.device") or module.name.endswith("__main__"):
        continue
    importlib.import_module(module.name)
print("imported", len([name for name in sys.modules if name.startswith("cutlass_tuner.")]) > 10)
heavy = {"torch", "cuda.bindings", "cuda.core", "nvmath"} & set(sys.modules)
print("heavy", sorted(heavy))
"""


def test_importing_opens_no_gpu_makes_no_folder_starts_no_process() -> None:
    """Everything but the child, in a process of its own, with every such event of the interpreter watched."""
    done = subprocess.run([sys.executable, "-B", "-c", WATCHED_IMPORT], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["imported True", "heavy []"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    name = str(path.relative_to(PACKAGE))
    lines = text.count("\n")
    assert lines <= LONGEST_FILE, f"{name} has {lines} lines: which idea can leave it?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and part(path) != "cli":  # a command's options are its signature
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{name}: {node.name} has {length} lines"


def test_no_dumping_grounds() -> None:
    banned = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
    assert not {path.stem for path in MODULES} & banned


def third_party(path: Path) -> Iterator[str]:
    """Top-level names of the modules a file imports that are neither ours nor Python's."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        tops = {name.split(".")[0] for name in names}
        yield from tops - set(sys.stdlib_module_names) - {"cutlass_tuner"}


def test_every_import_is_a_declared_dependency() -> None:
    """What happens to be installed here, through something else, may be missing on the next machine."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml")
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["plots"], *extras["heuristics"]]
    declared = {re.match(r"[\w-]+", one)[0] for one in wanted}
    providers = metadata.packages_distributions()
    missing = {
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in MODULES
        for name in third_party(path)
        if declared.isdisjoint(one.lower().replace("_", "-") for one in providers.get(name, ()))
    }
    assert not missing, "\n".join(sorted(missing))
