"""Every command: its options reach the pipeline, its text goes to stdout, its mistakes are one line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

from cutlass_tuner import options as o
from cutlass_tuner.cli import main
from cutlass_tuner.errors import UserError

STUDIES = Path("studies")


@pytest.fixture(autouse=True)
def fresh_settings() -> None:
    from cutlass_tuner.settings import settings

    settings.cache_clear()


@pytest.fixture
def folder_d(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that `--studies d` names."""
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder_d")
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("tune --op hgemm --shapes s.csv", o.TuneOptions("hgemm", Path("s.csv"), STUDIES)),
        (
            "tune --op hgemm --shapes s.csv --budget 1h30m --builds 9 --target 1.05 --sampler tpe --seed 3"
            " --l2 warm --fix swizzle=4 --fix cluster=2x1x1 --only tma --space my.yaml --study mine"
            " --studies d --gpu 2 --jobs 5 --nvcc /n --cutlass /c --compiler nvrtc",
            o.TuneOptions(
                op="hgemm",
                shapes=Path("s.csv"),
                studies=Path("d"),
                budget_s=5400.0,
                builds=9,
                target=1.05,
                sampler="tpe",
                seed=3,
                study="mine",
                l2="warm",
                gpu=2,
                space=o.SpaceOptions(Path("my.yaml"), "tma", {"swizzle": "4", "cluster": "2x1x1"}),
                toolchain=o.ToolchainOptions(Path("/n"), Path("/c"), "nvrtc", 5),
            ),
        ),
        (
            "tune --op hgemm --shapes s.csv --simulate old --llm manual --replies r --llm-model m"
            " --llm-effort high --llm-max-tokens 5000 --llm-max-usd 0.5 --llm-rounds 3 --no-history",
            o.TuneOptions(
                op="hgemm",
                shapes=Path("s.csv"),
                studies=STUDIES,
                simulate="old",
                llm=o.LlmOptions("manual", Path("r"), "m", "high", 5000, 0.5, 3, False),
            ),
        ),
        (
            "tune --op hgemm --shapes s.csv --llm replay:some/where --history",
            o.TuneOptions("hgemm", Path("s.csv"), STUDIES, llm=o.LlmOptions("replay:some/where")),
        ),
        (
            "propose --op hgemm --shapes s.csv",
            o.ProposeOptions("hgemm", Path("s.csv"), STUDIES, Path("request.md")),
        ),
        (
            "propose --op hgemm --shapes s.csv --out q.md --like old --arch sm_90a --no-history --only tma"
            " --fix stages=4 --space y --studies d",
            o.ProposeOptions(
                op="hgemm",
                shapes=Path("s.csv"),
                studies=Path("d"),
                out=Path("q.md"),
                arch="sm_90a",
                like="old",
                history=False,
                space=o.SpaceOptions(Path("y"), "tma", {"stages": "4"}),
            ),
        ),
        ("lab old", o.LabOptions("old", STUDIES, Path("lab-old"))),
        ("lab some/where/old", o.LabOptions("some/where/old", STUDIES, Path("lab-old"))),
        (
            "lab old --studies d --replies a --replies b --arm random --arm llm+tpe --builds 9 --seeds 2"
            " --jobs 3 --out o",
            o.LabOptions(
                data="old",
                studies=Path("d"),
                out=Path("o"),
                replies=(Path("a"), Path("b")),
                arms=("random", "llm+tpe"),
                builds=9,
                seeds=2,
                jobs=3,
            ),
        ),
        ("build --op hgemm", o.BuildOptions("hgemm")),
        (
            "build --op hgemm --arch sm_90a --shapes s.csv --limit 6 --only tma --fix stages=4 --space y"
            " --jobs 2 --nvcc /n --cutlass /c --compiler nvrtc",
            o.BuildOptions(
                op="hgemm",
                arch="sm_90a",
                shapes=Path("s.csv"),
                limit=6,
                space=o.SpaceOptions(Path("y"), "tma", {"stages": "4"}),
                toolchain=o.ToolchainOptions(Path("/n"), Path("/c"), "nvrtc", 2),
            ),
        ),
        ("compare --op hgemm --shapes s.csv", o.CompareOptions("hgemm", Path("s.csv"), STUDIES)),
        (
            "compare --op hgemm --shapes s.csv --study x --studies d --l2 warm --gpu 1 --jobs 3 --nvcc /n"
            " --cutlass /c --compiler nvrtc",
            o.CompareOptions(
                op="hgemm",
                shapes=Path("s.csv"),
                studies=Path("d"),
                study="x",
                l2="warm",
                gpu=1,
                toolchain=o.ToolchainOptions(Path("/n"), Path("/c"), "nvrtc", 3),
            ),
        ),
        ("run --op hgemm --shape 64x32x16", o.RunOptions("hgemm", (64, 32, 16))),
        ("run --op fmha --shape 1x8x2x64x64x128x0", o.RunOptions("fmha", (1, 8, 2, 64, 64, 128, 0))),
        (
            "run --op hgemm --shape 64x32x16x8 --layout tt --set tile=128x256x64 --set swizzle=2"
            " --only tma --space y --source --l2 warm --gpu 1 --nvcc /n --cutlass /c --compiler nvrtc",
            o.RunOptions(
                op="hgemm",
                extents=(64, 32, 16, 8),
                layout="tt",
                knobs={"tile": "128x256x64", "swizzle": "2"},
                family="tma",
                space_file=Path("y"),
                source=True,
                l2="warm",
                gpu=1,
                toolchain=o.ToolchainOptions(Path("/n"), Path("/c"), "nvrtc"),
            ),
        ),
        ("show mine", o.ShowOptions("mine", STUDIES)),
        ("show mine --studies d", o.ShowOptions("mine", Path("d"))),
        ("export mine", o.ExportOptions("mine", STUDIES)),
        (
            "export mine --format header --out here --namespace a::b --max-kernels 4 --studies d",
            o.ExportOptions("mine", Path("d"), "header", Path("here"), "a::b", 4),
        ),
        (
            "export mine --format csv --namespace tuned",
            o.ExportOptions("mine", STUDIES, "csv"),
        ),
    ],
)
def test_options_reach_the_pipeline(
    command: str,
    options: object,
    asked: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = command.split(maxsplit=1)[0]
    table = "the table"
    asked.answer(name, lambda: table if name != "run" else SimpleNamespace(text=table, right=True))
    assert main(command.split()) == 0
    assert (asked.name, asked.options) == (name, options)
    assert capsys.readouterr() == ("the table\n", "")


@pytest.mark.parametrize(
    ("command", "name", "keywords"),
    [
        ("cache show", "cache_show", {}),
        ("cache prune --all", "cache_prune", {"older_than_days": None, "everything": True}),
        ("cache prune --older-than 36h", "cache_prune", {"older_than_days": 1.5, "everything": False}),
    ],
)
def test_cache(command: str, name: str, keywords: dict[str, object], asked: Any) -> None:
    assert main(command.split()) == 0
    assert (asked.name, asked.keywords) == (name, keywords)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("", "Commands:"),
        ("--help", "Commands:"),
        ("--version", "cutlass-tuner "),
        ("tune -h", "--budget TIME"),
    ],
)
def test_asking_about_the_program_succeeds(
    command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    printed, errors = capsys.readouterr()
    assert told in printed
    assert errors == ""


TUNE = "tune --op hgemm --shapes s.csv"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("polish", "polish"),
        ("tune --op hgemm", "--shapes"),
        ("tune --shapes s.csv", "--op"),
        (f"{TUNE} --speed 9", "--speed"),
        (f"{TUNE} stray", "stray"),
        (
            f"{TUNE} --sampler grid",
            "Invalid value for '--sampler': 'grid' is not one of 'portfolio', 'tpe', 'gp', 'random'",
        ),
        (f"{TUNE} --l2 lukewarm", "'lukewarm' is not one of 'cold', 'warm'"),
        (f"{TUNE} --compiler clang", "'clang' is not one of 'nvcc', 'nvrtc'"),
        (f"{TUNE} --budget 10", "--budget '10' is no duration; write a number and s, m, h or d"),
        (f"{TUNE} --budget 0m", "--budget is 0m; it must be above 0"),
        (f"{TUNE} --budget m10", "--budget 'm10' is no duration"),
        (f"{TUNE} --builds 0", ": --builds is 0; give a whole number from 1"),
        (f"{TUNE} --builds many", ": --builds 'many' is no whole number; see 'cutlass-tuner tune --help'"),
        (f"{TUNE} --builds 1.5", ": --builds '1.5' is no whole number"),
        (f"{TUNE} --target 0", ": --target is 0; give a ratio above 0, like 1.05"),
        (f"{TUNE} --target nan", ": --target is nan"),
        (f"{TUNE} --target inf", ": --target is inf"),
        (f"{TUNE} --target fast", ": --target 'fast' is no number"),
        (f"{TUNE} --seed -1", ": --seed is -1; give a whole number from 0"),
        (f"{TUNE} --seed abc", ": --seed 'abc' is no whole number"),
        (f"{TUNE} --gpu -1", ": --gpu is -1; give a whole number from 0"),
        (f"{TUNE} --jobs 0", ": --jobs is 0; give a whole number from 1"),
        (f"{TUNE} --llm gpt", ": --llm gpt: use anthropic, manual, none or replay:DIR"),
        (f"{TUNE} --llm replay:", ": --llm replay:: use anthropic, manual, none or replay:DIR"),
        (f"{TUNE} --llm manual", ": --llm manual and --replies DIR belong together"),
        (f"{TUNE} --replies r", ": --llm manual and --replies DIR belong together"),
        (f"{TUNE} --llm none --replies r", ": --llm manual and --replies DIR belong together"),
        (f"{TUNE} --llm-effort max", "'max' is not one of 'low', 'medium', 'high'"),
        (f"{TUNE} --llm-max-tokens 0", ": --llm-max-tokens is 0; give a whole number from 1"),
        (f"{TUNE} --llm-max-tokens 1.5", ": --llm-max-tokens '1.5' is no whole number"),
        (f"{TUNE} --llm-max-usd 0", ": --llm-max-usd is 0; give an amount above 0, like 2"),
        (f"{TUNE} --llm-max-usd -1", ": --llm-max-usd is -1; give an amount above 0, like 2"),
        (f"{TUNE} --llm-max-usd inf", ": --llm-max-usd is inf"),
        (f"{TUNE} --llm-max-usd nan", ": --llm-max-usd is nan"),
        (f"{TUNE} --llm-max-usd much", ": --llm-max-usd 'much' is no number"),
        (f"{TUNE} --llm-rounds 0", ": --llm-rounds is 0; give a whole number from 1"),
        (f"{TUNE} --fix swizzle", "--fix 'swizzle' is no pair; write knob=value, like swizzle=4"),
        (f"{TUNE} --fix =4", "--fix '=4' is no pair"),
        (f"{TUNE} --fix swizzle=1 --fix swizzle=2", "--fix gives swizzle twice, '1' and '2'"),
        ("build --op hgemm --limit 0", ": --limit is 0; give a whole number from 1"),
        ("build", "--op"),
        ("compare --op hgemm", "--shapes"),
        ("compare --op hgemm --shapes s.csv --gpu -2", ": --gpu is -2"),
        ("run --op hgemm", "--shape"),
        ("run --op hgemm --shape 64x64x", "--shape '64x64x' is no problem; write the op's extents as whole"),
        ("run --op hgemm --shape 64x64x-8", "--shape '64x64x-8' is no problem"),
        ("run --op hgemm --shape 64,64,8", "--shape '64,64,8' is no problem"),
        (f"run --op hgemm --shape 64x64x{'9' * 19}", "is no problem"),
        ("run --op hgemm --shape 64x64x64 --set tile", "--set 'tile' is no pair"),
        ("run --op hgemm --shape 64x64x64 --gpu -2", ": --gpu is -2"),
        ("propose --op hgemm", "--shapes"),
        ("propose --shapes s.csv", "--op"),
        ("propose --op hgemm --shapes s.csv --fix x", "--fix 'x' is no pair"),
        ("lab", "STUDY"),
        ("lab s --builds 0", ": --builds is 0; give a whole number from 1"),
        ("lab s --seeds 0", ": --seeds is 0; give a whole number from 1"),
        ("lab s --jobs 0", ": --jobs is 0; give a whole number from 1"),
        ("show", "STUDY"),
        ("export", "STUDY"),
        ("export mine --format xml", "'xml' is not one of 'header', 'json', 'csv', 'training', 'torch'"),
        ("export mine --namespace 3a", ": --namespace '3a': must be a C++ namespace such as tuned"),
        ("export mine --namespace a::", ": --namespace 'a::': must be a C++ namespace"),
        ("export mine --namespace std", ": --namespace 'std': must be a C++ namespace"),
        ("export mine --namespace a::class", ": --namespace 'a::class': must be a C++ namespace"),
        ("export mine --format csv --max-kernels 4", "--max-kernels applies to --format header and torch,"),
        ("export mine --format json --namespace a", "--namespace applies to --format header and torch,"),
        ("export mine --max-kernels 0", ": --max-kernels is 0; give a whole number from 1"),
        ("cache", "command"),
        ("cache prune", "cache prune needs either --older-than TIME, like 30d, or --all"),
        ("cache prune --all --older-than 3d", "cache prune needs either"),
        ("cache prune --older-than 3", "--older-than '3' is no duration"),
        ("cache prune --older-than 0d", "--older-than is 0d; it must be above 0"),
        (f"{TUNE} --fix", "requires an argument; see 'cutlass-tuner tune --help'"),
        ("cache prune --older-than", "requires an argument; see 'cutlass-tuner cache prune --help'"),
        ("cache polish", "see 'cutlass-tuner cache --help'"),
        ("tune polish", "see 'cutlass-tuner tune --help'"),
        ("--speed", "see 'cutlass-tuner --help'"),
        ("doctor --gpu -1", ": --gpu is -1; give a whole number from 0"),
        ("doctor --gpu x", ": --gpu 'x' is no whole number"),
    ],
)
def test_a_mistake_is_one_line(command: str, told: str, asked: Any, refused: Callable[[str], str]) -> None:
    errors = refused(command)
    assert told in errors
    assert "Value error" not in errors
    assert asked.name == ""


