"""Going on with a study: what is refused, what is said, what is kept."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.study import Study, default_name, find
from study.events import CONTRACT, P1, P2, P3, built, header, measured, problem, told


def test_the_same_command_goes_on_where_it_stopped(tmp_path: Path) -> None:
    events = (built(), measured(), told())
    with Study.open_or_create(tmp_path, header(), [P1, P2]) as study:
        for event in events:
            study.append(event)
        assert study.events() == events
    with Study.open_or_create(tmp_path, header(), [P1, P2]) as again:
        assert again.events() == events
        assert again.problems == (P1, P2)
        assert again.notes == ()
        again.append(built(256))
    assert len(Study.load(tmp_path, "s").events()) == 4


OTHER = {"sm_count": 114, "flags": ("-O2",)}


@pytest.mark.parametrize(
    "field", ["gpu", "arch", "sm_count", "cuda", "compiler", "cublas", "cutlass", "flags"]
)
def test_another_environment_is_refused_with_both_values(tmp_path: Path, field: str) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    value = OTHER.get(field, "another")
    with pytest.raises(UserError) as error:
        Study.open_or_create(tmp_path, header(**{field: value}), [P1])
    said = str(error.value)
    before = getattr(header().environment, field)
    for shown in (before, value):
        assert (" ".join(shown) if isinstance(shown, tuple) else str(shown)) in said
    assert field in said
    assert "--study NAME" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("op", "bgemm", "op hgemm there, bgemm now"),
        ("family", "sk", "family tma_ws there, sk now"),
        ("l2", "warm", "l2 cold there, warm now"),
        ("space_digest", "feed", "space 0123456789abcdef there, feed now"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, field: str, value: str, named: str) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    with pytest.raises(UserError, match=named):
        Study.open_or_create(tmp_path, header().model_copy(update={field: value}), [P1])


def test_every_difference_is_named_at_once(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    with pytest.raises(UserError, match=r"gpu .* H200 there, L4 now; cuda 13.0 there, 12.8 now"):
        Study.open_or_create(tmp_path, header(gpu="L4", cuda="12.8"), [P1])


def test_a_refusal_leaves_the_study_usable(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    with pytest.raises(UserError):
        Study.open_or_create(tmp_path, header(gpu="L4"), [P2])
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        assert study.notes == ()


def test_another_torch_is_refused_where_its_own_kernels_are_the_baselines(tmp_path: Path) -> None:
    then, now = (header(torch=version).model_copy(update={"op": "fmha"}) for version in ("2.13", "2.14"))
    Study.open_or_create(tmp_path, then, [P1]).close()
    with pytest.raises(UserError, match=r"torch 2\.13 there, 2\.14 now; results would not be comparable"):
        Study.open_or_create(tmp_path, now, [P1])
    Study.open_or_create(tmp_path, then, [P1]).close()


@pytest.mark.parametrize("field", ["driver", "torch", "tuner"])
def test_a_new_driver_torch_or_tuner_is_noted_and_goes_on(tmp_path: Path, field: str) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    with Study.open_or_create(tmp_path, header(**{field: "9.9"}), [P1]) as study:
        (note,) = study.notes
        assert field in note
        assert "9.9" in note
        assert study.header == header()


def test_a_baseline_library_that_came_or_went_is_noted(tmp_path: Path) -> None:
    libraries = {"cuDNN": "9.19.0", "flash-attn-4": "4.0.0"}
    Study.open_or_create(tmp_path, header(libraries=libraries), [P1]).close()
    with Study.open_or_create(tmp_path, header(libraries={"cuDNN": "9.20.1"}), [P1]) as study:
        assert study.notes == (
            "cuDNN was 9.19.0 when the study began and is 9.20.1 now",
            "flash-attn-4 was 4.0.0 when the study began and is not there now",
        )


def test_an_edited_shapes_file_adds_and_drops_problems_and_keeps_results(tmp_path: Path) -> None:
    with Study.open_or_create(tmp_path, header(), [P1, P2]) as study:
        study.append(measured(on=P1, us=(5.0,), reference_us=(10.0,)))
        study.append(measured(on=P2))
    with Study.open_or_create(tmp_path, header(), [P2, P3]) as study:
        assert study.notes == (
            "problems added since the last run: 256x64x64",
            "problems dropped since the last run (results kept): 64x64x64",
        )
        assert set(study.summary().speedup) == {P2.key}
    with Study.open_or_create(
        tmp_path, header(), [P1.model_copy(update={"count": 7, "name": "qkv"})]
    ) as study:
        best = study.best(P1.key)
        assert best is not None
        assert best.speedup == pytest.approx(2.0)
        assert study.problems[0].count == 7
    assert Study.load(tmp_path, "s").problems[0].name == "qkv"


def test_a_problem_under_another_contract_is_refused(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    half = CONTRACT.model_copy(update={"accumulator": "f16"})
    with pytest.raises(UserError, match="contract"):
        Study.open_or_create(tmp_path, header(), [problem(64, contract=half)])


def test_two_processes_on_one_study(tmp_path: Path) -> None:
    """A second process gets one line with the first one's pid; when that is gone, the study is free."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from study.events import P1, header\n"
        "from cutlass_tuner.study import Study\n"
        "study = Study.open_or_create(Path(sys.argv[1]), header(), [P1])\n"
        "print('open', flush=True); sys.stdin.read()\n"
    )
    tests = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), tests],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    with pytest.raises(UserError, match=f"in use by process {child.pid};.*--study NAME"):
        Study.open_or_create(tmp_path, header(), [P1])
    Study.load(tmp_path, "s")  # reading is free
    child.kill()
    child.communicate()
    Study.open_or_create(tmp_path, header(), [P1]).close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    with pytest.raises(RuntimeError, match="opened to read"):
        Study.load(tmp_path, "s").append(built())


