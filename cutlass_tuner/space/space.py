"""The space of one op on one architecture: names configs, folds them, judges them, lists them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.columns import Columns, one_row
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.registry import Op, op
from cutlass_tuner.records import DeviceFacts, KernelConfig, LaunchConfig, Problem, Scalar
from cutlass_tuner.space import grid
from cutlass_tuner.space.candidates import Candidates, candidates
from cutlass_tuner.space.knobs import FamilySpace, Knob
from cutlass_tuner.space.legality import Legality, judge
from cutlass_tuner.space.load import load, load_shipped

Choices = Mapping[str, Scalar | tuple[Scalar, ...]]
"""Knobs held to one value or to a few."""


@dataclass(frozen=True)
class Space:
    """Immutable. Methods that take `family` may be called without it where there is only one."""

    op: Op
    arch: str
    families: Mapping[str, FamilySpace]
    shorthands: Mapping[str, tuple[str, ...]]

    @classmethod
    def load(cls, path_or_name: Path | str) -> Space:
        """A shipped space by name or a user's file by path. Raises UserError on any mistake in it."""
        loaded = load(path_or_name)
        return cls(loaded.op, loaded.arch, loaded.families, loaded.shorthands)

    @classmethod
    def of(cls, op_name: str, arch: str) -> Space:
        """The shipped space of an op. Raises UserError where the op has none for `arch`."""
        the_op = op(op_name)
        if arch not in the_op.spaces:
            there = ", ".join(the_op.spaces)
            raise UserError(f"op {op_name} has no kernels for {arch}; there are some for {there}")
        loaded = load_shipped(the_op, arch)
        return cls(loaded.op, loaded.arch, loaded.families, loaded.shorthands)

    def family(self, name: str | None = None) -> FamilySpace:
        """Raises UserError for a name the space does not have, or for none where there are several."""
        if name is None and len(self.families) == 1:
            return next(iter(self.families.values()))
        if name is None or name not in self.families:
            asked = "name a family" if name is None else f"no family {name!r}"
            raise UserError(f"{asked}; the space has {', '.join(self.families)}")
        return self.families[name]

    def kernel_knobs(self, family: str | None = None) -> tuple[Knob, ...]:
        """The compile-time knobs in order: the columns of `Candidates.codes`."""
        return tuple(self.family(family).kernel.values())

    def launch_knobs(self, family: str | None = None) -> tuple[Knob, ...]:
        """The run-time knobs in order."""
        return tuple(self.family(family).launch.values())

    # --- naming a config ----------------------------------------------------------------------

    def kernel(self, family: str | None = None, /, **knobs: Scalar) -> KernelConfig:
        """A raw kernel: these knobs and the defaults. Raises UserError for unknown knobs or values."""
        chosen = self.family(family)
        return KernelConfig(family=chosen.name, knobs=_filled(chosen, chosen.kernel, knobs, "kernel"))

    def launch(self, family: str | None = None, /, **knobs: Scalar) -> LaunchConfig:
        """A raw launch: these knobs and the defaults. Raises UserError for unknown knobs or values."""
        chosen = self.family(family)
        return LaunchConfig(knobs=_filled(chosen, chosen.launch, knobs, "launch"))

    def parse(self, knob: str, text: str, family: str | None = None) -> Scalar:
        """One knob's value as typed. Raises UserError naming the knobs, or the values, there are."""
        return self.family(family).knob(knob).parse(text)

    def parse_all(self, texts: Mapping[str, str], family: str | None = None) -> dict[str, Scalar]:
        """Typed knob=value pairs, shorthands (tile=128x256x64, cluster=2x1) written out."""
        chosen = self.family(family)
        return {knob: chosen.knob(knob).parse(text) for knob, text in self._written_out(texts).items()}

    def parse_choices(
        self, texts: Mapping[str, str], family: str | None = None
    ) -> dict[str, tuple[Scalar, ...]]:
        """As `parse_all`, where each knob may list several values: stages=3,4,5."""
        chosen = self.family(family)
        return {
            name: tuple(chosen.knob(name).parse(part) for part in text.split(","))
            for name, text in self._written_out(texts).items()
        }

    def split(
        self, knobs: Mapping[str, Scalar], family: str | None = None
    ) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
        """(kernel knobs, launch knobs) of a mixture. Raises UserError for a name that is neither."""
        chosen = self.family(family)
        for name in knobs:
            chosen.knob(name)
        kernel = {name: value for name, value in knobs.items() if name in chosen.kernel}
        return kernel, {name: value for name, value in knobs.items() if name in chosen.launch}

    def _written_out(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Each knob's text. Raises UserError for a knob given twice, as in tile_m=64 tile=128x128x64."""
        result: dict[str, str] = {}
        given_by: dict[str, str] = {}
        for name, text in texts.items():
            knobs = self.shorthands.get(name, (name,))
            parts = text.lower().split("x") if name in self.shorthands else [text]
            if len(parts) != len(knobs):
                raise UserError(f"{name} is {text!r}; {self._wanted(name)}")
            for knob, part in zip(knobs, parts, strict=True):
                if knob in result:
                    raise UserError(
                        f"{knob} is given twice, by {given_by[knob]} and {name}={text}; give it once"
                    )
                result[knob], given_by[knob] = part, f"{name}={text}"
        return result

    def _wanted(self, shorthand: str) -> str:
        """How a shorthand is written: "tile wants MxNxK, like 128x256x64"."""
        knobs = self.shorthands[shorthand]
        letters = "x".join(knob.removeprefix(f"{shorthand}_").upper() for knob in knobs)
        defaults = "x".join(str(self._default(knob)) for knob in knobs)
        return f"{shorthand} wants {letters}, like {defaults}"

    def _default(self, knob: str) -> Scalar:
        return next(f.knob(knob).default for f in self.families.values() if knob in {**f.kernel, **f.launch})

    # --- effective form and legality ------------------------------------------------------------

    def effective(self, kernel: KernelConfig, device: DeviceFacts) -> KernelConfig:
        """The kernel CUTLASS will really build: equal effective kernels are equal kernels."""
        family = self.family(kernel.family)
        resolved = self._model(family).resolve(_row(kernel.knobs, family.kernel), device)
        return KernelConfig(family=kernel.family, knobs=resolved.knobs(0))

    def effective_launch(
        self, kernel: KernelConfig, launch: LaunchConfig, problem: Problem, device: DeviceFacts
    ) -> LaunchConfig:
        """What a legal launch will really do on this problem; every launch knob is present."""
        family = self.family(kernel.family)
        config = self._config(kernel, launch, device)
        folded = self._model(family).fold_launch(config, problem, device)
        return LaunchConfig(knobs=folded.knobs(0, tuple(family.launch)))

    def check(
        self, kernel: KernelConfig, launch: LaunchConfig | None, problem: Problem | None, device: DeviceFacts
    ) -> Legality:
        """Every rule broken by an effective or raw config; without a launch or a problem, by the rest of it.

        Give the launch as asked for: folding may hide what is wrong with it.
        """
        family = self.family(kernel.family)
        config = self._config(kernel, launch, device)
        return judge(
            family,
            self._model(family),
            config,
            launched=launch is not None,
            problem=problem,
            device=device,
        )

    def _config(self, kernel: KernelConfig, launch: LaunchConfig | None, device: DeviceFacts) -> Columns:
        family = self.family(kernel.family)
        kernels = self._model(family).resolve(_row(kernel.knobs, family.kernel), device)
        return kernels if launch is None else kernels.joined(_row(launch.knobs, family.launch))

    def _model(self, family: FamilySpace) -> Family:
        return self.op.families[family.name]

    # --- listing --------------------------------------------------------------------------------

    def candidates(
        self, problems: Sequence[Problem], device: DeviceFacts, family: str | None = None
    ) -> Candidates:
        """All legal effective kernels that serve at least one problem (with no problems: all legal ones)."""
        chosen = self.family(family)
        return candidates(chosen, self._model(chosen), problems, device)

    def launches(self, kernel: KernelConfig, problem: Problem, device: DeviceFacts) -> list[LaunchConfig]:
        """All legal effective launches of a kernel on a problem, the default first where it is legal."""
        family = self.family(kernel.family)
        model = self._model(family)
        kernels = model.resolve(_row(kernel.knobs, family.kernel), device)
        found: dict[str, LaunchConfig] = {}
        default = self.launch(family.name)
        if self.check(kernel, default, problem, device).legal:
            default = self.effective_launch(kernel, default, problem, device)
            found[default.key] = default
        for _, raw in grid.blocks(family.launch):
            configs = kernels.joined(raw)
            legal = ~grid.illegal(family, model, configs, device, scope="launch")
            folded = model.fold_launch(configs, problem, device)
            launches = Columns({name: folded[name][legal] for name in family.launch}, raw.alphabets)
            for row in grid.first_of_each(launches).tolist():
                launch = LaunchConfig(knobs=launches.knobs(row))
                found.setdefault(launch.key, launch)
        return list(found.values())

    def restrict(self, fix: Choices | None = None, family: str | None = None) -> Space:
        """The space with knobs held to one value or to a few, and to one family.

        Raises UserError for unknown names or values, and when nothing legal is left.
        """
        chosen = {family: self.family(family)} if family is not None else dict(self.families)
        if fix:
            only = self.family(family)
            chosen = {only.name: _held(only, fix)}
        narrowed = replace(self, families=chosen)
        if fix:
            narrowed._require_a_legal_kernel()
        return narrowed

    def _require_a_legal_kernel(self) -> None:
        device = nominal_device(self.arch)
        for family in self.families.values():
            model = self._model(family)
            for _, raw in grid.blocks(family.kernel, model.needs):
                if not grid.illegal(family, model, model.resolve(raw, device), device).all():
                    break
            else:
                example = self.check(self.kernel(family.name), None, None, device).illegal
                why = "; ".join(f"{broken.rule}: {broken.reason}" for broken in example)
                raise UserError(f"nothing legal is left in family {family.name}: {why}")

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits of what is searched: knobs, values, defaults and rules, without the texts."""
        content = {
            "op": self.op.name,
            "arch": self.arch,
            "families": {
                name: {
                    "knobs": {
                        knob.name: [list(knob.values), knob.default]
                        for knob in (*family.kernel.values(), *family.launch.values())
                    },
                    "rules": {rule.name: rule.kind for rule in family.rules.values()},
                }
                for name, family in self.families.items()
            },
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _filled(
    family: FamilySpace, known: Mapping[str, Knob], given: Mapping[str, Scalar], what: str
) -> dict[str, Scalar]:
    for name, value in given.items():
        if name not in known:
            raise UserError(f"no {what} knob {name!r} in family {family.name}; there are {', '.join(known)}")
        if not known[name].accepts(value):
            raise known[name].refusal(value)
    return {name: given.get(name, knob.default) for name, knob in known.items()}


def _row(knobs: Mapping[str, Scalar], known: Mapping[str, Knob]) -> Columns:
    """A config as a table of one row, in the space's order. Raises UserError for a value no knob can hold."""
    if set(knobs) != set(known):
        wrong = sorted(set(knobs) ^ set(known))
        there = ", ".join(known)
        raise UserError(f"config has other knobs than the space: {', '.join(wrong)}; there are {there}")
    for name, value in knobs.items():
        try:
            known[name].alphabet.encode(value)
        except ValueError:
            raise known[name].refusal(value) from None
    alphabets = {name: knob.alphabet for name, knob in known.items()}
    return one_row({name: knobs[name] for name in known}, alphabets)


def _held(family: FamilySpace, fix: Choices) -> FamilySpace:
    kernel, launch = dict(family.kernel), dict(family.launch)
    for name, choice in fix.items():
        knob = family.knob(name)
        values = choice if isinstance(choice, tuple) else (choice,)
        for value in values:
            if not knob.accepts(value):
                raise knob.refusal(value)
        (kernel if name in kernel else launch)[name] = knob.narrowed(values)
    return replace(family, kernel=kernel, launch=launch)