def test_the_pipelines_mistakes_are_one_line_too(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> str:
        raise UserError("s.csv line 3: m is 'x'\nallowed: whole numbers")

    asked.answer("tune", refuse)
    assert main(TUNE.split()) == 2
    assert capsys.readouterr() == ("", "cutlass-tuner: s.csv line 3: m is 'x' allowed: whole numbers\n")


def test_ctrl_c_is_no_traceback(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> str:
        raise KeyboardInterrupt

    asked.answer("tune", stop)
    assert main(TUNE.split()) == 130
    assert capsys.readouterr() == ("", "cutlass-tuner: stopped\n")


def test_a_fault_of_ours_is_not_hidden(asked: Any) -> None:
    def fail() -> str:
        raise ZeroDivisionError

    asked.answer("tune", fail)
    with pytest.raises(ZeroDivisionError):
        main(TUNE.split())


def test_environment_variables_stand_behind_the_options(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTLASS_TUNER_STUDIES", "/elsewhere")
    monkeypatch.setenv("CUTLASS_PATH", "/checkout")
    assert main(TUNE.split()) == 0
    assert (asked.options.studies, asked.options.toolchain.cutlass) == (Path("/elsewhere"), Path("/checkout"))
    assert main([*TUNE.split(), "--studies", "here", "--cutlass", "mine"]) == 0
    assert (asked.options.studies, asked.options.toolchain.cutlass) == (Path("here"), Path("mine"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tune", o.TuneOptions),
        ("propose", o.ProposeOptions),
        ("lab", o.LabOptions),
        ("build", o.BuildOptions),
        ("compare", o.CompareOptions),
        ("run", o.RunOptions),
        ("show", o.ShowOptions),
        ("export", o.ExportOptions),
    ],
)
def test_the_real_pipeline_takes_what_the_cli_gives(name: str, options: type) -> None:
    from cutlass_tuner import pipeline

    function = getattr(pipeline, name)
    (parameter,) = inspect.signature(function).parameters
    given = get_type_hints(function)
    assert given.pop("return") is (str if name != "run" else pipeline.Ran)
    assert given == {parameter: options}


def test_run_says_with_its_status_whether_the_kernel_was_right(asked: Any) -> None:
    assert main(["run", "--op", "hgemm", "--shape", "64x64x64"]) == 0
    asked.answer("run", lambda: SimpleNamespace(text="not built: it is illegal", right=False))
    assert main(["run", "--op", "hgemm", "--shape", "64x64x64"]) == 1