def test_time_adds_up_over_runs(tmp_path: Path) -> None:
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        assert study.now_s() < 5
        study.append(built(at_s=100.0))
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        first = study.now_s()
        time.sleep(0.01)
        assert 100.0 <= first < study.now_s() < 105.0
        assert study.summary().elapsed_s == 100.0


@pytest.mark.parametrize("name", ["", "../x", "a b", ".hidden"])
def test_names_stay_inside_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is no name"):
        Study.open_or_create(tmp_path, header(name), [P1])


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write study .*--studies"):
        Study.open_or_create(tmp_path / "file", header(), [P1])


def test_studies_are_found_by_name_or_path(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header("first"), [P1]).close()
    assert find(tmp_path, "first") == tmp_path / "first"
    assert find(Path("elsewhere"), str(tmp_path / "first")) == tmp_path / "first"
    with pytest.raises(UserError, match=r"no study 'second' in .*; known: first"):
        find(tmp_path, "second")
    with pytest.raises(UserError, match="there are none"):
        find(tmp_path / "empty", "second")


def test_shipped_studies_are_found_last_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    for root, name in [(mine, "both"), (shipped, "both"), (shipped, "example")]:
        Study.open_or_create(root, header(name), [P1]).close()
    assert find(mine, "both", shipped) == mine / "both"
    assert find(mine, "example", shipped) == shipped / "example"
    with pytest.raises(UserError, match=r"; known: both; shipped: example$"):
        find(mine, "neither", shipped)
    with pytest.raises(UserError, match=r"; there are none; shipped: both, example$"):
        find(tmp_path / "empty", "neither", shipped)
    with pytest.raises(UserError, match=r"; known: both, example$"):
        find(shipped, "neither", shipped)
    monkeypatch.chdir(tmp_path)
    Path("example").mkdir()  # an export's, say
    assert find(mine, "example", shipped) == shipped / "example"


def test_a_folder_that_is_no_study_is_told(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    Study.open_or_create(shipped, header("example"), [P1]).close()
    (mine / "example").mkdir(parents=True)
    with pytest.raises(UserError, match=r"mine/example is no study: no study\.json in it; there are none"):
        find(mine, "example", shipped)
    with pytest.raises(UserError, match=r"mine is no study: no study\.json in it"):
        find(tmp_path / "other", str(mine), shipped)


def test_a_damaged_header_is_one_line(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    (tmp_path / "s" / "study.json").write_text("{")
    with pytest.raises(UserError, match=r"cannot be read.*study\.json"):
        Study.load(tmp_path, "s")


def test_another_format_is_refused(tmp_path: Path) -> None:
    Study.open_or_create(tmp_path, header(), [P1]).close()
    newer = header().model_copy(update={"version": 2})
    (tmp_path / "s" / "study.json").write_text(newer.model_dump_json())
    with pytest.raises(UserError, match="format 2, this version reads 1"):
        Study.load(tmp_path, "s")


def test_events_without_a_header_are_not_overwritten(tmp_path: Path) -> None:
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        study.append(built())
    (tmp_path / "s" / "study.json").unlink()
    with pytest.raises(UserError, match=r"no study\.json"):
        Study.open_or_create(tmp_path, header(), [P1])


def test_default_names() -> None:
    def name(digest: str, problems: list, label: str = "") -> str:
        return default_name("hgemm", "NVIDIA H200", digest, problems, label)

    assert name("d", [P1, P2]) == name("d", [P2, P1.model_copy(update={"count": 3})])
    assert name("d", [P1, P2]).startswith("hgemm-h200-")
    assert len({name("d", [P1]), name("d", [P2]), name("e", [P1])}) == 3
    assert name("d", [P1], "my shapes") == name("d", [P2], "my shapes")
    assert name("d", [P1], "my shapes").startswith("hgemm-my-shapes-h200-")
