"""From YAML to knobs, families and rules; every mistake in a file is one line for its author.

A shipped file defines an op's families. A user's file narrows them: it may leave values out and
change defaults; rules, texts and further values are the op's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.columns import Alphabet
from cutlass_tuner.ops.registry import Op, op
from cutlass_tuner.records import Scalar
from cutlass_tuner.settings import data_dir
from cutlass_tuner.space.knobs import FamilySpace, Kind, Knob, RuleText


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Knob(_Section):
    values: tuple[Scalar, ...] | None = None
    default: Scalar | None = None
    doc: str | None = None
    whole: tuple[int, int] | None = None


class _Rule(_Section):
    kind: Kind
    reason: str
    source: str


class _Family(_Section):
    doc: str | None = None
    kernel: dict[str, _Knob] = {}
    launch: dict[str, _Knob] = {}
    rules: dict[str, _Rule] = {}


class _File(_Section):
    op: str
    arch: str | None = None
    shorthands: dict[str, tuple[str, ...]] = {}
    families: dict[str, _Family]


@dataclass(frozen=True)
class Loaded:
    """A space file's content, checked against its op."""

    op: Op
    arch: str
    shorthands: Mapping[str, tuple[str, ...]]
    families: Mapping[str, FamilySpace]


def load(path_or_name: Path | str) -> Loaded:
    """A shipped space by name ("hgemm-sm90", with or without .yaml) or a user's file by path.

    Raises UserError for a file that cannot be read, is not such a YAML, or names an op, family,
    knob, value or rule that does not exist.
    """
    path, shipped = _find(path_or_name)
    file = _read(path)
    the_op = op(file.op)
    if shipped:
        return _define(path, file, the_op)
    arch = file.arch or next(iter(the_op.spaces))
    if arch not in the_op.spaces:
        raise UserError(f"{path}: {file.op} has no space for {arch}; there are {', '.join(the_op.spaces)}")
    return _overlay(path, file, load_shipped(the_op, arch))


def load_shipped(the_op: Op, arch: str) -> Loaded:
    """The shipped space of an op on an architecture. Ops that name one file share it: `op` in it is the first
    of them."""
    path = data_dir("spaces") / the_op.spaces[arch]
    return _define(path, _read(path), the_op)


def _find(path_or_name: Path | str) -> tuple[Path, bool]:
    shipped = data_dir("spaces")
    names = sorted(file.stem for file in shipped.glob("*.yaml"))
    text = str(path_or_name)
    if text.removesuffix(".yaml") in names and not Path(text).is_file():
        return shipped / f"{text.removesuffix('.yaml')}.yaml", True
    path = Path(text)
    if not path.is_file():
        raise UserError(f"{text}: no such space file; give a path to one or a name of {', '.join(names)}")
    return path, path.resolve().parent == shipped.resolve()


def _read(path: Path) -> _File:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {_one_line(str(error))}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: not a space file; it must have the keys op and families")
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        # Pydantic appends the union member it tried to a scalar's place: of no use to a reader.
        place = ".".join(str(part) for part in first["loc"] if not re.match(r"(strict|Strict)", str(part)))
        raise UserError(f"{path}: {place}: {first['msg']}, found {_one_line(repr(first['input']))}") from None


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else f"{flat[:157]}..."


def _define(path: Path, file: _File, the_op: Op) -> Loaded:
    """A shipped file: every knob complete, and exactly the rules the op has predicates for."""
    families = {}
    for name, family in file.families.items():
        if name not in the_op.families:
            raise UserError(f"{path}: op {the_op.name} has no family {name!r}; {_there(the_op.families)}")
        predicates = the_op.families[name].rules
        _same_rules(path, name, family.rules, predicates)
        rules = {
            rule: RuleText(rule, text.kind, " ".join(text.reason.split()), text.source)
            for rule, text in family.rules.items()
        }
        kernel = {knob: _knob(path, knob, said) for knob, said in family.kernel.items()}
        launch = {knob: _knob(path, knob, said) for knob, said in family.launch.items()}
        given = the_op.families[name].given
        families[name] = FamilySpace(name, family.doc or "", kernel, launch, rules, given)
    return Loaded(the_op, file.arch or next(iter(the_op.spaces)), file.shorthands, families)


def _same_rules(path: Path, family: str, said: Mapping[str, _Rule], predicates: Mapping[str, Any]) -> None:
    for name in said:
        if name not in predicates:
            raise UserError(f"{path}: family {family} has no rule {name!r}; {_there(predicates)}")
    missing = [name for name in predicates if name not in said]
    if missing:
        raise UserError(f"{path}: family {family} does not describe its rule {missing[0]!r}")


def _knob(path: Path, name: str, said: _Knob) -> Knob:
    if not said.values or said.default is None or not said.doc:
        raise UserError(f"{path}: knob {name} needs values, default and doc")
    knob = Knob(name, said.values, said.default, said.doc, Alphabet.of(said.values), said.whole)
    if not knob.accepts(said.default):
        raise UserError(f"{path}: default of {name} is {said.default!r}, not among its values")
    return knob


def _overlay(path: Path, file: _File, base: Loaded) -> Loaded:
    families = {}
    for name, family in file.families.items():
        if name not in base.families:
            raise UserError(f"{path}: op {base.op.name} has no family {name!r}; {_there(base.families)}")
        known = base.families[name]
        for rule, text in family.rules.items():
            if rule not in known.rules:
                raise UserError(f"{path}: family {name} has no rule {rule!r}; {_there(known.rules)}")
            if (text.kind, text.source) != (known.rules[rule].kind, known.rules[rule].source):
                raise UserError(f"{path}: rule {rule} is the op's and cannot be changed; leave it out")
        families[name] = replace(
            known,
            kernel=_narrowed(path, name, known.kernel, family.kernel),
            launch=_narrowed(path, name, known.launch, family.launch),
        )
    if not families:
        raise UserError(f"{path}: no families in it; {_there(base.families)}")
    return replace(base, families=families)


def _narrowed(
    path: Path, family: str, known: Mapping[str, Knob], said: Mapping[str, _Knob]
) -> dict[str, Knob]:
    result = dict(known)
    for name, change in said.items():
        if name not in known:
            raise UserError(f"{path}: family {family} has no knob {name!r} here; {_there(known)}")
        knob = known[name]
        values = knob.values if change.values is None else change.values
        wrong = [value for value in values if not knob.accepts(value)]
        if wrong or not values:
            raise UserError(f"{path}: {name} has value {wrong[0] if wrong else 'none'!r}; use {knob.allowed}")
        if change.default is not None and change.default not in values:
            raise UserError(f"{path}: default of {name} is {change.default!r}, not among its values")
        result[name] = knob.narrowed(tuple(dict.fromkeys(values)), change.default)
    return result


def _there(names: Mapping[str, Any]) -> str:
    return f"there are {', '.join(names)}"
