"""Space files: the shipped one is complete, a user's may only narrow it, mistakes are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cutlass_tuner import settings
from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.registry import OPS, op
from cutlass_tuner.settings import data_dir
from cutlass_tuner.space import Space, load

SHIPPED = data_dir("spaces") / "hgemm-sm90.yaml"
SPACES = [(name, arch) for name, the_op in OPS.items() for arch in the_op.spaces]


@pytest.fixture
def content() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(SHIPPED.read_text())
    return loaded


def _written(folder: Path, content: object) -> Path:
    path = folder / "mine.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return path


def _said(path: Path | str) -> str:
    with pytest.raises(UserError) as caught:
        Space.load(path)
    said = str(caught.value)
    assert "\n" not in said and len(said) < 600
    assert str(path) in said
    return said


def test_every_op_has_its_spaces_and_they_load() -> None:
    for name, the_op in OPS.items():
        spaces = [Space.of(name, arch) for arch in the_op.spaces]
        assert all(space.op is the_op for space in spaces)
        assert [space.arch for space in spaces] == list(the_op.spaces)
        # A family is of one architecture: kernels of equal keys are equal kernels.
        families = [family for space in spaces for family in space.families]
        assert sorted(families) == sorted(the_op.families)


@pytest.mark.parametrize("name", OPS)
def test_a_given_knob_has_a_rule_of_its_name_and_a_needed_one_exists(name: str) -> None:
    for arch, the_op in ((arch, op(name)) for arch in op(name).spaces):
        for family in Space.of(name, arch).families.values():
            model = the_op.families[family.name]
            assert family.given == model.given and set(family.given) <= set(family.kernel) & set(family.rules)
            for knob, (other, value) in model.needs.items():
                assert knob in family.kernel and family.kernel[other].accepts(value)


def test_ops_that_share_a_file_are_different_spaces(tmp_path: Path) -> None:
    half, brain = (Space.of(name, "sm_90a") for name in ("fmha", "fmha-bf16"))
    assert half.families == brain.families
    assert half.digest != brain.digest
    assert Space.load("fmha-sm90").op.name == "fmha"
    mine = {"op": "fmha-bf16", "families": {"attention": {"kernel": {"template": {"values": ["flash"]}}}}}
    narrowed = Space.load(_written(tmp_path, mine))
    assert narrowed.op.name == "fmha-bf16"
    assert narrowed.family().kernel["template"].values == ("flash",)


@pytest.mark.parametrize(("name", "arch"), SPACES)
def test_rules_in_file_and_code_are_the_same(name: str, arch: str) -> None:
    for family in Space.of(name, arch).families.values():
        assert list(family.rules) == list(op(name).families[family.name].rules)
        for rule in family.rules.values():
            assert rule.kind in ("illegal", "unwise") and rule.reason and rule.source


@pytest.mark.parametrize(("name", "arch"), SPACES)
def test_every_knob_has_values_a_default_among_them_and_one_line(name: str, arch: str) -> None:
    family = Space.of(name, arch).family()
    for knob in (*family.kernel.values(), *family.launch.values()):
        assert knob.default in knob.values
        assert len(knob.values) == len(set(knob.values)) > 1
        assert knob.doc and "\n" not in knob.doc


def test_a_users_file_narrows(tmp_path: Path) -> None:
    mine = {
        "op": "hgemm",
        "families": {
            "tma_ws": {
                "kernel": {"tile_m": {"values": [128, 256], "default": 256}, "stages": {"values": [3, 9]}},
                "launch": {"swizzle": {"default": 8}},
            }
        },
    }
    space = Space.load(_written(tmp_path, mine))
    shipped = Space.load("hgemm-sm90")
    assert space.kernel().knobs["tile_m"] == 256
    assert space.launch().knobs["swizzle"] == 8
    assert space.family().kernel["stages"].values == (3, 9)
    assert space.family().kernel["tile_n"] == shipped.family().kernel["tile_n"]
    assert space.family().rules == shipped.family().rules
    assert space.digest != shipped.digest


def test_a_copy_of_the_shipped_file_is_the_same_space(tmp_path: Path) -> None:
    copy = _written(tmp_path, SHIPPED.read_text())
    assert Space.load(copy).digest == Space.load("hgemm-sm90").digest


def _family(content: dict[str, Any]) -> dict[str, Any]:
    family: dict[str, Any] = content["families"]["tma_ws"]
    return family


def test_mistakes_in_a_users_file_are_one_line(tmp_path: Path, content: dict[str, Any]) -> None:
    family = _family(content)

    def said_with(change: dict[str, Any]) -> str:
        return _said(_written(tmp_path, {"op": "hgemm", "families": {"tma_ws": change}}))

    assert "no knob 'tile'" in said_with({"kernel": {"tile": {"values": [1]}}})
    assert "no knob 'swizzle' here" in said_with({"kernel": {"swizzle": {"values": [1]}}})
    said = said_with({"kernel": {"tile_n": {"values": [8, 24]}}})
    assert "24" in said and "8, 16, 32" in said
    assert "default of tile_m is 64" in said_with({"kernel": {"tile_m": {"values": [128], "default": 64}}})
    assert "tile_m" in said_with({"kernel": {"tile_m": {"values": []}}})
    assert "no rule 'my_rule'" in said_with(
        {"rules": {"my_rule": {"kind": "illegal", "reason": "r", "source": "s"}}}
    )
    changed = {**family["rules"]["smem_capacity"], "kind": "unwise"}
    assert "cannot be changed" in said_with({"rules": {"smem_capacity": changed}})
    assert "kernel.tile_m.value" in said_with({"kernel": {"tile_m": {"value": [128]}}})
    assert "found 1.5" in said_with({"kernel": {"tile_m": {"values": [1.5]}}})


def test_files_that_are_not_spaces(tmp_path: Path) -> None:
    assert "no such space file" in _said("nowhere.yaml")
    assert "hgemm-sm90" in _said(str(tmp_path / "absent.yaml"))
    assert "not YAML" in _said(_written(tmp_path, "op: [hgemm"))
    assert "not a space file" in _said(_written(tmp_path, "just words"))
    assert "not a space file" in _said(_written(tmp_path, ""))
    assert "op: Field required" in _said(_written(tmp_path, {"families": {}}))
    assert "no families" in _said(_written(tmp_path, {"op": "hgemm", "families": {}}))
    assert "no family 'tiny'" in _said(_written(tmp_path, {"op": "hgemm", "families": {"tiny": {}}}))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in _said(binary)


def test_an_unknown_op_or_arch_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no op 'sgemm'; known: hgemm"):
        Space.load(_written(tmp_path, {"op": "sgemm", "families": {"tma_ws": {}}}))
    said = _said(_written(tmp_path, {"op": "hgemm", "arch": "sm_80", "families": {"tma_ws": {}}}))
    assert "sm_80" in said and "sm_90a" in said


def test_a_shipped_file_must_describe_exactly_the_ops_rules(
    tmp_path: Path, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "data_dir", lambda kind: tmp_path)
    assert settings.data_dir("spaces") != tmp_path
    rules = _family(content)["rules"]
    kept = rules.pop("smem_capacity")
    assert "does not describe its rule 'smem_capacity'" in _said(_written(tmp_path, content))
    rules.update(smem_capacity=kept, invented=kept)
    assert "no rule 'invented'" in _said(_written(tmp_path, content))
    del rules["invented"]
    del _family(content)["kernel"]["tile_m"]["doc"]
    assert "knob tile_m needs values, default and doc" in _said(_written(tmp_path, content))
